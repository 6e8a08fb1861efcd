"""Linear models."""

from __future__ import annotations

from functools import cached_property
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from scipy.sparse import csr_matrix, issparse
from sklearn.linear_model._base import LinearClassifierMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from pegasos._base import _PegasosBase, refuse_changes
from pegasos._calibration import METHODS
from pegasos._core import Trainer
from pegasos._data import Data, as_data, explaining, read_only, validated
from pegasos._intercept import is_free, refuse_joint, refuse_steps, refuse_stream
from pegasos._run import Run
from pegasos._sparse import SparseCoefficients
from pegasos._steps import first_step, half_life, later_step
from pegasos._threads import thread_count
from pegasos._types import (
    Average,
    Calibrated,
    ClassWeight,
    LearningRate,
    Loss,
    RandomState,
    Sampling,
    Solver,
    Strength,
    checked,
)

if TYPE_CHECKING:
    from typing import Self


# What a trainer's weights mean, and how it learns: parameters that the compiled half has.
_STRUCTURE = ("multi_class", "fit_intercept", "intercept_scaling")
_TRAINING = (
    "loss",
    "alpha",
    "learning_rate",
    "eta0",
    "power_t",
    "t0",
    "projection",
    "radius",
    "batch_size",
    "delay",
    "average",
    "half_life",
)

# What fits into the compiled half's integers.
_LARGEST = 2**63 - 1


class _Exported:
    """The arrays of a trainer, exported when first asked for.

    A stream of single examples must not pay O(n_features) for each.
    """

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer

    @cached_property
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Weights, (problems, n_features), and intercepts, (problems,), in the data's dtype."""
        weights, intercepts = self.trainer.result()
        return read_only(weights.reshape(len(intercepts), -1)), read_only(intercepts.astype(weights.dtype))

    @cached_property
    def sparse(self) -> Any:
        """The weights that are not 0, as a CSR matrix."""
        return csr_matrix(self.arrays[0])


class PegasosClassifier(SparseCoefficients, LinearClassifierMixin, _PegasosBase):
    """Linear support vector machine or logistic regression, trained by Pegasos.

    A step looks at one example (or a small batch) and costs time in proportion to its stored
    features, so a first model is there after one look at the data and ``partial_fit`` goes on for
    as long as a stream does. Unlike other stochastic solvers it says how good it is: after a fit,
    ``duality_gap_`` bounds how far ``objective_`` is from the best there is.

    With ``w`` the weights, the intercept's among them, it minimises ::

        P(w) = alpha/2 ||w||^2 + 1/n sum_i weight_i loss(y_i <w, x_i>)

    where ``loss(m)`` is ``max(0, 1 - m)`` (hinge), its square, or ``log(1 + exp(-m))``, by the steps
    ``w <- (1 - eta alpha) w - eta weight_i loss'(m) y_i x_i``.

    Parameters
    ----------
    loss : {"hinge", "squared_hinge", "log_loss"}, default="squared_hinge"
        "hinge" is the papers' support vector machine, "squared_hinge" that of ``LinearSVC``, "log_loss" logistic
        regression. docs/defaults.md has the figures that the defaults rest on.
    alpha : float or "auto", default="auto"
        Strength of the regularisation, > 0: the papers' lambda. Means the same as in
        ``SGDClassifier``; in terms of ``LinearSVC``, ``C = 1/(alpha n_samples)``. "auto" is C = 1, ``1/n_samples``; 1e-4
        where training begins by ``partial_fit``.
    solver : {"auto", "pegasos", "dual"}, default="auto"
        "pegasos" is the papers' algorithm. "dual" is dual coordinate ascent alone, which closes the gap to any ``tol``, but
        may take thousands of epochs where ``alpha`` is small beside the rows. "auto" is "pegasos", which is ahead in the
        first epoch where ``alpha n_samples > 1``, and "dual" from the very same point as soon as that is faster, with leaps
        of Newton's method where it would be long; "pegasos" alone where a parameter asks for what only that has (another
        ``learning_rate`` or ``batch_size``, ``projection``, ``average``, ``half_life``, ``early_stopping``,
        ``warm_start``, ``shards``, ``sampling`` with replacement or by an array).
    fit_intercept : bool or "free", default=True
        Whether to learn an intercept: the weight of a constant feature, regularised like the others, as in ``LinearSVC``.
        "free" does not regularise it, as ``LogisticRegression(solver="lbfgs")`` and ``SVC`` do not: for features with means
        far from 0, or where one class is rare. It is for ``fit`` by dual ascent, so not for ``partial_fit``,
        ``warm_start``, ``solver="pegasos"`` and what that alone has, nor for "crammer_singer" of more than two classes.
    intercept_scaling : float, default=1.0
        The constant feature's value, > 0. The larger, the less the intercept is regularised. Means nothing to
        ``fit_intercept="free"``.
    multi_class : {"crammer_singer", "ovr"}, default="ovr"
        What to do about more than two classes. "crammer_singer" trains them jointly, with the loss
        ``max(0, 1 + max_{r != y} f_r - f_y)`` of the scores ``f``, hinge only; "ovr" trains one class
        against the rest, for each, in parallel. With "log_loss" that is ``OneVsRestClassifier(LogisticRegression())``, not the
        multinomial model that ``LogisticRegression`` is for more than two classes.
    learning_rate : {"pegasos", "invscaling", "constant"}, default="pegasos"
        The step size ``eta`` at step t: ``1/(alpha (t0 + t))``, ``eta0/(t0 + t)^power_t`` or
        ``eta0``.
    eta0 : float, default=1.0
        First step size of "invscaling", only one of "constant"; at most ``1/alpha``.
    power_t : float, default=0.5
        Exponent of "invscaling"; 0.5 and 1 are Zinkevich's choices.
    projection : bool, default=False
        Whether to project ``w``, after each step, onto a ball that is known to hold the optimum: of
        radius ``sqrt(r mean(weight)/alpha)`` with r = 1, 1/2 and 0.27846 for the three losses. The
        papers' optional step; the mean weight is that of the first call's examples.
    average : bool, {"uniform", "polynomial"} or int, default=False
        Which mean of the iterates is the model: none (the last iterate), all alike, or weighted by
        k (k + 1) (k + 2) for the k-th. True means "polynomial"; an integer k the uniform mean from
        step k on.
    half_life : float or None, default=None
        For streams that drift: the weight that an example has for the model halves every so many examples, > 0. Steps are
        ``max(1/(alpha (t0 + t)), (1 - 2^(-1/half_life))/alpha)``: w is about a mean over the last 1.44 half_life examples.
        "auto" for ``alpha`` is 1 over their number then (for the squared hinge the largest ``2 ||x||^2`` of the first call,
        but for rows that stand out, over it) if that is more. None: all examples count alike. There is no certificate; docs/online.md has more.
    batch_size : int, default=1
        Examples a step: it moves along their mean gradient. The last batch of an epoch, or of a call
        of ``partial_fit``, may be smaller.
    max_iter : int, default=100
        The most epochs ``fit`` may take. An epoch of dual ascent is ``n_samples`` visits, in several
        passes where settled examples are passed over.
    tol : float or None, default=1e-3
        Where there is a certificate (see Notes), ``fit`` stops when the relative duality gap
        ``(P - D)/P`` is at most this. Elsewhere, when the mean loss has not fallen by ``tol`` for
        ``n_iter_no_change`` epochs. None runs ``max_iter`` epochs and evaluates no objective, which
        would cost about half an epoch each time.
    early_stopping : bool, default=False
        Whether to hold out a part of the examples (a copy of both parts is made) and to stop when
        its accuracy has not risen by ``tol`` for ``n_iter_no_change`` epochs.
    validation_fraction : float, default=0.1
        The part held out, in (0, 1).
    n_iter_no_change : int, default=5
        The patience of the rules without a certificate.
    sampling : {"shuffle", "blocks", "replacement", "storage"} or array of int, default="shuffle"
        Order of the examples in an epoch: a fresh permutation; a fresh permutation of blocks of 32
        rows, up to twice as fast and as good unless the rows are sorted by class; uniform draws with
        replacement; as they are stored; or the row numbers given (not with ``early_stopping``).
    class_weight : dict, "balanced" or None, default=None
        Multiplies the weight of each example by that of its class, as in ``SVC``. "balanced": n_samples/(n_classes
        count) of its class; in ``partial_fit`` of all examples so far, those of the call included.
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
        Threads for the problems of ``multi_class="ovr"`` (on sparse rows eight of them are one task), for ``shards`` and
        for predictions; -1 is one per core.
        None is the first set of the environment variables PEGASOS_NUM_THREADS, RAYON_NUM_THREADS and
        OMP_NUM_THREADS, else one per core; never more than four for each core. No bit of the result depends on it.
    random_state : int, RandomState instance or None, default=None
        Seeds the orders. An int makes fits repeat bit for bit, on processors of one instruction set.
    verbose : int, default=0
        Whether to show how training goes, with loss and certified gap: a bar in a terminal or a notebook, lines in a file.
        docs/watching.md has more.
    t0 : float or "auto", default="auto"
        Added to the step number in the step size. ``1/alpha`` tames the first steps when ``alpha n``
        is small. "auto" is 0, but for the squared hinge under "pegasos", whose first steps would
        swing ever wider: there it is the largest curvature of an example's loss over ``alpha``, in ``fit`` times
        ``shards``. A stream raises it where examples come for which the next step would be too long, but not for a few that are
        much larger than the others: these count for so much less (docs/online.md). Dual ascent counts as its visits in ``t_``:
        where these were few, ``t0`` of some epochs' examples keeps ``partial_fit`` from undoing what it has found.
    shards : int, default=1
        Parts that each epoch's order is cut into. A copy of the model learns from each, side by side
        on ``n_jobs`` threads, and the copies are averaged at the end of the epoch. So one problem can
        keep several cores busy; the number of shards changes the result, that of threads does not.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights of the features, in the dtype of the data; after ``sparsify`` a CSR matrix.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts.
    alpha_ : float
        The ``alpha`` that the model was trained with.
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted. Of two, scores > 0 mean the second.
    n_iter_ : int
        Epochs of the last ``fit``; 1 after ``partial_fit``.
    t_ : int
        Steps done, over all calls.
    objective_ : float
        ``P(w)`` at the end of ``fit``, summed over the problems of "ovr"; nan where it was not
        evaluated (``tol=None``, ``partial_fit``). A free intercept is no part of ``||w||``.
    dual_objective_ : float
        ``D``: no weights have an objective below this. nan where there is no certificate.
    duality_gap_ : float
        ``P - D``, a bound on how far ``objective_`` is from the minimum.
    loss_curve_ : list of float
        The mean loss in each epoch, of each example just before it was learned from.
    objective_curve_, dual_objective_curve_ : list of float
        P, and the bound from below that was known then, with each entry of ``loss_curve_``; nan where they were not
        evaluated. `TrainingCurveDisplay` draws them.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, where the data have names that are strings.

    See Also
    --------
    sklearn.linear_model.SGDClassifier : More losses and penalties; no certificate.
    sklearn.svm.LinearSVC : The same objective by dual coordinate descent; no ``partial_fit``.

    Notes
    -----
    Time: O(stored features x classes) for a step, O(stored features) for a moved class. For sparse rows the weights of
    all classes of a feature stand side by side, and take memory for 4, 8 or a multiple of 16 classes. Where the first rows
    to learn from are sparse, of more than 256 columns, one pass over them serves up to eight problems of "ovr", which have
    the same order of examples anyhow; the steps are the same, to the last bit. Not with ``projection``, as each problem has
    a norm of its own. Of more than 64 classes trained jointly, or more than eight where rows are dense with 64
    features or more, an epoch of dual ascent has passes over the classes that examples are mistaken for, too; they
    cost as many products as there are rows and classes at most.
    Memory, beside the data, which are never copied where they are C-contiguous or CSR, in float32 or
    float64, with int32 or int64 indices: the weights (and as many float64 again with ``average``),
    12 bytes an example while fitting. Dual ascent takes 8 bytes a weight and 17 an example, and 8 more
    an example for every class but the first where all are trained jointly (of so many classes 25, and 16 for
    every class that the example is mistaken for; there must be room for 8 for each, all the same); leaps along the way of
    its epochs, with the hinge losses, some 170 for each example that still moves; a leap of Newton's method (at
    most 256 features, or dense rows that are spread evenly over more) some 60 an example, of classes trained jointly
    (at most 512 weights of all of them) 50 for each class. A free intercept takes 8 bytes an example, in an evaluation 8 more for each score and 24 a weight.

    The certificate needs ``learning_rate="pegasos"``, no projection and another ``sampling`` than
    "replacement". Then ``w`` is ``1/(alpha (t0 + t))`` times the sum of all gradients, so the sum of
    an example's own gradients is its dual variable. It holds for every such ``w`` and for the
    averages, in float32 up to rounding.

    Bad values (NaN, infinity, numbers so large that a score overflows) and bad column indices are
    found while training and predicting, without a pass of their own; ``partial_fit`` and warm starts look before
    they learn, and learn in a copy of the model, or from a copy of the batch, whichever is smaller: a model in use
    never learns half of a bad batch, whatever another thread does to the arrays meanwhile. After Ctrl-C it is what
    some number of its steps had made of it, and ``t_`` says how many.

    What differs from the papers: the margin is always that of the present ``w``; the norm that
    projection needs is summed from the weights that change; 1/(alpha t) steps without projection
    keep the plain sum of the gradients, so no rounding of a scale adds up.

    References
    ----------
    S. Shalev-Shwartz, Y. Singer, N. Srebro, A. Cotter. "Pegasos: primal estimated sub-gradient
    solver for SVM." Mathematical Programming 127 (2011), Algorithm 1 and section 2.

    R. Johansson. "Clarification of the pseudocode in the Pegasos paper."

    O. Shamir, T. Zhang. "Stochastic gradient descent for non-smooth optimization: convergence
    results and optimal averaging schemes." ICML 2013 (polynomial-decay averaging).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from pegasos import PegasosClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = PegasosClassifier(alpha=0.1, max_iter=1000, random_state=0).fit(scale(X), y)
    >>> round(model.score(scale(X), y), 2)
    0.99
    >>> bool(model.duality_gap_ <= 1e-3 * model.objective_)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "loss": [StrOptions({"hinge", "squared_hinge", "log_loss"})],
        "alpha": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "solver": [StrOptions({"auto", "pegasos", "dual"})],
        "fit_intercept": ["boolean", StrOptions({"free"})],
        "intercept_scaling": [Interval(Real, 0, None, closed="neither")],
        "multi_class": [StrOptions({"crammer_singer", "ovr"})],
        "learning_rate": [StrOptions({"pegasos", "invscaling", "constant"})],
        "eta0": [Interval(Real, 0, None, closed="neither")],
        "power_t": [Interval(Real, 0, None, closed="left")],
        "t0": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
        "projection": ["boolean"],
        "average": [
            "boolean",
            StrOptions({"uniform", "polynomial"}),
            Interval(Integral, 1, _LARGEST, closed="both"),
        ],
        "half_life": [Interval(Real, 0, None, closed="neither"), None],
        "batch_size": [Interval(Integral, 1, _LARGEST, closed="both")],
        "max_iter": [Interval(Integral, 1, _LARGEST, closed="both")],
        "tol": [Interval(Real, 0, None, closed="left"), None],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, _LARGEST, closed="both")],
        "sampling": [StrOptions({"shuffle", "blocks", "replacement", "storage"}), "array-like"],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "calibration": [StrOptions(set(METHODS)), None],
        "warm_start": ["boolean"],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "shards": [Interval(Integral, 1, _LARGEST, closed="both")],
    }

    # What subclasses make parameters of.
    _fixed: ClassVar[dict[str, Any]] = {"radius": None, "delay": 0}
    _counts_regret = False

    #: Into how many shards the call at hand cuts an epoch: ``partial_fit`` has none.
    _parts_of_epoch = 1

    #: Whether ``coef_`` is a sparse matrix.
    _is_sparsified = False

    def __init__(
        self,
        loss: Loss = "squared_hinge",
        *,
        alpha: Strength = "auto",
        solver: Solver = "auto",
        fit_intercept: bool | Literal["free"] = True,
        intercept_scaling: float = 1.0,
        multi_class: Literal["crammer_singer", "ovr"] = "ovr",
        learning_rate: LearningRate = "pegasos",
        eta0: float = 1.0,
        power_t: float = 0.5,
        projection: bool = False,
        average: Average = False,
        half_life: float | None = None,
        batch_size: int = 1,
        max_iter: int = 100,
        tol: float | None = 1e-3,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        sampling: Sampling = "shuffle",
        class_weight: ClassWeight = None,
        calibration: Calibrated = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        verbose: int = 0,
        t0: Strength = "auto",
        shards: int = 1,
    ) -> None:
        self.loss = loss
        self.alpha = alpha
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.multi_class = multi_class
        self.learning_rate = learning_rate
        self.eta0 = eta0
        self.power_t = power_t
        self.projection = projection
        self.average = average
        self.half_life = half_life
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.sampling = sampling
        self.class_weight = class_weight
        self.calibration = calibration
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.t0 = t0
        self.shards = shards

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self.multi_class == "ovr" or self.loss == "hinge"
        return tags

    @checked
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, X_val: Any = None, y_val: Any = None
    ) -> Self:
        """Train on all of the examples, for at most ``max_iter`` epochs.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The examples' features.
        y : array-like of shape (n_samples,)
            Their classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Their weights, finite, >= 0 and not all 0; ones by default.
        X_val, y_val : {array-like, sparse matrix} of shape (n_val, n_features), array-like of shape (n_val,), default=None
            Examples of the same classes to stop by, as ``early_stopping`` does, whose own part is not held out then: this
            fit ends when the accuracy on these has not risen by ``tol`` for ``n_iter_no_change`` epochs. In a Pipeline,
            ``transform_input=["X_val"]`` takes them through the steps before.

        Returns
        -------
        self : PegasosClassifier
            The fitted estimator. After Ctrl-C it holds what was learned until then.

        Raises
        ------
        ValueError
            If an argument or a parameter is not as described. The estimator is as it was before.
        MemoryError
            If there is not enough memory. The estimator is as it was before.
        """
        with self._all_or_nothing() as twin:
            twin._is_sparsified = False
            twin._parts_of_epoch = int(twin._choice("shards"))
            twin._fit(X, y, sample_weight, X_val, y_val)
        return self

    @checked
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Visit these examples once, going on from where training is.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The examples' features. The first call decides the dtype of the weights.
        y : array-like of shape (n_samples,)
            Their classes.
        classes : array-like of shape (n_classes,), default=None
            All classes that may come. Who names them to the first call is protected from slips: a y of no class that was
            named is an error. A later call may name more, which join; those of ``fit`` count as named. None to the
            first call takes what comes: a class that nobody has named joins with its first example, and one that comes
            alone waits, untold from anything, for a second. What joins begins at 0: docs/online.md has more.
        sample_weight : array-like of shape (n_samples,), default=None
            Their weights, finite, >= 0 and not all 0; ones by default.

        Returns
        -------
        self : PegasosClassifier
            The estimator, ``n_samples`` examples wiser.

        Raises
        ------
        ValueError
            If an argument or a parameter is not as described, or the numbers would overflow. Nothing was learned
            then: bad batches are refused before the first step, or what was learned from them is undone.
        MemoryError
            If there is not enough memory. Nothing was learned then.
        """
        refuse_stream(self)
        with self._all_or_nothing() as twin:
            twin._parts_of_epoch = 1
            twin._partial_fit(X, y, classes, sample_weight)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of the classes, ``X @ coef_.T + intercept_``, on ``n_jobs`` threads.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The examples' features.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Of two classes, one score, > 0 for the second.

        Raises
        ------
        ValueError
            If X is not as described, or a score overflows.

        Notes
        -----
        Time: O(stored features x classes). Nothing is copied where X is C-contiguous or CSR, in float32 or float64.
        """
        check_is_fitted(self)
        # Single precision is widened for weights in double, not the other way.
        dtype: Any = np.float64
        if self._trainer.made.dtype == "float32":
            dtype = [np.float64, np.float32]
        X = validated(self, X, dtype=dtype, reset=False, finite=False)
        with explaining(X, self):
            return self._scores(self._trainer, X)

    def _all_scores(self, X: Any) -> np.ndarray:
        return self.decision_function(X)

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

        Raises
        ------
        ValueError
            As by ``decision_function``.
        """
        found: np.ndarray = super().predict(X)
        return found

    @property
    def alpha_(self) -> float:
        """The strength of the regularisation that the model was trained with."""
        check_is_fitted(self)
        return float(self._made_with["alpha"])

    @property
    def coef_(self) -> np.ndarray:
        """Weights of the features, (1, n_features) or (n_classes, n_features)."""
        weights = self._result()[0]
        return self._exported.sparse if self._is_sparsified else weights

    @property
    def intercept_(self) -> np.ndarray:
        """Intercepts, (1,) or (n_classes,)."""
        return self._result()[1]

    def _give(self, *, sparse: bool) -> None:
        check_is_fitted(self)
        self._is_sparsified = sparse

    def _result(self) -> tuple[np.ndarray, np.ndarray]:
        check_is_fitted(self)
        return self._exported.arrays

    #: Of its trainer.
    _kind = "linear"

    def _extra(self) -> dict[str, Any]:
        """What a file must hold beside parameters, attributes and trainer."""
        return {}

    def _check_restored(self, extra: dict[str, Any]) -> None:
        want = (1 if len(self.classes_) <= 2 else len(self.classes_), self.n_features_in_)
        if extra or self.coef_.shape != want:
            raise ValueError(f"the weights must have shape {want}, got {self.coef_.shape}")
        if not (np.isfinite(self.coef_).all() and np.isfinite(self.intercept_).all()):
            raise ValueError("the weights must be finite")

    def _note(self, run: Run, classes: np.ndarray) -> None:
        super()._note(run, classes)
        self._made_with = self._chosen()

    def _export(self) -> None:
        self._exported = _Exported(self._trainer)

    def _scores(self, trainer: Trainer, X: Any) -> np.ndarray:
        # A 0 was refused, or will be, by whoever trains with it.
        threads = thread_count(self.n_jobs or None)
        flat = trainer.scores(as_data(X).examples, threads=threads)
        scores = flat.reshape(X.shape[0], -1).astype(X.dtype, copy=False)
        return scores.ravel() if scores.shape[1] == 1 else scores

    def _learns_in_place(self, data: Data) -> bool:
        return data.stored < self._trainer.facts.size


    def _refuse_dual(self, obstacle: str | None) -> None:
        super()._refuse_dual(obstacle)
        refuse_steps(self, obstacle)

    def _constant(self) -> float:
        """The value of the constant feature whose weight is the intercept."""
        if is_free(self):
            return 1.0
        return float(self.intercept_scaling) if self.fit_intercept else 0.0

    def _targets(self, n_classes: int) -> list[int] | int:
        if n_classes == 2 or self.multi_class == "ovr":
            return [1] if n_classes == 2 else list(range(n_classes))
        if self.loss != "hinge":
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass. "
                f"multi_class='crammer_singer' needs loss='hinge', got loss={self.loss!r}; "
                "multi_class='ovr' takes any"
            )
        refuse_joint(self, n_classes)
        return n_classes

    def _make_trainer(self, data: Data, n_classes: int) -> Trainer:
        if n_classes < 2:
            raise ValueError(
                f"y must hold at least two classes to tell apart, got {n_classes} class"
            )
        return Trainer.linear(
            int(data.X.shape[1]),
            issparse(data.X),
            self._targets(n_classes),
            data.X.dtype.name,
            self._constant(),
            self._params(data),
        )

    def _resume_trainer(self, data: Data) -> Trainer:
        now, t0 = self._chosen(), later_step(self, data, self._trainer)
        if now == self._made_with and t0 is None:
            return self._trainer
        refuse_changes(_STRUCTURE, self._made_with, now, "weights")
        parts = self._trainer.parts()
        before, parts["params"] = parts["params"], self._params(data)
        parts["params"]["ahead"] = before.get("ahead", 0.0)
        if all(now[name] == self._made_with[name] for name in ("t0", "loss", "alpha", "learning_rate")):
            # Not that of a first step, which this batch would ask for.
            parts["params"]["t0"] = before["t0"] if t0 is None else t0
        if now["average"] == self._made_with["average"]:
            parts["params"]["average_from"] = before["average_from"]
        else:
            # Another kind of mean begins here.
            for problem in parts["problems"]:
                problem.update(u=np.empty(0), ub=np.empty(0), sum_a=0.0, sum_q=0.0)
            first = parts["params"]["average_from"]
            parts["params"]["average_from"] = max(first, self._trainer.facts.t + 1)
        return Trainer.from_parts(parts)

    def _chosen(self) -> dict[str, Any]:
        """The parameters that a trainer is made with."""
        chosen = {name: self._choice(name) for name in (*_STRUCTURE, *_TRAINING)}
        # True is not the number 1 here.
        return chosen | {"average": self._averaging()}

    def _params(self, data: Data) -> dict[str, Any]:
        """The parameters as the compiled half takes them."""
        average, average_from = self._averaging()
        weight = data.weight
        mean_weight = 1.0 if weight is None else float(weight.mean())
        return {
            "loss": self.loss,
            "alpha": float(self._choice("alpha")),
            "learning_rate": self.learning_rate,
            "eta0": float(self.eta0),
            "power_t": float(self.power_t),
            "t0": first_step(self, data),
            "half_life": half_life(self),
            "projection": mean_weight if self._choice("projection") else None,
            "radius": None if self._choice("radius") is None else float(self._choice("radius")),
            "batch_size": int(self._choice("batch_size")),
            "delay": int(self._choice("delay")),
            "regret": self._counts_regret,
            "free": is_free(self),
            "average": average,
            "average_from": average_from,
        }
