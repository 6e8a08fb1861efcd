"""A source kept in a binary file, from which rows are read in any order.

The file is a header, blocks, and a directory that says where blocks begin. A block holds ``run`` rows, the last
perhaps fewer: their labels, of sparse rows how many numbers each stores, columns, and values, one array behind the
other. So a pass that writes need not know how much is to come, a pass in order reads forward, and one in any other
order makes a single positioned read of some 64 kB for each run. An array for each of the four, as in a file of
safetensors, would take four reads, and sizes that are known before.

The header is written last, the file takes its name when it is complete (`replacing`), and who reads keeps it open. It
is read, not mapped: memory is that of a window, and nobody is killed who reads what somebody makes shorter. Nobody
waits for the disk, which takes longer than all else: what a power failure damages is found out by the checksums.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import sys
import threading
import warnings
import weakref
import zlib
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from pegasos._files import BROKEN, is_pipe, replacing, why
from pegasos._sources import Batch, Misjudged, Source, matrix, part, whole_labels

if TYPE_CHECKING:
    from pegasos._files import Path

#: What such files begin with, and the version of the layout.
_MAGIC = b"pegasos$"
_VERSION = 1

#: Magic, version, checksum of the directory, where it begins, its bytes, those of its text; the checksum of all these.
_HEADER = struct.Struct("<8sIIQQQI")

#: Where blocks begin.
_BEGIN = 64

#: Bytes of a block, about; its rows, at most, as windows of many runs are mixed better; rows of a batch that is written.
_BLOCK = 1 << 16
_RUN = 256
_BATCH = 1024


class _Stale(Exception):
    """Why a file cannot be used."""


class _Foreign(_Stale):
    """A file of something else."""


def _is_inside(path: str, folder: str) -> bool:
    return os.path.realpath(path).startswith(os.path.join(os.path.realpath(folder), ""))


def cache_of(path: str) -> str:
    """Where the cache of a source is, if nobody says where."""
    return f"{path.rstrip(os.sep)}.pegasos-cache"


class CachedSource(Source):
    """The rows of another source, from a file that is written unless there is one that belongs to it."""

    def __init__(self, source: Source, path: Path, cache: Path | None, key: dict[str, str]) -> None:
        super().__init__(source.name)
        self._source, self._path, self._key = source, os.fspath(path), key
        self.cache = os.fspath(cache) if cache is not None else cache_of(self._path)
        if os.path.realpath(self.cache) == os.path.realpath(self._path):
            raise ValueError(f"cache must be another file than the source, got {self.cache}")
        if os.path.isdir(self._path) and _is_inside(self.cache, self._path):
            # It would be a part of what it is made of, whose change makes it stale.
            raise ValueError(f"cache must not be in the folder that is the source, got {self.cache}")
        if is_pipe(self.cache):
            raise ValueError(f"cache must be a file, got {self.cache}, a pipe or a device")
        self._file: _File | None = None
        self._n_taken = 0
        self.labels_vary = source.labels_vary

    def prepare(self, report: Callable[[], None] = lambda: None) -> None:
        if self._file is not None:
            return
        stamp = self._stamp()
        self.n_bytes = stamp["size"]
        wanted = {"source": stamp, "asked": self._key, "byteorder": sys.byteorder}
        try:
            self._file = _File(self.cache, wanted)
        except FileNotFoundError:
            pass
        except _Foreign as foreign:
            raise ValueError(f"{self.cache}: {foreign}, and stays as it is") from None
        except _Stale as stale:
            warnings.warn(f"{self.cache}: {stale}; it is written anew", UserWarning, stacklevel=2)
        if self._file is None:
            self._file = self._written(wanted, report)
        self.n_rows, self.run, self._n_features = self._file.n_rows, self._file.run, self._file.n_features
        self.names = self._file.names

    def _stamp(self) -> dict[str, Any]:
        return stamp_of(self._path, self._key["label"] if self._key["format"] == "npy" else None)

    def _written(self, wanted: dict[str, Any], report: Callable[[], None]) -> _File:
        wide = False
        while True:
            try:
                with replacing(self.cache, durable=False) as file:
                    writer = _Writer(file, wide, self._source.labels_vary)
                    for X, y in self._source.unsurveyed(_BATCH):
                        writer.add(X, y)
                        self.read_bytes = self._source.read_bytes
                        report()
                    if not writer.n_rows:
                        raise ValueError(f"{self.name}: it holds no examples")
                    writer.end(self._source.n_features, self._source.names, wanted)
                    if self._stamp() != wanted["source"]:
                        raise ValueError(f"{self.name}: it was changed while it was read")
                    if os.name != "nt":
                        # Before it has its name, which another process may give to a file of its own.
                        file.flush()
                        found = _File(file.name, wanted, self.cache)
                return _File(self.cache, wanted) if os.name == "nt" else found
            except Misjudged:
                wide = writer.is_wide
            except _Stale as stale:
                raise ValueError(f"{self.cache}: {stale}; does another process write it as well?") from None

    def begin(self, skip: int) -> None:
        self.read_bytes = self._n_taken = 0

    def batches(self, size: int, skip: int = 0) -> Generator[Batch, None, None]:
        self.prepare()
        self.begin(skip)
        for X, y in self._in_order(size, skip):
            yield X, whole_labels(y) if self.labels_vary else y

    def _pieces(self, skip: int) -> Iterator[Batch]:
        return self._in_order(_BATCH, skip)

    def _in_order(self, size: int, skip: int) -> Iterator[Batch]:
        assert self._file is not None
        run, n = self._file.run, self._file.n_rows
        for start in range(skip, n, size):
            stop, first = min(start + size, n), start // run * run
            # A run at the border of two batches is read twice, which takes less than to join what was read apart.
            X, y = self.take(np.arange(first, stop, run), stop - start)
            yield part(X, start - first, stop - first), None if y is None else y[start - first : stop - first]

    def take(self, first: np.ndarray, n_wanted: int | None = None) -> Batch:
        assert self._file is not None and self.n_bytes is not None
        X, y = self._file.take(first // self._file.run)
        self._n_taken += X.shape[0] if n_wanted is None else n_wanted
        self.read_bytes = self.n_bytes * self._n_taken // self._file.n_rows
        return X, y


def stamp_of(path: str, label: str | None) -> dict[str, Any]:
    """What changes when a file, a folder, or the file of its labels does: sizes and times."""
    paths = [path]
    if label is not None and label.lower().endswith(".npy"):
        paths.append(label)
    if os.path.isdir(path):
        paths = sorted(os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
    found = [os.stat(each) for each in paths]
    stamp: dict[str, Any] = {"size": sum(each.st_size for each in found)}
    if len(found) == 1 and paths == [path]:
        return stamp | {"mtime_ns": found[0].st_mtime_ns}
    names = [os.path.relpath(each, path) for each in paths]
    text = "\n".join(f"{each.st_size} {each.st_mtime_ns} {name}" for name, each in zip(names, found, strict=True))
    return stamp | {"files": hashlib.sha256(os.fsencode(text)).hexdigest()}


class _Writer:
    """Writes blocks, then the directory, then the header."""

    def __init__(self, file: Any, wide: bool, labels_vary: bool) -> None:
        self._file, self.is_wide, self._labels_vary = file, wide, labels_vary
        self.n_rows = self._run = 0
        self._offsets, self._sums = [_BEGIN], list[int]()
        self._about: dict[str, Any] = {}
        self._texts: dict[str, int] = {}
        file.write(bytes(_BEGIN))

    def add(self, X: Any, y: Any) -> None:
        """A batch: `_BATCH` rows, unless it is the last."""
        if not self._run:
            self._begin(X, y)
        n = X.shape[0]
        dense = isinstance(X, np.ndarray)
        # Of each row what it holds, and of each number that it stores.
        per_row, stored = [self._labels(y, n)], [] if dense else [self._indices(X), X.data]
        per_row.append(np.ascontiguousarray(X) if dense else np.diff(X.indptr).astype(np.uint32))
        ends = None if dense else X.indptr.tolist()
        for start in range(0, n, self._run):
            stop = min(start + self._run, n)
            parts = [array[start:stop] for array in per_row]
            if ends is not None:
                parts += [array[ends[start] : ends[stop]] for array in stored]
            block = b"".join(map(_view, parts))
            self._file.write(block)
            self._offsets.append(self._offsets[-1] + len(block))
            self._sums.append(int(_sum(np.frombuffer(block, np.uint32))))
        self.n_rows += n

    def _begin(self, X: Any, y: Any) -> None:
        dense = isinstance(X, np.ndarray)
        size = X.nbytes if dense else (X.indices.itemsize + X.data.itemsize) * len(X.data)
        each = 12 + size // X.shape[0]
        self._run = 1 << min(_RUN, max(1, _BLOCK // each)).bit_length() - 1
        index = "int64" if self.is_wide else "int32"
        kind = "none" if y is None else "text" if y.dtype.kind in "UTO" else "numbers"
        self._about = {
            "run": self._run,
            "rows": "dense" if dense else index,
            "values": X.dtype.name,
            "labels": kind,
            "label_dtype": "whole" if self._labels_vary else "" if y is None else y.dtype.name,
        }

    def _labels(self, y: Any, n: int) -> np.ndarray:
        if y is None:
            return np.zeros(n, np.uint32)
        if self._about["labels"] == "text":
            codes = [self._texts.setdefault(text, len(self._texts)) for text in y.tolist()]
            return np.array(codes, np.uint32)
        return y.astype(_stored(self._about["label_dtype"]))

    def _indices(self, X: Any) -> np.ndarray:
        if X.indices.dtype == np.int64 and not self.is_wide:
            self.is_wide = True
            raise Misjudged
        return X.indices.astype(np.int64 if self.is_wide else np.int32, copy=False)

    def end(self, n_features: int, names: list[str] | None, wanted: dict[str, Any]) -> None:
        about = self._about | {"n_rows": self.n_rows, "n_features": n_features, "names": names, "texts": [*self._texts]}
        text = json.dumps(about | {"wanted": wanted}).encode()
        text += b" " * (-len(text) % 8)
        directory = text + np.array(self._offsets, np.uint64).tobytes() + np.array(self._sums, np.uint32).tobytes()
        self._file.write(directory)
        self._file.seek(0)
        self._file.write(_header(zlib.crc32(directory), self._offsets[-1], len(directory), len(text)))


def _header(checksum: int, begin: int, length: int, text: int, version: int = _VERSION) -> bytes:
    fields = _HEADER.pack(_MAGIC, version, checksum, begin, length, text, 0)
    return fields[:-4] + struct.pack("<I", zlib.crc32(fields[:-4]))


def _stored(dtype: str) -> type:
    """How labels of this dtype are stored."""
    return np.float64 if dtype == "whole" or dtype.startswith("float") else np.int64


def _sum(words: np.ndarray) -> np.uint32:
    """The sum of 32-bit words, modulo 2^32: what a damaged block does not have, but for one in four billions."""
    return np.add.reduce(words.reshape(-1).view(np.uint32), dtype=np.uint32)


class _File:
    """A file that is complete and what was wanted, else `_Stale` is raised; it stays open."""

    def __init__(self, path: str, wanted: dict[str, Any], name: str | None = None) -> None:
        self.path = name or path
        self._fd = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0))
        self._close = weakref.finalize(self, os.close, self._fd)
        self._lock = threading.Lock()
        try:
            self._read_directory(wanted)
        except _Stale:
            self._close()
            raise
        except BROKEN as error:
            self._close()
            raise _Stale(f"it is damaged: {why(error)}") from error
        except OSError as error:
            self._close()
            raise OSError(error.errno, error.strerror, self.path) from None

    def _read_directory(self, wanted: dict[str, Any]) -> None:
        size = os.fstat(self._fd).st_size
        header = self._bytes_at(0, min(size, _HEADER.size))
        if header and header[:8] != _MAGIC:
            raise _Foreign("it is no cache of pegasos")
        if len(header) < _HEADER.size:
            raise ValueError("it ends too early")
        _, version, checksum, begin, length, text_length, own = _HEADER.unpack(header)
        if zlib.crc32(header[:-4]) != own:
            raise ValueError("its header is not what was written")
        if version != _VERSION:
            raise _Stale(f"it was written in version {version} of the format, this is version {_VERSION}")
        if begin + length != size or text_length > length:
            raise ValueError(f"it has {size} bytes, {begin + length} were written")
        directory = self._bytes_at(begin, length)
        if zlib.crc32(directory) != checksum:
            raise ValueError("its directory is not what was written")
        about = json.loads(directory[:text_length])
        for name, value in wanted.items():
            if about["wanted"].get(name) != value:
                what = {"source": "the source has changed since", "asked": "something else is asked for"}
                raise _Stale(what.get(name, "it was written on another kind of machine"))
        self.n_rows, self.n_features, self.run = (int(about[name]) for name in ("n_rows", "n_features", "run"))
        self._rows, self._kind, self._label_dtype = about["rows"], about["labels"], about["label_dtype"]
        self._values: np.dtype[Any] = np.dtype({"float32": np.float32, "float64": np.float64}[about["values"]])
        self._texts = np.array(about["texts"], dtype=str)
        self.names: list[str] | None = about["names"]
        if min(self.n_rows, self.n_features, self.run) < 1 or self._rows not in ("dense", "int32", "int64"):
            raise ValueError("it describes no rows")
        n_blocks = -(-self.n_rows // self.run)
        if length - text_length != 8 * (n_blocks + 1) + 4 * n_blocks:
            raise ValueError("its directory has another number of blocks")
        self._offsets = np.frombuffer(directory, np.uint64, n_blocks + 1, text_length).astype(np.int64)
        self._sums = np.frombuffer(directory, np.uint32, n_blocks, text_length + 8 * (n_blocks + 1))
        self._check_blocks(begin)

    def _check_blocks(self, begin: int) -> None:
        """Blocks have the sizes of rows; how many numbers each stores is kept."""
        sizes = np.diff(self._offsets)
        rows = np.full(len(sizes), self.run)
        rows[-1] = self.n_rows - (len(sizes) - 1) * self.run
        self._n_rows = rows
        each = 4 if self._kind in ("text", "none") else 8
        if self._rows == "dense":
            stored, rest = np.divmod(sizes - each * rows, self._values.itemsize)
            sound = (stored == rows * self.n_features).all()
        else:
            entry = self._values.itemsize + np.dtype(self._rows).itemsize
            stored, rest = np.divmod(sizes - (each + 4) * rows, entry)
            sound = (stored >= 0).all()
        self._stored = stored
        if not sound or rest.any() or self._offsets[0] != _BEGIN or self._offsets[-1] != begin:
            raise ValueError("its blocks are no rows")

    def _bytes_at(self, offset: int, size: int) -> bytes:
        found = bytearray(size)
        self._fill([memoryview(found)], offset)
        return bytes(found)

    def take(self, blocks: np.ndarray) -> Batch:
        """The rows of these blocks, one below the other."""
        n_rows, stored = self._n_rows[blocks], self._stored[blocks]
        n, count = int(n_rows.sum()), int(stored.sum())
        labels: np.ndarray = np.empty(n, np.uint32 if self._kind in ("text", "none") else _stored(self._label_dtype))
        arrays = [labels]
        if self._rows == "dense":
            data = np.empty((n, self.n_features), self._values)
            arrays.append(data)
        else:
            lengths, indices, data = np.empty(n, np.uint32), np.empty(count, self._rows), np.empty(count, self._values)
            arrays += [lengths, indices, data]
        self._read(blocks, arrays, n_rows, stored)
        expected = np.add.reduce(self._sums[blocks], dtype=np.uint32)
        if np.add.reduce([_sum(array) for array in arrays], dtype=np.uint32) != expected:
            raise ValueError(f"{self.path}: it is damaged, remove it")
        y = self._labels(labels)
        if self._rows == "dense":
            return data, y
        indptr = np.zeros(n + 1, np.int64 if count > np.iinfo(np.int32).max else self._rows)
        np.cumsum(lengths, out=indptr[1:])
        # What somebody has written who means harm. A sum of so many bits is the count only if none of its parts is more,
        # where that of ``indptr`` may have gone round.
        if lengths.sum(dtype=np.uint64) != count or (count and indices.view(f"u{indices.itemsize}").max() >= self.n_features):
            raise ValueError(f"{self.path}: it is damaged, remove it")
        return matrix(data, indices.astype(indptr.dtype, copy=False), indptr, self.n_features), y

    def _read(self, blocks: np.ndarray, arrays: list[np.ndarray], n_rows: np.ndarray, stored: np.ndarray) -> None:
        """Fills arrays with the parts of them that blocks hold."""
        per_row = 2 if self._rows != "dense" else 1
        views, at = [_view(array) for array in arrays], [0] * len(arrays)
        sizes = [array.itemsize for array in arrays]
        for block, rows, count in zip(blocks.tolist(), n_rows.tolist(), stored.tolist(), strict=True):
            buffers = []
            for k, view in enumerate(views):
                end = at[k] + (rows if k < per_row else count) * sizes[k]
                buffers.append(view[at[k] : end])
                at[k] = end
            self._fill(buffers, int(self._offsets[block]))

    def _labels(self, labels: np.ndarray) -> Any:
        if self._kind == "none":
            return None
        if self._kind == "text":
            return self._texts[labels]
        # Which are ints is for batches to say.
        return labels if self._label_dtype == "whole" else labels.astype(self._label_dtype, copy=False)

    def _fill(self, buffers: list[memoryview], offset: int) -> None:
        """Reads from a place on, into these buffers."""
        if hasattr(os, "preadv"):
            got = os.preadv(self._fd, buffers, offset)
            if got == sum(map(len, buffers)):
                return
        # Windows, or a system that reads less at a time.
        with self._lock, open(self._fd, "rb", buffering=0, closefd=False) as file:
            file.seek(offset)
            for buffer in buffers:
                while len(buffer):
                    got = file.readinto(buffer)
                    if not got:
                        raise ValueError(f"{self.path}: it ends too early; remove it")
                    buffer = buffer[got:]


def _view(array: Any) -> memoryview:
    return memoryview(array.reshape(-1).view(np.uint8))
