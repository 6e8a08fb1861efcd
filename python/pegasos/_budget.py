"""How many support vectors a machine may have, and what a budget of them changes."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from pegasos._data import Data, as_data, scale_advice
from pegasos._machine import CONSTANT, KernelMachine, variance_by_norms
from pegasos._run import Run
from pegasos._threads import thread_count

if TYPE_CHECKING:
    from pegasos._core import Trainer
    from pegasos._stream import Stream

#: How much the exponents of a Gaussian kernel may be wrong by rounding.
_LOST = 1e-3

#: How many times as much of an objective was lost in trials as independent roundings of all kernel values would hide.
_WORST = 4.0

#: An average of recent iterates reaches back this many updates where nothing bounds it.
_UNBOUNDED = 2**62


def budget_bound(error: Any, alpha: float) -> Any:
    """What mean gradient errors add to the bound on the mean objective over the steps: Theorem 1."""
    return 2.0 * error / float(alpha) ** 0.5


class Room(ABC):
    """How many support vectors a machine may have, and what follows from that for its training."""

    #: Whether the compiled trainer is one whose support vectors are bounded in number.
    bounded: ClassVar[bool]

    def __init__(self, machine: BudgetedMachine) -> None:
        self.machine = machine

    def check_kernel(self) -> None:
        """Refuses a kernel that does not go with it."""

    def limits(self) -> dict[str, Any]:
        """The most support vectors, and how many updates an average of recent iterates reaches back."""
        return {"budget": None, "window": _UNBOUNDED}

    @abstractmethod
    def most_parts(self) -> int | None:
        """How many epochs and refits there are at most; None where that shows on the way."""

    @abstractmethod
    def run_epochs(self, run: Run, data: Data, *, certify: bool) -> None:
        """Trains on all rows; ``certify`` where training begins with them, as a certificate needs it."""

    def meet_others(self, run: Run) -> None:
        """From here on the rows are not those of the fit before."""


class Budget(Room):
    """There is a bound: a number, or what Projectron's threshold leaves. No certificate, until a refit."""

    bounded = True

    def check_kernel(self) -> None:
        budget, kernel = self.machine._choice("budget"), self.machine.kernel
        if self.machine._choice("fit_intercept"):
            raise ValueError(
                f"fit_intercept=True does not go with budget={budget}: support vectors on a budget have none; use "
                "fit_intercept='auto' or False"
            )
        if not isinstance(kernel, str) or kernel == "precomputed":
            raise ValueError(
                f"budget={budget} needs a kernel of features, as support vectors outlive the "
                f"matrix that they come from, got kernel={kernel!r}"
            )
        if self.machine._choice("maintenance") == "merge" and kernel != "rbf":
            raise ValueError(
                f"maintenance='merge' needs kernel='rbf', got kernel={kernel!r}; "
                "'project' and 'remove' take any"
            )

    def limits(self) -> dict[str, Any]:
        if self.machine._choice("budget") is None:
            return super().limits()
        budget = int(self.machine._choice("budget"))
        # Errors that maintenance has made long ago are to be forgotten. Vectors that were removed are not part
        # of the average either, so where they are, it must be short to do no harm.
        removes = self.machine._choice("maintenance") in ("remove", "random")
        return {"budget": budget, "window": max(1, budget // 20) if removes else 2 * budget}

    def run_epochs(self, run: Run, data: Data, *, certify: bool) -> None:
        machine = self.machine
        order = machine._order(data.n)
        machine._refuse_dual(f"budget={machine._choice('budget')}" if certify else "warm_start=True")
        refine, rounds = self._refits()
        for left in reversed(range(rounds)):
            self._place(run, data, order)
            if refine and run.trainer.facts.spans:
                last = left == 0
                alphas = machine._strengths(data) if last else np.array([machine._choice("alpha")])
                machine._solve(run, data, alphas, last=last, stacklevel=7)

    def most_parts(self) -> int:
        refine, rounds = self._refits()
        return rounds * (int(self.machine.max_iter) + refine)

    def _refits(self) -> tuple[bool, int]:
        """Whether a refit follows when the vectors are placed, and how often they are."""
        machine = self.machine
        # It would give all examples the same weight again.
        refine = bool(machine._choice("refine")) and machine._choice("half_life") is None
        return refine, int(machine._choice("refine_rounds")) if refine else 1

    def _place(self, run: Run, data: Data, order: str | np.ndarray) -> None:
        """Epochs until the mean loss stops falling."""
        machine = self.machine
        data.examples.check()
        run.begin(
            data,
            order,
            tol=machine.tol,
            max_epochs=machine.max_iter,
            threads=thread_count(machine.n_jobs),
            **machine._recording(),
        )
        for _ in run.epochs():
            pass
        run.end()


class BudgetedMachine(KernelMachine):
    """A kernel machine that may have a budget, and what it has to tell of that."""

    budget: int | str | None
    history: int | None
    _records: list[tuple[int, int, int, float]]

    @property
    @abstractmethod
    def _room(self) -> Room:
        """What asks whether there is a budget, so that nobody else need."""

    @property
    def mean_gradient_error_(self) -> float:
        """What the budget has cost, per step: the mean of ``||dw||/eta``."""
        check_is_fitted(self)
        if self._trainer.made.kind != "budget":
            return 0.0
        facts = self._trainer.facts
        return facts.gradient_error / facts.steps if facts.steps else 0.0

    @property
    def history_(self) -> dict[str, np.ndarray]:
        """What was recorded every ``history`` examples."""
        check_is_fitted(self)
        if self.history is None:
            raise AttributeError("history_ is recorded only where history says how often")
        t, examples, mistakes, error = np.array(self._records, float).reshape(-1, 4).T
        return {
            "t": t.astype(np.int64),
            "accuracy": 1.0 - mistakes / examples,
            "mean_gradient_error": error / t,
        }

    # -- training

    @property
    def _bounded(self) -> bool:
        return self._room.bounded

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
        if reset and self.budget != "auto":
            self._decided = {}
            self._room.check_kernel()
        data, classes = super()._examples(X, y, sample_weight, classes, reset=reset, stream=stream)
        if reset and data.X.dtype == np.float32:
            gamma = self._rough_width(data)
            if self._loses_distances(data, gamma) or (stream is None and self._loses_sums(data, gamma)):
                data = as_data(data.X.astype(np.float64), data.codes, data.weight)
        return data, classes

    def _loses_sums(self, data: Data, gamma: float) -> bool:
        """Whether coefficients that may be as large as C make more than ``tol`` of the roundings of float32 kernel values.

        ``||w||^2`` is a sum of kernel values times two coefficients: where as many are C as -C little but the roundings may be left.
        """
        # C = 1, or nothing that is solved for.
        moderate = isinstance(getattr(self, "alpha", "auto"), str)
        if moderate or data.metric is not None or self.kernel not in ("linear", "poly", "rbf", "sigmoid"):
            return False
        heaviest = 1.0 if data.weight is None else float(data.weight.max())
        if heaviest <= (of_one := float(self.alpha) * data.n):
            return False
        with np.errstate(over="ignore"):
            # Of two rows as of one with itself.
            size = np.float64(data.norms().mean())
            if self.kernel == "poly":
                size = (gamma * size + self.coef0) ** self.degree
            elif self.kernel != "linear":
                # The exponent is a difference of larger numbers.
                size = 1.0 + 2.0 * gamma * size
            # It may yet be decided.
            size += CONSTANT**2 if getattr(self, "fit_intercept", False) else 0.0
            # The mean square of the roundings, times alpha/2 n C^2.
            lost = float(np.finfo(np.float32).eps / 4.0 * size * heaviest / of_one)
        # Who asks for less than float32 has is told so by the fit.
        return _WORST * lost > (_LOST if self.tol is None else max(float(self.tol), _LOST / 10.0))

    def _loses_distances(self, data: Data, gamma: float) -> bool:
        """Whether the rows are so far from 0 that, in their precision, a Gaussian kernel does not know how far they are apart."""
        if self.kernel != "rbf" or data.metric is not None:
            return False
        with np.errstate(over="ignore"):
            rounding = np.finfo(data.X.dtype).eps * float(data.norms().max(initial=0.0))
            return gamma * rounding > _LOST

    def _rough_width(self, data: Data) -> float:
        """The kernel's gamma, in a sixth of the time: right to a few per cent where float32 has not lost the distances."""
        if self.kernel != "rbf" or self.gamma != "scale":
            return self._width(data)
        with np.errstate(all="ignore"):
            variance = variance_by_norms(data)
        return 1.0 / (data.X.shape[1] * variance) if variance > 0.0 else 1.0

    def _make_trainer(self, data: Data, n_classes: int) -> Trainer:
        self._room.check_kernel()
        self._records = []
        return super()._make_trainer(data, n_classes)

    def _params(self, data: Data) -> dict[str, Any]:
        params = super()._params(data) | {"maintenance": self._choice("maintenance")}
        return params | self._room.limits()

    def _most_parts(self) -> int | None:
        most = self._room.most_parts()
        return None if most is None else most + (self.calibration is not None)

    def _recording(self) -> dict[str, Any]:
        return {} if self.history is None else {"every": int(self.history)}

    def _run_epochs(self, run: Run, data: Data, held_out: Data | None, *, certify: bool) -> None:
        self._room.run_epochs(run, data, certify=certify)
        if certify and isinstance(self.gamma, str) and self.kernel in ("rbf", "poly", "sigmoid"):
            # Now that all rows have been looked at.
            advice = self._advice(data)
            if advice is not None:
                warnings.warn(f"{advice}, or give gamma as a number.", UserWarning, stacklevel=5)
        if certify and self._loses_distances(data, self._gamma):
            warnings.warn(
                "The rows of X are so far from 0 that rounding hides how far they are from one another; "
                "centre the features (StandardScaler), or make gamma smaller.",
                UserWarning,
                stacklevel=5,
            )

    def _advice(self, data: Data) -> str | None:
        """What to say of the scale of the features."""
        return scale_advice(data.X)

    def _of_fold(self) -> Any:
        # Of the same kind, though a fold may have so few rows that "auto" would make another machine.
        return super()._of_fold().set_params(budget=self._choice("budget"))

    def _meet_others(self, run: Run) -> None:
        self._room.meet_others(run)

    def _note(self, run: Run, classes: np.ndarray) -> None:
        super()._note(run, classes)
        self._records = [*getattr(self, "_records", []), *run.records]

    def _extra(self) -> dict[str, Any]:
        return super()._extra() | {"records": [list(record) for record in self._records]}

    def _check_restored(self, extra: dict[str, Any]) -> None:
        self._records = [
            (int(t), int(examples), int(mistakes), float(error))
            for t, examples, mistakes, error in extra["records"]
        ]
        super()._check_restored(extra)
