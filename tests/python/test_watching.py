"""What training shows of itself in a terminal, in a notebook and in a log, and what it records of every epoch."""

import copy
import gc
import io
import os
import pickle
import re
import sys
import types
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from conftest import INTERRUPT
from machines import MACHINES, quiet
from sklearn.base import clone

from pegasos import (
    KernelPegasosClassifier,
    KernelPegasosClassifierCV,
    PegasosClassifier,
    PegasosClassifierCV,
    _progress,
    path,
)
from pegasos._progress import NoBar, bar_of, relative_gap, say
from pegasos._run import Run


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Gone(io.StringIO):
    """A log whose disk is full from the second line on."""

    def write(self, text):
        if self.getvalue():
            raise OSError(28, "No space left on device")
        return super().write(text)


@pytest.fixture
def stream(monkeypatch):
    """Puts a stream in the place of stderr."""

    def put(found):
        monkeypatch.setattr(sys, "stderr", found)
        return found

    return put


@pytest.fixture
def clock(monkeypatch):
    """A clock that somebody else winds."""
    now = types.SimpleNamespace(at=100.0)
    monkeypatch.setattr(_progress.time, "monotonic", lambda: now.at)
    return now


def sound(shown):
    """Nothing that is not a number, and no gap below 0."""
    assert "nan" not in shown and "inf" not in shown
    assert not re.search(r"(gap|loss|accuracy)=-", shown)


# -- bars and lines


@pytest.mark.parametrize("name", MACHINES)
def test_one_bar_for_a_fit(name, three_classes, stream):
    shown = stream(Terminal())
    model = clone(MACHINES[name]).set_params(verbose=1)
    quiet(model.fit, *three_classes)
    text = shown.getvalue()
    sound(text)
    # Drawn over and over, and left once.
    assert text.count("\n") == 1 and "\r" in text
    last = text.split("\r")[-1]
    assert last.startswith(type(model).__name__) and "100%" in last and "/s" in last
    assert "loss=" in last or "accuracy=" in last
    assert ("gap=" in last) == np.isfinite(model.duality_gap_)


@pytest.mark.parametrize("name", MACHINES)
def test_a_short_fit_is_one_line_of_a_log(name, three_classes, stream, capsys):
    shown = stream(io.StringIO())
    model = clone(MACHINES[name]).set_params(verbose=1)
    quiet(model.fit, *three_classes)
    text = shown.getvalue()
    sound(text)
    assert "\r" not in text and text.count("\n") == 1 and text.endswith("\n")
    assert text.startswith(type(model).__name__) and ": 100% " in text and "|" not in text
    # Of this fit, as much as it knows.
    if np.isfinite(model.duality_gap_):
        assert f"gap={model.duality_gap_ / model.objective_:.2g}" in text
    assert f"loss={model.loss_curve_[-1]:.4g}" in text
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("make", [Terminal, io.StringIO])
def test_searches_and_paths(make, three_classes, stream):
    X, y = three_classes
    for run, label in [
        (PegasosClassifierCV(alphas=[0.1, 0.01], cv=3, verbose=1).fit, "PegasosClassifierCV"),
        (KernelPegasosClassifierCV(gammas=[0.1], alphas=[0.1], budget=10, cv=3, verbose=1).fit, "KernelPegasosClassifierCV"),
        (lambda X, y: path(X, y, [0.1, 0.01], verbose=1), "path"),
    ]:
        shown = stream(make())
        run(X, y)
        last = shown.getvalue().split("\r")[-1]
        sound(last)
        assert last.startswith(f"{label}: 100%") and "alpha=" in last and shown.getvalue().count("\n") == 1


def test_lines_come_at_growing_distances(clock, stream):
    shown = stream(io.StringIO())
    times = []
    with bar_of("Machine", "rows", 1) as bar:
        bar.begin(4000)
        for _ in range(4000):
            clock.at += 0.125
            before = shown.getvalue().count("\n")
            bar.update(1)
            if shown.getvalue().count("\n") > before:
                times.append(clock.at - 100.0)
        bar.done()
    assert times == [1, 2, 4, 8, 16, 32, 64, 124, 184, 244, 304, 364, 424, 484]
    lines = shown.getvalue().splitlines()
    assert len(lines) == len(times) + 1
    assert lines[-1] == "Machine: 100% 4.00k/4.00k [08:20<00:00, 8.00 rows/s]"


def test_what_is_not_known_is_not_shown(clock, stream):
    shown = stream(io.StringIO())
    with bar_of("Machine", "rows", 1) as bar:
        bar.begin(None)
        bar.update(10)
        bar.tell(loss=0.25, gap=float("nan"), accuracy=0.5)
        bar.tell(loss=float("nan"), gap=1e-3, accuracy=None)
        clock.at += 4.0
    assert shown.getvalue() == "Machine: 10.0 rows [00:04, 2.50 rows/s, gap=0.001, loss=0.25]\n"


def test_a_stage_with_another_unit_is_counted_anew(clock, stream):
    for make in (Terminal, io.StringIO):
        shown = stream(make())
        with bar_of("Machine", "rows", 1) as bar:
            bar.begin(5000)
            bar.update(5000)
            bar.begin(None, "dual ascent", "steps")
            bar.update(3)
            clock.at += 1.0
            bar.done()
        last = shown.getvalue().split("\r")[-1].splitlines()[-1]
        assert last.startswith("Machine, dual ascent: 100%") and "3/3" in last and "steps" in last


def test_relative_gap():
    assert relative_gap(2.0, 1.0) == 0.5
    assert relative_gap(1.0, 1.0 + 1e-9) == 0.0
    assert relative_gap(0.0, 0.0) == 0.0
    for unknown in [(np.nan, np.nan), (1.0, np.nan), (np.inf, 0.0), (1.0, 1.1)]:
        assert np.isnan(relative_gap(*unknown))
    np.testing.assert_array_equal(relative_gap([1.0, 1.0, np.nan], [0.5, 1.0 + 1e-8, 0.0]), [0.5, 0.0, np.nan])


def test_accuracy_is_of_pegasos_alone(three_classes, stream):
    """Dual ascent counts no mistakes, nor is the accuracy that of Pegasos before any more."""
    X, y = three_classes
    shown = stream(io.StringIO())
    quiet(PegasosClassifier("hinge", multi_class="crammer_singer", alpha=0.1, tol=1e-6, verbose=1, random_state=0).fit, X, y)
    assert "accuracy" not in shown.getvalue()
    shown = stream(io.StringIO())
    model = KernelPegasosClassifier(solver="pegasos", tol=None, history=len(y), verbose=1, random_state=0).fit(X, y)
    assert f"accuracy={model.history_['accuracy'][-1]:.4f}" in shown.getvalue()


def closed():
    found = io.StringIO()
    found.close()
    return found


class Silent:
    """Something to write to that can do nothing else."""

    def __init__(self):
        self.text = ""

    def write(self, text):
        self.text += text


@pytest.mark.parametrize("make", [lambda: None, closed, Gone, Silent], ids=["none", "closed", "full", "simple"])
def test_streams_that_show_nothing_do_no_harm(make, three_classes, stream, monkeypatch):
    X, y = three_classes
    # A line at every chance.
    monkeypatch.setattr(_progress, "_FIRST_LINE", 0.0)
    found = stream(make())
    for model in (
        PegasosClassifier(verbose=1),
        KernelPegasosClassifier(budget=20, metric="full", metric_rounds=1, verbose=1),
        PegasosClassifierCV(alphas=[0.1], cv=3, verbose=1),
    ):
        quiet(model.fit, X, y)
        assert model.score(X, y) > 0.5
    say("one more line")
    if isinstance(found, Silent):
        assert found.text.endswith("one more line\n")


def test_a_terminal_that_is_closed_during_a_fit(two_classes, stream):
    shown = stream(Terminal())
    with bar_of("Machine", "rows", 1) as bar:
        bar.begin(10)
        shown.close()
        bar.update(5)
        bar.tell(loss=1.0)
        bar.done()
    say("nobody sees this")


class Torn(Terminal):
    """A terminal that fails from its second text on, with some error of its own."""

    def write(self, text):
        if self.getvalue():
            raise OSError(28, "No space left on device")
        return super().write(text)


def test_a_fit_outlives_its_terminal(two_classes, stream):
    X, y = two_classes
    shown = stream(Torn())
    model = PegasosClassifier(verbose=1, random_state=0).fit(X, y)
    say("nobody sees this")
    assert model.score(X, y) > 0.5 and "PegasosClassifier" in shown.getvalue()


def test_lines_between_bars_clear_those_of_the_same_terminal(stream):
    shown = stream(Terminal())
    with bar_of("Machine", "rows", 1) as bar:
        bar.begin(10)
        say("between")
        assert re.search(r"\r +\rbetween\n", shown.getvalue())


def test_nothing_of_tqdm_is_touched_where_nobody_wants_a_bar(two_classes, monkeypatch):
    def fail(*_args, **_kwargs):
        raise AssertionError("tqdm takes locks")

    monkeypatch.setattr(_progress, "tqdm", fail)
    for name in MACHINES:
        quiet(clone(MACHINES[name]).fit, *two_classes)
    assert type(bar_of("Machine", "rows", 0)) is NoBar


def test_a_terminal_without_columns_gets_lines(monkeypatch, stream):
    class Screen(Terminal):
        def fileno(self):
            return 2

    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((0, 0)))
    shown = stream(Screen())
    with bar_of("Machine", "rows", 1) as bar:
        bar.begin(1)
    assert "\r" not in shown.getvalue() and shown.getvalue()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a terminal of its own")
def test_in_a_terminal(run_script):
    """Nothing of notebooks is imported, and nothing is warned of."""
    script = """
import fcntl, os, pty, struct, sys, termios
child, screen = pty.fork()
if child == 0:
    os.execv(sys.executable, [sys.executable, "-W", "error", "-c", '''
import sys, time
from sklearn.datasets import load_iris
from pegasos import KernelPegasosClassifier
time.sleep(0.2)
X, y = load_iris(return_X_y=True)
KernelPegasosClassifier(budget=20, random_state=0, verbose=1).fit(X, y)
assert not [name for name in sys.modules if name.startswith(("IPython", "ipywidgets", "tqdm.notebook", "tqdm.auto"))]
print("done")
'''])
fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 140, 0, 0))
text = b""
try:
    while data := os.read(screen, 4096):
        text += data
except OSError:
    pass
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, text
print(text.decode())
"""
    found = run_script(script)
    assert found.returncode == 0, found.stderr
    assert "KernelPegasosClassifier, refit: 100%|" in found.stdout and "gap=" in found.stdout and "done" in found.stdout


def notebook(monkeypatch, *, widgets):
    """As if a notebook were there, with widgets or without."""
    made = []

    class Widget(_progress.tqdm):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs | {"file": io.StringIO()})
            self.container = types.SimpleNamespace(
                children=[None, types.SimpleNamespace(max=self.total, bar_style="info", layout=types.SimpleNamespace(width="2"))]
            )
            made.append(self)

    class ZMQInteractiveShell:
        pass

    found = types.ModuleType("tqdm.notebook")
    found.tqdm, found.trange, found.WARN_NOIPYW = Widget, None, "no widgets"
    found.IProgress = Widget if widgets else None
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = ZMQInteractiveShell
    monkeypatch.setitem(sys.modules, "ipykernel.zmqshell", types.ModuleType("ipykernel.zmqshell"))
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "tqdm.notebook", found)
    monkeypatch.delitem(sys.modules, "tqdm.autonotebook", raising=False)
    monkeypatch.delenv("QT_API", raising=False)
    return made


def test_in_a_notebook(monkeypatch, three_classes, stream):
    made = notebook(monkeypatch, widgets=True)
    shown = stream(io.StringIO())
    model = KernelPegasosClassifier(budget=20, verbose=1, random_state=0).fit(*three_classes)
    (bar,) = made
    assert shown.getvalue() == "" and bar.desc == "KernelPegasosClassifier, refit: "
    # As long as it must be, though that was not known at the beginning.
    assert bar.container.children[1].max == bar.n == bar.total > 90
    assert f"gap={model.duality_gap_ / model.objective_:.2g}" in bar.postfix


def test_in_a_notebook_without_widgets(monkeypatch, three_classes, stream):
    notebook(monkeypatch, widgets=False)
    shown = stream(io.StringIO())
    PegasosClassifier(verbose=1).fit(*three_classes)
    assert "\r" not in shown.getvalue() and "PegasosClassifier: 100%" in shown.getvalue()
    sys.modules.pop("tqdm.autonotebook", None)


def test_fits_in_threads_have_a_line_each(three_classes, stream):
    shown = stream(io.StringIO())
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda seed: PegasosClassifier(verbose=1, random_state=seed).fit(*three_classes), range(4)))
    assert shown.getvalue().count("PegasosClassifier: 100%") == 4


def test_nothing_of_a_fit_is_left_behind(two_classes):
    """Its rows are free at once, not when somebody looks for cycles."""

    class Rows(np.ndarray):
        pass

    # Of which views know that it owns the memory.
    X = Rows(two_classes[0].shape)
    X[:] = two_classes[0]
    gone = weakref.ref(X)
    gc.disable()
    try:
        models = [PegasosClassifier().fit(X, two_classes[1]), KernelPegasosClassifier(budget=10).fit(X, two_classes[1])]
        del X
        assert gone() is None and len(models) == 2
    finally:
        gc.enable()


# -- what is recorded


@pytest.mark.parametrize("name", MACHINES)
def test_objectives_of_every_epoch(name, three_classes):
    X, y = three_classes
    model = quiet(clone(MACHINES[name]).fit, X, y)
    objectives, duals = np.array(model.objective_curve_), np.array(model.dual_objective_curve_)
    assert len(objectives) == len(duals) == len(model.loss_curve_) == model.n_iter_ > 0
    np.testing.assert_equal([objectives[-1], duals[-1]], [model.objective_, model.dual_objective_])
    assert (np.isfinite(duals) <= np.isfinite(objectives)).all()
    # Of a restricted problem the bound is another; else all of them are bounds on the best that was found.
    if np.isfinite(duals).all():
        assert (duals <= objectives.min() * (1.0 + 1e-9)).all()
    for other in (pickle.loads(pickle.dumps(model)), copy.copy(model)):
        np.testing.assert_equal(other.objective_curve_, model.objective_curve_)


def test_the_objective_of_an_epoch_is_that_of_the_model_then(three_classes):
    X, y = three_classes
    for epochs in (1, 2, 3):
        params = {"solver": "pegasos", "alpha": 0.05, "tol": 0.0, "random_state": 0}
        one = quiet(PegasosClassifier(max_iter=epochs, **params).fit, X, y)
        all_of_them = quiet(PegasosClassifier(max_iter=3, **params).fit, X, y)
        assert one.objective_ == all_of_them.objective_curve_[epochs - 1]


def test_records_are_kept_once(three_classes):
    """Steps of dual ascent add nothing to those of Pegasos."""
    X, y = three_classes
    params = {"multi_class": "crammer_singer", "alpha": 1e-3, "tol": 1e-8, "history": 30}
    model = quiet(KernelPegasosClassifier(**params, random_state=0).fit, X, y)
    assert model.n_iter_ > 2
    assert model.history_["t"].tolist() == [30, 60, 90]


def test_an_interrupted_epoch_has_no_objective(run_forked):
    script = (
        INTERRUPT
        + """
import numpy as np
from pegasos import KernelPegasosClassifier
random = np.random.default_rng(0)
X = random.normal(size=(6000, 20))
y = (X[:, 0] * X[:, 1] + random.normal(size=6000) > 0).astype(int)
model = KernelPegasosClassifier(alpha=1e-7, tol=1e-12, multi_class="ovr", verbose=1)
interrupt(0.7, lambda: model.fit(X, y))
print(len(model.loss_curve_), len(model.objective_curve_), len(model.dual_objective_curve_), model.objective_)
"""
    )
    found = run_forked(script)
    assert found.returncode == 0, found.stderr
    losses, objectives, duals, last = found.stdout.split()
    assert losses == objectives == duals and last == "nan"
    sound(found.stderr)


def test_a_run_without_objectives_has_curves_of_nan():
    np.testing.assert_equal(Run(None, 0, 0, [1.0, 2.0]).curves, ([np.nan] * 2, [np.nan] * 2))
    assert Run(None, 0, 0).curves == ([], [])
