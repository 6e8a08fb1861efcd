"""Accuracy as a stream goes on: Figures 1 and 2 of "Multi-class Pegasos on a budget" (ICML 2010).

    python benches/evolution.py             100,000 points of the checkerboard, 50,000 waves
    python benches/evolution.py --full      10,000,000 points, 2,000,000 waves: the paper's lengths

Prints CSV. Figure 1 of the paper is of the checkerboard. The text that we have does not say what Figure 2 is of, so
here are waveform and covertype; of covertype only a subset of 12,000 rows where it is at hand (covtype15k), the mean
of five orders of them (two in the quick run). The other streams are one order, drawn in chunks and never held.

* data; method; budget: random removal, removal of the smallest, projection and merging are the paper's plain algorithm,
  the last iterate and no refit; "merge, averaged" predicts by the average that is carried through the mergers. alpha is
  1e-4, features are standardised. Budget 0 is Pegasos without one, which is stopped where it gets slow, as the paper
  stopped it: after 1,000,000 points, 200,000 waves in the full run (in the paper 540,000 and 140,000).
* n: how many examples have been learned from.
* accuracy: % of 20,000 other examples (3,000 of covertype).
* vectors: how many support vectors there are.

gamma is about the best of {1, 4, 16, 64}/d for each set, budget and method, as in the paper, by trials on other
examples: 200,000 of another stream (for removal millions, as its accuracy falls again; without a budget 20,000
to 60,000), and of covertype 2,000 of the rows to train on, held out ten times. The threshold of Projectron++ is, as in
the paper, such that it ends with about B support vectors of itself: in those trials, so on longer streams it is the
budget that holds it there.
"""

from __future__ import annotations

import one_thread  # noqa: F401, I001 before NumPy

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

import harness
from harness import papers_kernel
from pegasos import ProjectronClassifier
from pegasos.datasets import make_checkerboard, make_waveform
from problems import SETS

METHODS = ("random", "remove", "project", "merge", "merge, averaged", "Projectron++")

#: By set and budget: gamma times the number of features, of each method; the threshold of Projectron++.
SETTINGS: dict[tuple[str, int], tuple[tuple[int, ...], float]] = {
    ("checkerboard", 100): ((64, 64, 16, 16, 16, 16), 0.25),
    ("checkerboard", 500): ((64, 64, 64, 64, 64, 64), 0.004),
    ("waveform", 100): ((4, 4, 1, 1, 1, 1), 0.8),
    ("waveform", 500): ((4, 4, 1, 1, 1, 1), 0.5),
    ("covtype15k", 100): ((16, 16, 1, 1, 1, 1), 0.6),
    ("covtype15k", 500): ((16, 64, 16, 16, 4, 1), 0.09),
}

#: The same without a budget.
UNBUDGETED = {"checkerboard": 64, "waveform": 4, "covtype15k": 64}

Examples = tuple[np.ndarray, np.ndarray]
#: Method and budget.
Kind = tuple[str, int]


def machines(data: str, d: int, seed: int) -> dict[Kind, Any]:
    """All methods, not yet trained. They take the examples in the order in which they come."""
    same: dict[str, Any] = {"sampling": "storage", "random_state": seed}

    def pegasos(c: int, **params: Any) -> Any:
        return papers_kernel(gamma=c / d, **same | {"average": False, "refine": False} | params)

    found: dict[Kind, Any] = {("unbudgeted", 0): pegasos(UNBUDGETED[data])}
    for (name, budget), (gammas, threshold) in SETTINGS.items():
        if name != data:
            continue
        for method, c in zip(METHODS, gammas, strict=True):
            if method == "Projectron++":
                model = ProjectronClassifier(gamma=c / d, budget=budget, threshold=threshold, **same)
            elif method == "merge, averaged":
                model = pegasos(c, budget=budget, average=True)
            else:
                model = pegasos(c, budget=budget, maintenance=method)
            found[method, budget] = model
    return found


def stream(make: Any, n: int, n_test: int) -> tuple[Iterator[Examples], Examples]:
    """n examples of a generator in chunks, and others; features standardised, f32."""
    X_test, y_test = make(n_test, 1)
    mean, deviation = X_test.mean(axis=0), X_test.std(axis=0)

    def standard(X: np.ndarray) -> np.ndarray:
        return ((X - mean) / deviation).astype(np.float32)

    return ((standard(X), y) for X, y in make(n, 0, chunk_size=100_000)), (standard(X_test), y_test)


def cut(chunks: Iterable[Examples], lengths: Iterable[int]) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
    """The chunks of a stream, cut at these lengths; with every piece how many examples there were by its end."""
    begin = 0
    for X, y in chunks:
        end = begin + len(y)
        bounds = [begin, *(n for n in lengths if begin < n < end), end]
        for low, high in zip(bounds, bounds[1:], strict=False):
            yield X[low - begin : high - begin], y[low - begin : high - begin], high
        begin = end


def spaced(first: int, last: int, count: int) -> list[int]:
    """Lengths of a stream, evenly spaced on a log scale."""
    return np.unique(np.geomspace(first, last, count).round().astype(int)).tolist()


def accuracies(
    models: dict[Kind, Any],
    pieces: Iterable[tuple[np.ndarray, np.ndarray, int]],
    lengths: list[int],
    test: Examples,
    slow: int,
) -> Iterator[tuple[str, int, int, float, int]]:
    """Method, budget, n, accuracy and support vectors, at each of the lengths."""
    X_test, y_test = test
    for X, y, n in pieces:
        for (method, budget), model in models.items():
            if budget == 0 and n > slow:
                continue
            model.partial_fit(X, y, classes=np.unique(y_test))
            if n in lengths:
                yield method, budget, n, 100.0 * model.score(X_test, y_test), len(model.support_vectors_)


def streams(run: harness.Run) -> Iterator[tuple[str, Any, int, int]]:
    """Generated streams: name, generator, length, and where Pegasos without a budget is stopped."""
    for name, make, n, slow in (
        (
            "checkerboard",
            make_checkerboard,
            run.pick(quick=100_000, full=10_000_000, tiny=2_000),
            run.pick(quick=100_000, full=1_000_000, tiny=2_000),
        ),
        (
            "waveform",
            make_waveform,
            run.pick(quick=50_000, full=2_000_000, tiny=2_000),
            run.pick(quick=50_000, full=200_000, tiny=2_000),
        ),
    ):
        if run.wanted([name]):
            yield name, make, n, slow


def main() -> None:
    run = harness.begin(__doc__, "data,method,budget,n,accuracy,vectors")
    n_test = run.pick(quick=5_000, full=20_000, tiny=500)
    count = run.pick(quick=25, full=31, tiny=4)
    for data, make, n, slow in streams(run):
        chunks, test = stream(make, n, n_test)
        lengths = spaced(100, n, count)
        for figures in accuracies(machines(data, test[0].shape[1], 0), cut(chunks, lengths), lengths, test, slow):
            run.row(data, *figures)

    for data in run.wanted(["covtype15k"]):
        if (split := harness.load(SETS, data)) is None:
            continue
        X, y, X_test, y_test = split
        n = run.pick(quick=len(y), full=len(y), tiny=500)
        lengths, orders = spaced(100, n, count), []
        for seed in range(run.pick(quick=2, full=5, tiny=1)):
            order = np.random.default_rng(seed).permutation(len(y))[:n]
            models, pieces = machines(data, X.shape[1], seed), cut([(X[order], y[order])], lengths)
            orders.append(list(accuracies(models, pieces, lengths, (X_test, y_test), n)))
        for same in zip(*orders, strict=True):
            run.row(data, *same[0][:3], *np.mean([figures[3:] for figures in same], axis=0))


if __name__ == "__main__":
    main()
