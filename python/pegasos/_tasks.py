"""Tasks on a Dask cluster, each at the worker that holds what it needs, and what becomes of them when a worker is lost.

A task is pinned to its worker, strictly: Dask neither moves it to another that is idle, and its data with it, nor runs it
elsewhere when the worker is gone. That is decided here, by looking at the workers every second: those that are gone are
replaced, those that say nothing for too long are given up, and so is a cluster without any.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dask
import distributed
from distributed.comm import CommClosedError
from distributed.scheduler import KilledWorker, NoValidWorkerError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

#: Seconds between two looks at the workers; without any worker, and without a word from one, until it is given up.
_LOOK, _NOBODY, _SILENCE = 1.0, 30.0, 45.0

#: Seconds between two looks at futures.
_PAUSE = 0.005

#: So many workers may be lost at the same task.
_MOST_LOST = 3


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
        while True:
            try:
                known = self._client.scheduler_info(n_workers=-1)
            except OSError as error:
                raise RuntimeError(f"the scheduler does not answer: {error}") from error
            if "workers" not in known:
                # A client that is closed, even between a look at its status and this, forgets all it knew.
                raise RuntimeError(f"the connection to the scheduler is lost: the client is {self._client.status}")
            workers: dict[str, Any] = dict(known["workers"])
            # Now and then the client asks for itself, how many there are but not which, and what we get may be that.
            if len(workers) >= known.get("n_workers", 0):
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
            # One that is paused begins nothing new.
            paused = worker.get("status") == "paused" and not worker["metrics"].get("task_counts", {}).get("executing")
            if worker["last_seen"] != heard and not paused:
                since = now
            self._heard[address] = (worker["last_seen"], since)
            if now - since > most and (not self._tasks or any(task.home == address for task in self._tasks)):
                raise RuntimeError(
                    f"worker {address} has been paused for {most:.0f} seconds: it has too little memory"
                    if paused
                    else f"worker {address} has not been heard of for {most:.0f} seconds: its process hangs, or its machine is gone"
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
