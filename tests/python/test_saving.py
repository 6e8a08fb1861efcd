"""Saving, killed at any moment or done by two at once; and what it costs to refuse a file."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import pegasos
from pegasos import PegasosClassifier, io
from pegasos._core import model_bytes, read_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="signals and /proc")

#: Features of the models: files of some megabytes.
WIDE = 150_000

@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models in files of their own."""
    folder = tmp_path_factory.mktemp("models")
    X = np.random.default_rng(0).normal(size=(4, WIDE))
    for seed in (1, 2):
        model = PegasosClassifier(max_iter=1, tol=None, average=True, random_state=seed)
        io.save(model.fit(X, [0, 1, 0, 1]), folder / f"{seed}")
    return folder


def whole(folder: Path) -> set[bytes]:
    """The digests of both files."""
    return {digest(folder / name) for name in ("1", "2")}


def digest(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()


def child(work: Callable[[], object]) -> int:
    """A process that does this and ends; its number."""
    number = os.fork()
    if number == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return number


def temporaries(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if name.startswith(".pegasos-")]


def test_killed_at_any_moment(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "model"
    dice = random.Random(0)
    models = [io.load(folder / name) for name in ("1", "2")]
    both, left = whole(folder), 0
    io.save(models[0], path)

    def save() -> None:
        while True:
            for model in models:
                io.save(model, path)

    for attempt in range(30):
        number = child(save)
        time.sleep(dice.uniform(0.01, 0.1))
        # Every other one at its most delicate, however short that is.
        while attempt % 2 and not temporaries(tmp_path):
            pass
        os.kill(number, signal.SIGKILL)
        assert os.waitpid(number, 0)[1] == signal.SIGKILL
        assert digest(path) in both
        assert len(temporaries(tmp_path)) <= 1
        left += len(temporaries(tmp_path))
    # Else nobody was killed while a file was being written, and this shows nothing.
    assert left > 0
    io.save(models[0], path)
    assert os.listdir(tmp_path) == ["model"]


def test_two_at_once(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "model"
    models = [io.load(folder / name) for name in ("1", "2")]
    io.save(models[0], path)
    both, end = whole(folder), time.monotonic() + 1.0

    def save() -> None:
        while time.monotonic() < end:
            for model in models:
                io.save(model, path)

    numbers = [child(save), child(save)]
    while time.monotonic() < end:
        assert digest(path) in both
    assert [os.waitpid(number, 0)[1] for number in numbers] == [0, 0]
    assert digest(path) in both
    assert os.listdir(tmp_path) == ["model"]


# -- what it costs to refuse a file

#: Says by how many bytes a process grows at most while it reads each of these files in both ways, and what it says.
READER = """
import os, sys
from pegasos import io
import pegasos._models, pegasos._predictor

def told(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith(name))

def read(path, light):
    with open("/proc/self/clear_refs", "w") as peak:
        peak.write("5")
    before = told("VmRSS")
    try:
        io.load(path, light=light)
    except ValueError as error:
        print(told("VmHWM") - before, error, flush=True)

for line in sys.stdin:
    for light in (True, False):
        # What one has taken and not given back must not hide what the next takes.
        child = os.fork()
        if child == 0:
            try:
                read(line.strip(), light)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
    print("done", flush=True)
"""


def sealed(content: Path, change: Callable[[dict[str, Any], dict[str, np.ndarray]], object]) -> bytes:
    """The file, changed by somebody who makes its checksums right."""
    text, tensors = read_model(content)
    state = json.loads(text)
    del state["checksums"], state["sha256"]
    change(state, tensors)
    return model_bytes(json.dumps(state), tensors)


def headed(text: str, rest: bytes = b"") -> bytes:
    return len(text.encode()).to_bytes(8, "little") + text.encode() + rest


def bomb(entry: str) -> bytes:
    """A file of a text alone, with the right checksum."""
    text = f'{{"format": 5, "checksums": {{}}, {entry}'
    seal = hashlib.sha256(f"{text}}}".encode()).hexdigest()
    return headed(json.dumps({"__metadata__": {"pegasos": f'{text}, "sha256": "{seal}"}}'}}))


def wrong_dtype(state: Any, tensors: Any) -> None:
    tensors["trainer.problems.0.b"] = tensors["trainer.problems.0.b"].astype(np.float32)


def longer(state: Any, tensors: Any) -> None:
    tensors["trainer.problems.0.b"] = np.zeros(3)


def declared(state: Any, tensors: Any) -> None:
    for part in (state, state["trainer"]["problems"][0]):
        part["n_features"] = 2**62


def of_a_large_model(path: Path) -> Iterator[tuple[str, bytes]]:
    whole = path.read_bytes()
    yield "truncated", whole[:-1000]
    yield "the last bit", whole[:-1] + bytes([whole[-1] ^ 1])
    yield "the first", bytes([whole[0] ^ 1]) + whole[1:]
    yield "in the header", whole[:300] + bytes([whole[300] ^ 1]) + whole[301:]
    yield "format 99", sealed(path, lambda state, tensors: state.update(format=99))
    yield "one tensor more", sealed(path, lambda state, tensors: tensors.update(more=np.zeros(3)))
    yield "wrong dtype", sealed(path, wrong_dtype)
    yield "wrong length", sealed(path, longer)
    yield "2^62 features", sealed(path, declared)
    yield "NaN at the end", sealed(path, lambda state, tensors: max(tensors.values(), key=len).__setitem__(-1, np.nan))


def of_headers() -> Iterator[tuple[str, bytes]]:
    tensor = '"%d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'
    for count in (1_000_000, 60_000, 20_000):
        yield f"{count} empty tensors", headed("{" + ",".join(tensor % i for i in range(count)) + "}")
    yield "one long text", bomb('"a": "' + "x" * (80 << 20) + '"')
    for part in ("[],", "0,", '{"a":0},', '"a",'):
        for size in (4 << 20, 400_000):
            yield f"{size} bytes of {part}", bomb('"a": [' + part * (size // len(part)) + "0]")
    yield "no text", bytes(20 << 20)
    yield "a pickle", b"\x80\x04\x95" + bytes(20 << 20)


@pytest.mark.parametrize("files", ["of_a_large_model", "of_headers"])
def test_to_refuse_a_file_takes_no_more_than_64_mb_beside_it(files: str, folder: Path, tmp_path: Path) -> None:
    if not os.access("/proc/self/clear_refs", os.W_OK):
        pytest.skip("the system does not tell the peak of a process")
    path, large = tmp_path / "broken", tmp_path / "large"
    # A second copy of a large model would be more than the first of these.
    room = (16 if files == "of_a_large_model" else 64) << 20
    if files == "of_a_large_model":
        X = np.random.default_rng(0).normal(size=(2, 3_000_000))
        io.save(PegasosClassifier(max_iter=1, tol=None, random_state=1).fit(X, [0, 1]), large)
        del X
    package = str(Path(pegasos.__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": package}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", READER], text=True, env=environment, **pipes) as reader:
        assert reader.stdin and reader.stdout
        for name, content in of_a_large_model(large) if files == "of_a_large_model" else of_headers():
            path.write_bytes(content)
            print(path, file=reader.stdin, flush=True)
            for kind in ("light", "whole"):
                grown, _, said = reader.stdout.readline().partition(" ")
                assert said.startswith(f"{path}: not a model file of pegasos: "), f"{name}, {kind}: {grown} {said}"
                assert int(grown) <= len(content) + room, f"{name}, {kind}: {grown} of {len(content)}"
            assert reader.stdout.readline() == "done\n", name
        reader.stdin.close()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EFBIG])
def test_no_room_is_told_with_the_file(code: int, tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(b"before")
    with pytest.raises(OSError, match="model") as raised, io.replacing(path):
        # As of a write, which knows no names.
        raise OSError(code, os.strerror(code))
    assert (raised.value.errno, raised.value.filename) == (code, str(path))
    assert [found.name for found in tmp_path.iterdir()] == ["model"] and path.read_bytes() == b"before"
    with pytest.raises(OSError, match="other") as raised, io.replacing(path):
        raise OSError(errno.ENOENT, "no such file", "other")
    assert raised.value.filename == "other"
