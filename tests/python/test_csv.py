"""CSV by pyarrow and by Python: the same to the last bit, errors and all, whatever is in the file."""

from __future__ import annotations

import csv
import gzip
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pegasos import _csv, _plain, io
from pegasos._csv import CsvSource

pytest.importorskip("pyarrow")


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a few lines, all of which are tried."""
    monkeypatch.setattr(_csv, "_BLOCK", 150)
    monkeypatch.setattr(_csv, "_WORTH", 0)
    monkeypatch.setattr(_plain, "_LEAST", 1)


def outcome(read: Any) -> Any:
    """What a call returns, bit by bit, or the error that it raises."""
    try:
        return [(a.dtype.str, a.shape, a.tobytes()) if isinstance(a, np.ndarray) else a for a in read()]
    except ValueError as error:
        return str(error)


def by_both(read: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What comes of it with pyarrow, after it was compared with what comes of it without."""
    found = outcome(read)
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "pyarrow.csv", None)
        assert outcome(read) == found
    return found


def every_way(path: Path, skip: int = 0, dtype: Any = np.float64, **how: Any) -> dict[str, Any]:
    """The calls that read a CSV file."""

    def streamed() -> list[Any]:
        return [a for pair in io.stream(path, 7, **how, skip=skip, dtype=dtype, n_jobs=1) for a in pair]

    def pieces() -> list[Any]:
        source = CsvSource(path, **how, dtype=dtype, delimiter="\t" if ".tsv" in path.name else ",")
        source.prepare()
        return [source.n_rows, source.n_features, *(a for pair in source._pieces(skip) for a in pair)]

    return {"read": lambda: io.read(path, **how), "stream": streamed, "pieces": pieces}


#: Numbers that some readers round wrongly, or take for none.
NUMBERS = [
    "9007199254740993", "9007199254740992.999999999999999999999", "2.2250738585072011e-308", "4.9406564584124654e-324",
    "2.4703282292062327e-324", "2.4703282292062328e-324", "1.7976931348623157e308", "1.7976931348623158e308",
    "8.5e-323", "6.9294956446009195e15", "0.1e1", "-0", "-0.0", "1.", ".5", "-.5E+07", "00012", "1e-999", "123456789" * 9,
    "0." + "0" * 300 + "1", "1" + "0" * 300, "3.5 ", "  7", "0.500000000000000166533453693773481063544750213623046875",
    "1.00000000000000011102230246251565404236316680908203125", "179769313486231580793e289",
]  # fmt: skip

#: Cells that one reader or both refuse, or make something else of.
CELLS = [
    "+1", "1_0", "\t2", "nan", "-NaN", "inf", "-Infinity", "1e999", "", " ", "0x1p3", "\u0661", "1\0", "nan(1)", ".", "5e", "1d3",
    "1\u00a0", "\ufeff1", "1,5", '"1.5"', '""', ' "2"', '"3" ', '"4"x', 'a"b', '"a ""b"', '"a,b"', '"a\nb"', '"a\r\n', '"', "x",
    "null", "NA", "#", "1\v", "1\r", "\n", "\r", "1\u2028", "\x1c", "1\\,2", "'1'", "0b1", "1f", "--1", "1e5.0", "TRUE",
]  # fmt: skip

LABELS = [["0", "1"], ["1", "2.5"], ["yes", "no"], ['"a"', "b", '"c d"'], [" x", "x"], ["01", "1"], ["\u00e9", "e", "\u65e5"], ["-1", "+1"]]


def number(rng: np.random.Generator) -> str:
    choice = rng.integers(6)
    if choice == 0:
        return NUMBERS[rng.integers(len(NUMBERS))]
    value = float(rng.integers(2**64, dtype=np.uint64).view(np.float64)) if choice == 1 else float(rng.normal())
    if not np.isfinite(value):
        return "1"
    if choice == 2:
        # Halfway between two doubles, or beside it.
        digits = f"{np.nextafter(value, 9):.60f}".rstrip("0")
        return digits + ["", "0", "1"][rng.integers(3)]
    return [repr(value), f"{value:.17g}", f"{value:.30e}"][rng.integers(3)]


def hostile(seed: int) -> tuple[bytes, dict[str, Any]]:
    """A table with some faults, or none, and how it is to be read."""
    rng = np.random.default_rng(seed)
    n_rows, n_columns = int(rng.integers(1, 40)), int(rng.integers(1, 5))
    labels = LABELS[rng.integers(len(LABELS))]
    label = [-1, 0, None, "c0"][rng.integers(4)]
    place = n_columns - 1 if label == -1 else 0 if label is not None else -1
    rows = [
        [labels[rng.integers(len(labels))] if k == place else number(rng) for k in range(n_columns)] for _ in range(n_rows)
    ]
    for _ in range([0, 0, 1, 1, 3][rng.integers(5)]):
        row, cell = rows[rng.integers(n_rows)], CELLS[rng.integers(len(CELLS))]
        if rng.integers(9) == 0:
            row.append(cell)
        else:
            row[rng.integers(len(row))] = cell
    names, columns = [f"c{k}" for k in range(n_columns)], None
    if label == "c0" or rng.integers(2):
        rows.insert(0, names)
        features = [name for k, name in enumerate(names) if k != place]
        if features and rng.integers(3) == 0:
            columns = rng.permutation(features)[: rng.integers(1, 4)].tolist()
    end = ["\n", "\n", "\r\n", "\r"][rng.integers(4)]
    lines = [",".join(row) + end for row in rows]
    if rng.integers(5) == 0:
        lines.insert(rng.integers(len(lines) + 1), [end, " " + end, "\r\r\n"][rng.integers(3)])
    text = ("\ufeff" if rng.integers(5) == 0 else "") + "".join(lines)
    if rng.integers(3) == 0:
        text = text.removesuffix(end)
    content = text.encode()
    if rng.integers(15) == 0:
        at = rng.integers(len(content))
        content = content[:at] + b"\xff" + content[at:]
    return content, {"label": label, "columns": columns}


@pytest.mark.parametrize("seed", range(60))
def test_the_same_by_both(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for part in range(5):
        content, how = hostile(5 * seed + part)
        monkeypatch.setattr(_csv, "_BLOCK", [40, 150, 10**6][part % 3])
        path = tmp_path / ("a.csv" if part % 2 else "a.tsv")
        path.write_bytes(content if part % 2 else content.replace(b",", b"\t"))
        for read in every_way(path, seed % 4 * 9, [np.float64, np.float32][seed % 2], **how).values():
            by_both(read, monkeypatch)


ROWS = b"1,2,a\n" * 20


@pytest.mark.parametrize(
    ("block", "numbers", "labels"),
    [
        (b"1,2,a\n3,4,b", [1, 2, 3, 4], "ab"),
        (b"1,2,a\r\n3,4,b\r\n", [1, 2, 3, 4], "ab"),
        (b'"1",2,"a"\n3,"4","b"\n', [1, 2, 3, 4], "ab"),
        (b'"1","2","a"\r\n"3","4","b"', [1, 2, 3, 4], "ab"),
        (b" 1, 2 ,a \n+3,4e0, b\n", [1, 2, 3, 4], "ab"),
        ("1,2,\u00e9\n3,4,\u00a0b\n".encode(), [1, 2, 3, 4], "\u00e9b"),
    ],
)
def test_plain_blocks_go_through_pyarrow(block: bytes, numbers: list[float], labels: str) -> None:
    reader = _plain.plain_reader(",", 3, 2, [0, 1])
    assert reader is not None
    found = reader.read(block, features=True)
    assert found is not None and found.X is not None and found.codes is not None
    assert found.X.tolist() == [numbers[:2], numbers[2:]]
    assert [found.kinds[code] for code in found.codes] == list(labels)
    bare = reader.read(block, features=False)
    assert bare is not None and (bare.n_rows, bare.X, bare.kinds) == (2, None, found.kinds)


@pytest.mark.parametrize(
    "line",
    [
        b"\n", b"1,2\n", b"1,2,a,b\n", b"1,2,\n", b"1,,a\n", b"1,nan,a\n", b"1,1e999,a\n", b"1,x,a\n", b'1,2,"a\nb"\n', b'1,2,"a"b\n',
        b'1,2,"a,b"\n', b'1, "2",a\n', b'1,2,"a""b"\n', b'1,2,"a" "b"\n', b'1,2,"a"b"c"\n', b'"1",2,a"b\n', b'"",2,a\n',
        b"1,2,a\r", b"1,2,\xff\n", b"1,1_0,a\n", b"1,2,\xc2\xa0\n", b"1," + b"0" * 200_000 + b",a\n",
    ],
)  # fmt: skip
def test_other_blocks_are_pythons(line: bytes) -> None:
    reader = _plain.plain_reader(",", 3, 2, [0, 1])
    assert reader is not None
    assert reader.read(ROWS, features=True) is not None
    assert reader.read(ROWS + line + ROWS, features=True) is None
    assert reader.read(b"\xef\xbb\xbf" + ROWS, features=True) is None


def test_rows_of_many_columns_are_pythons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_plain, "_LEAST", 16)
    reader = _plain.plain_reader(",", 3, 2, [0, 1])
    assert reader is not None
    assert reader.read(b"1,2,a\n" * 15, features=True) is None
    assert reader.read(b"1,2,a\n" * 16, features=True) is not None


@pytest.mark.parametrize("n_rows", [10, 1000])
def test_pyarrow_is_for_long_files(n_rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(_csv, "_WORTH", 1000)
    monkeypatch.setattr(_csv, "plain_reader", lambda *_: asked.append(1))
    (tmp_path / "a.csv").write_bytes(b"1,2,a\n" * n_rows)
    assert io.read(tmp_path / "a.csv").X.tolist() == [[1.0, 2.0]] * n_rows
    assert asked == ([1] if n_rows == 1000 else [])


@pytest.mark.parametrize(
    "content",
    [
        ROWS + b'1,2,"' + b"many\n" * 100 + b'"\n' + ROWS,
        b'1,2,"a\nb"\n' * 200,
        ROWS.replace(b"\n", b"\r") * 9,
        ROWS.replace(b"\n", b"\r\n") * 9,
        ROWS + b"\n" * 500 + ROWS,
        b"\n" * 500 + b"x,y,z\n" + ROWS,
        ROWS + b'"' + ROWS * 9,
        ROWS + b"1," + b"0" * 140_000 + b",a\n",
        ROWS + b"3," + b"0" * 140_000 + b"1,a\n" + ROWS * 40,
        ROWS + b"1,2," + b"a" * 4000,
        ROWS + b"1,2,a\0\n" + ROWS,
    ],
)
@pytest.mark.parametrize("skip", [0, 19, 20, 33, 10**6])
def test_files_that_blocks_cut(content: bytes, skip: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_csv, "_LONGEST_LINE", 200_000)
    for path, packed in ((tmp_path / "a.csv", content), (tmp_path / "a.csv.gz", gzip.compress(content))):
        path.write_bytes(packed)
        found = {way: by_both(read, monkeypatch) for way, read in every_way(path, skip).items()}
        with monkeypatch.context() as uncut:
            uncut.setattr(_csv, "_BLOCK", 10**6)
            assert found["read"] == by_both(lambda: io.read(path), uncut)


def test_long_cells_and_lines_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(ROWS + b"1," + b"0" * 140_000 + b",a\n" + ROWS)
    assert "field larger than field limit (131072)" in by_both(lambda: io.read(path), monkeypatch)
    limit = csv.field_size_limit(300_000)
    try:
        assert by_both(lambda: io.read(path), monkeypatch)[0][1] == (41, 2)
    finally:
        csv.field_size_limit(limit)
    monkeypatch.setattr(_csv, "_LONGEST_LINE", 1000)
    monkeypatch.setattr(_csv, "_BLOCK", 10**6)
    assert "line 21 is longer than 1,000 bytes" in by_both(lambda: io.read(path), monkeypatch)


class Trickle:
    """A pipe, of which a few bytes come at a time."""

    def __init__(self, content: bytes, n: int) -> None:
        self._left = [content[k : k + n] for k in range(0, len(content), n)]

    def seekable(self) -> bool:
        return False

    def read(self, size: int) -> bytes:
        raise AssertionError("somebody would wait")

    def read1(self, size: int) -> bytes:
        return self._left.pop(0) if self._left else b""


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_lines_are_whole_however_they_come(n: int) -> None:
    text = "\ufeffa\r\n\u00e9\r\rb\n\n\nc,d\r\n\r\ne"
    want = text[1:].encode().splitlines(keepends=True)
    lines = _csv.Lines(Trickle(text.encode(), n))
    assert [line.encode() for line in lines] == want
    assert lines.number == len(want)


def test_progress_of_a_pass(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(ROWS * 2000)
    source = CsvSource(path)
    read: list[int] = []
    source.prepare(lambda: read.append(source.read_bytes))
    assert read == sorted(read) and read[-1] == source.n_bytes == 240_000
    assert len({place for place in read}) > 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b,y\n" + "1,2,3\n" * 30 + '1,2,"x\n3,4,y\n', "line 32: unexpected end of data"),
        ("a,b,y\n" + "1,2,3\n" * 30 + '1,2,"x"q\n3,4,y\n', "line 32: ',' expected after '\"'"),
    ],
)
def test_quotes_that_do_not_match_are_told_with_their_line(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text)
    for read in every_way(path).values():
        assert message in by_both(read, monkeypatch)


def test_names_with_underscores_are_no_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,y\n" + "1,1_2\n2,12\n" * 20)
    for read in every_way(path).values():
        by_both(read, monkeypatch)
    assert io.read(path).y.tolist() == ["1_2", "12"] * 20
    path.write_text("a,b,y\n" + "1,2,3\n" * 20 + "1,1_000,3\n")
    for read in every_way(path).values():
        assert "line 22, column 2: '1_000' is not a number" in by_both(read, monkeypatch)


def test_whole_labels_that_no_number_tells_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.csv"
    path.write_text("1,9223372036854775809\n2,9223372036854775808\n" * 20)
    for read in every_way(path).values():
        assert "9223372036854775809 and 9223372036854775808 are too large to be told apart" in by_both(read, monkeypatch)
    path.write_text("1,9223372036854775809\n2,5\n" * 20)
    assert set(io.read(path).y.tolist()) == {5.0, 2.0**63}
