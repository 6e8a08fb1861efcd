//! What rows go through before a model looks at them: scikit-learn's `StandardScaler` and `MaxAbsScaler`.
//!
//! A feature costs a subtraction and a division, rounded each to the scalar of the rows, as scikit-learn does it; of sparse
//! rows it is multiplied by the reciprocal, as there. So the numbers are the same to the last bit.

use super::file::broken;
use crate::error::Error;
use crate::scalar::Scalar;

/// A change of each feature by itself.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// `(x - mean)/scale`.
    Standard { mean: Option<Vec<f64>>, scale: Option<Vec<f64>> },
    /// `x/scale`, and no further than 1 from 0 if `clip`.
    MaxAbs { scale: Vec<f64>, clip: bool },
}

impl Step {
    /// Refuses one for another number of features.
    pub(super) fn check(&self, n_features: usize) -> Result<(), Error> {
        let (mean, scale) = match self {
            Step::Standard { mean, scale } => (mean.as_ref(), scale.as_ref()),
            Step::MaxAbs { scale, .. } => (None, Some(scale)),
        };
        let fits = |numbers: Option<&Vec<f64>>| numbers.is_none_or(|x| x.len() == n_features);
        if !fits(mean) || !fits(scale) {
            return Err(broken(format!("a scaler must have {n_features} features")));
        }
        Ok(())
    }

    /// Refuses rows that store only features other than 0, where there are means to subtract.
    pub(super) fn check_sparse(&self) -> Result<(), Error> {
        match self {
            Step::Standard { mean: Some(_), .. } => Err(Error::parameter(
                "X",
                "sparse rows",
                "dense where a StandardScaler subtracts means",
            )),
            _ => Ok(()),
        }
    }

    /// What becomes of feature j of a row of scalar `T`, that stores all of its features or not.
    pub(super) fn apply<T: Scalar>(&self, j: usize, x: f64, sparse: bool) -> f64 {
        let round = |x: f64| T::from_f64(x).to_f64();
        match self {
            Step::Standard { mean, scale } => {
                let x = mean.as_ref().map_or(x, |mean| round(x - round(mean[j])));
                match scale {
                    Some(scale) if sparse => round(x * (1.0 / scale[j])),
                    Some(scale) => round(x / round(scale[j])),
                    None => x,
                }
            }
            Step::MaxAbs { scale, clip } => {
                let x = round(if sparse { x * (1.0 / scale[j]) } else { x / scale[j] });
                if *clip { x.clamp(-1.0, 1.0) } else { x }
            }
        }
    }
}
