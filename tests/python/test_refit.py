"""Refit of machines on a budget: against general solvers, and by other ways to the same."""

import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.metrics.pairwise import rbf_kernel

from conftest import papers_linear
from refit_oracle import (
    EXACT, KERNELS, batches, best_of_many, best_of_two, board, coordinates, kernel_values, machine,
    objective, waves, weights, whatever_is_warned_of,
)


# -- the optimum


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("kernel", "params"), [KERNELS[0], KERNELS[1], KERNELS[2], KERNELS[5]], ids=lambda x: str(x)
)
def test_two_classes_against_a_general_solver(kernel, params, weighted):
    X, y = board()
    X = X / 2.0 - 1.0
    weight = weights(300) if weighted else None
    model = machine(kernel, alpha=1e-2, tol=EXACT, **params)
    model.fit(X, y).refit(X, y, weight)
    of_all = np.ones(300) if weight is None else weight
    lower, upper = best_of_two(coordinates(model, X), y, of_all, 1e-2)
    # The oracle itself.
    assert upper - lower < 1e-6 * upper
    assert_allclose(model.objective_, upper, rtol=1e-6)
    assert_allclose(objective(model, X, y, weight), model.objective_, rtol=1e-9)
    assert 0.0 <= model.duality_gap_ + 1e-15 <= EXACT * model.objective_ + 1e-15
    assert_allclose(
        model.decision_function(X),
        (kernel_values(model, X, model.support_vectors_) @ model.dual_coef_.T).ravel(),
        atol=1e-9 * np.abs(model.dual_coef_).sum(),
    )
    # A certificate is right also where it is rough.
    for tol in (1e-1, 1e-2, 1e-3):
        model.set_params(tol=tol).refit(X, y, weight)
        assert model.duality_gap_ <= tol * model.objective_
        assert model.dual_objective_ == model.objective_ - model.duality_gap_
        assert model.dual_objective_ <= upper * (1 + 1e-12)
        assert lower <= model.objective_ * (1 + 1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_three_classes_against_projected_gradients(weighted):
    X, y = waves(60)
    weight = weights(60, 1) if weighted else None
    model = machine(gamma=0.02, alpha=0.03, budget=10, tol=EXACT).fit(X, y).refit(X, y, weight)
    of_all = np.ones(60) if weight is None else weight
    lower, upper = best_of_many(coordinates(model, X), y, of_all, 0.03, 3)
    assert upper - lower < 1e-6 * upper
    assert_allclose(model.objective_, upper, rtol=1e-6)
    assert_allclose(objective(model, X, y, weight), model.objective_, rtol=1e-9)
    for tol in (1e-1, 1e-3):
        model.set_params(tol=tol).refit(X, y, weight)
        assert model.dual_objective_ <= upper * (1 + 1e-12)
        assert lower <= model.objective_ * (1 + 1e-12)
    assert_allclose(model.dual_coef_.sum(axis=0), 0.0, atol=1e-9 * np.abs(model.dual_coef_).max())


@pytest.mark.parametrize("make", [board, waves])
def test_fit_ends_by_a_refit(make):
    X, y = make(1000)
    gamma = 2.0 if make is board else 0.02
    model = machine(gamma=gamma).fit(X, y)
    twin = machine(gamma=gamma, refine=False).fit(X, y)
    assert np.array_equal(model.support_vectors_, twin.support_vectors_)
    assert np.isnan(twin.objective_)
    assert model.duality_gap_ <= 1e-3 * model.objective_
    assert model.objective_ < objective(twin, X, y)
    assert len(model.loss_curve_) == model.n_iter_ == 2
    assert twin.t_ == 1000 < model.t_
    # Apart from the order of visits, the method does the same.
    twin.refit(X, y)
    assert_allclose(twin.objective_, model.objective_, rtol=2e-3)


@pytest.mark.parametrize(("kernel", "params"), KERNELS, ids=str)
@pytest.mark.parametrize("make", [board, waves])
def test_kernels(kernel, params, make):
    X, y = make()
    gamma = 0.5 if make is board else 0.01
    model = machine(kernel, gamma=gamma, alpha=1e-2, **params)
    with whatever_is_warned_of():
        model.fit(X, y)
    assert np.isfinite(model.dual_coef_).all()
    assert model.dual_coef_.shape[1] == len(model.support_vectors_) <= 25
    # The value of the very model that is handed out, of kernels that are not positive too.
    assert_allclose(objective(model, X, y), model.objective_, rtol=1e-6)
    if kernel != "sigmoid":
        assert model.duality_gap_ <= 1e-3 * model.objective_
        assert model.score(X, y) > (0.45 if kernel == "linear" else 0.55)
    assert np.isfinite(model.partial_fit(X, y).decision_function(X)).all()


# -- the same by other ways


@pytest.mark.parametrize("make", [board, waves])
@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csr_matrix])
def test_sparse_rows(make, form):
    X, y = make()
    X = np.where(X > np.quantile(X, 0.3), X, 0.0)
    gamma = 2.0 if make is board else 0.02
    model = machine(gamma=gamma, tol=1e-7).fit(X, y)
    other = machine(gamma=gamma, tol=1e-7).fit(form(X), y)
    want = model.decision_function(X)
    assert_allclose(other.decision_function(form(X)), want, atol=1e-3 * np.abs(want).max())
    assert_allclose(other.objective_, model.objective_, rtol=1e-6)
    # Machines take what they were not fitted to.
    twin = copy.deepcopy(model).refit(form(X), y)
    assert_allclose(twin.objective_, model.objective_, rtol=1e-6)
    assert_allclose(other.refit(X, y).objective_, model.objective_, rtol=1e-6)


def test_many_sparse_features():
    random = np.random.default_rng(0)
    X = sparse.random_array((300, 40), density=0.3, rng=random, format="csr")
    y = (X.sum(axis=1) > 6).astype(int)
    columns = np.sort(random.choice(50_000, 40, replace=False))
    wide = sparse.csr_array((X.data, columns[X.indices], X.indptr), shape=(300, 50_000))
    for params in ({"maintenance": "merge"}, {"maintenance": "remove"}):
        narrow = machine(gamma=0.3, tol=1e-7, **params).fit(X, y)
        model = machine(gamma=0.3, tol=1e-7, **params).fit(wide, y)
        assert_allclose(model.objective_, narrow.objective_, rtol=1e-6)
        want = narrow.decision_function(X)
        assert_allclose(model.decision_function(wide), want, atol=1e-3 * np.abs(want).max())
        assert_allclose(model.support_vectors_.toarray()[:, columns], narrow.support_vectors_.toarray())


@pytest.mark.parametrize(
    ("gamma", "alpha", "budget", "dtype"), [(4.0, 1e-3, 20, "f4"), (4.0, 1e-6, 200, "f8"), (0.5, 1e-6, 200, "f4")]
)
def test_float32(gamma, alpha, budget, dtype):
    X, y = board(2000)
    params = dict(gamma=gamma, alpha=alpha, budget=budget)
    narrow = X.astype(np.float32)
    model = machine(**params).fit(narrow, y)
    # Where roundings hide more than tol it is computed in float64.
    assert model.dual_coef_.dtype == model.decision_function(narrow).dtype == dtype
    wide = machine(**params, refine=False).fit(narrow.astype(float), y).refit(narrow.astype(float), y)
    assert_allclose(model.objective_, wide.objective_, rtol=0.05)
    assert abs(model.score(narrow, y) - wide.score(X, y)) < 0.02
    # What the model is worth is what it says, up to the gap and to roundings of kernel values, 1e-7, times
    # coefficients of a thousand.
    assert objective(model, narrow, y) <= model.dual_objective_ * (1 + 1e-3 + 3e-3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", [board, waves])
def test_threads_change_no_bit(make, dtype):
    X, y = make(1500)
    X = X.astype(dtype)
    gamma = 2.0 if make is board else 0.02
    coefs = []
    for jobs in (1, 2):
        model = machine(gamma=gamma, budget=60, n_jobs=jobs).fit(X, y)
        coefs.append(model.dual_coef_.tobytes())
        coefs.append(model.refit(X, y, alpha=[1e-2, 1e-4]).dual_coef_.tobytes())
        coefs.append(model.refit([(X[:700], y[:700]), (X[700:], y[700:])]).dual_coef_.tobytes())
    assert coefs[:3] == coefs[3:]


@pytest.mark.parametrize("tol", [1e-2, 1e-3, 1e-6])
@pytest.mark.parametrize("make", [board, waves])
def test_memory_for_features_changes_no_bit(make, tol):
    # More rows than are always kept.
    X, y = make(2500)
    params = dict(gamma=2.0 if make is board else 0.02, budget=30, tol=tol)
    coefs, objectives = set(), []
    # No feature, those of about a half of the rows, and all.
    for size in (1e-6, 0.5, 1024.0):
        model = machine(**params, cache_size=size).fit(X, y)
        objectives.append(model.objective_)
        coefs.add(model.refit(X, y, alpha=[1e-2, 1e-3]).dual_coef_.tobytes())
    assert_allclose(objectives, objectives[0], rtol=tol)
    # Two classes may take a leap, to a small gap, for which all features must be there.
    assert len(coefs) == 1 or (make is board and tol == 1e-6)


# -- one class against the rest


def test_classes_that_are_solved_together_change_no_bit():
    X, y = waves(1500)
    y = np.where(X[:, 0] > 0, y, y + 3)
    found = {
        machine(gamma=0.5, budget=300, multi_class="ovr", n_jobs=jobs, cache_size=size).fit(X, y).dual_coef_.tobytes()
        for jobs, size in [(1, 1024.0), (2, 1024.0), (2, 1e-6)]
    }
    assert len(found) == 1


@pytest.mark.parametrize(("budget", "gamma"), [(30, 0.02), (300, 0.5)])
def test_one_against_the_rest(budget, gamma):
    """As the linear model of that kind on the same features, and as many problems of two classes."""
    X, y = waves(400)
    model = machine(gamma=gamma, alpha=1e-3, budget=budget, tol=1e-8, multi_class="ovr").fit(X, y)
    assert model.dual_coef_.shape == (3, budget)
    Z, coefs = model.support_vectors_, model.dual_coef_
    k = rbf_kernel(X, Z, gamma=gamma)
    assert_allclose(model.decision_function(X), k @ coefs.T, atol=1e-6 * np.abs(coefs).max())
    total = 0.0
    for c in range(3):
        signs = np.where(y == c, 1.0, -1.0)
        norm2 = coefs[c] @ rbf_kernel(Z, gamma=gamma) @ coefs[c]
        total += 5e-4 * norm2 + np.maximum(0.0, 1.0 - signs * (k @ coefs[c])).mean()
    assert_allclose(model.objective_, total, rtol=1e-6)
    # The features of the span, by another factor.
    z = k @ np.linalg.inv(np.linalg.cholesky(rbf_kernel(Z, gamma=gamma))).T
    linear = papers_linear(
        alpha=1e-3, fit_intercept=False, multi_class="ovr", solver="dual", tol=1e-8, max_iter=10**5
    ).fit(z, y)
    assert_allclose(model.objective_, linear.objective_, rtol=1e-6)
    model.refit(X, y, alpha=[1e-2, 1e-3, 1e-4], cv=2).partial_fit(X, y)
    assert np.isfinite(model.dual_coef_).all()
    stream = model.refit(batches(X, y))
    assert stream.score(X, y) > 0.8
