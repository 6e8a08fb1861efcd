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

use std::fmt::Debug;

/// A loss on the scores of one example.
pub trait Loss: Sync {
    /// Room for the scores of one example: an array where their number is fixed, so that the loop
    /// keeps them in registers, else a vector.
    type Scores: AsRef<[f64]> + AsMut<[f64]> + Clone + Debug + Send + Sync;
    /// Zeros, one for each score of an example.
    fn zeros(&self) -> Self::Scores;
    /// The loss of an example of class `y`; writes its negative (sub)gradient by the scores to
    /// `coef`.
    fn value_and_coef(&self, scores: &[f64], y: u32, coef: &mut [f64]) -> f64;
    /// The convex conjugate of the loss at `-dual`, `dual` being an average of coefficients for
    /// class `y`.
    fn conjugate(&self, dual: &[f64], y: u32) -> f64;
    /// How far `dual` must be shrunk to lie in the conjugate's domain: the smallest `c >= 0` for
    /// which `dual / c` does, 0 if every multiple does.
    fn excess(&self, dual: &[f64], y: u32) -> f64;
    /// A bound on `lambda ||w||^2` at the minimiser, for examples of mean weight 1.
    fn radius2(&self) -> f64;
    /// The radius of a ball that holds the minimiser: what projection projects on.
    fn radius(&self, lambda: f64, mean_weight: f64) -> f64 {
        (self.radius2() * mean_weight / lambda).sqrt()
    }
}

/// A convex, non-increasing function of the margin.
pub trait MarginLoss: Sync + Copy {
    /// `(l(m), -l'(m))`.
    fn value_and_slope(self, m: f64) -> (f64, f64);
    /// `l*(-a)`, for `a` in `[0, max_slope]`.
    fn conjugate(self, a: f64) -> f64;
    /// `sup -l'(m)`.
    fn max_slope(self) -> f64;
    /// `sup -l'(m) m`.
    fn radius2(self) -> f64;
}

/// `max(0, 1 - m)`: the support vector machine's.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Hinge;

impl MarginLoss for Hinge {
    #[inline(always)]
    fn value_and_slope(self, m: f64) -> (f64, f64) {
        ((1.0 - m).max(0.0), f64::from(u8::from(m < 1.0)))
    }
    fn conjugate(self, a: f64) -> f64 {
        -a
    }
    fn max_slope(self) -> f64 {
        1.0
    }
    fn radius2(self) -> f64 {
        1.0
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
    fn conjugate(self, a: f64) -> f64 {
        a * (a / 4.0 - 1.0)
    }
    fn max_slope(self) -> f64 {
        f64::INFINITY
    }
    fn radius2(self) -> f64 {
        0.5
    }
}

/// `ln(1 + exp(-m))`: logistic regression's, `loss="log_loss"` in Python.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Logistic;

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
    fn max_slope(self) -> f64 {
        1.0
    }
    fn radius2(self) -> f64 {
        0.278_464_542_761_073_8 // W(1/e), the solution of m = 1 + exp(-m) less one
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
    fn conjugate(self, a: f64) -> f64 {
        any!(self, l => l.conjugate(a))
    }
    fn max_slope(self) -> f64 {
        any!(self, l => l.max_slope())
    }
    fn radius2(self) -> f64 {
        any!(self, l => l.radius2())
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
    fn conjugate(&self, dual: &[f64], y: u32) -> f64 {
        self.loss.conjugate(self.sign(y) * dual[0])
    }
    fn excess(&self, dual: &[f64], y: u32) -> f64 {
        self.sign(y) * dual[0] / self.loss.max_slope()
    }
    fn radius2(&self) -> f64 {
        self.loss.radius2()
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

    #[test]
    fn logistic_never_overflows() {
        for m in [-1e300, -800.0, 800.0, 1e300] {
            let (value, slope) = Logistic.value_and_slope(m);
            assert!(value.is_finite() && (0.0..=1.0).contains(&slope), "{m}");
        }
    }
}
