"""Linear models."""

from __future__ import annotations

from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import _fit_context
from sklearn.linear_model._base import LinearClassifierMixin
from sklearn.utils import assert_all_finite
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.extmath import row_norms, safe_sparse_dot
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from pegasos._base import Data, Run, _PegasosBase
from pegasos._core import LinearTrainer

if TYPE_CHECKING:
    from typing import Self


# What fits into the compiled half's integers.
_LARGEST = 2**63 - 1


class _Exported:
    """The arrays of a trainer, exported when asked for and not before.

    A stream of single examples must not pay O(n_features) for each.
    """

    def __init__(self, trainer: LinearTrainer) -> None:
        self.trainer = trainer
        self._t = -1

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Weights, (problems, n_features), and intercepts, (problems,), in the data's dtype."""
        if self._t != self.trainer.t:
            weights, intercepts = self.trainer.result()
            self._arrays = weights.reshape(len(intercepts), -1), intercepts.astype(weights.dtype)
            self._t = self.trainer.t
        return self._arrays


def _has_probabilities(estimator: Any) -> bool:
    if estimator.loss != "log_loss":
        raise AttributeError(f"probabilities need loss='log_loss', got loss={estimator.loss!r}")
    return True


class PegasosClassifier(LinearClassifierMixin, _PegasosBase):
    """PLACEHOLDER"""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "loss": [StrOptions({"hinge", "squared_hinge", "log_loss"})],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "solver": [StrOptions({"auto", "pegasos"})],
        "fit_intercept": ["boolean"],
        "intercept_scaling": [Interval(Real, 0, None, closed="neither")],
        "multi_class": [StrOptions({"crammer_singer", "ovr"})],
        "learning_rate": [StrOptions({"pegasos", "invscaling", "constant"})],
        "eta0": [Interval(Real, 0, None, closed="neither")],
        "power_t": [Interval(Real, 0, None, closed="left")],
        "t0": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
        "projection": ["boolean"],
        "average": [
            "boolean",
            StrOptions({"uniform", "polynomial"}),
            Interval(Integral, 1, _LARGEST, closed="both"),
        ],
        "batch_size": [Interval(Integral, 1, _LARGEST, closed="both")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left"), None],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "sampling": [StrOptions({"shuffle", "blocks", "replacement", "storage"}), "array-like"],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "warm_start": ["boolean"],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        loss: str = "hinge",
        *,
        alpha: float = 1e-4,
        solver: str = "auto",
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        multi_class: str = "crammer_singer",
        learning_rate: str = "pegasos",
        eta0: float = 1.0,
        power_t: float = 0.5,
        projection: bool = False,
        average: bool | int | str = False,
        batch_size: int = 1,
        max_iter: int = 100,
        tol: float | None = 1e-3,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        sampling: Any = "shuffle",
        class_weight: dict[Any, float] | str | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        t0: float | str = "auto",
    ) -> None:
        self.loss = loss
        self.alpha = alpha
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.multi_class = multi_class
        self.learning_rate = learning_rate
        self.eta0 = eta0
        self.power_t = power_t
        self.projection = projection
        self.average = average
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.sampling = sampling
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.t0 = t0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self.multi_class == "ovr"
        return tags

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on all of the examples, for at most ``max_iter`` epochs."""
        with self._all_or_nothing():
            return self._fit(X, y, sample_weight)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Visit these examples once, going on from where training is."""
        with self._all_or_nothing():
            return self._partial_fit(X, y, classes, sample_weight)

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes, for ``loss="log_loss"``."""
        return self._predict_proba_lr(X)

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of the probabilities of the classes, for ``loss="log_loss"``."""
        return np.log(self.predict_proba(X))

    @property
    def coef_(self) -> np.ndarray:
        """Weights of the features, (1, n_features) or (n_classes, n_features)."""
        return self._result()[0]

    @property
    def intercept_(self) -> np.ndarray:
        """Intercepts, (1,) or (n_classes,)."""
        return self._result()[1]

    def _result(self) -> tuple[np.ndarray, np.ndarray]:
        check_is_fitted(self)
        return self._exported.arrays

    def _settle(self, run: Run, classes: np.ndarray) -> None:
        super()._settle(run, classes)
        self._exported = _Exported(run.trainer)

    def _scores(self, trainer: LinearTrainer, X: Any) -> np.ndarray:
        weights, intercepts = _Exported(trainer).arrays
        scores = safe_sparse_dot(X, weights.T, dense_output=True) + intercepts
        return scores.ravel() if len(intercepts) == 1 else scores

    def _first_step(self, data: Data) -> float:
        """The offset ``t0`` of the step count."""
        if self.t0 != "auto":
            return float(self.t0)
        if self.loss != "squared_hinge" or self.learning_rate != "pegasos":
            return 0.0
        # A slope of 2 (1 - m) is not bounded: a first step beyond 1 over the curvature makes w swing
        # ever wider. With this offset the first step is just that.
        curvature = 2.0 * (row_norms(data.X, squared=True) + self._constant() ** 2)
        if data.labels[1] is not None:
            curvature = curvature * data.labels[1]
        assert_all_finite(curvature, input_name="X")
        return float(curvature.max()) / self.alpha

    def _constant(self) -> float:
        """The value of the constant feature whose weight is the intercept."""
        return float(self.intercept_scaling) if self.fit_intercept else 0.0

    def _make_trainer(self, data: Data, n_classes: int) -> LinearTrainer:
        if n_classes < 2:
            raise ValueError(
                f"y must hold at least two classes to tell apart, got {n_classes} class"
            )
        if n_classes > 2 and self.multi_class != "ovr":
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass. "
                f"multi_class='crammer_singer' cannot train {n_classes} classes yet; "
                "multi_class='ovr' can."
            )
        average, average_from = self.average, 1
        if isinstance(average, Integral) and not isinstance(average, bool | np.bool_):
            average, average_from = "uniform", int(average)
        elif not isinstance(average, str):
            average = "polynomial" if average else "none"
        weight = data.labels[1]
        return LinearTrainer(
            data.X.shape[1],
            [1] if n_classes == 2 else list(range(n_classes)),
            data.X.dtype.name,
            self._constant(),
            {
                "loss": self.loss,
                "alpha": float(self.alpha),
                "learning_rate": self.learning_rate,
                "eta0": float(self.eta0),
                "power_t": float(self.power_t),
                "t0": self._first_step(data),
                "projection": (1.0 if weight is None else float(weight.mean()))
                if self.projection
                else None,
                "batch_size": int(self.batch_size),
                "average": average,
                "average_from": average_from,
            },
        )
