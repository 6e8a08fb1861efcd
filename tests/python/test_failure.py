"""What a call that fails or is interrupted leaves: the model as it was, or one that goes on."""

import pickle

import numpy as np
import pandas as pd
import pytest
from conftest import INTERRUPT, papers_linear
from sklearn.exceptions import NotFittedError



def model_of(**params):
    default = {"alpha": 0.05, "tol": None, "max_iter": 3, "random_state": 0}
    return papers_linear(**{**default, **params})


def with_nan(X):
    X = X.copy()
    X[40, 0] = np.nan
    return X


FAILURES = {
    "nan": lambda model, X, y: model.fit(with_nan(X), y),
    "overflow": lambda model, X, y: model.fit(1e300 * X, y),
    "lengths": lambda model, X, y: model.fit(X, y[:-1]),
    "one class": lambda model, X, y: model.fit(X, np.zeros_like(y)),
    "three classes": lambda model, X, y: (
        model.set_params(loss="log_loss").fit(X, np.arange(len(y)) % 3)
    ),
    "weights": lambda model, X, y: model.fit(X, y, sample_weight=-np.ones(len(y))),
    "parameter": lambda model, X, y: model.set_params(alpha=-1.0).fit(X, y),
    "step": lambda model, X, y: model.set_params(learning_rate="constant", eta0=1e9).fit(X, y),
    "order": lambda model, X, y: model.set_params(sampling=[99]).fit(X, y),
    "threads": lambda model, X, y: model.set_params(n_jobs=0).fit(X, y),
    "fewer features, nan": lambda model, X, y: model.fit(with_nan(X)[:, :2], y),
    "fewer features, one class": lambda model, X, y: model.fit(X[:, :2], np.zeros_like(y)),
    "frame, one class": lambda model, X, y: model.fit(
        pd.DataFrame(X, columns=list("abcd")), np.zeros_like(y)
    ),
    "f32, nan": lambda model, X, y: model.fit(with_nan(X).astype(np.float32), y),
    "other classes, nan": lambda model, X, y: model.fit(with_nan(X), np.array(["a", "b"])[y]),
}


@pytest.mark.parametrize("read", [False, True], ids=["unread", "read"])
@pytest.mark.parametrize("fail", FAILURES.values(), ids=FAILURES)
def test_a_failed_refit_leaves_the_model(fail, read, two_classes):
    X, y = two_classes
    model, twin = model_of(average=True).fit(X, y), model_of(average=True).fit(X, y)
    if read:
        model.predict(X)
    with pytest.raises(ValueError, match="."):
        fail(model, X, y)
    assert np.array_equal(model.decision_function(X), twin.decision_function(X))
    assert np.array_equal(model.predict(X), twin.predict(X))
    assert not hasattr(model, "feature_names_in_")
    model.set_params(**twin.get_params()).partial_fit(X, y)
    twin.partial_fit(X, y)
    assert np.array_equal(model.coef_, twin.coef_)
    assert model.t_ == twin.t_


@pytest.mark.parametrize("fail", FAILURES.values(), ids=FAILURES)
def test_a_failed_first_fit_leaves_none(fail, two_classes):
    X, y = two_classes
    model = model_of()
    with pytest.raises(ValueError, match="."):
        fail(model, X, y)
    for use in (model.predict, model.decision_function):
        with pytest.raises(NotFittedError):
            use(X)
    model.set_params(**model_of().get_params()).fit(X, y)
    assert np.array_equal(model.coef_, model_of().fit(X, y).coef_)


class Interrupted:
    """Weights during whose conversion Ctrl-C is pressed."""

    def __len__(self):
        return 60

    def __array__(self, dtype=None, copy=None):
        raise KeyboardInterrupt


@pytest.mark.parametrize("on", ["fit", "partial_fit"])
def test_an_interrupt_before_training_leaves_the_model(on, two_classes):
    X, y = two_classes
    model = model_of().fit(X, y)
    before = pickle.dumps(model)
    with pytest.raises(KeyboardInterrupt):
        getattr(model, on)(X[:, : 2 if on == "fit" else 4], y, sample_weight=Interrupted())
    assert pickle.dumps(model) == before
    assert model.predict(X).shape == (60,)
    new = model_of()
    with pytest.raises(KeyboardInterrupt):
        new.fit(X, y, sample_weight=Interrupted())
    with pytest.raises(NotFittedError):
        new.predict(X)


INTERRUPTED = INTERRUPT + """
from conftest import papers_linear
import numpy as np
from pegasos import PegasosClassifier

random = np.random.default_rng(0)
n = {n}
X = random.normal(size=(n, 4)).astype(np.float32)
y = (X[:, 0] > 0).astype(int) if {classes} == 2 else np.arange(n) % {classes}
model = papers_linear(alpha=0.01, multi_class="ovr", max_iter=10**9, tol=None, n_jobs={n_jobs})
late = interrupt(1.0, lambda: model.fit(X, y))
assert late < 0.5, late
assert model.coef_.shape == ({problems}, 4) and np.isfinite(model.coef_).all()
assert model.predict(X[:5]).shape == (5,)
assert model.n_iter_ == len(model.loss_curve_) >= 0
assert model.t_ > 0 and model.t_ >= model.n_iter_ * n
# An epoch broken off is not begun again.
before = model.t_
model.partial_fit(X[:7], y[:7])
assert model.t_ == before + 7
print("done")
"""


@pytest.mark.parametrize(
    ("n", "classes", "problems", "n_jobs"),
    [(100, 2, 1, 1), (200_000, 40, 40, 1), (200_000, 40, 40, 2)],
    ids=["short epochs", "long epochs", "long epochs on threads"],
)
def test_interrupt(n, classes, problems, n_jobs, run_forked):
    text = INTERRUPTED.format(n=n, classes=classes, problems=problems, n_jobs=n_jobs)
    done = run_forked(text)
    assert done.stdout == "done\n", (done.returncode, done.stderr)


BETWEEN_EPOCHS = INTERRUPT + """
from conftest import papers_linear
import numpy as np
from pegasos import PegasosClassifier

X = np.random.default_rng(0).normal(size=(100, 4))
for shards in [1, 2] * 10:
    model = papers_linear(alpha=0.01, solver="pegasos", max_iter=10**9, tol=None, shards=shards)
    interrupt(0.05, lambda: model.fit(X, X[:, 0] > 0))
    # Shards are put together at the end of an epoch. A single learner may have made its last step just now.
    least = model.t_ / 100 - (1 if shards == 1 else 0)
    assert least <= model.n_iter_ == len(model.loss_curve_) <= model.t_ / 100, (model.n_iter_, model.t_)
    assert model.n_iter_ > 0
print("done")
"""


def test_an_epoch_that_has_ended_counts(run_forked):
    done = run_forked(BETWEEN_EPOCHS)
    assert done.stdout == "done\n", (done.returncode, done.stderr)


FIRST_ARRAY = """
import numpy as np
import pegasos

def interrupted(version):
    raise KeyboardInterrupt

np.lib.NumpyVersion = interrupted
model = pegasos.PegasosClassifier().fit(np.eye(4), [0, 1, 0, 1])
assert model.predict(np.eye(4)).shape == (4,)
print("done")
"""


def test_the_first_array_that_crosses_looks_nothing_up(run_forked):
    """rust-numpy asks Python code for NumPy's functions once, and panics if an interrupt comes meanwhile."""
    done = run_forked(FIRST_ARRAY)
    assert done.stdout == "done\n", (done.returncode, done.stderr)
