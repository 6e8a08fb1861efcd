"""How many threads a call has."""

from __future__ import annotations

import os
from contextvars import ContextVar
from functools import cache
from numbers import Integral

from pegasos._core import available_parallelism

#: Threads for each core of the machine, at most: more only wait for one another.
_MOST_THREADS = 4

#: The most threads in the calling thread, as threadpoolctl has set it; None where it has not.
limit: ContextVar[int | None] = ContextVar("limit", default=None)


@cache
def _available(affinity: int) -> int:
    """The cores that this process may use, while so many of them are its own: no more than a container's quota."""
    # To look for the quota takes 50 us, a third of a step on one row.
    return available_parallelism()


def _cores() -> int:
    cores = _available(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0)
    # What joblib goes by.
    most = os.environ.get("LOKY_MAX_CPU_COUNT", "")
    return max(1, min(cores, int(most))) if most.isascii() and most.isdigit() else cores


def thread_count(n_jobs: int | None) -> int:
    """How many threads ``n_jobs`` asks for, as scikit-learn counts them; at most four for each core.

    None asks for the first set of PEGASOS_NUM_THREADS, RAYON_NUM_THREADS and OMP_NUM_THREADS, or
    for every core this process may use. Within ``threadpoolctl.threadpool_limits`` it asks for as many as that
    allows, and no ``n_jobs`` gets more.
    """
    cores = _cores()
    most, allowed = _MOST_THREADS * cores, limit.get()
    if allowed is not None:
        most = min(most, allowed)
        n_jobs = allowed if n_jobs is None else n_jobs
    if n_jobs is None:
        n_jobs = cores
        for name in ("PEGASOS_NUM_THREADS", "RAYON_NUM_THREADS", "OMP_NUM_THREADS"):
            value = os.environ.get(name, "")
            # Digits that are too many to be read are too many threads.
            if value.isascii() and value.isdigit() and value.strip("0"):
                n_jobs = int(value[-18:]) if len(value) < 19 else most
                break
    if not isinstance(n_jobs, Integral):
        raise TypeError(f"n_jobs must be None or an int, a number of threads, got {n_jobs!r}")
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0; use None for all cores, or a number of threads")
    asked = n_jobs if n_jobs > 0 else cores + 1 + n_jobs
    return int(max(1, min(asked, most)))
