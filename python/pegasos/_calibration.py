"""From scores to probabilities.

What maps scores to probabilities is learned from scores of examples that the model had not learned from: in `fit` those
that models of other folds give, in a stream those that each example had before it was learned from.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.isotonic import IsotonicRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import check_is_fitted

from pegasos._callbacks import unwatched
from pegasos._data import validated
from pegasos._types import available_if

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pegasos._core import Trainer

#: The ways there are.
METHODS = ("sigmoid", "temperature", "isotonic")

#: In how many folds `fit` looks for scores, at most; and where each score tells two classes apart. Three of these, as Platt
#: (1999) took, are half the work, and enough: in trials on 13 problems the log loss on test rows was at most 0.002 above that
#: with five by "sigmoid" and "temperature", 0.004 by "isotonic", and 0.008 below it on the smallest. Scores of classes that
#: are compared depend more on how many rows there are: of letter, learned jointly, "sigmoid" lost 0.03.
FOLDS, FOLDS_OF_TWO = 5, 3

#: How many scored examples of a stream are remembered: so many at most, or as many as have so many scores.
_MOST_ROWS = 8192
_MOST_SCORES = 2**20

#: And so many in any case.
_FEWEST_ROWS = 64

#: The largest inverse temperature, of scores whose largest is 1; and how well it shall be known.
_COLDEST, _CLOSE = 1e7, 1e-5

#: Steps of Newton's method for Platt's sigmoid, the mean slope that is none, a ridge so that there always is a step, and
#: the shortest step.
_STEPS, _FLAT, _RIDGE, _SHORTEST = 100, 1e-7, 1e-12, 1e-10

#: No pair of classes is surer than this: beyond it the equations of all pairs have no digits left.
_SUREST = 1e-6

#: Rows whose pairs are coupled at a time.
_COUPLED = 1024


class Calibration:
    """A map from scores to probabilities of classes.

    "sigmoid" is Platt's: of each score ``1/(1 + exp(a score + b))``. "isotonic" is the rising step function that fits best.
    Of several classes these are made for each class against the others and scaled to a sum of 1. "temperature" divides all
    scores by one number, and takes the logistic function of one, of several the softmax: what is largest stays largest.
    Where scores are those of ``pairs`` of classes, each becomes a probability, and these are coupled.
    """

    def __init__(self, method: str, n_classes: int, pairs: bool, parts: list[np.ndarray]) -> None:
        self.method, self.n_classes, self.pairs, self.parts = method, n_classes, pairs, parts

    @classmethod
    def of(
        cls,
        method: str,
        scores: np.ndarray,
        codes: np.ndarray,
        n_classes: int,
        weight: np.ndarray | None = None,
        *,
        pairs: bool = False,
    ) -> Calibration:
        """Learned from scores, (n,), (n, n_classes) or (n, n_pairs), of examples of these classes, by number."""
        scores = _table(scores)
        weight = np.ones(len(codes)) if weight is None else weight
        seen = weight > 0
        if not seen.all():
            scores, codes, weight = scores[seen], codes[seen], weight[seen]
        columns = list(_columns(scores, codes, n_classes, pairs))
        if method == "temperature":
            if n_classes > 2 and not pairs:
                beta = _inverse_temperature(scores, codes, weight)
            else:
                # A score and its negative are those of two classes.
                both = np.concatenate([column for column, _, _ in columns])[:, None] * [-0.5, 0.5]
                positive = np.concatenate([positive for _, positive, _ in columns])
                beta = _inverse_temperature(both, positive.astype(int), np.concatenate([weight[own] for *_, own in columns]))
            return cls(method, n_classes, pairs, [np.array([beta])])
        learn = _sigmoid if method == "sigmoid" else _steps
        return cls(method, n_classes, pairs, [learn(column, positive, weight[own]) for column, positive, own in columns])

    @classmethod
    def of_log_loss(cls, n_classes: int) -> Calibration:
        """That of a log loss, whose scores are log odds."""
        outputs = 1 if n_classes == 2 else n_classes
        return cls("sigmoid", n_classes, False, [np.array([-1.0, 0.0])] * outputs)

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """The probabilities of the classes, (n, n_classes), of examples with these scores."""
        scores = _table(scores)
        if self.method == "temperature":
            with np.errstate(over="ignore"):
                scores = np.clip(scores * self.parts[0][0], -_STEEPEST, _STEEPEST)
            if self.n_classes > 2 and not self.pairs:
                return softmax(scores, axis=1)
            columns = expit(scores)
        elif self.method == "sigmoid":
            a, b = np.array(self.parts).T
            # In place, as are the sums below: of many classes it is the memory that takes the time.
            with np.errstate(over="ignore"):
                columns = a * scores
                columns += b
            expit(np.negative(columns, out=columns), out=columns)
        else:
            each = zip(scores.T, self.parts, strict=True)
            columns = np.stack([np.interp(column, *steps) for column, steps in each], axis=1)
        if self.n_classes == 2:
            return np.hstack([1.0 - columns, columns])
        if self.pairs:
            return _coupled(columns, self.n_classes)
        total = columns.sum(axis=1, keepdims=True)
        nothing = ~(total[:, 0] > 0.0)
        columns[nothing], total[nothing] = 1.0, self.n_classes
        columns /= total
        return columns

    def state(self) -> dict[str, Any]:
        """What a file needs."""
        return {"method": self.method, "parts": list(self.parts)}

    @classmethod
    def restored(cls, state: dict[str, Any], n_classes: int, outputs: int, *, pairs: bool) -> Calibration:
        """What `state` told of; refuses what cannot be."""
        method, parts = state["method"], state["parts"]
        sound = method in METHODS and len(parts) == (1 if method == "temperature" else outputs)
        for part in parts:
            sound = sound and isinstance(part, np.ndarray) and part.dtype == np.float64
            if sound and method == "isotonic":
                sound = part.ndim == 2 and len(part) == 2 and part.shape[1] > 0
                rising = bool(sound and (np.diff(part) >= 0.0).all())
                sound = rising and bool((part[1] >= 0.0).all() and (part[1] <= 1.0).all())
            elif sound:
                sound = part.shape == ((1,) if method == "temperature" else (2,))
        if not sound:
            raise ValueError(f"its calibration by {method!r} does not belong to {outputs} scores")
        return cls(method, n_classes, pairs, parts)


#: The steepest slope of a sigmoid, and the largest inverse temperature.
_STEEPEST = 1e300


def _table(scores: Any) -> np.ndarray:
    """Scores with a column for each problem, of no row too."""
    found = np.asarray(scores, np.float64)
    return found[:, None] if found.ndim == 1 else found


def _columns(
    scores: np.ndarray, codes: np.ndarray, n_classes: int, pairs: bool
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Each column of scores, of the examples that it is about; whether they are those that it speaks for, and which they are."""
    everybody = np.arange(len(codes))
    if n_classes == 2:
        yield scores[:, 0], codes == 1, everybody
    elif pairs:
        for column, first, second in zip(scores.T, *np.triu_indices(n_classes, 1), strict=True):
            own = np.flatnonzero((codes == first) | (codes == second))
            yield column[own], codes[own] == first, own
    else:
        for k, column in enumerate(scores.T):
            yield column, codes == k, everybody


def _sigmoid(scores: np.ndarray, positive: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Platt's a and b, by Newton's method: H.-T. Lin, C.-J. Lin, R. Weng (Machine Learning 68, 2007), algorithm 1.

    Not by scikit-learn's, whose general minimiser takes a hundred times as long on a few thousand rows.
    """
    total = weight.sum()
    if not total > 0.0:
        return np.zeros(2)
    for_it = float(weight[positive].sum())
    against = float(total) - for_it
    # A little short of certain, or scores that are never wrong would be as certain as can be.
    aim = np.where(positive, (for_it + 1.0) / (for_it + 2.0), 1.0 / (against + 2.0))
    size = float(abs(scores).max(initial=0.0)) or 1.0
    scaled = scores / -size

    def look(found: np.ndarray) -> tuple[float, np.ndarray]:
        """The surprise there, and the probabilities, of the same exponentials."""
        margin = found[0] * scaled - found[1]
        e = np.exp(-abs(margin))
        surprise = np.maximum(margin, 0.0) + np.log1p(e) - aim * margin
        return float(weight @ surprise), np.where(margin > 0.0, 1.0, e) / (1.0 + e)

    found = np.array([0.0, np.log((against + 1.0) / (for_it + 1.0))])
    value, p = look(found)
    for _ in range(_STEPS):
        error = weight * (p - aim)
        slope = np.array([error @ scaled, -error.sum()])
        if abs(slope).max() <= _FLAT * total:
            break
        doubt = weight * (p * (1.0 - p))
        both = -float(doubt @ scaled)
        bend = np.array([[doubt @ scaled**2, both], [both, doubt.sum()]])
        bend[np.diag_indices(2)] += _RIDGE * total
        direction = -np.linalg.solve(bend, slope)
        step = 1.0
        while step > _SHORTEST:
            there, p = look(found + step * direction)
            if there <= value + 1e-4 * step * float(slope @ direction):
                break
            step /= 2.0
        else:
            break
        found, value = found + step * direction, there
    # Of scores that all but vanish the slope is as steep as numbers are.
    with np.errstate(over="ignore"):
        a, b = found / [size, 1.0]
    return np.array([np.clip(a, -_STEEPEST, _STEEPEST), b])


def _steps(scores: np.ndarray, positive: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The thresholds of the rising step function that fits best, and its values there."""
    if not len(scores):
        return np.array([[0.0], [0.5]])
    fit = IsotonicRegression(out_of_bounds="clip").fit(scores, positive.astype(float), weight)
    # Nothing is certain because so many examples were alike.
    doubt = 1.0 / (len(scores) + 2)
    return np.array([fit.X_thresholds_, np.clip(fit.y_thresholds_, doubt, 1.0 - doubt)])


def _inverse_temperature(scores: np.ndarray, codes: np.ndarray, weight: np.ndarray) -> float:
    """The factor of the scores whose softmax is likeliest.

    Targets are Platt's, a little short of certain: else scores that are never wrong would be as certain as can be.
    """
    n, k = scores.shape
    size = float(abs(scores).max(initial=0.0))
    if size == 0.0:
        return 0.0
    scores = scores / size
    doubt = 1.0 / (n + k)
    own = scores[np.arange(n), codes]
    aim = (1.0 - k * doubt) * own + doubt * scores.sum(axis=1)

    # The mean surprise is convex in beta: where its slope is 0, between bounds that Newton's steps draw together.
    low, high, beta = 0.0, _COLDEST, 1.0
    weight = weight / weight.sum()
    for _ in range(_STEPS):
        p = softmax(beta * scores, axis=1)
        mean = (p * scores).sum(axis=1)
        slope = float(weight @ (mean - aim))
        low, high = (low, beta) if slope > 0.0 else (beta, high)
        bend = float(weight @ ((p * scores**2).sum(axis=1) - mean**2))
        there = beta - slope / bend if bend > 0.0 else high
        if not low < there < high:
            there = (low + high) / 2.0 if high < _COLDEST else min(4.0 * beta, _COLDEST)
        if abs(there - beta) <= _CLOSE * beta:
            break
        beta = there
    # Of scores that all but vanish.
    return min(beta / size, _STEEPEST)


def _coupled(pairs: np.ndarray, n_classes: int) -> np.ndarray:
    """Probabilities of classes, given for each pair that of the first: T.-F. Wu, C.-J. Lin, R. Weng (JMLR 2004), eq. 21."""
    first, second = np.triu_indices(n_classes, 1)
    found = np.empty((len(pairs), n_classes))
    right = np.zeros(n_classes + 1)
    right[-1] = 1.0
    for start in range(0, len(pairs), _COUPLED):
        r = np.zeros((len(pairs[start : start + _COUPLED]), n_classes, n_classes))
        r[:, first, second] = np.clip(pairs[start : start + _COUPLED], _SUREST, 1.0 - _SUREST)
        r[:, second, first] = 1.0 - r[:, first, second]
        system = np.zeros((len(r), n_classes + 1, n_classes + 1))
        system[:, :-1, :-1] = -r * r.transpose(0, 2, 1)
        each = np.arange(n_classes)
        system[:, each, each] = (r**2).sum(axis=1)
        system[:, :-1, -1] = system[:, -1, :-1] = 1.0
        p = np.linalg.solve(system, np.broadcast_to(right, (len(r), n_classes + 1))[..., None])[:, :-1, 0]
        p = np.clip(p, 0.0, None)
        found[start : start + len(r)] = p / p.sum(axis=1, keepdims=True)
    return found


@dataclass(frozen=True)
class Scored:
    """The last examples of a stream whose scores were known before they were learned from."""

    scores: np.ndarray
    codes: np.ndarray
    weight: np.ndarray

    @classmethod
    def of(cls, scores: np.ndarray, codes: np.ndarray, weight: np.ndarray | None) -> Scored:
        """Some of these examples, no more than are remembered."""
        scores = np.asarray(scores, np.float64).reshape(len(codes), -1)
        # Evenly chosen, as rows may be sorted.
        which = np.linspace(0, len(codes) - 1, min(most_rows(scores.shape[1]), len(codes))).astype(int)
        weight = np.ones(len(codes)) if weight is None else np.asarray(weight, np.float64)
        return cls(scores[which], np.asarray(codes, np.int64)[which], weight[which])

    def and_then(self, later: Scored) -> Scored:
        """With examples that came later, and without those that are too old."""
        if later.scores.shape[1] != self.scores.shape[1]:
            return later  # Classes have joined.
        keep = max(0, most_rows(self.scores.shape[1]) - len(later.codes))
        first = max(0, len(self.codes) - keep)
        return Scored(
            np.concatenate([self.scores[first:], later.scores]),
            np.concatenate([self.codes[first:], later.codes]),
            np.concatenate([self.weight[first:], later.weight]),
        )


def weights_of(sample_weight: Any, n: int) -> np.ndarray | None:
    """The weight of each of n examples, where one number or n were given."""
    return None if sample_weight is None else np.broadcast_to(np.asarray(sample_weight, np.float64), (n,))


def counts_of(codes: np.ndarray, n_classes: int, weight: np.ndarray | None) -> np.ndarray:
    """How many examples of each class there are, of those with a weight > 0; of a class without such ones how many others."""
    counts = np.bincount(codes, minlength=n_classes)
    if weight is None:
        return counts
    counted = np.bincount(codes[weight > 0], minlength=n_classes)
    return np.where(counted > 0, counted, counts)


def _counted(codes: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """The numbers of the examples with a weight: nothing is learned of the others, and nothing from them."""
    return np.arange(len(codes)) if weight is None else np.flatnonzero(weight > 0)


def most_rows(n_scores: int) -> int:
    """How many examples with so many scores are remembered."""
    return min(_MOST_ROWS, max(_FEWEST_ROWS, _MOST_SCORES // n_scores))


def _has_probabilities(estimator: Any) -> bool:
    # That of the scores that there are, not one that was set since.
    made_with = estimator.__dict__.get("_made_with", {})
    loss = made_with.get("loss", getattr(estimator, "loss", "hinge"))
    if estimator.calibration is None and loss != "log_loss":
        raise AttributeError(
            f"probabilities need calibration={' or '.join(map(repr, METHODS))}, or a linear model with loss='log_loss'"
        )
    return True


class Probable(ABC):
    """An estimator whose scores can be turned into probabilities."""

    calibration: str | None
    sampling: Any
    _trainer: Any
    classes_: np.ndarray
    _calibration: Calibration
    _scored: Scored

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes, with ``calibration``, or of ``loss="log_loss"``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            As for ``decision_function``.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Each row sums to 1. Its largest entry is that of the class that ``predict`` names with
            ``calibration="temperature"``, unless classes are told apart by pairs, and without calibration. A "sigmoid" of
            two classes may have its 1/2 elsewhere than at a score of 0, and those of several may differ in slope.

        Raises
        ------
        NotFittedError
            If there are no scores to calibrate by: of a stream, before its second batch.

        Notes
        -----
        Time: that of ``decision_function``, and O(n_classes^3) a row where scores are those of pairs.
        """
        check_is_fitted(self)
        if len(self.classes_) == 1:
            # Of a stream that has met no other.
            return np.ones((len(self._all_scores(X)), 1))
        log_loss = self.calibration is None
        calibration = Calibration.of_log_loss(len(self.classes_)) if log_loss else self._calibrated()
        parts = [calibration.probabilities(scores) for scores in self._scores_in_windows(X, _MOST_SCORES)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of the probabilities of the classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            As for ``decision_function``.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            The logarithms of ``predict_proba(X)``.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    @abstractmethod
    def _all_scores(self, X: Any) -> np.ndarray:
        """The scores of all problems."""

    def _scores_in_windows(self, X: Any, most: int) -> Iterator[np.ndarray]:
        """The scores of all problems, of some rows at a time where there may be many more scores than ``most``."""
        yield self._all_scores(X)

    @property
    def _scores_pairs(self) -> bool:
        """Whether they are those of pairs of classes."""
        return False

    def _calibrated(self) -> Calibration:
        """What maps scores to probabilities, learned anew where there are others."""
        check_is_fitted(self)
        found: Calibration | None = self.__dict__.get("_calibration")
        if found is None or found.method != self.calibration:
            scored: Scored | None = self.__dict__.get("_scored")
            if scored is None or not scored.weight.any():
                raise NotFittedError(
                    f"calibration={self.calibration!r} has no scores to learn from: fit with it, or learn from one more "
                    "batch, as those of a first batch are all 0"
                )
            self._calibrate_by(scored.scores, scored.codes, scored.weight)
            found = self._calibration
        return found

    def _calibrate_by(self, scores: np.ndarray, codes: np.ndarray, weight: np.ndarray | None) -> None:
        """Learns from the scores of these examples; a stream that goes on remembers some of them."""
        assert self.calibration is not None
        self._scored = Scored.of(scores, codes, weight)
        self._calibration = Calibration.of(
            self.calibration, scores, codes, len(self.classes_), weight, pairs=self._scores_pairs
        )

    def _forget_scores(self) -> None:
        """Those of another model."""
        self.__dict__.pop("_scored", None)
        self.__dict__.pop("_calibration", None)

    def _note_scores(self, scores: np.ndarray, codes: np.ndarray, weight: np.ndarray | None) -> None:
        """Remembers what examples of a stream scored before they were learned from."""
        later = Scored.of(scores, codes, weight)
        before: Scored | None = self.__dict__.get("_scored")
        self._scored = later if before is None else before.and_then(later)
        self.__dict__.pop("_calibration", None)

    def _of_fold(self) -> Any:
        """An estimator like this one, for the rows of a fold."""
        return unwatched(clone(self)).set_params(calibration=None, verbose=0, warm_start=False)

    def _fewest(self, codes: np.ndarray, classes: np.ndarray, weight: np.ndarray | None) -> int:
        """The examples of the rarest class, of which some are to be held out."""
        counts = counts_of(codes, len(classes), weight)
        fewest = int(counts.min())
        if fewest < 2:
            raise ValueError(
                f"calibration={self.calibration!r} needs two examples of each class, to learn from those that a model "
                f"has not seen, got {fewest} of class {classes[counts.argmin()]!r}"
            )
        return fewest

    def _score_folds(self, X: Any, codes: np.ndarray, sample_weight: Any, seed: int, refit: float | None = None) -> None:
        """Learns from the scores that examples get from models that were made without them, ``refit`` with this alpha."""
        weight = weights_of(sample_weight, len(codes))
        found = None if refit is not None else self._trainer.take_held_out()
        if found is None:
            scores = self._scores_of_folds(X, codes, weight, seed, refit)
        else:
            scores = found.reshape(len(codes), -1)
        if weight is not None:
            counted = _counted(codes, weight)
            scores, codes, weight = scores[counted], codes[counted], weight[counted]
        self._calibrate_by(scores, codes, weight)

    def _hold_out(
        self, trainer: Trainer, codes: np.ndarray, classes: np.ndarray, weight: np.ndarray | None, seed: int
    ) -> None:
        """Has a trainer that is to learn from these examples score them, too, without their fold, where it can."""

    def _folds(
        self, codes: np.ndarray, classes: np.ndarray, weight: np.ndarray | None, seed: int, *, pairs: bool
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Of each fold the numbers of the rows that a model learns from, and of those that it scores."""
        fewest = self._fewest(codes, classes, weight)
        counted = _counted(codes, weight)
        most = FOLDS_OF_TWO if len(classes) == 2 or pairs else FOLDS
        folds = StratifiedKFold(min(most, fewest), shuffle=True, random_state=seed % 2**32)
        for _, part in folds.split(counted, codes[counted]):
            test = counted[part]
            yield np.delete(np.arange(len(codes)), test), test

    def _scores_of_folds(
        self, X: Any, codes: np.ndarray, weight: np.ndarray | None, seed: int, refit: float | None
    ) -> np.ndarray:
        """The scores that examples get from models that were made without them."""
        model = self._of_fold()
        if refit is not None and "refine" in model.get_params():
            model.set_params(refine=False)
        if isinstance(model.class_weight, str):
            # Those of all rows: what weighs in the fit weighs as much in its folds.
            of_class = compute_class_weight(model.class_weight, classes=np.arange(len(self.classes_)), y=codes)
            model.set_params(class_weight=dict(zip(self.classes_, of_class, strict=True)))
        # Of every kind that `fit` takes, rows can be picked then.
        X = validated(model, X, dtype=[np.float64, np.float32], reset=True, finite=False)
        scores: np.ndarray | None = None
        for train, test in self._folds(codes, self.classes_, weight, seed, pairs=self._scores_pairs):
            if not isinstance(self.sampling, str):
                # The same rows, by their numbers in the fold.
                places = np.full(len(codes), -1)
                places[train] = np.arange(len(train))
                order = places[np.asarray(self.sampling)]
                if not (order >= 0).any():
                    raise ValueError(
                        f"calibration={self.calibration!r} needs a sampling of rows of several folds, got {self.sampling!r}"
                    )
                model.set_params(sampling=order[order >= 0])
            rows, labels = _safe_split(model, X, self.classes_[codes], train)
            held_out, _ = _safe_split(model, X, None, test, train)
            with warnings.catch_warnings():
                # The fit has said what there is to say.
                warnings.simplefilter("ignore")
                own = None if weight is None else weight[train]
                model.fit(rows, labels, sample_weight=own)
                if refit is not None:
                    model.refit(rows, labels, own, alpha=refit)
            found = model._all_scores(held_out)
            if scores is None:
                scores = np.empty((len(codes), *found.shape[1:]))
            scores[test] = found
        assert scores is not None
        return scores

    def _calibration_state(self) -> dict[str, Any] | None:
        """What a file must hold of it."""
        scored: Scored | None = self.__dict__.get("_scored")
        if scored is None:
            return None
        # Of a stream it is learned when somebody asks: whoever reads the file may have nothing but that.
        known = self.calibration is not None and scored.weight.any()
        found: Calibration | None = self._calibrated() if known else self.__dict__.get("_calibration")
        told = {"scores": scored.scores, "codes": scored.codes, "weight": scored.weight}
        return {"scored": told, "map": None if found is None else found.state()}

    def _restore_calibration(self, state: dict[str, Any] | None, outputs: int) -> None:
        """What `_calibration_state` told of."""
        self._forget_scores()
        if state is None:
            return
        scores, codes, weight = (state["scored"][name] for name in ("scores", "codes", "weight"))
        n, k = len(scores), len(self.classes_)
        sound = scores.shape == (n, outputs) and codes.shape == weight.shape == (n,)
        sound = sound and scores.dtype == weight.dtype == np.float64 and codes.dtype == np.int64
        if not (sound and bool((weight >= 0).all()) and set(np.unique(codes)) <= set(range(k))):
            raise ValueError("its scored examples do not belong to the model")
        self._scored = Scored.of(scores, codes, weight)
        if state["map"] is not None:
            self._calibration = Calibration.restored(state["map"], k, outputs, pairs=self._scores_pairs)
