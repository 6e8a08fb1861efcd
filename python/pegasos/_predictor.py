"""What predicts from a model file, with NumPy alone: no scikit-learn, no SciPy, nothing that trains."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from pegasos._core import Examples, Model
from pegasos._files import check_readable, naming
from pegasos._threads import thread_count

if TYPE_CHECKING:
    from pegasos._files import Path

#: The dtypes of rows.
_SCALARS = (np.float32, np.float64)


class Predictor:
    """A model that predicts: what ``pegasos.load(path, light=True)`` returns.

    It has the methods of the estimator that was saved that ask for no training, and the steps of its pipeline that come
    before it: rows are given as the pipeline takes them. Labels, scores and probabilities are those of the estimator.

    Parameters
    ----------
    path : str or path-like
        A model file that ``pegasos.save``, ``pegasos train`` or the Rust crate wrote.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes.
    n_features_in_ : int
        How many features rows have.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, where the model knows them. Rows with other names are refused.
    n_jobs : int or None
        Threads, as for the estimators; None at first.
    about : dict
        What the file says of the estimator: "class", "params", "version", "objective" and more.

    See Also
    --------
    pegasos.load : Makes one.

    Notes
    -----
    Its import takes a tenth of the time that scikit-learn's takes. Rows cost what they cost the estimator, and a copy of 1024
    of them at a time. In Rust it is ``Model``.
    """

    classes_: np.ndarray
    n_features_in_: int
    feature_names_in_: np.ndarray

    def __init__(self, path: Path) -> None:
        check_readable(path)
        with naming(path):
            self._open(Model.load(path))

    def _open(self, model: Model) -> None:
        self._model = model
        self.about: dict[str, Any] = json.loads(model.text)
        self.classes_ = decode_classes(self.about["classes"])
        self.n_features_in_ = self.about["n_features"]
        self.n_jobs: int | None = None
        if self.about["feature_names"] is not None:
            self.feature_names_in_ = np.array(self.about["feature_names"], dtype=object)

    def __getstate__(self) -> dict[str, Any]:
        return {"model": self._model.to_bytes(), "n_jobs": self.n_jobs}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._open(Model.from_bytes(state["model"]))
        self.n_jobs = state["n_jobs"]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of a {self.about['class']}, {len(self.classes_)} classes, {self.n_features_in_} features>"

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of the classes, as the estimator's ``decision_function`` returns them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or an iterable of str
            The examples' features, float32 or float64; anything else is converted. A sparse matrix is one of SciPy's, or
            whatever else has a ``format`` of "csr", and ``data``, ``indices``, ``indptr`` and ``shape``. Texts, if the
            pipeline begins with a HashingVectorizer.

        Returns
        -------
        ndarray of shape (n_samples,), (n_samples, n_classes) or (n_samples, n_pairs)
            float64. Of two classes one score, > 0 for the second.

        Raises
        ------
        ValueError
            If X is not as described, holds NaN or infinity, or a score overflows.
        """
        scores = self._scores(X)
        if self.about["params"].get("decision_function_shape") != "ovo":
            return self._by_row(self._model.of_classes(scores), len(scores) // self._model.outputs)
        return self._by_row(scores, len(scores) // self._model.outputs)

    def predict(self, X: Any) -> np.ndarray:
        """The class of each example.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            As for ``decision_function``.

        Returns
        -------
        ndarray of shape (n_samples,)
            The classes.
        """
        return self.classes_[self._model.codes(self._scores(X))]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes, where the estimator has them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            As for ``decision_function``.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Each row sums to 1.

        Raises
        ------
        ValueError
            If the model was trained with neither ``calibration`` nor ``loss="log_loss"``, or X is not as described.
        """
        if not self.has_probabilities:
            raise ValueError(
                f"there are no probabilities: this {self.about['class']} was trained with neither calibration nor "
                "loss='log_loss'"
            )
        return self._model.probabilities(self._scores(X)).reshape(-1, len(self.classes_))

    @property
    def has_probabilities(self) -> bool:
        """Whether ``predict_proba`` has anything to return."""
        return self._model.has_probabilities

    @property
    def takes_texts(self) -> bool:
        """Whether X is texts, as the pipeline begins with a HashingVectorizer."""
        return self._model.takes_texts

    @property
    def n_vectors(self) -> int | None:
        """How many support vectors there are; None of a linear model."""
        return self._model.n_vectors

    @property
    def n_weights(self) -> tuple[int, int]:
        """How many weights of a linear model are not 0, and how many there are."""
        return self._model.n_nonzero or 0, self._model.outputs * self.n_features_in_

    @property
    def is_bounded(self) -> bool:
        """Whether there was a budget of support vectors."""
        return self._model.is_bounded

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of examples whose class is right.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            As for ``decision_function``.
        y : array-like of shape (n_samples,)
            Their classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Their weights.

        Returns
        -------
        float
            The accuracy.
        """
        guess, y = self.predict(X), np.asarray(y)
        if y.shape != guess.shape:
            raise ValueError(f"y must have shape {guess.shape}, as X has so many rows, got {y.shape}")
        weights = None if sample_weight is None else _weights(sample_weight, len(guess))
        return float(np.average(guess == y, weights=weights))

    def to_c(self, name: str = "model") -> str:
        """The model as a header for C and C++, with arrays and functions that need nothing but ``<math.h>``.

        Its functions take rows in the dtype of the model, float or double, before any scaling.

        * ``int NAME_predict(const float *x)``: the number of the class; ``NAME_labels[]`` says what classes are called,
          in the order of `classes_`.
        * ``void NAME_scores(const float *x, float *out)``: as many scores as the macro ``NAME_OUTPUTS`` says. Of two
          classes one, > 0 for the second; else one for each class or, of pairs of classes, for each pair.
        * ``void NAME_probabilities(const float *x, float *out)``: those of ``predict_proba``, if there are any, but of
          pairs of more than two classes.

        The macros ``NAME_FEATURES``, ``NAME_CLASSES`` and ``NAME_OUTPUTS`` are in capitals. A comment at the top says
        how many bytes and multiplications all takes.

        Parameters
        ----------
        name : str, default="model"
            What all names begin with: a letter and up to 39 letters, digits and underscores.

        Returns
        -------
        str
            The text of the header: C99, and C++ as well; all of it ASCII.

        Raises
        ------
        ValueError
            If the name is none in C, the kernel is precomputed or a callable, the arrays take more than 16 MiB, a label
            holds a zero byte or more than 4095 bytes, or a number of a scaler or a calibration is out of the range of
            float32 where that is the model's dtype.

        See Also
        --------
        pegasos.onnx.to_onnx : A graph, for machines that have a runtime for such.

        Notes
        -----
        Support vectors of sparse rows become dense, a linear kernel becomes weights. All is computed in the model's
        dtype, sums one after the other: scores differ from those of ``decision_function`` by rounding. Time and memory
        are those of the text, some 14 bytes for each number in float32, 22 in float64. In Rust it is ``Model::to_c``.

        Examples
        --------
        >>> import numpy as np, pegasos, tempfile, os
        >>> model = pegasos.PegasosClassifier().fit(np.array([[-1.0], [1.0]], np.float32), ["no", "yes"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "model")
        ...     pegasos.save(model, path)
        ...     header = pegasos.load(path, light=True).to_c("answer")
        >>> [line for line in header.splitlines() if "int answer_predict" in line][-1]
        'static inline int answer_predict(const float *x)'
        """
        if not isinstance(name, str):
            raise TypeError(f"name must be a str, got {name!r}")
        return self._model.to_c(name)

    def _scores(self, X: Any) -> np.ndarray:
        """All scores, row after row."""
        threads = thread_count(self.n_jobs)
        if self.takes_texts:
            try:
                return self._model.scores_of_texts(_texts(X), threads=threads)
            except UnicodeEncodeError as error:
                raise ValueError(f"X must hold texts that UTF-8 can hold, got {error.object!r}") from error
        self._check_names(X)
        return self._model.scores(Examples(_rows(X, self.n_features_in_)), threads=threads)

    def _by_row(self, scores: np.ndarray, n: int) -> np.ndarray:
        scores = scores.reshape(n, -1)
        return scores.ravel() if scores.shape[1] == 1 else scores

    def _check_names(self, X: Any) -> None:
        """Refuses a frame whose columns are others than those of the fit."""
        names = getattr(self, "feature_names_in_", None)
        given = getattr(X, "columns", None)
        if names is None or given is None:
            return
        given = [str(name) for name in given]
        if given != names.tolist():
            raise ValueError(f"X must have the columns {names.tolist()}, in this order, got {given}")


def _texts(X: Any) -> list[str]:
    """The texts of an iterable of them."""
    if isinstance(X, str | bytes) or not hasattr(X, "__iter__"):
        raise ValueError(f"X must be an iterable of texts, got one {type(X).__name__}")
    texts = list(X)
    if not texts:
        raise ValueError("X must hold one text or more, got none")
    for text in texts:
        if not isinstance(text, str):
            raise ValueError(f"X must hold texts, got {text!r}")
    return texts


def _weights(sample_weight: Any, n: int) -> np.ndarray:
    """The weights of so many examples."""
    try:
        weights = np.asarray(sample_weight, np.float64)
    except (OverflowError, TypeError, ValueError) as error:
        raise ValueError(f"sample_weight must hold {n} numbers: {error}") from error
    if weights.shape != (n,):
        raise ValueError(f"sample_weight must have shape ({n},), as X has so many rows, got {weights.shape}")
    if not (np.isfinite(weights).all() and (weights >= 0.0).all() and weights.any()):
        raise ValueError(f"sample_weight must be finite, >= 0 and not all 0, got {weights}")
    return weights


def _rows(X: Any, n_features: int) -> Any:
    """A matrix as the compiled half takes it."""
    rows: Any
    is_csr = getattr(X, "format", None) == "csr"
    if is_csr or hasattr(X, "tocsr"):
        X = X if is_csr else X.tocsr()
        data, shape = _floats(np.asarray(X.data)), X.shape
        indptr, indices = np.asarray(X.indptr), np.asarray(X.indices)
        if indptr.dtype.kind not in "iu" or indices.dtype.kind not in "iu":
            raise ValueError(f"X must have indices that are integers, got {indices.dtype} and {indptr.dtype}")
        if len(shape) != 2 or any(array.ndim != 1 for array in (data, indices, indptr)):
            raise ValueError(
                "X must have a shape of two dimensions, and data, indices and indptr of one, got shape "
                f"{shape} and {data.shape}, {indices.shape}, {indptr.shape}"
            )
        if len(indptr) != shape[0] + 1:
            raise ValueError(f"X must have {shape[0] + 1} entries in indptr, as it has {shape[0]} rows, got {len(indptr)}")
        # SciPy keeps both index arrays in one dtype, unless somebody assigned to one of them.
        index = np.int32 if indices.dtype == indptr.dtype == np.int32 else np.int64
        rows = (*(np.require(array, index, ["C", "A"]) for array in (indptr, indices)), data, shape[1])
    else:
        try:
            rows = np.asarray(X)
        except (TypeError, ValueError) as error:
            raise ValueError(f"X must be rows of {n_features} numbers: {error}") from error
        rows = _floats(rows)
        shape = rows.shape
    if len(shape) != 2:
        raise ValueError(f"X must have two dimensions, rows and features, got shape {shape}")
    if shape[1] != n_features:
        raise ValueError(f"X must have {n_features} features, as the model has, got {shape[1]}")
    if shape[0] == 0:
        raise ValueError("X must have one row or more, got none")
    return rows


def _floats(values: np.ndarray) -> np.ndarray:
    """The same in a dtype that rows may have."""
    if values.dtype.kind not in "biufO":
        raise ValueError(f"X must hold real numbers, got dtype {values.dtype}")
    if values.dtype not in _SCALARS:
        try:
            values = values.astype(np.float64)
        except (OverflowError, TypeError, ValueError) as error:
            raise ValueError(f"X must hold real numbers: {error}") from error
    return np.require(values, requirements=["C", "A"])


def decode_classes(state: dict[str, Any]) -> np.ndarray:
    """The classes that a model file names."""
    dtype, values = np.dtype(state["dtype"]), state["values"]
    # The name of a dtype has no width of strings, which could be any.
    if dtype.kind not in "biufUO" or dtype.name != state["dtype"]:
        raise ValueError(f"classes cannot have dtype {state['dtype']!r}")
    text = dtype.kind in "UO"
    if not all(isinstance(value, str) == text for value in values):
        raise ValueError(f"classes of dtype {dtype} cannot be {values}")
    classes = np.array(values, dtype=dtype)
    if classes.ndim != 1 or not len(classes) or not np.all(classes[1:] > classes[:-1]):
        raise ValueError(f"classes must be one or more, in rising order, got {values}")
    return classes
