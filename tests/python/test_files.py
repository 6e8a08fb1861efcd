"""Files that somebody has got wrong, on purpose or not: text with its lines, models that declare what is not there."""

from __future__ import annotations

import bz2
import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import every_pair, papers_kernel
from safetensors import numpy as safetensors
from scipy.sparse import csr_matrix
from test_io import written
from test_models import X, Y, trained

from pegasos import _csv, io
from pegasos._core import model_bytes

# The papers' machine is one pass, and says that it is far from the optimum.
pytestmark = pytest.mark.filterwarnings("ignore:fit stopped after max_iter=1 epoch ")


# -- lines


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nan 1:1\n", 'line 1, column 1: the label "nan" is not a finite number'),
        ("1 1:1\n\n# nothing\n-inf 1:2\n", 'line 4, column 1: the label "-inf" is not a finite number'),
        ("1 1:1\n2 1:1e400\n", 'line 2, column 5: the value "1e400" is too large'),
        ("1 1:1\n2 1:1 3:nan\n3 1:1", 'line 2, column 9: the value "nan" is not a finite number'),
        ("1 1:1\n2 x:1\n", 'line 2, column 3: the index "x" is not a whole number'),
        ("1 1:1\n2 1:1:1\n", 'line 2, column 5: the value "1:1" is not a number'),
        ("1 1:1\n\nword 1:1\n", 'line 3, column 1: the label "word" is not a number'),
    ],
)
@pytest.mark.parametrize("ending", [".svm", ".svm.gz", ".svm.bz2"])
def test_faults_of_svmlight_have_lines(text: str, message: str, ending: str, tmp_path: Path) -> None:
    pack = {".svm": bytes, ".svm.gz": gzip.compress, ".svm.bz2": bz2.compress}[ending]
    path = tmp_path / f"data{ending}"
    path.write_bytes(pack(text.encode()))
    with pytest.raises(ValueError, match=re.escape(f"data{ending}: {message}")):
        io.load_svmlight(path)


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "data.svm"
    path.write_bytes("\ufeff1 1:2\n-1 2:1\n".encode())
    table, y = io.load_svmlight(path)
    assert (table.toarray().tolist(), y.tolist()) == ([[2.0, 0.0], [0.0, 1.0]], [1, -1])


def test_endless_lines_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_csv, "_LONGEST_LINE", 1000)
    path = tmp_path / "data.csv"
    path.write_text("1,2,3\n" + "1,1," * 1000 + "\n")
    with pytest.raises(ValueError, match="line 2 is longer than 1,000 bytes"):
        io.read(path)


@pytest.mark.parametrize("label", ["", "²", "+-3", "--1", "1e"])
def test_a_strange_first_label_is_no_heading(label: str, tmp_path: Path) -> None:
    path = written(tmp_path, f"1,2,{label}\n3,4,1\n")
    if label == "":
        with pytest.raises(ValueError, match="line 1, column 3: the label is missing"):
            io.read(path)
    elif label == "1e":
        # A word may be a heading, if it begins with a number too.
        assert io.read(path).feature_names == ["1", "2"]
    else:
        table = io.read(path)
        assert (len(table.X), table.y.tolist()) == (2, [label, "1"])


def test_a_name_needs_a_header(tmp_path: Path) -> None:
    path = written(tmp_path, "1,2,yes\n3,4,no\n")
    with pytest.raises(ValueError, match="it has no header to name a column 'species': its first line is '1, 2, yes'"):
        io.read(path, label="species")


def test_formats_by_name(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_text("1 1:2\n-1 2:1\n")
    assert io.read(path, format="svmlight").y.tolist() == [1, -1]
    with pytest.raises(ValueError, match="the ending must be one of"):
        io.read(path)
    with pytest.raises(ValueError, match="format must be one of"):
        io.read(path, format="xml")


# -- files that declare what is not there


def declared(content: bytes, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> bytes:
    """A model file, changed by somebody who makes its checksums right."""
    size = int.from_bytes(content[:8], "little")
    state = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["pegasos"])
    tensors = {name: values.copy() for name, values in safetensors.load(content).items()}
    change(state, tensors)
    for seal in ("checksums", "sha256"):
        state.pop(seal, None)
    return model_bytes(json.dumps(state), tensors)


LARGE = [2**31, 2**40, 2**62, 2**63 - 1, 2**63, 10**30]


@every_pair(
    entry=["n_features", "classes", "targets", "t", "n_jobs", "all features"],
    estimator=["linear", "jointly", "kernel", "sparse", "budget"],
    value=LARGE,
)
def test_declared_sizes_are_compared(entry: str, estimator: str, value: int, tmp_path: Path) -> None:
    model: Any = {
        "linear": trained,
        "jointly": lambda: trained(multi_class="crammer_singer"),
        "kernel": papers_kernel,
        "sparse": papers_kernel,
        "budget": lambda: papers_kernel(budget=5),
    }[estimator]()
    data = csr_matrix(X) if estimator == "sparse" else X
    path = tmp_path / "model"
    io.save(model.fit(data, Y), path)

    def change(state: dict[str, Any], tensors: dict[str, Any]) -> None:
        trainer = state["trainer"]
        if entry == "n_jobs":
            state["params"]["n_jobs"] = value
        elif entry in ("n_features", "all features"):
            for part in trainer.get("problems", [trainer]):
                part["n_features"] = value
            if entry == "all features":
                state["n_features"] = value
        elif entry in trainer:
            trainer[entry] = value
        else:
            state["n_features"] = value

    path.write_bytes(declared(path.read_bytes(), change))
    if entry == "n_jobs":
        assert (io.load(path).predict(data) == model.predict(data)).all()
    elif entry == "t" and value < 2**62:
        # So many steps may have been done.
        assert np.isfinite(io.load(path).decision_function(data)).all()
    else:
        try:
            again = io.load(path)
        except ValueError as error:
            assert "not a model file" in str(error)
        else:
            # Of a sparse machine any number of features may be 0.
            assert estimator == "sparse" and again.n_features_in_ == value


def test_parameters_of_former_names_are_read(tmp_path: Path) -> None:
    path = tmp_path / "model"
    model = papers_kernel(budget=5, refine=False, refine_rounds=3, random_state=0).fit(X, Y)
    io.save(model, path)

    def change(state: dict[str, Any], _: Any) -> None:
        params = state["params"]
        params["refit"], params["refit_rounds"] = params.pop("refine"), params.pop("refine_rounds")

    path.write_bytes(declared(path.read_bytes(), change))
    again = io.load(path)
    assert again.get_params() == model.get_params()
    assert (again.dual_coef_ == model.dual_coef_).all()


def test_extra_and_strange_tensors_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model"
    io.save(trained(), path)
    good = path.read_bytes()
    name = next(name for name, values in safetensors.load(good).items() if values.size)

    def more(state: dict[str, Any], tensors: dict[str, Any]) -> None:
        tensors["more"] = np.zeros(3)

    def spoil(value: float) -> Callable[[dict[str, Any], dict[str, Any]], None]:
        return lambda state, tensors: tensors[name].__setitem__(0, value)

    for change, message in [
        (more, "'more' that means nothing"),
        (spoil(np.nan), "must be finite"),
        (spoil(np.inf), "must be finite"),
        (lambda state, _: state["trainer"]["params"].update(alpha=1e308), "finite|overflow"),
    ]:
        path.write_bytes(declared(good, change))
        with pytest.raises(ValueError, match=message):
            io.load(path)
    path.write_bytes(declared(good, lambda state, tensors: None))
    assert (io.load(path).coef_ == trained().coef_).all()


def test_every_flipped_byte_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "model"
    io.save(trained(), path)
    good = path.read_bytes()
    before = io.load(path)
    random = np.random.default_rng(0)
    for place in random.choice(len(good), size=300, replace=False):
        bad = bytearray(good)
        bad[place] ^= 1 << int(random.integers(8))
        path.write_bytes(bad)
        try:
            again = io.load(path)
        except ValueError:
            continue
        # Spaces in the header, and the like.
        assert (again.coef_ == before.coef_).all() and again.get_params() == before.get_params()
