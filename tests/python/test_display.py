"""Pictures of how a fit went."""

import sys
from email.message import Message

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from machines import MACHINES, quiet
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_html_repr

from pegasos import KernelPegasosClassifier, PegasosClassifier, PegasosClassifierCV, merge
from pegasos import TrainingCurveDisplay, _estimator

mpl.use("Agg")


@pytest.fixture
def pictures():
    yield
    plt.close("all")


@pytest.mark.usefixtures("pictures")
@pytest.mark.parametrize("name", MACHINES)
def test_curves_of_a_fitted_estimator(name, three_classes):
    model = quiet(clone(MACHINES[name]).fit, *three_classes)
    display = TrainingCurveDisplay.from_estimator(model)
    assert ("gap" in display.lines_) == np.isfinite(model.duality_gap_)
    assert ("accuracy" in display.lines_) == (getattr(model, "history", None) is not None)
    x, loss = display.lines_["loss"].get_data()
    np.testing.assert_array_equal(x, 1 + np.arange(model.n_iter_))
    np.testing.assert_array_equal(loss, model.loss_curve_)
    assert len(display.axes_) == len({*display.lines_} - {"dual_objective"})
    assert all(axis.figure is display.figure_ for axis in display.axes_)
    display.figure_.canvas.draw()


@pytest.mark.usefixtures("pictures")
def test_curves_of_a_clone_that_is_trained(three_classes):
    X, y = three_classes
    model = KernelPegasosClassifier(budget=10, refine=False, solver="pegasos", max_iter=2, random_state=0)
    display = quiet(TrainingCurveDisplay.from_estimator, model, X, y, sample_weight=np.ones(len(y)), name="mine")
    assert not hasattr(model, "classes_") and model.history is None
    assert set(display.lines_) == {"loss", "accuracy", "budget_error"} and display.estimator_name == "mine"
    twin = quiet(clone(model).set_params(history=1).fit, X, y)
    t, accuracy = display.lines_["accuracy"].get_data()
    np.testing.assert_array_equal(t, twin.history_["t"])
    np.testing.assert_array_equal(accuracy, twin.history_["accuracy"])
    np.testing.assert_array_equal(display.lines_["budget_error"].get_data()[1], twin.history_["mean_gradient_error"])
    sparse = quiet(TrainingCurveDisplay.from_estimator, model, csr_matrix(X.astype(np.float32)), np.array(list("abc"))[y])
    assert set(sparse.lines_) == set(display.lines_)


@pytest.mark.usefixtures("pictures")
def test_curves_of_what_is_inside(three_classes):
    X, y = three_classes
    inside = PegasosClassifier(random_state=0)
    for estimator in (
        make_pipeline(StandardScaler(), inside),
        GridSearchCV(make_pipeline(StandardScaler(), inside), {"pegasosclassifier__alpha": [0.1, 0.01]}, cv=3),
        PegasosClassifierCV(alphas=[0.1], cv=3),
    ):
        for display in (
            TrainingCurveDisplay.from_estimator(clone(estimator).fit(X, y)),
            TrainingCurveDisplay.from_estimator(estimator, X, y),
        ):
            assert display.estimator_name == "PegasosClassifier" and "gap" in display.lines_


@pytest.mark.usefixtures("pictures")
def test_a_gap_of_0_is_drawn():
    display = TrainingCurveDisplay(loss=[0.5, 0.5], objective=[0.5, 0.5], dual_objective=[0.5, 0.5]).plot(panels=["gap"])
    assert display.axes_[0].get_yscale() == "linear" and [*display.lines_["gap"].get_ydata()] == [0.0, 0.0]


@pytest.mark.usefixtures("pictures")
def test_where_curves_are_drawn(three_classes):
    model = PegasosClassifier(random_state=0).fit(*three_classes)
    figure, axes = plt.subplots(1, 2)
    display = TrainingCurveDisplay.from_estimator(model, panels=["gap", "loss"], ax=axes, line_kw={"linewidth": 3.0})
    assert display.figure_ is figure and [*display.axes_] == [*axes] and axes[0].get_yscale() == "log"
    assert display.lines_["gap"].get_linewidth() == 3.0
    short = TrainingCurveDisplay.from_estimator(model, line_kw={"c": "red", "ls": ":", "ms": 1.0}).lines_["loss"]
    assert (short.get_color(), short.get_linestyle(), short.get_markersize()) == ("red", ":", 1.0)
    other = display.plot(axes, panels=["gap", "loss"], name="again")
    assert other is display and [text.get_text() for text in axes[1].get_legend().get_texts()] == ["PegasosClassifier", "again"]
    _, one = plt.subplots()
    assert TrainingCurveDisplay.from_estimator(model, panels=["loss"], ax=one).axes_[0] is one
    _, one = plt.subplots()
    assert len(TrainingCurveDisplay.from_estimator(model, ax=one).axes_) == 3 and not one.axison


@pytest.mark.usefixtures("pictures")
def test_curves_that_cannot_be_drawn(three_classes, monkeypatch):
    X, y = three_classes
    show = TrainingCurveDisplay.from_estimator
    model = PegasosClassifier(solver="pegasos", tol=None, max_iter=2, random_state=0)
    with pytest.raises(NotFittedError):
        show(model)
    model.fit(X, y)
    for match, arguments in [
        ("X and y must be given together, got X alone", {"X": X}),
        ("sample_weight must come with X", {"sample_weight": np.ones(len(y))}),
        ("panels must be some of", {"panels": "loss"}),
        ("panels must be some of", {"panels": ["loss", "loss"]}),
        ("panels must be some of", {"panels": ["height"]}),
        ("panels must be some of", {"panels": []}),
        ("panels must be some of", {"panels": 5}),
        ("panels must be some of", {"panels": [["loss"]]}),
        ("nothing is known of 'gap'.*tol=None", {"panels": ["gap"]}),
        ("nothing is known of 'accuracy'.*history", {"panels": ["accuracy"]}),
        ("an Axes for each of 1 panels, got 2", {"panels": ["loss"], "ax": plt.subplots(1, 2)[1]}),
    ]:
        with pytest.raises(ValueError, match=match):
            show(model, **arguments)
    with pytest.raises(ValueError, match="must be one of pegasos.*LogisticRegression"):
        show(LogisticRegression().fit(X, y))
    with pytest.raises(ValueError, match="nothing to show"):
        show(merge([model]))
    with pytest.raises(ValueError, match="inconsistent"):
        TrainingCurveDisplay(loss=[1.0, 0.5], objective=[1.0]).plot()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for call in (lambda: show(model), TrainingCurveDisplay(loss=[1.0]).plot):
        with pytest.raises(ImportError, match="requires matplotlib"):
            call()


@pytest.mark.usefixtures("pictures")
def test_curves_of_given_figures():
    display = TrainingCurveDisplay(loss=[1.0, 0.5, 0.25], objective=[np.nan, 1.0, 0.5], dual_objective=[np.nan, 0.0, 0.5])
    display.plot()
    np.testing.assert_array_equal(display.lines_["gap"].get_data(), [[2, 3], [1.0, 0.0]])
    assert display.lines_["dual_objective"].get_color() == display.lines_["objective"].get_color()
    assert all(axis.get_legend() is None for axis in display.axes_[1:])
    assert [*display.lines_] == ["objective", "dual_objective", "gap", "loss"]


@pytest.mark.parametrize("address", ["https://docs.example.org/pegasos", None])
def test_the_html_representation_links_to_the_docs(address, monkeypatch):
    package = Message()
    package["Name"] = "pegasos"
    package["Project-URL"] = "Source, https://example.org/source"
    if address is not None:
        package["Project-URL"] = f"Documentation, {address}"
    monkeypatch.setattr(_estimator, "metadata", {"pegasos": package}.__getitem__)
    _estimator.documentation.cache_clear()
    try:
        estimators = [*MACHINES.values(), PegasosClassifierCV(), make_pipeline(StandardScaler(), PegasosClassifier())]
        shown = [estimator_html_repr(estimator) for estimator in estimators]
    finally:
        _estimator.documentation.cache_clear()
    assert [f'href="{address}"' in html for html in shown] == [address is not None] * len(shown)
    assert not any("example.org/source" in html for html in shown)
