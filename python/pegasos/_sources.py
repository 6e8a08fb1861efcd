"""Examples of one origin, batch after batch: what all kinds of origins have in common, and pairs of any iterable.

`open_source` knows the kinds: svmlight text (`_svmlight`), CSV (`_csv`), arrays of NumPy and SciPy (`_arrays`), what
pyarrow reads (`_arrow`). `_passes` goes over a source, several times, in order or shuffled; `_cache` keeps one in a
file.
"""

from __future__ import annotations

import operator
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from pegasos._files import Path

#: Features, an array or a CSR matrix, and labels; None where there are none.
Batch: TypeAlias = tuple[Any, Any]

#: What examples can come from, beside a source.
Origin: TypeAlias = "Path | Iterable[Any] | Callable[[], Iterable[Any]]"


class Misjudged(Exception):
    """A guess about the origin was wrong; the next will not be."""


class Source(ABC):
    """Examples of one origin, batch after batch, as often as they are asked for.

    One pass at a time: ``read_bytes`` is that of the last that began.
    """

    #: The size of the origin as it is read, packed bytes for a packed file; None where nobody knows.
    n_bytes: int | None = None
    #: How much of that the running pass has read.
    read_bytes: int = 0
    #: The number of rows; None as long as nobody has read them all.
    n_rows: int | None = None
    #: The names of the features, where the origin has such and nothing hashes them; known once it is prepared.
    names: list[str] | None = None
    #: Whether there may be a second pass.
    repeatable: bool = True
    #: Whether another thread may read what comes next.
    may_be_ahead: bool = True
    #: Whether labels are ints in batches where they are whole numbers, and floats in others.
    labels_vary: bool = False
    #: So many rows, from a multiple of it on, can be read from anywhere (`take`); None where there is but one order.
    run: int | None = None

    def __init__(self, name: str) -> None:
        #: What messages call the origin.
        self.name = name
        self._n_features: int | None = None

    @property
    def n_features(self) -> int:
        """The number of features of every batch; found first if nothing but the rows tells."""
        if self._n_features is None:
            self.prepare()
        assert self._n_features is not None
        return self._n_features

    def prepare(self, report: Callable[[], None] = lambda: None) -> None:
        """Finds what has to be known before the first batch; a second time for nothing.

        It may take a pass over the origin. ``report`` is then called now and then, with ``read_bytes`` as it grows.
        """

    def batches(self, size: int, skip: int = 0) -> Generator[Batch, None, None]:
        """A pass: batches of ``size`` rows, the last perhaps of fewer, without the first ``skip`` rows."""
        self.prepare()
        self.read_bytes = 0
        with closing(self._pieces(skip)) as pieces:  # type: ignore[type-var]
            yield from cut(pieces, size)

    def unsurveyed(self, size: int) -> Iterator[Batch]:
        """A pass as the first, for which no other is made where one will do: ``n_features`` is right when it ends.

        `Misjudged` is raised where what was taken for granted is wrong: the pass is to be made again.
        """
        return self.batches(size)

    @abstractmethod
    def _pieces(self, skip: int) -> Iterator[Batch]:
        """A pass in pieces of any size. When it ends, ``n_rows`` is known."""

    def begin(self, skip: int) -> None:
        """A pass by `take` begins, behind so many rows."""

    def take(self, first: np.ndarray) -> Batch:
        """The runs that begin at these rows, in this order, one below the other; where ``run`` is not None."""
        raise NotImplementedError


def count(name: str, value: Any, least: int = 1) -> int:
    """A number of rows, features or passes."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an int, got {value!r}") from None
    if not least <= number < 2**63:
        raise ValueError(f"{name} must be at least {least} and less than 2**63, got {number}")
    return number


def name_of(dtype: Any) -> str:
    """The name of a dtype of features."""
    try:
        name = np.dtype(dtype).name
    except TypeError:
        name = ""
    if name not in ("float32", "float64"):
        raise ValueError(f"dtype must be float64 or float32, got {dtype!r}")
    return name


def place_of(label: Any) -> str | int | None:
    """Where labels are: the name of a column or a path, the number of a column, or None."""
    if label is None or isinstance(label, str):
        return label
    if isinstance(label, os.PathLike):
        return os.fspath(label)
    try:
        return operator.index(label)
    except TypeError:
        raise TypeError(f"label must be the name of a column, its number, or None, got {label!r}") from None


def named(columns: Any) -> list[str] | None:
    """The names of the columns that are to be features; None for all but the label's."""
    if columns is None:
        return None
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise TypeError(f"columns must be a list of names, got {columns!r}")
    names = list(columns)
    for name, times in Counter(names).items():
        if not isinstance(name, str):
            raise TypeError(f"columns must be a list of names, got {name!r} among them")
        if times > 1:
            raise ValueError(f"columns must name each column once, got {name!r} {times} times")
    if not names:
        raise ValueError("columns must name one column at least, got none")
    return names


def features_of(columns: list[str] | None, names: list[str], label: int | None) -> list[int]:
    """Where features stand in a table with columns of these names: those that are asked for, or all but the label."""
    if columns is None:
        return [k for k in range(len(names)) if k != label]
    times, places = Counter(names), {name: k for k, name in enumerate(names)}
    for name in columns:
        if times[name] != 1:
            raise ValueError(f"it has {times[name]} columns {name!r}; it has {', '.join(names)}")
    if label is not None and names[label] in columns:
        raise ValueError(
            f"column {names[label]!r} holds the labels, it cannot be among columns; where there are no labels, label "
            "must be None"
        )
    return [places[name] for name in columns]


def part(X: Any, start: int, stop: int) -> Any:
    """Rows from ``start`` to ``stop``, which share what they can with the others."""
    if isinstance(X, np.ndarray):
        return X[start:stop]
    if start == 0 and stop == X.shape[0]:
        return X
    first, last = X.indptr[start], X.indptr[stop]
    return matrix(X.data[first:last], X.indices[first:last], X.indptr[start : stop + 1] - first, X.shape[1])


def matrix(data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, n_features: int) -> Any:
    """A CSR matrix of rows that ascend, at which SciPy does not look."""
    from scipy.sparse import csr_matrix

    X = csr_matrix((len(indptr) - 1, n_features), dtype=data.dtype)
    X.data, X.indices, X.indptr = data, indices, indptr
    X.has_sorted_indices = X.has_canonical_format = True
    return X


def ascending(data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, n_features: int) -> Any:
    """A CSR matrix of arrays that nobody else has; entries of a row may be in any order, their columns are all there."""
    from scipy.sparse import csr_matrix

    # As SciPy would have them.
    wide = max(n_features, len(data)) > np.iinfo(np.int32).max
    index = np.int64 if wide else np.int32
    indices, indptr = indices.astype(index, copy=False), indptr.astype(index, copy=False)
    X = csr_matrix((data, indices, indptr), shape=(len(indptr) - 1, n_features))
    X.sum_duplicates()
    return X


def whole_labels(labels: Any) -> Any:
    """The labels, as ints if they are whole numbers."""
    if labels is None or labels.dtype != np.float64:
        return labels
    is_whole = np.all(np.abs(labels) < 2**53) and np.all(labels == np.trunc(labels))
    return labels.astype(np.int64) if is_whole else labels


def stacked(parts: list[Batch]) -> Batch:
    """Batches one below the other."""
    if len(parts) == 1:
        return parts[0]
    matrices = [X for X, _ in parts]
    labels = None if parts[0][1] is None else np.concatenate([y for _, y in parts])
    if isinstance(matrices[0], np.ndarray):
        return np.concatenate(matrices), labels
    ends = np.cumsum([0, *(len(X.data) for X in matrices)])
    wide = ends[-1] > np.iinfo(np.int32).max or any(X.indices.dtype == np.int64 for X in matrices)
    index = np.int64 if wide else np.int32
    indptr = [np.zeros(1, index), *(X.indptr[1:] + index(end) for X, end in zip(matrices, ends, strict=False))]
    indices = np.concatenate([X.indices for X in matrices])
    data = np.concatenate([X.data for X in matrices])
    pointers = np.concatenate(indptr).astype(index, copy=False)
    return matrix(data, indices.astype(index, copy=False), pointers, matrices[0].shape[1]), labels


def cut(pieces: Iterable[Batch], size: int) -> Iterator[Batch]:
    """The same rows in batches of ``size``, the last perhaps of fewer."""
    held: list[Batch] = []
    n_held = 0
    for X, y in pieces:
        start, n = 0, X.shape[0]
        while n_held + n - start >= size:
            stop = start + size - n_held
            held.append((part(X, start, stop), None if y is None else y[start:stop]))
            yield stacked(held)
            held, n_held, start = [], 0, stop
        if start < n:
            held.append((part(X, start, n), None if y is None else y[start:n]))
            n_held += n - start
    if held:
        yield stacked(held)


def without_first(pieces: Iterable[Batch], skip: int) -> Iterator[Batch]:
    """The same without the first ``skip`` rows."""
    for X, y in pieces:
        n = X.shape[0]
        if skip < n:
            yield (X, y) if skip == 0 else (part(X, skip, n), None if y is None else y[skip:])
        skip = max(0, skip - n)


class Pairs(Source):
    """Pairs ``(X, y)`` of an iterable, or of the fresh iterable that a callable returns for each pass.

    An iterator can be read once. Matrices may have any number of rows, and are made arrays or CSR matrices of
    ``dtype``.
    """

    #: Programs of others may mind in which thread they are called.
    may_be_ahead = False

    def __init__(
        self,
        origin: Iterable[Any] | Callable[[], Iterable[Any]],
        *,
        dtype: Any = np.float64,
        n_features: int | None = None,
    ) -> None:
        super().__init__(f"the {type(origin).__name__} of batches")
        self._origin, self._dtype = origin, np.dtype(dtype)
        self._n_features = None if n_features is None else count("n_features", n_features)
        self.repeatable = callable(origin) or iter(origin) is not origin
        self._n_begun = 0
        #: What was looked at before the first pass: the first pair, and the iterator behind it.
        self._begun: tuple[list[Any], Iterator[Any]] | None = None
        #: Whether rows are sparse, and labels are texts; None before the first pair.
        self._kind: tuple[bool, bool | None] | None = None

    def prepare(self, report: Callable[[], None] = lambda: None) -> None:
        if self._n_features is not None:
            return
        rows = self._iterator()
        first: list[Any] = []
        for pair in rows:
            first.append(pair)
            if (X := self._batch(pair, 1)[0]).shape[0]:
                self._n_features = X.shape[1]
                break
        self._begun = first, rows
        if self._n_features is None:
            raise ValueError(f"{self.name} holds no examples")

    def _iterator(self) -> Iterator[Any]:
        if not self.repeatable and self._n_begun:
            raise ValueError(
                f"{self.name} can be read once, and was; for several passes give a list, or a function that returns a "
                "fresh iterator each time"
            )
        self._n_begun += 1
        found = self._origin() if callable(self._origin) else self._origin
        if not isinstance(found, Iterable):
            raise TypeError(f"{self.name} must return an iterable of pairs (X, y), got {found!r}")
        return iter(found)

    def _pieces(self, skip: int) -> Iterator[Batch]:
        first, rows = self._begun or ([], self._iterator())
        self._begun = None
        yield from without_first(self._checked(first, rows), skip)

    def _checked(self, first: list[Any], rows: Iterator[Any]) -> Iterator[Batch]:
        n, number = 0, 0
        for some in (first, rows):
            for pair in some:
                number += 1
                X, y = self._batch(pair, number)
                n += X.shape[0]
                if X.shape[0]:
                    yield X, y
        self.n_rows = n

    def _batch(self, pair: Any, number: int) -> Batch:
        """The pair of this number, counted from 1, as array or CSR matrix and labels."""
        from scipy.sparse import issparse

        from pegasos._data import from_arrow, sound

        place = f"{self.name}, pair {number}"
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise TypeError(f"{place} must be a tuple (X, y), got {type(pair).__name__}")
        X, y = from_arrow(pair[0], "X"), from_arrow(pair[1], "y")
        try:
            with np.errstate(over="ignore"):
                if issparse(X):
                    # Of arrays of our own, which nobody changes after they were looked at.
                    X = sound(X.copy() if X.format == "csr" else X, [self._dtype])
                else:
                    X = np.asarray(X)
                if X.dtype.kind == "c":
                    raise ValueError("X must hold real numbers, got complex ones")
                if not issparse(X):
                    X = X.astype(self._dtype, copy=False)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{place}: {error}") from error
        if not np.isfinite(X.data if issparse(X) else X).all():
            raise ValueError(f"{place}: X must hold finite numbers, none too large for {self._dtype}")
        y = None if y is None else np.asarray(y)
        if y is not None and y.dtype.kind == "f" and not np.isfinite(y).all():
            raise ValueError(f"{place}: y must hold finite numbers")
        if X.ndim != 2:
            raise ValueError(f"{place}: X must have 2 dimensions, got an array of shape {X.shape}")
        if y is not None and y.shape != (X.shape[0],):
            raise ValueError(f"{place}: y must have shape ({X.shape[0]},) as X has {X.shape[0]} rows, got {y.shape}")
        if X.shape[0] and self._n_features is not None and X.shape[1] != self._n_features:
            raise ValueError(f"{place}: X must have {self._n_features} features, got {X.shape[1]}")
        if not X.shape[0]:
            return X, y
        kind = issparse(X), None if y is None else y.dtype.kind in "UTO"
        if self._kind is None:
            self._kind = kind
        if kind[0] != self._kind[0]:
            raise ValueError(f"{place}: X is {_words(kind[0])}, those before are {_words(self._kind[0])}")
        if kind[1] != self._kind[1]:
            raise ValueError(f"{place}: y must be as those before: numbers, strings, or None in all pairs")
        if not kind[0]:
            return X, y
        data, indices, indptr = X.data, X.indices, X.indptr
        if len(indices) and not 0 <= indices.min() <= indices.max() < X.shape[1]:
            bad = indices[(indices < 0) | (indices >= X.shape[1])][0]
            raise ValueError(f"{place}: X has no column {bad}, it has {X.shape[1]}")
        return ascending(data, indices, indptr, X.shape[1]), y


def is_arrow(origin: Any) -> bool:
    """Whether this is a table or a dataset of pyarrow."""
    return type(origin).__module__.split(".")[0] == "pyarrow" and hasattr(origin, "schema")


def _words(sparse: bool) -> str:
    return "sparse" if sparse else "dense"


#: The formats of files, and the endings that tell them; any other ending is svmlight's.
FORMATS = {
    "svmlight": (".svm", ".svmlight", ".libsvm", ".txt"),
    "csv": (".csv",),
    "tsv": (".tsv",),
    "npy": (".npy",),
    "npz": (".npz",),
    "parquet": (".parquet", ".pq"),
    "arrow": (".arrow", ".feather", ".ipc"),
}


def format_of(path: Path) -> str:
    """The format of a file by its ending; of a folder that of its first file, if it is Parquet or Arrow."""
    if not os.path.isdir(path):
        name = os.fspath(path).lower().removesuffix(".gz").removesuffix(".bz2")
        return next((format for format, endings in FORMATS.items() if name.endswith(endings)), "svmlight")
    for folder, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            if not name.startswith((".", "_")):
                format = format_of(os.path.join(folder, name))
                return format if format in ("parquet", "arrow") else "svmlight"
    return "svmlight"


def open_source(
    origin: Origin | Source,
    *,
    label: Any = -1,
    columns: Any = None,
    format: str | None = None,
    dtype: Any = np.float64,
    n_features: int | None = None,
    zero_based: bool | Literal["auto"] = "auto",
    hashing: Any = None,
    cache: bool | Path | None = None,
    n_jobs: int | None = None,
) -> Source:
    """The source of a path, an iterable of pairs, or a callable that returns such iterables.

    Parameters as for `pegasos.io.stream`. Arguments are checked at once, the file is opened when it is needed.
    """
    if isinstance(origin, Source):
        return origin
    if format not in (None, *FORMATS):
        raise ValueError(f"format must be one of {', '.join(FORMATS)} or None, got {format!r}")
    name_of(dtype)
    if isinstance(origin, str | os.PathLike):
        kind = format or format_of(origin)
    elif is_arrow(origin):
        kind = "arrow"
    elif callable(origin) or isinstance(origin, Iterable):
        kind = "pairs"
    else:
        raise TypeError(
            f"source must be a path, an iterable of pairs (X, y), or a function that returns one, got {origin!r}"
        )
    check_goes_with(
        kind,
        n_features=n_features is not None,
        zero_based=zero_based != "auto",
        columns=columns is not None,
        hashing=hashing is not None,
    )
    columns, label = named(columns), place_of(label)
    found = _opened(kind, origin, label, columns, dtype, n_features, zero_based, hashing, n_jobs)
    if isinstance(cache, bool | np.bool_):
        cache = True if cache else None
    if cache is None:
        return found
    if cache is not True and not isinstance(cache, str | os.PathLike):
        raise TypeError(f"cache must be True, False, None or a path, got {cache!r}")
    from pegasos._cache import CachedSource

    if not isinstance(origin, str | os.PathLike) or not found.repeatable:
        raise ValueError(f"cache must be None for {found.name}: nothing tells when it has become another")
    # The name "2" is another column than the number, and "None" is one. Of a path the file is looked at.
    key = {"label": str(label) if kind == "npy" else repr(label), "format": kind, "dtype": np.dtype(dtype).name}
    key |= {"n_features": str(n_features), "zero_based": str(zero_based)}
    if columns is not None:
        key["columns"] = str(columns)
    if hashing is not None:
        from pegasos._hashing import Hasher

        key["hashing"] = Hasher(hashing, dtype).describe()
    return CachedSource(found, origin, None if cache is True else cache, key)


def _opened(
    kind: str,
    origin: Any,
    label: Any,
    columns: list[str] | None,
    dtype: Any,
    n_features: int | None,
    zero_based: bool | Literal["auto"],
    hashing: Any,
    n_jobs: int | None,
) -> Source:
    if kind == "pairs":
        return Pairs(origin, dtype=dtype, n_features=n_features)
    if kind == "svmlight":
        from pegasos._svmlight import SvmlightSource

        return SvmlightSource(
            origin, label=label, dtype=dtype, n_features=n_features, zero_based=zero_based, n_jobs=n_jobs
        )
    if kind in ("npy", "npz"):
        from pegasos._arrays import ArraySource

        return ArraySource(origin, label=label, dtype=dtype)
    hasher = None
    if hashing is not None:
        from pegasos._hashing import Hasher

        hasher = Hasher(hashing, dtype)
    if kind in ("csv", "tsv"):
        from pegasos._csv import CsvSource

        delimiter = "," if kind == "csv" else "\t"
        return CsvSource(origin, delimiter=delimiter, label=label, columns=columns, dtype=dtype, hasher=hasher)
    from pegasos._arrow import ArrowSource

    format = "parquet" if kind == "parquet" else "ipc"
    return ArrowSource(origin, format=format, label=label, columns=columns, dtype=dtype, hasher=hasher)


_TABLES = ("csv", "tsv", "parquet", "arrow")

#: Of what kinds of sources parameters tell what these do not tell themselves.
_GOES_WITH = {"n_features": ("svmlight", "pairs"), "zero_based": ("svmlight",), "columns": _TABLES, "hashing": _TABLES}


def check_goes_with(kind: str, **given: bool) -> None:
    """Refuses parameters that are given where the kind of source has no use for them."""
    for name in (name for name, is_given in given.items() if is_given):
        if kind not in _GOES_WITH[name]:
            raise ValueError(f"{name} goes with {', '.join(_GOES_WITH[name])}, not with {kind}, which tells it")
