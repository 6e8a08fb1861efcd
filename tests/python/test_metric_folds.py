"""Metrics that the folds of a search learn for themselves."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from pegasos import KernelPegasosClassifierCV


@pytest.mark.parametrize("metric", ["diagonal", "full", "auto"])
def test_folds_learn_metrics_of_their_own(board_and_noise, metric):
    X, y, X_test, y_test = board_and_noise
    # Of fewer rows to a fold the two columns do not show.
    params = {"gammas": [0.02, 0.2], "alphas": [1e-3, 1e-4], "budget": 100, "cv": 2, "random_state": 0}
    tuned = KernelPegasosClassifierCV(metric=metric, **params).fit(X, y)
    best = tuned.best_estimator_
    assert tuned.gamma_ in params["gammas"] and best.gamma == tuned.gamma_ and best.alpha_ == tuned.alpha_
    own, others = best.feature_importances_[:2], best.feature_importances_[2:]
    assert own.min() > 2.0 * others.mean()
    if metric != "full":
        assert tuned.best_score_ > 0.7 and tuned.score(X_test, y_test) > tuned.best_score_ - 0.05
        assert KernelPegasosClassifierCV(**params).fit(X, y).best_score_ < 0.6
    np.testing.assert_allclose(tuned.predict_proba(X_test).sum(axis=1), 1.0)
    two = KernelPegasosClassifierCV(metric=metric, **params, n_jobs=2).fit(X, y)
    assert two.decision_function(X).tobytes() == tuned.decision_function(X).tobytes()


def test_nothing_of_a_fold_comes_from_the_rows_that_it_holds_out(half_tell):
    X, y = half_tell
    train, test = np.arange(400), np.arange(400, 600)
    params = {"gammas": [0.2], "alphas": [1e-3], "budget": 40, "cv": [(train, test)], "random_state": 0}
    params |= {"metric": "full", "metric_rounds": 2, "keep_scores": True}
    first = KernelPegasosClassifierCV(**params).fit(X, y).held_out_scores_[test]
    other, labels = X.copy(), y.copy()
    other[500:] *= 3.0
    labels[500:] = (labels[500:] + 1) % 3
    second = KernelPegasosClassifierCV(**params).fit(other, labels).held_out_scores_[test]
    np.testing.assert_array_equal(second[:100], first[:100])
    assert not np.array_equal(second[100:], first[100:])


def test_folds_refuse_what_fits_do(half_tell):
    X, y = half_tell
    with pytest.raises(ValueError, match="metric='full' needs kernel='rbf'"):
        KernelPegasosClassifierCV(metric="full", kernel="poly").fit(X, y)
    with pytest.raises(ValueError, match="needs dense rows"):
        KernelPegasosClassifierCV(metric="full").fit(csr_matrix(X), y)
    with pytest.raises(ValueError, match="The 'metric' parameter"):
        KernelPegasosClassifierCV(metric="none").fit(X, y)
    sparse = KernelPegasosClassifierCV([0.1], [1e-3], 30, 2, metric="auto", metric_rounds=1, random_state=0)
    assert sparse.fit(csr_matrix(X), y).score(csr_matrix(X), y) > 0.6


def test_a_search_with_metrics_of_few_rows_first(half_tell):
    """As without: the coarse search learns metrics of its own rows."""
    X, y = half_tell
    X, y = np.vstack([X] * 4) + np.linspace(0.0, 1e-3, 2400)[:, None], np.tile(y, 4)
    tuned = KernelPegasosClassifierCV(metric="diagonal", metric_rounds=1, budget=40, cv=3, random_state=0).fit(X, y)
    assert tuned.score(X, y) > 0.8 and len(tuned.best_estimator_.metric_) == 8
