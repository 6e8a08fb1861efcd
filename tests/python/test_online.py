"""Online gradient descent: what it paid, what the theory promises, and gradients in flight."""

import copy
import inspect
import pickle
import warnings
from functools import cache

import numpy as np
import oracle
import pytest
from conftest import every_pair
from scipy import sparse
from sklearn.exceptions import NotFittedError

from pegasos import OnlineGradientClassifier, load, save

LOSSES = ["hinge", "squared_hinge", "log_loss"]
#: A loss of two classes, or three classes jointly, or one by one.
TASKS = [*LOSSES, "jointly", "ovr"]
NUMBERS = ["t_", "cumulative_loss_", "regret_bound_"]
DELAYS = [0, 1, 3, 25, 1000]


def examples(task, dtype=np.float64, n=80, d=4):
    random = np.random.default_rng(8)
    X = random.normal(size=(n, d)).astype(dtype) / 2.0
    X[random.random(size=X.shape) < 0.3] = 0.0
    y = (X @ random.normal(size=(d, 3)) + 0.3 * random.normal(size=(n, 3))).argmax(axis=1)
    return X, y if task in ("jointly", "ovr") else (y > 0).astype(int)


def model_of(task="hinge", **params):
    if task in LOSSES:
        params = {"loss": task, **params}
    elif task == "ovr":
        params = {"multi_class": "ovr", "loss": "log_loss", **params}
    return OnlineGradientClassifier(**params)


def problems_of(task):
    return 3 if task in ("jointly", "ovr") else 1


def classes_of(task):
    return range(3) if task in ("jointly", "ovr") else range(2)


def losses_and_coefs(task, w, X, y):
    """What fixed weights pay in each round, and by what each row enters minus the gradient."""
    scores, rounds = oracle.augmented(X, 1.0) @ w.T, np.arange(len(y))
    if task == "jointly":
        rivals = scores.copy()
        rivals[rounds, y] = -np.inf
        rival = rivals.argmax(axis=1)
        losses = np.maximum(0.0, 1.0 + scores[rounds, rival] - scores[rounds, y])
        coefs = np.zeros_like(scores)
        coefs[rounds, y], coefs[rounds, rival] = losses > 0.0, -1.0 * (losses > 0.0)
        return losses, coefs
    loss = "log_loss" if task == "ovr" else task
    signs = np.where(y[:, None] == ([1] if len(w) == 1 else range(len(w))), 1.0, -1.0)
    losses = oracle.loss_value(loss, signs * scores).sum(axis=1)
    return losses, signs * oracle.falling_slope(loss, signs * scores)


@cache
def best_in_ball(task, radius, alpha, order):
    """Almost the least that fixed weights of the ball pay: by subgradients, tediously."""
    X, y = stream(task, order)
    w, least = np.zeros((problems_of(task), X.shape[1] + 1)), np.inf
    for t in range(1, 3000):
        losses, coefs = losses_and_coefs(task, w, X, y)
        least = min(least, losses.sum() + len(y) * alpha / 2.0 * np.sum(w**2))
        g = len(y) * alpha * w - coefs.T @ oracle.augmented(X, 1.0)
        w = w - radius / np.sqrt(t) * g / max(np.linalg.norm(g), 1e-12)
        # Each problem of "ovr" has a ball of its own.
        axis = 1 if task == "ovr" else None
        norm = np.linalg.norm(w, axis=axis, keepdims=True)
        w = w * np.minimum(1.0, radius / norm)
    return least


def stream(task, order):
    """Rounds as they may come: at random, class by class, or the best against the learner."""
    X, y = examples(task)
    if order == "random":
        return X, y
    if order == "by class":
        rows = np.argsort(y, kind="stable")
        return X[rows], y[rows]
    # One row again and again under labels that change.
    return np.repeat(X[:1], 80, axis=0), np.arange(80) // 7 % len(classes_of(task))


def same(a, b):
    """Whether two models are equal to the last bit."""
    return (
        a.coef_.tobytes() == b.coef_.tobytes()
        and a.intercept_.tobytes() == b.intercept_.tobytes()
        and all(getattr(a, name) == getattr(b, name) for name in NUMBERS)
    )


# -- what is paid, and the bound


@every_pair(task=TASKS, delay=[0, 3], alpha=[0.0, 0.1], weighted=[False, True])
def test_what_is_paid_is_the_loss_of_each_round_before_it_is_learned_from(
    task, delay, alpha, weighted
):
    X, y = examples(task)
    weights = np.random.default_rng(0).uniform(0.1, 3.0, len(y)) if weighted else np.ones(len(y))
    model = model_of(task, delay=delay, alpha=alpha)
    paid, w = 0.0, np.zeros((problems_of(task), 5))
    for i in range(60):
        row = slice(i, i + 1)
        losses, _ = losses_and_coefs(task, w, X[row], y[row])
        paid += weights[i] * losses[0] + alpha / 2.0 * np.sum(w**2)
        model.partial_fit(X[row], y[row], classes_of(task), weights[row])
        w = oracle.weights_of(model)
        assert model.cumulative_loss_ == pytest.approx(paid, rel=1e-9)
        assert model.t_ == i + 1


@pytest.mark.parametrize(("dtype", "weight"), [(np.float64, 1e160), (np.float32, 2e19)])
@pytest.mark.parametrize("delay", [0, 8])
def test_gradients_in_flight_are_no_burden_to_who_comes_later(delay, dtype, weight, tmp_path):
    """Who brings them hears of what will overflow, and the stream goes on as if they had never come."""
    X = np.random.default_rng(0).standard_normal((40, 3)).astype(dtype)
    y = (X[:, 0] > 0).astype(int)
    model = OnlineGradientClassifier(delay=delay, random_state=0, sampling="storage").partial_fit(X[:10], y[:10])
    twin = copy.deepcopy(model)
    with pytest.raises(ValueError, match="overflow|X must be finite"):
        model.partial_fit(X[10:13], y[10:13], sample_weight=np.full(3, weight))
    for learner in (model, twin):
        learner.partial_fit(X[13:], y[13:])
    assert (model.coef_ == twin.coef_).all() and np.isfinite(model.regret_bound_)
    save(model, tmp_path / "model")
    assert (load(tmp_path / "model").coef_ == model.coef_).all()


@pytest.mark.parametrize("delay", [0, 3])
@pytest.mark.parametrize("task", TASKS)
def test_a_cold_fit_begins_anew_and_a_warm_one_does_not(task, delay):
    X, y = examples(task)
    cold = model_of(task, delay=delay).fit(X, y)
    model = model_of(task, delay=delay).partial_fit(X[:30], y[:30], classes_of(task)).fit(X, y)
    assert same(model, cold)
    model.set_params(warm_start=True).fit(X, y)
    assert model.t_ == 2 * len(y)
    assert model.cumulative_loss_ > cold.cumulative_loss_
    paid = model.cumulative_loss_ - cold.cumulative_loss_
    problems = 3 if task == "ovr" else 1
    assert model.loss_curve_ == pytest.approx([paid / len(y) / problems], rel=1e-9)


@every_pair(
    task=TASKS,
    radius=[0.5, 3.0],
    delay=[0, 1, 5, 30, 200],
    order=["random", "by class", "alternating"],
)
def test_regret_is_within_its_bound(task, radius, delay, order):
    X, y = stream(task, order)
    for alpha, steps in (
        (0.0, {}),
        (0.0, {"eta0": 0.1}),
        (0.0, {"learning_rate": "constant", "eta0": 0.05}),
        (0.1, {}),
        (0.1, {"learning_rate": "pegasos"}),
        (0.1, {"eta0": 10.0, "power_t": 1.0}),
    ):
        model = model_of(task, radius=radius, delay=delay, alpha=alpha, **steps)
        model.partial_fit(X, y, classes_of(task))
        regret = model.cumulative_loss_ - best_in_ball(task, radius, alpha, order)
        assert regret <= model.regret_bound_ < np.inf


@pytest.mark.parametrize("task", TASKS)
def test_regret_falls_behind_the_number_of_rounds(task):
    X, y = examples(task)
    means = []
    for times in (1, 16, 256):
        model = model_of(task).partial_fit(
            np.tile(X, (times, 1)), np.tile(y, times), classes_of(task)
        )
        means.append(model.regret_bound_ / model.t_)
    assert means[0] / 2.0 > means[1] and means[1] / 2.0 > means[2]


@pytest.mark.parametrize("task", TASKS)
def test_steps_of_one_over_t_have_logarithmic_regret(task):
    X, y = examples(task)
    bounds = []
    for times in (1, 4, 16, 64):
        model = model_of(task, alpha=0.5, learning_rate="pegasos")
        model.partial_fit(np.tile(X, (times, 1)), np.tile(y, times), classes_of(task))
        bounds.append(model.regret_bound_)
    # Four times as many rounds add about as much as four times as many did before.
    steps = np.diff(bounds)
    assert np.all(steps[1:] <= 1.2 * steps[:-1])


@pytest.mark.parametrize("delay", [0, 3])
@pytest.mark.parametrize("task", TASKS)
def test_steps_of_one_over_t_promise_no_less_without_a_ball(task, delay):
    # Whether the bound is finite is left open: it must hold for weights of any size.
    X, y = examples(task)
    params = {"alpha": 0.1, "learning_rate": "pegasos", "delay": delay}
    model = model_of(task, radius=None, **params).fit(X, y)
    for radius in (0.5, 3.0, 10.0):
        regret = model.cumulative_loss_ - best_in_ball(task, radius, 0.1, "random")
        assert regret <= model.regret_bound_


def in_parts(csr, parts):
    """The same matrix, every entry stored in several parts."""
    data = np.repeat(csr.data / parts, parts)
    indices, bounds = np.repeat(csr.indices, parts), parts * csr.indptr
    return type(csr)((data, indices, bounds), shape=csr.shape)


@pytest.mark.parametrize("delay", [0, 3])
@pytest.mark.parametrize("task", TASKS)
def test_the_bound_counts_columns_that_occur_twice_as_their_sum(task, delay):
    X, y = examples(task)
    plain = model_of(task, delay=delay).fit(X, y)
    model = model_of(task, delay=delay).fit(in_parts(sparse.csr_array(X), 4), y)
    assert model.cumulative_loss_ == pytest.approx(plain.cumulative_loss_, rel=1e-9)
    assert model.regret_bound_ == pytest.approx(plain.regret_bound_, rel=1e-9)


# -- the ball


@every_pair(
    task=TASKS,
    radius=[1e-3, 0.3, 5.0],
    average=[False, "uniform"],
    dtype=[np.float32, np.float64],
)
def test_the_ball_is_kept(task, radius, average, dtype):
    X, y = examples(task, dtype)
    X = 10.0 * X
    model = model_of(task, radius=radius, average=average, intercept_scaling=3.0)
    norms = []
    for i in range(len(y)):
        model.partial_fit(X[i : i + 1], y[i : i + 1], classes_of(task))
        w = oracle.weights_of(model)
        norms.append(np.linalg.norm(w, axis=1) if task == "ovr" else np.linalg.norm(w))
    tiny = 1e-12 if dtype == np.float64 else 1e-6
    assert np.max(norms) <= radius * (1.0 + tiny)
    assert np.max(norms) >= radius * 0.5


@pytest.mark.parametrize("task", TASKS)
def test_without_a_ball_nothing_is_promised(task):
    X, y = examples(task)
    for params in ({}, {"delay": 2}, {"learning_rate": "constant"}, {"alpha": 0.1}):
        model = model_of(task, radius=None, **params).fit(X, y)
        assert model.regret_bound_ == np.inf
        assert np.isfinite(model.cumulative_loss_)
    free = model_of(task, radius=None, eta0=0.5).fit(X, y)
    huge = model_of(task, radius=1e9, eta0=0.5).fit(X, y)
    assert np.linalg.norm(oracle.weights_of(free)) > 1.0
    assert free.coef_ == pytest.approx(huge.coef_, rel=1e-9)
    assert free.cumulative_loss_ == pytest.approx(huge.cumulative_loss_, rel=1e-9)


# -- gradients in flight


def cuts(n):
    random = np.random.default_rng(n)
    yield range(1, n)
    yield [1]
    yield [n - 1]
    yield range(7, n, 7)
    yield np.sort(random.choice(np.arange(1, n), size=9, replace=False))


@every_pair(task=TASKS, form=[np.asarray, sparse.csr_array], delay=DELAYS, average=[False, "uniform"])
def test_a_stream_may_be_cut_anywhere(task, form, delay, average):
    X, y = examples(task)
    params = {"delay": delay, "average": average, "alpha": 0.01}
    whole = model_of(task, **params).partial_fit(form(X), y, classes_of(task))
    for cut in cuts(len(y)):
        pieces = model_of(task, **params)
        for rows in np.split(np.arange(len(y)), cut):
            # The rows' memory is gone when their gradients arrive.
            data, labels = form(X[rows]), y[rows].copy()
            pieces.partial_fit(data, labels, classes_of(task))
            (data if form is np.asarray else data.data)[:] = np.nan
        assert same(pieces, whole)


@every_pair(task=TASKS, dtype=[np.float32, np.float64], delay=DELAYS)
def test_pieces_may_be_dense_or_sparse(task, dtype, delay):
    X, y = examples(task, dtype)
    whole = model_of(task, delay=delay).partial_fit(X, y, classes_of(task))
    for cut in cuts(len(y)):
        pieces = model_of(task, delay=delay)
        for k, rows in enumerate(np.split(np.arange(len(y)), cut)):
            data = X[rows] if k % 2 else sparse.csr_array(X[rows])
            pieces.partial_fit(data, y[rows], classes_of(task))
        tiny = 1e-9 if dtype == np.float64 else 1e-4
        assert np.linalg.norm(pieces.coef_ - whole.coef_) <= tiny * np.linalg.norm(whole.coef_)
        assert pieces.cumulative_loss_ == pytest.approx(whole.cumulative_loss_, rel=tiny)
        assert pieces.regret_bound_ == pytest.approx(whole.regret_bound_, rel=tiny)


@pytest.mark.parametrize("how", ["pickle", "deepcopy", "save"])
@pytest.mark.parametrize("delay", [0, 3, 1000])
@pytest.mark.parametrize(
    ("form", "dtype"), [(np.asarray, np.float64), (sparse.csr_array, np.float32)]
)
@pytest.mark.parametrize("task", TASKS)
def test_copies_take_along_what_is_in_flight(task, dtype, form, delay, how, tmp_path):
    X, y = examples(task, dtype)
    model = model_of(task, delay=delay, random_state=0)
    whole = model_of(task, delay=delay).partial_fit(form(X), y, classes_of(task))
    for rows in np.split(np.arange(len(y)), [1, 2, 9, 40]):
        model.partial_fit(form(X[rows]), y[rows], classes_of(task))
        if how == "pickle":
            model = pickle.loads(pickle.dumps(model))
        elif how == "deepcopy":
            model = copy.deepcopy(model)
        else:
            save(model, tmp_path / "model")
            model = load(tmp_path / "model")
    assert same(model, whole)


def test_epochs_are_one_stream():
    X, y = examples("hinge")
    for delay in DELAYS:
        twice = model_of(delay=delay, max_iter=2).fit(X, y)
        warm = model_of(delay=delay, warm_start=True).fit(X, y).fit(X, y)
        tiled = model_of(delay=delay).fit(np.tile(X, (2, 1)), np.tile(y, 2))
        assert same(twice, warm)
        assert same(twice, tiled)


@pytest.mark.parametrize("after", [0, 1, 4, 10])
@pytest.mark.parametrize("before", [0, 1, 4, 10])
def test_a_gradient_taken_is_applied_though_the_delay_be_changed(before, after):
    # Rows of an axis each: whose gradient has arrived is plain to see.
    X, y = np.eye(40), np.arange(40) % 2
    model = model_of(delay=before, radius=None, fit_intercept=False, learning_rate="constant")
    model.partial_fit(X[:20], y[:20], [0, 1]).set_params(delay=after)
    model.partial_fit(X[20:], y[20:])
    missing = np.flatnonzero(model.coef_[0] == 0.0)
    assert len(missing) <= max(before, after)
    assert np.all(missing >= 40 - max(before, after))


def test_a_call_that_fails_takes_nothing_out_of_the_air():
    X, y = examples("hinge")
    for form in (np.asarray, sparse.csr_array):
        model = model_of(delay=5).partial_fit(form(X[:40]), y[:40], [0, 1])
        before = pickle.dumps(model)
        bad = X[40:].copy()
        bad[20, 1] = np.nan
        with pytest.raises(ValueError, match="X contains NaN"):
            model.partial_fit(form(bad), y[40:])
        assert pickle.dumps(model) == before
        model.partial_fit(form(X[40:]), y[40:])
        assert same(model, model_of(delay=5).partial_fit(form(X), y, [0, 1]))


# -- parameters


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("radius", [0.0, -1.0, np.nan, np.inf, "1", [1.0]]),
        ("delay", [-1, 1.5, None, "3", np.inf, 2**63]),
        ("alpha", [-1.0, -1e-300, np.nan, np.inf, None]),
        ("learning_rate", ["optimal", None]),
        ("eta0", [0.0, -1.0, np.nan, np.inf]),
        ("max_iter", [0, 1.5]),
        ("average", [0, -1, "median"]),
    ],
)
def test_parameters_out_of_range(name, values):
    X, y = examples("hinge")
    for value in values:
        for use in (lambda m: m.fit(X, y), lambda m: m.partial_fit(X, y, [0, 1])):
            model = model_of(**{name: value})
            with pytest.raises(ValueError, match=name):
                use(model)
            with pytest.raises(NotFittedError):
                model.predict(X)


def test_steps_of_one_over_alpha_t_need_an_alpha():
    X, y = examples("hinge")
    with pytest.raises(ValueError, match="alpha must be > 0"):
        model_of(learning_rate="pegasos").fit(X, y)
    with pytest.raises(ValueError, match="eta0"):
        model_of(alpha=0.5, eta0=2.1).fit(X, y)
    assert model_of(alpha=0.5, eta0=2.0).fit(X, y).t_ == len(y)


def test_parameters_are_the_signature():
    names = list(inspect.signature(OnlineGradientClassifier).parameters)
    assert sorted(OnlineGradientClassifier().get_params()) == sorted(names)
    for name in names:
        marker = object()
        assert OnlineGradientClassifier(**{name: marker}).get_params()[name] is marker
    for name in ("solver", "projection", "batch_size", "early_stopping", "t0", "shards"):
        with pytest.raises(TypeError, match=name):
            OnlineGradientClassifier(**{name: 1})
        with pytest.raises(ValueError, match=name):
            OnlineGradientClassifier().set_params(**{name: 1})


@pytest.mark.parametrize("task", TASKS)
def test_no_certificate(task):
    X, y = examples(task)
    model = model_of(task, alpha=0.1).fit(X, y)
    assert np.isnan([model.objective_, model.dual_objective_, model.duality_gap_]).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.set_params(tol=0.01, max_iter=500).fit(X, y)
    assert model.n_iter_ < 500
    assert np.isnan(model.duality_gap_)
    w = oracle.weights_of(model)
    want = np.mean(losses_and_coefs(task, w, X, y)[0]) + 0.1 / 2.0 * np.sum(w**2)
    assert model.objective_ == pytest.approx(want, rel=1e-9)


@pytest.mark.parametrize("task", TASKS)
def test_the_uniform_mean_is_that_of_the_iterates(task):
    X, y = examples(task)
    model, mean = model_of(task), model_of(task, average="uniform")
    iterates = []
    for i in range(30):
        row = slice(i, i + 1)
        iterates.append(oracle.weights_of(model.partial_fit(X[row], y[row], classes_of(task))))
        mean.partial_fit(X[row], y[row], classes_of(task))
    assert oracle.weights_of(mean) == pytest.approx(np.mean(iterates, axis=0), rel=1e-9, abs=1e-12)
    assert mean.cumulative_loss_ == pytest.approx(model.cumulative_loss_, rel=1e-12)


@pytest.mark.parametrize("n_jobs", [2, -1])
def test_threads_change_no_bit(n_jobs):
    random = np.random.default_rng(0)
    X, y = random.normal(size=(5000, 3)), random.integers(5, size=5000)
    for multi_class in ("ovr", "crammer_singer"):
        for delay in (0, 3):
            params = {"multi_class": multi_class, "delay": delay}
            models = [OnlineGradientClassifier(n_jobs=k, **params).fit(X, y) for k in (1, n_jobs)]
            assert same(*models)


def test_no_bound_is_told_of_two_balls(tmp_path):
    X, y = np.ones((100, 1)), np.ones(100)
    model = OnlineGradientClassifier(radius=10.0, eta0=10.0, fit_intercept=False).partial_fit(X, y, classes=[-1, 1])
    model.set_params(eta0=1.0).partial_fit(X, -y)
    loss, bound = model.cumulative_loss_, model.regret_bound_
    assert np.isfinite([loss, bound]).all()
    for radius in (0.01, 20.0):
        other = pickle.loads(pickle.dumps(model)).set_params(radius=radius).partial_fit(X[:1], -y[:1])
        assert other.cumulative_loss_ >= loss and np.isnan(other.regret_bound_)
        # And so for ever.
        save(other, tmp_path / "model")
        again = load(tmp_path / "model").partial_fit(X, -y)
        assert again.cumulative_loss_ > loss and np.isnan(again.regret_bound_)
    assert np.isfinite(model.fit(X, np.arange(100) % 2).regret_bound_)
