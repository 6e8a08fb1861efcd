"""What folds gain by support vectors that rows they hold out have helped to place: why each fold places its own.

    python benches/leak.py [--full] [DATA ...]

Accuracy of five-fold cross-validation on a budget with refit, at one gamma and two alphas, when one pass over all rows has
placed the support vectors of all folds, and when each fold has placed its own, by its own rows. The coefficients are the
fold's own in both. One thread, though nothing is timed.
"""

import one_thread  # noqa: F401 - before NumPy

from collections.abc import Callable

import harness
import numpy as np
from problems import Split, given, scaled, split, standardised
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedKFold

from pegasos import KernelPegasosClassifier
from pegasos._data import as_data, encode
from pegasos._search import Features, Fold, chosen, kernel_space


def digits() -> Split:
    X, y = load_digits(return_X_y=True)
    return split((X / 16.0).astype(np.float32), y, 1797)


def first(data: Split, n: int) -> Split:
    X, y, X_test, y_test = data
    return X[:n], y[:n], X_test, y_test


#: Rows, budget, gamma.
SETS: dict[str, tuple[Callable[[], Split], int, float]] = {
    "digits": (digits, 100, 0.25),
    "usps": (lambda: given("usps"), 500, 0.03),
    "letter": (lambda: standardised(*given("letter")), 500, 0.12),
    "covtype15k": (lambda: standardised(*given("covtype15k")), 500, 0.04),
    "a9a": (lambda: scaled("a9a", 1.0), 500, 0.03),
    "mnist10k": (lambda: first(scaled("mnist", 255.0), 10_000), 500, 0.03),
}

ALPHAS = (1e-4, 1e-5)


def accuracies(X: np.ndarray, y: np.ndarray, budget: int, gamma: float, *, shared: bool) -> list[float]:
    """Of all folds, for each alpha."""
    _, codes = encode(y)
    data, n, n_classes = as_data(X, codes), len(y), int(codes.max()) + 1
    outputs = 1 if n_classes == 2 else n_classes
    model = KernelPegasosClassifier(
        gamma=gamma, alpha=1e-4, budget=budget, multi_class="crammer_singer", random_state=0, n_jobs=1
    )
    model._decided = model._decide(data, n_classes, stream=False)
    right = np.zeros((len(ALPHAS), n))
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(X, codes):
        fold = Fold(train, test)
        placed_by = Fold(np.arange(n), test) if shared else fold
        space = kernel_space(
            model, data, n_classes, outputs, placed_by, ALPHAS[0], 2**30, 0, lambda *_: None
        )
        # Whoever has placed the vectors, the coefficients are by the fold's own rows.
        own = Features(space.solver, data, fold, outputs)
        for k, alpha in enumerate(ALPHAS):
            own.solve(alpha, 1e-2, 0, lambda *_: None)
            scores = own.scores()
            votes = scores[:, 0] if outputs == 1 else scores
            right[k, test] = chosen(votes) == codes[test]
    return [100.0 * float(of_alpha.mean()) for of_alpha in right]


def main() -> None:
    run = harness.begin(__doc__, "data,B,gamma,alpha,placed by all rows,placed by the fold's")
    names = run.pick(quick=["digits", "usps"], full=[*SETS], tiny=["digits"])
    for name in run.wanted(names):
        make, budget, gamma = SETS[name]
        data = harness.load({name: make}, name)
        if data is None:
            continue
        X, y, _, _ = data if run.size != "tiny" else first(data, 400)
        all_rows, own = (accuracies(X, y, budget, gamma, shared=shared) for shared in (True, False))
        for row in zip(ALPHAS, all_rows, own, strict=True):
            run.row(name, budget, gamma, *row)


if __name__ == "__main__":
    main()
