//! Visits where there are many outputs.
//!
//! * Of 20,000 classes an example is mistaken for a few, and the maximiser of D in its dual variables differs
//!   from 0 for those alone. [`Loss::contenders`] finds them in one pass over the scores; the rest of a visit is
//!   about nobody else.
//! * Narrow passes: between two passes over all outputs, some over those for which an example has dual variables
//!   already. Each visit is exact ascent in these and costs a fraction of what all scores cost; what it sees of
//!   the gap is a part. They end when that has come down to [`NARROWED`] of what it was or to [`ENOUGH`] of the
//!   tolerance, or when they have cost as much as a whole pass. An example whose share is below the mean sleeps, as
//!   between whole passes, through `2^NAP - 1` of them at most.
//! * Many are more than 64 outputs; where scores are products of rows without zeros, whose cost is theirs, more than
//!   [`SEVERAL`]. Trials on one thread, relative gap 1e-3: refits of letter (26 classes) with 2,000 and 500 vectors took
//!   0.57 and 0.5 of the time that whole passes alone took, of usps (10) with 500 0.5; linear machines of usps and
//!   mnist 0.5 to 0.6; the refit of covtype (7) 1.5 times as long, letter's own 16 features twice as long.
//! * Source: coordinates that do not move are put aside as in the shrinking of Keerthi et al. (2008); here no
//!   decision lasts longer than until the next whole pass, which finds those that count afresh.

use crate::data::Row;
use crate::error::Error;
use crate::examples::Examples;
use crate::hypothesis::Hypothesis;
use crate::loss::Loss;
use crate::order::Ahead;
use crate::scalar::{Scalar, all_finite};
use crate::table::MANY;
use crate::trainer::Report;

use super::{DualAscent, WHAT};

/// The part of what the first narrow pass saw of the gap that is left to a whole one, and the part of the tolerance.
const NARROWED: f64 = 0.2;
const ENOUGH: f64 = 0.5;

/// The binary logarithm of the longest sleep between whole passes, in narrow ones.
const NAP: u8 = 4;

/// Where a product of a row takes long, more outputs than these are many, and rows of so many features do.
const SEVERAL: usize = 8;
const LONG: usize = 64;

/// The narrow passes between two whole ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Narrow {
    /// Whether the loss tells which outputs contend.
    pub(super) possible: bool,
    /// Whether the pass at hand is narrow.
    pub(super) now: bool,
    /// How many there were, ever.
    passes: u64,
    /// Outputs looked at since the last whole pass, and in the pass at hand.
    pub(super) cost: usize,
    pub(super) looked: usize,
    /// What the first of them and the one at hand saw of the gap, n times.
    first: Option<f64>,
    seen: f64,
    /// What is enough for the tolerance.
    enough: f64,
    /// How many visits in a row have found an example's share to be small, since the last whole pass; what a share
    /// must exceed, and how many examples were due.
    idle: Vec<u8>,
    small: f64,
    due: usize,
}

impl Narrow {
    /// Decides what the next pass is: its number among the narrow ones, if it is one of them. `whole` is what a
    /// whole one costs.
    pub(super) fn begin(&mut self, whole: usize) -> Option<u64> {
        if self.now {
            let first = *self.first.get_or_insert(self.seen);
            self.now = self.seen > (NARROWED * first).max(self.enough) && self.cost < whole;
            self.small = self.seen / self.due.max(1) as f64;
        } else if self.possible {
            (self.now, self.cost, self.first, self.small) = (true, 0, None, 0.0);
            self.idle.fill(0);
        }
        (self.seen, self.looked) = (0.0, 0);
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
    /// Where among them the example's own class is; the class, where all outputs are there, each of whatever class.
    own: u32,
}

impl Glance {
    /// Takes in the dual variables of an example, given those that are not 0, all of which must be among the outputs, and
    /// what its class is among these.
    fn take(&mut self, own: u32, nonzeros: &[(u32, f64)]) {
        self.dual.clear();
        let mut nonzeros = nonzeros.iter().peekable();
        for &o in &self.outputs {
            self.dual.push(nonzeros.next_if(|entry| entry.0 == o).map_or(0.0, |entry| entry.1));
        }
        self.own = own;
        self.scratch.clone_from(&self.dual);
    }

    /// The outputs that the last step has moved.
    pub(super) fn moved(&self) -> impl Iterator<Item = usize> {
        let moves = self.dual.iter().zip(&self.scratch).map(|(old, new)| old != new);
        self.outputs.iter().zip(moves).filter(|entry| entry.1).map(|(&o, _)| o as usize)
    }
}

/// Whether so many outputs are many; `dense` says whether rows have no zeros.
pub(super) fn are_many(outputs: usize, n_features: usize, dense: bool) -> bool {
    outputs > MANY || dense && outputs > SEVERAL && n_features >= LONG
}

/// Whether example i, which sleeps through `2^idle - 1` passes at a time, wakes in this one.
#[inline(always)]
pub(super) fn wakes(i: u32, idle: u8, pass: u64) -> bool {
    let mask = (1 << idle) - 1;
    // So that not all of those that fell asleep together wake together.
    let phase = i.wrapping_mul(0x9E37_79B9) >> 16;
    (pass as u32).wrapping_add(phase) & mask == 0
}

impl<L: Loss> DualAscent<L> {
    /// Whether a visit takes far less time in some passes than in others: of many outputs, once there was a pass.
    pub fn narrows(&self) -> bool {
        self.narrow.possible
    }

    /// The rows that are due in a narrow pass of this number.
    pub(super) fn narrowly_due(&mut self, number: u64) -> Vec<u32> {
        let Narrow { idle, due, .. } = &mut self.narrow;
        idle.resize(self.dual.len(), 0);
        let takes_part = |&i: &u32| {
            self.dual.nonzeros(i as usize).len() > 1 && wakes(i, idle[i as usize].min(NAP), number)
        };
        let rows: Vec<u32> = (0..self.dual.len() as u32).filter(takes_part).collect();
        *due = rows.len();
        rows
    }

    /// What narrow passes may leave of the gap: it is the tolerance that the next whole one must meet.
    pub(super) fn aim(&mut self, tol: f64) {
        if self.narrow.possible {
            let value = -self.conjugates - self.len() as f64 * self.lambda / 2.0 * self.w.norm2();
            self.narrow.enough = ENOUGH * tol * value.max(0.0);
        }
    }

    /// Looks at the outputs that contend for example i, given all scores; at all of them, and false, where the
    /// loss does not tell.
    pub(super) fn glance(&self, glance: &mut Glance, i: usize, y: u32, scores: &[f64]) -> bool {
        let nonzeros = self.dual.nonzeros(i);
        glance.outputs.clear();
        let told = self.loss.contenders(scores, y, self.q[i], nonzeros, &mut glance.outputs);
        let own = if told {
            glance.outputs.partition_point(|&o| o < y) as u32
        } else {
            glance.outputs.extend(0..scores.len() as u32);
            y
        };
        glance.take(own, nonzeros);
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
            let change = (new[k] - old[k]) * c;
            match self.free.as_mut().and_then(|free| free.less_mean(row)) {
                Some(row) => self.w.add_to(o as usize, Row::Dense(row), change),
                None => self.w.add_to(o as usize, row, change),
            }
            if let Some(free) = &mut self.free {
                free.moved(i, o as usize, change, new[k] * c);
            }
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
        let duals = self.dual.places();
        while let Some(i) = order.next(data, |i| duals.prefetch(i))? {
            let row = data.rows().row(i);
            data.check_label(i, self.loss.classes())?;
            let (y, weight) = (data.label(i), data.weight(i));
            report.examples += 1;
            let nonzeros = self.dual.nonzeros(i);
            glance.outputs.clear();
            glance.outputs.extend(nonzeros.iter().map(|entry| entry.0));
            let own = glance.outputs.partition_point(|&o| o < y);
            if glance.outputs.get(own) != Some(&y) {
                glance.outputs.insert(own, y);
            }
            glance.take(own as u32, nonzeros);
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
            self.narrow.looked += dual.len();
            let idle = &mut self.narrow.idle[i];
            *idle = if gap > self.narrow.small { 0 } else { (*idle + 1).min(NAP) };
            if gap > 0.0 {
                let moved = self.ascend_few(&mut glance, i, row, weight, weight * c)?;
                report.updates += u64::from(moved);
            }
        }
        Ok(report)
    }
}
