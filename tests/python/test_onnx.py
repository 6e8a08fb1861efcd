"""Graphs of ONNX, run by onnxruntime, give what the models give."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
import skl2onnx
from conftest import every_pair, labelled
from scipy import sparse
from skl2onnx.common.data_types import FloatTensorType, StringTensorType
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

import pegasos
from pegasos import (
    KernelPegasosClassifier,
    KernelPegasosClassifierCV,
    OnlineGradientClassifier,
    PegasosClassifier,
    PegasosClassifierCV,
    ProjectronClassifier,
)
from pegasos._calibration import Calibration
from pegasos._machine import CONSTANT
from pegasos.onnx import to_onnx

# How well coefficients are solved for is no matter here.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def run(graph, X):
    """What comes out, by name; what goes in is called X, unless there is more."""
    feeds = X if isinstance(X, dict) else {"X": X}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(graph.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def check(model, X, tol=1e-9, graph=None):
    """Compares a graph with its model; returns what has come out."""
    found = run(to_onnx(model) if graph is None else graph, X)
    labels, scores = model.predict(X), model.decision_function(X)
    assert found["label"].shape == labels.shape and (found["label"] == labels).all()
    assert found["scores"].shape == scores.shape
    np.testing.assert_allclose(found["scores"], scores, rtol=0, atol=tol)
    assert ("probabilities" in found) == hasattr(model, "predict_proba")
    if "probabilities" in found:
        np.testing.assert_allclose(found["probabilities"], model.predict_proba(X), rtol=0, atol=tol)
    return found


def fresh(model):
    """One with the same parameters."""
    return type(model)(**model.get_params() | {"random_state": 0})


MODELS = {
    "hinge": PegasosClassifier("hinge"),
    "squared hinge": PegasosClassifier(fit_intercept=False),
    "log loss": PegasosClassifier("log_loss"),
    "jointly": PegasosClassifier("hinge", multi_class="crammer_singer"),
    "online": OnlineGradientClassifier(),
    "rbf": KernelPegasosClassifier(),
    "rbf jointly": KernelPegasosClassifier(multi_class="crammer_singer"),
    "rbf budget": KernelPegasosClassifier(budget=20, multi_class="ovr"),
    "pairs": KernelPegasosClassifier(decision_function_shape="ovo"),
    "poly": KernelPegasosClassifier("poly", coef0=1.0),
    "linear": KernelPegasosClassifier("linear", multi_class="ovr"),
    "sigmoid": KernelPegasosClassifier("sigmoid", coef0=-0.5),
    "diagonal": KernelPegasosClassifier(metric="diagonal", metric_rounds=1),
    "full": KernelPegasosClassifier(metric="full", metric_rounds=1, budget=20),
    "projectron": ProjectronClassifier(),
}


@every_pair(
    name=MODELS,
    n_classes=[2, 3, 5],
    calibration=[None, "sigmoid", "temperature", "isotonic"],
    dtype=["float64", "float32"],
    labels=["int", "str"],
)
def test_every_model(name, n_classes, calibration, dtype, labels):
    X, y = labelled(3, 100, 6, n_classes)
    X = X.astype(dtype)
    if labels == "str":
        y = np.array(["Ähre", "b", "", "日本", "zz"])[y]
    model = fresh(MODELS[name]).set_params(calibration=calibration).fit(X, y)
    found = check(model, X, 1e-11 if dtype == "float64" else 1e-5)
    assert found["scores"].dtype == X.dtype
    assert found["label"].dtype == (np.int64 if labels == "int" else object)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("tuned", [PegasosClassifierCV(cv=3), KernelPegasosClassifierCV(cv=3, budget=20)])
def test_tuned_ones(tuned, n_classes):
    X, y = labelled(4, 90, 4, n_classes)
    model = fresh(tuned).fit(X, y)
    assert "probabilities" in check(model, X)
    check(model.best_estimator_, X, graph=to_onnx(model))


def test_whatever_has_made_the_model(three_classes, tmp_path):
    X, y = three_classes
    model = KernelPegasosClassifier(budget=15, metric="full", metric_rounds=1, random_state=0).fit(X, y)
    check(model.partial_fit(X, y), X)
    check(model.refit(X, y, learn_metric=True), X)
    pegasos.save(model, tmp_path / "model")
    assert to_onnx(pegasos.load(tmp_path / "model")).graph == to_onnx(model).graph
    halves = [PegasosClassifier(random_state=0).fit(X[part], y[part]) for part in (slice(45), slice(45, 90))]
    check(pegasos.merge(halves), X)


@pytest.mark.parametrize("multi_class", ["ovo", "ovr", "crammer_singer"])
def test_real_rows(multi_class):
    X, y = load_digits(return_X_y=True)
    model = KernelPegasosClassifier(multi_class=multi_class, budget=100, calibration="sigmoid", random_state=0)
    model.fit(X[:800], y[:800].astype(str))
    check(model, X)
    # Whole numbers are the same in single precision.
    found = check(model, X.astype(np.float32), 1e-5, to_onnx(model, dtype="float32"))
    assert found["scores"].dtype == found["probabilities"].dtype == np.float32


def test_rows_far_from_the_origin():
    X, y = load_digits(return_X_y=True)
    X = X[:300] + 5000.0
    model = KernelPegasosClassifier(random_state=0).fit(X, y[:300])
    check(model, X.astype(np.float32), 1e-5, to_onnx(model, dtype=np.float32))
    # What single precision would make of it.
    rows, vectors = X.astype(np.float32), model.support_vectors_.astype(np.float32)
    squares = (rows**2).sum(axis=1)[:, None] + (vectors**2).sum(axis=1) - 2 * rows @ vectors.T
    exact = ((X[:, None] - model.support_vectors_) ** 2).sum(axis=2)
    assert abs(squares - exact).max() * model._gamma > 0.1


def test_single_precision_is_that_of_the_model_not_of_the_graph(three_classes):
    X, y = three_classes
    X = (X + 3.0).astype(np.float32)
    model = KernelPegasosClassifier("poly", gamma=1.0, multi_class="ovr", random_state=0).fit(X, y)
    values = (X.astype(float) @ model.support_vectors_.T.astype(float)) ** 3
    exact = (values + CONSTANT**2) @ model.dual_coef_.T.astype(float)
    size = (abs(values) + CONSTANT**2) @ abs(model.dual_coef_.T)
    assert (abs(run(to_onnx(model), X)["scores"] - exact) <= 1e-7 * (1.0 + abs(exact))).all()
    assert (abs(model.decision_function(X) - exact) <= 1e-5 * size).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_linear_model_takes_rows_as_they_come(two_classes, dtype):
    X, y = two_classes
    model = PegasosClassifier(random_state=0).fit(X.astype(np.float32), y)
    found = check(model, X.astype(dtype), 1e-6 if dtype == "float32" else 1e-13, to_onnx(model, dtype=dtype))
    assert found["scores"].dtype == dtype


@pytest.mark.parametrize("scale", [1.0, 30.0, 1e6])
@pytest.mark.parametrize("n_classes", [3, 8, 26])
def test_pairs_are_coupled_however_sure_they_are(n_classes, scale):
    random = np.random.default_rng(n_classes)
    X, y = labelled(5, 4 * n_classes, 4, n_classes)
    y = np.arange(len(y)) % n_classes
    model = KernelPegasosClassifier(calibration="sigmoid", fit_intercept=False, random_state=0).fit(X, y)
    slopes = -scale * random.choice([0.3, 1.0, 3.0], n_classes * (n_classes - 1) // 2)
    model._calibration = Calibration("sigmoid", n_classes, True, [np.array([a, 0.0]) for a in slopes])
    check(model, 3.0 * random.normal(size=(200, 4)))


def with_weights(model, weights):
    """Has a linear model without an intercept export these, whatever it has learned."""
    model._exported.arrays = weights, np.zeros(len(weights), weights.dtype)


def test_isotonic_steps_at_their_thresholds(two_classes):
    X, y = two_classes
    model = PegasosClassifier(calibration="isotonic", fit_intercept=False, random_state=0).fit(X[:, :1], y)
    steps = np.array([[-1.0, -0.5, -0.5, 0.0, 2.0], [0.1, 0.2, 0.6, 0.6, 0.9]])
    model._calibration = Calibration("isotonic", 2, False, [steps])
    at = np.array([-1e300, -1.0, np.nextafter(-0.5, -1), -0.5, -0.25, 0.0, 1.0, 2.0, 1e9])
    with_weights(model, np.ones((1, 1)))
    found = run(to_onnx(model), at[:, None])
    np.testing.assert_array_equal(found["scores"], at)
    np.testing.assert_allclose(found["probabilities"][:, 1], np.interp(at, *steps), rtol=0, atol=1e-15)


@pytest.mark.parametrize("scale", [1e2, 1e3, 1e4])
def test_log_loss_where_all_probabilities_vanish(three_classes, scale):
    X, y = three_classes
    model = PegasosClassifier("log_loss", alpha=1e-6, random_state=0).fit(X, y)
    found = run(to_onnx(model), X * scale)["probabilities"]
    np.testing.assert_allclose(found, model.predict_proba(X * scale), rtol=0, atol=1e-11)
    assert scale < 1e4 or (found == 1 / 3).all(axis=1).any()


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize(
    "model",
    [
        PegasosClassifier(fit_intercept=False),
        KernelPegasosClassifier("linear", fit_intercept=False),
        ProjectronClassifier("linear"),
    ],
)
def test_ties(model, n_classes):
    X, y = labelled(6, 60, 3, n_classes)
    model = fresh(model).fit(X, y)
    origin = np.zeros((2, 3))
    assert (model.predict(origin) == 0).all()
    check(model, origin)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_rows_far_from_all_vectors(n_classes):
    # Coefficients of C and -C, as many of each: what is left of scores is 0, not the rounding error of an intercept.
    X, _ = labelled(6, 8 * n_classes, 3, 2)
    model = KernelPegasosClassifier(alpha=8.0 / len(X), random_state=0).fit(X, np.arange(len(X)) % n_classes)
    far = X + 1e3
    assert (model._all_scores(far) == 0.0).any()
    check(model, far)


def test_ties_of_single_precision():
    # Scores that differ in double precision only: the model rounds them before it chooses.
    X = np.float32([[1, 0], [0, 1], [-1, -1]] * 4)
    model = PegasosClassifier(fit_intercept=False, random_state=0).fit(X, [0, 1, 2] * 4)
    with_weights(model, np.float32([[1, 0], [1, 2**-24], [-1, 0]]))
    row = np.float32([[1, 1]])
    found = run(to_onnx(model), row)
    assert found["label"] == 0 and (found["scores"][0, :2] == 1.0).all()


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    "model",
    [
        PegasosClassifier("log_loss"),
        PegasosClassifier(calibration="sigmoid"),
        OnlineGradientClassifier(),
        KernelPegasosClassifier(),
        KernelPegasosClassifier("poly", budget=10, calibration="isotonic"),
        KernelPegasosClassifier("linear"),
        ProjectronClassifier("sigmoid"),
    ],
)
def test_a_stream_that_has_met_one_class(model, make):
    X, _ = labelled(7, 20, 3, 2)
    model = fresh(model).partial_fit(make(X), ["only"] * 20)
    found = check(model, X)
    assert (found["label"] == "only").all() and (found["scores"] == 0.0).all()
    assert "probabilities" not in found or (found["probabilities"] == 1.0).all()
    maps = run(skl2onnx.to_onnx(model, X[:1]), X)["output_probability"]
    assert maps[0] == {"only": 1.0 if "probabilities" in found else 0.0}


@pytest.mark.parametrize(
    "model",
    [
        PegasosClassifier(),
        KernelPegasosClassifier(),
        KernelPegasosClassifier("linear"),
        KernelPegasosClassifier(metric="diagonal", metric_rounds=1),
    ],
)
def test_models_of_sparse_rows_take_dense_ones(model):
    X = sparse.random(80, 12, 0.4, "csr", random_state=0)
    model = fresh(model).fit(X, np.arange(80) % 3)
    check(model, X.toarray())
    check(model, X.toarray(), graph=to_onnx(model, X))


@pytest.mark.parametrize("calibration", ["sigmoid", "temperature", "isotonic"])
@pytest.mark.parametrize("multi_class", ["ovo", "crammer_singer"])
def test_any_number_of_rows(three_classes, calibration, multi_class):
    X, y = three_classes
    model = KernelPegasosClassifier(multi_class=multi_class, calibration=calibration, random_state=0).fit(X, y)
    graph = to_onnx(model)
    for n in (1, 2, 90):
        check(model, X[:n], graph=graph)
    shapes = {name: value.shape for name, value in run(graph, X[:0]).items()}
    assert shapes == {"label": (0,), "scores": (0, 3), "probabilities": (0, 3)}


def test_numbers_that_are_not_finite_are_no_crash(three_classes):
    X, y = three_classes
    bad = np.array([[np.nan] * 4, [np.inf] * 4, X[0]])
    for model in (PegasosClassifier("log_loss"), KernelPegasosClassifier(calibration="isotonic")):
        found = run(to_onnx(model.fit(X, y)), bad)
        assert np.isnan(found["scores"][0]).all() and set(found["label"]) <= {0, 1, 2}
        np.testing.assert_allclose(found["scores"][2], model.decision_function(X[:1])[0], atol=1e-9)


@pytest.mark.parametrize(
    "labels",
    [
        np.array([True, False]),
        np.array([-1.0, 1.0]),
        np.array([3, 200], np.uint8),
        np.array([-(2**62), 2**62]),
        np.array(["a", "b"], object),
        np.array(["1", "2"]),
    ],
    ids=lambda labels: str(labels.dtype),
)
def test_labels(two_classes, labels):
    X, y = two_classes
    found = check(PegasosClassifier(random_state=0).fit(X, labels[y]), X)
    assert found["label"].dtype == (np.int64 if labels.dtype.kind in "bfiu" else object)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.array([0, 2**63], np.uint64), "whole numbers of 64 bits, in ONNX, got 9223372036854775808"),
        (np.array([-1e300, 1e300]), "got -1e[+]300 of type float"),
        (np.array(["2020-01-01", "2020-01-02"], "M8[D]"), "of type date"),
        (np.array(["a", "\ud800"]), "UTF-8"),
    ],
    ids=["uint64", "float", "date", "surrogate"],
)
def test_labels_that_onnx_has_not(two_classes, labels, message):
    X, y = two_classes
    with pytest.raises(ValueError, match=message):
        to_onnx(PegasosClassifier(random_state=0).fit(X, labels[y]))


def test_what_a_graph_tells_of_itself(three_classes):
    X, y = three_classes
    graph = to_onnx(KernelPegasosClassifier(alpha=0.125, calibration="sigmoid", random_state=0).fit(X, y))
    onnx.checker.check_model(graph, full_check=True)
    assert (graph.producer_name, graph.producer_version) == ("pegasos", pegasos.__version__)
    assert graph.doc_string.startswith("KernelPegasosClassifier(alpha=0.125,") and "max_iter=1," in graph.doc_string
    assert [tensor.name for tensor in graph.graph.input] == ["X"]
    assert [tensor.name for tensor in graph.graph.output] == ["label", "scores", "probabilities"]
    assert {domain.domain: domain.version for domain in graph.opset_import} == {"": 18}
    assert to_onnx(KernelPegasosClassifier(random_state=0).fit(X, y)).graph.name == "KernelPegasosClassifier"


def test_the_same_model_gives_the_same_bytes(three_classes):
    X, y = three_classes
    model = KernelPegasosClassifier(calibration="isotonic", random_state=0).fit(X, y)
    assert to_onnx(model).SerializeToString() == to_onnx(model).SerializeToString()


@pytest.mark.parametrize("opset", range(13, skl2onnx.get_latest_tested_opset_version() + 1))
def test_operators_of_every_age(three_classes, opset):
    X, y = three_classes
    model = KernelPegasosClassifier(calibration="isotonic", random_state=0).fit(X, y)
    graph = to_onnx(model, target_opset=opset)
    assert graph.opset_import[0].version == opset
    check(model, X, graph=graph)


def test_probabilities_are_left_out(three_classes):
    X, y = three_classes
    model = PegasosClassifier("log_loss", random_state=0).fit(X, y)
    assert [*run(to_onnx(model, probabilities=False), X)] == ["label", "scores"]
    # Of a stream there are none before the second batch.
    model = PegasosClassifier(calibration="sigmoid").partial_fit(X, y)
    with pytest.raises(NotFittedError, match="no scores to learn from"):
        to_onnx(model)
    found = run(to_onnx(model, probabilities=False), X)
    np.testing.assert_allclose(found["scores"], model.decision_function(X), atol=1e-12)
    check(model.partial_fit(X, y), X)


def test_parameters_that_were_set_since_change_nothing(three_classes):
    X, y = three_classes
    model = KernelPegasosClassifier(random_state=0).fit(X, y).set_params(kernel="poly", gamma=7.0, degree=5)
    check(model, X)


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (PegasosClassifier(), NotFittedError, "PegasosClassifier instance is not fitted"),
        (KernelPegasosClassifierCV(), NotFittedError, "KernelPegasosClassifierCV instance is not fitted"),
        (make_pipeline(StandardScaler(), PegasosClassifier()), NotFittedError, "StandardScaler instance is not fitted"),
        (GridSearchCV(PegasosClassifier(), {}), TypeError, "got GridSearchCV"),
        (LogisticRegression(), TypeError, "got LogisticRegression; skl2onnx.to_onnx converts others"),
        (make_pipeline(PegasosClassifier(), "passthrough"), TypeError, "got str"),
        (PegasosClassifier, TypeError, "estimator must be one of PegasosClassifier, "),
    ],
)
def test_what_does_not_convert(model, error, message):
    with pytest.raises(error, match=message):
        to_onnx(model)


@pytest.mark.parametrize("convert", [to_onnx, lambda model: skl2onnx.to_onnx(model, np.zeros((1, 4)))])
def test_kernels_without_a_graph(three_classes, convert):
    X, y = three_classes
    with pytest.raises(ValueError, match="kernel must be 'rbf', .* got a callable"):
        convert(KernelPegasosClassifier(lambda X, Z: X @ Z.T, random_state=0).fit(X, y))
    model = KernelPegasosClassifier("precomputed", random_state=0).fit(X[:4] @ X[:4].T, [0, 1, 0, 1])
    with pytest.raises(ValueError, match="got 'precomputed'"):
        convert(model)


def test_models_that_no_file_holds(three_classes, monkeypatch):
    X, y = three_classes
    monkeypatch.setattr("pegasos._graph._MOST_BYTES", 4 * 3 * 8)
    to_onnx(PegasosClassifier().fit(X, y))
    # One vector for each score does.
    to_onnx(KernelPegasosClassifier("linear").fit(X, y))
    with pytest.raises(ValueError, match="smaller than 2 GB in ONNX, got shapes"):
        to_onnx(KernelPegasosClassifier().fit(X, y))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"dtype": "int64"}, "dtype must be float32 or float64, got 'int64'"),
        ({"dtype": "x"}, "dtype must be float32 or float64, got 'x'"),
        ({"dtype": "float32", "X": np.zeros((1, 4))}, "only one of .* got X and dtype"),
        ({"X": np.zeros(4)}, r"X must be rows, a matrix, got shape \(4,\)"),
        ({"X": np.zeros((0, 4))}, "X must hold a row"),
        ({"X": np.zeros((1, 4), np.float16)}, "input 'X' must be of a type that skl2onnx takes"),
        ({"X": np.zeros((1, 4), complex)}, "takes real numbers, got Complex128TensorType"),
        ({"X": np.zeros((1, 4), "M8[D]")}, "X must be of types that skl2onnx takes"),
        ({"X": np.zeros((1, 3))}, "takes rows of 4 features, got 3"),
        ({"X": np.array([["a", "b", "c", "d"]])}, "takes real numbers, got StringTensorType"),
        ({"X": pd.DataFrame(np.zeros((1, 4)))}, "names of inputs must be strings, .* got 0"),
        ({"X": pd.DataFrame(np.zeros((1, 4)), columns=[*"abcd"])}, "takes one tensor of 4 features, got 4 inputs"),
        ({"initial_types": "abc"}, "initial_types must be pairs"),
        ({"initial_types": [("a", 4)]}, "input 'a' must be of a type"),
        ({"initial_types": []}, r"must be pairs of a name and a type of skl2onnx, got \[\]"),
        ({"initial_types": [("label", FloatTensorType([None, 4]))]}, "not those of outputs, .* got 'label'"),
        ({"initial_types": [("a", FloatTensorType())]}, "input 'a' must have a shape"),
        ({"initial_types": [("a", FloatTensorType([4]))]}, r"takes a matrix of shape \[None, 4\], got \[4\]"),
        ({"initial_types": [("a", FloatTensorType([None, 4, 1]))]}, "takes a matrix"),
        ({"initial_types": [("", FloatTensorType([None, 4]))]}, "names of inputs must be strings"),
        ({"options": 5}, "options must be a dict of options of skl2onnx, or None, got 5"),
        ({"options": {"beauty": True}}, "options have something, that skl2onnx does not take: .*beauty"),
        ({"target_opset": 12}, "target_opset must be an integer from 13 to .* got 12"),
        ({"target_opset": 99}, "got 99"),
        ({"target_opset": "18"}, "got '18'"),
    ],
)
def test_arguments_that_are_wrong(three_classes, wrong, message):
    model = PegasosClassifier(random_state=0).fit(*three_classes)
    with pytest.raises(ValueError, match=message):
        to_onnx(model, **wrong)


# -- Pipelines, and skl2onnx's own entry


def test_columns_whose_names_onnx_changes(three_classes):
    X, y = three_classes
    columns = ColumnTransformer([("all", StandardScaler(), [0, 1, 2, 3])])
    table = pd.DataFrame(X, columns=["a b", "c.d", "e", "f"])
    model = make_pipeline(columns, PegasosClassifier(random_state=0)).fit(table, y)
    assert [tensor.name for tensor in to_onnx(model, table[:1]).graph.input] == ["a_b", "c_d", "e", "f"]
    # The input "a_b" would be the column "a b", and "a_b1" the column "a_b".
    table.columns = ["a b", "a_b", "e", "f"]
    with pytest.raises(ValueError, match="names of inputs must differ .* got 'a b' and 'a_b'"):
        to_onnx(model.fit(table, y), table[:1])


def test_steps_that_do_not_convert(three_classes):
    X, y = three_classes
    model = make_pipeline(FunctionTransformer(np.tanh), PegasosClassifier(random_state=0)).fit(X, y)
    with pytest.raises(ValueError, match="estimator has a step, .* FunctionTransformer is not supported"):
        to_onnx(model)


@pytest.mark.parametrize("inside", [make_pipeline, lambda step: FeatureUnion([("all", step)])])
def test_columns_that_are_chosen_by_name_further_inside(three_classes, inside):
    X, y = three_classes
    table = pd.DataFrame(X, columns=[*"abcd"])
    columns = ColumnTransformer([("some", StandardScaler(), ["a", "c"])])
    model = make_pipeline(inside(columns), PegasosClassifier(random_state=0)).fit(table, y)
    with pytest.raises(ValueError, match="X or initial_types must say what goes in"):
        to_onnx(model)


def test_a_pipeline(three_classes):
    X, y = three_classes
    names = np.array(["a", "b", "c"])[y]
    model = make_pipeline(StandardScaler(), KernelPegasosClassifier(calibration="temperature", random_state=0))
    model.fit(X, names)
    check(model, X)
    assert to_onnx(model).doc_string.startswith("Pipeline(")
    check(model, X.astype(np.float32), 1e-5, to_onnx(model, dtype="float32"))
    search = GridSearchCV(model, {"kernelpegasosclassifier__alpha": [0.1, 0.01]}, cv=2).fit(X, names)
    check(search.best_estimator_, X, graph=to_onnx(search))
    inner = GridSearchCV(PegasosClassifier(), {"alpha": [0.1, 0.01]}, cv=2)
    check(make_pipeline(StandardScaler(), inner).fit(X, names), X)
    check(make_pipeline("passthrough", StandardScaler(), make_pipeline(None, PegasosClassifier())).fit(X, names), X)
    check(make_pipeline(StandardScaler(), PegasosClassifierCV(cv=2, random_state=0)).fit(X, names), X)


def table(X):
    kind = np.where(X[:, 2] > 0, "up", "down")
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "kind": kind, "n": (9 * X[:, 3]).astype(int)})


def test_columns_of_several_types(three_classes):
    X, y = three_classes
    rows = table(X)
    numbers, kinds = ("numbers", StandardScaler(), ["a", "b"]), ("kinds", OneHotEncoder(), ["kind"])
    columns = ColumnTransformer([numbers, kinds, ("rest", StandardScaler(), ["n"])])
    model = make_pipeline(columns, PegasosClassifier("log_loss", random_state=0)).fit(rows, y)
    feeds = {name: rows[[name]].to_numpy(object if name == "kind" else None) for name in rows}
    with pytest.raises(ValueError, match="X or initial_types must say what goes in"):
        to_onnx(model)
    for graph in (
        to_onnx(model, rows),
        skl2onnx.to_onnx(model, rows[:1], options={"pegasosclassifier__zipmap": False}),
    ):
        found = run(graph, feeds)
        assert (found["label"] == model.predict(rows)).all()
        np.testing.assert_allclose(found["probabilities"], model.predict_proba(rows), rtol=0, atol=1e-6)
    by_number = ColumnTransformer([("first", StandardScaler(), [0, 1]), ("others", "passthrough", slice(2, 4))])
    check(make_pipeline(by_number, PegasosClassifier(random_state=0)).fit(X, y), X)


def test_text():
    texts = ["alpha beta", "beta gamma", "delta epsilon", "epsilon zeta"] * 3
    model = make_pipeline(TfidfVectorizer(lowercase=False), PegasosClassifier(random_state=0))
    model.fit(texts, [0, 0, 1, 1] * 3)
    with pytest.raises(ValueError, match="X or initial_types must say what goes in"):
        to_onnx(model)
    graph = to_onnx(model, initial_types=[("text", StringTensorType([None, 1]))])
    found = run(graph, {"text": np.array(texts)[:, None]})
    assert (found["label"] == model.predict(texts)).all()
    np.testing.assert_allclose(found["scores"], model.decision_function(texts), rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_what_skl2onnx_makes_of_its_options(dtype, n_classes):
    X, y = labelled(8, 80, 4, n_classes)
    X, names = X.astype(dtype), np.array(["a", "b", "c"])[y]
    sure = PegasosClassifier("log_loss", random_state=0).fit(X, names)
    tol = 1e-5 if dtype == "float32" else 1e-6
    found = run(skl2onnx.to_onnx(sure, X[:1]), X)
    assert [*found] == ["output_label", "output_probability"]
    assert (found["output_label"] == sure.predict(X)).all()
    # Maps are of single precision, whatever goes in.
    rows = [[of_row[name] for name in sure.classes_] for of_row in found["output_probability"]]
    np.testing.assert_allclose(rows, sure.predict_proba(X), rtol=0, atol=tol)

    def second(model, **options):
        outputs = run(skl2onnx.to_onnx(model, X[:1], options={id(model): {"zipmap": False} | options}), X)
        assert [*outputs][:2] == ["label", "probabilities"]
        assert (outputs["label"] == model.predict(X)).all() or "nocl" in options
        return outputs["probabilities"]

    def scores(model):
        found = model.decision_function(X)
        return found if n_classes > 2 else np.stack([-found, found], axis=1)

    np.testing.assert_allclose(second(sure), sure.predict_proba(X), rtol=0, atol=tol)
    np.testing.assert_allclose(second(sure, raw_scores=True), scores(sure), rtol=0, atol=tol)
    # As of classifiers of scikit-learn that know no probabilities.
    plain = KernelPegasosClassifier(random_state=0).fit(X, names)
    np.testing.assert_allclose(second(plain), scores(plain), rtol=0, atol=tol)
    found = run(skl2onnx.to_onnx(plain, X[:1], options={"zipmap": False, "nocl": True}), X)
    assert (plain.classes_[found["label"]] == plain.predict(X)).all()
    found = run(skl2onnx.to_onnx(sure, X[:1], options={"zipmap": "columns"}), X)
    np.testing.assert_allclose(found["sb"], sure.predict_proba(X)[:, 1], rtol=0, atol=tol)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("around", [CalibratedClassifierCV, OneVsRestClassifier])
def test_inside_other_estimators(around, n_classes):
    X, y = labelled(9, 90, 4, n_classes)
    X = X.astype(np.float32)
    model = around(PegasosClassifier("log_loss", random_state=0)).fit(X, y)
    found = run(skl2onnx.to_onnx(model, X[:1], options={"zipmap": False}), X)
    assert (found["label"] == model.predict(X)).all()
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(X), rtol=0, atol=1e-5)


#: Where the package is, for scripts.
HERE = str(Path(pegasos.__file__).parents[1])


@pytest.mark.parametrize("missing", ["onnx", "skl2onnx"])
def test_without_the_extra(run_script, missing):
    text = f"import sys; sys.modules[{missing!r}] = None; import pegasos; import pegasos.onnx"
    done = run_script(text, PYTHONPATH=HERE)
    assert done.returncode != 0
    assert "ImportError: pegasos.onnx needs onnx and skl2onnx" in done.stderr
    assert "pip install 'pegasos[onnx]'" in done.stderr


def test_nobody_pays_who_does_not_ask(run_script):
    text = "import sys, pegasos, pegasos.cli; assert not {'onnx', 'skl2onnx'} & {*sys.modules}"
    done = run_script(text, PYTHONPATH=HERE)
    assert done.returncode == 0, done.stderr


def test_sparse_coefficients():
    X, y = np.random.default_rng(0).normal(size=(30, 4)), np.arange(30) % 3
    model = PegasosClassifier(random_state=0).fit(X, y)
    dense = to_onnx(model).SerializeToString()
    assert to_onnx(model.sparsify()).SerializeToString() == dense
