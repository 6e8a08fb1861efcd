"""Kernel machines that learned apart, put together by `merge`; and what `split` makes of a model."""

import pickle

import budget_oracle
import numpy as np
import oracle
import pandas as pd
import pytest
from conftest import every_pair, papers_kernel, papers_linear
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.exceptions import NotFittedError

from pegasos import KernelPegasosClassifier, PegasosClassifier, ProjectronClassifier, load, merge, save, split
from pegasos.datasets import make_checkerboard, make_waveform

pytestmark = pytest.mark.filterwarnings("ignore:fit stopped after max_iter=1 epoch ")

STRATEGIES = ["merge", "project", "remove", "random"]
WEIGHTS = [3.0, 1.0, 2.0]


def waves(n=300, dtype=np.float64, n_classes=3):
    X, y = make_waveform(n, 0)
    return X.astype(dtype), y % n_classes


def machine(budget=20, kernel="rbf", **params):
    default = {"gamma": 0.05, "alpha": 1e-2, "budget": budget, "refine": False, "tol": None, "random_state": 0}
    return papers_kernel(kernel, **default | params)


def apart(parts=3, dtype=np.float64, form=np.asarray, n_classes=3, **params):
    X, y = waves(dtype=dtype, n_classes=n_classes)
    return [machine(**{"random_state": k} | params).fit(form(X[k::parts]), y[k::parts]) for k in range(parts)]


def mean_scores(models, X, weights=WEIGHTS):
    scores = [model._all_scores(X) for model in models]
    return np.tensordot(np.asarray(weights) / np.sum(weights), scores, axes=1)


def size(model):
    return model.dual_coef_.shape[1]


# -- without reduction


@every_pair(
    kernel=["rbf", "linear", "poly", "sigmoid"],
    maintenance=["project", "remove", "random"],
    average=[False, True, "uniform"],
    form=[np.asarray, sparse.csr_array],
    classes=[(2, "ovr"), (3, "crammer_singer"), (3, "ovr"), (3, "ovo")],
    dtype=[np.float32, np.float64],
)
def test_a_union_within_the_budget_has_the_mean_scores(kernel, maintenance, average, form, classes, dtype):
    n_classes, multi_class = classes
    # Of vectors that live in no Hilbert space nobody knows what is near.
    maintenance = "remove" if kernel == "sigmoid" and maintenance == "project" else maintenance
    X, y = waves(dtype=dtype, n_classes=n_classes)
    params = {"maintenance": maintenance, "average": average, "multi_class": multi_class, "coef0": 1.0}
    models = apart(3, dtype, form, n_classes, budget=1000, kernel=kernel, **params)
    merged = merge(models, WEIGHTS)
    want = mean_scores(models, form(X))
    # Projection enters no vector that is as near to others as this.
    near = kernel != "rbf" and maintenance == "project"
    tiny = (1e-5 if dtype == np.float64 else 1e-2) if near else (1e-12 if dtype == np.float64 else 1e-4)
    assert_allclose(merged._all_scores(form(X)), want, atol=tiny * np.abs(want).max())
    assert merged.t_ == sum(model.t_ for model in models)
    assert merged.decision_function(form(X)).dtype == dtype
    assert merged.get_params() == models[0].get_params()
    assert merged.budget_ == 1000
    merged.partial_fit(form(X), y)
    assert merged.t_ == 600


@pytest.mark.parametrize("multi_class", ["crammer_singer", "ovr", "ovo"])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("solver", ["pegasos", "dual"])
def test_a_union_without_a_budget_is_the_mean(solver, fit_intercept, multi_class):
    X, y = waves()
    if fit_intercept and multi_class == "crammer_singer":
        solver = "pegasos"
    params = {"multi_class": multi_class, "fit_intercept": fit_intercept, "solver": solver, "tol": 1e-3, "average": False}
    models = apart(budget=None, **params)
    merged = merge(models, WEIGHTS)
    want = mean_scores(models, X)
    assert_allclose(merged._all_scores(X), want, atol=1e-12 * np.abs(want).max())
    assert_allclose(merged.intercept_, np.tensordot(np.divide(WEIGHTS, 6), [m.intercept_ for m in models], axes=1), atol=1e-12)
    assert size(merged) == sum(map(size, models))
    with pytest.raises(AttributeError, match="support_"):
        merged.support_  # noqa: B018
    if solver == "dual":
        with pytest.raises(AttributeError, match="violation_counts_"):
            merged.violation_counts_  # noqa: B018
    else:
        assert merged.violation_counts_.sum() == sum(model.violation_counts_.sum() for model in models)
    merged.partial_fit(X, y)
    assert np.isfinite(merged.dual_coef_).all()


def test_the_next_step_of_a_union_is_the_papers():
    X, y = waves(n_classes=2)
    models = apart(n_classes=2, budget=None, average=False)
    merged = merge(models)
    want, t = merged.decision_function(X), merged.t_
    for i in range(40):
        t += 1
        sign = 1.0 if y[i] else -1.0
        violates = sign * want[i] < 1.0
        want = want * (1 - 1 / t)
        if violates:
            want = want + sign / (1e-2 * t) * np.exp(-0.05 * ((X - X[i]) ** 2).sum(axis=1))
    merged.set_params(sampling="storage").partial_fit(X[:40], y[:40])
    assert_allclose(merged.decision_function(X), want, atol=1e-10 * np.abs(want).max())


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("budget", [None, 20])
def test_the_same_vectors_are_joined(budget, form):
    X, y = waves()
    # In another order of rows, but with none but these.
    models = [machine(budget, sampling=order).fit(form(X), y) for order in (np.arange(25), np.arange(25)[::-1].copy())]
    merged = merge(models)
    rows = [{tuple(row) for row in np.round(np.asarray(m.support_vectors_ if form is np.asarray else m.support_vectors_.toarray()), 12)} for m in models]
    if budget is None:
        assert size(merged) == len(rows[0] | rows[1]) < size(models[0]) + size(models[1])
    want = mean_scores(models, form(X), [1, 1])
    if len(rows[0] | rows[1]) <= 20:
        assert_allclose(merged.decision_function(form(X)), want, atol=1e-12 * np.abs(want).max())


@pytest.mark.parametrize("average", [False, True, "polynomial"])
@pytest.mark.parametrize(("budget", "maintenance"), [*((20, name) for name in STRATEGIES), (None, "merge")])
def test_one_model_merged_with_itself_is_that_model(budget, maintenance, average):
    X, y = waves()
    model = machine(budget, maintenance=maintenance, average=average, sampling="storage").fit(X, y)
    for merged in (merge([model]), merge([model] * 3, WEIGHTS)):
        assert size(merged) == size(model)
        want = model.decision_function(X)
        assert_allclose(merged.decision_function(X), want, atol=1e-11 * np.abs(want).max())
    merged = merge([model])
    assert merged.t_ == model.t_
    if maintenance != "random":
        # The mean goes on too, as far as it has come.
        merged.partial_fit(X, y)
        want = model.partial_fit(X, y).decision_function(X)
        assert_allclose(merged.decision_function(X), want, atol=1e-6 * np.abs(want).max())


# -- with reduction


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("maintenance", ["merge", "project", "remove"])
def test_a_union_is_reduced_as_the_paper_reduces(maintenance, average, n_classes):
    X, _ = waves(n_classes=n_classes)
    models = apart(n_classes=n_classes, maintenance=maintenance, average=average)
    want = budget_oracle.Machine(0.05, X.shape[1], models[0].dual_coef_.shape[0])
    for weight, model in zip(WEIGHTS, models, strict=True):
        parts = model._trainer.parts()
        outputs = want.a.shape[1]
        v, u = (parts[name].reshape(-1, outputs) if parts[name].size else 0.0 for name in ("v", "u"))
        mean = (parts["sum_a"] * v - u) / parts["sum_q"] if average else 0.0 * v
        want.x = np.vstack([want.x, model.support_vectors_])
        want.a = np.vstack([want.a, weight / 6 * parts["a"] * v])
        want.mean = np.vstack([want.mean, weight / 6 * mean])
        want.born += parts["born"].tolist()
    assert len(want.a) == 60
    while len(want.a) > 20:
        getattr(budget_oracle, maintenance)(want, 10**9)
    merged = merge(models, WEIGHTS)
    scores = want.k(X, want.x) @ (want.mean if average else want.a)
    got = merged.decision_function(X).reshape(len(X), -1)
    assert_allclose(got, scores, atol=1e-5 * np.abs(scores).max())
    assert size(merged) == 20


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("maintenance", STRATEGIES)
def test_a_merged_machine_keeps_its_budget_and_goes_on(maintenance, form, dtype):
    X, y = waves(600, dtype)
    models = apart(4, dtype, form, maintenance=maintenance)
    before = pickle.dumps(models)
    merged = merge(models)
    assert size(merged) == 20
    assert sparse.issparse(merged.support_vectors_) == sparse.issparse(form(X))
    assert merged.score(form(X), y) > 0.5
    copies = [pickle.loads(pickle.dumps(merged)) for _ in range(2)]
    for copy in copies:
        copy.partial_fit(form(X), y)
        assert size(copy) == 20
    assert copies[0].dual_coef_.tobytes() == copies[1].dual_coef_.tobytes()
    assert merge(models).dual_coef_.tobytes() == merged.dual_coef_.tobytes()
    assert pickle.dumps(models) == before


def test_merging_machines_is_better_than_one_of_them():
    X, y = make_checkerboard(6000, 0)
    X_test, y_test = make_checkerboard(3000, 1)
    models = [
        KernelPegasosClassifier(gamma=8.0, budget=200, alpha=1e-4, refine=False, random_state=0).fit(X[k::4], y[k::4])
        for k in range(4)
    ]
    assert merge(models).score(X_test, y_test) > max(model.score(X_test, y_test) for model in models)


def test_more_vectors_than_are_looked_at_together():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(6000, 2)), random.integers(2, size=6000)
    models = [
        machine(500, gamma=20.0, alpha=1e-4, average=False, maintenance="remove").fit(X[k::12], y[k::12]) for k in range(12)
    ]
    assert sum(map(size, models)) > 2048
    merged = merge(models)
    assert size(merged) == 500
    # The largest coefficients of all, but for those that were removed before their like had come.
    every = np.sort(np.concatenate([np.abs(model.dual_coef_[0]) for model in models]) / 12)[::-1]
    assert_allclose(np.sort(np.abs(merged.dual_coef_[0]))[::-1], every[:500], rtol=1e-9)


def test_wide_sparse_rows():
    X = sparse.random_array((200, 6000), density=0.01, rng=np.random.default_rng(0), format="csr")
    y = np.arange(200) // 2 % 2
    for budget in (None, 30):
        params = {"budget": budget, "gamma": 0.1, "maintenance": "project"}
        models = [machine(**params).fit(X[k::2], y[k::2]) for k in (0, 1)]
        merged = merge(models)
        assert size(merged) == (30 if budget else size(models[0]) + size(models[1]))
        want = mean_scores(models, X, [1, 1])
        if budget is None:
            assert_allclose(merged.decision_function(X), want, atol=1e-12 * np.abs(want).max())
        merged.partial_fit(X, y)


def test_a_merged_machine_comes_back_from_a_file(tmp_path):
    X, _ = waves()
    for merged in (merge(apart()), merge(apart(budget=None)), split(merge(apart()), 2)[1]):
        save(merged, tmp_path / "model")
        loaded = load(tmp_path / "model")
        assert loaded.decision_function(X).tobytes() == merged.decision_function(X).tobytes()
        assert loaded.t_ == merged.t_


def test_what_auto_has_decided_stays():
    X, y = waves()
    for model in (PegasosClassifier(random_state=0), KernelPegasosClassifier(budget=20, random_state=0)):
        models = [model.fit(X, y), model]
        for merged in (merge(models), *split(model, 2)):
            assert merged.alpha_ == model.alpha_ == 1 / 300
            assert merged.partial_fit(X, y).alpha_ == 1 / 300


# -- refusals


def refused(models, match, error=ValueError):
    before = pickle.dumps([model.__dict__ for model in models])
    with pytest.raises(error, match=match):
        merge(models)
    assert pickle.dumps([model.__dict__ for model in models]) == before


@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({"gamma": 0.1}, "gamma, got 0.05 and 0.1"),
        ({"kernel": "linear", "maintenance": "project"}, "kernel, got 'rbf' and 'linear'"),
        ({"budget": 30}, "budget, got 20 and 30"),
        ({"budget": None}, "budget, got 20 and None"),
        ({"maintenance": "remove"}, "maintenance"),
        ({"multi_class": "ovo"}, "multi_class"),
    ],
    ids=str,
)
def test_machines_that_do_not_fit_together(params, name):
    X, y = waves()
    first = machine().fit(X, y)
    refused([first, machine(**params).fit(X, y)], f"same {name}")


def test_data_that_do_not_fit_together():
    X, y = waves()
    first = machine().fit(X, y)
    refused([first, machine().fit(X, y + 1)], "same classes")
    refused([first, machine().fit(X, y % 2)], "same classes")
    refused([first, machine().fit(X.astype(np.float32), y)], "same dtype, got 'float64' and 'float32'")
    refused([first, machine().fit(X[:, :4], y)], "same number of features")
    refused([first, machine().fit(pd.DataFrame(X).add_prefix("x"), y)], "feature names")
    refused([first, machine()], "not fitted", NotFittedError)
    refused([first, papers_linear(alpha=1.0, tol=None).fit(X, y)], "of one class")
    poly = {"kernel": "poly", "maintenance": "project"}
    refused([machine(**poly).fit(X, y), machine(**poly, coef0=1.0).fit(X, y)], "same coef0")
    refused([machine(**poly).fit(X, y), machine(**poly, degree=2).fit(X, y)], "same degree")
    scale = {"gamma": "scale"}
    refused([machine(**scale).fit(X, y), machine(**scale).fit(2 * X, y)], "same gamma")
    exact = {"budget": None, "tol": 1e-2}
    refused([machine(**exact).fit(X, y), machine(**exact, fit_intercept=True).fit(X, y)], "same fit_intercept")
    gram = machine(kernel="precomputed", budget=None).fit(X @ X.T, y)
    refused([gram, gram], "kernel='precomputed'")
    own = machine(kernel=oracle_kernel, budget=None).fit(X, y)
    refused([own], "kernel of features")
    learned = KernelPegasosClassifier(metric="diagonal", metric_rounds=1, budget=20, random_state=0).fit(X, y)
    refused([learned, learned], "plain metric")
    refused([ProjectronClassifier().fit(X, y)], "ProjectronClassifier")


def oracle_kernel(X, Z):
    return X @ Z.T


# -- split


def linear(task="hinge", **params):
    joint = {"multi_class": task} if task in ("ovr", "crammer_singer") else {"loss": task}
    return papers_linear(**{"alpha": 0.1, "random_state": 0} | joint | params)


@pytest.mark.parametrize("average", [False, True, "uniform"])
@pytest.mark.parametrize("parts", [1, 2, 7, [1.0, 2.5], [300, 1, 1]], ids=str)
@pytest.mark.parametrize("make", [linear, machine, lambda **params: machine(None, **params)], ids=["linear", "budget", "kernel"])
def test_what_is_split_and_merged_is_the_model(make, parts, average):
    X, y = waves(n_classes=2)
    model = make(average=average).partial_fit(X, y, classes=[0, 1])
    copies = split(model, parts)
    sizes = np.ones(parts) if isinstance(parts, int) else np.asarray(parts, float)
    assert [copy.t_ for copy in copies] == pytest.approx(300 * sizes / sizes.sum(), abs=1)
    want = model.decision_function(X)
    for copy in copies:
        assert_allclose(copy.decision_function(X), want, atol=1e-12 * np.abs(want).max())
    merged = merge(copies, sizes)
    assert_allclose(merged.decision_function(X), want, atol=1e-12 * np.abs(want).max())
    assert abs(merged.t_ - model.t_) < len(copies)
    assert merged._stream.counts.tolist() == model._stream.counts.tolist()
    if make is machine:
        assert merged.mean_gradient_error_ == pytest.approx(model.mean_gradient_error_)


@pytest.mark.parametrize("sizes", [[1, 1], [40, 80], [1, 2, 3, 2]], ids=str)
@pytest.mark.parametrize("learning_rate", ["pegasos", "invscaling"])
@pytest.mark.parametrize("make", [linear, lambda **params: machine(None, "linear", **params)], ids=["linear", "kernel"])
def test_a_copy_steps_as_if_it_had_made_twice_its_steps(make, learning_rate, sizes):
    X, y = waves(120, n_classes=2)
    params = {"sampling": "storage", "average": False}
    if make is linear:
        params |= {"learning_rate": learning_rate, "fit_intercept": False}
    model = make(**params).partial_fit(X, y, classes=[0, 1])
    alpha, copies = model.alpha_, split(model, sizes)
    want, steps = [], [30, 20, 50, 1][: len(sizes)]
    for copy, size, rows in zip(copies, sizes, steps, strict=True):
        w, t = model.coef_[0].astype(float), round(120 * size / sum(sizes))
        assert copy.t_ == t
        ahead = min(120 - t, t)
        for i in range(rows):
            t += 1
            eta = 1 / (alpha * (t + ahead)) if make is not linear or learning_rate == "pegasos" else (t + ahead) ** -0.5
            sign = 1.0 if y[i] else -1.0
            violates = sign * (X[i] @ w) < 1.0
            w = (1 - eta * alpha) * w + violates * eta * sign * X[i]
        # What is done to it on its way changes nothing.
        copy = pickle.loads(pickle.dumps(copy)).set_params(projection=False)
        copy.partial_fit(X[:rows], y[:rows])
        assert_allclose(copy.coef_[0], w, rtol=1e-9, atol=1e-12)
        want.append((w, copy))
    merged = merge([copy for _, copy in want], sizes)
    mean = np.average([w for w, _ in want], axis=0, weights=sizes)
    assert_allclose(merged.coef_[0], mean, rtol=1e-9, atol=1e-12)
    assert merged.t_ == 120 + sum(steps)
    # The average counts its own steps alone.
    merged.partial_fit(X[:1], y[:1])
    eta = 1 / (alpha * merged.t_) if make is not linear or learning_rate == "pegasos" else merged.t_**-0.5
    sign = 1.0 if y[0] else -1.0
    mean = (1 - eta * alpha) * mean + (sign * (X[0] @ mean) < 1.0) * eta * sign * X[0]
    assert_allclose(merged.coef_[0], mean, rtol=1e-9, atol=1e-12)


def test_rounds_come_to_what_one_model_comes_to():
    X, y = waves(3000, n_classes=2)
    rounds, whole = linear(alpha=1e-2), linear(alpha=1e-2)
    for _ in range(20):
        whole.partial_fit(X, y, classes=[0, 1])
        copies = split(rounds, [1000, 2000])
        for copy, rows in zip(copies, (slice(0, 1000), slice(1000, 3000)), strict=True):
            copy.partial_fit(X[rows], y[rows], classes=[0, 1])
        rounds = merge(copies, [1000, 2000])
    assert rounds.t_ == whole.t_ == 60_000
    objective = [oracle.objective_of_model("hinge", model, X, y) for model in (rounds, whole)]
    assert objective[0] < 1.002 * objective[1]


def test_a_model_without_training_is_cloned():
    copies = split(PegasosClassifier(alpha=0.5), [1, 2, 3])
    assert [copy.get_params()["alpha"] for copy in copies] == [0.5] * 3
    assert len({id(copy) for copy in copies}) == 3
    with pytest.raises(NotFittedError):
        merge(copies)


@pytest.mark.parametrize("parts", [0, -1, [], [1, 0], [1, -1], [np.nan], "ab", None, True, 2.5, [[1]]], ids=str)
def test_bad_parts(parts):
    with pytest.raises((ValueError, TypeError), match=r"parts|float|convert"):
        split(PegasosClassifier(), parts)


def test_what_cannot_be_split():
    X, y = waves()
    with pytest.raises(ValueError, match="average must begin at the first step .* got average=10"):
        split(PegasosClassifier(average=10).partial_fit(X, y), 2)
    with pytest.raises(ValueError, match="ProjectronClassifier"):
        split(ProjectronClassifier().fit(X, y), 2)
    with pytest.raises(ValueError, match="precomputed"):
        split(machine(kernel="precomputed", budget=None).fit(X @ X.T, y), 2)


def test_more_copies_than_steps():
    X, y = waves(n_classes=2)
    model = machine(average=False).partial_fit(X[:3], y[:3], classes=[0, 1])
    copies = split(model, 8)
    assert [copy.t_ for copy in copies] == [1] * 8
    want = model.decision_function(X)
    assert_allclose(merge(copies).decision_function(X), want, atol=1e-12 * np.abs(want).max())
