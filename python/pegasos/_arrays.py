"""Arrays of NumPy and SciPy in files, in batches: ``.npy``, and ``.npz``, packed or not."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from pegasos._files import naming, size_of
from pegasos._sources import Batch, Source, ascending

if TYPE_CHECKING:
    from pegasos._files import Path

#: Bytes of a piece, about.
_PIECE = 1 << 19


class _Array:
    """An array of a file, of which entries are read from the first on, or from a later one."""

    def __init__(self, file: Any, size: int, name: str) -> None:
        self._file, self.name, self._entry = file, name, 0
        version = np.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"{name} is of version {version} of the format, which is not for arrays of numbers")
        of_version = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        self.shape, fortran, self.dtype = of_version[version](file)
        if self.dtype.hasobject:
            raise ValueError(
                "it holds pickled objects, which are not read, as they could do anything: save arrays of numbers or "
                "strings"
            )
        if fortran and len(self.shape) > 1 and min(self.shape) > 1:
            raise ValueError(f"{name} is in Fortran order, one column after the other: save np.ascontiguousarray of it")
        self._begin = file.tell()
        self._each = prod(self.shape[1:]) * self.dtype.itemsize
        if min(self.shape, default=0) < 0 or self._begin + prod(self.shape) * self.dtype.itemsize != size:
            raise ValueError(f"{name} is damaged: {size} bytes cannot be an array of {self.dtype} {self.shape}")

    @property
    def entry_size(self) -> int:
        """Bytes of an entry: of a row, where there are two dimensions."""
        return self._each

    def skip(self, n: int) -> None:
        """Leaves out ``n`` entries."""
        self._entry += n
        self._file.seek(self._begin + self._entry * self._each)

    def whole(self) -> np.ndarray:
        """An array of one entry, of any shape."""
        if prod(self.shape) != 1:
            raise ValueError(f"{self.name} must be one entry, got {self.shape}")
        return np.frombuffer(self._file.read(self.dtype.itemsize), self.dtype)[0]

    def take(self, n: int) -> np.ndarray:
        """The next ``n`` entries."""
        found: Any = np.empty((n, *self.shape[1:]), self.dtype)
        room = memoryview(found.reshape(-1).view(np.uint8))
        while len(room):
            got = self._file.readinto(room)
            if not got:
                raise ValueError(f"{self.name} is damaged: it ends too early")
            room = room[got:]
        self._entry += n
        return found


class _Files:
    """Files and members of archives that are open, and what was read of them."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._archives: dict[str, zipfile.ZipFile] = {}

    def array(self, path: str, member: str | None = None, name: str = "the array") -> _Array:
        if member is None:
            file = self._stack.enter_context(open(path, "rb"))
            return _Array(file, os.fstat(file.fileno()).st_size, name)
        archive = self.archive(path)
        info = archive.getinfo(f"{member}.npy")
        return _Array(self._stack.enter_context(archive.open(info)), info.file_size, member)

    def archive(self, path: str) -> zipfile.ZipFile:
        if path not in self._archives:
            self._archives[path] = self._stack.enter_context(zipfile.ZipFile(path))
        return self._archives[path]


class ArraySource(Source):
    """The rows of an array in a ``.npy`` file, or of a dense or CSR matrix in an archive."""

    def __init__(self, path: Path, *, label: Any = -1, dtype: Any = np.float64) -> None:
        super().__init__(os.fspath(path))
        self._path, self._dtype, self._label = path, np.dtype(dtype), label
        if self.name == "-":
            raise ValueError("the standard input must be in svmlight's format to be read in batches, not NPY or NPZ")
        self.n_bytes = size_of(path)

    def prepare(self, report: Callable[[], None] = lambda: None) -> None:
        if self._n_features is None:
            with self._content() as found:
                self.n_rows, self._n_features = found.n_rows, found.n_features

    @contextmanager
    def _content(self) -> Iterator[_Rows]:
        self.read_bytes = 0
        with naming(self._path), ExitStack() as stack:
            files = _Files(stack)
            with open(self._path, "rb") as file:
                if not file.seekable():
                    raise ValueError("a pipe must be in svmlight's format to be read in batches, not NPY or NPZ")
                is_archive = file.read(2) == b"PK"
            yield (_of_archive if is_archive else _of_array)(files, self.name, self._label)

    def _pieces(self, skip: int) -> Iterator[Batch]:
        with self._content() as found:
            found.skip(min(skip, found.n_rows))
            n_rows, size = found.n_rows - skip, max(1, _PIECE // max(1, found.row_size))
            for first in range(0, n_rows, size):
                X, y = found.take(min(size, n_rows - first), skip + first, self._dtype)
                if self.n_bytes is not None:
                    self.read_bytes = self.n_bytes * (skip + first + X.shape[0]) // found.n_rows
                yield X, y


class _Rows:
    """Rows and labels of arrays that are read side by side."""

    def __init__(self, n_rows: int, n_features: int, labels: _Array | None) -> None:
        self.n_rows, self.n_features, self._labels = n_rows, n_features, labels
        if not n_rows:
            raise ValueError("it holds no examples")
        if not n_features:
            raise ValueError("its examples have no features")
        if labels is not None and labels.shape != (n_rows,):
            raise ValueError(f"{labels.name} must have shape ({n_rows},), got {labels.shape}")

    #: Bytes of a row, about.
    row_size: int

    def skip(self, n: int) -> None:
        if self._labels is not None:
            self._labels.skip(n)

    def take(self, n: int, first: int, dtype: np.dtype) -> Batch:
        """The next ``n`` rows, of which the first is that of this number."""
        raise NotImplementedError

    def _next_labels(self, n: int, first: int) -> Any:
        if self._labels is None:
            return None
        return _native(self._labels.take(n), first)


def _native(y: np.ndarray, first: int) -> np.ndarray:
    """Labels, finite and as this machine has them."""
    y = y.astype(y.dtype.newbyteorder("="), copy=False)
    if y.dtype.kind == "f" and not (finite := np.isfinite(y)).all():
        row = int(np.argmin(finite))
        raise ValueError(f"row {first + row}: the label {y[row]} is not a finite number")
    return y


class _Dense(_Rows):
    def __init__(self, matrix: _Array, labels: _Array | None, column: int | None = None) -> None:
        if len(matrix.shape) != 2 or matrix.dtype.kind not in "biuf":
            raise ValueError(f"X must hold numbers in two dimensions, got {matrix.dtype} {matrix.shape}")
        n_rows, n_columns = matrix.shape
        super().__init__(n_rows, n_columns - (column is not None), labels)
        self._matrix, self._column, self.row_size = matrix, column, matrix.entry_size

    def skip(self, n: int) -> None:
        self._matrix.skip(n)
        super().skip(n)

    def take(self, n: int, first: int, dtype: np.dtype) -> Batch:
        rows = self._matrix.take(n)
        y = self._next_labels(n, first)
        with np.errstate(over="ignore"):
            X = rows.astype(dtype, copy=False)
        if not (finite := np.isfinite(X)).all():
            row, column = np.unravel_index(np.argmin(finite), X.shape)
            value = rows[row, column]
            fault = f"too large for {dtype}" if np.isfinite(value) else "not a finite number"
            raise ValueError(f"row {first + row}, column {column}: {value} is {fault}")
        if self._column is not None:
            y = _native(rows[:, self._column].copy(), first)
            X = np.ascontiguousarray(np.delete(X, self._column, axis=1))
        return X, y


class _Sparse(_Rows):
    def __init__(self, files: _Files, path: str, labels: _Array | None) -> None:
        of = {name: files.array(path, name) for name in ("data", "indices", "indptr", "shape")}
        self._data, self._indices, self._indptr = of["data"], of["indices"], of["indptr"]
        for name, kinds in (("data", "biuf"), ("indices", "iu"), ("indptr", "iu"), ("shape", "iu")):
            if of[name].dtype.kind not in kinds or len(of[name].shape) != 1:
                raise ValueError(f"{name} must be a list of numbers, got {of[name].dtype} {of[name].shape}")
        if of["shape"].shape != (2,):
            raise ValueError(f"its matrix must have two dimensions, got {of['shape'].shape[0]}")
        n_rows, n_features = of["shape"].take(2).tolist()
        if not 0 <= n_features < 2**63 or self._indptr.shape != (n_rows + 1,):
            raise ValueError(f"indptr must have {n_rows} + 1 entries, got {self._indptr.shape}")
        if self._data.shape != self._indices.shape:
            raise ValueError(f"data and indices must have one shape, got {self._data.shape} and {self._indices.shape}")
        super().__init__(n_rows, n_features, labels)
        self._end = int(self._indptr.take(1)[0])
        if self._end != 0:
            raise ValueError(f"indptr must begin with 0, got {self._end}")
        self.row_size = (self._data.entry_size + self._indices.entry_size) * self._data.shape[0] // n_rows

    def skip(self, n: int) -> None:
        if n:
            self._indptr.skip(n - 1)
            end = int(self._indptr.take(1)[0])
            if not 0 <= end <= self._data.shape[0]:
                raise ValueError(f"indptr points to {end}, outside of {self._data.shape[0]} stored numbers")
            self._data.skip(end)
            self._indices.skip(end)
            self._end = end
        super().skip(n)

    def take(self, n: int, first: int, dtype: np.dtype) -> Batch:
        ends = self._indptr.take(n).astype(np.int64)
        indptr = np.concatenate([[self._end], ends])
        if (np.diff(indptr) < 0).any() or ends[-1] > self._data.shape[0]:
            row = int(np.argmax((np.diff(indptr) < 0) | (ends > self._data.shape[0])))
            raise ValueError(f"indptr is not sound: row {first + row} ends at {ends[row]}")
        count = int(ends[-1] - self._end)
        values, indices = self._data.take(count), self._indices.take(count)
        self._end = int(ends[-1])
        indptr -= indptr[0]
        with np.errstate(over="ignore"):
            data = values.astype(dtype, copy=False)
        outside = (indices < 0) | (indices >= self.n_features)
        if outside.any() or not np.isfinite(data).all():
            bad = int(np.argmax(outside | ~np.isfinite(data)))
            row = first + int(np.searchsorted(indptr, bad, side="right")) - 1
            if outside[bad]:
                raise ValueError(f"row {row}: there is no column {indices[bad]}, there are {self.n_features}")
            fault = f"too large for {dtype}" if np.isfinite(values[bad]) else "not a finite number"
            raise ValueError(f"row {row}, column {indices[bad]}: {values[bad]} is {fault}")
        return ascending(data, indices, indptr, self.n_features), self._next_labels(n, first)


def _of_array(files: _Files, path: str, label: Any) -> _Rows:
    array = files.array(path)
    if len(array.shape) != 2 or array.dtype.kind not in "biuf":
        raise ValueError(f"it must hold numbers in two dimensions, got {array.dtype} {array.shape}")
    if label is None:
        return _Dense(array, None)
    if isinstance(label, str | os.PathLike):
        if not os.fspath(label).lower().endswith(".npy"):
            raise ValueError(
                f"it has no column names; label must be the number of a column, or a .npy file of labels, got {label!r}"
            )
        return _Dense(array, files.array(os.fspath(label), name=os.fspath(label)))
    n = array.shape[1]
    if not -n <= label < n:
        raise ValueError(f"it has {n} columns, none of number {label}")
    return _Dense(array, None, label % n)


def _of_archive(files: _Files, path: str, label: Any) -> _Rows:
    members = [name.removesuffix(".npy") for name in files.archive(path).namelist()]
    found, labels = set(members), "y"
    if label not in (-1, None):
        raise ValueError(f"an archive has no column {label!r}; its labels are the array y or y_train")
    if not found >= {"data", "indices", "indptr", "shape"} and "X" not in found:
        if "X_train" not in found:
            raise ValueError(
                "it must hold arrays X and y, or X_train and y_train, or data, indices, indptr, shape and y, got "
                f"{', '.join(members)}"
            )
        labels = "y_train"
    if label is not None and labels not in found:
        raise ValueError(f"it has no array {labels} of labels")
    y = None if label is None else files.array(path, labels)
    if found >= {"data", "indices", "indptr", "shape"}:
        layout = "csr"
        if "format" in found:
            layout = str(files.array(path, "format").whole().astype(str))
        if layout != "csr":
            raise ValueError(f"its sparse matrix must be in format csr, got {layout}")
        return _Sparse(files, path, y)
    return _Dense(files.array(path, "X" if "X" in found else "X_train"), y)
