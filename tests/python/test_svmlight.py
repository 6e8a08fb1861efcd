"""svmlight files: the same bits as by a slower reader, whatever the threads and the cuts; and what is wrong is told by its place."""

from __future__ import annotations

import bz2
import gzip
import io
import itertools
import os
import re
import subprocess
import sys
import threading
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import every_pair
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as some
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from pegasos import _svmlight
from pegasos._core import Loader, Svmlight
from pegasos._passes import stream
from pegasos._sources import whole_labels
from pegasos._svmlight import Arrays, arrays, load_svmlight


def parsed(
    text: bytes,
    *,
    cut: int = 1 << 30,
    dtype: str = "float64",
    zero_based: bool | None = None,
    n_features: int | None = None,
    threads: int = 1,
) -> tuple[Any, ...]:
    """What the parser makes of a text that it gets in blocks of so many bytes: the same as the loader, if it expects
    less, as much, or more."""

    def pushed(parser: Svmlight | Loader) -> tuple[Any, ...]:
        for k in range(0, len(text), cut):
            parser.push(text[k : k + cut])
        return parser.finish()

    loader = Loader(dtype, zero_based, n_features, n_bytes=len(text) * (len(text) % 3), threads=threads)
    try:
        found = pushed(Svmlight(dtype, zero_based, n_features, threads=threads))
    except ValueError as error:
        with pytest.raises(ValueError) as caught:
            pushed(loader)
        assert str(caught.value) == str(error)
        raise
    loaded = pushed(loader)
    assert same((*loaded[:4], whole_labels(loaded[4])), (*found[:4], whole_labels(found[4])))
    return found


def same(found: Any, want: Any) -> bool:
    """Whether these are the same arrays, to the bit."""
    return all(
        a == b if isinstance(a, int) else (a.dtype == b.dtype and a.tobytes() == b.tobytes())
        for a, b in zip(found, want, strict=True)
    )


def csr(X: Any) -> tuple[Any, ...]:
    """The arrays of a matrix by scikit-learn, whose indices are wide."""
    return (X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32))


def fault(text: bytes, **options: Any) -> str:
    with pytest.raises(ValueError) as caught:
        parsed(text, **options)
    return str(caught.value)


TEXT = b"\xef\xbb\xbf+1 qid:3 1:0.5 3:-2e-3 # remark: 7:7\r\n\n \t# nothing\n-1\n2.5\t2:.25  10:1e300 \r\n1 3:1 1:5. 2:0"


def test_what_the_format_has() -> None:
    data, indices, indptr, n_features, labels = parsed(TEXT)
    assert data.tolist() == [0.5, -2e-3, 0.25, 1e300, 5.0, 0.0, 1.0]
    assert indices.tolist() == [0, 2, 1, 9, 0, 1, 2]
    assert indptr.tolist() == [0, 2, 2, 4, 7]
    assert n_features == 10
    assert labels.tolist() == [1, -1, 2.5, 1]
    assert (indices.dtype, indptr.dtype, data.dtype) == (np.int32, np.int32, np.float64)


def test_cuts_do_not_show() -> None:
    want = parsed(TEXT)
    for cut in range(1, len(TEXT)):
        assert same(parsed(TEXT, cut=cut), want)


def test_every_beginning_is_read_or_refused() -> None:
    """The same by every way of reading; what scikit-learn reads is read, to the same numbers."""
    for text in (TEXT[3:], b"1 1:1 2:2\n0 0:3\n", b"1 1:inf\n", b"1 1:1e-5 2:123456789012345678901234567890\n"):
        for end in range(len(text)):
            some = text[:end]
            try:
                found = parsed(some)
            except ValueError as error:
                assert str(error).startswith("line ")
                assert fault(some, cut=3) == str(error)
                continue
            assert same(parsed(some, cut=1), found)
            if b"3:1 1" in some:
                continue  # Not in order, which scikit-learn refuses.
            X, y = load_svmlight_file(io.BytesIO(some))
            assert (found[3], found[4].tolist()) == (X.shape[1], y.tolist())
            assert (found[0].tolist(), found[1].tolist()) == (X.data.tolist(), X.indices.tolist())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"a 1:2\n", 'line 1, column 1: the label "a" is not a number'),
        (b"1 1:1\n\n  1,2 1:1\n", 'line 3, column 3: the label "1,2" is not a number'),
        (b"1:1 2:2\n", 'line 1, column 1: found "1:1" in place of the label; a line is "label index:value ..."'),
        (b"nan 1:1\n", 'line 1, column 1: the label "nan" is not a finite number'),
        (b"# no\n-Infinity 1:1\n", 'line 2, column 1: the label "-Infinity" is not a finite number'),
        (b"1 1:1\n2 1:1 3:nan\n", 'line 2, column 9: the value "nan" is not a finite number'),
        (b"1 1:1e400\n", 'line 1, column 5: the value "1e400" is too large for a float of 64 bits'),
        (b"1 1:x\n", 'line 1, column 5: the value "x" is not a number'),
        (b"1 1:\n", "line 1, column 5: the value is missing"),
        (b"1 1: 2\n", "line 1, column 5: the value is missing"),
        (b"1 1:1_0\n", 'line 1, column 5: the value "1_0" is not a number'),
        (b"1 1:0x10\n", 'line 1, column 5: the value "0x10" is not a number'),
        (b"1 1:1e\n", 'line 1, column 5: the value "1e" is not a number'),
        (b"1 1:-\n", 'line 1, column 5: the value "-" is not a number'),
        (b"1 1:.\n", 'line 1, column 5: the value "." is not a number'),
        (b"1 1:+-1\n", 'line 1, column 5: the value "+-1" is not a number'),
        (b"1 1:2:3\n", 'line 1, column 5: the value "2:3" is not a number'),
        (b"1 1\n", 'line 1, column 3: found "1", want index:value'),
        (b"1 1:1\t5\n", 'line 1, column 7: found "5", want index:value'),
        (b"1 :1\n", 'line 1, column 3: the index "" is not a whole number'),
        (b"1 -1:3\n", 'line 1, column 3: the index "-1" is negative'),
        (b"1 1.5:3\n", 'line 1, column 3: the index "1.5" is not a whole number'),
        (b"1 1:1 qid:3\n", 'line 1, column 7: the index "qid" is not a whole number'),
        (b"1 99999999999999999999:1\n", 'line 1, column 3: the index "99999999999999999999" is too large'),
        (b"1 9223372036854775807:1\n", 'line 1, column 3: the index "9223372036854775807" is too large'),
        (b"1 3:1 2:1 3:4 2:2\n", "line 1, column 11: the index 3 occurs twice in the line"),
        (b"1 3:1 +3:4\n", "line 1, column 7: the index 3 occurs twice in the line"),
        (b"1 1:1\x00\n", 'line 1, column 5: the value "1\\0" is not a number'),
        (b"\x00", 'line 1, column 1: the label "\\0" is not a number'),
        (b"\xef\xbb\xbf1 x\n", 'line 1, column 3: found "x", want index:value'),
        ("1 ²:1\n".encode(), 'line 1, column 3: the index "²" is not a whole number'),
        ("1 1:٣\n".encode(), 'line 1, column 5: the value "٣" is not a number'),
        ("1\u00a01:1\n".encode(), 'line 1, column 1: found "1\\u{a0}1:1" in place of the label'),
        (b"1 1:\xff\n", 'line 1, column 5: the value "\ufffd" is not a number'),
        (b"1 1:" + b"x" * 1000, f'line 1, column 5: the value "{"x" * 40}"... is not a number'),
        (b"1 1:2\r-1 1:3\r", 'line 1, column 7: found "-1", want index:value'),
    ],
)
def test_faults_have_places(text: bytes, message: str) -> None:
    found = fault(text)
    assert found.startswith(message)
    # Behind many lines, whoever reads them, and whatever the cuts.
    if not text.startswith(b"\xef"):
        good = b"1 1:1\n" * 100_000
        place = re.match(r"line (\d+)", found)
        assert place
        later = f"line {int(place[1]) + 100_000}{found[place.end() :]}"
        for threads, cut in ((1, 1 << 30), (2, 1 << 30), (3, 77_777)):
            assert fault(good + text + b"\nand more", threads=threads, cut=cut) == later


def test_the_first_fault_is_told() -> None:
    good = b"1 1:1\n" * 50_000
    text = good + b"1 1:bad\n" + good + b"1 worse\n" + good
    for threads in (1, 2, 4):
        assert fault(text, threads=threads).startswith('line 50001, column 5: the value "bad"')


def test_a_fault_is_told_again() -> None:
    parser = Svmlight("float64", None, None)
    for _ in range(3):
        with pytest.raises(ValueError, match="line 1, column 3: found"):
            parser.push(b"1 x\n1 1:1\n")
    with pytest.raises(ValueError, match="line 1, column 3: found"):
        parser.finish()


@pytest.mark.parametrize(
    ("text", "zero_based", "indices", "n_features"),
    [
        (b"1 1:1 4:1\n", None, [0, 3], 4),
        (b"1 1:1 4:1\n0 0:1\n", None, [1, 4, 0], 5),
        (b"1 1:1 4:1\n", True, [1, 4], 5),
        (b"1 1:1 4:1\n", False, [0, 3], 4),
        (b"1\n2 # empty\n", None, [], 1),
        (b"", None, [], 1),
        (b"# nothing", None, [], 1),
        (b"1 0:1\n", None, [0], 1),
        (b"1 +007:1\n", None, [6], 7),
        (b"1 1234567:1 12345678:1 123456789:1\n", None, [1234566, 12345677, 123456788], 123456789),
    ],
)
def test_where_indices_begin(text: bytes, zero_based: bool | None, indices: list[int], n_features: int) -> None:
    found = parsed(text, zero_based=zero_based)
    assert (found[1].tolist(), found[3]) == (indices, n_features)
    if zero_based is not False:
        X, _ = load_svmlight_file(io.BytesIO(text), zero_based="auto" if zero_based is None else zero_based)
        assert (X.indices.tolist(), X.shape[1]) == (indices, n_features)


def test_indices_beyond_what_was_said() -> None:
    assert fault(b"1 1:1\n1 0:1\n", zero_based=False) == (
        "line 2, column 3: the index is 0, though indices count from 1"
    )
    for zero_based, largest in ((None, 4), (False, 4), (True, 3)):
        assert parsed(b"1 2:1 %d:1\n" % largest, zero_based=zero_based, n_features=4)[3] == 4
        assert fault(b"1 %d:1 2:1\n" % (largest + 1), zero_based=zero_based, n_features=4) == (
            f"line 1, column 3: the index is {largest + 1}, which is too large for n_features = 4"
        )
    assert fault(b"1 4:1\n1 0:1\n", n_features=4) == (
        "n_features must be larger than all indices, which count from 0 as 0 occurs, got 4 with an index 4"
    )


@pytest.mark.parametrize("largest", [2**31 - 2, 2**31 - 1, 2**31, 2**32, 2**63 - 2])
@pytest.mark.parametrize("threads", [1, 2])
def test_huge_indices_take_no_memory(largest: int, threads: int) -> None:
    lines = b"1 1:1 7:2\n" * 50_000
    for text, base in ((lines + b"-1 5:1 %d:1\n" % largest + lines, 1), (b"1 %d:3\n0 0:2\n" % largest, 0)):
        data, indices, indptr, n_features, labels = parsed(text, threads=threads)
        assert n_features == largest + 1 - base
        assert indices.dtype == indptr.dtype == (np.int32 if largest < 2**31 - 1 else np.int64)
        assert int(indices.max()) == largest - base
        assert (len(data), len(labels)) == (int(indptr[-1]), len(indptr) - 1)
        assert sum(indices.tolist()) == (600_000 + 4 + largest - 1 if base else largest)


@pytest.mark.parametrize("threads", [1, 2])
def test_labels_are_whole_until_one_is_not(threads: int) -> None:
    lines = b"1 1:1\n-0 2:1\n-3\n" * 30_000
    for last, dtype in ((b"5\n", np.int64), (b"0.5\n", np.float64), (b"9007199254740992\n", np.float64)):
        for text in (lines + last, last + lines, lines + last + lines):
            labels = whole_labels(parsed(text, cut=200_000, threads=threads)[4])
            assert labels.dtype == dtype and sorted(set(labels.tolist())) == sorted({1, 0, -3, float(last)})


def test_a_loader_is_used_up() -> None:
    loader = Loader("float64", None, None)
    loader.push(b"1 1:1\n")
    loader.finish()
    for broken in (loader, Loader("float32", None, None)):
        with pytest.raises(ValueError):
            broken.push(b"1 1:x\n")
            broken.push(b"")
        for call in (lambda: broken.push(b"1\n"), broken.finish):
            with pytest.raises(ValueError, match="one that holds rows"):
                call()
    with pytest.raises(ValueError, match="dtype has no choice"):
        Loader("int8", None, None)


def test_a_line_may_have_16_mb() -> None:
    longest = 1 << 24
    line = b"1 1:1 #".ljust(longest - 1, b"x") + b"\n"
    for cut in (1 << 30, 1 << 22):
        assert len(parsed(line + b"2\n", cut=cut)[4]) == 2
        assert fault(b"1\n" + b" " + line, cut=cut) == (
            "line 2, column 16777217: the line is longer than 16777216 bytes"
        )
    # No line end, no end of memory.
    assert "is longer than" in fault(b"1" * (longest + 1), cut=1 << 22)


NUMBERS = [
    "0", "-0", "+0", "00", "0.0", "-0.0e5", "1", "007", "1.", ".5", "-.5", "+.5e1", "1e5", "1E+5", "1e-05", "1e22", "1e23",
    "9007199254740992", "9007199254740993", "9007199254740991e22", "9007199254740993e-3", "0.1", "0.30000000000000004",
    "123456789", "12345678.25", "99999999", "100000000.5", "1234567.8", "3.14159265358979323846264338327950288",
    "2.2250738585072014e-308", "2.2250738585072011e-308", "5e-324", "4.9e-324", "2e-324", "1e-400", "1e-99999999999999999999",
    "1.7976931348623157e308", "0e400", "0" * 500 + "1", "0." + "0" * 500 + "1e501", "1" + "0" * 300, "9" * 40 + "e-40",
    "1.00000005960464477539062500000001", "1.000000059604644775390625", "1.00000017881393432617187500", "16777217", "33554434.99",
    "1e-45", "7.006492321624085e-46", "7.0064923216240854e-46", "1.1754943508222875e-38", "1.17549429e-38", "3.4028235e38",
    "1.401298464324817e-45", "2.1019476964872256e-45", "5.877471754111438e-39",
]  # fmt: skip


def test_numbers_are_the_nearest() -> None:
    text = "".join(f"{x} 1:{x} 2:-{x.lstrip('+-')}\n" for x in NUMBERS)
    want = np.array([[float(x), -float(x.lstrip("+-"))] for x in NUMBERS])
    data, *_, labels = parsed(text.encode())
    assert data.tobytes() == want.tobytes()
    assert labels.tobytes() == want[:, 0].copy().tobytes()
    # A float32 is the one nearest to the decimal: told by exact fractions, as rounding twice may miss it.
    small = [x for x in NUMBERS if abs(float(x)) < 3.4e38 and "e-9999" not in x]
    data = parsed("".join(f"1 1:{x}\n" for x in small).encode(), dtype="float32")[0]
    for x, found in zip(small, data, strict=True):
        gap = abs(Fraction(float(found)) - Fraction(x))
        for other in (np.nextafter(found, np.float32(-1e38)), np.nextafter(found, np.float32(1e38))):
            others = abs(Fraction(float(other)) - Fraction(x))
            assert gap < others or (gap == others and found.view(np.uint32) % 2 == 0), x
    assert len(small) > 40
    # The middle between two, and a bit more than that: a float64 does not show the bit.
    assert parsed(b"1 1:1.00000005960464477539062500000001\n", dtype="float32")[0][0] == np.float32(1 + 2**-23)
    assert fault(b"1 1:3.4028236e38\n", dtype="float32").endswith('the value "3.4028236e38" is too large for a float of 32 bits')


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.from_regex(r"[+-]?([0-9]{1,25}(\.[0-9]{0,25})?|\.[0-9]{1,25})([eE][+-]?[0-9]{1,3})?", fullmatch=True))))
def test_any_decimal(numbers: list[tuple[str]]) -> None:
    finite = [x for (x,) in numbers if np.isfinite(float(x))]
    text = "".join(f"1 3:{x}\n" for x in finite).encode()
    assert parsed(text)[0].tobytes() == np.array([float(x) for x in finite], dtype=np.float64).tobytes()


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    dense=some.arrays(
        np.float64,
        st.tuples(st.integers(1, 12), st.integers(1, 12)),
        elements=st.floats(-1e308, 1e308) | st.just(0.0),
    ),
    zero_based=st.booleans(),
    whole=st.booleans(),
    seed=st.integers(0, 100),
)
def test_round_trips(dense: np.ndarray, zero_based: bool, whole: bool, seed: int, tmp_path: Path) -> None:
    """What scikit-learn writes is read as scikit-learn reads it, to the last bit."""
    random = np.random.default_rng(seed)
    y = random.integers(-3, 3, len(dense)).astype(float) if whole else random.normal(size=len(dense))
    path = str(tmp_path / "data.svm")
    dump_svmlight_file(sp.csr_matrix(dense), y, path, zero_based=zero_based, comment="ein Kommentar", query_id=np.arange(len(y)))
    for base in ("auto", zero_based):
        want, labels = load_svmlight_file(path, zero_based=base)
        X, found = load_svmlight(path, zero_based=base)
        assert same((X.data, X.indices, X.indptr), csr(want))
        assert X.shape == want.shape
        assert np.array_equal(found, labels)
        assert found.dtype == (np.int64 if whole or not (labels % 1).any() else np.float64)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from([b"1", b"-", b":", b" ", b"\n", b"#", b".", b"e", b"\r", b"0", b"23456789", b"q", b"id", b"\x00", b"\xff", b"na", b"1:1 "])))
def test_random_bytes(parts: list[bytes]) -> None:
    text = b"".join(parts)
    try:
        found = parsed(text)
    except ValueError as error:
        assert re.match(r"line \d+, column \d+: ", str(error))
        assert fault(text, cut=2) == str(error)
        return
    data, indices, indptr, n_features, labels = found
    assert same(parsed(text, cut=2), found)
    assert np.isfinite(data).all() and np.isfinite(labels).all()
    assert len(data) == len(indices) == indptr[-1] and len(labels) == len(indptr) - 1
    assert (indices >= 0).all() and (indices < n_features).all()
    for begin, end in itertools.pairwise(indptr):
        assert (np.diff(indices[begin:end]) > 0).all()


def random_text(n: int, random: np.random.Generator, *, ordered: bool = True, first: int = 1) -> bytes:
    lines = []
    for _ in range(n):
        columns = random.choice(3000, random.integers(0, 40), replace=False) + first
        columns = np.sort(columns) if ordered else columns
        row = " ".join(f"{j}:{x:.{random.integers(1, 18)}g}" for j, x in zip(columns, random.normal(size=len(columns)), strict=True))
        lines.append(f"{random.integers(-1, 2)} {row}{' # note' if random.random() < 0.1 else ''}\n")
    return "".join(lines).encode()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_threads_do_not_show(dtype: str) -> None:
    text = random_text(6000, np.random.default_rng(0))
    assert len(text) > 1_500_000
    want = parsed(text, dtype=dtype)
    for threads, cut in itertools.product((1, 2, 5), (150_000, 400_001, 1 << 30)):
        assert same(parsed(text, dtype=dtype, threads=threads, cut=cut), want)


def test_rows_are_put_in_order() -> None:
    text = random_text(2000, np.random.default_rng(1), ordered=False)
    shuffled = Arrays(*parsed(text, threads=2))
    rows = []
    for line in text.decode().splitlines():
        _, *features = line.split("#")[0].split()
        pairs = sorted((int(j), x) for j, x in (feature.split(":") for feature in features))
        rows.append(" ".join(["0", *(f"{j}:{x}" for j, x in pairs)]))
    ordered = Arrays(*parsed("\n".join(rows).encode()))
    assert same(shuffled[:4], ordered[:4])


# -- files


@every_pair(ending=[".svm", ".svm.gz", ".svm.BZ2", ""], n_jobs=[1, 2, None], dtype=[np.float32, "float64"])
def test_files(ending: str, n_jobs: int | None, dtype: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_svmlight, "_BLOCK", 1 << 17)
    text = random_text(2500, np.random.default_rng(2))
    path = tmp_path / f"data{ending}"
    path.write_bytes({".gz": gzip.compress, "BZ2": bz2.compress}.get(ending[-3:], bytes)(text))
    X, y = load_svmlight(path, n_jobs=n_jobs, dtype=dtype)
    want, labels = load_svmlight_file(io.BytesIO(text))
    assert same((X.indices, X.indptr), csr(want)[1:])
    assert np.array_equal(X.data, want.data.astype(dtype)) and X.dtype == dtype and np.array_equal(y, labels)
    assert isinstance(X, sp.csr_matrix) and X.shape == want.shape
    X.check_format(full_check=True)
    assert X.has_sorted_indices and X.has_canonical_format
    parts = list(stream(path, 700, n_jobs=n_jobs, dtype=dtype))
    assert [len(y) for _, y in parts] == [700, 700, 700, 400]
    assert (sp.vstack([X for X, _ in parts]) != X).nnz == 0
    assert {X.shape[1] for X, _ in parts} == {X.shape[1]}
    assert np.array_equal(np.concatenate([y for _, y in parts]), y)


def test_faults_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "data.svm"
    path.write_bytes(b"1 1:1\n1 1:lambda\n")
    message = f'^{re.escape(str(path))}: line 2, column 5: the value "lambda" is not a number$'
    for read in (load_svmlight, arrays, lambda path: list(stream(path)), lambda path: list(stream(path, n_features=3, zero_based=False))):
        with pytest.raises(ValueError, match=message):
            read(path)
        with pytest.raises(FileNotFoundError) as caught:
            read(tmp_path / "none.svm")
        assert caught.value.filename == str(tmp_path / "none.svm")
        with pytest.raises(IsADirectoryError):
            read(tmp_path)
    packed = tmp_path / "data.svm.gz"
    for content in (gzip.compress(b"1 1:1\n" * 100)[:-9], b"neither"):
        packed.write_bytes(content)
        with pytest.raises(ValueError, match=f"^{re.escape(str(packed))}: "):
            load_svmlight(packed)


@pytest.mark.parametrize(
    ("argument", "value", "kind", "message"),
    [
        ("dtype", np.int64, ValueError, "dtype must be float64 or float32, got <class 'numpy.int64'>"),
        ("zero_based", "yes", ValueError, "zero_based must be True, False or 'auto', got 'yes'"),
        ("zero_based", 1, ValueError, "zero_based must be True, False or 'auto', got 1"),
        ("n_features", 0, ValueError, "n_features must be at least 1 and less than 2\\*\\*63, got 0"),
        ("n_features", 2**64, ValueError, "n_features must be at least 1"),
        ("n_features", 1.5, TypeError, "n_features must be an int, got 1.5"),
        ("batch_size", 0, ValueError, "batch_size must be at least 1"),
        ("batch_size", None, TypeError, "batch_size must be an int, got None"),
        ("n_jobs", 0, ValueError, "n_jobs must not be 0"),
    ],
)
def test_arguments(argument: str, value: Any, kind: type[Exception], message: str) -> None:
    # At once, and before the file is looked for.
    for read in (load_svmlight, arrays, stream):
        if argument != "batch_size" or read is stream:
            with pytest.raises(kind, match=message):
                read("none.svm", **{argument: value})


def test_streams_of_what_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = io.TextIOWrapper(io.BytesIO(b"1 1:1\n2 2:1\n" * 3))
    monkeypatch.setattr(sys, "stdin", given)
    for options in ({}, {"n_features": 3}, {"zero_based": True}):
        with pytest.raises(ValueError, match="n_features and zero_based must be given for the standard input"):
            stream("-", **options)  # type: ignore[arg-type]
    parts = [(X.shape, y.tolist()) for X, y in stream("-", 4, n_features=3, zero_based=True)]
    assert parts == [((4, 3), [1, 2, 1, 2]), ((2, 3), [1, 2])]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"1 1:1\n2 2:1\n")))
    assert arrays("-").labels.tolist() == [1, 2]
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(ValueError, match="-: the standard input is closed"):
        arrays("-")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    # One end of it is open, so that nobody waits for the other.
    both = os.open(pipe, os.O_RDWR)
    with pytest.raises(ValueError, match="n_features and zero_based must be given for a pipe"):
        list(stream(pipe, n_features=3))
    os.close(both)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"1 0:1\n2 1:1\n" * 3,))
    writer.start()
    assert sum(X.shape[0] for X, _ in stream(pipe, 4, n_features=2, zero_based=True, n_jobs=2)) == 6
    writer.join()


def test_batches_of_a_stream_come_as_they_are_written() -> None:
    code = (
        "from pegasos._passes import stream\n"
        "for X, y in stream('-', 2, n_features=3, zero_based=False):\n"
        "    print(y.tolist(), flush=True)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout
        for labels in (b"[1, 2]\n", b"[2, 1]\n"):
            for label in labels.decode().strip("[]\n").split(", "):
                process.stdin.write(f"{label} 1:1\n".encode())
            process.stdin.flush()
            assert process.stdout.readline() == labels
        process.stdin.close()


def test_labels_of_batches(tmp_path: Path) -> None:
    path = tmp_path / "data.svm"
    path.write_bytes(b"1 1:1\n-0 1:1\n1.5 1:1\n1e300 2:1\n")
    parts = list(stream(path, 2))
    assert [y.tolist() for _, y in parts] == [[1, 0], [1.5, 1e300]]
    assert [y.dtype for _, y in parts] == [np.int64, np.float64]
    assert {X.shape for X, _ in parts} == {(2, 2)}


def test_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "data.svm"
    path.touch()
    X, y = load_svmlight(path)
    assert (X.shape, y.shape) == ((0, 1), (0,))
    assert list(stream(path)) == []


def test_a_stream_that_is_left_closes_its_file(tmp_path: Path) -> None:
    path = tmp_path / "data.svm"
    path.write_bytes(b"1 1:1\n" * 1000)
    batches = stream(path, 10, n_features=1, zero_based=False)
    next(batches)
    # An open file would be a ResourceWarning, which is an error here.
    del batches


def test_the_arrays_need_no_scipy(tmp_path: Path) -> None:
    """Beyond what the package itself loads."""
    path = tmp_path / "data.svm"
    path.write_bytes(b"1 1:1\n")
    text = Path(_svmlight.__file__).read_text()
    top = [line for line in text.splitlines() if re.match(r"(from|import) ", line)]
    assert not [line for line in top if "scipy" in line or "sklearn" in line]
    assert arrays(path).n_features == 1


def test_memory_of_a_stream_is_constant(tmp_path: Path, run_forked: Any) -> None:
    path = tmp_path / "data.svm"
    path.write_bytes(b"1 1:0.5 2:0.25 3:0.125 4:1\n" * 1_500_000)
    code = (
        "from conftest import peak\n"
        "from pegasos._passes import stream\n"
        f"batches = stream({str(path)!r}, 1000, n_jobs=2)\n"
        "next(batches)\n"
        "before = peak()\n"
        "n = sum(len(y) for _, y in batches)\n"
        "print(n, peak() - before)\n"
    )
    n, grown = map(int, run_forked(code).stdout.split())
    assert n == 1_499_000
    # The rows take 90 MB.
    assert grown < 15_000_000


def test_an_interrupt_stops_the_reading(tmp_path: Path) -> None:
    """While a pipe is waited for."""
    code = (
        "import os, signal, threading\n"
        "from pegasos._svmlight import arrays\n"
        "threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "try:\n"
        "    arrays('-', n_jobs=2)\n"
        "except KeyboardInterrupt:\n"
        "    print('stopped')\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"stopped\n"
