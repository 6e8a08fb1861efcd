//! Of several outputs at once, where dual variables are on a simplex.
//!
//! The smoothed loss of an example at scores f is that of the point of the simplex nearest to `(f + 1 - e_y)/mu`, and if S is
//! who is positive there, its curvature `(diag(1_S) - 1_S 1_S'/|S|)/mu`: a matrix, so that the system is of all weights of all
//! outputs, and steps cost O((outputs d)^3) for the factors.

use super::curvature::{Features, summed};
use super::{FIRST_MU, LARGEST, MOST_STEPS, Pace, Place, Point, first_mu, inner, solve};
use crate::examples::Examples;
use crate::linear::Linear;
use crate::loss::Loss;
use crate::memory;
use crate::order::Ahead;
use crate::scalar::Scalar;

/// Above this many weights of all outputs factors take too long. With 640 of ten classes of digits a leap took as long as 3500
/// epochs of dual ascent and got nowhere at C = 100; with 416 of letter it takes as long as 20 to 50, with 378 of covtype15k, where
/// dual ascent gets nowhere by itself, as 100 to 350.
const MOST_WEIGHTS: usize = 512;

/// The least mean square of a feature, other than 0.
const LEAST_SQUARE: f64 = f64::MIN_POSITIVE / f64::EPSILON;

/// A descent under way.
#[derive(Clone, Debug)]
pub(crate) struct Joint {
    outputs: usize,
    /// w output after output, the weight of the constant feature last of each, if there is one; scores example after example.
    place: Place,
    /// The dual point there, example after example.
    dual: Vec<f64>,
    /// The mean square of every feature.
    squares: Vec<f64>,
    pace: Pace,
    best: Option<(f64, Point)>,
    /// How many features there are, and the value of the constant one; 0 for none.
    features: usize,
    constant: f64,
    /// Whether it began at w = 0 instead of where ascent was.
    pub(super) from_nothing: bool,
}

impl Joint {
    /// Whether there is one: the loss is on a simplex, and the problem not too large.
    pub(super) fn exists<L: Loss, S: Scalar>(
        loss: &L,
        data: &Examples<'_, S>,
        features: usize,
    ) -> bool {
        let weights = loss.outputs().saturating_mul(features);
        let fits = weights <= MOST_WEIGHTS && data.len().saturating_mul(weights) <= LARGEST;
        fits && !data.is_empty() && loss.on_simplex()
    }

    /// Begins at `w`, whose relative gap is about so large; `None` where there is [none](Joint::exists).
    pub(super) fn new<L: Loss, S: Scalar>(
        loss: &L,
        data: &Examples<'_, S>,
        w: &Linear<f64>,
        gap: f64,
    ) -> Option<Self> {
        let (features, outputs) = (w.n_features(), loss.outputs());
        let size = [6, data.len().saturating_mul(outputs)];
        let known = data.labels().iter().all(|y| (*y as usize) < outputs);
        let room = memory::check::<f64>("Newton's method", &size).is_ok();
        if !Joint::exists(loss, data, features) || !known || !room {
            return None;
        }
        let constants = w.constant_weights();
        let mut weights = Vec::new();
        for (o, v) in w.weights().chunks(features).enumerate() {
            weights.extend(v);
            weights.extend(constants.get(o).filter(|_| w.constant() > 0.0));
        }
        let mut squares = vec![0.0; features];
        for i in 0..data.len() {
            let c = data.weight(i) / data.len() as f64;
            data.rows().row(i).for_each(|j, x| {
                if let Some(square) = squares.get_mut(j) {
                    *square += c * x * x;
                }
            });
        }
        // Where squares underflow there is no curvature to see, and a processor takes a hundred times as long for each.
        if squares.iter().any(|square| *square > 0.0 && *square < LEAST_SQUARE) {
            return None;
        }
        squares.resize(weights.len() / outputs, w.constant().powi(2));
        let mut joint = Joint {
            outputs,
            place: Place::new(weights),
            dual: vec![0.0; data.len() * outputs],
            squares,
            pace: Pace::new(first_mu(gap)),
            best: None,
            features,
            constant: w.constant(),
            from_nothing: false,
        };
        joint.place.scores = joint.dots(data, &joint.place.w)?;
        // From far beyond the minimum, where dual ascent may have led, the way back is longer than from nothing.
        let (here, zeros) =
            (joint.mean_loss(loss, data, &joint.place.scores), vec![0.0; joint.place.scores.len()]);
        if here.is_nan() || here > joint.mean_loss(loss, data, &zeros) {
            joint.place.w.fill(0.0);
            joint.place.scores = zeros;
            joint.pace = Pace::new(FIRST_MU);
            joint.from_nothing = true;
        }
        Some(joint)
    }

    /// The best point found.
    pub(super) fn finish(self) -> Option<Point> {
        self.best.map(|(_, point)| point)
    }

    /// A step, as of one output; says whether another is worth while.
    pub(super) fn step<L: Loss, S: Scalar>(
        &mut self,
        loss: &L,
        lambda: f64,
        data: &Examples<'_, S>,
        tol: f64,
    ) -> bool {
        self.pace.begins(MOST_STEPS) && self.try_step(loss, lambda, data, tol) == Some(true)
    }

    fn try_step<L: Loss, S: Scalar>(
        &mut self,
        loss: &L,
        lambda: f64,
        data: &Examples<'_, S>,
        tol: f64,
    ) -> Option<bool> {
        let (n, outputs, size) = (data.len(), self.outputs, self.place.w.len());
        let mut conjugate = 0.0;
        let rows = self.dual.chunks_mut(outputs).zip(self.place.scores.chunks(outputs));
        for (i, (a, scores)) in rows.enumerate().filter(|(i, _)| data.weight(*i) > 0.0) {
            smooth(loss, scores, data.label(i), self.pace.mu, a);
            conjugate += data.weight(i) / n as f64 * loss.conjugate(a, data.label(i));
        }
        let image = self.image(lambda, data)?;
        let square = |v: &[f64]| lambda / 2.0 * inner(v, v);
        let primal = square(&self.place.w) + self.mean_loss(loss, data, &self.place.scores);
        let value = -conjugate - square(&image);
        if !(primal.is_finite() && value.is_finite()) {
            return None;
        }
        let away: Vec<f64> = self.place.w.iter().zip(&image).map(|(w, v)| w - v).collect();
        let (gap, slack) = (primal - value, lambda * inner(&away, &away));
        // The model will be the image.
        let solved = gap <= tol * primal && {
            let reached = square(&image) + self.mean_loss(loss, data, &self.dots(data, &image)?);
            reached - value <= tol * reached
        };
        if solved || self.best.as_ref().is_none_or(|(highest, _)| value > *highest) {
            let w = self.linear(&image);
            self.best = Some((value, Point { dual: self.dual.clone(), w, intercept: 0.0 }));
        }
        if solved || self.pace.is_exact(gap, tol * primal) {
            return Some(false);
        }
        if self.pace.has_minimised(gap, slack, tol * primal) {
            self.let_mu_fall(loss, lambda, data, gap / (tol * primal));
            return Some(true);
        }
        let mut matrix = self.curvature(lambda, data);
        let gradient: Vec<f64> = away.iter().map(|v| lambda * v).collect();
        let mut direction: Vec<f64> = gradient.iter().map(|g| -g).collect();
        solve(&mut matrix, size, &mut direction)?;
        let along = self.dots(data, &direction)?;
        let first = inner(&gradient, &direction);
        let t = self.go(loss, lambda, data, (&direction, &along), Some(first));
        self.pace.has_gone(t);
        Some(true)
    }

    /// The mean loss at such scores.
    fn mean_loss<L: Loss, S: Scalar>(
        &self,
        loss: &L,
        data: &Examples<'_, S>,
        scores: &[f64],
    ) -> f64 {
        let mut coef = vec![0.0; self.outputs];
        let mut sum = 0.0;
        // What has no weight may be beyond the numbers.
        let counts = |(i, _): &(usize, &[f64])| data.weight(*i) > 0.0;
        for (i, scores) in scores.chunks(self.outputs).enumerate().filter(counts) {
            sum += data.weight(i) * loss.value_and_coef(scores, data.label(i), &mut coef);
        }
        sum / data.len() as f64
    }

    /// The weights that dual variables stand for.
    fn image<S: Scalar>(&self, lambda: f64, data: &Examples<'_, S>) -> Option<Vec<f64>> {
        let (n, d, features) = (data.len(), self.squares.len(), self.features);
        let mut image = vec![0.0; self.place.w.len()];
        let counts = |i: &usize| data.weight(*i) > 0.0;
        let mut rows = (0..n).filter(counts);
        let mut order = Ahead::new(&mut rows);
        while let Some(i) = order.next(data, |_| ()).ok()? {
            let c = data.weight(i) / (lambda * n as f64);
            let a = &self.dual[i * self.outputs..(i + 1) * self.outputs];
            for (image, a) in image.chunks_mut(d).zip(a).filter(|(_, a)| **a != 0.0) {
                data.rows().row(i).add_times(c * a, &mut image[..features]);
                image[features..].iter_mut().for_each(|b| *b += c * a * self.constant);
            }
        }
        Some(image)
    }

    /// Weights of this form as a model.
    fn linear(&self, weights: &[f64]) -> Linear<f64> {
        let (d, features) = (self.squares.len(), self.features);
        let rows = || weights.chunks(d);
        let b = rows().map(|row| row.get(features).copied().unwrap_or(0.0));
        let v = rows().flat_map(|row| &row[..features]).copied();
        Linear::of(v.collect(), features, b.collect(), self.constant)
    }

    /// The second derivative of P_mu, and what is added to it for those that seem flat and are not; its lower half.
    fn curvature<S: Scalar>(&self, lambda: f64, data: &Examples<'_, S>) -> Vec<f64> {
        let (n, d, size) = (data.len(), self.squares.len(), self.place.w.len());
        let features =
            Features { weights: d, stored: self.features, constant: self.constant, mean: None };
        // Who is positive in the simplex: it bends between two that are.
        let positive = |i: usize, o: usize| {
            let a = self.dual[i * self.outputs + o];
            if o == data.label(i) as usize { a < 1.0 } else { a < 0.0 }
        };
        let all = |i: usize| (0..self.outputs).filter(move |&o| positive(i, o));
        let curved: Vec<usize> =
            (0..n).filter(|&i| data.weight(i) > 0.0 && all(i).nth(1).is_some()).collect();
        let stride = curved.len().div_ceil(summed(curved.len(), size)).max(1);
        let mut means = vec![0.0; self.outputs];
        let mut some = Vec::new();
        for (at, i) in curved.into_iter().enumerate() {
            let c = data.weight(i) / (n as f64 * self.pace.mu);
            let part = c / all(i).count() as f64;
            all(i).for_each(|o| means[o] += c - part);
            if at.is_multiple_of(stride) {
                some.push((i, stride as f64 * c, stride as f64 * part));
            }
        }
        let (mut matrix, mut block) = (vec![0.0; size * size], vec![0.0; d * d]);
        for o in 0..self.outputs {
            for other in 0..=o {
                let both = some.iter().filter(|&&(i, ..)| positive(i, o) && positive(i, other));
                let weighed =
                    both.map(|&(i, c, part)| (i, if o == other { c - part } else { part }));
                block.fill(0.0);
                features.add_curvature(data, weighed, &mut block);
                for j in 0..d {
                    let line = &mut matrix[(o * d + j) * size + other * d..][..d];
                    for (l, value) in line.iter_mut().enumerate() {
                        let whole = block[j.max(l) * d + j.min(l)];
                        *value = if o == other { whole } else { -whole };
                    }
                }
            }
        }
        for (k, square) in (0..size).zip(self.squares.iter().cycle()) {
            matrix[k * size + k] += lambda + self.pace.damping * means[k / d] * square;
        }
        matrix
    }

    /// A smaller mu, for a gap so many times too large, and on along the curve of minimisers.
    fn let_mu_fall<L: Loss, S: Scalar>(
        &mut self,
        loss: &L,
        lambda: f64,
        data: &Examples<'_, S>,
        too_large: f64,
    ) {
        self.pace.let_mu_fall(too_large);
        if let Some((p, along)) = self.place.way_between_falls() {
            self.go(loss, lambda, data, (&p, &along), None);
        }
    }

    /// [`Place::go`].
    fn go<L: Loss, S: Scalar>(
        &mut self,
        loss: &L,
        lambda: f64,
        data: &Examples<'_, S>,
        (p, along): (&[f64], &[f64]),
        first: Option<f64>,
    ) -> f64 {
        let (outputs, mu) = (self.outputs, self.pace.mu);
        self.place.go((lambda, p.len()), (p, along), first, |scores, t| {
            let (mut sum, mut there, mut a) = (0.0, vec![0.0; outputs], vec![0.0; outputs]);
            let rows = scores.chunks(outputs).zip(along.chunks(outputs));
            for (i, (scores, along)) in rows.enumerate().filter(|(i, _)| data.weight(*i) > 0.0) {
                for (there, (score, along)) in there.iter_mut().zip(scores.iter().zip(along)) {
                    *there = score + t * along;
                }
                smooth(loss, &there, data.label(i), mu, &mut a);
                sum -= data.weight(i) * inner(&a, along);
            }
            sum / data.len() as f64
        })
    }

    /// The scores of every example with such weights.
    fn dots<S: Scalar>(&self, data: &Examples<'_, S>, weights: &[f64]) -> Option<Vec<f64>> {
        let (d, features) = (self.squares.len(), self.features);
        let mut out = Vec::with_capacity(data.len() * self.outputs);
        let mut rows = 0..data.len();
        let mut order = Ahead::new(&mut rows);
        while let Some(i) = order.next(data, |_| ()).ok()? {
            let row = data.rows().row(i);
            out.extend(weights.chunks(d).map(|v| {
                let bias: f64 = v[features..].iter().map(|b| b * self.constant).sum();
                row.dot(&v[..features]) + bias
            }));
        }
        Some(out)
    }
}

/// The dual point of the smoothed loss.
fn smooth<L: Loss>(loss: &L, scores: &[f64], y: u32, mu: f64, a: &mut [f64]) {
    a.fill(0.0);
    loss.ascend(scores, y, mu, a);
}

#[cfg(test)]
mod tests {
    use rand_pcg::Pcg64;
    use rand_pcg::rand_core::Rng;

    use super::*;
    use crate::data::Dense;
    use crate::loss::CrammerSinger;

    /// The curvature is the slope of the gradient, as far as that goes in a straight line: of three classes and more, weights of 0,
    /// with a constant feature and without.
    #[test]
    fn curvature_is_the_slope_of_the_gradient() {
        let (n, d, lambda) = (50, 3, 1e-2);
        let mut rng = Pcg64::new(3, 4);
        let mut draw = || rng.next_u32() as f64 / 2e9 - 1.0;
        let mut x: Vec<f64> = (0..n * d).map(|_| draw()).collect();
        // Of a row without weight.
        x[4 * d] = 1e300;
        for (classes, constant) in [(2, 0.0), (3, 2.0), (5, 1.0)] {
            let y: Vec<u32> = (0..n).map(|i| (i % classes) as u32).collect();
            let weight: Vec<f64> = (0..n).map(|i| (i % 4) as f64).collect();
            let data = Examples::new(Dense::new(&x, n, d).unwrap(), &y, Some(&weight)).unwrap();
            let loss = CrammerSinger { classes };
            let shape = Linear::new(classes, d, constant).unwrap();
            let mut joint = Joint::new(&loss, &data, &shape, 1.0).unwrap();
            joint.place.w.iter_mut().for_each(|w| *w = 2.0 * draw());
            joint.pace.damping = 0.0;
            let direction: Vec<f64> = joint.place.w.iter().map(|_| draw()).collect();
            let mut gradient_at = |t: f64| {
                let w: Vec<f64> =
                    joint.place.w.iter().zip(&direction).map(|(w, p)| w + t * p).collect();
                let scores = joint.dots(&data, &w).unwrap();
                for (i, a) in joint.dual.chunks_mut(classes).enumerate() {
                    smooth(&loss, &scores[i * classes..(i + 1) * classes], y[i], joint.pace.mu, a);
                }
                let image = joint.image(lambda, &data).unwrap();
                w.iter().zip(image).map(|(w, v)| lambda * (w - v)).collect::<Vec<f64>>()
            };
            let (before, after) = (gradient_at(-1e-7), gradient_at(1e-7));
            gradient_at(0.0);
            let (matrix, size) = (joint.curvature(lambda, &data), joint.place.w.len());
            for j in 0..size {
                let entry = |l: usize| matrix[j.max(l) * size + j.min(l)];
                let got: f64 = (0..size).map(|l| entry(l) * direction[l]).sum();
                let want = (after[j] - before[j]) / 2e-7;
                assert!((got - want).abs() < 1e-6, "{classes} classes, {j}: {got} {want}");
            }
            // And a descent ends there and then at the minimum.
            let mut joint = Joint::new(&loss, &data, &shape, 1.0).unwrap();
            while joint.step(&loss, lambda, &data, 1e-6) {}
            let w = joint.image(lambda, &data).unwrap();
            let scores = joint.dots(&data, &w).unwrap();
            let primal = lambda / 2.0 * inner(&w, &w) + joint.mean_loss(&loss, &data, &scores);
            let (value, _) = joint.best.unwrap();
            assert!(primal - value <= 1e-6 * primal, "{classes} classes: {primal} {value}");
        }
    }
}
