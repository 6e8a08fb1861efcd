//! Shapley values.

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;

use super::examples::{Examples, Number, View};
use super::metric::machine;
use super::trainer::{Frozen, Trainer};
use super::{MOST_AT_FIRST, Pool, SOON, in_pieces};
use crate::{Matrix, Shapley, memory};

/// All values: rows x features x scores.
fn values<'py, S: Number>(
    py: Python<'py>,
    shapley: &Shapley<'_, S>,
    x: &Matrix<'_, S>,
    threads: usize,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let (n, each) = (x.n_rows(), shapley.values_of_a_row());
    let mut found = memory::zeros("the Shapley values", &[n, each])?;
    let pool = Pool::new(threads, usize::MAX)?;
    // So many that a step of them all takes some tens of milliseconds at most.
    let panel = (32 * SOON).saturating_mul(threads) / shapley.cost().max(1);
    let panel = panel.clamp(threads.max(1), MOST_AT_FIRST.max(threads));
    for (k, found) in found.chunks_mut(panel * each).enumerate() {
        let rows = k * panel..k * panel + found.len() / each;
        in_pieces(py, 1, shapley.steps(), &mut |steps| {
            pool.run(|| shapley.add(x, rows.clone(), steps, found))
        })?;
    }
    Ok(PyArray1::from_vec(py, found))
}

fn of_kernels<'py, S: Number>(
    py: Python<'py>,
    model: &crate::Frozen<S>,
    x: &View<'_>,
    background: Option<&View<'_>>,
    threads: usize,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let w = machine(model)?;
    let (x, background) = (x.of::<S>()?, background.map(View::of::<S>).transpose()?);
    let shapley = py.detach(|| Shapley::new(w, background.map(crate::Examples::rows)))?;
    values(py, &shapley, x.rows(), threads)
}

fn of_weights<'py, S: Number>(
    py: Python<'py>,
    weights: &[f64],
    x: &View<'_>,
    background: Option<&View<'_>>,
    threads: usize,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let (x, background) = (x.of::<S>()?.rows(), background.map(View::of::<S>).transpose()?);
    let background = background.map(crate::Examples::rows);
    let shapley = py.detach(|| Shapley::linear(weights, x.n_features(), background))?;
    values(py, &shapley, x, threads)
}

/// The Shapley values of the scores of a machine with a Gaussian kernel: rows x features x scores, flat.
#[pyfunction]
#[pyo3(name = "shapley", signature = (trainer, examples, background = None, *, threads = 1))]
pub(super) fn shapley_of<'py>(
    py: Python<'py>,
    trainer: PyRef<'_, Trainer>,
    examples: PyRef<'_, Examples>,
    background: Option<PyRef<'_, Examples>>,
    threads: usize,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let held = background.as_ref().map(|rows| rows.borrow(py)).transpose()?;
    let background = held.as_ref().map(|held| held.view(true)).transpose()?;
    let borrowed = examples.borrow(py)?;
    let x = borrowed.view(true)?;
    match &trainer.model(py)? {
        Frozen::F32(w) => of_kernels(py, w, &x, background.as_ref(), threads),
        Frozen::F64(w) => of_kernels(py, w, &x, background.as_ref(), threads),
    }
}

/// Shapley values of scores that are sums of features by weights: features x scores, flat.
#[pyfunction]
#[pyo3(name = "linear_shapley", signature = (weights, examples, background = None, *, threads = 1))]
pub(super) fn linear_shapley_of<'py>(
    py: Python<'py>,
    weights: PyReadonlyArray1<'_, f64>,
    examples: PyRef<'_, Examples>,
    background: Option<PyRef<'_, Examples>>,
    threads: usize,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let weights = weights.as_slice()?;
    let held = background.as_ref().map(|rows| rows.borrow(py)).transpose()?;
    let background = held.as_ref().map(|held| held.view(true)).transpose()?;
    let borrowed = examples.borrow(py)?;
    let x = borrowed.view(true)?;
    match &x {
        View::F32(_) => of_weights::<f32>(py, weights, &x, background.as_ref(), threads),
        View::F64(_) => of_weights::<f64>(py, weights, &x, background.as_ref(), threads),
    }
}
