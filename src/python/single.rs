//! Single examples, as streams bring them: a step, or scores, of the row of a dictionary. Work of microseconds, which the
//! general way (arrays, a fit, an epoch) would multiply.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::TryLockError;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::hasher::Hasher;
use super::trainer::{Problem, Trainer};
use super::{Pool, defect};
use crate::{Error, Hypothesis};

/// See [`Trainer::learn_one`]; of this class and weight.
pub(super) fn learn(
    trainer: &Trainer,
    hasher: &Hasher,
    x: &Bound<'_, PyAny>,
    (y, weight): (u32, f64),
    scored: bool,
) -> PyResult<Option<Vec<f64>>> {
    let py = x.py();
    if !(weight > 0.0 && weight.is_finite()) {
        return Err(PyValueError::new_err(format!("w must be > 0 and finite, got {weight:?}")));
    }
    let row = hasher.hash(x)?;
    let _turn = trainer.turn(py)?;
    let learned = at_once(trainer, py, |problem| {
        let (y, weight) = (&[y], &[weight]);
        let view = row.view(hasher.n_features(), y, Some(weight));
        let safe =
            view.largest(0..1).is_ok_and(|norm2| problem.survives(norm2, weight[0], weight[0]));
        if !safe {
            return Ok(None);
        }
        let scores = if scored { problem.scores_now(&view)? } else { Vec::new() };
        problem.on(&view)?.visit()?;
        Ok(Some(scores))
    });
    hasher.give_back(row);
    learned
}

/// See [`Trainer::scores_one`].
pub(super) fn scores(
    trainer: &Trainer,
    hasher: &Hasher,
    x: &Bound<'_, PyAny>,
) -> PyResult<Vec<f64>> {
    let row = hasher.hash(x)?;
    let scores = at_once(trainer, x.py(), |problem| {
        problem.scores_now(&row.view(hasher.n_features(), &[0], None))
    });
    hasher.give_back(row);
    scores
}

/// See [`Trainer::code_one`].
pub(super) fn code(trainer: &Trainer, hasher: &Hasher, x: &Bound<'_, PyAny>) -> PyResult<usize> {
    let scores = scores(trainer, hasher, x)?;
    if let [score] = scores[..] {
        return Ok(usize::from(score > 0.0));
    }
    let first = |best: usize, o: usize| if scores[o] > scores[best] { o } else { best };
    Ok((0..scores.len()).reduce(first).unwrap_or_default())
}

/// What makes the probability of the second of two classes of a score, as `Calibration` of the Python package does.
#[pyclass(module = "pegasos._core", frozen)]
pub(super) struct Odds {
    way: Way,
    /// Of a sigmoid a and b, of a temperature its inverse, of steps where they are and their values there.
    part: Vec<f64>,
}

#[derive(Clone, Copy)]
enum Way {
    Sigmoid,
    Temperature,
    Isotonic,
}

impl Odds {
    fn of(&self, score: f64) -> f64 {
        let part = &self.part;
        match self.way {
            Way::Sigmoid => {
                let z = -(part[0] * score + part[1]);
                if z < 0.0 {
                    let power = z.exp();
                    power / (1.0 + power)
                } else {
                    1.0 / (1.0 + (-z).exp())
                }
            }
            Way::Temperature => 1.0 / (1.0 + (-(part[0] * score)).exp()),
            Way::Isotonic => {
                let (places, values) = part.split_at(part.len() / 2);
                match places.partition_point(|place| *place <= score) {
                    0 => values[0],
                    n if n == places.len() || places[n - 1] == score => values[n - 1],
                    n => {
                        let slope = (values[n] - values[n - 1]) / (places[n] - places[n - 1]);
                        slope * (score - places[n - 1]) + values[n - 1]
                    }
                }
            }
        }
    }
}

#[pymethods]
impl Odds {
    #[new]
    fn new(method: &str, part: Vec<f64>) -> PyResult<Self> {
        let way = match (method, part.len()) {
            ("sigmoid", 2) => Way::Sigmoid,
            ("temperature", 1) => Way::Temperature,
            ("isotonic", n) if n > 0 && n % 2 == 0 => Way::Isotonic,
            (_, n) => {
                let text = format!("there is no calibration {method:?} of {n} numbers");
                return Err(PyValueError::new_err(text));
            }
        };
        Ok(Odds { way, part })
    }

    /// The probabilities of two classes with these labels, of the row of a dictionary, by the last iterate.
    fn probabilities<'py>(
        &self,
        trainer: &Bound<'py, Trainer>,
        hasher: &Bound<'py, Hasher>,
        x: &Bound<'py, PyAny>,
        labels: &Bound<'py, PyList>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let scores = scores(trainer.get(), hasher.get(), x)?;
        let ([score], 2) = (&scores[..], labels.len()) else {
            return Err(PyValueError::new_err("odds are those of two classes"));
        };
        let p = self.of(*score);
        let found = PyDict::new(x.py());
        found.set_item(labels.get_item(0)?, 1.0 - p)?;
        found.set_item(labels.get_item(1)?, p)?;
        Ok(found)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyAny>, (&'static str, Vec<f64>)) {
        let odds = slf.get();
        let method = match odds.way {
            Way::Sigmoid => "sigmoid",
            Way::Temperature => "temperature",
            Way::Isotonic => "isotonic",
        };
        (slf.get_type().into_any(), (method, odds.part.clone()))
    }
}

/// Calls `f` with the locked problem, for work of microseconds, in which a panic becomes an `InternalError`: the
/// interpreter is released only where another thread holds the lock.
fn at_once<R: Send>(
    trainer: &Trainer,
    py: Python<'_>,
    f: impl FnOnce(&mut dyn Problem) -> Result<R, Error> + Send,
) -> PyResult<R> {
    let f = |problem: &mut dyn Problem| {
        catch_unwind(AssertUnwindSafe(|| Pool(None).run(|| f(problem))))
    };
    let done = match trainer.problem.try_lock() {
        Ok(mut problem) => f(&mut **problem),
        Err(TryLockError::Poisoned(problem)) => f(&mut **problem.into_inner()),
        Err(TryLockError::WouldBlock) => trainer.with(py, f),
    };
    Ok(done.map_err(defect)??)
}

/// The scores of the first row, one hypothesis after the other.
pub(super) fn scores_of<'a, H: Hypothesis + 'a>(
    all: impl IntoIterator<Item = &'a H>,
    data: &crate::Examples<'_, H::Scalar>,
) -> Result<Vec<f64>, Error> {
    let mut scores = Vec::new();
    for w in all {
        w.check_features(data.rows().n_features())?;
        let from = scores.len();
        scores.resize(from + w.outputs(), 0.0);
        w.score(data.rows().row(0), &mut scores[from..]);
    }
    match scores.iter().all(|score| score.is_finite()) {
        true => Ok(scores),
        false => Err(data.diagnose(0)),
    }
}
