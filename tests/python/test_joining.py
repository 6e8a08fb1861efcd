"""Classes that join on the way: what was learned stays, to the last bit, and they begin at 0."""

import copy
import pickle

import numpy as np
import pytest
from conftest import every_pair, labelled, papers_kernel, papers_linear
from scipy import sparse

import pegasos
from pegasos import KernelPegasosClassifier, OnlineGradientClassifier, PegasosClassifier, ProjectronClassifier
from pegasos._base import _PegasosBase
from pegasos._stream import joined

LETTERS = np.array(list("bdface"))


def data(n=90, d=4, n_classes=5, seed=3):
    X, codes = labelled(seed, n, d, n_classes)
    return 2.0 * np.array(X), codes


def saved(model, path):
    pegasos.save(model, path / "model")
    return pegasos.load(path / "model")


def state(model):
    """All that a model has learned."""
    return pickle.dumps(model._trainer.parts()), model.classes_.tolist(), model.t_, model._stream


MODELS = {
    "linear": lambda: papers_linear(random_state=0),
    "linear ovr": lambda: PegasosClassifier(random_state=0),
    "logistic": lambda: PegasosClassifier("log_loss", average=True, projection=True, random_state=0),
    "averaged": lambda: papers_linear(average="uniform", batch_size=3, random_state=0),
    "invscaling": lambda: papers_linear(learning_rate="invscaling", average=20, random_state=0),
    "online": lambda: OnlineGradientClassifier(random_state=0),
    "online ovr": lambda: OnlineGradientClassifier("log_loss", multi_class="ovr", average=True, random_state=0),
    "delayed": lambda: OnlineGradientClassifier(delay=7, random_state=0),
    "delayed ovr": lambda: OnlineGradientClassifier(delay=7, multi_class="ovr", random_state=0),
    "kernel": lambda: KernelPegasosClassifier(gamma=0.5, random_state=0),
    "kernel ovr": lambda: KernelPegasosClassifier(gamma=0.5, multi_class="ovr", projection=True, random_state=0),
    "kernel jointly": lambda: papers_kernel(gamma=0.5, average="uniform", random_state=0),
    "merged": lambda: KernelPegasosClassifier(gamma=0.5, budget=15, random_state=0),
    "projected": lambda: papers_kernel(gamma=0.5, budget=15, maintenance="project", projection=True, random_state=0),
    "removed": lambda: KernelPegasosClassifier(
        gamma=0.5, budget=15, maintenance="remove", multi_class="ovr", average=False, random_state=0
    ),
    "projectron": lambda: ProjectronClassifier(gamma=0.5, random_state=0),
    "projectron averaged": lambda: ProjectronClassifier(gamma=0.5, budget=20, average=True, random_state=0),
}

every_model = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)


@every_model
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_two_then_three_then_five(make, form, tmp_path):
    """Through copies, pickles and files; the scores of others, and what is to come, do not depend on them."""
    X, codes = data()
    y = LETTERS[codes]
    model = make()
    for known in (2, 3, 5):
        rows = codes < known
        model.partial_fit(form(X[rows]), y[rows])
        assert model.classes_.tolist() == sorted(set(y[rows]))
        assert set(model.predict(form(X))) <= set(y[rows])
        scores = model.decision_function(form(X))
        assert scores.shape == ((len(y),) if known == 2 else (len(y), known))
        for twin in (pickle.loads(pickle.dumps(model)), copy.copy(model), saved(model, tmp_path)):
            assert np.array_equal(twin.decision_function(form(X)), scores)
            twin.partial_fit(form(X), LETTERS[np.arange(len(y)) % 6])
            assert twin.classes_.tolist() == sorted(LETTERS)
            assert twin._stream.counts.sum() == model._stream.counts.sum() + len(y)
        again = copy.deepcopy(model).partial_fit(form(X), LETTERS[np.arange(len(y)) % 6])
        assert again.decision_function(form(X)) == pytest.approx(twin.decision_function(form(X)), rel=1e-6, abs=1e-9)
    model.partial_fit(form(X), y)
    assert model.score(form(X), y) > 0.5


@every_model
def test_what_was_scored_stays(make, monkeypatch):
    """Of two classes s becomes -s and s, jointly half of them, of their pair -s; and a new class has 0."""
    # No steps: what is left is the joining alone.
    X, codes = data()
    model = make().set_params(**({"decision_function_shape": "ovo"} if isinstance(make(), KernelPegasosClassifier) else {}))
    model.partial_fit(X[codes < 2], LETTERS[codes[codes < 2]])
    before = model.decision_function(X)
    monkeypatch.setattr("pegasos._base.Run.epochs", lambda run, *_: iter(()))

    def join(named):
        parts = model._trainer.parts()
        model.partial_fit(X[:1], ["b"], classes=named)
        return parts

    join(["a", "b", "d"])
    way = model._choice("multi_class")
    scores, zero = model.decision_function(X), np.zeros(len(X))
    # Pairs of a with others, and b with d; the score of one is for d.
    expected = {
        "ovo": [zero, zero, -before],
        "ovr": [zero, -before, before],
        "crammer_singer": [zero, -before / 2, before / 2],
    }[way]
    assert scores == pytest.approx(np.column_stack(expected), rel=1e-12, abs=1e-15)
    join(["a", "b", "c", "d", "e"])
    more = model.decision_function(X)
    if way == "ovo":
        # (a, b), (a, d), (b, d) of the ten pairs of a, b, c, d, e.
        assert np.array_equal(more[:, [0, 2, 5]], scores)
        assert not np.delete(more, [0, 2, 5], axis=1).any()
    else:
        assert np.array_equal(more[:, [0, 1, 3]], scores)
        assert not more[:, [2, 4]].any()


@pytest.mark.parametrize("way", ["ovo", "ovr", "crammer_singer"])
def test_what_was_scored_stays_of_many(way):
    """From few scores, which stand in a table, to many, which stand as lists, and to more of these."""
    X, y = labelled(3, 400, 6, 36)
    model = papers_kernel(gamma=0.5, multi_class=way, average=True)
    for known in ([*range(8)], [*range(2, 33)]):
        rows = np.isin(y, known)
        model.partial_fit(X[rows], y[rows])
    before = model.classes_
    after = np.unique(np.append(before, [1000, -5, 33, 34]))
    trainer = joined(model._trainer, before, after, None, None)
    found, scores = model._scores(trainer, X), model._all_scores(X)
    places = np.searchsorted(after, before)
    if way == "ovo":
        numbers = np.zeros((len(after), len(after)), int)
        numbers[np.triu_indices(len(after), 1)] = np.arange(found.shape[1])
        places = numbers[places[:, None], places][np.triu_indices(len(before), 1)]
    # Lists are summed in an order of their own.
    assert found[:, places] == pytest.approx(scores, rel=1e-12, abs=1e-12)
    assert not np.delete(found, places, axis=1).any()
    assert found.shape[1] > 32 and len(trainer.parts()["ends"]) == len(model.support_vectors_)


@pytest.mark.parametrize("batch_size", [1, 4])
def test_after_ctrl_c_what_was_learned_is_counted(batch_size, monkeypatch):
    X, y = labelled(0, 300_000, 5, 3)
    model = PegasosClassifier(class_weight="balanced", batch_size=batch_size, random_state=0).partial_fit(X[:300], y[:300])
    before = model._stream.counts

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("pegasos._progress.NoBar.shows", True)
    monkeypatch.setattr("pegasos._run.Run._visited", interrupted)
    t = model.t_
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(X, y)
    learned, counted = batch_size * (model.t_ - t), model._stream.counts - before
    assert 0 < learned < len(y) and abs(counted.sum() - learned) <= 3
    assert counted == pytest.approx(learned * np.bincount(y) / len(y), abs=1.0)


STEPS = [
    {},
    {"average": True},
    {"average": 20, "batch_size": 3},
    {"projection": True},
    {"learning_rate": "invscaling", "average": "uniform"},
    {"loss": "log_loss", "fit_intercept": False},
    {"loss": "squared_hinge", "t0": 50.0},
]


@every_pair(params=STEPS, form=[np.asarray, sparse.csr_array], dtype=[np.float32, np.float64], d=[4, 300], late=[2, 3, 4])
def test_problems_against_the_rest_are_those_of_classes_known_before(params, form, dtype, d, late):
    """To the last bit, those that are not new: whether rows are dense, or sparse and wide, where problems share a trainer."""
    X, codes = data(n=200, d=d, n_classes=12)
    X, n_classes = X.astype(dtype), 12
    codes[:12] = range(12)
    # In which order they come, so that new ones stand before, between and after.
    y = np.random.default_rng(late).permutation(n_classes)[codes]
    known = np.flatnonzero(codes < late)
    make = lambda: papers_linear(**{"alpha": 0.1, "multi_class": "ovr", "sampling": "storage", "random_state": 0} | params)  # noqa: E731
    named, open_ = make(), make()
    named.partial_fit(form(X[known]), y[known], range(n_classes))
    open_.partial_fit(form(X[known]), y[known])
    for model in (named, open_):
        model.partial_fit(form(X), y)
    old = np.isin(named.classes_, np.unique(y[known]))
    assert np.array_equal(open_.classes_, named.classes_)
    assert open_.coef_[old].tobytes() == (named.coef_[old] + 0).tobytes()
    assert open_.intercept_[old].tobytes() == (named.intercept_[old] + 0).tobytes()
    assert not np.array_equal(open_.coef_, named.coef_)
    if form is sparse.csr_array and d > 256 and "projection" not in params:
        assert max(len(problem["b"]) for problem in open_._trainer.parts()["problems"]) > 1


@pytest.mark.parametrize("delay", [0, 5])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_gradients_in_flight_arrive(delay, form):
    X, codes = data(n=120)
    make = lambda: OnlineGradientClassifier(delay=delay, multi_class="ovr", random_state=0)  # noqa: E731
    known = codes < 2
    named, open_ = make(), make()
    named.partial_fit(form(X[known]), codes[known], range(5))
    open_.partial_fit(form(X[known]), codes[known])
    for model in (named, open_):
        model.partial_fit(form(X), codes)
    assert np.array_equal(open_.coef_[:2], named.coef_[:2])
    assert np.isfinite(open_.regret_bound_) and 0 < open_.cumulative_loss_ < named.cumulative_loss_


def test_regret_of_classes_that_join():
    X, codes = data(n=150)
    model = OnlineGradientClassifier(delay=2, random_state=0)
    three, two = codes < 3, codes < 2
    model.partial_fit(X[three], codes[three])
    before = model.cumulative_loss_
    # The classes of a round are those that were known then: what was paid stands.
    model.partial_fit(X, codes)
    assert model.cumulative_loss_ > before and np.isfinite(model.regret_bound_)
    paid = copy.deepcopy(model).partial_fit(X[:1], codes[:1], classes=range(9))
    assert 0.0 <= paid.cumulative_loss_ - model.cumulative_loss_ < 5.0
    # Of other weights nothing is known.
    model = OnlineGradientClassifier(random_state=0).partial_fit(X[two], codes[two])
    assert np.isfinite(model.regret_bound_)
    model.partial_fit(X, codes)
    assert np.isnan(model.cumulative_loss_) and np.isnan(model.regret_bound_)


def naive_jointly(X, codes, alpha, known, t, w):
    """Crammer and Singer's loss by the papers' steps, on a full matrix of weights."""
    for x, y in zip(X, codes, strict=True):
        t += 1
        scores = w @ x
        rest = np.where(np.arange(known) == y, -np.inf, scores[:known])
        r = rest.argmax()
        loss = 1.0 + rest[r] - scores[y]
        w *= 1.0 - 1.0 / t
        if loss > 0.0:
            w[y] += x / (alpha * t)
            w[r] -= x / (alpha * t)
    return t, w


def test_joint_steps_go_on_from_there():
    X, codes = data(n=150, d=6)
    order = np.argsort(codes, kind="stable")
    X, codes, alpha = X[order], codes[order], 0.05
    model = papers_linear(alpha=alpha, fit_intercept=False, sampling="storage")
    t, w, start = 0, np.zeros((5, 6)), 0
    two = codes < 2
    model.partial_fit(X[two], codes[two])
    s = np.zeros(6)
    for x, y in zip(X[two], 2 * codes[two] - 1, strict=True):
        t += 1
        wrong = y * (s @ x) < 1.0
        s = (1.0 - 1.0 / t) * s + wrong * y * x / (alpha * t)
    assert model.coef_[0] == pytest.approx(s, rel=1e-9)
    w[:2] = [-s / 2, s / 2]
    for known in (3, 4, 5):
        start = np.searchsorted(codes, known - 1)
        end = np.searchsorted(codes, known)
        rows = np.random.default_rng(known).permutation(end)[: end - start + 20]
        rows[0] = end - 1
        model.partial_fit(X[rows], codes[rows])
        t, w = naive_jointly(X[rows], codes[rows], alpha, known, t, w)
        assert model.coef_ == pytest.approx(w[:known], rel=1e-9, abs=1e-12)


@every_model
def test_a_stream_of_one_class_waits(make, tmp_path):
    X, codes = data()
    y = LETTERS[codes]
    model, one = make(), codes == 1
    model.partial_fit(X[one][:1], ["d"])
    for twin in (model, pickle.loads(pickle.dumps(model)), saved(model, tmp_path)):
        twin.partial_fit(X[one], y[one])
        assert twin.classes_.tolist() == ["d"] and twin.t_ == 0
        assert set(twin.predict(X)) == {"d"}
        assert not twin.decision_function(X).any()
        # At once to two, or to more.
        for known in (2, 4):
            other = copy.deepcopy(twin)
            rows = codes < known
            other.partial_fit(X[rows], y[rows])
            assert other.t_ > 0 and set(other.predict(X)) <= set(y[rows])
            # The same as if the one had not been there, but for what was decided by it.
            alone = make().set_params(**({"gamma": 0.5} if hasattr(other, "gamma") else {}))
            alone.partial_fit(X[rows], y[rows])
            if getattr(other, "loss", "") != "squared_hinge":
                assert np.array_equal(other.decision_function(X), alone.decision_function(X))


def test_probabilities_of_one_class():
    X, _ = data()
    model = PegasosClassifier("log_loss").partial_fit(X, ["a"] * len(X))
    assert np.array_equal(model.predict_proba(X), np.ones((len(X), 1)))
    model.set_params(warm_start=True)
    with pytest.raises(ValueError, match="at least two classes"):
        model.fit(X, ["a"] * len(X))
    assert model.fit(X, ["a", "b"] * (len(X) // 2)).classes_.tolist() == ["a", "b"]


def test_one_class_has_no_refit():
    X, _ = data()
    model = KernelPegasosClassifier(budget=5).partial_fit(X, np.zeros(len(X), int))
    with pytest.raises(ValueError, match="two classes"):
        model.refit(X, np.zeros(len(X), int))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@every_model
def test_classes_that_were_named_stay_closed(make):
    """A slip in y makes no class, whether classes were named to partial_fit or met by fit."""
    X, codes = data()
    y, rows = LETTERS[codes], codes < 3
    for model in (make().partial_fit(X[rows], y[rows], classes=["b", "d", "f"]), make().fit(X[rows], y[rows])):
        before = state(model)
        with pytest.raises(ValueError, match="y must hold only the classes"):
            model.partial_fit(X, y)
        with pytest.raises(ValueError, match="y must hold only the classes"):
            model.partial_fit(X, y, classes=["a", "b", "d", "f"])
        with pytest.raises(ValueError, match="classes must hold all"):
            model.partial_fit(X, y, classes=["a", "b", "c", "d", "e"])
        assert state(model) == before
        model.partial_fit(X, y, classes=LETTERS)
        assert model.classes_.tolist() == sorted(LETTERS)
        with pytest.raises(ValueError, match="y must hold only the classes"):
            model.partial_fit(X[:1], ["x"])


@every_model
def test_a_batch_that_fails_brings_no_class(make):
    X, codes = data()
    y, rows = LETTERS[codes], codes < 2
    model = make().partial_fit(X[rows], y[rows])
    before = state(model)
    bad = X.copy()
    bad[-1] = np.nan
    for form in (np.asarray, sparse.csr_array):
        for value in (np.nan, 1e200):
            bad[-1, 0] = value
            with pytest.raises(ValueError, match="X|overflow"):
                model.partial_fit(form(bad), y)
        with pytest.raises(ValueError, match="features"):
            model.partial_fit(form(X[:, :2]), y)
    with pytest.raises(ValueError, match="one kind"):
        model.partial_fit(X, codes)
    with pytest.raises(ValueError, match="Mix of label|one kind"):
        model.partial_fit(X, y, classes=["b", "d", 3])
    with pytest.raises(ValueError, match="classes must hold all"):
        model.partial_fit(X, y, classes=[1, 2, 3])
    # An open stream, too, takes a call that names the classes at its word.
    with pytest.raises(ValueError, match="y must hold only the classes"):
        model.partial_fit(X, y, classes=["b", "d", "f"])
    assert state(model) == before
    assert model.partial_fit(X, y).classes_.tolist() == sorted(set(y))


@every_model
def test_ctrl_c_leaves_a_model_of_all_classes(make, monkeypatch):
    X, codes = data()
    model = make().partial_fit(X[codes < 2], LETTERS[codes[codes < 2]])
    before = model.t_

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pegasos._base.Run.epochs", interrupt)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(X, LETTERS[codes])
    assert model.t_ == before and model.classes_.tolist() == ["a", "b", "c", "d", "f"]
    assert set(model.predict(X)) <= set(model.classes_)
    assert model.partial_fit(X, LETTERS[codes]).score(X, LETTERS[codes]) > 0.4


@pytest.mark.parametrize("multi_class", ["ovo", "ovr", "crammer_singer"])
def test_refits_of_classes_that_joined(multi_class):
    X, codes = data(n=300)
    model = KernelPegasosClassifier(gamma=0.5, alpha=1e-3, budget=60, multi_class=multi_class, random_state=0)
    for known in (2, 5):
        model.partial_fit(X[codes < known], codes[codes < known])
    before = model.score(X, codes)
    model.refit(X, codes)
    assert np.isfinite(model.duality_gap_) and model.score(X, codes) >= max(0.85, before - 0.02)
    model.partial_fit(X[:3], [7, 8, 7])
    assert model.classes_.tolist() == [0, 1, 2, 3, 4, 7, 8]


def test_the_hinge_alone_is_for_classes_jointly():
    X, codes = data()
    model = papers_linear("log_loss").partial_fit(X[codes < 2], codes[codes < 2])
    before = state(model)
    with pytest.raises(ValueError, match="multi_class='crammer_singer' needs loss='hinge'"):
        model.partial_fit(X, codes)
    assert state(model) == before


@pytest.mark.parametrize(
    ("first", "then", "dtype"),
    [
        ([0, 1], [2], np.int64),
        ([0.0, 1.0], [2], np.float64),
        ([0, 1], [2.0], np.int64),
        (np.array([0, 1], np.int8), [300], np.int64),
        ([False, True], [2], np.int64),
        (["a", "b"], ["longer"], "U6"),
        (np.array(["a", "b"], object), ["longer"], object),
        (["a", "b"], np.array(["longer"], object), "U6"),
    ],
    ids=str,
)
def test_labels_of_any_kind(first, then, dtype, tmp_path):
    X, _ = data()
    model = PegasosClassifier(random_state=0).partial_fit(X[:2], first)
    model.partial_fit(X[:1], then)
    assert model.classes_.dtype == dtype
    assert model.classes_.tolist() == sorted([*first, *then])
    assert saved(model, tmp_path).classes_.dtype == dtype


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ([0, 1], ["a"]),
        (["a", "b"], [1]),
        ([0, 1], [0.5]),
        ([0, 1], [np.nan]),
        ([0, 1], [None]),
        (np.array([-1, 1]), np.array([2**64 - 1], np.uint64)),
        (np.array(["a", "b"], object), np.array([1], object)),
    ],
    ids=str,
)
def test_labels_that_cannot_join(first, then):
    X, _ = data()
    model = PegasosClassifier(random_state=0).partial_fit(X[:2], first)
    before = state(model)
    with pytest.raises(ValueError, match="label|NaN|continuous|Unknown"):
        model.partial_fit(X[:1], then)
    assert state(model) == before


@pytest.mark.parametrize("classes", [3, "ab", [0, np.nan], [0, 0.5], [0, "a"], [[0, 1], [2, 3]], {0, 1}], ids=str)
def test_what_is_no_list_of_classes(classes):
    X, _ = data()
    with pytest.raises(ValueError, match="^classes must"):
        PegasosClassifier(random_state=0).partial_fit(X[:2], [0, 1], classes=classes)


@every_model
def test_streams_in_which_no_class_joins_are_as_they_were(make):
    X, codes = data()
    codes[:5] = range(5)
    for named in (None, range(5)):
        model = make()
        for rows in (slice(0, 40), slice(40, 41), slice(41, 90)):
            model.partial_fit(X[rows], codes[rows], classes=named)
        named = model._trainer.parts() if named is None else named
    # Trained without a look at what came first.
    first = make().partial_fit(X[:40], codes[:40])
    for rows in (slice(40, 41), slice(41, 90)):
        first.partial_fit(X[rows], codes[rows])
    assert pickle.dumps(first._trainer.parts()) == pickle.dumps(model._trainer.parts())
    assert isinstance(first, _PegasosBase)


# -- balance


@every_model
def test_balance_is_of_all_that_has_come(make, tmp_path):
    X, codes = data(n=300)
    kept = (codes < 2) | (np.arange(300) % 5 == 0)
    X, codes = X[kept], codes[kept]
    random = np.random.default_rng(0)
    for params in ({}, {"weights": random.uniform(0.5, 2.0, len(codes))}):
        weights = params.get("weights", np.ones(len(codes)))
        balanced, by_hand = make().set_params(class_weight="balanced"), make()
        counts = np.zeros(5)
        for start, end in [(0, 30), (30, 31), (31, 80), (80, len(codes))]:
            rows = slice(start, end)
            y, w = codes[rows], weights[rows]
            counts += np.bincount(y, minlength=5)
            of_class = counts.sum() / (np.count_nonzero(counts) * np.maximum(counts, 1))
            # By numbers for a call that has them all: as compute_class_weight has it.
            by_hand.partial_fit(X[rows], y, range(5), w * of_class[y])
            balanced.partial_fit(X[rows], y, range(5), w if params else None)
            balanced = saved(pickle.loads(pickle.dumps(balanced)), tmp_path)
            by_hand = saved(by_hand, tmp_path)
            assert np.array_equal(balanced._stream.counts, counts)
        scores = by_hand.decision_function(X)
        assert balanced.decision_function(X) == pytest.approx(scores, rel=1e-9, abs=1e-9)


def test_weights_of_classes_to_come():
    X, codes = data()
    weights = {"b": 2.0, "a": 5.0}
    model = PegasosClassifier("hinge", class_weight=weights, random_state=0)
    by_hand = PegasosClassifier("hinge", random_state=0)
    for known in (2, 5):
        y = LETTERS[codes[codes < known]]
        model.partial_fit(X[codes < known], y)
        by_hand.partial_fit(X[codes < known], y, sample_weight=[weights.get(label, 1.0) for label in y])
    assert np.array_equal(model.coef_, by_hand.coef_)
    # Where all classes are known, one that is none of them is a slip.
    with pytest.raises(ValueError, match="class_weight"):
        PegasosClassifier(class_weight={"x": 1.0}).partial_fit(X, LETTERS[codes], LETTERS)


def test_balance_goes_on_from_fit():
    X, codes = data(n=100, n_classes=2)
    kept = (codes == 0) | (np.arange(100) % 3 == 0)
    X, y = X[kept], codes[kept]
    fitted = papers_linear(class_weight="balanced", random_state=0).fit(X, y)
    assert np.array_equal(fitted._stream.counts, np.bincount(y))
    other = copy.deepcopy(fitted)
    fitted.partial_fit(X[:9], y[:9])
    counts = np.bincount(y) + np.bincount(y[:9], minlength=2)
    other.set_params(class_weight={k: counts.sum() / (2 * counts[k]) for k in (0, 1)}).partial_fit(X[:9], y[:9])
    assert np.array_equal(fitted.coef_, other.coef_)
    fitted.set_params(warm_start=True, solver="pegasos", tol=None, max_iter=3).fit(X, y)
    assert np.array_equal(fitted._stream.counts, counts + np.bincount(y))
    assert np.array_equal(fitted.set_params(warm_start=False).fit(X, y)._stream.counts, np.bincount(y))


def test_balance_of_what_was_merged():
    X, codes = data(n_classes=2)
    parts = [papers_linear(random_state=0).partial_fit(X[k::2], codes[k::2]) for k in (0, 1)]
    merged = pegasos.merge(parts)
    assert np.array_equal(merged._stream.counts, np.bincount(codes))
    assert merged.partial_fit(X[:2], [7, 8]).classes_.tolist() == [0, 1, 7, 8]


def test_balance_finds_the_few():
    random = np.random.default_rng(0)
    y = (random.uniform(size=4000) < 0.03).astype(int)
    X = random.normal(size=(4000, 3)) + 1.2 * y[:, None]
    plain, balanced = (PegasosClassifier(alpha=1e-2, class_weight=w, random_state=0) for w in (None, "balanced"))
    for start in range(0, 3000, 50):
        for model in (plain, balanced):
            model.partial_fit(X[start : start + 50], y[start : start + 50], classes=[0, 1])
    few = y[3000:] == 1
    recalls = [np.mean(model.predict(X[3000:])[few]) for model in (plain, balanced)]
    assert recalls[1] > recalls[0] + 0.4 and np.mean(balanced.predict(X[3000:])[~few] == 0) > 0.8
