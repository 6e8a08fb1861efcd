"""What an online learner lost by not knowing the future, beside what the theory allows; and what delay costs.

    python benches/regret.py [--full | --tiny]

The lecture on online convex optimisation and the online SVM, Theorem 4.1.3 (Zinkevich 2003) and section 4.3 (Zinkevich,
Langford and Smola 2009). Hinge loss, rows of unit length, no intercept. Prints CSV; losses, regrets and bounds are
means over the rounds.

* part: "bound", regret as the rounds go on, or "delay", regret by the delay of the gradients.
* stream: "random order", a noisy linear concept; "drifting", one that turns around once in 5,000 rounds; "against the
  learner", rows without a concept, each with the label that the learner's score is against; "each row ten times", in a
  row.
* steps: "sqrt", eta0/sqrt(t) in a ball of radius 1 (of "delay" 10); "log", 1/(alpha t) with alpha = 0.01, whose
  alpha/2 ||w||^2 every round's loss then holds.
* eta0: the first step; of "delay" the best of a grid.
* delay, rounds: how late gradients come, and T.
* loss: what the learner paid.
* best: no fixed w of the ball pays less; one pays at most 1e-5 more. Of "delay", what a w pays that is about the best:
  the mean of 20 passes; a comment says how far from the best it can be.
* regret: loss - best.
* bound: regret_bound_, the theorem with the gradients that did occur.
* worst: of "bound" only, the theorem with the largest that could have: (D^2/2 + G^2)/sqrt(T), D = 2 the diameter of the
  ball and G = 1; with "log" Stratos' Lemma 2.1, G^2 (1 + ln T)/(2 alpha T), G = 1 + sqrt(alpha).
"""

from __future__ import annotations

import one_thread  # noqa: F401, I001 before NumPy

import warnings
from itertools import pairwise

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import harness
from harness import papers_linear
from pegasos import OnlineGradientClassifier
from problems import table

#: Of "bound": the regulariser of "log", the rounds in which the drifting concept turns around.
ALPHA = 0.01
TURN = 5000
#: Of "delay".
RADIUS = 10.0
DELAYS = (0, 1, 10, 100, 1000, 10_000)
ETAS = (0.3, 1.0, 3.0, 10.0)


def mean_loss(w: np.ndarray, X: np.ndarray, y: np.ndarray, alpha: float) -> float:
    """The mean loss of a fixed w."""
    return float(alpha / 2 * w @ w + np.maximum(0.0, 1.0 - y * (X @ w)).mean())


def enclosed(X: np.ndarray, y: np.ndarray, radius: float, alpha: float) -> tuple[float, float]:
    """Bounds on the least mean loss of a fixed w of the ball, 1e-5 apart.

    With P_m the objective at the strength alpha + m, no w of the ball pays less than min P_m - m radius^2/2, whatever
    m >= 0, and with the right m, the ball's multiplier, one pays just that. The larger m, the shorter is argmin P_m.
    """
    lower, upper = -np.inf, np.inf
    small, large = 1e-9, 1.0
    m = 0.0 if alpha > 0.0 else np.sqrt(small * large)
    while True:
        model = papers_linear(alpha=alpha + m, fit_intercept=False, tol=1e-6, max_iter=20_000, random_state=0)
        w = model.fit(X, y).coef_[0]
        norm = np.linalg.norm(w)
        lower = max(lower, model.dual_objective_ - m / 2 * radius**2)
        upper = min(upper, mean_loss(w * min(1.0, radius / norm), X, y, alpha))
        if upper - lower <= 1e-5:
            return lower, upper
        small, large = (m or small, large) if norm > radius else (small, m)
        m = np.sqrt(small * large)


def random_order(n: int) -> tuple[np.ndarray, np.ndarray]:
    X, y = table(n, dtype=np.float64)
    return X / np.linalg.norm(X, axis=1, keepdims=True), 2 * y - 1


def drifting(n: int) -> tuple[np.ndarray, np.ndarray]:
    """The hidden direction turns in a plane; 0.1 is the noise of random_order, whose rows were longer."""
    X, _ = random_order(n)
    angle = 2.0 * np.pi * np.arange(n) / TURN
    score = X[:, 0] * np.cos(angle) + X[:, 1] * np.sin(angle)
    return X, np.where(score + 0.1 * np.random.default_rng(1).standard_normal(n) > 0, 1, -1)


def against(n: int, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """Labels against the learner, which is the pseudo-code here; the package will score as it does."""
    X, _ = random_order(n)
    y = np.empty(n, dtype=int)
    w = np.zeros(X.shape[1])
    radius = ball(alpha)
    for t, x in enumerate(X, 1):
        y[t - 1] = -1 if w @ x > 0 else 1
        eta = 1.0 / (alpha * t) if alpha else 1.0 / np.sqrt(t)
        w += eta * (y[t - 1] * x - alpha * w)
        w *= min(1.0, radius / float(np.linalg.norm(w)))
    return X, y


def ball(alpha: float) -> float:
    """The radius of the ball of "bound": with alpha, one that holds the best w of the whole space."""
    return 1.0 / np.sqrt(alpha) if alpha else 1.0


def grow(run: harness.Run) -> None:
    """The rows of "bound"."""
    n = run.pick(quick=10_000, full=100_000, tiny=300)
    points = [T for T in (100, 300, 1000, 3000, 10_000, 30_000, 100_000) if n >= T]
    held = []
    for steps, alpha in (("sqrt", 0.0), ("log", ALPHA)):
        radius = ball(alpha)
        streams = {
            "random order": random_order(n), "drifting": drifting(n), "against the learner": against(n, alpha)
        }
        for name, (X, y) in streams.items():
            model = OnlineGradientClassifier(
                radius=radius, alpha=alpha, fit_intercept=False, learning_rate="pegasos" if alpha else "invscaling"
            )
            for start, T in pairwise([0, *points]):
                model.partial_fit(X[start:T], y[start:T], classes=[-1, 1])
                loss, bound = model.cumulative_loss_ / T, model.regret_bound_ / T
                best, _ = enclosed(X[:T], y[:T], radius, alpha)
                if alpha:
                    worst = (1.0 + np.sqrt(alpha)) ** 2 * (1.0 + np.log(T)) / (2.0 * alpha * T)
                else:
                    worst = ((2.0 * radius) ** 2 / 2.0 + 1.0) / np.sqrt(T)
                eta0 = 1.0 / alpha if alpha else 1.0
                run.row("bound", name, steps, eta0, 0, T, loss, best, loss - best, bound, float(worst))
                held.append(loss - best <= bound <= worst)
    print(f"# regret <= regret_bound_ <= worst case at {sum(held)} of {len(held)} points")


def delay(run: harness.Run) -> None:
    """The rows of "delay"."""
    n = run.pick(quick=20_000, full=100_000, tiny=1000)
    X, y = random_order(n)
    few = np.arange(n // 10)
    for name, rows in {"random order": np.arange(n), "each row ten times": np.repeat(few, 10)}.items():
        data, labels = X[rows], y[rows]
        best = loss_of_passes(data, labels)
        least, _ = enclosed(data, labels, RADIUS, 0.0)
        print(f"# {name}: the mean of 20 passes pays {best:.6f}, no w less than {least:.6f}")
        for late in DELAYS:
            if late >= n:
                continue
            runs = [
                OnlineGradientClassifier(radius=RADIUS, fit_intercept=False, delay=late, eta0=eta0).fit(data, labels)
                for eta0 in ETAS
            ]
            model = min(runs, key=lambda run: run.cumulative_loss_)
            loss, bound = model.cumulative_loss_ / n, model.regret_bound_ / n
            run.row("delay", name, "sqrt", model.eta0, late, n, loss, best, loss - best, bound)


def loss_of_passes(X: np.ndarray, y: np.ndarray) -> float:
    """The mean loss of about the best fixed w of the ball: many passes, their mean, in random order."""
    model = OnlineGradientClassifier(
        radius=RADIUS, fit_intercept=False, eta0=3.0, average="polynomial", max_iter=20,
        sampling="shuffle", random_state=0,
    ).fit(X, y)
    return mean_loss(model.coef_[0], X, y, 0.0)


def main() -> None:
    run = harness.begin(__doc__, "part,stream,steps,eta0,delay,rounds,loss,best,regret,bound,worst")
    warnings.simplefilter("ignore", ConvergenceWarning)
    grow(run)
    delay(run)


if __name__ == "__main__":
    main()
