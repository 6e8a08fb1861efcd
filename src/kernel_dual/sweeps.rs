//! What follows a sweep of greedy steps: a leap along the way of the last ones ([`Trail`]), or conjugate gradients among those
//! whose dual variables are free ([`Face`]).
//!
//! * Where the regularisation is weak hundreds of dual variables are free, and of all that a step gains the next ones take back
//!   a little: they agree by thousands of steps each. Conjugate gradients see all of them at once; who leaves its interval stays
//!   at its end, and the steps that follow let go those that should not have.
//! * They are tried where the steps since the last trial have taken so much longer than one would that little is lost if it
//!   fails, and again at once as long as they gain more than the steps before in the same time. Where labels are noise and thousands
//!   are free, steps gain more; there they are tried ever more rarely.
//! * Trials on an AMD EPYC, with them over without: the checkerboard (100,000 points, to a gap of 0.01) 0.24 of the time at
//!   C = 1e4, 0.5 at 1e6, as long at 100; one class of letter and usps against the rest 0.9 to 1.1 at C from 10 to 1000, pairs of
//!   covtype15k 0.85 at 100 and 1.0 to 1.2 at 1000; a9a 0.8.

use super::KernelAscent;
use super::descent::Descent;
use super::face::{Face, Intervals, STEPS};
use super::working::Job;
use crate::error::Error;
use crate::examples::Examples;
use crate::loss::Loss;
use crate::memory;
use crate::scalar::Scalar;
use crate::trail::{Point, Trail, Way, by_scores};

/// Sweeps among the same before anything is noted of them: where a few do, looking back is not worth its time.
const EASY: usize = 2;

/// Multiplications that a step takes as long as beside its own.
const STEP: usize = 2048;

/// How many times what a trial of conjugate gradients takes steps take before the first one; then, as long as they fail, twice as
/// many each time.
const RARELY: usize = 8;

/// Their steps at most, or as many as take so many multiplications: a caller wants to be heard.
const MOST: usize = 200;
const LONG: usize = 1 << 28;

/// The face of those who are free, and which of those who take part they are.
type Free<S> = (Face<S, Intervals>, Vec<usize>);

/// The last sweeps among those who take part.
#[derive(Clone, Debug)]
pub(super) struct Sweeps {
    /// Where they have led, and steps when the last one ended.
    trail: Trail<Vec<f64>>,
    ended: usize,
    /// Multiplications of all steps; and when somebody last looked back, with n times the dual value then.
    work: usize,
    last: (usize, f64),
    /// Multiplications when conjugate gradients were last tried, and how many times theirs the steps until the next trial are.
    tried: usize,
    pause: usize,
}

impl Sweeps {
    /// n times the dual value being this.
    pub fn new(dual: f64) -> Self {
        let trail = Trail::default();
        Sweeps { trail, ended: 0, work: 0, last: (0, dual), tried: 0, pause: RARELY }
    }

    /// After so many steps others take part, so many.
    pub fn begin(&mut self, steps: usize, count: usize) {
        (self.trail, self.ended) = (Trail::default(), steps + EASY * count);
    }

    /// Whether there was one more, after so many steps, if so many take part. Greedy steps are about few at a time: half a sweep.
    pub fn are_over(&self, steps: usize, count: usize) -> bool {
        steps >= self.ended + count.div_ceil(2)
    }

    /// A step has taken so many multiplications.
    pub fn note(&mut self, multiplications: usize) {
        self.work += STEP + multiplications;
    }

    /// Whether to try what takes so many.
    fn may_try(&self, multiplications: usize) -> bool {
        self.work >= self.tried.saturating_add(self.pause.saturating_mul(multiplications))
    }

    /// What a trial has gained, and how many multiplications it took; n times the dual value was this before it.
    fn learn(&mut self, gain: f64, multiplications: usize, dual: f64) {
        let (steps, of_steps) = (self.work - self.last.0, dual - self.last.1);
        let worth = gain * steps as f64 > of_steps * multiplications as f64;
        self.pause = if worth { 0 } else { RARELY.max(self.pause.saturating_mul(2)) };
        (self.tried, self.trail) = (self.work, Trail::default());
    }
}

impl<S: Scalar, L: Loss> KernelAscent<S, L> {
    /// After a sweep. Returns about how many rows' work that was.
    pub(super) fn look_back(
        &self,
        data: &Examples<'_, S>,
        job: &mut Job<S>,
        descent: &mut Descent<S>,
        weights: &[f64],
    ) -> Result<usize, Error> {
        let (active, stride) = (&descent.active, descent.now.len());
        let own = |of: &[f64]| active.iter().map(|&k| of[k as usize]).collect::<Vec<f64>>();
        let (mut dual, weights) = (own(&descent.a), own(weights));
        dual.resize(stride, 0.0);
        // What is linear in a, a conjugate is, may as well be in the scores.
        let image = descent.now.iter().map(|slope| -slope).collect();
        let here = Point { dual, image, conjugates: 0.0 };
        let product =
            &|way: &Way<Vec<f64>>, scores: &Vec<f64>| by_scores(way, scores, &weights, stride);
        let mut work = active.len();
        let found = match self.begin_face(job, descent, &weights)? {
            Some((mut face, free)) => {
                let size = free.len().pow(2);
                let (_, multiplications) = face.ascend((LONG / size).clamp(STEPS, MOST));
                // To pick what is multiplied takes about as long as to multiply it twice.
                work = multiplications + 2 * size + free.len() * stride;
                let there = self.at_the_end_of(job, descent, &here, &face.dual, &free)?;
                let found = here.towards(there, product);
                descent.sweeps.learn(found.1, work, descent.dual);
                Some(found).filter(|found| found.1 > 0.0)
            }
            None => {
                let mut trail = std::mem::take(&mut descent.sweeps.trail);
                let leap =
                    trail.leap(here, product, |there| self.bring_inside(data, job, descent, there));
                descent.sweeps.trail = trail;
                leap?
            }
        };
        if let Some((there, gain)) = found {
            descent.dual += gain;
            for (l, &k) in descent.active.iter().enumerate() {
                descent.a[k as usize] = there.dual[l];
                descent.narrow[l] = there.dual[l] as f32;
            }
            descent.now.iter_mut().zip(&there.image).for_each(|(slope, score)| *slope = -score);
            descent.next = self.look_around(descent);
        }
        descent.sweeps.ended = descent.steps;
        descent.sweeps.last = (descent.sweeps.work, descent.dual);
        Ok(work / stride.max(1))
    }

    /// Those who are free, of all whose kernel values are there; `None` where it is not time for that.
    fn begin_face(
        &self,
        job: &Job<S>,
        descent: &mut Descent<S>,
        weights: &[f64],
    ) -> Result<Option<Free<S>>, Error> {
        let is_free = |&l: &usize| {
            let k = descent.active[l] as usize;
            let a = descent.a[k] - descent.low(k);
            weights[l] > 0.0 && a > 0.0 && a < 1.0 && descent.can_step(&job.among, k)
        };
        let free: Vec<usize> = (0..descent.active.len()).filter(is_free).collect();
        let (size, most) = (free.len().pow(2), self.most_of_face());
        let takes = (STEPS + 2) * size + free.len() * descent.now.len();
        let due = free.len() > 1 && size <= most && descent.sweeps.may_try(takes);
        if !due || memory::check::<S>("kernel values", &[size]).is_err() {
            return Ok(None);
        }
        let whose: Vec<usize> = free.iter().map(|&l| descent.active[l] as usize).collect();
        let of = |f: &dyn Fn(usize) -> f64| whose.iter().map(|&k| f(k)).collect::<Vec<f64>>();
        let domain = Intervals(of(&|k| descent.low(k)));
        let slopes = free.iter().map(|&l| descent.now[l]).collect();
        let numbers = [of(&|k| descent.a[k]), of(&|k| descent.factor[k]), slopes];
        let rows = self.rows_of_active(job, descent, &whose)?;
        let all = vec![(0..free.len()).collect()];
        let face = Face::new(domain, numbers, all, |i, j| rows[i][free[j]]);
        Ok(face.map(|face| (face, free)))
    }

    /// Where a face has come to.
    fn at_the_end_of(
        &self,
        job: &Job<S>,
        descent: &mut Descent<S>,
        here: &Point<Vec<f64>>,
        dual: &[f64],
        free: &[usize],
    ) -> Result<Point<Vec<f64>>, Error> {
        let mut there = here.clone();
        let mut changes = Vec::with_capacity(free.len());
        for (&l, a) in free.iter().zip(dual) {
            let k = descent.active[l] as usize;
            there.dual[l] = descent.inside(k, *a);
            changes.push(descent.factor[k] * (there.dual[l] - here.dual[l]));
        }
        let whose: Vec<usize> = free.iter().map(|&l| descent.active[l] as usize).collect();
        let rows = self.rows_of_active(job, descent, &whose)?;
        S::add_rows(&changes, &rows, &mut there.image);
        Ok(there)
    }

    /// Brings those who are outside their intervals back to their ends; says whether there were any.
    fn bring_inside(
        &self,
        data: &Examples<'_, S>,
        job: &mut Job<S>,
        descent: &mut Descent<S>,
        there: &mut Point<Vec<f64>>,
    ) -> Result<bool, Error> {
        let (mut outside, mut changes) = (Vec::new(), Vec::new());
        for (a, &k) in there.dual.iter_mut().zip(&descent.active) {
            let inside = descent.inside(k as usize, *a);
            if inside != *a {
                outside.push(k as usize);
                changes.push(descent.factor[k as usize] * (inside - *a));
                *a = inside;
            }
        }
        let all = descent.all_take_part();
        let Descent { near, active, .. } = &mut *descent;
        self.fetch(data.rows(), &mut job.among, near, (active, all), outside.clone())?;
        let rows = self.rows_of_active(job, descent, &outside)?;
        S::add_rows(&changes, &rows, &mut there.image);
        Ok(!outside.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use rand_pcg::Pcg64;
    use rand_pcg::rand_core::Rng;

    use super::super::contest::tests::d_never_falls;
    use super::super::pair::tests::pieces;
    use crate::{Binary, Dense, Examples, Hinge, Kernel, KernelAscent, OneVsRest};

    /// A board of four by four squares, some of it wrong.
    fn board(n: usize, wrong: f64) -> (Vec<f64>, Vec<u32>) {
        let mut numbers = Pcg64::new(13, 0);
        let mut uniform = || (numbers.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let x: Vec<f64> = (0..2 * n).map(|_| 4.0 * uniform()).collect();
        let label = |p: &[f64]| (p[0] as u32 + p[1] as u32 + u32::from(uniform() < wrong)) % 2;
        let y = x.chunks(2).map(label).collect();
        (x, y)
    }

    /// Hundreds of free dual variables, in pieces of n steps each: 23 of them; 44 without conjugate gradients.
    #[test]
    fn those_who_are_free_agree_at_once() {
        let n = 2000;
        let (x, y) = board(n, 0.0);
        let data = Examples::new(Dense::new(&x, n, 2).expect("rows"), &y, None).expect("examples");
        let pieces = pieces(Kernel::Rbf { gamma: 4.0 }, (1e6, 0.0), &data, 1e-3, 100);
        assert!(pieces <= 33, "{pieces}");
    }

    /// To the same bits whatever the pieces are.
    #[test]
    fn pieces_change_no_bit() {
        let n = 600;
        let (x, y) = board(n, 0.05);
        let data = Examples::new(Dense::new(&x, n, 2).expect("rows"), &y, None).expect("examples");
        let loss = Binary { loss: Hinge, positive: 1 };
        for c in [10.0, 1e4] {
            let lambda = 1.0 / (c * n as f64);
            let kernel = Kernel::Rbf { gamma: 4.0 };
            let new = || KernelAscent::new(kernel, loss, lambda, &data, 1 << 24).expect("ascent");
            let mut whole = new();
            let certificate = whole.solve(&data, 1e-6, 100).expect("a certificate");
            assert!(certificate.relative_gap() <= 1e-6, "{c}: {}", certificate.relative_gap());
            let mut pieces = new();
            while !matches!(pieces.advance(&data, 1e-6, 1), Ok(Some(found)) if found.relative_gap() <= 1e-6)
            {
            }
            assert_eq!(whole.dual(), pieces.dual(), "{c}");
        }
    }

    #[test]
    fn however_flat_d_never_falls() {
        for d in [1, 3] {
            let within = |a: &f64, own: bool| (0.0..=1.0).contains(&if own { *a } else { -a });
            let binary = Binary { loss: Hinge, positive: 1 };
            d_never_falls(&binary, d, |a, y| within(&a[0], y == 1));
            let rest = OneVsRest { loss: Hinge, positives: vec![0, 1, 2, 3] };
            d_never_falls(&rest, d, |a, y| (0..).zip(a).all(|(o, a)| within(a, o == y)));
        }
    }
}
