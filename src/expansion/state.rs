//! What an expansion consists of, for whoever stores or restores one.

use super::{Expansion, NOWHERE};
use crate::data::Matrix;
use crate::error::{Error, check_lengths};
use crate::hypothesis::Hypothesis;
use crate::scalar::Scalar;
use crate::scaled::Scaled;
use crate::vectors::{check_coefs, check_norms};

/// All that an [`Expansion`] holds beside its vectors, in plain parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExpansionState<S> {
    /// Vectors x outputs: the coefficients are `a v`.
    pub v: Vec<S>,
    /// `u` of the lazy average, the shape of `v` (empty until the first iterate is counted).
    pub u: Vec<f64>,
    /// The scale, `||w||^2` over `a^2`, and the sums of the lazy average.
    pub scale: Scaled,
    /// How often each vector was added.
    pub counts: Vec<u32>,
    /// The squared norms of the vectors, as they were rounded; they may be left out, and are computed then.
    pub norms: Vec<S>,
}

impl<S: Scalar> Expansion<S> {
    /// All that it holds beside the vectors, for whoever stores it.
    pub fn state(&self) -> ExpansionState<S> {
        let places = (0..self.n_vectors())
            .flat_map(|slot| (0..self.outputs).map(move |o| self.place(slot, o)));
        ExpansionState {
            v: places.clone().map(|place| self.v[place]).collect(),
            u: places.filter_map(|place| self.u.get(place).copied()).collect(),
            scale: self.scale,
            counts: self.counts.clone(),
            norms: self.vectors.norms(0..self.n_vectors()).to_vec(),
        }
    }

    /// Gives an expansion without vectors those of these rows, and what [`state`](Expansion::state) gave. Row
    /// k has number `numbers[k]`, where there are numbers. Refuses parts that do not fit together.
    pub fn restore(
        &mut self,
        x: &Matrix<'_, S>,
        numbers: Option<&[usize]>,
        state: &ExpansionState<S>,
    ) -> Result<(), Error> {
        self.check_features(x.n_features())?;
        let n = x.n_rows();
        let averaging = state.scale.averages();
        check_lengths(&[
            ("support", self.n_vectors(), 0),
            ("support", numbers.map_or(n, <[usize]>::len), n),
            ("v", state.v.len(), n.saturating_mul(self.outputs)),
            ("u", state.u.len(), if averaging { n.saturating_mul(self.outputs) } else { 0 }),
            ("counts", state.counts.len(), n),
            ("norms", state.norms.len(), if state.norms.is_empty() { 0 } else { n }),
        ])?;
        state.scale.check()?;
        check_norms(&state.norms)?;
        check_coefs("v", &state.v)?;
        check_coefs("u", &state.u)?;
        // Without slots, rows have numbers that nobody will ask for.
        let slots = self.slots.as_ref().map_or(usize::MAX, Vec::len);
        let rows = if slots == 0 { NOWHERE as usize } else { slots };
        let columns = if self.vectors.are_columns() { self.n_features() } else { usize::MAX };
        let number = |k| numbers.map_or(k, |numbers| numbers[k]);
        if let Some(i) = (0..n).map(number).find(|i| *i >= rows.min(columns)) {
            return Err(Error::index("support", i, rows.min(columns)));
        }
        self.scale.sum_q = state.scale.sum_q;
        for k in 0..n {
            let i = number(k);
            let slot = self.append(i, x.row(k));
            self.counts[slot] = state.counts[k];
            if let Some(norm) = state.norms.get(k) {
                self.vectors.set_norm(slot, *norm);
            }
            for o in 0..self.outputs {
                let place = self.place(slot, o);
                self.v_mut()[place] = state.v[k * self.outputs + o];
                if averaging {
                    self.u[place] = state.u[k * self.outputs + o];
                }
            }
        }
        self.scale = state.scale;
        if self.scale.norm2 == 0.0 && !self.is_zero() && !self.vectors.are_columns() {
            // Left out: computed where somebody asks.
            self.scale.norm2 = f64::NAN;
        }
        Ok(())
    }
}
