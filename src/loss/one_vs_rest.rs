//! Several classes against the rest, over the same scores' row.

use super::{Binary, Loss, MarginLoss};

/// Each of several classes against all others, by a score for each: the sum of as many [`Binary`](super::Binary) losses.
///
/// Nothing is learned jointly: every step is, for each of the classes, the step of its own problem on the same example, to
/// the last bit. One trainer of this loss goes over the rows once for all of them, which on sparse rows is several times
/// as fast; what it reports and certifies is the sum over the problems.
///
/// ```
/// use pegasos::{Hinge, Loss, OneVsRest};
///
/// let loss = OneVsRest { loss: Hinge, positives: vec![0, 1, 2] };
/// let mut coef = [0.0; 3];
/// assert_eq!(loss.value_and_coef(&[-2.0, 0.25, 0.5], 1, &mut coef), 0.75 + 1.5);
/// assert_eq!(coef, [0.0, 1.0, -1.0]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct OneVsRest<M> {
    /// The loss on each margin.
    pub loss: M,
    /// The classes: the margin of a score is the score for an example of its class, its negative for others.
    pub positives: Vec<u32>,
}

impl<M: MarginLoss> OneVsRest<M> {
    /// For every score 1 or -1.
    #[inline(always)]
    fn signs(&self, y: u32) -> impl Iterator<Item = f64> {
        self.positives.iter().map(move |&positive| if positive == y { 1.0 } else { -1.0 })
    }
}

impl<M: MarginLoss> Loss for OneVsRest<M> {
    type Scores = Vec<f64>;
    fn zeros(&self) -> Vec<f64> {
        vec![0.0; self.positives.len()]
    }
    fn outputs(&self) -> usize {
        self.positives.len()
    }
    fn problems(&self) -> usize {
        self.positives.len()
    }
    #[inline(always)]
    fn value_and_coef(&self, scores: &[f64], y: u32, coef: &mut [f64]) -> f64 {
        let mut sum = 0.0;
        for ((sign, score), coef) in self.signs(y).zip(scores).zip(coef) {
            let (value, slope) = self.loss.value_and_slope(sign * score);
            *coef = sign * slope;
            sum += value;
        }
        sum
    }
    /// Where y is among the classes: whether another of them has a larger score, or the same and comes first.
    fn errs(&self, scores: &[f64], y: u32, _: f64, _: f64) -> bool {
        let own = self.positives.iter().position(|&positive| positive == y);
        own.is_some_and(|own| {
            let beats = |(o, score): (usize, &f64)| {
                *score > scores[own] || *score == scores[own] && o < own
            };
            scores.iter().enumerate().any(beats)
        })
    }
    #[inline(always)]
    fn conjugate(&self, dual: &[f64], y: u32) -> f64 {
        self.signs(y).zip(dual).map(|(sign, a)| self.loss.conjugate(sign * a)).sum()
    }
    fn bend(&self, o: usize, a: f64, y: u32) -> (f64, f64) {
        Binary { loss: self.loss, positive: self.positives[o] }.bend(0, a, y)
    }
    fn excess(&self, dual: &[f64], y: u32) -> f64 {
        let of = |(sign, a): (f64, &f64)| sign * a / self.loss.max_slope();
        self.signs(y).zip(dual).map(of).fold(0.0, f64::max)
    }
    #[inline(always)]
    fn ascend(&self, scores: &[f64], y: u32, q: f64, dual: &mut [f64]) {
        for ((sign, score), a) in self.signs(y).zip(scores).zip(dual) {
            *a = sign * self.loss.ascend(sign * *a, sign * score, q);
        }
    }
    fn make_feasible(&self, dual: &mut [f64], y: u32) {
        for (sign, a) in self.signs(y).zip(dual) {
            *a = sign * (sign * *a).clamp(0.0, self.loss.max_slope());
        }
    }
    fn quadratic(&self) -> Option<f64> {
        self.loss.quadratic()
    }
    fn hinge_sign(&self, o: usize, y: u32) -> Option<f64> {
        self.loss.is_hinge().then(|| if self.positives[o] == y { 1.0 } else { -1.0 })
    }
    fn radius2(&self) -> f64 {
        self.loss.radius2() * self.problems() as f64
    }
    fn steepest(&self) -> f64 {
        self.loss.max_slope() * self.problems() as f64
    }
    fn smooth(&self) -> Option<(f64, f64)> {
        let of_all = |(slope, curvature)| (slope * self.problems() as f64, curvature);
        self.loss.smooth().map(of_all)
    }
}
