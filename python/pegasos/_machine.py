"""What every kernel machine shares: kernels, support vectors, predictions."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.sparse import csr_matrix, issparse
from sklearn.utils import assert_all_finite
from sklearn.utils.validation import check_is_fitted, check_random_state

from pegasos._base import _PegasosBase, refuse_changes
from pegasos._core import Trainer
from pegasos._data import Data, as_data, explaining, read_only, validated
from pegasos._run import Run
from pegasos._steps import half_life
from pegasos._threads import thread_count
from pegasos._types import Width, available_if, checked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self


#: Scores of pairs that are looked at at a time: there may be many for each row, and nobody keeps them.
_AT_ONCE = 2**22

#: The feature whose weight is the intercept. It is regularised: in cross-validation on shells around a centre, where it
#: matters most, 1 was 1.2 points below SVC, whose intercept is not, 3 and more 0.1 and less; 10 took half as long again.
CONSTANT = 3.0


class Exported:
    """The arrays of a trainer, exported when first asked for."""

    def __init__(
        self, trainer: Trainer, n_features: int, sparse: bool, outputs: int
    ) -> None:
        self.trainer, self.n_features, self.sparse = trainer, n_features, sparse
        self.outputs = outputs

    def __reduce__(self) -> tuple[Any, ...]:
        # Without what was asked for: all coefficients may be far more than the trainer holds.
        return Exported, (self.trainer, self.n_features, self.sparse, self.outputs)

    @cached_property
    def _told(self) -> tuple[csr_matrix, np.ndarray | None, np.ndarray | None]:
        indptr, outputs, coefs, rows, counts = self.trainer.result()
        coefs = read_only(coefs.astype(self.trainer.made.dtype))
        return csr_matrix((coefs, outputs, indptr), shape=(len(indptr) - 1, self.outputs)), rows, counts

    @property
    def sparse_coefs(self) -> csr_matrix:
        """The coefficients that are not 0, (n_sv, outputs)."""
        return self._told[0]

    @cached_property
    def coefs(self) -> np.ndarray:
        """All coefficients, (outputs, n_sv)."""
        return read_only(self.sparse_coefs.toarray().T)

    @property
    def rows(self) -> np.ndarray | None:
        """The numbers of the rows that the vectors are, where they are known."""
        return self._told[1]

    @property
    def counts(self) -> np.ndarray | None:
        """How often each has violated the margin, where that is known."""
        return self._told[2]

    @cached_property
    def vectors(self) -> Any:
        indptr, indices, values = self.trainer.vectors()
        matrix = csr_matrix((values, indices, indptr), shape=(len(indptr) - 1, self.n_features))
        return matrix if self.sparse else matrix.toarray()

    @cached_property
    def weights(self) -> Any:
        """Weights of the features, (outputs, n_features), for scores that are linear in them."""
        # By SciPy, whose sums are the same on any number of threads.
        return self.sparse_coefs.T.tocsr() @ self.vectors


def _knows_pairs(trainer: Trainer) -> bool:
    """Whether its scores are those of pairs of classes."""
    made = trainer.made
    return made.classes > 2 and made.params.get("multi_class") == "ovo"


def n_outputs(trainer: Trainer) -> int:
    """How many scores a row has."""
    classes = trainer.made.classes
    if _knows_pairs(trainer):
        return classes * (classes - 1) // 2
    return 1 if classes == 2 else classes


def variance_by_norms(data: Data) -> float:
    """The variance of all numbers, those that are not stored too: less exact than by differences, and no copy is made."""
    X = data.X
    size = float(X.shape[0]) * X.shape[1]
    squares = float(data.norms().sum()) / size
    mean = float((X.data[: X.indptr[-1]] if issparse(X) else X).sum(dtype=np.float64)) / size
    return squares - mean * mean


def votes_of_pairs(scores: np.ndarray, n_classes: int) -> np.ndarray:
    """Scores of classes, (n, n_classes), given those of pairs: votes, and a fraction that breaks ties, as in ``SVC``."""
    votes, sums = np.zeros((2, len(scores), n_classes))
    start = 0
    for first in range(n_classes - 1):
        # Those of a class with all that come after it.
        own = scores[:, start : start + n_classes - 1 - first]
        start += own.shape[1]
        won = own >= 0
        votes[:, first] += won.sum(axis=1)
        votes[:, first + 1 :] += ~won
        sums[:, first] += own.sum(axis=1, dtype=np.float64)
        sums[:, first + 1 :] -= own
    # A third at most, which no vote is outweighed by.
    found: np.ndarray = (votes + sums / (3.0 * (np.abs(sums) + 1.0))).astype(scores.dtype)
    return found


def _goes_on(estimator: Any) -> bool:
    if not isinstance(estimator.kernel, str) or estimator.kernel == "precomputed":
        raise AttributeError(
            f"partial_fit needs the features of support vectors, got kernel={estimator.kernel!r}"
        )
    return True


class KernelMachine(_PegasosBase):
    """A sum of kernel functions around support vectors, for every class."""

    #: What a trainer's coefficients mean: parameters that must stay while training goes on.
    _structure: tuple[str, ...]
    #: The others that a trainer is made with.
    _training: tuple[str, ...]

    kernel: Any
    gamma: Width
    degree: int
    coef0: float
    _gamma: float
    _exported: Exported
    _made_with: dict[str, Any]

    # What linear models choose.
    _fixed: ClassVar[dict[str, Any]] = {
        "loss": "hinge",
        "learning_rate": "pegasos",
        "early_stopping": False,
        "shards": 1,
    }

    @checked
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on all of the examples.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features) or (n_samples, n_samples)
            The examples' features; their kernel values where these are precomputed.
        y : array-like of shape (n_samples,)
            Their classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Their weights, finite, >= 0 and not all 0; ones by default.

        Returns
        -------
        self : object
            The fitted estimator. After Ctrl-C it holds what was learned until then.

        Raises
        ------
        ValueError
            If an argument or a parameter is not as described. The estimator is as it was before.
        MemoryError
            If there is not enough memory. The estimator is as it was before.
        """
        with self._all_or_nothing() as twin:
            twin._fit(X, y, sample_weight)
        return self

    @available_if(_goes_on)
    @checked
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Visit these examples once, going on from where training is.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The examples' features. The first call decides the dtype.
        y : array-like of shape (n_samples,)
            Their classes.
        classes : array-like of shape (n_classes,), default=None
            All classes that may come. Who names them to the first call is protected from slips: a y of no class that was
            named is an error. A later call may name more, which join; those of ``fit`` count as named. None to the
            first call takes what comes: a class that nobody has named joins with its first example, and one that comes
            alone waits, untold from anything, for a second. What joins begins at 0: docs/online.md has more.
        sample_weight : array-like of shape (n_samples,), default=None
            Their weights, finite, >= 0 and not all 0; ones by default.

        Returns
        -------
        self : object
            The estimator, ``n_samples`` examples wiser.

        Raises
        ------
        ValueError
            If an argument or a parameter is not as described, or the numbers would overflow. Nothing was learned
            then: bad batches are refused before the first step, or what was learned from them is undone.
        MemoryError
            If there is not enough memory for more support vectors. The steps before it stand, ``t_`` says how many.
        """
        with self._all_or_nothing() as twin:
            twin._partial_fit(X, y, classes, sample_weight)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of the classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features) or (n_samples, n_fitted)
            The examples' features; their kernel values with the rows of ``fit`` where these are
            precomputed.

        Returns
        -------
        ndarray of shape (n_samples,), (n_samples, n_classes) or (n_samples, n_pairs)
            Of two classes, one score, > 0 for the second. Of pairs with ``decision_function_shape="ovo"`` a score for
            each, else votes for the classes, and a fraction that breaks ties.

        Raises
        ------
        ValueError
            If X is not as described, or a score overflows.
        """
        return self._all_scores(X) if self._choice("decision_function_shape") == "ovo" else self._class_scores(X)

    def _all_scores(self, X: Any) -> np.ndarray:
        [scores] = self._scores_in_windows(X, None)
        return scores

    def _class_scores(self, X: Any) -> np.ndarray:
        """The scores of the classes, or of the one problem that there is."""
        parts = [self._votes(scores, self._trainer) for scores in self._scores_in_windows(X, _AT_ONCE)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _scores_in_windows(self, X: Any, most: int | None) -> Iterator[np.ndarray]:
        """The scores of all problems, of about so many scores' rows at a time where they are those of pairs."""
        check_is_fitted(self)
        dtype = np.dtype(self._trainer.made.dtype)
        X = validated(self, X, dtype=dtype, reset=False, finite=True)
        n = X.shape[0]
        window = n if most is None or not self._scores_pairs else max(1, most // n_outputs(self._trainer))
        with explaining(X, self):
            for start in range(0, n, window):
                yield self._scores_of_rows(X if window >= n else X[start : start + window])

    def _scores_of_rows(self, X: Any) -> np.ndarray:
        """The scores of rows as users have them."""
        return self._scores(self._trainer, X)

    @property
    def _scores_pairs(self) -> bool:
        return _knows_pairs(self._trainer)

    def predict(self, X: Any) -> np.ndarray:
        """The class with the highest score, for each example.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features) or (n_samples, n_fitted)
            As for ``decision_function``.

        Returns
        -------
        ndarray of shape (n_samples,)
            The classes.
        """
        scores = self._class_scores(X)
        codes = scores.argmax(axis=1) if scores.ndim == 2 else (scores > 0).astype(np.intp)
        return self.classes_[codes]

    @property
    def support_vectors_(self) -> Any:
        """The support vectors, (n_sv, n_features)."""
        return self._arrays().vectors

    @property
    def dual_coef_(self) -> np.ndarray:
        """Their coefficients, (1, n_sv), (n_classes, n_sv) or (n_pairs, n_sv)."""
        return self._arrays().coefs

    @property
    def coef_(self) -> Any:
        """Weights of the features, (1, n_features), (n_classes, n_features) or (n_pairs, n_features); of the linear kernel."""
        arrays, kernel = self._arrays(), self._made_with["kernel"]
        if not (isinstance(kernel, str) and kernel == "linear"):
            raise AttributeError(f"coef_ is there only with kernel='linear', got kernel={kernel!r}")
        return arrays.weights

    @property
    def n_support_(self) -> np.ndarray:
        """For how many of them each class has the largest coefficient, (n_classes,)."""
        if _knows_pairs(self._trainer):
            # Of a pair, what speaks for the first speaks against the second.
            own, n_classes = self._arrays().sparse_coefs.tocoo(), len(self.classes_)
            first, second = (of[own.col] for of in np.triu_indices(n_classes, 1))
            places = np.concatenate([own.row * n_classes + first, own.row * n_classes + second])
            sums = np.bincount(places, np.concatenate([own.data, -own.data]), own.shape[0] * n_classes)
            coefs = sums.reshape(-1, n_classes).T
        else:
            coefs = self.dual_coef_
        codes = (coefs[0] > 0).astype(int) if len(coefs) == 1 else coefs.argmax(axis=0)
        return np.bincount(codes, minlength=len(self.classes_)).astype(np.int32)

    def _arrays(self) -> Exported:
        check_is_fitted(self)
        return self._exported

    def _export(self) -> None:
        sparse = issparse(getattr(self, "_fitted_X", None)) or self._trainer.made.sparse
        made = self._trainer.made
        self._exported = Exported(self._trainer, made.n_features, sparse, n_outputs(self._trainer))

    def _votes(self, scores: np.ndarray, trainer: Trainer) -> np.ndarray:
        """Scores of classes, given those that a trainer knows: of pairs how many vote for each, as in ``SVC``."""
        return votes_of_pairs(scores, trainer.made.classes) if _knows_pairs(trainer) else scores

    # -- training

    def _scores(self, trainer: Trainer, X: Any) -> np.ndarray:
        flat = trainer.scores(as_data(X).examples, threads=thread_count(self.n_jobs))
        scores = flat.reshape(X.shape[0], -1).astype(trainer.made.dtype, copy=False)
        return scores.ravel() if scores.shape[1] == 1 else scores

    def _make_trainer(self, data: Data, n_classes: int) -> Trainer:
        if n_classes < 2:
            raise ValueError(
                f"y must hold at least two classes to tell apart, got {n_classes} class"
            )
        self._gamma = self._width(data)
        random = check_random_state(self.random_state)
        seed = int(random.randint(np.iinfo(np.int64).max, dtype=np.int64))
        return Trainer.kernel(
            self._bounded,
            self._kernel_features(data),
            issparse(data.X),
            n_classes,
            data.X.dtype.name,
            self._params(data) | {"seed": seed},
        )

    def _of_fold(self) -> Any:
        model = super()._of_fold()
        if isinstance(self.gamma, str) and getattr(self, "metric", "plain") == "plain":
            # That of all rows, as in the fit.
            model.set_params(gamma=self._gamma)
        return model

    def _hold_out(
        self, trainer: Trainer, codes: np.ndarray, classes: np.ndarray, weight: np.ndarray | None, seed: int
    ) -> None:
        # What is learned of the rows before, or in an order of their own, is learned of all.
        if self._bounded or self._choice("metric") != "plain" or not isinstance(self.sampling, str):
            return
        n, keeps_c = len(codes), isinstance(self.alpha, str)
        folds, times = np.zeros(n, np.uint32), []
        for k, (train, test) in enumerate(self._folds(codes, classes, weight, seed, pairs=_knows_pairs(trainer))):
            folds[test] = k
            # As in a fit of the others alone.
            times.append(1.0 if keeps_c else n / len(train))
        trainer.hold_out(folds, times)

    def _kernel_features(self, data: Data) -> int:
        """How many features rows have for the kernel."""
        return int(data.X.shape[1])

    @property
    @abstractmethod
    def _bounded(self) -> bool:
        """Whether the compiled trainer is one whose support vectors are bounded in number."""

    @property
    def _kind(self) -> str:
        """What the compiled half calls such a trainer."""
        return "budget" if self._bounded else "kernel"

    def _resume_trainer(self, data: Data) -> Trainer:
        now = self._chosen()
        refuse_changes(self._structure, self._made_with, now, "coefficients")
        trainer: Trainer = self._trainer
        if now == self._made_with:
            return trainer
        parts = trainer.parts()
        before = parts["params"]
        parts["params"] = self._params(data) | {"seed": before["seed"], "ahead": before.get("ahead", 0.0)}
        if now["average"] == self._made_with["average"]:
            parts["params"]["average_from"] = before["average_from"]
        else:
            # Another kind of mean begins here.
            parts.update(u=np.empty(0), sum_a=0.0, sum_q=0.0)
            first = parts["params"]["average_from"]
            parts["params"]["average_from"] = max(first, trainer.facts.t + 1)
        return Trainer.from_parts(parts)

    def _chosen(self) -> dict[str, Any]:
        """The parameters that a trainer is made with."""
        chosen = {name: self._choice(name) for name in (*self._structure, *self._training)}
        return chosen | {"average": self._averaging()}

    def _averaging(self) -> tuple[str, int]:
        if isinstance(self.average, bool | np.bool_) and self.average:
            return "recent", 1
        return super()._averaging()

    def _width(self, data: Data) -> float:
        """The kernel's gamma."""
        return self._width_of(self.gamma, data)

    def _width_of(self, gamma: str | float, data: Data) -> float:
        """What a gamma means for such rows."""
        X = data.X
        if not isinstance(gamma, str):
            return float(gamma)
        if callable(self.kernel) or self.kernel in ("precomputed", "linear"):
            return 1.0
        if gamma == "auto":
            return 1.0 / X.shape[1]
        with np.errstate(all="ignore"):
            variance = variance_by_norms(data) if issparse(X) else float(X.var(dtype=np.float64))
            width = 1.0 / (X.shape[1] * variance) if variance > 0.0 else 1.0
        if not (np.isfinite(variance) and np.isfinite(width)):
            assert_all_finite(X.data if issparse(X) else X, input_name="X")
            raise ValueError(
                "X must be of a scale whose variance is finite, and so is 1 over it; scale the features (StandardScaler)"
            )
        return width

    def _params(self, data: Data) -> dict[str, Any]:
        """The parameters as the compiled half takes them."""
        average, average_from = self._averaging()
        weight = data.weight
        mean_weight = 1.0 if weight is None else float(weight.mean())
        return {
            "kernel": self.kernel if isinstance(self.kernel, str) else "precomputed",
            "gamma": self._gamma,
            "coef0": float(self.coef0),
            "degree": int(self.degree),
            "alpha": float(self._choice("alpha")),
            "constant": CONSTANT if self._choice("fit_intercept") else 0.0,
            "projection": mean_weight if self._choice("projection") else None,
            "batch_size": int(self._choice("batch_size")),
            "average": average,
            "average_from": average_from,
            "half_life": half_life(self),
            "threshold": float(self._choice("threshold")),
            "margin": bool(self._choice("margin")),
            "multi_class": self._choice("multi_class"),
        }

    def _extra(self) -> dict[str, Any]:
        """What a file must hold beside parameters, attributes and trainer."""
        return {"gamma": self._gamma}

    def _check_restored(self, extra: dict[str, Any]) -> None:
        self._gamma = float(extra["gamma"])
        if not np.isfinite(self._arrays().sparse_coefs.data).all():
            raise ValueError("the coefficients must be finite")
        want, found = self._mapped_features(), self._trainer.made.n_features
        if found != want:
            raise ValueError(f"support vectors must have {want} features, got {found}")

    def _mapped_features(self) -> int:
        """How many features rows have for the kernel."""
        return self.n_features_in_

    def _note(self, run: Run, classes: np.ndarray) -> None:
        super()._note(run, classes)
        self._made_with = self._chosen()
