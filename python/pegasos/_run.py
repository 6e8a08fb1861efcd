"""A trainer at work on the rows of a fit, and what is learned of it epoch by epoch."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pegasos._callbacks import Tasks
from pegasos._core import Fit
from pegasos._progress import NoBar, relative_gap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pegasos._core import Trainer
    from pegasos._data import Data


def cache_bytes(cache_size: float) -> int:
    """The bytes of so many MB; more than any machine has are as good as all."""
    return int(min(cache_size, 2**42) * 2**20)


@dataclass
class Run:
    """A trainer at work, and what a fit has learned of it."""

    trainer: Trainer
    seed: int
    epoch: int
    losses: list[float] = field(default_factory=list)
    objective: float = np.nan
    dual: float = np.nan
    #: Whether dual ascent has gone on where Pegasos was, in a fit that has ended.
    ascended: bool = False
    #: What trainers with kernels have recorded on the way.
    records: list[tuple[int, int, int, float]] = field(default_factory=list)
    #: The objective and its bound with each of the losses, nan where they were not evaluated.
    certificates: list[tuple[float, float]] = field(default_factory=list)
    bar: NoBar = field(default_factory=NoBar)
    tasks: Tasks = field(default_factory=Tasks)
    #: The attributes of the estimator if its fit ended with what this run has come to, for callbacks.
    as_if_over: Callable[[Run], dict[str, Any] | None] | None = None
    _fit: Fit | None = None
    #: Rows of an epoch of the fit at work; its epochs, at most; and how many losses there were before it.
    _rows: int = 0
    _most: int = 1
    _before: int = 0
    #: Of what is shown: visits and steps; and rows that Pegasos has met, and how many of them were mistaken.
    _visits: int = 0
    _steps: int = 0
    _seen: int = 0
    _wrong: int = 0

    @property
    def gap(self) -> float:
        return self.objective - self.dual

    @property
    def ascends(self) -> bool:
        """Whether dual ascent has taken over."""
        return self._fit is not None and self._fit.ascends

    @property
    def curves(self) -> tuple[list[float], list[float]]:
        """The objectives, and their bounds, with each of the losses."""
        unknown = [(np.nan, np.nan)] * (len(self.losses) - len(self.certificates))
        objectives, duals = zip(*self.certificates, *unknown, strict=True) if self.losses else ((), ())
        return list(objectives), list(duals)

    def with_trainer(self, trainer: Trainer) -> Run:
        """What is known by now, of a trainer that has come as far."""
        losses = self.losses + (self._fit.losses if self._fit is not None else [])
        found = replace(self, trainer=trainer, losses=losses, bar=NoBar(), tasks=Tasks(), as_if_over=None, _fit=None)
        return replace(found, records=self.records.copy(), certificates=self.certificates.copy())

    def begin(self, data: Data, order: str | np.ndarray, *, max_epochs: int = 1, **policy: Any) -> Fit:
        """Begins to train on these examples, as ``policy`` says: by default, to visit all of them once."""
        self.end()
        policy |= {"seed": self.seed, "first_epoch": self.epoch, "metric": data.metric}
        self._fit = Fit(self.trainer, data.examples, order, max_epochs=max_epochs, **policy)
        self._rows = data.n if isinstance(order, str) else len(order)
        self._most, self._before = max_epochs, len(self.losses)
        self.bar.begin(max_epochs * self._rows)
        return self._fit

    def epochs(self) -> Iterator[None]:
        """Goes on to the end, and looks up after every epoch."""
        fit, bar = self._fit, self.bar
        assert fit is not None
        self.objective = self.dual = np.nan
        progress = self._visited if bar.shows else None
        going = True
        while going:
            part = self.tasks.part("epoch") if self._may_go_on(fit) else Tasks()
            visited = self._visits
            going = fit.epoch(progress)
            self.objective, self.dual = fit.certificate
            if going:
                if bar.shows and self._visits == visited:
                    self._untold()
                self.certificates.append(fit.certificate)
                if self.trainer.made.kind != "linear":
                    # A step of dual ascent adds none: those of the epoch before are still there.
                    last = self.records[-1] if self.records else (0, 0, 0, 0.0)
                    self.records.extend(record for record in fit.records if record > last)
                if bar.is_due():
                    self._tell(fit)
                if self.end_of(part):
                    fit.stop()
                yield
            else:
                # Nothing but an evaluation, if anything.
                part.over()
                if len(self.certificates) > self._before:
                    self.certificates[-1] = fit.certificate
        if bar.shows:
            self._tell(fit)
        bar.done()

    def end_of(self, part: Tasks) -> bool:
        """Tells callbacks of the end of a part, and with what model; says whether one of them wants the fit to end."""
        told = self.as_if_over
        return part.over(None if told is None else lambda: told(self))

    def solved(self, primal: float, dual: float, loss: float) -> None:
        """A refit has ended so."""
        self.objective, self.dual = primal, dual
        self.losses.append(loss)
        self.certificates.append((primal, dual))
        self.bar.tell(loss=loss, gap=relative_gap(primal, dual))
        self.bar.done()

    def _may_go_on(self, fit: Fit) -> bool:
        """Whether another epoch comes, as far as can be said before."""
        unbounded = fit.ascends and self.trainer.made.kind != "linear"
        return fit.outcome is None and (unbounded or fit.epochs < self._most)

    def _visited(self, rows: int, mistakes: int) -> None:
        """Shows the rows that were visited, and the part of them that was right when it came: of Pegasos with one problem,
        as dual ascent counts no mistakes, and problems side by side count one for each."""
        fit = self._fit
        assert fit is not None
        made = self.trainer.made
        if not fit.ascends and (made.kind != "linear" or self.trainer.facts.width == 1):
            self._seen, self._wrong = self._seen + rows, self._wrong + mistakes
            self.bar.tell(accuracy=1.0 - self._wrong / self._seen)
        self._visits += rows
        self.bar.update(rows)

    def _untold(self) -> None:
        """Counts an epoch that has told of no visits: a short one of dual ascent, done at once; or with kernels a step, which
        visits no rows one by one."""
        if self.trainer.made.kind == "linear":
            self._visits += self._rows
            self.bar.update(self._rows)
            return
        if not self._steps:
            self.bar.begin(None, "dual ascent", "steps")
        self._steps += 1
        self.bar.update()

    def _tell(self, fit: Fit) -> None:
        """Shows what an epoch has brought."""
        losses = fit.losses
        if fit.ascends:
            self.bar.tell(accuracy=None)
        if losses:
            self.bar.tell(loss=losses[-1], gap=relative_gap(self.objective, self.dual))

    def end(self) -> None:
        """Ledger and dual variables speak of the rows of a fit alone: the trainer takes over what they have found."""
        fit = self._fit
        if fit is None:
            return
        fit.end()
        losses, epoch = self.losses + fit.losses, self.epoch + fit.epochs
        # Of an epoch that was interrupted at its very end there is a loss alone.
        certificates = self.certificates + [(np.nan, np.nan)] * (len(losses) - len(self.certificates))
        # At once: whoever is interrupted before does all of it again.
        self.losses, self.certificates, self.ascended, self.epoch, self._fit = losses, certificates, fit.ascends, epoch, None
