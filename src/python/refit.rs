//! `Refit`: one problem for one alpha after another, in the span of a model's support vectors or of the rows' own features.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;

use super::examples::{Examples, Number, View};
use super::linear::{Targets, margin_loss};
use super::metric::Metric;
use super::trainer::{Frozen, Trainer};
use super::{FIRST, Left, Pool, go_on, in_pieces, lock, numbers, unknown, work};
use crate::fit::{Event, Progress, ROUGH, ROUGHER, ROUNDINGS, Solving, most_epochs, worth};
use crate::newton::MOST_WEIGHTS;
use crate::span::Factor;
use crate::{AnyLoss, CrammerSinger, Error, Loss, Multiclass, OneVsRest, Versus, memory};

/// A problem in the span of support vectors, or of features.
#[pyclass(module = "pegasos._core", frozen)]
pub(super) struct Refit {
    problem: Mutex<Box<dyn Problem>>,
    /// How many features there are, and support vectors.
    rank: usize,
    landmarks: usize,
}

/// A refit of whatever scalar and loss.
trait Problem: Send {
    /// See [`Solving::advance`].
    fn advance(
        &mut self,
        solving: &mut Solving,
        data: &View<'_>,
        size: usize,
    ) -> Result<Progress, Error>;
    /// Another lambda, from the same dual points or from nothing.
    fn set_lambda(&mut self, lambda: f64, anew: bool) -> Result<(), Error>;
    fn scores(&mut self, data: &View<'_>, rows: &[usize]) -> Result<Vec<f64>, Error>;
    fn weights(&self) -> Vec<f64>;
    fn intercepts(&self) -> Vec<f64>;
    fn add_coefs(&self, weights: &[f64], some: Range<usize>, out: &mut [f64]);
    /// Features of all rows, one after the other.
    fn features<'py>(
        &self,
        py: Python<'py>,
        data: &View<'_>,
        pool: &Pool,
    ) -> PyResult<Bound<'py, PyAny>>;
}

impl<S: Number, L: Loss + Clone + Send + 'static> Problem for crate::Refit<S, L> {
    fn advance(
        &mut self,
        solving: &mut Solving,
        data: &View<'_>,
        size: usize,
    ) -> Result<Progress, Error> {
        solving.advance(self, data.of::<S>()?, size)
    }

    fn set_lambda(&mut self, lambda: f64, anew: bool) -> Result<(), Error> {
        if anew { self.restart(lambda) } else { crate::Refit::set_lambda(self, lambda) }
    }

    fn scores(&mut self, data: &View<'_>, rows: &[usize]) -> Result<Vec<f64>, Error> {
        crate::Refit::scores(self, data.of::<S>()?, rows)
    }

    fn weights(&self) -> Vec<f64> {
        crate::Refit::weights(self)
    }

    fn intercepts(&self) -> Vec<f64> {
        crate::Refit::intercepts(self)
    }

    fn add_coefs(&self, weights: &[f64], some: Range<usize>, out: &mut [f64]) {
        if let Some(span) = self.span() {
            span.add_coefs(weights, some, out);
        }
    }

    fn features<'py>(
        &self,
        py: Python<'py>,
        data: &View<'_>,
        pool: &Pool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let rows = data.of::<S>()?.rows();
        let span = self.span().ok_or_else(no_vectors)?;
        span.check_features(rows.n_features())?;
        let (n, rank) = (rows.n_rows(), span.dimension());
        let mut features: Vec<S> = memory::zeros("the features", &[n, rank])?;
        in_pieces(py, FIRST, n, &mut |piece| {
            let out = &mut features[piece.start * rank..piece.end * rank];
            let numbers: Vec<usize> = piece.collect();
            pool.run(|| span.features(rows, &numbers, out));
            Ok(())
        })?;
        Ok(PyArray1::from_vec(py, features).into_any())
    }
}

/// Classes against the rest that are solved together, as a row's features, which come from far away, serve all of them then; so
/// few that threads have something to do. In trials on an AMD EPYC refits of letter, usps, covtype and mnist with 500 to 2,000
/// vectors took 0.59 to 0.70 of the time that each class by itself took; with 2 together more, with 8 about as much.
const TOGETHER: usize = 4;

/// A problem in the span of a model's vectors: one of two classes, one of all, or one for each class or pair of them; its
/// rank, and how many vectors there are.
fn problem<S: Number>(
    py: Python<'_>,
    pool: &Pool,
    model: &crate::Frozen<S>,
    classes: usize,
    multi_class: &str,
    metric: Option<&Metric>,
    (lambda, n_examples, bytes): (f64, usize, usize),
) -> PyResult<(Box<dyn Problem>, usize, usize)> {
    let crate::Frozen::Kernel(model) = model else {
        return Err(PyTypeError::new_err("trainer must be one with support vectors"));
    };
    let mut factor = py.detach(|| Factor::of(model))?;
    work(py, FIRST, &mut |_| Ok(()), &mut |panels| {
        let more = pool.run(|| (0..panels).all(|_| factor.advance()));
        Ok(if more { Left::More(0) } else { Left::None(0) })
    })?;
    let made = py.detach(|| {
        let mut span = factor.span()?;
        if let Some(metric) = metric {
            span = span.behind(metric.of::<S>()?)?;
        }
        let (rank, landmarks) = (span.dimension(), model.n_vectors());
        let (loss, count) = (AnyLoss::Hinge, classes as u32);
        let sizes = (lambda, n_examples, bytes);
        let versus = |positive, negative| Versus { loss, positive, negative };
        let problem = match multi_class {
            _ if classes == 2 => in_span(span, &[versus(1, None)], sizes),
            "ovo" => {
                let others =
                    |first| (first + 1..count).map(move |other| versus(first, Some(other)));
                in_span(span, &(0..count).flat_map(others).collect::<Vec<_>>(), sizes)
            }
            // With few features dual ascent can leap, a problem at a time.
            "ovr" if rank <= MOST_WEIGHTS => {
                let alone = (0..count).map(|class| versus(class, None));
                in_span(span, &alone.collect::<Vec<_>>(), sizes)
            }
            "ovr" => {
                let all: Vec<u32> = (0..count).collect();
                let some = |some: &[u32]| OneVsRest { loss, positives: some.to_vec() };
                let losses = all.chunks(TOGETHER).map(|few| Multiclass::OneVsRest(some(few)));
                in_span(span, &losses.collect::<Vec<_>>(), sizes)
            }
            _ => in_span(span, &[Multiclass::CrammerSinger(CrammerSinger { classes })], sizes),
        };
        Ok::<_, Error>((problem?, rank, landmarks))
    })?;
    Ok(made)
}

/// A problem for each of these losses.
fn in_span<S: Number, L: Loss + Clone + Send + 'static>(
    span: crate::Span<S>,
    losses: &[L],
    (lambda, n_examples, bytes): (f64, usize, usize),
) -> Result<Box<dyn Problem>, Error> {
    Ok(Box::new(crate::Refit::new(span, losses, lambda, n_examples, bytes)?))
}

fn no_vectors() -> PyErr {
    PyTypeError::new_err("there are no support vectors")
}

/// A problem in the rows' own features.
fn of_rows<S: Number>(
    targets: &Targets,
    loss: AnyLoss,
    (alpha, n_examples, n_features): (f64, usize, usize),
    constant: f64,
    sparse: bool,
) -> Result<Box<dyn Problem>, Error> {
    let sizes = (n_examples, n_features);
    Ok(match targets {
        Targets::OneScore(positives) => {
            let rest = |&positive| Versus { loss, positive, negative: None };
            let losses: Vec<_> = positives.iter().map(rest).collect();
            Box::new(crate::Refit::<S, _>::of_rows(&losses, alpha, sizes, constant, sparse)?)
        }
        Targets::CrammerSinger(classes) => {
            let losses = [Multiclass::CrammerSinger(CrammerSinger { classes: *classes })];
            Box::new(crate::Refit::<S, _>::of_rows(&losses, alpha, sizes, constant, sparse)?)
        }
    })
}

/// Weights and intercepts.
type Floats<'py> = (Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>);

#[pymethods]
impl Refit {
    /// The relative gap where none is asked for.
    #[classattr]
    const ROUGH: f64 = ROUGH;

    /// The tolerance on the way through several alphas.
    #[classattr]
    const ROUGHER: f64 = ROUGHER;

    /// The least relative gap that can be asked for: a smaller one consists of roundings.
    #[classattr]
    const ROUNDINGS: f64 = ROUNDINGS;

    /// In the span of the support vectors that a trainer has now, of rows that are mapped by a `metric`, if there is one.
    /// `cache` is how many bytes of features may be kept; `multi_class` "ovr" makes a problem of each class, some of them solved
    /// together, "ovo" of each pair, anything else one of all.
    #[new]
    #[pyo3(signature = (trainer, n_examples, alpha, cache, multi_class, *, metric = None, threads = 1))]
    #[allow(clippy::too_many_arguments, reason = "keywords in Python")]
    fn new(
        py: Python<'_>,
        trainer: PyRef<'_, Trainer>,
        n_examples: usize,
        alpha: f64,
        cache: usize,
        multi_class: &str,
        metric: Option<PyRef<'_, Metric>>,
        threads: usize,
    ) -> PyResult<Self> {
        let metric = metric.as_deref();
        let pool = Pool::new(threads, usize::MAX)?;
        let (sizes, classes) = ((alpha, n_examples, cache), trainer.made().classes);
        let (problem, rank, landmarks) = match trainer.model(py)? {
            Frozen::F32(model) => problem(py, &pool, &model, classes, multi_class, metric, sizes),
            Frozen::F64(model) => problem(py, &pool, &model, classes, multi_class, metric, sizes),
        }?;
        Ok(Refit { problem: Mutex::new(problem), rank, landmarks })
    }

    /// In the rows' own features: linear models, of the same targets, constant and loss as a trainer's.
    #[staticmethod]
    #[allow(clippy::too_many_arguments, reason = "what a trainer is made with")]
    fn linear(
        py: Python<'_>,
        n_examples: usize,
        n_features: usize,
        sparse: bool,
        targets: Targets,
        dtype: &str,
        constant: f64,
        loss: &str,
        alpha: f64,
    ) -> PyResult<Self> {
        let loss = margin_loss(loss)?;
        let sizes = (alpha, n_examples, n_features);
        let of = match dtype {
            "float32" => of_rows::<f32>,
            "float64" => of_rows::<f64>,
            other => return Err(unknown("dtype", other)),
        };
        let problem = py.detach(|| of(&targets, loss, sizes, constant, sparse))?;
        Ok(Refit { problem: Mutex::new(problem), rank: n_features, landmarks: 0 })
    }

    /// How many features there are: support vectors that others do not span.
    #[getter]
    fn rank(&self) -> usize {
        self.rank
    }

    /// Goes on with another alpha, and maybe other weights of examples that had none, from the same dual
    /// point; or `anew`, from nothing, keeping the features.
    #[pyo3(signature = (alpha, *, anew = false))]
    fn set_alpha(&self, py: Python<'_>, alpha: f64, anew: bool) -> PyResult<()> {
        Ok(py.detach(|| lock(&self.problem).set_lambda(alpha, anew))?)
    }

    /// Solves to the relative gap `tol`, or for as long as is worth it; the objective, its bound, the mean loss, visits,
    /// and how many epochs it might take.
    #[pyo3(signature = (examples, tol, seed, *, threads = 1, progress = None))]
    fn solve(
        &self,
        py: Python<'_>,
        examples: PyRef<'_, Examples>,
        tol: f64,
        seed: u64,
        threads: usize,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<(f64, f64, f64, u64, usize)> {
        let borrowed = examples.borrow(py)?;
        let view = &borrowed.view(true)?;
        let pool = Pool::new(threads, usize::MAX)?;
        let most = most_epochs(examples.n_rows);
        let mut solving = Solving::new(tol, most, seed);
        let mut tell = |done: usize| match &progress {
            Some(progress) => progress.call1((done,)).map(drop),
            None => Ok(()),
        };
        work(py, FIRST, &mut tell, &mut |size| {
            let problem = &mut **lock(&self.problem);
            let part = |size| problem.advance(&mut solving, view, size);
            Ok(pool.run(|| go_on(size, part))?.0)
        })?;
        let Event { certificate, loss, visits } = solving.event();
        Ok((certificate.primal, certificate.dual, loss, visits, most))
    }

    /// How many steps more a solution that took so many visits counts for a trainer that has made `t` on so many examples.
    #[staticmethod]
    fn worth(visits: u64, n_examples: usize, t: u64) -> u64 {
        worth(visits, n_examples, t)
    }

    /// Scores of these rows, one after the other.
    #[pyo3(signature = (examples, rows, *, threads = 1))]
    fn scores<'py>(
        &self,
        py: Python<'py>,
        examples: PyRef<'_, Examples>,
        rows: PyReadonlyArray1<'_, i64>,
        threads: usize,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let numbers = numbers(&rows)?;
        let borrowed = examples.borrow(py)?;
        let view = &borrowed.view(true)?;
        let pool = Pool::new(threads, usize::MAX)?;
        let mut scores = Vec::new();
        in_pieces(py, FIRST, numbers.len(), &mut |piece| {
            let some = pool.run(|| lock(&self.problem).scores(view, &numbers[piece]))?;
            scores.extend(some);
            Ok(())
        })?;
        Ok(PyArray1::from_vec(py, scores))
    }

    /// The features of rows, one after the other.
    #[pyo3(signature = (examples, *, threads = 1))]
    fn features<'py>(
        &self,
        py: Python<'py>,
        examples: PyRef<'_, Examples>,
        threads: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let borrowed = examples.borrow(py)?;
        let view = &borrowed.view(true)?;
        let pool = Pool::new(threads, usize::MAX)?;
        let problem = self.problem.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        problem.features(py, view, &pool)
    }

    /// The weights of the features, outputs x features, flat, and the intercepts.
    fn weights<'py>(&self, py: Python<'py>) -> Floats<'py> {
        let (weights, intercepts) = py.detach(|| {
            let problem = lock(&self.problem);
            (problem.weights(), problem.intercepts())
        });
        (PyArray1::from_vec(py, weights), PyArray1::from_vec(py, intercepts))
    }

    /// The coefficients of the support vectors, vectors x outputs, flat: those that were found, or those that these weights
    /// of the features, outputs x rank, stand for. In pieces, as an output takes as many products as there are pairs of
    /// features.
    #[pyo3(signature = (weights = None))]
    fn coefs<'py>(
        &self,
        py: Python<'py>,
        weights: Option<PyReadonlyArray1<'_, f64>>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let weights = match weights {
            Some(weights) => weights.as_slice()?.to_vec(),
            None => py.detach(|| lock(&self.problem).weights()),
        };
        let outputs = weights.len() / self.rank;
        let mut coefs = memory::zeros("the coefficients", &[self.landmarks, outputs])?;
        in_pieces(py, FIRST, outputs, &mut |some| {
            lock(&self.problem).add_coefs(&weights, some, &mut coefs);
            Ok(())
        })?;
        Ok(PyArray1::from_vec(py, coefs))
    }
}
