"""Training on a budget as the paper has it, in plain NumPy: kernel values afresh, nothing carried."""

from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import minimize_scalar


@dataclass
class Machine:
    """Support vectors with coefficients, of the iterate and of its average, and when each came."""

    gamma: float
    n_features: int
    n_classes: int
    x: np.ndarray = field(init=False)
    a: np.ndarray = field(init=False)
    mean: np.ndarray = field(init=False)
    born: list = field(default_factory=list)
    degradation: float = 0.0
    gradient_error: float = 0.0

    def __post_init__(self):
        self.x = np.empty((0, self.n_features))
        self.a, self.mean = np.empty((0, self.n_classes)), np.empty((0, self.n_classes))

    def k(self, x, z):
        return np.exp(-self.gamma * ((np.atleast_2d(x)[:, None] - np.atleast_2d(z)) ** 2).sum(axis=2))

    def scores(self, x):
        return self.k(x, self.x) @ self.a

    def append(self, x, a, t):
        self.x = np.vstack([self.x, x])
        self.a, self.mean = np.vstack([self.a, a]), np.vstack([self.mean, np.zeros_like(a)])
        self.born.append(t)

    def delete(self, p):
        self.x = np.delete(self.x, p, axis=0)
        self.a, self.mean = np.delete(self.a, p, axis=0), np.delete(self.mean, p, axis=0)
        self.born.pop(p)

    def smallest(self):
        size = (self.a**2).sum(axis=1)
        ties = np.flatnonzero(size <= size.min() * (1 + 1e-9))
        return min(ties, key=lambda s: self.born[s])


def remove(m, _):
    m.delete(m.smallest())


def project(m, _):
    p = m.smallest()
    x, a, mean = m.x[p], m.a[p], m.mean[p]
    m.delete(p)
    d = np.linalg.solve(m.k(m.x, m.x), m.k(m.x, x))
    m.a, m.mean = m.a + d * a, m.mean + d * mean


def merge(m, t):
    light = m.smallest()
    kappa = m.k(m.x, m.x[light])[:, 0]
    best = (np.inf, 0, 0.0)
    for n in set(range(len(m.a))) - {light}:
        square = m.a[light] @ m.a[light] + m.a[n] @ m.a[n] + 2 * m.a[light] @ m.a[n] * kappa[n]

        def cost(h, n=n, square=square):
            u, v = kappa[n] ** ((1 - h) ** 2), kappa[n] ** (h**2)
            return square - ((u * m.a[light] + v * m.a[n]) ** 2).sum()

        # Two hills at most: a search on each side, and the ends.
        for low, high in ((0.0, 0.5), (0.5, 1.0)):
            h = minimize_scalar(cost, bounds=(low, high), method="bounded", options={"xatol": 1e-10}).x
            best = min(best, *((cost(h), n, h) for h in (h, low, high)))
    _, n, h = best
    u, v = kappa[n] ** ((1 - h) ** 2), kappa[n] ** (h**2)
    m.a[n], m.mean[n] = u * m.a[light] + v * m.a[n], u * m.mean[light] + v * m.mean[n]
    m.x[n], m.born[n] = h * m.x[light] + (1 - h) * m.x[n], t
    m.delete(light)


def budgeted(X, y, order, *, gamma, alpha, budget, maintain, n_classes):
    """Wang, Crammer and Vucetic (2010), Algorithm 1, and the carried average; classes are 0, 1, ..."""
    m, updates = Machine(gamma, X.shape[1], n_classes), 0
    window = max(1, budget // 20) if maintain is remove else 2 * budget
    for t, i in enumerate(order, 1):
        f = m.scores(X[i])[0]
        other = max((r for r in range(n_classes) if r != y[i]), key=lambda r: f[r])
        m.a = (1 - 1 / t) * m.a
        if 1 + f[other] - f[y[i]] <= 0:
            continue
        step = (np.eye(n_classes)[y[i]] - np.eye(n_classes)[other]) / (alpha * t)
        updates += 1
        known = np.flatnonzero((m.x == X[i]).all(axis=1))
        if known.size:
            m.a[known[0]] += step
        else:
            m.append(X[i], step, updates)
        if len(m.a) > budget:
            x, a = m.x.copy(), m.a.copy()
            maintain(m, updates)
            # ||dw||^2 by the full kernel matrix of the vectors before and after.
            z, c = np.vstack([x, m.x]), np.vstack([a, -m.a])
            square = max(0.0, float(np.sum(c * (m.k(z, z) @ c))))
            m.degradation += square
            m.gradient_error += square**0.5 * alpha * t
        m.mean += (m.a - m.mean) / max(1, min(window, updates // 8))
    return m
