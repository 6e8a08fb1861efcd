"""Reads the records, makes the tables of docs/results.md, which stand there between comments that name them."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).parent
QUICK = ROOT / "record" / "quick"

Row = dict[str, str]


def record(name: str, quick: bool) -> list[Row]:
    """The rows of the last record of a program, or of its last quick run; none if there is none."""
    files = sorted((ROOT / "record").glob(f"*/{name}-20*.csv"), key=lambda path: path.name)
    if quick:
        if (path := QUICK / f"{name}.csv").exists():
            files.append(path)
        else:
            print(f"there is no quick run of {name}: its full record is shown")
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


#: Columns of Table 1 in its order, and the kind that is the paper's way of each.
COLUMNS = {
    "projectron": ("Projectron++", "threshold"),
    "random": ("random", "plain"),
    "remove": ("smallest", "plain"),
    "project": ("projection", "plain"),
    "merge": ("merging", "plain"),
}


def short(row: Row) -> bool:
    """Whether a cell of Table 1 is more than the paper's deviation below the paper, of the same problem."""
    if row["data"].startswith("covtype"):
        return False  # A fortieth of the paper's rows.
    # Of what is printed: a digit.
    return round(float(row["mean"]), 1) < round(float(row["paper"]) - float(row["paper deviation"]), 1)


def cells(rows: list[Row], chosen: str, orders: str = "") -> dict[tuple[str, str, str, str], Row]:
    """Rows by data, strategy, budget and kind; those of so many orders, or of as many as all have."""
    usual = orders or rows[0]["orders"]
    return {
        (row["data"], row["strategy"], row["B"], row["kind"]): row
        for row in rows
        if row["chosen"] == chosen and row["orders"] == usual
    }


def table1(rows: list[Row], chosen: str) -> list[Sequence[str]]:
    """Ours over the paper's; a mark where ours is more than the paper's deviation below."""
    found = cells(rows, chosen)

    def show(row: Row | None) -> str:
        if row is None:
            return ""
        ours = f"{float(row['mean']):.1f}±{float(row['deviation']):.1f}"
        return f"{ours} ({row['paper']}±{row['paper deviation']}){' ▼' if short(row) else ''}"

    lines: list[Sequence[str]] = [("data, rows", "no budget", "B", *(name for name, _ in COLUMNS.values()))]
    for data, own in groups(rows, "data").items():
        most = max(int(row["examples"]) for row in own)
        for budget in ("100", "500"):
            lines.append((
                f"{data}, {most:,}" if budget == "100" else "",
                show(found.get((data, "none", "", "plain"))) if budget == "100" else "",
                budget,
                *(show(found.get((data, key, budget, kind))) for key, (_, kind) in COLUMNS.items()),
            ))
    return lines


def more(rows: list[Row]) -> list[Sequence[str]]:
    """What is not in the paper's table, gamma chosen on validation data."""
    found = cells(rows, "validation")
    columns = {
        "merging": ("merge", "plain"),
        "with the ball": ("merge", "ball"),
        "averaged": ("merge", "average"),
        "refitted": ("merge", "refit"),
        "projection": ("project", "plain"),
        "averaged ": ("project", "average"),
        "Projectron++ by budget": ("projectron", "plain"),
        "no budget": ("none", "plain"),
        "averaged  ": ("none", "average"),
    }
    lines: list[Sequence[str]] = [("data", "B", *(name.strip() for name in columns))]
    for data in groups(rows, "data"):
        for budget in ("100", "500"):
            shown = [
                found.get((data, strategy, "" if strategy == "none" else budget, kind))
                for strategy, kind in columns.values()
            ]
            lines.append((
                data if budget == "100" else "", budget,
                *("" if row is None else f"{float(row['mean']):.1f}±{float(row['deviation']):.1f}" for row in shown),
            ))
    return lines


def many_orders(rows: list[Row]) -> list[Sequence[str]]:
    """The cells that have further orders, where five of them fall short of the paper."""
    if all(row["orders"] == rows[0]["orders"] for row in rows):
        return [("data", "B", "strategy", "paper"), ("(only of the full sizes)", "", "", "")]
    larger = max((row["orders"] for row in rows), key=int)
    five, all_of_them = cells(rows, "test"), cells(rows, "test", larger)
    lines: list[Sequence[str]] = [("data", "B", "strategy", "five orders", f"{larger} orders", "paper")]
    for key, row in all_of_them.items():
        if short(five[key]):
            lines.append((
                key[0], key[2] or "none", COLUMNS.get(key[1], ("no budget",))[0],
                *(
                    f"{float(r['mean']):.1f}±{float(r['deviation']):.1f}{' ▼' if short(r) else ''}"
                    for r in (five[key], row)
                ),
                f"{row['paper']}±{row['paper deviation']}",
            ))
    return lines


#: Ways of sampling, and what the pages call them.
ORDERS = {
    "replacement": "with replacement",
    "fixed": "one permutation",
    "shuffle": "fresh each epoch",
    "blocks": "fresh, blocks of 32 rows",
}


def orders(rows: list[Row]) -> list[Sequence[str]]:
    """Suboptimality after the last epoch."""
    last = max(rows, key=lambda row: int(row["epoch"]))["epoch"]
    lines: list[Sequence[str]] = [(f"after {last} epochs", *ORDERS.values())]
    for data, own in groups((row for row in rows if row["epoch"] == last), "data").items():
        found = {row["order"]: float(row["mean"]) for row in own}
        lines.append((data, *(f"{found[order]:.1e}" for order in ORDERS)))
    return lines


#: Methods of the ICML paper, and what the pages call them.
METHODS = {
    "unbudgeted": "no budget",
    "random": "random removal",
    "remove": "removal of the smallest",
    "project": "projection",
    "merge": "merging",
    "merge, averaged": "merging, averaged",
    "Projectron++": "Projectron++",
}


def by_budget(rows: list[Row], show: Callable[[list[Row]], str]) -> list[Sequence[str]]:
    """A line for each set and budget, a column for each method."""
    kinds = [kind for kind in METHODS if any(row["method"] == kind for row in rows)]
    lines: list[Sequence[str]] = [("data", "B", *(METHODS[kind] for kind in kinds))]
    for data, own in groups(rows, "data").items():
        for budget in sorted({row["budget"] for row in own} - {"0"}, key=int):
            methods = groups((row for row in own if row["budget"] in ("0", budget)), "method")
            lines.append((data, budget, *(show(methods[kind]) if kind in methods else "" for kind in kinds)))
    return lines


def evolution(rows: list[Row]) -> list[Sequence[str]]:
    """Accuracy at the end of each stream, and where that is."""

    def show(own: list[Row]) -> str:
        last = max(own, key=lambda row: int(row["n"]))
        return f"{float(last['accuracy']):.2f} at {int(last['n']):,}"

    return by_budget(rows, show)


def growth(rows: list[Row]) -> list[Sequence[str]]:
    """Seconds of each stream, and the slope over the last decade."""

    def show(own: list[Row]) -> str:
        parts = groups(own, "part")
        last = max(parts["time"], key=lambda row: int(row["n"]))
        slope = "".join(f"; {float(row['figure']):.2f}" for row in parts.get("slope", []))
        return f"{float(last['figure']):.2g}{slope}"

    return by_budget(rows, show)


#: Our families of machines, as the program of the fronts calls them.
OURS = (
    "PegasosClassifier",
    "on a budget",
    "on a budget, refitted",
    "KernelPegasosClassifier",
    "KernelPegasosClassifier, to a gap",
    "KernelPegasosClassifier, pairs to a gap",
    "KernelPegasosClassifier, learned metric",
)


def front(rows: list[Row], column: str) -> list[Row]:
    """The rows that no other one beats: none is as cheap and more accurate; from the cheapest on."""
    found: list[Row] = []
    for row in sorted(rows, key=lambda row: (float(row[column]), -float(row["accuracy"]))):
        if not found or float(row["accuracy"]) > float(found[-1]["accuracy"]):
            found.append(row)
    return found


def above(ours: list[Row], theirs: list[Row], column: str) -> tuple[float, Row | None]:
    """By how many points theirs lie above our front at most, and the row that does; 0 and none if none does.

    Rows cheaper than our cheapest are left out: there our front has not begun.
    """
    worst: tuple[float, Row | None] = (0.0, None)
    for row in front(theirs, column):
        as_cheap = [float(own["accuracy"]) for own in ours if float(own[column]) <= float(row[column])]
        if as_cheap and float(row["accuracy"]) - max(as_cheap) > worst[0]:
            worst = float(row["accuracy"]) - max(as_cheap), row
    return worst


def named(row: Row) -> str:
    return ", ".join(part for part in (row["family"], row["setting"]) if part)


def fronts(rows: list[Row]) -> list[Sequence[str]]:
    """Of every data set: the most accurate of each, and by how much a peer is above our front."""
    lines: list[Sequence[str]] = [(
        "data, rows", "our best", "s", "their best", "s", "above our front by time", "by size", "best SVC",
    )]
    for data, own in groups(rows, "data").items():
        ours = [row for row in own if row["family"] in OURS]
        theirs = [row for row in own if row["family"] not in OURS]
        shown = []
        for side in (ours, theirs):
            best = max(side, key=lambda row: (float(row["accuracy"]), -float(row["seconds"])))
            shown += [f"{float(best['accuracy']):.2f} {named(best)}", f"{float(best['seconds']):.3g}"]
        for column in ("seconds", "numbers"):
            points, row = above(ours, theirs, column)
            # In brackets what so many test rows leave uncertain.
            shown.append("none" if row is None else f"{points:.2f} (±{float(row['deviation']):.2f}) {named(row)}")
        svc = [float(row["accuracy"]) for row in theirs if row["family"] == "SVC"]
        lines.append((f"{data}, {int(own[0]['rows']):,}", *shown, f"{max(svc):.2f}" if svc else "not run"))
    return lines


#: Table: the record it is made of, and how its lines come about.
TABLES: dict[str, tuple[str, Callable[[list[Row]], list[Sequence[str]]]]] = {
    "table1": ("table1", lambda rows: table1(rows, "test")),
    "table1 validation": ("table1", lambda rows: table1(rows, "validation")),
    "table1 orders": ("table1", many_orders),
    "table1 more": ("table1", more),
    "evolution": ("evolution", evolution),
    "growth": ("growth", growth),
    "orders": ("orders", orders),
    "fronts": ("front", fronts),
}


def markdown(lines: list[Sequence[str]]) -> str:
    first, *rest = ("| " + " | ".join(cells) + " |" for cells in lines)
    return "\n".join([first, "|" + "---|" * len(lines[0]), *rest])


def filled(page: str, quick: bool) -> str:
    """A page with its tables made anew; a table without a record stays as it is."""
    for name, (source, lines) in TABLES.items():
        if rows := record(source, quick):
            made = markdown(lines(rows)).replace("\\", r"\\")
            pattern = rf"(<!-- table: {name} -->\n).*?(<!-- end -->)"
            page, found = re.subn(pattern, rf"\g<1>{made}\n\g<2>", page, flags=re.DOTALL)
            if found != 1:
                raise SystemExit(f"the page has {found} places for the table {name!r}, should have one")
    return page
