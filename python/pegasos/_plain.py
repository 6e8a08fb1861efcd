"""Blocks of plain CSV, which pyarrow reads many times as fast as Python does, to the same numbers and labels."""

from __future__ import annotations

import codecs
import csv
import re
from typing import Any, NamedTuple

import numpy as np


class Plain(NamedTuple):
    """The rows of a block, one in each of its lines."""

    n_rows: int
    """How many there are."""
    X: np.ndarray | None
    """Their features, of shape (n_rows, n_features), all of them finite; None if nobody asks for them."""
    kinds: list[str]
    """The labels, in the order in which they first come; none of them empty."""
    codes: np.ndarray | None
    """Each row's label, as its place in ``kinds``; None if there are none."""


#: Rows of a block, at least: where there are fewer, columns cost more than what they hold.
_LEAST = 32

#: A carriage return that ends a line by itself.
_LONE_RETURN = re.compile(rb"\r(?!\n)")


def plain_reader(delimiter: str, n_columns: int, label: int | None, features: list[int]) -> PlainReader | None:
    """What reads blocks of so many columns, of which these hold labels and features; None where there is no pyarrow."""
    try:
        import pyarrow.csv
    except ImportError:
        return None
    return PlainReader(pyarrow, delimiter, n_columns, label, features)


class PlainReader:
    """Reads whole lines of numbers and a label through pyarrow, where it is sure that Python makes the same of them.

    Of a block with a line that is blank or of another length, a number that is not finite or not spelled as both spell
    them, a label that is missing, or quotes but around a whole cell it says nothing.
    """

    def __init__(
        self, pyarrow: Any, delimiter: str, n_columns: int, label: int | None, features: list[int]
    ) -> None:
        self._pyarrow, self._ends = pyarrow, (delimiter.encode(), b"\n")
        names = [str(k) for k in range(n_columns)]
        self._label = None if label is None else names[label]
        self._features = [names[k] for k in features]
        types = dict.fromkeys(self._features, pyarrow.float64())
        if self._label is not None:
            types[self._label] = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
        options = pyarrow.csv
        # By one thread, as a block is too short for several, and in no blocks of its own.
        self._reading = options.ReadOptions(column_names=names, use_threads=False, block_size=2**31 - 1)
        self._parsing = options.ParseOptions(delimiter=delimiter, quote_char=False)
        given: dict[str, Any] = {"column_types": types, "null_values": [], "strings_can_be_null": False}
        self._all = options.ConvertOptions(**given, include_columns=list(types))
        # One column at least, for pyarrow takes none for all.
        self._least = options.ConvertOptions(**given, include_columns=[self._label or self._features[0]])

    def read(self, block: bytes, *, features: bool) -> Plain | None:
        """The rows of a block, with their features or without; None if it is not plain, or has but a few rows."""
        # In a fifth of the time of `bytes.count`.
        n_rows = int(np.count_nonzero(np.frombuffer(block, np.uint8) == ord("\n"))) + (not block.endswith(b"\n"))
        if n_rows < _LEAST or self._has_long_cells(block):
            return None
        if b'"' in block:
            if not self._has_plain_quotes(block):
                return None
            block = block.translate(None, b'"')
        # pyarrow passes over a byte-order mark wherever it begins.
        if _LONE_RETURN.search(block) or block.startswith(codecs.BOM_UTF8):
            return None
        try:
            if not block.isascii():
                block.decode()
            options = self._all if features else self._least
            table = self._pyarrow.csv.read_csv(
                self._pyarrow.BufferReader(block), self._reading, self._parsing, options
            )
        except ValueError:
            # Python says better what is wrong, if anything is.
            return None
        kinds, codes = self._labels_of(table)
        # Without those that are blank there are fewer rows.
        if table.num_rows != n_rows or "" in kinds:
            return None
        if not features:
            return Plain(n_rows, None, kinds, codes)
        X = np.empty((n_rows, len(self._features)))
        for k, name in enumerate(self._features):
            X[:, k] = _numbers(table.column(name).combine_chunks(), np.float64)
        return Plain(n_rows, X, kinds, codes) if np.isfinite(X).all() else None

    def _has_plain_quotes(self, block: bytes) -> bool:
        """Whether all quotes stand around whole cells, in which there is something, but nothing that needs them."""
        read = np.frombuffer(block, np.uint8)
        is_end, is_quote = np.isin(read, np.frombuffer(b"\r".join(self._ends), np.uint8)), read == ord('"')
        quotes = np.flatnonzero(is_quote)
        if len(quotes) % 2:
            return False
        first, last = quotes[::2], quotes[1::2]
        # With an end before the block and one behind.
        around = np.concatenate([[True], is_end, [True]])
        # Odd from the first of two on and until the second, though it overflows.
        is_inside = np.cumsum(is_quote, dtype=np.uint8) & 1
        stand_at_ends = around[first].all() and around[last + 2].all()
        return bool(stand_at_ends and (last - first > 1).all() and not (is_end & is_inside).any())

    def _has_long_cells(self, block: bytes) -> bool:
        """Whether there may be a cell that is too long for Python: it would hold one of these stretches."""
        stretch = max(1, csv.field_size_limit() // 2)
        return any(
            all(block.find(end, start, start + stretch) < 0 for end in self._ends)
            for start in range(0, len(block) - stretch, stretch)
        )

    def _labels_of(self, table: Any) -> tuple[list[str], np.ndarray | None]:
        if self._label is None:
            return [], None
        found = table.column(self._label).combine_chunks()
        return [label.strip() for label in found.dictionary.to_pylist()], _numbers(found.indices, np.int32)


def _numbers(array: Any, dtype: Any) -> np.ndarray:
    """What an array of pyarrow holds, of which nothing is missing; its own ``to_numpy`` would import pandas."""
    return np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * np.dtype(dtype).itemsize)
