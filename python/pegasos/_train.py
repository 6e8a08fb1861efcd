"""What ``pegasos train`` does: a fit on all examples at once, or passes over what need not fit into memory."""

from __future__ import annotations

import os
import secrets
import sys
import time
from contextlib import closing
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from pegasos import KernelPegasosClassifier, PegasosClassifier, io
from pegasos._cache import cache_of
from pegasos._callbacks import put_back
from pegasos._core import Trainer
from pegasos._files import check_spares, check_writable, naming
from pegasos._options import BY_PARAM, how_to_read
from pegasos._passes import passes
from pegasos._progress import bar_of, say
from pegasos._report import budget_lines, classes_line, objective_lines, print_aligned
from pegasos._sources import format_of, open_source
from pegasos._threads import thread_count

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from pegasos._progress import NoBar
    from pegasos._sources import Source

#: Files of more bytes are learned from in passes, in so many, unless somebody says otherwise.
_LARGE, _PASSES = 1 << 30, 3

#: Rows of a window, and bytes that dense ones may take; and support vectors of a machine without a budget of its own.
_WINDOW, _WINDOW_BYTES, _BUDGET = 10_000, 1 << 25, 1000

#: Of so many examples of a window it is seen whether they would have been right, before they are learned from; of each of the
#: first so many windows, then of one in as many: to score takes a model that is made of all weights.
_TRIED, _OFTEN = 1000, 10


def train(arguments: argparse.Namespace) -> None:
    """Trains as the options say, writes the model, and prints what has come of it."""
    # A model that took hours must not be lost to a misspelt folder.
    check_writable(arguments.output)
    inputs = {"examples": arguments.data}
    if isinstance(arguments.label, str) and arguments.label.lower().endswith(".npy"):
        inputs["labels"] = arguments.label
    check_spares(arguments.output, "model", inputs)
    cache = arguments.cache_file or (cache_of(arguments.data) if arguments.cache else None)
    if cache is not None and os.path.realpath(cache) == os.path.realpath(arguments.output):
        raise ValueError(f"{arguments.output}: the model would take the place of the cache; give --output another name")
    # Nor must hours be spent on options that do not fit together.
    estimator = _estimator(arguments)
    n_passes = _n_passes(arguments)
    if n_passes is None:
        _at_once(estimator, arguments)
    else:
        _Course(estimator, arguments, n_passes).run()


def _estimator(arguments: argparse.Namespace) -> Any:
    """The estimator that the options describe."""
    given = _given(arguments)
    kernel = "kernel" in given
    for param in given:
        if BY_PARAM[param].defaults[kernel] is None:
            names = BY_PARAM[param].names.split()[0]
            raise ValueError(f"{names} {'does not go with' if kernel else 'needs'} --kernel")
    return (KernelPegasosClassifier if kernel else PegasosClassifier)(**given)


def _given(arguments: argparse.Namespace) -> dict[str, Any]:
    """The parameters that options have set."""
    return {param: value for param, value in vars(arguments).items() if param in BY_PARAM}


def _behind_a_scaler(estimator: Any, sparse: bool) -> Pipeline:
    """A pipeline that scales rows of this kind first."""
    return make_pipeline(MaxAbsScaler() if sparse else StandardScaler(), estimator)


def _is_bounded(estimator: Any) -> bool:
    return "budget" in estimator.get_params() and estimator._choice("budget") is not None


def _cost_of_budget(estimator: Any) -> dict[str, str]:
    return budget_lines(getattr(estimator, "mean_gradient_error_", 0.0) if _is_bounded(estimator) else None)


# -- all examples at once


def _at_once(estimator: Any, arguments: argparse.Namespace) -> None:
    for name in ("cache", "cache_file", "resume", "window"):
        if getattr(arguments, name):
            raise ValueError(f"--{name.replace('_', '-')} needs --passes")
    X, y, names = io.read(arguments.data, n_features=arguments.n_features, **how_to_read(arguments))
    if y is None:
        raise ValueError("training needs labels, --label cannot be none")
    if arguments.float32:
        X = X.astype(np.float32)
    held_out: Any = None
    if arguments.test_size is not None:
        sizes = {"test_size": arguments.test_size, "stratify": y, "random_state": estimator.random_state}
        X, X_test, y, y_test = train_test_split(X, y, **sizes)
        held_out = X_test, y_test
    estimator.set_params(verbose=_verbose(arguments))
    model = _behind_a_scaler(estimator, hasattr(X, "tocsr")) if arguments.scale else estimator
    start = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - start
    estimator.set_params(verbose=0)
    _save(model, names, arguments.output)
    if arguments.quiet:
        return
    n, d = X.shape
    lines = {
        "examples": f"{n:,} x {d:,} features",
        "classes": classes_line(estimator.classes_),
        "epochs": f"{estimator.n_iter_:,}",
        "time": f"{seconds:.2f} s ({estimator.n_iter_ * n / seconds:,.0f} rows/s)",
        **_cost_of_budget(estimator),
        **objective_lines(estimator.objective_, estimator.dual_objective_, bounded=_is_bounded(estimator)),
        "training accuracy": f"{model.score(X, y):.4f}",
    }
    if held_out:
        lines["held-out accuracy"] = f"{model.score(*held_out):.4f} on {len(held_out[1]):,} examples"
    print_aligned(lines | {"model": arguments.output})


def _save(model: Any, names: Sequence[str] | None, path: str) -> None:
    """Saves a model with the names of its features, which arrays do not have."""
    first = model.steps[0][1] if isinstance(model, Pipeline) else model
    if names is not None:
        first.feature_names_in_ = np.array(names, dtype=object)
    io.save(model, path)
    _forget_names(model)


def _forget_names(model: Any) -> None:
    """So that a model takes arrays without a warning."""
    for each in [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]:
        each.__dict__.pop("feature_names_in_", None)


def _verbose(arguments: argparse.Namespace) -> int:
    return int(sys.stderr.isatty() and not arguments.quiet)


# -- pass by pass


def _n_passes(arguments: argparse.Namespace) -> int | None:
    """How many passes there are; None for a fit on all examples at once."""
    if arguments.passes != "auto":
        found: int | None = arguments.passes
        return found
    try:
        size = 0 if arguments.data == "-" else os.path.getsize(arguments.data)
    except OSError:
        # Whoever opens it says why.
        size = 0
    if size <= _LARGE:
        return None
    if not arguments.quiet:
        say(f"pegasos: {arguments.data} has more than 1 GB: --passes {_PASSES}, batch by batch; --passes none reads all of it")
    return _PASSES


class _Course:
    """A model that learns in passes, is saved now and then, and goes on from there."""

    def __init__(self, estimator: Any, arguments: argparse.Namespace, n_passes: int) -> None:
        self.arguments, self.n_passes = arguments, n_passes
        self.format = arguments.format or format_of(arguments.data)
        # A name of nothing is an error of whoever opens it.
        is_file, is_folder = (of(arguments.data) for of in (os.path.isfile, os.path.isdir))
        self._is_file = arguments.data != "-" and (is_file or is_folder or not os.path.exists(arguments.data))
        self.estimator: Any = estimator
        self.scaler: Any = None
        #: Of a model that is gone on with, as is whether it has single precision.
        self._known_names: list[str] | None = None
        self._single: bool = arguments.float32 or False
        self._check_options()
        self._set_defaults()
        self.goes_on = arguments.resume and os.path.exists(arguments.output)
        if self.goes_on:
            self._go_on()
        if self.estimator.random_state is None:
            # A run that goes on must know it; a model of Python's, or of a fit on all examples, may have none.
            self.estimator.set_params(random_state=secrets.randbits(31))
        how = how_to_read(arguments)
        if not self._is_file and self.format == "svmlight" and how["zero_based"] == "auto":
            # As the format wants it, where nobody can look first.
            how["zero_based"] = False
        self.source: Source = open_source(
            arguments.data,
            **how,
            dtype=np.float32 if self._single else np.float64,
            n_features=arguments.n_features,
            cache=arguments.cache_file or bool(arguments.cache),
            n_jobs=_given(arguments).get("n_jobs"),
        )
        if n_passes > 1 and not self.source.repeatable:
            raise ValueError(f"{self.source.name} can be read once: --passes must be 1, got {n_passes}")
        if arguments.scale and self.scaler is None and not self.source.repeatable:
            raise ValueError(f"{self.source.name} can be read once: --scale needs a pass of its own")
        if self._is_refined and self.estimator.calibration is not None:
            # Said before the first pass, not after the last.
            raise ValueError(
                "--calibration needs --no-refine with --passes and a budget: the last pass makes another model, and none "
                "whose scores of new examples are known; --passes none reads all examples at once"
            )
        #: Of examples that came for the first time: how many were looked at, and how many of them would have been right.
        self.tried = self.right = 0
        self.met = self._met_before = self._met()
        #: The parts of a budgeted trainer before the window at hand, which learns in place.
        self._parts: Any = None
        #: Whether the model has learned from some examples of a window and not from others, and cannot go back.
        self._is_torn = False
        self.saved = time.monotonic()

    def run(self) -> None:
        arguments, begun = self.arguments, time.perf_counter()
        with bar_of(type(self.estimator).__name__, "B", _verbose(arguments)) as bar:
            try:
                self._look(bar)
                self._learn(bar)
                self._check_classes()
                self._refine(bar)
            except KeyboardInterrupt:
                if self._is_torn:
                    say(f"pegasos: a window was learned in part; {arguments.output} is as it was when it was last written")
                elif self.met > self._met_before:
                    self._save()
                    say(f"pegasos: {arguments.output} has learned from {self.met:,} examples; --resume goes on from there")
                raise
        self._save()
        if not arguments.quiet:
            self._report(self.met - self._met_before, time.perf_counter() - begun)

    def _check_options(self) -> None:
        given = _given(self.arguments)
        names = [BY_PARAM[param].names.split()[0] for param in ("max_iter", "tol", "solver", "shards") if param in given]
        names += ["--test-size"] if self.arguments.test_size is not None else []
        names += ["--metric"] if given.get("metric", "plain") != "plain" else []
        if names:
            raise ValueError(f"{names[0]} does not go with --passes; --passes none reads all examples at once")
        if self.arguments.label is None:
            raise ValueError("training needs labels, --label cannot be none")
        if not self._is_file and self.format == "svmlight" and self.arguments.n_features is None:
            raise ValueError(f"{self.arguments.data}: it can be read once: --n-features must be given")

    def _set_defaults(self) -> None:
        """What becomes of parameters that no option has set, where they are others than those of a fit."""
        estimator, given = self.estimator, _given(self.arguments)
        if isinstance(estimator, PegasosClassifier):
            # No dual ascent comes after the steps, the last of which is as good as chance made it.
            estimator.set_params(average=given.get("average", "polynomial"))
        elif estimator.budget == "auto":
            # Else support vectors would grow with the data.
            estimator.set_params(budget=_BUDGET)

    def _go_on(self) -> None:
        """Takes up the model of the output file; options that were given must be its own."""
        path = self.arguments.output
        model = io.load(path)
        if hasattr(model, "feature_names_in_"):
            self._known_names = model.feature_names_in_.tolist()
        _forget_names(model)
        steps: list[Any] = [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]
        estimator = steps.pop()
        if len(steps) != bool(self.arguments.scale) or type(estimator) is not type(self.estimator):
            raise ValueError(f"{path}: --resume needs a model that was trained with the same options")
        for param in _given(self.arguments):
            mine, its = self.estimator.get_params()[param], estimator.get_params()[param]
            if mine != its:
                raise ValueError(f"{path}: --resume goes on with {param}={its!r}, got {BY_PARAM[param].names.split()[0]} {mine}")
        self.estimator, self.scaler = estimator, steps[0] if steps else None
        is_single = estimator._trainer.made.dtype == "float32"
        if self._single and not is_single:
            raise ValueError(f"{path}: --resume goes on in double precision, got --float32")
        self._single = is_single

    def _met(self) -> int:
        """How many examples the model has learned from."""
        stream = getattr(self.estimator, "_stream", None)
        return 0 if stream is None else int(stream.counts.sum())

    def _look(self, bar: NoBar) -> None:
        """Finds what has to be known before the first batch."""
        source, seen = self.source, 0

        def report() -> None:
            nonlocal seen
            bar.update(source.read_bytes - seen)
            seen = source.read_bytes

        bar.begin(source.n_bytes, "looking")
        source.prepare(report)
        bar.done()
        with naming(source.name):
            io.check_names(source.names, self._known_names)
        if self.arguments.scale and self.scaler is None:
            self.scaler = self._fitted_scaler(bar)

    def _fitted_scaler(self, bar: NoBar) -> Any:
        scaler: Any = None
        bar.begin(self.source.n_bytes, "scales")
        for X, _ in self._batches(n_passes=1):
            scaler = scaler or (MaxAbsScaler() if hasattr(X, "tocsr") else StandardScaler())
            scaler.partial_fit(X)
        bar.done()
        return scaler

    @cached_property
    def _window(self) -> int:
        """The rows of a batch."""
        if self.arguments.window is not None:
            found: int = self.arguments.window
            return found
        if not self.source.repeatable:
            return _WINDOW
        with closing(self.source.batches(1)) as batches:
            X, _ = next(batches, (np.empty((1, 1)), None))
        # Of sparse rows only the numbers that are stored count.
        return _WINDOW if hasattr(X, "tocsr") else max(1, min(_WINDOW, _WINDOW_BYTES // X.nbytes))

    def _batches(self, *, n_passes: int, skip: int = 0, shuffled: bool = False) -> Any:
        window, seed = self._window, self.estimator.random_state
        order = window if shuffled and self.estimator.sampling != "storage" else None
        ahead = self.source.repeatable and thread_count(self.estimator.n_jobs) > 1
        how = {"n_passes": n_passes, "window": order, "seed": seed, "skip": skip, "ahead": ahead}
        with closing(passes(self.source, window, **how)) as batches:
            for X, y in batches:
                yield X if self.scaler is None else self.scaler.transform(X), y

    def _learn(self, bar: NoBar) -> None:
        source, estimator = self.source, self.estimator
        shown = self._bytes()
        if self.met and _is_bounded(estimator):
            self._parts = estimator._trainer.parts()
        bar.begin(None if source.n_bytes is None else self.n_passes * source.n_bytes - shown)
        for X, y in self._batches(n_passes=self.n_passes, skip=self.met, shuffled=True):
            if y is None:
                raise ValueError(f"{source.name}: training needs labels")
            self._try(X, y)
            before = vars(estimator).copy()
            try:
                estimator.partial_fit(X, y)
            except KeyboardInterrupt:
                self._put_back(before)
                raise
            if _is_bounded(estimator):
                # As a model from a file goes on: what is carried along from step to step has other last bits.
                self._parts = estimator._trainer.parts()
                estimator._trainer = Trainer.from_parts(self._parts)
            self.met += X.shape[0]
            if self.tried:
                bar.tell(loss=estimator.loss_curve_[-1], accuracy=self.right / self.tried)
            bar.update(self._bytes() - shown)
            shown = self._bytes()
            if time.monotonic() - self.saved > self.arguments.save_every:
                self._save()
        bar.done()

    def _put_back(self, before: dict[str, Any]) -> None:
        """The model as it was before a window that was interrupted: nobody could go on from the middle of it."""
        estimator = self.estimator
        put_back(estimator, before)
        if not self.met or estimator._trainer.facts.t == estimator.t_:
            return
        # It has learned in place.
        if self._parts is None:
            # A linear model larger than its window, of which no copy was made: the file is what was saved last.
            self._is_torn = True
            return
        estimator._trainer = Trainer.from_parts(self._parts)
        estimator._export()

    def _check_classes(self) -> None:
        if not self.met:
            raise ValueError(f"{self.source.name} holds no examples")
        classes = self.estimator.classes_
        if len(classes) < 2:
            raise ValueError(f"{self.source.name}: training needs two classes, all its examples are of {classes[0]!s}")

    def _try(self, X: Any, y: np.ndarray) -> None:
        """Looks whether the model would have been right about examples that are new to it."""
        known, window = getattr(self.estimator, "classes_", ()), self.met // self._window
        is_new = self.source.n_rows is None or self.met < self.source.n_rows
        if len(known) < 2 or not is_new or (window > _OFTEN and window % _OFTEN):
            return
        some = X[:_TRIED]
        self.tried += some.shape[0]
        self.right += int((self.estimator.predict(some) == y[:_TRIED]).sum())

    def _bytes(self) -> int:
        """How much was read for what the model has learned, of all passes together."""
        source = self.source
        if source.n_rows is None or source.n_bytes is None:
            return source.read_bytes
        return int(self.met / source.n_rows * source.n_bytes) if source.n_rows else 0

    @property
    def _is_refined(self) -> bool:
        """Whether a last pass gives the support vectors other coefficients."""
        estimator = self.estimator
        return bool(_is_bounded(estimator) and estimator.refine and self.source.repeatable)

    def _refine(self, bar: NoBar) -> None:
        """Gives the support vectors of a budget the best coefficients there are, in a pass more."""
        if not self._is_refined:
            return
        # Steps of which the examples know nothing are those that a refit counts for.
        has_them = self.estimator.t_ * self.estimator.batch_size > self.met
        if has_them and self.met == self._met_before:
            # They are in the file: another time over makes other bits of them.
            return
        bar.begin(self.source.n_bytes, "coefficients")
        self.estimator.refit(self._batches(n_passes=1, shuffled=True))
        bar.done()

    def _save(self) -> None:
        model = self.estimator if self.scaler is None else make_pipeline(self.scaler, self.estimator)
        names = self.source.names
        _save(model, self._known_names if names is None else names, self.arguments.output)
        self.saved = time.monotonic()

    def _report(self, n: int, seconds: float) -> None:
        estimator = self.estimator
        lines = {
            "examples": f"{self.source.n_rows or self.met:,} x {estimator.n_features_in_:,} features",
            "classes": classes_line(estimator.classes_),
            "passes": f"{self.n_passes:,}",
            "time": f"{seconds:.2f} s ({n / seconds:,.0f} rows/s)",
            **_cost_of_budget(estimator),
        }
        if self.tried:
            lines["accuracy as they came"] = f"{self.right / self.tried:.4f} on {self.tried:,} examples of the first pass"
        print_aligned(lines | {"model": self.arguments.output})
