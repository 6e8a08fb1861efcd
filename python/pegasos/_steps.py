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
    given, value = estimator._choice("t0") != "auto", half_life(estimator)
    if not _swings(estimator) or given and value is None:
        return None
    alpha, curvature = float(estimator._choice("alpha")), _curvature(estimator, data)
    if value is not None and (why := _too_long(curvature, alpha, value)):
        # Not refused, as in the beginning: a stream shall not end by one row. Nor would an offset help.
        warnings.warn(why, UserWarning, stacklevel=6)
        return None
    if given:
        return None
    params = trainer.made.params
    missing = curvature / alpha - params["t0"] - params.get("ahead", 0.0) - trainer.facts.t
    return params["t0"] + missing if missing > 0.0 else None


def _swings(estimator: Any) -> bool:
    """Whether w swings ever wider where a step is longer than 1 over the curvature: a slope of 2 (1 - m) is not bounded."""
    return bool(getattr(estimator, "loss", None) == "squared_hinge" and estimator._choice("learning_rate") == "pegasos")


def _curvature(estimator: Any, data: Data) -> float:
    """The largest curvature of an example's squared hinge; times the shards, each of which has but its part of an offset."""
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
    return float(curvature.max())
