"""Rounds of training on a Dask cluster: what the workers do, and what is made of it.

The rows are divided once, into groups: the parts that a worker holds. A round is a task for each group; what goes there is a
model to go on from, what comes back is the model that has. A task is a function of these, of its parts and of nothing else,
so that it may be done again elsewhere, with the same result, when its worker dies. The averages are made by the client, which
so has all it needs for the next round: nothing is lost with a worker but what it was at.
"""

from __future__ import annotations

from copy import copy
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import distributed
import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone

from pegasos._base import Run
from pegasos._core import Trainer
from pegasos._data import as_data, encode, encode_among, explaining, validated
from pegasos._merge import ahead_by, merge, steps_ahead, twin
from pegasos._parts import Part, threads
from pegasos._stream import Stream, united
from pegasos._threads import thread_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pegasos._tasks import Tasks

# -- at the workers


def _own_threads() -> int:
    """A task has those of its worker, as it is the only one there."""
    return int(distributed.get_worker().state.nthreads)


def _put_together(parts: list[tuple[Any, ...]]) -> list[Part]:
    return [Part.of(*pieces) for pieces in parts]


class Facts(NamedTuple):
    """What is to be known of the examples before training begins."""

    n: int
    classes: np.ndarray
    counts: np.ndarray
    n_features: int
    names: list[str]
    sparse: bool
    dtype: np.dtype[Any]
    #: The sum of all features, and of their squares; 0 if nobody asks.
    total: float
    squares: float
    #: The sum of the weights, and the largest squared norm of a row times its weight, for each class.
    weights: np.ndarray
    largest: np.ndarray

    @property
    def variance(self) -> float:
        """That of all features together."""
        size = float(self.n) * self.n_features
        return max(0.0, self.squares / size - (self.total / size) ** 2)

    def among(self, classes: np.ndarray) -> Facts:
        """The same where there may be more classes."""
        places = encode_among(self.classes, classes)
        found = [np.zeros(len(classes), each.dtype) for each in (self.counts, self.weights, self.largest)]
        for each, own in zip(found, (self.counts, self.weights, self.largest), strict=True):
            each[places] = own
        counts, weights, largest = found
        return self._replace(classes=classes, counts=counts, weights=weights, largest=largest)


def survey(parts: list[tuple[Any, ...]], model: Any, spread: bool, constant: float | None) -> Facts | None:
    """The facts of some parts, None where there are no rows; of the features their ``spread`` if it is wanted, and the
    largest norms with a ``constant`` feature, if that is given."""
    with threads(_own_threads()):
        found = [_survey(part, clone(model), spread, constant) for part in _put_together(parts) if part.n]
    return reduce(both, found) if found else None


def _survey(part: Part, model: Any, spread: bool, constant: float | None) -> Facts:
    X, y = validated(model, part.X, part.y, dtype=[np.float64, np.float32], reset=True, finite=False)
    classes, codes = encode(y)
    total, squares, largest = 0.0, 0.0, np.zeros(len(classes))
    data, weight = as_data(X), part.weights()
    if spread or constant is not None:
        with explaining(X, model):
            norms = data.norms()
        if not np.isfinite(norms).all():
            raise ValueError("X must be finite and of a scale whose products are finite; scale the features (StandardScaler)")
    if spread:
        squares = float(norms.sum())
        total = float((X.data if issparse(X) else X).sum(dtype=np.float64))
    if constant is not None:
        np.maximum.at(largest, codes, (norms + constant**2) * (1.0 if weight is None else weight))
    names = list(getattr(model, "feature_names_in_", []))
    counts, weights = (np.bincount(codes, weight, minlength=len(classes)) for weight in (None, weight))
    return Facts(len(y), classes, counts, X.shape[1], names, issparse(X), X.dtype, total, squares, weights, largest)


def both(one: Facts, other: Facts) -> Facts:
    """The facts of two lots of examples together."""
    for name, this, that in (
        ("number of features", one.n_features, other.n_features),
        ("feature names", one.names, other.names),
        ("kind of matrix", *("sparse" if facts.sparse else "dense" for facts in (one, other))),
    ):
        if this != that:
            raise ValueError(f"all parts of X must have the same {name}, got {this!r} and {that!r}")
    classes = one.classes if np.array_equal(one.classes, other.classes) else united(one.classes, other.classes, "y")
    mine, theirs = one.among(classes), other.among(classes)
    return one._replace(
        n=one.n + other.n,
        classes=classes,
        counts=mine.counts + theirs.counts,
        dtype=np.result_type(one.dtype, other.dtype),
        total=one.total + other.total,
        squares=one.squares + other.squares,
        weights=mine.weights + theirs.weights,
        largest=np.maximum(mine.largest, theirs.largest),
    )


class Prepared:
    """Examples as trainers take them, for as long as a fit lasts: rows that need no conversion are those of the part."""

    # No tuple, whose rows Dask would count as those of the part and then once more.
    __slots__ = ("X", "codes", "weight")

    def __init__(self, X: Any, codes: np.ndarray, weight: np.ndarray | None) -> None:
        self.X, self.codes, self.weight = X, codes, weight

    @property
    def n(self) -> int:
        return len(self.codes)


def prepare(
    parts: list[tuple[Any, ...]], model: Any, classes: np.ndarray, dtype: Any, of_class: np.ndarray | None
) -> tuple[Any, list[Prepared]]:
    """The parts that are not empty, with weights ``of_class``, and the model, which now knows the names of the features."""
    model, found = clone(model), []
    for part in (part for part in _put_together(parts) if part.n):
        X, y = validated(model, part.X, part.y, dtype=dtype, reset=True, finite=False)
        codes, weight = encode_among(y, classes), part.weights()
        if of_class is not None:
            weight = of_class[codes] if weight is None else weight * of_class[codes]
        if weight is not None and not weight.any():
            # Others have weights, and these count all the same: nobody trains where there is none at all.
            weight = weight.copy()
            weight[0] = np.finfo(np.float64).tiny
        data = as_data(X, codes, weight)
        found.append(Prepared(data.X, data.codes, data.weight))
    return model, found


class Learned(NamedTuple):
    """What a task brings back: a model, and of how many visits to examples the sum of the losses."""

    model: Any
    loss: float
    visits: int


def learn(prepared: tuple[Any, list[Prepared]], model: Any, seed: int, classes: np.ndarray, epochs: range) -> Learned:
    """Visits all examples once in each of these epochs, part by part in an order drawn for that; from where ``model`` is, or
    from nothing."""
    first, parts = prepared
    # Where workers are threads of this process the model is everybody's.
    model = clone_with_names(first).set_params(random_state=seed) if model is None else copy(model)
    run = None if not hasattr(model, "_trainer") else Run(model._trainer, model._seed, model._epoch)
    visits = []
    with threads(_own_threads()):
        for epoch in epochs:
            for i in np.random.default_rng([seed, epoch]).permutation(len(parts)):
                part = parts[i]
                data = as_data(part.X, part.codes, part.weight)
                with explaining(part.X, model):
                    run = run or model._begun(data, len(classes))
                    run.begin(data, model._order(part.n), threads=thread_count(None))
                    for _ in run.epochs():
                        pass
                visits.append(part.n)
        assert run is not None
        model._settle(run, classes)
    return Learned(model, float(np.dot(run.losses, visits)), sum(visits))


def clone_with_names(model: Any) -> Any:
    """A clone that knows the features."""
    twin = clone(model)
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(model, name):
            setattr(twin, name, getattr(model, name))
    return twin


def loss_of(prepared: tuple[Any, list[Prepared]], model: Any) -> float:
    """The sum over examples of weight times loss, of a linear model."""
    total = 0.0
    with threads(_own_threads()):
        for part in prepared[1]:
            scores = model._scores(model._trainer, part.X).astype(np.float64)
            if scores.ndim == 1:
                margins = np.where(part.codes == 1, scores, -scores)[:, None]
            else:
                own = np.arange(scores.shape[1]) == part.codes[:, None]
                margins = np.where(own, scores, -scores)
                if model.multi_class == "crammer_singer":
                    rival = np.where(own, -np.inf, scores).max(axis=1)
                    margins = (scores[own] - rival)[:, None]
            if model.loss == "log_loss":
                losses = np.logaddexp(0.0, -margins)
            else:
                losses = np.maximum(0.0, 1.0 - margins) ** (2 if model.loss == "squared_hinge" else 1)
            total += float(np.dot(losses.sum(axis=1), np.ones(part.n) if part.weight is None else part.weight))
    return total


# -- at the client


class Round(NamedTuple):
    """What a round has come to: the average, and the mean loss of examples, each just before it was learned from."""

    model: Any
    loss: float
    visits: int


class _Account(NamedTuple):
    """What a group went into a round with, None for nothing, and what it came out with."""

    start: Any
    end: Any


def rounds(
    tasks: Tasks,
    seeds: Sequence[int],
    sizes: Sequence[int],
    classes: np.ndarray,
    *,
    most: int,
    epochs: int,
    delay: int,
) -> Iterator[Round]:
    """Rounds of local training and averaging, at most so many.

    ``W_r = W_(r-1) + sum_k c_k (end_k - start_k)`` is the average after round r, c_k being the part of the examples that group
    k has. A group begins round r where ``W_a`` is, ``a = r - 1 - delay``, and with what it has learned itself in the rounds
    since, so that it may go on as long as it is no more than ``delay`` rounds ahead of the slowest. Without a delay
    that is the average of the round before, for all.
    """
    groups = range(len(seeds))
    averages: dict[int, Any] = {}
    accounts: dict[tuple[int, int], _Account] = {}
    learned: dict[tuple[int, int], Learned] = {}
    # The round that each group is at or has ended, and whether it has.
    at, idle = [0] * len(seeds), [False] * len(seeds)
    over = 0

    def begin(k: int, start: Any) -> None:
        accounts[at[k], k] = _Account(start, None)
        idle[k] = False
        first = at[k] * epochs
        tasks.submit(k, learn, start, seeds[k], classes, range(first, first + epochs))

    for k in groups:
        begin(k, None)
    while over < most:
        for k, found in tasks.next():
            if found.visits != sizes[k] * epochs:
                raise RuntimeError(f"parts of the data have changed: {found.visits // epochs} rows where {sizes[k]} were before")
            learned[at[k], k] = found
            accounts[at[k], k] = accounts[at[k], k]._replace(end=found.model)
            idle[k] = True
        while over < most and all((over, k) in learned for k in groups):
            of_round = [accounts[over, k] for k in groups]
            averages[over] = _average(averages.get(over - 1), of_round, sizes, delay)
            of_all = [learned.pop((over, k)) for k in groups]
            visits = sum(found.visits for found in of_all)
            yield Round(averages[over], sum(found.loss for found in of_all) / visits, visits)
            over += 1
        for k in groups:
            if idle[k] and at[k] + 1 < most and at[k] - delay < over:
                at[k] += 1
                begin(k, _start(k, at[k], averages, accounts, delay, sizes[k] / sum(sizes)))
        # What no group will ask for.
        oldest = over - delay - 2
        averages = {r: average for r, average in averages.items() if r >= oldest}
        accounts = {(r, k): account for (r, k), account in accounts.items() if r >= oldest}


def _average(before: Any, of_round: list[_Account], sizes: Sequence[int], delay: int) -> Any:
    ends = [account.end for account in of_round]
    if delay == 0 or before is None:
        return merge(ends, sizes)
    shares = np.asarray(sizes) / np.sum(sizes)
    terms = [(1.0, before)]
    for share, (start, end) in zip(shares.tolist(), of_round, strict=True):
        terms += [(share, end), (-share, start)]
    return _sum(before, terms, sum(end.t_ for end in ends), 0.0, True)


def _start(
    k: int, r: int, averages: dict[int, Any], accounts: dict[tuple[int, int], _Account], delay: int, share: float
) -> Any:
    """Where group k, which has this share of the examples, begins round r."""
    end, a = accounts[r - 1, k].end, r - 1 - delay
    if a < 0:
        terms = [(1.0, end)]
    elif delay == 0:
        terms = [(1.0, averages[a])]
    else:
        start, own = accounts[a, k]
        terms = [(1.0, end), (1.0, averages[a]), (-1.0, own)]
        if a > 0:
            terms += [(-1.0, averages[a - 1]), (1.0, start)]
    # It goes on counting its own steps, and some of the others': see `split`.
    return _sum(end, terms, end.t_, steps_ahead(end.t_, share), k == 0)


def _sum(model: Any, terms: list[tuple[float, Any]], t: int, ahead: float, account: bool) -> Any:
    """A model with these parameters, seed and epoch, whose w is a sum of factors times those of others."""
    factors, others = zip(*terms, strict=True)
    trainer = others[0]._trainer if len(others) == 1 else Trainer.average([each._trainer for each in others], list(factors))
    stream = Stream(model.classes_, np.zeros(len(model.classes_), np.int64))
    return twin(model, Run(ahead_by(ahead, trainer.share(t, account)), model._seed, model._epoch), stream)
