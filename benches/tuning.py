"""Tuning and probabilities in one call: time, accuracy and calibration beside SVC, grid searches and LogisticRegressionCV.

    python benches/tuning.py [--full] [kernel | exact | linear] [DATA ...]

For kernels `KernelPegasosClassifierCV` by its defaults beside one fit of `SVC` by its own, beside what a grid search with
`SVC` over as many cells would take (from the mean time of fits at three corners of the grid that ours has tried), and beside
`CalibratedClassifierCV(SVC)`, as `KernelPegasosClassifier(calibration="sigmoid")` is; how good each model of its grid is on test
rows; how often probabilities are right, and the scores over a grid of gamma and alpha, for the pictures. "exact" is
`KernelPegasosClassifierCV(budget=None)`, beside one fit of `SVC` with what it has found. For linear models `PegasosClassifierCV`
with ten alphas and five folds beside as many fits of its own, `LogisticRegressionCV` and a grid search with `LinearSVC`, these from
the time of fits at three of the alphas. One thread, but for the row that says otherwise.
"""

import one_thread  # noqa: F401 - before NumPy

import time
import warnings
from collections.abc import Callable
from typing import Any, Literal

import harness
import numpy as np
from problems import Split, generated, given, news20, scaled, split, standardised, table, words
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC, LinearSVC

from pegasos import (
    KernelPegasosClassifier,
    KernelPegasosClassifierCV,
    PegasosClassifier,
    PegasosClassifierCV,
)
from pegasos.datasets import make_waveform


def digits() -> Split:
    X, y = load_digits(return_X_y=True)
    return split((X / 16.0).astype(np.float32), y, 1200)


KERNEL: dict[str, Callable[[], Split]] = {
    "digits": digits,
    "waveform": lambda: generated(make_waveform, 5000),
    "letter": lambda: standardised(*given("letter")),
    "usps": lambda: given("usps"),
    "covtype15k": lambda: standardised(*given("covtype15k")),
    "a9a": lambda: scaled("a9a", 1.0),
    "mnist": lambda: scaled("mnist", 255.0),
}

LINEAR: dict[str, Callable[[], Split]] = {
    "news20": lambda: (*news20(), *news20("t")),
    "a9a": lambda: scaled("a9a", 1.0),
    "words": lambda: split(*words(120_000), 100_000),
    "table": lambda: split(*table(120_000), 100_000),
}

#: What a quick run leaves out.
SLOW = {"a9a", "mnist", "covtype15k"}

#: Of which machines without a budget are tuned in some seconds.
EXACT = ("digits", "waveform", "letter", "usps", "covtype15k")

#: Whose scores over gamma and alpha are drawn.
DRAWN = ("waveform", "letter")


def timed(model: Any, X: Any, y: np.ndarray) -> tuple[Any, float]:
    """The model, fitted, and the seconds that it took."""
    start = time.perf_counter()
    model.fit(X, y)
    return model, time.perf_counter() - start


def quality(model: Any, X: Any, y: np.ndarray) -> list[float]:
    """Log loss, Brier score and expected calibration error of the likeliest class in ten bins, of test rows."""
    p = model.predict_proba(X)
    truth = model.classes_ == y[:, None]
    sure, right = p.max(axis=1), truth[np.arange(len(y)), p.argmax(axis=1)]
    bins = np.minimum((10 * sure).astype(int), 9)
    error = sum(abs(float((sure - right)[bins == b].sum())) for b in range(10)) / len(y)
    losses = -np.log(np.maximum(p[truth], 1e-15))
    return [float(losses.mean()), float(((p - truth) ** 2).sum(axis=1).mean()), error]


def kernel(run: harness.Run, name: str, data: Split, budget: int) -> None:
    X, y, X_test, y_test = data

    def percent(model: Any) -> float:
        return 100.0 * float(model.score(X_test, y_test))

    tuned, seconds = timed(KernelPegasosClassifierCV(budget=budget, random_state=0, n_jobs=1), X, y)
    found = f"gamma={tuned.gamma_:.3g} alpha={tuned.alpha_:.3g}"
    run.row("kernel", name, "KernelPegasosClassifierCV", seconds, percent(tuned), *quality(tuned, X_test, y_test), found)
    _, threads = timed(KernelPegasosClassifierCV(budget=budget, random_state=0, n_jobs=-1), X, y)
    run.row("kernel", name, "the same on all cores", threads)
    results = tuned.cv_results_
    of_grid = [
        percent(tuned._model(0, gamma=gamma, alpha=alpha).fit(X, y))
        for gamma, alpha in zip(results["param_gamma"], results["param_alpha"], strict=True)
    ]
    run.row("kernel", name, "best cell of its grid by test rows", float("nan"), max(of_grid))
    bins(run, name, tuned, X_test, y_test)
    if name in DRAWN:
        gammas = tuned.gamma_ * 2.0 ** np.arange(-3, 4)
        alphas = 10.0 ** -(np.arange(4, 13) / 2)
        grid = KernelPegasosClassifierCV(gammas, alphas, budget, 3, random_state=0).fit(X, y).cv_results_
        for gamma, alpha, score in zip(*(grid[f"{n}"] for n in ("param_gamma", "param_alpha", "mean_test_score")), strict=True):
            run.row("score", name, "", float("nan"), 100.0 * score, float("nan"), float("nan"), float("nan"), f"{gamma} {alpha}")
    theirs, seconds = timed(SVC(cache_size=1000), X, y)
    run.row("kernel", name, "SVC", seconds, percent(theirs))
    if run.size == "tiny":
        return
    corners = [int(results[f"param_{n}"].argmin()) for n in ("gamma", "alpha")] + [tuned.best_index_]
    part = len(y) * 4 // 5
    machines = [
        SVC(C=1.0 / (part * results["param_alpha"][i]), gamma=results["param_gamma"][i], cache_size=1000) for i in corners
    ]
    # Where that takes an hour by the fit above, which had a quarter more rows.
    fits = [0.8 * seconds] if len(y) > 20_000 else [timed(machine, X[:part], y[:part])[1] for machine in machines]
    cells = len(results["param_gamma"])
    run.row("kernel", name, f"GridSearchCV(SVC) of {cells} cells, estimated", cells * 5 * float(np.mean(fits)))
    calibrated, seconds = timed(CalibratedClassifierCV(SVC(cache_size=1000), cv=5), X, y)
    run.row("kernel", name, "CalibratedClassifierCV(SVC)", seconds, percent(calibrated), *quality(calibrated, X_test, y_test))
    untuned, seconds = timed(KernelPegasosClassifier(calibration="sigmoid", random_state=0, n_jobs=1), X, y)
    run.row("kernel", name, "KernelPegasosClassifier", seconds, percent(untuned), *quality(untuned, X_test, y_test))


def exact(run: harness.Run, name: str, data: Split) -> None:
    X, y, X_test, y_test = data
    tuned, seconds = timed(KernelPegasosClassifierCV(budget=None, random_state=0, n_jobs=1), X, y)
    accuracy, found = 100.0 * tuned.score(X_test, y_test), f"gamma={tuned.gamma_:.3g} alpha={tuned.alpha_:.3g}"
    run.row("exact", name, "KernelPegasosClassifierCV", seconds, accuracy, *quality(tuned, X_test, y_test), found)
    _, seconds = timed(KernelPegasosClassifierCV(budget=None, random_state=0, n_jobs=-1), X, y)
    run.row("exact", name, "the same on all cores", seconds)
    own = SVC(C=1.0 / (len(y) * tuned.alpha_), gamma=tuned.gamma_, cache_size=1000)
    theirs, seconds = timed(own, X, y)
    cells = len(tuned.cv_results_["param_gamma"])
    run.row("exact", name, f"SVC of that gamma and alpha, one of {cells}", seconds, 100.0 * theirs.score(X_test, y_test))


def bins(run: harness.Run, name: str, model: Any, X: Any, y: np.ndarray) -> None:
    """How often classes of a probability are the right ones, of all classes."""
    p = model.predict_proba(X)
    truth = (model.classes_ == y[:, None]).ravel()
    edges = np.quantile(p, np.linspace(0, 1, 13)[1:-1]) if p.shape[1] == 2 else np.linspace(0, 1, 11)[1:-1]
    where = np.digitize(p.ravel(), edges)
    for b in np.unique(where):
        own = where == b
        run.row("reliability", name, int(own.sum()), float("nan"), float(p.ravel()[own].mean()), float(truth[own].mean()))


def linear(run: harness.Run, name: str, data: Split) -> None:
    X, y, X_test, y_test = data
    alphas = 10.0 ** -(np.arange(4, 14) / 2)

    def percent(model: Any) -> float:
        return 100.0 * float(model.score(X_test, y_test))

    for loss in ("squared_hinge", "log_loss"):
        tuned, seconds = timed(PegasosClassifierCV(alphas, loss=loss, random_state=0, n_jobs=1), X, y)
        run.row("linear", name, f"PegasosClassifierCV {loss}", seconds, percent(tuned), *quality(tuned, X_test, y_test))
    train = next(StratifiedKFold(5).split(np.zeros(len(y)), y))[0]
    rows, labels = X[train], y[train]

    n = len(labels)

    def estimate(machine: str, models: list[Any]) -> None:
        run.row("linear", name, machine, 50.0 * float(np.mean([timed(model, rows, labels)[1] for model in models])))

    losses: tuple[Literal["squared_hinge", "log_loss"], ...] = ("squared_hinge", "log_loss")
    for loss in losses:
        ours = [PegasosClassifier(loss, alpha=alpha, random_state=0, n_jobs=1) for alpha in alphas]
        estimate(f"fifty fits of PegasosClassifier {loss}", ours)
    some = alphas[[1, 5, 8]]
    estimate("GridSearchCV(LinearSVC), estimated", [LinearSVC(C=1.0 / (alpha * n)) for alpha in some])
    logistic = [LogisticRegression(C=1.0 / (alpha * n), max_iter=1000) for alpha in some]
    estimate("LogisticRegressionCV, estimated by fits without a warm start", logistic)


def main() -> None:
    run = harness.begin(__doc__, "part,data,machine,seconds,accuracy,log loss,brier,calibration error,setting")
    warnings.simplefilter("ignore")
    parts = [part for part in ("kernel", "exact", "linear") if part in run.only] or ["kernel", "exact", "linear"]
    run.only = [name for name in run.only if name not in parts]
    names = run.pick(quick=[name for name in KERNEL if name not in SLOW], full=[*KERNEL], tiny=["digits"])
    for name in run.wanted(names) if {"kernel", "exact"} & {*parts} else []:
        data = harness.load(KERNEL, name)
        if data is not None and "kernel" in parts:
            kernel(run, name, data, run.pick(quick=500, full=500, tiny=50))
        if data is not None and "exact" in parts and name in EXACT:
            exact(run, name, data)
    names = run.pick(quick=[name for name in LINEAR if name not in SLOW], full=[*LINEAR], tiny=[])
    for name in run.wanted(names) if "linear" in parts else []:
        data = harness.load(LINEAR, name)
        if data is not None:
            linear(run, name, data)


if __name__ == "__main__":
    main()
