"""What the package says of itself, what it packs, and what its workflows call are there."""

import ast
import fnmatch
import re
import subprocess
import sys
import sysconfig
import tomllib
from importlib import metadata, resources
from pathlib import Path

import pytest
import yaml

import pegasos

ROOT = Path(__file__).parents[2]
CARGO = tomllib.loads((ROOT / "Cargo.toml").read_text())
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
#: Modules of the package that an extra is for.
OF_EXTRAS = {
    "onnx": ("onnx", "_graph"),
    "plots": ("_display",),
    "river": ("river",),
    "dask": ("dask", "_remote", "_rounds", "_tasks", "_parts"),
}
#: Distributions by what is imported of them, where the names differ.
DISTRIBUTIONS = {"sklearn": "scikit-learn", "yaml": "pyyaml"}


def names(requirements):
    return {re.match(r"[\w-]+", requirement)[0].lower() for requirement in requirements}


REQUIRED = names(PYPROJECT["project"]["dependencies"])
EXTRAS = {extra: names(of) for extra, of in PYPROJECT["project"]["optional-dependencies"].items()}


def imported(paths):
    """The distributions that Python files import, wherever in them; files of one folder may import each other."""
    for path in paths:
        own = {"pegasos"} if path.parent.name == "pegasos" else {"pegasos", *(other.stem for other in paths)}
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and not node.level:
                modules = [node.module]
            else:
                modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for module in {module.split(".")[0] for module in modules} - own - sys.stdlib_module_names:
                yield DISTRIBUTIONS.get(module, module)


def test_one_version():
    assert metadata.version("pegasos") == pegasos.__version__ == CARGO["package"]["version"]


def test_types_are_packed():
    installed = resources.files("pegasos")
    assert (installed / "py.typed").is_file() and (installed / "_core.pyi").is_file()


def test_the_package_imports_what_it_requires():
    paths = {path.stem: path for path in (ROOT / "python" / "pegasos").glob("*.py")}
    for extra, modules in OF_EXTRAS.items():
        assert {*imported([paths.pop(module) for module in modules])} - REQUIRED == EXTRAS[extra]
    # What is asked for where somebody hands over what needs it.
    assert {*imported(paths.values())} == REQUIRED | EXTRAS["arrow"]


def test_the_tests_import_what_they_require():
    paths = [*(ROOT / "tests" / "python").glob("*.py"), ROOT / "tests" / "torture.py", ROOT / "benches" / "tables.py"]
    assert {*imported(paths)} <= REQUIRED | EXTRAS["test"]


def test_extras_for_tests_hold_the_others():
    assert EXTRAS["arrow"] | EXTRAS["onnx"] | EXTRAS["plots"] | EXTRAS["river"] <= EXTRAS["test"]


def packed(pattern):
    """The files that a pattern of Cargo's or maturin's means."""
    pattern = pattern.lstrip("/")
    found = [path for path in ROOT.glob(pattern) if path.is_file()]
    return found or [path for path in (ROOT / pattern).glob("**/*") if path.is_file()]


def test_what_is_packed_is_there():
    patterns = [*CARGO["package"]["include"], *(entry["path"] for entry in PYPROJECT["tool"]["maturin"]["include"])]
    missing = [pattern for pattern in patterns if not packed(pattern)]
    assert not missing, f"Cargo.toml and pyproject.toml pack what is not there: {missing}"


def test_a_source_distribution_holds_its_build_backend():
    build = PYPROJECT["build-system"]
    backend = f"{build['build-backend']}.py"
    assert build["backend-path"] == ["."] and (ROOT / backend).exists()
    assert any(fnmatch.fnmatch(backend, entry["path"]) for entry in PYPROJECT["tool"]["maturin"]["include"])


def test_no_toolchain_is_downloaded_unasked(tmp_path):
    pytest.importorskip("maturin", reason="only who builds has it")
    text = "import build_backend; print(build_backend.get_requires_for_build_wheel())"
    for environment, asked in (({}, "[]"), ({"MATURIN_NO_INSTALL_RUST": ""}, "['puccinialin']")):
        done = subprocess.run(
            [sys.executable, "-c", text],
            cwd=ROOT,
            # No cargo there.
            env={"PATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1", **environment},
            capture_output=True,
            text=True,
        )
        assert done.stdout.strip() == asked, done.stderr


def steps():
    for path in WORKFLOWS:
        for name, job in yaml.safe_load(path.read_text())["jobs"].items():
            for step in job["steps"]:
                yield f"{path.name}, {name}", step


def test_workflows_call_what_there_is():
    targets = {*re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)}
    called = 0
    for place, step in steps():
        command = step.get("run", "")
        for target in re.findall(r"\bmake ([\w-]+)", command):
            called += 1
            assert target in targets, f"{place}: the Makefile has no {target}"
        for path in re.findall(r"(?<![\w/])(?:\.ci|tests|benches|docs)/[\w./-]*\w", command):
            called += 1
            assert (ROOT / path).exists(), f"{place}: {path} is not there"
    assert called > 3


def test_workflows_pin_what_they_use():
    used = [(place, step["uses"]) for place, step in steps() if "uses" in step]
    assert len(used) > 10
    for place, action in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|stable|1\.\d+|release/v\d+)", action), f"{place}: {action}"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_jobs_wait_for_jobs(path):
    workflow = yaml.safe_load(path.read_text())
    # Nobody may write unless a job says so.
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        needs = job.get("needs", [])
        needs = [needs] if isinstance(needs, str) else needs
        assert {*needs} <= workflow["jobs"].keys() - {name}, f"{name} waits for {needs}"


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python has a lock")
def test_the_import_brings_no_lock_back():
    assert not sys._is_gil_enabled()
