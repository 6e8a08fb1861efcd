//! The one training loop.
//!
//! Minimises `P(w) = lambda/2 ||w||^2 + 1/n sum_i weight_i loss(<w, x_i>; y_i)` by repeating, for
//! t = 1, 2, ... and with `s = t0 + t`:
//!
//! ```text
//! score    s_i = <w, x_i>                      for the rows i of the next batch
//! coef     g_i = -weight_i dloss/ds_i
//! step     w <- (1 - eta lambda) w + eta/m sum_i g_i x_i        m rows in the batch
//! project  w <- the nearest point of a feasible set              if one is given
//! average  count w                                              if averaging
//! ```
//!
//! With a delay tau, `m = 1` and the `g` of step t was taken at `w_{t-tau}`: [`Block::Delayed`].
//!
//! * Source: Shalev-Shwartz et al. (2011), Algorithm 1 and section 2.3 (mini-batches); Johansson's
//!   notes, Algorithm 1; Stratos' notes, equation 1 and Lemma 2.1; Zinkevich (2003) for steps
//!   eta0/s^p on a feasible set; Zinkevich, Langford and Smola (2009), Algorithm 1, for the delay.
//! * Cost: O(nnz) per example to score, the same again for those with a coefficient; no allocation
//!   per step but for gradients in flight. Memory beside the hypothesis: 4 bytes per example and
//!   output if a ledger is kept.
//! * Differs from the papers: plain Pegasos (1/(lambda s), no projection, from w = 0) sets the scale
//!   to `eta` instead of multiplying it by `1 - 1/s`. Then v is the plain sum of the coefficients
//!   times their rows, and no rounding of the scale ever adds up. Only the loss's gradient is delayed,
//!   the regulariser's is known at once.

mod report;
mod single;
mod step;

use std::collections::VecDeque;

use crate::data::{Matrix, OwnedRow, Row, Rows};
use crate::error::Error;
use crate::examples::Examples;
use crate::feasible::{Ball, Feasible};
use crate::hypothesis::Hypothesis;
use crate::ledger::Ledger;
use crate::loss::Loss;
use crate::order::Ahead;
use crate::params::{Average, Block, Params};
use crate::regret::Regret;
use crate::scalar::Scalar;
use crate::schedule::Schedule;

pub use report::Report;

/// No hypothesis keeps a scale below this for longer than a step.
const LEAST_SCALE: f64 = 1e-10;

/// Nobody has done as many steps; and what anybody does from here on is still a signed number.
const MOST_STEPS: u64 = 1 << 62;

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
// Those that run side by side stand side by side: each step writes, and what another reads must not be in the same line
// of a cache or the next, which come in pairs. Two shards took 1.1 to 1.2 times as long (AMD EPYC, words of benches/shards.py).
#[derive(Clone, Debug)]
#[repr(align(128))]
pub struct Trainer<H: Hypothesis, L: Loss, F = Option<Ball>> {
    pub(crate) hypothesis: H,
    pub(crate) loss: L,
    /// See [`Loss::at_zero`].
    pub(crate) at_zero: f64,
    pub(crate) params: Params<F>,
    pub(crate) t: u64,
    /// Steps that have moved w by a gradient.
    pub(crate) updates: u64,
    /// Whether the scale of w is `1/(lambda (t0 + t))`: then v is the plain sum of what was added.
    pub(crate) plain: bool,
    /// Whether all that made w is in the ledger: false after a merge of shards whose steps were not in
    /// proportion.
    pub(crate) complete: bool,
    pub(crate) ledger: Option<Ledger>,
    pub(crate) regret: Option<Regret>,
    /// Of gradients that have not arrived yet, the oldest first.
    pub(crate) flights: VecDeque<Flight<H::Scalar, L::Scores>>,
}

/// A gradient of the loss that was taken at an earlier w and has not been applied yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Flight<S, C> {
    /// The number of the example in its matrix.
    pub example: usize,
    /// The example's features; whatever they are where the coefficients are 0.
    pub row: OwnedRow<S>,
    /// Its coefficients, times its weight.
    pub coef: C,
}

/// A row of the matrix at hand whose gradient was taken: its number, the row, its coefficients times
/// its weight.
type Term<'a, S, L> = (usize, Row<'a, S>, <L as Loss>::Scores);

impl<H: Hypothesis, L: Loss, F> Trainer<H, L, F> {
    /// The parameters.
    pub fn params(&self) -> &Params<F> {
        &self.params
    }

    /// The last iterate.
    pub fn hypothesis(&self) -> &H {
        &self.hypothesis
    }

    /// The loss.
    pub fn loss(&self) -> &L {
        &self.loss
    }
}

impl<H: Hypothesis, L: Loss, F: Feasible<H>> Trainer<H, L, F> {
    /// A trainer at t = 0 that starts from `hypothesis`, or from the nearest point of the feasible
    /// set.
    pub fn new(hypothesis: H, loss: L, params: Params<F>) -> Result<Self, Error> {
        Trainer::resume(hypothesis, loss, params, 0)
    }

    /// A trainer that has done `t` steps, fewer than 2^62, and goes on from there, its hypothesis the one it had.
    pub fn resume(mut hypothesis: H, loss: L, params: Params<F>, t: u64) -> Result<Self, Error> {
        params.check()?;
        if t >= MOST_STEPS {
            return Err(Error::parameter("t", t, "below 2^62"));
        }
        params.set.check(&hypothesis)?;
        let outputs = loss.outputs();
        if hypothesis.outputs() != outputs {
            return Err(Error::shape(
                "w",
                format_args!("{outputs} outputs, as the loss has"),
                hypothesis.outputs(),
            ));
        }
        hypothesis.carry_norm(!params.set.is_everything());
        if t == 0 {
            params.set.project(&mut hypothesis);
        }
        let plain = params.schedule == Schedule::Pegasos && params.set.is_everything();
        let s = params.t0 + t as f64;
        if plain && !hypothesis.is_zero() {
            if s > 0.0 {
                let eta = params.schedule.eta(params.lambda, s);
                if eta == 0.0 {
                    let want = "so small that lambda (t0 + t) is finite";
                    return Err(Error::parameter("lambda", params.lambda, want));
                }
                let norm = hypothesis.norm2().sqrt();
                hypothesis.rebase(eta);
                // As it is kept: w times lambda (t0 + t), in the scalar of the data.
                let (kept, scalar) = (norm / eta, |x| H::Scalar::from_f64(x).to_f64());
                if scalar(kept) == f64::INFINITY {
                    let lambda = params.lambda;
                    let what = format_args!("w overflows at lambda = {lambda:?}");
                    return Err(Error::non_finite("X", what));
                }
                // Entries may be a good deal smaller than the norm.
                let holds = |norm: f64| scalar(1e-6 * norm) >= 0.999e-6 * norm;
                if holds(norm) && !holds(kept) {
                    let want = "such that w lambda (t0 + t) fits into the scalar of the data";
                    return Err(Error::parameter("lambda", params.lambda, want));
                }
            } else {
                // As the first step would: it shrinks w by all of it.
                hypothesis.scale(0.0);
            }
        }
        let flights = VecDeque::new();
        let at_zero = loss.at_zero();
        Ok(Trainer {
            hypothesis,
            loss,
            at_zero,
            params,
            t,
            updates: 0,
            plain,
            complete: true,
            ledger: None,
            regret: None,
            flights,
        })
    }

    /// From here on records the coefficients of `n_examples` examples, so that
    /// [`certificate`](Trainer::certificate) has a dual value. Only these examples may be visited
    /// then. A trainer whose w is not 0 keeps no ledger: what made its w is not known.
    pub fn keep_ledger(&mut self, n_examples: usize) {
        let from_zero = self.hypothesis.is_zero() && self.flights.is_empty();
        let outputs = self.hypothesis.outputs();
        self.complete = true;
        self.ledger = from_zero.then(|| Ledger::new(n_examples, outputs));
    }

    /// Records no more, and forgets what was recorded: for a trainer that goes on with other examples.
    pub fn forget_ledger(&mut self) {
        self.ledger = None;
    }

    /// From here on counts the loss and what bounds the regret: from what was counted before, or from
    /// nothing. Costs a second pass over the features of rows that have a coefficient.
    pub fn keep_regret(&mut self, regret: Regret) -> Result<(), Error> {
        if let Block::Mean(batch @ 2..) = self.params.block {
            return Err(Error::parameter("batch", batch, "1 where regret is counted"));
        }
        if regret.flight.len() != self.flights.len() {
            return Err(Error::shape(
                "regret",
                format_args!("an account of the {} gradients in flight", self.flights.len()),
                regret.flight.len(),
            ));
        }
        // Each step asks for it.
        self.hypothesis.carry_norm(true);
        self.regret = Some(regret);
        Ok(())
    }

    /// The loss, and what bounds the regret, if they are counted.
    pub fn regret(&self) -> Option<&Regret> {
        self.regret.as_ref()
    }

    /// Gradients that have been taken and not applied yet, the oldest first.
    pub fn flights(&self) -> &VecDeque<Flight<H::Scalar, L::Scores>> {
        &self.flights
    }

    /// Restores what [`flights`](Trainer::flights) gave, for a trainer made by
    /// [`resume`](Trainer::resume).
    pub fn set_flights(&mut self, flights: VecDeque<Flight<H::Scalar, L::Scores>>) {
        self.flights = flights;
    }

    /// Steps done.
    pub fn t(&self) -> u64 {
        self.t
    }

    /// Steps that have moved w by a gradient: what [`Average::Recent`] counts.
    pub fn updates(&self) -> u64 {
        self.updates
    }

    /// Restores what [`updates`](Trainer::updates) gave, for a trainer made by
    /// [`resume`](Trainer::resume); 2^62 where it is more.
    pub fn set_updates(&mut self, updates: u64) {
        self.updates = updates.min(MOST_STEPS);
    }

    /// Goes on from another w, as if `steps` more steps had led to it. A mean of iterates begins with it.
    pub fn jump(&mut self, hypothesis: H, steps: u64) -> Result<(), Error>
    where
        L: Clone,
    {
        let updates = self.updates;
        let t = self.t.saturating_add(steps);
        *self = Trainer::resume(hypothesis, self.loss.clone(), self.params, t)?;
        self.updates = updates;
        self.hypothesis.set_average_weight(0.0);
        if self.params.average != Average::None && t >= self.params.average_from {
            self.hypothesis.average(1.0);
            let total = self.params.average.total(self.params.average_count(t));
            self.hypothesis.set_average_weight(total);
        }
        Ok(())
    }

    /// Refuses a copy that there is no memory for.
    pub(crate) fn check_copy(&self) -> Result<(), Error> {
        self.ledger.as_ref().map_or(Ok(()), Ledger::check_copy)?;
        self.hypothesis.check_copy()
    }

    /// Whether no step on examples of squared norms up to `norm2`, with weights up to `heaviest` that sum to `weight`, can
    /// overflow, in whatever order: so that a model in use may learn from them in place. False says nothing.
    pub fn survives(&self, norm2: f64, heaviest: f64, weight: f64) -> bool {
        let Params { lambda, schedule, t0, .. } = self.params;
        let (in_flight, largest) = self.in_flight();
        // What is added to v is a step over the scale, which is never below the least of all hypotheses'.
        let over_scale = match self.plain {
            true => 1.0,
            false => schedule.eta(lambda, t0 + (self.t + 1) as f64) / LEAST_SCALE,
        };
        let steepest = match self.loss.smooth() {
            Some((slope, curvature)) if self.plain && self.is_at_once() => {
                // The first iterate is 0, whatever the length of the step from it.
                let eta = schedule.eta(lambda, t0 + self.t.max(1) as f64);
                let length = eta * heaviest * self.hypothesis.norm2_of_row(norm2);
                // Less than 2, by more than roundings.
                if length * curvature <= 1.9 { slope } else { f64::INFINITY }
            }
            _ => self.loss.steepest(),
        };
        let total = (weight * steepest + in_flight) * over_scale;
        self.hypothesis.survives(norm2.max(largest), total)
    }

    /// The magnitudes of coefficients that are not applied yet, summed, and the largest squared norm of their rows.
    fn in_flight(&self) -> (f64, f64) {
        let sum = |flight: &Flight<_, L::Scores>| -> f64 {
            flight.coef.as_ref().iter().map(|c| c.abs()).sum()
        };
        let norms = self.flights.iter().map(|flight| flight.row.row().norm2());
        (self.flights.iter().map(sum).sum(), norms.fold(0.0, f64::max))
    }

    /// Refuses gradients in flight whose steps will overflow: whoever brought them must hear of it, not who comes after.
    fn check_flights(&self) -> Result<(), Error> {
        if self.flights.is_empty() {
            return Ok(());
        }
        let Params { lambda, schedule, t0, .. } = self.params;
        let (in_flight, largest) = self.in_flight();
        let step = in_flight * schedule.eta(lambda, t0 + (self.t + 1) as f64) * largest.sqrt();
        // A square of it, as of norms and regrets, must be a number, too. False for NaN.
        match step * step <= H::Scalar::LARGEST {
            true => Ok(()),
            false => Err(Error::non_finite("X", "gradients that are not applied yet overflow")),
        }
    }

    /// Whether a step on one of these examples, as long as the next one, is longer than 2 over the curvature of its loss, of one
    /// whose slopes have no bound: then w may swing ever wider.
    pub(crate) fn swings(&self, data: &Examples<'_, H::Scalar>) -> bool {
        let Some((_, curvature)) = self.loss.smooth() else {
            return false;
        };
        let Params { lambda, schedule, t0, .. } = self.params;
        let eta = schedule.eta(lambda, t0 + (self.t + 1) as f64);
        let square = |i: usize| self.hypothesis.norm2_of_row(data.rows().row(i).norm2());
        (0..data.len()).any(|i| eta * data.weight(i) * square(i) * curvature > 2.0)
    }

    /// Whether every gradient is taken at the w that it moves.
    fn is_at_once(&self) -> bool {
        let at_once = matches!(self.params.block, Block::Mean(_) | Block::Delayed(0));
        at_once && self.flights.is_empty()
    }

    /// Whether a step is one example whose gradient is applied at once, and regret is not counted.
    fn is_plain(&self) -> bool {
        let at_once = self.params.block == Block::Mean(1) && self.flights.is_empty();
        at_once && self.regret.is_none()
    }

    /// The last iterate, for what the loop does not touch: which rows are numbered, what is cached of them.
    pub(crate) fn hypothesis_mut(&mut self) -> &mut H {
        &mut self.hypothesis
    }

    /// The violations recorded so far, if a ledger is kept.
    pub fn ledger(&self) -> Option<&Ledger> {
        self.ledger.as_ref()
    }

    /// Visits the examples in the given order, as many to a step as `params.block` says (fewer in the
    /// last).
    ///
    /// On an error (a row number out of range, data that are not finite, a column index out of
    /// range) training stops before the step concerned; all steps before it stand.
    pub fn run(
        &mut self,
        data: &Examples<'_, H::Scalar>,
        order: impl IntoIterator<Item = usize>,
    ) -> Result<Report, Error> {
        let mut order = order.into_iter();
        self.begin(data, order.size_hint().0);
        let report = self.go_on(data, Ahead::new(&mut order), Report::default());
        let settled = self.settle();
        report.and_then(|report| settled.map(|()| report))
    }

    /// A run begins, over about so many rows; it may come in pieces, each by [`go_on`](Trainer::go_on).
    pub(crate) fn begin(&mut self, data: &Examples<'_, H::Scalar>, rows: usize) {
        self.hypothesis.leave_norm(data.rows(), rows);
    }

    /// Ends a run that was begun.
    pub(crate) fn settle(&mut self) -> Result<(), Error> {
        if !self.hypothesis.has_left_norm() {
            return Ok(());
        }
        self.hypothesis.settle();
        self.check_range()
    }

    /// Refuses a w beyond the range of its scalar.
    pub(crate) fn check_range(&self) -> Result<(), Error> {
        if self.hypothesis.is_finite() {
            return Ok(());
        }
        let why = format_args!("w overflows at lambda = {:?}", self.params.lambda);
        Err(Error::non_finite("X", why))
    }

    /// [`run`](Trainer::run) that goes on with a report: sums do not depend on where one run ended and the next began.
    pub(crate) fn go_on(
        &mut self,
        data: &Examples<'_, H::Scalar>,
        order: Ahead<'_>,
        report: Report,
    ) -> Result<Report, Error> {
        self.hypothesis.check_features(data.rows().n_features())?;
        let n = data.len();
        if let Some(ledger) = self.ledger.as_ref().filter(|ledger| ledger.len() != n) {
            return Err(Error::shape(
                "X",
                format_args!("{} rows, as the ledger has", ledger.len()),
                n,
            ));
        }
        let outputs = self.hypothesis.outputs();
        let features = data.rows().n_features();
        for Flight { example, row, coef } in &self.flights {
            let (listed, coefs) = (self.ledger.is_none() || *example < n, coef.as_ref().len());
            if !listed || coefs != outputs {
                return Err(Error::shape(
                    "flights",
                    format_args!("{outputs} coefficients of an example that the ledger has"),
                    format_args!("{coefs} of example {example}"),
                ));
            }
            let row = row.row();
            if matches!(row, Row::Dense(x) if x.len() != features) || !row.is_within(features) {
                return Err(Error::shape(
                    "flights",
                    format_args!("rows of {features} features, as X has"),
                    format_args!("another row, of example {example}"),
                ));
            }
        }
        self.hypothesis.check_room(self.params.average != Average::None)?;
        if let Some(ledger) = &mut self.ledger {
            ledger.make_room()?;
        }
        self.hypothesis.look_ahead(data.rows(), &[])?;
        let before = self.t;
        // Of rows whose gradients are not applied yet, the oldest first.
        let mut queue = VecDeque::new();
        let (q, plain, single) = (&mut queue, self.is_plain(), self.is_single());
        let report = match *data.rows() {
            Matrix::Dense(x) if single => self.repeat_single(x, data, order, report),
            Matrix::Csr32(x) if single => self.repeat_single(x, data, order, report),
            x if single => self.repeat_single(x, data, order, report),
            x if !plain => self.repeat::<false, _>(x, data, order, report, q),
            Matrix::Dense(x) if H::BRIEF => self.repeat::<true, _>(x, data, order, report, q),
            Matrix::Csr32(x) if H::BRIEF => self.repeat::<true, _>(x, data, order, report, q),
            x => self.repeat::<true, _>(x, data, order, report, q),
        };
        if let Block::Delayed(_) = self.params.block {
            // After an error too: what is in flight belongs to steps that stand.
            self.flights.extend(queue.into_iter().map(|(example, row, coef)| {
                let moves = coef.as_ref().iter().any(|&c| c != 0.0);
                Flight { example, row: if moves { row.to_owned() } else { OwnedRow::EMPTY }, coef }
            }));
        }
        let mut report = report?;
        self.check_flights()?;
        report.steps += self.t - before;
        if !self.hypothesis.has_left_norm() {
            self.check_range()?;
        }
        Ok(report)
    }

    /// The loop, over the rows of `data`, whose layout may be known. `PLAIN` says that a step [is](Trainer::is_plain) so: what
    /// the loop then has no need of (batches, the queue, the account) is not there, and the rest in registers.
    // A function of its own: inlined into a larger one it has fewer registers, and dense rows took 1.13 times as long.
    #[inline(never)]
    fn repeat<'a, const PLAIN: bool, R: Rows<'a, H::Scalar>>(
        &mut self,
        rows: R,
        data: &Examples<'a, H::Scalar>,
        mut order: Ahead<'_>,
        so_far: Report,
        queue: &mut VecDeque<Term<'a, H::Scalar, L>>,
    ) -> Result<Report, Error> {
        let (batch, delay) = match self.params.block {
            _ if PLAIN => (1, 0),
            Block::Mean(batch) => (batch, 0),
            Block::Delayed(delay) => (1, delay),
        };
        let expects = PLAIN && R::FAR_APART && self.hypothesis.expects(data.rows());
        let (ahead, ledger) = (rows.ahead(), self.ledger.as_ref().and_then(Ledger::places));
        // A copy in registers: the argument lives in memory.
        let mut report = so_far;
        let mut scores = self.loss.zeros();
        let mut coef = self.loss.zeros();
        // Room of terms that were applied, to write over.
        let mut spare: Vec<L::Scores> = Vec::new();
        loop {
            let mut size = 0;
            while size < batch {
                let left = batch - size;
                let panel = match self.hypothesis.panel() {
                    // A panel ends with a batch, or within one that is larger.
                    panel if panel > left => left + (panel - left) / batch * batch,
                    panel => panel,
                };
                if panel > 0 {
                    self.hypothesis.look_ahead(data.rows(), order.peek(data.len(), panel))?;
                }
                let Some(i) = order.advance(data.len(), ahead)? else {
                    break;
                };
                let row = rows.get(i);
                let ask = || {
                    let coming = order.ask(rows, data, ahead);
                    if let Some(ledger) = ledger {
                        ledger.prefetch(coming);
                    }
                };
                if R::FAR_APART {
                    ask();
                }
                if expects && let Some(next) = order.upcoming() {
                    self.hypothesis.expect(rows.get(next));
                }
                let room = (&mut scores, &mut coef);
                // The score of a dense row is the sooner known for not waiting for this, and whether w moves.
                let meanwhile = || {
                    if !R::FAR_APART {
                        ask()
                    }
                };
                let moves = self.take::<PLAIN>(i, row, data, room, &mut report, meanwhile)?;
                size += 1;
                report.updates += u64::from(moves);
                if PLAIN {
                    let eta = self.shrink();
                    if moves {
                        self.apply::<false>(i, row, coef.as_mut(), eta, &mut report);
                    }
                    self.project_and_average(moves);
                } else if moves || delay > 0 {
                    let mut room = spare.pop().unwrap_or_else(|| coef.clone());
                    room.as_mut().copy_from_slice(coef.as_ref());
                    queue.push_back((i, row, room));
                }
            }
            if size == 0 {
                return Ok(report);
            }
            report.examples += size as u64;
            if PLAIN {
                continue;
            }
            // Due are all but those as young as the delay; first those from earlier runs.
            let due = (self.flights.len() + queue.len()).saturating_sub(delay);
            let late = self.flights.len().min(due);
            if self.regret.is_some() {
                let arriving = if delay == 0 { late + size } else { due };
                // Only a gradient taken at the present w has a known product with it.
                let fresh = delay == 0 && arriving == 1;
                let fresh = fresh.then_some((scores.as_ref(), coef.as_ref()));
                self.count_regret(fresh, arriving);
            }
            let eta = self.shrink();
            for _ in 0..late {
                if let Some(Flight { example, row, mut coef }) = self.flights.pop_front() {
                    self.apply::<true>(example, row.row(), coef.as_mut(), eta, &mut report);
                }
            }
            let share = 1.0 / size as f64;
            for _ in late..due {
                if let Some((i, row, mut coef)) = queue.pop_front() {
                    coef.as_mut().iter_mut().for_each(|c| *c *= share);
                    self.apply::<false>(i, row, coef.as_mut(), eta, &mut report);
                    spare.push(coef);
                }
            }
            self.project_and_average(due > 0);
        }
    }

    /// The result of training: the mean of the iterates if they are averaged, else the last.
    pub fn result(&self) -> H
    where
        H: Clone,
    {
        self.hypothesis.mean().unwrap_or_else(|| self.hypothesis.clone())
    }

    /// Whether the sum of its coefficients is a point of the dual: of plain Pegasos in a Hilbert space.
    pub fn certifies(&self) -> bool {
        self.plain && self.hypothesis.is_positive()
    }

    /// Whether dual ascent can go on from that point as its steps would: one example each, the last iterate the result
    /// (an average of recent ones is for those who end with Pegasos; it asks for nothing).
    pub fn may_ascend(&self) -> bool {
        let last = matches!(self.params.average, Average::None | Average::Recent { .. });
        self.certifies() && last && self.params.block == Block::Mean(1)
    }

    /// The ledger and the factor that makes it a point of the dual whose image is w, if there is one.
    pub(crate) fn dual_point(&self, n_examples: usize) -> Option<(&Ledger, f64)> {
        let ledger = self.ledger.as_ref()?;
        let s = self.params.t0 + self.t as f64;
        // Without the closed form of w (see `plain`) the ledger is no dual point of this w.
        let is_one = self.plain && self.complete && self.t > 0 && ledger.len() == n_examples;
        // Nor is there a dual where w lives in no Hilbert space.
        let is_one = is_one && self.hypothesis.is_positive();
        is_one.then_some((ledger, n_examples as f64 / s))
    }
}
