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
//! * Cost: two passes over the data a step, O(d^3) for the factors. Memory: O(n + d^2).
//! * A free intercept is one more weight without regularisation. Its derivative is 0 where the dual variables sum to 0, as they
//!   must; features of dense rows are measured from their means, or a mean far from 0 would hide all else in the curvature.
//! * Source: semismooth Newton for the smoothed hinge as in Chapelle (2007), with the smoothing that
//!   proximal point methods use, so that the dual point comes free.

mod curvature;

use crate::examples::Examples;
use crate::linear::Linear;
use crate::loss::Loss;
use crate::order::Ahead;
use crate::scalar::Scalar;
use curvature::{epochs_of_a_step, summed};

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

/// The first mu, and how many times smaller the next one is. A steeper fall leaves w far from the next minimiser, with most of
/// the ramp's examples other ones: with 5, a9a at `lambda n = 0.3` took 151 steps to a gap of 1e-3; with 1.7 it takes 28. After
/// [`FEW`] steps, as with losses that are smooth by themselves, the next fall is the square.
const FIRST_MU: f64 = 0.5;
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
    /// The mean square of every feature.
    squares: Vec<f64>,
    mu: f64,
    /// What of the gap is due to the gradient, where the last step began, if that was at this mu.
    slack: f64,
    /// How many times larger the last mu was, and steps since.
    fall: f64,
    at_this_mu: usize,
    /// w and scores where mu fell the last time.
    milestone: Option<(Vec<f64>, Vec<f64>)>,
    damping: f64,
    steps: usize,
    best: Option<(f64, Point)>,
    /// The shape of what is looked for.
    shape: Linear<f64>,
    /// The value of the constant feature.
    constant: f64,
    /// The mean of the features where the intercept is free, and whether they are measured from it here.
    mean: Option<Vec<f64>>,
    centred: bool,
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

    /// Begins at `w`; `None` where there is [none](Descent::exists).
    pub(crate) fn new<L: Loss, S: Scalar>(
        loss: &L,
        data: &Examples<'_, S>,
        w: &Linear<f64>,
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
        let (scores, best) = (Vec::new(), None);
        let mut descent = Descent {
            w: weights,
            scores,
            squares,
            mu: if Descent::is_short(loss, data, features) { 0.0 } else { FIRST_MU },
            slack: f64::INFINITY,
            fall: FALL,
            at_this_mu: 0,
            milestone: None,
            damping: DAMPING,
            steps: 0,
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
        self.steps += 1;
        self.steps <= MOST_STEPS && self.try_step(loss, lambda, data, tol) == Some(true)
    }

    fn try_step<L: Loss, S: Scalar>(
        &mut self,
        loss: &L,
        lambda: f64,
        data: &Examples<'_, S>,
        tol: f64,
    ) -> Option<bool> {
        let (n, d) = (data.len(), self.w.len());
        let (features, constant) = (self.shape.n_features(), self.constant);
        let free = self.mean.is_some();
        let per_row = |i: usize| data.weight(i) / n as f64;
        // The dual point, its image, and the true objective.
        let (mut dual, mut curvature) = (vec![0.0; n], vec![0.0; n]);
        let mut image = vec![0.0; d];
        let (mut mean_loss, mut conjugate, mut curved) = (0.0, 0.0, 0);
        // Where the intercept is free: the sums of positive and other dual variables, and the image of the former.
        let (mut sides, mut above) = ((0.0, 0.0), vec![0.0; if free { d } else { 0 }]);
        let mut rows = 0..n;
        let mut order = Ahead::new(&mut rows);
        while let Some(i) = order.next(data, |_| ()).ok()? {
            let (y, c) = (data.label(i), per_row(i));
            let mut slope = [0.0];
            let value = loss.value_and_coef(&self.scores[i..=i], y, &mut slope);
            mean_loss += c * value;
            (dual[i], curvature[i]) = loss.smoothed(self.scores[i], y, self.mu)?;
            curvature[i] *= c;
            // Where a is the slope itself: `loss + loss* + a score = 0`.
            conjugate += c * match self.mu {
                0.0 => -value - dual[i] * self.scores[i],
                _ => loss.conjugate(&dual[i..=i], y),
            };
            curved += usize::from(curvature[i] > 0.0);
            let c = c * dual[i] / lambda;
            if free {
                add_to_side(&mut sides, c);
            }
            let image = if free && c > 0.0 { &mut above } else { &mut image };
            if c != 0.0 {
                let row = data.rows().row(i);
                match self.mean.as_ref().filter(|_| self.centred) {
                    Some(mean) => row.for_each(|j, x| image[j] += c * (x - mean[j])),
                    None => drop(row.axpy(c, &mut image[..features])),
                }
                image[features..].iter_mut().for_each(|b| *b += c * constant);
            }
        }
        image.iter_mut().zip(&above).for_each(|(v, a)| *v += a);
        let mut away: Vec<f64> = self.w.iter().zip(&image).map(|(w, v)| w - v).collect();
        let mut sum = 0.0;
        if free {
            sum = image[features] / constant;
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
        if free {
            // Lagrange's function, which is D where the sum is 0.
            gap += lambda * sum * self.w[features];
            slack += (lambda * sum).powi(2) / mean.max(f64::MIN_POSITIVE);
            // From here on the point is one on the equation.
            let factors = factors(sides);
            let less = if factors.0 < 1.0 { factors.0 } else { factors.1 };
            for (v, a) in image[..features].iter_mut().zip(&above) {
                *v -= (1.0 - less) * if factors.0 < 1.0 { *a } else { *v - a };
            }
            conjugate = 0.0;
            for (i, a) in dual.iter_mut().enumerate() {
                *a *= if *a > 0.0 { factors.0 } else { factors.1 };
                conjugate += per_row(i) * loss.conjugate(&[*a], data.label(i));
            }
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
            self.best = Some((value, Point { dual, w, intercept }));
        }
        if solved {
            return Some(false);
        }
        // Where the gap is small enough as soon as w is its image, a smaller mu would only lead away from that.
        let is_near = gap <= 0.9 * tol * primal && slack < 0.5 * self.slack;
        self.slack = slack;
        if slack <= 0.1 * gap && !is_near {
            self.let_mu_fall(loss, lambda, data, gap / (tol * primal));
            return Some(true);
        }
        let mut matrix = vec![0.0; d * d];
        (0..d).for_each(|j| matrix[j * d + j] = lambda);
        let stride = curved.div_ceil(summed(curved, d)).max(1);
        let some = (0..n).filter(|&i| curvature[i] > 0.0).step_by(stride);
        let weighed = some.map(|i| (i, curvature[i] * stride as f64));
        if data.rows().is_sparse() {
            self.add_sparse(data, weighed, &mut matrix);
        } else {
            self.add_dense(data, weighed, &mut matrix);
        }
        // Features that no example on the ramp has seem flat, and are not.
        (0..d).for_each(|j| matrix[j * d + j] += self.damping * mean * self.squares[j]);
        let gradient: Vec<f64> = away.iter().map(|v| lambda * v).collect();
        let mut direction: Vec<f64> = gradient.iter().map(|g| -g).collect();
        solve(&mut matrix, d, &mut direction)?;
        let along = self.dots(data, &direction)?;
        let first = inner(&gradient, &direction);
        let t = self.go(loss, lambda, data, (&direction, &along), Some(first));
        self.at_this_mu += 1;
        let times = if t > 0.5 {
            EASIER
        } else if t < 0.1 {
            HARDER
        } else {
            1.0
        };
        self.damping = (self.damping * times).clamp(LEAST_DAMPING, DAMPING);
        Some(true)
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
        let fall = if self.at_this_mu <= FEW { self.fall * self.fall } else { FALL };
        // The gap falls about as the square of mu.
        self.fall = fall.min((2.0 * too_large).sqrt()).clamp(FALL, STEEPEST);
        self.mu /= self.fall;
        self.at_this_mu = 0;
        self.slack = f64::INFINITY;
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
            let mut sum = 0.0;
            for (i, (score, along)) in self.scores.iter().zip(along).enumerate() {
                if let Some((a, _)) = loss.smoothed(score + t * along, data.label(i), self.mu) {
                    sum -= data.weight(i) * a * along;
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

/// Solves `matrix x = b` for a symmetric positive definite d x d matrix, by its Cholesky factor; looks at
/// its lower half only.
/// `None` if it is not positive definite.
pub(crate) fn solve(matrix: &mut [f64], d: usize, b: &mut [f64]) -> Option<()> {
    for j in 0..d {
        let (above, below) = matrix.split_at_mut((j + 1) * d);
        let row = &mut above[j * d..];
        let pivot = row[j] - row[..j].iter().map(|v| v * v).sum::<f64>();
        if !(pivot > 0.0 && pivot.is_finite()) {
            return None;
        }
        let pivot = pivot.sqrt();
        row[j] = pivot;
        for lower in below.chunks_mut(d) {
            let sum: f64 = lower[..j].iter().zip(&row[..j]).map(|(a, b)| a * b).sum();
            lower[j] = (lower[j] - sum) / pivot;
        }
    }
    for j in 0..d {
        let sum: f64 = matrix[j * d..j * d + j].iter().zip(&*b).map(|(a, b)| a * b).sum();
        b[j] = (b[j] - sum) / matrix[j * d + j];
    }
    for j in (0..d).rev() {
        b[j] /= matrix[j * d + j];
        let x = b[j];
        for (b, a) in b[..j].iter_mut().zip(&matrix[j * d..j * d + j]) {
            *b -= a * x;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn solves() {
        // B B' + I for a B of no pattern.
        let d = 7;
        let b: Vec<f64> = (0..d * d).map(|k| ((k * 37 + 11) % 19) as f64 / 7.0 - 1.0).collect();
        let mut matrix = vec![0.0; d * d];
        for i in 0..d {
            for j in 0..d {
                let sum: f64 = (0..d).map(|k| b[i * d + k] * b[j * d + k]).sum();
                matrix[i * d + j] = sum + f64::from(u8::from(i == j));
            }
        }
        let x: Vec<f64> = (0..d).map(|k| k as f64 - 2.5).collect();
        let mut got: Vec<f64> =
            (0..d).map(|i| (0..d).map(|j| matrix[i * d + j] * x[j]).sum()).collect();
        solve(&mut matrix.clone(), d, &mut got).unwrap();
        for (got, x) in got.iter().zip(&x) {
            assert!((got - x).abs() < 1e-10);
        }
        matrix[0] = -1.0;
        assert!(solve(&mut matrix, d, &mut got).is_none());
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
