//! What all trainers share: a problem whose types are those of its data and classes, and what they read
//! from parts.

use std::sync::Mutex;

use numpy::PyReadonlyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::{MOST_AT_FIRST, in_pieces_from};
use crate::{Examples, Rows};

/// A problem of two classes (or of some against the rest) or of more at once, with data in f32 or f64. Locked
/// for a piece of work at a time, and waited for with the interpreter released: one thread may ask for
/// the model while another trains.
pub(super) enum Typed<B32, B64, M32, M64> {
    Binary32(Mutex<B32>),
    Binary64(Mutex<B64>),
    Multi32(Mutex<M32>),
    Multi64(Mutex<M64>),
}

impl<B32, B64, M32, M64> Typed<B32, B64, M32, M64> {
    pub(super) fn dtype(&self) -> &'static str {
        match self {
            Typed::Binary32(_) | Typed::Multi32(_) => "float32",
            Typed::Binary64(_) | Typed::Multi64(_) => "float64",
        }
    }
}

/// Runs `$then` with the mutex of the problem, whatever its types.
macro_rules! any {
    ($typed:expr, |$p:ident| $then:expr) => {{
        use $crate::python::problem::Typed;
        match $typed {
            Typed::Binary32($p) => $then,
            Typed::Binary64($p) => $then,
            Typed::Multi32($p) => $then,
            Typed::Multi64($p) => $then,
        }
    }};
}

/// Runs `$then` with the locked problem, whatever its types, and with the interpreter released.
macro_rules! locked {
    ($py:expr, $typed:expr, |$p:ident| $then:expr) => {
        $crate::python::problem::any!($typed, |mutex| $py.detach(|| {
            let $p = &mut *$crate::python::lock(mutex);
            $then
        }))
    };
}

/// Runs `$then` with the mutex of the problem and the rows, whatever their types; they must agree in the
/// scalar.
macro_rules! with {
    ($typed:expr, $x:expr, |$p:ident, $rows:ident| $then:expr) => {{
        use pyo3::exceptions::PyTypeError;
        use $crate::python::arrays::{Matrix, csr, dense};
        use $crate::python::problem::{Typed, with};
        match $x {
            Matrix::Dense32(x) => with!($typed, dense(x)?, Binary32, Multi32, $p, $rows, $then),
            Matrix::Csr32I32(x) => with!($typed, csr(x)?, Binary32, Multi32, $p, $rows, $then),
            Matrix::Csr32I64(x) => with!($typed, csr(x)?, Binary32, Multi32, $p, $rows, $then),
            Matrix::Dense64(x) => with!($typed, dense(x)?, Binary64, Multi64, $p, $rows, $then),
            Matrix::Csr64I32(x) => with!($typed, csr(x)?, Binary64, Multi64, $p, $rows, $then),
            Matrix::Csr64I64(x) => with!($typed, csr(x)?, Binary64, Multi64, $p, $rows, $then),
        }
    }};
    ($typed:expr, $x:expr, $one:ident, $multi:ident, $p:ident, $rows:ident, $then:expr) => {{
        let $rows = $x;
        match $typed {
            Typed::$one($p) => $then,
            Typed::$multi($p) => $then,
            _ => Err(PyTypeError::new_err("X must have the dtype of the trainer")),
        }
    }};
}

pub(super) use {any, locked, with};

/// Reads every value and index, and says what is wrong with the first that is; returns the largest squared norm
/// of a row and the sum of the weights.
pub(super) fn check<X: Rows>(py: Python<'_>, data: &Examples<'_, X>) -> PyResult<(f64, f64)> {
    let mut largest: f64 = 0.0;
    // Reading is what takes no time at all.
    in_pieces_from(py, MOST_AT_FIRST, data.len(), |rows| {
        largest = largest.max(data.largest(rows)?);
        Ok(())
    })?;
    Ok((largest, data.mean_weight() * data.len() as f64))
}

pub(super) fn item<'py>(parts: &Bound<'py, PyDict>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let item = parts.get_item(name)?;
    item.ok_or_else(|| PyValueError::new_err(format!("parts lack {name:?}")))
}

/// An item that is an array, copied.
pub(super) fn array<T: numpy::Element + Copy>(
    parts: &Bound<'_, PyDict>,
    name: &str,
) -> PyResult<Vec<T>> {
    Ok(item(parts, name)?.extract::<PyReadonlyArray1<'_, T>>()?.as_slice()?.to_vec())
}

/// Refuses parts of another format than `format`.
pub(super) fn check_format(parts: &Bound<'_, PyDict>, format: u32) -> PyResult<()> {
    match item(parts, "format")?.extract::<u32>()? {
        found if found == format => Ok(()),
        found => Err(PyValueError::new_err(format!(
            "parts must have format {format}, got {found}: another version of pegasos wrote them"
        ))),
    }
}

/// What pickles hold: how to restore, and from what parts.
pub(super) type Pickled<'py> = (Bound<'py, PyAny>, (Bound<'py, PyDict>,));
