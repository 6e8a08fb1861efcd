"""Machines that may learn their metric before anything else."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import pinv, qr
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted

from pegasos import _core
from pegasos._core import Trainer
from pegasos._data import Data, as_data, explaining, rows_of
from pegasos._metric import Learned, Metric, one_thread
from pegasos._refit import RefittedMachine
from pegasos._metric_rounds import MOST_FEATURES, POWERS, Rounds, power_of, shrunk, sloped, spectrum, spread_of
from pegasos._run import Run
from pegasos._threads import thread_count

if TYPE_CHECKING:
    from pegasos._stream import Stream

#: Rows that are mapped at a time for a prediction.
_WINDOW = 4096


def _moved(trainer: Trainer, metric: Metric) -> Trainer:
    """The same coefficients, of support vectors that are mapped once more."""
    parts = trainer.parts()
    values = parts["values"]
    if metric.diagonal:
        which = np.arange(values.size) % len(metric.map) if parts["indices"] is None else parts["indices"]
        parts["values"] = (values * metric.map[which]).astype(values.dtype)
    else:
        vectors = values.reshape(-1, metric.map.shape[1])
        with one_thread():
            parts["values"] = np.ascontiguousarray(vectors @ metric.map.T, values.dtype).ravel()
        parts["n_features"] = metric.dimension
    parts["norms"] = np.empty(0)
    return Trainer.from_parts(parts)


class MetricMachine(RefittedMachine):
    """A machine that may learn its metric before anything else."""

    metric: str
    metric_rounds: int

    #: None before a fit that has learned, or tried.
    _learned: Learned | None = None
    #: Whether the width of the kernel, and C, are chosen with the metric: not where folds do that.
    _chooses_width: bool = True
    #: The kernel's gamma, by the rows as they are.
    _plain_gamma: float

    @property
    def _metric(self) -> Metric | None:
        return None if self._learned is None else self._learned.metric

    @property
    def metric_(self) -> np.ndarray:
        """The learned M, (n_features, n_features), or its diagonal: the kernel is exp(-gamma (x - z)' M (x - z))."""
        check_is_fitted(self)
        if self._learned is None:
            raise AttributeError("metric_ is there only after fit with another metric than 'plain'")
        return np.ones(self.n_features_in_) if self._metric is None else self._metric.squared

    @property
    def feature_importances_(self) -> np.ndarray:
        """The diagonal of ``metric_``, (n_features,): a power of the mean squared derivative of the scores by each feature."""
        found = self.metric_
        return found if found.ndim == 1 else np.diagonal(found).copy()

    @property
    def metric_path_(self) -> dict[str, np.ndarray]:
        """What was tried, an entry for each machine."""
        check_is_fitted(self)
        if self._learned is None or not self._learned.path:
            raise AttributeError("metric_path_ is there only after fit with another metric than 'plain' that has tried some")
        return self._learned.path

    @property
    def support_vectors_(self) -> Any:
        """The support vectors, (n_sv, n_features)."""
        found = super().support_vectors_
        return found if self._metric is None else self._metric.preimages(found)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.metric != "full"
        return tags

    # -- training

    def _examples(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        classes: np.ndarray | None,
        *,
        reset: bool,
        stream: Stream | None = None,
    ) -> tuple[Data, np.ndarray]:
        if reset:
            self._learned = None
            if self.metric != "plain" and self.kernel != "rbf":
                raise ValueError(f"metric={self.metric!r} needs kernel='rbf', got kernel={self.kernel!r}")
        data, classes = super()._examples(X, y, sample_weight, classes, reset=reset, stream=stream)
        if reset and stream is None and self.metric != "plain":
            with explaining(data.X, self):
                self._learn(data, classes)
        return (data if self._metric is None else self._in_metric(data, whole=stream is not None)), classes

    def _in_metric(self, data: Data, *, whole: bool) -> Data:
        """Rows as the kernel sees them: a mapped copy where they are few, sparse, or all needed at any time; else those of a
        fit or a refit on a budget, which are mapped when their turn comes, some at a time."""
        assert self._metric is not None
        if whole or issparse(data.X) or self._choice("budget") is None:
            with explaining(data.X, self):
                return self._metric.mapped(data, thread_count(self.n_jobs))
        return data._replace(metric=self._metric.compiled(data))

    def _kernel_features(self, data: Data) -> int:
        return super()._kernel_features(data) if data.metric is None else self._mapped_features()

    def _learn(self, data: Data, classes: np.ndarray) -> None:
        if self.metric == "full" and issparse(data.X):
            raise ValueError("metric='full' needs dense rows, got a sparse matrix; use 'diagonal' or 'auto'")
        data.examples.check()
        self._decided = self._decide(data, len(classes), stream=False)
        self._plain_gamma = self._width(data)
        # So that there is a metric_, the plain one, whatever comes of it.
        self._learned = Learned(None, None, {})
        if len(classes) < 2:
            return
        gamma = self._plain_gamma if self._chooses_width else self._width_of("scale", data)
        rounds = Rounds.of(self, data, gamma)
        if rounds is None:
            warnings.warn(
                f"metric={self.metric!r} needs rows that differ, of two classes and five of one at least, to learn from and "
                "to hold out; the metric stays as it is",
                UserWarning,
                stacklevel=7,
            )
            return
        self._learned = rounds.best(self._chooses_width)

    def _learn_again(self, run: Run, data: Data) -> Data:
        """A round more, from the model as it is; its rows, in the new metric."""
        if self.metric == "plain":
            raise ValueError("learn_metric=True needs metric='full', 'diagonal' or 'auto', got 'plain'")
        threads, before = thread_count(self.n_jobs), self._metric
        if data.metric is not None:
            data = self._in_metric(data._replace(metric=None), whole=True)
        diagonal = issparse(data.X) or (self.metric == "diagonal" if before is None else before.diagonal)
        d = data.X.shape[1]
        if not diagonal and d > MOST_FEATURES:
            raise ValueError(
                f"learn_metric=True needs {MOST_FEATURES} features at most where nothing is learned yet, got {d}; use fit, "
                "or metric='diagonal'"
            )
        random = np.random.RandomState(run.seed % 2**32)
        rows = random.permutation(data.n)[: sloped(data, self._choice("budget"))].astype(np.int64)
        mean = _core.agop(run.trainer, data.examples, rows, diagonal, threads=threads)
        if not np.isfinite(mean).all() or not mean.any():
            return data
        # In coordinates of the mapped rows, as these know all that the model has seen.
        if diagonal:
            old = np.ones(d) if before is None else before.map
            power = (mean * old**2) ** POWERS[0]
            step = Metric(np.divide(power, old, out=np.zeros_like(power), where=old != 0.0))
        else:
            old = np.eye(d) if before is None else before.map
            # Of a map to fewer dimensions, in a basis of what it does not forget.
            with one_thread():
                root = old if len(old) == old.shape[1] else qr(old.T, mode="r")[0][:d].T
                own, back = root.T @ mean.reshape(d, d) @ root, pinv(root)
            if len(old) == old.shape[1]:
                own = shrunk(own, self.dual_coef_.shape[1])
            power = power_of(*spectrum(own), POWERS[0])
            with one_thread():
                step = Metric(power @ back)
        some = data.take(rows)
        step = step.times(np.sqrt(spread_of(some) / (spread_of(step.mapped(some, threads)) or 1.0)))
        with one_thread():
            whole = step.map * old if diagonal else step.map @ old
        metric = Metric(whole, None if before is None else before.advice)
        path = {} if self._learned is None else self._learned.path
        if before is None:
            self._plain_gamma = self._gamma
        self._learned = Learned(metric, None, path)
        run.trainer = _moved(run.trainer, step)
        return step.mapped(data, threads)

    def _decide(self, data: Data, n_classes: int, *, stream: bool) -> dict[str, Any]:
        decided = super()._decide(data, n_classes, stream=stream)
        if self._learned is not None and self._learned.c is not None and not stream:
            decided["alpha"] = 1.0 / (self._learned.c * data.n)
        return decided

    def _width(self, data: Data) -> float:
        return super()._width(data) if self._metric is None else self._plain_gamma

    def _advice(self, data: Data) -> str | None:
        return super()._advice(data) if self._metric is None else self._metric.advice

    def _scores_of_rows(self, X: Any) -> np.ndarray:
        metric = self._metric
        if metric is None:
            return super()._scores_of_rows(X)
        threads = thread_count(self.n_jobs)
        if issparse(X) and metric.diagonal:
            return self._scores(self._trainer, metric.mapped(as_data(X), threads).X)
        n = X.shape[0]
        windows = (rows_of(X, np.arange(start, min(start + _WINDOW, n))) for start in range(0, n, _WINDOW))
        parts = [self._scores(self._trainer, metric.mapped(as_data(rows), threads).X) for rows in windows]
        return np.concatenate(parts)

    # -- files

    def _mapped_features(self) -> int:
        return super()._mapped_features() if self._metric is None else self._metric.dimension

    def _extra(self) -> dict[str, Any]:
        if self._learned is None:
            return super()._extra()
        path = {name: values.tolist() for name, values in self._learned.path.items()}
        told = {"map": None if self._metric is None else self._metric.map, "path": path}
        return super()._extra() | {"metric": told}

    def _check_restored(self, extra: dict[str, Any]) -> None:
        self._learned = None
        # Once there was none.
        if extra.get("metric") is not None:
            found, path = extra["metric"]["map"], extra["metric"]["path"]
            d = self.n_features_in_
            sound = found is None or (
                isinstance(found, np.ndarray)
                and found.dtype == np.float64
                and (found.shape == (d,) or (found.ndim == 2 and found.shape[1] == d))
            )
            if not (sound and self._made_with["kernel"] == "rbf"):
                raise ValueError("its metric does not belong to the model")
            lists = {name: np.array(values) for name, values in path.items()}
            self._learned = Learned(None if found is None else Metric(found), None, lists)
        super()._check_restored(extra)


def of_rows(machine: MetricMachine, data: Data, n_classes: int) -> Metric | None:
    """What these rows say of the metric, by rounds alone; None for the plain one."""
    machine._decided = machine._decide(data, n_classes, stream=False)
    rounds = Rounds.of(machine, data, machine._width_of("scale", data))
    return None if rounds is None else rounds.best(width_too=False).metric
