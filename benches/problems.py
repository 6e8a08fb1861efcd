"""The data sets of the comparisons: generated ones, and real ones where they are at hand.

Real sets are read from the folder named by the environment variable PEGASOS_DATA.
"""

from __future__ import annotations

import os
from pathlib import Path

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


def news20() -> tuple[sp.csr_matrix, np.ndarray]:
    """20 newsgroups, computing and science against the rest: tf-idf of words and pairs, f32."""
    folder = os.environ.get("PEGASOS_DATA")
    if not folder or not (path := Path(folder) / "news20.npz").exists():
        raise FileNotFoundError("news20: no news20.npz in the folder named by PEGASOS_DATA")
    with np.load(path) as arrays:
        parts = tuple(arrays[name] for name in ("data", "indices", "indptr"))
        return sp.csr_matrix(parts, shape=arrays["shape"]), arrays["y"]
