//! Scores of rows by a trainer's model.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::examples::{Number, View};
use super::trainer::{Frozen, Trainer};
use super::{Pool, first_of, in_pieces};
use crate::memory;

/// Rows that one thread scores faster than several, of linear models.
const FEW: usize = 512;

/// Scores of rows, one after the other.
pub(super) fn of(
    py: Python<'_>,
    trainer: &Trainer,
    view: &View<'_>,
    threads: usize,
) -> PyResult<Vec<f64>> {
    if let Some((model, needed)) = trainer.with(py, |problem| problem.excerpt(view))? {
        let scores = by(py, &model, &view.among(&needed), view.n_features(), threads);
        // What is wrong with rows is told of them as they are.
        if !scores.as_ref().is_err_and(|error| error.is_instance_of::<PyValueError>(py)) {
            return scores;
        }
    }
    by(py, &trainer.model(py)?, view, view.n_features(), threads)
}

/// Those of rows whose features are some of so many.
fn by(
    py: Python<'_>,
    model: &Frozen,
    view: &View<'_>,
    n_features: usize,
    threads: usize,
) -> PyResult<Vec<f64>> {
    let sizes = (n_features, threads);
    match (model, view) {
        (Frozen::F32(model), View::F32(x)) => scores(py, model, x, sizes),
        (Frozen::F64(model), View::F64(x)) => scores(py, model, x, sizes),
        // Weights in another scalar than the rows'.
        (Frozen::F32(model), View::F64(x)) => scores(py, &model.convert()?, x, sizes),
        (Frozen::F64(model), View::F32(x)) => scores(py, &model.convert()?, x, sizes),
    }
}

fn scores<S: Number>(
    py: Python<'_>,
    model: &crate::Frozen<S>,
    data: &crate::Examples<'_, S>,
    (n_features, threads): (usize, usize),
) -> PyResult<Vec<f64>> {
    let (n, outputs) = (data.len(), model.outputs());
    let scoring = py.detach(|| model.scoring_among(data.rows(), n_features))?;
    let mut scores = memory::zeros("the scores", &[n, outputs])?;
    let pool = match model {
        crate::Frozen::Linear(_) => Pool::new(threads, n / FEW)?,
        crate::Frozen::Kernel(_) => Pool::of_rows(threads, n, scoring.cost())?,
    };
    in_pieces(py, first_of(scoring.cost()), n, &mut |piece| {
        let out = &mut scores[piece.start * outputs..piece.end * outputs];
        pool.run(|| scoring.scores(piece, out))
    })?;
    Ok(scores)
}
