//! What a fit is asked for, and what it tells.

use crate::error::Error;
use crate::ledger::Certificate;
use crate::order::Sampling;
use crate::params::check_tol;

/// How a fit gets to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Solver {
    /// By epochs of Pegasos alone.
    Pegasos,
    /// By dual ascent from w = 0.
    Dual,
    /// By Pegasos as long as that is faster, then by dual ascent from where it is.
    #[default]
    Auto,
}

/// What a fit is to reach, and how; the defaults are Python's for linear models.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policy {
    /// Which steps are made. Dual ascent needs plain Pegasos: steps 1/(lambda s), one example each, no projection and no
    /// average of all iterates.
    pub solver: Solver,
    /// The relative gap that will do, >= 0; where there is no certificate, by how much the mean loss of an epoch must fall
    /// below the best before. `None` for `max_epochs`, whatever they reach.
    pub tol: Option<f64>,
    /// Epochs at most; `max_iter` in Python. Steps of dual ascent with kernels are not counted: they end when they lead no
    /// further.
    pub max_epochs: usize,
    /// Epochs without progress that end a fit where there is no certificate; `n_iter_no_change` in Python.
    pub patience: usize,
    /// The order of each epoch.
    pub sampling: Sampling,
    /// Of the orders.
    pub seed: u64,
    /// The number of the first epoch, where others went before.
    pub first_epoch: u64,
    /// Copies that learn apart from parts of an epoch, see [`Shards`](crate::Shards).
    pub shards: usize,
    /// Bytes of kernel values that may be cached; `cache_size` in Python.
    pub cache: usize,
    /// Whether to ask for certificates, where there are any.
    pub certify: bool,
    /// Whether the problems have learned from other rows before; then there are no certificates, and no dual ascent.
    pub going_on: bool,
    /// Whether somebody else says when it is enough, by [`Fit::stop`](crate::Fit::stop).
    pub until_stopped: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            solver: Solver::Auto,
            tol: Some(1e-3),
            max_epochs: 100,
            patience: 5,
            sampling: Sampling::Shuffle,
            seed: 0,
            first_epoch: 0,
            shards: 1,
            cache: 1 << 30,
            certify: true,
            going_on: false,
            until_stopped: false,
        }
    }
}

impl Policy {
    /// Refuses what no fit can do, or on no rows.
    pub(crate) fn check(&self, n_examples: usize) -> Result<(), Error> {
        if self.max_epochs == 0 {
            return Err(Error::parameter("max_epochs", 0, ">= 1"));
        }
        self.tol.map_or(Ok(()), check_tol)?;
        if n_examples == 0 {
            return Err(Error::shape("X", "at least one row", 0));
        }
        Ok(())
    }
}

/// What is known after an epoch, or after a step of dual ascent with kernels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event {
    /// The mean loss, as the epoch met it; of dual ascent an estimate, which is too high where much has moved.
    pub loss: f64,
    /// The objective and its bound, summed over the problems; NaN where they were not evaluated.
    pub certificate: Certificate,
    /// How many examples were visited.
    pub visits: u64,
}

/// How a fit has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With what was asked for.
    Reached,
    /// With all epochs that were allowed.
    Exhausted,
    /// With steps that no longer come nearer.
    Stalled,
}

/// What [`Fit::advance`](crate::Fit::advance) has done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress {
    /// A part of an epoch or of what comes between: so many rows were visited. `anew` where nobody knows how long the
    /// next part takes.
    Going {
        /// Rows visited.
        rows: usize,
        /// Whether a part of another kind comes next.
        anew: bool,
    },
    /// The end of an epoch.
    Epoch(Event),
    /// The end.
    Over(Outcome),
}

/// Decides when a quantity that ought to fall has stopped falling.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    pub tol: f64,
    pub patience: usize,
    pub best: f64,
    pub idle: usize,
}

impl Watch {
    /// Whether `value` has not come `tol` below the best before for as many calls as there is patience.
    pub fn is_over(&mut self, value: f64) -> bool {
        self.idle = if value > self.best - self.tol { self.idle + 1 } else { 0 };
        self.best = self.best.min(value);
        self.idle >= self.patience
    }
}
