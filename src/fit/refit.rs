//! Problems in a span, one after the other, by instalments.

use super::{Ascent, Course, Event, FAR, Policy, Problem, Progress, Solver};
use crate::error::Error;
use crate::examples::Examples;
use crate::ledger::Certificate;
use crate::loss::Loss;
use crate::order::Order;
use crate::refit::Refit;
use crate::scalar::Scalar;

/// Epochs of dual ascent for a problem, at most; more of few examples. Where so many do not do, lambda is too small for the
/// data.
#[cfg(feature = "python")]
pub(crate) fn most_epochs(n_examples: usize) -> usize {
    300.max(2_000_000 / n_examples.max(1))
}

/// The relative gap where none is asked for, and on the way through several lambda, of which accuracy chooses.
#[cfg(feature = "python")]
pub(crate) const ROUGH: f64 = 1e-2;
#[cfg(feature = "python")]
pub(crate) const ROUGHER: f64 = 1e-1;

/// As so many epochs a solution counts, at least: with as few as its visits, in trials, the steps after it undid it.
#[cfg(feature = "python")]
const WORTH: u64 = 100;

/// How many steps more a solution is worth for a trainer that has made `t`, so that those to come are so short that they
/// spoil nothing.
#[cfg(feature = "python")]
pub(crate) fn worth(visits: u64, n_examples: usize, t: u64) -> u64 {
    visits.max((WORTH * n_examples as u64).saturating_sub(t))
}

/// What is known of the problems of a [`Refit`] that are being solved.
pub(crate) struct Solving {
    policy: Policy,
    course: Course,
    /// The problem at hand, and whether it is begun.
    problem: usize,
    begun: bool,
    /// Certificates and mean losses of those before, summed, and the most visits that any took.
    pub(crate) sum: Event,
    visits: u64,
}

impl Solving {
    /// To the relative gap `tol`, or for so many epochs.
    pub(crate) fn new(tol: f64, max_epochs: usize, seed: u64) -> Self {
        let policy =
            Policy { solver: Solver::Auto, tol: Some(tol), max_epochs, seed, ..Policy::default() };
        let certificate = Certificate { primal: 0.0, dual: 0.0 };
        let sum = Event { loss: 0.0, certificate, visits: 0 };
        Solving { policy, course: Course::new(policy), problem: 0, begun: false, sum, visits: 0 }
    }

    /// Does about so many rows' work: how many were visited, and whether a part of another kind comes next; `None` when
    /// all problems are solved, or as good as allowed.
    pub(crate) fn advance<S: Scalar, L: Loss + Clone + Send>(
        &mut self,
        refit: &mut Refit<S, L>,
        data: &Examples<'_, S>,
        size: usize,
    ) -> Result<Option<(usize, bool)>, Error> {
        if self.problem == refit.problems() {
            return Ok(None);
        }
        if !std::mem::replace(&mut self.begun, true) {
            refit.turn_to(self.problem);
        }
        let mut none = |_| -> Result<Box<dyn Order + Send>, Error> { Ok(Box::new(0..0)) };
        match self.course.advance(refit, data, &mut none, size)? {
            Progress::Going { rows, anew } => Ok(Some((rows, anew))),
            Progress::Epoch(event) => {
                self.visits += event.visits;
                Ok(Some((0, true)))
            }
            Progress::Over(_) => {
                // As the evaluation has left it.
                self.sum.loss += refit.ascent().mean_loss();
                self.sum.certificate += self.course.event().certificate;
                self.sum.visits = self.sum.visits.max(self.visits);
                self.visits = 0;
                (self.problem, self.begun) = (self.problem + 1, false);
                self.course = Course::new(self.policy);
                Ok(Some((0, true)))
            }
        }
    }
}

impl<S: Scalar, L: Loss + Clone + Send> Refit<S, L> {
    /// Passes until the certified relative gap of every problem is at most `tol`, or for `max_epochs` times as many visits
    /// as there are examples; the sums of their certificates.
    pub fn solve(
        &mut self,
        data: &Examples<'_, S>,
        tol: f64,
        max_epochs: usize,
        seed: u64,
    ) -> Result<Certificate, Error> {
        let mut solving = Solving::new(tol, max_epochs, seed);
        while solving.advance(self, data, usize::MAX)?.is_some() {}
        Ok(solving.sum.certificate)
    }
}

impl<S: Scalar, L: Loss + Clone + Send> Problem<S> for Refit<S, L> {
    fn lambda(&self) -> f64 {
        self.ascent().lambda()
    }

    fn only_ascends(&self) -> bool {
        true
    }

    fn certifies(&self) -> bool {
        true
    }

    fn may_ascend(&self) -> bool {
        true
    }

    fn evaluate(
        &mut self,
        data: &Examples<'_, S>,
        tol: f64,
        all: bool,
        size: usize,
    ) -> Result<Option<Certificate>, Error> {
        if !all && !self.is_evaluating() && !self.ascent().may_be_solved(tol) {
            return Ok(Some(super::UNKNOWN));
        }
        self.certify_on(data, size)
    }

    fn ascend(
        &mut self,
        data: &Examples<'_, S>,
        policy: &Policy,
        size: usize,
    ) -> Result<Ascent, Error> {
        if self.prepare(data, size)? > 0 {
            return Ok(Ascent::Going { rows: 0, anew: false });
        }
        let report = self.advance(data, size, policy.seed)?;
        let rows = report.examples as usize;
        self.visits += report.examples;
        if rows > 0 {
            return Ok(Ascent::Going { rows, anew: false });
        }
        if self.ascent_mut().epoch_is_over(policy.tol.unwrap_or(0.0)) {
            let (loss, visits) = (self.ascent().mean_loss(), std::mem::take(&mut self.visits));
            return Ok(Ascent::Epoch { loss, visits, certificate: None });
        }
        // What follows a narrow pass is slower.
        Ok(Ascent::Going { rows: 0, anew: self.ascent().narrows() })
    }

    fn leap(&mut self, data: &Examples<'_, S>, tol: f64) -> Result<bool, Error> {
        if self.leap.is_none() && self.ascent().may_be_solved(FAR * tol) {
            return Ok(false);
        }
        self.go_on_leaping(data, tol)
    }
}
