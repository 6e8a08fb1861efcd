//! Kernel values of examples with those of a working set who take part in its ascent.

use super::values::{Raised, vectors_of};
use super::working::{Among, Room};
use crate::data::Matrix;
use crate::error::Error;
use crate::kernel::Kernel;
use crate::memory;
use crate::scalar::Scalar;
use crate::vectors::Vectors;

/// Of so few features these kernel values are computed sooner than found in rows with all of a set, if it has so many that
/// these are long and far away. One class of letter against the rest (16,000 examples) takes 0.66 of the time, of covtype15k
/// (12,000) 0.9; pairs of letter (1,230) would take 1.1.
const CHEAP: usize = 64;
const LONG: usize = 4096;

const NOWHERE: u32 = u32::MAX;

/// Rows of kernel values with those who take part, where not all of a set do.
#[derive(Clone, Debug)]
pub(super) struct Near<S> {
    values: Vec<S>,
    /// Of which of the set each stands where.
    slots: Vec<u32>,
    stride: usize,
    /// Whether they are computed, not found in rows with all of the set; and with which vectors.
    pub computes: bool,
    vectors: Option<Vectors<S>>,
}

impl<S: Scalar> Near<S> {
    /// Of a set of so many.
    pub fn new(kernel: Raised, n_features: usize, len: usize, room: &Room<S>) -> Self {
        let computes = kernel.kernel != Kernel::Precomputed && n_features <= CHEAP && len >= LONG;
        let (values, slots) = (room.take(), vec![NOWHERE; len]);
        Near { values, slots, stride: 0, computes, vectors: None }
    }

    /// Others take part; rows are as long as `stride` says.
    pub fn clear(&mut self, stride: usize) {
        self.values.clear();
        self.slots.fill(NOWHERE);
        (self.stride, self.vectors) = (stride, None);
    }

    pub fn give_back(&mut self, room: &Room<S>) {
        room.give(std::mem::take(&mut self.values));
    }

    pub fn has(&self, k: usize) -> bool {
        self.slots[k] != NOWHERE
    }

    /// The row of the k-th, which must be there; zeros follow.
    pub fn row(&self, k: usize) -> &[S] {
        &self.values[self.slots[k] as usize * self.stride..][..self.stride]
    }

    /// Makes sure of the row of the k-th, of which that with all of the set is there if this one is not.
    pub fn find<'a>(&mut self, k: usize, row: impl FnOnce() -> &'a [S], active: &[u32])
    where
        S: 'a,
    {
        if !self.has(k) {
            let row = row();
            let len = self.values.len();
            self.slots[k] = (len / self.stride) as u32;
            self.values.extend(active.iter().map(|&j| row[j as usize]));
            self.values.resize(len + self.stride, S::default());
        }
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
        let first = self.values.len();
        let len = first + wanted.len() * self.stride;
        memory::reserve("kernel values", &mut self.values, len)?;
        self.values.resize(len, S::default());
        let rows: Vec<usize> = wanted.iter().map(|&k| among.number(k)).collect();
        let out = &mut self.values[first..];
        vectors.kernel_values(kernel.kernel, x, &rows, 0..vectors.len(), out, self.stride);
        for (at, &k) in wanted.iter().enumerate() {
            self.slots[k] = (first / self.stride + at) as u32;
        }
        Ok(())
    }
}
