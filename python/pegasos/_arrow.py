"""Tables that pyarrow reads, in batches: Parquet, Arrow and Feather files, folders of them, tables and datasets."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from pegasos._files import naming
from pegasos._sources import Batch, Source, features_of

if TYPE_CHECKING:
    from pegasos._hashing import Hasher

#: Values of a piece, about.
_PIECE = 1 << 18


def _pyarrow() -> Any:
    try:
        import pyarrow.dataset
    except ImportError:
        raise ImportError('Parquet and Arrow files need pyarrow: pip install "pegasos[arrow]"') from None
    return pyarrow


class ArrowSource(Source):
    """The rows of a file, a folder of files, a table or a dataset: a column of labels, of the others all or some."""

    def __init__(
        self,
        origin: Any,
        *,
        format: str = "parquet",
        label: str | int | None = -1,
        columns: list[str] | None = None,
        dtype: Any = np.float64,
        hasher: Hasher | None = None,
    ) -> None:
        is_path = isinstance(origin, str | os.PathLike)
        super().__init__(os.fspath(origin) if is_path else f"the {type(origin).__name__} of pyarrow")
        self._is_path = is_path
        if self.name == "-":
            raise ValueError("the standard input must be in svmlight's format to be read in batches, not Parquet")
        self._origin, self._format, self._label, self._chosen = origin, format, label, columns
        self._dtype, self._hasher = np.dtype(dtype), hasher
        self._pyarrow = _pyarrow()
        self._dataset: Any = None
        self._columns: list[str] = []
        self._target: str | None = None

    def prepare(self, report: Callable[[], None] = lambda: None) -> None:
        if self._n_features is not None:
            return
        with naming(self.name):
            self._dataset = self._opened()
            self.n_rows = self._dataset.count_rows()
            if not self.n_rows:
                raise ValueError("it holds no examples")
            self._columns, self._target = self._roles(self._dataset.schema)
        self._n_features = self._hasher.n_features if self._hasher else len(self._columns)
        self.names = None if self._hasher else self._columns

    def _opened(self) -> Any:
        dataset = self._pyarrow.dataset
        if not self._is_path:
            return self._origin if isinstance(self._origin, dataset.Dataset) else dataset.dataset(self._origin)
        # In the system's words, if there is none.
        os.stat(self.name)
        if not os.path.isdir(self.name):
            found = dataset.dataset(self.name, format=self._format)
        else:
            found = dataset.dataset(self.name, format=self._format, partitioning="hive")
        self.n_bytes = sum(os.stat(file).st_size for file in found.files)
        return found

    def files(self) -> list[str]:
        """The files that it is read from, in their order."""
        self.prepare()
        return list(getattr(self._dataset, "files", []))

    def _roles(self, schema: Any) -> tuple[list[str], str | None]:
        """The columns of features, and that of the label."""
        names, label = list(schema.names), self._label
        if isinstance(label, str):
            if names.count(label) != 1:
                raise ValueError(f"it has {names.count(label)} columns {label!r}; it has {', '.join(names)}")
            label = names.index(label)
        elif label is not None:
            if not -len(names) <= label < len(names):
                raise ValueError(f"it has {len(names)} columns, none of number {label}")
            label %= len(names)
        columns = [names[k] for k in features_of(self._chosen, names, label)]
        if len(set(names)) < len(names):
            raise ValueError(f"two of its columns have one name: {', '.join(names)}")
        if not columns:
            raise ValueError("it has no feature beside the label")
        if self._hasher:
            self._hasher.check(columns)
        for name in columns:
            self._check(name, schema.field(name).type)
        return columns, None if label is None else names[label]

    def _check(self, name: str, type: Any) -> None:
        """Refuses a column that is no feature."""
        if _is_text(self._pyarrow, type):
            if self._hasher is None:
                raise ValueError(
                    f"column {name!r} holds strings; hashing=2**18, say, makes features of them"
                )
        elif not _is_number(self._pyarrow, type):
            raise ValueError(f"column {name!r} is of type {type}; features must be numbers, or strings that are hashed")
        elif self._hasher is not None and not self._hasher.takes_numbers:
            raise ValueError(f"column {name!r} holds numbers, a HashingVectorizer takes texts")

    def _pieces(self, skip: int) -> Iterator[Batch]:
        assert self.n_rows is not None
        columns = self._columns if self._target is None else [*self._columns, self._target]
        size = max(1, _PIECE // len(columns))
        row = 0
        with naming(self.name):
            for fragment, n in self._fragments():
                if row + n <= skip:
                    row += n
                    continue
                options = {"columns": columns, "batch_size": size, "batch_readahead": 1, "fragment_readahead": 1}
                for batch in fragment.to_batches(schema=self._dataset.schema, **options):
                    out = min(max(0, skip - row), batch.num_rows)
                    row += out
                    if out < batch.num_rows:
                        batch = batch.slice(out)
                        X = self._features(batch, row)
                        y = None if self._target is None else self._labels(batch.column(len(self._columns)), row)
                        row += batch.num_rows
                        if self.n_bytes is not None:
                            self.read_bytes = self.n_bytes * row // self.n_rows
                        yield X, y

    def _fragments(self) -> Iterator[tuple[Any, int]]:
        """Parts of the dataset that hold as few rows as can be read by themselves, and how many."""
        for fragment in self._dataset.get_fragments():
            if hasattr(fragment, "split_by_row_group"):
                for part in fragment.split_by_row_group():
                    yield part, sum(group.num_rows for group in part.row_groups)
            else:
                yield fragment, fragment.count_rows()

    def _features(self, batch: Any, row: int) -> Any:
        columns = [self._plain(batch.column(k), row, name) for k, name in enumerate(self._columns)]
        if self._hasher:
            for column, name in zip(columns, self._columns, strict=True):
                if _is_number(self._pyarrow, column.type):
                    self._numbers(column, row, name)
            records = [list(record) for record in zip(*(column.to_pylist() for column in columns), strict=True)]
            return self._hasher.rows(self._columns, records)
        X = np.empty((batch.num_rows, len(columns)), self._dtype)
        for k, (column, name) in enumerate(zip(columns, self._columns, strict=True)):
            X[:, k] = self._numbers(column, row, name)
        return X

    def _numbers(self, column: Any, row: int, name: str) -> np.ndarray:
        """A column's numbers, finite and in the dtype of features."""
        if self._pyarrow.types.is_decimal(column.type):
            column = column.cast(self._pyarrow.float64())
        values = column.to_numpy(zero_copy_only=False)
        with np.errstate(over="ignore"):
            cast = values.astype(self._dtype, copy=False)
        if not (finite := np.isfinite(cast)).all():
            k = int(np.argmin(finite))
            fault = f"too large for {self._dtype}" if np.isfinite(values[k]) else "not a finite number"
            raise ValueError(f"row {row + k}, column {name!r}: {values[k]} is {fault}")
        return cast

    def _plain(self, column: Any, row: int, name: str) -> Any:
        """A column of which all values are there."""
        if self._pyarrow.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if column.null_count:
            k = int(np.argmin(column.is_valid().to_numpy(zero_copy_only=False)))
            raise ValueError(f"row {row + k}, column {name!r}: the value is missing")
        return column

    def _labels(self, column: Any, row: int) -> np.ndarray:
        assert self._target is not None
        column = self._plain(column, row, self._target)
        types = self._pyarrow.types
        if _is_text(self._pyarrow, column.type):
            return np.array(column.to_pylist(), dtype=str)
        if types.is_integer(column.type) or types.is_boolean(column.type):
            return np.asarray(column.to_numpy(zero_copy_only=False))
        if types.is_floating(column.type):
            y = np.asarray(column.to_numpy(zero_copy_only=False))
            if not (finite := np.isfinite(y)).all():
                k = int(np.argmin(finite))
                raise ValueError(f"row {row + k}, column {self._target!r}: the label {y[k]} is not a finite number")
            return y
        raise ValueError(f"column {self._target!r} is of type {column.type}; labels must be numbers or strings")


def _is_text(pyarrow: Any, type: Any) -> bool:
    types = pyarrow.types
    if types.is_dictionary(type):
        return _is_text(pyarrow, type.value_type)
    views = getattr(types, "is_string_view", lambda _: False)
    return bool(types.is_string(type) or types.is_large_string(type) or views(type))


def _is_number(pyarrow: Any, type: Any) -> bool:
    types = pyarrow.types
    if types.is_dictionary(type):
        return _is_number(pyarrow, type.value_type)
    return bool(types.is_integer(type) or types.is_floating(type) or types.is_boolean(type) or types.is_decimal(type))
