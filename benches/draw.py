"""Redraws the pictures and the tables of the docs from the records.

    python benches/draw.py             from the last full record of each program, into docs/
    python benches/draw.py --quick     from the last quick run, into benches/record/quick/

needs matplotlib. Pictures can be read in black and white: every line has its own marker and dashes; the colours are Okabe
and Ito's, which the colour-blind can tell apart. Tables stand in docs/results.md between comments that name them.
"""

from __future__ import annotations

import argparse
import csv
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent
DOCS = ROOT.parent / "docs"
QUICK = ROOT / "record" / "quick"

#: Colour, marker and dashes of the first line of a picture, the second, ...
LOOKS = (
    ("#0072B2", "o", "-"),
    ("#E69F00", "s", "--"),
    ("#009E73", "^", ":"),
    ("#CC79A7", "D", "-."),
    ("#D55E00", "v", (0, (5, 1, 1, 1, 1, 1))),
    ("#56B4E9", "P", (0, (1, 2))),
    ("#000000", "*", (0, (8, 2))),
    ("#999999", "X", (0, (3, 1))),
)

Row = dict[str, str]


def record(name: str, quick: bool) -> list[Row]:
    """The rows of the last record of a program; none if there is none."""
    if quick:
        files = [path for path in [QUICK / f"{name}.csv"] if path.exists()]
    else:
        pattern = f"{name}-20*.csv"
        files = sorted((ROOT / "record").glob(f"*/{pattern}"), key=lambda path: path.name)
    if not files:
        print(f"missing: there is no record of {name}")
        return []
    with open(files[-1], newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def groups(rows: Iterable[Row], column: str) -> dict[str, list[Row]]:
    """The rows of each value of a column, in the order of their first rows."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row[column], []).append(row)
    return found


def numbers(rows: Iterable[Row], column: str) -> list[float]:
    return [float(row[column]) for row in rows]


def panels(count: int, columns: int = 3, width: float = 4.5, height: float = 3.6) -> tuple[Any, list[Any]]:
    """A figure of so many panels, and they."""
    import matplotlib.pyplot as plt

    columns = min(columns, count)
    lines = -(-count // columns)
    figure, axes = plt.subplots(
        lines, columns, figsize=(width * columns, height * lines), layout="constrained", squeeze=False
    )
    for axis in axes.flat[count:]:
        axis.axis("off")
    for axis in axes.flat[:count]:
        axis.grid(alpha=0.3)
    return figure, list(axes.flat[:count])


def look(i: int, **more: Any) -> dict[str, Any]:
    """How the i-th line of a picture looks."""
    colour, marker, dashes = LOOKS[i]
    return dict(color=colour, marker=marker, linestyle=dashes, markersize=5, linewidth=1.4) | more


def refit(rows: list[Row]) -> Any:
    """Accuracy by the number of support vectors."""
    sizes = [row | {"accuracy": row[None][0]} for row in rows if row["part"] == "size"]  # type: ignore[index]
    labels = {
        "five passes": "refit of merged vectors",
        "random": "refit of random rows (Nystroem)",
        "five passes without refit": "merging alone, averaged",
        "SVC": "SVC",
    }
    sets = groups(sizes, "data")
    figure, axes = panels(len(sets))
    for axis, (name, own) in zip(axes, sets.items(), strict=True):
        kinds = groups(own, "setting")
        for i, (kind, label) in enumerate(labels.items()):
            points = kinds.get(kind, [])
            axis.plot(numbers(points, "figures"), numbers(points, "accuracy"), **look(i, label=label))
        axis.set(xscale="log", title=name, xlabel="support vectors")
    axes[0].set_ylabel("test accuracy, %")
    axes[0].legend(loc="lower right", fontsize=8)
    return figure


#: Picture: the record it is drawn from, and how.
PICTURES: dict[str, tuple[str, Callable[[list[Row]], Any]]] = {
    "refit": ("refit", refit),
}

#: Table: the record it is made of, and how its lines come about.
TABLES: dict[str, tuple[str, Callable[[list[Row]], list[Sequence[str]]]]] = {}


def markdown(lines: list[Sequence[str]]) -> str:
    first, *rest = ("| " + " | ".join(cells) + " |" for cells in lines)
    return "\n".join([first, "|" + "---|" * len(lines[0]), *rest])


def tables(text: str, quick: bool) -> str:
    """A page with its tables made anew; a table without a record stays as it is."""
    for name, (source, lines) in TABLES.items():
        if rows := record(source, quick):
            pattern = rf"(<!-- table {name} -->\n).*?(\n<!-- end -->)"
            made = markdown(lines(rows))
            text, found = re.subn(pattern, lambda m, made=made: m[1] + made + m[2], text, flags=re.DOTALL)
            if found != 1:
                raise SystemExit(f"the page has {found} places for the table {name}, should have one")
    return text


def redraw(quick: bool) -> None:
    """Makes every picture and table anew."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "pegasos"
    images = (QUICK if quick else DOCS) / "images"
    images.mkdir(parents=True, exist_ok=True)
    for name, (source, draw) in PICTURES.items():
        if rows := record(source, quick):
            draw(rows).savefig(images / f"{name}.svg", metadata={"Date": None})
    page = (DOCS / "results.md").read_text()
    ((QUICK if quick else DOCS) / "results.md").write_text(tables(page, quick))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the last quick run")
    redraw(parser.parse_args().quick)


if __name__ == "__main__":
    main()
