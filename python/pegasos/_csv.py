"""CSV and TSV files: all at once, or in batches."""

from __future__ import annotations

import csv
import io
import itertools
import os
import re
import reprlib
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from pegasos._files import naming, opened, position, size_of
from pegasos._sources import Batch, Source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pegasos._files import Path
    from pegasos._hashing import Hasher

#: Bytes or characters of a line, at most: as one Python string takes many times as much.
_LONGEST_LINE = 1 << 24


@contextmanager
def text_of(path: Path) -> Iterator[io.TextIOWrapper]:
    """A file of text."""
    with opened(path) as content, _text(content) as file:
        yield file


@contextmanager
def _text(content: Any) -> Iterator[io.TextIOWrapper]:
    file = io.TextIOWrapper(content, "utf-8-sig", newline="")
    try:
        yield file
    finally:
        # What is not ours, as the standard input, stays open.
        file.detach()


class Lines:
    """The lines of a file, which knows at which it is; what comes before the first character is left out."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.number = 0

    def __iter__(self) -> Iterator[Any]:
        while line := self._file.readline(_LONGEST_LINE + 1):
            self.number += 1
            if len(line) > _LONGEST_LINE:
                raise ValueError(f"line {self.number} is longer than {_LONGEST_LINE:,} bytes")
            yield line[3:] if self.number == 1 and line[:3] == b"\xef\xbb\xbf" else line


class _Content:
    """The rows of a file and its first, which tells what the columns are."""

    def __init__(self, file: Any, delimiter: str, label: str | int | None, model: Any = None) -> None:
        lines = csv.reader(Lines(file), delimiter=delimiter, skipinitialspace=True, strict=True)
        #: The number of a line, and its cells.
        self.rows = ((lines.line_num, cells) for cells in lines if cells)
        first = next(self.rows, None)
        if first is None:
            raise ValueError("it holds no examples")
        self.first_line, self.first = first
        self.n_columns = len(self.first)
        #: The number of the label's column, if there is one.
        self.column = label_column(self.first, label, model)
        self.header = _without(self.first, self.column)
        if not self.header:
            raise ValueError("it has no feature beside the label; is the delimiter right?")
        #: Whether the first line is a header, as far as it tells itself.
        self.headed = isinstance(label, str) or not any(map(_is_number, self.header))

    def check_width(self, line: int, cells: list[str]) -> None:
        if len(cells) != self.n_columns:
            raise ValueError(
                f"line {line} has {len(cells)} columns, line {self.first_line} has {self.n_columns}"
            )


def read_csv(
    path: Path, delimiter: str, label: str | int | None, model: Any
) -> tuple[np.ndarray, np.ndarray | None, list[str] | None]:
    """Features, labels if there are any, and the names of the features if there is a header."""
    with text_of(path) as file:
        content = _Content(file, delimiter, label, model)
        reader = _CsvRows(content)
        headed = content.headed
        if not headed:
            reader.add(content.first_line, content.first)
        for line, cells in content.rows:
            reader.add(line, cells)
    words = model.classes_ if model is not None and model.classes_.dtype.kind in "UO" else []
    if not headed and _heads(reader.labels) and reader.labels[0] not in words:
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
            if label not in names and any(map(_is_number, names)):
                said = reprlib.repr(", ".join(names))
                raise ValueError(
                    f"it has no header to name a column {label!r}: its first line is {said}; give the number of "
                    "the column"
                )
            count = names.count(label)
            raise ValueError(f"it has {count} columns {label!r}; it has {', '.join(names)}")
        return names.index(label)
    if not -n <= label < n:
        raise ValueError(f"it has {n} columns, none of number {label}")
    return label % n


def _heads(labels: Sequence[str]) -> bool:
    """Whether the first of the labels is a heading: the one that is a word, where the others are numbers."""
    if len(labels) < 2 or not any(map(str.isalpha, labels[0])):
        return False
    numbers = map(_is_number, labels)
    return not next(numbers) and all(numbers)


def _without(cells: list[str], column: int | None) -> list[str]:
    return [cell.strip() for i, cell in enumerate(cells) if i != column]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


#: So many digits that an int64 may hold it.
_WHOLE = re.compile("[+-]?[0-9]{1,19}")


class _CsvRows:
    """Gathers the rows of a text file, and knows which line and column is at fault."""

    def __init__(self, content: _Content) -> None:
        self.content, self.column = content, content.column
        self.n_features = len(content.header)
        self.values = array("d")
        self.labels: list[str] = []
        # Few labels are different: one string for each will do.
        self.kinds: dict[str, str] = {}
        self.lines = array("q")

    def add(self, line: int, cells: list[str]) -> None:
        self.content.check_width(line, cells)
        self.add_label(line, cells)
        try:
            self.values.extend(map(float, cells))
        except ValueError:
            bad = next(i for i, cell in enumerate(cells) if not _is_number(cell))
            cell = cells[bad].strip()
            fault = f"{cell!r} is not a number" if cell else "the value is missing"
            raise ValueError(f"{self.place(-1, self.column_of(bad))}: {fault}") from None

    def add_label(self, line: int, cells: list[str]) -> None:
        """Takes the label from the cells of a line."""
        self.lines.append(line)
        if self.column is not None:
            label = cells.pop(self.column).strip()
            self.labels.append(self.kinds.setdefault(label, label))

    def column_of(self, feature: int) -> int:
        return feature + (self.column is not None and feature >= self.column)

    def place(self, row: int, column: int) -> str:
        return f"line {self.lines[row]}, column {column + 1}"

    def drop_first(self) -> None:
        del self.values[: self.n_features], self.labels[0], self.lines[0]

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
        column = self.column
        if column is None:
            return None
        kinds = set(self.labels)
        if "" in kinds:
            row = self.labels.index("")
            raise ValueError(f"{self.place(row, column)}: the label is missing")
        kind = kind or _kind_of(kinds)
        if kind == "text":
            return np.array(self.labels)
        if kind == "whole":
            return np.array(list(map(int, self.labels)), dtype=np.int64)
        y = np.array(list(map(float, self.labels)))
        if not np.isfinite(y).all():
            row = int(np.flatnonzero(~np.isfinite(y))[0])
            place = self.place(row, column)
            raise ValueError(f"{place}: the label {y[row]} is not a finite number")
        return y


def _kind_of(labels: Iterable[str]) -> str:
    """Whether labels are "whole" numbers, "numbers", or "text"."""
    if not all(map(_is_number, labels)):
        return "text"
    return "whole" if all(_WHOLE.fullmatch(label) and abs(int(label)) < 2**63 for label in labels) else "numbers"


#: Values of a piece, about, and the most labels that are held to know of what kind they are.
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
        dtype: Any = np.float64,
        hasher: Hasher | None = None,
    ) -> None:
        super().__init__(os.fspath(path))
        self._path, self._delimiter, self._label = path, delimiter, label
        self._dtype, self._hasher = np.dtype(dtype), hasher
        if self.name == "-":
            raise ValueError("the standard input must be in svmlight's format to be read in batches, not CSV or TSV")
        self.n_bytes = size_of(path)
        self._headed, self._kind = False, ""

    def prepare(self, report: Callable[[], None] = lambda: None) -> None:
        if self._n_features is not None:
            return
        with self._content() as (content, file):
            n_rows, first, found = 0, "", _Kinds()
            self._headed = content.headed
            if not content.headed:
                n_rows = 1
                first = "" if content.column is None else content.first[content.column].strip()
            for line, cells in content.rows:
                content.check_width(line, cells)
                if content.column is not None:
                    label = cells[content.column].strip()
                    if not label:
                        raise ValueError(f"line {line}, column {content.column + 1}: the label is missing")
                    found.add(label)
                n_rows += 1
                if n_rows % 4096 == 0:
                    self.read_bytes = position(file) or 0
                    report()
        if not content.headed and content.column is not None:
            if n_rows > 1 and found.kind() != "text" and _heads([first, "0"]):
                self._headed, n_rows = True, n_rows - 1
            elif not first:
                place = f"{self.name}: line {content.first_line}, column {content.column + 1}"
                raise ValueError(f"{place}: the label is missing")
            else:
                found.add(first)
        if not n_rows:
            raise ValueError(f"{self.name}: it holds no examples, only a header")
        self._kind, self.n_rows = found.kind(), n_rows
        self._n_features = self._hasher.n_features if self._hasher else len(content.header)

    @contextmanager
    def _content(self) -> Iterator[tuple[_Content, Any]]:
        self.read_bytes = 0
        with naming(self._path), opened(self._path) as packed:
            if not packed.seekable():
                raise ValueError("a pipe must be in svmlight's format to be read in batches, not CSV or TSV")
            with _text(packed) as file:
                yield _Content(file, self._delimiter, self._label), packed

    def _pieces(self, skip: int) -> Iterator[Batch]:
        with self._content() as (content, file):
            rows: Iterator[tuple[int, list[str]]] = content.rows
            if not self._headed:
                rows = itertools.chain([(content.first_line, content.first)], rows)
            rows = itertools.islice(rows, skip, None)
            size = max(1, _PIECE // len(content.header))
            names = content.header if self._headed else [str(k) for k in range(len(content.header))]
            while some := list(itertools.islice(rows, size)):
                self.read_bytes = position(file) or 0
                reader = _CsvRows(content)
                if self._hasher:
                    yield self._hashed(content, reader, names, some)
                    continue
                for line, cells in some:
                    reader.add(line, cells)
                X, y = reader.arrays(kind=self._kind)
                yield self._cast(X, reader), y

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
            for feature, cell in enumerate(map(str.strip, cells)):
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

    def add(self, label: str) -> None:
        self._known.add(label)
        if len(self._known) > _KINDS:
            self._kind = self.kind()
            self._known.clear()

    def kind(self) -> str:
        kinds = ["whole", "numbers", "text"]
        return max(self._kind, _kind_of(self._known), key=kinds.index)
