"""In which order to visit the examples: suboptimality against epochs for four ways of sampling.

    python benches/orders.py [--full | --tiny]

Pegasos 2011, section 7.5: draws with replacement, one permutation for all epochs, a fresh one for each; beside them our
permutation of blocks of 32 rows. Plain Pegasos, last iterate, no intercept, float64. Prints CSV:

* data, alpha: the problem. Of covtype15k class 2 is told from the rest.
* order: "replacement", "fixed", "shuffle" (fresh rows), "blocks" (fresh blocks).
* epoch: how many times n examples were visited.
* mean, least, most: (P(w) - D*)/D* over several seeds, where D* is the dual objective of a solve to a relative gap of
  1e-6. No w has an objective below D*, so these are never below the truth, and above it by at most 1e-6.
"""

from __future__ import annotations

import one_thread  # noqa: F401, I001 before NumPy

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import harness
from harness import papers_linear
from pegasos import PegasosClassifier
from problems import SETS, table, words

ORDERS = ("replacement", "fixed", "shuffle", "blocks")
EPOCHS = (1, 2, 3, 4, 5, 7, 10, 14, 20, 30, 50)


def class_2(name: str) -> Callable[[], Any]:
    """A set of several classes as a binary one: the second class against the rest."""

    def make() -> Any:
        X, y, X_test, y_test = SETS[name]()
        second = np.unique(y)[1]
        return X, y == second, X_test, y_test == second

    return make


REAL = {
    "news20": SETS["news20"],
    "a9a {0,1}": SETS["a9a {0,1}"],
    "covtype15k": class_2("covtype15k"),
}

#: Strengths of the regularisation, such that alpha n is neither tiny nor large.
ALPHAS = {"table": 1e-3, "words": 1e-4, "news20": 1e-4, "a9a {0,1}": 1e-3, "covtype15k": 1e-3}


def problems(run: harness.Run, *, full: int) -> Iterator[tuple[str, Any, np.ndarray, float]]:
    """The problems of this program and its neighbours: name, rows in float64, classes -1 and 1, alpha."""
    n = run.pick(quick=20_000, full=full, tiny=500)
    made = {
        "table": lambda: table(n, dtype=np.float64),
        "words": lambda: words(n, d=run.pick(quick=1 << 16, full=1 << 18, tiny=1 << 10)),
    }
    for name, alpha in ALPHAS.items():
        data = harness.load(made | REAL, name)
        if data is not None:
            X, y = data[:2]
            rows = slice(run.pick(quick=None, full=None, tiny=500))
            yield name, X[rows].astype(np.float64), np.where(y[rows] == y.max(), 1, -1), alpha


def objective(w: np.ndarray, X: Any, y: np.ndarray, alpha: float) -> float:
    """P(w)."""
    return float(alpha / 2 * w @ w + np.maximum(0.0, 1.0 - y * (X @ w)).mean())


def optimum(X: Any, y: np.ndarray, alpha: float, tol: float = 1e-6) -> PegasosClassifier:
    """A model whose objective and whose dual objective enclose min P as narrowly as tol."""
    model = papers_linear(alpha=alpha, fit_intercept=False, tol=tol, max_iter=20_000, random_state=0)
    return model.fit(X, y)


def suboptimality(
    order: str, seed: int, epochs: list[int], X: Any, y: np.ndarray, alpha: float, least: float
) -> Iterator[float]:
    """Of the last iterate after these epochs. An epoch is a call of partial_fit: the bits of one long fit."""
    fixed = np.random.default_rng(seed).permutation(len(y))
    model = papers_linear(
        alpha=alpha, fit_intercept=False, solver="pegasos", tol=None, random_state=seed,
        sampling=fixed if order == "fixed" else order,
    )
    for epoch in range(1, epochs[-1] + 1):
        model.partial_fit(X, y, classes=[-1, 1])
        if epoch in epochs:
            yield (objective(model.coef_[0], X, y, alpha) - least) / least


def main() -> None:
    run = harness.begin(__doc__, "data,alpha,order,epoch,mean,least,most")
    warnings.simplefilter("ignore", ConvergenceWarning)
    seeds = run.pick(quick=5, full=20, tiny=2)
    epochs = [epoch for epoch in EPOCHS if epoch <= run.pick(quick=30, full=50, tiny=3)]
    for name, X, y, alpha in problems(run, full=50_000):
        least = optimum(X, y, alpha).dual_objective_
        for order in ORDERS:
            curves = zip(*(
                suboptimality(order, seed, epochs, X, y, alpha, least) for seed in range(seeds)
            ), strict=True)
            for epoch, values in zip(epochs, curves, strict=True):
                run.row(name, alpha, order, epoch, float(np.mean(values)), min(values), max(values))


if __name__ == "__main__":
    main()
