"""Refit of machines on a budget: against general solvers, on streams, and as users expect."""

import copy
import pickle
import warnings
from contextlib import contextmanager

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel, sigmoid_kernel
from sklearn.model_selection import GridSearchCV, ShuffleSplit, StratifiedKFold

from pegasos import KernelPegasosClassifier, PegasosClassifier, ProjectronClassifier, _refit, load, save
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
    return KernelPegasosClassifier(*args, **{**common, **params})


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


@pytest.fixture
def few_epochs(monkeypatch):
    """So that what cannot be solved ends at once."""
    monkeypatch.setattr("pegasos._refit._MOST_VISITS", 0)


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
    twin = machine(gamma=gamma, refit=False).fit(X, y)
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


@pytest.mark.parametrize(("gamma", "alpha", "budget"), [(4.0, 1e-3, 20), (4.0, 1e-6, 200), (0.5, 1e-6, 200)])
def test_float32(gamma, alpha, budget):
    X, y = board(2000)
    params = dict(gamma=gamma, alpha=alpha, budget=budget)
    narrow = X.astype(np.float32)
    model = machine(**params).fit(narrow, y)
    assert model.dual_coef_.dtype == model.decision_function(narrow).dtype == np.float32
    wide = machine(**params, refit=False).fit(narrow.astype(float), y).refit(narrow.astype(float), y)
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


# -- several alphas


def test_path():
    X, y = board(600)
    model = machine(tol=1e-6).fit(X, y)
    given = [1e-4, 1.0, 1e-2, 1e-3]
    assert model.refit(X, y, alpha=given) is model
    path = model.refit_path_
    assert set(path) == {"alpha", "accuracy", "accuracies"}
    assert path["alpha"].tolist() == [1.0, 1e-2, 1e-3, 1e-4]
    assert path["accuracy"].shape == (4,)
    assert path["accuracies"].shape == (4, 1)
    best = float(path["alpha"][path["accuracy"].argmax()])
    assert best < 1.0
    # It is trained on all rows, to the tolerance, and the parameter stays.
    assert model.alpha == 1e-3
    assert_allclose(objective(model, X, y, alpha=best), model.objective_, rtol=1e-9)
    assert model.duality_gap_ <= 1e-6 * model.objective_
    alone = copy.deepcopy(model).refit(X, y, alpha=best)
    assert_allclose(alone.objective_, model.objective_, rtol=2e-6)
    for form in (tuple, np.array):
        again = machine(tol=1e-6).fit(X, y).refit(X, y, alpha=form(given))
        assert np.array_equal(again.dual_coef_, model.dual_coef_)


@pytest.mark.parametrize("make", [board, waves])
def test_accuracies_of_the_path_are_those_of_the_rows_held_out(make, monkeypatch):
    # As well solved on the way as at its end, so that both can be compared.
    monkeypatch.setattr(_refit, "_ROUGH_PATH", 1e-5)
    X, y = make(600)
    alphas = [1.0, 1e-2, 1e-3]
    model = machine(gamma=2.0 if make is board else 0.02, alpha=1e-2, tol=1e-5).fit(X, y)
    for cv in (3, StratifiedKFold(4, shuffle=True, random_state=0), ShuffleSplit(2, random_state=0)):
        path = copy.deepcopy(model).refit(X, y, alpha=alphas, cv=cv).refit_path_
        splitter = StratifiedKFold(3) if cv == 3 else cv
        splits = list(splitter.split(X, y))
        assert path["accuracies"].shape == (3, len(splits))
        assert_allclose(path["accuracy"], path["accuracies"].mean(axis=1))
        want = [
            [model.refit(X[a], y[a], alpha=alpha).score(X[b], y[b]) for a, b in splits] for alpha in alphas
        ]
        # One row may lie on a boundary.
        assert_allclose(path["accuracies"], want, atol=1.5 / min(len(rows) for _, rows in splits))
    # Explicit splits, of a generator that is read once.
    splits = [(np.arange(400), np.arange(400, 600)), (np.arange(200, 600), np.arange(200))]
    paths = [
        copy.deepcopy(model).refit(X, y, alpha=alphas, cv=form(splits)).refit_path_ for form in (list, iter)
    ]
    assert np.array_equal(paths[0]["accuracies"], paths[1]["accuracies"])


def test_path_of_weighted_rows():
    X, y = board(600)
    weight = weights(600, 2)
    wrong = np.where(weight == 0.0, 1 - y, y)
    cv = list(ShuffleSplit(2, random_state=0).split(X))
    # What rows without weight are called is all the same.
    models = [machine(tol=1e-6).fit(X, y).refit(X, labels, weight, [1e-1, 1e-3], cv=cv) for labels in (y, wrong)]
    assert np.array_equal(models[0].refit_path_["accuracies"], models[1].refit_path_["accuracies"])
    assert np.array_equal(models[0].dual_coef_, models[1].dual_coef_)
    for split in ((weight == 0.0, weight > 0.0), (weight > 0.0, weight == 0.0)):
        rows = [tuple(np.flatnonzero(part) for part in split)]
        with unchanged(models[0]), pytest.raises(ValueError, match="sample_weight"):
            models[0].refit(X, y, weight, [1e-1, 1e-3], cv=rows)


def test_rows_without_weight_only_count():
    X, y = board(400)
    weight = weights(400, 3)
    some = weight > 0.0
    model = machine(tol=EXACT).fit(X, y)
    whole = copy.deepcopy(model).refit(X, y, weight, alpha=1e-3).objective_
    alpha = 1e-3 * 400 / some.sum()
    part = copy.deepcopy(model).refit(X[some], y[some], weight[some], alpha=alpha).objective_
    assert_allclose(whole, part * some.sum() / 400, rtol=1e-8)


@pytest.mark.parametrize("chosen", ["balanced", {0: 1.0, 1: 3.0, 2: 0.5}, {0: 0.0, 1: 1.0, 2: 2.0}])
def test_class_weight(chosen):
    X, y = waves(500)
    few = np.flatnonzero((y > 0) | (np.arange(500) % 5 == 0))
    X, y = X[few], y[few]
    if chosen == "balanced":
        of_class = len(y) / (3 * np.bincount(y))
    else:
        of_class = np.array(list(chosen.values()))
    weight = weights(len(y), 4) + 0.1
    model = machine(gamma=0.02, class_weight=chosen, tol=1e-7).fit(X, y)
    assert_allclose(objective(model, X, y, of_class[y]), model.objective_, rtol=1e-9)
    model.refit(X, y, weight)
    assert_allclose(objective(model, X, y, weight * of_class[y]), model.objective_, rtol=1e-9)
    model.refit(X, y, weight, [1e-1, 1e-2], cv=3)
    best = model.refit_path_["alpha"][model.refit_path_["accuracy"].argmax()]
    assert_allclose(objective(model, X, y, weight * of_class[y], best), model.objective_, rtol=1e-9)


def test_a_path_is_told_of_only_by_the_refit_that_went_it():
    X, y = board()
    model = machine().fit(X, y).refit(X, y, alpha=[1e-2, 1e-3])
    assert hasattr(model, "refit_path_")
    again = copy.deepcopy(model).refit(X, y)
    assert not hasattr(again, "refit_path_")
    assert not hasattr(copy.deepcopy(model).fit(X, y), "refit_path_")
    assert not hasattr(model.refit([(X, y)]), "refit_path_")


# -- streams


def batches(X, y, weight=None, size=100):
    for start in range(0, len(y), size):
        rows = slice(start, start + size)
        yield (X[rows], y[rows]) if weight is None else (X[rows], y[rows], weight[rows])


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("make", [board, waves])
def test_stream(make, form):
    X, y = make(5000)
    X_test, y_test = make(5000, 1)
    model = machine(gamma=2.0 if make is board else 0.02, budget=60, refit=False).fit(form(X), y)
    before, papers = model.t_, model.score(form(X_test), y_test)
    exact = copy.deepcopy(model).refit(form(X), y).score(form(X_test), y_test)
    vectors = dense(model.support_vectors_)
    twin = copy.deepcopy(model).refit(list(batches(form(X), y)))
    assert model.refit(batches(form(X), y)) is model
    assert np.array_equal(twin.dual_coef_, model.dual_coef_)
    assert np.array_equal(dense(model.support_vectors_), vectors)
    assert model.t_ > before
    assert np.isnan(model.objective_)
    assert np.isnan(model.duality_gap_)
    score = model.score(form(X_test), y_test)
    assert score > max(papers, exact) - 0.03
    # Ones are no weights.
    twin.refit(batches(form(X), y, np.ones(5000)))
    assert_allclose(twin.decision_function(form(X)), model.decision_function(form(X)), rtol=1e-6)
    assert model.partial_fit(form(X), y).score(form(X_test), y_test) > score - 0.03


def test_weights_in_a_stream():
    X, y = board(5000)
    model = machine(refit=False).fit(X, y)
    weight = (np.arange(5000) % 2).astype(float)
    spoiled = np.where(weight > 0.0, y, 1 - y)
    one = copy.deepcopy(model).refit(batches(X, y, weight))
    two = copy.deepcopy(model).refit(batches(X, spoiled, weight))
    assert np.array_equal(one.dual_coef_, two.dual_coef_)
    assert one.score(X, y) > 0.9


def test_bad_streams():
    X, y = board()
    model = machine().fit(X, y)
    spoiled = X.copy()
    spoiled[7, 1] = np.nan
    bad = [
        ([], "at least one batch"),
        (iter(()), "at least one batch"),
        ([(X, y), (X, y + 5)], "classes"),
        ([(X, y), (spoiled, y)], "NaN"),
        ([(X, y), (X * np.inf, y)], "X must be finite"),
        ([(X, y), (np.c_[X, X], y)], "features"),
        ([(X, y), (X, y[:-1])], "inconsistent numbers of samples"),
        ([(X, y), (X, y, -np.ones(300))], "[Nn]egative"),
        ([(X, y), (X, y, np.zeros(300))], "weight"),
        ([(X, y), (X[:0], y[:0])], "0 sample"),
        ([(X, y), (X,)], None),
        (X, None),
    ]
    for stream, word in bad:
        with unchanged(model), pytest.raises((ValueError, TypeError), match=word):
            model.refit(stream)
    for more in (dict(alpha=[1e-2, 1e-3]), dict(sample_weight=np.ones(300))):
        with unchanged(model), pytest.raises(ValueError, match="stream of batches"):
            model.refit([(X, y)], **more)

    def breaks():
        yield X, y
        raise OSError("gone")

    with unchanged(model), pytest.raises(OSError, match="gone"):
        model.refit(breaks())


def test_batches_that_hold_too_much():
    X, y = board()
    model = machine().fit(X, y)
    with unchanged(model), pytest.raises((ValueError, TypeError)):
        model.refit([(X, y), (X, y, np.ones(300), 1)])


def test_streams_cannot_be_balanced():
    """As partial_fit says, which does not see all of y either."""
    X, y = board()
    model = machine(class_weight="balanced").fit(X, y)
    with unchanged(model), pytest.raises(ValueError, match="balanced"):
        model.refit([(X[y == 0], y[y == 0]), (X, y)])
    with unchanged(model), pytest.raises(ValueError, match="balanced"):
        model.refit(batches(X, y))


@pytest.mark.parametrize("way", ["rows", "stream"])
@pytest.mark.parametrize(
    ("make", "gamma", "alpha", "budget"),
    [
        (board, 4.0, 1e-3, 100),
        (board, 2.0, 1e-4, 100),
        (board, 2.0, 1e-5, 100),
        (board, 4.0, 1e-5, 100),
        (waves, 0.02, 1e-3, 30),
        (waves, 0.005, 1e-4, 100),
    ],
)
def test_learning_goes_on(make, gamma, alpha, budget, way):
    """Of chunks to come, as many are right before they are learned from as the refitted machine gets right."""
    X, y = make(2000)
    model = machine(gamma=gamma, alpha=alpha, budget=budget)
    with whatever_is_warned_of():
        model.fit(X, y)
    if way == "stream":
        model.refit(batches(X, y))
    frozen = copy.deepcopy(model)
    live, stayed = [], []
    for X, y in batches(*make(10_000, 1), size=200):
        live.append(model.score(X, y))
        stayed.append(frozen.score(X, y))
        model.partial_fit(X, y)
    assert np.mean(live) > np.mean(stayed) - 0.015


# -- parameters and scikit-learn


def test_parameter_and_method():
    for value in (True, False):
        model = machine(refit=value)
        assert model.get_params()["refit"] is value
        assert clone(model).get_params() == model.get_params()
        assert bool(model.refit) is value
        assert model.refit == value
        assert repr(model.refit) == repr(value)
        assert ("refit=False" in repr(model)) is not value
        model.set_params(refit=not value)
        assert model.get_params()["refit"] is not value
    assert callable(KernelPegasosClassifier.refit)
    assert "support vectors" in machine().refit.__doc__
    assert not hasattr(ProjectronClassifier(budget=20), "refit")
    assert "refit" not in ProjectronClassifier().get_params()
    assert not hasattr(PegasosClassifier(), "refit")
    X, y = board(50)
    for name, value in [("refit", "yes"), ("refit", None), ("refit_rounds", 0), ("refit_rounds", 1.5)]:
        with pytest.raises(ValueError, match=f"'{name}' parameter"):
            machine(**{name: value}).fit(X, y)


def test_grid_search():
    X, y = board(600)
    search = GridSearchCV(machine(), {"refit": [True, False], "alpha": [1e-2, 1e-3]}, cv=3).fit(X, y)
    scores = {
        (p["refit"], p["alpha"]): s
        for p, s in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True)
    }
    assert len(scores) == 4
    assert scores[True, 1e-3] > scores[False, 1e-3] - 0.03
    assert search.best_estimator_.get_params()["refit"] is search.best_params_["refit"]
    assert search.best_estimator_.refit(X, y).score(X, y) > 0.85


@pytest.mark.parametrize("way", ["rows", "alphas", "stream"])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(("kernel", "params"), [KERNELS[0], KERNELS[1], KERNELS[3]], ids=str)
def test_copies_pickles_and_files(kernel, params, form, way, tmp_path):
    X, y = waves(300, 4)
    X = X / 5.0
    model = machine(kernel, gamma=0.5, alpha=1e-2, **params).fit(form(X), y)
    if way == "stream":
        model.refit(batches(form(X), y))
    else:
        model.refit(form(X), y, alpha=[1e-1, 1e-2] if way == "alphas" else None)
    save(model, tmp_path / "model")
    twins = [load(tmp_path / "model"), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)]
    other = copy.deepcopy(model)
    for twin in twins:
        assert twin.get_params() == model.get_params()
        assert np.array_equal(twin.decision_function(form(X)), model.decision_function(form(X)))
        assert np.array_equal(twin.dual_coef_, model.dual_coef_)
        assert twin.t_ == model.t_
        for name in ("objective_", "dual_objective_", "duality_gap_"):
            assert np.array_equal(getattr(twin, name), getattr(model, name), equal_nan=True)
    other.partial_fit(form(X[:100]), y[:100])
    want = other.decision_function(form(X))
    for twin in twins:
        with unchanged(model):
            twin.partial_fit(form(X[:100]), y[:100])
        assert_allclose(twin.decision_function(form(X)), want, atol=1e-6 * np.abs(want).max())
        twin.refit(form(X), y)
        assert_allclose(twin.objective_, other.refit(form(X), y).objective_, rtol=3e-3)


def test_paths_are_kept(tmp_path):
    X, y = board()
    model = machine().fit(X, y).refit(X, y, alpha=[1e-1, 1e-2], cv=3)
    save(model, tmp_path / "model")
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), load(tmp_path / "model")):
        assert all(np.array_equal(twin.refit_path_[k], v) for k, v in model.refit_path_.items())


def test_of_what_was_never_fitted_or_has_no_budget():
    X, y = board(100)
    with pytest.raises(NotFittedError):
        machine().refit(X, y)
    with pytest.raises(NotFittedError):
        machine().refit([(X, y)])
    free = KernelPegasosClassifier(gamma=2.0).fit(X, y)
    with unchanged(free), pytest.raises(ValueError, match="budget"):
        free.refit(X, y)
    # A machine that has only seen a stream.
    model = machine().partial_fit(X, y, classes=[0, 1])
    assert model.refit(X, y).duality_gap_ <= 1e-3 * model.objective_


def test_a_budget_that_the_machine_was_not_trained_on():
    X, y = board(100)
    free = KernelPegasosClassifier(gamma=2.0).fit(X, y).set_params(budget=20)
    for arguments in ((X, y), ([(X, y)],)):
        with unchanged(free), pytest.raises(ValueError, match="budget"):
            free.refit(*arguments)


@pytest.mark.parametrize(
    "alpha",
    [0, -1, np.nan, np.inf, [], "x", [1e-3, "x"], [1e-3, 0.0], [1e-3, None], [[1e-3, 1e-2]], {}, 1j],
    ids=repr,
)
def test_bad_alpha(alpha):
    X, y = board(100)
    model = machine().fit(X, y)
    for arguments in ((X, y), ([(X, y)],)):
        with unchanged(model), pytest.raises((ValueError, TypeError), match="alpha"):
            model.refit(*arguments, alpha=alpha)
    with pytest.raises(ValueError, match="'alpha' parameter"):
        model.set_params(alpha=-1.0).refit(X, y)


def test_bad_examples():
    X, y = board()
    model = machine().fit(X, y)
    nan, infinite = X.copy(), X.copy()
    nan[3, 1], infinite[4, 0] = np.nan, np.inf
    bad = [
        ((np.c_[X, X], y), "2 features"),
        ((X[:, :1], y), "2 features"),
        ((nan, y), "NaN"),
        ((infinite, y), "infinity"),
        ((sparse.csr_array(nan), y), "NaN"),
        ((X, y + 1), "classes"),
        ((X, y.astype(str)), "classes"),
        ((X, y[:-1]), "inconsistent"),
        ((X, y, np.ones(299)), "sample_weight"),
        ((X, y, -np.ones(300)), "[Nn]egative"),
        ((X, y, np.zeros(300)), "weight"),
        ((X, y, np.full(300, np.nan)), "NaN"),
        ((X[:0], y[:0]), "0 sample"),
        ((X[0], y[:1]), "2D"),
        ((X, y, None, [1e-2, 1e-3], 3), None),
    ]
    for arguments, word in bad:
        with unchanged(model), pytest.raises((ValueError, TypeError), match=word):
            model.refit(*arguments)
    for cv in (1, 500, "x", [([0], [900])]):
        with unchanged(model), pytest.raises((ValueError, IndexError, TypeError)):
            model.refit(X, y, alpha=[1e-2, 1e-3], cv=cv)
    # In float32 these are infinite.
    model = machine().fit(X.astype(np.float32), y)
    with unchanged(model), pytest.raises(ValueError, match=r"infinity|finite"), np.errstate(over="ignore"):
        model.refit(X * 1e300, y)


def test_no_split_at_all():
    X, y = board()
    model = machine().fit(X, y)
    with unchanged(model), pytest.raises(ValueError, match=r"cv|split"):
        model.refit(X, y, alpha=[1e-2, 1e-3], cv=[])


def test_warnings_that_are_errors_leave_the_model(few_epochs):
    X, y = board()
    model = machine().fit(X, y)
    scores = model.decision_function(X)
    # As they are here.
    with pytest.raises(ConvergenceWarning):
        model.refit(X, y, alpha=1e-10)
    assert np.array_equal(model.decision_function(X), scores)
    with unchanged(model), pytest.raises(ConvergenceWarning):
        model.refit(X, y, alpha=1e-10)


@pytest.mark.parametrize("way", ["rows", "stream"])
def test_parameters_that_were_set_before(way):
    """A refit must not make partial_fit believe that the machine was made with parameters as they are now."""
    X, y = board()
    model = machine().fit(X, y)
    arguments = (X, y) if way == "rows" else ([(X, y)],)
    a = copy.deepcopy(model).refit(*arguments, alpha=0.1).set_params(alpha=0.1).partial_fit(X, y)
    b = copy.deepcopy(model).set_params(alpha=0.1).refit(*arguments).partial_fit(X, y)
    want = a.decision_function(X)
    assert_allclose(b.decision_function(X), want, atol=1e-6 * np.abs(want).max())


@pytest.mark.parametrize("way", ["rows", "stream"])
@pytest.mark.parametrize("params", [{"gamma": 1.0}, {"maintenance": "remove"}, {"budget": 30}], ids=str)
def test_structure_stays(params, way):
    X, y = board()
    model = machine().fit(X, y)
    arguments = (X, y) if way == "rows" else ([(X, y)],)
    model.set_params(**params)
    with pytest.raises(ValueError, match="must stay as they are"):
        model.refit(*arguments).partial_fit(X, y)


def test_labels_of_any_kind():
    X, y = board()
    names = np.array(["white", "black"])[y]
    model = machine().fit(X, names).refit(X, names, alpha=[1e-2, 1e-3])
    assert model.score(X, names) > 0.8
    # A part that has not all of them.
    white = names == "white"
    model.refit(X[white], names[white])
    assert model.score(X[white], names[white]) == 1.0


def test_progress(capsys):
    X, y = board()
    machine(verbose=1).fit(X, y).refit(X, y, alpha=[1e-2, 1e-3])
    assert "KernelPegasosClassifier" in capsys.readouterr().err


# -- degenerate


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_rows_that_are_all_the_same(n_classes, dtype):
    X, y = np.ones((60, 2), dtype), np.arange(60) % n_classes
    for params in ({"maintenance": "merge"}, {"maintenance": "project"}, {"kernel": "linear", "maintenance": "remove"}):
        with pytest.warns(UserWarning, match="span 1 dimensions only"):
            model = machine(gamma=1.0, **params).fit(X, y)
        assert len(model.support_vectors_) == 1
        assert np.isfinite(model.dual_coef_).all()
        # Nothing is better than 0.
        assert_allclose(model.objective_, 1.0, rtol=1e-3)


def test_rows_that_are_all_zero():
    """No span at all for a linear kernel: as without a refit, a model that says 0."""
    X, y = np.zeros((60, 2)), np.arange(60) % 2
    for refit in (False, True):
        model = machine("linear", maintenance="project", refit=refit)
        with whatever_is_warned_of():
            model.fit(X, y)
        assert np.array_equal(model.decision_function(X), np.zeros(60))


@pytest.mark.parametrize("maintenance", ["merge", "project", "remove", "random"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_more_room_than_distinct_rows(maintenance, dtype):
    random = np.random.default_rng(0)
    distinct = random.normal(size=(12, 3))
    X = np.repeat(distinct, 10, axis=0).astype(dtype)
    y = np.repeat(np.arange(12) % 3, 10)
    for noise in (0.0, 1e-8, 1e-4):
        rows = (X + noise * random.normal(size=X.shape)).astype(dtype)
        model = machine(gamma=0.5, budget=50, maintenance=maintenance, alpha=1e-3)
        with whatever_is_warned_of():
            model.fit(rows, y)
        assert len(model.support_vectors_) <= 50
        if noise == 0.0:
            assert len(model.support_vectors_) <= 12
        assert np.isfinite(model.dual_coef_).all()
        assert model.score(rows, y) == 1.0
        assert_allclose(objective(model, rows, y), model.objective_, rtol=2e-2 if dtype == np.float32 else 1e-6)


def test_fewer_vectors_than_classes():
    X, y = board()
    with pytest.warns(UserWarning, match="support vectors span 1 dimensions only"):
        model = machine(budget=1).fit(X, y)
    assert len(model.support_vectors_) == 1
    assert np.isfinite(model.dual_coef_).all()
    assert model.objective_ <= 1.0 + 1e-3
    X, y = waves()
    with pytest.warns(UserWarning, match="there are 3 classes"):
        model = machine(gamma=0.02, budget=2).fit(X, y)
    with pytest.warns(UserWarning, match="there are 3 classes"):
        model.refit(X, y, y + 1.0)
    # One class is less than there are dimensions; nothing to warn of.
    model.refit(X, y, (y == 1) + 0.0)


@pytest.mark.parametrize("cache_size", [1e-6, 1024.0])
@pytest.mark.parametrize("n", [60, 3000])
@pytest.mark.parametrize("alpha", [1e-3, 1e-1, 10.0])
def test_an_optimum_at_0_is_certified(alpha, n, cache_size):
    """Where w is nothing but roundings."""
    X, y = np.ones((n, 1)), np.arange(n) % 3
    with pytest.warns(UserWarning, match="span 1 dimensions only"):
        model = machine(gamma=1.0, alpha=alpha, cache_size=cache_size).fit(X, y)
    assert_allclose(model.objective_, 1.0, rtol=1e-3)
    assert model.duality_gap_ <= 1e-3 * model.objective_
    linear = PegasosClassifier(alpha=alpha, solver="dual", fit_intercept=False, random_state=0).fit(X, y)
    assert linear.duality_gap_ <= 1e-3 * linear.objective_


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("gamma", [1e-8, 1e6])
@pytest.mark.parametrize("alpha", [1e-10, 1e-3, 1e3])
def test_extremes(alpha, gamma, dtype):
    """Each ends within seconds, as the time of the whole file shows."""
    for X, y in (board(200), waves(200)):
        model = machine(gamma=gamma, alpha=alpha, budget=20)
        with whatever_is_warned_of():
            model.fit(X.astype(dtype), y)
        assert np.isfinite(model.dual_coef_).all()
        assert np.isfinite(model.decision_function(X)).all()
        assert -1e-6 * model.objective_ <= model.duality_gap_ < np.inf
        # Where it is solved, never worse than w = 0.
        assert model.objective_ <= 1.0 + 1e-2 or model.duality_gap_ > 1e-3 * model.objective_


@pytest.mark.parametrize("way", ["fit", "method"])
def test_a_small_alpha_is_warned_of(way, few_epochs):
    X, y = board()
    model = machine(alpha=1e-2).fit(X, y).set_params(alpha=1e-10)
    with pytest.warns(ConvergenceWarning, match="relative duality gap") as caught:
        model.fit(X, y) if way == "fit" else model.refit(X, y)
    assert np.isfinite(model.dual_coef_).all()
    assert model.duality_gap_ > 1e-3 * model.objective_
    # It points at who has asked for the impossible.
    assert caught[0].filename == __file__


@pytest.mark.parametrize("way", ["fit", "method"])
def test_fewer_dimensions_than_classes_are_warned_of(way):
    X, y = board()
    model = machine(budget=1)
    for _ in range(2):
        with pytest.warns(UserWarning, match="span 1 dimensions only") as caught:
            model.fit(X, y) if way == "fit" or not hasattr(model, "classes_") else model.refit(X, y)
    assert caught[0].filename == __file__


def test_advice(few_epochs):
    """What a warning says must help: epochs of a refit are not those of max_iter, and tol=None asks for 1e-2."""
    X, y = board()
    model = machine().fit(X, y).set_params(tol=None)
    with pytest.warns(ConvergenceWarning) as caught:
        model.refit(X, y, alpha=1e-10)
    assert "max_iter" not in str(caught[0].message)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_scales(scale, dtype):
    X, y = board()
    base = machine(gamma="scale").fit(X.astype(dtype), y)
    model = machine(gamma="scale").fit((scale * X).astype(dtype), y)
    assert np.isfinite(model.dual_coef_).all()
    assert_allclose(model.objective_, base.objective_, rtol=1e-2)
    # As good as a machine that knows nothing of other rows.
    model = machine(gamma=2.0).set_params(alpha=1e-4)
    with whatever_is_warned_of():
        model.fit((scale * X).astype(dtype), y)
    assert np.isfinite(model.dual_coef_).all()
    assert model.objective_ <= 1.0 + 1e-3


@pytest.mark.parametrize("make", [board, waves])
def test_rounds(make):
    X, y = make(1500)
    gamma = 2.0 if make is board else 0.02
    model = machine(gamma=gamma, refit_rounds=3).fit(X, y)
    # An epoch and a refit each.
    assert model.n_iter_ == len(model.loss_curve_) == 6
    assert len(model.support_vectors_) <= 25
    assert model.duality_gap_ <= 1e-3 * model.objective_
    once = machine(gamma=gamma).fit(X, y)
    assert model.score(X, y) > once.score(X, y) - 0.03
    assert machine(gamma=gamma, refit=False, refit_rounds=3).fit(X, y).n_iter_ == 1


def test_tiny_problems():
    for n in (2, 3, 5):
        X, y = np.arange(n, dtype=float)[:, None], np.arange(n) % 2
        model = machine(gamma=1.0, budget=5, alpha=0.1)
        with whatever_is_warned_of():
            model.fit(X, y)
            assert np.isfinite(model.refit(X, y).dual_coef_).all()
            assert np.isfinite(model.refit(X[:1], y[:1]).dual_coef_).all()
            model.refit([(X[i : i + 1], y[i : i + 1]) for i in range(n)])
        assert np.isfinite(model.dual_coef_).all()


INTERRUPTED = """
import os, signal, threading, time
import numpy as np
from pegasos import KernelPegasosClassifier

random = np.random.default_rng(0)
X = random.uniform(0, 4, (60_000, 2)).astype(np.float32)
y = random.integers(0, {classes}, 60_000)
new = KernelPegasosClassifier(gamma=8.0, alpha=1e-8, budget=200, tol=0.0, random_state=0)
small = KernelPegasosClassifier(gamma=8.0, alpha=1e-2, budget=200, random_state=0).fit(X[:2000], y[:2000])
# What follows is about the refit, not about what came before it.
small.set_params(tol=0.0, cache_size={cache})
sent = []

def interrupt():
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)

def stream():
    while True:
        yield X[:5000], y[:5000]

vectors = small.support_vectors_.copy()
for work, model in [
    (lambda: new.fit(X, y), new),
    (lambda: small.refit(X, y, alpha=1e-9), small),
    (lambda: small.refit(X, y, alpha=[1e-8, 1e-9]), small),
    (lambda: small.refit(stream()), small),
]:
    threading.Timer({after}, interrupt).start()
    try:
        work()
    except KeyboardInterrupt:
        late = time.monotonic() - sent[-1]
    else:
        raise AssertionError("not interrupted")
    assert late < 1.0, late
    assert np.isfinite(model.dual_coef_).all() and model.dual_coef_.any()
    assert model.predict(X[:5]).shape == (5,)
    before = model.t_
    assert before > 0
    if model is small:
        assert np.array_equal(model.support_vectors_, vectors)
new.set_params(tol=1e-1)
for model in (new, small):
    before = model.t_
    model.partial_fit(X[:7], y[:7])
    assert model.t_ == before + 7
print("done")
"""


@pytest.mark.parametrize(("classes", "cache"), [(2, 1024.0), (3, 1.0)])
def test_ctrl_c(classes, cache, run_script):
    done = run_script(INTERRUPTED.format(classes=classes, cache=cache, after=0.5))
    assert done.stdout == "done\n", (done.returncode, done.stderr)


@pytest.mark.parametrize("seed", range(100))
def test_any_problem(seed):
    random = np.random.default_rng(seed)
    n, n_classes = int(random.integers(10, 200)), int(random.integers(2, 5))
    X = random.normal(size=(n, int(random.integers(1, 8)))) * 10.0 ** random.uniform(-1, 0.5)
    X = np.where(random.random(X.shape) < random.choice([0.0, 0.6]), 0.0, X)
    X = np.ascontiguousarray(X, random.choice([np.float32, np.float64]))
    y = random.permutation(np.arange(n) % n_classes)
    kernel, params = KERNELS[random.integers(len(KERNELS))]
    form = random.choice([np.asarray, sparse.csr_array])
    weight = random.choice([None, 1, 2])
    weight = None if weight is None else weights(n, seed) + 0.01
    model = machine(
        kernel, gamma=10.0 ** random.uniform(-2, 1), alpha=10.0 ** random.uniform(-4, 1),
        budget=int(random.integers(1, 40)), average=bool(random.integers(2)), random_state=seed, **params,
    )
    with whatever_is_warned_of():
        model.fit(form(X), y, weight)
        check_any(model, form(X), y, weight)
        model.partial_fit(form(X), y, sample_weight=weight)
        model.refit(form(X), y, weight, alpha=model.alpha * 2)
        check_any(model, form(X), y, weight, 2.0 * model.alpha)


def check_any(model, X, y, weight, alpha=None):
    assert np.isfinite(model.dual_coef_).all()
    assert np.isfinite(model.objective_)
    assert model.duality_gap_ >= -1e-6 * model.objective_, model.duality_gap_
    assert model.support_vectors_.shape[0] == model.dual_coef_.shape[1] <= model.budget
    rtol = 1e-2 if X.dtype == np.float32 else 1e-6
    assert_allclose(objective(model, X, y, weight, alpha), model.objective_, rtol=rtol)


# -- one class against the rest


def test_one_against_the_rest():
    """As the linear model of that kind on the same features, and as many problems of two classes."""
    X, y = waves(400)
    model = machine(gamma=0.02, alpha=1e-3, budget=30, tol=1e-8, multi_class="ovr").fit(X, y)
    assert model.dual_coef_.shape == (3, 30)
    Z, coefs = model.support_vectors_, model.dual_coef_
    k = rbf_kernel(X, Z, gamma=0.02)
    assert_allclose(model.decision_function(X), k @ coefs.T, atol=1e-6 * np.abs(coefs).max())
    total = 0.0
    for c in range(3):
        signs = np.where(y == c, 1.0, -1.0)
        norm2 = coefs[c] @ rbf_kernel(Z, gamma=0.02) @ coefs[c]
        total += 5e-4 * norm2 + np.maximum(0.0, 1.0 - signs * (k @ coefs[c])).mean()
    assert_allclose(model.objective_, total, rtol=1e-6)
    # The features of the span, by another factor.
    z = k @ np.linalg.inv(np.linalg.cholesky(rbf_kernel(Z, gamma=0.02))).T
    linear = PegasosClassifier(
        alpha=1e-3, fit_intercept=False, multi_class="ovr", solver="dual", tol=1e-8, max_iter=10**5
    ).fit(z, y)
    assert_allclose(model.objective_, linear.objective_, rtol=1e-6)
    model.refit(X, y, alpha=[1e-2, 1e-3, 1e-4], cv=2).partial_fit(X, y)
    assert np.isfinite(model.dual_coef_).all()
    stream = model.refit(batches(X, y))
    assert stream.score(X, y) > 0.8
