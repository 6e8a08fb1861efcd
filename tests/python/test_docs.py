"""Every example in the docs runs."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from sklearn.datasets import dump_svmlight_file, load_breast_cancer
from sklearn.preprocessing import scale

import pegasos
from pegasos import cli

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MODULES = sorted(module.name for module in pkgutil.iter_modules(pegasos.__path__, "pegasos."))


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("name", [name for name in MODULES if not name.endswith("__main__")])
def test_docstrings(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0


def attributes(kind: type) -> set[str]:
    """The names in the section "Attributes" of a class."""
    section = re.search(r"Attributes\n-+\n(.*?)\n\n\S", inspect.cleandoc(kind.__doc__ or ""), re.DOTALL)
    assert section, kind
    heads = re.findall(r"^(\w+_(?:, \w+_)*) : ", section[1], re.MULTILINE)
    return {name for head in heads for name in head.split(", ")}


@pytest.mark.parametrize(
    "model",
    [
        pegasos.PegasosClassifier(),
        pegasos.OnlineGradientClassifier(),
        pegasos.ProjectronClassifier(),
        pegasos.KernelPegasosClassifier(budget=20, history=50, metric="diagonal"),
        pegasos.KernelPegasosClassifier("linear", solver="pegasos", tol=None),
        pegasos.PegasosClassifierCV(keep_scores=True),
        pegasos.KernelPegasosClassifierCV([0.1], [1e-2], budget=20, keep_scores=True),
    ],
    ids=lambda model: type(model).__name__,
)
def test_what_a_fit_leaves_is_documented(model: Any) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    model.fit(scale(X), y)
    there = {name for name in dir(model) if re.fullmatch(r"[a-z]\w*[a-z]_", name) and hasattr(model, name)}
    assert there <= attributes(type(model))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_on_pages(page: Path) -> None:
    examples = blocks(page, "python")
    assert examples, f"{page.name} has no Python example"
    for example in examples:
        exec(compile(example, str(page), "exec"), {})


def test_commands_in_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    X, y = load_breast_cancer(return_X_y=True)
    for name in ("train.svm", "test.svm"):
        dump_svmlight_file(scale(X), y, name)
    lines = "".join(blocks(ROOT / "README.md", "console")).splitlines()
    commands = [line.removeprefix("$ pegasos ") for line in lines if line.startswith("$ pegasos ")]
    assert len(commands) == 6
    for command in commands:
        assert cli.main(shlex.split(command)) == 0, command
    assert len(Path("labels.txt").read_text().split()) == len(y)


@pytest.mark.parametrize("page", [*PAGES, *ROOT.glob("C*.md")], ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    missing = [link for link in links if not (page.parent / link).exists()]
    assert not missing
