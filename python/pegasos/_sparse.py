"""Coefficients as a sparse matrix."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import issparse

if TYPE_CHECKING:
    from typing import Self


class SparseCoefficients:
    """Has its ``coef_`` as an array or as a sparse matrix."""

    @abstractmethod
    def _give(self, *, sparse: bool) -> None:
        """From now on ``coef_`` is sparse, or an array."""

    def sparsify(self) -> Self:
        """Give ``coef_`` as a sparse matrix, of the weights that are not 0.

        For whoever takes it further: of features that no example has, as most of a hashed text's, the weights are 0.
        Predictions and ``partial_fit`` are what they were, and the model takes the memory that it took.

        Returns
        -------
        self : object
            The estimator. ``coef_`` is a CSR matrix until ``densify`` or ``fit``; in copies and pickles too, but not in
            model files, which hold the weights alone.

        Raises
        ------
        NotFittedError
            If it is not fitted.

        See Also
        --------
        densify : The way back.
        """
        self._give(sparse=True)
        return self

    def densify(self) -> Self:
        """Give ``coef_`` as an array, as it is after ``fit``.

        Returns
        -------
        self : object
            The estimator.

        Raises
        ------
        NotFittedError
            If it is not fitted.

        See Also
        --------
        sparsify : The way there.
        """
        self._give(sparse=False)
        return self


def dense(coefs: Any) -> np.ndarray:
    """Coefficients as an array, whether somebody has made them sparse or not."""
    found: np.ndarray = coefs.toarray() if issparse(coefs) else coefs
    return found
