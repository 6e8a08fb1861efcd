"""Models as ONNX graphs, for runtimes that know no Python.

A graph computes in double precision, whatever goes in and comes out: a distance is a difference of products, and of
rows far from the origin single precision leaves few of its digits. It is made of plain operators, not of
``LinearClassifier`` and ``SVMClassifier`` of ``ai.onnx.ml``: those compute in single precision, and the second knows
neither classes that are trained jointly or each against the rest, nor a learned metric, and of the calibrations Platt's
alone.

Each model's graph is stated once, in `pegasos._graph`, and handed to skl2onnx as a converter, which importing this
module registers: `to_onnx` and ``skl2onnx.to_onnx`` both use it, for a model alone and for one that ends a Pipeline.
"""

from __future__ import annotations

import sys
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn import config_context
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils.validation import check_is_fitted

from pegasos._core import __version__
from pegasos._kernel import KernelPegasosClassifier
from pegasos._linear import PegasosClassifier
from pegasos._online import OnlineGradientClassifier
from pegasos._projectron import ProjectronClassifier
from pegasos._tuned import KernelPegasosClassifierCV, PegasosClassifierCV

try:
    import onnx
    import skl2onnx
    from onnx import TensorProto
    from skl2onnx._parse import _apply_zipmap, _parse_sklearn_classifier, _parse_sklearn_simple_model
    from skl2onnx.algebra.type_helper import guess_initial_types
    from skl2onnx.common.data_types import (
        DoubleTensorType,
        FloatTensorType,
        Int64TensorType,
        StringTensorType,
        guess_proto_type,
        guess_tensor_type,
    )
    from skl2onnx.common.utils_classifier import get_label_classes

    from pegasos import _graph
except ImportError as error:
    raise ImportError(
        f"pegasos.onnx needs onnx and skl2onnx ({error}): pip install 'pegasos[onnx]'", name=error.name
    ) from error

__all__ = ["to_onnx"]

#: What converts; skl2onnx knows them by these names.
_MODELS = {
    model: f"Pegasos{model.__name__}"
    for model in (
        PegasosClassifier,
        OnlineGradientClassifier,
        KernelPegasosClassifier,
        ProjectronClassifier,
        PegasosClassifierCV,
        KernelPegasosClassifierCV,
    )
}

#: The operators that a graph is made of unless others are asked for: onnxruntime has them since 1.14. And the oldest
#: that will do: before, sums over an axis were another operator.
_OPSET, _OLDEST_OPSET = 18, 13

#: What comes out.
_OUTPUTS = ("label", "scores", "probabilities")

#: What may go in.
_NUMBERS = {getattr(TensorProto, name) for name in ("FLOAT", "DOUBLE", "INT8", "UINT8", "INT32", "INT64", "BOOL")}


def to_onnx(
    estimator: Any,
    X: Any = None,
    *,
    initial_types: list[tuple[str, Any]] | None = None,
    dtype: Any = None,
    probabilities: bool = True,
    options: dict[Any, Any] | None = None,
    target_opset: int = _OPSET,
) -> onnx.ModelProto:
    """The ONNX graph of a fitted model, or of a Pipeline that ends in one.

    Parameters
    ----------
    estimator : object
        A fitted estimator of this package, a Pipeline that ends in one and whose other steps skl2onnx converts, or a
        search over either, whose ``best_estimator_`` is taken.
    X : array-like or DataFrame of shape (n_samples, n_features), default=None
        Rows, one will do, that tell the names and types of what goes in: an array is one input "X" of its dtype, a
        DataFrame one input of shape (n, 1) for each column, of its name with '_' for spaces and other characters that
        are in no name of ONNX. Needed where a Pipeline chooses columns by name.
    initial_types : list of (str, skl2onnx type), default=None
        The same, said outright.
    dtype : {float32, float64}, default=None
        What goes in where neither is given: one input "X" of shape (n, n_features) and this type; None for the type
        that the model was trained with. Scores and probabilities come out in the type that goes in, of whole numbers in
        float32.
    probabilities : bool, default=True
        Whether the graph shall give probabilities too, where the model does.
    options : dict, default=None
        Options of skl2onnx for other steps of a Pipeline.
    target_opset : int, default=18
        The version of the operators, from 13 to the newest that skl2onnx knows.

    Returns
    -------
    onnx.ModelProto
        Its outputs are "label", (n,), int64 or string; "scores", what ``decision_function`` returns, in its shape; and
        "probabilities", (n, n_classes). ``SerializeToString()`` is what runtimes take and files hold; ``doc_string``
        tells the estimator's parameters.

    Raises
    ------
    NotFittedError
        If the estimator is not fitted, or its calibration has no scores to learn from.
    TypeError
        If it is no estimator of this package and does not end in one.
    ValueError
        If it has no graph: kernels that are callables or precomputed, class labels that are neither strings nor whole
        numbers, 2 GB of support vectors, steps that skl2onnx does not convert; or if another argument is not as described.

    See Also
    --------
    skl2onnx.to_onnx : Converts models of this package as well once this module is imported, with its own outputs.
    pegasos.save : A file for Python, which training goes on from.

    Notes
    -----
    Time and memory to convert: those of the model's arrays. To run: those of ``predict``, in double precision, and one
    number for each row and support vector; where pairs of classes vote O(n_classes^2) numbers a row more, where they
    are coupled O(n_classes^3) time.

    Bad rows are no errors there: of numbers that are not finite come some class and ``nan``.

    References
    ----------
    T.-F. Wu, C.-J. Lin, R. Weng. "Probability estimates for multi-class classification by pairwise coupling." JMLR 5
    (2004).

    Examples
    --------
    >>> import onnxruntime
    >>> from sklearn.datasets import load_iris
    >>> from pegasos import PegasosClassifier
    >>> from pegasos.onnx import to_onnx
    >>> X, y = load_iris(return_X_y=True)
    >>> model = PegasosClassifier(calibration="temperature", random_state=0).fit(X, y)
    >>> graph = to_onnx(model)
    >>> [output.name for output in graph.graph.output]
    ['label', 'scores', 'probabilities']
    >>> session = onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    >>> label, scores, _ = session.run(None, {"X": X})
    >>> bool((label == model.predict(X)).all()), bool(abs(scores - model.decision_function(X)).max() < 1e-9)
    (True, True)
    """
    estimator, last = _found(estimator)
    for step in [last] if estimator is last else [step for _, step in estimator.steps]:
        check_is_fitted(step)
    newest = skl2onnx.get_latest_tested_opset_version()
    if not isinstance(target_opset, Integral) or not _OLDEST_OPSET <= target_opset <= newest:
        raise ValueError(
            f"target_opset must be an integer from {_OLDEST_OPSET} to {newest}, the newest that skl2onnx knows, "
            f"got {target_opset!r}"
        )
    if not (options is None or isinstance(options, dict)):
        raise ValueError(f"options must be a dict of options of skl2onnx, or None, got {options!r}")
    inputs = _inputs(estimator, last, X, initial_types, dtype)
    try:
        model = skl2onnx.convert_sklearn(
            estimator,
            name=type(last).__name__,
            initial_types=inputs,
            target_opset=int(target_opset),
            options=options,
            custom_parsers={type(last): partial(_parse_all, probabilities=probabilities)},
        )
    except (NameError, RuntimeError) as error:
        # Of other steps, and of options: errors of skl2onnx are of many kinds.
        raise ValueError(f"estimator has a step, or options have something, that skl2onnx does not take: {error}") from error
    names = [name for name, _ in inputs]
    for name, tensor in zip(names, model.graph.input, strict=True):
        if tensor.name != name and tensor.name in names:
            raise ValueError(
                f"names of inputs must differ by more than characters that ONNX writes as '_', got {name!r} and "
                f"{tensor.name!r}; rename the columns"
            )
    for domain in model.opset_import:
        if domain.domain == "":
            domain.version = target_opset
    model.producer_name, model.producer_version = "pegasos", __version__
    with config_context(print_changed_only=False):
        model.doc_string = estimator.__repr__(N_CHAR_MAX=sys.maxsize)
    onnx.checker.check_model(model)
    return model


def _found(estimator: Any) -> tuple[Any, Any]:
    """What is to convert, without searches that have found it and steps that do nothing; and the model at its end."""
    if type(estimator) in _MODELS:
        return estimator, estimator
    if hasattr(estimator, "best_estimator_"):
        return _found(estimator.best_estimator_)
    if isinstance(estimator, Pipeline):
        *before, (name, end) = estimator.steps
        found, last = _found(end)
        return Pipeline([*(step for step in before if step[1] not in (None, "passthrough")), (name, found)]), last
    raise TypeError(
        f"estimator must be one of {', '.join(model.__name__ for model in _MODELS)}, a Pipeline that ends in one, or a "
        f"fitted search over these, got {type(estimator).__name__}; skl2onnx.to_onnx converts others"
    )


def _inputs(estimator: Any, last: Any, X: Any, initial_types: Any, dtype: Any) -> list[tuple[str, Any]]:
    """Names and types of what goes in."""
    given = {"X": X, "initial_types": initial_types, "dtype": dtype}
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        raise ValueError(f"only one of X, initial_types and dtype may say what goes in, got {' and '.join(names)}")
    if X is not None:
        found = _types_of(X)
    elif initial_types is not None:
        found = initial_types
    else:
        if not hasattr(estimator, "n_features_in_") or _chooses_by_name(estimator):
            raise ValueError(
                "X or initial_types must say what goes in, as the Pipeline begins with text or columns that have names"
            )
        kind = _best(last)._trainer.made.dtype if dtype is None else dtype
        try:
            kind = np.dtype(kind).name
        except TypeError:
            pass
        if kind not in ("float32", "float64"):
            raise ValueError(f"dtype must be float32 or float64, got {dtype!r}")
        features = [None, estimator.n_features_in_]
        found = [("X", FloatTensorType(features) if kind == "float32" else DoubleTensorType(features))]
    try:
        found = [(name, kind) for name, kind in found]
    except (TypeError, ValueError):
        found = []
    if not found:
        raise ValueError(f"initial_types must be pairs of a name and a type of skl2onnx, got {initial_types!r}")
    for name, kind in found:
        if not isinstance(name, str) or name in ("", *_OUTPUTS):
            raise ValueError(
                f"names of inputs must be strings, not empty, and not those of outputs, {', '.join(_OUTPUTS)}, got {name!r}; "
                "rename the columns"
            )
        try:
            guess_tensor_type(kind)
        except TypeError as error:
            raise ValueError(
                f"input {name!r} must be of a type that skl2onnx takes, as float32, int64 or str: {error}"
            ) from error
        if not kind.shape:
            raise ValueError(f"input {name!r} must have a shape, as [None, n_features], got {kind}")
    return found


def _types_of(X: Any) -> Any:
    """Names and types of rows."""
    if not hasattr(X, "columns"):
        X = X[:1].toarray() if issparse(X) else np.asarray(X)
        if X.ndim != 2:
            raise ValueError(f"X must be rows, a matrix, got shape {X.shape}")
    if len(X) == 0:
        raise ValueError("X must hold a row, got none")
    try:
        return guess_initial_types(X)
    except (TypeError, NotImplementedError) as error:
        raise ValueError(f"X must be of types that skl2onnx takes, as float32, int64 and str: {error}") from error


def _chooses_by_name(estimator: Any) -> bool:
    """Whether it begins with a choice of columns by their names."""
    if isinstance(estimator, Pipeline):
        return _chooses_by_name(estimator.steps[0][1])
    if isinstance(estimator, FeatureUnion):
        return any(_chooses_by_name(part) for _, part in estimator.transformer_list)
    if not isinstance(estimator, ColumnTransformer):
        return False
    chosen = [columns for _, _, columns in estimator.transformers_ if not isinstance(columns, slice)]
    return any(isinstance(column, str) for columns in chosen for column in np.atleast_1d(columns).tolist())


# -- what skl2onnx asks for


def _best(model: Any) -> Any:
    """The model itself, or the best that a tuned one has found."""
    check_is_fitted(model)
    return getattr(model, "best_estimator_", model)


def _parse_all(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None, *, probabilities: bool) -> list[Any]:
    """Declares all outputs that a model has."""
    operator = scope.declare_local_operator(_MODELS[type(model)], model)
    operator.inputs = inputs
    operator.gives_all = True
    operator.outputs.append(scope.declare_local_variable("label", Int64TensorType()))
    names = ["scores", "probabilities"] if probabilities and hasattr(_best(model), "predict_proba") else ["scores"]
    for name in names:
        operator.outputs.append(scope.declare_local_variable(name, guess_tensor_type(inputs[0].type)))
    return list(operator.outputs)


def _parse(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> list[Any]:
    """Declares what classifiers of scikit-learn have: a label, and probabilities or scores, by default in maps."""
    check_is_fitted(model)
    zipmap = scope.get_options(model, {"zipmap": True})["zipmap"]
    if zipmap is not True or not isinstance(inputs[0].type, DoubleTensorType):
        return list(_parse_sklearn_classifier(scope, model, inputs, custom_parsers))
    # Maps hold single precision only.
    outputs = _parse_sklearn_simple_model(scope, model, inputs, custom_parsers)
    outputs[1].set_type(FloatTensorType())
    return list(_apply_zipmap(zipmap, scope, model, FloatTensorType(), outputs))


def _declare_shapes(operator: Any) -> None:
    """Checks what goes in, and says what comes out."""
    outer, inputs = operator.raw_operator, operator.inputs
    model = _best(outer)
    name, d, k = type(outer).__name__, model.n_features_in_, len(model.classes_)
    if len(inputs) != 1:
        raise ValueError(
            f"{name} takes one tensor of {d} features, got {len(inputs)} inputs: give it one, or join them in a step "
            "before, as a ColumnTransformer does"
        )
    if guess_proto_type(inputs[0].type) not in _NUMBERS:
        raise ValueError(f"{name} takes real numbers, got {inputs[0].type}; encode them in a step before")
    shape = inputs[0].type.shape
    if shape and len(shape) != 2:
        raise ValueError(f"{name} takes a matrix of shape [None, {d}], got {shape}")
    if shape and shape[1] not in (None, d):
        raise ValueError(f"{name} takes rows of {d} features, got {shape[1]}")
    n = inputs[0].get_first_dimension()
    label = StringTensorType if _labels(operator.scope_inst, outer).dtype == object else Int64TensorType
    operator.outputs[0].set_type(label([n]))
    if not getattr(operator, "gives_all", False):
        operator.outputs[1].type.shape = [n, k]
        return
    columns = k * (k - 1) // 2 if _shows_pairs(model) else k
    operator.outputs[1].type.shape = [n, columns] if k > 2 else [n]
    for output in operator.outputs[2:]:
        output.type.shape = [n, k]


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Writes the graph of a model."""
    outer, outputs = operator.raw_operator, operator.outputs
    model, graph = _best(outer), _graph.Graph(scope, container)
    k, linear = len(model.classes_), isinstance(model, PegasosClassifier)
    given = guess_proto_type(operator.inputs[0].type)
    # Kernel machines in single precision take rows in that, linear ones as they come; scores, and so ties, are alike.
    single = model._trainer.made.dtype == "float32" and not (linear and given == TensorProto.DOUBLE)
    x = operator.inputs[0].full_name
    x = graph.rounded(x) if single else graph.cast(x, TensorProto.DOUBLE)
    problems = _graph.linear_scores(graph, x, model) if linear else _graph.kernel_scores(graph, x, model)
    if single:
        problems = graph.rounded(problems)
    scores = problems
    if model._scores_pairs:
        scores = _graph.votes(graph, problems, k)
        if single:
            scores = graph.rounded(scores)
    if k > 2:
        codes = graph.node("ArgMax", scores, axis=1, keepdims=0)
    else:
        flat = graph.node("Squeeze", scores, np.array([1]))
        codes = graph.cast(graph.node("Greater", flat, 0.0), TensorProto.INT64)
    graph.give(outputs[0], graph.node("Gather", graph.labels(_labels(scope, outer)), codes))
    probable = hasattr(model, "predict_proba")
    if getattr(operator, "gives_all", False):
        graph.give(outputs[1], problems if _shows_pairs(model) else flat if k <= 2 else scores)
        if len(outputs) == 3:
            graph.give(outputs[2], _graph.probabilities(graph, problems, model))
    elif probable and not container.get_options(outer, {"raw_scores": False})["raw_scores"]:
        graph.give(outputs[1], _graph.probabilities(graph, problems, model))
    else:
        # A column for each class, as classifiers of scikit-learn have it there.
        both = graph.node("Concat", graph.node("Neg", scores), scores, axis=1) if k == 2 else scores
        graph.give(outputs[1], both)


def _shows_pairs(model: Any) -> bool:
    """Whether its decision function gives the scores of pairs."""
    return bool(model._scores_pairs and model._choice("decision_function_shape") == "ovo")


def _labels(scope: Any, model: Any) -> np.ndarray:
    """The classes as ONNX has them: int64, or strings as objects."""
    classes = get_label_classes(scope, model).tolist()
    if all(isinstance(label, str) for label in classes):
        return np.array(classes, object)
    bounds = np.iinfo(np.int64)
    for label in classes:
        whole = isinstance(label, int) or (isinstance(label, float) and label.is_integer())
        if not (whole and bounds.min <= label <= bounds.max):
            raise ValueError(
                f"classes must be strings, or whole numbers of 64 bits, in ONNX, got {label!r} of type "
                f"{type(label).__name__}; train with numbers of classes (LabelEncoder)"
            )
    return np.array([int(label) for label in classes], np.int64)


for _model, _name in _MODELS.items():
    skl2onnx.update_registered_converter(
        _model,
        _name,
        _declare_shapes,
        _convert,
        parser=_parse,
        options={
            "zipmap": [True, False, "columns"],
            "nocl": [True, False],
            "output_class_labels": [False, True],
            "raw_scores": [True, False],
        },
    )
