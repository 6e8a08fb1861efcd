//! What a hypothesis on a budget consists of, for whoever stores or restores one.

use super::Budgeted;
use crate::data::Matrix;
use crate::error::{Error, check_lengths};
use crate::hypothesis::Hypothesis;
use crate::scalar::Scalar;
use crate::scaled::Scaled;
use crate::vectors::{check_coefs, check_norms};

/// Nobody adds as many.
const MOST: u64 = 1 << 62;

/// All that a [`Budgeted`] holds beside its vectors, in plain parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BudgetedState {
    /// Vectors x outputs: the coefficients are `a v`.
    pub v: Vec<f64>,
    /// `u` of the lazy average, the shape of `v` (empty until the first iterate is counted).
    pub u: Vec<f64>,
    /// The scale, and the sums of the lazy average; the norm is computed.
    pub scale: Scaled,
    /// When each vector was added, for ties.
    pub born: Vec<u64>,
    /// Additions so far.
    pub added: u64,
    /// Vectors taken out so far.
    pub evicted: u64,
    /// The squared norms of the vectors, as they were rounded; they may be left out, and are computed then.
    pub norms: Vec<f64>,
}

impl<S: Scalar> Budgeted<S> {
    /// All that it holds beside the vectors, for whoever stores it.
    pub fn state(&self) -> BudgetedState {
        let slots = self.support.occupied();
        let outputs = self.support.outputs;
        let pick = |all: &[f64]| -> Vec<f64> {
            let rows = slots.clone().filter_map(|s| all.get(s * outputs..(s + 1) * outputs));
            rows.flatten().copied().collect()
        };
        BudgetedState {
            v: pick(&self.support.v),
            u: pick(&self.support.u),
            scale: self.scale,
            born: slots.clone().map(|slot| self.support.born[slot]).collect(),
            norms: slots.map(|slot| self.support.norms[slot].to_f64()).collect(),
            added: self.added,
            evicted: self.evicted,
        }
    }

    /// Gives a hypothesis without vectors these rows, and what [`state`](Budgeted::state) gave. It goes on as
    /// the one that was stored, up to rounding. Refuses parts that do not fit together.
    pub fn restore(&mut self, x: &Matrix<'_, S>, state: &BudgetedState) -> Result<(), Error> {
        self.check_features(x.n_features())?;
        let (n, outputs) = (x.n_rows(), self.support.outputs);
        let averaging = state.scale.averages();
        check_lengths(&[
            ("support", self.n_vectors(), 0),
            ("v", state.v.len(), n.saturating_mul(outputs)),
            ("u", state.u.len(), if averaging { n.saturating_mul(outputs) } else { 0 }),
            ("born", state.born.len(), n),
            ("norms", state.norms.len(), if state.norms.is_empty() { 0 } else { n }),
        ])?;
        if n > self.budget.unwrap_or(usize::MAX) {
            return Err(Error::parameter("support", n, "vectors within the budget"));
        }
        // They are counted on.
        for (name, count) in [("added", state.added), ("evicted", state.evicted)] {
            if count >= MOST {
                return Err(Error::parameter(name, count, "below 2^62"));
            }
        }
        state.scale.check()?;
        check_norms(&state.norms)?;
        check_coefs("v", &state.v)?;
        check_coefs("u", &state.u)?;
        self.support.reserve(n, averaging)?;
        for k in 0..n {
            let slot = self.support.insert(x.row(k), state.born[k], false);
            if let Some(norm) = state.norms.get(k) {
                self.support.measure(slot, *norm);
            }
            self.support.v[slot * outputs..(slot + 1) * outputs]
                .copy_from_slice(&state.v[k * outputs..(k + 1) * outputs]);
            self.support.settle(slot);
        }
        (self.support.u, self.scale) = (state.u.clone(), state.scale);
        (self.added, self.evicted) = (state.added, state.evicted);
        self.remember_pairs();
        self.carry_norm(self.carries_norm);
        Ok(())
    }
}
