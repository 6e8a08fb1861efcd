"""Learned metrics of models that train on: streams and refits."""

import pickle

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.exceptions import NotFittedError

from pegasos import KernelPegasosClassifier
from pegasos._data import as_data

KINDS = ["diagonal", "full"]


def machine(metric="full", **params):
    return KernelPegasosClassifier(metric=metric, **{"budget": 30, "n_jobs": 1, "random_state": 0} | params)


@pytest.mark.parametrize("kind", KINDS)
def test_streams_go_on_in_the_metric_of_the_fit(half_tell, kind):
    X, y = half_tell
    model = machine(kind).fit(X[:400], y[:400])
    before = model.metric_
    Z = model._metric.mapped(as_data(X), 1).X
    plain = machine("plain", gamma=model._gamma, alpha=model.alpha_).fit(Z[:400], y[:400])
    model.partial_fit(X[400:], y[400:])
    # A stream's alpha stays that of the fit.
    plain.partial_fit(Z[400:], y[400:])
    np.testing.assert_array_equal(model.metric_, before)
    np.testing.assert_allclose(model.decision_function(X), plain.decision_function(Z), rtol=1e-9, atol=1e-9)
    model.refit(X, y), plain.refit(Z, y)
    np.testing.assert_allclose(model.decision_function(X), plain.decision_function(Z), rtol=1e-6, atol=1e-6)
    batches = [(X[i : i + 100], y[i : i + 100]) for i in range(0, 600, 100)]
    assert model.refit(batches).score(X, y) > 0.7


def test_a_stream_begins_with_the_plain_metric(half_tell):
    X, y = half_tell
    model = machine().partial_fit(X, y)
    plain = machine("plain").partial_fit(X, y)
    assert model.decision_function(X).tobytes() == plain.decision_function(X).tobytes()
    with pytest.raises(AttributeError, match="metric_ is there only after fit"):
        model.metric_  # noqa: B018
    with pytest.raises(NotFittedError):
        machine().metric_  # noqa: B018


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sparse", [False, True])
def test_a_refit_may_learn_the_metric_anew(board_and_noise, kind, sparse):
    if sparse and kind == "full":
        return
    X, y, X_test, y_test = (part[:6000] for part in board_and_noise)
    if sparse:
        X, X_test = csr_matrix(X), csr_matrix(X_test)
    model = machine(kind, budget=100).partial_fit(X, y)
    scores = [model.refit(X, y).score(X_test, y_test)]
    for _ in range(4):
        before = model.decision_function(X_test[:50])
        model.refit(X, y, alpha=1.0 / (8.0 * 6000), learn_metric=True)
        assert not np.array_equal(model.decision_function(X_test[:50]), before)
        scores.append(model.score(X_test, y_test))
        assert model.support_vectors_.shape == (100, 22)
    own, others = model.feature_importances_[:2], model.feature_importances_[2:]
    assert own.min() > 3.0 * others.mean(), (scores, own, others)
    loaded = pickle.loads(pickle.dumps(model))
    assert loaded.partial_fit(X[:200], y[:200]).t_ == model.t_ + 200


def test_a_refit_that_learns_is_a_round(half_tell):
    """Vectors move as rows do: the scores of the new metric with the old coefficients are those of the formula."""
    X, y = half_tell
    model = machine(gamma=0.2).fit(X, y)
    vectors, old = model.support_vectors_, model._metric
    model.refit(X, y, learn_metric=True)
    M = model.metric_
    values, turns = np.linalg.eigh(M)
    assert values.min() > -1e-9 * values.max()
    new = model.support_vectors_
    A = model._metric.map
    np.testing.assert_allclose(new @ A.T, vectors @ A.T, rtol=1e-6, atol=1e-6)
    assert model._metric is not old
    with pytest.raises(ValueError, match="learn_metric=True needs metric="):
        machine("plain").fit(X, y).refit(X, y, learn_metric=True)
    with pytest.raises(ValueError, match="with the metric as it is"):
        model.refit([(X, y)], learn_metric=True)
