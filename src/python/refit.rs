//! `Refit`: one kernel problem, solved in the span of a model's support vectors.

use std::sync::Mutex;

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::arrays::{Labels, Matrix, csr, dense, examples};
use super::kernel::{PyParams, item, with_vectors};
use super::{lock, pool, silent, tell, unknown, work};
use crate::{
    Binary, Certificate, CrammerSinger, Error, Examples, Hinge, Loss, Refit, Rows, Scalar, Span,
};

/// Epochs after which a leap is tried. See the head of `dual.rs`.
const PATIENCE: usize = 5;

/// How many times the tolerance the gap must be for a leap to be worth its time.
const FAR: f64 = 10.0;

enum Problems {
    Binary32(Mutex<Refit<f32, Binary<Hinge>>>),
    Binary64(Mutex<Refit<f64, Binary<Hinge>>>),
    Multi32(Mutex<Refit<f32, CrammerSinger>>),
    Multi64(Mutex<Refit<f64, CrammerSinger>>),
}

/// Runs `$then` with the mutex of the problem, whatever its types.
macro_rules! any {
    ($problem:expr, |$p:ident| $then:expr) => {
        match $problem {
            Problems::Binary32($p) => $then,
            Problems::Binary64($p) => $then,
            Problems::Multi32($p) => $then,
            Problems::Multi64($p) => $then,
        }
    };
}

/// Runs `$then` with the problem and the rows, whatever their types; they must agree in the scalar.
macro_rules! with {
    ($problem:expr, $x:expr, |$p:ident, $rows:ident| $then:expr) => {
        match $x {
            Matrix::Dense32(x) => with!($problem, dense(x)?, Binary32, Multi32, $p, $rows, $then),
            Matrix::Csr32I32(x) => with!($problem, csr(x)?, Binary32, Multi32, $p, $rows, $then),
            Matrix::Csr32I64(x) => with!($problem, csr(x)?, Binary32, Multi32, $p, $rows, $then),
            Matrix::Dense64(x) => with!($problem, dense(x)?, Binary64, Multi64, $p, $rows, $then),
            Matrix::Csr64I32(x) => with!($problem, csr(x)?, Binary64, Multi64, $p, $rows, $then),
            Matrix::Csr64I64(x) => with!($problem, csr(x)?, Binary64, Multi64, $p, $rows, $then),
        }
    };
    ($problem:expr, $x:expr, $one:ident, $multi:ident, $p:ident, $rows:ident, $then:expr) => {{
        let $rows = $x;
        match $problem {
            Problems::$one($p) => $then,
            Problems::$multi($p) => $then,
            _ => Err(PyTypeError::new_err("X must have the dtype of the trainer")),
        }
    }};
}

fn problem<S: Scalar + numpy::Element, L: Loss + Clone + 'static>(
    loss: L,
    parts: &Bound<'_, PyDict>,
    n_examples: usize,
    alpha: f64,
    bytes: usize,
) -> PyResult<Mutex<Refit<S, L>>> {
    let kernel = item(parts, "params")?.extract::<PyParams>()?.kernel()?;
    let mut span = None;
    with_vectors::<S>(parts, item(parts, "n_features")?.extract()?, |vectors| {
        let all: Vec<usize> = (0..vectors.n_rows()).collect();
        span = Some(Span::new(kernel, &vectors, &all)?);
        Ok(())
    })?;
    let none = || Error::parameter("support_vectors_", 0, "one at least");
    Ok(Mutex::new(Refit::new(span.ok_or_else(none)?, loss, alpha, n_examples, bytes)?))
}

/// A problem in the span of support vectors.
#[pyclass(module = "pegasos._core", name = "Refit", frozen)]
pub(super) struct PyRefit {
    problem: Problems,
}

/// Solves to the relative gap `tol`, or for so many epochs; the certificate, the mean loss, and visits.
fn solve<X: Rows, L: Loss + Clone + Send + 'static>(
    py: Python<'_>,
    refit: &Mutex<Refit<X::Scalar, L>>,
    data: &Examples<'_, X>,
    (tol, max_epochs, seed): (f64, usize, u64),
    threads: usize,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(Certificate, f64, u64)> {
    let pool = pool(threads)?;
    work(py, silent, |size| {
        let prepared = pool.install(|| lock(refit).prepare(data, size))?;
        Ok((prepared > 0).then_some(prepared))
    })?;
    let (mut epochs, mut visits, mut evaluation, mut solved) = (0, 0, None, None);
    work(py, tell(progress), |size| {
        let refit = &mut *lock(refit);
        if let Some((evaluated, at)) = &mut evaluation {
            *at = pool.install(|| refit.evaluate(data, evaluated, *at, size))?;
            if *at == data.len()
                && let Some((evaluated, _)) = evaluation.take()
            {
                let certificate = refit.finish(data, evaluated)?;
                if certificate.relative_gap() <= tol || epochs >= max_epochs {
                    solved = Some((certificate, refit.mean_loss()));
                    return Ok(None);
                }
            }
            return Ok(Some(0));
        }
        let report = pool.install(|| refit.advance(data, size, seed))?;
        visits += report.examples;
        if report.examples == 0 && refit.epoch_is_over(tol) {
            epochs += 1;
            if refit.may_be_solved(tol) || epochs >= max_epochs {
                evaluation = Some((refit.evaluation(), 0));
            } else if epochs == PATIENCE && !refit.may_be_solved(FAR * tol) {
                refit.leap(data, tol)?;
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
    /// Of what `BudgetTrainer.parts` gives. `cache` is how many bytes of features may be kept.
    #[new]
    fn new(
        parts: Bound<'_, PyDict>,
        n_examples: usize,
        alpha: f64,
        cache: usize,
    ) -> PyResult<Self> {
        let (dtype, classes) = (
            item(&parts, "dtype")?.extract::<String>()?,
            item(&parts, "classes")?.extract::<usize>()?,
        );
        let binary = Binary { loss: Hinge, positive: 1 };
        let multi = CrammerSinger { classes };
        let problem = match (&*dtype, classes) {
            ("float32", 2) => {
                Problems::Binary32(problem(binary, &parts, n_examples, alpha, cache)?)
            }
            ("float64", 2) => {
                Problems::Binary64(problem(binary, &parts, n_examples, alpha, cache)?)
            }
            ("float32", _) => Problems::Multi32(problem(multi, &parts, n_examples, alpha, cache)?),
            ("float64", _) => Problems::Multi64(problem(multi, &parts, n_examples, alpha, cache)?),
            (other, _) => return Err(unknown("dtype", other)),
        };
        Ok(PyRefit { problem })
    }

    /// How many features there are: support vectors that others do not span.
    #[getter]
    fn rank(&self, py: Python<'_>) -> usize {
        any!(&self.problem, |p| py.detach(|| lock(p).span().dimension()))
    }

    /// Goes on with another alpha, and maybe other weights of examples that had none, from the same dual
    /// point.
    fn set_alpha(&self, py: Python<'_>, alpha: f64) -> PyResult<()> {
        Ok(any!(&self.problem, |p| py.detach(|| lock(p).set_lambda(alpha)))?)
    }

    /// Starts from nothing again, keeping the features.
    fn restart(&self, py: Python<'_>, alpha: f64) -> PyResult<()> {
        Ok(any!(&self.problem, |p| py.detach(|| lock(p).restart(alpha)))?)
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
            let scores = py.detach(|| pool.install(|| lock(p).scores(&data, &numbers)))?;
            Ok(PyArray1::from_vec(py, scores))
        })
    }

    /// The coefficients of the support vectors, vectors x outputs, flat.
    fn coefs<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        let coefs = any!(&self.problem, |p| py.detach(|| lock(p).coefs()));
        PyArray1::from_vec(py, coefs)
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
            let features = py.detach(|| {
                let refit = lock(p);
                let span = refit.span();
                span.check_features(rows.n_features())?;
                let all: Vec<usize> = (0..rows.n_rows()).collect();
                let mut out = vec![Default::default(); all.len() * span.dimension()];
                pool.install(|| span.features(&rows, &all, &mut out));
                Ok::<_, Error>(out)
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
        let weights = weights.as_slice()?;
        let coefs = any!(&self.problem, |p| py.detach(|| lock(p).span().coefs(weights)));
        Ok(PyArray1::from_vec(py, coefs))
    }
}
