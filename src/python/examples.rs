//! `Examples`: the arrays of a call.

use std::sync::OnceLock;

use numpy::{
    Element, PyArray1, PyArrayDescrMethods, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArray,
    PyUntypedArrayMethods,
};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::trainer::Model;
use super::{FIRST, MOST_AT_FIRST, in_pieces, unknown};
use crate::examples::squared_norms;
use crate::{Csr, Dense, Error, Index, Matrix, Sampling, Scalar, memory};

/// Rows, their class numbers and weights, whose structure is sound: a C-contiguous 2-D array, or `(indptr, indices, data,
/// n_features)` of a CSR matrix. What other threads do to the arrays later can make answers wrong, and nothing worse.
#[pyclass(module = "pegasos._core", frozen)]
pub(super) struct Examples {
    x: Arrays,
    y: Option<Py<PyArray1<u32>>>,
    weight: Option<Py<PyArray1<f64>>>,
    n_rows: usize,
    /// The largest squared norm of a row and the sum of the weights, once every value was read.
    checked: OnceLock<(f64, f64)>,
}

enum Arrays {
    Dense(Py<PyAny>),
    Csr([Py<PyAny>; 3], usize),
}

/// The same, borrowed for a call.
pub(super) struct Borrowed<'py> {
    x: BorrowedMatrix<'py>,
    y: Option<PyReadonlyArray1<'py, u32>>,
    weight: Option<PyReadonlyArray1<'py, f64>>,
    /// Class numbers where there are none.
    zeros: Vec<u32>,
}

enum BorrowedMatrix<'py> {
    Dense32(PyReadonlyArray2<'py, f32>),
    Dense64(PyReadonlyArray2<'py, f64>),
    Csr32I32(CsrArrays<'py, f32, i32>),
    Csr32I64(CsrArrays<'py, f32, i64>),
    Csr64I32(CsrArrays<'py, f64, i32>),
    Csr64I64(CsrArrays<'py, f64, i64>),
}

type CsrArrays<'py, S, I> =
    (PyReadonlyArray1<'py, I>, PyReadonlyArray1<'py, I>, PyReadonlyArray1<'py, S>, usize);

/// Examples in either scalar.
pub(super) enum View<'a> {
    F32(crate::Examples<'a, f32>),
    F64(crate::Examples<'a, f64>),
}

/// A scalar that NumPy knows.
pub(super) trait Number: Scalar + Element {
    /// Its name.
    const DTYPE: &'static str;
    /// What predicts, of this scalar.
    fn model(model: crate::Model<Self>) -> Model;
    /// The examples, if they are of this scalar.
    fn of<'v, 'a>(view: &'v View<'a>) -> Option<&'v crate::Examples<'a, Self>>;
}

impl Number for f32 {
    const DTYPE: &'static str = "float32";
    fn model(model: crate::Model<f32>) -> Model {
        Model::F32(model)
    }
    fn of<'v, 'a>(view: &'v View<'a>) -> Option<&'v crate::Examples<'a, f32>> {
        if let View::F32(examples) = view { Some(examples) } else { None }
    }
}

impl Number for f64 {
    const DTYPE: &'static str = "float64";
    fn model(model: crate::Model<f64>) -> Model {
        Model::F64(model)
    }
    fn of<'v, 'a>(view: &'v View<'a>) -> Option<&'v crate::Examples<'a, f64>> {
        if let View::F64(examples) = view { Some(examples) } else { None }
    }
}

impl<'a> View<'a> {
    /// The examples as numbers of this kind.
    pub(super) fn of<S: Number>(&self) -> Result<&crate::Examples<'a, S>, Error> {
        S::of(self).ok_or_else(|| Error::parameter("X", "another dtype", "of the trainer's dtype"))
    }

    pub(super) fn n_rows(&self) -> usize {
        match self {
            View::F32(examples) => examples.len(),
            View::F64(examples) => examples.len(),
        }
    }

    pub(super) fn n_features(&self) -> usize {
        match self {
            View::F32(examples) => examples.rows().n_features(),
            View::F64(examples) => examples.rows().n_features(),
        }
    }

    fn largest(&self, rows: std::ops::Range<usize>) -> Result<f64, Error> {
        match self {
            View::F32(examples) => examples.largest(rows),
            View::F64(examples) => examples.largest(rows),
        }
    }

    fn norms(&self, rows: std::ops::Range<usize>) -> Result<Vec<f64>, Error> {
        match self {
            View::F32(examples) => squared_norms(examples.rows(), rows),
            View::F64(examples) => squared_norms(examples.rows(), rows),
        }
    }
}

fn dense<'a, S: Scalar + Element>(x: &'a PyReadonlyArray2<'_, S>) -> PyResult<Matrix<'a, S>> {
    let [n_rows, n_features] = [x.shape()[0], x.shape()[1]];
    Ok(Dense::new(x.as_slice()?, n_rows, n_features)?.into())
}

fn csr<'a, S: Scalar + Element, I: Index + Element>(
    (indptr, indices, values, n_features): &'a CsrArrays<'_, S, I>,
    sound: bool,
) -> PyResult<Csr<'a, S, I>> {
    let (indptr, indices, values) = (indptr.as_slice()?, indices.as_slice()?, values.as_slice()?);
    Ok(match sound {
        true => Csr::checked_before(indptr, indices, values, *n_features),
        false => Csr::new(indptr, indices, values, *n_features)?,
    })
}

impl Borrowed<'_> {
    /// The examples; `sound` says that their structure was checked before.
    pub(super) fn view(&mut self, sound: bool) -> PyResult<View<'_>> {
        let n = match &self.x {
            BorrowedMatrix::Dense32(x) => x.shape()[0],
            BorrowedMatrix::Dense64(x) => x.shape()[0],
            BorrowedMatrix::Csr32I32(x) => x.0.len().saturating_sub(1),
            BorrowedMatrix::Csr32I64(x) => x.0.len().saturating_sub(1),
            BorrowedMatrix::Csr64I32(x) => x.0.len().saturating_sub(1),
            BorrowedMatrix::Csr64I64(x) => x.0.len().saturating_sub(1),
        };
        let y = match &self.y {
            Some(y) => y.as_slice()?,
            None => {
                self.zeros = memory::zeros("labels", &[n])?;
                &self.zeros
            }
        };
        let weight = self.weight.as_ref().map(|w| w.as_slice()).transpose()?;
        fn join<'a, S: Scalar>(
            x: impl Into<Matrix<'a, S>>,
            y: &'a [u32],
            weight: Option<&'a [f64]>,
            sound: bool,
        ) -> Result<crate::Examples<'a, S>, Error> {
            match sound {
                true => Ok(crate::Examples::checked_before(x.into(), y, weight)),
                false => crate::Examples::new(x, y, weight),
            }
        }
        Ok(match &self.x {
            BorrowedMatrix::Dense32(x) => View::F32(join(dense(x)?, y, weight, sound)?),
            BorrowedMatrix::Dense64(x) => View::F64(join(dense(x)?, y, weight, sound)?),
            BorrowedMatrix::Csr32I32(x) => View::F32(join(csr(x, sound)?, y, weight, sound)?),
            BorrowedMatrix::Csr32I64(x) => View::F32(join(csr(x, sound)?, y, weight, sound)?),
            BorrowedMatrix::Csr64I32(x) => View::F64(join(csr(x, sound)?, y, weight, sound)?),
            BorrowedMatrix::Csr64I64(x) => View::F64(join(csr(x, sound)?, y, weight, sound)?),
        })
    }
}

/// Whether an array has this dtype. Looking comes first: an attempt that fails makes NumPy's Python code word an error,
/// slowly, and a Ctrl-C that arrives meanwhile is lost in it.
fn is<T: Element>(array: &Bound<'_, PyAny>) -> PyResult<bool> {
    let array = array.cast::<PyUntypedArray>()?;
    Ok(array.dtype().is_equiv_to(&numpy::dtype::<T>(array.py())))
}

impl Examples {
    /// The arrays, for the time of a call.
    pub(super) fn borrow<'py>(&self, py: Python<'py>) -> PyResult<Borrowed<'py>> {
        let x = match &self.x {
            Arrays::Dense(x) => {
                let x = x.bind(py);
                match is::<f32>(x)? {
                    true => BorrowedMatrix::Dense32(x.extract()?),
                    false => BorrowedMatrix::Dense64(x.extract()?),
                }
            }
            Arrays::Csr([indptr, indices, values], d) => {
                let (indptr, indices, values) =
                    (indptr.bind(py), indices.bind(py), values.bind(py));
                let (p, d) = ((indptr, indices, values), *d);
                fn take<'py, S: Element, I: Element>(
                    (indptr, indices, values): (
                        &Bound<'py, PyAny>,
                        &Bound<'py, PyAny>,
                        &Bound<'py, PyAny>,
                    ),
                    d: usize,
                ) -> PyResult<CsrArrays<'py, S, I>> {
                    Ok((indptr.extract()?, indices.extract()?, values.extract()?, d))
                }
                match (is::<f32>(values)?, is::<i32>(indices)?) {
                    (true, true) => BorrowedMatrix::Csr32I32(take(p, d)?),
                    (true, false) => BorrowedMatrix::Csr32I64(take(p, d)?),
                    (false, true) => BorrowedMatrix::Csr64I32(take(p, d)?),
                    (false, false) => BorrowedMatrix::Csr64I64(take(p, d)?),
                }
            }
        };
        let y = self.y.as_ref().map(|y| y.bind(py).extract()).transpose()?;
        let weight = self.weight.as_ref().map(|w| w.bind(py).extract()).transpose()?;
        Ok(Borrowed { x, y, weight, zeros: Vec::new() })
    }
}

#[pymethods]
impl Examples {
    #[new]
    #[pyo3(signature = (x, y = None, weight = None))]
    fn new(
        x: Bound<'_, PyAny>,
        y: Option<Bound<'_, PyArray1<u32>>>,
        weight: Option<Bound<'_, PyArray1<f64>>>,
    ) -> PyResult<Self> {
        let py = x.py();
        let x = match x.cast::<PyTuple>() {
            Ok(parts) => {
                let part = |k| Ok::<_, PyErr>(parts.get_item(k)?.unbind());
                Arrays::Csr([part(0)?, part(1)?, part(2)?], parts.get_item(3)?.extract()?)
            }
            Err(_) => Arrays::Dense(x.unbind()),
        };
        let (y, weight) = (y.map(Bound::unbind), weight.map(Bound::unbind));
        let checked = OnceLock::new();
        let mut examples = Examples { x, y, weight, n_rows: 0, checked };
        examples.n_rows = examples.borrow(py)?.view(false)?.n_rows();
        Ok(examples)
    }

    /// How many rows there are.
    fn __len__(&self) -> usize {
        self.n_rows
    }

    /// Reads every value and index, and says what is wrong with the first that is. Once.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.sizes(py).map(drop)
    }

    /// `<x, x>` of every row, columns that occur twice taken together. Refuses column indices that are outside.
    fn squared_norms<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let mut borrowed = self.borrow(py)?;
        let view = &borrowed.view(true)?;
        let mut norms = memory::zeros("norms", &[self.n_rows])?;
        in_pieces(py, FIRST, self.n_rows, &mut |rows| {
            norms[rows.clone()].copy_from_slice(&view.norms(rows)?);
            Ok(())
        })?;
        Ok(PyArray1::from_vec(py, norms))
    }
}

impl Examples {
    /// What [`check`](Examples::check) has found: the largest squared norm of a row, the sum of the weights.
    pub(super) fn sizes(&self, py: Python<'_>) -> PyResult<(f64, f64)> {
        if let Some(sizes) = self.checked.get() {
            return Ok(*sizes);
        }
        let mut borrowed = self.borrow(py)?;
        let view = &borrowed.view(true)?;
        let mut largest: f64 = 0.0;
        // Reading is what takes no time at all.
        in_pieces(py, MOST_AT_FIRST, self.n_rows, &mut |rows| {
            largest = largest.max(view.largest(rows)?);
            Ok(())
        })?;
        let mean = match view {
            View::F32(examples) => examples.mean_weight(),
            View::F64(examples) => examples.mean_weight(),
        };
        Ok(*self.checked.get_or_init(|| (largest, mean * self.n_rows as f64)))
    }
}

/// An order as Python asks for it: rows by number, or a way of sampling.
pub(super) enum Rows {
    Sampled(Sampling),
    Given(Vec<usize>),
}

impl<'py> FromPyObject<'_, 'py> for Rows {
    type Error = PyErr;

    fn extract(order: pyo3::Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(name) = order.extract::<String>() {
            return sampling(&name).map(Rows::Sampled);
        }
        let rows: PyReadonlyArray1<'_, i64> = order.extract()?;
        // A negative number becomes one that no row has.
        Ok(Rows::Given(rows.as_slice()?.iter().map(|&i| i as usize).collect()))
    }
}

fn sampling(name: &str) -> PyResult<Sampling> {
    Ok(match name {
        "shuffle" => Sampling::Shuffle,
        "blocks" => Sampling::Blocks,
        "replacement" => Sampling::Replacement,
        "storage" => Sampling::Storage,
        _ => return Err(unknown("sampling", name)),
    })
}
