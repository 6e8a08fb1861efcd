"""How long a stream takes by its length: Figure 3 of "Multi-class Pegasos on a budget" (ICML 2010).

    python benches/growth.py             100,000 points of the checkerboard, 50,000 waves
    python benches/growth.py --full      10,000,000 points, 2,000,000 waves: the paper's lengths

Prints CSV. The methods, settings and streams of evolution.py. One thread.

* part "time": the CPU seconds that partial_fit has taken for the first n examples, of method and budget (0 is none,
  which is stopped after 1,000,000 points, 200,000 waves in the full run). Neither drawing the examples nor testing is
  in them.
* part "slope": how log seconds grows with log n, fitted to the last decade; n is how long the stream was. 1 is
  linear, 2 is quadratic.
"""

from __future__ import annotations

import one_thread  # noqa: F401, I001 before NumPy

import time
from typing import Any

import numpy as np

import harness
from evolution import Kind, cut, machines, spaced, stream, streams


def seconds(data: str, make: Any, n: int, slow: int, lengths: list[int]) -> dict[Kind, list[tuple[int, float]]]:
    """By method and budget: lengths, and the seconds that they took."""
    chunks, (X_test, y_test) = stream(make, n, 2_000)
    models = {
        (method, budget): model
        for (method, budget), model in machines(data, X_test.shape[1], 0).items()
        if method not in ("random", "merge, averaged")
    }
    # What only the first call costs.
    for model in machines(data, X_test.shape[1], 0).values():
        model.partial_fit(X_test, y_test, classes=np.unique(y_test))
    spent = dict.fromkeys(models, 0.0)
    found: dict[Kind, list[tuple[int, float]]] = {kind: [] for kind in models}
    for X, y, length in cut(chunks, lengths):
        for kind, model in models.items():
            if kind[1] == 0 and length > slow:
                continue
            start = time.process_time()
            model.partial_fit(X, y, classes=np.unique(y_test))
            spent[kind] += time.process_time() - start
            if length in lengths:
                found[kind].append((length, spent[kind]))
    return found


def slope(points: list[tuple[int, float]]) -> float:
    """Of log seconds by log n, over the last decade."""
    n, spent = np.log(points).T
    last = n >= n[-1] - np.log(10.0) - 1e-9
    return float(np.polyfit(n[last], spent[last], 1)[0])


def main() -> None:
    run = harness.begin(__doc__, "part,data,method,budget,n,figure")
    for data, make, n, slow in streams(run):
        lengths = sorted({*spaced(1_000, n, run.pick(quick=11, full=21, tiny=3)), slow})
        found = seconds(data, make, n, slow, lengths)
        for (method, budget), points in found.items():
            for length, spent in points:
                run.row("time", data, method, budget, length, spent)
        for (method, budget), points in found.items():
            run.row("slope", data, method, budget, points[-1][0], slope(points))


if __name__ == "__main__":
    main()
