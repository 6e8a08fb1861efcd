//! What a step is made of: its gradient, the shrinking of w, the gradients that arrive, its end.

use super::{Report, Trainer};
use crate::data::Row;
use crate::error::Error;
use crate::examples::Examples;
use crate::feasible::Feasible;
use crate::hypothesis::Hypothesis;
use crate::loss::Loss;
use crate::params::{Average, Params};
use crate::scalar::all_finite;
use crate::schedule::Schedule;

impl<H: Hypothesis, L: Loss, F: Feasible<H>> Trainer<H, L, F> {
    /// Takes the gradient of a row at the present w: writes its scores, and its coefficients times its weight. False where
    /// these are 0; a plain loop, which has no use for them then, may find them as they were. What is to be done `meanwhile`
    /// does not wait for the scores.
    #[inline(always)]
    pub(super) fn take<const PLAIN: bool>(
        &mut self,
        i: usize,
        row: Row<'_, H::Scalar>,
        data: &Examples<'_, H::Scalar>,
        (scores, coef): (&mut L::Scores, &mut L::Scores),
        report: &mut Report,
        meanwhile: impl FnOnce(),
    ) -> Result<bool, Error> {
        let y = data.check_label(i, self.loss.classes())?;
        self.hypothesis.score_next(i, row, scores.as_mut());
        meanwhile();
        if !all_finite(scores.as_ref()) {
            return Err(data.diagnose(i));
        }
        let loss = if PLAIN {
            let Some(loss) = self.loss.unmet(scores.as_ref(), y, coef.as_mut()) else {
                return Ok(false);
            };
            loss
        } else {
            self.loss.value_and_coef(scores.as_ref(), y, coef.as_mut())
        };
        let weight = data.weight(i);
        if H::KEEPS_ROWS && weight != 0.0 && coef.as_ref().iter().any(|&c| c != 0.0) {
            data.check_row(i)?;
        }
        if let Some(ledger) = &mut self.ledger {
            ledger.promise(coef.as_ref())?;
        }
        report.mistakes += u64::from(self.loss.errs(scores.as_ref(), y, loss, self.at_zero));
        let loss = weight * loss;
        report.loss += loss;
        coef.as_mut().iter_mut().for_each(|c| *c *= weight);
        let moves = coef.as_ref().iter().any(|&c| c != 0.0);
        if let Some(regret) = self.regret.as_mut().filter(|_| !PLAIN) {
            let norm = self.hypothesis.gradient_norm(i, row, coef.as_ref());
            regret.take(self.params.lambda / 2.0 * self.hypothesis.norm2() + loss, norm);
        }
        Ok(moves)
    }

    /// Enters the coming step into the regret's account. `fresh` holds the scores and coefficients of
    /// the gradient that arrives, if it was taken at the present w.
    #[inline(never)]
    pub(super) fn count_regret(&mut self, fresh: Option<(&[f64], &[f64])>, arriving: usize) {
        let Params { lambda, schedule, t0, .. } = self.params;
        let norm2 = self.hypothesis.norm2();
        let Some(regret) = &mut self.regret else {
            return;
        };
        let g = regret.arriving(arriving);
        let d = match fresh {
            Some((scores, coef)) => {
                let cross: f64 = scores.iter().zip(coef).map(|(s, c)| s * c).sum();
                (lambda * lambda * norm2 - 2.0 * lambda * cross + g * g).max(0.0).sqrt()
            }
            None => lambda * norm2.sqrt() + g,
        };
        regret.step(schedule.eta(lambda, t0 + (self.t + 1) as f64), lambda, d, arriving);
    }

    /// Begins a step: shrinks w, and returns the step size.
    #[inline(always)]
    pub(super) fn shrink(&mut self) -> f64 {
        self.t += 1;
        let Params { lambda, schedule, t0, .. } = self.params;
        // Signed: one instruction, where an unsigned number takes five.
        let s = t0 + self.t as i64 as f64;
        if self.plain {
            let eta = Schedule::Pegasos.eta(lambda, s);
            self.hypothesis.set_scale(eta);
            return eta;
        }
        let eta = schedule.eta(lambda, s);
        self.hypothesis.scale(schedule.keeps(lambda, s, eta));
        eta
    }

    /// Adds a gradient that arrives, `LATE` if it was taken in an earlier run; and counts what the budget takes from w for it.
    #[inline(always)]
    pub(super) fn apply<const LATE: bool>(
        &mut self,
        i: usize,
        row: Row<'_, H::Scalar>,
        coef: &mut [f64],
        eta: f64,
        report: &mut Report,
    ) {
        if let Some(ledger) = &mut self.ledger {
            ledger.record(i, coef);
        }
        if self.plain {
            self.hypothesis.add_to_sum(i, row, coef, LATE);
        } else {
            coef.iter_mut().for_each(|c| *c *= eta);
            match LATE {
                true => self.hypothesis.add_late(i, row, coef),
                false => self.hypothesis.add(i, row, coef),
            }
        }
        let degraded = self.hypothesis.degraded();
        if degraded > 0.0 {
            report.degradation += degraded;
            report.gradient_error += degraded.sqrt() / eta;
        }
    }

    /// Ends a step, which has `moved` w by a gradient or not.
    #[inline(always)]
    pub(super) fn project_and_average(&mut self, moved: bool) {
        self.params.set.project(&mut self.hypothesis);
        self.updates += u64::from(moved);
        if self.params.average == Average::None || self.t < self.params.average_from {
            return;
        }
        let k = self.params.average_count(self.t) as f64;
        match self.params.average {
            Average::Recent { window } if moved => self.average_recent(window),
            Average::Recent { .. } => {}
            Average::Polynomial => self.hypothesis.average(k * (k + 1.0) * (k + 2.0)),
            _ => self.hypothesis.average(1.0),
        }
    }

    /// Moves the mean by 1/W of the way to w.
    fn average_recent(&mut self, window: u64) {
        let updates = self.params.schedule.remembered(self.updates, self.t);
        let window = (updates / 8).min(window).max(1) as f64;
        let sum = self.hypothesis.average_weight();
        if window == 1.0 || sum == 0.0 {
            self.hypothesis.set_average_weight(0.0);
            return self.hypothesis.average(1.0);
        }
        self.hypothesis.average(sum / (window - 1.0));
        // Weights are relative; they must only not overflow.
        if sum > 1e100 {
            self.hypothesis.set_average_weight(1.0);
        }
    }
}
