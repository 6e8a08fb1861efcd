"""Types: the words that parameters take, and decorators of scikit-learn, which have none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Average: TypeAlias = bool | int | Literal["uniform", "polynomial"]
Calibrated: TypeAlias = Literal["sigmoid", "temperature", "isotonic"] | None
ClassWeight: TypeAlias = dict[Any, float] | Literal["balanced"] | None
Grid: TypeAlias = Literal["auto"] | Sequence[float] | NDArray[Any]
Kernel: TypeAlias = Literal["rbf", "poly", "linear", "sigmoid", "precomputed"] | Callable[[Any, Any], Any]
LearningRate: TypeAlias = Literal["pegasos", "invscaling", "constant"]
Loss: TypeAlias = Literal["hinge", "squared_hinge", "log_loss"]
Maintenance: TypeAlias = Literal["auto", "merge", "project", "remove", "random"]
MetricKind: TypeAlias = Literal["plain", "diagonal", "full", "auto"]
RandomState: TypeAlias = int | np.random.RandomState | None
Rule: TypeAlias = Literal["best", "one_standard_error"]
Sampling: TypeAlias = Literal["shuffle", "blocks", "replacement", "storage"] | Sequence[int] | NDArray[Any]
Scoring: TypeAlias = str | Callable[..., Any] | None
Solver: TypeAlias = Literal["auto", "pegasos", "dual"]
Strength: TypeAlias = float | Literal["auto"]
Width: TypeAlias = float | Literal["scale", "auto"]

if TYPE_CHECKING:
    Method = TypeVar("Method", bound=Callable[..., Any])

    def available_if(check: Callable[[Any], bool]) -> Callable[[Method], Method]:
        """A method that is there where ``check`` of the estimator says so, which may raise an AttributeError."""

    def checked(method: Method) -> Method:
        """A method that looks at all parameters first."""
else:
    from sklearn.base import _fit_context
    from sklearn.utils.metaestimators import available_if

    checked = _fit_context(prefer_skip_nested_validation=True)
