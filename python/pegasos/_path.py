"""Regularisation paths: the linear models of several alphas, each from the dual point of the last."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from pegasos._core import Refit
from pegasos._data import explaining
from pegasos._linear import PegasosClassifier
from pegasos._progress import bar_of, relative_gap
from pegasos._search import linear_solver
from pegasos._threads import thread_count
from pegasos._types import ClassWeight, Grid, Loss, RandomState

if TYPE_CHECKING:
    from pegasos._data import Data


class Path(NamedTuple):
    """What `path` returns.

    Attributes
    ----------
    alphas : ndarray of shape (n_alphas,)
        The strengths of the regularisation, in descending order.
    coefs : ndarray of shape (n_alphas, 1, n_features) or (n_alphas, n_classes, n_features)
        The weights of the features, in the dtype of X.
    intercepts : ndarray of shape (n_alphas, 1) or (n_alphas, n_classes)
        The intercepts.
    objectives : ndarray of shape (n_alphas,)
        The objective of each model: of several classes each against the rest the sum of theirs.
    duality_gaps : ndarray of shape (n_alphas,)
        How far it is from the least there is, at most.
    n_iter : ndarray of shape (n_alphas,)
        The visits of examples that each model took from the one before it, over the number of examples.
    classes : ndarray of shape (n_classes,)
        The classes.
    """

    alphas: np.ndarray
    coefs: np.ndarray
    intercepts: np.ndarray
    objectives: np.ndarray
    duality_gaps: np.ndarray
    n_iter: np.ndarray
    classes: np.ndarray


def path(
    X: Any,
    y: Any,
    alphas: Grid = "auto",
    *,
    loss: Loss = "squared_hinge",
    fit_intercept: bool = True,
    intercept_scaling: float = 1.0,
    multi_class: Literal["crammer_singer", "ovr"] = "ovr",
    tol: float = 1e-3,
    sample_weight: Any = None,
    class_weight: ClassWeight = None,
    n_jobs: int | None = None,
    random_state: RandomState = None,
    verbose: int = 0,
) -> Path:
    """The linear models of several strengths of regularisation.

    Each is the minimiser of ``alpha/2 ||w||^2 + 1/n sum_i weight_i loss(y_i <w, x_i>)``, as of `PegasosClassifier`, to a
    certified gap. It begins from the dual points of the next larger alphas: at the best combination of the last two,
    for the hinge at the best multiple of the last.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        The examples' features.
    y : array-like of shape (n_samples,)
        Their classes.
    alphas : "auto" or array-like of float, default="auto"
        The strengths, > 0; ``C = 1/(alpha n_samples)``. "auto": powers of ten and their halves from 1e-2 to 1/n.
    loss : {"squared_hinge", "hinge", "log_loss"}, default="squared_hinge"
        As in `PegasosClassifier`.
    fit_intercept : bool, default=True
        As in `PegasosClassifier`, but not "free".
    intercept_scaling : float, default=1.0
        As in `PegasosClassifier`.
    multi_class : {"ovr", "crammer_singer"}, default="ovr"
        As in `PegasosClassifier`.
    tol : float, default=1e-3
        The relative duality gap of each model.
    sample_weight : array-like of shape (n_samples,), default=None
        The examples' weights, finite, >= 0 and not all 0; ones by default.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, by which examples' weights are multiplied.
    n_jobs : int or None, default=None
        Threads, of which each works on a class; as in `PegasosClassifier`. Changes no bit of the result.
    random_state : int, RandomState or None, default=None
        Seed of the orders.
    verbose : int, default=0
        Whether to show visits, the alpha at hand and the last gap: a bar in a terminal or a notebook, lines in a file.

    Returns
    -------
    path : Path
        Weights, intercepts, objectives and gaps of each alpha.

    Raises
    ------
    ValueError
        If an argument is not as described.

    See Also
    --------
    PegasosClassifierCV : The best of them by cross-validation.
    sklearn.linear_model.lasso_path : The same for regression with an l1 penalty.

    Notes
    -----
    Time: some passes for each alpha. Memory: for each problem 25 bytes an example and 16 a weight, for the hinge 17
    and 8; and the result.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from pegasos import path
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> found = path(scale(X), y, np.geomspace(1.0, 1e-4, 9), random_state=0)
    >>> found.coefs.shape
    (9, 1, 30)
    >>> bool((found.duality_gaps <= 1e-3 * found.objectives).all())
    True
    >>> bool((np.diff(np.linalg.norm(found.coefs[:, 0], axis=1)) > 0).all())
    True
    """
    model = PegasosClassifier(
        loss,
        fit_intercept=fit_intercept,
        intercept_scaling=intercept_scaling,
        multi_class=multi_class,
        tol=tol,
        class_weight=class_weight,
        n_jobs=n_jobs,
        random_state=random_state,
        verbose=verbose,
    )
    model._validate_params()
    if isinstance(fit_intercept, str):
        raise ValueError(f"fit_intercept must be True or False on a path, got {fit_intercept!r}")
    if tol is None:
        raise ValueError("tol must be a number >= 0, the relative gap of each model, got None")
    data, classes = model._examples(X, y, sample_weight, None, reset=True)
    model._decided = model._decide(data, len(classes), stream=False)
    chosen = _descending(alphas, data.n)
    with explaining(data.X, model):
        data.examples.check()
        solver = linear_solver(model, data, len(classes), float(chosen[0]))
        return _solve(model, solver, data, classes, chosen)


def _solve(model: PegasosClassifier, solver: Refit, data: Data, classes: np.ndarray, alphas: np.ndarray) -> Path:
    seed = int(check_random_state(model.random_state).randint(np.iinfo(np.int64).max, dtype=np.int64))
    outputs = 1 if len(classes) == 2 else len(classes)
    coefs = np.empty((len(alphas), outputs, data.X.shape[1]), data.X.dtype)
    intercepts = np.empty((len(alphas), outputs))
    objectives, gaps, visits = (np.empty(len(alphas)) for _ in range(3))
    tol = max(model.tol or 0.0, Refit.ROUNDINGS)
    short = []
    with bar_of("path", "rows", model.verbose) as bar:
        bar.begin(None)
        progress = bar.update if bar.shows else None
        for i, alpha in enumerate(alphas):
            bar.tell(alpha=f"{alpha:.3g}")
            solver.set_alpha(float(alpha))
            primal, dual, _, count, _ = solver.solve(
                data.examples, tol, seed, threads=thread_count(model.n_jobs), progress=progress
            )
            weights, intercepts[i] = solver.weights()
            coefs[i] = weights.reshape(outputs, -1)
            objectives[i], gaps[i], visits[i] = primal, primal - dual, count / data.n
            bar.tell(gap=relative_gap(primal, dual))
            if not gaps[i] <= tol * primal:
                short.append(f"{alpha:.3g}")
        bar.done()
    if short:
        warnings.warn(
            f"the models of alpha = {', '.join(short)} are short of tol={tol}; scale the features, increase alphas or tol",
            ConvergenceWarning,
            stacklevel=3,
        )
    return Path(alphas, coefs, intercepts, objectives, gaps, visits, classes)


def _descending(alphas: Any, n: int) -> np.ndarray:
    """The alphas, checked."""
    if isinstance(alphas, str) and alphas == "auto":
        return 10.0 ** (-np.arange(4, max(5, int(np.ceil(2.0 * np.log10(n))) + 1)) / 2.0)
    try:
        found = np.atleast_1d(np.asarray(alphas, float))
    except (OverflowError, TypeError, ValueError):
        found = np.empty(0)
    if found.ndim != 1 or not found.size or not (np.isfinite(found) & (found > 0)).all():
        raise ValueError(f"alphas must be 'auto', or numbers > 0 and finite, got {alphas!r}")
    return np.sort(found)[::-1]
