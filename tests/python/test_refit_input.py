"""Refit of machines on a budget: parameters, scikit-learn, and input of every kind."""

import copy
import pickle

import numpy as np
import pytest
from conftest import INTERRUPT, papers_kernel, papers_linear
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV

from pegasos import KernelPegasosClassifier, ProjectronClassifier, load, save
from refit_oracle import (
    KERNELS, batches, board, machine, objective, unchanged, waves, weights, whatever_is_warned_of,
)

# The papers' machine is one pass, and says that it is far from the optimum.
pytestmark = pytest.mark.filterwarnings("ignore:fit stopped after max_iter=1 epoch ")


# -- parameters and scikit-learn


def test_parameters():
    for value in (True, False):
        model = machine(refine=value)
        assert model.get_params()["refine"] is value
        assert clone(model).get_params() == model.get_params()
        model.set_params(refine=not value)
        assert model.refine is not value
    assert not hasattr(ProjectronClassifier(budget=20), "refit")
    assert "refine" not in ProjectronClassifier().get_params()
    assert not hasattr(papers_linear(), "refit")
    X, y = board(50)
    for name, value in [("refine", "yes"), ("refine", None), ("refine_rounds", 0), ("refine_rounds", 1.5)]:
        with pytest.raises(ValueError, match=f"'{name}' parameter"):
            machine(**{name: value}).fit(X, y)


def test_grid_search():
    X, y = board(600)
    search = GridSearchCV(machine(), {"refine": [True, False], "alpha": [1e-2, 1e-3]}, cv=3).fit(X, y)
    scores = {
        (p["refine"], p["alpha"]): s
        for p, s in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True)
    }
    assert len(scores) == 4
    assert scores[True, 1e-3] > scores[False, 1e-3] - 0.03
    assert search.best_estimator_.refine is search.best_params_["refine"]
    assert search.best_estimator_.refit(X, y).score(X, y) > 0.85


@pytest.mark.parametrize("way", ["rows", "alphas", "stream"])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(("kernel", "params"), [KERNELS[0], KERNELS[1], KERNELS[3]], ids=str)
def test_copies_pickles_and_files(kernel, params, form, way, tmp_path):
    X, y = waves(300, 4)
    X = X / 5.0
    model = machine(kernel, gamma=0.5, alpha=1e-2, **params).fit(form(X), y)
    if way == "stream":
        model.refit(batches(form(X), y))
    else:
        model.refit(form(X), y, alpha=[1e-1, 1e-2] if way == "alphas" else None)
    save(model, tmp_path / "model")
    twins = [load(tmp_path / "model"), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)]
    other = copy.deepcopy(model)
    for twin in twins:
        assert twin.get_params() == model.get_params()
        assert np.array_equal(twin.decision_function(form(X)), model.decision_function(form(X)))
        assert np.array_equal(twin.dual_coef_, model.dual_coef_)
        assert twin.t_ == model.t_
        for name in ("objective_", "dual_objective_", "duality_gap_"):
            assert np.array_equal(getattr(twin, name), getattr(model, name), equal_nan=True)
    other.partial_fit(form(X[:100]), y[:100])
    want = other.decision_function(form(X))
    for twin in twins:
        with unchanged(model):
            twin.partial_fit(form(X[:100]), y[:100])
        assert_allclose(twin.decision_function(form(X)), want, atol=1e-6 * np.abs(want).max())
        twin.refit(form(X), y)
        assert_allclose(twin.objective_, other.refit(form(X), y).objective_, rtol=3e-3)


def test_paths_are_kept(tmp_path):
    X, y = board()
    model = machine().fit(X, y).refit(X, y, alpha=[1e-1, 1e-2], cv=3)
    save(model, tmp_path / "model")
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), load(tmp_path / "model")):
        assert all(np.array_equal(twin.refit_path_[k], v) for k, v in model.refit_path_.items())


def test_of_what_was_never_fitted_or_has_no_budget():
    X, y = board(100)
    with pytest.raises(NotFittedError):
        machine().refit(X, y)
    with pytest.raises(NotFittedError):
        machine().refit([(X, y)])
    free = papers_kernel(gamma=2.0).fit(X, y)
    with unchanged(free), pytest.raises(ValueError, match="budget"):
        free.refit(X, y)
    # A machine that has only seen a stream.
    model = machine().partial_fit(X, y, classes=[0, 1])
    assert model.refit(X, y).duality_gap_ <= 1e-3 * model.objective_


def test_a_budget_that_the_machine_was_not_trained_on():
    X, y = board(100)
    free = papers_kernel(gamma=2.0).fit(X, y).set_params(budget=20)
    for arguments in ((X, y), ([(X, y)],)):
        with unchanged(free), pytest.raises(ValueError, match="budget"):
            free.refit(*arguments)


@pytest.mark.parametrize(
    "alpha",
    [0, -1, np.nan, np.inf, [], "x", [1e-3, "x"], [1e-3, 0.0], [1e-3, None], [[1e-3, 1e-2]], {}, 1j, 10**400],
    ids=repr,
)
def test_bad_alpha(alpha):
    X, y = board(100)
    model = machine().fit(X, y)
    for arguments in ((X, y), ([(X, y)],)):
        with unchanged(model), pytest.raises((ValueError, TypeError), match="alpha"):
            model.refit(*arguments, alpha=alpha)
    with pytest.raises(ValueError, match="'alpha' parameter"):
        model.set_params(alpha=-1.0).refit(X, y)


def test_bad_examples():
    X, y = board()
    model = machine().fit(X, y)
    nan, infinite = X.copy(), X.copy()
    nan[3, 1], infinite[4, 0] = np.nan, np.inf
    bad = [
        ((np.c_[X, X], y), "2 features"),
        ((X[:, :1], y), "2 features"),
        ((nan, y), "NaN"),
        ((infinite, y), "infinity"),
        ((sparse.csr_array(nan), y), "NaN"),
        ((X, y + 1), "classes"),
        ((X, y.astype(str)), "classes"),
        ((X, y[:-1]), "inconsistent"),
        ((X, y, np.ones(299)), "sample_weight"),
        ((X, y, -np.ones(300)), "[Nn]egative"),
        ((X, y, np.zeros(300)), "weight"),
        ((X, y, np.full(300, np.nan)), "NaN"),
        ((X[:0], y[:0]), "0 sample"),
        ((X[0], y[:1]), "2D"),
        ((X, y, None, [1e-2, 1e-3], 3), None),
    ]
    for arguments, word in bad:
        with unchanged(model), pytest.raises((ValueError, TypeError), match=word):
            model.refit(*arguments)
    for cv in (1, 500, "x", [([0], [900])]):
        with unchanged(model), pytest.raises((ValueError, IndexError, TypeError)):
            model.refit(X, y, alpha=[1e-2, 1e-3], cv=cv)
    # In float32 these are infinite.
    model = machine().fit(X.astype(np.float32), y)
    with unchanged(model), pytest.raises(ValueError, match=r"infinity|finite"), np.errstate(over="ignore"):
        model.refit(X * 1e300, y)


def test_no_split_at_all():
    X, y = board()
    model = machine().fit(X, y)
    with unchanged(model), pytest.raises(ValueError, match=r"cv|split"):
        model.refit(X, y, alpha=[1e-2, 1e-3], cv=[])


def test_warnings_that_are_errors_leave_the_model():
    X, y = board()
    model = machine().fit(X, y)
    scores = model.decision_function(X)
    # As they are here.
    with pytest.raises(ConvergenceWarning):
        model.refit(X, y, alpha=1e-10)
    assert np.array_equal(model.decision_function(X), scores)
    with unchanged(model), pytest.raises(ConvergenceWarning):
        model.refit(X, y, alpha=1e-10)


@pytest.mark.parametrize("way", ["rows", "stream"])
def test_parameters_that_were_set_before(way):
    """A refit must not make partial_fit believe that the machine was made with parameters as they are now."""
    X, y = board()
    model = machine().fit(X, y)
    arguments = (X, y) if way == "rows" else ([(X, y)],)
    a = copy.deepcopy(model).refit(*arguments, alpha=0.1).set_params(alpha=0.1).partial_fit(X, y)
    b = copy.deepcopy(model).set_params(alpha=0.1).refit(*arguments).partial_fit(X, y)
    want = a.decision_function(X)
    assert_allclose(b.decision_function(X), want, atol=1e-6 * np.abs(want).max())


@pytest.mark.parametrize("way", ["rows", "stream"])
@pytest.mark.parametrize("params", [{"gamma": 1.0}, {"maintenance": "remove"}, {"budget": 30}], ids=str)
def test_structure_stays(params, way):
    X, y = board()
    model = machine().fit(X, y)
    arguments = (X, y) if way == "rows" else ([(X, y)],)
    model.set_params(**params)
    with pytest.raises(ValueError, match="must stay as they are"):
        model.refit(*arguments).partial_fit(X, y)


def test_labels_of_any_kind():
    X, y = board()
    names = np.array(["white", "black"])[y]
    model = machine().fit(X, names).refit(X, names, alpha=[1e-2, 1e-3])
    assert model.score(X, names) > 0.8
    # A part that has not all of them.
    white = names == "white"
    model.refit(X[white], names[white])
    assert model.score(X[white], names[white]) == 1.0


def test_progress(capsys):
    X, y = board()
    machine(verbose=1).fit(X, y).refit(X, y, alpha=[1e-2, 1e-3])
    assert "KernelPegasosClassifier" in capsys.readouterr().err


# -- degenerate


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_rows_that_are_all_the_same(n_classes, dtype):
    X, y = np.ones((60, 2), dtype), np.arange(60) % n_classes
    for params in ({"maintenance": "merge"}, {"maintenance": "project"}, {"kernel": "linear", "maintenance": "remove"}):
        with pytest.warns(UserWarning, match="span 1 dimensions only"):
            model = machine(gamma=1.0, **params).fit(X, y)
        assert len(model.support_vectors_) == 1
        assert np.isfinite(model.dual_coef_).all()
        # Nothing is better than 0.
        assert_allclose(model.objective_, 1.0, rtol=1e-3)


def test_rows_that_are_all_zero():
    """No span at all for a linear kernel: as without a refit, a model that says 0."""
    X, y = np.zeros((60, 2)), np.arange(60) % 2
    for refine in (False, True):
        model = machine("linear", maintenance="project", refine=refine)
        with whatever_is_warned_of():
            model.fit(X, y)
        assert np.array_equal(model.decision_function(X), np.zeros(60))


@pytest.mark.parametrize("maintenance", ["merge", "project", "remove", "random"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_more_room_than_distinct_rows(maintenance, dtype):
    random = np.random.default_rng(0)
    distinct = random.normal(size=(12, 3))
    X = np.repeat(distinct, 10, axis=0).astype(dtype)
    y = np.repeat(np.arange(12) % 3, 10)
    for noise in (0.0, 1e-8, 1e-4):
        rows = (X + noise * random.normal(size=X.shape)).astype(dtype)
        model = machine(gamma=0.5, budget=50, maintenance=maintenance, alpha=1e-3)
        with whatever_is_warned_of():
            model.fit(rows, y)
        assert len(model.support_vectors_) <= 50
        if noise == 0.0:
            assert len(model.support_vectors_) <= 12
        assert np.isfinite(model.dual_coef_).all()
        assert model.score(rows, y) == 1.0
        assert_allclose(objective(model, rows, y), model.objective_, rtol=2e-2 if dtype == np.float32 else 1e-6)


def test_fewer_vectors_than_classes():
    X, y = board()
    with pytest.warns(UserWarning, match="support vectors span 1 dimensions only"):
        model = machine(budget=1).fit(X, y)
    assert len(model.support_vectors_) == 1
    assert np.isfinite(model.dual_coef_).all()
    assert model.objective_ <= 1.0 + 1e-3
    X, y = waves()
    with pytest.warns(UserWarning, match="there are 3 classes"):
        model = machine(gamma=0.02, budget=2).fit(X, y)
    with pytest.warns(UserWarning, match="there are 3 classes"):
        model.refit(X, y, y + 1.0)
    # One class is less than there are dimensions; nothing to warn of.
    model.refit(X, y, (y == 1) + 0.0)


@pytest.mark.parametrize("cache_size", [1e-6, 1024.0])
@pytest.mark.parametrize("n", [60, 3000])
@pytest.mark.parametrize("alpha", [1e-3, 1e-1, 10.0])
def test_an_optimum_at_0_is_certified(alpha, n, cache_size):
    """Where w is nothing but roundings."""
    X, y = np.ones((n, 1)), np.arange(n) % 3
    with pytest.warns(UserWarning, match="span 1 dimensions only"):
        model = machine(gamma=1.0, alpha=alpha, cache_size=cache_size).fit(X, y)
    assert_allclose(model.objective_, 1.0, rtol=1e-3)
    assert model.duality_gap_ <= 1e-3 * model.objective_
    linear = papers_linear(alpha=alpha, solver="dual", fit_intercept=False, random_state=0).fit(X, y)
    assert linear.duality_gap_ <= 1e-3 * linear.objective_


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("gamma", [1e-8, 1e6])
@pytest.mark.parametrize("alpha", [1e-10, 1e-3, 1e3])
def test_extremes(alpha, gamma, dtype):
    """Each ends within seconds, as the time of the whole file shows."""
    for X, y in (board(200), waves(200)):
        model = machine(gamma=gamma, alpha=alpha, budget=20)
        with whatever_is_warned_of():
            model.fit(X.astype(dtype), y)
        assert np.isfinite(model.dual_coef_).all()
        assert np.isfinite(model.decision_function(X)).all()
        assert -1e-6 * model.objective_ <= model.duality_gap_ < np.inf
        # Where it is solved, never worse than w = 0.
        assert model.objective_ <= 1.0 + 1e-2 or model.duality_gap_ > 1e-3 * model.objective_


@pytest.mark.parametrize("way", ["fit", "method"])
def test_a_small_alpha_is_warned_of(way):
    X, y = board()
    model = machine(alpha=1e-2).fit(X, y).set_params(alpha=1e-16)
    with pytest.warns(ConvergenceWarning, match="relative duality gap") as caught:
        model.fit(X, y) if way == "fit" else model.refit(X, y)
    assert np.isfinite(model.dual_coef_).all()
    assert model.duality_gap_ > 1e-3 * model.objective_
    # It points at who has asked for the impossible.
    assert caught[0].filename == __file__


@pytest.mark.parametrize("way", ["fit", "method"])
def test_fewer_dimensions_than_classes_are_warned_of(way):
    X, y = board()
    model = machine(budget=1)
    for _ in range(2):
        with pytest.warns(UserWarning, match="span 1 dimensions only") as caught:
            model.fit(X, y) if way == "fit" or not hasattr(model, "classes_") else model.refit(X, y)
    assert caught[0].filename == __file__


def test_advice():
    """What a warning says must help: epochs of a refit are not those of max_iter, and tol=None asks for 1e-2."""
    X, y = board()
    model = machine().fit(X, y).set_params(tol=None)
    with pytest.warns(ConvergenceWarning) as caught:
        model.refit(X, y, alpha=1e-10)
    assert "max_iter" not in str(caught[0].message)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_scales(scale, dtype):
    X, y = board()
    base = machine(gamma="scale").fit(X.astype(dtype), y)
    model = machine(gamma="scale").fit((scale * X).astype(dtype), y)
    assert np.isfinite(model.dual_coef_).all()
    assert_allclose(model.objective_, base.objective_, rtol=1e-2)
    # As good as a machine that knows nothing of other rows.
    model = machine(gamma=2.0).set_params(alpha=1e-4)
    # Of numbers so large double precision, too, is too short for the squares.
    with whatever_is_warned_of() if scale < 1.0 else pytest.warns(UserWarning, match="rounding hides"):
        model.fit((scale * X).astype(dtype), y)
    assert np.isfinite(model.dual_coef_).all()
    assert model.objective_ <= 1.0 + 1e-3


@pytest.mark.parametrize("make", [board, waves])
def test_rounds(make):
    X, y = make(1500)
    gamma = 2.0 if make is board else 0.02
    model = machine(gamma=gamma, refine_rounds=3).fit(X, y)
    # An epoch and a refit each.
    assert model.n_iter_ == len(model.loss_curve_) == 6
    assert len(model.support_vectors_) <= 25
    assert model.duality_gap_ <= 1e-3 * model.objective_
    once = machine(gamma=gamma).fit(X, y)
    assert model.score(X, y) > once.score(X, y) - 0.03
    assert machine(gamma=gamma, refine=False, refine_rounds=3).fit(X, y).n_iter_ == 1


def test_tiny_problems():
    for n in (2, 3, 5):
        X, y = np.arange(n, dtype=float)[:, None], np.arange(n) % 2
        model = machine(gamma=1.0, budget=5, alpha=0.1)
        with whatever_is_warned_of():
            model.fit(X, y)
            assert np.isfinite(model.refit(X, y).dual_coef_).all()
            assert np.isfinite(model.refit(X[:1], y[:1]).dual_coef_).all()
            model.refit([(X[i : i + 1], y[i : i + 1]) for i in range(n)])
        assert np.isfinite(model.dual_coef_).all()


INTERRUPTED = INTERRUPT + """
from conftest import papers_kernel
import numpy as np
from pegasos import KernelPegasosClassifier

random = np.random.default_rng(0)
X = random.uniform(0, 4, (60_000, 2)).astype(np.float32)
y = random.integers(0, {classes}, 60_000)
new = papers_kernel(gamma=8.0, alpha=1e-8, budget=200, tol=0.0, random_state=0)
small = papers_kernel(gamma=8.0, alpha=1e-2, budget=200, random_state=0).fit(X[:2000], y[:2000])
# What follows is about the refit, not about what came before it.
small.set_params(tol=0.0, cache_size={cache})

def stream():
    while True:
        yield X[:5000], y[:5000]

vectors = small.support_vectors_.copy()
for work, model in [
    (lambda: new.fit(X, y), new),
    (lambda: small.refit(X, y, alpha=1e-9), small),
    (lambda: small.refit(X, y, alpha=[1e-8, 1e-9]), small),
    (lambda: small.refit(stream()), small),
]:
    late = interrupt({after}, work)
    assert late < 1.0, late
    assert np.isfinite(model.dual_coef_).all() and model.dual_coef_.any()
    assert model.predict(X[:5]).shape == (5,)
    before = model.t_
    assert before > 0
    if model is small:
        assert np.array_equal(model.support_vectors_, vectors)
new.set_params(tol=1e-1)
for model in (new, small):
    before = model.t_
    model.partial_fit(X[:7], y[:7])
    assert model.t_ == before + 7
print("done")
"""


@pytest.mark.parametrize(("classes", "cache"), [(2, 1024.0), (3, 1.0)])
def test_ctrl_c(classes, cache, run_forked):
    done = run_forked(INTERRUPTED.format(classes=classes, cache=cache, after=0.5))
    assert done.stdout == "done\n", (done.returncode, done.stderr)


@pytest.mark.parametrize("seed", range(100))
def test_any_problem(seed):
    random = np.random.default_rng(seed)
    n, n_classes = int(random.integers(10, 200)), int(random.integers(2, 5))
    X = random.normal(size=(n, int(random.integers(1, 8)))) * 10.0 ** random.uniform(-1, 0.5)
    X = np.where(random.random(X.shape) < random.choice([0.0, 0.6]), 0.0, X)
    X = np.ascontiguousarray(X, random.choice([np.float32, np.float64]))
    y = random.permutation(np.arange(n) % n_classes)
    kernel, params = KERNELS[random.integers(len(KERNELS))]
    form = random.choice([np.asarray, sparse.csr_array])
    weight = random.choice([None, 1, 2])
    weight = None if weight is None else weights(n, seed) + 0.01
    model = machine(
        kernel, gamma=10.0 ** random.uniform(-2, 1), alpha=10.0 ** random.uniform(-4, 1),
        budget=int(random.integers(1, 40)), average=bool(random.integers(2)), random_state=seed, **params,
    )
    with whatever_is_warned_of():
        model.fit(form(X), y, weight)
        check_any(model, form(X), y, weight)
        model.partial_fit(form(X), y, sample_weight=weight)
        model.refit(form(X), y, weight, alpha=model.alpha * 2)
        check_any(model, form(X), y, weight, 2.0 * model.alpha)


def check_any(model, X, y, weight, alpha=None):
    assert np.isfinite(model.dual_coef_).all()
    assert np.isfinite(model.objective_)
    assert model.duality_gap_ >= -1e-6 * model.objective_, model.duality_gap_
    assert model.support_vectors_.shape[0] == model.dual_coef_.shape[1] <= model.budget
    rtol = 1e-2 if X.dtype == np.float32 else 1e-6
    assert_allclose(objective(model, X, y, weight, alpha), model.objective_, rtol=rtol)


def test_a_tenth_of_few_rows_holds_out_no_class_of_many():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 3)), np.arange(40) % 8
    model = KernelPegasosClassifier(budget=10, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="of 40 rows a tenth is too few to hold out some of each of 8 classes"):
        model.refit(X, y, alpha=[1e-2, 1e-3])
    assert len(model.refit(X, y, alpha=[1e-2, 1e-3], cv=2).refit_path_["alpha"]) == 2
    with pytest.raises(ValueError, match="of 1 rows a tenth is too few"):
        model.refit(X[:1], y[:1], alpha=[1e-2, 1e-3])


@pytest.mark.parametrize(
    ("train", "test", "said"),
    [
        (np.arange(20), np.arange(20, 50), "cv must give lists of row numbers in 0..40, got 49"),
        (np.arange(20, 50), np.arange(20), "cv must give lists of row numbers in 0..40, got 49"),
        (np.arange(20), np.arange(-5, 0), "cv must give lists of row numbers in 0..40, got -5"),
        (np.arange(20.0), np.arange(20, 40), "cv must give lists of row numbers in 0..40, got float64"),
        (np.arange(20), [], "cv must hold out some rows once at least, and learn from some"),
        ([], np.arange(20), "cv must hold out some rows once at least, and learn from some"),
    ],
)
def test_folds_that_are_none(train, test, said):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 3)), np.arange(40) % 2
    model = KernelPegasosClassifier(budget=10, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=said):
        model.refit(X, y, alpha=[1e-2, 1e-3], cv=[(train, test)])


def test_folds_may_be_masks_and_lists():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 3)), rng.integers(0, 2, 40)
    part = np.arange(40) < 30
    splits = [(np.arange(30), np.arange(30, 40)), (part, ~part), (list(range(30)), list(range(30, 40)))]
    model = KernelPegasosClassifier(budget=10, random_state=0).fit(X, y)
    paths = [copy.copy(model).refit(X, y, alpha=[1e-2, 1e-3], cv=[split]).refit_path_ for split in splits]
    for path in paths[1:]:
        np.testing.assert_array_equal(path["accuracies"], paths[0]["accuracies"])


@pytest.mark.parametrize(
    ("batches", "said"),
    [(None, "y must be given with the rows of X"), (5, "y must be given with the rows of X"), ([5], "a batch must hold X, y")],
)
def test_what_is_no_stream(batches, said):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 3)), np.arange(40) % 2
    model = KernelPegasosClassifier(budget=10, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=said):
        model.refit(batches)
