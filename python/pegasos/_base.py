"""What every estimator shares: labels, weights, validation, seeds, epochs and their end."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from contextlib import contextmanager
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_class_weight

from pegasos._calibration import Probable, weights_of
from pegasos._callbacks import CallbackSupport, Tasks, tell_of
from pegasos._core import Fit
from pegasos._data import (
    Data,
    as_data,
    checked_weights,
    encode,
    encode_among,
    explaining,
    from_arrow,
    scale_advice,
    validated,
)
from pegasos._estimator import EstimatorBase
from pegasos._progress import NoBar, bar_of
from pegasos._run import Run
from pegasos._steps import decided_alpha, tamed
from pegasos._stream import Stream, joined
from pegasos._threads import thread_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Self

    from pegasos._core import Trainer


def warn_of_gap(
    after: str,
    tol: float,
    run: Run,
    certified: bool,
    *,
    scales: str | None = None,
    advice: str,
    stacklevel: int,
) -> None:
    """Says that a fit has ended without an answer as good as was asked for."""
    warnings.warn(
        f"fit stopped after {after} short of tol={tol}"
        + (f", at a relative duality gap of {run.gap / run.objective:.2g}" if certified else "")
        + f". {advice}."
        + (f" {scales}." if scales else ""),
        ConvergenceWarning,
        stacklevel=stacklevel + 1,
    )


def refuse_changes(names: Iterable[str], before: dict[str, Any], now: dict[str, Any], what: str) -> None:
    """Raises where parameters of a model that goes on are not those by which its ``what`` came to be."""
    changed = [f"{name}={now[name]!r} after {before[name]!r}" for name in names if now[name] != before[name]]
    if changed:
        raise ValueError(
            f"{', '.join(names)} must stay as they are while training goes on: they say what the {what} that exist mean; "
            f"got {', '.join(changed)}"
        )


#: The strength of the regularisation where training begins with a stream, whose length nobody knows.
STREAM_ALPHA = 1e-4


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, after which the estimator holds what it had learned by then."""


@contextmanager
def kept() -> Iterator[None]:
    """What Ctrl-C must not take the model away for: it is there already."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise Interrupted(*error.args) from None


class Watch:
    """Decides when a quantity that ought to fall has stopped falling."""

    def __init__(self, tol: float, patience: int) -> None:
        self.tol, self.patience = tol, patience
        self.best = np.inf
        self.idle = 0

    def is_over(self, value: float) -> bool:
        """Whether ``value`` has not come ``tol`` below the best before for ``patience`` calls."""
        self.idle = self.idle + 1 if value > self.best - self.tol else 0
        self.best = min(self.best, value)
        return self.idle >= self.patience


class _PegasosBase(Probable, CallbackSupport, ClassifierMixin, EstimatorBase):
    """Runs a compiled trainer, which subclasses make, epoch by epoch."""

    _trainer: Any
    t_: int

    #: What others have parameters for and this has not, and the value that it has there.
    _fixed: ClassVar[dict[str, Any]] = {}

    #: Parameters whose "auto" is decided by what training begins with, and what it means where that is not known.
    _undecided: ClassVar[dict[str, Any]] = {"alpha": STREAM_ALPHA}

    #: What "auto" means for them since.
    _decided: dict[str, Any] = {}  # noqa: RUF012 - never changed, only replaced

    #: The classes met so far, and how many examples of each; None where nobody has counted.
    _stream: Stream | None = None

    def __sklearn_is_fitted__(self) -> bool:
        # Without a look at all attributes, which another thread may be about to set.
        return "_trainer" in self.__dict__

    def _choice(self, name: str) -> Any:
        """The value of a parameter, what "auto" means there, or what stands in its place where there is none."""
        if name in self._fixed:
            return self._fixed[name]
        value = getattr(self, name)
        if name in self._undecided and isinstance(value, str) and value == "auto":
            return self._decided.get(name, self._undecided[name])
        return value

    def _decide(self, data: Data, n_classes: int, *, stream: bool) -> dict[str, Any]:
        """What "auto" means where training begins with these examples, all there are or the first of a stream."""
        return {"alpha": decided_alpha(self, STREAM_ALPHA if stream else 1.0 / data.n, data)}

    @abstractmethod
    def _make_trainer(
        self, data: Data, n_classes: int
    ) -> Trainer:
        """A trainer that has learned nothing."""

    def _targets(self, n_classes: int) -> Any:
        """What a linear trainer of so many classes is made for."""
        return None

    @abstractmethod
    def _resume_trainer(self, data: Data) -> Trainer:
        """The trainer, or one as it is but with the parameters as they are now."""

    @abstractmethod
    def _scores(self, trainer: Any, X: Any) -> np.ndarray:
        """Scores of validated rows, (n,) or (n, classes)."""

    @abstractmethod
    def _export(self) -> None:
        """Makes what attributes are read from anew, as the trainer has gone on."""

    def __copy__(self) -> Self:
        """A copy that learns on its own."""
        copy = type(self).__new__(type(self))
        copy.__dict__.update(self.__dict__)
        if hasattr(self, "_trainer"):
            copy._trainer = self._trainer.copy()
            copy._count()
            copy._export()
        return copy

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._count()

    def _count(self) -> None:
        """Counts the steps anew: another thread may have trained in place between a look at ``t_`` and at the trainer."""
        if "_trainer" in self.__dict__:
            self.t_ = self._trainer.facts.t

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The part of the examples whose class ``predict`` names.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The examples' features.
        y : array-like of shape (n_samples,)
            Their classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Their weights; ones by default.

        Returns
        -------
        float
            The accuracy, in [0, 1].
        """
        return float(super().score(X, from_arrow(y, "y"), from_arrow(sample_weight, "sample_weight")))

    # -- input

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
        """Examples as trainers take them, and their classes: ``classes``, or all that occur; those of a ``stream``."""
        if reset:
            self._decided = {}
        # Weights that exist stay in their precision.
        dtype: Any = [np.float64, np.float32] if reset else np.dtype(self._trainer.made.dtype)
        X, y = validated(self, X, y, dtype=dtype, reset=reset, finite=False)
        if stream is not None:
            codes = stream.meet(y)
            assert stream.classes is not None
            classes = stream.classes
        elif classes is None:
            classes, codes = encode(y)
        else:
            codes = encode_among(y, classes)
        weight = None
        if sample_weight is not None:
            weight = checked_weights(sample_weight, X)
            if not weight.any():
                raise ValueError("sample_weight must be > 0 somewhere, got only zeros")
        if self.class_weight is not None:
            try:
                if stream is not None:
                    of_class = stream.weights(self.class_weight, y)
                else:
                    of_class = compute_class_weight(self.class_weight, classes=classes, y=y)
            except (OverflowError, TypeError, ValueError) as error:
                raise ValueError(
                    f"class_weight must be 'balanced' or map classes to numbers >= 0, got {self.class_weight}: {error}"
                ) from error
            if not (np.isfinite(of_class).all() and (of_class >= 0).all()):
                raise ValueError(f"class_weight must be finite and >= 0, got {self.class_weight}")
            with np.errstate(over="ignore"):
                weight = of_class[codes] if weight is None else weight * of_class[codes]
            if not np.isfinite(weight).all():
                raise ValueError(f"sample_weight times class_weight must be finite, got class_weight={self.class_weight}")
            if not weight.any():
                raise ValueError(
                    f"class_weight must leave some example a weight > 0, got {self.class_weight}"
                )
        return as_data(X, codes, weight), classes

    @contextmanager
    def _all_or_nothing(self) -> Iterator[Self]:
        """A twin to learn in the estimator's stead, of which that takes the attributes, all at once, when it has learned.

        If it fails nothing has changed; and who predicts meanwhile finds a model that is whole.
        """
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        try:
            yield twin
        except BaseException as error:
            if isinstance(error, Interrupted):
                self._become(twin)
            else:
                tell_of(twin, self)
                if hasattr(self, "_trainer") and self._trainer.facts.t != self.t_:
                    # One that learns in place, stopped by what nothing could foresee: steps that stand.
                    self.t_ = self._trainer.facts.t
                    self._export()
            raise
        self._become(twin)

    def _become(self, twin: Self) -> None:
        """Takes what a twin has learned; parameters that somebody has set meanwhile are for the next fit."""
        params = {name: self.__dict__[name] for name in self._get_param_names() if name in self.__dict__}
        self.__dict__ = twin.__dict__ | params

    @contextmanager
    def _learning(self, run: Run, X: Any, classes: np.ndarray) -> Iterator[None]:
        """Keeps what ``run`` has learned, and explains numbers that are not finite."""
        with explaining(X, self), run.bar:
            try:
                yield
            except KeyboardInterrupt as error:
                if run.trainer.facts.t == 0 and not run.ascends:
                    raise
                # What has been learned so far is a model too, which nobody has evaluated.
                run.objective = run.dual = np.nan
                self._settle(run, classes)
                raise Interrupted(*error.args) from None
            try:
                self._settle(run, classes)
            except KeyboardInterrupt as error:
                # All is learned: what it ends with may take a moment, and is done once.
                self._settle(run, classes)
                raise Interrupted(*error.args) from None

    # -- training

    def _fit(self, X: Any, y: Any, sample_weight: Any, X_val: Any = None, y_val: Any = None) -> Self:
        # Who knows one class has learned nothing.
        going_on = self.warm_start and hasattr(self, "_trainer") and len(self.classes_) > 1
        known = self.classes_ if going_on else None
        # Calibration and callbacks look at them again.
        X, y, sample_weight = from_arrow(X, "X"), from_arrow(y, "y"), from_arrow(sample_weight, "sample_weight")
        data, classes = self._examples(X, y, sample_weight, known, reset=not going_on)
        random = check_random_state(self.random_state)
        seed = int(random.randint(np.iinfo(np.int64).max, dtype=np.int64))
        rows, held_out = data, None
        if X_val is not None or y_val is not None:
            held_out = self._validation(X_val, y_val, classes)
        elif self._choice("early_stopping"):
            data, held_out = self._parts(data, random)
        with explaining(rows.X, self):
            if going_on:
                run = Run(self._own_trainer(data), self._seed, self._epoch)
            else:
                self._decided = self._decide(data, len(classes), stream=False)
                run = Run(self._make_trainer(data, len(classes)), seed, 0)
        if self.calibration is not None:
            # Before a fit that would be in vain.
            weight = weights_of(sample_weight, rows.n)
            self._fewest(rows.codes, classes, weight)
            self._hold_out(run.trainer, rows.codes, classes, weight, seed)
        self._forget_scores()
        self.__dict__.pop("refit_path_", None)
        self._stream = Stream.of_fit(classes, rows.codes, self._met() if going_on else None)
        run.bar = self._bar()
        run.tasks = Tasks.of(self, X, y, sample_weight, most=self._most_parts())
        run.as_if_over = partial(self._as_if_over, data, classes)
        with self._learning(run, rows.X, classes):
            self._run_epochs(run, data, held_out, certify=not going_on)
        with kept():
            if self.calibration is not None:
                part = run.tasks.part("calibration")
                self._score_folds(X, rows.codes, sample_weight, seed)
                part.over()
            run.tasks.over(dict)
        return self

    def _most_parts(self) -> int | None:
        """How many parts a fit has at most, as callbacks are told; None where nobody knows."""
        return int(self.max_iter) + (self.calibration is not None)

    def _as_if_over(self, data: Data, classes: np.ndarray, run: Run) -> dict[str, Any] | None:
        """The attributes of this estimator if its fit ended here; None where nothing can be made of what is under way."""
        if run.ascends and run.trainer.made.kind != "linear":
            # Copies know nothing of dual ascent with kernels.
            return None
        trainer = run.trainer.copy()
        if trainer.made.kind == "linear":
            # Copies have the ledger and the dual variables of these rows, which others must not be held against.
            Fit(trainer, data.examples, "storage").end()
        if trainer.facts.t == 0:
            return None
        twin = copy(self)
        twin._note(run.with_trainer(trainer), classes)
        return twin.__dict__

    def _parts(self, data: Data, random: np.random.RandomState) -> tuple[Data, Data]:
        """Rows to learn from, and rows to stop by, for ``early_stopping``."""
        if not isinstance(self.sampling, str):
            raise ValueError(
                "sampling must be one of the words with early_stopping=True, as row numbers may be of rows that are held out, "
                "got an array; hold out rows of your own, as X_val and y_val"
            )
        try:
            parts = train_test_split(
                np.arange(data.n),
                test_size=self.validation_fraction,
                stratify=data.codes,
                random_state=random,
            )
        except ValueError as error:
            # It speaks of test_size.
            raise ValueError(
                f"early_stopping=True must have rows of every class to learn from and to hold out, which validation_fraction="
                f"{self.validation_fraction} of these {data.n} does not leave: {error}"
            ) from error
        if self.sampling == "storage":
            parts = [np.sort(part) for part in parts]
        if data.weight is not None and not all(data.weight[part].any() for part in parts):
            raise ValueError("sample_weight must be > 0 somewhere in the held-out part of the rows, and somewhere in the rest")
        train, held_out = (data.take(part) for part in parts)
        return train, held_out

    def _validation(self, X: Any, y: Any, classes: np.ndarray) -> Data:
        """Rows that the caller holds out."""
        if X is None or y is None:
            raise ValueError(f"X_val and y_val must be given together, got {'y_val' if X is None else 'X_val'} alone")
        if self.tol is None:
            raise ValueError("tol must be a number where X_val is given, by which its accuracy must rise, got None")
        dtype: Any = [np.float64, np.float32]
        try:
            X, y = validated(self, X, y, dtype=dtype, reset=False, finite=True)
            with explaining(X, self):
                as_data(X).examples.check()
        except ValueError as error:
            # It speaks of X and y.
            raise ValueError(f"X_val and y_val must be as X and y are: {error}") from error
        return as_data(X, encode_among(y, classes, "y_val"))

    def _met(self) -> Stream | None:
        """What is known of the classes met so far; None before training."""
        if not hasattr(self, "_trainer"):
            return None
        # An estimator of an earlier version has counted nothing.
        return self._stream or Stream(self.classes_, np.zeros(len(self.classes_), np.int64))

    def _own_trainer(self, data: Data) -> Any:
        """A trainer with the parameters as they are now, whose steps the model in use knows nothing of."""
        trainer = self._resume_trainer(data)
        return trainer.copy() if trainer is self._trainer else trainer

    def _recording(self) -> dict[str, Any]:
        """What a fit must be told so that it records what is wanted."""
        return {}

    def _run_epochs(self, run: Run, data: Data, held_out: Data | None, *, certify: bool) -> None:
        order = self._order(data.n)
        obstacle = self._dual_obstacle() if certify else "warm_start=True"
        obstacle = obstacle or (None if held_out is None else "X_val")
        self._refuse_dual(obstacle)
        if not certify or not isinstance(order, str) or order == "replacement":
            # A model in use must not learn half of bad data; and not every order meets every row.
            data.examples.check()
        if held_out is not None:
            held_out.examples.check()
        fit = run.begin(
            data,
            order,
            solver="pegasos" if obstacle else self._choice("solver"),
            tol=self.tol,
            max_epochs=self.max_iter,
            patience=self.n_iter_no_change,
            shards=self._choice("shards"),
            certify=self._has_certificate(),
            going_on=not certify,
            until_stopped=held_out is not None,
            threads=thread_count(self.n_jobs),
        )
        watch = Watch(self.tol or 0.0, self.n_iter_no_change)
        for _ in run.epochs():
            if held_out is None or self.tol is None:
                continue
            if watch.is_over(1.0 - self._accuracy(run.trainer, held_out)):
                fit.stop()
        if self.tol is not None and fit.outcome == "exhausted":
            certified = certify and self._has_certificate()
            after, scales = f"max_iter={self.max_iter} epochs", scale_advice(data.X)
            # Dual ascent alone makes no leaps.
            first = "Use solver='auto', or increase" if self._choice("solver") == "dual" else "Increase"
            advice = f"{first} max_iter, alpha or tol; tol=None runs max_iter epochs and asks nothing"
            warn_of_gap(after, self.tol, run, certified, scales=scales, advice=advice, stacklevel=5)

    def _bar(self) -> NoBar:
        """What shows how it goes, if that is wanted."""
        return bar_of(type(self).__name__, "rows", self.verbose)

    def _partial_fit(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> Self:
        first = not hasattr(self, "_trainer")
        sample_weight = from_arrow(sample_weight, "sample_weight")
        stream = Stream.of_call(self._met(), from_arrow(classes, "classes"))
        data, classes = self._examples(X, y, sample_weight, None, reset=first, stream=stream)
        with explaining(data.X, self):
            if first:
                data = tamed(self, data, None)
                run = self._begun(data, stream.n_classes)
            else:
                data = tamed(self, data, self._trainer)
                run = Run(self._resume_trainer(data), self._seed, self._epoch)
                if len(classes) > len(self.classes_):
                    run.trainer = joined(run.trainer, self.classes_, classes, self._targets(len(classes)), data)
                    # Those of fewer classes.
                    self._forget_scores()
                elif self.calibration is not None:
                    self._note_scores(self._scores(self._trainer, data.X), data.codes, weights_of(sample_weight, data.n))
            in_use = not first and run.trainer is self._trainer
            in_place = in_use and self._learns_in_place(data)
            if in_place:
                # Nothing that another thread does to the batch from here on can reach the model.
                data = data.copy()
            cannot_overflow = run.trainer.survives(data.examples)
            if in_use and not (in_place and cannot_overflow):
                # A copy may fail in the model's stead.
                run.trainer = run.trainer.copy()
        met, begun = self._met(), run.trainer.facts.t
        try:
            with self._learning(run, data.X, classes):
                self._meet_others(run)
                self._stream = stream
                # One class has nobody to be told from.
                if len(classes) > 1:
                    run.begin(data, self._order(data.n), threads=thread_count(self.n_jobs), **self._recording())
                    for _ in run.epochs():
                        pass
        except Interrupted:
            learned = (self.t_ - begun) * getattr(self, "batch_size", 1)
            self._stream = stream.after_part(met, min(1.0, learned / data.n))
            raise
        return self

    def _begun(self, data: Data, n_classes: int) -> Run:
        """The beginning of a stream, whose first examples these are."""
        random = check_random_state(self.random_state)
        seed = int(random.randint(np.iinfo(np.int64).max, dtype=np.int64))
        self._decided = self._decide(data, n_classes, stream=True)
        self._forget_scores()
        return Run(self._make_trainer(data, n_classes), seed, 0)

    def _learns_in_place(self, data: Data) -> bool:
        """Whether a copy of a batch is cheaper than one of the model: a stream shall not pay O(n_features) a call."""
        return True

    def _meet_others(self, run: Run) -> None:
        """From here on the rows are not those of the fit before."""

    def _dual_obstacle(self) -> str | None:
        """Which parameter dual ascent has no use for, where there is one."""

        def wants(name: str, value: Any) -> tuple[Any, bool]:
            return self._choice(name), bool(self._choice(name) == value)

        sampling = self.sampling if isinstance(self.sampling, str) else "an array"
        for name, value, wanted in [
            ("learning_rate", *wants("learning_rate", "pegasos")),
            ("projection", *wants("projection", False)),
            # An average of recent iterates is for those who end with Pegasos; it asks for nothing.
            ("average", self.average, self._averaging()[0] in ("none", "recent")),
            ("half_life", *wants("half_life", None)),
            ("batch_size", *wants("batch_size", 1)),
            ("sampling", sampling, sampling not in ("replacement", "an array")),
            ("early_stopping", *wants("early_stopping", False)),
            ("shards", *wants("shards", 1)),
        ]:
            if not wanted:
                return f"{name}={value!r}"
        return None

    def _refuse_dual(self, obstacle: str | None) -> None:
        """Refuses dual ascent by name where something stands in its way."""
        if self._choice("solver") == "dual" and obstacle:
            raise ValueError(f"solver='dual' does not go with {obstacle}; use 'pegasos' or 'auto'")

    def _averaging(self) -> tuple[str, int]:
        """The kind of mean, and the first step whose result it takes in."""
        if isinstance(self.average, str):
            return self.average, 1
        if isinstance(self.average, bool | np.bool_):
            return "polynomial" if self.average else "none", 1
        return "uniform", int(self.average)

    def _has_certificate(self) -> bool:
        """Whether the ledger of violations is a dual point worth looking at."""
        replaced = isinstance(self.sampling, str) and self.sampling == "replacement"
        plain = self._choice("learning_rate") == "pegasos" and not self._choice("projection")
        return plain and not replaced and self._choice("half_life") is None

    def _order(self, n: int) -> str | np.ndarray:
        if isinstance(self.sampling, str):
            return self.sampling
        order = np.asarray(self.sampling)
        rows = order.ndim == 1 and order.size > 0 and order.dtype.kind in "iu"
        if not rows or order.min() < 0 or order.max() >= n:
            raise ValueError(
                f"sampling must name a way of sampling or hold row numbers in 0..{n}, "
                f"got {self.sampling!r}"
            )
        return np.require(order, np.int64, ["C", "A"])

    def _accuracy(self, trainer: Trainer, data: Data) -> float:
        scores = self._scores(trainer, data.X)
        guess = scores.argmax(axis=1) if scores.ndim == 2 else scores > 0
        return float(np.average(guess == data.codes, weights=data.weight))

    def _settle(self, run: Run, classes: np.ndarray) -> None:
        run.end()
        self._note(run, classes)

    def _note(self, run: Run, classes: np.ndarray) -> None:
        """The attributes that tell what was learned."""
        self._trainer, self._seed, self._epoch = run.trainer, run.seed, run.epoch
        self.classes_ = classes
        self.n_iter_ = len(run.losses)
        self.t_ = run.trainer.facts.t
        self.loss_curve_ = run.losses
        self.objective_curve_, self.dual_objective_curve_ = run.curves
        self.objective_ = run.objective
        self.dual_objective_ = run.dual
        self.duality_gap_ = run.gap
        self._export()
