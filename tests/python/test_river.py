"""Streams of dictionaries: the bits of ``partial_fit`` on rows of ``FeatureHasher``, whatever the dictionaries are."""

import copy
import math
import pickle
import re
from collections import Counter, UserDict
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from river import checks, compose, datasets, evaluate, linear_model, metrics, preprocessing, stream
from scipy.sparse import csr_matrix, vstack
from sklearn.feature_extraction import FeatureHasher
from sklearn.pipeline import make_pipeline

import pegasos
from pegasos import _core
from pegasos._calibration import Calibration
from pegasos._core import ProbabilityMap
from pegasos.river import KernelPegasosClassifier, PegasosClassifier, _Notes

MODELS = {
    "hinge": PegasosClassifier(n_features=64),
    "log_loss": PegasosClassifier("log_loss", n_features=64),
    "forgetting": PegasosClassifier(half_life=20.0, fit_intercept=False, n_features=64),
    "sparse kernel": KernelPegasosClassifier(budget=8),
    "merging": KernelPegasosClassifier(budget=8, n_features=64),
    "poly": KernelPegasosClassifier("poly", gamma=0.5, coef0=1.0, budget=8, maintenance="remove", n_features=64),
}


def examples(n=80, classes=("north", "east", "south"), seed=0):
    """Dictionaries with numbers, texts and holes, and classes."""
    random = np.random.default_rng(seed)
    for _ in range(n):
        x = {f"f{j}": float(random.normal()) for j in range(6) if random.random() < 0.8}
        x["colour"] = str(random.choice(["red", "green", "ümber"]))
        x["is"] = bool(random.random() < 0.5)
        score = x.get("f0", 0.0) + (x["colour"] == "red")
        yield x, classes[int(np.clip(score + 1, 0, len(classes) - 1))]


def learned(model, pairs):
    model = model.clone()
    for x, y in pairs:
        model.learn_one(x, y)
    return model


def estimator_like(model):
    """What stands behind, for batches."""
    common = dict(alpha=model.alpha, half_life=model.half_life, sampling="storage")
    if isinstance(model, PegasosClassifier):
        way = "ovr" if model.loss == "log_loss" else "crammer_singer"
        return pegasos.PegasosClassifier(model.loss, fit_intercept=model.fit_intercept, multi_class=way, **common)
    return pegasos.KernelPegasosClassifier(
        model.kernel, degree=model.degree, coef0=model.coef0, budget=model.budget, maintenance=model.maintenance,
        average=False, multi_class="crammer_singer", random_state=0, **common,
    )


def arrays(estimator):
    linear = isinstance(estimator, pegasos.PegasosClassifier)
    names = ("coef_", "intercept_") if linear else ("dual_coef_", "support_vectors_")
    found = (getattr(estimator, name) for name in names)
    return [part.toarray() if hasattr(part, "toarray") else part for part in found]


def state(model):
    """All that a model knows, of the next step too."""
    if model.predict_one({}) is None:
        return None
    estimator = model.to_sklearn()
    notes = None if model._notes is None else (model._notes.count, model._notes.scores.tobytes())
    return [part.tobytes() for part in arrays(estimator)], estimator.t_, model._counts, model._labels, notes


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("classes", [(False, True), ("north", "east", "south")], ids=["two", "three"])
def test_bits_are_those_of_partial_fit(name, classes):
    model, pairs = MODELS[name], list(examples(classes=classes))
    found = learned(model, pairs).to_sklearn()
    rows = FeatureHasher(model.n_features).transform([x for x, _ in pairs])
    want = estimator_like(model)
    if hasattr(model, "gamma"):
        want.set_params(gamma=1.0 / len(pairs[0][0]) if model.gamma == "auto" else model.gamma)
    for i, (_, y) in enumerate(pairs):
        want.partial_fit(rows[[i]], [y])
    assert found.t_ == want.t_ > 0
    assert found.classes_.tolist() == want.classes_.tolist() == sorted(classes)
    assert found._stream.counts.tolist() == want._stream.counts.tolist()
    for a, b in zip(arrays(found), arrays(want), strict=True):
        assert a.tobytes() == b.tobytes()
    # And both go on alike.
    for estimator in (found, want):
        estimator.partial_fit(rows, [y for _, y in pairs])
    for a, b in zip(arrays(found), arrays(want), strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("name", MODELS)
def test_predictions_are_those_of_the_estimator(name):
    model = learned(MODELS[name], examples())
    pairs = list(examples(40, seed=1))
    pipeline = make_pipeline(FeatureHasher(model.n_features), model.to_sklearn())
    X = [x for x, _ in pairs]
    assert [model.predict_one(x) for x in X] == pipeline.predict(X).tolist()
    want = pipeline.predict_proba(X)
    for x, row in zip(X, want, strict=True):
        found = model.predict_proba_one(x)
        assert list(found) == pipeline.classes_.tolist()
        assert sum(found.values()) == pytest.approx(1.0)
        if name == "log_loss":
            assert list(found.values()) == pytest.approx(row.tolist(), rel=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_checks_of_river(name):
    checks.check_estimator(MODELS[name])


@pytest.mark.parametrize("n_features", [1, 7, 64, 2**18, 2**31 - 1])
def test_rows_are_those_of_feature_hasher(n_features):
    random = np.random.default_rng(n_features)
    hasher, theirs = _core.Hasher(n_features), FeatureHasher(n_features)
    values = [0, 0.0, -0.0, 1.5, -0.25, 3, True, False, "red", "", "ü", np.float32(0.1), np.int8(-3), 1e300]
    for i in range(300):
        # Floats alone, which have a way of their own; the same names as before; others.
        kinds = values[1:5] if i % 3 else values
        names = random.permutation(12)[: random.integers(13)] if i % 4 else range(5)
        x = {f"nämé {j}" if j % 2 else f"n{j}": kinds[random.integers(len(kinds))] for j in names}
        want = theirs.transform([x])
        columns, found = hasher.row(x)
        assert columns.tolist() == want.indices.tolist()
        # Of three in a column nobody says which two are summed first.
        np.testing.assert_array_max_ulp(found, want.data, 0 if n_features > 64 else 4)


def test_names_and_values_of_other_kinds():
    hasher = _core.Hasher(2**18)

    def row(x):
        return [part.tolist() for part in hasher.row(x)]

    assert row({1: 2.0, (1, "a"): 1.0, None: 3.0}) == row({"1": 2.0, "(1, 'a')": 1.0, "None": 3.0})
    assert row({b"name": 1.0}) == row({"name": 1.0})
    half = [Decimal("0.5"), Fraction(1, 2), np.float16(0.5), np.array(0.5)]
    assert all(row({"a": value}) == row({"a": 0.5}) for value in half)
    assert row(Counter("aab")) == row({"a": 2, "b": 1}) == row(UserDict(a=2, b=1))
    assert row({}) == row({"a": 0}) == [[], []]
    assert row({"a": np.str_("red")}) == row({"a=red": 1})


HOSTILE = [
    ({"a": math.nan}, ValueError, r"x\['a'\] must be a finite number or a text, got nan"),
    ({"a": 1.0, "b": -math.inf}, ValueError, r"x\['b'\].*got -inf"),
    ({"a": 10**400}, ValueError, r"x\['a'\].*got 1000"),
    ({"a": 10**5000}, ValueError, r"x\['a'\].*got int"),
    ({"a": Decimal("NaN")}, ValueError, r"x\['a'\].*got Decimal"),
    ({"a": None}, TypeError, r"x\['a'\].*got None"),
    ({"a": [1.0]}, TypeError, r"x\['a'\].*got \[1.0\]"),
    ({"a": 1j}, TypeError, r"x\['a'\].*got 1j"),
    ({"a": {}}, TypeError, r"x\['a'\].*got \{\}"),
    ({"a": pd.NA}, TypeError, r"x\['a'\].*got <NA>"),
    ({"\ud800": 1.0}, ValueError, r"x\['.ud800'\] must have a name, .* that UTF-8 can hold, got '.ud800'"),
    ({"a": "\ud800"}, ValueError, r"x\['a'\] must have .* a value .* that UTF-8 can hold, got '.ud800'"),
    ([("a", 1.0)], TypeError, "x must be a dict of features by name, got: list"),
    (None, TypeError, "got: NoneType"),
    ("a", TypeError, "got: str"),
]


@pytest.mark.parametrize("x, error, message", HOSTILE)
@pytest.mark.parametrize("name", ["hinge", "sparse kernel"])
def test_bad_examples_are_refused_and_teach_nothing(name, x, error, message):
    fresh = MODELS[name].clone()
    for model in (fresh, learned(MODELS[name], [({"a": 1.0}, 1)]), learned(MODELS[name], examples())):
        y = model.predict_one({}) if model is not fresh else 1
        before = state(model)
        with pytest.raises(error, match=message):
            model.learn_one(x, y)
        assert state(model) == before
    for method in (model.predict_one, model.predict_proba_one):
        with pytest.raises(error, match=message):
            method(x)


@pytest.mark.parametrize("name", MODELS)
def test_numbers_that_overflow_are_refused(name):
    model = learned(MODELS[name], examples())
    before = state(model)
    said = "^x must be finite and of a scale whose products are finite: it makes .*; scale the features .* or w$"
    for huge in ({"f0": 1e200}, {"f0": 1e308, "f1": -1e308}):
        for label in ("north", "none of before"):
            with pytest.raises(ValueError, match=said) as caught:
                model.learn_one(huge, label)
            assert caught.type is ValueError
    assert state(model) == before
    for method in (model.predict_one, model.predict_proba_one):
        try:
            method({"f0": 1e308, "f1": -1e308})
        except ValueError as error:
            assert re.search(said, str(error)) and type(error) is ValueError
    with pytest.raises(ValueError, match=said):
        MODELS[name].clone().learn_one({"f0": 1e308, "f1": -1e308}, "north")
    model.learn_one({"f0": 1e10}, "north")


def test_numbers_whose_code_meddles():
    model = learned(MODELS["hinge"], examples())
    x = {"a": 1.0}

    class Meddler:
        def __float__(self):
            x[f"b{len(x)}"] = 1.0
            model.learn_one({"c": 2.0}, "north")
            return 3.0

    class Failure:
        def __float__(self):
            raise RuntimeError("no number today")

        def __repr__(self):
            raise RuntimeError("no text either")

    x["meddler"] = Meddler()
    t = model.to_sklearn().t_
    model.learn_one(x, "north")
    assert model.to_sklearn().t_ == t + 2 and "b2" in x
    with pytest.raises(ValueError, match="got Failure"):
        model.learn_one({"a": Failure()}, "north")


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, MemoryError])
@pytest.mark.parametrize("where", ["__float__", "__repr__", "items"])
def test_ctrl_c_within_the_code_of_a_value_is_no_bad_value(error, where):
    def fail(*_self):
        raise error

    value = type("Value", (), {where: fail})()
    model = learned(PegasosClassifier(), examples())
    before = state(model)
    with pytest.raises(error):
        model.learn_one(value if where == "items" else {"a": value}, "north")
    assert state(model) == before


@pytest.mark.parametrize("w", [0.0, -1.0, math.nan, math.inf, 0, 10**400, "1", None, [1.0]], ids=lambda w: str(w)[:9])
def test_weights_are_positive(w):
    for model in (PegasosClassifier(), learned(PegasosClassifier(), examples())):
        with pytest.raises((ValueError, TypeError), match="w must be (a number )?> 0 and finite"):
            model.learn_one({"a": 1.0}, "north", w=w)


def test_weights_weigh():
    pairs = list(examples(classes=(False, True)))
    model, want = PegasosClassifier(n_features=64), estimator_like(PegasosClassifier())
    rows = FeatureHasher(64).transform([x for x, _ in pairs])
    for i, (x, y) in enumerate(pairs):
        model.learn_one(x, y, w=1.0 + i % 3)
        want.partial_fit(rows[[i]], [y], sample_weight=[1.0 + i % 3])
    assert arrays(model.to_sklearn())[0].tobytes() == arrays(want)[0].tobytes()


@pytest.mark.parametrize("name", MODELS)
def test_before_the_first_and_the_second_class(name):
    model = MODELS[name].clone()
    assert model.predict_one({"a": 1.0}) is None and model.predict_proba_one({"a": 1.0}) == {}
    with pytest.raises(ValueError, match="before the first example"):
        model.to_sklearn()
    for _ in range(3):
        model.learn_one({"a": 1.0}, "only")
        assert model.predict_one({}) == "only" and model.predict_proba_one({"b": 2.0}) == {"only": 1.0}
    assert model.to_sklearn().t_ == 0 and model.to_sklearn()._stream.counts.tolist() == [3]
    model.learn_one({"b": 1.0}, "another")
    assert set(model.predict_proba_one({"a": 1.0})) == {"only", "another"}
    model.learn_one({}, "only")
    assert model.to_sklearn()._stream.counts.tolist() == [1, 4]


def test_classes_of_other_kinds_are_refused():
    for first, other in [("a", 1), (1, "a"), (True, "a"), ("a", None), (1, 0.5)]:
        for model in (learned(PegasosClassifier(), [({}, first)]), learned(PegasosClassifier(), examples())):
            known = model._labels[0]
            if isinstance(known, str) == isinstance(other, str):
                continue
            before = state(model)
            with pytest.raises((ValueError, TypeError)):
                model.learn_one({"a": 1.0}, other)
            assert state(model) == before
    for model in (PegasosClassifier(), learned(PegasosClassifier(), examples())):
        before = state(model)
        for other in ([1], {}, ("a",), None, b"a", np.array("a"), pd.NA, 1.5, math.nan, 10**30, "a\0"):
            with pytest.raises((TypeError, ValueError), match="y must be a class: a bool, an int.* got "):
                model.learn_one({"a": 1.0}, other)
        assert state(model) == before
    model = learned(PegasosClassifier(), [({"a": 1.0}, np.True_), ({"a": -1.0}, np.False_), ({"a": 1.0}, 1)])
    assert model.predict_one({"a": 1.0}) is True and model.predict_one({"a": -1.0}) is False


def test_probabilities_are_those_of_the_scores_of_the_stream():
    pairs = list(examples(400, classes=(False, True)))
    patient, eager = PegasosClassifier(), PegasosClassifier()
    for x, y in pairs:
        patient.learn_one(x, y)
        eager.predict_proba_one(x)
        eager.learn_one(x, y)
    assert patient.predict_proba_one(pairs[0][0]) == eager.predict_proba_one(pairs[0][0])
    # The scores that partial_fit notes.
    want = estimator_like(eager).set_params(calibration="sigmoid")
    rows = FeatureHasher(eager.n_features).transform([x for x, _ in pairs])
    for i, (_, y) in enumerate(pairs):
        want.partial_fit(rows[[i]], [y])
    found = eager.to_sklearn()
    np.testing.assert_array_equal(found._scored.codes, want._scored.codes)
    np.testing.assert_allclose(found._scored.scores, want._scored.scores, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.predict_proba(rows), want.predict_proba(rows), rtol=1e-6)
    # The map is that of the later half, and no more than a tenth behind.
    known = eager._notes.known
    assert 0.9 * len(want._scored.codes) <= known <= len(want._scored.codes) == eager._notes.count
    half = slice(known // 2, known)
    calibration = Calibration.of("sigmoid", want._scored.scores[half], want._scored.codes[half], 2)
    probabilities = calibration.probabilities(want.decision_function(rows))
    for (x, _), row in zip(pairs, probabilities, strict=True):
        assert list(eager.predict_proba_one(x).values()) == pytest.approx(row.tolist(), rel=1e-6)
    likely = [eager.predict_proba_one(x)[y] for x, y in pairs[200:]]
    assert np.mean(np.log(likely)) > np.log(0.5)


def test_a_note_that_is_cut_off_is_none():
    def cut_off():
        yield 7.0
        raise KeyboardInterrupt

    notes = _Notes("sigmoid", 3)
    notes.add([1.0, 2.0, 3.0], 0)
    with pytest.raises(KeyboardInterrupt):
        notes.add(cut_off(), 1)
    assert notes.count == 1 and notes.scored(2).scores.tolist() == [[1.0, 2.0, 3.0]]
    notes.add([4.0, 5.0, 6.0], 2)
    assert notes.count == 2 and notes.scored(2).scores.tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]


@pytest.mark.parametrize("name", MODELS)
def test_a_class_joins_at_once_or_not_at_all(name, monkeypatch):
    model = learned(MODELS[name], examples(classes=("a", "c")))
    before = state(model)
    kind = type(model._estimator)
    whole = kind.partial_fit

    def cut_off(self, *args, **params):
        whole(self, *args, **params)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(kind, "partial_fit", cut_off)
        with pytest.raises(KeyboardInterrupt):
            model.learn_one({"f0": 1.0}, "b")
    assert state(model) == before and set(model.predict_proba_one({"f0": 1.0})) == {"a", "c"}
    model.learn_one({"f0": 1.0}, "b")
    assert set(model.predict_proba_one({"f0": 1.0})) == {"a", "b", "c"}


def test_notes_are_bounded():
    notes = _Notes("sigmoid", 2)
    notes.most = 10
    for k in range(200):
        notes.add([float(k)], k % 2)
        assert len(notes.codes) == len(notes.scores) < 30
        for late, most in [(0, 10), (1, 10), (1, 4), (0, 99)]:
            found = notes.scored(most, late)
            want = np.arange(max(0, k + 1 - late - min(most, 10)), k + 1 - late)
            np.testing.assert_array_equal(found.scores[:, 0], want)
            np.testing.assert_array_equal(found.codes, want % 2)


@pytest.mark.parametrize("method", ["sigmoid", "temperature", "isotonic", None])
@pytest.mark.parametrize("classes", [(False, True), ("north", "east", "south")], ids=["two", "three"])
def test_every_calibration(method, classes):
    model = learned(PegasosClassifier(calibration=method), examples(classes=classes))
    if method is None:
        with pytest.raises(NotImplementedError, match="calibration"):
            model.predict_proba_one({"f0": 1.0})
        return
    found = model.predict_proba_one({"f0": 2.0, "colour": "red"})
    assert set(found) == set(classes) and sum(found.values()) == pytest.approx(1.0)
    assert model.to_sklearn().calibration == method


def test_frames():
    pairs = [({k: v for k, v in x.items() if k.startswith("f")}, y) for x, y in examples(120)]
    names = [f"f{j}" for j in range(6)]
    X = pd.DataFrame([[x.get(name, 0.0) for name in names] for x, _ in pairs], columns=names, index=range(7, 127))
    y = pd.Series([y for _, y in pairs], name="where")
    model = PegasosClassifier()
    model.learn_many(X, y)
    assert arrays(model.to_sklearn())[0].tobytes() == arrays(learned(model, pairs).to_sklearn())[0].tobytes()
    found, rows = model.predict_many(X), model.predict_proba_many(X)
    assert found.tolist() == [model.predict_one(x) for x, _ in pairs]
    assert found.name == "where" and found.index.tolist() == rows.index.tolist() == list(range(7, 127))
    assert rows.iloc[3].to_dict() == pytest.approx(model.predict_proba_one(pairs[3][0]))
    other = PegasosClassifier()
    other.learn_many(pl.from_pandas(X), pl.from_pandas(y))
    assert other.predict_many(pl.from_pandas(X)).to_list() == found.tolist()
    with pytest.raises(ValueError, match="one entry per row of X, 120, got 119"):
        model.learn_many(X, y[:-1])
    assert PegasosClassifier().predict_many(X).tolist() == [None] * 120


def test_pipelines_and_evaluation():
    for model in (PegasosClassifier(), KernelPegasosClassifier()):
        pipeline = preprocessing.StandardScaler() | model
        assert evaluate.progressive_val_score(datasets.Phishing(), pipeline, metrics.Accuracy()).get() > 0.8
        assert evaluate.progressive_val_score(datasets.Phishing(), pipeline.clone(), metrics.ROCAUC()).get() > 0.8
    union = compose.Select("a") + (compose.Select("b") | preprocessing.OneHotEncoder())
    pipeline = union | PegasosClassifier()
    for _ in range(5):
        pipeline.learn_one({"a": 1.0, "b": "x"}, True)
        pipeline.learn_one({"a": -1.0, "b": "y"}, False)
    assert pipeline.predict_one({"a": 1.0, "b": "x"}) is True
    # Names are numbers there.
    X, y = np.eye(4)[[0, 1, 0, 1]], np.array([0, 1, 0, 1])
    model = learned(PegasosClassifier(), stream.iter_array(X, y))
    assert [model.predict_one(x) for x, _ in stream.iter_array(X, y)] == [0, 1, 0, 1]


@pytest.mark.parametrize("name", MODELS)
def test_copies_go_on_alone(name):
    pairs = list(examples(120))
    model = learned(MODELS[name], pairs[:60])
    bare = model.clone()
    assert bare.predict_one({}) is None and repr(bare) == repr(model)
    twins = [copy.deepcopy(model), pickle.loads(pickle.dumps(model)), model.clone(include_attributes=True)]
    before = arrays(model.to_sklearn())
    for twin in twins:
        for x, y in pairs[60:]:
            twin.learn_one(x, y)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(before, arrays(model.to_sklearn()), strict=True))
    whole = learned(model, pairs).to_sklearn()
    rows = FeatureHasher(model.n_features).transform([x for x, _ in pairs])
    for twin in twins:
        # Support vectors may stand in another order.
        found, want = (estimator.decision_function(rows) for estimator in (twin.to_sklearn(), whole))
        np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-9)


def test_what_was_learned_is_an_estimator(tmp_path):
    pairs = list(examples())
    model = learned(PegasosClassifier(n_features=64), pairs)
    estimator = model.to_sklearn()
    before = estimator.coef_.copy()
    model.learn_one({"f0": -9.0}, "south")
    np.testing.assert_array_equal(estimator.coef_, before)
    assert (model.to_sklearn().coef_ != before).any()
    pegasos.save(estimator, tmp_path / "model.safetensors")
    rows = FeatureHasher(64).transform([x for x, _ in pairs])
    np.testing.assert_array_equal(pegasos.load(tmp_path / "model.safetensors").predict(rows), estimator.predict(rows))
    merged = pegasos.merge([estimator, learned(model, examples(seed=5)).to_sklearn()])
    assert merged.score(vstack([rows, csr_matrix((1, 64))]), [y for _, y in pairs] + ["south"]) > 0.5


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: PegasosClassifier(n_features=0), "n_features must be in 1 to 2"),
        (lambda: PegasosClassifier(n_features=2**31), "n_features"),
        (lambda: PegasosClassifier(n_features=10**30), "n_features"),
        (lambda: PegasosClassifier(n_features=3.0), "n_features must be in 1 to 2.* an int, got 3.0"),
        (lambda: PegasosClassifier(n_features=None), "n_features"),
        (lambda: PegasosClassifier(fit_intercept="free"), "fit_intercept must be True or False, got 'free'"),
        (lambda: PegasosClassifier("squared_hinge"), "loss must be 'hinge' or 'log_loss'"),
        (lambda: PegasosClassifier(alpha=0.0), "alpha"),
        (lambda: PegasosClassifier(half_life=-1.0), "half_life"),
        (lambda: PegasosClassifier(calibration="platt"), "calibration"),
        (lambda: KernelPegasosClassifier("linear"), "kernel must be"),
        (lambda: KernelPegasosClassifier(budget=None), "budget must be an int"),
        (lambda: KernelPegasosClassifier(budget=0), "budget"),
        (lambda: KernelPegasosClassifier(gamma="scale"), "gamma"),
        (lambda: KernelPegasosClassifier(maintenance="forget"), "maintenance"),
        (lambda: KernelPegasosClassifier("poly", maintenance="merge"), "maintenance"),
    ],
)
def test_bad_parameters_are_refused_at_once(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_parameters_may_be_integers_of_numpy():
    model = KernelPegasosClassifier(budget=np.int64(8), n_features=np.int32(64))
    assert state(learned(model, examples())) == state(learned(MODELS["merging"], examples()))


def test_it_learns_no_worse_than_logistic_regression():
    for make in (PegasosClassifier, KernelPegasosClassifier):
        scores = [
            evaluate.progressive_val_score(
                datasets.Bananas().take(1500), preprocessing.StandardScaler() | model, metrics.Accuracy()
            ).get()
            for model in (make(), linear_model.LogisticRegression())
        ]
        assert scores[0] > scores[1] - 0.03
    assert scores[0] > scores[1] + 0.2


def test_without_river(run_script):
    text = "import sys\nsys.modules['river'] = None\nimport pegasos\npegasos.river\n"
    done = run_script(text)
    assert done.returncode != 0 and "pip install 'pegasos[river]'" in done.stderr


@pytest.mark.parametrize(
    ("method", "parts"),
    [
        ("sigmoid", [[-1.0, 0.0], [-3.5, 0.25], [1e300, -2.0], [0.0, 1e4], [0.0, -1e4], [-1e300, 700.0]]),
        ("temperature", [[0.0], [0.3], [2.5], [1e300]]),
        (
            "isotonic",
            [
                [[0.0], [0.5]],
                [[-1.0, 2.0], [0.1, 0.9]],
                [[-1.0, 0.1, 0.1, 0.4, 3.0], [0.1, 0.2, 0.6, 0.6, 0.9]],
                [[-1e-300, 0.0, 5e-324], [0.1, 0.2, 0.8]],
            ],
        ),
    ],
)
def test_probabilities_are_those_of_a_calibration(method, parts):
    model = learned(PegasosClassifier("log_loss"), examples(60, classes=("no", "yes")))
    trainer, hasher = model._estimator._trainer, model._hasher
    sizes = [0.0, 1e-320, 1e-9, 0.01, 0.1, 1.0, 3.0, 40.0, 1e4, 1e200]
    rows = [{"f0": sign * size} for sign in (1.0, -1.0) for size in sizes]
    for part in map(np.array, parts):
        probability_map = pickle.loads(pickle.dumps(ProbabilityMap(method, [part.ravel().tolist()])))
        for x in rows:
            scores = np.array([trainer.scores_one(hasher, x)])
            with np.errstate(over="ignore", invalid="ignore"):
                want = Calibration(method, 2, False, [part]).probabilities(scores)[0]
            found = probability_map.probabilities(trainer, hasher, x, ["no", "yes"])
            assert list(found) == ["no", "yes"]
            np.testing.assert_allclose(list(found.values()), want, rtol=1e-13, atol=0.0 if method == "isotonic" else 1e-15)


@pytest.mark.parametrize(
    ("method", "parts"),
    [
        ("sigmoid", [[-2.0, 0.1], [-1.0, 0.0], [-3.0, 2.0]]),
        ("sigmoid", [[-1.0, 1e300]] * 3),
        ("temperature", [[1.5]]),
        ("isotonic", [[[-1.0, 1.0], [0.1, 0.9]], [[0.0], [0.5]], [[-1.0, 0.0, 0.1], [0.0, 0.0, 1.0]]]),
        ("isotonic", [[[0.0], [0.0]]] * 3),
    ],
)
def test_probabilities_of_three_classes(method, parts):
    names = ["north", "east", "south"]
    model = learned(PegasosClassifier("log_loss"), examples(60, classes=names))
    trainer, hasher = model._estimator._trainer, model._hasher
    arrays = [np.array(part) for part in parts]
    probability_map = pickle.loads(pickle.dumps(ProbabilityMap(method, [part.ravel().tolist() for part in arrays])))
    for size in (-1e4, -1.0, -0.01, 0.0, 0.1, 3.0, 1e200):
        x = {"f0": size}
        scores = np.array([trainer.scores_one(hasher, x)])
        with np.errstate(over="ignore", invalid="ignore"):
            want = Calibration(method, 3, False, arrays).probabilities(scores)[0]
        found = probability_map.probabilities(trainer, hasher, x, names)
        assert list(found) == names
        np.testing.assert_allclose(list(found.values()), want, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize(
    ("method", "parts"),
    [("sigmoid", [[1.0]]), ("temperature", []), ("isotonic", [[]]), ("isotonic", [[1.0, 2.0, 3.0]]), ("platt", [[1.0]])],
)
def test_maps_that_are_none(method, parts):
    with pytest.raises(ValueError, match="does not belong to|must rise"):
        ProbabilityMap(method, parts)


def test_probabilities_have_a_label_for_each_class():
    model = learned(PegasosClassifier("log_loss"), examples(60, classes=("north", "east", "south")))
    with pytest.raises(ValueError, match="a label for each class"):
        ProbabilityMap("temperature", [[1.0]]).probabilities(model._estimator._trainer, model._hasher, {"f0": 1.0}, ["a", "b"])
