//! A look at some of the rows: whether a whole evaluation is due.

use crate::data::Row;
use crate::error::Error;
use crate::evaluation::Glimpse;
use crate::examples::Examples;
use crate::loss::Loss;
use crate::scalar::Scalar;

use super::DualAscent;

/// What a pass may leave of the gap that it saw, as long as nobody has looked.
pub(super) const HOPE: f64 = 1e-3;

/// What the next pass may leave, of what this one has left.
const BETTER: f64 = 0.3;

/// How many times the rows of a glimpse a pass must have, so that it costs little beside it.
const LONGER: usize = 16;

impl<L: Loss> DualAscent<L> {
    /// After a pass: about the relative gap where it now may be at most `tol`. Steps that hardly disturb one another close in
    /// one pass a gap of which each example saw all before its step: what the pass has seen tells nothing then. Not after an
    /// evaluation has shown that the gap is in a few other rows.
    pub(crate) fn glimpse<S: Scalar>(
        &mut self,
        data: &Examples<'_, S>,
        tol: f64,
    ) -> Result<(), Error> {
        let (n, size) = (self.len(), Glimpse::size(self.len()));
        let cheap = size > 0 && self.due >= LONGER * size && !self.dual.is_of_many();
        let seen = self.estimate();
        if !cheap || seen * self.hope > tol {
            return Ok(());
        }
        let (mut scores, mut dual, mut coef) =
            (self.loss.zeros(), self.loss.zeros(), self.loss.zeros());
        let (scores, dual) = (scores.as_mut(), dual.as_mut());
        let mut glimpse = Glimpse::default();
        for i in Glimpse::rows(n)? {
            let (y, weight) = (data.check_label(i, self.loss.classes())?, data.weight(i));
            if weight == 0.0 {
                glimpse.add(0.0);
                continue;
            }
            let row = data.rows().row(i);
            match self.free.as_mut().and_then(|free| free.less_mean(row)) {
                Some(row) => self.w.score_row(Row::Dense(row), scores),
                None => self.w.score_row(row, scores),
            }
            if let Some(free) = &self.free {
                free.shift(i, scores);
            }
            self.dual.read(i, 1.0, dual);
            let value = self.loss.value_and_coef(scores, y, coef.as_mut());
            let cross = self.dual.dot(i, 1.0, scores);
            glimpse.add(weight * (value + self.loss.conjugate(dual, y) + cross));
        }
        let bound = -self.conjugates / n as f64 - self.lambda / 2.0 * self.square();
        self.glimpsed = glimpse.gap() / (bound + glimpse.gap()).max(f64::MIN_POSITIVE);
        self.hope = (BETTER * self.glimpsed / seen).clamp(HOPE, 1.0);
        Ok(())
    }
}
