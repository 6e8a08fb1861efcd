"""Estimators of every kind, for tests of what training shows of itself."""

import warnings

from sklearn.exceptions import ConvergenceWarning

from pegasos import (
    KernelPegasosClassifier,
    OnlineGradientClassifier,
    PegasosClassifier,
    ProjectronClassifier,
)

MACHINES = {
    "linear": PegasosClassifier(random_state=0),
    "linear, Pegasos": PegasosClassifier(solver="pegasos", tol=None, max_iter=3, random_state=0),
    "linear, one against the rest": PegasosClassifier("hinge", multi_class="ovr", random_state=0),
    "linear, early stopping": PegasosClassifier(early_stopping=True, random_state=0),
    "kernel": KernelPegasosClassifier(random_state=0),
    "kernel, Pegasos": KernelPegasosClassifier(solver="pegasos", tol=None, max_iter=2, history=20, random_state=0),
    "kernel, pairs": KernelPegasosClassifier(multi_class="ovo", random_state=0),
    "budget": KernelPegasosClassifier(budget=20, random_state=0),
    "budget, rounds": KernelPegasosClassifier(budget=20, refine_rounds=2, max_iter=2, random_state=0),
    "calibrated": KernelPegasosClassifier(budget=20, calibration="sigmoid", random_state=0),
    "Projectron": ProjectronClassifier(random_state=0),
    "online": OnlineGradientClassifier(tol=None, random_state=0),
}


def quiet(fit, *args, **kwargs):
    """What `fit` returns, whatever it warns of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return fit(*args, **kwargs)
