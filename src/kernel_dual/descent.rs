//! Greedy ascent among a working set, a few examples at a time: for the hinge loss of one score.
//!
//! * A pass over all who take part brings slopes up to date and finds the best of each of [`CANDIDATES`] parts of them. These
//!   step one after the other, each knowing of those before it, and the next pass learns of all at once.
//! * Where kernel values have much in common ([`ALIKE`](super::values::ALIKE)), as with an intercept, one example alone cannot
//!   go far without all scores' going with it: of half as many parts a pass finds the best to rise and the best to fall, and
//!   these step in pairs, as in Platt (1998). Who may fall is worth asking even where its own slope says rise: only the
//!   difference of the two counts. With a constant of 3 that takes 0.4 to 0.6 of the time of single steps, and where all
//!   kernel values are nearly 1 a hundredth of it and less (`benches/kernels.py --only intercept`).
//! * Once a sweep it is asked who would gain far more beside the best one than that alone (`companion.rs`).
//! * Kernel values are computed as rows are needed: those of the next step with those of some others that promise most.
//! * Those with the largest shares take part ([`Descent::working`] of them). Of these, who stands at an end of [0, 1] and will
//!   stay there, as far as the present slopes tell, is put aside. Once the others are done, all slopes are made up for, and
//!   who takes part is chosen anew. So a step costs as much as there are examples that matter.
//! * Source: greedy steps as in Platt (1998), shrinking as in Joachims (1999).

use super::companion::Asked;
use super::near::Near;
use super::pair::{Coordinate, best_of_two};
use super::sweeps::Sweeps;
use super::values::add_all;
use super::working::{Among, Found, Gain, Job};
use super::{KernelAscent, SLOW, WORKING};
use crate::data::Matrix;
use crate::error::Error;
use crate::examples::Examples;
use crate::loss::Loss;
use crate::scalar::Scalar;
use crate::simd::{CANDIDATES, Steepest, TILE, WIDTH};
use crate::vectors::GROUP;

/// Fewer examples than this are not worth a choice.
const LEAST: usize = 256;

/// Where the set is the whole problem, down to this part of the tolerance, or of what there was.
const WHOLE: f64 = 0.9;
pub(super) const DEEP: f64 = 1e-6;

/// Steps of a search between two looks at who could be put aside, at least.
const LOOK: usize = 64;

/// Rows that are computed at a time, of few features and of more. Who is next is looked for each time: with [`TILE`] of them
/// letter and covtype15k take 1.03 to 1.05 times as long, with three or four times as many as with twice.
const FEW: usize = 2 * TILE;
const MORE: usize = GROUP;

/// Rows that are computed at a time where all slopes are made up for.
const SOME: usize = 4 * GROUP;

/// A row of kernel values takes about as long as so many steps, at a guess: each value costs a product and an exponential, and a
/// step adds a row that is there.
const STEPS_OF_ROW: usize = 16;

/// Whose step promises less than this part of the best one is passed over. With 0 letter, usps and covtype15k of
/// `benches/kernels.py` take as long; with eight parts instead of four, too; with one step a pass 1.02 to 1.9 times as long.
const WORTH: f64 = 0.1;

/// Greedy steps for the hinge loss of one score. Slopes and dual variables are multiplied by the signs of the examples, so
/// that kernel values are as they are: a is in [0, 1] or in [-1, 0], and a slope is its sign less the score.
#[derive(Clone, Debug)]
pub(super) struct Descent<S> {
    pub sign: Vec<f64>,
    pub a: Vec<f64>,
    before: Vec<f64>,
    /// Slopes of all as they were when the a were these.
    pub slope: Vec<f64>,
    pub known: Vec<f64>,
    /// What a dual variable of 1 is in w, and that times k(x, x).
    pub factor: Vec<f64>,
    pub curvature: Vec<f64>,
    /// Who takes part, and of these the slopes as they are now, dual variables, inverse curvatures, weights with signs.
    pub active: Vec<u32>,
    pub now: Vec<f64>,
    pub narrow: Vec<f32>,
    inverse: Vec<f32>,
    weight: Vec<f32>,
    /// These weights, and 0 where a row was found to be there already.
    lacking: Vec<f32>,
    /// Rows of kernel values with these, where not all take part.
    pub near: Near<S>,
    pub next: Steepest,
    /// The gap of those who take part when they began to, and that of all.
    first: f64,
    pub last_gap: f64,
    /// That of all at the beginning.
    pub start: f64,
    /// How many take part.
    working: usize,
    /// n times the dual value.
    pub dual: f64,
    pub steps: usize,
    /// The last sweeps among those who take part.
    pub sweeps: Sweeps,
    /// Steps when somebody last looked who could be put aside, and when slopes were last made up for.
    looked: usize,
    synced: usize,
    /// Steps when the last rest from asking for companions began.
    pub rested: usize,
}

impl<S: Scalar> Descent<S> {
    /// The part of a gap of an entry, without its weight; how far its slope is from where it may stay.
    fn share(&self, k: usize, slope: f64) -> f64 {
        let low = self.low(k);
        slope * (if slope > 0.0 { low + 1.0 } else { low } - self.a[k])
    }

    /// Has these take part, with such slopes.
    fn activate(&mut self, active: Vec<u32>, slope: impl Fn(usize) -> f64, weights: &[f64]) {
        let stride = active.len().next_multiple_of(WIDTH);
        let mut now = vec![0.0; stride];
        for (now, &k) in now.iter_mut().zip(&active) {
            *now = slope(k as usize);
        }
        // What stands beyond has weight 0 and takes no part.
        let of = |f: &dyn Fn(usize) -> f64| {
            let mut out = vec![0.0_f32; stride];
            out.iter_mut().zip(&active).for_each(|(out, &k)| *out = f(k as usize) as f32);
            out
        };
        self.narrow = of(&|k| self.a[k]);
        self.inverse = of(&|k| (1.0 / self.curvature[k]).min(1e30));
        self.weight = of(&|k| self.sign[k] * weights[k]);
        self.lacking.clone_from(&self.weight);
        (self.now, self.active) = (now, active);
        self.sweeps.begin(self.steps, self.active.len());
        self.near.clear(stride, self.active.len());
    }

    /// Of the k-th, with such a slope.
    pub fn coordinate(&self, k: usize, slope: f64) -> Coordinate {
        Coordinate {
            slope,
            old: self.a[k],
            low: self.low(k),
            curvature: self.curvature[k],
            factor: self.factor[k],
        }
    }

    /// Whose step promises most, and how much.
    fn best(&self) -> (usize, f64) {
        let Steepest { at, gain, .. } = self.next;
        let better = |a: (usize, f64), b: (usize, f64)| if b.1 > a.1 { b } else { a };
        at.into_iter().zip(gain).fold((at[0], gain[0]), better)
    }

    /// Where the interval of the k-th begins; its length is 1.
    pub fn low(&self, k: usize) -> f64 {
        if self.sign[k] < 0.0 { -1.0 } else { 0.0 }
    }

    /// The nearest dual variable in that interval.
    pub fn inside(&self, k: usize, a: f64) -> f64 {
        let low = self.low(k);
        a.clamp(low, low + 1.0)
    }

    pub fn all_take_part(&self) -> bool {
        self.active.len() == self.a.len()
    }

    /// Whether the k-th can step without another kernel value.
    pub fn can_step(&self, among: &Among<S>, k: usize) -> bool {
        if self.near.computes && !self.all_take_part() { self.near.has(k) } else { among.has(k) }
    }

    /// Who should take part, given the shares of all.
    fn choose(&self, shares: &[f64]) -> Vec<u32> {
        let mut open: Vec<(f64, u32)> =
            (0..).zip(shares).filter(|(_, share)| **share > 0.0).map(|(k, s)| (*s, k)).collect();
        // Of those that are alike some from everywhere.
        let mixed = |k: u32| k.wrapping_mul(0x9E37_79B9);
        let best =
            |a: &(f64, u32), b: &(f64, u32)| b.0.total_cmp(&a.0).then(mixed(a.1).cmp(&mixed(b.1)));
        let largest = |of: &mut Vec<(f64, u32)>, most: usize| {
            if most < of.len() {
                of.select_nth_unstable_by(most, best);
                of.truncate(most);
            }
        };
        if self.steps == 0 {
            // Nothing is known yet: as many of each sign, as far as there are.
            let sign = |entry: &(f64, u32)| self.sign[entry.1 as usize] < 0.0;
            let (mut few, mut many): (Vec<_>, Vec<_>) = open.into_iter().partition(sign);
            if few.len() > many.len() {
                std::mem::swap(&mut few, &mut many);
            }
            largest(&mut few, self.working / 2);
            largest(&mut many, self.working - few.len());
            open = few;
            open.append(&mut many);
        }
        largest(&mut open, self.working);
        let mut active: Vec<u32> = open.into_iter().map(|(_, k)| k).collect();
        active.sort_unstable();
        active
    }

    /// Who of these should go on taking part: all but those that stand at their end, with a slope beyond every slope of
    /// those that do not.
    fn worthy(
        &self,
        slopes: impl Iterator<Item = (usize, f64)> + Clone,
        weights: &[f64],
    ) -> Vec<u32> {
        let open =
            slopes.clone().filter(|&(k, slope)| weights[k] > 0.0 && self.share(k, slope) > 0.0);
        let most = open.map(|(_, slope)| slope.abs()).fold(0.0, f64::max);
        let stays = |&(k, slope): &(usize, f64)| {
            weights[k] > 0.0 && (slope.abs() <= most || self.share(k, slope) > 0.0)
        };
        slopes.filter(stays).map(|(k, _)| k as u32).collect()
    }
}

impl<S: Scalar, L: Loss> KernelAscent<S, L> {
    pub(super) fn begin_descent(&self, data: &Examples<'_, S>, job: &Job<S>) -> Descent<S> {
        let (problem, set) = (job.problem, &job.among.set);
        let sign = |&place: &u32| {
            self.loss.hinge_sign(problem, self.labels[place as usize]).unwrap_or(1.0)
        };
        let sign: Vec<f64> = set.iter().map(sign).collect();
        let a: Vec<f64> = set.iter().map(|&place| self.dual.get(problem, place as usize)).collect();
        let scores = set.iter().map(|&place| self.scores.get(problem, place as usize));
        let mut slope: Vec<f64> =
            sign.iter().zip(scores).map(|(sign, score)| sign - score).collect();
        // Rows have as many entries.
        slope.resize(job.among.stride, 0.0);
        let factor: Vec<f64> =
            set.iter().map(|&place| self.coef_of_one(data, place as usize)).collect();
        let own = |&place: &u32| self.own_value(place as usize).max(0.0);
        let curvature = set.iter().map(own).zip(&factor).map(|(own, factor)| own * factor);
        let mut descent = Descent {
            curvature: curvature.collect(),
            factor,
            sign,
            before: a.clone(),
            known: a.clone(),
            a,
            slope,
            active: Vec::new(),
            now: Vec::new(),
            narrow: Vec::new(),
            inverse: Vec::new(),
            weight: Vec::new(),
            lacking: Vec::new(),
            near: Near::new(self.kernel, self.n_features, set.len(), &self.room),
            next: Steepest::default(),
            first: 0.0,
            last_gap: f64::INFINITY,
            start: 0.0,
            working: 0,
            dual: job.dual,
            steps: 0,
            sweeps: Sweeps::new(job.dual),
            looked: 0,
            synced: usize::MAX,
            rested: 0,
        };
        self.begin_among(&mut descent, job.whole, &self.weights(data, set, None));
        descent
    }

    /// Begins with what slopes and dual variables are, whatever was done before.
    pub(super) fn begin_among(&self, descent: &mut Descent<S>, whole: bool, weights: &[f64]) {
        let len = weights.len();
        descent.working = if whole { (len / 8).clamp(LEAST, WORKING) } else { len };
        (descent.steps, descent.looked, descent.rested) = (0, 0, 0);
        (descent.synced, descent.last_gap) = (usize::MAX, f64::INFINITY);
        descent.sweeps = Sweeps::new(descent.dual);
        descent.start = self.regroup(descent, weights);
    }

    /// Chooses who takes part, all slopes being known; returns the gap of all.
    fn regroup(&self, descent: &mut Descent<S>, weights: &[f64]) -> f64 {
        let shares: Vec<f64> =
            (0..weights.len()).map(|k| weights[k] * descent.share(k, descent.slope[k])).collect();
        let gap: f64 = shares.iter().sum();
        if gap > SLOW * descent.last_gap {
            descent.working = (2 * descent.working).min(weights.len());
        }
        descent.last_gap = gap;
        let slope = descent.slope.clone();
        descent.activate(descent.choose(&shares), |k| slope[k], weights);
        descent.next = self.look_around(descent);
        (descent.first, descent.looked) = (descent.next.gap, descent.steps);
        gap
    }

    /// Who is next, without a step.
    pub(super) fn look_around(&self, descent: &mut Descent<S>) -> Steepest {
        let Descent { now, narrow, inverse, weight, .. } = descent;
        S::descend(&[], &[], now, [narrow, inverse, weight], self.alike())
    }

    /// Says whether it is done.
    pub(super) fn descend(
        &self,
        data: &Examples<'_, S>,
        job: &mut Job<S>,
        descent: &mut Descent<S>,
        size: usize,
    ) -> Result<bool, Error> {
        let weights = self.weights(data, &job.among.set, job.without);
        let most_steps = 500 * weights.len() + 1000;
        let mut left = size;
        self.fetch_wanted(data, job, descent)?;
        loop {
            let gap = descent.next.gap;
            let (at, gain) = descent.best();
            let there = gap <= job.target(gap, descent.first, descent.dual);
            let stuck = gain <= 0.0 || at >= descent.active.len();
            let last = descent.steps >= most_steps;
            if there || stuck || last {
                let Some(computed) = self.sync(data, &mut job.among, descent, left)? else {
                    return Ok(false);
                };
                left = left.saturating_sub(STEPS_OF_ROW * computed);
                let idle = descent.synced == descent.steps;
                descent.synced = descent.steps;
                let gap = self.regroup(descent, &weights);
                let enough = match job.whole {
                    true => (WHOLE * job.tol * (descent.dual + gap)).max(DEEP * descent.start),
                    false => job.target(gap, descent.start, descent.dual),
                };
                if idle || last || gap <= enough {
                    return Ok(true);
                }
                left = left.saturating_sub(GROUP);
                continue;
            }
            if left == 0 {
                return Ok(false);
            }
            left -= 1;
            match self.go_with_companion(data, job, descent, at, &mut left)? {
                Asked::Nobody => {}
                Asked::Waits => return Ok(false),
                Asked::Went => continue,
            }
            let pairs = self.alike();
            // The best of the same part that goes the other way, and that of the other part that goes this one.
            let first = descent.next.at.iter().position(|other| *other == at).unwrap_or(0);
            let (other, promise) = (descent.next.at[first ^ 2], descent.next.gain[first ^ 2]);
            let both = [at, other];
            let needed = if pairs && promise > f64::NEG_INFINITY { &both[..] } else { &both[..1] };
            let missing = |&at: &usize| !descent.can_step(&job.among, descent.active[at] as usize);
            if needed.iter().any(missing) {
                let x = data.rows();
                let most = if x.n_features() < 64 { FEW } else { MORE };
                job.wanted = promising(descent, needed, &job.among, most);
                left = left.saturating_sub(STEPS_OF_ROW * job.wanted.len());
                if job.in_step {
                    return Ok(false);
                }
                self.fetch_wanted(data, job, descent)?;
            }
            let (mut places, mut count) = ([at; CANDIDATES], 1);
            let parts = match pairs {
                // However little the step of a second one alone would gain, or lose: it makes up for what that of the first
                // one moves all scores by.
                true => [(2, f64::NEG_INFINITY), (1, 0.0), (3, f64::NEG_INFINITY)],
                false => [1, 2, 3].map(|part| (part, WORTH * gain)),
            };
            for (part, least) in parts {
                let (other, promise) =
                    (descent.next.at[first ^ part], descent.next.gain[first ^ part]);
                let there = |&k: &u32| descent.can_step(&job.among, k as usize);
                // The second of a second pair has nobody to go with where the first one is not there.
                let alone = pairs && part == 3 && count < 3;
                if promise > least
                    && !alone
                    && !places[..count].contains(&other)
                    && descent.active.get(other).is_some_and(there)
                {
                    places[count] = other;
                    count += 1;
                }
            }
            let moved = self.step(&job.among, descent, &places[..count], pairs)?;
            left = left.saturating_sub(count - 1);
            descent.steps += count;
            if !moved {
                descent.next.gain = [0.0; CANDIDATES];
            }
            if descent.sweeps.are_over(descent.steps, descent.active.len()) {
                let work = self.look_back(data, job, descent, &weights)?;
                left = left.saturating_sub(work);
            }
            if descent.steps >= descent.looked + LOOK.max(descent.active.len() / 2) {
                descent.looked = descent.steps;
                let slopes = descent.active.iter().map(|&k| k as usize);
                let worthy = descent.worthy(slopes.zip(descent.now.iter().copied()), &weights);
                if 4 * worthy.len() <= 3 * descent.active.len() && !worthy.is_empty() {
                    let mut slope = vec![0.0; weights.len()];
                    let now = descent.active.iter().zip(&descent.now);
                    now.for_each(|(&k, now)| slope[k as usize] = *now);
                    descent.activate(worthy, |k| slope[k], &weights);
                    descent.next = self.look_around(descent);
                }
            }
        }
    }

    /// Makes sure of the kernel values that steps wait for.
    pub(super) fn fetch_wanted(
        &self,
        data: &Examples<'_, S>,
        job: &mut Job<S>,
        descent: &mut Descent<S>,
    ) -> Result<(), Error> {
        let (wanted, all) = (std::mem::take(&mut job.wanted), descent.all_take_part());
        if wanted.is_empty() {
            return Ok(());
        }
        let Descent { near, active, .. } = descent;
        self.fetch(data.rows(), &mut job.among, near, (active, all), wanted)
    }

    /// Makes sure of the kernel values that steps of these need, `active` taking part, which may be all of the set.
    pub(super) fn fetch(
        &self,
        x: &Matrix<'_, S>,
        among: &mut Among<S>,
        near: &mut Near<S>,
        (active, all): (&[u32], bool),
        wanted: Vec<usize>,
    ) -> Result<(), Error> {
        if near.computes && !all {
            return near.compute(self.kernel, x, among, active, wanted);
        }
        among.fetch(self.kernel, x, &self.cached, wanted.into_iter()).map(drop)
    }

    /// Kernel values with those who take part of these, which must be there.
    pub(super) fn rows_of_active<'a>(
        &'a self,
        job: &'a Job<S>,
        descent: &'a mut Descent<S>,
        whose: &[usize],
    ) -> Result<Vec<&'a [S]>, Error> {
        let row = |k: usize| job.among.row(&self.cached, k);
        if descent.all_take_part() {
            return Ok(whose.iter().map(|&k| row(k)).collect());
        }
        let Descent { near, active, .. } = descent;
        for &k in whose {
            near.find(k, || row(k), active)?;
        }
        Ok(whose.iter().map(|&k| near.row(k)).collect())
    }

    /// Whether examples step in pairs that go opposite ways.
    fn alike(&self) -> bool {
        self.means.alike(self.kernel.by)
    }

    /// Steps of a few who take part, one after the other or in `pairs`, of which the slopes of all learn then. Says whether any
    /// has moved.
    pub(super) fn step(
        &self,
        among: &Among<S>,
        descent: &mut Descent<S>,
        places: &[usize],
        pairs: bool,
    ) -> Result<bool, Error> {
        let all = descent.all_take_part();
        let row = |k: usize| among.row(&self.cached, k);
        if !all {
            let Descent { near, active, .. } = &mut *descent;
            for &at in places {
                let k = active[at] as usize;
                near.find(k, || row(k), active)?;
            }
        }
        let mut rows: [&[S]; CANDIDATES] = [&[]; CANDIDATES];
        for (out, &at) in rows.iter_mut().zip(places) {
            let k = descent.active[at] as usize;
            *out = if all { row(k) } else { descent.near.row(k) };
        }
        let mut changes = [0.0; CANDIDATES];
        let mut done = 0;
        while done < places.len() {
            let coordinate = |i: usize| {
                let before = changes[..done].iter().zip(rows);
                let before = before.map(|(c, row)| c * row[places[i]].to_f64()).sum::<f64>();
                let k = descent.active[places[i]] as usize;
                descent.coordinate(k, descent.now[places[i]] - before)
            };
            let one = coordinate(done);
            let (new, gain) = if pairs && done + 1 < places.len() {
                best_of_two(one, coordinate(done + 1), rows[done + 1][places[done]].to_f64())
            } else {
                one.best_alone()
            };
            descent.dual += self.lambda * self.len() as f64 * gain;
            for new in new.into_iter().flatten() {
                let at = places[done];
                let k = descent.active[at] as usize;
                changes[done] = descent.factor[k] * (new - descent.a[k]);
                descent.a[k] = new;
                descent.narrow[at] = new as f32;
                done += 1;
            }
        }
        let (changes, rows) = (&changes[..places.len()], &rows[..places.len()]);
        descent.sweeps.note(places.len() * descent.now.len());
        let Descent { now, narrow, inverse, weight, .. } = descent;
        descent.next = S::descend(changes, rows, now, [narrow, inverse, weight], self.alike());
        Ok(changes.iter().any(|change| *change != 0.0))
    }

    /// Makes up for what has moved since all slopes were known. Returns how many rows of kernel values were computed; `None`
    /// where so many were, and more are to come before anything else.
    pub(super) fn sync(
        &self,
        data: &Examples<'_, S>,
        among: &mut Among<S>,
        descent: &mut Descent<S>,
        size: usize,
    ) -> Result<Option<usize>, Error> {
        let len = descent.a.len();
        let change = |k: &usize| descent.factor[*k] * (descent.known[*k] - descent.a[*k]);
        let moved: Vec<usize> = (0..len).filter(|k| change(k) != 0.0).collect();
        let changes: Vec<f64> = moved.iter().map(change).collect();
        let mut computed = 0;
        for part in moved.chunks(SOME) {
            if STEPS_OF_ROW * computed >= size.max(1) {
                return Ok(None);
            }
            let part = part.iter().copied();
            computed += among.fetch(self.kernel, data.rows(), &self.cached, part)?;
        }
        let rows: Vec<&[S]> = moved.iter().map(|&k| among.row(&self.cached, k)).collect();
        add_all(&changes, &rows, &mut descent.slope);
        descent.known.clone_from(&descent.a);
        Ok(Some(computed))
    }

    pub(super) fn after_descent(&self, job: &Job<S>, descent: &Descent<S>) -> Found {
        let problem = job.problem;
        let mut found = Found::default();
        let slope = &descent.slope;
        for (k, &place) in job.among.set.iter().enumerate() {
            let change = descent.a[k] - descent.before[k];
            let Some(at) = self.dual.at(problem, place as usize) else {
                continue;
            };
            if change != 0.0 {
                found.dual.push((at, descent.a[k]));
                let (output, change) = (problem as u32, descent.factor[k] * change);
                found.gains.push(Gain { place, output, change });
            }
            if job.whole {
                found.scores.push((at, descent.sign[k] - slope[k]));
            }
        }
        if job.whole {
            found.gains.clear();
        }
        found
    }
}

/// Who is needed next, and those of the others without a row that promise most.
fn promising<S: Scalar>(
    descent: &mut Descent<S>,
    needed: &[usize],
    among: &Among<S>,
    most: usize,
) -> Vec<usize> {
    let most = most - needed.len();
    let largest = |others: &mut Vec<(f64, usize)>| {
        if most < others.len() {
            others.select_nth_unstable_by(most, |a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            others.truncate(most);
        }
    };
    let (mut others, mut least) = (Vec::with_capacity(2 * most + 1), 0.0);
    let (slopes, _) = descent.now.as_chunks::<WIDTH>();
    let [a, inverse, weight] =
        [&descent.narrow, &descent.inverse, &descent.lacking].map(|of| of.as_chunks::<WIDTH>().0);
    let mut there = Vec::new();
    for (first, slopes) in slopes.iter().enumerate() {
        let (a, inverse, weight) = (&a[first], &inverse[first], &weight[first]);
        let mut gains = [0.0; WIDTH];
        for l in 0..WIDTH {
            let (a, weight) = (f64::from(a[l]), f64::from(weight[l]));
            let low = if weight < 0.0 { -1.0 } else { 0.0 };
            let to = (a + f64::from(inverse[l]) * slopes[l]).max(low).min(low + 1.0);
            gains[l] = weight.abs() * (to - a) * slopes[l];
        }
        // Most end here, before anything is looked up.
        if gains.iter().all(|gain| *gain <= least) {
            continue;
        }
        for (l, gain) in (first * WIDTH..).zip(gains).filter(|(_, gain)| *gain > least) {
            let k = descent.active[l] as usize;
            if descent.can_step(among, k) {
                there.push(l);
            } else if !needed.contains(&l) {
                others.push((gain, k));
            }
        }
        if others.len() > 2 * most {
            largest(&mut others);
            least = others.iter().map(|other| other.0).fold(f64::INFINITY, f64::min);
        }
    }
    largest(&mut others);
    there.into_iter().for_each(|l| descent.lacking[l] = 0.0);
    let needed = needed.iter().map(|&at| descent.active[at] as usize);
    needed.chain(others.into_iter().map(|(_, k)| k)).collect()
}
