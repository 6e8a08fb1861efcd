//! `Refit`: one kernel problem, solved in the span of a model's support vectors.

use std::sync::Mutex;

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;

use super::arrays::{Labels, Matrix, examples};
use super::budget::BudgetTrainer;
use super::machine::Problem;
use super::problem::{Typed, any, locked, with};
use super::{FIRST, Pace, in_pieces, lock, pool, silent, tell, work, work_from};
use crate::span::Factor;
use crate::{
    Binary, Budgeted, Certificate, CrammerSinger, Error, Examples, Hinge, Loss, Refit, Rows,
    Scalar, memory,
};

/// Epochs after which a leap is tried. See the head of `dual.rs`.
const PATIENCE: usize = 5;

/// How many times the tolerance the gap must be for a leap to be worth its time.
const FAR: f64 = 10.0;

type Problems = Typed<
    Refit<f32, Binary<Hinge>>,
    Refit<f64, Binary<Hinge>>,
    Refit<f32, CrammerSinger>,
    Refit<f64, CrammerSinger>,
>;

/// A problem in the span of support vectors.
#[pyclass(module = "pegasos._core", name = "Refit", frozen)]
pub(super) struct PyRefit {
    problem: Problems,
}

/// What a refit is about, beside the span.
struct Task {
    n_examples: usize,
    alpha: f64,
    cache: usize,
}

/// Problems with these losses in the span of the vectors that `problem` has now.
fn in_span_of<S: Scalar, L: Loss + Send, M: Loss + Clone + Send + 'static>(
    py: Python<'_>,
    pool: &rayon::ThreadPool,
    problem: &Mutex<Problem<Budgeted<S>, L>>,
    losses: impl FnOnce(&L) -> Vec<M> + Send,
    task: &Task,
) -> PyResult<Mutex<Refit<S, M>>> {
    let (mut factor, losses) = py.detach(|| {
        let trainer = &lock(problem).trainer;
        let factor = Factor::of(&trainer.hypothesis().model()?)?;
        Ok::<_, Error>((factor, losses(trainer.loss())))
    })?;
    work(py, silent, |panels| {
        let more = pool.install(|| (0..panels).all(|_| factor.advance()));
        Ok(more.then_some(0))
    })?;
    Ok(py.detach(|| {
        let refit = Refit::new(factor.span()?, &losses, task.alpha, task.n_examples, task.cache);
        refit.map(Mutex::new)
    })?)
}

/// One class against the rest, for each.
fn apart(loss: &CrammerSinger) -> Vec<Binary<Hinge>> {
    (0..loss.classes as u32).map(|positive| Binary { loss: Hinge, positive }).collect()
}

/// Solves every problem to the relative gap `tol`, or for so many epochs: the sums of their certificates and mean losses,
/// and the most visits.
fn solve<X: Rows, L: Loss + Clone + Send + 'static>(
    py: Python<'_>,
    refit: &Mutex<Refit<X::Scalar, L>>,
    data: &Examples<'_, X>,
    limits: (f64, usize, u64),
    threads: usize,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(Certificate, f64, u64)> {
    let pool = pool(threads)?;
    in_pieces(py, data.len(), |rows| {
        pool.install(|| lock(refit).prepare(data, rows.len())).map(drop)
    })?;
    let (mut sum, mut loss, mut visits) = (Certificate { primal: 0.0, dual: 0.0 }, 0.0, 0);
    for k in 0..py.detach(|| lock(refit).problems()) {
        py.detach(|| lock(refit).turn_to(k));
        let found = solve_this(py, refit, data, limits, &pool, progress)?;
        sum.primal += found.0.primal;
        sum.dual += found.0.dual;
        loss += found.1;
        visits = visits.max(found.2);
    }
    Ok((sum, loss, visits))
}

/// The same for the problem at hand.
fn solve_this<X: Rows, L: Loss + Clone + Send + 'static>(
    py: Python<'_>,
    refit: &Mutex<Refit<X::Scalar, L>>,
    data: &Examples<'_, X>,
    (tol, max_epochs, seed): (f64, usize, u64),
    pool: &rayon::ThreadPool,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(Certificate, f64, u64)> {
    let (mut epochs, mut visits) = (0, 0);
    let (mut leap, mut evaluation, mut solved) = (None, None, None);
    // Where weights that have drifted are being made anew: the next row, and whether that is the last thing to do.
    let mut renewed: Option<(usize, bool)> = None;
    let pace = Pace::new(FIRST);
    work_from(py, &pace, tell(progress), |size| {
        let refit = &mut *lock(refit);
        if let Some(mut leaping) = leap.take() {
            if refit.leap_on(data, &mut leaping, tol) {
                leap = Some(leaping);
            } else {
                refit.end_leap(data, leaping);
            }
            return Ok(Some(0));
        }
        if let Some((at, over)) = &mut renewed {
            *at = pool.install(|| refit.renew(data, *at, size));
            if *at < data.len() {
                return Ok(Some(0));
            }
            let over = *over;
            renewed = None;
            return Ok((!over).then_some(0));
        }
        if let Some((evaluated, at)) = &mut evaluation {
            *at = pool.install(|| refit.evaluate(data, evaluated, *at, size))?;
            if *at == data.len()
                && let Some((evaluated, _)) = evaluation.take()
            {
                let certificate = refit.conclude(data, evaluated)?;
                let over = certificate.relative_gap() <= tol || epochs >= max_epochs;
                if over {
                    solved = Some((certificate, refit.mean_loss()));
                }
                if certificate.dual.is_nan() {
                    renewed = Some((0, over));
                } else if over {
                    return Ok(None);
                }
            }
            return Ok(Some(0));
        }
        let report = pool.install(|| refit.advance(data, size, seed))?;
        visits += report.examples;
        if report.examples == 0 && refit.narrows() {
            // What follows a narrow pass is slower.
            pace.begin_anew();
        }
        if report.examples == 0 && refit.epoch_is_over(tol) {
            epochs += 1;
            if refit.may_be_solved(tol) || epochs >= max_epochs {
                evaluation = Some((refit.evaluation(), 0));
            } else if epochs == PATIENCE && !refit.may_be_solved(FAR * tol) {
                leap = refit.begin_leap(data)?;
            }
        }
        Ok(Some(report.examples as usize))
    })?;
    match solved {
        Some((certificate, loss)) => Ok((certificate, loss, visits)),
        None => unreachable!("work ends when the problem is solved"),
    }
}

#[pymethods]
impl PyRefit {
    /// In the span of the support vectors that a trainer has now. `cache` is how many bytes of features may be kept;
    /// `ovr` makes a problem of each class.
    #[new]
    #[pyo3(signature = (trainer, n_examples, alpha, cache, ovr, *, threads = 1))]
    fn new(
        py: Python<'_>,
        trainer: &BudgetTrainer,
        n_examples: usize,
        alpha: f64,
        cache: usize,
        ovr: bool,
        threads: usize,
    ) -> PyResult<Self> {
        let (pool, task) = (&pool(threads)?, &Task { n_examples, alpha, cache });
        let one = |loss: &Binary<Hinge>| vec![*loss];
        let all = |loss: &CrammerSinger| vec![*loss];
        let problem = match trainer.problem() {
            Typed::Binary32(p) => Typed::Binary32(in_span_of(py, pool, p, one, task)?),
            Typed::Binary64(p) => Typed::Binary64(in_span_of(py, pool, p, one, task)?),
            Typed::Multi32(p) if ovr => Typed::Binary32(in_span_of(py, pool, p, apart, task)?),
            Typed::Multi64(p) if ovr => Typed::Binary64(in_span_of(py, pool, p, apart, task)?),
            Typed::Multi32(p) => Typed::Multi32(in_span_of(py, pool, p, all, task)?),
            Typed::Multi64(p) => Typed::Multi64(in_span_of(py, pool, p, all, task)?),
        };
        Ok(PyRefit { problem })
    }

    /// How many features there are: support vectors that others do not span.
    #[getter]
    fn rank(&self, py: Python<'_>) -> usize {
        locked!(py, &self.problem, |p| p.span().dimension())
    }

    /// Goes on with another alpha, and maybe other weights of examples that had none, from the same dual
    /// point.
    fn set_alpha(&self, py: Python<'_>, alpha: f64) -> PyResult<()> {
        Ok(locked!(py, &self.problem, |p| p.set_lambda(alpha))?)
    }

    /// Starts from nothing again, keeping the features.
    fn restart(&self, py: Python<'_>, alpha: f64) -> PyResult<()> {
        Ok(locked!(py, &self.problem, |p| p.restart(alpha))?)
    }

    /// Solves to the relative gap `tol`, or for so many epochs; the objective, its bound, the mean loss, and visits.
    #[pyo3(signature = (x, labels, tol, max_epochs, seed, *, threads = 1, progress = None))]
    #[allow(clippy::too_many_arguments, reason = "keywords in Python")]
    fn solve(
        &self,
        py: Python<'_>,
        x: Matrix<'_>,
        labels: Labels<'_>,
        tol: f64,
        max_epochs: usize,
        seed: u64,
        threads: usize,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<(f64, f64, f64, u64)> {
        with!(&self.problem, &x, |p, rows| {
            let data = examples(rows, &labels)?;
            let (certificate, loss, visits) =
                solve(py, p, &data, (tol, max_epochs, seed), threads, progress.as_ref())?;
            Ok((certificate.primal, certificate.dual, loss, visits))
        })
    }

    /// Scores of these rows, one after the other.
    #[pyo3(signature = (x, labels, rows, *, threads = 1))]
    fn scores<'py>(
        &self,
        py: Python<'py>,
        x: Matrix<'_>,
        labels: Labels<'_>,
        rows: PyReadonlyArray1<'_, i64>,
        threads: usize,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let numbers: Vec<usize> = rows.as_slice()?.iter().map(|&i| i as usize).collect();
        let pool = pool(threads)?;
        with!(&self.problem, &x, |p, rows| {
            let data = examples(rows, &labels)?;
            let mut scores = Vec::new();
            in_pieces(py, numbers.len(), |piece| {
                let some = pool.install(|| lock(p).scores(&data, &numbers[piece]))?;
                scores.extend(some);
                Ok(())
            })?;
            Ok(PyArray1::from_vec(py, scores))
        })
    }

    /// The coefficients of the support vectors, vectors x outputs, flat.
    fn coefs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let weights = locked!(py, &self.problem, |p| p.weights());
        self.expanded(py, &weights)
    }

    /// The features of rows, one after the other.
    #[pyo3(signature = (x, *, threads = 1))]
    fn features<'py>(
        &self,
        py: Python<'py>,
        x: Matrix<'_>,
        threads: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let pool = pool(threads)?;
        with!(&self.problem, &x, |p, rows| {
            let rank = py.detach(|| {
                let refit = lock(p);
                refit.span().check_features(rows.n_features())?;
                Ok::<_, Error>(refit.span().dimension())
            })?;
            let mut features = memory::zeros("the features", &[rows.n_rows(), rank])?;
            in_pieces(py, rows.n_rows(), |piece| {
                let out = &mut features[piece.start * rank..piece.end * rank];
                let numbers: Vec<usize> = piece.collect();
                pool.install(|| lock(p).span().features(&rows, &numbers, out));
                Ok(())
            })?;
            Ok(PyArray1::from_vec(py, features).into_any())
        })
    }

    /// The coefficients, vectors x outputs, that weights of the features, outputs x rank, stand for.
    fn expand<'py>(
        &self,
        py: Python<'py>,
        weights: PyReadonlyArray1<'_, f64>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        self.expanded(py, weights.as_slice()?)
    }
}

impl PyRefit {
    /// The coefficients, vectors x outputs, that weights of the features stand for: output by output, as each takes as
    /// many products as there are pairs of features.
    fn expanded<'py>(
        &self,
        py: Python<'py>,
        weights: &[f64],
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let (rank, landmarks) =
            locked!(py, &self.problem, |p| (p.span().dimension(), p.span().landmarks()));
        let outputs = weights.len() / rank;
        let mut coefs = memory::zeros("the coefficients", &[landmarks, outputs])?;
        in_pieces(py, outputs, |some| {
            for o in some {
                let weights = &weights[o * rank..(o + 1) * rank];
                any!(&self.problem, |p| lock(p).span().add_coefs(weights, o, outputs, &mut coefs));
            }
            Ok(())
        })?;
        Ok(PyArray1::from_vec(py, coefs))
    }
}
