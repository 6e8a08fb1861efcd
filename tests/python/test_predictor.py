"""What predicts from a model file without scikit-learn: the same as the estimator, and no more.

``tests/models`` has files that others wrote: ``crate-*`` the crate (``PEGASOS_WRITE_MODELS=1 cargo test --test rust model::files_for_python``),
``format-4-*`` the last version of this package that wrote format 4.
"""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import every_pair, labelled
from safetensors import safe_open
from sklearn.base import clone
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

import pegasos
from pegasos import (
    KernelPegasosClassifier,
    OnlineGradientClassifier,
    PegasosClassifier,
    ProjectronClassifier,
    io,
)

if TYPE_CHECKING:
    from collections.abc import Callable

# Few steps are enough here.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

X, Y = labelled(5, 120, 6, 3)
X = np.where(np.abs(X) < 0.15, 0.0, X)
WORDS = np.array(["high", "low", "mid"])

FOLDER = Path(__file__).parent.parent / "models"

LINEAR: dict[str, dict[str, Any]] = {
    "defaults": {},
    "hinge": {"loss": "hinge"},
    "log loss": {"loss": "log_loss"},
    "jointly": {"loss": "hinge", "multi_class": "crammer_singer"},
    "averaged": {"average": True, "tol": None, "max_iter": 3},
    "no intercept": {"fit_intercept": False},
    "sigmoid": {"calibration": "sigmoid"},
    "isotonic": {"calibration": "isotonic"},
    "temperature": {"calibration": "temperature"},
}
KERNEL: dict[str, dict[str, Any]] = {
    "defaults": {},
    "all vectors": {"budget": None},
    "linear": {"kernel": "linear"},
    "poly": {"kernel": "poly", "coef0": 1.0, "gamma": 0.5},
    "sigmoid kernel": {"kernel": "sigmoid", "gamma": 0.1},
    "budget": {"budget": 10},
    "removal": {"budget": 10, "maintenance": "remove", "refine": False},
    "jointly": {"multi_class": "crammer_singer", "budget": None, "solver": "pegasos"},
    "against the rest": {"multi_class": "ovr", "budget": 10},
    "scores of pairs": {"decision_function_shape": "ovo"},
    "diagonal": {"metric": "diagonal", "metric_rounds": 2},
    "full": {"metric": "full", "metric_rounds": 2, "budget": 10},
    "sigmoid": {"calibration": "sigmoid"},
    "isotonic": {"calibration": "isotonic", "budget": 10},
    "temperature": {"calibration": "temperature"},
}
MODELS: dict[str, Callable[[], Any]] = {
    **{f"linear, {name}": lambda p=p: PegasosClassifier(random_state=0, **p) for name, p in LINEAR.items()},
    **{f"kernel, {name}": lambda p=p: KernelPegasosClassifier(random_state=0, **p) for name, p in KERNEL.items()},
    "online": lambda: OnlineGradientClassifier(delay=3, random_state=0),
    "projectron": lambda: ProjectronClassifier(budget=10, random_state=0),
}


def assert_same_scores(model: Any, light: Any, rows: Any, tolerance: float) -> float:
    """The same to the last bit if rows are float64; the estimator keeps float32."""
    scores, ours = model.decision_function(rows), light.decision_function(rows)
    if scores.dtype == np.float32:
        tolerance = max(tolerance, 1e-6)
    assert (ours.shape, ours.dtype) == (scores.shape, np.float64)
    off = float(np.abs(ours - scores).max())
    assert off <= tolerance * (1.0 + float(np.abs(scores).max()))
    assert light.predict(rows).tolist() == model.predict(rows).tolist()
    assert light.classes_.dtype == model.classes_.dtype
    return tolerance


def both(model: Any, folder: Path) -> Any:
    """The light reading of a model's file."""
    io.save(model, folder / "model")
    return io.load(folder / "model", light=True)


def assert_same(model: Any, light: Any, rows: Any, tolerance: float = 0.0) -> None:
    """Scores, labels and probabilities are those of the estimator."""
    tolerance = max(tolerance, assert_same_scores(model, light, rows, tolerance))
    assert light.has_probabilities == hasattr(model, "predict_proba")
    if light.has_probabilities:
        theirs = model.predict_proba(rows)
        assert np.abs(light.predict_proba(rows) - theirs).max() <= max(tolerance, 1e-15)
    else:
        with pytest.raises(ValueError, match="there are no probabilities: this .* was trained with neither"):
            light.predict_proba(rows)
    labels = model.predict(rows)
    assert light.score(rows, labels) == 1.0


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", MODELS)
def test_it_is_the_estimator(name: str, classes: int, tmp_path: Path) -> None:
    y = WORDS[Y if classes == 3 else (Y > 0).astype(int)]
    for dtype in (np.float64, np.float32):
        # A full map makes sparse rows dense, which they may have no room for.
        for form in (np.asarray, *([] if name == "kernel, full" else [sp.csr_matrix])):
            model = MODELS[name]().fit(form(X.astype(dtype)), y)
            light = both(model, tmp_path)
            assert repr(light) == f"<Predictor of a {type(model).__name__}, {classes} classes, 6 features>"
            others = [X.astype(np.float32), X, X.tolist(), np.asfortranarray(X), X.astype(">f8")]
            for rows in (X.astype(dtype), sp.csr_array(X.astype(dtype)), sp.csc_matrix(X), *others):
                if name != "kernel, full" or not sp.issparse(rows):
                    assert_same(model, light, rows)


def test_kernels_that_others_computed(tmp_path: Path) -> None:
    gram = rbf_kernel(X, gamma=0.5)
    model = KernelPegasosClassifier("precomputed", random_state=0).fit(gram, Y)
    light = both(model, tmp_path)
    assert_same(model, light, gram)
    assert_same(model, light, gram[:7])
    with pytest.raises(ValueError, match="X must have 120 features"):
        light.predict(X)


SCALERS: dict[str, Callable[[], Any]] = {
    "standard": StandardScaler,
    "no mean": lambda: StandardScaler(with_mean=False),
    "no scale": lambda: StandardScaler(with_std=False),
    "neither": lambda: StandardScaler(with_mean=False, with_std=False),
    "largest": MaxAbsScaler,
    "clipped": lambda: MaxAbsScaler(clip=True),
}


@pytest.mark.filterwarnings("ignore:Features differ in scale")
@every_pair(scaler=[*SCALERS], second=[None, "largest", "no mean"], kind=["linear", "kernel"], dtype=[np.float64, np.float32])
def test_pipelines(scaler: str, second: str | None, kind: str, dtype: Any, tmp_path: Path) -> None:
    rows = (X * np.array([1e-3, 7.0, 1.0 / 3.0, 0.0, 1e4, 1.0]) + np.array([0, 0, 1e3, 2.5, 0, -0.1])).astype(dtype)
    steps = [SCALERS[name]() for name in (scaler, second) if name is not None]
    make = {"linear": "linear, sigmoid", "kernel": "kernel, defaults"}[kind]
    model = make_pipeline(*steps, MODELS[make]()).fit(rows, WORDS[Y])
    light = both(model, tmp_path)
    # Beyond what the scalers have seen, too.
    assert_same(model, light, rows)
    assert_same(model, light, dtype(3.7) * rows)
    again = io.load(tmp_path / "model")
    assert isinstance(again, Pipeline) and [*again.named_steps] == [*model.named_steps]
    assert (again.decision_function(rows) == model.decision_function(rows)).all()
    sparse = sp.csr_matrix(rows)
    if "mean" in scaler or scaler in ("neither", "largest", "clipped"):
        assert_same(model, light, sparse)
        assert (again.decision_function(sparse) == model.decision_function(sparse)).all()
    else:
        with pytest.raises(ValueError, match="X must be dense where a StandardScaler subtracts means, got .*sparse rows"):
            light.predict(sparse)


@pytest.mark.parametrize("scaler", [StandardScaler(), StandardScaler(with_mean=False), MaxAbsScaler()], ids=str)
@pytest.mark.parametrize("kind", ["plain", "weighted", "holes", "sparse"])
def test_scalers_go_on(scaler: Any, kind: str, tmp_path: Path) -> None:
    if kind == "sparse" and scaler.get_params().get("with_mean") or kind == "weighted" and isinstance(scaler, MaxAbsScaler):
        pytest.skip("there is no such scaler")
    rows = {"holes": np.where(X > 0.5, np.nan, X), "sparse": sp.csr_matrix(X)}.get(kind, X)
    weights = {"sample_weight": np.random.default_rng(0).random(len(X))} if kind == "weighted" else {}
    ours = clone(scaler).fit(rows, **weights)
    io.save(make_pipeline(ours, MODELS["linear, defaults"]().fit(X, Y)), tmp_path / "model")
    theirs = io.load(tmp_path / "model").steps[0][1]
    for one in (ours, theirs):
        one.partial_fit(rows[:50])
    assert ours.scale_.tobytes() == theirs.scale_.tobytes()
    assert np.array_equal(ours.n_samples_seen_, theirs.n_samples_seen_)


def test_a_pipeline_of_an_estimator_alone(tmp_path: Path) -> None:
    model = Pipeline([("nothing", "passthrough"), ("last", MODELS["linear, defaults"]())]).fit(X, Y)
    light = both(model, tmp_path)
    assert_same(model, light, X)
    assert [*io.load(tmp_path / "model").named_steps] == ["last"]


@pytest.mark.parametrize(
    "classes",
    [
        np.array([-1, 1]),
        np.array([3, 5, 200], np.uint8),
        np.array([False, True]),
        np.array([-1.0, 1.0, 2.0]),
        np.array([0.0, 1.0], np.float32),
        np.array(["a", "b", "ä\n\0c"]),
        np.array(["", "b"], object),
        np.array([-(2**63), 0, 2**63 - 1]),
    ],
    ids=lambda classes: f"{classes.dtype}-{len(classes)}",
)
def test_labels_of_any_kind(classes: np.ndarray, tmp_path: Path) -> None:
    model = MODELS["linear, defaults"]().fit(X, classes[Y % len(classes)])
    light = both(model, tmp_path)
    assert_same(model, light, X)
    assert {type(label) for label in light.classes_} == {type(label) for label in classes}


def test_a_stream_that_has_met_one_class(tmp_path: Path) -> None:
    for model in (PegasosClassifier("log_loss", calibration=None), KernelPegasosClassifier(budget=10)):
        model.partial_fit(X[:5], np.zeros(5))
        assert both(model, tmp_path).predict(X).tolist() == model.predict(X).tolist()


def test_it_pickles(tmp_path: Path) -> None:
    for name in ("linear, sigmoid", "kernel, diagonal", "online"):
        model = make_pipeline(StandardScaler(), MODELS[name]()).fit(X, Y)
        light = both(model, tmp_path)
        light.n_jobs = 2
        again = pickle.loads(pickle.dumps(light))
        assert (again.n_jobs, again.about) == (2, light.about)
        assert (again.decision_function(X) == light.decision_function(X)).all()


@pytest.mark.parametrize("name", [name for name in MODELS if "metric" not in name])
def test_what_rust_wrote_again_goes_on(name: str, tmp_path: Path) -> None:
    """A file that was read and written by the crate is an estimator, with the same scores, and learns."""
    model = MODELS[name]().fit(X, Y)
    light = both(model, tmp_path)
    (tmp_path / "rust").write_bytes(light._model.to_bytes())
    again = io.load(tmp_path / "rust")
    assert again.get_params() == model.get_params()
    assert_same(again, light, X, 1e-12)
    assert_same(again, io.load(tmp_path / "rust", light=True), X, 1e-12)
    t = again.t_
    if "metric" not in model.get_params() or model.metric == "plain":
        again.partial_fit(X[:30], Y[:30])
        assert again.t_ > t
        assert np.isfinite(again.decision_function(X)).all()
        io.save(again, tmp_path / "further")
        assert_same_scores(again, io.load(tmp_path / "further", light=True), X, 1e-12)


def test_names_of_features(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcdef"))
    for model in (MODELS["linear, defaults"](), make_pipeline(StandardScaler(), MODELS["linear, defaults"]())):
        model.fit(frame, Y)
        light = both(model, tmp_path)
        assert light.feature_names_in_.tolist() == list("abcdef")
        assert_same(model, light, frame)
        # An array has none.
        assert light.predict(X).tolist() == model.predict(frame).tolist()
        for other in (frame[list("fedcba")], frame.rename(columns={"a": "g"}), frame[["a", "b"]]):
            with pytest.raises(ValueError, match=r"X must have the columns \['a', 'b', .*\], in this order, got \["):
                light.predict(other)
    polars = pytest.importorskip("polars")
    assert light.predict(polars.DataFrame(X, schema=list("abcdef"))).tolist() == light.predict(frame).tolist()
    with pytest.raises(ValueError, match="X must have the columns"):
        light.predict(polars.DataFrame(X, schema=list("fedcba")))


class Csr:
    """A sparse matrix of somebody else's."""

    format = "csr"

    def __init__(self, matrix: Any) -> None:
        self.data, self.indices, self.indptr, self.shape = matrix.data, matrix.indices, matrix.indptr, matrix.shape


def test_rows_that_do_not_fit(tmp_path: Path) -> None:
    light = both(MODELS["linear, defaults"]().fit(X, Y), tmp_path)
    single = both(MODELS["kernel, defaults"]().fit(X.astype(np.float32), Y), tmp_path)
    bad = X.copy()
    bad[7, 2] = np.nan
    sparse = Csr(sp.csr_matrix(X))
    for change, message in [
        (X[:, :5], "X must have 6 features, as the model has, got 5"),
        (X[0], r"X must have two dimensions, rows and features, got shape \(6,\)"),
        (X[:0], "X must have one row or more, got none"),
        (bad, "row 7, column 2 holds NaN"),
        (np.where(X == X[3, 0], np.inf, X), "row 3, column 0 holds inf"),
        (X + 1j, "X must hold real numbers, got dtype complex128"),
        (X.astype(str), "X must hold real numbers, got dtype <U"),
        ([["a"] * 6], "X must hold real numbers"),
        ([[10**400] * 6], "X must hold real numbers"),
        ([[None] * 6], "NaN|X must hold real numbers"),
        ("abc", "X must"),
        (None, "X must"),
        (sp.csr_matrix(X[:, :4]), "X must have 6 features, as the model has, got 4"),
        (sp.csr_matrix((0, 6)), "X must have one row or more"),
        (sp.csr_matrix(bad), "row 7, column 2 holds NaN"),
        ({"indptr": sparse.indptr[:-1]}, "X must have 121 entries in indptr, as it has 120 rows, got 120"),
        ({"indices": sparse.indices + 6}, r"X.indices must lie in 0..6"),
        ({"indices": sparse.indices - 6}, r"X.indices must lie in 0..6"),
        ({"indices": sparse.indices.astype(float)}, "indices that are integers, got float64 and int32"),
        ({"indices": sparse.indices[:-1]}, "X"),
        ({"data": sparse.data[:-1]}, "X"),
        ({"data": sparse.data.reshape(2, -1)}, "data, indices and indptr of one"),
        ({"indices": sparse.indices.reshape(2, -1)}, "data, indices and indptr of one"),
        ({"indptr": np.array(3)}, "data, indices and indptr of one"),
        ({"shape": (120,)}, r"two dimensions, .* got shape \(120,\)"),
        ([[1.0] * 6, [1.0]], "X must be rows of 6 numbers"),
        ({"indptr": sparse.indptr[::-1]}, "X"),
    ]:
        rows = change
        if isinstance(change, dict):
            rows = Csr(sp.csr_matrix(X))
            vars(rows).update(change)
        with pytest.raises(ValueError, match=message) as caught:
            light.predict(rows)
        assert "\n" not in str(caught.value)
    assert light.predict(sparse).tolist() == light.predict(X).tolist()
    with pytest.raises(ValueError, match=r"row 0.* overflow|row of 0..120 makes scores overflow"):
        single.predict(np.full((120, 6), 1e300))
    with pytest.raises(ValueError, match=r"y must have shape \(120,\), as X has so many rows, got \(3,\)"):
        light.score(X, Y[:3])
    for weights in (np.ones(3), np.zeros(120), -np.ones(120), np.full(120, np.nan), "abc", ["a"] * 120, [10**400] * 120):
        with pytest.raises(ValueError, match="sample_weight must"):
            light.score(X, Y, weights)
    with pytest.raises(TypeError, match="name must be a str, got None"):
        light.to_c(None)  # type: ignore[arg-type]
    light.n_jobs = "2"  # type: ignore[assignment]
    with pytest.raises(TypeError, match="n_jobs must be None or an int, .* got '2'"):
        light.predict(X)
    light.n_jobs = 0
    with pytest.raises(ValueError, match="n_jobs"):
        light.predict(X)


#: In front of a script: neither scikit-learn nor SciPy can be imported.
ALONE = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("sklearn", "scipy", "safetensors", "joblib", "pandas"):
            raise ImportError(f"there is no {name} here")

sys.meta_path.insert(0, Blocker())
"""


def test_numpy_is_all_that_it_needs(run_script: Any, tmp_path: Path) -> None:
    model = make_pipeline(MaxAbsScaler(), MODELS["kernel, sigmoid"]()).fit(X, WORDS[Y])
    io.save(model, tmp_path / "model")
    rows = "".join(",".join(map(repr, row)) + "\n" for row in X.tolist())
    (tmp_path / "rows.csv").write_text(rows)
    sparse = sp.csr_matrix(X)
    np.savez(tmp_path / "arrays.npz", data=sparse.data, indices=sparse.indices, indptr=sparse.indptr, x=X)
    package = str(Path(pegasos.__file__).parent.parent)
    done = run_script(
        ALONE
        + f"""
sys.path.insert(0, {package!r})
import json
import numpy as np
import pegasos
from pegasos.cli import main

class Csr:
    format = "csr"

try:
    import sklearn
except ImportError:
    pass
else:
    raise AssertionError("nothing is blocked")
arrays = np.load({str(tmp_path / "arrays.npz")!r})
light = pegasos.load({str(tmp_path / "model")!r}, light=True)
rows = Csr()
rows.data, rows.indices, rows.indptr = arrays["data"], arrays["indices"], arrays["indptr"]
rows.shape = arrays["x"].shape
dense, sparse = light.decision_function(arrays["x"]), light.decision_function(rows)
print(json.dumps([dense.tolist(), sparse.tolist(), light.predict_proba(rows).tolist(), light.predict(rows).tolist()]))
sys.stdout.flush()
assert main(["info", {str(tmp_path / "model")!r}]) == 0
assert main(["predict", {str(tmp_path / "model")!r}, {str(tmp_path / "rows.csv")!r}, "--label", "none"]) == 0
"""
    )
    assert done.returncode == 0, done.stderr
    first, *lines = done.stdout.splitlines()
    dense, by_row, probabilities, labels = json.loads(first)
    assert dense == model.decision_function(X).tolist()
    assert by_row == model.decision_function(sparse).tolist()
    assert np.abs(np.array(probabilities) - model.predict_proba(sparse)).max() < 1e-15
    assert labels == model.predict(X).tolist() == lines[-120:]
    assert lines[0].split() == ["class", "KernelPegasosClassifier"]


# -- files that others wrote


def tensors_of(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    with safe_open(path, framework="np") as file:
        return json.loads(file.metadata()["pegasos"]), {name: file.get_tensor(name) for name in file.keys()}


def plain_scores(path: Path, rows: np.ndarray) -> np.ndarray:
    """The scores of a model without averages, as its file defines them."""
    state, tensors = tensors_of(path)
    trainer = state["trainer"]
    if "problems" in trainer:
        scores = []
        for problem in trainer["problems"]:
            v, b, u, ub = (tensors[problem[name]["tensor"]].astype(float) for name in ("v", "b", "u", "ub"))
            w, c = problem["a"] * v, problem["a"] * b
            if len(u):
                # The mean of the iterates: (A v - u)/steps.
                w, c = ((problem["sum_a"] * one - other) / problem["sum_q"] for one, other in ((v, u), (b, ub)))
            scores.append(rows @ w.reshape(-1, rows.shape[1]).T + problem["constant"] * c)
        return np.hstack(scores)
    params = trainer["params"]
    support = tensors["trainer.values"].reshape(-1, rows.shape[1]).astype(float)
    kernel = {
        "rbf": lambda: rbf_kernel(rows, support, gamma=params["gamma"]),
        "poly": lambda: polynomial_kernel(rows, support, params["degree"], params["gamma"], params["coef0"]),
        "linear": lambda: rows @ support.T,
    }[params["kernel"]]()
    v = tensors["trainer.v"].reshape(len(support), -1).astype(float)
    return trainer["a"] * (kernel + params.get("constant", 0.0) ** 2) @ v


@pytest.mark.parametrize("name", ["linear", "kernel", "budget"])
def test_files_that_the_crate_wrote(name: str, tmp_path: Path) -> None:
    path = FOLDER / f"crate-{name}.safetensors"
    model, light = io.load(path), io.load(path, light=True)
    assert model.classes_.tolist() == ["high", "low", "mid"]
    rows = np.random.default_rng(0).normal(size=(50, 3))
    assert_same(model, light, rows, 1e-12)
    want = plain_scores(path, rows)
    if name != "linear":
        model.set_params(decision_function_shape="ovo")
    tolerance = 1e-4 if light.about["trainer"]["dtype"] == "float32" else 1e-9
    assert np.abs(model.decision_function(rows) - want).max() < tolerance * (1 + np.abs(want).max())
    # It learns on: what it was taught stays, and what is new is learned.
    angle = np.arange(60) * 0.7
    three = np.stack([np.cos(angle), np.sin(angle), np.zeros(60)], axis=1)
    y = WORDS[((angle % (2 * np.pi)) / (2 * np.pi) * 3).astype(int)]
    before = model.t_
    for _ in range(3):
        model.partial_fit(three, y)
    assert model.t_ > before
    assert model.score(three, y) > 0.8
    io.save(model, tmp_path / "further")
    assert_same(io.load(tmp_path / "further"), io.load(tmp_path / "further", light=True), rows, 1e-12)


@pytest.mark.parametrize("name", ["linear", "kernel"])
def test_files_of_format_4(name: str) -> None:
    path = FOLDER / f"format-4-{name}.safetensors"
    assert tensors_of(path)[0]["format"] == 4
    model, light = io.load(path), io.load(path, light=True)
    assert light.about["format"] == io.FORMAT
    rows = np.random.default_rng(1).normal(size=(50, 4))
    assert_same(model, light, rows, 1e-12)
    assert light.has_probabilities == (name == "kernel")
    y = model.classes_[np.argmax(rows[:, :3], axis=1)]
    assert model.score(rows, y) > 0.7
    before = model.t_
    model.partial_fit(rows, y)
    assert model.t_ > before and model.score(rows, y) > 0.7
