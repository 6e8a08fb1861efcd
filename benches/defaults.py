"""What estimators do when nothing is said: accuracy and time of our defaults beside those of SVC and LinearSVC.

    python benches/defaults.py [--full] [DATA ...]

Sets that scikit-learn ships or generates, those of `problems.py` and, where they are at hand, real ones; raw and with
features scaled (`StandardScaler`; pixels divided by the largest). Small sets: the mean over the folds of repeated stratified
five-fold cross-validation, and the time of one fit; larger ones: the mean of five orders, where they take a second
altogether. All on one thread.
"""

import one_thread  # noqa: F401 - before NumPy

import time
import warnings
from collections.abc import Callable
from typing import Any

import harness
import numpy as np
import scipy.sparse as sp
from problems import Split, generated, given, news20, source_code, split, table, topics, words
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
    make_blobs,
    make_classification,
    make_gaussian_quantiles,
    make_hastie_10_2,
    make_moons,
)
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from sklearn.svm import SVC, LinearSVC

from pegasos import KernelPegasosClassifier, PegasosClassifier
from pegasos.datasets import make_checkerboard, make_waveform

Splits = list[Split]


def folds(load: Callable[..., Any]) -> Splits:
    X, y = load(return_X_y=True)
    cv = RepeatedStratifiedKFold(n_splits=5, n_repeats=4 if len(y) < 1000 else 1, random_state=0)
    return [(X[train], y[train], X[test], y[test]) for train, test in cv.split(X, y)]


def scaled(splits: Splits) -> Splits:
    def scale(X: Any, y: np.ndarray, X_test: Any, y_test: np.ndarray) -> Split:
        scaler = (MaxAbsScaler() if sp.issparse(X) else StandardScaler()).fit(X)
        return scaler.transform(X), y, scaler.transform(X_test), y_test

    return [scale(*each) for each in splits]


def real(name: str, n: int | None = None, largest: float = 1.0) -> Splits:
    """As it is stored, in f64: the first n rows to train on."""
    X, y, X_test, y_test = given(name)
    return [(X[:n] / largest, y[:n], X_test / largest, y_test)]


def drawn(X: np.ndarray, y: np.ndarray) -> Splits:
    """Seven tenths of the rows to train on; generators draw them in a random order."""
    return [split(X, y, len(y) * 7 // 10)]


SETS: dict[str, Callable[[], Splits]] = {
    "iris": lambda: folds(load_iris),
    "iris scaled": lambda: scaled(folds(load_iris)),
    "wine": lambda: folds(load_wine),
    "wine scaled": lambda: scaled(folds(load_wine)),
    "breast_cancer": lambda: folds(load_breast_cancer),
    "breast_cancer scaled": lambda: scaled(folds(load_breast_cancer)),
    "digits": lambda: folds(load_digits),
    "digits scaled": lambda: scaled(folds(load_digits)),
    "classification": lambda: drawn(
        *make_classification(5000, 40, n_informative=10, n_classes=5, random_state=0)
    ),
    "imbalanced": lambda: drawn(*make_classification(5000, 20, n_informative=6, weights=[0.93], random_state=0)),
    "blobs": lambda: drawn(*make_blobs(3000, 5, centers=12, cluster_std=2.5, random_state=0)),
    "moons": lambda: drawn(*make_moons(3000, noise=0.3, random_state=0)),
    "hastie": lambda: drawn(*make_hastie_10_2(6000, random_state=0)),
    "quantiles": lambda: drawn(
        *make_gaussian_quantiles(n_samples=4000, n_features=8, n_classes=4, random_state=0)
    ),
    "checkerboard": lambda: [generated(make_checkerboard, 10_000)],
    "waveform": lambda: [generated(make_waveform, 10_000)],
    "table": lambda: [split(*table(40_000), 20_000)],
    "letter": lambda: real("letter"),
    "letter scaled": lambda: scaled(real("letter")),
    "covtype15k": lambda: real("covtype15k"),
    "covtype15k scaled": lambda: scaled(real("covtype15k")),
    "usps": lambda: real("usps"),
    "mnist10k": lambda: real("mnist", 10_000),
    "mnist10k scaled": lambda: real("mnist", 10_000, 255.0),
    "a9a": lambda: real("a9a"),
}

#: Too large, or too many features, for a kernel machine of scikit-learn's.
LINEAR: dict[str, Callable[[], Splits]] = {
    "table 480,000": lambda: [split(*table(500_000), 480_000)],
    "words": lambda: [split(*words(120_000), 100_000)],
    "news20": lambda: [(*news20(), *news20("t"))],
    "topics": lambda: [topics(20_000, 5000)],
    "source code": lambda: [source_code(400, 20)],
}

#: What a quick run leaves out: minutes of SVC or LinearSVC.
SLOW = {"a9a", "mnist10k", "mnist10k scaled", "table", "letter", "covtype15k"}


def measured(make: Callable[[], Any], splits: Splits) -> tuple[float, float]:
    """Mean accuracy in percent, and seconds a fit."""
    accuracies, seconds = [], 0.0
    for X, y, X_test, y_test in splits if len(splits) > 1 else 5 * splits:
        model = make()
        start = time.perf_counter()
        model.fit(X, y)
        seconds += time.perf_counter() - start
        accuracies.append(100.0 * model.score(X_test, y_test))
        if seconds > 1.0 and len(splits) == 1:
            break
    return float(np.mean(accuracies)), seconds / len(accuracies)


def main() -> None:
    run = harness.begin(__doc__, "data,machine,accuracy,seconds,accuracy of scikit-learn,seconds of scikit-learn")
    warnings.simplefilter("ignore")
    sets = SETS | LINEAR
    names = run.pick(
        quick=[name for name in sets if name not in SLOW],
        full=[*sets],
        tiny=["iris", "wine scaled", "moons"],
    )
    for name in run.wanted(names):
        splits = harness.load(sets, name)
        if splits is None:
            continue
        machines: list[tuple[str, Callable[[], Any], Callable[[], Any]]] = [
            ("linear", lambda: PegasosClassifier(n_jobs=1), LinearSVC)
        ]
        if name in SETS:
            machines.append(("kernel", lambda: KernelPegasosClassifier(n_jobs=1), SVC))
        for kind, ours, theirs in machines:
            run.row(name, kind, *measured(ours, splits), *measured(theirs, splits))


if __name__ == "__main__":
    main()
