"""The picture of the source in src/lib.rs and the table in CONTRIBUTING.md are true of the source."""

import re
from itertools import combinations
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"
LIB = (SRC / "lib.rs").read_text()


def floors():
    """The floor of each module, counted from below, and the pairs `a > b` of one floor, where a may use b but b not a."""
    picture = re.search(r"^//! # Floors\n.*?^//! ```text\n(.*?)^//! ```", LIB, re.DOTALL | re.MULTILINE)
    assert picture, "src/lib.rs has no ```text block under '# Floors'"
    floor_of, above = {}, set()
    for floor, line in enumerate(reversed(picture[1].replace("//! ", "").splitlines())):
        # Two spaces between modules, three or more before what the floor is for.
        for group in re.split(r" {3,}", line)[0].split("  "):
            names = group.split(" > ")
            for name in names:
                assert re.fullmatch("[a-z_]+", name), f"src/lib.rs, '# Floors': {name!r} is no module's name"
                assert name not in floor_of, f"src/lib.rs, '# Floors': {name} is there twice"
                floor_of[name] = floor
            above |= set(combinations(names, 2))
    return floor_of, above


FLOOR, ABOVE = floors()
#: What lib.rs hands on, by the module that it comes from.
EXPORTED = {
    name: module
    for module, names in re.findall(r"^pub(?:\(crate\))? use (\w+)::\{?([^;}]*)\}?;", LIB, re.MULTILINE)
    for name in re.findall(r"\w+", names)
}


def stands_above(module, other):
    return FLOOR[module] > FLOOR[other] or (module, other) in ABOVE


def sources(module):
    return [path for path in (SRC / f"{module}.rs", *(SRC / module).rglob("*.rs")) if path.exists()]


def used(text):
    """The modules, and what lib.rs hands on, that paths from `crate::` begin with; comments are no code."""
    text = re.sub(r"//.*", "", text)
    for path in re.findall(r"\bcrate::(\w+|\{(?:[^{}]|\{[^{}]*\})*\})", text):
        # Of `{a, b::{c, d}, e::f}` what stands in front: a, b, e.
        yield from re.findall(r"(?:^|,)\s*(\w+)", re.sub(r"::(\{[^}]*\}|[\w:]+)", "", path.strip("{}")))


def test_the_picture_names_the_modules():
    modules = {path.stem for path in SRC.iterdir()} - {"lib"}
    missing, gone = sorted(modules - FLOOR.keys()), sorted(FLOOR.keys() - modules)
    assert not missing, f"src/lib.rs, '# Floors': give these modules of src/ a floor: {missing}"
    assert not gone, f"src/lib.rs, '# Floors': src/ has no such modules: {gone}"


@pytest.mark.parametrize("module", FLOOR)
def test_a_module_uses_those_below_it(module):
    for path in sources(module):
        for name in used(path.read_text()):
            file, other = path.relative_to(ROOT), EXPORTED.get(name, name)
            assert other in FLOOR, f"{file} uses crate::{name}, of which src/lib.rs knows nothing"
            assert not stands_above(other, module), (
                f"{file} uses crate::{name}, but {other} stands above {module} in src/lib.rs, '# Floors': "
                "move what both need to a floor below, or put the picture right"
            )


def test_paths_are_read():
    text = "use crate::{Error, loss::{Hinge, Loss}, simd::Lanes, memory}; crate::PANEL // crate::python"
    assert [*used(text)] == ["Error", "loss", "simd", "memory", "PANEL"]
    assert {"memory", "trainer"} <= {*used((SRC / "dual.rs").read_text())}


def test_the_table_of_contributing_names_what_there_is():
    rows = re.findall(r"^\|.*\|$", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    assert len(rows) > 10
    folder, named = ROOT, []
    for name in re.findall(r"`([^` ]+)`", "".join(rows)):
        if "/" in name or (ROOT / name).exists():
            folder, path = (ROOT / name).parent, ROOT / name
            folder = path if path.is_dir() else folder
        elif re.fullmatch(r"\w+\.\w+", name):
            # Beside the file named before it.
            path = folder / name
        else:
            continue
        named.append(path)
        assert path.exists(), f"CONTRIBUTING.md names {name}, which is not there"
    assert len(named) > 20
