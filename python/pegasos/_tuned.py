"""Estimators that choose their own alpha, and gamma, by cross-validation."""

from __future__ import annotations

import warnings
from functools import partial
from itertools import product
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from scipy.sparse import issparse
from sklearn.utils._param_validation import Interval, StrOptions

from pegasos._base import STREAM_ALPHA
from pegasos._data import Data, scale_advice
from pegasos._grid import Axis, alpha_of, climb, middle_gamma, places_around
from pegasos._kernel import KernelPegasosClassifier
from pegasos._linear import PegasosClassifier
from pegasos._metric_machine import of_rows
from pegasos._progress import say
from pegasos._run import cache_bytes
from pegasos._search import Exact, Fold, Key, Search, Space, kernel_space, linear_space
from pegasos._sparse import SparseCoefficients
from pegasos._tuning import Tuned
from pegasos._types import Calibrated, ClassWeight, Grid, Loss, MetricKind, RandomState, Rule, Scoring

if TYPE_CHECKING:
    from collections.abc import Callable

    from pegasos._tuning import Task

#: Alphas that are looked for are ``10^(-j/2)``. The search begins at 1e-2, and goes no further than from 1e2 to 1e-9.
_FIRST, _STRONGEST, _WEAKEST = 4, -4, 18

#: Where the search for kernels begins: decades from 1e-2 to 1e-5.
_DECADES = (4, 6, 8, 10)

#: Gammas that are looked for are ``2^i`` times the one of the median distance. It begins at a half, and goes no further
#: than from a thousandth to four thousand.
_WIDTHS = (-1, 1, 3)
_WIDEST, _NARROWEST = -10, 12

#: A budget that is "auto"; up to so many rows there is none: exact machines take a second then, and are more accurate. In trials with 60 to
#: 400 rows a budget of 500 came out up to 2.4 points below a grid search with `SVC`, exact ones 0 to 0.9 above.
_VECTORS = 500
_FEW_ROWS = 2000

#: What goes before all rows, where there are more: rows, support vectors, and the step of the search in gamma and alpha.
_STAGES = ((2000, 128, 2), (4000, 256, 1))

#: How many rows are held out there, at least; and by what part of the best score others may be worse there and still be
#: chosen for a larger alpha: so few rows cannot tell, and the search must not run down a slope of smaller alphas and wider
#: kernels that are all alike.
_FEW_TEST = 500
_SLACK = 5e-3

#: No model of so few rows has a larger C, and none of all rows that one: where there is noise small alphas take long, and
#: make up for kernels that are too wide.
_LARGEST_C = 17.0
_LARGEST_C_OF_ALL = 1000.0

#: By what part of the first fold's best score another alpha may be worse there for all folds to try it, unless it is so beyond
#: doubt.
_CLOSE = 1e-2

#: The relative gap of the models of such a stage, and of those of all rows.
_PART_TOL = 0.1
_TOL = 0.05


class PegasosClassifierCV(SparseCoefficients, Tuned):
    """Linear machine whose ``alpha`` is chosen by cross-validation, with calibrated probabilities.

    The models of a fold, one for each alpha, are solved one after another, each from the dual points of those before
    it, to the certified relative gap ``tol``; folds are weights, the rows are shared. The best parameters then get all
    rows.

    Parameters
    ----------
    alphas : "auto" or array-like of float, default="auto"
        The strengths of the regularisation to try, > 0; ``C = 1/(alpha n_samples)``. "auto": powers of ten and their
        halves from 1e-2 to 1/n, and further as long as the best is the last.
    cv : int, cross-validation generator or iterable, default=5
        The folds. An integer: so many, each class in proportion, in the order of the rows.
    scoring : str, callable or None, default=None
        What is best: a scorer of scikit-learn; None for accuracy. One that asks for probabilities gets those that
        ``calibration`` makes, each half of a fold's held-out rows calibrated by the other.
    loss : {"squared_hinge", "hinge", "log_loss"}, default="squared_hinge"
        As in `PegasosClassifier`.
    fit_intercept : bool, default=True
        As in `PegasosClassifier`, but not "free".
    intercept_scaling : float, default=1.0
        As in `PegasosClassifier`.
    multi_class : {"ovr", "crammer_singer"}, default="ovr"
        As in `PegasosClassifier`.
    max_iter : int, default=100
        Epochs of the last fit, at most.
    tol : float, default=1e-3
        The relative duality gap to which every model is solved.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, by which examples' weights are multiplied; "balanced" by all rows.
    calibration : {"auto", "sigmoid", "temperature", "isotonic"} or None, default="auto"
        How ``predict_proba`` makes probabilities of scores, learned from those of the rows that were held out: see
        `PegasosClassifier`. "auto" is "temperature", for which ``predict`` names the likeliest class; "sigmoid" where
        that is clearly likelier, by 0.002 in the mean log probability of rows that were held out; the loss's own for "log_loss".
    rule : {"best", "one_standard_error"}, default="best"
        Which model to keep: the best by the mean over the folds, of equals the one with the largest alpha; or, of those
        whose mean is no more than one standard error of the best one's below it, the one with the largest alpha.
    keep_scores : bool, default=False
        Whether to keep ``held_out_scores_``.
    n_jobs : int or None, default=None
        Threads: so many folds are worked on at a time. As in `PegasosClassifier`; changes no bit of the result.
    random_state : int, RandomState or None, default=None
        Seed of the orders.
    verbose : int, default=0
        Whether to show how the search goes, with the alpha at hand and the best score so far: a bar in a terminal or a
        notebook, lines in a file.

    Attributes
    ----------
    best_estimator_ : PegasosClassifier
        Trained on all rows with ``alpha_``; what `save` takes, and ``partial_fit`` goes on from.
    alpha_ : float
        The alpha of the best model.
    best_score_ : float
        Its mean score over the folds.
    best_index_ : int
        Its place in ``cv_results_``.
    cv_results_ : dict of ndarray
        An entry for each model that was tried: "param_alpha", "split0_test_score" and so on, "mean_test_score",
        "std_test_score", "rank_test_score" and "mean_fit_time", the seconds that a fold took.
    held_out_scores_ : ndarray of shape (n_samples,) or (n_samples, n_classes)
        The scores that each row has got from the best parameters' model of a fold without it; nan where no fold holds it
        out. Only with ``keep_scores``.
    coef_, intercept_ : ndarray
        Those of ``best_estimator_``.
    classes_ : ndarray of shape (n_classes,)
        The classes.
    n_splits_ : int
        How many folds there were.
    n_iter_ : int
        Epochs of the best model's last fit.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if X has names.

    See Also
    --------
    PegasosClassifier : With one alpha.
    pegasos.path : The models of all alphas.
    sklearn.linear_model.LogisticRegressionCV : The same for logistic regression.

    Notes
    -----
    Time: some passes for each alpha and fold. Memory: for each fold and score 25 bytes an example and 16 a weight, for
    the hinge 17 and 8; and the held-out scores of all models that were tried.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from pegasos import PegasosClassifierCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = PegasosClassifierCV(random_state=0).fit(scale(X), y)
    >>> bool(model.best_score_ > 0.96), model.predict_proba(scale(X)).shape
    (True, (569, 2))
    """

    best_estimator_: PegasosClassifier

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = Tuned._constraints | {
        name: PegasosClassifier._parameter_constraints[name]
        for name in ("loss", "intercept_scaling", "multi_class", "max_iter")
    } | {"fit_intercept": ["boolean"]}

    def __init__(
        self,
        alphas: Grid = "auto",
        cv: Any = 5,
        scoring: Scoring = None,
        *,
        loss: Loss = "squared_hinge",
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        multi_class: Literal["crammer_singer", "ovr"] = "ovr",
        max_iter: int = 100,
        tol: float = 1e-3,
        class_weight: ClassWeight = None,
        calibration: Calibrated | Literal["auto"] = "auto",
        rule: Rule = "best",
        keep_scores: bool = False,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.alphas = alphas
        self.cv = cv
        self.scoring = scoring
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.multi_class = multi_class
        self.max_iter = max_iter
        self.tol = tol
        self.class_weight = class_weight
        self.calibration = calibration
        self.rule = rule
        self.keep_scores = keep_scores
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @property
    def coef_(self) -> np.ndarray:
        """Weights of the features, (1, n_features) or (n_classes, n_features)."""
        found: np.ndarray = self._best().coef_
        return found

    @property
    def intercept_(self) -> np.ndarray:
        """Intercepts, (1,) or (n_classes,)."""
        found: np.ndarray = self._best().intercept_
        return found

    def _give(self, *, sparse: bool) -> None:
        self._best()._give(sparse=sparse)

    @property
    def _search_tol(self) -> float:
        return self.tol

    def _model(self, seed: int, **params: Any) -> PegasosClassifier:
        names = ("loss", "fit_intercept", "intercept_scaling", "multi_class", "max_iter", "tol", "class_weight", "n_jobs")
        same = {name: getattr(self, name) for name in names}
        return PegasosClassifier(**same, **params, random_state=seed)

    def _best_params(self, key: Key) -> dict[str, Any]:
        return {"alpha": key.alpha}

    def _search(self, task: Task) -> Search:
        n_classes, template, data = len(task.classes), task.template, task.data
        template._decided = template._decide(data, n_classes, stream=False)

        def space(_gamma: float, fold: Fold, alpha: float, _look: Any) -> Space:
            return linear_space(template, data, n_classes, fold, alpha)

        alphas = Axis.asked("alphas", self.alphas, alpha_of, _STRONGEST, _WEAKEST)
        search = task.begin(space)
        search.most_kept = len(task.folds)
        none = Axis([0.0], float, 0, 0)
        last = max(_FIRST, int(np.ceil(2.0 * np.log10(data.n))))
        numbers = product([0], alphas.start(range(_FIRST, last + 1)))
        climb(search, range(len(task.folds)), none, alphas, numbers, 1)
        return search


class KernelPegasosClassifierCV(Tuned):
    """Kernel machine whose ``gamma`` and ``alpha`` are chosen by cross-validation, with calibrated probabilities.

    A model is one on a budget with a refit: one pass places support vectors, then their coefficients are solved for. For
    each gamma a fold places its own vectors, by its own rows, and their features serve all alphas; nothing of a fold's model
    comes from the rows that it is scored by. Without a budget, by default for few rows, it is the exact machine, as ``SVC`` is
    one. A search of a grid without end looks at a few thousand rows first, then around the place that looked best. The best
    parameters then get all rows.

    Parameters
    ----------
    gammas : "auto" or array-like of float, default="auto"
        The widths of the kernel to try. "auto": powers of two times that of the median distance of two rows,
        ``1/median(||x - z||^2)`` (for other kernels than "rbf", of the median norm), where a coarse search finds them.
    alphas : "auto" or array-like of float, default="auto"
        The strengths of the regularisation to try, > 0; ``C = 1/(alpha n_samples)``. "auto": powers of ten and their
        halves, where a coarse search finds them. If both are given every pair is tried with every fold.
    budget : int, "auto" or None, default="auto"
        The most support vectors of a model. None: exact machines, more accurate and, up to some ten thousand rows, not much
        slower; ``kernel`` must be "rbf", "linear", or "poly" with ``coef0 >= 0``. "auto": None for at most 2000 rows with a
        weight > 0, where the kernel allows that, else 500.
    cv : int, cross-validation generator or iterable, default=5
        The folds. An integer: so many, each class in proportion, in the order of the rows.
    scoring : str, callable or None, default=None
        What is best: a scorer of scikit-learn; None for accuracy. One that asks for probabilities gets those that
        ``calibration`` makes, each half of a fold's held-out rows calibrated by the other.
    kernel : {"rbf", "poly", "sigmoid", "linear"}, default="rbf"
        As in `KernelPegasosClassifier`.
    degree : int, default=3
        Of the "poly" kernel, >= 0.
    coef0 : float, default=0.0
        Of the "poly" and "sigmoid" kernels.
    metric : {"plain", "diagonal", "full", "auto"}, default="plain"
        Whether each fold learns a metric first, by its own rows, and the best model by all of them: as in
        `KernelPegasosClassifier`, but that gamma and alpha are chosen by the folds. Needs a mapped copy of X for each fold.
    metric_rounds : int, default=8
        Rounds of learning a metric, at most.
    multi_class : {"auto", "crammer_singer", "ovr", "ovo"}, default="auto"
        How more than two classes are told apart. "auto" is what takes a fraction of the time of the others: "crammer_singer" in
        the span of a budget, "ovo" without one.
    tol : float, default=1e-2
        The relative duality gap of the best model. Those of the folds are solved to a gap of a twentieth.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, by which examples' weights are multiplied; "balanced" by all rows.
    calibration : {"auto", "sigmoid", "temperature", "isotonic"} or None, default="auto"
        How ``predict_proba`` makes probabilities of scores, learned from those of the rows that were held out: see
        `KernelPegasosClassifier`. "auto" is "temperature", for which ``predict`` names the likeliest class; "sigmoid"
        where that is clearly likelier, by 0.002 in the mean log probability of rows that were held out.
    rule : {"best", "one_standard_error"}, default="best"
        Which model to keep: the best by the mean over the folds, of equals the one with the largest alpha, then the
        smallest gamma; or, of those whose mean is no more than one standard error of the best one's below it, the one
        with the largest alpha.
    keep_scores : bool, default=False
        Whether to keep ``held_out_scores_``.
    cache_size : float, default=1024.0
        Megabytes of features of examples to keep, or of kernel values without a budget, of all that is worked on at a time.
    n_jobs : int or None, default=None
        Threads: so many folds are worked on at a time. As in `KernelPegasosClassifier`; changes no bit of the result.
    random_state : int, RandomState or None, default=None
        Seed of the orders.
    verbose : int, default=0
        Whether to show how the search goes, with the gamma and alpha at hand and the best score so far: a bar in a terminal
        or a notebook, lines in a file.

    Attributes
    ----------
    best_estimator_ : KernelPegasosClassifier
        Trained on all rows with ``gamma_`` and ``alpha_``; what `save` takes, and ``partial_fit`` goes on from.
    gamma_, alpha_ : float
        The parameters of the best model.
    best_score_ : float
        Its mean score over the folds.
    best_index_ : int
        Its place in ``cv_results_``.
    cv_results_ : dict of ndarray
        An entry for each model that was tried: "param_gamma", "param_alpha", "split0_test_score" and so on,
        "mean_test_score", "std_test_score", "rank_test_score" and "mean_fit_time", the seconds that a fold took. Models
        that only the first fold has tried have nan for the others, and no rank. The coarse search is not among them.
    held_out_scores_ : ndarray of shape (n_samples,), (n_samples, n_classes) or (n_samples, n_pairs)
        The scores that each row has got from the best parameters' model of a fold without it; nan where no fold holds it
        out. Only with ``keep_scores``.
    support_vectors_, dual_coef_ : ndarray
        Those of ``best_estimator_``.
    classes_ : ndarray of shape (n_classes,)
        The classes.
    n_splits_ : int
        How many folds there were.
    n_iter_ : int
        Epochs of the best model's last fit.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if X has names.

    See Also
    --------
    KernelPegasosClassifier : With one gamma and alpha, and without a budget.
    sklearn.model_selection.GridSearchCV : For whatever else there is to choose.

    Notes
    -----
    Time: a gamma costs a fold a pass, O(n budget (n_features + budget)) for features, and O(n budget n_classes) an epoch of
    an alpha; without a budget a model costs a fold an exact fit of its own. Memory: ``cache_size``, and the held-out scores of
    all models that were tried.

    Vectors that were placed by all rows would make scores too good, as rows that are held out have had a part in it: on six
    sets, with a budget of 500 (digits 100), by up to 1.4 points of accuracy. So each fold places its own.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import train_test_split
    >>> from pegasos import KernelPegasosClassifierCV
    >>> X, y = load_digits(return_X_y=True)
    >>> X, X_test, y, y_test = train_test_split(X / 16.0, y, random_state=0)
    >>> model = KernelPegasosClassifierCV(budget=200, random_state=0).fit(X, y)
    >>> bool(model.score(X_test, y_test) > 0.98), model.predict_proba(X_test).shape
    (True, (450, 10))
    """

    best_estimator_: KernelPegasosClassifier

    _has_few_rows = False

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = (
        Tuned._constraints
        | {
            name: KernelPegasosClassifier._parameter_constraints[name]
            for name in ("degree", "coef0", "metric", "metric_rounds", "cache_size")
        }
        | {
            "gammas": [StrOptions({"auto"}), "array-like"],
            "budget": [Interval(Integral, 1, 2**31 - 1, closed="both"), StrOptions({"auto"}), None],
            "kernel": [StrOptions({"rbf", "poly", "sigmoid", "linear"})],
            "multi_class": [StrOptions({"auto", "crammer_singer", "ovr", "ovo"})],
        }
    )

    def __init__(
        self,
        gammas: Grid = "auto",
        alphas: Grid = "auto",
        budget: int | Literal["auto"] | None = "auto",
        cv: Any = 5,
        scoring: Scoring = None,
        *,
        kernel: Literal["rbf", "poly", "linear", "sigmoid"] = "rbf",
        degree: int = 3,
        coef0: float = 0.0,
        metric: MetricKind = "plain",
        metric_rounds: int = 8,
        multi_class: Literal["auto", "crammer_singer", "ovr", "ovo"] = "auto",
        tol: float = 1e-2,
        class_weight: ClassWeight = None,
        calibration: Calibrated | Literal["auto"] = "auto",
        rule: Rule = "best",
        keep_scores: bool = False,
        cache_size: float = 1024.0,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.gammas = gammas
        self.alphas = alphas
        self.budget = budget
        self.cv = cv
        self.scoring = scoring
        self.kernel = kernel
        self.degree = degree
        self.coef0 = coef0
        self.metric = metric
        self.metric_rounds = metric_rounds
        self.multi_class = multi_class
        self.tol = tol
        self.class_weight = class_weight
        self.calibration = calibration
        self.rule = rule
        self.keep_scores = keep_scores
        self.cache_size = cache_size
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @property
    def _search_tol(self) -> float:
        return _TOL

    @property
    def gamma_(self) -> float:
        """The width of the best model's kernel."""
        return float(self._best().gamma)

    @property
    def support_vectors_(self) -> Any:
        """The support vectors, (n_sv, n_features)."""
        return self._best().support_vectors_

    @property
    def dual_coef_(self) -> np.ndarray:
        """Their coefficients, (1, n_sv), (n_classes, n_sv) or (n_pairs, n_sv)."""
        found: np.ndarray = self._best().dual_coef_
        return found

    def _model(self, seed: int, **params: Any) -> KernelPegasosClassifier:
        names = ("kernel", "degree", "coef0", "tol", "class_weight", "cache_size", "n_jobs")
        same = {name: getattr(self, name) for name in names}
        return KernelPegasosClassifier(**same, **self._sort(), **params, random_state=seed)

    def _sort(self) -> dict[str, Any]:
        """What sort of machine it is, as far as the rows are known that tell."""
        quick = "ovo" if self._most is None else "crammer_singer"
        return {"budget": self._most, "multi_class": quick if self.multi_class == "auto" else self.multi_class}

    @property
    def _most(self) -> int | None:
        """The budget."""
        if self.budget != "auto":
            return self.budget
        return None if self._has_few_rows else _VECTORS

    @property
    def _is_inner(self) -> bool:
        """Whether the kernel is an inner product, as exact machines need it."""
        return self.kernel in ("rbf", "linear") or (self.kernel == "poly" and self.coef0 >= 0.0)

    def _settle(self, template: KernelPegasosClassifier, data: Data) -> None:
        n = data.n if data.weight is None else int(np.count_nonzero(data.weight))
        self._has_few_rows = n <= _FEW_ROWS and self._is_inner
        template.set_params(**self._sort())
        if self.budget == "auto" and self.verbose:
            say(f"budget='auto' is {self._most} for {n} rows" + ("" if self._most else ", which is exact"))

    def _best_params(self, key: Key) -> dict[str, Any]:
        return {"gamma": key.gamma, "alpha": key.alpha}

    def _last_model(self, seed: int, key: Key) -> KernelPegasosClassifier:
        model = self._model(seed, **self._best_params(key), metric=self.metric, metric_rounds=self.metric_rounds)
        # The folds have.
        model._chooses_width = False
        return model

    def _views(self, task: Task, data: Data, folds: list[Fold]) -> dict[int, Data]:
        """The rows as each fold sees them, by its own metric, where that is not the plain one."""
        if self.metric == "plain":
            return {}
        views = {}
        for fold in folds:
            model = self._model(task.seed, alpha=STREAM_ALPHA, metric=self.metric, metric_rounds=self.metric_rounds)
            metric = of_rows(model, data.take(fold.train), len(task.classes))
            if metric is not None:
                views[id(fold)] = metric.mapped(data, task.threads)
        return views

    def _search(self, task: Task) -> Search:
        if self.metric != "plain" and self.kernel != "rbf":
            raise ValueError(f"metric={self.metric!r} needs kernel='rbf', got kernel={self.kernel!r}")
        if self.metric == "full" and issparse(task.data.X):
            raise ValueError("metric='full' needs dense rows, got a sparse matrix; use 'diagonal' or 'auto'")
        if self.budget is None and not self._is_inner:
            raise ValueError(
                "budget=None needs a kernel that is an inner product, 'rbf', 'linear' or 'poly' with coef0 >= 0, got "
                f"kernel={self.kernel!r} and coef0={self.coef0:g}; give a budget"
            )
        if isinstance(self.gammas, str) and self.kernel != "linear" and self.metric == "plain":
            # Distances are those of the largest features for every gamma.
            advice = scale_advice(task.data.X)
            if advice is not None:
                warnings.warn(f"{advice}, or give gammas as numbers.", UserWarning, stacklevel=5)
        middle = middle_gamma(task.data, self.kernel, task.seed)
        alphas = Axis.asked("alphas", self.alphas, alpha_of, _STRONGEST, _WEAKEST)
        gammas = Axis.asked("gammas", self.gammas, lambda i: middle * 2.0**i, _WIDEST, _NARROWEST)
        if self.kernel == "linear":
            gammas = Axis([1.0], gammas.of, 0, 0)
        views: dict[int, Data] = {}
        search = task.begin(partial(self._space, task, task.data, views, self._most))
        views |= self._views(task, task.data, task.folds)
        if self._most is None:
            search.threads = self._jobs(task, task.data)
        else:
            bytes_each = task.data.n * self._most * task.data.X.dtype.itemsize
            search.most_kept = max(0, cache_bytes(self.cache_size) // bytes_each - task.threads)
        folds = range(len(task.folds))
        if gammas.values and alphas.values:
            climb(search, folds, gammas, alphas, product(gammas.start([]), alphas.start([])), 1)
            return search
        alphas = alphas.down_to(1.0 / (_LARGEST_C_OF_ALL * task.data.n))
        place, settled = self._first_place(task, gammas, alphas)
        if place is None:
            starts = list(product(gammas.start(_WIDTHS), alphas.start(_DECADES)))
            place = climb(search, folds, gammas, alphas, starts, 2)
        starts = places_around(gammas, alphas, place, 1)
        if settled and not gammas.values:
            # With more rows narrower kernels do.
            i, j = place
            starts = list(product([i, min(i + 1, gammas.last)], alphas.start([j - 1, j])))
            i, j = climb(search, folds[:1], gammas, alphas, starts, 1, up=True)
            # What is worse by little may be better with all folds.
            best, fold = Key(gammas[i], alphas[j]), task.folds[0]
            mean = search.mean(best, [0])
            tried = [key for key in search.cells if key.gamma == best.gamma and search.knows(key, [0])]
            close = [key for key in tried if search.mean(key, [0]) >= mean - _CLOSE * abs(mean)]
            if self.rule == "best":
                scores = {key: search.cells[key].held_out[0] for key in close}
                close = [key for key in close if not task.is_surely_worse(fold, scores[key], scores[best])]
            gammas = Axis([best.gamma], alpha_of, 0, 0)
            alphas = Axis(sorted((key.alpha for key in close), reverse=True), alpha_of, 0, 0)
            starts = list(product([0], alphas.start([])))
        climb(search, folds, gammas, alphas, starts, 1)
        return search

    def _first_place(self, task: Task, gammas: Axis, alphas: Axis) -> tuple[tuple[int, int] | None, bool]:
        """Where some of the rows say that the best model is, if there are more than so many; whether by the finest steps."""
        place: tuple[int, int] | None = None
        rows, settled = 0, False
        for more, budget, step in _STAGES:
            part = self._part(task, more, budget) if more < task.data.n else None
            if part is None:
                break
            few = alphas.down_to(1.0 / (_LARGEST_C * more))
            if place is None:
                starts = list(product(gammas.start(_WIDTHS), few.start(_DECADES)))
            else:
                starts = places_around(gammas, few, (place[0], few.shifted(place[1], more / rows)), step)
            place = climb(part, range(len(part.folds)), gammas, few, starts, step, _SLACK)
            rows, settled = more, step == 1
        if place is not None:
            place = place[0], alphas.shifted(place[1], task.data.n / rows)
        return place, settled

    def _part(self, task: Task, count: int, budget: int) -> Search | None:
        """A search by some of the rows, with fewer support vectors, and so many of the folds as it takes."""
        order = np.random.RandomState(task.seed).permutation(task.data.n)
        rows, wholes, held_out = np.sort(order[:count]), [], 0
        for fold in task.folds:
            found = int(np.isin(rows, fold.test).sum())
            if found and np.isin(fold.train, rows).any():
                wholes.append(fold)
                held_out += found
            if held_out >= _FEW_TEST:
                break
        if not wholes:
            return None  # Folds so odd that no part shows what they are.
        rows = np.union1d(rows, task.one_of_each(wholes, order))
        folds = [Fold(*(np.flatnonzero(np.isin(rows, of)) for of in fold)) for fold in wholes]
        few = task.data.take(rows)
        most = None if self._most is None else min(self._most, budget)
        space = partial(self._space, task, few, self._views(task, few, folds), most)

        def measure(fold: Fold, scores: np.ndarray) -> float:
            return task.measure(Fold(rows[fold.train], rows[fold.test]), scores)

        search = task.over(few, folds, space, measure)
        search.tol = _PART_TOL
        if most is None:
            search.threads = self._jobs(task, few)
        else:
            search.most_kept = len(_WIDTHS) * len(folds)
        return search

    def _jobs(self, task: Task, data: Data) -> int:
        """How many exact machines are worked on at a time: as many as have room for all their kernel values.

        Each may fill the cache, as how a problem is taken depends on what room it has, and must not depend on other jobs.
        """
        room = cache_bytes(self.cache_size) // (data.n**2 * data.X.dtype.itemsize)
        return max(1, min(task.threads, room))

    def _space(
        self,
        task: Task,
        data: Data,
        views: dict[int, Data],
        budget: int | None,
        gamma: float,
        fold: Fold,
        alpha: float,
        look: Callable[..., object],
    ) -> Space:
        data = views.get(id(fold), data)
        model = self._model(task.seed, gamma=gamma, alpha=STREAM_ALPHA).set_params(budget=budget)
        n_classes = len(task.classes)
        if budget is None:
            return Exact(model.set_params(n_jobs=task.threads // self._jobs(task, data)), data, n_classes, task.outputs, fold)
        model._decided = model._decide(data, n_classes, stream=False)
        cache = cache_bytes(self.cache_size) // task.threads
        return kernel_space(model, data, n_classes, task.outputs, fold, alpha, cache, task.seed, look)
