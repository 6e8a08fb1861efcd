"""What commands print of a model."""

from __future__ import annotations

import math
from typing import Any


def print_aligned(lines: dict[str, str]) -> None:
    width = max(map(len, lines))
    for name, value in lines.items():
        print(f"{name:<{width}}  {value}")


def classes_line(classes: Any, most: int = 20) -> str:
    names = [str(label) for label in classes[:most].tolist()]
    if len(classes) > most:
        names.append("...")
    return f"{len(classes):,}: {', '.join(names)}"


def budget_lines(mean_gradient_error: float | None) -> dict[str, str]:
    """What a budget has cost; None where there is none."""
    if mean_gradient_error is None:
        return {}
    return {"mean gradient error": f"{mean_gradient_error:.4g}, for the budget"}


def objective_lines(objective: float, dual: float, *, bounded: bool) -> dict[str, str]:
    if math.isnan(objective):
        # Without a refit none is evaluated on a budget, and none is what a stream minimises.
        return {} if bounded else {"objective": "not evaluated", "duality gap": "none certified"}
    gap = objective - dual
    part = 100.0 * gap / objective if objective else 0.0
    relative = f", {part:{'.2f' if part >= 0.01 else '.2g'}}% of the objective" if objective else ""
    certified = "none certified" if math.isnan(gap) else f"{gap:.3g}{relative}"
    return {"objective": f"{objective:.6g}", "duality gap": certified}
