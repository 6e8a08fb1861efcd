//! What every example has contributed so far, and what that proves.

use crate::error::Error;
use crate::loss::Loss;
use crate::memory;

/// The sum of the coefficients that each example has been given, one per output: for the hinge loss
/// with one example a step, its count of margin violations.
///
/// With steps 1/(lambda s) and no projection, `w = 1/(lambda s) * sum of the coefficients times
/// their examples` (Stratos' notes, equation 1), so n/s times the ledger is a point of the dual
/// problem whose primal image is the present w. Memory: 4 bytes per example and output.
#[derive(Clone, Debug, PartialEq)]
pub struct Ledger {
    len: usize,
    outputs: usize,
    /// Empty until there is room: all 0.
    sums: Vec<f32>,
}

impl Ledger {
    pub(crate) fn new(n_examples: usize, outputs: usize) -> Self {
        Ledger { len: n_examples, outputs, sums: Vec::new() }
    }

    /// Makes room for what is to be recorded.
    pub(crate) fn make_room(&mut self) -> Result<(), Error> {
        if self.sums.is_empty() {
            self.sums = memory::zeros("the ledger", &[self.len, self.outputs])?;
        }
        Ok(())
    }

    /// One that has recorded nothing, of the same shape.
    pub(crate) fn empty(&self) -> Self {
        Ledger::new(self.len, self.outputs)
    }

    /// Adds what another of the same shape has recorded.
    pub(crate) fn add(&mut self, other: &Ledger) {
        if self.sums.is_empty() {
            self.sums.clone_from(&other.sums);
            return;
        }
        for (sum, other) in self.sums.iter_mut().zip(&other.sums) {
            *sum += other;
        }
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
    /// and multiplied by the example's weight); none where nothing was recorded of any.
    pub fn sums(&self, i: usize) -> &[f32] {
        self.sums.get(i * self.outputs..(i + 1) * self.outputs).unwrap_or_default()
    }

    #[inline(always)]
    pub(crate) fn record(&mut self, i: usize, coef: &[f64]) {
        let sums = &mut self.sums[i * self.outputs..(i + 1) * self.outputs];
        for (sum, coef) in sums.iter_mut().zip(coef) {
            *sum += *coef as f32;
        }
    }

    #[inline(always)]
    pub(crate) fn prefetch(&self, i: usize) {
        crate::simd::prefetch(&self.sums, i * self.outputs);
    }

    /// Writes `factor` times the coefficients of example `i`.
    pub(crate) fn dual(&self, i: usize, factor: f64, out: &mut [f64]) {
        out.fill(0.0);
        for (out, sum) in out.iter_mut().zip(self.sums(i)) {
            *out = factor * f64::from(*sum);
        }
    }

    /// The smallest `c >= 1` for which `factor / c` times the ledger is feasible in the dual.
    pub(crate) fn excess<L: Loss>(
        &self,
        loss: &L,
        factor: f64,
        label: impl Fn(usize) -> u32,
        weight: impl Fn(usize) -> f64,
    ) -> f64 {
        let mut dual = vec![0.0; self.outputs];
        let mut most: f64 = 1.0;
        for i in 0..self.len() {
            let weight = weight(i);
            if weight > 0.0 {
                self.dual(i, factor / weight, &mut dual);
                most = most.max(loss.excess(&dual, label(i)));
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
}
