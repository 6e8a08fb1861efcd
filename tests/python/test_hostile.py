"""What hostile input once broke: arrays that lie, sizes, edited files, threads, copies, refused batches.

`tests/torture.py` goes through the same families by the thousand, each case in a process of its own.
"""

import copy
import importlib.util
import os
import pickle
import re
import threading
from pathlib import Path

import joblib
import numpy as np
import pytest
from scipy import sparse
from sklearn.svm import SVC

from conftest import papers_kernel, papers_linear
import pegasos
from pegasos import KernelPegasosClassifier, KernelPegasosClassifierCV, OnlineGradientClassifier, PegasosClassifier, ProjectronClassifier
from pegasos._data import is_positive, rows_of, sound
from pegasos._run import Run
from pegasos._threads import thread_count

ESTIMATORS = {
    "linear": lambda: papers_linear(random_state=0),
    "squared": lambda: papers_linear("squared_hinge", alpha=0.1, random_state=0),
    "ovr": lambda: papers_linear("log_loss", multi_class="ovr", random_state=0),
    "online": lambda: OnlineGradientClassifier(delay=2),
    "kernel": lambda: papers_kernel(random_state=0),
    "budget": lambda: papers_kernel(budget=20, random_state=0),
    "project": lambda: papers_kernel(budget=20, maintenance="project", random_state=0),
    "projectron": lambda: ProjectronClassifier(random_state=0),
}

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def every_estimator(test):
    return pytest.mark.parametrize("make", ESTIMATORS.values(), ids=ESTIMATORS)(test)


@pytest.fixture
def examples():
    return sparse.random(60, 30, 0.3, "csr", random_state=0), np.arange(60) % 2


# -- certificates


def gaps(model):
    return model.duality_gap_, model.objective_


@pytest.mark.parametrize("solver", ["pegasos", "auto"])
@pytest.mark.parametrize(
    ("kernel", "params"),
    [
        ("sigmoid", {"coef0": -1.0}),
        ("poly", {"coef0": -1.0}),
        (lambda X, Z: np.tanh(X @ Z.T - 1.0), {}),
    ],
)
def test_kernels_that_are_not_positive_have_no_certificate(kernel, params, solver, examples):
    X, y = examples[0].toarray(), examples[1]
    model = papers_kernel(kernel, max_iter=50, solver=solver, random_state=0, **params)
    gap, objective = gaps(model.fit(X, y))
    assert np.isnan(gap) and np.isnan(model.dual_objective_) and np.isfinite(objective)
    # Until the loss stops falling, not at once.
    assert model.n_iter_ >= 6
    with pytest.raises(ValueError, match="not known to be positive"):
        model.set_params(solver="dual").fit(X, y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_precomputed_kernels_are_looked_at(form, dtype):
    random = np.random.default_rng(0)
    y = np.arange(200) % 2
    for rank in (1, 5, 100, 150):
        A = random.normal(size=(200, rank))
        positive = form((A @ A.T).astype(dtype))
        model = papers_kernel("precomputed", alpha=1e-2, solver="auto", random_state=0)
        gap, objective = gaps(model.fit(positive, y))
        assert -1e-5 * objective <= gap <= 1e-3 * objective
        signs = np.ones(rank)
        signs[-1] = -1e-2
        indefinite = form(((A * signs) @ A.T).astype(dtype))
        assert np.isnan(gaps(model.fit(indefinite, y))[0])
        assert np.isnan(gaps(model.set_params(max_iter=3, solver="pegasos").fit(indefinite, y))[0])


def test_what_is_positive():
    random = np.random.default_rng(1)
    A = random.normal(size=(300, 7))
    assert is_positive(A @ A.T)
    assert is_positive(np.zeros((5, 5))) and is_positive(np.eye(400, dtype=np.float32))
    assert is_positive(np.ones((700, 700))) and is_positive(np.kron(np.eye(3), np.ones((400, 400))))
    assert not is_positive(A @ A.T - 1e-6 * np.eye(300))
    assert not is_positive(random.normal(size=(10, 10)))
    assert not is_positive(np.full((3, 3), np.nan))
    for d in (1, 2, 20):
        X = random.normal(size=(300, d)).astype(np.float32)
        norms = (X * X).sum(1)
        gram = np.exp(-(norms[:, None] + norms - 2 * X @ X.T))
        assert is_positive((gram + gram.T) / 2)


def test_a_certificate_holds_with_poly_of_positive_coef0(examples):
    X, y = examples
    model = papers_kernel("poly", coef0=0.5, solver="auto", alpha=1e-2).fit(X, y)
    gap, objective = gaps(model)
    assert 0 <= gap <= 1e-3 * objective


# -- all or nothing


@every_estimator
@pytest.mark.parametrize("kind", ["weight", "scale", "last", "index"])
def test_a_refused_batch_changes_nothing(kind, make, examples):
    X, y = examples
    model, twin = make().fit(X, y), make().fit(X, y)
    before, t = model.decision_function(X), model.t_
    bad, weight = X.copy(), None
    if kind == "weight":
        weight = np.full(60, 1e300)
    elif kind == "scale":
        bad.data *= 1e200
    elif kind == "last":
        bad.data[-1] = np.nan
    else:
        bad.indices[-1] = 10**6
    with pytest.raises(ValueError, match="X"):
        model.partial_fit(bad, y, sample_weight=weight)
    assert (model.decision_function(X) == before).all() and model.t_ == t
    # And goes on as one that never saw it.
    assert (model.partial_fit(X, y).decision_function(X) == twin.partial_fit(X, y).decision_function(X)).all()


# But for the squared hinge, whose steps are as small as the weights of the first batch want them.
@pytest.mark.parametrize("make", [make for name, make in ESTIMATORS.items() if name != "squared"])
def test_large_numbers_that_fit_are_learned_from(make, examples):
    X, y = examples
    model = make().fit(X, y)
    model.partial_fit(X, y, sample_weight=np.full(60, 1e60))
    assert model.t_ > 60 and np.isfinite(model.decision_function(X)).all()


@every_estimator
def test_a_copy_learns_on_its_own(make, examples):
    X, y = examples
    model = make().fit(X, y)
    before, t = model.decision_function(X), model.t_
    other = copy.copy(model)
    assert (other.decision_function(X) == before).all()
    for _ in range(3):
        other.partial_fit(X[::-1], y)
    assert (model.decision_function(X) == before).all() and model.t_ == t
    assert other.t_ > t
    if hasattr(model, "dual_coef_"):
        assert model.dual_coef_.shape[1] == len(model.support_vectors_.toarray())
    assert (model.partial_fit(X, y).decision_function(X) == copy.copy(model).decision_function(X)).all()


@every_estimator
def test_unfitted_copies(make):
    assert copy.copy(make()).get_params() == make().get_params()


# -- the door


def corruptions():
    def indices(X, value):
        X.indices[5] = value

    def indptr(X, value):
        X.indptr[-1] += value

    yield "negative index", lambda X: indices(X, -3)
    yield "index outside", lambda X: indices(X, 30)
    yield "all outside", lambda X: X.indices.fill(10**8)
    yield "row bounds beyond the data", lambda X: indptr(X, 100)
    yield "falling row bounds", lambda X: X.indptr.__setitem__(10, 10**6)
    yield "negative row bounds", lambda X: X.indptr.__setitem__(0, -1)
    yield "short data", lambda X: setattr(X, "data", X.data[:-9])
    yield "short indices", lambda X: setattr(X, "indices", X.indices[:-9])
    yield "fewer rows than declared", lambda X: setattr(X, "indptr", X.indptr[:-2])
    yield "wrapped index", lambda X: (
        setattr(X, "indices", X.indices.astype(np.int64)),
        setattr(X, "indptr", X.indptr.astype(np.int64)),
        indices(X, 2**32 + 1),
    )
    yield "indices that are no integers", lambda X: setattr(X, "indices", X.indices + 0.5)
    yield "data of two dimensions", lambda X: setattr(X, "data", X.data[:, None])


CORRUPTIONS = dict(corruptions())


@every_estimator
@pytest.mark.parametrize("corrupt", CORRUPTIONS.values(), ids=CORRUPTIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_arrays_that_lie_are_refused_by_every_method(dtype, corrupt, make, examples):
    X, y = examples
    model = make().fit(X, y)
    bad = (10 * X).astype(dtype)
    corrupt(bad)
    for call in (
        lambda: make().fit(bad, y),
        lambda: make().partial_fit(bad, y, classes=[0, 1]),
        lambda: model.partial_fit(bad, y),
        lambda: model.decision_function(bad),
        lambda: model.predict(bad),
        lambda: model.score(bad, y),
    ):
        with pytest.raises(ValueError, match="X"):
            call()


@pytest.mark.parametrize("form", ["csc", "coo", "bsr", "lil"])
def test_other_formats_are_looked_at(form, examples):
    X, y = examples
    model = papers_linear().fit(X, y)
    good = X.asformat(form)
    assert (model.decision_function(good) == model.decision_function(X)).all()
    bad = X.tobsr((3, 3)) if form == "bsr" else good
    if form == "coo":
        bad.row[3] = 10**6
    elif form == "lil":
        bad.rows[3] = [10**6]
        bad.data[3] = [1.0]
    else:
        bad.indices[3] = 10**6
    for call in (lambda: model.predict(bad), lambda: papers_kernel().fit(bad, y)):
        with pytest.raises(ValueError, match="X"):
            call()


def test_a_sound_matrix_is_not_copied(examples):
    X, _ = examples
    assert sound(X, [np.float64, np.float32]) is X
    wide = sound(X.astype(np.float32), np.dtype(np.float64))
    assert wide.dtype == np.float64 and (wide.toarray() == X.astype(np.float32).toarray()).all()
    dense = np.eye(3)
    assert sound(dense, np.float64) is dense


def test_rows_of_a_sparse_matrix(examples):
    X, _ = examples
    which = np.array([3, 3, 59, 0])
    assert (rows_of(X, which).toarray() == X.toarray()[which]).all()
    assert rows_of(X, np.arange(0)).shape == (0, 30)


@every_estimator
def test_rewritten_meanwhile(make, examples):
    """An error or finite numbers, whatever another thread does to the arrays."""
    X, y = examples
    model = make().fit(X, y)
    before = model.decision_function(X)
    torn = sparse.vstack([X] * 50).tocsr()
    labels = np.tile(y, 50)
    stop = threading.Event()

    def rewrite():
        random = np.random.default_rng(0)
        while not stop.is_set():
            array = (torn.indices, torn.indptr)[random.integers(2)]
            array[random.integers(len(array))] = random.choice([-5, 10**6, 3, 2**31 - 1])

    thread = threading.Thread(target=rewrite)
    thread.start()
    try:
        for call in (
            lambda: make().fit(torn, labels),
            lambda: model.predict(torn),
            lambda: np.isfinite(model.decision_function(torn)).all() or pytest.fail("not finite"),
            lambda: copy.copy(model).partial_fit(torn, labels),
        ):
            try:
                call()
            except ValueError:
                pass
    finally:
        stop.set()
        thread.join()
    assert (model.decision_function(X) == before).all()


@pytest.mark.parametrize(
    "make",
    [
        *ESTIMATORS.values(),
        lambda: KernelPegasosClassifier(metric="diagonal", random_state=0),
        lambda: KernelPegasosClassifier(lambda X, Z: X @ Z.T, random_state=0),
    ],
)
def test_fitted_anew_meanwhile(make, monkeypatch):
    """Who predicts while another thread fits a model anew finds the one that there was: its metric, rows, features and classes."""
    X, y = np.random.default_rng(0).normal(size=(60, 6)), np.arange(60) % 2
    model = make().fit(X, y)
    before, found, begin = model.decision_function(X), [], Run.begin

    def looks(*args, **params):
        found.append((model.decision_function(X) == before).all() and model.predict(X).max() == 1)
        model.set_params(random_state=7)
        return begin(*args, **params)

    monkeypatch.setattr(Run, "begin", looks)
    model.fit(X[::2, :4], np.arange(30) % 2 + 7)
    assert found and all(found)
    assert model.n_features_in_ == 4 and model.predict(X[:, :4]).min() >= 7
    # What was set meanwhile is for the next one.
    assert model.random_state == 7


@every_estimator
def test_pickled_meanwhile(make, examples):
    """A pickle is of the attributes that there are when it begins: none that another thread sets can end it."""
    X, y = examples
    model = make().fit(X, y)

    class Meddles:
        def __reduce__(self):
            model.set_meanwhile = True  # what another thread does, at the worst of times
            return int, ()

    model.meddles = Meddles()
    assert (pickle.loads(pickle.dumps(model)).predict(X) == model.predict(X)).all()


@every_estimator
def test_pickles_whose_buffers_begin_anywhere(make, examples):
    """As those of Dask do, and of whoever sends them apart from the rest."""
    X, y = examples
    model = make().fit(X, y)
    buffers = []
    text = pickle.dumps(model, protocol=5, buffer_callback=buffers.append)
    want = model.decision_function(X)
    for offset in (0, 1, 4):
        moved = []
        for buffer in buffers:
            there = buffer.raw()
            space = np.zeros(there.nbytes + 32, np.uint8)
            begin = -space.ctypes.data % 16 + offset
            space[begin : begin + there.nbytes] = there
            moved.append(space[begin : begin + there.nbytes])
        twin = pickle.loads(text, buffers=moved)
        assert (twin.decision_function(X) == want).all()
        twin.partial_fit(X, y)


def test_a_metric_whose_buffers_begin_anywhere():
    X = np.random.default_rng(0).normal(size=(120, 5))
    model = KernelPegasosClassifier(metric="diagonal", budget=20, random_state=0).fit(X, X[:, 0] > 0)
    want = model.decision_function(X)
    map = model._metric.map
    space = np.zeros(map.nbytes + 1, np.uint8)[1:].view(map.dtype).reshape(map.shape)
    space[:] = map
    twin = pickle.loads(pickle.dumps(model))
    object.__setattr__(twin._metric, "map", space)
    assert (twin.decision_function(X) == want).all()


def test_copies_count_the_steps_that_their_trainer_has_made(examples):
    """Who copies while another thread learns in place may find ``t_`` of before."""
    model = papers_kernel(budget=20, random_state=0).fit(*examples)
    steps, model.t_ = model.t_, 1
    assert [twin.t_ for twin in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model)))] == [steps] * 3


# -- sizes


MEMORY = """
from conftest import papers_kernel, papers_linear
import resource, numpy as np, scipy.sparse as sp
from pegasos import *
resource.setrlimit(resource.RLIMIT_AS, (3 << 29, 3 << 29))
def wide(d):
    columns = np.where(np.arange(40) < 39, np.arange(40), d - 1)
    return sp.csr_matrix((np.ones(40), columns, np.arange(41)), shape=(40, d))
y, many = np.arange(40) % 2, np.arange(200000) % 100000
for call in (
    lambda: papers_linear().fit(wide(2**31 - 1), y),
    lambda: papers_linear().fit(wide(2**40), y),
    lambda: OnlineGradientClassifier().fit(wide(2**40), y),
    lambda: papers_kernel().fit(wide(2**62), y),
    lambda: papers_kernel(budget=20).fit(wide(2**31 - 1), y),
    lambda: papers_kernel(budget=20, maintenance="project").fit(wide(2**62), y),
    lambda: ProjectronClassifier().fit(wide(2**62), y),
    lambda: papers_linear().fit(np.ones((200000, 2)), many),
    lambda: papers_kernel().fit(np.ones((200000, 2)), many),
    lambda: papers_kernel(budget=20000, gamma=1e3, alpha=1e-7, refine=False).fit(
        np.random.default_rng(0).normal(size=(60000, 20)), np.arange(60000) % 2
    ),
):
    try:
        call()
    except MemoryError as error:
        print("refused:", error, flush=True)
    else:
        print("answered", flush=True)
"""


def test_what_memory_cannot_hold_is_a_memory_error(run_forked):
    ran = run_forked(MEMORY, timeout=240)
    assert ran.returncode == 0, (ran.stdout, ran.stderr[-800:])
    refused = [line.startswith("refused: ") for line in ran.stdout.splitlines()]
    assert refused == 10 * [True], ran.stdout


def test_two_rows_of_every_class(run_forked):
    # All pairs of rows and classes as numbers would be 0.4 GB; what examples are mistaken for is not.
    ran = run_forked(
        "import numpy as np, pegasos\n"
        "from conftest import peak\n"
        "X = np.random.default_rng(0).normal(size=(10_000, 5))\n"
        "y = np.arange(10_000) % 5000\n"
        "model = pegasos.PegasosClassifier('hinge', alpha=1e-2, multi_class='crammer_singer', random_state=0)\n"
        "model.fit(X[:200], y[:200])\n"
        "before = peak()\n"
        "model.fit(X, y)\n"
        "assert 0 <= model.duality_gap_ <= 1e-3 * model.objective_\n"
        "more = peak() - before\n"
        "assert more < 100_000_000, more\n"
        "print('reached')",
        timeout=120,
    )
    assert "reached" in ran.stdout, ran.stderr[-800:]


def test_threads_are_few():
    cores = joblib.cpu_count()
    for n_jobs in (1000, 10**6, 2**31, 2**63, 10**30):
        assert thread_count(n_jobs) == 4 * cores
    assert thread_count(1) == 1 and thread_count(-1) == cores and thread_count(-(10**9)) == 1


@pytest.mark.parametrize("value", ["1000000", "9" * 30, "9" * 5000, "²", "-3", "0", "x"])
def test_threads_by_environment(value, monkeypatch):
    monkeypatch.setenv("PEGASOS_NUM_THREADS", value)
    assert 1 <= thread_count(None) <= 4 * joblib.cpu_count()


def test_no_more_threads_are_started_than_a_few(run_forked):
    """As the system counts them."""
    ran = run_forked(
        "import os, joblib, numpy as np\n"
        "from conftest import papers_kernel\n"
        "X, y = np.random.default_rng(0).normal(size=(200, 5)), np.arange(200) % 2\n"
        "papers_kernel(budget=20, n_jobs=1).fit(X, y)\n"
        "before = len(os.listdir('/proc/self/task'))\n"
        "papers_kernel(budget=20, n_jobs=3000).fit(X, y)\n"
        "print(len(os.listdir('/proc/self/task')) - before, 4 * joblib.cpu_count())"
    )
    started, most = map(int, ran.stdout.split())
    assert 1 <= started <= most


# -- stored models


@every_estimator
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_stored_models_are_right_to_the_last_bit(form, dtype, make, tmp_path):
    random = np.random.default_rng(0)
    X, y = random.normal(size=(400, 10)), random.integers(3, size=400)
    X = form(np.where(random.random(X.shape) < 0.7, X, 0.0).astype(dtype))
    model = make()
    if "multi_class" in model.get_params() and model.get_params().get("loss") != "hinge":
        model.set_params(multi_class="ovr")
    model.fit(X, y)
    before = model.decision_function(X)
    pegasos.save(model, tmp_path / "model")
    for other in (pegasos.load(tmp_path / "model"), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert (other.decision_function(X) == before).all()
        assert other.t_ == model.t_


def torture():
    path = Path(__file__).parents[1] / "torture.py"
    spec = importlib.util.spec_from_file_location("torture", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(not hasattr(os, "fork"), reason="cases run in forked processes")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("family", "cases"),
    [
        ("certificates", 40),
        ("batches", 40),
        ("sparse", 100),
        ("races", 6),
        ("memory", 10),
        ("files", 80),
        ("threads", 10),
        ("interrupts", 8),
        ("copies", 15),
        ("texts", 80),
        ("parameters", 60),
        ("forks", 4),
    ],
)
def test_a_little_torture(family, cases):
    outcome = torture().outcome
    seen = [(number, *outcome(family, number)) for number in range(cases)]
    assert not [case for case in seen if case[1] not in ("answered", "refused")]
    assert any(case[1] == "answered" for case in seen) or family in ("memory", "races")


@pytest.mark.parametrize("size", [1e-300, 1e300, 10**30, np.finfo(float).max])
def test_a_cache_of_any_size(size, examples):
    X, y = examples
    params = {"cache_size": size, "random_state": 0, "gamma": 1.0, "alpha": 1e-3}
    exact, refit = (KernelPegasosClassifier(budget=budget, **params).fit(X, y) for budget in (None, 10))
    tuned = KernelPegasosClassifierCV([1.0], [1e-3], 10, 2, cache_size=size, random_state=0).fit(X, y)
    for model in (exact, refit, tuned):
        assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.parametrize("scale", [1e154, 1e200, 1e308])
def test_an_intercept_whose_square_is_infinite(scale, examples):
    with pytest.raises(ValueError, match=f"intercept_scaling must have a square that is finite, got {re.escape(str(scale))}"):
        PegasosClassifier(intercept_scaling=scale).fit(*examples)


@pytest.mark.parametrize("loss", ["log_loss", "squared_hinge"])
@pytest.mark.parametrize("fit_intercept", [True, False, "free"])
def test_features_of_all_scales(loss, fit_intercept):
    # Steps of dual variables move margins by 1e14 times as much: the last bits of both must fit together.
    rng = np.random.RandomState(0)
    for _ in range(4):
        X = rng.randn(1000, 10) * 10.0 ** rng.randint(-6, 7, 10)
        y = (X[:, 0] / X[:, 0].std() + 0.5 * rng.randn(1000) > 0).astype(int)
        model = PegasosClassifier(loss, alpha=1e-6, fit_intercept=fit_intercept, random_state=0).fit(X, y)
        assert model.duality_gap_ <= 1e-3 * model.objective_


# -- words


def test_labels_that_cannot_be_told_apart(examples):
    X, _ = examples
    for labels in ([1, "a"], [None, "a"], [None, 1.0], [object(), 1], [(1,), (2,)]):
        y = np.empty(60, dtype=object)
        y[:] = (labels * 30)[:60]
        for make in (papers_linear, papers_kernel):
            with pytest.raises(ValueError, match="label"):
                make().fit(X, y)
            with pytest.raises(ValueError, match="label"):
                make().partial_fit(X, y, classes=[0, 1])


def test_classes_that_cannot_be_told_apart(examples):
    X, y = examples
    with pytest.raises(ValueError, match="classes must hold labels of one kind"):
        papers_linear().partial_fit(X, y, classes=np.array([0, "a", None], dtype=object))


def test_strange_parameters_have_clear_words(examples):
    X, y = examples
    with pytest.raises(ValueError, match="alpha must be so large that 1/alpha is finite, got 5e-324"):
        papers_linear(alpha=5e-324).fit(X, y)
    with pytest.raises(ValueError, match="max_iter"):
        papers_linear(max_iter=2**63).fit(X, y)
    with pytest.raises(ValueError, match="overflow"):
        papers_linear(t0=1e300).fit(X, y)


def test_no_attributes_of_other_estimators():
    for name in ("loss", "shards", "learning_rate", "early_stopping"):
        assert not hasattr(papers_kernel(), name)
    for name in ("shards", "early_stopping", "solver", "projection", "batch_size", "t0"):
        assert not hasattr(OnlineGradientClassifier(), name)
    for name in ("alpha", "projection", "batch_size", "solver"):
        assert not hasattr(ProjectronClassifier(), name)
    for name in ("radius", "delay"):
        assert not hasattr(papers_linear(), name)


def test_predictions_are_products(examples):
    """Linear scores are those of scikit-learn's own product, whatever the dtypes."""
    X, y = examples
    for kind in (np.float32, np.float64):
        for multi in (y, np.arange(60) % 3, np.arange(60) % 20):
            model = papers_linear(multi_class="ovr", max_iter=5).fit(X.astype(kind), multi)
            for dtype in (np.float32, np.float64, np.int64):
                rows = sparse.vstack([(3 * X).astype(dtype)] * 2, format="csr")
                want = rows @ model.coef_.T.astype(np.float64) + model.intercept_
                got = model.decision_function(rows)
                assert np.allclose(got, want.reshape(got.shape), rtol=1e-5, atol=1e-4)
                assert abs(model.decision_function(rows.toarray()) - got).max() < 1e-3
                assert abs(model.decision_function(rows[:5]) - got[:5]).max() < 1e-3


def test_svc_agrees_where_the_kernel_is_precomputed():
    random = np.random.default_rng(2)
    X = random.normal(size=(150, 3))
    y = (X[:, 0] + X[:, 1] ** 2 > 0.5).astype(int)
    gram = np.exp(-((X[:, None] - X) ** 2).sum(2))
    ours = papers_kernel("precomputed", alpha=1e-3, solver="dual", tol=1e-6).fit(gram, y)
    theirs = SVC(kernel="precomputed", C=1 / (1e-3 * 150)).fit(gram, y)
    assert np.mean(ours.predict(gram) == theirs.predict(gram)) > 0.97
