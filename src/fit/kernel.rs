//! A kernel problem, with a budget or without, by instalments.

use std::sync::Arc;

use super::linear::take;
use super::refit::worth;
use super::{Ascent, Policy, Problem, UNKNOWN, finest};
use crate::budget::Budgeted;
use crate::error::Error;
use crate::evaluation::Evaluation;
use crate::examples::Examples;
use crate::expansion::{Expansion, PANEL};
use crate::hypothesis::Hypothesis;
use crate::kernel_dual::{Folds, KernelAscent};
use crate::ledger::Certificate;
use crate::loss::Loss;
use crate::metric::{Mapped, Metric};
use crate::order::{Ahead, Order};
use crate::params::Block;
use crate::scalar::Scalar;
use crate::simd::WIDTH;
use crate::trainer::{Report, Trainer};

/// After dual ascent no step moves the score of its own example by more than 1 over this, be kernel values as large as they may;
/// as long as a trainer may count so many steps and go on.
const SHORT: f64 = 10.0;
const MOST: f64 = (1_u64 << 61) as f64;

/// Rows that are mapped at a time.
const MAPPED: usize = 1024;

/// A w of support vectors, bounded in number or not.
pub trait Machine: Hypothesis + Clone + Send {
    /// How many rows are best visited at a time.
    const TOGETHER: usize;
    /// How many vectors there are.
    fn n_vectors(&self) -> usize;
    /// What predicts.
    fn model<L: Loss>(trainer: &Trainer<Self, L>) -> Result<Expansion<Self::Scalar>, Error>;
    /// Whether the objective is evaluated: not where a budget moves w away from any certificate.
    const EVALUATES: bool;
    /// Itself, where it remembers rows, and kernel values for later epochs.
    fn unlimited(&mut self) -> Option<&mut Expansion<Self::Scalar>> {
        None
    }
    /// Dual ascent from where a trainer is, where there is any.
    fn ascent<L: Loss + Clone>(
        _trainer: &Trainer<Self, L>,
        _data: &Examples<'_, Self::Scalar>,
        _cache: usize,
    ) -> Result<Option<KernelAscent<Self::Scalar, L>>, Error> {
        Ok(None)
    }
    /// The w that dual ascent has come to, where there is any.
    fn ascended(_w: Expansion<Self::Scalar>) -> Option<Self> {
        None
    }
}

impl<S: Scalar> Machine for Expansion<S> {
    const TOGETHER: usize = PANEL;
    const EVALUATES: bool = true;

    fn n_vectors(&self) -> usize {
        Expansion::n_vectors(self)
    }

    fn unlimited(&mut self) -> Option<&mut Self> {
        Some(self)
    }

    fn model<L: Loss>(trainer: &Trainer<Self, L>) -> Result<Self, Error> {
        Ok(trainer.result())
    }

    fn ascent<L: Loss + Clone>(
        trainer: &Trainer<Self, L>,
        data: &Examples<'_, S>,
        cache: usize,
    ) -> Result<Option<KernelAscent<S, L>>, Error> {
        KernelAscent::take_over(trainer, data, cache).map(Some)
    }

    fn ascended(w: Self) -> Option<Self> {
        Some(w)
    }
}

impl<S: Scalar> Machine for Budgeted<S> {
    const TOGETHER: usize = WIDTH;
    const EVALUATES: bool = false;

    fn n_vectors(&self) -> usize {
        Budgeted::n_vectors(self)
    }

    fn model<L: Loss>(trainer: &Trainer<Self, L>) -> Result<Expansion<S>, Error> {
        trainer.hypothesis().model()
    }
}

/// What was so after so many examples: steps, examples, mistakes among them, and the sum of the gradient errors.
pub type Record = (u64, u64, u64, f64);

/// A kernel problem: a trainer of a w of support vectors, and dual ascent where that goes on in its stead.
pub struct KernelProblem<H: Machine, L: Loss> {
    trainer: Trainer<H, L>,
    dual: Option<KernelAscent<H::Scalar, L>>,
    /// What predicts, as long as the trainer has not gone on: a copy, as others may train meanwhile.
    frozen: Option<Arc<Expansion<H::Scalar>>>,
    /// Of all epochs before, and of the one at hand.
    before: Report,
    sum: Report,
    order: Option<Box<dyn Order + Send>>,
    evaluation: Option<(Evaluation<H>, usize)>,
    /// How many examples lie between two records, if there are any, and those of the last epoch.
    every: Option<u64>,
    records: Vec<Record>,
    /// What rows are mapped by before anybody sees them.
    mapped: Option<Mapped<H::Scalar>>,
    /// What the next dual ascent holds out, and what has come of it.
    folds: Option<Folds>,
    held_out: Option<Vec<f64>>,
}

impl<H: Machine, L: Loss + Clone> From<Trainer<H, L>> for KernelProblem<H, L> {
    fn from(trainer: Trainer<H, L>) -> Self {
        KernelProblem::resume(trainer, Report::default())
    }
}

impl<H: Machine, L: Loss + Clone> KernelProblem<H, L> {
    /// With what earlier runs of the trainer have seen.
    pub fn resume(trainer: Trainer<H, L>, before: Report) -> Self {
        KernelProblem {
            trainer,
            dual: None,
            frozen: None,
            before,
            sum: Report::default(),
            order: None,
            evaluation: None,
            every: None,
            records: Vec::new(),
            mapped: None,
            folds: None,
            held_out: None,
        }
    }

    /// The trainer; while dual ascent goes on, as it found it.
    pub fn trainer(&self) -> &Trainer<H, L> {
        &self.trainer
    }

    /// The trainer, about to change.
    pub fn trainer_mut(&mut self) -> &mut Trainer<H, L> {
        self.frozen = None;
        &mut self.trainer
    }

    /// What all runs have seen.
    pub fn total(&self) -> Report {
        let mut total = self.before;
        total += self.sum;
        total
    }

    /// From here on records every so many examples what was so; nothing more for `None`, or 0.
    pub fn record(&mut self, every: Option<u64>) {
        self.every = every.filter(|every| *every > 0);
    }

    /// From here on epochs over so many rows map these first, some at a time; only of a w of bounded number, which keeps no
    /// row. `None`: no more.
    pub fn map_by(
        &mut self,
        metric: Option<Metric<H::Scalar>>,
        n_rows: usize,
    ) -> Result<(), Error> {
        if H::EVALUATES && metric.is_some() {
            let want = "none without a budget, where all rows are needed: map them";
            return Err(Error::parameter("metric", "one", want));
        }
        self.mapped = metric.map(|metric| Mapped::new(metric, n_rows)).transpose()?;
        Ok(())
    }

    /// The next dual ascent finds out, too, what examples score where their fold is held out, if it can: see
    /// [`KernelAscent::hold_out`].
    pub fn hold_out(&mut self, folds: Folds) {
        (self.folds, self.held_out) = (Some(folds), None);
    }

    /// What it has found, examples x outputs, once it is over: see [`KernelAscent::held_out_scores`]. To be had once.
    pub fn take_held_out(&mut self) -> Option<Vec<f64>> {
        self.folds = None;
        self.held_out.take()
    }

    /// The records of the last epoch.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// A copy, but not of what is under way or cached for later epochs.
    pub fn copy(&self) -> Result<Self, Error> {
        self.trainer.check_copy()?;
        let mut copy = KernelProblem::resume(self.trainer.clone(), self.total());
        copy.frozen = self.frozen.clone();
        Ok(copy)
    }

    /// What predicts, made when first asked for. O(size of w).
    pub fn model(&mut self) -> Result<Arc<Expansion<H::Scalar>>, Error> {
        if let Some(model) = &self.frozen {
            return Ok(model.clone());
        }
        let model = Arc::new(H::model(&self.trainer)?);
        self.frozen = Some(model.clone());
        Ok(model)
    }

    /// The rows are those of the matrix that the first fit has seen, of which this may be a copy; see
    /// [`Expansion::meet_rows_again`]. Nothing on a budget, whose vectors are rows of none.
    pub fn meet_rows_again(&mut self, n_rows: usize) -> Result<(), Error> {
        self.trainer.forget_ledger();
        let w = self.trainer.hypothesis_mut().unlimited();
        w.map_or(Ok(()), |w| w.meet_rows_again(n_rows))
    }

    /// The rows are no longer those of one matrix.
    pub fn forget_rows(&mut self) {
        self.trainer.forget_ledger();
        if let Some(w) = self.trainer.hypothesis_mut().unlimited() {
            w.forget_rows();
        }
    }
}

impl<H: Machine, L: Loss + Clone + Send> Problem<H::Scalar> for KernelProblem<H, L> {
    fn lambda(&self) -> f64 {
        self.trainer.params().lambda
    }

    fn evaluates_always(&self) -> bool {
        H::EVALUATES
    }

    fn only_ascends(&self) -> bool {
        // A pass of Pegasos costs far more than the rounds which its end would save hinge losses of single scores; of several
        // classes jointly it saves about what it costs. And where slopes have no bound, its first steps, of 1/lambda, may throw w
        // beyond all numbers. In trials on an AMD EPYC, with and without it, seconds: the checkerboard (100,000, C = 10 and 1e4)
        // 6.1 and 2.5, 5.6 and 3.2; a9a 4.2 and 4.2 (to a gap of 1e-3 4.3 and 4.8); one class of mnist's first 20,000 3.1 and 2.3.
        let loss = self.trainer.loss();
        let apart = loss.hinge_sign(0, 0).is_some();
        H::EVALUATES && (apart || loss.problems() > 1 || loss.steepest().is_infinite())
    }

    fn certifies(&self) -> bool {
        H::EVALUATES && self.trainer.certifies()
    }

    fn may_ascend(&self) -> bool {
        H::EVALUATES && self.trainer.may_ascend()
    }

    fn cost(&self, n_features: usize) -> usize {
        // Products with all vectors, and for projections with a matrix of them.
        let vectors = self.trainer.hypothesis().n_vectors();
        vectors.saturating_mul(n_features + vectors)
    }

    fn prepare(&mut self, n_examples: usize, ledger: bool, cache: usize) -> Result<(), Error> {
        if let Some(w) = self.trainer.hypothesis_mut().unlimited() {
            w.number_rows(n_examples)?;
            w.cache_kernel(cache);
        }
        if ledger {
            self.trainer.keep_ledger(n_examples);
        }
        Ok(())
    }

    fn begin_epoch(
        &mut self,
        _: &Examples<'_, H::Scalar>,
        order: Box<dyn Order + Send>,
        shards: usize,
    ) -> Result<(), Error> {
        if shards != 1 {
            return Err(Error::parameter("shards", shards, "1 where there are kernels"));
        }
        self.before = self.total();
        (self.order, self.sum, self.evaluation) = (Some(order), Report::default(), None);
        self.records.clear();
        Ok(())
    }

    fn visit(&mut self, data: &Examples<'_, H::Scalar>, size: usize) -> Result<usize, Error> {
        let examples = self.total().examples;
        let Some(order) = &mut self.order else {
            return Ok(0);
        };
        self.frozen = None;
        let batch = match self.trainer.params().block {
            Block::Mean(batch) => batch,
            Block::Delayed(_) => 1,
        };
        // A piece ends with a batch and a panel, or where a record is due: so its size changes no bit.
        let whole = |size: usize, unit: usize| size.div_ceil(unit).saturating_mul(unit);
        let panel = H::TOGETHER.max(batch) / batch * batch;
        let size = whole(size, panel);
        let due = self.every.map(|every| whole((every - examples % every) as usize, batch));
        let mut size = size.min(due.unwrap_or(usize::MAX));
        let so_far = self.sum;
        self.sum = if let Some(mapped) = &mut self.mapped {
            size = size.min(whole(MAPPED, panel));
            // A batch may be larger than any epoch.
            let mut rows = Vec::new();
            take(&mut **order, size, &mut rows);
            if let Some(i) = rows.iter().find(|&&i| i >= data.len()) {
                return Err(Error::index("rows", i, data.len()));
            }
            let x = mapped.load(data.rows(), &rows)?;
            let mut rows = rows.into_iter();
            self.trainer.go_on(&data.with_rows(x), Ahead::new(&mut rows), so_far)?
        } else {
            self.trainer.go_on(data, Ahead::take(&mut **order, size), so_far)?
        };
        let visited = (self.sum.examples - so_far.examples) as usize;
        if visited == size && due == Some(size) {
            let Report { steps, examples, mistakes, gradient_error, .. } = self.total();
            self.records.push((steps, examples, mistakes, gradient_error));
        }
        Ok(visited)
    }

    fn seen(&self) -> Report {
        self.sum
    }

    fn evaluate(
        &mut self,
        data: &Examples<'_, H::Scalar>,
        _: f64,
        _: bool,
        size: usize,
    ) -> Result<Option<Certificate>, Error> {
        if !H::EVALUATES {
            return Ok(Some(UNKNOWN));
        }
        let (mut evaluation, from) = match self.evaluation.take() {
            Some(evaluation) => evaluation,
            None => (self.trainer.evaluation(data)?, 0),
        };
        let end = from + size.min(data.len() - from);
        evaluation.add(&self.trainer, data, from..end)?;
        if end < data.len() {
            self.evaluation = Some((evaluation, end));
            return Ok(None);
        }
        evaluation.finish(&self.trainer, data).map(Some)
    }

    fn begin_ascent(&mut self, data: &Examples<'_, H::Scalar>, cache: usize) -> Result<(), Error> {
        self.dual = H::ascent(&self.trainer, data, cache)?;
        if let (Some(dual), Some(folds)) = (&mut self.dual, self.folds.take()) {
            dual.hold_out(data, folds)?;
        }
        Ok(())
    }

    fn ascend(
        &mut self,
        data: &Examples<'_, H::Scalar>,
        policy: &Policy,
        size: usize,
    ) -> Result<Ascent, Error> {
        let none = Ascent::Epoch { loss: f64::NAN, visits: 0, certificate: Some(UNKNOWN) };
        let Some(dual) = &mut self.dual else {
            return Ok(none);
        };
        let tol = policy.tol.unwrap_or(0.0).max(finest::<H::Scalar>());
        Ok(match dual.advance(data, tol, size)? {
            None => Ascent::Going { rows: 0, anew: false },
            found => Ascent::Epoch { loss: dual.mean_loss(), visits: 0, certificate: found },
        })
    }

    fn end_ascent(&mut self, data: &Examples<'_, H::Scalar>) -> Result<(), Error> {
        (self.order, self.evaluation) = (None, None);
        self.trainer.forget_ledger();
        if let Some(w) = self.trainer.hypothesis_mut().unlimited() {
            w.cache_kernel(0);
        }
        // Where not even its beginning is known, the trainer has all that was learned.
        let settled = self.dual.take().map(|dual| dual.settled(data)).transpose()?;
        let Some(mut dual) = settled.flatten() else {
            return Ok(());
        };
        self.held_out = dual.held_out_scores();
        if let Some(w) = H::ascended(dual.result(data)?) {
            let (loss, params) = (self.trainer.loss().clone(), *self.trainer.params());
            let (t, updates) = (self.trainer.t(), self.trainer.updates());
            let short = SHORT * dual.largest() * data.heaviest() / params.lambda;
            let t = (t + worth(data.len() as u64, data.len(), t)).max(short.min(MOST) as u64);
            self.trainer = Trainer::resume(w, loss, params, t)?;
            self.trainer.set_updates(updates);
            self.frozen = None;
        }
        Ok(())
    }
}
