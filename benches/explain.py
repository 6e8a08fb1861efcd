"""Exact Shapley values beside shap's KernelExplainer, which samples coalitions: times, and its errors.

    python benches/explain.py [--full]

Needs shap; without it the columns of KernelExplainer are nan. Both explain the decision function of the same machine by the
same rows of a background, KernelExplainer by its default number of samples, 2 features + 2048 (of 8 features all 254
coalitions). Rows are drawn from a normal distribution, features are told apart by products and sums; gamma is "scale" but
where the setting says otherwise. Columns:

* vectors, features, scores, background: sizes; scores are those of two classes, or of the pairs of four.
* ours, theirs: seconds of processor time to explain a row, on one thread, the best of five calls, taken in turn. Ours
  explain twenty rows in a call, theirs three.
* ratio: theirs over ours.
* error: the largest difference of the two, over the largest value. Ours are exact but for rounding: `exact` is the
  largest difference of base value and values from the score, over the largest value; tests hold the values to all
  coalitions' sum.
"""

from __future__ import annotations

import one_thread  # noqa: F401, I001 before NumPy

import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

import numpy as np

import harness
from pegasos import KernelPegasosClassifier
from pegasos.explain import shapley

shap: Any = None
with suppress(ImportError):
    shap = import_module("shap")


def seconds(*works: tuple[Callable[[], Any], int]) -> list[tuple[float, Any]]:
    """A row's, and what was made, of work for so many rows: in turn, so that whatever slows the machine slows all."""
    best: list[tuple[float, Any]] = [(np.inf, None)] * len(works)
    for _ in range(5):
        for k, (work, rows) in enumerate(works):
            start = time.process_time()
            made = work()
            best[k] = min(best[k][0], (time.process_time() - start) / rows), made
    return best


def main() -> None:
    run = harness.begin(__doc__, "vectors,features,scores,background,setting,ours,theirs,ratio,error,exact")
    print(f"# shap {shap.__version__}" if shap is not None else "# missing: shap", flush=True)
    sizes: list[tuple[int, int, int, int, float, str]] = [
        # vectors, features, classes, rows of the background, gamma over that of "scale", dtype
        (500, 8, 2, 100, 1.0, "float64"),
        (500, 10, 2, 100, 1.0, "float64"),
        (500, 30, 2, 1, 1.0, "float64"),
        (500, 30, 2, 10, 1.0, "float64"),
        (500, 30, 2, 100, 1.0, "float64"),
        (500, 30, 2, 1, 1.0, "float32"),
        (500, 30, 2, 100, 1.0, "float32"),
        (500, 30, 2, 100, 0.1, "float64"),
        (500, 30, 2, 100, 10.0, "float64"),
        (500, 30, 2, 100, 10.0, "float32"),
        (500, 30, 4, 100, 1.0, "float64"),
        (500, 100, 2, 100, 1.0, "float64"),
        (500, 100, 2, 100, 1.0, "float32"),
        (500, 784, 2, 10, 1.0, "float64"),
        (2000, 30, 2, 100, 1.0, "float64"),
    ]
    for vectors, d, classes, rows, factor, dtype in run.pick(full=sizes, quick=sizes[2:5], tiny=sizes[2:3]):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(run.pick(full=6 * vectors, quick=1500, tiny=600), d)).astype(dtype)
        tells = X[:, 0] * X[:, 1] + X[:, 2]
        y = np.digitize(tells, np.quantile(tells, np.linspace(0, 1, classes + 1)[1:-1]))
        gamma = factor / (d * float(X.var()))
        model = KernelPegasosClassifier(
            gamma=gamma, budget=vectors, decision_function_shape="ovo", n_jobs=1, random_state=0
        ).fit(X, y)
        background, some = X[:rows], X[-run.pick(full=20, quick=20, tiny=2) :]
        few = run.pick(full=3, quick=2, tiny=1)
        works = [(lambda: shapley(model, some, background=background, n_jobs=1), len(some))]
        if shap is not None:
            explainer = shap.KernelExplainer(model.decision_function, background)
            works.append((lambda: explainer.shap_values(some[:few], silent=True), few))
        (ours, found), *others = seconds(*works)
        size = float(abs(found.values).max())
        scores = model.decision_function(some)
        exact = float(abs(found.base_values + found.values.sum(axis=1) - scores).max()) / size
        theirs, error = np.nan, np.nan
        for theirs, estimates in others:
            error = float(abs(estimates - found.values[:few]).max()) / size
        setting = dtype if factor == 1.0 else f"{dtype}, gamma times {factor:g}"
        outputs = found.values.shape[2] if found.values.ndim == 3 else 1
        run.row(len(model.support_vectors_), d, outputs, rows, setting, ours, theirs, theirs / ours, error, exact)


if __name__ == "__main__":
    main()
