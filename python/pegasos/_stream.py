"""What a stream brings beside examples: classes that join on the way, and how many examples of each there were.

A class joins rarely, so that a trainer gets more classes by way of its parts: plain arrays, whose rows are the outputs. All
that a trainer holds of an output (weights or coefficients, sums of averages, gradients in flight) is a linear image of what
it has learned. So one linear map from the outputs that there were to those that there will be is all it takes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import unique_labels

from pegasos._core import Trainer
from pegasos._data import check_labels, encode, encode_among

if TYPE_CHECKING:
    from pegasos._data import Data

#: As many problems of one score each share a trainer where rows are sparse, of more features than these: the same numbers
#: as those of the compiled half. They change no bit.
_TOGETHER, _FEW_FEATURES = 8, 256


@dataclass
class Stream:
    """The classes that were named or met, and how many examples there were of each: one object a call, kept if it succeeds."""

    #: Sorted; None before the first call.
    classes: np.ndarray | None = None
    #: Examples of each, over all calls, (n_classes,).
    counts: np.ndarray | None = None
    #: Whether a class that nobody has named joins by itself: where the first call named none.
    is_open: bool = False
    #: Whether this call has named the classes.
    _named: bool = False

    @classmethod
    def of_fit(cls, classes: np.ndarray, codes: np.ndarray, before: Stream | None) -> Stream:
        """After a fit on examples of these classes, which has gone on ``before`` or begun anew."""
        stream = Stream(classes, np.zeros(len(classes), np.int64)) if before is None else replace(before)
        stream._count(codes)
        return stream

    @classmethod
    def of_call(cls, before: Stream | None, classes: Any) -> Stream:
        """For a call that goes on with ``before``, or begins a stream, and names these classes, or None."""
        named = None
        if classes is not None:
            if np.size(classes) == 0:
                raise ValueError("classes must hold at least two classes, got none")
            labels = np.asarray(classes)
            if labels.ndim != 1:
                # Of a table scikit-learn would take the numbers of the columns.
                raise ValueError(f"classes must be a list of labels, of the kind that y has, got {classes!r}")
            check_labels(labels, "classes")
            try:
                with np.errstate(invalid="ignore"):
                    named = unique_labels(classes)
            except ValueError as error:
                # It does not say of what it speaks.
                raise ValueError(f"classes must be a list of labels, of the kind that y has, got {classes!r}: {error}") from error
        if before is None:
            return Stream(named, is_open=named is None, _named=named is not None)
        stream = replace(before, _named=named is not None)
        if named is not None:
            stream._name(named)
        return stream

    @classmethod
    def of_merge(cls, classes: np.ndarray, met: list[Stream | None]) -> Stream:
        """Of models that have met these classes apart: all that they have counted, open if all of them are."""
        known = [stream for stream in met if stream is not None]
        counts = [stream.counts for stream in known if stream.counts is not None]
        return Stream(classes, np.sum(counts, axis=0), all(stream.is_open for stream in known))

    def after_part(self, before: Stream | None, part: float) -> Stream:
        """After a call that has learned from such a part of its examples, in an order that nobody knows: as if from each class alike."""
        assert self.classes is not None and self.counts is not None
        counts = np.zeros(len(self.classes), np.int64)
        if before is not None and before.counts is not None and before.classes is not None:
            counts[encode_among(before.classes, self.classes)] = before.counts
        return replace(self, counts=counts + np.rint(part * (self.counts - counts)).astype(np.int64))

    @property
    def n_classes(self) -> int:
        """How many classes a trainer is for: one alone, in an open stream, waits for a second."""
        assert self.classes is not None
        return max(2, len(self.classes)) if self.is_open else len(self.classes)

    def meet(self, y: np.ndarray) -> np.ndarray:
        """The codes of these labels, which are counted; those that are new join where they may."""
        if self.classes is None:
            self.classes, codes = encode(y)
        else:
            try:
                codes = encode_among(y, self.classes)
            except ValueError:
                if self._named or not self.is_open:
                    raise
                self._join(encode(y)[0], "y")
                codes = encode_among(y, self.classes)
        self._count(codes)
        return codes

    def weights(self, class_weight: Any, y: np.ndarray) -> np.ndarray:
        """Weights of the classes; "balanced" by ``n/(k count)``, of all examples so far and the k classes that they have."""
        counts = self.counts
        assert counts is not None and self.classes is not None
        if isinstance(class_weight, dict):
            known = set(self.classes.tolist())
            # Those of classes that may come are for later.
            now = {label: weight for label, weight in class_weight.items() if not self.is_open or label in known}
            return np.asarray(compute_class_weight(now, classes=self.classes, y=y))
        with np.errstate(divide="ignore"):
            weights = counts.sum() / (np.count_nonzero(counts) * counts)
        # Of classes without examples, which nobody weighs.
        weights[counts == 0] = 1.0
        return weights

    def _count(self, codes: np.ndarray) -> None:
        assert self.classes is not None
        if len(self.classes) == 2:
            # bincount copies the codes to wider ones first.
            positive = np.count_nonzero(codes)
            counts = np.array([len(codes) - positive, positive])
        else:
            counts = np.bincount(codes, minlength=len(self.classes))
        self.counts = counts if self.counts is None else self.counts + counts

    def _name(self, named: np.ndarray) -> None:
        """Takes these classes, among which all must be that there are."""
        assert self.classes is not None
        if np.array_equal(named, self.classes):
            return
        try:
            encode_among(self.classes, named)
        except ValueError:
            raise ValueError(
                f"classes must hold all classes of the calls before, {self.classes.tolist()}, and may hold more, got "
                f"{named.tolist()}"
            ) from None
        self._join(named, "classes")

    def _join(self, labels: np.ndarray, name: str) -> None:
        """Adds labels to the classes."""
        assert self.classes is not None
        classes = united(self.classes, labels, name)
        places = encode_among(self.classes, classes)
        counts = np.zeros(len(classes), np.int64)
        if self.counts is not None:
            counts[places] = self.counts
        self.classes, self.counts = classes, counts


def united(classes: np.ndarray, labels: np.ndarray, name: str) -> np.ndarray:
    """The sorted union, in the dtype of ``classes`` where that can hold it."""
    text = [array.dtype.kind in "UT" or isinstance(array[0], str) for array in (classes, labels)]
    if text[0] != text[1]:
        raise ValueError(
            f"{name} must hold labels of one kind with the classes that there are, {classes.tolist()}, got {labels.tolist()}"
        )
    both = classes.tolist() + labels.tolist()
    if text[0] or classes.dtype == object:
        # Strings become as wide as they must.
        return np.unique(np.array(both, dtype=object if classes.dtype == object else None))
    found = np.unique(np.concatenate([classes, labels]))
    for dtype in (classes.dtype, found.dtype):
        with np.errstate(all="ignore"):
            cast = found.astype(dtype)
        if set(cast.tolist()) == set(both):
            return cast
    raise ValueError(f"{name} must hold labels of one dtype with the classes that there are, {classes.dtype}, got {labels!r}")


def joined(trainer: Trainer, before: np.ndarray, after: np.ndarray, targets: Any, data: Data) -> Trainer:
    """A trainer that knows the classes ``after``, where ``trainer`` knows those ``before``; what it scored stays.

    ``targets`` are those of a linear trainer of so many classes. O(size of w).
    """
    n_classes, made = len(after), trainer.made
    if n_classes == 2:
        # The first was alone, and has taught nothing yet.
        return trainer.copy()
    parts = trainer.parts()
    places = encode_among(before, after)
    if made.kind == "linear":
        jointly = not isinstance(targets, list)
        source, factor = _outputs("crammer_singer" if jointly else "ovr", places, n_classes)
        share = issparse(data.X) and data.X.shape[1] > _FEW_FEATURES and _may_share(parts["params"])
        parts["targets"] = targets
        parts["problems"] = _problems(parts["problems"], source, factor, jointly, share)
    else:
        source, factor = _outputs(parts["params"].get("multi_class", "crammer_singer"), places, n_classes)
        outputs = 1 if made.classes == 2 else len(source[source >= 0])
        if len(parts.get("ends", ())):
            # Of many outputs, whose numbers change, and nothing else does.
            numbers = np.zeros(outputs, np.uint32)
            numbers[source[source >= 0]] = np.flatnonzero(source >= 0)
            parts["outputs"] = numbers[parts["outputs"]]
        else:
            for name in ("v", "u"):
                of_vectors = parts[name].reshape(-1, outputs).T
                parts[name] = np.ascontiguousarray(_mapped(of_vectors, source, factor).T).ravel()
        parts["norm2"] *= _growth(outputs, factor)
        parts["classes"] = n_classes
    return Trainer.from_parts(parts)


def _outputs(way: str, places: np.ndarray, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Of each output of a trainer of ``n_classes`` the one that it goes on with, -1 for none, and its factor.

    ``places`` are those of the classes that there were. The one score s of two classes speaks for the second. One against
    the rest, the second has the score s and the first -s, which is what its own problem, the mirror image, would have come
    to. Jointly it is the difference of two scores that counts: s/2 and -s/2 have the losses, on all examples there were,
    that s has. Of a pair the score speaks for the first.
    """
    before = len(places)
    if way == "ovo":
        numbers = np.full((n_classes, n_classes), -1)
        known = np.triu_indices(before, 1)
        numbers[places[known[0]], places[known[1]]] = np.arange(len(known[0]))
        source = numbers[np.triu_indices(n_classes, 1)]
        return source, np.where(source >= 0, -1.0 if before == 2 else 1.0, 0.0)
    source, factor = np.full(n_classes, -1), np.zeros(n_classes)
    if before == 2:
        source[places] = 0
        factor[places] = np.array([-1.0, 1.0]) * (0.5 if way == "crammer_singer" else 1.0)
    elif before > 2:
        source[places] = np.arange(before)
        factor[places] = 1.0
    return source, factor


def _mapped(rows: np.ndarray, source: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """What the outputs hold, given what those hold that they go on with, a row each."""
    found = np.zeros((len(source), rows.shape[1]), rows.dtype)
    known = source >= 0
    if rows.size:
        # Powers of two and signs: nothing is rounded. And no 0 becomes negative.
        found[known] = rows[source[known]] * factor[known, None].astype(rows.dtype) + 0
    return found


def _growth(outputs: int, factor: np.ndarray) -> float:
    """By how much the squared norm grows."""
    return float((factor**2).sum()) if outputs == 1 else 1.0


def _may_share(params: dict[str, Any]) -> bool:
    """Whether one trainer may have several problems of one score each: nothing depends on the norm of each of them."""
    plain = params["projection"] is None and params["radius"] is None and params["average"] != "recent"
    return plain and params["delay"] == 0 and not params["regret"]


def _problems(
    problems: list[dict[str, Any]], source: np.ndarray, factor: np.ndarray, jointly: bool, share: bool
) -> list[dict[str, Any]]:
    """The stored problems of a linear trainer: one of all outputs, or several of some each, in the order of the outputs."""
    if jointly:
        return [_problem(problems[0], source, factor, jointly)]
    counts = [len(problem["b"]) for problem in problems]
    owner = np.repeat(np.arange(len(problems)), counts)
    first = np.cumsum(counts) - counts
    # New ones stand with those before them, or with the first.
    known = np.flatnonzero(source >= 0)
    last = np.maximum(np.searchsorted(known, np.arange(len(source)), side="right") - 1, 0)
    with_ = owner[source[known[last]]] if known.size else np.zeros(len(source), int)
    found = []
    for k in np.unique(with_):
        own = np.flatnonzero(with_ == k)
        together = counts[k] > 1 or share
        local = np.where(source[own] >= 0, source[own] - first[k], -1)
        for some in np.array_split(np.arange(len(own)), -(-len(own) // _TOGETHER) if together else len(own)):
            found.append(_problem(problems[k], local[some], factor[own[some]], jointly))
    return found


def _problem(problem: dict[str, Any], source: np.ndarray, factor: np.ndarray, jointly: bool) -> dict[str, Any]:
    """A stored problem of these outputs, made of one that was stored."""
    outputs, d = len(problem["b"]), problem["n_features"]
    known = source >= 0
    made = dict(problem)
    for name, width in (("v", d), ("u", d), ("b", 1), ("ub", 1)):
        rows = problem[name]
        if rows.size:
            made[name] = _mapped(rows.reshape(-1, width), source, factor).ravel()
    if np.count_nonzero(known) < outputs:
        made["norm2"] = float((made["v"].astype(np.float64) ** 2).sum() + (made["b"] ** 2).sum())
    else:
        made["norm2"] = problem["norm2"] * _growth(outputs, factor)
    if not known.any():
        # What has not begun has no past: no gradients in flight, and nothing paid.
        regret = problem["regret"]
        return made | {"flights": [], "regret": None if regret is None else [0.0] * 7}
    flights = []
    for flight in problem["flights"]:
        coef = _mapped(np.array(flight["coef"], float).reshape(-1, 1), source, factor)
        flights.append(flight | {"coef": coef.ravel().tolist()})
    made["flights"] = flights
    if jointly and outputs == 1:
        # In other weights other comparators lie within the ball: what was paid and bounded says nothing of these.
        made["regret"] = None
    return made
