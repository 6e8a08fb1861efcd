"""What the theory promises beside what happens: the bound on averaged losses, the certificate of the duality gap.

    python benches/theory.py [--full | --tiny]

K. Stratos, "Notes on Pegasos", section 2, and the dual point that docs/linear.md explains. The problems of orders.py,
no intercept, float64. Prints CSV, two parts.

* part "bound": Lemma 2.1 and equation 6. With J_t the objective on the batch of step t and w* the optimum, the mean of
  J_t(w_t) - J_t(w*) over T steps of 1/(alpha t) is at most 2 R^2 (1 + ln T)/(alpha T), R the longest row. Steps and
  losses are those of the pseudo-code, spelt out in NumPy; a comment says how far the package's w is from its w.
* setting: "1", batches of one example drawn with replacement; "all", the whole set in each step.
* count: T.
* value: the mean of J_t(w_t) - J_t(w*).
* bound: equation 6.
* lemma: Lemma 2.1, with G the largest gradient met until then: G^2 (1 + ln T)/(2 alpha T).
* average: P(w) - P(w*) of the mean of the iterates. It is under the bound in "all" by equation 6, in "1" only with high
  probability and other constants (the package's mean there, of w_2, ..., w_{T+1}).
* last: P(w) - P(w*) of the last iterate, of which these bounds say nothing.

* part "certificate": what a fit knows of its error, and its error, both divided by D*, the dual objective of a solve to
  a relative gap of 1e-8. After a gap below 1e-6 there are no more rows.
* setting: "pegasos", plain, fresh permutations; "auto", which goes on by dual ascent.
* count: epochs.
* value: P(w) - D*; never below the error, above it by at most 1e-8.
* bound: P(w) - D, the duality gap that the fit reports.
"""

from __future__ import annotations

import one_thread  # noqa: F401, I001 before NumPy

import warnings
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.extmath import row_norms

import harness
from orders import objective, optimum, problems
from harness import papers_linear
from pegasos import PegasosClassifier

EPOCHS = (1, 2, 3, 4, 5, 7, 10, 14, 20, 30, 50, 70, 100)


def points(last: int) -> list[int]:
    """1, 2, 3, 6, 10, 18, 32, ... up to the last."""
    return sorted({*np.rint(10 ** np.arange(0, np.log10(last), 0.25)).astype(int).tolist(), last})


class Course:
    """Losses and gradients along the steps of Pegasos, for as many steps as there are."""

    def __init__(self, steps: int) -> None:
        self.loss = np.empty(steps)  # J_t(w_t)
        self.best = np.empty(steps)  # J_t(w*)
        self.gradient = np.empty(steps)  # its norm, squared

    def beside(self, steps: int, alpha: float, radius: float) -> tuple[float, float, float]:
        """The mean of J_t(w_t) - J_t(w*), equation 6, Lemma 2.1."""
        rate = (1.0 + np.log(steps)) / (alpha * steps)
        return (
            float(np.mean(self.loss[:steps] - self.best[:steps])),
            float(2.0 * radius**2 * rate),
            float(self.gradient[:steps].max() / 2.0 * rate),
        )


def one_by_one(
    X: sp.csr_matrix, y: np.ndarray, alpha: float, order: np.ndarray, best: np.ndarray
) -> tuple[Course, np.ndarray]:
    """Pegasos, an example a step; its last w. With v the sum of y x over violations, w_t is v/(alpha (t - 1))."""
    course = Course(len(order))
    squared = row_norms(X, squared=True)
    course.best[:] = (alpha / 2 * best @ best + np.maximum(0.0, 1.0 - y * (X @ best)))[order]
    v = np.zeros(X.shape[1])
    w_squared = v_squared = scale = 0.0
    for t, i in enumerate(order, 1):
        row = slice(X.indptr[i], X.indptr[i + 1])
        columns, x = X.indices[row], X.data[row]
        product = y[i] * (v[columns] @ x)
        margin = product * scale
        w_squared = v_squared * scale**2
        course.loss[t - 1] = alpha / 2 * w_squared + max(0.0, 1.0 - margin)
        course.gradient[t - 1] = alpha**2 * w_squared
        if margin < 1.0:
            course.gradient[t - 1] += squared[i] - 2.0 * alpha * margin
            v_squared += squared[i] + 2.0 * product
            v[columns] += y[i] * x
        scale = 1.0 / (alpha * t)
    return course, v * scale


def all_at_once(
    X: sp.csr_matrix, y: np.ndarray, alpha: float, steps: int, best: np.ndarray, at: list[int]
) -> tuple[Course, np.ndarray, dict[int, list[float]]]:
    """Pegasos, every example in every step; its last w; P of the mean iterate and of the last, at some steps."""
    course = Course(steps)
    course.best[:] = objective(best, X, y, alpha)
    v, w, total = (np.zeros(X.shape[1]) for _ in range(3))
    ends: dict[int, list[float]] = {}
    for t in range(1, steps + 1):
        margins = y * (X @ w)
        step = X.T @ np.where(margins < 1.0, y, 0.0) / len(y)
        course.loss[t - 1] = alpha / 2 * w @ w + np.maximum(0.0, 1.0 - margins).mean()
        gradient = alpha * w - step
        course.gradient[t - 1] = gradient @ gradient
        total += w
        v += step
        w = v / (alpha * t)
        if t in at:
            ends[t] = [objective(total / t, X, y, alpha), objective(w, X, y, alpha)]
    return course, w, ends


def difference(w: np.ndarray, ours: PegasosClassifier) -> str:
    relative = np.abs(ours.coef_[0] - w).max() / np.abs(w).max()
    return f"the package's w differs from the pseudo-code's by {relative:.1g}"


def bounds(run: harness.Run, name: str, X: sp.csr_matrix, y: np.ndarray, alpha: float, exact: Any) -> list[bool]:
    """The rows of "bound" of one problem, and whether all that is promised to be under them was."""
    radius = float(row_norms(X).max())
    best, least = exact.coef_[0], exact.objective_
    plain = papers_linear(alpha=alpha, fit_intercept=False, solver="pegasos", tol=None)
    held = []

    at = points(run.pick(quick=100_000, full=1_000_000, tiny=1000))
    order = np.random.default_rng(0).integers(0, len(y), at[-1])
    course, w = one_by_one(X, y, alpha, order, best)
    mean, last = clone(plain).set_params(average=1), clone(plain)
    for start, steps in pairwise([0, *at]):
        for model in (mean, last):
            model.set_params(sampling=order[start:steps]).partial_fit(X, y, classes=[-1, 1])
        ends = [objective(model.coef_[0], X, y, alpha) - least for model in (mean, last)]
        value, bound, lemma = course.beside(steps, alpha, radius)
        run.row("bound", name, alpha, "1", steps, value, bound, lemma, *ends)
        held.append(value <= min(bound, lemma))
    print(f"# {name}, batches of 1, {at[-1]} steps: {difference(w, last)}")

    at = points(run.pick(quick=300, full=3000, tiny=30))
    course, w, objectives = all_at_once(X, y, alpha, at[-1], best, at)
    for steps in at:
        ends = [found - least for found in objectives[steps]]
        value, bound, lemma = course.beside(steps, alpha, radius)
        run.row("bound", name, alpha, "all", steps, value, bound, lemma, *ends)
        held.append(max(value, ends[0]) <= min(bound, lemma))
    ours = plain.set_params(batch_size=len(y), sampling="storage", max_iter=at[-1]).fit(X, y)
    print(f"# {name}, batches of all, {at[-1]} steps: {difference(w, ours)}")
    return held


def certificates(run: harness.Run, name: str, X: Any, y: np.ndarray, alpha: float, exact: Any) -> list[bool]:
    """The rows of "certificate" of one problem; whether D was never above the best objective known."""
    held = []
    least = exact.dual_objective_
    for solver in ("pegasos", "auto"):
        for epochs in EPOCHS[: run.pick(quick=10, full=None, tiny=2)]:
            model = papers_linear(
                alpha=alpha, fit_intercept=False, solver=solver, tol=1e-12, max_iter=epochs, random_state=0
            ).fit(X, y)
            gap = model.duality_gap_ / least
            run.row("certificate", name, alpha, solver, epochs, (model.objective_ - least) / least, gap)
            held.append(model.dual_objective_ <= exact.objective_)
            if gap < 1e-6:
                break
    return held


def main() -> None:
    run = harness.begin(__doc__, "part,data,alpha,setting,count,value,bound,lemma,average,last")
    warnings.simplefilter("ignore", ConvergenceWarning)
    under: list[bool] = []
    certified: list[bool] = []
    for name, X, y, alpha in problems(run, full=50_000):
        exact = optimum(X, y, alpha, tol=run.pick(quick=1e-8, full=1e-8, tiny=1e-4))
        under += bounds(run, name, sp.csr_matrix(X), y, alpha, exact)
        certified += certificates(run, name, X, y, alpha, exact)
    print(f"# bound: the measured means were under it at {sum(under)} of {len(under)} points")
    print(f"# certificate: no objective known was below D in {sum(certified)} of {len(certified)} fits")


if __name__ == "__main__":
    main()
