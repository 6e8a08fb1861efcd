"""Columns of a table that are asked for by their names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.feather
import pyarrow.parquet
import pytest
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer
from test_sources import DENSE, NAMES, WORDS, D, N, whole

from pegasos._sources import open_source
from pegasos.io import read, stream


def mixed(folder: Path, ending: str) -> Path:
    """A table of words beside numbers, which only some are to see."""
    columns = {"id": [f"no {k}" for k in range(N)]} | {name: DENSE[:, k] for k, name in enumerate(NAMES)}
    table, path = pyarrow.table(columns | {"label": WORDS}), folder / f"a.{ending}"
    if ending == "parquet":
        pyarrow.parquet.write_table(table, path, row_group_size=300)
    elif ending == "feather":
        pyarrow.feather.write_feather(table, str(path))
    else:
        between = "," if ending == "csv" else "\t"
        rows = zip(*(map(str, column) for column in table.to_pydict().values()), strict=True)
        path.write_text("".join(between.join(row) + "\n" for row in [tuple(table.column_names), *rows]))
    return path


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "feather"])
@pytest.mark.parametrize("places", [[0], [3, 1], [4, 3, 2, 1, 0]])
@pytest.mark.parametrize("label", [-1, "label", None])
def test_columns(ending: str, places: list[int], label: Any, tmp_path: Path) -> None:
    path, names = mixed(tmp_path, ending), [NAMES[k] for k in places]
    source = open_source(path, columns=names, label=label)
    assert source.n_features == len(names)
    X, y = whole(list(source.batches(100)))
    np.testing.assert_array_equal(X, DENSE[:, places])
    np.testing.assert_array_equal(y, WORDS if label is not None else None)
    table = read(path, columns=np.array(names), label=label)
    np.testing.assert_array_equal(table.X, X)
    np.testing.assert_array_equal(table.y, y)
    if ending in ("csv", "tsv"):
        assert table.feature_names == names
    cached = [whole(list(stream(path, columns=some, label=label, cache=tmp_path / "kept"))) for some in (names, tuple(names))]
    for found, labels in cached:
        np.testing.assert_array_equal(found, X)
        np.testing.assert_array_equal(labels, y)
    with pytest.warns(UserWarning, match="written anew"):
        assert whole(list(stream(path, columns=NAMES, label=label, cache=tmp_path / "kept")))[0].shape == (N, D)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_columns_of_words_are_hashed(ending: str, tmp_path: Path) -> None:
    path = mixed(tmp_path, ending)
    X, _ = next(stream(path, 3, columns=[NAMES[1], "id"], hashing=64))
    records = [{NAMES[1]: DENSE[k, 1], "id": f"no {k}"} for k in range(3)]
    np.testing.assert_array_equal(X.toarray(), FeatureHasher(64).transform(records).toarray())
    X, _ = next(stream(path, 3, columns=["id"], hashing=HashingVectorizer(n_features=64)))
    assert X.shape == (3, 64)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (["c0", "z"], {}, "it has 0 columns 'z'; it has id, c0, c1, c2, c3, c4, label"),
        (["c0", "label"], {}, "column 'label' holds the labels, it cannot be among columns; .* label must be None"),
        (["c0", "c1"], {"label": "c0"}, "column 'c0' holds the labels"),
        (["c0", "c1"], {"label": 1}, "column 'c0' holds the labels"),
        (["id", "c1"], {}, "'no 0' is not a number|column 'id' holds strings"),
    ],
)
def test_columns_that_are_none(columns: Any, options: Any, ending: str, message: str, tmp_path: Path) -> None:
    path = mixed(tmp_path, ending)
    for call in (lambda: list(stream(path, columns=columns, **options)), lambda: read(path, columns=columns, **options)):
        with pytest.raises(ValueError, match=f"a.{ending}: .*({message})"):
            call()


def test_columns_with_one_name(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b,a,y\n1,2,3,0\n4,5,6,1\n")
    assert read(tmp_path / "a.csv", columns=["b"]).X.tolist() == [[2.0], [5.0]]
    with pytest.raises(ValueError, match="a.csv: it has 2 columns 'a'"):
        read(tmp_path / "a.csv", columns=["a"])


def test_columns_need_names(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,2,0\n3,4,1\n")
    with pytest.raises(ValueError, match="it has no header to name a column 'x': its first line is '1, 2, 0'"):
        read(tmp_path / "a.csv", columns=["x"])
    # What is asked for is there, and is a header.
    assert read(tmp_path / "a.csv", columns=["2"]).X.tolist() == [[4.0]]
