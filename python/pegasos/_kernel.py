"""Kernel Pegasos, with and without a budget."""

from __future__ import annotations

from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import assert_all_finite
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from pegasos._budget import Budget, Room, budget_bound
from pegasos._calibration import METHODS
from pegasos._core import Trainer
from pegasos._data import Data, as_data
from pegasos._machine import Exported, n_outputs
from pegasos._metric_machine import MetricMachine
from pegasos._progress import say
from pegasos._refit import can_hold_out
from pegasos._run import Run
from pegasos._stream import Stream
from pegasos._types import (
    Average,
    Calibrated,
    ClassWeight,
    Kernel,
    Maintenance,
    MetricKind,
    RandomState,
    Sampling,
    Solver,
    Strength,
    Width,
)
from pegasos._unlimited import Unlimited

if TYPE_CHECKING:
    from collections.abc import Callable


#: Of more rows no exact machine is made unless it is asked for: where labels are noisy 100,000 dense ones of some thirty features
#: take about a minute. Sparse rows are mostly so wide that all of them are support vectors.
MOST_EXACT = 100_000
MOST_EXACT_SPARSE = 50_000

#: The budget of those, and the C of which their refit takes the best: so few vectors keep a model simple by themselves.
MANY_VECTORS = 1000
MANY_C = (1.0, 10.0, 100.0)

#: Sparse rows of more features are not merged, as mergers are dense.
MOST_MERGED = 4096


def _intercept(trainer: Trainer, coefs: np.ndarray) -> np.ndarray:
    """What a constant feature adds to the scores, given the coefficients of the vectors."""
    constant = trainer.made.params.get("constant", 0.0)
    found: np.ndarray = coefs.sum(axis=1, dtype=np.float64) * constant**2
    return found.astype(coefs.dtype)


def _gram(kernel: Callable[[Any, Any], Any], X: Any, Z: Any) -> np.ndarray:
    """Kernel values by a callable."""
    found = kernel(X, Z)
    if issparse(found):
        raise ValueError(f"kernel must return a dense array of shape {(X.shape[0], Z.shape[0])}, got a sparse matrix")
    try:
        gram = np.asarray(found)
    except (OverflowError, TypeError, ValueError) as error:
        raise ValueError(f"kernel must return an array of shape {(X.shape[0], Z.shape[0])}: {error}") from error
    if gram.shape != (X.shape[0], Z.shape[0]):
        raise ValueError(
            f"kernel must return an array of shape {(X.shape[0], Z.shape[0])}, got {gram.shape}"
        )
    if gram.dtype.kind not in "biuf":
        raise ValueError(f"kernel must return real numbers, got dtype {gram.dtype}")
    assert_all_finite(gram, input_name="the kernel's values")
    return np.require(gram, X.dtype, ["C"])


class KernelPegasosClassifier(MetricMachine):
    """Support vector machine with a kernel, trained by Pegasos; on a budget, if you like.

    One pass over the data gives a good model, ``partial_fit`` learns from a stream, and
    ``solver="auto"`` goes on by dual ascent to the exact solution, with a certificate. With a ``budget``
    there are never more support vectors than that: time an example and memory stay constant, however long the
    stream.

    With ``phi(x)`` the image of x under the kernel, it minimises ::

        P(w) = alpha/2 ||w||^2 + 1/n sum_i weight_i max(0, 1 - y_i <w, phi(x_i)>)

    by the steps ``w <- (1 - 1/t) w + [y_i <w, phi(x_i)> < 1] weight_i y_i phi(x_i)/(alpha t)``, where
    ``w`` is a sum over support vectors and the steps change their coefficients. More than two classes
    are told apart as ``multi_class`` says: jointly, with Crammer and Singer's loss, ``max(0, 1 + max_{r != y} f_r - f_y)``,
    each from all others, or pair by pair, as in ``SVC``. Support vectors are stored once for all.

    Parameters
    ----------
    kernel : {"rbf", "poly", "linear", "sigmoid", "precomputed"} or callable, default="rbf"
        "rbf" is ``exp(-gamma ||x - z||^2)``, "poly" ``(gamma <x, z> + coef0)^degree``, "sigmoid"
        ``tanh(gamma <x, z> + coef0)``, as in ``SVC``. With "precomputed", X holds kernel values: of
        every row with every row in ``fit``, of every row with every row of ``fit`` later. A callable
        takes two matrices and returns the kernel values of their rows; the rows of ``fit`` are copied for it.
        Certificates and dual ascent need a kernel that is positive semi-definite. "rbf", "linear" and "poly" with
        ``coef0 >= 0`` are; "sigmoid" and other "poly" are not known to be. What is precomputed, or comes from a
        callable, is looked at, unless ``tol=None`` and ``solver="pegasos"`` do not ask: a Cholesky factorisation,
        n^3/3 multiplications in double precision.
    alpha : float or "auto", default="auto"
        Strength of the regularisation, > 0: the papers' lambda. In terms of ``SVC``,
        ``C = 1/(alpha n_samples)``. "auto" is C = 1, ``1/n_samples``; 1e-4 where training begins by ``partial_fit``. Where
        ``budget="auto"`` sets a budget, the refit at its end has a C of 1, 10 or 100, whichever is right most often on a
        tenth of the rows that is held out: ``refit_path_`` tells.
    gamma : {"scale", "auto"} or float, default="scale"
        "scale" is ``1/(n_features X.var())``, "auto" ``1/n_features``; of the first batch, where
        training begins by ``partial_fit``.
    degree : int, default=3
        Of the "poly" kernel, >= 0.
    coef0 : float, default=0.0
        Of the "poly" and "sigmoid" kernels.
    metric : {"plain", "diagonal", "full", "auto"}, default="plain"
        Whether ``fit`` learns a metric first, for ``kernel="rbf"``: the kernel is ``exp(-gamma (x - z)' M (x - z))`` then,
        with M diagonal, a weight for each feature, or full; the width of the kernel, alpha (where it is "auto": C = 1
        or 8) and the power of the gradients' products that M is are those that do best on a fifth of the rows, or of
        20,000, which rounds do not learn from. "auto" tries both, "diagonal" for sparse rows, and keeps the
        plain metric unless another is better by more than chance would have it. ``partial_fit`` goes on in the metric
        that there is, the plain one where training begins with it; ``refit`` learns one more round on request. docs/metric.md.
    metric_rounds : int, default=8
        Rounds of learning a metric, at most: a machine on a budget of no more than 1000, the mean products of its gradients,
        the next metric. They end after two that are no better than the best before.
    budget : int, None or "auto", default="auto"
        The most support vectors there may ever be: the papers' B. None: every violator becomes one. "auto" is None, but
        where ``fit`` has more than 100,000 rows of features (50,000 sparse ones), those without weight not counted, and
        ``solver="auto"``: there it is 1000.
    maintenance : {"auto", "merge", "project", "remove", "random"}, default="auto"
        What happens when there is one too many, so that ``w`` changes least. "auto" is "merge" for ``kernel="rbf"``,
        "project" for others and for sparse rows of more than 4096 features. "merge": the one with the
        smallest coefficients and the one that makes least of it become one between them; only for
        ``kernel="rbf"``, and support vectors are dense then. "project": the one with the smallest coefficients
        is projected onto the others. "remove": it goes. "random": any goes.
    average : bool, {"uniform", "polynomial"} or int, default=True
        Which mean of the iterates is the model. True: of those that the recent violations have made, by
        exponentially decaying weights over min(violations/8, 2 budget) of them (budget/20 where vectors are
        removed, as they are gone from the mean too). False: the last iterate. "uniform": of all, alike; an
        integer k: of those from step k on. "polynomial": weighted by k (k + 1) (k + 2) for the k-th. On a budget the
        mean is carried through every change of the support vectors.
    half_life : float or None, default=None
        For streams that drift: the weight that an example has for the model halves every so many examples, > 0. Steps are
        ``max(1/(alpha t), (1 - 2^(-1/half_life))/alpha)``, so that w is about a mean over the last 1.44 half_life examples;
        "auto" for ``alpha`` is 1 over their number then, if that is more. The ``average`` must be True, which forgets as
        well, or False. Old support vectors fade but only a ``budget`` takes them out. None: all examples count alike.
        There is no certificate then, no dual ascent, and no refit at the end of ``fit``; docs/online.md has more.
    refine : bool, default=True
        Whether ``fit`` on a budget ends by giving the support vectors the best coefficients that there are, with a
        certificate, as the method ``refit`` does, which also chooses among several ``alpha``: the best one for
        this is often a tenth of the default, or less. False for the papers' algorithm.
    refine_rounds : int, default=1
        How often ``fit`` on a budget does both: ``max_iter`` epochs that place support vectors, and a refit.
    fit_intercept : bool or "auto", default="auto"
        Whether scores have an intercept: the weight of a constant feature of 3 beside the image of x, regularised as the
        rest of w, so that all kernel values are larger by 9. Not on a budget. "auto": True where ``fit`` goes on to the
        exact solution, but not for several classes jointly, which took up to six times as long with one in trials and were no
        better for it. Steps of Pegasos, in a pass or a stream, are better without: it makes them ten times as long.
    multi_class : {"crammer_singer", "ovr", "ovo"}, default="ovo"
        How more than two classes are told apart, by whatever ``solver`` or budget: all in one problem, each from the
        others, or each from each, where pairs vote and the sums of their scores break ties, as in ``SVC``. The mean over
        the examples is over all of them in every problem, so that ``C = 1/(alpha n_samples)`` holds for all three.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        Whether ``decision_function`` of ``multi_class="ovo"`` makes scores of the classes of the votes, as ``SVC``, or
        returns the scores of the pairs: (0, 1), (0, 2), ..., (1, 2), ..., > 0 for the first.
    solver : {"pegasos", "auto", "dual"}, default="auto"
        "pegasos" visits all examples ``max_iter`` times. "dual" is dual ascent, which goes on until
        the relative gap is at most ``tol``: as exact as ``SVC``. "auto" is "dual", for several classes jointly
        ("crammer_singer") after an epoch of "pegasos", from the very same point; it
        stays with "pegasos" where a parameter asks for what only that has (``budget``, ``batch_size``,
        ``projection``, ``half_life``, an ``average`` by name or number, ``sampling`` with replacement or by an array,
        ``warm_start``), or the kernel is not known to be positive semi-definite.
    projection : bool, default=False
        Whether to project ``w``, after each step, onto the ball of radius ``sqrt(mean weight/alpha)``,
        which holds the optimum. The papers' optional step.
    batch_size : int, default=1
        Examples per step.
    max_iter : int, default=1
        Epochs of Pegasos, at most. Dual ascent needs no such limit.
    tol : float or None, default=1e-3
        The relative duality gap, ``duality_gap_ / objective_``, at which ``fit`` stops. None: dual ascent ends where it
        gets no further, as with 0, and all epochs of ``solver="pegasos"`` are made, without a look at the objective, which
        costs as much as an epoch. Without a certificate (on a budget, with
        ``projection``, draws with replacement, or a kernel that is not known to be positive semi-definite) epochs
        end when their mean loss has not fallen by ``tol`` for 5 epochs; a refit ends at this gap (at 1e-2 for None).
    sampling : {"shuffle", "blocks", "replacement", "storage"} or array of int, default="shuffle"
        The order of an epoch: a fresh permutation of all rows or of blocks of 32, uniform draws, the
        rows as they stand, or these row numbers.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, by which examples' weights are multiplied. "balanced" as in ``PegasosClassifier``.
    calibration : {"sigmoid", "temperature", "isotonic"} or None, default=None
        How ``predict_proba`` makes probabilities of scores. "sigmoid": a logistic function of each score (Platt), "isotonic"
        a rising step function, of several classes scaled to a sum of 1; "temperature": the softmax of all scores over one
        number, which leaves the order as it is. ``fit`` learns it from the scores that examples get from models of other
        folds: three of two classes and of pairs, else five, or as many as the rarest class has examples. Exact machines of one
        problem for each score find them on the way, in about the time of the fit itself; others by as many fits more.
        ``partial_fit`` learns it from the scores that the last few thousand examples had when their batch came, before it
        was learned from. Pairs of classes are calibrated each, and coupled.
    warm_start : bool, default=False
        Whether ``fit`` goes on from where training is. All rows then count as new examples; with a precomputed kernel or a
        callable they must be those of the first ``fit``.
    cache_size : float, default=1024.0
        Megabytes of kernel values to keep: for later epochs of Pegasos, and for the working sets of dual
        ascent, at least 64 of them, which grow where they must, up to 8192 examples; of several problems, as many are solved
        side by side as there is room for, if all their kernel values were needed. Of a refit, of features of examples.
    history : int or None, default=None
        If given, ``history_`` tells what was reached after every so many examples.
    n_jobs : int or None, default=None
        Threads; None for the first set of PEGASOS_NUM_THREADS, RAYON_NUM_THREADS and
        OMP_NUM_THREADS, else all cores; never more than four for each core. Changes no bit of the result.
    random_state : int, RandomState or None, default=None
        Seed of the orders.
    verbose : int, default=0
        Whether to show how training goes, with the accuracy so far, of each example before it was learned from, or the
        loss, and the certified gap: a bar in a terminal or a notebook, lines in a file. docs/watching.md has more.

    Attributes
    ----------
    support_vectors_ : {ndarray, sparse matrix} of shape (n_sv, n_features)
        Sparse if X is; empty if the kernel is precomputed. With a learned metric the shortest vectors that have the same
        distances in it.
    support_ : ndarray of shape (n_sv,)
        The row numbers of the support vectors in X; only after ``fit`` without ``warm_start`` and ``budget``, or where
        the kernel is precomputed or a callable.
    dual_coef_ : ndarray of shape (1, n_sv), (n_classes, n_sv) or, of pairs, (n_classes (n_classes - 1)/2, n_sv)
        Their coefficients: the scores of x are ``sum_j dual_coef_[:, j] k(x, support_vectors_[j]) + intercept_``.
    coef_ : {ndarray, sparse matrix} of shape (1, n_features), (n_classes, n_features) or (n_pairs, n_features)
        Weights of the features, ``dual_coef_ @ support_vectors_``; only with ``kernel="linear"``. Sparse if X is.
    intercept_ : ndarray of shape (1,), (n_classes,) or (n_pairs,)
        The intercepts, 0 without ``fit_intercept``.
    alpha_ : float
        The ``alpha`` that the model was trained with: that of the steps, whatever a later ``refit(alpha=...)`` is for.
    budget_ : int or None
        The ``budget`` that it was trained with.
    n_support_ : ndarray of shape (n_classes,)
        For how many of them each class has the largest coefficient.
    violation_counts_ : ndarray of shape (n_sv,)
        How often each of them has violated the margin; not after dual ascent, and not on a budget.
    mean_gradient_error_ : float
        What the budget has cost: the mean over the steps of ``||dw||/eta``, dw being what maintenance did to w (the
        papers' E-bar). 0 without a budget.
    budget_bound_ : float
        ``2 mean_gradient_error_/sqrt(alpha)``: what the budget adds to the bound on the mean objective over the
        steps (Theorem 1). If it is large, a larger budget would pay.
    history_ : dict of ndarray
        "t"; "accuracy" of all examples until then, each before it was learned from; "mean_gradient_error" and
        "budget_bound" until then. Only with ``history``.
    classes_ : ndarray of shape (n_classes,)
        The classes.
    t_ : int
        Steps done. Dual ascent and refits count as those of their visits, or as a hundred epochs if that is more, so that
        those of ``partial_fit`` are as short as befits a model that is nearly right; dual ascent as so many at least that
        none of these moves the score of its own example by more than a tenth.
    n_iter_ : int
        Epochs of Pegasos and steps of dual ascent.
    objective_ : float
        P at the end, of several problems their sum; nan if ``solver="pegasos"`` has
        ``tol=None``, and on a budget if there was no refit.
    dual_objective_ : float
        A bound from below on the least P, after a refit on the least P that the support vectors allow; nan where
        there is none.
    duality_gap_ : float
        ``objective_ - dual_objective_``.
    loss_curve_ : list of float
        The mean loss of each epoch of Pegasos, every example scored before it was learned from; then
        the mean loss before each step of dual ascent, or at the end of a refit.
    objective_curve_, dual_objective_curve_ : list of float
        P, and the bound from below that was known then, with each entry of ``loss_curve_``; nan where they were not
        evaluated. `TrainingCurveDisplay` draws them.
    metric_ : ndarray of shape (n_features, n_features) or (n_features,)
        The learned M, or its diagonal; ones where the plain metric was kept. Only after ``fit`` with another ``metric``
        than "plain".
    feature_importances_ : ndarray of shape (n_features,)
        The diagonal of ``metric_``: up to a factor a power of the mean squared derivative of the scores by each feature. Of
        features that vary by alike, what the scores depend on; not scaled to a sum of 1.
    metric_path_ : dict of ndarray
        An entry for each machine that was tried: "round" (0 for the plain metric, and for those of the kind that was asked
        for), "kind" of metric, "power" (nan for the latter), "width" (a factor of gamma), "alpha", and "accuracy" on the rows
        that are held out.
    refit_path_ : dict of ndarray
        Only after ``refit`` with several alphas, or a ``fit`` for which ``budget="auto"`` has set a budget: "alpha", in
        descending order, "accuracy" on rows held out, and "accuracies" by split.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if X has names.

    See Also
    --------
    PegasosClassifier : Linear models, for more examples than kernels can take.
    sklearn.svm.SVC : LIBSVM's exact solver, whose intercept is not regularised; ``C = 1/(alpha n_samples)``.

    Notes
    -----
    Time: a row costs O(n_sv (n_features + n_classes)), an epoch at most n such rows, as the number of
    support vectors grows in proportion to the number of errors. Rows are scored 96 at a time, as one
    matrix product on all threads, and the scores still to come are corrected as coefficients change:
    the result is that of one at a time, up to rounding. Memory: the support vectors, dense unless X is
    sparse with more than 4096 features, and, while ``fit`` goes through several epochs, up to
    ``cache_size`` of kernel values. Dual ascent keeps two float64 numbers an example and score (of "ovo" there are
    ``n_classes (n_classes - 1)/2``), and kernel values: of the examples that matter with all, or with its working set,
    about ``cache_size`` of them at most. Prediction needs constant memory; with "ovo" a row costs a multiplication for each
    support vector and pair, of many classes only for the pairs that the vector's class is in.

    With a ``metric`` that is learned, ``fit`` takes some ten fits of up to 20,000 rows more, half of them of a machine on a
    budget of 1000 or less; O(n_features^3) for a full one, which of more than 2000 features is of rank 500 at most; and,
    without a budget or for sparse rows, the memory of a mapped copy of X. A row then costs O(n_features) more for each
    direction of the metric, or in all with "diagonal", in a ``fit`` and a prediction.

    With a budget B: an example costs O(B (n_features + n_classes)), a violator O(B n_classes + n_features)
    more, or O(B^2) for "project". Memory: O(B (n_features + n_classes)), and B^2 numbers for "merge", 4 B^2
    bytes for "project"; not a byte more after a million examples. docs/budget.md tells more.

    float32 data are computed with in float32, float64 data in float64. Distances are differences of products: in float32 they
    are good to about 1e-7 of ``||x||^2``, in float64 to 2e-16. Where a Gaussian kernel would be wrong by more than a
    thousandth, float32 data are computed with in float64; where that does not do either, a fit warns and certifies nothing:
    features with large means want centring.

    References
    ----------
    A. Radhakrishnan, D. Beaglehole, P. Pandit, M. Belkin. "Mechanism for feature learning in neural networks and
    backpropagation-free machine learning models." Science 383 (2024): the metric.

    S. Shalev-Shwartz, Y. Singer, N. Srebro, A. Cotter. "Pegasos: primal estimated sub-gradient solver
    for SVM." Mathematical Programming 127 (2011), section 4.

    Z. Wang, K. Crammer, S. Vucetic. "Multi-class Pegasos on a budget." ICML 2010.

    K. Crammer, Y. Singer. "On the algorithmic implementation of multiclass kernel-based vector
    machines." JMLR 2 (2001).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import train_test_split
    >>> from pegasos import KernelPegasosClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> X, X_test, y, y_test = train_test_split(X / 16.0, y, random_state=0)
    >>> model = KernelPegasosClassifier(gamma=0.5, random_state=0).fit(X, y)
    >>> bool(model.score(X_test, y_test) > 0.97)
    True
    >>> exact = KernelPegasosClassifier(gamma=0.5, solver="auto", random_state=0).fit(X, y)
    >>> bool(exact.duality_gap_ <= 1e-3 * exact.objective_)
    True
    >>> C = 10.0
    >>> as_svc = KernelPegasosClassifier(
    ...     gamma=0.5, alpha=1 / (C * len(y)), multi_class="ovo", solver="dual"
    ... ).fit(X, y)
    >>> as_svc.dual_coef_.shape[0], bool(as_svc.score(X_test, y_test) > 0.98)
    (45, True)
    >>> small = KernelPegasosClassifier(gamma=0.5, budget=100, random_state=0).fit(X, y)
    >>> len(small.support_vectors_), bool(small.score(X_test, y_test) > 0.95)
    (100, True)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [StrOptions({"rbf", "poly", "linear", "sigmoid", "precomputed"}), callable],
        "alpha": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0, None, closed="neither")],
        "degree": [Interval(Integral, 0, 2**31 - 1, closed="both")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "metric": [StrOptions({"plain", "diagonal", "full", "auto"})],
        "metric_rounds": [Interval(Integral, 1, 2**31 - 1, closed="both")],
        "budget": [StrOptions({"auto"}), Interval(Integral, 1, 2**31 - 1, closed="both"), None],
        "maintenance": [StrOptions({"auto", "merge", "project", "remove", "random"})],
        "average": [
            "boolean",
            StrOptions({"uniform", "polynomial"}),
            Interval(Integral, 1, 2**63 - 1, closed="both"),
        ],
        "half_life": [Interval(Real, 0, None, closed="neither"), None],
        "refine": ["boolean"],
        "refine_rounds": [Interval(Integral, 1, 2**31 - 1, closed="both")],
        "fit_intercept": [StrOptions({"auto"}), "boolean"],
        "multi_class": [StrOptions({"crammer_singer", "ovr", "ovo"})],
        "decision_function_shape": [StrOptions({"ovr", "ovo"})],
        "solver": [StrOptions({"pegasos", "auto", "dual"})],
        "projection": ["boolean"],
        "batch_size": [Interval(Integral, 1, 2**63 - 1, closed="both")],
        "max_iter": [Interval(Integral, 1, 2**63 - 1, closed="both")],
        "tol": [Interval(Real, 0, None, closed="left"), None],
        "sampling": [StrOptions({"shuffle", "blocks", "replacement", "storage"}), "array-like"],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "calibration": [StrOptions(set(METHODS)), None],
        "warm_start": ["boolean"],
        "cache_size": [Interval(Real, 0, None, closed="neither")],
        "history": [Interval(Integral, 1, 2**63 - 1, closed="both"), None],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    _structure = (
        "kernel", "gamma", "degree", "coef0", "metric", "budget", "maintenance", "fit_intercept", "multi_class"
    )
    _training = ("alpha", "average", "half_life", "projection", "batch_size")

    # What Projectron has parameters for.
    _fixed: ClassVar[dict[str, Any]] = MetricMachine._fixed | {"threshold": 0.0, "margin": False}

    _undecided: ClassVar[dict[str, Any]] = MetricMachine._undecided | {
        "budget": None,
        "maintenance": "project",
        "fit_intercept": False,
    }

    #: The rows of the fit, where the kernel is a callable.
    _fitted_X: Any

    def __init__(
        self,
        kernel: Kernel = "rbf",
        *,
        alpha: Strength = "auto",
        gamma: Width = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        metric: MetricKind = "plain",
        metric_rounds: int = 8,
        budget: int | Literal["auto"] | None = "auto",
        maintenance: Maintenance = "auto",
        average: Average = True,
        half_life: float | None = None,
        refine: bool = True,
        refine_rounds: int = 1,
        fit_intercept: bool | Literal["auto"] = "auto",
        multi_class: Literal["crammer_singer", "ovr", "ovo"] = "ovo",
        decision_function_shape: Literal["ovr", "ovo"] = "ovr",
        solver: Solver = "auto",
        projection: bool = False,
        batch_size: int = 1,
        max_iter: int = 1,
        tol: float | None = 1e-3,
        sampling: Sampling = "shuffle",
        class_weight: ClassWeight = None,
        calibration: Calibrated = None,
        warm_start: bool = False,
        cache_size: float = 1024.0,
        history: int | None = None,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.alpha = alpha
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.metric = metric
        self.metric_rounds = metric_rounds
        self.budget = budget
        self.maintenance = maintenance
        self.average = average
        self.half_life = half_life
        self.refine = refine
        self.refine_rounds = refine_rounds
        self.fit_intercept = fit_intercept
        self.multi_class = multi_class
        self.decision_function_shape = decision_function_shape
        self.solver = solver
        self.projection = projection
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.sampling = sampling
        self.class_weight = class_weight
        self.calibration = calibration
        self.warm_start = warm_start
        self.cache_size = cache_size
        self.history = history
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    @property
    def support_vectors_(self) -> Any:
        """The support vectors, (n_sv, n_features)."""
        rows, kernel = self._arrays().rows, self._made_with["kernel"]
        if callable(kernel):
            return self._fitted_X[rows]
        return np.empty((0, 0)) if kernel == "precomputed" else super().support_vectors_

    @property
    def intercept_(self) -> np.ndarray:
        """The intercepts, (1,), (n_classes,) or (n_pairs,)."""
        return _intercept(self._trainer, self.dual_coef_)

    @property
    def budget_(self) -> int | None:
        """The budget that the model was trained with."""
        check_is_fitted(self)
        budget: int | None = self._made_with["budget"]
        return budget

    @property
    def support_(self) -> np.ndarray:
        """Their row numbers in X."""
        rows = self._arrays().rows
        if rows is None:
            raise AttributeError(
                "support_ is there only after fit without a budget: of other support vectors no row "
                "number is known"
            )
        return rows

    @property
    def violation_counts_(self) -> np.ndarray:
        """How often each of them has violated the margin, (n_sv,)."""
        counts = self._arrays().counts
        if counts is None or self._risen:
            raise AttributeError(
                "violation_counts_ is not there after dual ascent or on a budget, which count none"
            )
        return counts

    @property
    def budget_bound_(self) -> float:
        """What the budget adds to the bound of Theorem 1: 2 mean_gradient_error_/sqrt(alpha)."""
        return float(budget_bound(self.mean_gradient_error_, self.alpha_))

    @property
    def history_(self) -> dict[str, np.ndarray]:
        """What was recorded every ``history`` examples."""
        history = super().history_
        return history | {"budget_bound": budget_bound(history["mean_gradient_error"], self.alpha_)}

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
        data, classes = super()._examples(X, y, sample_weight, classes, reset=reset, stream=stream)
        if reset:
            # Those of a fit with another kernel.
            self.__dict__.pop("_fitted_X", None)
        if callable(self.kernel):
            # Against the rows of the first fit: what the coefficients are for.
            # A copy: whoever changes X later must not change the model.
            data = self._for_callable(data)
            fitted = data.X if reset else self._same_rows(data.X)
            assert_all_finite(data.X.data if issparse(data.X) else data.X, input_name="X")
            data, self._fitted_X = as_data(_gram(self.kernel, data.X, fitted), data.codes, data.weight), fitted
        if not isinstance(self.kernel, str) or self.kernel == "precomputed":
            n_rows, n_columns = data.X.shape
            if n_rows != n_columns:
                raise ValueError(
                    f"X must hold the kernel values of its {n_rows} rows with one another, a square "
                    f"matrix, got shape {data.X.shape}"
                )
        return data, classes

    def _same_rows(self, X: Any) -> Any:
        """The rows of the first fit, which those of a warm start must be: its coefficients are for these."""
        if not hasattr(self, "_fitted_X"):
            raise ValueError(
                f"kernel must stay as it is while training goes on, got {self.kernel!r} after {self._made_with['kernel']!r}"
            )
        fitted = self._fitted_X
        same = X.shape == fitted.shape and issparse(X) == issparse(fitted)
        if not (same and ((X != fitted).nnz == 0 if issparse(X) else np.array_equal(X, fitted))):
            raise ValueError("X must hold the rows of the first fit where warm_start=True and the kernel is a callable")
        return fitted

    def _for_callable(self, data: Data) -> Data:
        """A copy of rows that are sound in every respect: nobody knows what a callable does with them."""
        data = data.take(np.arange(data.n))
        data.norms()
        return data

    def _scores(self, trainer: Trainer, X: Any) -> np.ndarray:
        # Not one that was set since.
        kernel = self._made_with["kernel"]
        if not callable(kernel):
            return super()._scores(trainer, X)
        X = self._for_callable(as_data(X)).X
        exported = Exported(trainer, 0, False, n_outputs(trainer))
        coefs, vectors, parts = exported.coefs, self._fitted_X[exported.rows], []
        # So that memory stays bounded.
        step = max(1, 2**22 // max(1, coefs.shape[1]))
        for start in range(0, X.shape[0], step):
            parts.append(_gram(kernel, X[start : start + step], vectors) @ coefs.T + _intercept(trainer, coefs))
        scores = np.concatenate(parts).astype(trainer.made.dtype, copy=False)
        assert_all_finite(scores, input_name="the scores of X")
        return scores.ravel() if scores.shape[1] == 1 else scores

    @property
    def _room(self) -> Room:
        return Unlimited(self) if self._choice("budget") is None else Budget(self)

    def _decide(self, data: Data, n_classes: int, *, stream: bool) -> dict[str, Any]:
        budget = self.budget
        if budget == "auto":
            finite = isinstance(self.kernel, str) and self.kernel not in ("precomputed", "linear")
            n = data.n if data.weight is None else int(np.count_nonzero(data.weight))
            most = MOST_EXACT_SPARSE if issparse(data.X) else MOST_EXACT
            many = not stream and n > most and finite and self.solver == "auto"
            budget = MANY_VECTORS if many else None
            if many and self.verbose and not self._decided:
                chosen = ", with the best of several alphas" if self.alpha == "auto" and self.refine else ""
                say(f"budget='auto' is {budget} for {n} rows, more than {most}{chosen}; None is exact")
        ascends = self.solver != "pegasos" and self._dual_obstacle() is None and self.kernel != "sigmoid"
        exact = budget is None and ascends and not stream
        jointly = n_classes > 2 and self.multi_class == "crammer_singer"
        wide = issparse(data.X) and data.X.shape[1] > MOST_MERGED
        return super()._decide(data, n_classes, stream=stream) | {
            "budget": budget,
            "maintenance": "merge" if self.kernel == "rbf" and not wide else "project",
            "fit_intercept": exact and not jointly,
        }

    def _strengths(self, data: Data) -> np.ndarray:
        found = super()._strengths(data)
        # One that came with a metric was chosen already.
        free = self.budget == "auto" and self.alpha == "auto" and (self._learned is None or self._learned.c is None)
        return found / np.array(MANY_C) if free and can_hold_out(data.codes) else found

    def _note(self, run: Run, classes: np.ndarray) -> None:
        super()._note(run, classes)
        self._risen = run.ascended

    def _extra(self) -> dict[str, Any]:
        return super()._extra() | {"risen": self._risen}

    def _check_restored(self, extra: dict[str, Any]) -> None:
        self._risen = bool(extra["risen"])
        super()._check_restored(extra)
