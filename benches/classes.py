"""Many classes on sparse rows, beside scikit-learn's linear machines, on one thread.

    python benches/classes.py [--full] [topics] [code]

Every machine as its users have it: with its defaults, and with the alpha and the loss that suit the data. All are run in
turn; a row has the median time of a fit, the accuracy on rows held out, and how many times as long it took as ours of the
same row of settings ("pair by pair" where there is a pair).
"""

from __future__ import annotations

import one_thread  # noqa: F401, I001 before NumPy

import time
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import SGDClassifier
from sklearn.svm import LinearSVC

import harness
from harness import papers_linear
from problems import Split, source_code, topics


def timed(estimator: Any, data: Split) -> tuple[float, float]:
    """Seconds of a fit, and the accuracy in percent."""
    X, y, X_test, y_test = data
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        estimator.fit(X, y)
    took = time.perf_counter() - start
    return took, 100.0 * estimator.score(X_test, y_test)


def epochs(run: harness.Run, name: str, data: Split, rounds: int) -> None:
    """One epoch at the default alpha, in turn; ratios are of each round's own times."""
    common: dict[str, Any] = dict(max_iter=1, tol=None, random_state=0)
    machines = {
        "SGDClassifier": lambda: SGDClassifier(**common),
        "pegasos ovr": lambda: papers_linear(multi_class="ovr", **common),
        "pegasos joint": lambda: papers_linear(**common),
    }
    results = [{machine: timed(make(), data) for machine, make in machines.items()} for _ in range(rounds)]
    for machine in machines:
        seconds = np.array([result[machine][0] for result in results])
        peers = np.array([result["SGDClassifier"][0] for result in results])
        accuracy = results[0][machine][1]
        row = float(np.median(seconds)), float(np.median(peers / seconds)), accuracy
        run.row(name, "one epoch", machine, *row)


def fits(run: harness.Run, name: str, data: Split, rounds: int) -> None:
    """To where each stops by itself."""
    n = data[0].shape[0]
    seed: dict[str, Any] = dict(random_state=0)
    ovr: dict[str, Any] = dict(multi_class="ovr", **seed)
    machines = {
        "SGDClassifier()": lambda: SGDClassifier(**seed),
        "SGDClassifier(alpha=1e-5)": lambda: SGDClassifier(alpha=1e-5, **seed),
        "LinearSVC()": lambda: LinearSVC(**seed),
        "LinearSVC(loss='hinge'; alpha=1e-5)": lambda: LinearSVC(loss="hinge", C=1e5 / n, **seed),
        "pegasos()": lambda: papers_linear(**seed),
        "pegasos(tol=1e-2)": lambda: papers_linear(tol=1e-2, **seed),
        "pegasos(alpha=1e-5; tol=1e-2)": lambda: papers_linear(alpha=1e-5, tol=1e-2, **seed),
        "pegasos ovr()": lambda: papers_linear(**ovr),
        "pegasos ovr(tol=1e-2)": lambda: papers_linear(tol=1e-2, **ovr),
        "pegasos ovr(alpha=1e-5; tol=1e-2)": lambda: papers_linear(alpha=1e-5, tol=1e-2, **ovr),
    }
    results = [{machine: timed(make(), data) for machine, make in machines.items()} for _ in range(rounds)]
    for machine in machines:
        seconds = float(np.median([result[machine][0] for result in results]))
        run.row(name, "fit", machine, seconds, "", results[0][machine][1])


def main() -> None:
    run = harness.begin(__doc__, "problem,measure,machine,seconds,SGDClassifier/this,accuracy")
    n = run.pick(quick=20_000, full=50_000, tiny=300)
    files = run.pick(quick=600, full=100_000, tiny=60)
    sets = {
        "topics": lambda: topics(n, n // 5),
        "code": lambda: source_code(files, classes=run.pick(quick=20, full=40, tiny=4)),
    }
    for name in run.wanted(sets):
        data = sets[name]()
        X, y, _, y_test = data
        print(f"# {name}: {X.shape[0]} rows of {X.nnz / X.shape[0]:.0f} of {X.shape[1]} columns, {X.dtype}, "
              f"{len(np.unique(y))} classes; {len(y_test)} rows held out", flush=True)
        epochs(run, name, data, run.pick(quick=3, full=7, tiny=1))
        fits(run, name, data, run.pick(quick=1, full=3, tiny=1))


if __name__ == "__main__":
    main()
