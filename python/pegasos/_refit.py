"""Refit: the best model that the support vectors of a budget allow."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit, check_cv
from sklearn.utils.validation import check_is_fitted

from pegasos._base import kept, warn_of_gap
from pegasos._budget import BudgetedMachine
from pegasos._calibration import counts_of, weights_of
from pegasos._callbacks import Tasks
from pegasos._core import Refit
from pegasos._data import Data, explaining, from_arrow, parts_of
from pegasos._linear import PegasosClassifier
from pegasos._run import Run, cache_bytes
from pegasos._stream import Stream
from pegasos._threads import thread_count
from pegasos._types import checked

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

#: The relative gap on the way through several alphas, of which accuracy chooses.
ROUGH_PATH = Refit.ROUGHER

#: How many times as large alphas are by way of which a small one is solved, as long as C is 1 there or more.
_LARGER = (100.0, 10.0)

#: The fraction of the rows that is held out to choose among several alphas.
_HELD_OUT = 0.1


def larger_alphas(alpha: float, n: int) -> list[float]:
    """Those by way of which a small one is solved from nothing, each to the gap ``ROUGH_PATH``.

    In trials with 500 vectors, all classes jointly, covtype, where much of the objective is loss, takes a third to a half of the
    epochs that way, letter and usps up to a third more.
    """
    return [alpha * times for times in _LARGER if alpha * times * n <= 1.0]


class RefittedMachine(BudgetedMachine):
    """A machine on a budget whose coefficients can be made the best that its support vectors allow."""

    alpha: float | str
    tol: float | None
    cache_size: float
    multi_class: Literal["crammer_singer", "ovr", "ovo"]
    refit_path_: dict[str, np.ndarray]

    @property
    def alpha_(self) -> float:
        """The strength of the regularisation that the model was trained with."""
        check_is_fitted(self)
        return float(self._made_with["alpha"])

    @checked
    def refit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        alpha: Any = None,
        *,
        cv: Any = None,
        learn_metric: bool = False,
    ) -> Self:
        """Give the support vectors the best coefficients that there are, for these examples.

        The support vectors stay. With ``z(x) = L^-1 k(S, x)`` and ``K_SS = L L'``, a linear support vector machine on
        z is a kernel machine on x; it is trained by dual ascent, to the relative gap ``tol``. ``objective_`` and
        ``duality_gap_`` are then those of the problem restricted to the span of the support vectors.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or iterable of tuples
            The examples' features. If ``y`` is None, batches ``(X, y)`` or ``(X, y, sample_weight)``: a stream that
            is read once, by averaged Pegasos on z, in constant memory and without a certificate; with
            ``multi_class="ovo"`` jointly, so that the score of a pair is the difference of its classes'.
        y : array-like of shape (n_samples,), default=None
            Their classes, among those that the model knows.
        sample_weight : array-like of shape (n_samples,), default=None
            Their weights, finite, >= 0 and not all 0; ones by default.
        alpha : float or array-like of float, default=None
            Strength of the regularisation; the parameter ``alpha`` by default. ``objective_`` and ``duality_gap_`` are for it,
            ``alpha_`` stays that of the steps. Of several, the one whose model
            is right most often on rows held out is taken, on all rows. Kernel values and z are computed once for all;
            each alpha begins where the next larger one has ended, and on the way a gap of a tenth will do.
            ``partial_fit`` goes on with the parameter.
        cv : int, cross-validation generator or iterable, default=None
            With several alphas: which rows are held out. None for a tenth, each class in proportion; an integer
            for so many folds.
        learn_metric : bool, default=False
            Whether to learn the metric anew before, from the model as it is: a round more of what ``fit`` does with
            another ``metric`` than "plain". The support vectors move with it.

        Returns
        -------
        self : object
            The estimator, refitted. After several alphas with ``refit_path_``.

        Raises
        ------
        ValueError
            If an argument or a parameter is not as described. The model is as it was before.

        Notes
        -----
        Time: O(n B (n_features + B)) for z, once, and O(n B n_classes) an epoch of dual ascent. Memory: O(B^2), the dual
        variables, 8 bytes an example and class, and z of as many examples as fit ``cache_size``; z of the others is
        computed anew in each epoch. A stream needs O(B^2) and a batch.

        With ``calibration`` probabilities are learned anew, as by ``fit``: from the scores that rows get from models of other
        rows, by three to five fits more with this alpha. A stream has no such rows: after it there are no probabilities until
        ``partial_fit`` has seen some.
        """
        check_is_fitted(self)
        if self._choice("budget") is None:
            raise ValueError("refit needs a model on a budget; without one, solver='auto' is exact")
        if len(self.classes_) < 2:
            raise ValueError(f"refit needs a model of at least two classes, got {self.classes_.tolist()}")
        alphas = _descending(self._choice("alpha") if alpha is None else alpha)
        if cv is not None and alphas.size == 1:
            raise ValueError(f"cv chooses among several alphas, got {alpha!r}")
        with self._all_or_nothing() as twin:
            if y is None:
                if alphas.size > 1 or sample_weight is not None or learn_metric:
                    raise ValueError(
                        "a stream of batches is read once, for one alpha, with sample_weight among the batches, and with "
                        "the metric as it is"
                    )
                twin._refit_stream(X, float(alphas[0]))
                return self
            # Calibration and callbacks look at them again.
            X, y, sample_weight = from_arrow(X, "X"), from_arrow(y, "y"), from_arrow(sample_weight, "sample_weight")
            data, classes = twin._examples(X, y, sample_weight, twin.classes_, reset=False)
            # A copy, as the model must stay whole if this fails.
            run = Run(twin._own_trainer(data), twin._seed, twin._epoch, bar=twin._bar())
            tasks = Tasks.of(twin, X, y, sample_weight, name="refit", most=0)
            with twin._learning(run, data.X, classes):
                data.examples.check()
                if learn_metric:
                    data = twin._learn_again(run, data)
                best = twin._solve(run, data, alphas, cv, stacklevel=4)
            # Those of the model as it was.
            twin._forget_scores()
            with kept():
                if twin.calibration is not None:
                    twin._calibrate_refit(X, data.codes, sample_weight, best)
                tasks.over(dict)
        return self

    def _score_folds(self, X: Any, codes: np.ndarray, sample_weight: Any, seed: int, refit: float | None = None) -> None:
        path = getattr(self, "refit_path_", None)
        if refit is None and path is not None:
            # As the fit has chosen.
            refit = float(path["alpha"][path["accuracy"].argmax()])
        super()._score_folds(X, codes, sample_weight, seed, refit)

    def _calibrate_refit(self, X: Any, codes: np.ndarray, sample_weight: Any, alpha: float) -> None:
        """Learns probabilities of the refitted model, where there are examples to learn them from."""
        if counts_of(codes, len(self.classes_), weights_of(sample_weight, len(codes))).min() < 2:
            warnings.warn(
                "calibration needs two examples of each class that the model knows: after this refit there are no "
                "probabilities until partial_fit has seen some",
                UserWarning,
                stacklevel=4,
            )
            return
        self._score_folds(X, codes, sample_weight, self._seed, refit=alpha)

    @abstractmethod
    def _learn_again(self, run: Run, data: Data) -> Data:
        """The trainer in a metric that is learned from it; the rows, in that."""

    def _strengths(self, data: Data) -> np.ndarray:
        """The alphas of the refit at the end of ``fit``, in descending order."""
        return np.array([float(self._choice("alpha"))])

    def _solve(
        self,
        run: Run,
        data: Data,
        alphas: np.ndarray,
        cv: Any = None,
        *,
        last: bool = True,
        stacklevel: int,
    ) -> float:
        """Solves the problem in the span, for the best of these alphas in descending order, and returns that.

        What was solved with care counts as so many steps, if it is the ``last`` time: those to come are so short
        that they spoil nothing.
        """
        threads = thread_count(self.n_jobs)
        cache = cache_bytes(self.cache_size)
        way = self.multi_class
        solver = Refit(run.trainer, data.n, float(alphas[0]), cache, way, metric=data.metric, threads=threads)
        codes, weight = data.codes, data.weight
        n_classes = len(np.unique(codes if weight is None else codes[weight > 0]))
        if solver.rank < n_classes:
            warnings.warn(
                f"there are {n_classes} classes, but the support vectors span {solver.rank} dimensions only; a larger "
                "budget, or a larger gamma, may leave more",
                UserWarning,
                stacklevel=stacklevel,
            )
        alpha = float(alphas[0])
        self.__dict__.pop("refit_path_", None)
        tol = Refit.ROUGH if self.tol is None else max(self.tol, Refit.ROUNDINGS)
        part = run.tasks.part("refit")
        run.bar.begin(None, "refit")
        run.bar.tell(loss=None)
        progress = run.bar.update if run.bar.shows else None

        def solve(weight: np.ndarray | None, tol: float) -> tuple[float, float, float, int, int]:
            examples = data.weighted(weight).examples
            return solver.solve(examples, tol, run.seed, threads=threads, progress=progress)

        if alphas.size > 1:
            path = self._choose(run, data, alphas, cv, solver, solve)
            alpha = float(alphas[path["accuracy"].argmax()])
            solver.set_alpha(alpha)
            self.refit_path_ = path
        else:
            for larger in larger_alphas(alpha, data.n):
                solver.set_alpha(larger)
                solve(data.weight, ROUGH_PATH)
            solver.set_alpha(alpha)
        primal, dual, loss, visits, most = solve(data.weight, tol)
        run.solved(primal, dual, loss)
        steps = solver.worth(visits, data.n, run.trainer.facts.t)
        run.trainer.set_coefs(solver.coefs(), steps if last else 0)
        run.end_of(part)
        if not run.gap <= tol * run.objective:
            after = f"{most} epochs of dual ascent"
            advice = "Increase alpha or tol"
            warn_of_gap(after, tol, run, True, advice=advice, stacklevel=stacklevel)
        return alpha

    def _choose(
        self, run: Run, data: Data, alphas: np.ndarray, cv: Any, solver: Refit, solve: Any
    ) -> dict[str, np.ndarray]:
        """Accuracies on rows held out."""
        codes, weight = data.codes, data.weight
        weight = np.ones(data.n) if weight is None else weight
        if cv is None:
            if not can_hold_out(codes):
                raise ValueError(
                    f"of {data.n} rows a tenth is too few to hold out some of each of {len(np.unique(codes))} classes; give "
                    "cv, or one alpha"
                )
            # A class of one example is in one part, whichever that is.
            way = ShuffleSplit if np.unique(codes, return_counts=True)[1].min() < 2 else StratifiedShuffleSplit
            cv = way(1, test_size=_HELD_OUT, random_state=run.seed % 2**32)
        splits = parts_of(check_cv(cv, codes, classifier=True).split(data.X, codes), data.n)
        if not splits or not all(len(part) for split in splits for part in split):
            raise ValueError(f"cv must hold out some rows once at least, and learn from some, got {cv!r}")
        accuracies = np.empty((alphas.size, len(splits)))
        for k, (train, test) in enumerate(splits):
            of_train = np.zeros(data.n)
            of_train[train] = weight[train]
            if not of_train.any() or not weight[test].any():
                raise ValueError("sample_weight must be > 0 somewhere in both parts of every split")
            # The mean loss is over the rows of the part, while the solver counts all.
            part = len(train) / data.n
            solver.set_alpha(float(alphas[0]) * part, anew=True)
            for i, alpha in enumerate(alphas):
                solver.set_alpha(float(alpha) * part)
                solve(of_train, ROUGH_PATH)
                scores = solver.scores(
                    data.examples, test, threads=thread_count(self.n_jobs)
                ).reshape(len(test), -1)
                scores = self._votes(scores, run.trainer)
                guess = scores.argmax(axis=1) if scores.shape[1] > 1 else scores[:, 0] > 0
                accuracies[i, k] = np.average(guess == codes[test], weights=weight[test])
        return {"alpha": alphas, "accuracy": accuracies.mean(axis=1), "accuracies": accuracies}

    def _refit_stream(self, batches: Iterable[Any], alpha: float) -> Self:
        """One pass of averaged Pegasos on z."""
        if hasattr(batches, "shape") or isinstance(batches, str) or not hasattr(batches, "__iter__"):
            raise ValueError(
                f"y must be given with the rows of X; without it X is an iterable of batches, got {type(batches)}"
            )
        threads = thread_count(self.n_jobs)
        pairs = self.multi_class == "ovo"
        linear = PegasosClassifier(
            "hinge",
            alpha=alpha,
            fit_intercept=False,
            # Of pairs, by what tells the classes apart.
            multi_class="crammer_singer" if self.multi_class == "ovo" else self.multi_class,
            average=True,
            n_jobs=self.n_jobs,
            random_state=self._seed % 2**32,
        )
        codes = np.arange(len(self.classes_))
        trainer: Any = None
        # Of the stream alone, for class_weight="balanced".
        stream = Stream(self.classes_)
        for batch in batches:
            if not isinstance(batch, tuple | list) or not 2 <= len(batch) <= 3:
                entries = f"{len(batch)} entries" if hasattr(batch, "__len__") else type(batch).__name__
                raise ValueError(f"a batch must hold X, y and, if wanted, sample_weight, got {entries}")
            X, y, *weight = batch
            data, _ = self._examples(X, y, weight[0] if weight else None, None, reset=False, stream=stream)
            data = data.copy()
            if trainer is None:
                trainer = self._own_trainer(data)
                solver = Refit(trainer, 0, alpha, 0, "crammer_singer", threads=threads)
            with explaining(data.X, self):
                data.examples.check()
            z = solver.features(data.examples, threads=threads).reshape(data.n, -1)
            linear.partial_fit(z, data.codes, classes=codes, sample_weight=data.weight)
        if trainer is None:
            raise ValueError("X must hold at least one batch, got none")
        weights = linear.coef_.astype(float)
        if pairs and len(self.classes_) > 2:
            first, second = np.triu_indices(len(self.classes_), 1)
            weights = weights[first] - weights[second]
        trainer.set_coefs(solver.coefs(weights.ravel()), linear.t_)
        self.__dict__.pop("refit_path_", None)
        self._forget_scores()
        self._note(Run(trainer, self._seed, self._epoch), self.classes_)
        return self

    def _extra(self) -> dict[str, Any]:
        path = getattr(self, "refit_path_", {})
        return super()._extra() | {"path": {name: values.tolist() for name, values in path.items()}}

    def _check_restored(self, extra: dict[str, Any]) -> None:
        if extra["path"]:
            self.refit_path_ = {name: np.array(values, float) for name, values in extra["path"].items()}
        super()._check_restored(extra)


def can_hold_out(codes: np.ndarray) -> bool:
    """Whether a tenth of these examples may be of every class, and leaves some."""
    return bool(len(codes) > np.ceil(_HELD_OUT * len(codes)) >= len(np.unique(codes)))


def _descending(alpha: Any) -> np.ndarray:
    """One alpha or several, checked."""
    try:
        alphas = np.atleast_1d(np.asarray(alpha, float))
    except (OverflowError, TypeError, ValueError):
        alphas = np.empty(0)
    if alphas.ndim != 1 or not alphas.size or not (np.isfinite(alphas) & (alphas > 0)).all():
        raise ValueError(f"alpha must be > 0 and finite, one number or several, got {alpha!r}")
    return np.sort(alphas)[::-1]
