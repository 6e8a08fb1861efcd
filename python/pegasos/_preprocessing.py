"""The steps of a pipeline that model files hold in front of an estimator: scalers and hashed texts of scikit-learn's."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

#: The steps that files may name, and what each has learned: an array, or a number for all features.
_STEPS: dict[str, tuple[type[Any], dict[str, str]]] = {
    "StandardScaler": (StandardScaler, {"mean": "mean_", "scale": "scale_", "var": "var_"}),
    "MaxAbsScaler": (MaxAbsScaler, {"scale": "scale_", "max_abs": "max_abs_"}),
}


#: The patterns of words that files may name, and the fewest characters that a word has by them.
_WORDS = {r"(?u)\b\w\w+\b": 2, r"(?u)\b\w+\b": 1}

#: What a vectorizer must have there, as nobody else could do the same.
_FIXED = {"input": ("content",), "strip_accents": (None,), "preprocessor": (None,), "tokenizer": (None,)}

#: What is stored as it is.
_PLAIN = ("n_features", "analyzer", "lowercase", "alternate_sign", "binary", "norm", "encoding", "decode_error")


def described_step(name: str, step: Any) -> dict[str, Any]:
    """A fitted step of a pipeline in numbers, strings and arrays."""
    kind = type(step).__name__
    if type(step) is HashingVectorizer:
        return {"class": kind, "name": name, **_described_hasher(step)}
    known = _STEPS.get(kind)
    if known is None or type(step) is not known[0]:
        may_be = " or ".join([*_STEPS, "HashingVectorizer"])
        raise ValueError(f"a pipeline's steps before the estimator must be {may_be} to be saved, got {step!r}")
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
        # Not whole where examples have weights.
        "n_samples_seen": seen if seen.ndim else seen.item(),
        # Tensors are in double precision; with others than these rows would be scaled to other bits.
        "single": learned.scale_ is not None and learned.scale_.dtype == np.float32,
    }


def restored_step(state: dict[str, Any], n_features: int) -> tuple[str, Any]:
    """What `described_step` told of, and its name in the pipeline."""
    if not isinstance(state["name"], str):
        raise ValueError(f"a step must have a name, got {state['name']!r}")
    if state["class"] == "HashingVectorizer":
        return state["name"], _restored_hasher(state)
    if state["class"] not in _STEPS:
        raise ValueError(f"it holds a {state['class']!r} where {' or '.join(_STEPS)} may be")
    kind, attributes = _STEPS[state["class"]]
    step = kind()
    step.set_params(**{param: state[param] for param in step.get_params(deep=False)})
    step._validate_params()
    for entry, attribute in attributes.items():
        array = state[entry]
        if array is not None and not (array.shape == (n_features,) and array.dtype == np.float64):
            raise ValueError(f"{entry} of a {state['class']} must be {n_features} numbers, got {array.dtype} {array.shape}")
        # Once nobody told.
        setattr(step, attribute, array.astype(np.float32) if state.get("single") is True and array is not None else array)
    step.n_features_in_ = n_features
    seen = np.asarray(state["n_samples_seen"])
    if seen.dtype.kind not in "if" or seen.shape not in ((), (n_features,)) or not (np.isfinite(seen) & (seen >= 0)).all():
        raise ValueError(f"n_samples_seen of a {state['class']} must be numbers >= 0, got {state['n_samples_seen']!r}")
    # A number of NumPy's: scikit-learn goes on from no other.
    step.n_samples_seen_ = seen[()]
    return state["name"], step


def _described_hasher(step: HashingVectorizer) -> dict[str, Any]:
    """What a vectorizer does, as ``src/model/text.rs`` does it."""
    step._validate_params()
    choices = _FIXED | {"analyzer": ("word", "char", "char_wb"), "token_pattern": tuple(_WORDS)}
    for param, values in choices.items():
        value = getattr(step, param)
        if value not in values:
            may_be = " or ".join(map(repr, values))
            raise ValueError(f"{param} of a HashingVectorizer must be {may_be} to be saved, got {value!r}")
    stop = step.get_stop_words()
    return {
        **{param: getattr(step, param) for param in _PLAIN},
        "ngram_range": [int(n) for n in step.ngram_range],
        "shortest": _WORDS[step.token_pattern],
        "stop_words": None if stop is None else sorted(stop),
        "english": step.stop_words == "english",
        "single": np.dtype(step.dtype) == np.float32,
    }


def _restored_hasher(state: dict[str, Any]) -> HashingVectorizer:
    step = HashingVectorizer(
        **{param: state[param] for param in _PLAIN},
        ngram_range=tuple(state["ngram_range"]),
        token_pattern=next(pattern for pattern, shortest in _WORDS.items() if shortest == state["shortest"]),
        stop_words="english" if state["english"] is True else state["stop_words"],
        dtype=np.float32 if state["single"] is True else np.float64,
    )
    step._validate_params()
    return step
