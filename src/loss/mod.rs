//! Losses: scores in, value and coefficients out. A loss knows neither features nor kernels.
//!
//! | loss | `l(m)`, m the margin `y s` | `-l'(m)` | conjugate `l*(-a)` | `sup -l'(m) m` |
//! |---|---|---|---|---|
//! | [`Hinge`] | `max(0, 1 - m)` | `[m < 1]` | `-a` on `[0, 1]` | 1 |
//! | [`SquaredHinge`] | `max(0, 1 - m)^2` | `2 max(0, 1 - m)` | `-a + a^2/4` on `[0, inf)` | 1/2 |
//! | [`Logistic`] | `ln(1 + exp(-m))` | `1/(1 + exp(m))` | `a ln a + (1-a) ln(1-a)` on `[0, 1]` | `W(1/e)` = 0.27846 |
//!
//! The sub-gradients are those of the table on page 15 of Shalev-Shwartz et al. (2011). The
//! conjugate is what a dual certificate needs; the last column bounds the minimiser: there
//! `lambda ||w||^2` is the mean of `-l'(m) m`.

mod crammer_singer;
mod margin;
mod multiclass;
mod one_vs_one;
mod one_vs_rest;

use std::fmt::Debug;

pub use crammer_singer::CrammerSinger;
pub use margin::{AnyLoss, Hinge, Logistic, MarginLoss, SquaredHinge};
pub use multiclass::Multiclass;
pub use one_vs_one::{OneVsOne, Versus};
pub use one_vs_rest::OneVsRest;

/// As many examples as are best asked for together: what is about them stays in the nearest cache.
pub(crate) const TOGETHER: usize = 128;

/// A loss on the scores of one example. May panic where scores, coefficients or dual variables are not as many as
/// [`outputs`](Loss::outputs), or y is not below [`classes`](Loss::classes).
pub trait Loss: Sync {
    /// Room for the scores of one example: an array where their number is fixed, so that the loop
    /// keeps them in registers, else a vector.
    type Scores: AsRef<[f64]> + AsMut<[f64]> + Clone + Debug + Send + Sync;
    /// Zeros, one for each score of an example.
    fn zeros(&self) -> Self::Scores;
    /// How many scores an example has: as many as there are [`zeros`](Loss::zeros), for who must know before memory is taken.
    fn outputs(&self) -> usize {
        self.zeros().as_ref().len()
    }
    /// Classes are numbered below this.
    fn classes(&self) -> u32 {
        u32::MAX
    }
    /// Whether examples of class `y` have a part in it; of others loss, coefficients and dual variables are 0.
    #[inline(always)]
    fn concerns(&self, _y: u32) -> bool {
        true
    }
    /// The loss of an example of class `y`; writes its negative (sub)gradient by the scores to
    /// `coef`.
    fn value_and_coef(&self, scores: &[f64], y: u32, coef: &mut [f64]) -> f64;
    /// [`value_and_coef`](Loss::value_and_coef) for finite scores; or `None`, and `coef` as it was, where loss and coefficients are
    /// 0 and that is found out with less work than they take.
    ///
    /// For a hinge that is a branch on the margin, beyond which the coefficient is known: a processor that foresees the branch
    /// adds the row to w before it has the score. That takes 0.97 of the time on an AMD EPYC where rows of 54 f32 are in its
    /// caches, 0.95 to 0.98 on sparse rows.
    #[inline(always)]
    fn unmet(&self, scores: &[f64], y: u32, coef: &mut [f64]) -> Option<f64> {
        Some(self.value_and_coef(scores, y, coef))
    }
    /// How many problems' losses it is the sum of.
    fn problems(&self) -> usize {
        1
    }
    /// The loss of an example whose scores say nothing, all being 0: of one problem, one with a smaller loss is
    /// classified right.
    fn at_zero(&self) -> f64 {
        let (mut coef, scores) = (self.zeros(), self.zeros());
        self.value_and_coef(scores.as_ref(), 0, coef.as_mut())
    }
    /// Whether the scores speak for another class than y, given their loss and [`at_zero`](Loss::at_zero).
    #[inline(always)]
    fn errs(&self, _scores: &[f64], _y: u32, loss: f64, at_zero: f64) -> bool {
        loss >= at_zero
    }
    /// The convex conjugate of the loss at `-dual`, `dual` being an average of coefficients for
    /// class `y`.
    fn conjugate(&self, dual: &[f64], y: u32) -> f64;
    /// First and second derivative of the conjugate at `-dual` by the dual variable of score o, which is `a`, for conjugates
    /// that are sums over the scores; near an end of the domain where they are infinite. NaN where a loss does not tell.
    fn bend(&self, _o: usize, _a: f64, _y: u32) -> (f64, f64) {
        (f64::NAN, f64::NAN)
    }
    /// How far `dual` must be shrunk to lie in the conjugate's domain: the smallest `c >= 0` for
    /// which `dual / c` does, 0 if every multiple does.
    fn excess(&self, dual: &[f64], y: u32) -> f64;
    /// Exact ascent in the coordinates of one example: replaces `dual`, a point of the conjugate's
    /// domain, by the maximiser over `a` of
    ///
    /// ```text
    /// -loss*(-a) - <a - dual, scores> - q/2 ||a - dual||^2.
    /// ```
    fn ascend(&self, scores: &[f64], y: u32, q: f64, dual: &mut [f64]);
    /// Whether ascent in an example may have nothing left to move; else there always are roundings.
    fn settles(&self) -> bool {
        true
    }
    /// Of many outputs those that matter to [`ascend`](Loss::ascend), in order: y, all of `nonzeros`, which are the
    /// dual variables that are not 0, and whatever else the maximiser may have. What ascend makes of these alone,
    /// y being its own place among them, is what it makes of all. False, and nothing written, where a loss does
    /// not tell.
    fn contenders(
        &self,
        _scores: &[f64],
        _y: u32,
        _q: f64,
        _nonzeros: &[(u32, f64)],
        _out: &mut Vec<u32>,
    ) -> bool {
        false
    }
    /// Whether the conjugate's domain is that of [`CrammerSinger`], and the conjugate there minus the dual variable of y.
    fn on_simplex(&self) -> bool {
        false
    }
    /// Moves `dual`, which is in the conjugate's domain up to rounding or a factor, into it.
    fn make_feasible(&self, dual: &mut [f64], y: u32);
    /// For losses of one score, the maximiser over `a` of `-loss*(-a) - a score - mu/2 a^2` and its
    /// negative derivative by the score: slope and curvature of the loss, smoothed. `None` for others.
    fn smoothed(&self, _score: f64, _y: u32, _mu: f64) -> Option<(f64, f64)> {
        None
    }
    /// For sums of hinge losses of a score each, the sign of class `y` in score `o`, whose loss is
    /// `max(0, 1 - sign score)`; 0 where such examples have no part in it. `None` for others.
    fn hinge_sign(&self, _o: usize, _y: u32) -> Option<f64> {
        None
    }
    /// Where the conjugate is a quadratic on its domain, and so is D: its second derivative, by each dual variable alone, of
    /// all examples that have a part in it.
    fn quadratic(&self) -> Option<f64> {
        None
    }
    /// What examples with these labels have in the gap, for a weight of 1: `loss + loss* + <a, scores>`; score and dual
    /// variable of output o of example k stand at `o * stride + k`. There must be as many labels as `out` has room, and
    /// a multiple of 16.
    fn shares(&self, scores: &[f64], dual: &[f64], stride: usize, labels: &[f64], out: &mut [f64]) {
        let (mut of, mut coef, mut a) = (self.zeros(), self.zeros(), self.zeros());
        let (of, coef, a) = (of.as_mut(), coef.as_mut(), a.as_mut());
        for (k, (&y, out)) in labels.iter().zip(out).enumerate() {
            let (y, mut cross) = (y as u32, 0.0);
            for o in 0..of.len() {
                (of[o], a[o]) = (scores[o * stride + k], dual[o * stride + k]);
                cross += a[o] * of[o];
            }
            *out = self.value_and_coef(of, y, coef) + self.conjugate(a, y) + cross;
        }
    }
    /// For losses of one score: replaces those of examples with these labels by the losses.
    fn values(&self, scores: &mut [f64], labels: &[u32]) {
        for (score, &y) in scores.iter_mut().zip(labels) {
            *score = self.value_and_coef(&[*score], y, &mut [0.0]);
        }
    }
    /// For losses of one score: replaces dual variables by their [`conjugate`](Loss::conjugate).
    fn conjugates(&self, dual: &mut [f64], labels: &[u32]) {
        dual.iter_mut().zip(labels).for_each(|(a, &y)| *a = self.conjugate(&[*a], y));
    }
    /// For losses of one score: replaces dual variables by the first derivative of their [`bend`](Loss::bend), and writes the
    /// second.
    fn bends(&self, dual: &mut [f64], second: &mut [f64], labels: &[u32]) {
        for ((a, second), &y) in dual.iter_mut().zip(second).zip(labels) {
            (*a, *second) = self.bend(0, *a, y);
        }
    }
    /// [`smoothed`](Loss::smoothed) of many: replaces scores by the maximisers, and writes the curvatures; NaN where the loss has
    /// none.
    fn smooth_all(&self, scores: &mut [f64], bent: &mut [f64], labels: &[u32], mu: f64) {
        for ((score, bent), &y) in scores.iter_mut().zip(bent).zip(labels) {
            (*score, *bent) = self.smoothed(*score, y, mu).unwrap_or((f64::NAN, f64::NAN));
        }
    }
    /// A bound on `lambda ||w||^2` at the minimiser, for examples of mean weight 1.
    fn radius2(&self) -> f64;
    /// What the magnitudes of an example's coefficients sum to at most, for a weight of 1; infinite where
    /// slopes have no bound.
    fn steepest(&self) -> f64 {
        f64::INFINITY
    }
    /// Of a loss whose slopes have no bound, but whose curvature has: what [`steepest`](Loss::steepest) would be at w = 0, and
    /// the curvature by a score. Steps that are shorter than 2 over the curvature bring w no further from what an example
    /// wants than it was; so |w| grows as if each were taken at w = 0.
    fn smooth(&self) -> Option<(f64, f64)> {
        None
    }
    /// The radius of a ball that holds the minimiser: what projection projects on.
    fn radius(&self, lambda: f64, mean_weight: f64) -> f64 {
        (self.radius2() * mean_weight / lambda).sqrt()
    }
}

/// One class against all others, by a single score: positive for class `positive`.
///
/// A two-class problem is `Binary { loss, positive: 1 }`; one-vs-rest is one such problem per
/// class over the same examples.
///
/// ```
/// use pegasos::{Binary, Hinge, Loss};
///
/// let loss = Binary { loss: Hinge, positive: 1 };
/// let mut coef = [0.0];
/// assert_eq!(loss.value_and_coef(&[0.25], 0, &mut coef), 1.25);
/// assert_eq!(coef, [-1.0]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Binary<M> {
    /// The loss on the margin.
    pub loss: M,
    /// The class whose margin is the score; for any other it is the score's negative.
    pub positive: u32,
}

impl<M> Binary<M> {
    #[inline(always)]
    fn sign(&self, y: u32) -> f64 {
        if y == self.positive { 1.0 } else { -1.0 }
    }

    /// Makes scores margins, and margins scores.
    fn turn(&self, numbers: &mut [f64], labels: &[u32]) {
        numbers.iter_mut().zip(labels).for_each(|(x, &y)| *x *= self.sign(y));
    }
}

impl<M: MarginLoss> Loss for Binary<M> {
    type Scores = [f64; 1];
    #[inline(always)]
    fn zeros(&self) -> [f64; 1] {
        [0.0]
    }
    #[inline(always)]
    fn value_and_coef(&self, scores: &[f64], y: u32, coef: &mut [f64]) -> f64 {
        let sign = self.sign(y);
        let (value, slope) = self.loss.value_and_slope(sign * scores[0]);
        coef[0] = sign * slope;
        value
    }
    #[inline(always)]
    fn unmet(&self, scores: &[f64], y: u32, coef: &mut [f64]) -> Option<f64> {
        let sign = self.sign(y);
        let (value, slope) = self.loss.unmet(sign * scores[0])?;
        coef[0] = sign * slope;
        Some(value)
    }
    fn conjugate(&self, dual: &[f64], y: u32) -> f64 {
        self.loss.conjugate(self.sign(y) * dual[0])
    }
    fn bend(&self, _: usize, a: f64, y: u32) -> (f64, f64) {
        let sign = self.sign(y);
        let (slope, curvature) = self.loss.bend(sign * a);
        (sign * slope, curvature)
    }
    fn excess(&self, dual: &[f64], y: u32) -> f64 {
        self.sign(y) * dual[0] / self.loss.max_slope()
    }
    fn steepest(&self) -> f64 {
        self.loss.max_slope()
    }
    fn smooth(&self) -> Option<(f64, f64)> {
        self.loss.smooth()
    }
    fn settles(&self) -> bool {
        self.loss.settles()
    }
    fn quadratic(&self) -> Option<f64> {
        self.loss.quadratic()
    }
    fn hinge_sign(&self, _: usize, y: u32) -> Option<f64> {
        self.loss.is_hinge().then(|| self.sign(y))
    }
    fn radius2(&self) -> f64 {
        self.loss.radius2()
    }
    #[inline(always)]
    fn ascend(&self, scores: &[f64], y: u32, q: f64, dual: &mut [f64]) {
        let sign = self.sign(y);
        dual[0] = sign * self.loss.ascend(sign * dual[0], sign * scores[0], q);
    }
    fn smoothed(&self, score: f64, y: u32, mu: f64) -> Option<(f64, f64)> {
        let sign = self.sign(y);
        let a = self.loss.ascend(0.0, sign * score, mu);
        Some((sign * a, self.loss.curvature(a, mu)))
    }
    fn make_feasible(&self, dual: &mut [f64], y: u32) {
        let sign = self.sign(y);
        dual[0] = sign * (sign * dual[0]).clamp(0.0, self.loss.max_slope());
    }
    fn values(&self, scores: &mut [f64], labels: &[u32]) {
        self.turn(scores, labels);
        self.loss.values(scores);
    }
    fn conjugates(&self, dual: &mut [f64], labels: &[u32]) {
        self.turn(dual, labels);
        self.loss.conjugates(dual);
    }
    fn bends(&self, dual: &mut [f64], second: &mut [f64], labels: &[u32]) {
        self.turn(dual, labels);
        self.loss.bends(dual, second);
        self.turn(dual, labels);
    }
    fn smooth_all(&self, scores: &mut [f64], bent: &mut [f64], labels: &[u32], mu: f64) {
        self.turn(scores, labels);
        if mu == 0.0 {
            self.loss.slopes(scores);
        } else {
            scores.iter_mut().for_each(|m| *m = self.loss.ascend(0.0, *m, mu));
        }
        scores.iter().zip(bent).for_each(|(a, bent)| *bent = self.loss.curvature(*a, mu));
        self.turn(scores, labels);
    }
}

/// The score itself: what a mixture `w` of experts pays in a round whose row holds their losses. For
/// online gradient descent on the [`Simplex`](crate::Simplex), where there is an example.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost;

impl Loss for Cost {
    type Scores = [f64; 1];
    #[inline(always)]
    fn zeros(&self) -> [f64; 1] {
        [0.0]
    }
    #[inline(always)]
    fn value_and_coef(&self, scores: &[f64], _: u32, coef: &mut [f64]) -> f64 {
        coef[0] = -1.0;
        scores[0]
    }
    // The conjugate of a linear function is 0 at its slope, infinite elsewhere.
    fn conjugate(&self, _: &[f64], _: u32) -> f64 {
        0.0
    }
    fn excess(&self, _: &[f64], _: u32) -> f64 {
        1.0
    }
    fn ascend(&self, _: &[f64], _: u32, _: f64, dual: &mut [f64]) {
        dual[0] = -1.0;
    }
    fn make_feasible(&self, dual: &mut [f64], _: u32) {
        dual[0] = -1.0;
    }
    fn radius2(&self) -> f64 {
        f64::INFINITY
    }
}

#[cfg(test)]
mod tests {
    use super::margin::ALL;
    use super::*;

    /// What is said to be met has neither loss nor slope, and a hinge is met wherever it has none; else they are what they are.
    #[test]
    fn met_losses_are_zero() {
        for loss in ALL {
            for m in [-40.0, -1.0, 0.0, 0.999, 1.0, 1.001, 40.0] {
                let (value, slope) = loss.value_and_slope(m);
                let met = value == 0.0 && slope == 0.0 && loss != AnyLoss::Logistic;
                assert_eq!(loss.unmet(m), (!met).then_some((value, slope)), "{loss:?} at {m}");
                for y in [0, 1] {
                    let of = Binary { loss, positive: 1 };
                    let (mut coef, mut want, score) = ([7.0], [7.0], [of.sign(y) * m]);
                    let value = (!met).then(|| of.value_and_coef(&score, y, &mut want));
                    assert_eq!((of.unmet(&score, y, &mut coef), coef), (value, want));
                }
            }
        }
    }

    /// Of examples of any class, what is said of many of them is what is said of each.
    #[test]
    fn many_examples_are_as_one() {
        fn law(loss: &impl Loss, mus: &[f64]) {
            let labels: Vec<u32> = (0..40).map(|k| k % 4).collect();
            let scores: Vec<f64> = (0..40).map(|k| f64::from(k) / 5.0 - 4.1).collect();
            let near = |got: &[f64], want: &dyn Fn(usize) -> f64| {
                for (k, got) in got.iter().enumerate() {
                    let want = want(k);
                    assert!((got - want).abs() <= 1e-13 * (1.0 + want.abs()), "{k}: {got} {want}");
                }
            };
            let mut values = scores.clone();
            loss.values(&mut values, &labels);
            near(&values, &|k| loss.value_and_coef(&[scores[k]], labels[k], &mut [0.0]));
            let (mut dual, mut second) = (scores.clone(), scores.clone());
            for &mu in mus {
                dual.clone_from(&scores);
                loss.smooth_all(&mut dual, &mut second, &labels, mu);
                let one = |k: usize| loss.smoothed(scores[k], labels[k], mu).unwrap();
                near(&dual, &|k| one(k).0);
                near(&second, &|k| one(k).1);
            }
            let (mut conjugates, mut first) = (dual.clone(), dual.clone());
            loss.conjugates(&mut conjugates, &labels);
            near(&conjugates, &|k| loss.conjugate(&[dual[k]], labels[k]));
            loss.bends(&mut first, &mut second, &labels);
            near(&first, &|k| loss.bend(0, dual[k], labels[k]).0);
            near(&second, &|k| loss.bend(0, dual[k], labels[k]).1);
        }
        for loss in ALL {
            let mus: &[f64] = if loss.is_hinge() { &[0.3] } else { &[0.3, 0.0] };
            law(&Binary { loss, positive: 1 }, mus);
            law(&Versus { loss, positive: 1, negative: None }, mus);
            law(&Versus { loss, positive: 1, negative: Some(2) }, mus);
        }
    }

    #[test]
    fn bends_are_derivatives_of_conjugates() {
        fn law(loss: &impl Loss, y: u32, dual: &[f64]) {
            let h = 1e-4;
            for o in 0..dual.len() {
                let value = |a: f64| {
                    let mut dual = dual.to_vec();
                    dual[o] = a;
                    loss.conjugate(&dual, y)
                };
                let (before, here, after) =
                    (value(dual[o] - h), value(dual[o]), value(dual[o] + h));
                let (slope, curvature) = loss.bend(o, dual[o], y);
                assert!((slope - (after - before) / (2.0 * h)).abs() < 1e-4, "{y} {dual:?}");
                let numeric = (after - 2.0 * here + before) / (h * h);
                assert!((curvature - numeric).abs() < 1e-4 * (1.0 + curvature), "{y} {dual:?}");
            }
        }
        for loss in ALL {
            for a in [0.1, 0.3, 0.9] {
                law(&Binary { loss, positive: 1 }, 1, &[a]);
                law(&Binary { loss, positive: 1 }, 0, &[-a]);
                law(&Versus { loss, positive: 1, negative: Some(2) }, 0, &[0.0]);
                law(&Versus { loss, positive: 1, negative: Some(2) }, 2, &[-a]);
                law(&OneVsRest { loss, positives: vec![0, 1, 2] }, 1, &[-a, 0.5, -0.2]);
                law(&OneVsOne { loss, classes: 3 }, 1, &[-a, 0.0, 0.4]);
                let several = OneVsRest { loss, positives: vec![0, 1] };
                law(&Multiclass::OneVsRest(several), 0, &[a, -0.4]);
            }
        }
        law(&CrammerSinger { classes: 3 }, 1, &[-0.2, 0.5, -0.3]);
    }
}
