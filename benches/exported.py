"""What ONNX graphs give beside the models that they are of: labels, scores, probabilities, and their size.

    python benches/exported.py [--full] [DATA ...]

Models are trained on standardised rows in double or in single precision, and their graphs, which take rows of the same
type, run by onnxruntime on the rows to test on. Columns:

* model: "linear", the default; "budget 500", classes jointly; "pairs", the default machine of the first 4000 rows.
* vectors: support vectors, of linear models none; kilobytes: the graph's.
* labels: how many are not those of ``predict``; scores, probabilities: the largest difference.
* exact: the largest difference of the graph's scores from the model's formula, by NumPy in double precision from its
  arrays and distances that are sums of squares, of the first 500 rows.

One thread, though nothing is timed.
"""

import one_thread  # noqa: F401 - before NumPy

import warnings
from typing import Any

import harness
import numpy as np
import onnxruntime
from problems import SETS

from pegasos import KernelPegasosClassifier, PegasosClassifier
from pegasos.onnx import to_onnx

#: Rows whose scores are computed once more.
_SOME = 500

MODELS: dict[str, tuple[Any, int | None]] = {
    "linear": (PegasosClassifier(calibration="temperature", random_state=0, n_jobs=1), None),
    "budget 500": (
        KernelPegasosClassifier(
            budget=500, multi_class="crammer_singer", calibration="temperature", random_state=0, n_jobs=1
        ),
        None,
    ),
    "pairs": (
        KernelPegasosClassifier(
            budget=None, decision_function_shape="ovo", calibration="sigmoid", random_state=0, n_jobs=1
        ),
        4000,
    ),
}


def exact(model: Any, X: np.ndarray) -> np.ndarray:
    """The scores of these rows, by the plainest arithmetic."""
    X = X.astype(np.float64)
    if isinstance(model, PegasosClassifier):
        found = X @ model.coef_.T.astype(np.float64) + model.intercept_
    else:
        params = model._trainer.made.params
        vectors = model.support_vectors_.astype(np.float64)
        squares = np.stack([((x - vectors) ** 2).sum(axis=1) for x in X])
        values = np.exp(-params["gamma"] * squares) + params["constant"] ** 2
        found = values @ model.dual_coef_.T.astype(np.float64)
    return found[:, 0] if found.shape[1] == 1 else found


def main() -> None:
    run = harness.begin(
        __doc__, "data,model,precision,vectors,kilobytes,rows,labels,scores,probabilities,exact"
    )
    names = run.pick(
        quick=["usps"], full=["letter", "usps", "a9a", "covtype15k"], tiny=["checkerboard 100k"]
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    for name in run.wanted(names):
        data = harness.load(SETS, name)
        if data is None:
            continue
        X, y, X_test, _ = data
        n = run.pick(quick=4000, full=len(y), tiny=500)
        for title, (model, most) in MODELS.items():
            for dtype in (np.float64, np.float32):
                rows = slice(min(n, most or n))
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model.fit(X[rows].astype(dtype), y[rows])
                bytes_of = to_onnx(model).SerializeToString()
                session = onnxruntime.InferenceSession(
                    bytes_of, options, providers=["CPUExecutionProvider"]
                )
                rows_of_test = X_test[: run.pick(quick=4000, full=len(X_test), tiny=500)].astype(dtype)
                labels, scores, probabilities = session.run(None, {"X": rows_of_test})
                some = rows_of_test[:_SOME]
                run.row(
                    name,
                    title,
                    np.dtype(dtype).name,
                    len(getattr(model, "dual_coef_", np.empty((1, 0)))[0]),
                    round(len(bytes_of) / 1000),
                    len(rows_of_test),
                    int((labels != model.predict(rows_of_test)).sum()),
                    float(abs(scores - model.decision_function(rows_of_test)).max()),
                    float(abs(probabilities - model.predict_proba(rows_of_test)).max()),
                    float(abs(scores[: len(some)] - exact(model, some)).max()),
                )


if __name__ == "__main__":
    main()
