"""How many threads a call may use: for those, too, who read a file and need neither SciPy nor scikit-learn."""

from __future__ import annotations

import os

#: Threads for each core of the machine, at most: more only wait for one another.
_MOST_THREADS = 4


def thread_count(n_jobs: int | None) -> int:
    """How many threads ``n_jobs`` asks for, as scikit-learn counts them; at most four for each core.

    None asks for the first set of PEGASOS_NUM_THREADS, RAYON_NUM_THREADS and OMP_NUM_THREADS, or
    for every core this process may use.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if n_jobs is None:
        n_jobs = cores
        for name in ("PEGASOS_NUM_THREADS", "RAYON_NUM_THREADS", "OMP_NUM_THREADS"):
            value = os.environ.get(name, "")
            # Digits that are too many to be read are too many threads.
            if value.isascii() and value.isdigit() and value.strip("0"):
                n_jobs = int(value[-18:]) if len(value) < 19 else _MOST_THREADS * cores
                break
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0; use None for all cores, or a number of threads")
    asked = n_jobs if n_jobs > 0 else cores + 1 + n_jobs
    return int(max(1, min(asked, _MOST_THREADS * cores)))
