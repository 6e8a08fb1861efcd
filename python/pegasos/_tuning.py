"""Estimators that choose their own alpha, and gamma, by cross-validation."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from sklearn import get_config
from sklearn.base import ClassifierMixin
from sklearn.metrics import get_scorer, get_scorer_names
from sklearn.model_selection import check_cv
from sklearn.utils import Bunch, check_random_state, indexable
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import _check_method_params, check_is_fitted

from pegasos._base import Interrupted, kept
from pegasos._calibration import METHODS, Calibration, weights_of
from pegasos._callbacks import CallbackSupport, Stopped, Tasks, put_back
from pegasos._data import Data, explaining, from_arrow, parts_of
from pegasos._estimator import EstimatorBase
from pegasos._machine import votes_of_pairs
from pegasos._progress import bar_of, say
from pegasos._search import Fold, Held, Key, Search, Space, chosen, crossed
from pegasos._threads import thread_count
from pegasos._types import Calibrated, Grid, RandomState, Rule, Scoring, available_if, checked

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

#: By so much the mean logarithm of the probabilities must be better for "auto" to take a map that may change the order of the
#: classes: what ``predict`` says shall be the likeliest where that costs little.
_LIKELIER = 2e-3

#: How many standard deviations what chance alone does to the accuracies of two models, by the same rows, must be exceeded by for
#: one of them to be the worse one.
_DOUBT = 2.0


def _has_scores(tuned: Any) -> bool:
    if tuned.calibration is None and getattr(tuned, "loss", "hinge") != "log_loss":
        raise AttributeError(f"probabilities need a calibration, got calibration={tuned.calibration!r}")
    return True


def _number(score: Any) -> float:
    """What a scorer has given, which may be anybody's."""
    found = score.item() if getattr(score, "size", 0) == 1 else score
    if not isinstance(found, Real):
        raise ValueError(f"scoring must give a number, got {score!r}")
    return float(found)


class Tuned(CallbackSupport, ClassifierMixin, EstimatorBase, ABC):
    """An estimator that tries others and keeps the best."""

    alphas: Grid
    cv: Any
    scoring: Scoring
    calibration: Calibrated | Literal["auto"]
    rule: Rule
    keep_scores: bool
    n_jobs: int | None
    random_state: RandomState
    verbose: int
    best_estimator_: Any
    classes_: np.ndarray

    _instead: ClassVar[dict[str, str]] = dict.fromkeys(
        ("C", "Cs"),
        "alphas=1/(C * n_samples) means the same, n_samples being that of fit; alphas='auto', the default, looks for the best",
    )

    _constraints: ClassVar[dict[str, list[Any]]] = {
        "alphas": [StrOptions({"auto"}), "array-like"],
        "cv": ["cv_object"],
        "scoring": [StrOptions(set(get_scorer_names())), callable, None],
        "calibration": [StrOptions({"auto", *METHODS}), None],
        "rule": [StrOptions({"best", "one_standard_error"})],
        "keep_scores": ["boolean"],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # -- what differs

    @property
    @abstractmethod
    def _search_tol(self) -> float:
        """The relative gap to which the models of folds are solved."""

    @abstractmethod
    def _model(self, seed: int, **params: Any) -> Any:
        """An estimator with these parameters, and what was asked for."""

    def _last_model(self, seed: int, key: Key) -> Any:
        """The one that gets all examples."""
        return self._model(seed, **self._best_params(key))

    @abstractmethod
    def _search(self, task: Task) -> Search:
        """Looks for the best model; everything that is worth trying is tried in the end with all folds."""

    def _settle(self, template: Any, data: Data) -> None:
        """Decides what depends on the rows, and has the template know it."""

    # -- training

    @checked
    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None, **params: Any) -> Self:
        """Look for the best parameters by cross-validation, and train with them on all examples.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The examples' features.
        y : array-like of shape (n_samples,)
            Their classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Their weights, in training and in scores: finite, >= 0 and not all 0; ones by default.
        groups : array-like of shape (n_samples,), default=None
            What ``cv`` must not tear apart, where it is a splitter that knows groups.
        **params : dict
            With scikit-learn's metadata routing, what splitter and scorer ask for.

        Returns
        -------
        self : object
            The estimator, with ``best_estimator_`` trained on all examples. After Ctrl-C with the best parameters that
            were known by then, where any were.

        Raises
        ------
        ValueError
            If an argument or a parameter is not as described. The estimator is as it was before.
        MemoryError
            If there is not enough memory. The estimator is as it was before.
        """
        before = self.__dict__.copy()
        try:
            return self._fit(X, y, sample_weight, groups, params)
        except BaseException as error:
            if not isinstance(error, Interrupted):
                put_back(self, before)
            raise

    def _fit(self, X: Any, y: Any, sample_weight: Any, groups: Any, params: dict[str, Any]) -> Self:
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        template = self._model(seed)
        X, y, groups = from_arrow(X, "X"), from_arrow(y, "y"), from_arrow(groups, "groups")
        sample_weight = from_arrow(sample_weight, "sample_weight")
        data, classes = template._examples(X, y, sample_weight, None, reset=True)
        if len(classes) < 2:
            raise ValueError(f"y must hold at least two classes to tell apart, got {len(classes)} class")
        if data.weight is not None and len(np.unique(data.codes[data.weight > 0])) < 2:
            raise ValueError("sample_weight and class_weight must leave examples of two classes at least, got one class")
        with explaining(data.X, self):
            data.examples.check()
        self._settle(template, data)
        weight = weights_of(sample_weight, data.n)
        routed = self._routed(weight, groups, params)
        cv = check_cv(self.cv, data.codes, classifier=True)
        splits = parts_of(cv.split(data.X, classes[data.codes], **routed.splitter.split), data.n)
        folds = [Fold(*split) for split in splits]
        if len(folds) < 1 or not all(len(fold.train) and len(fold.test) for fold in folds):
            raise ValueError(f"cv must hold out some rows once at least, and learn from some, got {self.cv!r}")
        tasks = Tasks.of(self, X, y, sample_weight, most=2)
        looking = tasks.part("search", most=None)
        task = Task(self, template, data, classes, folds, weight, X, routed.scorer.score, seed, looking)
        interrupted, known = False, list(range(len(folds)))
        with explaining(data.X, self), task.bar:
            task.bar.begin(None)
            try:
                search = self._search(task)
                task.bar.done()
            except (KeyboardInterrupt, Stopped) as error:
                search, interrupted = task.search, isinstance(error, KeyboardInterrupt)
                # The folds that most is known of.
                cells = {} if search is None else search.cells
                known = max((sorted(cell.scores) for cell in cells.values()), key=len, default=[])
                if not known:
                    raise
                if interrupted and self.verbose:
                    say("interrupted: training with the best parameters so far; Ctrl-C again stops that too")
        late = False
        try:
            looking.over()
        except KeyboardInterrupt:
            # The search has ended: nothing of it is missing.
            late = True
        key = self._choose(search, known)
        try:
            self._conclude(task, search, key, known, X, y, sample_weight, tasks)
        except Interrupted:
            late = True
        except KeyboardInterrupt:
            if interrupted or late:
                raise
            # It came before the last fit had learned anything: as if the search had been at its end.
            late = True
            self._conclude(task, search, key, known, X, y, sample_weight, Tasks())
        if interrupted:
            warnings.warn(
                "the search was interrupted: best_estimator_ has the best parameters that were known by then",
                UserWarning,
                stacklevel=4,
            )
        if interrupted or late:
            raise Interrupted
        with kept():
            tasks.over(dict)
        return self

    def _choose(self, search: Search, folds: list[int]) -> Key:
        """The model to keep."""
        best = search.best(folds)
        if self.rule == "best" or len(folds) < 2:
            return best
        scores = np.array([search.cells[best].scores[k] for k in folds])
        least = scores.mean() - scores.std(ddof=1) / np.sqrt(len(folds))
        near = [key for key in search.cells if search.knows(key, folds) and search.mean(key, folds) >= least]
        return max(near, key=lambda key: (key.alpha, -key.gamma))

    def _conclude(
        self,
        task: Task,
        search: Search,
        key: Key,
        folds: list[int],
        X: Any,
        y: Any,
        sample_weight: Any,
        tasks: Tasks,
    ) -> None:
        """Trains on all examples, and notes what was found."""
        model = self._last_model(task.seed, key)
        interrupted = False
        try:
            with tasks.fit_of(model, "refit-with-best-params"):
                model.fit(X, y, sample_weight)
        except KeyboardInterrupt:
            # There may be a model, too.
            if not hasattr(model, "classes_"):
                raise
            interrupted = True
        try:
            self._note(task, search, key, model, folds)
        except KeyboardInterrupt:
            if interrupted:
                raise
            # All there is to know is known: no more than a moment is missing, which another Ctrl-C ends.
            self._note(task, search, key, model, folds)
            interrupted = True
        if interrupted:
            raise Interrupted

    def _note(self, task: Task, search: Search, key: Key, model: Any, known: list[int]) -> None:
        """Calibrates the model by the folds that are known, and tells what was found."""
        test = np.concatenate([task.folds[k].test for k in known])
        scores = np.concatenate([search.cells[key].held_out[k] for k in known])
        model.calibration = task.calibration(scores, test)
        if model.calibration is not None:
            model._calibrate_by(scores, task.data.codes[test], None if task.weight is None else task.weight[test])
        self.best_score_ = search.mean(key, known)
        folds = range(len(task.folds))
        self.__dict__.pop("feature_names_in_", None)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(model, name):
                setattr(self, name, getattr(model, name))
        self.best_estimator_ = model
        self.classes_ = model.classes_
        self.alpha_ = key.alpha
        keys = sorted((key for key in search.cells if search.cells[key].scores), key=lambda key: (key.gamma, -key.alpha))
        table = np.full((len(keys), len(folds)), np.nan)
        times = table.copy()
        for row, other in enumerate(keys):
            for k, score in search.cells[other].scores.items():
                table[row, k], times[row, k] = score, search.cells[other].times[k]
        whole = ~np.isnan(table).any(axis=1)
        means = np.where(whole, table.mean(axis=1), np.nan)
        ranks = np.full(len(keys), np.iinfo(np.int32).max, np.int32)
        ranks[whole] = [1 + int((means[whole] > mean).sum()) for mean in means[whole]]
        self.cv_results_ = {
            **{
                f"param_{name}": np.array([self._best_params(key)[name] for key in keys])
                for name in self._best_params(key)
            },
            **{f"split{k}_test_score": table[:, k] for k in folds},
            "mean_test_score": means,
            "std_test_score": np.where(whole, table.std(axis=1), np.nan),
            "rank_test_score": ranks,
            "mean_fit_time": np.nanmean(times, axis=1),
        }
        self.best_index_ = keys.index(key)
        self.n_splits_ = len(folds)
        if self.keep_scores:
            held_out = np.full((task.data.n, scores.shape[1]), np.nan)
            held_out[test] = scores
            self.held_out_scores_ = held_out[:, 0] if scores.shape[1] == 1 else held_out
        else:
            # Those of an earlier fit.
            self.__dict__.pop("held_out_scores_", None)

    @abstractmethod
    def _best_params(self, key: Key) -> dict[str, Any]:
        """The parameters that a model of the grid stands for."""

    # -- scikit-learn's routing

    def _get_scorer(self) -> Any:
        return get_scorer("accuracy" if self.scoring is None else self.scoring)

    def get_metadata_routing(self) -> MetadataRouter:
        """What is handed on to splitter and scorer: see scikit-learn's user guide on metadata routing.

        Returns
        -------
        routing : MetadataRouter
            The routing.
        """
        router = MetadataRouter(owner=self).add_self_request(self)
        split = MethodMapping().add(caller="fit", callee="split")
        score = MethodMapping().add(caller="score", callee="score").add(caller="fit", callee="score")
        router.add(splitter=self.cv, method_mapping=split)
        router.add(scorer=self._get_scorer(), method_mapping=score)
        return router

    def _routed(self, sample_weight: Any, groups: Any, params: dict[str, Any]) -> Any:
        if get_config()["enable_metadata_routing"]:
            if groups is not None:
                params = params | {"groups": groups}
            return process_routing(self, "fit", sample_weight=sample_weight, **params)
        if params:
            raise TypeError(
                f"fit got the unexpected arguments {sorted(params)}: splitter and scorer get them with "
                "sklearn.set_config(enable_metadata_routing=True)"
            )
        score = {} if sample_weight is None else {"sample_weight": sample_weight}
        return Bunch(splitter=Bunch(split={} if groups is None else {"groups": groups}), scorer=Bunch(score=score))

    # -- what the best model does

    def _best(self) -> Any:
        check_is_fitted(self)
        return self.best_estimator_

    @property
    def n_iter_(self) -> int:
        """Epochs of the best model's last fit."""
        found: int = self._best().n_iter_
        return found

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of the classes, by the best model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The examples' features.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Of two classes, one score, > 0 for the second.
        """
        found: np.ndarray = self._best().decision_function(X)
        return found

    def predict(self, X: Any) -> np.ndarray:
        """The class with the highest score, for each example.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The examples' features.

        Returns
        -------
        ndarray of shape (n_samples,)
            The classes.
        """
        found: np.ndarray = self._best().predict(X)
        return found

    @available_if(_has_scores)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes, calibrated by the scores of rows that were held out.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The examples' features.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Each row sums to 1.
        """
        found: np.ndarray = self._best().predict_proba(X)
        return found

    @available_if(_has_scores)
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of the probabilities of the classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The examples' features.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            The logarithms of ``predict_proba(X)``.
        """
        found: np.ndarray = self._best().predict_log_proba(X)
        return found

    def score(self, X: Any, y: Any, sample_weight: Any = None, **params: Any) -> float:
        """The score by ``scoring``, accuracy by default.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The examples' features.
        y : array-like of shape (n_samples,)
            Their classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Their weights.
        **params : dict
            With metadata routing, what the scorer asks for.

        Returns
        -------
        float
            The score.
        """
        best = self._best()
        if sample_weight is not None:
            params["sample_weight"] = from_arrow(sample_weight, "sample_weight")
        if get_config()["enable_metadata_routing"]:
            params = process_routing(self, "score", **params).scorer.score
        # Of the best model, as a scorer may ask it for its own score.
        return _number(self._get_scorer()(best, X, from_arrow(y, "y"), **params))


@dataclass
class Task:
    """What a search is about."""

    tuned: Tuned
    template: Any
    data: Data
    classes: np.ndarray
    folds: list[Fold]
    #: Of the examples, without those of the classes; None where all are 1.
    weight: np.ndarray | None
    X: Any
    score_params: dict[str, Any]
    seed: int
    #: The search as callbacks are told of it.
    tasks: Tasks

    def __post_init__(self) -> None:
        self.threads = thread_count(self.tuned.n_jobs)
        self.scorer = None if self.tuned.scoring in (None, "accuracy") else self.tuned._get_scorer()
        if callable(self.tuned.scoring):
            # Of which it is to get some rows.
            (self.X,) = indexable(self.X)
        self.bar = bar_of(type(self.tuned).__name__, "models", self.tuned.verbose)
        self.is_logistic = self.template._choice("loss") == "log_loss"
        method = self.tuned.calibration
        if method == "auto":
            # A logistic loss is calibrated by itself.
            method = None if self.is_logistic else "temperature"
        self.method = method
        self.search: Any = None

    @property
    def outputs(self) -> int:
        """How many scores a row has."""
        k = len(self.classes)
        if k == 2:
            return 1
        return k * (k - 1) // 2 if self._pairs else k

    @property
    def _pairs(self) -> bool:
        return self.template._choice("multi_class") == "ovo" and len(self.classes) > 2

    def votes(self, scores: np.ndarray) -> np.ndarray:
        """What a decision function gives."""
        if self._pairs:
            return votes_of_pairs(scores, len(self.classes))
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def measure(self, fold: Fold, scores: np.ndarray) -> float:
        """The score of a model, given those of the rows that it has not seen."""
        test, codes, votes = fold.test, self.data.codes[fold.test], self.votes(scores)
        weight = None if self.weight is None else self.weight[test]
        weighs = self.scorer is None or "sample_weight" in self.score_params
        if weighs and weight is not None and not weight.any():
            raise ValueError("sample_weight must be > 0 somewhere in both parts of every split")
        if self.scorer is None:
            return float(np.average(chosen(votes) == codes, weights=weight))
        probabilities: Any
        if self.method is None and self.is_logistic:
            probabilities = partial(Calibration.of_log_loss(len(self.classes)).probabilities, scores)
        elif self.tuned.calibration is None:
            probabilities = self._refuse_probabilities
        else:
            method = self.method or "sigmoid"
            probabilities = partial(crossed, method, scores, codes, len(self.classes), self._pairs, weight)
        held = Held(self.classes, votes, probabilities)
        rows: Any = np.empty((len(test), 0))
        if callable(self.tuned.scoring):
            # Nobody knows what it looks at.
            rows, _ = _safe_split(self.template, self.X, None, test)
        params = _check_method_params(self.X, self.score_params, indices=test)
        return _number(self.scorer(held, rows, self.classes[codes], **params))

    def _refuse_probabilities(self) -> Any:
        """What scorers get that ask for probabilities of models that have none."""
        raise ValueError(
            f"scoring={self.tuned.scoring!r} asks for probabilities, which need calibration, or a linear model with "
            "loss='log_loss'; got calibration=None"
        )

    def is_surely_worse(self, fold: Fold, scores: np.ndarray, best: np.ndarray) -> bool:
        """Whether a model with these scores of a fold's held-out rows is less accurate than one with those, beyond doubt.

        By the rows that one of them has right and the other wrong (McNemar's test). Other measures than accuracy do not tell.
        """
        if self.scorer is not None:
            return False
        codes = self.data.codes[fold.test]
        right, rather = (chosen(self.votes(some)) == codes for some in (scores, best))
        lost = rather.astype(float) - right
        if self.weight is not None:
            lost *= self.weight[fold.test]
        return bool(lost.sum() > _DOUBT * np.sqrt(np.square(lost).sum()))

    def one_of_each(self, folds: list[Fold], order: np.ndarray) -> np.ndarray:
        """Of both parts of these folds the first rows, in this order, without which a score may mean nothing.

        They are one that counts and, where more than accuracy is asked for, one of each class.
        """
        place = np.argsort(order)
        kinds = np.zeros(self.data.n, np.int64) if self.scorer is None else 2 * self.data.codes.astype(np.int64)
        if self.data.weight is not None:
            kinds += self.data.weight > 0
        first: list[np.ndarray] = []
        for part in (part for fold in folds for part in fold):
            rows = part[np.argsort(place[part])]
            first.append(rows[np.unique(kinds[rows], return_index=True)[1]])
        return np.concatenate(first)

    def calibration(self, scores: np.ndarray, test: np.ndarray) -> str | None:
        """The method that was asked for; of "auto" the one that leaves the order of the classes, or a likelier one."""
        if self.tuned.calibration != "auto" or self.method is None:
            return self.method
        codes, k = self.data.codes[test], len(self.classes)
        weight = np.ones(len(test)) if self.weight is None else self.weight[test]

        def surprise(method: str) -> float:
            chances = crossed(method, scores, codes, k, self._pairs, weight)[np.arange(len(codes)), codes]
            return -float(np.average(np.log(np.maximum(chances, np.finfo(float).tiny)), weights=weight))

        likelier = surprise("sigmoid") < surprise("temperature") - _LIKELIER
        return "sigmoid" if likelier else "temperature"

    def begin(self, space: Callable[..., Space]) -> Search:
        """A search of all folds."""
        self.search = self.over(self.data, self.folds, space, self.measure)
        self.search.may_stop = True
        return self.search

    def over(
        self,
        data: Data,
        folds: list[Fold],
        space: Callable[..., Space],
        measure: Callable[[Fold, np.ndarray], float],
    ) -> Search:
        """A search of these folds."""
        tol = self.tuned._search_tol
        return Search(data, folds, space, measure, tol, self.seed, self.threads, self.bar, self.tasks)
