"""An intercept that is not regularised: the optimum of others, and a bound that is one."""

import copy
import pickle
import warnings
from functools import cache

import numpy as np
import pytest
from conftest import INTERRUPT, every_pair
from scipy import sparse
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

from pegasos import OnlineGradientClassifier, PegasosClassifier, load, merge, save

LOSSES = ["hinge", "squared_hinge", "log_loss"]


def model_of(loss, **params):
    return PegasosClassifier(loss, **{"fit_intercept": "free", "random_state": 0, "max_iter": 2000} | params)


@cache
def examples(n=240, d=5, rare=0.1, shift=3.0, seed=5):
    """One class rarer than the other, features with a mean far from 0."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d))
    score = X @ random.normal(size=d) + random.normal(size=n)
    y = (score > np.quantile(score, 1.0 - rare)).astype(int)
    weights = random.uniform(0.2, 3.0, size=n)
    weights[::9] = 0.0
    return X + shift, y, weights


def value_and_slope(loss, m):
    if loss == "hinge":
        return np.maximum(0.0, 1.0 - m), -(m < 1.0).astype(float)
    if loss == "squared_hinge":
        return np.maximum(0.0, 1.0 - m) ** 2, -2.0 * np.maximum(0.0, 1.0 - m)
    return np.logaddexp(0.0, -m), -np.exp(-np.logaddexp(0.0, m))


def objective(loss, w, b, X, y, alpha, weights=None):
    """P, without the intercept in the norm."""
    m = (2 * y - 1) * (X @ np.asarray(w, np.float64).ravel() + float(np.ravel(b)[0]))
    value = value_and_slope(loss, m)[0]
    return alpha / 2.0 * np.sum(np.square(w, dtype=np.float64)) + np.mean(value if weights is None else weights * value)


def minimum(loss, X, y, alpha, weights=None):
    """w, b and P by somebody else: scipy's L-BFGS for smooth losses, LIBSVM for the hinge, of centred features."""
    mean = X.mean(axis=0)
    Z, sign = X - mean, 2.0 * y - 1.0
    s = np.ones(len(y)) if weights is None else weights
    if loss == "hinge":
        other = SVC(kernel="linear", C=1.0 / (alpha * len(y)), tol=1e-9).fit(Z, y, sample_weight=weights)
        w, b = other.coef_.ravel(), other.intercept_[0]
    else:

        def of(v):
            value, slope = value_and_slope(loss, sign * (Z @ v[:-1] + v[-1]))
            slope = s * sign * slope / len(y)
            of_w = alpha * v[:-1] + slope @ Z
            return alpha / 2.0 * v[:-1] @ v[:-1] + np.mean(s * value), np.append(of_w, slope.sum())

        options = {"ftol": 0.0, "gtol": 1e-11, "maxiter": 20_000, "maxfun": 100_000, "maxcor": 50}
        found = minimize(of, np.zeros(X.shape[1] + 1), jac=True, method="L-BFGS-B", options=options)
        w, b = found.x[:-1], found.x[-1]
    return w, b - w @ mean, objective(loss, w, b, Z, y, alpha, weights)


@cache
def least_of(loss, shape, alpha):
    X, y, _ = examples(*shape)
    return minimum(loss, X, y, alpha)[2]


def check(loss, model, X, y, alpha, weights=None, least=None):
    """The certificate is about the weights that are there, and a bound."""
    P = objective(loss, model.coef_, model.intercept_, X, y, alpha, weights)
    tiny = 1e-6 if X.dtype == np.float32 else 1e-11
    assert model.objective_ == pytest.approx(P, rel=tiny)
    assert model.duality_gap_ == model.objective_ - model.dual_objective_
    assert model.duality_gap_ >= -1e-13 * P
    if least is not None:
        assert model.dual_objective_ <= least * (1.0 + 1e-12)
        assert P - least <= model.duality_gap_ + tiny * P


@every_pair(
    loss=LOSSES,
    solver=["dual", "auto"],
    weighted=[False, True],
    form=[np.asarray, sparse.csr_array],
    shape=[(240, 5), (100, 300)],
    alpha=[1e-3, 0.05, 2.0],
)
def test_the_minimum_is_that_of_others(loss, solver, weighted, form, shape, alpha):
    X, y, weights = examples(*shape)
    weights = weights if weighted else None
    w, b, least = minimum(loss, X, y, alpha, weights)
    model = model_of(loss, solver=solver, alpha=alpha, tol=1e-7, max_iter=20_000).fit(form(X), y, weights)
    assert model.duality_gap_ <= 1e-7 * model.objective_
    check(loss, model, X, y, alpha, weights, least)
    # P is alpha-strongly convex in w; b follows from w but for how far w is.
    apart = np.sqrt(2.0 * (model.duality_gap_ + 1e-9 * least) / alpha)
    assert np.linalg.norm(model.coef_.ravel() - w) <= apart + 2e-4 * (loss == "hinge")
    if loss != "hinge":
        assert model.intercept_[0] == pytest.approx(b, abs=0.02 * (1.0 + abs(b)))


@pytest.mark.parametrize("tol", [0.3, 0.03, 1e-3, 1e-6])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_bound_is_one_at_any_tolerance(loss, tol):
    for shape in ((240, 5), (100, 300)):
        X, y, _ = examples(*shape)
        for alpha in (1e-4, 1e-2, 1.0):
            least = least_of(loss, shape, alpha)
            for max_iter in (1, 2, 4, 7, 1000):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    model = model_of(loss, alpha=alpha, tol=tol, max_iter=max_iter).fit(X, y)
                check(loss, model, X, y, alpha, None, least)


def test_logistic_regression():
    X, y, weights = examples()
    for C in (0.01, 1.0, 100.0):
        other = LogisticRegression(C=C, tol=1e-10, max_iter=100_000).fit(X, y, weights)
        model = model_of("log_loss", alpha=1.0 / (C * len(y)), tol=1e-11).fit(X, y, weights)
        assert model.coef_ == pytest.approx(other.coef_, rel=1e-3, abs=1e-4)
        assert model.intercept_ == pytest.approx(other.intercept_, rel=1e-3, abs=1e-3)
        assert model.predict_proba(X) == pytest.approx(other.predict_proba(X), abs=1e-4)


def test_support_vector_classifier():
    X, y, _ = examples()
    other = SVC(kernel="linear", C=1.0, tol=1e-8).fit(X, y)
    model = model_of("hinge", tol=1e-9, max_iter=20_000).fit(X, y)
    assert model.coef_ == pytest.approx(other.coef_, abs=1e-3)
    assert model.intercept_ == pytest.approx(other.intercept_, abs=5e-3)


def test_a_regularised_intercept_is_visibly_wrong_here():
    X, y, _ = examples(shift=30.0)
    alpha = 0.1
    least = minimum("squared_hinge", X, y, alpha)[2]
    held = model_of("squared_hinge", alpha=alpha, fit_intercept=True, tol=1e-6).fit(X, y)
    free = model_of("squared_hinge", alpha=alpha, tol=1e-6).fit(X, y)
    assert objective("squared_hinge", held.coef_, held.intercept_, X, y, alpha) > 1.03 * least
    assert objective("squared_hinge", free.coef_, free.intercept_, X, y, alpha) < 1.00001 * least


@pytest.mark.parametrize("d", [5, 300])
@pytest.mark.parametrize("shift", [1.0, 1e3, 1e6, 1e10])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_shift_of_the_features_changes_nothing(loss, shift, d):
    X, y, _ = examples(d=d, shift=0.0)
    alpha, tol = 0.01, 1e-4
    model = model_of(loss, alpha=alpha, tol=tol).fit(X, y)
    moved = model_of(loss, alpha=alpha, tol=tol).fit(X + shift * np.linspace(-1.0, 1.0, d), y)
    assert moved.duality_gap_ <= tol * moved.objective_
    apart = np.linalg.norm(model.coef_ - moved.coef_)
    least = np.sqrt(2.0 / alpha)
    assert apart <= least * (np.sqrt(model.duality_gap_) + np.sqrt(moved.duality_gap_)) + 1e-15 * shift


@pytest.mark.parametrize("loss", LOSSES)
def test_weights_are_repetitions(loss):
    X, y, _ = examples()
    times = np.arange(len(y)) % 3
    often = np.repeat(np.arange(len(y)), times)
    kept = times > 0
    weights = times[kept] * kept.sum() / len(often)
    weighted = model_of(loss, alpha=0.02, tol=1e-9, max_iter=20_000).fit(X[kept], y[kept], weights)
    repeated = model_of(loss, alpha=0.02, tol=1e-9, max_iter=20_000).fit(X[often], y[often])
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=3e-9)
    assert weighted.coef_ == pytest.approx(repeated.coef_, abs=2e-3)


@pytest.mark.parametrize("loss", LOSSES)
def test_single_precision(loss):
    X, y, weights = examples()
    X = X.astype(np.float32)
    for form in (np.asarray, sparse.csr_array):
        model = model_of(loss, alpha=0.01, tol=1e-5).fit(form(X), y, weights)
        assert model.coef_.dtype == model.intercept_.dtype == np.float32
        assert model.duality_gap_ <= 1e-5 * model.objective_
        check(loss, model, X, y, 0.01, weights, minimum(loss, X.astype(np.float64), y, 0.01, weights)[2])


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("d", [6, 300])
@pytest.mark.parametrize("loss", LOSSES)
def test_one_against_the_rest(loss, d, form):
    random = np.random.default_rng(3)
    X = random.normal(size=(300, d)) * (random.random((300, d)) < 0.3)
    y = np.digitize(X[:, 0] + X[:, 1] + 0.3 * random.normal(size=300), [-0.6, 0.0, 0.9])
    alpha, X = 0.02, form(X)
    model = model_of(loss, alpha=alpha, tol=1e-6, n_jobs=1).fit(X, y)
    assert model.coef_.shape == (4, d) and model.intercept_.shape == (4,)
    assert model.duality_gap_ <= 1e-6 * model.objective_
    total = 0.0
    for k in range(4):
        of_k = (y == k).astype(int)
        single = model_of(loss, alpha=alpha, tol=1e-7).fit(X, of_k)
        P = objective(loss, model.coef_[k], model.intercept_[k : k + 1], X, of_k, alpha)
        assert P - single.objective_ <= model.duality_gap_
        total += P
    assert model.objective_ == pytest.approx(total, rel=1e-10)
    # No thread changes a bit.
    other = model_of(loss, alpha=alpha, tol=1e-6, n_jobs=2).fit(X, y)
    assert other.coef_.tobytes() == model.coef_.tobytes()
    assert other.intercept_.tobytes() == model.intercept_.tobytes()


def test_dense_and_sparse_rows_have_one_minimum():
    X, y, weights = examples(d=20)
    for loss in LOSSES:
        dense = model_of(loss, solver="dual", alpha=0.02, tol=1e-4).fit(X, y, weights)
        stored = model_of(loss, solver="dual", alpha=0.02, tol=1e-4).fit(sparse.csr_array(X), y, weights)
        apart = np.sqrt(2.0 / 0.02) * (np.sqrt(dense.duality_gap_) + np.sqrt(stored.duality_gap_))
        assert np.linalg.norm(stored.coef_ - dense.coef_) <= apart


@pytest.mark.parametrize("loss", LOSSES)
def test_hard_cases(loss):
    random = np.random.default_rng(1)
    X = random.normal(size=(5000, 20))
    one = np.zeros(5000, int)
    one[17] = 1
    for X, y in [
        (X, one),
        (random.normal(size=(2000, 300)), one[:2000]),
        (np.array([[0.0], [1.0]]), np.array([0, 1])),
        (np.array([[1.0], [1.0]]), np.array([0, 1])),
        (np.full((50, 3), 7.0), np.arange(50) % 5 == 0),
        (np.zeros((50, 3)), np.arange(50) % 5 == 0),
        (sparse.csr_array((50, 3)), np.arange(50) % 5 == 0),
        (X[:300, :4] * [1, 1e3, 1e-3, 1e5], X[:300, 0] > 1),
    ]:
        for alpha in ("auto", 1e-6, 1e6):
            model = model_of(loss, alpha=alpha).fit(X, y)
            assert 0.0 <= model.duality_gap_ + 1e-12 and model.duality_gap_ <= 1e-3 * model.objective_
            check(loss, model, X, np.asarray(y, int), model.alpha_)
    # Of nothing but a constant, b is what the classes alone say.
    model = model_of(loss, alpha=1.0, tol=1e-9).fit(np.full((50, 3), 7.0), np.arange(50) % 5 == 0)
    want = {"hinge": -1.0, "squared_hinge": -0.6, "log_loss": np.log(0.25)}[loss]
    assert model.intercept_[0] == pytest.approx(want, abs=1e-4)
    assert np.abs(model.coef_).max() < 1e-12


def test_what_it_does_not_go_with():
    X, y, _ = examples()
    for params in [
        {"solver": "pegasos"},
        {"warm_start": True},
        {"average": True},
        {"batch_size": 8},
        {"learning_rate": "constant", "eta0": 1e-3},
        {"projection": True},
        {"sampling": "replacement"},
        {"early_stopping": True},
        {"shards": 2},
    ]:
        name = next(iter(params))
        with pytest.raises(ValueError, match=f"{name}=.*does not go with fit_intercept='free'"):
            model_of("hinge", **params).fit(X, y)
    with pytest.raises(ValueError, match="partial_fit does not go with fit_intercept='free'"):
        model_of("hinge").partial_fit(X, y, classes=[0, 1])
    fitted = model_of("hinge").fit(X, y)
    before = fitted.coef_.copy()
    with pytest.raises(ValueError, match="partial_fit does not go with"):
        fitted.partial_fit(X, y)
    assert np.array_equal(fitted.coef_, before)
    with pytest.raises(ValueError, match="multi_class='crammer_singer' of more than two classes, here 3"):
        model_of("hinge", multi_class="crammer_singer").fit(X, np.arange(len(y)) % 3)
    model_of("hinge", multi_class="crammer_singer").fit(X, y)
    with pytest.raises(ValueError, match="fit_intercept"):
        model_of("hinge", fit_intercept="Free").fit(X, y)
    with pytest.raises(ValueError, match="fit_intercept"):
        OnlineGradientClassifier(fit_intercept="free").fit(X, y)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_class_without_weight_is_refused(loss):
    X, y, _ = examples()
    message = "sample_weight must be > 0 for an example of each class"
    with pytest.raises(ValueError, match=message):
        model_of(loss).fit(X, y, (y == 0).astype(float))
    with pytest.raises(ValueError, match=message):
        model_of(loss, class_weight={0: 1.0, 1: 0.0}).fit(X, y)
    with pytest.raises(ValueError, match=message):
        model_of(loss).fit(X, np.arange(len(y)) % 3, (np.arange(len(y)) % 3 > 0).astype(float))


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_bad_numbers_are_found(bad):
    X, y, _ = examples()
    X = X.copy()
    X[77, 2] = bad
    for data in (X, sparse.csr_array(X)):
        with pytest.raises(ValueError, match="X"):
            model_of("hinge").fit(data, y)


def test_scaling_means_nothing():
    X, y, _ = examples()
    models = [model_of("log_loss", intercept_scaling=c).fit(X, y) for c in (0.1, 1.0, 100.0)]
    assert len({model.coef_.tobytes() for model in models}) == 1


def test_models_are_kept(tmp_path):
    X, y, _ = examples()
    model = model_of("squared_hinge", alpha=0.02).fit(X, y)
    save(model, tmp_path / "free.safetensors")
    for other in (load(tmp_path / "free.safetensors"), pickle.loads(pickle.dumps(model)), copy.copy(model)):
        assert other.fit_intercept == "free"
        assert other.intercept_.tobytes() == model.intercept_.tobytes()
        assert np.array_equal(other.decision_function(X), model.decision_function(X))
        with pytest.raises(ValueError, match="partial_fit does not go with"):
            other.partial_fit(X, y)
        again = clone(other).fit(X, y)
        assert again.coef_.tobytes() == model.coef_.tobytes()
    half = model_of("squared_hinge", alpha=0.02).fit(X[::2], y[::2])
    mean = merge([model, half])
    assert mean.intercept_ == pytest.approx((model.intercept_ + half.intercept_) / 2.0)


def test_no_tolerance_and_no_certificate():
    X, y, _ = examples(d=300, n=100)
    model = model_of("hinge", tol=None, max_iter=50).fit(X, y)
    assert np.isnan(model.objective_) and model.n_iter_ == 50
    least = minimum("hinge", X, y, model.alpha_)[2]
    assert objective("hinge", model.coef_, model.intercept_, X, y, model.alpha_) < 1.2 * least


def test_interrupts(run_forked):
    script = INTERRUPT + """
import warnings
import numpy as np
from pegasos import PegasosClassifier
random = np.random.default_rng(0)
X = random.normal(size=(50_000, 60)) + 3.0
y = X[:, 0] + random.normal(size=len(X)) > 4.0
model = PegasosClassifier("log_loss", fit_intercept="free", tol=0.0, max_iter=100_000, random_state=0)
# How long this machine, with what else it has to do, takes for the leap that comes before the third epoch.
begun = time.monotonic()
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    PegasosClassifier("log_loss", fit_intercept="free", tol=0.0, max_iter=3, random_state=0).fit(X, y)
took = interrupt(0.5 + 2.0 * (time.monotonic() - begun), lambda: model.fit(X, y))
assert took < 1.0, took
# The leap has come to this; of all rows 0.76 are of one class.
assert model.coef_.shape == (1, 60) and model.score(X, y) > 0.8, model.score(X, y)
print("stopped")
"""
    done = run_forked(script)
    assert "stopped" in done.stdout, done.stderr
