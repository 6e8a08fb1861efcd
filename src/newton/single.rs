//! Of one output.

use super::conjugate;
use super::curvature::{Features, epochs_of_a_step};
use super::{
    LARGEST, MOST_LONG_STEPS, MOST_STEPS, MOST_WEIGHTS, Pace, Place, Point, add_to_side, factors,
    first_mu, inner, solve,
};
use crate::examples::Examples;
use crate::linear::Linear;
use crate::loss::{Loss, TOGETHER};
use crate::order::Ahead;
use crate::scalar::Scalar;

/// How many steps are few: of the logistic loss and the squared hinge on 80,000 rows of 54 features it takes 5 to 10.
const FEW_STEPS: f64 = 6.0;

/// Of examples with so many features in all a step takes a fraction of a millisecond. There is one more after the tolerance is met,
/// where nothing is smoothed: it squares the gap. Where labels are all but noise, predictions still change below a gap of 1e-4: of
/// Hastie's shells, 4,200 rows of 10 features, 52.6 % were right after a linear fit, 53.3 after one more step, 53.5 at the optimum.
const QUICK: usize = 1 << 17;

/// Whether a loss has curvature of its own, so that nothing is smoothed.
fn is_curved<L: Loss>(loss: &L) -> bool {
    loss.hinge_sign(0, 0).is_none()
}

/// A descent under way.
#[derive(Clone, Debug)]
pub(crate) struct Descent {
    /// w with the weight of the constant feature last if there is one.
    place: Place,
    /// Dual variables where the last step began, what is to follow them, and the sum of `c_i a_i x_i`; where the intercept is
    /// free that over the positive ones apart.
    dual: Vec<f64>,
    next: Vec<f64>,
    sums: (Vec<f64>, Vec<f64>),
    /// The mean square of every feature, and the largest part that a row has in them.
    squares: Vec<f64>,
    largest_part: f64,
    pace: Pace,
    /// The best point so far, with its D; and whether it has met the tolerance.
    best: Option<(f64, Point)>,
    solved: bool,
    /// How many passes products have taken.
    passes: f64,
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
    pub(super) fn exists<L: Loss, S: Scalar>(
        loss: &L,
        data: &Examples<'_, S>,
        features: usize,
    ) -> bool {
        let size = data.len().saturating_mul(features);
        let smoothed = !data.is_empty() && loss.smoothed(0.0, 0, 1.0).is_some();
        if features <= MOST_WEIGHTS {
            return smoothed && size <= LARGEST;
        }
        smoothed && conjugate::epochs(data, features, false).is_finite()
    }

    /// About how many epochs of dual ascent take as long, where few steps do; infinite elsewhere.
    pub(super) fn epochs<L: Loss, S: Scalar>(
        loss: &L,
        data: &Examples<'_, S>,
        features: usize,
    ) -> f64 {
        match (Descent::exists(loss, data, features), features <= MOST_WEIGHTS) {
            (true, false) => conjugate::epochs(data, features, is_curved(loss)),
            (true, true) if is_curved(loss) => FEW_STEPS * epochs_of_a_step(data, features),
            _ => f64::INFINITY,
        }
    }

    /// Whether steps are by conjugate gradients.
    pub(super) fn by_products(&self) -> bool {
        self.shape.n_features() > MOST_WEIGHTS
    }

    /// Begins at `w`, whose relative gap is about so large; `None` where there is [none](Descent::exists).
    pub(super) fn new<L: Loss, S: Scalar>(
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
        let (dual, next) = (vec![0.0; data.len()], vec![0.0; data.len()]);
        let sums = (vec![0.0; weights.len()], vec![0.0; weights.len()]);
        let mut descent = Descent {
            place: Place::new(weights),
            dual,
            next,
            sums,
            squares,
            largest_part: 1.0,
            pace: Pace::new(if is_curved(loss) { 0.0 } else { first_mu(gap) }),
            best: None,
            passes: 0.0,
            solved: false,
            shape,
            constant,
            mean,
            centred,
        };
        descent.place.scores = descent.dots(data, &descent.place.w)?;
        if !descent.by_products() {
            descent.largest_part = descent.features().largest_part(data, &descent.squares);
        }
        Some(descent)
    }

    /// The best point found.
    pub(super) fn finish(self) -> Option<Point> {
        self.best.map(|(_, point)| point)
    }

    /// A step; says whether another is worth while: until the gap is at most `tol` of the objective,
    /// steps are spent, or numbers leave their range.
    pub(super) fn step<L: Loss, S: Scalar>(
        &mut self,
        loss: &L,
        lambda: f64,
        data: &Examples<'_, S>,
        tol: f64,
    ) -> bool {
        let most =
            if self.by_products() && self.pace.mu == 0.0 { MOST_LONG_STEPS } else { MOST_STEPS };
        let goes_on = self.pace.begins(most) && self.passes <= conjugate::MOST_PASSES;
        goes_on && self.try_step(loss, lambda, data, tol) == Some(true)
    }

    fn try_step<L: Loss, S: Scalar>(
        &mut self,
        loss: &L,
        lambda: f64,
        data: &Examples<'_, S>,
        tol: f64,
    ) -> Option<bool> {
        let (n, d) = (data.len(), self.place.w.len());
        let features = self.shape.n_features();
        let free = self.mean.is_some();
        let per_row = |i: usize| data.weight(i) / n as f64;
        // The dual point, the sum of `c_i a_i x_i`, and the true objective.
        let mut curvature = vec![0.0; n];
        let (mean_loss, mut conjugate) = self.smoothed_point(loss, data, &mut curvature);
        self.move_sums(data)?;
        let sums = self.sums.0.iter().zip(&self.sums.1);
        let mut image: Vec<f64> = sums.map(|(above, rest)| (above + rest) / lambda).collect();
        let mut away: Vec<f64> = self.place.w.iter().zip(&image).map(|(w, v)| w - v).collect();
        let mut sum = 0.0;
        if free {
            sum = image[features] / self.constant;
            away[features] = -image[features];
            image[features] = self.place.w[features];
        }
        // What is regularised.
        let regular = if free { features } else { d };
        let square = |v: &[f64]| lambda / 2.0 * inner(&v[..regular], &v[..regular]);
        let primal = square(&self.place.w) + mean_loss;
        let mut value = -conjugate - square(&image);
        // The part of the gap that a gradient of 0 would not have.
        let mut slack = lambda * inner(&away[..regular], &away[..regular]);
        let mean = curvature.iter().sum::<f64>();
        let mut gap = primal - value;
        let mut dual = None;
        if free {
            // Lagrange's function, which is D where the sum is 0.
            gap += lambda * sum * self.place.w[features];
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
        let higher = self.best.as_ref().is_none_or(|(highest, _)| value > *highest);
        let better = if self.solved { higher && solved } else { higher || solved };
        if better {
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
        let again = !self.solved && self.pace.mu == 0.0 && n.saturating_mul(d) <= QUICK;
        if self.solved || solved && !again || self.pace.is_exact(gap, tol * primal) {
            return Some(false);
        }
        self.solved = solved;
        if self.pace.has_minimised(gap, slack, tol * primal) {
            self.let_mu_fall(loss, lambda, data, gap / (tol * primal));
            return Some(true);
        }
        let gradient: Vec<f64> = away.iter().map(|v| lambda * v).collect();
        // Features that no example on the ramp has seem flat, and are not.
        let diagonal: Vec<f64> =
            self.squares.iter().map(|square| lambda + self.pace.damping * mean * square).collect();
        let direction = self.direction(data, &curvature, &diagonal, &gradient)?;
        let along = self.dots(data, &direction)?;
        let first = inner(&gradient, &direction);
        let t = self.go(loss, lambda, data, (&direction, &along), Some(first));
        self.pace.has_gone(t);
        Some(true)
    }

    /// About minus the inverse of the curvature, that of the examples and of this diagonal, times the gradient.
    fn direction<S: Scalar>(
        &mut self,
        data: &Examples<'_, S>,
        curvature: &[f64],
        diagonal: &[f64],
        gradient: &[f64],
    ) -> Option<Vec<f64>> {
        let (d, features) = (self.place.w.len(), self.shape.n_features());
        let mut direction: Vec<f64> = gradient.iter().map(|g| -g).collect();
        if self.by_products() {
            let mean = curvature.iter().sum::<f64>();
            let whole: Vec<f64> =
                diagonal.iter().zip(&self.squares).map(|(d, square)| d + mean * square).collect();
            let curved = curvature.iter().filter(|c| **c > 0.0).count();
            let size = conjugate::size(data, features);
            let (found, products) = conjugate::solve(size, &whole, &direction, |v| {
                let mut out: Vec<f64> = diagonal.iter().zip(v).map(|(d, v)| d * v).collect();
                self.add_products(data, curvature, v, &mut out);
                out
            });
            self.passes += (2 * products * curved) as f64 / data.len() as f64;
            return Some(found);
        }
        let mut matrix = vec![0.0; d * d];
        let of = self.features();
        of.add_curvature(
            data,
            of.sample(data, curvature, self.largest_part).into_iter(),
            &mut matrix,
        );
        (0..d).for_each(|j| matrix[j * d + j] += diagonal[j]);
        solve(&mut matrix, d, &mut direction)?;
        Some(direction)
    }

    /// Adds the curvature of the examples times `v`: `c <v, x> x` of every one.
    fn add_products<S: Scalar>(
        &self,
        data: &Examples<'_, S>,
        curvature: &[f64],
        v: &[f64],
        out: &mut [f64],
    ) {
        let features = self.shape.n_features();
        let bias = self.bias(v);
        let mut sum = 0.0;
        for (i, c) in curvature.iter().enumerate().filter(|(_, c)| **c > 0.0) {
            let row = data.rows().row(i);
            let c = c * (row.dot(&v[..features]) + bias);
            row.add_times(c, &mut out[..features]);
            sum += c;
        }
        if let Some(mean) = self.centre() {
            out.iter_mut().zip(mean).for_each(|(o, m)| *o -= sum * m);
        }
        out[features..].iter_mut().for_each(|b| *b += sum * self.constant);
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
        let chunks = self.place.scores.chunks(TOGETHER).zip(self.next.chunks_mut(TOGETHER));
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
                None => row.add_times(c, &mut sums[..features]),
            }
            sums[features..].iter_mut().for_each(|b| *b += c * constant);
        }
        std::mem::swap(&mut self.dual, &mut self.next);
        Some(())
    }

    /// A smaller mu, for a gap so many times too large, and on along the curve of minimisers as far as P_mu falls.
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
        let regular = if self.mean.is_some() { self.shape.n_features() } else { p.len() };
        let mu = self.pace.mu;
        self.place.go((lambda, regular), (p, along), first, |scores, t| {
            let (mut sum, mut room) = (0.0, [[0.0; TOGETHER]; 2]);
            let chunks = scores.chunks(TOGETHER).zip(along.chunks(TOGETHER));
            for (k, ((scores, along), labels)) in
                chunks.zip(data.labels().chunks(TOGETHER)).enumerate()
            {
                let [a, bent] = room.each_mut().map(|room| &mut room[..scores.len()]);
                for l in 0..scores.len() {
                    a[l] = scores[l] + t * along[l];
                }
                loss.smooth_all(a, bent, labels, mu);
                for l in 0..scores.len() {
                    sum -= data.weight(k * TOGETHER + l) * a[l] * along[l];
                }
            }
            sum / data.len() as f64
        })
    }

    fn features(&self) -> Features<'_> {
        let (weights, stored) = (self.place.w.len(), self.shape.n_features());
        Features { weights, stored, constant: self.constant, mean: self.centre() }
    }

    /// What features are measured from, where that is not 0.
    fn centre(&self) -> Option<&[f64]> {
        self.mean.as_deref().filter(|_| self.centred)
    }

    /// What the constant feature adds to all `<v, x_i>`, and what features are measured from takes off them.
    fn bias(&self, v: &[f64]) -> f64 {
        let features = self.shape.n_features();
        let bias: f64 = v[features..].iter().map(|b| b * self.constant).sum();
        bias - self.centre().map_or(0.0, |mean| inner(mean, &v[..features]))
    }

    /// `<v, x_i>` for every example.
    fn dots<S: Scalar>(&self, data: &Examples<'_, S>, v: &[f64]) -> Option<Vec<f64>> {
        let features = self.shape.n_features();
        let bias = self.bias(v);
        let mut out = Vec::with_capacity(data.len());
        let mut rows = 0..data.len();
        let mut order = Ahead::new(&mut rows);
        while let Some(i) = order.next(data, |_| ()).ok()? {
            out.push(data.rows().row(i).dot(&v[..features]) + bias);
        }
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use rand_pcg::Pcg64;
    use rand_pcg::rand_core::Rng;

    use super::*;
    use crate::data::Dense;
    use crate::dual::DualAscent;
    use crate::loss::{AnyLoss, Binary, Hinge};

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

    /// Of few examples the optimum itself is found where the loss is not smoothed, whatever the tolerance: labels that are noise
    /// but for a little, with a constant feature and without, and examples without weight.
    #[test]
    fn small_problems_are_solved_beyond_the_tolerance() {
        let (n, d, lambda) = (400, 6, 1.0 / 400.0);
        let mut rng = Pcg64::new(5, 6);
        let mut draw = || rng.next_u32() as f64 / 2e9 - 1.0;
        let x: Vec<f64> = (0..n * d).map(|_| draw()).collect();
        let y: Vec<u32> = x.chunks(d).map(|x| u32::from(0.2 * x[0] + draw() > 0.0)).collect();
        let weight: Vec<f64> = (0..n).map(|i| (i % 3) as f64).collect();
        let data = Examples::new(Dense::new(&x, n, d).unwrap(), &y, Some(&weight)).unwrap();
        for loss in [AnyLoss::SquaredHinge, AnyLoss::Logistic] {
            let loss = Binary { loss, positive: 1 };
            for constant in [0.0, 1.0] {
                let w = Linear::new(1, d, constant).unwrap();
                let highest = |tol: f64| {
                    let mut descent = Descent::new(&loss, &data, &w, 1.0, None).unwrap();
                    while descent.step(&loss, lambda, &data, tol) {}
                    descent.best.unwrap().0
                };
                let (optimum, found) = (highest(1e-13), highest(1e-2));
                assert!((optimum - found).abs() <= 1e-6 * optimum, "{optimum} {found}");
            }
        }
    }

    /// Features that a few of many rows have, and labels that are nearly all the same: some ten steps.
    #[test]
    fn rare_features_take_no_more_steps() {
        let (n, d) = (40_000, 40);
        let mut rng = Pcg64::new(9, 1);
        let mut draw = || rng.next_u32() as f64 / 2e9 - 1.0;
        let mut x: Vec<f64> = (0..n * d).map(|_| draw()).collect();
        for j in 0..10 {
            (0..n).for_each(|i| x[i * d + j] = f64::from(u8::from(i % (n / (2 + 3 * j)) == 5 * j)));
        }
        for rare in [0.5, 0.01] {
            let y: Vec<u32> = x
                .chunks(d)
                .map(|x| u32::from(x[20] + x[21] + 0.5 * draw() > 2.0 * (1.0 - rare) - 1.0))
                .collect();
            let data = Examples::new(Dense::new(&x, n, d).unwrap(), &y, None).unwrap();
            for loss in [AnyLoss::SquaredHinge, AnyLoss::Logistic] {
                let loss = Binary { loss, positive: 1 };
                let mut dual = DualAscent::new(loss, 1e-2 / n as f64, n, d, 1.0).unwrap();
                let mut leap = dual.begin_leap(&data).unwrap().unwrap();
                let mut steps = 0;
                while dual.leap_on(&data, &mut leap, 1e-4) {
                    steps += 1;
                }
                dual.end_leap(&data, leap).unwrap();
                let gap = dual.certificate(&data).unwrap().relative_gap();
                assert!(steps <= 25 && gap <= 1e-4, "{loss:?} {rare}: {steps}, {gap:e}");
            }
        }
    }

    /// Of many features that rows spread over evenly a leap finds the optimum of a loss with curvature, and nothing of the hinge, nor
    /// where rows are few.
    #[test]
    fn many_features_need_no_factors() {
        let (n, d) = (1300, MOST_WEIGHTS + 20);
        let mut rng = Pcg64::new(7, 8);
        let mut draw = || (rng.next_u32() as f64 - rng.next_u32() as f64) / 2e9;
        let x: Vec<f64> = (0..n * d).map(|_| draw()).collect();
        let y: Vec<u32> = x.chunks(d).map(|x| u32::from(x[0] + x[1] + draw() > 0.0)).collect();
        let weight: Vec<f64> = (0..n).map(|i| (i % 3) as f64).collect();
        let leap = |loss: AnyLoss, constant: f64, n: usize| {
            let x = Dense::new(&x[..n * d], n, d).unwrap();
            let data = Examples::new(x, &y[..n], Some(&weight[..n])).unwrap();
            let loss = Binary { loss, positive: 1 };
            let mut dual = DualAscent::new(loss, 1.0 / n as f64, n, d, constant).unwrap();
            let found = dual.leap(&data, 1e-6).unwrap();
            (found, dual.certificate(&data).unwrap().relative_gap())
        };
        for loss in [AnyLoss::SquaredHinge, AnyLoss::Logistic] {
            for constant in [0.0, 3.0] {
                let (found, gap) = leap(loss, constant, n);
                assert!(found && gap <= 1e-6, "{loss:?}: {gap:e}");
            }
            assert!(!leap(loss, 1.0, 1000).0);
        }
        assert!(!leap(AnyLoss::Hinge, 1.0, n).0);
    }
}
