//! Arrays of ndarray as rows.

use ndarray::ArrayView2;

use super::Dense;
use crate::error::Error;
use crate::scalar::Scalar;

/// A matrix whose rows lie one after the other (standard layout), without a copy. Refuses others, which
/// `as_standard_layout` copies into one that does.
///
/// ```
/// use ndarray::array;
/// use pegasos::{Classifier, Dense};
///
/// let x = array![[-2.0, 0.0], [-1.0, 1.0], [1.0, 0.0], [3.0, 1.0]];
/// let rows = Dense::try_from(x.view())?;
/// let model = Classifier::default().fit(rows, &[0, 0, 1, 1])?;
/// assert_eq!(model.accuracy(rows, &[0, 0, 1, 1])?, 1.0);
/// assert!(Dense::try_from(x.t()).is_err());
/// # Ok::<(), pegasos::Error>(())
/// ```
impl<'a, S: Scalar> TryFrom<ArrayView2<'a, S>> for Dense<'a, S> {
    type Error = Error;

    fn try_from(x: ArrayView2<'a, S>) -> Result<Self, Error> {
        let (n_rows, n_features) = x.dim();
        let values = x.to_slice();
        let values = values.ok_or_else(|| {
            Error::shape(
                "X",
                "rows that lie one after the other; as_standard_layout() makes them so",
                "another layout",
            )
        })?;
        Dense::new(values, n_rows, n_features)
    }
}
