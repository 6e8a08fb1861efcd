//! `LinearTrainer`: linear problems over the same rows.

use std::sync::{Arc, Mutex, MutexGuard};

use numpy::PyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::arrays::{Labels, Matrix, Order, csr, dense, examples, sampling};
use super::linear_parts::{Targets, Zero, make, parts};
use super::problem::{Pickled, Typed, any, check, check_format, item, locked, with};
use super::{
    FIRST, Pace, each, first_of, in_pieces, in_pieces_from, lock, pool, pool_for, silent, tell,
    work, work_from,
};
use crate::shards::{Shards, total};
use crate::threads::side_by_side;
use crate::{
    AnyLoss, Binary, Block, CrammerSinger, DualAscent, DualEvaluation, Error, Evaluation, Examples,
    Feasible, Hypothesis, Linear, LinearState, Loss, Report, Rows, Sampling, Scalar, Trainer, data,
    memory,
};

/// A trainer, and dual ascent where that goes on in its stead.
#[derive(Clone)]
pub(super) struct Problem<S: Scalar, L: Loss> {
    pub(super) trainer: Trainer<Linear<S>, L>,
    dual: Option<DualAscent<L>>,
    /// Epochs of dual ascent.
    epochs: u64,
    /// Of a dual problem that is solved to the tolerance.
    solved: Option<(f64, f64)>,
    /// What predicts for all problems, kept with the first as long as none has gone on.
    frozen: Option<Arc<Linear<S>>>,
}

impl<S: Scalar, L: Loss> Problem<S, L> {
    pub(super) fn new(trainer: Trainer<Linear<S>, L>) -> Self {
        Problem { trainer, dual: None, epochs: 0, solved: None, frozen: None }
    }
}

pub(super) type Problems<S, L> = Vec<Problem<S, L>>;

/// The problems, which are about to change.
fn changing<S: Scalar, L: Loss>(
    problems: &Mutex<Problems<S, L>>,
) -> MutexGuard<'_, Problems<S, L>> {
    let mut problems = lock(problems);
    problems.iter_mut().for_each(|problem| problem.frozen = None);
    problems
}

/// The models of all problems, the averages where iterates are averaged.
fn results<S: Scalar, L: Loss>(problems: &Problems<S, L>) -> Result<Vec<Linear<S>>, Error> {
    let result = |p: &Problem<S, L>| {
        p.trainer.hypothesis().check_copy()?;
        Ok(p.dual.as_ref().map_or_else(|| p.trainer.result(), DualAscent::result))
    };
    problems.iter().map(result).collect()
}

/// One model with the scores of all, as it is handed out: weights and intercepts in the scalar of the data.
fn frozen<S: Scalar, L: Loss>(problems: &mut Problems<S, L>) -> Result<Arc<Linear<S>>, Error> {
    if let Some(model) = problems.first().and_then(|problem| problem.frozen.clone()) {
        return Ok(model);
    }
    let results = results(problems)?;
    let n_features = results.first().map_or(0, Linear::n_features);
    let in_scalar = |b: f64| S::from_f64(b).to_f64();
    let outputs: usize = results.iter().map(Hypothesis::outputs).sum();
    memory::check::<S>("the model", &[outputs, n_features])?;
    let state = LinearState {
        v: results.iter().flat_map(Linear::weights).collect(),
        b: results.iter().flat_map(Linear::intercepts).map(in_scalar).collect(),
        constant: 1.0,
        a: 1.0,
        ..LinearState::default()
    };
    let model = Arc::new(Linear::from_state(n_features, state)?);
    if let Some(first) = problems.first_mut() {
        first.frozen = Some(model.clone());
    }
    Ok(model)
}

/// Scores of rows, one after the other.
fn scores<'py, X: Rows>(
    py: Python<'py>,
    model: Arc<Linear<X::Scalar>>,
    rows: &X,
    threads: usize,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    model.check_features(rows.n_features())?;
    let outputs = model.outputs();
    let mut scores = memory::zeros("the scores", &[rows.n_rows(), outputs])?;
    // Few products are not worth the threads.
    let pool = pool_for(threads, rows.n_rows() / FEW)?;
    // To lay out all weights must be little beside the products, and where there is no room rows do one by one.
    let worth = MANY.max(if X::SPARSE { rows.n_features() / STORED } else { 0 });
    let lay_out = || model.panel().ok().flatten();
    let panel = py.detach(|| if rows.n_rows() < worth { None } else { lay_out() });
    in_pieces_from(py, first_of(outputs * rows.n_features()), rows.n_rows(), |piece| {
        let (first, out) = (piece.start, &mut scores[piece.start * outputs..piece.end * outputs]);
        match (&panel, &pool) {
            (Some(panel), Some(pool)) => {
                pool.install(|| panel.scores_side_by_side(rows, first, out))
            }
            (Some(panel), None) => panel.scores(rows, first, out),
            (None, Some(pool)) => pool.install(|| model.scores_side_by_side(rows, first, out)),
            (None, None) => {
                for (i, out) in piece.zip(out.chunks_mut(outputs)) {
                    model.score(rows.row(i), out);
                }
            }
        }
        data::check_scores(rows, first, outputs, out)
    })?;
    Ok(PyArray1::from_vec(py, scores))
}

/// Rows that are scored by one thread.
const FEW: usize = 512;

/// Rows that are worth it to lay out the weights of all classes anew.
const MANY: usize = 64;

/// Features that a sparse row stores, at a guess.
const STORED: usize = 16;

/// What predicts, in the scalar that it was trained in.
enum Model {
    F32(Arc<Linear<f32>>),
    F64(Arc<Linear<f64>>),
}

impl Model {
    fn of_f32(&self) -> Result<Arc<Linear<f32>>, Error> {
        match self {
            Model::F32(model) => Ok(model.clone()),
            Model::F64(model) => converted(model),
        }
    }

    fn of_f64(&self) -> Result<Arc<Linear<f64>>, Error> {
        match self {
            Model::F64(model) => Ok(model.clone()),
            Model::F32(model) => converted(model),
        }
    }
}

/// The same model for rows in another scalar.
fn converted<S: Scalar, T: Scalar>(model: &Linear<S>) -> Result<Arc<Linear<T>>, Error> {
    memory::check::<T>("the model", &[model.state().v.len()])?;
    Ok(Arc::new(model.convert()))
}
pub(super) type OneScore = Binary<AnyLoss>;

pub(super) type Trainers = Typed<
    Problems<f32, OneScore>,
    Problems<f64, OneScore>,
    Problems<f32, CrammerSinger>,
    Problems<f64, CrammerSinger>,
>;

/// Linear problems over the same rows.
#[pyclass(module = "pegasos._core", frozen)]
pub(super) struct LinearTrainer {
    trainers: Trainers,
    /// What it was made with; goes into pickles.
    targets: Targets,
    params: Py<PyDict>,
}

fn run<X: Rows, L: Loss + Send>(
    py: Python<'_>,
    problems: &Mutex<Problems<X::Scalar, L>>,
    data: &Examples<'_, X>,
    order: &Order<'_>,
    threads: usize,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Report> {
    let (count, batch) = py.detach(|| {
        let problems = lock(problems);
        let block = problems.first().map(|p| p.trainer.params().block);
        (problems.len(), if let Some(Block::Mean(batch)) = block { batch } else { 1 })
    });
    let mut order = order.rows(data.len())?;
    let pool = pool_for(threads, count)?;
    let mut sums = vec![Report::default(); count];
    let mut taken = Vec::new();
    work(py, tell(progress), |size| {
        // Whole batches, or a piece would end with a smaller one.
        let size = size.div_ceil(batch).saturating_mul(batch);
        let problems = &mut changing(problems)[..];
        if let ([problem], [sum]) = (&mut *problems, &mut sums[..]) {
            let before = sum.examples;
            *sum = problem.trainer.go_on(data, order.by_ref().take(size), *sum)?;
            let visited = (sum.examples - before) as usize;
            return Ok((visited > 0).then_some(visited));
        }
        // Between interruptions every problem sees the same few rows, which stay in the cache.
        taken.clear();
        taken.extend(order.by_ref().take(size));
        let mut pairs: Vec<_> = problems.iter_mut().zip(&mut sums).collect();
        let ran = each(&pool, &mut pairs, |_, (problem, sum)| {
            **sum = problem.trainer.go_on(data, taken.iter().copied(), **sum)?;
            Ok::<_, Error>(())
        });
        ran.into_iter().collect::<Result<(), _>>()?;
        Ok((!taken.is_empty()).then_some(taken.len()))
    })?;
    Ok(total(sums.into_iter().map(Ok).collect())?)
}

/// An epoch on shards, merged at its end.
fn run_shards<X: Rows, L: Loss + Clone + Send>(
    py: Python<'_>,
    problems: &Mutex<Problems<X::Scalar, L>>,
    data: &Examples<'_, X>,
    order: &Order<'_>,
    shards: usize,
    threads: usize,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Report> {
    let order: Vec<usize> = order.rows(data.len())?.collect();
    if shards > order.len() {
        return Err(Error::parameter("shards", shards, "such that each has a row").into());
    }
    let (count, batch, mut copies, parts) = py.detach(|| {
        let problems = lock(problems);
        let block = problems.first().map(|p| p.trainer.params().block);
        let batch = if let Some(Block::Mean(batch)) = block { batch } else { 1 };
        let steps = order.len().div_ceil(batch);
        // Whole batches, as equal as can be.
        let bound = |k: usize| (k * steps / shards * batch).min(order.len());
        let parts: Vec<&[usize]> = (0..shards).map(|k| &order[bound(k)..bound(k + 1)]).collect();
        let rows: Vec<usize> = parts.iter().map(|part| part.len()).collect();
        let copies = problems.iter().map(|p| Shards::split(&p.trainer, &rows));
        Ok::<_, Error>((problems.len(), batch, copies.collect::<Result<Vec<_>, _>>()?, parts))
    })?;
    let pool = pool(threads.min(count * shards))?;
    let longest = parts.iter().map(|part| part.len()).max().unwrap_or(0);
    let mut sum = Report::default();
    let mut at = 0;
    work(py, tell(progress), |size| {
        if at >= longest {
            return Ok(None);
        }
        let size = (size.div_ceil(shards * batch)).saturating_mul(batch);
        let end = at.saturating_add(size);
        let pieces: Vec<&[usize]> =
            parts.iter().map(|part| &part[at.min(part.len())..end.min(part.len())]).collect();
        at = end;
        sum = pool.install(|| total(side_by_side(&mut copies, |_, c| c.go_on(data, &pieces))))?;
        Ok(Some(pieces.iter().map(|piece| piece.len()).sum()))
    })?;
    py.detach(|| {
        let mut problems = changing(problems);
        copies
            .into_iter()
            .zip(problems.iter_mut())
            .try_for_each(|(c, p)| c.merge_into(&mut p.trainer))
    })?;
    Ok(sum)
}

/// Hands every problem over to dual ascent.
fn begin_dual<X: Rows, L: Loss + Clone + Send>(
    py: Python<'_>,
    problems: &Mutex<Problems<X::Scalar, L>>,
    data: &Examples<'_, X>,
) -> PyResult<()> {
    Ok(py.detach(|| {
        for problem in changing(problems).iter_mut() {
            problem.dual = Some(DualAscent::take_over(&problem.trainer, data)?);
            problem.trainer.forget_ledger();
        }
        Ok::<_, Error>(())
    })?)
}

/// How many times the tolerance the gap must be for a leap to be worth its time; a gap of most of the
/// objective always is.
const FAR: f64 = 10.0;
const MOST: f64 = 0.5;

/// A leap of every problem that is far from solved.
fn leap<X: Rows, L: Loss + Clone + Send>(
    py: Python<'_>,
    problems: &Mutex<Problems<X::Scalar, L>>,
    data: &Examples<'_, X>,
    tol: f64,
    threads: usize,
) -> PyResult<()> {
    let mut leaps = py.detach(|| {
        let far = (FAR * tol).min(MOST);
        let begin = |p: &mut Problem<X::Scalar, L>| {
            let Some(dual) = p.dual.as_mut().filter(|_| p.solved.is_none()) else {
                return Ok(None);
            };
            // What a pass has seen may be far from the truth where every step undoes others.
            if dual.may_be_solved(far) && dual.certificate(data)?.relative_gap() <= far {
                return Ok(None);
            }
            dual.begin_leap(data)
        };
        lock(problems).iter_mut().map(begin).collect::<Result<Vec<_>, _>>()
    })?;
    let pool = pool_for(threads, leaps.len())?;
    let mut over = vec![false; leaps.len()];
    work(py, silent, |_| {
        let problems = lock(problems);
        let mut pairs: Vec<_> = leaps.iter_mut().zip(&mut over).collect();
        each(&pool, &mut pairs, |k, (leap, over)| {
            **over = **over
                || match (leap.as_mut(), &problems[k].dual) {
                    (Some(leap), Some(dual)) => !dual.leap_on(data, leap, tol),
                    _ => true,
                };
        });
        Ok((!over.iter().all(|over| *over)).then_some(0))
    })?;
    py.detach(|| {
        for (problem, leap) in changing(problems).iter_mut().zip(leaps) {
            if let (Some(dual), Some(leap)) = (&mut problem.dual, leap) {
                dual.end_leap(data, leap);
            }
        }
    });
    Ok(())
}

/// Visits as many examples as there are, or fewer where the tolerance may be reached. Returns visits and
/// moves, summed over the problems, and their mean loss.
fn ascend<X: Rows, L: Loss + Clone + Send + 'static>(
    py: Python<'_>,
    problems: &Mutex<Problems<X::Scalar, L>>,
    data: &Examples<'_, X>,
    (sampling, seed): (Sampling, u64),
    tol: f64,
    threads: usize,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(u64, u64, f64)> {
    type Pass = Box<dyn Iterator<Item = usize> + Send>;
    // Of each problem the pass it is in, if it is in one, and whether its epoch is over.
    let mut passes: Vec<(Option<Pass>, bool)> = py
        .detach(|| lock(problems).iter().map(|problem| (None, problem.solved.is_some())).collect());
    let pool = pool_for(threads, passes.len())?;
    let mut sum = Report::default();
    let count = passes.len();
    let pace = Pace::new(FIRST);
    work_from(py, &pace, tell(progress), |size| {
        if passes.iter().all(|(_, over)| *over) {
            return Ok(None);
        }
        let mut problems = changing(problems);
        let mut pairs: Vec<_> = problems.iter_mut().zip(&mut passes).collect();
        let report = total(each(&pool, &mut pairs, |_, (problem, (pass, over))| {
            let Some(dual) = problem.dual.as_mut().filter(|_| !*over) else {
                return Ok(Report::default());
            };
            let (size, order) = match pass {
                Some(pass) => (size, pass),
                None => {
                    // A narrow pass is faster than a whole one.
                    let size = if dual.narrows() { pace.begin_anew() } else { size };
                    (size, pass.insert(Box::new(dual.pass(sampling, seed)?)))
                }
            };
            let report = dual.run(data, order.by_ref().take(size))?;
            if report.examples < size as u64 {
                *pass = None;
                *over = dual.epoch_is_over(tol);
            }
            Ok(report)
        }))?;
        sum += report;
        Ok(Some((report.examples as usize).div_ceil(count)))
    })?;
    let loss = py.detach(|| {
        let mut loss = 0.0;
        for problem in lock(problems).iter_mut() {
            problem.epochs += 1;
            loss += problem.dual.as_ref().map_or(0.0, |dual| dual.mean_loss());
        }
        loss / count as f64
    });
    Ok((sum.examples, sum.updates, loss))
}

/// The certificates of the problems. Of those in dual ascent, all or only those that may be solved to
/// `tol` are evaluated, NaN stands for the others; one that is solved stays as it is.
fn evaluate<X: Rows, L: Loss + Clone + Send>(
    py: Python<'_>,
    problems: &Mutex<Problems<X::Scalar, L>>,
    data: &Examples<'_, X>,
    (tol, all): (f64, bool),
    threads: usize,
) -> PyResult<Vec<(f64, f64)>> {
    let is_dual = py.detach(|| lock(problems).iter().any(|problem| problem.dual.is_some()));
    let count = py.detach(|| lock(problems).len());
    let pool = pool_for(threads, count)?;
    if is_dual {
        let mut evaluations: Vec<Option<DualEvaluation>> = py.detach(|| {
            let of = |p: &Problem<X::Scalar, L>| {
                let dual = p.dual.as_ref().filter(|_| p.solved.is_none());
                let dual = dual.filter(|dual| all || dual.may_be_solved(tol));
                dual.map(DualAscent::evaluation::<X::Scalar>)
            };
            lock(problems).iter().map(of).collect()
        });
        in_pieces(py, data.len(), |rows| {
            let problems = lock(problems);
            let added = each(&pool, &mut evaluations, |k, evaluation| {
                match (evaluation, &problems[k].dual) {
                    (Some(evaluation), Some(dual)) => evaluation.add(dual, data, rows.clone()),
                    _ => Ok(()),
                }
            });
            added.into_iter().collect()
        })?;
        return Ok(py.detach(|| {
            let mut problems = lock(problems);
            let pairs = problems.iter_mut().zip(evaluations);
            let finish = |(problem, evaluation): (&mut Problem<_, L>, Option<DualEvaluation>)| {
                let (Some(evaluation), Some(dual)) = (evaluation, &mut problem.dual) else {
                    return Ok(problem.solved.unwrap_or((f64::NAN, f64::NAN)));
                };
                let certificate = evaluation.finish(dual, data)?;
                let numbers = (certificate.primal, certificate.dual);
                problem.solved = (certificate.relative_gap() <= tol).then_some(numbers);
                Ok::<_, Error>(numbers)
            };
            pairs.map(finish).collect::<Result<Vec<_>, _>>()
        })?);
    }
    // A copy, as other threads must not wait for a whole evaluation.
    let problems = py.detach(|| {
        let problems = lock(problems);
        problems.iter().try_for_each(|problem| problem.trainer.check_copy())?;
        Ok::<_, Error>(problems.clone())
    })?;
    let evaluations = problems.iter().map(|problem| problem.trainer.evaluation(data));
    let mut evaluations: Vec<Evaluation<'_, _, _, X>> = evaluations.collect::<Result<_, _>>()?;
    in_pieces(py, data.len(), |rows| {
        let added = each(&pool, &mut evaluations, |_, evaluation| evaluation.add(rows.clone()));
        added.into_iter().collect()
    })?;
    let certificates = evaluations.into_iter().map(Evaluation::finish);
    Ok(certificates.map(|c| c.map(|c| (c.primal, c.dual))).collect::<Result<_, _>>()?)
}

/// Gives the trainers the weights that dual ascent has found, as if they had made them.
fn end_dual<S: Scalar, L: Loss + Clone>(problems: &mut Problems<S, L>) -> Result<(), Error> {
    for problem in problems {
        let Some(dual) = problem.dual.take() else {
            continue;
        };
        let trainer = &problem.trainer;
        let linear = dual.result::<S>();
        // Begun and interrupted, it still is what later steps go on from.
        let n_examples = dual.len() as u64;
        let t = trainer.t() + problem.epochs.max(1) * n_examples;
        let trainer = Trainer::resume(linear, trainer.loss().clone(), *trainer.params(), t)?;
        // As the trainer keeps it: w times lambda t, in the scalar of the data.
        if !S::from_f64(trainer.hypothesis().state().norm2.sqrt()).to_f64().is_finite() {
            let lambda = trainer.params().lambda;
            return Err(Error::non_finite("X", format_args!("w overflows at lambda = {lambda:?}")));
        }
        *problem = Problem::new(trainer);
    }
    Ok(())
}

#[pymethods]
impl LinearTrainer {
    #[new]
    fn new(
        n_features: usize,
        targets: Targets,
        dtype: &str,
        constant: f64,
        params: Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let outputs = match &targets {
            Targets::OneScore(positives) => positives.len(),
            Targets::CrammerSinger(classes) => *classes,
        };
        // And a copy, as nobody trains weights that he cannot look at. Zeros take no memory until they are touched: what
        // is asked for piece by piece would seem to be there.
        let sizes = [2, outputs, n_features];
        match dtype {
            "float32" => memory::check::<f32>("w", &sizes)?,
            _ => memory::check::<f64>("w", &sizes)?,
        }
        let trainers = make(dtype, &targets, &params, 0, &Zero { n_features, constant })?;
        Ok(LinearTrainer { trainers, targets, params: params.copy()?.unbind() })
    }

    /// The average of trainers, with these factors; it goes on as the first would.
    #[staticmethod]
    fn average(
        py: Python<'_>,
        trainers: Vec<PyRef<'_, Self>>,
        factors: Vec<f64>,
    ) -> PyResult<Self> {
        fn all<S: Scalar, L: Loss + Clone + Send>(
            py: Python<'_>,
            mutexes: &[&Mutex<Problems<S, L>>],
            factors: &[f64],
        ) -> PyResult<Mutex<Problems<S, L>>> {
            // Copies, so that no two are locked at a time.
            let models: Vec<Problems<S, L>> =
                py.detach(|| mutexes.iter().map(|mutex| lock(mutex).clone()).collect());
            let problem = |k: usize| {
                let parts = models.iter().zip(factors).map(|(model, &c)| {
                    let problem = model.get(k).ok_or_else(unlike)?;
                    Ok((c, &problem.trainer))
                });
                let parts: Vec<_> = parts.collect::<PyResult<_>>()?;
                Ok(Problem::new(Trainer::average_of(&parts)?))
            };
            Ok(Mutex::new((0..models[0].len()).map(problem).collect::<PyResult<_>>()?))
        }
        fn unlike() -> PyErr {
            PyValueError::new_err("estimators must be of one kind, dtype and number of classes")
        }
        let Some(first) = trainers.first().filter(|_| trainers.len() == factors.len()) else {
            return Err(PyValueError::new_err("one factor for each of at least one trainer"));
        };
        macro_rules! of_kind {
            ($($kind:ident),*) => {
                match &first.trainers {
                    $(Trainers::$kind(_) => {
                        let all_of_kind = trainers.iter().map(|trainer| match &trainer.trainers {
                            Trainers::$kind(problems) => Ok(problems),
                            _ => Err(unlike()),
                        });
                        let all_of_kind: Vec<_> = all_of_kind.collect::<PyResult<_>>()?;
                        Trainers::$kind(all(py, &all_of_kind, &factors)?)
                    })*
                }
            };
        }
        let trainers = of_kind!(Binary32, Binary64, Multi32, Multi64);
        let params = first.params.bind(py).copy()?.unbind();
        Ok(LinearTrainer { trainers, targets: first.targets.clone(), params })
    }

    #[getter]
    fn t(&self, py: Python<'_>) -> u64 {
        locked!(py, &self.trainers, |problems| problems.first().map_or(0, |p| p.trainer.t()))
    }

    #[getter]
    fn dtype(&self) -> &'static str {
        self.trainers.dtype()
    }

    /// The cumulative loss and the bound on the regret, summed over the problems; nan where they
    /// are not counted.
    fn regret(&self, py: Python<'_>) -> (f64, f64) {
        fn numbers<S: Scalar, L: Loss>(problem: &Problem<S, L>) -> (f64, f64) {
            let Some(regret) = problem.trainer.regret() else {
                return (f64::NAN, f64::NAN);
            };
            let set = &problem.trainer.params().set;
            (regret.loss, regret.bound(Feasible::<Linear<S>>::diameter(set), 0.0))
        }
        locked!(py, &self.trainers, |problems| {
            let all = problems.iter().map(numbers);
            all.fold((0.0, 0.0), |sum, (loss, bound)| (sum.0 + loss, sum.1 + bound))
        })
    }

    fn keep_ledger(&self, py: Python<'_>, n_examples: usize) {
        locked!(py, &self.trainers, |problems| {
            problems.iter_mut().for_each(|p| p.trainer.keep_ledger(n_examples));
        });
    }

    fn forget_ledger(&self, py: Python<'_>) {
        locked!(py, &self.trainers, |problems| {
            problems.iter_mut().for_each(|p| p.trainer.forget_ledger());
        });
    }

    /// Reads every value and index, and says what is wrong with the first that is; returns whether no step on
    /// these rows can overflow, in whatever order.
    fn check(&self, py: Python<'_>, x: Matrix<'_>, labels: Labels<'_>) -> PyResult<bool> {
        with!(&self.trainers, &x, |problems, rows| {
            let (norm2, weight) = check(py, &examples(rows, &labels)?)?;
            Ok(py.detach(|| lock(problems).iter().all(|p| p.trainer.survives(norm2, weight))))
        })
    }

    /// One that goes on from the same state.
    fn copy(&self, py: Python<'_>) -> PyResult<Self> {
        fn copy<S: Scalar, L: Loss + Clone + Send>(
            py: Python<'_>,
            problems: &Mutex<Problems<S, L>>,
        ) -> PyResult<Mutex<Problems<S, L>>> {
            Ok(py.detach(|| {
                let problems = lock(problems);
                problems.iter().try_for_each(|problem| problem.trainer.check_copy())?;
                Ok::<_, Error>(Mutex::new(problems.clone()))
            })?)
        }
        let trainers = match &self.trainers {
            Typed::Binary32(p) => Typed::Binary32(copy(py, p)?),
            Typed::Binary64(p) => Typed::Binary64(copy(py, p)?),
            Typed::Multi32(p) => Typed::Multi32(copy(py, p)?),
            Typed::Multi64(p) => Typed::Multi64(copy(py, p)?),
        };
        let (targets, params) = (self.targets.clone(), self.params.clone_ref(py));
        Ok(LinearTrainer { trainers, targets, params })
    }

    /// How many weights a copy has to copy.
    #[getter]
    fn size(&self, py: Python<'_>) -> usize {
        locked!(py, &self.trainers, |problems| {
            problems.iter().map(|p| p.trainer.hypothesis().state().v.len()).sum()
        })
    }

    /// Scores of rows, one after the other.
    #[pyo3(signature = (x, *, threads = 1))]
    fn scores<'py>(
        &self,
        py: Python<'py>,
        x: Matrix<'_>,
        threads: usize,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let model = py.detach(|| match &self.trainers {
            Typed::Binary32(p) => frozen(&mut lock(p)).map(Model::F32),
            Typed::Binary64(p) => frozen(&mut lock(p)).map(Model::F64),
            Typed::Multi32(p) => frozen(&mut lock(p)).map(Model::F32),
            Typed::Multi64(p) => frozen(&mut lock(p)).map(Model::F64),
        })?;
        match &x {
            Matrix::Dense32(x) => scores(py, model.of_f32()?, &dense(x)?, threads),
            Matrix::Csr32I32(x) => scores(py, model.of_f32()?, &csr(x)?, threads),
            Matrix::Csr32I64(x) => scores(py, model.of_f32()?, &csr(x)?, threads),
            Matrix::Dense64(x) => scores(py, model.of_f64()?, &dense(x)?, threads),
            Matrix::Csr64I32(x) => scores(py, model.of_f64()?, &csr(x)?, threads),
            Matrix::Csr64I64(x) => scores(py, model.of_f64()?, &csr(x)?, threads),
        }
    }

    /// Visits rows; returns their number, the number of updates, and the sum of the losses, summed
    /// over the problems.
    #[pyo3(signature = (x, labels, order, *, shards = 1, threads = 1, progress = None))]
    #[allow(clippy::too_many_arguments)]
    fn run(
        &self,
        py: Python<'_>,
        x: Matrix<'_>,
        labels: Labels<'_>,
        order: Order<'_>,
        shards: usize,
        threads: usize,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<(u64, u64, f64)> {
        let progress = progress.as_ref();
        let report = with!(&self.trainers, &x, |problems, rows| {
            let data = examples(rows, &labels)?;
            match shards {
                1 => run(py, problems, &data, &order, threads, progress),
                _ => run_shards(py, problems, &data, &order, shards, threads, progress),
            }
        })?;
        Ok((report.examples, report.updates, report.loss))
    }

    /// From here on `ascend` goes on, until `end_dual`.
    fn begin_dual(&self, py: Python<'_>, x: Matrix<'_>, labels: Labels<'_>) -> PyResult<()> {
        with!(&self.trainers, &x, |problems, rows| {
            begin_dual(py, problems, &examples(rows, &labels)?)
        })
    }

    /// The relative gap, estimated from the mean loss of the last epoch; nan where nothing is known.
    /// Costs no pass over the data.
    fn estimate(
        &self,
        py: Python<'_>,
        x: Matrix<'_>,
        labels: Labels<'_>,
        loss: f64,
    ) -> PyResult<f64> {
        with!(&self.trainers, &x, |problems, rows| {
            let data = examples(rows, &labels)?;
            Ok(py.detach(|| {
                let problems = lock(problems);
                let mut gap = loss * problems.len() as f64;
                let mut primal = gap;
                for Problem { trainer, .. } in problems.iter() {
                    let half = trainer.params().lambda / 2.0 * trainer.hypothesis().norm2();
                    primal += half;
                    gap += half - trainer.dual_value(&data).unwrap_or(f64::NAN);
                }
                gap / primal
            }))
        })
    }

    /// An epoch of dual ascent; returns visits and moves, summed over the problems, and their mean loss.
    #[pyo3(signature = (x, labels, order, tol, *, threads = 1, progress = None))]
    #[allow(clippy::too_many_arguments)]
    fn ascend(
        &self,
        py: Python<'_>,
        x: Matrix<'_>,
        labels: Labels<'_>,
        order: (String, u64),
        tol: f64,
        threads: usize,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<(u64, u64, f64)> {
        let order = (sampling(&order.0)?, order.1);
        with!(&self.trainers, &x, |problems, rows| {
            let data = examples(rows, &labels)?;
            ascend(py, problems, &data, order, tol, threads, progress.as_ref())
        })
    }

    /// Looks for a better point for `ascend` to go on from.
    #[pyo3(signature = (x, labels, tol, *, threads = 1))]
    fn leap(
        &self,
        py: Python<'_>,
        x: Matrix<'_>,
        labels: Labels<'_>,
        tol: f64,
        threads: usize,
    ) -> PyResult<()> {
        with!(&self.trainers, &x, |problems, rows| {
            leap(py, problems, &examples(rows, &labels)?, tol, threads)
        })
    }

    fn end_dual(&self, py: Python<'_>) -> PyResult<()> {
        Ok(locked!(py, &self.trainers, |problems| {
            problems.iter_mut().for_each(|problem| problem.frozen = None);
            end_dual(problems)
        })?)
    }

    /// The objective and its dual bound, for every problem.
    #[pyo3(signature = (x, labels, *, tol = 0.0, all = true, threads = 1))]
    fn evaluate(
        &self,
        py: Python<'_>,
        x: Matrix<'_>,
        labels: Labels<'_>,
        tol: f64,
        all: bool,
        threads: usize,
    ) -> PyResult<Vec<(f64, f64)>> {
        with!(&self.trainers, &x, |problems, rows| {
            evaluate(py, problems, &examples(rows, &labels)?, (tol, all), threads)
        })
    }

    /// The weights, outputs x features, flat, in the data's dtype; and the intercepts.
    fn result<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyArray1<f64>>)> {
        fn all<'py, S: Scalar + numpy::Element, L: Loss + Send>(
            py: Python<'py>,
            problems: &Mutex<Problems<S, L>>,
        ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyArray1<f64>>)> {
            let (weights, intercepts) = py.detach(|| {
                let results = results(&lock(problems))?;
                let sizes = results.iter().map(|model| model.state().v.len());
                memory::check::<S>("the weights", &[sizes.sum()])?;
                let weights = results.iter().flat_map(Linear::weights).collect();
                let intercepts = results.iter().flat_map(Linear::intercepts).collect();
                Ok::<_, Error>((weights, intercepts))
            })?;
            Ok((PyArray1::from_vec(py, weights).into_any(), PyArray1::from_vec(py, intercepts)))
        }
        any!(&self.trainers, |problems| all(py, problems))
    }

    /// Everything but ledgers and dual variables, as plain numbers and arrays.
    fn parts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("format", FORMAT)?;
        dict.set_item("dtype", self.dtype())?;
        match &self.targets {
            Targets::OneScore(positives) => dict.set_item("targets", positives.clone())?,
            Targets::CrammerSinger(classes) => dict.set_item("targets", classes)?,
        }
        dict.set_item("params", self.params.bind(py).copy()?)?;
        let (t, problems) = any!(&self.trainers, |problems| parts(py, problems)?);
        dict.set_item("t", t)?;
        dict.set_item("problems", problems)?;
        Ok(dict)
    }

    /// Restores what `parts` gave.
    #[staticmethod]
    fn from_parts(parts: Bound<'_, PyDict>) -> PyResult<Self> {
        check_format(&parts, FORMAT)?;
        let targets: Targets = item(&parts, "targets")?.extract()?;
        let params = item(&parts, "params")?.cast_into::<PyDict>()?;
        let problems: Vec<Bound<'_, PyDict>> = item(&parts, "problems")?.extract()?;
        let count = match &targets {
            Targets::OneScore(positives) => positives.len(),
            Targets::CrammerSinger(_) => 1,
        };
        if problems.len() != count {
            return Err(PyValueError::new_err("parts must have one problem for each target"));
        }
        let t = item(&parts, "t")?.extract()?;
        let dtype: String = item(&parts, "dtype")?.extract()?;
        let trainers = make(&dtype, &targets, &params, t, &problems)?;
        Ok(LinearTrainer { trainers, targets, params: params.copy()?.unbind() })
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Pickled<'py>> {
        let parts = slf.get().parts(slf.py())?;
        Ok((slf.getattr("from_parts")?, (parts,)))
    }
}

/// Of what `parts` gives; a change of its keys' meaning gets a new number.
const FORMAT: u32 = 2;
