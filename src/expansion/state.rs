//! What an expansion consists of, for whoever stores or restores one.

use std::ops::Range;

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
    /// Vectors x outputs: the coefficients are `a v`. Of many outputs (more than 32) those alone that there are, vector after vector.
    pub v: Vec<S>,
    /// `u` of the lazy average, the shape of `v` (empty until the first iterate is counted).
    pub u: Vec<f64>,
    /// Where those of each vector end, and for which outputs they are, in ascending order; empty where `v` has all.
    pub ends: Vec<u64>,
    /// See `ends`.
    pub outputs: Vec<u32>,
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
        let (mut v, mut u) = (Vec::new(), Vec::new());
        let (mut ends, mut outputs) = (Vec::new(), Vec::new());
        let (lists, averaging) = (self.coefs.are_lists(), self.scale.averages());
        for slot in 0..self.n_vectors() {
            self.coefs.for_each(slot, |o, own_v, own_u| {
                v.push(own_v);
                if averaging {
                    u.push(own_u);
                }
                if lists {
                    outputs.push(o as u32);
                }
            });
            if lists {
                ends.push(v.len() as u64);
            }
        }
        ExpansionState {
            v,
            u,
            ends,
            outputs,
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
        let lists = !state.ends.is_empty();
        let count = if lists { state.outputs.len() } else { n.saturating_mul(self.outputs) };
        check_lengths(&[
            ("support", self.n_vectors(), 0),
            ("support", numbers.map_or(n, <[usize]>::len), n),
            ("ends", state.ends.len(), if lists { n } else { 0 }),
            ("outputs", state.outputs.len(), if lists { count } else { 0 }),
            ("v", state.v.len(), count),
            ("u", state.u.len(), if averaging { count } else { 0 }),
            ("counts", state.counts.len(), n),
            ("norms", state.norms.len(), if state.norms.is_empty() { 0 } else { n }),
        ])?;
        state.scale.check()?;
        check_norms(&state.norms)?;
        check_coefs("v", &state.v)?;
        check_coefs("u", &state.u)?;
        let lists = if lists { Some(self.lists(state)?) } else { None };
        // Without slots, rows have numbers that nobody will ask for.
        let slots = self.slots.as_ref().map_or(usize::MAX, Vec::len);
        let rows = if slots == 0 { NOWHERE as usize } else { slots };
        let columns = if self.vectors.are_columns() { self.n_features() } else { usize::MAX };
        let number = |k| numbers.map_or(k, |numbers| numbers[k]);
        if let Some(i) = (0..n).map(number).find(|i| *i >= rows.min(columns)) {
            return Err(Error::index("support", i, rows.min(columns)));
        }
        self.scale.sum_q = state.scale.sum_q;
        self.coefs.average(averaging);
        for k in 0..n {
            let i = number(k);
            let slot = self.append(i, x.row(k));
            self.counts[slot] = state.counts[k];
            if let Some(norm) = state.norms.get(k) {
                self.vectors.set_norm(slot, *norm);
            }
            let own = match &lists {
                Some(lists) => lists[k].clone(),
                None => k * self.outputs..(k + 1) * self.outputs,
            };
            for (o, at) in own.enumerate() {
                let output = if lists.is_some() { state.outputs[at] as usize } else { o };
                let u = state.u.get(at).copied().unwrap_or(0.0);
                self.coefs.set(slot, output, state.v[at], u);
            }
        }
        self.scale = state.scale;
        if self.scale.norm2 == 0.0 && !self.is_zero() && !self.vectors.are_columns() {
            // Left out: computed where somebody asks.
            self.scale.norm2 = f64::NAN;
        }
        Ok(())
    }

    /// Which coefficients of a state are those of each vector. Refuses ends that do not ascend to the last, and outputs that are
    /// not there or do not ascend.
    fn lists(&self, state: &ExpansionState<S>) -> Result<Vec<Range<usize>>, Error> {
        let mut start = 0;
        let mut lists = Vec::new();
        for &end in &state.ends {
            let end = usize::try_from(end).unwrap_or(usize::MAX);
            if end < start || end > state.outputs.len() {
                return Err(Error::shape("ends", "in ascending order", end));
            }
            let own = &state.outputs[start..end];
            if let Some(o) = own.iter().find(|&&o| o as usize >= self.outputs) {
                return Err(Error::index("outputs", *o as usize, self.outputs));
            }
            if let Some(pair) = own.windows(2).find(|pair| pair[0] >= pair[1]) {
                return Err(Error::shape(
                    "outputs",
                    "in ascending order",
                    format_args!("{pair:?}"),
                ));
            }
            lists.push(start..end);
            start = end;
        }
        match start == state.outputs.len() {
            true => Ok(lists),
            false => {
                Err(Error::shape("ends", format_args!("{} at last", state.outputs.len()), start))
            }
        }
    }
}
