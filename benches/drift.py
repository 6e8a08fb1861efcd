"""A board that moves: accuracy with and without forgetting as a stream goes on.

    python benches/drift.py [--full | --tiny]

The checkerboard of `make_checkerboard`, two colours on 4 x 4 fields, moving or not. Kernel Pegasos on a budget, merging,
gamma = 2, averaged, learns from chunks of 50 points, each predicted before it is learned from (progressive validation).
Prints CSV.

* board: "still"; "moving", by a field every 2,500 points, so that every colour has changed by then.
* budget: the most support vectors.
* half_life: in examples; 0 for none. alpha is "auto".
* n: how many points there have been.
* accuracy: % of the points since the last row, predicted before they were learned from, over all streams.

The mean of five streams (two in the quick run).
"""

from __future__ import annotations

import one_thread  # noqa: F401, I001 before NumPy

from typing import Any

import numpy as np

import harness
from harness import papers_kernel
from pegasos.datasets import make_checkerboard

#: Points in which the board moves by a field.
FIELD = 2_500

CHUNK = 50

HALF_LIVES = (0, 125, 500, 2_000, 8_000)


def accuracies(model: Any, n: int, drift: float, seed: int, window: int) -> list[float]:
    """The fraction that was right in each window of a stream."""
    found, right = [], 0.0
    for chunk, (X, y) in enumerate(make_checkerboard(n, seed, chunk_size=CHUNK, drift=drift), 1):
        # Before the first chunk nobody knows anything.
        right += float((model.predict(X) == y).sum()) if chunk > 1 else len(y) / 2
        model.partial_fit(X, y, classes=[0, 1])
        if chunk * CHUNK % window == 0:
            found.append(right / window)
            right = 0.0
    return found


def main() -> None:
    run = harness.begin(__doc__, "board,budget,half_life,n,accuracy")
    n = run.pick(quick=20_000, full=50_000, tiny=1_000)
    window = run.pick(quick=1_000, full=2_500, tiny=250)
    seeds = range(run.pick(quick=2, full=5, tiny=1))
    for board, drift in (("still", 0.0), ("moving", n / FIELD)):
        for budget in (100, 500):
            for half_life in HALF_LIVES:
                forgets = {"half_life": float(half_life)} if half_life else {}
                params: dict[str, Any] = {"alpha": "auto", "gamma": 2.0, "budget": budget, "maintenance": "merge", **forgets}
                streams = [
                    accuracies(papers_kernel(random_state=seed, **params), n, drift, seed, window) for seed in seeds
                ]
                for k, accuracy in enumerate(np.mean(streams, axis=0), 1):
                    run.row(board, budget, half_life, k * window, 100.0 * accuracy)


if __name__ == "__main__":
    main()
