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
use crate::model::Calibration;
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

/// Probabilities of classes, given the scores of one example: what `Calibration` of the Python package makes of many.
#[pyclass(module = "pegasos._core", frozen)]
pub(super) struct ProbabilityMap {
    map: Calibration,
    /// What it was made of.
    method: String,
    parts: Vec<Vec<f64>>,
}

#[pymethods]
impl ProbabilityMap {
    /// By a method, from the numbers that it has learned: for each score, or for all.
    #[new]
    fn new(method: String, parts: Vec<Vec<f64>>) -> PyResult<Self> {
        let shape = |part: &Vec<f64>| match &method[..] {
            "isotonic" => vec![2, part.len() / 2],
            _ => vec![part.len()],
        };
        let shaped: Vec<_> = parts.iter().map(|part| (shape(part), &part[..])).collect();
        let map = Calibration::new(&method, &shaped, parts.len())?;
        Ok(ProbabilityMap { map, method, parts })
    }

    /// Those of classes with these labels, of the row of a dictionary, by the last iterate.
    fn probabilities<'py>(
        &self,
        trainer: &Bound<'py, Trainer>,
        hasher: &Bound<'py, Hasher>,
        x: &Bound<'py, PyAny>,
        labels: &Bound<'py, PyList>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let scores = scores(trainer.get(), hasher.get(), x)?;
        if scores.len() != if labels.len() == 2 { 1 } else { labels.len() } {
            return Err(PyValueError::new_err("there must be a label for each class"));
        }
        let mut found = vec![0.0; labels.len()];
        self.map.probabilities(&scores, false, &mut found);
        let told = PyDict::new(x.py());
        for (label, p) in labels.iter().zip(found) {
            told.set_item(label, p)?;
        }
        Ok(told)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyAny>, (String, Vec<Vec<f64>>)) {
        let ProbabilityMap { method, parts, .. } = slf.get();
        (slf.get_type().into_any(), (method.clone(), parts.clone()))
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
