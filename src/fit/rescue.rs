//! What to do where dual ascent gets nowhere: no model shall be worse than a few epochs of averaged Pegasos.
//!
//! Features of very different scales, and too many of them for a leap, leave dual ascent at a gap of all of the objective:
//! on 10,000 raw images of digits (mnist, 784 pixels of 0 to 255, squared hinge, one class against the rest at C = 1) 100
//! epochs end at an objective of 0.84 and 83.6% of test rows right, ten epochs of averaged Pegasos, in a tenth of the time,
//! at 0.70 and 90.2%. So the last epochs are of that, and of each problem the w whose objective is lower is the model.

use super::results::Handed;
use super::{Course, LinearProblems, Outcome, Policy, Progress, Solver, State, UNKNOWN};
use crate::error::Error;
use crate::ledger::Certificate;
use crate::linear::Linear;
use crate::loss::Loss;
use crate::params::{Average, Params};
use crate::scalar::Scalar;
use crate::trainer::Trainer;

/// Epochs of averaged Pegasos, where there are as many of dual ascent before.
pub(super) const EPOCHS: usize = 10;

/// Where dual ascent had come to when it was given up.
#[derive(Clone, Debug)]
pub(super) struct Fallback<S: Scalar> {
    pub certificate: Certificate,
    /// The objective of what averaged Pegasos has found, once it is known.
    pub rival: f64,
    w: Linear<S>,
    params: Params,
    t: u64,
    updates: u64,
}

impl<S: Scalar> Fallback<S> {
    /// The better of the two: dual values bound both.
    pub fn best(&self) -> Certificate {
        Certificate { primal: self.certificate.primal.min(self.rival), ..self.certificate }
    }
}

impl<S: Scalar, L: Loss + Clone> LinearProblems<S, L> {
    /// Puts averaged Pegasos in the place of dual ascent.
    pub(super) fn rescue(&mut self) -> Result<(), Error> {
        self.handed = Handed::default();
        for part in &mut self.parts {
            let Some(dual) = part.dual.take() else {
                continue;
            };
            let (loss, params) = (part.trainer.loss().clone(), *part.trainer.params());
            let w = dual.result::<S>();
            let mean = Params { average: Average::Polynomial, average_from: 1, ..params };
            let zero = Linear::new(loss.outputs(), w.n_features(), w.constant())?;
            let t = part.trainer.t() + self.climbed * dual.len() as u64;
            let (updates, rival) = (part.trainer.updates(), f64::NAN);
            let certificate = part.solved.take().unwrap_or(part.last);
            part.fallback = Some(Fallback { certificate, rival, w, params, t, updates });
            part.trainer = Trainer::new(zero, loss, mean)?;
        }
        Ok(())
    }

    /// Ends that: every trainer gets the better w.
    pub(super) fn end_rescue(&mut self) -> Result<(), Error> {
        for part in &mut self.parts {
            let Some(fallback) = part.fallback.take() else {
                continue;
            };
            let better = fallback.rival < fallback.certificate.primal;
            let w = if better { part.trainer.result() } else { fallback.w };
            let loss = part.trainer.loss().clone();
            let (t, updates) =
                (fallback.t + part.trainer.t(), fallback.updates + part.trainer.updates());
            part.trainer = Trainer::resume(w, loss, fallback.params, t)?;
            part.trainer.set_updates(updates);
        }
        Ok(())
    }
}

impl Course {
    /// Whether just as many epochs are left as averaged Pegasos needs where dual ascent has got nowhere.
    pub(super) fn may_give_up(&self) -> bool {
        let Policy { solver, max_epochs, .. } = self.policy;
        let half = max_epochs >= 2 * EPOCHS;
        half && self.ascending && solver == Solver::Auto && self.epochs == max_epochs - EPOCHS
    }

    /// The steps of averaged Pegasos have left the range of the numbers: it is as if there had been none.
    pub(super) fn end_of_rescue(&mut self) -> Progress {
        self.event.certificate = self.given_up.unwrap_or(UNKNOWN);
        self.state = State::Over(Outcome::Exhausted);
        Progress::Epoch(self.event)
    }
}
