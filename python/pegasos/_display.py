"""Pictures of how a fit went, in the manner of scikit-learn's displays. They need matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import check_consistent_length
from sklearn.utils._optional_dependencies import check_matplotlib_support
from sklearn.utils.validation import _num_samples, check_is_fitted

from pegasos._base import _PegasosBase
from pegasos._progress import relative_gap

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

#: What there is to see, and the scales of the axes.
_PANELS = {
    "objective": "objective P",
    "gap": "certified gap (P - D)/P",
    "loss": "mean loss of an epoch",
    "accuracy": "accuracy so far",
    "budget_error": "mean error of the budget",
}

#: The panels whose horizontal axis counts steps, not epochs.
_BY_STEPS = ("accuracy", "budget_error")

#: Lines of more points have no markers.
_MOST_MARKERS = 60

#: Losses that differ by such a factor are shown by their logarithm: the first steps of Pegasos may be long.
_WIDE = 30.0

#: So many points a fit is recorded at, where nobody has said how often.
_POINTS = 100


class TrainingCurveDisplay:
    """How a fit went: objective, dual value, certified gap, loss, accuracy so far and error of the budget.

    It is recommended to use `from_estimator`. All parameters are stored as attributes. What is not known at a point is nan,
    and what is known nowhere has no panel.

    Parameters
    ----------
    loss : array-like of shape (n_epochs,)
        The mean loss of each epoch of Pegasos, every example scored before it was learned from; then that of each step or
        epoch of dual ascent, or of a refit: ``loss_curve_``.
    objective : array-like of shape (n_epochs,), default=None
        The objective P after each of them: ``objective_curve_``.
    dual_objective : array-like of shape (n_epochs,), default=None
        The bound from below on the least P that was known then: ``dual_objective_curve_``.
    steps : array-like of shape (n_records,), default=None
        How many steps there had been at each record: ``history_["t"]``.
    accuracy : array-like of shape (n_records,), default=None
        The accuracy of all examples until then, each before it was learned from.
    budget_error : array-like of shape (n_records,), default=None
        The mean error that the budget had made until then: ``history_["mean_gradient_error"]``.
    estimator_name : str, default=None
        What the lines are called.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes
        The panels, from left to right.
    figure_ : matplotlib Figure
        The figure that holds them.
    lines_ : dict of matplotlib Line2D
        The lines: "objective", "dual_objective", "gap", "loss", "accuracy" and "budget_error", those that there are.

    See Also
    --------
    sklearn.model_selection.LearningCurveDisplay : Scores by the number of examples that were trained on.
    sklearn.inspection.DecisionBoundaryDisplay : What was learned, of two features.

    Notes
    -----
    Training records these figures in any case: for an epoch a few numbers. Accuracy and the budget's error are recorded by
    kernel machines with ``history``.

    Examples
    --------
    >>> from pegasos import KernelPegasosClassifier
    >>> from pegasos import TrainingCurveDisplay
    >>> from pegasos.datasets import make_checkerboard
    >>> X, y = make_checkerboard(2000, 0)
    >>> model = KernelPegasosClassifier(gamma=8.0, random_state=0).fit(X, y)
    >>> display = TrainingCurveDisplay.from_estimator(model)
    >>> sorted(display.lines_)
    ['dual_objective', 'gap', 'loss', 'objective']
    >>> import matplotlib.pyplot as plt
    >>> plt.close(display.figure_)
    """

    def __init__(
        self,
        *,
        loss: Any,
        objective: Any = None,
        dual_objective: Any = None,
        steps: Any = None,
        accuracy: Any = None,
        budget_error: Any = None,
        estimator_name: str | None = None,
    ) -> None:
        self.loss = loss
        self.objective = objective
        self.dual_objective = dual_objective
        self.steps = steps
        self.accuracy = accuracy
        self.budget_error = budget_error
        self.estimator_name = estimator_name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        y: Any = None,
        *,
        sample_weight: Any = None,
        panels: Sequence[str] | None = None,
        ax: Any = None,
        name: str | None = None,
        line_kw: dict[str, Any] | None = None,
    ) -> Self:
        """Show how an estimator was trained, or how it is trained on these examples.

        Parameters
        ----------
        estimator : estimator instance
            One of this package's, or a Pipeline, a search or a ``...CV`` estimator with one inside: a fitted one, or with X
            and y any. A search shows the fit of its best model.
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Examples to train a clone on; None to show the last ``fit``, or whatever came after it.
        y : array-like of shape (n_samples,), default=None
            Their classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Their weights.
        panels : sequence of str, default=None
            What to show, from left to right: of "objective" (with the dual value), "gap", "loss", "accuracy" and
            "budget_error". None for all of which something is known.
        ax : matplotlib Axes or array-like of Axes, default=None
            Where to draw: an Axes, which is divided if there are several panels, or an Axes for each panel. None for a new
            figure.
        name : str, default=None
            What the lines are called; the name of the estimator's class by default.
        line_kw : dict, default=None
            What ``plot`` of matplotlib gets for every line.

        Returns
        -------
        display : TrainingCurveDisplay
            The display.

        Raises
        ------
        ValueError
            If the estimator is not of this package, X is given without y or the other way round, or nothing is known of a
            panel that was asked for.
        NotFittedError
            If there is no X, and the estimator has not been fitted.
        ImportError
            If matplotlib is missing.

        Notes
        -----
        The clone that is trained on X has ``history`` set to a hundredth of the examples, where it has that parameter and it
        is None. Time and memory are those of its fit.
        """
        check_matplotlib_support(f"{cls.__name__}.from_estimator")
        if (X is None) != (y is None):
            raise ValueError(f"X and y must be given together, got {'y' if X is None else 'X'} alone")
        if X is None and sample_weight is not None:
            raise ValueError("sample_weight must come with X and y, got it alone: nothing is trained without them")
        if X is None:
            check_is_fitted(estimator)
        else:
            estimator = clone(estimator)
            inside = _inside(estimator)
            if inside.get_params(deep=False).get("history", 0) is None:
                inside.set_params(history=max(1, _num_samples(X) // _POINTS))
            estimator.fit(X, y, **({} if sample_weight is None else {"sample_weight": sample_weight}))
        model = _inside(estimator)
        if not isinstance(model, _PegasosBase):
            raise ValueError(
                "estimator must be one of pegasos, or a Pipeline or a search that has found one, got "
                f"{type(model).__name__}"
            )
        history = model.history_ if getattr(model, "history", None) is not None else {}
        display = cls(
            loss=np.array(model.loss_curve_, float),
            objective=np.array(model.objective_curve_, float),
            dual_objective=np.array(model.dual_objective_curve_, float),
            steps=history.get("t"),
            accuracy=history.get("accuracy"),
            # What a machine without a budget records is 0.
            budget_error=history["mean_gradient_error"] if np.any(history.get("mean_gradient_error", 0.0)) else None,
            estimator_name=type(model).__name__ if name is None else name,
        )
        return display.plot(ax, panels=panels, line_kw=line_kw)

    def plot(
        self,
        ax: Any = None,
        *,
        panels: Sequence[str] | None = None,
        name: str | None = None,
        line_kw: dict[str, Any] | None = None,
    ) -> Self:
        """Draw the panels.

        Parameters
        ----------
        ax : matplotlib Axes or array-like of Axes, default=None
            As for `from_estimator`. That of another display's ``axes_`` draws into its panels.
        panels : sequence of str, default=None
            As for `from_estimator`.
        name : str, default=None
            What the lines are called; ``estimator_name`` by default.
        line_kw : dict, default=None
            What ``plot`` of matplotlib gets for every line.

        Returns
        -------
        display : TrainingCurveDisplay
            The display.

        Raises
        ------
        ValueError
            If there is no such panel, nothing is known of it, arrays differ in length, or ``ax`` holds another number of
            Axes than there are panels.
        ImportError
            If matplotlib is missing.
        """
        check_matplotlib_support(f"{type(self).__name__}.plot")
        from matplotlib.cbook import normalize_kwargs
        from matplotlib.lines import Line2D

        check_consistent_length(self.loss, self.objective, self.dual_objective)
        check_consistent_length(self.steps, self.accuracy, self.budget_error)
        curves = self._curves()
        known = {panel: [curve for curve in some if np.isfinite(curve[1]).any()] for panel, some in curves.items()}
        shown = [panel for panel, some in known.items() if some] if panels is None else list(panels) if np.iterable(panels) else []
        if panels is None and not shown:
            raise ValueError("there is nothing to show: no epoch of this model was recorded")
        there = all(isinstance(panel, str) and panel in _PANELS for panel in shown)
        if isinstance(panels, str) or not shown or not there or len(set(shown)) < len(shown):
            raise ValueError(f"panels must be some of {list(_PANELS)}, each once, of which something is known, got {panels!r}")
        for panel in shown:
            if not known[panel]:
                raise ValueError(f"panels: nothing is known of {panel!r}; {_why(panel)}")
        axes = _axes(ax, len(shown))
        name = self.estimator_name if name is None else name
        # "c" is "color", as for plot.
        line_kw = normalize_kwargs(line_kw or {}, Line2D)
        self.lines_ = {}
        for axis, panel in zip(axes, shown, strict=True):
            colour: Any = {}
            for what, values in known[panel]:
                self.lines_[what] = line = self._draw(axis, panel, what, values, name, colour | line_kw)
                # The bound belongs to what it bounds.
                colour = {"color": line.get_color(), "linestyle": "--"}
            if axis.get_legend_handles_labels()[0]:
                axis.legend()
        self.axes_ = np.array(axes, dtype=object)
        self.figure_ = axes[0].figure
        return self

    def _curves(self) -> dict[str, list[tuple[str, np.ndarray]]]:
        """The lines of each panel."""

        def some(values: Any) -> np.ndarray:
            return np.array([] if values is None else values, float)

        objective, dual = some(self.objective), some(self.dual_objective)
        gap = relative_gap(objective, dual) if len(objective) == len(dual) else some(None)
        return {
            "objective": [("objective", objective), ("dual_objective", dual)],
            "gap": [("gap", gap)],
            "loss": [("loss", some(self.loss))],
            "accuracy": [("accuracy", some(self.accuracy))],
            "budget_error": [("budget_error", some(self.budget_error))],
        }

    def _draw(
        self, axis: Any, panel: str, what: str, values: np.ndarray, name: str | None, kw: dict[str, Any]
    ) -> Any:
        from matplotlib.ticker import MaxNLocator

        found = np.isfinite(values)
        places = 1.0 + np.arange(len(values))
        if panel in _BY_STEPS and self.steps is not None:
            places = np.asarray(self.steps, float)
        label = name
        if panel == "objective":
            what = "dual value" if what == "dual_objective" else what
            label = what if name is None else f"{name}: {what}"
        marker = "o" if found.sum() <= _MOST_MARKERS else ""
        (line,) = axis.plot(
            places[found], values[found], **({"label": label, "marker": marker, "markersize": 3.0} | kw)
        )
        axis.set(xlabel="steps" if panel in _BY_STEPS else "epochs and steps of dual ascent", ylabel=_PANELS[panel])
        axis.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
        wide = panel == "loss" and values[found].max() > _WIDE * values[found].min() > 0.0
        # A fit may end at a gap of 0.
        closes = panel == "gap" and (values[found] > 0.0).any()
        if closes or wide:
            axis.set_yscale("log")
        return line


def _inside(estimator: Any) -> Any:
    """The estimator of this package that a pipeline ends with, or that a search has found."""
    while True:
        if hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif isinstance(estimator, Pipeline):
            estimator = estimator.steps[-1][1]
        else:
            return estimator


def _why(panel: str) -> str:
    """What may be the reason that there is nothing to show."""
    if panel in _BY_STEPS:
        return "kernel machines record it with history=..., " + (
            "after every so many examples" if panel == "accuracy" else "where they have a budget"
        )
    if panel == "loss":
        return "no epoch has ended"
    return "it is evaluated where there is a certificate, and not with tol=None: see duality_gap_"


def _axes(ax: Any, count: int) -> list[Any]:
    """So many Axes: new ones, those that were given, or parts of the one that was given."""
    import matplotlib.pyplot as plt
    from matplotlib.gridspec import GridSpecFromSubplotSpec

    if ax is None:
        _, axes = plt.subplots(1, count, figsize=(4.5 * count, 3.6), layout="constrained", squeeze=False)
        return list(axes[0])
    if not isinstance(ax, plt.Axes):
        axes = np.asarray(ax, dtype=object).ravel()
        if len(axes) != count:
            raise ValueError(f"ax must hold an Axes for each of {count} panels, got {len(axes)}")
        return list(axes)
    place = ax.get_subplotspec()
    if count == 1:
        return [ax]
    if place is None:
        raise ValueError(f"ax must be one of plt.subplots to be divided into {count} panels; give one for each")
    ax.set_axis_off()
    grid = GridSpecFromSubplotSpec(1, count, subplot_spec=place, wspace=0.4)
    return [ax.figure.add_subplot(grid[0, i]) for i in range(count)]
