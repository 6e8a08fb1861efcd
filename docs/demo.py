"""Trains two models: one on real data to a certified tolerance, one on many examples at speed."""

import time

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from pegasos import PegasosClassifier


def train(title, model, X_train, X_test, y_train, y_test):
    print(f"\n{title}: {X_train.shape[0]:,} x {X_train.shape[1]:,}, training ...")
    start = time.perf_counter()
    model.fit(X_train, y_train)
    seconds = time.perf_counter() - start
    visits = model.n_iter_ * X_train.shape[0]
    print(f"  accuracy       {model.score(X_test, y_test):.2%} on {len(y_test):,} held-out rows")
    print(f"  speed          {model.n_iter_} epochs, {seconds:.2f} s, {visits / seconds:,.0f} rows/s")
    print(f"  objective      {model.objective_:.6f}")
    print(f"  certified gap  {model.duality_gap_:.2g}: no solver can go lower by more than that")


def tumours():
    """569 tumours, 30 measurements each: the Wisconsin set that ships with scikit-learn."""
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def documents(n=300_000, vocabulary=1 << 20):
    """Documents of two kinds, about 44 hashed words each, a quarter of them typical of the kind."""
    random = np.random.default_rng(0)
    y = random.integers(0, 2, n)
    length = random.poisson(44, n) + 1
    rank = (vocabulary * random.random(length.sum()) ** 3).astype(np.int64)
    typical = random.random(len(rank)) < 0.25
    rank[typical] = (2 * rank[typical] + np.repeat(y, length)[typical]) % vocabulary
    indptr = np.concatenate([[0], np.cumsum(length)]).astype(np.int32)
    words = (rank * 0x9E3779B1 % vocabulary).astype(np.int32)
    ones = np.ones(len(words), np.float32)
    return sp.csr_matrix((ones, words, indptr), shape=(n, vocabulary)), y


common = dict(random_state=0, verbose=1)
train(
    "Breast cancer, dense",
    PegasosClassifier(alpha=0.01, max_iter=10_000, **common),
    *train_test_split(*tumours(), random_state=0),
)
train(
    "Generated documents, sparse",
    PegasosClassifier(alpha=1e-3, fit_intercept=False, sampling="blocks", tol=0.01, **common),
    *train_test_split(*documents(), test_size=0.1, random_state=0),
)
