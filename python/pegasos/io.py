"""Examples from files, and models in files.

`read` takes all examples and labels of a file, `load_svmlight` those of an svmlight file of any ending, `stream` takes them in
batches, from whatever holds them. `save` and `load` keep an estimator in a file of its own; `replacing` writes a file whole or
not at all.
"""

from __future__ import annotations

import csv
import io
import os
import reprlib
import warnings
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import numpy as np

from pegasos._core import FORMAT, model_bytes, read_model
from pegasos._csv import Lines, kind_of, label_column, read_csv, typed
from pegasos._files import BROKEN, check_readable, naming, opened, replacing, why
from pegasos._passes import stream
from pegasos._sources import FORMATS, check_goes_with, format_of, named, open_source, place_of, stacked
from pegasos._svmlight import arrays, load_svmlight

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scipy.sparse import csr_matrix
    from sklearn.pipeline import Pipeline

    from pegasos._files import Path
    from pegasos._hashing import Hashing
    from pegasos._models import Estimator
    from pegasos._predictor import Predictor

__all__ = ["FORMAT", "Table", "load", "load_svmlight", "read", "replacing", "save", "stream"]


def save(estimator: Estimator | Pipeline, path: Path) -> None:
    """Write a fitted estimator to one safetensors file.

    The file holds the parameters, the classes, what the last fit found (objective, duality gap,
    loss curve, numbers of steps and epochs) and the whole state of training, so that `load` gives
    an estimator that predicts the same to the last bit, and whose ``partial_fit`` goes on as that
    of the original would, on a budget up to rounding. The file appears at once or not at all: a save that fails or is killed leaves what was
    at ``path`` as it was; the next one clears away what it may have left beside it.

    Parameters
    ----------
    estimator : an estimator of this package, or a Pipeline that ends with one
        A fitted estimator. The steps before it, if there are any, must be StandardScaler or MaxAbsScaler, or first a
        HashingVectorizer whose tokens are words by its default pattern, or n-grams of characters.
    path : str or path-like
        The file to write.

    Raises
    ------
    NotFittedError
        The estimator is not fitted.
    ValueError
        The estimator or a step is of a class that files cannot hold, or one of its parameters is: a
        ``random_state`` that is no int and not None, a ``kernel`` that is a callable, a value out of
        range, labels that are neither numbers nor strings.
    OSError
        The file cannot be written.

    See Also
    --------
    load : The way back.

    Notes
    -----
    Time and memory are those of three copies of the weights, of shape (problems, n_features), six
    if iterates are averaged; of a kernel model three copies of its support vectors, of which features
    that are 0 are left out if it was trained on sparse rows. Arrays among the parameters come back as
    lists, tuples too; keys of ``class_weight`` keep their types.

    Examples
    --------
    >>> import tempfile, os
    >>> from sklearn.datasets import load_iris
    >>> from pegasos import PegasosClassifier
    >>> from pegasos.io import load, save
    >>> X, y = load_iris(return_X_y=True)
    >>> model = PegasosClassifier(multi_class="ovr", tol=None, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "iris.safetensors")
    ...     save(model, path)
    ...     again = load(path)
    >>> bool((again.coef_ == model.coef_).all())
    True
    """
    from pegasos._models import described

    text, tensors = described(estimator)
    content = model_bytes(text, tensors)
    with replacing(path) as file:
        file.write(content)


@overload
def load(path: Path, *, light: Literal[False] = ...) -> Estimator: ...


@overload
def load(path: Path, *, light: Literal[True]) -> Predictor: ...


def load(path: Path, *, light: bool = False) -> Estimator | Predictor:
    """Read an estimator that `save` wrote.

    Parameters
    ----------
    path : str or path-like
        The file to read.
    light : bool, default=False
        Whether to return what predicts and no more. That needs NumPy alone, where estimators need scikit-learn and
        SciPy, whose import takes some two seconds.

    Returns
    -------
    estimator : an estimator of this package, a Pipeline that ends with one, or a Predictor
        A fitted estimator: ``coef_`` or ``dual_coef_``, predictions and whatever ``partial_fit``
        makes of further examples are those of the one that was saved. With ``light`` a `Predictor`: ``predict``,
        ``decision_function``, ``predict_proba`` and ``score``, behind the same steps.

    Raises
    ------
    OSError
        The file cannot be read; FileNotFoundError if there is none.
    ValueError
        The file is damaged, is no model file, or was written by a version of the package whose
        format this one does not know. The message names the file.

    See Also
    --------
    save : The way there, with an example.

    Notes
    -----
    Time and memory are those of three copies of the weights; a file that is damaged is refused within its size and 64 MB.
    A file of a pipeline loads as a pipeline. Whoever changes a file and its checksums as well can change predictions, but
    to finite numbers only.

    Examples
    --------
    >>> import os, tempfile
    >>> from pegasos.io import load
    >>> import numpy as np
    >>> from safetensors.numpy import save_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "theirs.safetensors")
    ...     save_file({"weight": np.zeros(3)}, path)
    ...     try:
    ...         load(path)
    ...     except ValueError as error:
    ...         print(os.path.relpath(str(error), folder))
    theirs.safetensors: not a model file of pegasos: it is a safetensors file, but not one of ours
    """
    if light:
        from pegasos._predictor import Predictor

        return Predictor(path)
    from pegasos._models import restored

    check_readable(path)
    with naming(path):
        text, tensors = read_model(path)
        try:
            return restored(text, tensors)
        except BROKEN as error:
            raise ValueError(f"not a model file of pegasos: {why(error)}") from error


class Table(NamedTuple):
    """Examples that `read` found in a file."""

    X: Any
    """The features: array or CSR matrix, of shape (n_samples, n_features); or a list of texts."""
    y: np.ndarray | None
    """The labels, of shape (n_samples,), or None if there are none."""
    feature_names: list[str] | None
    """The names of the features, n_features of them, or None if they have none."""


def read(
    path: Path,
    *,
    label: str | int | None = -1,
    columns: Sequence[str] | None = None,
    model: Any = None,
    format: str | None = None,
    n_features: int | None = None,
    zero_based: bool | Literal["auto"] = "auto",
    hashing: Hashing | None = None,
) -> Table:
    """Read examples and their labels from a file.

    The ending of the path tells the format:

    ``.svm``, ``.svmlight``, ``.libsvm``, ``.txt``, the same with ``.gz`` or ``.bz2``
        Read by `load_svmlight`; sparse.
    ``.csv``, ``.tsv``
        One example a line, separated by commas or tabs, in UTF-8. The first line is a header if
        none of its features is a number, if ``label`` is a name, or if its label is the only one
        that is no number. Labels are ints or floats if all are, else strings.
    ``.npz``
        Arrays ``X`` and ``y``, or ``X_train`` and ``y_train``, or, for a sparse matrix, the arrays
        that ``scipy.sparse.save_npz`` writes of a CSR matrix (``data``, ``indices``, ``indptr``,
        ``shape``) and ``y``.
    ``.npy``, ``.parquet``, ``.arrow``, ``.feather``, or a folder of Parquet files
        As by `stream`, of which this is all batches at once.

    Parameters
    ----------
    path : str or path-like
        The file to read; "-" for the standard input.
    label : str, int or None, default=-1
        The column of a table that holds the labels: its name, or its number, counted from 0, or from the end if
        negative. None if there are no labels, in any format.
    columns : sequence of str, default=None
        The columns of a table with names that are features, as by `stream`. The first line of a CSV or TSV file is then a
        header.
    model : fitted estimator, default=None
        The model that the examples are for. It tells how many features there must be, so that an
        svmlight file need not mention the last, and whether labels are strings. Labels may then be
        missing: ``y`` is None for a table with as many columns as the model has features,
        if ``label`` is left at -1 and ``columns`` at None, and for an NPZ file without ``y``. Features of a sparse
        file that the model does not know are left out, with a warning. A table whose features have other names
        than the model's, or another order, is refused.
    format : {"svmlight", "csv", "tsv", "npy", "npz", "parquet", "arrow"}, default=None
        The format, whatever the ending of the path. None for what the ending says, and svmlight for the standard
        input.
    n_features : int, default=None
        How many features the rows of an svmlight file have, as by `load_svmlight`; None for what the file shows.
    zero_based : bool or "auto", default="auto"
        Whether columns of an svmlight file are counted from 0, as by `load_svmlight`. "auto" looks at this file alone: files
        of one model of which some lack a column 0 need True.
    hashing : int, FeatureHasher or HashingVectorizer, default=None
        What makes features of the columns of a table, strings among them, as by `stream`. With a ``model`` as many as it has.

    Returns
    -------
    X : ndarray or csr_matrix of shape (n_samples, n_features)
        The features, float64, or float32 where an NPZ file has that.
    y : ndarray of shape (n_samples,) or None
        The labels, if there are any.
    feature_names : list of str or None
        From the header, if there is any.

    Raises
    ------
    OSError
        The file cannot be read; FileNotFoundError if there is none.
    ValueError
        The ending is none of these, or the file is not what its ending says: the message names the
        file, for text the line, and for CSV and TSV files the column. A line of more than 16 MB is refused.

    See Also
    --------
    load_svmlight : For an svmlight file of another ending.

    Notes
    -----
    CSV and TSV files are read at two to four million values a second, or several times as fast where pyarrow is installed,
    to the same numbers and labels; svmlight files some ten times as fast, an NPZ file as fast as the disk allows.
    Memory is that of the result, and for CSV and TSV files of 16 bytes more for each row.

    Examples
    --------
    >>> import os, tempfile
    >>> from pegasos.io import read
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "flowers.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("length,width,species\\n5.1,3.5,setosa\\n6.3,3.3,virginica\\n")
    ...     X, y, names = read(path)
    >>> X
    array([[5.1, 3.5],
           [6.3, 3.3]])
    >>> y.tolist(), names
    (['setosa', 'virginica'], ['length', 'width'])
    """
    if format not in (None, *FORMATS):
        raise ValueError(f"format must be one of {', '.join(FORMATS)} or None, got {format!r}")
    kind, label = format or _format_of(path), place_of(label)
    if kind in ("svmlight", "npz") and label not in (-1, None):
        raise ValueError(f"{os.fspath(path)}: a file of format {kind} has no column {label!r}")
    check_goes_with(
        kind,
        columns=columns is not None,
        n_features=n_features is not None,
        zero_based=zero_based != "auto",
        hashing=hashing is not None,
    )
    if hashing is not None or kind not in ("svmlight", "csv", "tsv", "npz"):
        found = _of_source(path, label, columns, model, format, hashing)
    elif kind == "svmlight":
        X, y = load_svmlight(path, n_features=n_features, zero_based=zero_based)
        found = Table(X, None if label is None else y, None)
    else:
        names = named(columns)
        with naming(path):
            if kind == "npz":
                found = _read_npz(path, label, model)
            else:
                found = Table(*read_csv(path, "\t" if kind == "tsv" else ",", label, names, model))
    with naming(path):
        return _fitting(found, model)


def _of_source(
    path: Path,
    label: str | int | None,
    columns: Sequence[str] | None,
    model: Any,
    format: str | None,
    hashing: Hashing | None,
) -> Table:
    """All batches of a source, one below the other."""
    source = open_source(path, label=label, columns=columns, format=format, hashing=hashing)
    if hashing is not None and model is not None and source.n_features != model.n_features_in_:
        # Of another number of features none is what it was.
        raise ValueError(
            f"{os.fspath(path)}: hashing must be as it was for the model, which has {model.n_features_in_} features, got one that "
            f"makes {source.n_features}"
        )
    is_default = label == -1 and columns is None
    if model is not None and is_default and source.n_features == model.n_features_in_ - 1:
        # There is no label.
        source = open_source(path, label=None, format=format, hashing=hashing)
    X, y = stacked(list(source.batches(_BATCH)))
    return Table(X, y, source.names)


class Csr(NamedTuple):
    """Sparse rows where there is no SciPy."""

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    shape: tuple[int, int]
    format: str = "csr"

    def tocsr(self) -> Csr:
        return self

    def within(self, n_features: int) -> Csr:
        """Without the features that are not among the first so many."""
        inside = self.indices < n_features
        kept = np.concatenate([[0], np.cumsum(inside)])
        return Csr(self.data[inside], self.indices[inside], kept[self.indptr], (self.shape[0], n_features))


def read_for(
    model: Any,
    path: Path,
    *,
    label: str | int | None = -1,
    columns: Sequence[str] | None = None,
    format: str | None = None,
    zero_based: bool | Literal["auto"] = "auto",
    hashing: Hashing | None = None,
) -> Table:
    """What a predictor is to look at: `read`, or texts where it takes these.

    Texts are the lines of a file, or the one column of a CSV or TSV file beside the label.
    """
    if model.takes_texts:
        if columns is not None:
            raise ValueError("columns is for tables of features, the model takes texts")
        with naming(path), opened(path) as file:
            kind = format or os.path.basename(path).lower().rpartition(".")[2]
            if kind not in ("csv", "tsv"):
                return Table([line.rstrip("\r\n") for line in Lines(file)], None, None)
            lines = csv.reader(Lines(file), delimiter="\t" if kind == "tsv" else ",", strict=True)
            return _texts_of([cells for cells in lines if cells], label, model)
    is_table = hashing is not None or columns is not None or label not in (-1, None)
    if is_table or (format or _format_of(path)) != "svmlight":
        how: Any = {"label": label, "columns": columns, "format": format, "zero_based": zero_based, "hashing": hashing}
        return read(path, model=model, **how)
    found = arrays(path, zero_based=zero_based)
    X = Csr(found.data, found.indices, found.indptr, (len(found.indptr) - 1, found.n_features))
    with naming(path):
        return _fitting(Table(X, None if label is None else found.labels, None), model)


def _texts_of(rows: list[list[str]], label: str | int | None, model: Any) -> Table:
    """The texts and labels of a table, whose header is a name of the label's column, or a line without a known label."""
    if not rows:
        raise ValueError("it holds no examples")
    alone = len(rows[0]) == 1
    column = None if alone else label_column(rows[0], label, model)
    if any(len(cells) != len(rows[0]) for cells in rows) or len(rows[0]) != 1 + (column is not None):
        raise ValueError("it must have one column of texts beside the label, or none but that")
    texts = [cells[0 if column != 0 else 1] for cells in rows]
    if column is None:
        return Table(texts, None, None)
    labels = [cells[column].strip() for cells in rows]
    known = {str(name): k for k, name in enumerate(model.classes_.tolist())}
    if isinstance(label, str) or (labels[0] not in known and len(labels) > 1):
        texts, labels = texts[1:], labels[1:]
    if known.keys() >= set(labels):
        # As `predict` prints them: NumPy takes the word False for True.
        return Table(texts, model.classes_[[known[label] for label in labels]], None)
    return Table(texts, typed(labels, "text" if model.classes_.dtype.kind in "UO" else kind_of(labels)), None)


#: Rows of a batch of those that make a whole.
_BATCH = 1 << 16


def _format_of(path: Path) -> str:
    """The format that the ending of a path tells, or the files of a folder."""
    kind, name = format_of(path), os.fspath(path).lower().removesuffix(".gz").removesuffix(".bz2")
    if kind == "svmlight" and name != "-" and not name.endswith(FORMATS[kind]):
        endings = ", ".join(ending for endings in FORMATS.values() for ending in endings)
        raise ValueError(f"{os.fspath(path)}: the ending must be one of {endings}; texts may be packed (.gz, .bz2)")
    return kind


def check_names(names: list[str] | None, known: Sequence[str] | None) -> None:
    """Refuses features of other names than those that a model knows, where both have names."""
    if names is None or known is None or names == list(known):
        return
    raise ValueError(
        f"its features are {reprlib.repr(names)}, those of the model {reprlib.repr(list(known))}: columns says which to "
        "take, in which order"
    )


def _fitting(table: Table, model: Any) -> Table:
    """The table, its features as many as those of the model."""
    n, d = table.X.shape
    if n == 0:
        raise ValueError("it holds no examples")
    if model is None or d == model.n_features_in_:
        check_names(table.feature_names, getattr(model, "feature_names_in_", None))
        return table
    want = model.n_features_in_
    if isinstance(table.X, np.ndarray):
        raise ValueError(f"its examples have {d} features, those of the model have {want}")
    X = table.X
    if d > want:
        warnings.warn(
            f"features {want + 1} to {d} are left out, as the model does not know them",
            UserWarning,
            stacklevel=3,
        )
        return table._replace(X=X.within(want) if isinstance(X, Csr) else X[:, :want])
    if isinstance(X, Csr):
        return table._replace(X=X._replace(shape=(n, want)))
    from scipy.sparse import csr_matrix

    return table._replace(X=csr_matrix((X.data, X.indices, X.indptr), shape=(n, want)))


def _read_npz(path: Path, label: str | int | None, model: Any) -> Table:
    try:
        return _read_arrays(path, label, model)
    except ValueError as error:
        if "pickle" not in str(error):
            raise
        raise ValueError(
            "it holds pickled objects, which are not read, as they could do anything: save arrays of numbers "
            "or strings"
        ) from error


def _read_arrays(path: Path, label: str | int | None, model: Any) -> Table:
    with opened(path) as content:
        # An archive is read from its end.
        file = np.load(content if content.seekable() else io.BytesIO(content.read()), allow_pickle=False)
        if not isinstance(file, np.lib.npyio.NpzFile):
            raise ValueError("it holds a single array, not the arrays X and y")
        arrays, labels = set(file.files), "y"
        if arrays >= {"data", "indices", "indptr", "shape"}:
            X = _csr_of(file)
        elif "X" in arrays:
            X = file["X"]
        elif "X_train" in arrays:
            X, labels = file["X_train"], "y_train"
        else:
            raise ValueError(
                "it must hold arrays X and y, or X_train and y_train, or data, indices, indptr, "
                f"shape and y, got {', '.join(file.files)}"
            )
        if X.ndim != 2 or X.dtype.kind not in "biuf":
            raise ValueError(f"X must hold numbers in two dimensions, got {X.dtype} {X.shape}")
        if X.dtype not in (np.float32, np.float64):
            X = X.astype(np.float64)
        if label is None or (model is not None and labels not in arrays):
            return Table(X, None, None)
        if labels not in arrays:
            raise ValueError(f"it has no array {labels} of labels")
        y = file[labels]
        if y.shape != X.shape[:1]:
            raise ValueError(f"{labels} must have shape {X.shape[:1]}, got {y.shape}")
        return Table(X, y, None)


def _csr_of(file: np.lib.npyio.NpzFile) -> csr_matrix:
    from scipy.sparse import csr_matrix

    layout = str(file["format"].astype(str)) if "format" in file.files else "csr"
    if layout != "csr":
        raise ValueError(f"its sparse matrix must be in format csr, got {layout}")
    shape = tuple(file["shape"].tolist())
    X = csr_matrix((file["data"], file["indices"], file["indptr"]), shape=shape)
    X.check_format(full_check=True)
    return X
