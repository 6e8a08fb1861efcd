"""The data sets of the comparisons: generated ones, and real ones where they are at hand.

Real sets are read from the folder named by the environment variable PEGASOS_DATA.
"""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from pegasos.datasets import make_checkerboard, make_waveform


# Rows and labels to train on, rows and labels to test on.
Split = tuple[Any, np.ndarray, Any, np.ndarray]


def split(X: Any, y: np.ndarray, n: int) -> Split:
    """The first n rows to train on, the rest to test on."""
    return X[:n], y[:n], X[n:], y[n:]


def words(n: int = 600_000, d: int = 1 << 20, seed: int = 0) -> tuple[sp.csr_matrix, np.ndarray]:
    """Documents of two kinds: about 44 hashed words of d, f32, rows of unit length.

    Words follow a power law; a quarter of a document's words come from its own kind's half of the
    vocabulary; 3% of the labels are wrong.
    """
    random = np.random.default_rng(seed)
    y = random.integers(0, 2, n)
    length = np.maximum(1, random.poisson(44, n))
    indptr = np.concatenate([[0], np.cumsum(length)]).astype(np.int32)
    rank = (d * random.random(indptr[-1]) ** 3).astype(np.int64)
    own = random.random(indptr[-1]) < 0.25
    rank[own] = (2 * rank[own] + np.repeat(y, length)[own]) % d
    word = (rank * 0x9E3779B1 % d).astype(np.int32)
    X = sp.csr_matrix((np.ones(len(word), np.float32), word, indptr), shape=(n, d))
    X.sum_duplicates()
    norm = np.sqrt(np.add.reduceat(X.data * X.data, X.indptr[:-1]))
    X.data /= np.repeat(norm, np.diff(X.indptr))
    wrong = random.random(n) < 0.03
    return X, np.where(wrong, 1 - y, y)


def scattered(n: int = 500_000, d: int = 1 << 20, stored: int = 43) -> tuple[sp.csr_matrix, np.ndarray]:
    """Rows of so many of d columns, all columns as likely, f32, of about unit length; labels by a hidden linear score."""
    random = np.random.default_rng(0)
    column = random.integers(0, d, n * stored).astype(np.int32)
    value = (random.standard_normal(n * stored) / np.sqrt(stored)).astype(np.float32)
    X = sp.csr_matrix((value, column, np.arange(0, n * stored + 1, stored, dtype=np.int32)), shape=(n, d))
    X.sum_duplicates()
    score = X @ random.standard_normal(d).astype(np.float32)
    return X, (score + 0.3 * random.standard_normal(n) > 0).astype(np.int64)


def topics(n: int, n_test: int, d: int = 1 << 17, n_classes: int = 20, length: int = 74) -> Split:
    """Documents of many kinds: hashed words of d, f32, rows of unit length.

    Words follow a power law; two fifths of a document's words come from its own kind's part of the vocabulary; 3% of the
    labels are wrong.
    """
    random = np.random.default_rng(0)
    rows = n + n_test
    y = random.integers(0, n_classes, rows)
    rank = (d * random.random((rows, length)) ** 3).astype(np.int64)
    own = random.random((rows, length)) < 0.4
    rank = np.where(own, (n_classes * rank + y[:, None]) % d, rank)
    word = (rank * 0x9E3779B1 % d).astype(np.int32).ravel()
    indptr = np.arange(0, rows * length + 1, length, dtype=np.int32)
    X = sp.csr_matrix((np.ones(len(word), np.float32), word, indptr), shape=(rows, d))
    X.sum_duplicates()
    norm = np.sqrt(np.add.reduceat(X.data * X.data, X.indptr[:-1]))
    X.data /= np.repeat(norm, np.diff(X.indptr))
    wrong = random.random(rows) < 0.03
    return split(X, np.where(wrong, random.integers(0, n_classes, rows), y), n)


def source_code(files: int, classes: int = 40, lines: int = 25) -> Split:
    """Which package a piece of Python is from: tf-idf of the words in pieces of so many lines, f64.

    Of the packages that the running Python has, with those of the standard library, the ones with the most pieces. What
    comes out depends on what is installed.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    pieces: dict[str, list[str]] = {}
    for root in map(Path, sorted({sysconfig.get_path("purelib"), sysconfig.get_path("stdlib")})):
        found = sorted(path.relative_to(root) for path in root.glob("*/**/*.py"))
        found = [path for path in found if path.parts[0] != "site-packages"]
        for path in found[:: max(1, len(found) // files)]:
            text = (root / path).read_text(encoding="utf-8", errors="ignore").splitlines()
            own = pieces.setdefault(".".join(path.parts[:2]), [])
            own += ["\n".join(text[at : at + lines]) for at in range(0, len(text) - lines // 2, lines)]
    largest = sorted(pieces, key=lambda name: (-len(pieces[name]), name))[:classes]
    texts = [text for name in largest for text in pieces[name]]
    y = np.repeat(np.arange(len(largest)), [len(pieces[name]) for name in largest])
    X = TfidfVectorizer(sublinear_tf=True).fit_transform(texts)
    order = np.random.default_rng(0).permutation(len(y))
    return split(X[order], y[order], len(y) * 9 // 10)


def table(n: int = 500_000, d: int = 54, dtype: type = np.float32) -> tuple[np.ndarray, np.ndarray]:
    """A dense table of standardised features, labels by a noisy hidden linear score."""
    random = np.random.default_rng(0)
    X: np.ndarray = random.standard_normal((n, d)).astype(dtype)
    score = X @ (random.standard_normal(d) / np.sqrt(d)).astype(dtype)
    return X, (score + 0.7 * random.standard_normal(n) > 0).astype(np.int64)


def news20(prefix: str = "") -> tuple[sp.csr_matrix, np.ndarray]:
    """20 newsgroups, computing and science against the rest: tf-idf of words and pairs, f32.

    The rows to train on; with the prefix "t", those to test on.
    """
    arrays = stored("news20")
    parts = tuple(arrays[prefix + name] for name in ("data", "indices", "indptr"))
    return sp.csr_matrix(parts, shape=arrays[prefix + "shape"]), arrays[prefix + "y"]


def stored(name: str) -> dict[str, np.ndarray]:
    """The arrays of a real set."""
    folder = os.environ.get("PEGASOS_DATA")
    if not folder or not (path := Path(folder) / f"{name}.npz").exists():
        raise FileNotFoundError(f"{name}: no {name}.npz in the folder named by PEGASOS_DATA")
    with np.load(path) as arrays:
        return dict(arrays)


def given(name: str) -> Split:
    """A real set as it is stored. Of covtype15k the first 12,000 rows are to train on."""
    arrays = stored(name)
    if "X" in arrays:
        return split(arrays["X"], arrays["y"], 12_000)
    return tuple(arrays[key] for key in ("X_train", "y_train", "X_test", "y_test"))  # type: ignore[return-value]


def standardised(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> Split:
    """Features of zero mean and unit variance among the rows to train on, f32."""
    X = X.astype(np.float64)
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    deviation[deviation == 0.0] = 1.0
    X, X_test = (((part - mean) / deviation).astype(np.float32) for part in (X, X_test))
    return X, y, X_test, y_test


def generated(make: Any, n: int, n_test: int = 20_000) -> Split:
    """n examples of a generator to train on, others to test on; standardised."""
    return standardised(*make(n, 0), *make(n_test, 1))


def scaled(name: str, largest: float) -> Split:
    """A real set, its features divided by their largest value, f32."""
    X, y, X_test, y_test = given(name)
    return X / np.float32(largest), y, X_test / np.float32(largest), y_test


#: Features standardised but where the name says otherwise.
SETS: dict[str, Callable[[], Split]] = {
    "letter": lambda: standardised(*given("letter")),
    "usps": lambda: standardised(*given("usps")),
    "usps [0,1]": lambda: scaled("usps", 1.0),
    "covtype15k": lambda: standardised(*given("covtype15k")),
    "waveform 100k": lambda: generated(make_waveform, 100_000),
    "checkerboard 100k": lambda: generated(make_checkerboard, 100_000),
    "mnist": lambda: standardised(*given("mnist")),
    "mnist [0,1]": lambda: scaled("mnist", 255.0),
    "a9a": lambda: standardised(*given("a9a")),
    "a9a {0,1}": lambda: scaled("a9a", 1.0),
    "news20": lambda: (*news20(), *news20("t")),
    "words": lambda: split(*words(660_000), 600_000),
    "table": lambda: split(*table(550_000), 500_000),
    "scattered": lambda: split(*scattered(550_000), 500_000),
}


def a9a_sparse() -> Split:
    """Adult: binary features, CSR in f64, what a reader of svmlight files gives."""
    X, y, X_test, y_test = given("a9a")
    return sp.csr_matrix(X, dtype=np.float64), y, sp.csr_matrix(X_test, dtype=np.float64), y_test
