//! Ascent among the examples of a working set: one at a time for the hinge loss of one score, else a block.

use super::{BLOCK, KernelAscent, Step, share_of};
use crate::examples::Examples;
use crate::loss::Loss;
use crate::scalar::Scalar;
use crate::threads::side_by_side;
use crate::vectors::GROUP;

/// The part of their share in the gap down to which a step brings the working set.
const INNER: f64 = 0.05;

/// A step brings it down to this at least, even if less would do for the tolerance: where the gap is spread over
/// many more examples than the set has, none of its parts may look like much.
const OUTER: f64 = 0.2;

/// Entries that the steps in a working set see at most, together: a caller may want to be heard meanwhile.
/// About a tenth of a second.
const MOST_ENTRIES: usize = 1 << 28;

/// Passes over a block, at most.
const PASSES: usize = 10;

impl<S: Scalar, L: Loss> KernelAscent<S, L> {
    /// Computes the kernel values of so many more rows of the working set.
    pub(super) fn compute_gram(
        &self,
        data: &Examples<'_, S>,
        Step { set, vectors, gram, stride, computed, .. }: &mut Step<S>,
        rows: usize,
    ) {
        let (first, stride) = (*computed, *stride);
        // Whole groups, or the tasks to come would be small.
        let rows = rows.max(1).div_ceil(GROUP).saturating_mul(GROUP);
        *computed = set.len().min(first.saturating_add(rows));
        // In terms of margins all labels are 1; a loss that has no sign stays with scores.
        let sign = |i: usize| self.loss.hinge_sign(data.label(i)).unwrap_or(1.0);
        let signs: Vec<f64> = set.iter().map(|&i| sign(i)).collect();
        let out = &mut gram[first * stride..*computed * stride];
        let mut tasks: Vec<(&[usize], &mut [S])> =
            set[first..*computed].chunks(GROUP).zip(out.chunks_mut(GROUP * stride)).collect();
        side_by_side(&mut tasks, |_, (rows, out)| {
            vectors.kernel_values(self.kernel, data.rows(), rows, 0..set.len(), out, stride);
            for (&i, row) in rows.iter().zip(out.chunks_mut(stride)) {
                let own = sign(i);
                for (k, sign) in row.iter_mut().zip(&signs) {
                    *k = S::from_f64(k.to_f64() * own * sign);
                }
            }
        });
    }

    /// Ascends among these examples, for the hinge loss of one score; returns what their coefficients in w
    /// have gained.
    pub(super) fn descend(
        &mut self,
        data: &Examples<'_, S>,
        &Step { ref set, ref gram, stride, enough, .. }: &Step<S>,
    ) -> Vec<f64> {
        let c = 1.0 / (self.lambda * self.len() as f64);
        let sign: Vec<f64> =
            set.iter().map(|&i| self.loss.hinge_sign(data.label(i)).unwrap_or(1.0)).collect();
        // What stands beyond the set has weight 0 and takes no part.
        let (mut slope, mut narrow) = (vec![0.0; stride], vec![0.0_f32; stride]);
        let (mut inverse, mut weight) = (vec![0.0_f32; stride], vec![0.0_f32; stride]);
        let mut a: Vec<f64> = set.iter().zip(&sign).map(|(&i, sign)| sign * self.dual[i]).collect();
        let before = a.clone();
        let mut curvature = vec![0.0; set.len()];
        for (k, &i) in set.iter().enumerate() {
            slope[k] = 1.0 - sign[k] * self.scores[i];
            narrow[k] = a[k] as f32;
            curvature[k] = data.weight(i) * c * gram[k * stride + k].to_f64().max(0.0);
            inverse[k] = (1.0 / curvature[k]).min(1e30) as f32;
            weight[k] = data.weight(i) as f32;
        }
        let mut next = S::descend(0.0, &gram[..stride], &mut slope, &narrow, &inverse, &weight);
        let target = enough.max(INNER * next.gap).min(OUTER * next.gap);
        for _ in 0..(50 * set.len() + 1000).min(MOST_ENTRIES / stride) {
            let k = next.at;
            if next.gap <= target || next.gain <= 0.0 || k >= set.len() {
                break;
            }
            let old = a[k];
            a[k] = (old + slope[k] / curvature[k]).clamp(0.0, 1.0);
            let step = data.weight(set[k]) * c * (a[k] - old);
            narrow[k] = a[k] as f32;
            let row = &gram[k * stride..(k + 1) * stride];
            next = S::descend(step, row, &mut slope, &narrow, &inverse, &weight);
            if a[k] == old {
                break;
            }
        }
        for ((&i, sign), a) in set.iter().zip(&sign).zip(&a) {
            self.dual[i] = sign * a;
        }
        let gained = set.iter().zip(&sign).zip(a.iter().zip(&before));
        gained.map(|((&i, sign), (a, before))| data.weight(i) * c * sign * (a - before)).collect()
    }

    /// Ascends among these examples, for any loss; returns what their coefficients in w have gained,
    /// example after example.
    pub(super) fn ascend(
        &mut self,
        data: &Examples<'_, S>,
        &Step { ref set, ref gram, stride, enough, .. }: &Step<S>,
    ) -> Vec<f64> {
        let (n, outputs, count) = (self.len(), self.outputs(), set.len());
        let c = 1.0 / (self.lambda * n as f64);
        // Of the set, output after output.
        let mut all: Vec<f64> = (0..outputs)
            .flat_map(|o| set.iter().map(move |&i| o * n + i))
            .map(|place| self.scores[place])
            .collect();
        let mut gained = vec![0.0; count * outputs];
        let (mut scores, mut coef) = (self.loss.zeros(), self.loss.zeros());
        let (scores, coef) = (scores.as_mut(), coef.as_mut());
        let mut target = f64::NAN;
        for _ in 0..(count + 100).min((MOST_ENTRIES / (BLOCK * count * outputs)).max(1)) {
            let mut shares: Vec<(f64, usize)> = Vec::with_capacity(count);
            let mut gap = 0.0;
            for (k, &i) in set.iter().enumerate() {
                scores.iter_mut().enumerate().for_each(|(o, s)| *s = all[o * count + k]);
                let dual = &self.dual[i * outputs..(i + 1) * outputs];
                let (share, ..) = share_of(&self.loss, dual, scores, data.label(i), coef);
                gap += data.weight(i) * share;
                shares.push((data.weight(i) * share, k));
            }
            if target.is_nan() {
                target = enough.max(INNER * gap).min(OUTER * gap);
            }
            if gap <= target {
                break;
            }
            let size = BLOCK.min(count);
            if size < count {
                shares.select_nth_unstable_by(size, |a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            }
            let mut block: Vec<usize> = shares[..size].iter().map(|share| share.1).collect();
            block.sort_unstable();
            // Scores and kernel values of the block alone, until it is done.
            let mut own: Vec<f64> = (0..outputs)
                .flat_map(|o| block.iter().map(move |&k| o * count + k))
                .map(|place| all[place])
                .collect();
            let values: Vec<S> = block
                .iter()
                .flat_map(|&k| block.iter().map(move |&j| gram[k * stride + j]))
                .collect();
            let mut moved = vec![0.0; size * outputs];
            let mut first = f64::NAN;
            for _ in 0..PASSES {
                let mut seen = 0.0;
                for (b, &k) in block.iter().enumerate() {
                    let i = set[k];
                    let (y, weight) = (data.label(i), data.weight(i));
                    scores.iter_mut().enumerate().for_each(|(o, s)| *s = own[o * size + b]);
                    let dual = &mut self.dual[i * outputs..(i + 1) * outputs];
                    let share = weight * share_of(&self.loss, dual, scores, y, coef).0;
                    seen += share;
                    if share <= 0.0 {
                        continue;
                    }
                    let row = &values[b * size..(b + 1) * size];
                    coef.copy_from_slice(dual);
                    self.loss.ascend(scores, y, weight * c * row[b].to_f64().max(0.0), dual);
                    for (o, (coef, a)) in coef.iter().zip(&*dual).enumerate() {
                        let change = (a - coef) * weight * c;
                        if change != 0.0 {
                            moved[b * outputs + o] += change;
                            S::axpy(change, row, &mut own[o * size..(o + 1) * size]);
                        }
                    }
                }
                first = if first.is_nan() { seen } else { first };
                if seen <= 0.1 * first {
                    break;
                }
            }
            for (&k, moved) in block.iter().zip(moved.chunks(outputs)) {
                let row = &gram[k * stride..k * stride + count];
                for (o, &change) in moved.iter().enumerate().filter(|(_, c)| **c != 0.0) {
                    gained[k * outputs + o] += change;
                    S::axpy(change, row, &mut all[o * count..(o + 1) * count]);
                }
            }
        }
        gained
    }
}
