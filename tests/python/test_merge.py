"""Models that learned apart, put together: by `merge`, or within a fit by shards."""

import pickle
import warnings

import numpy as np
import oracle
import pandas as pd
import pytest
from conftest import INTERRUPT, every_pair, papers_linear
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import SGDClassifier

from pegasos import OnlineGradientClassifier, load, merge, save, split

LOSSES = ["hinge", "squared_hinge", "log_loss"]


def examples(task="hinge", dtype=np.float64, n=90, d=5):
    random = np.random.default_rng(9)
    X = random.normal(size=(n, d)).astype(dtype)
    y = (X @ random.normal(size=(d, 3)) + random.normal(size=(n, 3))).argmax(axis=1)
    return X, y if task in ("jointly", "ovr") else (y > 0).astype(int)


def model_of(task="hinge", estimator=papers_linear, **params):
    default = {"alpha": 0.1, "random_state": 0, "tol": None}
    if estimator is papers_linear:
        default |= {"solver": "pegasos", "max_iter": 3}
    if task in LOSSES:
        default["loss"] = task
    else:
        default["multi_class"] = "ovr" if task == "ovr" else "crammer_singer"
    return estimator(**{**default, **params})


def apart(task="hinge", dtype=np.float64, parts=3, **params):
    """Models of parts of the data, of different size, and the parts' sizes."""
    X, y = examples(task, dtype)
    pieces = np.split(np.arange(len(y)), [20, 50][: parts - 1])
    models = [model_of(task, random_state=k, **params) for k in range(parts)]
    for model, rows in zip(models, pieces, strict=True):
        model.fit(X[rows], y[rows])
    return models, [len(rows) for rows in pieces]


def same(a, b):
    """Whether two models are equal to the last bit."""
    return (
        a.coef_.tobytes() == b.coef_.tobytes()
        and a.intercept_.tobytes() == b.intercept_.tobytes()
        and a.t_ == b.t_
    )


def states(models):
    """All there is of them, to the last bit."""
    return [pickle.dumps([getattr(model, "coef_", None), model]) for model in models]


# -- merge


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"solver": "dual"},
        {"average": True},
        {"average": 10},
        {"average": "uniform", "projection": True},
        {"learning_rate": "invscaling"},
        {"fit_intercept": False},
        {"intercept_scaling": 3.0},
        {"estimator": OnlineGradientClassifier},
        {"estimator": OnlineGradientClassifier, "average": True, "delay": 4, "radius": 0.7},
    ],
    ids=str,
)
@pytest.mark.parametrize("task", oracle.TASKS)
def test_a_merged_model_is_the_weighted_mean(task, params, dtype):
    X, y = examples(task, dtype)
    models, sizes = apart(task, dtype, **params)
    before = states(models)
    tiny = 1e-12 if dtype == np.float64 else 1e-5
    for weights in (None, sizes, [0.0, 2.0, 1.0], np.array([1, 0, 0])):
        merged = merge(models, weights)
        factors = np.ones(3) if weights is None else np.asarray(weights, dtype=np.float64)
        for name in ("coef_", "intercept_"):
            parts = [getattr(model, name).astype(np.float64) for model in models]
            want = np.tensordot(factors / factors.sum(), parts, axes=1)
            got = getattr(merged, name)
            assert got.dtype == dtype
            assert np.linalg.norm(got - want) <= tiny * max(map(np.linalg.norm, parts))
        assert type(merged) is type(models[0])
        assert merged.get_params() == models[0].get_params()
        assert merged.classes_.tolist() == models[0].classes_.tolist()
        assert merged.n_features_in_ == 5
        assert merged.t_ == sum(model.t_ for model in models)
        assert np.isnan([merged.objective_, merged.dual_objective_, merged.duality_gap_]).all()
        assert merged.predict(X).shape == y.shape
        merged.partial_fit(X, y)
    assert states(models) == before


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("task", LOSSES)
def test_a_merged_model_goes_on_with_the_next_step(task, dtype):
    X, y = examples(task, dtype)
    for params in ({}, {"learning_rate": "invscaling"}, {"batch_size": 4}, {"projection": True}):
        models, _ = apart(task, dtype, sampling="storage", t0=4.0, **params)
        merged = merge(models)
        w = oracle.weights_of(merged)[0]
        signs, start = np.where(y == 1, 1.0, -1.0), oracle.Run(w, w, None, merged.t_, [])
        rows = np.arange(40)
        want = oracle.train_like(merged, X, signs, [rows], start=start)
        merged.partial_fit(X[rows], y[rows])
        tiny = 1e-9 if dtype == np.float64 else 1e-4
        got = oracle.weights_of(merged)[0]
        assert np.linalg.norm(got - want.w) <= tiny * np.linalg.norm(want.w)
        assert merged.t_ == want.t


@pytest.mark.parametrize("average", [False, True, "uniform", 8])
@pytest.mark.parametrize("task", oracle.TASKS)
def test_one_model_merged_is_that_model(task, average):
    X, y = examples(task)
    model = model_of(task, average=average, sampling="storage").fit(X, y)
    merged = merge([model])
    for _ in range(2):
        assert np.array_equal(merged.predict(X), model.predict(X))
        assert merged.coef_ == pytest.approx(model.coef_, rel=1e-12)
        assert merged.intercept_ == pytest.approx(model.intercept_, rel=1e-12)
        assert merged.t_ == model.t_
        # The mean goes on too, as far as it has come.
        merged.partial_fit(X, y)
        model.partial_fit(X, y)


def test_merging_is_about_as_good_as_learning_together():
    X, y = examples(n=3000, d=20)
    whole = model_of(alpha=0.01).fit(X, y)
    parts = [model_of(alpha=0.01).fit(X[k::3], y[k::3]) for k in range(3)]
    merged = merge(parts)
    objective = [oracle.objective_of_model("hinge", m, X, y) for m in (whole, merged, *parts)]
    assert objective[1] < max(objective[2:])
    assert objective[1] < 1.05 * objective[0]


def test_any_iterable_of_models():
    models, _ = apart()
    assert same(merge(model for model in models), merge(tuple(models)))


def test_names_of_features():
    X, y = examples()
    frame = pd.DataFrame(X, columns=list("abcde"))
    named = [model_of().fit(frame[k::2], y[k::2]) for k in (0, 1)]
    merged = merge(named)
    assert merged.feature_names_in_.tolist() == list("abcde")
    merged.predict(frame)
    with pytest.raises(ValueError, match="feature names"):
        merged.predict(frame[list("edcba")])


def test_models_whose_columns_have_other_names_do_not_merge():
    X, y = examples()
    named = [model_of().fit(pd.DataFrame(X, columns=list(s)), y) for s in ("abcde", "edcba")]
    refused(named, "feature")


@pytest.mark.parametrize("estimator", [papers_linear, OnlineGradientClassifier])
@pytest.mark.parametrize("task", oracle.TASKS)
def test_copies_of_a_merged_model_go_on_alike(task, estimator, tmp_path):
    X, y = examples(task)
    models, _ = apart(task, estimator=estimator)
    merged = merge(models)
    save(merged, tmp_path / "model")
    twins = [pickle.loads(pickle.dumps(merged)), load(tmp_path / "model")]
    for _ in range(2):
        merged.partial_fit(X, y)
        for twin in twins:
            twin.partial_fit(X, y)
            assert same(twin, merged)
            if estimator is OnlineGradientClassifier:
                counts = [(m.cumulative_loss_, m.regret_bound_) for m in (twin, merged)]
                assert np.array_equal(*counts, equal_nan=True)


def test_a_merged_model_comes_back_from_a_file(tmp_path):
    merged = merge(apart()[0])
    save(merged, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert same(loaded, merged)
    assert (loaded.n_iter_, loaded.loss_curve_) == (merged.n_iter_, merged.loss_curve_)


@pytest.mark.parametrize("task", oracle.TASKS)
def test_a_merged_learner_counts_its_rounds_from_there(task):
    X, y = examples(task)
    merged = merge(apart(task, estimator=OnlineGradientClassifier, delay=3)[0])
    # What was in flight is left behind: the next gradient arrives three rounds later.
    before = merged.coef_.copy()
    merged.partial_fit(X[:3], y[:3])
    shrunk = np.linalg.norm(merged.coef_ / before - (merged.coef_ / before).flat[0])
    assert shrunk <= 1e-12
    # A regret of part of the rounds would pass for that of all.
    assert np.isnan([merged.cumulative_loss_, merged.regret_bound_]).all()


def refused(models, match, weights=None, error=ValueError):
    before = states(models)
    with pytest.raises(error, match=match):
        merge(models, weights)
    assert states(models) == before


def test_models_that_do_not_fit_together():
    X, y = examples("jointly")
    first = model_of("jointly").fit(X, y)
    refused([], "at least one")
    with pytest.raises(TypeError, match="estimators must be a sequence of estimators, got a PegasosClassifier"):
        merge(first)
    refused([first, model_of("jointly").fit(X, y + 1)], "same classes")
    refused([first, model_of("jointly").fit(X, y % 2)], "same classes")
    refused([first, model_of("jointly").fit(X, np.array(["a", "b", "c"])[y])], "same classes")
    refused([first, model_of("jointly").fit(X[:, :4], y)], "number of features")
    refused([first, model_of("jointly").fit(X.astype(np.float32), y)], "dtype")
    refused([first, model_of("ovr").fit(X, y)], "same multi_class, got 'crammer_singer' and 'ovr'")
    refused([first, model_of("jointly", fit_intercept=False).fit(X, y)], "same intercept_scaling .*, got 1.0 and 0.0")
    refused([first, model_of("jointly", intercept_scaling=2.0).fit(X, y)], "same intercept_scaling .*, got 1.0 and 2.0")
    online = model_of("jointly", OnlineGradientClassifier).fit(X, y)
    refused([first, online], "of one class, got .*OnlineGradientClassifier")
    refused([online, first], "of one class, got .*PegasosClassifier")
    refused([first, SGDClassifier().fit(X, y)], "of one class, got .*SGDClassifier")
    refused([SGDClassifier().fit(X, y)], "got .*SGDClassifier")
    refused([first, None], "got .*NoneType")
    refused([first, model_of("jointly")], "not fitted", error=NotFittedError)
    refused([model_of("jointly"), first], "not fitted", error=NotFittedError)


def test_of_two_classes_all_ways_to_tell_them_apart_are_one():
    X, y = examples("jointly")
    pair = [model_of(task).fit(X, y > 0) for task in ("jointly", "ovr")]
    assert merge(pair).coef_ == pytest.approx((pair[0].coef_ + pair[1].coef_) / 2.0)


@pytest.mark.parametrize("fitted", [True, False])
def test_no_more_copies_than_anybody_could_want(fitted):
    X, y = examples("jointly")
    model = model_of("jointly").fit(X, y) if fitted else model_of("jointly")
    for parts in (10**30, 10**9, np.int64(100_001), 0, -1):
        with pytest.raises(ValueError, match=rf"parts must be a number of copies in 1..100000, .* got {parts}$"):
            split(model, parts)
    with pytest.raises(ValueError, match="parts must be 100000 sizes at most, got 100001"):
        split(model, np.ones(100_001))


@pytest.mark.parametrize(
    "weights",
    [
        [],
        [1.0],
        [1.0] * 4,
        [[1.0, 1.0, 1.0]],
        [1.0, -1e-300, 1.0],
        [1.0, np.nan, 1.0],
        [1.0, np.inf, 1.0],
        [0.0, 0.0, 0.0],
        3.0,
        "abc",
        ["a", "b", "c"],
        [None, 1.0, 1.0],
        [1.0, 1j, 1.0],
        [1.0, [2.0], 1.0],
        [10**400, 1, 1],
        {0: 1.0},
    ],
    ids=lambda value: repr(value)[:20],
)
def test_bad_weights(weights):
    refused(apart()[0], "weights must be", weights)


def test_weights_of_any_size():
    models, _ = apart()
    want = merge(models, [1.0, 2.0, 3.0])
    for scale in (1e-300, 1e-100, 1e100, 5e307):
        merged = merge(models, scale * np.array([1.0, 2.0, 3.0]))
        assert merged.coef_ == pytest.approx(want.coef_, rel=1e-12)


# -- shards


@pytest.mark.parametrize("task", oracle.TASKS)
def test_one_shard_is_none(task):
    X, y = examples(task)
    for params in ({}, {"average": True}, {"projection": True, "batch_size": 4}):
        want = model_of(task, **params).fit(X, y)
        assert same(model_of(task, shards=np.int64(1), **params).fit(X, y), want)
        assert not np.array_equal(model_of(task, shards=2, **params).fit(X, y).coef_, want.coef_)


@every_pair(
    task=oracle.TASKS,
    shards=[2, 3, 7],
    dtype=[np.float32, np.float64],
    form=[np.asarray, sparse.csr_array],
)
def test_threads_change_no_bit(task, shards, dtype, form):
    # Enough rows that an epoch is divided into several pieces.
    X, y = examples(task, dtype, n=6000)
    for params in ({}, {"average": True, "batch_size": 7}, {"projection": True}):
        models = [
            model_of(task, shards=shards, n_jobs=n_jobs, **params).fit(form(X), y)
            for n_jobs in (1, 2, 5)
        ]
        assert all(same(model, models[0]) for model in models)
        assert models[0].loss_curve_ == models[1].loss_curve_ == models[2].loss_curve_


def sparse_examples(n=4000, d=3000, n_classes=2):
    """Rows of a few words each, as texts have them."""
    random = np.random.default_rng(1)
    words = (d * random.random(size=(n, 30)) ** 3).astype(np.int32)
    X = sparse.csr_array(
        (np.full(30 * n, 30**-0.5), words.ravel(), np.arange(0, 30 * n + 1, 30)), shape=(n, d)
    )
    X.sum_duplicates()
    scores = X @ random.normal(size=(d, n_classes))
    return X, (scores + 0.3 * random.normal(size=(n, n_classes))).argmax(axis=1)


@pytest.mark.parametrize(
    # The last iterate alone is too unsteady to tell later.
    ("average", "epochs"), [(False, (1, 2)), (True, (1, 2)), (True, (3, 6)), (True, (8, 16))]
)
@pytest.mark.parametrize("alpha", [1e-2, 1e-3])
@pytest.mark.parametrize("task", [*LOSSES, "jointly"])
def test_two_shards_lose_less_than_their_threads_gain(task, alpha, average, epochs):
    X, y = sparse_examples(n_classes=4 if task == "jointly" else 2)

    def objective(**params):
        params |= {"alpha": alpha, "average": average, "tol": 0.0}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fits = [model_of(task, random_state=k, **params).fit(X, y) for k in range(3)]
        return np.mean([model.objective_ for model in fits])

    # Two threads make these epochs in the time of those.
    assert objective(shards=2, max_iter=epochs[1]) <= objective(shards=1, max_iter=epochs[0])


@pytest.mark.parametrize("shards", [2, 4])
@pytest.mark.parametrize("task", oracle.TASKS)
def test_shards_reach_any_gap(task, shards):
    X, y = examples(task)
    model = model_of(task, shards=shards, tol=0.02, max_iter=2000).fit(X, y)
    assert model.duality_gap_ <= 0.02 * model.objective_
    assert model.objective_ == pytest.approx(
        oracle.objective_of_model(task, model, X, y), rel=1e-12
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        exact = model_of(task, solver="dual", tol=1e-7, max_iter=5000).fit(X, y)
    assert model.dual_objective_ <= exact.objective_
    assert model.duality_gap_ >= model.objective_ - exact.objective_


@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.parametrize("n", [88, 89, 90, 91, 97])
def test_any_number_of_shards_is_certified(n, batch_size):
    X, y = examples(n=n)
    for shards in range(1, 12):
        params = {"batch_size": batch_size, "shards": shards}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = model_of(tol=0.0, max_iter=12, **params).fit(X, y)
        assert 0.0 < model.duality_gap_ < model.objective_


@pytest.mark.parametrize("batch_size", [1, 7])
@pytest.mark.parametrize("task", oracle.TASKS)
def test_shards_that_have_no_row(task, batch_size):
    X, y = examples(task)
    steps = -(-90 // batch_size)
    params = {"batch_size": batch_size, "max_iter": 1}
    assert model_of(task, shards=steps, **params).fit(X, y).t_ == steps
    for shards in (steps + 1, 1000, 10**6):
        model = model_of(task, shards=shards, **params)
        with pytest.raises(ValueError, match="shards"):
            model.fit(X, y)
        with pytest.raises(NotFittedError):
            model.predict(X)
    order = [3, 1, 4, 1, 5]
    with pytest.raises(ValueError, match="shards"):
        model_of(task, shards=6, sampling=order).fit(X, y)


def test_more_shards_than_there_is_room_for(run_forked):
    done = run_forked(
        """
from conftest import papers_linear
import numpy as np
from pegasos import PegasosClassifier

X, y = np.eye(90), np.arange(90) % 2
for shards in (2**31, 2**62, 2**63 - 1):
    try:
        papers_linear(shards=shards, tol=None).fit(X, y)
    except ValueError as error:
        print(shards, "shards" in str(error))
"""
    )
    want = "".join(f"{shards} True\n" for shards in (2**31, 2**62, 2**63 - 1))
    assert done.stdout == want, (done.returncode, done.stdout, done.stderr)


def test_a_shard_for_each_row_is_a_step_of_each():
    X, y = examples()
    n = len(y)
    model = model_of(shards=n, max_iter=1, alpha=2.0).fit(X, y)
    # Every copy makes the first step from nothing.
    want = np.mean(np.where(y == 1, 1.0, -1.0)[:, None] * X, axis=0) / 2.0
    assert model.coef_[0] == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("shards", [3, 8, 90])
def test_steps_of_shards_are_no_longer_than_others(shards, begun):
    # Of the offset that keeps those of the squared hinge short each has but its part.
    X, y = examples()
    X += 10.0
    model = model_of("squared_hinge", alpha=0.01, max_iter=20, warm_start=begun)
    if begun:
        model.partial_fit(X, y, [0, 1])
    model.set_params(shards=shards).fit(X, y)
    margins = np.where(y == 1, 1.0, -1.0) * model.decision_function(X)
    # Nothing learned would be 1.
    assert np.mean(np.maximum(0.0, 1.0 - margins) ** 2) < 1.0


@pytest.mark.parametrize("loss", LOSSES)
def test_partial_fit_has_no_shards(loss):
    X, y = examples()
    models = [model_of(loss, shards=shards).partial_fit(X, y, [0, 1]) for shards in (1, 4, 1000)]
    assert all(same(model, models[0]) for model in models)


@pytest.mark.parametrize("task", oracle.TASKS)
def test_a_fit_in_shards_that_fails_leaves_the_model(task):
    X, y = examples(task)
    bad = X.copy()
    bad[70, 2] = np.nan
    for form in (np.asarray, sparse.csr_array):
        with pytest.raises(ValueError, match="X contains NaN"):
            model_of(task, shards=3).fit(form(bad), y)
        model = model_of(task, shards=3, warm_start=True).fit(form(X), y)
        before = pickle.dumps(model)
        with pytest.raises(ValueError, match="X contains NaN"):
            model.fit(form(bad), y)
        assert pickle.dumps(model) == before


@pytest.mark.parametrize("average", [False, True, "uniform"])
@pytest.mark.parametrize("task", oracle.TASKS)
def test_shards_go_on(task, average):
    X, y = examples(task)
    params = {"shards": 3, "average": average}
    whole = model_of(task, max_iter=6, **params).fit(X, y)
    halves = model_of(task, max_iter=3, warm_start=True, **params).fit(X, y)
    halves = pickle.loads(pickle.dumps(halves)).fit(X, y)
    assert halves.t_ == whole.t_
    assert halves.coef_ == pytest.approx(whole.coef_, rel=1e-9, abs=1e-12)


INTERRUPTED = INTERRUPT + """
from conftest import papers_linear
import numpy as np
from pegasos import PegasosClassifier

random = np.random.default_rng(0)
n, classes = {n}, {classes}
X = random.standard_normal(size=(n, 4), dtype=np.float32)
y = random.integers(classes, size=n)
params = {{"solver": "pegasos", "multi_class": "ovr", "max_iter": 10**9, "tol": None, "n_jobs": 2}}
model = papers_linear(alpha=0.01, shards=2, **params)
late = interrupt(1.5, lambda: model.fit(X, y))
assert late < 0.5, late
assert np.isfinite(model.coef_).all() and model.coef_.any()
assert model.n_iter_ == len(model.loss_curve_) > 0
assert model.t_ == model.n_iter_ * n
before = model.t_
model.partial_fit(X[:7], y[:7])
assert model.t_ == before + 7
print("done")
"""


@pytest.mark.parametrize(("n", "classes"), [(100, 2), (20_000, 40)])
def test_interrupt_of_shards(n, classes, run_forked):
    done = run_forked(INTERRUPTED.format(n=n, classes=classes))
    assert done.stdout == "done\n", (done.returncode, done.stderr)
