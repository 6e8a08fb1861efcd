//! Rows by number, and asking memory for those to come.

use super::{Csr, Dense, Matrix, Row};
use crate::scalar::{Index, Scalar};
use crate::simd;

/// How many rows ahead short dense ones are asked for.
pub(crate) const MOST_AHEAD: usize = 16;
/// How many rows ahead others are.
const FEW_AHEAD: usize = 8;
/// Bytes of a row that is short.
const SHORT: usize = 512;

/// Rows by number: of a matrix or, where to match the layout of each costs too much, of one layout.
pub(crate) trait Rows<'a, S>: Copy {
    /// Whether the weights of a row may be far from each other.
    const FAR_APART: bool = true;
    /// Row `i`.
    fn get(self, i: usize) -> Row<'a, S>;
    /// How many rows ahead of its use to ask for a row's contents, [`MOST_AHEAD`] at most: what memory takes to answer, in
    /// steps.
    ///
    /// Of short dense rows, whose steps take 20 ns, 16: an epoch over 400,000 rows of 54 f32 takes 19 ns a row in blocks and 24
    /// shuffled, with 8 rows 21.5 and 31.5, with 32 the same; on another AMD EPYC there was no difference. Of others 8: in
    /// shuffled rows of 43 of 2^20 features f32 16 cost 6 %, of 200 dense ones 10 %. Without asking an epoch takes three times
    /// as long on rows of 54 f32, four times on sparse ones.
    #[inline(always)]
    fn ahead(self) -> usize {
        FEW_AHEAD
    }
    /// Asks for where row `i` begins and ends, well ahead of [`prefetch`](Rows::prefetch).
    fn prefetch_bounds(self, _i: usize) {}
    /// Asks for the contents of row `i`, ahead of its use. In random order an epoch takes a third
    /// to a quarter of the time for it.
    fn prefetch(self, i: usize);
}

impl<'a, S: Scalar> Rows<'a, S> for Matrix<'a, S> {
    #[inline(always)]
    fn get(self, i: usize) -> Row<'a, S> {
        self.row(i)
    }
    #[inline(always)]
    fn ahead(self) -> usize {
        match self {
            Matrix::Dense(x) => x.ahead(),
            _ => FEW_AHEAD,
        }
    }
    #[inline(always)]
    fn prefetch_bounds(self, i: usize) {
        match self {
            Matrix::Csr32(x) => x.prefetch_bounds(i),
            Matrix::Csr64(x) => x.prefetch_bounds(i),
            _ => {}
        }
    }
    #[inline(always)]
    fn prefetch(self, i: usize) {
        match self {
            Matrix::Dense(x) => x.prefetch(i),
            Matrix::Csr32(x) => x.prefetch(i),
            Matrix::Csr64(x) => x.prefetch(i),
            Matrix::Window(x) if !x.is_resident(i) => {}
            _ => match self.row(i) {
                Row::Dense(x) => simd::prefetch_all(x),
                Row::Sparse32(j, x) => {
                    simd::prefetch_all(j);
                    simd::prefetch_all(x);
                }
                Row::Sparse64(j, x) => {
                    simd::prefetch_all(j);
                    simd::prefetch_all(x);
                }
            },
        }
    }
}

impl<'a, S: Scalar> Rows<'a, S> for Dense<'a, S> {
    const FAR_APART: bool = false;
    #[inline(always)]
    fn get(self, i: usize) -> Row<'a, S> {
        self.row(i)
    }
    #[inline(always)]
    fn ahead(self) -> usize {
        if self.n_features * size_of::<S>() <= SHORT { MOST_AHEAD } else { FEW_AHEAD }
    }
    #[inline(always)]
    fn prefetch(self, i: usize) {
        simd::prefetch_once(self.values, i * self.n_features, self.n_features, false);
    }
}

macro_rules! csr_rows {
    ($index:ty) => {
        impl<'a, S: Scalar> Rows<'a, S> for Csr<'a, S, $index> {
            #[inline(always)]
            fn get(self, i: usize) -> Row<'a, S> {
                self.row(i)
            }
            #[inline(always)]
            fn prefetch_bounds(self, i: usize) {
                simd::prefetch(self.indptr, i);
            }
            #[inline(always)]
            fn prefetch(self, i: usize) {
                let (first, end) = (self.indptr[i].position(), self.indptr[i + 1].position());
                let stored = end.wrapping_sub(first);
                simd::prefetch_once(self.indices, first, stored, true);
                simd::prefetch_once(self.values, first, stored, true);
            }
        }
    };
}
csr_rows!(i32);
csr_rows!(i64);
