"""At home in the ecosystem: threads, metadata routing, frames, sparse coefficients."""

import json
import os
import threading

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from pegasos import _data
from pegasos._data import thread_count

CORES = thread_count(-1)

#: What lets a process take as many threads as there are cores.
FREE = dict.fromkeys(("PEGASOS_NUM_THREADS", "RAYON_NUM_THREADS", "OMP_NUM_THREADS"), "")


@pytest.fixture
def free(monkeypatch):
    for name in FREE:
        monkeypatch.delenv(name, raising=False)


# -- threads


def ours():
    return [library for library in threadpool_info() if library["user_api"] == "pegasos"]


def test_threadpoolctl_knows_us(free):
    (library,) = ours()
    assert library["filepath"] == os.path.realpath(_data.Examples.__module__ and __import__("pegasos._core")._core.__file__)
    assert library["num_threads"] == thread_count(None) == CORES
