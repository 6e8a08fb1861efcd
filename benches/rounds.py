"""How long the steps of copies should be that are averaged at the end of every round.

    python benches/rounds.py [--full] [DATA ...]

Prints CSV: five rounds of one epoch on 1, 2, 8 and 64 copies, each of which goes through its part of the rows, and by how
much the objective of the average is above the best there is. "counted" is what a copy adds to its own steps in the step size:
"own" nothing, so that steps are as many times longer as there are copies; "all" those of the others; "twice" as many as its
own, but no more than those, which is what `pegasos.split` does. Means over three seeds; with a mean of the iterates.

* dense: 20 features (100,000 rows), many of them on the wrong side.
* words: 30 words of 20,000 (40,000 rows), most of them rare.
"""

from __future__ import annotations

import one_thread  # noqa: F401, I001 before NumPy

import warnings
from typing import Any, Literal

import numpy as np
from scipy import sparse

import harness
from pegasos import PegasosClassifier, merge, split
from pegasos._base import Run
from pegasos._merge import ahead_by, twin

LOSSES: tuple[Literal["hinge", "log_loss"], ...] = ("hinge", "log_loss")


def dense(n: int) -> tuple[Any, np.ndarray]:
    random = np.random.default_rng(1)
    X = random.normal(size=(n, 20))
    return X, (X @ random.normal(size=20) + 2.0 * random.normal(size=n) > 0).astype(int)


def words(n: int) -> tuple[Any, np.ndarray]:
    random, d, each = np.random.default_rng(1), 20_000, 30
    columns = (d * random.random(size=(n, each)) ** 3).astype(np.int32)
    X = sparse.csr_array((np.full(n * each, each**-0.5), columns.ravel(), np.arange(0, n * each + 1, each)), shape=(n, d))
    X.sum_duplicates()
    return X, (X @ random.normal(size=d) + 0.5 * random.normal(size=n) > 0).astype(int)


SETS = {"dense": (dense, 100_000), "words": (words, 40_000)}


def objective(model: PegasosClassifier, X: Any, y: np.ndarray) -> float:
    margins = np.where(y == 1, 1.0, -1.0) * model.decision_function(X)
    losses = np.logaddexp(0.0, -margins) if model.loss == "log_loss" else np.maximum(0.0, 1.0 - margins)
    square = float((model.coef_**2).sum() + (model.intercept_**2).sum())
    return model.alpha_ / 2.0 * square + float(losses.mean())


def ahead(counted: str, own: int, whole: int) -> float:
    return {"own": 0.0, "twice": float(min(own, whole - own)), "all": float(whole - own)}[counted]


def trained(model: PegasosClassifier, X: Any, y: np.ndarray, copies: int, counted: str, rounds: int) -> PegasosClassifier:
    parts = [slice(k * len(y) // copies, (k + 1) * len(y) // copies) for k in range(copies)]
    sizes = [part.stop - part.start for part in parts]
    for r in range(rounds):
        learned = []
        for copy, part in zip(split(model, sizes), parts, strict=True):
            if r > 0:
                trainer = ahead_by(ahead(counted, copy.t_, model.t_), copy._trainer)
                copy = twin(copy, Run(trainer, copy._seed, copy._epoch), copy._stream)
            learned.append(copy.partial_fit(X[part], y[part], classes=[0, 1]))
        model = merge(learned, sizes)
    return model


def main() -> None:
    run = harness.begin(__doc__, "data,loss,alpha,copies,counted,above the best (%)")
    warnings.simplefilter("ignore")
    seeds = run.pick(quick=1, full=3, tiny=1)
    for data in run.wanted(SETS):
        make, size = SETS[data]
        X, y = make(run.pick(quick=size // 4, full=size, tiny=640))
        for loss in LOSSES:
            for c in (1, 10, 100):
                alpha = c / len(y)
                exact = PegasosClassifier(loss, alpha=alpha, solver="dual", tol=1e-5, max_iter=5000).fit(X, y)
                best = exact.objective_
                for copies in (1, 2, 8, 64):
                    for counted in ("own", "twice", "all") if copies > 1 else ("own",):
                        found = [
                            objective(
                                trained(
                                    PegasosClassifier(loss, alpha=alpha, average=True, random_state=seed),
                                    X, y, copies, counted, 5,
                                ),
                                X, y,
                            )
                            for seed in range(seeds)
                        ]
                        run.row(data, loss, f"{c}/n", copies, counted, 100.0 * (float(np.mean(found)) / best - 1.0))


if __name__ == "__main__":
    main()
