"""Generated problems that the papers measure kernel machines by."""

from __future__ import annotations

from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from sklearn.utils import check_random_state, check_scalar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["make_checkerboard", "make_waveform"]

_Examples = tuple[np.ndarray, np.ndarray]


@overload
def make_checkerboard(n_samples: int, random_state: Any = None, *, drift: float = 0.0) -> _Examples: ...
@overload
def make_checkerboard(
    n_samples: int, random_state: Any = None, *, chunk_size: int, drift: float = 0.0
) -> Iterator[_Examples]: ...
def make_checkerboard(
    n_samples: int, random_state: Any = None, *, chunk_size: int | None = None, drift: float = 0.0
) -> _Examples | Iterator[_Examples]:
    """Points of a board of 4 x 4 fields in two colours.

    Parameters
    ----------
    n_samples : int
        How many points.
    random_state : int, RandomState or None, default=None
        Their seed.
    chunk_size : int or None, default=None
        If given, the points come in chunks of as many (fewer in the last), drawn when asked for: a
        stream in constant memory, of the same points.
    drift : float, default=0.0
        How many fields the board moves along the first axis, steadily, from the first point to the last: after one field
        all colours have changed, after two it is as it was. The points do not depend on it, only their colours do.

    Returns
    -------
    X : ndarray of shape (n_samples, 2), float64
        Points, uniform in [0, 4) x [0, 4).
    y : ndarray of shape (n_samples,), int64
        The colours of their fields, 0 or 1. No linear model does better than chance; a Gaussian kernel
        can do without error, on a board that does not move.

    With ``chunk_size``, an iterator of such pairs instead.

    References
    ----------
    Z. Wang, K. Crammer, S. Vucetic. "Multi-class Pegasos on a budget." ICML 2010, section 5.

    Examples
    --------
    >>> from pegasos.datasets import make_checkerboard
    >>> X, y = make_checkerboard(1000, random_state=0)
    >>> X.shape, sorted(set(y.tolist()))
    ((1000, 2), [0, 1])
    >>> [len(y) for X, y in make_checkerboard(1000, random_state=0, chunk_size=400)]
    [400, 400, 200]
    """
    random = check_random_state(random_state)
    check_scalar(drift, "drift", Real)
    if not np.isfinite(drift):
        raise ValueError(f"drift must be finite, got {drift}")
    drawn = 0

    def draw(n: int) -> _Examples:
        nonlocal drawn
        X = random.uniform(0.0, 4.0, (n, 2))
        fields = X.copy()
        fields[:, 0] -= drift * (drawn + np.arange(n)) / max(n_samples, 1)
        drawn += n
        return X, (np.floor(fields).astype(int).sum(axis=1) % 2).astype("int64")

    return _in_chunks(draw, n_samples, chunk_size)


@overload
def make_waveform(n_samples: int, random_state: Any = None) -> _Examples: ...
@overload
def make_waveform(
    n_samples: int, random_state: Any = None, *, chunk_size: int
) -> Iterator[_Examples]: ...
def make_waveform(
    n_samples: int, random_state: Any = None, *, chunk_size: int | None = None
) -> _Examples | Iterator[_Examples]:
    """Breiman's waves: three classes, each a random mixture of two of three waves, and noise.

    Parameters
    ----------
    n_samples : int
        How many examples.
    random_state : int, RandomState or None, default=None
        Their seed.
    chunk_size : int or None, default=None
        If given, the examples come in chunks of as many (fewer in the last), drawn when asked for: a
        stream in constant memory, of the same examples.

    Returns
    -------
    X : ndarray of shape (n_samples, 21), float64
        ``u h_a + (1 - u) h_b`` with u uniform in [0, 1), plus normal noise of variance 1 in every
        feature. The waves are triangles, ``max(6 - |j - c|, 0)`` for j = 1, ..., 21, around 11, 15
        and 7.
    y : ndarray of shape (n_samples,), int64
        Which two waves: the first and the second, the first and the third, the second and the third, 0, 1
        or 2, equally likely. No classifier is right in more than about 86.8%.

    With ``chunk_size``, an iterator of such pairs instead.

    References
    ----------
    L. Breiman, J. Friedman, R. Olshen, C. Stone. "Classification and regression trees." Wadsworth
    (1984), pages 49 to 55 and 169. The "waveform" data of the UCI repository.

    Examples
    --------
    >>> from pegasos.datasets import make_waveform
    >>> X, y = make_waveform(1000, random_state=0)
    >>> X.shape, sorted(set(y.tolist()))
    ((1000, 21), [0, 1, 2])
    """
    random = check_random_state(random_state)
    # A stream for each kind of number, so that examples do not depend on where chunks end.
    seeds = random.randint(np.iinfo(np.int32).max, size=3)
    classes, mixtures, noise = (np.random.RandomState(seed) for seed in seeds)
    place = np.arange(1, 22)
    waves = np.array([np.maximum(6.0 - np.abs(place - centre), 0.0) for centre in (11, 15, 7)])
    first, second = waves[[0, 0, 1]], waves[[1, 2, 2]]

    def draw(n: int) -> _Examples:
        y = (3.0 * classes.uniform(size=n)).astype("int64")
        u = mixtures.uniform(size=(n, 1))
        return u * first[y] + (1.0 - u) * second[y] + noise.standard_normal((n, 21)), y

    return _in_chunks(draw, n_samples, chunk_size)


def _in_chunks(
    draw: Callable[[int], _Examples], n_samples: int, chunk_size: int | None
) -> _Examples | Iterator[_Examples]:
    for name, value in (("n_samples", n_samples), ("chunk_size", chunk_size)):
        if isinstance(value, bool):  # which is an Integral
            raise TypeError(f"{name} must be an int, got {value}")
    check_scalar(n_samples, "n_samples", Integral, min_val=0)
    if chunk_size is None:
        return draw(n_samples)
    check_scalar(chunk_size, "chunk_size", Integral, min_val=1)
    return (draw(min(chunk_size, n_samples - start)) for start in range(0, n_samples, chunk_size))
