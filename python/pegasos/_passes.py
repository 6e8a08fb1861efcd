"""Passes over a source: how many, in which order, and from where on. `stream` is the public face of it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pegasos._sources import Batch, Source, count, cut, open_source, whole_labels, without_first
from pegasos._threads import thread_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pegasos._files import Path
    from pegasos._hashing import Hashing
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
    ahead: bool = False,
) -> Generator[Batch, None, None]:
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
    ahead : bool, default=False
        Whether a thread of its own takes care of the next batch while there is something to do with this one.

    Yields
    ------
    X, y : batch
        As of the source.
    """
    begun, batches = os.getpid(), _in_turn(source, size, n_passes, window, seed, skip)
    thread = ThreadPoolExecutor(1) if ahead else None
    try:
        coming = thread.submit(next, batches, None) if thread else None
        while (batch := coming.result() if coming else next(batches, None)) is not None:
            if thread:
                coming = thread.submit(next, batches, None)
            yield batch
            if os.getpid() != begun and source.may_be_ahead:
                # The thread is its parent's, and so is the place in the file.
                raise RuntimeError(f"{source.name}: a forked process cannot go on with batches of its parent; begin them there")
    finally:
        if os.getpid() == begun:
            if thread:
                thread.shutdown()
            batches.close()


def _in_turn(
    source: Source, size: int, n_passes: int, window: int | None, seed: int, skip: int
) -> Generator[Batch, None, None]:
    source.prepare()
    n_rows = source.n_rows
    for number in range(n_passes):
        if source.n_rows is not None and skip >= source.n_rows:
            skip -= source.n_rows
            continue
        if window is None:
            yield from source.batches(size, skip)
        else:
            for X, y in cut(_windows(source, window, [seed, number], skip), size):
                yield X, whole_labels(y) if source.labels_vary else y
        if n_rows is not None and source.n_rows != n_rows:
            raise ValueError(f"{source.name} was changed while it was read: it has {source.n_rows} rows now, and had {n_rows}")
        n_rows = source.n_rows
        skip = max(0, skip - (source.n_rows or 0))


def _windows(source: Source, window: int, key: list[int], skip: int) -> Iterator[Batch]:
    """A pass in windows of shuffled rows, without the first ``skip`` rows."""
    if source.run is not None:
        # Of whole runs.
        window = -(-window // source.run) * source.run
    begin = skip // window
    found: Iterator[Batch] = source.batches(window, begin * window)
    if source.run is not None:
        found = _of_runs(source, source.run, window, key, begin)
    shuffled = (_shuffled(X, y, [*key, 1, place]) for place, (X, y) in enumerate(found, begin))
    yield from without_first(shuffled, skip - begin * window)


def _of_runs(source: Source, run: int, window: int, key: list[int], begin: int) -> Iterator[Batch]:
    """Windows of runs in an order of their own, without the first ``begin`` of them; a run that is short is the last."""
    assert source.n_rows is not None
    order = _random([*key, 0]).permutation(source.n_rows // run)
    first = np.append(order, len(order)) * run if source.n_rows % run else order * run
    source.begin(begin * window)
    each = window // run
    for k in range(begin * each, len(first), each):
        yield source.take(first[k : k + each])


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
    columns: Sequence[str] | None = None,
    format: str | None = None,
    dtype: Any = np.float64,
    n_features: int | None = None,
    zero_based: bool | Literal["auto"] = "auto",
    hashing: Hashing | None = None,
    cache: bool | Path | None = None,
    passes: int = 1,
    shuffle: bool | int = False,
    random_state: Any = None,
    skip: int = 0,
    n_jobs: int | None = None,
) -> Iterator[tuple[Any, Any]]:
    """Read examples in batches, in constant memory: for ``partial_fit``.

    The ending of a path tells its format: ``.svm``, ``.svmlight``, ``.libsvm``, ``.txt`` and any that is not known
    are svmlight text, others are ``.csv``, ``.tsv``, ``.npy``, ``.npz``, ``.parquet``, ``.pq``, ``.arrow``,
    ``.feather``, ``.ipc``, and folders of the last five. Text may be packed (``.gz``, ``.bz2``).

    Parameters
    ----------
    source : str, path-like, iterable or callable
        A file or a folder; "-" for svmlight text from the standard input. Or an iterable of pairs ``(X, y)`` of any
        numbers of rows, ``y`` None where there are no labels; a callable that returns a fresh one for each pass; a
        table or a dataset of pyarrow.
    batch_size : int, default=1000
        The number of rows of a batch; the last of a pass may have fewer.
    label : str, int or None, default=-1
        Where labels are. Of CSV, TSV, Parquet and Arrow the column, by its name or number, counted from 0, or from
        the end if negative. Of a ``.npy`` file the number of a column, or the path of another ``.npy`` file. In
        svmlight and ``.npz`` files they have a place of their own. None for no labels: ``y`` is None.
    columns : sequence of str, default=None
        The columns of a Parquet or Arrow table, or of a CSV or TSV file with a header, that are features, by their names
        and in this order. What the others hold, but for the label, does not matter. None for all but the label's.
    format : {"svmlight", "csv", "tsv", "npy", "npz", "parquet", "arrow"}, default=None
        The format, whatever the ending of the path.
    dtype : {float64, float32}, default=float64
        The type of the values; of svmlight text the nearest numbers to what is written.
    n_features : int or None, default=None
        The number of features of every batch, of svmlight text and pairs; others tell. None for as many as an
        svmlight file has: it is read twice, the first time for that, unless there is a ``cache``; and for those of
        the first pair.
    zero_based : bool or "auto", default="auto"
        Whether indices of svmlight text count from 0. "auto" as for `load_svmlight`: the file is read twice, too.
    hashing : int, FeatureHasher, HashingVectorizer or None, default=None
        What makes sparse features of strings, for CSV, TSV, Parquet and Arrow. An int is the number of features of a
        FeatureHasher: a row is to it the dict of its columns, of numbers and strings. A HashingVectorizer takes one
        column of texts beside the label. None: strings are an error.
    cache : bool, str, path-like or None, default=None
        Where to keep the rows of a file in binary form: True for the path of the source with ``.pegasos-cache``
        behind it. Unless it is there it is written first, in one pass; then batches come from there. One that belongs
        to another size or time of the source, or to other arguments, or is damaged, is written anew, with a warning.
    passes : int, default=1
        How often all rows come.
    shuffle : bool or int, default=False
        Whether rows come in a random order, another for every pass, and how many are mixed at a time; True for ten
        batches. These are neighbours in the source; with ``cache`` they are runs of neighbours from all over it.
    random_state : int, RandomState instance or None, default=None
        The seed of the orders. None for a new one.
    skip : int, default=0
        How many rows to leave out at the beginning, of all passes together: with a ``random_state`` that is an int,
        batches go on where those of another call with the same arguments ended.
    n_jobs : int or None, default=None
        How many threads read svmlight text; as for `load_svmlight`. No row depends on it.

    Yields
    ------
    X : ndarray or csr_matrix of shape (batch_size, n_features)
        Features of the next rows; sparse for svmlight text, sparse ``.npz`` files and pairs, and with ``hashing``.
        Without ``shuffle`` batches, one below the other, are what `read` makes of the same file.
    y : ndarray of shape (batch_size,), or None
        Their labels. Those of svmlight text are int64 if those of the batch are whole numbers, else float64.

    Raises
    ------
    OSError
        The file cannot be read, or the cache not written; FileNotFoundError if there is no file.
    ValueError
        The content is not what the format asks for, a value is missing or not finite, or is a string where nothing is
        hashed: the message names the file, the line or row (counted from 0 where there are no lines) and the column.
        It comes when the place is reached, or before the first batch where the file is read before. Or ``n_features``
        or ``zero_based`` is left open for what cannot be read twice, the standard input and pipes; or there are
        several ``passes`` over that. Or ``columns`` names one that is not there, or twice, or that of the label, or is
        given for what has no names.
    TypeError
        ``source`` is none of these, or ``columns`` no list of names.
    ImportError
        Parquet and Arrow need pyarrow: ``pip install "pegasos[arrow]"``.

    See Also
    --------
    load_svmlight : All rows at once.
    read : All rows of a file at once.

    Notes
    -----
    Memory is that of a batch, or of three windows where rows are shuffled, and a few megabytes; of Parquet also
    that of a row group. Arguments are checked when the function is called, the file is opened when the first batch is
    asked for, and closed behind the last or with the iterator. A process that is forked begins its own. A cache takes
    12 bytes for each stored number of sparse rows in double precision, 8 in single; of dense rows 8 and 4.
    ``docs/streams.md`` has what all this costs.

    Examples
    --------
    >>> import os, tempfile
    >>> from pegasos import PegasosClassifier
    >>> from pegasos.io import stream
    >>> model = PegasosClassifier(random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "many.svm")
    ...     with open(path, "w") as file:
    ...         _ = file.write("+1 1:0.5 3:2\\n-1 2:1\\n" * 500)
    ...     for X, y in stream(path, batch_size=300):
    ...         print(X.shape)
    ...         model = model.partial_fit(X, y, classes=[-1, 1])
    (300, 3)
    (300, 3)
    (300, 3)
    (100, 3)
    >>> model.predict([[0.5, 0, 2], [0, 1, 0]])
    array([ 1, -1])

    Batches of a program of one's own, twice, in random order:

    >>> import numpy as np
    >>> def days():
    ...     for day in range(3):
    ...         yield np.full((2, 1), day), ["calm", "storm"]
    >>> for X, y in stream(days, batch_size=4, passes=2, shuffle=6, random_state=0):
    ...     print(X.ravel(), y)
    [0. 2. 2. 1.] ['calm' 'storm' 'calm' 'calm']
    [1. 0.] ['storm' 'storm']
    [0. 0. 2. 2.] ['calm' 'storm' 'storm' 'calm']
    [1. 1.] ['storm' 'calm']
    """
    size, n_passes, window = count("batch_size", batch_size), count("passes", passes), _window(shuffle, batch_size)
    rows = count("skip", skip, least=0)
    found = open_source(
        source,
        label=label,
        columns=columns,
        format=format,
        dtype=dtype,
        n_features=n_features,
        zero_based=zero_based,
        hashing=hashing,
        cache=cache,
        n_jobs=n_jobs,
    )
    if n_passes > 1 and not found.repeatable:
        raise ValueError(f"{found.name} can be read once, passes must be 1, got {passes}")
    ahead = thread_count(n_jobs) > 1 and found.may_be_ahead
    return _passes(found, size, n_passes=n_passes, window=window, seed=_seed(random_state), skip=rows, ahead=ahead)


#: By the name that `stream` has for a parameter, it cannot be called there.
_passes = passes


def _window(shuffle: bool | int, size: int) -> int | None:
    """The rows of a window; None where nothing is shuffled."""
    if isinstance(shuffle, bool | np.bool_):
        # No more than may be asked for.
        return min(_WINDOW * size, 2**63 - 1) if shuffle else None
    return count("shuffle", shuffle)


def _seed(random_state: Any) -> int:
    """A seed, of 64 bits unless it was given."""
    if random_state is None:
        return secrets.randbits(64)
    if hasattr(random_state, "randint"):
        return int(random_state.randint(2**31))
    return count("random_state", random_state, least=0)
