"""How fast svmlight files become CSR matrices, beside scikit-learn's reader.

    python benches/svmlight.py [--full] [DATA ...]

Prints CSV. Files of 200 MB (20 MB in the quick form), in the system's cache, read by `load_svmlight` on one thread and on
two, and by scikit-learn's `load_svmlight_file`, which has one: in turn, five times (twice the latter). Seconds are the
least, and those of the clock; beside them the least CPU seconds of the process, its system calls included, which a busy
machine disturbs less. Before anything is timed, the readers are compared: same bits. "new process": what a process reads
first, after its imports, the least of three; where the system is a guest of another, that one may have to give it memory.

* ones: 14 of 123 features in a row, of value 1.
* short: 75 of 50,000 features, four digits.
* long: the same, all digits that a float64 needs.
"""

from __future__ import annotations

import one_thread  # noqa: F401, I001 before NumPy

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_svmlight_file

import harness
from pegasos._svmlight import load_svmlight

#: Stored features of a row, features, how a value is written.
SETS: dict[str, tuple[int, int, Callable[[float], str]]] = {
    "ones": (14, 123, lambda value: "1"),
    "short": (75, 50_000, lambda value: f"{value:.4g}"),
    "long": (75, 50_000, repr),
}

Reader = Callable[[Path], tuple[Any, np.ndarray]]

READERS: dict[tuple[str, int], Reader] = {
    ("pegasos", 1): lambda path: load_svmlight(path, n_jobs=1),
    ("pegasos", 2): lambda path: load_svmlight(path, n_jobs=2),
    ("scikit-learn", 1): load_svmlight_file,
}


def write(path: Path, data: str, megabytes: float) -> None:
    """So many rows that it has this size: other rows for the first tenth, which then repeat."""
    stored, n_features, written = SETS[data]
    random = np.random.default_rng(0)
    lines: list[str] = []
    size = 0
    while size < megabytes * 1e5:
        columns = np.sort(random.choice(n_features, stored, replace=False)) + 1
        values = random.random(stored).tolist()
        features = (f"{column}:{written(value)}" for column, value in zip(columns, values, strict=True))
        lines.append(f"{random.choice(['+1', '-1'])} {' '.join(features)}\n")
        size += len(lines[-1])
    path.write_text("".join(lines) * 10)


def same(one: tuple[Any, np.ndarray], other: tuple[Any, np.ndarray]) -> bool:
    (X, y), (Z, z) = one, other
    arrays = zip((X.data, X.indices, X.indptr, y), (Z.data, Z.indices, Z.indptr, z), strict=True)
    return X.shape == Z.shape and all(np.array_equal(a, b) for a, b in arrays)


def timed(read: Reader, path: Path) -> tuple[float, float]:
    """Seconds of the clock and of the processors."""
    wall, cpu = time.perf_counter(), time.process_time()
    read(path)
    return time.perf_counter() - wall, time.process_time() - cpu


_NEW = """
import json, sys, time, scipy.sparse
from pegasos.io import load_svmlight
wall, cpu = time.perf_counter(), time.process_time()
load_svmlight(sys.argv[1], n_jobs=1)
print(json.dumps([time.perf_counter() - wall, time.process_time() - cpu]))
"""


def timed_anew(path: Path) -> tuple[float, float]:
    """The same of one thread, in a process that has read nothing before."""
    done = subprocess.run([sys.executable, "-c", _NEW, str(path)], capture_output=True, text=True, check=True)
    wall, cpu = json.loads(done.stdout)
    return wall, cpu


def main() -> None:
    run = harness.begin(__doc__, "data,reader,threads,MB,stored,seconds,MB/s,CPU seconds", "one or two")
    megabytes = run.pick(quick=20.0, full=200.0, tiny=0.2)
    for data in run.wanted(SETS):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "data.svm"
            write(path, data, megabytes)
            found = [read(path) for read in READERS.values()]
            if not all(same(found[0], other) for other in found[1:]):
                raise AssertionError(f"the readers do not agree on {data}")
            stored, size = found[0][0].nnz, path.stat().st_size / 1e6
            del found
            taken: dict[tuple[str, int], list[tuple[float, float]]] = {key: [] for key in READERS}
            for turn in range(run.pick(quick=5, full=5, tiny=1)):
                for (name, threads), read in READERS.items():
                    if name == "pegasos" or turn < 2:
                        taken[name, threads].append(timed(read, path))
            taken["pegasos, new process", 1] = [timed_anew(path) for _ in range(run.pick(quick=3, full=3, tiny=1))]
        for (name, threads), pairs in taken.items():
            wall, cpu = np.min(pairs, axis=0).tolist()
            run.row(data, name, threads, size, stored, wall, size / wall, cpu)


if __name__ == "__main__":
    main()
