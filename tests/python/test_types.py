"""Every kind of array is taken, as the same numbers, and copied only where it must be."""

import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pytest
from conftest import every_pair, papers_linear
from scipy import sparse



def model_of(**params):
    default = {"alpha": 0.01, "tol": None, "max_iter": 3, "random_state": 0}
    return papers_linear(**{**default, **params})


@pytest.fixture(scope="module")
def whole_numbers():
    """Numbers that every type can hold."""
    random = np.random.default_rng(2)
    X = random.integers(2, size=(50, 6))
    return X, (X @ [3, -2, 1, 1, -2, 0] > 0).astype(int)


def fits_alike(X, plain, y):
    """Whether fits of two forms of the same numbers end in the same bits."""
    model, want = model_of().fit(X, y), model_of().fit(plain, y)
    alike = np.array_equal(model.predict(X), want.predict(plain))
    for _ in range(2):
        alike &= model.coef_.dtype == want.coef_.dtype
        alike &= np.array_equal(model.coef_, want.coef_)
        alike &= np.array_equal(model.intercept_, want.intercept_)
        model.partial_fit(X, y)
        want.partial_fit(plain, y)
    return alike


@pytest.fixture(params=[np.float32, np.float64])
def plain(request, whole_numbers):
    return whole_numbers[0].astype(request.param)


def unaligned(X):
    raw = np.zeros(X.nbytes + 1, dtype=np.uint8)
    view = raw[1:].view(X.dtype).reshape(X.shape)
    view[...] = X
    assert not view.flags.aligned
    return view


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


def every_other_column(X):
    return np.repeat(X, 2, axis=1)[:, ::2]


def every_other_row(X):
    return np.repeat(X, 2, axis=0)[::2]


def back_to_front(X):
    return np.flip(np.flip(X).copy())


LAYOUTS = [
    np.ascontiguousarray, np.asfortranarray, read_only, every_other_column, every_other_row,
    back_to_front, unaligned,
]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_dense_layouts(layout, plain, whole_numbers):
    X = layout(plain)
    assert fits_alike(X, plain, whole_numbers[1])
    assert np.array_equal(X, plain)


def test_memory_map(plain, whole_numbers, tmp_path):
    np.save(tmp_path / "X.npy", plain)
    np.save(tmp_path / "y.npy", whole_numbers[1])
    X, y = (np.load(tmp_path / name, mmap_mode="r") for name in ("X.npy", "y.npy"))
    assert fits_alike(X, plain, y)


@pytest.mark.parametrize(
    "dtype",
    [bool, np.uint8, np.int8, np.int32, np.int64, np.uint64, np.float16, ">f8", ">i4", object],
)
def test_other_types_become_f64(dtype, whole_numbers):
    X, y = whole_numbers
    assert fits_alike(X.astype(dtype), X.astype(np.float64), y)


def test_lists_and_frames(whole_numbers):
    X, y = whole_numbers
    want = model_of().fit(X.astype(np.float64), y).coef_
    columns = {f"x{j}": column for j, column in enumerate(X.T)}
    for given in (X.tolist(), pd.DataFrame(columns), pl.DataFrame(columns)):
        assert np.array_equal(model_of().fit(given, y).coef_, want)


def test_byte_swapped_f32(whole_numbers):
    X, y = whole_numbers
    model = model_of().fit(X.astype(">f4"), y)
    assert model.coef_.dtype.isnative
    want = model_of().fit(X.astype(model.coef_.dtype), y)
    assert np.array_equal(model.coef_, want.coef_)


FORMATS = ["csr", "csc", "coo", "bsr", "lil", "dok", "dia"]


@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("form", FORMATS)
def test_sparse_formats(form, kind, plain, whole_numbers):
    X, y = getattr(sparse, f"{form}_{kind}")(plain), whole_numbers[1]
    # Rounding may send dual ascent another way.
    model, want = (model_of(solver="pegasos").fit(form, y) for form in (X, plain))
    assert model.coef_.dtype == want.coef_.dtype
    assert np.allclose(model.coef_, want.coef_, rtol=1e-5)
    assert np.array_equal(model.predict(X), want.predict(plain))
    assert np.array_equal(X.toarray(), plain)
    assert X.format == form


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64])
def test_sparse_types(dtype, whole_numbers):
    X, y = whole_numbers
    want = model_of().fit(sparse.csr_array(X.astype(np.float64)), y).coef_
    assert np.array_equal(model_of().fit(sparse.csr_array(X.astype(dtype)), y).coef_, want)


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("layout", [read_only, every_other_row, back_to_front, unaligned])
def test_sparse_layouts(layout, index, plain, whole_numbers):
    X = sparse.csr_array(plain)
    X.data = layout(X.data)
    X.indices = layout(X.indices.astype(index))
    X.indptr = layout(X.indptr.astype(index))
    assert fits_alike(X, sparse.csr_array(plain), whole_numbers[1])


@pytest.mark.parametrize("of_indptr", [np.int32, np.int64, np.uint32])
@pytest.mark.parametrize("of_indices", [np.int32, np.int64, np.uint32, ">i4"])
def test_sparse_indices_of_two_types(of_indices, of_indptr, plain, whole_numbers):
    X, y = sparse.csr_array(plain), whole_numbers[1]
    want = model_of().fit(X, y).coef_
    X.indices, X.indptr = X.indices.astype(of_indices), X.indptr.astype(of_indptr)
    assert np.array_equal(model_of().fit(X, y).coef_, want)


def test_sparse_rows_without_entries(whole_numbers):
    y = whole_numbers[1]
    X = sparse.csr_array((len(y), 6), dtype=np.float32)
    assert X.nnz == 0
    model = model_of(loss="log_loss").fit(X, y)
    assert not model.coef_.any()
    dense = model_of(loss="log_loss").fit(X.toarray(), y)
    assert np.array_equal(model.intercept_, dense.intercept_)
    assert model.intercept_[0] != 0.0


def test_complex_numbers_are_refused(whole_numbers):
    X, y = whole_numbers
    for form in (np.asarray, sparse.csr_array):
        with pytest.raises(ValueError, match="Complex data not supported"):
            model_of().fit(form(X.astype(complex)), y)


def test_text_is_refused(whole_numbers):
    X, y = whole_numbers
    with pytest.raises(ValueError, match="could not convert string to float"):
        model_of().fit(np.full(X.shape, "a", dtype=object), y)


@pytest.mark.parametrize(
    ("negative", "positive"),
    [
        (0, 1),
        (1, 2),
        (-1, 1),
        (-7, -3),
        (2**40, 2**62),
        (False, True),
        (0.0, 1.0),
        (-1.0, 1.0),
        ("no", "yes"),
        ("", "a long name of a class"),
    ],
)
def test_labels(negative, positive, whole_numbers):
    X, y = whole_numbers
    want = model_of().fit(X, y)
    labels = np.array([negative, positive])[y]
    for given in (labels, labels.tolist()):
        model = model_of().fit(X, given)
        assert model.classes_.tolist() == [negative, positive]
        assert np.array_equal(model.coef_, want.coef_)
        predicted = model.predict(X)
        assert predicted.dtype == model.classes_.dtype
        assert np.array_equal(predicted, np.array([negative, positive])[want.predict(X)])
        stream = model_of().partial_fit(X, given, classes=[positive, negative])
        assert stream.classes_.tolist() == [negative, positive]
        assert np.array_equal(stream.partial_fit(X, given).classes_, stream.classes_)


def test_labels_that_are_objects(whole_numbers):
    X, y = whole_numbers
    model = model_of().fit(X, np.array(["no", "yes"], dtype=object)[y])
    assert model.classes_.tolist() == ["no", "yes"]
    assert np.array_equal(model.coef_, model_of().fit(X, y).coef_)
    # So says scikit-learn of all its classifiers.
    with pytest.raises(ValueError, match="Unknown label type"):
        model_of().fit(X, y.astype(object))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.uint64, np.float32, ">i4", ">f8"])
def test_types_of_labels(dtype, whole_numbers):
    X, y = whole_numbers
    model = model_of().fit(X, y.astype(dtype))
    assert model.classes_.tolist() == [0, 1]
    assert np.array_equal(model.coef_, model_of().fit(X, y).coef_)


def test_labels_of_three_classes(whole_numbers):
    X, y = whole_numbers
    y = np.where(X[:, 5] == 1, 2, y)
    want = model_of(multi_class="ovr").fit(X, y)
    for names in (["a", "b", "c"], [-5, 0, 9], [0.0, 1.0, 7.0]):
        model = model_of(multi_class="ovr").fit(X, np.array(names)[y])
        assert model.classes_.tolist() == names
        assert np.array_equal(model.coef_, want.coef_)
        assert np.array_equal(model.predict(X), np.array(names)[want.predict(X)])


@pytest.mark.parametrize("pair", [(1.5, 2.5), (0.0, 0.5), (1e-3, 1.0)])
def test_labels_that_are_no_classes(pair, whole_numbers):
    X, y = whole_numbers
    for form in (np.asarray, list):
        with pytest.raises(ValueError, match="continuous"):
            model_of().fit(X, form(np.array(pair)[y]))


def test_labels_in_a_column(whole_numbers):
    X, y = whole_numbers
    with pytest.warns(UserWarning, match="column-vector y"):
        model = model_of().fit(X, y[:, None])
    assert np.array_equal(model.coef_, model_of().fit(X, y).coef_)


@pytest.fixture
def traced():
    tracemalloc.start()
    yield lambda: tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("on", ["fit", "partial_fit"])
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"tol": 0.1},
        {"solver": "pegasos"},
        {"solver": "dual", "tol": 0.1},
        {"shards": 2, "alpha": 1.0},
        {"multi_class": "ovr"},
        {"loss": "squared_hinge"},
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("index", [None, np.int32, np.int64])
def test_python_copies_nothing(index, dtype, params, on, traced):
    X = np.ones((1000, 500), dtype=dtype)
    X[::2] = -1.0
    y = np.arange(1000) % 2
    if index is not None:
        X = sparse.csr_array(X)
        X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    size = X.nbytes if index is None else X.data.nbytes + X.indices.nbytes
    classes = {"classes": [0, 1]} if on == "partial_fit" else {}
    tracemalloc.reset_peak()
    before = traced()
    getattr(model_of(**params), on)(X, y, sample_weight=np.ones(1000), **classes)
    assert traced() - before < 0.1 * size


MEMORY = """
from conftest import papers_linear, peak
import warnings
import numpy as np
from scipy import sparse
from pegasos import PegasosClassifier

warnings.simplefilter("ignore")
dtype, d = np.dtype("{dtype}"), 500
of_entry = dtype.itemsize + {sparse} * 4
n = 200_000_000 // (of_entry * d)
y = np.arange(n) % 2
# A row is ones or minus ones; nothing temporary of the data's size may come before the fit.
X = np.ones((n, d), dtype)
X[::2] = -1
size = X.nbytes
if {sparse}:
    indices = np.empty((n, d), np.int32)
    indices[:] = np.arange(d)
    indptr = np.arange(n + 1, dtype=np.int32) * d
    X = sparse.csr_matrix((X.reshape(-1), indices.reshape(-1), indptr), shape=(n, d))
    size += indices.nbytes
small = slice(0, 100)
model = papers_linear(alpha=0.1, solver="{solver}", max_iter=2)
model.fit(X[small], y[small])
before = peak()
model.fit(X, y)
print((peak() - before) / size)
"""


@every_pair(dtype=["float32", "float64"], form=["dense", "csr"], solver=["pegasos", "dual"])
def test_nothing_is_copied(dtype, form, solver, run_forked):
    done = run_forked(MEMORY.format(dtype=dtype, sparse=int(form == "csr"), solver=solver))
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 0.1
