//! A w of one output, handed to a loop over rows.

use super::Linear;
use crate::hypothesis::{Hypothesis, LinearSingle};
use crate::scalar::Scalar;

impl<S: Scalar> Linear<S> {
    /// Whether [`single`](Linear::single) has all there is: of one output, no average of it.
    pub(crate) fn is_single(&self) -> bool {
        self.outputs() == 1 && self.u.is_none()
    }

    /// What a loop over rows has of v, where that [is single](Linear::is_single).
    pub(crate) fn single(&mut self) -> LinearSingle<'_, S> {
        let (b, norm2, constant) = (self.b[0], self.scale.norm2, self.constant);
        let home = (&mut self.b[0], &mut self.scale.norm2);
        LinearSingle { v: self.v.all_mut(), b, norm2, constant, left: self.left, home }
    }
}
