//! Problems in a span, by instalments.

use super::leaps::{is_soon, leap_after};
use super::{Ascent, Course, Event, FAR, Outcome, Policy, Problem, Progress, Solver};
use crate::error::Error;
use crate::examples::Examples;
use crate::ledger::Certificate;
use crate::loss::Loss;
use crate::order::Order;
use crate::refit::{Refit, Within};
use crate::scalar::Scalar;
use crate::threads::side_by_side;

/// Epochs of dual ascent for a problem, at most; more of few examples. Where so many do not do, lambda is too small for the
/// data.
#[cfg(feature = "files")]
pub(crate) fn most_epochs(n_examples: usize) -> usize {
    300.max(2_000_000 / n_examples.max(1))
}

/// The relative gap where none is asked for, and on the way through several lambda, of which accuracy chooses.
#[cfg(feature = "files")]
pub(crate) const ROUGH: f64 = 1e-2;
#[cfg(feature = "python")]
pub(crate) const ROUGHER: f64 = 1e-1;

/// As so many epochs a solution counts, at least: with as few as its visits, in trials, the steps after it undid it.
const WORTH: u64 = 100;

/// How many steps more a solution is worth for a trainer that has made `t`, so that those to come are so short that they
/// spoil nothing.
pub(crate) fn worth(visits: u64, n_examples: usize, t: u64) -> u64 {
    visits.max((WORTH * n_examples as u64).saturating_sub(t))
}

/// The problems of a [`Refit`], being solved: [`Refit::solve`] by instalments.
///
/// ```
/// use pegasos::{
///     Binary, Dense, Examples, Hinge, Kernel, Matrix, Progress, Refit, Solving, Span,
/// };
///
/// let x = Matrix::from(Dense::new(&[0.0, 1.0, 2.0, 3.0_f64], 4, 1)?);
/// let data = Examples::new(x, &[0, 1, 1, 0], None)?;
/// let span = Span::new(Kernel::Rbf { gamma: 1.0 }, &x, &[0, 2])?;
/// let loss = Binary { loss: Hinge, positive: 1 };
/// let mut refit = Refit::new(span, &[loss], 1e-2, data.len(), usize::MAX)?;
/// let mut solving = Solving::new(1e-9, 1000, 0);
/// while !matches!(solving.advance(&mut refit, &data, 2)?, Progress::Over(_)) {}
/// assert!(solving.event().certificate.relative_gap() <= 1e-9);
/// # Ok::<(), pegasos::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Solving {
    policy: Policy,
    /// The way of each problem, and what is known of it once it is solved; its visits, all along.
    problems: Vec<(Course, Event)>,
}

const NOTHING: Event =
    Event { loss: 0.0, certificate: Certificate { primal: 0.0, dual: 0.0 }, visits: 0 };

impl Solving {
    /// To the relative gap `tol`, or for `max_epochs` times as many visits as there are examples.
    pub fn new(tol: f64, max_epochs: usize, seed: u64) -> Self {
        let policy =
            Policy { solver: Solver::Auto, tol: Some(tol), max_epochs, seed, ..Policy::default() };
        Solving { policy, problems: Vec::new() }
    }

    /// Does about so many rows' work for every problem. On the threads of the current rayon pool, with the same result for
    /// any number of them and any `size`.
    ///
    /// # Errors
    /// Where the data are not those of the refit, or none, or not finite, or the tolerance is below 0.
    pub fn advance<S: Scalar, L: Loss + Clone + Send>(
        &mut self,
        refit: &mut Refit<S, L>,
        data: &Examples<'_, S>,
        size: usize,
    ) -> Result<Progress, Error> {
        // Before features are computed, which takes longer.
        self.policy.check(data.len())?;
        if refit.prepare(data, size)? > 0 {
            return Ok(Progress::Going { rows: 0, anew: false });
        }
        self.problems.resize_with(refit.problems(), || (Course::new(self.policy), NOTHING));
        let Some(first) = self.problems.iter().position(|(course, _)| course.outcome().is_none())
        else {
            let exhausted =
                self.problems.iter().any(|(c, _)| c.outcome() != Some(Outcome::Reached));
            let outcome = if exhausted { Outcome::Exhausted } else { Outcome::Reached };
            return Ok(Progress::Over(outcome));
        };
        let left = self.problems[first..].iter_mut().zip(refit.within(first));
        let mut left: Vec<_> = left.filter(|((course, _), _)| course.outcome().is_none()).collect();
        let parts = side_by_side(&mut left, |_, ((course, event), within)| {
            go_on(course, event, within, data, size)
        });
        let (mut rows, mut anew) = (0, false);
        for part in parts {
            let (visits, other) = part?;
            rows += visits;
            anew |= other;
        }
        Ok(Progress::Going { rows, anew })
    }

    /// What is known of the problems that are solved: certificates and mean losses, summed, and the most visits that any
    /// took.
    pub fn event(&self) -> Event {
        let mut sum = NOTHING;
        for (_, event) in &self.problems {
            sum.loss += event.loss;
            sum.certificate += event.certificate;
            sum.visits = sum.visits.max(event.visits);
        }
        sum
    }
}

/// A part of one problem; rows, and whether a part of another kind comes next.
fn go_on<S: Scalar, L: Loss + Clone + Send>(
    course: &mut Course,
    event: &mut Event,
    within: &mut Within<'_, S, L>,
    data: &Examples<'_, S>,
    size: usize,
) -> Result<(usize, bool), Error> {
    let mut none = |_| -> Result<Box<dyn Order + Send>, Error> { Ok(Box::new(0..0)) };
    let progress = course.advance(within, data, &mut none, size)?;
    if course.outcome().is_some() {
        // As the evaluation has left it.
        event.loss = within.part.ascent.mean_loss();
        event.certificate = course.event().certificate;
    }
    Ok(match progress {
        Progress::Going { rows, anew } => (rows, anew),
        Progress::Epoch(epoch) => {
            event.visits += epoch.visits;
            (0, false)
        }
        Progress::Over(_) => (0, false),
    })
}

impl<S: Scalar, L: Loss + Clone + Send> Refit<S, L> {
    /// Passes until the certified relative gap of every problem is at most `tol`, or for `max_epochs` times as many visits
    /// as there are examples; the sums of their certificates. On the threads of the current rayon pool, where there are
    /// several problems and all features are resident.
    pub fn solve(
        &mut self,
        data: &Examples<'_, S>,
        tol: f64,
        max_epochs: usize,
        seed: u64,
    ) -> Result<Certificate, Error> {
        let mut solving = Solving::new(tol, max_epochs, seed);
        while !matches!(solving.advance(self, data, usize::MAX)?, Progress::Over(_)) {}
        Ok(solving.event().certificate)
    }
}

impl<S: Scalar, L: Loss + Clone + Send> Problem<S> for Within<'_, S, L> {
    fn lambda(&self) -> f64 {
        self.part.ascent.lambda()
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

    fn begin_ascent(&mut self, data: &Examples<'_, S>, _: usize) -> Result<(), Error> {
        self.turn(data)
    }

    fn evaluate(
        &mut self,
        data: &Examples<'_, S>,
        tol: f64,
        all: bool,
        size: usize,
    ) -> Result<Option<Certificate>, Error> {
        if !all && !self.is_evaluating() && !self.part.ascent.may_be_solved(tol) {
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
        let report = self.advance(data, size, policy.seed)?;
        let rows = report.examples as usize;
        let part = &mut *self.part;
        part.visits += report.examples;
        if rows > 0 {
            return Ok(Ascent::Going { rows, anew: false });
        }
        self.glimpse(data, policy.tol.unwrap_or(0.0))?;
        self.look_back(data, policy.tol.unwrap_or(0.0))?;
        let part = &mut *self.part;
        if part.ascent.epoch_is_over(policy.tol.unwrap_or(0.0)) {
            part.epochs += 1;
            let (loss, visits) = (part.ascent.mean_loss(), std::mem::take(&mut part.visits));
            return Ok(Ascent::Epoch { loss, visits, certificate: None });
        }
        // What follows a narrow pass is slower.
        Ok(Ascent::Going { rows: 0, anew: part.ascent.narrows() })
    }

    fn leap_after(&self, data: &Examples<'_, S>) -> usize {
        leap_after(self.epochs_of_a_leap(data))
    }

    fn leap(&mut self, data: &Examples<'_, S>, tol: f64) -> Result<bool, Error> {
        // Where dual ascent has not got there by itself, it is time to, and D must be higher than where it is, within the
        // tolerance maybe.
        let late = self.part.epochs > self.leap_after(data);
        let (far, tol) = if late { (tol, tol / FAR) } else { (FAR * tol, tol) };
        let (begun, epochs) = (self.part.leap.is_some(), self.epochs_of_a_leap(data));
        let ascent = &self.part.ascent;
        if !begun && (ascent.may_be_solved(far) || is_soon(ascent, epochs, tol)) {
            return Ok(false);
        }
        self.go_on_leaping(data, tol)
    }
}
