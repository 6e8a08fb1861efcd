"""More than two classes, jointly and one against the rest."""

import pickle
import warnings
from functools import cache

import numpy as np
import oracle
import pytest
from conftest import every_pair, labelled, papers_linear
from scipy import sparse
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from pegasos import OnlineGradientClassifier, merge

ALPHA = 0.05
#: The name of a kind here, and what the estimator calls it.
KINDS = {"jointly": "crammer_singer", "ovr": "ovr"}


def examples(dtype=np.float64, n=80, d=3, n_classes=4):
    X, y = labelled(4, n, d, n_classes)
    weights = np.random.default_rng(4).uniform(0.2, 3.0, size=n)
    weights[::7] = 0.0
    return (2.0 * X).astype(dtype), y, weights


def model_of(kind, **params):
    default = {"alpha": ALPHA, "solver": "pegasos", "tol": None, "max_iter": 5, "random_state": 0}
    return papers_linear(**{**default, "multi_class": KINDS[kind], **params})


def certified(kind, X, y, weights=None, **params):
    """A fit that evaluates the objective, but does not stop for it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model_of(kind, **{"tol": 0.0, **params}).fit(X, y, sample_weight=weights)


def same(a, b):
    """Whether two models are equal to the last bit."""
    return np.array_equal(a.coef_, b.coef_) and np.array_equal(a.intercept_, b.intercept_)


@cache
def optimum(kind, weighted, constant, dtype):
    X, y, weights = examples(dtype)
    weights = weights if weighted else None
    w = oracle.liblinear(kind, X, y, weights, ALPHA, constant)
    return oracle.objective_of(kind, w, X, y, weights, ALPHA, constant)


# -- certificates


@every_pair(
    kind=KINDS,
    shards=[1, 3],
    t0=["auto", 40.0],
    batch_size=[1, 6],
    average=[False, True, 30],
    constant=[0.0, 2.0],
    weighted=[False, True],
    dtype=[np.float32, np.float64],
)
def test_gap_holds(kind, shards, t0, batch_size, average, constant, weighted, dtype):
    X, y, weights = examples(dtype)
    weights = weights if weighted else None
    least = optimum(kind, weighted, constant, dtype)
    intercept = {"fit_intercept": constant > 0.0, "intercept_scaling": constant or 1.0}
    for data in (X, sparse.csr_array(X)):
        model = certified(
            kind, data, y, weights, t0=t0, batch_size=batch_size, average=average, shards=shards,
            **intercept,
        )
        precise = dtype == np.float64
        objective = oracle.objective_of_model(kind, model, X, y, weights)
        assert model.objective_ == pytest.approx(objective, rel=1e-12 if precise else 1e-5)
        # The optimum is known to about 1e-9.
        tiny = (1e-8 if precise else 1e-6) * max(1.0, model.objective_)
        assert model.duality_gap_ == model.objective_ - model.dual_objective_
        assert model.dual_objective_ <= least + tiny
        assert model.duality_gap_ >= objective - least - tiny


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_gap_closes(kind, average, shards):
    X, y, _ = examples()
    epochs = (1, 8, 64, 512)
    gaps = [
        certified(kind, X, y, average=average, shards=shards, max_iter=k).duality_gap_
        for k in epochs
    ]
    assert all(after < before / 2.0 for before, after in zip(gaps, gaps[1:], strict=False))
    assert gaps[-1] < 0.02 * optimum(kind, False, 1.0, np.float64)


@pytest.mark.parametrize("kind", KINDS)
def test_dual_objective_is_that_of_the_violation_sums(kind):
    X, y, _ = examples()
    orders = [np.arange(len(y))] * 5
    model = certified(kind, X, y, sampling="storage")
    if kind == "ovr":
        signs = [np.where(y == k, 1.0, -1.0) for k in range(4)]
        runs = [oracle.train_like(model, X, s, orders) for s in signs]
        want = sum(
            oracle.dual_value(run.sums, run.t, X, s, np.ones(len(y)), "hinge", ALPHA, 1.0)
            for run, s in zip(runs, signs, strict=True)
        )
    else:
        run = oracle.crammer_singer(
            X, y, orders, classes=4, alpha=ALPHA, schedule="pegasos", eta0=1.0, power_t=0.5, t0=0.0,
            batch_size=1, radius=np.inf, average=False, weights=np.ones(len(y)), constant=1.0,
        )
        a = len(y) / run.t * run.sums
        own = a[np.arange(len(y)), y]
        assert np.all(own <= 1.0)
        want = np.mean(own) - ALPHA / 2.0 * np.sum(run.last**2)
    assert model.dual_objective_ == pytest.approx(want, rel=1e-9)


# -- the models


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"solver": "dual"},
        {"solver": "auto", "alpha": 1e-4},
        {"average": True},
        {"average": "uniform", "projection": True},
        {"batch_size": 7, "learning_rate": "invscaling"},
        {"shards": 3},
    ],
    ids=str,
)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_joint_weights_sum_to_nothing_over_the_classes(form, params, dtype):
    X, y, weights = examples(dtype)
    model = model_of("jointly", **params).fit(form(X), y, weights)
    for _ in range(2):
        w = oracle.weights_of(model)
        tiny = 1e-12 if dtype == np.float64 else 1e-5
        assert np.linalg.norm(w.sum(axis=0)) <= tiny * np.linalg.norm(w)
        assert np.linalg.norm(w) > 0.0
        model.partial_fit(form(X), y, sample_weight=weights)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_the_ball_holds_the_joint_weights(weighted):
    X, y, weights = examples()
    weights = weights if weighted else np.ones(len(y))
    radius = np.sqrt(weights.mean() / 1e-3)
    model = model_of("jointly", alpha=1e-3, projection=True, max_iter=1)
    norms = []
    for k in range(len(y)):
        row = slice(k, k + 1)
        if k == 0:
            model.fit(X, y, weights)
        elif weights[k] > 0.0:
            model.partial_fit(X[row], y[row], sample_weight=weights[row])
        norms.append(np.linalg.norm(oracle.weights_of(model)))
    assert max(norms) <= radius * (1.0 + 1e-12)
    free = model_of("jointly", alpha=1e-3, max_iter=1).fit(X, y, weights)
    assert np.linalg.norm(oracle.weights_of(free)) > radius
    assert np.linalg.norm(oracle.weights_of(free)) > max(norms)


def tables():
    for X, y in (load_iris(return_X_y=True), load_digits(return_X_y=True)):
        parts = train_test_split(X, y, test_size=0.4, random_state=0, stratify=y)
        scaler = StandardScaler().fit(parts[0])
        yield scaler.transform(parts[0]), scaler.transform(parts[1]), *parts[2:]


@pytest.mark.parametrize("kind", KINDS)
def test_as_accurate_as_liblinear(kind):
    for X, X_test, y, y_test in tables():
        alpha = 0.01
        params = {"multi_class": "crammer_singer"} if kind == "jointly" else {"loss": "hinge"}
        theirs = LinearSVC(C=1.0 / (alpha * len(y)), max_iter=100_000, random_state=0, **params)
        want = theirs.fit(X, y).score(X_test, y_test)
        for solver, tol in (("auto", 1e-4), ("dual", 1e-4), ("pegasos", 0.01)):
            model = model_of(kind, alpha=alpha, solver=solver, tol=tol, max_iter=3000).fit(X, y)
            assert abs(model.score(X_test, y_test) - want) <= 0.02
            assert np.mean(model.predict(X_test) == theirs.predict(X_test)) >= 0.97


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_are_the_highest_scores(kind):
    X, y, _ = examples()
    model = model_of(kind).fit(X, y)
    scores = model.decision_function(X)
    assert scores.shape == (len(y), 4)
    assert scores == pytest.approx(X @ model.coef_.T + model.intercept_, rel=1e-12)
    assert np.array_equal(model.predict(X), scores.argmax(axis=1))
    assert not hasattr(model, "predict_proba")


@pytest.mark.parametrize("solver", ["pegasos", "dual"])
@pytest.mark.parametrize("kind", KINDS)
def test_labels_are_names_alone(kind, solver):
    X, y, weights = examples()
    want = model_of(kind, solver=solver).fit(X, y, weights)
    for names in (["a", "b", "c", "dd"], [-3, 0, 5, 2**40], [-1.0, 0.0, 1.0, 2.0]):
        model = model_of(kind, solver=solver).fit(X, np.array(names)[y], weights)
        assert model.classes_.tolist() == names
        assert same(model, want)
        assert np.array_equal(model.predict(X), np.array(names)[want.predict(X)])


@pytest.mark.parametrize("class_weight", [{0: 0.5, 1: 2.0, 2: 3.0, 3: 1.0}, "balanced"])
@pytest.mark.parametrize("kind", KINDS)
def test_class_weights_are_sample_weights(kind, class_weight):
    X, y, weights = examples()
    of_class = class_weight
    if class_weight == "balanced":
        of_class = {k: len(y) / (4 * np.sum(y == k)) for k in range(4)}
    of_row = np.array([of_class[k] for k in y])
    for params in ({}, {"average": True, "batch_size": 5}, {"projection": True}):
        by_class = model_of(kind, class_weight=class_weight, **params).fit(X, y, weights)
        by_row = model_of(kind, **params).fit(X, y, weights * of_row)
        assert same(by_class, by_row)


@pytest.mark.parametrize("kind", KINDS)
def test_as_many_classes_as_rows(kind):
    X = np.random.default_rng(0).normal(size=(60, 200))
    y = np.arange(60)
    with warnings.catch_warnings():
        # scikit-learn takes so many classes for numbers.
        warnings.simplefilter("ignore", UserWarning)
        for solver in ("pegasos", "dual"):
            model = model_of(kind, alpha=1e-3, solver=solver, max_iter=30).fit(X, y)
            assert model.coef_.shape == (60, 200)
            assert model.score(X, y) == 1.0


# -- streams


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_classes_may_come_late(kind, average):
    X, y, _ = examples(n=400, d=8)
    early, late = np.flatnonzero(y < 2), np.flatnonzero(y >= 2)
    model = model_of(kind, average=average)
    model.partial_fit(X[early[:100]], y[early[:100]], classes=range(4))
    assert model.classes_.tolist() == [0, 1, 2, 3]
    before = model.score(X, y)
    for row in np.random.default_rng(0).permutation([*early[100:], *late] * 5):
        model.partial_fit(X[[row]], y[[row]])
    assert model.t_ == 100 + 5 * 300
    assert model.score(X, y) > before + 0.2
    assert set(model.predict(X)) == {0, 1, 2, 3}


@pytest.mark.parametrize("kind", KINDS)
def test_a_class_that_came_once_fades(kind):
    X, y, _ = examples(n=400)
    once = np.flatnonzero(y == 3)[:1]
    others = np.flatnonzero(y != 3)
    model = model_of(kind).partial_fit(X[once], y[once], classes=range(4))
    first = np.linalg.norm(model.coef_[3])
    assert first > 0.0
    model.partial_fit(X[others], y[others])
    w = oracle.weights_of(model)
    assert np.isfinite(w).all()
    if kind == "jointly":
        # The others push its scores down to where they lose against it no more.
        assert np.linalg.norm(w.sum(axis=0)) <= 1e-12 * np.linalg.norm(w)
    assert np.mean(model.predict(X[others]) == y[others]) > 0.7
    assert np.mean(model.predict(X) == 3) < 0.05


@pytest.mark.parametrize("params", [{}, {"average": True}, {"projection": True}], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_batches_of_a_single_class(kind, params):
    X, y, _ = examples()
    by_class = np.argsort(y, kind="stable")
    whole = model_of(kind, sampling="storage", **params)
    whole.partial_fit(X[by_class], y[by_class], range(4))
    batches = model_of(kind, sampling="storage", **params)
    for k in range(4):
        assert np.sum(y == k) > 1
        batches.partial_fit(X[y == k], y[y == k], range(4))
    assert same(batches, whole)


@pytest.mark.parametrize("multi_class", KINDS.values())
@pytest.mark.parametrize("loss", ["squared_hinge", "log_loss"])
def test_the_joint_loss_is_a_hinge(loss, multi_class):
    X, y, _ = examples()
    for estimator in (papers_linear, OnlineGradientClassifier):
        model = estimator(loss, multi_class=multi_class)
        if multi_class == "ovr":
            assert model.partial_fit(X, y, range(4)).coef_.shape == (4, 3)
            continue
        with pytest.raises(ValueError, match="multi_class='ovr'"):
            model.partial_fit(X, y, range(4))
        assert not hasattr(model, "classes_")
        # Of two classes there is one score, whatever the loss.
        assert model.partial_fit(X, y > 1, [False, True]).coef_.shape == (1, 3)


# -- bad values


@every_pair(
    kind=KINDS,
    estimator=[papers_linear, OnlineGradientClassifier],
    form=[np.asarray, sparse.csr_array],
    row=[0, 40, 79],
    value=[np.nan, np.inf, -np.inf, 1e300],
)
def test_bad_values(kind, estimator, form, row, value):
    X, y, _ = examples()
    bad = X.copy()
    bad[row, 1] = value
    match = "X contains NaN" if np.isnan(value) else "X must be finite|X contains infinity"
    for params in ({}, {"average": True}, {"max_iter": 3, "radius": None}, {"shards": 2}):
        model = estimator(multi_class=KINDS[kind])
        model.set_params(**{k: v for k, v in params.items() if k in model.get_params()})
        with pytest.raises(ValueError, match=match):
            model.fit(form(bad), y)
        assert not hasattr(model, "classes_")
        model.partial_fit(form(X), y, range(4))
        want = pickle.loads(pickle.dumps(model)).partial_fit(form(X[:9]), y[:9])
        with pytest.raises(ValueError, match=match):
            model.partial_fit(form(bad), y)
        assert same(model.partial_fit(form(X[:9]), y[:9]), want)


@pytest.mark.parametrize("value", [3, -1, 2**31 - 1])
@pytest.mark.parametrize("estimator", [papers_linear, OnlineGradientClassifier])
@pytest.mark.parametrize("kind", KINDS)
def test_bad_columns(kind, estimator, value):
    X, y, _ = examples()
    S = sparse.csr_array(X)
    S.indices[100] = value
    model = estimator(multi_class=KINDS[kind])
    for train in (model.fit, lambda X, y: model.partial_fit(X, y, range(4))):
        with pytest.raises(ValueError, match=r"X\b"):
            train(S, y)


# -- threads


@every_pair(form=[np.asarray, sparse.csr_array], loss=["hinge", "log_loss"], n_jobs=[2, 3, -1])
def test_problems_side_by_side_give_the_same_bits(form, loss, n_jobs):
    X, y, weights = examples(n=3000, n_classes=7, d=5)
    for params in ({}, {"average": True}, {"projection": True}, {"batch_size": 4}, {"tol": 0.3}):
        models = [
            model_of("ovr", loss=loss, n_jobs=threads, **{"max_iter": 50, **params})
            for threads in (1, n_jobs)
        ]
        for model in models:
            model.fit(form(X), y, weights).partial_fit(form(X[:100]), y[:100])
        assert same(*models)


# -- sparse rows of many columns, for which several classes of "ovr" share a trainer


def words(dtype=np.float32, n=600, d=700, n_classes=11):
    """Rows of some words each, as texts have them."""
    random = np.random.default_rng(3)
    X = sparse.random_array((n, d), density=0.03, rng=random, dtype=dtype, format="csr")
    scores = X @ random.normal(size=(d, n_classes)) + 0.3 * random.normal(size=(n, n_classes))
    return X, scores.argmax(axis=1)


@every_pair(
    loss=["hinge", "squared_hinge", "log_loss"],
    dtype=[np.float32, np.float64],
    params=[{}, {"average": True}, {"batch_size": 5}, {"shards": 2}, {"sampling": "replacement"}],
    n_jobs=[1, 2],
)
def test_classes_together_are_classes_apart(loss, dtype, params, n_jobs):
    X, y = words(dtype)
    model = model_of("ovr", loss=loss, alpha=0.01, n_jobs=n_jobs, **params).fit(X, y)
    weights, curve = model.coef_, model.loss_curve_
    model.partial_fit(X[:99], y[:99])
    losses = []
    for k in range(11):
        one = model_of("ovr", loss=loss, alpha=0.01, **params).fit(X, y == k)
        assert np.array_equal(one.coef_[0], weights[k])
        losses.append(one.loss_curve_)
        one.partial_fit(X[:99], y[:99] == k)
        assert np.array_equal(one.coef_[0], model.coef_[k])
        assert one.intercept_[0] == model.intercept_[k]
    assert np.allclose(curve, np.mean(losses, axis=0), rtol=1e-12)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "log_loss"])
@pytest.mark.parametrize("solver", ["auto", "dual"])
def test_ascent_for_classes_together(loss, solver):
    X, y = words(np.float64)
    params = {"loss": loss, "solver": solver, "tol": 1e-6, "max_iter": 10_000, "alpha": 1e-3}
    models = [model_of("ovr", n_jobs=n_jobs, **params).fit(X, y) for n_jobs in (1, 2)]
    assert same(*models)
    model = models[0]
    assert 0.0 <= model.duality_gap_ <= 1e-6 * model.objective_
    ones = [model_of("ovr", **params).fit(X, y == k) for k in range(11)]
    best = sum(one.dual_objective_ for one in ones)
    assert best - 1e-9 <= model.objective_ <= best * (1.0 + 3e-6)
    assert model.dual_objective_ <= sum(one.objective_ for one in ones)


@every_pair(
    kind=KINDS,
    first=[sparse.csr_array, sparse.csr_array.toarray],
    then=[sparse.csr_array, sparse.csr_array.toarray],
    average=[False, True],
    dtype=[np.float32, np.float64],
)
def test_streams_of_both_forms(kind, first, then, average, dtype):
    X, y = words(dtype)
    model = model_of(kind, alpha=0.01, average=average)
    want = model_of(kind, alpha=0.01, average=average)
    for at, form in [(0, first), (200, then), (400, first)]:
        rows = slice(at, at + 200)
        model.partial_fit(form(X[rows]), y[rows], range(11))
        model = pickle.loads(pickle.dumps(model))
        want.partial_fit(X[rows].toarray(), y[rows], range(11))
    assert np.allclose(model.coef_, want.coef_, rtol=1e-3, atol=1e-4 if dtype == np.float32 else 1e-9)
    scores = model.decision_function(X)
    assert np.allclose(scores, model.decision_function(X.toarray()), rtol=1e-4, atol=1e-4)
    assert scores.shape == (600, 11)


def test_a_ball_for_each_class():
    # Asked for later, it is one for each problem, though they have shared a trainer until then.
    X, y = words(np.float64)
    model = model_of("ovr", alpha=0.01, warm_start=True).fit(X, y)
    model.set_params(projection=True).fit(X, y)
    for k in range(11):
        one = model_of("ovr", alpha=0.01, warm_start=True).fit(X, y == k)
        one.set_params(projection=True).fit(X, y == k)
        assert np.allclose(one.coef_[0], model.coef_[k], rtol=1e-9, atol=1e-12)
        assert np.hypot(np.linalg.norm(model.coef_[k]), model.intercept_[k]) <= 10.0 + 1e-9


def test_models_of_both_forms_merge():
    X, y = words(np.float64)
    models = [
        model_of("ovr", alpha=0.01).fit(form(X[rows]), y[rows])
        for form, rows in [
            (sparse.csr_array, slice(0, 300)),
            (sparse.csr_array.toarray, slice(300, 600)),
        ]
    ]
    merged, swapped = merge(models), merge(models[::-1])
    want = (models[0].coef_ + models[1].coef_) / 2
    assert np.allclose(merged.coef_, want, rtol=1e-12)
    assert np.allclose(swapped.coef_, want, rtol=1e-12)
    alone = merge([models[0], models[0]])
    assert np.allclose(alone.coef_, models[0].coef_, rtol=1e-12)
    for model in (merged, swapped, alone):
        model.partial_fit(X[:50], y[:50])
        assert np.isfinite(model.coef_).all()


def test_columns_that_are_not_there():
    X, y = words(n_classes=5)
    for value in (700, 701, 1400, -1, 2**31 - 1):
        bad = X.copy()
        bad.indices[40] = value
        for kind in KINDS:
            for solver in ("pegasos", "dual"):
                with pytest.raises(ValueError, match=r"X\b"):
                    model_of(kind, solver=solver).fit(bad, y)
            model = model_of(kind).partial_fit(X, y, range(5))
            before = model.coef_.copy()
            with pytest.raises(ValueError, match=r"X\b"):
                model.partial_fit(bad, y)
            assert np.array_equal(model.coef_, before)


@pytest.mark.parametrize("C", [1, 100])
@pytest.mark.parametrize("form", [np.asarray, np.float32, sparse.csr_array])
@pytest.mark.parametrize("load", [load_iris, load_wine])
def test_raw_features_are_no_hindrance_to_a_joint_machine_of_few_weights(load, form, C):
    # Dual ascent alone ends at a gap of 0.02 to 1 after a hundred epochs.
    X, y = load(return_X_y=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = papers_linear(alpha=1 / (C * len(y)), max_iter=100, tol=1e-3).fit(form(X), y)
    assert model.duality_gap_ <= 1e-3 * model.objective_
    assert model.objective_ == pytest.approx(oracle.objective_of_model("jointly", model, X, y), rel=1e-4)
