"""Headers for C, compiled by the system's compiler, give what the models give."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from conftest import every_pair, labelled
from scipy import sparse
from sklearn.datasets import load_digits, load_iris
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

import pegasos
from pegasos import (
    KernelPegasosClassifier,
    OnlineGradientClassifier,
    PegasosClassifier,
    ProjectronClassifier,
)
from pegasos._calibration import Calibration
from pegasos._machine import CONSTANT
from pegasos._predictor import Predictor

if TYPE_CHECKING:
    from pathlib import Path

CC = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
CXX = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")

# How well coefficients are solved for is no matter here.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

STRICT = ["-Wall", "-Wextra", "-pedantic", "-Wconversion", "-Wdouble-promotion", "-Werror"]

#: Calls what a header has row by row, for ctypes: `static inline` functions are nobody else's.
CALLS = """
#include "model.h"
#include "model.h"

int shape(int k)
{
    const int shape[] = {MODEL_FEATURES, MODEL_CLASSES, MODEL_OUTPUTS, (int)sizeof(REAL)};
    return shape[k];
}

void run(const REAL *x, size_t n, int *codes, REAL *scores, REAL *probabilities)
{
    for (size_t i = 0; i < n; ++i, x += MODEL_FEATURES) {
        codes[i] = model_predict(x);
        model_scores(x, scores + i * MODEL_OUTPUTS);
#ifdef PROBABLE
        model_probabilities(x, probabilities + i * MODEL_CLASSES);
#else
        (void)probabilities;
#endif
    }
}

LABEL label(int code)
{
    return model_labels[code];
}
"""


#: What a function that returns a label has as its type, in C and for ctypes.
LABELS: dict[str, tuple[str, Any]] = {
    "long long": ("long long", ctypes.c_longlong),
    "double": ("double", ctypes.c_double),
    "char *const": ("const char *", ctypes.c_char_p),
}


class Found(NamedTuple):
    codes: np.ndarray
    scores: np.ndarray
    probabilities: np.ndarray | None
    labels: list[Any]


def scalar_of(header: str) -> type[np.floating[Any]]:
    return np.float32 if "_predict(const float *x)" in header else np.float64


def probable(header: str) -> bool:
    return re.search(r"static inline void \w+_probabilities\(", header) is not None


def compiled(header: str, folder: Path, name: str) -> ctypes.CDLL:
    """The header in a library."""
    if CC is None:
        pytest.skip("there is no C compiler: no header can be tried")
    (folder / "model.h").write_text(header, encoding="ascii")
    (folder / "calls.c").write_text(CALLS.replace("model_", f"{name}_").replace("MODEL_", f"{name.upper()}_"))
    declared = re.search(rf"^static const (.+?) ?{name}_labels\[", header, re.MULTILINE)
    assert declared
    label, restype = LABELS[declared[1]]
    real = "float" if scalar_of(header) is np.float32 else "double"
    # What is loaded already would not be loaded anew.
    library = folder / f"calls{len([*folder.glob('*.so')])}.so"
    switches = ["-std=c99", "-O1", "-fPIC", "-shared", f"-DREAL={real}", f"-DLABEL={label}"]
    switches += ["-DPROBABLE"] if probable(header) else []
    command = [CC, *STRICT, *switches, str(folder / "calls.c"), "-o", str(library), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = ctypes.CDLL(str(library))
    loaded.label.restype = restype
    return loaded


def run(header: str, X: Any, folder: Path, name: str = "model") -> Found:
    """What the header makes of rows."""
    library, scalar = compiled(header, folder, name), scalar_of(header)
    X = np.ascontiguousarray(X, scalar)
    d, k, outputs, size = (library.shape(i) for i in range(4))
    assert (X.shape[1], X.dtype.itemsize) == (d, size)
    codes = np.full(len(X), -1, np.intc)
    scores, shares = np.full((len(X), outputs), np.nan, scalar), np.full((len(X), k), np.nan, scalar)
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (codes, scores, shares)]
    library.run(X.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(len(X)), *pointers)
    labels = [library.label(code) for code in range(k)]
    labels = [label.decode() if isinstance(label, bytes) else label for label in labels]
    return Found(codes, scores, shares if probable(header) else None, labels)


def light(model: Any, folder: Path) -> Predictor:
    pegasos.save(model, folder / "model")
    predictor = pegasos.load(folder / "model", light=True)
    assert isinstance(predictor, Predictor)
    return predictor


def lost(model: Any) -> float:
    """What a model in single precision may be wrong by: rounding errors of all that it sums, of values of about 1."""
    model = model[-1] if isinstance(model, Pipeline) else model
    return float(1e-6 * max(10.0, abs(getattr(model, "dual_coef_", np.ones((1, 1)))).sum(axis=1).max()))


def check(model: Any, X: Any, folder: Path) -> Found:
    """Compares the header of a model with what predicts from its file."""
    predictor = light(model, folder)
    header = predictor.to_c()
    scalar = scalar_of(header)
    X = np.asarray(X, scalar)
    found = run(header, X, folder)
    assert found.labels == predictor.classes_.tolist()
    assert (predictor.classes_[found.codes] == predictor.predict(X)).all()
    scores = predictor._scores(X).reshape(found.scores.shape)
    tol = lost(model) if scalar is np.float32 else 1e-12 * max(1.0, abs(scores).max())
    np.testing.assert_allclose(found.scores, scores, rtol=0, atol=tol)
    pairs = "A score for each pair of classes" in header
    assert (found.probabilities is not None) == (predictor.has_probabilities and not pairs)
    if found.probabilities is not None:
        np.testing.assert_allclose(found.probabilities, predictor.predict_proba(X), rtol=0, atol=10 * tol)
    return found


LINEAR = {
    "hinge": PegasosClassifier("hinge"),
    "no intercept": PegasosClassifier(fit_intercept=False),
    "log loss": PegasosClassifier("log_loss"),
    "jointly": PegasosClassifier("hinge", multi_class="crammer_singer"),
    "online": OnlineGradientClassifier(),
    "sigmoid": PegasosClassifier(calibration="sigmoid"),
    "isotonic": PegasosClassifier(calibration="isotonic"),
    "temperature": PegasosClassifier(calibration="temperature"),
}
KERNEL = {
    "rbf": KernelPegasosClassifier(),
    "pairs, calibrated": KernelPegasosClassifier(calibration="sigmoid"),
    "rbf jointly": KernelPegasosClassifier(multi_class="crammer_singer", calibration="isotonic"),
    "rbf budget": KernelPegasosClassifier(budget=20, multi_class="ovr", calibration="temperature"),
    "poly": KernelPegasosClassifier("poly", coef0=1.0, degree=5),
    "poly of degree 1": KernelPegasosClassifier("poly", degree=1),
    "linear": KernelPegasosClassifier("linear", multi_class="ovr"),
    "tanh": KernelPegasosClassifier("sigmoid", coef0=0.1),
    "diagonal": KernelPegasosClassifier(metric="diagonal", metric_rounds=1),
    "full": KernelPegasosClassifier(metric="full", metric_rounds=1, budget=20),
    "projectron": ProjectronClassifier(),
}


def fresh(model: Any) -> Any:
    return type(model)(**model.get_params() | {"random_state": 0})


@every_pair(kind=[*LINEAR, *KERNEL], n_classes=[2, 5], dtype=[np.float32, np.float64])
def test_kinds_of_models(kind: str, n_classes: int, dtype: Any, tmp_path: Path) -> None:
    X, y = labelled(8, 150, 6, n_classes)
    model = fresh((LINEAR | KERNEL)[kind]).fit(X[:90].astype(dtype), y[:90])
    found = check(model, X, tmp_path)
    assert found.scores.dtype == dtype and len(np.unique(found.codes)) > 1


@every_pair(
    scaler=[StandardScaler(), StandardScaler(with_mean=False), StandardScaler(with_std=False), MaxAbsScaler()],
    kind=["log loss", "rbf budget", "diagonal", "full"],
    dtype=[np.float32, np.float64],
)
def test_scalers_in_front(scaler: Any, kind: str, dtype: Any, tmp_path: Path) -> None:
    X, y = load_iris(return_X_y=True)
    X = ((X - 3.0) * [1.0, 10.0, 0.1, 1.0]).astype(dtype)
    model = make_pipeline(scaler, fresh((LINEAR | KERNEL)[kind])).fit(X[::2], y[::2])
    check(model, X, tmp_path)


def test_two_scalers_and_a_clip(tmp_path: Path) -> None:
    X, y = load_iris(return_X_y=True)
    # A parameter that not every scikit-learn has.
    clip = {"clip": True} if "clip" in MaxAbsScaler().get_params() else {}
    model = make_pipeline(StandardScaler(), MaxAbsScaler(**clip), PegasosClassifier(random_state=0)).fit(X, y)
    check(model, 3.0 * X, tmp_path)


@pytest.mark.parametrize("multi_class", ["ovo", "ovr", "crammer_singer"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_real_rows(multi_class: str, dtype: Any, tmp_path: Path) -> None:
    X, y = load_digits(return_X_y=True)
    words = y.astype(str)
    machine = KernelPegasosClassifier(multi_class=multi_class, budget=100, random_state=0)
    check(machine.fit(X[:800].astype(dtype), words[:800]), X, tmp_path)
    if multi_class == "ovo":
        # All support vectors, of which each matters for few pairs.
        model = KernelPegasosClassifier(random_state=0).fit(X[:400].astype(dtype), words[:400])
        check(model, X, tmp_path)
        assert "model_places" in (tmp_path / "model.h").read_text()
    else:
        linear = PegasosClassifier(multi_class=multi_class, loss="hinge", random_state=0)
        check(linear.fit(X[:800].astype(dtype), words[:800]), X, tmp_path)


@pytest.mark.parametrize("model", [PegasosClassifier(), KernelPegasosClassifier(budget=30)])
def test_sparse_rows(model: Any, tmp_path: Path) -> None:
    X, y = load_digits(return_X_y=True)
    model = fresh(model).fit(sparse.csr_matrix(X[:500]), y[:500])
    check(model, X[:900], tmp_path)


def test_distances_in_single_precision_keep_their_digits(tmp_path: Path) -> None:
    X, y = load_digits(return_X_y=True)
    X = (X + 500.0).astype(np.float32)
    model = KernelPegasosClassifier(decision_function_shape="ovo", random_state=0).fit(X[:200], y[:200])
    assert model.dual_coef_.dtype == np.float32
    found = run(light(model, tmp_path).to_c(), X[:400], tmp_path)
    rows, vectors = X[:400].astype(float), model.support_vectors_.astype(float)
    values = np.exp(-model._gamma * np.stack([((row - vectors) ** 2).sum(axis=1) for row in rows])) + CONSTANT**2
    np.testing.assert_allclose(found.scores, values @ model.dual_coef_.T.astype(float), rtol=0, atol=1e-5)
    # What the model itself loses, that has products and norms.
    assert abs(found.scores - model.decision_function(X[:400])).max() > 5e-4


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize(
    "model",
    [
        PegasosClassifier(fit_intercept=False),
        KernelPegasosClassifier("linear", fit_intercept=False),
        KernelPegasosClassifier("linear", fit_intercept=False, multi_class="ovr"),
        ProjectronClassifier("linear"),
    ],
)
def test_ties(model: Any, n_classes: int, tmp_path: Path) -> None:
    X, y = labelled(6, 60, 3, n_classes)
    found = check(fresh(model).fit(X, y), np.zeros((2, 3)), tmp_path)
    assert (found.codes == 0).all() and (found.scores == 0).all()


@pytest.mark.parametrize("n_classes", [2, 4])
def test_rows_far_from_all_vectors(n_classes: int, tmp_path: Path) -> None:
    # Coefficients of C and -C, as many of each: what is left of scores is 0.
    X, _ = labelled(6, 8 * n_classes, 3, 2)
    y = np.arange(len(X)) % n_classes
    model = KernelPegasosClassifier(alpha=8.0 / len(X), random_state=0).fit(X, y)
    found = check(model, X + 1e3, tmp_path)
    assert (found.scores == 0).any()


def test_votes_that_go_round(tmp_path: Path) -> None:
    # Labels that mean nothing: often each of three classes wins against the next, and the sums of scores decide.
    random = np.random.default_rng(0)
    X, y = random.normal(size=(60, 2)), np.arange(60) % 3
    model = KernelPegasosClassifier(gamma=10.0, decision_function_shape="ovo", random_state=0).fit(X, y)
    rows = random.normal(size=(5000, 2))
    won = model.decision_function(rows) >= 0
    circles = (won == [True, False, True]).all(axis=1) | (won == [False, True, False]).all(axis=1)
    assert len(np.unique(check(model, rows, tmp_path).codes[circles])) == 3


@pytest.mark.parametrize(
    "model",
    [
        PegasosClassifier("log_loss"),
        PegasosClassifier(calibration="isotonic"),
        KernelPegasosClassifier(),
        KernelPegasosClassifier("poly"),
        KernelPegasosClassifier("linear"),
    ],
)
def test_a_stream_that_has_met_one_class(model: Any, tmp_path: Path) -> None:
    X, _ = labelled(7, 20, 3, 2)
    found = check(fresh(model).partial_fit(X, ["only"] * 20), X, tmp_path)
    assert found.labels == ["only"] and (found.codes == 0).all()
    assert found.probabilities is None or (found.probabilities == 1.0).all()


@pytest.mark.parametrize(
    "labels",
    [
        ['"', "*/ int x;", "\\", "a\nb\r\t\x07", "??=", "//", "é∀🐟", "\x7f0", ""],
        [-(2**63), -1, 0, 2**63 - 1],
        [False, True],
        [-1.0, 0.0, 1e15],
        np.array([3, 200], np.uint8),
    ],
    ids=["text", "int", "bool", "float", "uint8"],
)
def test_labels(labels: Any, tmp_path: Path) -> None:
    labels = np.asarray(labels)
    X = np.random.default_rng(0).normal(size=(4 * len(labels), 2))
    found = check(PegasosClassifier(random_state=0).fit(X, np.tile(labels, 4)), X, tmp_path)
    assert found.labels == np.unique(labels).tolist()


def test_isotonic_steps_at_their_thresholds(tmp_path: Path) -> None:
    X, y = labelled(0, 60, 4, 2)
    model = PegasosClassifier(calibration="isotonic", fit_intercept=False, random_state=0).fit(X[:, :1], y)
    steps = np.array([[-1.0, -0.5, -0.5, 0.0, 2.0], [0.1, 0.2, 0.6, 0.6, 0.9]])
    steps[0] *= abs(model.coef_[0])
    model._calibration = Calibration("isotonic", 2, False, [steps])
    at = np.array([-1e9, -1.0, np.nextafter(-0.5, -1), -0.5, -0.25, 0.0, 1.0, 2.0, 1e9])
    at *= np.sign(model.coef_[0])
    found = check(model, at[:, None], tmp_path)
    assert found.probabilities is not None
    want = [0.1, 0.1, 0.2, 0.6, 0.6, 0.6, 0.75, 0.9, 0.9]
    np.testing.assert_allclose(found.probabilities[:, 1], want, rtol=0, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_digit_of_a_number_is_lost(dtype: Any, tmp_path: Path) -> None:
    # Weights of all magnitudes: about 1 over what their feature is.
    sizes = np.logspace(-6, 6, 60) * np.random.default_rng(0).uniform(1, 10, 60)
    rows = np.diag(sizes).astype(dtype)
    model = PegasosClassifier(fit_intercept=False, alpha=1e-12, random_state=0).fit(rows, np.arange(60) % 2)
    assert abs(model.coef_).max() > 1e8 * abs(model.coef_).min() > 0
    found = run(light(model, tmp_path).to_c(), np.eye(60), tmp_path)
    assert found.scores[:, 0].tolist() == model.coef_[0].tolist()


@pytest.mark.skipif(not (CC and CXX), reason="there is no compiler of C, or none of C++: no header can be tried")
@pytest.mark.parametrize("kind", ["isotonic", "sigmoid", "temperature", "full", "poly", "tanh", "linear"])
def test_headers_are_cxx(kind: str, tmp_path: Path) -> None:
    X, y = labelled(8, 60, 4, 3)
    model = make_pipeline(MaxAbsScaler(), fresh((LINEAR | KERNEL)[kind])).fit(X, y.astype(str))
    (tmp_path / "model.h").write_text(light(model, tmp_path).to_c())
    (tmp_path / "other.h").write_text(light(model, tmp_path).to_c("other"))
    # Two models in one file, and nobody calls anything.
    (tmp_path / "calls.cc").write_text('#include "model.h"\n#include "other.h"\n#include "model.h"\n')
    for compiler, standard, name in ((CXX, "-std=c++17", "c++"), (CC, "-std=c99", "c")):
        command = [str(compiler), *STRICT, standard, "-x", name, "-fsyntax-only", str(tmp_path / "calls.cc")]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_the_same_model_is_the_same_text_and_all_of_it_is_ascii(tmp_path: Path) -> None:
    X, y = labelled(8, 60, 4, 3)
    model = KernelPegasosClassifier(budget=10, random_state=0).fit(X, np.array(["ä", "*/", "c"])[y])
    one, other = (light(model, tmp_path).to_c() for _ in range(2))
    assert one == other and one.isascii()
    # Labels stand in no comment.
    assert one.count("*/") == one.count("/*") + 1


def test_what_the_comment_says(tmp_path: Path) -> None:
    X, y = load_digits(return_X_y=True)
    model = PegasosClassifier(random_state=0).fit(X.astype(np.float32), y)
    header = light(model, tmp_path).to_c("digits")
    # 640 weights, 10 intercepts, 10 labels.
    assert f"Arrays: {650 * 4 + 10 * 8} bytes. Stack: 40 bytes" in header
    assert "A row: 640 multiplications." in header
    assert re.search("#define DIGITS_FEATURES 64\n#define DIGITS_CLASSES 10\n#define DIGITS_OUTPUTS 10\n", header)
    assert "<math.h>" not in header and "Probabilities: none" in header


@pytest.mark.parametrize("name", ["", "1a", "a-b", "_a", "a b", "ä", "a" * 41, "a*/", "a\n", "int x;"])
def test_names_that_are_none(name: str, tmp_path: Path) -> None:
    X, y = labelled(8, 30, 4, 2)
    predictor = light(PegasosClassifier(random_state=0).fit(X, y), tmp_path)
    with pytest.raises(ValueError, match="name must be a letter and up to 39 letters, digits and underscores"):
        predictor.to_c(name)
    with pytest.raises(TypeError):
        predictor.to_c(7)  # type: ignore[arg-type]


# What the text of a header is put together from.
@pytest.mark.parametrize("name", ["real", "exp", "tanh", "x", "a" * 40])
def test_names_that_could_be_taken_for_others(name: str, tmp_path: Path) -> None:
    X, y = labelled(8, 60, 4, 3)
    model = KernelPegasosClassifier("sigmoid", multi_class="ovr", calibration="sigmoid", random_state=0).fit(X, y)
    found = run(light(model, tmp_path).to_c(name), X, tmp_path, name)
    np.testing.assert_allclose(found.scores, model.decision_function(X), rtol=0, atol=1e-12)


def test_what_no_header_can_hold(tmp_path: Path) -> None:
    X, y = labelled(8, 60, 4, 3)
    precomputed = KernelPegasosClassifier("precomputed", random_state=0).fit(X @ X.T, y)
    with pytest.raises(ValueError, match="kernel must be .*, got .precomputed"):
        light(precomputed, tmp_path).to_c()
    for label, what in (("a\0b", "free of zero bytes"), ("a" * 4096, "at most 4095 bytes .*, got 4096")):
        model = PegasosClassifier(random_state=0).fit(X, np.array(["x", "y", label], object)[y])
        with pytest.raises(ValueError, match=f"a label must .*{what}"):
            light(model, tmp_path).to_c()
    wide = sparse.csr_matrix((np.ones(4), ([0, 1, 2, 3], [0, 1, 2, 3])), (4, 3_000_000))
    model = PegasosClassifier(random_state=0).fit(wide, [0, 1, 0, 1])
    with pytest.raises(ValueError, match=r"arrays of at most 16 MiB .*, got 22\.9 MiB"):
        light(model, tmp_path).to_c()


def test_a_scaler_that_single_precision_cannot_hold(tmp_path: Path) -> None:
    X, y = labelled(8, 60, 4, 2)
    for scale, what in ((1e60, "the mean of a scaler must be within"), (1e-60, "the scale .* must be other than 0")):
        scaler = StandardScaler().fit((X + 1.0) * scale)
        model = PegasosClassifier(random_state=0).fit(X.astype(np.float32), y)
        pipeline = make_pipeline(scaler, model)
        with pytest.raises(ValueError, match=what):
            light(pipeline, tmp_path).to_c()
