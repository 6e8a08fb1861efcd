"""Dual ascent closes the certified gap, and hands out the weights that the certificate is about."""

import copy
import pickle
import warnings
from functools import cache

import numpy as np
import oracle
import pytest
from conftest import INTERRUPT, every_pair, papers_linear
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.preprocessing import StandardScaler

from pegasos import PegasosClassifier, load, save

LOSSES = ["hinge", "squared_hinge", "log_loss"]
ALPHA = 0.02


def examples(task, dtype=np.float64, n=150, d=6):
    random = np.random.default_rng(11)
    X = random.normal(size=(n, d)).astype(dtype)
    X[random.random(size=X.shape) < 0.3] = 0.0
    y = (X @ random.normal(size=(d, 3)) + random.normal(size=(n, 3))).argmax(axis=1)
    weights = random.uniform(0.2, 3.0, size=n)
    weights[::9] = 0.0
    return X, y if task in ("jointly", "ovr") else (y > 0).astype(int), weights


def model_of(task="hinge", **params):
    default = {"alpha": ALPHA, "solver": "dual", "max_iter": 2000, "random_state": 0}
    if task in LOSSES:
        default["loss"] = task
    else:
        default["multi_class"] = "ovr" if task == "ovr" else "crammer_singer"
    return papers_linear(**{**default, **params})


def briefly(model, X, y, weights=None):
    """A fit that may end short of its tolerance."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y, sample_weight=weights)


@cache
def optimum(task, weighted, constant, dtype, alpha=ALPHA):
    """The objective at the weights that LIBLINEAR finds."""
    X, y, weights = examples(task, dtype)
    weights = weights if weighted else None
    w = oracle.liblinear(task, X, y, weights, alpha, constant)
    return oracle.objective_of(task, w, X, y, weights, alpha, constant)


def check(task, model, X, y, weights=None):
    """The certificate is about the weights that are there."""
    tiny = 1e-12
    if X.dtype == np.float32:
        # Weights are rounded again when the trainer takes them back; a loss with a kink feels it.
        tiny = 1e-8 if task in ("squared_hinge", "log_loss") else 1e-7
    objective = oracle.objective_of_model(task, model, X, y, weights)
    assert model.objective_ == pytest.approx(objective, rel=tiny)
    assert model.duality_gap_ == model.objective_ - model.dual_objective_
    assert model.duality_gap_ >= -1e-14 * model.objective_


@every_pair(
    task=oracle.TASKS,
    solver=["dual", "auto"],
    weighted=[False, True],
    constant=[0.0, 1.0, 3.0],
    dtype=[np.float32, np.float64],
)
def test_the_gap_closes(task, solver, weighted, constant, dtype):
    X, y, weights = examples(task, dtype)
    weights = weights if weighted else None
    intercept = {"fit_intercept": constant > 0.0, "intercept_scaling": constant or 1.0}
    least = optimum(task, weighted, constant, dtype)
    for data in (X, sparse.csr_array(X)):
        model = model_of(task, solver=solver, tol=1e-6, **intercept).fit(data, y, weights)
        assert model.duality_gap_ <= 1e-6 * model.objective_
        check(task, model, data, y, weights)
        assert model.dual_objective_ <= least * (1.0 + 1e-12)
        assert model.objective_ == pytest.approx(least, rel=1e-5)
        assert model.dual_objective_ == pytest.approx(least, rel=1e-5)
        # Epochs, their losses and their steps are counted as those of Pegasos.
        assert model.t_ == model.n_iter_ * len(y)
        assert len(model.loss_curve_) == model.n_iter_


@pytest.mark.parametrize("alpha", [1e-4, 1e-3, 0.1, 10.0, 1e4])
@pytest.mark.parametrize("task", oracle.TASKS)
def test_alphas_of_any_size(task, alpha):
    X, y, _ = examples(task)
    model = model_of(task, solver="auto", alpha=alpha, tol=1e-3, max_iter=5000).fit(X, y)
    assert model.duality_gap_ <= 1e-3 * model.objective_
    check(task, model, X, y)
    least = optimum(task, False, 1.0, np.float64, alpha)
    assert model.dual_objective_ <= least * (1.0 + 1e-12)
    assert model.objective_ <= 1.0011 * least


@pytest.mark.parametrize("class_weight", ["balanced", {0: 0.5, 1: 2.0, 2: 3.0}])
@pytest.mark.parametrize("task", oracle.TASKS)
def test_class_weights(task, class_weight):
    X, y, weights = examples(task)
    of_class = class_weight
    classes = np.unique(y)
    if class_weight == "balanced":
        of_class = {k: len(y) / (len(classes) * np.sum(y == k)) for k in classes}
    else:
        class_weight = {k: class_weight[k] for k in classes}
    of_row = weights * np.array([of_class[k] for k in y])
    model = model_of(task, class_weight=class_weight, tol=1e-6).fit(X, y, weights)
    check(task, model, X, y, of_row)
    by_row = model_of(task, tol=1e-6).fit(X, y, of_row)
    assert model.coef_.tobytes() == by_row.coef_.tobytes()


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("task", oracle.TASKS)
def test_auto_and_dual_find_what_pegasos_finds(task, form):
    X, y, weights = examples(task)
    patient = {"solver": "pegasos", "max_iter": 20_000, "tol": 2e-3}
    want = model_of(task, **patient).fit(form(X), y, weights)
    for solver in ("auto", "dual"):
        model = model_of(task, solver=solver, tol=1e-6).fit(form(X), y, weights)
        assert model.dual_objective_ <= want.objective_
        assert want.dual_objective_ <= model.objective_
        # P is alpha-strongly convex.
        squared = np.sum((oracle.weights_of(model) - oracle.weights_of(want)) ** 2)
        assert ALPHA / 8.0 * squared <= model.duality_gap_ + want.duality_gap_


@pytest.mark.parametrize("loss", [*LOSSES, "jointly"])
def test_alpha_decides_whether_auto_begins_with_pegasos(loss):
    X, y, _ = examples(loss)
    for alpha, first in ((0.9 / len(y), "dual"), (1.1 / len(y), "pegasos")):
        params = {"alpha": alpha, "tol": None, "max_iter": 1}
        coef = {
            solver: model_of(loss, solver=solver, **params).fit(X, y).coef_
            for solver in ("auto", "dual", "pegasos")
        }
        assert np.array_equal(coef["auto"], coef[first])
        assert not np.array_equal(coef["dual"], coef["pegasos"])


# -- rows of every kind


def in_parts(csr, parts):
    """The same matrix, every entry stored in several parts."""
    data = np.repeat(csr.data / parts, parts)
    indices, bounds = np.repeat(csr.indices, parts), parts * csr.indptr
    return type(csr)((data, indices, bounds), shape=csr.shape)


@pytest.mark.parametrize("solver", ["dual", "auto"])
@pytest.mark.parametrize("task", oracle.TASKS)
def test_columns_that_occur_twice_count_as_their_sum(task, solver):
    X, y, _ = examples(task)
    S = in_parts(sparse.csr_array(X), 8)
    model = briefly(model_of(task, solver=solver, tol=1e-6), S, y)
    assert model.duality_gap_ <= 1e-6 * model.objective_
    check(task, model, X, y)
    assert S.nnz == 8 * np.count_nonzero(X)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("task", oracle.TASKS)
def test_rows_of_zeros(task, fit_intercept):
    X, y, _ = examples(task)
    X[::3] = 0.0
    least = None
    for form in (np.asarray, sparse.csr_array):
        model = model_of(task, fit_intercept=fit_intercept, tol=1e-6).fit(form(X), y)
        check(task, model, form(X), y)
        least = model.objective_ if least is None else least
        assert model.objective_ == pytest.approx(least, rel=2e-6)
    nothing = model_of(task, fit_intercept=False).fit(np.zeros_like(X), y)
    assert not nothing.coef_.any()
    assert nothing.duality_gap_ <= 1e-3 * nothing.objective_


@pytest.mark.parametrize("task", oracle.TASKS)
def test_one_row_of_each_class(task):
    X, y, _ = examples(task)
    first = np.unique(y, return_index=True)[1]
    model = model_of(task, tol=1e-6).fit(X[first], y[first])
    check(task, model, X[first], y[first])
    assert model.predict(X[first]).tolist() == y[first].tolist()


@pytest.mark.parametrize("task", oracle.TASKS)
def test_rows_without_weight_are_not_there(task):
    X, y, weights = examples(task)
    counted = weights > 0.0
    with_them = model_of(task, tol=1e-6).fit(X, y, weights)
    # The mean runs over fewer rows.
    some = weights[counted] * counted.mean()
    without = model_of(task, tol=1e-6).fit(X[counted], y[counted], some)
    assert with_them.objective_ == pytest.approx(without.objective_, rel=2e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("task", oracle.TASKS)
def test_weights_of_any_size_are_finite_and_can_be_copied(task, form, dtype):
    # Whatever the units: the numbers kept beside the weights must not overflow either.
    X, y, _ = examples(task, dtype)
    for scale, weight in ((1.0, 1e-100), (1.0, 1e100), (1.0, 1e150), (1e15, 1.0), (1e-10, 1e30)):
        for alpha in (1e-12, 1.0, 1e100, 1e300):
            model = model_of(task, alpha=alpha, tol=None, max_iter=2)
            try:
                model.fit(form((scale * X).astype(dtype)), y, np.full(len(y), weight))
            except ValueError as error:
                assert "X must be finite" in str(error)
                continue
            assert np.isfinite(model.coef_).all()
            twin = pickle.loads(pickle.dumps(model))
            assert twin.coef_.tobytes() == model.coef_.tobytes()


# -- what is repeated, and what is not


@pytest.mark.parametrize("sampling", ["shuffle", "blocks"])
@pytest.mark.parametrize("task", oracle.TASKS)
def test_random_state(task, sampling):
    X, y, _ = examples(task)

    def fit(random_state):
        params = {"sampling": sampling, "tol": None, "max_iter": 2}
        return model_of(task, random_state=random_state, **params).fit(X, y).coef_

    assert fit(7).tobytes() == fit(7).tobytes() == fit(np.random.RandomState(7)).tobytes()
    assert not np.array_equal(fit(7), fit(8))
    assert not np.array_equal(fit(None), fit(None))


@pytest.mark.parametrize("sampling", ["shuffle", "blocks", "storage"])
@pytest.mark.parametrize("task", oracle.TASKS)
def test_orders_that_meet_every_row(task, sampling):
    X, y, _ = examples(task)
    model = model_of(task, sampling=sampling, tol=1e-5, max_iter=20_000).fit(X, y)
    assert model.duality_gap_ <= 1e-5 * model.objective_
    assert model.objective_ == pytest.approx(optimum(task, False, 1.0, np.float64), rel=2e-5)


@pytest.mark.parametrize("max_iter", [1, 2, 3])
@pytest.mark.parametrize("task", oracle.TASKS)
def test_a_fit_short_of_tol_says_so_and_is_certified(task, max_iter):
    X, y, weights = examples(task)
    with pytest.warns(ConvergenceWarning, match=rf"max_iter={max_iter} .* tol=1e-09.*gap"):
        model = model_of(task, tol=1e-9, max_iter=max_iter).fit(X, y, weights)
    check(task, model, X, y, weights)
    assert model.n_iter_ == max_iter
    assert 1e-9 < model.duality_gap_ / model.objective_ < 1.0
    assert model.dual_objective_ <= optimum(task, True, 1.0, np.float64)


@pytest.mark.parametrize("task", oracle.TASKS)
def test_without_tol_every_epoch_is_run_and_none_evaluated(task):
    X, y, _ = examples(task)
    model = model_of(task, tol=None, max_iter=17).fit(X, y)
    assert model.n_iter_ == len(model.loss_curve_) == 17
    assert model.t_ == 17 * len(y)
    assert np.isnan([model.objective_, model.dual_objective_, model.duality_gap_]).all()
    objective = oracle.objective_of_model(task, model, X, y)
    assert objective <= 1.01 * optimum(task, False, 1.0, np.float64)


@pytest.mark.parametrize("task", oracle.TASKS)
def test_losses_are_the_mean_loss(task):
    X, y, weights = examples(task)
    model = model_of(task, tol=1e-8, max_iter=20_000).fit(X, y, weights)
    loss = model.objective_ - ALPHA / 2.0 * np.sum(oracle.weights_of(model) ** 2)
    # The objective is the problems' sum, the loss their mean, as that of Pegasos.
    problems = 3 if task == "ovr" else 1
    assert model.loss_curve_[-1] == pytest.approx(loss / problems, rel=1e-3)


@pytest.mark.parametrize("task", oracle.TASKS)
def test_the_dual_only_rises(task):
    X, y, _ = examples(task)
    fits = [briefly(model_of(task, tol=0.0, max_iter=k), X, y) for k in (1, 2, 4, 8, 16)]
    duals = [model.dual_objective_ for model in fits]
    assert all(after >= before for before, after in zip(duals, duals[1:], strict=False))
    assert all(model.objective_ >= max(duals) for model in fits)


# -- what goes on from there


@pytest.mark.parametrize("solver", ["dual", "auto"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("task", ["hinge", "log_loss", "jointly", "ovr"])
def test_partial_fit_goes_on(task, dtype, solver):
    X, y, _ = examples(task, dtype)
    model = model_of(task, solver=solver, tol=1e-4).fit(X, y)
    before, t = oracle.weights_of(model), model.t_
    for k in range(5):
        model.partial_fit(X[k : k + 1], y[k : k + 1])
        after = oracle.weights_of(model)
        assert model.t_ == t + k + 1
        # A step shrinks w by 1/t and adds at most a row over alpha t, to three classes at most.
        row = np.sqrt(np.sum(X[k].astype(np.float64) ** 2) + 1.0)
        most = (np.linalg.norm(before) + np.sqrt(3.0) * row / ALPHA) / model.t_
        assert 0.0 < np.linalg.norm(after - before) <= most * (1.0 + 1e-5)
        before = after
    accuracy = model.score(X, y)
    for _ in range(3):
        model.partial_fit(X, y)
    assert model.score(X, y) > accuracy - 0.1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("task", LOSSES)
def test_partial_fit_takes_the_steps_of_pegasos(task, dtype):
    X, y, _ = examples(task, dtype)
    model = model_of(task, tol=1e-4).fit(X, y)
    start = oracle.Run(oracle.weights_of(model)[0], oracle.weights_of(model)[0], None, model.t_, [])
    rows = np.arange(40)
    want = oracle.train_like(model, X, np.where(y == 1, 1.0, -1.0), [rows], start=start)
    model.set_params(sampling="storage").partial_fit(X[rows], y[rows])
    tiny = 1e-9 if dtype == np.float64 else 1e-4
    assert np.linalg.norm(oracle.weights_of(model)[0] - want.w) <= tiny * np.linalg.norm(want.w)


def test_warm_starts_go_on_by_pegasos():
    X, y, _ = examples("hinge")
    model = model_of(solver="auto", warm_start=True, tol=1e-4).fit(X, y)
    t = model.t_
    briefly(model.set_params(max_iter=3, tol=0.0), X, y)
    assert model.t_ == t + 3 * len(y)
    assert np.isnan(model.duality_gap_)
    assert model.objective_ <= 1.1 * optimum("hinge", False, 1.0, np.float64)


def test_a_fit_is_cold_whatever_came_before():
    X, y, _ = examples("hinge")
    want = model_of(tol=1e-6).fit(X, y)
    model = model_of(tol=1e-6, solver="pegasos").partial_fit(X, y, classes=[0, 1])
    model.set_params(solver="dual").fit(X[:50], y[:50]).fit(X, y)
    assert model.coef_.tobytes() == want.coef_.tobytes()
    assert (model.t_, model.objective_) == (want.t_, want.objective_)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("task", oracle.TASKS)
def test_copies(task, dtype, tmp_path):
    X, y, _ = examples(task, dtype)
    model = model_of(task, tol=1e-3, sampling="storage").fit(X, y)

    def saved(model):
        save(model, tmp_path / "model")
        return load(tmp_path / "model")

    twins = [pickle.loads(pickle.dumps(model)), copy.deepcopy(model), saved(model)]
    for again in (0, 1):
        for twin in twins:
            assert twin.coef_.tobytes() == model.coef_.tobytes()
            assert twin.intercept_.tobytes() == model.intercept_.tobytes()
            for name in ("t_", "n_iter_", "loss_curve_"):
                assert getattr(twin, name) == getattr(model, name)
            if again == 0:
                assert twin.objective_ == model.objective_
                assert twin.duality_gap_ == model.duality_gap_
                twin.partial_fit(X[:20], y[:20])
        model.partial_fit(X[:20], y[:20])
        twins = twins if again == 0 else []
    fresh = clone(model)
    with pytest.raises(NotFittedError):
        fresh.predict(X)
    assert fresh.get_params() == model.get_params()


# -- refusals


OBSTACLES = [
    {"projection": True},
    {"average": True},
    {"average": "uniform"},
    {"average": 1},
    {"batch_size": 2},
    {"learning_rate": "constant", "eta0": 0.1},
    {"learning_rate": "invscaling"},
    {"early_stopping": True},
    {"sampling": "replacement"},
    {"sampling": np.arange(150)},
    {"shards": 2},
]


@pytest.mark.parametrize("obstacle", OBSTACLES, ids=lambda obstacle: str([*obstacle.items()][0]))
def test_what_dual_ascent_does_not_do(obstacle):
    X, y, _ = examples("hinge")
    name = next(iter(obstacle))
    with pytest.raises(ValueError, match=f"solver='dual' .* {name}="):
        model_of(**obstacle).fit(X, y)
    with pytest.raises(NotFittedError):
        model_of().predict(X)
    model = model_of().fit(X, y)
    before = pickle.dumps(model)
    model.set_params(**obstacle)
    with pytest.raises(ValueError, match=f"solver='dual' .* {name}="):
        model.fit(X, y)
    assert pickle.dumps(model.set_params(**model_of().get_params())) == before
    # "auto" is Pegasos then.
    auto = briefly(model_of(solver="auto", **obstacle, max_iter=5), X, y)
    plain = briefly(model_of(solver="pegasos", **obstacle, max_iter=5), X, y)
    assert auto.coef_.tobytes() == plain.coef_.tobytes()


def test_dual_ascent_does_not_start_warm():
    X, y, _ = examples("hinge")
    model = model_of(warm_start=True).fit(X, y)
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match=r"solver='dual' .* warm_start"):
        model.fit(X, y)
    assert pickle.dumps(model) == before


@pytest.mark.parametrize(
    "params",
    [
        {"projection": np.False_},
        {"average": np.False_},
        {"batch_size": np.int64(1)},
        {"early_stopping": np.False_},
        {"shards": np.int64(1)},
        {"t0": 5.0},
        {"eta0": 7.0},
        {"class_weight": "balanced"},
    ],
    ids=str,
)
def test_parameters_that_are_no_obstacle(params):
    X, y, _ = examples("hinge")
    assert model_of(tol=1e-6, **params).fit(X, y).duality_gap_ <= 1e-6


@every_pair(
    task=oracle.TASKS,
    form=[np.asarray, sparse.csr_array],
    row=[0, 70, 149],
    value=[np.nan, np.inf, -np.inf, 1e300],
)
def test_bad_values(task, form, row, value):
    X, y, weights = examples(task)
    bad = X.copy()
    bad[row, 2] = value
    match = "X must be finite|X contains" if np.isfinite(value) else "X contains"
    for params in ({"tol": 1e-3}, {"tol": None}, {"solver": "auto", "alpha": 1e-4}):
        for of_row in (None, np.where(np.arange(150) == row, 0.0, weights + 1.0)):
            model = model_of(task, **params)
            with pytest.raises(ValueError, match=match):
                model.fit(form(bad), y, of_row)
            with pytest.raises(NotFittedError):
                model.predict(X)
    model = model_of(task).fit(form(X), y)
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match=match):
        model.fit(form(bad), y)
    assert pickle.dumps(model) == before


@every_pair(task=oracle.TASKS, value=[6, -1, 2**31 - 1, -(2**31)], index=[np.int32, np.int64])
def test_bad_columns(task, value, index):
    X, y, weights = examples(task)
    S = sparse.csr_array(X)
    S.indptr, S.indices = S.indptr.astype(index), S.indices.astype(index)
    for place in (0, S.nnz // 2, S.nnz - 1):
        bad = S.copy()
        bad.indices[place] = value
        for params in ({"tol": 1e-3}, {"tol": None}, {"solver": "auto", "alpha": 1e-4}):
            with pytest.raises(ValueError, match=r"X\b"):
                model_of(task, **params).fit(bad, y, weights)


INTERRUPTED = INTERRUPT + """
from conftest import papers_linear
import numpy as np
from pegasos import PegasosClassifier

random = np.random.default_rng(0)
n, d, classes = {n}, {d}, {classes}
X = random.standard_normal(size=(n, d), dtype=np.float32)
y = random.integers(classes, size=n)
model = papers_linear("{loss}", alpha={alpha}, max_iter=10**9, n_jobs=2, **{params})
late = interrupt({after}, lambda: model.fit(X, y))
assert late < {latest}, late
outputs = 1 if classes == 2 else classes
assert model.coef_.shape == (outputs, d) and np.isfinite(model.coef_).all()
assert model.coef_.any()
assert model.predict(X[:5]).shape == (5,)
assert model.n_iter_ == len(model.loss_curve_) >= 0
# An epoch broken off is not begun again.
before = model.t_
assert before > 0
model.partial_fit(X[:7], y[:7])
assert model.t_ == before + 7
print("done")
"""


def test_interrupt(run_forked):
    cases = [
        (1000, 2, {"tol": None}, "hinge"),
        (1000, 2, {"tol": 0.0}, "hinge"),
        (300_000, 2, {"tol": None}, "hinge"),
        (300_000, 2, {"tol": 0.0}, "log_loss"),
        (100_000, 30, {"tol": 0.0}, "hinge"),
        (100_000, 30, {"tol": None, "multi_class": "ovr"}, "hinge"),
        (100_000, 30, {"tol": 0.0, "multi_class": "ovr"}, "squared_hinge"),
    ]
    # One after the other in one process, which begins with a second of imports.
    texts = [
        INTERRUPTED.format(
            n=n, d=4, classes=classes, alpha=1e-6, loss=loss, params={"solver": "dual", **params},
            after=1.0, latest=0.5,
        )
        for n, classes, params, loss in cases
    ]
    done = run_forked("\n".join(texts))
    assert done.stdout == len(cases) * "done\n", (done.returncode, done.stderr)


@pytest.mark.parametrize("tol", [0.3, 0.1, 0.01])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_loose_tolerance_is_reached_where_alpha_is_tiny(loss, tol):
    # Every step of dual ascent undoes others here, which hides how far it is from done: fits used to go
    # on until max_iter (and say so, which is an error in these tests).
    random = np.random.default_rng(0)
    X = random.normal(size=(20_000, 20))
    y = X @ random.normal(size=20) + 3.0 * random.normal(size=20_000) > 0
    model = papers_linear(loss, alpha=1e-7, tol=tol, max_iter=20, random_state=0).fit(X, y)
    assert 0.0 <= model.duality_gap_ <= tol * model.objective_


@pytest.mark.parametrize("solver", ["auto", "dual"])
@pytest.mark.parametrize("alpha", [3e-4, 1e-4])
def test_a_fit_ends_when_it_is_there(alpha, solver):
    # Rows hardly share a column: one epoch does all, and what each of them saw before its step does not
    # tell. Fits used to go on for another.
    random = np.random.default_rng(0)
    n, k, d = 20_000, 20, 2**18
    arrays = np.full(n * k, k**-0.5), random.integers(0, d, n * k), np.arange(0, n * k + 1, k)
    X, y = sparse.csr_array(arrays, shape=(n, d)), random.integers(0, 2, n)
    model = papers_linear(alpha=alpha, solver=solver, tol=0.01, fit_intercept=False)
    assert model.set_params(random_state=0).fit(X, y).n_iter_ == 1
    assert abs(model.duality_gap_) <= 0.01 * model.objective_


def test_interrupt_of_a_leap(run_forked):
    # Many features: each of the steps that auto tries in between takes its time.
    text = INTERRUPTED.format(
        n=100_000, d=250, classes=2, alpha=1e-7, loss="hinge", params={"tol": 1e-9},
        after=2.5, latest=1.5,
    )
    done = run_forked(text)
    assert done.stdout == "done\n", (done.returncode, done.stderr)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_leaps_lose_nothing_where_rows_are_large(loss):
    # Dual variables are far below 1 there.
    random = np.random.default_rng(11)
    X, y = 1e5 * random.random((300, 300)), (random.random(300) < 0.3).astype(int)
    model = briefly(PegasosClassifier(loss, random_state=0), X, y)
    w, b = model.coef_[0], model.intercept_[0]
    losses = np.maximum(0.0, 1.0 - np.where(y, 1.0, -1.0) * (X @ w + b))
    if loss == "squared_hinge":
        losses *= losses
    assert model.objective_ == pytest.approx(model.alpha_ / 2.0 * (w @ w + b * b) + losses.mean(), rel=1e-6)
    assert np.isfinite(model.duality_gap_)


@pytest.mark.parametrize("fit_intercept", [True, False, "free"])
@pytest.mark.parametrize("loss", ["squared_hinge", "log_loss"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_many_features_that_rows_spread_over(loss, fit_intercept, dtype):
    """Dual ascent alone leaves a gap of percents after a hundred epochs: every example has a little to say in every other's score."""
    X, y = make_classification(3000, 500, n_informative=60, n_redundant=60, flip_y=0.1, random_state=0)
    X = StandardScaler().fit_transform(X).astype(dtype)
    model = PegasosClassifier(loss, fit_intercept=fit_intercept, random_state=0).fit(X, y)
    assert model.n_iter_ <= 20 and model.duality_gap_ <= 1e-3 * model.objective_
    objective = model.objective_
    tol = 1e-5 if dtype == np.float32 else 1e-9
    model.set_params(tol=tol).fit(X, y)
    assert model.duality_gap_ <= tol * model.objective_
    assert model.objective_ <= objective <= model.objective_ * (1 + 1e-3)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(("loss", "positives"), [("squared_hinge", 0.5), ("log_loss", 0.5), ("log_loss", 0.01)])
def test_columns_that_few_rows_have_cost_no_epochs(loss, positives, form):
    """Curvature over evenly chosen rows misses them; 20 columns around them make it so many weights that rows are chosen."""
    random = np.random.default_rng(3)
    n = 60_000
    X = np.zeros((n, 40))
    X[:, :10] = random.normal(size=(n, 10)) * (random.random((n, 10)) < 0.5)
    for j in range(10, 40):
        X[random.choice(n, 5, replace=False), j] = 1.0
    score = X[:, :10] @ random.normal(size=10) / 2.0 + random.normal(size=n)
    y = score > np.quantile(score, 1.0 - positives)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = PegasosClassifier(loss, alpha=0.01 / n, random_state=0).fit(form(X), y)
    assert model.n_iter_ <= 6 and model.duality_gap_ <= 1e-3 * model.objective_


@pytest.mark.parametrize("loss", LOSSES)
def test_more_rows_than_many_columns(loss):
    """One-hot columns and a small alpha: a hundred epochs of dual ascent leave gaps of up to 0.8."""
    random = np.random.default_rng(0)
    n, levels = 12_000, (250, 40, 20)
    parts = [random.choice(k, n, p=random.dirichlet(np.full(k, 0.5))) for k in levels]
    columns = np.stack(parts, 1) + np.cumsum([0, *levels[:-1]])
    X = sparse.csr_array((np.ones(3 * n), columns.ravel(), np.arange(0, 3 * n + 1, 3)), shape=(n, sum(levels)))
    y = X @ random.normal(size=X.shape[1]) + random.normal(size=n) > 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = PegasosClassifier(loss, alpha=0.01 / n, random_state=0).fit(X, y)
    assert model.duality_gap_ <= 1e-3 * model.objective_
    coef, b = model.coef_[0], model.intercept_[0]
    margins = np.where(y, 1.0, -1.0) * (X @ coef + b)
    losses = {
        "hinge": np.maximum(0.0, 1.0 - margins),
        "squared_hinge": np.maximum(0.0, 1.0 - margins) ** 2,
        "log_loss": np.logaddexp(0.0, -margins),
    }
    objective = model.alpha / 2.0 * (coef @ coef + b * b) + losses[loss].mean()
    assert model.objective_ == pytest.approx(objective, rel=1e-9)
