"""Examples of one's own to stop by."""

import copy
import pickle

import numpy as np
import pytest
import sklearn
from conftest import labelled, papers_linear
from scipy import sparse
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from pegasos import OnlineGradientClassifier, PegasosClassifier

PARAMS = {"alpha": 1e-3, "max_iter": 60, "tol": 1e-3, "random_state": 0, "n_iter_no_change": 3}


def split(n_classes=3, seed=5):
    X, y = labelled(seed, 400, 10, n_classes)
    return X[:200], y[:200], X[200:], y[200:]


def accuracies(make, X, y, X_val, y_val, epochs, **params):
    """After each epoch."""
    fits = [make(**params | {"max_iter": k + 1, "tol": None}).fit(X, y) for k in range(epochs)]
    return [model.score(X_val, y_val) for model in fits]


@pytest.mark.parametrize("make", [papers_linear, OnlineGradientClassifier])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, lambda X: X.astype(np.float32)])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_rule_is_that_of_early_stopping(make, form, n_classes):
    X, y, X_val, y_val = split(n_classes)
    model = make(**PARAMS).fit(X, y, X_val=form(X_val), y_val=y_val)
    params = PARAMS | ({} if make is OnlineGradientClassifier else {"solver": "pegasos"})
    best, idle, epochs = -np.inf, 0, 0
    for accuracy in accuracies(make, X, y, form(X_val), y_val, PARAMS["max_iter"], **params):
        epochs += 1
        idle = 0 if accuracy >= best + PARAMS["tol"] else idle + 1
        best = max(best, accuracy)
        if idle == PARAMS["n_iter_no_change"]:
            break
    assert model.n_iter_ == epochs < PARAMS["max_iter"]
    # And the model is that of the last epoch, of all rows.
    same = make(**params | {"max_iter": epochs, "tol": None}).fit(X, y)
    assert np.array_equal(model.coef_, same.coef_)
    assert np.isnan(model.duality_gap_) or model.duality_gap_ > 0


def test_it_takes_the_place_of_a_held_out_part():
    X, y, X_val, y_val = split()
    for fraction in (0.1, 0.5):
        model = papers_linear(early_stopping=True, validation_fraction=fraction, **PARAMS).fit(X, y, X_val=X_val, y_val=y_val)
        assert model.t_ == model.n_iter_ * len(X)
        plain = papers_linear(**PARAMS).fit(X, y, X_val=X_val, y_val=y_val)
        assert plain.n_iter_ == model.n_iter_ and plain.t_ == model.t_


def test_weights_are_of_training_alone():
    X, y, X_val, y_val = split()
    weights = np.random.default_rng(0).uniform(0.1, 3.0, len(y))
    params = PARAMS | {"solver": "pegasos", "class_weight": {0: 5.0, 1: 0.2, 2: 1.0}}
    model = papers_linear(**params).fit(X, y, weights, X_val=X_val, y_val=y_val)
    fits = [papers_linear(**params | {"max_iter": k + 1, "tol": None}).fit(X, y, weights) for k in range(model.n_iter_)]
    scores = [fit.score(X_val, y_val) for fit in fits]
    assert max(scores[:-3]) + PARAMS["tol"] > max(scores[-3:])
    assert np.array_equal(model.coef_, fits[-1].coef_)


def test_the_answer_of_a_fit_without_it_is_as_it_was():
    X, y, X_val, y_val = split()
    model = papers_linear(**PARAMS | {"max_iter": 1000})
    before = copy.deepcopy(model).fit(X, y)
    after = model.fit(X, y, X_val=X_val, y_val=y_val).fit(X, y)
    assert before.coef_.tobytes() == after.coef_.tobytes() and before.duality_gap_ == after.duality_gap_


def outside(X):
    """A row that has a column too many."""
    bad = sparse.csr_array(X)
    bad.indices[0] = 99
    return bad


REFUSED = {
    "alone": ({"X_val": 1}, "X_val and y_val must be given together, got X_val alone"),
    "alone too": ({"y_val": 1}, "X_val and y_val must be given together, got y_val alone"),
    "features": ({"X_val": lambda X: X[:, :3], "y_val": 1}, "X_val and y_val must be as X and y are: X has 3 features"),
    "sparse features": ({"X_val": lambda X: sparse.csr_array(X[:, :3]), "y_val": 1}, "X_val and y_val must be as"),
    "rows": ({"X_val": lambda X: X[:9], "y_val": 1}, "X_val and y_val must be as X and y are: .*inconsistent"),
    "none": ({"X_val": lambda X: X[:0], "y_val": lambda y: y[:0]}, "X_val and y_val must be as X and y are: .*0 sample"),
    "nan": ({"X_val": lambda X: X * np.nan, "y_val": 1}, "X_val and y_val must be as X and y are: .*NaN"),
    "overflow": ({"X_val": lambda X: X * 1e300, "y_val": 1}, "X_val and y_val must be as X and y are: .*row 0 makes"),
    "indices": ({"X_val": lambda X: outside(X), "y_val": 1}, "X_val and y_val must be as X and y are: X.indices must lie in"),
    "class": ({"X_val": 1, "y_val": lambda y: y + 1}, "y_val must hold only the classes"),
    "kind": ({"X_val": 1, "y_val": lambda y: y.astype(str)}, "y_val must hold only the classes"),
}


@pytest.mark.parametrize("make", [PegasosClassifier, OnlineGradientClassifier])
@pytest.mark.parametrize(("given", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(make, given, message):
    X, y, X_val, y_val = split()
    full = {"X_val": X_val, "y_val": y_val}
    given = {name: full[name] if how == 1 else how(full[name]) for name, how in given.items()}
    model = make(tol=1e-3, max_iter=50, random_state=0).fit(X, y, **full)
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y, **given)
    assert pickle.dumps(model) == before
    with pytest.raises(TypeError):
        model.fit(X, y, None, X_val, y_val)


def test_what_does_not_go_together():
    X, y, X_val, y_val = split()
    with pytest.raises(ValueError, match="tol must be a number where X_val is given, .* got None"):
        PegasosClassifier(tol=None).fit(X, y, X_val=X_val, y_val=y_val)
    with pytest.raises(ValueError, match="solver='dual' does not go with X_val"):
        PegasosClassifier(solver="dual").fit(X, y, X_val=X_val, y_val=y_val)


def test_pipelines_take_it_through_their_steps():
    X, y, X_val, y_val = split()
    model = papers_linear(**PARAMS)
    with sklearn.config_context(enable_metadata_routing=True):
        pipe = Pipeline(
            [("scale", StandardScaler()), ("svm", model.set_fit_request(X_val=True, y_val=True))], transform_input=["X_val"]
        ).fit(1000.0 * X + 5.0, y, X_val=1000.0 * X_val + 5.0, y_val=y_val)
    scaler = StandardScaler().fit(X)
    alone = papers_linear(**PARAMS).fit(scaler.transform(X), y, X_val=scaler.transform(X_val), y_val=y_val)
    assert pipe[-1].n_iter_ == alone.n_iter_ and pipe[-1].coef_ == pytest.approx(alone.coef_, rel=1e-6)


def test_a_warm_start_goes_on():
    X, y, X_val, y_val = split()
    model = papers_linear(warm_start=True, **PARAMS).fit(X, y, X_val=X_val, y_val=y_val)
    before = model.t_
    model.fit(X, y, X_val=X_val, y_val=y_val)
    assert model.t_ == before + model.n_iter_ * len(X)
