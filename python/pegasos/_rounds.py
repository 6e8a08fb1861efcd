"""Rounds of training on a Dask cluster: what the workers do, which of them does it, and what if one is lost.

The rows are divided once, into groups: the parts that a worker holds. A round is a task for each group, pinned to its worker;
what goes there is a model to go on from, what comes back is the model that has. A task is a function of these, of its parts
and of nothing else, so that it may be done again elsewhere, with the same result, when its worker dies. The averages are made
by the client, which so has all it needs for the next round: nothing is lost with a worker but what it was at.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import dask
import distributed
import numpy as np
from distributed.comm import CommClosedError
from distributed.scheduler import KilledWorker, NoValidWorkerError
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.utils.validation import _check_sample_weight

from pegasos._base import Run
from pegasos._core import Trainer
from pegasos._data import as_data, encode, encode_among, explaining, validated
from pegasos._merge import ahead_by, merge, steps_ahead, twin
from pegasos._parts import Part, threads
from pegasos._stream import Stream, united
from pegasos._threads import thread_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Self

#: Seconds between two looks at the workers; without any worker, and without a word from one, until it is given up.
_LOOK, _NOBODY, _SILENCE = 1.0, 30.0, 45.0

#: Seconds between two looks at futures.
_PAUSE = 0.005

#: So many workers may be lost at the same task.
_MOST_LOST = 3


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
    #: The largest squared norm of a row times its weight, for each class.
    largest: np.ndarray

    @property
    def variance(self) -> float:
        """That of all features together."""
        size = float(self.n) * self.n_features
        return max(0.0, self.squares / size - (self.total / size) ** 2)


def survey(parts: list[tuple[Any, ...]], model: Any, spread: bool, constant: float | None) -> Facts | None:
    """The facts of some parts, None where there are no rows; of the features their ``spread`` if it is wanted, and the
    largest norms with a ``constant`` feature, if that is given."""
    with threads(_own_threads()):
        found = [_survey(part, clone(model), spread, constant) for part in _put_together(parts) if part.n]
    return reduce(both, found) if found else None


def _survey(part: Part, model: Any, spread: bool, constant: float | None) -> Facts:
    X, y, weight = part
    X, y = validated(model, X, y, dtype=[np.float64, np.float32], reset=True, finite=False)
    classes, codes = encode(y)
    largest, total, squares = np.zeros(len(classes)), 0.0, 0.0
    data = as_data(X)
    if spread or constant is not None:
        with explaining(X, model):
            norms = data.norms()
        if not np.isfinite(norms).all():
            raise ValueError("X must be finite and of a scale whose products are finite; scale the features (StandardScaler)")
    if spread:
        squares = float(norms.sum())
        total = float((X.data if issparse(X) else X).sum(dtype=np.float64))
    if constant is not None:
        np.maximum.at(largest, codes, (norms + constant**2) * (1.0 if weight is None else np.asarray(weight, np.float64)))
    names = list(getattr(model, "feature_names_in_", []))
    counts = np.bincount(codes, minlength=len(classes))
    return Facts(len(y), classes, counts, X.shape[1], names, issparse(X), X.dtype, total, squares, largest)


def both(one: Facts, other: Facts) -> Facts:
    """The facts of two lots of examples together."""
    for name, mine, theirs in (
        ("number of features", one.n_features, other.n_features),
        ("feature names", one.names, other.names),
        ("kind of matrix", *("sparse" if facts.sparse else "dense" for facts in (one, other))),
    ):
        if mine != theirs:
            raise ValueError(f"all parts of X must have the same {name}, got {mine!r} and {theirs!r}")
    classes = one.classes if np.array_equal(one.classes, other.classes) else united(one.classes, other.classes, "y")
    counts, largest = np.zeros(len(classes), np.int64), np.zeros(len(classes))
    for facts in (one, other):
        places = encode_among(facts.classes, classes)
        counts[places] += facts.counts
        largest[places] = np.maximum(largest[places], facts.largest)
    return one._replace(
        n=one.n + other.n,
        classes=classes,
        counts=counts,
        dtype=np.result_type(one.dtype, other.dtype),
        total=one.total + other.total,
        squares=one.squares + other.squares,
        largest=largest,
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
    for X, y, weight in (part for part in _put_together(parts) if part.n):
        X, y = validated(model, X, y, dtype=dtype, reset=True, finite=False)
        codes = encode_among(y, classes)
        if weight is not None:
            weight = _check_sample_weight(weight, X, dtype=np.float64, ensure_non_negative=True)
        if of_class is not None:
            weight = of_class[codes] if weight is None else weight * of_class[codes]
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


@dataclass
class _Task:
    """A task under way, or done again."""

    group: int
    function: Callable[..., Any]
    args: tuple[Any, ...]
    home: str
    future: Any = None
    lost: int = 0


class _Courier:
    """Fetches the results of tasks, in a thread of its own: who waits for a worker that hangs cannot look whether it does."""

    def __init__(self, client: Any, tasks: list[_Task]) -> None:
        self.tasks = tasks
        self._found: list[Any] | None = None
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._go, args=(client,), daemon=True)
        self._thread.start()

    def _go(self, client: Any) -> None:
        try:
            self._found = client.gather([task.future for task in self.tasks])
        except Exception as error:
            self._error = error

    @property
    def is_back(self) -> bool:
        return not self._thread.is_alive()

    def results(self) -> list[tuple[int, Any]] | None:
        """Groups and results, in order; None where one was lost on the way."""
        if isinstance(self._error, TimeoutError | CommClosedError | distributed.CancelledError):
            return None
        if self._error is not None:
            raise self._error
        found = zip((task.group for task in self.tasks), self._found or [], strict=True)
        return sorted(found, key=lambda result: result[0])


class Tasks:
    """Tasks on a cluster, one at a time for each group of parts, at the worker that holds them.

    Entered, it waits until the parts are there, and divides them by where that is. On leaving, whatever happens, it takes
    back all that it has asked of the cluster.
    """

    def __init__(self, client: Any, parts: Sequence[tuple[Any, ...]]) -> None:
        self._client, self._wanted = client, parts
        #: The pieces of each part: where they stand is where the part is.
        self._parts: list[tuple[Any, ...]] = []
        #: Of each group the numbers of its parts.
        self.groups: list[list[int]] = []
        self._homes: list[str] = []
        self._tasks: list[_Task] = []
        #: What tasks get in place of the parts, once they are prepared: a function of these, its arguments, and what it is at.
        self._preparation: tuple[Callable[..., Any], tuple[Any, ...]] | None = None
        self._prepared: list[Any] = []
        self._looked = self._inhabited = time.monotonic()
        #: When each worker was last heard of, by the scheduler's clock, and when that was new.
        self._heard: dict[str, tuple[float, float]] = {}

    def __enter__(self) -> Self:
        try:
            # Under their own names: what is there already is not moved, nor held twice.
            delayed = [piece for pieces in self._wanted for piece in pieces if not isinstance(piece, distributed.Future)]
            computed = iter(self._client.compute(delayed))
            self._parts = [
                tuple(piece if isinstance(piece, distributed.Future) else next(computed) for piece in pieces)
                for pieces in self._wanted
            ]
            pending = self._pieces()
            while pending:
                self._wait(pending)
                self._look()
                for future in pending:
                    if future.done():
                        self._check(future)
                pending = [future for future in pending if not future.done()]
            self._divide()
        except BaseException:
            self._take_back()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._take_back()

    def _pieces(self) -> list[Any]:
        return [piece for pieces in self._parts for piece in pieces]

    def _take_back(self) -> None:
        tasks = [*(task.future for task in self._tasks), *self._prepared]
        self._tasks, self._prepared = [], []
        # Whatever goes wrong there, nobody is left to hear it.
        with suppress(Exception):
            self._client.cancel(tasks, force=True)
        given = {id(piece) for pieces in self._wanted for piece in pieces}
        # The data may be others' too, who keep theirs.
        for future in [*tasks, *self._pieces()]:
            if id(future) not in given:
                future.release()
        self._parts = []

    def _divide(self) -> None:
        """Each part to the worker that has its rows; where several have them, to the one that has fewest parts so far."""
        holders = self._client.who_has([pieces[0] for pieces in self._parts])
        # What was lost a moment ago may come again anywhere.
        found = [sorted(holders.get(pieces[0].key, ()) or self._workers()) for pieces in self._parts]
        groups: dict[str, list[int]] = {}
        for i in sorted(range(len(found)), key=lambda i: len(found[i])):
            home = min(found[i], key=lambda worker: len(groups.get(worker, ())))
            groups.setdefault(home, []).append(i)
        # In the order of the first part of each: addresses mean nothing.
        self._homes = sorted(groups, key=lambda home: min(groups[home]))
        self.groups = [sorted(groups[home]) for home in self._homes]

    def keep(self, wanted: list[bool]) -> None:
        """Forgets the other groups."""
        self._homes = [home for home, want in zip(self._homes, wanted, strict=True) if want]
        self.groups = [group for group, want in zip(self.groups, wanted, strict=True) if want]

    def prepare(self, function: Callable[..., Any], *args: Any) -> None:
        """From here on tasks get, in place of their parts, what ``function`` makes of these once."""
        self._preparation = function, args
        self._prepared = [self._at(home, function, self._own(k), *args) for k, home in enumerate(self._homes)]

    def _own(self, group: int) -> list[tuple[Any, ...]]:
        return [self._parts[i] for i in self.groups[group]]

    def _at(self, home: str, function: Callable[..., Any], *args: Any) -> Any:
        # A model is not to be warned of.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 PiB"}):
            return self._client.submit(function, *args, workers=[home], allow_other_workers=False, pure=False)

    def submit(self, group: int, function: Callable[..., Any], *args: Any) -> None:
        """Has ``function`` called with the parts of a group and these arguments."""
        task = _Task(group, function, args, self._homes[group])
        self._begin(task)
        self._tasks.append(task)

    def _begin(self, task: _Task) -> None:
        held = self._prepared[task.group] if self._prepared else self._own(task.group)
        task.future = self._at(task.home, task.function, held, *task.args)

    def next(self) -> list[tuple[int, Any]]:
        """Waits until at least one task is done; the groups of those that are, in order, and their results."""
        courier: _Courier | None = None
        while True:
            done = [task for task in self._tasks if task.future.done()]
            for task in done:
                self._check(task.future)
            if courier is None and done:
                courier = _Courier(self._client, done)
            if courier is not None and courier.is_back:
                results = courier.results()
                for task in courier.tasks if results else []:
                    task.future.release()
                    self._tasks.remove(task)
                if results:
                    return results
                courier = None
            time.sleep(_PAUSE)
            self._look()

    def map(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """The results of ``function`` for all groups."""
        for group in range(len(self.groups)):
            self.submit(group, function, *args)
        results: dict[int, Any] = {}
        while len(results) < len(self.groups):
            results.update(self.next())
        return [results[group] for group in range(len(self.groups))]

    def _wait(self, futures: list[Any]) -> None:
        """Until one of these is done, or a while: to look at them costs nothing, as the client is told of each."""
        until = time.monotonic() + _LOOK
        while not any(future.done() for future in futures) and time.monotonic() < until:
            time.sleep(_PAUSE)

    def _check(self, future: Any) -> None:
        """Raises what has become of a future that will have no result."""
        if future.status == "error":
            error = future.exception()
            if isinstance(error, KilledWorker | NoValidWorkerError | CommClosedError):
                raise RuntimeError(f"the cluster could not finish a task: {error}") from error
            raise error
        if future.status == "cancelled":
            self._check_parts()
            raise RuntimeError(f"a task was cancelled by the cluster, or by somebody else: {future.key}")

    def _check_parts(self) -> None:
        """Refuses to wait for parts that will not come again."""
        if self._client.status != "running":
            raise RuntimeError(f"the connection to the scheduler is lost: the client is {self._client.status}")
        gone = sum(any(piece.status == "cancelled" for piece in pieces) for pieces in self._parts)
        if gone:
            raise RuntimeError(
                f"{gone} of {len(self._parts)} parts of the data were lost with a worker, and Dask does not know how to "
                "compute them again, as of data from client.scatter; hand over collections that know where they come from"
            )

    def _workers(self) -> dict[str, Any]:
        try:
            workers: dict[str, Any] = dict(self._client.scheduler_info(n_workers=-1)["workers"])
        except (OSError, TimeoutError) as error:
            raise RuntimeError(f"the scheduler does not answer: {error}") from error
        return workers

    def _look(self) -> None:
        """Now and then: which workers are there, and whether what they were to do must be done elsewhere."""
        now = time.monotonic()
        if now - self._looked < _LOOK:
            return
        self._looked = now
        self._check_parts()
        workers = self._workers()
        if workers:
            self._inhabited = now
        elif now - self._inhabited > _NOBODY:
            raise RuntimeError(f"the cluster has had no worker for {_NOBODY:.0f} seconds")
        # They say less often that they live where they are many.
        most = max(_SILENCE, len(workers) / 50.0)
        for address, worker in workers.items():
            heard, since = self._heard.get(address, (None, now))
            if worker["last_seen"] != heard:
                since = now
            self._heard[address] = (worker["last_seen"], since)
            if now - since > most and (not self._tasks or any(task.home == address for task in self._tasks)):
                raise RuntimeError(
                    f"worker {address} has not been heard of for {most:.0f} seconds: its process hangs, or its machine is gone"
                )
        for task in self._tasks:
            if workers and task.home not in workers and not task.future.done():
                self._move(task, workers)

    def _move(self, task: _Task, workers: dict[str, Any]) -> None:
        """Has a task done by a worker that is there."""
        task.lost += 1
        if task.lost > _MOST_LOST:
            raise RuntimeError(
                f"{task.lost} workers died, one after the other, at the same {len(self.groups[task.group])} parts of the data, "
                f"{task.home} the last of them; its log may say why, for instance that it had too little memory"
            )
        gone = [task.future, *self._prepared[task.group : task.group + 1]]
        self._client.cancel(gone, force=True)
        for future in gone:
            future.release()
        holders = self._client.who_has([self._parts[i][0] for i in self.groups[task.group]])
        held = Counter(worker for found in holders.values() for worker in found if worker in workers)
        busy = Counter(home for home in self._homes if home in workers)
        task.home = min(workers, key=lambda worker: (-held[worker], busy[worker], worker))
        self._homes[task.group] = task.home
        if self._preparation is not None:
            function, args = self._preparation
            self._prepared[task.group] = self._at(task.home, function, self._own(task.group), *args)
        self._begin(task)


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
