"""What model files say of estimators: the way there, and the way back.

A model file is one safetensors file. Its tensors are the arrays of the trainer; its metadata has
one entry, ``"pegasos"``, a JSON text that holds everything else, the SHA-256 of every tensor and of
itself among it; ``src/model/file.rs`` reads and writes it. So a file that was damaged is refused. Nothing in it is ever
executed, every number is compared with the arrays that are there, or with its bounds: a file from a stranger can do no more
than predict badly. `described` and `restored` keep an estimator to the last bit, so that training can go on where it was,
and the steps of a pipeline before it.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils._param_validation import validate_parameter_constraints
from sklearn.utils.validation import check_is_fitted

from pegasos._base import Run
from pegasos._core import FORMAT, Trainer, __version__
from pegasos._kernel import KernelPegasosClassifier
from pegasos._linear import PegasosClassifier
from pegasos._machine import n_outputs
from pegasos._online import OnlineGradientClassifier
from pegasos._predictor import decode_classes
from pegasos._preprocessing import described_step, restored_step
from pegasos._projectron import ProjectronClassifier
from pegasos._stream import Stream

if TYPE_CHECKING:
    from typing import TypeAlias

    Estimator: TypeAlias = PegasosClassifier | KernelPegasosClassifier | ProjectronClassifier

#: The first format that is read; FORMAT is the one that is written.
_FIRST_FORMAT = 4

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


def described(model: Estimator | Pipeline) -> tuple[str, dict[str, np.ndarray]]:
    """A fitted estimator, or a pipeline that ends with one, as a JSON object and arrays by name."""
    tensors: dict[str, np.ndarray] = {}
    steps, estimator = _parts_of(model)
    told = [described_step(name, step) for name, step in steps]
    name = type(estimator).__name__
    if _CLASSES.get(name) is not type(estimator):
        rather = "; save its best_estimator_" if hasattr(estimator, "best_estimator_") else ""
        raise ValueError(f"estimator must be a {' or '.join(_CLASSES)} to be saved, got a {name}{rather}")
    check_is_fitted(estimator, "_trainer")
    estimator._validate_params()
    for label, step in steps:
        # A vectorizer has no number that it was fitted with.
        found = getattr(step, "n_features_in_", None) or step.n_features
        if found != estimator.n_features_in_:
            raise ValueError(
                f"estimator must be a pipeline that predicts to be saved: its step {label!r} has {found} features, its {name} "
                f"{estimator.n_features_in_}"
            )
    names = getattr(model, "feature_names_in_", None)
    params = estimator.get_params(deep=False)
    defaults = type(estimator)().get_params(deep=False)
    chosen = estimator._chosen()
    # Where parameters were set since the last training: the next one asks for them.
    made_with = {name: value for name, value in estimator._made_with.items() if value != chosen[name]}
    state = {
        "format": FORMAT,
        "version": __version__,
        "class": name,
        "params": {param: _encode(value, param) for param, value in params.items()},
        "given": [param for param, value in params.items() if not _same(value, defaults[param])],
        "classes": _encode_classes(estimator.classes_),
        "n_features": estimator.n_features_in_,
        "feature_names": None if names is None else _encode(names, "feature_names_in_"),
        "loss_curve": _encode(estimator.loss_curve_, "loss_curve_"),
        "certificates": [_encode(getattr(estimator, name), name) for name in ("objective_curve_", "dual_objective_curve_")],
        "objective": _encode(estimator.objective_, "objective_"),
        "dual_objective": _encode(estimator.dual_objective_, "dual_objective_"),
        "seed": estimator._seed,
        "epoch": estimator._epoch,
        "stream": _encode_stream(estimator._met()),
        "decided": {name: _encode(value, name) for name, value in estimator._decided.items()},
        "made_with": {name: _encode(value, name) for name, value in made_with.items()},
        "extra": _encode(estimator._extra(), "extra", tensors),
        "calibration": _encode(estimator._calibration_state(), "calibration", tensors),
        "steps": _encode(told, "steps", tensors),
        "pipeline": model.steps[-1][0] if isinstance(model, Pipeline) else None,
        "trainer": _encode(estimator._trainer.parts(), "trainer", tensors),
    }
    text = json.dumps(state, allow_nan=False)
    if "\\ud" in text:
        _check_texts(state)
    return text, {name: np.ascontiguousarray(values) for name, values in tensors.items()}


def _check_texts(state: dict[str, Any]) -> None:
    """Refuses halves of characters: JSON can name them, but nobody could read the file."""
    for entry, value in state.items():
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            found = error.object[max(0, error.start - 20) : error.end + 20]
            raise ValueError(f"{entry} must hold texts that UTF-8 can hold to be saved, got {found!r}") from error


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and value == default


def _parts_of(model: Any) -> tuple[list[tuple[str, Any]], Any]:
    """The steps before an estimator, and the estimator."""
    if not isinstance(model, Pipeline):
        return [], model
    *steps, (_, estimator) = model.steps
    # Of these nothing is fitted.
    return [(name, step) for name, step in steps if step not in (None, "passthrough")], estimator


def restored(text: str, arrays: dict[str, np.ndarray]) -> Estimator | Pipeline:
    """What `described` told of."""
    state = json.loads(text, parse_constant=_no_constant)
    try:
        return _restore(state, _Tensors(arrays))
    except (MemoryError, OverflowError) as error:
        raise ValueError(f"it asks for more than there is: {error}") from error


def _no_constant(name: str) -> None:
    raise ValueError(f"it holds the number {name}")


class _Tensors:
    """The tensors of a file: each must be asked for once."""

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        self._left = arrays

    def get_tensor(self, name: str) -> np.ndarray:
        if name not in self._left:
            raise ValueError(f"it asks for a tensor {name!r} that is not there, or twice")
        return self._left.pop(name)

    def verify(self) -> None:
        if self._left:
            raise ValueError(f"it has a tensor {min(self._left)!r} that means nothing")


def _restore(state: dict[str, Any], tensors: _Tensors) -> Estimator | Pipeline:
    """The estimator that ``state`` describes, its arrays taken from ``tensors``."""
    if state["format"] not in range(_FIRST_FORMAT, FORMAT + 1):
        raise ValueError(f"its format is {state['format']!r}, this version reads formats {_FIRST_FORMAT} to {FORMAT}")
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
    classes = decode_classes(state["classes"])
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
    # Once there was none.
    scored = _decode(state.get("calibration"), tensors)
    # Once there were none.
    steps = [restored_step(step, n_features) for step in _decode(state.get("steps", []), tensors)]
    # Before any array is copied.
    tensors.verify()
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
            certificates=_certificates(state),
        ),
        classes,
    )
    estimator._stream = stream
    # Once nobody told.
    estimator._made_with |= _made_with(estimator, _decode(state.get("made_with", {})))
    estimator._check_restored(extra)
    estimator._restore_calibration(scored, _outputs(estimator))
    found = trainer.result()
    if len(classes) == 1 and any(np.any(part) for part in (found if kind == "linear" else found[2:3])):
        raise ValueError("a model of one class must have learned nothing")
    name = state.get("pipeline")
    if name is None and not steps:
        return estimator
    if not isinstance(name, str):
        raise ValueError(f"an estimator behind other steps must have a name, got {name!r}")
    if steps and hasattr(estimator, "feature_names_in_"):
        # Those of the rows that the pipeline takes; its estimator sees arrays.
        steps[0][1].feature_names_in_ = estimator.feature_names_in_
        del estimator.feature_names_in_
    return Pipeline([*steps, (name, estimator)])


def _made_with(estimator: Estimator, told: dict[str, Any]) -> dict[str, Any]:
    """What the trainer was made with, where parameters were set since."""
    may_be = estimator._made_with.keys() - estimator._fixed.keys()
    automatic = [name for name in told.keys() & estimator._undecided.keys() if told[name] == "auto"]
    if not told.keys() <= may_be or automatic:
        raise ValueError(f"its trainer cannot have been made with {told}")
    others = {name: value for name, value in told.items() if name != "average"}
    validate_parameter_constraints(estimator._parameter_constraints, others, type(estimator).__name__)
    if "average" in told:
        kind, first = told["average"]
        if kind not in ("none", "recent", "uniform", "polynomial") or type(first) is not int or first < 1:
            raise ValueError(f"average must be a kind of mean and its first step, got {told['average']!r}")
        others["average"] = kind, first
    return others


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
        _check_lengths(parts, n_features)
    else:
        targets = parts["targets"]
        if targets != n_classes and not isinstance(targets, list):
            raise ValueError(f"its trainer must be for {n_classes} classes, got {targets!r}")
        if isinstance(targets, list) and not all(target in range(n_classes) for target in targets):
            raise ValueError(f"the weights must have shape {(n_classes, n_features)}, got targets {targets}")
    _check_numbers(parts, "trainer")


def _check_lengths(parts: dict[str, Any], n_features: int) -> None:
    """Refuses support vectors with other things than as many, before any array is copied."""
    indptr = parts["indptr"]
    n = len(parts["values"]) // n_features if indptr is None else max(0, len(indptr) - 1)
    for name in ("counts", "born", "rows", "norms", "ends"):
        found = n if parts.get(name) is None else len(parts[name])
        if found != n and not (name in ("norms", "ends") and found == 0):
            raise ValueError(f"{name} must have {n} entries, got {found}")


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
    if kind == "u" and max(values) >= 2**63:
        raise ValueError(f"classes_ must be below 2**63 to be saved, got {max(values)}")
    if kind in "biu" or (kind == "f" and classes.dtype.itemsize <= 8):
        return {"dtype": classes.dtype.name, "values": values}
    raise ValueError(f"classes_ must be numbers or strings to be saved, got {classes!r}")


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


def _certificates(state: dict[str, Any]) -> list[tuple[float, float]]:
    """The objectives on the way, and their bounds; once there were none in files."""
    objectives, duals = ([_real(value) for value in _decode(curve)] for curve in state.get("certificates", [[], []]))
    if not len(objectives) == len(duals) <= len(state["loss_curve"]):
        raise ValueError(f"there must be {len(state['loss_curve'])} objectives and bounds, got {len(objectives)}, {len(duals)}")
    return list(zip(objectives, duals, strict=True))


def _whole(state: dict[str, Any], name: str) -> int:
    value = state[name]
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError(f"{name} must be a whole number, got {value!r}")
    return value


def _real(value: Any) -> float:
    if not isinstance(value, float):
        raise ValueError(f"losses and objectives must be floats, got {value!r}")
    return value
