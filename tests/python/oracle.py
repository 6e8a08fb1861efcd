"""The papers' pseudo-code in plain NumPy, one explicit step at a time, for fits to agree with."""

from typing import NamedTuple

import numpy as np
from scipy.special import xlogy

#: sup -l'(m) m: a bound on alpha ||w||^2 at the minimiser, for examples of mean weight 1.
RADIUS2 = {"hinge": 1.0, "squared_hinge": 0.5, "log_loss": 0.278464542761}


class Run(NamedTuple):
    """What training gave; weights end with the intercept's."""

    w: np.ndarray  # the average, where iterates are averaged, else the last iterate
    last: np.ndarray
    sums: np.ndarray  # per example: of weight * -l'(m) / batch size over its visits
    t: int
    losses: list  # per epoch: mean of weight * loss, each example scored before its step


def augmented(X, constant):
    """The rows with a constant last feature, whose weight is the intercept over ``constant``."""
    X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
    return np.column_stack([X, np.full(len(X), constant)])


def loss_value(loss, m):
    if loss == "hinge":
        return np.maximum(0.0, 1.0 - m)
    if loss == "squared_hinge":
        return np.maximum(0.0, 1.0 - m) ** 2
    return np.logaddexp(0.0, -m)


def falling_slope(loss, m):
    """``-l'(m)``."""
    if loss == "hinge":
        return np.where(m < 1.0, 1.0, 0.0)
    if loss == "squared_hinge":
        return 2.0 * np.maximum(0.0, 1.0 - m)
    return np.exp(-np.logaddexp(0.0, m))


def conjugate(loss, a):
    """``l*(-a)``."""
    if loss == "hinge":
        return -a
    if loss == "squared_hinge":
        return a**2 / 4.0 - a
    return xlogy(a, a) + xlogy(1.0 - a, 1.0 - a)


def step_size(schedule, s, alpha, eta0, power_t):
    if schedule == "pegasos":
        return 1.0 / (alpha * s)
    return eta0 / s**power_t if schedule == "invscaling" else eta0


def iterate_weight(average, t):
    """How much the t-th iterate counts in the average."""
    if average is False:
        return 0.0
    if average is True or average == "polynomial":
        return t * (t + 1.0) * (t + 2.0)
    return 1.0 if average == "uniform" or t >= average else 0.0


def radius(loss, alpha, mean_weight):
    return np.sqrt(RADIUS2[loss] * mean_weight / alpha)


def auto_t0(loss, schedule, X, weights, alpha, constant):
    if loss != "squared_hinge" or schedule != "pegasos":
        return 0.0
    return 2.0 * np.max(weights * np.sum(augmented(X, constant) ** 2, axis=1)) / alpha


def train(
    X, signs, epochs, *, loss, alpha, schedule, eta0, power_t, t0, batch_size, radius, average,
    weights, constant, start=None,
):
    """Visits rows epoch by epoch, each in its order; goes on from the last iterate of ``start``."""
    X = augmented(X, constant)
    begin = 0 if start is None else start.t
    w = np.zeros(X.shape[1]) if start is None else start.last
    sums, losses, t = np.zeros(len(X)), [], begin
    total, total_weight = np.zeros(X.shape[1]), 0.0
    for order in epochs:
        seen = 0.0
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            t += 1
            m = signs[rows] * (X[rows] @ w)
            seen += weights[rows] @ loss_value(loss, m)
            g = weights[rows] * falling_slope(loss, m) / len(rows)
            eta = step_size(schedule, t0 + t, alpha, eta0, power_t)
            w = (1.0 - eta * alpha) * w + eta * (g * signs[rows]) @ X[rows]
            if np.linalg.norm(w) > radius:
                w = radius / np.linalg.norm(w) * w
            np.add.at(sums, rows, g)
            q = iterate_weight(average, t - begin)
            total, total_weight = total + q * w, total_weight + q
        losses.append(seen / len(order))
    return Run(total / total_weight if total_weight > 0.0 else w, w, sums, t, losses)


def train_like(estimator, X, signs, epochs, weights=None, first=None, start=None):
    """`train` with the estimator's parameters; those that are taken from data, from ``first``."""
    p = estimator.get_params()
    weights = np.ones(len(signs)) if weights is None else weights
    first = np.arange(len(signs)) if first is None else first
    constant = p["intercept_scaling"] if p["fit_intercept"] else 0.0
    t0, ball = p["t0"], np.inf
    if t0 == "auto":
        of_first = X[first], weights[first]
        t0 = auto_t0(p["loss"], p["learning_rate"], *of_first, p["alpha"], constant)
    if p["projection"]:
        ball = radius(p["loss"], p["alpha"], weights[first].mean())
    return train(
        X, signs, epochs, loss=p["loss"], alpha=p["alpha"], schedule=p["learning_rate"],
        eta0=p["eta0"], power_t=p["power_t"], t0=t0, batch_size=p["batch_size"], radius=ball,
        average=p["average"], weights=weights, constant=constant, start=start,
    )


def objective(w, X, signs, weights, loss, alpha, constant):
    """``P(w) = alpha/2 ||w||^2 + mean of weight * loss``."""
    m = signs * (augmented(X, constant) @ w)
    return alpha / 2.0 * (w @ w) + np.mean(weights * loss_value(loss, m))


def dual_value(sums, steps, X, signs, weights, loss, alpha, constant):
    """The dual objective at n/steps times the sums, shrunk as a whole where that is not feasible.

    ``steps`` is t0 + t. Examples of weight 0 have no dual variable.
    """
    X, n = augmented(X, constant), len(sums)
    a = n / steps * sums
    counted = weights > 0.0
    if loss != "squared_hinge":
        a = a / max(1.0, np.max(a[counted] / weights[counted]))
    w = (a * signs) @ X / (alpha * n)
    of_loss = weights[counted] * conjugate(loss, a[counted] / weights[counted])
    return -np.sum(of_loss) / n - alpha / 2.0 * (w @ w)
