"""scikit-learn's callbacks, where the installed version has them: what they are told of a fit.

`sklearn.callback` came with scikit-learn 1.9 and may still change. Here, and nowhere else, it is asked for; without it
estimators have no ``set_callbacks``, and nothing is told to anybody.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def _mixin() -> Any:
    try:
        from sklearn.callback import CallbackSupportMixin
    except ModuleNotFoundError:
        return type("NoCallbacks", (), {})
    return CallbackSupportMixin


#: What gives an estimator ``set_callbacks``.
if TYPE_CHECKING:

    class CallbackSupport:
        """Has ``set_callbacks``, where scikit-learn has callbacks."""

else:
    CallbackSupport = _mixin()

#: What scikit-learn keeps on an estimator during a fit: by these it tells callbacks that it is over, however it has ended.
_OF_THE_FIT = ("_callback_fit_ctx", "_skl_callbacks_to_teardown")


def tell_of(twin: Any, estimator: Any) -> None:
    """Has an estimator tell its callbacks that the fit of its twin is over, which failed."""
    estimator.__dict__.update((name, twin.__dict__[name]) for name in _OF_THE_FIT if name in twin.__dict__)


def put_back(estimator: Any, attributes: dict[str, Any]) -> None:
    """Gives an estimator the attributes that it had before a fit that failed, of which callbacks are still to be told."""
    kept = {name: value for name, value in estimator.__dict__.items() if name in _OF_THE_FIT}
    estimator.__dict__.clear()
    estimator.__dict__.update(attributes | kept)


def unwatched(estimator: Any) -> Any:
    """A clone without the callbacks of its original, which have no business with it."""
    estimator.__dict__.pop("_skl_callbacks", None)
    return estimator


class Stopped(Exception):
    """A callback has said that it is enough."""


class Tasks:
    """The tasks of a fit as callbacks are told of them: the fit itself, and the epochs and other parts that it has.

    ``Tasks()`` tells nobody anything.
    """

    def __init__(self, estimator: Any = None, context: Any = None, **given: Any) -> None:
        self._estimator, self._context, self._given = estimator, context, given

    @classmethod
    def of(cls, estimator: Any, X: Any, y: Any, sample_weight: Any, *, name: str = "fit", most: int | None = None) -> Tasks:
        """Those of a fit that begins now, of ``most`` parts if that is known."""
        if not hasattr(estimator, "_init_callback_context"):
            return cls()
        context = estimator._init_callback_context(task_name=name, max_subtasks=most)
        if not hasattr(estimator, "_skl_callbacks"):
            return cls()
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        return cls(estimator, context, X=X, y=y, metadata=metadata)._begun()

    def _begun(self) -> Tasks:
        self._context.call_on_fit_task_begin(estimator=self._estimator, **self._given)
        return self

    def part(self, name: str, *, most: int | None = 0) -> Tasks:
        """A part that begins now, of ``most`` parts itself: of none, or of nobody knows how many."""
        if self._context is None:
            return self
        context = self._context.subcontext(task_name=name, max_subtasks=most)
        return Tasks(self._estimator, context, **self._given)._begun()

    def over(self, fitted: Callable[[], dict[str, Any] | None] | None = None) -> bool:
        """It is over; ``fitted`` gives the attributes of an estimator that predicts as it would now. Says whether a callback
        wants what it is a part of to end."""
        if self._context is None:
            return False
        return bool(
            self._context.call_on_fit_task_end(
                estimator=self._estimator, reconstruction_attributes=fitted, **self._given
            )
        )

    @contextmanager
    def fit_of(self, model: Any, name: str) -> Iterator[None]:
        """A part that is the fit of another estimator, which gets those callbacks that look into estimators."""
        if self._context is None:
            yield
            return
        part = Tasks(self._estimator, self._context.subcontext(task_name=name), **self._given)
        with part._context.propagate_callback_context(model):
            part._begun()
            yield
        part.over()
