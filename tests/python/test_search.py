"""How a tuned estimator searches: what a fold knows, which models are tried, and what no thread may change."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.preprocessing import scale
from sklearn.svm import SVC

from pegasos import (
    KernelPegasosClassifier,
    KernelPegasosClassifierCV,
    PegasosClassifier,
    PegasosClassifierCV,
)
from pegasos._callbacks import Tasks
from pegasos._data import as_data
from pegasos._progress import NoBar
from pegasos._search import Exact, Features, Fold, Key, Search, Space, kernel_space, linear_space
from pegasos._tuning import Task
from pegasos.datasets import make_waveform


@pytest.mark.parametrize("alphas", [(1e-2, 1e-3), (1e-5,)])
@pytest.mark.parametrize("kind", ["linear", "budget", "exact"])
def test_a_fold_knows_nothing_of_the_rows_that_it_holds_out(kind, alphas, small):
    """Whatever stands in the rows that are held out, and however they are labelled, the model is the same to the last bit."""
    X, y = small
    fold = Fold(np.arange(100, 300), np.arange(100))

    def weights(X, y):
        kernel = dict(gamma=0.1, alpha=1e-3, random_state=0)
        if kind == "linear":
            model = PegasosClassifier(alpha=1e-3)
            data, _ = model._examples(X, y, None, None, reset=True)
            space = linear_space(model, data, 3, fold, 1e-3)
        elif kind == "budget":
            model = KernelPegasosClassifier(budget=30, multi_class="crammer_singer", **kernel)
            data, _ = model._examples(X, y, None, None, reset=True)
            model._decided = model._decide(data, 3, stream=False)
            space = kernel_space(model, data, 3, 3, fold, 1e-3, 2**30, 0, lambda *_: None)
        else:
            model = KernelPegasosClassifier(budget=None, **kernel)
            data, _ = model._examples(X, y, None, None, reset=True)
            space = Exact(model, data, 3, 3, fold)
        for alpha in alphas:
            space.solve(alpha, 1e-3, 0, lambda *_: None)
        if kind == "exact":
            return space._run.trainer.scores(as_data(X[100:]).examples, threads=1)
        return space.solver.weights()[0]

    before = weights(X, y)
    others, labels = X.copy(), y.copy()
    others[:100], labels[:100] = 5.0 * X[:100][::-1], (y[:100] + 1) % 3
    assert (weights(others, labels) == before).all()


@pytest.mark.parametrize("multi_class", ["ovo", "ovr", "crammer_singer"])
def test_without_a_budget_folds_are_exact_machines_of_the_others_alone(multi_class, small, monkeypatch):
    X, y = small
    weight = np.random.RandomState(0).randint(0, 3, 300)
    params = dict(budget=None, multi_class=multi_class, class_weight={1: 2.0})
    tol = 1e-7
    monkeypatch.setattr("pegasos._tuned._TOL", tol)
    folds = [(np.arange(100, 300), np.arange(100)), (np.r_[0:200, 0:50], np.arange(200, 300))]
    tuned = KernelPegasosClassifierCV([0.1], [1e-2], cv=folds, keep_scores=True, random_state=0, **params)
    tuned.fit(X, y, weight)
    for train, test in folds:
        own = KernelPegasosClassifier(gamma=0.1, alpha=1e-2, tol=tol, decision_function_shape="ovo", **params)
        want = own.fit(X[train], y[train], weight[train]).decision_function(X[test])
        np.testing.assert_allclose(tuned.held_out_scores_[test], want, atol=2e-3)
    last = KernelPegasosClassifier(gamma=0.1, alpha=1e-2, tol=tuned.tol, random_state=0, **params).fit(X, y, weight)
    assert tuned.best_estimator_.objective_ == pytest.approx(last.objective_, rel=2 * tuned.tol)


def test_few_rows_need_no_budget_and_classes_are_told_apart_as_is_quick(small, capsys):
    X, y = small
    for budget, multi_class in ((None, "ovo"), (20, "crammer_singer"), ("auto", "ovo")):
        tuned = KernelPegasosClassifierCV([0.1], [1e-2], budget, 3).fit(X, y)
        assert tuned.best_estimator_.multi_class == multi_class
        assert tuned.best_estimator_.budget == (None if budget == "auto" else budget)
    for copies, kernel, want in ((10, "rbf", 500), (1, "sigmoid", 500), (1, "rbf", None)):
        rows, labels = np.tile(X, (copies, 1)), np.tile(y, copies)
        tuned = KernelPegasosClassifierCV([0.1], [1e-1], cv=2, kernel=kernel, verbose=1, random_state=0)
        assert tuned.fit(rows, labels).best_estimator_.budget == want
        assert f"budget='auto' is {want} for {300 * copies} rows" in capsys.readouterr().err
    # Rows that do not count are none.
    tuned = KernelPegasosClassifierCV([0.1], [1e-1], cv=2).fit(np.tile(X, (10, 1)), np.tile(y, 10), np.arange(3000) % 10 == 0)
    assert tuned.best_estimator_.budget is None


def test_without_a_budget_as_good_as_a_grid_search_with_svc():
    X, X_test, y, y_test = train_test_split(*load_digits(return_X_y=True), random_state=0)
    tuned = KernelPegasosClassifierCV(budget=None, random_state=0).fit(X / 16.0, y)
    theirs = GridSearchCV(SVC(), {"gamma": [0.02, 0.05, 0.1], "C": [1.0, 3.0, 10.0]}, cv=5).fit(X / 16.0, y)
    assert tuned.best_score_ >= theirs.best_score_ - 0.003
    assert tuned.score(X_test / 16.0, y_test) >= theirs.score(X_test / 16.0, y_test) - 0.005


def test_from_nothing_a_small_alpha_is_solved_by_way_of_larger_ones(small):
    X, y = small
    data, _ = PegasosClassifier()._examples(X, y, None, None, reset=True)
    steps = []
    solver = SimpleNamespace(
        set_alpha=lambda alpha, anew: steps.append((alpha, anew)),
        solve=lambda examples, tol, *_, **__: steps.append(tol),
    )
    # Of half of the rows, which is what alpha is multiplied by.
    space = Features(solver, data, Fold(np.arange(150), np.arange(150, 300)), 3)
    for alpha in (1e-5, 1e-6, 1e-3, 1e-2):
        space.solve(alpha, 0.05, 0, lambda *_: None)
    first = [(5e-4, True), 0.1, (5e-5, False), 0.1, (5e-6, False), 0.05]
    then = [(5e-7, False), 0.05, (5e-4, True), 0.05, (5e-3, True), 0.05]
    got = [pytest.approx(step) for step in steps]
    assert first + then == got
    # A gap that is larger than theirs is enough on the way, too.
    steps.clear()
    Features(solver, data, space.fold, 3).solve(1e-3 / 1.5, 0.5, 0, lambda *_: None)
    assert steps == [pytest.approx((1e-2 / 3.0, True)), 0.5, pytest.approx((1e-3 / 3.0, False)), 0.5]


def test_a_search_follows_the_best_outward(two_classes):
    X, y = two_classes
    noisy = y.copy()
    noisy[::4] = 1 - noisy[::4]
    tuned = PegasosClassifierCV(random_state=0).fit(X, noisy)
    found = np.sort(tuned.cv_results_["param_alpha"])
    place = int(np.searchsorted(found, tuned.alpha_))
    # There is something on both sides, unless the end of all grids was reached.
    assert place > 0 and (place < len(found) - 1 or tuned.alpha_ >= 99.0)


def test_ties_go_to_the_larger_alpha_and_the_rule_of_one_standard_error_further(small):
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    alphas = np.geomspace(1e2, 1e-4, 13)
    # Exact enough for no row to be on either side by chance.
    best = PegasosClassifierCV(alphas, tol=1e-7, random_state=0).fit(X, y)
    means = best.cv_results_["mean_test_score"]
    assert best.alpha_ == alphas[means == means.max()].max()
    simple = PegasosClassifierCV(alphas, tol=1e-7, rule="one_standard_error", random_state=0).fit(X, y)
    row = best.best_index_
    scores = np.array([best.cv_results_[f"split{k}_test_score"][row] for k in range(5)])
    least = means.max() - scores.std(ddof=1) / np.sqrt(5)
    assert alphas[means >= least + 1e-9].max() <= simple.alpha_ <= alphas[means >= least - 1e-9].max()
    assert simple.alpha_ > best.alpha_


def test_a_model_is_surely_worse_by_the_rows_that_one_alone_has_right():
    codes, best = np.zeros(500, int), np.ones((500, 2)) * [1.0, 0.0]
    worse = best.copy()
    fold = Fold(np.arange(0), np.arange(500))

    def says(weight=None, scorer=None):
        task = SimpleNamespace(scorer=scorer, weight=weight, data=SimpleNamespace(codes=codes), votes=lambda scores: scores)
        return Task.is_surely_worse(task, fold, worse, best)

    assert not says()
    # Three rows that the best has wrong, and ten or eleven that the other has: 7/sqrt(13) and 8/sqrt(14).
    best[:3] = worse[3:13] = [0.0, 1.0]
    assert not says()
    worse[13] = [0.0, 1.0]
    assert says()
    assert not says(scorer=log_loss)
    assert not says(weight=np.repeat([2.0, 1.0], [3, 497]))
    assert not says(weight=np.repeat([1.0, 0.0, 1.0], [13, 1, 486]))


def test_all_folds_try_what_the_first_leaves_in_doubt(monkeypatch):
    """The rule of one standard error has its own idea of doubt."""
    monkeypatch.setattr(Task, "is_surely_worse", lambda self, fold, scores, best: scores is not best)
    X, y = make_waveform(4100, 0)

    def tried_with_all(rule):
        tuned = KernelPegasosClassifierCV(budget=20, cv=3, rule=rule, random_state=0).fit(X, y)
        return np.isfinite(tuned.cv_results_["mean_test_score"]).sum()

    assert tried_with_all("best") == 1
    assert tried_with_all("one_standard_error") > 1


def test_any_number_of_threads_gives_the_same_bits(small):
    X, y = small
    for make in (
        lambda n: KernelPegasosClassifierCV(budget=40, cv=3, random_state=0, n_jobs=n),
        lambda n: KernelPegasosClassifierCV(budget=None, cv=3, random_state=0, n_jobs=n),
        lambda n: PegasosClassifierCV(cv=3, random_state=0, n_jobs=n),
    ):
        one, four = make(1).fit(X, y), make(4).fit(X, y)
        assert (one.decision_function(X) == four.decision_function(X)).all()
        assert (one.predict_proba(X) == four.predict_proba(X)).all()
        for name, values in one.cv_results_.items():
            if name != "mean_fit_time":
                np.testing.assert_array_equal(values, four.cv_results_[name])


def test_what_memory_has_no_room_for_goes_the_same_way_again():
    """Where a space is depends on the alphas that it has been asked for, not on how many are kept, or who is first."""
    fold = Fold(np.arange(2), np.arange(2, 4))

    class Remembering(Space):
        """Scores that tell the way that led to them."""

        def __init__(self, gamma):
            self.way = [gamma]

        def solve(self, alpha, *_):
            # As of a space: from nothing, where it is larger than the last.
            self.way = [self.way[0], alpha] if alpha > self.way[-1] else [*self.way, alpha]

        def scores(self):
            return np.array(self.way)

    def ways(most_kept, threads):
        def space(gamma, *_):
            return Remembering(gamma)

        search = Search(None, [fold, fold], space, lambda *_: 0.0, 1e-3, 0, threads, NoBar(), Tasks(), most_kept)
        for alphas in ([1e-2], [1e-3, 1e-4], [1e-1], [1e-3]):
            search.run((gamma, k, alphas) for gamma in (1.0, 2.0) for k in (0, 1))
        return {key: {k: way.tolist() for k, way in cell.held_out.items()} for key, cell in search.cells.items()}

    all_kept = ways(4, 1)
    assert all_kept[Key(2.0, 1e-4)] == dict.fromkeys((0, 1), [2.0, 1e-2, 1e-3, 1e-4])
    assert all_kept[Key(1.0, 1e-1)] == dict.fromkeys((0, 1), [1.0, 1e-1])
    for most_kept in range(4):
        for threads in (1, 2, 3):
            assert ways(most_kept, threads) == all_kept
