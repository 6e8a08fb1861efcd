"""Generated problems that the papers measure kernel machines by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sklearn.utils import check_random_state

if TYPE_CHECKING:
    import numpy as np

__all__ = ["make_checkerboard"]


def make_checkerboard(
    n_samples: int, random_state: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """Points of a board of 4 x 4 fields in two colours.

    Parameters
    ----------
    n_samples : int
        How many points.
    random_state : int, RandomState or None, default=None
        Their seed.

    Returns
    -------
    X : ndarray of shape (n_samples, 2), float64
        Points, uniform in [0, 4) x [0, 4).
    y : ndarray of shape (n_samples,), int64
        The colours of their fields, 0 or 1. No linear model does better than chance; a Gaussian kernel
        can do without error.

    References
    ----------
    Z. Wang, K. Crammer, S. Vucetic. "Multi-class Pegasos on a budget." ICML 2010, section 5.

    Examples
    --------
    >>> from pegasos.datasets import make_checkerboard
    >>> X, y = make_checkerboard(1000, random_state=0)
    >>> X.shape, sorted(set(y.tolist()))
    ((1000, 2), [0, 1])
    """
    random = check_random_state(random_state)
    X = random.uniform(0.0, 4.0, (n_samples, 2))
    return X, (X.astype(int).sum(axis=1) % 2).astype("int64")
