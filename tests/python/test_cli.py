"""The command: what it prints, what it writes, and how it says no."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import assert_refused, labelled
from sklearn.datasets import dump_svmlight_file
from sklearn.metrics import classification_report, precision_recall_fscore_support

from pegasos import KernelPegasosClassifier, OnlineGradientClassifier, PegasosClassifier, cli, io
from pegasos._options import BY_PARAM

if TYPE_CHECKING:
    from pathlib import Path

X, Y = labelled(5, 120, 4, 3)
WORDS = np.array(["maybe", "no", "yes"])[Y]
BINARY = (Y > 0).astype(int)


def csv_of(rows: np.ndarray, labels: Any = None, header: str = "", between: str = ",") -> str:
    lines = [header] if header else []
    for i, row in enumerate(rows.tolist()):
        cells = [repr(value) for value in row] + ([] if labels is None else [str(labels[i])])
        lines.append(between.join(cells))
    return "\n".join(lines) + "\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with some data."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words.csv").write_text(csv_of(X, WORDS, "a,b,c,d,answer"))
    (tmp_path / "bare.csv").write_text(csv_of(X))
    (tmp_path / "binary.tsv").write_text(csv_of(X, BINARY, between="\t"))
    dump_svmlight_file(X, Y, "three.svm", zero_based=False)
    np.savez("three.npz", X=X, y=Y)
    sparse = sp.csr_matrix(X)
    np.savez(
        "sparse.npz",
        data=sparse.data,
        indices=sparse.indices,
        indptr=sparse.indptr,
        shape=sparse.shape,
        y=Y,
    )
    return tmp_path


@pytest.fixture
def model(here: Path) -> PegasosClassifier:
    """A model of words in the file ``model``, trained by the class itself."""
    model = PegasosClassifier(
        "log_loss", alpha=0.01, multi_class="ovr", tol=None, max_iter=20, random_state=0
    )
    io.save(model.fit(X, WORDS), here / "model")
    return model


# -- train


@pytest.mark.parametrize(
    "data", ["words.csv", "words.csv --label answer", "words.csv --label 4", "words.csv --label -1"]
)
def test_training_is_that_of_the_class(run: Any, here: Path, data: str) -> None:
    status, out, err = run(f"train {data} -o model --alpha 0.01 --tol none --max-iter 7 --seed 3")
    assert (status, err) == (0, "")
    want = PegasosClassifier(alpha=0.01, tol=None, max_iter=7, random_state=3).fit(X, WORDS)
    loaded = io.load("model")
    assert loaded.get_params() == want.get_params()
    assert loaded.coef_.tobytes() == want.coef_.tobytes()
    summary = dict(re.split(r"  +", line, maxsplit=1) for line in out.splitlines())
    assert summary["examples"] == "120 x 4 features"
    assert summary["classes"] == "3: maybe, no, yes"
    assert summary["epochs"] == "7"
    assert re.fullmatch(r"\d+\.\d\d s \([\d,]+ rows/s\)", summary["time"])
    assert summary["objective"] == "not evaluated"
    assert summary["duality gap"] == "none certified"
    assert summary["training accuracy"] == f"{want.score(X, WORDS):.4f}"
    assert summary["model"] == "model"
    assert "held-out accuracy" not in summary


@pytest.mark.parametrize("data", ["three.svm", "three.npz", "sparse.npz"])
def test_formats_agree(run: Any, here: Path, data: str) -> None:
    # Rounding may send dual ascent another way.
    assert run(f"train {data} -o model --solver pegasos --tol none --seed 0")[0] == 0
    want = PegasosClassifier(solver="pegasos", tol=None, random_state=0).fit(X, Y)
    assert io.load("model").coef_ == pytest.approx(want.coef_, rel=1e-6)
    assert io.load("model").classes_.tolist() == [0, 1, 2]


def test_certified_training(run: Any, here: Path) -> None:
    status, out, err = run("train binary.tsv -o model --alpha 0.1 --tol 0.1 --max-iter 1000")
    assert (status, err) == (0, "")
    loaded = io.load("model")
    assert loaded.multi_class == PegasosClassifier().multi_class
    gap = re.search(r"^duality gap +(\S+), (\S+)% of the objective$", out, re.MULTILINE)
    assert gap
    assert float(gap[1]) == pytest.approx(loaded.duality_gap_, rel=1e-2)
    assert 0.0 < float(gap[2]) <= 10.0
    assert f"{loaded.objective_:.6g}" in out


def test_training_without_a_certificate(run: Any, here: Path) -> None:
    status, out, _ = run("train binary.tsv -o model --projection --alpha 0.1 --tol 10")
    assert status == 0
    assert re.search(r"^objective +\d", out, re.MULTILINE)
    assert re.search(r"^duality gap +none certified$", out, re.MULTILINE)


def test_options_reach_the_estimator(run: Any, here: Path) -> None:
    options = (
        "--loss squared_hinge --alpha 0.5 --max-iter 4 --tol 100 --multi-class ovr --eta0 0.25 "
        "--learning-rate invscaling --power-t 0.75 --t0 3 --no-intercept --projection --average 9 "
        "--batch-size 2 --sampling replacement --class-weight balanced --seed 11 --jobs 2 "
        "--solver pegasos --shards 3"
    )
    assert run(f"train three.npz -o model {options}")[0] == 0
    params = io.load("model").get_params()
    want = {
        "loss": "squared_hinge",
        "alpha": 0.5,
        "max_iter": 4,
        "tol": 100.0,
        "multi_class": "ovr",
        "eta0": 0.25,
        "learning_rate": "invscaling",
        "power_t": 0.75,
        "t0": 3.0,
        "fit_intercept": False,
        "projection": True,
        "average": 9,
        "batch_size": 2,
        "sampling": "replacement",
        "class_weight": "balanced",
        "random_state": 11,
        "n_jobs": 2,
        "solver": "pegasos",
        "shards": 3,
    }
    assert params == {**PegasosClassifier().get_params(), **want}


def test_defaults_are_those_of_the_class(run: Any, here: Path) -> None:
    options = "--tol none --t0 auto --average uniform --jobs none"
    assert run(f"train binary.tsv -o model {options}")[0] == 0
    want = {**PegasosClassifier().get_params(), "tol": None, "average": "uniform"}
    assert io.load("model").get_params() == want


def test_help_tells_what_passes_change(run: Any) -> None:
    _, out, _ = run("train --help")
    text = " ".join(out.split())
    assert "'auto' is C=1, with --passes alpha = 1e-4" in text
    assert "1000 for more, or with --passes" in text
    assert "with --passes is polynomial unless this says otherwise" in text


def test_help_names_every_default(run: Any) -> None:
    status, out, err = run("train --help")
    assert (status, err) == (0, "")
    text = " ".join(out.split())
    for param, option in [("alpha", "--alpha A"), ("tol", "--tol TOL"), ("eta0", "--eta0 ETA")]:
        default = inspect.signature(PegasosClassifier).parameters[param].default
        assert re.search(rf"{option} [^()]*(\([^)]*\)[^()]*)*\(default: {default}\)", text), param
    assert "pegasos train train.svm -o model.safetensors" in text


def test_single_precision(run: Any, here: Path) -> None:
    assert run("train three.svm -o model --float32 --tol none")[0] == 0
    assert io.load("model").coef_.dtype == np.float32


def test_held_out_examples(run: Any, here: Path) -> None:
    options = "--tol none --test-size 0.25 --seed 0 --alpha 0.01"
    status, out, _ = run(f"train words.csv -o model {options}")
    assert status == 0
    held_out = re.search(r"^held-out accuracy +(0\.\d{4}) on 30 examples$", out, re.MULTILINE)
    assert held_out
    assert 0.5 < float(held_out[1]) <= 1.0
    assert re.search(r"^examples +90 x 4 features$", out, re.MULTILINE)
    assert io.load("model").t_ == 100 * 90


def test_quiet(run: Any, here: Path) -> None:
    assert run("train three.svm -o model --tol none --quiet") == (0, "", "")


def test_a_bar_on_terminals_only(run: Any, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    status, _, err = run("train three.svm -o model --tol none")
    assert status == 0
    assert "PegasosClassifier: 100%" in err
    assert io.load("model").verbose == 0
    assert run("train three.svm -o model --tol none --quiet") == (0, "", "")


def test_kernel_machines(run: Any, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = "--kernel rbf --gamma 0.5 --budget 20 --alpha 0.01 --seed 3"
    status, out, err = run(f"train words.csv -o model {options}")
    assert (status, err) == (0, "")
    want = KernelPegasosClassifier(gamma=0.5, budget=20, alpha=0.01, random_state=3).fit(X, WORDS)
    loaded = io.load("model")
    assert loaded.get_params() == want.get_params()
    assert loaded.dual_coef_.tobytes() == want.dual_coef_.tobytes()
    summary = dict(re.split(r"  +", line, maxsplit=1) for line in out.splitlines())
    assert summary["mean gradient error"].startswith(f"{want.mean_gradient_error_:.4g}")
    assert summary["training accuracy"] == f"{want.score(X, WORDS):.4f}"
    assert summary["objective"] == f"{want.objective_:.6g}"
    assert "20, float64" in run("info model")[1]
    predicted = run("predict model words.csv")[1].split()
    assert predicted == want.predict(X).tolist()
    exact = "--kernel poly --coef0 1 --degree 2 --solver auto --maintenance project --average no"
    assert run(f"train words.csv -o model {exact}")[0] == 0
    assert io.load("model").get_params()["average"] is False
    status, out, _ = run(f"train words.csv -o model {options} --no-refine")
    assert status == 0
    assert "gradient error" in out
    assert "objective" not in out
    assert io.load("model").get_params()["refine"] is False
    assert run(f"train words.csv -o model {options} --metric diagonal")[0] == 0
    learned = KernelPegasosClassifier(gamma=0.5, budget=20, alpha=0.01, metric="diagonal", random_state=3).fit(X, WORDS)
    assert io.load("model").metric_.tobytes() == learned.metric_.tobytes()
    assert run("predict model words.csv")[1].split() == learned.predict(X).tolist()
    # How many of the examples so far were right when they came.
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert "accuracy=0." in run(f"train words.csv -o model {options}")[2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("-C 10", r"there is no C: --alpha 1/\(C n\)"),
        ("--kernel rbf --shards 2", "--shards does not go with --kernel"),
        ("--kernel rbf --loss log_loss", "--loss does not go with --kernel"),
        ("--budget 5", "--budget needs --kernel"),
        ("--no-refine", "--no-refine needs --kernel"),
        ("--gamma 0.5", "--gamma needs --kernel"),
        ("--kernel rbf --gamma wide", "--gamma: must be a number, 'scale' or 'auto'"),
        ("--kernel rbf --budget 0", "budget"),
        ("--kernel linear --budget 5 --maintenance merge", "maintenance='merge' needs kernel='rbf'"),
    ],
)
def test_options_that_do_not_fit_together(run: Any, here: Path, options: str, message: str) -> None:
    assert_refused(run(f"train words.csv -o model {options}"), message)


def test_no_convergence_is_one_line(run: Any, here: Path) -> None:
    status, out, err = run("train binary.tsv -o model --max-iter 1 --tol 1e-9")
    assert status == 0
    assert re.fullmatch(r"pegasos: warning: fit stopped after max_iter=1 epochs.*\n", err)
    assert out.startswith("examples")


def test_warnings_of_scikit_learn_are_one_line_too(run: Any, here: Path) -> None:
    (here / "many.csv").write_text(csv_of(X, np.arange(120)))
    status, _, err = run("train many.csv -o model --tol none")
    assert status == 0
    assert re.fullmatch("(pegasos: warning: The number of unique classes is greater.*\n)+", err)


# -- predict


def test_predicted_labels(run: Any, here: Path, model: PegasosClassifier) -> None:
    want = "".join(f"{label}\n" for label in model.predict(X))
    for data in ("words.csv", "bare.csv", "bare.csv --label none", "three.npz"):
        assert run(f"predict model {data}") == (0, want, ""), data
    assert run("predict model bare.csv -o out.txt") == (0, "", "")
    assert (here / "out.txt").read_text() == want


def test_labels_of_several_lines_cannot_be_printed_one_a_line(run: Any, here: Path) -> None:
    io.save(PegasosClassifier(tol=None).fit(X, np.where(Y > 0, "yes", "no\nthing")), here / "model")
    assert_refused(run("predict model bare.csv"), r"model: labels must have no line breaks .*, got 'no\\nthing'")
    status, out, _ = run("predict model bare.csv --scores")
    assert status == 0 and len(out.splitlines()) == len(X)


def test_labels_in_another_column(run: Any, here: Path, model: PegasosClassifier) -> None:
    (here / "first.csv").write_text(csv_of(np.column_stack([Y, X]), header="y,a,b,c,d"))
    want = "".join(f"{label}\n" for label in model.predict(X))
    for label in ("y", "0", "-5"):
        assert run(f"predict model first.csv --label {label}") == (0, want, "")


def test_scores_and_probabilities(run: Any, here: Path, model: PegasosClassifier) -> None:
    for option, want in [
        ("--scores", model.decision_function(X)),
        ("--proba", model.predict_proba(X)),
    ]:
        status, out, _ = run(f"predict model bare.csv {option}")
        assert status == 0
        rows = [[float(cell) for cell in line.split("\t")] for line in out.splitlines()]
        # Exponentials of Rust's library, not of SciPy's.
        assert np.allclose(rows, want, rtol=1e-13, atol=0.0)


def test_calibrated_models_have_probabilities(run: Any, here: Path) -> None:
    for kernel in ("", "--kernel rbf --budget 20"):
        assert run(f"train three.npz -o calibrated {kernel} --calibration temperature --seed 0 -q")[0] == 0
        status, out, _ = run("predict calibrated bare.csv --proba")
        rows = np.array([[float(cell) for cell in line.split("\t")] for line in out.splitlines()])
        assert status == 0 and rows.shape == (len(X), 3)
        assert np.allclose(rows, io.load("calibrated").predict_proba(X), rtol=1e-12, atol=0.0)


def test_two_classes_have_one_score(run: Any, here: Path) -> None:
    model = PegasosClassifier(tol=None, random_state=0).fit(X, BINARY)
    io.save(model, "model")
    out = run("predict model bare.csv --scores")[1]
    assert [float(line) for line in out.splitlines()] == model.decision_function(X).tolist()
    assert run("predict model bare.csv")[1].split() == [str(label) for label in model.predict(X)]


def test_sparse_files_may_lack_the_last_features(
    run: Any, here: Path, model: PegasosClassifier
) -> None:
    (here / "short.svm").write_text("0 1:0.5\n0 2:-1 3:0.25\n")
    rows = np.array([[0.5, 0.0, 0.0, 0.0], [0.0, -1.0, 0.25, 0.0]])
    want = "".join(f"{label}\n" for label in model.predict(rows))
    assert run("predict model short.svm") == (0, want, "")


@pytest.mark.parametrize("passes", ["", "--passes 2"])
def test_columns_may_be_counted_from_0(run: Any, here: Path, passes: str) -> None:
    (here / "all.svm").write_text("1 0:1 1:0\n0 0:-1 1:1\n1 0:2 1:0\n0 0:-2 1:3\n")
    (here / "whole.svm").write_text("0 0:0 1:9\n")
    (here / "lacks.svm").write_text("0 1:9\n")
    assert run(f"train all.svm -o m -q --zero-based yes {passes}")[0] == 0
    want = run("predict m whole.svm --scores")
    assert want[0] == 0 and run("predict m lacks.svm --scores --zero-based yes") == want
    assert run("evaluate m lacks.svm --zero-based yes")[0] == 0
    # By itself the file does not tell.
    assert run("predict m lacks.svm --scores") != want
    rows = io.read(here / "lacks.svm", zero_based=True)
    assert rows.X.toarray().tolist() == [[0.0, 9.0]]
    assert_refused(run("predict m lacks.svm --zero-based no --format npz"), "zero_based goes with svmlight, not with npz")


def test_output_may_be_a_device(run: Any, here: Path, model: PegasosClassifier) -> None:
    assert run(f"predict model bare.csv -o {os.devnull}") == (0, "", "")
    assert run(f"train three.npz --tol none -q -o {os.devnull}") == (0, "", "")
    assert not os.path.isfile(os.devnull)


# -- evaluate and info


def test_evaluation(run: Any, here: Path, model: PegasosClassifier) -> None:
    status, out, err = run("evaluate model words.csv")
    assert (status, err) == (0, "")
    report = classification_report(WORDS, model.predict(X), digits=4, output_dict=True)
    right = round(report["accuracy"] * 120)
    assert out.splitlines()[0] == f"accuracy {report['accuracy']:.4f} ({right} of 120)"
    table = {line.split()[0]: line.split()[1:] for line in out.splitlines()[3:]}
    assert table == {
        label: [
            *(f"{report[label][name]:.4f}" for name in ("precision", "recall", "f1-score")),
            f"{report[label]['support']:.0f}",
        ]
        for label in ("maybe", "no", "yes")
    }


def test_labels_the_model_has_never_seen_are_errors_of_it(
    run: Any, here: Path, model: PegasosClassifier
) -> None:
    (here / "new.csv").write_text(csv_of(X[:10], ["unheard"] * 9 + [model.predict(X)[9]]))
    status, out, _ = run("evaluate model new.csv")
    assert status == 0
    assert out.startswith("accuracy 0.1000 (1 of 10)\n")
    assert re.search(r"^unheard +0\.0000 +0\.0000 +0\.0000 +9$", out, re.MULTILINE)


def test_labels_are_compared_as_the_model_has_them(run: Any, here: Path) -> None:
    codes = np.array(["1", "01", "x"])[Y]
    io.save(PegasosClassifier(multi_class="ovr", tol=None).fit(X, codes), "model")
    # Alone, these labels would be numbers.
    some = codes != "x"
    (here / "some.csv").write_text(csv_of(X[some], codes[some]))
    right = np.sum(io.load("model").predict(X[some]) == codes[some])
    assert right > 0.5 * some.sum()
    assert f"({right} of {some.sum()})" in run("evaluate model some.csv")[1]


def test_models_of_other_classes(run: Any, here: Path) -> None:
    random = np.random.default_rng(0)
    X, y = random.normal(size=(60, 4)), random.integers(0, 2, 60)
    kernel = KernelPegasosClassifier(gamma=0.5, tol=None, random_state=0).fit(X, y)
    online = OnlineGradientClassifier(radius=3.0).fit(X, y)
    np.savez("both.npz", X=X, y=y)
    for model, line in [(kernel, f"{len(kernel.support_)}, float64"), (online, "radius=3.0")]:
        io.save(model, "other")
        status, out, err = run("info other")
        assert (status, err) == (0, "") and line in out
        status, out, err = run("predict other both.npz")
        assert (status, err) == (0, "")
        assert [int(label) for label in out.split()] == model.predict(X).tolist()


def test_info(run: Any, here: Path, model: PegasosClassifier) -> None:
    status, out, err = run("info model")
    assert (status, err) == (0, "")
    found = dict(re.split(r"  +", line, maxsplit=1) for line in out.splitlines())
    assert found == {
        "class": "PegasosClassifier",
        "format": "5",
        "parameters": "alpha=0.01, loss='log_loss', max_iter=20, random_state=0, tol=None",
        "classes": "3: maybe, no, yes",
        "features": "4",
        "weights": "12 nonzero of 12, float64",
        "steps": "2,400",
        "objective": "not evaluated",
        "duality gap": "none certified",
    }


def test_info_on_many_classes(run: Any, here: Path) -> None:
    rows = np.tile(np.eye(30), (3, 1))
    y = np.tile(np.arange(30), 3)
    io.save(PegasosClassifier(multi_class="ovr", tol=None).fit(rows, y), "model")
    out = run("info model")[1]
    assert re.search(r"^classes +30: 0, 1, .*, 19, \.\.\.$", out, re.MULTILINE)


def test_export(run: Any, here: Path, model: PegasosClassifier) -> None:
    predictor = io.load("model", light=True)
    assert run("export model") == (0, predictor.to_c(), "")
    assert run("export model -o words.h --name words") == (0, "", "")
    assert (here / "words.h").read_text() == predictor.to_c("words")


def test_version(run: Any) -> None:
    status, out, _ = run("--version")
    assert status == 0
    assert re.fullmatch(r"pegasos \d+\.\d+\.\d+\S*\n", out)


# -- refusals


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "required: COMMAND"),
        ("learn three.svm", "invalid choice: 'learn'"),
        ("train three.svm", "required: -o/--output"),
        ("train three.svm -o m --loss l2", "argument --loss: invalid choice: 'l2'"),
        ("train three.svm -o m --alpha big", "argument --alpha: must be a number or 'auto', got 'big'"),
        ("train three.svm -o m --tol low", "argument --tol: must be a number or 'none', got 'low'"),
        ("train three.svm -o m --t0 now", "argument --t0: must be a number or 'auto', got 'now'"),
        ("train three.svm -o m --jobs all", "argument --jobs: must be an int or 'none', got 'all'"),
        ("train three.svm -o m --average best", "argument --average: must be 'yes'.*'best'"),
        ("train three.svm -o m --test-size 1", "argument --test-size: .*between 0 and 1, got '1'"),
        ("train three.svm -o m --test-size x", "argument --test-size: .*between 0 and 1, got 'x'"),
        ("train three.svm -o m --max", "unrecognized arguments: --max"),
        ("train three.svm -o m --alpha -1", "'alpha' parameter .* Got -1.0"),
        ("train three.svm -o m --alpha nan", "'alpha' parameter .* Got nan"),
        ("train three.svm -o m --max-iter 0", "'max_iter' parameter .* Got 0"),
        ("train three.svm -o m --batch-size 99999999999999999999", "'batch_size' parameter"),
        ("train three.svm -o m --seed -1", "'random_state' parameter .* Got -1"),
        ("train three.svm -o m --jobs 0", "n_jobs must not be 0"),
        ("train none.svm -o m", "none.svm: No such file or directory"),
        ("train three.xlsx -o m", r"three.xlsx: the ending must be one of .*\.csv"),
        ("train three.svm -o none/m", "none/m: No such file or directory"),
        ("train three.svm -o .", r"\.: Is a directory"),
        ("train words.csv -o ./words.csv", "the model would take the place of the examples"),
        ("train words.csv -o m --zero-based yes", "zero_based goes with svmlight, not with csv"),
        ("train three.svm -o m --zero-based maybe", "argument --zero-based: invalid choice: 'maybe'"),
        ("train three.svm -o m --label 1", "three.svm: a file of format svmlight has no column 1"),
        ("train words.csv -o m --label z", "words.csv: it has 0 columns 'z'"),
        ("train words.csv -o m --label 0", "words.csv: line 2, column 5: '[a-z]+' is not a number"),
        ("train bare.csv -o m --label none", "training needs labels"),
        ("train one.csv -o m", "at least two classes"),
        ("train nan.csv -o m", "nan.csv: line 2, column 1: nan is not a finite number"),
        ("train nan.npz -o m", "Input X contains NaN"),
        ("train nan.svm -o m", "nan.svm: line 2, column .: the value .nan. is not a finite number"),
        ("train broken.npz -o m", "broken.npz: "),
        ("train huge.csv -o m", "X must be finite and of a scale"),
        ("train huge.csv -o m --float32", "Input X contains infinity"),
        ("train rare.csv -o m --test-size 0.5", "least populated class"),
        ("predict none three.svm", "none: No such file or directory"),
        ("predict three.svm three.svm", "three.svm: not a model file of pegasos"),
        ("predict model none.csv", "none.csv: No such file or directory"),
        ("predict model wide.csv", "wide.csv: .* 5 features, those of the model have 4"),
        ("predict model one.csv", "one.csv: .* 1 features, those of the model have 4"),
        ("predict model nan.npz", "X must be finite.*: row 0, column 0 holds NaN"),
        ("predict model bare.csv -o none/out", "none/out: No such file or directory"),
        ("predict model bare.csv --scores --proba", "not allowed with argument --scores"),
        ("predict hinge bare.csv --proba", "hinge: --proba needs a model trained with .*log_loss"),
        ("evaluate model bare.csv", "bare.csv: it has no labels"),
        ("evaluate model three.svm", "three.svm: its labels are numbers, those of the model text"),
        ("predict model words.csv -o ./words.csv", "the predictions would take the place of the examples"),
        ("predict model words.csv -o model", "the predictions would take the place of the model"),
        ("export model -o ./model", "the header would take the place of the model"),
        ("evaluate hinge words.csv", "words.csv: its labels are text, those of the model numbers"),
        ("export model --name 1a", "name must be a letter .*, got .1a."),
        ("info three.npz", "three.npz: not a model file of pegasos"),
        ("info none", "none: No such file or directory"),
    ],
)
def test_bad_input(run: Any, here: Path, model: PegasosClassifier, line: str, message: str) -> None:
    io.save(PegasosClassifier(multi_class="ovr", tol=None).fit(X, Y), here / "hinge")
    (here / "one.csv").write_text("1,0\n2,0\n")
    (here / "nan.csv").write_text("1,2,0\nnan,2,1\n")
    (here / "nan.svm").write_text("0 1:1\n1 1:nan 2:3 3:1 4:1\n")
    np.savez(here / "nan.npz", X=np.full((2, 4), np.nan), y=[0, 1])
    (here / "broken.npz").write_bytes((here / "three.npz").read_bytes()[:500])
    (here / "huge.csv").write_text("1e300,0\n-1e300,1\n")
    (here / "rare.csv").write_text("1,0\n2,0\n3,1\n")
    (here / "wide.csv").write_text("1,2,3,4,5,yes\n")
    before = sorted(os.listdir(here))
    assert_refused(run(line), message)
    assert sorted(os.listdir(here)) == before


def test_a_failed_training_leaves_the_old_model(
    run: Any, here: Path, model: PegasosClassifier
) -> None:
    before = (here / "model").read_bytes()
    assert_refused(run("train three.svm -o model --alpha 0"), "'alpha' parameter")
    assert (here / "model").read_bytes() == before


def test_no_memory(run: Any, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(io, "read", fail)
    assert_refused(run("train three.svm -o model"), "there is not enough memory")


# -- signals and pipes


INTERRUPTED = """
import os, signal, sys, threading
from pegasos import cli

threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
# Some ten seconds, were there no interrupt.
sys.exit(cli.main("train binary.tsv -o model --tol none --max-iter 2000000".split()))
"""


def test_interrupted_training(run_script: Any, here: Path) -> None:
    # In a process of its own: among the test runner's hooks run some in which a Ctrl-C is lost.
    done = run_script(INTERRUPTED)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "pegasos: interrupted\n")
    assert "model" not in os.listdir(here)
    assert not any(name.startswith(".") for name in os.listdir(here))


def pegasos(*arguments: str, **keywords: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pegasos", *arguments]
    return subprocess.run(command, text=True, timeout=60, stderr=subprocess.PIPE, **keywords)


def test_as_a_process(here: Path, model: PegasosClassifier) -> None:
    done = pegasos("predict", "model", "bare.csv", stdout=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == model.predict(X).tolist()


def test_a_reader_that_goes_away(here: Path, model: PegasosClassifier) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = pegasos("predict", "model", "bare.csv", stdout=writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_disk(here: Path, model: PegasosClassifier) -> None:
    with open("/dev/full", "w") as full:
        done = pegasos("predict", "model", "bare.csv", stdout=full)
    assert done.returncode == 2
    assert done.stderr == "pegasos: error: No space left on device\n"


def test_closed_outputs(here: Path, model: PegasosClassifier) -> None:
    """What a shell's ``>&-`` does."""
    command = f"{sys.executable} -m pegasos predict model bare.csv"
    done = subprocess.run(f"{command} >&-", shell=True, text=True, stderr=subprocess.PIPE, timeout=60)
    assert (done.returncode, done.stderr) == (2, "pegasos: error: stdout: Bad file descriptor\n")
    done = subprocess.run(f"{command} -o out >&-", shell=True, timeout=60, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (here / "out").read_text().split() == model.predict(X).tolist()
    done = subprocess.run(f"{command} 2>&-", shell=True, timeout=60, stdout=subprocess.PIPE)
    assert done.returncode == 0 and done.stdout.split()


IMPORTING = """
import os, signal, sys, threading
from pegasos.cli import main
threading.Timer({after}, os.kill, (os.getpid(), signal.SIGINT)).start()
status = main(["train", "no-such-file.svm", "-o", "model"])
signal.signal(signal.SIGINT, signal.SIG_IGN)
sys.exit(status)
"""


def test_interrupted_before_it_begins(run_script: Any) -> None:
    """Ctrl-C while training imports what it needs."""
    # Some module may swallow an interrupt that comes while it is imported: then the next.
    done = [run_script(IMPORTING.format(after=after)) for after in (0.1, 0.2, 0.3)]
    assert any((ran.returncode, ran.stderr) == (130, "pegasos: interrupted\n") for ran in done)



def test_standard_input(run: Any, here: Path, model: PegasosClassifier) -> None:
    done = pegasos("predict", "model", "-", "--format", "csv", input=(here / "bare.csv").read_text(), stdout=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == model.predict(X).tolist()
    text = (here / "three.svm").read_text()
    done = pegasos("train", "-", "-o", "other", "--seed", "0", "-q", "--tol", "none", input=text, stdout=subprocess.PIPE)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert run("train three.svm -o same --seed 0 -q --tol none")[0] == 0
    assert (here / "other").read_bytes() == (here / "same").read_bytes()
    done = pegasos("evaluate", "other", "-", input=text + "1 1:x\n", stdout=subprocess.PIPE)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith(f"pegasos: error: -: line {len(Y) + 1}, column 5: ")
    done = subprocess.run(f"{sys.executable} -m pegasos predict model - <&-", shell=True, text=True, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (2, "pegasos: error: -: the standard input is closed\n")


@pytest.mark.parametrize("line", ["train a.parquet -o other", "train a.parquet -o other --passes 2", "predict model a.parquet"])
def test_without_pyarrow(run: Any, model: PegasosClassifier, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.dataset", None)
    assert_refused(run(line), r'need pyarrow: pip install "pegasos\[arrow\]"')


def test_features_that_the_model_does_not_know(run: Any, here: Path) -> None:
    run("train three.svm -o model -q")
    status, plain, _ = run("predict model three.svm")
    wide = "".join(line + " 5:1 7:2\n" for line in (here / "three.svm").read_text().splitlines())
    (here / "wide.svm").write_text(wide)
    assert run("predict model wide.svm") == (
        status,
        plain,
        "pegasos: warning: features 5 to 7 are left out, as the model does not know them\n",
    )


def test_nothing_is_said_before_all_is_known(run: Any, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("train three.svm -o model -q")

    def fail(*_: Any, **__: Any) -> None:
        raise ValueError("too late")

    monkeypatch.setattr("pegasos.cli._by_class", fail)
    assert run("evaluate model three.svm") == (2, "", "pegasos: error: too late\n")


@pytest.mark.parametrize("labels", [[0, 1, 2, 7], ["a", "b", "c", "d"]])
def test_measures_by_class_are_those_of_scikit_learn(labels: list[Any]) -> None:
    random = np.random.default_rng(0)
    # One class is never there, one is never predicted.
    y, guess = (np.array(labels)[random.integers(low, low + 3, 50)] for low in (0, 1))
    want = precision_recall_fscore_support(y, guess, labels=labels, zero_division=0.0)
    for found, column in zip(cli._by_class(y, guess, labels), want, strict=True):
        np.testing.assert_allclose(found, column, rtol=1e-15)


def test_labels_that_are_no_whole_numbers_are_unseen_ones(run: Any, here: Path) -> None:
    run("train three.svm -o model -q")
    (here / "half.svm").write_text((here / "three.svm").read_text() + "0.5 1:1\n")
    status, out, err = run("evaluate model half.svm")
    assert (status, err) == (0, "")
    assert re.search(r"^0\.5 +0\.0000 +0\.0000 +0\.0000 +1$", out, re.MULTILINE)


# -- what is stated twice, and what must not be imported


def test_the_table_states_what_the_estimators_have() -> None:
    """Words and defaults: so that help needs no estimator."""
    estimators = (PegasosClassifier, KernelPegasosClassifier)
    for option in BY_PARAM.values():
        for estimator, default in zip(estimators, option.defaults, strict=True):
            constraints = estimator._parameter_constraints.get(option.param)
            assert (constraints is None) == (default is None), option
            if constraints is None:
                continue
            value = getattr(estimator(), option.param)
            words = {None: "none", True: "yes", False: "no"}
            assert default == (words[value] if value is None or isinstance(value, bool) else str(value)), option
            if isinstance(option.value, list) and option.param != "kernel":
                assert set(constraints[0].options) <= set(option.value), option
        if isinstance(option.value, list) and option.param != "kernel":
            constraints = [e._parameter_constraints.get(option.param) for e in estimators]
            assert {word for each in constraints if each for word in each[0].options} == set(option.value), option


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["train", "--help"],
        ["info", "model"],
        ["predict", "model", "bare.csv"],
        ["predict", "model", "bare.csv", "--proba"],
        ["evaluate", "model", "words.csv"],
    ],
    ids=" ".join,
)
def test_who_predicts_does_not_wait_for_scikit_learn(arguments: list[str], run_script: Any, here: Path, model: Any) -> None:
    script = (
        "import sys\n"
        "from pegasos.cli import main\n"
        f"status = main({arguments})\n"
        "heavy = {'sklearn', 'scipy', 'joblib', 'tqdm', 'pandas', 'matplotlib'} & sys.modules.keys()\n"
        "assert status == 0 and not heavy, (status, heavy)"
    )
    ran = run_script(script)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("data", ["three.npz", "three.svm"])
def test_scaled_training(data: str, run: Any, here: Path) -> None:
    assert run(f"train {data} -o scaled --scale --seed 0 -q") == (0, "", "")
    found = io.load("scaled")
    rows = io.read(data).X
    scaler = "MaxAbsScaler" if data.endswith("svm") else "StandardScaler"
    assert [type(step).__name__ for _, step in found.steps] == [scaler, "PegasosClassifier"]
    status, out, _ = run(f"predict scaled {data}")
    assert status == 0 and out.split() == [str(label) for label in found.predict(rows)]
    assert f"step 1 {scaler}" in " ".join(run("info scaled")[1].split())


def test_output_that_is_cut_off_is_an_error_without_a_buffer_too(run: Any, here: Path, model: PegasosClassifier) -> None:
    """Python's raw files take what there is room for, and leave it to others to count."""
    pytest.importorskip("resource", reason="no limits on the size of files")
    io.save(model, "model")
    (here / "many.svm").write_text("1 1:1\n-1 2:1\n" * 20_000)
    script = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000)); from pegasos.cli import main; "
    for unbuffered in ("", "1"):
        with open(here / "out", "wb") as out:
            done = subprocess.run(
                [sys.executable, "-c", script + "sys.exit(main(['predict', 'model', 'many.svm']))"],
                stdout=out, stderr=subprocess.PIPE, env=os.environ | {"PYTHONUNBUFFERED": unbuffered}, text=True, check=False,
            )
        assert (done.returncode, done.stderr) == (2, "pegasos: error: File too large\n")
