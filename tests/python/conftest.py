"""Data and helpers that several test modules share."""

import os
import re
import subprocess
import sys
from itertools import combinations, product
from multiprocessing import get_all_start_methods, get_context
from pathlib import Path
from types import ModuleType

import joblib
import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.preprocessing import StandardScaler, scale

from pegasos import KernelPegasosClassifier, PegasosClassifier
from pegasos.datasets import make_checkerboard


def papers_linear(loss="hinge", **params):
    """The papers' linear machine, whatever the defaults are: most laws and oracles are about it."""
    return PegasosClassifier(loss, **{"alpha": 1e-4, "multi_class": "crammer_singer"} | params)


def papers_kernel(kernel="rbf", **params):
    """The papers' kernel machine, whatever the defaults are."""
    papers = {
        "alpha": 1e-4,
        "budget": None,
        "maintenance": "merge",
        "fit_intercept": False,
        "multi_class": "crammer_singer",
        "solver": "pegasos",
    }
    return KernelPegasosClassifier(kernel, **papers | params)


def labelled(seed, n, d, n_classes):
    """Rows of norm about 1, and classes that a linear model tells apart nine times in ten."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d)) / np.sqrt(d)
    scores = X @ random.normal(size=(d, n_classes)) + 0.1 * random.normal(size=(n, n_classes))
    X.flags.writeable = False
    return X, scores.argmax(axis=1)


def every_pair(**values):
    """Parametrizes a test: not all values with all, but every two values of two parameters in some case.

    What takes three values together to go wrong is for the grids of ``tests/rust/naive.rs``.
    """
    names, choices = [*values], [[*choices] for choices in values.values()]
    sizes = [range(len(choice)) for choice in choices]
    places = list(combinations(range(len(names)), 2))
    missing = dict.fromkeys(((i, a), (j, b)) for i, j in places for a, b in product(sizes[i], sizes[j]))
    cases = []
    while missing:
        # The first pair that is missing; then for each parameter what makes most others meet.
        case = dict(next(iter(missing)))
        for k in sorted(set(range(len(names))) - case.keys()):
            case[k] = max(sizes[k], key=lambda c: sum(tuple(sorted([(k, c), x])) in missing for x in case.items()))
        for pair in combinations(sorted(case.items()), 2):
            missing.pop(pair, None)
        cases.append([choices[k][case[k]] for k in range(len(names))])
    words = [[getattr(value, "__name__", str(value)) for value in case] for case in cases]
    return pytest.mark.parametrize(names, cases, ids=map("-".join, words))


def pytest_xdist_auto_num_workers():
    """One more than there are cores: some tests wait, for timeouts and for processes that start."""
    return joblib.cpu_count() + 1


@pytest.fixture(autouse=True)
def the_same_draws_each_time():
    """Where a test names no ``random_state``, NumPy's own one draws: a test that fails one time in fifty tells nothing."""
    np.random.seed(0)


@pytest.fixture(scope="session")
def two_classes():
    return labelled(0, 60, 4, 2)


@pytest.fixture(scope="session")
def three_classes():
    return labelled(1, 90, 4, 3)


@pytest.fixture(scope="session")
def half_tell():
    """Three classes that four of eight features tell of."""
    X, y = make_classification(
        600, 8, n_informative=4, n_redundant=0, n_classes=3, n_clusters_per_class=2, class_sep=1.5, random_state=1
    )
    return np.ascontiguousarray(scale(X)), y


@pytest.fixture(scope="session")
def board_and_noise():
    """A checkerboard beside twenty columns of noise."""

    def make(n, seed):
        X, y = make_checkerboard(n, seed)
        noise = np.random.default_rng(seed).uniform(X.min(), X.max(), (n, 20))
        return np.hstack([X, noise]), y

    scaler = StandardScaler()
    X, y = make(20_000, 0)
    X_test, y_test = make(4000, 1)
    return scaler.fit_transform(X).astype(np.float32), y, scaler.transform(X_test).astype(np.float32), y_test


def peak():
    """The most memory that this process has had, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():
        # On Linux `ru_maxrss` would begin with that of the process that started this one.
        return 1024 * int(re.search(r"VmHWM:\s*(\d+)", status.read_text())[1])
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


#: For the scripts of `run_script`: Ctrl-C while something is at work.
INTERRUPT = """
import os, signal, threading, time

def interrupt(after, work):
    \"""How many seconds `work()` goes on when it is interrupted after so many.\"""
    sent = []

    def press():
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    threading.Timer(after, press).start()
    try:
        work()
    except KeyboardInterrupt:
        return time.monotonic() - sent[0]
    raise AssertionError("not interrupted")
"""


@pytest.fixture(scope="session")
def run_script():
    """Runs Python text in a process of its own, where a crash or a hang can do no harm."""

    places = [place for place in [os.environ.get("PYTHONPATH")] if place]

    def run(text, timeout=60, **environment):
        return subprocess.run(
            [sys.executable, "-c", text],
            capture_output=True,
            text=True,
            timeout=timeout,
            # So that scripts find this file, too, and the package that is tested.
            env={**os.environ, "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *places]), **environment},
        )

    return run


def _told(text, outputs, environment):
    """What a process of `run_forked` does."""
    sys.argv = ["-c"]
    os.environ.clear()
    os.environ.update(environment)
    for number, output in zip((1, 2), outputs, strict=True):
        os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT), number)
    main = sys.modules["__main__"] = ModuleType("__main__")
    exec(compile(text, "<string>", "exec"), main.__dict__)


@pytest.fixture(scope="session")
def run_forked(run_script, tmp_path_factory):
    """As `run_script`, in a fork of a process that has imported scikit-learn and the package: that takes seconds each time.

    Not for scripts about imports, about how a process begins or ends, or about what libraries look up when they are loaded.
    """
    if "forkserver" not in get_all_start_methods():
        return run_script
    forks = get_context("forkserver")
    forks.set_forkserver_preload(["joblib", "pytest", "sklearn.datasets", "sklearn.preprocessing", "pegasos._tuned"])

    def run(text, timeout=60, **environment):
        outputs = [tmp_path_factory.mktemp("forked") / name for name in ("out", "err")]
        process = forks.Process(target=_told, args=(text, outputs, {**os.environ, **environment}))
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(text, timeout)
        return subprocess.CompletedProcess(text, process.exitcode, *(output.read_text() for output in outputs))

    return run


@pytest.fixture
def run(capsys):
    """Runs a command line in this process; returns its status, stdout and stderr."""
    from pegasos import cli

    def run(line):
        status = cli.main(line.split())
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


def assert_refused(answer, message):
    """Status 2, and one line that says why, after the usage perhaps."""
    status, out, err = answer
    *usage, line = err.splitlines()
    assert status == 2
    assert out == ""
    assert re.fullmatch(f"pegasos: error: .*{message}.*", line), err
    assert usage == [] or usage[0].startswith("usage: pegasos")
    assert not any("error" in said for said in usage)


@pytest.fixture(scope="session")
def small():
    """A problem of three classes that no model solves."""
    X, y = make_classification(300, 8, n_informative=5, n_classes=3, flip_y=0.1, random_state=0)
    return scale(X), y
