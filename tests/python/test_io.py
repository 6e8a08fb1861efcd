"""Files of examples: every kind is read as it is meant, and what is wrong with one is said with its line."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file
from test_models import X, Y, trained

from pegasos import io

if TYPE_CHECKING:
    from pathlib import Path


# -- svmlight


@pytest.mark.parametrize("ending", [".svm", ".svmlight", ".libsvm", ".txt", ".SVM"])
def test_svmlight(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"data{ending}"
    path.write_text("+1 1:0.5 3:2 # remark\n\n-1 2:1e-3\n")
    table = io.read(path)
    assert table.X.toarray().tolist() == [[0.5, 0.0, 2.0], [0.0, 0.001, 0.0]]
    assert table.y.tolist() == [1, -1]
    assert table.y.dtype == np.int64
    assert table.feature_names is None
    assert io.read(path, label=None).y is None


@pytest.mark.parametrize("packed", ["gzip", "bz2"])
def test_compressed_svmlight(packed: str, tmp_path: Path) -> None:
    module = pytest.importorskip(packed)
    content = module.compress(b"1 1:2\n2.5 2:3\n" * 100)
    path = tmp_path / f"data.svm.{ {'gzip': 'gz', 'bz2': 'bz2'}[packed] }"
    path.write_bytes(content)
    rows, y, _ = io.read(path)
    assert rows.shape == (200, 2)
    assert sorted(set(y)) == [1.0, 2.5]
    for broken in (content[:-9], b"neither"):
        path.write_bytes(broken)
        with pytest.raises(ValueError, match=re.escape(str(path))):
            io.read(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a 1:2\n", 'the label "a" is not a number'),
        ("1 1:x\n", 'the value "x" is not a number'),
        ("1 1\n", "want index:value"),
        ("1 -1:3\n", 'the index "-1" is negative'),
        ("1 2:1 2:1\n", "column 7: .*2"),
        ("1 99999999999999999999:1\n", "too large"),
        ("1,2 1:1\n", 'the label "1,2" is not a number'),
        ("# nothing\n", "holds no examples"),
        ("", "holds no examples"),
    ],
)
def test_bad_svmlight(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.svm"
    path.write_text(content)
    with pytest.raises(ValueError, match=f"bad.svm: .*{message}"):
        io.read(path)


def test_svmlight_rows_get_the_features_of_the_model(tmp_path: Path) -> None:
    path = tmp_path / "data.svm"
    dump_svmlight_file(X[:, :3], Y, str(path), zero_based=False)
    table = io.read(path, model=trained())
    want = np.hstack([X[:, :3], np.zeros((80, 2))])
    assert table.X.toarray() == pytest.approx(want, rel=1e-12)
    assert table.y.tolist() == Y.tolist()
    # What ordinary splits of sparse files do: some features occur in the test part alone.
    with pytest.warns(UserWarning, match="features 3 to 3 are left out"):
        table = io.read(path, model=trained(X[:, :2]))
    assert table.X.toarray() == pytest.approx(X[:, :2], rel=1e-12)


# -- CSV and TSV


def written(folder: Path, text: str, ending: str = ".csv", encoding: str = "utf-8") -> Path:
    path = folder / f"data{ending}"
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize(
    ("text", "label", "features", "labels", "names"),
    [
        ("1,2,3\n4,5,6\n", -1, [[1, 2], [4, 5]], [3, 6], None),
        ("1,2,3\n4,5,6\n", 0, [[2, 3], [5, 6]], [1, 4], None),
        ("1,2,3\n4,5,6\n", None, [[1, 2, 3], [4, 5, 6]], None, None),
        ("1,2,x\n4,5,y\n", -1, [[1, 2], [4, 5]], ["x", "y"], None),
        ("a,b,c\n1,2,3\n", -1, [[1, 2]], [3], ["a", "b"]),
        ("a,b,c\n1,2,3\n", 1, [[1, 3]], [2], ["a", "c"]),
        ("a,b,c\n1,2,3\n", "a", [[2, 3]], [1], ["b", "c"]),
        ("1,2,c\n1,2,3\n", "c", [[1, 2]], [3], ["1", "2"]),
        ("0,1,c\n1,2,3\n4,5,6\n", -1, [[1, 2], [4, 5]], [3, 6], ["0", "1"]),
        (",b,c\n0,1,2\n", -1, [[0, 1]], [2], ["", "b"]),
        ("\ufeffa,c\r\n\r\n 1.5 , 0.5 \r\n-2e3,1\r\n", -1, [[1.5], [-2000]], [0.5, 1.0], ["a"]),
        ('"a, b",c\n"1","d ""e"""\n', -1, [[1]], ['d "e"'], ["a, b"]),
        ("1,01\n2,x\n", -1, [[1], [2]], ["01", "x"], None),
        ("1,+1\n2,-1\n", -1, [[1], [2]], [1, -1], None),
        ("1,99999999999999999999\n2,0\n", -1, [[1], [2]], [1e20, 0.0], None),
        ("1,ja\n2,nein", -1, [[1], [2]], ["ja", "nein"], None),
    ],
)
@pytest.mark.parametrize("ending", [".csv", ".tsv"])
def test_csv(
    text: str, label: Any, features: Any, labels: Any, names: Any, ending: str, tmp_path: Path
) -> None:
    if ending == ".tsv":
        text = re.sub(r",(?! b)", "\t", text)
    found = io.read(written(tmp_path, text, ending), label=label)
    assert found.X.dtype == np.float64
    assert found.X.tolist() == features
    assert (None if found.y is None else found.y.tolist()) == labels
    if labels is not None:
        assert [type(entry) for entry in found.y.tolist()] == [type(entry) for entry in labels]
    assert found.feature_names == names


@pytest.mark.parametrize(
    ("text", "label", "message"),
    [
        ("", -1, "holds no examples"),
        ("a,b\n", -1, "only a header"),
        ("1,2,0\n3,x,1\n", -1, "line 2, column 2: 'x' is not a number"),
        ("1,2,0\n3,x,1\n", 0, "line 2, column 2: 'x' is not a number"),
        ("0,2,3\n1,4,x\n", 0, "line 2, column 3: 'x' is not a number"),
        ("a,b,c\n\n1,2,0\n\n3, ,1\n", -1, "line 5, column 2: the value is missing"),
        ("1,,0\n", -1, "line 1, column 2: the value is missing"),
        ("1,nan,0\n", -1, "line 1, column 2: nan is not a finite number"),
        ("1,2,0\n-inf,3,1\n", -1, "line 2, column 1: -inf is not a finite number"),
        ("1,1e999,0\n", -1, "line 1, column 2: inf is not a finite number"),
        ("1,2,0\n3,4,\n", -1, "line 2, column 3: the label is missing"),
        ("0,1\nnan,2\n", 0, "line 2, column 1: the label nan is not a finite number"),
        ("1,2,0\n3,4\n", -1, "line 2 has 2 columns, line 1 has 3"),
        ("a,b,c\n1,2,0,9\n", -1, "line 2 has 4 columns, line 1 has 3"),
        ("1\n2\n", -1, "no feature beside the label"),
        ("1;2\n", -1, "is the delimiter right"),
        ("a,b\n1,2\n", "c", "has 0 columns 'c'; it has a, b"),
        ("a,a,b\n1,2,3\n", "a", "has 2 columns 'a'"),
        ("1,2\n", 2, "has 2 columns, none of number 2"),
        ("1,2\n", -3, "has 2 columns, none of number -3"),
        ('1,2\n"1,2\n', -1, "unexpected end of data"),
        ('"1\n",2\n3\n', -1, "line 3 has 1 columns, line 2 has 2"),
    ],
)
def test_bad_csv(text: str, label: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=rf"data\.csv: .*{re.escape(message)}"):
        io.read(written(tmp_path, text), label=label)


def test_csv_in_another_encoding(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="data.csv: line 1: 'utf-8' codec"):
        io.read(written(tmp_path, "1,größe\n2,b\n", encoding="latin-1"))


def test_csv_is_exact(tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).normal(size=(50, 4)) * 10.0 ** np.arange(-200, 200, 100)
    text = "".join(",".join(map(repr, row)) + ",a\n" for row in numbers.tolist())
    assert io.read(written(tmp_path, text)).X.tobytes() == numbers.tobytes()


def test_csv_for_a_model(tmp_path: Path) -> None:
    numbers, words = trained(X[:, :2]), trained(X[:, :2], np.array(["01", "2", "x"])[Y])
    full = written(tmp_path, "1\t2\t01\n", ".tsv")
    assert io.read(full, model=numbers).y.tolist() == [1]
    assert io.read(full, model=words).y.tolist() == ["01"]
    # Not a header, for it has a label of the model.
    first = written(tmp_path, "1,2,x\n3,4,01\n5,6,2\n")
    assert io.read(first, model=words).y.tolist() == ["x", "01", "2"]
    bare = written(tmp_path, "1,2\n")
    assert io.read(bare, model=numbers).y is None
    assert io.read(bare, model=numbers).X.tolist() == [[1.0, 2.0]]
    with pytest.raises(ValueError, match="data.csv: .* 1 features, those of the model have 2"):
        io.read(bare, model=numbers, label=0)
    with pytest.raises(ValueError, match="data.tsv: .* 3 features, those of the model have 2"):
        io.read(full, model=numbers, label=None)


# -- NPZ


@pytest.mark.parametrize("names", [("X", "y"), ("X_train", "y_train")])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, bool])
def test_npz(names: tuple[str, str], dtype: Any, tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    rows = (X > 0).astype(dtype)
    np.savez(path, **dict(zip(names, (rows, Y), strict=True)))
    table = io.read(path)
    assert table.X.dtype == (dtype if dtype in (np.float32, np.float64) else np.float64)
    assert table.X.tolist() == rows.tolist()
    assert table.y.tolist() == Y.tolist()
    assert io.read(path, label=None).y is None


@pytest.mark.parametrize("extra", [{}, {"format": np.array("csr"), "_is_array": np.array(True)}])
def test_sparse_npz(extra: dict[str, np.ndarray], tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    rows = sp.random(80, 9, 0.2, format="csr", random_state=0)
    parts = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr, "shape": rows.shape}
    np.savez_compressed(path, **parts, y=Y, **extra)
    table = io.read(path)
    assert (table.X != rows).nnz == 0
    assert table.y.tolist() == Y.tolist()


def test_scipy_saves_what_is_read(tmp_path: Path) -> None:
    model, path = trained(), tmp_path / "data.npz"
    sp.save_npz(path, sp.csr_array(X))
    assert io.read(path, label=None).X.toarray().tolist() == X.tolist()
    assert io.read(path, model=model).y is None
    with pytest.raises(ValueError, match="data.npz: it has no array y of labels"):
        io.read(path)
    sp.save_npz(path, sp.csc_array(X))
    with pytest.raises(ValueError, match="must be in format csr, got csc"):
        io.read(path, label=None)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"a": X, "y": Y}, "must hold arrays X and y, .* got a, y"),
        ({"X": X, "y": Y[:-1]}, r"y must have shape \(80,\), got \(79,\)"),
        ({"X": X[0], "y": Y}, "two dimensions"),
        ({"X": X.astype(str), "y": Y}, "must hold numbers"),
        ({"X": X * 1j, "y": Y}, "must hold numbers"),
        ({"X": X.astype(object), "y": Y}, "pickled objects, which are not read"),
        ({"X": X[:0], "y": Y[:0]}, "holds no examples"),
        (
            {"data": [1.0], "indices": [7], "indptr": [0, 1], "shape": [1, 2], "y": [0]},
            "indices",
        ),
        ({"data": [1.0], "indices": [0], "indptr": [0, 9], "shape": [1, 2], "y": [0]}, ""),
        ({"data": [1.0], "indices": [0], "indptr": [0, 1], "shape": [2], "y": [0]}, ""),
    ],
)
def test_bad_npz(arrays: dict[str, Any], message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", **arrays)
    with pytest.raises(ValueError, match=f"data.npz: .*{message}"):
        io.read(tmp_path / "data.npz")


def test_damaged_npz(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    np.savez_compressed(path, X=X, y=Y)
    whole = path.read_bytes()
    for length in range(0, len(whole), 97):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=re.escape(f"{path}: ")):
            io.read(path)
    # The last 22 bytes say where in the file its directory is.
    for place in range(len(whole) - 22, len(whole)):
        path.write_bytes(whole[:place] + b"\xff" + whole[place + 1 :])
        with contextlib.suppress(ValueError):
            assert io.read(path).X.tolist() == X.tolist()
    np.save(tmp_path / "one.npy", X)
    path.write_bytes((tmp_path / "one.npy").read_bytes())
    with pytest.raises(ValueError, match="holds a single array"):
        io.read(path)


# -- any file


def test_unknown_endings(tmp_path: Path) -> None:
    for name in ("data", "data.xlsx", "data.csv.zip", "svm"):
        with pytest.raises(ValueError, match=rf"{name}: .*\.svm, .*\.csv, \.tsv, .*\.npz"):
            io.read(tmp_path / name)


@pytest.mark.parametrize("ending", [".svm", ".svm.gz", ".csv", ".tsv", ".npz"])
def test_missing_data(ending: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        io.read(tmp_path / f"none{ending}")


@pytest.mark.parametrize("ending", [".svm", ".npz"])
def test_only_tables_have_columns(ending: str, tmp_path: Path) -> None:
    for label in ("species", 0):
        with pytest.raises(ValueError, match=f"a file of format (svmlight|npz) has no column {label!r}"):
            io.read(tmp_path / f"data{ending}", label=label)


def test_how_many_features_there_are(tmp_path):
    path = tmp_path / "few.svm"
    path.write_text("1 1:2\n0 3:1\n")
    X, y, names = io.read(path, n_features=7)
    assert X.shape == (2, 7) and y.tolist() == [1, 0] and names is None
    with pytest.raises(ValueError, match="n_features"):
        io.read(path, n_features=2)
    for other in ["x.csv", "x.npy", "x.npz"]:
        with pytest.raises(ValueError, match="n_features goes with svmlight, pairs, not with"):
            io.read(tmp_path / other, n_features=7)
    with pytest.raises(ValueError, match="hashing goes with"):
        io.read(path, n_features=7, hashing=8)


@pytest.mark.parametrize("name", ["a.csv", "a.svm", "a.npy"])
def test_labels_are_somewhere(name, tmp_path):
    with pytest.raises(TypeError, match="label must be the name of a column, its number, or None, got 1.5"):
        io.read(tmp_path / name, label=1.5)
