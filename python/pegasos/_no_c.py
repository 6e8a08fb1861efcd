"""For those who come from estimators that have a C."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from sklearn.base import BaseEstimator

if TYPE_CHECKING:
    from typing import Self


class NoC(BaseEstimator):
    """An estimator without a C, which says what it has instead."""

    #: What to say of C, and of other names for it.
    _instead: ClassVar[dict[str, str]] = {}

    def __new__(cls, *args: Any, **params: Any) -> Self:
        cls._refuse_c(params, TypeError)
        return super().__new__(cls)

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, as every estimator of scikit-learn does.

        Parameters
        ----------
        **params : dict
            Their names and values.

        Returns
        -------
        self : object
            The estimator.

        Raises
        ------
        ValueError
            If there is no such parameter.
        """
        self._refuse_c(params, ValueError)
        super().set_params(**params)
        return self

    @classmethod
    def _refuse_c(cls, params: dict[str, Any], error: type[Exception]) -> None:
        for name in params.keys() & cls._instead.keys():
            raise error(f"{cls.__name__} has no parameter {name!r}: {cls._instead[name]}")
