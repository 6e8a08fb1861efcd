//! Trainers side by side: one against the rest for every class, and copies of one trainer on shards of
//! the data.
//!
//! * Shards: each copy learns from its part of an epoch's order, then the copies are averaged, each
//!   weighted by its steps (Zinkevich, Weimer, Smola and Li 2010, Algorithm 3; once an epoch instead of
//!   once at the end). The number of shards is a parameter of the result, the number of threads is
//!   not.
//! * Carried: a copy counts its own steps, so the k-th of K begins an epoch at step `t/K` and steps K
//!   times as far as one trainer would. With plain Pegasos `w_k = v_k/(lambda t_k)`, so the weighted
//!   average is `1/(lambda t)` times the sum over all of the `v_k`: the closed form again, and with it
//!   the ledger's certificate.
//! * Cost: an epoch's time over the number of threads, and per epoch and shard O(size of w + examples)
//!   for copying and averaging. Memory: a copy of w, its average and its ledger for every shard.

use crate::error::Error;
use crate::examples::Examples;
use crate::feasible::Feasible;
use crate::hypothesis::{Combine, Hypothesis};
use crate::ledger::Ledger;
use crate::linear::Linear;
use crate::loss::Loss;
use crate::order::Ahead;
use crate::params::{Block, Params};
use crate::scalar::Scalar;
use crate::threads::side_by_side;
use crate::trainer::{Report, Trainer};

/// Adds up reports; the first error, if there is one.
pub(crate) fn total(reports: Vec<Result<Report, Error>>) -> Result<Report, Error> {
    let mut total = Report::default();
    for report in reports {
        total += report?;
    }
    Ok(total)
}

impl<H: Combine + Clone, L: Loss + Clone, F: Feasible<H>> Trainer<H, L, F> {
    /// The weighted average of trainers that learned apart (Zinkevich, Weimer, Smola and Li 2010,
    /// Algorithm 3): factors, which usually sum to 1, and trainers. It goes on with the parameters of
    /// the first, as one that has done the steps of all. Nothing in flight, no ledger and no regret are
    /// taken over.
    pub fn average_of(parts: &[(f64, &Self)]) -> Result<Self, Error> {
        if let Some((c, _)) = parts.iter().find(|(c, _)| !c.is_finite()) {
            return Err(Error::parameter("factor", c, "finite"));
        }
        let hypotheses: Vec<(f64, &H)> =
            parts.iter().map(|(c, part)| (*c, &part.hypothesis)).collect();
        let mut hypothesis = H::combine(&hypotheses)?;
        // `combine` refuses to combine nothing.
        let Trainer { params, loss, .. } = parts[0].1;
        // More than a trainer can have done is refused.
        let t = parts.iter().fold(0_u64, |sum, (_, part)| sum.saturating_add(part.t));
        hypothesis.set_average_weight(params.average.total(params.average_count(t)));
        let mut average = Trainer::resume(hypothesis, loss.clone(), *params, t)?;
        average
            .set_updates(parts.iter().fold(0, |sum, (_, part)| sum.saturating_add(part.updates)));
        Ok(average)
    }

    /// A copy that counts `t` steps so far, for one of several that learn apart and are then
    /// [averaged](Trainer::average_of): of a trainer that has done T, they count T between them. A step of the copy is then
    /// as long as it has to be for its average with the others to have moved as far as T steps let it. Offsets stay as they
    /// are: neither `t0`, which keeps the first steps short, nor [`Params::average_from`] is divided. Nothing in flight, no
    /// ledger and no regret are taken over.
    ///
    /// ```
    /// use pegasos::{Binary, Dense, Examples, Hinge, Hypothesis, Linear, Params, Trainer};
    ///
    /// let x = [0.0, 1.0, 1.0, 0.0, 0.0, 2.0, 2.0, 0.0_f64];
    /// let data = Examples::new(Dense::new(&x, 4, 2)?, &[1, 0, 1, 0], None)?;
    /// let loss = Binary { loss: Hinge, positive: 1 };
    /// let mut trainer = Trainer::new(Linear::new(1, 2, 0.0)?, loss, Params { lambda: 0.1, ..Params::default() })?;
    /// for _ in 0..100 {
    ///     let t = trainer.t() / 2;
    ///     let mut halves = [trainer.share(t)?, trainer.share(t)?];
    ///     halves[0].run(&data, [0, 1])?;
    ///     halves[1].run(&data, [2, 3])?;
    ///     trainer = Trainer::average_of(&[(0.5, &halves[0]), (0.5, &halves[1])])?;
    /// }
    /// assert_eq!(trainer.t(), 400);
    /// # Ok::<(), pegasos::Error>(())
    /// ```
    pub fn share(&self, t: u64) -> Result<Self, Error> {
        self.check_copy()?;
        let share = if self.t > 0 { t as f64 / self.t as f64 } else { 1.0 };
        self.counting(t, share, self.params)
    }

    /// A copy that does `share` of the steps: its own count of them begins at that part of t.
    pub(crate) fn shard(&self, share: f64) -> Result<Self, Error> {
        self.check_copy()?;
        if share == 1.0 {
            let ledger = self.ledger.as_ref().map(Ledger::empty);
            return Ok(Trainer { ledger, ..self.clone() });
        }
        let steps = |t: u64| (t as f64 * share).round() as u64;
        let Params { t0, average_from, .. } = self.params;
        let first = 1 + steps(average_from.max(1) - 1);
        let params = Params { t0: t0 * share, average_from: first, ..self.params };
        let mut shard = self.counting(steps(self.t), share, params)?;
        shard.ledger = self.ledger.as_ref().map(Ledger::empty);
        Ok(shard)
    }

    /// A copy with these parameters that counts so many steps, and this share of the updates.
    fn counting(&self, t: u64, share: f64, params: Params<F>) -> Result<Self, Error> {
        let mut hypothesis = self.hypothesis.clone();
        hypothesis.set_average_weight(params.average.total(params.average_count(t)));
        let mut copy = Trainer::resume(hypothesis, self.loss.clone(), params, t)?;
        copy.set_updates((self.updates as f64 * share).round() as u64);
        Ok(copy)
    }

    /// Takes in what copies made by [`shard`](Trainer::shard) have learned.
    pub(crate) fn merge(&mut self, shards: &[Self], shares: &[f64]) -> Result<(), Error> {
        let before: Vec<f64> = shares.iter().map(|share| self.t as f64 * share).collect();
        let done = |k: usize| shards[k].t as f64 - before[k].round();
        let all: f64 = (0..shards.len()).map(done).sum();
        let t = self.t + all as u64;
        // Else w is no longer 1/(lambda t) times the sum of what the ledger has.
        let exact = (0..shards.len()).all(|k| {
            (before[k] - before[k].round()).abs().max((done(k) - shares[k] * all).abs()) < 1e-6
        });
        let hypothesis = match shards {
            [shard] => shard.hypothesis.clone(),
            _ => {
                let parts: Vec<(f64, &H)> =
                    shares.iter().copied().zip(shards.iter().map(|s| &s.hypothesis)).collect();
                let mut hypothesis = H::combine(&parts)?;
                let count = self.params.average_count(t);
                hypothesis.set_average_weight(self.params.average.total(count));
                hypothesis
            }
        };
        let complete = self.complete && exact;
        let of_shards: u64 = shards.iter().map(|shard| shard.updates).sum();
        let before: u64 = shares.iter().map(|c| (self.updates as f64 * c).round() as u64).sum();
        let updates = self.updates + of_shards - before;
        let ledger = self.ledger.take().map(|mut ledger| {
            shards.iter().filter_map(|shard| shard.ledger.as_ref()).for_each(|l| ledger.add(l));
            ledger
        });
        *self = Trainer::resume(hypothesis, self.loss.clone(), self.params, t)?;
        (self.ledger, self.complete, self.updates) = (ledger, complete, updates);
        Ok(())
    }
}

/// Runs every trainer over the same order of the same examples, side by side on the threads of the
/// current rayon pool (one after the other without the feature `rayon`). The number of threads
/// changes no bit of the result. Reports are summed.
///
/// On an error the trainers may have stopped at different steps; the first trainer's error is
/// returned.
///
/// ```
/// use pegasos::{Binary, Dense, Examples, Hinge, Linear, Params, Sampling, Trainer};
///
/// let x = [0.0, 0.0, 5.0, 0.0, 0.0, 5.0_f64];
/// let data = Examples::new(Dense::new(&x, 3, 2)?, &[0, 1, 2], None)?;
/// let mut trainers = (0..3)
///     .map(|positive| {
///         let loss = Binary { loss: Hinge, positive };
///         Trainer::new(Linear::new(1, 2, 1.0)?, loss, Params::default())
///     })
///     .collect::<Result<Vec<_>, _>>()?;
/// let order: Vec<usize> = Sampling::Shuffle.epoch(3, 0, 0)?.collect();
/// let report = pegasos::run_all(&mut trainers, &data, &order)?;
/// assert_eq!(report.examples, 9);
/// # Ok::<(), pegasos::Error>(())
/// ```
pub fn run_all<H, L, F>(
    trainers: &mut [Trainer<H, L, F>],
    data: &Examples<'_, H::Scalar>,
    order: &[usize],
) -> Result<Report, Error>
where
    H: Hypothesis + Send,
    L: Loss + Send,
    F: Feasible<H> + Send,
{
    total(side_by_side(trainers, |_, trainer| trainer.run(data, order.iter().copied())))
}

/// Copies of a trainer, for an epoch on shards of the data.
///
/// ```
/// use pegasos::{Binary, Dense, Examples, Hinge, Linear, Params, Sampling, Shards, Trainer};
///
/// let x = [0.0, 1.0, 1.0, 0.0, 0.0, 2.0, 2.0, 0.0_f64];
/// let data = Examples::new(Dense::new(&x, 4, 2)?, &[1, 0, 1, 0], None)?;
/// let loss = Binary { loss: Hinge, positive: 1 };
/// let params = Params { lambda: 0.1, ..Params::default() };
/// let mut trainer = Trainer::new(Linear::new(1, 2, 0.0)?, loss, params)?;
/// trainer.keep_ledger(data.len());
/// for epoch in 0..1000 {
///     let order: Vec<usize> = Sampling::Shuffle.epoch(data.len(), 0, epoch)?.collect();
///     let parts: Vec<&[usize]> = order.chunks(2).collect();
///     let mut shards = Shards::split(&trainer, &[2, 2])?;
///     shards.run(&data, &parts)?;
///     shards.merge_into(&mut trainer)?;
/// }
/// assert_eq!(trainer.t(), 4000);
/// assert!(trainer.certificate(&data)?.relative_gap() < 0.01);
/// # Ok::<(), pegasos::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Shards<S: Scalar, L: Loss, F> {
    trainers: Vec<Trainer<Linear<S>, L, F>>,
    /// The share of each in the steps of the epoch.
    shares: Vec<f64>,
    /// What each has seen in the last run.
    reports: Vec<Report>,
    /// Where the trainer was that they are copies of.
    t: u64,
}

impl<S, L, F> Shards<S, L, F>
where
    S: Scalar,
    L: Loss + Clone + Send,
    F: Feasible<Linear<S>> + Send,
{
    /// Copies `trainer` once for each shard; `rows` says how many rows each will visit.
    pub fn split(trainer: &Trainer<Linear<S>, L, F>, rows: &[usize]) -> Result<Self, Error> {
        let batch = match trainer.params().block {
            Block::Mean(batch) => batch,
            Block::Delayed(delay) => {
                return Err(Error::parameter("delay", delay, "absent where there are shards"));
            }
        };
        if trainer.regret().is_some() {
            return Err(Error::parameter("shards", rows.len(), "absent where regret is counted"));
        }
        if rows.is_empty() || rows.contains(&0) {
            return Err(Error::parameter("shards", rows.len(), "such that each has a row"));
        }
        let steps: Vec<f64> = rows.iter().map(|rows| rows.div_ceil(batch) as f64).collect();
        let all: f64 = steps.iter().sum();
        let shares: Vec<f64> = steps.iter().map(|steps| steps / all).collect();
        let copies = shares.iter().map(|&share| trainer.shard(share));
        let reports = vec![Report::default(); shares.len()];
        let trainers = copies.collect::<Result<_, _>>()?;
        Ok(Shards { trainers, shares, reports, t: trainer.t() })
    }

    /// Runs each shard on its own part of an order, side by side. May be called again and again: a
    /// part need not come in one piece.
    pub fn run(&mut self, data: &Examples<'_, S>, parts: &[&[usize]]) -> Result<Report, Error> {
        self.reports.fill(Report::default());
        let rows: Vec<usize> = parts.iter().map(|part| part.len()).collect();
        self.begin(data, &rows);
        let report = self.go_on(data, parts);
        let settled = self.settle();
        report.and_then(|report| settled.map(|()| report))
    }

    /// A run begins, over about so many rows each, that may come in pieces.
    pub(crate) fn begin(&mut self, data: &Examples<'_, S>, rows: &[usize]) {
        self.trainers.iter_mut().zip(rows).for_each(|(trainer, rows)| trainer.begin(data, *rows));
    }

    /// Ends it.
    fn settle(&mut self) -> Result<(), Error> {
        let settled = side_by_side(&mut self.trainers, |_, trainer| trainer.settle());
        settled.into_iter().collect()
    }

    /// [`run`](Shards::run) that goes on with the reports of the last one; returns what they come to.
    pub(crate) fn go_on(
        &mut self,
        data: &Examples<'_, S>,
        parts: &[&[usize]],
    ) -> Result<Report, Error> {
        if parts.len() != self.trainers.len() {
            return Err(Error::shape(
                "parts",
                format_args!("one for each of {} shards", self.trainers.len()),
                parts.len(),
            ));
        }
        let mut shards: Vec<_> = self.trainers.iter_mut().zip(&mut self.reports).collect();
        total(side_by_side(&mut shards, |k, (trainer, report)| {
            let mut rows = parts[k].iter().copied();
            **report = trainer.go_on(data, Ahead::new(&mut rows), **report)?;
            Ok(**report)
        }))
    }

    /// Gives `trainer`, which was split, what its copies have learned. Refuses one that has made steps since, or was given them
    /// before: its ledger would then be that of another w, and certificates wrong.
    pub fn merge_into(mut self, trainer: &mut Trainer<Linear<S>, L, F>) -> Result<(), Error> {
        if trainer.t() != self.t {
            let want = format_args!("made {} steps, as when it was split", self.t);
            return Err(Error::shape("trainer", want, trainer.t()));
        }
        self.settle()?;
        trainer.merge(&self.trainers, &self.shares)
    }
}
