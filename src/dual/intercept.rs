//! An intercept that is not regularised: `fit_intercept="free"` in Python.
//!
//! * Problem: `P(w, b) = lambda/2 ||w||^2 + 1/n sum_i s_i loss(<w, x_i> + b; y_i)`, b a number for each score. Its dual is
//!   that of the module above, under one equation for each score: `sum_i s_i a_i = 0`.
//! * Coordinates alone cannot keep an equation. The method of multipliers (Hestenes 1969, Powell 1969; the proximal point
//!   method of Rockafellar 1976 in b) can: with a centre b_k and a constant c the maximiser of
//!
//!   ```text
//!   D(a) - b_k sigma - c^2/(2 lambda) sigma^2,      sigma = 1/n sum_i s_i a_i,
//!   ```
//!
//!   is the dual point of `P(w, b) + lambda/(2 c^2) (b - b_k)^2`, and its `b_k + c^2/lambda sigma` is the next centre. Every
//!   such problem is the one of coordinate ascent, with a constant feature of value c whose weight is measured from the
//!   centre; and none is solved to its end: the centre moves as a pass begins. In the limit sigma is 0.
//! * Which c: what holds b near its centre shall have a small part, 1/[`STIFF`], of the loss's own curvature in b, about
//!   lambda/c^2 of how many examples the rarer class has; and `c^2` shall be a small part, [`SHARE`], of the features' squares:
//!   the larger it is, the shorter every step of the ascent.
//! * The mean: with b free, no shift of the features changes the optimum. So they are measured from their mean: scores are
//!   `<v - g mu, x - mu> + b` for `v = 1/(lambda n) sum_i s_i a_i x_i`, g the same sum of ones. That costs some additions
//!   a visit, `<x_i - mu, mu>` being known; no row is written anew, and sparse ones stay sparse.
//! * Certificate ([`Balance`]): whichever of the positive and the negative dual variables of a score have the larger sum are
//!   scaled down to the sum of the others. For every loss here that leaves a feasible point, on the equation, whose D bounds
//!   min P from below. Two passes: one that scores rows, and finds the best b for the w at hand; one for the image of that point.
//! * Memory: 8 bytes an example more, in an evaluation 8 more for each score; 16 a weight in an evaluation.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::data::Row;
use crate::error::Error;
use crate::examples::Examples;
use crate::hypothesis::Hypothesis;
use crate::ledger::Certificate;
use crate::linear::Linear;
use crate::loss::Loss;
use crate::memory;
use crate::newton::{Point, add_to_side, factors};
use crate::order::Ahead;
use crate::scalar::Scalar;

use super::DualAscent;

/// The least curvature that the loss has in b, over that of the term that holds b near its centre: about the factor by which
/// a move of the centre comes nearer. Guessed from how rare the rarer class is.
const STIFF: f64 = 10.0;

/// What part of the mean square of the features (from their mean) `c^2` is at least. 500 rows of 300 features, hinge,
/// lambda n = 1, to a relative gap of 1e-3: 225 epochs with 1, 80 with 0.1, 85 with 0.01, more than 400 with 10; with a
/// regularised intercept 180.
const SHARE: f64 = 0.03;

/// How many times `c^2` the square of the mean is where it is far from 0: multiples of it in v would drown the rest in their
/// roundings.
const FAR: f64 = 1e6;

/// Looks at the losses that a search for the best b takes at most.
const LOOKS: usize = 60;

/// What part of the gap that search may leave.
const SPARE: f64 = 0.01;

/// What an ascent keeps where the intercept is free.
#[derive(Clone, Debug)]
pub(super) struct Intercept {
    /// Of the features: mu, and `||mu||^2`.
    mean: Vec<f64>,
    mean2: f64,
    /// `<x_i - mu, mu>`.
    dots: Vec<f64>,
    /// `c^2`.
    square: f64,
    /// 1 where v holds g times the mean, 0 where rows are added to it less the mean.
    held: f64,
    /// Room for such a row.
    row: Vec<f64>,
    outputs: Vec<Output>,
    /// The best intercepts for the weights at hand, where an evaluation has told them.
    pub(super) found: Option<Vec<f64>>,
}

/// Of one score.
#[derive(Clone, Copy, Debug, Default)]
struct Output {
    /// b_k, for features measured from their mean.
    centre: f64,
    /// `g = sigma/lambda`, and the sum of the magnitudes.
    sum: f64,
    gross: f64,
    /// `<v - g mu, mu>`.
    along: f64,
}

impl Intercept {
    /// Of a = 0. Two passes over the data. Refuses them where some score has no two sides: its intercept would be infinite.
    fn new<L: Loss, S: Scalar>(
        loss: &L,
        lambda: f64,
        data: &Examples<'_, S>,
    ) -> Result<Self, Error> {
        let (n, d) = (data.len(), data.rows().n_features());
        data.check(0..n)?;
        let mut weights = BTreeMap::<u32, f64>::new();
        for i in 0..n {
            let y = data.check_label(i, loss.classes())?;
            *weights.entry(y).or_default() += data.weight(i);
        }
        let total: f64 = weights.values().sum();
        let mut mean = memory::zeros::<f64>("the mean of the features", &[d])?;
        let mut squares = 0.0;
        let mut rows = 0..n;
        let mut order = Ahead::new(&mut rows);
        while let Some(i) = order.next(data, |_| ())? {
            let c = data.weight(i) / total;
            if c > 0.0 {
                data.rows().row(i).add_times(c, &mut mean);
            }
        }
        let mean2 = mean.iter().map(|m| m * m).sum();
        let mut dots = memory::zeros::<f64>("the dual variables", &[n])?;
        let mut rows = 0..n;
        let mut order = Ahead::new(&mut rows);
        while let Some(i) = order.next(data, |_| ())? {
            let (square, dot) = apart(data.rows().row(i), &mean, mean2);
            dots[i] = dot;
            squares += data.weight(i) / total * square;
        }
        if !(squares.is_finite() && mean2.is_finite()) {
            return Err(Error::non_finite("X", "the squares of its rows overflow"));
        }
        // Where scores are nothing but b.
        let outputs = loss.outputs();
        let (mut scores, mut coef) = (loss.zeros(), loss.zeros());
        let (scores, coef) = (scores.as_mut(), coef.as_mut());
        let mut sides = vec![(0.0, 0.0); outputs];
        for (&y, weight) in &weights {
            loss.value_and_coef(scores, y, coef);
            for (side, coef) in sides.iter_mut().zip(&*coef) {
                let side = if *coef > 0.0 { &mut side.0 } else { &mut side.1 };
                *side += weight / n as f64;
            }
        }
        let rarest = sides.iter().map(|side| side.0.min(side.1)).fold(f64::INFINITY, f64::min);
        if rarest <= 0.0 {
            let want = "> 0 for an example of each class where the intercept is free (class_weight counts as well)";
            return Err(Error::parameter("sample_weight", 0.0, want));
        }
        let mut look = |b: &[f64], slopes: &mut [f64]| {
            let mut sum = 0.0;
            for (&y, weight) in &weights {
                scores.copy_from_slice(b);
                sum += weight * loss.value_and_coef(scores, y, coef);
                slopes.iter_mut().zip(&*coef).for_each(|(slope, c)| *slope -= weight * c);
            }
            sum
        };
        let centres = lowest(outputs, total * 1e-9, 1.0, &mut look);
        let output = |centre: f64| Output { centre, ..Output::default() };
        let square = (SHARE * squares).max(STIFF * lambda / rarest);
        Ok(Intercept {
            mean,
            mean2,
            dots,
            square,
            held: if mean2 > FAR * square { 0.0 } else { 1.0 },
            row: Vec::new(),
            outputs: centres.into_iter().map(output).collect(),
            found: None,
        })
    }

    /// Adds what the scores of row i have beside `<v, x_i>`; beside `<v, x_i - mu>`, where rows are
    /// [added so](Intercept::less_mean).
    #[inline(always)]
    pub(super) fn shift(&self, i: usize, scores: &mut [f64]) {
        let held = self.held * (self.mean2 + self.dots[i]);
        for (score, Output { centre, sum, along, .. }) in scores.iter_mut().zip(&self.outputs) {
            *score += (centre - self.held * along) + sum * (self.square - held);
        }
    }

    /// `<w, mu>` for every score, where rows are scored and added less the mean: to the last bits, as it is the size of the mean.
    pub(super) fn along(&self, w: &Linear<f64>) -> Option<Vec<f64>> {
        let of = |w: &[f64]| accurate_dot(w, &self.mean);
        let all = || w.weights().chunks(self.mean.len().max(1)).map(of).collect();
        (self.held == 0.0).then(all)
    }

    /// The square of a row as it enters a step.
    pub(super) fn norm2<S: Scalar>(&self, row: Row<'_, S>) -> f64 {
        apart(row, &self.mean, self.mean2).0 + self.square
    }

    /// The row as it is scored, and added to v, where that is not the row as it is stored: far from 0, where products with what
    /// is stored have roundings of the size of the mean. O(features).
    pub(super) fn less_mean<S: Scalar>(&mut self, row: Row<'_, S>) -> Option<&[f64]> {
        (self.held == 0.0).then(|| less_mean(row, &self.mean, &mut self.row))
    }

    /// Row i was added to v, `change` times for this output, and now has `whole` in it.
    #[inline(always)]
    pub(super) fn moved(&mut self, i: usize, o: usize, change: f64, whole: f64) {
        let output = &mut self.outputs[o];
        output.sum += change;
        output.along += change * self.dots[i];
        output.gross += whole.abs() - (whole - change).abs();
    }

    /// A pass begins: the intercept of the last one is the next centre.
    pub(super) fn recentre(&mut self) {
        self.found = None;
        for output in &mut self.outputs {
            output.centre += self.square * output.sum;
        }
    }

    /// What `||w||^2` stands for in the dual has beside `||v||^2`.
    pub(super) fn in_dual(&self) -> f64 {
        let of = |o: &Output| self.beside(o) + 2.0 * o.centre * o.sum;
        self.outputs.iter().map(of).sum()
    }

    /// What the sum of `<a, scores>` has, over `lambda n`.
    pub(super) fn in_cross(&self) -> f64 {
        self.outputs.iter().map(|o| self.beside(o) + o.centre * o.sum).sum()
    }

    fn beside(&self, output: &Output) -> f64 {
        let Output { sum, along, .. } = *output;
        sum * (sum * (self.square - self.held * self.held * self.mean2) - self.held * 2.0 * along)
    }

    /// By what part the larger side of a score's dual variables must be scaled down, at most over all scores: about what part
    /// of D that may cost.
    pub(super) fn imbalance(&self) -> f64 {
        let of = |o: &Output| 2.0 * o.sum.abs() / (o.gross + o.sum.abs()).max(f64::MIN_POSITIVE);
        self.outputs.iter().map(of).fold(0.0, f64::max)
    }

    /// All of it was multiplied with `c`.
    pub(super) fn scale(&mut self, c: f64) {
        for Output { sum, gross, along, .. } in &mut self.outputs {
            (*sum, *gross, *along) = (*sum * c, *gross * c, *along * c);
        }
        self.found = None;
    }

    /// The mean of the features.
    pub(super) fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// Another point has come, of one score. It is put on the equation: of a sum that is nearly 0 a stiff hold on b would make
    /// a long way. O(nnz).
    pub(super) fn land<S: Scalar>(
        &mut self,
        lambda: f64,
        data: &Examples<'_, S>,
        point: &mut Point,
    ) -> Result<(), Error> {
        let Point { dual, w, intercept } = point;
        let mut sides = (0.0, 0.0);
        dual.iter().enumerate().for_each(|(i, a)| add_to_side(&mut sides, data.weight(i) * a));
        let (above, below) = factors(sides);
        *w = Linear::new(1, w.n_features(), 0.0)?;
        let mut output = Output::default();
        let mut rows = 0..data.len();
        let mut order = Ahead::new(&mut rows);
        while let Some(i) = order.next(data, |_| ())? {
            dual[i] *= if dual[i] > 0.0 { above } else { below };
            let c = data.weight(i) * dual[i] / (lambda * data.len() as f64);
            if c != 0.0 {
                match self.less_mean(data.rows().row(i)) {
                    Some(row) => w.add_to(0, Row::Dense(row), c),
                    None => w.add_to(0, data.rows().row(i), c),
                }
                output.sum += c;
                output.gross += c.abs();
                output.along += c * self.dots[i];
            }
        }
        output.centre = *intercept - self.square * output.sum;
        (self.outputs, self.found) = (vec![output], None);
        Ok(())
    }

    /// The weights, with intercepts as those of a constant feature of 1: the best ones known.
    pub(super) fn model(&self, v: &Linear<f64>) -> Linear<f64> {
        let mut w = v.clone();
        for (o, output) in self.outputs.iter().enumerate() {
            w.add_to(o, Row::Dense(&self.mean), -self.held * output.sum);
        }
        let of = |o: &Output| o.centre + o.sum * self.square - o.along;
        let present = || self.outputs.iter().map(of).collect();
        w.set_intercepts(self.found.clone().unwrap_or_else(present));
        w
    }
}

/// `||x - mu||^2` and `<x - mu, mu>`; of dense rows however far mu is from 0.
fn apart<S: Scalar>(row: Row<'_, S>, mean: &[f64], mean2: f64) -> (f64, f64) {
    if let Row::Dense(x) = row {
        let of = |(x, m): (&S, &f64)| ((x.to_f64() - m).powi(2), (x.to_f64() - m) * m);
        let add = |(s, d): (f64, f64), (square, dot)| (s + square, d + dot);
        return x.iter().zip(mean).map(of).fold((0.0, 0.0), add);
    }
    let dot = row.dot(mean) - mean2;
    ((row.norm2() - 2.0 * dot - mean2).max(0.0), dot)
}

/// `<x, y>`, in twice the precision: Dot2 of Ogita, Rump and Oishi (2005), algorithm 5.3.
fn accurate_dot(x: &[f64], y: &[f64]) -> f64 {
    let (mut sum, mut lost) = (0.0, 0.0);
    for (x, y) in x.iter().zip(y) {
        let product = x * y;
        let next = sum + product;
        let part = next - sum;
        lost += (sum - (next - part)) + (product - part) + x.mul_add(*y, -product);
        sum = next;
    }
    sum + lost
}

/// Writes a row less the mean.
pub(super) fn less_mean<'a, S: Scalar>(
    row: Row<'_, S>,
    mean: &[f64],
    out: &'a mut Vec<f64>,
) -> &'a [f64] {
    out.clear();
    out.extend(mean.iter().map(|m| -m));
    match row {
        Row::Dense(x) => out.iter_mut().zip(x).for_each(|(z, x)| *z += x.to_f64()),
        sparse => sparse.for_each(|j, x| {
            if let Some(z) = out.get_mut(j) {
                *z += x;
            }
        }),
    }
    out
}

/// Where a sum of convex functions, one of each of so many numbers, is lowest: to within `enough` for each number, if
/// [`LOOKS`] looks are enough. `look` adds the slopes to zeros, and returns the sum. From 0, by steps that begin with `first`.
fn lowest(
    count: usize,
    enough: f64,
    first: f64,
    look: &mut dyn FnMut(&[f64], &mut [f64]) -> f64,
) -> Vec<f64> {
    /// A bracket: places and slopes, the second end infinitely far away at first.
    #[derive(Clone, Copy)]
    struct Bracket {
        ends: [(f64, f64); 2],
        step: f64,
        over: bool,
    }
    let (mut at, mut slopes) = (vec![0.0; count], vec![0.0; count]);
    look(&at, &mut slopes);
    let begin = |&slope: &f64| {
        let step = if slope > 0.0 { -first } else { first };
        Bracket { ends: [(0.0, slope), (f64::INFINITY, 0.0)], step, over: slope == 0.0 }
    };
    let mut brackets: Vec<Bracket> = slopes.iter().map(begin).collect();
    for number in 0..LOOKS {
        for (at, Bracket { ends: [near, far], step, .. }) in at.iter_mut().zip(&brackets) {
            *at = if far.0.is_infinite() {
                near.0 + step
            } else if number % 3 == 2 {
                (near.0 + far.0) / 2.0
            } else {
                // A secant, but never at an end.
                let part = near.1 / (near.1 - far.1);
                near.0 + (far.0 - near.0) * part.clamp(0.01, 0.99)
            };
        }
        if brackets.iter().all(|bracket| bracket.over) {
            break;
        }
        slopes.fill(0.0);
        look(&at, &mut slopes);
        for ((bracket, at), slope) in brackets.iter_mut().zip(&at).zip(&slopes) {
            if bracket.over {
                continue;
            }
            let [near, far] = &mut bracket.ends;
            if slope * near.1 > 0.0 {
                *near = (*at, *slope);
                bracket.step *= 4.0;
            } else {
                *far = (*at, *slope);
            }
            let left = near.1.abs().min(far.1.abs()) * (near.0 - far.0).abs();
            bracket.over = left <= enough || !slope.is_finite();
        }
    }
    let better = |Bracket { ends: [near, far], .. }: &Bracket| {
        if far.0.is_finite() && far.1.abs() < near.1.abs() { far.0 } else { near.0 }
    };
    brackets.iter().map(better).collect()
}

/// What an evaluation takes beside the scores of all rows; see [`DualEvaluation`](super::DualEvaluation).
#[derive(Clone, Debug, Default)]
pub(super) struct Balance {
    /// At the weights as they will be handed out.
    scores: Vec<f64>,
    /// Rows seen in the first pass.
    rows: usize,
    second: Option<Second>,
}

/// What the second pass is about.
#[derive(Clone, Debug)]
struct Second {
    /// The mean loss with the best intercepts, and these.
    loss: f64,
    found: Vec<f64>,
    /// What positive and negative dual variables of every score are multiplied with.
    factors: Vec<(f64, f64)>,
    /// The point's image.
    image: Linear<f64>,
    sums: Vec<f64>,
    conjugates: f64,
}

impl Balance {
    /// Takes note of a row's scores.
    pub(super) fn note(&mut self, i: usize, scores: &[f64]) {
        let from = i * scores.len();
        self.scores[from..from + scores.len()].copy_from_slice(scores);
        self.rows += 1;
    }

    /// Takes in these rows if the second pass has come; says whether.
    pub(super) fn add<L: Loss, S: Scalar>(
        &mut self,
        w: &Linear<f64>,
        ascent: &DualAscent<L>,
        data: &Examples<'_, S>,
        rows: Range<usize>,
    ) -> Result<bool, Error> {
        if self.rows < data.len() {
            if self.scores.is_empty() {
                self.scores = memory::zeros("the scores", &[data.len(), w.outputs()])?;
            }
            return Ok(false);
        }
        if self.second.is_none() {
            self.second = Some(self.turn(w, ascent, data)?);
        }
        if let Some(second) = &mut self.second {
            second.add(ascent, data, rows)?;
        }
        Ok(true)
    }

    /// Between the passes.
    fn turn<L: Loss, S: Scalar>(
        &mut self,
        w: &Linear<f64>,
        ascent: &DualAscent<L>,
        data: &Examples<'_, S>,
    ) -> Result<Second, Error> {
        let (n, loss) = (data.len() as f64, &ascent.loss);
        let (mut shifted, mut coef) = (loss.zeros(), loss.zeros());
        let (shifted, coef) = (shifted.as_mut(), coef.as_mut());
        let mut look = |by: &[f64], slopes: &mut [f64]| {
            let mut sum = 0.0;
            for (i, scores) in self.scores.chunks(by.len()).enumerate() {
                let weight = data.weight(i);
                for ((to, score), by) in shifted.iter_mut().zip(scores).zip(by) {
                    *to = score + by;
                }
                sum += weight * loss.value_and_coef(shifted, data.label(i), coef);
                slopes.iter_mut().zip(&*coef).for_each(|(slope, c)| *slope -= weight * c);
            }
            sum
        };
        let mut slopes = vec![0.0; w.outputs()];
        let zeros = slopes.clone();
        let present = look(&zeros, &mut slopes);
        // A step of Newton's method, if the loss has about the curvature that its slopes suggest.
        let gross: f64 = ascent.free.iter().flat_map(|f| &f.outputs).map(|o| o.gross).sum();
        let steepest = slopes.iter().map(|slope| slope.abs()).fold(0.0, f64::max);
        let first = (steepest / (n * ascent.lambda * gross)).clamp(1e-9, 1.0);
        let enough = SPARE * ascent.seen.clamp(1e-14 * present, present);
        let by = lowest(zeros.len(), enough, first, &mut look);
        // As they will be handed out.
        let intercepts = w.intercepts();
        let round = |(b, by): (&f64, &f64)| S::from_f64(b + by).to_f64();
        let mut found: Vec<f64> = intercepts.iter().zip(&by).map(round).collect();
        let by: Vec<f64> = found.iter().zip(&intercepts).map(|(b, from)| b - from).collect();
        let mut best = look(&by, &mut slopes);
        if best > present || best.is_nan() {
            (best, found) = (present, intercepts);
        }
        Second::new(ascent, data, best / n, found)
    }

    /// What the passes have found: the certificate, the objective's part that is `lambda/2 ||w||^2` given, and the intercepts.
    pub(super) fn finish<L: Loss>(
        self,
        ascent: &DualAscent<L>,
        half_square: f64,
    ) -> (Certificate, Option<Vec<f64>>) {
        let Some(second) = self.second else {
            return (Certificate { primal: f64::NAN, dual: f64::NAN }, None);
        };
        let certificate =
            Certificate { primal: half_square + second.loss, dual: second.value(ascent) };
        (certificate, Some(second.found))
    }
}

impl Second {
    fn new<L: Loss, S: Scalar>(
        ascent: &DualAscent<L>,
        data: &Examples<'_, S>,
        loss: f64,
        found: Vec<f64>,
    ) -> Result<Self, Error> {
        let outputs = ascent.w.outputs();
        let (mut sides, mut dual) = (vec![(0.0, 0.0); outputs], vec![0.0; outputs]);
        for i in 0..data.len() {
            ascent.dual.read(i, data.weight(i), &mut dual);
            sides.iter_mut().zip(&dual).for_each(|(sides, a)| add_to_side(sides, *a));
        }
        let mut image = Linear::new(outputs, ascent.w.n_features(), 0.0)?;
        image.suit(data.rows().is_sparse())?;
        let factors = sides.into_iter().map(factors).collect();
        let sums = vec![0.0; outputs];
        Ok(Second { loss, found, factors, image, sums, conjugates: 0.0 })
    }

    fn add<L: Loss, S: Scalar>(
        &mut self,
        ascent: &DualAscent<L>,
        data: &Examples<'_, S>,
        rows: Range<usize>,
    ) -> Result<(), Error> {
        let mut dual = ascent.loss.zeros();
        let (dual, mut room) = (dual.as_mut(), Vec::new());
        let mut rows = rows;
        let mut order = Ahead::new(&mut rows);
        while let Some(i) = order.next(data, |_| ())? {
            let weight = data.weight(i);
            ascent.dual.read(i, 1.0, dual);
            for (a, (above, below)) in dual.iter_mut().zip(&self.factors) {
                *a *= if *a > 0.0 { above } else { below };
            }
            self.conjugates += weight * ascent.loss.conjugate(dual, data.label(i));
            let c = weight / (ascent.lambda * data.len() as f64);
            dual.iter_mut().for_each(|a| *a *= c);
            if dual.iter().any(|a| *a != 0.0) {
                self.sums.iter_mut().zip(&*dual).for_each(|(sum, a)| *sum += a);
                let row = data.rows().row(i);
                match ascent.free.as_ref().filter(|free| free.held == 0.0) {
                    Some(free) => {
                        let row = less_mean(row, &free.mean, &mut room);
                        self.image.add_row(Row::Dense(row), dual);
                    }
                    None => self.image.add_row(row, dual),
                }
            }
        }
        Ok(())
    }

    /// D.
    fn value<L: Loss>(&self, ascent: &DualAscent<L>) -> f64 {
        let Some(free) = &ascent.free else {
            return f64::NAN;
        };
        // The sums are 0 but for roundings, which a mean far from 0 would make much of.
        let mut image = self.image.clone();
        for (o, sum) in self.sums.iter().enumerate() {
            image.add_to(o, Row::Dense(&free.mean), -free.held * sum);
        }
        -self.conjugates / ascent.len() as f64 - ascent.lambda / 2.0 * image.norm2_afresh()
    }
}

impl<L: Loss> DualAscent<L> {
    /// Starts from a = 0 with an intercept that is not regularised, for each score. Two passes over the data, which must stay
    /// the same. Refuses losses that are no sum of losses of a score each, and examples that leave a score but one class.
    pub fn with_free_intercept<S: Scalar>(
        loss: L,
        lambda: f64,
        data: &Examples<'_, S>,
    ) -> Result<Self, Error> {
        if loss.problems() != loss.outputs() {
            let want = "one against the rest where the intercept is free";
            return Err(Error::parameter("multi_class", "crammer_singer", want));
        }
        let rows = data.rows();
        let dense = !rows.is_sparse();
        let mut dual = DualAscent::on(loss, lambda, data.len(), rows.n_features(), 0.0, dense)?;
        memory::check::<[f64; 3]>("the dual variables", &[data.len()])?;
        dual.free = Some(Intercept::new(&dual.loss, lambda, data)?);
        Ok(dual)
    }

    /// Whether the intercept is not regularised.
    pub(crate) fn is_free(&self) -> bool {
        self.free.is_some()
    }

    /// What the dual has of `||w||^2`; with a free intercept, of what holds that.
    pub(super) fn square(&self) -> f64 {
        let norm2 = self.w.norm2();
        self.free.as_ref().map_or(norm2, |free| norm2 + free.in_dual())
    }

    /// D at the point that is on the equation. A pass over the data.
    pub(super) fn balanced_value<S: Scalar>(&self, data: &Examples<'_, S>) -> f64 {
        let second = Second::new(self, data, 0.0, Vec::new());
        let value = second.and_then(|mut second| {
            second.add(self, data, 0..data.len())?;
            Ok(second.value(self))
        });
        value.unwrap_or(f64::NAN)
    }
}
