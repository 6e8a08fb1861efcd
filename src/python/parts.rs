//! Parameters, and parts: what a trainer consists of, as plain numbers and arrays. They are what pickles and model files hold.

use std::ops::RangeInclusive;

use numpy::{Element, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::choice;
use super::examples::Number;
use crate::{
    Average, Ball, Block, BudgetedState, ExpansionState, LinearState, Loss, Params, Report, Scaled,
    Schedule,
};

/// The parameters of every problem, as Python gives them: a dictionary with these keys.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(super) struct Common {
    alpha: f64,
    /// The mean weight of the examples, where the ball that the loss gives is projected on.
    projection: Option<f64>,
    batch_size: usize,
    average: String,
    average_from: u64,
    /// The examples after which the weight of one has halved. Once there was no such thing.
    #[pyo3(default)]
    half_life: Option<f64>,
    /// Added to the step number in the step size: of a copy that learns apart from others, some of their steps. Once there
    /// was no such thing.
    #[pyo3(default)]
    ahead: f64,
}

impl Common {
    /// Whether nothing depends on the norm of each problem's w, nor on when its own steps were.
    pub(super) fn may_share(&self) -> bool {
        self.projection.is_none() && self.average != "recent"
    }

    /// An average of recent iterates reaches back so many updates.
    pub(super) fn params(&self, loss: &impl Loss, window: u64) -> PyResult<Params> {
        let averages = [
            ("none", Average::None),
            ("uniform", Average::Uniform),
            ("polynomial", Average::Polynomial),
            ("recent", Average::Recent { window }),
        ];
        // A step is several examples.
        let forgetting = |half_life| Schedule::forgetting(half_life / self.batch_size as f64);
        let schedule = self.half_life.map_or(Ok(Schedule::Pegasos), forgetting)?;
        let radius = self.projection.map(|weight| loss.radius(self.alpha, weight));
        Ok(Params {
            lambda: self.alpha,
            schedule,
            set: radius.map(|radius| Ball { radius }),
            block: Block::Mean(self.batch_size),
            average: choice("average", &self.average, &averages)?,
            average_from: self.average_from,
            t0: self.ahead,
        })
    }
}

/// What was put together with the interpreter released, and becomes an object once it is back.
pub(super) type Told = Box<dyn for<'py> FnOnce(Python<'py>) -> PyResult<Bound<'py, PyAny>> + Send>;

/// What `f` makes.
pub(super) fn told<F>(f: F) -> Told
where
    F: for<'py> FnOnce(Python<'py>) -> PyResult<Bound<'py, PyAny>> + Send + 'static,
{
    Box::new(f)
}

/// What is stored in a dictionary: by its name there, or as several things by names of their own.
pub(super) trait Part: Sized {
    /// Adds it to these.
    fn put(self, parts: &Bound<'_, PyDict>, name: &str) -> PyResult<()>;
    /// Looks for it among these.
    fn take(parts: &Bound<'_, PyDict>, name: &str) -> PyResult<Self>;
    /// Refuses what is of a wrong type, before arrays are copied.
    fn look(parts: &Bound<'_, PyDict>, name: &str) -> PyResult<()> {
        Self::take(parts, name).map(drop)
    }
    /// Alone in a dictionary, for those with names of their own.
    fn dict<'py>(self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let parts = PyDict::new(py);
        self.put(&parts, "")?;
        Ok(parts)
    }
}

pub(super) fn item<'py>(parts: &Bound<'py, PyDict>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let item = parts.get_item(name)?;
    item.ok_or_else(|| PyValueError::new_err(format!("parts lack {name:?}")))
}

/// Python's own numbers and lists.
macro_rules! plain {
    ($($of:ty),*) => { $(
        impl Part for $of {
            fn put(self, parts: &Bound<'_, PyDict>, name: &str) -> PyResult<()> {
                parts.set_item(name, self)
            }
            fn take(parts: &Bound<'_, PyDict>, name: &str) -> PyResult<Self> {
                item(parts, name)?.extract()
            }
        }
    )* };
}
plain!(bool, f64, u32, u64, usize, String, List, super::linear::Targets);

/// Numbers that are a list in Python.
#[derive(FromPyObject, IntoPyObject)]
pub(super) struct List(pub(super) Vec<f64>);

/// Else numbers are an array.
impl<T: Element + Copy> Part for Vec<T> {
    fn put(self, parts: &Bound<'_, PyDict>, name: &str) -> PyResult<()> {
        parts.set_item(name, PyArray1::from_vec(parts.py(), self))
    }

    fn take(parts: &Bound<'_, PyDict>, name: &str) -> PyResult<Self> {
        Ok(aligned(parts, name)?.as_slice()?.to_vec())
    }

    fn look(parts: &Bound<'_, PyDict>, name: &str) -> PyResult<()> {
        aligned::<T>(parts, name).map(drop)
    }
}

/// The array of this name, or a copy where it does not begin where its numbers may: buffers of a pickle that travel apart, as
/// Dask's do, may come to begin at any byte.
fn aligned<'py, T: Element>(
    parts: &Bound<'py, PyDict>,
    name: &str,
) -> PyResult<PyReadonlyArray1<'py, T>> {
    let found = item(parts, name)?;
    let array = found.extract::<PyReadonlyArray1<'py, T>>()?;
    if array.as_slice().is_ok() {
        return Ok(array);
    }
    found.call_method0("copy")?.extract()
}

impl<T: Part> Part for Option<T> {
    fn put(self, parts: &Bound<'_, PyDict>, name: &str) -> PyResult<()> {
        match self {
            Some(part) => part.put(parts, name),
            None => parts.set_item(name, parts.py().None()),
        }
    }

    fn take(parts: &Bound<'_, PyDict>, name: &str) -> PyResult<Self> {
        if item(parts, name)?.is_none() { Ok(None) } else { T::take(parts, name).map(Some) }
    }

    fn look(parts: &Bound<'_, PyDict>, name: &str) -> PyResult<()> {
        if item(parts, name)?.is_none() { Ok(()) } else { T::look(parts, name) }
    }
}

/// A list of dictionaries.
pub(super) struct Dicts<T>(pub(super) Vec<T>);

impl<T: Part> Part for Dicts<T> {
    fn put(self, parts: &Bound<'_, PyDict>, name: &str) -> PyResult<()> {
        let dicts = self.0.into_iter().map(|part| part.dict(parts.py()));
        parts.set_item(name, PyList::new(parts.py(), dicts.collect::<PyResult<Vec<_>>>()?)?)
    }

    fn take(parts: &Bound<'_, PyDict>, name: &str) -> PyResult<Self> {
        let dicts: Vec<Bound<'_, PyDict>> = item(parts, name)?.extract()?;
        dicts.iter().map(|dict| T::take(dict, "")).collect::<PyResult<_>>().map(Dicts)
    }

    fn look(parts: &Bound<'_, PyDict>, name: &str) -> PyResult<()> {
        let dicts: Vec<Bound<'_, PyDict>> = item(parts, name)?.extract()?;
        dicts.iter().try_for_each(|dict| T::look(dict, ""))
    }
}

/// Looks at a field, whatever its type.
pub(super) fn look_at<T, P: Part>(
    _: fn(&T) -> &P,
    parts: &Bound<'_, PyDict>,
    name: &str,
) -> PyResult<()> {
    P::look(parts, name)
}

/// Makes a struct several parts: those fields that are named, and the others as in the struct behind `..`.
macro_rules! parts {
    ([$($generics:tt)*] $of:ty { $($field:ident),* $(, ..$others:expr)? }) => {
        impl<$($generics)*> $crate::python::parts::Part for $of {
            fn put(self, parts: &Bound<'_, PyDict>, _: &str) -> PyResult<()> {
                $(self.$field.put(parts, stringify!($field))?;)*
                Ok(())
            }
            fn take(parts: &Bound<'_, PyDict>, _: &str) -> PyResult<Self> {
                Ok(Self { $($field: Part::take(parts, stringify!($field))?,)* $(..$others)? })
            }
            fn look(parts: &Bound<'_, PyDict>, _: &str) -> PyResult<()> {
                $($crate::python::parts::look_at(|me: &Self| &me.$field, parts, stringify!($field))?;)*
                Ok(())
            }
        }
    };
}
pub(super) use parts;

parts!([] Scaled { a, norm2, sum_a, sum_q });
parts!([] Report { steps, examples, mistakes, degradation, gradient_error, ..Report::default() });
parts!([S: Number] LinearState<S> { v, b, u, ub, constant, scale });
parts!([S: Number] ExpansionState<S> { v, u, ends, outputs, counts, norms, scale });
parts!([] BudgetedState { v, u, born, added, evicted, norms, scale });

/// Refuses parts of another format than these.
pub(super) fn check_format(parts: &Bound<'_, PyDict>, known: &RangeInclusive<u32>) -> PyResult<()> {
    let (found, want) = (u32::take(parts, "format")?, known.end());
    if known.contains(&found) {
        return Ok(());
    }
    let what = format!("parts must have format {want}, got {found}");
    Err(PyValueError::new_err(format!("{what}: another version of pegasos wrote them")))
}
