//! `Svmlight`: takes svmlight's text in blocks, and hands out rows.

use std::sync::Mutex;

use numpy::{Element, PyArray1};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use super::{Left, Pool, lock, unknown, work};
use crate::Error;
use crate::svmlight::{Base, Decimal, Indices, Options, PIECE, Parser, Rows};

/// A parser, until its rows were handed out.
#[pyclass(module = "pegasos._core", frozen)]
pub(super) struct Svmlight {
    parser: Mutex<Option<Either>>,
    threads: usize,
}

enum Either {
    F32(Parser<f32>),
    F64(Parser<f64>),
}

enum Taken {
    F32(Rows<f32>),
    F64(Rows<f64>),
}

/// Calls the same on whichever parser there is.
macro_rules! either {
    ($either:expr, $parser:ident => $call:expr) => {
        match $either {
            Either::F32($parser) => $call,
            Either::F64($parser) => $call,
        }
    };
}

/// `zero_based` is None where the indices tell, `n_features` where the largest does.
pub(super) fn options(zero_based: Option<bool>, n_features: Option<usize>) -> Options {
    let base = match zero_based {
        None => Base::Auto,
        Some(true) => Base::Zero,
        Some(false) => Base::One,
    };
    Options { base, n_features }
}

/// Does one thing, with the interpreter released.
pub(super) fn once<T: Send>(
    py: Python<'_>,
    mut f: impl FnMut() -> Result<T, Error> + Send,
) -> PyResult<T> {
    let mut result = None;
    work(py, 1, &mut |_| Ok(()), &mut |_| {
        result = Some(f()?);
        Ok(Left::None(0))
    })?;
    match result {
        Some(result) => Ok(result),
        None => unreachable!("the work was done"),
    }
}

/// Values, columns, ends of rows, the number of features, labels.
type Arrays<'py> =
    (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, usize, Bound<'py, PyArray1<f64>>);

fn arrays<S: Decimal + Element>(py: Python<'_>, rows: Rows<S>) -> Arrays<'_> {
    let (columns, indptr) = match rows.indices {
        Indices::Narrow { indptr, columns } => {
            (PyArray1::from_vec(py, columns).into_any(), PyArray1::from_vec(py, indptr).into_any())
        }
        Indices::Wide { indptr, columns } => {
            (PyArray1::from_vec(py, columns).into_any(), PyArray1::from_vec(py, indptr).into_any())
        }
    };
    let values = PyArray1::from_vec(py, rows.values).into_any();
    (values, columns, indptr, rows.n_features, PyArray1::from_vec(py, rows.labels))
}

impl Svmlight {
    /// Calls `f` on the parser, if there still is one. Whoever has the lock does not wait for the interpreter.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        mut f: impl FnMut(&mut Either) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        once(py, || f(lock(&self.parser).as_mut().ok_or_else(handed_out)?))
    }
}

pub(super) fn handed_out() -> Error {
    Error::parameter("the parser", "one that is finished", "one that holds rows")
}

#[pymethods]
impl Svmlight {
    #[new]
    #[pyo3(signature = (dtype, zero_based, n_features, *, threads = 1))]
    fn new(
        dtype: &str,
        zero_based: Option<bool>,
        n_features: Option<usize>,
        threads: usize,
    ) -> PyResult<Self> {
        let options = options(zero_based, n_features);
        let parser = match dtype {
            "float32" => Either::F32(Parser::new(options)?),
            "float64" => Either::F64(Parser::new(options)?),
            other => return Err(unknown("dtype", other)),
        };
        Ok(Svmlight { parser: Mutex::new(Some(parser)), threads })
    }

    /// Reads what comes next; cut anywhere.
    fn push(&self, py: Python<'_>, block: PyBackedBytes) -> PyResult<()> {
        // A short text is read by whoever has it.
        let threads = if block.len() > PIECE { self.threads } else { 1 };
        let pool = Pool::new(threads, usize::MAX)?;
        self.with(py, |parser| pool.run(|| either!(parser, parser => parser.push(&block))))
    }

    /// Nothing comes any more.
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |parser| either!(parser, parser => parser.end()))
    }

    /// The number of rows that were read and neither taken nor forgotten.
    #[getter]
    fn n_rows(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |parser| Ok(either!(parser, parser => parser.n_rows())))
    }

    /// The number of features that all indices so far ask for, and whether they count from 0.
    fn seen(&self, py: Python<'_>) -> PyResult<(usize, bool)> {
        self.with(py, |parser| Ok(either!(parser, parser => parser.seen())))
    }

    /// Forgets the rows that were read, though not what `seen` tells.
    fn forget(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |parser| either!(parser, parser => parser.forget()))
    }

    /// The first `n` rows, or all: data, indices, indptr, n_features, labels.
    fn take<'py>(&self, py: Python<'py>, n: usize) -> PyResult<Arrays<'py>> {
        let taken = self.with(py, |parser| {
            Ok(match parser {
                Either::F32(parser) => Taken::F32(parser.take(n)?),
                Either::F64(parser) => Taken::F64(parser.take(n)?),
            })
        })?;
        Ok(match taken {
            Taken::F32(rows) => arrays(py, rows),
            Taken::F64(rows) => arrays(py, rows),
        })
    }

    /// All rows, as `take` gives them; afterwards there is nothing left.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<Arrays<'py>> {
        self.end(py)?;
        work(py, 1 << 20, &mut |_| Ok(()), &mut |size| {
            let mut parser = lock(&self.parser);
            let parser = parser.as_mut().ok_or_else(handed_out)?;
            let more = either!(parser, parser => parser.settle(size));
            Ok(if more { Left::More(size) } else { Left::None(0) })
        })?;
        Ok(match lock(&self.parser).take().ok_or_else(handed_out)? {
            Either::F32(parser) => arrays(py, finished(py, parser)?),
            Either::F64(parser) => arrays(py, finished(py, parser)?),
        })
    }
}

fn finished<S: Decimal>(py: Python<'_>, parser: Parser<S>) -> PyResult<Rows<S>> {
    let mut parser = Some(parser);
    once(py, || parser.take().ok_or_else(handed_out)?.finish())
}
