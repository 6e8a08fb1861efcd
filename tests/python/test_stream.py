"""Streams: pieces of any size and form are one stream, and a piece costs what is in it."""

import os
import pickle
import warnings

import numpy as np
import oracle
import pytest
from conftest import every_pair, papers_linear
from scipy import sparse

from pegasos import PegasosClassifier


LOSSES = ["hinge", "squared_hinge", "log_loss"]


def examples(task, dtype=np.float64, n=60, d=5):
    random = np.random.default_rng(6)
    X = random.normal(size=(n, d)).astype(dtype)
    X[random.random(size=X.shape) < 0.4] = 0.0
    y = (X @ random.normal(size=(d, 3)) + random.normal(size=(n, 3))).argmax(axis=1)
    weights = random.uniform(0.1, 3.0, size=n)
    return X, y if task in ("jointly", "ovr") else (y > 0).astype(int), weights


def model_of(task, **params):
    default = {"alpha": 0.1, "sampling": "storage", "random_state": 0}
    if task in LOSSES:
        # What t0 takes from the data of the first call hangs on how many they are.
        default |= {"loss": task, "t0": 3000.0 if task == "squared_hinge" else 3.0}
    else:
        default["multi_class"] = "ovr" if task == "ovr" else "crammer_singer"
    return papers_linear(**{**default, **params})


def classes_of(task):
    return range(3) if task in ("jointly", "ovr") else range(2)


def same(a, b):
    """Whether two models are equal to the last bit."""
    return (
        a.coef_.tobytes() == b.coef_.tobytes()
        and a.intercept_.tobytes() == b.intercept_.tobytes()
        and a.t_ == b.t_
    )


STEPS = [
    {},
    {"average": True},
    {"average": "uniform"},
    {"average": 20},
    {"projection": True},
    {"learning_rate": "invscaling"},
    {"learning_rate": "constant", "eta0": 8.0, "average": True},
    {"fit_intercept": False},
    {"intercept_scaling": 10.0},
]


@every_pair(
    task=oracle.TASKS,
    form=[np.asarray, sparse.csr_array],
    dtype=[np.float32, np.float64],
    params=STEPS,
)
def test_single_rows_are_the_stream_bit_for_bit(task, form, dtype, params):
    X, y, weights = examples(task, dtype)
    # The ball is that of the first call's mean weight.
    weights = np.ones(len(y)) if "projection" in params else weights
    fitted = model_of(task, solver="pegasos", tol=None, max_iter=1, **params)
    fitted.fit(form(X), y, weights)
    whole = model_of(task, **params).partial_fit(form(X), y, classes_of(task), weights)
    assert same(whole, fitted)
    rows = model_of(task, **params)
    for i in range(len(y)):
        row = slice(i, i + 1)
        rows.partial_fit(form(X[row]), y[row], classes_of(task), weights[row])
        if i == 30:
            rows = pickle.loads(pickle.dumps(rows))
        if i % 7 == 0:
            # Looking at a model changes nothing.
            rows.predict(X)
    assert same(rows, whole)


@every_pair(task=oracle.TASKS, index=[np.int32, np.int64], params=STEPS)
def test_pieces_may_be_dense_or_sparse(task, index, params):
    X, y, _ = examples(task)
    dense, mixed = model_of(task, **params), model_of(task, **params)
    for k, rows in enumerate(np.split(np.arange(len(y)), [1, 2, 3, 10, 11, 40])):
        data = X[rows]
        dense.partial_fit(data, y[rows], classes_of(task))
        if k % 2:
            data = sparse.csr_array(data)
            data.indptr, data.indices = data.indptr.astype(index), data.indices.astype(index)
        mixed.partial_fit(data, y[rows], classes_of(task))
    assert np.linalg.norm(mixed.coef_ - dense.coef_) <= 1e-9 * np.linalg.norm(dense.coef_)
    assert mixed.intercept_ == pytest.approx(dense.intercept_, rel=1e-9, abs=1e-12)
    assert mixed.t_ == dense.t_ == len(y)


@pytest.mark.parametrize("sampling", ["shuffle", "blocks", "replacement", "storage"])
@pytest.mark.parametrize("task", oracle.TASKS)
def test_orders_go_on_through_copies(task, sampling):
    X, y, _ = examples(task)

    def stream(copied):
        model = model_of(task, sampling=sampling, random_state=5)
        for _ in range(4):
            model.partial_fit(X, y, classes_of(task))
            model = pickle.loads(pickle.dumps(model)) if copied else model
        return model

    assert same(stream(copied=True), stream(copied=False))
    if sampling in ("shuffle", "replacement"):
        # No call has the order of the one before.
        calls = model_of(task, sampling=sampling, random_state=5)
        first = calls.partial_fit(X, y, classes_of(task)).loss_curve_
        again = model_of(task, sampling=sampling, random_state=5)
        assert again.partial_fit(X, y, classes_of(task)).loss_curve_ == first
        orders = {tuple(order_of(sampling, call)) for call in range(3)}
        assert len(orders) == 3


def order_of(sampling, calls):
    """The order of a call: with steps of 1/t^2 and rows of an axis each, the sizes tell."""
    n = 8
    params = {"fit_intercept": False, "learning_rate": "invscaling", "power_t": 2.0, "alpha": 1e-9}
    model = papers_linear(sampling=sampling, random_state=5, **params)
    before = np.zeros(n)
    for _ in range(calls + 1):
        before = model.coef_[0].copy() if hasattr(model, "classes_") else before
        model.partial_fit(np.eye(n), np.arange(n) % 2, [0, 1])
    return np.abs(model.coef_[0] - before).argsort()


MEMORY = """
import numpy as np
from scipy import sparse
from conftest import papers_linear
from pegasos import OnlineGradientClassifier, PegasosClassifier

d, random = 1_000_000, np.random.default_rng(0)

def row(size):
    columns = np.sort(random.choice(d, size=size, replace=False)).astype(np.int32)
    values = random.normal(size=size).astype("{dtype}")
    return sparse.csr_array((values, columns, np.array([0, size], np.int32)), shape=(1, d))

def kilobytes(name):
    for line in open("/proc/self/status"):
        if line.startswith(name):
            return int(line.split()[1])

# Memory is there only once it was written to: the first rows see to that.
full, few = [row(d) for _ in range(9)], [row(20) for _ in range(111)]

def grown(estimator, classes, **params):
    labels = np.arange(120) % classes
    model = estimator(**params)
    for x, y in zip(full + few[:11], labels):
        model.partial_fit(x, [y], range(classes))
    # The peak is what is there now.
    open("/proc/self/clear_refs", "w").write("5")
    before = kilobytes("VmHWM")
    for x, y in zip(few[11:], labels[20:], strict=True):
        model.partial_fit(x, [y])
    more = kilobytes("VmHWM") - before
    assert model.t_ == 120 and model.coef_.shape[1] == d
    return more

print(
    grown(papers_linear, 2),
    grown(papers_linear, 2, loss="log_loss", average=True),
    grown(papers_linear, 2, projection=True, sampling="storage"),
    grown(papers_linear, 3),
    grown(papers_linear, 3, multi_class="ovr", n_jobs=2),
    grown(PegasosClassifier, 2),
    grown(PegasosClassifier, 3, average="polynomial"),
    grown(OnlineGradientClassifier, 2),
    grown(OnlineGradientClassifier, 3, delay=5, average="uniform"),
)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="needs Linux")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_single_rows_take_no_memory_of_the_size_of_the_weights(dtype, run_script):
    # So that what is asked for is never taken from what lies idle.
    idle = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    done = run_script(MEMORY.format(dtype=dtype), **idle)
    assert done.returncode == 0, done.stderr
    grown = [int(more) for more in done.stdout.split()]
    # A copy of the weights would be 4000 or 8000.
    assert len(grown) == 9 and max(grown) < 1000, done.stdout


@pytest.mark.parametrize("quiet", ["short rows", "an empty row", "small weights", "balanced"])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_what_begins_quietly_does_not_swing_later(quiet, form):
    random = np.random.default_rng(0)
    X = random.normal(size=(3000, 20))
    y = (X @ random.normal(size=20) > 0).astype(int)
    params, weights, size = {}, np.ones(len(y)), 10
    if quiet == "short rows":
        X[:10] *= 0.3
    elif quiet == "an empty row":
        X[0], size = 0.0, 1
    elif quiet == "small weights":
        weights[10:] = 20.0
    else:
        # Both classes at first, then one in a hundred of the second.
        params["class_weight"] = "balanced"
        y[:10] = np.arange(10) % 2
        rare = np.flatnonzero(y[10:] == 1) + 10
        X[rare[np.arange(len(rare)) % 50 > 0]] *= -1.0
        y[rare[np.arange(len(rare)) % 50 > 0]] = 0
    model = PegasosClassifier(random_state=0, **params)
    for first in range(0, 1000 if size == 1 else len(y), size):
        some = slice(first, first + size)
        model.partial_fit(form(X[some]), y[some], classes=[0, 1], sample_weight=weights[some])
    assert np.abs(model.coef_).max() < 10.0
    right = model.predict(X) == y
    assert np.mean([right[y == k].mean() for k in (0, 1)]) > 0.85


def offset(model):
    return model._trainer.made.params["t0"]


def curvatures(X):
    return 2.0 * ((X**2).sum(axis=1) + 1.0)


def test_an_offset_is_raised_by_what_is_needed_and_goes_where_the_model_goes():
    X, y, _ = examples("squared_hinge")
    model = PegasosClassifier(random_state=0).partial_fit(0.7 * X[:10], y[:10], classes=[0, 1])
    model.partial_fit(X[10:30], y[10:30])
    # The step after ten others is 1 over the largest curvature.
    largest = curvatures(X[10:30]).max()
    assert offset(model) == pytest.approx(largest / model.alpha_ - 10) and model.t_ == 30
    copied, raised = pickle.loads(pickle.dumps(model)), offset(model)
    # No larger example has come since, nor does another parameter make it forget, or start anew.
    for other in (model, copied):
        other.partial_fit(0.1 * X[30:40], y[30:40])
        other.set_params(average=True).partial_fit(X[10:30], y[10:30])
        assert offset(other) == raised
    assert same(model, copied)
    # Who says what it is has it.
    model = PegasosClassifier(t0=3.0, random_state=0).partial_fit(X[:10], y[:10], classes=[0, 1])
    assert offset(model.partial_fit(1e3 * X[10:12], y[10:12])) == 3.0


def test_an_offset_grows_no_faster_than_the_stream():
    X, y, _ = examples("squared_hinge")
    model = PegasosClassifier(random_state=0).partial_fit(0.1 * X[:10], y[:10], classes=[0, 1])
    first = offset(model) + 10
    model.partial_fit(100.0 * X[10:30], y[10:30])
    # To what 20 rows after 10 others may make of it, as if t were as many times as large.
    assert offset(model) == pytest.approx(first * (1.0 + 20 / 11) - 10)


@pytest.mark.parametrize("half_life", [None, 500])
@pytest.mark.parametrize("size", [1, 50])
@pytest.mark.parametrize("at", [3, 110])
def test_a_row_that_stands_out_does_not_set_the_pace_of_all_others(at, size, half_life):
    random = np.random.default_rng(3)
    X = random.normal(size=(2000, 10))
    y = (X @ np.arange(1, 11) + 3.0 * random.normal(size=2000) > 0).astype(int)

    def score(X, y):
        model = PegasosClassifier(half_life=half_life, alpha="auto" if half_life else 1e-3, random_state=0)
        for first in range(0, len(y), size):
            some = slice(first, first + size)
            model.partial_fit(X[some], y[some], [0, 1])
        assert np.isfinite(model.coef_).all() and np.abs(model.coef_).max() < 10.0
        return model, model.score(clean, right)

    clean, right = X.copy(), y.copy()
    _, want = score(X, y)
    X[at, 0], y[at] = 9999.0, 1 - y[at]
    model, found = score(X, y)
    assert found > want - 0.02 and offset(model) < 100.0 * curvatures(clean).max() / model.alpha_


@pytest.mark.parametrize("weighted", [False, True])
def test_a_row_that_stands_out_counts_for_as_much_less(weighted):
    """Its step is that of a row with so much less weight, which is that of all others as it was."""
    X, y, weights = examples("squared_hinge")
    weights = weights if weighted else np.ones(len(y))
    given = lambda rows: weights[rows] if weighted else None
    first, then = slice(40), slice(40, 60)
    model = PegasosClassifier(sampling="storage", random_state=0).partial_fit(X[first], y[first], [0, 1], given(first))
    other = pickle.loads(pickle.dumps(model))
    X[45] *= 100.0
    most = 4.0 * np.quantile(curvatures(X[then]), 0.95, method="lower")
    if not weighted:
        reach = model.alpha_ * (offset(model) + 40)
        most = max(reach, min(most, reach * (1.0 + 20 / 41)))
    model.partial_fit(X[then], y[then], sample_weight=given(then))
    part = np.minimum(1.0, most / curvatures(X))
    assert part[45] < 0.05 and np.sum(part[then] < 1.0) == 1
    # A given offset tames nothing by itself.
    other.set_params(t0=offset(model)).partial_fit(X[then], y[then], sample_weight=weights[then] * part[then])
    np.testing.assert_allclose(model.coef_, other.coef_, rtol=1e-9)


def test_a_half_life_says_once_that_rows_are_too_large_for_it():
    X, y, _ = examples("squared_hinge")
    model = PegasosClassifier(half_life=50, random_state=0).partial_fit(0.1 * X[:10], y[:10], classes=[0, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.partial_fit(0.1 * X[10:20], y[10:20])
    with pytest.warns(UserWarning, match="alpha is small for half_life=50, got .*, by the first examples: steps are too long"):
        model.partial_fit(30.0 * X[20:30], y[20:30])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.partial_fit(30.0 * X[30:40], y[30:40])
    assert np.isfinite(model.coef_).all()
    with pytest.raises(ValueError, match="alpha must be >= .* for half_life=50"):
        PegasosClassifier(half_life=50, alpha=1e-3).partial_fit(30.0 * X, y)


def test_a_stream_that_has_begun_may_begin_to_forget():
    X, y, _ = examples("squared_hinge", n=600)
    model = PegasosClassifier(random_state=0).partial_fit(X[:300], y[:300], classes=[0, 1])
    with pytest.warns(UserWarning, match="alpha is small for half_life=50, got 0.0001, by the first"):
        model.set_params(half_life=50).partial_fit(X[300:], y[300:])
    other = PegasosClassifier(half_life=50, random_state=0).partial_fit(X[:300], y[:300], classes=[0, 1])
    assert model.score(X, y) > other.partial_fit(X[300:], y[300:]).score(X, y) - 0.1
    assert np.abs(model.coef_).max() < 10.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("of_rows", [np.float32, np.float64])
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("task", ["hinge", "jointly", "ovr"])
def test_rows_after_a_step_score_as_by_all_weights(task, average, dtype, of_rows):
    """Which weights are looked at is nobody's business: neither of scores, to the last bit, nor of what is refused."""
    random = np.random.default_rng(1)
    X = sparse.random_array((200, 3000), density=0.002, rng=random, format="csr", dtype=dtype)
    classes = list(classes_of(task))
    y = random.integers(0, len(classes), 200)
    model = model_of(task, alpha=1e-3, average=average)
    for start in (0, 100):
        model.partial_fit(X[start : start + 100], y[start : start + 100], classes=classes)
        few = X[start + 40 : start + 60].astype(of_rows)
        found = model.decision_function(few)
        twin = pickle.loads(pickle.dumps(model))
        # Of dense rows all weights are needed; then they are at hand.
        twin.decision_function(X[:1].toarray())
        assert found.tobytes() == twin.decision_function(few).tobytes()
        assert found.tobytes() == model.decision_function(few.astype(of_rows)).tobytes()
        assert np.allclose(found, np.squeeze(few @ model.coef_.T + model.intercept_), rtol=1e-5, atol=1e-6)
    model.partial_fit(X[:1], y[:1])
    few.data[-1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model.decision_function(few)
    # What rows are refused for is told as of all weights.
    few.data[:] = np.finfo(of_rows).max
    model.partial_fit(X[:1], y[:1])
    twin = pickle.loads(pickle.dumps(model))
    twin.decision_function(X[:1].toarray())
    told = []
    for other in (model, twin):
        try:
            told.append(other.decision_function(few).tobytes())
        except ValueError as error:
            told.append(str(error))
    assert told[0] == told[1]
    assert dtype != of_rows or "row 0 makes scores or weights overflow" in told[0]
