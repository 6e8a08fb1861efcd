"""Machines that learn their metric: accuracy and time beside the plain metric, SVC, boosted trees and, where it is installed, xRFM.

    python benches/metric.py [--full] [DATA ...]

Everything that a machine chooses (metric, power, round, width of the kernel, C) it chooses by rows to train on. Columns:

* part: "machine"; "rounds", where seconds are those of all rounds on a budget, without the fits that choose a width and C
  for the machine that was asked for, and the setting says how many fits of the same budget, with refit and at the C of the
  rounds, take as long; "auto", where `metric="auto"` stands beside "plain" on many sets; "importance", a value for each
  feature.
* accuracy: the mean over orders of the rows (five; one of what takes longer than two minutes), in percent of the test rows;
  and the standard deviation over these.
* seconds: of a processor, for one fit on one thread.
"""

from __future__ import annotations

import one_thread  # noqa: F401, I001 before NumPy

import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any, Literal

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.svm import SVC

import defaults
import harness
from pegasos import KernelPegasosClassifier, _metric_rounds
from pegasos.datasets import make_checkerboard, make_waveform
from problems import Split, generated, given, scaled, standardised

LGBMClassifier: Any = None
with suppress(ImportError):
    LGBMClassifier = import_module("lightgbm").LGBMClassifier
xRFM: Any = None
with suppress(ImportError):
    xRFM = import_module("xrfm").xRFM

#: A fit that takes longer is not repeated.
_PATIENCE = 120.0


def first(data: Split, n: int) -> Split:
    X, y, X_test, y_test = data
    return X[:n], y[:n], X_test, y_test


def noisy(n: int) -> Split:
    """A checkerboard beside twenty columns of noise."""

    def make(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        X, y = make_checkerboard(n, seed)
        noise = np.random.default_rng(seed).uniform(X.min(), X.max(), (n, 20))
        return np.hstack([X, noise]), y

    return standardised(*make(n, 0), *make(20_000, 1))


SETS: dict[str, Callable[[], Split]] = {
    "checkerboard and noise": lambda: noisy(100_000),
    "waveform": lambda: generated(make_waveform, 20_000),
    "covtype15k": lambda: standardised(*given("covtype15k")),
    "letter": lambda: standardised(*given("letter")),
    "usps": lambda: given("usps"),
    "a9a": lambda: scaled("a9a", 1.0),
    "mnist20k": lambda: first(scaled("mnist", 255.0), 20_000),
}

#: Of which exact machines, and those of boosted trees, take longer than they tell.
LARGE = {"checkerboard and noise", "mnist20k", "a9a"}


class XRFM:
    """xRFM by its defaults, a fifth of the rows held out for its own choices."""

    def __init__(self, random_state: int) -> None:
        self.random_state = random_state

    def fit(self, X: np.ndarray, y: np.ndarray) -> XRFM:
        self.classes, codes = np.unique(y, return_inverse=True)
        cut = len(y) * 4 // 5
        self.model = xRFM(random_state=self.random_state)
        self.model.fit(X[:cut], codes[:cut], X[cut:], codes[cut:])
        return self

    def score(self, X: np.ndarray, y: np.ndarray) -> float:
        return float((self.classes[np.asarray(self.model.predict(X)).ravel().astype(int)] == y).mean())


def measured(make: Callable[..., Any], data: Split, orders: int) -> tuple[float, float, float, Any]:
    """Seconds a fit, mean accuracy and its deviation over the orders, and the first model."""
    X, y, X_test, y_test = data
    accuracies, took, model = [], 0.0, None
    for order in range(orders):
        rows = np.random.RandomState(order).permutation(len(y))
        start = time.process_time()
        each = make(random_state=order).fit(X[rows], y[rows])
        took += time.process_time() - start
        accuracies.append(100.0 * each.score(X_test, y_test))
        model = model or each
        if took > _PATIENCE:
            break
    return took / len(accuracies), float(np.mean(accuracies)), float(np.std(accuracies)), model


def rounds(data: Split, budget: int) -> tuple[float, float, int]:
    """Seconds of all rounds, those of one fit of the same budget with refit, and how many rounds there were."""
    X, y, _, _ = data
    took = 0.0

    def timed(whole: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            nonlocal took
            start = time.process_time()
            found = whole(*args)
            took += time.process_time() - start
            return found

        return run

    before: dict[str, Any] = {name: getattr(_metric_rounds.Rounds, name) for name in ("_round", "_shape", "_metric")}
    for name, whole in before.items():
        setattr(_metric_rounds.Rounds, name, timed(whole))
    try:
        model = KernelPegasosClassifier(metric="full", budget=budget, random_state=0, n_jobs=1).fit(X, y)
    finally:
        for name, whole in before.items():
            setattr(_metric_rounds.Rounds, name, whole)
    n, c = len(y), _metric_rounds._C
    plain = KernelPegasosClassifier(
        budget=budget, alpha=1.0 / (c * n), multi_class="crammer_singer", random_state=0, n_jobs=1
    )
    start = time.process_time()
    plain.fit(X, y)
    return took, time.process_time() - start, int(model.metric_path_["round"].max())


def machines(run: harness.Run, name: str, data: Split) -> None:
    orders = run.pick(quick=1, full=5, tiny=1)
    budgets: list[int | None] = run.pick(quick=[500, None], full=[500, 2000, None], tiny=[50])
    if name == "checkerboard and noise":
        budgets = [100]
    if name in LARGE:
        budgets = [budget for budget in budgets if budget is not None]
    kinds: tuple[Literal["plain", "full", "auto"], ...]
    for budget in budgets:
        kinds = ("plain", "full", "auto") if budget in (50, 100, 500) else ("plain", "auto")
        for kind in kinds:

            ours = partial(KernelPegasosClassifier, metric=kind, budget=budget, n_jobs=1)
            seconds, accuracy, deviation, model = measured(ours, data, orders)
            label = f"{'exact' if budget is None else f'B = {budget}'}, {kind}"
            setting = "" if kind == "plain" else f"C={1.0 / (model.alpha_ * len(data[1])):.2g}"
            run.row("machine", name, label, seconds, accuracy, deviation, setting)
            if kind == "auto" and budget in (100, 500) and len(model.feature_importances_) > 2:
                for value in model.feature_importances_:
                    run.row("importance", name, label, float("nan"), float(value))
        if budget is not None and budget <= 500:
            took, one, count = rounds(data, budget)
            setting = f"{count} rounds and two powers, {took / one:.1f} fits"
            run.row("rounds", name, f"B = {budget}", took, float("nan"), float("nan"), setting)
    peers: dict[str, Callable[..., Any]] = {"HistGradientBoosting": HistGradientBoostingClassifier}
    if name not in LARGE:
        peers["SVC"] = partial(SVC, cache_size=1000)
    if LGBMClassifier is not None:
        peers["LightGBM"] = partial(LGBMClassifier, n_jobs=1, verbose=-1)
    if xRFM is not None:
        peers["xRFM"] = XRFM
    if run.size != "tiny":
        for label, make in peers.items():
            run.row("machine", name, label, *measured(make, data, 1 if label in ("SVC", "xRFM") else orders)[:3])


def auto(run: harness.Run, name: str, splits: defaults.Splits) -> None:
    """Beside the plain metric; where there are folds, over these."""
    sizes = min(len(splits[0][1]), 500) // 4
    budget = 500 if sizes >= 125 else max(20, sizes)
    found: dict[Literal["plain", "auto"], list[float]] = {"plain": [], "auto": []}
    kept = 0
    for order, (X, y, X_test, y_test) in enumerate(splits[:5]):
        for kind, accuracies in found.items():
            model = KernelPegasosClassifier(metric=kind, budget=budget, random_state=order, n_jobs=1).fit(X, y)
            accuracies.append(100.0 * model.score(X_test, y_test))
        kept += int(model._metric is None)
    plain, learned = (float(np.mean(accuracies)) for accuracies in found.values())
    tested = sum(len(y_test) for *_, y_test in splits[:5])
    deviation = float(np.sqrt(plain * (100.0 - plain) / tested))
    setting = f"plain {plain:.2f}; kept {kept} of {len(splits[:5])} times; deviation of so many test rows {deviation:.2f}"
    run.row("auto", name, f"B = {budget}", float("nan"), learned, learned - plain, setting)


def main() -> None:
    run = harness.begin(__doc__, "part,data,machine,seconds,accuracy,deviation,setting")
    warnings.simplefilter("ignore")
    quick = ["checkerboard and noise", "waveform", "usps"]
    for name in run.wanted(run.pick(quick=quick, full=[*SETS], tiny=[])):
        data = harness.load(SETS, name)
        if data is not None:
            machines(run, name, data)
    if run.size == "tiny":
        machines(run, "waveform", generated(make_waveform, 500, 500))
    names = [name for name in defaults.SETS if name not in ("letter", "covtype15k", "mnist10k")]
    for name in run.wanted(run.pick(quick=names[:12], full=names, tiny=["iris"])):
        splits = harness.load(defaults.SETS, name)
        if splits is not None:
            auto(run, name, splits)


if __name__ == "__main__":
    main()
