//! `Loader`: reads svmlight's text in blocks, and puts its rows into arrays of NumPy's.
//!
//! NumPy asks the system for large pages. 450 MB are written in 0.05 s then, with 1,000 faults, and otherwise in 0.3 s,
//! with 110,000: more than it takes to read the text that has so many numbers (200 MB of ones).

use std::ops::AddAssign;
use std::sync::Mutex;

use numpy::{Element, PyArray1, PyArrayMethods, PyReadwriteArray1};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyDict;

use super::svmlight::{handed_out, once, options};
use super::{Pool, in_pieces, lock, unknown};
use crate::memory;
use crate::svmlight::{Decimal, Labels, Options, PIECE, Placer, Places, ROWS, Slots};

/// The entries that int32 can count.
const NARROW: usize = i32::MAX as usize;

/// A parser and its rows, until they were handed out or something was wrong.
#[pyclass(module = "pegasos._core", frozen)]
pub(super) struct Loader {
    loading: Mutex<Option<Either>>,
    threads: usize,
}

/// Values, columns, ends of rows, the number of features, labels.
type Arrays<'py> =
    (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, usize, Bound<'py, PyAny>);

enum Either {
    F32(Loading<f32>),
    F64(Loading<f64>),
}

/// An array with room for more.
struct Array<T>(Py<PyArray1<T>>);

impl<T: Element> Array<T> {
    fn new(py: Python<'_>) -> Self {
        Array(PyArray1::zeros(py, 0, false).unbind())
    }

    /// Makes room for so many entries in all, and for `likely` at once: pages that nobody has written to are none.
    fn reserve(&mut self, py: Python<'_>, want: usize, likely: usize) -> PyResult<()> {
        let room = self.0.bind(py).len()?;
        if want <= room {
            return Ok(());
        }
        // NumPy writes zeros to what an array grows by, so that it is little.
        let more = want.max(likely).max(room + room / 8);
        let size = if memory::check::<T>(ROWS, &[more]).is_ok() { more } else { want };
        memory::check::<T>(ROWS, &[size])?;
        if room == 0 {
            self.0 = PyArray1::zeros(py, size, false).unbind();
            return Ok(());
        }
        self.resize(py, size)
    }

    fn resize(&self, py: Python<'_>, size: usize) -> PyResult<()> {
        let options = PyDict::new(py);
        options.set_item("refcheck", false)?;
        self.0.bind(py).call_method("resize", (size,), Some(&options)).map(drop)
    }

    fn as_type<U: Element>(&self, py: Python<'_>, name: &str) -> PyResult<Array<U>> {
        let converted = self.0.bind(py).call_method1("astype", (name,))?;
        Ok(Array(converted.cast_into::<PyArray1<U>>()?.unbind()))
    }

    fn bind<'py>(&self, py: Python<'py>) -> PyReadwriteArray1<'py, T> {
        self.0.bind(py).readwrite()
    }

    /// The array, so long; its entries changed first, if need be.
    fn finish<'py>(
        self,
        py: Python<'py>,
        size: usize,
        change: Option<fn(&mut [T])>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.resize(py, size)?;
        if let Some(change) = change {
            let mut array = self.bind(py);
            let slice = array.as_slice_mut()?;
            in_pieces(py, 1 << 20, size, &mut |range| {
                change(&mut slice[range]);
                Ok(())
            })?;
        }
        Ok(self.0.into_bound(py).into_any())
    }
}

/// The columns, and where rows begin and end.
enum Columns {
    Narrow(Array<i32>, Array<i32>),
    Wide(Array<i64>, Array<i64>),
}

impl Columns {
    fn widen(&mut self, py: Python<'_>) -> PyResult<()> {
        if let Columns::Narrow(columns, ends) = self {
            *self = Columns::Wide(columns.as_type(py, "int64")?, ends.as_type(py, "int64")?);
        }
        Ok(())
    }
}

/// The labels, whole until another comes.
enum Targets {
    Whole(Array<i64>),
    Any(Array<f64>),
}

fn add_1<T: AddAssign + From<bool>>(entries: &mut [T]) {
    entries.iter_mut().for_each(|entry| *entry += true.into());
}

/// A parser, and the rows that have their place.
struct Loading<S> {
    placer: Placer<S>,
    values: Array<S>,
    columns: Columns,
    labels: Targets,
    features: usize,
    rows: usize,
    /// Bytes of the text so far, and how many there are, about.
    bytes: usize,
    n_bytes: usize,
}

impl<S: Decimal + Element> Loading<S> {
    fn new(py: Python<'_>, options: Options, n_bytes: usize) -> PyResult<Self> {
        let mut columns = Columns::Narrow(Array::new(py), Array::new(py));
        if options.n_features.is_some_and(|n| n > NARROW) {
            columns.widen(py)?;
        }
        Ok(Loading {
            placer: Placer::new(options)?,
            values: Array::new(py),
            columns,
            labels: Targets::Whole(Array::new(py)),
            features: 0,
            rows: 0,
            bytes: 0,
            n_bytes,
        })
    }

    /// Makes room for so many rows in all.
    fn reserve(&mut self, py: Python<'_>, features: usize, rows: usize) -> PyResult<()> {
        // As the text has so far, and a little more.
        let scale = 1.02 * self.n_bytes as f64 / self.bytes.max(1) as f64;
        let likely = |n: usize| (n as f64 * scale) as usize;
        self.values.reserve(py, features, likely(features))?;
        match &mut self.labels {
            Targets::Whole(labels) => labels.reserve(py, rows, likely(rows)),
            Targets::Any(labels) => labels.reserve(py, rows, likely(rows)),
        }?;
        match &mut self.columns {
            Columns::Narrow(columns, ends) => {
                columns.reserve(py, features, likely(features))?;
                ends.reserve(py, rows + 1, likely(rows))
            }
            Columns::Wide(columns, ends) => {
                columns.reserve(py, features, likely(features))?;
                ends.reserve(py, rows + 1, likely(rows))
            }
        }
    }

    /// Reads a block, and places the rows of the one before.
    fn push(&mut self, py: Python<'_>, block: &[u8], pool: &Pool) -> PyResult<()> {
        let size = self.placer.unplaced();
        let (features, rows) = (self.features + size.features, self.rows + size.rows);
        if size.is_wide || features > NARROW {
            self.columns.widen(py)?;
        }
        if let (Targets::Whole(labels), false) = (&self.labels, size.is_whole) {
            self.labels = Targets::Any(labels.as_type(py, "float64")?);
        }
        self.reserve(py, features, rows)?;

        let (entries, lines) = (self.features..features, self.rows..rows);
        let ends_at = self.rows + 1..rows + 1;
        let mut values = self.values.bind(py);
        let values = &mut values.as_slice_mut()?[entries.clone()];
        let (mut whole, mut any);
        let labels = match &self.labels {
            Targets::Whole(labels) => {
                whole = labels.bind(py);
                Labels::Whole(&mut whole.as_slice_mut()?[lines])
            }
            Targets::Any(labels) => {
                any = labels.bind(py);
                Labels::Any(&mut any.as_slice_mut()?[lines])
            }
        };
        let (mut narrow, mut wide);
        let slots = match &self.columns {
            Columns::Narrow(columns, ends) => {
                narrow = (columns.bind(py), ends.bind(py));
                let columns = &mut narrow.0.as_slice_mut()?[entries];
                Slots::Narrow { columns, ends: &mut narrow.1.as_slice_mut()?[ends_at] }
            }
            Columns::Wide(columns, ends) => {
                wide = (columns.bind(py), ends.bind(py));
                let columns = &mut wide.0.as_slice_mut()?[entries];
                Slots::Wide { columns, ends: &mut wide.1.as_slice_mut()?[ends_at] }
            }
        };
        let placer = &mut self.placer;
        let mut places = Some(Places { values, labels, slots, so_far: self.features });
        once(py, || match places.take() {
            Some(places) => pool.run(|| placer.push(block, places)),
            None => unreachable!("it is called once"),
        })?;
        (self.features, self.rows) = (features, rows);
        self.bytes += block.len();
        Ok(())
    }

    /// The arrays, as large as what they hold.
    fn finish<'py>(mut self, py: Python<'py>, pool: &Pool) -> PyResult<Arrays<'py>> {
        // The end of the last line, and the places of the last rows.
        self.push(py, b"\n", pool)?;
        self.push(py, b"", pool)?;
        let (n_features, from_0) = self.placer.seen()?;
        let (columns, ends) = match self.columns {
            Columns::Narrow(columns, ends) => (
                columns.finish(py, self.features, from_0.then_some(add_1))?,
                ends.finish(py, self.rows + 1, None)?,
            ),
            Columns::Wide(columns, ends) => (
                columns.finish(py, self.features, from_0.then_some(add_1))?,
                ends.finish(py, self.rows + 1, None)?,
            ),
        };
        let labels = match self.labels {
            Targets::Whole(labels) => labels.finish(py, self.rows, None)?,
            Targets::Any(labels) => labels.finish(py, self.rows, None)?,
        };
        let values = self.values.finish(py, self.features, None)?;
        Ok((values, columns, ends, n_features, labels))
    }
}

#[pymethods]
impl Loader {
    /// As a `Svmlight`; `n_bytes` is about what the text has.
    #[new]
    #[pyo3(signature = (dtype, zero_based, n_features, *, n_bytes = 0, threads = 1))]
    fn new(
        py: Python<'_>,
        dtype: &str,
        zero_based: Option<bool>,
        n_features: Option<usize>,
        n_bytes: usize,
        threads: usize,
    ) -> PyResult<Self> {
        let options = options(zero_based, n_features);
        let loading = match dtype {
            "float32" => Either::F32(Loading::new(py, options, n_bytes)?),
            "float64" => Either::F64(Loading::new(py, options, n_bytes)?),
            other => return Err(unknown("dtype", other)),
        };
        Ok(Loader { loading: Mutex::new(Some(loading)), threads })
    }

    /// Reads what comes next; cut anywhere. Once something was wrong, nothing is left.
    fn push(&self, py: Python<'_>, block: PyBackedBytes) -> PyResult<()> {
        let pool = self.pool(block.len())?;
        let mut loading = self.take()?;
        match &mut loading {
            Either::F32(loading) => loading.push(py, &block, &pool),
            Either::F64(loading) => loading.push(py, &block, &pool),
        }?;
        *lock(&self.loading) = Some(loading);
        Ok(())
    }

    /// All rows: data, indices, indptr, n_features, labels. Afterwards there is nothing left.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<Arrays<'py>> {
        let pool = self.pool(usize::MAX)?;
        match self.take()? {
            Either::F32(loading) => loading.finish(py, &pool),
            Either::F64(loading) => loading.finish(py, &pool),
        }
    }
}

impl Loader {
    /// A short text is read by whoever has it.
    fn pool(&self, bytes: usize) -> PyResult<Pool> {
        Pool::new(if bytes > PIECE { self.threads } else { 1 }, usize::MAX)
    }

    /// Nobody waits: who has it may wait for the interpreter.
    fn take(&self) -> PyResult<Either> {
        Ok(lock(&self.loading).take().ok_or_else(handed_out)?)
    }
}
