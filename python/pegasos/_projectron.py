"""Projectron and Projectron++: kernel perceptrons of bounded size."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Literal

from sklearn.utils._param_validation import Interval, StrOptions

from pegasos._budget import Budget, BudgetedMachine, Room
from pegasos._calibration import METHODS
from pegasos._types import Calibrated, ClassWeight, RandomState, Sampling, Width


class ProjectronClassifier(BudgetedMachine):
    """Kernel perceptron that projects mistakes onto its support vectors where it can.

    A mistake whose image is within ``threshold`` (in squared distance) of the span of the support vectors
    becomes no support vector: their coefficients take on its projection. So their number stays bounded;
    with a ``budget`` it is never more than that. Projectron++ also learns from examples that
    are right, but not by a margin of 1.

    With ``d = K^-1 k`` and ``delta = k(x, x) - k'd`` the squared distance, and ``f`` the score of the example's
    class minus the best other (of two classes, y times the score)::

        f <= 0, delta <= threshold (or no room):  a_j += y d_j
        f <= 0, else:                             x becomes a support vector, a_x = y
        0 < f < 1, 1 - f > delta/threshold:       a_j += y tau d_j
            tau = min(l/q, 1, 2 (l - delta/threshold)/q),  l = 1 - f,  q = k(x, x) - delta

    With more than two classes y stands for +1 at the class and -1 at the best other, and q is twice that.

    Parameters
    ----------
    kernel : {"rbf", "poly", "linear", "sigmoid"}, default="rbf"
        As in ``KernelPegasosClassifier``.
    threshold : float, default=0.1
        The squared distance, >= 0, up to which a mistake is projected: the papers' eta, which compares with
        it so in its authors' own code.
    budget : int or None, default=None
        The most support vectors there may ever be. When there are as many, every mistake is projected.
    margin : bool, default=True
        Whether this is Projectron++.
    gamma : {"scale", "auto"} or float, default="scale"
        "scale" is ``1/(n_features X.var())``, "auto" ``1/n_features``; of the first batch, where
        training begins by ``partial_fit``.
    degree : int, default=3
        Of the "poly" kernel, >= 0.
    coef0 : float, default=0.0
        Of the "poly" and "sigmoid" kernels.
    average : bool, default=False
        Whether the model is a mean of the recent iterates, over ``2 budget`` updates at most, not the
        last.
    max_iter : int, default=1
        Epochs, at most.
    tol : float or None, default=1e-3
        Stop when the mean loss of an epoch has not fallen by this much for 5 epochs. None: never.
    sampling : {"shuffle", "blocks", "replacement", "storage"} or array of int, default="shuffle"
        The order of an epoch: a fresh permutation of all rows or of blocks of 32, uniform draws, the
        rows as they stand, or these row numbers.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, by which examples' weights, and so their steps, are multiplied. "balanced" as in
        ``PegasosClassifier``.
    calibration : {"sigmoid", "temperature", "isotonic"} or None, default=None
        How ``predict_proba`` makes probabilities of scores. "sigmoid": a logistic function of each score (Platt), "isotonic"
        a rising step function, of several classes scaled to a sum of 1; "temperature": the softmax of all scores over one
        number, which leaves the order as it is. ``fit`` learns it from the scores that examples get from models of other
        folds, three of two classes, else five, or as few as the rarest class has examples; ``partial_fit`` from those that the
        last few thousand examples had when their batch came, before it was learned from.
    warm_start : bool, default=False
        Whether ``fit`` goes on from where training is.
    history : int or None, default=None
        If given, ``history_`` tells what was reached after every so many examples.
    n_jobs : int or None, default=None
        Threads; None for the first set of PEGASOS_NUM_THREADS, RAYON_NUM_THREADS and
        OMP_NUM_THREADS, else all cores; never more than four for each core. Changes no bit of the result.
    random_state : int, RandomState or None, default=None
        Seed of the orders.
    verbose : int, default=0
        Whether to show how training goes, with the accuracy so far: a bar in a terminal or a notebook, lines in a file.

    Attributes
    ----------
    support_vectors_ : {ndarray, sparse matrix} of shape (n_sv, n_features)
        Sparse if X is.
    dual_coef_ : ndarray of shape (1, n_sv) or (n_classes, n_sv)
        Their coefficients.
    coef_ : {ndarray, sparse matrix} of shape (1, n_features) or (n_classes, n_features)
        Weights of the features, ``dual_coef_ @ support_vectors_``; only with ``kernel="linear"``. Sparse if X is.
    n_support_ : ndarray of shape (n_classes,)
        For how many of them each class has the largest coefficient.
    mean_gradient_error_ : float
        The mean over the examples of the distance by which projections have missed.
    history_ : dict of ndarray
        "t", "accuracy" (of all examples until then, each before it was learned from) and
        "mean_gradient_error"; only with ``history``.
    classes_ : ndarray of shape (n_classes,)
        The classes.
    t_ : int
        Examples visited.
    n_iter_ : int
        Epochs.
    loss_curve_ : list of float
        The mean hinge loss of each epoch, every example scored before it was learned from.
    objective_, dual_objective_, duality_gap_ : float
        nan: a perceptron minimises nothing.
    objective_curve_, dual_objective_curve_ : list of float
        nan for each entry of ``loss_curve_``.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if X has names.

    See Also
    --------
    KernelPegasosClassifier : Support vector machines on a budget, which regularise.

    Notes
    -----
    Time: O(n_sv (n_features + n_classes)) an example, O(n_sv^2) more for one that is learned from. Memory: O(n_sv
    (n_sv + n_features + n_classes)), ``4 n_sv^2`` bytes of it for the inverse of the kernel matrix.

    References
    ----------
    F. Orabona, J. Keshet, B. Caputo. "Bounded kernel-based online learning." JMLR 10 (2009).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import train_test_split
    >>> from pegasos import ProjectronClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> X, X_test, y, y_test = train_test_split(X / 16.0, y, random_state=0)
    >>> model = ProjectronClassifier(gamma=0.5, budget=100, random_state=0).fit(X, y)
    >>> len(model.support_vectors_), bool(model.score(X_test, y_test) > 0.9)
    (100, True)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [StrOptions({"rbf", "poly", "linear", "sigmoid"})],
        "threshold": [Interval(Real, 0, None, closed="left")],
        "budget": [Interval(Integral, 1, 2**31 - 1, closed="both"), None],
        "margin": ["boolean"],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0, None, closed="neither")],
        "degree": [Interval(Integral, 0, 2**31 - 1, closed="both")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "average": ["boolean"],
        "max_iter": [Interval(Integral, 1, 2**63 - 1, closed="both")],
        "tol": [Interval(Real, 0, None, closed="left"), None],
        "sampling": [StrOptions({"shuffle", "blocks", "replacement", "storage"}), "array-like"],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "calibration": [StrOptions(set(METHODS)), None],
        "warm_start": ["boolean"],
        "history": [Interval(Integral, 1, 2**63 - 1, closed="both"), None],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    _structure = ("kernel", "gamma", "degree", "coef0", "budget")
    _training = ("threshold", "margin", "average")

    _instead: ClassVar[dict[str, str]] = {}

    # What a perceptron does without.
    _fixed: ClassVar[dict[str, Any]] = BudgetedMachine._fixed | {
        "alpha": 1.0,
        "half_life": None,
        "fit_intercept": False,
        "projection": False,
        "batch_size": 1,
        "solver": "pegasos",
        "maintenance": "projectron",
        "refine": False,
        "multi_class": "crammer_singer",
        "decision_function_shape": "ovr",
    }

    def __init__(
        self,
        kernel: Literal["rbf", "poly", "linear", "sigmoid"] = "rbf",
        *,
        threshold: float = 0.1,
        budget: int | None = None,
        margin: bool = True,
        gamma: Width = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        average: bool = False,
        max_iter: int = 1,
        tol: float | None = 1e-3,
        sampling: Sampling = "shuffle",
        class_weight: ClassWeight = None,
        calibration: Calibrated = None,
        warm_start: bool = False,
        history: int | None = None,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.threshold = threshold
        self.budget = budget
        self.margin = margin
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.average = average
        self.max_iter = max_iter
        self.tol = tol
        self.sampling = sampling
        self.class_weight = class_weight
        self.calibration = calibration
        self.warm_start = warm_start
        self.history = history
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @property
    def _room(self) -> Room:
        return Budget(self)
