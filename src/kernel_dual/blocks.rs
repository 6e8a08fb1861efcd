//! Ascent among a working set for any loss, a block of examples at a time: those with the largest shares.

use super::working::{Found, Gain, Job};
use super::{BLOCK, KernelAscent};
use crate::error::Error;
use crate::examples::Examples;
use crate::loss::Loss;
use crate::scalar::Scalar;

/// Passes over a block, at most.
const PASSES: usize = 10;

/// Steps of blocks, for any loss.
#[derive(Clone, Debug)]
pub(super) struct Blocks {
    labels: Vec<f64>,
    weights: Vec<f64>,
    /// Output after output.
    scores: Vec<f64>,
    dual: Vec<f64>,
    before: Vec<f64>,
    target: f64,
    steps: usize,
}

impl<S: Scalar, L: Loss> KernelAscent<S, L> {
    pub(super) fn begin_blocks(&self, data: &Examples<'_, S>, job: &Job<S>) -> Blocks {
        let (outputs, set, stride) = (self.outputs(), &job.among.set, job.among.stride);
        let (mut scores, mut dual) = (vec![0.0; outputs * stride], vec![0.0; outputs * stride]);
        for o in 0..outputs {
            for (k, &place) in set.iter().enumerate() {
                scores[o * stride + k] = self.scores.get(o, place as usize);
                dual[o * stride + k] = self.dual.get(o, place as usize);
            }
        }
        let labels = set.iter().map(|&place| f64::from(self.labels[place as usize]));
        let labels = labels.chain(std::iter::repeat_n(0.0, stride - set.len()));
        Blocks {
            labels: labels.collect(),
            weights: self.weights(data, set),
            scores,
            before: dual.clone(),
            dual,
            target: f64::NAN,
            steps: 0,
        }
    }

    /// Says whether it is done.
    pub(super) fn ascend(
        &self,
        data: &Examples<'_, S>,
        job: &mut Job<S>,
        blocks: &mut Blocks,
        size: usize,
    ) -> Result<bool, Error> {
        let (outputs, stride, count) = (self.outputs(), job.among.stride, job.among.len());
        let Blocks { labels, weights, scores: all, dual, target, steps, .. } = blocks;
        let mut shares = vec![0.0; stride];
        let mut order: Vec<(f64, u32)> = Vec::with_capacity(count);
        let (mut scores, mut coef) = (vec![0.0; outputs], vec![0.0; outputs]);
        let mut a = vec![0.0; outputs];
        let mut left = size.div_ceil(BLOCK);
        loop {
            self.loss.shares(all, dual, stride, labels, &mut shares);
            order.clear();
            let mut gap = 0.0;
            for (k, (share, weight)) in shares.iter().zip(&*weights).enumerate() {
                gap += weight * share;
                order.push((weight * share, k as u32));
            }
            if target.is_nan() {
                *target = job.target(gap, gap, job.dual);
            }
            if gap <= *target || *steps >= count + 100 {
                return Ok(true);
            }
            if left == 0 {
                return Ok(false);
            }
            (left, *steps) = (left - 1, *steps + 1);
            let size = BLOCK.min(count);
            if size < count {
                order.select_nth_unstable_by(size, |a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            }
            let mut block: Vec<usize> =
                order[..size].iter().map(|share| share.1 as usize).collect();
            block.sort_unstable();
            let wanted = block.iter().copied();
            job.among.fetch(self.kernel, data.rows(), &self.cached, wanted)?;
            // Scores and kernel values of the block alone, until it is done.
            let mut own: Vec<f64> = (0..outputs)
                .flat_map(|o| block.iter().map(move |&k| o * stride + k))
                .map(|place| all[place])
                .collect();
            let rows: Vec<&[S]> = block.iter().map(|&k| job.among.row(&self.cached, k)).collect();
            let values: Vec<S> =
                rows.iter().flat_map(|row| block.iter().map(|&j| row[j])).collect();
            let mut moved = vec![0.0; size * outputs];
            let mut first = f64::NAN;
            for _ in 0..PASSES {
                let mut seen = 0.0;
                for (b, &k) in block.iter().enumerate() {
                    let (y, weight) = (labels[k] as u32, weights[k]);
                    let mut cross = 0.0;
                    for o in 0..outputs {
                        (scores[o], a[o]) = (own[o * size + b], dual[o * stride + k]);
                        cross += scores[o] * a[o];
                    }
                    let loss = self.loss.value_and_coef(&scores, y, &mut coef);
                    let share = weight * (loss + self.loss.conjugate(&a, y) + cross);
                    seen += share;
                    if share <= 0.0 {
                        continue;
                    }
                    let row = &values[b * size..(b + 1) * size];
                    let c = self.coef_of_one(data, job.among.set[k] as usize);
                    self.loss.ascend(&scores, y, c * row[b].to_f64().max(0.0), &mut a);
                    for (o, a) in a.iter().enumerate() {
                        let old = &mut dual[o * stride + k];
                        let change = (a - *old) * c;
                        *old = *a;
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
            for (o, all) in all.chunks_mut(stride).enumerate() {
                let of = |b: usize| (moved[b * outputs + o], rows[b]);
                let (changes, rows): (Vec<f64>, Vec<&[S]>) =
                    (0..size).map(of).filter(|(change, _)| *change != 0.0).unzip();
                S::add_rows(&changes, &rows, all);
            }
        }
    }

    pub(super) fn after_blocks(
        &self,
        data: &Examples<'_, S>,
        job: &Job<S>,
        blocks: &Blocks,
    ) -> Found {
        let stride = job.among.stride;
        let mut found = Found::default();
        for (k, &place) in job.among.set.iter().enumerate() {
            let c = self.coef_of_one(data, place as usize);
            for o in 0..self.outputs() {
                let (old, new) = (blocks.before[o * stride + k], blocks.dual[o * stride + k]);
                if new != old {
                    found.dual.push((self.dual.at(o, place as usize), new));
                    let (output, change) = (o as u32, (new - old) * c);
                    found.gains.push(Gain { place, output, change });
                }
            }
        }
        found
    }
}
