"""From a file of svmlight text to a linear model: batches with a cache, beside a matrix at once, and Vowpal Wabbit.

    python benches/stream.py [--full] [DATA ...]

Prints CSV. 400 MB of svmlight text (40 MB in the quick form), five epochs, rows held out. Each way is a process of
its own, one after the other, twice in turn; seconds are those of the fastest, from the open file to the model,
without imports; beside those of the clock the seconds of processors, which a busy machine disturbs less. Peak memory
is the largest of the process (VmHWM, as `ru_maxrss` begins with that of who started it), its imports included; "at
start" what it was before the file was opened. alpha is 1/n; ours averages its iterates, whose last are noisy.

* text: 75 of 2^18 features in a row, few of them frequent; labels by a hyperplane, one in ten at random. Four digits.
* short: 14 of 2^14 features, of two digits.

The ways:

* pegasos: `stream` with a cache that is not there yet, batches of 20,000 rows, `partial_fit`; windows of 40,000 rows
  are shuffled, runs from all over the file. "kept cache": it is there. "in order": without shuffling. "float32": of
  numbers in single precision, as vw's; "two threads": the text is parsed by two, and later one takes care of the next
  batch. "no cache": the text is parsed in every epoch, after a pass that finds the number of features; windows are of
  neighbours.
* matrix: `load_svmlight`, then `fit` of so many epochs, for what fits into memory; in double precision, in single precision
  as vw's, and with the text parsed by two threads.
* scikit-learn: `load_svmlight_file`, then `SGDClassifier` of so many epochs.
* vw: the same rows in its own format, `--cache_file`, in order. It has a thread that reads beside the one that
  learns. By the wheel `vowpalwabbit`, of the Python that the variable VW_PYTHON names, or this; left out where that
  has none.

"long" is a file of 2 GB, the rows of "text" again and again, and one epoch of ours with 2^20 features: for the memory.
"""

from __future__ import annotations

import one_thread  # noqa: F401, I001 before NumPy

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import harness

#: Stored features of a row, features, digits of a value.
SETS = {"text": (75, 2**18, 4), "short": (14, 2**14, 2)}

#: Rows that are written at a time.
_ROWS = 5_000

#: Begins what measures itself in a process of its own.
_HEAD = """
import json, re, sys, time
peak = lambda: int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]) / 1024
found = []
def begin():
    found[:] = [time.perf_counter(), time.process_time(), peak()]
def end():
    found[0], found[1] = time.perf_counter() - found[0], time.process_time() - found[1]
    found.append(peak())
train, test, epochs, n_features, n_rows = *sys.argv[1:3], *map(int, sys.argv[3:6])
"""

_PEGASOS = (
    _HEAD
    + """
options = json.loads(sys.argv[6])
from pegasos import PegasosClassifier
from pegasos.io import stream
begin()
model = PegasosClassifier("hinge", alpha=1 / n_rows, average=True, random_state=0, n_jobs=1)
for X, y in stream(train, passes=epochs, random_state=0, **options):
    model.partial_fit(X, y, classes=[-1, 1])
end()
right = total = 0
for X, y in stream(test, 20_000, n_features=model.n_features_in_, zero_based=False):
    right, total = right + (model.predict(X) == y).sum(), total + len(y)
print(json.dumps([*found, right / total]))
"""
)

_MATRIX = (
    _HEAD
    + """
options = json.loads(sys.argv[6])
from pegasos import PegasosClassifier
from pegasos.io import load_svmlight
begin()
X, y = load_svmlight(train, **options)
model = PegasosClassifier("hinge", solver="pegasos", alpha=1 / n_rows, max_iter=epochs, tol=None, average=True, random_state=0, n_jobs=1)
model.fit(X, y)
end()
print(json.dumps([*found, model.score(*load_svmlight(test, n_features=X.shape[1]))]))
"""
)

_SKLEARN = (
    _HEAD
    + """
from sklearn.datasets import load_svmlight_file
from sklearn.linear_model import SGDClassifier
begin()
X, y = load_svmlight_file(train, n_features=n_features)
# Which it gives as int64, and SGDClassifier does not take.
X.indices, X.indptr = X.indices.astype("int32"), X.indptr.astype("int32")
model = SGDClassifier("hinge", alpha=1 / n_rows, max_iter=epochs, tol=None, random_state=0).fit(X, y)
end()
print(json.dumps([*found, model.score(*load_svmlight_file(test, n_features=n_features))]))
"""
)

_VW = (
    _HEAD
    + """
import os
try:
    import vowpalwabbit
except ImportError:
    print("null")
    sys.exit()
begin()
cache = train + ".cache"
model = vowpalwabbit.Workspace(
    f"-d {train} --cache_file {cache} -k --passes {epochs} --loss_function hinge --holdout_off -b 18 --quiet"
)
end()
right = total = 0
with open(test) as file:
    for line in file:
        label, features = line.split(" ", 1)
        right, total = right + ((model.predict(features) > 0) == (int(label) > 0)), total + 1
os.unlink(cache)
print(json.dumps([*found, right / total]))
"""
)


def write(folder: Path, data: str, megabytes: float) -> tuple[int, int]:
    """Files of rows, and of a twentieth as many others, in both formats; how many rows they are, and stored values."""
    stored, n_features, digits = SETS[data]
    random = np.random.default_rng(0)
    truth = random.standard_normal(n_features) / np.sqrt(1 + np.arange(n_features) / 1000)
    n_rows = n_stored = size = 0
    with open(folder / "train.svm", "w") as ours, open(folder / "train.vw", "w") as theirs:
        while size < megabytes * 1e6:
            lines, count = some_rows(random, truth, stored, digits)
            size += ours.write("".join(f"{label} {row}\n" for label, row in lines))
            theirs.write("".join(f"{label} | {row}\n" for label, row in lines))
            n_rows, n_stored = n_rows + len(lines), n_stored + count
    with open(folder / "test.svm", "w") as ours, open(folder / "test.vw", "w") as theirs:
        for _ in range(-(-n_rows // (20 * _ROWS))):
            lines, _ = some_rows(random, truth, stored, digits)
            ours.write("".join(f"{label} {row}\n" for label, row in lines))
            theirs.write("".join(f"{label} | {row}\n" for label, row in lines))
    return n_rows, n_stored


def some_rows(
    random: np.random.Generator, truth: np.ndarray, stored: int, digits: int
) -> tuple[list[tuple[int, str]], int]:
    """Labels and rows as text, and how many values they store."""
    lines, count = [], 0
    for _ in range(_ROWS):
        columns = np.unique((len(truth) * random.random(stored) ** 3).astype(int))
        values = random.random(len(columns)) / np.sqrt(stored)
        label = 1 if values @ truth[columns] > 0 else -1
        label = int(random.choice([-1, 1])) if random.random() < 0.1 else label
        pairs = zip((columns + 1).tolist(), values.tolist(), strict=True)
        lines.append((label, " ".join(f"{column}:{value:.{digits}g}" for column, value in pairs)))
        count += len(columns)
    return lines, count


def child(code: str, *arguments: Any) -> list[float] | None:
    """What a way measures of itself: seconds by the clock and of processors, memory before and at most, accuracy."""
    python = os.environ.get("VW_PYTHON", sys.executable) if code is _VW else sys.executable
    command = [python, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    found: list[float] | None = json.loads(done.stdout.splitlines()[-1])
    return found


#: Settings of ours, and the arguments of `stream`.
OURS: dict[str, dict[str, Any]] = {
    "cache": {"cache": True, "shuffle": 40_000},
    "kept cache": {"cache": True, "shuffle": 40_000},
    "cache, in order": {"cache": True},
    "no cache": {"shuffle": 40_000},
    "float32": {"cache": True, "shuffle": 40_000, "dtype": "float32"},
    "float32, two threads": {"cache": True, "shuffle": 40_000, "dtype": "float32", "n_jobs": 2},
}

#: Arguments of `load_svmlight`.
MATRICES: dict[str, dict[str, Any]] = {
    "matrix": {"dtype": "float64", "n_jobs": 1},
    "matrix, float32": {"dtype": "float32", "n_jobs": 1},
    "matrix, float32, two threads": {"dtype": "float32", "n_jobs": 2},
}


def main() -> None:
    columns = "data,MB,rows,stored,epochs,way,seconds,CPU seconds,MB at start,peak MB,accuracy"
    run = harness.begin(__doc__, columns, "one, of vw two")
    megabytes, turns = run.pick(quick=40.0, full=400.0, tiny=1.0), run.pick(quick=2, full=2, tiny=1)
    for data in run.wanted([*SETS, "long"]):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            if data == "long":
                long(run, folder, megabytes)
                continue
            n_rows, stored = write(folder, data, megabytes)
            size = (folder / "train.svm").stat().st_size / 1e6
            best: dict[str, list[float]] = {}
            for _ in range(turns):
                for way in [*(f"pegasos, {setting}" for setting in [*OURS, *MATRICES]), "scikit-learn", "vw"]:
                    found = measured(way, folder, SETS[data][1], n_rows)
                    if found is not None and found[0] < best.get(way, [np.inf])[0]:
                        best[way] = found
            for way, found in best.items():
                run.row(data, size, n_rows, stored, 5, way, *found)
            if "vw" not in best:
                print("# missing: vowpalwabbit", flush=True)


def measured(way: str, folder: Path, n_features: int, n_rows: int) -> list[float] | None:
    train, test, cache = folder / "train.svm", folder / "test.svm", folder / "train.svm.pegasos-cache"
    if way == "vw":
        return child(_VW, folder / "train.vw", folder / "test.vw", 5, n_features, n_rows)
    if way == "scikit-learn":
        return child(_SKLEARN, train, test, 5, n_features, n_rows)
    setting = way.removeprefix("pegasos, ")
    if setting in MATRICES:
        return child(_MATRIX, train, test, 5, n_features, n_rows, json.dumps(MATRICES[setting]))
    if setting != "kept cache":
        cache.unlink(missing_ok=True)
    options = {"batch_size": 20_000, "n_jobs": 1} | OURS[setting]
    return child(_PEGASOS, train, test, 5, n_features, n_rows, json.dumps(options))


def long(run: harness.Run, folder: Path, megabytes: float) -> None:
    """One epoch of a file that is five times as large, for a model of 2^20 features."""
    n_rows, stored = write(folder, "text", megabytes)
    text = (folder / "train.svm").read_bytes()
    with open(folder / "train.svm", "ab") as file:
        for _ in range(4):
            file.write(text)
    size = len(text) * 5 / 1e6
    for setting in ("cache", "no cache"):
        own = {"batch_size": 1000, "n_jobs": 1, "n_features": 2**20, "zero_based": False, "shuffle": 10_000}
        options = OURS[setting] | own
        found = child(_PEGASOS, folder / "train.svm", folder / "test.svm", 1, 2**20, 5 * n_rows, json.dumps(options))
        assert found is not None
        run.row("long", size, 5 * n_rows, 5 * stored, 1, f"pegasos, {setting}", *found)


if __name__ == "__main__":
    main()
