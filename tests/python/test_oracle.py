"""Fits agree with the pseudo-code, step for step."""

import numpy as np
import oracle
import pytest
from conftest import every_pair, papers_linear
from scipy import sparse

from pegasos import OnlineGradientClassifier

LOSSES = ["hinge", "squared_hinge", "log_loss"]


def close(got, want, rtol):
    return np.linalg.norm(np.subtract(got, want)) <= rtol * np.linalg.norm(want)


def learned(model, k=0):
    """The weights of class k, ending with that of the constant feature."""
    scaling = model.intercept_scaling if model.fit_intercept else 1.0
    return np.append(model.coef_[k], model.intercept_[k] / scaling)


def examples(n=23, d=5, n_classes=2):
    random = np.random.default_rng(3)
    X = random.normal(size=(n, d)) / np.sqrt(d)
    X[random.random(size=X.shape) < 0.3] = 0.0
    y = random.integers(n_classes, size=n)
    y[:n_classes] = np.arange(n_classes)
    weights = random.uniform(0.2, 3.0, size=n)
    weights[::5] = 0.0
    return X, y, weights, random.permutation(n)


def signs_of(y, positive=1):
    return np.where(y == positive, 1.0, -1.0)


def model_of(order, **params):
    default = {"alpha": 0.3, "tol": None, "max_iter": 3, "sampling": order, "eta0": 0.4}
    return papers_linear(**{**default, "solver": "pegasos", **params})


@every_pair(
    loss=LOSSES,
    learning_rate=["pegasos", "invscaling", "constant"],
    batch_size=[1, 4],
    projection=[False, True],
    average=[False, True, "uniform", 7],
    t0=["auto", 5.0],
    intercept=[None, 2.5],
    weighted=[False, True],
)
def test_grid(loss, learning_rate, batch_size, projection, average, t0, intercept, weighted):
    X, y, weights, order = examples()
    weights = weights if weighted else None
    model = model_of(
        order,
        loss=loss,
        learning_rate=learning_rate,
        batch_size=batch_size,
        projection=projection,
        average=average,
        t0=t0,
        fit_intercept=intercept is not None,
        intercept_scaling=intercept or 1.0,
    )
    want = oracle.train_like(model, X, signs_of(y), [order] * 3, weights)
    for data in (X, sparse.csr_matrix(X)):
        model.fit(data, y, sample_weight=weights)
        assert close(learned(model), want.w, 1e-9)
        assert model.t_ == want.t
        assert model.n_iter_ == 3
        assert model.loss_curve_ == pytest.approx(want.losses, rel=1e-9)


@every_pair(
    loss=LOSSES,
    learning_rate=["pegasos", "invscaling", "constant"],
    batch_size=[1, 4],
    average=[False, True, "uniform"],
)
def test_single_precision(loss, learning_rate, batch_size, average):
    X, y, weights, order = examples()
    X = X.astype(np.float32)
    model = model_of(
        order, loss=loss, learning_rate=learning_rate, batch_size=batch_size, average=average
    )
    want = oracle.train_like(model, X, signs_of(y), [order] * 3, weights)
    for data in (X, sparse.csr_array(X)):
        model.fit(data, y, sample_weight=weights)
        assert model.coef_.dtype == np.float32
        assert close(learned(model), want.w, 1e-4)


@pytest.mark.parametrize("power_t", [0.0, 0.3, 0.5, 1.0, 2.0])
def test_powers_of_the_step_number(power_t):
    X, y, _, order = examples()
    model = model_of(order, learning_rate="invscaling", power_t=power_t, projection=True)
    want = oracle.train_like(model, X, signs_of(y), [order] * 3)
    assert close(learned(model.fit(X, y)), want.w, 1e-9)


@pytest.mark.parametrize("average", [False, True, "uniform", 30])
@pytest.mark.parametrize("shrink", [0.0, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("loss", ["hinge", "log_loss"])
def test_weights_that_fade_fast(loss, shrink, average):
    # 69 steps of such factors leave the range that a scale of its own may have.
    X, y, _, order = examples()
    alpha = 0.25
    model = model_of(
        order,
        loss=loss,
        alpha=alpha,
        learning_rate="constant",
        eta0=(1.0 - shrink) / alpha,
        average=average,
    )
    want = oracle.train_like(model, X, signs_of(y), [order] * 3)
    for data in (X, sparse.csr_array(X)):
        assert close(learned(model.fit(data, y)), want.w, 1e-9)


@pytest.mark.parametrize("average", [False, "uniform"])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_batch_larger_than_the_data(loss, average):
    X, y, weights, order = examples()
    model = model_of(order, loss=loss, batch_size=100, max_iter=20, average=average)
    want = oracle.train_like(model, X, signs_of(y), [order] * 20, weights)
    assert close(learned(model.fit(X, y, sample_weight=weights)), want.w, 1e-9)
    assert model.t_ == 20


def test_an_average_that_has_not_begun_is_the_last_iterate():
    X, y, _, order = examples()
    last = model_of(order).fit(X, y)
    averaged = model_of(order, average=3 * len(y) + 1).fit(X, y)
    assert np.array_equal(averaged.coef_, last.coef_)
    begun = model_of(order, average=3 * len(y)).fit(X, y)
    assert close(learned(begun), learned(last), 1e-12)


def test_one_and_true_are_different_averages():
    X, y, _, order = examples()
    uniform = model_of(order, average="uniform").fit(X, y)
    assert np.array_equal(model_of(order, average=1).fit(X, y).coef_, uniform.coef_)
    assert not np.array_equal(model_of(order, average=True).fit(X, y).coef_, uniform.coef_)


@pytest.mark.parametrize("loss", LOSSES)
def test_one_row(loss):
    X, y, _, _ = examples()
    row = np.array([1])
    model = model_of("storage", loss=loss)
    for _ in range(5):
        model.partial_fit(X[row], y[row], classes=[0, 1])
    want = oracle.train_like(model, X, signs_of(y), [row] * 5, first=row)
    assert close(learned(model), want.w, 1e-9)


@pytest.mark.parametrize("loss", LOSSES)
def test_one_feature(loss):
    X, y, weights, order = examples(d=1)
    for data in (X, sparse.csr_array(X)):
        model = model_of(order, loss=loss).fit(data, y, sample_weight=weights)
        want = oracle.train_like(model, X, signs_of(y), [order] * 3, weights)
        assert close(learned(model), want.w, 1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 130])
def test_rows_of_every_length(d, dtype):
    # Loops over rows are unrolled and masked differently at each of these lengths.
    X, y, weights, order = examples(d=d)
    X = X.astype(dtype)
    for data in (X, sparse.csr_array(X)):
        model = model_of(order, loss="log_loss").fit(data, y, sample_weight=weights)
        want = oracle.train_like(model, X, signs_of(y), [order] * 3, weights)
        assert close(learned(model), want.w, 1e-9 if dtype == np.float64 else 1e-4)


@every_pair(loss=LOSSES, projection=[False, True], batch_size=[1, 4], average=[False, True, 9])
def test_partial_fit_goes_on(loss, projection, batch_size, average):
    X, y, weights, _ = examples()
    model = model_of(
        "storage", loss=loss, projection=projection, batch_size=batch_size, average=average
    )
    pieces = np.split(np.arange(len(y)), [7, 8, 18])
    for rows in pieces:
        model.partial_fit(X[rows], y[rows], classes=[0, 1], sample_weight=weights[rows])
        assert model.n_iter_ == 1
    want = oracle.train_like(model, X, signs_of(y), pieces, weights, pieces[0])
    assert close(learned(model), want.w, 1e-9)
    assert model.t_ == want.t


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_partial_fit_goes_on_from_a_fit(loss, average):
    # The second piece has fewer rows than the first: nothing may hang on their number.
    X, y, _, order = examples()
    model = model_of("storage", loss=loss, average=average, tol=0.5, max_iter=1).fit(X, y)
    first = np.arange(len(y))
    model.partial_fit(X[:9], y[:9])
    want = oracle.train_like(model, X, signs_of(y), [first, first[:9]])
    assert close(learned(model), want.w, 1e-9)


@pytest.mark.parametrize(
    "change",
    [
        {"alpha": 2.0},
        {"alpha": 0.01, "t0": 30.0},
        {"loss": "log_loss"},
        {"loss": "squared_hinge", "t0": 3.0},
        {"learning_rate": "constant"},
        {"learning_rate": "invscaling", "power_t": 0.7},
        {"projection": True},
        {"batch_size": 4},
        {"average": True},
        {"average": "uniform", "alpha": 1.0},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "before", [{}, {"projection": True}, {"learning_rate": "constant"}], ids=str
)
def test_parameters_changed_between_calls(before, change):
    X, y, weights, _ = examples()
    model, pieces = model_of("storage", **before), np.split(np.arange(len(y)), [9])
    run = None
    for rows, params in zip(pieces, [{}, change], strict=True):
        model.set_params(**params)
        model.partial_fit(X[rows], y[rows], classes=[0, 1], sample_weight=weights[rows])
        run = oracle.train_like(model, X, signs_of(y), [rows], weights, rows, run)
    assert close(learned(model), run.w, 1e-9)
    assert model.t_ == run.t


@pytest.mark.parametrize("sampling", ["shuffle", "blocks", "replacement", "storage"])
def test_epochs_are_the_same_however_they_are_asked_for(sampling):
    X, y, weights, _ = examples(n=100)
    whole = model_of(sampling, random_state=3, max_iter=6).fit(X, y, sample_weight=weights)
    halves = model_of(sampling, random_state=3, warm_start=True)
    halves.fit(X, y, sample_weight=weights).fit(X, y, sample_weight=weights)
    pieces = model_of(sampling, random_state=3)
    for _ in range(6):
        pieces.partial_fit(X, y, classes=[0, 1], sample_weight=weights)
    for other in (halves, pieces):
        assert other.t_ == whole.t_
        assert np.array_equal(other.coef_, whole.coef_)
        assert np.array_equal(other.intercept_, whole.intercept_)


def test_orders_may_skip_and_repeat_rows():
    X, y, _, _ = examples()
    order = np.array([4, 4, 0, 19, 4, 1, 1])
    model = model_of(order, batch_size=3).fit(X, y)
    want = oracle.train_like(model, X, signs_of(y), [order] * 3)
    assert close(learned(model), want.w, 1e-9)
    assert model.t_ == want.t == 9
    assert np.array_equal(model_of(order.tolist(), batch_size=3).fit(X, y).coef_, model.coef_)


@pytest.mark.parametrize("projection", [False, True], ids=["free", "ball"])
@pytest.mark.parametrize("average", [False, True, 5])
@pytest.mark.parametrize("loss", LOSSES)
def test_one_vs_rest_is_a_binary_problem_for_each_class(loss, average, projection):
    X, y, weights, order = examples(n=40, n_classes=4)
    model = model_of(
        order, loss=loss, multi_class="ovr", average=average, batch_size=3, projection=projection
    )
    model.fit(X, y, sample_weight=weights)
    assert model.coef_.shape == (4, X.shape[1])
    for k in range(4):
        want = oracle.train_like(model, X, signs_of(y, k), [order] * 3, weights)
        assert close(learned(model, k), want.w, 1e-9)
        assert model.t_ == want.t


@pytest.mark.parametrize("multi_class", ["crammer_singer", "ovr"])
def test_two_classes_are_one_problem(multi_class):
    X, y, _, order = examples()
    model = model_of(order, multi_class=multi_class).fit(X, y)
    want = oracle.train_like(model, X, signs_of(y), [order] * 3)
    assert close(learned(model), want.w, 1e-9)


@pytest.mark.parametrize("class_weight", [{0: 0.5, 1: 2.0, 2: 3.0}, "balanced"])
@pytest.mark.parametrize("loss", LOSSES)
def test_class_weights_are_sample_weights(loss, class_weight):
    X, y, weights, order = examples(n_classes=3)
    of_class = class_weight
    if class_weight == "balanced":
        of_class = {k: len(y) / (3 * np.sum(y == k)) for k in range(3)}
    of_row = np.array([of_class[k] for k in y])
    params = {"loss": loss, "multi_class": "ovr", "projection": True}
    by_class = model_of(order, class_weight=class_weight, **params)
    by_row = model_of(order, **params)
    for given in (None, weights):
        by_class.fit(X, y, sample_weight=given)
        by_row.fit(X, y, sample_weight=of_row if given is None else of_row * given)
        assert close(by_class.coef_, by_row.coef_, 1e-12)


def test_class_weights_in_pieces():
    X, y, _, _ = examples()
    by_class = model_of("storage", class_weight={0: 0.5, 1: 2.0})
    by_row = model_of("storage")
    for rows in np.split(np.arange(len(y)), [1, 9]):
        by_class.partial_fit(X[rows], y[rows], classes=[0, 1])
        by_row.partial_fit(
            X[rows], y[rows], classes=[0, 1], sample_weight=np.where(y[rows] == 1, 2.0, 0.5)
        )
    assert np.array_equal(by_class.coef_, by_row.coef_)


def as_it_is(csr):
    return csr


def reversed_rows(csr):
    """The same matrix, the columns of each row in reverse order."""
    rows = [np.arange(a, b)[::-1] for a, b in zip(csr.indptr, csr.indptr[1:], strict=False)]
    back = np.concatenate(rows)
    return type(csr)((csr.data[back], csr.indices[back], csr.indptr), shape=csr.shape)


def split(csr):
    """The same matrix, every entry stored in three parts, not all of one sign."""
    data = np.repeat(csr.data, 3) * np.tile([2.0, -1.5, 0.5], csr.nnz)
    return type(csr)((data, np.repeat(csr.indices, 3), 3 * csr.indptr), shape=csr.shape)


@every_pair(
    kind=[sparse.csr_matrix, sparse.csr_array],
    index=[np.int32, np.int64],
    form=[as_it_is, reversed_rows, split],
    loss=LOSSES,
    learning_rate=["pegasos", "constant"],
)
def test_sparse_is_dense(kind, index, form, loss, learning_rate):
    X, y, weights, order = examples()
    S = form(kind(X))
    # SciPy narrows what it is given.
    S.indptr, S.indices = S.indptr.astype(index), S.indices.astype(index)
    ball = learning_rate == "constant"
    model = model_of(
        order, loss=loss, learning_rate=learning_rate, projection=ball, average=True
    )
    dense = learned(model.fit(X, y, sample_weight=weights))
    assert close(learned(model.fit(S, y, sample_weight=weights)), dense, 1e-12)
    assert S.indices.dtype == index


def learned_all(model):
    """A row for each class, ending with the weight of the constant feature."""
    return np.array([learned(model, k) for k in range(len(model.coef_))])


def constant_of(model):
    return model.intercept_scaling if model.fit_intercept else 0.0


def jointly(model, X, y, epochs, weights=None):
    """The oracle of Crammer and Singer's loss with the estimator's parameters."""
    p = model.get_params()
    weights = np.ones(len(y)) if weights is None else weights
    ball = oracle.radius("hinge", p["alpha"], weights.mean()) if p["projection"] else np.inf
    return oracle.crammer_singer(
        X, y, epochs, classes=y.max() + 1, alpha=p["alpha"], schedule=p["learning_rate"],
        eta0=p["eta0"], power_t=p["power_t"], t0=0.0 if p["t0"] == "auto" else p["t0"],
        batch_size=p["batch_size"], radius=ball, average=p["average"], weights=weights,
        constant=constant_of(model),
    )


def forms(X):
    """The same rows, dense and sparse, with indices of both widths."""
    yield X
    for index in (np.int32, np.int64):
        S = sparse.csr_array(X)
        S.indptr, S.indices = S.indptr.astype(index), S.indices.astype(index)
        yield S


@every_pair(
    learning_rate=["pegasos", "invscaling", "constant"],
    batch_size=[1, 4],
    projection=[False, True],
    average=[False, True, "uniform", 7],
    t0=["auto", 5.0],
    intercept=[None, 2.5],
    weighted=[False, True],
)
def test_crammer_singer(learning_rate, batch_size, projection, average, t0, intercept, weighted):
    X, y, weights, order = examples(n_classes=4)
    weights = weights if weighted else None
    model = model_of(
        order,
        learning_rate=learning_rate,
        batch_size=batch_size,
        projection=projection,
        average=average,
        t0=t0,
        fit_intercept=intercept is not None,
        intercept_scaling=intercept or 1.0,
    )
    want = jointly(model, X, y, [order] * 3, weights)
    for data in forms(X):
        model.fit(data, y, sample_weight=weights)
        assert close(learned_all(model), want.w, 1e-9)
        assert model.t_ == want.t
        assert model.loss_curve_ == pytest.approx(want.losses, rel=1e-9)


@every_pair(
    dtype=[np.float32, np.float64],
    d=[1, 2, 7, 8, 9, 16, 17, 33, 65],
    n_classes=[3, 4, 5, 8, 9, 17],
)
def test_crammer_singer_for_any_number_of_classes(dtype, d, n_classes):
    X, y, weights, order = examples(n=60, d=d, n_classes=n_classes)
    X = X.astype(dtype)
    model = model_of(order)
    want = jointly(model, X, y, [order] * 3, weights)
    for data in forms(X):
        model.fit(data, y, sample_weight=weights)
        assert model.coef_.dtype == dtype
        assert close(learned_all(model), want.w, 1e-9 if dtype == np.float64 else 1e-4)


@pytest.mark.parametrize("form", [reversed_rows, split])
@pytest.mark.parametrize("n_classes", [3, 4, 9])
def test_crammer_singer_on_rows_in_any_order(n_classes, form):
    X, y, weights, order = examples(n_classes=n_classes)
    model = model_of(order, average=True)
    want = jointly(model, X, y, [order] * 3, weights)
    for index in (np.int32, np.int64):
        S = form(sparse.csr_array(X))
        S.indptr, S.indices = S.indptr.astype(index), S.indices.astype(index)
        assert close(learned_all(model.fit(S, y, sample_weight=weights)), want.w, 1e-9)


@pytest.mark.parametrize("pieces", [[7, 8, 18], [1, 2, 3, 4]], ids=["pieces", "single rows"])
def test_crammer_singer_goes_on(pieces):
    X, y, weights, _ = examples(n_classes=4)
    weights = 0.5 + weights
    model = model_of("storage", average=True)
    pieces = np.split(np.arange(len(y)), pieces)
    for k, rows in enumerate(pieces):
        data = sparse.csr_array(X[rows]) if k % 2 else X[rows]
        model.partial_fit(data, y[rows], classes=range(4), sample_weight=weights[rows])
    want = jointly(model, X, y, pieces, weights)
    assert close(learned_all(model), want.w, 1e-9)


def online_like(model, X, y, order, weights=None):
    """The oracle of online gradient descent with the estimator's parameters."""
    p = model.get_params()
    labels, outputs = (y, y.max() + 1) if y.max() > 1 else (signs_of(y), 1)
    return oracle.online(
        X, labels, order, loss=p["loss"], outputs=outputs, delay=p["delay"], alpha=p["alpha"],
        radius=p["radius"] or np.inf, schedule=p["learning_rate"], eta0=p["eta0"],
        power_t=p["power_t"], weights=np.ones(len(y)) if weights is None else weights,
        constant=constant_of(model),
    )


@every_pair(
    task=[*LOSSES, "classes"],
    steps=[("invscaling", 0.5), ("invscaling", 1.0), ("constant", 0.0)],
    delay=[0, 4, 100],
    radius=[0.5, None],
    alpha=[0.0, 0.2],
    intercept=[None, 2.5],
    weighted=[False, True],
)
def test_online_gradient_descent(task, steps, delay, radius, alpha, intercept, weighted):
    X, y, weights, order = examples(n_classes=4 if task == "classes" else 2)
    weights = weights if weighted else None
    model = OnlineGradientClassifier(
        "hinge" if task == "classes" else task,
        learning_rate=steps[0],
        power_t=steps[1],
        eta0=0.4,
        delay=delay,
        radius=radius,
        alpha=alpha,
        sampling=order,
        max_iter=3,
        fit_intercept=intercept is not None,
        intercept_scaling=intercept or 1.0,
    )
    want, paid, bound = online_like(model, X, y, np.tile(order, 3), weights)
    for data in forms(X):
        model.fit(data, y, sample_weight=weights)
        assert close(learned_all(model), want, 1e-9)
        assert model.cumulative_loss_ == pytest.approx(paid, rel=1e-9)
        assert model.regret_bound_ == pytest.approx(bound, rel=1e-9)
        assert model.t_ == 3 * len(y)


@pytest.mark.parametrize("delay", [0, 3])
@pytest.mark.parametrize("task", [*LOSSES, "classes"])
def test_online_gradient_descent_with_the_steps_of_pegasos(task, delay):
    X, y, weights, _ = examples(n_classes=4 if task == "classes" else 2)
    params = {"alpha": 0.3, "learning_rate": "pegasos", "delay": delay}
    loss = "hinge" if task == "classes" else task
    for radius in (0.5, None):
        model = OnlineGradientClassifier(loss, radius=radius, **params)
        want, paid, bound = online_like(model, X, y, range(len(y)), weights)
        model.fit(X, y, sample_weight=weights)
        assert close(learned_all(model), want, 1e-9)
        assert model.cumulative_loss_ == pytest.approx(paid, rel=1e-9)
        if radius is not None:
            assert model.regret_bound_ == pytest.approx(bound, rel=1e-9)


@pytest.mark.parametrize("delay", [0, 3])
@pytest.mark.parametrize("task", ["log_loss", "classes"])
def test_online_gradient_descent_in_single_precision(task, delay):
    X, y, weights, order = examples(n_classes=4 if task == "classes" else 2)
    X = X.astype(np.float32)
    model = OnlineGradientClassifier(
        "hinge" if task == "classes" else task, delay=delay, sampling=order, max_iter=3
    )
    want, paid, bound = online_like(model, X, y, np.tile(order, 3), weights)
    for data in forms(X):
        model.fit(data, y, sample_weight=weights)
        assert model.coef_.dtype == np.float32
        assert close(learned_all(model), want, 1e-4)
        assert model.cumulative_loss_ == pytest.approx(paid, rel=1e-4)
        assert model.regret_bound_ == pytest.approx(bound, rel=1e-4)


@every_pair(
    loss=LOSSES,
    shards=[2, 3, 5],
    batch_size=[1, 4],
    average=[False, True, "uniform"],
    weighted=[False, True],
    dtype=[np.float32, np.float64],
)
def test_shards(loss, shards, batch_size, average, weighted, dtype):
    X, y, weights, order = examples(n=43)
    X, given = X.astype(dtype), weights if weighted else None
    weights = weights if weighted else np.ones(len(y))
    # Of an offset each shard has its part, with which its steps must be as short as those of one learner.
    t0 = shards * oracle.auto_t0(loss, "pegasos", X, weights, 0.3, 1.0)
    model = model_of(
        order, loss=loss, shards=shards, batch_size=batch_size, average=average, max_iter=4
    )
    want = oracle.sharded(
        X, signs_of(y), [order] * 4, shards=shards, loss=loss, alpha=0.3, t0=t0,
        batch_size=batch_size, average=average, weights=weights, constant=1.0,
    )
    for data in forms(X):
        model.fit(data, y, sample_weight=given)
        assert close(learned(model), want, 1e-9 if dtype == np.float64 else 1e-4)
        assert model.t_ == 4 * -(-43 // batch_size)
