"""Streams that drift: an example's weight halves every ``half_life`` examples."""

import copy
import math
import pickle

import numpy as np
import pytest
from conftest import every_pair, labelled, papers_kernel, papers_linear
from scipy import sparse

import pegasos
from pegasos import KernelPegasosClassifier, OnlineGradientClassifier, PegasosClassifier, ProjectronClassifier
from pegasos._core import Trainer
from pegasos.datasets import make_checkerboard


def data(n=120, d=5, n_classes=2, seed=7):
    X, y = labelled(seed, n, d, n_classes)
    return 2.0 * np.array(X), y


def horizon(half_life, batch_size=1):
    return 1.0 / (1.0 - 2.0 ** (-batch_size / half_life))


SLOPES = {
    "hinge": lambda m: float(m < 1.0),
    "squared_hinge": lambda m: 2.0 * max(0.0, 1.0 - m),
    "log_loss": lambda m: 1.0 / (1.0 + math.exp(m)),
}


def naive(X, signs, loss, alpha, half_life, batch_size=1, t0=0.0, weights=None):
    """The steps that the documentation has, w written out; of one score."""
    w, weights = np.zeros(X.shape[1]), np.ones(len(X)) if weights is None else weights
    for t, start in enumerate(range(0, len(X), batch_size), 1):
        rows = range(start, min(start + batch_size, len(X)))
        eta = max(1.0 / (alpha * (t0 + t)), (1.0 - 2.0 ** (-batch_size / half_life)) / alpha)
        gradient = sum(weights[i] * SLOPES[loss](signs[i] * (w @ X[i])) * signs[i] * X[i] for i in rows)
        w = (1.0 - eta * alpha) * w + eta * gradient / len(rows)
    return w


def with_constant(X, model):
    return np.hstack([X, np.full((len(X), 1), model.intercept_scaling)]) if model.fit_intercept else X


@every_pair(
    loss=SLOPES,
    half_life=[0.3, 1.0, 7.5, 30.0, 1e4],
    form=[np.asarray, sparse.csr_array],
    params=[{}, {"batch_size": 4}, {"fit_intercept": False}, {"t0": 20.0}, {"intercept_scaling": 2.0}],
    cut=[None, 1, 37],
)
def test_linear_steps(loss, half_life, form, params, cut):
    X, y = data()
    X *= 0.1  # so that the squared hinge has short steps enough
    alpha = 0.2 if loss == "squared_hinge" and half_life > 5 else 2.0
    t0 = {"t0": 0.0} | params
    model = papers_linear(loss, alpha=alpha, half_life=half_life, sampling="storage", random_state=0, **t0 | params)
    weights = np.random.default_rng(0).uniform(0.2, 1.0, len(y))
    # Pieces of whole batches are one stream, whatever happens between them.
    size = model.batch_size
    for rows in np.split(np.arange(len(y)), [] if cut is None else range(size * cut, len(y), size * cut)):
        model.partial_fit(form(X[rows]), y[rows], [0, 1], weights[rows])
        model = pickle.loads(pickle.dumps(model))
    wide = with_constant(X, model)
    w = naive(wide, 2 * y - 1, loss, alpha, half_life, size, t0["t0"], weights)
    found = np.append(model.coef_[0], model.intercept_ / model.intercept_scaling)[: wide.shape[1]]
    assert found == pytest.approx(w, rel=1e-8, abs=1e-10)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("d", [5, 300])
def test_one_against_the_rest(form, d):
    """In every problem, whether they share a trainer or not."""
    X, y = data(d=d, n_classes=10)
    model = PegasosClassifier("hinge", alpha=0.1, half_life=25.0, sampling="storage").partial_fit(form(X), y, range(10))
    for k in range(10):
        w = naive(with_constant(X, model), np.where(y == k, 1, -1), "hinge", 0.1, 25.0)
        assert np.append(model.coef_[k], model.intercept_[k]) == pytest.approx(w, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("budget", [None, 500])
@pytest.mark.parametrize("maintenance", ["merge", "project", "remove"])
@pytest.mark.parametrize("half_life", [3.0, 40.0, 1e5])
def test_kernel_steps(budget, maintenance, half_life):
    X, y = data()
    alpha, gamma = 0.02, 0.7
    model = papers_kernel(
        gamma=gamma, alpha=alpha, half_life=half_life, budget=budget, maintenance=maintenance, average=False, sampling="storage"
    )
    for rows in np.split(np.arange(len(y)), [1, 2, 50]):
        model.partial_fit(X[rows], y[rows], classes=[0, 1])
    gram = np.exp(-gamma * ((X[:, None] - X) ** 2).sum(axis=2))
    coef, signs = np.zeros(len(y)), 2 * y - 1
    for i in range(len(y)):
        eta = max(1.0 / (alpha * (i + 1)), (1.0 - 2.0 ** (-1.0 / half_life)) / alpha)
        wrong = signs[i] * (coef @ gram[i]) < 1.0
        coef *= 1.0 - eta * alpha
        coef[i] += eta * wrong * signs[i]
    assert model.decision_function(X) == pytest.approx(gram @ coef, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("multi_class", ["ovr", "crammer_singer", "ovo"])
def test_the_linear_kernel_is_linear(multi_class):
    X, y = data(n_classes=4)
    params = {"alpha": 0.05, "half_life": 20.0, "fit_intercept": False, "sampling": "storage", "average": False}
    kernel = KernelPegasosClassifier("linear", multi_class=multi_class, decision_function_shape="ovo", **params)
    kernel.partial_fit(X, y, range(4))
    if multi_class != "ovo":
        linear = PegasosClassifier("hinge", multi_class=multi_class, **params).partial_fit(X, y, range(4))
        assert kernel.decision_function(X) == pytest.approx(linear.decision_function(X), rel=1e-9)
        return
    w = np.zeros((6, X.shape[1]))
    for t, (x, label) in enumerate(zip(X, y, strict=True), 1):
        eta = max(1.0 / (0.05 * t), (1.0 - 2.0 ** (-1.0 / 20.0)) / 0.05)
        signs = np.array([(label == i) * 1 - (label == j) * 1 for i, j in zip(*np.triu_indices(4, 1), strict=True)])
        wrong = signs * (w @ x) < 1.0
        w = (1.0 - eta * 0.05) * w + eta * np.outer(signs * wrong, x)
    assert kernel.decision_function(X) == pytest.approx(X @ w.T, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("batch_size", [1, 5])
@pytest.mark.parametrize("make", [papers_linear, lambda **params: papers_kernel("linear", average=False, **params)])
def test_half_is_left_after_the_half_life(make, batch_size):
    """Of rows of zeros there is nothing to learn."""
    X, y = data(n=400)
    model = make(alpha=0.1, half_life=20.0, batch_size=batch_size, fit_intercept=False, sampling="storage")
    model.partial_fit(X, y, classes=[0, 1])
    scores = model.decision_function(X)
    zeros = np.zeros((20, X.shape[1]))
    for left in (0.5, 0.25, 0.125):
        model.partial_fit(zeros, y[:20])
        assert model.decision_function(X) == pytest.approx(left * scores, rel=1e-9)


MODELS = {
    "linear": lambda **params: papers_linear(alpha=0.1, random_state=0, **params),
    "ovr": lambda **params: PegasosClassifier("log_loss", random_state=0, **params),
    "projected": lambda **params: papers_linear(alpha=0.1, projection=True, random_state=0, **params),
    "kernel": lambda **params: KernelPegasosClassifier(gamma=0.5, random_state=0, **params),
    "last": lambda **params: papers_kernel(gamma=0.5, average=False, projection=True, random_state=0, **params),
    "budget": lambda **params: KernelPegasosClassifier(gamma=0.5, budget=20, random_state=0, **params),
    "jointly": lambda **params: papers_kernel(gamma=0.5, budget=20, maintenance="remove", random_state=0, **params),
}
every_model = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)


@every_model
def test_a_long_memory_is_no_forgetting(make):
    X, y = data(n_classes=4)
    alpha = {"alpha": 1e-2} if not isinstance(make().alpha, float) else {}
    plain, long = (make(half_life=half).set_params(**alpha).partial_fit(X, y, range(4)) for half in (None, 1e9))
    assert long.decision_function(X) == pytest.approx(plain.decision_function(X), rel=1e-6, abs=1e-8)


@every_model
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_long_streams_stay_sound(make, dtype):
    """w = a v is folded again and again, and nothing overflows or fades to nothing."""
    X, y = data(n=1000)
    X = X.astype(dtype)
    model = make(half_life=3.0)
    for _ in range(30):
        model.partial_fit(X, y, classes=[0, 1])
    scores = model.decision_function(X)
    assert scores.dtype == dtype and np.isfinite(scores).all() and np.abs(scores).max() > 0.1


@every_model
def test_copies_and_files_go_on_alike(make, tmp_path):
    X, y = data(n_classes=3)
    model = make(half_life=15.0).partial_fit(X[:60], y[:60], range(3))
    pegasos.save(model, tmp_path / "model")
    twins = [pickle.loads(pickle.dumps(model)), copy.copy(model), pegasos.load(tmp_path / "model")]
    model.partial_fit(X[60:], y[60:])
    for twin in twins:
        assert twin.half_life == 15.0
        twin.partial_fit(X[60:], y[60:])
        assert twin.decision_function(X) == pytest.approx(model.decision_function(X), rel=1e-6, abs=1e-9)


@every_model
def test_it_may_change_on_the_way(make):
    X, y = data(n_classes=3)
    model = make().partial_fit(X[:60], y[:60], range(3))
    scores = model.decision_function(X)
    model.set_params(half_life=1e9, alpha=model.alpha_)
    same = copy.deepcopy(model).partial_fit(X[60:], y[60:])
    never = make().set_params(alpha=model.alpha_).partial_fit(X[:60], y[:60], range(3))
    assert np.array_equal(never.decision_function(X), scores)
    never.partial_fit(X[60:], y[60:])
    assert same.decision_function(X) == pytest.approx(never.decision_function(X), rel=1e-5, abs=1e-8)
    # And back.
    same.set_params(half_life=None).partial_fit(X, y)
    assert np.isfinite(same.decision_function(X)).all()


@every_model
def test_classes_join(make):
    X, y = data(n_classes=4)
    model = make(half_life=50.0).partial_fit(X[y < 2], y[y < 2])
    for _ in range(5):
        model.partial_fit(X, y)
    assert model.classes_.tolist() == [0, 1, 2, 3] and model.score(X, y) > 0.4


def test_files_of_before_have_none():
    X, y = data()
    for model in (papers_linear().partial_fit(X, y, [0, 1]), papers_kernel().partial_fit(X, y, [0, 1])):
        parts = model._trainer.parts()
        assert parts["params"].pop("half_life") is None
        assert pickle.dumps(Trainer.from_parts(parts).result()) == pickle.dumps(model._trainer.result())


def test_alpha_is_that_of_what_is_remembered():
    X, y = data()
    for make in (lambda **p: PegasosClassifier("hinge", **p), KernelPegasosClassifier):
        for half_life in (10.0, 1000.0):
            alpha = make(half_life=half_life).partial_fit(X, y, [0, 1]).alpha_
            assert alpha == pytest.approx(1.0 / horizon(half_life), rel=1e-9)
        # Not less than without.
        assert make(half_life=1e9).partial_fit(X, y, [0, 1]).alpha_ == 1e-4
        assert make(half_life=1e9, tol=None, max_iter=1).fit(X, y).alpha_ == 1.0 / len(y)
    # The squared hinge has steps of 1 over the curvature at most.
    model = PegasosClassifier(half_life=50.0).partial_fit(X, y, [0, 1])
    curvature = 2.0 * ((X**2).sum(axis=1).max() + 1.0)
    assert model.alpha_ == pytest.approx(curvature / horizon(50.0), rel=1e-9)
    for _ in range(20):
        model.partial_fit(X, y)
    assert model.score(X, y) > 0.8


def test_steps_of_the_squared_hinge_that_would_swing():
    X, y = data()
    model = PegasosClassifier(alpha=1e-3, half_life=50.0)
    with pytest.raises(ValueError, match=r"alpha must be >= [\d.]+ for half_life=50, got 0.001: .*loss='hinge'"):
        model.partial_fit(X, y, [0, 1])
    assert not hasattr(model, "classes_")
    model.set_params(loss="hinge").partial_fit(X, y, [0, 1])


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf, "auto", 1.5e308])
@pytest.mark.parametrize("make", [PegasosClassifier, KernelPegasosClassifier])
def test_what_is_no_half_life(make, value):
    X, y = data()
    with pytest.raises(ValueError, match="half_life"):
        make(half_life=value, **({"loss": "hinge"} if make is PegasosClassifier else {})).partial_fit(X, y, [0, 1])


@pytest.mark.parametrize(
    ("make", "params", "message"),
    [
        (papers_linear, {"average": True}, "half_life=10 does not go with average=True, .*use average=False"),
        (papers_linear, {"average": "uniform"}, "average='uniform'"),
        (papers_linear, {"average": 7}, "average=7"),
        (papers_kernel, {"average": "polynomial"}, "average='polynomial', .*use average=True or False"),
        (papers_linear, {"learning_rate": "constant"}, "half_life=10 does not go with learning_rate='constant'"),
        (papers_linear, {"shards": 2}, "half_life=10 does not go with shards=2"),
        (papers_linear, {"solver": "dual"}, "solver='dual' does not go with half_life=10"),
        (papers_kernel, {"solver": "dual"}, "solver='dual' does not go with half_life=10"),
    ],
)
def test_what_does_not_go_together(make, params, message):
    X, y = data()
    model = make(half_life=10, **params)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    if "solver" not in params:
        with pytest.raises(ValueError, match=message):
            model.partial_fit(X, y, [0, 1])
    assert not hasattr(model, "classes_")


def test_those_who_have_none():
    assert not {"half_life"} & (OnlineGradientClassifier().get_params().keys() | ProjectronClassifier().get_params().keys())


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@every_model
def test_fit_has_no_certificate(make):
    X, y = data()
    model = make(half_life=60.0, solver="auto").set_params(max_iter=5).fit(X, y)
    assert np.isnan(model.dual_objective_) and np.isnan(model.duality_gap_)
    assert model.score(X, y) > 0.6


# -- drift


def prequential(model, drift, n=8000, size=50):
    """Accuracy in the last half of a stream, each chunk before it is learned from."""
    right = []
    for X, y in make_checkerboard(n, 0, chunk_size=size, drift=drift):
        right.append(np.mean(model.predict(X) == y) if hasattr(model, "classes_") else 0.5)
        model.partial_fit(X, y, classes=[0, 1])
    return np.mean(right[len(right) // 2 :])


@pytest.mark.parametrize("budget", [150, None])
def test_who_forgets_follows_a_board_that_moves(budget):
    make = lambda **params: KernelPegasosClassifier(gamma=2.0, budget=budget, random_state=0, **params)  # noqa: E731
    still, moving = 0.0, 3.2
    remembers, forgets = prequential(make(), moving), prequential(make(half_life=400), moving)
    assert forgets > 0.78 and forgets > remembers + 0.1, (forgets, remembers)
    # Where nothing moves it costs something.
    assert prequential(make(), still) > prequential(make(half_life=400), still) > 0.85


@pytest.mark.parametrize("loss", ["hinge", "log_loss"])
def test_linear_models_turn_round(loss):
    """After 29,000 examples everything is the other way round; who has a small alpha learns that by himself."""
    random = np.random.default_rng(0)
    X = random.normal(size=(30_000, 5))
    truth = ((X[:, 0] > 0) ^ (np.arange(30_000) >= 29_000)).astype(int)
    y = truth ^ (random.uniform(size=30_000) < 0.1)
    found = []
    for half_life in (None, 1000.0):
        model = PegasosClassifier(loss, alpha=0.01, half_life=half_life, random_state=0)
        model.partial_fit(X[:29_000], y[:29_000], [0, 1])
        right = []
        for rows in np.split(np.arange(29_000, 30_000), 50):
            right.append(np.mean(model.predict(X[rows]) == truth[rows]))
            model.partial_fit(X[rows], y[rows])
        found.append(np.mean(right))
    assert found[0] < 0.4 and found[1] > 0.8, found


def test_boards_without_drift_are_as_they_were():
    X, y = make_checkerboard(1000, 3)
    assert np.array_equal(y, X.astype(int).sum(axis=1) % 2) and y.dtype == np.int64
    moved, colours = make_checkerboard(1000, 3, drift=5.0)
    assert np.array_equal(moved, X) and not np.array_equal(colours, y)
    # Half a field later by the tenth part of the stream, and after two fields as at first.
    at = 5.0 * np.arange(1000) / 1000
    assert np.array_equal(colours, (np.floor(X[:, 0] - at) + np.floor(X[:, 1])) % 2)
    for drift in (0.0, 5.0, -2.5):
        whole = make_checkerboard(1000, 3, drift=drift)
        chunks = list(make_checkerboard(1000, 3, drift=drift, chunk_size=77))
        for k in (0, 1):
            assert np.array_equal(np.concatenate([chunk[k] for chunk in chunks]), whole[k])
    for drift in (np.nan, np.inf):
        with pytest.raises(ValueError, match="drift must be finite"):
            make_checkerboard(10, 0, drift=drift)
    assert make_checkerboard(0, 0, drift=1.0)[1].shape == (0,)
