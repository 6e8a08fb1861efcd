"""Batches of every source are what `read` makes of it, from any row on; what is wrong is told by its place."""

from __future__ import annotations

import gzip
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer

from pegasos import PegasosClassifier
from pegasos._passes import passes
from pegasos._sources import Pairs, Source, open_source, stacked
from pegasos.io import load_svmlight, read, stream

N, D = 2011, 5
RANDOM = np.random.default_rng(0)
DENSE = np.round(RANDOM.normal(size=(N, D)), 6)
LABELS = RANDOM.integers(0, 3, N)
WORDS = np.array(["east", "north", "west"])[LABELS]
SPARSE = sp.random(N, 40, 0.1, format="csr", random_state=1)
NAMES = [f"c{k}" for k in range(D)]
TABLE = pyarrow.table({**dict(zip(NAMES, DENSE.T, strict=True)), "label": WORDS})


def lines(X: np.ndarray, labels: Any, delimiter: str) -> Iterator[str]:
    return (delimiter.join([*map(repr, row), str(label)]) + "\n" for row, label in zip(X.tolist(), labels, strict=True))


def write_svm(path: Path) -> None:
    rows = (
        f"{label} " + " ".join(f"{j + 1}:{v!r}" for j, v in zip(row.indices, row.data.tolist(), strict=True))
        for label, row in zip(LABELS, SPARSE, strict=True)
    )
    path.write_text("\n".join(rows))


def write_packed(path: Path) -> None:
    write_svm(path)
    path.write_bytes(gzip.compress(path.read_bytes()))


def write_folder(path: Path) -> None:
    path.mkdir()
    pyarrow.parquet.write_table(TABLE[:1000], path / "0.parquet", row_group_size=300)
    pyarrow.parquet.write_table(TABLE[1000:], path / "1.parquet")


def write_sparse(path: Path) -> None:
    parts = {name: getattr(SPARSE, name) for name in ("data", "indices", "indptr", "shape")}
    np.savez_compressed(path, y=LABELS, format=b"csr", **parts)


#: How files are written, and what they hold.
FILES: dict[str, tuple[Callable[[Path], Any], Any, Any]] = {
    "a.svm": (write_svm, SPARSE, LABELS),
    "a.svm.gz": (write_packed, SPARSE, LABELS),
    "a.csv": (lambda path: path.write_text("".join(lines(DENSE, LABELS, ","))), DENSE, LABELS),
    "a.tsv": (
        lambda path: path.write_text("\t".join([*NAMES, "label"]) + "\n" + "".join(lines(DENSE, WORDS, "\t"))), DENSE, WORDS
    ),
    "a.npy": (lambda path: np.save(path, np.c_[DENSE, LABELS]), DENSE, LABELS),
    "a.npz": (lambda path: np.savez(path, X=DENSE, y=WORDS), DENSE, WORDS),
    "packed.npz": (lambda path: np.savez_compressed(path, X_train=DENSE, y_train=LABELS), DENSE, LABELS),
    "sparse.npz": (write_sparse, SPARSE, LABELS),
    "a.parquet": (lambda path: pyarrow.parquet.write_table(TABLE, path, row_group_size=300), DENSE, WORDS),
    "a.feather": (lambda path: pyarrow.feather.write_feather(TABLE, str(path), chunksize=300), DENSE, WORDS),
    "folder": (write_folder, DENSE, WORDS),
}


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def written(name: str) -> Path:
        FILES[name][0](tmp_path / name)
        return tmp_path / name

    return written


def whole(batches: list[Any]) -> tuple[np.ndarray, Any]:
    """Batches one below the other, dense."""
    X, y = stacked(batches)
    return X.toarray() if sp.issparse(X) else X, y


def check_batches(source: Source, X: Any, y: Any) -> None:
    """From any row on, in batches of one size."""
    X = X.toarray() if sp.issparse(X) else X
    assert source.n_features == X.shape[1]
    for skip in (0, 1, 300, 1234, N - 1):
        batches = list(source.batches(100, skip))
        assert [len(labels) for _, labels in batches[:-1]] == [100] * ((N - skip - 1) // 100)
        found, labels = whole(batches)
        np.testing.assert_array_equal(found, X[skip:])
        np.testing.assert_array_equal(labels, y[skip:])
    assert source.n_rows == N
    for skip in (N, N + 1):
        assert list(source.batches(100, skip)) == []


@pytest.mark.parametrize("name", FILES)
def test_files(name: str, write: Callable[[str], Path]) -> None:
    path = write(name)
    source = open_source(path)
    check_batches(source, *FILES[name][1:])
    size = sum(file.stat().st_size for file in path.iterdir()) if path.is_dir() else path.stat().st_size
    assert source.n_bytes == size
    read_bytes = 0
    for _ in source.batches(500):
        assert read_bytes <= source.read_bytes <= size
        read_bytes = source.read_bytes
    assert read_bytes == size
    X, y = next(stream(path, 7, dtype=np.float32))
    assert X.dtype == np.float32 and X.shape[0] == 7
    if FILES[name][2] is LABELS or name.endswith("npz"):
        assert next(stream(path, 7, label=None))[1] is None


@pytest.mark.parametrize("name", ["a.svm", "a.svm.gz", "a.csv", "a.tsv", "a.npz", "sparse.npz"])
def test_batches_are_what_read_makes(name: str, write: Callable[[str], Path]) -> None:
    path = write(name)
    X, y, _ = read(path)
    found, labels = stacked(list(stream(path, 300)))
    assert found.dtype == X.dtype and labels.dtype == y.dtype
    if sp.issparse(X):
        assert all((getattr(X, part) == getattr(found, part)).all() for part in ("data", "indices", "indptr"))
    else:
        np.testing.assert_array_equal(found, X)
    np.testing.assert_array_equal(labels, y)


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("1,2,a\n3,4,b\n", -1),
        ("x,y,kind\n1,2,a\n3,4,b\n", -1),
        ("x,y,kind\n1,2,0\n3,4,1\n", "kind"),
        ("1,2,kind\n3,4,0\n5,6,1\n", -1),
        ("1,2,kind\n3,4,0\n5,6,x\n", -1),
        ("1,2,0.5\n3,4,1\n", -1),
        ("0,1,2\n\n1,3,4\n", 0),
        ("1,2,9223372036854775807\n3,4,-1\n", -1),
        ('1, "2","a, b"\n3,1e1,"c\nd"\n5,6,\xe9\n', -1),
        ("1,2,7\n", -1),
    ],
)
def test_csv_is_read_as_by_read(text: str, label: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text, encoding="utf-8")
    X, y, _ = read(path, label=label)
    batches = list(stream(path, 1, label=label))
    assert len(batches) == len(y)
    found, labels = stacked(batches)
    np.testing.assert_array_equal(found, X)
    assert labels.tolist() == y.tolist() and labels.dtype.kind == y.dtype.kind


def test_shapes_below_0(tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", np.zeros((2, 3)))
    whole = (tmp_path / "X.npy").read_bytes()
    (tmp_path / "X.npy").write_bytes(whole.replace(b"(2, 3), }  ", b"(-2, -3), }"))
    with pytest.raises(ValueError, match="is damaged"):
        read(tmp_path / "X.npy", label=None)


def test_labels_of_arrays(tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", DENSE)
    np.save(tmp_path / "y.npy", WORDS)
    check_batches(open_source(tmp_path / "X.npy", label=tmp_path / "y.npy"), DENSE, WORDS)
    np.save(tmp_path / "swapped.npy", np.c_[DENSE, LABELS].astype(">f4"))
    X, y = next(stream(tmp_path / "swapped.npy", 10, dtype=np.float32, cache=True))
    assert X.dtype.isnative and y.dtype.isnative
    np.testing.assert_array_equal(X, DENSE[:10].astype(np.float32))
    np.testing.assert_array_equal(y, LABELS[:10])
    X, y = next(stream(tmp_path / "X.npy", 10, label=0))
    np.testing.assert_array_equal(X, DENSE[:10, 1:])
    np.testing.assert_array_equal(y, DENSE[:10, 0])


def test_tables_of_every_type(tmp_path: Path) -> None:
    columns = {
        "flag": pyarrow.array([True, False, True]),
        "small": pyarrow.array([1, 2, 3], pyarrow.int8()),
        "half": pyarrow.array(np.array([0.5, 1, 2], np.float16)),
        "price": pyarrow.array([1, 2, 3]).cast(pyarrow.decimal128(30, 2)),
        "code": pyarrow.array([7, 8, 7]).dictionary_encode(),
        "label": pyarrow.array(["a", "b", "a"]).dictionary_encode(),
    }
    want = [[1, 1, 0.5, 1, 7], [0, 2, 1, 2, 8], [1, 3, 2, 3, 7]]
    for table in (pyarrow.table(columns), pyarrow.dataset.dataset(pyarrow.table(columns))):
        X, y = next(stream(table))
        assert X.tolist() == want and y.tolist() == ["a", "b", "a"]
    for label, kind in (("flag", "b"), ("small", "i"), ("code", "i"), ("half", "f")):
        table = pyarrow.table(columns).select([name for name in columns if name != "label"])
        assert next(stream(table, label=label))[1].dtype.kind == kind
    # Folders by a column.
    pyarrow.dataset.write_dataset(
        TABLE, tmp_path / "hive", partitioning=["label"], partitioning_flavor="hive", format="parquet"
    )
    X, y = whole(list(stream(tmp_path / "hive", 100, label="label")))
    order = np.argsort(WORDS, kind="stable")
    np.testing.assert_array_equal(X, DENSE[order])
    np.testing.assert_array_equal(y, WORDS[order])


def test_strings_are_hashed(tmp_path: Path) -> None:
    rows = [{"colour": "red", "size": 2.5, "where": "left"}, {"colour": "blue", "size": 0.0, "where": "7"}]
    table = pyarrow.table({"label": [0, 1]} | {name: [row[name] for row in rows] for name in rows[0]})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text("label,colour,size,where\n0,red,2.5,left\n1,blue,0.0,up\n")
    want = FeatureHasher(2**10).transform(rows).toarray()
    X, y = next(stream(tmp_path / "a.parquet", label=0, hashing=2**10))
    assert sp.issparse(X) and y.tolist() == [0, 1]
    np.testing.assert_array_equal(X.toarray(), want)
    rows[1]["where"] = "up"
    want = FeatureHasher(2**10, alternate_sign=False).transform(rows).toarray()
    hasher = FeatureHasher(2**10, alternate_sign=False)
    X, y = next(stream(tmp_path / "a.csv", label="label", hashing=hasher, dtype=np.float32))
    assert X.dtype == np.float32 and y.tolist() == [0, 1]
    np.testing.assert_array_equal(X.toarray(), want.astype(np.float32))


@pytest.mark.parametrize("ending", ["tsv", "parquet"])
def test_texts_are_hashed(ending: str, tmp_path: Path) -> None:
    texts, path = ["the cat sat", "on 12 mats", "42"], tmp_path / f"a.{ending}"
    vectorizer = HashingVectorizer(n_features=64)
    if ending == "tsv":
        path.write_text("text\tlabel\n" + "".join(f"{text}\t{k}\n" for k, text in enumerate(texts)))
    else:
        pyarrow.parquet.write_table(pyarrow.table({"text": texts, "label": [0, 1, 2]}), path)
    X, y = next(stream(path, label="label", hashing=vectorizer))
    np.testing.assert_array_equal(X.toarray(), vectorizer.transform(texts).toarray())
    assert y.tolist() == [0, 1, 2]
    # What it learns is what is learned of all at once.
    model = PegasosClassifier(random_state=0).partial_fit(X, y)
    assert model.n_features_in_ == 64


PIECES = [(DENSE[k : k + 37], LABELS[k : k + 37]) for k in range(0, N, 37)]


@pytest.mark.parametrize(
    "origin",
    [
        PIECES,
        lambda: iter(PIECES),
        [(sp.csr_matrix(X), y) for X, y in PIECES],
        [(sp.csc_array(X), y.tolist()) for X, y in PIECES],
        [(np.empty((0, 1)), []), *PIECES],
        [(pandas.DataFrame(X), pandas.Series(y)) for X, y in PIECES],
        [(polars.DataFrame(X), polars.Series(y)) for X, y in PIECES],
        [(pyarrow.table(pandas.DataFrame(X).rename(columns=str)), pyarrow.array(y)) for X, y in PIECES],
        [[X.tolist(), y] for X, y in PIECES],
    ],
)
def test_pairs(origin: Any) -> None:
    check_batches(open_source(origin), DENSE, LABELS)


def test_an_iterator_is_read_once() -> None:
    source = open_source(iter(PIECES))
    assert source.n_features == D and not source.repeatable
    np.testing.assert_array_equal(whole(list(source.batches(50)))[0], DENSE)
    with pytest.raises(ValueError, match="can be read once, and was; for several passes give a list, or a function"):
        next(source.batches(50))
    with pytest.raises(ValueError, match="can be read once, passes must be 1, got 2"):
        stream(iter(PIECES), passes=2)


def test_rows_that_are_not_in_order_are_put_so() -> None:
    X = sp.csr_matrix((np.array([1.0, 2.0, 3.0]), np.array([2, 0, 2]), np.array([0, 3])), shape=(1, 3))
    found, _ = next(stream([(X, [1])]))
    assert found.has_canonical_format
    assert found.indices.tolist() == [0, 2] and found.data.tolist() == [2.0, 4.0]
    # And the caller's stay as they were.
    assert X.indices.tolist() == [2, 0, 2]


def corrupt(matrix: Any, name: str, value: Any) -> Any:
    matrix = matrix.copy()
    setattr(matrix, name, np.asarray(value))
    return matrix


@pytest.mark.parametrize(
    ("pairs", "kind", "message"),
    [
        ([DENSE], TypeError, "the list of batches, pair 1 must be a tuple \\(X, y\\), got ndarray"),
        ([(DENSE,)], TypeError, "pair 1 must be a tuple"),
        ([], ValueError, "the list of batches holds no examples"),
        ([(np.empty((0, 2)), [])], ValueError, "holds no examples"),
        ([PIECES[0], (DENSE[:2], [1])], ValueError, "pair 2: y must have shape \\(2,\\) as X has 2 rows, got \\(1,\\)"),
        ([PIECES[0], (DENSE[:2, :3], [1, 2])], ValueError, "pair 2: X must have 5 features, got 3"),
        ([PIECES[0], (SPARSE[:2, :D], [1, 2])], ValueError, "pair 2: X is sparse, those before are dense"),
        ([PIECES[0], (DENSE[:2], ["a", "b"])], ValueError, "pair 2: y must be as those before"),
        ([PIECES[0], (DENSE[:2], None)], ValueError, "pair 2: y must be as those before"),
        ([(DENSE[0], LABELS[:1])], ValueError, "pair 1: X must have 2 dimensions"),
        ([(np.array([["a"]]), [1])], ValueError, "pair 1: could not convert string to float"),
        ([(DENSE[:1] * 1j, [1])], ValueError, "pair 1: X must hold real numbers"),
        ([(corrupt(SPARSE[:2], "indptr", [0, 9, 3]), [1, 2])], ValueError, "pair 1: .*indptr"),
        ([(corrupt(SPARSE[:1], "indices", [10**6] * SPARSE[:1].nnz), [1])], ValueError, "pair 1: X has no column 1000000"),
        (lambda: 3, TypeError, "the function of batches must return an iterable of pairs \\(X, y\\), got 3"),
        (3, TypeError, "source must be a path, an iterable of pairs \\(X, y\\), or a function that returns one, got 3"),
    ],
)
def test_pairs_that_are_none(pairs: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        list(stream(pairs))


def packed(path: Path, **arrays: Any) -> None:
    np.savez(path, **{"y": LABELS[:2], **arrays})


def truncated(path: Path) -> None:
    np.save(path, DENSE)
    path.write_bytes(path.read_bytes()[:-8])


CSR = {"data": [1.0, 2.0], "indices": [0, 1], "indptr": [0, 1, 2], "shape": [2, 2]}
TWO = np.arange(4.0).reshape(2, 2)

#: The name of a file, how it is written, what is asked for, and what is said.
FAULTS: list[tuple[str, Callable[[Path], Any], dict[str, Any], str]] = [
    ("a.csv", lambda p: p.write_text("x,y,z\n1,2,0\n1,,0\n"), {}, "line 3, column 2: the value is missing"),
    ("a.csv", lambda p: p.write_text("x,y,z\n1,2,0\n1,nan,0\n"), {}, "line 3, column 2: nan is not a finite number"),
    ("a.csv", lambda p: p.write_text("1,2,0\n1,red,0\n"), {}, "line 2, column 2: 'red' is not a number"),
    ("a.csv", lambda p: p.write_text("1,2,0\n1,0\n"), {}, "line 2 has 2 columns, line 1 has 3"),
    ("a.csv", lambda p: p.write_text("1,2,0\n1,3,\n"), {}, "line 2, column 3: the label is missing"),
    ("a.csv", lambda p: p.write_text("1,2,\n1,3,1\n"), {}, "line 1, column 3: the label is missing"),
    ("a.csv", lambda p: p.write_text("1,2,inf\n1,3,1\n"), {}, "line 1, column 3: the label inf is not a finite number"),
    ("a.csv", lambda p: p.write_text("1,1e300,1\n"), {"dtype": np.float32}, "line 1, column 2: 1e\\+300 is too large for float32"),
    ("a.csv", lambda p: p.write_text("a,b,c\n"), {}, "it holds no examples, only a header"),
    ("a.csv", lambda p: p.write_text(""), {}, "it holds no examples"),
    ("a.csv", lambda p: p.write_text("a,b\n1,2\n"), {"label": "c"}, "it has 0 columns 'c'; it has a, b"),
    ("a.csv", lambda p: p.write_text("a,b\nred,1\n,2\n"), {"hashing": 8, "label": "b"}, "line 3, column 1: the value is missing"),
    ("a.csv", lambda p: p.write_text("a,c,b\nx,y,1\n"), {"hashing": HashingVectorizer()}, "takes one column of texts .* got 2: a, c"),
    ("a.npy", lambda p: np.save(p, [[1.0, np.nan], [1, 2]]), {"label": None}, "row 0, column 1: nan is not a finite number"),
    ("a.npy", lambda p: np.save(p, [[1e300, 1]]), {"dtype": np.float32}, "row 0, column 0: 1e\\+300 is too large for float32"),
    ("a.npy", lambda p: np.save(p, [1.0]), {}, "it must hold numbers in two dimensions, got float64 \\(1,\\)"),
    ("a.npy", lambda p: np.save(p, np.array([[None]])), {}, "it holds pickled objects, which are not read"),
    ("a.npy", lambda p: np.save(p, np.asfortranarray(DENSE)), {}, "is in Fortran order"),
    ("a.npy", lambda p: np.save(p, DENSE), {"label": 5}, "it has 5 columns, none of number 5"),
    ("a.npy", lambda p: np.save(p, DENSE), {"label": "kind"}, "it has no column names"),
    ("a.npy", lambda p: np.save(p, np.empty((0, 3))), {}, "it holds no examples"),
    ("a.npy", lambda p: np.save(p, [[1.0]]), {}, "its examples have no features"),
    ("a.npy", truncated, {}, "is damaged: .* bytes cannot be an array of float64 \\(2011, 5\\)"),
    ("a.npy", lambda p: p.write_bytes(b"neither"), {}, "magic string"),
    ("a.npz", lambda p: packed(p, Z=TWO), {}, "it must hold arrays X and y, .* got y, Z"),
    ("a.npz", lambda p: np.savez(p, X=TWO), {}, "it has no array y of labels"),
    ("a.npz", lambda p: packed(p, X=TWO, y=[1]), {}, "y must have shape \\(2,\\), got \\(1,\\)"),
    ("a.npz", lambda p: packed(p, X=TWO, y=[1, np.inf]), {}, "row 1: the label inf is not a finite number"),
    ("a.npz", lambda p: packed(p, X=TWO.astype(str)), {}, "X must hold numbers in two dimensions, got <U32"),
    ("a.npz", lambda p: packed(p, **CSR, format=b"csc"), {}, "must be in format csr, got csc"),
    ("a.npz", lambda p: packed(p, **CSR | {"indptr": [0, 2, 1]}), {}, "indptr is not sound: row 1 ends at 1"),
    ("a.npz", lambda p: packed(p, **CSR | {"indptr": [0, 1, 9]}), {}, "indptr is not sound: row 1 ends at 9"),
    ("a.npz", lambda p: packed(p, **CSR | {"indptr": [1, 1, 2]}), {}, "indptr must begin with 0, got 1"),
    ("a.npz", lambda p: packed(p, **CSR | {"indptr": [0, 2]}), {}, "indptr must have 2 \\+ 1 entries"),
    ("a.npz", lambda p: packed(p, **CSR | {"indices": [0, 2]}), {}, "row 1: there is no column 2, there are 2"),
    ("a.npz", lambda p: packed(p, **CSR | {"indices": [-1, 1]}), {}, "row 0: there is no column -1"),
    ("a.npz", lambda p: packed(p, **CSR | {"data": [1.0, np.nan]}), {}, "row 1, column 1: nan is not a finite number"),
    ("a.npz", lambda p: packed(p, **CSR | {"data": [1.0]}), {}, "data and indices must have one shape"),
    ("a.npz", lambda p: packed(p, **CSR | {"shape": [2, 2, 2]}), {}, "must have two dimensions, got 3"),
    ("a.parquet", lambda p: p.write_bytes(b"PAR1 no"), {}, "arquet"),
    ("a.svm", lambda p: p.write_text("1 1:1\n2 0:1\n3 x\n"), {}, 'line 3, column 3: found "x", want index:value'),
]  # fmt: skip


@pytest.mark.parametrize(("name", "written", "options", "message"), FAULTS, ids=lambda value: value if isinstance(value, str) else "")
def test_faults_have_places(
    name: str, written: Callable[[Path], Any], options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    written(path)
    with pytest.raises(ValueError, match=message) as caught:
        list(stream(path, **options))
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"a": [1.0, None], "b": [0, 1]}, {}, "row 1, column 'a': the value is missing"),
        ({"a": [1.0, np.nan], "b": [0, 1]}, {}, "row 1, column 'a': nan is not a finite number"),
        ({"a": [1.0, 1e300], "b": [0, 1]}, {"dtype": np.float32}, "row 1, column 'a': 1e\\+300 is too large for float32"),
        ({"a": [1.0, 2.0], "b": ["x", None]}, {}, "row 1, column 'b': the value is missing"),
        ({"a": [1.0, 2.0], "b": [1.5, np.inf]}, {}, "row 1, column 'b': the label inf is not a finite number"),
        ({"a": ["x", "y"], "b": [0, 1]}, {}, "column 'a' holds strings; hashing=2\\*\\*18, say"),
        ({"a": [[1], [2]], "b": [0, 1]}, {}, "column 'a' is of type list<"),
        ({"a": [1, 2], "b": [[0], [1]]}, {}, "column 'b' is of type list<.*; labels must be numbers or strings"),
        ({"a": [1, 2], "b": [0, 1]}, {"label": "c"}, "it has 0 columns 'c'; it has a, b"),
        ({"a": [1, 2], "b": [0, 1]}, {"label": 2}, "it has 2 columns, none of number 2"),
        ({}, {}, "it holds no examples"),
        ({"b": [0, 1]}, {}, "it has no feature beside the label"),
        ({"a": pyarrow.array([], pyarrow.int64()), "b": pyarrow.array([], pyarrow.int64())}, {}, "it holds no examples"),
        ({"a": [1, 2], "b": [0, 1]}, {"hashing": HashingVectorizer()}, "column 'a' holds numbers, a HashingVectorizer takes texts"),
        ({"a": [1.0, np.nan], "b": [0, 1]}, {"hashing": 8}, "row 1, column 'a': nan is not a finite number"),
        ({"a": ["x", None], "b": [0, 1]}, {"hashing": 8}, "row 1, column 'a': the value is missing"),
    ],
)
def test_tables_that_are_none(columns: Any, options: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    with pytest.raises(ValueError, match=message) as caught:
        list(stream(path, **options))
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "options", "kind", "message"),
    [
        ("a.csv", {"n_features": 3}, ValueError, "n_features goes with svmlight, pairs, not with csv, which tells it"),
        ("a.npy", {"zero_based": True}, ValueError, "zero_based goes with svmlight, not with npy"),
        ("a.svm", {"hashing": 8}, ValueError, "hashing goes with csv, tsv, parquet, arrow, not with svmlight"),
        ("a.svm", {"columns": ["a"]}, ValueError, "columns goes with csv, tsv, parquet, arrow, not with svmlight"),
        ("a.npz", {"columns": ["a"]}, ValueError, "columns goes with csv, tsv, parquet, arrow, not with npz"),
        ("a.csv", {"columns": "ab"}, TypeError, "columns must be a list of names, got 'ab'"),
        ("a.csv", {"columns": ["a", 1]}, TypeError, "columns must be a list of names, got 1 among them"),
        ("a.csv", {"columns": 3}, TypeError, "columns must be a list of names, got 3"),
        ("a.csv", {"columns": ["a", "b", "a"]}, ValueError, "columns must name each column once, got 'a' 2 times"),
        ("a.csv", {"columns": []}, ValueError, "columns must name one column at least"),
        ("a.svm", {"label": "y"}, ValueError, "there is no column 'y'"),
        ("a.csv", {"label": 1.5}, TypeError, "label must be the name of a column, its number, or None, got 1.5"),
        ("a.npy", {"label": [1]}, TypeError, "label must be the name of a column, its number, or None, got \\[1\\]"),
        ("a.svm", {"format": "xml"}, ValueError, "format must be one of svmlight, csv, .* got 'xml'"),
        ("a.npz", {"dtype": int}, ValueError, "dtype must be float64 or float32"),
        ("a.svm", {"dtype": "long"}, ValueError, "dtype must be float64 or float32, got 'long'"),
        ("a.csv", {"dtype": "wide"}, ValueError, "dtype must be float64 or float32, got 'wide'"),
        ("a.csv", {"cache": 1}, TypeError, "cache must be True, False, None or a path, got 1"),
        ("a.csv", {"hashing": "words"}, TypeError, "hashing must be a number of features, a FeatureHasher or"),
        ("a.csv", {"hashing": 0}, ValueError, "hashing must be at least 1"),
        ("a.csv", {"hashing": FeatureHasher(input_type="string")}, ValueError, "input_type 'dict', got 'string'"),
        ("a.svm", {"passes": 0}, ValueError, "passes must be at least 1"),
        ("a.svm", {"shuffle": 0}, ValueError, "shuffle must be at least 1"),
        ("a.svm", {"shuffle": "yes"}, TypeError, "shuffle must be an int, got 'yes'"),
        ("a.svm", {"skip": -1}, ValueError, "skip must be at least 0"),
        ("a.svm", {"random_state": "x"}, TypeError, "random_state must be an int, got 'x'"),
        ("-", {"format": "csv"}, ValueError, "the standard input must be in svmlight's format"),
        ("-", {"format": "npy"}, ValueError, "the standard input must be in svmlight's format"),
        ("-", {"format": "parquet"}, ValueError, "the standard input must be in svmlight's format"),
    ],
)
def test_arguments(name: str, options: dict[str, Any], kind: type[Exception], message: str) -> None:
    # At once, and before the file is looked for.
    with pytest.raises(kind, match=message):
        stream(name, **options)


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_not_there(name: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list(stream(tmp_path / name, format="parquet" if name == "folder" else None))


def test_without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.dataset", None)
    with pytest.raises(ImportError, match=r'pip install "pegasos\[arrow\]"'):
        stream("a.parquet")


@pytest.mark.parametrize("window", [None, 64, 300, 10_000])
def test_orders(window: int | None) -> None:
    source = Pairs([(np.arange(k, min(k + 37, N))[:, None], np.arange(k, min(k + 37, N))) for k in range(0, N, 37)])
    batches = list(passes(source, 100, n_passes=3, window=window, seed=5))
    orders = np.concatenate([y for _, y in batches]).reshape(3, N)
    np.testing.assert_array_equal(np.concatenate([X.ravel() for X, _ in batches]), orders.ravel())
    assert all(len(y) == 100 for k, (_, y) in enumerate(batches) if k % 21 != 20)
    for order in orders:
        # Rows stay in their windows.
        each = window or 1
        np.testing.assert_array_equal(np.sort(order // each), np.arange(N) // each)
        np.testing.assert_array_equal(order // each, np.arange(N) // each)
        np.testing.assert_array_equal(np.sort(order), np.arange(N))
    assert window is None or (orders[0] != orders[1]).any()
    # From any batch on, whether or not the number of rows is known.
    for k in range(0, len(batches), 5):
        skip = sum(len(y) for _, y in batches[:k])
        for fresh in (source, Pairs(lambda: iter([(orders[:1].T * 0 + np.arange(N)[:, None], np.arange(N))]))):
            rest = list(passes(fresh, 100, n_passes=3, window=window, seed=5, skip=skip))
            assert [y.tolist() for _, y in rest] == [y.tolist() for _, y in batches[k:]]
    other = np.concatenate([y for _, y in passes(source, 100, window=window, seed=6)])
    assert (window is None) == np.array_equal(other, orders[0])


@pytest.mark.parametrize("cache", [False, True])
def test_batches_larger_than_any_file(cache: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.svm"
    path.write_text("1 1:2\n0 3:1\n" * 5)
    for shuffle in (False, True, 2**63 - 1):
        assert [len(y) for _, y in stream(path, 2**63 - 1, shuffle=shuffle, passes=2, cache=cache)] == [10, 10]


def test_seeds() -> None:
    def order(state: Any) -> list[int]:
        return [int(y) for _, labels in stream(PIECES, 99, shuffle=True, random_state=state) for y in labels]

    assert order(3) == order(3) != order(4)
    assert order(np.random.RandomState(0)) == order(np.random.RandomState(0))
    assert order(None) != order(None)


def test_a_run_that_goes_on_is_the_run(tmp_path: Path) -> None:
    path = tmp_path / "a.svm"
    write_svm(path)
    options = {"passes": 3, "shuffle": 500, "random_state": 0}
    one, other = PegasosClassifier(random_state=0), PegasosClassifier(random_state=0)
    for X, y in stream(path, 100, **options):
        one.partial_fit(X, y, classes=[0, 1, 2])
    seen = 0
    for X, y in stream(path, 100, **options):
        other.partial_fit(X, y, classes=[0, 1, 2])
        seen += len(y)
        if seen > 1.5 * N:
            break
    for X, y in stream(path, 100, **options, skip=seen):
        other.partial_fit(X, y)
    np.testing.assert_array_equal(one.coef_, other.coef_)


def test_reading_ahead(tmp_path: Path) -> None:
    """In another thread, which ends with the batches; what goes wrong there is told here, in its turn."""
    path = tmp_path / "a.npy"
    np.save(path, np.c_[DENSE, LABELS])
    options: dict[str, Any] = {"passes": 2, "shuffle": 300, "random_state": 1}
    before = threading.active_count()
    for (X, y), (Z, z) in zip(stream(path, 90, **options, n_jobs=2), stream(path, 90, **options, n_jobs=1), strict=True):
        assert (X == Z).all() and (y == z).all()
    assert threading.active_count() == before
    batches = stream(path, 90, n_jobs=2)
    next(batches)
    # An open file would be a ResourceWarning, which is an error here.
    del batches
    assert threading.active_count() == before
    broken = DENSE.copy()
    broken[1000, 2] = np.nan
    np.save(path, np.c_[broken, LABELS])
    batches, n = stream(path, 1000, n_jobs=2), 0
    with pytest.raises(ValueError, match="row 1000, column 2: nan is not a finite number"):
        for _, y in batches:
            n += len(y)
    assert n in (0, 1000)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_forked_process_does_not_go_on(n_jobs: int, tmp_path: Path, run_forked: Any) -> None:
    """It has no thread that reads ahead, and the place in the file is its parent's too."""
    path = tmp_path / "a.csv"
    np.savetxt(path, np.c_[DENSE, LABELS], delimiter=",")
    done = run_forked(f"""
import os, signal
from pegasos.io import stream
batches = stream({str(path)!r}, 90, n_jobs={n_jobs})
n = len(next(batches)[1])
child = os.fork()
if child == 0:
    signal.alarm(10)
    try:
        next(batches)
    except RuntimeError as error:
        os._exit(0 if "forked" in str(error) else 1)
    os._exit(2)
assert os.waitpid(child, 0)[1] == 0
assert n + sum(len(y) for X, y in batches) == {len(LABELS)}
""")
    assert done.returncode == 0, done.stderr


def test_memory_is_that_of_a_batch(tmp_path: Path, run_forked: Any) -> None:
    """Of files of some 50 MB, in a process of its own."""
    rows = np.tile(DENSE, (250, 2)).astype(np.float32)
    np.save(tmp_path / "a.npy", rows)
    np.savez_compressed(tmp_path / "a.npz", X=rows, y=np.tile(LABELS, 250))
    table = pyarrow.table({**{f"c{k}": column for k, column in enumerate(rows.T)}, "y": np.tile(LABELS, 250)})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet", row_group_size=20_000)
    code = (
        "from conftest import peak\n"
        "from pegasos.io import stream\n"
        "batches = stream({path!r}, 1000)\n"
        "next(batches)\n"
        "before = peak()\n"
        "n = 1000 + sum(len(X) for X, y in batches)\n"
        "print(n, peak() - before)\n"
    )
    for name in ("a.npy", "a.npz", "a.parquet"):
        n, grown = map(int, run_forked(code.format(path=str(tmp_path / name))).stdout.split())
        assert n == 250 * N
        assert grown < 20_000_000, name


def test_svmlight_is_what_load_makes(tmp_path: Path) -> None:
    path = tmp_path / "a.svm"
    path.write_text("1 0:1\n2 7:1\n")
    X, y = load_svmlight(path)
    found = list(stream(path, 1))
    assert [Z.shape for Z, _ in found] == [(1, 8)] * 2
    assert (stacked(found)[0] != X).nnz == 0 and y.tolist() == [1, 2]


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_pairs_are_finite(form: Callable[[np.ndarray], Any]) -> None:
    rows, y = np.ones((2, 3)), np.arange(2.0)
    for value, dtype in ((np.nan, np.float64), (np.inf, np.float32), (1e300, np.float32)):
        bad = rows.copy()
        bad[1, 2] = value
        with pytest.raises(ValueError, match="pair 2: X must hold finite numbers"):
            list(stream([(form(rows), y), (form(bad), y)], 1, dtype=dtype))
    with pytest.raises(ValueError, match="pair 1: y must hold finite numbers"):
        list(stream([(form(rows), np.array([0.0, np.nan]))], 1))
