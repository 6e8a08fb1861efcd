//! The one training loop.
//!
//! Minimises `P(w) = lambda/2 ||w||^2 + 1/n sum_i weight_i loss(<w, x_i>; y_i)` by repeating, for
//! t = 1, 2, ... and with `s = t0 + t`:
//!
//! ```text
//! score    s_i = <w, x_i>                      for the rows i of the next batch
//! coef     g_i = -weight_i dloss/ds_i
//! step     w <- (1 - eta lambda) w + eta/m sum_i g_i x_i        m rows in the batch
//! project  w <- min(1, r/||w||) w                               if a radius is given
//! average  count w                                              if averaging
//! ```
//!
//! * Source: Shalev-Shwartz et al. (2011), Algorithm 1 and section 2.3 (mini-batches); Johansson's
//!   notes, Algorithm 1; Stratos' notes, equation 1 and Lemma 2.1; Zinkevich (2003) for steps
//!   eta0/s^p with a ball.
//! * Cost: O(nnz) per example to score, the same again for those with a coefficient; no allocation
//!   per step. Memory beside the hypothesis: 4 bytes per example and output if a ledger is kept.
//! * Differs from the papers: plain Pegasos (1/(lambda s), no projection, from w = 0) sets the scale
//!   to `eta` instead of multiplying it by `1 - 1/s`. Then v is the plain sum of the coefficients
//!   times their rows, and no rounding of the scale ever adds up.

use crate::data::{Examples, Rows};
use crate::error::Error;
use crate::hypothesis::Hypothesis;
use crate::ledger::{Certificate, Ledger};
use crate::loss::Loss;
use crate::scalar::Scalar;
use crate::schedule::Schedule;

/// The parameters of training. All checks are in [`Params::check`], which [`Trainer::new`] calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// Strength of the regularisation; `alpha` in Python.
    pub lambda: f64,
    /// Step sizes.
    pub schedule: Schedule,
    /// Added to the step number in the schedule; tames the first steps when `lambda` is small.
    pub t0: f64,
    /// Projects onto the ball `||w|| <= radius` after each step.
    pub radius: Option<f64>,
    /// Rows per step; `batch_size` in Python.
    pub batch: usize,
    /// Which mean of the iterates is the result.
    pub average: Average,
    /// The first step whose result is averaged.
    pub average_from: u64,
}

/// How iterates are averaged. Costs one more update of a row's features where a row has a
/// coefficient, nothing elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Average {
    /// Not at all: the last iterate is the result.
    None,
    /// All alike.
    Uniform,
    /// Polynomial decay with exponent 3 (Shamir and Zhang 2013): the k-th iterate weighs as
    /// k (k + 1) (k + 2).
    Polynomial,
}

impl Default for Params {
    /// Plain Pegasos at lambda = 1e-4.
    fn default() -> Self {
        Params {
            lambda: 1e-4,
            schedule: Schedule::Pegasos,
            t0: 0.0,
            radius: None,
            batch: 1,
            average: Average::None,
            average_from: 1,
        }
    }
}

impl Params {
    /// Refuses parameters outside their range.
    pub fn check(&self) -> Result<(), Error> {
        let positive = |x: f64| x > 0.0 && x.is_finite();
        if !positive(self.lambda) || !positive(1.0 / self.lambda) {
            return Err(Error::parameter("lambda", self.lambda, "> 0 and finite"));
        }
        if !(self.t0 >= 0.0 && self.t0.is_finite()) {
            return Err(Error::parameter("t0", self.t0, ">= 0 and finite"));
        }
        if let Some(radius) = self.radius.filter(|&r| !positive(r)) {
            return Err(Error::parameter("radius", radius, "> 0 and finite"));
        }
        if self.batch == 0 {
            return Err(Error::parameter("batch", self.batch, ">= 1"));
        }
        self.schedule.check(self.lambda)
    }
}

/// What a [`run`](Trainer::run) has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Report {
    /// Examples visited.
    pub examples: u64,
    /// Of these, how many had a coefficient that was not zero.
    pub updates: u64,
    /// The sum of weight times loss, each example scored before w had learned from it.
    pub loss: f64,
}

impl std::ops::AddAssign for Report {
    fn add_assign(&mut self, other: Report) {
        self.examples += other.examples;
        self.updates += other.updates;
        self.loss += other.loss;
    }
}

/// Trains a hypothesis.
///
/// ```
/// use pegasos::{Binary, Dense, Examples, Hinge, Linear, Params, Sampling, Trainer};
///
/// let x = [0.0, 1.0, 1.0, 0.0, 0.0, 2.0, 2.0, 0.0_f64];
/// let data = Examples::new(Dense::new(&x, 4, 2)?, &[1, 0, 1, 0], None)?;
/// let loss = Binary { loss: Hinge, positive: 1 };
/// let params = Params { lambda: 0.1, ..Params::default() };
///
/// let mut trainer = Trainer::new(Linear::new(1, 2, 0.0)?, loss, params)?;
/// trainer.keep_ledger(data.len());
/// for epoch in 0..1000 {
///     trainer.run(&data, Sampling::Shuffle.epoch(data.len(), 0, epoch)?)?;
/// }
/// let certificate = trainer.certificate(&data)?;
/// assert!(certificate.relative_gap() < 0.01, "{certificate:?}");
/// # Ok::<(), pegasos::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Trainer<H, L> {
    hypothesis: H,
    loss: L,
    params: Params,
    t: u64,
    /// Whether the scale of w is `1/(lambda (t0 + t))`: then v is the plain sum of what was added.
    plain: bool,
    ledger: Option<Ledger>,
}

/// A row's number, the row, and its coefficients.
type Term<'a, X, L> = (usize, <X as Rows>::Row<'a>, <L as Loss>::Scores);

impl<H: Hypothesis, L: Loss> Trainer<H, L> {
    /// A trainer at t = 0 that starts from `hypothesis`.
    pub fn new(hypothesis: H, loss: L, params: Params) -> Result<Self, Error> {
        Trainer::resume(hypothesis, loss, params, 0)
    }

    /// A trainer that has done `t` steps and goes on from there, its hypothesis the one it had.
    pub fn resume(mut hypothesis: H, loss: L, params: Params, t: u64) -> Result<Self, Error> {
        params.check()?;
        let outputs = loss.zeros().as_ref().len();
        if hypothesis.outputs() != outputs {
            return Err(Error::shape(
                "w",
                format_args!("{outputs} outputs, as the loss has"),
                format_args!("{}", hypothesis.outputs()),
            ));
        }
        let plain = params.schedule == Schedule::Pegasos && params.radius.is_none();
        let s = params.t0 + t as f64;
        if plain && hypothesis.norm2() > 0.0 {
            if s > 0.0 {
                hypothesis.rebase(params.schedule.eta(params.lambda, s));
            } else {
                // As the first step would: it shrinks w by all of it.
                hypothesis.scale(0.0);
            }
        }
        Ok(Trainer { hypothesis, loss, params, t, plain, ledger: None })
    }

    /// From here on records the coefficients of `n_examples` examples, so that
    /// [`certificate`](Trainer::certificate) has a dual value. Only these examples may be visited
    /// then. A trainer whose w is not 0 keeps no ledger: what made its w is not known.
    pub fn keep_ledger(&mut self, n_examples: usize) {
        let from_zero = self.hypothesis.norm2() == 0.0;
        let outputs = self.hypothesis.outputs();
        self.ledger = from_zero.then(|| Ledger::new(n_examples, outputs));
    }

    /// Records no more, and forgets what was recorded: for a trainer that goes on with other examples.
    pub fn forget_ledger(&mut self) {
        self.ledger = None;
    }

    /// Steps done.
    pub fn t(&self) -> u64 {
        self.t
    }

    /// The parameters.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// The last iterate.
    pub fn hypothesis(&self) -> &H {
        &self.hypothesis
    }

    /// The violations recorded so far, if a ledger is kept.
    pub fn ledger(&self) -> Option<&Ledger> {
        self.ledger.as_ref()
    }

    /// Visits the examples in the given order, `params.batch` to a step (fewer in the last).
    ///
    /// On an error (a row number out of range, data that are not finite, a column index out of
    /// range) training stops before the step concerned; all steps before it stand.
    pub fn run<X: Rows<Scalar = H::Scalar>>(
        &mut self,
        data: &Examples<'_, X>,
        order: impl IntoIterator<Item = usize>,
    ) -> Result<Report, Error> {
        self.hypothesis.check_features(data.rows().n_features())?;
        let n = data.len();
        if let Some(ledger) = self.ledger.as_ref().filter(|ledger| ledger.len() != n) {
            return Err(Error::shape(
                "X",
                format_args!("{} rows, as the ledger has", ledger.len()),
                format_args!("{n}"),
            ));
        }
        let mut report = Report::default();
        let mut order = Ahead::new(order.into_iter());
        let mut scores = self.loss.zeros();
        let mut coef = self.loss.zeros();
        // The rows of a batch that have a coefficient.
        let mut batch: Vec<Term<'_, X, L>> = Vec::new();
        loop {
            let mut size = 0;
            batch.clear();
            while size < self.params.batch {
                let Some(i) = order.next(data, self.ledger.as_ref())? else {
                    break;
                };
                let row = data.rows().row(i);
                self.hypothesis.score(row, scores.as_mut());
                if !scores.as_ref().iter().all(|s| s.is_finite()) {
                    return Err(data.diagnose(i));
                }
                let value = self.loss.value_and_coef(scores.as_ref(), data.label(i), coef.as_mut());
                report.loss += data.weight(i) * value;
                size += 1;
                if coef.as_ref().iter().any(|&c| c != 0.0) {
                    batch.push((i, row, coef.clone()));
                }
            }
            if size == 0 {
                break;
            }
            report.examples += size as u64;
            report.updates += batch.len() as u64;
            self.step(data, &mut batch, size);
        }
        // One overflow anywhere makes the carried norm infinite or NaN for good.
        let norm = H::Scalar::from_f64(self.hypothesis.norm2().sqrt());
        if !norm.to_f64().is_finite() {
            return Err(Error::non_finite(
                "X",
                format_args!("w overflows at lambda = {:?}", self.params.lambda),
            ));
        }
        Ok(report)
    }

    /// One step, from `size` rows of which `batch` holds those with a coefficient.
    #[inline(always)]
    fn step<X: Rows<Scalar = H::Scalar>>(
        &mut self,
        data: &Examples<'_, X>,
        batch: &mut [Term<'_, X, L>],
        size: usize,
    ) {
        self.t += 1;
        let Params { lambda, schedule, t0, radius, .. } = self.params;
        let s = t0 + self.t as f64;
        let eta = schedule.eta(lambda, s);
        if self.plain {
            self.hypothesis.set_scale(eta);
        } else if schedule == Schedule::Pegasos {
            // eta lambda = 1/s; as a quotient it is exactly 1 at s = 1.
            self.hypothesis.scale((s - 1.0) / s);
        } else {
            self.hypothesis.scale(1.0 - eta * lambda);
        }
        for (i, row, coef) in batch {
            let coef = coef.as_mut();
            let share = data.weight(*i) / size as f64;
            coef.iter_mut().for_each(|c| *c *= share);
            if let Some(ledger) = &mut self.ledger {
                ledger.record(*i, coef);
            }
            coef.iter_mut().for_each(|c| *c *= eta);
            self.hypothesis.add(*row, coef);
        }
        if let Some(radius) = radius {
            let norm2 = self.hypothesis.norm2();
            if norm2 > radius * radius {
                self.hypothesis.scale(radius / norm2.sqrt());
            }
        }
        if self.params.average != Average::None && self.t >= self.params.average_from {
            let k = (self.t - self.params.average_from.max(1) + 1) as f64;
            self.hypothesis.average(match self.params.average {
                Average::Polynomial => k * (k + 1.0) * (k + 2.0),
                _ => 1.0,
            });
        }
    }

    /// The result of training: the mean of the iterates if they are averaged, else the last.
    pub fn result(&self) -> H
    where
        H: Clone,
    {
        self.hypothesis.mean().unwrap_or_else(|| self.hypothesis.clone())
    }

    /// The objective at the [`result`](Trainer::result), and a lower bound on its minimum. One pass
    /// over the data in storage order, O(nnz).
    pub fn certificate<X: Rows<Scalar = H::Scalar>>(
        &self,
        data: &Examples<'_, X>,
    ) -> Result<Certificate, Error> {
        let mut evaluation = self.evaluation(data)?;
        evaluation.add(0..data.len())?;
        evaluation.finish()
    }

    /// [`certificate`](Trainer::certificate) by instalments, for callers who must look up now and
    /// then.
    pub fn evaluation<'a, X: Rows<Scalar = H::Scalar>>(
        &'a self,
        data: &'a Examples<'a, X>,
    ) -> Result<Evaluation<'a, H, L, X>, Error> {
        self.hypothesis.check_features(data.rows().n_features())?;
        let s = self.params.t0 + self.t as f64;
        let factor = data.len() as f64 / s;
        // Without the closed form of w (see `plain`) the ledger is no dual point of this w.
        let ledger = self
            .ledger
            .as_ref()
            .filter(|ledger| self.plain && self.t > 0 && ledger.len() == data.len());
        let (label, weight) = (|i| data.label(i), |i| data.weight(i));
        Ok(Evaluation {
            mean: self.hypothesis.mean(),
            excess: ledger.map_or(1.0, |l| l.excess(&self.loss, factor, label, weight)),
            trainer: self,
            data,
            ledger,
            factor,
            loss: 0.0,
            conjugate: 0.0,
            cross: 0.0,
        })
    }
}

/// A [`Certificate`] in the making; see [`Trainer::evaluation`].
///
/// With `alpha` the ledger's dual point, scaled down by `excess` where it is not feasible, and
/// `w(alpha)` its primal image,
///
/// ```text
/// D = -1/n sum_i weight_i loss*(-alpha_i / weight_i) - lambda/2 ||w(alpha)||^2.
/// ```
///
/// In exact arithmetic `w(alpha)` is w. In f32 w drifts from it, and `||w||^2` in its place would
/// put the drift into D to first order. The pass over the data gives
/// `lambda <w, w(alpha)> = 1/n sum_i <alpha_i, scores_i>`, and
/// `||w(alpha)||^2 = 2 <w, w(alpha)> - ||w||^2` is right up to the drift's square.
#[derive(Debug)]
pub struct Evaluation<'a, H, L, X> {
    trainer: &'a Trainer<H, L>,
    data: &'a Examples<'a, X>,
    /// The averaged iterate, where that is the result.
    mean: Option<H>,
    ledger: Option<&'a Ledger>,
    factor: f64,
    excess: f64,
    loss: f64,
    conjugate: f64,
    cross: f64,
}

impl<H: Hypothesis, L: Loss, X: Rows<Scalar = H::Scalar>> Evaluation<'_, H, L, X> {
    /// Takes in these rows. Every row must be taken in once.
    pub fn add(&mut self, rows: std::ops::Range<usize>) -> Result<(), Error> {
        let Evaluation { trainer, data, .. } = *self;
        let (mut scores, mut scratch) = (trainer.loss.zeros(), trainer.loss.zeros());
        let (scores, scratch) = (scores.as_mut(), scratch.as_mut());
        for i in rows {
            let row = data.rows().row(i);
            let (y, weight) = (data.label(i), data.weight(i));
            self.mean.as_ref().unwrap_or(&trainer.hypothesis).score(row, scores);
            if !scores.iter().all(|s| s.is_finite()) {
                return Err(data.diagnose(i));
            }
            self.loss += weight * trainer.loss.value_and_coef(scores, y, scratch);
            let Some(ledger) = self.ledger.filter(|_| weight > 0.0) else {
                continue;
            };
            if self.mean.is_some() {
                trainer.hypothesis.score(row, scores);
            }
            ledger.dual(i, self.factor, scratch);
            self.cross += scratch.iter().zip(&*scores).map(|(a, s)| a * s).sum::<f64>();
            let c = 1.0 / (weight * self.excess);
            scratch.iter_mut().for_each(|a| *a *= c);
            self.conjugate += weight * trainer.loss.conjugate(scratch, y);
        }
        Ok(())
    }

    /// The certificate, once every row was taken in.
    pub fn finish(self) -> Result<Certificate, Error> {
        let n = self.data.len() as f64;
        let half_lambda = self.trainer.params.lambda / 2.0;
        let last = self.trainer.hypothesis.norm2_afresh();
        let result = self.mean.as_ref().map_or(last, H::norm2_afresh);
        let image = (self.cross / n - half_lambda * last) / (self.excess * self.excess);
        let primal = half_lambda * result + self.loss / n;
        if !primal.is_finite() {
            return Err(Error::non_finite("X", format_args!("the objective overflows")));
        }
        let dual = match self.ledger {
            Some(_) => -self.conjugate / n - image,
            None => f64::NAN,
        };
        Ok(Certificate { primal, dual })
    }
}

/// How many rows ahead of its use a row's contents are asked for. An epoch in random order over
/// 500,000 rows of 54 f32 took 30 ms at 4, 23 to 26 ms at 8 to 24. Without asking it takes 3 times as
/// long there, 4 times on rows of 44 sparse features.
const AHEAD: usize = 8;

/// Row numbers taken from the order at a time.
const WINDOW: usize = 256;

/// Hands out an order, asking memory for the rows to come: first where a row lies and for its label,
/// then, `AHEAD` rows later, for what it holds.
struct Ahead<I> {
    order: I,
    window: [usize; WINDOW],
    /// `window[at..end]` is still to be handed out.
    at: usize,
    end: usize,
    /// Set when the order has come to its end, or to a row that there is not.
    over: bool,
    wrong: Option<usize>,
}

impl<I: Iterator<Item = usize>> Ahead<I> {
    fn new(order: I) -> Self {
        Ahead { order, window: [0; WINDOW], at: 0, end: 0, over: false, wrong: None }
    }

    #[inline(never)]
    fn refill(&mut self, n_rows: usize) {
        self.window.copy_within(self.at..self.end, 0);
        self.end -= self.at;
        self.at = 0;
        while self.end < WINDOW && !self.over {
            match self.order.next() {
                Some(i) if i < n_rows => {
                    self.window[self.end] = i;
                    self.end += 1;
                }
                stop => {
                    self.wrong = stop;
                    self.over = true;
                }
            }
        }
    }

    #[inline(always)]
    fn next<X: Rows>(
        &mut self,
        data: &Examples<'_, X>,
        ledger: Option<&Ledger>,
    ) -> Result<Option<usize>, Error> {
        if self.at + 2 * AHEAD >= self.end && !self.over {
            self.refill(data.len());
        }
        if self.at == self.end {
            return match self.wrong {
                Some(i) => Err(Error::index("order", i, data.len())),
                None => Ok(None),
            };
        }
        let coming = |k: usize| self.window[(self.at + k).min(self.end - 1) % WINDOW];
        data.prefetch_bounds(coming(2 * AHEAD));
        data.rows().prefetch(coming(AHEAD));
        if let Some(ledger) = ledger {
            ledger.prefetch(coming(AHEAD));
        }
        self.at += 1;
        Ok(Some(self.window[(self.at - 1) % WINDOW]))
    }
}
