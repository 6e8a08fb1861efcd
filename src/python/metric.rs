//! `Metric`: what rows are mapped by.

use std::any::Any;

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;

use super::examples::{Examples, Number};
use super::trainer::{Frozen, Trainer};
use super::{FIRST, Pool, first_of, in_pieces, numbers, unknown};
use crate::{Agop, Error, Expansion, Hypothesis, Matrix, memory};

/// A linear map of rows, in the scalar of the rows.
#[pyclass(module = "pegasos._core", frozen)]
pub(super) struct Metric(Either);

enum Either {
    F32(crate::Metric<f32>),
    F64(crate::Metric<f64>),
}

impl Metric {
    /// A copy, if it is of this scalar.
    pub(super) fn of<S: Number>(&self) -> Result<crate::Metric<S>, Error> {
        let found: &dyn Any = match &self.0 {
            Either::F32(metric) => metric,
            Either::F64(metric) => metric,
        };
        let found = found.downcast_ref::<crate::Metric<S>>().cloned();
        found.ok_or_else(|| Error::parameter("metric", "another dtype", "of the trainer's dtype"))
    }
}

fn mapped<'py, S: Number>(
    py: Python<'py>,
    metric: &crate::Metric<S>,
    x: &Matrix<'_, S>,
    threads: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let pool = Pool::new(threads, usize::MAX)?;
    if x.is_sparse() && metric.is_diagonal() {
        let mut stored = Vec::new();
        in_pieces(py, FIRST, x.n_rows(), &mut |rows| {
            let (mut count, first) = (0, stored.len());
            rows.clone().for_each(|i| x.row(i).for_each(|_, _| count += 1));
            memory::reserve("the mapped rows", &mut stored, first + count)?;
            stored.resize(first + count, S::default());
            metric.map_stored(x, rows, &mut stored[first..])
        })?;
        return Ok(PyArray1::from_vec(py, stored).into_any());
    }
    let each = metric.dimension();
    let mut dense: Vec<S> = memory::zeros("the mapped rows", &[x.n_rows(), each])?;
    in_pieces(py, first_of(each * x.n_features()), x.n_rows(), &mut |rows| {
        let out = &mut dense[rows.start * each..rows.end * each];
        pool.run(|| metric.map(x, rows, out))
    })?;
    Ok(PyArray1::from_vec(py, dense).into_any())
}

#[pymethods]
impl Metric {
    /// Of dimension x `n_features` numbers, row after row; or of `n_features` factors, if it is `diagonal`.
    #[new]
    fn new(
        values: PyReadonlyArray1<'_, f64>,
        n_features: usize,
        diagonal: bool,
        dtype: &str,
    ) -> PyResult<Self> {
        fn make<S: Number>(
            values: &[f64],
            n_features: usize,
            diagonal: bool,
        ) -> Result<crate::Metric<S>, Error> {
            match diagonal {
                true => crate::Metric::diagonal(values),
                false => crate::Metric::full(values, n_features),
            }
        }
        let values = values.as_slice()?;
        Ok(Metric(match dtype {
            "float32" => Either::F32(make(values, n_features, diagonal)?),
            "float64" => Either::F64(make(values, n_features, diagonal)?),
            other => return Err(unknown("dtype", other)),
        }))
    }

    /// The rows, mapped, one after the other, flat; of sparse rows, what their stored features become.
    #[pyo3(signature = (examples, *, threads = 1))]
    fn map<'py>(
        &self,
        py: Python<'py>,
        examples: PyRef<'_, Examples>,
        threads: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let borrowed = examples.borrow(py)?;
        let view = borrowed.view(true)?;
        match &self.0 {
            Either::F32(metric) => mapped(py, metric, view.of::<f32>()?.rows(), threads),
            Either::F64(metric) => mapped(py, metric, view.of::<f64>()?.rows(), threads),
        }
    }
}

pub(super) fn machine<S: Number>(model: &crate::Frozen<S>) -> Result<&Expansion<S>, Error> {
    match model {
        crate::Frozen::Kernel(w) => Ok(w),
        crate::Frozen::Linear(_) => {
            Err(Error::parameter("trainer", "a linear one", "one of a machine with a kernel"))
        }
    }
}

fn agop<S: Number>(
    py: Python<'_>,
    model: &crate::Frozen<S>,
    data: &crate::Examples<'_, S>,
    rows: &[usize],
    diagonal: bool,
    threads: usize,
) -> PyResult<Vec<f64>> {
    let w = machine(model)?;
    let pool = Pool::new(threads, usize::MAX)?;
    let mut sums = Agop::new(data.rows().n_features(), diagonal)?;
    // Whole panels, so that no piece of time shows in the result.
    let panels: Vec<&[usize]> = rows.chunks(Agop::at_a_time(w.outputs())).collect();
    in_pieces(py, 1, panels.len(), &mut |some| {
        let mut some = panels[some].iter();
        some.try_for_each(|rows| pool.run(|| sums.add(w, data.rows(), rows, |i| data.weight(i))))
    })?;
    Ok(py.detach(|| sums.mean()))
}

/// The mean over these rows of the outer products of the scores' gradients in the features, summed over the scores:
/// features x features, flat, or the diagonal.
#[pyfunction]
#[pyo3(name = "agop", signature = (trainer, examples, rows, diagonal, *, threads = 1))]
pub(super) fn agop_of<'py>(
    py: Python<'py>,
    trainer: PyRef<'_, Trainer>,
    examples: PyRef<'_, Examples>,
    rows: PyReadonlyArray1<'_, i64>,
    diagonal: bool,
    threads: usize,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let rows = numbers(&rows)?;
    let borrowed = examples.borrow(py)?;
    let view = borrowed.view(true)?;
    let mean = match &trainer.model(py)? {
        Frozen::F32(w) => agop(py, w, view.of::<f32>()?, &rows, diagonal, threads),
        Frozen::F64(w) => agop(py, w, view.of::<f64>()?, &rows, diagonal, threads),
    }?;
    Ok(PyArray1::from_vec(py, mean))
}

fn gradients<'py, S: Number>(
    py: Python<'py>,
    model: &crate::Frozen<S>,
    x: &Matrix<'_, S>,
    rows: &[usize],
    threads: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let w = machine(model)?;
    let each = w.outputs() * w.n_features();
    let pool = Pool::new(threads, usize::MAX)?;
    let mut found = memory::zeros("gradients", &[rows.len(), each])?;
    py.detach(|| pool.run(|| w.gradients(x, rows, &mut found)))?;
    Ok(PyArray1::from_vec(py, found).into_any())
}

/// The gradients of the scores of a few rows in the features: rows x scores x features, flat.
#[pyfunction]
#[pyo3(name = "gradients", signature = (trainer, examples, rows, *, threads = 1))]
pub(super) fn gradients_of<'py>(
    py: Python<'py>,
    trainer: PyRef<'_, Trainer>,
    examples: PyRef<'_, Examples>,
    rows: PyReadonlyArray1<'_, i64>,
    threads: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let rows = numbers(&rows)?;
    let borrowed = examples.borrow(py)?;
    let view = borrowed.view(true)?;
    match &trainer.model(py)? {
        Frozen::F32(w) => gradients(py, w, view.of::<f32>()?.rows(), &rows, threads),
        Frozen::F64(w) => gradients(py, w, view.of::<f64>()?.rows(), &rows, threads),
    }
}
