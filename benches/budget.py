"""Training on a budget: streams, speeds and memory, beside Nystroem features with SGDClassifier.

    python benches/budget.py                 everything (half an hour)
    python benches/budget.py speed peers     only these parts

Prints CSV, a comment with the machine and the versions at its head. One thread for everyone. Features are
standardised but for "usps [0,1]", whose pixels are as they are stored; lambda is 1e-4, without a refit. Sets
that are not at hand are reported as missing. Accuracies over several orders are table1.py's.

* long: streams of 2 million waves and 10 million points of the checkerboard, in chunks, never held: test
  accuracy, examples a second, E-bar; at the best gamma of {1, 4, 16, 64}/d.
* speed: examples a second of `fit(tol=None)`, average on, the best and the median of ten; beside the rates, in
  GFLOP/s, of a matrix product in float32 by NumPy's library and by ours, measured in turn.
* steps: nanoseconds a step without a violation (order, panel, loop) and, beside that, a violation (a new vector, and
  what the budget asks for then), from a pass over the quarter of the rows that the model is most sure of and one over
  the quarter that it is least sure of; and which part of each of the two violated.
* flat: microseconds an example after half a million examples and after ten million, the two models in turn on
  the same examples, and the median of their ratios; by how many bytes the process has grown meanwhile.
* peers: ours beside Nystroem + SGDClassifier (5 epochs) with as many components, each with the best gamma (0.25/d
  too) and theirs with the best alpha: both accuracies, both times, theirs over ours.
"""

from __future__ import annotations

import one_thread  # noqa: F401, I001 before NumPy

import argparse
import pickle
import resource
import sys
import time
from typing import Any

import numpy as np
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline

from harness import head, load, papers_kernel
from pegasos.datasets import make_checkerboard, make_waveform
from problems import SETS

GAMMAS = (1, 4, 16, 64)
BUDGETS = (100, 500)


def row(part: str, data: str, setting: str, *numbers: float) -> None:
    print(f"{part},{data},{setting}," + ",".join(f"{x:.5g}" for x in numbers), flush=True)


def machine(strategy: str, budget: int, gamma: float, **params: Any) -> Any:
    return papers_kernel(
        budget=budget, maintenance=strategy, gamma=gamma, tol=None, refine=False, **params
    )


def long_streams() -> None:
    for name, make, n in (
        ("waveform 2M", make_waveform, 2_000_000),
        ("checkerboard 10M", make_checkerboard, 10_000_000),
    ):
        X_test, y_test = make(100_000, 1)
        mean, deviation = X_test.mean(axis=0), X_test.std(axis=0)
        d = X_test.shape[1]
        scaled = ((X_test - mean) / deviation).astype(np.float32)
        for budget in BUDGETS:
            found: dict[bool, tuple[float, ...]] = {}
            for c in GAMMAS:
                both = {
                    average: machine("merge", budget, c / d, average=average)
                    for average in (False, True)
                }
                seconds = dict.fromkeys(both, 0.0)
                for X, y in make(n, 0, chunk_size=100_000):
                    X = ((X - mean) / deviation).astype(np.float32)
                    for average, model in both.items():
                        start = time.perf_counter()
                        model.partial_fit(X, y, classes=np.unique(y_test))
                        seconds[average] += time.perf_counter() - start
                for average, model in both.items():
                    right = 100.0 * model.score(scaled, y_test)
                    error = model.mean_gradient_error_
                    this = (right, n / seconds[average], error, c)
                    found[average] = max(this, found.get(average, this))
            for average, (*figures, factor) in found.items():
                kind = "average" if average else "last"
                row("long", name, f"merge B={budget} {kind} gamma={factor}/d", *figures)


def product_rates() -> tuple[float, float]:
    """GFLOP/s of products of matrices in float32: NumPy's, and ours as scores of a linear kernel are made of."""
    A = np.ones((1536, 1536), np.float32)
    model = papers_kernel("linear", n_jobs=1, tol=None, average=False)
    # Steps so short that every row violates the margin, and is a support vector.
    model.set_params(alpha=1e6).fit(A, np.arange(len(A)) % 2)
    work = 2e-9 * 1536**2
    rates = []
    for product, vectors in ((lambda: A @ A, 1536), (lambda: model.decision_function(A), len(model.support_vectors_))):
        product()
        times = []
        for _ in range(5):
            start = time.perf_counter()
            product()
            times.append(time.perf_counter() - start)
        rates.append(work * vectors / min(times))
    return rates[0], rates[1]


def speed() -> None:
    for name, strategy, gammas in (
        ("letter", "merge", {100: 1, 500: 4}),
        ("letter", "project", {500: 4}),
        ("usps", "merge", {100: 1, 500: 1}),
        ("usps [0,1]", "merge", {100: 16, 500: 16}),
        ("waveform 100k", "merge", {100: 1, 500: 1}),
        ("checkerboard 100k", "merge", {100: 16, 500: 64}),
    ):
        data = load(SETS, name)
        if data is None:
            continue
        X, y, *_ = data
        for budget, c in gammas.items():
            rates, products = [], []
            for seed in range(10):
                products.append(product_rates())
                model = machine(strategy, budget, c / X.shape[1], random_state=seed)
                start = time.perf_counter()
                model.fit(X, y)
                rates.append(len(y) / (time.perf_counter() - start))
            setting = f"{strategy} B={budget} gamma={c}/d"
            row("speed", name, setting, max(rates), np.median(rates), *np.max(products, axis=0))


def margins(model: Any, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    scores = model.decision_function(X)
    if scores.ndim == 1:
        return np.where(y == model.classes_[1], scores, -scores)
    rows, own = np.arange(len(y)), np.searchsorted(model.classes_, y)
    of_own = scores[rows, own]
    scores[rows, own] = -np.inf
    return of_own - scores.max(axis=1)


def steps() -> None:
    for name, c in (("letter", 1), ("usps [0,1]", 16), ("waveform 100k", 1), ("checkerboard 100k", 16)):
        data = load(SETS, name)
        if data is None:
            continue
        X, y, *_ = data
        for strategy, budget in (("merge", 100), ("merge", 500), ("project", 100)):
            figures = []
            for seed in range(5):
                model = machine(strategy, budget, c / X.shape[1], random_state=seed, average=False).fit(X, y)
                order = np.argsort(margins(model, X, y))
                # As many rows that the model is sure of as of those that it is not: so many steps, so many violations.
                counts, seconds = [], []
                for rows in (order[-len(y) // 4 :], order[: len(y) // 4]):
                    before = model._trainer.parts()["added"]
                    start = time.perf_counter()
                    model.partial_fit(X[rows], y[rows])
                    seconds.append(time.perf_counter() - start)
                    counts.append((len(rows), model._trainer.parts()["added"] - before))
                each = 1e9 * np.linalg.solve(np.array(counts, float), seconds)
                figures.append([*each, *(added / n for n, added in counts)])
            row("steps", name, f"{strategy} B={budget} gamma={c}/d", *np.median(figures, axis=0))


def resident() -> int:
    """Bytes that the process holds now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def flat(pairs: int = 40) -> None:
    for strategy, budget, n in (("merge", 100, 10_000_000), ("merge", 500, 10_000_000), ("project", 100, 3_000_000)):
        model = machine(strategy, budget, 8.0)
        # The same memory for every chunk.
        random, X = np.random.default_rng(0), np.empty((50_000, 2), np.float32)

        def learn(*models: Any) -> list[float]:
            random.random(out=X, dtype=np.float32)  # noqa: B023
            np.multiply(X, 4.0, out=X)  # noqa: B023
            y = X.astype(np.int64).sum(axis=1) % 2  # noqa: B023
            times = []
            for model in models:
                start = time.perf_counter()
                model.partial_fit(X, y, classes=[0, 1])  # noqa: B023
                times.append((time.perf_counter() - start) / len(y) * 1e6)
            return times

        for _ in range(10):
            learn(model)
        young, before = pickle.dumps(model), resident()
        while model.t_ < n:
            learn(model)
        grown = resident() - before
        # In turn on the same examples: as it was then, and as it is now.
        times = [learn(pickle.loads(young), model) for _ in range(pairs)]
        ratio = float(np.median([late / early for early, late in times]))
        setting = f"{strategy} B={budget} after 5e+05 and {n:.0e} (us each; ratio; bytes grown)"
        row("flat", "checkerboard", setting, *np.median(times, axis=0), ratio, grown)


def peers(pairs: int = 3) -> None:
    gammas = (0.25, *GAMMAS)
    for name in ("letter", "usps", "waveform 100k", "checkerboard 100k"):
        data = load(SETS, name)
        if data is None:
            continue
        X, y, X_test, y_test = data
        d = X.shape[1]
        for budget in BUDGETS:
            ours = lambda c, seed: machine("merge", budget, c / d, random_state=seed)  # noqa: B023
            theirs = lambda c, alpha, seed: make_pipeline(
                Nystroem(gamma=c / d, n_components=budget, random_state=seed),  # noqa: B023
                SGDClassifier(alpha=alpha, max_iter=5, tol=None, random_state=seed),
            )
            # Each at what is best for it.
            own = max((ours(c, 0).fit(X, y).score(X_test, y_test), c) for c in gammas)
            peer = max(
                (theirs(c, alpha, 0).fit(X, y).score(X_test, y_test), c, alpha)
                for c in gammas
                for alpha in (1e-4, 1e-5, 1e-6)
            )
            times, right = [], []
            for seed in range(pairs):
                both = ours(*own[1:], seed), theirs(*peer[1:], seed)
                spent = []
                for model in both:
                    start = time.perf_counter()
                    model.fit(X, y)
                    spent.append(time.perf_counter() - start)
                times.append(spent)
                right.append([100.0 * model.score(X_test, y_test) for model in both])
            seconds = np.median(times, axis=0)
            ratio = float(np.median([theirs / ours for ours, theirs in times]))
            setting = f"B={budget} gamma={own[1]}/d, theirs {peer[1]}/d alpha={peer[2]}"
            row("peers", name, setting, *np.mean(right, axis=0), *seconds, ratio)


def main() -> None:
    parts = {"long": long_streams, "speed": speed, "steps": steps, "flat": flat, "peers": peers}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="part", help=f"{', '.join(parts)}; all by default")
    chosen = parser.parse_args().parts or [*parts]
    if unknown := sorted({*chosen} - {*parts}):
        parser.error(f"there is no part {', '.join(unknown)}")
    head(" ".join(["benches/budget.py", *sys.argv[1:]]), "part,data,setting,figures")
    for part in chosen:
        parts[part]()


if __name__ == "__main__":
    main()
