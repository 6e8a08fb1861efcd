"""Step sizes: how long the first ones may be, and how fast what they have learned is forgotten."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import assert_all_finite

if TYPE_CHECKING:
    from pegasos._core import Trainer
    from pegasos._data import Data

#: A row of a batch stands out whose curvature is more than so many times that of all but one row in twenty.
_USUAL, _STANDS_OUT = 0.95, 4.0

#: Fewer rows of a batch tell little of those to come.
_FEW = 10


def remembered(half_life: float) -> float:
    """How many examples there are in memory, each counted by its weight: ``1/(1 - 2^(-1/half_life))``."""
    return -1.0 / math.expm1(-math.log(2.0) / half_life)


def half_life(estimator: Any) -> float | None:
    """The half-life of an example's weight, checked beside what must forget with it; None for no forgetting."""
    value = estimator._choice("half_life")
    if value is None:
        return None
    for name, want in (("learning_rate", "pegasos"), ("shards", 1)):
        found = estimator._choice(name)
        if found != want:
            raise ValueError(f"half_life={value!r} does not go with {name}={found!r}; use {name}={want!r}")
    if estimator._averaging()[0] in ("uniform", "polynomial"):
        forgetting = "False" if hasattr(estimator, "loss") else "True or False"
        raise ValueError(
            f"half_life={value!r} does not go with average={estimator.average!r}, which forgets no iterate; use "
            f"average={forgetting}"
        )
    return float(value)


def decided_alpha(estimator: Any, alpha: float, data: Data) -> float:
    """What "auto" means for ``alpha`` where that would be ``alpha``, but for a half-life."""
    value = half_life(estimator)
    if value is None:
        return alpha
    # C = 1 over what is remembered: steps of 1, in the end, where these are not too long.
    longest = 1.0 if not _swings(estimator) else max(1.0, _curvature(estimator, data))
    return max(alpha, longest / remembered(value))


def tamed(estimator: Any, data: Data, trainer: Trainer | None) -> Data:
    """The examples that a stream learns next, of the squared hinge; those for which steps are too long count for less.

    ``trainer`` has learned the stream so far; none has before its first examples. A few rows that are much larger than all
    others must not set the pace of all that come after: most rows of a batch do, and rows without weights raise it no faster
    than the stream gets longer. Rows beyond it count for so much less that no step is longer than 1 over their
    curvature. Weights are what they are, but where a half-life leaves no shorter step.
    """
    if not _swings(estimator):
        return data
    value, given = half_life(estimator), estimator._choice("t0") != "auto"
    if given and (value is None or trainer is None):
        return data
    curvatures = _curvatures(estimator, data._replace(weight=None))
    weights = np.ones(data.n) if data.weight is None else data.weight
    reach = longest = np.inf
    if trainer is not None:
        reach, longest = _reach(estimator, trainer), _longest(estimator, value)
        if float((curvatures * weights).max()) <= min(reach, longest):
            return data
    most = np.inf
    if data.n >= _FEW and not given:
        most = _STANDS_OUT * float(np.quantile(curvatures, _USUAL, method="lower"))
    if trainer is not None and value is None and data.weight is None:
        most = max(reach, min(most, reach * (1.0 + data.n / (trainer.facts.t + 1.0))))
    part = _part(most, curvatures)
    felt = part * weights * curvatures
    if data.n >= _FEW and np.median(felt) > longest:
        _warn_of_half_life(estimator, value, float(estimator._choice("alpha")))
    part = part * _part(longest, felt)
    return data if (part == 1.0).all() else data.weighted(part * weights)


def _part(most: float, curvatures: np.ndarray) -> np.ndarray:
    """How much of each there is up to the most."""
    return most / np.maximum(curvatures, most) if 0.0 < most < np.inf else np.ones(len(curvatures))


def _reach(estimator: Any, trainer: Trainer) -> float:
    """The curvature of an example for which the next step is not too long."""
    params = trainer.made.params
    return float(estimator._choice("alpha")) * (params["t0"] + params.get("ahead", 0.0) + trainer.facts.t)


def _longest(estimator: Any, value: float | None) -> float:
    """The curvature for which no step of a half-life is too long, however many there have been; of none there is no limit."""
    return math.inf if value is None else float(estimator._choice("alpha")) * remembered(value)


def _warn_of_half_life(estimator: Any, value: float | None, alpha: float) -> None:
    # Once, however many batches are so.
    if estimator.__dict__.get("_told_of") == (value, alpha):
        return
    estimator._told_of = (value, alpha)
    why = ", by the first examples" if estimator.alpha == "auto" else ""
    warnings.warn(
        f"alpha is small for half_life={value:g}, got {alpha:.3g}{why}: steps are too long for the squared hinge of most "
        "examples, which count for less; use a larger alpha or half_life, or loss='hinge'",
        UserWarning,
        stacklevel=6,
    )


def first_step(estimator: Any, data: Data) -> float:
    """The offset ``t0`` of the step count of a linear model."""
    t0 = estimator._choice("t0")
    if not _swings(estimator):
        return 0.0 if t0 == "auto" else float(t0)
    value, alpha = half_life(estimator), float(estimator._choice("alpha"))
    if t0 != "auto" and value is None:
        return float(t0)
    # With this offset the first step is 1 over the curvature.
    curvature = _curvature(estimator, data)
    if value is not None and (why := _too_long(curvature, alpha, value)):
        raise ValueError(why)
    return curvature / alpha if t0 == "auto" else float(t0)


def _too_long(curvature: float, alpha: float, value: float) -> str | None:
    """Why no step of a half-life is short enough; None if it is."""
    if curvature <= alpha * remembered(value) * (1.0 + 1e-9):
        return None
    return (
        f"alpha must be >= {curvature / remembered(value):.3g} for half_life={value:g}, got {alpha:g}: steps of "
        f"{1.0 / (alpha * remembered(value)):.2g} are too long for the squared hinge of these examples; use a larger "
        "alpha or half_life, or loss='hinge'"
    )


def later_step(estimator: Any, data: Data, trainer: Trainer) -> float | None:
    """The offset with which a stream must go on where it meets examples that are larger than all before; None where it need not.

    A step no longer than 1 over the largest curvature swings nowhere, and those that were made no longer matter.
    """
    if not _swings(estimator) or estimator._choice("t0") != "auto":
        return None
    missing = _curvature(estimator, data) - (reach := _reach(estimator, trainer))
    # What `tamed` has left is within reach but for roundings.
    if missing <= 1e-9 * reach:
        return None
    return float(trainer.made.params["t0"]) + missing / float(estimator._choice("alpha"))


def _swings(estimator: Any) -> bool:
    """Whether w swings ever wider where a step is longer than 1 over the curvature: a slope of 2 (1 - m) is not bounded."""
    return bool(getattr(estimator, "loss", None) == "squared_hinge" and estimator._choice("learning_rate") == "pegasos")


def _curvature(estimator: Any, data: Data) -> float:
    """The largest of them."""
    return float(_curvatures(estimator, data).max())


def _curvatures(estimator: Any, data: Data) -> np.ndarray:
    """Of each example that of its squared hinge; times the shards, each of which has but its part of an offset."""
    with np.errstate(all="ignore"):
        constant = np.float64(estimator._constant())
        curvature = 2.0 * (data.norms() + constant**2) * estimator._parts_of_epoch
        if data.weight is not None:
            curvature = curvature * data.weight
    if not np.isfinite(curvature).all():
        with np.errstate(all="ignore"):
            assert_all_finite(data.X.data if issparse(data.X) else data.X, input_name="X")
            if not np.isfinite(2.0 * constant**2):
                raise ValueError(f"intercept_scaling must have a square that is finite, got {constant}")
        raise ValueError(
            "X must be finite and of a scale whose products are finite; scale the features (StandardScaler) or sample_weight"
        )
    return curvature
