"""At home among others: threads, metadata routing, frames, sparse coefficients, types."""

import copy
import os
import pickle
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from conftest import labelled
from scipy import sparse
from sklearn.feature_selection import RFE
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils._param_validation import StrOptions
from threadpoolctl import threadpool_info, threadpool_limits

import pegasos
from pegasos import (
    KernelPegasosClassifier,
    KernelPegasosClassifierCV,
    OnlineGradientClassifier,
    PegasosClassifier,
    PegasosClassifierCV,
    ProjectronClassifier,
    load,
    merge,
    save,
)
from pegasos._threads import _available, thread_count

ESTIMATORS = [
    PegasosClassifier,
    OnlineGradientClassifier,
    KernelPegasosClassifier,
    ProjectronClassifier,
    PegasosClassifierCV,
    KernelPegasosClassifierCV,
]
VARIABLES = ("PEGASOS_NUM_THREADS", "RAYON_NUM_THREADS", "OMP_NUM_THREADS")


# -- threads


@pytest.fixture
def free(monkeypatch):
    """Nobody has said how many threads."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def counts():
    return [thread_count(n_jobs) for n_jobs in (None, 1, 2, 3, -1)]


def test_threadpoolctl_knows_us(free):
    (ours,) = [library for library in threadpool_info() if library["user_api"] == "pegasos"]
    assert os.path.samefile(ours["filepath"], sys.modules["pegasos._core"].__file__)
    assert ours["num_threads"] == thread_count(None) == joblib.cpu_count()
    assert ours["version"] == pegasos.__version__


def test_limits_hold_and_are_put_back(free, monkeypatch):
    before = counts()
    with threadpool_limits(1):
        assert counts() == [1] * 5
        (ours,) = [library for library in threadpool_info() if library["user_api"] == "pegasos"]
        assert ours["num_threads"] == 1
        with threadpool_limits(limits={"pegasos": 2}):
            assert counts() == [2, 1, 2, 2, min(2, joblib.cpu_count())]
        with threadpool_limits(limits=1, user_api="blas"):
            assert counts() == [1] * 5
        assert counts() == [1] * 5
        monkeypatch.setenv("PEGASOS_NUM_THREADS", "3")
        assert counts() == [1] * 5
    # No limit is left behind: neither for more threads than there are cores nor for who changes the environment.
    assert counts() == [3, *before[1:]]
    with threadpool_limits(None):
        assert counts() == [3, *before[1:]]


def test_a_limit_is_one_of_its_thread(free):
    with threadpool_limits(1), ThreadPoolExecutor(1) as other:
        assert other.submit(counts).result()[2:4] == [2, 3]
        assert counts() == [1] * 5


def test_a_limit_changes_no_bit(free):
    X, y = labelled(3, 200, 5, 3)
    model = KernelPegasosClassifier(random_state=0, n_jobs=2).fit(X, y)
    with threadpool_limits(1):
        alone = KernelPegasosClassifier(random_state=0, n_jobs=2).fit(X, y)
        assert np.array_equal(model.decision_function(X), alone.decision_function(X))
    assert np.array_equal(model.dual_coef_, alone.dual_coef_)


def test_learning_a_metric_leaves_limits_alone(free):
    X, y = labelled(4, 100, 4, 2)
    with threadpool_limits(limits=1, user_api="pegasos"):
        KernelPegasosClassifier(metric="full", budget=20, random_state=0).fit(X, y)
        assert thread_count(2) == 1


def test_cores_are_those_that_joblib_counts(free, monkeypatch, run_script):
    """Which knows of a container's quota; and of an environment variable, by which that can be seen."""
    script = "from pegasos._threads import thread_count; print(thread_count(None), thread_count(-1), thread_count(100))"
    ran = run_script(script, LOKY_MAX_CPU_COUNT="1")
    assert ran.stdout.split() == ["1", "1", "4"]
    monkeypatch.setattr("pegasos._threads.available_parallelism", lambda: 3)
    _available.cache_clear()
    try:
        assert (thread_count(None), thread_count(-1), thread_count(-2), thread_count(100)) == (3, 3, 2, 12)
    finally:
        _available.cache_clear()


SEARCHES = """
import os
import threading
import time

for name in ("PEGASOS_NUM_THREADS", "RAYON_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.pop(name, None)

import joblib
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from pegasos import KernelPegasosClassifier

def threads(*_):
    from pegasos._threads import thread_count
    return thread_count(None)

def search(**backend):
    with joblib.parallel_config(**backend):
        search = GridSearchCV(KernelPegasosClassifier(), {"gamma": [0.1, 0.2]}, cv=2, n_jobs=2, scoring=threads, refit=False)
        return search.fit(*load_iris(return_X_y=True)).cv_results_["mean_test_score"].max()

def others():
    # The threads that are not Python's.
    return set(map(int, os.listdir("/proc/self/task"))) - {thread.native_id for thread in threading.enumerate()}

if __name__ == "__main__":
    # Threads of one process share ours.
    before = others()
    search(backend="threading")
    # What has ended takes a moment to go.
    end = time.monotonic() + 20.0
    while len(others() - before) > threads() and time.monotonic() < end:
        time.sleep(0.05)
    print(len(others() - before) <= threads())
    print(2 * search(backend="loky") <= max(2, joblib.cpu_count()))
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="asks Linux for its threads")
def test_searches_start_no_more_threads_than_there_are_cores(run_script):
    ran = run_script(SEARCHES)
    assert ran.stdout.split() == ["True"] * 2, ran.stderr


# -- metadata routing


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.fixture(scope="module")
def weighted():
    X, y = labelled(5, 120, 4, 2)
    return X, y, np.random.default_rng(5).uniform(0.0, 2.0, 120)


def make(kind):
    params = {"cv": 3} if kind.__name__.endswith("CV") else {}
    if kind in (PegasosClassifierCV, KernelPegasosClassifierCV):
        params["alphas"] = [0.1, 0.01]
    if kind is KernelPegasosClassifierCV:
        params |= {"gammas": [0.5], "budget": 20}
    return kind(**params, random_state=0)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_weights_reach_the_last_step_of_a_pipeline(kind, weighted, routing):
    X, y, weight = weighted
    model = make(kind).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
    if hasattr(model, "scoring"):
        # It asks for itself, its scorer for the folds.
        model.set_params(scoring=make_scorer(accuracy_score).set_score_request(sample_weight=True))
    scaler = StandardScaler().set_fit_request(sample_weight=False)
    pipe = make_pipeline(scaler, sklearn.base.clone(model)).fit(X, y, sample_weight=weight)
    Z = scaler.fit_transform(X)
    model.fit(Z, y, sample_weight=weight)
    assert np.array_equal(pipe.decision_function(X), model.decision_function(Z))
    assert pipe.score(X, y, sample_weight=weight) == accuracy_score(y, model.predict(Z), sample_weight=weight)
    assert not np.array_equal(make(kind).fit(Z, y).decision_function(Z), model.decision_function(Z))


@pytest.mark.parametrize("kind", [PegasosClassifier, KernelPegasosClassifier])
def test_weights_reach_every_fold(kind, weighted, routing):
    X, y, weight = weighted
    model = make(kind)
    for ask in (model.set_fit_request, model.set_score_request):
        ask(sample_weight=True)
    search = GridSearchCV(model, {"alpha": [0.1, 0.01]}, cv=3).fit(X, y, sample_weight=weight)
    assert np.array_equal(
        search.best_estimator_.decision_function(X),
        make(kind).set_params(**search.best_params_).fit(X, y, weight).decision_function(X),
    )
    scores = cross_validate(model, X, y, params={"sample_weight": weight}, cv=3)["test_score"]
    unweighted = cross_validate(make(kind).set_fit_request(sample_weight=False), X, y, cv=3)["test_score"]
    assert not np.array_equal(scores, unweighted)


def test_what_nobody_asked_for_is_refused(weighted, routing):
    X, y, weight = weighted
    with pytest.raises(sklearn.exceptions.UnsetMetadataPassedError, match="sample_weight"):
        make_pipeline(StandardScaler().set_fit_request(sample_weight=False), PegasosClassifier()).fit(X, y, sample_weight=weight)
    with pytest.raises(TypeError, match="color"):
        make_pipeline(PegasosClassifier()).fit(X, y, color=weight)


@pytest.mark.parametrize("kind", ESTIMATORS[:4])
def test_requests_name_what_methods_take(kind):
    with sklearn.config_context(enable_metadata_routing=True):
        model = kind().set_fit_request(sample_weight=True).set_partial_fit_request(classes=True, sample_weight="mass")
        routed = sklearn.base.clone(model).get_metadata_routing()
    assert routed.fit.requests["sample_weight"] is True
    assert routed.partial_fit.requests == {"classes": True, "sample_weight": "mass"}
    assert {"sample_weight"} == set(routed.score.requests)
    with pytest.raises(RuntimeError, match="enable_metadata_routing"):
        kind().set_fit_request(sample_weight=True)


# -- frames


class Stream:
    """Columns that are handed over by Arrow's PyCapsule interface, once."""

    def __init__(self, table):
        self._left = [table]

    def __arrow_c_stream__(self, requested_schema=None):
        return self._left.pop().__arrow_c_stream__(requested_schema)


class Batch:
    """As a struct array."""

    def __init__(self, batch):
        self._batch = batch

    def __arrow_c_array__(self, requested_schema=None):
        return self._batch.__arrow_c_array__(requested_schema)


def chunked(columns):
    table = pa.table(columns)
    return pa.concat_tables([table[:7], table[7:]])


#: Of a dict of columns, a frame.
FRAMES = {
    "pandas": pd.DataFrame,
    "pandas with masks": lambda columns: pd.DataFrame({name: pd.array(column) for name, column in columns.items()}),
    "pandas on Arrow": lambda columns: pa.table(columns).to_pandas(types_mapper=pd.ArrowDtype),
    "polars": pl.DataFrame,
    "table": pa.table,
    "chunks": chunked,
    "stream": lambda columns: Stream(pa.table(columns)),
    "batch": lambda columns: Batch(pa.record_batch(columns)),
    "record batch": pa.record_batch,
}


@pytest.fixture(scope="module")
def columns():
    X, y = labelled(6, 60, 4, 2)
    return {dtype: (X.astype(dtype), dict(zip("abcd", X.astype(dtype).T, strict=True))) for dtype in ("f4", "f8")}, y


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("frame", FRAMES)
def test_frames_are_their_numbers(frame, dtype, columns):
    both, y = columns
    X, by_name = both[dtype]

    def given():
        return FRAMES[frame](by_name)

    for model in (PegasosClassifier(random_state=0), KernelPegasosClassifier(random_state=0, calibration="sigmoid")):
        model.fit(given(), y)
        want = sklearn.base.clone(model).fit(X, y)
        assert model.feature_names_in_.tolist() == list("abcd")
        assert model._trainer.made.dtype == want._trainer.made.dtype == np.dtype(dtype).name
        scores = model.decision_function(given())
        assert np.array_equal(scores, want.decision_function(X)) and scores.dtype == dtype
        assert model.score(given(), y) == want.score(X, y)
        model.partial_fit(given(), y)
        want.partial_fit(X, y)
        assert np.array_equal(model.decision_function(given()), want.decision_function(X))
        with pytest.raises(ValueError, match="feature names"):
            model.predict(FRAMES[frame]({name: by_name[name] for name in "bacd"}))


@pytest.mark.parametrize("frame", FRAMES)
def test_columns_of_several_types_become_f64(frame):
    random = np.random.default_rng(7)
    by_name = {"a": random.normal(size=50).astype("f4"), "b": random.integers(9, size=50), "c": random.integers(2, size=50) > 0}
    X, y = np.column_stack([column.astype(float) for column in by_name.values()]), np.arange(50) % 2
    model = PegasosClassifier(random_state=0).fit(FRAMES[frame](by_name), y)
    assert np.array_equal(model.coef_, PegasosClassifier(random_state=0).fit(X, y).coef_)


@pytest.mark.parametrize("frame", FRAMES)
def test_missing_values_and_text_are_refused(frame):
    y = [0, 1] * 3
    for missing in ([1.0, None, 3.0, 4.0, 5.0, 6.0], [1, None, 3, 4, 5, 6]):
        with pytest.raises(ValueError, match="X contains NaN"):
            PegasosClassifier().fit(FRAMES[frame]({"a": missing}), y)
    with pytest.raises(ValueError, match="could not convert string to float: 'x'"):
        PegasosClassifier().fit(FRAMES[frame]({"a": list("xyxyxy"), "b": [1.0] * 6}), y)


@pytest.mark.parametrize("kind", [pd.Series, pl.Series, pa.array, lambda labels: pa.chunked_array([labels[:2], labels[2:]])])
def test_missing_labels_are_refused(kind):
    X = np.eye(4)
    for labels in (["a", "b", None, "a"], [0, 1, None, 1]):
        with pytest.raises(ValueError, match="y must hold .* and no missing values|contains NaN"):
            PegasosClassifier().fit(X, kind(labels))


class Column(Batch):
    """Labels that are handed over once."""


@pytest.mark.parametrize(
    "form",
    [
        pd.Series,
        lambda labels: pd.Series(labels, dtype="category"),
        lambda labels: pd.Series(labels).convert_dtypes(dtype_backend="pyarrow"),
        pl.Series,
        pa.array,
        lambda labels: pa.array(labels).dictionary_encode(),
        lambda labels: Column(pa.array(labels)),
        lambda labels: Stream(pa.chunked_array([labels[:30], labels[30:]])),
    ],
)
@pytest.mark.parametrize("names", [["no", "yes"], [0, 1]])
def test_labels_and_weights_of_every_kind(form, names, columns):
    (X, _), y = columns[0]["f8"], columns[1]
    labels, weights = np.array(names)[y].tolist(), np.linspace(0.0, 2.0, len(y))
    model = PegasosClassifier(random_state=0).fit(X, form(labels), sample_weight=pl.Series(weights))
    assert model.classes_.tolist() == names
    assert np.array_equal(model.coef_, PegasosClassifier(random_state=0).fit(X, y, weights).coef_)


def test_weights_by_capsule(columns):
    (X, _), y = columns[0]["f8"], columns[1]
    weights = np.linspace(0.0, 2.0, len(y))
    model = PegasosClassifier(random_state=0).fit(X, y, Stream(pa.chunked_array([weights])))
    assert np.array_equal(model.coef_, PegasosClassifier(random_state=0).fit(X, y, weights).coef_)


@pytest.mark.parametrize(
    "make",
    [
        lambda: PegasosClassifier(calibration="sigmoid", random_state=0),
        lambda: KernelPegasosClassifier(budget=20, calibration="temperature", random_state=0),
        lambda: PegasosClassifierCV([0.1], cv=GroupKFold(3), random_state=0),
        lambda: KernelPegasosClassifierCV([0.3], [0.1], budget=20, cv=GroupKFold(3), random_state=0),
    ],
)
def test_columns_by_capsule_go_everywhere(make, columns):
    (X, _), y = columns[0]["f8"], columns[1]
    weights, groups = np.linspace(0.0, 2.0, len(y)), np.arange(len(y)) % 5
    given = lambda values: Stream(pa.chunked_array([values]))
    tuned = hasattr(make(), "cv")
    of = {"groups": groups} if tuned else {}
    model = make().fit(X, given(y), given(weights), **{name: given(values) for name, values in of.items()})
    plain = make().fit(X, y, weights, **of)
    assert np.array_equal(model.predict_proba(X), plain.predict_proba(X))
    assert model.score(X, given(y), given(weights)) == plain.score(X, y, weights)
    if not tuned:
        for each, handed in ((model, given), (plain, np.asarray)):
            each.partial_fit(X, handed(y), classes=handed(np.unique(y)), sample_weight=handed(weights))
        if hasattr(model, "refit"):
            model.refit(X, given(y), given(weights))
            plain.refit(X, y, weights)
        assert np.array_equal(model.predict_proba(X), plain.predict_proba(X))


def test_a_stream_is_read_once(columns):
    (_, by_name), y = columns[0]["f8"], columns[1]
    table = pa.table(by_name)
    for model in (PegasosClassifier(calibration="sigmoid", random_state=0), PegasosClassifierCV([0.1], cv=3, random_state=0)):
        streamed = sklearn.base.clone(model).fit(Stream(table), y)
        assert np.array_equal(streamed.predict_proba(table), model.fit(table, y).predict_proba(table))


def test_capsules_need_pyarrow(columns, monkeypatch):
    both, y = columns
    given = Stream(pa.table(both["f8"][1]))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match="X is a Stream, .* install pyarrow"):
        PegasosClassifier().fit(given, y)


def test_a_query_is_not_data(columns):
    both, y = columns
    with pytest.raises(ValueError, match=r"X must be data, got a LazyFrame, a query; collect\(\)"):
        PegasosClassifier().fit(pl.LazyFrame(both["f8"][1]), y)


@pytest.mark.parametrize("frame", ["pandas", "polars"])
def test_frames_in_searches(frame, columns):
    both, y = columns
    X, by_name = both["f8"]
    model = make_pipeline(StandardScaler().set_output(transform=frame), PegasosClassifier(random_state=0))
    search = GridSearchCV(model, {"pegasosclassifier__alpha": [0.1, 0.01]}, cv=3).fit(FRAMES[frame](by_name), y)
    assert search.best_estimator_[-1].feature_names_in_.tolist() == list("abcd")
    plain = GridSearchCV(sklearn.base.clone(model).set_output(transform="default"), search.param_grid, cv=3).fit(X, y)
    assert np.array_equal(search.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"])


COPIES = """
import sys, warnings
import numpy as np, pandas as pd, polars as pl, pyarrow as pa
from pegasos import PegasosClassifier

warnings.simplefilter("ignore")

def memory(name):
    (line,) = [line for line in open("/proc/self/status") if line.startswith(name)]
    return int(line.split()[1]) * 1024

def make(X, kind):
    columns = {f"x{j}": X[:, j].copy() for j in range(X.shape[1])}
    return {
        "rows": lambda: pd.DataFrame(X, copy=False),
        "pandas": lambda: pd.DataFrame(columns),
        "polars": lambda: pl.DataFrame(columns),
        "arrow": lambda: pa.table(columns),
    }[kind]()

def copies(X, kind):
    y, frame = np.arange(len(X)) % 2, make(X, kind)
    open("/proc/self/clear_refs", "w").write("5")
    before = memory("VmRSS")
    PegasosClassifier(solver="pegasos", max_iter=1, tol=None).fit(frame, y)
    return (memory("VmHWM") - before) / X.nbytes

for dtype in ("float32", "float64"):
    X = np.ones((50_000, 200), dtype)
    X[::2] = -1.0
    for kind in ("rows", "pandas", "polars", "arrow"):
        copies(X[:100], kind)
        print(kind, copies(X, kind))
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="asks Linux for the most memory")
def test_frames_are_copied_once_at_most(run_forked):
    ran = run_forked(COPIES)
    assert ran.returncode == 0, ran.stderr
    found = [line.split() for line in ran.stdout.splitlines()]
    assert len(found) == 8
    for kind, copies in found:
        assert float(copies) < (0.2 if kind == "rows" else 1.3), ran.stdout


# -- coefficients


@pytest.mark.parametrize("n_classes", [2, 3])
def test_sparse_coefficients(n_classes, tmp_path):
    X, y = labelled(8, 90, 4, n_classes)
    X = sparse.csr_array(np.hstack([X, np.zeros((90, 50))]))
    model = PegasosClassifier(random_state=0).fit(X, y)
    weights, scores = model.coef_, model.decision_function(X)
    assert model.sparsify() is model
    assert model.coef_.format == "csr" and model.coef_.nnz == 4 * len(weights) and model.coef_.dtype == weights.dtype
    assert np.array_equal(model.coef_.toarray(), weights)
    assert np.array_equal(model.decision_function(X), scores)
    for kept in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert sparse.issparse(kept.coef_) and np.array_equal(kept.decision_function(X), scores)
    save(model, tmp_path / "model")
    assert np.array_equal(load(tmp_path / "model").coef_, weights)
    assert merge([model, model]).coef_ == pytest.approx(weights)
    # Learning goes on.
    goes_on = PegasosClassifier(random_state=0).fit(X, y).partial_fit(X, y)
    assert np.array_equal(model.partial_fit(X, y).coef_.toarray(), goes_on.coef_)
    assert model.densify() is model and isinstance(model.coef_, np.ndarray)
    assert isinstance(model.sparsify().fit(X, y).coef_, np.ndarray)


def test_sparse_coefficients_of_a_search_and_of_none(two_classes):
    X, y = two_classes
    tuned = PegasosClassifierCV([0.1], cv=3).fit(X, y)
    assert sparse.issparse(tuned.sparsify().coef_) and isinstance(tuned.densify().coef_, np.ndarray)
    for unfitted in (PegasosClassifier(), PegasosClassifierCV()):
        for change in (unfitted.sparsify, unfitted.densify):
            with pytest.raises(sklearn.exceptions.NotFittedError):
                change()


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("multi_class", ["ovo", "ovr", "crammer_singer"])
@pytest.mark.parametrize("budget", [None, 10])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_linear_kernel_has_weights(n_classes, budget, multi_class, form):
    X, y = labelled(9, 90, 4, n_classes)
    model = KernelPegasosClassifier(
        "linear", budget=budget, multi_class=multi_class, decision_function_shape="ovo", random_state=0
    ).fit(form(X), y)
    assert sparse.issparse(model.coef_) == (form is sparse.csr_array)
    weights = model.coef_.toarray() if sparse.issparse(model.coef_) else model.coef_
    assert weights.shape == (len(model.dual_coef_), 4)
    scores = model.decision_function(form(X))
    assert (X @ weights.T + model.intercept_).reshape(scores.shape) == pytest.approx(scores, rel=1e-9, abs=1e-9)


def test_weights_as_in_svc(two_classes):
    X, y = two_classes
    svc = SVC(kernel="linear", C=1.0, tol=1e-8).fit(X, y)
    ours = KernelPegasosClassifier("linear", alpha=1 / len(y), fit_intercept=False, tol=1e-9, random_state=0).fit(X, y)
    # Ours without an intercept: parallel rather than equal.
    alike = (svc.coef_ @ ours.coef_.T).item() / np.linalg.norm(svc.coef_) / np.linalg.norm(ours.coef_)
    assert alike > 0.99
    assert RFE(KernelPegasosClassifier("linear"), n_features_to_select=2).fit(X, y).support_.sum() == 2
    projectron = ProjectronClassifier("linear", budget=3, random_state=0).fit(X, y)
    assert (X @ projectron.coef_.T).ravel() == pytest.approx(projectron.decision_function(X))


def test_other_kernels_have_none(two_classes):
    X, y = two_classes
    for model in (KernelPegasosClassifier(), ProjectronClassifier("poly"), KernelPegasosClassifier(lambda X, Z: X @ Z.T)):
        assert not hasattr(model, "coef_")
        with pytest.raises(AttributeError, match="coef_ is there only with kernel='linear', got kernel="):
            model.fit(X, y).coef_
    assert not hasattr(KernelPegasosClassifier("linear"), "coef_")
    # What was trained counts.
    assert hasattr(KernelPegasosClassifier("linear").fit(X, y).set_params(kernel="rbf"), "coef_")


# -- types

PROGRAM = Path(__file__).with_name("typed_program.py")


def words_of(hint):
    """The words that a type admits."""
    if get_origin(hint) is Literal:
        return {word for word in get_args(hint) if isinstance(word, str)}
    return set().union(*(words_of(part) for part in get_args(hint) if get_origin(hint) not in (list, dict)))


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_types_know_the_words_that_parameters_take(kind):
    hints = get_type_hints(kind.__init__)
    for name, constraints in kind._parameter_constraints.items():
        taken = set().union(*(each.options for each in constraints if isinstance(each, StrOptions)))
        if name != "scoring":
            assert words_of(hints[name]) == taken, name


def test_the_package_says_that_it_has_types():
    assert (Path(pegasos.__file__).parent / "py.typed").exists()


def test_the_program_runs():
    exec(compile(PROGRAM.read_text(), str(PROGRAM), "exec"), {})


def package():
    return str(Path(pegasos.__file__).parents[1])


def test_mypy_knows_the_program(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--follow-imports=silent", str(PROGRAM)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "MYPYPATH": package()},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_pyright_knows_the_program(tmp_path):
    pytest.importorskip("pyright")
    if shutil.which("node") is None:
        pytest.skip("pyright runs on node")
    shutil.copy(PROGRAM, tmp_path)
    (tmp_path / "pyrightconfig.json").write_text(
        '{"typeCheckingMode": "strict", "reportUnnecessaryTypeIgnoreComment": true, "extraPaths": ["%s"]}' % package()
    )
    ran = subprocess.run(
        [sys.executable, "-m", "pyright", "-p", str(tmp_path), "--pythonpath", sys.executable],
        env={**os.environ, "PYRIGHT_PYTHON_GLOBAL_NODE": "1", "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0 and "0 errors, 0 warnings" in ran.stdout, ran.stdout + ran.stderr
