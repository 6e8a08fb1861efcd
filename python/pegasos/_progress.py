"""What training shows of itself: a bar in a terminal or a notebook, lines in a file or a log, or nothing."""

from __future__ import annotations

import os
import sys
import time
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
from tqdm import tqdm

if TYPE_CHECKING:
    from typing import Self

#: A bar is drawn anew after so many seconds. The first line comes after one second, the next after two, four, ..., later ones
#: a minute apart: some ten lines of a fit of a minute, hardly more than sixty of one of an hour.
_DRAWN, _FIRST_LINE, _LINE = 0.1, 1.0, 60.0

#: What is shown first, and what after it.
_ORDER = {"gap": 1, "accuracy": 2, "loss": 3}

#: By such a part of itself an objective may lie below its bound: those are roundings, of data in single precision too.
_ROUNDINGS = 1e-6


def relative_gap(objective: Any, dual: Any) -> Any:
    """The certified gap as a part of the objective, as ``tol`` means it; nan where nothing is known.

    Roundings below 0 are 0. What lies below by more is no certificate.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        gap = np.subtract(objective, dual) / np.where(np.equal(objective, 0.0), 1.0, objective)
        gap = np.where((gap < 0.0) & (gap >= -_ROUNDINGS), 0.0, gap)
        gap = np.where((gap < 0.0) | ~np.isfinite(gap), np.nan, gap)
    return gap if gap.ndim else float(gap)


class NoBar:
    """Stands for a progress bar that nobody wants, or that there is nowhere to show.

    tqdm takes locks for one that shows nothing, too, and what is forked by another thread at that moment would
    wait for them for ever.
    """

    #: Whether there is any use in telling it something.
    shows = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def begin(self, total: int | None, stage: str = "", unit: str | None = None) -> None:
        """A stage begins, of so many rows, where that is known; with a ``unit``, of something else, which is counted anew."""

    def update(self, rows: int = 1) -> None:
        """So many rows more."""

    def tell(self, **facts: float | str | None) -> None:
        """What is known by now, in the place of what was known before under that name; nan leaves that, None takes it away."""

    def is_due(self) -> bool:
        """Whether what is told would be shown at once."""
        return False

    def done(self) -> None:
        """The stage is over: it had as many rows as were seen."""


class _Shown(NoBar):
    """What a bar and lines share: what they show."""

    shows = True

    def __init__(self, label: str, unit: str) -> None:
        self._label, self._unit = label, unit
        self._facts: dict[str, str] = {}

    def tell(self, **facts: float | str | None) -> None:
        for name, value in facts.items():
            if value is None:
                self._facts.pop(name, None)
            elif value == value:
                self._facts[name] = value if isinstance(value, str) else _number(name, value)

    @property
    def _postfix(self) -> str:
        # A narrow terminal cuts off what comes last.
        facts = sorted(self._facts.items(), key=lambda fact: _ORDER.get(fact[0], 0))
        return ", ".join(f"{name}={value}" for name, value in facts)

    @property
    def _how(self) -> dict[str, Any]:
        """How counts are written: those of rows in thousands and millions."""
        return {"unit": f" {self._unit}", "unit_scale": self._unit == "rows"}

    def _described(self, stage: str) -> str:
        return f"{self._label}, {stage}" if stage else self._label


def _number(name: str, value: float) -> str:
    if name == "accuracy":
        return f"{value:.4f}"
    return f"{value:.2g}" if name == "gap" else f"{value:.4g}"


class _Lasting:
    """A screen that may fail or go: a fit of hours must not be lost to that."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __eq__(self, other: object) -> bool:
        # What tqdm writes between bars clears those of the same screen.
        return bool(self._stream == other)

    __hash__ = None  # type: ignore[assignment]

    def write(self, text: str) -> None:
        with suppress(OSError, ValueError):
            self._stream.write(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            getattr(self._stream, "flush", lambda: None)()


class Bar(_Shown):
    """One bar of tqdm's, from the first stage of a fit to its last."""

    def __init__(self, label: str, unit: str, kind: Any, stream: TextIO) -> None:
        super().__init__(label, unit)
        self._kind, self._stream = kind, stream
        self._bar: Any = None
        self._drawn = 0.0

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._show()
            self._bar.close()

    def begin(self, total: int | None, stage: str = "", unit: str | None = None) -> None:
        self._unit = unit or self._unit
        if self._bar is None:
            self._bar = self._kind(
                total=total,
                desc=self._described(stage),
                **self._how,
                # So that what is told while no row is counted is shown, too.
                miniters=0,
                mininterval=_DRAWN,
                dynamic_ncols=True,
                file=_Lasting(self._stream),
            )
            return
        if unit is not None:
            self._bar.reset()
            self._bar.unit, self._bar.unit_scale = self._how["unit"], self._how["unit_scale"]
        self._resize(None if total is None else self._bar.n + total)
        self._bar.set_description(self._described(stage), refresh=False)
        self._show()

    def update(self, rows: int = 1) -> None:
        self._bar.update(rows)

    def tell(self, **facts: float | str | None) -> None:
        super().tell(**facts)
        self._show()

    def is_due(self) -> bool:
        now = time.monotonic()
        due = now - self._drawn >= _DRAWN
        self._drawn = now if due else self._drawn
        return due

    def done(self) -> None:
        self._resize(self._bar.n)

    def _show(self) -> None:
        self._bar.set_postfix_str(self._postfix, refresh=False)
        self._bar.update(0)

    def _resize(self, total: int | None) -> None:
        self._bar.total = total
        widgets = getattr(self._bar, "container", None)
        if widgets is not None and total:
            # Of a notebook, where tqdm looks at the total only at the beginning.
            widget = widgets.children[1]
            widget.max, widget.bar_style, widget.layout.width = total, "", None


class Lines(_Shown):
    """A line now and then, and one at the end, for what is not looked at while it grows."""

    def __init__(self, label: str, unit: str, stream: TextIO) -> None:
        super().__init__(label, unit)
        self._stream: TextIO | None = stream
        self._stage, self._n = "", 0
        self._total: int | None = None
        self._begun: float | None = None
        #: Since when rows are counted, or what else there is; and how many seconds after the beginning the next line comes.
        self._counted = 0.0
        self._next = _FIRST_LINE

    def __exit__(self, *_: object) -> None:
        if self._begun is not None:
            self._write()

    def begin(self, total: int | None, stage: str = "", unit: str | None = None) -> None:
        now = time.monotonic()
        if self._begun is None:
            self._begun = self._counted = now
        if unit is not None:
            self._unit, self._n, self._counted = unit, 0, now
        self._stage, self._total = stage, None if total is None else self._n + total

    def update(self, rows: int = 1) -> None:
        self._n += rows
        self._perhaps()

    def tell(self, **facts: float | str | None) -> None:
        super().tell(**facts)
        self._perhaps()

    def is_due(self) -> bool:
        return self._begun is not None and time.monotonic() - self._begun >= self._next

    def done(self) -> None:
        self._total = self._n

    def _perhaps(self) -> None:
        if self._begun is not None and self.is_due():
            elapsed = time.monotonic() - self._begun
            self._next = elapsed + min(elapsed, _LINE)
            self._write()

    def _write(self) -> None:
        line = tqdm.format_meter(
            self._n,
            self._total,
            time.monotonic() - self._counted,
            ncols=0,
            prefix=self._described(self._stage),
            postfix=self._postfix,
            **self._how,
        )
        if self._stream is not None and not _written(self._stream, line):
            # A fit of hours must not be lost to a log that has gone.
            self._stream = None


def _written(stream: TextIO, line: str) -> bool:
    """Whether there was somewhere to write a line to."""
    try:
        stream.write(f"{line}\n")
        # What stands in the place of stderr may have nothing but write().
        getattr(stream, "flush", lambda: None)()
    except (OSError, ValueError):
        # Full, gone, or closed meanwhile.
        return False
    return True


def _stream() -> TextIO | None:
    """Where to show anything; None where there is nothing, as without a console, or where it is closed."""
    stream = sys.stderr
    return None if stream is None or getattr(stream, "closed", False) else stream


def _is_terminal(stream: TextIO) -> bool:
    """Whether there is a screen with room for a bar: some that only seem to be one have no columns."""
    try:
        if not stream.isatty():
            return False
    except (AttributeError, OSError, ValueError):
        return False
    try:
        return os.get_terminal_size(stream.fileno()).columns > 0
    except (AttributeError, OSError, ValueError):
        # Somebody's own, who knows better.
        return True


def _notebook() -> Any:
    """tqdm's bar of widgets, where a notebook is there to show it; None elsewhere, where nothing of that is imported."""
    if not any(name in sys.modules for name in ("ipykernel.zmqshell", "IPython.utils._process_emscripten")):
        return None
    with warnings.catch_warnings():
        # Widgets that are missing are no reason to warn: lines do.
        warnings.simplefilter("ignore")
        from tqdm.autonotebook import tqdm as found
    return None if found is tqdm else found


def bar_of(label: str, unit: str, verbose: int) -> NoBar:
    """What shows how a fit goes: a bar in a terminal and in a notebook, lines elsewhere, nothing if it is not wanted."""
    stream = _stream() if verbose else None
    if stream is None:
        return NoBar()
    kind = _notebook()
    if kind is not None:
        return Bar(label, unit, kind, stream)
    return Bar(label, unit, tqdm, stream) if _is_terminal(stream) else Lines(label, unit, stream)


def say(text: str) -> None:
    """A line of its own, above the bar if there is one."""
    stream = _stream()
    if stream is None:
        return
    if _is_terminal(stream):
        tqdm.write(text, file=_Lasting(stream))
    else:
        _written(stream, text)
