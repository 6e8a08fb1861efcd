"""The papers' pseudo-code in plain NumPy, one explicit step at a time, for fits to agree with."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.special import xlogy
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

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


def value_and_coef(loss, scores, y):
    """The loss of one example, and by what its row enters the weights of each score.

    ``y`` is its sign, where there is one score, or its class, where there is a score for each.
    """
    if len(scores) == 1:
        return loss_value(loss, y * scores[0]), y * falling_slope(loss, y * scores)
    rivals = np.where(np.arange(len(scores)) == y, -np.inf, scores)
    rival = np.argmax(rivals)
    value, coef = max(0.0, 1.0 + scores[rival] - scores[y]), np.zeros(len(scores))
    if value > 0.0:
        coef[y], coef[rival] = 1.0, -1.0
    return value, coef


def crammer_singer(
    X, y, epochs, *, classes, alpha, schedule, eta0, power_t, t0, batch_size, radius, average,
    weights, constant,
):
    """`train` for Crammer and Singer's loss: weights and sums have an entry for each class."""
    X = augmented(X, constant)
    w, sums, losses, t = np.zeros((classes, X.shape[1])), np.zeros((len(X), classes)), [], 0
    total, total_weight = np.zeros_like(w), 0.0
    for order in epochs:
        seen = 0.0
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            t += 1
            direction = np.zeros_like(w)
            for i in rows:
                value, coef = value_and_coef("hinge", w @ X[i], y[i])
                seen += weights[i] * value
                direction += weights[i] / len(rows) * np.outer(coef, X[i])
                sums[i] += weights[i] / len(rows) * coef
            eta = step_size(schedule, t0 + t, alpha, eta0, power_t)
            w = (1.0 - eta * alpha) * w + eta * direction
            if np.linalg.norm(w) > radius:
                w = radius / np.linalg.norm(w) * w
            q = iterate_weight(average, t)
            total, total_weight = total + q * w, total_weight + q
        losses.append(seen / len(order))
    return Run(total / total_weight if total_weight > 0.0 else w, w, sums, t, losses)


def online(
    X, y, order, *, loss, outputs, delay, radius, alpha, schedule, eta0, power_t, weights, constant
):
    """Online gradient descent: the weights, what was paid, and the bound on the regret.

    The gradient taken in round s is applied in round s + delay; the shrinking does not wait. With a
    delay the bound takes a direction to be as long as its two parts together.
    """
    X = augmented(X, constant)
    w, flights = np.zeros((outputs, X.shape[1])), []
    paid, curvature, bound, inverse_eta, moved = 0.0, 0.0, 0.0, 0.0, 0.0
    for t, i in enumerate(order, 1):
        value, coef = value_and_coef(loss, w @ X[i], y[i])
        paid += alpha / 2.0 * np.sum(w**2) + weights[i] * value
        flights.append((weights[i] * np.outer(coef, X[i]), moved))
        eta = step_size(schedule, t, alpha, eta0, power_t)
        arrives, since = flights.pop(0) if len(flights) > delay else (np.zeros_like(w), moved)
        length = np.linalg.norm(arrives - alpha * w)
        if delay > 0:
            length = np.linalg.norm(arrives) + alpha * np.linalg.norm(w)
        curvature += max(0.0, 1.0 / eta - inverse_eta - alpha)
        bound += eta / 2.0 * length**2 + np.linalg.norm(arrives) * (moved - since)
        inverse_eta, moved = 1.0 / eta, moved + eta * length
        w = (1.0 - eta * alpha) * w + eta * arrives
        if np.linalg.norm(w) > radius:
            w = radius / np.linalg.norm(w) * w
    if radius == np.inf:
        return w, paid, np.inf
    in_flight = sum(np.linalg.norm(g) for g, _ in flights)
    return w, paid, bound + 2.0 * radius**2 * curvature + 2.0 * radius * in_flight


def sharded(X, signs, epochs, *, shards, loss, alpha, t0, batch_size, average, weights, constant):
    """Pegasos on copies, each with its part of every epoch, averaged at its end by their steps.

    A copy has done its share of the steps before, and of ``t0``.
    """
    X = augmented(X, constant)
    w, mean, t = np.zeros(X.shape[1]), np.zeros(X.shape[1]), 0
    for order in epochs:
        steps = -(-len(order) // batch_size)
        bounds = [k * steps // shards * batch_size for k in range(shards)] + [len(order)]
        new_w, new_mean = np.zeros_like(w), np.zeros_like(w)
        for begin, end in pairwise(bounds):
            share = -(-(end - begin) // batch_size) / steps
            own_w, own_mean, own_t = w, mean, int(t * share + 0.5)
            total = sum(iterate_weight(average, s) for s in range(1, own_t + 1))
            for start in range(begin, end, batch_size):
                rows = order[start : min(start + batch_size, end)]
                own_t += 1
                eta = 1.0 / (alpha * (t0 * share + own_t))
                g = falling_slope(loss, signs[rows] * (X[rows] @ own_w)) * weights[rows] / len(rows)
                own_w = (1.0 - eta * alpha) * own_w + eta * (g * signs[rows]) @ X[rows]
                q = iterate_weight(average, own_t)
                total += q
                own_mean = own_mean + q / max(total, 1.0) * (own_w - own_mean)
            new_w, new_mean = new_w + share * own_w, new_mean + share * own_mean
        w, mean, t = new_w, new_mean, t + steps
    return w if average is False else mean


def objective(w, X, signs, weights, loss, alpha, constant):
    """``P(w) = alpha/2 ||w||^2 + mean of weight * loss``."""
    m = signs * (augmented(X, constant) @ w)
    return alpha / 2.0 * (w @ w) + np.mean(weights * loss_value(loss, m))


def objective_of_classes(w, X, y, weights, alpha, constant):
    """``P`` of Crammer and Singer's loss, ``w`` having a row for each class."""
    scores = augmented(X, constant) @ w.T
    own = scores[np.arange(len(y)), y]
    scores[np.arange(len(y)), y] = -np.inf
    losses = np.maximum(0.0, 1.0 + scores.max(axis=1) - own)
    return alpha / 2.0 * np.sum(w**2) + np.mean(weights * losses)


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


#: What may be learned: a loss of two classes, or more classes jointly or one by one by the hinge.
TASKS = ["hinge", "squared_hinge", "log_loss", "jointly", "ovr"]


def weights_of(model):
    """A row for each problem or class, ending with the weight of the constant feature."""
    scaling = model.intercept_scaling if model.fit_intercept else 1.0
    intercepts = model.intercept_.astype(np.float64) / scaling
    return np.column_stack([model.coef_.astype(np.float64), intercepts])


def objective_of(task, w, X, y, weights, alpha, constant):
    """``P`` of such weights, summed over the problems."""
    weights = np.ones(len(y)) if weights is None else weights
    if task == "jointly":
        return objective_of_classes(w, X, y, weights, alpha, constant)
    loss = "hinge" if task == "ovr" else task
    return sum(
        objective(row, X, np.where(y == k, 1.0, -1.0), weights, loss, alpha, constant)
        for row, k in zip(w, [1] if len(w) == 1 else range(len(w)), strict=True)
    )


def objective_of_model(task, model, X, y, weights=None):
    """``P`` from what the model shows of itself."""
    constant = model.intercept_scaling if model.fit_intercept else 0.0
    return objective_of(task, weights_of(model), X, y, weights, model.alpha, constant)


def liblinear(task, X, y, weights, alpha, constant):
    """The weights that LIBLINEAR finds, which regularises its intercept too."""
    params = {"C": 1.0 / (alpha * len(y)), "fit_intercept": constant > 0.0, "max_iter": 10**6}
    params |= {"intercept_scaling": constant or 1.0, "tol": 1e-10, "random_state": 0}
    if task == "log_loss":
        model = LogisticRegression(solver="liblinear", **params)
    elif task == "jointly":
        # Another algorithm, whose tolerance is on other numbers.
        model = LinearSVC(multi_class="crammer_singer", **{**params, "tol": 1e-8})
    else:
        model = LinearSVC(loss="squared_hinge" if task == "squared_hinge" else "hinge", **params)
    model.fit(np.asarray(X, dtype=np.float64), y, sample_weight=weights)
    intercepts = np.ravel(model.intercept_) / (constant or 1.0)
    return np.column_stack([model.coef_, np.broadcast_to(intercepts, len(model.coef_))])
