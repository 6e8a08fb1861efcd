"""Rounds in which a machine learns its metric.

A round fits a small machine on a budget, takes the mean outer product G of its scores' gradients, which in the features is
``A' G A``, and makes the next A a power of that: A. Radhakrishnan, D. Beaglehole, P. Pandit, M. Belkin, "Mechanism for
feature learning in neural networks and backpropagation-free machine learning models" (Science 383, 2024), with a budget in
place of a system of as many equations as there are examples.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.utils.validation import check_random_state

from pegasos import _core
from pegasos._base import Interrupted
from pegasos._callbacks import unwatched
from pegasos._data import scale_advice
from pegasos._metric import Learned, Metric, one_thread
from pegasos._progress import say
from pegasos._threads import thread_count

if TYPE_CHECKING:
    from pegasos._core import Trainer
    from pegasos._data import Data
    from pegasos._metric_machine import MetricMachine

#: Rows that rounds look at, at most; every so many of a class's is held out.
_MOST_ROWS = 20_000
_EVERY = 5

#: Of how many of the others gradients are taken: of so many at least, if there are so many, and of more as long as that does
#: not take more multiplications than this, a tenth of a second or two.
_FEWEST_SLOPED, _MOST_WORK = 1000, 6e9

#: The largest budget of a round, its C, and the relative gap that will do.
_BUDGET, _C, _TOL = 1000, 8.0, 0.05

#: Powers of M that A may be: rounds go by the first, the others are tried where these have led.
POWERS = (0.375, 0.25, 0.5)

#: After so many rounds without a gain there are no more.
_PATIENCE = 2

#: Gains, in standard deviations, that make another choice than the simpler one; and what a later round may lack: on the
#: whole they are better, and rows that are held out are few.
_SURE, _SLACK = 1.0, -0.5

#: By how much narrower a kernel is with a learned metric than with the plain one, to begin with, and at most: factors of
#: gamma. Mapped rows vary as much in all as they did before, but in fewer directions.
_WIDTH, _NARROWEST = 2.0, 32.0

#: Directions in which mapped rows vary by so small a part of how much they vary in all, taken together, are left out: a row
#: costs O(n_features) for each direction, and most tell nothing.
_NEGLIGIBLE = 1e-4

#: The relative gap that will do to compare machines by.
_PROBE_TOL = 1e-2

#: Values of C of the machine that is asked for, where ``alpha="auto"``.
_CS = (8.0, 1.0)

#: More features than this have gradients in a space of fewer dimensions: that of so many gradients' strongest directions.
MOST_FEATURES = 2000
_STRONGEST = 500
_SOME_GRADIENTS = 1000


class Fit(NamedTuple):
    """A machine on mapped rows, and what it is worth."""

    metric: Metric | None
    machine: Any
    #: Whether it is right about each of the rows that are held out.
    right: np.ndarray
    accuracy: float
    data: Data


class Rounds:
    """The rounds of one fit."""

    def __init__(self, machine: MetricMachine, train: Data, test: Data, gamma: float, seed: int) -> None:
        self.machine, self.train, self.test, self.gamma, self.seed = machine, train, test, gamma, seed
        self.threads = thread_count(machine.n_jobs)
        self.gradients = np.arange(sloped(train, _BUDGET), dtype=np.int64)
        #: Rows that tell how much mapped ones vary.
        self.some = train.take(self.gradients)
        self.spread = spread_of(self.some)
        self.advice = scale_advice(train.X)
        #: What the machines of the first features have learned about: the basis of those directions, (k, n_features).
        self.basis: np.ndarray | None = None
        self.told: list[tuple[Any, ...]] = []

    @classmethod
    def of(cls, machine: MetricMachine, data: Data, gamma: float) -> Rounds | None:
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
        kinds = ["diagonal", "full"] if want == "auto" else [want]
        if want == "auto" and issparse(self.train.X):
            kinds = ["diagonal"]
        plain = self._round(None, 0, "plain", 0.0)
        top: Fit | None = None
        for kind in kinds:
            found = self._chain(plain, kind)
            # Of a diagonal there is less to learn, and a row costs less.
            if found is not None and (top is None or self._gain(found, top) > _SURE):
                top = found
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
            at = self._round(self._metric(shape, POWERS[0]), number, kind, POWERS[0])
            idle = 0 if top is None or at.accuracy > top.accuracy else idle + 1
            if top is None or self._gain(at, top) > _SLACK:
                top, shape_of_top, number_of_top = at, shape, number
            if idle == _PATIENCE:
                break
        if top is None:
            return None
        for power in POWERS[1:]:
            # Where the plain metric is better, what is further from it is not.
            if power > POWERS[0] and self._gain(top, plain) <= 0.0:
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
            with one_thread():
                back = at.metric.map if self.basis is None else at.metric.map @ self.basis.T
                mean = back.T @ mean @ back
        return spectrum(mean if self.basis is not None else shrunk(mean, at.machine.dual_coef_.shape[1]))

    def _first_shape(self, at: Fit, trainer: Trainer) -> tuple[np.ndarray, np.ndarray] | None:
        """The same of so many features that the products of all pairs are too many: by the gradients' own span."""
        count = max(1, _SOME_GRADIENTS // len(np.unique(self.train.codes)))
        rows = self.gradients[:count]
        slopes = _core.gradients(trainer, at.data.examples, rows, threads=self.threads)
        slopes = slopes.reshape(-1, at.data.X.shape[1]).astype(np.float64)
        with one_thread():
            products = slopes @ slopes.T
        sizes, among = spectrum(products)
        strong = np.flatnonzero(sizes > 1e-10 * sizes.max(initial=0.0))[-_STRONGEST:]
        if not strong.size:
            return None
        with one_thread():
            self.basis = (among[:, strong] / np.sqrt(sizes[strong])).T @ slopes
        return sizes[strong], np.eye(len(strong))

    def _metric(self, shape: Any, power: float) -> Metric:
        """A power of M, so long that mapped rows vary as much as they did."""
        if not isinstance(shape, tuple):
            metric = Metric((shape / shape.max()) ** power, self.advice)
            spread = spread_of(metric.mapped(self.some, self.threads))
        else:
            values, vectors = shape
            made = power_of(values, vectors, power)
            if self.basis is not None:
                with one_thread():
                    made = made @ self.basis
            found = Metric(made).mapped(self.some, self.threads).X.var(axis=0, dtype=np.float64)
            order = np.argsort(found)
            kept = np.sort(order[np.cumsum(found[order]) >= _NEGLIGIBLE * found.sum()])
            metric, spread = Metric(made[kept], self.advice), float(found[kept].sum())
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


def sloped(data: Data, vectors: int) -> int:
    """Of how many rows gradients are taken, of a model of so many vectors."""
    d, scores = data.X.shape[1], len(np.unique(data.codes))
    most = _MOST_WORK / (scores * d * (vectors + min(d, MOST_FEATURES)))
    return min(data.n, max(_FEWEST_SLOPED, int(most)))


def spread_of(data: Data) -> float:
    """How much rows vary: the sum of the variances of all features."""
    mean = np.asarray(data.X.mean(axis=0, dtype=np.float64)).ravel()
    return max(0.0, float(data.norms().mean()) - float(mean @ mean))


def spectrum(mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues, in ascending order, and eigenvectors."""
    with one_thread():
        values, vectors = eigh((mean + mean.T) / 2.0, check_finite=False)
    return np.maximum(values, 0.0), vectors


def power_of(values: np.ndarray, vectors: np.ndarray, power: float) -> np.ndarray:
    """That of a matrix with these eigenvalues, of which the largest counts as 1: a row for each eigenvector."""
    found: np.ndarray = (vectors * (values / values.max()) ** power).T
    return found


def shrunk(mean: np.ndarray, vectors: int) -> np.ndarray:
    """A mean product of gradients, of trace 1, nearer to its diagonal by what of the rest is noise.

    That of as many independent gradients as the machine has vectors would have so much: O. Ledoit, M. Wolf (Journal of
    Multivariate Analysis 88, 2004), towards a diagonal as J. Schaefer, K. Strimmer (Statistical Applications in Genetics and
    Molecular Biology 4, 2005).
    """
    mean = mean / np.trace(mean)
    own = np.diagonal(mean)
    others = (mean**2).sum() - own @ own
    noise = (1.0 - own @ own + others) / vectors
    found: np.ndarray = mean * (1.0 - noise / max(noise, others) if noise > 0.0 else 1.0)
    np.fill_diagonal(found, own)
    return found
