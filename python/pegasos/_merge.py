"""The average of linear models that learned apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from pegasos._base import Run
from pegasos._core import Trainer
from pegasos._linear import PegasosClassifier
from pegasos._stream import Stream

if TYPE_CHECKING:
    from collections.abc import Sequence

Linear = TypeVar("Linear", bound=PegasosClassifier)


def merge(estimators: Sequence[Linear], weights: Any = None) -> Linear:
    """Average linear models that learned apart, on parts of the data or on machines of their own.

    ``coef_`` and ``intercept_`` of the result are the weighted means of the models'; where iterates
    were averaged, the means of the averages.

    Parameters
    ----------
    estimators : sequence of fitted PegasosClassifier or OnlineGradientClassifier
        At least one; all of one class, trained on the same features (in number and dtype) and the
        same classes.
    weights : array-like of shape (n_estimators,), default=None
        How much each counts, >= 0, finite, not all 0; equally by default. Models of parts of
        different size want the parts' sizes.

    Returns
    -------
    merged : PegasosClassifier or OnlineGradientClassifier
        A new estimator with the first one's parameters. ``partial_fit`` goes on from there; ``t_`` is
        the sum of the models' steps.

    Raises
    ------
    ValueError
        The models do not fit together, or the weights do not fit the models.
    NotFittedError
        One of them is not fitted.

    Notes
    -----
    Time and memory: O(models x size of the weights). What no average has is left out: certificates,
    regret, gradients in flight.

    ``PegasosClassifier(shards=k)`` does this at the end of every epoch, within one ``fit``.

    References
    ----------
    M. Zinkevich, M. Weimer, A. Smola, L. Li. "Parallelized stochastic gradient descent." NIPS 2010,
    Algorithm 3.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from pegasos import PegasosClassifier, merge
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = scale(X)
    >>> halves = [PegasosClassifier(alpha=0.1, random_state=0).fit(X[k::2], y[k::2]) for k in (0, 1)]
    >>> round(merge(halves).score(X, y), 2)
    0.99
    """
    models = list(estimators)
    if not models:
        raise ValueError("estimators must hold at least one fitted estimator, got none")
    first = models[0]
    for model in models:
        if type(model) is not type(first) or not isinstance(model, PegasosClassifier):
            raise ValueError(
                "estimators must be linear models of one class, got "
                f"{sorted({type(model).__name__ for model in models})}"
            )
        check_is_fitted(model)
        if not np.array_equal(model.classes_, first.classes_):
            raise ValueError(
                f"estimators must have the same classes, got {first.classes_!r} and {model.classes_!r}"
            )
        if model.n_features_in_ != first.n_features_in_:
            raise ValueError(
                "estimators must have the same number of features, got "
                f"{first.n_features_in_} and {model.n_features_in_}"
            )
        names = [list(getattr(m, "feature_names_in_", [])) for m in (first, model)]
        if names[0] != names[1]:
            raise ValueError(
                f"estimators must have the same feature names, got {names[0]!r} and {names[1]!r}"
            )
    factors = np.ones(len(models)) if weights is None else np.asarray(weights, dtype=np.float64)
    if factors.shape != (len(models),) or not (np.isfinite(factors).all() and (factors >= 0).all()):
        raise ValueError(
            f"weights must be {len(models)} finite numbers >= 0, one for each estimator, got {weights!r}"
        )
    if not factors.any():
        raise ValueError("weights must be > 0 somewhere, got only zeros")
    # First by the largest: their sum may overflow.
    factors = factors / factors.max()
    trainers = [model._trainer for model in models]
    merged: Linear = clone(first)
    merged.n_features_in_ = first.n_features_in_
    if hasattr(first, "feature_names_in_"):
        merged.feature_names_in_ = first.feature_names_in_
    run = Run(
        Trainer.average(trainers, (factors / factors.sum()).tolist()),
        first._seed,
        max(model._epoch for model in models),
    )
    merged._settle(run, first.classes_)
    merged._stream = Stream.of_merge(first.classes_, [model._met() for model in models])
    return merged
