"""An intercept that is not regularised, beside LogisticRegression and SVC, and beside one that is: one thread.

    python benches/intercept.py [--full] [DATA ...]

Prints the median time of `fit` as a user calls it, and by how
much the objective with a free intercept lies above the best that anybody found. C = 1. Tables have features 5 from 0, and as many
examples of either class, or one in a hundred of one.
"""

from __future__ import annotations

import one_thread  # noqa: F401, I001 before NumPy

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

import harness
from pegasos import PegasosClassifier
from problems import a9a_sparse, given, table

Rows = tuple[Any, np.ndarray]


def shifted(n: int, rare: float) -> Rows:
    """A dense table, f64, its features 5 from 0, of two classes, one of them rare."""
    X, _ = table(n, dtype=np.float64)
    random = np.random.default_rng(1)
    score = X @ random.standard_normal(X.shape[1]) / 7.0 + 0.7 * random.standard_normal(n)
    return X + 5.0, (score > np.quantile(score, 1.0 - rare)).astype(np.int64)


def objective(loss: str, model: Any, X: Any, y: np.ndarray) -> float:
    """P at C = 1, without the intercept in the norm."""
    coef = (model.coef_.toarray() if issparse(model.coef_) else model.coef_).ravel()
    margins = np.where(y == y.max(), 1.0, -1.0) * (np.asarray(X @ coef) + model.intercept_)
    losses = np.logaddexp(0.0, -margins) if loss == "log_loss" else np.maximum(0.0, 1.0 - margins)
    return float(np.sum(coef**2) / 2.0 / len(y) + losses.mean())


def main() -> None:
    run = harness.begin(__doc__ or "", "data,loss,model,seconds,epochs,above_best")
    warnings.simplefilter("ignore", ConvergenceWarning)
    n, times = run.pick(quick=(20_000, 3), full=(100_000, 5), tiny=(1_000, 1))
    sets: dict[str, Callable[[], Rows]] = {
        "half": lambda: shifted(n, 0.5),
        "rare": lambda: shifted(n, 0.01),
        "a9a": lambda: (given("a9a")[0].astype(np.float64), given("a9a")[1]),
        "a9a csr": lambda: a9a_sparse()[:2],
    }
    for name in run.wanted(sets if run.size != "tiny" else ["half", "rare"]):
        rows_of = harness.load(sets, name)
        if rows_of is None:
            continue
        X, y = rows_of
        for loss in ("log_loss", "hinge"):
            models: dict[str, Callable[[], Any]] = {
                f"{kind} tol={tol}": lambda tol=tol, kind=kind: PegasosClassifier(  # type: ignore[misc]
                    loss, fit_intercept="free" if kind == "free" else True, tol=tol, random_state=0, max_iter=1000
                )
                for kind in ("regularised", "free")
                for tol in (1e-3, 1e-5)
            }
            if loss == "log_loss":
                models["LogisticRegression"] = lambda: LogisticRegression(max_iter=10_000)
            elif len(y) <= 40_000:
                models["SVC"] = lambda: SVC(kernel="linear")
            rows = []
            for model_name, make_model in models.items():
                took = []
                for _ in range(1 if model_name == "SVC" else times):
                    start = time.perf_counter()
                    model = make_model().fit(X, y)
                    took.append(time.perf_counter() - start)
                rows.append((model_name, np.median(took), int(np.max(model.n_iter_)), objective(loss, model, X, y)))
            least = min(row[-1] for row in rows)
            for model_name, seconds, epochs, P in rows:
                run.row(name, loss, model_name, float(seconds), epochs, P / least - 1.0)


if __name__ == "__main__":
    main()
