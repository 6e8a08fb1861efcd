"""What mini-batches are worth: steps to a given suboptimality, and suboptimality after a given number of examples.

    python benches/batches.py [--full | --tiny]

Pegasos 2011, section 7.4. A step takes the mean subgradient of k examples. Plain Pegasos, last iterate, no intercept,
float64; the batches are cut from fresh permutations, one after the other. Prints CSV:

* part: "steps", how many it takes; or "after", how good w is by then.
* data, alpha: the problem, as in orders.py.
* batch: k.
* target: of "steps" the relative suboptimality (P(w) - D*)/D* to be reached, the mean over several seeds; D* as in
  orders.py. Of "after" the number of examples seen, in epochs.
* steps: T; looked at after 1, 1.19, 1.41, 1.68, 2, ... steps and interpolated.
* examples: T k.
* suboptimality: the mean over the seeds, after these steps.

A target that was not reached within the epochs that were run has no row; a comment says so.
"""

from __future__ import annotations

import one_thread  # noqa: F401, I001 before NumPy

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import harness
from orders import objective, optimum, problems
from harness import papers_linear

SIZES = tuple(2**i for i in range(11))


def checkpoints(last: int, also: list[int]) -> list[int]:
    """1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, ... steps, a factor of 2^(1/4) apart, and some others."""
    powers = np.arange(4 * np.log2(last) + 1) / 4
    return sorted({*np.ceil(2**powers).astype(int).tolist(), *also})


def curve(
    batch: int, seed: int, steps: list[int], X: Any, y: np.ndarray, alpha: float, least: float
) -> Iterator[float]:
    """The relative suboptimality after so many steps."""
    random = np.random.default_rng(seed)
    examples = steps[-1] * batch
    stream = np.concatenate([random.permutation(len(y)) for _ in range(-(-examples // len(y)))])
    model = papers_linear(alpha=alpha, fit_intercept=False, solver="pegasos", batch_size=batch, tol=None)
    done = 0
    for step in steps:
        model.set_params(sampling=stream[done * batch : step * batch])
        model.partial_fit(X, y, classes=[-1, 1])
        done = step
        yield (objective(model.coef_[0], X, y, alpha) - least) / least


def crossing(steps: list[int], values: list[float], target: float) -> float:
    """Where a straight line between the logarithms of the last two values has the target."""
    if len(values) == 1:
        return float(steps[0])
    (t, u), (a, b) = np.log(steps[len(values) - 2 : len(values)]), np.log(values[-2:])
    return float(np.exp(t + (np.log(target) - a) / (b - a) * (u - t)))


def main() -> None:
    run = harness.begin(__doc__, "part,data,alpha,batch,target,steps,examples,suboptimality")
    warnings.simplefilter("ignore", ConvergenceWarning)
    target = run.pick(quick=0.1, full=0.1, tiny=10.0)
    seeds = run.pick(quick=2, full=10, tiny=1)
    epochs = run.pick(quick=(1, 5), full=(1, 5), tiny=(1,))
    sizes = run.pick(quick=SIZES[::2], full=SIZES, tiny=SIZES[:9:4])
    limit = run.pick(quick=20, full=50, tiny=2)
    for name, X, y, alpha in problems(run, full=50_000):
        least = optimum(X, y, alpha).dual_objective_
        for batch in sizes:
            fixed = {epoch * len(y) // batch: epoch for epoch in epochs}
            steps = checkpoints(limit * len(y) // batch, list(fixed))
            curves = zip(*(curve(batch, seed, steps, X, y, alpha, least) for seed in range(seeds)), strict=True)
            values: list[float] = []
            reached = False
            for step, found in zip(steps, curves, strict=False):
                values.append(float(np.mean(found)))
                if not reached and values[-1] <= target:
                    reached = True
                    needed = crossing(steps, values, target)
                    run.row("steps", name, alpha, batch, target, needed, needed * batch, target)
                if step in fixed:
                    run.row("after", name, alpha, batch, fixed[step], step, step * batch, values[-1])
                if reached and step >= max(fixed):
                    break
            if not reached:
                print(f"# {name}, batches of {batch}: not within {target:g} after {limit} epochs")


if __name__ == "__main__":
    main()
