"""Grids of gammas and alphas, and how a search climbs on them to the best cross-validated score."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import issparse

from pegasos._data import Data, as_data, rows_of
from pegasos._search import Key, Search

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: By what part of itself the best score must be better than that of the next larger alpha for a smaller one to be tried:
#: the smaller, the longer it takes.
_GAIN = 2e-3

#: Pairs of rows whose distances are looked at; and how small their squares may be, so that all gammas around are finite.
_PAIRS = 2000
_SMALLEST = 1e-300


@dataclass
class Axis:
    """Values of a parameter, by number: those that were asked for, or those of a grid."""

    values: list[float] | None
    of: Callable[[int], float]
    first: int
    last: int

    @classmethod
    def asked(cls, name: str, values: Any, of: Callable[[int], float], first: int, last: int) -> Axis:
        """Of a parameter that may be "auto"."""
        if isinstance(values, str):
            return cls(None, of, first, last)
        try:
            found = np.unique(np.atleast_1d(np.asarray(values, float)))[::-1]
        except (OverflowError, TypeError, ValueError):
            found = np.empty(0)
        if np.ndim(values) > 1 or not found.size or not (np.isfinite(found) & (found > 0)).all():
            raise ValueError(f"{name} must be 'auto', or numbers > 0 and finite, got {values!r}")
        return cls(found.tolist(), of, first, last)

    def start(self, numbers: Iterable[int]) -> list[int]:
        """Where a search begins: everywhere, if somebody has said where."""
        if self.values is not None:
            return list(range(len(self.values)))
        return [i for i in numbers if self.first <= i <= self.last]

    def around(self, i: int, step: int) -> list[int]:
        """A number and its neighbours."""
        if self.values is not None:
            return [i]
        return [k for k in (i - step, i, i + step) if self.first <= k <= self.last]

    def down_to(self, least: float) -> Axis:
        """The axis without what is smaller, of a grid of alphas."""
        if self.values is not None:
            return self
        last = max(j for j in range(self.first, self.last + 1) if self.of(j) >= least)
        return Axis(None, self.of, self.first, last)

    def shifted(self, j: int, times: float) -> int:
        """The number of an alpha that is weaker by so much: of so many more rows, C stays."""
        if self.values is not None:
            return j
        return min(self.last, j + round(2.0 * np.log10(times)))

    def __getitem__(self, i: int) -> float:
        return self.of(i) if self.values is None else self.values[i]


def climb(
    search: Search,
    folds: Iterable[int],
    gammas: Axis,
    alphas: Axis,
    numbers: Iterable[tuple[int, int]],
    step: int,
    slack: float = 0.0,
    *,
    up: bool = False,
) -> tuple[int, int]:
    """From these numbers of gammas and alphas to a place that is better than all around it, by the mean over some folds.

    With ``slack`` what is worse than the best by no more than such a part of it counts as well: of these it is the place with
    the largest alpha, and the best of them. ``up`` looks at narrower kernels only, not at wider ones.
    """
    folds, wanted, tried = list(folds), set(numbers), set[tuple[int, int]]()
    while wanted - tried:
        by_gamma: dict[int, list[float]] = {}
        for i, j in sorted(wanted - tried):
            by_gamma.setdefault(i, []).append(alphas[j])
        search.run([(gammas[i], k, some) for i, some in by_gamma.items() for k in folds])
        tried |= wanted
        means = {(i, j): search.mean(Key(gammas[i], alphas[j]), folds) for i, j in tried}
        best = max(means.values())
        least = best - slack * abs(best)
        # Alphas are in descending order, gammas that were asked for too, others in ascending order.
        narrower = 1 if gammas.values else -1
        good = [place for place in tried if means[place] >= least]
        i, j = max(good, key=lambda place: (-place[1] * (slack > 0.0), means[place], -place[1], narrower * place[0]))
        near = alphas.around(j, step)
        if means[i, j] - means.get((i, j - step), -np.inf) <= _GAIN * abs(best):
            near = [k for k in near if k <= j]
        wanted = set(product([k for k in gammas.around(i, step) if k >= i or not up], near))
    return i, j


def places_around(gammas: Axis, alphas: Axis, place: tuple[int, int], step: int) -> list[tuple[int, int]]:
    """A place and what is around it; all that was asked for."""
    i, j = place
    return list(product(gammas.start(gammas.around(i, step)), alphas.start(alphas.around(j, step))))


def alpha_of(j: int) -> float:
    """That of a number of a grid: half decades."""
    return float(10.0 ** (-j / 2))


def middle_gamma(data: Data, kernel: str, seed: int) -> float:
    """One over the median squared distance of two rows; over the median squared norm for kernels of products."""
    random = np.random.RandomState(seed)
    first, second = (rows_of(data.X, random.randint(data.n, size=_PAIRS)) for _ in range(2))
    for rows in (first, second):
        # Copies, which nobody else can change any more.
        as_data(rows).examples.check()
    apart = first if kernel in ("poly", "sigmoid") else first - second
    if issparse(apart):
        squares = np.asarray(apart.multiply(apart).sum(axis=1), float).ravel()
    else:
        squares = np.einsum("ij,ij->i", apart, apart, dtype=np.float64)
    size = float(np.median(squares)) or float(squares.mean())
    if 0.0 < size < _SMALLEST:
        raise ValueError(
            "X must be of a scale at which 1 over the squared distances of rows is finite, got distances of "
            f"{np.sqrt(size):.2g}; scale the features (StandardScaler)"
        )
    return 1.0 / size if size > 0.0 else 1.0
