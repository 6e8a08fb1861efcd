"""Machines that learn their metric: against NumPy, in files and streams, and where there is something to be found."""

import copy
import pickle
import warnings
from itertools import product

import numpy as np
import pytest
from conftest import INTERRUPT
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, make_classification
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.utils.estimator_checks import parametrize_with_checks

import pegasos
from pegasos import KernelPegasosClassifier, _core, _metric_machine, _metric_rounds
from pegasos._core import model_bytes, read_model
from pegasos._data import as_data

KINDS = ["diagonal", "full"]


def machine(metric="full", **params):
    return KernelPegasosClassifier(metric=metric, **{"budget": 30, "n_jobs": 1, "random_state": 0} | params)


def gradients(X, vectors, coefs, gamma):
    """Of the scores sum_j coefs[o, j] exp(-gamma ||x - z_j||^2): rows x outputs x features."""
    k = rbf_kernel(X, vectors, gamma=gamma)
    apart = vectors[None] - X[:, None]
    return np.einsum("oj,ij,ijd->iod", 2.0 * gamma * coefs, k, apart)


def agop(X, vectors, coefs, gamma, weight=None):
    slopes = gradients(X, vectors, coefs, gamma)
    products = np.einsum("iod,ioe->ide", slopes, slopes)
    return np.average(products, axis=0, weights=weight)


# -- the parts


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("classes", [2, 3])
def test_gradients(half_tell, dtype, sparse, classes):
    X, y = half_tell
    X, y = X.astype(dtype), y % classes
    model = KernelPegasosClassifier(gamma=0.2, budget=40, n_jobs=1, random_state=0).fit(X, y)
    rows = np.arange(0, len(X), 7)
    given = csr_matrix(X) if sparse else X
    weight = np.linspace(0.0, 2.0, len(X))
    data = as_data(given, np.zeros(len(X), np.uint32), weight)
    coefs, vectors = model.dual_coef_.astype(float), model.support_vectors_.astype(float)
    close = {"rtol": 1e-9, "atol": 1e-12} if dtype == np.float64 else {"rtol": 1e-3, "atol": 1e-3}
    got = _core.gradients(model._trainer, data.examples, rows).reshape(len(rows), -1, 8)
    np.testing.assert_allclose(got, gradients(X[rows].astype(float), vectors, coefs, 0.2), **close)
    want = agop(X[rows].astype(float), vectors, coefs, 0.2, weight[rows])
    got = [_core.agop(model._trainer, data.examples, rows, False, threads=threads) for threads in (1, 2, 3)]
    np.testing.assert_allclose(got[0].reshape(8, 8), want, **close)
    assert got[0].tobytes() == got[1].tobytes() == got[2].tobytes()
    diagonal = _core.agop(model._trainer, data.examples, rows, True)
    np.testing.assert_allclose(diagonal, np.diagonal(want), **close)


def test_a_round(half_tell, monkeypatch):
    """Of the oracle: M = A' G A, nearer to its diagonal by its noise, A = M^p, as long as what was."""
    X, y = half_tell
    seen = []
    whole = _metric_rounds.Rounds._round

    def record(self, metric, number, kind, power):
        found = whole(self, metric, number, kind, power)
        seen.append((number, kind, power, found, self))
        return found

    monkeypatch.setattr(_metric_rounds.Rounds, "_round", record)
    monkeypatch.setattr(_metric_rounds, "_NEGLIGIBLE", 0.0)
    for kind in KINDS:
        seen.clear()
        machine(kind, gamma=0.2, metric_rounds=3).fit(X, y)
        chain = [entry for entry in seen if entry[2] in (0.0, 0.375)]
        assert [entry[0] for entry in chain[:3]] == [0, 1, 2]
        for (*_, before, rounds), (*_, after, _) in zip(chain, chain[1:], strict=False):
            train = rounds.train.X
            small = before.machine
            old = np.eye(8) if before.metric is None else before.metric.map
            old = np.diag(old) if old.ndim == 1 else old
            z = before.data.X
            G = agop(z[rounds.gradients], small.support_vectors_, small.dual_coef_, 0.2)
            M = old.T @ G @ old
            variances = (np.outer(np.diagonal(M), np.diagonal(M)) + M**2) / small.dual_coef_.shape[1]
            apart = ~np.eye(8, dtype=bool)
            noise = 1.0 if kind == "diagonal" else min(1.0, variances[apart].sum() / (M[apart] ** 2).sum())
            M = np.where(apart, (1.0 - noise) * M, M)
            values, vectors = np.linalg.eigh(M)
            A = (vectors * np.maximum(values, 0.0) ** 0.375) @ vectors.T
            A *= np.sqrt(train.var(axis=0).sum() / (train @ A).var(axis=0).sum())
            got = after.metric.squared
            np.testing.assert_allclose(np.diag(got) if got.ndim == 1 else got, A @ A, rtol=1e-6, atol=1e-6)
            # And the machine of the round is one on mapped rows, twice as narrow: in other coordinates.
            products = after.data.X @ after.data.X.T
            np.testing.assert_allclose(products, 2.0 * train @ A @ A @ train.T, rtol=1e-6, atol=1e-6)


def test_what_is_noise_is_shrunk():
    """Of products of independent gradients what is apart from the diagonal is noise, and only of those."""
    random = np.random.default_rng(0)
    shares = []
    for turn in (np.eye(10), np.linalg.qr(random.normal(size=(10, 10)))[0]):
        slopes = random.normal(size=(200, 10)) * np.geomspace(1.0, 10.0, 10) @ turn
        true = turn.T @ np.diag(np.geomspace(1.0, 100.0, 10)) @ turn
        mean = slopes.T @ slopes / 200
        # As if of so many gradients: the fewer, the nearer to the diagonal.
        for count in (200, 50):
            got = _metric_rounds.shrunk(mean, count) * np.trace(mean)
            np.testing.assert_allclose(np.diagonal(got), np.diagonal(mean))
            assert np.linalg.eigvalsh(got).min() > 0.0
            shares.append(1.0 - got[0, 1] / mean[0, 1])
            if turn[0, 0] == 1.0:
                assert np.linalg.norm(got - true) < np.linalg.norm(mean - true)
    assert shares[0] > 0.6 and shares[1] == 1.0 and shares[2] < 0.1 and shares[2] < shares[3] < 0.4
    for mean in (np.eye(3), np.diag([1.0, 0.0, 0.0]), np.array([[2.0]]), np.ones((2, 2))):
        for count in (1, 200):
            got = _metric_rounds.shrunk(mean, count)
            np.testing.assert_allclose(np.diagonal(got), np.diagonal(mean) / np.trace(mean))
            assert np.isfinite(got).all()


@pytest.mark.filterwarnings("ignore:Features differ in scale")
def test_directions_that_tell_nothing_are_left_out(half_tell, monkeypatch):
    X, y = half_tell
    random = np.random.default_rng(0)
    X = np.hstack([X, 1e-3 * random.normal(size=(600, 32))])
    model = machine(metric_rounds=2).fit(X, y)
    assert model._metric.map.shape == (model._trainer.made.n_features, 40)
    assert model._trainer.made.n_features <= 8
    assert model.metric_.shape == (40, 40) and model.support_vectors_.shape[1] == 40
    monkeypatch.setattr(_metric_rounds, "_NEGLIGIBLE", 0.0)
    whole = machine(metric_rounds=2).fit(X, y)
    assert whole._trainer.made.n_features == 40
    assert abs(model.score(X, y) - whole.score(X, y)) < 0.02


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("params", [{}, {"multi_class": "ovr"}, {"budget": None}, {"budget": None, "multi_class": "ovr"}])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_scores_are_those_of_the_formula(half_tell, kind, params, dtype):
    X, y = half_tell
    X = X.astype(dtype)
    model = machine(kind, gamma=0.2, **params).fit(X, y)
    M = model.metric_
    assert M.dtype == np.float64 and M.shape == ((8,) if kind == "diagonal" else (8, 8))
    M = np.diag(M) if kind == "diagonal" else M
    np.testing.assert_array_equal(np.diagonal(M), model.feature_importances_)
    vectors = model.support_vectors_
    assert vectors.dtype == dtype and vectors.shape[1] == 8
    apart = X[:, None].astype(float) - vectors[None]
    k = np.exp(-0.2 * np.einsum("ijd,de,ije->ij", apart, M, apart))
    want = k @ model.dual_coef_.T.astype(float) + model.intercept_
    got = model._all_scores(X)
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-7 * abs(want).max() if dtype == np.float64 else 2e-3 * abs(want).max())


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"budget": None, "alpha": 1e-3},
        {"batch_size": 7, "multi_class": "crammer_singer"},
        {"history": 300},
        {"max_iter": 3, "tol": None, "sampling": "replacement"},
        {"maintenance": "project", "sampling": np.arange(2999, -1, -3)},
        {"cache_size": 0.1},
    ],
    ids=["plain", "exact", "batches", "history", "replacement", "rows", "windows"],
)
def test_a_fit_is_one_on_mapped_rows(params):
    """To the last bit, certificates and all, though rows are mapped some at a time."""
    X, y = make_classification(3000, 8, n_informative=4, n_classes=3, n_clusters_per_class=1, random_state=0)
    model = machine(gamma=0.2, metric_rounds=1, **params).fit(X, y)
    Z = model._metric.mapped(as_data(X), 1).X
    plain = machine("plain", gamma=0.2, **params | {"alpha": model.alpha_}).fit(Z, y)
    for _ in range(2):
        assert plain.dual_coef_.tobytes() == model.dual_coef_.tobytes()
        np.testing.assert_array_equal(plain.duality_gap_, model.duality_gap_)
        assert plain.loss_curve_ == model.loss_curve_
        assert plain.decision_function(Z).tobytes() == model.decision_function(X).tobytes()
        if "history" in params:
            for name, values in plain.history_.items():
                np.testing.assert_array_equal(values, model.history_[name])
        if model.budget_ is None:
            return
        for one in (plain, model):
            one.set_params(sampling="shuffle")
        plain.partial_fit(Z[:100], y[:100]).refit(Z, y, alpha=[1e-3, 1e-4])
        model.partial_fit(X[:100], y[:100]).refit(X, y, alpha=[1e-3, 1e-4])


def test_rows_are_not_copied(run_forked):
    """But for a window: of 96 MB of rows less than a sixth."""
    script = """
import numpy as np
from conftest import peak
from pegasos import KernelPegasosClassifier
random = np.random.default_rng(0)
X = random.normal(size=(400_000, 60)).astype(np.float32)
y = (X[:, 0] * X[:, 1] > 0).astype(int)
params = {"budget": 20, "cache_size": 5.0, "n_jobs": 1, "random_state": 0, "alpha": 1e-3, "tol": 0.1}
KernelPegasosClassifier(metric="full", **params).fit(X[:1000], y[:1000])
KernelPegasosClassifier(**params).fit(X, y)
before = peak()
model = KernelPegasosClassifier(metric="full", **params).fit(X, y)
model.refit(X, y), model.predict(X)
print((peak() - before) // 2**20)
"""
    done = run_forked(script)
    assert int(done.stdout) < 16, done.stdout + done.stderr


# -- what it is good for


@pytest.mark.parametrize("kind", [*KINDS, "auto"])
def test_noise_is_found_and_removed(board_and_noise, kind):
    X, y, X_test, y_test = board_and_noise
    plain = machine("plain", budget=100).fit(X, y)
    model = machine(kind, budget=100).fit(X, y)
    assert plain.score(X_test, y_test) < 0.6
    assert model.score(X_test, y_test) > 0.97
    own, others = model.feature_importances_[:2], model.feature_importances_[2:]
    assert own.min() > 1000.0 * others.max()


def test_turned_and_stretched_rows(half_tell):
    """Other coordinates, the same accuracy: up to two deviations of what is held out, and on average, as one machine is a draw
    of as much."""
    X, y = half_tell
    random = np.random.default_rng(0)
    turn = np.linalg.qr(random.normal(size=(8, 8)))[0]
    stretch = turn * random.uniform(0.5, 2.0, 8)

    def accuracy(X):
        found = []
        for split, seed in product(range(4), range(2)):
            X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=split)
            found.append(machine(budget=60, random_state=seed).fit(X_train, y_train).score(X_test, y_test))
        return np.mean(found)

    own = accuracy(X)
    deviation = np.sqrt(own * (1.0 - own) / (len(y) // 4))
    for A in (turn, stretch):
        other = accuracy(X @ A)
        assert abs(other - own) < 2.0 * deviation, (own, other)


@pytest.mark.parametrize("load", [load_digits, load_breast_cancer])
def test_auto_is_no_worse_than_plain(load):
    X, y = load(return_X_y=True)
    X, X_test, y, y_test = train_test_split(scale(X).astype(np.float32), y, random_state=0)
    plain, auto = (machine(metric, budget=100).fit(X, y).score(X_test, y_test) for metric in ("plain", "auto"))
    deviation = np.sqrt(plain * (1.0 - plain) / len(y_test))
    assert auto >= plain - deviation, (plain, auto)


def test_auto_may_be_plain():
    """Where all directions are alike."""
    random = np.random.default_rng(0)
    X = random.normal(size=(600, 5))
    y = (X**2).sum(axis=1) > 4.4
    model = machine("auto", budget=60, gamma=0.2).fit(X, y)
    plain = machine("plain", budget=60, gamma=0.2).fit(X, y)
    np.testing.assert_array_equal(model.metric_, np.ones(5))
    assert model.decision_function(X).tobytes() == plain.decision_function(X).tobytes()
    assert set(model.metric_path_["kind"]) == {"plain", "full", "diagonal"}


def test_the_path(half_tell):
    X, y = half_tell
    model = machine("full", metric_rounds=1).fit(X, y)
    path = model.metric_path_
    assert {len(values) for values in path.values()} == {len(path["round"])}
    assert path["round"].max() == 1 and ((path["accuracy"] > 0.3) & (path["accuracy"] <= 1.0)).all()
    assert (path["kind"][path["round"] == 1] == "full").all()
    # C of one of those that were tried.
    assert round(1.0 / (model.alpha_ * 600), 9) in (1.0, 8.0)
    given = machine("full", alpha=2e-3).fit(X, y)
    assert given.alpha_ == 2e-3
    np.testing.assert_allclose(given.metric_path_["alpha"][np.isnan(given.metric_path_["power"])], 2e-3)
    model.set_params(metric="plain").fit(X, y)
    assert not hasattr(model, "metric_path_") and not hasattr(model, "metric_")


def test_verbose(half_tell, capsys):
    machine(verbose=1, metric_rounds=1).fit(*half_tell)
    told = capsys.readouterr()
    assert "metric full: round 1, power 0.375, width 2, C 8" in told.out + told.err


# -- everything else that machines do


@pytest.mark.parametrize("metric", [*KINDS, "auto"])
def test_files_pickles_and_copies(half_tell, metric, tmp_path):
    X, y = half_tell
    model = machine(metric, random_state=0).fit(X, y)
    path = tmp_path / "model.safetensors"
    pegasos.save(model, path)
    for other in (pegasos.load(path), pickle.loads(pickle.dumps(model)), copy.copy(model), copy.deepcopy(model)):
        assert other.decision_function(X).tobytes() == model.decision_function(X).tobytes()
        assert other.metric_.tobytes() == model.metric_.tobytes()
        for name, values in model.metric_path_.items():
            np.testing.assert_array_equal(other.metric_path_[name], values)
        # And goes on alike.
        other.partial_fit(X[:100], y[:100])
        again = copy.copy(model).partial_fit(X[:100], y[:100])
        assert other.decision_function(X).tobytes() == again.decision_function(X).tobytes()


def test_damaged_files(half_tell, tmp_path):
    import json

    X, y = half_tell
    path = tmp_path / "model.safetensors"
    pegasos.save(machine().fit(X, y), path)
    text, tensors = read_model(path)
    state = json.loads(text)
    del state["checksums"], state["sha256"]
    name = state["extra"]["metric"]["map"]["tensor"]
    for wrong in (np.zeros((8, 7)), np.zeros(7), np.full((8, 8), np.nan), np.zeros((8, 8), np.float32), np.zeros((9, 8))):
        path.write_bytes(model_bytes(json.dumps(state), tensors | {name: wrong}))
        with pytest.raises(ValueError, match="model.safetensors: not a model file"):
            pegasos.load(path)


def test_sparse_rows(half_tell):
    X, y = half_tell
    X = np.where(abs(X) < 0.5, 0.0, X)
    dense, sparse = machine("diagonal").fit(X, y), machine("diagonal").fit(csr_matrix(X), y)
    np.testing.assert_allclose(sparse.metric_, dense.metric_, rtol=1e-6)
    np.testing.assert_allclose(sparse.decision_function(csr_matrix(X)), dense.decision_function(X), rtol=1e-5, atol=1e-5)
    vectors = sparse.support_vectors_
    assert isinstance(vectors, csr_matrix)
    np.testing.assert_allclose(vectors.toarray(), dense.support_vectors_, rtol=1e-5, atol=1e-5)
    assert machine("auto").fit(csr_matrix(X), y).metric_.shape == (8,)
    with pytest.raises(ValueError, match="metric='full' needs dense rows"):
        machine("full").fit(csr_matrix(X), y)


def test_sparse_rows_of_many_features():
    """Words, of which some tell: none of them is ever dense."""
    random = np.random.default_rng(0)
    d, n = 20_000, 600
    y = random.integers(0, 2, n)
    words = random.integers(50, d, (n, 20))
    words[:, :5] = np.where(y[:, None] > 0, 0, 25) + random.integers(0, 25, (n, 5))
    X = csr_matrix((np.ones(words.size, np.float32), words.ravel(), np.arange(0, words.size + 1, 20)), shape=(n, d))
    model = machine("diagonal", gamma=0.05).fit(X, y)
    found = model.feature_importances_
    assert found[:50].mean() > 20.0 * found[50:].mean()
    assert model.score(X, y) > 0.95


def test_many_dense_features(monkeypatch):
    """More than have a matrix of all pairs: the metric sees the directions in which scores change."""
    for module in (_metric_rounds, _metric_machine):
        monkeypatch.setattr(module, "MOST_FEATURES", 100)
    random = np.random.default_rng(0)
    n, d = 400, 200
    X = random.normal(size=(n, d)).astype(np.float32)
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    # No more directions than vectors and rows span.
    monkeypatch.setattr(_metric_rounds, "_SOME_GRADIENTS", 60)
    model = machine("full", alpha=1e-3).fit(X, y)
    assert model.metric_.shape == (d, d) and model.support_vectors_.shape[1] == d
    assert model._trainer.made.n_features < 60
    found = model.feature_importances_
    assert found[:2].min() > 5.0 * np.median(found)
    other = pickle.loads(pickle.dumps(model))
    assert other.decision_function(X).tobytes() == model.decision_function(X).tobytes()
    assert model.refit(X, y, learn_metric=True).score(X, y) > 0.8
    assert model.feature_importances_[:2].min() > 5.0 * np.median(model.feature_importances_)
    with pytest.raises(ValueError, match="features at most"):
        machine("full").partial_fit(X, y).refit(X, y, learn_metric=True)


def test_a_file_of_fewer_dimensions(tmp_path, monkeypatch):
    monkeypatch.setattr(_metric_rounds, "MOST_FEATURES", 100)
    random = np.random.default_rng(0)
    X = random.normal(size=(80, 200)).astype(np.float32)
    y = (X[:, 0] > 0).astype(int)
    model = machine("full", alpha=1e-3, metric_rounds=1).fit(X, y)
    assert model._trainer.made.n_features < 200
    pegasos.save(model, tmp_path / "model")
    loaded = pegasos.load(tmp_path / "model")
    assert loaded.decision_function(X).tobytes() == model.decision_function(X).tobytes()


@pytest.mark.parametrize("metric", ["full", "auto"])
def test_threads_change_no_bit(half_tell, metric):
    X, y = half_tell
    one, two = (machine(metric, n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 2))
    assert one.metric_.tobytes() == two.metric_.tobytes()
    assert one.decision_function(X).tobytes() == two.decision_function(X).tobytes()


def test_weights_count_as_copies_do():
    """In gradients, fits and what is held out: an example of weight 0 is none."""
    X, y = make_classification(300, 5, n_informative=3, random_state=0)
    model = machine().fit(X, y, np.ones(300))
    assert model.metric_.tobytes() == machine().fit(X, y).metric_.tobytes()
    wrong = np.concatenate([y, 1 - y])
    weight = np.repeat([1.0, 0.0], 300)
    known = machine().fit(np.vstack([X, X]), wrong, weight)
    assert known.score(X, y) > 0.85
    balanced = machine(class_weight="balanced").fit(X, y)
    assert balanced.metric_.shape == (5, 5)


@pytest.mark.parametrize(
    "params",
    [
        {"projection": True, "solver": "pegasos"},
        {"batch_size": 4},
        {"sampling": "replacement"},
        {"sampling": np.arange(600)[::-1]},
        {"average": "uniform"},
        {"refine": False},
        {"half_life": 300.0},
        {"tol": None},
        {"budget": None, "solver": "dual"},
        {"budget": None, "solver": "pegasos"},
        {"budget": "auto"},
        {"maintenance": "project"},
        {"maintenance": "remove"},
        {"decision_function_shape": "ovo"},
        {"calibration": "temperature"},
        {"fit_intercept": True, "budget": None},
        {"history": 100},
        {"gamma": "auto"},
        {"refine_rounds": 2},
    ],
    ids=lambda params: "-".join(params),
)
def test_beside_other_parameters(half_tell, params):
    X, y = half_tell
    model = machine(metric_rounds=1, **params)
    with warnings.catch_warnings():
        # Of convergence, where little is asked for.
        warnings.simplefilter("ignore")
        model.fit(X, y)
    assert model.metric_.shape == (8, 8) and model.score(X, y) > 0.6
    again = clone(model)
    assert again.metric == "full"


def test_labels_of_all_kinds(half_tell):
    X, y = half_tell
    names = np.array(["c", "a", "b"])[y]
    model = machine(metric_rounds=1).fit(X, names)
    assert set(model.predict(X)) == {"a", "b", "c"}


def test_in_a_pipeline_and_a_search(half_tell):
    X, y = half_tell
    pipe = make_pipeline(StandardScaler(), machine(metric_rounds=1, metric="diagonal"))
    search = GridSearchCV(pipe, {"kernelpegasosclassifier__metric": ["plain", "diagonal"]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.5


# -- what may go wrong


def test_refusals(half_tell):
    X, y = half_tell
    with pytest.raises(ValueError, match="metric='full' needs kernel='rbf', got kernel='poly'"):
        machine(kernel="poly", maintenance="project").fit(X, y)
    with pytest.raises(ValueError, match="The 'metric' parameter"):
        machine("round").fit(X, y)
    with pytest.raises(ValueError, match="The 'metric_rounds' parameter"):
        machine(metric_rounds=0).fit(X, y)
    model = machine().fit(X, y)
    for wrong in (np.nan, np.inf, 1e200):
        bad = X.copy()
        bad[17, 3] = wrong
        with pytest.raises(ValueError, match=r"(contains NaN|contains infinity|scale)"):
            machine().fit(bad, y)
        with pytest.raises(ValueError, match=r"(contains NaN|contains infinity|scale)"):
            model.decision_function(bad)
    with pytest.raises(ValueError, match="features"):
        model.predict(X[:, :5])
    model.set_params(metric="diagonal")
    with pytest.raises(ValueError, match="must stay as they are"):
        model.partial_fit(X, y)
    bad = csr_matrix(np.where(abs(X) < 0.5, 0.0, X))
    bad.indices[5] = 1000
    with pytest.raises(ValueError, match=r"X\.indices"):
        machine("diagonal").fit(bad, y)
    sound = csr_matrix(np.where(abs(X) < 0.5, 0.0, X))
    model = machine("diagonal").fit(sound, y)
    with pytest.raises(ValueError, match=r"X\.indices"):
        model.decision_function(bad)


def test_a_fit_that_fails_leaves_the_model(half_tell):
    X, y = half_tell
    model = machine().fit(X, y)
    before, metric = model.decision_function(X), model.metric_
    bad = X.copy()
    bad[3, 3] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model.fit(bad, y)
    with pytest.raises(ValueError, match="NaN"):
        model.refit(bad, y, learn_metric=True)
    assert model.decision_function(X).tobytes() == before.tobytes()
    assert model.metric_.tobytes() == metric.tobytes()


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (np.zeros((40, 3)), np.arange(40) % 2),
        (np.ones((40, 3)), np.arange(40) % 2),
        (np.arange(6.0).reshape(-1, 1), np.arange(6) % 2),
        (np.arange(8.0).reshape(4, 2), np.array([0, 1, 0, 1])),
    ],
)
@pytest.mark.parametrize("metric", [*KINDS, "auto"])
def test_where_there_is_nothing_to_learn(X, y, metric):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = machine(metric).fit(X, y)
        plain = machine("plain").fit(X, y)
    told = [warning for warning in said if "the metric stays as it is" in str(warning.message)]
    assert [warning.filename for warning in told] == [__file__]
    np.testing.assert_array_equal(model.decision_function(X), plain.decision_function(X))
    # The one that there was.
    assert model.metric_.tolist() == model.feature_importances_.tolist() == [1.0] * X.shape[1]


@pytest.mark.parametrize("metric", [*KINDS, "auto"])
def test_columns_that_never_vary(half_tell, metric):
    X, y = half_tell
    X = np.hstack([X, np.zeros((600, 1)), np.full((600, 1), 3.0)])
    model = machine(metric).fit(X, y)
    assert np.isfinite(model.support_vectors_).all() and np.isfinite(model.metric_).all()
    assert model.score(X, y) > 0.6


def test_one_feature():
    X = np.linspace(-1.0, 1.0, 200)[:, None]
    y = (abs(X[:, 0]) > 0.5).astype(int)
    for metric in KINDS:
        assert machine(metric).fit(X, y).score(X, y) > 0.95


def test_ill_scaled_features_are_told_of(half_tell):
    X, y = half_tell
    X = X * np.array([1.0] * 7 + [1e6])
    with pytest.warns(UserWarning, match="Features differ in scale"):
        machine().fit(X, y)


def test_interrupt(run_forked):
    script = INTERRUPT + """
import numpy as np
from pegasos import KernelPegasosClassifier
random = np.random.default_rng(0)
X = random.normal(size=(20_000, 100)).astype(np.float32)
y = (X[:, 0] * X[:, 1] > 0).astype(int)
model = KernelPegasosClassifier(metric="full", budget=1000, n_jobs=1, random_state=0)
model.fit(X[:100], y[:100])
before = model.metric_.copy()
took = interrupt(1.0, lambda: model.fit(X, y))
assert took < 1.0, took
assert (model.metric_ == before).all() and model.predict(X[:5]).shape == (5,)
print("stopped")
"""
    done = run_forked(script)
    assert "stopped" in done.stdout, done.stderr


def test_threads_of_others_change_no_bit(run_script):
    """Products of NumPy's have other last bits on two threads, and eigenvectors too."""
    script = """
import hashlib
import numpy as np
from pegasos import KernelPegasosClassifier
random = np.random.default_rng(0)
X = random.normal(size=(600, 300))
y = (X[:, 0] * X[:, 1] > 0).astype(int)
model = KernelPegasosClassifier(metric="full", metric_rounds=2, budget=30, n_jobs=1, random_state=0).fit(X, y)
model.refit(X, y, learn_metric=True)
parts = model.metric_, model.support_vectors_, model.decision_function(X)
print(hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest())
"""
    one, two = (run_script(script, OPENBLAS_NUM_THREADS=str(threads)) for threads in (1, 2))
    assert one.stdout and one.stdout == two.stdout, one.stderr + two.stderr


def test_sparse_rows_for_a_full_metric(half_tell):
    """Of a fit by dense rows: the scores are those of the same rows dense."""
    X, y = half_tell
    model = machine("full").fit(X, y)
    rows = np.where(abs(X) < 0.5, 0.0, X)
    np.testing.assert_allclose(model.decision_function(csr_matrix(rows)), model.decision_function(rows), rtol=1e-9, atol=1e-9)
    other = copy.copy(model).partial_fit(csr_matrix(rows[:100]), y[:100])
    model.partial_fit(rows[:100], y[:100])
    np.testing.assert_allclose(other.decision_function(rows), model.decision_function(rows), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("metric", [*KINDS, "auto"])
def test_few_rows_that_count(half_tell, metric):
    """Most of them of weight 0: the others alone teach and tell."""
    X, y = half_tell
    weight = np.zeros(600)
    weight[[np.flatnonzero(y == 0)[0], np.flatnonzero(y == 1)[0]]] = 1.0
    with pytest.warns(UserWarning, match="the metric stays as it is"):
        machine(metric).fit(X, y, weight)
    weight[:60] = 1.0
    one = machine(metric, gamma=0.2).fit(X, y, weight)
    others, labels = np.where(weight[:, None] > 0, X, 5.0 * X), np.where(weight > 0, y, (y + 1) % 3)
    two = machine(metric, gamma=0.2).fit(others, labels, weight)
    assert two.metric_.tobytes() == one.metric_.tobytes()
    np.testing.assert_array_equal(two.metric_path_["accuracy"], one.metric_path_["accuracy"])


@pytest.mark.parametrize("metric", ["diagonal", "auto"])
def test_few_sparse_rows(half_tell, metric):
    """None of which can be held out."""
    X, y = half_tell
    with pytest.warns(UserWarning, match="the metric stays as it is"):
        model = machine(metric).fit(csr_matrix(X[:6]), np.arange(6) % 2)
    assert model.predict(csr_matrix(X[:6])).shape == (6,)


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [machine(metric, metric_rounds=1) for metric in ("diagonal", "auto")],
    expected_failed_checks=lambda _: {
        f"check_sample_weight_equivalence_on_{kind}_data": "which rows are held out depends on how many there are"
        for kind in ("dense", "sparse")
    },
    xfail_strict=True,
)
def test_estimator_checks(estimator, check):
    check(estimator)


def test_sparse_rows_with_room_to_spare():
    X, y = make_classification(120, 6, random_state=0)
    X = csr_matrix(X * (abs(X) > 0.5))
    roomy = X.copy()
    roomy.data, roomy.indices = np.append(X.data, np.zeros(5)), np.append(X.indices, np.zeros(5, X.indices.dtype))
    made = lambda: KernelPegasosClassifier(metric="diagonal", random_state=0)
    assert (made().fit(roomy, y).decision_function(roomy) == made().fit(X, y).decision_function(X)).all()
