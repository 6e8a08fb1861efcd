//! Every pair of classes by itself, over the same scores' row.

use super::{Binary, Loss, MarginLoss};

/// One problem for each pair of classes, as in `SVC`: the sum of the losses of those that an example's class is in.
///
/// The score of a pair is positive for the first of the two. Pairs stand in the order (0, 1), (0, 2), ..., (1, 2), ...;
/// examples of other classes have no part in a pair: their loss there is 0 and their dual variable must be.
///
/// ```
/// use pegasos::{Hinge, Loss, OneVsOne};
///
/// let loss = OneVsOne { loss: Hinge, classes: 3 };
/// let mut coef = [0.0; 3];
/// // Of class 1: second in (0, 1), not in (0, 2), first in (1, 2).
/// assert_eq!(loss.value_and_coef(&[0.5, 9.0, 0.25], 1, &mut coef), 1.5 + 0.75);
/// assert_eq!(coef, [-1.0, 0.0, 1.0]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OneVsOne<M> {
    /// The loss on each margin.
    pub loss: M,
    /// Number of classes, at least 2.
    pub classes: usize,
}

impl<M> OneVsOne<M> {
    /// How many pairs there are; of more classes than have a number each, as many as can be.
    fn pairs(&self) -> usize {
        self.classes.saturating_mul(self.classes.saturating_sub(1)) / 2
    }

    /// Which score is that of classes `first < second`.
    #[inline(always)]
    fn pair(&self, first: usize, second: usize) -> usize {
        first * (2 * self.classes - first - 1) / 2 + second - first - 1
    }

    /// The scores of the pairs that class y is in, each with 1 where it is the first, -1 where it is the second.
    #[inline(always)]
    fn own(&self, y: u32) -> impl Iterator<Item = (usize, f64)> {
        let y = y as usize;
        let second = (0..y).map(move |first| (self.pair(first, y), -1.0));
        second.chain((y + 1..self.classes).map(move |second| (self.pair(y, second), 1.0)))
    }

    /// The classes of a pair.
    fn classes_of(&self, o: usize) -> (usize, usize) {
        // The largest `first` with `first (2 classes - first - 1)/2 <= o`.
        let b = 2.0 * self.classes as f64 - 1.0;
        let mut first = ((b - (b * b - 8.0 * o as f64).sqrt()) / 2.0) as usize;
        while first > 0 && self.pair(first, first + 1) > o {
            first -= 1;
        }
        while first + 2 < self.classes && self.pair(first + 1, first + 2) <= o {
            first += 1;
        }
        (first, o - self.pair(first, first + 1) + first + 1)
    }

    /// How many pairs vote for each class, and less than a third that is the larger the more the scores of its pairs speak
    /// for it in sum: what scikit-learn makes of such scores, for which see its `SVC`. A score of 0 votes for the first.
    ///
    /// ```
    /// use pegasos::{Hinge, OneVsOne};
    ///
    /// let mut votes = [0.0; 3];
    /// OneVsOne { loss: Hinge, classes: 3 }.votes(&[1.0, -2.0, -0.5], &mut votes);
    /// assert_eq!(votes.map(f64::round), [1.0, 0.0, 2.0]);
    /// ```
    ///
    /// # Panics
    /// If there are not as many scores as pairs, or votes as classes.
    pub fn votes(&self, scores: &[f64], votes: &mut [f64]) {
        assert_eq!((scores.len(), votes.len()), (self.pairs(), self.classes));
        let mut sums = vec![0.0; self.classes];
        votes.fill(0.0);
        let mut o = 0;
        for first in 0..self.classes {
            for second in first + 1..self.classes {
                sums[first] += scores[o];
                sums[second] -= scores[o];
                votes[if scores[o] < 0.0 { second } else { first }] += 1.0;
                o += 1;
            }
        }
        for (vote, sum) in votes.iter_mut().zip(&sums) {
            *vote += sum / (3.0 * (sum.abs() + 1.0));
        }
    }
}

impl<M: MarginLoss> Loss for OneVsOne<M> {
    type Scores = Vec<f64>;
    fn zeros(&self) -> Vec<f64> {
        vec![0.0; self.problems()]
    }
    fn outputs(&self) -> usize {
        self.problems()
    }
    fn classes(&self) -> u32 {
        u32::try_from(self.classes).unwrap_or(u32::MAX)
    }
    fn problems(&self) -> usize {
        self.pairs()
    }
    fn value_and_coef(&self, scores: &[f64], y: u32, coef: &mut [f64]) -> f64 {
        coef.fill(0.0);
        let mut sum = 0.0;
        for (o, sign) in self.own(y) {
            let (value, slope) = self.loss.value_and_slope(sign * scores[o]);
            coef[o] = sign * slope;
            sum += value;
        }
        sum
    }
    /// By [`votes`](OneVsOne::votes).
    fn errs(&self, scores: &[f64], y: u32, _: f64, _: f64) -> bool {
        let mut votes = vec![0.0; self.classes];
        self.votes(scores, &mut votes);
        let own = votes[y as usize];
        let beats = |(o, vote): (usize, &f64)| *vote > own || *vote == own && o < y as usize;
        votes.iter().enumerate().any(beats)
    }
    fn conjugate(&self, dual: &[f64], y: u32) -> f64 {
        self.own(y).map(|(o, sign)| self.loss.conjugate(sign * dual[o])).sum()
    }
    fn bend(&self, o: usize, a: f64, y: u32) -> (f64, f64) {
        let (first, second) = self.classes_of(o);
        let (positive, negative) = (first as u32, Some(second as u32));
        Versus { loss: self.loss, positive, negative }.bend(0, a, y)
    }
    fn excess(&self, dual: &[f64], y: u32) -> f64 {
        let of = |(o, sign): (usize, f64)| sign * dual[o] / self.loss.max_slope();
        self.own(y).map(of).fold(0.0, f64::max)
    }
    fn ascend(&self, scores: &[f64], y: u32, q: f64, dual: &mut [f64]) {
        for (o, sign) in self.own(y) {
            dual[o] = sign * self.loss.ascend(sign * dual[o], sign * scores[o], q);
        }
    }
    fn make_feasible(&self, dual: &mut [f64], y: u32) {
        let before = dual.to_vec();
        dual.fill(0.0);
        for (o, sign) in self.own(y) {
            dual[o] = sign * (sign * before[o]).clamp(0.0, self.loss.max_slope());
        }
    }
    fn quadratic(&self) -> Option<f64> {
        self.loss.quadratic()
    }
    fn hinge_sign(&self, o: usize, y: u32) -> Option<f64> {
        let y = y as usize;
        let of = |(first, second)| match y {
            _ if y == first => 1.0,
            _ if y == second => -1.0,
            _ => 0.0,
        };
        self.loss.is_hinge().then(|| of(self.classes_of(o)))
    }
    fn radius2(&self) -> f64 {
        // Of the problems that an example of any class is in.
        self.loss.radius2() * self.classes.saturating_sub(1) as f64
    }
    fn steepest(&self) -> f64 {
        self.loss.max_slope() * self.classes.saturating_sub(1) as f64
    }
}

/// One class against another, or against all others, by a single score: positive for class `positive`. Examples of no
/// other class have a part in it. One of the problems of [`OneVsOne`] by itself.
///
/// ```
/// use pegasos::{Hinge, Loss, Versus};
///
/// let loss = Versus { loss: Hinge, positive: 1, negative: Some(3) };
/// let mut coef = [0.0];
/// assert_eq!(loss.value_and_coef(&[0.25], 3, &mut coef), 1.25);
/// assert_eq!(loss.value_and_coef(&[0.25], 2, &mut coef), 0.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Versus<M> {
    /// The loss on the margin.
    pub loss: M,
    /// The class whose margin is the score.
    pub positive: u32,
    /// The class whose margin is the score's negative; all but `positive` where there is none.
    pub negative: Option<u32>,
}

impl<M: MarginLoss> Versus<M> {
    /// Against all others: the same for every class that has a part in it.
    #[inline(always)]
    fn binary(&self) -> Binary<M> {
        Binary { loss: self.loss, positive: self.positive }
    }

    /// Makes the numbers of examples that have no part in it 0.
    fn clear(&self, numbers: &mut [f64], labels: &[u32]) {
        if self.negative.is_some() {
            for (number, &y) in numbers.iter_mut().zip(labels) {
                *number = if self.concerns(y) { *number } else { 0.0 };
            }
        }
    }
}

impl<M: MarginLoss> Loss for Versus<M> {
    type Scores = [f64; 1];
    #[inline(always)]
    fn zeros(&self) -> [f64; 1] {
        [0.0]
    }
    #[inline(always)]
    fn concerns(&self, y: u32) -> bool {
        y == self.positive || self.negative.is_none_or(|negative| y == negative)
    }
    #[inline(always)]
    fn value_and_coef(&self, scores: &[f64], y: u32, coef: &mut [f64]) -> f64 {
        if self.concerns(y) {
            return self.binary().value_and_coef(scores, y, coef);
        }
        coef[0] = 0.0;
        0.0
    }
    fn conjugate(&self, dual: &[f64], y: u32) -> f64 {
        if self.concerns(y) { self.binary().conjugate(dual, y) } else { 0.0 }
    }
    fn bend(&self, o: usize, a: f64, y: u32) -> (f64, f64) {
        if self.concerns(y) { self.binary().bend(o, a, y) } else { (0.0, 0.0) }
    }
    fn excess(&self, dual: &[f64], y: u32) -> f64 {
        if self.concerns(y) { self.binary().excess(dual, y) } else { 0.0 }
    }
    fn steepest(&self) -> f64 {
        self.loss.max_slope()
    }
    fn quadratic(&self) -> Option<f64> {
        self.loss.quadratic()
    }
    fn hinge_sign(&self, o: usize, y: u32) -> Option<f64> {
        let sign = self.binary().hinge_sign(o, y);
        sign.map(|sign| if self.concerns(y) { sign } else { 0.0 })
    }
    fn radius2(&self) -> f64 {
        self.loss.radius2()
    }
    #[inline(always)]
    fn ascend(&self, scores: &[f64], y: u32, q: f64, dual: &mut [f64]) {
        if self.concerns(y) {
            self.binary().ascend(scores, y, q, dual);
        }
    }
    fn smoothed(&self, score: f64, y: u32, mu: f64) -> Option<(f64, f64)> {
        if self.concerns(y) { self.binary().smoothed(score, y, mu) } else { Some((0.0, 0.0)) }
    }
    fn make_feasible(&self, dual: &mut [f64], y: u32) {
        if self.concerns(y) {
            self.binary().make_feasible(dual, y);
        } else {
            dual[0] = 0.0;
        }
    }
    fn settles(&self) -> bool {
        self.loss.settles()
    }
    fn values(&self, scores: &mut [f64], labels: &[u32]) {
        self.binary().values(scores, labels);
        self.clear(scores, labels);
    }
    fn conjugates(&self, dual: &mut [f64], labels: &[u32]) {
        self.binary().conjugates(dual, labels);
        self.clear(dual, labels);
    }
    fn bends(&self, dual: &mut [f64], second: &mut [f64], labels: &[u32]) {
        self.binary().bends(dual, second, labels);
        self.clear(dual, labels);
        self.clear(second, labels);
    }
    fn smooth_all(&self, scores: &mut [f64], bent: &mut [f64], labels: &[u32], mu: f64) {
        self.binary().smooth_all(scores, bent, labels, mu);
        self.clear(scores, labels);
        self.clear(bent, labels);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::Hinge;

    #[test]
    fn pairs_have_places() {
        for classes in (2..9).chain([1000]) {
            let loss = OneVsOne { loss: Hinge, classes };
            let mut o = 0;
            for first in 0..classes {
                for second in first + 1..classes {
                    assert_eq!(loss.pair(first, second), o);
                    assert_eq!(loss.classes_of(o), (first, second));
                    o += 1;
                }
            }
            assert_eq!(o, loss.problems());
        }
    }
}
