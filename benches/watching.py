"""Draws the pictures of docs/watching.md: curves of training, and the boundary of a kernel machine with its support vectors.

    python benches/watching.py             into docs/images/
    python benches/watching.py FOLDER

needs matplotlib. One thread; the seeds are fixed.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import one_thread  # noqa: F401 - before NumPy
import numpy as np
from draw import DOCS, LOOKS
from sklearn.exceptions import ConvergenceWarning
from sklearn.inspection import DecisionBoundaryDisplay

from pegasos import KernelPegasosClassifier
from pegasos import TrainingCurveDisplay
from pegasos.datasets import make_checkerboard, make_waveform


def training() -> Any:
    """Pegasos alone, and with dual ascent after it; then accuracy and error of a budget."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 4, figsize=(16.0, 3.6), layout="constrained")
    X, y = make_waveform(2000, 0)
    ways: dict[str, dict[str, Any]] = {
        "Pegasos": {"solver": "pegasos", "max_iter": 30},
        "and dual ascent": {"solver": "auto", "tol": 1e-6},
    }
    for name, params in ways.items():
        model = KernelPegasosClassifier(alpha=1e-5, multi_class="crammer_singer", random_state=0, **params)
        with warnings.catch_warnings():
            # That Pegasos alone does not get there is what the picture shows.
            warnings.simplefilter("ignore", ConvergenceWarning)
            TrainingCurveDisplay.from_estimator(model, X, y, panels=["objective", "gap"], ax=axes[:2], name=name)
    X, y = make_checkerboard(20_000, 0)
    for budget in (50, 200):
        machine = KernelPegasosClassifier(gamma=8.0, budget=budget, refine=False, random_state=0)
        panels = ["accuracy", "budget_error"]
        TrainingCurveDisplay.from_estimator(machine, X, y, panels=panels, ax=axes[2:], name=f"budget={budget}")
    axes[0].set_yscale("log")
    for axis in axes:
        axis.grid(alpha=0.3)
    return figure


def boundary() -> Any:
    """What a kernel machine on a budget has learned of a checkerboard, and the support vectors that it knows it by."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10.0, 4.6), layout="constrained")
    X, y = make_checkerboard(5000, 0)
    for axis, budget in zip(axes, (30, 100), strict=True):
        model = KernelPegasosClassifier(gamma=8.0, budget=budget, random_state=0).fit(X, y)
        DecisionBoundaryDisplay.from_estimator(
            model,
            X,
            response_method="decision_function",
            grid_resolution=60,
            levels=np.arange(-3.0, 4.0),
            cmap="PuOr",
            extend="both",
            ax=axis,
        )
        vectors, codes = model.support_vectors_, (model.dual_coef_[0] > 0.0).astype(int)
        for code, marker in enumerate("os"):
            own = vectors[codes == code]
            axis.scatter(*own.T, marker=marker, s=28, color=LOOKS[code][0], edgecolor="black", label=f"for class {code}")
        axis.set(title=f"{len(vectors)} support vectors, accuracy {model.score(X, y):.3f}")
    axes[0].legend(loc="upper right", fontsize=8)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=DOCS / "images", help="where to (docs/images)")
    folder = parser.parse_args().folder
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "pegasos"
    folder.mkdir(parents=True, exist_ok=True)
    for picture in (training, boundary):
        picture().savefig(folder / f"{picture.__name__}.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
