//! Visits where there is one output: what a run does not change is decided before its loop, and what it does change is in
//! registers.
//!
//! Beside the loop for any number of outputs, hinge at lambda = 1e-4, whole solutions to a gap of 1e-3 on an AMD EPYC: rows of
//! 14 of 123 features (a9a) took 0.85 of the time, of 16 dense ones (letter) 0.83, of 54 0.83, of 455 of 1.3 million (news20)
//! 0.92.

use super::{DualAscent, SLEEP, STRANGER};
use crate::data::Rows;
use crate::error::Error;
use crate::examples::Examples;
use crate::hypothesis::Hypothesis;
use crate::loss::{Loss, TOGETHER};
use crate::order::Ahead;
use crate::scalar::Scalar;
use crate::simd::Places;
use crate::trainer::Report;

/// What a run sums, from where the ascent has it.
struct Sums {
    seen: f64,
    conjugates: f64,
    report: Report,
}

/// Visits whose shares of the gap are still to be summed: by vectors, where that pays.
struct Visits {
    count: usize,
    rows: [usize; TOGETHER],
    labels: [u32; TOGETHER],
    scores: [f64; TOGETHER],
    /// Dual variables before the step and after it.
    old: [f64; TOGETHER],
    new: [f64; TOGETHER],
}

impl Visits {
    fn new() -> Self {
        let numbers = [0.0; TOGETHER];
        let (rows, labels) = ([0; TOGETHER], [0; TOGETHER]);
        Visits { count: 0, rows, labels, scores: numbers, old: numbers, new: numbers }
    }

    /// Takes in a visit; says whether there is room for no other.
    #[inline(always)]
    fn take(&mut self, row: usize, y: u32, score: f64, old: f64, new: f64) -> bool {
        let k = self.count;
        (self.rows[k], self.labels[k], self.scores[k]) = (row, y, score);
        (self.old[k], self.new[k]) = (old, new);
        self.count += 1;
        self.count == TOGETHER
    }

    /// Sums them, and forgets them.
    fn sum<L: Loss, S: Scalar>(
        &mut self,
        loss: &L,
        data: &Examples<'_, S>,
        (small, idle): (f64, &mut [u8]),
        sums: &mut Sums,
    ) {
        let count = std::mem::take(&mut self.count);
        let (scores, labels) = (&self.scores[..count], &self.labels[..count]);
        let (mut values, mut before) = ([0.0; TOGETHER], self.old);
        let values = &mut values[..count];
        values.copy_from_slice(scores);
        loss.values(values, labels);
        loss.conjugates(&mut before[..count], labels);
        loss.conjugates(&mut self.new[..count], labels);
        for k in 0..count {
            let weight = data.weight(self.rows[k]);
            let gap = weight * (values[k] + before[k] + self.old[k] * scores[k]);
            sums.seen += gap;
            sums.report.loss += weight * values[k];
            sums.conjugates += weight * (self.new[k] - before[k]);
            note(&mut idle[self.rows[k]], gap > small);
        }
    }
}

/// Whether the share of an example in the gap counts, beside how often it has not.
#[inline(always)]
pub(super) fn note(idle: &mut u8, counts: bool) {
    // Of a row without weight that an order names twice the first visit may be entered after the second.
    if *idle != STRANGER {
        *idle = if counts { 0 } else { (*idle + 1).min(SLEEP) };
    }
}

impl<L: Loss> DualAscent<L> {
    /// [`run`](DualAscent::run), as the loop for any number of outputs has it, over rows whose layout may be known.
    /// Not with a free intercept.
    // Apart, as the trainer's loop is.
    #[inline(never)]
    pub(super) fn run_single<'a, S: Scalar, R: Rows<'a, S>>(
        &mut self,
        rows: R,
        data: &Examples<'a, S>,
        order: Ahead<'_>,
    ) -> Result<Report, Error> {
        let (seen, conjugates) = (self.seen, self.conjugates);
        let mut sums = Sums { seen, conjugates, report: Report::default() };
        let ended = self.visit_single(rows, data, order, &mut sums);
        // After an error too: the steps before it stand.
        (self.seen, self.conjugates) = (sums.seen, sums.conjugates);
        ended?;
        self.visits += sums.report.examples as usize;
        Ok(sums.report)
    }

    #[inline(always)]
    fn visit_single<'a, S: Scalar, R: Rows<'a, S>>(
        &mut self,
        rows: R,
        data: &Examples<'a, S>,
        mut order: Ahead<'_>,
        sums: &mut Sums,
    ) -> Result<(), Error> {
        let (n, ahead) = (data.len(), rows.ahead());
        let expects = R::FAR_APART && self.w.expects_rows(data.rows());
        let (duals, curvatures) = (self.dual.places(), Places::of(&self.q, 1));
        let (loss, small, c) = (&self.loss, self.small, 1.0 / (self.lambda * n as f64));
        let (classes, strangers) = (loss.classes(), &mut self.strangers);
        let (dual, q, idle) = (self.dual.only_mut(), &mut self.q[..n], &mut self.idle[..n]);
        let dual = &mut dual[..n];
        self.w.rebase(1.0);
        let mut w = self.w.single();
        // There is always something to move, and what a share is worth matters to nobody before the next pass.
        let (later, mut visits) = (!loss.settles(), Visits::new());
        let (mut seen, mut conjugates, mut report) = (sums.seen, sums.conjugates, sums.report);
        let ended = 'run: loop {
            let many = match order.many(n, ahead) {
                Ok(Some(many)) => many,
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            };
            for next in many {
                let i = next.row;
                let coming = next.ask(rows, data);
                duals.prefetch(coming);
                curvatures.prefetch(coming);
                let row = rows.get(i);
                if expects {
                    w.expect(rows.get(next.after));
                }
                let (y, weight) = match data.check_label(i, classes) {
                    Ok(y) => (y, data.weight(i)),
                    Err(error) => break 'run Err(error),
                };
                // What has no weight is looked at once, for what is not finite.
                if !loss.concerns(y) || weight == 0.0 && q[i] == 0.0 {
                    idle[i] = STRANGER;
                    *strangers = true;
                    report.examples += 1;
                    continue;
                }
                let score = w.score(row);
                // One that had no weight may have one since.
                if q[i].is_nan() || q[i] == 0.0 {
                    q[i] = weight * c * (row.norm2() + w.constant.powi(2));
                }
                if !(score.is_finite() && q[i].is_finite()) {
                    break 'run Err(data.diagnose(i));
                }
                let old = dual[i];
                let mut conjugate = 0.0;
                report.examples += 1;
                if !later {
                    let value = loss.value_and_coef(&[score], y, &mut [0.0]);
                    conjugate = loss.conjugate(&[old], y);
                    let gap = weight * (value + conjugate + old * score);
                    seen += gap;
                    report.loss += weight * value;
                    note(&mut idle[i], gap > small);
                    if gap <= 0.0 {
                        continue;
                    }
                }
                let mut new = [old];
                loss.ascend(&[score], y, q[i], &mut new);
                let change = (new[0] - old) * weight * c;
                if change != 0.0 {
                    report.updates += 1;
                    dual[i] = new[0];
                    w.add(row, change);
                    if !later {
                        conjugates += weight * (loss.conjugate(&new, y) - conjugate);
                    }
                }
                if later && visits.take(i, y, score, old, dual[i]) {
                    *sums = Sums { seen, conjugates, report };
                    visits.sum(loss, data, (small, idle), sums);
                    (seen, conjugates, report) = (sums.seen, sums.conjugates, sums.report);
                }
            }
        };
        w.end();
        *sums = Sums { seen, conjugates, report };
        visits.sum(loss, data, (small, idle), sums);
        ended
    }
}
