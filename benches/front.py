"""Accuracy against training time and against model size: ours beside scikit-learn's machines, on every data set.

    python benches/front.py --full

Every family of machines has its settings: sizes, epochs or tolerances, from the cheapest sensible one to the dearest.
The rest (gamma, then alpha or C; for each loss its own) is chosen on a fifth of the rows to train on, held out, by
machines trained on some thousands of the other rows (linear ones on sparse data: on all), by going up and down a grid
and half a step around the best. What was best is then fitted with every setting, on all rows, one thread for everyone.
Dearer settings than one that takes half a minute (of what is exact: five) are not run, and named. Columns:

* family, setting: which machine, and which point of its curve.
* chosen: what was chosen on held-out rows.
* seconds: of the processor, one thread, in `fit` as a user calls it; the median of as many as take two seconds, nine
  at most.
* numbers: how many numbers the model consists of (coefficients and vectors; of sparse vectors, what is not zero).
* microseconds: to predict one row, of two thousand at once.
* accuracy: on the test rows, in %; and the deviation that so many test rows leave it.

SVC is exact and takes a time that grows with the square of the rows, or faster. Where there are more than 60,000, it is
given the first 20,000, and all where these take so little time that all would take half a minute; so are some of
ours. So is, where it is installed, the SVC of scikit-learn-intelex. Boosted trees stand beside them where rows are dense:
scikit-learn's and, where it is installed, LightGBM.
"""

from __future__ import annotations

import one_thread  # noqa: F401, I001 before NumPy

import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, LinearSVC

from harness import begin, load, papers_kernel, Run
from pegasos import KernelPegasosClassifier, PegasosClassifier
from pegasos.datasets import make_checkerboard, make_waveform
from problems import SETS, Split, generated, split, table

LGBMClassifier: Any = None
with suppress(ImportError):
    LGBMClassifier = import_module("lightgbm").LGBMClassifier

IntelSVC: Any = None
with suppress(ImportError):
    IntelSVC = import_module("sklearnex.svm").SVC

Choice = dict[str, Any]


class Family(NamedTuple):
    """Machines that differ in a setting, and what has to be chosen for all of them."""

    name: str
    make: Callable[..., Any]
    settings: dict[str, Choice]
    probe: Choice
    choices: dict[str, tuple[Any, ...]]
    rows: int  # to choose with
    patience: float = 30.0  # seconds; what is dearer than a setting that takes longer is not run


class Wrapped(ClassifierMixin, BaseEstimator):
    """An estimator that is not fitted just as it stands."""

    def _fit(self, estimator: Any, X: Any, y: np.ndarray) -> Any:
        self.estimator_ = estimator.fit(X, y)
        self.classes_ = self.estimator_.classes_
        return self

    def predict(self, X: Any) -> np.ndarray:
        return self.estimator_.predict(X)


class FirstRows(Wrapped):
    """An estimator that is given the first rows only."""

    def __init__(self, estimator: Any, rows: int) -> None:
        self.estimator = estimator
        self.rows = rows

    def fit(self, X: Any, y: np.ndarray) -> FirstRows:
        return self._fit(clone(self.estimator), X[: self.rows], y[: self.rows])


class PerRow(Wrapped):
    """A machine of ours whose alpha is 1/(C n) for the n rows that it is given, as SVC would have it."""

    def __init__(self, estimator: Any, C: float) -> None:
        self.estimator = estimator
        self.C = C

    def fit(self, X: Any, y: np.ndarray) -> PerRow:
        return self._fit(clone(self.estimator).set_params(alpha=1.0 / (self.C * len(y))), X, y)


def nystroem(n_components: int, gamma: float, last: Callable[..., Any], **params: Any) -> Any:
    return make_pipeline(Nystroem(gamma=gamma, n_components=n_components, random_state=0), last(**params))


def per_row(C: float, rows: int | None = None, **params: Any) -> Any:
    machine = PerRow(papers_kernel(random_state=0, **params), C)
    return FirstRows(machine, rows) if rows else machine


def first_svc(rows: int | None = None, of: Any = SVC, **params: Any) -> Any:
    machine = of(cache_size=1000, **params)
    return FirstRows(machine, rows) if rows else machine


def linear_families(n_classes: int, sparse: bool) -> list[Family]:
    # Where there are more features than rows, the best alpha depends on how many rows there are.
    rows = 1_000_000 if sparse else 20_000
    strengths = dict(alpha=tuple(10.0 ** -np.arange(2, 8)))
    ours: dict[str, Choice] = {loss: dict(loss=loss) for loss in ("hinge", "squared_hinge", "log_loss")}
    if n_classes > 2:
        # By name, whatever the defaults are.
        ours = {loss: dict(loss=loss, multi_class="ovr") for loss in ours}
        ours["Crammer-Singer"] = dict(loss="hinge", multi_class="crammer_singer")
    one = dict(max_iter=1, tol=None, solver="pegasos")
    families = [
        Family(
            "PegasosClassifier", partial(PegasosClassifier, random_state=0, **loss),
            {
                f"{name}, an epoch": one | dict(sampling="blocks"),
                f"{name}, an epoch, averaged": one | dict(average="polynomial"),
                f"{name}, five epochs, averaged": one | dict(max_iter=5, average="polynomial"),
                f"{name}, twenty epochs, averaged": one | dict(max_iter=20, average="polynomial"),
                f"{name}, tol=0.1": dict(tol=0.1),
                f"{name}, tol=0.01": dict(tol=0.01),
                f"{name}, tol=0.001": dict(tol=0.001, max_iter=1000),
            },
            dict(tol=0.01), strengths, rows,
        )
        for name, loss in ours.items()
    ]
    families += [
        Family(
            "SGDClassifier", partial(SGDClassifier, random_state=0, loss=loss),
            {
                f"{loss}, an epoch": dict(max_iter=1, tol=None),
                f"{loss}, five epochs": dict(max_iter=5, tol=None),
                f"{loss}, five epochs, averaged": dict(max_iter=5, tol=None, average=True),
                f"{loss}, twenty epochs": dict(max_iter=20, tol=None),
                f"{loss}, twenty epochs, averaged": dict(max_iter=20, tol=None, average=True),
                f"{loss}, default": {},
            },
            dict(max_iter=10, tol=None), strengths, rows,
        )
        for loss in ("hinge", "log_loss")
    ]
    families += [
        Family(
            "LinearSVC", partial(LinearSVC, random_state=0, loss=loss),
            {
                f"{loss}, tol=1": dict(tol=1.0),
                f"{loss}, tol=0.1": dict(tol=0.1),
                f"{loss}, tol=0.01": dict(tol=0.01),
                f"{loss}, default": {},
            },
            dict(tol=0.01), dict(C=(0.001, 0.01, 0.1, 1.0, 10.0)), rows,
        )
        for loss in ("hinge", "squared_hinge")
    ]
    return families


def kernel_families(run: Run, n: int, n_classes: int, scale: float, sparse: bool) -> list[Family]:
    gammas, strengths = tuple(scale * c for c in (0.25, 1.0, 4.0, 16.0)), tuple(10.0 ** np.arange(-2, 5))
    # Kernel values of long sparse rows are dear.
    rows = run.pick(quick=500, full=2000 if sparse else 8000, tiny=300)
    sizes = run.pick(quick=(20, 100, 300), full=(20, 50, 100, 200, 500, 1000, 2000, 4000), tiny=(20,))
    if n < 50_000:
        sizes = sizes[:7]
    components = run.pick(quick=(50, 200), full=(20, 100, 500, 2000), tiny=(20,))
    if n > 200_000:
        components = components[:3]
    budget = partial(papers_kernel, random_state=0)
    refitted: dict[str, Choice] = {f"B={B}": dict(budget=B, tol=0.01) for B in sizes}
    to_a_gap: dict[str, Choice] = {f"tol={tol}": dict(solver="auto", tol=tol) for tol in (0.1, 0.01)}
    exact_peer: dict[str, Choice] = {"": {}}
    if n > 60_000:
        few = dict(rows=20_000)
        refitted = {f"B={B} of 20,000 rows": few | dict(budget=B, tol=0.01) for B in (50, 100, 200)} | refitted
        to_a_gap = {"tol=0.01 of 20,000 rows": few | to_a_gap["tol=0.01"]} | to_a_gap
        exact_peer = {"of 20,000 rows": few} | exact_peer
    exact = Family(
        "KernelPegasosClassifier, to a gap", per_row, to_a_gap,
        # Joint dual ascent of several classes takes minutes where C is larger.
        dict(solver="auto", tol=0.1), dict(gamma=gammas, C=strengths if n_classes == 2 else strengths[1:4]), rows,
        patience=300.0,
    )
    pairs = Family(
        "KernelPegasosClassifier, pairs to a gap", per_row,
        {f"tol={tol}": dict(multi_class="ovo", solver="auto", tol=tol) for tol in (0.1, 0.01)},
        dict(multi_class="ovo", solver="auto", tol=0.1), dict(gamma=gammas, C=strengths), rows, patience=300.0,
    )
    plain = dict(tol=None, refine=False)
    sgd = dict(last=SGDClassifier, max_iter=5, tol=None, random_state=0)
    families = []
    if not sparse:
        families = [
            Family(
                "on a budget", budget, {f"B={B}": plain | dict(budget=B) for B in sizes},
                plain | dict(budget=min(200, rows // 4)), dict(gamma=gammas, alpha=(1e-3, 1e-4, 1e-5)), rows,
            ),
            Family(
                "on a budget, refitted", per_row, refitted,
                dict(budget=min(500, rows // 4), tol=0.05), dict(gamma=gammas, C=strengths), rows,
            ),
        ]
    if not sparse:
        # What else it chooses, it chooses by itself.
        learned: dict[str, Choice] = {f"B={B}": dict(budget=B, tol=0.01) for B in run.pick(
            quick=(100,), full=(100, 500, 2000), tiny=(20,)
        )}
        if n <= 20_000:
            learned["exact"] = dict(budget=None, tol=0.01)
        families.append(
            Family(
                "KernelPegasosClassifier, learned metric", partial(KernelPegasosClassifier, metric="auto", random_state=0),
                learned, {}, {}, rows, patience=300.0,
            )
        )
    return [
        *families,
        Family(
            "KernelPegasosClassifier", per_row,
            {
                "a pass": dict(tol=None, max_iter=1),
                "three passes": dict(tol=None, max_iter=3),
                "ten passes": dict(tol=None, max_iter=10),
            },
            dict(tol=None, max_iter=5), dict(gamma=gammas, C=strengths), rows,
        ),
        # Joint dual ascent of several classes takes long, and so does any with that many rows.
        *([exact] if n <= (100_000 if n_classes == 2 else 60_000) else []),
        *([pairs] if n_classes > 2 and n <= 60_000 else []),
        Family(
            "Nystroem + SGDClassifier", partial(nystroem, **sgd),
            {f"{m} components": dict(n_components=m) for m in components},
            dict(n_components=min(200, rows // 4)), dict(gamma=gammas, alpha=(1e-4, 1e-5, 1e-6)), rows,
        ),
        Family(
            "Nystroem + LinearSVC", partial(nystroem, last=LinearSVC),
            {f"{m} components": dict(n_components=m) for m in components if m <= 500},
            # Beyond these C LinearSVC is not done in its 1000 passes.
            dict(n_components=min(100, rows // 4)), dict(gamma=gammas, C=strengths[1:5]), rows // 2,
        ),
        *(
            Family(
                name, partial(first_svc, of=svc), exact_peer, {}, dict(gamma=gammas, C=strengths), rows,
                patience=30.0 * (20_000 / n) ** 2,
            )
            for name, svc in (("SVC", SVC), ("SVC of scikit-learn-intelex", IntelSVC))
            if svc is not None
        ),
    ]


def tree_families(run: Run) -> list[Family]:
    rounds = run.pick(quick=(20, 100), full=(20, 100, 300), tiny=(5,))
    rows = run.pick(quick=500, full=8000, tiny=300)
    rates = (0.02, 0.05, 0.1, 0.2)
    families = [
        Family(
            "HistGradientBoostingClassifier",
            partial(HistGradientBoostingClassifier, early_stopping=False, random_state=0),
            {f"{m} rounds": dict(max_iter=m) for m in rounds},
            dict(max_iter=rounds[min(1, len(rounds) - 1)]),
            dict(learning_rate=rates, max_leaf_nodes=(7, 15, 31, 63)), rows,
        )
    ]
    if LGBMClassifier is None:
        print("# missing: LightGBM (pip install lightgbm)")
    else:
        families.append(
            Family(
                "LGBMClassifier", partial(LGBMClassifier, n_jobs=1, random_state=0, verbose=-1),
                {f"{m} rounds": dict(n_estimators=m) for m in rounds},
                dict(n_estimators=rounds[min(1, len(rounds) - 1)]),
                dict(learning_rate=rates, num_leaves=(7, 15, 31, 63)), rows,
            )
        )
    return families


def choose(family: Family, X: Any, y: np.ndarray, X_held: Any, y_held: np.ndarray) -> Choice:
    """The best choice, by held-out rows.

    One thing at a time: from the middle of its values up and down, as long as that is no loss; then half a step up
    and down in the first of them.
    """
    if not family.choices:
        return {}
    X, y = X[: family.rows], y[: family.rows]
    found: list[tuple[float, Choice]] = []

    def judge(choice: Choice) -> float:
        for right, other in found:
            if other == choice:
                return right
        model = family.make(**family.probe, **choice).fit(X, y)
        found.append((float(np.mean(model.predict(X_held) == y_held)), choice))
        return found[-1][0]

    def best() -> Choice:
        return max(found, key=lambda pair: pair[0])[1]

    known = {name: values[len(values) // 2] for name, values in family.choices.items()}
    for name, values in family.choices.items():
        middle = len(values) // 2
        for way in (values[middle:], values[middle::-1]):
            last = 0.0
            for value in way:
                if (right := judge(known | {name: value})) < last:
                    break
                last = right
        known = best()
    first, (one, other, *_) = next(iter(family.choices.items()))
    half = (other / one) ** 0.5
    for factor in (1.0 / half, half):
        judge(known | {first: known[first] * factor})
    return best()


def size(model: Any) -> int:
    """How many numbers a model consists of."""
    if hasattr(model, "steps"):
        return sum(size(part) for _, part in model.steps)
    if isinstance(model, Wrapped):
        return size(model.estimator_)
    if hasattr(model, "_predictors"):
        # Of a tree a feature and a threshold for every fork, a value for every leaf.
        return sum(3 * tree.get_n_leaf_nodes() - 2 for trees in model._predictors for tree in trees)
    if hasattr(model, "booster_"):
        return sum(3 * tree["num_leaves"] - 2 for tree in model.booster_.dump_model()["tree_info"])
    if hasattr(model, "support_vectors_"):
        parts = ["support_vectors_", "dual_coef_", "metric_"]
    else:
        parts = ["coef_", "intercept_", "components_", "normalization_"]
    arrays = (getattr(model, part) for part in parts if hasattr(model, part))
    return sum(array.nnz if sp.issparse(array) else np.size(array) for array in arrays)


def measured(run: Run, name: str, family: Family, setting: str, choice: Choice, data: Split) -> float:
    """A row, and the seconds in it."""
    X, y, X_test, y_test = data
    make = partial(family.make, **family.settings[setting], **choice)
    times: list[float] = []
    while not times or (len(times) < 9 and sum(times) < 2.0):
        model = make()
        start = time.process_time()
        model.fit(X, y)
        times.append(time.process_time() - start)
    some = X_test[:2000]
    start = time.process_time()
    model.predict(some)
    per_row = (time.process_time() - start) / some.shape[0] * 1e6
    right = float(np.mean(model.predict(X_test) == y_test))
    deviation = np.sqrt(right * (1.0 - right) / len(y_test))
    chosen = " ".join(
        f"{key}={value:.3g}" if isinstance(value, float) else f"{key}={value}" for key, value in choice.items()
    )
    run.row(
        name, len(y), family.name, setting, chosen, float(np.median(times)), size(model), per_row,
        100.0 * right, 100.0 * float(deviation),
    )
    return times[0]


def compare(run: Run, name: str, data: Split) -> None:
    X, y, X_test, y_test = data
    rows = run.pick(quick=2000, full=len(y), tiny=400)
    if rows < len(y):
        X, y, X_test, y_test = X[:rows], y[:rows], X_test[:rows], y_test[:rows]
    n, sparse = len(y), sp.issparse(X)
    X_rest, X_held, y_rest, y_held = train_test_split(X, y, test_size=0.2, random_state=0)
    # What SVC and our machines call gamma="scale".
    variance = X.multiply(X).mean() - X.mean() ** 2 if sparse else X.var(dtype=np.float64)
    scale = 1.0 / (X.shape[1] * float(variance))
    n_classes = len(np.unique(y))
    families = linear_families(n_classes, sparse) + kernel_families(run, n, n_classes, scale, sparse)
    if not sparse:
        families += tree_families(run)
    if sparse and n > 100_000:
        families = [family for family in families if family.name != "KernelPegasosClassifier"]
    for family in families:
        # Labels of as many rows as it is chosen with tell well enough.
        held = X_held[: family.rows], y_held[: family.rows]
        choice = choose(family, X_rest, y_rest, *held)
        for setting in family.settings:
            took = measured(run, name, family, setting, choice, (X, y, X_test, y_test))
            dearer = setting != list(family.settings)[-1]
            if dearer and took > family.patience:
                print(f"# not run: {name}, {family.name}, what comes after {setting!r}, which took {took:.0f} s")
                break


def problems(run: Run) -> dict[str, Callable[[], Split]]:
    """The data sets; generated ones with so many rows to test on that noise is below a tenth of a point."""
    n_test = run.pick(quick=10_000, full=400_000, tiny=1000)
    return {
        "letter": SETS["letter"],
        "usps": SETS["usps [0,1]"],
        "covtype15k": SETS["covtype15k"],
        "news20": SETS["news20"],
        "a9a": SETS["a9a {0,1}"],
        "mnist": SETS["mnist [0,1]"],
        "waveform": lambda: generated(make_waveform, 100_000, n_test),
        "checkerboard": lambda: generated(make_checkerboard, 100_000, n_test),
        "table": lambda: split(*table(500_000 + n_test), 500_000),
        "words": SETS["words"],
    }


def main() -> None:
    # A peer that does not get to its tolerance in its default number of steps is a point all the same.
    warnings.simplefilter("ignore", ConvergenceWarning)
    # Nor one whose budget is smaller than the number of classes.
    warnings.filterwarnings("ignore", "there are .* classes, but the support vectors span")
    run = begin(__doc__, "data,rows,family,setting,chosen,seconds,numbers,microseconds,accuracy,deviation")
    sets = problems(run)
    for name in run.wanted(sets if run.size != "tiny" else ["checkerboard"]):
        if (data := load(sets, name)) is not None:
            compare(run, name, data)


if __name__ == "__main__":
    main()
