"""CSV and TSV files: all at once, or in batches."""

from __future__ import annotations

import codecs
import csv
import itertools
import os
import re
import reprlib
from array import array
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from pegasos._files import naming, opened, position, size_of
from pegasos._plain import Plain, PlainReader, plain_reader
from pegasos._sources import Batch, Source, features_of

if TYPE_CHECKING:
    from pegasos._files import Path
    from pegasos._hashing import Hasher

#: Bytes of a line, at most: as one Python string takes many times as much.
_LONGEST_LINE = 1 << 24

#: Bytes of a block, about: many values for each column, and hardly any memory.
_BLOCK = 1 << 20

#: Bytes of the first block, at least, for which pyarrow is imported.
_WORTH = 1 << 19


class Lines:
    """The lines of a file of text in UTF-8, one by one or in blocks; a byte-order mark is left out."""

    def __init__(self, file: Any) -> None:
        # Of a terminal or a pipe, what there is.
        self._read = file.read if file.seekable() else getattr(file, "read1", file.read)
        #: What was read behind the last line that is whole, and lines that nobody has taken yet.
        self._rest, self._held = b"", deque[bytes]()
        #: The number of the last line that was taken.
        self.number = 0

    def __iter__(self) -> Iterator[str]:
        while self._held or self.give_back(self.block()):
            line = self._held.popleft()
            self.number += 1
            if len(line) > _LONGEST_LINE:
                raise ValueError(f"line {self.number} is longer than {_LONGEST_LINE:,} bytes")
            if self.number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            try:
                yield line.decode()
            except UnicodeDecodeError as error:
                raise ValueError(f"line {self.number}: {error}") from None

    def block(self) -> bytes:
        """The lines that come next, whole ones; nothing at the end. Whoever takes them counts them."""
        if self._held:
            block = b"".join(self._held)
            self._held.clear()
            return block
        while more := self._read(_BLOCK):
            self._rest += more
            # The last byte may be the first half of a line's end.
            end = self._rest.rfind(b"\n") + 1 or self._rest.rfind(b"\r", 0, -1) + 1
            if end == 0 and len(self._rest) > _LONGEST_LINE:
                end = len(self._rest)
            if end:
                block, self._rest = self._rest[:end], self._rest[end:]
                return block
        block, self._rest = self._rest, b""
        return block

    def give_back(self, block: bytes) -> int:
        """Lines that `block` gave are not taken; returns how many they are."""
        self._held.extend(block.splitlines(keepends=True))
        return len(self._held)


class _Content:
    """The rows of a file and its first, which tells what the columns are."""

    def __init__(
        self,
        file: Any,
        delimiter: str,
        label: str | int | None,
        columns: list[str] | None = None,
        model: Any = None,
    ) -> None:
        self._lines, self._delimiter = Lines(file), delimiter
        self._cells = csv.reader(self._lines, delimiter=delimiter, skipinitialspace=True, strict=True)
        first = next(self.rows(), None)
        if first is None:
            raise ValueError("it holds no examples")
        self.first_line, self.first = first
        self.n_columns = len(self.first)
        #: The number of the label's column, if there is one.
        self.column = label_column(self.first, label, model if columns is None else None)
        names = [cell.strip() for cell in self.first]
        if columns is not None:
            _check_header(names, columns)
        #: The numbers of the others that are features, and what the first line has in them.
        self.features = features_of(columns, names, self.column)
        self.header = [names[k] for k in self.features]
        self._is_chosen = columns is not None
        if not self.header:
            raise ValueError("it has no feature beside the label; is the delimiter right?")
        #: Whether the first line is a header, as far as it tells itself.
        self.headed = isinstance(label, str) or self._is_chosen or not any(map(_is_number, self.header))
        self._n_bytes = 0

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """The number of a line, and its cells."""
        while (cells := self._next()) is not None:
            if cells:
                yield self._lines.number, cells

    def _next(self) -> list[str] | None:
        """The cells of the next line, or lines, where quotes hold some together; None at the end."""
        line = self._lines.number + 1
        try:
            return next(self._cells, None)
        except csv.Error as error:
            raise ValueError(f"line {line}: {error}") from None

    def fill(self, found: _CsvRows) -> bool:
        """Adds the rows of the next block to those that were found; False if there is none."""
        block = self._lines.block()
        self._n_bytes += len(block)
        plain = None
        if self._n_bytes >= _WORTH and len(block) <= _LONGEST_LINE and self._plain:
            plain = self._plain.read(block, features=found.has_features)
        if plain and found.add_plain(self._lines.number + 1, plain):
            self._lines.number += plain.n_rows
            return True
        last = self._lines.number + self._lines.give_back(block)
        # The last row may go on in the next block, in quotes.
        while self._lines.number < last and (cells := self._next()) is not None:
            if cells:
                found.add(self._lines.number, cells)
        return bool(block)

    @cached_property
    def _plain(self) -> PlainReader | None:
        return plain_reader(self._delimiter, self.n_columns, self.column, self.features)

    def features_of(self, cells: list[str]) -> list[str]:
        """The cells of a line that are features; the others may be gone."""
        if self._is_chosen:
            return [cells[k] for k in self.features]
        if self.column is not None:
            del cells[self.column]
        return cells

    def check_width(self, line: int, cells: list[str]) -> None:
        if len(cells) != self.n_columns:
            raise ValueError(
                f"line {line} has {len(cells)} columns, line {self.first_line} has {self.n_columns}"
            )


def read_csv(
    path: Path, delimiter: str, label: str | int | None, columns: list[str] | None, model: Any
) -> tuple[np.ndarray, np.ndarray | None, list[str] | None]:
    """Features, labels if there are any, and the names of the features if there is a header."""
    with opened(path) as file:
        content = _Content(file, delimiter, label, columns, model)
        reader = _CsvRows(content)
        headed = content.headed
        if not headed:
            reader.add(content.first_line, content.first)
        while content.fill(reader):
            pass
    words = model.classes_ if model is not None and model.classes_.dtype.kind in "UO" else []
    if not headed and reader.is_headed() and next(iter(reader.kinds)) not in words:
        headed = True
        reader.drop_first()
    X, y = reader.arrays(kind="text" if len(words) else None)
    return X, y, content.header if headed else None


def label_column(cells: list[str], label: str | int | None, model: Any) -> int | None:
    """The number of the label's column, by the cells of the first line."""
    n = len(cells)
    if label is None or (label == -1 and model is not None and n == model.n_features_in_):
        return None
    if isinstance(label, str):
        names = [cell.strip() for cell in cells]
        if names.count(label) != 1:
            _check_header(names, [label], "; give the number of the column")
            count = names.count(label)
            raise ValueError(f"it has {count} columns {label!r}; it has {', '.join(names)}")
        return names.index(label)
    if not -n <= label < n:
        raise ValueError(f"it has {n} columns, none of number {label}")
    return label % n


def _check_header(names: list[str], wanted: list[str], advice: str = "") -> None:
    """Refuses a first line that is no header of columns of these names."""
    missing = next((name for name in wanted if name not in names), None)
    if missing is not None and any(map(_is_number, names)):
        said = reprlib.repr(", ".join(names))
        raise ValueError(f"it has no header to name a column {missing!r}: its first line is {said}{advice}")


def _heads(first: str, others: Collection[str]) -> bool:
    """Whether the first of the labels is a heading: a word, where the others are numbers."""
    return any(map(str.isalpha, first)) and not _is_number(first) and bool(others) and all(map(_is_number, others))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    # To Python 1_2 is a number, to whoever writes tables a name.
    return "_" not in cell


#: So many digits that an int64 may hold it.
_WHOLE = re.compile("[+-]?[0-9]{1,19}")


class _CsvRows:
    """Gathers the rows of a text file, and knows which line and column is at fault."""

    def __init__(self, content: _Content, *, skip: int = 0, has_features: bool = True) -> None:
        self.content, self.column = content, content.column
        self.n_features, self.has_features = len(content.header), has_features
        #: So many of the rows that come next are left out.
        self.skip = skip
        self.values = array("d")
        #: The labels that there are, and each row's as its place among them.
        self.kinds: dict[str, int] = {}
        self.codes = array("q")
        self.lines = array("q")

    def add(self, line: int, cells: list[str]) -> None:
        if self.skip:
            self.skip -= 1
            return
        self.content.check_width(line, cells)
        self.add_label(line, cells)
        if not self.has_features:
            return
        cells = self.content.features_of(cells)
        try:
            if "_" in "".join(cells):
                raise ValueError
            self.values.extend(map(float, cells))
        except ValueError:
            bad = next(k for k, cell in enumerate(cells) if not _is_number(cell))
            cell = cells[bad].strip()
            fault = f"{cell!r} is not a number" if cell else "the value is missing"
            raise ValueError(f"{self.place(-1, self.column_of(bad))}: {fault}") from None

    def add_label(self, line: int, cells: list[str]) -> None:
        """Adds the label among the cells of a line."""
        self.lines.append(line)
        if self.column is not None:
            label = cells[self.column].strip()
            if not label:
                raise ValueError(f"{self.place(-1, self.column)}: the label is missing")
            self.codes.append(self._code_of(label))

    def _code_of(self, label: str) -> int:
        return self.kinds.setdefault(label, len(self.kinds))

    def add_plain(self, line: int, plain: Plain) -> bool:
        """Adds rows of which the first is at this line, unless some of them, but not all, are to be left out."""
        if self.skip:
            if plain.n_rows > self.skip:
                return False
            self.skip -= plain.n_rows
            return True
        if plain.X is not None:
            self.values.frombytes(plain.X.data.cast("B"))
        if plain.codes is not None:
            codes = np.fromiter(map(self._code_of, plain.kinds), np.int64, len(plain.kinds))
            self.codes.frombytes(codes[plain.codes].data.cast("B"))
        self.lines.frombytes(np.arange(line, line + plain.n_rows, dtype=np.int64).data.cast("B"))
        return True

    def column_of(self, feature: int) -> int:
        return self.content.features[feature]

    def place(self, row: int, column: int) -> str:
        return f"line {self.lines[row]}, column {column + 1}"

    def is_headed(self) -> bool:
        """Whether the first label is no label, but a heading of the others."""
        first, *others = self.kinds or [""]
        return _heads(first, others) and self.codes.count(0) == 1

    def drop_first(self) -> None:
        """Leaves out the first row, which alone has the first label."""
        del self.values[: self.n_features], self.codes[0], self.lines[0], self.kinds[next(iter(self.kinds))]
        np.frombuffer(self.codes, np.int64)[:] -= 1

    def arrays(self, *, kind: str | None = None) -> tuple[np.ndarray, np.ndarray | None]:
        """Features and labels, of this kind, or None for what they are."""
        if not self.lines:
            raise ValueError("it holds no examples, only a header")
        X = np.frombuffer(self.values, dtype=np.float64).reshape(len(self.lines), -1)
        finite = np.isfinite(X)
        if not finite.all():
            row, feature = np.argwhere(~finite)[0]
            place, value = self.place(row, self.column_of(feature)), X[row, feature]
            raise ValueError(f"{place}: {value} is not a finite number")
        return X, self.labels_of(kind)

    def labels_of(self, kind: str | None) -> np.ndarray | None:
        """The labels, of this kind; None if there are none."""
        if self.column is None:
            return None
        kinds, codes = list(self.kinds), np.frombuffer(self.codes, np.int64)
        y = typed(kinds, kind or kind_of(kinds))[codes]
        if y.dtype.kind == "f" and not np.isfinite(y).all():
            row = int(np.flatnonzero(~np.isfinite(y))[0])
            raise ValueError(f"{self.place(row, self.column)}: the label {y[row]} is not a finite number")
        return y


def typed(labels: list[str], kind: str) -> np.ndarray:
    """Labels of this kind."""
    if kind == "text":
        return np.array(labels)
    if kind == "whole":
        return np.array(list(map(int, labels)), np.int64)
    found = np.array(list(map(float, labels)))
    whole: dict[float, int] = {}
    for label, number in zip(labels, found.tolist(), strict=True):
        # Such are names of customers or orders: two of them must not be one.
        if abs(number) >= 2.0**53 and label.strip().lstrip("+-").isdigit() and whole.setdefault(number, int(label)) != int(label):
            raise ValueError(f"the labels {whole[number]} and {int(label)} are too large to be told apart as numbers")
    return found


def kind_of(labels: Iterable[str]) -> str:
    """Whether labels are "whole" numbers, "numbers", or "text"."""
    if not all(map(_is_number, labels)):
        return "text"
    return "whole" if all(_WHOLE.fullmatch(label) and abs(int(label)) < 2**63 for label in labels) else "numbers"


#: Values of a piece that is hashed, about, and the most labels that are held to know of what kind they are.
_PIECE = 1 << 16
_KINDS = 1 << 14


class CsvSource(Source):
    """The rows of a CSV or TSV file, as `read_csv` has them. A first pass finds what labels are, and the header."""

    def __init__(
        self,
        path: Path,
        *,
        delimiter: str = ",",
        label: str | int | None = -1,
        columns: list[str] | None = None,
        dtype: Any = np.float64,
        hasher: Hasher | None = None,
    ) -> None:
        super().__init__(os.fspath(path))
        self._path, self._delimiter, self._label, self._columns = path, delimiter, label, columns
        self._dtype, self._hasher = np.dtype(dtype), hasher
        if self.name == "-":
            raise ValueError("the standard input must be in svmlight's format to be read in batches, not CSV or TSV")
        self.n_bytes = size_of(path)
        self._headed, self._kind = False, ""

    def prepare(self, report: Callable[[], None] = lambda: None) -> None:
        if self._n_features is not None:
            return
        with self._content() as (content, file):
            n_rows, found, first = 0, _Kinds(), _CsvRows(content, has_features=False)
            if not content.headed:
                first.add(content.first_line, content.first)
            while content.fill(rows := _CsvRows(content, has_features=False)):
                found.add(rows.kinds)
                n_rows += len(rows.lines)
                self.read_bytes = position(file) or 0
                report()
        self._headed = content.headed
        if first.kinds and n_rows and found.kind() != "text" and _heads(next(iter(first.kinds)), ["0"]):
            self._headed = True
        else:
            found.add(first.kinds)
            n_rows += len(first.lines)
        if not n_rows:
            raise ValueError(f"{self.name}: it holds no examples, only a header")
        self._kind, self.n_rows = found.kind(), n_rows
        self.names = content.header if self._headed and not self._hasher else None
        self._n_features = self._hasher.n_features if self._hasher else len(content.header)

    @contextmanager
    def _content(self) -> Iterator[tuple[_Content, Any]]:
        self.read_bytes = 0
        with naming(self._path), opened(self._path) as packed:
            if not packed.seekable():
                raise ValueError("a pipe must be in svmlight's format to be read in batches, not CSV or TSV")
            yield _Content(packed, self._delimiter, self._label, self._columns), packed

    def _pieces(self, skip: int) -> Iterator[Batch]:
        with self._content() as (content, file):
            if self._hasher:
                for batch in self._hashed_pieces(content, skip):
                    self.read_bytes = position(file) or 0
                    yield batch
                return
            rows = _CsvRows(content, skip=skip)
            if not self._headed:
                rows.add(content.first_line, content.first)
            while content.fill(rows) or rows.lines:
                self.read_bytes = position(file) or 0
                if rows.lines:
                    X, y = rows.arrays(kind=self._kind)
                    yield self._cast(X, rows), y
                rows = _CsvRows(content, skip=rows.skip)

    def _hashed_pieces(self, content: _Content, skip: int) -> Iterator[Batch]:
        names = content.header if self._headed else [str(k) for k in range(len(content.header))]
        first = [] if self._headed else [(content.first_line, content.first)]
        rows = itertools.islice(itertools.chain(first, content.rows()), skip, None)
        size = max(1, _PIECE // len(content.header))
        while some := list(itertools.islice(rows, size)):
            yield self._hashed(content, _CsvRows(content), names, some)

    def _cast(self, X: np.ndarray, reader: _CsvRows) -> np.ndarray:
        with np.errstate(over="ignore"):
            cast = X.astype(self._dtype, copy=False)
        if cast is not X and not np.isfinite(cast).all():
            row, feature = np.argwhere(~np.isfinite(cast))[0]
            place = reader.place(row, reader.column_of(feature))
            raise ValueError(f"{place}: {X[row, feature]} is too large for {self._dtype}")
        return cast

    def _hashed(
        self, content: _Content, reader: _CsvRows, names: list[str], some: list[tuple[int, list[str]]]
    ) -> Batch:
        """Rows whose features are what the hasher makes of cells that are numbers, and of others."""
        assert self._hasher
        records: list[list[Any]] = []
        for line, cells in some:
            content.check_width(line, cells)
            reader.add_label(line, cells)
            record: list[Any] = []
            for feature, cell in enumerate(map(str.strip, content.features_of(cells))):
                is_number = self._hasher.takes_numbers and _is_number(cell)
                value = float(cell) if is_number else cell
                if cell == "" or (is_number and not np.isfinite(value)):
                    fault = f"{cell} is not a finite number" if cell else "the value is missing"
                    raise ValueError(f"{reader.place(-1, reader.column_of(feature))}: {fault}")
                record.append(value)
            records.append(record)
        X = self._hasher.rows(names, records)
        return X, reader.labels_of(self._kind)


class _Kinds:
    """Of what kind labels are, of which there may be many."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._kind = "whole"

    def add(self, labels: Iterable[str]) -> None:
        self._known.update(labels)
        if len(self._known) > _KINDS:
            self._kind = self.kind()
            self._known.clear()

    def kind(self) -> str:
        kinds = ["whole", "numbers", "text"]
        return max(self._kind, kind_of(self._known), key=kinds.index)
