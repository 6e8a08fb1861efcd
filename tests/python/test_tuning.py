"""Estimators that choose their own parameters: honest folds, scikit-learn's manners, and the probabilities that come of it."""

import warnings
from functools import partial

import numpy as np
import pytest
from scipy.sparse import coo_matrix, csr_array, random_array
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits, make_classification
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import accuracy_score, log_loss, make_scorer, roc_auc_score
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneOut,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedKFold,
    cross_val_predict,
    train_test_split,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, normalize, scale
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import pegasos
from pegasos.datasets import make_waveform
from pegasos import (
    KernelPegasosClassifier,
    KernelPegasosClassifierCV,
    PegasosClassifier,
    PegasosClassifierCV,
)
from pegasos._tuning import Task

ALPHAS = [1e-1, 1e-2, 1e-3]
GAMMAS = [0.01, 0.1]

FEW = [KernelPegasosClassifierCV([0.1], [1e-2], 20, cv=3, random_state=0), PegasosClassifierCV([1e-2], cv=3, random_state=0)]

FOLDS = "folds are of rows: a row twice is two, and one of them may be held out"


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore:.*least populated class:UserWarning")
@parametrize_with_checks(
    [
        PegasosClassifierCV(cv=3),
        KernelPegasosClassifierCV(cv=3, budget=20),
        KernelPegasosClassifierCV([0.1], [1e-2], None, 3),
    ],
    expected_failed_checks=lambda _: {
        "check_sample_weight_equivalence_on_dense_data": FOLDS,
        "check_sample_weight_equivalence_on_sparse_data": FOLDS,
    },
    xfail_strict=True,
)
def test_estimator_checks(estimator, check):
    check(estimator)


def digits():
    X, y = load_digits(return_X_y=True)
    return train_test_split(X / 16.0, y, random_state=0, stratify=y)


def plain_linear(X, y, train, test, alpha, **params):
    """The scores of one fold, by a fit of its own on copies of its rows."""
    model = PegasosClassifier(alpha=alpha, max_iter=100_000, solver="dual", random_state=0, **params)
    return model.fit(X[train], y[train]).decision_function(X[test])


@pytest.mark.parametrize(
    "params",
    [{}, {"loss": "hinge"}, {"loss": "log_loss"}, {"loss": "hinge", "multi_class": "crammer_singer"}, {"fit_intercept": False}],
    ids=str,
)
def test_linear_folds_are_fits_of_their_own(params, small):
    X, y = small
    folds = list(StratifiedKFold(3).split(X, y))
    # The hinge's optimum is a corner, which takes long to meet.
    params = params | {"tol": 1e-5 if params.get("loss") == "hinge" else 1e-9}
    tuned = PegasosClassifierCV(ALPHAS, cv=folds, max_iter=100_000, keep_scores=True, random_state=0, **params).fit(X, y)
    results = tuned.cv_results_
    assert results["param_alpha"].tolist() == ALPHAS
    for row, alpha in enumerate(ALPHAS):
        for k, (train, test) in enumerate(folds):
            scores = plain_linear(X, y, train, test, alpha, **params)
            near = 0.02 if params["tol"] > 1e-9 else 0.0
            assert abs(results[f"split{k}_test_score"][row] - accuracy_score(y[test], scores.argmax(axis=1))) <= near
            if alpha == tuned.alpha_:
                np.testing.assert_allclose(tuned.held_out_scores_[test], scores, atol=1e-3 if near == 0.0 else 0.02)
    means = results["mean_test_score"]
    assert tuned.best_score_ == means.max() and tuned.alpha_ == ALPHAS[means.argmax()]
    assert tuned.best_index_ == means.argmax() and results["rank_test_score"][tuned.best_index_] == 1
    again = PegasosClassifier(alpha=tuned.alpha_, max_iter=100_000, random_state=0, **params).fit(X, y)
    np.testing.assert_allclose(tuned.coef_, again.coef_, atol=1e-3 if near == 0.0 else 0.02)


def test_the_best_estimator_is_a_fit_with_the_best_parameters(small):
    X, y = small
    tuned = KernelPegasosClassifierCV(GAMMAS, ALPHAS, 50, 3, random_state=0).fit(X, y)
    best = tuned.best_estimator_
    again = clone(best).set_params(calibration=None).fit(X, y)
    assert (again.dual_coef_ == best.dual_coef_).all()
    assert (best.gamma, best.alpha, best.budget) == (tuned.gamma_, tuned.alpha_, 50)
    assert len(tuned.cv_results_["param_gamma"]) == len(GAMMAS) * len(ALPHAS)
    assert not np.isnan(tuned.cv_results_["mean_test_score"]).any()
    assert (tuned.predict(X) == best.predict(X)).all()
    assert (tuned.decision_function(X) == best.decision_function(X)).all()


@pytest.mark.parametrize("tuned", [PegasosClassifierCV, KernelPegasosClassifierCV])
def test_no_score_by_probabilities_that_there_are_not(tuned, small):
    X, y = small
    with pytest.raises(ValueError, match="scoring='neg_log_loss' asks for probabilities, .* got calibration=None"):
        tuned(scoring="neg_log_loss", calibration=None).fit(X, y % 2)
    # Others need none, and some losses have them.
    model = tuned(scoring="roc_auc", calibration=None, random_state=0).fit(X, y % 2)
    assert model.score(X, y % 2) > 0.5
    model = PegasosClassifierCV(scoring="neg_log_loss", loss="log_loss", calibration=None).fit(X, y % 2)
    assert model.score(X, y % 2) > -np.log(2.0)


def test_labels_that_mean_nothing_score_as_such():
    rng = np.random.RandomState(0)
    X, y = rng.randn(600, 5), rng.randint(0, 2, 600)
    for tuned in (KernelPegasosClassifierCV([0.1, 1.0], ALPHAS, 100, 5), PegasosClassifierCV(ALPHAS)):
        tuned.fit(X, y)
        # Of six models or three the best is by chance better than a half.
        assert tuned.best_score_ < 0.56
        assert abs(tuned.predict_proba(X)[:, 1] - 0.5).max() < 0.2


def test_as_good_as_a_grid_search_and_as_its_own_grid():
    X, X_test, y, y_test = digits()
    tuned = KernelPegasosClassifierCV(budget=300, random_state=0).fit(X, y)
    found = [
        KernelPegasosClassifier(gamma=g, alpha=a, budget=300, multi_class="crammer_singer", random_state=0).fit(X, y)
        for g, a in zip(tuned.cv_results_["param_gamma"], tuned.cv_results_["param_alpha"], strict=True)
        if g > 0.3 * tuned.gamma_
    ]
    best = max(model.score(X_test, y_test) for model in found)
    assert tuned.score(X_test, y_test) >= best - 0.01
    assert tuned.score(X_test, y_test) > 0.97
    assert abs(tuned.best_score_ - tuned.score(X_test, y_test)) < 0.02


@pytest.mark.parametrize("scoring", ["neg_log_loss", "roc_auc", "f1", "balanced_accuracy", "neg_brier_score"])
@pytest.mark.parametrize(
    "tuned",
    [
        KernelPegasosClassifierCV([0.05, 0.1], ALPHAS, 30, 3),
        KernelPegasosClassifierCV([0.05, 0.1], ALPHAS, None, 3),
        PegasosClassifierCV(ALPHAS, cv=3),
    ],
)
def test_any_scorer(tuned, scoring, two_classes):
    X, y = two_classes
    tuned = clone(tuned).set_params(scoring=scoring).fit(X, y)
    assert np.isfinite(tuned.best_score_) and np.isfinite(tuned.score(X, y))


def test_a_scorer_gets_what_it_would_of_an_estimator(two_classes):
    X, y = two_classes
    seen = []

    def scorer(estimator, X_test, y_test):
        seen.append((X_test.copy(), y_test.copy()))
        assert estimator.predict(X_test).shape == y_test.shape
        assert set(estimator.classes_) == {0, 1}
        return roc_auc_score(y_test, estimator.decision_function(X_test))

    tuned = PegasosClassifierCV([1e-2], cv=3, scoring=scorer).fit(X, y)
    assert len(seen) == 3
    for _, test in StratifiedKFold(3).split(X, y):
        assert any((rows == X[test]).all() and (labels == y[test]).all() for rows, labels in seen)
    named = PegasosClassifierCV([1e-2], cv=3, scoring="roc_auc").fit(X, y)
    assert named.best_score_ == tuned.best_score_
    made = PegasosClassifierCV([1e-2], cv=3, scoring=make_scorer(roc_auc_score, response_method="decision_function"))
    assert made.fit(X, y).best_score_ == tuned.best_score_


def test_splitters(small):
    X, y = small
    groups = np.arange(300) // 10
    model = PegasosClassifierCV(ALPHAS, cv=GroupKFold(4)).fit(X, y, groups=groups)
    assert model.n_splits_ == 4
    with pytest.raises(ValueError, match="groups"):
        PegasosClassifierCV(ALPHAS, cv=GroupKFold(4)).fit(X, y)
    repeated = PegasosClassifierCV(ALPHAS, cv=RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)).fit(X, y)
    assert repeated.n_splits_ == 6
    shuffled = KernelPegasosClassifierCV([0.1], ALPHAS, 20, ShuffleSplit(2, test_size=0.1, random_state=0), keep_scores=True)
    shuffled.fit(X, y)
    assert 0 < np.isnan(shuffled.held_out_scores_[:, 0]).sum() < 300
    some = np.r_[0:20, 100:120, 280:300]
    left_out = PegasosClassifierCV(ALPHAS, cv=LeaveOneOut()).fit(X[some], y[some])
    assert left_out.n_splits_ == 60
    with pytest.raises(ValueError, match="n_splits"):
        PegasosClassifierCV(cv=1000).fit(X, y)


def test_metadata_is_routed(small):
    import sklearn

    X, y = small
    weight = np.random.RandomState(0).rand(300)
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = make_scorer(accuracy_score).set_score_request(sample_weight=True)
        cv = GroupKFold(3).set_split_request(groups=True)
        tuned = PegasosClassifierCV(ALPHAS, cv=cv, scoring=scorer, random_state=0)
        tuned.set_fit_request(sample_weight=True).fit(X, y, sample_weight=weight, groups=np.arange(300) // 10)
    plain = PegasosClassifierCV(ALPHAS, cv=GroupKFold(3), random_state=0).fit(X, y, weight, groups=np.arange(300) // 10)
    np.testing.assert_allclose(plain.cv_results_["mean_test_score"], tuned.cv_results_["mean_test_score"])
    with pytest.raises(TypeError, match="enable_metadata_routing"):
        PegasosClassifierCV(ALPHAS).fit(X, y, color="blue")


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"alphas": [1.0, -1.0]}, "alphas must be 'auto', or numbers > 0"),
        ({"alphas": []}, "alphas must be"),
        ({"alphas": "many"}, "alphas"),
        ({"gammas": [np.nan]}, "gammas must be"),
        ({"gammas": [[1.0, 2.0]]}, "gammas must be"),
        ({"budget": 0}, "budget"),
        ({"budget": None, "kernel": "sigmoid"}, "budget=None needs a kernel that is an inner product"),
        ({"budget": None, "kernel": "poly", "coef0": -1.0}, "budget=None needs .* coef0=-1; give a budget"),
        ({"multi_class": "both"}, "multi_class"),
        ({"cv": 1}, "n_splits|k-fold"),
        ({"scoring": "beauty"}, "scoring"),
        ({"calibration": "magic"}, "calibration"),
        ({"rule": "worst"}, "rule"),
        ({"tol": 0.0}, "tol"),
        ({"kernel": "precomputed"}, "kernel"),
    ],
    ids=str,
)
def test_bad_parameters_are_named(params, said, small):
    X, y = small
    with pytest.raises(ValueError, match=said):
        KernelPegasosClassifierCV(**{"gammas": [0.1], "alphas": [1e-2], "cv": 3, **params}).fit(X, y)


@pytest.mark.parametrize("tuned", [KernelPegasosClassifierCV([0.1], [1e-2], 20), PegasosClassifierCV([1e-2])])
@pytest.mark.parametrize(
    ("cv", "said"),
    [
        ([(np.arange(200), np.arange(290, 310))], "cv must .* row numbers in 0..300, got 309"),
        ([(np.arange(150, 301), np.arange(100))], "cv must .* row numbers in 0..300, got 300"),
        ([(np.arange(-100, 0), np.arange(100))], "cv must .* row numbers in 0..300, got -100"),
        ([(np.arange(100), np.empty(0, int))], "cv must hold out some rows"),
        ([(np.arange(100.0), np.arange(100, 200))], "cv must .* row numbers"),
        ([(np.arange(100), np.arange(300).reshape(2, 150))], "cv must .* row numbers"),
        ([5], "cv must give pairs of lists of row numbers in 0..300"),
        ([(np.arange(100), np.arange(100, 200), np.arange(200, 300))], "cv must give pairs of lists of row numbers in 0..300"),
        ([(np.arange(100),)], "cv must give pairs of lists of row numbers in 0..300"),
        ([], "cv must hold out some rows"),
    ],
    ids=str,
)
def test_folds_that_are_none(tuned, cv, said, small):
    with pytest.raises(ValueError, match=said):
        clone(tuned).set_params(cv=cv).fit(*small)


@pytest.mark.parametrize("tuned", [KernelPegasosClassifierCV(), PegasosClassifierCV()])
def test_a_score_of_what_is_not_fitted(tuned, small):
    with pytest.raises(NotFittedError):
        tuned.score(*small)


def test_folds_may_be_masks(small):
    X, y = small
    part = np.arange(300) < 200
    by_mask = PegasosClassifierCV(ALPHAS, cv=[(part, ~part)], random_state=0).fit(X, y)
    by_number = PegasosClassifierCV(ALPHAS, cv=[(np.arange(200), np.arange(200, 300))], random_state=0).fit(X, y)
    np.testing.assert_array_equal(by_mask.cv_results_["mean_test_score"], by_number.cv_results_["mean_test_score"])


def test_scores_that_are_no_numbers(small):
    for tuned in (KernelPegasosClassifierCV([0.1], [1e-2], 20), PegasosClassifierCV([1e-2])):
        with pytest.raises(ValueError, match="scoring must give finite numbers, got nan"):
            tuned.set_params(scoring=lambda *_: float("nan")).fit(*small)
        for score in ("good", None, {"accuracy": 1.0}, np.ones(2)):
            with pytest.raises(ValueError, match="scoring must give a number, got "):
                tuned.set_params(scoring=lambda *_, score=score: score).fit(*small)
        assert tuned.set_params(scoring=lambda *_: np.array([0.5])).fit(*small).best_score_ == 0.5


@pytest.mark.parametrize("tuned", FEW, ids=["kernel", "linear"])
def test_a_scorer_may_ask_for_the_estimators_own_score(tuned, small):
    found = clone(tuned).set_params(scoring=lambda estimator, X, y: estimator.score(X, y)).fit(*small)
    assert found.best_score_ == clone(tuned).fit(*small).best_score_
    assert found.score(*small) == accuracy_score(small[1], found.predict(small[0]))


@pytest.mark.parametrize("tuned", FEW, ids=["kernel", "linear"])
def test_a_scorer_gets_rows_of_matrices_that_have_none(tuned, small):
    X, y = small
    scoring = make_scorer(accuracy_score)
    found = clone(tuned).set_params(scoring=scoring).fit(coo_matrix(X), y)
    assert found.best_score_ == clone(tuned).set_params(scoring=scoring).fit(csr_array(X), y).best_score_


@pytest.mark.parametrize("tuned", FEW, ids=["kernel", "linear"])
def test_one_weight_for_all_is_one_for_scorers_too(tuned, small):
    X, y = small
    for scoring in ("f1_macro", "neg_log_loss"):
        made = clone(tuned).set_params(scoring=scoring)
        assert made.fit(X, y, 2.0).best_score_ == made.fit(X, y, np.full(len(y), 2.0)).best_score_


@pytest.mark.parametrize("tuned", FEW, ids=["kernel", "linear"])
def test_folds_without_weight_are_refused_for_any_scorer(tuned, small):
    X, y = small
    weight = np.where(np.arange(len(y)) < 100, 0.0, 1.0)
    for scoring in (None, "f1_macro"):
        with pytest.raises(ValueError, match="sample_weight must be > 0 somewhere in both parts of every split"):
            clone(tuned).set_params(scoring=scoring, cv=KFold(3)).fit(X, y, weight)


@pytest.mark.parametrize("calibration", ["auto", "sigmoid", "temperature", "isotonic"])
@pytest.mark.parametrize("tuned", FEW, ids=["kernel", "linear"])
def test_one_row_may_be_held_out(tuned, calibration, small):
    X, y = small
    for scoring in (None, "neg_brier_score"):
        for labels in (y, y > 0):
            classes = np.unique(labels)
            score = make_scorer(lambda y, p: p.max(), response_method="predict_proba") if scoring else None
            made = clone(tuned).set_params(calibration=calibration, scoring=score, cv=[(np.arange(200), [250])])
            p = made.fit(X, labels).predict_proba(X)
            assert p.shape == (300, len(classes)) and p.sum(axis=1) == pytest.approx(np.ones(300))


@pytest.mark.parametrize("scoring", ["roc_auc", "neg_log_loss", "accuracy"])
def test_the_first_rows_have_what_a_score_needs(scoring):
    random = np.random.default_rng(0)
    X = random.standard_normal((20_000, 2))
    # A class of ten rows; and rows that count, where no others do.
    y = np.arange(20_000) % 2000 == 0
    X[y] += 3.0
    weight = (np.arange(20_000) % 1000 == 0).astype(float)
    made = KernelPegasosClassifierCV(budget=5, scoring=scoring, random_state=0)
    for own in (None, weight):
        assert np.isfinite(clone(made).fit(X, y, own).best_score_)


def test_distances_that_all_but_vanish_are_named(small):
    X, y = small
    with pytest.raises(ValueError, match="X must be of a scale .* finite, got distances of .*; scale the features"):
        KernelPegasosClassifierCV(budget=20).fit(1e-158 * X, y)


def test_rows_without_weight_may_come_first(small):
    X, y = small
    weight = np.ones(300)
    weight[:50] = 0.0
    for tuned in (KernelPegasosClassifierCV([0.1], [1e-2], 20), PegasosClassifierCV([1e-2])):
        assert tuned.fit(X, y, weight).best_score_ > 0.5


def test_bad_data_leave_the_estimator_as_it_was(small):
    X, y = small
    model = KernelPegasosClassifierCV([0.1], ALPHAS, 20, 3).fit(X, y)
    before = model.decision_function(X)
    bad = X.copy()
    bad[7, 3] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model.fit(bad, y)
    with pytest.raises(ValueError, match="class"):
        model.fit(X, np.zeros(300))
    with pytest.raises(ValueError, match="ample.weight"):
        model.fit(X, y, np.zeros(300))
    assert (model.decision_function(X) == before).all()


def test_in_the_manner_of_scikit_learn(small):
    X, y = small
    pipe = make_pipeline(StandardScaler(), KernelPegasosClassifierCV([0.1], ALPHAS, 20, 3)).fit(X, y)
    assert pipe.predict_proba(X).shape == (300, 3)
    grid = GridSearchCV(PegasosClassifierCV(ALPHAS, cv=3), {"loss": ["hinge", "squared_hinge"]}, cv=2).fit(X, y)
    assert grid.best_estimator_.alpha_ in ALPHAS
    assert cross_val_predict(PegasosClassifierCV(ALPHAS, cv=3), X, y, cv=2, method="predict_proba").shape == (300, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        frozen = CalibratedClassifierCV(FrozenEstimator(grid.best_estimator_)).fit(X, y)
    assert frozen.predict_proba(X).shape == (300, 3)


def test_the_best_estimator_can_be_saved_and_goes_on(small, tmp_path):
    X, y = small
    tuned = KernelPegasosClassifierCV([0.1], ALPHAS, 20, 3).fit(X, y)
    pegasos.save(tuned.best_estimator_, tmp_path / "best")
    again = pegasos.load(tmp_path / "best")
    assert (again.predict_proba(X) == tuned.predict_proba(X)).all()
    again.partial_fit(X, y)
    with pytest.raises(ValueError, match="best_estimator_"):
        pegasos.save(tuned, tmp_path / "tuned")


def test_paths_are_the_models_of_their_alphas(small):
    X, y = small
    alphas = np.geomspace(1.0, 1e-4, 6)
    for params in ({}, {"loss": "hinge", "multi_class": "crammer_singer"}, {"loss": "log_loss", "fit_intercept": False}):
        found = pegasos.path(X, y, alphas[::-1], tol=1e-6, **params)
        assert (found.alphas == alphas).all() and found.classes.tolist() == [0, 1, 2]
        for i, alpha in enumerate(alphas):
            model = PegasosClassifier(alpha=alpha, tol=1e-6, max_iter=100_000, **params).fit(X, y)
            assert found.duality_gaps[i] <= 1e-6 * found.objectives[i]
            # Each bounds the other.
            assert found.objectives[i] - found.duality_gaps[i] <= model.objective_ + 1e-12
            assert model.dual_objective_ <= found.objectives[i] + 1e-12
            np.testing.assert_allclose(found.coefs[i], model.coef_, atol=0.02 * abs(model.coef_).max())
    with pytest.warns(ConvergenceWarning, match="alpha = 1e-09 are short"):
        pegasos.path(X, y, [1e-9], loss="hinge", tol=1e-15)
    with pytest.raises(ValueError, match="alphas must be"):
        pegasos.path(X, y, [0.0])
    for search in (pegasos.path, lambda X, y, alphas: PegasosClassifierCV(alphas).fit(X, y)):
        with pytest.raises(ValueError, match="alphas must be"):
            search(X, y, [10**400])
    assert pegasos.path(X, y % 2, "auto").coefs.shape[1:] == (1, 8)


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge", "log_loss"])
def test_a_path_of_texts_takes_half_the_visits_of_models_by_themselves(loss):
    rng = np.random.RandomState(0)
    X = random_array((1500, 6000), density=0.008, format="csr", rng=rng, data_sampler=lambda size: np.ones(size))
    X = normalize(X.astype(np.float32))
    w = rng.randn(6000)
    y = (X @ w + 0.3 * rng.randn(1500) > 0).astype(int)
    alphas = 10.0 ** -(np.arange(6, 14) / 2)
    found = pegasos.path(X, y, alphas, loss=loss, random_state=0)
    alone = [pegasos.path(X, y, [alpha], loss=loss, random_state=0) for alpha in alphas]
    assert found.n_iter.sum() <= 0.5 * sum(model.n_iter[0] for model in alone)
    for i, model in enumerate(alone):
        assert found.duality_gaps[i] <= 1e-3 * found.objectives[i]
        assert found.objectives[i] - found.duality_gaps[i] <= model.objectives[0] * (1 + 1e-12)
        assert model.objectives[0] - model.duality_gaps[0] <= found.objectives[i] * (1 + 1e-12)


def test_calibrated_probabilities_are_right_as_often_as_they_say():
    X, y = make_waveform(3000, 0)
    X_test, y_test = make_waveform(10_000, 1)
    p = KernelPegasosClassifierCV(random_state=0).fit(X, y).predict_proba(X_test)
    sure, right = p.max(axis=1), p.argmax(axis=1) == y_test
    bins = np.digitize(sure, np.linspace(0, 1, 11)[1:-1])
    assert sum(abs((sure - right)[bins == b].sum()) for b in range(10)) / len(p) < 0.03
    assert log_loss(y_test, p) < log_loss(y_test, CalibratedClassifierCV(SVC()).fit(X, y).predict_proba(X_test))


@pytest.mark.parametrize(
    "tuned",
    [
        KernelPegasosClassifierCV(GAMMAS * 20, np.geomspace(1e-2, 1e-6, 9), 200, 3, random_state=0),
        KernelPegasosClassifierCV(GAMMAS, np.geomspace(1e-2, 1e-4, 3), None, 3, random_state=0),
        PegasosClassifierCV(np.geomspace(1e-2, 1e-9, 40), loss="hinge", tol=1e-9, random_state=0),
    ],
    ids=["kernel", "exact", "linear"],
)
def test_ctrl_c_keeps_the_best_so_far(tuned):
    X, y = make_waveform(4000, 0)
    tuned = clone(tuned)
    seen = []

    def scoring(estimator, X, y):
        seen.append(1)
        if len(seen) == 12:
            raise KeyboardInterrupt
        return accuracy_score(y, estimator.predict(X))

    if isinstance(tuned, PegasosClassifierCV):
        # The first fold is worth more than nothing.
        tuned.set_params(alphas=np.geomspace(1e-1, 1e-2, 8))
    with pytest.warns(UserWarning, match="interrupted"), pytest.raises(KeyboardInterrupt):
        tuned.set_params(scoring=scoring).fit(X, y)
    assert tuned.score(X, y) > 0.7
    assert tuned.alpha_ == tuned.best_estimator_.alpha
    assert tuned.predict_proba(X).shape == (4000, 3)


def test_a_path_warns_whoever_called_it(small):
    X, y = small
    with pytest.warns(ConvergenceWarning, match="short of tol") as caught:
        pegasos.path(1e8 * X[:60], y[:60], [1e-6], random_state=0)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("where", ["the last fit", "calibration"])
@pytest.mark.parametrize("tuned", FEW, ids=["kernel", "linear"])
def test_ctrl_c_after_the_search_takes_nothing_away(tuned, where, small, monkeypatch):
    X, y = small
    want = clone(tuned).fit(X, y)
    kind, name = (Task, "calibration") if where == "calibration" else (type(want.best_estimator_), "fit")
    real, calls = getattr(kind, name), []

    def interrupted(*args):
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return real(*args)

    monkeypatch.setattr(kind, name, interrupted)
    model = clone(tuned)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert len(calls) == 2 and model.best_score_ == want.best_score_
    assert (model.predict_proba(X) == want.predict_proba(X)).all()


def test_ctrl_c_at_once_leaves_nothing(small):
    def scoring(estimator, X, y):
        raise KeyboardInterrupt

    model = PegasosClassifierCV(ALPHAS, scoring=scoring)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*small)
    assert not hasattr(model, "classes_")


@pytest.mark.parametrize("kernel", [False, True])
def test_rows_without_weight_have_no_part_in_probabilities(kernel):
    X, y = make_waveform(600, 0)
    y = (y > 0).astype(int)
    weight = (np.random.default_rng(0).random(len(y)) >= 0.5).astype(float)
    other = np.where(weight == 0.0, 1 - y, y)
    made = partial(KernelPegasosClassifierCV, [0.01], budget=20) if kernel else PegasosClassifierCV
    for scoring, calibration in (("neg_log_loss", "sigmoid"), (None, "auto")):
        fits = [
            made(alphas=[1e-2, 1e-3], scoring=scoring, calibration=calibration, cv=KFold(3), random_state=0).fit(X, labels, weight)
            for labels in (y, other)
        ]
        assert fits[0].alpha_ == fits[1].alpha_ and (fits[0].predict_proba(X) == fits[1].predict_proba(X)).all()
        if scoring is None:
            assert fits[0].best_score_ == fits[1].best_score_


def test_nothing_is_left_of_an_earlier_fit():
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    model = PegasosClassifierCV([1e-3], keep_scores=True).fit(X, y)
    assert model.held_out_scores_.shape == (len(y),)
    assert not hasattr(model.set_params(keep_scores=False).fit(X[:50], y[:50]), "held_out_scores_")
    kernel = KernelPegasosClassifier(budget=20, random_state=0).fit(X, y).refit(X, y, alpha=[1e-3, 1e-4])
    assert len(kernel.refit_path_["alpha"]) == 2
    assert not hasattr(kernel.set_params(budget=None).fit(X, y), "refit_path_")


@pytest.mark.parametrize(
    ("tuned", "said"),
    [
        (PegasosClassifierCV(cv=3), "overflows.*scale the features"),
        (KernelPegasosClassifierCV(cv=3, budget=500), "overflows.*scale the features"),
        (KernelPegasosClassifierCV(cv=3), "sample_weight must be at most 1e37 where there are kernels"),
    ],
)
def test_numbers_that_overflow_in_a_search_are_explained(tuned, said):
    X, y = make_classification(60, 4, random_state=0)
    with pytest.raises(ValueError, match=said):
        tuned.fit(X, y, np.full(60, 1e300))
