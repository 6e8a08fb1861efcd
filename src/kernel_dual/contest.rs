//! Ascent of those whose dual variables are not settled yet, among the outputs that contend for them.
//!
//! * Where few examples of a working set, and few outputs of each, have a share in the gap, a step costs as much as those
//!   have kernel values with one another, output by output ([`Cells`]): where there are ten classes a tenth of what it costs
//!   all scores of a set to know of it.
//! * Steps one after the other, of an eighth with the largest shares in turn; after each sweep a leap ([`Trail`]), and where a
//!   few of these do not do, conjugate gradients ([`Face`]).

use super::blocks::Blocks;
use super::cells::Cells;
use super::face::Face;
use super::working::Job;
use super::{BLOCK, KernelAscent};
use crate::error::Error;
use crate::examples::Examples;
use crate::loss::Loss;
use crate::memory;
use crate::scalar::{Scalar, largest};
use crate::trail::{Point, Trail, Way, by_scores};

/// Bytes of kernel values, at most: more do not stay in the processor's cache, and steps are no faster than those of blocks.
/// With 120 MB covtype15k at C = 100 took 1.5 times as long as without contests.
const BYTES: usize = 48 << 20;

/// And so many may be there however few are allowed: without them some fits do not end.
const FEWEST: usize = 2 << 20;

/// Down to this part of its gap a contest goes.
const DEEP: f64 = 0.2;

/// So many of its examples ascend at a time, with the largest shares; and at least a block.
const PART: usize = 8;

/// Sweeps that are followed by a leap before conjugate gradients are tried: where a few do, those are not worth their time.
const EASY: usize = 8;

/// Steps of conjugate gradients at a time, about.
const GRADIENTS: usize = 200;

/// So many of these steps take about as long as a sweep.
const LIKE_A_SWEEP: f64 = 5.0;

/// Where they have gained less than sweeps would have in that time, one sweep passes until they are tried again, then 3, 7,
/// and so on up to this. Where kernel values are of low rank, few dual variables are free in the end, and sweeps find them.
const PAUSE: usize = 63;

/// Sweeps of a contest, at most; and how many of them conjugate gradients count for.
const SWEEPS: usize = 300;
const OF_GRADIENTS: usize = 3;

/// A change that is nothing but a rounding, of the largest of an example's dual variables.
const ROUNDING: f64 = 1e-14;

/// A contest under way.
#[derive(Clone, Debug)]
pub(super) struct Contest<S> {
    pub cells: Cells<S>,
    /// By example, of its weight, what a dual variable of 1 is in w, and that times k(x, x).
    weights: Vec<f64>,
    pub factor: Vec<f64>,
    pub curvature: Vec<f64>,
    /// Dual variables at the beginning.
    before: Vec<f64>,
    first: f64,
    /// Steps of this sweep, and sweeps.
    steps: usize,
    sweeps: usize,
    trail: Trail<Vec<f64>>,
    /// Sweeps until conjugate gradients are tried, how many passed before, and where the last of them began.
    wait: usize,
    pub pause: usize,
    last: Option<Point<Vec<f64>>>,
}

impl<S: Scalar, L: Loss> KernelAscent<S, L> {
    /// How many kernel values among those that are free there may be.
    pub(super) fn most_of_face(&self) -> usize {
        let [most, fewest] = [BYTES, FEWEST].map(|bytes| bytes / size_of::<S>());
        (self.most.pow(2) / 4).clamp(fewest, most)
    }

    /// A contest of all that have a share, given the shares of all; `None` where too many contend.
    pub(super) fn begin_contest(
        &self,
        data: &Examples<'_, S>,
        job: &Job<S>,
        blocks: &Blocks<S>,
        shares: &[f64],
    ) -> Option<Contest<S>> {
        if !self.loss.on_simplex() {
            return None;
        }
        let (outputs, stride, count) = (self.outputs(), job.among.stride, job.among.len());
        let open = (0..count).filter(|&k| blocks.weights[k] * shares[k] > 0.0);
        let examples: Vec<u32> = open.map(|k| k as u32).collect();
        let place = |k: usize| job.among.set[k] as usize;
        let of = |f: &dyn Fn(usize) -> f64| examples.iter().map(|&k| f(k as usize)).collect();
        let factor: Vec<f64> = of(&|k| self.coef_of_one(data, place(k)));
        let own: Vec<f64> = of(&|k| self.own_value(place(k)).max(0.0));
        let curvature: Vec<f64> =
            own.iter().zip(&factor).map(|(own, factor)| own * factor).collect();
        let weights = of(&|k| blocks.weights[k]);
        let (mut scores, mut nonzeros, mut found) = (vec![0.0; outputs], Vec::new(), Vec::new());
        let mut cells = Cells::new(&examples, outputs, |e, out| {
            let k = examples[e] as usize;
            let y = blocks.labels[k] as u32;
            (0..outputs).for_each(|o| scores[o] = blocks.scores[o * stride + k]);
            let duals = (0..outputs).map(|o| (o as u32, blocks.dual[o * stride + k]));
            nonzeros.clear();
            nonzeros.extend(duals.filter(|(_, a)| *a != 0.0));
            found.clear();
            if !self.loss.contenders(&scores, y, curvature[e], &nonzeros, &mut found) {
                found.clear();
                found.extend(0..outputs as u32);
            }
            let own = found.partition_point(|&o| o < y) as u32;
            out.append(&mut found);
            own
        });
        // Conjugate gradients need as much again; and a round has kernel values of its own.
        let (size, most) = (cells.size(), self.most_of_face());
        let fits = size <= most && memory::check::<S>("kernel values", &[2 * size]).is_ok();
        if examples.is_empty() || !fits || !cells.reserve() {
            return None;
        }
        for (e, &k) in examples.iter().enumerate() {
            for i in cells.of(e) {
                let (at, o) = cells.at(i);
                cells.scores[at] = blocks.scores[o * stride + k as usize];
                cells.dual[at] = blocks.dual[o * stride + k as usize];
                (cells.weights[at], cells.factor[at]) = (weights[e], factor[e]);
            }
        }
        let (before, trail) = (cells.dual.clone(), Trail::default());
        let (first, steps, sweeps, pause) = (f64::NAN, 0, 0, blocks.pause);
        Some(Contest {
            cells,
            weights,
            factor,
            curvature,
            before,
            first,
            steps,
            sweeps,
            trail,
            wait: EASY.max(pause),
            pause,
            last: None,
        })
    }

    /// Goes on with a contest; says whether it is over: down to a part of its gap, or to what will do.
    pub(super) fn contend(
        &self,
        data: &Examples<'_, S>,
        job: &mut Job<S>,
        contest: &mut Contest<S>,
        enough: f64,
        left: &mut usize,
    ) -> Result<bool, Error> {
        let count = contest.cells.examples.len();
        loop {
            if *left == 0 {
                return Ok(false);
            }
            *left -= 1;
            if contest.steps >= count {
                (contest.steps, contest.sweeps) = (0, contest.sweeps + 1);
                if contest.sweeps > EASY {
                    let pairs = self.go_in_pairs(data, job, contest)?;
                    *left = left.saturating_sub(pairs);
                }
                let work = self.see_all(data, job, contest)?;
                *left = left.saturating_sub(work);
            }
            let mut order = self.shares_in(contest);
            let gap: f64 = order.iter().map(|share| share.0).sum();
            if contest.first.is_nan() {
                contest.first = gap;
            }
            order.retain(|share| share.0 > 0.0);
            let deep = gap <= (DEEP * contest.first).max(enough);
            if deep || order.is_empty() || contest.sweeps >= SWEEPS {
                return Ok(true);
            }
            let size = BLOCK.max(count / PART);
            if size < order.len() {
                order.select_nth_unstable_by(size, |a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
                order.truncate(size);
            }
            let mut part: Vec<usize> = order.iter().map(|share| share.1 as usize).collect();
            part.sort_unstable();
            let whose = part.iter().map(|&e| contest.cells.examples[e] as usize);
            let computed = job.among.fetch(self.kernel, data.rows(), &self.cached, whose)?;
            for &e in &part {
                self.step_in(job, contest, e);
            }
            // Also those that have changed nothing.
            contest.steps += part.len();
            *left = left.saturating_sub((part.len() + computed) / BLOCK);
        }
    }

    /// The shares of those in a contest, and whose they are.
    pub(super) fn shares_in(&self, contest: &Contest<S>) -> Vec<(f64, u32)> {
        let (mut scores, mut a, mut coef) = (Vec::new(), Vec::new(), vec![0.0; self.outputs()]);
        let shares = contest.weights.iter().enumerate().map(|(e, weight)| {
            contest.cells.read(e, &mut scores, &mut a);
            let y = contest.cells.own[e];
            let cross: f64 = a.iter().zip(&scores).map(|(a, score)| a * score).sum();
            let loss = self.loss.value_and_coef(&scores, y, &mut coef[..a.len()]);
            (weight * (loss + self.loss.conjugate(&a, y) + cross), e as u32)
        });
        shares.collect()
    }

    /// The best that one example can do.
    fn step_in(&self, job: &Job<S>, contest: &mut Contest<S>, e: usize) {
        let (mut scores, mut a) = (Vec::new(), Vec::new());
        let Contest { cells, factor, curvature, .. } = contest;
        cells.read(e, &mut scores, &mut a);
        self.loss.ascend(&scores, cells.own[e], curvature[e], &mut a);
        for (i, a) in cells.of(e).zip(a) {
            let (at, _) = cells.at(i);
            let change = (a - cells.dual[at]) * factor[e];
            cells.dual[at] = a;
            if change != 0.0 {
                let mut scores = std::mem::take(&mut cells.scores);
                cells.add(at, change, &job.among, &self.cached, &mut scores);
                cells.scores = scores;
            }
        }
    }

    /// After a sweep: conjugate gradients, or a leap. Says about how many blocks' work that was.
    fn see_all(
        &self,
        data: &Examples<'_, S>,
        job: &mut Job<S>,
        contest: &mut Contest<S>,
    ) -> Result<usize, Error> {
        if contest.wait > 0 {
            contest.wait -= 1;
            self.leap_in(data, job, contest)?;
            contest.last = (contest.wait == 0).then(|| self.point_in(contest));
            return Ok(1);
        }
        let cells = &mut contest.cells;
        let whose: Vec<usize> = cells.nonzeros().map(|at| cells.member(at)).collect();
        job.among.fetch(self.kernel, data.rows(), &self.cached, whose.into_iter())?;
        cells.bring_all(&job.among, &self.cached);
        let Some(mut face) = Face::of(cells, self.outputs()) else {
            contest.wait = PAUSE;
            return Ok(1);
        };
        let here = self.point_in(contest);
        let cells = &mut contest.cells;
        let (by_place, stride) = (cells.weights.clone(), cells.dual.len());
        let product = &|way: &Way<_>, scores: &Vec<f64>| by_scores(way, scores, &by_place, stride);
        let of_sweep = contest.last.take().map(|last| last.gain_to(&here, product));
        let (steps, _) = face.ascend(GRADIENTS);
        let gains = face.settle(cells);
        let mut scores = std::mem::take(&mut cells.scores);
        cells.add_all(&gains, &job.among, &self.cached, &mut scores);
        cells.scores = scores;
        let (best, gain) = here.towards(self.point_in(contest), product);
        let worth = gain > of_sweep.unwrap_or(0.0) * steps as f64 / LIKE_A_SWEEP;
        let Contest { cells, trail, wait, pause, sweeps, last, .. } = contest;
        cells.dual.clone_from(&best.dual);
        cells.scores.clone_from(&best.image);
        *pause = if worth { 0 } else { (2 * *pause + 1).min(PAUSE) };
        (*wait, *trail, *last) = (*pause, Trail::default(), worth.then_some(best));
        *sweeps += OF_GRADIENTS;
        Ok(cells.examples.len() / BLOCK)
    }

    /// Where a contest is.
    fn point_in(&self, Contest { cells, weights, .. }: &Contest<S>) -> Point<Vec<f64>> {
        let conjugates = self.conjugates_in(&cells.dual, cells, weights);
        Point { dual: cells.dual.clone(), image: cells.scores.clone(), conjugates }
    }

    fn leap_in(
        &self,
        data: &Examples<'_, S>,
        job: &mut Job<S>,
        contest: &mut Contest<S>,
    ) -> Result<(), Error> {
        let here = self.point_in(contest);
        let Contest { cells, weights, factor, trail, .. } = contest;
        let (by_place, stride) = (cells.weights.clone(), cells.dual.len());
        let leap = trail.leap(
            here,
            &|way, scores| by_scores(way, scores, &by_place, stride),
            |there| {
                let outside = self.bring_back_in(cells, factor, &mut there.dual);
                let whose = outside.iter().map(|(at, _)| cells.member(*at));
                job.among.fetch(self.kernel, data.rows(), &self.cached, whose)?;
                cells.add_all(&outside, &job.among, &self.cached, &mut there.image);
                there.conjugates = self.conjugates_in(&there.dual, cells, weights);
                Ok(!outside.is_empty())
            },
        )?;
        if let Some((there, _)) = leap {
            (cells.dual, cells.scores) = (there.dual, there.image);
        }
        Ok(())
    }

    /// The weighted sum of the conjugates.
    fn conjugates_in(&self, dual: &[f64], cells: &Cells<S>, weights: &[f64]) -> f64 {
        let mut a = Vec::new();
        let of = weights.iter().enumerate().map(|(e, weight)| {
            cells.read_of(e, dual, &mut a);
            weight * self.loss.conjugate(&a, cells.own[e])
        });
        of.sum()
    }

    /// Makes dual variables feasible: the places where they were not, and what their coefficients in w gain.
    fn bring_back_in(
        &self,
        cells: &Cells<S>,
        factor: &[f64],
        dual: &mut [f64],
    ) -> Vec<(usize, f64)> {
        let (mut outside, mut a) = (Vec::new(), Vec::new());
        for (e, c) in factor.iter().enumerate() {
            cells.read_of(e, dual, &mut a);
            if a.iter().all(|a| *a == 0.0) {
                continue;
            }
            let large = largest(&a);
            self.loss.make_feasible(&mut a, cells.own[e]);
            for (i, a) in cells.of(e).zip(&a) {
                let (at, _) = cells.at(i);
                let change = a - dual[at];
                dual[at] = *a;
                if change.abs() > ROUNDING * large {
                    outside.push((at, c * change));
                }
            }
        }
        outside
    }

    /// All scores of the set learn what a contest has come to.
    pub(super) fn after_contest(
        &self,
        data: &Examples<'_, S>,
        job: &mut Job<S>,
        blocks: &mut Blocks<S>,
        contest: &Contest<S>,
    ) -> Result<(), Error> {
        let (stride, cells) = (job.among.stride, &contest.cells);
        let mut moved: Vec<Vec<(usize, f64)>> = vec![Vec::new(); self.outputs()];
        for (e, &k) in cells.examples.iter().enumerate() {
            for i in cells.of(e) {
                let (at, o) = cells.at(i);
                let change = contest.factor[e] * (cells.dual[at] - contest.before[at]);
                blocks.dual[o * stride + k as usize] = cells.dual[at];
                if change != 0.0 {
                    moved[o].push((k as usize, change));
                }
            }
        }
        let whose = moved.iter().flatten().map(|moved| moved.0);
        job.among.fetch(self.kernel, data.rows(), &self.cached, whose)?;
        for (moved, scores) in moved.iter().zip(blocks.scores.chunks_mut(stride)) {
            let (changes, rows): (Vec<f64>, Vec<&[S]>) =
                moved.iter().map(|&(k, change)| (change, job.among.row(&self.cached, k))).unzip();
            S::add_rows(&changes, &rows, scores);
        }
        // Those of a contest cost about an eighth.
        blocks.steps += contest.sweeps * cells.examples.len() / BLOCK / 8;
        (blocks.contested, blocks.trail) = (blocks.steps, Trail::default());
        blocks.pause = contest.pause;
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use rand_pcg::Pcg64;
    use rand_pcg::rand_core::Rng;

    use crate::{CrammerSinger, Dense, Examples, Kernel, KernelAscent, Loss};

    /// Weak regularisation, all within one contest after another: solved, and to the same bits whatever the pieces are.
    #[test]
    fn contests_end_at_the_optimum() {
        let (n, d, classes) = (400, 3, 5);
        let mut numbers = Pcg64::new(7, 0);
        let mut uniform = || (numbers.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let x: Vec<f64> = (0..n * d).map(|_| uniform()).collect();
        // Bands, a tenth of them wrong.
        let label = |row: &[f64]| (row.iter().sum::<f64>() * 2.5) as u32 % classes;
        let y: Vec<u32> = x
            .chunks(d)
            .map(|row| if uniform() < 0.1 { (uniform() * 5.0) as u32 } else { label(row) })
            .collect();
        let data = Examples::new(Dense::new(&x, n, d).expect("rows"), &y, None).expect("examples");
        for c in [1.0, 100.0, 1e4] {
            let (loss, lambda) = (CrammerSinger { classes: 5 }, 1.0 / (c * n as f64));
            let kernel = Kernel::Rbf { gamma: 2.0 };
            let new = || KernelAscent::new(kernel, loss, lambda, &data, 1 << 24).expect("ascent");
            let mut whole = new();
            let certificate = whole.solve(&data, 1e-6, 100).expect("a certificate");
            assert!(certificate.relative_gap() <= 1e-6, "{c}: {}", certificate.relative_gap());
            for (a, &y) in whole.dual().chunks(5).zip(&y) {
                assert!(a.iter().sum::<f64>().abs() < 1e-12 && a[y as usize] <= 1.0);
                assert!((0..).zip(a).all(|(o, a)| o == y || *a <= 0.0));
            }
            let mut pieces = new();
            while !matches!(pieces.advance(&data, 1e-6, 1), Ok(Some(found)) if found.relative_gap() <= 1e-6)
            {
            }
            assert_eq!(whole.dual(), pieces.dual(), "{c}");
        }
    }

    /// Ranks of 3 and 1, each row four times, some with another label, weights from 0 to a thousand: D is flat in nearly all
    /// directions, conjugate gradients do not know where to go, and sweeps must not wait for them. And D never falls, nor does
    /// a point leave its domain, even where weights times C are beyond what scores can tell from a rounding.
    pub fn d_never_falls<L: Loss + Clone>(
        loss: &L,
        d: usize,
        inside: impl Fn(&[f64], u32) -> bool,
    ) {
        let (n, outputs) = (320, loss.outputs());
        let mut numbers = Pcg64::new(11, 0);
        let mut uniform = || (numbers.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let some: Vec<f64> = (0..n / 4 * d).map(|_| uniform() - 0.5).collect();
        let x = some.repeat(4);
        let y: Vec<u32> = (0..n).map(|_| (uniform() * 4.0) as u32).collect();
        let weights: Vec<f64> = (0..n).map(|i| [0.0, 1e-3, 1.0, 1e3][i % 4]).collect();
        let x = Dense::new(&x, n, d).expect("rows");
        let data = Examples::new(x, &y, Some(&weights)).expect("examples");
        for c in [1.0, 1e4, 1e8] {
            let lambda = 1.0 / (c * n as f64);
            let ascent = KernelAscent::new(Kernel::Linear, loss.clone(), lambda, &data, 1 << 24);
            let mut ascent = ascent.expect("ascent");
            let (mut before, mut gap) = (0.0, 1.0);
            for _ in 0..10 {
                let found = ascent.solve(&data, 1e-6, 1).expect("a certificate");
                let least = before - 1e-9 * found.primal;
                assert!(found.dual >= least, "C = {c}: {} < {before}", found.dual);
                (before, gap) = (found.dual, found.relative_gap());
            }
            assert!(gap <= 1e-6 || c > 1e4, "C = {c}: {gap}");
            for (a, &y) in ascent.dual().chunks(outputs).zip(&y) {
                assert!(inside(a, y), "{a:?} of class {y}");
            }
        }
    }

    fn jointly_d_never_falls(d: usize) {
        d_never_falls(&CrammerSinger { classes: 4 }, d, |a, y| {
            let others = (0..).zip(a).all(|(o, a)| o == y || *a <= 0.0);
            a.iter().sum::<f64>().abs() < 1e-12 && a[y as usize] <= 1.0 && others
        });
    }

    #[test]
    fn however_flat_d_never_falls() {
        jointly_d_never_falls(3);
    }

    #[test]
    fn on_a_line_d_never_falls() {
        jointly_d_never_falls(1);
    }
}
