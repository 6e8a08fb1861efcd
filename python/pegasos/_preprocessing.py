"""The steps of a pipeline that model files hold in front of an estimator: scalers of scikit-learn's."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

#: The steps that files may name, and what each has learned: an array, or a number for all features.
_STEPS: dict[str, tuple[type[Any], dict[str, str]]] = {
    "StandardScaler": (StandardScaler, {"mean": "mean_", "scale": "scale_", "var": "var_"}),
    "MaxAbsScaler": (MaxAbsScaler, {"scale": "scale_", "max_abs": "max_abs_"}),
}


def described_step(name: str, step: Any) -> dict[str, Any]:
    """A fitted step of a pipeline in numbers, strings and arrays."""
    kind = type(step).__name__
    known = _STEPS.get(kind)
    if known is None or type(step) is not known[0]:
        raise ValueError(f"a pipeline's steps before the estimator must be {' or '.join(_STEPS)} to be saved, got {step!r}")
    check_is_fitted(step)
    learned: Any = step
    arrays = {entry: getattr(learned, attribute) for entry, attribute in known[1].items()}
    seen = np.asarray(learned.n_samples_seen_)
    return {
        "class": kind,
        "name": name,
        **learned.get_params(deep=False),
        **{entry: None if array is None else np.asarray(array, np.float64) for entry, array in arrays.items()},
        "n_features": int(learned.n_features_in_),
        "n_samples_seen": seen.astype(np.int64) if seen.ndim else int(seen),
    }


def restored_step(state: dict[str, Any], n_features: int) -> tuple[str, Any]:
    """What `described_step` told of, and its name in the pipeline."""
    if state["class"] not in _STEPS:
        raise ValueError(f"it holds a {state['class']!r} where {' or '.join(_STEPS)} may be")
    kind, attributes = _STEPS[state["class"]]
    step = kind()
    step.set_params(**{param: state[param] for param in step.get_params(deep=False)})
    step._validate_params()
    if not isinstance(state["name"], str):
        raise ValueError(f"a step must have a name, got {state['name']!r}")
    for entry, attribute in attributes.items():
        array = state[entry]
        if array is not None and not (array.shape == (n_features,) and array.dtype == np.float64):
            raise ValueError(f"{entry} of a {state['class']} must be {n_features} numbers, got {array.dtype} {array.shape}")
        setattr(step, attribute, array)
    step.n_features_in_ = n_features
    step.n_samples_seen_ = state["n_samples_seen"]
    return state["name"], step
