//! The parameters of training.

use crate::error::Error;
use crate::feasible::Ball;
use crate::schedule::Schedule;

/// The parameters of training. All checks are in [`Params::check`], which [`Trainer::new`](crate::Trainer::new) calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params<F = Option<Ball>> {
    /// Strength of the regularisation; `alpha` in Python. May be 0, but for steps of 1/(lambda s).
    pub lambda: f64,
    /// Step sizes.
    pub schedule: Schedule,
    /// Added to the step number in the schedule; tames the first steps when `lambda` is small.
    pub t0: f64,
    /// The set that w is projected onto after each step.
    pub set: F,
    /// Which gradients a step applies.
    pub block: Block,
    /// Which mean of the iterates is the result.
    pub average: Average,
    /// The first step whose result is averaged.
    pub average_from: u64,
}

/// Which gradients a step applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// The mean of those of the next so many rows, at least 1; `batch_size` in Python.
    Mean(usize),
    /// That of the row so many steps ago, taken at the w of that time; none, as long as there was no
    /// such step. So the scores of as many rows depend on no step not yet made. `delay` in Python.
    /// Gradients still in flight when a run ends arrive in the next.
    Delayed(usize),
}

/// How iterates are averaged. Costs one more update of a row's features where a row has a
/// coefficient, nothing elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Average {
    /// Not at all: the last iterate is the result.
    None,
    /// All alike.
    Uniform,
    /// Polynomial decay with exponent 3 (Shamir and Zhang 2013): the k-th iterate weighs as
    /// k (k + 1) (k + 2).
    Polynomial,
    /// The recent ones, by exponentially decaying weights: the mean moves by 1/W of the way to each iterate
    /// that an update has made, with `W = min(window, updates so far / 8)`. Nothing is paid on steps without
    /// an update. Without a window the k-th iterate weighs about as k^7; with one the mean also forgets
    /// what a budget has done to iterates long ago.
    Recent {
        /// The largest W. Where steps forget, updates so far are those that are not forgotten, as if they had been evenly
        /// spread.
        window: u64,
    },
}

impl Average {
    /// The sum of the weights of the first k iterates.
    pub(crate) fn total(self, k: u64) -> f64 {
        let k = k as f64;
        match self {
            Average::None => 0.0,
            Average::Uniform => k,
            Average::Polynomial => k * (k + 1.0) * (k + 2.0) * (k + 3.0) / 4.0,
            // Weights are relative to what there is.
            Average::Recent { .. } => 1.0,
        }
    }
}

impl Default for Params {
    /// Plain Pegasos at lambda = 1e-4.
    fn default() -> Self {
        Params {
            lambda: 1e-4,
            schedule: Schedule::Pegasos,
            t0: 0.0,
            set: None,
            block: Block::Mean(1),
            average: Average::None,
            average_from: 1,
        }
    }
}

impl<F> Params<F> {
    /// These parameters, but within another feasible set.
    pub fn within<G>(self, set: G) -> Params<G> {
        let Params { lambda, schedule, t0, set: _, block, average, average_from } = self;
        Params { lambda, schedule, t0, set, block, average, average_from }
    }

    /// How many of the first t iterates are averaged.
    pub(crate) fn average_count(&self, t: u64) -> u64 {
        t.saturating_sub(self.average_from.saturating_sub(1))
    }

    /// Refuses parameters outside their range; [`Trainer::resume`](crate::Trainer::resume) checks the set as well.
    pub fn check(&self) -> Result<(), Error> {
        check_lambda(self.lambda, !self.schedule.needs_lambda())?;
        if !(self.t0 >= 0.0 && self.t0.is_finite()) {
            return Err(Error::parameter("t0", self.t0, ">= 0 and finite"));
        }
        if self.block == Block::Mean(0) {
            return Err(Error::parameter("batch", 0, ">= 1"));
        }
        let remembers = matches!(self.average, Average::Uniform | Average::Polynomial);
        if let (Schedule::Forgetting { .. }, true) = (self.schedule, remembers) {
            let want = "none or recent where steps forget";
            return Err(Error::parameter("average", format_args!("{:?}", self.average), want));
        }
        self.schedule.check(self.lambda)
    }
}

pub(crate) fn check_lambda(lambda: f64, may_be_zero: bool) -> Result<(), Error> {
    if lambda > 0.0 && lambda.is_finite() && (1.0 / lambda).is_finite() {
        return Ok(());
    }
    match may_be_zero {
        true if lambda == 0.0 => Ok(()),
        _ if lambda > 0.0 && lambda.is_finite() => {
            Err(Error::parameter("lambda", lambda, "so large that 1/lambda is finite"))
        }
        true => Err(Error::parameter("lambda", lambda, ">= 0 and finite")),
        false => Err(Error::parameter("lambda", lambda, "> 0 and finite")),
    }
}

/// Refuses a relative gap that no fit would reach.
pub(crate) fn check_tol(tol: f64) -> Result<(), Error> {
    // False for NaN too.
    if tol >= 0.0 { Ok(()) } else { Err(Error::parameter("tol", tol, ">= 0")) }
}
