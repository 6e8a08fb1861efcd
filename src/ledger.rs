//! What every example has contributed so far, and what that proves.

use std::borrow::Cow;

use crate::error::Error;
use crate::examples::Examples;
use crate::loss::Loss;
use crate::scalar::{Scalar, others_than_0};
use crate::simd::Places;
use crate::table::Table;

/// Whose memory it is.
const WHAT: &str = "the ledger";

/// By such a part of the objective a dual value may lie above it: those are roundings.
const ROUNDINGS: f64 = 1e-6;

/// The sum of the coefficients that each example has been given, one per output: for the hinge loss
/// with one example a step, its count of margin violations.
///
/// With steps 1/(lambda s) and no projection, `w = 1/(lambda s) * sum of the coefficients times
/// their examples` (Stratos' notes, equation 1), so n/s times the ledger is a point of the dual
/// problem whose primal image is the present w. Memory: 4 bytes per example and output; of more than 64
/// outputs, 24 bytes per example and 8 for each output that it ever had a coefficient for.
#[derive(Clone, Debug, PartialEq)]
pub struct Ledger {
    len: usize,
    outputs: usize,
    /// None until there is room: all 0.
    sums: Option<Table<f32>>,
}

impl Ledger {
    pub(crate) fn new(n_examples: usize, outputs: usize) -> Self {
        Ledger { len: n_examples, outputs, sums: None }
    }

    /// Makes room for what is to be recorded.
    pub(crate) fn make_room(&mut self) -> Result<(), Error> {
        if self.sums.is_none() {
            self.sums = Some(Table::new(WHAT, self.len, self.outputs)?);
        }
        Ok(())
    }

    /// Makes sure that these coefficients can be recorded.
    #[inline(always)]
    pub(crate) fn promise(&mut self, coef: &[f64]) -> Result<(), Error> {
        match &mut self.sums {
            Some(sums) if sums.is_of_many() => sums.promise(WHAT, others_than_0(coef).count()),
            _ => Ok(()),
        }
    }

    /// One that has recorded nothing, of the same shape.
    pub(crate) fn empty(&self) -> Self {
        Ledger::new(self.len, self.outputs)
    }

    /// Adds what another of the same shape has recorded.
    pub(crate) fn add(&mut self, other: &Ledger) {
        match (&mut self.sums, &other.sums) {
            (Some(sums), Some(other)) => sums.add_all(other),
            (None, other) => self.sums.clone_from(other),
            (_, None) => {}
        }
    }

    /// Makes sure that there is room for another like this one.
    pub(crate) fn check_copy(&self) -> Result<(), Error> {
        self.sums.as_ref().map_or(Ok(()), |sums| sums.check_copy("a copy of the ledger"))
    }

    /// Number of examples.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no example.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The coefficients of example `i`, summed over its visits (each divided by its batch's size
    /// and multiplied by the example's weight); none where nothing was recorded of any. O(outputs).
    ///
    /// # Panics
    /// If there are not so many examples, and something was recorded.
    pub fn sums(&self, i: usize) -> Cow<'_, [f32]> {
        self.sums.as_ref().map_or(Cow::Borrowed(&[]), |sums| sums.row(i))
    }

    #[inline(always)]
    pub(crate) fn record(&mut self, i: usize, coef: &[f64]) {
        if let Some(sums) = &mut self.sums {
            sums.add(i, coef);
        }
    }

    /// Where the coefficients of examples stand, to ask memory for them.
    pub(crate) fn places(&self) -> Option<Places> {
        self.sums.as_ref().map(Table::places)
    }

    /// Writes `factor` times the coefficients of example `i` to `out`.
    pub(crate) fn dual(&self, i: usize, factor: f64, out: &mut [f64]) {
        match &self.sums {
            Some(sums) => sums.read(i, factor, out),
            None => out.fill(0.0),
        }
    }

    /// `factor` times the coefficients of example `i`, each times that score of these, summed.
    pub(crate) fn cross(&self, i: usize, factor: f64, scores: &[f64]) -> f64 {
        self.sums.as_ref().map_or(0.0, |sums| sums.dot(i, factor, scores))
    }

    /// The smallest `c >= 1` for which `factor / c` times the ledger, of these examples, is feasible in the dual.
    pub(crate) fn excess<L: Loss, S: Scalar>(
        &self,
        loss: &L,
        factor: f64,
        data: &Examples<'_, S>,
    ) -> f64 {
        let mut dual = vec![0.0; self.outputs];
        let mut most: f64 = 1.0;
        for i in 0..self.len() {
            let weight = data.weight(i);
            if weight > 0.0 {
                self.dual(i, factor / weight, &mut dual);
                most = most.max(loss.excess(&dual, data.label(i)));
            }
        }
        most
    }
}

/// The objective at w and a bound from below on the objective's minimum.
///
/// ```
/// let certificate = pegasos::Certificate { primal: 0.5, dual: 0.25 };
/// assert_eq!(certificate.gap(), 0.25);
/// assert_eq!(certificate.relative_gap(), 0.5);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Certificate {
    /// `P(w) = lambda/2 ||w||^2 + mean of weight * loss`.
    pub primal: f64,
    /// A dual value: `min P` is at least this. NaN where nothing is known.
    pub dual: f64,
}

impl Certificate {
    /// `P(w) - min P` is at most this.
    pub fn gap(&self) -> f64 {
        self.primal - self.dual
    }

    /// The gap as a fraction of `P(w)`; 0 where both are 0.
    pub fn relative_gap(&self) -> f64 {
        if self.primal == 0.0 { self.gap() } else { self.gap() / self.primal }
    }

    /// The same, but for a dual value that roundings have taken above P: that is as good a bound, and no gap is below 0.
    pub(crate) fn without_roundings(self) -> Self {
        let above = self.dual - self.primal;
        let rounding = above > 0.0 && above <= ROUNDINGS * self.primal;
        Certificate { dual: if rounding { self.primal } else { self.dual }, ..self }
    }
}

impl std::ops::AddAssign for Certificate {
    fn add_assign(&mut self, other: Certificate) {
        self.primal += other.primal;
        self.dual += other.dual;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where nothing is known, and where more than roundings is wrong, nothing is made good.
    #[test]
    fn no_gap_is_below_0_by_a_rounding() {
        for (dual, want) in
            [(0.4, 0.4), (0.5, 0.5), (0.5 + 1e-16, 0.5), (0.5 + 1e-7, 0.5), (0.6, 0.6)]
        {
            let certificate = Certificate { primal: 0.5, dual };
            assert_eq!(certificate.without_roundings(), Certificate { dual: want, ..certificate });
        }
        let unknown = Certificate { primal: 0.5, dual: f64::NAN };
        assert!(unknown.without_roundings().dual.is_nan());
    }
}
