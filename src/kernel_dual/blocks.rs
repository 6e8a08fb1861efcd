//! Ascent among a working set for any loss, a block of examples at a time: those with the largest shares. Where few have any,
//! these go on among themselves; see `contest.rs`.

use super::contest::Contest;
use super::working::{Found, Gain, Job};
use super::{BLOCK, KernelAscent};
use crate::error::Error;
use crate::examples::Examples;
use crate::loss::Loss;
use crate::scalar::{Scalar, largest};
use crate::trail::{Point, Trail, by_scores};

/// Passes over a block, at most.
const PASSES: usize = 10;

/// Steps of a round for each example, and a hundred more, at most: a round that takes longer had better look at the others.
const MOST_STEPS: usize = 4;

/// Of more dual variables than this no trail is kept: it takes 18 numbers for each.
const WIDEST: usize = 1 << 19;

/// Between two contests passes this part of a sweep of blocks, so that others have their say.
const BETWEEN: usize = 8;

/// Those of a contest need no smaller gap than this part of the target: others have some, too.
const ENOUGH: f64 = 0.5;

/// A change that is nothing but a rounding, of the largest of an example's dual variables.
const ROUNDING: f64 = 1e-14;

/// Steps of blocks, for any loss.
#[derive(Clone, Debug)]
pub(super) struct Blocks<S> {
    pub labels: Vec<f64>,
    pub weights: Vec<f64>,
    /// Output after output.
    pub scores: Vec<f64>,
    pub dual: Vec<f64>,
    before: Vec<f64>,
    target: f64,
    pub steps: usize,
    /// Steps when the last contest was over, or was not to be; and the one that is under way.
    pub contested: usize,
    /// For how many sweeps conjugate gradients were not worth their time then.
    pub pause: usize,
    contest: Option<Contest<S>>,
    /// Where the last sweeps have led.
    pub trail: Trail<Vec<f64>>,
}

impl<S: Scalar, L: Loss> KernelAscent<S, L> {
    pub(super) fn begin_blocks(&self, data: &Examples<'_, S>, job: &Job<S>) -> Blocks<S> {
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
            weights: self.weights(data, set, None),
            scores,
            before: dual.clone(),
            dual,
            target: f64::NAN,
            steps: 0,
            contested: 0,
            pause: 0,
            contest: None,
            trail: Trail::default(),
        }
    }

    /// Says whether it is done.
    pub(super) fn ascend(
        &self,
        data: &Examples<'_, S>,
        job: &mut Job<S>,
        blocks: &mut Blocks<S>,
        size: usize,
    ) -> Result<bool, Error> {
        let (stride, count) = (job.among.stride, job.among.len());
        let mut shares = vec![0.0; stride];
        let mut order: Vec<(f64, u32)> = Vec::with_capacity(count);
        let mut left = size.div_ceil(BLOCK);
        loop {
            if let Some(mut contest) = blocks.contest.take() {
                let enough = ENOUGH * blocks.target;
                if !self.contend(data, job, &mut contest, enough, &mut left)? {
                    blocks.contest = Some(contest);
                    return Ok(false);
                }
                self.after_contest(data, job, blocks, &contest)?;
            }
            let Blocks { labels, weights, scores, dual, target, steps, .. } = blocks;
            self.loss.shares(scores, dual, stride, labels, &mut shares);
            order.clear();
            let mut gap = 0.0;
            for (k, (share, weight)) in shares.iter().zip(&*weights).enumerate() {
                gap += weight * share;
                order.push((weight * share, k as u32));
            }
            if target.is_nan() {
                *target = job.target(gap, gap, job.dual);
            }
            if gap <= *target || *steps >= MOST_STEPS * (count + 100) {
                return Ok(true);
            }
            if left == 0 {
                return Ok(false);
            }
            (left, *steps) = (left - 1, *steps + 1);
            let sweep = count.div_ceil(BLOCK);
            if steps.is_multiple_of(sweep) && self.leap(data, job, blocks)? {
                continue;
            }
            // After a sweep little has a share. Where it is too much nonetheless, another sweep passes.
            if blocks.steps > sweep && blocks.steps > blocks.contested + sweep / BETWEEN {
                blocks.contest = self.begin_contest(data, job, blocks, &shares);
                if blocks.contest.is_some() {
                    continue;
                }
                blocks.contested = blocks.steps + sweep;
            }
            let size = BLOCK.min(count);
            if size < count {
                order.select_nth_unstable_by(size, |a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            }
            let mut block: Vec<usize> =
                order[..size].iter().map(|share| share.1 as usize).collect();
            block.sort_unstable();
            self.ascend_block(data, job, blocks, &block)?;
        }
    }

    /// Steps of these examples in turn, until their part of the gap has come down; then all scores learn of them.
    fn ascend_block(
        &self,
        data: &Examples<'_, S>,
        job: &mut Job<S>,
        blocks: &mut Blocks<S>,
        block: &[usize],
    ) -> Result<(), Error> {
        let (outputs, stride, size) = (self.outputs(), job.among.stride, block.len());
        let Blocks { labels, weights, scores: all, dual, .. } = blocks;
        job.among.fetch(self.kernel, data.rows(), &self.cached, block.iter().copied())?;
        // Scores and kernel values of the block alone, until it is done.
        let mut own: Vec<f64> = (0..outputs)
            .flat_map(|o| block.iter().map(move |&k| o * stride + k))
            .map(|place| all[place])
            .collect();
        let rows: Vec<&[S]> = block.iter().map(|&k| job.among.row(&self.cached, k)).collect();
        let values: Vec<S> = rows.iter().flat_map(|row| block.iter().map(|&j| row[j])).collect();
        let mut moved = vec![0.0; size * outputs];
        // Of each the outputs that contend before its first step; later ones are about these alone.
        let (mut contenders, mut bounds) = (Vec::new(), vec![0]);
        let (mut nonzeros, mut found) = (Vec::new(), Vec::new());
        let (mut scores, mut coef, mut a) = (vec![0.0; outputs], vec![0.0; outputs], Vec::new());
        let mut first = f64::NAN;
        for pass in 0..PASSES {
            let mut seen = 0.0;
            for (b, &k) in block.iter().enumerate() {
                let (y, weight) = (labels[k] as u32, weights[k]);
                let row = &values[b * size..(b + 1) * size];
                let c = self.coef_of_one(data, job.among.set[k] as usize);
                let q = c * row[b].to_f64().max(0.0);
                if pass == 0 {
                    scores.resize(outputs, 0.0);
                    (0..outputs).for_each(|o| scores[o] = own[o * size + b]);
                    let duals = (0..outputs).map(|o| (o as u32, dual[o * stride + k]));
                    nonzeros.clear();
                    nonzeros.extend(duals.filter(|(_, a)| *a != 0.0));
                    found.clear();
                    if !self.loss.contenders(&scores, y, q, &nonzeros, &mut found) {
                        found.clear();
                        found.extend(0..outputs as u32);
                    }
                    contenders.append(&mut found);
                    bounds.push(contenders.len());
                }
                let few = &contenders[bounds[b]..bounds[b + 1]];
                // Where all outputs take part, the class may be one that has none.
                let y =
                    if few.len() < outputs { few.partition_point(|&o| o < y) as u32 } else { y };
                scores.clear();
                scores.extend(few.iter().map(|&o| own[o as usize * size + b]));
                a.clear();
                a.extend(few.iter().map(|&o| dual[o as usize * stride + k]));
                let cross: f64 = a.iter().zip(&scores).map(|(a, score)| a * score).sum();
                let loss = self.loss.value_and_coef(&scores, y, &mut coef[..few.len()]);
                let share = weight * (loss + self.loss.conjugate(&a, y) + cross);
                seen += share;
                if share <= 0.0 {
                    continue;
                }
                self.loss.ascend(&scores, y, q, &mut a);
                for (&o, a) in few.iter().zip(&a) {
                    let o = o as usize;
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
        Ok(())
    }

    /// After a sweep: leaps, if that is worth anything; see [`Trail`]. Says whether it has.
    fn leap(
        &self,
        data: &Examples<'_, S>,
        job: &mut Job<S>,
        blocks: &mut Blocks<S>,
    ) -> Result<bool, Error> {
        let stride = job.among.stride;
        if self.outputs() * stride > WIDEST {
            return Ok(false);
        }
        let Blocks { labels, weights, scores, dual, trail, .. } = blocks;
        let conjugates = self.conjugates(dual, stride, labels, weights);
        let here = Point { dual: dual.clone(), image: scores.clone(), conjugates };
        let leap =
            trail.leap(here, &|way, scores| by_scores(way, scores, weights, stride), |there| {
                let outside = self.bring_back(data, job, labels, &mut there.dual);
                let some = outside.iter().map(|(k, _)| *k);
                job.among.fetch(self.kernel, data.rows(), &self.cached, some)?;
                for (o, scores) in there.image.chunks_mut(stride).enumerate() {
                    let changed = outside.iter().filter(|(_, change)| change[o] != 0.0);
                    let (changes, rows): (Vec<f64>, Vec<&[S]>) = changed
                        .map(|(k, change)| (change[o], job.among.row(&self.cached, *k)))
                        .unzip();
                    S::add_rows(&changes, &rows, scores);
                }
                there.conjugates = self.conjugates(&there.dual, stride, labels, weights);
                Ok(!outside.is_empty())
            })?;
        let Some((there, _)) = leap else {
            return Ok(false);
        };
        (*dual, *scores) = (there.dual, there.image);
        Ok(true)
    }

    /// The weighted sum of the conjugates.
    fn conjugates(&self, dual: &[f64], stride: usize, labels: &[f64], weights: &[f64]) -> f64 {
        let mut a = vec![0.0; self.outputs()];
        let mut of = |k: usize| {
            a.iter_mut().enumerate().for_each(|(o, a)| *a = dual[o * stride + k]);
            weights[k] * self.loss.conjugate(&a, labels[k] as u32)
        };
        (0..weights.len()).map(&mut of).sum()
    }

    /// Makes dual variables feasible: whose were not, and what their coefficients in w gain.
    fn bring_back(
        &self,
        data: &Examples<'_, S>,
        job: &Job<S>,
        labels: &[f64],
        dual: &mut [f64],
    ) -> Vec<(usize, Vec<f64>)> {
        let (stride, mut outside) = (job.among.stride, Vec::new());
        let (mut old, mut a) = (vec![0.0; self.outputs()], vec![0.0; self.outputs()]);
        for k in 0..job.among.len() {
            old.iter_mut().enumerate().for_each(|(o, a)| *a = dual[o * stride + k]);
            if old.iter().all(|a| *a == 0.0) {
                continue;
            }
            a.clone_from(&old);
            self.loss.make_feasible(&mut a, labels[k] as u32);
            a.iter().enumerate().for_each(|(o, a)| dual[o * stride + k] = *a);
            let least = ROUNDING * largest(&old);
            if a.iter().zip(&old).any(|(a, old)| (a - old).abs() > least) {
                let c = self.coef_of_one(data, job.among.set[k] as usize);
                outside.push((k, a.iter().zip(&old).map(|(a, old)| c * (a - old)).collect()));
            }
        }
        outside
    }

    pub(super) fn after_blocks(
        &self,
        data: &Examples<'_, S>,
        job: &Job<S>,
        blocks: &Blocks<S>,
    ) -> Found {
        let stride = job.among.stride;
        let mut found = Found::default();
        for (k, &place) in job.among.set.iter().enumerate() {
            let c = self.coef_of_one(data, place as usize);
            for o in 0..self.outputs() {
                let (old, new) = (blocks.before[o * stride + k], blocks.dual[o * stride + k]);
                if new != old {
                    found.dual.extend(self.dual.at(o, place as usize).map(|at| (at, new)));
                    let (output, change) = (o as u32, (new - old) * c);
                    found.gains.push(Gain { place, output, change });
                }
            }
        }
        found
    }
}
