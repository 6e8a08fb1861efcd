"""Dask's collections: their parts, and models that predict for each when somebody asks for it."""

from __future__ import annotations

from contextlib import contextmanager
from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple

import dask
import dask.array as da
import distributed
import numpy as np
from sklearn.utils import column_or_1d

from pegasos._threads import limit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Part(NamedTuple):
    """Examples that lie together."""

    X: Any
    y: Any
    #: Their weights, or None.
    weight: Any = None

    @property
    def n(self) -> int:
        """How many there are."""
        return len(self.y)

    @classmethod
    def of(cls, *given: Any) -> Part:
        """Of rows, classes and perhaps weights; what comes in one piece is a tuple of these."""
        values = given[0] if len(given) == 1 else given
        if not isinstance(values, tuple) or len(values) not in (2, 3):
            raise TypeError(f"parts must be tuples (X, y) or (X, y, sample_weight), got a {type(values).__name__}")
        if values[0] is None or values[1] is None:
            raise TypeError(f"parts must hold X and y, got None for {'X' if values[0] is None else 'y'}")
        part = cls(in_rows(values[0]), *values[1:])
        rows = [int(part.X.shape[0]), *(len(each) for each in part[1:] if each is not None)]
        if len(set(rows)) > 1:
            raise ValueError(f"X, y and sample_weight of a part must have as many rows, got {rows}")
        return part

    def weights(self) -> np.ndarray | None:
        """The weights of the examples, as numbers."""
        if self.weight is None:
            return None
        found = np.asarray(self.weight, np.float64)
        if found.shape != (self.n,) or not (np.isfinite(found).all() and (found >= 0.0).all()):
            raise ValueError(
                f"sample_weight must be {self.n} finite numbers >= 0 for a part of so many rows, got {self.weight!r}"
            )
        return found


def in_rows(X: Any) -> Any:
    """The rows themselves, or an array of those of a list."""
    return X if hasattr(X, "shape") else np.asarray(X)


@contextmanager
def threads(most: int) -> Iterator[None]:
    """Nothing of ours takes more of them meanwhile."""
    token = limit.set(most)
    try:
        yield
    finally:
        limit.reset(token)


def is_list(X: Any) -> bool:
    """Whether parts are handed over one by one."""
    return isinstance(X, list | tuple)


def is_frame(X: Any) -> bool:
    """Whether it is a dask DataFrame or Series, which need not be installed."""
    return dask.is_dask_collection(X) and hasattr(X, "map_partitions") and hasattr(X, "_meta_nonempty")


def is_piece(X: Any) -> bool:
    """Whether a part may be made of it."""
    return dask.is_dask_collection(X) or isinstance(X, distributed.Future)


def is_remote(X: Any) -> bool:
    """Whether it is of Dask in one way or another: a list of rows is of this process."""
    if is_list(X):
        return not X or any(is_piece(piece) for part in X for piece in (part if isinstance(part, tuple) else (part,)))
    return isinstance(X, da.Array) or is_frame(X)


def parts_of(X: Any, y: Any, sample_weight: Any) -> list[tuple[Any, ...]]:
    """What each part is made of, as Delayed or futures: its rows first, or all of it in one piece."""
    if is_list(X):
        return _given(X, y, sample_weight)
    blocks = [_blocks(X, "X")]
    for name, values in (("y", y), ("sample_weight", sample_weight)):
        if values is None and name == "sample_weight":
            continue
        if isinstance(X, da.Array) and isinstance(values, da.Array):
            values = _divided_as(X, values, name)
        blocks.append(_blocks(values, name))
        if len(blocks[-1]) != len(blocks[0]):
            raise ValueError(f"{name} must be divided as X is, into {len(blocks[0])} parts, got {len(blocks[-1])}")
    return list(zip(*blocks, strict=True))


def _given(parts: Sequence[Any], y: Any, sample_weight: Any) -> list[tuple[Any, ...]]:
    """Parts of a list, each a tuple of one to three that Dask knows."""
    if y is not None or sample_weight is not None:
        raise ValueError("y and sample_weight must be None where X is a list of parts, which hold them")
    if len(parts) == 0:
        raise ValueError("X must hold at least one part, got none")
    found = [part if isinstance(part, tuple) else (part,) for part in parts]
    for pieces in found:
        for piece in pieces:
            if not is_piece(piece):
                raise TypeError(f"X must hold Delayed or tuples of Delayed, got a {type(piece).__name__}")
    return found


def _blocks(collection: Any, name: str) -> list[Any]:
    """The parts of a collection, as Delayed."""
    if isinstance(collection, da.Array):
        want = 2 if name == "X" else 1
        if collection.ndim != want:
            raise ValueError(f"{name} must have {want} dimension{'s' if want > 1 else ''}, got shape {collection.shape}")
        return list(_whole_rows(collection).to_delayed().ravel())
    if is_frame(collection):
        return list(collection.to_delayed())
    raise TypeError(
        f"{name} must be a dask Array, DataFrame or Series, or X a list of delayed parts, got a {type(collection).__name__}; "
        "for data of one machine there are pegasos.PegasosClassifier and pegasos.KernelPegasosClassifier"
    )


def _whole_rows(X: Any) -> Any:
    return X.rechunk({1: -1}) if X.ndim == 2 and X.numblocks[1] > 1 else X


def _divided_as(X: Any, values: Any, name: str) -> Any:
    """An array of which each chunk has as many rows as that of X."""
    if np.isnan([*X.chunks[0], *values.chunks[0]]).any():
        # Nobody knows before they are computed.
        return values
    if values.shape[0] != X.shape[0]:
        raise ValueError(f"{name} must have {X.shape[0]} entries, as X has rows, got {values.shape[0]}")
    return values.rechunk({0: X.chunks[0]})


def lazily(model: Any, X: Any, method: str) -> Any:
    """What a method of a local model gives for X: at once, or of a collection when that is computed."""
    if not is_remote(X):
        return getattr(model, method)(X)
    shared = dask.delayed(model, pure=False, traverse=False)
    if is_list(X):
        each = dask.delayed(_apply, pure=False)
        return [each(part, shared, method) for part in X]
    if is_frame(X):
        # Of the first of its rows: in others values are missing where they may be.
        meta = _apply_to_frame(X._meta_nonempty.iloc[:1], model, method).iloc[:0]
        return X.map_partitions(_apply_to_frame, shared, method, meta=meta)
    if X.ndim != 2 or X.shape[1] != model.n_features_in_:
        raise ValueError(f"X must have {model.n_features_in_} features, got an array of shape {X.shape}")
    X = _whole_rows(X)
    like = _apply(np.zeros((0, X.shape[1]), X.dtype), model, method)
    chunks = (X.chunks[0], *((size,) for size in like.shape[1:]))
    gone = [1] if like.ndim == 1 else None
    return X.map_blocks(_apply, shared, method, dtype=like.dtype, chunks=chunks, drop_axis=gone, meta=like)


def _apply(X: Any, model: Any, method: str) -> np.ndarray:
    """A method of the model, on one thread: others predict beside."""
    X = in_rows(X)
    with threads(1):
        if X.shape[0]:
            found: np.ndarray = getattr(model, method)(X)
            return found
        # Of no rows at all scikit-learn wants to know nothing; and nameless zeros are as good as any.
        nameless = copy(model)
        nameless.__dict__.pop("feature_names_in_", None)
        dtype = X.dtype if hasattr(X, "dtype") else np.float64
        none: np.ndarray = getattr(nameless, method)(np.zeros((1, X.shape[1]), dtype))[:0]
        return none


def _apply_to_frame(X: Any, model: Any, method: str) -> Any:
    found = _apply(X, model, method)
    # By what the frame makes its own of: pandas is for those to import who have frames.
    if found.ndim == 1:
        return X._constructor_sliced(found, index=X.index)
    # Three classes have as many pairs, whose scores are of none of them.
    of_pairs = method == "decision_function" and getattr(model, "_scores_pairs", False) and model.decision_function_shape == "ovo"
    return X._constructor(found, index=X.index, columns=None if of_pairs else model.classes_)


def accuracy(model: Any, parts: list[tuple[Any, ...]]) -> Any:
    """The part of the examples whose class a local model names, as a Delayed."""
    right = dask.delayed(_right, pure=False)
    shared = dask.delayed(model, pure=False, traverse=False)
    return dask.delayed(_mean, pure=False)([right(shared, *pieces) for pieces in parts])


def _right(model: Any, *pieces: Any) -> tuple[float, float]:
    """The weight of the examples of a part whose class is named, and of all."""
    part = Part.of(*pieces)
    weights = part.weights()
    if weights is None:
        weights = np.ones(part.n)
    right = _apply(part.X, model, "predict") == np.asarray(column_or_1d(part.y))
    return float(weights[right].sum()), float(weights.sum())


def _mean(sums: list[tuple[float, float]]) -> float:
    right, whole = zip(*sums, strict=True)
    if not sum(whole):
        raise ValueError("X must hold an example of weight > 0, got none")
    return float(sum(right) / sum(whole))
