//! What a fit can do with its problems.

use super::{LEAP_AFTER, Policy, UNKNOWN};
use crate::error::Error;
use crate::examples::Examples;
use crate::ledger::Certificate;
use crate::order::Order;
use crate::scalar::Scalar;
use crate::trainer::Report;

/// What a [`Fit`](super::Fit) drives: one or more problems over the same rows. Everything is done by instalments of about `size` rows;
/// in between the problems are whole. A part that a problem does not have has nothing to do.
pub trait Problem<S: Scalar>: Send {
    /// The strength of the regularisation.
    fn lambda(&self) -> f64;
    /// Whether an evaluation comes after each step of dual ascent by itself, and one after an epoch costs as much as that.
    fn evaluates_always(&self) -> bool {
        false
    }
    /// Whether there is nothing but dual ascent.
    fn only_ascends(&self) -> bool {
        false
    }
    /// Whether the sums of its steps are a point of the dual.
    fn certifies(&self) -> bool;
    /// Whether dual ascent can go on from there as from the very same w.
    fn may_ascend(&self) -> bool;
    /// About how many multiplications it takes to visit a row, where that may be many.
    fn cost(&self, _n_features: usize) -> usize {
        0
    }
    /// Whether steps of Pegasos are so long that w may swing ever wider, where slopes have no bound. O(nnz) at most.
    fn swings(&self, _data: &Examples<'_, S>) -> bool {
        false
    }
    /// All rows from here on are those of one matrix of so many, maybe with what certificates need of them, and kernel
    /// values of so many bytes.
    fn prepare(&mut self, _n_examples: usize, _ledger: bool, _cache: usize) -> Result<(), Error> {
        Ok(())
    }
    /// Begins an epoch of Pegasos in this order.
    fn begin_epoch(
        &mut self,
        _data: &Examples<'_, S>,
        _order: Box<dyn Order + Send>,
        _shards: usize,
    ) -> Result<(), Error> {
        Ok(())
    }
    /// Goes on with it: how many rows were visited, 0 where it is over.
    fn visit(&mut self, _data: &Examples<'_, S>, _size: usize) -> Result<usize, Error> {
        Ok(0)
    }
    /// What the epoch has seen, summed over the problems.
    fn seen(&self) -> Report {
        Report::default()
    }
    /// About the certificate at the end of an epoch, by some of the rows; NaN where nothing is known.
    fn glimpse(&self, _data: &Examples<'_, S>) -> Result<Certificate, Error> {
        Ok(UNKNOWN)
    }
    /// About the relative gap at the end of an epoch of this mean loss, by what is known without a pass over the data; NaN
    /// where that is nothing.
    fn estimate(&self, _data: &Examples<'_, S>, _loss: f64) -> f64 {
        f64::NAN
    }
    /// Goes on with an evaluation of all problems, or of those that may be solved to `tol`: what it has found, once it is
    /// over, with NaN for others.
    fn evaluate(
        &mut self,
        data: &Examples<'_, S>,
        tol: f64,
        all: bool,
        size: usize,
    ) -> Result<Option<Certificate>, Error>;
    /// From here on dual ascent goes on.
    fn begin_ascent(&mut self, _data: &Examples<'_, S>, _cache: usize) -> Result<(), Error> {
        Ok(())
    }
    /// Goes on with an epoch of it.
    fn ascend(
        &mut self,
        data: &Examples<'_, S>,
        policy: &Policy,
        size: usize,
    ) -> Result<Ascent, Error>;
    /// After how many epochs of dual ascent a leap may be due, and after twice as many each time.
    fn leap_after(&self, _data: &Examples<'_, S>) -> usize {
        LEAP_AFTER
    }
    /// Whether a leap is to come first of all: where epochs would be long in getting anywhere, and a leap is not.
    fn leaps_at_once(&self, _data: &Examples<'_, S>) -> bool {
        false
    }
    /// Goes on with a leap; says whether there is more to do.
    fn leap(&mut self, _data: &Examples<'_, S>, _tol: f64) -> Result<bool, Error> {
        Ok(false)
    }
    /// Where dual ascent has got nowhere: from here on epochs are of averaged Pegasos, and the better of the two is what
    /// the trainers get in the end. Says whether there is such a thing.
    fn begin_rescue(&mut self) -> Result<bool, Error> {
        Ok(false)
    }
    /// Gives the trainers what dual ascent has found, as if they had made it.
    fn end_ascent(&mut self, _data: &Examples<'_, S>) -> Result<(), Error> {
        Ok(())
    }
}

/// What a part of an epoch of dual ascent has brought.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ascent {
    /// Visits, for each problem; and whether the next part may take another time for each.
    Going {
        /// Visits.
        rows: usize,
        /// Whether a part of another kind comes next.
        anew: bool,
    },
    /// The epoch is over.
    Epoch {
        /// The mean loss.
        loss: f64,
        /// Visits.
        visits: u64,
        /// The certificate of where it began, where it comes for nothing.
        certificate: Option<Certificate>,
    },
}
