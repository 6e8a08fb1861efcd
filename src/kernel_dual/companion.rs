//! Who goes with another, where that is worth far more than its step alone: in greedy ascent, and in contests of several outputs.
//!
//! * Rows that are the same, or nearly, with labels that are not: where C k(x, x) is large, the step of one moves the score of all
//!   of them, that of another moves it back, and dual variables that belong at their ends go there by millionths. Together two
//!   of them get there at once, and move no score.
//! * Found by the curvature that is left to another one while the best one goes as far as it likes, as LIBSVM chooses its second
//!   one (Fan, Chen and Lin 2005). That takes a look at all who take part, so it is asked once a sweep, and again as long as somebody
//!   is found, for a sweep at most.
//! * Trials, 636 rows of 16 features, 177 of them one and the same, one class in eleven against the others, to a gap of 1e-3: a
//!   Gaussian kernel at C = 1e5 takes 0.004 s, without 1.3 to 1.8, a cubic one at C = 44 0.007 s, without 0.4, at C = 1e4 0.006 s,
//!   where no end was seen. Sets without such rows take as long (usps, letter, covtype15k at C from 1 to 100).
//! * With several outputs the way of an example leads from one of its outputs to another, and its companion comes back. The same
//!   rows, the eleven classes at random, jointly to 1e-2: a Gaussian kernel at C = 1000 0.6 s, without 1.9, a cubic one at C = 44
//!   0.3, at C = 1e4 0.3, where no end was seen in 17 and 24. usps and covtype15k at C = 10 and 100 take as long. It does not help
//!   everywhere: 240 rows, a third the same, seven classes, the cubic kernel, take as many steps as without.

use super::KernelAscent;
use super::cells::Cells;
use super::contest::Contest;
use super::descent::Descent;
use super::pair::{Coordinate, best_of_two};
use super::working::{Among, Job};
use crate::error::Error;
use crate::examples::Examples;
use crate::loss::Loss;
use crate::scalar::Scalar;

/// How many times what the best one gains alone somebody beside it must gain.
const FAR_MORE: f64 = 30.0;

/// The part of a curvature of which no less is left: kernel values in f32 are rounded.
const ALL_BUT_FLAT: f64 = 1e-6;

/// The most that a coefficient in w times k(x, x) may be for a way to be gone in a pair: scores are sums of these, so that what two
/// of them that go opposite ways leave in f64 are roundings, with this 1e-7.
const MOST_IN_A_SCORE: f64 = 1e9;

/// What has come of asking who would go with the best one.
#[derive(Clone, Copy, Debug)]
pub(super) enum Asked {
    Nobody,
    /// Both have stepped.
    Went,
    /// The job's kernel values that are wanted must be there first.
    Waits,
}

/// Whether it is time to ask: after a rest of one sweep, and for one at most. Where everybody has a companion at every step, steps
/// with them lead no further than others, and finding them doubles their price.
fn may_ask<S: Scalar>(descent: &mut Descent<S>) -> bool {
    let (since, sweep) = (descent.steps - descent.rested, descent.active.len());
    if since >= 2 * sweep {
        descent.rested = descent.steps;
    }
    (sweep..2 * sweep).contains(&since)
}

impl<S: Scalar, L: Loss> KernelAscent<S, L> {
    /// Asks, where it is time to, and steps with whom it has found, for which some more of the steps that are left go.
    pub(super) fn go_with_companion(
        &self,
        data: &Examples<'_, S>,
        job: &mut Job<S>,
        descent: &mut Descent<S>,
        at: usize,
        left: &mut usize,
    ) -> Result<Asked, Error> {
        if !may_ask(descent) || !descent.can_step(&job.among, descent.active[at] as usize) {
            return Ok(Asked::Nobody);
        }
        let Some(other) = self.companion(&job.among, descent, at)? else {
            descent.rested = descent.steps;
            return Ok(Asked::Nobody);
        };
        let k = descent.active[other] as usize;
        if !descent.can_step(&job.among, k) {
            job.wanted = vec![k];
            *left = left.saturating_sub(1);
            if job.in_step {
                return Ok(Asked::Waits);
            }
            self.fetch_wanted(data, job, descent)?;
        }
        let moved = self.step(&job.among, descent, &[at, other], true)?;
        *left = left.saturating_sub(1);
        descent.steps += 2;
        if !moved {
            descent.rested = descent.steps;
        }
        Ok(Asked::Went)
    }

    /// Who of those that take part would gain most if it went with the best one, `at`, whose kernel values are there: if that is
    /// far more than the best one gains alone.
    fn companion(
        &self,
        among: &Among<S>,
        descent: &mut Descent<S>,
        at: usize,
    ) -> Result<Option<usize>, Error> {
        let (all, k) = (descent.all_take_part(), descent.active[at] as usize);
        if !all {
            let Descent { near, active, .. } = descent;
            near.find(k, || among.row(&self.cached, k), active)?;
        }
        let row = if all { among.row(&self.cached, k) } else { descent.near.row(k) };
        let (one, own) = (descent.coordinate(k, descent.now[at]), row[at].to_f64());
        let mut best = (FAR_MORE * one.best_alone().1, None);
        for (l, &k) in descent.active.iter().enumerate().filter(|&(l, _)| l != at) {
            let (across, other) = (row[l].to_f64(), descent.coordinate(k as usize, descent.now[l]));
            let part = across / own;
            let slope = other.slope - part * one.slope;
            let left = 1.0 - part * across * other.factor / other.curvature;
            let curvature = other.curvature * left.max(ALL_BUT_FLAT);
            let (_, gain) = Coordinate { slope, curvature, ..other }.best_alone();
            if gain > best.0 {
                best = (gain, Some(l));
            }
        }
        Ok(best.1)
    }
}

/// A way of one example on the simplex: from one of its cells to another, as far as that lets it.
#[derive(Clone, Copy, Debug)]
struct Way {
    to: usize,
    from: usize,
    /// How far.
    most: f64,
    slope: f64,
}

impl<S: Scalar, L: Loss> KernelAscent<S, L> {
    /// The same in a contest, after a sweep: the examples with the largest shares in turn, each with who goes the other way between
    /// the same two outputs, as long as there is somebody. Says how many have.
    pub(super) fn go_in_pairs(
        &self,
        data: &Examples<'_, S>,
        job: &mut Job<S>,
        contest: &mut Contest<S>,
    ) -> Result<usize, Error> {
        let mut order = self.shares_in(contest);
        order.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut count = 0;
        for (_, e) in order.into_iter().take_while(|(share, _)| *share > 0.0) {
            if !self.goes_with(data, job, contest, e as usize)? {
                break;
            }
            count += 1;
        }
        Ok(count)
    }

    /// Whether somebody has gone with this one.
    fn goes_with(
        &self,
        data: &Examples<'_, S>,
        job: &mut Job<S>,
        contest: &mut Contest<S>,
        e: usize,
    ) -> Result<bool, Error> {
        let Contest { cells, factor, curvature, .. } = contest;
        let Some(way) = best_way(cells, e) else {
            return Ok(false);
        };
        let one = along(way, factor[e], curvature[e]);
        if one.curvature > MOST_IN_A_SCORE {
            return Ok(false);
        }
        let (up, down) = (cells.output(way.to), cells.output(way.from));
        let k = cells.member(way.to);
        job.among.fetch(self.kernel, data.rows(), &self.cached, std::iter::once(k))?;
        cells.bring(way.to, &job.among, &self.cached);
        let Some(row) = cells.row(way.to) else {
            return Ok(false);
        };
        let mut best = (FAR_MORE * one.best_alone().1, None);
        for other in (0..cells.examples.len()).filter(|&other| other != e) {
            let Some(back) = way_between(cells, other, down, up) else {
                continue;
            };
            let across = -2.0 * row[back.from - cells.starts[up]].to_f64();
            let two = along(back, factor[other], curvature[other]);
            if two.curvature > MOST_IN_A_SCORE {
                continue;
            }
            let (steps, gain) = best_of_two(one, two, across);
            if gain > best.0 {
                best = (gain, Some((other, back, steps)));
            }
        }
        let Some((other, back, [Some(first), Some(second)])) = best.1 else {
            return Ok(false);
        };
        let whose = cells.member(back.to);
        job.among.fetch(self.kernel, data.rows(), &self.cached, std::iter::once(whose))?;
        let mut scores = std::mem::take(&mut cells.scores);
        for (e, way, part) in [(e, way, first), (other, back, second)] {
            let change = part * way.most;
            for (at, change) in [(way.to, change), (way.from, -change)] {
                cells.dual[at] += change;
                cells.add(at, factor[e] * change, &job.among, &self.cached, &mut scores);
            }
            cells.balance(e);
        }
        cells.scores = scores;
        Ok(true)
    }
}

/// A way as a dual variable from 0 to 1.
fn along(way: Way, factor: f64, curvature: f64) -> Coordinate {
    // Two outputs move by as much.
    let curvature = 2.0 * curvature * way.most;
    Coordinate { slope: way.slope, old: 0.0, low: 0.0, curvature, factor: factor * way.most }
}

/// The slope of D, and how far a dual variable may rise.
fn rise<S: Scalar>(cells: &Cells<S>, at: usize, own: bool) -> (f64, f64) {
    let end = if own { 1.0 } else { 0.0 };
    (end - cells.scores[at], (end - cells.dual[at]).max(0.0))
}

/// The steepest way of an example.
fn best_way<S: Scalar>(cells: &Cells<S>, e: usize) -> Option<Way> {
    let own = cells.of(e).start + cells.own[e] as usize;
    let all = cells.of(e).map(|i| (cells.at(i).0, rise(cells, cells.at(i).0, i == own)));
    let steepest = |a: &(usize, (f64, f64)), b: &(usize, (f64, f64))| a.1.0.total_cmp(&b.1.0);
    let (to, (up, most)) = all.clone().filter(|(_, (_, most))| *most > 0.0).max_by(steepest)?;
    let (from, (down, _)) = all.min_by(steepest)?;
    (up > down).then_some(Way { to, from, most, slope: up - down })
}

/// The way of an example between two outputs, where both contend for it and it may go.
fn way_between<S: Scalar>(cells: &Cells<S>, e: usize, up: usize, down: usize) -> Option<Way> {
    let own = cells.of(e).start + cells.own[e] as usize;
    let find = |o: usize| cells.of(e).find(|&i| cells.at(i).1 == o);
    let (to, from) = (find(up)?, find(down)?);
    let ((to, (up, most)), (from, (down, _))) =
        [to, from].map(|i| (cells.at(i).0, rise(cells, cells.at(i).0, i == own))).into();
    (most > 0.0).then_some(Way { to, from, most, slope: up - down })
}

#[cfg(test)]
mod tests {
    use rand_pcg::Pcg64;
    use rand_pcg::rand_core::Rng;

    use super::super::pair::tests::pieces;
    use crate::{CrammerSinger, Dense, Examples, Kernel, KernelAscent};

    /// A third of the rows the same but for a rounding, or to the last bit, one in ten labels wrong: each example steps a few
    /// times, not thousands of times, however large C is. In pieces of n steps each; without companions there are hundreds.
    #[test]
    fn rows_that_contradict_each_other_are_soon_settled() {
        let (n, d) = (600, 16);
        for spread in [0.0, 1e-7] {
            let mut numbers = Pcg64::new(5, 0);
            let mut uniform = || (numbers.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
            let mut x: Vec<f32> = (0..n * d).map(|_| 4.0 * uniform() as f32 - 2.0).collect();
            let y: Vec<u32> = (0..n).map(|_| u32::from(uniform() < 0.1)).collect();
            for i in (0..n).step_by(3) {
                for j in 0..d {
                    x[i * d + j] = x[j] + (spread * uniform()) as f32;
                }
            }
            let rows = Dense::new(&x, n, d).expect("rows");
            let data = Examples::new(rows, &y, None).expect("examples");
            let cubic = Kernel::Poly { gamma: 1.0, coef0: 1.0, degree: 3 };
            for (kernel, c) in [
                (Kernel::Rbf { gamma: 1.0 }, 1e2),
                (Kernel::Rbf { gamma: 1.0 }, 1e5),
                (cubic, 1e2),
                (cubic, 1e4),
            ] {
                let pieces = pieces(kernel, (c, 0.0), &data, 1e-2, 30);
                assert!(pieces < 30, "{kernel:?}, C = {c}, spread {spread}");
            }
        }
    }

    /// And with several classes: kernel values that are all 1, labels of noise. In pieces of n steps each, at C = 1e5 50 to 130, at
    /// 1e4 50 or 800, as roundings will have it; without companions 2,000.
    #[test]
    fn outputs_that_contradict_each_other_are_soon_settled() {
        let (n, classes) = (226, 9);
        let mut numbers = Pcg64::new(7, 0);
        let y: Vec<u32> = (0..n).map(|_| (numbers.next_u64() % 9) as u32).collect();
        let x = vec![0.0; n];
        let data = Examples::new(Dense::new(&x, n, 1).expect("rows"), &y, None).expect("examples");
        for c in [1.0, 100.0, 1e4, 1e5] {
            let (loss, lambda) = (CrammerSinger { classes }, 1.0 / (c * n as f64));
            let kernel = Kernel::Rbf { gamma: 1.0 };
            let ascent = KernelAscent::new(kernel, loss, lambda, &data, 1 << 24);
            let mut ascent = ascent.expect("ascent");
            let mut pieces = 0;
            while !matches!(ascent.advance(&data, 1e-3, n), Ok(Some(found)) if found.relative_gap() <= 1e-3)
            {
                pieces += 1;
                assert!(pieces < 1500, "C = {c}");
            }
            for (a, &y) in ascent.dual().chunks(classes).zip(&y) {
                assert!(a.iter().sum::<f64>().abs() < 1e-12 && a[y as usize] <= 1.0);
                assert!((0..).zip(a).all(|(o, a)| o == y || *a <= 0.0));
            }
        }
    }

    /// Features near 100, a cubic kernel, labels of noise: values of 1e12 that differ by millionths, so that at most steps somebody
    /// gains far more beside the best one, and after it, again. In pieces of n steps each; without companions there are 36,000,
    /// with them at every step there is no end.
    #[test]
    fn companions_at_every_step_are_not_gone_after() {
        let (n, d) = (12, 2);
        let mut numbers = Pcg64::new(7, 0);
        let mut uniform = || (numbers.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let mut normal = || (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
        let x: Vec<f64> = (0..n * d).map(|_| 100.0 + normal()).collect();
        let y: Vec<u32> = (0..n).map(|_| u32::from(uniform() < 0.5)).collect();
        let data = Examples::new(Dense::new(&x, n, d).expect("rows"), &y, None).expect("examples");
        let cubic = Kernel::Poly { gamma: 1.0, coef0: 1.0, degree: 3 };
        assert!(pieces(cubic, (1.0, 0.0), &data, 1e-2, 10_000) < 10_000);
    }
}
