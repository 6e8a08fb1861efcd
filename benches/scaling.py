"""What many workers buy: local Pegasos on parts of the data, averaged in rounds; and what a stream of 10^9 examples needs.

    python benches/scaling.py [--full] [DATA ...]

Prints CSV. Workers are simulated, one after the other, in one process: `split` makes a copy of the model for each, each visits
examples of its own part of the rows, and `merge` averages them, weighted by their numbers (Zinkevich, Weimer, Smola and Li
2010, Algorithm 3, in rounds). Gaps are (P - P*)/P* of the hinge loss over all rows, the mean of three divisions of the rows
(one in the quick form); P* is dual ascent's. Models are means of iterates (average=True). Alpha is 1e-3 throughout: what
counts is alpha n/workers, the steps that a worker has in units of 1/alpha.

* passes: a round is a visit of all rows of a part; the gap after each.
* once: each worker makes so many passes alone, and they are averaged once, at the end: the paper's way.
* stream: one pass over all rows, cut into so many rounds; the gap at its end.
* measured: what one worker does in a second on this machine, on one thread: examples of generated rows, in batches of 10,000
  (the least of three turns, of rows that the model has not met), svmlight text that is parsed; and bytes.
* stream of 10^9: what follows from these for one pass, in ten rounds: hours of training, of parsing text on the same thread, and
  of sending models at 1 Gbit/s to one place and back; GB to read, GB to send, GB in memory.
"""

from __future__ import annotations

import one_thread  # noqa: F401, I001 before NumPy

import pickle
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.datasets import dump_svmlight_file

import harness
import problems
from pegasos import merge, split
from pegasos._svmlight import load_svmlight

WORKERS = (1, 2, 4, 10, 30, 100)
ROUNDS = 20
#: Of the stream of one pass.
CUTS = (1, 3, 10, 30, 100)

#: Of the costs: how many examples, workers, rounds, features of an svmlight file, bytes a second of the network.
EXAMPLES, MANY, AVERAGED, GIGABIT = 10**9, (1, 10, 100), 10, 125e6
BATCH = 10_000

ALPHA = 1e-3

#: Rows, and labels that are 0 and 1.
Problem = tuple[Any, np.ndarray]


def words(n: int) -> Problem:
    X, y = problems.words(n, 1 << 16)
    return X.astype(np.float64), y


def table(n: int) -> Problem:
    return problems.table(n, dtype=np.float64)


def a9a(n: int) -> Problem:
    X, y, *_ = problems.a9a_sparse()
    return X[:n], (y[:n] > 0).astype(int)


def covtype(n: int) -> Problem:
    found = problems.stored("covtype15k")
    X = found["X"][:n].astype(np.float64)
    y = (found["y"][:n] == np.bincount(found["y"]).argmax()).astype(int)
    return (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-12), y


SETS: dict[str, Callable[[int], Problem]] = {"words": words, "table": table, "a9a": a9a, "covtype": covtype}


def objective(model: Any, X: Any, y: np.ndarray) -> float:
    w, b = model.coef_[0].astype(np.float64), float(model.intercept_[0])
    margins = np.where(y == 1, 1.0, -1.0) * (X @ w + b)
    return float(ALPHA / 2 * (w @ w + b * b) + np.maximum(0.0, 1.0 - margins).mean())


def parts_of(n: int, workers: int, seed: int) -> list[np.ndarray]:
    """The rows of each worker, in an order of their own."""
    return np.array_split(np.random.default_rng(seed).permutation(n), workers)


def learned(model: Any, X: Any, y: np.ndarray, pieces: list[np.ndarray]) -> Any:
    """The average of copies of a model, each of which has visited its piece of the rows."""
    pieces = [rows for rows in pieces if len(rows)]
    sizes = [len(rows) for rows in pieces]
    copies = split(model, sizes)
    for copy, rows in zip(copies, pieces, strict=True):
        copy.partial_fit(X[rows], y[rows], classes=[0, 1])
    return merge(copies, sizes)


def simulate(run: harness.Run, data: str, X: Any, y: np.ndarray) -> None:
    n = len(y)
    best = harness.papers_linear(alpha=ALPHA, solver="auto", tol=1e-5, max_iter=10_000, random_state=0).fit(X, y)
    seeds = range(run.pick(quick=1, full=3, tiny=1))

    def fresh(seed: int) -> Any:
        return harness.papers_linear(alpha=ALPHA, average=True, random_state=seed)

    def gap(models: list[Any]) -> float:
        lowest = best.dual_objective_
        return float(np.mean([objective(model, X, y) for model in models]) / lowest - 1.0)

    rounds = run.pick(quick=10, full=ROUNDS, tiny=2)
    for workers in run.pick(quick=WORKERS, full=WORKERS, tiny=(1, 4)):
        divisions = [parts_of(n, workers, seed) for seed in seeds]
        models = [fresh(seed) for seed in seeds]
        apart = [[fresh(seed) for _ in range(workers)] for seed in seeds]
        for done in range(1, rounds + 1):
            models = [learned(model, X, y, pieces) for model, pieces in zip(models, divisions, strict=True)]
            run.row("passes", data, workers, done, "gap", gap(models))
            for copies, pieces in zip(apart, divisions, strict=True):
                for copy, rows in zip(copies, pieces, strict=True):
                    copy.partial_fit(X[rows], y[rows], classes=[0, 1])
            averaged = [merge(copies, [len(rows) for rows in pieces]) for copies, pieces in zip(apart, divisions, strict=True)]
            run.row("once", data, workers, done, "gap", gap(averaged))
        for cuts in run.pick(quick=CUTS, full=CUTS, tiny=(1, 3)):
            if n < cuts * workers:
                continue
            models = [fresh(seed) for seed in seeds]
            for k, pieces in enumerate(divisions):
                cut = [np.array_split(rows, cuts) for rows in pieces]
                for turn in range(cuts):
                    models[k] = learned(models[k], X, y, [of_worker[turn] for of_worker in cut])
            run.row("stream", data, workers, cuts, "gap", gap(models))


def rate(model: Any, X: Any, y: np.ndarray, batches: int, size: int) -> float:
    """Examples a second, of batches after the first."""
    taken = []
    for k in range(batches):
        rows = slice(k * size, (k + 1) * size)
        batch, labels = X[rows], y[rows]
        start = time.perf_counter()
        model.partial_fit(batch, labels, classes=[0, 1])
        taken.append(time.perf_counter() - start)
    return size / min(taken[1:])


def measure(run: harness.Run) -> None:
    size, batches = run.pick(quick=(BATCH, 4), full=(BATCH, 20), tiny=(50, 2))
    n = size * batches
    text = problems.words(n)
    dense = problems.table(n)
    linear, kernel = harness.papers_linear, harness.papers_kernel
    budget = run.pick(quick=500, full=500, tiny=20)
    machines: dict[str, tuple[Any, Any, np.ndarray]] = {
        "43 words of 2^20": (linear(alpha=1e-6, average=True, random_state=0), *text),
        "54 features": (linear(alpha=1e-6, average=True, random_state=0), *dense),
        "54 features, kernel, B = 500": (
            kernel(gamma=1 / 54, alpha=1e-6, budget=budget, maintenance="merge", random_state=0), *dense,
        ),
    }
    for name, (model, X, y) in machines.items():
        few = 4 if "kernel" in name else batches
        found = {"examples/s": rate(model, X, y, min(few, batches), size)}
        found["bytes of the model"] = float(len(pickle.dumps(model)))
        copies = split(model, 10)
        start = time.perf_counter()
        merge(copies)
        found["seconds to merge a model"] = (time.perf_counter() - start) / 10
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.svm"
            rows = slice(0, size)
            dump_svmlight_file(rounded(X[rows]), y[rows], str(path))
            length = path.stat().st_size
            taken = []
            for _ in range(5):
                start = time.perf_counter()
                load_svmlight(path, n_jobs=1)
                taken.append(time.perf_counter() - start)
            found["bytes of text/s"] = length / min(taken)
        found["bytes of text of an example"] = length / size
        arrays = (X[rows].data, X[rows].indices, X[rows].indptr) if issparse(X) else (X[rows],)
        found["bytes of a batch"] = float(sum(array.nbytes for array in arrays))
        for quantity, value in found.items():
            run.row("measured", name, "", "", quantity, value)
        cost(run, name, found)


def rounded(X: Any) -> Any:
    """Values of four digits, as files have them."""
    if not issparse(X):
        return np.round(X.astype(np.float64), 4)
    X = X.astype(np.float64)
    X.data = np.round(X.data, 4)
    return X


def cost(run: harness.Run, name: str, found: dict[str, float]) -> None:
    """What a stream of 10^9 examples needs."""
    text = EXAMPLES * found["bytes of text of an example"]
    model = found["bytes of the model"]
    for workers in MANY:
        training = EXAMPLES / found["examples/s"] / workers
        parsing = text / found["bytes of text/s"] / workers
        sent = 2 * model * workers * AVERAGED if workers > 1 else 0.0
        merging = found["seconds to merge a model"] * workers * AVERAGED if workers > 1 else 0.0
        for quantity, value in {
            "hours of training": training / 3600,
            "hours of parsing": parsing / 3600,
            "hours of sending": sent / GIGABIT / 3600,
            "hours of merging": merging / 3600,
            "hours": (training + parsing + sent / GIGABIT + merging) / 3600,
            "GB of text": text / 1e9,
            "GB of models sent": sent / 1e9,
            "GB of memory of a worker": (2 * model + found["bytes of a batch"]) / 1e9,
            "GB of memory where models are merged": (workers + 1) * model / 1e9,
        }.items():
            run.row("stream of 10^9", name, workers, AVERAGED, quantity, value)


def main() -> None:
    run = harness.begin(__doc__, "part,data,workers,rounds,quantity,value")
    n = run.pick(quick=20_000, full=100_000, tiny=200)
    for data in run.wanted(SETS):
        made = harness.load({data: lambda data=data: SETS[data](n)}, data)  # type: ignore[misc]
        if made is not None:
            simulate(run, data, *made)
    if not run.only:
        measure(run)


if __name__ == "__main__":
    main()
