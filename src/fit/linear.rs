//! Linear problems over the same rows, by instalments.

use std::fmt::{Debug, Formatter};

use super::leaps::leaps_at_once;
use super::rescue::Fallback;
use super::results::Handed;
use super::{Ascent, Policy, Problem, UNKNOWN};
use crate::dual::{DualAscent, DualEvaluation, Pass};
use crate::error::Error;
use crate::evaluation::Evaluation;
use crate::examples::Examples;
use crate::hypothesis::Hypothesis;
use crate::ledger::Certificate;
use crate::linear::Linear;
use crate::loss::{Binary, Loss, MarginLoss, OneVsRest};
use crate::memory;
use crate::newton::Search;
use crate::order::{Ahead, Order};
use crate::params::Block;
use crate::scalar::Scalar;
use crate::shards::Shards;
use crate::threads::side_by_side;
use crate::trainer::{Report, Trainer};

/// Row numbers taken from an order at a time.
const WINDOW: usize = 256;

/// Linear problems over the same rows: one, or one class against the rest for every class. They are trained side by side,
/// on the threads of the current rayon pool.
pub struct LinearProblems<S: Scalar, L: Loss> {
    pub(super) parts: Vec<Part<S, L>>,
    /// Epochs of dual ascent.
    pub(super) climbed: u64,
    pub(super) handed: Handed<S>,
    /// Whether the intercept is not regularised: then there is nothing but dual ascent.
    free: bool,
    epoch: Option<Epoch<S, L>>,
    pub(super) stage: Stage<S>,
}

/// A trainer, and dual ascent where that goes on in its stead.
#[derive(Clone, Debug)]
pub(super) struct Part<S: Scalar, L: Loss> {
    pub(super) trainer: Trainer<Linear<S>, L>,
    pub(super) dual: Option<DualAscent<L>>,
    /// Of a dual problem that is solved to the tolerance.
    pub(super) solved: Option<Certificate>,
    /// The last certificate of dual ascent.
    pub(super) last: Certificate,
    pub(super) fallback: Option<Fallback<S>>,
}

impl<S: Scalar, L: Loss> Part<S, L> {
    fn problems(&self) -> usize {
        self.trainer.loss().problems()
    }
}

/// An epoch of Pegasos under way.
struct Epoch<S: Scalar, L: Loss> {
    order: Box<dyn Order + Send>,
    /// Of each problem.
    sums: Vec<Report>,
    taken: Vec<usize>,
    sharded: Option<Sharded<S, L>>,
}

/// An epoch of Pegasos on shards, merged at its end.
struct Sharded<S: Scalar, L: Loss> {
    /// Of each problem.
    copies: Vec<Shards<S, L, Option<crate::Ball>>>,
    rows: Vec<usize>,
    /// Where in the rows each shard's part begins, and where the last one ends.
    bounds: Vec<usize>,
    at: usize,
    /// Of each problem.
    sums: Vec<Report>,
}

/// What is under way beside an epoch of Pegasos.
#[derive(Default)]
pub(super) enum Stage<S> {
    #[default]
    None,
    /// Certificates of all trainers, and the next row.
    Evaluation(Vec<Evaluation<Linear<S>>>, usize),
    /// Certificates of all dual points, but of problems that need none, and the next row.
    DualEvaluation(Vec<Option<DualEvaluation>>, usize),
    /// Of each problem the pass it is in, if it is in one, and whether its epoch is over; visits.
    Ascent(Vec<(Option<Pass>, bool)>, u64),
    /// Of each problem, if that is far from solved.
    Leap(Vec<Leap>),
}

/// A leap that is under way, and whether it is over.
pub(super) type Leap = (Option<Search>, bool);

impl<S: Scalar, L: Loss + Clone> Clone for LinearProblems<S, L> {
    /// A copy, but not of what is under way.
    fn clone(&self) -> Self {
        let (parts, handed) = (self.parts.clone(), self.handed.clone());
        let (climbed, free) = (self.climbed, self.free);
        LinearProblems { parts, climbed, handed, free, epoch: None, stage: Stage::None }
    }
}

impl<S: Scalar, L: Loss + Debug> Debug for LinearProblems<S, L> {
    /// Without what is under way.
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let mut told = f.debug_struct("LinearProblems");
        told.field("parts", &self.parts).field("climbed", &self.climbed).field("free", &self.free);
        told.finish_non_exhaustive()
    }
}

impl<S: Scalar, L: Loss> From<Trainer<Linear<S>, L>> for LinearProblems<S, L> {
    fn from(trainer: Trainer<Linear<S>, L>) -> Self {
        LinearProblems::new(vec![trainer])
    }
}

impl<S: Scalar, L: Loss> LinearProblems<S, L> {
    /// Of these trainers, whose parameters but the loss's are the same.
    pub fn new(trainers: Vec<Trainer<Linear<S>, L>>) -> Self {
        let part =
            |trainer| Part { trainer, dual: None, solved: None, last: UNKNOWN, fallback: None };
        let parts = trainers.into_iter().map(part).collect();
        let (handed, free) = (Handed::default(), false);
        LinearProblems { parts, climbed: 0, handed, free, epoch: None, stage: Stage::None }
    }

    /// Leaves the intercepts unregularised, of trainers at their beginning whose w has an intercept. A
    /// [`Fit`](super::Fit) is dual ascent from the beginning then, and refuses what asks for steps of Pegasos. The trainers
    /// can tell nobody: whoever lets them go on by themselves regularises the intercepts. A fit refuses trainers whose w has
    /// no constant feature, and so no intercept.
    pub fn with_free_intercept(self) -> Self {
        LinearProblems { free: true, ..self }
    }

    /// Whether intercepts are not regularised.
    pub fn has_free_intercept(&self) -> bool {
        self.free
    }

    /// Refuses so many trainers where there is no memory for them, twice, as they are copied.
    #[cfg(feature = "python")]
    pub(crate) fn check_room(count: usize) -> Result<(), Error> {
        memory::check::<[Part<S, L>; 2]>("the problems", &[count])
    }

    /// The trainers; while dual ascent goes on, as it found them.
    pub fn trainers(&self) -> impl ExactSizeIterator<Item = &Trainer<Linear<S>, L>> {
        self.parts.iter().map(|part| &part.trainer)
    }

    /// How many problems there are: more than trainers where some train several.
    fn count(&self) -> usize {
        self.parts.iter().map(Part::problems).sum()
    }

    /// Rows to a step.
    fn batch(&self) -> usize {
        match self.parts.first().map(|part| part.trainer.params().block) {
            Some(Block::Mean(batch)) => batch,
            _ => 1,
        }
    }

    /// [`visit`](Problem::visit), that leaves it open whether w is finite.
    fn pass_over(&mut self, data: &Examples<'_, S>, size: usize) -> Result<usize, Error>
    where
        L: Clone + Send,
    {
        let batch = self.batch();
        let Some(epoch) = &mut self.epoch else {
            return Ok(0);
        };
        if let Some(sharded) = &mut epoch.sharded {
            let visited = Self::visit_shards(sharded, data, size, batch)?;
            if visited > 0 {
                return Ok(visited);
            }
            self.handed = Handed::default();
            if let Some(Sharded { copies, sums, .. }) = epoch.sharded.take() {
                epoch.sums = sums;
                for (copies, part) in copies.into_iter().zip(&mut self.parts) {
                    copies.merge_into(&mut part.trainer)?;
                }
            }
            return Ok(0);
        }
        self.handed = Handed::default();
        // Whole batches, or a piece would end with a smaller one.
        let size = size.div_ceil(batch).saturating_mul(batch);
        if let ([part], [sum]) = (&mut self.parts[..], &mut epoch.sums[..]) {
            let before = sum.examples;
            *sum = part.trainer.go_on(data, Ahead::take(&mut *epoch.order, size), *sum)?;
            return Ok((sum.examples - before) as usize);
        }
        epoch.taken.clear();
        take(&mut *epoch.order, size, &mut epoch.taken);
        let mut pairs: Vec<_> = self.parts.iter_mut().zip(&mut epoch.sums).collect();
        // Every problem sees the same few rows, which stay in the cache, before others come.
        let weights = pairs.first().map_or(0, |(part, _)| part.trainer.hypothesis().size());
        let shared = data.rows().shared(weights * size_of::<S>());
        for few in epoch.taken.chunks(shared.checked_next_multiple_of(batch).unwrap_or(usize::MAX))
        {
            let ran = side_by_side(&mut pairs, |_, (part, sum)| {
                let mut rows = few.iter().copied();
                **sum = part.trainer.go_on(data, Ahead::new(&mut rows), **sum)?;
                Ok::<_, Error>(())
            });
            ran.into_iter().collect::<Result<(), _>>()?;
        }
        Ok(epoch.taken.len())
    }

    /// Goes on with an epoch on shards: each with as many rows.
    fn visit_shards(
        sharded: &mut Sharded<S, L>,
        data: &Examples<'_, S>,
        size: usize,
        batch: usize,
    ) -> Result<usize, Error>
    where
        L: Clone + Send,
    {
        let Sharded { copies, rows, bounds, at, sums } = sharded;
        let shards = bounds.len() - 1;
        let size = size.div_ceil(shards * batch).saturating_mul(batch);
        let (from, to) = (*at, at.saturating_add(size));
        let pieces: Vec<&[usize]> = bounds
            .windows(2)
            .map(|bounds| {
                let part = &rows[bounds[0]..bounds[1]];
                &part[from.min(part.len())..to.min(part.len())]
            })
            .collect();
        *at = to;
        let reports = side_by_side(copies, |_, copies| copies.go_on(data, &pieces));
        *sums = reports.into_iter().collect::<Result<_, _>>()?;
        Ok(pieces.iter().map(|piece| piece.len()).sum())
    }
}

/// Takes so many rows from an order, or as many as it has: nobody knows how long it is.
pub(super) fn take(order: &mut dyn Order, most: usize, rows: &mut Vec<usize>) {
    while rows.len() < most {
        let (from, room) = (rows.len(), (most - rows.len()).min(WINDOW));
        rows.resize(from + room, 0);
        let count = order.fill(&mut rows[from..]);
        rows.truncate(from + count);
        if count < room {
            return;
        }
    }
}

impl<S: Scalar, M: MarginLoss> LinearProblems<S, OneVsRest<M>> {
    /// These problems with a trainer for each. What belongs to a fit under way, and gradients in flight, stay behind.
    /// O(size of w).
    pub fn apart(&self) -> Result<LinearProblems<S, Binary<M>>, Error> {
        let mut trainers = Vec::new();
        for trainer in self.trainers() {
            let w = trainer.hypothesis();
            for (o, &positive) in trainer.loss().positives.iter().enumerate() {
                let loss = Binary { loss: trainer.loss().loss, positive };
                let w = w.only(o)?;
                let mut alone = Trainer::resume(w, loss, *trainer.params(), trainer.t())?;
                alone.set_updates(trainer.updates());
                trainers.push(alone);
            }
        }
        Ok(LinearProblems::new(trainers))
    }
}

impl<S: Scalar, L: Loss + Clone + Send> Problem<S> for LinearProblems<S, L> {
    fn lambda(&self) -> f64 {
        self.parts.first().map_or(0.0, |part| part.trainer.params().lambda)
    }

    fn certifies(&self) -> bool {
        self.parts.iter().all(|part| part.trainer.certifies())
    }

    fn may_ascend(&self) -> bool {
        self.parts.iter().all(|part| part.trainer.may_ascend())
    }

    fn only_ascends(&self) -> bool {
        self.free
    }

    fn swings(&self, data: &Examples<'_, S>) -> bool {
        // One tells for all, whose parameters and rows are the same.
        self.parts.first().is_some_and(|part| part.trainer.swings(data))
    }

    fn prepare(&mut self, n_examples: usize, ledger: bool, _: usize) -> Result<(), Error> {
        if ledger {
            self.parts.iter_mut().for_each(|part| part.trainer.keep_ledger(n_examples));
        }
        Ok(())
    }

    fn begin_epoch(
        &mut self,
        data: &Examples<'_, S>,
        mut order: Box<dyn Order + Send>,
        shards: usize,
    ) -> Result<(), Error> {
        if self.free && self.parts.iter().all(|part| part.fallback.is_none()) {
            let want = "\"dual\" or \"auto\", for steps and rows that go with these, where the intercept is free";
            return Err(Error::parameter("solver", "pegasos", want));
        }
        let (sums, taken) = (vec![Report::default(); self.parts.len()], Vec::new());
        let mut sharded = None;
        if shards != 1 {
            let mut rows = Vec::with_capacity(data.len());
            take(&mut *order, usize::MAX, &mut rows);
            if shards == 0 || shards > rows.len() {
                return Err(Error::parameter("shards", shards, "such that each has a row"));
            }
            let batch = self.batch();
            let steps = rows.len().div_ceil(batch);
            // Whole batches, as equal as can be.
            let bound = |k: usize| (k * steps / shards * batch).min(rows.len());
            let bounds: Vec<usize> = (0..=shards).map(bound).collect();
            let counts: Vec<usize> = bounds.windows(2).map(|b| b[1] - b[0]).collect();
            let copies = self.parts.iter().map(|part| {
                let mut copies = Shards::split(&part.trainer, &counts)?;
                copies.begin(data, &counts);
                Ok(copies)
            });
            let copies = copies.collect::<Result<_, Error>>()?;
            sharded = Some(Sharded { copies, rows, bounds, at: 0, sums: sums.clone() });
        }
        if sharded.is_none() {
            self.parts.iter_mut().for_each(|part| part.trainer.begin(data, data.len()));
        }
        self.epoch = Some(Epoch { order, sums, taken, sharded });
        Ok(())
    }

    fn visit(&mut self, data: &Examples<'_, S>, size: usize) -> Result<usize, Error> {
        let visited = self.pass_over(data, size)?;
        if visited == 0 {
            self.parts.iter_mut().try_for_each(|part| part.trainer.settle())?;
        }
        Ok(visited)
    }

    fn seen(&self) -> Report {
        let mut sum = Report::default();
        for (part, report) in self.parts.iter().zip(self.epoch.iter().flat_map(|epoch| &epoch.sums))
        {
            let examples = report.examples * part.problems() as u64;
            sum += Report { examples, ..*report };
        }
        sum
    }

    fn estimate(&self, data: &Examples<'_, S>, loss: f64) -> f64 {
        let mut gap = loss * self.count() as f64;
        let mut primal = gap;
        for Part { trainer, .. } in &self.parts {
            let half = trainer.params().lambda / 2.0 * trainer.hypothesis().norm2();
            primal += half;
            gap += half - trainer.dual_value(data).unwrap_or(f64::NAN);
        }
        gap / primal
    }

    fn glimpse(&self, data: &Examples<'_, S>) -> Result<Certificate, Error> {
        let mut sum = Certificate { primal: 0.0, dual: 0.0 };
        for part in &self.parts {
            sum += part.trainer.glimpse(data)?;
        }
        Ok(sum)
    }

    fn evaluate(
        &mut self,
        data: &Examples<'_, S>,
        tol: f64,
        all: bool,
        size: usize,
    ) -> Result<Option<Certificate>, Error> {
        // Who stops a leap wants to know of where it has come to.
        self.land(data)?;
        let parts = &mut self.parts;
        if !matches!(self.stage, Stage::Evaluation(..) | Stage::DualEvaluation(..)) {
            self.stage = if parts.iter().any(|part| part.dual.is_some()) {
                let of = |part: &Part<S, L>| {
                    let dual = part.dual.as_ref().filter(|_| part.solved.is_none());
                    let dual = dual.filter(|dual| all || dual.may_be_solved(tol));
                    dual.map(DualAscent::evaluation::<S>)
                };
                Stage::DualEvaluation(parts.iter().map(of).collect(), 0)
            } else {
                let evaluations = parts.iter().map(|part| part.trainer.evaluation(data));
                Stage::Evaluation(evaluations.collect::<Result<_, _>>()?, 0)
            };
        }
        let n = data.len();
        let rows = |at: &mut usize| {
            // In the pass at hand.
            let from = *at % n;
            let count = size.min(n - from);
            *at += count;
            from..from + count
        };
        let passes = parts.iter().filter_map(|part| part.dual.as_ref());
        let passes = passes.map(DualAscent::passes_to_evaluate).max().unwrap_or(1);
        match &mut self.stage {
            Stage::DualEvaluation(evaluations, at) if *at < passes * n => {
                let rows = rows(at);
                let added =
                    side_by_side(evaluations, |k, evaluation| match (evaluation, &parts[k].dual) {
                        (Some(evaluation), Some(dual)) => evaluation.add(dual, data, rows.clone()),
                        _ => Ok(()),
                    });
                added.into_iter().collect::<Result<(), _>>()?;
                return Ok(None);
            }
            Stage::Evaluation(evaluations, at) if *at < n => {
                let rows = rows(at);
                let added = side_by_side(evaluations, |k, evaluation| {
                    evaluation.add(&parts[k].trainer, data, rows.clone())
                });
                added.into_iter().collect::<Result<(), _>>()?;
                return Ok(None);
            }
            _ => {}
        }
        let mut sum = Certificate { primal: 0.0, dual: 0.0 };
        match std::mem::take(&mut self.stage) {
            Stage::DualEvaluation(evaluations, _) => {
                for (part, evaluation) in parts.iter_mut().zip(evaluations) {
                    let (Some(evaluation), Some(dual)) = (evaluation, &mut part.dual) else {
                        sum += part.solved.unwrap_or(UNKNOWN);
                        continue;
                    };
                    let certificate = evaluation.finish(dual, data)?;
                    part.last = certificate;
                    part.solved = (certificate.relative_gap() <= tol).then_some(certificate);
                    sum += certificate;
                }
            }
            Stage::Evaluation(evaluations, _) => {
                for (part, evaluation) in parts.iter_mut().zip(evaluations) {
                    let found = evaluation.finish(&part.trainer, data)?;
                    sum += part.fallback.as_mut().map_or(found, |fallback| {
                        fallback.rival = found.primal;
                        if self.free {
                            // These steps have regularised it.
                            let half = part.trainer.params().lambda / 2.0;
                            let b = part.trainer.result().intercepts();
                            fallback.rival -= half * b.iter().map(|b| b * b).sum::<f64>();
                        }
                        fallback.best()
                    });
                }
            }
            _ => return Ok(Some(UNKNOWN)),
        }
        Ok(Some(sum))
    }

    fn begin_ascent(&mut self, data: &Examples<'_, S>, _: usize) -> Result<(), Error> {
        self.handed = Handed::default();
        if self.free && self.parts.iter().any(|part| part.trainer.hypothesis().constant() == 0.0) {
            let want = "> 0 where the intercept is free: without a constant feature there is none";
            return Err(Error::parameter("constant", 0.0, want));
        }
        // Of all problems at once: what is asked for piece by piece would seem to be there.
        memory::check::<[f64; 2]>("the dual variables", &[self.parts.len(), data.len()])?;
        for part in &mut self.parts {
            part.dual = Some(if self.free {
                let (loss, lambda) = (part.trainer.loss().clone(), part.trainer.params().lambda);
                DualAscent::with_free_intercept(loss, lambda, data)?
            } else {
                DualAscent::take_over(&part.trainer, data)?
            });
            part.trainer.forget_ledger();
        }
        Ok(())
    }

    fn ascend(
        &mut self,
        data: &Examples<'_, S>,
        policy: &Policy,
        size: usize,
    ) -> Result<Ascent, Error> {
        self.handed = Handed::default();
        let problems = self.count();
        if !matches!(self.stage, Stage::Ascent(..)) {
            let over = self.parts.iter().map(|part| (None, part.solved.is_some())).collect();
            self.stage = Stage::Ascent(over, 0);
        }
        let Stage::Ascent(passes, visits) = &mut self.stage else {
            unreachable!("it was just begun");
        };
        let (tol, count) = (policy.tol.unwrap_or(0.0), self.parts.len());
        if passes.iter().all(|(_, over)| *over) {
            let visits = *visits;
            self.stage = Stage::None;
            self.climbed += 1;
            let duals = self.parts.iter().filter_map(|part| part.dual.as_ref());
            let loss = duals.map(DualAscent::mean_loss).sum::<f64>() / problems as f64;
            return Ok(Ascent::Epoch { loss, visits, certificate: None });
        }
        let mut pairs: Vec<_> = self.parts.iter_mut().zip(passes).collect();
        let reports = side_by_side(&mut pairs, |_, (part, (pass, over))| {
            let Some(dual) = part.dual.as_mut().filter(|_| !*over) else {
                return Ok((Report::default(), false));
            };
            let order = match pass {
                Some(order) => order,
                None => {
                    let order = pass.insert(dual.pass(policy.sampling, policy.seed)?);
                    // A narrow pass is faster than a whole one: nobody knows how much.
                    if dual.narrows() {
                        return Ok((Report::default(), true));
                    }
                    order
                }
            };
            let report = dual.go_on(data, Ahead::take(order, size))?;
            if report.examples < size as u64 {
                *pass = None;
                dual.glimpse(data, tol)?;
                dual.look_back(data, tol)?;
                *over = dual.epoch_is_over(tol);
            }
            Ok::<_, Error>((report, false))
        });
        let (mut sum, mut anew) = (Report::default(), false);
        for (report, part) in reports.into_iter().zip(&self.parts) {
            let (report, begun) = report?;
            *visits += report.examples * part.problems() as u64;
            sum += report;
            anew |= begun;
        }
        Ok(Ascent::Going { rows: (sum.examples as usize).div_ceil(count), anew })
    }

    fn leap_after(&self, data: &Examples<'_, S>) -> usize {
        self.epochs_to_a_leap(data)
    }

    fn leaps_at_once(&self, data: &Examples<'_, S>) -> bool {
        // One tells for all, whose parameters and rows are the same.
        self.parts.first().is_some_and(|part| leaps_at_once(&part.trainer, data))
            && self.parts.iter().all(|part| part.trainer.hypothesis().is_zero())
    }

    fn leap(&mut self, data: &Examples<'_, S>, tol: f64) -> Result<bool, Error> {
        self.leap_on(data, tol)
    }

    fn end_ascent(&mut self, data: &Examples<'_, S>) -> Result<(), Error> {
        // What was interrupted has come some of its way.
        self.land(data)?;
        self.handed = Handed::default();
        (self.epoch, self.stage) = (None, Stage::None);
        for part in &mut self.parts {
            part.trainer.forget_ledger();
            let Some(dual) = part.dual.take() else {
                continue;
            };
            let linear = dual.result::<S>();
            // Begun and interrupted, it still is what later steps go on from.
            let t = part.trainer.t() + self.climbed.max(1) * dual.len() as u64;
            let (loss, params) = (part.trainer.loss().clone(), *part.trainer.params());
            let updates = part.trainer.updates();
            part.trainer = Trainer::resume(linear, loss, params, t)?;
            part.trainer.set_updates(updates);
            part.solved = None;
            // As the trainer keeps it: w times lambda t, in the scalar of the data.
            let norm = part.trainer.hypothesis().scaled().norm2.sqrt();
            if !S::from_f64(norm).to_f64().is_finite() {
                let lambda = params.lambda;
                return Err(Error::non_finite(
                    "X",
                    format_args!("w overflows at lambda = {lambda:?}"),
                ));
            }
        }
        self.climbed = 0;
        self.end_rescue()
    }

    fn begin_rescue(&mut self) -> Result<bool, Error> {
        self.rescue()?;
        Ok(true)
    }
}
