"""Models in files.

A model file is one safetensors file. Its tensors are the arrays of the trainer; its metadata has
one entry, ``"pegasos"``, a JSON text that holds everything else, the SHA-256 of every tensor and of
itself among it. So a file that was damaged is refused. Nothing in it is ever executed, every number is
compared with the arrays that are there, or with its bounds: a file from a stranger can do no more than
predict badly. `save` and `load` keep an estimator to the last bit, so that training can go on where it was.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors import numpy as safetensors
from sklearn.utils._param_validation import validate_parameter_constraints
from sklearn.utils.validation import check_is_fitted

from pegasos._base import Run
from pegasos._core import Trainer, __version__
from pegasos._files import naming, replacing
from pegasos._kernel import KernelPegasosClassifier
from pegasos._linear import PegasosClassifier
from pegasos._machine import n_outputs
from pegasos._online import OnlineGradientClassifier
from pegasos._projectron import ProjectronClassifier
from pegasos._stream import Stream

if TYPE_CHECKING:
    from typing import TypeAlias

    from pegasos._files import Path

    Estimator: TypeAlias = PegasosClassifier | KernelPegasosClassifier | ProjectronClassifier

#: The number of the format that `save` writes and `load` reads.
FORMAT = 4

#: What earlier versions called a parameter.
_RENAMED = {"refit": "refine", "refit_rounds": "refine_rounds"}

#: What no counter reaches.
_MOST = 2**62

#: The estimators that files may name.
_CLASSES: dict[str, type[Estimator]] = {
    "KernelPegasosClassifier": KernelPegasosClassifier,
    "ProjectronClassifier": ProjectronClassifier,
    "OnlineGradientClassifier": OnlineGradientClassifier,
    "PegasosClassifier": PegasosClassifier,
}


def save(estimator: Estimator, path: Path) -> None:
    """Write a fitted estimator to one safetensors file.

    The file holds the parameters, the classes, what the last fit found (objective, duality gap,
    loss curve, numbers of steps and epochs) and the whole state of training, so that `load` gives
    an estimator that predicts the same to the last bit, and whose ``partial_fit`` goes on as that
    of the original would. The file appears at once or not at all: a save that fails leaves what was
    at ``path`` as it was.

    Parameters
    ----------
    estimator : an estimator of this package
        A fitted estimator.
    path : str or path-like
        The file to write.

    Raises
    ------
    NotFittedError
        The estimator is not fitted.
    ValueError
        The estimator is of a class that files cannot hold, or one of its parameters is: a
        ``random_state`` that is no int and not None, a ``kernel`` that is a callable, a value out of
        range, labels that are neither numbers nor strings.
    OSError
        The file cannot be written.

    See Also
    --------
    load : The way back.

    Notes
    -----
    Time and memory are those of three copies of the weights, of shape (problems, n_features), six
    if iterates are averaged; of a kernel model three copies of its support vectors, of which features
    that are 0 are left out if it was trained on sparse rows. Arrays among the parameters come back as
    lists, tuples too; keys of ``class_weight`` keep their types.

    Examples
    --------
    >>> import tempfile, os
    >>> from sklearn.datasets import load_iris
    >>> from pegasos import PegasosClassifier
    >>> from pegasos.io import load, save
    >>> X, y = load_iris(return_X_y=True)
    >>> model = PegasosClassifier(multi_class="ovr", tol=None, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "iris.safetensors")
    ...     save(model, path)
    ...     again = load(path)
    >>> bool((again.coef_ == model.coef_).all())
    True
    """
    name = type(estimator).__name__
    if _CLASSES.get(name) is not type(estimator):
        rather = "; save its best_estimator_" if hasattr(estimator, "best_estimator_") else ""
        raise ValueError(f"estimator must be a {' or '.join(_CLASSES)} to be saved, got a {name}{rather}")
    check_is_fitted(estimator, "_trainer")
    estimator._validate_params()
    tensors: dict[str, np.ndarray] = {}
    names = getattr(estimator, "feature_names_in_", None)
    params = estimator.get_params(deep=False)
    state = {
        "format": FORMAT,
        "version": __version__,
        "class": name,
        "params": {param: _encode(value, param) for param, value in params.items()},
        "classes": _encode_classes(estimator.classes_),
        "n_features": estimator.n_features_in_,
        "feature_names": None if names is None else _encode(names, "feature_names_in_"),
        "loss_curve": _encode(estimator.loss_curve_, "loss_curve_"),
        "objective": _encode(estimator.objective_, "objective_"),
        "dual_objective": _encode(estimator.dual_objective_, "dual_objective_"),
        "seed": estimator._seed,
        "epoch": estimator._epoch,
        "stream": _encode_stream(estimator._met()),
        "decided": {name: _encode(value, name) for name, value in estimator._decided.items()},
        "extra": _encode(estimator._extra(), "extra", tensors),
        "calibration": _encode(estimator._calibration_state(), "calibration", tensors),
        "trainer": _encode(estimator._trainer.parts(), "trainer", tensors),
        "checksums": {tensor: _digest(values.tobytes()) for tensor, values in tensors.items()},
    }
    state["sha256"] = _digest(_text(state))
    # One entry: several would be written in an order that differs from run to run.
    metadata = {"pegasos": _text(state).decode()}
    try:
        content = safetensors.save(tensors, metadata)
    except SafetensorError as error:
        raise ValueError(f"the model does not fit into a safetensors file: {error}") from error
    with replacing(path) as file:
        file.write(content)


def load(path: Path) -> Estimator:
    """Read an estimator that `save` wrote.

    Parameters
    ----------
    path : str or path-like
        The file to read.

    Returns
    -------
    estimator : an estimator of this package
        A fitted estimator: ``coef_`` or ``dual_coef_``, predictions and whatever ``partial_fit``
        makes of further examples are those of the one that was saved.

    Raises
    ------
    OSError
        The file cannot be read; FileNotFoundError if there is none.
    ValueError
        The file is damaged, is no model file, or was written by a version of the package whose
        format this one does not know. The message names the file.

    See Also
    --------
    save : The way there, with an example.

    Notes
    -----
    Time and memory are those of three copies of the weights. Whoever changes a file and its checksums as well can
    change predictions, but to finite numbers only.

    Examples
    --------
    >>> import os, tempfile
    >>> from pegasos.io import load
    >>> import numpy as np
    >>> from safetensors.numpy import save_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "theirs.safetensors")
    ...     save_file({"weight": np.zeros(3)}, path)
    ...     try:
    ...         load(path)
    ...     except ValueError as error:
    ...         print(os.path.relpath(str(error), folder))
    theirs.safetensors: not a model file of pegasos: it is a safetensors file, but not one of ours
    """
    with open(path, "rb"):
        pass  # What is wrong with a path is an OSError, and said by the system.
    with (
        naming(path, "not a model file of pegasos: "),
        safe_open(os.fspath(path), framework="np") as file,
    ):
        metadata = file.metadata() or {}
        if "pegasos" not in metadata:
            raise ValueError("it is a safetensors file, but not one of ours")
        state = json.loads(metadata["pegasos"], parse_constant=_no_constant)
        try:
            return _restore(state, file)
        except (MemoryError, OverflowError) as error:
            raise ValueError(f"it asks for more than there is: {error}") from error


def _text(state: dict[str, Any]) -> bytes:
    return json.dumps(state, allow_nan=False).encode()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _no_constant(name: str) -> None:
    raise ValueError(f"it holds the number {name}")


class _Tensors:
    """The tensors of a file: each must be asked for once, and hold finite numbers, those that were written."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._left = set(file.keys())
        self._found: dict[str, str] = {}

    def get_tensor(self, name: str) -> np.ndarray:
        values: np.ndarray = self._file.get_tensor(name)
        if name not in self._left:
            raise ValueError(f"it asks twice for the tensor {name!r}")
        self._left.remove(name)
        self._found[name] = _digest(values.tobytes())
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise ValueError(f"the numbers of {name} must be finite")
        return values

    def verify(self, checksums: dict[str, str]) -> None:
        if self._left:
            raise ValueError(f"it has a tensor {min(self._left)!r} that means nothing")
        for name, found in self._found.items():
            if checksums[name] != found:
                raise ValueError(f"it is damaged: the checksum of {name} is another")


def _restore(state: dict[str, Any], tensors: Any) -> Estimator:
    """The estimator that `save` described by ``state``, its arrays taken from ``tensors``."""
    if not isinstance(state, dict):
        raise ValueError("it does not hold an estimator")
    if state["format"] != FORMAT:
        raise ValueError(f"its format is {state['format']!r}, this version reads format {FORMAT}")
    tensors = _Tensors(tensors)
    if state["class"] not in _CLASSES:
        raise ValueError(f"it holds a {state['class']!r}, not a {' or '.join(_CLASSES)}")
    estimator = _CLASSES[state["class"]]()
    params = {_RENAMED.get(name, name): _decode(value) for name, value in state["params"].items()}
    unknown = params.keys() - estimator.get_params(deep=False).keys()
    if unknown:
        raise ValueError(f"this version has no parameter {min(unknown)!r}")
    estimator.set_params(**params)
    estimator._validate_params()
    # Once nothing was decided.
    decided = {name: _decode(value) for name, value in state.get("decided", {}).items()}
    if not decided.keys() <= estimator._undecided.keys() or "auto" in decided.values():
        raise ValueError(f"it decides what cannot be decided: {decided}")
    validate_parameter_constraints(estimator._parameter_constraints, decided, type(estimator).__name__)
    estimator._decided = decided
    classes = _decode_classes(state["classes"])
    n_features = _whole(state, "n_features")
    estimator.n_features_in_ = n_features
    if state["feature_names"] is not None:
        names = state["feature_names"]
        if len(names) != n_features or not all(isinstance(name, str) for name in names):
            raise ValueError(f"feature_names must be {n_features} strings")
        estimator.feature_names_in_ = np.array(names, dtype=object)
    parts = _decode(state["trainer"], tensors)
    # One class waits for a second, in a trainer of two.
    extra = _decode(state["extra"], tensors)
    _check_parts(parts, max(2, len(classes)), _mapped_features(extra, n_features))
    stream = _decode_stream(state.get("stream"), classes)
    try:
        trainer = Trainer.from_parts(parts)
    except TypeError as error:
        raise ValueError(f"an entry of the trainer has a wrong type or shape: {error}") from error
    kind = trainer.made.kind
    if kind != estimator._kind:
        raise ValueError(f"its trainer must be of kind {estimator._kind!r}, got {kind!r}")
    estimator._settle(
        Run(
            trainer,
            _whole(state, "seed"),
            _whole(state, "epoch"),
            [_real(loss) for loss in _decode(state["loss_curve"])],
            _real(_decode(state["objective"])),
            _real(_decode(state["dual_objective"])),
        ),
        classes,
    )
    estimator._stream = stream
    estimator._check_restored(extra)
    # Once there was none.
    scored = _decode(state.get("calibration"), tensors)
    estimator._restore_calibration(scored, _outputs(estimator))
    found = trainer.result()
    if len(classes) == 1 and (np.any(found[0]) or (kind == "linear" and np.any(found[1]))):
        raise ValueError("a model of one class must have learned nothing")
    # Last, as they say least of what is wrong.
    tensors.verify(state["checksums"])
    told = {key: value for key, value in state.items() if key != "sha256"}
    if _digest(_text(told)) != state["sha256"]:
        raise ValueError("it is damaged: its checksum is another")
    return estimator


def _mapped_features(extra: Any, n_features: int) -> int:
    """How many features its trainer has: another number where a learned metric has fewer dimensions."""
    metric = extra.get("metric") or {}
    return n_features if metric.get("map") is None else len(metric["map"])


def _outputs(estimator: Any) -> int:
    """How many scores a row has."""
    if isinstance(estimator, PegasosClassifier):
        return len(estimator.intercept_)
    return n_outputs(estimator._trainer)


def _check_parts(parts: dict[str, Any], n_classes: int, n_features: int) -> None:
    """Refuses a trainer of other classes or features than the estimator's, and numbers that no trainer reaches."""
    if "classes" in parts:
        found = parts["classes"], parts["n_features"]
        if found != (n_classes, n_features):
            raise ValueError(f"its trainer must be for {n_classes} classes and {n_features} features, got {found}")
    else:
        targets = parts["targets"]
        if targets != n_classes and not isinstance(targets, list):
            raise ValueError(f"its trainer must be for {n_classes} classes, got {targets!r}")
        if isinstance(targets, list) and not all(target in range(n_classes) for target in targets):
            raise ValueError(f"the weights must have shape {(n_classes, n_features)}, got targets {targets}")
    _check_numbers(parts, "trainer")


def _check_numbers(value: Any, name: str) -> None:
    if isinstance(value, dict):
        for key, entry in value.items():
            # A seed is any number; some parameters mean no limit by large ones.
            if key != "params":
                _check_numbers(entry, str(key))
    elif isinstance(value, list):
        for entry in value:
            _check_numbers(entry, name)
    elif isinstance(value, int) and not isinstance(value, bool) and not 0 <= value < _MOST:
        raise ValueError(f"it is damaged: {name} must be a whole number below 2^62, got {value}")
    elif isinstance(value, float) and math.isinf(value):
        raise ValueError(f"{name} must be finite, got {value}")


def _encode(value: Any, name: str, tensors: dict[str, np.ndarray] | None = None) -> Any:
    """``value`` in what JSON can hold: what it cannot becomes an object of one entry, a tag.

    Arrays go to ``tensors`` if there is such a place, else become lists.
    """
    if isinstance(value, np.ndarray):
        if tensors is not None:
            tensors[name] = value
            return {"tensor": name}
        value = value.tolist()
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_encode(entry, f"{name}.{i}", tensors) for i, entry in enumerate(value)]
    if isinstance(value, dict) and not any(isinstance(key, tuple) for key in value):
        pairs = [
            [_encode(key, name), _encode(entry, f"{name}.{key}", tensors)]
            for key, entry in value.items()
        ]
        # Keys in JSON are strings; others must not become such.
        plain = all(isinstance(key, str) for key in value) and not _is_tag(value)
        return dict(pairs) if plain else {"dict": pairs}
    want = "an int or None" if name == "random_state" else "made of numbers, strings and lists"
    raise ValueError(f"{name} must be {want} to be saved, got {value!r}")


def _decode(value: Any, tensors: Any = None) -> Any:
    """What `_encode` made ``value`` of."""
    if isinstance(value, list):
        return [_decode(entry, tensors) for entry in value]
    if not isinstance(value, dict):
        return value
    if not _is_tag(value):
        return {key: _decode(entry, tensors) for key, entry in value.items()}
    ((tag, content),) = value.items()
    if tag == "float":
        return float(content)
    if tag == "dict":
        return {_decode(key): _decode(entry, tensors) for key, entry in content}
    return tensors.get_tensor(content)


def _is_tag(value: dict[Any, Any]) -> bool:
    return len(value) == 1 and value.keys() <= {"float", "dict", "tensor"}


def _encode_classes(classes: np.ndarray) -> dict[str, Any]:
    kind, values = classes.dtype.kind, classes.tolist()
    if kind == "U" or (kind == "O" and all(isinstance(value, str) for value in values)):
        return {"dtype": "object" if kind == "O" else "str", "values": values}
    if kind in "biu" or (kind == "f" and classes.dtype.itemsize <= 8):
        return {"dtype": classes.dtype.name, "values": values}
    raise ValueError(f"classes_ must be numbers or strings to be saved, got {classes!r}")


def _decode_classes(state: dict[str, Any]) -> np.ndarray:
    dtype, values = np.dtype(state["dtype"]), state["values"]
    # The name of a dtype has no width of strings, which could be any.
    if dtype.kind not in "biufUO" or dtype.name != state["dtype"]:
        raise ValueError(f"classes cannot have dtype {state['dtype']!r}")
    text = dtype.kind in "UO"
    if not all(isinstance(value, str) == text for value in values):
        raise ValueError(f"classes of dtype {dtype} cannot be {values}")
    classes = np.array(values, dtype=dtype)
    if classes.ndim != 1 or not len(classes) or not np.all(classes[1:] > classes[:-1]):
        raise ValueError(f"classes must be one or more, in rising order, got {values}")
    return classes


def _encode_stream(stream: Stream | None) -> dict[str, Any]:
    assert stream is not None and stream.counts is not None
    return {"open": stream.is_open, "counts": stream.counts.tolist()}


def _decode_stream(state: Any, classes: np.ndarray) -> Stream | None:
    """None where the file is of a version that did not count."""
    counts: Any = [0] * len(classes) if state is None else state["counts"]
    is_open: Any = False if state is None else state["open"]
    if len(counts) != len(classes) or type(is_open) is not bool:
        raise ValueError(f"its stream must be of {len(classes)} classes, got {state!r}")
    if len(classes) < 2 and not is_open:
        raise ValueError(f"classes must be two or more, got {classes.tolist()}")
    _check_numbers(counts, "counts")
    return None if state is None else Stream(classes, np.array(counts, np.int64), is_open)


def _whole(state: dict[str, Any], name: str) -> int:
    value = state[name]
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError(f"{name} must be a whole number, got {value!r}")
    return value


def _real(value: Any) -> float:
    if not isinstance(value, float):
        raise ValueError(f"losses and objectives must be floats, got {value!r}")
    return value
