"""An intercept that is not regularised: what it does not go with."""

from __future__ import annotations

from typing import Any

_FREE = (
    "fit_intercept='free', which needs dual ascent over all the rows of a fit; fit_intercept=True with a larger "
    "intercept_scaling regularises it less"
)


def is_free(estimator: Any) -> bool:
    """Whether the intercept is not regularised."""
    return isinstance(estimator.fit_intercept, str)


def refuse_stream(estimator: Any) -> None:
    """Refuses ``partial_fit``."""
    if is_free(estimator):
        raise ValueError(f"partial_fit does not go with {_FREE}")


def refuse_steps(estimator: Any, obstacle: str | None) -> None:
    """Refuses what asks for steps of Pegasos: the solver, ``warm_start``, or what stands in the way of dual ascent."""
    if not is_free(estimator):
        return
    if estimator._choice("solver") == "pegasos":
        obstacle = "solver='pegasos'"
    elif estimator.warm_start:
        obstacle = "warm_start=True"
    if obstacle:
        raise ValueError(f"{obstacle} does not go with {_FREE}")


def refuse_joint(estimator: Any, n_classes: int) -> None:
    """Refuses classes that are trained jointly."""
    if is_free(estimator):
        raise ValueError(
            f"multi_class='crammer_singer' of more than two classes, here {n_classes}, does not go with "
            "fit_intercept='free'; multi_class='ovr' does, or fit_intercept=True with a larger intercept_scaling"
        )
