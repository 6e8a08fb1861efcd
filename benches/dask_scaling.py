"""Two worker processes of Dask beside one process: how much faster, and how good.

    python benches/dask_scaling.py [--full] [LOSS ...]

Prints CSV. One and ten million examples of 50 features in float32 (one in the quick form), made where they are used: 16 parts on
two workers of one thread each, and the same rows in one array of a process by itself. Both train for as many epochs, of one
round each, with the same parameters; in turn, three times. Seconds are medians, those of the clock and of whole calls of
``fit``: Dask's include the pass that finds the classes and all that goes between the processes. "times as fast" is the
median over the turns; "above" is by how much the mean objective of Dask's models, over all examples, exceeds that of the
process alone. "one worker" is Dask with all parts on one worker: what two are to be compared with, as rows that are drawn from
an array of two gigabytes come from memory further away than those of a part of 125 megabytes.
"""

from __future__ import annotations

import one_thread  # noqa: F401, I001 before NumPy

import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from typing import Any

import numpy as np
from distributed import Client, LocalCluster

import harness
import pegasos
from pegasos.dask import PegasosClassifier

PARTS, N_FEATURES = 16, 50

#: Loss and strength.
PROBLEMS: dict[str, tuple[Any, float]] = {
    "hinge": ("hinge", 1e-4),
    "hinge, weak": ("hinge", 1e-6),
    "squared hinge": ("squared_hinge", 1e-4),
    "log loss": ("log_loss", 1e-4),
}


def made(k: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Part k: rows of norm about 1, a tenth of the classes wrong."""
    X = np.random.default_rng([1, k]).standard_normal((n, N_FEATURES), dtype=np.float32)
    X *= N_FEATURES**-0.5
    random = np.random.default_rng([2, k])
    y = X @ np.random.default_rng(0).standard_normal(N_FEATURES, dtype=np.float32) > 0
    return X, np.where(random.random(n) < 0.1, ~y, y).astype(np.int8)


@cache
def whole(n: int) -> tuple[np.ndarray, np.ndarray]:
    """All parts, in the process that asks."""
    X, y = np.empty((PARTS * n, N_FEATURES), np.float32), np.empty(PARTS * n, np.int8)
    for k in range(PARTS):
        X[k * n : (k + 1) * n], y[k * n : (k + 1) * n] = made(k, n)
    return X, y


def alone(n: int, loss: Any, alpha: float, epochs: int, seed: int) -> tuple[float, Any]:
    """The seconds of a fit in one process, and the model."""
    X, y = whole(n)
    model = pegasos.PegasosClassifier(
        loss, alpha=alpha, solver="pegasos", average=True, max_iter=epochs, tol=None, n_jobs=1, random_state=seed
    )
    begun = time.perf_counter()
    model.fit(X, y)
    return time.perf_counter() - begun, model


def losses(part: tuple[np.ndarray, np.ndarray], loss: str, coef: np.ndarray, intercept: np.ndarray) -> float:
    """The sum over the examples of a part."""
    X, y = part
    margins = np.where(y == 1, 1.0, -1.0) * (X @ coef[0] + intercept[0]).astype(np.float64)
    if loss == "log_loss":
        return float(np.logaddexp(0.0, -margins).sum())
    return float((np.maximum(0.0, 1.0 - margins) ** (2 if loss == "squared_hinge" else 1)).sum())


def main() -> None:
    run = harness.begin(
        __doc__,
        "loss,alpha,examples,epochs,seconds alone,seconds of one worker,seconds of two workers,times as fast,objective alone,"
        "objective of two workers,above (%)",
        "one process, or two workers of one thread",
    )
    sizes = run.pick(quick=(1_000_000,), full=(1_000_000, 10_000_000), tiny=(8_000,))
    epochs = run.pick(quick=5, full=5, tiny=2)
    turns = run.pick(quick=3, full=3, tiny=1)
    warnings.simplefilter("ignore")
    options: dict[str, Any] = {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0", "memory_limit": 0}
    with (
        LocalCluster(n_workers=1, **options) as one,
        LocalCluster(n_workers=2, **options) as two,
        Client(one, set_as_default=False) as client_of_one,
        Client(two, set_as_default=False) as client_of_two,
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process,
    ):
        for size in sizes:
            for name in run.wanted(PROBLEMS):
                figures = compared([client_of_one, client_of_two], process, size // PARTS, name, epochs, turns)
                run.row(name, PROBLEMS[name][1], size, epochs, *figures)


def placed(client: Client, n: int) -> list[Any]:
    """The parts, as many on each worker."""
    homes = sorted(client.scheduler_info(n_workers=-1)["workers"])
    parts = [client.submit(made, k, n, workers=[homes[k * len(homes) // PARTS]], pure=False) for k in range(PARTS)]
    client.gather([client.submit(len, part, pure=False) for part in parts])
    return parts


def compared(
    clients: list[Client], process: ProcessPoolExecutor, n: int, name: str, epochs: int, turns: int
) -> list[float]:
    """The figures of a row, of parts of n examples."""
    parts = [placed(client, n) for client in clients]
    process.submit(whole, n).result()
    loss, alpha = PROBLEMS[name]
    seconds, objectives = np.empty((turns, 3)), np.empty((turns, 2))
    for turn in range(turns):
        seconds[turn, 0], local = process.submit(alone, n, loss, alpha, epochs, turn).result()
        for k, (client, own) in enumerate(zip(clients, parts, strict=True), 1):
            model = PegasosClassifier(
                loss, alpha=alpha, average=True, rounds=epochs, tol=None, random_state=turn, client=client
            )
            begun = time.perf_counter()
            model.fit(own)
            seconds[turn, k] = time.perf_counter() - begun
        for k, each in enumerate((local, model)):
            w = each.coef_, each.intercept_
            sums = clients[1].gather([clients[1].submit(losses, part, loss, *w) for part in parts[1]])
            square = sum(float((array.astype(np.float64) ** 2).sum()) for array in w)
            objectives[turn, k] = alpha / 2 * square + sum(sums) / (PARTS * n)
    ratio = float(np.median(seconds[:, 0] / seconds[:, 2]))
    means = objectives.mean(axis=0).tolist()
    return [*np.median(seconds, axis=0).tolist(), ratio, *means, 100.0 * (means[1] / means[0] - 1.0)]


if __name__ == "__main__":
    main()
