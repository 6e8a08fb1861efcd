"""Texts in front of a model: hashed features made in Rust beside scikit-learn's."""

from __future__ import annotations

import random
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

import pegasos
from pegasos import KernelPegasosClassifier, PegasosClassifier, io
from pegasos.cli import main

#: All characters that this Python knows; a crate may know more.
KNOWN = [chr(c) for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs")]

#: All of those of the first planes of living scripts, and some of the many others.
SOME = [*filter("\u3400".__gt__, KNOWN), *[c for c in KNOWN if c >= "\u3400"][::29]]

#: What tokens begin and end at, what lowercase is hard for, marks that are no letters, numbers that are no digits.
ODD = "abc ABC 12_ \t\n  çÉß ΣΑΣ  İ ﬁ नमस्ते 日本語 ⅷ²  \x1c \u2003 é ́"


def texts(seed: int, n: int = 300) -> list[str]:
    dice = random.Random(seed)
    made = ["".join(dice.choice(ODD if dice.random() < 0.8 else KNOWN) for _ in range(dice.randrange(60))) for _ in range(n)]
    return [*made, "", " ", "a", "The cat AND the dog", "ΟΔΟΣ ΟΔΟΣ", "x" * 500, "a\0b", "\r\n", "a  b\tc"]


def saved(vectorizer: HashingVectorizer, rows: list[str], path: Path, estimator: Any = None) -> tuple[Any, Any]:
    model = make_pipeline(vectorizer, estimator or PegasosClassifier(max_iter=2, tol=None, random_state=0))
    model.fit(rows, np.arange(len(rows)) % 3)
    pegasos.save(model, path)
    return model, pegasos.load(path, light=True)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"ngram_range": (1, 2), "stop_words": "english"},
        {"ngram_range": (2, 3), "norm": "l1"},
        {"token_pattern": r"(?u)\b\w+\b", "binary": True, "alternate_sign": False},
        {"stop_words": ["abc", "ß"], "n_features": 7},
        {"lowercase": False, "norm": None},
        {"analyzer": "char", "ngram_range": (1, 3), "norm": None},
        {"analyzer": "char", "ngram_range": (70, 80)},
        {"analyzer": "char_wb", "ngram_range": (2, 4), "lowercase": False},
        {"analyzer": "char_wb", "ngram_range": (5, 7)},
    ],
    ids=str,
)
def test_hashed_rows_are_scikit_learns(params: dict[str, Any], tmp_path: Path) -> None:
    """To the last bit: else weights of rows with other numbers, or in other columns, would give other scores."""
    rows = texts(0)
    model, light = saved(HashingVectorizer(**{"n_features": 2**12} | params), rows, tmp_path / "model")
    other = texts(1)
    assert (light.decision_function(other) == model.decision_function(other)).all()
    assert (light.predict(other) == model.predict(other)).all()
    again = pegasos.load(tmp_path / "model")
    assert (again.decision_function(other) == model.decision_function(other)).all()


def test_every_character(tmp_path: Path) -> None:
    """Alone, between letters and behind one: whether it is a letter, a space, and what it is in lower case."""
    rows = [f"{c}x{c} {c}{c} a{c}b" for c in SOME]
    model, light = saved(HashingVectorizer(n_features=2**20), rows, tmp_path / "model")
    assert (light.decision_function(rows) == model.decision_function(rows)).all()
    wide = make_pipeline(HashingVectorizer(n_features=2**20, analyzer="char_wb", ngram_range=(1, 4)), model[-1])
    pegasos.save(wide, tmp_path / "wide")
    found = pegasos.load(tmp_path / "wide", light=True).decision_function(rows)
    assert (found == wide.decision_function(rows)).all()


def test_single_precision(tmp_path: Path) -> None:
    rows = texts(2)
    model, light = saved(HashingVectorizer(n_features=2**12, dtype=np.float32), rows, tmp_path / "model")
    assert model[-1].coef_.dtype == np.float32
    assert np.allclose(light.decision_function(rows), model.decision_function(rows), rtol=0.0, atol=1e-6)


def test_kernels_and_scalers_behind_texts(tmp_path: Path) -> None:
    rows = [text for text in texts(3) if any(map(str.isalnum, text))]
    hashed = HashingVectorizer(n_features=64, norm=None)
    model = make_pipeline(hashed, MaxAbsScaler(), KernelPegasosClassifier(budget=20, calibration="temperature", random_state=0))
    model.fit(rows, np.arange(len(rows)) % 2)
    pegasos.save(model, tmp_path / "model")
    light = pegasos.load(tmp_path / "model", light=True)
    assert (light.decision_function(rows) == model.decision_function(rows)).all()
    assert np.allclose(light.predict_proba(rows), model.predict_proba(rows), rtol=1e-12)
    again = pegasos.load(tmp_path / "model")
    assert isinstance(again, Pipeline) and [name for name, _ in again.steps] == [name for name, _ in model.steps]
    assert (again.predict(rows) == model.predict(rows)).all()


def test_a_vectorizer_comes_back_as_it_was(tmp_path: Path) -> None:
    given = HashingVectorizer(n_features=99, stop_words="english", ngram_range=(1, 2), norm=None, dtype=np.float32, binary=True)
    saved(given, texts(4), tmp_path / "model")
    found = pegasos.load(tmp_path / "model")[0]
    assert found.get_params() == given.get_params()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"strip_accents": "unicode"}, "strip_accents of a HashingVectorizer must be None to be saved, got 'unicode'"),
        ({"token_pattern": r"\w"}, r"token_pattern of a HashingVectorizer must be .* got '\\\\w'"),
        ({"preprocessor": str.upper}, "preprocessor of a HashingVectorizer must be None"),
        ({"tokenizer": str.split, "token_pattern": None}, "of a HashingVectorizer must be"),
        ({"analyzer": str.split}, "analyzer of a HashingVectorizer must be 'word' or 'char' or 'char_wb'"),
    ],
)
def test_what_rust_cannot_do_is_refused(params: dict[str, Any], message: str, tmp_path: Path) -> None:
    rows = ["some words here", "other words"] * 5
    model = make_pipeline(HashingVectorizer(n_features=16, **params), PegasosClassifier(random_state=0)).fit(rows, [0, 1] * 5)
    with pytest.raises(ValueError, match=message):
        pegasos.save(model, tmp_path / "model")
    assert not any(tmp_path.iterdir())


def test_texts_where_rows_are_wanted(tmp_path: Path) -> None:
    rows = ["one", "two"] * 5
    _, light = saved(HashingVectorizer(n_features=16), rows, tmp_path / "model")
    assert light.takes_texts
    for wrong, message in [
        ("one text", "must be an iterable of texts, got one str"),
        ([1, 2], "must hold texts, got 1"),
        ([], "one text or more"),
        (np.zeros((2, 16)), "must hold texts, got array"),
        ([b"bytes"], "must hold texts, got b'bytes'"),
    ]:
        with pytest.raises(ValueError, match=message):
            light.predict(wrong)
    assert light.predict(np.array(["one", "two"])).shape == (2,)
    with pytest.raises(ValueError, match="the model must be one of rows to be a header, got"):
        light.to_c()


@pytest.mark.parametrize("where", [0, 1])
def test_steps_that_no_file_holds(where: int, tmp_path: Path) -> None:
    steps = [("a", StandardScaler()), ("b", StandardScaler())]
    steps[where] = ("f", _Other())
    X = np.random.default_rng(0).normal(size=(20, 3))
    model = Pipeline([*steps, ("model", PegasosClassifier(random_state=0))]).fit(X, np.arange(20) % 2)
    with pytest.raises(ValueError, match="steps before the estimator must be .* got _Other"):
        pegasos.save(model, tmp_path / "model")


class _Other(StandardScaler):
    """A scaler that may do anything."""


def test_the_command_reads_texts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = ["the cat sat", "a dog ran", "the cats ran", "dogs and, a dog"] * 10
    model = make_pipeline(HashingVectorizer(n_features=2**10), PegasosClassifier(random_state=0))
    model.fit(rows, ["cat", "dog", "cat", "dog"] * 10)
    pegasos.save(model, tmp_path / "model")
    (tmp_path / "lines.txt").write_text("the cat\n\na dog\n")
    (tmp_path / "two.csv").write_text('text,animal\nthe cat,cat\n"a, dog",dog\n')
    (tmp_path / "one.csv").write_text('"the cat"\n"a, dog"\n')
    (tmp_path / "three.csv").write_text("a,b,c\nd,e,f\n")

    def run(command: str) -> tuple[int, str]:
        status = main([*command.split()[:1], str(tmp_path / "model"), str(tmp_path / command.split()[1]), *command.split()[2:]])
        out, err = capsys.readouterr()
        return status, out + err

    empty = model.predict([""])[0]
    assert run("predict lines.txt") == (0, f"cat\n{empty}\ndog\n")
    assert run("predict one.csv") == (0, "cat\ndog\n")
    assert run("predict two.csv --label animal") == (0, "cat\ndog\n")
    assert run("evaluate two.csv")[1].startswith("accuracy 1.0000 (2 of 2)")
    status, said = run("predict three.csv")
    assert status == 2 and "one column of texts beside the label" in said
    status, said = run("evaluate lines.txt")
    assert status == 2 and "it has no labels" in said


@pytest.mark.parametrize("classes", [[False, True], [0, 1], [0.0, 1.0]])
def test_labels_of_texts_are_those_of_the_model(classes: list[Any], tmp_path: Path) -> None:
    model = make_pipeline(HashingVectorizer(n_features=2**10), PegasosClassifier(random_state=0))
    model.fit(["bad", "good"] * 10, np.array(classes * 10))
    pegasos.save(model, tmp_path / "model")
    names = [str(name) for name in model.classes_.tolist()]
    (tmp_path / "rows.csv").write_text(f"text,label\nbad,{names[0]}\ngood,{names[1]}\nworse,{names[0]}\n")
    light = pegasos.load(tmp_path / "model", light=True)
    y = io.read_for(light, str(tmp_path / "rows.csv")).y
    assert y is not None and y.dtype == model.classes_.dtype
    assert y.tolist() == model.classes_[[0, 1, 0]].tolist()
    (tmp_path / "rows.csv").write_text(f"text,label\nbad,{names[0]}\ngood,2\n")
    y = io.read_for(light, str(tmp_path / "rows.csv")).y
    assert y is not None and y.dtype.kind == ("U" if classes[0] is False else "i" if type(classes[0]) is int else "f")
