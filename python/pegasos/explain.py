"""What each feature adds to the scores of a model: exact Shapley values."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.utils._param_validation import validate_params
from sklearn.utils.validation import check_is_fitted

from pegasos import _core
from pegasos._data import as_data, explaining, validated
from pegasos._linear import PegasosClassifier
from pegasos._machine import KernelMachine
from pegasos._metric import one_thread
from pegasos._sparse import dense
from pegasos._threads import thread_count
from pegasos._tuning import Tuned

if TYPE_CHECKING:
    from pegasos._data import Data

__all__ = ["ShapleyValues", "shapley"]


class ShapleyValues(NamedTuple):
    """What `shapley` returns.

    Attributes
    ----------
    values : ndarray of shape (n_samples, n_features) or (n_samples, n_features, n_scores), float64
        What each feature adds to the score, or to each of the scores.
    base_values : float or ndarray of shape (n_scores,), float64
        The score where no feature is known, to which the values of a row are added.
    """

    values: np.ndarray
    base_values: float | np.ndarray


@validate_params({"n_jobs": [Integral, None]}, prefer_skip_nested_validation=True)
def shapley(model: Any, X: Any, *, background: Any = None, n_jobs: int | None = None) -> ShapleyValues:
    """Exact Shapley values: how much of a row's score is due to each feature.

    With v(S) the score where only the features in S are known, the value of feature i is the mean of ``v(S + i) - v(S)`` over
    the orders in which the features may become known. So the values of a row and the base value add up to its score.

    Parameters
    ----------
    model : fitted estimator of pegasos
        A ``KernelPegasosClassifier`` or ``ProjectronClassifier`` with ``kernel="rbf"``, whose learned metric, if it has one,
        is diagonal, or with ``kernel="linear"``; a ``PegasosClassifier`` or ``OnlineGradientClassifier``; or one of the
        tuned ones, whose ``best_estimator_`` is explained.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        The rows to explain.
    background : {array-like, sparse matrix} of shape (n_background, n_features), default=None
        Rows that say what a feature may be where it is not known: v(S) is the mean, over them, of the score of the row that
        has the features in S from the row that is explained and the others from the background's. Some hundred rows of
        the training data, say. None: features that are not known are left out of the score, that is, their factors
        ``exp(-gamma (x_i - z_i)^2)`` of the kernel values, or their terms ``w_i x_i`` of linear scores.
    n_jobs : int or None, default=None
        Threads, as of the estimators. Changes no bit of the result.

    Returns
    -------
    ShapleyValues
        ``values`` and ``base_values``. Of two classes there is one score, that of the second; of more one for each class,
        or, with ``multi_class="ovo"``, one for each pair: (0, 1), (0, 2), ..., (1, 2), ..., > 0 for the first. What
        ``decision_function`` makes of pairs, votes, is no sum; it returns their scores for
        ``decision_function_shape="ovo"``.

    Raises
    ------
    TypeError
        If the model is none of those.
    ValueError
        If its kernel is another, or its metric full, so that features are mixed before the kernel sees them; or X or the
        background is not as described.
    MemoryError
        If there is not enough memory for the values.
    sklearn.exceptions.NotFittedError
        If the model is not fitted.

    See Also
    --------
    KernelPegasosClassifier.feature_importances_ : What a learned metric says of all rows together.

    Notes
    -----
    A Gaussian kernel value is a product over the features. For such a game the value of feature i, with factors p and q where
    features are known and where they are not, is ``(p_i - q_i) * integral over t in [0, 1] of the product over l != i of
    (q_l + t (p_l - q_l))``: a polynomial in t, which Gauss and Legendre's rule of n_features/2 nodes integrates exactly.
    Fewer are used where a bound says that they are as good: the error is at most 2^-53 of the product of the larger
    factors. Products of four features at a time are polynomials, and of up to 8 features nothing else is needed.

    Time: O(n_samples n_sv n_background n_features nodes). There are n_features/2 nodes at most, about 8 where gamma is near
    ``1/(n_features X.var())``, and about ``3 sqrt(n_features) + 8`` at most. Features that are the same in the row and in
    the background's cost next to nothing. Linear scores: O(n_samples n_features n_scores). Memory: the values, the rows of
    the background in float64, and about 8 KB a feature and thread; of sparse rows a few are made dense at a time.

    The models of float32 are explained in float32, in less than half the time: there 5 nodes do where 8 did, the bound on
    their error is 2^-24, and rounding adds some ``n_features + 32`` times 2^-24 of each product of the larger factors, times
    the coefficient. Values are summed over the support vectors in float64.

    References
    ----------
    M. Mohammadi, S. L. Chau, K. Muandet. "Computing exact Shapley values in polynomial time for product-kernel methods."
    arXiv 2505.16516 (2025): the game without a background.

    S. M. Lundberg, S.-I. Lee. "A unified approach to interpreting model predictions." NIPS 2017: the game with one.

    G. Owen. "Multilinear extensions of games." Management Science 18 (1972): the integral.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from pegasos import KernelPegasosClassifier
    >>> from pegasos.explain import shapley
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = scale(X)
    >>> model = KernelPegasosClassifier(random_state=0).fit(X, y)
    >>> found = shapley(model, X[:5], background=X[::10])
    >>> found.values.shape
    (5, 30)
    >>> bool(np.allclose(found.base_values + found.values.sum(axis=1), model.decision_function(X[:5])))
    True
    """
    machine = model
    if isinstance(model, Tuned):
        check_is_fitted(model)
        machine = model.best_estimator_
    threads = thread_count(n_jobs)
    coefs: np.ndarray | None
    if isinstance(machine, PegasosClassifier):
        check_is_fitted(machine)
        # As for a prediction: what is wider than the weights stays so.
        narrow = machine._trainer.made.dtype == "float32"
        rows = _rows(machine, X, [np.float64, np.float32] if narrow else np.float64)
        absent = None if background is None else _rows(machine, background, rows.X.dtype, "background")
        coefs = dense(machine.coef_)
        base = machine.intercept_ if absent is None else _mean_scores(machine, absent, threads)
    elif isinstance(machine, KernelMachine):
        check_is_fitted(machine)
        _refuse_others(machine)
        dtype = np.dtype(machine._trainer.made.dtype)
        rows = _mapped(machine, _rows(machine, X, dtype), threads)
        absent = None
        if background is not None:
            absent = _mapped(machine, _rows(machine, background, dtype, "background"), threads)
        coefs, base = _weights_and_base(machine, absent, threads)
    else:
        raise TypeError(
            "model must be a fitted classifier of pegasos, of a Pipeline its last step (and X as it sees it), got "
            f"{type(model).__name__}"
        )
    known = None if absent is None else absent.examples
    with explaining(rows.X, machine):
        if coefs is None:
            found = _core.shapley(machine._trainer, rows.examples, known, threads=threads)
        else:
            weights = np.ascontiguousarray(coefs.T, np.float64).ravel()
            found = _core.linear_shapley(weights, rows.examples, known, threads=threads)
    values = found.reshape(rows.n, machine.n_features_in_, -1)
    base = np.asarray(base, np.float64)
    if values.shape[2] == 1:
        return ShapleyValues(values[:, :, 0], float(base[0]))
    return ShapleyValues(values, base)


def _kernel(machine: KernelMachine) -> str:
    """What it was trained with, whatever its parameter is since."""
    kernel: str = machine._trainer.made.params["kernel"]
    return kernel


def _refuse_others(machine: KernelMachine) -> None:
    """Refuses machines whose scores are no sums of products over the features."""
    kernel = _kernel(machine)
    if kernel not in ("rbf", "linear"):
        why = "exact values of others take all coalitions of features; shap.KernelExplainer estimates them"
        if machine.kernel == "precomputed":
            why = "rows of kernel values have no features to explain"
        named = machine.kernel if callable(machine.kernel) else kernel
        raise ValueError(f"model must have kernel='rbf' or 'linear', got kernel={named!r}: {why}")
    metric = getattr(machine, "_metric", None)
    if metric is not None and not metric.diagonal:
        raise ValueError(
            "model must have a metric that is diagonal or plain, got a full one, which mixes features, so that kernel values "
            "are no products over them; fit it with metric='diagonal'"
        )


def _rows(machine: Any, X: Any, dtype: Any, name: str = "X") -> Data:
    """Rows as for a prediction."""
    try:
        checked = validated(machine, X, dtype=dtype, reset=False, finite=True)
        data = as_data(checked)
        with explaining(checked, machine):
            data.examples.check()
    except ValueError as error:
        if name == "X":
            raise
        # It speaks of X.
        raise ValueError(f"{name} must be as X is: {error}") from error
    return data


def _mapped(machine: Any, data: Data, threads: int) -> Data:
    """Rows as the kernel sees them, each feature times a number of its own."""
    metric = getattr(machine, "_metric", None)
    if metric is None:
        return data
    with explaining(data.X, machine):
        mapped: Data = metric.mapped(data, threads)
    return mapped


def _mean_scores(machine: Any, data: Data, threads: int) -> np.ndarray:
    """The mean of each score over some rows, (n_scores,)."""
    with explaining(data.X, machine):
        scores = machine._trainer.scores(data.examples, threads=threads)
    mean: np.ndarray = scores.reshape(data.n, -1).mean(axis=0)
    return mean


def _weights_and_base(
    machine: KernelMachine, absent: Data | None, threads: int
) -> tuple[np.ndarray | None, np.ndarray]:
    """The weights of the features, (n_scores, n_features), where the kernel is linear; the scores where none is known."""
    coefs = machine.dual_coef_.astype(np.float64)
    weights = None
    if _kernel(machine) == "linear":
        with one_thread():
            weights = coefs @ machine.support_vectors_.astype(np.float64)
    if absent is not None:
        return weights, _mean_scores(machine, absent, threads)
    # A kernel value without factors, or without terms; and the square of the constant feature whose weight is the intercept.
    alone = 1.0 if weights is None else 0.0
    constant: float = machine._trainer.made.params.get("constant", 0.0)
    return weights, (alone + constant**2) * coefs.sum(axis=1)
