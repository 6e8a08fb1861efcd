//! What Python hands over: matrices, labels, orders.

use numpy::{
    PyArray1, PyArrayDescrMethods, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArray,
    PyUntypedArrayMethods,
};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::{in_pieces, unknown};
use crate::{Csr, Dense, Examples, Rows, Sampling, Scalar, data, memory};

/// A matrix as Python hands it over: a C-contiguous 2-D array, or `(indptr, indices, data,
/// n_features)` of a CSR matrix.
pub(super) enum Matrix<'py> {
    Dense32(PyReadonlyArray2<'py, f32>),
    Dense64(PyReadonlyArray2<'py, f64>),
    Csr32I32(CsrParts<'py, f32, i32>),
    Csr32I64(CsrParts<'py, f32, i64>),
    Csr64I32(CsrParts<'py, f64, i32>),
    Csr64I64(CsrParts<'py, f64, i64>),
}

impl<'py> FromPyObject<'_, 'py> for Matrix<'py> {
    type Error = PyErr;

    /// Looks at dtypes first: an attempt that fails makes NumPy's Python code word an error, slowly,
    /// and a Ctrl-C that arrives meanwhile is lost in it.
    fn extract(x: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let is_f32 = |array: &Bound<'py, PyAny>| {
            let array = array.cast::<PyUntypedArray>()?;
            PyResult::Ok(array.dtype().is_equiv_to(&numpy::dtype::<f32>(x.py())))
        };
        let Ok(parts) = x.cast::<PyTuple>() else {
            return Ok(match is_f32(&x.to_owned())? {
                true => Matrix::Dense32(x.extract()?),
                false => Matrix::Dense64(x.extract()?),
            });
        };
        let indices = parts.get_item(1)?;
        let indices = indices.cast::<PyUntypedArray>()?;
        let is_i32 = indices.dtype().is_equiv_to(&numpy::dtype::<i32>(x.py()));
        Ok(match (is_f32(&parts.get_item(2)?)?, is_i32) {
            (true, true) => Matrix::Csr32I32(x.extract()?),
            (true, false) => Matrix::Csr32I64(x.extract()?),
            (false, true) => Matrix::Csr64I32(x.extract()?),
            (false, false) => Matrix::Csr64I64(x.extract()?),
        })
    }
}

pub(super) type CsrParts<'py, S, I> =
    (PyReadonlyArray1<'py, I>, PyReadonlyArray1<'py, I>, PyReadonlyArray1<'py, S>, usize);

pub(super) fn dense<'a, S: Scalar + numpy::Element>(
    x: &'a PyReadonlyArray2<'_, S>,
) -> PyResult<Dense<'a, S>> {
    let [n_rows, n_features] = [x.shape()[0], x.shape()[1]];
    Ok(Dense::new(x.as_slice()?, n_rows, n_features)?)
}

pub(super) fn csr<'a, S: Scalar + numpy::Element, I: crate::Index + numpy::Element>(
    (indptr, indices, data, n_features): &'a CsrParts<'_, S, I>,
) -> PyResult<Csr<'a, S, I>> {
    Ok(Csr::new(indptr.as_slice()?, indices.as_slice()?, data.as_slice()?, *n_features)?)
}

/// Class numbers and, if given, weights.
pub(super) type Labels<'py> = (PyReadonlyArray1<'py, u32>, Option<PyReadonlyArray1<'py, f64>>);

pub(super) fn examples<'a, X: Rows>(
    x: X,
    (y, weight): &'a Labels<'_>,
) -> PyResult<Examples<'a, X>> {
    let weight = weight.as_ref().map(|w| w.as_slice()).transpose()?;
    Ok(Examples::new(x, y.as_slice()?, weight)?)
}

/// An order as Python asks for it: rows by number, or a way of sampling with its seed and epoch.
pub(super) enum Order<'py> {
    Sampled(String, u64, u64),
    Given(PyReadonlyArray1<'py, i64>),
}

impl<'py> FromPyObject<'_, 'py> for Order<'py> {
    type Error = PyErr;

    fn extract(order: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if order.cast::<PyTuple>().is_err() {
            return Ok(Order::Given(order.extract()?));
        }
        let (name, seed, epoch) = order.extract()?;
        Ok(Order::Sampled(name, seed, epoch))
    }
}

impl Order<'_> {
    pub(super) fn rows(&self, n: usize) -> PyResult<Box<dyn Iterator<Item = usize> + Send + '_>> {
        match self {
            Order::Sampled(name, seed, epoch) => {
                Ok(Box::new(sampling(name)?.epoch(n, *seed, *epoch)?))
            }
            // A negative number becomes one that no row has.
            Order::Given(rows) => Ok(Box::new(rows.as_slice()?.iter().map(|&i| i as usize))),
        }
    }
}

pub(super) fn sampling(name: &str) -> PyResult<Sampling> {
    Ok(match name {
        "shuffle" => Sampling::Shuffle,
        "blocks" => Sampling::Blocks,
        "replacement" => Sampling::Replacement,
        "storage" => Sampling::Storage,
        _ => return Err(unknown("sampling", name)),
    })
}

/// `<x, x>` of every row, columns that occur twice taken together. Refuses column indices that are outside.
#[pyfunction]
pub(super) fn squared_norms<'py>(
    py: Python<'py>,
    x: Matrix<'_>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    fn all<X: Rows>(py: Python<'_>, x: X) -> PyResult<Vec<f64>> {
        let mut norms = memory::zeros("norms", &[x.n_rows()])?;
        in_pieces(py, x.n_rows(), |rows| {
            norms[rows.clone()].copy_from_slice(&data::squared_norms(&x, rows)?);
            Ok(())
        })?;
        Ok(norms)
    }
    let norms = match &x {
        Matrix::Dense32(x) => all(py, dense(x)?),
        Matrix::Dense64(x) => all(py, dense(x)?),
        Matrix::Csr32I32(x) => all(py, csr(x)?),
        Matrix::Csr32I64(x) => all(py, csr(x)?),
        Matrix::Csr64I32(x) => all(py, csr(x)?),
        Matrix::Csr64I64(x) => all(py, csr(x)?),
    }?;
    Ok(PyArray1::from_vec(py, norms))
}

/// Refuses a matrix whose shape or row bounds are not sound, before anyone else walks it.
#[pyfunction]
pub(super) fn check_shape(x: Matrix<'_>) -> PyResult<()> {
    match &x {
        Matrix::Dense32(x) => dense(x).map(drop),
        Matrix::Dense64(x) => dense(x).map(drop),
        Matrix::Csr32I32(x) => csr(x).map(drop),
        Matrix::Csr32I64(x) => csr(x).map(drop),
        Matrix::Csr64I32(x) => csr(x).map(drop),
        Matrix::Csr64I64(x) => csr(x).map(drop),
    }
}
