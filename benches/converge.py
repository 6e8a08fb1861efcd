"""How long until it is good: pegasos beside scikit-learn's LinearSVC and SGDClassifier, one thread.

    python benches/converge.py

Prints CSV, a comment with the machine and the versions at its head. Times are of `fit` as a user
calls it, validation included. A peer is given the least number of epochs that will do, found by trying
1, 2, 3, 4, 6, 8, 11, ... until a fit is exact to 1e-4 or takes longer than --cap and than twice our
own; LinearSVC also the loosest tol that will do. The search is not part of its time. Where nothing
will do, the time is "inf" and the row shows the last setting tried. What was found is timed anew, in
turn, and ratios (theirs over ours) are taken turn by turn. A data set that is not at hand is reported
as missing.
"""

from __future__ import annotations

import one_thread  # noqa: F401, I001 before NumPy

import argparse
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import SGDClassifier
from sklearn.svm import LinearSVC

from compare import seconds
from harness import head
from pegasos import PegasosClassifier
from problems import SETS, Split, a9a_sparse

BINARY = dict(news20=SETS["news20"], a9a=a9a_sparse) | {name: SETS[name] for name in ("words", "table", "scattered")}
MULTICLASS = dict(letter=SETS["letter"], mnist=SETS["mnist [0,1]"])

GAP = 1e-3
POINT = 1e-3  # 0.1 point of accuracy
TOLERANCES = (0.3, 0.1, 0.03, 0.01, GAP)
EXACT = 1e-4  # a relative gap after which no more epochs are tried
FEW = 60  # epochs of ours, at most, without a certificate

EPOCHS = partial(PegasosClassifier, loss="hinge", tol=None)
CERTIFIED = partial(PegasosClassifier, loss="hinge", max_iter=100_000)
REFERENCE = partial(PegasosClassifier, loss="hinge", max_iter=300, tol=1e-5)
SVC = partial(LinearSVC, loss="hinge", tol=1e-12)
SGD = partial(SGDClassifier, loss="hinge", tol=None)
AVERAGED = partial(SGDClassifier, loss="hinge", tol=None, average=True)
CRAMMER_SINGER = dict(multi_class="crammer_singer")

# Of each measure, the best peer's time over ours on each problem.
RATIOS: dict[str, list[float]] = defaultdict(list)


class Trial(NamedTuple):
    """One fit, and what it gave."""

    solver: str
    setting: str
    make: partial[Any]
    seconds: float
    objective: float
    bound: float
    accuracy: float

    def gap(self, bound: float) -> float:
        return (self.objective - bound) / self.objective


def attempt(base: partial, data: Split, alpha: float, **setting: Any) -> Trial:
    X, y, X_test, y_test = data
    strength = dict(C=1 / (alpha * len(y))) if base.func is LinearSVC else dict(alpha=alpha)
    make = partial(base, fit_intercept=False, random_state=0, **strength, **setting)
    model = make()
    took = seconds(model, X, y)
    named = {name: value for name, value in base.keywords.items() if name == "average"} | setting
    return Trial(
        base.func.__name__,
        " ".join(f"{name}={value}" for name, value in named.items()),
        make,
        took,
        objective(model.coef_, X, y, alpha),
        getattr(model, "dual_objective_", np.nan),
        model.score(X_test, y_test),
    )


def objective(coef: np.ndarray, X: Any, y: np.ndarray, alpha: float) -> float:
    """alpha/2 ||W||^2 and the mean hinge loss (Crammer and Singer's, of classes 0, 1, ...), in f64."""
    coef = coef.astype(np.float64)
    scores = X @ coef.T
    if len(coef) == 1:
        margin = scores[:, 0] * np.where(y == y.max(), 1.0, -1.0)
    else:
        rows = np.arange(len(y))
        own = scores[rows, y]
        scores[rows, y] = -np.inf
        margin = own - scores.max(axis=1)
    return float(alpha / 2 * np.sum(coef * coef) + np.maximum(0.0, 1.0 - margin).mean())


def climb(
    base: partial, data: Split, alpha: float, bound: float, cap: float, **setting: Any
) -> list[Trial]:
    """Fits of 1, 2, 3, 4, 6, 8, 11, 15, ... epochs: until one is exact, is what the one before was, or
    takes longer than cap."""
    trials = [attempt(base, data, alpha, max_iter=1, **setting)]
    k, before = 2, np.inf
    while trials[-1].gap(bound) > EXACT and before != trials[-1].objective:
        if trials[-1].seconds > cap or (base is EPOCHS and k > FEW):
            break
        before = trials[-1].objective
        trials.append(attempt(base, data, alpha, max_iter=k, **setting))
        k = max(k + 1, round(1.4 * k))
    return trials


def pick(trials: Sequence[Trial], good: Callable[[Trial], bool]) -> Trial:
    """The first that is good; if none is, the last, in infinite time."""
    return next((trial for trial in trials if good(trial)), trials[-1]._replace(seconds=np.inf))


def in_turn(trials: Sequence[Trial], data: Split, turns: int, budget: float) -> np.ndarray:
    """Seconds of the fits, a row a turn; the last turn is the one that goes beyond the budget."""
    X, y = data[:2]
    start = time.perf_counter()
    times: list[list[float]] = []
    while len(times) < turns and (not times or time.perf_counter() - start < budget):
        times.append([seconds(trial.make(), X, y) for trial in trials])
    return np.array(times)


def race(
    measure: str,
    problem: str,
    alpha: float,
    data: Split,
    entrants: Sequence[Trial],
    value: Callable[[Trial], float],
    options: argparse.Namespace,
) -> None:
    """Times the entrants, ours the first of them."""
    found = [i for i, trial in enumerate(entrants) if trial.seconds < np.inf]
    timed = in_turn([entrants[i] for i in found], data, options.pairs, 10 * options.cap)
    if len(timed) < options.pairs:
        print(f"# slow: {len(timed)} of {options.pairs} turns in the next {len(entrants)} rows")
    times = np.full((len(timed), len(entrants)), np.inf)
    times[:, found] = timed
    with np.errstate(invalid="ignore"):
        ratios = np.median(times / times[:, :1], axis=0)
    for trial, took, ratio in zip(entrants, np.median(times, axis=0), ratios, strict=True):
        row(measure, problem, alpha, trial, took, value(trial), ratio)
    RATIOS[measure].append(float(np.fmin.reduce(ratios[1:])))


def binary(problem: str, data: Split, alpha: float, options: argparse.Namespace) -> None:
    """Time to a small gap, and to nearly the best test accuracy of all solvers."""
    reference = attempt(REFERENCE, data, alpha)
    certified = attempt(CERTIFIED, data, alpha, tol=GAP)
    ours = [
        attempt(CERTIFIED, data, alpha, tol=tol, **order)
        for order in ({}, dict(sampling="blocks"))
        for tol in TOLERANCES
        if order or tol != GAP
    ]
    ours.append(certified)
    bound = float(np.nanmax([trial.bound for trial in (reference, *ours)]))
    least = min(trial.gap(bound) for trial in (reference, *ours))
    print(f"# {problem} {alpha:g}: no objective is below {bound:.8g}; we came within {least:.2g} of it")
    cap = max(options.cap, 2 * certified.seconds)
    for order in ({}, dict(sampling="blocks")):
        for mean in ({}, dict(average=True)):
            ours += climb(EPOCHS, data, alpha, bound, cap, **order, **mean)
    ours.sort(key=lambda trial: trial.seconds)
    peers = [climb(base, data, alpha, bound, cap) for base in (SVC, SGD, AVERAGED)]
    # Under a tol out of its reach LinearSVC never takes back a row that it once shrank away, and may
    # stall; so it enters a second time, to stop by its own tol.
    own = partial(LinearSVC, loss="hinge", max_iter=peers[0][-1].make.keywords["max_iter"])
    peers.insert(1, [attempt(own, data, alpha, tol=tol) for tol in (1, *TOLERANCES)])

    entrants = [pick(trials, lambda t: t.gap(bound) <= GAP) for trials in ([certified], *peers)]
    race("to a relative gap of 0.001", problem, alpha, data, entrants, lambda t: t.gap(bound), options)

    tops = [max(trials, key=lambda t: t.accuracy) for trials in (ours, *peers)]
    for top in tops:
        row("best test accuracy", problem, alpha, top, top.seconds, top.accuracy, np.nan)
    enough = max(top.accuracy for top in tops) - POINT
    entrants = [pick(trials, lambda t: t.accuracy >= enough) for trials in (ours, *peers)]
    race("to 0.1 point below the best test accuracy", problem, alpha, data, entrants,
         lambda t: t.accuracy, options)


def multiclass(problem: str, data: Split, alpha: float, options: argparse.Namespace) -> None:
    """Crammer and Singer's machine: to the same test accuracy, beside LinearSVC by its defaults and, as
    we are, as loose as will do."""
    peer = partial(LinearSVC, **CRAMMER_SINGER)
    ours = [
        attempt(partial(CERTIFIED, **CRAMMER_SINGER), data, alpha, tol=tol)
        for tol in (1e-1, 1e-2, GAP)
    ]
    default = attempt(peer, data, alpha)
    loose = [attempt(peer, data, alpha, tol=tol) for tol in (1, 1e-1)]
    bound = float(np.nanmax([trial.bound for trial in ours]))
    for trial in (*ours, *loose, default):
        row("Crammer-Singer: relative gap", problem, alpha, trial, trial.seconds, trial.gap(bound),
            np.nan)
    enough = default.accuracy - 3 * POINT
    ours.sort(key=lambda trial: trial.seconds)
    entrants = [pick(ours, lambda t: t.accuracy >= enough), default,
                pick([*loose, default], lambda t: t.accuracy >= enough)]
    race("Crammer-Singer: to 0.3 points below the default LinearSVC's accuracy", problem, alpha, data,
         entrants, lambda t: t.accuracy, options)


def row(
    measure: str, problem: str, alpha: float, trial: Trial, took: float, value: float, ratio: float
) -> None:
    print(f"{measure},{problem},{alpha:g},{trial.solver},{trial.setting},{took:.5g},{value:.5g},"
          f"{ratio:.4g}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5, help="timed turns per figure (5)")
    parser.add_argument("--cap", type=float, default=20, help="seconds a peer's fit may take (20)")
    parser.add_argument("--only", action="append", choices=[*BINARY, *MULTICLASS], metavar="PROBLEM",
                        help=f"one of {', '.join([*BINARY, *MULTICLASS])}; may be repeated")
    parser.add_argument("--alphas", type=float, nargs="+",
                        help="(1e-4 1e-5 1e-6; of several classes 1e-4 1e-5)")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    head(
        " ".join(["benches/converge.py", *sys.argv[1:]]),
        "measure,problem,alpha,solver,setting,seconds,value,ratio",
    )
    for measures, makers, alphas in (
        (binary, BINARY, (1e-4, 1e-5, 1e-6)),
        (multiclass, MULTICLASS, (1e-4, 1e-5)),
    ):
        for name, make in makers.items():
            if options.only and name not in options.only:
                continue
            try:
                data = make()
            except FileNotFoundError as missing:
                print(f"# missing: {missing}")
                continue
            for alpha in options.alphas or alphas:
                measures(name, data, alpha, options)
    for measure, ratios in RATIOS.items():
        known = [ratio for ratio in ratios if not np.isnan(ratio)] or [np.nan]
        print(f"# {measure}: best peer's time over ours at least {min(known):.4g}, "
              f"median {np.median(known):.4g}; nobody got there in {np.isnan(ratios).sum()} of "
              f"{len(ratios)}")


if __name__ == "__main__":
    main()
