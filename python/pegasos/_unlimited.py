"""Kernel machines without a budget: certificates, and dual ascent to the exact solution."""

from __future__ import annotations

import numpy as np
from scipy.sparse import issparse

from pegasos._base import Run, Watch, warn_of_gap
from pegasos._budget import Room
from pegasos._core import KernelTrainer
from pegasos._data import Data, is_positive, thread_count

#: Steps of dual ascent within which the dual must rise by a thousandth of the gap.
_PATIENCE = 100

#: Epochs without progress that end a fit without a certificate.
_PATIENCE_OF_EPOCHS = 5

#: Sparse kernel matrices of more rows are not looked at as a whole.
_MOST_DENSE = 16384


class Unlimited(Room):
    """Every violator becomes a support vector, known by the number of its row."""

    trainer_type = KernelTrainer

    def run_epochs(self, run: Run, data: Data, *, certify: bool) -> None:
        machine = self.machine
        order = machine._order(data.n)
        obstacle = machine._dual_obstacle() if certify else "warm_start=True"
        run.trainer.check(data.rows, data.labels)
        positive = certify and self._is_positive(run, data)
        if not (obstacle or positive):
            obstacle = f"kernel={machine.kernel!r}, which is not known to be positive semi-definite"
        machine._refuse_dual(obstacle)
        threads = thread_count(machine.n_jobs)
        may_rise = machine.solver != "pegasos" and not obstacle
        cache = int(machine.cache_size * 2**20)
        if certify:
            epochs = 1 if may_rise else machine.max_iter
            ledger = positive and machine._has_certificate() and (machine.tol is not None or may_rise)
            run.trainer.number_rows(data.n, ledger, cache if epochs > 1 else 0)
        else:
            self.meet_others(run)
        certify = positive and machine._has_certificate()
        tol = machine.tol or 0.0
        watch = Watch(tol, _PATIENCE_OF_EPOCHS)
        with machine._bar(data.n * machine.max_iter) as bar:
            if not (may_rise and machine.solver == "dual"):
                for n_iter in range(1, machine.max_iter + 1):
                    run.epoch_over(data, order, threads, machine._progress(bar))
                    if may_rise:
                        break
                    last = n_iter == machine.max_iter
                    if machine.tol is None:
                        continue
                    over = not certify and watch.is_over(run.losses[-1])
                    if not (certify or last or over):
                        continue
                    run.objective, run.dual = run.trainer.evaluate(
                        data.rows, data.labels, threads=threads
                    )
                    bar.set_postfix(
                        objective=f"{run.objective:.6g}", gap=f"{run.gap:.2g}", refresh=False
                    )
                    if over or (certify and run.gap <= tol * run.objective):
                        bar.total = bar.n
                        return
                else:
                    if certify and machine.tol is not None and machine.max_iter > 1:
                        after = f"max_iter={machine.max_iter} epochs"
                        warn_of_gap(after, tol, run, True, stacklevel=6)
            if not may_rise:
                return
            # Only this needs the rows again, once more when it ends.
            run.data, run.rising = data, True
            run.trainer.begin_dual(data.rows, data.labels, cache, threads=threads)
            before = -np.inf
            while True:
                run.objective, run.dual, loss = run.trainer.ascend(
                    data.rows, data.labels, tol, threads=threads
                )
                run.losses.append(loss)
                bar.set_postfix(
                    objective=f"{run.objective:.6g}", gap=f"{run.gap:.2g}", refresh=False
                )
                if run.gap <= tol * run.objective:
                    return
                if len(run.losses) % _PATIENCE:
                    continue
                # The objective may go up and down, the dual only up.
                before, stalled = run.dual, run.dual - before <= 1e-3 * run.gap
                if stalled:
                    after = f"{_PATIENCE} steps of dual ascent without progress"
                    warn_of_gap(after, tol, run, True, stacklevel=6)
                    return

    def _is_positive(self, run: Run, data: Data) -> bool:
        """Whether the kernel is known to be an inner product, as dual values need it."""
        machine = self.machine
        if machine.kernel in ("linear", "rbf"):
            return True
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

    def settle(self, run: Run) -> None:
        if run.rising and run.data is not None:
            run.trainer.end_dual(run.data.rows, run.data.labels)
        run.trainer.forget_ledger()
