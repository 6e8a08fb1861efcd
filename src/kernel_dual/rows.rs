//! Rows of kernel values, in slabs: more come without a copy of those that are there.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::Error;
use crate::memory;
use crate::scalar::Scalar;
use crate::vectors::GROUP;

/// Bytes of a slab, unless a few rows are more.
const SLAB: usize = 1 << 20;

/// Rows of the same length, numbered as they come.
#[derive(Clone, Debug)]
pub(super) struct Rows<S> {
    slabs: Vec<Vec<S>>,
    /// Entries of a row; the logarithm of how many rows a slab has: to divide takes longer than to shift.
    stride: usize,
    depth: u32,
    /// Entries that a new slab gets.
    size: usize,
    len: usize,
}

impl<S> Default for Rows<S> {
    fn default() -> Self {
        Rows { slabs: Vec::new(), stride: 0, depth: 0, size: 0, len: 0 }
    }
}

impl<S: Scalar> Rows<S> {
    /// None again, which will have so many entries, and will be `most` at most.
    pub fn clear(&mut self, stride: usize, most: usize) {
        let full = SLAB / size_of::<S>();
        let rows = (full / stride.max(1)).min(most).max(GROUP);
        (self.stride, self.depth, self.len) = (stride, rows.ilog2(), 0);
        // A full one serves rows of other lengths, too.
        let needed = stride << self.depth;
        self.size = if needed > full / 4 { needed.max(full) } else { needed };
        self.slabs.retain(|slab| slab.len() >= needed);
    }

    /// The row of this number.
    pub fn row(&self, number: u32) -> &[S] {
        let (slab, at) = self.place(number as usize);
        &self.slabs[slab][at * self.stride..][..self.stride]
    }

    /// In which slab a row is, and which of its rows it is.
    fn place(&self, number: usize) -> (usize, usize) {
        (number >> self.depth, number & ((1 << self.depth) - 1))
    }

    /// Takes in so many rows, which `fill` writes, some at a time: which, and where to. Returns the number of the first.
    pub fn add(
        &mut self,
        count: usize,
        fill: &mut dyn FnMut(Range<usize>, &mut [S]),
    ) -> Result<u32, Error> {
        let (first, end) = (self.len, self.len + count);
        while self.len < end {
            let (slab, at) = self.place(self.len);
            if slab == self.slabs.len() {
                self.slabs.push(memory::zeros("kernel values", &[self.size])?);
            }
            let some = (end - self.len).min((1 << self.depth) - at);
            let out = &mut self.slabs[slab][at * self.stride..][..some * self.stride];
            fill(self.len - first..self.len - first + some, out);
            self.len += some;
        }
        Ok(first as u32)
    }
}

/// Slabs that others have done with: memory that is new costs as much as the values in it.
#[derive(Debug)]
pub(super) struct Room<S>(Mutex<Vec<Rows<S>>>);

impl<S> Default for Room<S> {
    fn default() -> Self {
        Room(Mutex::default())
    }
}

/// A copy has its own.
impl<S> Clone for Room<S> {
    fn clone(&self) -> Self {
        Room::default()
    }
}

impl<S> Room<S> {
    fn rows(&self) -> MutexGuard<'_, Vec<Rows<S>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn take(&self) -> Rows<S> {
        self.rows().pop().unwrap_or_default()
    }

    pub fn give(&self, rows: Rows<S>) {
        self.rows().push(rows);
    }

    /// Nobody needs any for now.
    pub fn clear(&self) {
        self.rows().clear();
    }
}
