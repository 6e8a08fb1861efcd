"""A cache gives the rows of its source, is used as long as it belongs to it, and is whole or not there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer

from pegasos import _cache, _svmlight
from pegasos._cache import CachedSource
from pegasos._passes import passes
from pegasos._sources import open_source, stacked
from pegasos.io import read, stream

N = 3000
RANDOM = np.random.default_rng(0)
SPARSE = sp.random(N, 60, 0.1, format="csr", random_state=1)
LABELS = np.sort(RANDOM.integers(0, 3, N))


def write_svm(path: Path, X: Any = SPARSE, base: int = 1, labels: Any = LABELS) -> Path:
    rows = (
        f"{label} " + " ".join(f"{j + base}:{v!r}" for j, v in zip(row.indices, row.data.tolist(), strict=True))
        for label, row in zip(labels.tolist(), X, strict=True)
    )
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture
def svm(tmp_path: Path) -> Path:
    return write_svm(tmp_path / "a.svm")


def cached(path: Path, **options: Any) -> CachedSource:
    source = open_source(path, **{"cache": True} | options)
    assert isinstance(source, CachedSource)
    return source


def same(one: Any, other: Any) -> bool:
    (X, y), (Z, z) = one, other
    if sp.issparse(X):
        arrays = [(getattr(X, name), getattr(Z, name)) for name in ("data", "indices", "indptr")]
    else:
        arrays = [(X, Z)]
    arrays += [] if y is None else [(y, z)]
    return X.shape == Z.shape and all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in arrays)


def check_is_kept(path: Path, **options: Any) -> CachedSource:
    """What a cache gives, written and read, is what its source gives; from any row on."""
    want = list(stream(path, 700, **options))
    n = sum(X.shape[0] for X, _ in want)
    for _ in range(2):
        found = list(stream(path, 700, **options, cache=True))
        assert len(found) == len(want)
        assert all(map(same, found, want))
    source = cached(path, **options)
    for skip in (0, 1, n // 3, n - 1, n):
        for one, other in zip(source.batches(77, skip), stream(path, 77, skip=skip, **options), strict=True):
            assert same(one, other)
    assert (source.n_rows, source.n_features) == (n, want[0][0].shape[1])
    return source


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("base", [0, 1])
def test_svmlight(dtype: Any, base: int, tmp_path: Path) -> None:
    path = write_svm(tmp_path / "a.svm", base=base)
    for options in ({}, {"n_features": 100}, {"zero_based": True}, {"label": None}, {"n_jobs": 2, "n_features": 70}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check_is_kept(path, dtype=dtype, **options)


def test_an_index_0_in_the_last_line(tmp_path: Path) -> None:
    path = tmp_path / "a.svm"
    path.write_text("1 1:1 3:2\n" * 2500 + "2 0:5\n")
    check_is_kept(path)
    X, _ = stacked(list(stream(path, cache=True)))
    assert X.shape == (2501, 4) and X[0].indices.tolist() == [1, 3] and X[2500].indices.tolist() == [0]


def test_wide_indices(tmp_path: Path) -> None:
    path = tmp_path / "a.svm"
    path.write_text("1 1:1 3:2\n" * 1500 + f"2 {2**40}:5\n" + "3\n")
    X, y = stacked(list(stream(path, cache=True)))
    assert X.shape == (1502, 2**40) and X.indices.dtype == X.indptr.dtype == np.int64
    assert X.indices[-1] == 2**40 - 1 and X.indices[:2].tolist() == [0, 2] and y[-1] == 3


def test_labels(tmp_path: Path) -> None:
    path = tmp_path / "a.svm"
    # Whole in some batches.
    write_svm(path, labels=np.where(np.arange(N) < 2000, LABELS, LABELS + 0.5))
    check_is_kept(path)
    path = tmp_path / "a.csv"
    for labels in (["red", "blue\n", "é"], ["1", "2", str(2**63 - 1)], ["1", "2", "0.5"]):
        path.write_text("".join(f'{k},{k / 7!r},"{labels[k % 3]}"\n' for k in range(2000)), encoding="utf-8")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check_is_kept(path)
            assert cached(path, dtype=np.float32).n_features == 2


@pytest.mark.parametrize("labels", [np.array([True, False] * 500), np.arange(1000, dtype=np.uint64) + 2**63, np.arange(1000) / 8])
def test_labels_of_every_type(labels: np.ndarray, tmp_path: Path) -> None:
    X = RANDOM.normal(size=(1000, 3)).astype(np.float32)
    table = pyarrow.table({"a": X[:, 0], "b": X[:, 1], "y": labels})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    check_is_kept(tmp_path / "a.parquet")
    np.savez(tmp_path / "a.npz", X=X, y=labels)
    check_is_kept(tmp_path / "a.npz", dtype=np.float32)


def test_folders_and_labels_apart(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for k in range(2):
        table = pyarrow.table({"colour": ["red", "blue"] * 50, "size": np.arange(100.0) + k, "y": [0, 1] * 50})
        pyarrow.parquet.write_table(table, tmp_path / "folder" / f"{k}.parquet")
    check_is_kept(tmp_path / "folder", hashing=2**8)
    os.utime(tmp_path / "folder" / "1.parquet", ns=(0, 0))
    with pytest.warns(UserWarning, match="folder.pegasos-cache: the source has changed since; it is written anew"):
        list(stream(tmp_path / "folder", hashing=2**8, cache=True))
    with pytest.warns(UserWarning, match="something else is asked for"):
        list(stream(tmp_path / "folder", hashing=FeatureHasher(2**8, alternate_sign=False), cache=True))
    np.save(tmp_path / "X.npy", np.eye(50))
    np.save(tmp_path / "y.npy", np.arange(50))
    check_is_kept(tmp_path / "X.npy", label=str(tmp_path / "y.npy"))
    np.save(tmp_path / "y.npy", np.arange(50) + 1)
    os.utime(tmp_path / "y.npy", ns=(0, 0))
    with pytest.warns(UserWarning, match="the source has changed since"):
        _, y = next(stream(tmp_path / "X.npy", label=str(tmp_path / "y.npy"), cache=True))
    assert y[0] == 1


def test_the_source_is_read_once(svm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Any] = []
    def counting(path: Any) -> Any:
        opened.append(path)
        return original(path)

    original = _svmlight.opened
    monkeypatch.setattr(_svmlight, "opened", counting)
    for _ in range(2):
        list(stream(svm, passes=3, cache=True))
        assert opened == [svm]
    elsewhere = svm.parent / "elsewhere.bin"
    list(stream(svm, cache=elsewhere))
    assert elsewhere.exists() and len(opened) == 2


def test_what_is_reported(svm: Path) -> None:
    source, seen = cached(svm), list[int]()
    source.prepare(lambda: seen.append(source.read_bytes))
    size = svm.stat().st_size
    assert seen and seen == sorted(seen) and seen[-1] == source.n_bytes == size
    again = cached(svm)
    again.prepare(lambda: pytest.fail("nothing is written"))
    list(again.batches(100))
    assert size * 0.99 < again.read_bytes <= size


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"dtype": np.float32}, "something else is asked for"),
        ({"zero_based": True}, "something else is asked for"),
        ({"n_features": 77}, "something else is asked for"),
        ({"label": None}, "something else is asked for"),
    ],
)
def test_other_arguments(options: dict[str, Any], reason: str, svm: Path) -> None:
    list(stream(svm, cache=True))
    with pytest.warns(UserWarning, match=f"{svm}.pegasos-cache: {reason}; it is written anew"):
        found = list(stream(svm, cache=True, **options))
    assert all(map(same, found, stream(svm, **options)))
    # And now it is that.
    list(stream(svm, cache=True, **options))


def test_a_name_is_no_number(tmp_path: Path) -> None:
    """Where the first of three columns is called 2, or the last one None."""
    path = tmp_path / "a.csv"
    for header, number, name in (("2,0,1", 2, "2"), ("a,b,None", None, "None")):
        path.write_text(f"{header}\n0,10,20\n1,11,21\n")
        for before, label in ((number, name), (name, number)):
            list(stream(path, label=before, cache=tmp_path / name))
            with pytest.warns(UserWarning, match="something else is asked for"):
                found = next(stream(path, label=label, cache=tmp_path / name))
            assert same(found, next(stream(path, label=label)))
            (tmp_path / name).unlink()
    # One number is another.
    list(stream(path, label=np.int64(2), cache=True))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(stream(path, label=2, cache=True))


def test_a_source_that_has_changed(svm: Path) -> None:
    list(stream(svm, cache=True))
    before = svm.stat()
    svm.write_text("7 3:1\n" + svm.read_text())
    with pytest.warns(UserWarning, match="the source has changed since"):
        assert next(stream(svm, cache=True))[1][0] == 7
    # Of the same size, at another time; and the other way round.
    svm.write_text(svm.read_text().replace("7 3:1", "8 3:1"))
    os.utime(svm, ns=(before.st_atime_ns, before.st_mtime_ns - 1))
    with pytest.warns(UserWarning, match="the source has changed since"):
        assert next(stream(svm, cache=True))[1][0] == 8


def test_a_source_that_changes_while_it_is_read(svm: Path) -> None:
    source = cached(svm)

    def change() -> None:
        os.utime(svm, ns=(1, 1))

    with pytest.raises(ValueError, match="it was changed while it was read"):
        source.prepare(change)
    assert os.listdir(svm.parent) == ["a.svm"]


def test_a_damaged_directory(svm: Path) -> None:
    """Every byte of header and directory, and every length: nothing is taken for what it is not."""
    source = cached(svm)
    source.prepare()
    file = Path(source.cache)
    whole, want = file.read_bytes(), list(stream(svm))
    directory = int.from_bytes(whole[16:24], "little")
    cuts = [whole[:k] for k in (0, 3, 8, 20, 63, 64, 1000, directory, directory + 9, len(whole) - 1)] + [whole + b"x"]
    places = [*range(44), *range(directory, len(whole), 7)]
    flipped = [whole[:k] + bytes([whole[k] ^ 64]) + whole[k + 1 :] for k in places]
    for damaged in cuts + flipped:
        file.write_bytes(damaged)
        with pytest.raises(_cache._Stale):
            _cache._File(str(file), {})
    for damaged in (b"", cuts[-1], flipped[9], flipped[20], flipped[-1]):
        file.write_bytes(damaged)
        with pytest.warns(UserWarning, match="it is written anew"):
            assert all(map(same, stream(svm, cache=True), want))
        assert file.read_bytes() == whole


def test_damaged_blocks(svm: Path) -> None:
    """What is read is checked: a byte that is another, anywhere, and a file that became shorter while it was open."""
    source = cached(svm)
    source.prepare()
    file = Path(source.cache)
    whole = file.read_bytes()
    directory = int.from_bytes(whole[16:24], "little")
    for place in range(64, directory, directory // 40):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(ValueError, match=f"{file}: it is damaged, remove it"):
            list(stream(svm, cache=True))
    file.write_bytes(whole)
    source = cached(svm)
    batches = source.batches(100)
    next(batches)
    os.truncate(file, 5000)
    with pytest.raises(ValueError, match="it ends too early; remove it|it is damaged, remove it"):
        list(batches)


def test_hostile_blocks(svm: Path, tmp_path: Path) -> None:
    """Of somebody who writes checksums as well: no index leads outside."""
    X = SPARSE[:50].copy()
    for bad in (60, -1, 2**31 - 1):
        X.indices = X.indices.copy()
        X.indices[7] = bad
        with open(tmp_path / "bad", "wb") as file:
            writer = _cache._Writer(file, False, True)
            writer.add(X, LABELS[:50])
            writer.end(60, None, {})
        found = _cache._File(str(tmp_path / "bad"), {})
        with pytest.raises(ValueError, match="it is damaged"):
            found.take(np.array([0]))
    # Numbers of what rows store whose sum goes round to the right one.
    blocks = np.diff(SPARSE[:50].indptr).astype(np.uint32)
    for more in (2**32 - 1000, 2**31):
        with open(tmp_path / "bad", "wb") as file:
            writer = _cache._Writer(file, False, True)
            writer.add(SPARSE[:50], LABELS[:50])
            lengths = blocks.copy()
            lengths[:2] += np.array([more, 2**32 - more], np.uint32)
            of_labels = 64 + 8 * 50
            file.seek(of_labels)
            file.write(lengths.tobytes())
            file.flush()
            block = Path(file.name).read_bytes()[64:]
            writer._sums = [int(_cache._sum(np.frombuffer(block, np.uint32)))]
            file.seek(0, os.SEEK_END)
            writer.end(60, None, {})
        found = _cache._File(str(tmp_path / "bad"), {})
        with pytest.raises(ValueError, match="it is damaged"):
            found.take(np.array([0]))
    for about in ({"n_rows": 0}, {"run": 0}, {"n_features": -1}, {"rows": "text"}, {"values": "object"}, {"n_rows": 10**9}, {"run": 3}):
        with open(tmp_path / "bad", "wb") as file:
            writer = _cache._Writer(file, False, True)
            writer.add(SPARSE[:50], LABELS[:50])
            writer.n_rows = about.pop("n_rows", 50)
            writer._about |= about
            writer.end(about.pop("n_features", 60), None, {})
        with pytest.raises(_cache._Stale):
            _cache._File(str(tmp_path / "bad"), {})


def test_text_that_is_wrong_leaves_nothing(svm: Path) -> None:
    svm.write_text(svm.read_text() + "1 x\n")
    with pytest.raises(ValueError, match=f"line {N + 1}"):
        list(stream(svm, cache=True))
    assert os.listdir(svm.parent) == ["a.svm"]
    # And what was there before stays until there is another.
    write_svm(svm)
    list(stream(svm, cache=True))
    before = Path(f"{svm}.pegasos-cache").read_bytes()
    svm.write_text("1 x\n")
    with pytest.warns(UserWarning, match="has changed"), pytest.raises(ValueError, match="line 1"):
        list(stream(svm, cache=True))
    assert Path(f"{svm}.pegasos-cache").read_bytes() == before


def test_a_writer_that_is_killed_leaves_nothing_that_lasts(svm: Path) -> None:
    code = (
        "import sys, time\n"
        "from pegasos._sources import open_source\n"
        "def report():\n"
        "    print('writing', flush=True)\n"
        "    time.sleep(60)\n"
        "open_source(sys.argv[1], cache=True).prepare(report)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(svm)], stdout=subprocess.PIPE) as process:
        assert process.stdout and process.stdout.readline() == b"writing\n"
        # Beside one that writes, another may.
        assert all(map(same, stream(svm, cache=True), stream(svm)))
        os.unlink(f"{svm}.pegasos-cache")
        assert len(os.listdir(svm.parent)) == 2
        process.send_signal(signal.SIGKILL)
    assert not os.path.exists(f"{svm}.pegasos-cache")
    assert all(map(same, stream(svm, cache=True), stream(svm)))
    assert sorted(os.listdir(svm.parent)) == ["a.svm", "a.svm.pegasos-cache"]


def test_many_write_at_once(svm: Path) -> None:
    """Of different arguments: each reads its own."""
    wanted = {size: list(stream(svm, n_features=size)) for size in (60, 70, 80)}
    failed: list[Any] = []

    def work(size: int) -> None:
        for _ in range(5):
            try:
                found = list(stream(svm, n_features=size, cache=True))
            except Exception as error:
                failed.append(error)
            else:
                failed.extend([] if all(map(same, found, wanted[size])) else [size])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        threads = [threading.Thread(target=work, args=(size,)) for size in wanted]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failed == []
    assert sorted(os.listdir(svm.parent)) == ["a.svm", "a.svm.pegasos-cache"]


def test_a_reader_keeps_its_file(svm: Path) -> None:
    want = list(stream(svm, 100))
    source = cached(svm)
    batches = source.batches(100)
    found = [next(batches)]
    svm.write_text("1 1:1\n")
    with pytest.warns(UserWarning, match="has changed"):
        assert next(stream(svm, cache=True))[0].shape == (1, 1)
    found += batches
    assert all(map(same, found, want))
    # In later passes as well.
    assert all(map(same, source.batches(100), want))


def test_orders(svm: Path) -> None:
    """Every row once, from all over the file, and from any batch on as in the run that began."""
    svm = write_svm(svm, labels=np.arange(N))
    source = cached(svm)
    for window in (50, 500, 10_000):
        batches = list(passes(source, 100, n_passes=2, window=window, seed=3))
        assert [len(y) for _, y in batches] == [100] * 60
        orders = np.concatenate([y for _, y in batches]).reshape(2, N)
        for order in orders:
            np.testing.assert_array_equal(np.sort(order), np.arange(N))
        assert (orders[0] != orders[1]).any()
        for X, y in batches[::7]:
            assert (X != SPARSE[y]).nnz == 0
        for k in range(0, 60, 7):
            rest = list(passes(cached(svm), 100, n_passes=2, window=window, seed=3, skip=100 * k))
            assert all(map(same, rest, batches[k:])) and len(rest) == 60 - k
    assert source.run is not None and source.run < 500


def test_sorted_labels_are_mixed(svm: Path) -> None:
    """Windows of the file hold one class, those of runs nearly as much of each as there is."""
    svm.write_text("".join(f"{label} 1:1 2:0.25\n" for label in (0, 1) for _ in range(40_000)))
    options: dict[str, Any] = {"shuffle": 20_000, "random_state": 0, "zero_based": False, "n_features": 2}
    near = [y.mean() for _, y in stream(svm, 20_000, **options)]
    far = [y.mean() for _, y in stream(svm, 20_000, **options, cache=True)]
    assert near == [0, 0, 1, 1]
    assert 0.2 < min(far) < max(far) < 0.8


def test_where_there_can_be_none(svm: Path) -> None:
    for origin in ([(np.eye(2), [0, 1])], lambda: [], pyarrow.table({"a": [1], "b": [1]})):
        with pytest.raises(ValueError, match="cache must be None for the .*: nothing tells when it has become another"):
            stream(origin, cache=True)
    with pytest.raises(ValueError, match="cache must be None for -"):
        stream("-", n_features=1, zero_based=True, cache=True)
    with pytest.raises(ValueError, match="cache must be another file than the source"):
        stream(svm, cache=svm)
    for name in ("kept", "deep/kept"):
        with pytest.raises(ValueError, match=f"cache must not be in the folder that is the source, got {svm.parent / name}"):
            stream(svm.parent, format="parquet", cache=svm.parent / name)
    # A pipe would be waited for.
    with pytest.raises(ValueError, match=f"cache must be a file, got {os.devnull}, a pipe or a device"):
        stream(svm, cache=os.devnull)
    with pytest.raises(FileNotFoundError):
        list(stream(svm, cache=svm.parent / "none" / "cache"))
    with pytest.raises(FileNotFoundError):
        list(stream(svm.parent / "none.svm", cache=True))
    with pytest.raises(IsADirectoryError):
        (svm.parent / "folder").mkdir()
        list(stream(svm, cache=svm.parent / "folder"))
    svm.write_text("")
    with pytest.raises(ValueError, match="a.svm: it holds no examples"):
        list(stream(svm, cache=True))


def test_a_file_of_something_else_is_no_cache(svm: Path) -> None:
    mine = svm.parent / "mine.txt"
    mine.write_text("dear diary")
    with pytest.raises(ValueError, match="mine.txt: it is no cache of pegasos, and stays as it is"):
        list(stream(svm, cache=mine))
    assert mine.read_text() == "dear diary"


def test_functions_are_not_known_again() -> None:
    # Two of them may have one name and, one after the other, one address.
    hasher = HashingVectorizer(tokenizer=lambda text: text.split(), token_pattern=None)
    with pytest.raises(ValueError, match="cache must be None where tokenizer of hashing is a function, got <.*lambda"):
        stream("a.csv", hashing=hasher, cache=True)
    stream("a.csv", hashing=hasher)


def test_without_positioned_reads(svm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows."""
    want = list(stream(svm, 300))
    monkeypatch.delattr(os, "preadv", raising=False)
    assert all(map(same, stream(svm, 300, cache=True), want))


def test_memory_is_that_of_a_window(tmp_path: Path, run_forked: Any) -> None:
    path = tmp_path / "a.svm"
    path.write_bytes(b"1 1:0.5 2:0.25 3:0.125 4:1\n0 5:1\n" * 750_000)
    code = (
        "from conftest import peak\n"
        "from pegasos.io import stream\n"
        f"path = {str(path)!r}\n"
        "next(stream(path, 1000, n_features=5, zero_based=False, shuffle=True))\n"
        "before = peak()\n"
        "n = sum(len(y) for _, y in stream(path, 1000, passes=2, cache=True, shuffle=10_000))\n"
        "print(n, peak() - before)\n"
    )
    n, grown = map(int, run_forked(code).stdout.split())
    assert n == 3_000_000
    # The file is of 26 MB, the cache of 54 MB.
    assert grown < 15_000_000


def test_rows_larger_than_a_block(tmp_path: Path) -> None:
    X = sp.csr_matrix(RANDOM.normal(size=(20, 9000)))
    path = write_svm(tmp_path / "a.svm", X, labels=LABELS[:20])
    source = check_is_kept(path)
    assert source.run == 1
    assert read(path).X.shape == (20, 9000)
