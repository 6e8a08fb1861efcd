"""Redraws the pictures and the tables of the docs from the records.

    python benches/draw.py             from the last full record of each program, into docs/
    python benches/draw.py --quick     from the last quick run, into benches/record/quick/

needs matplotlib. Pictures can be read in black and white: every line has its own marker and dashes; most colours are Okabe
and Ito's, which the colour-blind can tell apart.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tables import COLUMNS, METHODS, ORDERS, OURS, QUICK, ROOT, Row, cells, filled, front, groups, numbers, record

DOCS = ROOT.parent / "docs"

#: Colour, marker and dashes of the first line of a picture, the second, ...
LOOKS = (
    ("#0072B2", "o", "-"),
    ("#E69F00", "s", "--"),
    ("#009E73", "^", ":"),
    ("#CC79A7", "D", "-."),
    ("#D55E00", "v", (0, (5, 1, 1, 1, 1, 1))),
    ("#56B4E9", "P", (0, (1, 2))),
    ("#000000", "*", (0, (8, 2))),
    ("#777777", "X", (0, (3, 1))),
    ("#882255", "<", (0, (6, 2, 2, 2))),
    ("#117733", "h", (0, (2, 2))),
    ("#332288", ">", (0, (5, 2))),
    ("#AA4499", "p", (0, (1, 1))),
)


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


def errors(axis: Any, accuracies: Iterable[float]) -> None:
    """A scale of accuracies, in %, on which equal ratios of errors are equally far apart."""

    def height(accuracy: Any) -> Any:
        return -np.log10(100.001 - accuracy)

    axis.set_yscale("function", functions=(height, lambda y: 100.001 - 10.0**-y))
    low, high = (float(height(end)) for end in (min(accuracies), max(accuracies)))
    low, high = low - 0.05 * (high - low) - 0.005, high + 0.05 * (high - low) + 0.005
    axis.set_ylim(100.001 - 10.0**-low, 100.001 - 10.0**-high)
    ticks = [99.95]
    for tick in (99.9, 99.8, 99.5, 99, 98.5, 98, 97, 96, 95, 94, 92, 90, 88, 85, 80, 75, 70, 60, 50, 40, 20, 0):
        if height(ticks[-1]) - height(tick) > 0.07 * (high - low):
            ticks.append(tick)
    inside = [tick for tick in ticks if low <= height(tick) <= high]
    axis.set_yticks(inside, [f"{tick:g}" for tick in inside])
    axis.set_yticks([], minor=True)


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


def by_budget(rows: list[Row], label: str, **size: float) -> tuple[Any, list[tuple[Any, dict[str, list[Row]]]]]:
    """A figure with a panel for each set and budget; the panels, and the rows of each method in them."""
    sets = groups(rows, "data")
    budgets = sorted(set(groups(rows, "budget")) - {"0"}, key=int)
    cells = [(name, budget) for budget in budgets for name in sets]
    figure, axes = panels(len(cells), len(sets), **size)
    found = []
    for axis, (name, budget) in zip(axes, cells, strict=True):
        axis.set(xscale="log", title=f"{name}, B = {budget}", xlabel="examples")
        kinds = groups((row for row in sets[name] if row["budget"] in ("0", budget)), "method")
        found.append((axis, {kind: kinds[kind] for kind in METHODS if kind in kinds}))
    for axis in axes[:: len(sets)]:
        axis.set_ylabel(label)
    return figure, found


def common_legend(figure: Any, axis: Any) -> None:
    """One legend for all panels, below them."""
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8, handlelength=3.5)


def evolution(rows: list[Row]) -> Any:
    """Accuracy by the number of examples."""
    figure, found = by_budget(rows, "test accuracy, %", height=3.4)
    for axis, kinds in found:
        for i, (kind, label) in enumerate(METHODS.items()):
            points = kinds.get(kind, [])
            which = dict(markevery=(i % 4, 4))
            axis.plot(numbers(points, "n"), numbers(points, "accuracy"), **look(i, label=label, **which))
        errors(axis, [a for points in kinds.values() for a in numbers(points, "accuracy")])
    common_legend(figure, found[0][0])
    return figure


def growth(rows: list[Row]) -> Any:
    """Seconds by the number of examples, and what lines of slope 1 and 2 look like."""
    rows = [row for row in rows if row["part"] == "time"]
    figure, found = by_budget(rows, "seconds")
    n, seconds = min(numbers(rows, "n")), max(numbers(rows, "figure"))
    for axis, kinds in found:
        for i, (kind, label) in enumerate(METHODS.items()):
            if points := kinds.get(kind):
                axis.plot(numbers(points, "n"), numbers(points, "figure"), **look(i, label=label))
        for slope in (1, 2):
            ends = [5.0**-2 * seconds, 5.0 ** (slope - 2) * seconds]
            axis.plot([n, 5.0 * n], ends, color="black", linewidth=0.8)
            axis.annotate(f" slope {slope}", (5.0 * n, ends[1]), fontsize=8, va="center")
        axis.set(yscale="log", ylim=(min(numbers(rows, "figure")) / 1.5, 1.5 * seconds))
    common_legend(figure, found[0][0])
    return figure


def plain(axis: Any) -> None:
    """Ticks at 1, 2, 5, 10, ..., written so, of a logarithmic axis."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


def orders(rows: list[Row]) -> Any:
    """Suboptimality by epochs, for each way of sampling; the range of the seeds behind the mean."""
    sets = groups(rows, "data")
    figure, axes = panels(len(sets))
    for axis, (name, own) in zip(axes, sets.items(), strict=True):
        kinds = groups(own, "order")
        for i, (kind, label) in enumerate(ORDERS.items()):
            points = kinds.get(kind, [])
            epochs = numbers(points, "epoch")
            axis.plot(epochs, numbers(points, "mean"), **look(i, label=label))
            axis.fill_between(
                epochs, numbers(points, "least"), numbers(points, "most"), color=LOOKS[i][0], alpha=0.15, linewidth=0
            )
        axis.set(xscale="log", yscale="log", title=f"{name}, alpha = {own[0]['alpha']}", xlabel="epochs")
        plain(axis.xaxis)
    for axis in axes[::3]:
        axis.set_ylabel("(P(w) - P*) / P*")
    common_legend(figure, axes[0])
    return figure


def batches(rows: list[Row]) -> Any:
    """Steps and examples to a given suboptimality, and the suboptimality after some epochs, by the size of a batch."""
    sets = groups(rows, "data")
    figure, axes = panels(3)
    for i, (name, own) in enumerate(sets.items()):
        parts = groups(own, "part")
        needed = parts.get("steps", [])
        sizes, examples = numbers(needed, "batch"), numbers(needed, "examples")
        axes[0].plot(sizes, numbers(needed, "steps"), **look(i, label=name))
        axes[1].plot(sizes, [count / examples[0] for count in examples], **look(i))
        epochs = max(numbers(parts["after"], "target"))
        after = [row for row in parts["after"] if float(row["target"]) == epochs]
        axes[2].plot(numbers(after, "batch"), numbers(after, "suboptimality"), **look(i))
    ends = [1.0, 1024.0]
    axes[0].plot(ends, [5e5, 5e5 / 1024], color="black", linewidth=0.8)
    axes[0].annotate("1/k", (16, 5e5 / 16), fontsize=8, xytext=(4, 4), textcoords="offset points")
    axes[0].set(title="steps to within 10% of the optimum", ylabel="steps")
    axes[1].set(title="the same in examples, over those of k = 1", ylabel="ratio")
    axes[2].set(title=f"after {epochs:g} epochs", ylabel="(P(w) - P*) / P*")
    for axis in axes:
        axis.set(xscale="log", yscale="log", xlabel="batch size k", xticks=[1, 4, 16, 64, 256, 1024])
        axis.set_xticklabels(["1", "4", "16", "64", "256", "1024"])
        axis.minorticks_off()
    plain(axes[1].yaxis)
    common_legend(figure, axes[0])
    return figure


def theory(rows: list[Row]) -> Any:
    """Averaged losses beside the bounds on them: a column for each of three sets, a line for each size of batch."""
    labels = {
        "bound": "equation 6: at most this",
        "lemma": "Lemma 2.1: at most this",
        "value": "mean of $J_t(w_t) - J_t(w^*)$",
        "average": "$P - P^*$ of the mean of the iterates",
        "last": "$P - P^*$ of the last iterate",
    }
    sets = list(groups((row for row in rows if row["part"] == "bound"), "data").items())[:3]
    cells = [(name, own, setting) for setting in ("1", "all") for name, own in sets]
    figure, axes = panels(len(cells), len(sets))
    for axis, (name, own, setting) in zip(axes, cells, strict=True):
        points = groups(own, "setting")[setting]
        for i, (column, label) in enumerate(labels.items()):
            axis.plot(numbers(points, "count"), numbers(points, column), **look(i, label=label))
        size = "one example a step" if setting == "1" else "all examples in every step"
        axis.set(xscale="log", title=f"{name}, {size}", xlabel="steps T")
        axis.set_yscale("log", nonpositive="mask")
    for axis in axes[:: len(sets)]:
        axis.set_ylabel("above the optimum")
    common_legend(figure, axes[0])
    return figure


def certificate(rows: list[Row]) -> Any:
    """What a fit knows of its error, and its error, by epochs."""
    labels = {"pegasos": "Pegasos", "auto": "dual ascent after one epoch of it"}
    sets = groups((row for row in rows if row["part"] == "certificate"), "data")
    figure, axes = panels(len(sets))
    for axis, (name, own) in zip(axes, sets.items(), strict=True):
        solvers = groups(own, "setting")
        for i, (solver, label) in enumerate(labels.items()):
            points = solvers.get(solver, [])
            epochs = numbers(points, "count")
            axis.plot(epochs, numbers(points, "bound"), **look(2 * i, label=f"{label}: certified"))
            axis.plot(epochs, numbers(points, "value"), **look(2 * i + 1, label=f"{label}: true"))
        axis.set(xscale="log", yscale="log", title=f"{name}, alpha = {own[0]['alpha']}", xlabel="epochs")
        plain(axis.xaxis)
    for axis in axes[::3]:
        axis.set_ylabel("distance to the optimum, over P*")
    common_legend(figure, axes[0])
    return figure


def regret(rows: list[Row]) -> Any:
    """Regret as rounds go on, in units in which the theory's rate is a level line."""
    rates = {
        "sqrt": (r"$1/\sqrt{t}$", r"total / $\sqrt{T}$", lambda T: T / np.sqrt(T)),
        "log": (r"$1/(\alpha t)$", r"total / $(1 + \ln T)$", lambda T: T / (1.0 + np.log(T))),
    }
    labels = {"worst": "the theorem's worst case", "bound": "regret_bound_", "regret": "regret"}
    cells = groups((row for row in rows if row["part"] == "bound"), "steps")
    streams = len(groups(next(iter(cells.values())), "stream"))
    figure, axes = panels(sum(len(groups(own, "stream")) for own in cells.values()), streams)
    each = iter(axes)
    for steps, own in cells.items():
        kind, unit, scale = rates[steps]
        for stream, points in groups(own, "stream").items():
            axis = next(each)
            rounds = np.array(numbers(points, "rounds"))
            for i, (column, label) in enumerate(labels.items()):
                axis.plot(rounds, scale(rounds) * numbers(points, column), **look(i, label=label))
            axis.axhline(0.0, color="black", linewidth=0.8)
            axis.set(xscale="log", title=f"{stream}, steps {kind}", xlabel="rounds T", ylabel=unit)
    common_legend(figure, axes[0])
    return figure


def delay(rows: list[Row]) -> Any:
    """Regret by the delay of gradients, and what the bound allows."""
    streams = groups((row for row in rows if row["part"] == "delay"), "stream")
    figure, axes = panels(2)
    for i, (stream, points) in enumerate(streams.items()):
        names = [f"{int(row['delay']):,}" for row in points]
        axes[0].plot(names, numbers(points, "regret"), **look(i, label=stream))
        axes[1].plot(names, numbers(points, "bound"), **look(i))
    axes[0].axhline(0.0, color="black", linewidth=0.8)
    axes[0].set(title="regret", ylabel="per round")
    axes[0].legend(fontsize=8, handlelength=3.5)
    axes[1].set(title="regret_bound_", yscale="log")
    for axis in axes:
        axis.set_xlabel("delay in rounds")
    return figure


#: Families of machines in the pictures of fronts; the i-th has the i-th look.
FAMILIES = {
    "PegasosClassifier": "PegasosClassifier",
    "on a budget": "KernelPegasosClassifier(budget=B, refine=False)",
    "on a budget, refitted": "KernelPegasosClassifier(budget=B)",
    "KernelPegasosClassifier": "KernelPegasosClassifier(max_iter=k)",
    "KernelPegasosClassifier, to a gap": "KernelPegasosClassifier(solver=\"auto\")",
    "SGDClassifier": "SGDClassifier",
    "LinearSVC": "LinearSVC",
    "Nystroem + SGDClassifier": "Nystroem + SGDClassifier",
    "Nystroem + LinearSVC": "Nystroem + LinearSVC",
    "SVC": "SVC",
    "KernelPegasosClassifier, pairs to a gap": "KernelPegasosClassifier(), pairs",
    "KernelPegasosClassifier, learned metric": "KernelPegasosClassifier(metric=\"auto\")",
}


def fronts(rows: list[Row], column: str, label: str) -> Any:
    """Accuracy by what it costs: every machine that was tried, and the two fronts. Ours are filled."""
    sets = groups(rows, "data")
    figure, axes = panels(len(sets), height=3.8)
    known = groups(rows, "family")
    # What an older record does not have needs no place in the legend.
    shown = [(i, family, title) for i, (family, title) in enumerate(FAMILIES.items()) if family in known]
    for axis, (name, own) in zip(axes, sets.items(), strict=True):
        families = groups(own, "family")
        for i, family, title in shown:
            points = families.get(family, [])
            fill = {} if family in OURS else dict(markerfacecolor="none")
            axis.plot(
                numbers(points, column), numbers(points, "accuracy"), **look(i, label=title, linestyle="", **fill)
            )
        most = max(numbers(own, column))
        for ours, dashes, colour in ((True, "-", "#0072B2"), (False, "--", "black")):
            unbeaten = front([row for row in own if (row["family"] in OURS) == ours], column)
            x, y = numbers(unbeaten, column), numbers(unbeaten, "accuracy")
            title = "our front" if ours else "the peers' front"
            axis.step([*x, most], [*y, y[-1]], where="post", color=colour, linestyle=dashes, linewidth=1, label=title)
        axis.set(xscale="log", title=f"{name}, {int(own[0]['rows']):,} rows", xlabel=label)
        best = max(numbers(own, "accuracy"))
        near = [a for a in numbers(own, "accuracy") if 100.001 - a < 12 * (100.001 - best)]
        errors(axis, near)
    for axis in axes[::3]:
        axis.set_ylabel("test accuracy, %")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=9)
    return figure


def table1(rows: list[Row]) -> Any:
    """Accuracies of Table 1: the paper's with their deviations, ours, and what average and refit add."""
    kinds = {"plain": "the paper's algorithm, ours", "average": "with the carried average", "refit": "refitted"}
    names = {key: name for key, (name, _) in COLUMNS.items()}
    found = cells(rows, "test")
    sets = groups(rows, "data")
    figure, axes = panels(len(sets), height=4.4)
    for axis, name in zip(axes, sets, strict=True):
        places = [(key, budget) for key in names for budget in ("100", "500")]
        given = [found[name, key, budget, "plain"] for key, budget in places if (name, key, budget, "plain") in found]
        heights = [places.index((row["strategy"], row["B"])) for row in given]
        axis.errorbar(
            numbers(given, "paper"), heights, xerr=numbers(given, "paper deviation"), color="black", fmt="|",
            markersize=9, capsize=3, linewidth=1, label="the paper, and its deviation",
        )
        for i, (kind, label) in enumerate(kinds.items()):
            own = [
                found[name, key, budget, "threshold" if (key, kind) == ("projectron", "plain") else kind]
                for key, budget in places
                if (name, key, budget, kind) in found
            ]
            spots = [places.index((row["strategy"], row["B"])) for row in own]
            axis.plot(numbers(own, "mean"), spots, **look(i, label=label, linestyle=""))
        axis.set_yticks(range(len(places)), [f"{names[key]}, {budget}" for key, budget in places])
        axis.invert_yaxis()
        most = max(int(row["examples"]) for row in sets[name])
        axis.set(title=f"{name}, {most:,} rows", xlabel="test accuracy, %")
    common_legend(figure, axes[0])
    return figure


def drift(rows: list[Row]) -> Any:
    """Accuracy as a stream goes on, by half-life: a panel for each board and budget."""
    cells = [(board, budget, own) for board, part in groups(rows, "board").items() for budget, own in groups(part, "budget").items()]
    figure, axes = panels(len(cells), 2, width=5.2, height=3.2)
    for axis, (board, budget, own) in zip(axes, cells, strict=True):
        for i, (half_life, points) in enumerate(groups(own, "half_life").items()):
            label = "no forgetting" if half_life == "0" else f"half_life={int(half_life):,}"
            axis.plot(numbers(points, "n"), numbers(points, "accuracy"), **look(i, label=label))
        axis.set(title=f"a {board} board, B = {budget}", xlabel="examples", ylim=(35, 100))
    for axis in axes[::2]:
        axis.set_ylabel("right before learned, %")
    common_legend(figure, axes[0])
    return figure


def scaling(rows: list[Row]) -> Any:
    """Distance to the optimum by rounds of averaging, for so many workers: of passes, and within one pass."""
    kinds = {"passes": "rounds, each a pass over all rows", "stream": "rounds of one pass in all"}
    sets = groups((row for row in rows if row["part"] in kinds), "data")
    figure, axes = panels(len(kinds) * len(sets), len(sets), width=3.8, height=3.2)
    each = iter(axes)
    for kind, label in kinds.items():
        for data, own in sets.items():
            axis = next(each)
            workers = groups((row for row in own if row["part"] == kind), "workers")
            for i, (count, points) in enumerate(workers.items()):
                name = "1 worker" if count == "1" else f"{count} workers"
                axis.plot(numbers(points, "rounds"), numbers(points, "value"), **look(i, label=name))
            axis.set(xscale="log", yscale="log", title=data, xlabel=label)
            plain(axis.xaxis)
    for axis in axes[:: len(sets)]:
        axis.set_ylabel("(P(w) - P*) / P*")
    common_legend(figure, axes[0])
    return figure


def reliability(rows: list[Row]) -> Any:
    """How often classes of a probability were the right ones."""
    sets = groups((row for row in rows if row["part"] == "reliability"), "data")
    figure, (axis,) = panels(1, width=5.0, height=4.6)
    axis.plot([0, 1], [0, 1], color="black", linewidth=0.8)
    for i, (name, own) in enumerate(sets.items()):
        # The columns of accuracy and of what comes after it.
        axis.plot(numbers(own, "accuracy"), numbers(own, "log loss"), **look(i, label=name))
    axis.set(xlabel="probability of a class, mean of a bin", ylabel="how often it was the class")
    axis.legend(loc="upper left", fontsize=8)
    return figure


def scores(rows: list[Row]) -> Any:
    """The mean score of the folds over gamma and alpha."""
    sets = groups((row for row in rows if row["part"] == "score"), "data")
    figure, axes = panels(len(sets))
    for axis, (name, own) in zip(axes, sets.items(), strict=True):
        places = [tuple(map(float, row["setting"].split())) for row in own]
        gammas, alphas = (sorted({place[i] for place in places}) for i in (0, 1))
        values = dict(zip(places, numbers(own, "accuracy"), strict=True))
        table = np.array([[values[gamma, alpha] for gamma in gammas] for alpha in alphas])
        # The last points below the best are what there is to see.
        mesh = axis.pcolormesh(gammas, alphas, table, vmin=table.max() - 10.0, shading="nearest", cmap="viridis")
        row, column = np.unravel_index(table.argmax(), table.shape)
        axis.plot(gammas[column], alphas[row], "k+", markersize=10)
        axis.set(xscale="log", yscale="log", title=name, xlabel="gamma")
        axis.grid(False)
        figure.colorbar(mesh, ax=axis, label="% of rows held out")
    axes[0].set_ylabel("alpha")
    return figure


def importances(rows: list[Row]) -> Any:
    """What a learned metric looks at: of pictures as a picture, of tables as bars."""
    sets = groups((row for row in rows if row["part"] == "importance"), "data")
    # Others have kept the plain metric.
    sets = {name: own for name, own in sets.items() if len(set(numbers(own, "accuracy"))) > 1}
    figure, axes = panels(len(sets), 3, width=4.2, height=3.4)
    for axis, (name, own) in zip(axes, sets.items(), strict=True):
        values = np.array(numbers(own, "accuracy"))
        values = values / values.sum()
        side = int(np.sqrt(len(values)))
        axis.set_title(name)
        if side * side == len(values) and side > 10:
            figure.colorbar(axis.imshow(values.reshape(side, side), cmap="viridis"), ax=axis)
            axis.grid(False)
            axis.set(xticks=[], yticks=[])
        else:
            axis.bar(np.arange(len(values)), values, color=LOOKS[0][0])
            axis.set(xlabel="feature", ylabel="share of the diagonal of M")
    return figure


#: Picture: the record it is drawn from, and how.
PICTURES: dict[str, tuple[str, Callable[[list[Row]], Any]]] = {
    "refit": ("refit", refit),
    "table1": ("table1", table1),
    "evolution": ("evolution", evolution),
    "growth": ("growth", growth),
    "orders": ("orders", orders),
    "batches": ("batches", batches),
    "theory": ("theory", theory),
    "certificate": ("theory", certificate),
    "regret": ("regret", regret),
    "delay": ("regret", delay),
    "drift": ("drift", drift),
    "scaling": ("scaling", scaling),
    "reliability": ("tuning", reliability),
    "scores": ("tuning", scores),
    "importances": ("metric", importances),
    "front-time": ("front", lambda rows: fronts(rows, "seconds", "seconds to fit")),
    "front-size": ("front", lambda rows: fronts(rows, "numbers", "numbers in the model")),
}


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
    ((QUICK if quick else DOCS) / "results.md").write_text(filled(page, quick))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the last quick run")
    redraw(parser.parse_args().quick)


if __name__ == "__main__":
    main()
