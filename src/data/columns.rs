//! The columns of one row by number, and what its values amount to.

use std::collections::HashMap;

use super::Row;
use crate::scalar::{Index, Scalar};

/// So many columns of a sparse row are laid out side by side to pick some of them.
const WIDEST: usize = 1 << 20;

impl<S: Scalar> Row<'_, S> {
    /// `<x, x>`, columns that occur twice taken together. O(nnz).
    pub fn norm2(self) -> f64 {
        if !self.repeats() {
            return self.plain_square();
        }
        let mut norm2 = 0.0;
        self.for_each_sum_of_repeated(|x| norm2 += x * x);
        norm2
    }

    /// The sum of the squares of all stored numbers.
    pub(crate) fn plain_square(self) -> f64 {
        match self {
            Row::Dense(x) => square_of(x),
            Row::Sparse32(_, x) | Row::Sparse64(_, x) => {
                x.iter().map(|x| x.to_f64() * x.to_f64()).sum()
            }
        }
    }

    /// Calls `f` with the value of every stored column, the sum of those of one that occurs twice. O(nnz), where none does.
    pub(crate) fn for_each_sum(self, mut f: impl FnMut(f64)) {
        match self.repeats() {
            true => self.for_each_sum_of_repeated(f),
            false => self.for_each(|_, x| f(x)),
        }
    }

    fn for_each_sum_of_repeated(self, mut f: impl FnMut(f64)) {
        let mut entries: Vec<(usize, f64)> = Vec::new();
        self.for_each(|j, x| entries.push((j, x)));
        entries.sort_by_key(|entry| entry.0);
        // In the scalar, as the sum is stored where it is.
        let add = |sum: f64, entry: &(usize, f64)| S::from_f64(sum + entry.1).to_f64();
        let columns = entries.chunk_by(|a, b| a.0 == b.0);
        columns.for_each(|same| f(same.iter().fold(0.0, add)));
    }

    /// Whether a matrix of so many columns has all that this row stores.
    pub(crate) fn is_within(self, n_features: usize) -> bool {
        fn largest<I: Index>(indices: &[I]) -> Option<usize> {
            // A negative index is a large position.
            indices.iter().map(|j| j.position()).max()
        }
        let largest = match self {
            Row::Dense(x) => x.len().checked_sub(1),
            Row::Sparse32(j, _) => largest(j),
            Row::Sparse64(j, _) => largest(j),
        };
        largest.is_none_or(|j| j < n_features)
    }

    /// The features in these columns; NaN for columns that a dense row does not have, 0 for others that a row does not store.
    /// O(nnz + columns), O(columns) for dense rows.
    pub fn pick(self, columns: &[usize], out: &mut [S]) {
        if let Row::Dense(x) = self {
            for (j, out) in columns.iter().zip(out) {
                *out = x.get(*j).copied().unwrap_or(S::from_f64(f64::NAN));
            }
            return;
        }
        let width = columns.iter().max().map_or(0, |j| j.saturating_add(1));
        if width > WIDEST {
            let mut sums: HashMap<usize, f64> = HashMap::new();
            self.for_each(|j, x| *sums.entry(j).or_default() += x);
            for (j, out) in columns.iter().zip(out) {
                *out = S::from_f64(sums.get(j).copied().unwrap_or(0.0));
            }
            return;
        }
        let mut dense = vec![0.0; width];
        self.for_each(|j, x| {
            if let Some(v) = dense.get_mut(j) {
                *v += x;
            }
        });
        for (j, out) in columns.iter().zip(out) {
            *out = S::from_f64(dense[*j]);
        }
    }

    fn repeats(self) -> bool {
        match self {
            Row::Dense(_) => false,
            Row::Sparse32(j, _) => repeats(j),
            Row::Sparse64(j, _) => repeats(j),
        }
    }
}

/// `<x, x>`, by several sums that need not wait for one another.
pub(crate) fn square_of<S: Scalar>(x: &[S]) -> f64 {
    let (chunks, rest) = x.as_chunks::<8>();
    let mut sums = [0.0; 8];
    for chunk in chunks {
        for (sum, x) in sums.iter_mut().zip(chunk) {
            *sum += x.to_f64() * x.to_f64();
        }
    }
    let rest: f64 = rest.iter().map(|x| x.to_f64() * x.to_f64()).sum();
    sums.iter().sum::<f64>() + rest
}

/// Whether a column may occur twice.
fn repeats<I: Index>(indices: &[I]) -> bool {
    if indices.windows(2).all(|pair| pair[0].position() < pair[1].position()) {
        return false;
    }
    // A hash table: rows of texts come in the order of their words, and to sort them takes several times as long. A place is
    // taken by a number above the column's, 0 is free; so the largest number of all counts as seen.
    let bits = (4 * indices.len()).ilog2() + 1;
    let mut places = vec![0_usize; 1 << bits];
    indices.iter().any(|j| {
        let taken = j.position().wrapping_add(1);
        let mut at = (taken as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - bits);
        loop {
            let place = &mut places[at as usize];
            if *place == taken {
                return true;
            }
            if *place == 0 {
                *place = taken;
                return false;
            }
            at = (at + 1) & ((1 << bits) - 1);
        }
    })
}
