//! Kernel values of examples with those of a working set who take part in its ascent.

use super::rows::{Room, Rows};
use super::values::{Raised, rows_of, vectors_of};
use super::working::Among;
use crate::data::Matrix;
use crate::error::Error;
use crate::kernel::Kernel;
use crate::scalar::Scalar;
use crate::vectors::Vectors;

/// Of so few features these kernel values are computed sooner than found in rows with all of a set, if it has so many that
/// these are long and far away. One class of letter against the rest (16,000 examples) takes 0.66 of the time, of covtype15k
/// (12,000) 0.9; pairs of letter (1,230) would take 1.1.
const CHEAP: usize = 64;
const LONG: usize = 4096;

const NOWHERE: u32 = u32::MAX;

/// Whether kernel values of a set of so many are computed with those who take part alone.
pub(super) fn is_cheap(kernel: Raised, n_features: usize, len: usize) -> bool {
    kernel.kernel != Kernel::Precomputed && n_features <= CHEAP && len >= LONG
}

/// Rows of kernel values with those who take part, where not all of a set do.
#[derive(Clone, Debug)]
pub(super) struct Near<S> {
    rows: Rows<S>,
    /// The number of the row of each of the set.
    slots: Vec<u32>,
    stride: usize,
    /// Whether they are computed, not found in rows with all of the set; and with which vectors.
    pub computes: bool,
    vectors: Option<Vectors<S>>,
}

impl<S: Scalar> Near<S> {
    /// Of a set of so many.
    pub fn new(kernel: Raised, n_features: usize, len: usize, room: &Room<S>) -> Self {
        let computes = is_cheap(kernel, n_features, len);
        Near { rows: room.take(), slots: vec![NOWHERE; len], stride: 0, computes, vectors: None }
    }

    /// Others take part, so many; rows are as long as `stride` says.
    pub fn clear(&mut self, stride: usize, count: usize) {
        self.rows.clear(stride, count);
        self.slots.fill(NOWHERE);
        (self.stride, self.vectors) = (stride, None);
    }

    /// How many kernel values there is room for.
    pub fn size(&self) -> usize {
        self.rows.size()
    }

    /// Has none, and no room for any: where they are found in rows with all of the set, they can be had again.
    pub fn let_go(&mut self) {
        self.rows = Rows::default();
        self.clear(self.stride, self.stride);
    }

    /// Leaves its room to others.
    pub fn give_back(&mut self, room: &Room<S>) {
        room.give(std::mem::take(&mut self.rows));
    }

    pub fn has(&self, k: usize) -> bool {
        self.slots[k] != NOWHERE
    }

    /// The row of the k-th, which must be there; zeros follow.
    pub fn row(&self, k: usize) -> &[S] {
        self.rows.row(self.slots[k])
    }

    /// Makes sure of the row of the k-th, of which that with all of the set is there if this one is not.
    pub fn find<'a>(
        &mut self,
        k: usize,
        row: impl FnOnce() -> &'a [S],
        active: &[u32],
    ) -> Result<(), Error>
    where
        S: 'a,
    {
        if !self.has(k) {
            self.slots[k] = self.rows.pick(row(), active)?;
        }
        Ok(())
    }

    /// Makes sure of the rows of these by computing them.
    pub fn compute(
        &mut self,
        kernel: Raised,
        x: &Matrix<'_, S>,
        among: &Among<S>,
        active: &[u32],
        mut wanted: Vec<usize>,
    ) -> Result<(), Error> {
        wanted.retain(|&k| !self.has(k));
        let vectors = match &self.vectors {
            Some(vectors) => vectors,
            None => {
                let numbers: Vec<usize> =
                    active.iter().map(|&k| among.number(k as usize)).collect();
                self.vectors.insert(vectors_of(kernel, x, &numbers)?)
            }
        };
        let rows: Vec<usize> = wanted.iter().map(|&k| among.number(k)).collect();
        let stride = self.stride;
        let first = self.rows.add(rows.len(), &mut |some, out| {
            rows_of(kernel.kernel, x, vectors, &rows[some], out, stride);
        })?;
        (first..).zip(&wanted).for_each(|(slot, &k)| self.slots[k] = slot);
        Ok(())
    }
}
