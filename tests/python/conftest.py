"""Data and helpers that several test modules share."""

import os
import subprocess
import sys

import numpy as np
import pytest


def labelled(seed, n, d, n_classes):
    """Rows of norm about 1, and classes that a linear model tells apart nine times in ten."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d)) / np.sqrt(d)
    scores = X @ random.normal(size=(d, n_classes)) + 0.1 * random.normal(size=(n, n_classes))
    X.flags.writeable = False
    return X, scores.argmax(axis=1)


@pytest.fixture(scope="session")
def two_classes():
    return labelled(0, 60, 4, 2)


@pytest.fixture(scope="session")
def three_classes():
    return labelled(1, 90, 4, 3)


@pytest.fixture(scope="session")
def run_script():
    """Runs Python text in a process of its own, where a crash or a hang can do no harm."""

    def run(text, timeout=60, **environment):
        return subprocess.run(
            [sys.executable, "-c", text],
            capture_output=True,
            text=True,
            timeout=timeout,
            env={**os.environ, **environment},
        )

    return run


@pytest.fixture
def few_epochs(monkeypatch):
    """So that what cannot be solved ends at once."""
    monkeypatch.setattr("pegasos._refit._MOST_VISITS", 0)
