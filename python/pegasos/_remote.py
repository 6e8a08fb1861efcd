"""What the estimators of `pegasos.dask` share: examples on workers, a fit by rounds, predictions when they are asked for."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import suppress
from copy import copy
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar

import distributed
import numpy as np
from sklearn.base import ClassifierMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import check_is_fitted

from pegasos import _rounds
from pegasos._base import Watch
from pegasos._estimator import EstimatorBase
from pegasos._parts import accuracy, is_remote, lazily, parts_of
from pegasos._progress import bar_of
from pegasos._stream import Stream
from pegasos._tasks import Tasks
from pegasos._types import ClassWeight, RandomState, checked

if TYPE_CHECKING:
    from typing import Self

#: What counts something.
COUNT = Interval(Integral, 1, 2**31 - 1, closed="both")



def constraints(local: Any, of_local: str, **own: list[Any]) -> dict[str, Any]:
    """What parameters may be: those that the local class has too, and others."""
    return {name: local._parameter_constraints[name] for name in of_local.split()} | {
        "rounds": [COUNT],
        "epochs": [COUNT],
        "tol": [Interval(Real, 0, None, closed="left"), None],
        "n_iter_no_change": [COUNT],
        "average": ["boolean", StrOptions({"uniform", "polynomial"})],
        "sampling": [StrOptions({"shuffle", "blocks", "replacement", "storage"})],
        "client": "no_validation",
        **own,
    }


class RemoteClassifier(ClassifierMixin, EstimatorBase):
    """An estimator whose examples are on the workers of a cluster."""

    #: What is trained there, and what it has no parameter for here.
    _local: ClassVar[Any]

    rounds: int
    epochs: int
    tol: float | None
    n_iter_no_change: int
    random_state: RandomState
    verbose: int
    class_weight: ClassWeight
    client: Any
    _model: Any
    n_iter_: int
    loss_curve_: list[float]

    def __sklearn_clone__(self) -> Self:
        # A client is no more to be copied than a cluster.
        params = {name: value if name == "client" else clone(value, safe=False) for name, value in self.get_params(deep=False).items()}
        return type(self)(**params)

    def __copy__(self) -> Self:
        # One of this process, unlike what is pickled, keeps the client.
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return state | {"client": None}

    @checked
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, classes: Any = None) -> Self:
        """Train on examples where they are.

        Parameters
        ----------
        X : dask Array of shape (n_samples, n_features), dask DataFrame, or list
            The features. A list holds parts: each a Delayed (or Future) that gives ``(X, y)`` or ``(X, y, sample_weight)``, or
            a tuple of two or three of these; X of a part may be whatever the local class takes, sparse matrices too.
        y : dask Array of shape (n_samples,) or dask Series, default=None
            The classes, in as many parts as X. None where X is a list.
        sample_weight : dask Array of shape (n_samples,) or dask Series, default=None
            Weights of the examples, finite, >= 0; ones by default. None where X is a list.
        classes : array-like of shape (n_classes,), default=None
            All classes that there may be; those that occur by default.

        Returns
        -------
        self : object
            The fitted estimator. After Ctrl-C it holds the average of the last round that was finished.

        Raises
        ------
        TypeError
            If X is no collection of Dask, or there is no client.
        ValueError
            If an argument or a parameter is not as described. The estimator is as it was before.
        RuntimeError
            If the cluster could not do it: data that were lost with a worker and cannot be computed again, four workers
            lost at the same parts, none left for 30 seconds, one that hangs, a scheduler that is gone. The estimator is as
            it was before.
        """
        client = self._client()
        before = self.__dict__.copy()
        try:
            with Tasks(client, parts_of(X, y, sample_weight)) as tasks:
                self._train(tasks, classes)
        except Exception as error:
            self.__dict__.clear()
            self.__dict__.update(before)
            if type(error).__module__.startswith("distributed."):
                # Of a connection, a client or a scheduler that is no more.
                raise RuntimeError(f"the cluster has failed: {error}") from error
            raise
        return self

    def _client(self) -> Any:
        if self.client is None:
            try:
                return distributed.default_client()
            except ValueError:
                raise TypeError(
                    f"{type(self).__name__} needs a distributed.Client: start one, or hand one over as client="
                ) from None
        if not isinstance(self.client, distributed.Client):
            raise TypeError(f"client must be a distributed.Client or None, got a {type(self.client).__name__}")
        if self.client.asynchronous:
            raise TypeError("client must not be asynchronous, as fit waits for the workers")
        return self.client

    def _train(self, tasks: Tasks, classes: Any) -> None:
        told = tasks.map(_rounds.survey, self._local(), *self._wants())
        tasks.keep([facts is not None for facts in told])
        known = [facts for facts in told if facts is not None]
        if not known:
            raise ValueError("X must hold at least one example, got none")
        facts = known[0]
        for others in known[1:]:
            facts = _rounds.both(facts, others)
        if classes is not None:
            facts = _named(facts, classes)
        if len(facts.classes) < 2:
            raise ValueError(f"y must hold at least two classes to tell apart, got {len(facts.classes)} class")
        weights = _class_weights(self.class_weight, facts)
        of_class = _of_class(weights, facts)
        model = self._prepared(facts, weights)
        tasks.prepare(_rounds.prepare, model, facts.classes, facts.dtype, of_class)
        seeds = check_random_state(self.random_state).randint(2**31 - 1, size=len(known)).tolist()
        sizes, delay = [facts.n for facts in known], int(getattr(self, "delay", 0))
        losses: list[float] = []
        watch, last = Watch(self.tol or 0.0, self.n_iter_no_change), None
        with bar_of(f"dask.{type(self).__name__}", "rows", self.verbose) as bar:
            bar.begin(self.rounds * self.epochs * facts.n)
            try:
                for found in _rounds.rounds(
                    tasks, seeds, sizes, facts.classes, most=self.rounds, epochs=self.epochs, delay=delay
                ):
                    last = found.model
                    losses.append(found.loss)
                    bar.update(found.visits)
                    bar.tell(loss=found.loss)
                    if self.tol is not None and watch.is_over(found.loss):
                        break
                objective = np.nan if self.tol is None else self._objective(tasks, last, facts.n)
            except KeyboardInterrupt:
                if last is not None:
                    self._note(last, facts, losses, np.nan)
                raise
            bar.done()
        self._note(last, facts, losses, objective)

    @abstractmethod
    def _wants(self) -> tuple[bool, float | None]:
        """Whether the spread of the features must be known, and the constant feature beside rows whose norms must."""

    @abstractmethod
    def _decided(self, facts: _rounds.Facts, class_weight: dict[Any, float] | None) -> dict[str, Any]:
        """What parameters that are "auto" come to."""

    def _objective(self, tasks: Tasks, model: Any, n: int) -> float:
        return float("nan")

    def _prepared(self, facts: _rounds.Facts, weights: dict[Any, float] | None) -> Any:
        """The local estimator, with numbers for all that the parts could not decide alike."""
        params = self.get_params(deep=False)
        known = self._local().get_params(deep=False)
        params = {name: value for name, value in params.items() if name in known}
        params |= {"class_weight": weights, "verbose": 0, **self._decided(facts, weights)}
        if params["alpha"] == "auto":
            params["alpha"] = 1.0 / facts.n
        return self._local(**params)

    def _note(self, model: Any, facts: _rounds.Facts, losses: list[float], objective: float) -> None:
        model.set_params(random_state=self.random_state)
        model._stream = Stream(facts.classes, facts.counts * len(losses) * self.epochs)
        self._model = model
        self.classes_ = model.classes_
        self.n_features_in_ = model.n_features_in_
        self.__dict__.pop("feature_names_in_", None)
        if facts.names:
            self.feature_names_in_ = model.feature_names_in_
        self.n_iter_ = len(losses) * self.epochs
        self.loss_curve_ = losses
        self.objective_ = objective

    def to_local(self) -> Any:
        """The model as an estimator of this process, which needs no cluster.

        Returns
        -------
        model : pegasos.PegasosClassifier or pegasos.KernelPegasosClassifier
            A fitted estimator of its own: to save, to go on with ``partial_fit``, to refit. Parameters that were "auto"
            have the numbers that they came to.
        """
        check_is_fitted(self)
        return copy(self._model)

    @property
    def alpha_(self) -> float:
        """The strength of the regularisation that the model was trained with."""
        return float(self._fitted().alpha_)

    @property
    def t_(self) -> int:
        """Steps done, by all workers together."""
        return int(self._fitted().t_)

    def _fitted(self) -> Any:
        check_is_fitted(self)
        return self._model

    def predict(self, X: Any) -> Any:
        """The class with the highest score, for each example.

        Parameters
        ----------
        X : dask Array of shape (n_samples, n_features), dask DataFrame, list of Delayed, or what the local class takes
            The examples' features.

        Returns
        -------
        dask Array of shape (n_samples,), dask Series with the index of X, list of Delayed, or ndarray
            The classes; nothing is computed yet, unless X is of this process.
        """
        return lazily(self._fitted(), X, "predict")

    def decision_function(self, X: Any) -> Any:
        """Scores of the classes.

        Parameters
        ----------
        X : dask Array of shape (n_samples, n_features), dask DataFrame, list of Delayed, or what the local class takes
            The examples' features.

        Returns
        -------
        dask Array of shape (n_samples,) or (n_samples, n_classes), dask Series or DataFrame, list of Delayed, or ndarray
            The scores, as those of the local class; nothing is computed yet, unless X is of this process.
        """
        return lazily(self._fitted(), X, "decision_function")

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The part of the examples whose class ``predict`` names.

        Parameters
        ----------
        X, y, sample_weight : as for ``fit``
            The examples, on the workers; or arrays of this process.

        Returns
        -------
        float
            The accuracy, in [0, 1].
        """
        model = self._fitted()
        if not is_remote(X):
            return float(model.score(X, y, sample_weight))
        found, client = accuracy(model, parts_of(X, y, sample_weight)), self.client
        if client is None:
            with suppress(ValueError):
                client = distributed.default_client()
        if client is None:
            # Where nobody has started a cluster it is computed without.
            return float(found.compute())
        future = client.compute(found)
        try:
            return float(future.result())
        finally:
            # An error would hold it as long as somebody holds the error.
            future.release()


def _named(facts: _rounds.Facts, classes: Any) -> _rounds.Facts:
    """The facts, where all of these classes may be."""
    named = Stream.of_call(None, classes).classes
    assert named is not None
    return facts.among(named)


def _of_class(class_weight: dict[Any, float] | None, facts: _rounds.Facts) -> np.ndarray | None:
    """The weight of each class, once it is sure that some example has one."""
    of_class = None
    if class_weight is not None:
        of_class = np.asarray(compute_class_weight(class_weight, classes=facts.classes, y=facts.classes))
        if not (np.isfinite(of_class).all() and (of_class >= 0).all()):
            raise ValueError(f"class_weight must be finite and >= 0, got {class_weight}")
    if not (facts.weights * (1.0 if of_class is None else of_class)).any():
        raise ValueError("sample_weight and class_weight must leave some example a weight > 0")
    return of_class


def _class_weights(class_weight: ClassWeight, facts: _rounds.Facts) -> dict[Any, float] | None:
    """Weights of the classes as numbers: "balanced" is by the counts of all parts."""
    if class_weight is None or isinstance(class_weight, dict):
        return class_weight
    counts = np.maximum(facts.counts, 1)
    balanced = np.where(facts.counts, facts.n / (np.count_nonzero(facts.counts) * counts), 1.0)
    return dict(zip(facts.classes.tolist(), balanced.tolist(), strict=True))
