"""What the programs in this folder share: sizes, the head of a record, its rows, sets that are missing.

A program of `reproduce.py` begins with

    run = harness.begin(__doc__, "data,setting,accuracy")

which reads its command line (`--full` for the sizes of the record, none for the quick form, `--tiny` for a
minute's check that it still runs) and prints the head; then it prints a row for every figure.
"""

from __future__ import annotations

import argparse
import csv
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import sklearn

import pegasos
from pegasos import KernelPegasosClassifier, PegasosClassifier

T = TypeVar("T")


def papers_linear(loss: Literal["hinge", "squared_hinge", "log_loss"] = "hinge", **params: Any) -> PegasosClassifier:
    """The papers' linear machine, whatever the defaults are."""
    papers: dict[str, Any] = {"alpha": 1e-4, "multi_class": "crammer_singer"}
    return PegasosClassifier(loss, **papers | params)


def papers_kernel(kernel: Any = "rbf", **params: Any) -> KernelPegasosClassifier:
    """The papers' kernel machine, whatever the defaults are."""
    papers: dict[str, Any] = {
        "alpha": 1e-4,
        "budget": None,
        "fit_intercept": False,
        "multi_class": "crammer_singer",
        "solver": "pegasos",
    }
    return KernelPegasosClassifier(kernel, **papers | params)


def processor() -> str:
    """The processor's name, and what tells makes of one name apart."""
    lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
    told = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if "cpu family" not in told:
        return told.get("model name") or platform.processor()
    widest = next((name for name in ("avx512f", "avx2") if name in told["flags"].split()), "no AVX2")
    return f"{told['model name']} (family {told['cpu family']}, model {told['model']}, {widest})"


def head(command: str, columns: str, threads: str = "one thread") -> None:
    """What stands above the rows: the machine, the versions, the command."""
    try:
        command_line = ["git", "describe", "--always", "--dirty"]
        commit = subprocess.run(command_line, capture_output=True, text=True).stdout.strip()
    except FileNotFoundError:
        commit = "of an unknown commit"
    print(f"# {processor()}, {os.cpu_count()} cores, {threads} used")
    print(f"# pegasos {pegasos.__version__} ({commit}), scikit-learn {sklearn.__version__}, "
          f"numpy {np.__version__}, Python {platform.python_version()}")
    print(f"# python {command}")
    print(columns, flush=True)


class Run:
    """A run of one program: how large, and where its rows go."""

    def __init__(self, size: str, only: Sequence[str] = ()) -> None:
        self.size, self.only = size, only
        self._rows = csv.writer(sys.stdout, lineterminator="\n")

    def pick(self, *, quick: T, full: T, tiny: T) -> T:
        """The value that belongs to the size of this run."""
        return {"quick": quick, "full": full, "tiny": tiny}[self.size]

    def wanted(self, names: Iterable[str]) -> list[str]:
        """Those of the data sets that the command line names, or all."""
        return [name for name in names if not self.only or name in self.only]

    def row(self, *cells: Any) -> None:
        """A row; numbers with six digits."""
        self._rows.writerow(f"{cell:.6g}" if isinstance(cell, float) else cell for cell in cells)
        sys.stdout.flush()


def load(sets: Mapping[str, Callable[[], T]], name: str) -> T | None:
    """A data set, or None after saying that it is missing."""
    try:
        return sets[name]()
    except FileNotFoundError as error:
        print(f"# missing: {error}", flush=True)
        return None


def begin(doc: str, columns: str, threads: str = "one thread") -> Run:
    """Reads the command line of a program, prints the head of its record."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--full", dest="size", action="store_const", const="full", default="quick",
                       help="the sizes of the record")
    sizes.add_argument("--tiny", dest="size", action="store_const", const="tiny",
                       help="only to see that it runs")
    parser.add_argument("only", nargs="*", metavar="DATA", help="only these data sets (all)")
    options = parser.parse_args()
    run = Run(options.size, options.only)
    program = f"benches/{Path(sys.argv[0]).name}"
    head(" ".join([program, *sys.argv[1:]]), columns, threads)
    return run
