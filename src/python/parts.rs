//! Parameters, and parts: what a trainer consists of, as plain numbers and arrays. They are what pickles and model files hold.

use numpy::{Element, PyArray1, PyReadonlyArray1};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::unknown;
use crate::{Average, Ball, Block, Loss, Params, Scaled};

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
}

impl Common {
    /// An average of recent iterates reaches back so many updates.
    pub(super) fn params(&self, loss: &impl Loss, window: u64) -> PyResult<Params> {
        let radius = self.projection.map(|weight| loss.radius(self.alpha, weight));
        Ok(Params {
            lambda: self.alpha,
            set: radius.map(|radius| Ball { radius }),
            block: Block::Mean(self.batch_size),
            average: match self.average.as_str() {
                "none" => Average::None,
                "uniform" => Average::Uniform,
                "polynomial" => Average::Polynomial,
                "recent" => Average::Recent { window },
                other => return Err(unknown("average", other)),
            },
            average_from: self.average_from,
            ..Params::default()
        })
    }
}

/// A list of named parts, put together with the interpreter released.
#[derive(Default)]
pub(super) struct Parts(Vec<(&'static str, Part)>);

/// Makes an object of what it holds.
type Make = Box<dyn for<'py> FnOnce(Python<'py>) -> PyResult<Bound<'py, PyAny>> + Send>;

/// A number, an array, or parts within.
pub(super) enum Part {
    Object(Make),
    List(Vec<Parts>),
}

impl Parts {
    /// Adds a number, a string, or `None`.
    pub(super) fn set<T>(&mut self, name: &'static str, value: T)
    where
        T: for<'py> IntoPyObject<'py> + Send + 'static,
    {
        let make: Make = Box::new(move |py| value.into_bound_py_any(py));
        self.0.push((name, Part::Object(make)));
    }

    /// Adds an array.
    pub(super) fn set_array<T: Element + 'static>(&mut self, name: &'static str, values: Vec<T>) {
        let make: Make = Box::new(move |py| Ok(PyArray1::from_vec(py, values).into_any()));
        self.0.push((name, Part::Object(make)));
    }

    /// Adds an array, or `None`.
    pub(super) fn set_maybe<T: Element + 'static>(
        &mut self,
        name: &'static str,
        values: Option<Vec<T>>,
    ) {
        match values {
            Some(values) => self.set_array(name, values),
            None => self.set(name, None::<bool>),
        }
    }

    /// Adds a scale and its sums.
    pub(super) fn set_scale(&mut self, scale: &Scaled) {
        self.set("a", scale.a);
        self.set("norm2", scale.norm2);
        self.set("sum_a", scale.sum_a);
        self.set("sum_q", scale.sum_q);
    }

    /// Adds parts within.
    pub(super) fn set_list(&mut self, name: &'static str, list: Vec<Parts>) {
        self.0.push((name, Part::List(list)));
    }

    /// As Python takes them.
    pub(super) fn into_dict(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let dict = PyDict::new(py);
        for (name, part) in self.0 {
            match part {
                Part::Object(make) => dict.set_item(name, make(py)?)?,
                Part::List(list) => {
                    let items = list.into_iter().map(|parts| parts.into_dict(py));
                    dict.set_item(name, PyList::new(py, items.collect::<PyResult<Vec<_>>>()?)?)?;
                }
            }
        }
        Ok(dict)
    }
}

pub(super) fn item<'py>(parts: &Bound<'py, PyDict>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let item = parts.get_item(name)?;
    item.ok_or_else(|| PyValueError::new_err(format!("parts lack {name:?}")))
}

/// An item that is a number or the like.
pub(super) fn get<'py, T>(parts: &Bound<'py, PyDict>, name: &str) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py>,
{
    item(parts, name)?.extract().map_err(Into::into)
}

/// An item that is an array, copied.
pub(super) fn array<T: Element + Copy>(parts: &Bound<'_, PyDict>, name: &str) -> PyResult<Vec<T>> {
    Ok(item(parts, name)?.extract::<PyReadonlyArray1<'_, T>>()?.as_slice()?.to_vec())
}

/// The same, or `None`.
pub(super) fn maybe_array<T: Element + Copy>(
    parts: &Bound<'_, PyDict>,
    name: &str,
) -> PyResult<Option<Vec<T>>> {
    if item(parts, name)?.is_none() { Ok(None) } else { array(parts, name).map(Some) }
}

/// A scale and its sums; of a budget, whose norm is computed, without that.
pub(super) fn scale(parts: &Bound<'_, PyDict>) -> PyResult<Scaled> {
    let norm2 = if parts.contains("norm2")? { get(parts, "norm2")? } else { f64::NAN };
    let (a, sum_a, sum_q) = (get(parts, "a")?, get(parts, "sum_a")?, get(parts, "sum_q")?);
    Ok(Scaled { a, norm2, sum_a, sum_q })
}

/// Refuses parts of another format than `format`.
pub(super) fn check_format(parts: &Bound<'_, PyDict>, format: u32) -> PyResult<()> {
    match get::<u32>(parts, "format")? {
        found if found == format => Ok(()),
        found => Err(PyValueError::new_err(format!(
            "parts must have format {format}, got {found}: another version of pegasos wrote them"
        ))),
    }
}
