"""Bad input is an error that names the argument: never a crash, a hang or a silent answer."""

import pickle
import warnings
from functools import partial

import numpy as np
import pytest
from conftest import every_pair, papers_linear
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning, NotFittedError


LOSSES = ["hinge", "squared_hinge", "log_loss"]


def model_of(**params):
    default = {"alpha": 0.05, "tol": None, "max_iter": 3, "random_state": 0}
    return papers_linear(**{**default, **params})


def fits(X, y, **params):
    """The two ways to train on examples."""
    weight = params.pop("sample_weight", None)
    yield lambda: model_of(**params).fit(X, y, sample_weight=weight)
    yield lambda: model_of(**params).partial_fit(X, y, classes=[0, 1], sample_weight=weight)


def refused(X, y, match, **params):
    for fit in fits(X, y, **params):
        with pytest.raises((ValueError, TypeError), match=match):
            fit()


@pytest.fixture
def examples(two_classes):
    X, y = two_classes
    return X.copy(), y.copy()


# -- numbers that are none


@every_pair(
    form=[np.asarray, sparse.csr_matrix, sparse.csr_array],
    dtype=[np.float32, np.float64],
    place=[(0, 0), (30, 2), (59, 3)],
    value=[np.nan, np.inf, -np.inf],
)
def test_values_that_are_not_finite(form, dtype, place, value, examples):
    X, y = examples
    good = X.astype(dtype)
    bad = good.copy()
    bad[place] = value
    match = "X contains NaN" if np.isnan(value) else "X contains infinity"
    # Neither an order that never meets the row nor a score that another value spoils hides it.
    orders = ["shuffle", "blocks", "replacement", "storage", [5, 6, 7]]
    for sampling in orders:
        refused(form(bad), y, match, sampling=sampling)
    for params in ({"tol": 0.1}, {"multi_class": "ovr"}, {"projection": True}, {"average": True}):
        refused(form(bad), y, match, **params)
    for loss in LOSSES:
        refused(form(bad), y, match, loss=loss)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_values_that_are_not_finite_among_those_held_out(form, examples):
    X, y = examples
    model = model_of(early_stopping=True, tol=0.1, validation_fraction=0.5)
    for row in range(60):
        bad = X.copy()
        bad[row, 1] = np.nan
        with pytest.raises(ValueError, match="X contains NaN"):
            model.fit(form(bad), y)


def unchanged(model, call, match):
    """Whether a call fails so and leaves the model as it was, to the last bit."""
    coef, before = model.coef_, pickle.dumps(model)
    with pytest.raises((ValueError, TypeError), match=match):
        call()
    return pickle.dumps(model) == before and np.array_equal(model.coef_, coef)


@every_pair(
    form=[np.asarray, sparse.csr_array],
    loss=LOSSES,
    average=[False, True],
    row=[0, 30, 59],
    value=[np.nan, np.inf, -np.inf],
)
def test_a_model_in_use_learns_nothing_from_bad_values(form, loss, average, row, value, examples):
    X, y = examples
    bad = X.copy()
    bad[row, 1] = value
    model = model_of(loss=loss, average=average, warm_start=True).fit(form(X), y)
    assert unchanged(model, lambda: model.partial_fit(form(bad), y), "X contains")
    assert unchanged(model, lambda: model.fit(form(bad), y), "X contains")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_values_whose_products_overflow(form, loss, average, dtype, examples):
    X, y = examples
    huge = (X * (1e300 if dtype == np.float64 else 1e37)).astype(dtype)
    params = {"loss": loss, "average": average}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        refused(form(huge), y, "X must be finite|X contains", **params)
        model = model_of(warm_start=True, **params).fit(form(X.astype(dtype)), y)
        match = "X must be finite|X contains"
        assert unchanged(model, lambda: model.partial_fit(form(huge), y), match)
        assert unchanged(model, lambda: model.fit(form(huge), y), match)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_a_huge_value_is_not_called_nan(form, examples):
    X, y = examples
    X[30, 2] = 1e300
    for weight in (None, np.where(np.arange(60) == 30, 0.0, 1.0)):
        match = "X must be finite|X contains infinity"
        refused(form(X), y, match, loss="squared_hinge", sample_weight=weight)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_labels_that_are_not_finite(value, examples):
    X, y = examples
    y = y.astype(float)
    y[7] = value
    refused(X, y, "y contains")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
def test_predicting_from_bad_values(value, examples):
    X, y = examples
    model = model_of().fit(X, y)
    X[3, 1] = value
    if np.isfinite(value):
        assert np.isfinite(model.decision_function(X)).all()
    else:
        with pytest.raises(ValueError, match="X contains"):
            model.predict(X)


@pytest.mark.parametrize("on", ["fit", "partial_fit"])
def test_squared_hinge_that_diverges(on, examples):
    X, y = 100.0 * examples[0], examples[1]
    params = {"loss": "squared_hinge", "learning_rate": "constant", "eta0": 1.0}
    with pytest.raises(ValueError, match="eta0"):
        model_of(max_iter=100, **params).fit(X, y)
    model = model_of(warm_start=True, **params).fit(X[:3] / 100.0, [0, 1, 1])
    before = model_of(warm_start=True, **params).fit(X[:3] / 100.0, [0, 1, 1])
    with pytest.raises(ValueError, match="eta0"):
        getattr(model, on)(np.tile(X, (20, 1)), np.tile(y, 20))
    assert np.array_equal(model.decision_function(X), before.decision_function(X))


# -- shapes


def test_lengths_that_differ(examples):
    X, y = examples
    for form in (np.asarray, sparse.csr_array):
        refused(form(X), y[:-1], "inconsistent numbers of samples")
        refused(form(X[:-1]), y, "inconsistent numbers of samples")
        refused(form(X), y, "sample_weight", sample_weight=np.ones(59))
        refused(form(X), y, "sample_weight|Sample weights", sample_weight=np.ones((60, 2)))


def test_dimensions(examples):
    X, y = examples
    refused(X[:, 0], y, "Expected 2D array")
    refused(X[None], y, "Found array with dim 3|expected <= 2")
    refused(np.float64(3.0), y, "Expected 2D array")
    refused(X, np.column_stack([y, y]), "y should be a 1d array")
    refused(None, y, "Expected 2D array")
    refused(X, None, "requires y to be passed")


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_nothing_to_learn_from(form, examples):
    X, y = examples
    refused(form(X[:0]), y[:0], r"0 sample\(s\)")
    refused(form(X[:, :0]), y, r"0 feature\(s\)")


@pytest.mark.parametrize("loss", LOSSES)
def test_one_class(loss, examples):
    X, y = examples
    with pytest.raises(ValueError, match="class"):
        model_of(loss=loss).fit(X, np.ones_like(y))
    with pytest.raises(ValueError, match="class"):
        model_of(loss=loss).partial_fit(X, np.ones_like(y), classes=[1])


def test_continuous_labels(examples):
    X, _ = examples
    with pytest.raises(ValueError, match="continuous"):
        model_of().fit(X, X[:, 0])


def test_other_features_than_before(examples):
    X, y = examples
    model = model_of(warm_start=True).fit(X, y)
    for form in (np.asarray, sparse.csr_array):
        for other in (form(X[:, :3]), form(np.tile(X, 2))):
            for call in (model.predict, model.decision_function):
                with pytest.raises(ValueError, match=r"X has \d features"):
                    call(other)
            for train in (model.partial_fit, model.fit):
                assert unchanged(model, partial(train, other, y), r"X has \d features")


# -- classes


def test_classes_of_a_first_call_that_are_none(examples):
    X, y = examples
    with pytest.raises(ValueError, match="class"):
        model_of().partial_fit(X, y, classes=[])
    # A table of indicators has columns, and no labels.
    for classes in ([[1, 1, 0]], np.ones((2, 3), int), 3):
        with pytest.raises(ValueError, match="classes must be a list of labels"):
            model_of().partial_fit(X, y, classes=classes)
    with pytest.raises(ValueError, match="classes"):
        model_of().partial_fit(X, y, classes=[1, 2])


@pytest.mark.parametrize("unknown", [2, -1, 0.5, "a"])
def test_unknown_classes(unknown, examples):
    X, y = examples
    other = np.where(y == 1, unknown, np.asarray(y, dtype=type(unknown)))
    model = model_of().partial_fit(X, y, classes=[0, 1])
    assert unchanged(model, lambda: model.partial_fit(X, other), "class")
    assert unchanged(model, lambda: model.partial_fit(X, y, classes=[0, unknown]), "class|label")
    assert unchanged(model, lambda: model.partial_fit(X, y, classes=[1, 2]), "classes must hold all")
    assert unchanged(model, lambda: model.partial_fit(X, y, classes=[0, 1, "a"]), "classes|label")
    model = model_of(warm_start=True).fit(X, y)
    assert unchanged(model, lambda: model.fit(X, other), "class")


def test_a_first_partial_fit_that_fails_leaves_nothing(examples):
    X, y = examples
    model = model_of()
    for bad in (np.full_like(X, np.nan), 1e300 * X):
        with pytest.raises(ValueError, match="X"):
            model.partial_fit(bad, y, classes=[0, 1])
        with pytest.raises(NotFittedError):
            model.predict(X)
        with pytest.raises(ValueError, match="X"):
            model.partial_fit(bad, np.ones_like(y))
    assert model.partial_fit(X[:, :2], y, classes=[0, 1]).t_ == 60


# -- weights


@every_pair(loss=LOSSES, projection=[False, True], value=[-1.0, -1e-300, np.nan, np.inf, -np.inf])
def test_bad_sample_weights(loss, projection, value, examples):
    X, y = examples
    for row in (0, 59):
        weight = np.ones(60)
        weight[row] = value
        for form in (np.asarray, sparse.csr_array):
            match = "[Ss]ample.?weight"
            refused(form(X), y, match, loss=loss, projection=projection, sample_weight=weight)
            model = model_of(loss=loss, projection=projection).fit(form(X), y)
            call = partial(model.partial_fit, form(X), y, sample_weight=weight)
            assert unchanged(model, call, match)


@pytest.mark.parametrize("value", [0.0, -1.0])
@pytest.mark.parametrize("projection", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_sample_weights_that_leave_nothing(loss, projection, value, examples):
    X, y = examples
    params = {"loss": loss, "projection": projection, "sample_weight": np.full(60, value)}
    refused(X, y, "[Ss]ample.?weight", **params)


@pytest.mark.parametrize(
    "weight",
    ["a", ["a"] * 60, [None] * 60, [1j] * 60, {}, [[1], [1, 2]] * 30, 10**400, np.full(60, "2026-01-01", "datetime64[D]")],
)
def test_sample_weights_that_are_no_numbers(weight, examples):
    X, y = examples
    refused(X, y, "sample_weight", sample_weight=weight)


@pytest.mark.parametrize(
    "weights",
    [{0: -1.0}, {0: np.nan}, {1: np.inf}, {0: 0.0, 1: 0.0}, {7: 1.0}, {0: "a"}, {0: [1.0, 2.0]}, {0: 1j}, {0: 10**400}],
    ids=str,
)
@pytest.mark.parametrize("loss", LOSSES)
def test_bad_class_weights(loss, weights, examples):
    X, y = examples
    refused(X, y, "class_weight", loss=loss, class_weight=weights)


@pytest.mark.parametrize("loss", LOSSES)
def test_weights_whose_products_overflow(loss, examples):
    X, y = examples
    match = "sample_weight times class_weight must be finite"
    refused(X, y, match, loss=loss, class_weight={0: 1e300}, sample_weight=np.full(60, 1e10))


# -- parameters


BAD = {
    "loss": ["nope", None, 1, ""],
    "alpha": [0, -1, -1e-300, np.nan, np.inf, 10**400, "1", None, [0.1]],
    "solver": ["nope", None],
    "fit_intercept": ["yes", None, 2],
    "intercept_scaling": [0, -1, np.nan, np.inf, 10**400, None],
    "multi_class": ["nope", None],
    "learning_rate": ["nope", None, 0.1],
    "eta0": [0, -1, np.nan, np.inf, 10**400, None],
    "power_t": [-1, -1e-9, np.nan, np.inf, 10**400, None],
    "projection": ["yes", None, 0.5],
    "average": [0, -1, 1.5, "median", None],
    "batch_size": [0, -1, 1.5, None, "8", np.inf],
    "max_iter": [0, -1, 1.5, None, np.inf],
    "tol": [-1, np.nan, np.inf, 10**400, "auto"],
    "early_stopping": ["yes", None],
    "validation_fraction": [0, 1, -0.1, 2.0, np.nan, None],
    "n_iter_no_change": [0, -1, 1.5, None],
    "sampling": ["nope", None, 3],
    "class_weight": ["nope", 3],
    "calibration": ["nope", 3, True],
    "half_life": [0, -1.0, np.nan, np.inf, 10**400, "nope"],
    "warm_start": ["yes", None],
    "n_jobs": [0, 1.5, "all"],
    "random_state": ["nope", -1, 1.5],
    "verbose": [-1, "yes", None],
    "t0": [-1, -1e-300, np.nan, np.inf, 10**400, "nope", None],
    "shards": [0, -1, 1.5, None, "2", np.inf],
}


def test_every_parameter_is_in_the_list():
    assert set(BAD) == set(papers_linear().get_params())


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in BAD.items() for value in values], ids=str
)
def test_parameters_out_of_range(name, value, examples):
    X, y = examples
    refused(X, y, name, **{name: value})
    model = model_of(warm_start=True).fit(X, y).set_params(**{name: value})
    assert unchanged(model, lambda: model.fit(X, y), name)


@pytest.mark.parametrize("learning_rate", ["constant", "invscaling"])
@pytest.mark.parametrize("alpha", [0.1, 1e-4])
def test_steps_that_shrink_by_more_than_all(alpha, learning_rate, examples):
    X, y = examples
    params = {"alpha": alpha, "learning_rate": learning_rate}
    refused(X, y, "eta0", eta0=1.001 / alpha, **params)
    for fit in fits(X, y, eta0=1.0 / alpha, **params):
        assert np.isfinite(fit().coef_).all()


@pytest.mark.parametrize(
    ("name", "same_as"), [("batch_size", {"batch_size": 60}), ("average", {"average": False})]
)
@pytest.mark.parametrize("value", [2**31, 2**63, 2**64, 10**30])
def test_counts_beyond_those_of_the_machine(name, same_as, value, examples):
    X, y = examples
    for fit, other in zip(fits(X, y, **{name: value}), fits(X, y, **same_as), strict=True):
        try:
            coef = fit().coef_
        except (ValueError, TypeError) as error:
            assert name in str(error)
        else:
            assert np.array_equal(coef, other().coef_)


def test_more_threads_than_there_is_room_for(run_forked):
    done = run_forked(
        """
from conftest import papers_linear
import resource
import numpy as np
from pegasos import PegasosClassifier

# A thread asks for 2 MB: were there a million, they would not fit in here.
resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30, 4 * 2**30))
random = np.random.default_rng(0)
X, y = random.normal(size=(50, 3)), np.arange(50) % 3
model = papers_linear(multi_class="ovr", n_jobs=1_000_000, max_iter=2, tol=None)
print(model.fit(X, y).t_)
""",
        OPENBLAS_NUM_THREADS="1",
        OMP_NUM_THREADS="1",
    )
    assert done.stdout == "100\n", done.stderr


@pytest.mark.parametrize(
    "order",
    [
        [],
        [60],
        [-1],
        [0, 1, 2**62],
        [0, 1, -(2**62)],
        [[0, 1], [2, 3]],
        [0.5, 1.5],
        [0.0, np.nan],
        ["a", "b"],
        [True, False] * 30,
        np.array(3),
        np.zeros((60, 1), dtype=int),
    ],
    ids=str,
)
def test_bad_orders(order, examples):
    X, y = examples
    for form in (order, np.array(order)):
        refused(X, y, "sampling", sampling=form)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64, ">i8"])
def test_orders_of_any_whole_numbers(dtype, examples):
    X, y = examples
    order = np.arange(60)[::-1]
    want = model_of(sampling=order).fit(X, y).coef_
    assert np.array_equal(model_of(sampling=order.astype(dtype)).fit(X, y).coef_, want)
    assert np.array_equal(model_of(sampling=tuple(order)).fit(X, y).coef_, want)


# -- sparse matrices that are not what they say


def spoiled(X, index, spoil):
    S = sparse.csr_matrix(X)
    S.indptr, S.indices = S.indptr.astype(index), S.indices.astype(index)
    spoil(S)
    return S


def set_index(S, value):
    S.indices[17] = value


def set_bound(S, row, value):
    S.indptr[row] = value


SPOILERS = {
    "column too large": lambda S: set_index(S, 4),
    "column huge": lambda S: set_index(S, 2**31 - 1),
    "column negative": lambda S: set_index(S, -1),
    "column very negative": lambda S: set_index(S, -(2**31)),
    "bounds fall": lambda S: set_bound(S, 5, S.indptr[4] - 3),
    "bounds negative": lambda S: set_bound(S, 5, -1),
    "bounds leap": lambda S: set_bound(S, 5, 2**31 - 1),
    "last bound too large": lambda S: set_bound(S, -1, S.nnz + 1),
    "last bound huge": lambda S: set_bound(S, -1, 2**31 - 1),
    "first bound not 0": lambda S: set_bound(S, 0, 1),
    "first bound negative": lambda S: set_bound(S, 0, -1),
    "indices too few": lambda S: setattr(S, "indices", S.indices[:-5].copy()),
    "indices too many": lambda S: setattr(S, "indices", np.append(S.indices, S.indices)),
    "data too few": lambda S: setattr(S, "data", S.data[:-5].copy()),
    "bounds too few": lambda S: setattr(S, "indptr", S.indptr[:-5].copy()),
    "bounds too many": lambda S: setattr(S, "indptr", np.append(S.indptr, [S.nnz] * 5)),
    "no bounds": lambda S: setattr(S, "indptr", S.indptr[:0].copy()),
}


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("spoil", SPOILERS.values(), ids=SPOILERS)
def test_spoiled_csr(spoil, index, examples):
    X, y = examples
    for params in ({}, {"tol": 0.1}, {"sampling": "replacement"}, {"batch_size": 7}):
        refused(spoiled(X, index, spoil), y, r"X\b|ind|nnz", **params)
    for params in ({"multi_class": "ovr"}, {"loss": "log_loss", "average": True}):
        refused(spoiled(X, index, spoil), y, r"X\b|ind|nnz", **params)
    model = model_of(warm_start=True).fit(sparse.csr_matrix(X), y)
    for train in (model.partial_fit, model.fit):
        call = partial(train, spoiled(X, index, spoil), y)
        assert unchanged(model, call, r"X\b|ind|nnz")


# Other code than ours walks these matrices first, and does not check them.
ELSEWHERE = """
from conftest import papers_linear
import sys
import numpy as np
from scipy import sparse
from pegasos import PegasosClassifier

random = np.random.default_rng(0)
y = np.arange(60) % 2
refused = 0
for params in ({"loss": "squared_hinge"}, {"early_stopping": True}, {"class_weight": "balanced"}):
    for name, at, value in (
        ("indices", 17, 4), ("indices", 17, -1), ("indices", 17, 2**31 - 1),
        ("indptr", 5, 1), ("indptr", 5, -1), ("indptr", 5, 2**31 - 1),
        ("indptr", -1, 2**31 - 1), ("indptr", 0, -(2**31)),
    ):
        X = sparse.csr_matrix(random.normal(size=(60, 4)))
        getattr(X, name)[at] = value
        try:
            papers_linear(alpha=0.1, tol=0.1, random_state=0, **params).fit(X, y)
        except ValueError as error:
            assert "X" in str(error) or "ind" in str(error), error
            refused += 1
print(refused)
"""


def test_spoiled_csr_that_others_would_read_first(run_forked):
    done = run_forked(ELSEWHERE)
    assert done.stdout == "24\n", (done.returncode, done.stderr)


RACE = """
from conftest import papers_linear
import threading, time, warnings
import numpy as np
from scipy import sparse
from pegasos import PegasosClassifier

warnings.simplefilter("ignore")
random = np.random.default_rng(0)
X = sparse.csr_matrix(random.normal(size=(20_000, 30)))
y = np.arange(20_000) % 3
columns, bounds = X.indices.copy(), X.indptr.copy()
over = threading.Event()

def meddle():
    some = np.random.default_rng(1)
    while not over.is_set():
        X.indices[some.integers(X.nnz, size=50)] = some.integers(-(2**31), 2**31 - 1, size=50)
        X.indptr[some.integers(20_001, size=5)] = some.integers(-(2**31), 2**31 - 1, size=5)
        time.sleep(1e-4)
        X.indices[:], X.indptr[:] = columns, bounds
        time.sleep(1e-3)

thread = threading.Thread(target=meddle)
thread.start()
outcomes = {"fitted": 0, "refused": 0}
end = time.monotonic() + 2.0
while time.monotonic() < end:
    for n_jobs in (1, 2):
        model = papers_linear(multi_class="ovr", n_jobs=n_jobs, max_iter=2, tol=None)
        try:
            assert np.isfinite(model.fit(X, y).coef_).all()
            outcomes["fitted"] += 1
        except ValueError:
            outcomes["refused"] += 1
over.set()
thread.join()
assert sum(outcomes.values()) > 10 and outcomes["refused"] > 0, outcomes
model.fit(X, y).predict(X)
print("done")
"""


def test_csr_that_changes_during_a_fit(run_forked):
    done = run_forked(RACE)
    assert done.stdout == "done\n", (done.returncode, done.stderr)


# -- whatever else there may be


SCALES = [1e-150, 1e-100, 1e-30, 1e-10, 1.0, 1e3, 1e10, 1e30, 1e100, 1e150]


@st.composite
def problems(draw):
    """A few rows of any scale, some of them empty or alike, and a model for them."""
    n, d = draw(st.integers(1, 8)), draw(st.integers(1, 5))
    scale = draw(st.sampled_from(SCALES))
    entry = st.sampled_from([0.0, 0.0, 1.0, -1.0, 0.3, -2.5])
    own = st.sampled_from([0.0, 1.0, 1.0, 1e-3, 1e20, 1e-20])
    rows = [
        np.array(draw(st.lists(entry, min_size=d, max_size=d))) * draw(own) for _ in range(n)
    ]
    rows += [rows[draw(st.integers(0, n - 1))] for _ in range(draw(st.integers(0, 3)))]
    with np.errstate(over="ignore"):
        X = (scale * np.array(rows)).astype(draw(st.sampled_from([np.float32, np.float64])))
    largest = draw(st.sampled_from([1, 1, 2]))
    y = np.array(draw(st.lists(st.integers(0, largest), min_size=len(X), max_size=len(X))))
    weight = draw(
        st.none()
        | st.lists(
            st.sampled_from([0.0, 1.0, 3.0, 1e-150, 1e150]), min_size=len(X), max_size=len(X)
        )
    )
    alpha = draw(st.sampled_from([1e-300, 1e-12, 1e-4, 1.0, 1e12, 1e300]))
    params = {
        "loss": draw(st.sampled_from(LOSSES)),
        "alpha": alpha,
        "multi_class": draw(st.sampled_from(["crammer_singer", "ovr"])),
        "learning_rate": draw(st.sampled_from(["pegasos", "pegasos", "invscaling", "constant"])),
        "eta0": draw(st.sampled_from([1e-3, 1.0, 0.5 / alpha, 1.0 / alpha])),
        "projection": draw(st.booleans()),
        "average": draw(st.sampled_from([False, True, "uniform", 3])),
        "batch_size": draw(st.integers(1, 10)),
        "fit_intercept": draw(st.booleans()),
        "sampling": draw(st.sampled_from(["shuffle", "blocks", "replacement", "storage"])),
        "shards": draw(st.sampled_from([1, 1, 2])),
        "tol": draw(st.sampled_from([None, 0.0, 0.1])),
        "max_iter": draw(st.integers(1, 6)),
        "random_state": 0,
    }
    if draw(st.booleans()):
        for name in ("learning_rate", "projection", "average", "batch_size", "sampling", "shards"):
            del params[name]
        params["solver"] = "dual"
    form = draw(st.sampled_from([np.asarray, sparse.csr_array]))
    return form(X), y, weight, params


@settings(
    max_examples=1000,
    deadline=None,
    derandomize=True,
    # An explanation of a failure takes longer than all the rest.
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
)
@given(problems())
def test_a_fit_is_refused_or_finite(problem):
    X, y, weight, params = problem
    model = papers_linear(**params)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            model.fit(X, y, sample_weight=weight)
        except ValueError:
            return
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.intercept_).all()
    if params["tol"] is not None:
        assert np.isfinite(model.objective_)
        assert not model.duality_gap_ < -1e-5 * model.objective_
    copy = pickle.loads(pickle.dumps(model))
    assert np.array_equal(copy.coef_, model.coef_)
