//! What linear problems have come to: one model, or what some rows need of it.

use std::sync::Arc;

use super::linear::{LinearProblems, Part};
use crate::data::{Matrix, Needed};
use crate::dual::DualAscent;
use crate::error::Error;
use crate::frozen::{Frozen, Scoring};
use crate::hypothesis::Hypothesis;
use crate::linear::Linear;
use crate::loss::Loss;
use crate::scalar::Scalar;

/// Rows get the weights of their features alone as long as all that have been asked for since a step are at most this part of all
/// features: whoever asks for more is soon better served by all weights, which then are at hand.
const PART: usize = 4;

/// What has been handed out since the last step.
#[derive(Clone, Debug, Default)]
pub(super) struct Handed<S> {
    /// What predicts for all problems.
    model: Option<Arc<Linear<S>>>,
    /// Features of excerpts.
    features: usize,
}

/// What some sparse rows need of a model: the weights of the features that they store.
///
/// ```
/// use pegasos::{Binary, Csr, Hinge, Linear, LinearProblems, Matrix, Params, Trainer};
///
/// let x = Matrix::from(Csr::new(&[0_i32, 1, 3], &[3, 900, 3], &[1.0, 1.0, -2.0], 1000)?);
/// let (w, loss) = (Linear::<f64>::new(1, 1000, 0.0)?, Binary { loss: Hinge, positive: 1 });
/// let mut problems = LinearProblems::from(Trainer::new(w, loss, Params::default())?);
/// let excerpt = problems.excerpt(&x)?.expect("two features of a thousand");
/// let (rows, mut scores) = (excerpt.rows(&x), [0.0; 2]);
/// excerpt.scoring(&rows)?.scores(0..2, &mut scores)?;
/// # Ok::<(), pegasos::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Excerpt<S> {
    pub(crate) model: Frozen<S>,
    pub(crate) needed: Needed,
    /// Of the whole model.
    n_features: usize,
}

impl<S: Scalar> Excerpt<S> {
    /// Makes ready to score rows that [`rows`](Excerpt::rows) gave, as [`Frozen::scoring`] does.
    pub fn scoring<'a>(&'a self, x: &'a Matrix<'a, S>) -> Result<Scoring<'a, S>, Error> {
        self.model.scoring_among(x, self.n_features)
    }

    /// The matrix that it was made for, in either scalar, without any other feature.
    pub fn rows<'a, T: Scalar>(&'a self, x: &Matrix<'a, T>) -> Matrix<'a, T> {
        self.needed.rows(x)
    }
}

impl<S: Scalar, L: Loss + Clone> LinearProblems<S, L> {
    /// The models of all problems, the averages where iterates are averaged. O(size of w).
    pub fn results(&self) -> Result<Vec<Linear<S>>, Error> {
        let result = |part: &Part<S, L>| {
            part.trainer.hypothesis().check_copy()?;
            check_left(part)?;
            Ok(part.dual.as_ref().map_or_else(|| part.trainer.result(), DualAscent::result))
        };
        self.parts.iter().map(result).collect()
    }

    /// One model with the scores of all problems, as it is handed out: weights and intercepts in the scalar of the data.
    /// O(size of w) after a step, else O(1).
    pub fn result(&mut self) -> Result<Arc<Linear<S>>, Error> {
        if let Some(model) = &self.handed.model {
            return Ok(model.clone());
        }
        let model = Arc::new(Linear::of_all(&self.results()?)?);
        self.handed.model = Some(model.clone());
        Ok(model)
    }

    /// What these rows need of [`result`](LinearProblems::result), which gives them the same scores, to the last bit, where that is
    /// much less: a stream that scores each batch before it learns from it needs no more. O(entries + outputs x features that they
    /// store), and 4 bytes for each other feature. `None` where the model is at hand, or will be had for little more: of
    /// dense rows, of few features, while dual ascent goes on, and where rows have asked for a quarter of all features since
    /// the last step.
    pub fn excerpt<T: Scalar>(&mut self, x: &Matrix<'_, T>) -> Result<Option<Excerpt<S>>, Error> {
        let Some(first) = self.parts.first().map(|part| part.trainer.hypothesis()) else {
            return Ok(None);
        };
        let n_features = first.n_features();
        let outputs: usize =
            self.parts.iter().map(|part| part.trainer.hypothesis().outputs()).sum();
        let most = (n_features / PART).saturating_sub(self.handed.features);
        let known =
            self.handed.model.is_some() || self.parts.iter().any(|part| part.dual.is_some());
        if known || x.n_features() != n_features {
            return Ok(None);
        }
        let Some(needed) = Needed::of(x, most, n_features.saturating_mul(outputs) / PART)? else {
            return Ok(None);
        };
        let some = |part: &Part<S, L>| {
            check_left(part)?;
            let some = part.trainer.hypothesis().of_features(&needed.features)?;
            Ok(some.mean().unwrap_or(some))
        };
        let mut parts: Vec<Linear<S>> =
            self.parts.iter().map(some).collect::<Result<_, Error>>()?;
        self.handed.features += needed.features.len();
        let w = match parts.len() {
            // Whose weights stand as sparse rows want them.
            1 => parts.remove(0).handed_out(),
            _ => Linear::of_all(&parts)?,
        };
        Ok(Some(Excerpt { model: Frozen::Linear(Arc::new(w)), needed, n_features }))
    }
}

/// Looks at the weights of an epoch that was interrupted, at which nobody has looked yet.
fn check_left<S: Scalar, L: Loss>(part: &Part<S, L>) -> Result<(), Error> {
    match part.trainer.hypothesis().has_left_norm() {
        true => part.trainer.check_range(),
        false => Ok(()),
    }
}
