//! Frozen models: what predicts while others train.

use std::ops::Range;
use std::sync::Arc;

use crate::data::Matrix;
use crate::error::{Error, check_out};
use crate::examples::{check_scores, squared_norms};
use crate::expansion::{Expansion, PANEL};
use crate::hypothesis::Hypothesis;
use crate::linear::{Linear, LinearPanel};
use crate::memory;
use crate::scalar::Scalar;

/// Rows that are worth it to lay out the weights of all classes anew.
const MANY: usize = 64;

/// Features that a sparse row stores, at a guess.
const STORED: usize = 16;

/// A model that no longer changes. A copy is O(1).
#[derive(Clone, Debug)]
pub enum Frozen<S> {
    /// Weights for every output.
    Linear(Arc<Linear<S>>),
    /// Support vectors, with coefficients for every output.
    Kernel(Arc<Expansion<S>>),
}

impl<S: Scalar> Frozen<S> {
    /// Number of scores of a row.
    pub fn outputs(&self) -> usize {
        match self {
            Frozen::Linear(w) => w.outputs(),
            Frozen::Kernel(w) => w.outputs(),
        }
    }

    /// About how many multiplications a row of so many features takes.
    pub(crate) fn cost(&self, n_features: usize) -> usize {
        match self {
            Frozen::Linear(w) => w.outputs() * n_features,
            Frozen::Kernel(w) => w.n_vectors() * n_features + w.products(),
        }
    }

    /// This model for rows in another scalar; only linear ones have one. O(size of w).
    pub fn convert<T: Scalar>(&self) -> Result<Frozen<T>, Error> {
        let Frozen::Linear(w) = self else {
            return Err(Error::parameter(
                "X",
                "another dtype",
                "of the dtype of the support vectors",
            ));
        };
        memory::check::<T>("the model", &[w.size()])?;
        Ok(Frozen::Linear(Arc::new(w.convert())))
    }

    /// Makes ready to score rows of this matrix.
    pub fn scoring<'a>(&'a self, x: &'a Matrix<'a, S>) -> Result<Scoring<'a, S>, Error> {
        self.scoring_among(x, x.n_features())
    }

    /// [`scoring`](Frozen::scoring) of rows whose features are some of so many: with the scores that they have among all.
    pub(crate) fn scoring_among<'a>(
        &'a self,
        x: &'a Matrix<'a, S>,
        n_features: usize,
    ) -> Result<Scoring<'a, S>, Error> {
        let mut panel = None;
        match self {
            Frozen::Linear(w) => {
                w.check_features(x.n_features())?;
                // To lay out all weights must be little beside the products, and where there is no room rows do one by one.
                let sparse = if x.is_sparse() { n_features / STORED } else { 0 };
                if x.n_rows() >= MANY.max(sparse) {
                    panel = w.panel().ok().flatten();
                }
            }
            Frozen::Kernel(w) => {
                w.check_features(x.n_features())?;
                // The room that the products of a row need.
                w.no_vectors().check_room(PANEL)?;
            }
        }
        Ok(Scoring { model: self, panel, x })
    }
}

/// A model at work on a matrix; see [`Frozen::scoring`].
#[derive(Debug)]
pub struct Scoring<'a, S> {
    model: &'a Frozen<S>,
    panel: Option<LinearPanel<'a, S>>,
    x: &'a Matrix<'a, S>,
}

impl<S: Scalar> Scoring<'_, S> {
    /// About how many multiplications a row takes.
    pub fn cost(&self) -> usize {
        self.model.cost(self.x.n_features())
    }

    /// Writes the scores of these rows, one after the other, on the threads of the current rayon pool. Refuses rows that
    /// are not there or whose scores are not finite, and an `out` that is not of their size.
    pub fn scores(&self, rows: Range<usize>, out: &mut [f64]) -> Result<(), Error> {
        self.x.check_range(&rows)?;
        check_out(&[rows.len(), self.model.outputs()], out.len())?;
        let first = rows.start;
        match (self.model, &self.panel) {
            (Frozen::Linear(_), Some(panel)) => panel.scores_side_by_side(self.x, first, out),
            (Frozen::Linear(w), None) => w.scores_side_by_side(self.x, first, out),
            // Else no product would meet what they hold.
            (Frozen::Kernel(w), _) if w.n_vectors() == 0 => {
                out.fill(0.0);
                return squared_norms(self.x, rows).map(drop);
            }
            (Frozen::Kernel(w), _) => {
                w.scores_side_by_side(self.x, &rows.collect::<Vec<_>>(), out);
            }
        }
        check_scores(self.x, first, self.model.outputs(), out)
    }
}
