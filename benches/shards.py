"""What a second core buys: an epoch on two shards and two threads beside one on one.

    python benches/shards.py

Prints CSV: seconds of a further epoch (a quarter of max_iter=5 less 1) over words and a table, in rows and in
blocks shuffled, the ratio pair by pair; and the objectives on words after E epochs on one shard and E + 1 on
two. Needs two idle cores.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import problems
from harness import head, papers_linear

COMMON: dict[str, Any] = dict(alpha=1e-4, fit_intercept=False, random_state=0, solver="pegasos")


def further(X: np.ndarray, y: np.ndarray, **setting: Any) -> float:
    """Seconds of a further epoch."""
    took = []
    for max_iter in (1, 5):
        model = papers_linear(max_iter=max_iter, tol=None, **COMMON, **setting)
        start = time.perf_counter()
        model.fit(X, y)
        took.append(time.perf_counter() - start)
    return (took[1] - took[0]) / 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=11, help="timed pairs per figure (11)")
    options = parser.parse_args()
    head(
        f"benches/shards.py --pairs {options.pairs}",
        "data,measure,setting,one shard,two shards,ratio",
        "one and two threads",
    )
    table, words = problems.table(), problems.words()
    for data, problem in {"table": table, "words": words}.items():
        for sampling in ("shuffle", "blocks"):
            pairs = np.array([
                [further(*problem, sampling=sampling, shards=k, n_jobs=k) for k in (1, 2)]
                for _ in range(options.pairs + 1)
            ])[1:]
            one, two = np.median(pairs, axis=0)
            ratio = np.median(pairs[:, 0] / pairs[:, 1])
            row = f"{data},a further epoch (s),{sampling},{one:.5g},{two:.5g},{ratio:.4g}"
            print(row, flush=True)
    # So few epochs are the question.
    warnings.simplefilter("ignore", ConvergenceWarning)
    for epochs in (1, 2, 4):
        objectives = []
        for shards in (1, 2):
            model = papers_linear(
                max_iter=epochs + shards - 1, tol=0.0, shards=shards, n_jobs=shards, **COMMON
            )
            objectives.append(model.fit(*words).objective_)
        one, two = objectives
        print(f"words,objective,{epochs} and {epochs + 1} epochs,{one:.8g},{two:.8g},{one / two:.7g}")


if __name__ == "__main__":
    main()
