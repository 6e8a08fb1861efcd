"""Examples from svmlight files: all at once, or in batches.

`arrays` gives what the compiled parser has found, and asks for neither SciPy nor scikit-learn; `load_svmlight` makes a CSR matrix
of it, and `SvmlightSource` yields batches in constant memory.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pegasos._core import Loader, Svmlight
from pegasos._files import is_pipe, naming, opened, position, size_of
from pegasos._sources import Misjudged, Source, count, name_of, whole_labels
from pegasos._threads import thread_count

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from typing import Literal

    from scipy.sparse import csr_matrix

    from pegasos._files import Path
    from pegasos._sources import Batch

__all__ = ["Arrays", "SvmlightSource", "arrays", "load_svmlight"]

#: Bytes that are read at a time: they stay in a core's second cache. For several threads, so many for each.
_BLOCK = 1 << 20


class Arrays(NamedTuple):
    """The rows of a file, as the arrays of a CSR matrix, and their labels."""

    data: np.ndarray
    """The values, of shape (n_stored,), float32 or float64."""
    indices: np.ndarray
    """Their columns, of shape (n_stored,), ascending in each row; int32, or int64 where that does not reach."""
    indptr: np.ndarray
    """Where rows begin and end, of shape (n_samples + 1,), of the dtype of ``indices``."""
    n_features: int
    """The number of columns."""
    labels: np.ndarray
    """The labels, of shape (n_samples,): int64 if all are whole numbers, else float64."""


def arrays(
    path: Path,
    *,
    dtype: Any = np.float64,
    n_features: int | None = None,
    zero_based: bool | Literal["auto"] = "auto",
    n_jobs: int | None = None,
) -> Arrays:
    """Read an svmlight file to plain arrays.

    Parameters
    ----------
    path : str or path-like
        As for `load_svmlight`.
    dtype : {float64, float32}, default=float64
        As for `load_svmlight`.
    n_features : int or None, default=None
        As for `load_svmlight`.
    zero_based : bool or "auto", default="auto"
        As for `load_svmlight`.
    n_jobs : int or None, default=None
        As for `load_svmlight`.

    Returns
    -------
    Arrays
        ``(data, indices, indptr, n_features, labels)``.

    Raises
    ------
    OSError
        The file cannot be read; FileNotFoundError if there is none.
    ValueError
        As for `load_svmlight`.
    MemoryError
        There is no room for the rows.

    See Also
    --------
    load_svmlight : The same as a SciPy matrix.

    Notes
    -----
    Cost as for `load_svmlight`, without SciPy's import.

    Examples
    --------
    >>> import os, tempfile
    >>> from pegasos._svmlight import arrays
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "two.svm")
    ...     with open(path, "w") as file:
    ...         _ = file.write("+1 1:0.5 3:2\\n-1 2:1\\n")
    ...     found = arrays(path)
    >>> found.data, found.indices.tolist(), found.indptr.tolist()
    (array([0.5, 2. , 1. ]), [0, 2, 1], [0, 2, 3])
    >>> found.n_features, found.labels
    (3, array([ 1, -1]))
    """
    threads = thread_count(n_jobs)
    options = name_of(dtype), _base(zero_based), _count("n_features", n_features)
    # Of a packed file the text is longer: arrays then grow as it comes.
    loader = Loader(*options, n_bytes=size_of(path) or 0, threads=threads)
    with naming(path), opened(path) as file, closing(_blocks(file, threads)) as blocks:
        for block in blocks:
            loader.push(block)
        return _with_labels(*loader.finish())


def load_svmlight(
    path: Path,
    *,
    dtype: Any = np.float64,
    n_features: int | None = None,
    zero_based: bool | Literal["auto"] = "auto",
    n_jobs: int | None = None,
) -> tuple[csr_matrix, np.ndarray]:
    """Read an svmlight file, also known as libsvm's format: ``label index:value index:value ...``.

    Parameters
    ----------
    path : str or path-like
        The file to read; decompressed if it ends in ``.gz`` or ``.bz2``. "-" for the standard input.
    dtype : {float64, float32}, default=float64
        The type of the values: each is the nearest number to what is written. With float32 that is nearer, now and then,
        than a float64 that is rounded once more.
    n_features : int or None, default=None
        The number of features, for a file that need not mention the last. None for as many as the largest index asks for,
        and at least one.
    zero_based : bool or "auto", default="auto"
        Whether indices count from 0. "auto": from 1, as the format wants it, unless an index 0 occurs.
    n_jobs : int or None, default=None
        How many threads read, -1 for as many as there are cores. None asks PEGASOS_NUM_THREADS, RAYON_NUM_THREADS and
        OMP_NUM_THREADS, then takes all cores. The result does not depend on it.

    Returns
    -------
    X : csr_matrix of shape (n_samples, n_features)
        The features. Indices are int32, or int64 where those do not reach, and ascend in each row, whatever their order in
        the file.
    y : ndarray of shape (n_samples,)
        The labels: int64 if they are whole numbers, else float64.

    Raises
    ------
    OSError
        The file cannot be read; FileNotFoundError if there is none.
    ValueError
        The file is not in this format, or holds a number that is not finite or too large for the dtype, an index twice in
        a row, a 0 where indices count from 1, one beyond ``n_features``, or a line of more than 16 MB. The message names
        the file, the line, the column (the first byte is 1), what was found, and what would be right.
    MemoryError
        There is no room for the rows.

    See Also
    --------
    pegasos.io.stream : Batches of rows, in constant memory.
    sklearn.datasets.load_svmlight_file : With several labels a row, and the queries' numbers.

    Notes
    -----
    A comment begins with ``#`` and ends with its line; a query's number, ``qid:3``, is passed over, and so is a byte-order mark.
    Lines end with LF or CR LF. Time is linear in the size of the file, memory that of the result and a few megabytes: a
    file that declares a huge index takes no more than another.

    Examples
    --------
    >>> import os, tempfile
    >>> from pegasos.io import load_svmlight
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "two.svm")
    ...     with open(path, "w") as file:
    ...         _ = file.write("+1 1:0.5 3:2\\n-1 2:1\\n")
    ...     X, y = load_svmlight(path)
    >>> X.toarray()
    array([[0.5, 0. , 2. ],
           [0. , 1. , 0. ]])
    >>> y
    array([ 1, -1])
    """
    found = arrays(path, dtype=dtype, n_features=n_features, zero_based=zero_based, n_jobs=n_jobs)
    return _matrix(found), found.labels


#: What is wrong with batches of something that cannot be read twice.
_ONCE = "n_features and zero_based must be given for {}, which cannot be read twice, got None or 'auto'"

#: Rows of a piece, where nobody asks for batches.
_PIECE = 1024


class SvmlightSource(Source):
    """The rows of an svmlight file. What is not said of features and indices takes a pass of its own."""

    labels_vary = True

    def __init__(
        self,
        path: Path,
        *,
        label: Any = -1,
        dtype: Any = np.float64,
        n_features: int | None = None,
        zero_based: bool | Literal["auto"] = "auto",
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(os.fspath(path))
        self._path, self._threads, self._labelled = path, thread_count(n_jobs), label is not None
        self._base, self._dtype = _base(zero_based), name_of(dtype)
        self._n_features = _count("n_features", n_features)
        if label not in (-1, None):
            raise ValueError(f"{self.name}: labels stand first in lines of svmlight text, there is no column {label!r}")
        # Said before anybody opens a pipe: what one reader takes from it, no other gets.
        self.repeatable = self.name != "-" and not is_pipe(path)
        if self.name == "-":
            self._check_known("the standard input")
        self.n_bytes = size_of(path)
        # A pipe gives what there is, and nobody waits for what comes next.
        self.may_be_ahead = self.n_bytes is not None

    def prepare(self, report: Callable[[], None] = lambda: None) -> None:
        if self._base is not None and self._n_features is not None:
            return
        parser = Svmlight(self._dtype, self._base, self._n_features, threads=self._threads)
        n_rows = 0
        with self._blocks() as blocks:
            for block in blocks:
                parser.push(block)
                n_rows += parser.n_rows
                parser.forget()
                report()
            parser.end()
            n_rows += parser.n_rows
            parser.forget()
            _, from_0 = parser.seen()
            # No rows are left, but a number of features that was asked for may be too small, if indices count from 0.
            n_features = parser.finish()[3]
        self._base, self._n_features, self.n_rows = from_0, n_features, n_rows

    def batches(self, size: int, skip: int = 0) -> Generator[Batch, None, None]:
        self.prepare()
        with self._blocks() as blocks:
            parser = Svmlight(self._dtype, self._base, self._n_features, threads=self._threads)
            for found in self._taken(parser, blocks, size, skip):
                yield _matrix(found), found.labels if self._labelled else None

    def _pieces(self, skip: int) -> Iterator[Batch]:
        return self.batches(_PIECE, skip)

    def unsurveyed(self, size: int) -> Iterator[Batch]:
        if self._base is not None or self._n_features is not None:
            self.prepare()
        guessed = self._base is None
        with self._blocks() as blocks:
            # Indices as they are written.
            parser = Svmlight(self._dtype, guessed or self._base, self._n_features, threads=self._threads)
            for found in self._taken(parser, blocks, size, 0):
                if guessed:
                    if found.indices.min(initial=1) == 0:
                        self._base = True
                        raise Misjudged
                    found.indices[:] -= 1
                yield _matrix(found), found.labels if self._labelled else None
            n_features = parser.finish()[3]
        if guessed:
            self._base, n_features = False, max(1, n_features - 1)
        self._n_features = n_features

    def _check_known(self, origin: str) -> None:
        if self._base is None or self._n_features is None:
            raise ValueError(_ONCE.format(origin))

    @contextmanager
    def _blocks(self) -> Iterator[Iterator[bytes]]:
        """The file's text; what goes wrong with it names the file."""
        self.read_bytes = 0
        with naming(self._path), opened(self._path) as file:
            if not file.seekable():
                self.repeatable = False
                self._check_known("a pipe")
            with closing(_blocks(file, self._threads)) as blocks:
                yield self._counted(blocks, file)

    def _counted(self, blocks: Iterator[bytes], file: Any) -> Iterator[bytes]:
        for block in blocks:
            self.read_bytes = position(file) or self.read_bytes + len(block)
            yield block

    def _taken(self, parser: Svmlight, blocks: Iterator[bytes], size: int, skip: int) -> Iterator[Arrays]:
        """Batches of these blocks, without the first ``skip`` rows."""
        n_rows = 0

        def ready(least: int) -> Iterator[Arrays]:
            nonlocal n_rows
            if (n := min(parser.n_rows, skip - n_rows)) > 0:
                if n == parser.n_rows:
                    parser.forget()
                else:
                    parser.take(n)
                n_rows += n
            while n_rows >= skip and parser.n_rows >= least:
                found = _with_labels(*parser.take(size))
                n_rows += len(found.labels)
                yield found

        for block in blocks:
            parser.push(block)
            yield from ready(size)
        parser.end()
        yield from ready(1)
        self.n_rows = n_rows


def _blocks(file: Any, threads: int) -> Generator[bytes, None, None]:
    """The content of a file, of whose next block a thread of its own takes care where several parse this one."""
    # Of a terminal or a pipe, what there is.
    read = file.read if file.seekable() else getattr(file, "read1", file.read)
    size = _BLOCK * threads
    block = read(size)
    if threads == 1 or len(block) < size or not file.seekable():
        while block:
            yield block
            block = read(size)
        return
    with ThreadPoolExecutor(1) as ahead:
        while block:
            coming = ahead.submit(read, size)
            yield block
            block = coming.result()


def _base(zero_based: Any) -> bool | None:
    """Whether indices count from 0; None for "auto"."""
    if isinstance(zero_based, str) and zero_based == "auto":
        return None
    if isinstance(zero_based, bool | np.bool_):
        return bool(zero_based)
    raise ValueError(f"zero_based must be True, False or 'auto', got {zero_based!r}")


def _count(name: str, value: Any) -> int | None:
    """A number of features, or None."""
    return None if value is None else count(name, value)


def _with_labels(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, n_features: int, labels: np.ndarray
) -> Arrays:
    """The arrays, whole labels as ints."""
    return Arrays(data, indices, indptr, n_features, whole_labels(labels))


def _matrix(found: Arrays) -> csr_matrix:
    from scipy.sparse import csr_matrix

    shape = (len(found.labels), found.n_features)
    X = csr_matrix((found.data, found.indices, found.indptr), shape=shape)
    # SciPy would look at all indices to know.
    X.has_sorted_indices = X.has_canonical_format = True
    return X
