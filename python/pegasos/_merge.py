"""Models that learn apart: the average of several, and copies that are to be averaged again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from pegasos._base import Run
from pegasos._core import Trainer
from pegasos._kernel import KernelPegasosClassifier
from pegasos._linear import PegasosClassifier
from pegasos._stream import Stream
from pegasos._threads import thread_count

if TYPE_CHECKING:
    from collections.abc import Sequence

Model = TypeVar("Model", bound=PegasosClassifier | KernelPegasosClassifier)

#: Into how many copies a model is split at most: each costs its size and some kilobytes.
_MOST_PARTS = 100_000


def merge(estimators: Sequence[Model], weights: Any = None) -> Model:
    """Average models that learned apart, on parts of the data or on machines of their own.

    The scores of the result are the weighted means of the models'. Linear: ``coef_`` and ``intercept_`` are these means.
    With kernels: the support vectors are those of all models, those with the same features joined, and their coefficients
    weighted; on a budget they are then merged, projected or removed, as in training, until the budget holds. Where iterates
    were averaged, so are the averages.

    Parameters
    ----------
    estimators : sequence of fitted PegasosClassifier, OnlineGradientClassifier or KernelPegasosClassifier
        At least one; all of one class, trained on the same features (in number, names and dtype) and the same classes. With
        kernels also with the same ``kernel``, gamma, ``degree``, ``coef0``, ``budget``, ``maintenance``, ``fit_intercept``
        and ``multi_class``; ``gamma="scale"`` means another number for each part of the data, so give one. Not with
        precomputed or callable kernels, whose support vectors are rows of a matrix that each has for itself, nor with a
        metric that is learned.
    weights : array-like of shape (n_estimators,), default=None
        How much each counts, >= 0, finite, not all 0; equally by default. Models of parts of
        different size want the parts' sizes.

    Returns
    -------
    merged : PegasosClassifier, OnlineGradientClassifier or KernelPegasosClassifier
        A new estimator with the first one's parameters. ``partial_fit`` goes on from there; ``t_`` is
        the sum of the models' steps, as if it had made all of them: of plain Pegasos, with weights in proportion to the
        steps, ``w`` is then ``1/(alpha t_)`` times the sum of all gradients that models trained from nothing have taken.

    Raises
    ------
    ValueError
        The models do not fit together, or the weights do not fit the models.
    NotFittedError
        One of them is not fitted.
    MemoryError
        If there is not enough memory.

    See Also
    --------
    split : Copies of a model that go on apart, for the next round.

    Notes
    -----
    Time and memory, linear: O(models x size of the weights). With kernels O(N^2 (n_features + outputs)) time and memory for
    N^2 numbers, N being the support vectors that are looked at together: of all models without a budget, with a budget B
    no more than 2048 or 2 B; for ``maintenance="project"`` O(N^3) time. What no average has is left out: certificates,
    regret, gradients in flight, histories, calibration.

    ``PegasosClassifier(shards=k)`` does this at the end of every epoch, within one ``fit``; `pegasos.dask` on many machines.

    References
    ----------
    M. Zinkevich, M. Weimer, A. Smola, L. Li. "Parallelized stochastic gradient descent." NIPS 2010,
    Algorithm 3.

    Z. Wang, K. Crammer, S. Vucetic. "Multi-class Pegasos on a budget." ICML 2010, section 4: how a budget is kept.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from pegasos import KernelPegasosClassifier, PegasosClassifier, merge
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = scale(X)
    >>> halves = [PegasosClassifier(alpha=0.1, random_state=0).fit(X[k::2], y[k::2]) for k in (0, 1)]
    >>> round(merge(halves).score(X, y), 2)
    0.99
    >>> machine = {"gamma": 0.03, "budget": 40, "random_state": 0}
    >>> halves = [KernelPegasosClassifier(**machine).fit(X[k::2], y[k::2]) for k in (0, 1)]
    >>> merged = merge(halves)
    >>> len(merged.support_vectors_), bool(merged.score(X, y) > 0.96)
    (40, True)
    """
    try:
        models = list(estimators)
    except TypeError:
        raise TypeError(f"estimators must be a sequence of estimators, got a {type(estimators).__name__}") from None
    if not models:
        raise ValueError("estimators must hold at least one fitted estimator, got none")
    first = models[0]
    for model in models:
        _check_kind(model, first)
        check_is_fitted(model)
        _check_alike(model, first)
    factors = np.ones(len(models)) if weights is None else _weights(weights, "weights")
    if len(factors) != len(models):
        raise ValueError(f"weights must be {len(models)} numbers, one for each estimator, got {weights!r}")
    merged = Trainer.average(
        [model._trainer for model in models],
        (factors / factors.sum()).tolist(),
        threads=thread_count(first.n_jobs or None),
    )
    run = Run(ahead_by(0.0, merged), first._seed, max(model._epoch for model in models))
    run.ascended = any(getattr(model, "_risen", False) for model in models)
    return twin(first, run, Stream.of_merge(first.classes_, [model._met() for model in models]))


def split(estimator: Model, parts: Any) -> list[Model]:
    """Copy a model, so that the copies go on apart and are merged again.

    A round of training on many machines is: `split`, ``partial_fit`` of each copy on its part of the data, `merge`. The
    copies share the steps ``t_`` of the model by the sizes of their parts, so that the merged model has made those of all.
    In the step size a copy counts twice its share of the steps before, or all of them if that is less; see Notes.

    Parameters
    ----------
    estimator : PegasosClassifier, OnlineGradientClassifier or KernelPegasosClassifier
        The model. Of one that is not fitted yet the copies are clones; name the classes to ``partial_fit`` then.
    parts : int or array-like of shape (n_parts,)
        How many copies, 100,000 at most; or how large their parts of the data are, > 0 and finite, for instance in examples.

    Returns
    -------
    copies : list
        An estimator for each part.

    Raises
    ------
    ValueError
        If there is nothing to split or the model is one that does not `merge`.

    See Also
    --------
    merge : The average of models.

    Notes
    -----
    How long steps may be: with steps of ``1/(alpha s)`` what was learned by step ``s`` counts for less and less as s grows. If
    each of k copies goes on at ``s = t_``, the average changes as in ``1/k`` of the steps, and an unlucky beginning fades as
    ``t^(-1/k)`` only; if it goes on at ``s = t_/k``, the average keeps pace with one model that makes all steps, but steps are k
    times as long, and where the data are noisy for them averaging does not make up for that. At twice its share a beginning
    fades as ``t^(-1/2)`` at least, however many copies there are. docs/distributed.md has figures.

    Time and memory: O(parts x size of the model). Classes that were
    counted, and what a budget has cost so far, are the first copy's to know, so that merging counts them once. No gradients
    in flight, calibration or history. ``average`` must not be a number of steps, after which it begins.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from pegasos import PegasosClassifier, merge, split
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X, parts = scale(X), [slice(0, 200), slice(200, 569)]
    >>> model = PegasosClassifier("hinge", alpha=0.01, random_state=0)
    >>> for _ in range(5):
    ...     copies = split(model, [200, 369])
    ...     for copy, part in zip(copies, parts):
    ...         _ = copy.partial_fit(X[part], y[part], classes=[0, 1])
    ...     model = merge(copies, [200, 369])
    >>> model.t_ == 5 * len(y), bool(model.score(X, y) > 0.97)
    (True, True)
    """
    _check_kind(estimator, estimator)
    if isinstance(parts, int | np.integer) and not isinstance(parts, bool):
        if not 1 <= parts <= _MOST_PARTS:
            raise ValueError(f"parts must be a number of copies in 1..{_MOST_PARTS}, or the sizes of parts, got {parts}")
        sizes = np.ones(int(parts))
    else:
        sizes = _weights(parts, "parts")
        if not sizes.all():
            raise ValueError(f"parts must be sizes > 0, got {parts!r}")
        if len(sizes) > _MOST_PARTS:
            raise ValueError(f"parts must be {_MOST_PARTS} sizes at most, got {len(sizes)}")
    if not hasattr(estimator, "_trainer"):
        return [clone(estimator) for _ in sizes]
    _check_alike(estimator, estimator)
    params = estimator._trainer.made.params
    if params["average"] in ("uniform", "polynomial") and params["average_from"] > 1:
        raise ValueError(
            f"average must begin at the first step where a model is split, got average={estimator.average!r}, which begins "
            f"at step {params['average_from']}"
        )
    t = estimator.t_
    shares = sizes / sizes.sum()
    bounds = np.rint(np.cumsum(shares) * t).astype(np.int64)
    met = estimator._met() or Stream()
    copies = []
    for k, steps in enumerate(np.diff(bounds, prepend=0).tolist()):
        # One that has made no step would forget the model in its first.
        steps = max(steps, min(t, 1))
        share = ahead_by(steps_ahead(steps, shares[k]), estimator._trainer.share(steps, k == 0))
        stream = replace(met, counts=met.counts if k == 0 else np.zeros(len(estimator.classes_), np.int64))
        run = Run(share, estimator._seed, estimator._epoch)
        run.ascended = getattr(estimator, "_risen", False)
        copies.append(twin(estimator, run, stream))
    return copies


def steps_ahead(t: int, share: float) -> float:
    """How many steps of others a copy counts with its own t, if it makes this share of all."""
    return t * (min(1.0 / share, 2.0) - 1.0)


def ahead_by(steps: float, trainer: Trainer) -> Trainer:
    """A trainer that counts so many steps of others in its step size."""
    if trainer.made.params.get("ahead", 0.0) == steps:
        return trainer
    parts = trainer.parts()
    parts["params"]["ahead"] = float(steps)
    return Trainer.from_parts(parts)


def _weights(weights: Any, name: str) -> np.ndarray:
    """Numbers that say how much each of several counts, of which the largest is 1."""
    try:
        factors = np.asarray(weights, dtype=np.float64)
    except (OverflowError, TypeError, ValueError):
        raise ValueError(f"{name} must be a list of finite numbers >= 0, got {weights!r}") from None
    if factors.ndim != 1 or not (np.isfinite(factors).all() and (factors >= 0).all()):
        raise ValueError(f"{name} must be a list of finite numbers >= 0, got {weights!r}")
    if factors.size == 0 or not factors.any():
        raise ValueError(f"{name} must be > 0 somewhere, got {'only zeros' if factors.size else 'none'}")
    # By the largest: their sum may overflow.
    found: np.ndarray = factors / factors.max()
    return found


def _check_kind(model: Any, first: Any) -> None:
    if type(model) is not type(first) or not isinstance(model, PegasosClassifier | KernelPegasosClassifier):
        raise ValueError(
            "estimators must be PegasosClassifier, OnlineGradientClassifier or KernelPegasosClassifier, all of one class, got "
            f"{sorted({type(model).__name__, type(first).__name__})}"
            + ("; those of pegasos.dask have to_local()" if hasattr(model, "to_local") else "")
        )


def _check_alike(model: Any, first: Any) -> None:
    """Refuses models whose weights, or coefficients, do not mean the same."""
    if not np.array_equal(model.classes_, first.classes_):
        raise ValueError(f"estimators must have the same classes, got {first.classes_!r} and {model.classes_!r}")
    facts = [
        (
            ("number of features", each.n_features_in_),
            ("feature names", list(getattr(each, "feature_names_in_", []))),
            ("dtype", each._trainer.made.dtype),
            *(_of_kernel(each) if isinstance(each, KernelPegasosClassifier) else _of_weights(each)),
        )
        for each in (first, model)
    ]
    for (name, one), (_, other) in zip(*facts, strict=True):
        if one != other:
            raise ValueError(f"estimators must have the same {name}, got {one!r} and {other!r}")


def _of_weights(model: PegasosClassifier) -> tuple[tuple[str, Any], ...]:
    """What the weights of a linear model mean; of two classes all ways to tell them apart are one."""
    made = model._made_with
    scalings = {"free": 1.0, True: float(made["intercept_scaling"]), False: 0.0}
    intercept = ("intercept_scaling (0 without an intercept)", scalings[made["fit_intercept"]])
    if len(model.classes_) == 2:
        return (intercept,)
    return intercept, ("multi_class", made["multi_class"])


def _of_kernel(model: KernelPegasosClassifier) -> tuple[tuple[str, Any], ...]:
    """What the coefficients of a machine mean."""
    made = model._made_with
    kernel = made["kernel"]
    if not isinstance(kernel, str) or kernel == "precomputed":
        raise ValueError(f"estimators must have a kernel of features, got kernel={kernel!r}")
    if model._metric is not None:
        raise ValueError(f"estimators must have the plain metric, got metric={made['metric']!r}, which each has learned for itself")
    named = ("kernel", "budget", "maintenance", "fit_intercept", "multi_class")
    facts = [(name, made[name]) for name in named]
    if kernel != "linear":
        facts.insert(1, ("gamma", model._gamma))
    if kernel in ("poly", "sigmoid"):
        facts += [(name, made[name]) for name in ("degree", "coef0")]
    return tuple(facts)


def twin(model: Model, run: Run, stream: Stream | None) -> Model:
    """An estimator with a model's parameters and another trainer."""
    made: Model = clone(model)
    for name in ("n_features_in_", "feature_names_in_", "_decided", "_gamma"):
        if hasattr(model, name):
            setattr(made, name, getattr(model, name))
    made._settle(run, model.classes_)
    # What was set since is not in the trainer: the next training asks for it.
    made._made_with = model._made_with
    made._stream = stream
    return made
