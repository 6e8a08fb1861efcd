"""Examples from svmlight files: all at once, or in batches.

`arrays` gives what the compiled parser has found, and asks for neither SciPy nor scikit-learn; `load_svmlight` makes a CSR matrix
of it, and `stream` yields batches in constant memory.
"""

from __future__ import annotations

import operator
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pegasos._core import Svmlight
from pegasos._files import naming, opened
from pegasos._threads import thread_count

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from typing import Literal

    from scipy.sparse import csr_matrix

    from pegasos._files import Path

__all__ = ["Arrays", "arrays", "load_svmlight", "stream"]

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
    parser = Svmlight(_name(dtype), _base(zero_based), _count("n_features", n_features), threads=threads)
    with naming(path), opened(path) as file, closing(_blocks(file, threads)) as blocks:
        for block in blocks:
            parser.push(block)
        return _with_labels(*parser.finish())


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
    stream : Batches of rows, in constant memory.
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


def stream(
    path: Path,
    batch_size: int = 1000,
    *,
    dtype: Any = np.float64,
    n_features: int | None = None,
    zero_based: bool | Literal["auto"] = "auto",
    n_jobs: int | None = None,
) -> Iterator[tuple[csr_matrix, np.ndarray]]:
    """Read an svmlight file in batches, in constant memory: for ``partial_fit``.

    Parameters
    ----------
    path : str or path-like
        As for `load_svmlight`.
    batch_size : int, default=1000
        The number of rows of a batch; the last may have fewer.
    dtype : {float64, float32}, default=float64
        As for `load_svmlight`.
    n_features : int or None, default=None
        The number of features of every batch. None for as many as the file has: it is read twice, the first time for that.
    zero_based : bool or "auto", default="auto"
        Whether indices count from 0. "auto" as for `load_svmlight`: the file is read twice, the first time for that.
    n_jobs : int or None, default=None
        As for `load_svmlight`.

    Yields
    ------
    X : csr_matrix of shape (batch_size, n_features)
        Features of the next rows. The batches, one below the other, are the matrix that `load_svmlight` returns.
    y : ndarray of shape (batch_size,)
        Their labels: int64 if those of the batch are whole numbers, else float64.

    Raises
    ------
    OSError
        The file cannot be read; FileNotFoundError if there is none.
    ValueError
        As for `load_svmlight`: when the place is reached, or before the first batch where the file is read twice. Or
        ``n_features`` or ``zero_based`` is left open for what cannot be read twice: the standard input, a pipe.

    See Also
    --------
    load_svmlight : All rows at once.

    Notes
    -----
    Memory is that of a batch and a few megabytes. Arguments are checked when the function is called, the file is opened
    when the first batch is asked for, and closed behind the last or with the iterator.

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
    """
    size, threads = _count("batch_size", batch_size), thread_count(n_jobs)
    if size is None:
        raise TypeError("batch_size must be an int, got None")
    base, features, name = _base(zero_based), _count("n_features", n_features), _name(dtype)
    if os.fspath(path) == "-" and (base is None or features is None):
        raise ValueError(_ONCE.format("the standard input"))
    return _batches(path, size, name, base, features, threads)


#: What is wrong with a stream of something that cannot be read twice.
_ONCE = "n_features and zero_based must be given for {}, which cannot be read twice, got None or 'auto'"


def _batches(
    path: Path, size: int, dtype: str, base: bool | None, n_features: int | None, threads: int
) -> Iterator[tuple[csr_matrix, np.ndarray]]:
    with naming(path), opened(path) as file:
        if base is None or n_features is None:
            if not file.seekable():
                raise ValueError(_ONCE.format("a pipe"))
            base, n_features = _survey(file, dtype, base, n_features, threads)
            file.seek(0)
        parser = Svmlight(dtype, base, n_features, threads=threads)
        with closing(_blocks(file, threads)) as blocks:
            for block in blocks:
                parser.push(block)
                while parser.n_rows >= size:
                    yield _pair(parser, size)
        parser.end()
        while parser.n_rows:
            yield _pair(parser, size)


def _pair(parser: Svmlight, size: int) -> tuple[csr_matrix, np.ndarray]:
    found = _with_labels(*parser.take(size))
    return _matrix(found), found.labels


def _survey(
    file: Any, dtype: str, base: bool | None, n_features: int | None, threads: int
) -> tuple[bool, int]:
    """Where the indices of a file begin, and how many features it has."""
    parser = Svmlight(dtype, base, n_features, threads=threads)
    with closing(_blocks(file, threads)) as blocks:
        for block in blocks:
            parser.push(block)
            parser.forget()
    parser.end()
    _, from_0 = parser.seen()
    # No rows are left, but a number of features that was asked for may be too small, if indices count from 0.
    return from_0, parser.finish()[3]


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


def _name(dtype: Any) -> str:
    """The name of a dtype."""
    name = np.dtype(dtype).name
    if name not in ("float32", "float64"):
        raise ValueError(f"dtype must be float64 or float32, got {dtype!r}")
    return name


def _base(zero_based: Any) -> bool | None:
    """Whether indices count from 0; None for "auto"."""
    if isinstance(zero_based, str) and zero_based == "auto":
        return None
    if isinstance(zero_based, bool | np.bool_):
        return bool(zero_based)
    raise ValueError(f"zero_based must be True, False or 'auto', got {zero_based!r}")


def _count(name: str, value: Any) -> int | None:
    """A number of rows or features, or None."""
    if value is None:
        return None
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an int, got {value!r}") from None
    if not 0 < number < 2**63:
        raise ValueError(f"{name} must be at least 1 and less than 2**63, got {number}")
    return number


def _with_labels(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, n_features: int, labels: np.ndarray
) -> Arrays:
    """The arrays, whole labels as ints."""
    is_whole = np.all(np.abs(labels) < 2**53) and np.all(labels == np.trunc(labels))
    return Arrays(data, indices, indptr, n_features, labels.astype(np.int64) if is_whole else labels)


def _matrix(found: Arrays) -> csr_matrix:
    from scipy.sparse import csr_matrix

    shape = (len(found.labels), found.n_features)
    X = csr_matrix((found.data, found.indices, found.indptr), shape=shape)
    # SciPy would look at all indices to know.
    X.has_sorted_indices = X.has_canonical_format = True
    return X
