"""scikit-learn's callbacks, where the installed version has them."""

import importlib.util
import warnings

import numpy as np
import pytest
import sklearn
from machines import MACHINES, quiet
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.fixes import parse_version

from pegasos import (
    KernelPegasosClassifier,
    KernelPegasosClassifierCV,
    PegasosClassifier,
    PegasosClassifierCV,
)

#: Whether there are callbacks. That there are none where there must be some is a failure, not a reason to skip.
CALLBACKS = importlib.util.find_spec("sklearn.callback") is not None
needs_callbacks = pytest.mark.skipif(not CALLBACKS, reason="scikit-learn before 1.9 has no callbacks")


def test_callbacks_are_there_where_scikit_learn_has_them():
    assert (parse_version(sklearn.__version__) >= parse_version("1.9")) == CALLBACKS
    for model in (PegasosClassifier(), KernelPegasosClassifierCV()):
        assert hasattr(model, "set_callbacks") == CALLBACKS


def test_scikit_learn_without_callbacks(run_script):
    """Estimators then have nothing of them, and train as ever. (scikit-learn itself asks for them where it has them.)"""
    found = run_script("""
import sys
import sklearn.linear_model, sklearn.model_selection, sklearn.pipeline
hidden = sys.modules.get("sklearn.callback")
sys.modules["sklearn.callback"] = None
from sklearn.datasets import load_iris
from pegasos import KernelPegasosClassifier, PegasosClassifier, PegasosClassifierCV
if hidden is not None:
    sys.modules["sklearn.callback"] = hidden
X, y = load_iris(return_X_y=True)
models = (
    PegasosClassifier(alpha=0.01),
    KernelPegasosClassifier(budget=20, calibration="sigmoid"),
    PegasosClassifierCV(alphas=[0.1], cv=3),
)
for model in models:
    assert not hasattr(model, "set_callbacks")
    assert model.fit(X, y).score(X, y) > 0.8
models[1].refit(X, y)
""")
    assert found.returncode == 0, found.stderr


class Recorder:
    """Remembers what it was told; says that it is enough after so many parts of a fit."""

    def __init__(self, enough=None):
        self.told, self.scores, self.enough = [], [], enough

    def setup(self, estimator, context):
        self.told.append(("setup", context.task_name))

    def on_fit_task_begin(self, estimator, context):
        self.told.append(("begin", context.task_name))

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
        self.told.append(("end", context.task_name))
        self.metadata = metadata
        if fitted_estimator is not None:
            self.scores.append(fitted_estimator.decision_function(X))
        return self.enough is not None and self.count("end") >= self.enough

    def teardown(self, estimator, context):
        self.told.append(("teardown", context.task_name))

    def count(self, what, name=None):
        return sum(found[0] == what and name in (None, found[1]) for found in self.told)


class Propagated(Recorder):
    max_propagation_depth = None


@needs_callbacks
@pytest.mark.parametrize("name", MACHINES)
def test_callbacks_are_told_of_epochs(name, three_classes):
    X, y = three_classes
    weight = np.linspace(0.5, 1.5, len(y))
    recorder = Recorder()
    model = quiet(clone(MACHINES[name]).set_callbacks(recorder).fit, X, y, weight)
    told = recorder.told
    assert told[:2] == [("setup", "fit"), ("begin", "fit")] and told[-2:] == [("end", "fit"), ("teardown", "fit")]
    assert recorder.metadata["sample_weight"] is weight
    # Everything that begins ends.
    for task in ("fit", "epoch", "refit", "calibration"):
        assert recorder.count("begin", task) == recorder.count("end", task)
    # One that only evaluates may come after the last.
    assert 0 <= recorder.count("end", "epoch") + recorder.count("end", "refit") - model.n_iter_ <= 1
    # The model of the last part is the model, and so is the one at the end.
    assert np.array_equal(recorder.scores[-1], model.decision_function(X))
    # Nobody is the worse for being watched.
    twin = quiet(clone(MACHINES[name]).fit, X, y, weight)
    assert twin.decision_function(X).tobytes() == model.decision_function(X).tobytes()
    assert not [attribute for attribute in vars(model) if "callback" in attribute and attribute != "_skl_callbacks"]


@needs_callbacks
@pytest.mark.parametrize("solver", ["pegasos", "dual", "auto"])
@pytest.mark.parametrize("multi_class", ["ovr", "crammer_singer"])
def test_the_model_of_an_epoch_is_that_of_a_fit_of_so_many(solver, multi_class, three_classes):
    X, y = three_classes
    params = {"multi_class": multi_class, "solver": solver, "tol": None, "alpha": 0.05, "random_state": 0}
    recorder = Recorder()
    PegasosClassifier("hinge", max_iter=3, **params).set_callbacks(recorder).fit(X, y)
    assert len(recorder.scores) == 4
    for epochs in (1, 2, 3):
        other = PegasosClassifier("hinge", max_iter=epochs, **params).fit(X, y)
        np.testing.assert_allclose(recorder.scores[epochs - 1], other.decision_function(X), rtol=1e-9)


@needs_callbacks
@pytest.mark.parametrize("name", MACHINES)
def test_the_model_of_an_epoch_goes_on_with_any_rows(name, three_classes):
    X, y = three_classes

    class Continued(Recorder):
        def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
            if fitted_estimator is not None:
                before = fitted_estimator.t_
                fitted_estimator.partial_fit(X[:20], y[:20])
                self.told.append(fitted_estimator.t_ - before)

    continued = Continued()
    model = quiet(clone(MACHINES[name]).set_callbacks(continued).fit, X, y)
    steps = [told for told in continued.told if isinstance(told, int)]
    assert steps and min(steps) > 0
    # The model itself learns nothing of it.
    twin = quiet(clone(MACHINES[name]).fit, X, y)
    assert twin.decision_function(X).tobytes() == model.decision_function(X).tobytes()


@needs_callbacks
@pytest.mark.parametrize("name", ["linear, Pegasos", "kernel, Pegasos", "kernel"])
def test_a_callback_stops_a_fit(name, three_classes):
    recorder = Recorder(enough=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = clone(MACHINES[name]).set_params(tol=1e-12, max_iter=50).set_callbacks(recorder).fit(*three_classes)
    assert model.n_iter_ == 1 and recorder.count("end", "fit") == 1
    assert np.isfinite(model.objective_)


class Failing(Recorder):
    def __init__(self, where, error=RuntimeError):
        super().__init__()
        self.where, self.error = where, error

    def on_fit_task_end(self, estimator, context):
        self.told.append(("end", context.task_name))
        if context.task_name == self.where:
            raise self.error("a callback of somebody's")


@needs_callbacks
@pytest.mark.parametrize("where", ["epoch", "fit", "search"])
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_callback_that_fails_leaves_the_model_and_is_told_of_the_end(where, error, three_classes):
    X, y = three_classes
    model = PegasosClassifierCV(alphas=[0.1], cv=3) if where == "search" else PegasosClassifier(random_state=0)
    before = model.fit(X, y).decision_function(X)
    failing = Failing(where, error)
    with pytest.raises(error):
        model.set_callbacks(failing).fit(X, y)
    assert failing.told[-1] == ("teardown", "fit")
    assert "_callback_fit_ctx" not in vars(model)
    if error is RuntimeError:
        assert np.array_equal(model.decision_function(X), before)


@needs_callbacks
@pytest.mark.parametrize(
    ("where", "model"),
    [
        ("epoch", PegasosClassifier(random_state=0)),
        ("fit", PegasosClassifier(random_state=0)),
        ("fit", KernelPegasosClassifier(budget=20, random_state=0)),
        ("calibration", PegasosClassifier(calibration="sigmoid", random_state=0)),
        ("search", PegasosClassifierCV(alphas=[0.1], cv=3, random_state=0)),
        ("refit-with-best-params", PegasosClassifierCV(alphas=[0.1], cv=3, random_state=0)),
        ("fit", PegasosClassifierCV(alphas=[0.1], cv=3, random_state=0)),
    ],
)
def test_ctrl_c_in_a_callback_takes_no_model_away(where, model, three_classes):
    X, y = three_classes
    failing = Failing(where, KeyboardInterrupt)
    model = clone(model).set_callbacks(failing)
    with warnings.catch_warnings(), pytest.raises(KeyboardInterrupt):
        warnings.filterwarnings("ignore", "the search was interrupted")
        model.fit(X, y)
    assert failing.told[-1] == ("teardown", "fit")
    if where != "epoch":
        same = clone(model).set_callbacks().fit(X, y)
        assert np.array_equal(model.decision_function(X), same.decision_function(X))


@needs_callbacks
def test_ctrl_c_after_a_refit(three_classes):
    X, y = three_classes
    model = KernelPegasosClassifier(budget=20, refine=False, random_state=0).fit(X, y)
    other = clone(model).fit(X, y).refit(X, y)
    with pytest.raises(KeyboardInterrupt):
        model.set_callbacks(Failing("refit", KeyboardInterrupt)).refit(X, y)
    assert np.array_equal(model.decision_function(X), other.decision_function(X))


@needs_callbacks
def test_a_failed_fit_tells_callbacks_of_the_end(two_classes):
    X, y = two_classes
    recorder = Recorder()
    with pytest.raises(ValueError, match="sampling"):
        PegasosClassifier(sampling=[99]).set_callbacks(recorder).fit(X, y)
    assert recorder.count("teardown") == recorder.count("setup") == 1


@needs_callbacks
def test_fits_within_a_fit_are_nobodys_business(three_classes):
    recorder = Propagated()
    params = {"budget": 20, "metric": "full", "metric_rounds": 1, "calibration": "sigmoid", "random_state": 0}
    model = KernelPegasosClassifier(**params).set_callbacks(recorder)
    quiet(model.fit, *three_classes)
    assert recorder.count("setup") == recorder.count("begin", "fit") == recorder.count("begin", "calibration") == 1


@needs_callbacks
def test_refit(three_classes):
    X, y = three_classes
    recorder = Recorder()
    model = KernelPegasosClassifier(budget=20, refine=False, tol=None, random_state=0).fit(X, y).set_callbacks(recorder)
    model.refit(X, y)
    assert recorder.told == [("setup", "refit"), ("begin", "refit"), ("end", "refit"), ("teardown", "refit")]
    assert np.array_equal(recorder.scores[-1], model.decision_function(X))


@needs_callbacks
def test_callbacks_of_searches(three_classes):
    X, y = three_classes
    recorder = Propagated()
    model = KernelPegasosClassifierCV(gammas=[0.1, 1.0], alphas=[0.1], budget=10, cv=3, random_state=0)
    model.set_callbacks(recorder).fit(X, y)
    assert recorder.count("setup") == 1 and recorder.count("begin", "search") == recorder.count("end", "search") == 1
    folds = [name for what, name in recorder.told if what == "end" and name.startswith("fold ")]
    assert sorted(folds) == ["fold 0", "fold 0", "fold 1", "fold 1", "fold 2", "fold 2"]
    assert recorder.count("begin", "epoch") > 0 and recorder.told[-2:] == [("end", "fit"), ("teardown", "fit")]
    assert "_skl_callbacks" not in vars(model.best_estimator_)
    # Those that are for one estimator hear nothing of what is inside.
    recorder = Recorder()
    model.set_callbacks(recorder).fit(X, y)
    assert recorder.count("begin", "epoch") == 0 and recorder.count("begin", "refit-with-best-params") == 1


@needs_callbacks
def test_a_callback_stops_a_search(three_classes):
    X, y = three_classes
    recorder = Recorder(enough=1)
    model = PegasosClassifierCV(alphas=[0.1, 0.01], cv=4, n_jobs=1).set_callbacks(recorder).fit(X, y)
    assert recorder.count("end", "search") == 1 and model.score(X, y) > 0.5
    known = [np.isfinite(model.cv_results_[f"split{k}_test_score"]).all() for k in range(4)]
    assert sum(known) == 1


@needs_callbacks
def test_progress_bar_of_scikit_learn(three_classes, capsys):
    from sklearn.callback import ProgressBar

    X, y = three_classes
    for estimator in (
        PegasosClassifier(),
        KernelPegasosClassifier(),
        KernelPegasosClassifier(budget=20),
        PegasosClassifierCV(alphas=[0.1], cv=3),
        make_pipeline(StandardScaler(), PegasosClassifier()),
        GridSearchCV(PegasosClassifier(), {"alpha": [0.1, 0.01]}, cv=3),
    ):
        estimator.set_callbacks(ProgressBar()).fit(X, y)
        name = type(estimator[-1] if hasattr(estimator, "steps") else estimator).__name__
        assert name in capsys.readouterr().out
    failing = PegasosClassifier().set_callbacks(ProgressBar())
    with pytest.raises(ValueError, match="NaN"):
        failing.fit(np.where(np.arange(X.size).reshape(X.shape) == 7, np.nan, X), y)


@needs_callbacks
def test_scoring_monitor(three_classes):
    from sklearn.callback import ScoringMonitor

    monitor = ScoringMonitor(scoring="accuracy")
    model = PegasosClassifier(solver="pegasos", tol=None, max_iter=4).set_callbacks(monitor).fit(*three_classes)
    logged = monitor.get_logs().data
    assert [row["task_name"] for row in logged] == ["fit", "epoch", "epoch", "epoch", "epoch"]
    assert logged[0]["accuracy"] == logged[-1]["accuracy"] == model.score(*three_classes)
