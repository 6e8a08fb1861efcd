//! Dual coordinate ascent: from where Pegasos is, or from nothing, to any certified gap.
//!
//! * Problem: the dual of `P(w) = lambda/2 ||w||^2 + 1/n sum_i s_i loss(<w, x_i>; y_i)`, to maximise
//!
//!   ```text
//!   D(a) = -1/n sum_i s_i loss*(-a_i) - lambda/2 ||w(a)||^2,   w(a) = 1/(lambda n) sum_i s_i a_i x_i.
//!   ```
//!
//! * Step: visit example i, replace `a_i` by the maximiser of D in `a_i` alone
//!   ([`Loss::ascend`] with `q = s_i ||x_i||^2/(lambda n)`), add the change's image to w. For the hinge
//!   this is Hsieh et al. (2008), Algorithm 1; for Crammer and Singer's loss the exact solution for
//!   all classes of the example at once.
//! * The very same point: a trainer's [`Ledger`](crate::Ledger), times n/s, is such an `a`, and its w is `w(a)`
//!   (Stratos' notes, equation 1). So this goes on where Pegasos stops, and D only ever rises.
//! * Not visiting what is settled: the gap is a sum over the examples (below). One whose share is 0, or a
//!   tenth of the mean share or less, sleeps through the next pass, after k such visits in a row through
//!   `2^k - 1` passes, `2^SLEEP - 1` at most. An evaluation wakes those that a step would move. So work
//!   goes where the gap is, and no w is trusted at which the gap was not looked at whole.
//! * Certificate: for every a that is feasible `D(a) <= min P`, and `P - D` is the sum over the
//!   examples of `s_i/n (loss + loss* + <a_i, scores>)`. What a pass sees of that sum, before each
//!   step, tells when a real evaluation, which costs half an epoch, is worth its time.
//! * Precision: w and a are f64 whatever the data, and no data are copied ([`Linear::score_row`]). P is evaluated
//!   at the weights as they will be handed out, rounded to the data's scalar, D at a. What Pegasos in
//!   f32 has rounded away of w stays lost, and that is harmless: where no step would move anything the
//!   gap is `lambda/2 ||w - w(a)||^2`, the square of a rounding.
//! * Cost: O(nnz) a visit, the same again where `a_i` moves. Memory: 17 bytes an example and 8 more for
//!   every output but the first, of many outputs 25 more and 16 for each with `a_i` other than 0; 8 bytes a weight. Where
//!   leaps along the way of passes are worth it, the dual variables once more, and ten times the weights and what moves.

mod evaluation;
mod foresight;
mod glimpse;
mod hindsight;
mod intercept;
mod leap;
mod many;
mod single;
mod turn;

use std::borrow::Cow;
use std::ops::Range;

use crate::data::{Matrix, Row};
use crate::error::Error;
use crate::examples::Examples;
use crate::feasible::Feasible;
use crate::hypothesis::Hypothesis;
use crate::ledger::Certificate;
use crate::linear::Linear;
use crate::loss::Loss;
use crate::memory;
use crate::order::{Ahead, Epoch, Sampling};
use crate::params::{check_lambda, check_tol};
use crate::scalar::{Scalar, all_finite, others_than_0};
use crate::simd::Places;
use crate::table::Table;
use crate::trainer::{Report, Trainer};
pub use evaluation::DualEvaluation;
use foresight::{BETWEEN_STEPS, Foresight};
use glimpse::HOPE;
use hindsight::Hindsight;
use intercept::Intercept;
use many::{Glance, Narrow, are_many, wakes};
use single::note;
use turn::Turn;

/// Narrow passes are numbered from here: their orders are others than those of whole ones.
const NARROW: u64 = 1 << 40;

/// Whose memory it is.
const WHAT: &str = "the dual variables";

/// The binary logarithm of the longest sleep, in passes. On four problems at lambda = 1e-4 to 1e-6, 3
/// took up to half as many visits again as 5, and 7 a tenth fewer.
const SLEEP: u8 = 5;

/// What is said of an example of a class that a problem of two others is not about: it never wakes.
const STRANGER: u8 = u8::MAX;

/// The share of the gap that is small, of the mean share in the pass before. With 0.1 news20 at lambda n = 0.1
/// and the generated words at 0.6 took 0.7 and 0.8 of the time that they took with 0; with 1, longer.
const SMALL: f64 = 0.1;

/// How much of the gap that a pass saw, before its steps, is left at its end, until an evaluation has
/// told.
const LEFT: f64 = 0.3;

/// Maximises the dual of a linear problem, coordinate by coordinate.
///
/// ```
/// use pegasos::{Binary, Dense, DualAscent, Examples, Hinge};
///
/// let x = [0.0, 1.0, 1.0, 0.0, 0.0, 2.0, 2.0, 0.0_f32];
/// let data = Examples::new(Dense::new(&x, 4, 2)?, &[1, 0, 1, 0], None)?;
/// let loss = Binary { loss: Hinge, positive: 1 };
///
/// let mut dual = DualAscent::new(loss, 1e-3, data.len(), 2, 0.0)?;
/// let certificate = dual.solve(&data, 1e-6, 1000, 0)?;
/// assert!(certificate.relative_gap() <= 1e-6);
/// # Ok::<(), pegasos::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct DualAscent<L> {
    loss: L,
    lambda: f64,
    /// `w(a)`, but for the rounding of a trainer's f32 where it was taken over from one.
    w: Linear<f64>,
    /// `a`, examples x outputs, in the domain of the conjugate.
    dual: Table<f64>,
    /// `s_i ||x_i||^2/(lambda n)`, NaN until first needed.
    q: Vec<f64>,
    /// How many visits in a row found an example's share of the gap to be small; of one that does not concern the loss,
    /// [`STRANGER`].
    idle: Vec<u8>,
    /// The examples that are no strangers, where some are and have been met.
    own: Option<Vec<u32>>,
    /// Whether more of them were met since.
    strangers: bool,
    passes: u64,
    /// Visits since the last [`epoch_is_over`](DualAscent::epoch_is_over).
    visits: usize,
    /// How many rows were due in the last pass.
    due: usize,
    /// What a share of the gap must exceed for its example to be visited in the next pass.
    small: f64,
    /// The gap that the last pass saw, n times.
    seen: f64,
    /// The relative gap that the pass before saw; NaN where there was none.
    before: f64,
    /// `sum_i s_i loss*(-a_i)`, kept up to date, up to rounding.
    conjugates: f64,
    /// The last gap evaluated over the one seen before.
    left: f64,
    /// About the relative gap at the end of the last pass, by some of the rows; infinite where nobody looked.
    glimpsed: f64,
    /// What part of the gap that it sees the next pass may leave.
    hope: f64,
    narrow: Narrow,
    hindsight: Hindsight,
    turn: Turn,
    /// Whether a leap that is not to be made again has led nowhere, at this lambda.
    futile: bool,
    /// Where the intercept is not regularised: w has no constant feature then, and is v of `intercept`.
    free: Option<Intercept>,
}

impl<L: Loss> DualAscent<L> {
    /// Starts from a = 0, w = 0. `constant` is the value of the constant feature whose weight is the
    /// intercept, 0 for none. Costs O(n_examples + n_features) for every output.
    pub fn new(
        loss: L,
        lambda: f64,
        n_examples: usize,
        n_features: usize,
        constant: f64,
    ) -> Result<Self, Error> {
        DualAscent::on(loss, lambda, n_examples, n_features, constant, false)
    }

    /// As [`new`](DualAscent::new); `dense` says that rows have no zeros, so that a score takes as long as they are.
    pub(crate) fn on(
        loss: L,
        lambda: f64,
        n_examples: usize,
        n_features: usize,
        constant: f64,
        dense: bool,
    ) -> Result<Self, Error> {
        check_lambda(lambda, false)?;
        let outputs = loss.outputs();
        let many = are_many(outputs, n_features, dense);
        let table = if many { Table::lists } else { Table::new };
        let dual = table(WHAT, n_examples, outputs)?;
        // For q and idle, too.
        memory::check::<[f64; 2]>(WHAT, &[n_examples])?;
        Ok(DualAscent {
            w: Linear::new(outputs, n_features, constant)?,
            dual,
            q: vec![f64::NAN; n_examples],
            idle: vec![0; n_examples],
            own: None,
            strangers: false,
            passes: 0,
            visits: 0,
            due: 1,
            small: 0.0,
            seen: f64::INFINITY,
            before: f64::NAN,
            conjugates: 0.0,
            left: LEFT,
            glimpsed: f64::INFINITY,
            hope: HOPE,
            narrow: Narrow::default(),
            hindsight: Hindsight::default(),
            turn: Turn::default(),
            futile: false,
            free: None,
            loss,
            lambda,
        })
    }

    /// Starts from where a trainer is: from its w and the dual point of its ledger, scaled down together
    /// where that is not feasible. From a = 0 if it keeps no ledger, or one whose bound is worse than the 0
    /// of a = 0. Refuses labels that are no classes.
    pub fn take_over<S: Scalar, F: Feasible<Linear<S>>>(
        trainer: &Trainer<Linear<S>, L, F>,
        data: &Examples<'_, S>,
    ) -> Result<Self, Error>
    where
        L: Clone,
    {
        let n = data.len();
        let linear = trainer.hypothesis();
        let (loss, lambda) = (trainer.loss().clone(), trainer.params().lambda);
        let constant = linear.constant();
        let dense = !data.rows().is_sparse();
        let mut dual = DualAscent::on(loss, lambda, n, linear.n_features(), constant, dense)?;
        data.check_labels(dual.loss.classes())?;
        let worth = trainer.dual_value(data).is_some_and(|value| value > 0.0);
        let Some((ledger, factor)) = trainer.dual_point(n).filter(|_| worth) else {
            return Ok(dual);
        };
        let excess = ledger.excess(&dual.loss, factor, data);
        let mut a = dual.loss.zeros();
        let a = a.as_mut();
        for i in 0..n {
            let weight = data.weight(i);
            if weight > 0.0 {
                ledger.dual(i, factor / (excess * weight), a);
                // Sums in f32 are feasible up to rounding.
                dual.loss.make_feasible(a, data.label(i));
                dual.dual.promise(WHAT, a.iter().filter(|a| **a != 0.0).count())?;
                dual.dual.write(i, a);
            }
        }
        dual.w = linear.convert();
        dual.w.scale(1.0 / excess);
        dual.w.rebase(1.0);
        dual.conjugates = dual.sum_conjugates(data);
        Ok(dual)
    }

    /// The order of the next pass: the rows that are due. Of many outputs a pass may be a narrow one, whose
    /// visits look only at outputs that have dual variables already, and are not counted.
    pub fn pass(&mut self, sampling: Sampling, seed: u64) -> Result<Pass, Error> {
        if let Some(free) = &mut self.free {
            free.recentre();
        }
        let (due, number) = match self.narrow.begin(self.dual.outputs() * self.len()) {
            Some(number) => (self.narrowly_due(number), NARROW + number),
            None => (self.due(), self.passes - 1),
        };
        self.hindsight.begin(&due);
        Ok(Pass { order: sampling.epoch(due.len(), seed, number)?, due })
    }

    /// The rows that are due in a new pass, over all outputs.
    fn due(&mut self) -> Vec<u32> {
        let pass = self.passes;
        self.passes += 1;
        self.glimpsed = f64::INFINITY;
        self.small = if self.seen.is_finite() { SMALL * self.seen / self.due as f64 } else { 0.0 };
        self.before = self.estimate();
        self.seen = 0.0;
        let idle = &self.idle;
        if std::mem::take(&mut self.strangers) {
            let rows = 0..idle.len() as u32;
            self.own = Some(rows.filter(|&i| idle[i as usize] != STRANGER).collect());
        }
        let mut due = vec![0; self.own.as_ref().map_or(idle.len(), Vec::len)];
        let mut count = 0;
        let mut consider = |i: u32| {
            // Written in any case: a branch here would be mispredicted every few rows.
            due[count] = i;
            count += usize::from(wakes(i, idle[i as usize].min(SLEEP), pass));
        };
        match &self.own {
            Some(rows) => rows.iter().for_each(|&i| consider(i)),
            None => (0..idle.len() as u32).for_each(consider),
        }
        due.truncate(count);
        self.due = due.len().max(1);
        due
    }

    /// Visits the examples in the given order. On an error (as in [`Trainer::run`]) it stops before
    /// the visit concerned.
    pub fn run<S: Scalar>(
        &mut self,
        data: &Examples<'_, S>,
        order: impl IntoIterator<Item = usize>,
    ) -> Result<Report, Error> {
        self.go_on(data, Ahead::new(&mut order.into_iter()))
    }

    /// The loop of [`run`](DualAscent::run).
    pub(crate) fn go_on<S: Scalar>(
        &mut self,
        data: &Examples<'_, S>,
        mut order: Ahead<'_>,
    ) -> Result<Report, Error> {
        self.check(data)?;
        self.w.suit(data.rows().is_sparse())?;
        if self.narrow.now {
            return self.run_narrow(data, order);
        }
        if self.dual.only().is_some() && self.w.is_single() && !self.is_free() {
            return match *data.rows() {
                Matrix::Dense(x) => self.run_single(x, data, order),
                Matrix::Csr32(x) => self.run_single(x, data, order),
                x => self.run_single(x, data, order),
            };
        }
        let mut glance = Glance::default();
        let mut foresight = Foresight::new(&self.w, data.rows(), BETWEEN_STEPS);
        let c = 1.0 / (self.lambda * data.len() as f64);
        let mut report = Report::default();
        let mut scores = self.loss.zeros();
        let mut coef = self.loss.zeros();
        let mut dual = self.loss.zeros();
        let (scores, coef, dual) = (scores.as_mut(), coef.as_mut(), dual.as_mut());
        let expects = self.w.expects_rows(data.rows());
        let (duals, curvatures) = (self.dual.places(), Places::of(&self.q, 1));
        while let Some(i) = order.next(data, |i| {
            duals.prefetch(i);
            curvatures.prefetch(i);
        })? {
            let row = data.rows().row(i);
            if expects && let Some(next) = order.upcoming() {
                self.w.expect_row(data.rows().row(next));
            }
            data.check_label(i, self.loss.classes())?;
            let (y, weight) = (data.label(i), data.weight(i));
            // What has no weight is looked at once, for what is not finite.
            if !self.loss.concerns(y) || weight == 0.0 && self.q[i] == 0.0 {
                self.idle[i] = STRANGER;
                self.strangers = true;
                report.examples += 1;
                continue;
            }
            match self.free.as_mut().and_then(|free| free.less_mean(row)) {
                Some(row) => self.w.score_row(Row::Dense(row), scores),
                None => foresight.score(&self.w, data.rows(), i, &mut order, scores),
            }
            if let Some(free) = &self.free {
                free.shift(i, scores);
            }
            let q = self.q_of(i, row, weight);
            if !all_finite(scores) || !q.is_finite() {
                return Err(data.diagnose(i));
            }
            self.dual.read(i, 1.0, dual);
            let value = self.loss.value_and_coef(scores, y, coef);
            let cross = self.dual.dot(i, 1.0, scores);
            let conjugate = self.loss.conjugate(dual, y);
            let gap = weight * (value + conjugate + cross);
            self.seen += gap;
            report.examples += 1;
            report.loss += weight * value;
            note(&mut self.idle[i], gap > self.small);
            if gap <= 0.0 {
                continue;
            }
            if self.dual.is_of_many() {
                self.narrow.possible = self.glance(&mut glance, i, y, scores);
                let moved = self.ascend_few(&mut glance, i, row, weight, weight * c)?;
                if moved {
                    report.updates += 1;
                    foresight.moved(&self.w, data.rows(), glance.moved());
                }
                continue;
            }
            coef.copy_from_slice(dual);
            self.loss.ascend(scores, y, q, dual);
            let mut moved = false;
            for (coef, a) in coef.iter_mut().zip(&*dual) {
                *coef = (a - *coef) * weight * c;
                moved |= *coef != 0.0;
            }
            if moved {
                report.updates += 1;
                self.conjugates += weight * (self.loss.conjugate(dual, y) - conjugate);
                self.dual.write(i, dual);
                let less = self.free.as_mut().and_then(|free| free.less_mean(row));
                match less {
                    Some(row) => self.w.add_row(Row::Dense(row), coef),
                    None => self.w.add_row(row, coef),
                }
                foresight.moved(&self.w, data.rows(), others_than_0(coef).map(|(o, _)| o));
                if let Some(free) = &mut self.free {
                    for (o, (change, a)) in coef.iter().zip(&*dual).enumerate() {
                        free.moved(i, o, *change, a * weight * c);
                    }
                }
            }
        }
        self.visits += report.examples as usize;
        Ok(report)
    }

    /// `s_i ||x_i||^2/(lambda n)`.
    #[inline(always)]
    fn q_of<S: Scalar>(&mut self, i: usize, row: Row<'_, S>, weight: f64) -> f64 {
        let q = &mut self.q[i];
        // One that had no weight may have one since.
        if q.is_nan() || *q == 0.0 {
            let norm2 = match &self.free {
                None => row.norm2() + self.w.constant().powi(2),
                Some(free) => free.norm2(row),
            };
            *q = weight * (1.0 / (self.lambda * self.idle.len() as f64)) * norm2;
        }
        *q
    }

    /// To be asked after each pass: whether as many visits were made as there are examples, or the
    /// relative gap may have come down to `tol`, so that it is time for an evaluation.
    pub fn epoch_is_over(&mut self, tol: f64) -> bool {
        self.aim(tol);
        let over = self.visits >= self.idle.len() || self.may_be_solved(tol);
        if over {
            self.visits = 0;
        }
        over
    }

    /// Whether the last pass suggests that the relative gap is at most `tol`.
    pub fn may_be_solved(&self, tol: f64) -> bool {
        if self.free.as_ref().is_some_and(|free| free.imbalance() > tol) {
            return false;
        }
        self.glimpsed <= tol || self.estimate() * self.left <= tol
    }

    /// The relative gap that the last pass has seen, each example just before its step.
    fn estimate(&self) -> f64 {
        let n = self.idle.len() as f64;
        let seen = (self.seen / n).max(0.0);
        let dual = -self.conjugates / n - self.lambda / 2.0 * self.square();
        seen / (dual + seen).max(f64::MIN_POSITIVE)
    }

    /// After about how many epochs [`may_be_solved`](DualAscent::may_be_solved) will say so, if each pass goes on to lessen the
    /// gap as much as the last one, and to visit as many rows: infinite where it grew, or nobody knows.
    pub(crate) fn epochs_to(&self, tol: f64) -> f64 {
        if self.free.as_ref().is_some_and(|free| free.imbalance() > tol) {
            return f64::INFINITY;
        }
        let gap = self.estimate();
        let rate = gap / self.before;
        if !(rate > 0.0 && rate < 1.0) {
            return f64::INFINITY;
        }
        let passes = (tol / (gap * self.left)).ln() / rate.ln();
        passes.max(0.0) * self.due as f64 / self.idle.len() as f64
    }

    /// The mean loss, estimated from the last pass: exact but for what moved meanwhile.
    pub fn mean_loss(&self) -> f64 {
        let beside = self.free.as_ref().map_or(0.0, |free| self.lambda * free.in_cross());
        (self.seen - self.conjugates) / self.idle.len() as f64
            - self.lambda * self.w.norm2()
            - beside
    }

    /// `D(a)`, up to rounding. O(examples + features); with a free intercept D of the nearest feasible point, by a pass over
    /// the data. NaN where the data are not as many rows and features as it ascends on, or a label is no class.
    pub fn dual_value<S: Scalar>(&self, data: &Examples<'_, S>) -> f64 {
        if self.check(data).and_then(|()| data.check_labels(self.loss.classes())).is_err() {
            return f64::NAN;
        }
        if self.is_free() {
            return self.balanced_value(data);
        }
        let conjugates = self.sum_conjugates(data) / data.len() as f64;
        -conjugates - self.lambda / 2.0 * self.w.norm2_afresh()
    }

    /// Begins to make w what it ought to be, `w(a)`: [`add_image`](DualAscent::add_image) of all rows must follow.
    pub(crate) fn clear_image(&mut self) -> Result<(), Error> {
        let outputs = self.w.outputs();
        self.w = Linear::new(outputs, self.w.n_features(), self.w.constant())?;
        self.hindsight = Hindsight::default();
        self.wake_all();
        Ok(())
    }

    fn wake_all(&mut self) {
        self.idle.fill(0);
        (self.own, self.strangers) = (None, false);
    }

    /// Adds what these rows bring to `w(a)`. O(nnz).
    pub(crate) fn add_image<S: Scalar>(&mut self, data: &Examples<'_, S>, rows: Range<usize>) {
        let outputs = self.w.outputs();
        let mut coef = vec![0.0; outputs];
        for i in rows {
            let c = data.weight(i) / (self.lambda * data.len() as f64);
            self.dual.read(i, c, &mut coef);
            self.w.add_row(data.rows().row(i), &coef);
        }
    }

    fn sum_conjugates<S: Scalar>(&self, data: &Examples<'_, S>) -> f64 {
        self.conjugates_of_multiple(data, 1.0)
    }

    /// Steps until the certified relative gap is at most `tol`, >= 0, or for `max_epochs` times as many
    /// visits as there are examples.
    pub fn solve<S: Scalar>(
        &mut self,
        data: &Examples<'_, S>,
        tol: f64,
        max_epochs: usize,
        seed: u64,
    ) -> Result<Certificate, Error> {
        check_tol(tol)?;
        self.turn(data, true)?;
        // Others may have made steps since.
        self.hindsight = Hindsight::default();
        for _ in 0..max_epochs {
            loop {
                let order = self.pass(Sampling::Shuffle, seed)?;
                self.run(data, order)?;
                self.glimpse(data, tol)?;
                self.look_back(data, tol)?;
                if self.epoch_is_over(tol) {
                    break;
                }
            }
            if self.may_be_solved(tol) {
                let certificate = self.certificate(data)?;
                if certificate.relative_gap() <= tol {
                    return Ok(certificate);
                }
            }
        }
        self.certificate(data)
    }

    /// The objective at the [`result`](DualAscent::result), and D. One pass over the data in storage
    /// order, O(nnz).
    pub fn certificate<S: Scalar>(&mut self, data: &Examples<'_, S>) -> Result<Certificate, Error> {
        self.check(data)?;
        data.check_some()?;
        let mut evaluation = self.evaluation::<S>();
        for _ in 0..self.passes_to_evaluate() {
            evaluation.add(self, data, 0..data.len())?;
        }
        evaluation.finish(self, data)
    }

    /// [`certificate`](DualAscent::certificate) by instalments, at the weights rounded to S.
    pub fn evaluation<S: Scalar>(&self) -> DualEvaluation {
        let of = |w: &Linear<f64>| w.rounded::<S>();
        let w = self.free.as_ref().map_or_else(|| of(&self.w), |free| of(&free.model(&self.w)));
        DualEvaluation::new(w, self.is_free())
    }

    /// How often it must be shown all rows: with a free intercept twice.
    pub fn passes_to_evaluate(&self) -> usize {
        1 + usize::from(self.is_free())
    }

    /// w, in the scalar of the data.
    pub fn result<S: Scalar>(&self) -> Linear<S> {
        self.free.as_ref().map_or_else(|| self.w.convert(), |free| free.model(&self.w).convert())
    }

    /// `a`, examples x outputs: multiplied by weights, what a [`Ledger`](crate::Ledger) times n/s is. O(examples x
    /// outputs) where there are many outputs.
    pub fn dual(&self) -> Cow<'_, [f64]> {
        self.dual.all()
    }

    /// The strength of the regularisation.
    pub(crate) fn lambda(&self) -> f64 {
        self.lambda
    }

    /// Number of examples.
    pub fn len(&self) -> usize {
        self.dual.len()
    }

    /// Whether there is no example.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn check<S: Scalar>(&self, data: &Examples<'_, S>) -> Result<(), Error> {
        self.w.check_features(data.rows().n_features())?;
        data.check_len(self.idle.len())
    }
}

/// The rows of a pass; see [`DualAscent::pass`].
#[derive(Clone, Debug)]
pub struct Pass {
    order: Epoch,
    due: Vec<u32>,
}

impl Iterator for Pass {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        self.order.next().map(|k| self.due[k] as usize)
    }
}
