"""Kernel machines: pegasos beside scikit-learn's SVC.

    python benches/kernels.py

Prints CSV, a comment with the machine and the versions at its head. Times are of `fit` and `predict` as a
user calls them, on one thread unless said; ratios (theirs over ours) are taken turn by turn. Sets that are
not at hand are reported as missing.

* One pass: test accuracy of kernel Pegasos after one pass, the mean of five orders, at the best gamma of
  {1, 4, 16, 64}/d, beside an SVC of the same gamma.
* To a gap of 0.001: solver="auto" beside SVC(C=1/(alpha n)), which has an intercept, ours has none; of 100,000 points at C = 10, 100
  and 10,000.
* Several classes, one pair or one class at a time to a gap of 0.001, jointly to 0.01 and 0.001 (that up to C = 10; beyond it
  takes minutes: --precise), beside SVC of the same C (--C: 1, 10, 100 and 1000 if not said); on two threads also beside that
  of scikit-learn-intelex, where it is installed.
* With an intercept, which is the default here and what SVC has, and without: pairs, one class against the rest, two
  classes of 1,000 rows of noise, and two of 5,000 rows with a kernel whose values are all but equal.
* Prediction of 100,000 rows, with the same support vectors and coefficients.
"""

from __future__ import annotations

import one_thread  # noqa: F401, I001 before NumPy

import argparse
import sys
import time
import warnings
from contextlib import suppress
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from harness import head, papers_kernel
from pegasos import KernelPegasosClassifier
from pegasos.datasets import make_checkerboard
from problems import SETS, Split, a9a_sparse, split

IntelSVC: Any = None
with suppress(ImportError):
    IntelSVC = import_module("sklearnex.svm").SVC

ORDERS = 5


def row(measure: str, problem: str, setting: str, ours: float, theirs: float, ratio: float, *more: float) -> None:
    numbers = ",".join(f"{x:.5g}" for x in (ours, theirs, ratio, *more))
    print(f"{measure},{problem},{setting},{numbers}", flush=True)


def timed(call: Any, *arguments: Any) -> tuple[float, Any]:
    start = time.perf_counter()
    result = call(*arguments)
    return time.perf_counter() - start, result


def one_pass(name: str, data: Split, pairs: int) -> None:
    X, y, X_test, y_test = data
    d = X.shape[1]
    found = {}
    for average in (False, True):
        for c in (1, 4, 16, 64):
            scores = []
            for seed in range(ORDERS):
                model = papers_kernel(
                    gamma=c / d, average=average, tol=None, random_state=seed
                )
                scores.append(model.fit(X, y).score(X_test, y_test))
            found[average, c] = float(np.mean(scores))
    for average in (False, True):
        c = max((1, 4, 16, 64), key=lambda c: found[average, c])
        ours = lambda: papers_kernel(
            gamma=c / d, average=average, tol=None, random_state=0
        )
        theirs = lambda: SVC(gamma=c / d, C=1 / (1e-4 * len(y)))
        times = np.array([
            [timed(make().fit, X, y)[0] for make in (ours, theirs)] for _ in range(pairs)
        ])
        accuracy = theirs().fit(X, y).score(X_test, y_test)
        row("one pass (s)", name, f"gamma={c}/d average={average}", *np.median(times, axis=0),
            float(np.median(times[:, 1] / times[:, 0])), found[average, c], accuracy)


def exact(name: str, data: Split, gamma: float, alpha: float, pairs: int) -> None:
    X, y, X_test, y_test = data
    ours = lambda jobs: papers_kernel(
        gamma=gamma, alpha=alpha, solver="auto", tol=1e-3, n_jobs=jobs, random_state=0
    )
    theirs = lambda: SVC(gamma=gamma, C=1 / (alpha * len(y)), tol=1e-3)
    times = []
    for _ in range(pairs):
        one, model = timed(ours(1).fit, X, y)
        two, _ = timed(ours(2).fit, X, y)
        peer, svc = timed(theirs().fit, X, y)
        times.append([one, peer, two])
    one, peer, two = np.median(times, axis=0)
    ratios = np.array(times)
    setting = f"gamma={gamma:g} alpha={alpha:g}"
    row("to a gap of 0.001 (s)", name, setting, one, peer,
        float(np.median(ratios[:, 1] / ratios[:, 0])), model.score(X_test, y_test),
        svc.score(X_test, y_test))
    row("the same on two threads (s)", name, setting, two, peer,
        float(np.median(ratios[:, 1] / ratios[:, 2])))
    row("support vectors", name, setting, model.n_support_.sum(), svc.n_support_.sum(), np.nan)


def several(name: str, data: Split, gamma: float, C: float, pairs: int, precise: bool) -> None:
    X, y, X_test, y_test = data
    alpha = 1.0 / (C * len(y))
    ways = [("ovo", 1e-3), ("ovr", 1e-3), ("crammer_singer", 1e-2)]
    if precise or C <= 10.0:
        ways.append(("crammer_singer", 1e-3))
    theirs = lambda: SVC(gamma=gamma, C=C, cache_size=1000)

    def ours(way: str, tol: float, jobs: int) -> KernelPegasosClassifier:
        return papers_kernel(
            gamma=gamma, alpha=alpha, multi_class=way, solver="auto", tol=tol, n_jobs=jobs, random_state=0
        )

    times: list[list[float]] = []
    accuracy: list[float] = []
    for _ in range(pairs):
        peer, svc = timed(theirs().fit, X, y)
        intel = np.nan
        if IntelSVC is not None:
            intel, _ = timed(IntelSVC(gamma=gamma, C=C, cache_size=1000).fit, X, y)
        turn, accuracy = [peer, intel], []
        for way, tol in ways:
            for jobs in (1, 2):
                took, model = timed(ours(way, tol, jobs).fit, X, y)
                turn.append(took)
            accuracy.append(model.score(X_test, y_test))
        times.append(turn)
    medians, every = np.median(times, axis=0), np.array(times)
    score = svc.score(X_test, y_test)
    for k, (way, tol) in enumerate(ways):
        setting = f"{way} tol={tol:g} C={C:g} gamma={gamma:.3g}"
        for jobs, measure in [(1, "several classes (s)"), (2, "the same on two threads (s)")]:
            at = 1 + 2 * k + jobs
            ratio = float(np.median(every[:, 0] / every[:, at]))
            row(measure, name, setting, medians[at], medians[0], ratio, accuracy[k], score)
        ratio = float(np.median(every[:, 1] / every[:, at]))
        measure = "beside scikit-learn-intelex on two threads (s)"
        row(measure, name, setting, medians[at], medians[1], ratio, accuracy[k], score)


def intercept(name: str, data: Split, gamma: float, C: float, ways: tuple[str, ...], pairs: int) -> None:
    X, y, X_test, y_test = data
    theirs = lambda: SVC(gamma=gamma, C=C, cache_size=1000)
    ours = lambda way, constant: papers_kernel(
        gamma=gamma, alpha=1.0 / (C * len(y)), multi_class=way, fit_intercept=constant, solver="auto", tol=1e-3,
        n_jobs=1, random_state=0,
    )
    settings = [(way, constant) for way in ways for constant in (True, False)]
    times: list[list[float]] = []
    accuracy: list[float] = []
    for _ in range(pairs):
        peer, svc = timed(theirs().fit, X, y)
        turn, accuracy = [peer], []
        for way, constant in settings:
            took, model = timed(ours(way, constant).fit, X, y)
            turn.append(took)
            accuracy.append(model.score(X_test, y_test))
        times.append(turn)
    medians, every = np.median(times, axis=0), np.array(times)
    for k, (way, constant) in enumerate(settings):
        row("with an intercept (s)" if constant else "without one (s)", name, f"{way} C={C:g} gamma={gamma:.3g}",
            medians[k + 1], medians[0], float(np.median(every[:, 0] / every[:, k + 1])), accuracy[k],
            svc.score(X_test, y_test))


def prediction(name: str, data: Split, gamma: float, rows: int, pairs: int) -> None:
    """SVC's own support vectors, given to both."""
    X, y, X_test, _ = data
    svc = SVC(gamma=gamma, C=1.0).fit(X, y)
    model = papers_kernel(gamma=gamma, alpha=1.0, tol=None)
    model.fit(svc.support_vectors_.astype(X.dtype), y[svc.support_])
    missing = len(svc.support_) - model.n_support_.sum()
    assert missing == 0, f"{missing} support vectors are missing"
    many = np.concatenate([X_test] * (rows // len(X_test) + 1))[:rows]
    times = []
    for _ in range(pairs):
        ours = []
        for jobs in (1, 2):
            ours.append(timed(model.set_params(n_jobs=jobs).predict, many)[0])
        times.append([ours[0], timed(svc.predict, many)[0], ours[1]])
    one, peer, two = np.median(times, axis=0)
    ratios = np.array(times)
    row(f"prediction of {rows} rows (s)", name, f"{len(svc.support_)} vectors", one, peer,
        float(np.median(ratios[:, 1] / ratios[:, 0])))
    row("two threads over one", name, f"{len(svc.support_)} vectors", two, one,
        float(np.median(ratios[:, 0] / ratios[:, 2])))


def eight(data: Split) -> Split:
    """8 against the rest."""
    X, y, X_test, y_test = data
    return X, (y == 8).astype(int), X_test, (y_test == 8).astype(int)


def first(data: Split, n: int) -> Split:
    """The first rows of those to train on."""
    X, y, X_test, y_test = data
    return X[:n], y[:n], X_test, y_test


def noise() -> Split:
    """Two classes that no row tells apart."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 5)).astype(np.float32)
    return split(X, rng.integers(0, 2, 2000), 1000)


def product() -> Split:
    """Two classes by the sign of the product of two features, and noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((10_000, 5)).astype(np.float32)
    return split(X, (X[:, 0] * X[:, 1] + 0.5 * rng.standard_normal(10_000) > 0).astype(int), 5_000)


def checkerboard(n: int) -> Split:
    X, y = make_checkerboard(2 * n, 0)
    return split(X.astype(np.float32), y, n)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=3, help="timed turns per figure (3)")
    parser.add_argument("--only", choices=["pass", "exact", "several", "intercept", "predict"])
    parser.add_argument("--C", type=float, nargs="+", default=[1.0, 10.0, 100.0, 1000.0], help="of several classes")
    parser.add_argument("--precise", action="store_true", help="several classes jointly to 0.001 at every C")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    head(
        " ".join(["benches/kernels.py", *sys.argv[1:]]),
        "measure,problem,setting,pegasos,SVC,ratio,accuracy,accuracy of SVC",
    )
    with_data: list[Any] = []
    if options.only in (None, "pass"):
        with_data += [lambda n=n: one_pass(n, SETS[n](), options.pairs) for n in ("usps", "letter")]
    if options.only in (None, "exact"):
        with_data += [
            lambda: exact("checkerboard", checkerboard(16_000), 8.0, 1e-5, options.pairs),
            *(
                lambda C=C: exact("checkerboard of 100k", checkerboard(100_000), 4.0, 1e-5 / C, 1)
                for C in (10.0, 100.0, 1e4)
            ),
            lambda: exact("usps 8 or not", eight(SETS["usps [0,1]"]()), 1 / 64, 1e-4, options.pairs),
            lambda: exact("a9a", SETS["a9a {0,1}"](), 0.05, 3.07e-5, 1),
            lambda: exact("a9a sparse", a9a_sparse(), 0.05, 3.07e-5, 1),
        ]
    if options.only in (None, "several"):
        with_data += [
            lambda name=name, gamma=gamma, C=C, data=data: several(name, data(), gamma, C, 1, options.precise)
            for C in options.C
            for name, gamma, data in [
                ("usps", 1 / 256, SETS["usps [0,1]"]),
                ("letter", 2 / 16, SETS["letter"]),
                ("covtype15k", 4 / 54, SETS["covtype15k"]),
                ("mnist 20k", 0.02, lambda: first(SETS["mnist [0,1]"](), 20_000)),
            ]
        ]
    if options.only in (None, "intercept"):
        with_data += [
            lambda name=name, gamma=gamma, data=data: intercept(
                name, data(), gamma, 10.0, ("ovo", "ovr"), options.pairs
            )
            for name, gamma, data in [
                ("usps", 1 / 256, SETS["usps [0,1]"]),
                ("letter", 2 / 16, SETS["letter"]),
                ("covtype15k", 4 / 54, SETS["covtype15k"]),
            ]
        ]
        with_data += [
            lambda C=C: intercept("noise", noise(), 0.2, C, ("crammer_singer",), options.pairs)
            for C in (1.0, 100.0, 10_000.0)
        ]
        with_data += [
            lambda C=C: intercept("product", product(), 1e-4, C, ("crammer_singer",), options.pairs)
            for C in (20.0, 200.0, 2000.0)
        ]
    if options.only in (None, "predict"):
        with_data += [
            lambda: prediction("usps 8 or not", eight(SETS["usps [0,1]"]()), 1 / 64, 100_000, options.pairs),
            lambda: prediction("checkerboard", checkerboard(16_000), 8.0, 100_000, options.pairs),
        ]
    for measure in with_data:
        try:
            measure()
        except FileNotFoundError as missing:
            print(f"# missing: {missing}")


if __name__ == "__main__":
    main()
