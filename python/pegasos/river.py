"""Classifiers for river's streams: one dictionary of features at a time.

An example goes to the compiled half as it is. There its features' names become columns, as scikit-learn's ``FeatureHasher``
has them, and a step of the one training loop is taken, all in one call. What is rare goes by the door of all batches,
``partial_fit`` of the estimator behind: the first example, a class that joins, numbers that might overflow.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from array import array
from collections.abc import Mapping
from copy import copy
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.sparse import csr_matrix

from pegasos import _kernel, _linear
from pegasos._calibration import Calibration, Scored, most_rows
from pegasos._core import Hasher, NonFiniteError, ProbabilityMap

try:
    from river import base
    from river.utils import dataframe
except ImportError as error:
    raise ImportError(
        f"pegasos.river needs river ({error}): pip install 'pegasos[river]'", name=error.name
    ) from error

if TYPE_CHECKING:
    from pegasos._base import _PegasosBase
    from pegasos._types import Calibrated, Maintenance

__all__ = ["KernelPegasosClassifier", "PegasosClassifier"]

#: A map from scores to probabilities is learned anew whenever there are this part more of them.
_ANEW = 0.1


def _check_label(y: Any) -> None:
    """Refuses what is no class. What it is among those so far is for `partial_fit` to say."""
    if isinstance(y, str):
        # NumPy keeps no zero byte at the end.
        known = not y.endswith("\0")
    elif isinstance(y, Integral):
        known = -(2**63) <= int(y) < 2**64
    else:
        known = isinstance(y, np.bool_) or (isinstance(y, Real) and float(y).is_integer())
    if not known:
        kind = ValueError if isinstance(y, str | Real) else TypeError
        raise kind(f"y must be a class: a bool, an int of 64 bits, or a str that does not end in a zero byte, got {y!r}")


def _as_weight(w: Any) -> float:
    """A weight that is not a float as one."""
    try:
        if not isinstance(w, str | bytes):
            return float(w)
    except OverflowError as error:
        raise ValueError(f"w must be > 0 and finite: {error}") from error
    except (TypeError, ValueError):
        pass
    raise TypeError(f"w must be a number > 0 and finite, got {w!r}")


def _compiled(calibration: Calibration) -> ProbabilityMap:
    return ProbabilityMap(calibration.method, [part.ravel().tolist() for part in calibration.parts])


class _Notes:
    """The scores that the last examples had before they were learned from, and the map from scores to probabilities.

    Which examples a map is learned from depends on the stream alone, not on when somebody asks for probabilities.
    """

    def __init__(self, method: str, n_classes: int) -> None:
        self.method, self.n_classes = method, n_classes
        self.outputs = 1 if n_classes == 2 else n_classes
        self.most = most_rows(self.outputs)
        #: Three times as many at most, so that old ones need not be taken out one by one.
        self.scores, self.codes = array("d"), array("q")
        #: How many were taken out again; how many of all the map is learned from, and when the next is.
        self.gone = self.known = self.due = 0
        # Of nothing, as long as nothing is known: all classes are alike.
        self._found = _compiled(Calibration("sigmoid", n_classes, False, [np.zeros(2)] * self.outputs))

    @property
    def count(self) -> int:
        """How many there have been."""
        return self.gone + len(self.codes)

    def add(self, scores: list[float], code: int) -> None:
        """Remembers one more. Ctrl-C may come after any call: a note is there once it has its code."""
        del self.scores[len(self.codes) * self.outputs :]
        self.scores.extend(scores)
        self.codes.append(code)
        if len(self.codes) >= 3 * self.most:
            late = self.scores[self.most * self.outputs :], self.codes[self.most :]
            self.scores, self.codes, self.gone = *late, self.gone + self.most

    def scored(self, most: int, late: int = 0) -> Scored:
        """So many of the last of them, but for those that came late."""
        end = len(self.codes) - late
        rows = slice(max(0, end - min(most, self.most)), end)
        noted = np.array(self.scores)[: len(self.codes) * self.outputs]
        scores = noted.reshape(len(self.codes), self.outputs)[rows]
        return Scored(scores, np.array(self.codes, np.int64)[rows], np.ones(len(scores)))

    def map(self) -> ProbabilityMap:
        """That of the scores known, but for a tenth at most that came since; of the later half of them.

        Scores shrink as 1/t when a stream begins. With all of them the log loss of the default models on river's Phishing and
        ImageSegments was higher by 13 to 74%, with the last tenth by 7 to 18%.
        """
        if self.count >= self.due:
            self._learn()
        return self._found

    def _learn(self) -> None:
        before = self.known
        while self.count >= self.due:
            self.known = self.due
            self.due += max(1, int(_ANEW * min(self.known, self.most)))
        if self.known > before:
            scored = self.scored(self.known - self.known // 2, self.count - self.known)
            found = Calibration.of(self.method, scored.scores, scored.codes, self.n_classes)
            self._found = _compiled(found)


class _StreamClassifier(base.MiniBatchClassifier):
    """What learns from a stream, of whatever kind."""

    loss: Literal["hinge", "log_loss"] = "hinge"
    n_features: int
    calibration: Calibrated

    def _begin(self) -> None:
        """At the end of ``__init__``, which only stores: looks at the parameters, and knows nothing yet."""
        n_features = self.n_features
        if not (isinstance(n_features, Integral) and 1 <= int(n_features) < 2**31):
            raise ValueError(f"n_features must be in 1 to 2^31 - 1, and an int, got {n_features!r}")
        self._hasher: Hasher = Hasher(int(n_features))
        self._make({}).set_params(calibration=self.calibration)._validate_params()
        #: None before the first example. It knows nothing yet of what its trainer has learned one by one.
        self._estimator: _PegasosBase | None = None
        #: The classes in the order of their scores, the number of each, and how many examples there were of it.
        self._labels: list[Any] = []
        self._codes: dict[Any, int] = {}
        self._counts: list[int] = []
        #: How scores become probabilities: learned from those of the stream, or the loss's own.
        self._notes: _Notes | None = None
        self._own_map: ProbabilityMap | None = None
        self._name: str | None = None

    @abstractmethod
    def _make(self, x: Mapping[Any, Any]) -> _PegasosBase:
        """The estimator behind, for a stream that begins with this example."""

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learn from an example.

        Parameters
        ----------
        x : dict
            Its features by name. Values are finite numbers, or texts: ``{"colour": "red"}`` is a feature "colour=red" of
            value 1. Names that are neither texts nor bytes are what ``str`` makes of them.
        y : bool, int or str
            Its class. One that is new joins; all are of one kind.
        w : float, default=1.0
            Its weight, > 0.

        Raises
        ------
        TypeError
            If x is no dictionary, a value neither number nor text, y no class, or w no number.
        ValueError
            If a value is not finite, y of another kind than the classes before, or the numbers would overflow. Nothing was
            learned then.
        """
        if type(w) is not float:
            w = _as_weight(w)
        try:
            code = self._codes.get(y)
        except TypeError:
            # What has no hash is no class.
            code = None
        if code is not None and len(self._labels) > 1:
            notes = self._notes
            trainer = self._estimator._trainer  # type: ignore[union-attr]
            try:
                scores = trainer.learn_one(self._hasher, x, code, w, notes is not None)
            except NonFiniteError as error:
                raise _of_x(error) from None
            if scores is not None:
                self._counts[code] += 1
                if notes is not None:
                    notes.add(scores, code)
                return
        self._learn_rarely(x, y, w)

    def _learn_rarely(self, x: Mapping[Any, Any], y: Any, w: float) -> None:
        """Learns by the door of all batches."""
        columns, values = self._hasher.row(x)
        row = csr_matrix((values, columns, [0, len(columns)]), shape=(1, self.n_features))
        if not (w > 0.0 and math.isfinite(w)):
            raise ValueError(f"w must be > 0 and finite, got {w!r}")
        _check_label(y)
        estimator = self._settled() or self._make(x)
        if self._labels and y not in self._codes:
            # Ctrl-C may come after any call: the classes are those of the estimator then, too.
            estimator = copy(estimator)
        known, notes, own_map = len(self._labels), self._notes, self._own_map
        scores = None
        try:
            if notes is not None and y in self._codes:
                scores = estimator._trainer.scores_one(self._hasher, x)
            estimator.partial_fit(row, [y], sample_weight=None if w == 1.0 else [w])
        except ValueError as error:
            # What a batch says of it is of rows of X.
            for found in (error, error.__context__):
                if isinstance(found, NonFiniteError):
                    raise _of_x(found) from None
            raise
        stream = estimator._stream
        assert stream is not None and stream.counts is not None
        labels, counts = estimator.classes_.tolist(), stream.counts.tolist()
        codes = {label: code for code, label in enumerate(labels)}
        if scores is not None and notes is not None:
            notes.add(scores, codes[y])
        elif len(labels) > max(1, known):
            method, n_classes = self._method, len(labels)
            notes = None if method is None else _Notes(method, n_classes)
            if self.loss == "log_loss":
                own_map = _compiled(Calibration.of_log_loss(n_classes))
        self._estimator, self._labels, self._codes, self._counts = estimator, labels, codes, counts
        self._notes, self._own_map = notes, own_map

    def _settled(self) -> _PegasosBase | None:
        """The estimator behind, told of all that its trainer has learned since; None before the first example."""
        estimator = self._estimator
        if estimator is not None:
            assert estimator._stream is not None
            estimator._stream.counts = np.array(self._counts, np.int64)
            estimator.t_ = estimator._trainer.facts.t
            estimator._export()
        return estimator

    @property
    def _method(self) -> str | None:
        """How probabilities are made of scores that are noted, if any are."""
        return None if self.loss == "log_loss" else self.calibration

    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> Any:
        """The class with the highest score.

        Parameters
        ----------
        x : dict
            The features of an example, as for ``learn_one``.

        Returns
        -------
        bool, int or str
            The class; None before the first example.

        Raises
        ------
        TypeError, ValueError
            As by ``learn_one``.
        """
        labels = self._labels
        if len(labels) < 2:
            return labels[0] if labels else None
        try:
            return labels[self._estimator._trainer.code_one(self._hasher, x)]  # type: ignore[union-attr]
        except NonFiniteError as error:
            raise _of_x(error) from None

    def predict_proba_one(self, x: Mapping[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """Probabilities of the classes, with ``calibration``, or of ``loss="log_loss"``.

        Parameters
        ----------
        x : dict
            The features of an example, as for ``learn_one``.

        Returns
        -------
        dict
            The probability of every class so far, which sum to 1; empty before the first example. The likeliest may be
            another than ``predict_one`` says, unless by ``calibration="temperature"``: a map that is learned may have its 1/2
            elsewhere than at a score of 0.

        Raises
        ------
        NotImplementedError
            If there are no probabilities, as ``calibration`` is None.
        TypeError, ValueError
            As by ``learn_one``.
        """
        labels = self._labels
        if len(labels) < 2:
            return dict.fromkeys(labels, 1.0)
        found = self._own_map or (self._notes and self._notes.map())
        if not found:
            raise NotImplementedError("probabilities need calibration='sigmoid', 'temperature' or 'isotonic'")
        try:
            return found.probabilities(self._estimator._trainer, self._hasher, x, labels)  # type: ignore[union-attr]
        except NonFiniteError as error:
            raise _of_x(error) from None

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn from the rows of a frame, one after the other.

        Parameters
        ----------
        X : pandas.DataFrame, or another eager frame that river takes
            The examples' features.
        y : pandas.Series, or of the same library
            Their classes.

        Raises
        ------
        TypeError, ValueError
            As by ``learn_one``. The rows before have been learned from then.
        """
        rows, labels = _rows(X), dataframe.into_series(y)
        if len(labels) != len(rows):
            raise ValueError(f"y must have one entry per row of X, {len(rows)}, got {len(labels)}")
        self._name = labels.name
        for x, label in zip(rows, labels.to_list(), strict=True):
            self.learn_one(x, label)

    def predict_many(self, X: Any) -> Any:
        """The class with the highest score, for each row of a frame.

        Parameters
        ----------
        X : pandas.DataFrame, or another eager frame that river takes
            The examples' features.

        Returns
        -------
        pandas.Series, or of the same library
            The classes; None before the first example.
        """
        return self._series([self.predict_one(x) for x in _rows(X)], X)

    def _series(self, values: list[Any], X: Any) -> Any:
        return dataframe.to_native_series(values, name=self._name, like=dataframe.into_frame(X))

    def predict_proba_many(self, X: Any) -> Any:
        """Probabilities of the classes, for each row of a frame.

        Parameters
        ----------
        X : pandas.DataFrame, or another eager frame that river takes
            The examples' features.

        Returns
        -------
        pandas.DataFrame, or of the same library
            A column for every class so far.
        """
        rows = [self.predict_proba_one(x) for x in _rows(X)]
        columns = {label: np.array([row[label] for row in rows]) for label in self._labels}
        return dataframe.to_native_frame(columns, like=dataframe.into_frame(X))

    def to_sklearn(self) -> Any:
        """A copy of what was learned as an estimator of scikit-learn's kind.

        It takes rows of ``FeatureHasher(n_features)``, which may come before it in a Pipeline, can go on training by
        ``partial_fit``, and can be saved (`pegasos.save`), explained or averaged with others (`pegasos.merge`). Scores are the
        same; probabilities are learned as by ``partial_fit``, from all scores that are remembered, not from the later half.

        Returns
        -------
        pegasos.PegasosClassifier or pegasos.KernelPegasosClassifier
            The estimator, which learns on its own from here on.

        Raises
        ------
        ValueError
            If there was no example yet.
        """
        estimator = self._settled()
        if estimator is None:
            raise ValueError("there is no model before the first example")
        found = copy(estimator)
        found.calibration = self._method
        if self._notes is not None and self._notes.count:
            found._scored = self._notes.scored(self._notes.most)
        return found


def _of_x(error: BaseException) -> ValueError:
    """What is said of the first row of X, said of the one example that there is."""
    said = str(error).replace("X must", "x must").replace("row 0 makes", "it makes")
    return ValueError(f"{said}; scale the features (StandardScaler) or w")


def _rows(X: Any) -> list[dict[Any, Any]]:
    """The rows of a frame as dictionaries."""
    frame = dataframe.into_frame(X)
    names = frame.columns
    return [dict(zip(names, values, strict=True)) for values in frame.iter_rows()]


class PegasosClassifier(_StreamClassifier):
    """Linear support vector machine or logistic regression, trained by Pegasos on a stream.

    With ``w`` the weights of ``n_features`` columns, it takes for each example a step against the gradient of ::

        alpha/2 ||w||^2 + loss(y <w, x>)

    of length ``1/(alpha t)``, where ``loss(m)`` is ``max(0, 1 - m)`` (hinge) or ``log(1 + exp(-m))``.

    Parameters
    ----------
    loss : {"hinge", "log_loss"}, default="hinge"
        "hinge" is the papers' support vector machine; more than two classes are trained jointly, with the loss of Crammer
        and Singer. "log_loss" is logistic regression, one class against the rest, with probabilities of its own.
    alpha : float, default=0.01
        Strength of the regularisation, > 0: the papers' lambda. The larger, the shorter the steps.
    half_life : float or None, default=None
        For streams that drift: the weight that an example has for the model halves every so many examples, > 0. None: all
        count alike.
    fit_intercept : bool, default=True
        Whether to learn an intercept: the weight of a constant feature of 1, regularised like the others.
    calibration : {"sigmoid", "temperature", "isotonic"} or None, default="sigmoid"
        How probabilities are made of the scores of ``loss="hinge"``: by a map that is learned from the scores that examples
        had before they were learned from, those of the later half of the stream, the last 8192 at most; anew when there are
        a tenth more. None: there are none.
    n_features : int, default=2**18
        How many columns names are hashed to, 1 to 2**31 - 1: 8 bytes for each score and column. Names that meet in one
        share its weight.

    See Also
    --------
    pegasos.PegasosClassifier : The same machine for matrices, which says what ``alpha`` and ``half_life`` do in detail.
    KernelPegasosClassifier : With a kernel, for classes that no line divides.

    Notes
    -----
    Time for an example of k features: O(k) hashes and O(k log k) to sort the columns, and O(k) for each score that moves.
    Memory: 8 n_features bytes a score (one for two classes, else one for each class), and the scores that probabilities are
    learned from. A class that joins takes O(n_features).

    A model that has met one class alone says that class and learns nothing: there is nobody to tell it from. As river's own, a
    model is for one thread at a time while it learns.

    Values should be of one size, near 1: put ``preprocessing.StandardScaler()`` before it.

    References
    ----------
    S. Shalev-Shwartz, Y. Singer, N. Srebro, A. Cotter. "Pegasos: primal estimated sub-gradient solver for SVM."
    Mathematical Programming 127 (2011).

    K. Weinberger, A. Dasgupta, J. Langford, A. Smola, J. Attenberg. "Feature hashing for large scale multitask learning."
    ICML 2009.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics, preprocessing
    >>> from pegasos.river import PegasosClassifier
    >>> model = preprocessing.StandardScaler() | PegasosClassifier()
    >>> accuracy = evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    >>> bool(accuracy.get() > 0.8)
    True
    """

    def __init__(
        self,
        loss: Literal["hinge", "log_loss"] = "hinge",
        alpha: float = 0.01,
        half_life: float | None = None,
        fit_intercept: bool = True,
        calibration: Calibrated = "sigmoid",
        n_features: int = 2**18,
    ) -> None:
        self.loss = loss
        self.alpha = alpha
        self.half_life = half_life
        self.fit_intercept = fit_intercept
        self.calibration = calibration
        self.n_features = n_features
        if loss not in ("hinge", "log_loss"):
            raise ValueError(f"loss must be 'hinge' or 'log_loss', got {loss!r}")
        if isinstance(fit_intercept, str):
            raise ValueError(f"fit_intercept must be True or False, got {fit_intercept!r}")
        self._begin()

    def _make(self, x: Mapping[Any, Any]) -> _PegasosBase:
        return _linear.PegasosClassifier(
            self.loss,
            alpha=self.alpha,
            half_life=self.half_life,
            fit_intercept=self.fit_intercept,
            multi_class="crammer_singer" if self.loss == "hinge" else "ovr",
            sampling="storage",
            n_jobs=1,
        )


class KernelPegasosClassifier(_StreamClassifier):
    """Support vector machine with a kernel and a budget of support vectors, trained by Pegasos on a stream.

    Time and memory for an example stay the same however long the stream: there are never more than ``budget`` support
    vectors. When there is one too many, two become one, or one goes.

    Parameters
    ----------
    kernel : {"rbf", "poly", "sigmoid"}, default="rbf"
        "rbf" is ``exp(-gamma ||x - z||^2)``, "poly" ``(gamma <x, z> + coef0)^degree``, "sigmoid" ``tanh(gamma <x, z> + coef0)``.
    gamma : float or "auto", default="auto"
        The kernel's width, > 0. "auto" is 1 over the number of features of the first example, which suits features of
        variance 1.
    degree : int, default=3
        Of the "poly" kernel, >= 0.
    coef0 : float, default=0.0
        Of the "poly" and "sigmoid" kernels.
    alpha : float, default=0.01
        Strength of the regularisation, > 0: the papers' lambda.
    budget : int, default=100
        The most support vectors there may ever be: the papers' B.
    maintenance : {"auto", "merge", "project", "remove", "random"}, default="auto"
        What happens when there is one too many. "auto" is "merge" for ``kernel="rbf"``, "project" for others and for more
        than 4096 columns.
    half_life : float or None, default=None
        For streams that drift: the weight that an example has for the model halves every so many examples, > 0. None: all
        count alike.
    calibration : {"sigmoid", "temperature", "isotonic"} or None, default="sigmoid"
        How probabilities are made of scores: by a map that is learned from the scores that examples had before they were
        learned from, those of the later half of the stream, the last 8192 at most; anew when there are a tenth more. None:
        there are none.
    n_features : int, default=2**13
        How many columns names are hashed to, 1 to 2**31 - 1. Names that meet in one are one feature.

    See Also
    --------
    pegasos.KernelPegasosClassifier : The same machine for matrices, which says what the parameters do in detail.
    PegasosClassifier : Without a kernel, and far faster.

    Notes
    -----
    Support vectors of more than 4096 columns are stored sparse, and an example of k features costs O(B k + n_features);
    others are stored whole, and it costs O(B n_features). Where it becomes a support vector, O(B classes + n_features)
    more, or O(B^2) for "project". Memory: of as many numbers, and B^2 for "merge" and "project".

    More than two classes are trained jointly, with the loss of Crammer and Singer. The last iterate predicts. As river's own, a
    model is for one thread at a time while it learns.

    References
    ----------
    Z. Wang, K. Crammer, S. Vucetic. "Multi-class Pegasos on a budget." ICML 2010.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics, preprocessing
    >>> from pegasos.river import KernelPegasosClassifier
    >>> model = preprocessing.StandardScaler() | KernelPegasosClassifier()
    >>> accuracy = evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    >>> bool(accuracy.get() > 0.8)
    True
    """

    def __init__(
        self,
        kernel: Literal["rbf", "poly", "sigmoid"] = "rbf",
        gamma: float | Literal["auto"] = "auto",
        degree: int = 3,
        coef0: float = 0.0,
        alpha: float = 0.01,
        budget: int = 100,
        maintenance: Maintenance = "auto",
        half_life: float | None = None,
        calibration: Calibrated = "sigmoid",
        n_features: int = 2**13,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.alpha = alpha
        self.budget = budget
        self.maintenance = maintenance
        self.half_life = half_life
        self.calibration = calibration
        self.n_features = n_features
        if kernel not in ("rbf", "poly", "sigmoid"):
            raise ValueError(f"kernel must be 'rbf', 'poly' or 'sigmoid', got {kernel!r}")
        if not isinstance(budget, Integral):
            raise ValueError(f"budget must be an int >= 1, got {budget!r}")
        if isinstance(gamma, str) and gamma != "auto":
            raise ValueError(f"gamma must be 'auto' or a number > 0, got {gamma!r}")
        self._begin()
        self._make({})._room.check_kernel()

    def _make(self, x: Mapping[Any, Any]) -> _kernel.KernelPegasosClassifier:
        return _kernel.KernelPegasosClassifier(
            self.kernel,
            gamma=1.0 / max(1, len(x)) if self.gamma == "auto" else self.gamma,
            degree=self.degree,
            coef0=self.coef0,
            alpha=self.alpha,
            budget=self.budget,
            maintenance=self.maintenance,
            average=False,
            half_life=self.half_life,
            multi_class="crammer_singer",
            sampling="storage",
            random_state=0,
            n_jobs=1,
        )
