"""The pages show what the records say. That every program runs is for ``tests/benches``, as it takes minutes."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benches"))
try:
    import tables
finally:
    del sys.path[0]


def test_missing_data_are_reported():
    command = [sys.executable, "benches/table1.py", "--tiny", "letter"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env=os.environ | {"PEGASOS_DATA": "/nowhere"}
    )
    assert done.returncode == 0, done.stderr
    assert "# missing: letter: no letter.npz" in done.stdout


def test_page_shows_the_records():
    page = (ROOT / "docs" / "results.md").read_text()
    assert tables.filled(page, quick=False) == page


def test_machines_of_the_fronts_are_what_they_are_called():
    # In a process of its own, as one_thread sets variables for good.
    code = """
from types import SimpleNamespace
import front
run = SimpleNamespace(pick=lambda **sizes: sizes["tiny"])
for family in front.linear_families(3, False)[:4]:
    print(next(iter(family.settings)).split(",")[0], family.make().multi_class)
for family in front.kernel_families(run, 1000, 3, 1.0, False):
    if family.name == "on a budget":
        print(family.name, family.make(budget=20).multi_class)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT / "benches", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "hinge ovr", "squared_hinge ovr", "log_loss ovr", "Crammer-Singer crammer_singer", "on a budget crammer_singer"
    ]


def point(family, seconds, accuracy):
    return {"family": family, "setting": "", "seconds": str(seconds), "accuracy": str(accuracy)}


def test_front_leaves_out_what_is_beaten():
    rows = [point("SVC", *pair) for pair in [(3, 90), (1, 80), (2, 80), (2, 85), (4, 90), (5, 95)]]
    found = [(row["seconds"], row["accuracy"]) for row in tables.front(rows, "seconds")]
    assert found == [("1", "80"), ("2", "85"), ("3", "90"), ("5", "95")]


def test_above_compares_at_the_same_cost():
    ours = [point("PegasosClassifier", *pair) for pair in [(2, 80), (5, 90), (50, 99)]]
    # Cheaper than any of ours; below; above by one; as accurate as the last, but cheaper.
    theirs = [point("SVC", *pair) for pair in [(1, 70), (3, 79), (6, 91), (40, 99)]]
    points, row = tables.above(ours, theirs, "seconds")
    assert (points, row["seconds"]) == (9.0, "40")
    assert tables.above(ours, theirs[:2], "seconds") == (0.0, None)
    # Later ones of ours do not count before their time.
    assert tables.above(ours, [point("SVC", 5, 90)], "seconds") == (0.0, None)
