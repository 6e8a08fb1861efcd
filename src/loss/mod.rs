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
mod multiclass;
mod one_vs_one;
mod one_vs_rest;

use std::fmt::Debug;

pub use crammer_singer::CrammerSinger;
pub use multiclass::Multiclass;
pub use one_vs_one::{OneVsOne, Versus};
pub use one_vs_rest::OneVsRest;

/// A loss on the scores of one example.
pub trait Loss: Sync {
    /// Room for the scores of one example: an array where their number is fixed, so that the loop
    /// keeps them in registers, else a vector.
    type Scores: AsRef<[f64]> + AsMut<[f64]> + Clone + Debug + Send + Sync;
    /// Zeros, one for each score of an example.
    fn zeros(&self) -> Self::Scores;
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

/// A convex, non-increasing function of the margin.
pub trait MarginLoss: Sync + Copy {
    /// `(l(m), -l'(m))`.
    fn value_and_slope(self, m: f64) -> (f64, f64);
    /// [`value_and_slope`](MarginLoss::value_and_slope) for a finite m; or `None` where both are 0 and that is found out with
    /// less work; see [`Loss::unmet`].
    #[inline(always)]
    fn unmet(self, m: f64) -> Option<(f64, f64)> {
        Some(self.value_and_slope(m))
    }
    /// `l*(-a)`, for `a` in `[0, max_slope]`.
    fn conjugate(self, a: f64) -> f64;
    /// First and second derivative by a of `l*(-a)`, for `a` in `[0, max_slope]`; near an end where they are infinite.
    fn bend(self, a: f64) -> (f64, f64);
    /// `sup -l'(m)`.
    fn max_slope(self) -> f64;
    /// `-l'(0)` and `sup l''(m)`, where slopes have no bound.
    fn smooth(self) -> Option<(f64, f64)> {
        None
    }
    /// `sup -l'(m) m`.
    fn radius2(self) -> f64;
    /// The maximiser over `b` of `-l*(-b) - (b - a) m - q/2 (b - a)^2`, for `a` in `[0, max_slope]`
    /// and `q >= 0`: one exact step of dual coordinate ascent.
    fn ascend(self, a: f64, m: f64, q: f64) -> f64;
    /// Whether this is the [`Hinge`].
    fn is_hinge(self) -> bool {
        false
    }
    /// The negative derivative by m of `ascend(0, m, mu)`, where that is `b`: the curvature of the loss
    /// smoothed by mu > 0.
    fn curvature(self, b: f64, mu: f64) -> f64;
}

/// `max(0, 1 - m)`: the support vector machine's.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Hinge;

impl MarginLoss for Hinge {
    #[inline(always)]
    fn value_and_slope(self, m: f64) -> (f64, f64) {
        ((1.0 - m).max(0.0), f64::from(u8::from(m < 1.0)))
    }
    #[inline(always)]
    fn unmet(self, m: f64) -> Option<(f64, f64)> {
        if m >= 1.0 { None } else { Some((1.0 - m, 1.0)) }
    }
    fn conjugate(self, a: f64) -> f64 {
        -a
    }
    fn bend(self, _: f64) -> (f64, f64) {
        (-1.0, 0.0)
    }
    fn max_slope(self) -> f64 {
        1.0
    }
    fn radius2(self) -> f64 {
        1.0
    }
    #[inline(always)]
    fn ascend(self, a: f64, m: f64, q: f64) -> f64 {
        // q = 0 for a row of zeros, whose margin is 0: the quotient is infinite, never 0/0.
        (a + (1.0 - m) / q).clamp(0.0, 1.0)
    }
    fn is_hinge(self) -> bool {
        true
    }
    fn curvature(self, b: f64, mu: f64) -> f64 {
        if b > 0.0 && b < 1.0 { 1.0 / mu } else { 0.0 }
    }
}

/// `max(0, 1 - m)^2`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SquaredHinge;

impl MarginLoss for SquaredHinge {
    #[inline(always)]
    fn value_and_slope(self, m: f64) -> (f64, f64) {
        let h = (1.0 - m).max(0.0);
        (h * h, 2.0 * h)
    }
    #[inline(always)]
    fn unmet(self, m: f64) -> Option<(f64, f64)> {
        if m >= 1.0 { None } else { Some(self.value_and_slope(m)) }
    }
    fn conjugate(self, a: f64) -> f64 {
        a * (a / 4.0 - 1.0)
    }
    fn bend(self, a: f64) -> (f64, f64) {
        (a / 2.0 - 1.0, 0.5)
    }
    fn max_slope(self) -> f64 {
        f64::INFINITY
    }
    fn smooth(self) -> Option<(f64, f64)> {
        Some((2.0, 2.0))
    }
    fn radius2(self) -> f64 {
        0.5
    }
    #[inline(always)]
    fn ascend(self, a: f64, m: f64, q: f64) -> f64 {
        (a + (1.0 - m - a / 2.0) / (q + 0.5)).max(0.0)
    }
    fn curvature(self, b: f64, mu: f64) -> f64 {
        if b > 0.0 { 1.0 / (mu + 0.5) } else { 0.0 }
    }
}

/// `ln(1 + exp(-m))`: logistic regression's, `loss="log_loss"` in Python.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Logistic;

/// Beyond this, on either side, `1/(1 + exp(z))` is 0 or 1.
const FLAT: f64 = 750.0;

impl Logistic {
    /// `1/(1 + exp(z))`, alone: whoever wants the slope pays no logarithm.
    #[inline(always)]
    fn slope(z: f64) -> f64 {
        // The exponential of a number <= 0 never overflows.
        let e = (-z.abs()).exp();
        if z > 0.0 { e / (1.0 + e) } else { 1.0 / (1.0 + e) }
    }
}

impl MarginLoss for Logistic {
    #[inline(always)]
    fn value_and_slope(self, m: f64) -> (f64, f64) {
        // The exponential of a number <= 0 never overflows.
        let e = (-m.abs()).exp();
        if m > 0.0 { (e.ln_1p(), e / (1.0 + e)) } else { (e.ln_1p() - m, 1.0 / (1.0 + e)) }
    }
    fn conjugate(self, a: f64) -> f64 {
        // x ln x, continued by its limit 0 at x = 0.
        let entropy = |x: f64| if x > 0.0 { x * x.ln() } else { 0.0 };
        entropy(a) + entropy(1.0 - a)
    }
    fn bend(self, a: f64) -> (f64, f64) {
        let a = a.clamp(f64::EPSILON, 1.0 - f64::EPSILON);
        ((a / (1.0 - a)).ln(), 1.0 / (a * (1.0 - a)))
    }
    fn max_slope(self) -> f64 {
        1.0
    }
    fn radius2(self) -> f64 {
        0.278_464_542_761_073_8 // W(1/e), the solution of m = 1 + exp(-m) less one
    }
    fn ascend(self, a: f64, m: f64, q: f64) -> f64 {
        // The margin after the step is the root of the increasing z - m - q (s(z) - a), where
        // s(z) = 1/(1 + exp(z)) is the maximiser: Newton's method, within a bracket.
        if q == 0.0 {
            return Logistic::slope(m);
        }
        let (mut low, mut high) = (m - q * a, m + q * (1.0 - a));
        // Where s is 1 or 0 to the last bit, the root is an end of the bracket. What is between them is small, however large q is.
        if high <= -FLAT || low >= FLAT {
            return Logistic::slope(if low >= FLAT { low } else { high });
        }
        (low, high) = (low.max(-FLAT), high.min(FLAT));
        let mut z = m.clamp(low, high);
        let mut last = f64::INFINITY;
        loop {
            let slope = Logistic::slope(z);
            let value = z - m - q * (slope - a);
            if value > 0.0 {
                high = z;
            } else {
                low = z;
            }
            let curvature = slope * (1.0 - slope);
            let mut step = value / (1.0 + q * curvature);
            // Steps halve, or the bracket is halved: it ends either way.
            if step.abs() > last / 2.0 || z - step < low || z - step > high {
                step = z - 0.5 * (low + high);
            } else if step.abs() <= 1e-6 {
                // What a step of Newton's method leaves of z is half its square at most, whatever q is, as |s''| <= |s'|;
                // and the straight line leaves as little of s.
                return (slope + curvature * step).clamp(0.0, 1.0);
            }
            z -= step;
            last = step.abs();
            if last <= 1e-12 * (1.0 + z.abs()) || last.is_nan() {
                return Logistic::slope(z);
            }
        }
    }
    fn curvature(self, b: f64, mu: f64) -> f64 {
        let h = b * (1.0 - b);
        h / (1.0 + mu * h)
    }
}

/// Any of the margin losses, for callers who choose at run time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AnyLoss {
    /// [`Hinge`].
    Hinge,
    /// [`SquaredHinge`].
    SquaredHinge,
    /// [`Logistic`].
    Logistic,
}

/// `match`es the loss to its struct; a new loss is one line here.
macro_rules! any {
    ($loss:expr, $l:ident => $then:expr) => {
        match $loss {
            AnyLoss::Hinge => {
                let $l = Hinge;
                $then
            }
            AnyLoss::SquaredHinge => {
                let $l = SquaredHinge;
                $then
            }
            AnyLoss::Logistic => {
                let $l = Logistic;
                $then
            }
        }
    };
}

impl MarginLoss for AnyLoss {
    #[inline(always)]
    fn value_and_slope(self, m: f64) -> (f64, f64) {
        any!(self, l => l.value_and_slope(m))
    }
    #[inline(always)]
    fn unmet(self, m: f64) -> Option<(f64, f64)> {
        any!(self, l => l.unmet(m))
    }
    fn conjugate(self, a: f64) -> f64 {
        any!(self, l => l.conjugate(a))
    }
    fn bend(self, a: f64) -> (f64, f64) {
        any!(self, l => l.bend(a))
    }
    fn max_slope(self) -> f64 {
        any!(self, l => l.max_slope())
    }
    fn smooth(self) -> Option<(f64, f64)> {
        any!(self, l => l.smooth())
    }
    fn is_hinge(self) -> bool {
        self == AnyLoss::Hinge
    }
    fn radius2(self) -> f64 {
        any!(self, l => l.radius2())
    }
    #[inline(always)]
    fn ascend(self, a: f64, m: f64, q: f64) -> f64 {
        any!(self, l => l.ascend(a, m, q))
    }
    fn curvature(self, b: f64, mu: f64) -> f64 {
        any!(self, l => l.curvature(b, mu))
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
    use super::*;

    const ALL: [AnyLoss; 3] = [AnyLoss::Hinge, AnyLoss::SquaredHinge, AnyLoss::Logistic];

    #[test]
    fn slopes_are_derivatives() {
        for loss in ALL {
            for m in [-40.0, -3.0, -0.5, 0.0, 0.3, 0.999, 1.001, 2.0, 40.0] {
                let h = 1e-6;
                let value = |m| loss.value_and_slope(m).0;
                let numeric = -(value(m + h) - value(m - h)) / (2.0 * h);
                let slope = loss.value_and_slope(m).1;
                assert!((slope - numeric).abs() < 1e-4 * (1.0 + slope), "{loss:?} at {m}");
            }
        }
    }

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

    /// Fenchel-Young: `l(m) + l*(-a) + a m >= 0`, with equality where `a = -l'(m)`.
    #[test]
    fn conjugates_touch_their_losses() {
        for loss in ALL {
            for m in [-5.0, -1.0, 0.0, 0.5, 0.99, 1.01, 3.0] {
                let (value, slope) = loss.value_and_slope(m);
                let gap = |a: f64| value + loss.conjugate(a) + a * m;
                assert!(gap(slope).abs() < 1e-12, "{loss:?} at {m}");
                for a in [0.0, 0.1, 0.5, 0.9, 1.0] {
                    assert!(gap(a) > -1e-12, "{loss:?} at {m}, {a}");
                }
            }
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

    /// No other point of the domain is better, and the best stays where it is.
    #[test]
    fn ascent_is_exact() {
        for loss in ALL {
            for m in [-3.0, -0.2, 0.0, 0.7, 1.0, 1.5, 30.0] {
                for a in [0.0, 1e-9, 0.2, 0.5, 0.999, 1.0] {
                    for q in [1e-9, 1e-3, 0.5, 10.0, 1e6] {
                        let value =
                            |b: f64| -loss.conjugate(b) - (b - a) * m - q / 2.0 * (b - a) * (b - a);
                        let best = loss.ascend(a, m, q);
                        assert!((0.0..=loss.max_slope()).contains(&best), "{loss:?}");
                        let size = 1.0 + m.abs() + q;
                        for k in 0..=1000 {
                            let b = f64::from(k) / 1000.0;
                            assert!(
                                value(b) <= value(best) + 1e-12 * size,
                                "{loss:?} {a} {m} {q} {b}"
                            );
                        }
                        // Where it is, the margin is that of the step.
                        let again = loss.ascend(best, m + q * (best - a), q);
                        assert!(
                            (again - best).abs() < 1e-9,
                            "{loss:?} {a} {m} {q}: {best}, {again}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn radius_is_the_supremum() {
        for loss in ALL {
            let largest = (-400..4000)
                .map(|i| f64::from(i) / 1000.0)
                .map(|m| loss.value_and_slope(m).1 * m)
                .fold(f64::NEG_INFINITY, f64::max);
            assert!(largest <= loss.radius2() + 1e-12, "{loss:?}");
            assert!(largest > loss.radius2() - 2e-3, "{loss:?}");
        }
    }

    /// Where q is beyond all margins at which the slope is neither 0 nor 1, the step is that of a straight loss.
    #[test]
    fn logistic_steps_at_any_scale() {
        for q in [1e20, 1e150, 1e300] {
            for a in [0.0, 1e-9, 0.5, 1.0] {
                for over in [-3.0, -0.5, -1e-9, 0.0, 1e-9, 0.7, 3.0] {
                    let best = Logistic.ascend(a, over * q, q);
                    let straight = (a - over).clamp(0.0, 1.0);
                    assert!((best - straight).abs() < 1e-12, "{a} {over} {q}: {best} {straight}");
                }
            }
        }
        assert!(Logistic.ascend(0.5, f64::NAN, 1.0).is_nan());
    }

    #[test]
    fn logistic_never_overflows() {
        for m in [-1e300, -800.0, 800.0, 1e300] {
            let (value, slope) = Logistic.value_and_slope(m);
            assert!(value.is_finite() && (0.0..=1.0).contains(&slope), "{m}");
        }
    }
}
