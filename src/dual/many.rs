//! Visits where there are many outputs.
//!
//! * Of 20,000 classes an example is mistaken for a few, and the maximiser of D in its dual variables differs
//!   from 0 for those alone. [`Loss::contenders`] finds them in one pass over the scores; the rest of a visit is
//!   about nobody else.
//! * Narrow passes: between two passes over all outputs, some over those for which an example has dual variables
//!   already. Each visit is exact ascent in these and costs a fraction of what all scores cost; what it sees of
//!   the gap is a part. They end when that has come down to [`NARROWED`] of what it was, or when they have cost as
//!   much as a whole pass.
//! * Source: coordinates that do not move are put aside as in the shrinking of Keerthi et al. (2008); here no
//!   decision lasts longer than until the next whole pass, which finds those that count afresh.

use crate::data::Row;
use crate::error::Error;
use crate::examples::Examples;
use crate::loss::Loss;
use crate::order::Ahead;
use crate::scalar::{Scalar, all_finite};
use crate::trainer::Report;

use super::{DualAscent, WHAT};

/// The part of what the first narrow pass saw of the gap that is left to a whole one.
const NARROWED: f64 = 0.1;

/// The narrow passes between two whole ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Narrow {
    /// Whether the loss tells which outputs contend.
    pub(super) possible: bool,
    /// Whether the pass at hand is narrow.
    pub(super) now: bool,
    /// How many there were, ever.
    passes: u64,
    /// Outputs looked at since the last whole pass.
    cost: usize,
    /// What the first of them and the one at hand saw of the gap, n times.
    first: Option<f64>,
    seen: f64,
}

impl Narrow {
    /// Decides what the next pass is: its number among the narrow ones, if it is one of them. `whole` is what a
    /// whole one costs.
    pub(super) fn begin(&mut self, whole: usize) -> Option<u64> {
        if self.now {
            let first = *self.first.get_or_insert(self.seen);
            self.now = self.seen > NARROWED * first && self.cost < whole;
        } else if self.possible {
            (self.now, self.cost, self.first) = (true, 0, None);
        }
        self.seen = 0.0;
        self.passes += u64::from(self.now);
        self.now.then_some(self.passes)
    }
}

/// What a visit looks at: some outputs, in their order, and what belongs to each.
#[derive(Default)]
pub(super) struct Glance {
    pub(super) outputs: Vec<u32>,
    scores: Vec<f64>,
    dual: Vec<f64>,
    scratch: Vec<f64>,
    /// Where among them the example's own class is.
    own: u32,
}

impl Glance {
    /// Takes in the dual variables of an example of class y, given those that are not 0. All of these and y must
    /// be among the outputs.
    fn take(&mut self, y: u32, nonzeros: &[(u32, f64)]) {
        self.dual.clear();
        let mut nonzeros = nonzeros.iter().peekable();
        for &o in &self.outputs {
            self.dual.push(nonzeros.next_if(|entry| entry.0 == o).map_or(0.0, |entry| entry.1));
        }
        self.own = self.outputs.partition_point(|&o| o < y) as u32;
        self.scratch.clone_from(&self.dual);
    }
}

impl<L: Loss> DualAscent<L> {
    /// Whether a visit takes far less time in some passes than in others: of more than 64 outputs, once there was a
    /// pass.
    pub fn narrows(&self) -> bool {
        self.narrow.possible
    }

    /// Looks at the outputs that contend for example i, given all scores; at all of them, and false, where the
    /// loss does not tell.
    pub(super) fn glance(&self, glance: &mut Glance, i: usize, y: u32, scores: &[f64]) -> bool {
        let nonzeros = self.dual.nonzeros(i);
        glance.outputs.clear();
        let told = self.loss.contenders(scores, y, self.q[i], nonzeros, &mut glance.outputs);
        if !told {
            glance.outputs.extend(0..scores.len() as u32);
        }
        glance.take(y, nonzeros);
        glance.scores.clear();
        glance.scores.extend(glance.outputs.iter().map(|&o| scores[o as usize]));
        told
    }

    /// Whether a step would move what is looked at.
    pub(super) fn would_move(&self, glance: &mut Glance, i: usize) -> bool {
        self.loss.ascend(&glance.scores, glance.own, self.q[i], &mut glance.scratch);
        glance.scratch != glance.dual
    }

    /// The step of example i in what is looked at; `c` is its weight over lambda n. Says whether w has moved.
    pub(super) fn ascend_few<S: Scalar>(
        &mut self,
        glance: &mut Glance,
        i: usize,
        row: Row<'_, S>,
        weight: f64,
        c: f64,
    ) -> Result<bool, Error> {
        self.loss.ascend(&glance.scores, glance.own, self.q[i], &mut glance.scratch);
        let Glance { outputs, dual: old, scratch: new, own, .. } = glance;
        if (0..old.len()).all(|k| (new[k] - old[k]) * c == 0.0) {
            return Ok(false);
        }
        self.dual.promise(WHAT, outputs.len())?;
        for (k, &o) in outputs.iter().enumerate() {
            self.w.add_to(o as usize, row, (new[k] - old[k]) * c);
        }
        self.dual.write_few(i, outputs, new);
        let rise = self.loss.conjugate(new, *own) - self.loss.conjugate(old, *own);
        self.conjugates += weight * rise;
        Ok(true)
    }

    /// [`run`](DualAscent::run) in a narrow pass.
    pub(super) fn run_narrow<S: Scalar>(
        &mut self,
        data: &Examples<'_, S>,
        mut order: Ahead<'_>,
    ) -> Result<Report, Error> {
        let c = 1.0 / (self.lambda * data.len() as f64);
        let mut report = Report::default();
        let mut glance = Glance::default();
        while let Some(i) = order.next(data, |i| self.dual.prefetch(i))? {
            let row = data.rows().row(i);
            data.check_label(i, self.loss.classes())?;
            let (y, weight) = (data.label(i), data.weight(i));
            report.examples += 1;
            let nonzeros = self.dual.nonzeros(i);
            glance.outputs.clear();
            glance.outputs.extend(nonzeros.iter().map(|entry| entry.0));
            if let Err(at) = glance.outputs.binary_search(&y) {
                glance.outputs.insert(at, y);
            }
            glance.take(y, nonzeros);
            glance.scores.clear();
            let score = |&o: &u32| self.w.score_of(o as usize, row);
            glance.scores.extend(glance.outputs.iter().map(score));
            if !all_finite(&glance.scores) || !self.q_of(i, row, weight).is_finite() {
                return Err(data.diagnose(i));
            }
            let Glance { scores, dual, scratch, own, .. } = &mut glance;
            let value = self.loss.value_and_coef(scores, *own, scratch);
            let cross: f64 = dual.iter().zip(&*scores).map(|(a, s)| a * s).sum();
            let gap = weight * (value + self.loss.conjugate(dual, *own) + cross);
            scratch.clone_from(dual);
            self.narrow.seen += gap;
            self.narrow.cost += dual.len();
            if gap > 0.0 {
                let moved = self.ascend_few(&mut glance, i, row, weight, weight * c)?;
                report.updates += u64::from(moved);
            }
        }
        Ok(report)
    }
}
