"""pegasos beside scikit-learn's SGDClassifier on one thread: speed, memory, certificates; and beside the plain loop of the
machine, where rustc is at hand.

    python benches/compare.py

Prints CSV, a comment with the machine and the versions at its head. Times are of `fit` as a user
calls it, validation included; the two are run in turn and their ratio is taken pair by pair, so that
a machine whose speed drifts does not tilt it. A data set that is not at hand is reported as missing.

The plain loop (benches/plain) does order, dot products and updates, for the instructions of this machine, and nothing
else. In the rows that name it, it stands in the place of SGDClassifier, one thread as well.
"""

from __future__ import annotations

import one_thread  # noqa: F401, I001 before NumPy

import argparse
import ctypes
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import SGDClassifier

from harness import head, papers_linear
from pegasos import PegasosClassifier
from problems import news20, table, words

PROBLEMS: dict[str, Callable[[], tuple[Any, np.ndarray]]] = {
    "news20 f32": news20,
    "words f32": words,
    "table f32": table,
    "table f64": lambda: table(dtype=np.float64),
}

# Without an intercept, as the papers train; the same for both.
COMMON: dict[str, Any] = dict(alpha=1e-4, fit_intercept=False, tol=None, random_state=0)


def seconds(estimator: Any, X: Any, y: np.ndarray) -> float:
    start = time.perf_counter()
    estimator.fit(X, y)
    return time.perf_counter() - start


def in_pairs(
    ours: Callable[[], Any], theirs: Callable[[], Any], X: Any, y: np.ndarray, pairs: int
) -> tuple[float, float, float]:
    """Medians of our time, of their time, and of their ratio."""
    seconds(ours(), X, y)
    seconds(theirs(), X, y)
    times = np.array([(seconds(ours(), X, y), seconds(theirs(), X, y)) for _ in range(pairs)])
    return *np.median(times, axis=0), float(np.median(times[:, 1] / times[:, 0]))


def epochs(name: str, X: Any, y: np.ndarray, pairs: int) -> None:
    """One epoch: a fit with max_iter=1. And the marginal epoch: a sixth of max_iter=7 less 1."""
    for sampling in ("shuffle", "blocks"):
        ours = lambda: papers_linear(max_iter=1, sampling=sampling, **COMMON)
        theirs = lambda: SGDClassifier(max_iter=1, **COMMON)
        row("one epoch (s)", name, sampling, *in_pairs(ours, theirs, X, y, pairs))
    few = max(3, pairs // 3)
    for sampling in ("shuffle", "blocks"):
        one, seven = (
            np.median([seconds(papers_linear(max_iter=k, sampling=sampling, **COMMON), X, y)
                       for _ in range(few)]) for k in (1, 7)
        )
        one_sgd, seven_sgd = (
            np.median([seconds(SGDClassifier(max_iter=k, **COMMON), X, y) for _ in range(few)])
            for k in (1, 7)
        )
        ours, theirs = (seven - one) / 6, (seven_sgd - one_sgd) / 6
        row("a further epoch (s)", name, sampling, ours, theirs, theirs / ours)


def beside_plain(name: str, X: Any, y: np.ndarray, pairs: int, library: ctypes.CDLL) -> None:
    """A further epoch beside one of the plain loop, in turn: of ours a fourth of max_iter=5 less 1, of its own the median of
    four after the first."""
    measure = "a further epoch (s), the plain loop for SGDClassifier"
    for sampling, width in (("shuffle", 1), ("blocks", 32)):
        ours = lambda k: papers_linear(max_iter=k, sampling=sampling, **COMMON)
        times = []
        for _ in range(pairs):
            one, five = (seconds(ours(k), X, y) for k in (1, 5))
            times.append(((five - one) / 4, float(np.median(plain_epochs(library, X, y, width, 5)[1:]))))
        ratio = float(np.median([loop / own for own, loop in times]))
        own, loop = np.median(times, axis=0)
        row(measure, name, sampling, own, loop, ratio)


def plain_library(folder: str) -> ctypes.CDLL:
    """The plain loop, compiled for this machine."""
    source, library = Path(__file__).parent / "plain" / "shared.rs", Path(folder) / "plain.so"
    options = ["--edition", "2024", "--crate-type", "cdylib", "-C", "opt-level=3", "-C", "target-cpu=native"]
    subprocess.run(["rustc", *options, "-o", library, source], check=True)
    return ctypes.CDLL(str(library))


def plain_epochs(library: ctypes.CDLL, X: Any, y: np.ndarray, width: int, count: int) -> np.ndarray:
    """The seconds of its epochs, ``width`` rows at a time."""
    dense = isinstance(X, np.ndarray)
    values = X if dense else X.data
    signs, out = np.where(y == y.max(), 1, -1).astype(np.int8), np.empty(count)
    arrays = [None if dense else X.indptr, None if dense else X.indices, values, signs]
    pointers = [array if array is None else ctypes.c_void_p(array.ctypes.data) for array in arrays]
    epochs = library.plain_f32 if values.dtype == np.float32 else library.plain_f64
    sizes = [ctypes.c_size_t(size) for size in (*X.shape, width, count)]
    epochs(*sizes[:2], *pointers, *sizes[2:], ctypes.c_void_p(out.ctypes.data))
    return out


def certificate(name: str, X: Any, y: np.ndarray) -> None:
    """The certified relative gap after one epoch; SGDClassifier has none."""
    for sampling in ("shuffle", "blocks"):
        model = papers_linear(sampling=sampling, max_iter=1, **(COMMON | dict(tol=1e-9)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, y)
        gap = model.duality_gap_ / model.objective_
        row("relative gap after one epoch", name, sampling, gap, np.nan, np.nan)


def memory(name: str) -> None:
    """What fit adds to the process's peak, as a fraction of the input; in a process of its own."""
    command = [sys.executable, __file__, "--memory-of", name]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    ours, theirs = map(float, done.stdout.split())
    row("memory added by fit (of X)", name, "shuffle", ours, theirs, theirs / ours if ours > 0.0 else np.nan)


def status(field: str) -> int:
    """A field of /proc/self/status, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return 1024 * int(line.split()[1])
    raise OSError(f"/proc/self/status has no {field}")


def memory_of(name: str) -> None:
    X, y = PROBLEMS[name]()
    arrays = [X] if isinstance(X, np.ndarray) else [X.data, X.indices, X.indptr]
    size = sum(array.nbytes for array in arrays)
    added = []
    for make in (PegasosClassifier, SGDClassifier):
        small = X[:1000]
        make(max_iter=1, **COMMON).fit(small, y[:1000])  # whatever is loaded at first use
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
        before = status("VmRSS")
        model = make(max_iter=1, **COMMON).fit(X, y)
        added.append((status("VmHWM") - before) / size)
        del model
    print(*added)


def row(measure: str, problem: str, sampling: str, ours: float, sgd: float, ratio: float) -> None:
    print(f"{measure},{problem},{sampling},{ours:.5g},{sgd:.5g},{ratio:.4g}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=11, help="timed pairs per figure (11)")
    parser.add_argument("--memory-of", choices=PROBLEMS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory_of:
        memory_of(options.memory_of)
        return
    head(
        f"benches/compare.py --pairs {options.pairs}",
        "measure,problem,sampling,pegasos,SGDClassifier,ratio",
    )
    library = None
    if shutil.which("rustc"):
        with tempfile.TemporaryDirectory() as folder:
            library = plain_library(folder)
    else:
        print("# missing: rustc, for the plain loop")
    for name, make in PROBLEMS.items():
        try:
            X, y = make()
        except FileNotFoundError as missing:
            print(f"# missing: {missing}")
            continue
        epochs(name, X, y, options.pairs)
        if library is not None:
            beside_plain(name, X, y, options.pairs, library)
        certificate(name, X, y)
        del X, y
        memory(name)


if __name__ == "__main__":
    main()
