"""A refit the long way: the objective by its definition, the optimum by general solvers; and small problems."""

import pickle
import warnings
from contextlib import contextmanager

import numpy as np
from scipy import sparse
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel, sigmoid_kernel

from conftest import papers_kernel
from pegasos.datasets import make_checkerboard, make_waveform

#: Far below what is compared.
EXACT = 1e-9
KERNELS = [
    ("rbf", {"maintenance": "merge"}),
    ("rbf", {"maintenance": "project"}),
    ("poly", {"maintenance": "project", "coef0": 1.0}),
    ("poly", {"maintenance": "remove", "coef0": 1.0}),
    ("linear", {"maintenance": "project"}),
    ("linear", {"maintenance": "remove"}),
    ("sigmoid", {"maintenance": "project"}),
    ("sigmoid", {"maintenance": "remove"}),
]


def board(n=300, seed=0):
    return make_checkerboard(n, seed)


def waves(n=300, seed=0):
    return make_waveform(n, seed)


def machine(*args, **params):
    common = dict(gamma=2.0, alpha=1e-3, budget=25, random_state=0)
    return papers_kernel(*args, **{**common, **params})


def dense(X):
    return np.asarray(X.toarray() if sparse.issparse(X) else X, float)


def kernel_values(model, A, B):
    A, B, gamma = dense(A), dense(B), model._gamma
    if model.kernel == "rbf":
        return rbf_kernel(A, B, gamma=gamma)
    if model.kernel == "poly":
        return polynomial_kernel(A, B, model.degree, gamma, model.coef0)
    return A @ B.T if model.kernel == "linear" else sigmoid_kernel(A, B, gamma, model.coef0)


def objective(model, X, y, weight=None, alpha=None):
    """P by its definition, from what a model tells of itself; y are the numbers of the classes."""
    S, c = model.support_vectors_, model.dual_coef_.T.astype(float)
    scores = kernel_values(model, X, S) @ c
    norm2 = np.sum(c * (kernel_values(model, S, S) @ c))
    rows = np.arange(len(y))
    if c.shape[1] == 1:
        loss = np.maximum(0.0, 1.0 - (2 * y - 1) * scores[:, 0])
    else:
        of_y = scores[rows, y]
        scores[rows, y] = -np.inf
        loss = np.maximum(0.0, 1.0 + scores.max(axis=1) - of_y)
    weight = np.ones(len(y)) if weight is None else weight
    return (model.alpha if alpha is None else alpha) / 2 * norm2 + np.mean(weight * loss)


def coordinates(model, X):
    """Of the rows' images in the span of the support vectors."""
    S = model.support_vectors_
    values, vectors = np.linalg.eigh(kernel_values(model, S, S))
    kept = values > 1e-11 * values.max()
    return kernel_values(model, X, S) @ vectors[:, kept] / np.sqrt(values[kept])


def best_of_two(z, y, weight, alpha):
    """The optimum by L-BFGS-B on the dual, from below and from above."""
    n, signed = len(y), (2 * y - 1)[:, None] * z

    def negative(a):
        w = a @ signed / (alpha * n)
        return alpha / 2 * w @ w - a.sum() / n, (signed @ w - 1.0) / n

    a = weight / 2
    for _ in range(3):
        found = minimize(
            negative, a, jac=True, method="L-BFGS-B", bounds=[(0.0, s) for s in weight],
            options=dict(maxiter=20_000, maxfun=40_000, maxcor=50, ftol=1e-17, gtol=1e-12),
        )
        a = found.x
    w = a @ signed / (alpha * n)
    return -found.fun, alpha / 2 * w @ w + np.mean(weight * np.maximum(0.0, 1.0 - signed @ w))


def onto_simplices(A, sums):
    """Rows onto the nonnegative ones of these sums."""
    ordered = -np.sort(-A, axis=1)
    excess = (ordered.cumsum(axis=1) - sums[:, None]) / np.arange(1, A.shape[1] + 1)
    k = np.maximum(1, (ordered > excess).sum(axis=1))
    return np.maximum(0.0, A - excess[np.arange(len(A)), k - 1][:, None])


def best_of_many(z, y, weight, alpha, n_classes):
    """The optimum of Crammer and Singer by accelerated projected gradients on the dual, from both sides."""
    n, of_y = len(y), np.eye(n_classes)[y]
    step = alpha * n / np.linalg.norm(z, 2) ** 2

    def w(A):
        return z.T @ (weight[:, None] * of_y - A) / (alpha * n)

    A = ahead = weight[:, None] / n_classes * np.ones((n, n_classes))
    t = 1.0
    for _ in range(20_000):
        slope = z @ w(ahead) + 1.0 - of_y
        new = onto_simplices(ahead + step * slope, weight)
        # Momentum that points back is dropped.
        t, before = (1.0, 1.0) if np.sum(slope * (new - A)) < 0.0 else ((1 + np.sqrt(1 + 4 * t * t)) / 2, t)
        A, ahead = new, new + (before - 1.0) / t * (new - A)
    norm2 = np.sum(w(A) ** 2)
    scores = z @ w(A)
    loss = (scores + 1.0 - of_y).max(axis=1) - scores[np.arange(n), y]
    lower = np.sum(A * (1.0 - of_y)) / n - alpha / 2 * norm2
    return lower, alpha / 2 * norm2 + np.mean(weight * loss)


def weights(n, seed=0):
    """Some of them 0."""
    random = np.random.default_rng(seed)
    return random.integers(0, 4, n) * random.uniform(0.5, 1.5, n)


@contextmanager
def unchanged(model):
    before = pickle.dumps(model)
    yield
    assert pickle.dumps(model) == before


@contextmanager
def whatever_is_warned_of():
    """Where a gap that is left, or a span too small for the classes, is as good as an optimum."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "there are . classes", UserWarning)
        yield


def batches(X, y, weight=None, size=100):
    for start in range(0, len(y), size):
        rows = slice(start, start + size)
        yield (X[rows], y[rows]) if weight is None else (X[rows], y[rows], weight[rows])
