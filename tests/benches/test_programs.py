"""Every program that reproduces a result runs, and every picture can be drawn: ``make test-benches``, minutes."""

import csv
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benches"))
try:
    import draw
    import reproduce
    import tables
    import watching
finally:
    del sys.path[0]


@pytest.mark.parametrize("name", [*reproduce.UNTIMED, *reproduce.TIMED, "interrupt", "classes", "columns", "dask_scaling", "defaults", "devices", "explain", "exported", "intercept", "leak", "metric", "river_models", "rounds", "scaling", "stream", "svmlight", "tuning"])
def test_program_runs(name):
    command = [sys.executable, f"benches/{name}.py", "--tiny"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("# ") and f"python benches/{name}.py --tiny" in lines[2]
    columns, *rows = csv.reader(line for line in lines if not line.startswith("#"))
    assert rows
    # A part of a program may have no use for the last columns.
    assert all(0 < len(row) <= len(columns) for row in rows)


def test_pictures_can_be_drawn(tmp_path):
    with warnings.catch_warnings():
        # Of matplotlib's own dependencies.
        warnings.simplefilter("ignore", DeprecationWarning)
        import matplotlib

        matplotlib.use("svg")
        for name, (source, picture) in draw.PICTURES.items():
            picture(tables.record(source, quick=False)).savefig(tmp_path / f"{name}.svg")
            assert f"images/{name}.svg" in "".join(path.read_text() for path in (ROOT / "docs").glob("*.md"))


def test_pictures_of_watching_can_be_drawn():
    page = (ROOT / "docs" / "watching.md").read_text()
    for picture in (watching.training, watching.boundary):
        assert picture().axes and f"images/{picture.__name__}.svg" in page
        assert (ROOT / "docs" / "images" / f"{picture.__name__}.svg").exists()
