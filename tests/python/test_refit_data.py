"""Refit of machines on a budget: for several alphas at once, and on streams."""

import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.model_selection import ShuffleSplit, StratifiedKFold

from pegasos import _refit
from refit_oracle import (
    EXACT, batches, board, dense, machine, objective, unchanged, waves, weights,
    whatever_is_warned_of,
)


# -- several alphas


def test_path():
    X, y = board(600)
    model = machine(tol=1e-6).fit(X, y)
    given = [1e-4, 1.0, 1e-2, 1e-3]
    assert model.refit(X, y, alpha=given) is model
    path = model.refit_path_
    assert set(path) == {"alpha", "accuracy", "accuracies"}
    assert path["alpha"].tolist() == [1.0, 1e-2, 1e-3, 1e-4]
    assert path["accuracy"].shape == (4,)
    assert path["accuracies"].shape == (4, 1)
    best = float(path["alpha"][path["accuracy"].argmax()])
    assert best < 1.0
    # It is trained on all rows, to the tolerance, and the parameter stays.
    assert model.alpha == 1e-3
    assert_allclose(objective(model, X, y, alpha=best), model.objective_, rtol=1e-9)
    assert model.duality_gap_ <= 1e-6 * model.objective_
    alone = copy.deepcopy(model).refit(X, y, alpha=best)
    assert_allclose(alone.objective_, model.objective_, rtol=2e-6)
    for form in (tuple, np.array):
        again = machine(tol=1e-6).fit(X, y).refit(X, y, alpha=form(given))
        assert np.array_equal(again.dual_coef_, model.dual_coef_)


@pytest.mark.parametrize("make", [board, waves])
def test_accuracies_of_the_path_are_those_of_the_rows_held_out(make, monkeypatch):
    # As well solved on the way as at its end, so that both can be compared.
    monkeypatch.setattr(_refit, "ROUGH_PATH", 1e-5)
    X, y = make(600)
    alphas = [1.0, 1e-2, 1e-3]
    model = machine(gamma=2.0 if make is board else 0.02, alpha=1e-2, tol=1e-5).fit(X, y)
    for cv in (3, StratifiedKFold(4, shuffle=True, random_state=0), ShuffleSplit(2, random_state=0)):
        path = copy.deepcopy(model).refit(X, y, alpha=alphas, cv=cv).refit_path_
        splitter = StratifiedKFold(3) if cv == 3 else cv
        splits = list(splitter.split(X, y))
        assert path["accuracies"].shape == (3, len(splits))
        assert_allclose(path["accuracy"], path["accuracies"].mean(axis=1))
        want = [
            [model.refit(X[a], y[a], alpha=alpha).score(X[b], y[b]) for a, b in splits] for alpha in alphas
        ]
        # One row may lie on a boundary.
        assert_allclose(path["accuracies"], want, atol=1.5 / min(len(rows) for _, rows in splits))
    # Explicit splits, of a generator that is read once.
    splits = [(np.arange(400), np.arange(400, 600)), (np.arange(200, 600), np.arange(200))]
    paths = [
        copy.deepcopy(model).refit(X, y, alpha=alphas, cv=form(splits)).refit_path_ for form in (list, iter)
    ]
    assert np.array_equal(paths[0]["accuracies"], paths[1]["accuracies"])


def test_path_of_weighted_rows():
    X, y = board(600)
    weight = weights(600, 2)
    wrong = np.where(weight == 0.0, 1 - y, y)
    cv = list(ShuffleSplit(2, random_state=0).split(X))
    # What rows without weight are called is all the same.
    models = [machine(tol=1e-6).fit(X, y).refit(X, labels, weight, [1e-1, 1e-3], cv=cv) for labels in (y, wrong)]
    assert np.array_equal(models[0].refit_path_["accuracies"], models[1].refit_path_["accuracies"])
    assert np.array_equal(models[0].dual_coef_, models[1].dual_coef_)
    for split in ((weight == 0.0, weight > 0.0), (weight > 0.0, weight == 0.0)):
        rows = [tuple(np.flatnonzero(part) for part in split)]
        with unchanged(models[0]), pytest.raises(ValueError, match="sample_weight"):
            models[0].refit(X, y, weight, [1e-1, 1e-3], cv=rows)


def test_rows_without_weight_only_count():
    X, y = board(400)
    weight = weights(400, 3)
    some = weight > 0.0
    model = machine(tol=EXACT).fit(X, y)
    whole = copy.deepcopy(model).refit(X, y, weight, alpha=1e-3).objective_
    alpha = 1e-3 * 400 / some.sum()
    part = copy.deepcopy(model).refit(X[some], y[some], weight[some], alpha=alpha).objective_
    assert_allclose(whole, part * some.sum() / 400, rtol=1e-8)


@pytest.mark.parametrize("chosen", ["balanced", {0: 1.0, 1: 3.0, 2: 0.5}, {0: 0.0, 1: 1.0, 2: 2.0}])
def test_class_weight(chosen):
    X, y = waves(500)
    few = np.flatnonzero((y > 0) | (np.arange(500) % 5 == 0))
    X, y = X[few], y[few]
    if chosen == "balanced":
        of_class = len(y) / (3 * np.bincount(y))
    else:
        of_class = np.array(list(chosen.values()))
    weight = weights(len(y), 4) + 0.1
    model = machine(gamma=0.02, class_weight=chosen, tol=1e-7).fit(X, y)
    assert_allclose(objective(model, X, y, of_class[y]), model.objective_, rtol=1e-9)
    model.refit(X, y, weight)
    assert_allclose(objective(model, X, y, weight * of_class[y]), model.objective_, rtol=1e-9)
    model.refit(X, y, weight, [1e-1, 1e-2], cv=3)
    best = model.refit_path_["alpha"][model.refit_path_["accuracy"].argmax()]
    assert_allclose(objective(model, X, y, weight * of_class[y], best), model.objective_, rtol=1e-9)


def test_a_path_is_told_of_only_by_the_refit_that_went_it():
    X, y = board()
    model = machine().fit(X, y).refit(X, y, alpha=[1e-2, 1e-3])
    assert hasattr(model, "refit_path_")
    again = copy.deepcopy(model).refit(X, y)
    assert not hasattr(again, "refit_path_")
    assert not hasattr(copy.deepcopy(model).fit(X, y), "refit_path_")
    assert not hasattr(model.refit([(X, y)]), "refit_path_")


# -- streams


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("make", [board, waves])
def test_stream(make, form):
    X, y = make(5000)
    X_test, y_test = make(5000, 1)
    model = machine(gamma=2.0 if make is board else 0.02, budget=60, refine=False).fit(form(X), y)
    before, papers = model.t_, model.score(form(X_test), y_test)
    exact = copy.deepcopy(model).refit(form(X), y).score(form(X_test), y_test)
    vectors = dense(model.support_vectors_)
    twin = copy.deepcopy(model).refit(list(batches(form(X), y)))
    assert model.refit(batches(form(X), y)) is model
    assert np.array_equal(twin.dual_coef_, model.dual_coef_)
    assert np.array_equal(dense(model.support_vectors_), vectors)
    assert model.t_ > before
    assert np.isnan(model.objective_)
    assert np.isnan(model.duality_gap_)
    score = model.score(form(X_test), y_test)
    assert score > max(papers, exact) - 0.03
    # Ones are no weights.
    twin.refit(batches(form(X), y, np.ones(5000)))
    assert_allclose(twin.decision_function(form(X)), model.decision_function(form(X)), rtol=1e-6)
    assert model.partial_fit(form(X), y).score(form(X_test), y_test) > score - 0.03


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("multi_class", ["crammer_singer", "ovr", "ovo"])
def test_a_stream_for_every_way_to_tell_classes_apart(classes, multi_class):
    X, _ = board(4000)
    # Sectors, of which a joint machine of few vectors knows most.
    y = (np.arctan2(X[:, 0] - X[:, 0].mean(), X[:, 1] - X[:, 1].mean()) * classes / 6.3).round().astype(int) % classes
    model = machine(budget=60, multi_class=multi_class).fit(X, y)
    score = model.score(X, y)
    assert model.refit(batches(X, y)).score(X, y) > score - 0.05 > 0.85
    pairs = classes * (classes - 1) // 2
    assert model.dual_coef_.shape[0] == (1 if classes == 2 else pairs if multi_class == "ovo" else classes)


def test_weights_in_a_stream():
    X, y = board(5000)
    model = machine(refine=False).fit(X, y)
    weight = (np.arange(5000) % 2).astype(float)
    spoiled = np.where(weight > 0.0, y, 1 - y)
    one = copy.deepcopy(model).refit(batches(X, y, weight))
    two = copy.deepcopy(model).refit(batches(X, spoiled, weight))
    assert np.array_equal(one.dual_coef_, two.dual_coef_)
    assert one.score(X, y) > 0.9


def test_bad_streams():
    X, y = board()
    model = machine().fit(X, y)
    spoiled = X.copy()
    spoiled[7, 1] = np.nan
    bad = [
        ([], "at least one batch"),
        (iter(()), "at least one batch"),
        ([(X, y), (X, y + 5)], "classes"),
        ([(X, y), (spoiled, y)], "NaN"),
        ([(X, y), (X * np.inf, y)], "X contains infinity"),
        ([(X, y), (np.c_[X, X], y)], "features"),
        ([(X, y), (X, y[:-1])], "inconsistent numbers of samples"),
        ([(X, y), (X, y, -np.ones(300))], "[Nn]egative"),
        ([(X, y), (X, y, np.zeros(300))], "weight"),
        ([(X, y), (X[:0], y[:0])], "0 sample"),
        ([(X, y), (X,)], None),
        (X, None),
    ]
    for stream, word in bad:
        with unchanged(model), pytest.raises((ValueError, TypeError), match=word):
            model.refit(stream)
    for more in (dict(alpha=[1e-2, 1e-3]), dict(sample_weight=np.ones(300))):
        with unchanged(model), pytest.raises(ValueError, match="stream of batches"):
            model.refit([(X, y)], **more)

    def breaks():
        yield X, y
        raise OSError("gone")

    with unchanged(model), pytest.raises(OSError, match="gone"):
        model.refit(breaks())


def test_batches_that_hold_too_much():
    X, y = board()
    model = machine().fit(X, y)
    with unchanged(model), pytest.raises((ValueError, TypeError)):
        model.refit([(X, y), (X, y, np.ones(300), 1)])


def test_streams_are_balanced_by_what_has_come():
    X, y = board()
    few = (y == 0) | (np.arange(len(y)) % 4 == 0)
    X, y = X[few], y[few]
    model = machine(class_weight="balanced").fit(X, y)
    other = copy.deepcopy(model).set_params(class_weight=None)
    counts = model._stream.counts
    model.refit(batches(X, y, size=50))
    seen, weighted = np.zeros(2), []
    for rows, labels in batches(X, y, size=50):
        seen += np.bincount(labels, minlength=2)
        weighted.append((rows, labels, (seen.sum() / (2 * seen))[labels]))
    other.refit(weighted)
    assert np.array_equal(model.dual_coef_, other.dual_coef_)
    # What the refit has counted is of its own.
    assert np.array_equal(model._stream.counts, counts)


@pytest.mark.parametrize("way", ["rows", "stream"])
@pytest.mark.parametrize(
    ("make", "gamma", "alpha", "budget"),
    [
        (board, 4.0, 1e-3, 100),
        (board, 2.0, 1e-4, 100),
        (board, 2.0, 1e-5, 100),
        (board, 4.0, 1e-5, 100),
        (waves, 0.02, 1e-3, 30),
        (waves, 0.005, 1e-4, 100),
    ],
)
def test_learning_goes_on(make, gamma, alpha, budget, way):
    """Of chunks to come, as many are right before they are learned from as the refitted machine gets right."""
    X, y = make(2000)
    model = machine(gamma=gamma, alpha=alpha, budget=budget)
    with whatever_is_warned_of():
        model.fit(X, y)
    if way == "stream":
        model.refit(batches(X, y))
    frozen = copy.deepcopy(model)
    live, stayed = [], []
    for X, y in batches(*make(10_000, 1), size=200):
        live.append(model.score(X, y))
        stayed.append(frozen.score(X, y))
        model.partial_fit(X, y)
    assert np.mean(live) > np.mean(stayed) - 0.015
