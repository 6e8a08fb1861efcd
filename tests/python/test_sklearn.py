"""The estimator behaves as scikit-learn's users expect of one."""

import copy
import inspect
import io
import pickle
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from conftest import papers_linear
from pegasos import OnlineGradientClassifier, PegasosClassifier

WEIGHTS = (
    "as for scikit-learn's own SGD models, weights and repetitions visit examples in different "
    "orders"
)
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": WEIGHTS,
    "check_sample_weight_equivalence_on_sparse_data": WEIGHTS,
}
# With class weights of 1000 and rows of norm 20, steps of 1 leap from one end of the ball to the
# other: the theory's D/G is 1e-4.
STEPS = {(OnlineGradientClassifier, "check_class_weight_classifiers"): 1e-4}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [
        PegasosClassifier(),
        papers_linear(),
        papers_linear(multi_class="ovr"),
        papers_linear("log_loss", multi_class="ovr", average=True),
        papers_linear("squared_hinge"),
        papers_linear(solver="pegasos"),
        papers_linear(solver="dual"),
        papers_linear("log_loss", solver="dual", multi_class="ovr"),
        papers_linear(alpha=1.0, shards=2, tol=None, max_iter=20),
        # With tol, the check's class weights of 1000 end it early: its loss leaps before it falls.
        papers_linear(alpha=1.0, sampling="blocks", batch_size=8, projection=True, tol=None),
        OnlineGradientClassifier(),
        OnlineGradientClassifier(delay=3, max_iter=10),
        OnlineGradientClassifier("log_loss", multi_class="ovr", radius=10.0, delay=3, max_iter=10),
    ],
    expected_failed_checks=lambda _: EXPECTED_FAILURES,
    xfail_strict=True,
)
def test_estimator_checks(estimator, check):
    if (type(estimator), check.func.__name__) in STEPS:
        estimator.set_params(eta0=STEPS[type(estimator), check.func.__name__])
    check(estimator)


def model_of(**params):
    return papers_linear(**{"alpha": 0.05, "tol": None, "max_iter": 4, **params})


def same(a, b):
    """Whether two models are equal to the last bit."""
    return (
        a.coef_.dtype == b.coef_.dtype
        and a.coef_.tobytes() == b.coef_.tobytes()
        and a.intercept_.tobytes() == b.intercept_.tobytes()
        and np.array_equal(a.classes_, b.classes_)
        and (a.t_, a.n_iter_, a.loss_curve_) == (b.t_, b.n_iter_, b.loss_curve_)
    )


def pickled(model):
    return pickle.loads(pickle.dumps(model))


def dumped(model):
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    return joblib.load(file)


CONFIGURATIONS = [
    {},
    {"average": True},
    {"average": 50, "loss": "log_loss"},
    {"projection": True, "batch_size": 7, "average": "uniform"},
    {"learning_rate": "constant", "eta0": 10.0, "loss": "log_loss"},
    {"loss": "squared_hinge"},
    {"solver": "dual"},
    {"solver": "dual", "multi_class": "ovr", "loss": "log_loss"},
    {"shards": 3, "average": True},
    {"multi_class": "ovr"},
    {"multi_class": "ovr", "loss": "log_loss", "average": True, "sampling": "blocks"},
    {"multi_class": "crammer_singer"},
    {"multi_class": "crammer_singer", "projection": True, "average": "uniform", "batch_size": 7},
]


@pytest.mark.parametrize("duplicate", [pickled, dumped, copy.deepcopy])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("params", CONFIGURATIONS, ids=str)
def test_copies_go_on_alike(params, dtype, duplicate, three_classes):
    X, y = three_classes
    X, y = X.astype(dtype), y if params.get("multi_class") else y % 2
    model = model_of(random_state=1, **params).fit(X, y)
    twin = duplicate(model)
    assert same(twin, model)
    assert twin.get_params() == model.get_params()
    assert np.array_equal(twin.decision_function(X), model.decision_function(X))
    for rows in (slice(10, 40), slice(0, 90)):
        model.partial_fit(X[rows], y[rows])
        assert not same(twin, model)
        twin.partial_fit(X[rows], y[rows])
        assert same(twin, model)
    # Dual ascent does not go on from given weights.
    going_on = {"warm_start": True, "solver": "auto"}
    model.set_params(**going_on).fit(X, y)
    twin.set_params(**going_on).fit(X, y)
    assert same(twin, model)


@pytest.mark.parametrize("duplicate", [pickled, dumped, copy.deepcopy])
def test_copies_keep_the_certificate(duplicate, two_classes):
    X, y = two_classes
    model = papers_linear(alpha=0.05, tol=0.1).fit(X, y)
    twin = duplicate(model)
    assert twin.duality_gap_ == model.duality_gap_ > 0.0
    assert twin.objective_ == model.objective_


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "params", [{}, {"batch_size": 2}, {"learning_rate": "constant", "eta0": 1e-3}], ids=str
)
def test_copies_of_weights_that_cancel_out(params, dtype):
    # Whatever is carried along in rounded arithmetic may end a rounding below 0.
    for seed in range(30):
        X = np.repeat(np.random.default_rng(seed).normal(size=(1, 3)), 2, axis=0).astype(dtype)
        model = model_of(random_state=seed, **params).fit(10.0 * X, [0, 1])
        assert same(pickled(model), model)


def test_clones_have_the_parameters_alone(two_classes):
    X, y = two_classes
    model = model_of(random_state=1, sampling=np.arange(60), average=3).fit(X, y)
    twin = clone(model)
    with pytest.raises(NotFittedError):
        twin.predict(X)
    with pytest.raises(NotFittedError):
        twin.coef_
    assert same(twin.fit(X, y), model)


def test_parameters_are_the_signature():
    names = list(inspect.signature(PegasosClassifier).parameters)
    assert sorted(papers_linear().get_params()) == sorted(names)
    for name in names:
        marker = object()
        model = papers_linear(**{name: marker})
        assert model.get_params(deep=False)[name] is marker
        assert getattr(papers_linear().set_params(**{name: marker}), name) is marker


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_shapes(dtype, fit_intercept, two_classes, three_classes):
    for (X, y), problems in ((two_classes, 1), (three_classes, 3)):
        model = model_of(loss="log_loss", multi_class="ovr", fit_intercept=fit_intercept)
        model.fit(X.astype(dtype), y)
        n_classes = max(2, problems)
        assert model.coef_.shape == (problems, 4)
        assert model.intercept_.shape == (problems,)
        assert model.coef_.dtype == model.intercept_.dtype == dtype
        assert model.classes_.tolist() == list(range(n_classes))
        assert model.n_features_in_ == 4
        assert model.t_ == 4 * len(y)
        assert model.n_iter_ == len(model.loss_curve_) == 4
        assert np.any(model.intercept_) == fit_intercept
        scores = model.decision_function(X)
        assert scores.shape == ((len(y),) if problems == 1 else (len(y), 3))
        assert np.mean(model.predict(X) == y) == model.score(X, y) > 0.8


@pytest.mark.parametrize("estimator", [papers_linear, OnlineGradientClassifier])
@pytest.mark.parametrize("loss", ["squared_hinge", "log_loss"])
def test_more_than_two_classes_need_one_vs_rest_but_for_the_hinge(loss, estimator, three_classes):
    X, y = three_classes
    for use in (lambda model: model.fit(X, y), lambda model: model.partial_fit(X, y, [0, 1, 2])):
        with pytest.raises(ValueError, match="multi_class='ovr'"):
            use(estimator(loss))
        assert use(estimator(tol=None)).coef_.shape == (3, 4)
        assert use(estimator(loss, tol=None, multi_class="ovr")).coef_.shape == (3, 4)


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_warm_start(form, average, two_classes):
    X, y = two_classes
    X = form(X)
    warm = model_of(random_state=0, warm_start=True, average=average).fit(X, y)
    before = warm.coef_
    warm.fit(X[:50], y[:50])
    assert warm.t_ == 4 * 60 + 4 * 50
    assert warm.n_iter_ == 4
    cold = model_of(random_state=0, average=average).fit(X, y)
    assert np.array_equal(before, cold.coef_)
    assert not np.array_equal(warm.coef_, before)
    cold.fit(X, y)
    assert np.array_equal(cold.coef_, before)
    assert cold.t_ == 4 * 60


def test_warm_start_keeps_the_classes(two_classes):
    X, y = two_classes
    model = model_of(warm_start=True).fit(X, y)
    model.fit(X[y == 1], y[y == 1])
    assert model.classes_.tolist() == [0, 1]
    with pytest.raises(ValueError, match="classes"):
        model.fit(X, y + 1)


@pytest.mark.parametrize("on", ["fit", "partial_fit"])
@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("alpha", 0.05, 1.0),
        ("loss", "hinge", "log_loss"),
        ("batch_size", 1, 5),
        ("projection", False, True),
        ("learning_rate", "pegasos", "constant"),
        ("average", False, True),
        ("average", True, 1),
        ("t0", 0.0, 50.0),
    ],
)
def test_changed_parameters_are_not_ignored(name, before, after, on, two_classes):
    X, y = two_classes
    model, other = (model_of(warm_start=True, random_state=0, **{name: before}) for _ in range(2))
    model.fit(X, y).set_params(**{name: after})
    other.fit(X, y)
    getattr(model, on)(X, y)
    getattr(other, on)(X, y)
    assert not np.array_equal(model.coef_, other.coef_)


@pytest.mark.parametrize("on", ["fit", "partial_fit"])
@pytest.mark.parametrize(
    "change",
    [{"fit_intercept": False}, {"intercept_scaling": 2.0}, {"multi_class": "ovr"}],
    ids=str,
)
def test_what_weights_mean_cannot_change(change, on, two_classes):
    X, y = two_classes
    model = model_of(warm_start=True).fit(X, y)
    before = model.decision_function(X)
    with pytest.raises(ValueError, match=next(iter(change))):
        getattr(model.set_params(**change), on)(X, y)
    assert np.array_equal(model.decision_function(X), before)


def test_fit_and_partial_fit_mix(two_classes):
    X, y = two_classes
    model = papers_linear(alpha=0.05, tol=0.1).fit(X, y)
    before = model.t_
    for n in (1, 60, 7):
        model.partial_fit(X[:n], y[:n])
    assert model.t_ == before + 68
    assert model.fit(X, y).t_ == model.n_iter_ * 60


def test_fit_within_an_exception_handler(two_classes):
    X, y = two_classes
    model = model_of(random_state=0)
    try:
        raise ValueError
    except ValueError:
        model.fit(X, y)
    assert same(model, model_of(random_state=0).fit(X, y))


def test_pipeline_and_searches(two_classes):
    X, y = two_classes
    pipeline = make_pipeline(StandardScaler(), model_of(random_state=0))
    assert pipeline.fit(1e3 * X + 7.0, y).score(1e3 * X + 7.0, y) > 0.8
    assert cross_val_score(model_of(random_state=0), X, y, cv=3).mean() > 0.7
    search = GridSearchCV(
        pipeline,
        {"pegasosclassifier__alpha": [1e-2, 1e6], "pegasosclassifier__loss": ["hinge", "log_loss"]},
        cv=3,
        n_jobs=2,
    )
    # With the huge alpha the intercept decides, the classes being of unlike size.
    few = np.flatnonzero((y == 1) | (np.arange(len(y)) % 3 == 0))
    search.fit(X[few], y[few])
    assert search.best_params_["pegasosclassifier__alpha"] == 1e-2
    assert search.best_score_ > 0.7


def test_calibration(two_classes, three_classes):
    for X, y in (two_classes, three_classes):
        calibrated = CalibratedClassifierCV(model_of(multi_class="ovr", random_state=0), cv=3)
        probabilities = calibrated.fit(X, y).predict_proba(X)
        assert np.allclose(probabilities.sum(axis=1), 1.0)
        assert np.mean(probabilities.argmax(axis=1) == y) > 0.7


def test_probabilities_are_for_log_loss_alone(two_classes, three_classes):
    X, y = two_classes
    for loss in ("hinge", "squared_hinge"):
        model = model_of(loss=loss).fit(X, y)
        assert not hasattr(model, "predict_proba")
        assert not hasattr(model, "predict_log_proba")
        # `available_if` hides the reason behind the attribute's name.
        with pytest.raises(AttributeError, match="predict_proba"):
            model.predict_proba(X)
    model = model_of(loss="log_loss").fit(X, y)
    positive = expit(model.decision_function(X))
    assert np.allclose(model.predict_proba(X), np.column_stack([1.0 - positive, positive]))
    assert np.array_equal(model.predict_log_proba(X), np.log(model.predict_proba(X)))
    X, y = three_classes
    model = model_of(loss="log_loss", multi_class="ovr").fit(X, y)
    each = expit(model.decision_function(X))
    assert np.allclose(model.predict_proba(X), each / each.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("sampling", ["shuffle", "blocks", "replacement"])
@pytest.mark.parametrize("multi_class", ["crammer_singer", "ovr"])
def test_random_state(multi_class, sampling, three_classes):
    X, y = three_classes
    # So many rows that no two orders of their blocks are alike by chance.
    X, y = np.tile(X, (10, 1)), np.tile(y, 10)
    params = {"multi_class": multi_class, "sampling": sampling}

    def fit(random_state, **more):
        return model_of(random_state=random_state, **params, **more).fit(X, y)

    assert same(fit(7), fit(7))
    assert same(fit(np.random.RandomState(7)), fit(7))
    assert not np.array_equal(fit(7).coef_, fit(8).coef_)
    assert not np.array_equal(fit(None).coef_, fit(None).coef_)
    assert same(fit(7, n_jobs=1), fit(7, n_jobs=2))
    assert same(fit(7, n_jobs=1), fit(7, n_jobs=-1))


def test_an_estimator_given_a_generator_draws_from_it(two_classes):
    X, y = two_classes
    model = model_of(random_state=np.random.RandomState(7))
    first = model.fit(X, y).coef_
    assert not np.array_equal(model.fit(X, y).coef_, first)


@pytest.mark.parametrize("n_jobs", [None, 1, 2, -1])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("multi_class", ["crammer_singer", "ovr"])
@pytest.mark.parametrize(
    ("params", "steps"),
    [
        ({"batch_size": 3, "average": True}, 1667),
        ({"batch_size": 3, "average": True, "shards": 2}, 1667),
        ({"solver": "dual"}, 5000),
        ({"solver": "dual", "tol": 0.5}, 5000),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_threads_change_no_bit(params, steps, multi_class, form, n_jobs):
    # Enough rows that a fit is divided into several pieces.
    random = np.random.default_rng(0)
    X, y = random.normal(size=(5000, 3)), random.integers(5, size=5000)
    params = {"multi_class": multi_class, "random_state": 0, **params}
    model = model_of(n_jobs=n_jobs, **params).fit(form(X), y)
    assert model.t_ == model.n_iter_ * steps
    assert same(model, model_of(n_jobs=1, **params).fit(form(X), y))


@pytest.mark.parametrize("multi_class", ["crammer_singer", "ovr"])
def test_losses_are_on_one_scale_whatever_the_solver(multi_class, three_classes):
    X, y = three_classes
    params = {"multi_class": multi_class, "max_iter": 200, "random_state": 0}
    losses = [
        model_of(solver=solver, **params).fit(X, y).loss_curve_[-1]
        for solver in ("pegasos", "dual")
    ]
    assert losses[0] == pytest.approx(losses[1], rel=0.1)


def test_early_stopping(two_classes):
    X, y = two_classes
    X, y = np.tile(X, (5, 1)), np.tile(y, 5)
    params = {"early_stopping": True, "tol": 1e-3, "max_iter": 500, "random_state": 0}
    model = model_of(validation_fraction=0.2, n_iter_no_change=4, **params).fit(X, y)
    assert 4 < model.n_iter_ < 500
    assert model.t_ == model.n_iter_ * 240
    assert model.score(X, y) > 0.8
    patient = model_of(validation_fraction=0.2, n_iter_no_change=40, **params).fit(X, y)
    assert patient.n_iter_ > model.n_iter_ >= 5
    again = model_of(validation_fraction=0.2, n_iter_no_change=4, **params).fit(X, y)
    assert same(again, model)
    weighted = model_of(n_iter_no_change=4, **params).fit(
        sparse.csr_array(X), y, sample_weight=np.linspace(0.1, 2.0, len(y))
    )
    assert weighted.t_ == weighted.n_iter_ * 270


def test_early_stopping_short_of_the_end_warns(two_classes):
    X, y = two_classes
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        model_of(early_stopping=True, tol=1e-3, max_iter=2).fit(X, y)


def test_early_stopping_with_fewer_rows_than_classes_held_out(two_classes):
    X, y = two_classes
    with pytest.raises(ValueError, match="early_stopping=True .* validation_fraction=0.01"):
        model_of(early_stopping=True, validation_fraction=0.01, tol=1e-3).fit(X, y)
    with pytest.raises(ValueError, match="early_stopping=True .* rows of every class"):
        model_of(early_stopping=True, tol=1e-3).fit(X, np.arange(len(y)) == 0)


@pytest.mark.parametrize("row", [0, 7])
def test_early_stopping_with_weight_in_one_part_alone(row, two_classes):
    X, y = two_classes
    for seed in range(9):
        with pytest.raises(ValueError, match="sample_weight must be > 0 somewhere in the held-out part .* in the rest"):
            model_of(early_stopping=True, tol=1e-3, random_state=seed).fit(X, y, np.eye(len(y))[row])


def test_the_order_of_rows_some_of_which_are_held_out(two_classes):
    X, y = two_classes
    params = {"tol": None, "max_iter": 1, "solver": "pegasos", "alpha": 0.1, "t0": 0.0}
    model = PegasosClassifier(sampling="storage", early_stopping=True, random_state=0, **params).fit(X, y)
    random = np.random.RandomState(0)
    random.randint(np.iinfo(np.int64).max, dtype=np.int64)
    rows, _ = train_test_split(np.arange(len(y)), test_size=0.1, stratify=y, random_state=random)
    rows.sort()
    assert same(model, PegasosClassifier(sampling="storage", random_state=0, **params).fit(X[rows], y[rows]))
    # Numbers of rows are those of X.
    with pytest.raises(ValueError, match="sampling must be one of the words with early_stopping=True"):
        PegasosClassifier(sampling=np.arange(30), early_stopping=True, **params).fit(X, y)


@pytest.mark.parametrize("solver", ["pegasos", "dual", "auto"])
@pytest.mark.parametrize("tol", [None, 0.1])
def test_verbose(tol, solver, two_classes, capsys):
    X, y = two_classes
    model_of(tol=tol, solver=solver, max_iter=50, verbose=1).fit(X, y)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "PegasosClassifier" in captured.err
    assert "rows/s" in captured.err
    assert ("gap=" in captured.err) == (tol is not None)
    model_of(tol=tol, max_iter=50).fit(X, y)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("solver", ["pegasos", "dual", "auto"])
@pytest.mark.parametrize("multi_class", ["crammer_singer", "ovr"])
@pytest.mark.parametrize("tol", [None, 0.1])
def test_the_bar_of_a_fit_that_is_over_is_full(tol, multi_class, solver, three_classes, capsys):
    X, y = three_classes
    params = {"solver": solver, "multi_class": multi_class}
    model_of(tol=tol, max_iter=200, verbose=1, **params).fit(X, y)
    assert "PegasosClassifier: 100%" in capsys.readouterr().err


def test_verbose_counts_rows_once_for_all_classes(three_classes, capsys):
    X, y = three_classes
    for params in ({"multi_class": "ovr"}, {}, {"shards": 2}):
        model_of(n_jobs=2, verbose=1, **params).fit(X, y)
        assert "360/360" in capsys.readouterr().err


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_feature_names(frame, two_classes):
    X, y = two_classes
    names = ["a", "b", "c", "d"]
    table = frame(dict(zip(names, X.T, strict=True)))
    model = model_of(random_state=0).fit(table, y)
    assert model.feature_names_in_.tolist() == names
    assert same(model, model_of(random_state=0).fit(X, y))
    assert model.score(table, y) > 0.8
    other = table[["b", "a", "c", "d"]]
    for use in (model.predict, model.decision_function):
        with pytest.raises(ValueError, match="feature names"):
            use(other)
    with pytest.raises(ValueError, match="feature names"):
        model.partial_fit(other, y)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(table[names[:3]])
    with pytest.warns(UserWarning, match="feature names"):
        model.predict(X)
    assert not hasattr(model_of().fit(X, y), "feature_names_in_")


@pytest.mark.parametrize("series", [pd.Series, pl.Series, list])
def test_labels_and_weights_in_columns(series, two_classes):
    X, y = two_classes
    names, weights = np.array(["no", "yes"])[y], np.linspace(0.0, 2.0, len(y))
    model = model_of(random_state=0)
    model.fit(X, series(names.tolist()), sample_weight=series(weights.tolist()))
    assert model.classes_.tolist() == ["no", "yes"]
    assert set(model.predict(X)) == {"no", "yes"}
    plain = model_of(random_state=0).fit(X, y, sample_weight=weights)
    assert np.array_equal(model.coef_, plain.coef_)


def test_same_objective_as_sgd_classifier(two_classes):
    X, y = two_classes
    ours = papers_linear("log_loss", alpha=0.1, tol=1e-5, max_iter=5000, random_state=0)
    ours.fit(X, y)
    theirs = SGDClassifier("log_loss", alpha=0.1, max_iter=5000, tol=1e-9, random_state=0)
    # Their intercept is not regularised.
    ones = np.column_stack([X, np.ones(len(y))])
    theirs.set_params(fit_intercept=False, learning_rate="invscaling", eta0=1.0).fit(ones, y)
    assert np.allclose(np.append(ours.coef_, ours.intercept_), theirs.coef_[0], atol=0.02)


def test_python_threads(two_classes, three_classes):
    def fit(seed):
        X, y = three_classes if seed % 2 else two_classes
        return model_of(multi_class="ovr", max_iter=50, n_jobs=2, random_state=seed).fit(X, y)

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(fit, range(16)))
    assert all(same(model, fit(seed)) for seed, model in enumerate(together))


def test_a_model_in_use_while_it_learns():
    random = np.random.default_rng(0)
    X = random.normal(size=(200_000, 20))
    y = (X[:, 0] > 0).astype(int)
    model = model_of().partial_fit(X, y, classes=[0, 1])
    used = 0
    with ThreadPoolExecutor(1) as pool:
        for _ in range(5):
            learning = pool.submit(model.partial_fit, X, y)
            while not learning.done():
                assert model.predict(X[:5]).shape == (5,)
                used += 1
                # A thread that never rests can keep the interpreter from all others for seconds.
                time.sleep(0.001)
            learning.result()
    assert used > 5


def test_fit_in_a_forked_child(run_script):
    done = run_script(
        """
from conftest import papers_linear
import multiprocessing
import numpy as np
from pegasos import PegasosClassifier

random = np.random.default_rng(0)
X, y = random.normal(size=(2000, 5)), random.integers(4, size=2000)

def fit(_=None):
    coef = b""
    for params in ({}, {"solver": "dual"}, {"shards": 2}, {"shards": 2, "n_jobs": 1}):
        params = {"multi_class": "ovr", "n_jobs": 2, "max_iter": 3, "tol": None, **params}
        coef += papers_linear(random_state=0, **params).fit(X, y).coef_.tobytes()
    return coef

here = fit()
fork = multiprocessing.get_context("fork")
with fork.Pool(2) as pool:
    there = pool.map_async(fit, range(4)).get(timeout=30)
assert there == [here] * 4
assert fit() == here
print("done")
""",
        PYTHONWARNINGS="ignore",
    )
    assert done.stdout == "done\n", done.stderr


def test_no_warning_on_a_good_fit(two_classes):
    X, y = two_classes
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        papers_linear(alpha=0.05, tol=0.05).fit(X, y).predict(X)
