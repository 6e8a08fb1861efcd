//! A good point of the dual in a few dozen passes, where features are few.
//!
//! Coordinate ascent crawls where `lambda n` is far below `||x||^2` and thousands of examples compete
//! for a few directions: each moves its own `a_i` a little way at a time. Newton's method sees all of
//! them at once, if the loss has curvature. So the loss is smoothed, `l_mu(m)` being the largest value
//! over a of `-l*(-a) - a m - mu/2 a^2`, and
//!
//! ```text
//! P_mu(w) = lambda/2 ||w||^2 + 1/n sum_i s_i l_mu(y_i <w, x_i>)
//! ```
//!
//! is minimised for a falling mu, each from the last one's w. The maximising `a_i` are a feasible point
//! of the dual, `grad P_mu(w) = lambda (w - w(a))`, and where the gradient is 0 the gap at (w, a) is at
//! most `mu/4` times the share of examples on the ramp for the hinge: so small a mu, so small a gap.
//! Coordinate ascent goes on from a. A loss with curvature of its own, as the logistic one and the squared hinge, is not smoothed:
//! mu is 0, and few steps do.
//!
//! * Step: `w += t p` with `(lambda I + 1/n sum s_i h_i x_i x_i' + damping) p = -grad P_mu`, `h_i` the curvature, t
//!   by a search for the root of the derivative along p, which needs no features: margins move along a
//!   line. The sum runs over a part of the examples where more have curvature than the directions need.
//! * Cost: a pass over the data a step, another over the rows whose dual variable has moved, O(d^3) for the factors. Memory:
//!   O(n + d^2).
//! * Several outputs trained jointly: `joint.rs`.
//! * A free intercept is one more weight without regularisation. Its derivative is 0 where the dual variables sum to 0, as they
//!   must; features of dense rows are measured from their means, or a mean far from 0 would hide all else in the curvature.
//! * Source: semismooth Newton for the smoothed hinge as in Chapelle (2007), with the smoothing that
//!   proximal point methods use, so that the dual point comes free.

mod curvature;
mod joint;

use crate::examples::Examples;
use crate::linear::Linear;
use crate::loss::{Loss, TOGETHER};
use crate::order::Ahead;
use crate::scalar::Scalar;
pub(crate) use curvature::solve;
use curvature::{Features, epochs_of_a_step, summed};
use joint::Joint;

/// Above this many weights factors and curvatures cost more than passes save.
pub(crate) const MOST_WEIGHTS: usize = 256;

/// Above this many features in all, stored or not, a step takes longer than a caller may want to wait.
const LARGEST: usize = 1 << 26;

/// Added to every feature's curvature, of what it would be if all examples had the mean one, so that the scales of
/// features do not matter: at most, and at first. A step of about the length that was foreseen makes it
/// [`EASIER`] times as large, a far shorter one [`HARDER`] times. With a constant one of the mean feature, raw tables
/// (features of 1 to 1e4) stayed where they were for ever; without any, a step along a feature that no example on the
/// ramp has is hundreds of times too long.
const DAMPING: f64 = 1e-3;
const LEAST_DAMPING: f64 = 1e-12;
const EASIER: f64 = 0.2;
const HARDER: f64 = 5.0;

/// The first mu; but where the relative gap is below [`NEAR`] times its root, as the gap is about the square of mu. Usps (one
/// class against the rest) at lambda = 1e-3 takes 16 steps from a gap of 0.0016, not 34, the generated table at 1e-4 5 from
/// 0.0035, not 12. From a gap of 0.3 classes of covtype15k never left the mu that they had begun with.
const FIRST_MU: f64 = 0.5;
const NEAR: f64 = 0.1;

/// How many times smaller the next mu is. A steeper fall leaves w far from the next minimiser, with most of the ramp's examples
/// other ones: with 5, a9a at `lambda n = 0.3` took 151 steps to a gap of 1e-3; with 1.7 it takes 28. After [`FEW`] steps, as
/// with losses that are smooth by themselves, the next fall is the square.
const FALL: f64 = 1.7;
const FEW: usize = 2;
const STEEPEST: f64 = 25.0;

/// What the derivative along a step may be at its end, of that at its beginning. With a tenth, searches take longer and
/// steps are no fewer.
const ROUGH: f64 = 0.3;

/// How many steps are few: of the logistic loss and the squared hinge on 80,000 rows of 54 features it takes 5 to 10.
const FEW_STEPS: f64 = 6.0;

/// With 60, a class of covtype15k at lambda = 1e-6 did not get there, and ascent took four times as long to.
const MOST_STEPS: usize = 100;

/// What part of the tolerance is as good as nothing, and how many steps may begin at such a gap. Where features are large and
/// lambda is small the last bits of the dual variables move their image by more than the tolerance, and whether a step meets it
/// is luck: classes of raw covtype15k at lambda = 1e-8 have all but these bits after 20 steps, and made 80 more.
const EXACT: f64 = 1e-6;
const TRIES: usize = 10;

/// A dual point of every example, and its image.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) dual: Vec<f64>,
    pub(crate) w: Linear<f64>,
    /// Where it is free, for features measured from their mean.
    pub(crate) intercept: f64,
}

/// A descent under way.
#[derive(Clone, Debug)]
pub(crate) struct Descent {
    /// w, the weight of the constant feature last if there is one.
    w: Vec<f64>,
    /// Of every example at w.
    scores: Vec<f64>,
    /// Dual variables where the last step began, what is to follow them, and the sum of `c_i a_i x_i`; where the intercept is
    /// free that over the positive ones apart.
    dual: Vec<f64>,
    next: Vec<f64>,
    sums: (Vec<f64>, Vec<f64>),
    /// The mean square of every feature.
    squares: Vec<f64>,
    pace: Pace,
    /// w and scores where mu fell the last time.
    milestone: Option<(Vec<f64>, Vec<f64>)>,
    best: Option<(f64, Point)>,
    /// The shape of what is looked for.
    shape: Linear<f64>,
    /// The value of the constant feature.
    constant: f64,
    /// The mean of the features where the intercept is free, and whether they are measured from it here.
    mean: Option<Vec<f64>>,
    centred: bool,
}

/// How mu falls and the damping goes, from step to step.
#[derive(Clone, Copy, Debug)]
struct Pace {
    mu: f64,
    /// What of the gap is due to the gradient, where the last step began, if that was at this mu.
    slack: f64,
    /// How many times larger the last mu was, and steps since.
    fall: f64,
    at_this_mu: usize,
    damping: f64,
    steps: usize,
    /// How many of them have begun where all but the roundings was done.
    exact: usize,
}

impl Pace {
    fn new(mu: f64) -> Self {
        let (slack, fall, damping) = (f64::INFINITY, FALL, DAMPING);
        Pace { mu, slack, fall, at_this_mu: 0, damping, steps: 0, exact: 0 }
    }

    /// Whether there is another step.
    fn begins(&mut self) -> bool {
        self.steps += 1;
        self.steps <= MOST_STEPS
    }

    /// Whether only roundings are left of the gap, where `wanted` would do, for too long.
    fn is_exact(&mut self, gap: f64, wanted: f64) -> bool {
        self.exact += usize::from(gap.abs() <= EXACT * wanted);
        self.exact > TRIES
    }

    /// Whether P_mu is at its minimum, for this gap, of which so much is due to the gradient, and the one that would do.
    fn has_minimised(&mut self, gap: f64, slack: f64, wanted: f64) -> bool {
        // Where the gap is small enough as soon as w is its image, a smaller mu would only lead away from that.
        let is_near = gap <= 0.9 * wanted && slack < 0.5 * self.slack;
        self.slack = slack;
        slack <= 0.1 * gap && !is_near
    }

    /// A step has gone so far, in multiples of what was foreseen.
    fn has_gone(&mut self, t: f64) {
        self.at_this_mu += 1;
        let times = if t > 0.5 {
            EASIER
        } else if t < 0.1 {
            HARDER
        } else {
            1.0
        };
        self.damping = (self.damping * times).clamp(LEAST_DAMPING, DAMPING);
    }

    /// A smaller mu, for a gap so many times too large.
    fn let_mu_fall(&mut self, too_large: f64) {
        let fall = if self.at_this_mu <= FEW { self.fall * self.fall } else { FALL };
        // The gap falls about as the square of mu.
        self.fall = fall.min((2.0 * too_large).sqrt()).clamp(FALL, STEEPEST);
        self.mu /= self.fall;
        self.at_this_mu = 0;
        self.slack = f64::INFINITY;
    }
}

/// A search for a better point, of one output or of several.
#[derive(Clone, Debug)]
pub(crate) enum Search {
    Single(Box<Descent>),
    Joint(Box<Joint>),
}

impl Search {
    /// Whether there is one: the loss can be smoothed, and the problem is not too large.
    pub(crate) fn exists<L: Loss, S: Scalar>(
        loss: &L,
        data: &Examples<'_, S>,
        features: usize,
    ) -> bool {
        Descent::exists(loss, data, features) || Joint::exists(loss, data, features)
    }

    /// About how many epochs of dual ascent take as long, where few steps do; infinite elsewhere.
    pub(crate) fn epochs<L: Loss, S: Scalar>(
        loss: &L,
        data: &Examples<'_, S>,
        features: usize,
    ) -> f64 {
        Descent::epochs(loss, data, features)
    }

    /// Begins at `w`, whose relative gap is about so large; `None` where there is [none](Search::exists).
    pub(crate) fn new<L: Loss, S: Scalar>(
        loss: &L,
        data: &Examples<'_, S>,
        w: &Linear<f64>,
        gap: f64,
        free: Option<(&[f64], Linear<f64>)>,
    ) -> Option<Self> {
        if loss.on_simplex() {
            let joint = Joint::new(loss, data, w, gap).filter(|_| free.is_none())?;
            return Some(Search::Joint(Box::new(joint)));
        }
        Descent::new(loss, data, w, gap, free).map(|descent| Search::Single(Box::new(descent)))
    }

    /// Whether it began at w = 0, wherever ascent was: another one like it will find the same.
    pub(crate) fn is_from_nothing(&self) -> bool {
        matches!(self, Search::Joint(joint) if joint.from_nothing)
    }

    /// A step; says whether another is worth while: until the gap is at most `tol` of the objective,
    /// steps are spent, or numbers leave their range.
    pub(crate) fn step<L: Loss, S: Scalar>(
        &mut self,
        loss: &L,
        lambda: f64,
        data: &Examples<'_, S>,
        tol: f64,
    ) -> bool {
        match self {
            Search::Single(descent) => descent.step(loss, lambda, data, tol),
            Search::Joint(joint) => joint.step(loss, lambda, data, tol),
        }
    }

    /// The best point found.
    pub(crate) fn finish(self) -> Option<Point> {
        match self {
            Search::Single(descent) => descent.finish(),
            Search::Joint(joint) => joint.finish(),
        }
    }
}

impl Descent {
    /// Whether there is one: the loss can be smoothed, and the problem is not too large.
    pub(crate) fn exists<L: Loss, S: Scalar>(
        loss: &L,
        data: &Examples<'_, S>,
        features: usize,
    ) -> bool {
        let size = data.len().saturating_mul(features);
        let fits = features <= MOST_WEIGHTS && size <= LARGEST && !data.is_empty();
        fits && loss.smoothed(0.0, 0, 1.0).is_some()
    }

    /// Whether there is one, and it takes few steps, as the loss has curvature of its own: nothing is smoothed then.
    fn is_short<L: Loss, S: Scalar>(loss: &L, data: &Examples<'_, S>, features: usize) -> bool {
        loss.hinge_sign(0, 0).is_none() && Descent::exists(loss, data, features)
    }

    /// About how many epochs of dual ascent take as long, where few steps do; infinite elsewhere.
    pub(crate) fn epochs<L: Loss, S: Scalar>(
        loss: &L,
        data: &Examples<'_, S>,
        features: usize,
    ) -> f64 {
        let short = Descent::is_short(loss, data, features);
        if short { FEW_STEPS * epochs_of_a_step(data, features) } else { f64::INFINITY }
    }

    /// Begins at `w`, whose relative gap is about so large; `None` where there is [none](Descent::exists).
    pub(crate) fn new<L: Loss, S: Scalar>(
        loss: &L,
        data: &Examples<'_, S>,
        w: &Linear<f64>,
        gap: f64,
        free: Option<(&[f64], Linear<f64>)>,
    ) -> Option<Self> {
        let features = w.n_features();
        if !Descent::exists(loss, data, features) {
            return None;
        }
        let centred = free.is_some() && !data.rows().is_sparse();
        let mean = free.as_ref().map(|(mean, _)| mean.to_vec());
        // Of features as they are, at first.
        let model = free.map(|(_, model)| model);
        let from = model.as_ref().unwrap_or(w);
        let constant = from.constant();
        let mut weights = from.weights();
        weights.extend(from.constant_weights().iter().filter(|_| constant > 0.0));
        if let Some(mean) = mean.as_ref().filter(|_| centred) {
            weights[features] += inner(&weights[..features], mean);
        }
        let shape = w.convert();
        let mut squares = vec![0.0; weights.len()];
        for i in 0..data.len() {
            let c = data.weight(i) / data.len() as f64;
            data.rows().row(i).for_each(|j, x| {
                if let Some(square) = squares.get_mut(j) {
                    let x = x - mean.as_ref().filter(|_| centred).map_or(0.0, |mean| mean[j]);
                    *square += c * x * x;
                }
            });
        }
        squares[features..].fill(constant * constant);
        let (scores, best, short) = (Vec::new(), None, Descent::is_short(loss, data, features));
        let (dual, next) = (vec![0.0; data.len()], vec![0.0; data.len()]);
        let sums = (vec![0.0; weights.len()], vec![0.0; weights.len()]);
        let mut descent = Descent {
            w: weights,
            scores,
            dual,
            next,
            sums,
            squares,
            pace: Pace::new(if short { 0.0 } else { first_mu(gap) }),
            milestone: None,
            best,
            shape,
            constant,
            mean,
            centred,
        };
        descent.scores = descent.dots(data, &descent.w)?;
        Some(descent)
    }

    /// The best point found.
    pub(crate) fn finish(self) -> Option<Point> {
        self.best.map(|(_, point)| point)
    }

    /// A step; says whether another is worth while: until the gap is at most `tol` of the objective,
    /// steps are spent, or numbers leave their range.
    pub(crate) fn step<L: Loss, S: Scalar>(
        &mut self,
        loss: &L,
        lambda: f64,
        data: &Examples<'_, S>,
        tol: f64,
    ) -> bool {
        self.pace.begins() && self.try_step(loss, lambda, data, tol) == Some(true)
    }

    fn try_step<L: Loss, S: Scalar>(
        &mut self,
        loss: &L,
        lambda: f64,
        data: &Examples<'_, S>,
        tol: f64,
    ) -> Option<bool> {
        let (n, d) = (data.len(), self.w.len());
        let features = self.shape.n_features();
        let free = self.mean.is_some();
        let per_row = |i: usize| data.weight(i) / n as f64;
        // The dual point, the sum of `c_i a_i x_i`, and the true objective.
        let mut curvature = vec![0.0; n];
        let (mean_loss, mut conjugate) = self.smoothed_point(loss, data, &mut curvature);
        self.move_sums(data)?;
        let sums = self.sums.0.iter().zip(&self.sums.1);
        let mut image: Vec<f64> = sums.map(|(above, rest)| (above + rest) / lambda).collect();
        let mut away: Vec<f64> = self.w.iter().zip(&image).map(|(w, v)| w - v).collect();
        let mut sum = 0.0;
        if free {
            sum = image[features] / self.constant;
            away[features] = -image[features];
            image[features] = self.w[features];
        }
        // What is regularised.
        let regular = if free { features } else { d };
        let square = |v: &[f64]| lambda / 2.0 * inner(&v[..regular], &v[..regular]);
        let primal = square(&self.w) + mean_loss;
        let mut value = -conjugate - square(&image);
        // The part of the gap that a gradient of 0 would not have.
        let mut slack = lambda * inner(&away[..regular], &away[..regular]);
        let mean = curvature.iter().sum::<f64>();
        let mut gap = primal - value;
        let mut dual = None;
        if free {
            // Lagrange's function, which is D where the sum is 0.
            gap += lambda * sum * self.w[features];
            slack += (lambda * sum).powi(2) / mean.max(f64::MIN_POSITIVE);
            // From here on the point is one on the equation.
            let mut sides = (0.0, 0.0);
            (0..n).for_each(|i| add_to_side(&mut sides, per_row(i) * self.dual[i]));
            let factors = factors(sides);
            let less = factors.0.min(factors.1);
            let side = if factors.0 < 1.0 { &self.sums.0 } else { &self.sums.1 };
            for (v, a) in image[..features].iter_mut().zip(side) {
                *v -= (1.0 - less) * a / lambda;
            }
            let mut on_it = self.dual.clone();
            conjugate = 0.0;
            for (i, a) in on_it.iter_mut().enumerate() {
                *a *= if *a > 0.0 { factors.0 } else { factors.1 };
                conjugate += per_row(i) * loss.conjugate(&[*a], data.label(i));
            }
            dual = Some(on_it);
            value = -conjugate - square(&image);
        }
        if !(primal.is_finite() && value.is_finite()) {
            return None;
        }
        // The model will be that of the image, which a small lambda leaves far from w until the gradient
        // is far smaller still.
        let solved = primal - value <= tol * primal && {
            let reached = square(&image)
                + (0..n)
                    .zip(self.dots(data, &image)?)
                    .map(|(i, score)| {
                        per_row(i) * loss.value_and_coef(&[score], data.label(i), &mut [0.0])
                    })
                    .sum::<f64>();
            reached - value <= tol * reached
        };
        if solved || self.best.as_ref().is_none_or(|(highest, _)| value > *highest) {
            let mut w = self.shape.clone();
            w.replace(|weights| weights.copy_from_slice(&image[..features]));
            let mut intercept = image.get(features).copied().unwrap_or(0.0);
            if let Some(mean) = self.mean.as_ref().filter(|_| !self.centred) {
                intercept += inner(&image[..features], mean);
            } else if !free && features < d {
                w.set_intercept(intercept);
            }
            let dual = dual.unwrap_or_else(|| self.dual.clone());
            self.best = Some((value, Point { dual, w, intercept }));
        }
        if solved || self.pace.is_exact(gap, tol * primal) {
            return Some(false);
        }
        if self.pace.has_minimised(gap, slack, tol * primal) {
            self.let_mu_fall(loss, lambda, data, gap / (tol * primal));
            return Some(true);
        }
        let mut matrix = vec![0.0; d * d];
        (0..d).for_each(|j| matrix[j * d + j] = lambda);
        let curved = curvature.iter().filter(|c| **c > 0.0).count();
        let stride = curved.div_ceil(summed(curved, d)).max(1);
        let some = (0..n).filter(|&i| curvature[i] > 0.0).step_by(stride);
        let weighed = some.map(|i| (i, curvature[i] * stride as f64));
        let constant = self.constant;
        let of = Features { weights: d, stored: features, constant, mean: self.centre() };
        of.add_curvature(data, weighed, &mut matrix);
        // Features that no example on the ramp has seem flat, and are not.
        (0..d).for_each(|j| matrix[j * d + j] += self.pace.damping * mean * self.squares[j]);
        let gradient: Vec<f64> = away.iter().map(|v| lambda * v).collect();
        let mut direction: Vec<f64> = gradient.iter().map(|g| -g).collect();
        solve(&mut matrix, d, &mut direction)?;
        let along = self.dots(data, &direction)?;
        let first = inner(&gradient, &direction);
        let t = self.go(loss, lambda, data, (&direction, &along), Some(first));
        self.pace.has_gone(t);
        Some(true)
    }

    /// The dual point at the scores, and the curvature of every example: the mean loss, without smoothing, and the mean of the
    /// conjugates.
    fn smoothed_point<L: Loss, S: Scalar>(
        &mut self,
        loss: &L,
        data: &Examples<'_, S>,
        curvature: &mut [f64],
    ) -> (f64, f64) {
        let per_row = 1.0 / data.len() as f64;
        let (mut mean_loss, mut conjugate) = (0.0, 0.0);
        let mut room = [[0.0; TOGETHER]; 2];
        let labels = data.labels().chunks(TOGETHER);
        let chunks = self.scores.chunks(TOGETHER).zip(self.next.chunks_mut(TOGETHER));
        let chunks = chunks.zip(curvature.chunks_mut(TOGETHER)).zip(labels).enumerate();
        for (k, (((scores, next), curvature), labels)) in chunks {
            let [values, conjugates] = room.each_mut().map(|room| &mut room[..scores.len()]);
            values.copy_from_slice(scores);
            loss.values(values, labels);
            next.copy_from_slice(scores);
            loss.smooth_all(next, curvature, labels, self.pace.mu);
            if self.pace.mu > 0.0 {
                conjugates.copy_from_slice(next);
                loss.conjugates(conjugates, labels);
            } else {
                // Where a is the slope itself: `loss + loss* + a score = 0`.
                for (l, conjugate) in conjugates.iter_mut().enumerate() {
                    *conjugate = -values[l] - next[l] * scores[l];
                }
            }
            for l in 0..scores.len() {
                let c = data.weight(k * TOGETHER + l) * per_row;
                mean_loss += c * values[l];
                conjugate += c * conjugates[l];
                curvature[l] *= c;
            }
        }
        (mean_loss, conjugate)
    }

    /// Goes on to the next dual point: `c_i a_i x_i` sums to another value by those rows whose variable has changed, which are
    /// few once most of them are off the ramp.
    fn move_sums<S: Scalar>(&mut self, data: &Examples<'_, S>) -> Option<()> {
        let (n, features, constant) = (data.len(), self.shape.n_features(), self.constant);
        let counts = |i: &usize| data.weight(*i) > 0.0;
        let all = || (0..n).filter(counts);
        let mut moved: Vec<usize> = all().filter(|&i| self.next[i] != self.dual[i]).collect();
        if 2 * moved.len() >= all().filter(|&i| self.next[i] != 0.0).count() {
            // Afresh, without the roundings of those before.
            self.dual.fill(0.0);
            self.sums.0.fill(0.0);
            self.sums.1.fill(0.0);
            moved = all().filter(|&i| self.next[i] != 0.0).collect();
        }
        let mut rows = moved.into_iter();
        let mut order = Ahead::new(&mut rows);
        while let Some(i) = order.next(data, |_| ()).ok()? {
            let (old, new) = (self.dual[i], self.next[i]);
            let c = data.weight(i) / n as f64 * (new - old);
            // Together, as long as they may be: of large numbers of both signs little is left. An example is on one side for ever.
            let apart = self.mean.is_some() && (new > 0.0 || old > 0.0);
            let sums = if apart { &mut self.sums.0 } else { &mut self.sums.1 };
            let row = data.rows().row(i);
            match self.mean.as_ref().filter(|_| self.centred) {
                Some(mean) => row.for_each(|j, x| sums[j] += c * (x - mean[j])),
                None => drop(row.axpy(c, &mut sums[..features])),
            }
            sums[features..].iter_mut().for_each(|b| *b += c * constant);
        }
        std::mem::swap(&mut self.dual, &mut self.next);
        Some(())
    }

    /// A smaller mu, for a gap so many times too large. The minimisers lie on a curve; from the last two the way goes
    /// straight on, as far as P_mu falls.
    fn let_mu_fall<L: Loss, S: Scalar>(
        &mut self,
        loss: &L,
        lambda: f64,
        data: &Examples<'_, S>,
        too_large: f64,
    ) {
        self.pace.let_mu_fall(too_large);
        let here = (self.w.clone(), self.scores.clone());
        if let Some((mut p, mut along)) = self.milestone.replace(here) {
            p.iter_mut().zip(&self.w).for_each(|(p, w)| *p = w - *p);
            along.iter_mut().zip(&self.scores).for_each(|(a, s)| *a = s - *a);
            self.go(loss, lambda, data, (&p, &along), None);
        }
    }

    /// Goes along `p`, by which scores change by `along`, to about where P_mu is least; not at all where it does not fall.
    /// Returns how far, in multiples of `p`. `first` is the derivative here, where it is known.
    fn go<L: Loss, S: Scalar>(
        &mut self,
        loss: &L,
        lambda: f64,
        data: &Examples<'_, S>,
        (p, along): (&[f64], &[f64]),
        first: Option<f64>,
    ) -> f64 {
        let regular = if self.mean.is_some() { self.shape.n_features() } else { p.len() };
        let step = &p[..regular];
        let (linear, square) = (inner(&self.w[..regular], step), inner(step, step));
        // d/dt P_mu(w + t p), increasing in t.
        let derivative = |t: f64| {
            let (mut sum, mut room) = (0.0, [[0.0; TOGETHER]; 2]);
            let chunks = self.scores.chunks(TOGETHER).zip(along.chunks(TOGETHER));
            for (k, ((scores, along), labels)) in
                chunks.zip(data.labels().chunks(TOGETHER)).enumerate()
            {
                let [a, bent] = room.each_mut().map(|room| &mut room[..scores.len()]);
                for l in 0..scores.len() {
                    a[l] = scores[l] + t * along[l];
                }
                loss.smooth_all(a, bent, labels, self.pace.mu);
                for l in 0..scores.len() {
                    sum -= data.weight(k * TOGETHER + l) * a[l] * along[l];
                }
            }
            lambda * (linear + t * square) + sum / data.len() as f64
        };
        let first = first.unwrap_or_else(|| derivative(0.0));
        if first >= 0.0 || first.is_nan() {
            return 0.0;
        }
        let t = root(derivative, first);
        self.w.iter_mut().zip(p).for_each(|(w, p)| *w += t * p);
        self.scores.iter_mut().zip(along).for_each(|(s, a)| *s += t * a);
        t
    }

    /// What features are measured from, where that is not 0.
    fn centre(&self) -> Option<&[f64]> {
        self.mean.as_deref().filter(|_| self.centred)
    }

    /// `<v, x_i>` for every example.
    fn dots<S: Scalar>(&self, data: &Examples<'_, S>, v: &[f64]) -> Option<Vec<f64>> {
        let features = self.shape.n_features();
        let bias: f64 = v[features..].iter().map(|b| b * self.constant).sum();
        let bias = bias - self.centre().map_or(0.0, |mean| inner(mean, &v[..features]));
        let mut out = Vec::with_capacity(data.len());
        let mut rows = 0..data.len();
        let mut order = Ahead::new(&mut rows);
        while let Some(i) = order.next(data, |_| ()).ok()? {
            out.push(data.rows().row(i).dot(&v[..features]) + bias);
        }
        Some(out)
    }
}

/// The mu to begin with at a relative gap, which may be unknown.
fn first_mu(gap: f64) -> f64 {
    if gap > 0.0 && gap < NEAR { FIRST_MU * gap.sqrt() } else { FIRST_MU }
}

fn inner(u: &[f64], v: &[f64]) -> f64 {
    u.iter().zip(v).map(|(u, v)| u * v).sum()
}

/// Adds a dual variable to the positive ones or to the others, by magnitude.
pub(crate) fn add_to_side(sides: &mut (f64, f64), a: f64) {
    *(if a > 0.0 { &mut sides.0 } else { &mut sides.1 }) += a.abs();
}

/// What the positive and the other dual variables must be multiplied with so that they sum to 0, given these sums.
pub(crate) fn factors((above, below): (f64, f64)) -> (f64, f64) {
    // Where both are 0, it does not matter.
    let smaller = |other: f64, own: f64| if own > other { other / own } else { 1.0 };
    (smaller(below, above), smaller(above, below))
}

/// About where an increasing function is 0, if it is `first < 0` at 0: within three tenths of that, and so near that its
/// integral up to there is not above 0.
fn root(f: impl Fn(f64) -> f64, first: f64) -> f64 {
    let (mut low, mut at_low) = (0.0, first);
    let (mut high, mut at_high) = (1.0, f(1.0));
    while at_high < ROUGH * first && high < 1e6 {
        (low, at_low) = (high, at_high);
        high *= 4.0;
        at_high = f(high);
    }
    let mut t = high;
    let mut value = at_high;
    let mut moved_low = None;
    for _ in 0..40 {
        // Where it is positive, the integral is below this bound. That of so little is let pass.
        let falls = value * t <= 0.01 * first.abs() || at_low * low + value * (t - low) <= 0.0;
        if falls && value.abs() <= ROUGH * first.abs() {
            return t;
        }
        // The secant; an end that stays put loses half of its value each time, or the other one would
        // creep (the Illinois rule).
        t = low + (high - low) * at_low / (at_low - at_high);
        value = f(t);
        if value < 0.0 {
            (low, at_low) = (t, value);
            if moved_low == Some(true) {
                at_high /= 2.0;
            }
        } else {
            (high, at_high) = (t, value);
            if moved_low == Some(false) {
                at_low /= 2.0;
            }
        }
        moved_low = Some(value < 0.0);
    }
    low
}

#[cfg(test)]
mod tests {
    use rand_pcg::Pcg64;
    use rand_pcg::rand_core::Rng;

    use super::*;
    use crate::data::Dense;
    use crate::loss::{Binary, Hinge};

    /// However few variables a step has moved: with a free intercept and without, weights of 0 and rows that overflow there.
    #[test]
    fn sums_are_those_of_the_dual_point() {
        let (n, d, lambda) = (300, 5, 1e-3);
        let mut rng = Pcg64::new(3, 4);
        let mut x: Vec<f64> = (0..n * d).map(|_| rng.next_u32() as f64 / 2e9 - 1.0).collect();
        // Many of them on the wrong side, where a is at its bound.
        let y: Vec<u32> =
            (0..n).map(|i| u32::from(x[i * d] + 0.2 > 0.0) ^ (rng.next_u32() % 3 / 2)).collect();
        let weight: Vec<f64> = (0..n).map(|i| (i % 4) as f64).collect();
        x[4 * d] = 1e300;
        let data = Examples::new(Dense::new(&x, n, d).unwrap(), &y, Some(&weight)).unwrap();
        let loss = Binary { loss: Hinge, positive: 1 };
        let w = Linear::new(1, d, 2.0).unwrap();
        let (mean, model) = (vec![0.1; d], w.clone());
        for free in [None, Some((&mean[..], model))] {
            let (is_free, mut few) = (free.is_some(), 0);
            let mut descent = Descent::new(&loss, &data, &w, 1.0, free).unwrap();
            let mut before = descent.dual.clone();
            while descent.step(&loss, lambda, &data, 1e-4) {
                let moved = (0..n).filter(|&i| weight[i] > 0.0 && before[i] != descent.dual[i]);
                few += usize::from((1..n / 10).contains(&moved.count()));
                before.clone_from(&descent.dual);
                let from = |j: usize| if is_free { mean[j] } else { 0.0 };
                for j in 0..d {
                    let terms = (0..n)
                        .filter(|&i| weight[i] > 0.0)
                        .map(|i| weight[i] / n as f64 * descent.dual[i] * (x[i * d + j] - from(j)));
                    let (got, want) = (descent.sums.0[j] + descent.sums.1[j], terms.sum::<f64>());
                    assert!((got - want).abs() <= 1e-13, "{j}: {got} {want}");
                }
            }
            assert!(few > 3, "{few}");
        }
    }

    #[test]
    fn finds_roots() {
        for (f, want) in [
            (Box::new(|t: f64| t - 0.3) as Box<dyn Fn(f64) -> f64>, 0.3),
            (Box::new(|t: f64| t - 17.0), 17.0),
            (Box::new(|t: f64| if t < 2.0 { -1.0 } else { 1e3 * (t - 2.0) }), 2.0),
        ] {
            let t = root(&f, f(0.0));
            assert!(
                f(t).abs() <= ROUGH * f(0.0).abs() || (t - want).abs() < 1e-6,
                "{t}, not {want}"
            );
        }
    }

    /// Steep for a hundredth of the way and flat from there on, upwards: a value near 0 is not near the root.
    #[test]
    fn integrals_up_to_roots_are_not_positive() {
        for slope in [0.02, 0.1, 0.29] {
            let f = |t: f64| if t < 0.01 { -1.0 } else { slope };
            let t = root(f, f(0.0));
            let integral = if t < 0.01 { -t } else { -0.01 + slope * (t - 0.01) };
            assert!(t > 0.0 && integral <= 0.0, "{t}: {integral}");
        }
    }
}
