"""Several threads at one model: nothing is torn, whether Python has a lock or not."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest

from pegasos import KernelPegasosClassifier, OnlineGradientClassifier, PegasosClassifier

MODELS = {
    "linear": lambda: PegasosClassifier(random_state=0),
    "averaged": lambda: PegasosClassifier("log_loss", multi_class="ovr", average=True, random_state=0),
    "online": lambda: OnlineGradientClassifier(delay=2),
    "kernel": lambda: KernelPegasosClassifier(budget=None, solver="pegasos", tol=None, random_state=0),
    "budget": lambda: KernelPegasosClassifier(budget=10, random_state=0),
}


@pytest.mark.parametrize("name", MODELS)
def test_one_model_in_many_hands(name, three_classes):
    X, y = three_classes
    model = MODELS[name]().partial_fit(X, y, classes=[0, 1, 2])
    hands, rounds = 4, 15
    together = Barrier(hands)

    def learn(k):
        model.partial_fit(X[k::hands], y[k::hands])
        return model.decision_function(X)

    def duplicate(k):
        other = copy.copy(model) if k % 2 else pickle.loads(pickle.dumps(model))
        return other.partial_fit(X, y).decision_function(X)

    def look(_):
        learned = model.dual_coef_ if "dual_coef_" in dir(model) else model.coef_
        return np.array([np.abs(learned).sum(), model.t_])

    def use(hand):
        together.wait(timeout=60)
        jobs = [learn, duplicate, look]
        return [jobs[(hand + k) % 3](hand) for k in range(rounds)]

    with ThreadPoolExecutor(hands) as pool:
        for seen in pool.map(use, range(hands)):
            assert all(np.isfinite(part).all() for part in seen)
    assert len(X) < model.t_ <= len(X) + hands * rounds * len(X)
    stored = pickle.loads(pickle.dumps(model))
    assert (stored.decision_function(X) == model.decision_function(X)).all()


@pytest.mark.parametrize("name", MODELS)
def test_a_model_in_each_hand(name, three_classes):
    X, y = three_classes
    fits = [lambda: MODELS[name]().fit(X, y).decision_function(X)] * 8
    with ThreadPoolExecutor(4) as pool:
        first, *others = pool.map(lambda fit: fit(), fits)
    assert all((other == first).all() for other in others)


def test_probabilities_are_there_while_another_thread_learns():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 5))
    y = (X[:, 0] > 0).astype(int)
    model = PegasosClassifier(calibration="sigmoid", random_state=0).partial_fit(X, y, classes=[0, 1]).partial_fit(X, y)
    done = False

    def learn():
        nonlocal done
        try:
            for _ in range(1000):
                model.partial_fit(X, y)
        finally:
            done = True

    def ask():
        while not done:
            assert model.predict_proba(X).shape == (40, 2)

    with ThreadPoolExecutor(2) as pool:
        for task in [pool.submit(learn), pool.submit(ask)]:
            task.result()
