"""The map that rows go through before the kernel looks at them, and what is known of how it was learned.

With ``z = A x`` the kernel ``exp(-gamma ||z - z'||^2)`` is ``exp(-gamma (x - x')' M (x - x'))``, ``M = A'A``.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.linalg import pinvh
from scipy.sparse import issparse
from threadpoolctl import ThreadpoolController

from pegasos import _core
from pegasos._data import Data, as_data, with_stored

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Limits of others' threads are put back as they were found: not by two at a time.
_limiting = Lock()


def _anew() -> None:
    """In a forked child, where nobody is left to open it."""
    global _limiting
    _limiting = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_anew)


@contextmanager
def one_thread() -> Iterator[None]:
    """For what NumPy and SciPy compute: their products have other last bits on more threads."""
    with _limiting, _libraries().limit(limits=1):
        yield


@cache
def _libraries() -> ThreadpoolController:
    """Those that NumPy and SciPy have loaded. To look for them takes milliseconds."""
    # Of no others, whose limits would be put back too.
    return ThreadpoolController().select(user_api="blas")


@dataclass(frozen=True)
class Metric:
    """A linear map of rows: factors of the features, (n_features,), or a matrix A, (dimension, n_features)."""

    map: np.ndarray
    #: What is to say of the scale of the features that it was learned from.
    advice: str | None = None
    #: What maps rows, by their dtype: made when first asked for.
    _compiled: dict[str, _core.Metric] = field(default_factory=dict, repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return Metric, (self.map, self.advice)

    @property
    def diagonal(self) -> bool:
        return self.map.ndim == 1

    @property
    def dimension(self) -> int:
        return len(self.map)

    @property
    def squared(self) -> np.ndarray:
        """M: its diagonal, (n_features,), or all of it."""
        if self.diagonal:
            found: np.ndarray = self.map**2
            return found
        with one_thread():
            return self.map.T @ self.map

    def times(self, factor: float) -> Metric:
        """One of longer distances."""
        return Metric(self.map * factor, self.advice)

    def compiled(self, data: Data) -> _core.Metric:
        """What maps rows of such a dtype."""
        dtype = data.X.dtype.name
        if dtype not in self._compiled:
            # One that was pickled may begin at any byte.
            values = np.require(self.map, requirements=["C", "A"]).ravel()
            self._compiled[dtype] = _core.Metric(values, self.map.shape[-1], self.diagonal, dtype)
        return self._compiled[dtype]

    def mapped(self, data: Data, threads: int) -> Data:
        """The examples, mapped."""
        found = self.compiled(data).map(data.examples, threads=threads)
        stored = issparse(data.X) and self.diagonal
        X = with_stored(data.X, found) if stored else found.reshape(data.n, self.dimension)
        return as_data(X, data.codes, data.weight)

    def preimages(self, vectors: Any) -> Any:
        """Vectors of features that are mapped to these, the shortest ones."""
        if self.diagonal:
            inverse = np.divide(1.0, self.map, out=np.zeros_like(self.map), where=self.map != 0.0)
            found = vectors.multiply(inverse).tocsr() if issparse(vectors) else vectors * inverse
        else:
            with one_thread():
                # A A' is as small as A is flat.
                found = vectors @ pinvh(self.map @ self.map.T) @ self.map
        return found.astype(vectors.dtype)


class Learned(NamedTuple):
    """What there is to know after the rounds: no metric for the plain one."""

    metric: Metric | None
    #: 1/(alpha n) of the best machine, where somebody has asked for it.
    c: float | None
    #: An entry for each machine that was tried.
    path: dict[str, np.ndarray]
