//! `Hasher`: rows of named features, as streams bring them.

use std::sync::Mutex;

use numpy::PyArray1;
use pyo3::exceptions::{PyException, PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyFloat, PyString};

use super::examples::View;
use super::lock;
use crate::Csr;
use crate::model::column_and_sign;

/// Dictionaries of features by name become rows of so many features, those of scikit-learn's `FeatureHasher`: the column of a
/// name and the sign of its value are those of its hash; a text is a feature of its own, "name=text", of value 1; columns are
/// sorted, and what falls into the same is summed.
#[pyclass(module = "pegasos._core", frozen)]
pub(super) struct Hasher {
    n_features: u32,
    /// A row that nobody needs any more, to write over. Taken, not held: numbers may be objects whose code comes here again.
    spare: Mutex<Row>,
}

/// A row, and room for what it is made of.
#[derive(Default)]
pub(super) struct Row {
    found: Vec<(u32, f64)>,
    columns: Vec<i32>,
    values: Vec<f64>,
    bounds: [i32; 2],
    layout: Layout,
}

/// Names whose columns are known, one after the other, no two of them with the same column: those of the last row, which those
/// of the next mostly are.
#[derive(Default)]
struct Layout {
    names: Vec<u8>,
    /// Of each name: where it ends, its sign, and the place of its column among all.
    each: Vec<(usize, f64, usize)>,
    /// Rising.
    columns: Vec<i32>,
}

/// Of more names no layout is kept.
const MOST_NAMES: usize = 4096;

impl Layout {
    fn clear(&mut self) {
        self.names.clear();
        self.each.clear();
        self.columns.clear();
    }

    /// One more name, before [`arrange`](Layout::arrange).
    fn push(&mut self, name: &[u8], column: u32, sign: f64) {
        if self.each.len() <= MOST_NAMES {
            self.names.extend_from_slice(name);
            // The column stands where its place will.
            self.each.push((self.names.len(), sign, column as usize));
        }
    }

    /// Finds the places of all names; forgets them where two have one column, or there are too many.
    fn arrange(&mut self) {
        self.columns.extend(self.each.iter().map(|(_, _, column)| *column as i32));
        self.columns.sort_unstable();
        if self.each.len() > MOST_NAMES || self.columns.windows(2).any(|two| two[0] == two[1]) {
            return self.clear();
        }
        for (_, _, place) in &mut self.each {
            // Each is among them.
            *place = self.columns.binary_search(&(*place as i32)).unwrap_or_default();
        }
    }
}

impl Row {
    /// The row as an example of this class and weight.
    pub(super) fn view<'a>(
        &'a self,
        n_features: usize,
        y: &'a [u32; 1],
        weight: Option<&'a [f64; 1]>,
    ) -> View<'a> {
        let x = Csr::checked_before(&self.bounds, &self.columns, &self.values, n_features);
        View::F64(crate::Examples::checked_before(x.into(), y, weight.map(|w| &w[..])))
    }

    /// Sorts what was found, and sums what has one column.
    fn settle(&mut self) -> PyResult<()> {
        self.columns.clear();
        self.values.clear();
        self.found.sort_by_key(|(column, _)| *column);
        for same in self.found.chunk_by(|a, b| a.0 == b.0) {
            // Columns are below 2^31.
            self.columns.push(same[0].0 as i32);
            self.values.push(same[1..].iter().fold(same[0].1, |sum, (_, value)| sum + value));
        }
        let stored = i32::try_from(self.columns.len());
        let many = |_| PyValueError::new_err("x must have fewer than 2^31 features");
        self.bounds = [0, stored.map_err(many)?];
        Ok(())
    }

    /// As [`settle`](Row::settle), of the values of all names of the layout, in their places.
    fn settle_laid_out(&mut self) {
        self.columns.clear();
        if self.values.contains(&0.0) {
            let columns = self.layout.columns.iter().zip(&self.values);
            self.columns.extend(columns.filter(|(_, x)| **x != 0.0).map(|(column, _)| *column));
            self.values.retain(|x| *x != 0.0);
        } else {
            self.columns.extend_from_slice(&self.layout.columns);
        }
        // So many names have a layout.
        self.bounds = [0, self.columns.len() as i32];
    }
}

impl Hasher {
    pub(super) fn n_features(&self) -> usize {
        self.n_features as usize
    }

    /// The row of a dictionary, or of what has its `items()`.
    pub(super) fn hash(&self, x: &Bound<'_, PyAny>) -> PyResult<Row> {
        let mut row = std::mem::take(&mut *lock(&self.spare));
        if let Ok(x) = x.cast::<PyDict>() {
            if laid_out(x, &mut row) {
                row.settle_laid_out();
                return Ok(row);
            }
            if self.plain(x, &mut row) {
                row.settle()?;
                return Ok(row);
            }
        }
        row.found.clear();
        self.any(x, &mut row.found)?;
        row.settle()?;
        Ok(row)
    }

    /// Takes back a row.
    pub(super) fn give_back(&self, row: Row) {
        *lock(&self.spare) = row;
    }

    /// What nearly every row consists of: texts as names, finite floats as values. False where there is anything else, which
    /// may run code of its own, or is wrong. Lays out the names for the next row.
    fn plain(&self, x: &Bound<'_, PyDict>, row: &mut Row) -> bool {
        let Row { found, layout, .. } = row;
        found.clear();
        layout.clear();
        for (name, value) in x {
            let Some((name, value)) = text_and_float(&name, &value) else {
                layout.clear();
                return false;
            };
            let (column, sign) = column_and_sign(name.as_bytes(), self.n_features);
            layout.push(name.as_bytes(), column, sign);
            if value != 0.0 {
                found.push((column, sign * value));
            }
        }
        layout.arrange();
        true
    }

    /// Hashes whatever there may be; says what is wrong.
    fn any(&self, x: &Bound<'_, PyAny>, found: &mut Vec<(u32, f64)>) -> PyResult<()> {
        let wrong = |x: &Bound<'_, PyAny>| -> PyResult<PyErr> {
            let kind = x.get_type().name()?;
            Ok(PyTypeError::new_err(format!("x must be a dict of features by name, got: {kind}")))
        };
        // A copy: the code of a number may change the dictionary.
        let items = match x.cast::<PyDict>() {
            Ok(x) => x.items(),
            Err(_) => match x.call_method0("items").and_then(|items| items.try_iter()) {
                Ok(items) => {
                    pyo3::types::PyList::new(x.py(), items.collect::<PyResult<Vec<_>>>()?)?
                }
                Err(error) => {
                    ours(x.py(), error)?;
                    return Err(wrong(x)?);
                }
            },
        };
        for item in items {
            let pair = item.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>();
            let (name, value) = match pair {
                Ok(pair) => pair,
                Err(error) => {
                    ours(x.py(), error)?;
                    return Err(wrong(x)?);
                }
            };
            let text;
            let (bytes, owned);
            let mut bytes: &[u8] = if let Ok(name) = name.cast::<PyString>() {
                text = name.clone();
                utf8(&text, name)?.as_bytes()
            } else if let Ok(name) = name.cast::<PyBytes>() {
                bytes = name.clone();
                bytes.as_bytes()
            } else {
                text = name.str()?;
                utf8(&text, &name)?.as_bytes()
            };
            let mut number = 1.0;
            if let Ok(value) = value.cast::<PyString>() {
                owned = [bytes, b"=", utf8(value, &name)?.as_bytes()].concat();
                bytes = &owned;
            } else {
                number = self.number(&name, &value)?;
            }
            self.add(bytes, number, found);
        }
        Ok(())
    }

    /// A value that is no text.
    fn number(&self, name: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<f64> {
        let found = value.extract::<f64>();
        let found = match found {
            Ok(number) if number.is_finite() => return Ok(number),
            Ok(_) => PyValueError::new_err,
            Err(error) => match ours(value.py(), error)? {
                error if error.is_instance_of::<PyTypeError>(value.py()) => {
                    PyTypeError::new_err::<String>
                }
                // An integer beyond all floats, or a signalling NaN.
                _ => PyValueError::new_err,
            },
        };
        let (name, value) = (told(name)?, told(value)?);
        Err(found(format!("x[{name}] must be a finite number or a text, got {value}")))
    }

    fn add(&self, name: &[u8], value: f64, found: &mut Vec<(u32, f64)>) {
        if value != 0.0 {
            let (column, sign) = column_and_sign(name, self.n_features);
            found.push((column, sign * value));
        }
    }
}

/// A name that is a text and a value that is a finite float.
#[inline]
fn text_and_float<'a>(
    name: &'a Bound<'_, PyAny>,
    value: &Bound<'_, PyAny>,
) -> Option<(&'a str, f64)> {
    let value = value.cast_exact::<PyFloat>().ok()?.value();
    let name = name.cast::<PyString>().ok()?.to_str().ok()?;
    value.is_finite().then_some((name, value))
}

/// The values of a dictionary whose names are just those of the layout, in their places. False of any other.
fn laid_out(x: &Bound<'_, PyDict>, row: &mut Row) -> bool {
    let Layout { names, each, .. } = &row.layout;
    if x.is_empty() || x.len() != each.len() {
        return false;
    }
    row.values.resize(each.len(), 0.0);
    let mut start = 0;
    for ((name, value), &(end, sign, place)) in x.iter().zip(each) {
        match text_and_float(&name, &value) {
            Some((name, value)) if *name.as_bytes() == names[start..end] => {
                row.values[place] = sign * value;
            }
            _ => return false,
        }
        start = end;
    }
    true
}

/// An error that another may stand for; Ctrl-C, an exit and want of memory are no matter of x, and go on as they are.
fn ours(py: Python<'_>, error: PyErr) -> PyResult<PyErr> {
    let others = !error.is_instance_of::<PyException>(py);
    if others || error.is_instance_of::<PyMemoryError>(py) { Err(error) } else { Ok(error) }
}

/// What a text of this name, or the name itself, is in UTF-8: halves of characters are nothing.
fn utf8<'a>(text: &'a Bound<'_, PyString>, name: &Bound<'_, PyAny>) -> PyResult<&'a str> {
    text.to_str().or_else(|error| {
        ours(text.py(), error)?;
        let (name, text) = (told(name)?, told(text)?);
        Err(PyValueError::new_err(format!(
            "x[{name}] must have a name, and a value if it is a text, that UTF-8 can hold, got {text}"
        )))
    })
}

/// An object as a message tells of it: where it cannot say what it is, as integers of thousands of digits, by its type.
fn told(object: &Bound<'_, PyAny>) -> PyResult<String> {
    const MOST: usize = 60;
    let text = match object.repr() {
        Ok(text) => text.to_string_lossy().into_owned(),
        Err(error) => {
            ours(object.py(), error)?;
            object.get_type().name()?.to_string()
        }
    };
    Ok(match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    })
}

/// Columns and values.
type Arrays<'py> = (Bound<'py, PyArray1<i32>>, Bound<'py, PyArray1<f64>>);

#[pymethods]
impl Hasher {
    #[new]
    fn new(n_features: i64) -> PyResult<Self> {
        match u32::try_from(n_features) {
            Ok(n_features) if (1..1 << 31).contains(&n_features) => {
                Ok(Hasher { n_features, spare: Mutex::new(Row::default()) })
            }
            _ => Err(PyValueError::new_err(format!(
                "n_features must be in 1 to 2^31 - 1, got {n_features}"
            ))),
        }
    }

    /// The columns of a row, rising, and its values.
    fn row<'py>(&self, x: Bound<'py, PyAny>) -> PyResult<Arrays<'py>> {
        let row = self.hash(&x)?;
        let arrays = (&row.columns, &row.values);
        let arrays =
            (PyArray1::from_slice(x.py(), arrays.0), PyArray1::from_slice(x.py(), arrays.1));
        self.give_back(row);
        Ok(arrays)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyAny>, (u32,)) {
        (slf.get_type().into_any(), (slf.get().n_features,))
    }
}
