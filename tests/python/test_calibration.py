"""Probabilities: of every estimator, by every method, in streams, in files."""

import copy
import pickle
import tracemalloc

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit, logsumexp
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, make_classification
from sklearn.exceptions import NotFittedError
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import StratifiedKFold, cross_val_predict, train_test_split
from sklearn.preprocessing import scale
from sklearn.svm import SVC, LinearSVC

import pegasos
from pegasos import (
    KernelPegasosClassifier,
    OnlineGradientClassifier,
    PegasosClassifier,
    PegasosClassifierCV,
    ProjectronClassifier,
)
from pegasos.datasets import make_waveform
from pegasos._calibration import METHODS, Calibration, Scored, most_rows

ESTIMATORS = [
    PegasosClassifier(random_state=0),
    PegasosClassifier("hinge", multi_class="crammer_singer", random_state=0),
    KernelPegasosClassifier(random_state=0),
    KernelPegasosClassifier(multi_class="ovr", random_state=0),
    KernelPegasosClassifier(budget=40, multi_class="crammer_singer", random_state=0),
    ProjectronClassifier(random_state=0),
    OnlineGradientClassifier(random_state=0),
]


@pytest.fixture(scope="module")
def noisy():
    """Three classes that nobody tells apart for certain."""
    X, y = make_classification(500, 8, n_informative=5, n_classes=3, flip_y=0.2, random_state=0)
    return scale(X), y


def scores_of(n, outputs, seed=0):
    rng = np.random.RandomState(seed)
    codes = rng.randint(0, 2 if outputs == 1 else outputs, n)
    scores = rng.randn(n, outputs)
    if outputs == 1:
        scores[:, 0] += 1.5 * codes - 0.5
    else:
        scores[np.arange(n), codes] += 1.5
    return scores, codes, rng.rand(n)


def test_platts_sigmoid_is_the_likeliest():
    scores, codes, weight = scores_of(400, 1)
    a, b = Calibration.of("sigmoid", scores, codes, 2, weight).parts[0]
    some, none = weight[codes == 1].sum(), weight[codes == 0].sum()
    aim = np.where(codes == 1, (some + 1) / (some + 2), 1 / (none + 2))

    def surprise(found):
        p = expit(-(found[0] * scores[:, 0] + found[1]))
        return -weight @ (aim * np.log(p) + (1 - aim) * np.log(1 - p))

    best = minimize(surprise, [0.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-10})
    np.testing.assert_allclose([a, b], best.x, atol=1e-4)


@pytest.mark.parametrize("outputs", [1, 4])
def test_the_temperature_is_the_likeliest(outputs):
    scores, codes, weight = scores_of(400, outputs)
    k = max(2, outputs)
    beta = Calibration.of("temperature", 7.0 * scores, codes, k, weight).parts[0][0]
    both = scores if outputs > 1 else scores * [-0.5, 0.5]

    def surprise(log_beta):
        each = 7.0 * np.exp(log_beta[0]) * both
        return weight @ (logsumexp(each, axis=1) - each[np.arange(400), codes])

    best = np.exp(minimize(surprise, [-1.0], method="Nelder-Mead").x[0])
    # Targets are a little short of certain.
    assert abs(beta / best - 1.0) < 0.05


def test_isotonic_steps_are_those_of_scikit_learn():
    scores, codes, weight = scores_of(300, 1)
    found = Calibration.of("isotonic", scores, codes, 2, weight).probabilities(scores)[:, 1]
    steps = IsotonicRegression(out_of_bounds="clip").fit(scores[:, 0], codes, weight)
    np.testing.assert_allclose(found, np.clip(steps.predict(scores[:, 0]), 1 / 302, 301 / 302))


def test_pairs_are_coupled_as_by_their_authors():
    """Wu, Lin and Weng minimise sum_{i != j} (r_ji p_i - r_ij p_j)^2 over the probabilities."""
    rng = np.random.RandomState(0)
    k = 4
    first, second = np.triu_indices(k, 1)
    scores = rng.randn(5, len(first))
    found = Calibration("sigmoid", k, True, [np.array([-1.0, 0.0])] * len(first)).probabilities(scores)
    for row, p in zip(scores, found, strict=True):
        r = np.zeros((k, k))
        r[first, second] = expit(row)
        r[second, first] = 1 - r[first, second]

        def loss(q, r=r):
            return sum((r[j, i] * q[i] - r[i, j] * q[j]) ** 2 for i in range(k) for j in range(k) if i != j)

        best = minimize(
            loss, np.full(k, 0.25), bounds=[(0, 1)] * k, constraints={"type": "eq", "fun": lambda q: q.sum() - 1}, tol=1e-12
        )
        np.testing.assert_allclose(p, best.x, atol=1e-4)
    # Pairs that agree are met exactly.
    p = np.array([0.1, 0.2, 0.3, 0.4])
    agreeing = np.log(p[first] / p[second])[None]
    model = Calibration("sigmoid", k, True, [np.array([-1.0, 0.0])] * len(first))
    np.testing.assert_allclose(model.probabilities(agreeing)[0], p, atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda model: str(model)[:60])
def test_probabilities_of_every_estimator(estimator, classes, method, noisy, tmp_path):
    X, y = noisy
    y = np.array(["no", "yes", "perhaps"])[y if classes == 3 else y % 2]
    X, X_test, y, y_test = train_test_split(X, y, random_state=0)
    model = copy.deepcopy(estimator).set_params(calibration=method).fit(X, y)
    plain = copy.deepcopy(estimator).fit(X, y)
    assert not hasattr(plain, "predict_proba")
    # Nothing else is another.
    assert (model.decision_function(X_test) == plain.decision_function(X_test)).all()
    p = model.predict_proba(X_test)
    assert p.shape == (len(X_test), classes) and (p >= 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-9)
    np.testing.assert_array_equal(model.predict_log_proba(X_test)[p > 0], np.log(p[p > 0]))
    pairs = classes == 3 and getattr(model, "multi_class", "") == "ovo"
    if method == "temperature" and not pairs:
        assert (model.classes_[p.argmax(axis=1)] == model.predict(X_test)).all()
    if method != "isotonic" and not isinstance(model, OnlineGradientClassifier | ProjectronClassifier):
        # Better than the shares of the classes.
        shares = np.tile(np.mean([y == c for c in model.classes_], axis=1), (len(X_test), 1))
        assert log_loss(y_test, p) < log_loss(y_test, shares)
    pegasos.save(model, tmp_path / "model")
    again = pegasos.load(tmp_path / "model")
    twin = pickle.loads(pickle.dumps(model))
    for other in (again, twin):
        assert (other.predict_proba(X_test) == p).all()
    for learner in (model, again, twin):
        learner.partial_fit(X_test, y_test)
    assert (model.predict_proba(X) == again.predict_proba(X)).all()
    assert (model.predict_proba(X) == twin.predict_proba(X)).all()
    assert (model.predict_proba(X_test) != p).any()


@pytest.mark.parametrize(
    ("estimator", "classes", "folds"),
    [
        (PegasosClassifier(alpha=1e-3, tol=1e-9, max_iter=10_000), 2, 3),
        (PegasosClassifier(alpha=1e-3, tol=1e-9, max_iter=10_000, multi_class="ovr"), 3, 5),
        # Of all rows: what gamma="scale" is for a fold is a little else.
        (KernelPegasosClassifier(alpha=1e-2, gamma=0.125, tol=1e-9, multi_class="ovr"), 3, 5),
        (KernelPegasosClassifier(alpha=1e-2, gamma=0.125, tol=1e-9), 3, 3),
    ],
)
def test_a_fit_is_calibrated_by_scores_of_other_folds(estimator, classes, folds, noisy):
    X, y = noisy
    y = y % classes
    model = clone(estimator).set_params(calibration="sigmoid", random_state=0).fit(X, y)
    seed = int(np.random.RandomState(0).randint(np.iinfo(np.int64).max, dtype=np.int64))
    others = StratifiedKFold(folds, shuffle=True, random_state=seed % 2**32)
    pairs = getattr(estimator, "multi_class", "") == "ovo" and classes > 2
    plain = clone(estimator).set_params(**({"decision_function_shape": "ovo"} if pairs else {}))
    scores = cross_val_predict(plain, X, y, cv=others, method="decision_function")
    want = Calibration.of("sigmoid", scores, y, classes, pairs=pairs).parts
    np.testing.assert_allclose(model._calibration.parts, want, atol=1e-3)


def refusing(*_, **__):
    raise AssertionError("a fit of its own for each fold")


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"multi_class": "ovr", "fit_intercept": False},
        {"alpha": 1e-3, "class_weight": {0: 1.0, 1: 3.0, 2: 0.5}},
        {"kernel": "precomputed"},
        {"kernel": rbf_kernel},
        {"kernel": "linear", "alpha": 1e-2},
        {"gamma": "scale", "class_weight": "balanced"},
        {"alpha": 1e-5},
        {"alpha": 1e-6, "multi_class": "ovr"},
        {"class_weight": {0: 0.0, 1: 0.0, 2: 1.0}},
    ],
    ids=lambda params: ",".join(params) or "default",
)
def test_exact_machines_hold_out_folds_in_the_fit_itself(params, dtype, noisy, monkeypatch):
    """The scores are those of fits of the other rows alone, to the tolerance."""
    X, y = noisy
    X = X.astype(dtype)
    X = rbf_kernel(X) if params.get("kernel") == "precomputed" else X
    weight = np.random.RandomState(0).randint(0, 3, len(y)).astype(float)
    model = KernelPegasosClassifier(**{"gamma": 0.1, "tol": 1e-5} | params, calibration="sigmoid", random_state=0)
    apart = clone(model)
    with monkeypatch.context() as patch:
        patch.setattr(KernelPegasosClassifier, "_hold_out", lambda *_: None)
        apart.fit(X, y, weight)
    monkeypatch.setattr(KernelPegasosClassifier, "_scores_of_folds", refusing)
    for n_jobs in (1, 2):
        model.set_params(n_jobs=n_jobs).fit(X, y, weight)
        found, want = model._scored, apart._scored
        assert (found.codes == want.codes).all() and (found.weight == want.weight).all()
        own = found.scores != 0.0  # Of pairs those of other classes have none.
        assert own.mean() > 0.4
        np.testing.assert_allclose(found.scores[own], want.scores[own], atol=0.02)
        np.testing.assert_allclose(model.predict_proba(X), apart.predict_proba(X), atol=2e-3)
        assert (model.dual_coef_ == apart.dual_coef_).all()
        if n_jobs == 1:
            alone = found.scores
    assert (found.scores == alone).all()


@pytest.mark.parametrize(
    "params",
    [
        {"multi_class": "crammer_singer"},
        {"budget": 30},
        {"solver": "pegasos"},
        {"kernel": "sigmoid"},
        {"metric": "diagonal"},
        {"sampling": np.arange(500)},
    ],
    ids=lambda params: ",".join(params) or "default",
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_others_are_calibrated_by_fits_for_each_fold(params, noisy, monkeypatch):
    X, y = noisy
    model = KernelPegasosClassifier(calibration="sigmoid", random_state=0, **params)
    assert model.fit(X, y).predict_proba(X).shape == (len(y), 3)
    monkeypatch.setattr(KernelPegasosClassifier, "_scores_of_folds", refusing)
    with pytest.raises(AssertionError, match="a fit of its own"):
        model.fit(X, y)


def test_as_good_as_scikit_learns():
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(scale(X), y, random_state=0, stratify=y)
    for ours, theirs in (
        (KernelPegasosClassifier(calibration="temperature"), SVC()),
        (PegasosClassifier(calibration="temperature"), LinearSVC()),
    ):
        found = log_loss(y_test, ours.fit(X, y).predict_proba(X_test))
        assert found < log_loss(y_test, CalibratedClassifierCV(theirs, cv=5).fit(X, y).predict_proba(X_test)) + 0.005


@pytest.mark.parametrize("method", METHODS)
def test_streams_are_calibrated_by_scores_before_learning(method):
    X, y = make_classification(6000, 10, n_informative=6, flip_y=0.3, random_state=0)
    X = scale(X)
    model = PegasosClassifier(alpha=1e-3, calibration=method, average=True, random_state=0)
    plain = PegasosClassifier(alpha=1e-3, average=True, random_state=0)
    seen, labels = [], []
    for start in range(0, 5000, 250):
        rows = slice(start, start + 250)
        if start:
            seen.append(model.decision_function(X[rows]))
            labels.append(y[rows])
        model.partial_fit(X[rows], y[rows], classes=[0, 1])
        plain.partial_fit(X[rows], y[rows], classes=[0, 1])
        if start == 0:
            with pytest.raises(NotFittedError, match="one more batch"):
                model.predict_proba(X)
    assert (model.coef_ == plain.coef_).all()
    p = model.predict_proba(X[5000:])
    want = Calibration.of(method, np.concatenate(seen), np.concatenate(labels), 2)
    np.testing.assert_array_equal(p, want.probabilities(model.decision_function(X[5000:])))
    assert log_loss(y[5000:], p) < 0.56
    bins = np.digitize(p[:, 1], [0.25, 0.5, 0.75])
    assert sum(abs((p[:, 1] - y[5000:])[bins == b].sum()) for b in range(4)) / 1000 < 0.05


def test_streams_remember_so_many_examples_and_no_more():
    many = [Scored.of(np.full((3000, 1), float(i)), np.zeros(3000), None) for i in range(5)]
    scored = many[0]
    for later in many[1:]:
        scored = scored.and_then(later)
    assert len(scored.codes) == 8192
    assert scored.scores[-1] == 4.0 and scored.scores[0] == 2.0
    # Rows that are sorted are chosen evenly.
    large = Scored.of(np.arange(100_000.0), np.zeros(100_000), None)
    assert len(large.codes) == 8192 and large.scores[-1] == 99_999
    wide = Scored.of(np.zeros((10, 20_000)), np.zeros(10), None)
    assert most_rows(wide.scores.shape[1]) * 20_000 <= 2**21


def test_no_calibration_without_two_examples_of_a_class(noisy):
    X, y = noisy
    few = np.r_[np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:1]]
    model = PegasosClassifier(calibration="sigmoid")
    with pytest.raises(ValueError, match="two examples of each class"):
        model.fit(X[few], y[few])
    assert not hasattr(model, "coef_")
    with pytest.raises(ValueError, match="calibration"):
        PegasosClassifier(calibration="prayer").fit(X, y)


def test_a_method_that_was_set_later_needs_scores(noisy):
    X, y = noisy
    model = PegasosClassifier(random_state=0).fit(X, y).set_params(calibration="sigmoid")
    with pytest.raises(NotFittedError, match="no scores to learn from"):
        model.predict_proba(X)
    model.partial_fit(X, y)
    assert model.predict_proba(X).shape == (500, 3)
    # Another map of the same scores.
    assert (model.set_params(calibration="temperature").predict_proba(X).argmax(axis=1) == model.predict(X)).all()


def test_a_fit_that_fails_leaves_the_probabilities(noisy):
    X, y = noisy
    model = KernelPegasosClassifier(calibration="temperature", random_state=0).fit(X, y)
    before = model.predict_proba(X)
    bad = X.copy()
    bad[3, 3] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        model.fit(bad, y)
    with pytest.raises(ValueError, match="infinity"):
        model.partial_fit(bad, y)
    assert (model.predict_proba(X) == before).all()


def test_weights_count(noisy):
    X, y = noisy
    y = y % 2
    weight = np.where(y == 1, 3.0, 1.0)
    plain = PegasosClassifier(calibration="sigmoid", random_state=0).fit(X, y).predict_proba(X)[:, 1]
    heavy = PegasosClassifier(calibration="sigmoid", random_state=0).fit(X, y, weight).predict_proba(X)[:, 1]
    assert heavy.mean() > plain.mean() + 0.1
    # Weights of classes change what is decided, not what is likely.
    balanced = PegasosClassifier(calibration="sigmoid", class_weight={1: 3.0}, random_state=0).fit(X, y)
    assert abs(balanced.predict_proba(X)[:, 1].mean() - plain.mean()) < 0.02


@pytest.mark.parametrize("kernel", ["precomputed", lambda A, B: A @ B.T])
def test_kernels_that_are_matrices(kernel, noisy):
    X, y = noisy
    data = X @ X.T if kernel == "precomputed" else X
    model = KernelPegasosClassifier(kernel, calibration="temperature", random_state=0).fit(data, y)
    assert model.predict_proba(data).shape == (500, 3)


def test_a_refit_is_calibrated_anew():
    (X, y), (X_test, y_test) = make_waveform(1500, 0), make_waveform(2000, 1)
    params = {"gamma": 0.01, "budget": 50, "multi_class": "crammer_singer", "calibration": "temperature", "random_state": 0}
    model = KernelPegasosClassifier(alpha=1e-3, **params).fit(X, y)
    stale = copy.copy(model)
    for alpha in (1e-6, [1e-5, 1e-6]):
        model.refit(X, y, alpha=alpha)
        wrong = stale._calibrated().probabilities(model._all_scores(X_test))
        assert log_loss(y_test, model.predict_proba(X_test)) < log_loss(y_test, wrong) - 0.02
    fresh = KernelPegasosClassifier(alpha=1e-6, **params).fit(X, y).predict_proba(X_test)
    model.refit(X, y, alpha=1e-6)
    assert log_loss(y_test, model.predict_proba(X_test)) < log_loss(y_test, fresh) + 0.02
    # Of a stream no fold can be held out.
    with pytest.raises(NotFittedError, match="scores"):
        model.refit([(X, y)]).predict_proba(X_test)


def test_a_refit_of_fewer_classes_leaves_no_probabilities(noisy):
    X, y = noisy
    few = y < 2
    for multi_class in ("crammer_singer", "ovr", "ovo"):
        params = {"budget": 30, "multi_class": multi_class, "calibration": "sigmoid", "random_state": 0}
        model = KernelPegasosClassifier(**params).fit(X, y)
        for rows in (y < 2, y > 0, y != 1):
            with pytest.warns(UserWarning, match="needs two examples of each class that the model knows"):
                model.refit(X[rows], y[rows])
            assert model.score(X[rows], y[rows]) > 0.7
            with pytest.raises(NotFittedError):
                model.predict_proba(X)
        assert model.partial_fit(X, y).partial_fit(X, y).predict_proba(X).shape == (len(y), 3)
    warm = PegasosClassifier(calibration="sigmoid", warm_start=True, random_state=0).fit(X, y)
    before = warm.predict_proba(X)
    with pytest.raises(ValueError, match="needs two examples of each class, .* got 0 of class"):
        warm.fit(X[few], y[few])
    assert (warm.predict_proba(X) == before).all()


@pytest.mark.parametrize("estimator", [PegasosClassifier, KernelPegasosClassifier, OnlineGradientClassifier])
def test_row_numbers_are_those_of_all_rows(estimator, noisy):
    X, y = noisy
    params = {"calibration": "sigmoid", "max_iter": 2, "random_state": 0}
    params |= {} if estimator is OnlineGradientClassifier else {"solver": "pegasos", "tol": None}
    stored = estimator(sampling="storage", **params).fit(X, y)
    named = estimator(sampling=np.arange(len(y)), **params).fit(X, y)
    assert named.predict_proba(X).tobytes() == stored.predict_proba(X).tobytes()
    with pytest.raises(ValueError, match="calibration='sigmoid' needs a sampling of rows of several folds"):
        estimator(sampling=[5], **params).fit(X, y)


def test_a_class_of_one_example_is_refused_before_the_fit(noisy, monkeypatch):
    def fail(*_args, **_kwargs):
        raise AssertionError("in vain")

    X, y = noisy
    monkeypatch.setattr(PegasosClassifier, "_run_epochs", fail)
    with pytest.raises(ValueError, match="needs two examples of each class, .* got 1 of class"):
        PegasosClassifier(calibration="sigmoid").fit(X, np.arange(len(y)) == 0)


def test_a_refit_of_a_stream_with_a_half_life_is_calibrated(noisy):
    X, y = noisy
    model = KernelPegasosClassifier(budget=30, half_life=300, calibration="sigmoid", random_state=0).fit(X, y)
    stale = model.predict_proba(X)
    probabilities = model.refit(X, y).predict_proba(X)
    assert (probabilities != stale).any() and log_loss(y, probabilities) < 0.7


@pytest.mark.filterwarnings("ignore::scipy.sparse.SparseEfficiencyWarning")
@pytest.mark.parametrize("form", ["coo_matrix", "dia_array", "bsr_matrix", "csc_array", "lil_array"])
@pytest.mark.parametrize("estimator", [PegasosClassifier, KernelPegasosClassifier, OnlineGradientClassifier])
def test_rows_of_every_form_are_calibrated(estimator, form, noisy):
    X, y = noisy
    made = lambda: estimator(calibration="sigmoid", random_state=0)
    X = X * (np.abs(X) > 1.0)
    want = made().fit(sparse.csr_matrix(X), y).predict_proba(X)
    assert (made().fit(getattr(sparse, form)(X), y).predict_proba(X) == want).all()


def test_rows_that_are_no_arrays_are_calibrated(noisy):
    X, y = noisy
    X = np.ascontiguousarray(X)

    class Offers:
        def __array__(self, dtype=None, copy=None):
            return np.array(X, dtype)

    made = lambda: PegasosClassifier(calibration="temperature", random_state=0)
    want = made().fit(X, y).predict_proba(X)
    for rows in (memoryview(X), Offers(), X.tolist()):
        assert (made().fit(rows, y).predict_proba(X) == want).all()


def test_rows_that_cannot_be_picked_are_calibrated(noisy):
    X, y = noisy
    made = lambda **params: KernelPegasosClassifier(calibration="sigmoid", random_state=0, **params)
    kernel = rbf_kernel(X[:100])
    want = made(kernel="precomputed").fit(kernel, y[:100]).predict_proba(kernel)
    frame = pd.DataFrame(kernel).add_prefix("k")
    assert (made(kernel="precomputed").fit(frame, y[:100]).predict_proba(frame) == want).all()
    batch = pa.RecordBatch.from_arrays(list(X.T), list("abcdefgh"))
    assert (made().fit(batch, y).predict_proba(batch) == made().fit(X, y).predict_proba(X)).all()
    half = sparse.csr_matrix(X.astype("f2").astype(float))
    want = made().fit(half, y).predict_proba(half)
    half.data = half.data.astype("f2")
    assert (made().fit(half, y).predict_proba(half) == want).all()


def test_a_loss_that_was_set_later_makes_no_probabilities(noisy, tmp_path):
    X, y = noisy
    model = PegasosClassifier("hinge", random_state=0).fit(X, y).set_params(loss="log_loss")
    pegasos.save(model, tmp_path / "model")
    for each in (model, copy.copy(model), pegasos.load(tmp_path / "model")):
        assert not hasattr(each, "predict_proba")
    assert model.fit(X, y).predict_proba(X).shape == (500, 3)
    assert (model.set_params(loss="hinge").predict_proba(X).argmax(axis=1) == model.predict(X)).all()


@pytest.mark.parametrize("tuned", [False, True])
def test_one_weight_for_all_is_a_weight(tuned, noisy):
    X, y = noisy
    made = lambda: PegasosClassifierCV([1e-3], random_state=0) if tuned else PegasosClassifier(calibration="sigmoid", random_state=0)
    want = made().fit(X, y, sample_weight=np.full(len(y), 2.0)).predict_proba(X)
    assert (made().fit(X, y, sample_weight=2.0).predict_proba(X) == want).all()
    if not tuned:
        streams = [made().partial_fit(X, y, classes=range(3)) for _ in range(2)]
        for stream, weight in zip(streams, (2.0, np.full(len(y), 2.0))):
            stream.partial_fit(X, y, sample_weight=weight)
        assert (streams[0].predict_proba(X) == streams[1].predict_proba(X)).all()


@pytest.mark.parametrize("method", ["sigmoid", "temperature", "isotonic"])
@pytest.mark.parametrize("size", [1e-300, 1e-310, 5e-324, 1e300])
def test_scores_of_any_size_make_probabilities(method, size):
    random = np.random.default_rng(0)
    for classes, pairs in ((2, False), (3, False), (3, True)):
        scores = size * random.choice([-1.0, 0.5, 1.0], (60, 1 if classes == 2 else 3))
        found = Calibration.of(method, scores, np.arange(60) % classes, classes, pairs=pairs)
        for others in (scores, np.full_like(scores, 1e10), -scores):
            p = found.probabilities(others)
            assert np.isfinite(p).all() and (p >= 0.0).all() and p.sum(axis=1) == pytest.approx(np.ones(60))


def test_features_that_all_but_vanish_have_probabilities(noisy):
    X, y = noisy
    model = PegasosClassifier(calibration="temperature", fit_intercept=False, random_state=0).fit(1e-156 * X, y)
    assert 0.0 < abs(model.decision_function(1e-156 * X)).max() < 1e-300
    assert model.predict_proba(1e-156 * X).sum(axis=1) == pytest.approx(np.ones(len(y)))


@pytest.mark.parametrize("method", ["sigmoid", "temperature", "isotonic"])
def test_no_scores_at_all_are_calibrated(method):
    for classes, columns, pairs in ((2, 1, False), (4, 4, False), (4, 6, True)):
        found = Calibration.of(method, np.empty((0, columns)), np.empty(0, int), classes, pairs=pairs)
        assert found.probabilities(np.empty((0, columns))).shape == (0, classes)
        assert found.probabilities(np.ones((3, columns))).sum(axis=1) == pytest.approx(np.ones(3))


@pytest.mark.parametrize("estimator", [PegasosClassifier(), KernelPegasosClassifier(budget=20), KernelPegasosClassifier()])
def test_few_rows_that_count_are_told_of_by_each_other(estimator, noisy):
    X, y = noisy
    y = y % 2
    model = clone(estimator).set_params(calibration="temperature", random_state=0)
    for seed in range(10):
        weight = np.zeros(len(y))
        for label in (0, 1):
            weight[np.random.default_rng(seed).permutation(np.flatnonzero(y == label))[:2]] = 1.0
        p = model.fit(X, y, weight).predict_proba(X)
        assert p.sum(axis=1) == pytest.approx(np.ones(len(y)))
        # What others are has no part in it.
        assert (model.fit(X, np.where(weight > 0, y, 1 - y), weight).predict_proba(X) == p).all()
    one = np.where(np.cumsum(y == 0) * (y == 0) <= 1, 1.0, 0.0)
    with pytest.raises(ValueError, match="needs two examples of each class, .* got 1 of class"):
        model.fit(X, y, one)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_refit_of_too_few_rows_that_count_leaves_no_probabilities(noisy):
    X, y = noisy
    y = y % 2
    model = KernelPegasosClassifier(budget=20, calibration="sigmoid", random_state=0).fit(X, y)
    weight = np.where((y == 1) | (np.cumsum(y == 0) == 1), 1.0, 0.0)
    with pytest.warns(UserWarning, match="two examples of each class"):
        model.refit(X, y, weight)
    with pytest.raises(NotFittedError):
        model.predict_proba(X)


def test_probabilities_of_many_classes_take_one_table_beside_the_scores():
    scores = np.random.default_rng(0).normal(size=(20_000, 30))
    scores[3] = -1e6  # No class has a probability.
    calibration = Calibration.of_log_loss(30)
    before = scores.copy()
    tracemalloc.start()
    try:
        found = calibration.probabilities(scores)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.5 * scores.nbytes
    np.testing.assert_array_equal(scores, before)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    np.testing.assert_allclose(found[3], 1 / 30)
