"""Runs every program that reproduces a result, then redraws the tables and pictures.

    python benches/reproduce.py                   the quick form, into benches/record/quick/ (ten minutes on two cores)
    python benches/reproduce.py --full            the sizes of the record, into benches/record/<machine>/, docs/ (hours)
    python benches/reproduce.py table1 regret     only these

Real data are read from the folder named by PEGASOS_DATA (docs/results.md says how to get them); sets that are missing
are named at the end. Programs whose figures are times run alone, the others two at a time.
"""

from __future__ import annotations

import argparse
import datetime
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import draw
from harness import processor

ROOT = Path(__file__).parent

UNTIMED = ("table1", "evolution", "orders", "batches", "theory", "regret", "drift")
TIMED = ("growth", "front")


def run(name: str, size: str, folder: Path) -> list[str]:
    """Runs a program, keeps its record if it ends well; what it has to say of missing data."""
    suffix = f"-{datetime.date.today()}" if size == "--full" else ""
    path = folder / f"{name}{suffix}.csv"
    partial = path.with_suffix(".partial")
    command = [sys.executable, str(ROOT / f"{name}.py"), *([size] if size else [])]
    start = datetime.datetime.now()
    with open(partial, "w") as file:
        code = subprocess.run(command, stdout=file, cwd=ROOT.parent).returncode
    took = (datetime.datetime.now() - start).total_seconds()
    if code:
        raise SystemExit(f"{name} failed; what it wrote is in {partial}")
    partial.replace(path)
    print(f"{name}: {took:.0f} s, {path}", flush=True)
    return [line.strip() for line in path.read_text().splitlines() if line.startswith("# missing")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--full", dest="size", action="store_const", const="--full", default="",
                       help="the sizes of the record")
    sizes.add_argument("--tiny", dest="size", action="store_const", const="--tiny",
                       help="only to see that everything runs")
    parser.add_argument("only", nargs="*", metavar="PROGRAM",
                        help=f"of {', '.join(UNTIMED + TIMED)} (all)")
    options = parser.parse_args()
    if unknown := set(options.only) - {*UNTIMED, *TIMED}:
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    machine = re.sub(r"[^a-z0-9]+", "-", processor().lower()).strip("-")
    folder = ROOT / "record" / machine if options.size == "--full" else draw.QUICK
    folder.mkdir(parents=True, exist_ok=True)
    missing: list[str] = []
    for names, at_once in ((UNTIMED, 2), (TIMED, 1)):
        wanted = [name for name in names if not options.only or name in options.only]
        with ThreadPoolExecutor(at_once) as pool:
            for found in pool.map(lambda name: run(name, options.size, folder), wanted):
                missing += found
    draw.redraw(quick=options.size != "--full")
    for line in dict.fromkeys(missing):
        print(line)


if __name__ == "__main__":
    main()
