"""How long a Ctrl-C waits: from the signal to the exception, at random moments of every kind of fit.

    python benches/interrupt.py            some five minutes; on an idle machine
    python benches/interrupt.py --tiny     seconds: that it runs

Prints CSV, a comment with the machine and the versions at its head: for each fit the seconds that it takes, how many
interrupts were sent, and the median and the longest wait in seconds. Every one should be below half a second. On all
threads, as that is the default.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
import threading
import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from harness import head, papers_kernel, papers_linear
from pegasos import KernelPegasosClassifier, ProjectronClassifier

if TYPE_CHECKING:
    from collections.abc import Callable


def blobs(n: int, d: int, classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Classes that overlap, so that there is a lot to learn."""
    random = np.random.default_rng(seed)
    y = random.integers(classes, size=n)
    centres = random.normal(size=(classes, d))
    return (centres[y] + 1.5 * random.normal(size=(n, d))).astype(np.float32), y


def fits(scale: float) -> dict[str, Callable[[], Any]]:
    """Every kind of fit, with data that keep it busy for seconds."""

    def size(n: int) -> int:
        return max(200, int(scale * n))

    few, labels = blobs(size(20_000), 50, 5)
    wide, classes = blobs(size(10_000), 300, 10)
    two = labels % 2
    columns = np.random.default_rng(0).integers(2**18, size=(size(100_000), 30)).astype(np.int32)
    words = sp.csr_matrix(
        (np.ones(columns.size, np.float32), columns.ravel(), np.arange(0, columns.size + 1, 30)),
        shape=(len(columns), 2**18),
    )
    topics = np.arange(len(columns)) % 20
    many = np.random.default_rng(0).normal(size=(size(20_000), 10))
    pairs = np.arange(len(many)) % (len(many) // 2)
    square = np.exp(-0.01 * ((few[: size(4000), None, :8] - few[None, : size(4000), :8]) ** 2).sum(2))

    def machine(**params: Any) -> KernelPegasosClassifier:
        return papers_kernel(random_state=0, **params)

    def refit(budget: int, alpha: Any) -> Callable[[], Any]:
        model = machine(budget=budget, refine=False).fit(few, labels)
        return lambda: model.refit(few, labels, alpha=alpha)

    return {
        "linear": lambda: papers_linear(alpha=1e-8, max_iter=1000, solver="pegasos").fit(few, two),
        "linear auto, one class against the rest": lambda: papers_linear(
            alpha=1e-8, max_iter=1000, multi_class="ovr", tol=1e-9
        ).fit(words, topics),
        "linear, jointly": lambda: papers_linear(alpha=1e-8, max_iter=1000, tol=1e-9).fit(wide, classes),
        "linear, 10,000 classes": lambda: papers_linear(tol=1e-6).fit(many, pairs),
        "kernel, one pass": lambda: machine(alpha=1e-6).fit(wide, classes),
        "kernel, ten passes": lambda: machine(alpha=1e-6, max_iter=10).fit(few, labels),
        "kernel auto, two classes": lambda: machine(alpha=1e-7, solver="auto", tol=1e-6).fit(few, two),
        "kernel auto, ten classes": lambda: machine(alpha=1e-6, solver="auto", tol=1e-4).fit(wide, classes),
        "kernel auto, precomputed": lambda: machine(
            kernel="precomputed", alpha=1e-6, solver="auto", tol=1e-6
        ).fit(square, labels[: len(square)]),
        "merge, B = 2000": lambda: machine(budget=size(2000), max_iter=20, tol=None, refine=False).fit(few, labels),
        "project, B = 1500": lambda: machine(
            budget=size(1500), maintenance="project", max_iter=5, tol=None, refine=False
        ).fit(few, labels),
        "Projectron": lambda: ProjectronClassifier(threshold=1e-3, max_iter=2).fit(few, labels),
        "refit, B = 2000": refit(size(2000), 1e-6),
        "refit, B = 2000, three alphas": refit(size(2000), [1e-5, 1e-6, 1e-7]),
        "fit and refit, B = 300, 500 classes": lambda: machine(budget=size(300), alpha=1e-6).fit(
            many, pairs % size(500)
        ),
        "fit and refit, B = 3000": lambda: machine(budget=size(3000), alpha=1e-6).fit(wide, classes),
    }


def wait(fit: Callable[[], Any], after: float) -> float | None:
    """How long an interrupt waits that is sent so long after the beginning; None if the fit ends before."""
    sent: list[float] = []

    def send() -> None:
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(after, send)
    timer.start()
    try:
        fit()
        timer.cancel()
        # One that is under way already.
        timer.join()
        time.sleep(0.01)
    except KeyboardInterrupt:
        return time.perf_counter() - sent[0] if sent else None
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="seconds")
    parser.add_argument("-n", type=int, default=20, help="interrupts of each fit")
    parser.add_argument("--only", default="", help="fits whose name holds this")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    head(" ".join(["benches/interrupt.py", *sys.argv[1:]]), "fit,seconds,interrupts,median,longest", "all threads")
    random = np.random.default_rng(0)
    for name, fit in fits(0.01 if arguments.tiny else 1.0).items():
        if arguments.only not in name:
            continue
        # What takes longer is not waited for.
        start = time.perf_counter()
        ended = wait(fit, 0.2 if arguments.tiny else 15.0) is None
        took = time.perf_counter() - start
        waits = []
        for _ in range(2 if arguments.tiny else arguments.n):
            waited = wait(fit, float(random.uniform(0.0, took)))
            if waited is not None:
                waits.append(waited)
        said = f"{took:.2g}" if ended else f">{took:.2g}"
        numbers = f"{statistics.median(waits):.3f},{max(waits):.3f}" if waits else ","
        print(f'"{name}",{said},{len(waits)},{numbers}', flush=True)


if __name__ == "__main__":
    main()
