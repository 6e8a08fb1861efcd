"""Models as headers for C: bytes of their arrays and of their code, and what they give beside the models.

    python benches/devices.py [--full] [DATA ...]

Headers are compiled by `cc -Os` for this machine. Columns:

* model: "linear"; "budget 50" and "budget 200", one class against the rest; "pairs", the default machine of the first
  1000 rows.
* vectors: support vectors, of linear models none; arrays, stack: bytes, and multiplications, as the header's comment says.
* code: bytes of instructions of an object file that predicts, without what it calls of `<math.h>`.
* labels: of how many rows to test on the class is not that of ``predict``.
* scores: the largest difference, over the largest score.

One thread, though nothing is timed.
"""

import one_thread  # noqa: F401 - before NumPy

import ctypes
import re
import subprocess
import tempfile
import warnings
from pathlib import Path
from typing import Any

import harness
import numpy as np
from problems import SETS, Split, split
from sklearn.datasets import load_digits

import pegasos
from pegasos import KernelPegasosClassifier, PegasosClassifier
from pegasos._predictor import Predictor

MODELS: dict[str, tuple[Any, int | None]] = {
    "linear": (PegasosClassifier(random_state=0, n_jobs=1), None),
    "budget 50": (KernelPegasosClassifier(budget=50, multi_class="ovr", random_state=0, n_jobs=1), None),
    "budget 200": (KernelPegasosClassifier(budget=200, multi_class="ovr", random_state=0, n_jobs=1), None),
    "pairs": (KernelPegasosClassifier(budget=None, random_state=0, n_jobs=1), 1000),
}


def digits() -> Split:
    """Pictures of 8 x 8, values from 0 to 1."""
    X, y = load_digits(return_X_y=True)
    return split(X / 16.0, y, 1000)


CALLS = """
#include "model.h"

int one(const REAL *x) { return model_predict(x); }

#ifdef MANY
void many(const REAL *x, size_t n, int *codes, REAL *scores)
{
    for (size_t i = 0; i < n; ++i) {
        codes[i] = model_predict(x + i * MODEL_FEATURES);
        model_scores(x + i * MODEL_FEATURES, scores + i * MODEL_OUTPUTS);
    }
}
#endif
"""


def code_of(folder: Path, command: list[str]) -> int:
    """Bytes of instructions of an object file."""
    subprocess.run([*command, "-c", "-o", str(folder / "one.o")], check=True)
    sections = subprocess.run(["size", "-A", str(folder / "one.o")], capture_output=True, text=True, check=True)
    return sum(int(size) for size in re.findall(r"^\.text\S* +(\d+)", sections.stdout, re.MULTILINE))


def main() -> None:
    run = harness.begin(
        __doc__, "data,model,precision,vectors,arrays,stack,multiplications,code,rows,labels,scores"
    )
    names = run.pick(quick=["digits"], full=["digits", "letter", "usps", "a9a"], tiny=["digits"])
    for name in run.wanted(names):
        data = harness.load({"digits": digits, **SETS}, name)
        if data is None:
            continue
        X, y, X_test, _ = data
        n = run.pick(quick=len(y), full=len(y), tiny=300)
        for title, (model, most) in MODELS.items():
            for dtype in (np.float32, np.float64):
                rows = slice(min(n, most or n))
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model.fit(X[rows].astype(dtype), y[rows])
                with tempfile.TemporaryDirectory() as folder:
                    found = figures(model, X_test[:4000].astype(dtype), Path(folder))
                run.row(name, title, np.dtype(dtype).name, *found)


def figures(model: Any, X: np.ndarray, folder: Path) -> list[Any]:
    """What there is to say of one model."""
    pegasos.save(model, folder / "model")
    predictor = Predictor(folder / "model")
    header = predictor.to_c()
    (folder / "model.h").write_text(header)
    (folder / "calls.c").write_text(CALLS)
    real = "float" if X.dtype == np.float32 else "double"
    command = ["cc", "-std=c99", "-Os", "-fPIC", f"-DREAL={real}", str(folder / "calls.c")]
    code = code_of(folder, command)
    subprocess.run([*command, "-DMANY", "-shared", "-o", str(folder / "calls.so"), "-lm"], check=True)
    library = ctypes.CDLL(str(folder / "calls.so"))
    X = np.ascontiguousarray(X)
    expected = predictor._scores(X)
    codes, scores = np.empty(len(X), np.intc), np.empty(len(expected), X.dtype)

    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (X, codes, scores)]
    library.many(pointers[0], ctypes.c_size_t(len(X)), *pointers[1:])
    arrays, stack, products = (int(found) for found in re.findall(r"(?:Arrays|Stack|A row): (\d+) ", header))
    return [
        predictor.n_vectors or 0,
        arrays,
        stack,
        products,
        code,
        len(X),
        int((predictor.classes_[codes] != predictor.predict(X)).sum()),
        float(abs(scores - expected).max() / abs(expected).max()),
    ]


if __name__ == "__main__":
    main()
