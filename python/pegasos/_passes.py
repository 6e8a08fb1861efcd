"""Passes over a source: how many, in which order, and from where on. `stream` is the public face of it."""

from __future__ import annotations

import operator
import secrets
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pegasos._sources import Batch, Source, cut, open_source, without_first

if TYPE_CHECKING:
    from pegasos._sources import Origin

#: Batches of a window, if nobody says how many rows it has.
_WINDOW = 10


def passes(
    source: Source,
    size: int,
    *,
    n_passes: int = 1,
    window: int | None = None,
    seed: int = 0,
    skip: int = 0,
) -> Iterator[Batch]:
    """Batches of ``size`` rows of so many passes, the last of a pass perhaps of fewer.

    Parameters
    ----------
    source : Source
        What to pass over.
    size : int
        The number of rows of a batch.
    n_passes : int, default=1
        The number of passes.
    window : int or None, default=None
        So many rows are shuffled at a time; None for the order of the source. A source that can be read from anywhere
        (``source.run``) fills windows with runs of rows from all over it.
    seed : int, default=0
        Which order: it depends on the seed, the number of the pass, and the rows that there are.
    skip : int, default=0
        How many rows, of all passes together, are left out at the beginning. Where these are all batches so far of
        another run, what comes is what would have come in that run.

    Yields
    ------
    X, y : batch
        As of the source.
    """
    for number in range(n_passes):
        if source.n_rows is not None and skip >= source.n_rows:
            skip -= source.n_rows
            continue
        if window is None:
            yield from source.batches(size, skip)
        else:
            yield from cut(_windows(source, window, [seed, number], skip), size)
        skip = max(0, skip - (source.n_rows or 0))


def _windows(source: Source, window: int, key: list[int], skip: int) -> Iterator[Batch]:
    """A pass in windows of shuffled rows, without the first ``skip`` rows."""
    if source.run is not None:
        source.prepare()
    if source.run is None:
        begin = skip // window
        found: Iterable[Batch] = source.batches(window, begin * window)
        skip -= begin * window
    else:
        found, begin, skip = _of_runs(source, source.run, window, key, skip)
    shuffled = (_shuffled(X, y, [*key, 1, place]) for place, (X, y) in enumerate(found, begin))
    yield from without_first(shuffled, skip)


def _of_runs(
    source: Source, run: int, window: int, key: list[int], skip: int
) -> tuple[Iterator[Batch], int, int]:
    """Windows of runs in an order of their own, the first of them that is needed, and what to leave out of that."""
    assert source.n_rows is not None
    first = np.arange(0, source.n_rows, run)
    first = first[_random([*key, 0]).permutation(len(first))]
    each = -(-window // run)
    ends = np.cumsum(np.minimum(first + run, source.n_rows) - first)
    # The last run may be short, and stands anywhere.
    begin = int(np.searchsorted(ends, skip, side="right")) // each
    before = int(ends[begin * each - 1]) if begin else 0
    source.read_bytes = 0
    found = (source.take(first[k : k + each]) for k in range(begin * each, len(first), each))
    return found, begin, skip - before


def _shuffled(X: Any, y: Any, key: list[int]) -> Batch:
    order = _random(key).permutation(X.shape[0])
    # SciPy looks at row bounds here, which are sound, and not at indices.
    return X[order], None if y is None else y[order]


def _random(key: list[int]) -> np.random.RandomState:
    """Random numbers that are a function of the key, whatever the version of NumPy: its generators may change."""
    return np.random.RandomState(np.random.MT19937(np.random.SeedSequence(key)))


def stream(
    source: Origin,
    batch_size: int = 1000,
    *,
    label: str | int | None = -1,
    format: str | None = None,
    dtype: Any = np.float64,
    n_features: int | None = None,
    zero_based: bool | Literal["auto"] = "auto",
    passes: int = 1,
    shuffle: bool | int = False,
    random_state: Any = None,
    skip: int = 0,
    n_jobs: int | None = None,
) -> Iterator[tuple[Any, Any]]:
    """Read examples in batches, in constant memory: for ``partial_fit``."""
    size, n_passes, window = count("batch_size", batch_size), count("passes", passes), _window(shuffle, batch_size)
    rows = count("skip", skip, least=0)
    found = open_source(
        source, label=label, format=format, dtype=dtype, n_features=n_features, zero_based=zero_based, n_jobs=n_jobs
    )
    if n_passes > 1 and not found.repeatable:
        raise ValueError(f"{found.name} can be read once, passes must be 1, got {passes}")
    return _passes(found, size, n_passes=n_passes, window=window, seed=_seed(random_state), skip=rows)


_passes = passes


def count(name: str, value: Any, least: int = 1) -> int:
    """A number of rows or passes."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an int, got {value!r}") from None
    if not least <= number < 2**63:
        raise ValueError(f"{name} must be at least {least} and less than 2**63, got {number}")
    return number


def _window(shuffle: bool | int, size: int) -> int | None:
    """The rows of a window; None where nothing is shuffled."""
    if isinstance(shuffle, bool | np.bool_):
        return _WINDOW * size if shuffle else None
    return count("shuffle", shuffle)


def _seed(random_state: Any) -> int:
    """A seed, of 64 bits unless it was given."""
    if random_state is None:
        return secrets.randbits(64)
    if hasattr(random_state, "randint"):
        return int(random_state.randint(2**31))
    return count("random_state", random_state, least=0)
