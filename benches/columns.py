"""What it buys to number the columns of sparse rows by how often they occur, on one thread.

    python benches/columns.py [--full] [words] [news20] [topics]

Three epochs of `fit`, in turn, on the columns as they are and numbered by frequency: the median of the ratios, and of the
seconds; beside that what the numbering itself takes. A ratio above 1 is a gain.
"""

from __future__ import annotations

import one_thread  # noqa: F401, I001 before NumPy

import time

import numpy as np
import scipy.sparse as sp

import harness
from harness import papers_linear
from problems import news20, topics, words


def by_frequency(X: sp.csr_matrix) -> sp.csr_matrix:
    rank = np.empty(X.shape[1], X.indices.dtype)
    rank[np.argsort(-np.bincount(X.indices, minlength=X.shape[1]), kind="stable")] = np.arange(X.shape[1])
    return sp.csr_matrix((X.data.copy(), rank[X.indices], X.indptr.copy()), shape=X.shape)


def seconds(X: sp.csr_matrix, y: np.ndarray, sampling: str) -> float:
    model = papers_linear(multi_class="ovr", solver="pegasos", max_iter=3, tol=None, sampling=sampling, random_state=0)
    start = time.perf_counter()
    model.fit(X, y)
    return time.perf_counter() - start


def main() -> None:
    run = harness.begin(__doc__, "problem,sampling,seconds,ratio,seconds to number")
    n = run.pick(quick=100_000, full=600_000, tiny=500)
    sets = {
        "words": lambda: words(n),
        "news20": news20,
        "topics": lambda: topics(n // 12 + 20, 10)[:2],
    }
    for name in run.wanted(sets):
        data = harness.load(sets, name)
        if data is None:
            continue
        X, y = data
        start = time.perf_counter()
        numbered = by_frequency(X)
        numbering = time.perf_counter() - start
        for sampling in ("shuffle", "blocks"):
            seconds(X, y, sampling)  # whatever is loaded at first use
            rounds = run.pick(quick=5, full=9, tiny=1)
            times = np.array([[seconds(Z, y, sampling) for Z in (X, numbered)] for _ in range(rounds)])
            ratio = float(np.median(times[:, 0] / times[:, 1]))
            run.row(name, sampling, float(np.median(times[:, 0])), ratio, numbering)


if __name__ == "__main__":
    main()
