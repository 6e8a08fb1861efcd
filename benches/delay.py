"""What delayed gradients cost: the loss of online gradient descent against its delay.

    python benches/delay.py

Prints CSV. A stream of 100,000 generated rows of 54 features, of unit length, comes once in random order
and once with every row ten times in a row, where gradients come late when they would matter most. Best
steps of each delay, eta0 from a grid. Deterministic: no figure is a time.
"""

from __future__ import annotations

import numpy as np

import pegasos
from pegasos import OnlineGradientClassifier
from problems import table

RADIUS = 10.0
DELAYS = (0, 1, 10, 100, 1000, 10_000)


def main() -> None:
    X, y = table(100_000, dtype=np.float64)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    few = np.arange(len(y) // 10)
    streams = {"random order": np.arange(len(y)), "each row ten times": np.repeat(few, 10)}
    print(f"# pegasos {pegasos.__version__}; python benches/delay.py")
    print(f"# hinge loss, ball of radius {RADIUS:g}, steps eta0/sqrt(t), best eta0 of a grid")
    print("stream,delay,eta0,mean loss,of the best fixed w,mean regret,bound on the mean regret")
    for name, rows in streams.items():
        data, labels = X[rows], y[rows]
        best = loss_of_best(data, labels)
        for delay in DELAYS:
            runs = [
                OnlineGradientClassifier(
                    radius=RADIUS, fit_intercept=False, delay=delay, eta0=eta0
                ).fit(data, labels)
                for eta0 in (0.3, 1.0, 3.0, 10.0)
            ]
            run = min(runs, key=lambda run: run.cumulative_loss_)
            mean, bound = run.cumulative_loss_ / run.t_, run.regret_bound_ / run.t_
            print(f"{name},{delay},{run.eta0:g},{mean:.4f},{best:.4f},{mean - best:.4f},{bound:.4f}")


def loss_of_best(X: np.ndarray, y: np.ndarray) -> float:
    """The mean loss of about the best fixed w of the ball: many passes, their mean, in random order."""
    model = OnlineGradientClassifier(
        radius=RADIUS, fit_intercept=False, eta0=3.0, average="polynomial", max_iter=20,
        sampling="shuffle", random_state=0,
    ).fit(X, y)
    return float(np.maximum(0.0, 1.0 - (2.0 * y - 1.0) * model.decision_function(X)).mean())


if __name__ == "__main__":
    main()
