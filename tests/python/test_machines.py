"""Several classes with kernels: pairs and one against the rest, beside SVC and beside each problem by itself."""

from __future__ import annotations

import pickle
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from conftest import papers_kernel
import pegasos
from pegasos import KernelPegasosClassifier
from pegasos._core import Trainer

# The papers' machine is one pass, and says that it is far from the optimum.
pytestmark = pytest.mark.filterwarnings("ignore:fit stopped after max_iter=1 epoch ")

WAYS = ["crammer_singer", "ovr", "ovo"]


def digits(n: int = 900) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    return X[:n], y[:n], X[n:], y[n:]


def machine(**parameters: Any) -> KernelPegasosClassifier:
    given: dict[str, Any] = {"gamma": 0.5, "alpha": 1e-3, "random_state": 0}
    return papers_kernel(**given | parameters)


def test_pairs_are_those_of_svc() -> None:
    """With a constant added to the kernel, which stands for libsvm's intercept: coefficients, votes and scores."""
    X, y, X_test, _ = digits()
    C, constant = 1.0, 1e3
    gram, gram_test = rbf_kernel(X, gamma=0.05), rbf_kernel(X_test, X, gamma=0.05)
    ours = machine(kernel="precomputed", alpha=1 / (C * len(y)), multi_class="ovo", solver="dual", tol=1e-7)
    ours.fit(gram + constant, y)
    svc = SVC(kernel="precomputed", C=C, tol=1e-9).fit(gram, y)
    full = np.zeros((45, len(y)))
    full[:, ours.support_] = ours.dual_coef_
    starts = np.concatenate([[0], np.cumsum(svc.n_support_)])
    for o, (first, second) in enumerate(combinations(range(10), 2)):
        want = np.zeros(len(y))
        for own, other in [(first, second - 1), (second, first)]:
            part = slice(starts[own], starts[own + 1])
            want[svc.support_[part]] = svc.dual_coef_[other, part]
        np.testing.assert_allclose(full[o], want, atol=2e-3 * C)
    # A sum of many products with the constant: what it leaves are roundings.
    ours.set_params(decision_function_shape="ovo")
    svc.set_params(decision_function_shape="ovo")
    scores = ours.decision_function(gram_test + constant)
    np.testing.assert_allclose(scores, svc.decision_function(gram_test), atol=5e-3)
    assert np.mean(ours.predict(gram_test + constant) == svc.predict(gram_test)) >= 0.995
    votes = ours.set_params(decision_function_shape="ovr").decision_function(gram_test + constant)
    theirs = svc.set_params(decision_function_shape="ovr").decision_function(gram_test)
    assert votes.shape == theirs.shape == (len(X_test), 10)
    assert np.mean(np.floor(votes + 1 / 3) == np.floor(theirs + 1 / 3)) > 0.99


@pytest.mark.parametrize("solver", ["pegasos", "dual", "auto"])
@pytest.mark.parametrize("sparse", [False, True])
def test_problems_are_solved_as_they_are_alone(solver: str, sparse: bool) -> None:
    X, y, X_test, _ = digits(400)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    if sparse:
        X, X_test = csr_matrix(X), csr_matrix(X_test)
    # A mean of recent iterates reaches as far back as there were violations, of any problem.
    given: dict[str, Any] = {"solver": solver, "sampling": "storage", "average": False}
    given["tol"] = 1e-9 if solver != "pegasos" else None
    close = {"rtol": 0, "atol": 1e-9 if solver == "pegasos" else 1e-3}
    ovr = machine(multi_class="ovr", **given).fit(X, y, sample_weight=weight)
    ovo = machine(multi_class="ovo", decision_function_shape="ovo", **given)
    ovo.fit(X, y, sample_weight=weight)
    scores = ovr.decision_function(X_test)
    for k in (0, 3, 9):
        alone = machine(**given).fit(X, y == k, sample_weight=weight)
        np.testing.assert_allclose(scores[:, k], alone.decision_function(X_test), **close)
    scores = ovo.decision_function(X_test)
    assert scores.shape == (X_test.shape[0], 45)
    for o, (first, second) in enumerate(combinations(range(10), 2)):
        if o % 11:
            continue
        among = weight * np.isin(y, [first, second])
        alone = machine(**given).fit(X, y == first, sample_weight=among)
        np.testing.assert_allclose(scores[:, o], alone.decision_function(X_test), **close)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "parameters",
    [
        {"solver": "auto"},
        {"solver": "dual"},
        {"max_iter": 2, "tol": None},
        {"budget": 60},
        {"budget": 60, "refine": False, "maintenance": "remove"},
        {"budget": 60, "maintenance": "project", "refine_rounds": 2},
        {"batch_size": 4, "projection": True, "tol": None},
    ],
    ids=str,
)
def test_every_way_with_every_solver(way: str, parameters: dict[str, Any]) -> None:
    X, y, X_test, y_test = digits(800)
    names = np.array(list("abcdefghij"))
    model = machine(multi_class=way, **parameters).fit(X, names[y])
    rows = {"crammer_singer": 10, "ovr": 10, "ovo": 45}[way]
    assert model.dual_coef_.shape == (rows, len(model.support_vectors_))
    scores = model.decision_function(X_test)
    assert scores.shape == (len(X_test), 10)
    guess = model.predict(X_test)
    np.testing.assert_array_equal(guess, names[scores.argmax(axis=1)])
    # Whoever only removes has no good model of ten digits with 60 vectors. What a budget keeps depends on the order of the rows:
    # accuracies of single machines are a hundredth or two from their mean.
    least = 0.7 if parameters.get("maintenance") == "remove" else 0.9
    accuracies = [np.mean(guess == names[y_test])]
    if "budget" in parameters:
        others = (machine(multi_class=way, **parameters, random_state=seed).fit(X, y) for seed in range(1, 5))
        accuracies += [other.score(X_test, y_test) for other in others]
    assert np.mean(accuracies) > least
    assert model.n_support_.shape == (10,) and model.n_support_.sum() == len(model.support_vectors_)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(X_test), scores)
    model.partial_fit(X_test[:50], names[y_test[:50]])
    again.partial_fit(X_test[:50], names[y_test[:50]])
    # Budgets carry numbers that are made anew from parts, up to roundings.
    close = {"rtol": 0, "atol": 1e-9}
    scores, others = (each.decision_function(X_test) for each in (model, again))
    np.testing.assert_allclose(scores, others, **close)


@pytest.mark.parametrize("way", WAYS)
def test_a_file_knows_the_way(way: str, tmp_path: Any) -> None:
    X, y, X_test, _ = digits(300)
    model = machine(multi_class=way, budget=40, decision_function_shape="ovo").fit(X, y)
    path = tmp_path / "model.safetensors"
    pegasos.save(model, path)
    loaded = pegasos.load(path)
    np.testing.assert_array_equal(loaded.decision_function(X_test), model.decision_function(X_test))
    np.testing.assert_array_equal(loaded.predict(X_test), model.predict(X_test))


def test_the_way_stays_while_training_goes_on() -> None:
    X, y, _, _ = digits(300)
    model = machine(multi_class="ovo").fit(X, y)
    before = model.predict(X)
    model.set_params(multi_class="ovr")
    np.testing.assert_array_equal(model.predict(X), before)
    with pytest.raises(ValueError, match="multi_class must stay"):
        model.partial_fit(X, y)
    np.testing.assert_array_equal(model.predict(X), before)


@pytest.mark.parametrize("solver", ["pegasos", "auto", "dual"])
def test_two_classes_are_told_apart_in_one_way(solver: str) -> None:
    X, y, X_test, _ = digits(300)
    models = [machine(multi_class=way, solver=solver).fit(X, y > 4) for way in WAYS]
    for model in models[1:]:
        np.testing.assert_array_equal(model.dual_coef_, models[0].dual_coef_)
        assert model.decision_function(X_test).shape == (len(X_test),)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("budget", [None, 50])
def test_threads_change_no_bit(way: str, budget: int | None) -> None:
    X, y, _, _ = digits(700)
    given = {"multi_class": way, "solver": "auto" if budget is None else "pegasos", "budget": budget}
    one, three = (machine(n_jobs=jobs, **given).fit(X, y) for jobs in (1, 3))
    np.testing.assert_array_equal(one.dual_coef_, three.dual_coef_)
    assert one.objective_ == three.objective_


@pytest.mark.parametrize("way", ["ovr", "ovo"])
def test_kernels_of_all_kinds(way: str) -> None:
    """What is precomputed, or comes from a callable, is what the kernel by name is."""
    X, y, X_test, _ = digits(300)
    given = {"multi_class": way, "solver": "dual", "tol": 1e-9, "class_weight": {0: 3.0, 1: 0.5}}
    by_name = machine(**given).fit(X, y)
    gram = rbf_kernel(X, gamma=0.5)
    precomputed = machine(kernel="precomputed", **given).fit(gram, y)
    called = machine(kernel=lambda X, Z: rbf_kernel(X, Z, gamma=0.5), **given).fit(X, y)
    want = by_name.predict(X_test)
    gram_test = rbf_kernel(X_test, X, gamma=0.5)
    assert np.mean(precomputed.predict(gram_test) == want) > 0.995
    assert np.mean(called.predict(X_test) == want) > 0.995
    assert by_name.duality_gap_ <= 1e-9 * by_name.objective_
    np.testing.assert_allclose(precomputed.objective_, by_name.objective_, rtol=1e-7)


def test_refits_of_pairs_know_pairs() -> None:
    """With as many vectors as rows a refit has the objective of the exact machine."""
    X, y, _, _ = digits(250)
    for way in ("ovr", "ovo"):
        exact = machine(multi_class=way, solver="dual", tol=1e-7).fit(X, y)
        refitted = machine(multi_class=way, budget=250, tol=1e-7, max_iter=30).fit(X, y)
        assert refitted.objective_ >= exact.objective_ * (1 - 1e-6)
        # Rows that never violate are no vectors.
        assert refitted.objective_ <= exact.objective_ * 1.02
        path = refitted.refit(X, y, alpha=[1e-2, 1e-3, 1e-4], cv=3).refit_path_
        assert (path["accuracy"] > 0.9).all() and path["accuracies"].shape == (3, 3)


def test_history_counts_votes() -> None:
    """Every example is scored before it is learned from, as ``predict`` would."""
    X, y, _, _ = digits(300)
    for way in WAYS:
        model = machine(multi_class=way, sampling="storage", average=False, history=100, tol=None)
        model.fit(X, y)
        right, learner = [], machine(multi_class=way, sampling="storage", average=False)
        for i in range(len(y)):
            right.append(i > 0 and learner.predict(X[i : i + 1])[0] == y[i])
            learner.partial_fit(X[i : i + 1], y[i : i + 1], classes=np.arange(10))
        accuracy = [np.mean(right[:k]) for k in (100, 200, 300)]
        np.testing.assert_allclose(model.history_["accuracy"], accuracy, atol=0.011)


def test_iris_as_svc_has_it() -> None:
    X, y = load_iris(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    for way, peer in [
        ("ovo", SVC(gamma=0.25, C=10.0)),
        ("ovr", OneVsRestClassifier(SVC(gamma=0.25, C=10.0))),
    ]:
        ours = papers_kernel(
            gamma=0.25, alpha=1 / (10.0 * len(y)), multi_class=way, solver="dual", tol=1e-6
        )
        assert np.mean(ours.fit(X, y).predict(X) == peer.fit(X, y).predict(X)) > 0.96


def test_a_way_that_there_is_not() -> None:
    X, y, _, _ = digits(100)
    with pytest.raises(ValueError, match="multi_class"):
        machine(multi_class="pairs").fit(X, y)
    with pytest.raises(ValueError, match="decision_function_shape"):
        machine(decision_function_shape="both").fit(X, y)


def test_where_roundings_are_all_that_is_left_it_ends() -> None:
    """Kernel values of up to 1e16, an objective of 1e-12: scores are not known to what the gap is, however many steps are made."""
    X, y = load_wine(return_X_y=True)
    model = machine(
        alpha=1 / (100 * len(y)), solver="dual", kernel="poly", gamma=1 / 13, coef0=1.0, multi_class="crammer_singer", tol=1e-3
    )
    with pytest.warns(ConvergenceWarning, match="without progress.*Scale the features"):
        model.fit(X, y)
    assert model.n_iter_ < 50 and model.score(X, y) == 1.0
    # What the warning says helps.
    scaled = model.fit(StandardScaler().fit_transform(X), y)
    assert scaled.duality_gap_ <= 1e-3 * scaled.objective_


@pytest.mark.parametrize("multi_class", ["crammer_singer", "ovo"])
def test_single_precision_is_not_asked_for_more_than_it_has(multi_class: str) -> None:
    """Of one feature all kernel values are products of two numbers: what float32 makes of these has other directions, too."""
    random = np.random.default_rng(0)
    X = random.standard_normal((150, 1)).astype(np.float32)[random.integers(0, 50, 150)]
    # Jointly nothing is better than w = 0 for labels that mean nothing, which has no roundings.
    meant = random.random(150) < (0.5 if multi_class == "crammer_singer" else 0.0)
    y = np.where(meant, np.digitize(X[:, 0], [-0.5, 0.5]), random.integers(0, 3, 150))
    model = KernelPegasosClassifier("linear", alpha=1e-4, multi_class=multi_class, tol=None, random_state=0).fit(X, y)
    assert model.n_iter_ <= 30 and model.duality_gap_ <= 1e-5 * model.objective_
    with pytest.warns(ConvergenceWarning, match="without progress short of tol=1e-10.*use float64"):
        model.set_params(tol=1e-10).fit(X, y)
    # What the warning says helps.
    model.fit(X.astype(np.float64), y)
    assert model.duality_gap_ <= 1e-10 * model.objective_


def many_classes(n_classes: int, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows around a centre for each class, some of which lie close together."""
    random = np.random.RandomState(seed)
    y = np.arange(n) % n_classes
    return random.randn(n_classes, 10)[y] + 0.7 * random.randn(n, 10), y


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("params", [{}, {"solver": "pegasos", "average": "polynomial"}], ids=["exact", "averaged"])
def test_coefficients_of_many_pairs_are_stored_where_they_are(
    params: dict[str, Any], dtype: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 435 pairs of classes a vector has coefficients for 29 at most; whoever stores them stores no others."""
    X, y = many_classes(30, 900)
    X = X.astype(dtype)
    model = machine(multi_class="ovo", gamma=0.1, calibration="sigmoid", **params).fit(X, y)
    coefs, scores = model.dual_coef_, model._all_scores(X)
    assert coefs.shape == (435, len(model.support_)) and np.count_nonzero(coefs) <= 29 * coefs.shape[1]
    expected = rbf_kernel(X, model.support_vectors_, gamma=0.1) @ coefs.T.astype(float) + model.intercept_
    np.testing.assert_allclose(scores, expected, atol=1e-9 if dtype is np.float64 else 1e-3)
    told = pickle.dumps(model)
    assert len(pickle.dumps(model._trainer)) < coefs.nbytes / 2 and len(told) < coefs.nbytes / 2 + 1.1 * model._scored.scores.nbytes
    pegasos.save(model, tmp_path / "model")
    for other in (pickle.loads(told), pegasos.load(tmp_path / "model")):
        assert (other._all_scores(X) == scores).all() and (other.dual_coef_ == coefs).all()
        assert (other.n_support_ == model.n_support_).all()
        assert other.partial_fit(X[:50], y[:50]).predict(X).shape == y.shape
    light = pegasos.io.load(tmp_path / "model", light=True)
    assert (light.predict(X) == model.predict(X)).all()
    # Some rows at a time: the same bits.
    predicted, votes, probabilities = model.predict(X), model.decision_function(X), model.predict_proba(X)
    monkeypatch.setattr("pegasos._machine._AT_ONCE", 3 * 435)
    monkeypatch.setattr("pegasos._calibration._MOST_SCORES", 700 * 435)
    assert (model.predict(X) == predicted).all() and (model.decision_function(X) == votes).all()
    np.testing.assert_allclose(model.predict_proba(X), probabilities, rtol=1e-6)


def test_parts_with_all_coefficients_are_those_of_an_earlier_format() -> None:
    X, y = many_classes(10, 300)
    model = machine(multi_class="ovo", gamma=0.1, solver="auto").fit(X, y)
    parts = model._trainer.parts()
    all_coefs = np.zeros((len(parts["ends"]), 45))
    starts = np.append(0, parts["ends"]).astype(int)
    all_coefs[np.repeat(np.arange(len(all_coefs)), np.diff(starts)), parts["outputs"]] = parts["v"]
    earlier = parts | {"format": 4, "v": all_coefs.ravel()}
    del earlier["ends"], earlier["outputs"]
    for told, works in ((earlier, True), (earlier | {"format": 3}, False), (parts | {"format": 6}, False)):
        if not works:
            with pytest.raises(ValueError, match="parts must have format 5, got"):
                Trainer.from_parts(told)
            continue
        trainer = Trainer.from_parts(told)
        assert (model._scores(trainer, X) == model._all_scores(X)).all()
        again = trainer.parts()
        assert all(np.array_equal(again[name], parts[name]) for name in ("v", "u", "ends", "outputs"))


def test_ctrl_c_leaves_what_a_whole_problem_has_come_to(run_forked: Any) -> None:
    """Not only what it had where its one round began, which is nothing; and of folds that are held out nothing is left."""
    done = run_forked(
        """
import signal, time
import numpy as np
from sklearn.exceptions import NotFittedError
from pegasos import KernelPegasosClassifier

signal.signal(signal.SIGALRM, signal.default_int_handler)
X = np.random.RandomState(0).randn(7000, 8)
y = (X[:, 0] * X[:, 1] + 0.5 * np.random.RandomState(1).randn(7000) > 0).astype(int)
for calibration in (None, "sigmoid"):
    model = KernelPegasosClassifier(alpha=1e-6, calibration=calibration, random_state=0)
    model.fit(X[:500], y[:500])
    begun = time.perf_counter()
    model.fit(X, y)
    took = time.perf_counter() - begun
    signal.setitimer(signal.ITIMER_REAL, 0.6 * took)
    begun = time.perf_counter()
    try:
        model.fit(X, y)
    except KeyboardInterrupt:
        said = "a model"
        if calibration is not None:
            try:
                model.predict_proba(X)
            except NotFittedError:
                said = "no probabilities"
        print(len(model.support_) > 1000, model.score(X, y) > 0.75, said)
    signal.setitimer(signal.ITIMER_REAL, 0.0)
"""
    )
    assert done.stdout.splitlines() == ["True True a model", "True True no probabilities"], done.stdout + done.stderr
