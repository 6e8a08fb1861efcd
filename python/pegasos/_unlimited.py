"""Kernel machines without a budget: certificates, and dual ascent to the exact solution."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scipy.sparse import issparse

from pegasos._base import warn_of_gap
from pegasos._budget import Room
from pegasos._data import Data, is_positive
from pegasos._run import Run, cache_bytes
from pegasos._threads import thread_count

if TYPE_CHECKING:
    from pegasos._core import Fit

#: Sparse kernel matrices of more rows are not looked at as a whole.
_MOST_DENSE = 16384

#: The least cache of dual ascent, in MB, as far as there are as many kernel values: room for a working set of 2,048 examples. With
#: less, 10,000 noisy rows at C = 100 came to a standstill far from the optimum (4 MB: a gap of 0.98, 32 MB: 0.75, 64 MB: 9e-4).
_LEAST_CACHE = 64

#: A relative gap for which the roundings of kernel values in single precision may be to blame.
_SINGLE = 1e-5


class Unlimited(Room):
    """Every violator becomes a support vector, known by the number of its row."""

    bounded = False

    def most_parts(self) -> int | None:
        # Dual ascent takes as many steps as it takes.
        return int(self.machine.max_iter) if self.machine.solver == "pegasos" else None

    def begin(self, run: Run, data: Data, *, certify: bool) -> tuple[Fit, bool]:
        """Begins a fit; says whether there is a certificate."""
        machine = self.machine
        order = machine._order(data.n)
        obstacle = machine._dual_obstacle() if certify else "warm_start=True"
        data.examples.check()
        positive = certify and self._is_positive(run, data)
        if not (obstacle or positive):
            obstacle = f"kernel={machine.kernel!r}, which is not known to be positive semi-definite"
        machine._refuse_dual(obstacle)
        if not certify and isinstance(machine.kernel, str) and machine.kernel != "precomputed":
            self.meet_others(run)
        elif not certify:
            # Kernel values are those of the rows of the first fit.
            run.trainer.meet_rows_again(data.n)
        certified = positive and machine._has_certificate()
        fit = run.begin(
            data,
            order,
            solver="pegasos" if obstacle else machine.solver,
            tol=machine.tol,
            max_epochs=machine.max_iter,
            cache=cache_bytes(max(machine.cache_size, _LEAST_CACHE)),
            certify=certified,
            going_on=not certify,
            threads=thread_count(machine.n_jobs),
            **machine._recording(),
        )
        return fit, certified

    def run_epochs(self, run: Run, data: Data, *, certify: bool) -> None:
        machine = self.machine
        fit, certified = self.begin(run, data, certify=certify)
        for _ in run.epochs():
            pass
        if fit.outcome == "stalled":
            after = "steps of dual ascent without progress"
            advice = "Scale the features (StandardScaler), or increase alpha or tol"
            if data.n**2 * data.X.dtype.itemsize > cache_bytes(machine.cache_size):
                advice = f"Increase cache_size, of which there are {machine.cache_size:g} MB; scale the features, or increase alpha or tol"
            if run.trainer.made.dtype == "float32" and run.gap <= _SINGLE * run.objective:
                advice = "Kernel values of float32 rows tell no more; use float64, or increase tol"
            warn_of_gap(after, machine.tol or 0.0, run, True, advice=advice, stacklevel=6)
        if fit.outcome == "exhausted" and certify and machine.tol is not None:
            after = f"max_iter={machine.max_iter} epoch{'s' if machine.max_iter > 1 else ''}"
            other = "Use solver='auto', or increase" if certified else "Increase"
            advice = f"{other} max_iter, alpha or tol; tol=None asks nothing"
            warn_of_gap(after, machine.tol, run, certified, advice=advice, stacklevel=6)

    def _is_positive(self, run: Run, data: Data) -> bool:
        """Whether the kernel is known to be an inner product, as dual values need it."""
        machine = self.machine
        if machine.kernel == "linear":
            return True
        if machine.kernel == "rbf":
            return not machine._loses_distances(data, machine._gamma)
        if machine.kernel in ("poly", "sigmoid"):
            return bool(machine.kernel == "poly" and machine.coef0 >= 0.0)
        if machine.tol is None and machine.solver == "pegasos":
            return False  # Nobody asks.
        if issparse(data.X):
            if data.n > _MOST_DENSE:
                return False
            data.norms()
        positive = is_positive(data.X.toarray() if issparse(data.X) else data.X)
        if positive:
            run.trainer.assume_positive()
        return positive

    def meet_others(self, run: Run) -> None:
        run.trainer.forget_rows()
