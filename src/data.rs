//! Views of training data, and the one door where arrays are checked.
//!
//! Views copy nothing: [`Dense`] and [`Csr`] borrow the caller's arrays, a [`Row`] is a few words
//! passed by value. Two own what they hold: an [`OwnedRow`] outlives its matrix, and a [`Window`] has rows that somebody
//! computes. Shapes are checked when a view is made. Values and column indices are not, as
//! that would cost a pass over the data (and, in Python, another thread may change them later):
//! [`Row::dot`] meets every one of them anyway and answers with a number that is not finite, and
//! whoever sees one asks [`Examples`](crate::Examples) for the reason.
//!
//! What does not pay: to number the columns of sparse rows by how often they occur, so that weights that are often needed
//! share lines of a cache. On an AMD EPYC three epochs of words, news20 and 20 classes, in shuffled rows and blocks, gain
//! 1.00 to 1.03 times, and the numbering takes 0.2 to 2.6 times as long as they do (`benches/columns.py`): what is often
//! needed stays near all the same. On an Intel Xeon, with 2 MB of L2, they gain 1.05 to 1.11 times.

mod columns;
mod needed;
mod rows;
#[cfg(feature = "ndarray")]
mod views;
mod window;

use std::ops::Range;

use crate::error::Error;
use crate::scalar::{Index, Scalar};
use crate::simd::{self, Lanes, TALL, WIDTH, Weigh};

pub(crate) use columns::square_of;
pub(crate) use needed::Needed;
pub(crate) use rows::{MOST_AHEAD, Rows};
pub use window::Window;

/// One example's features, borrowed: a few words, passed by value. The layout is matched once for each of these
/// operations, which are the ones that look at every feature; nothing above them knows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Row<'a, S> {
    /// Every feature.
    Dense(&'a [S]),
    /// The stored features: their columns and, as many, their values.
    Sparse32(&'a [i32], &'a [S]),
    /// The stored features, with wide column numbers.
    Sparse64(&'a [i64], &'a [S]),
}

/// Bytes of weights that nobody need ask for, and of rows that stay where they are for a while.
pub(crate) const NEAR: usize = 1 << 18;

/// Bounds of how many rows those are: fewer are not worth a task, more make no difference. 60,000 rows of 200 f32, ten
/// classes one against the rest: an epoch of 0.08 s took 0.04 s with it. But 50,000 rows of 74 of 131,072 columns, three
/// times seven classes, on two threads: 0.06 s took 0.10 s where it was done for weights of 4 MB.
const FEWEST: usize = 64;
const MOST: usize = 4096;

/// Calls `$dense` with the features of a dense row, or `$sparse` with columns and values.
macro_rules! by_layout {
    ($row:expr, $x:ident => $dense:expr, $indices:ident, $values:ident => $sparse:expr) => {
        match $row {
            Row::Dense($x) => $dense,
            Row::Sparse32($indices, $values) => $sparse,
            Row::Sparse64($indices, $values) => $sparse,
        }
    };
}

impl<S: Scalar> Row<'_, S> {
    /// `<x, v>`, summed in the scalar of the weights; not finite if a feature is not, if the sum overflows, or if a
    /// column index lies outside `v`. Of a dense row and `v` the shorter counts. O(nnz).
    #[inline(always)]
    pub fn dot<V>(self, v: &[V]) -> f64
    where
        S: Weigh<V>,
    {
        by_layout!(self, x => S::dot(x, v), j, x => S::gather_dot(j, x, v))
    }

    /// Asks memory for those weights that a sparse row needs, those of a column from a multiple of `stride` on.
    #[inline(always)]
    pub(crate) fn prefetch_weights<V>(self, v: &[V], stride: usize) {
        fn ask<I: Index, V>(indices: &[I], v: &[V], stride: usize) {
            if stride > 1 {
                let line = const { 64 / size_of::<V>() };
                for j in indices {
                    let first = j.position().wrapping_mul(stride);
                    let lines = (0..stride).step_by(line).take(simd::PREFETCH_LINES);
                    lines.for_each(|at| simd::prefetch(v, first.wrapping_add(at)));
                }
                return;
            }
            // Four at a time: the loop must cost less than what it saves.
            let (fours, rest) = indices.as_chunks::<4>();
            for four in fours {
                four.iter().for_each(|j| simd::prefetch(v, j.position()));
            }
            rest.iter().for_each(|j| simd::prefetch(v, j.position()));
        }
        by_layout!(self, _x => {}, j, _x => ask(j, v, stride))
    }

    /// [`dot`](Row::dot) with each of `out.len()` weight vectors of `n_features` entries, row after row
    /// in `w`.
    ///
    /// # Panics
    /// If there are not so many, or a dense row has another number of features.
    #[inline(always)]
    pub fn dots<V>(self, w: &[V], n_features: usize, out: &mut [f64])
    where
        S: Weigh<V>,
    {
        if let Row::Dense(x) = self {
            debug_assert_eq!(n_features, x.len());
            return S::dots(x, w, out);
        }
        for (o, out) in out.iter_mut().enumerate() {
            *out = self.dot(&w[o * n_features..(o + 1) * n_features]);
        }
    }

    /// `v += c x`; returns the change of `<v, v>`, which is how the norm of the weights is carried
    /// along without a pass of its own. O(nnz).
    #[inline(always)]
    pub fn axpy<V>(self, c: f64, v: &mut [V]) -> f64
    where
        S: Weigh<V>,
    {
        by_layout!(self, x => S::axpy(c, x, v), j, x => S::scatter_axpy(c, j, x, v))
    }

    /// [`axpy`](Row::axpy) to the same bits, where nobody asks for the change. O(nnz).
    #[inline(always)]
    pub(crate) fn add_times<V>(self, c: f64, v: &mut [V])
    where
        S: Weigh<V>,
    {
        by_layout!(self, x => drop(S::axpy(c, x, v)), j, x => S::scatter(c, j, x, v))
    }

    /// [`dot`](Row::dot) with each of several weight vectors that stand side by side, entry j of vector o at
    /// `w[j * stride + o]`.
    #[inline(always)]
    pub(crate) fn dots_by_feature<V: Scalar>(self, w: &[V], stride: usize, out: &mut [f64])
    where
        S: Weigh<V>,
    {
        if let Row::Dense(x) = self {
            out.fill(0.0);
            for (x, w) in x.iter().zip(w.chunks(stride)) {
                out.iter_mut().zip(w).for_each(|(out, w)| *out += x.to_f64() * w.to_f64());
            }
            return;
        }
        by_layout!(self, _x => {}, j, x => S::gather_dots(j, x, w, stride, out));
    }

    /// [`axpy`](Row::axpy), with `coef[o] / a`, to each of these; returns the change of `<w, w>`.
    #[inline(always)]
    pub(crate) fn axpys_by_feature<V: Scalar>(
        self,
        coef: &[f64],
        a: f64,
        w: &mut [V],
        stride: usize,
    ) -> f64
    where
        S: Weigh<V>,
    {
        if let Row::Dense(x) = self {
            let mut change = 0.0;
            for (x, w) in x.iter().zip(w.chunks_mut(stride)) {
                for (w, c) in w.iter_mut().zip(coef) {
                    let old = w.to_f64();
                    *w = V::from_f64(old + c / a * x.to_f64());
                    change += (w.to_f64() - old) * (w.to_f64() + old);
                }
            }
            return change;
        }
        by_layout!(self, _x => 0.0, j, x => S::scatter_axpys(coef, a, j, x, w, stride))
    }

    /// `out[k] = <x, vector k of a block>`; NaN if a column index lies outside the block.
    ///
    /// # Panics
    /// If a dense row has fewer features than the block.
    pub fn products(self, block: &[Lanes<S>], out: &mut [S; WIDTH]) {
        by_layout!(
            self,
            x => S::products(&[x], block, out, WIDTH),
            j, x => S::sparse_products(j, x, block, out)
        )
    }

    /// Calls `f(column, value)` for every stored feature. O(nnz).
    #[inline]
    pub fn for_each(self, mut f: impl FnMut(usize, f64)) {
        by_layout!(
            self,
            x => x.iter().enumerate().for_each(|(j, x)| f(j, x.to_f64())),
            j, x => j.iter().zip(x).for_each(|(j, x)| f(j.position(), x.to_f64()))
        )
    }

    /// Adds the features to those of a dense row; a column that occurs twice counts as the sum. False if one lies
    /// outside, which is passed over. O(nnz).
    #[inline]
    pub(crate) fn add_to(self, features: &mut [S]) -> bool {
        let mut inside = true;
        self.for_each(|j, x| match features.get_mut(j) {
            Some(feature) => *feature = S::from_f64(feature.to_f64() + x),
            None => inside = false,
        });
        inside
    }

    /// How many features are stored.
    pub(crate) fn stored(self) -> usize {
        by_layout!(self, x => x.len(), j, _x => j.len())
    }

    /// The features that are not 0 with their columns, in rising order, a column that occurs twice once.
    pub(crate) fn nonzeros(self) -> Vec<(usize, S)> {
        let mut entries = Vec::new();
        self.for_each(|j, x| entries.push((j, S::from_f64(x))));
        entries.sort_by_key(|entry: &(usize, S)| entry.0);
        entries.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 = S::from_f64(kept.1.to_f64() + next.1.to_f64());
            }
            same
        });
        entries.retain(|entry| entry.1 != S::default());
        entries
    }

    /// Whether these are its [`nonzeros`](Row::nonzeros).
    pub(crate) fn stores(self, nonzeros: &[(usize, S)]) -> bool {
        let (mut at, mut before, mut same, mut plain) = (0, None, true, true);
        self.for_each(|j, x| {
            plain &= before.is_none_or(|before| before < j);
            before = Some(j);
            if x != 0.0 {
                same &= nonzeros.get(at).is_some_and(|own| own.0 == j && own.1.to_f64() == x);
                at += 1;
            }
        });
        // In another order, or with a column that occurs twice, it may be the same row all the same.
        if plain { same && at == nonzeros.len() } else { self.nonzeros() == nonzeros }
    }

    /// Makes this row, into a block that holds zeros there, the vector of a lane. Column indices outside the
    /// block are passed over.
    ///
    /// # Panics
    /// If there is no such lane.
    pub fn pack(self, block: &mut [Lanes<S>], lane: usize) {
        if let Row::Dense(x) = self {
            block.iter_mut().zip(x).for_each(|(lanes, x)| lanes.0[lane] = *x);
            return;
        }
        self.for_each(|j, x| {
            // A column that occurs twice counts as the sum.
            if let Some(lanes) = block.get_mut(j) {
                let z = &mut lanes.0[lane];
                *z = S::from_f64(z.to_f64() + x);
            }
        });
    }

    /// A copy that outlives the matrix.
    pub fn to_owned(self) -> OwnedRow<S> {
        match self {
            Row::Dense(x) => OwnedRow::Dense(x.to_vec()),
            Row::Sparse32(j, x) => OwnedRow::Sparse {
                indices: j.iter().map(|j| i64::from(*j)).collect(),
                values: x.to_vec(),
            },
            Row::Sparse64(j, x) => OwnedRow::Sparse { indices: j.to_vec(), values: x.to_vec() },
        }
    }
}

/// A row that owns its features: of a gradient that is still in flight when a run ends, whose matrix
/// may be gone when it arrives. Its [`row`](OwnedRow::row) computes, bit for bit, what the row did
/// that it is a copy of.
#[derive(Clone, Debug, PartialEq)]
pub enum OwnedRow<S> {
    /// Every feature.
    Dense(Vec<S>),
    /// The stored features.
    Sparse {
        /// Their columns.
        indices: Vec<i64>,
        /// Their values.
        values: Vec<S>,
    },
}

impl<S> OwnedRow<S> {
    /// A row of zeros.
    pub(crate) const EMPTY: Self = OwnedRow::Sparse { indices: Vec::new(), values: Vec::new() };

    /// The row.
    #[inline]
    pub fn row(&self) -> Row<'_, S> {
        match self {
            OwnedRow::Dense(values) => Row::Dense(values),
            OwnedRow::Sparse { indices, values } => Row::Sparse64(indices, values),
        }
    }
}

/// A matrix of examples, rows by number: a view of the caller's arrays. Made from a [`Dense`] or a [`Csr`], or by
/// the crate from rows that it owns or computes.
#[derive(Clone, Copy, Debug)]
pub enum Matrix<'a, S> {
    /// Every feature of every row.
    Dense(Dense<'a, S>),
    /// The features that are stored.
    Csr32(Csr<'a, S, i32>),
    /// The features that are stored, with wide indices.
    Csr64(Csr<'a, S, i64>),
    /// Rows that own their features, of so many each: kernels panic where a dense one has fewer.
    Owned(&'a [OwnedRow<S>], usize),
    /// Rows that are computed when they are needed.
    Window(&'a Window<S>),
}

impl<'a, S> From<Dense<'a, S>> for Matrix<'a, S> {
    fn from(x: Dense<'a, S>) -> Self {
        Matrix::Dense(x)
    }
}

impl<'a, S> From<Csr<'a, S, i32>> for Matrix<'a, S> {
    fn from(x: Csr<'a, S, i32>) -> Self {
        Matrix::Csr32(x)
    }
}

impl<'a, S> From<Csr<'a, S, i64>> for Matrix<'a, S> {
    fn from(x: Csr<'a, S, i64>) -> Self {
        Matrix::Csr64(x)
    }
}

impl<'a, S: Scalar> Matrix<'a, S> {
    /// Number of rows.
    pub fn n_rows(&self) -> usize {
        match self {
            Matrix::Dense(x) => x.n_rows,
            Matrix::Csr32(x) => x.indptr.len() - 1,
            Matrix::Csr64(x) => x.indptr.len() - 1,
            Matrix::Owned(rows, _) => rows.len(),
            Matrix::Window(x) => x.n_rows,
        }
    }

    /// Number of columns.
    pub fn n_features(&self) -> usize {
        match self {
            Matrix::Dense(x) => x.n_features,
            Matrix::Csr32(x) => x.n_features,
            Matrix::Csr64(x) => x.n_features,
            Matrix::Owned(_, n_features) => *n_features,
            Matrix::Window(x) => x.n_features,
        }
    }

    /// How many rows one of several w with so many bytes of weights should see before another w sees them: about as many
    /// as stay in the nearer caches; all, where the weights are what must be kept there.
    pub(crate) fn shared(&self, weights: usize) -> usize {
        if weights > NEAR {
            return usize::MAX;
        }
        let stored = |values: usize, index: usize| values * (size_of::<S>() + index);
        let bytes = match self {
            Matrix::Dense(x) => stored(x.values.len(), 0),
            Matrix::Csr32(x) => stored(x.values.len(), size_of::<i32>()),
            Matrix::Csr64(x) => stored(x.values.len(), size_of::<i64>()),
            Matrix::Owned(..) | Matrix::Window(_) => stored(self.n_rows() * self.n_features(), 0),
        };
        (NEAR / (bytes / self.n_rows().max(1)).max(1)).clamp(FEWEST, MOST)
    }

    /// How many features a sparse row stores, in the mean; 0 where that is not known.
    pub(crate) fn stored_in_a_row(&self) -> usize {
        let stored = match self {
            Matrix::Csr32(x) => x.values.len(),
            Matrix::Csr64(x) => x.values.len(),
            Matrix::Dense(_) | Matrix::Owned(..) | Matrix::Window(_) => 0,
        };
        stored / self.n_rows().max(1)
    }

    /// Refuses rows that are not there.
    pub(crate) fn check_rows(&self, rows: &[usize]) -> Result<(), Error> {
        let n = self.n_rows();
        rows.iter().find(|&&i| i >= n).map_or(Ok(()), |i| Err(Error::index("rows", i, n)))
    }

    /// Refuses rows from one to another that are not there.
    pub(crate) fn check_range(&self, rows: &Range<usize>) -> Result<(), Error> {
        let n = self.n_rows();
        if rows.end <= n || rows.is_empty() {
            return Ok(());
        }
        Err(Error::index("rows", rows.start.max(n), n))
    }

    /// Whether rows store only features that are not 0, in general.
    pub fn is_sparse(&self) -> bool {
        matches!(self, Matrix::Csr32(_) | Matrix::Csr64(_) | Matrix::Owned(..))
    }

    /// Row `i`.
    ///
    /// # Panics
    /// If `i` is not below [`n_rows`](Matrix::n_rows).
    #[inline(always)]
    pub fn row(&self, i: usize) -> Row<'a, S> {
        match self {
            Matrix::Dense(x) => x.row(i),
            Matrix::Csr32(x) => x.row(i),
            Matrix::Csr64(x) => x.row(i),
            Matrix::Owned(rows, _) => rows[i].row(),
            Matrix::Window(x) => x.row(i),
        }
    }

    /// [`Row::products`] of these rows, those of row `rows[r]` to `out[r * stride..r * stride + WIDTH]`.
    pub(crate) fn products(
        &self,
        rows: &[usize],
        block: &[Lanes<S>],
        out: &mut [S],
        stride: usize,
    ) {
        for (rows, out) in rows.chunks(TALL).zip(out.chunks_mut(TALL * stride)) {
            if let Matrix::Dense(x) = self {
                let slices: [&[S]; TALL] =
                    std::array::from_fn(|r| x.features(rows[r.min(rows.len() - 1)]));
                S::products(&slices[..rows.len()], block, out, stride);
                continue;
            }
            for (i, out) in rows.iter().zip(out.chunks_mut(stride)) {
                if let Some(out) = out.first_chunk_mut() {
                    self.row(*i).products(block, out);
                }
            }
        }
    }
}

/// A dense matrix in row-major order.
///
/// ```
/// use pegasos::Dense;
///
/// let x = Dense::new(&[1.0, 2.0, 3.0, 4.0], 2, 2)?;
/// assert_eq!(x.row(1).dot(&[10.0, 1.0]), 34.0);
/// # Ok::<(), pegasos::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Dense<'a, S> {
    values: &'a [S],
    n_rows: usize,
    n_features: usize,
}

impl<'a, S: Scalar> Dense<'a, S> {
    /// A view of `n_rows * n_features` values, row after row. O(1).
    pub fn new(values: &'a [S], n_rows: usize, n_features: usize) -> Result<Self, Error> {
        check_features(n_features)?;
        if n_rows.checked_mul(n_features) != Some(values.len()) {
            return Err(Error::shape(
                "X",
                format_args!("n_rows * n_features = {n_rows} * {n_features} values"),
                values.len(),
            ));
        }
        Ok(Dense { values, n_rows, n_features })
    }

    /// Row `i`.
    ///
    /// # Panics
    /// If there are not so many.
    #[inline(always)]
    pub fn row(&self, i: usize) -> Row<'a, S> {
        Row::Dense(self.features(i))
    }

    #[inline(always)]
    fn features(&self, i: usize) -> &'a [S] {
        let d = self.n_features;
        &self.values[i * d..][..d]
    }
}

/// A sparse matrix in compressed-sparse-row form, its indices `i32` or `i64`.
///
/// Indices need not be sorted. One that occurs twice in a row stands for the sum of its values.
///
/// ```
/// use pegasos::Csr;
///
/// // [[0, 5, 0], [7, 0, 9]]
/// let x = Csr::new(&[0_i32, 1, 3], &[1, 0, 2], &[5.0, 7.0, 9.0], 3)?;
/// assert_eq!(x.row(1).dot(&[1.0, 1.0, 2.0]), 25.0);
/// # Ok::<(), pegasos::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Csr<'a, S, I> {
    indptr: &'a [I],
    indices: &'a [I],
    values: &'a [S],
    n_features: usize,
}

impl<'a, S: Scalar, I: Index> Csr<'a, S, I> {
    /// A view of the three arrays of the format: row `i` holds `values[k]` in column `indices[k]`
    /// for `k` in `indptr[i]..indptr[i + 1]`. Checks `indptr`, in O(n_rows).
    pub fn new(
        indptr: &'a [I],
        indices: &'a [I],
        values: &'a [S],
        n_features: usize,
    ) -> Result<Self, Error> {
        check_features(n_features)?;
        if indices.len() != values.len() {
            return Err(Error::shape(
                "X.indices",
                format_args!("as many entries as X.data, {}", values.len()),
                indices.len(),
            ));
        }
        let [first, .., last] = indptr else {
            return Err(Error::shape("X.indptr", "n_rows + 1 >= 2 entries", indptr.len()));
        };
        if first.position() != 0 {
            return Err(Error::shape("X.indptr", "a first entry of 0", first));
        }
        if let Some(i) = indptr.windows(2).position(|w| w[0].position() > w[1].position()) {
            return Err(Error::shape(
                "X.indptr",
                "entries that never decrease",
                format_args!("{} after {} at row {i}", indptr[i + 1], indptr[i]),
            ));
        }
        if last.position() > values.len() {
            return Err(Error::shape(
                "X.indptr",
                format_args!("a last entry <= the length of X.data, {}", values.len()),
                last,
            ));
        }
        Ok(Csr { indptr, indices, values, n_features })
    }

    /// A view of arrays that were checked by [`new`](Csr::new) when somebody borrowed them.
    #[cfg(feature = "python")]
    pub(crate) fn checked_before(
        indptr: &'a [I],
        indices: &'a [I],
        values: &'a [S],
        n_features: usize,
    ) -> Self {
        Csr { indptr, indices, values, n_features }
    }
}

/// The row of either kind of index.
macro_rules! csr_row {
    ($index:ty, $row:path) => {
        impl<'a, S: Scalar> Csr<'a, S, $index> {
            /// Row `i`.
            ///
            /// # Panics
            /// If there are not so many.
            #[inline(always)]
            pub fn row(&self, i: usize) -> Row<'a, S> {
                let span = self.indptr[i].position()..self.indptr[i + 1].position();
                match (self.indices.get(span.clone()), self.values.get(span)) {
                    (Some(indices), Some(values)) => $row(indices, values),
                    // Only where another thread has changed `indptr` since it was checked.
                    _ => $row(<$index>::NOWHERE, S::ONE),
                }
            }
        }
    };
}
csr_row!(i32, Row::Sparse32);
csr_row!(i64, Row::Sparse64);

fn check_features(n_features: usize) -> Result<(), Error> {
    if n_features == 0 {
        return Err(Error::shape("X", "at least one feature", "0"));
    }
    Ok(())
}

/// Refuses rows of `got` features where `want` are known.
pub(crate) fn same_features(want: usize, got: usize) -> Result<(), Error> {
    if got != want {
        let want = format_args!("{want} features");
        return Err(Error::shape("X", want, got));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Row;

    #[test]
    fn rows_of_the_same_features_are_known_in_any_order() {
        let row = Row::Sparse32(&[1, 4, 7], &[2.0_f32, -1.0, 0.5]);
        let nonzeros = row.nonzeros();
        assert_eq!(nonzeros, [(1, 2.0), (4, -1.0), (7, 0.5)]);
        let same: [(&[i64], &[f32]); 4] = [
            (&[1, 4, 7], &[2.0, -1.0, 0.5]),
            (&[7, 1, 4], &[0.5, 2.0, -1.0]),
            (&[1, 2, 4, 7], &[2.0, 0.0, -1.0, 0.5]),
            (&[4, 1, 9, 7, 1, 9], &[-1.0, 1.5, 3.0, 0.5, 0.5, -3.0]),
        ];
        for (j, x) in same {
            assert!(Row::Sparse64(j, x).stores(&nonzeros), "{j:?}");
        }
        let others: [(&[i64], &[f32]); 5] = [
            (&[1, 4], &[2.0, -1.0]),
            (&[1, 4, 8], &[2.0, -1.0, 0.5]),
            (&[1, 4, 7, 9], &[2.0, -1.0, 0.5, 1.0]),
            (&[1, 4, 7], &[2.0, -1.0, 0.25]),
            (&[7, 4, 1, 1], &[0.5, -1.0, 2.0, 1.0]),
        ];
        for (j, x) in others {
            assert!(!Row::Sparse64(j, x).stores(&nonzeros), "{j:?}");
        }
        assert!(Row::Dense(&[0.0, 2.0, 0.0, 0.0, -1.0, 0.0, 0.0, 0.5_f32]).stores(&nonzeros));
    }
}
