//! Where the problems are: their certificates, and who is to ascend next.

use std::ops::Range;

use super::{KernelAscent, SLOW};
use crate::error::Error;
use crate::examples::Examples;
use crate::ledger::Certificate;
use crate::loss::Loss;
use crate::scalar::Scalar;
use crate::threads::side_by_side;

/// As long as more than this part of the objective is gap, all shares of a hinge loss of one score are alike. The largest are
/// those of the oddest examples then, and what is done for them the others take back. In trials on an AMD EPYC the checkerboard
/// (100,000 points) took 7 rounds instead of 49 and half the time at C = 10, a9a 7 instead of 15 and 0.85 of it, covtype 0.8 at
/// C = 100, one letter as long; several classes jointly 0.7 to 1.3 times as long.
const EARLY: f64 = 0.5;

/// So often bounds of a multiple are narrowed, each time by so much.
const NARROWINGS: usize = 60;
const GOLDEN: f64 = 0.381_966_011_250_105;

/// One of the problems.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// Where its examples are.
    pub spans: Vec<Range<usize>>,
    /// Whether a round ascends among all of them; else how many.
    pub whole: bool,
    pub working: usize,
    /// Where the last round began.
    pub last_gap: f64,
    /// As of the last survey, times n, at so many times w(a): 1, unless that is worse than 0, as where steps have been cut short.
    pub sums: Sums,
    pub times: f64,
    /// The losses of w = 0, times n; NaN as long as nobody knows.
    pub nothing: f64,
    /// Whether there was one since it has moved.
    pub surveyed: bool,
}

impl Part {
    /// One that nobody has looked at, of which a round ascends among so many at first.
    pub fn new(spans: Vec<Range<usize>>, working: usize) -> Self {
        Part {
            spans,
            whole: false,
            working,
            last_gap: f64::INFINITY,
            sums: Sums { gap: f64::NAN, loss: f64::NAN, cross: f64::NAN },
            times: 1.0,
            nothing: f64::NAN,
            surveyed: false,
        }
    }

    /// How many examples it has.
    pub fn len(&self) -> usize {
        self.spans.iter().map(Range::len).sum()
    }
}

/// Where the examples of a problem are, given the classes and where those of each are.
pub(super) fn spans_of<L: Loss>(
    loss: &L,
    problem: usize,
    classes: &[(u32, Range<usize>)],
) -> Vec<Range<usize>> {
    let mut spans: Vec<Range<usize>> = Vec::new();
    for (class, own) in classes {
        if loss.hinge_sign(problem, *class) == Some(0.0) {
            continue;
        }
        match spans.last_mut().filter(|last| last.end == own.start) {
            Some(last) => last.end = own.end,
            None => spans.push(own.clone()),
        }
    }
    spans
}

/// What the examples' shares of a gap, losses and `<a, scores>` sum to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    pub gap: f64,
    pub loss: f64,
    pub cross: f64,
}

impl Sums {
    pub fn add(&mut self, weight: f64, share: f64, loss: f64, cross: f64) {
        self.gap += weight * share;
        self.loss += weight * loss;
        self.cross += weight * cross;
    }

    /// lambda ||w||^2 is the mean of `<a_i, scores_i>`.
    pub fn certificate(self, n: f64) -> Certificate {
        let primal = (self.cross / 2.0 + self.loss) / n;
        Certificate { primal, dual: primal - self.gap / n }.without_roundings()
    }
}

impl<S: Scalar, L: Loss> KernelAscent<S, L> {
    /// Looks at the problems that have moved, or are not within `tol`: their sums, and with a tolerance the working sets of
    /// those that are not.
    pub(super) fn survey(
        &mut self,
        data: &Examples<'_, S>,
        tol: Option<f64>,
    ) -> Result<Vec<(usize, Vec<u32>)>, Error> {
        self.check(data)?;
        let n = self.len() as f64;
        for p in 0..self.problems.len() {
            if self.problems[p].nothing.is_nan() {
                self.problems[p].nothing = self.losses_at(data, p, 0.0);
            }
        }
        let there =
            |sums: Sums| tol.is_none_or(|tol| sums.gap / n <= tol * sums.certificate(n).primal);
        let parts = self.problems.iter().enumerate();
        let mut open: Vec<usize> =
            parts.filter(|(_, part)| !part.surveyed || !there(part.sums)).map(|(p, _)| p).collect();
        let found = side_by_side(&mut open, |_, &mut p| {
            let mut shares = [Vec::new(), Vec::new()];
            let sums = self.look(data, p, &mut shares);
            let part = &self.problems[p];
            let gap = sums.gap / n;
            let double = gap > SLOW * part.last_gap;
            let working = if double { (2 * part.working).min(self.most) } else { part.working };
            if self.is_apart(p) && gap > EARLY * sums.certificate(n).primal {
                let open = shares.iter_mut().flatten().filter(|share| share.0 > 0.0);
                open.for_each(|share| share.0 = 1.0);
            }
            let set = (!there(sums)).then(|| match part.whole {
                true => part.spans.iter().cloned().flatten().map(|place| place as u32).collect(),
                false => choose(shares, working),
            });
            (p, sums, self.best_multiple(data, p, sums), working, set)
        });
        let mut sets = Vec::new();
        for (p, sums, best, working, set) in found {
            let part = &mut self.problems[p];
            ((part.sums, part.times), part.surveyed) = (best, true);
            if !sums.certificate(n).primal.is_finite() {
                return Err(Error::non_finite("X", "the objective overflows"));
            }
            if let Some(set) = set.filter(|_| tol.is_some()) {
                (part.working, part.last_gap) = (working, sums.gap / n);
                sets.push((p, set));
            }
        }
        Ok(sets)
    }

    /// Whether a problem is a hinge loss of one score.
    pub(super) fn is_apart(&self, p: usize) -> bool {
        self.labels.first().is_some_and(|&y| self.loss.hinge_sign(p, y).is_some())
    }

    /// The sums of a problem, and the examples that have a share in its gap, with that. Of a hinge loss of one score, those
    /// whose steps would lower the scores of others come first, then those whose steps would raise them, and on the side to
    /// which their bounds let them go also those without a share, with how far their scores are from a step, negated. Of
    /// other losses, and of problems that are taken as a whole, all are first.
    fn look(&self, data: &Examples<'_, S>, p: usize, shares: &mut [Vec<(f64, u32)>; 2]) -> Sums {
        let mut sums = Sums::default();
        // Of hinge losses of a score each nobody reads all scores of an example, and of many problems each would clear room.
        let outputs = if self.is_apart(p) { 0 } else { self.outputs() };
        let mut buffer = vec![0.0; 3 * outputs];
        let (scores, rest) = buffer.split_at_mut(outputs);
        let (dual, coef) = rest.split_at_mut(outputs);
        let sides = !self.problems[p].whole;
        for place in self.problems[p].spans.iter().cloned().flatten() {
            let (y, weight) = (self.labels[place], data.weight(self.numbers[place]));
            let (mut rises, mut distance) = (false, f64::INFINITY);
            let (share, loss, cross) = match self.loss.hinge_sign(p, y) {
                Some(sign) => {
                    let (score, a) = (self.scores.get(p, place), self.dual.get(p, place));
                    let (margin, a) = (sign * score, sign * a);
                    let loss = (1.0 - margin).max(0.0);
                    let share = loss - a + a * margin;
                    if sides && weight > 0.0 {
                        // Without a share it goes where its bounds let it.
                        rises = if share > 0.0 { sign > score } else { (a < 1.0) == (sign > 0.0) };
                        distance = (sign - score).abs();
                    }
                    (share, loss, a * margin)
                }
                None => {
                    self.scores.read(place, scores);
                    self.dual.read(place, dual);
                    let loss = self.loss.value_and_coef(scores, y, coef);
                    let cross: f64 = dual.iter().zip(&*scores).map(|(a, s)| a * s).sum();
                    (loss + self.loss.conjugate(dual, y) + cross, loss, cross)
                }
            };
            sums.add(weight, share, loss, cross);
            let value = if weight * share > 0.0 { weight * share } else { -distance };
            if value > f64::NEG_INFINITY {
                shares[usize::from(rises)].push((value, place as u32));
            }
        }
        sums
    }

    /// The sums at the multiple of w(a) between 0 and 1 that is best, and which that is: 1 where w(a) is no worse than 0. The dual
    /// value is that of a.
    fn best_multiple(&self, data: &Examples<'_, S>, p: usize, sums: Sums) -> (Sums, f64) {
        let value = sums.cross / 2.0 + sums.loss;
        let is_worse = value > self.problems[p].nothing && value.is_finite();
        if !is_worse || !self.positive {
            return (sums, 1.0);
        }
        let at = |times: f64| {
            // Below 0 it is nothing but roundings.
            let cross = times * times * sums.cross.max(0.0);
            let loss = self.losses_at(data, p, times);
            (cross / 2.0 + loss, cross, loss)
        };
        // What is between bounds is convex.
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..NARROWINGS {
            let third = GOLDEN * (high - low);
            match at(low + third).0 <= at(high - third).0 {
                true => high -= third,
                false => low += third,
            }
        }
        let (there, cross, loss) = at(low);
        (Sums { gap: sums.gap + there - value, loss, cross }, low)
    }

    /// The losses of a problem at so many times w(a), by weight.
    fn losses_at(&self, data: &Examples<'_, S>, p: usize, times: f64) -> f64 {
        let outputs = if self.is_apart(p) { 0 } else { self.outputs() };
        let (mut scores, mut coef) = (vec![0.0; outputs], vec![0.0; outputs]);
        let places = self.problems[p].spans.iter().cloned().flatten();
        let losses = places.map(|place| {
            let (y, weight) = (self.labels[place], data.weight(self.numbers[place]));
            let loss = match self.loss.hinge_sign(p, y) {
                Some(sign) => (1.0 - sign * times * self.scores.get(p, place)).max(0.0),
                None => {
                    self.scores.read(place, &mut scores);
                    scores.iter_mut().for_each(|score| *score *= times);
                    self.loss.value_and_coef(&scores, y, &mut coef)
                }
            };
            weight * loss
        });
        losses.sum()
    }

    /// The sum over the problems, as far as it proves anything.
    pub(super) fn proved(&self) -> Certificate {
        let mut sums = Sums::default();
        for part in &self.problems {
            sums.add(1.0, part.sums.gap, part.sums.loss, part.sums.cross);
        }
        self.bounded(sums.certificate(self.len() as f64))
    }

    pub(super) fn bounded(&self, certificate: Certificate) -> Certificate {
        let dual = if self.positive { certificate.dual } else { f64::NAN };
        Certificate { dual, ..certificate }
    }
}

/// The places with the largest shares, in ascending order; of two lists as many from each, if there are. What all kernel
/// values have in common, and an intercept is that, moves all scores: steps that all pull to one side end where they have gone
/// too far for everybody else. So where one list has fewer shares than the other, it gives those who would be the first to
/// stop them. Without that ascent on 20,000 rows of noise, whose kernel values are 0.1 and more, stalled in three orders of
/// four; on a9a, digits and covtype it takes 0.98 to 1.1 of the time, to smaller gaps.
fn choose(shares: [Vec<(f64, u32)>; 2], most: usize) -> Vec<u32> {
    // Of those that are alike, some from everywhere.
    let mixed = |place: u32| place.wrapping_mul(0x9E37_79B9);
    let counts =
        shares.each_ref().map(|side| side.iter().filter(|(value, _)| *value > 0.0).count());
    let [lower, raise] = shares.each_ref().map(|side| side.len().min(counts[0].max(counts[1])));
    let first = lower.min((most / 2).max(most.saturating_sub(raise)));
    let mut set = Vec::new();
    for (mut side, most) in shares.into_iter().zip([first, raise.min(most - first)]) {
        if most < side.len() {
            side.select_nth_unstable_by(most, |a, b| {
                b.0.total_cmp(&a.0).then(mixed(a.1).cmp(&mixed(b.1)))
            });
            side.truncate(most);
        }
        set.extend(side.into_iter().map(|share| share.1));
    }
    set.sort_unstable();
    set
}
