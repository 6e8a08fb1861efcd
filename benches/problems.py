"""The data sets of the comparisons: generated ones, and real ones where they are at hand.

Real sets are read from the folder named by the environment variable PEGASOS_DATA.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp


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


def table(n: int = 500_000, d: int = 54, dtype: type = np.float32) -> tuple[np.ndarray, np.ndarray]:
    """A dense table of standardised features, labels by a noisy hidden linear score."""
    random = np.random.default_rng(0)
    X = random.standard_normal((n, d)).astype(dtype)
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


# Rows and labels to train on, rows and labels to test on.
Split = tuple[Any, np.ndarray, Any, np.ndarray]


def split(X: Any, y: np.ndarray, n: int) -> Split:
    """The first n rows to train on, the rest to test on."""
    return X[:n], y[:n], X[n:], y[n:]


def news20_split() -> Split:
    return *news20(), *news20("t")


def words_split() -> Split:
    return split(*words(660_000), 600_000)


def table_split() -> Split:
    return split(*table(550_000), 500_000)


def a9a_split() -> Split:
    """Adult: binary features, CSR in f64, what a reader of svmlight files gives."""
    arrays = stored("a9a")
    X, X_test = (sp.csr_matrix(arrays[f"X_{part}"], dtype=np.float64) for part in ("train", "test"))
    return X, arrays["y_train"], X_test, arrays["y_test"]


def letter_split() -> Split:
    """Letters by 16 features of zero mean and unit variance, f32."""
    arrays = stored("letter")
    mean, deviation = arrays["X_train"].mean(axis=0), arrays["X_train"].std(axis=0)
    X, X_test = (
        ((arrays[f"X_{part}"] - mean) / deviation).astype(np.float32) for part in ("train", "test")
    )
    return X, arrays["y_train"], X_test, arrays["y_test"]


def mnist_split() -> Split:
    """Handwritten digits, 784 pixels in [0, 1], f32."""
    arrays = stored("mnist")
    X, X_test = (arrays[f"X_{part}"] / np.float32(255) for part in ("train", "test"))
    return X, arrays["y_train"], X_test, arrays["y_test"]
