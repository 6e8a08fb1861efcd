"""``pegasos train`` in passes: what it learns, what it leaves behind when it is stopped, and how it goes on."""

from __future__ import annotations

import os
import pathlib
import pickle
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas
import pytest
from conftest import assert_refused, labelled
from sklearn.datasets import dump_svmlight_file
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from pegasos import KernelPegasosClassifier, PegasosClassifier, io
from pegasos import _train as training

if TYPE_CHECKING:
    from pathlib import Path

X, Y = labelled(5, 600, 4, 3)
#: Passes in windows of so many rows: several in a pass, and one that is smaller.
IN_PASSES = "--passes 2 --window 128 --seed 3"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with some data."""
    monkeypatch.chdir(tmp_path)
    dump_svmlight_file(X, Y, "three.svm", zero_based=False)
    words = np.array(["maybe", "no", "yes"])[Y]
    rows = [",".join([*map(repr, row), word]) for row, word in zip(X.tolist(), words.tolist(), strict=True)]
    (tmp_path / "words.csv").write_text("a,b,c,d,answer\n" + "\n".join(rows) + "\n")
    np.save("rows.npy", np.column_stack([X, Y]))
    return tmp_path


def trained(run: Any, line: str) -> Any:
    """The model that a command line leaves in ``model``, without the names of its features: it is asked about arrays."""
    status, _, err = run(f"train {line} -o model")
    assert status == 0, err
    model = io.load("model")
    model.__dict__.pop("feature_names_in_", None)
    return model


def by_hand(estimator: Any, n_passes: int = 2) -> Any:
    for rows, labels in io.stream("three.svm", 128, passes=n_passes, shuffle=128, random_state=3):
        estimator.partial_fit(rows, labels)
        if getattr(estimator, "budget_", None):
            # The command goes on as a model from a file does, which counts on a budget.
            estimator = pickle.loads(pickle.dumps(estimator))
    return estimator


def same_bits(one: Any, other: Any) -> None:
    assert one.t_ == other.t_
    for each in (lambda model: model.decision_function(X), lambda model: getattr(model, "dual_coef_", model.intercept_)):
        assert each(one).tobytes() == each(other).tobytes()


def test_passes_are_those_of_a_stream(run: Any) -> None:
    model = trained(run, f"three.svm {IN_PASSES} --alpha 0.01")
    same_bits(model, by_hand(PegasosClassifier(alpha=0.01, average="polynomial", random_state=3)))
    assert model.t_ == 2 * len(Y) and model.score(X, Y) > 0.85


def test_what_is_said(run: Any) -> None:
    status, out, err = run(f"train three.svm -o model {IN_PASSES}")
    said = dict(line.split("  ", 1) for line in out.splitlines())
    assert (status, err) == (0, "")
    assert said["examples"].strip() == "600 x 4 features"
    assert said["classes"].strip() == "3: 0, 1, 2"
    assert said["passes"].strip() == "2"
    # Of the first window nothing could be said before.
    assert said["accuracy as they came"].endswith("on 472 examples of the first pass")
    assert run(f"train three.svm -o model {IN_PASSES} -q")[1:] == ("", "")


@pytest.mark.parametrize("data", ["words.csv --label answer", "words.csv --target answer --float32", "rows.npy --label 4", "rows.npy"])
def test_other_files(run: Any, data: str) -> None:
    model = trained(run, f"{data} {IN_PASSES}")
    assert model.classes_.tolist() == (["maybe", "no", "yes"] if "csv" in data else [0, 1, 2])
    assert model.n_features_in_ == 4 and model.t_ == 2 * len(Y)
    assert model._trainer.made.dtype == ("float32" if "float32" in data else "float64")


def test_parquet(run: Any) -> None:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {name: X[:, k] for k, name in enumerate("abcd")}
    parquet.write_table(arrow.table({"answer": Y} | columns), "big.parquet", row_group_size=100)
    model = trained(run, "big.parquet --target answer --kernel rbf --budget 50 --passes 3 --seed 0 --gamma 1")
    assert model.budget_ == 50 and model.score(X, Y) > 0.85
    assert_refused(run("train big.parquet --target word --passes 1 -o model"), "has 0 columns 'word'")


def test_columns(run: Any, here: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = {"id": [f"no {k}" for k in range(len(Y))]} | {name: X[:, k] for k, name in enumerate("abcd")} | {"answer": Y}
    parquet.write_table(arrow.table(table), "wide.parquet")
    rows = zip(*(map(str, column) for column in table.values()), strict=True)
    (here / "wide.csv").write_text("\n".join(",".join(row) for row in [tuple(table), *rows]) + "\n")
    np.save("three.npy", np.c_[X, Y][:, [3, 0, 1, 4]].copy())
    for how in ("--seed 0", "--seed 3 --passes 2 --window 128"):
        weights = trained(run, f"three.npy {how}").coef_
        for data in ("wide.parquet", "wide.csv"):
            model = trained(run, f"{data} {how} --columns d,a,b")
            assert (model.coef_ == weights).all()
            expected = model.predict(X[:, [3, 0, 1]])
            assert run(f"predict model {data} --columns d,a,b") == (0, "".join(f"{label}\n" for label in expected), "")
            assert run(f"predict model {data} --columns d,a,b --label none")[1] == run(f"predict model {data} --columns d,a,b")[1]
            assert run(f"evaluate model {data} --columns d,a,b")[1].startswith(f"accuracy {np.mean(expected == Y):.4f}")
            assert_refused(run(f"train {data} {how} -o model --columns d,answer"), "column 'answer' holds the labels")
            assert_refused(run(f"train {data} {how} -o model --columns d,x"), "has 0 columns 'x'")
            assert_refused(run(f"predict model {data} --columns d,a"), "have 2 features, those of the model have 3")
        for options in ("", "--n-features 4"):
            assert_refused(run(f"train three.svm {how} -o model --columns d {options}"), "columns goes with csv, tsv, parquet")


@pytest.mark.parametrize("how", ["", "--passes 2 --window 128", "--passes 2 --window 128 --cache", "--scale", "--passes 1 --scale"])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_names_of_features_stay_with_the_model(run: Any, kind: str, how: str) -> None:
    """A table whose columns stand in another order is refused, and not taken for what it is not."""
    frame = pandas.DataFrame(X, columns=list("abcd"))
    for name, columns in {"train": "abcd", "other": "bacd", "less": "abc"}.items():
        table = frame[list(columns)].assign(answer=Y)
        table.to_csv(f"{name}.csv", index=False) if kind == "csv" else table.to_parquet(f"{name}.parquet")
    assert run(f"train train.{kind} -o model --seed 0 {how}")[0] == 0
    model = io.load("model")
    assert model.feature_names_in_.tolist() == list("abcd")
    expected = "".join(f"{label}\n" for label in model.predict(frame))
    for data in ("train", "other --columns a,b,c,d"):
        data, _, columns = data.partition(" ")
        assert run(f"predict model {data}.{kind} {columns}") == (0, expected, "")
    for command in ("predict", "evaluate"):
        # Of as many columns as the model has features none is the label's.
        for data, names in {"other": "'b', 'a', 'c', 'd'", "less": "'a', 'b', 'c', 'answer'"}.items():
            refusal = rf"its features are \[{names}\], those of the model \['a', 'b', 'c', 'd'\]"
            assert_refused(run(f"{command} model {data}.{kind}"), refusal)
        assert_refused(run(f"{command} model less.{kind} --label answer"), "have 3 features, those of the model have 4")
    # What has no names is taken as it stands.
    np.savetxt("bare.csv", X, delimiter=",", fmt="%.17g")
    assert run("predict model bare.csv --label none") == (0, expected, "")
    if "--passes" in how:
        go_on = how.replace("--passes 2", "--passes 3").replace("--passes 1", "--passes 2")
        assert_refused(run(f"train other.{kind} -o model --seed 0 {go_on} --resume"), "its features are")
        assert run(f"train train.{kind} -o model --seed 0 {go_on} --resume")[0] == 0
        assert io.load("model").feature_names_in_.tolist() == list("abcd")
        # Nor are they forgotten where rows come without.
        np.savetxt("bare.csv", np.c_[X, Y], delimiter=",", fmt="%.17g")
        go_on = go_on.replace("--passes 3", "--passes 4").replace("--passes 2", "--passes 4")
        assert run(f"train bare.csv -o model --seed 0 {go_on} --resume")[0] == 0
        assert io.load("model").feature_names_in_.tolist() == list("abcd")


def test_whatever_passes_can_read_is_read_at_once_too(run: Any, capsys: Any) -> None:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import feather, parquet

    table = arrow.table({name: X[:, k] for k, name in enumerate("abcd")} | {"answer": Y})
    os.mkdir("parts")
    for k in range(3):
        parquet.write_table(table.slice(200 * k, 200), f"parts/{k}.parquet")
    feather.write_feather(table, "rows.feather")
    feather.write_feather(table.drop_columns("answer"), "bare.feather")
    np.save("bare.npy", X)
    model = trained(run, "rows.npy --seed 0")
    expected = "".join(f"{label}\n" for label in model.predict(X))
    for data in ("parts", "rows.feather", "rows.npy", "bare.feather", "bare.npy"):
        assert run(f"predict model {data}") == (0, expected, "")
    for data in ("parts", "rows.feather", "rows.npy"):
        assert run(f"evaluate model {data}")[1].startswith(f"accuracy {model.score(X, Y):.4f}")
        same_bits(trained(run, f"{data} --seed 0"), model)
    assert_refused(run("predict model rows.npz"), "rows.npz")
    assert_refused(run("train parts -o model --label word"), "has 0 columns 'word'")


def test_words_are_hashed(run: Any, here: Path) -> None:
    rows = [f"{word},{x!r},{'yes' if word in 'ab' else 'no'}" for word, x in zip("abcdef" * 100, X[:, 0].tolist(), strict=True)]
    (here / "mixed.csv").write_text("colour,size,answer\n" + "\n".join(rows) + "\n")
    for options in ("", "--passes 2 --window 128"):
        model = trained(run, f"mixed.csv --label answer --hashing 256 --seed 0 {options}")
        assert model.n_features_in_ == 256
        assert run("evaluate model mixed.csv --label answer --hashing 256")[1].startswith("accuracy 1.0000")
    for n in (64, 255, 257, 1024):
        for command in ("evaluate", "predict"):
            refused = run(f"{command} model mixed.csv --label answer --hashing {n}")
            assert_refused(refused, f"mixed.csv: hashing must be as it was for the model, which has 256 features, got one that makes {n}")
    assert_refused(run("train mixed.csv -o model --label answer --passes 1"), "mixed.csv: line 2, column 1: 'a' is not a number")
    assert_refused(run("train three.svm -o model --hashing 16 --passes 1"), "hashing goes with csv")


@pytest.mark.parametrize("option", ["--cache", "--cache-file kept"])
def test_a_cache_changes_nothing_for_the_next_run(run: Any, here: Path, option: str) -> None:
    """Nor does it matter who has written it."""
    line = f"three.svm {IN_PASSES} {option}"
    model = trained(run, line)
    name = "three.svm.pegasos-cache" if option == "--cache" else "kept"
    before = (here / name).read_bytes()
    same_bits(trained(run, line), model)
    assert (here / name).read_bytes() == before
    assert model.t_ == 2 * len(Y) and model.score(X, Y) > 0.85
    with open("three.svm", "a") as file:
        file.write("1 1:1\n")
    status, out, err = run(f"train -o model {line}")
    assert status == 0 and "601 x 4" in out
    assert err.startswith("pegasos: warning: ") and "the source has changed since; it is written anew" in err


@pytest.mark.parametrize("refined", [True, False])
def test_kernel_machines_are_on_a_budget(run: Any, refined: bool) -> None:
    options = f"three.svm {IN_PASSES} --kernel rbf --gamma 1" + ("" if refined else " --no-refine")
    model = trained(run, options)
    assert model.budget_ == 1000
    mine = by_hand(KernelPegasosClassifier("rbf", gamma=1.0, budget=1000, refine=refined, random_state=3))
    if refined:
        mine.refit(io.stream("three.svm", 128, shuffle=128, random_state=3))
    same_bits(model, mine)
    unbounded = trained(run, f"three.svm {IN_PASSES} --kernel rbf --gamma 1 --budget none")
    assert unbounded.budget_ is None and unbounded.t_ == 2 * len(Y)


@pytest.mark.parametrize(("data", "scaler"), [("three.svm", MaxAbsScaler), ("rows.npy", StandardScaler)])
def test_scales_are_found_first(run: Any, data: str, scaler: Any) -> None:
    model = trained(run, f"{data} {IN_PASSES} --scale")
    mine = scaler().fit(X)
    assert type(model[0]) is scaler
    np.testing.assert_allclose(model[0].scale_, mine.scale_, rtol=1e-12)
    assert model.score(X, Y) > 0.85


def test_large_files_are_learned_from_in_passes(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "_LARGE", os.path.getsize("three.svm") - 1)
    status, _, err = run("train three.svm -o model --seed 0")
    assert status == 0
    assert err.startswith("pegasos: three.svm has more than 1 GB: --passes 3")
    assert io.load("model").t_ == 3 * len(Y)
    assert run("train three.svm -o model --seed 0 -q")[2] == ""
    assert_refused(run("train three.svm -o model -q --test-size 0.1"), "--test-size does not go with --passes")
    assert run("train three.svm -o model --passes none --tol 0.01 -q") == (0, "", "")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--max-iter 3", "--max-iter does not go with --passes; --passes none"),
        ("--tol 0.1", "--tol does not go with --passes"),
        ("--solver dual", "--solver does not go with --passes"),
        ("--shards 2", "--shards does not go with --passes"),
        ("--test-size 0.5", "--test-size does not go with --passes"),
        ("--label none", "training needs labels"),
        ("--passes 0", "argument --passes: must be an int >= 1, 'none' or 'auto', got '0'"),
        ("--window 0", "argument --window: must be an int >= 1, got '0'"),
        ("--save-every nan", "argument --save-every: must be a number >= 0, got 'nan'"),
        ("--n-features 3", "three.svm: line 1, column .*4.* 3"),
        ("--metric full --kernel rbf", "--metric does not go with --passes"),
        ("--calibration sigmoid --kernel rbf", "--calibration needs --no-refine with --passes"),
    ],
)
def test_what_does_not_go_with_passes(run: Any, options: str, message: str) -> None:
    assert_refused(run(f"train three.svm -o model --passes 2 {options}"), message)
    assert not os.path.exists("model")


@pytest.mark.parametrize("option", ["--cache", "--cache-file c", "--resume", "--window 10"])
def test_what_needs_passes(run: Any, option: str) -> None:
    assert_refused(run(f"train three.svm -o model {option}"), f"{option.split()[0]} needs --passes")


def test_probabilities_for_readers_without_scikit_learn(run: Any) -> None:
    model = trained(run, f"three.svm {IN_PASSES} --calibration sigmoid")
    light = io.load("model", light=True)
    assert light.has_probabilities
    np.testing.assert_allclose(light.predict_proba(X), model.predict_proba(X), rtol=1e-12)


def test_empty_files(run: Any, here: Path) -> None:
    (here / "empty.svm").write_text("")
    assert_refused(run("train empty.svm -o model --passes 2"), "empty.svm.* holds no examples")
    (here / "one.svm").write_text("1 1:2\n" * 5)
    for kernel in ("", "--kernel rbf"):
        assert_refused(
            run(f"train one.svm -o model --passes 2 {kernel}"), "one.svm: training needs two classes, all its examples are of 1"
        )


# -- stopped, and gone on with


#: Training that is killed after so many batches were learned from, in such a way.
STOPPED = """
import os, signal, sys
from pegasos import PegasosClassifier, KernelPegasosClassifier, cli
count = 0
def after_some(whole):
    def partial_fit(self, *arguments, **keywords):
        global count
        count += 1
        if count > {after}:
            os.kill(os.getpid(), signal.{signal})
        return whole(self, *arguments, **keywords)
    return partial_fit
for kind in (PegasosClassifier, KernelPegasosClassifier):
    kind.partial_fit = after_some(kind.partial_fit)
sys.exit(cli.main({line!r}.split()))
"""


@pytest.mark.parametrize(
    ("kernel", "after"),
    [
        *[("", after) for after in (4, 5)],
        *[("--cache", after) for after in (1, 5)],
        *[("--kernel rbf --gamma 1 --budget 20", after) for after in (4, 8)],
    ],
)
def test_a_run_that_was_killed_goes_on(run: Any, run_forked: Any, kernel: str, after: int) -> None:
    line = f"train three.svm -o {{}} {IN_PASSES} --save-every 0 {kernel}"
    done = run_forked(STOPPED.format(after=after, signal="SIGKILL", line=line.format("stopped")))
    assert done.returncode == -signal.SIGKILL
    assert io.load("stopped").t_ < 2 * len(Y)
    assert run(line.format("stopped") + " --resume")[0] == 0
    assert run(line.format("whole"))[0] == 0
    same_bits(io.load("stopped"), io.load("whole"))


def test_an_interrupt_leaves_what_was_learned(run: Any, run_forked: Any) -> None:
    line = f"train three.svm -o model {IN_PASSES}"
    done = run_forked(STOPPED.format(after=3, signal="SIGINT", line=line))
    assert done.returncode == 130
    assert done.stderr.splitlines() == [
        "pegasos: model has learned from 384 examples; --resume goes on from there",
        "pegasos: interrupted",
    ]
    assert io.load("model").t_ == 384
    status, out, _ = run(f"{line} --resume")
    assert status == 0 and "600 x 4" in out
    same_bits(io.load("model"), by_hand(PegasosClassifier(average="polynomial", random_state=3)))


#: The same in the middle of a batch.
TORN = STOPPED.replace("os.kill(os.getpid(), signal.{signal})", "whole(self, *(part[:50] for part in arguments)); raise KeyboardInterrupt")


@pytest.mark.parametrize("kernel", ["", "--kernel rbf --gamma 1 --budget 20", "--kernel rbf --gamma 1 --budget 20 --calibration sigmoid --no-refine"])
def test_an_interrupt_within_a_window(run: Any, run_forked: Any, kernel: str) -> None:
    """What some rows of a window have made of the model is not in the file: nobody could go on from there."""
    line = f"train three.svm -o {{}} {IN_PASSES} {kernel}"
    done = run_forked(TORN.format(after=3, line=line.format("stopped")))
    assert done.returncode == 130 and "has learned from 384 examples" in done.stderr
    assert io.load("stopped").t_ == 384
    assert run(line.format("stopped") + " --resume")[0] == 0
    assert run(line.format("whole"))[0] == 0
    same_bits(io.load("stopped"), io.load("whole"))


def test_an_interrupt_within_a_window_of_a_large_model(run: Any, run_forked: Any) -> None:
    """Of more weights than a window has numbers nobody made a copy: the file stays as it was saved last."""
    line = f"train three.svm -o {{}} {IN_PASSES} --n-features 10000"
    done = run_forked(TORN.format(after=3, line=line.format("never")))
    assert done.returncode == 130 and "learned in part" in done.stderr
    assert not os.path.exists("never")
    done = run_forked(TORN.format(after=3, line=line.format("stopped") + " --save-every 0"))
    assert done.returncode == 130
    assert io.load("stopped").t_ == 384
    assert run(line.format("stopped") + " --resume")[0] == 0
    assert run(line.format("whole"))[0] == 0
    assert io.load("stopped").coef_.tobytes() == io.load("whole").coef_.tobytes()


def test_going_on_with_a_model_of_all_examples(run: Any) -> None:
    """It may have no seed."""
    assert run("train three.svm -o model")[0] == 0
    assert io.load("model").random_state is None
    status, _, err = run("train three.svm -o model --passes 2 --resume")
    assert (status, err) == (0, "")
    assert io.load("model").random_state is not None


def test_what_is_read_is_not_written_over(run: Any) -> None:
    np.save("y.npy", Y)
    np.save("X.npy", X)
    for passes in ("", "--passes 2"):
        assert_refused(run(f"train X.npy --label y.npy -o ./y.npy {passes}"), "the model would take the place of the labels")
    np.testing.assert_array_equal(np.load("y.npy"), Y)
    for cache, output in (("--cache-file c", "c"), ("--cache", "rows.npy.pegasos-cache")):
        assert_refused(run(f"train rows.npy --passes 2 {cache} -o {output}"), "the model would take the place of the cache")


def test_an_interrupt_before_anything_was_learned(run: Any, run_forked: Any) -> None:
    done = run_forked(STOPPED.format(after=0, signal="SIGINT", line="train three.svm -o model --passes 1"))
    assert (done.returncode, done.stderr) == (130, "pegasos: interrupted\n")
    assert not os.path.exists("model")


def test_going_on_without_a_seed(run: Any, run_forked: Any) -> None:
    """What was drawn by chance is in the model."""
    line = "train three.svm -o model --passes 2 --window 128"
    run_forked(STOPPED.format(after=3, signal="SIGINT", line=line))
    seed = io.load("model").random_state
    assert run(f"{line} --resume")[0] == 0
    model = io.load("model")
    assert model.random_state == seed
    other = trained(run, f"three.svm --passes 2 --window 128 --seed {seed}")
    same_bits(model, other)


def test_further_passes(run: Any) -> None:
    trained(run, f"three.svm {IN_PASSES}")
    model = trained(run, "three.svm --passes 4 --window 128 --resume")
    same_bits(model, by_hand(PegasosClassifier(average="polynomial", random_state=3), n_passes=4))


def test_a_run_that_is_complete_stays_as_it_is(run: Any) -> None:
    line = f"train three.svm -o model {IN_PASSES} --kernel rbf --gamma 1 --budget 20"
    assert run(line)[0] == 0
    before = io.load("model")
    assert run(f"{line} --resume")[0] == 0
    same_bits(io.load("model"), before)


@pytest.mark.parametrize("lines", [100, 500])
def test_a_file_that_changes_between_passes_is_named(run: Any, monkeypatch: pytest.MonkeyPatch, lines: int) -> None:
    text = pathlib.Path("three.svm").read_bytes().splitlines(keepends=True)
    path = pathlib.Path("changing.svm")
    path.write_bytes(b"".join(text))
    real, calls = PegasosClassifier.partial_fit, []

    def changed(self: Any, *args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            # As far as it was read by then, and more.
            path.write_bytes(b"".join((2 * text)[:lines]))
        return real(self, *args, **kwargs)

    monkeypatch.setattr(PegasosClassifier, "partial_fit", changed)
    assert_refused(
        run("train changing.svm -o model --passes 3 --window 100 --seed 1"),
        f"changing.svm was changed while it was read: it has [0-9]+ rows now, and had {len(text)}",
    )


def test_scales_go_on(run: Any, run_forked: Any) -> None:
    line = f"train rows.npy -o {{}} {IN_PASSES} --scale"
    run_forked(STOPPED.format(after=3, signal="SIGINT", line=line.format("stopped")))
    assert run(line.format("stopped") + " --resume")[0] == 0
    assert run(line.format("whole"))[0] == 0
    same_bits(io.load("stopped")[-1], io.load("whole")[-1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--alpha 1", "model: --resume goes on with alpha='auto', got --alpha 1.0"),
        ("--kernel rbf", "model: --resume needs a model that was trained with the same options"),
        ("--scale", "model: --resume needs a model that was trained with the same options"),
        ("--seed 4", "model: --resume goes on with random_state=3, got --seed 4"),
        ("--float32", "model: --resume goes on in double precision, got --float32"),
    ],
)
def test_going_on_with_other_options(run: Any, options: str, message: str) -> None:
    trained(run, f"three.svm {IN_PASSES}")
    assert_refused(run(f"train three.svm -o model --passes 3 --resume {options}"), message)


def test_going_on_in_single_precision(run: Any) -> None:
    """That of the model, also if nobody says so again."""
    line = f"train three.svm -o {{}} --window 128 --seed 3 --passes {{}} {{}}"
    assert run(line.format("stopped", 1, "--float32"))[0] == 0
    assert run(line.format("stopped", 2, "--resume"))[0] == 0
    assert run(line.format("whole", 2, "--float32"))[0] == 0
    same_bits(io.load("stopped"), io.load("whole"))


def test_going_on_with_other_data(run: Any, here: Path) -> None:
    trained(run, f"three.svm {IN_PASSES}")
    (here / "wide.svm").write_text("0 9:1\n1 2:1\n2 1:1\n" * 400)
    assert_refused(run("train wide.svm -o model --passes 4 --resume"), "features")
    (here / "broken").write_text("not a model")
    assert_refused(run("train three.svm -o broken --passes 4 --resume"), "broken: not a model file")


# -- pipes


def piped(text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pegasos", "train", "-", *arguments]
    return subprocess.run(command, input=text, text=True, timeout=60, capture_output=True)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no pipes in folders")
def test_pipes_by_name(run: Any, here: Path) -> None:
    """Nobody looks into one before it is learned from: what was looked at would be gone."""
    os.mkfifo("pipe")
    writer = threading.Thread(target=(here / "pipe").write_bytes, args=((here / "three.svm").read_bytes(),), daemon=True)
    writer.start()
    line = "train {} -o model --format svmlight --passes 1 --seed 3 --n-features 4"
    status, _, err = run(line.format("pipe"))
    assert (status, err) == (0, "")
    writer.join(60)
    assert not writer.is_alive()
    same_bits(io.load("model"), trained(run, "three.svm --passes 1 --seed 3"))
    for name in ("pipe", "-"):
        assert_refused(run(line.format(name) + " --scale"), f"{name} can be read once: --scale needs a pass of its own")


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="Windows has no names of open files")
def test_output_to_a_pipe_without_a_name(run: Any, here: Path) -> None:
    """What a shell makes of ``-o >(gzip > model.gz)``."""
    receiver, sender = os.pipe()
    with open(receiver, "rb") as file:
        assert run(f"train three.svm -q --seed 3 -o /dev/fd/{sender}")[0] == 0
        os.close(sender)
        received = file.read()
    trained(run, "three.svm --seed 3")
    assert received == (here / "model").read_bytes()


def test_the_standard_input(run: Any, here: Path) -> None:
    text = (here / "three.svm").read_text()
    done = piped(text, "-o", "piped", "--passes", "1", "--window", "128", "--seed", "3", "-q")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "pegasos: error: -: it can be read once: --n-features must be given\n"
    done = piped(text, "-o", "piped", "--passes", "1", "--window", "128", "--seed", "3", "-q", "--n-features", "4")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    same_bits(io.load("piped"), trained(run, "three.svm --passes 1 --window 128 --seed 3"))
    done = piped(text, "-o", "piped", "--passes", "2", "--n-features", "4")
    assert (done.returncode, done.stderr) == (2, "pegasos: error: - can be read once: --passes must be 1, got 2\n")


def test_numbers_of_features(run: Any) -> None:
    assert trained(run, "three.svm --n-features 7 --seed 0").n_features_in_ == 7
    assert trained(run, f"three.svm --n-features 7 {IN_PASSES}").n_features_in_ == 7
    assert_refused(run("train words.csv -o model --n-features 7"), "n_features goes with svmlight, pairs, not with csv, which tells it")


def test_a_line_now_and_then(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of bytes, in a log; here of all that there is to say, as time does not pass."""
    monkeypatch.setattr(training, "_verbose", lambda arguments: 1)
    _, _, err = run(f"train three.svm -o model {IN_PASSES}")
    last = err.splitlines()[-1]
    assert last.startswith("PegasosClassifier: 100%") and "B/s" in last
    assert "accuracy=" in last and "loss=" in last


def test_time_between_saves(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    saves: list[int] = []
    whole = io.save
    monkeypatch.setattr(training.io, "save", lambda model, path: (saves.append(model.t_), whole(model, path)))
    seconds = iter(np.arange(0.0, 1e6, 30.0))
    monkeypatch.setattr(training.time, "monotonic", lambda: float(next(seconds)))
    trained(run, f"three.svm {IN_PASSES} --save-every 100")
    assert 3 <= len(saves) < 9 and saves[-1] == 2 * len(Y)
    assert time is training.time


def test_probabilities_of_a_kernel_machine_in_passes(run: Any) -> None:
    how = f"{IN_PASSES} --kernel rbf --gamma 1 --budget 30 --calibration sigmoid --no-refine"
    model = trained(run, f"three.svm {how}")
    assert run("predict model three.svm --proba")[0] == 0
    assert model.predict_proba(X).shape == (len(Y), len(model.classes_))
    assert run("train three.svm -o model -q --passes 1 --calibration sigmoid")[0] == 0
    assert_refused(run("predict model three.svm --proba"), "its calibration has no scores to learn from")
