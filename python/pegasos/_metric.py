"""Machines that learn their metric: the map that rows go through before the kernel looks at them.

With ``z = A x`` the kernel ``exp(-gamma ||z - z'||^2)`` is ``exp(-gamma (x - x')' M (x - x'))``, ``M = A'A``. A round fits a
small machine on a budget, takes the mean outer product G of its scores' gradients, which in the features is ``A' G A``, and
makes the next A a power of that: A. Radhakrishnan, D. Beaglehole, P. Pandit, M. Belkin, "Mechanism for feature learning in
neural networks and backpropagation-free machine learning models" (Science 383, 2024), with a budget in place of a system of
as many equations as there are examples.
"""

from __future__ import annotations

import os
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.linalg import eigh, pinv, pinvh, qr
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted, check_random_state
from threadpoolctl import ThreadpoolController

from pegasos import _core
from pegasos._base import Interrupted
from pegasos._callbacks import unwatched
from pegasos._core import Trainer
from pegasos._data import Data, as_data, explaining, rows_of, scale_advice, with_stored
from pegasos._progress import say
from pegasos._refit import RefittedMachine
from pegasos._run import Run
from pegasos._threads import thread_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pegasos._stream import Stream

#: Rows that rounds look at, at most; every so many of a class's is held out.
_MOST_ROWS = 20_000
_EVERY = 5

#: Of how many of the others gradients are taken: of so many at least, if there are so many, and of more as long as that does
#: not take more multiplications than this, a tenth of a second or two.
_FEWEST_SLOPED, _MOST_WORK = 1000, 6e9

#: The largest budget of a round, its C, and the relative gap that will do.
_BUDGET, _C, _TOL = 1000, 8.0, 0.05

#: Powers of M that A may be: rounds go by the first, the others are tried where these have led.
_POWERS = (0.375, 0.25, 0.5)

#: After so many rounds without a gain there are no more.
_PATIENCE = 2

#: Gains, in standard deviations, that make another choice than the simpler one; and what a later round may lack: on the
#: whole they are better, and rows that are held out are few.
_SURE, _SLACK = 1.0, -0.5

#: By how much narrower a kernel is with a learned metric than with the plain one, to begin with, and at most: factors of
#: gamma. Mapped rows vary as much in all as they did before, but in fewer directions.
_WIDTH, _NARROWEST = 2.0, 32.0

#: The relative gap that will do to compare machines by.
_PROBE_TOL = 1e-2

#: Values of C of the machine that is asked for, where ``alpha="auto"``.
_CS = (8.0, 1.0)

#: More features than this have gradients in a space of fewer dimensions: that of so many gradients' strongest directions.
MOST_FEATURES = 2000
_STRONGEST = 500
_SOME_GRADIENTS = 1000

#: Rows that are mapped at a time for a prediction.
_WINDOW = 4096


#: Limits of others' threads are put back as they were found: not by two at a time.
_limiting = Lock()


def _anew() -> None:
    """In a forked child, where nobody is left to open it."""
    global _limiting
    _limiting = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_anew)


@contextmanager
def _one_thread() -> Iterator[None]:
    """For what NumPy and SciPy compute: their products have other last bits on more threads."""
    with _limiting, _libraries().limit(limits=1):
        yield


@cache
def _libraries() -> ThreadpoolController:
    """Those that NumPy and SciPy have loaded. To look for them takes milliseconds."""
    # Of no others, whose limits would be put back too.
    return ThreadpoolController().select(user_api="blas")


@dataclass(frozen=True)
class Metric:
    """A linear map of rows: factors of the features, (n_features,), or a matrix A, (dimension, n_features)."""

    map: np.ndarray
    #: What is to say of the scale of the features that it was learned from.
    advice: str | None = None
    #: What maps rows, by their dtype: made when first asked for.
    _compiled: dict[str, _core.Metric] = field(default_factory=dict, repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return Metric, (self.map, self.advice)

    @property
    def diagonal(self) -> bool:
        return self.map.ndim == 1

    @property
    def dimension(self) -> int:
        return len(self.map)

    @property
    def squared(self) -> np.ndarray:
        """M: its diagonal, (n_features,), or all of it."""
        if self.diagonal:
            found: np.ndarray = self.map**2
            return found
        with _one_thread():
            return self.map.T @ self.map

    def times(self, factor: float) -> Metric:
        """One of longer distances."""
        return Metric(self.map * factor, self.advice)

    def compiled(self, data: Data) -> _core.Metric:
        """What maps rows of such a dtype."""
        dtype = data.X.dtype.name
        if dtype not in self._compiled:
            values = np.ascontiguousarray(self.map).ravel()
            self._compiled[dtype] = _core.Metric(values, self.map.shape[-1], self.diagonal, dtype)
        return self._compiled[dtype]

    def mapped(self, data: Data, threads: int) -> Data:
        """The examples, mapped."""
        found = self.compiled(data).map(data.examples, threads=threads)
        stored = issparse(data.X) and self.diagonal
        X = with_stored(data.X, found) if stored else found.reshape(data.n, self.dimension)
        return as_data(X, data.codes, data.weight)

    def preimages(self, vectors: Any) -> Any:
        """Vectors of features that are mapped to these, the shortest ones."""
        if self.diagonal:
            inverse = np.divide(1.0, self.map, out=np.zeros_like(self.map), where=self.map != 0.0)
            found = vectors.multiply(inverse).tocsr() if issparse(vectors) else vectors * inverse
        else:
            with _one_thread():
                # A A' is as small as A is flat.
                found = vectors @ pinvh(self.map @ self.map.T) @ self.map
        return found.astype(vectors.dtype)


class Fit(NamedTuple):
    """A machine on mapped rows, and what it is worth."""

    metric: Metric | None
    machine: Any
    #: Whether it is right about each of the rows that are held out.
    right: np.ndarray
    accuracy: float
    data: Data


class Learned(NamedTuple):
    """What there is to know after the rounds: no metric for the plain one."""

    metric: Metric | None
    #: 1/(alpha n) of the best machine, where somebody has asked for it.
    c: float | None
    #: An entry for each machine that was tried.
    path: dict[str, np.ndarray]


class _Rounds:
    """The rounds of one fit."""

    def __init__(self, machine: MetricMachine, train: Data, test: Data, gamma: float, seed: int) -> None:
        self.machine, self.train, self.test, self.gamma, self.seed = machine, train, test, gamma, seed
        self.threads = thread_count(machine.n_jobs)
        self.gradients = np.arange(_sloped(train, _BUDGET), dtype=np.int64)
        self.advice = scale_advice(train.X)
        self.spread = _spread(train)
        #: What the machines of the first features have learned about: the basis of those directions, (k, n_features).
        self.basis: np.ndarray | None = None
        self.told: list[tuple[Any, ...]] = []

    @classmethod
    def of(cls, machine: MetricMachine, data: Data, gamma: float) -> _Rounds | None:
        """Of these examples, or some of them; None where there is nothing to learn from, or to measure it by."""
        seed = int(check_random_state(machine.random_state).randint(2**31 - 1))
        # Others neither teach nor tell.
        known = np.arange(data.n) if data.weight is None else np.flatnonzero(data.weight)
        rows = np.random.RandomState(seed).permutation(known)[:_MOST_ROWS]
        held_out = _held_out(data.codes[rows])
        if not held_out.any() or len(np.unique(data.codes[rows[~held_out]])) < 2:
            return None
        train, test = data.take(rows[~held_out]), data.take(rows[held_out])
        # Copies, which nobody else can change any more.
        train.examples.check()
        test.examples.check()
        rounds = cls(machine, train, test, gamma, seed)
        return rounds if rounds.spread > 0.0 else None

    def best(self, width_too: bool) -> Learned:
        """Looks for it; and for what the machine that was asked for makes most of, or leaves that to others."""
        want = self.machine.metric
        kinds = ["full", "diagonal"] if want == "auto" else [want]
        if want == "auto" and issparse(self.train.X):
            kinds = ["diagonal"]
        plain = self._round(None, 0, "plain", 0.0)
        chains = [chain for kind in kinds if (chain := self._chain(plain, kind)) is not None]
        top = max(chains, key=lambda fit: fit.accuracy, default=None)
        if top is not None and width_too:
            return self._narrowed(top)
        if top is None or (want == "auto" and not self._gain(top, plain) > _SURE):
            return Learned(None, None, self._path())
        return Learned(top.metric, None, self._path())

    def _chain(self, plain: Fit, kind: str) -> Fit | None:
        """The best of the rounds with metrics of a kind; None where there is no metric."""
        at, top, shape_of_top, number_of_top, idle = plain, None, None, 0, 0
        for number in range(1, self.machine.metric_rounds + 1):
            shape = self._shape(at, kind)
            if shape is None:
                break
            at = self._round(self._metric(shape, _POWERS[0]), number, kind, _POWERS[0])
            idle = 0 if top is None or at.accuracy > top.accuracy else idle + 1
            if top is None or self._gain(at, top) > _SLACK:
                top, shape_of_top, number_of_top = at, shape, number
            if idle == _PATIENCE:
                break
        if top is None:
            return None
        for power in _POWERS[1:]:
            # Where the plain metric is better, what is further from it is not.
            if power > _POWERS[0] and self._gain(top, plain) <= 0.0:
                continue
            other = self._round(self._metric(shape_of_top, power), number_of_top, kind, power)
            if self._gain(other, top) > _SURE:
                top = other
        return top

    def _gain(self, one: Fit, other: Fit) -> float:
        """How much better one is, in standard deviations of what chance makes of two that are as good."""
        weight = np.ones(len(one.right)) if self.test.weight is None else self.test.weight
        gain = weight * (one.right.astype(float) - other.right)
        return float(gain.sum() / np.sqrt((gain**2).sum() or 1.0))

    # -- one round

    def _round(self, metric: Metric | None, number: int, kind: str, power: float) -> Fit:
        """A small machine."""
        budget = self.machine._choice("budget")
        found = self._fit(
            None if metric is None else metric.times(_WIDTH**0.5),
            _C,
            budget=min(_BUDGET, budget or _BUDGET),
            maintenance="auto",
            multi_class="crammer_singer",
            fit_intercept="auto",
            solver="auto",
            tol=_TOL,
            average=True,
            projection=False,
            batch_size=1,
            max_iter=1,
            refine=True,
            refine_rounds=1,
        )
        self._tell(found, number, kind, power, 1.0 if metric is None else _WIDTH, _C)
        return found._replace(metric=metric)

    def _fit(self, metric: Metric | None, c: float | None, **params: Any) -> Fit:
        """A machine as it was asked for, but for these parameters; of this C, if one is given."""
        train = self.train if metric is None else metric.mapped(self.train, self.threads)
        test = self.test if metric is None else metric.mapped(self.test, self.threads)
        if c is not None:
            params["alpha"] = 1.0 / (c * train.n)
        sampling = self.machine.sampling
        params = {
            "metric": "plain",
            "gamma": self.gamma,
            "class_weight": None,
            "calibration": None,
            "half_life": None,
            "warm_start": False,
            "history": None,
            "verbose": 0,
            "random_state": self.seed,
            # Numbers of rows are those of others.
            "sampling": sampling if isinstance(sampling, str) else "shuffle",
        } | params
        machine = unwatched(clone(self.machine)).set_params(**params)
        try:
            with warnings.catch_warnings():
                # The last fit says what there is to say.
                warnings.simplefilter("ignore")
                machine.fit(train.X, train.codes, train.weight)
        except Interrupted as error:
            # Nothing is known yet that would be of use.
            raise KeyboardInterrupt(*error.args) from None
        right = machine.predict(test.X) == test.codes
        return Fit(metric, machine, right, float(np.average(right, weights=test.weight)), train)

    def _shape(self, at: Fit, kind: str) -> np.ndarray | tuple[np.ndarray, np.ndarray] | None:
        """What a metric is made of: the diagonal of M, or its eigenvalues and eigenvectors; None where w is flat."""
        diagonal, trainer = kind == "diagonal", at.machine._trainer
        d = self.train.X.shape[1]
        if not diagonal and d > MOST_FEATURES and self.basis is None:
            return self._first_shape(at, trainer)
        found = _core.agop(trainer, at.data.examples, self.gradients, diagonal, threads=self.threads)
        if not np.isfinite(found).all() or not found.any():
            return None
        if diagonal:
            # In the features.
            return found if at.metric is None else found * at.metric.map**2
        mean = found.reshape(at.data.X.shape[1], -1)
        if at.metric is not None:
            with _one_thread():
                back = at.metric.map if self.basis is None else at.metric.map @ self.basis.T
                mean = back.T @ mean @ back
        return _spectrum(mean)

    def _first_shape(self, at: Fit, trainer: Trainer) -> tuple[np.ndarray, np.ndarray] | None:
        """The same of so many features that the products of all pairs are too many: by the gradients' own span."""
        count = max(1, _SOME_GRADIENTS // len(np.unique(self.train.codes)))
        rows = self.gradients[:count]
        slopes = _core.gradients(trainer, at.data.examples, rows, threads=self.threads)
        slopes = slopes.reshape(-1, at.data.X.shape[1]).astype(np.float64)
        with _one_thread():
            products = slopes @ slopes.T
        sizes, among = _spectrum(products)
        strong = np.flatnonzero(sizes > 1e-10 * sizes.max(initial=0.0))[-_STRONGEST:]
        if not strong.size:
            return None
        with _one_thread():
            self.basis = (among[:, strong] / np.sqrt(sizes[strong])).T @ slopes
        return sizes[strong], np.eye(len(strong))

    def _metric(self, shape: Any, power: float) -> Metric:
        """A power of M, so long that mapped rows vary as much as they did."""
        if isinstance(shape, tuple):
            values, vectors = shape
            made = _power(values, vectors, power)
            if self.basis is not None:
                with _one_thread():
                    made = made @ self.basis
            metric = Metric(made, self.advice)
        else:
            metric = Metric((shape / shape.max()) ** power, self.advice)
        spread = _spread(metric.mapped(self.train, self.threads))
        return metric.times(np.sqrt(self.spread / spread)) if spread > 0.0 else metric

    # -- the machine that is asked for

    def _narrowed(self, small: Fit) -> Learned:
        """The width of the kernel, and C, by what the machine itself makes of them; the plain metric, where it is as good."""
        assert small.metric is not None
        asked = self.machine._choice("alpha") if self.machine.alpha != "auto" else None
        first = _CS[0] if asked is None else 1.0 / (asked * self.train.n)
        own = {name: self.machine._choice(name) for name in ("budget", "maintenance")}
        if self.machine.tol is not None:
            own["tol"] = max(self.machine.tol, _PROBE_TOL)

        def at(width: float, c: float) -> Fit:
            assert small.metric is not None
            found = self._fit(small.metric.times(width**0.5), c, **own)
            self._tell(found, 0, "diagonal" if small.metric.diagonal else "full", np.nan, width, c)
            return found

        width, best = _WIDTH, at(_WIDTH, first)
        for factor in (2.0, 0.5):
            other = at(width * factor, first)
            while other.accuracy > best.accuracy:
                width, best = width * factor, other
                if width >= _NARROWEST or factor < 1.0:
                    break
                other = at(width * factor, first)
            if width != _WIDTH:
                break
        c = first
        for other_c in _CS[1:] if asked is None else ():
            other = at(width, other_c)
            if other.accuracy >= best.accuracy:
                c, best = other_c, other
        if self.machine.metric == "auto":
            c_of_plain = 1.0 if asked is None else first
            other = self._fit(None, c_of_plain, **own)
            self._tell(other, 0, "plain", np.nan, 1.0, c_of_plain)
            if not self._gain(best, other) > _SURE:
                return Learned(None, None, self._path())
        return Learned(small.metric.times(width**0.5), c if asked is None else None, self._path())

    def _tell(self, found: Fit, number: int, kind: str, power: float, width: float, c: float) -> None:
        self.told.append((number, kind, power, width, 1.0 / (c * self.train.n), found.accuracy))
        if self.machine.verbose:
            what = "the machine itself" if np.isnan(power) else f"round {number}, power {power:g}"
            say(f"metric {kind}: {what}, width {width:g}, C {c:g}: {found.accuracy:.4f} of rows held out")

    def _path(self) -> dict[str, np.ndarray]:
        names = ("round", "kind", "power", "width", "alpha", "accuracy")
        return {name: np.array(values) for name, values in zip(names, zip(*self.told, strict=True), strict=True)}


def _held_out(codes: np.ndarray) -> np.ndarray:
    """Which rows: the last of every so many of a class, so that none is left without."""
    held_out = np.zeros(len(codes), bool)
    for code in np.unique(codes):
        held_out[np.flatnonzero(codes == code)[_EVERY - 1 :: _EVERY]] = True
    return held_out


def _sloped(data: Data, vectors: int) -> int:
    """Of how many rows gradients are taken, of a model of so many vectors."""
    d, scores = data.X.shape[1], len(np.unique(data.codes))
    most = _MOST_WORK / (scores * d * (vectors + min(d, MOST_FEATURES)))
    return min(data.n, max(_FEWEST_SLOPED, int(most)))


def _spread(data: Data) -> float:
    """How much rows vary: the sum of the variances of all features."""
    mean = np.asarray(data.X.mean(axis=0, dtype=np.float64)).ravel()
    return max(0.0, float(data.norms().mean()) - float(mean @ mean))


def _spectrum(mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues, in ascending order, and eigenvectors."""
    with _one_thread():
        values, vectors = eigh((mean + mean.T) / 2.0, check_finite=False)
    return np.maximum(values, 0.0), vectors


def _power(values: np.ndarray, vectors: np.ndarray, power: float) -> np.ndarray:
    """That of a matrix with these eigenvalues, of which the largest counts as 1."""
    with _one_thread():
        found: np.ndarray = (vectors * (values / values.max()) ** power) @ vectors.T
    return found


def _moved(trainer: Trainer, metric: Metric) -> Trainer:
    """The same coefficients, of support vectors that are mapped once more."""
    parts = trainer.parts()
    values = parts["values"]
    if metric.diagonal:
        which = np.arange(values.size) % len(metric.map) if parts["indices"] is None else parts["indices"]
        parts["values"] = (values * metric.map[which]).astype(values.dtype)
    else:
        vectors = values.reshape(-1, metric.map.shape[1])
        with _one_thread():
            parts["values"] = np.ascontiguousarray(vectors @ metric.map.T, values.dtype).ravel()
        parts["n_features"] = metric.dimension
    parts["norms"] = np.empty(0)
    return Trainer.from_parts(parts)


class MetricMachine(RefittedMachine):
    """A machine that may learn its metric before anything else."""

    metric: str
    metric_rounds: int

    #: None before a fit that has learned, or tried.
    _learned: Learned | None = None
    #: Whether the width of the kernel, and C, are chosen with the metric: not where folds do that.
    _chooses_width: bool = True
    #: The kernel's gamma, by the rows as they are.
    _plain_gamma: float

    @property
    def _metric(self) -> Metric | None:
        return None if self._learned is None else self._learned.metric

    @property
    def metric_(self) -> np.ndarray:
        """The learned M, (n_features, n_features), or its diagonal: the kernel is exp(-gamma (x - z)' M (x - z))."""
        check_is_fitted(self)
        if self._learned is None:
            raise AttributeError("metric_ is there only after fit with another metric than 'plain'")
        return np.ones(self.n_features_in_) if self._metric is None else self._metric.squared

    @property
    def feature_importances_(self) -> np.ndarray:
        """The diagonal of ``metric_``, (n_features,): a power of the mean squared derivative of the scores by each feature."""
        found = self.metric_
        return found if found.ndim == 1 else np.diagonal(found).copy()

    @property
    def metric_path_(self) -> dict[str, np.ndarray]:
        """What was tried, an entry for each machine."""
        check_is_fitted(self)
        if self._learned is None or not self._learned.path:
            raise AttributeError("metric_path_ is there only after fit with another metric than 'plain'")
        return self._learned.path

    @property
    def support_vectors_(self) -> Any:
        """The support vectors, (n_sv, n_features)."""
        found = super().support_vectors_
        return found if self._metric is None else self._metric.preimages(found)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.metric != "full"
        return tags

    # -- training

    def _examples(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        classes: np.ndarray | None,
        *,
        reset: bool,
        stream: Stream | None = None,
    ) -> tuple[Data, np.ndarray]:
        if reset:
            self._learned = None
            if self.metric != "plain" and self.kernel != "rbf":
                raise ValueError(f"metric={self.metric!r} needs kernel='rbf', got kernel={self.kernel!r}")
        data, classes = super()._examples(X, y, sample_weight, classes, reset=reset, stream=stream)
        if reset and stream is None and self.metric != "plain":
            with explaining(data.X, self):
                self._learn(data, classes)
        return (data if self._metric is None else self._in_metric(data, whole=stream is not None)), classes

    def _in_metric(self, data: Data, *, whole: bool) -> Data:
        """Rows as the kernel sees them: a mapped copy where they are few, sparse, or all needed at any time; else those of a
        fit or a refit on a budget, which are mapped when their turn comes, some at a time."""
        assert self._metric is not None
        if whole or issparse(data.X) or self._choice("budget") is None:
            with explaining(data.X, self):
                return self._metric.mapped(data, thread_count(self.n_jobs))
        return data._replace(metric=self._metric.compiled(data))

    def _kernel_features(self, data: Data) -> int:
        return super()._kernel_features(data) if data.metric is None else self._mapped_features()

    def _learn(self, data: Data, classes: np.ndarray) -> None:
        if self.metric == "full" and issparse(data.X):
            raise ValueError("metric='full' needs dense rows, got a sparse matrix; use 'diagonal' or 'auto'")
        data.examples.check()
        self._decided = self._decide(data, len(classes), stream=False)
        self._plain_gamma = self._width(data)
        if len(classes) < 2:
            return
        gamma = self._plain_gamma if self._chooses_width else self._width_of("scale", data)
        rounds = _Rounds.of(self, data, gamma)
        if rounds is None:
            warnings.warn(
                f"metric={self.metric!r} needs rows that differ, of two classes and five of one at least, to learn from and "
                "to hold out; the metric stays as it is",
                UserWarning,
                stacklevel=6,
            )
            return
        self._learned = rounds.best(self._chooses_width)

    def _learn_again(self, run: Run, data: Data) -> Data:
        """A round more, from the model as it is; its rows, in the new metric."""
        if self.metric == "plain":
            raise ValueError("learn_metric=True needs metric='full', 'diagonal' or 'auto', got 'plain'")
        threads, before = thread_count(self.n_jobs), self._metric
        if data.metric is not None:
            data = self._in_metric(data._replace(metric=None), whole=True)
        diagonal = issparse(data.X) or (self.metric == "diagonal" if before is None else before.diagonal)
        d = data.X.shape[1]
        if not diagonal and d > MOST_FEATURES:
            raise ValueError(
                f"learn_metric=True needs {MOST_FEATURES} features at most where nothing is learned yet, got {d}; use fit, "
                "or metric='diagonal'"
            )
        random = np.random.RandomState(run.seed % 2**32)
        rows = random.permutation(data.n)[: _sloped(data, self._choice("budget"))].astype(np.int64)
        mean = _core.agop(run.trainer, data.examples, rows, diagonal, threads=threads)
        if not np.isfinite(mean).all() or not mean.any():
            return data
        # In coordinates of the mapped rows, as these know all that the model has seen.
        if diagonal:
            old = np.ones(d) if before is None else before.map
            power = (mean * old**2) ** _POWERS[0]
            step = Metric(np.divide(power, old, out=np.zeros_like(power), where=old != 0.0))
        else:
            old = np.eye(d) if before is None else before.map
            # Of a map to fewer dimensions, in a basis of what it does not forget.
            with _one_thread():
                root = old if len(old) == old.shape[1] else qr(old.T, mode="r")[0][:d].T
                own, back = root.T @ mean.reshape(d, d) @ root, pinv(root)
            power = _power(*_spectrum(own), _POWERS[0])
            with _one_thread():
                step = Metric(power @ back)
        some = data.take(rows)
        step = step.times(np.sqrt(_spread(some) / (_spread(step.mapped(some, threads)) or 1.0)))
        with _one_thread():
            whole = step.map * old if diagonal else step.map @ old
        metric = Metric(whole, None if before is None else before.advice)
        path = {} if self._learned is None else self._learned.path
        if before is None:
            self._plain_gamma = self._gamma
        self._learned = Learned(metric, None, path)
        run.trainer = _moved(run.trainer, step)
        return step.mapped(data, threads)

    def _decide(self, data: Data, n_classes: int, *, stream: bool) -> dict[str, Any]:
        decided = super()._decide(data, n_classes, stream=stream)
        if self._learned is not None and self._learned.c is not None and not stream:
            decided["alpha"] = 1.0 / (self._learned.c * data.n)
        return decided

    def _width(self, data: Data) -> float:
        return super()._width(data) if self._metric is None else self._plain_gamma

    def _advice(self, data: Data) -> str | None:
        return super()._advice(data) if self._metric is None else self._metric.advice

    def _scores_of_rows(self, X: Any) -> np.ndarray:
        metric = self._metric
        if metric is None:
            return super()._scores_of_rows(X)
        threads = thread_count(self.n_jobs)
        if issparse(X) and metric.diagonal:
            return self._scores(self._trainer, metric.mapped(as_data(X), threads).X)
        n = X.shape[0]
        windows = (rows_of(X, np.arange(start, min(start + _WINDOW, n))) for start in range(0, n, _WINDOW))
        parts = [self._scores(self._trainer, metric.mapped(as_data(rows), threads).X) for rows in windows]
        return np.concatenate(parts)

    # -- files

    def _mapped_features(self) -> int:
        return super()._mapped_features() if self._metric is None else self._metric.dimension

    def _extra(self) -> dict[str, Any]:
        if self._learned is None:
            return super()._extra()
        path = {name: values.tolist() for name, values in self._learned.path.items()}
        told = {"map": None if self._metric is None else self._metric.map, "path": path}
        return super()._extra() | {"metric": told}

    def _check_restored(self, extra: dict[str, Any]) -> None:
        self._learned = None
        # Once there was none.
        if extra.get("metric") is not None:
            found, path = extra["metric"]["map"], extra["metric"]["path"]
            d = self.n_features_in_
            sound = found is None or (
                isinstance(found, np.ndarray)
                and found.dtype == np.float64
                and (found.shape == (d,) or (found.ndim == 2 and found.shape[1] == d))
            )
            if not (sound and self.kernel == "rbf"):
                raise ValueError("its metric does not belong to the model")
            lists = {name: np.array(values) for name, values in path.items()}
            self._learned = Learned(None if found is None else Metric(found), None, lists)
        super()._check_restored(extra)


def of_rows(machine: MetricMachine, data: Data, n_classes: int) -> Metric | None:
    """What these rows say of the metric, by rounds alone; None for the plain one."""
    machine._decided = machine._decide(data, n_classes, stream=False)
    rounds = _Rounds.of(machine, data, machine._width_of("scale", data))
    return None if rounds is None else rounds.best(width_too=False).metric
