"""Shapley values: against their definition, against the paper's recursion, and as users meet them."""

import copy
import math
import pickle

import numpy as np
import pytest
from conftest import INTERRUPT
from scipy.sparse import csr_array, csr_matrix
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from pegasos import (
    KernelPegasosClassifier,
    KernelPegasosClassifierCV,
    OnlineGradientClassifier,
    PegasosClassifier,
    PegasosClassifierCV,
    ProjectronClassifier,
)
from pegasos.explain import ShapleyValues, shapley


def problem(d, classes, dtype=np.float64, n=80):
    """Rows of d features, half of which are 0, whose classes three tell of."""
    rng = np.random.default_rng(d)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5)
    y = np.digitize(X[:, : min(3, d)].sum(axis=1), np.linspace(-0.7, 0.7, classes - 1) if classes > 2 else [0.0])
    return X.astype(dtype), y


def machine(kind=KernelPegasosClassifier, **params):
    params = {"gamma": 0.3, "n_jobs": 1, "random_state": 0} | params
    if kind is KernelPegasosClassifier:
        params = {"decision_function_shape": "ovo"} | params
    return kind(**params)


def by_coalitions(score_of, d):
    """The definition, given v of a boolean array of known features: features x scores."""
    worth = {known: score_of(np.array([known >> i & 1 for i in range(d)], bool)) for known in range(2**d)}
    values = []
    for i in range(d):
        without = [known for known in worth if not known >> i & 1]
        sizes = [bin(known).count("1") for known in without]
        orders = [math.factorial(s) * math.factorial(d - 1 - s) / math.factorial(d) for s in sizes]
        values.append(sum(o * (worth[k | 1 << i] - worth[k]) for o, k in zip(orders, without, strict=True)))
    return np.array(values)


def oracle(X, vectors, coefs, gamma, background=None):
    """Of the scores sum_j coefs[o, j] exp(-sum_i gamma_i (x_i - z_ji)^2): rows x features x scores."""

    def game(x):
        def score_of(known):
            if background is None:
                return coefs @ np.exp(-(((x - vectors) ** 2 * gamma)[:, known]).sum(axis=1))
            rows = np.where(known, x, background)
            k = np.exp(-(((rows[:, None] - vectors) ** 2) * gamma).sum(axis=2))
            return (k @ coefs.T).mean(axis=0)

        return score_of

    return np.array([by_coalitions(game(x), X.shape[1]) for x in X])


def by_recursion(x, vectors, coefs, gamma):
    """The paper's way: weighted sums of elementary symmetric polynomials of the others' factors, by Newton's identities."""
    d = len(x)
    factors = np.exp(-gamma * (x - vectors) ** 2)
    values = np.empty((d, len(coefs)))
    for i in range(d):
        others = np.delete(factors, i, axis=1)
        powers = [(others**k).sum(axis=1) for k in range(d)]
        e = [np.ones(len(vectors))]
        for k in range(1, d):
            e.append(sum((-1) ** (r - 1) * e[k - r] * powers[r] for r in range(1, k + 1)) / k)
        mean = sum(math.factorial(k) * math.factorial(d - 1 - k) / math.factorial(d) * e[k] for k in range(d))
        values[i] = coefs @ ((factors[:, i] - 1.0) * mean)
    return values


def arrays(model):
    """Support vectors and coefficients, dense and in double precision."""
    vectors = model.support_vectors_
    vectors = vectors.toarray() if hasattr(vectors, "toarray") else vectors
    return vectors.astype(float), model.dual_coef_.astype(float)


def three(values):
    return values[:, :, None] if values.ndim == 2 else values


def scores(model, X):
    found = model.decision_function(X)
    return found[:, None] if found.ndim == 1 else found


def adds_up(model, X, found, tolerance=1e-12):
    total = np.atleast_1d(found.base_values) + three(found.values).sum(axis=1)
    np.testing.assert_allclose(total, scores(model, X), rtol=0, atol=tolerance)


MACHINES = {
    "two classes": (2, machine()),
    "pairs": (4, machine()),
    "jointly": (3, machine(multi_class="crammer_singer")),
    "each from the rest": (3, machine(multi_class="ovr", fit_intercept=True)),
    "without intercept": (2, machine(fit_intercept=False)),
    "budget": (3, machine(budget=13)),
    "removal": (2, machine(budget=8, maintenance="remove", refine=False)),
    "projectron": (3, machine(ProjectronClassifier, budget=10)),
}


@pytest.mark.parametrize("d", [1, 2, 5, 8])
@pytest.mark.parametrize("name", MACHINES)
def test_values_are_those_of_the_definition(name, d):
    classes, template = MACHINES[name]
    X, y = problem(d, classes)
    model = copy.deepcopy(template).fit(X, y)
    vectors, coefs = arrays(model)
    for background in (None, X[:1], X[20:23]):
        found = shapley(model, X[:6], background=background)
        assert isinstance(found, ShapleyValues) and found.values.dtype == np.float64
        want = oracle(X[:6], vectors, coefs, 0.3, background)
        np.testing.assert_allclose(three(found.values), want, rtol=0, atol=1e-12 * abs(coefs).sum())
        adds_up(model, X[:6], found)
        one = len(coefs) == 1
        assert found.values.shape == ((6, d) if one else (6, d, len(coefs)))
        assert isinstance(found.base_values, float) if one else found.base_values.shape == (len(coefs),)


def test_ten_features_and_the_papers_recursion():
    X, y = problem(10, 3)
    model = machine(budget=20).fit(X, y)
    vectors, coefs = arrays(model)
    found = shapley(model, X[:2]).values
    np.testing.assert_allclose(found, oracle(X[:2], vectors, coefs, 0.3), rtol=0, atol=1e-12)
    np.testing.assert_allclose(found, [by_recursion(x, vectors, coefs, 0.3) for x in X[:2]], rtol=0, atol=1e-9)
    found = shapley(model, X[:2], background=X[5:9]).values
    np.testing.assert_allclose(found, oracle(X[:2], vectors, coefs, 0.3, X[5:9]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("sparse", [csr_matrix, csr_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_and_single(dtype, sparse):
    X, y = problem(7, 3, dtype)
    tolerance = 1e-12 if dtype == np.float64 else 2e-5
    for template in (machine(), machine(budget=15), machine(ProjectronClassifier)):
        dense = copy.deepcopy(template).fit(X, y)
        want = shapley(dense, X[:9], background=X[40:44])
        adds_up(dense, X[:9], want, tolerance)
        vectors, coefs = arrays(dense)
        truth = oracle(X[:9].astype(float), vectors, coefs, 0.3, X[40:44].astype(float))
        np.testing.assert_allclose(want.values, truth, rtol=0, atol=tolerance)
        # Rows are as good in either form.
        mixed = shapley(dense, sparse(X[:9]), background=sparse(X[40:44]))
        assert np.array_equal(mixed.values, want.values)
        model = copy.deepcopy(template).fit(sparse(X), y)
        found = shapley(model, sparse(X[:9]), background=X[40:44])
        np.testing.assert_allclose(found.values, want.values, rtol=0, atol=20 * tolerance)


def test_many_features_few_of_them_stored():
    rng = np.random.default_rng(0)
    X, y = problem(6, 2)
    columns = rng.permutation(6000)[:6]
    wide = np.zeros((len(X), 6000))
    wide[:, columns] = X
    model = machine(gamma=0.3).fit(csr_matrix(wide), y)
    for background in (None, X[:3]):
        rows = None if background is None else csr_matrix(wide[:3])
        found = shapley(model, csr_matrix(wide[:5]), background=rows).values
        vectors, coefs = arrays(model)
        want = oracle(X[:5], vectors[:, columns], coefs, 0.3, background)
        np.testing.assert_allclose(found[:, columns, None], want, rtol=0, atol=1e-12)
        assert not np.delete(found, columns, axis=1).any()


def test_learned_metric():
    X, y = problem(6, 3, n=400)
    for rows in (X, csr_matrix(X)):
        model = machine(metric="diagonal", budget=30).fit(rows, y)
        vectors, coefs = arrays(model)
        assert np.ptp(model.metric_) > 0
        for background in (None, rows[10:14]):
            found = shapley(model, rows[:4], background=background)
            known = None if background is None else X[10:14]
            want = oracle(X[:4], vectors, coefs, 0.3 * model.metric_, known)
            np.testing.assert_allclose(found.values, want, rtol=0, atol=1e-9)
            adds_up(model, rows[:4], found)
    full = machine(metric="full", budget=30).fit(X, y)
    with pytest.raises(ValueError, match="mixes features.*metric='diagonal'"):
        shapley(full, X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("classes", [2, 3])
def test_linear_models(classes, dtype):
    X, y = problem(5, classes, dtype)
    rows = np.float64(X)
    tolerance = 1e-12 if dtype == np.float64 else 1e-5
    for model in (
        PegasosClassifier(random_state=0).fit(X, y),
        PegasosClassifier(fit_intercept=False, random_state=0).fit(csr_matrix(X), y),
        OnlineGradientClassifier(random_state=0).fit(X, y),
    ):
        coefs = model.coef_.astype(float)
        for given in (X, csr_matrix(X), X.astype(np.float64)):
            found = shapley(model, given)
            np.testing.assert_allclose(three(found.values), rows[:, :, None] * coefs.T, rtol=0, atol=tolerance)
            np.testing.assert_allclose(np.atleast_1d(found.base_values), model.intercept_, rtol=1e-6)
            adds_up(model, X, found, tolerance)
            found = shapley(model, given, background=given[:7])
            want = (rows - rows[:7].mean(axis=0))[:, :, None] * coefs.T
            np.testing.assert_allclose(three(found.values), want, rtol=0, atol=tolerance)
            adds_up(model, X, found, tolerance)


def test_linear_kernels():
    for classes in (2, 4):
        X, y = problem(5, classes)
        for rows in (X, csr_matrix(X)):
            model = machine(kernel="linear", fit_intercept=True).fit(rows, y)
            for background in (None, rows[:4]):
                found = shapley(model, rows[:6], background=background)
                adds_up(model, rows[:6], found, 1e-9)
                weights = arrays(model)[1] @ arrays(model)[0]
                mean = 0.0 if background is None else X[:4].mean(axis=0)
                want = (X[:6] - mean)[:, :, None] * weights.T
                np.testing.assert_allclose(three(found.values), want, rtol=0, atol=1e-9)


def test_tuned_models_are_their_best_ones():
    X, y = problem(4, 2)
    kernel = KernelPegasosClassifierCV(budget=20, cv=3, random_state=0, n_jobs=1).fit(X, y)
    linear = PegasosClassifierCV(cv=3, random_state=0, n_jobs=1).fit(X, y)
    for model in (kernel, linear):
        found, want = shapley(model, X), shapley(model.best_estimator_, X)
        assert np.array_equal(found.values, want.values) and found.base_values == want.base_values
        adds_up(model, X, found)
    for model in (KernelPegasosClassifierCV(), PegasosClassifierCV()):
        with pytest.raises(NotFittedError):
            shapley(model, X)


def test_streams_files_and_threads(tmp_path):
    from pegasos import load, save

    X, y = problem(6, 3)
    model = machine(budget=25).partial_fit(X, y.astype(str))
    want = shapley(model, X, background=X[:40], n_jobs=1)
    save(model, tmp_path / "model")
    for other in (model, pickle.loads(pickle.dumps(model)), load(tmp_path / "model")):
        for n_jobs in (None, 2, 3, -1):
            found = shapley(other, X, background=X[:40], n_jobs=n_jobs)
            assert found.values.tobytes() == want.values.tobytes()
            assert np.array_equal(found.base_values, want.base_values)
    # Rows by themselves have the same bits.
    alone = np.concatenate([shapley(model, x[None], background=X[:40]).values for x in X])
    assert alone.tobytes() == want.values.tobytes()


def test_equal_features_have_equal_values_and_useless_ones_none():
    X, y = problem(4, 2)
    twins = np.hstack([X, X[:, :1], np.full((len(X), 1), 3.0)])
    model = machine().fit(twins, y)
    for background in (None, twins[:5]):
        values = shapley(model, twins, background=background).values
        np.testing.assert_allclose(values[:, 0], values[:, 4], rtol=0, atol=1e-13)
        assert not values[:, 5].any()
    assert not shapley(model, twins[:1], background=twins[:1]).values.any()


@pytest.mark.filterwarnings("ignore:fit stopped after max_iter=1 epoch")
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_what_is_refused():
    X, y = problem(4, 2)
    model = machine().fit(X, y)
    for other in (SVC().fit(X, y), make_pipeline(StandardScaler(), machine()).fit(X, y), None, KernelPegasosClassifier):
        with pytest.raises(TypeError, match="model must be a fitted classifier of pegasos"):
            shapley(other, X)
    for unfitted in (machine(), PegasosClassifier(), ProjectronClassifier()):
        with pytest.raises(NotFittedError):
            shapley(unfitted, X)
    for params in ({"kernel": "poly"}, {"kernel": "sigmoid"}, {"kernel": lambda a, b: a @ b.T}):
        with pytest.raises(ValueError, match="model must have kernel='rbf' or 'linear', got kernel=.*KernelExplainer"):
            shapley(machine(**params).fit(X, y), X)
    with pytest.raises(ValueError, match="kernel='precomputed': rows of kernel values have no features"):
        shapley(machine(kernel="precomputed").fit(X @ X.T, y), X @ X.T)
    # What counts is what it was trained with.
    renamed = machine().fit(X, y).set_params(kernel="linear")
    assert np.array_equal(shapley(renamed, X).values, shapley(model, X).values)
    holes = X.copy()
    holes[3, 1] = np.nan
    outside = csr_matrix(X)
    outside.indices[2] = 99
    for bad, text in [
        (X[:, :2], "X has 2 features"),
        (X[0], "Expected 2D array"),
        (X[:0], "0 sample"),
        (holes, "NaN"),
        (csr_matrix(holes), "NaN"),
        (outside, r"X.indices must lie in 0\.\.4, got 99"),
        (X.astype(str), "could not convert|dtype"),
    ]:
        for fitted in (model, PegasosClassifier().fit(X, y)):
            if bad.dtype.kind == "U":
                bad = np.array([["a"] * 4])
            with pytest.raises(ValueError, match=text):
                shapley(fitted, bad)
            with pytest.raises(ValueError, match=f"background must be as X is: .*({text})"):
                shapley(fitted, X, background=bad)
    with pytest.raises(ValueError, match="n_jobs must not be 0"):
        shapley(model, X, n_jobs=0)
    with pytest.raises(ValueError, match="'n_jobs' parameter of shapley must be an instance of 'int' or None"):
        shapley(model, X, n_jobs="2")


def test_room_is_asked_for():
    X, y = problem(2, 2)
    wide = csr_matrix((X.ravel(), np.tile([0, 2**20 - 1], len(X)), np.arange(0, 2 * len(X) + 1, 2)), (len(X), 2**20))
    model = PegasosClassifier(random_state=0).fit(wide, y)
    many = csr_matrix((np.zeros(0), np.zeros(0, np.int32), np.zeros(400_001, np.int32)), (400_000, 2**20))
    with pytest.raises(MemoryError, match="the Shapley values must fit into memory"):
        shapley(model, many)


@pytest.mark.parametrize("rows", [1, 3000])
def test_interrupt(run_forked, rows):
    """One row that takes long, and many rows."""
    script = INTERRUPT + f"""
import numpy as np
from pegasos import KernelPegasosClassifier
from pegasos.explain import shapley
random = np.random.default_rng(0)
X = random.normal(size=(3000, 400))
y = (X[:, 0] * X[:, 1] > 0).astype(int)
model = KernelPegasosClassifier(budget=300, n_jobs=1, random_state=0).fit(X[:400], y[:400])
background = np.concatenate([X] * (5 if {rows} == 1 else 1))
took = interrupt(1.0, lambda: shapley(model, X[:{rows}], background=background, n_jobs=2))
assert took < 1.0, took
assert shapley(model, X[:1]).values.shape == (1, 400)
print("stopped")
"""
    done = run_forked(script)
    assert "stopped" in done.stdout, done.stderr


def test_sparse_coefficients():
    X, y = np.random.default_rng(0).normal(size=(30, 4)), np.arange(30) % 3
    model = PegasosClassifier(random_state=0).fit(X, y)
    dense = shapley(model, X).values
    assert (shapley(model.sparsify(), X).values == dense).all()
