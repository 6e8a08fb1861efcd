//! Losses of a margin.

use crate::simd::Simd;

/// A convex, non-increasing function of the margin.
pub trait MarginLoss: Sync + Copy {
    /// `(l(m), -l'(m))`.
    fn value_and_slope(self, m: f64) -> (f64, f64);
    /// [`value_and_slope`](MarginLoss::value_and_slope) for a finite m; or `None` where both are 0 and that is found out with
    /// less work; see [`Loss::unmet`](super::Loss::unmet).
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
    /// As [`Loss::settles`](super::Loss::settles).
    fn settles(self) -> bool {
        true
    }
    /// Whether this is the [`Hinge`].
    fn is_hinge(self) -> bool {
        false
    }
    /// As [`Loss::quadratic`](super::Loss::quadratic).
    fn quadratic(self) -> Option<f64> {
        None
    }
    /// The negative derivative by m of `ascend(0, m, mu)`, where that is `b`: the curvature of the loss
    /// smoothed by mu > 0.
    fn curvature(self, b: f64, mu: f64) -> f64;
    /// Replaces each margin by its loss.
    fn values(self, m: &mut [f64]) {
        m.iter_mut().for_each(|m| *m = self.value_and_slope(*m).0);
    }
    /// Replaces each margin by the slope of its loss.
    fn slopes(self, m: &mut [f64]) {
        m.iter_mut().for_each(|m| *m = self.value_and_slope(*m).1);
    }
    /// Replaces each a by its [`conjugate`](MarginLoss::conjugate).
    fn conjugates(self, a: &mut [f64]) {
        a.iter_mut().for_each(|a| *a = self.conjugate(*a));
    }
    /// Replaces each a by the first derivative of its [`bend`](MarginLoss::bend), and writes the second.
    fn bends(self, a: &mut [f64], second: &mut [f64]) {
        a.iter_mut().zip(second).for_each(|(a, second)| (*a, *second) = self.bend(*a));
    }
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
        // q = 0 for a row of zeros: the quotient is infinite or, where the margin is 1 and any b will do, 0/0. Not `clamp`,
        // which leaves that.
        #[allow(clippy::manual_clamp)]
        (a + (1.0 - m) / q).max(0.0).min(1.0)
    }
    fn is_hinge(self) -> bool {
        true
    }
    fn quadratic(self) -> Option<f64> {
        Some(0.0)
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
    fn quadratic(self) -> Option<f64> {
        Some(0.5)
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

/// Beyond this the equation of an ascent is divided by q, whose square would overflow.
const LARGE: f64 = 1e100;

/// So short a step to the end of an ascent, in margins, needs no look at where it leads, if what it may leave moves the margin by
/// less than this: q times as far as the dual variable.
const NEAR: f64 = 1e-3;
const EXACT: f64 = 1e-8;

impl Logistic {
    /// `1/(1 + exp(z))`, alone: whoever wants the slope pays no logarithm.
    #[inline(always)]
    fn slope(z: f64) -> f64 {
        1.0 / (1.0 + z.exp())
    }

    /// Where derivatives of the conjugate are finite.
    #[inline(always)]
    fn within(a: f64) -> f64 {
        a.clamp(f64::EPSILON, 1.0 - f64::EPSILON)
    }
}

impl MarginLoss for Logistic {
    #[inline(always)]
    fn value_and_slope(self, m: f64) -> (f64, f64) {
        // The exponential of a number <= 0 never overflows.
        let e = (-m.abs()).exp();
        let (over, numerator) = if m > 0.0 { (0.0, e) } else { (m, 1.0) };
        (e.ln_1p() - over, numerator / (1.0 + e))
    }
    fn conjugate(self, a: f64) -> f64 {
        // x ln x of a and 1 - a, continued by its limit 0 at x = 0; of the latter nothing is rounded away where a is small.
        let entropy = |x: f64, ln: f64| if x > 0.0 { x * ln } else { 0.0 };
        entropy(a, a.ln()) + entropy(1.0 - a, (-a).ln_1p())
    }
    fn bend(self, a: f64) -> (f64, f64) {
        let a = Logistic::within(a);
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
        // s(z) = 1/(1 + exp(z)) is the maximiser: Halley's method, within a bracket. Newton's took 2.7 to 4.3 looks at s where q
        // is 4 and more, this takes 1.9 to 2.8.
        if q == 0.0 {
            return Logistic::slope(m);
        }
        let (mut low, mut high) = (m - q * a, m + q * (1.0 - a));
        // Where s is 1 or 0 to the last bit, the root is an end of the bracket. What is between them is small, however large q is.
        if high <= -FLAT || low >= FLAT {
            return Logistic::slope(if low >= FLAT { low } else { high });
        }
        (low, high) = (low.max(-FLAT), high.min(FLAT));
        let (scale, q) = if q > LARGE { (1.0 / q, 1.0) } else { (1.0, q) };
        let mut z = m.clamp(low, high);
        let mut last = f64::INFINITY;
        loop {
            let slope = Logistic::slope(z);
            let value = scale * (z - m) - q * (slope - a);
            if value > 0.0 {
                high = z;
            } else {
                low = z;
            }
            let curvature = slope * (1.0 - slope);
            let bend = curvature * (1.0 - 2.0 * slope);
            let (first, second) = (scale + q * curvature, -q * bend);
            let mut step = 2.0 * value * first / (2.0 * first * first - value * second);
            // Steps halve, or the bracket is halved: it ends either way. Not a number is where all is too small to be squared.
            let halves = step.abs() <= last / 2.0;
            if !halves || z - step < low || z - step > high {
                step = z - 0.5 * (low + high);
            } else if step.abs() <= NEAR && q * step.abs().powi(3) <= EXACT * scale {
                // What a step of Halley's method leaves of z is of the order of its cube, whatever q is, as no further
                // derivative of s is larger than the first; and so is what the parabola leaves of s.
                return (slope + step * (curvature + bend / 2.0 * step)).clamp(0.0, 1.0);
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
    fn settles(self) -> bool {
        false
    }
    // Of many, the same up to the last bits, in a fifth of the time.
    fn values(self, m: &mut [f64]) {
        f64::logistic(m);
    }
    fn slopes(self, m: &mut [f64]) {
        f64::logistic_slopes(m);
    }
    fn conjugates(self, a: &mut [f64]) {
        f64::entropies(a);
    }
    fn bends(self, a: &mut [f64], second: &mut [f64]) {
        for (a, second) in a.iter_mut().zip(second) {
            *a = Logistic::within(*a);
            *second = 1.0 / (*a * (1.0 - *a));
        }
        f64::logits(a);
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
    fn quadratic(self) -> Option<f64> {
        any!(self, l => l.quadratic())
    }
    fn settles(self) -> bool {
        any!(self, l => l.settles())
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
    fn values(self, m: &mut [f64]) {
        any!(self, l => l.values(m));
    }
    fn slopes(self, m: &mut [f64]) {
        any!(self, l => l.slopes(m));
    }
    fn conjugates(self, a: &mut [f64]) {
        any!(self, l => l.conjugates(a));
    }
    fn bends(self, a: &mut [f64], second: &mut [f64]) {
        any!(self, l => l.bends(a, second));
    }
}

#[cfg(test)]
pub(super) const ALL: [AnyLoss; 3] = [AnyLoss::Hinge, AnyLoss::SquaredHinge, AnyLoss::Logistic];

#[cfg(test)]
mod tests {
    use super::*;

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

    /// Where a step costs nothing, any margin has one.
    #[test]
    fn rows_of_zeros_have_a_maximiser() {
        for loss in ALL {
            for m in [0.0, 0.5, 1.0, 2.0] {
                for a in [0.0, 0.5, 1.0] {
                    let value = |b: f64| -loss.conjugate(b) - b * m;
                    let best = loss.ascend(a, m, 0.0);
                    assert!((0..=10).all(|k| value(best) >= value(f64::from(k) / 10.0) - 1e-12));
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

    /// What is said of many is what is said of each.
    #[test]
    fn many_are_as_one() {
        for loss in ALL {
            let near = |got: f64, want: f64, of: f64| {
                assert!(
                    (got - want).abs() <= 1e-13 * (1.0 + want.abs()),
                    "{loss:?} at {of}: {got}, {want}"
                );
            };
            let m: Vec<f64> = (-100..=100).map(|k| f64::from(k) / 7.0).collect();
            let (mut values, mut slopes) = (m.clone(), m.clone());
            loss.values(&mut values);
            values.iter().zip(&m).for_each(|(got, m)| near(*got, loss.value_and_slope(*m).0, *m));
            loss.slopes(&mut slopes);
            slopes.iter().zip(&m).for_each(|(got, m)| near(*got, loss.value_and_slope(*m).1, *m));
            let a: Vec<f64> = (0..=100).map(|k| f64::from(k) / 100.0).collect();
            let (mut conjugates, mut first, mut second) = (a.clone(), a.clone(), a.clone());
            loss.conjugates(&mut conjugates);
            loss.bends(&mut first, &mut second);
            for (k, &a) in a.iter().enumerate() {
                near(conjugates[k], loss.conjugate(a), a);
                near(first[k], loss.bend(a).0, a);
                near(second[k], loss.bend(a).1, a);
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

    /// However far a step of the dual variable moves the margin, the two fit together.
    #[test]
    fn logistic_steps_meet_their_margins() {
        for q in [1e-3, 0.5, 4.0, 1e3, 1e6, 1e10] {
            for a in [0.0, 1e-3, 0.4, 0.9, 1.0] {
                for k in -40..=40 {
                    let m = f64::from(k) / 7.0;
                    let b = Logistic.ascend(a, m, q);
                    let (moved, meant) = (m + q * (b - a), ((1.0 - b) / b).ln());
                    let roundings = 1e-15 * q + 1e-15 / (b * (1.0 - b));
                    assert!(
                        (moved - meant).abs() <= 1e-8 + roundings,
                        "{q} {a} {m}: {moved} {meant}"
                    );
                }
            }
        }
    }

    /// However small the loss is, the conjugate has the digits that touch it: else a bound would lie above the objective.
    #[test]
    fn small_logistic_losses_are_touched() {
        for m in (8..=120).map(|k| 0.25 * f64::from(k)) {
            let (value, slope) = Logistic.value_and_slope(m);
            let mut together = [slope];
            Logistic.conjugates(&mut together);
            for conjugate in [Logistic.conjugate(slope), together[0]] {
                let below = -conjugate - slope * m;
                assert!((below - value).abs() <= 1e-13 * value, "{m}: {below}, not {value}");
            }
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
