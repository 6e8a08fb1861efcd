"""The best model that a budget can hold: accuracies beside other landmarks, times beside other packages.

    python benches/refit.py                 everything (an hour)
    python benches/refit.py time size       only these parts

Prints CSV, a comment with the machine and the versions at its head. One thread for everyone. Features are
standardised. Sets that are not at hand are reported as missing.

* landmarks: test accuracy, and its deviation, of the same refit on support vectors placed by one pass and by five passes of
  merging, on random rows, on k-means centres, and on rows drawn by their leverage (ridge leverage scores, from the span
  of 4 B random rows, at most 2000). gamma and alpha are the best of a grid, by test accuracy of the first order, for each of
  them; then the mean of five orders (two where B = 2000 or on mnist).
* rounds: placement and refit in turn, against as many passes of placement.
* time: seconds and accuracy beside Nystroem + LinearSVC of the same size and beside SVC; ten alphas beside one.
* size: accuracy by number of support vectors: ours, random landmarks (Nystroem features), SVC.
"""

from __future__ import annotations

import one_thread  # noqa: F401, I001 before NumPy

import argparse
import sys
import time
import warnings
from typing import Any

import numpy as np
from sklearn.cluster import MiniBatchKMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, LinearSVC

from budget import row
from harness import head, load, papers_kernel
from problems import SETS

#: What the relative gap must come down to.
TOL = 1e-2

#: Data, budget, gammas in 1/d, alphas, orders.
CELLS: list[tuple[str, int, tuple[float, ...], tuple[float, ...], int]] = [
    ("letter", 100, (0.5, 1, 2), (1e-5, 3e-6, 1e-6), 5),
    ("letter", 500, (1, 2, 4), (1e-5, 3e-6), 5),
    ("letter", 2000, (2, 4), (1e-5, 3e-6), 2),
    ("usps", 500, (0.5, 1), (1e-4, 3e-5), 5),
    ("checkerboard 100k", 100, (4, 8), (1e-6, 1e-7), 5),
    ("covtype15k", 500, (4, 8), (1e-5, 3e-6), 5),
    ("covtype15k", 2000, (4, 8), (1e-5, 3e-6), 2),
    ("a9a", 100, (0.25, 1), (1e-4, 1e-5), 5),
    ("mnist", 500, (0.5, 1), (3e-6, 1e-6), 2),
    ("mnist", 2000, (0.5, 1), (3e-6,), 2),
]


def placed(X: np.ndarray, y: np.ndarray, budget: int, gamma: float, seed: int, passes: int) -> Any:
    model = papers_kernel(
        gamma=gamma, budget=budget, max_iter=passes, tol=None, refine=False, random_state=seed
    )
    return model.fit(X, y).set_params(tol=TOL)


def on_landmarks(landmarks: np.ndarray, classes: np.ndarray, gamma: float) -> Any:
    """A model whose support vectors are just these, whatever its coefficients."""
    y = np.resize(classes, len(landmarks))
    # Steps so short that every row violates the margin.
    model = papers_kernel(
        gamma=gamma, budget=len(landmarks), maintenance="remove", alpha=1e6, tol=None, refine=False
    )
    return model.fit(landmarks, y).set_params(tol=TOL)


def leveraged(X: np.ndarray, budget: int, gamma: float, seed: int) -> np.ndarray:
    """Rows drawn by ridge leverage scores, as the features of random rows show them."""
    random = np.random.default_rng(seed)
    z = Nystroem(gamma=gamma, n_components=min(4 * budget, 2000), random_state=seed).fit_transform(X)
    ridge = len(X) * 1e-5
    inverse = np.linalg.inv(z.T.astype(float) @ z + ridge * np.eye(z.shape[1]))
    scores = np.maximum(np.einsum("ij,jk,ik->i", z, inverse, z, optimize=True), 0.0)
    return X[random.choice(len(X), budget, replace=False, p=scores / scores.sum())]


def start(kind: str, X: np.ndarray, y: np.ndarray, budget: int, gamma: float, seed: int) -> Any:
    random = np.random.default_rng(seed)
    if kind == "random":
        return on_landmarks(X[random.choice(len(X), budget, replace=False)], np.unique(y), gamma)
    if kind == "k-means":
        means = MiniBatchKMeans(budget, random_state=seed, n_init=1, batch_size=4096).fit(X)
        return on_landmarks(means.cluster_centers_.astype(X.dtype), np.unique(y), gamma)
    if kind == "leverage":
        return on_landmarks(leveraged(X, budget, gamma, seed), np.unique(y), gamma)
    return placed(X, y, budget, gamma, seed, {"one pass": 1, "five passes": 5}[kind])


def landmarks() -> None:
    for name, budget, gammas, alphas, orders in CELLS:
        data = load(SETS, name)
        if data is None:
            continue
        X, y, X_test, y_test = data
        d = X.shape[1]
        for kind in ("one pass", "five passes", "random", "k-means", "leverage"):
            if name == "mnist" and kind == "leverage":
                continue  # Its features would take 1 GB.
            best = (0.0, 0.0, 0.0)
            for c in gammas:
                model = start(kind, X, y, budget, c / d, 0)
                for alpha in alphas:
                    best = max(best, (model.refit(X, y, alpha=alpha).score(X_test, y_test), c, alpha))
            right = [best[0]]
            for seed in range(1, orders):
                model = start(kind, X, y, budget, best[1] / d, seed).refit(X, y, alpha=best[2])
                right.append(model.score(X_test, y_test))
            setting = f"B={budget} {kind} gamma={best[1]}/d alpha={best[2]}"
            row("landmarks", name, setting, 100.0 * float(np.mean(right)), 100.0 * float(np.std(right)))


def rounds() -> None:
    for name, budget, c, alpha in (
        ("letter", 100, 1, 1e-5), ("usps", 500, 1, 3e-5), ("covtype15k", 500, 4, 1e-5), ("checkerboard 100k", 100, 8, 1e-6)
    ):
        if (data := load(SETS, name)) is None:
            continue
        X, y, X_test, y_test = data
        for kind, params in (
            ("one pass", {}),
            ("five passes", {"max_iter": 5}),
            ("five rounds", {"refine_rounds": 5}),
            ("one pass, last iterate", {"average": False}),
            ("one pass, projection", {"maintenance": "project"}),
        ):
            right = []
            for seed in range(5):
                model = papers_kernel(
                    gamma=c / X.shape[1], budget=budget, alpha=alpha, tol=TOL, random_state=seed, **params
                )
                right.append(100.0 * model.fit(X, y).score(X_test, y_test))
            setting = f"B={budget} {kind} gamma={c}/d alpha={alpha}"
            row("rounds", name, setting, float(np.mean(right)), float(np.std(right)))


def timed(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    start = time.perf_counter()
    model.fit(X, y)
    return time.perf_counter() - start


def times() -> None:
    if (data := load(SETS, "letter")) is None:
        return
    X, y, X_test, y_test = data
    d = X.shape[1]

    def ours(budget: int, c: float, alpha: float) -> Any:
        return papers_kernel(gamma=c / d, budget=budget, alpha=alpha, tol=TOL, random_state=0)

    for setting, model in (
        ("ours B=500 gamma=2/d alpha=1e-05", ours(500, 2, 1e-5)),
        *(
            (
                f"Nystroem(500) gamma={c}/d + LinearSVC(C={C})",
                make_pipeline(Nystroem(gamma=c / d, n_components=500, random_state=0), LinearSVC(C=C)),
            )
            for c in (1, 2)
            for C in (1, 10)
        ),
        ("ours B=2000 gamma=4/d alpha=3e-05", ours(2000, 4, 3e-5)),
        *((f"SVC(C=10) gamma={c}/d", SVC(C=10, gamma=c / d)) for c in (2, 4)),
    ):
        seconds = timed(model, X, y)
        last = model[-1] if hasattr(model, "steps") else model
        size = len(last.support_vectors_) if hasattr(last, "support_vectors_") else 500
        row("time", "letter", f"{setting} (seconds; accuracy; vectors)", seconds, 100.0 * model.score(X_test, y_test), size)
    for budget, c in ((100, 1), (500, 2)):
        alphas = np.geomspace(1e-3, 1e-5, 10)
        spent = []
        for these in (alphas, alphas[-1]):
            start = time.perf_counter()
            placed(X, y, budget, c / d, 0, 1).refit(X, y, alpha=these)
            spent.append(time.perf_counter() - start)
        row("time", "letter", f"ten alphas over the last alone B={budget} (seconds; ratio)", *spent, spent[0] / spent[1])


def size() -> None:
    for name, c, alpha in (("letter", 2, 1e-5), ("usps", 1, 3e-5)):
        if (data := load(SETS, name)) is None:
            continue
        X, y, X_test, y_test = data
        gamma = c / X.shape[1]
        for budget in (50, 100, 200, 500, 1000, 2000):
            for kind in ("five passes", "random"):
                model = start(kind, X, y, budget, gamma, 0).refit(X, y, alpha=alpha)
                row("size", name, f"{kind}", budget, 100.0 * model.score(X_test, y_test))
            plain = placed(X, y, budget, gamma, 0, 5)
            row("size", name, "five passes without refit", budget, 100.0 * plain.score(X_test, y_test))
        exact = SVC(C=10, gamma=gamma).fit(X, y)
        row("size", name, "SVC", len(exact.support_vectors_), 100.0 * exact.score(X_test, y_test))


def main() -> None:
    # What a rough refit leaves is measured by its accuracy.
    warnings.simplefilter("ignore", ConvergenceWarning)
    # Landmarks get classes in turn, be they ever so few.
    warnings.filterwarnings("ignore", "The number of unique classes")
    parts = {"landmarks": landmarks, "rounds": rounds, "time": times, "size": size}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="part", help=f"{', '.join(parts)}; all by default")
    chosen = parser.parse_args().parts or [*parts]
    if unknown := sorted({*chosen} - {*parts}):
        parser.error(f"there is no part {', '.join(unknown)}")
    head(" ".join(["benches/refit.py", *sys.argv[1:]]), "part,data,setting,figures")
    for part in chosen:
        parts[part]()


if __name__ == "__main__":
    main()
