"""Hostile input, case by case, each in a process of its own.

    make torture                         all families, some twenty minutes
    python tests/torture.py sparse -n 500

Prints a table: cases tried; how many were answered, with finite numbers; refused, by an error that names what is
wrong; and what must not be: crashed (a signal or an abort), hung (no end within a minute), wrong (another error, a
number that is not finite, a model that a refused call has changed). Exits with 1 if there is any of the latter. A case
is drawn from its family and its number alone, so `python tests/torture.py sparse --only 123` runs it again.
"""

from __future__ import annotations

import argparse
import copy
import io as memory_file
import json
import os
import pickle
import resource
import select
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from safetensors import numpy as safetensors

import pegasos
from pegasos import (
    KernelPegasosClassifier,
    OnlineGradientClassifier,
    PegasosClassifier,
    ProjectronClassifier,
)
from pegasos._core import model_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

#: Seconds after which a case counts as hung.
PATIENCE = 60

#: What may be said of bad input. InternalError is a RuntimeError: a defect.
REFUSALS = (ValueError, TypeError, MemoryError, OSError)

MODELS: dict[str, Callable[[], Any]] = {
    "linear": lambda: PegasosClassifier(max_iter=3),
    "linear squared": lambda: PegasosClassifier("squared_hinge", max_iter=3, average=True),
    "linear log ovr": lambda: PegasosClassifier("log_loss", multi_class="ovr", max_iter=3),
    "online": lambda: OnlineGradientClassifier(delay=2),
    "kernel": lambda: KernelPegasosClassifier(),
    "kernel dual": lambda: KernelPegasosClassifier(solver="auto"),
    "kernel poly": lambda: KernelPegasosClassifier("poly"),
    "budget": lambda: KernelPegasosClassifier(budget=10),
    "budget project": lambda: KernelPegasosClassifier(budget=10, maintenance="project"),
    "budget remove": lambda: KernelPegasosClassifier(budget=10, maintenance="remove", refine=False),
    "projectron": lambda: ProjectronClassifier(budget=10),
}


class Wrong(Exception):
    """An answer that must not be."""


def check(holds: bool, what: str) -> None:
    if not holds:
        raise Wrong(what)


def examples(random: np.random.Generator, n: int = 60, d: int = 30, classes: int = 2) -> Any:
    X = sp.random(n, d, 0.3, "csr", rng=random)
    return X, np.arange(n) % classes


def trained(name: str, X: Any, y: np.ndarray, random: np.random.Generator) -> Any:
    model = MODELS[name]()
    model.set_params(random_state=int(random.integers(2**31)))
    return model.fit(X, y)


def finite(model: Any, X: Any) -> None:
    check(bool(np.isfinite(model.decision_function(X)).all()), "scores that are not finite")


# -- families: each a function of a generator of random numbers, which returns where it is answered


def certificates(random: np.random.Generator) -> None:
    """A gap is never negative, whatever the kernel."""
    n = int(random.integers(5, 120))
    X, y = random.normal(size=(n, 4)), random.integers(2 + int(random.integers(3)), size=n)
    y[: len(np.unique(y)) + 1] = np.arange(len(np.unique(y)) + 1) % (y.max() + 1)
    kind = random.integers(5)
    rank = int(random.integers(1, n + 1))
    A = random.normal(size=(n, rank))
    gram = (A * random.choice([1.0, 1.0, 1.0, -1e-3, -1.0], size=rank)) @ A.T
    kernels: list[Any] = ["sigmoid", "poly", "precomputed", lambda X, Z: np.tanh(X @ Z.T - 1), "precomputed"]
    if kind == 4:
        gram = random.normal(size=(n, n))
    dtype = random.choice([np.float32, np.float64])
    data = (gram if kind in (2, 4) else X).astype(dtype)
    model = KernelPegasosClassifier(
        kernels[kind],
        coef0=float(random.normal()),
        alpha=float(10 ** random.uniform(-6, 0)),
        solver=str(random.choice(["pegasos", "auto", "dual"])),
        max_iter=int(random.integers(1, 20)),
        average=bool(random.integers(2)),
        degree=int(random.integers(1, 5)),
    )
    model.fit(data, y)
    gap = model.duality_gap_
    rounding = 1e-9 if dtype == np.float64 else 1e-3
    check(not gap < -rounding * abs(model.objective_), f"a gap of {gap} of {model.objective_}")


def batches(random: np.random.Generator) -> None:
    """A refused batch changes nothing; whatever is taken leaves finite numbers."""
    X, y = examples(random)
    name = str(random.choice(list(MODELS)))
    model = trained(name, X, y, random)
    before, t = model.decision_function(X), model.t_
    bad, weight, labels = X.copy(), None, y
    scale = float(10 ** random.uniform(20, 308)) * random.choice([-1, 1])
    kind = random.integers(7)
    if kind == 0:
        weight = np.full(60, abs(scale))
    elif kind == 1:
        bad = bad * scale
    elif kind == 2:
        bad.data[random.integers(len(bad.data))] = random.choice([np.nan, np.inf, scale])
    elif kind == 3:
        bad.indices[random.integers(len(bad.indices))] = random.choice([-1, 30, 2**31 - 1])
    elif kind == 4:
        labels = np.where(np.arange(60) == 59, 7, y)
    elif kind == 5:
        weight = np.where(np.arange(60) == 59, random.choice([np.nan, -1.0, np.inf]), 1.0)
    else:
        model.set_params(n_jobs=0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.partial_fit(bad, labels, sample_weight=weight)
    except REFUSALS:
        model.set_params(**({} if kind != 6 else {"n_jobs": None}))
        check(bool((model.decision_function(X) == before).all()), f"{name}: other scores")
        check(model.t_ == t, f"{name}: t_ is {model.t_}, not {t}")
        finite(model.partial_fit(X, y), X)
        raise
    finite(model, X)


def corrupted(random: np.random.Generator) -> Any:
    """A sparse matrix whose arrays lie, somehow or other; or not."""
    form = str(random.choice(["csr", "csr", "csr", "csr", "csc", "coo", "bsr", "lil"]))
    X = sp.random(60, 30, 0.3, form if form != "bsr" else "csr", rng=random)
    if form == "bsr":
        X = X.tobsr((3, 3))
    if random.integers(2) and form in ("csr", "csc"):
        X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    if random.integers(3) == 0 and form != "lil":
        X.data = X.data.astype(random.choice([np.float32, np.int32]))
    wild = [-1, -3, 30, 60, 10**8, -(2**31), 2**31 - 1]
    for _ in range(random.integers(1, 4)):
        value = int(random.choice(wild))
        if form == "coo":
            (X.row if random.integers(2) else X.col)[random.integers(X.nnz)] = value
        elif form == "lil":
            X.rows[random.integers(60)].append(value)
            X.data[random.integers(60)].append(1.0)
        else:
            kind = random.integers(9)
            if kind < 3:
                X.indices[random.integers(len(X.indices))] = value
            elif kind < 5:
                X.indptr[random.integers(len(X.indptr))] = value
            elif kind == 5:
                X.data = X.data[: random.integers(len(X.data))]
            elif kind == 6:
                X.indices = X.indices[: random.integers(len(X.indices))]
            elif kind == 7:
                X.indptr = X.indptr[: random.integers(1, len(X.indptr))]
            elif X.indices.dtype == np.int64:
                X.indices[random.integers(len(X.indices))] = 2**32 + value
            elif X.data.dtype.kind == "f":
                X.data[random.integers(len(X.data))] = random.choice([np.nan, np.inf])
    return X


def sparse(random: np.random.Generator) -> None:
    """Every method of every estimator, on a corrupted matrix."""
    X, y = examples(random)
    name = str(random.choice(list(MODELS)))
    bad = corrupted(random)
    method = random.integers(6)
    model = MODELS[name]()
    if method == 0:
        finite(model.fit(bad, y), X)
        return
    if method == 1:
        finite(model.partial_fit(bad, y, classes=[0, 1]), X)
        return
    model = trained(name, X, y, random)
    if method == 2:
        finite(model, bad)
    elif method == 3:
        model.predict(bad)
    elif method == 4:
        check(0.0 <= model.score(bad, y) <= 1.0, "a score out of range")
    else:
        finite(model.partial_fit(bad, y), X)


def races(random: np.random.Generator) -> None:
    """Another thread rewrites the arrays meanwhile."""
    X, y = examples(random, 4000, 50)
    name = str(random.choice(list(MODELS)))
    good, labels = X.copy()[:200], y[:200]
    model = trained(name, good, labels, random)
    stop, for_good = threading.Event(), bool(random.integers(2))

    def rewrite() -> None:
        other = np.random.default_rng(0)
        while not stop.is_set():
            array = (X.indices, X.indptr, X.data)[other.integers(3)]
            place = other.integers(len(array))
            old = array[place]
            array[place] = other.choice([-5, 10**6, 2**31 - 1, 3])
            if not for_good:
                array[place] = old

    thread = threading.Thread(target=rewrite, daemon=True)
    thread.start()
    method = random.integers(3)
    try:
        for _ in range(3):
            if method == 0:
                MODELS[name]().fit(X, y)
            elif method == 1:
                finite(model, X)
            else:
                model.partial_fit(X, y)
    finally:
        stop.set()
        thread.join()
        finite(model, good)


def memory(random: np.random.Generator) -> None:
    """Sizes that there is no memory for, within half a GB beside what is there."""
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[0])
    limit = pages * resource.getpagesize() + (1 << 29)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    kind = random.integers(6)
    d = int(random.choice([2**20, 2**27, 2**31 - 1, 2**31, 2**40, 2**62]))
    X = sp.csr_matrix(
        (np.ones(40), np.where(np.arange(40) < 39, np.arange(40), d - 1), np.arange(41)), shape=(40, d)
    )
    y = np.arange(40) % 2
    dense = random.normal(size=(20000, 20))
    name = str(random.choice(list(MODELS)))
    if kind == 0:
        MODELS[name]().set_params(tol=None).fit(X, y)
    elif kind == 1:
        MODELS[name]().partial_fit(X, y, classes=[0, 1])
    elif kind == 2:
        n = 10**5
        PegasosClassifier(max_iter=1).fit(random.normal(size=(2 * n, 3)), np.arange(2 * n) % n)
    elif kind == 3:
        KernelPegasosClassifier(budget=20000, gamma=100.0, refine=False, alpha=1e-6).fit(
            dense, random.integers(2, size=20000)
        )
    elif kind == 4:
        KernelPegasosClassifier(gamma=100.0, solver=str(random.choice(["auto", "pegasos"])), alpha=1e-6).fit(
            dense, random.integers(4, size=20000)
        )
    else:
        model = PegasosClassifier(max_iter=1).fit(dense, np.arange(20000) % 1000)
        finite(model, random.normal(size=(400_000, 20)))


def files(random: np.random.Generator) -> None:
    """Model files with other numbers, with and without checksums made anew."""
    resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
    X, y = examples(random, classes=int(random.choice([2, 3])))
    name = str(random.choice(list(MODELS)))
    model = trained(name, X, y, random)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model")
        pegasos.save(model, path)
        with open(path, "rb") as file:
            content = bytearray(file.read())
        before = model.decision_function(X)
        if random.integers(3) == 0:
            for _ in range(random.integers(1, 4)):
                content[random.integers(len(content))] = random.integers(256)
            must = True
        else:
            content = bytearray(edited(bytes(content), random))
            must = False
        with open(path, "wb") as file:
            file.write(content)
        try:
            light = pegasos.load(path, light=True)
        except ValueError:
            light = None
        else:
            # Of features that X does not have, perhaps.
            with suppress(ValueError):
                finite(light, X)
        again = pegasos.load(path)
        # Of edited files it may be the stricter one: about what it has no use for, or True where a 1 should be.
        check(light is not None or not must, f"{name}: the light reader refuses what the other takes")
    for model in (again, light) if light is not None else (again,):
        if must:
            check(bool((model.decision_function(X) == before).all()), f"{name}: a damaged file predicts otherwise")
        finite(model, X)
        model.predict(X)
    finite(again.partial_fit(X, y), X)


def edited(content: bytes, random: np.random.Generator) -> bytes:
    """The content of a model file with a number changed, and its checksums right."""
    size = int.from_bytes(content[:8], "little")
    state = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["pegasos"])
    tensors = {name: values.copy() for name, values in safetensors.load(content).items()}
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        entries = value.items() if isinstance(value, dict) else enumerate(value)
        for key, entry in entries:
            if isinstance(entry, dict | list):
                walk(entry)
            elif not isinstance(entry, str) or key in ("float",):
                places.append((value, key))

    walk(state)
    wild = [-1, 0, 1, 2**31, 2**32, 2**53, 2**62, 2**63 - 1, 2**63, 2**64, 10**30, 1e308, -1e308, 5e-324]
    more: list[Any] = [*wild, 0.5, True, None, "x", [], {}, {"float": "nan"}, {"float": "inf"}]
    for _ in range(random.integers(1, 3)):
        if random.integers(4) and places:
            holder, key = places[random.integers(len(places))]
            holder[key] = more[random.integers(len(more))]
        elif tensors:
            name = list(tensors)[random.integers(len(tensors))]
            values, kind = tensors[name], random.integers(4)
            if kind == 0:
                tensors["more"] = values
            elif kind == 1:
                tensors[name] = values[: len(values) // 2]
            elif kind == 2 and len(values):
                wilder = [np.nan, np.inf, 1e300] if values.dtype.kind == "f" else [-1, 2**31, 2**62]
                with np.errstate(all="ignore"):
                    chosen = np.array(wilder[random.integers(3)])
                    values[random.integers(len(values))] = chosen.astype(values.dtype)
            else:
                tensors[name] = values.astype(np.int32)
    for seal in ("checksums", "sha256"):
        state.pop(seal, None)
    return model_bytes(json.dumps(state), tensors)


def threads(random: np.random.Generator) -> None:
    """More threads than any machine has, and fewer than none."""
    X, y = examples(random, 200)
    n_jobs = int(random.choice([-(10**9), -1, 1, 7, 1000, 3000, 10**6, 2**31, 2**62, 10**30]))
    model = MODELS[str(random.choice(list(MODELS)))]().set_params(n_jobs=n_jobs)
    finite(model.fit(X, y), X)


def interrupts(random: np.random.Generator) -> None:
    """Ctrl-C at any moment leaves a model that some number of its steps had reached."""
    X, y = examples(random, 3000, 40, 3)
    name = str(random.choice(list(MODELS)))
    model = trained(name, X[:300], y[:300], random)
    other = MODELS[name]().set_params(random_state=0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(float(random.uniform(0.0, 0.4)), os.kill, (os.getpid(), signal.SIGINT))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            # Where the machine is slow, Ctrl-C comes before this is done.
            timer.start()
            while timer.is_alive():
                model.partial_fit(X, y)
                other.fit(X, y)
            time.sleep(1.0)
        except KeyboardInterrupt:
            pass
    finite(model, X)
    t = model._trainer.facts.t
    check(model.t_ == t, f"{name}: t_ is {model.t_}, not {t}")
    finite(model.partial_fit(X, y), X)
    if hasattr(other, "classes_"):
        finite(other, X)


def copies(random: np.random.Generator) -> None:
    """A copy learns on its own; what was stored predicts the same to the last bit, and goes on."""
    X = random.normal(size=(400, 10)).astype(random.choice([np.float32, np.float64]))
    y = random.integers(3, size=400)
    form = random.choice([0, 1])
    X = sp.csr_array(np.where(random.random(X.shape) < 0.5, X, 0)) if form else X
    name = str(random.choice(list(MODELS)))
    if name == "linear squared":
        name = "linear log ovr"
    model = trained(name, X, y, random)
    before = model.decision_function(X)
    shallow = copy.copy(model)
    shallow.partial_fit(X, y)
    check(bool((model.decision_function(X) == before).all()), f"{name}: training a copy changes the original")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model")
        pegasos.save(model, path)
        others = [pegasos.load(path), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)]
    for other in others:
        check(bool((other.decision_function(X) == before).all()), f"{name}: stored, other bits")
        finite(other.partial_fit(X, y), X)


def texts(random: np.random.Generator) -> None:
    """Text files with bytes changed."""
    ending = str(random.choice(["csv", "svm", "tsv"]))
    lines = {
        "csv": "a,b,species\n" * int(random.integers(2)) + "1.5,2,x\n-3e1,4,y\n0,1,x\n",
        "tsv": "1.5\t2\t1\n-3e1\t4\t2\n0\t1\t1\n",
        "svm": "1 1:1.5 2:2\n-1 1:-3e1 3:4 # note\n1 2:1\n",
    }[ending]
    content = bytearray(lines.encode())
    for _ in range(random.integers(1, 5)):
        place = int(random.integers(len(content)))
        wild: list[bytes] = [b"", b"nan", b"1e400", b"\xff", b"\x00", b",", b"\n", b'"', b":", b"\t", b"-", "²".encode()]
        content[place : place + int(random.integers(3))] = wild[random.integers(len(wild))]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, f"data.{ending}")
        with open(path, "wb") as file:
            file.write(content)
        X, y, _ = pegasos.io.read(path)
    values = X if isinstance(X, np.ndarray) else X.data
    check(bool(np.isfinite(values).all()), "a value that is not finite")
    check(y.dtype.kind != "f" or bool(np.isfinite(y).all()), "a label that is not finite")
    check(X.shape[0] == len(y), "labels of other rows")


def parameters(random: np.random.Generator) -> None:
    """Odd values of parameters."""
    X, y = examples(random)
    name = str(random.choice(list(MODELS)))
    model = MODELS[name]()
    wild: list[Any] = [-1, 0, 1, 2, 2**31, 2**63 - 1, 2**63, 5e-324, 1e-300, 1e-30, 1e300, 1.7e308, np.nan]
    wild += [np.inf, None, True, "x", "auto", [], [0], [-1], {}, {0: 1e300, 1: 1.0}, object(), np.float32(1)]
    names = sorted(set(model.get_params()) - {"verbose"})
    for _ in range(random.integers(1, 3)):
        model.set_params(**{names[random.integers(len(names))]: wild[random.integers(len(wild))]})
    for limit in ("max_iter", "n_iter_no_change", "refine_rounds"):
        if type(model.get_params().get(limit)) is int and getattr(model, limit) > 2**10:
            # For years, as is asked; it is enough to look at the checks.
            model._validate_params()
            model.set_params(**{limit: 2})
    finite(model.fit(X, y), X)


def forks(random: np.random.Generator) -> None:
    """A fork while another thread trains: the child trains, too."""
    X, y = examples(random, 3000, 40, 3)
    stop = threading.Event()

    def train() -> None:
        while not stop.is_set():
            PegasosClassifier(multi_class="ovr", max_iter=2, tol=None, n_jobs=2).fit(X, y)
            KernelPegasosClassifier(budget=30, refine=False, n_jobs=2).fit(X, y)

    thread = threading.Thread(target=train, daemon=True)
    thread.start()
    time.sleep(float(random.uniform(0.0, 0.2)))
    child = os.fork()
    if child == 0:
        code = 1
        try:
            KernelPegasosClassifier(budget=30, refine=False, n_jobs=2).fit(X[:500], y[:500])
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    stop.set()
    check(status == 0, f"the child ended with {status}")


def classes(random: np.random.Generator) -> None:
    """Half as many classes as rows."""
    count = int(10 ** random.uniform(1.5, 3.7))
    X, y = random.normal(size=(2 * count, int(random.integers(1, 30)))), np.arange(2 * count) % count
    if random.integers(2):
        X = sp.csr_matrix(np.where(X > 1, X, 0))
    with open("/proc/self/statm") as told:
        taken = int(told.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + 2**29, taken + 2**29))
    model = PegasosClassifier(
        alpha=float(10 ** random.uniform(-5, 0)),
        solver=str(random.choice(["auto", "dual", "pegasos"])),
        max_iter=int(random.integers(1, 4)),
        average=bool(random.integers(2)),
    )
    if random.integers(2):
        model.partial_fit(X, y, classes=np.arange(count))
    else:
        model.fit(X, y)
        gap = getattr(model, "duality_gap_", np.nan)
        check(not gap < -1e-9 * abs(model.objective_), f"a gap of {gap} of {model.objective_}")
    finite(model, X[:100])


FAMILIES: dict[str, tuple[Callable[[np.random.Generator], None], int]] = {
    "certificates": (certificates, 500),
    "batches": (batches, 1000),
    "sparse": (sparse, 10_000),
    "races": (races, 200),
    "memory": (memory, 100),
    "files": (files, 2000),
    "threads": (threads, 50),
    "interrupts": (interrupts, 200),
    "copies": (copies, 200),
    "texts": (texts, 2000),
    "parameters": (parameters, 1000),
    "forks": (forks, 100),
    "classes": (classes, 50),
}


def outcome(family: str, number: int) -> tuple[str, str]:
    """What becomes of a case, and what it said if that must not be."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        said = "crashed"
        try:
            sys.stderr = memory_file.StringIO()
            warnings.simplefilter("ignore")
            random = np.random.default_rng([number, *family.encode()])
            try:
                FAMILIES[family][0](random)
                said = "answered"
            except Wrong as wrong:
                said = f"wrong {wrong}"
            except REFUSALS:
                said = "refused"
            except BaseException:
                said = "wrong " + traceback.format_exc(limit=-3)
        finally:
            os.write(write, said.encode()[:4000])
            os._exit(0)
    os.close(write)
    ready, _, _ = select.select([read], [], [], PATIENCE)
    said = os.read(read, 4000).decode(errors="replace") if ready else ""
    os.close(read)
    if not ready:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    if not ready:
        return "hung", ""
    kind, _, text = said.partition(" ")
    return kind or "crashed", text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", choices=[*FAMILIES, []], help="all by default")
    parser.add_argument("-n", type=int, help="cases of each family")
    parser.add_argument("--only", type=int, help="this case alone")
    arguments = parser.parse_args()
    kinds = ["answered", "refused", "crashed", "hung", "wrong"]
    print(f"| {'family':<13} | {'tried':>6} | " + " | ".join(f"{kind:>8}" for kind in kinds) + " |")
    print("|---|" + "---:|" * (1 + len(kinds)))
    bad = 0
    for family in arguments.families or FAMILIES:
        tried = arguments.n or FAMILIES[family][1]
        counts = dict.fromkeys(kinds, 0)
        numbers = range(tried) if arguments.only is None else [arguments.only]
        for number in numbers:
            kind, text = outcome(family, number)
            counts[kind] += 1
            if kind not in ("answered", "refused"):
                bad += 1
                print(f"{family} {number}: {kind} {text}", file=sys.stderr, flush=True)
        row = " | ".join(f"{counts[kind]:8,}" for kind in kinds)
        print(f"| {family:<13} | {len(numbers):6,} | {row} |", flush=True)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
