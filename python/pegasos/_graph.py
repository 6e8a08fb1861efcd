"""The graphs of ONNX that models are: scores of their problems, votes of pairs, probabilities.

All is in double precision, and of operators of opset 13. A function takes the names of what has been computed, and
gives the name of what it computes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper
from scipy.sparse import issparse
from skl2onnx.common.data_types import guess_proto_type

from pegasos._calibration import _SUREST, Calibration
from pegasos._linear import PegasosClassifier
from pegasos._sparse import dense

#: A file, which is one message of protocol buffers, holds less than 2 GB.
_MOST_BYTES = 2**31 - 2**20


class Graph:
    """The nodes and constants of one model."""

    def __init__(self, scope: Any, container: Any) -> None:
        self._scope, self._container = scope, container

    def node(self, operator: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
        """The name of what an operator gives; names where it gives several. Inputs are names, arrays, or numbers."""
        names = [value if isinstance(value, str) else self.constant(value) for value in inputs]
        found = [self._scope.get_unique_variable_name(operator.lower()) for _ in range(outputs)]
        self._container.add_node(
            operator, names, found, name=self._scope.get_unique_operator_name(operator), **attributes
        )
        return found[0] if outputs == 1 else found

    def constant(self, values: Any) -> str:
        """An array, which is stored as it is."""
        tensor = numpy_helper.from_array(np.ascontiguousarray(values))
        return self._stored(tensor.data_type, np.shape(values), tensor)

    def labels(self, values: np.ndarray) -> str:
        """Labels of classes."""
        if values.dtype != object:
            return self.constant(values)
        try:
            encoded = [label.encode() for label in values]
        except UnicodeEncodeError as error:
            raise ValueError(f"classes must be text that UTF-8 can hold, got {error.object!r}") from error
        return self._stored(TensorProto.STRING, values.shape, encoded)

    def _stored(self, kind: int, shape: tuple[int, ...], content: Any) -> str:
        name: str = self._scope.get_unique_variable_name("constant")
        self._container.add_initializer(name, kind, list(shape), content)
        return name

    def wide(self, values: np.ndarray) -> str:
        """An array that is stored as it is, in double precision."""
        name = self.constant(values)
        return name if values.dtype == np.float64 else self.cast(name, TensorProto.DOUBLE)

    def cast(self, name: str, kind: int) -> str:
        """The same numbers in another type."""
        found: str = self.node("Cast", name, to=kind)
        return found

    def rounded(self, name: str) -> str:
        """Numbers of single precision, in double precision."""
        return self.cast(self.cast(name, TensorProto.FLOAT), TensorProto.DOUBLE)

    def give(self, output: Any, name: str) -> None:
        """Makes this an output."""
        kind = guess_proto_type(output.type)
        number = kind in (TensorProto.FLOAT, TensorProto.DOUBLE)
        operator, attributes = ("Cast", {"to": kind}) if number else ("Identity", {})
        own = self._scope.get_unique_operator_name(operator)
        self._container.add_node(operator, [name], [output.full_name], name=own, **attributes)


def _check_size(*shapes: tuple[int, int]) -> None:
    """Refuses arrays that no file holds, whatever their precision."""
    if 8 * sum(n * d for n, d in shapes) > _MOST_BYTES:
        raise ValueError(
            f"the arrays of a model must be smaller than 2 GB in ONNX, got shapes {', '.join(map(str, shapes))}; "
            "select features, or train with a budget"
        )


def linear_scores(graph: Graph, x: str, model: PegasosClassifier) -> str:
    """(n, 1) or (n, n_classes)."""
    _check_size(model.coef_.shape)
    products = graph.node("MatMul", x, graph.wide(dense(model.coef_).T))
    found: str = graph.node("Add", products, graph.wide(model.intercept_))
    return found


def kernel_scores(graph: Graph, x: str, model: Any) -> str:
    """(n, 1), (n, n_classes) or (n, n_pairs)."""
    exported, made, params = model._arrays(), model._trainer.made, model._trainer.made.params
    kernel = params["kernel"]
    if kernel == "precomputed":
        what = "a callable" if callable(model.kernel) else "'precomputed'"
        raise ValueError(f"kernel must be 'rbf', 'poly', 'sigmoid' or 'linear' in ONNX, got {what}, which has no graph")
    vectors, coefs = exported.vectors, exported.coefs.T
    n, d = vectors.shape
    _check_size(*([coefs.shape, vectors.shape] if kernel != "linear" else [(d, coefs.shape[1])]))
    constant = params["constant"] ** 2
    if n == 0:
        # Of a stream that has met one class. Not every runtime multiplies with nothing.
        vectors, coefs = np.zeros((1, d), made.dtype), np.zeros((1, coefs.shape[1]), made.dtype)
    metric = getattr(model, "_metric", None)
    if metric is not None:
        # The vectors are mapped already.
        x = graph.node("Mul", x, metric.map) if metric.diagonal else graph.node("MatMul", x, metric.map.T)
    if kernel == "linear":
        # One vector for each score does.
        weights = coefs.astype(np.float64)
        products = graph.node("MatMul", x, vectors.T.astype(np.float64) @ weights)
        found: str = graph.node("Add", products, constant * weights.sum(axis=0))
        return found
    values = _kernel_values(graph, x, vectors.toarray() if issparse(vectors) else vectors, params)
    if constant:
        # Not as intercepts, which are the same up to rounding: far from all vectors scores that are 0 must stay so.
        values = graph.node("Add", values, constant)
    found = graph.node("MatMul", values, graph.wide(coefs))
    return found


def _kernel_values(graph: Graph, x: str, vectors: np.ndarray, params: dict[str, Any]) -> str:
    """(n, n_sv)."""
    gamma = params["gamma"]
    if params["kernel"] == "rbf":
        # -gamma (||x||^2 + ||z||^2 - 2 <x, z>)
        products = graph.node("MatMul", graph.node("Mul", x, 2.0 * gamma), graph.wide(vectors.T))
        squares = graph.node("ReduceSum", graph.node("Mul", x, x), np.array([1]), keepdims=1)
        beside = graph.node("Sub", products, gamma * (vectors.astype(np.float64) ** 2).sum(axis=1))
        found = graph.node("Sub", beside, graph.node("Mul", squares, gamma))
        value: str = graph.node("Exp", graph.node("Min", found, 0.0))
        return value
    products = graph.node("MatMul", graph.node("Mul", x, gamma), graph.wide(vectors.T))
    moved = graph.node("Add", products, params["coef0"])
    if params["kernel"] == "sigmoid":
        value = graph.node("Tanh", moved)
    else:
        value = graph.node("Pow", moved, float(params["degree"]))
    return value


def _of_pairs(n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """For each two classes the number of their pair, and a sign: -1 where the first of the two is the pair's second."""
    first, second = np.triu_indices(n_classes, 1)
    which, sign = np.zeros((n_classes, n_classes), np.int64), np.zeros((n_classes, n_classes))
    which[first, second] = which[second, first] = np.arange(len(first))
    sign[first, second], sign[second, first] = 1.0, -1.0
    return which, sign


def votes(graph: Graph, pairs: str, n_classes: int) -> str:
    """What `pegasos._machine.votes_of_pairs` makes of the scores of pairs."""
    which, sign = _of_pairs(n_classes)
    each, last = graph.node("Gather", pairs, which, axis=1), np.array([2])
    sums = graph.node("ReduceSum", graph.node("Mul", each, sign), last, keepdims=0)
    lost = graph.cast(graph.node("Less", each, 0.0), TensorProto.DOUBLE)
    won = graph.node("Sub", (sign > 0.0).astype(float), graph.node("Mul", lost, sign))
    votes = graph.node("ReduceSum", won, last, keepdims=0)
    size = graph.node("Mul", graph.node("Add", graph.node("Abs", sums), 1.0), 3.0)
    found: str = graph.node("Add", votes, graph.node("Div", sums, size))
    return found


def probabilities(graph: Graph, scores: str, model: Any) -> str:
    """What `pegasos._calibration.Calibration.probabilities` makes of the scores of a model's problems."""
    k = len(model.classes_)
    if k == 1:
        # The one class that a stream has met.
        sure: str = graph.node("Pow", scores, 0.0)
        return sure
    by = Calibration.of_log_loss(k) if model.calibration is None else model._calibrated()
    if by.method == "temperature":
        scores = graph.node("Mul", scores, by.parts[0])
        if k > 2 and not by.pairs:
            found: str = graph.node("Softmax", scores, axis=1)
            return found
        columns = _logistic(graph, scores)
    elif by.method == "sigmoid":
        a, b = np.array(by.parts).T
        columns = _logistic(graph, graph.node("Sub", graph.node("Mul", scores, -a), b))
    else:
        columns = _interpolated(graph, scores, by.parts)
    if k == 2:
        found = graph.node("Concat", graph.node("Sub", 1.0, columns), columns, axis=1)
    elif by.pairs:
        found = _coupled(graph, columns, k)
    else:
        total = graph.node("ReduceSum", columns, np.array([1]), keepdims=1)
        some = graph.node("Greater", total, 0.0)
        found = graph.node("Div", graph.node("Where", some, columns, 1.0), graph.node("Where", some, total, float(k)))
    return found


def _logistic(graph: Graph, scores: str) -> str:
    # Sigmoid of onnxruntime has no more than 13 digits, and 0 where it should be small.
    found: str = graph.node("Reciprocal", graph.node("Add", graph.node("Exp", graph.node("Neg", scores)), 1.0))
    return found


def _interpolated(graph: Graph, scores: str, parts: list[np.ndarray]) -> str:
    """Of each score the value of its own rising function between thresholds: a binary search for all at a time."""
    steps = int(max(part.shape[1] for part in parts)).bit_length()
    size = 2**steps
    # Behind c thresholds the function is value + slope (score - start).
    bound, start, value, slope = np.full((len(parts), size), np.inf), *np.zeros((3, len(parts), size))
    for k, (x, y) in enumerate(parts):
        n = len(x)
        bound[k, 1 : n + 1] = x
        start[k, 1 : n + 1], value[k, : n + 1] = x, np.concatenate([y[:1], y])
        width = np.diff(x)
        slope[k, 1:n] = np.divide(np.diff(y), width, out=np.zeros(n - 1), where=width > 0.0)
    place: Any = np.arange(len(parts))[None] * size
    for step in range(steps - 1, -1, -1):
        further = graph.node("Add", place, np.array(2**step))
        there = graph.node("LessOrEqual", graph.node("Gather", bound.ravel(), further), scores)
        place = graph.node("Where", there, further, place)
    start, value, slope = (graph.node("Gather", table.ravel(), place) for table in (start, value, slope))
    found: str = graph.node("Add", graph.node("Mul", graph.node("Sub", scores, start), slope), value)
    return found


def _coupled(graph: Graph, pairs: str, n_classes: int) -> str:
    """What `pegasos._calibration._coupled` solves: Wu, Lin and Weng, eq. 21.

    That is to minimise ``p'Qp`` where ``p`` sums to 1, and so ``(Q + 11') p`` is a multiple of 1. ONNX solves no
    equations. But this matrix is positive definite and well conditioned, as ``d'Qd`` is at least ``||d||^2 / n^3``
    wherever ``d`` sums to 0; so elimination without pivots loses no digits, and takes seven operators a class.
    """
    which, sign = _of_pairs(n_classes)
    sure = graph.node("Max", graph.node("Min", pairs, 1.0 - _SUREST), _SUREST)
    each = graph.node("Gather", sure, which, axis=1)
    r = graph.node("Add", graph.node("Mul", each, sign), (sign < 0.0).astype(float))
    other = graph.node("Transpose", r, perm=[0, 2, 1])
    squares = graph.node("ReduceSum", graph.node("Mul", other, other), np.array([2]), keepdims=1)
    diagonal = graph.node("Mul", squares, np.eye(n_classes))
    matrix = graph.node("Add", graph.node("Sub", diagonal, graph.node("Mul", r, other)), 1.0)
    rest = graph.node("Concat", matrix, graph.node("Pow", squares, 0.0), axis=2)
    for k in range(n_classes):
        # A column that is done is a unit vector, which nobody needs.
        column, rest = graph.node("Split", rest, np.array([1, n_classes - k]), outputs=2, axis=2)
        row, pivot = (graph.node("Gather", part, np.array([k]), axis=1) for part in (rest, column))
        unit = np.eye(n_classes)[:, [k]]
        taken = graph.node("Mul", graph.node("Sub", column, unit), graph.node("Div", row, pivot))
        rest = graph.node("Sub", rest, taken)
    p = graph.node("Max", graph.node("Squeeze", rest, np.array([2])), 0.0)
    found: str = graph.node("Div", p, graph.node("ReduceSum", p, np.array([1]), keepdims=1))
    return found
