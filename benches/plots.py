"""Redraws the pictures of the docs from the records.

    python benches/plots.py        needs matplotlib

Reads the latest record of each script in benches/record/, writes docs/images/. Readable in black and white: every line has
its own marker and dashes; the colours are Okabe and Ito's, which the colour-blind can tell apart.
"""

from __future__ import annotations

import csv
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

ROOT = Path(__file__).parent
IMAGES = ROOT.parent / "docs" / "images"
STYLES = {
    "five passes": ("refit of merged vectors", "#0072B2", "o", "-"),
    "random": ("refit of random rows (Nystroem)", "#E69F00", "s", "--"),
    "five passes without refit": ("merging alone, averaged", "#009E73", "^", ":"),
    "SVC": ("SVC", "#000000", "*", ""),
}


def latest(name: str) -> list[list[str]]:
    """The rows of the last record of a script."""
    files = sorted((ROOT / "record").glob(f"*/{name}-*.csv"), key=lambda path: path.name)
    if not files:
        raise SystemExit(f"there is no record of {name}")
    with open(files[-1], newline="") as file:
        return [row for row in csv.reader(file) if row and not row[0].startswith("#")]


def refit() -> None:
    """Accuracy by the number of support vectors."""
    rows = [row for row in latest("refit") if row[0] == "size"]
    names = list(dict.fromkeys(row[1] for row in rows))
    figure, axes = plt.subplots(1, len(names), figsize=(4.5 * len(names), 3.6), layout="constrained")
    for axis, name in zip(axes, names, strict=True):
        for kind, (label, colour, marker, dashes) in STYLES.items():
            points = [(float(row[3]), float(row[4])) for row in rows if row[1:3] == [name, kind]]
            if points:
                axis.plot(*zip(*points, strict=True), color=colour, marker=marker, linestyle=dashes, label=label)
        axis.set_xscale("log")
        axis.set_title(name)
        axis.set_xlabel("support vectors")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("test accuracy, %")
    axes[0].legend(loc="lower right", fontsize=8)
    figure.savefig(IMAGES / "refit.svg", metadata={"Date": None})


def main() -> None:
    matplotlib.rcParams["svg.hashsalt"] = "pegasos"
    IMAGES.mkdir(exist_ok=True)
    refit()


if __name__ == "__main__":
    main()
