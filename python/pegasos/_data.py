"""The one door for what users hand over: matrices, frames and labels; and what threadpoolctl knows of us.

Arrays may lie: a sparse matrix whose indices point outside is a segmentation fault for whoever multiplies with it,
and another thread may change it at any time. So nobody here or in SciPy walks the indices of a user's matrix. The
compiled half does, which looks at each before it follows it; `sound` keeps everybody else away.
"""

from __future__ import annotations

import reprlib
from contextlib import contextmanager
from numbers import Number
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.sparse import csr_array, csr_matrix, issparse, sparray
from sklearn.utils import assert_all_finite, check_array, check_X_y
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, validate_data
from threadpoolctl import LibController, register

from pegasos._core import Examples, NonFiniteError, __version__
from pegasos._threads import limit, thread_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pegasos._core import Metric, _Rows

#: Rows of a matrix that are factorised at a time.
_BLOCK = 128


class Data(NamedTuple):
    """Examples, and what the compiled half has borrowed of them."""

    X: Any
    #: Each row's class, by number, and its weight; None where they are not needed, or are all 1.
    codes: Any
    weight: Any
    examples: Examples
    #: What maps rows to those that the kernel sees, where they are not these.
    metric: Metric | None = None

    @property
    def n(self) -> int:
        return int(self.X.shape[0])

    @property
    def stored(self) -> int:
        """How many features are stored."""
        return int(self.X.size if isinstance(self.X, np.ndarray) else len(self.X.data))

    def norms(self) -> np.ndarray:
        """The squared norm of each row, (n,); an index that lies outside is an error."""
        return self.examples.squared_norms()

    def take(self, which: np.ndarray) -> Data:
        """A copy of some of the examples."""
        codes, weight = (None if part is None else part[which] for part in (self.codes, self.weight))
        return as_data(rows_of(self.X, which), codes, weight)

    def weighted(self, weight: np.ndarray | None) -> Data:
        """The same rows with other weights."""
        return as_data(self.X, self.codes, weight)._replace(metric=self.metric)

    def copy(self) -> Data:
        """A copy of the rows, which nobody else can change."""
        rows = _rows(self.X)
        if isinstance(rows, np.ndarray):
            return as_data(rows.copy(), self.codes, self.weight)
        *arrays, n_features = rows
        indptr, indices, data = (array.copy() for array in arrays)
        own = (indptr, indices, data, n_features)
        return self._replace(examples=Examples(own, self.codes, self.weight))


def validated(estimator: Any, X: Any, *y: Any, dtype: Any, reset: bool, finite: bool) -> Any:
    """``X``, and ``y`` where it is given, as `validate_data` has them: rows C-contiguous or CSR, of one of these dtypes.

    Rows of such a form are not copied, those of a frame whose columns are stored apart once. Whether all numbers are
    ``finite`` is not for everybody to look at: training and linear scores meet every value anyway.
    """
    X, given = from_arrow(X, "X"), [from_arrow(labels, "y") for labels in y]
    rows = _rows_of_frame(X)
    checks: dict[str, Any] = {"accept_sparse": "csr", "accept_large_sparse": True, "dtype": dtype, "order": "C"}
    checks["ensure_all_finite"] = finite
    if rows is None:
        return validate_data(estimator, sound(X, dtype), *given, reset=reset, **checks)
    # Names are those of the frame.
    validate_data(estimator, X, *given, reset=reset, skip_check_array=True)
    if given:
        return check_X_y(rows, *given, estimator=estimator, **checks)
    return check_array(rows, input_name="X", estimator=estimator, **checks)


def from_arrow(values: Any, name: str) -> Any:
    """What offers its columns by Arrow's PyCapsule interface alone, as pyarrow's table or array; else what it was.

    Some can do so once only: who needs the values twice comes here first. A record batch is a table, too: as an array it
    would lose the names of its columns.
    """
    one = hasattr(values, "__arrow_c_array__")
    named = one and name.startswith("X") and hasattr(values, "column_names")
    if (hasattr(values, "__array__") and not named) or not (one or hasattr(values, "__arrow_c_stream__")):
        return values
    try:
        import pyarrow
    except ImportError:
        raise ImportError(
            f"{name} is a {type(values).__name__}, which offers Arrow's PyCapsule interface alone; install pyarrow, or hand "
            "over a NumPy array"
        ) from None
    if name.startswith("X"):
        return pyarrow.table(values)
    return pyarrow.array(values) if one else pyarrow.chunked_array(values)


def checked_weights(sample_weight: Any, X: Any) -> np.ndarray:
    """The weights of the rows of ``X``: what a user gave, or one number for all."""
    try:
        found = np.asarray(from_arrow(sample_weight, "sample_weight"))
        if found.dtype.kind in "cmM":
            raise TypeError(f"{found.dtype} would lose its meaning as a real number")
        found = found.astype(np.float64, copy=False)
    except (OverflowError, TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"sample_weight must be finite numbers >= 0, got {reprlib.repr(sample_weight)}: {error}") from error
    if isinstance(sample_weight, Number):
        found = found.item()
    return _check_sample_weight(found, X, dtype=np.float64, ensure_non_negative=True)


def _rows_of_frame(X: Any) -> np.ndarray | None:
    """The numbers of a frame of which scikit-learn would make two copies, or one in double precision; else None."""
    library = type(X).__module__.partition(".")[0]
    if library == "polars" and hasattr(X, "collect"):
        raise ValueError(f"X must be data, got a {type(X).__name__}, a query; collect() has its result")
    if library not in ("pandas", "polars", "pyarrow") or len(getattr(X, "shape", ())) != 2:
        return None
    rows: np.ndarray | None = None
    if library == "polars":
        rows = X.to_numpy(order="c")
    elif library == "pyarrow":
        rows = np.asarray(X)
    elif any(hasattr(dtype, "numpy_dtype") for dtype in X.dtypes):
        # Of columns that are Arrow's, or have masks.
        single = all(getattr(dtype, "numpy_dtype", dtype) == np.float32 for dtype in X.dtypes)
        rows = X.to_numpy(np.float32 if single else np.float64, na_value=np.nan)
    return rows


def sound(X: Any, dtype: Any) -> Any:
    """``X``, if it is sparse as a CSR matrix of one of these dtypes whose row bounds are sound; else as it is.

    The arrays of a CSR matrix are not copied, unless they have another dtype. A matrix of another format is copied,
    checked and converted.
    """
    if not issparse(X):
        return X
    if X.ndim != 2:
        raise ValueError(f"X must have 2 dimensions, got an array of shape {X.shape}")
    if X.dtype.kind not in "biuf":
        raise ValueError(f"Complex data not supported: X must hold real numbers, got dtype {X.dtype}")
    if X.format != "csr":
        X = _to_csr(X)
    n_rows, n_features = X.shape
    dtypes = dtype if isinstance(dtype, list) else [dtype]
    if n_rows > 0 and n_features > 0 and _is_plain(X, dtypes):
        # What a stream of single rows need not go through.
        Examples((X.indptr, X.indices, X.data, n_features))
        return X
    arrays = data, indices, indptr = [np.asarray(array) for array in (X.data, X.indices, X.indptr)]
    for name, array in zip(("data", "indices", "indptr"), arrays, strict=True):
        if array.ndim != 1 or (name != "data" and array.dtype.kind not in "iu"):
            kind = "numbers" if name == "data" else "integers"
            raise ValueError(f"X.{name} must be a list of {kind}, got {array.dtype} {array.shape}")
    if len(indptr) != n_rows + 1:
        raise ValueError(f"X.indptr must have n_rows + 1 = {n_rows + 1} entries, got {len(indptr)}")
    if n_rows == 0 or n_features == 0:
        return X  # scikit-learn says it better.
    if not any(data.dtype == each for each in dtypes):
        data = data.astype(dtypes[0])
    # SciPy keeps both index arrays in one dtype, unless somebody assigned to one of them.
    index = np.int32 if indices.dtype == np.int32 and indptr.dtype == np.int32 else np.int64
    indptr, indices = (np.require(array, index, ["C", "A"]) for array in (indptr, indices))
    data = np.require(data, requirements=["C", "A"])
    Examples((indptr, indices, data, n_features))
    if all(mine is theirs for mine, theirs in zip((data, indices, indptr), arrays, strict=True)):
        return X
    return _csr(type(X), data, indices, indptr, X.shape)


def _is_plain(X: Any, dtypes: list[Any]) -> bool:
    """Whether the arrays of a CSR matrix are as the compiled half takes them."""
    data, indices, indptr = X.data, X.indices, X.indptr
    return (
        type(data) is type(indices) is type(indptr) is np.ndarray
        and data.ndim == indices.ndim == indptr.ndim == 1
        and indices.dtype == indptr.dtype
        and indices.dtype in (np.int32, np.int64)
        and any(data.dtype == each for each in dtypes)
        and all(array.flags.c_contiguous and array.flags.aligned for array in (data, indices, indptr))
        and len(indptr) == X.shape[0] + 1
    )


def _csr(kind: type, data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: Any) -> Any:
    """A CSR matrix of these arrays, whatever they hold."""
    matrix = (csr_array if issubclass(kind, sparray) else csr_matrix)(shape, dtype=data.dtype)
    # Not by its constructor, which would look at the indices in its own way.
    matrix.data, matrix.indices, matrix.indptr = data, indices, indptr
    return matrix


def with_stored(X: Any, data: np.ndarray) -> Any:
    """A CSR matrix like this one, with other numbers in the same places, of which the arrays may have some to spare."""
    return _csr(type(X), data, X.indices[: len(data)], X.indptr, X.shape)


def _to_csr(X: Any) -> Any:
    """A sparse matrix of another format, as CSR; first a copy, which nobody else can change any more."""
    try:
        X = X.copy()
        if hasattr(X, "check_format"):
            X.check_format(full_check=True)
        elif hasattr(X, "_check"):
            X._check()
        return X.tocsr()
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ValueError(f"X must be a sound sparse matrix of format {X.format}: {error}") from error


def _rows(X: Any) -> _Rows:
    """A matrix as the compiled half takes it; copies nothing that is aligned already."""
    if isinstance(X, np.ndarray):
        return np.require(X, requirements=["C", "A"])
    return X.indptr, X.indices, X.data, X.shape[1]


def as_data(X: Any, codes: np.ndarray | None = None, weight: np.ndarray | None = None) -> Data:
    """Hands validated arrays over to the compiled half, for as long as these examples live."""
    if weight is not None:
        # What has come through a network may stand anywhere.
        weight = np.require(weight, requirements=["C", "A"])
    return Data(X, codes, weight, Examples(_rows(X), codes, weight))


def rows_of(X: Any, which: np.ndarray) -> Any:
    """Some rows of a matrix, copied."""
    if isinstance(X, np.ndarray):
        return X[which]
    # By NumPy, which looks at indices before it follows them.
    starts, ends = X.indptr[which], X.indptr[which + 1]
    indptr = np.concatenate([[0], np.cumsum(ends - starts)])
    places = np.arange(indptr[-1]) + np.repeat(starts - indptr[:-1], ends - starts)
    data, indices = X.data[places], X.indices[places]
    return _csr(type(X), data, indices, indptr.astype(indices.dtype), (len(which), X.shape[1]))


def parts_of(splits: Iterable[Any], n: int) -> list[list[np.ndarray]]:
    """The row numbers to learn from, and to hold out, of each split of a ``cv``."""
    try:
        return [[_row_numbers(part, n) for part in split] for split in splits]
    except (TypeError, ValueError) as error:
        # scikit-learn takes those of a list apart itself.
        if isinstance(error, ValueError) and "to unpack" not in str(error):
            raise
        raise ValueError(f"cv must give pairs of lists of row numbers in 0..{n}: {error}") from error


def _row_numbers(part: Any, n: int) -> np.ndarray:
    """The row numbers that a part of a split names, by themselves or as a mask."""
    rows = np.asarray(part)
    if rows.dtype == bool and rows.shape == (n,):
        rows = np.flatnonzero(rows)
    if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
        raise ValueError(f"cv must give lists of row numbers in 0..{n}, got {rows.dtype} of shape {rows.shape}")
    if rows.size and not (rows.min() >= 0 and rows.max() < n):
        wrong = rows.min() if rows.min() < 0 else rows.max()
        raise ValueError(f"cv must give lists of row numbers in 0..{n}, got {wrong}")
    return rows.astype(np.int64)


def is_positive(gram: np.ndarray) -> bool:
    """Whether a matrix is symmetric and positive semi-definite, up to roundings of its dtype.

    By a Cholesky factorisation, a block of rows at a time so that Ctrl-C is heard: n^3/3 multiplications, and the
    memory of one more matrix in double precision.
    """
    n, size = len(gram), float(np.abs(gram).max(initial=0.0))
    # Of entries that are rounded at random, and of the factorisation, whose errors have one sign where all entries are alike.
    eps = np.finfo(gram.dtype).eps
    rounding = float(max(4.0 * np.sqrt(n) * eps, 8.0 * n * np.finfo(np.float64).eps)) * size
    if not np.isfinite(rounding) or (np.diagonal(gram) < 0.0).any():
        return False
    if size == 0.0:
        return True
    factor = np.zeros((n, n))
    for start in range(0, n, _BLOCK):
        rows = slice(start, min(start + _BLOCK, n))
        if np.abs(gram[rows] - gram[:, rows].T).max() > rounding:
            return False
        before = factor[:start, :start]
        wide = gram[: rows.stop, rows].astype(np.float64)
        left = solve_triangular(before, wide[:start], lower=True, check_finite=False)
        own = wide[start:] - left.T @ left
        own[np.diag_indices_from(own)] += rounding
        try:
            factor[rows, rows] = cholesky(own, lower=True, check_finite=False)
        except LinAlgError:
            return False
        factor[rows, :start] = left.T
    return True


#: How many times as large as a small feature the largest may be before somebody is told.
_APART = 100.0

#: Which feature is a small one: so many are no larger. The median would say nothing of two features, one small and one large, nor
#: where most are large. Sparse columns that are seldom stored are small because of that.
_SMALL, _SMALL_SPARSE = 0.25, 0.5

#: And of how many numbers that is seen.
_LOOKED_AT = 1_000_000


def scale_advice(X: Any) -> str | None:
    """What to say of features that are far larger than many others; None where there are none.

    Of some of the rows, or stored numbers, evenly chosen: the largest magnitude of each feature, but of those that are
    always 0. The arrays may be anything by now.
    """
    sizes = np.zeros(X.shape[1])
    if issparse(X):
        step = -(-X.nnz // _LOOKED_AT) or 1
        indices, values = X.indices[: X.nnz : step], X.data[: X.nnz : step]
        inside = (indices >= 0) & (indices < len(sizes))
        np.maximum.at(sizes, indices[inside], abs(values[inside]))
    else:
        step = -(-X.size // _LOOKED_AT) or 1
        np.maximum(X[::step].max(axis=0), -X[::step].min(axis=0), out=sizes)
    sizes = sizes[sizes > 0.0]
    if not sizes.size:
        return None
    largest = float(sizes.max())
    small = float(np.quantile(sizes, _SMALL_SPARSE if issparse(X) else _SMALL, method="lower"))
    if not (largest >= _APART * small and np.isfinite(largest)):
        return None
    scaler = "MaxAbsScaler" if issparse(X) else "StandardScaler"
    return (
        f"Features differ in scale: the largest values are about {largest:.2g}, those of a smaller feature "
        f"{small:.2g}; scale them ({scaler})"
    )


@contextmanager
def explaining(X: Any, estimator: Any) -> Iterator[None]:
    """Says in scikit-learn's words what is not finite: a number in ``X``, or what becomes of it."""
    try:
        yield
    except NonFiniteError as error:
        with np.errstate(all="ignore"):
            assert_all_finite(
                X.data if issparse(X) else X,
                input_name="X",
                estimator_name=type(estimator).__name__,
            )
        raise ValueError(
            f"{error}; scale the features (StandardScaler) or sample_weight, or lower eta0 or raise t0 if you have set it"
        ) from None


def read_only(exported: np.ndarray) -> np.ndarray:
    """What scores do not come from, so that nobody changes it in the belief that they do."""
    exported.flags.writeable = False
    return exported


def encode(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sorted classes of ``y``, and each entry's position among them."""
    if y.dtype.kind in "biuf":
        # Two whole numbers, the common case, need no sort.
        low, high = y.min(), y.max()
        positive = y == high
        whole = float(low).is_integer() and float(high).is_integer()
        if whole and low != high and np.all(positive | (y == low)):
            return np.array([low, high], dtype=y.dtype), positive.astype(np.uint32)
    check_labels(y, "y")
    check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    return classes, codes.astype(np.uint32)


def check_labels(labels: np.ndarray, name: str) -> None:
    """Refuses labels that cannot be told apart or put in order."""
    if labels.dtype.kind != "O":
        return
    kinds = {str if isinstance(label, str) else type(label) for label in labels.ravel()}
    if {"NoneType", "NAType"} & {kind.__name__ for kind in kinds}:
        raise ValueError(f"{name} must hold labels of one kind, numbers or strings, and no missing values")
    if not (kinds == {str} or all(issubclass(kind, int | float | np.number | np.bool_) for kind in kinds)):
        said = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise ValueError(
            f"{name} must hold labels of one kind, numbers or strings; Unknown label type: {said}"
        )


def encode_among(y: np.ndarray, classes: np.ndarray, name: str = "y") -> np.ndarray:
    """Each entry's position among ``classes``; an entry that is none of them is an error."""
    check_labels(y, name)
    try:
        codes = np.searchsorted(classes, y)
        codes[codes == len(classes)] = 0
        unknown = np.flatnonzero(classes[codes] != y)
    except TypeError:
        # Strings among numbers, or the other way round.
        unknown = np.zeros(1, dtype=int)
    if unknown.size:
        raise ValueError(
            f"{name} must hold only the classes {classes.tolist()} given to the first call of "
            f"partial_fit or fit, got {y[unknown[0]]!r}"
        )
    return codes.astype(np.uint32)


class _NoLimit(int):
    """How many threads there are where nobody limits them: to set this number is to lift a limit."""


class _Threads(LibController):
    """What threadpoolctl knows of our threads. A limit holds for the thread that sets it."""

    user_api = internal_api = "pegasos"
    filename_prefixes = ("_core",)
    # Others have libraries of that name, too.
    check_symbols = ("PyInit_pegasos_threads",)

    def get_num_threads(self) -> int:
        found = thread_count(None)
        return _NoLimit(found) if limit.get() is None else found

    def set_num_threads(self, num_threads: int) -> None:
        # Who puts back what was there hands over what `get_num_threads` has told.
        limit.set(None if isinstance(num_threads, _NoLimit) else max(1, num_threads))

    def get_version(self) -> str:
        return __version__


register(_Threads)
