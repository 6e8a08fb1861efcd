"""What all estimators of this package are, beside estimators of scikit-learn."""

from __future__ import annotations

import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, metadata
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar

from sklearn.base import BaseEstimator

if TYPE_CHECKING:
    from typing import Self


@cache
def documentation() -> str:
    """The address that the installed package gives for its documentation; nothing where it gives none."""
    try:
        addresses = metadata("pegasos").get_all("Project-URL") or []
    except PackageNotFoundError:
        return ""
    for label, _, address in (entry.partition(",") for entry in addresses):
        if label.strip().lower() == "documentation":
            return address.strip()
    return ""


class EstimatorBase(BaseEstimator):
    """An estimator that is documented, has no C and says so, and may be pickled while another thread trains it."""

    #: What to say of C, and of other names for it.
    _instead: ClassVar[dict[str, str]] = {
        "C": "alpha=1/(C * n_samples) means the same, n_samples being that of fit; alpha='auto', the default, is C=1"
    }

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

    def _validate_params(self) -> None:
        super()._validate_params()
        # scikit-learn takes them for real numbers like any other; float() does not.
        for name, constraints in self._parameter_constraints.items():
            value = getattr(self, name, None)
            if not isinstance(value, int) or abs(value) <= sys.float_info.max:
                continue
            if any(getattr(each, "type", None) is Real for each in constraints):
                bits = value.bit_length()
                raise ValueError(f"{name} must be a number within double precision, got an int of {bits} bits")

    @classmethod
    def _refuse_c(cls, params: dict[str, Any], error: type[Exception]) -> None:
        for name in params.keys() & cls._instead.keys():
            raise error(f"{cls.__name__} has no parameter {name!r}: {cls._instead[name]}")

    def __getstate__(self) -> dict[str, Any]:
        # A copy, made at once: another thread may be about to set an attribute while this one is pickled.
        state: dict[str, Any] = super().__getstate__()
        return state.copy()

    def _get_doc_link(self) -> str:
        # By this method scikit-learn asks; without an address it draws no link.
        return documentation()
