"""The duality gap never claims less than the truth, and stops fits where it says."""

import warnings
from functools import cache
from itertools import pairwise

import numpy as np
import oracle
import pytest
from conftest import every_pair, papers_linear
from scipy import optimize, sparse
from sklearn.exceptions import ConvergenceWarning

from pegasos import KernelPegasosClassifier


LOSSES = ["hinge", "squared_hinge", "log_loss"]
ALPHA = 0.05


def examples(dtype=np.float64, n=70):
    # More than two blocks of rows, so that sampling="blocks" has something to permute.
    random = np.random.default_rng(5)
    X = random.normal(size=(n, 3)).astype(dtype)
    y = (X @ [1.0, -2.0, 0.5] + random.normal(size=n) > 0.3).astype(int)
    weights = random.uniform(0.1, 3.0, size=n)
    weights[::7] = 0.0
    return X, y, weights


def fitted(X, y, weights=None, **params):
    """A fit that evaluates the objective, but does not stop for it."""
    default = {"solver": "pegasos", "alpha": ALPHA, "tol": 0.0, "max_iter": 3}
    model = papers_linear(**{**default, **params})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y, sample_weight=weights)


def learned(model, k=0):
    scaling = model.intercept_scaling if model.fit_intercept else 1.0
    return np.append(model.coef_[k], model.intercept_[k] / scaling).astype(np.float64)


def dual_ascent(X, signs, weights, alpha):
    """The hinge loss's optimum, by exact steps along one dual variable after another."""
    n = len(signs)
    a, w = np.zeros(n), np.zeros(X.shape[1])
    for _ in range(20_000):
        for i in np.flatnonzero(weights):
            slack = 1.0 - signs[i] * (X[i] @ w)
            new = min(max(a[i] + alpha * n * slack / (X[i] @ X[i]), 0.0), weights[i])
            w += (new - a[i]) * signs[i] * X[i] / (alpha * n)
            a[i] = new
        above = oracle.objective(w, X[:, :-1], signs, weights, "hinge", alpha, X[0, -1])
        below = np.mean(a) - alpha / 2.0 * (w @ w)
        if above - below < 1e-12:
            return above
    raise AssertionError("dual ascent has not converged")


def newton(X, signs, weights, loss, alpha):
    """A smooth loss's optimum: L-BFGS, polished until the gradient proves it."""

    def gradient(w):
        g = weights * oracle.falling_slope(loss, signs * (X @ w)) * signs
        return alpha * w - g @ X / len(signs)

    def value(w):
        return oracle.objective(w, X[:, :-1], signs, weights, loss, alpha, X[0, -1])

    found = optimize.minimize(
        value, np.zeros(X.shape[1]), jac=gradient, method="L-BFGS-B",
        options={"ftol": 0.0, "gtol": 1e-12, "maxiter": 10_000},
    )
    # P is alpha-strongly convex: P(w) - min P <= ||gradient||^2 / (2 alpha).
    assert np.sum(gradient(found.x) ** 2) / (2.0 * alpha) < 1e-12
    return found.fun


@cache
def optimum(loss, weighted, constant, dtype, positive=1, make=examples):
    """``min P``, to 1e-12."""
    X, y, weights = make(dtype)
    signs = np.where(y == positive, 1.0, -1.0)
    weights = weights if weighted else np.ones(len(y))
    X = oracle.augmented(X, constant)
    if loss == "hinge":
        return dual_ascent(X, signs, weights, ALPHA)
    return newton(X, signs, weights, loss, ALPHA)


def primal(model, X, y, weights, positive=1, k=0):
    """``P(w)`` from what the model shows of itself."""
    constant = model.intercept_scaling if model.fit_intercept else 0.0
    return oracle.objective(
        learned(model, k),
        X,
        np.where(y == positive, 1.0, -1.0),
        np.ones(len(y)) if weights is None else weights,
        model.loss,
        model.alpha,
        constant,
    )


def check(model, X, y, weights, least):
    """The model's certificate holds, ``least`` being ``min P``."""
    # In f32 the weights that are shown are rounded, and the dual value is right to their square.
    precise = X.dtype == np.float64
    assert model.objective_ == pytest.approx(
        primal(model, X, y, weights), rel=1e-12 if precise else 1e-5
    )
    tiny = (1e-11 if precise else 1e-6) * max(1.0, model.objective_)
    assert model.duality_gap_ == model.objective_ - model.dual_objective_
    assert model.dual_objective_ <= least + tiny
    assert model.duality_gap_ >= primal(model, X, y, weights) - least - tiny


@every_pair(
    loss=LOSSES,
    sampling=["shuffle", "blocks", "storage"],
    batch_size=[1, 6],
    average=[False, True],
    weighted=[False, True],
    t0=["auto", 0.0, 40.0],
    dtype=[np.float32, np.float64],
)
def test_gap_holds(loss, sampling, batch_size, average, weighted, t0, dtype):
    X, y, weights = examples(dtype)
    weights = weights if weighted else None
    least = optimum(loss, weighted, 1.0, dtype)
    for max_iter in (1, 4):
        model = fitted(
            X, y, weights, loss=loss, sampling=sampling, batch_size=batch_size, average=average,
            t0=t0, max_iter=max_iter, random_state=0,
        )
        check(model, X, y, weights, least)


@pytest.mark.parametrize("average", [False, "uniform", 100])
@pytest.mark.parametrize("constant", [0.0, 0.1, 10.0])
@pytest.mark.parametrize("loss", LOSSES)
def test_gap_counts_the_intercept(loss, constant, average):
    X, y, weights = examples()
    least = optimum(loss, True, constant, np.float64)
    intercept = {"fit_intercept": constant > 0.0, "intercept_scaling": constant or 1.0}
    for data in (X, sparse.csr_array(X)):
        model = fitted(data, y, weights, loss=loss, average=average, max_iter=5, **intercept)
        check(model, data, y, weights, least)


@pytest.mark.parametrize("kind", [list, np.array])
@pytest.mark.parametrize("loss", LOSSES)
def test_gap_holds_for_any_order(loss, kind):
    X, y, _ = examples()
    least = optimum(loss, False, 1.0, np.float64)
    n = len(y)
    for order in (range(n)[::-1], range(10), [3] * 20, [*range(n), *range(20)]):
        model = fitted(X, y, loss=loss, sampling=kind(list(order)))
        check(model, X, y, None, least)


def three(dtype):
    X, y, weights = examples(dtype)
    return X, np.where(X[:, 0] > 0.5, 2, y), weights


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("loss", LOSSES)
def test_one_vs_rest_sums_over_its_problems(loss, n_jobs):
    X, y, weights = three(np.float64)
    least = sum(optimum(loss, True, 1.0, np.float64, k, three) for k in range(3))
    model = fitted(X, y, weights, loss=loss, multi_class="ovr", max_iter=20, n_jobs=n_jobs)
    total = sum(primal(model, X, y, weights, k, k) for k in range(3))
    assert model.objective_ == pytest.approx(total, rel=1e-12)
    assert model.dual_objective_ <= least + 1e-11
    assert model.duality_gap_ >= total - least - 1e-11


@every_pair(
    loss=LOSSES,
    average=[False, True],
    t0=["auto", 40.0],
    batch_size=[1, 6],
    weighted=[False, True],
)
def test_dual_objective_is_that_of_the_violation_sums(loss, average, t0, batch_size, weighted):
    X, y, weights = examples()
    weights = weights if weighted else np.ones(len(y))
    signs = np.where(y == 1, 1.0, -1.0)
    params = {"loss": loss, "batch_size": batch_size, "t0": t0, "average": average}
    model = fitted(X, y, weights, sampling="storage", **params)
    run = oracle.train_like(model, X, signs, [np.arange(len(y))] * 3, weights)
    if t0 == "auto":
        t0 = oracle.auto_t0(loss, "pegasos", X, weights, ALPHA, 1.0)
    want = oracle.dual_value(run.sums, t0 + run.t, X, signs, weights, loss, ALPHA, 1.0)
    # Sums are kept in f32: whole numbers, as plain violations are, exactly.
    counts = loss == "hinge" and batch_size == 1 and not weighted
    tiny = (1e-12 if counts else 1e-6) * model.objective_
    assert model.dual_objective_ == pytest.approx(want, abs=tiny)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_gap_closes(loss, average, dtype):
    X, y, _ = examples(dtype)
    gaps = [
        fitted(X, y, loss=loss, average=average, max_iter=max_iter, random_state=0).duality_gap_
        for max_iter in (1, 8, 64, 512)
    ]
    assert all(after < before / 2.0 for before, after in pairwise(gaps))
    assert gaps[-1] < 0.01 * optimum(loss, False, 1.0, dtype)


def test_examples_without_weight_count_for_nothing_but_n():
    X, y, weights = examples()
    with_them = fitted(X, y, weights, max_iter=400, random_state=0)
    counted = weights > 0.0
    without = fitted(
        X[counted], y[counted], weights[counted] * counted.mean(), max_iter=400, random_state=0
    )
    gaps = with_them.duality_gap_ + without.duality_gap_
    assert with_them.objective_ == pytest.approx(without.objective_, abs=gaps)
    assert gaps < 0.01


UNCERTIFIED = [
    {"projection": True},
    {"learning_rate": "invscaling"},
    {"learning_rate": "constant", "eta0": 0.01},
    {"sampling": "replacement"},
]
CERTIFIED = [
    {},
    {"average": True},
    {"average": 10},
    {"sampling": "blocks"},
    {"sampling": "storage"},
    {"sampling": [2, 1, 0, 5]},
    {"batch_size": 7},
    {"t0": 5.0},
    {"loss": "log_loss"},
    {"loss": "squared_hinge"},
    {"class_weight": "balanced"},
    {"fit_intercept": False},
    {"early_stopping": True},
    {"warm_start": True},
    {"multi_class": "ovr"},
]


@pytest.mark.parametrize("params", UNCERTIFIED, ids=str)
def test_no_certificate(params):
    X, y, _ = examples()
    model = fitted(X, y, **params)
    assert np.isnan(model.duality_gap_)
    assert np.isnan(model.dual_objective_)
    assert model.objective_ == pytest.approx(primal(model, X, y, None), rel=1e-12)


@pytest.mark.parametrize("params", CERTIFIED, ids=str)
def test_certificate(params):
    X, y, _ = examples()
    model = fitted(X, y, random_state=0, **params)
    assert np.isfinite(model.objective_)
    assert 0.0 < model.duality_gap_ < np.inf


@pytest.mark.parametrize("params", [*CERTIFIED, *UNCERTIFIED], ids=str)
def test_nothing_is_evaluated_without_tol(params):
    X, y, _ = examples()
    model = fitted(X, y, **{**params, "tol": None})
    assert np.isnan([model.objective_, model.dual_objective_, model.duality_gap_]).all()


def test_no_certificate_for_continued_training():
    X, y, _ = examples()
    model = fitted(X, y, warm_start=True)
    assert np.isfinite(model.duality_gap_)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model.fit(X, y)
    assert np.isnan(model.duality_gap_)
    assert np.isnan(model.dual_objective_)
    assert model.objective_ == pytest.approx(primal(model, X, y, None), rel=1e-12)


def test_no_certificate_for_pieces():
    X, y, _ = examples()
    for model in (fitted(X, y), papers_linear(alpha=ALPHA)):
        model.partial_fit(X, y, classes=[0, 1])
        assert np.isnan(model.duality_gap_)
        assert np.isnan(model.dual_objective_)


def test_a_cold_fit_is_certified_whatever_came_before():
    X, y, _ = examples()
    model = fitted(X, y).partial_fit(X[:5], y[:5])
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    check(model, X, y, None, optimum("hinge", False, 1.0, np.float64))


@pytest.mark.parametrize("solver", ["auto", "pegasos"])
@pytest.mark.parametrize("tol", [0.1, 0.01])
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_tol_is_kept(loss, average, tol, solver):
    X, y, weights = examples()
    params = {"solver": solver, "average": average, "max_iter": 2000}
    model = papers_linear(loss, alpha=ALPHA, tol=tol, **params)
    model.fit(X, y, sample_weight=weights)
    assert model.n_iter_ < 2000
    assert model.duality_gap_ <= tol * model.objective_
    check(model, X, y, weights, optimum(loss, True, 1.0, np.float64))


@pytest.mark.parametrize("solver", ["auto", "pegasos"])
def test_tol_is_kept_by_one_vs_rest(solver):
    X, y, _ = three(np.float64)
    model = papers_linear(
        alpha=ALPHA, solver=solver, multi_class="ovr", tol=0.01, max_iter=2000
    ).fit(X, y)
    assert model.n_iter_ < 2000
    assert model.duality_gap_ <= 0.01 * model.objective_


def test_a_fit_short_of_tol_says_so():
    X, y, _ = examples()
    with pytest.warns(ConvergenceWarning, match=r"max_iter=2 .* tol=1e-05.*gap"):
        params = {"solver": "pegasos", "tol": 1e-5, "max_iter": 2}
        model = papers_linear(alpha=ALPHA, **params).fit(X, y)
    assert model.n_iter_ == 2
    assert model.duality_gap_ > 1e-5 * model.objective_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        papers_linear(alpha=ALPHA, tol=None, max_iter=2).fit(X, y)


@pytest.mark.parametrize("params", UNCERTIFIED, ids=str)
def test_tol_without_certificate(params):
    """The fit ends when the loss has not come tol below its best for n_iter_no_change epochs."""
    X, y, _ = examples()
    model = papers_linear(
        alpha=ALPHA, tol=0.01, n_iter_no_change=3, max_iter=500, random_state=0, **params
    )
    losses = model.fit(X, y).loss_curve_
    assert 3 < model.n_iter_ == len(losses) < 500

    def idle(end):
        best = min(losses[:end], default=np.inf)
        return losses[end] > best - 0.01

    assert all(idle(end) for end in range(len(losses) - 3, len(losses)))
    assert not all(idle(end) for end in range(len(losses) - 4, len(losses) - 1))
    assert model.objective_ == pytest.approx(primal(model, X, y, None), rel=1e-12)


def test_tol_of_a_warm_start():
    X, y, _ = examples()
    model = papers_linear(alpha=ALPHA, tol=0.05, max_iter=500, warm_start=True, random_state=0)
    model.fit(X, y)
    assert model.duality_gap_ <= 0.05 * model.objective_
    model.fit(X, y)
    assert model.n_iter_ < 500
    assert np.isnan(model.duality_gap_)


@pytest.mark.parametrize(
    ("C", "away", "params"),
    [
        (1e3, 3.0, {"kernel": "poly", "coef0": 1.0}),
        (1e4, 0.0, {}),
        (1e5, 0.0, {"kernel": "linear"}),
        (1e5, 0.0, {"gamma": 0.1, "budget": 100}),
        (3e3, 0.0, {"gamma": 0.1}),
        (1e2, 0.0, {}),
        (1.0, 0.0, {"kernel": "linear"}),
    ],
)
def test_what_float32_hides_is_not_certified(C, away, params):
    """Coefficients of up to C beside kernel values of single precision."""
    random = np.random.default_rng(0)
    X = random.normal(size=(1000, 2)) + away
    y = X[:, 0] - away + random.normal(size=1000) > 0
    X = X.astype(np.float32)
    of = {}
    for rows in (X, X.astype(np.float64)):
        of[rows.dtype.name] = KernelPegasosClassifier(alpha=1.0 / (C * len(y)), random_state=0, **params).fit(rows, y)
    found, want = of["float32"], of["float64"]
    assert found.dual_objective_ <= want.objective_ * (1.0 + 1e-3)
    assert found.objective_ <= want.objective_ * (1.0 + 3e-3)
    # Where nothing is hidden nothing is paid.
    assert found.support_vectors_.dtype == ("float64" if C >= 1e3 else "float32")


@pytest.mark.parametrize(("scale", "exact"), [(1000.0, False), (3.0, True)])
@pytest.mark.parametrize("classes", [2, 3])
def test_a_fit_that_ends_short_is_no_worse_than_nothing(classes, scale, exact):
    """Where kernel values are as large as 1e12, w(a) is often far beyond what is best of its kind."""
    random = np.random.default_rng(0)
    X = random.normal(size=(100, 4))
    y = (X[:, 0] * X[:, 1] + 0.7 * random.normal(size=100) > 0).astype(int)
    if classes == 3:
        y[X[:, 2] > 0.8] = 2
    X *= scale
    model = KernelPegasosClassifier("poly", gamma=1.0, alpha=1e-3, multi_class="ovr", max_iter=2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    problems = 1 if classes == 2 else 3
    assert model.dual_objective_ <= model.objective_ <= problems * (1.0 + 1e-9)
    # What is told is true of the model, as far as there are digits.
    coefs, S = np.atleast_2d(model.dual_coef_), model.support_vectors_
    scores = (X @ S.T) ** 3 @ coefs.T + model.intercept_
    norms = np.einsum("oi,ij,oj->o", coefs, (S @ S.T) ** 3, coefs) + np.asarray(model.intercept_) ** 2 / 9.0
    signs = np.where(y[:, None] == model.classes_[-problems:], 1, -1)
    want = 1e-3 / 2 * norms.sum() + np.maximum(0.0, 1.0 - signs * scores).mean(axis=0).sum()
    if exact:
        assert model.objective_ == pytest.approx(want, rel=1e-6)
    else:
        assert want <= problems * (1.0 + 1e-3)
