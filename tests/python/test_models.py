"""Models in files: nothing is lost, and nothing broken gets in."""

from __future__ import annotations

import json
import os
import random
import re
import stat
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import labelled, papers_linear
from safetensors import numpy as safetensors
from safetensors import safe_open
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from pegasos import KernelPegasosClassifier, OnlineGradientClassifier, PegasosClassifier, io, merge, split
from pegasos._core import Trainer, model_bytes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Change = Callable[[dict[str, Any], dict[str, np.ndarray]], object]

X, Y = labelled(3, 80, 5, 3)
BINARY = (Y > 0).astype(int)


def trained(X: Any = X, y: Any = Y, **params: Any) -> PegasosClassifier:
    """A model after a few epochs, whatever its parameters."""
    params = {"multi_class": "ovr", "max_iter": 3, "tol": None, "random_state": 7, **params}
    return papers_linear(**params).fit(X, y)


def again(model: PegasosClassifier, folder: Path) -> PegasosClassifier:
    io.save(model, folder / "model")
    return io.load(folder / "model")


def assert_same(ours: PegasosClassifier, theirs: PegasosClassifier) -> None:
    """Whatever can be asked of both has the same answer, to the last bit."""
    public = {name for name in vars(ours) if name.endswith("_")}
    assert public == {name for name in vars(theirs) if name.endswith("_")}
    for name in [*sorted(public), "coef_", "intercept_"]:
        one, other = np.asarray(getattr(ours, name)), np.asarray(getattr(theirs, name))
        assert one.dtype == other.dtype, name
        assert one.tolist() == other.tolist() or one.tobytes() == other.tobytes(), name
    assert (ours._seed, ours._epoch) == (theirs._seed, theirs._epoch)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"average": True},
        {"average": 5, "batch_size": 7},
        {"loss": "log_loss", "learning_rate": "constant", "eta0": 0.1},
        {"loss": "squared_hinge", "projection": True},
        {"fit_intercept": False, "t0": 10.0},
        {"class_weight": {0: 1.0, 1: 2.0, 2: 0.5}, "sampling": "blocks"},
        {"sampling": np.arange(80)[::-1]},
        {"solver": "dual"},
        {"shards": 3, "average": "uniform"},
        {"multi_class": "crammer_singer"},
        {"multi_class": "crammer_singer", "average": True, "projection": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_training_goes_on_bit_for_bit(params: dict[str, Any], dtype: Any, tmp_path: Path) -> None:
    rows = X.astype(dtype)
    model = trained(rows, **params)
    loaded = again(model, tmp_path)
    assert_same(model, loaded)
    assert model.decision_function(X).tobytes() == loaded.decision_function(X).tobytes()
    # An explicit order names 80 rows.
    given = isinstance(params.get("sampling"), np.ndarray)
    for part in [slice(0, 80)] if given else [slice(50, 80), slice(0, 20)]:
        before = loaded.coef_
        model.partial_fit(rows[part], Y[part])
        loaded.partial_fit(rows[part], Y[part])
        assert_same(model, loaded)
        assert (loaded.coef_ != before).any()


def test_a_certified_fit_comes_back(tmp_path: Path) -> None:
    model = trained(y=BINARY, alpha=0.1, tol=0.1, max_iter=1000)
    loaded = again(model, tmp_path)
    assert_same(model, loaded)
    assert 0.0 < loaded.duality_gap_ <= 0.1 * loaded.objective_


def learner(rows: Any = X, **params: Any) -> OnlineGradientClassifier:
    """An online learner with gradients in flight."""
    return OnlineGradientClassifier(**{"delay": 3, "random_state": 7, **params}).fit(rows, Y)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"delay": 0},
        {"radius": None, "alpha": 0.1, "learning_rate": "pegasos"},
        {"radius": np.float32(2.5), "delay": np.int64(2)},
        {"loss": "log_loss", "multi_class": "ovr", "average": "uniform"},
    ],
    ids=str,
)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_online_learners(form: Any, dtype: Any, params: dict[str, Any], tmp_path: Path) -> None:
    rows = form(X.astype(dtype))
    model = learner(rows, **params)
    loaded = again(model, tmp_path)
    assert type(loaded) is OnlineGradientClassifier
    assert loaded.get_params() == model.get_params()
    assert_same(model, loaded)
    for part in [slice(50, 51), slice(0, 20)]:
        model.partial_fit(rows[part], Y[part])
        loaded = again(loaded.partial_fit(rows[part], Y[part]), tmp_path)
        assert_same(model, loaded)


def test_sparse_stream_goes_on(tmp_path: Path) -> None:
    rows = sp.csr_matrix(np.where(np.abs(X) > 0.3, X, 0.0))
    model = papers_linear(multi_class="ovr", random_state=0)
    model.partial_fit(rows[:20], Y[:20], classes=[0, 1, 2])
    loaded = again(model, tmp_path)
    for start in range(20, 80, 20):
        part = rows[start : start + 20], Y[start : start + 20]
        model.partial_fit(*part)
        loaded = again(loaded.partial_fit(*part), tmp_path)
    assert_same(model, loaded)
    assert loaded.t_ == 80


@pytest.mark.parametrize(
    "classes",
    [
        np.array([-1, 1]),
        np.array([3, 5, 200], dtype=np.uint8),
        np.array([False, True]),
        np.array([-1.0, 1.0]),
        np.array([0.0, 1.0, 2.0], dtype=np.float32),
        np.array(["no", "yes"]),
        np.array(["a", "b", "ä\n\0c"]),
        np.array(["", "a", "b\0"], dtype=object),
    ],
    ids=lambda classes: f"{classes.dtype}-{len(classes)}",
)
def test_labels_of_any_kind(classes: np.ndarray, tmp_path: Path) -> None:
    model = trained(y=classes[Y % len(classes)])
    loaded = again(model, tmp_path)
    assert_same(model, loaded)
    assert loaded.predict(X).tolist() == model.predict(X).tolist()
    assert {type(label) for label in loaded.classes_} == {type(label) for label in classes}


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ({"class_weight": {False: 1.0, True: 2.0}}, {False: 1.0, True: 2.0}),
        ({"class_weight": {np.int64(0): np.float32(0.5), 1: 2}}, {0: 0.5, 1: 2}),
        ({"class_weight": {0.0: 1.0, 1.0: 3.0}}, {0.0: 1.0, 1.0: 3.0}),
        ({"class_weight": {"dict": 1.0, "other": 3.0}}, {"dict": 1.0, "other": 3.0}),
        ({"class_weight": {"float": 2.0}}, {"float": 2.0}),
        ({"class_weight": {}}, {}),
        ({"class_weight": "balanced"}, "balanced"),
        ({"sampling": np.array([3, 1, 2], dtype=np.int32)}, [3, 1, 2]),
        ({"sampling": (0, np.int64(5))}, [0, 5]),
        ({"alpha": np.float32(0.1)}, float(np.float32(0.1))),
        ({"alpha": 1e-320}, 1e-320),
        ({"fit_intercept": np.bool_(False)}, False),
        ({"average": np.int64(4)}, 4),
        ({"tol": None}, None),
    ],
    ids=str,
)
def test_parameters_keep_values_and_types(
    given: dict[str, Any], want: Any, tmp_path: Path
) -> None:
    (name,) = given
    value = getattr(again(trained(y=BINARY).set_params(**given), tmp_path), name)
    assert value == want
    assert type(value) is type(want)
    if isinstance(want, dict):
        assert [type(key) for key in value] == [type(key) for key in want]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "random_state",
            np.random.RandomState(0),
            r"random_state must be an int or None to be saved, got RandomState\(",
        ),
        ("sampling", [object()], r"sampling.0 must be made of .* to be saved, got <object"),
        ("class_weight", {(0, 1): 1.0}, r"class_weight must be made of .* to be saved"),
        ("alpha", -1.0, r"'alpha' parameter .* Got -1.0"),
    ],
)
def test_parameters_that_no_file_can_hold(
    name: str, value: Any, message: str, tmp_path: Path
) -> None:
    model = trained().set_params(**{name: value})
    with pytest.raises(ValueError, match=message):
        io.save(model, tmp_path / "model")
    assert os.listdir(tmp_path) == []


def test_halves_of_characters_are_in_no_file(tmp_path: Path) -> None:
    half = "a\udcff"
    labels = np.array(["a", "b", half])[Y]
    for model, entry in [
        (trained(y=labels), "classes"),
        (Pipeline([(half, StandardScaler()), ("model", PegasosClassifier())]).fit(X, Y), "steps"),
        (Pipeline([("scale", StandardScaler()), (half, PegasosClassifier())]).fit(X, Y), "pipeline"),
    ]:
        with pytest.raises(ValueError, match=f"{entry} must hold texts that UTF-8 can hold to be saved, got .*udcff"):
            io.save(model, tmp_path / "model")
    assert os.listdir(tmp_path) == []
    whole = trained(y=np.array(["a", "b", "\U0001f600"])[Y])
    assert again(whole, tmp_path).classes_.tolist() == whole.classes_.tolist()


def test_what_is_no_fitted_estimator_of_ours(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        io.save(papers_linear(), tmp_path / "model")
    with pytest.raises(ValueError, match="Pegasos.* to be saved, got a SGDClass"):
        io.save(SGDClassifier().fit(X, Y), tmp_path / "model")
    with pytest.raises(ValueError, match="Pegasos.* to be saved, got a Ours"):
        io.save(type("Ours", (PegasosClassifier,), {})(), tmp_path / "model")
    assert os.listdir(tmp_path) == []


def test_steps_of_other_features_than_the_estimators_are_in_no_file(tmp_path: Path) -> None:
    for step, given in [
        (StandardScaler().fit(X[:, :3]), 3),
        (MaxAbsScaler().fit(X[:, :4]), 4),
        (HashingVectorizer(n_features=64), 64),
    ]:
        model = Pipeline([("first", step), ("model", trained())])
        with pytest.raises(ValueError, match=f"its step 'first' has {given} features, its PegasosClassifier 5$"):
            io.save(model, tmp_path / "model")
    assert os.listdir(tmp_path) == []


def test_feature_names(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abcde"))
    model = trained(frame)
    loaded = again(model, tmp_path)
    assert_same(model, loaded)
    assert loaded.predict(frame).tolist() == model.predict(frame).tolist()
    with pytest.raises(ValueError, match="feature names should match"):
        loaded.predict(frame[list("edcba")])


def test_a_loaded_model_is_an_estimator_like_any(tmp_path: Path) -> None:
    loaded = again(trained(), tmp_path)
    assert_same(clone(loaded).fit(X, Y), loaded)


def test_equal_models_give_equal_files(tmp_path: Path) -> None:
    io.save(trained(), tmp_path / "one")
    io.save(trained(), tmp_path / "other")
    io.save(trained(random_state=8), tmp_path / "third")
    one, other, third = ((tmp_path / name).read_bytes() for name in ("one", "other", "third"))
    assert one == other != third


def test_a_failed_save_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model"
    io.save(trained(), path)
    old = path.read_bytes()
    for name, error in [("fsync", OSError(28, "No space left")), ("replace", KeyboardInterrupt())]:
        def fail(*_: Any, error: BaseException = error) -> None:
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(os, name, fail)
            with pytest.raises(type(error)):
                io.save(trained(random_state=8), path)
        assert os.listdir(tmp_path) == ["model"]
        assert path.read_bytes() == old


def test_saving_over_a_file_keeps_its_mode_and_links(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.touch()
    real.chmod(0o640)
    link.symlink_to(real)
    io.save(trained(), link)
    assert link.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert_same(io.load(real), trained())


def test_folders_and_missing_files(tmp_path: Path) -> None:
    for path in (tmp_path / "none" / "model", tmp_path):
        with pytest.raises(OSError, match=re.escape(repr(str(path)))):
            io.save(trained(), path)
    with pytest.raises(FileNotFoundError):
        io.load(tmp_path / "none")
    with pytest.raises(OSError, match=re.escape(str(tmp_path))):
        io.load(tmp_path)
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in folders")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for light in (True, False):
        with pytest.raises(ValueError, match="pipe: not a model file of pegasos: it is no regular file"):
            io.load(tmp_path / "pipe", light=light)


# -- broken model files


def load_or_refuse(path: Path, content: bytes) -> bool:
    """Whether these bytes are a model; anything but a model or a ValueError fails the test."""
    path.write_bytes(content)
    for light in (True, False):
        try:
            model: Any = io.load(path, light=light)
        except ValueError as error:
            assert str(error).startswith(f"{path}: not a model file of pegasos: ")
            assert "\n" not in str(error)
            return False
        assert model.predict(np.zeros((2, model.n_features_in_))).shape == (2,)
    return True


@pytest.mark.parametrize("make", [lambda: trained(average=True), learner])
def test_truncated_files(make: Callable[[], Any], tmp_path: Path) -> None:
    io.save(make(), tmp_path / "model")
    whole = (tmp_path / "model").read_bytes()
    assert load_or_refuse(tmp_path / "broken", whole)
    for length in [*range(0, len(whole), 97), len(whole) - 1]:
        assert not load_or_refuse(tmp_path / "broken", whole[:length])
    assert not load_or_refuse(tmp_path / "broken", whole + b"\0")


@pytest.mark.parametrize("make", [lambda: trained(average=True), learner])
def test_flipped_bytes(make: Callable[[], Any], tmp_path: Path) -> None:
    io.save(make(), tmp_path / "model")
    whole = (tmp_path / "model").read_bytes()
    dice = random.Random(0)
    for _ in range(500):
        broken = bytearray(whole)
        for _ in range(dice.choice([1, 1, 3])):
            byte = dice.choice([dice.randrange(256), *b'0129"[]{},-.'])
            broken[dice.randrange(len(whole))] = byte
        # A byte may have been what it is changed to.
        unchanged = bytes(broken) == whole
        assert load_or_refuse(tmp_path / "broken", bytes(broken)) == unchanged


@pytest.mark.parametrize("content", [b"", b"no model", b"{" * 1000, b"\x80\x04N.", b"\0" * 1000])
def test_files_of_other_kinds(content: bytes, tmp_path: Path) -> None:
    assert not load_or_refuse(tmp_path / "broken", content)


def changed(folder: Path, change: Change) -> Path:
    """A model file whose checksums are right, but with its content changed."""
    io.save(trained(average=True), folder / "model")
    with safe_open(folder / "model", framework="np") as file:
        state = json.loads(file.metadata()["pegasos"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    del state["checksums"], state["sha256"]
    change(state, tensors)
    (folder / "changed").write_bytes(model_bytes(json.dumps(state), tensors))
    return folder / "changed"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s, t: s.update(format=1), "its format is 1, this version reads formats 4 to 5"),
        (lambda s, t: s.update(format=99), "its format is 99, this version reads formats 4 to 5"),
        (lambda s, t: s.update({"class": "Popen"}), "holds a 'Popen', not a .*PegasosClassifier"),
        (lambda s, t: s["params"].update(spin=1), "no parameter 'spin'"),
        (lambda s, t: s["params"].update(alpha=-1), "'alpha' parameter .* Got -1"),
        (lambda s, t: s["params"].update(class_weight={"tensor": "x"}), "damaged"),
        (lambda s, t: s.pop("classes"), "no entry 'classes'"),
        (lambda s, t: s["classes"].update(values=[0, 1]), "weights must have shape"),
        (lambda s, t: s["classes"].update(values=[2, 1, 0]), "in rising order"),
        (lambda s, t: s["classes"].update(values=["a", "b", "c"]), "classes of dtype int64 cannot"),
        (lambda s, t: s["classes"].update(dtype="U999999999"), "'U999999999'"),
        (lambda s, t: s["classes"].update(dtype="complex128"), "cannot have dtype 'complex128'"),
        (lambda s, t: s.update(n_features=4), "weights must have shape"),
        (lambda s, t: s.update(n_features=True), "n_features must be a whole number"),
        (lambda s, t: s.update(seed=-1), "seed must be a whole number"),
        (lambda s, t: s.update(epoch=2**64), "epoch must be a whole number"),
        (lambda s, t: s.update(feature_names=["a"]), "feature_names must be 5 strings"),
        (lambda s, t: s.update(loss_curve=["high"]), "losses and objectives must be floats"),
        (lambda s, t: s["trainer"].update(format=99), "must have format 2, got 99"),
        (lambda s, t: s["trainer"].update(t=-1), "damaged"),
        (lambda s, t: s["trainer"].update(problems=[]) or t.clear(), "one problem for each target"),
        (lambda s, t: s["trainer"].update(problems=[]), "tensor 'trainer.problems.0.b' that means nothing"),
        (lambda s, t: t.pop("trainer.problems.1.v"), "tensor 'trainer.problems.1.v' that is not there"),
        (
            lambda s, t: t.update({"trainer.problems.1.v": np.zeros(4)}),
            "v must have 5 entries, got 4",
        ),
        (
            lambda s, t: t.update({"trainer.problems.1.v": np.zeros((1, 5))}),
            "wrong type or shape",
        ),
        (
            lambda s, t: t.update({"trainer.problems.0.u": np.zeros(5, np.float32)}),
            "wrong type or shape",
        ),
    ],
)
def test_changed_files(change: Change, message: str, tmp_path: Path) -> None:
    path = changed(tmp_path, change)
    with pytest.raises(ValueError, match=message) as caught:
        io.load(path)
    assert str(caught.value).startswith(f"{path}: not a model file of pegasos: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        lambda f: f.update(values=f["values"][:4]),
        lambda f: f.update(values=np.append(f["values"], 1.0)),
        lambda f: f.update(values=f["values"] * np.nan),
        lambda f: f.update(coef=[np.inf for _ in f["coef"]]),
        lambda f: f.update(coef=f["coef"][:-1]),
        lambda f: f.update(indices=np.array([0, 1, 2, 3, 5])),
        lambda f: f.update(indices=np.array([0, 1, 2, 3, -1])),
        lambda f: f.update(indices=np.array([0, 1])),
        lambda f: f.pop("coef"),
    ],
)
def test_damaged_gradients_in_flight(change: Callable[..., Any]) -> None:
    parts = learner()._trainer.parts()
    Trainer.from_parts(parts)
    flights = [flight for flight in parts["problems"][0]["flights"] if any(flight["coef"])]
    assert flights
    change(flights[0])
    with pytest.raises((ValueError, TypeError)):
        Trainer.from_parts(parts)


def test_what_the_changes_start_from_is_sound(tmp_path: Path) -> None:
    assert_same(io.load(changed(tmp_path, lambda s, t: None)), trained(average=True))


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}, {"pegasos": "no json"}])
def test_safetensors_files_of_others(metadata: dict[str, str] | None, tmp_path: Path) -> None:
    safetensors.save_file({"weight": np.zeros(3)}, tmp_path / "theirs", metadata)
    with pytest.raises(ValueError, match="theirs: not a model file of pegasos"):
        io.load(tmp_path / "theirs")


@pytest.mark.parametrize(
    ("model", "later"),
    [
        (PegasosClassifier("hinge", alpha=1e-3, average=True), {"alpha": 0.5}),
        (PegasosClassifier("hinge", alpha=1e-3, average=True), {"average": False}),
        (PegasosClassifier("hinge", alpha=1e-3), {"alpha": 0.1, "half_life": 50.0}),
        (KernelPegasosClassifier(gamma=0.3, alpha=1e-3, budget=20), {"alpha": 0.5}),
        (OnlineGradientClassifier(radius=5.0), {"radius": 0.1}),
    ],
)
def test_what_is_set_after_training_is_for_the_next(model: Any, later: dict[str, Any], tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    rows = random.standard_normal((300, 4))
    y = rows[:, 0] + 0.3 * random.standard_normal(300) > 0
    model.partial_fit(rows[:200], y[:200], classes=[False, True])
    shared = [copy.set_params(**later) for copy in split(model, 2)]
    model.set_params(**later)
    io.save(model, tmp_path / "model")
    stored, merged, apart = io.load(tmp_path / "model"), merge([model]), split(model, 2)
    if "alpha" in later:
        assert stored.alpha_ == merged.alpha_ == model.alpha_ == 1e-3
    for each in (model, stored, merged, *shared, *apart):
        each.partial_fit(rows[200:], y[200:])
    for one, other in [(stored, model), (merged, model), *zip(apart, shared, strict=True)]:
        np.testing.assert_allclose(one.decision_function(rows), other.decision_function(rows), rtol=1e-9)
        assert one.get_params() == other.get_params()


def test_what_gives_coefficients_their_meaning_stays_in_a_file_too(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).standard_normal((60, 4))
    model = KernelPegasosClassifier(gamma=0.3, budget=20).partial_fit(rows, rows[:, 0] > 0)
    io.save(model.set_params(gamma=3.0), tmp_path / "model")
    with pytest.raises(ValueError, match="must stay as they are"):
        io.load(tmp_path / "model").partial_fit(rows, rows[:, 0] > 0)
