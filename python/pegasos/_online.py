"""Online convex optimisation."""

from __future__ import annotations

from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from pegasos._core import Trainer
from pegasos._linear import _LARGEST, PegasosClassifier
from pegasos._types import Average, Calibrated, ClassWeight, LearningRate, Loss, RandomState, Sampling

if TYPE_CHECKING:
    from pegasos._data import Data
    from pegasos._run import Run


class OnlineGradientClassifier(PegasosClassifier):
    """Linear classifier by online gradient descent on a ball, with a bound on its regret.

    Round t shows an example, the learner pays the loss of its present ``w_t`` there, and steps along
    the gradient, back into the ball if it left it. Nothing is assumed of the examples, not even that
    they are drawn from anything: against the best ``w`` of the ball, chosen with the whole stream
    known, the learner has lost no more than ``regret_bound_``.

    With ``w`` the weights, the intercept's among them, it pays ::

        f_t(w) = alpha/2 ||w||^2 + weight_t loss(y_t <w, x_t>)

    and steps by ``w <- w - eta_t (alpha w + g)``, then ``w <- min(1, radius/||w||) w``, where ``g`` is
    the gradient of the loss of round t at ``w_t``, or with a delay that of round ``t - delay`` at
    ``w_{t - delay}``.

    Parameters
    ----------
    loss : {"hinge", "squared_hinge", "log_loss"}, default="hinge"
        What is paid; see ``PegasosClassifier``.
    radius : float or None, default=1.0
        Radius of the ball that ``w`` is kept in, > 0, over all classes together (of each problem of
        "ovr"). None is the whole space, where a bound holds for steps of ``1/(alpha t)`` only.
    learning_rate : {"invscaling", "constant", "pegasos"}, default="invscaling"
        The step size ``eta_t``: ``eta0/t^power_t``, ``eta0``, or ``1/(alpha t)``.
    eta0 : float, default=1.0
        First step size of "invscaling", only one of "constant"; at most ``1/alpha``.
    power_t : float, default=0.5
        Exponent of "invscaling": 0.5 for any convex losses, 1 for strongly convex ones.
    delay : int, default=0
        Rounds that pass between a gradient's being taken and its being applied. Gradients still on
        their way when a call ends arrive in the next.
    alpha : float, default=0.0
        Strength of a regularisation in every round's loss, >= 0: the papers' lambda.
    fit_intercept : bool, default=True
        Whether to learn an intercept: the weight of a constant feature, inside the ball.
    intercept_scaling : float, default=1.0
        The constant feature's value, > 0.
    multi_class : {"crammer_singer", "ovr"}, default="crammer_singer"
        What to do about more than two classes; see ``PegasosClassifier``.
    average : bool, {"uniform", "polynomial"} or int, default=False
        Which mean of the iterates is the model; see ``PegasosClassifier``. The uniform mean is what
        turns a bound on the regret into one on the expected loss.
    max_iter : int, default=1
        Passes of ``fit`` over the examples.
    tol : float or None, default=None
        None makes ``max_iter`` passes. Else ``fit`` stops when the mean loss of a pass has not fallen
        by this for ``n_iter_no_change`` passes, and evaluates ``objective_``.
    n_iter_no_change : int, default=5
        The patience of that rule.
    sampling : {"shuffle", "blocks", "replacement", "storage"} or array of int, default="storage"
        Order of the examples in a pass; as they are stored, that is as they came, by default.
    class_weight : dict, "balanced" or None, default=None
        Multiplies the weight of each example by that of its class; "balanced" as in ``PegasosClassifier``.
    calibration : {"sigmoid", "temperature", "isotonic"} or None, default=None
        How ``predict_proba`` makes probabilities of scores. "sigmoid": a logistic function of each score (Platt), "isotonic"
        a rising step function, of several classes scaled to a sum of 1; "temperature": the softmax of all scores over one
        number, which leaves the order as it is. ``fit`` learns it from the scores that examples get from models of other
        folds, three of two classes, else five, or as few as the rarest class has examples; ``partial_fit`` from those that the
        last few thousand examples had when their batch came, before it was learned from. None: probabilities for
        ``loss="log_loss"`` alone, its own.
    warm_start : bool, default=False
        Whether ``fit`` goes on from where training is, with the same classes.
    n_jobs : int or None, default=None
        Threads for the problems of ``multi_class="ovr"``; see ``PegasosClassifier``.
    random_state : int, RandomState instance or None, default=None
        Seeds the orders.
    verbose : int, default=0
        Whether to show how training goes, with the loss: a bar in a terminal or a notebook, lines in a file.

    Attributes
    ----------
    cumulative_loss_ : float
        The sum of ``f_t(w_t)`` over all rounds since the first, over all calls; summed over the
        problems of "ovr". Of a problem that has joined with its class since then; where a third class has made scores of
        one joint score, of which nothing is known, nan.
    regret_bound_ : float
        No fixed ``w`` of the ball has a cumulative loss lower than ``cumulative_loss_`` by more than
        this; inf without a ball, but for steps of 1/(alpha t), whose bound needs none; nan once ``radius`` has changed.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights of the features, in the dtype of the data; after ``sparsify`` a CSR matrix.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts.
    alpha_ : float
        The ``alpha`` that the model was trained with.
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted. Of two, scores > 0 mean the second.
    n_iter_ : int
        Passes of the last ``fit``; 1 after ``partial_fit``.
    t_ : int
        Rounds, over all calls.
    loss_curve_ : list of float
        The mean loss in each pass, of each example just before it was learned from.
    objective_curve_ : list of float
        The objective with each entry of ``loss_curve_``; nan where it was not evaluated.
    objective_ : float
        ``alpha/2 ||w||^2`` plus the mean loss at the end of ``fit``; nan where ``tol=None``.
    dual_objective_, duality_gap_ : float
        nan: what is promised is little regret, not the optimum. So is every entry of ``dual_objective_curve_``.
    dual_objective_curve_ : list of float
        As long as ``loss_curve_``.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, where the data have names that are strings.

    See Also
    --------
    PegasosClassifier : Steps of 1/(alpha t) towards the optimum of all the examples, certified.

    Notes
    -----
    The bound is that of the theorem before gradients are replaced by their largest: with D the
    diameter of the ball, ``D^2/2 sum max(0, 1/eta_t - 1/eta_{t-1} - alpha) + 1/2 sum eta_t ||d_t||^2``,
    ``d_t`` the direction of step t, and with a delay what ``w`` moved while gradients were on their
    way. The documentation of the crate's ``Regret`` has it in full, for drifting comparators too.

    Time: O(stored features) a round, and twice as much again where the loss punishes. Memory: the
    weights (and as many float64 again with ``average``), and the rows whose gradients are in flight.

    What differs from the papers: only the loss's gradient is delayed, the regulariser's is known at
    once. One thread computes the rounds, whatever ``n_jobs``: that a delay lets ``delay`` scores be
    computed at once does not pay for rows as short as they are here.

    References
    ----------
    M. Zinkevich. "Online convex programming and generalized infinitesimal gradient ascent." ICML 2003.

    M. Zinkevich, J. Langford, A. Smola. "Slow learners are fast." NIPS 2009 (delayed gradients).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from pegasos import OnlineGradientClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = OnlineGradientClassifier(radius=2.0).fit(scale(X), y)
    >>> model.t_
    569
    >>> round(model.score(scale(X), y), 2)
    0.97
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        name: constraints
        for name, constraints in PegasosClassifier._parameter_constraints.items()
        if name
        not in {
            "solver",
            "projection",
            "batch_size",
            "early_stopping",
            "validation_fraction",
            "t0",
            "shards",
            "half_life",
        }
    } | {
        # The ball holds the intercept, too.
        "fit_intercept": ["boolean"],
        "radius": [Interval(Real, 0, None, closed="neither"), None],
        "delay": [Interval(Integral, 0, _LARGEST, closed="both")],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "learning_rate": [StrOptions({"invscaling", "constant", "pegasos"})],
    }

    # Parameters of the base class that have one value here.
    _fixed: ClassVar[dict[str, Any]] = {
        "solver": "pegasos",
        "projection": False,
        "batch_size": 1,
        "early_stopping": False,
        "t0": 0.0,
        "shards": 1,
        "half_life": None,
    }
    _counts_regret = True

    def __init__(
        self,
        loss: Loss = "hinge",
        *,
        radius: float | None = 1.0,
        learning_rate: LearningRate = "invscaling",
        eta0: float = 1.0,
        power_t: float = 0.5,
        delay: int = 0,
        alpha: float = 0.0,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        multi_class: Literal["crammer_singer", "ovr"] = "crammer_singer",
        average: Average = False,
        max_iter: int = 1,
        tol: float | None = None,
        n_iter_no_change: int = 5,
        sampling: Sampling = "storage",
        class_weight: ClassWeight = None,
        calibration: Calibrated = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.radius = radius
        self.learning_rate = learning_rate
        self.eta0 = eta0
        self.power_t = power_t
        self.delay = delay
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.multi_class = multi_class
        self.average = average
        self.max_iter = max_iter
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.sampling = sampling
        self.class_weight = class_weight
        self.calibration = calibration
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _has_certificate(self) -> bool:
        return False

    def _resume_trainer(self, data: Data) -> Trainer:
        trainer = super()._resume_trainer(data)
        if self._choice("radius") == self._made_with["radius"]:
            return trainer
        # The bound is one for a ball: the account goes on with its loss alone.
        parts = trainer.parts()
        for problem in parts["problems"]:
            if problem["regret"] is not None:
                loss, curvature, _, *rest = problem["regret"]
                problem["regret"] = [loss, curvature, np.nan, *rest]
        return Trainer.from_parts(parts)

    def _note(self, run: Run, classes: np.ndarray) -> None:
        super()._note(run, classes)
        self.cumulative_loss_, self.regret_bound_ = run.trainer.facts.regret
