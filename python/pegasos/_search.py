"""Cross-validation that shares all it can: what the tuned estimators search with.

A `Space` is one fold's problem with one gamma, for all alphas: in features of the rows, which are their own or those that the
fold's own support vectors span, or without a budget. Nothing of a fold's model comes from the rows that are held out.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin

from pegasos._calibration import Calibration
from pegasos._callbacks import Stopped, Tasks
from pegasos._core import Refit
from pegasos._data import Data, as_data, rows_of
from pegasos._progress import NoBar
from pegasos._refit import ROUGH_PATH, larger_alphas
from pegasos._run import Run
from pegasos._threads import thread_count
from pegasos._unlimited import Unlimited

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pegasos._kernel import KernelPegasosClassifier
    from pegasos._linear import PegasosClassifier

#: How often threads look whether somebody wants to stop.
_LOOK = 0.1


class Fold(NamedTuple):
    """The numbers of the rows that a model learns from, and of those that it is scored by."""

    train: np.ndarray
    test: np.ndarray


class Key(NamedTuple):
    """A model of the grid; gamma is 0 where there is none."""

    gamma: float
    alpha: float


@dataclass
class Cell:
    """What is known of one model of the grid: of each fold its score, the scores of its rows, and the time that it took."""

    scores: dict[int, float] = field(default_factory=dict)
    held_out: dict[int, np.ndarray] = field(default_factory=dict)
    times: dict[int, float] = field(default_factory=dict)

    @property
    def mean(self) -> float:
        return float(np.mean(list(self.scores.values())))


class Cancelled(Exception):
    """Somebody wants to stop."""


class Space(ABC):
    """One fold's problem with one gamma, for one alpha after another."""

    fold: Fold
    outputs: int

    @abstractmethod
    def solve(self, alpha: float, tol: float, seed: int, progress: Callable[..., object]) -> None:
        """Finds the model of this alpha."""

    @abstractmethod
    def scores(self) -> np.ndarray:
        """What the last model gives the rows that are held out, (n_test, outputs)."""

    def come_to(self, alphas: list[float], tol: float, seed: int, progress: Callable[..., object]) -> None:
        """Goes where another one was after these alphas."""
        for alpha in alphas:
            progress()
            self.solve(alpha, tol, seed, progress)


class Features(Space):
    """The problem in one set of features, those of the rows or of support vectors: each alpha from where the last has ended."""

    def __init__(self, solver: Refit | None, data: Data, fold: Fold, outputs: int) -> None:
        weight = np.zeros(data.n)
        # As often as a splitter names them.
        np.add.at(weight, fold.train, 1.0)
        if data.weight is not None:
            weight *= data.weight
        _check_learns(weight)
        self.solver, self.data, self.fold, self.outputs = solver, data, fold, outputs
        self.own = data.weighted(weight)
        #: That of the dual point at hand; of none, which is where it begins, 0.
        self.alpha = 0.0

    def solve(self, alpha: float, tol: float, seed: int, progress: Callable[..., object]) -> None:
        # From nothing, if it is larger than the last.
        anew = alpha > self.alpha
        self.alpha = alpha
        if self.solver is None:
            return
        n = len(self.fold.train)
        way = [(larger, max(tol, ROUGH_PATH)) for larger in larger_alphas(alpha, n)] if anew else []
        for step, gap in [*way, (alpha, tol)]:
            # The mean loss is over the rows of the part, while the solver counts all.
            self.solver.set_alpha(step * n / self.data.n, anew=anew)
            self.solver.solve(self.own.examples, gap, seed, threads=1, progress=progress)
            anew = False

    def scores(self) -> np.ndarray:
        test = np.asarray(self.fold.test, np.int64)
        if self.solver is None:
            return np.zeros((len(test), self.outputs))
        return self.solver.scores(self.data.examples, test, threads=1).reshape(len(test), -1)


class Exact(Space):
    """The problem without a budget: each alpha a fit of its own, which nothing else could go on from."""

    def __init__(self, model: KernelPegasosClassifier, data: Data, n_classes: int, outputs: int, fold: Fold) -> None:
        self.model, self.n_classes, self.outputs, self.fold = model, n_classes, outputs, fold
        self.data, self.own = data, data.take(fold.train)
        if self.own.weight is not None:
            _check_learns(self.own.weight)
        self._run: Run | None = None

    def solve(self, alpha: float, tol: float, seed: int, progress: Callable[..., object]) -> None:
        model = self.model.set_params(alpha=alpha, tol=tol)
        model._decided = model._decide(self.own, self.n_classes, stream=False)
        run = Run(model._make_trainer(self.own, self.n_classes), seed, 0)
        fit, _ = Unlimited(model).begin(run, self.own, certify=True)
        while fit.epoch(progress):
            pass
        run.end()
        self._run = run

    def scores(self) -> np.ndarray:
        assert self._run is not None
        rows = as_data(rows_of(self.data.X, np.asarray(self.fold.test, np.int64)))
        flat = self._run.trainer.scores(rows.examples, threads=thread_count(self.model.n_jobs))
        return flat.reshape(rows.n, self.outputs)

    def come_to(self, alphas: list[float], tol: float, seed: int, progress: Callable[..., object]) -> None:
        """No model knows of another."""


def _check_learns(weight: np.ndarray) -> None:
    if not weight.any():
        raise ValueError("sample_weight must be > 0 somewhere in the training part of every split")


def linear_solver(model: PegasosClassifier, data: Data, n_classes: int, alpha: float) -> Refit:
    """What solves linear problems for one alpha after another."""
    # Of one row, as nothing is learned by it: it knows what there is to learn.
    row = as_data(rows_of(data.X, np.arange(1)), data.codes[:1])
    made = model._make_trainer(row, n_classes).made
    assert made.targets is not None
    n_features = int(data.X.shape[1])
    return Refit.linear(
        data.n, n_features, issparse(data.X), made.targets, made.dtype, model._constant(), model.loss, alpha
    )


def linear_space(model: PegasosClassifier, data: Data, n_classes: int, fold: Fold, alpha: float) -> Features:
    """The space of the rows' own features."""
    outputs = 1 if n_classes == 2 else n_classes
    return Features(linear_solver(model, data, n_classes, alpha), data, fold, outputs)


def kernel_space(
    model: KernelPegasosClassifier,
    data: Data,
    n_classes: int,
    outputs: int,
    fold: Fold,
    alpha: float,
    cache: int,
    seed: int,
    progress: Callable[[int, int], object],
) -> Features:
    """The space that support vectors span which one pass over a fold's rows has placed."""
    trainer = model._make_trainer(data, n_classes)
    run = Run(trainer, seed, 0)
    order = np.random.RandomState(seed % 2**32).permutation(np.unique(fold.train)).astype(np.int64)
    fit = run.begin(data, order, threads=1)
    while fit.epoch(progress):
        pass
    run.end()
    solver = None
    if trainer.facts.spans:
        solver = Refit(trainer, data.n, alpha, cache, model.multi_class, threads=1)
    return Features(solver, data, fold, outputs)


class Held(ClassifierMixin, BaseEstimator):
    """An estimator that knows the scores of some rows, for scorers to ask about these."""

    def __init__(self, classes: Any, votes: Any, probabilities: Callable[[], np.ndarray]) -> None:
        self.classes, self.votes, self.probabilities = classes, votes, probabilities
        self.classes_ = classes

    def decision_function(self, X: Any) -> np.ndarray:
        """The scores, whatever X is."""
        found: np.ndarray = self.votes
        return found

    def predict(self, X: Any) -> np.ndarray:
        """The classes."""
        found: np.ndarray = self.classes[chosen(self.votes)]
        return found

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities."""
        return self.probabilities()


def chosen(votes: np.ndarray) -> np.ndarray:
    """The numbers of the classes that scores speak for."""
    return votes.argmax(axis=1) if votes.ndim == 2 else (votes > 0).astype(np.intp)


def crossed(
    method: str, scores: np.ndarray, codes: np.ndarray, n_classes: int, pairs: bool, weight: np.ndarray | None = None
) -> np.ndarray:
    """Probabilities of rows that a fold holds out, each half calibrated by the other."""
    found = np.empty((len(codes), n_classes))
    # Evenly, of every class: rows may be sorted in any way.
    halves = np.empty(len(codes), np.intp)
    halves[np.argsort(codes, kind="stable")] = np.arange(len(codes)) % 2
    for half in (0, 1):
        learn, apply = halves != half, halves == half
        own = None if weight is None else weight[learn]
        calibration = Calibration.of(method, scores[learn], codes[learn], n_classes, own, pairs=pairs)
        found[apply] = calibration.probabilities(scores[apply])
    return found


@dataclass
class Search:
    """Cells of a grid, and how to fill them."""

    data: Data
    folds: list[Fold]
    #: A space, given gamma, fold, the largest alpha, and what is told of progress.
    space: Callable[[float, Fold, float, Callable[..., object]], Space]
    #: The score of a model, given a fold, and scores of the rows that it holds out.
    measure: Callable[[Fold, np.ndarray], float]
    tol: float
    seed: int
    threads: int
    bar: NoBar
    #: The search as callbacks are told of it.
    tasks: Tasks
    #: How many spaces may be kept for other alphas.
    most_kept: int = 0
    #: Whether a callback may end it, as there is a model to be made of what is known then.
    may_stop: bool = False
    cells: dict[Key, Cell] = field(default_factory=dict)
    _kept: dict[tuple[float, int], Space] = field(default_factory=dict)
    #: The alphas that led to where each of them is, or was.
    _solved: dict[tuple[float, int], list[float]] = field(default_factory=dict)

    def run(self, jobs: Iterable[tuple[float, int, list[float]]]) -> None:
        """Fills cells: of each job those of a gamma and a fold, for these alphas, on so many jobs at a time as there are threads."""
        wanted = []
        for gamma, k, alphas in jobs:
            left = [a for a in sorted(alphas, reverse=True) if k not in self.cell(gamma, a).scores]
            if left:
                wanted.append((gamma, k, left))
        stop, lock = Event(), Lock()

        def work(gamma: float, k: int, alphas: list[float]) -> list[tuple[Key, int, float, np.ndarray]]:
            def look(*_: object) -> None:
                if stop.is_set():
                    raise Cancelled

            found, fold = [], self.folds[k]
            begun = time.perf_counter()
            space, before = self._kept.pop((gamma, k), None), self._solved.get((gamma, k), [])
            if before and alphas[0] > before[-1]:
                before = []
            if space is None:
                space = self.space(gamma, fold, alphas[0], look)
                # Which ones there is room for depends on the threads, and on which of them was first: no bit of a result shall.
                space.come_to(before, self.tol, self.seed, look)
            for alpha in alphas:
                look()
                space.solve(alpha, self.tol, self.seed, look)
                scores, now = space.scores(), time.perf_counter()
                found.append((Key(gamma, alpha), k, now - begun, scores))
                begun = now
            with lock:
                self._solved[gamma, k] = [*before, *alphas]
                self._kept[gamma, k] = space
                while len(self._kept) > self.most_kept:
                    self._kept.pop(next(iter(self._kept)))
            return found

        with ThreadPoolExecutor(max_workers=self.threads) as pool:
            parts = {pool.submit(work, *job): self.tasks.part(f"fold {job[1]}") for job in wanted}
            going_on = set(parts)
            try:
                while going_on:
                    done, going_on = wait(going_on, _LOOK, FIRST_EXCEPTION)
                    for job in done:
                        for key, which, took, scores in job.result():
                            # Here, as scorers may be anybody's, and scikit-learn's settings are those of this thread.
                            score = self.measure(self.folds[which], scores)
                            if not np.isfinite(score):
                                raise ValueError(f"scoring must give finite numbers, got {score} for alpha={key.alpha:.3g}")
                            cell = self.cell(*key)
                            cell.scores[which], cell.times[which], cell.held_out[which] = score, took, scores
                            self._tell(key)
                        if parts[job].over() and self.may_stop:
                            raise Stopped
            except BaseException:
                stop.set()
                for job in going_on:
                    job.cancel()
                raise

    def cell(self, gamma: float, alpha: float) -> Cell:
        """What is known of a model."""
        return self.cells.setdefault(Key(gamma, alpha), Cell())

    def _tell(self, key: Key) -> None:
        if not self.bar.shows:
            return
        best = max(cell.mean for cell in self.cells.values() if cell.scores)
        where = {"gamma": f"{key.gamma:.3g}"} if key.gamma else {}
        self.bar.tell(**where, alpha=f"{key.alpha:.3g}", best=f"{best:.4f}")
        self.bar.update(1)

    def best(self, folds: Iterable[int], keys: Iterable[Key] | None = None) -> Key:
        """The best model by the mean over these folds, among those that are scored by all of them; of equals the one with the
        larger alpha, and the smaller gamma."""
        folds = list(folds)
        found = [key for key in (self.cells if keys is None else keys) if self.knows(key, folds)]
        return max(found, key=lambda key: (self.mean(key, folds), key.alpha, -key.gamma))

    def knows(self, key: Key, folds: Iterable[int]) -> bool:
        """Whether a model is scored by all of these folds."""
        cell = self.cells.get(key)
        return cell is not None and all(k in cell.scores for k in folds)

    def mean(self, key: Key, folds: Iterable[int]) -> float:
        """A model's mean score by these folds."""
        return float(np.mean([self.cells[key].scores[k] for k in folds]))
