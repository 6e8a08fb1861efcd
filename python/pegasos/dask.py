"""Training on more than one machine, by Dask: ``pip install "pegasos[dask]"``.

The data stay on the workers that hold them. In a round each worker goes through its own parts, beginning with the same
model, and what they come to is averaged. docs/distributed.md tells how, at what cost, and what happens when a worker dies.
"""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

import pegasos
from pegasos._types import (
    Average,
    ClassWeight,
    LearningRate,
    Loss,
    Maintenance,
    RandomState,
    Strength,
    Width,
    available_if,
)

try:
    from pegasos._parts import lazily
    from pegasos._remote import COUNT, RemoteClassifier, constraints
    from pegasos._rounds import loss_of
except ImportError as error:
    raise ImportError(
        f"pegasos.dask needs dask and distributed ({error}): pip install 'pegasos[dask]'", name=error.name
    ) from error

if TYPE_CHECKING:
    from pegasos._rounds import Facts
    from pegasos._tasks import Tasks

__all__ = ["KernelPegasosClassifier", "PegasosClassifier"]


def _has_probabilities(estimator: Any) -> bool:
    if estimator.loss != "log_loss":
        raise AttributeError(f"predict_proba is there for loss='log_loss' alone, got loss={estimator.loss!r}")
    return True


class PegasosClassifier(RemoteClassifier):
    """Linear support vector machine or logistic regression on the workers of a Dask cluster.

    It minimises what `pegasos.PegasosClassifier` minimises, by the steps of Pegasos: in each round every worker goes through
    the parts of the data that it holds, all from the same weights, which are then averaged, each worker's weighted by the
    number of its examples.

    Parameters
    ----------
    loss : {"hinge", "squared_hinge", "log_loss"}, default="squared_hinge"
        As in `pegasos.PegasosClassifier`.
    alpha : float or "auto", default="auto"
        Strength of the regularisation, > 0. "auto" is 1 over the number of examples of all workers, C = 1.
    rounds : int, default=10
        Rounds, at most.
    epochs : int, default=1
        How often a worker goes through its parts in a round.
    delay : int, default=0
        The average of round r enters at round r + 1 + ``delay``; until then a worker goes on with what it has learned
        itself. So nobody waits for the slowest as long as that is no more than so many rounds behind. 0: all wait for all.
    tol : float or None, default=1e-3
        ``fit`` ends when the mean loss has not fallen by this for ``n_iter_no_change`` rounds. None: after ``rounds``, and
        without an evaluation of ``objective_``, which goes through all examples once more.
    n_iter_no_change : int, default=5
        That number of rounds.
    fit_intercept : bool, default=True
        Whether to learn an intercept, regularised as the weights.
    intercept_scaling : float, default=1.0
        The value of the constant feature whose weight is the intercept.
    multi_class : {"crammer_singer", "ovr"}, default="ovr"
        How more than two classes are told apart.
    learning_rate, eta0, power_t : as in `pegasos.PegasosClassifier`
        The step sizes: by default those of Pegasos, ``1/(alpha (t0 + t))``, t being the worker's own steps.
    average : bool, {"uniform", "polynomial"}, default=True
        Which mean of the iterates is the model, of each worker and with that of all; False for the last ones.
    batch_size : int, default=1
        Examples a step.
    sampling : {"shuffle", "blocks", "replacement", "storage"}, default="shuffle"
        The order of the rows of a part. That of the parts is always drawn.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes; "balanced" by the counts of all workers together.
    client : distributed.Client or None, default=None
        The cluster. None: the client that was started last. It is not pickled.
    random_state : int, RandomState instance or None, default=None
        Seeds the orders. With an int a fit repeats bit for bit where the parts are divided among the workers in the same
        way, whichever machines these are and whichever of them dies, on processors of one instruction set.
    verbose : int, default=0
        Whether to show the rounds, with their losses.
    t0 : float or "auto", default="auto"
        Added to the step number in the step size, as in `pegasos.PegasosClassifier`; "auto" looks at the rows of all
        workers.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights of the features.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts.
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    alpha_ : float
        The ``alpha`` that the model was trained with.
    n_iter_ : int
        Epochs done: rounds times ``epochs``.
    t_ : int
        Steps done, by all workers together.
    loss_curve_ : list of float
        The mean loss in each round, of each example just before a worker learned from it.
    objective_ : float
        The objective at the end, over the examples of all workers; nan with ``tol=None``.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, where the parts are frames.

    See Also
    --------
    pegasos.PegasosClassifier : The local class; what it has parameters for, and this has not, is for one machine: dual
        ascent and certificates, ``half_life``, ``projection``, ``early_stopping``, ``calibration``, ``warm_start``.
    pegasos.merge, pegasos.split : The same rounds with any other engine.

    Notes
    -----
    In the step size a worker counts twice its own steps, or those of all if that is less: see `pegasos.split`. Many workers
    want more rounds. A round sends each worker the weights and fetches them once, through the client: 4 bytes each in
    float32, 12 with a mean of the iterates. The parts stay where they are, and are not copied where they are C-contiguous or CSR
    in float32 or float64; with each example go 4 bytes for its class and 8 for a weight. A worker's training takes as
    many threads as it has for tasks, at most one for each problem of "ovr". docs/distributed.md has more.

    References
    ----------
    M. Zinkevich, M. Weimer, A. Smola, L. Li. "Parallelized stochastic gradient descent." NIPS 2010.

    M. Zinkevich, J. Langford, A. Smola. "Slow learners are fast." NIPS 2009: the delay.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from pegasos.dask import PegasosClassifier
    >>> random = da.random.default_rng(0)
    >>> X = random.standard_normal((4000, 10), chunks=(1000, 10))
    >>> y = X[:, 0] - X[:, 1] + 0.1 * random.standard_normal(4000, chunks=1000) > 0
    >>> with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0"):
    ...     model = PegasosClassifier(random_state=0).fit(X, y)
    ...     labels = model.predict(X)
    ...     print(labels, bool(model.score(X, y) > 0.95))
    dask.array<_apply, shape=(4000,), dtype=bool, chunksize=(1000,), chunktype=numpy.ndarray> True
    >>> model.to_local().coef_.shape
    (1, 10)
    """

    _local = pegasos.PegasosClassifier

    _parameter_constraints: ClassVar[dict[str, Any]] = constraints(
        _local,
        "loss alpha intercept_scaling multi_class learning_rate eta0 power_t batch_size class_weight random_state verbose t0",
        fit_intercept=["boolean"],
        delay=[Interval(Integral, 0, 2**31 - 1, closed="both")],
    )

    def __init__(
        self,
        loss: Loss = "squared_hinge",
        *,
        alpha: Strength = "auto",
        rounds: int = 10,
        epochs: int = 1,
        delay: int = 0,
        tol: float | None = 1e-3,
        n_iter_no_change: int = 5,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        multi_class: Literal["crammer_singer", "ovr"] = "ovr",
        learning_rate: LearningRate = "pegasos",
        eta0: float = 1.0,
        power_t: float = 0.5,
        average: Average = True,
        batch_size: int = 1,
        sampling: Literal["shuffle", "blocks", "replacement", "storage"] = "shuffle",
        class_weight: ClassWeight = None,
        client: Any = None,
        random_state: RandomState = None,
        verbose: int = 0,
        t0: Strength = "auto",
    ) -> None:
        self.loss = loss
        self.alpha = alpha
        self.rounds = rounds
        self.epochs = epochs
        self.delay = delay
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.multi_class = multi_class
        self.learning_rate = learning_rate
        self.eta0 = eta0
        self.power_t = power_t
        self.average = average
        self.batch_size = batch_size
        self.sampling = sampling
        self.class_weight = class_weight
        self.client = client
        self.random_state = random_state
        self.verbose = verbose
        self.t0 = t0

    @property
    def coef_(self) -> np.ndarray:
        """Weights of the features, (1, n_features) or (n_classes, n_features)."""
        found: np.ndarray = self._fitted().coef_
        return found

    @property
    def intercept_(self) -> np.ndarray:
        """Intercepts, (1,) or (n_classes,)."""
        found: np.ndarray = self._fitted().intercept_
        return found

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> Any:
        """Probabilities of the classes, of ``loss="log_loss"``.

        Parameters
        ----------
        X : dask Array of shape (n_samples, n_features), dask DataFrame, list of Delayed, or what the local class takes
            The examples' features.

        Returns
        -------
        dask Array of shape (n_samples, n_classes), dask DataFrame, list of Delayed, or ndarray
            Each row sums to 1; nothing is computed yet, unless X is of this process.
        """
        return lazily(self._fitted(), X, "predict_proba")

    def _wants(self) -> tuple[bool, float | None]:
        swings = self.loss == "squared_hinge" and self.learning_rate == "pegasos" and self.t0 == "auto"
        constant = self._constant()
        if swings and not np.isfinite(2.0 * constant * constant):
            raise ValueError(f"intercept_scaling must have a square that is finite, got {constant}")
        return False, constant if swings else None

    def _constant(self) -> float:
        return float(self.intercept_scaling) if self.fit_intercept else 0.0

    def _decided(self, facts: Facts, class_weight: dict[Any, float] | None) -> dict[str, Any]:
        if self.t0 != "auto":
            return {}
        weights = [(class_weight or {}).get(label, 1.0) for label in facts.classes.tolist()]
        # The first step is 1 over the largest curvature, as that of the local class.
        curvature = 2.0 * float((facts.largest * weights).max())
        alpha = 1.0 / facts.n if self.alpha == "auto" else float(self.alpha)
        return {"t0": curvature / alpha}

    def _objective(self, tasks: Tasks, model: Any, n: int) -> float:
        loss = sum(tasks.map(loss_of, model)) / n
        scaling = self._constant()
        square = float((model.coef_.astype(np.float64) ** 2).sum())
        if scaling:
            # Divided first: the square of a scaling may be 0.
            square += float(((model.intercept_.astype(np.float64) / scaling) ** 2).sum())
        return float(model.alpha_ / 2.0 * square + loss)


class KernelPegasosClassifier(RemoteClassifier):
    """Kernel support vector machine on a budget of support vectors, on the workers of a Dask cluster.

    In each round every worker goes through the parts of the data that it holds, all from the same machine. Then the support
    vectors of all of them are put together, with coefficients weighted by the number of examples, and brought back to the
    budget in the way that training keeps it.

    Parameters
    ----------
    kernel : {"rbf", "poly", "linear", "sigmoid"}, default="rbf"
        As in `pegasos.KernelPegasosClassifier`.
    alpha : float or "auto", default="auto"
        Strength of the regularisation, > 0. "auto" is 1 over the number of examples of all workers, C = 1.
    gamma : float, "scale" or "auto", default="scale"
        The kernel's width. "scale" is 1 over ``n_features`` times the variance of all features on all workers.
    degree, coef0 : as in `pegasos.KernelPegasosClassifier`
        Of the kernels "poly" and "sigmoid".
    budget : int, default=500
        The most support vectors that there may be.
    maintenance : {"auto", "merge", "project", "remove", "random"}, default="auto"
        What keeps the budget, in training and when machines are put together.
    rounds : int, default=5
        Rounds, at most.
    epochs : int, default=1
        How often a worker goes through its parts in a round.
    tol : float or None, default=1e-3
        ``fit`` ends when the mean loss has not fallen by this for ``n_iter_no_change`` rounds; None: after ``rounds``.
    n_iter_no_change : int, default=5
        That number of rounds.
    average : bool, {"uniform", "polynomial"}, default=True
        Which mean of the iterates is the model; True: of recent ones.
    multi_class : {"crammer_singer", "ovr", "ovo"}, default="ovo"
        How more than two classes are told apart.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        What ``decision_function`` returns of pairs.
    batch_size, sampling, class_weight, client, random_state, verbose : as in `pegasos.dask.PegasosClassifier`
        Of training.

    Attributes
    ----------
    support_vectors_ : {ndarray, sparse matrix} of shape (n_sv, n_features)
        The support vectors.
    dual_coef_ : ndarray of shape (1, n_sv), (n_classes, n_sv) or (n_pairs, n_sv)
        Their coefficients.
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    alpha_ : float
        The ``alpha`` that the model was trained with.
    n_iter_ : int
        Epochs done: rounds times ``epochs``.
    t_ : int
        Steps done, by all workers together.
    loss_curve_ : list of float
        The mean loss in each round, of each example just before a worker learned from it.
    objective_ : float
        nan: on a budget nobody evaluates it.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, where the parts are frames.

    See Also
    --------
    pegasos.KernelPegasosClassifier : The local class; what it has parameters for, and this has not, is for one machine:
        exact solutions, refits, learned metrics, ``half_life``, ``projection``, ``calibration``.
    pegasos.merge, pegasos.split : The same rounds with any other engine.

    Notes
    -----
    A round sends each worker the machine and fetches it once: ``budget`` rows and their coefficients, through the client,
    which puts the machines together; `pegasos.merge` has the cost. The last round's machine is not refitted: what
    ``to_local()`` returns can be, on examples of this process, by its method ``refit``.

    References
    ----------
    Z. Wang, K. Crammer, S. Vucetic. "Multi-class Pegasos on a budget." ICML 2010.

    M. Zinkevich, M. Weimer, A. Smola, L. Li. "Parallelized stochastic gradient descent." NIPS 2010.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from pegasos.dask import KernelPegasosClassifier
    >>> X = da.random.default_rng(0).standard_normal((4000, 2), chunks=(1000, 2))
    >>> y = (X**2).sum(axis=1) > 1.4
    >>> with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0"):
    ...     model = KernelPegasosClassifier(budget=50, random_state=0).fit(X, y)
    ...     print(model.support_vectors_.shape, bool(model.score(X, y) > 0.95))
    (50, 2) True
    """

    _local = pegasos.KernelPegasosClassifier

    _parameter_constraints: ClassVar[dict[str, Any]] = constraints(
        _local,
        "alpha gamma degree coef0 maintenance multi_class decision_function_shape batch_size class_weight random_state verbose",
        kernel=[StrOptions({"rbf", "poly", "linear", "sigmoid"})],
        budget=[COUNT],
    )

    def __init__(
        self,
        kernel: Literal["rbf", "poly", "linear", "sigmoid"] = "rbf",
        *,
        alpha: Strength = "auto",
        gamma: Width = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        budget: int = 500,
        maintenance: Maintenance = "auto",
        rounds: int = 5,
        epochs: int = 1,
        tol: float | None = 1e-3,
        n_iter_no_change: int = 5,
        average: Average = True,
        multi_class: Literal["crammer_singer", "ovr", "ovo"] = "ovo",
        decision_function_shape: Literal["ovr", "ovo"] = "ovr",
        batch_size: int = 1,
        sampling: Literal["shuffle", "blocks", "replacement", "storage"] = "shuffle",
        class_weight: ClassWeight = None,
        client: Any = None,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.alpha = alpha
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.budget = budget
        self.maintenance = maintenance
        self.rounds = rounds
        self.epochs = epochs
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.average = average
        self.multi_class = multi_class
        self.decision_function_shape = decision_function_shape
        self.batch_size = batch_size
        self.sampling = sampling
        self.class_weight = class_weight
        self.client = client
        self.random_state = random_state
        self.verbose = verbose

    @property
    def support_vectors_(self) -> Any:
        """The support vectors, (n_sv, n_features)."""
        return self._fitted().support_vectors_

    @property
    def dual_coef_(self) -> np.ndarray:
        """Their coefficients, (1, n_sv), (n_classes, n_sv) or (n_pairs, n_sv)."""
        found: np.ndarray = self._fitted().dual_coef_
        return found

    def _wants(self) -> tuple[bool, float | None]:
        return self.gamma == "scale" and self.kernel != "linear", None

    def _decided(self, facts: Facts, class_weight: dict[Any, float] | None) -> dict[str, Any]:
        if self.gamma != "scale" or self.kernel == "linear":
            return {}
        variance = facts.variance
        return {"gamma": 1.0 / (facts.n_features * variance) if variance > 0.0 else 1.0}
