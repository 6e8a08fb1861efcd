//! `Examples`: the arrays of a call.

use std::sync::OnceLock;

use numpy::{
    Element, PyArray1, PyArrayDescrMethods, PyReadonlyArray1, PyReadonlyArrayDyn, PyUntypedArray,
    PyUntypedArrayMethods,
};
use pyo3::prelude::*;

use super::trainer::Frozen;
use super::{FIRST, MOST_AT_FIRST, in_pieces};
use crate::data::Needed;
use crate::examples::squared_norms;
use crate::{Csr, Dense, Error, Index, Matrix, Scalar, memory};

/// Rows, their class numbers and weights, whose structure is sound: a C-contiguous 2-D array, or `(indptr, indices, data,
/// n_features)` of a CSR matrix. What other threads do to the arrays later can make answers wrong, and nothing worse.
#[pyclass(module = "pegasos._core", frozen)]
pub(super) struct Examples {
    x: Arrays,
    y: Option<Py<PyArray1<u32>>>,
    weight: Option<Py<PyArray1<f64>>>,
    pub(super) n_rows: usize,
    /// The largest squared norm of a row and the sum of the weights, once every value was read.
    checked: OnceLock<(f64, f64, f64)>,
}

#[derive(FromPyObject)]
enum Arrays {
    Csr(Py<PyAny>, Py<PyAny>, Py<PyAny>, usize),
    Dense(Py<PyAny>),
}

/// Arrays of examples, borrowed for a call.
pub(super) struct Borrowed<'py> {
    values: Values<'py>,
    layout: Layout<'py>,
    y: Option<PyReadonlyArray1<'py, u32>>,
    weight: Option<PyReadonlyArray1<'py, f64>>,
    /// Class numbers where there are none.
    zeros: Vec<u32>,
}

/// Numbers in either scalar.
enum Values<'py> {
    F32(PyReadonlyArrayDyn<'py, f32>),
    F64(PyReadonlyArrayDyn<'py, f64>),
}

/// What numbers they are: of so many rows and features all, or those of a CSR matrix with its indptr, indices and features.
enum Layout<'py> {
    Dense(usize, usize),
    Csr32(PyReadonlyArray1<'py, i32>, PyReadonlyArray1<'py, i32>, usize),
    Csr64(PyReadonlyArray1<'py, i64>, PyReadonlyArray1<'py, i64>, usize),
}

/// Examples in either scalar.
pub(super) enum View<'a> {
    F32(crate::Examples<'a, f32>),
    F64(crate::Examples<'a, f64>),
}

/// A scalar that NumPy knows.
pub(super) trait Number: Scalar + Element {
    /// What predicts, of this scalar.
    fn model(model: crate::Frozen<Self>) -> Frozen;
    /// The examples, if they are of this scalar.
    fn of<'v, 'a>(view: &'v View<'a>) -> Option<&'v crate::Examples<'a, Self>>;
}

impl Number for f32 {
    fn model(model: crate::Frozen<f32>) -> Frozen {
        Frozen::F32(model)
    }
    fn of<'v, 'a>(view: &'v View<'a>) -> Option<&'v crate::Examples<'a, f32>> {
        if let View::F32(examples) = view { Some(examples) } else { None }
    }
}

impl Number for f64 {
    fn model(model: crate::Frozen<f64>) -> Frozen {
        Frozen::F64(model)
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

    pub(super) fn n_features(&self) -> usize {
        match self {
            View::F32(examples) => examples.rows().n_features(),
            View::F64(examples) => examples.rows().n_features(),
        }
    }

    /// Without features that these rows do not store.
    pub(super) fn among<'b>(&'b self, needed: &'b Needed) -> View<'b> {
        match self {
            View::F32(examples) => View::F32(examples.with_rows(needed.rows(examples.rows()))),
            View::F64(examples) => View::F64(examples.with_rows(needed.rows(examples.rows()))),
        }
    }

    pub(super) fn largest(&self, rows: std::ops::Range<usize>) -> Result<f64, Error> {
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

fn csr<'a, S: Scalar, I: Index + Element>(
    indptr: &'a PyReadonlyArray1<'_, I>,
    indices: &'a PyReadonlyArray1<'_, I>,
    values: &'a [S],
    n_features: usize,
    sound: bool,
) -> PyResult<Csr<'a, S, I>> {
    let (indptr, indices) = (indptr.as_slice()?, indices.as_slice()?);
    Ok(match sound {
        true => Csr::checked_before(indptr, indices, values, n_features),
        false => Csr::new(indptr, indices, values, n_features)?,
    })
}

impl Borrowed<'_> {
    /// The examples; `sound` says that their structure was checked before.
    pub(super) fn view(&self, sound: bool) -> PyResult<View<'_>> {
        Ok(match &self.values {
            Values::F32(values) => View::F32(self.examples(values.as_slice()?, sound)?),
            Values::F64(values) => View::F64(self.examples(values.as_slice()?, sound)?),
        })
    }

    fn examples<'a, S: Scalar>(
        &'a self,
        values: &'a [S],
        sound: bool,
    ) -> PyResult<crate::Examples<'a, S>> {
        let x: Matrix<'a, S> = match &self.layout {
            Layout::Dense(n_rows, d) => Dense::new(values, *n_rows, *d)?.into(),
            Layout::Csr32(indptr, indices, d) => csr(indptr, indices, values, *d, sound)?.into(),
            Layout::Csr64(indptr, indices, d) => csr(indptr, indices, values, *d, sound)?.into(),
        };
        let y = self.y.as_ref().map_or(Ok(&self.zeros[..]), |y| y.as_slice())?;
        let weight = self.weight.as_ref().map(|w| w.as_slice()).transpose()?;
        Ok(match sound {
            true => crate::Examples::checked_before(x, y, weight),
            false => crate::Examples::new(x, y, weight)?,
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
        let (values, layout) = match &self.x {
            Arrays::Dense(x) => {
                let x = x.bind(py);
                let (n_rows, n_features) = x.getattr("shape")?.extract()?;
                (x, Layout::Dense(n_rows, n_features))
            }
            Arrays::Csr(indptr, indices, values, d) => {
                let (indptr, indices) = (indptr.bind(py), indices.bind(py));
                let layout = match is::<i32>(indices)? {
                    true => Layout::Csr32(indptr.extract()?, indices.extract()?, *d),
                    false => Layout::Csr64(indptr.extract()?, indices.extract()?, *d),
                };
                (values.bind(py), layout)
            }
        };
        let values = match is::<f32>(values)? {
            true => Values::F32(values.extract()?),
            false => Values::F64(values.extract()?),
        };
        let n_rows = match &layout {
            Layout::Dense(n_rows, _) => *n_rows,
            Layout::Csr32(indptr, ..) => indptr.len().saturating_sub(1),
            Layout::Csr64(indptr, ..) => indptr.len().saturating_sub(1),
        };
        let y = self.y.as_ref().map(|y| y.bind(py).extract()).transpose()?;
        let weight = self.weight.as_ref().map(|w| w.bind(py).extract()).transpose()?;
        let zeros = memory::zeros("labels", &[if y.is_none() { n_rows } else { 0 }])?;
        Ok(Borrowed { values, layout, y, weight, zeros })
    }
}

#[pymethods]
impl Examples {
    #[new]
    #[pyo3(signature = (x, y = None, weight = None))]
    fn new(
        py: Python<'_>,
        x: Arrays,
        y: Option<Py<PyArray1<u32>>>,
        weight: Option<Py<PyArray1<f64>>>,
    ) -> PyResult<Self> {
        let mut examples = Examples { x, y, weight, n_rows: 0, checked: OnceLock::new() };
        examples.n_rows = match examples.borrow(py)?.view(false)? {
            View::F32(examples) => examples.len(),
            View::F64(examples) => examples.len(),
        };
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
        let borrowed = self.borrow(py)?;
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
    pub(super) fn n_rows(&self) -> usize {
        self.n_rows
    }

    /// What [`check`](Examples::check) has found: the largest squared norm of a row, the largest weight, and the
    /// sum of the weights.
    pub(super) fn sizes(&self, py: Python<'_>) -> PyResult<(f64, f64, f64)> {
        if let Some(sizes) = self.checked.get() {
            return Ok(*sizes);
        }
        let borrowed = self.borrow(py)?;
        let view = &borrowed.view(true)?;
        let mut largest: f64 = 0.0;
        // Reading is what takes no time at all.
        in_pieces(py, MOST_AT_FIRST, self.n_rows, &mut |rows| {
            largest = largest.max(view.largest(rows)?);
            Ok(())
        })?;
        let (mean, heaviest) = match view {
            View::F32(examples) => (examples.mean_weight(), examples.heaviest()),
            View::F64(examples) => (examples.mean_weight(), examples.heaviest()),
        };
        let weight = mean * self.n_rows as f64;
        Ok(*self.checked.get_or_init(|| (largest, heaviest, weight)))
    }
}
