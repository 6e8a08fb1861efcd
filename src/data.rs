//! Views of training data, and the one door where arrays are checked.
//!
//! Nothing here copies: [`Dense`] and [`Csr`] borrow the caller's arrays, a row is a few words
//! passed by value. Shapes are checked when a view is made. Values and column indices are not, as
//! that would cost a pass over the data (and, in Python, another thread may change them later):
//! [`Row::dot`] meets every one of them anyway and answers with a number that is not finite, and
//! whoever sees one asks [`Examples::diagnose`] for the reason.

use crate::error::Error;
use crate::scalar::{Index, Scalar};
use crate::simd::{self, Lanes, TILE, WIDTH};

/// One example's features, borrowed.
pub trait Row: Copy + Send + Sync {
    /// What the features are stored in.
    type Scalar: Scalar;
    /// `<x, v>`; not finite if a feature is not, if the sum overflows, or if a column index lies
    /// outside `v`. O(nnz).
    fn dot(self, v: &[Self::Scalar]) -> f64;
    /// [`dot`](Row::dot) with each of `out.len()` weight vectors of `n_features` entries, row after row
    /// in `w`.
    #[inline]
    fn dots(self, w: &[Self::Scalar], n_features: usize, out: &mut [f64]) {
        for (o, out) in out.iter_mut().enumerate() {
            *out = self.dot(&w[o * n_features..(o + 1) * n_features]);
        }
    }
    /// [`dots`](Row::dots) with weights in f64 whatever the row's scalar.
    #[inline]
    fn dots_wide(self, w: &[f64], n_features: usize, out: &mut [f64]) {
        for (o, out) in out.iter_mut().enumerate() {
            *out = self.dot_wide(&w[o * n_features..(o + 1) * n_features]);
        }
    }
    /// `v += c x`; returns the change of `<v, v>`, which is how the norm of the weights is carried
    /// along without a pass of its own. O(nnz).
    fn axpy(self, c: f64, v: &mut [Self::Scalar]) -> f64;
    /// [`dot`](Row::dot) with weights in f64 whatever the row's scalar, summed in f64.
    fn dot_wide(self, v: &[f64]) -> f64;
    /// [`axpy`](Row::axpy) on weights in f64 whatever the row's scalar.
    fn axpy_wide(self, c: f64, v: &mut [f64]) -> f64;
    /// `out[k] = <x, vector k of a block>`; NaN if a column index lies outside the block.
    fn products(self, block: &[Lanes<Self::Scalar>], out: &mut [Self::Scalar; WIDTH]);
    /// The features in these columns. O(nnz + columns), O(columns) for dense rows.
    fn pick(self, columns: &[usize], out: &mut [Self::Scalar]) {
        let mut dense = vec![0.0; columns.iter().max().map_or(0, |j| j + 1)];
        self.for_each(|j, x| {
            if let Some(v) = dense.get_mut(j) {
                *v += x;
            }
        });
        for (j, out) in columns.iter().zip(out) {
            *out = Self::Scalar::from_f64(dense[*j]);
        }
    }
    /// Calls `f(column, value)` for every stored feature. O(nnz).
    fn for_each(self, f: impl FnMut(usize, f64));
    /// Makes this row, into a block that holds zeros there, the vector of a lane. Column indices outside the
    /// block are passed over.
    #[inline]
    fn pack(self, block: &mut [Lanes<Self::Scalar>], lane: usize) {
        self.for_each(|j, x| {
            // A column that occurs twice counts as the sum.
            if let Some(lanes) = block.get_mut(j) {
                let z = &mut lanes.0[lane];
                *z = Self::Scalar::from_f64(z.to_f64() + x);
            }
        });
    }
    /// A copy that outlives the matrix.
    fn keep(self) -> KeptRow<Self::Scalar>;
    /// `<x, x>`. O(nnz).
    fn norm2(self) -> f64 {
        let mut sum = 0.0;
        self.for_each(|_, x| sum += x * x);
        sum
    }
}

/// A row in whatever scalar, for weights in f64: nothing is copied, all arithmetic is in f64.
#[derive(Clone, Copy, Debug)]
pub struct Wide<R>(pub R);

impl<R: Row> Row for Wide<R> {
    type Scalar = f64;
    #[inline]
    fn dot(self, v: &[f64]) -> f64 {
        self.0.dot_wide(v)
    }
    #[inline]
    fn dots(self, w: &[f64], n_features: usize, out: &mut [f64]) {
        self.0.dots_wide(w, n_features, out);
    }
    #[inline]
    fn axpy(self, c: f64, v: &mut [f64]) -> f64 {
        self.0.axpy_wide(c, v)
    }
    #[inline]
    fn dot_wide(self, v: &[f64]) -> f64 {
        self.0.dot_wide(v)
    }
    #[inline]
    fn axpy_wide(self, c: f64, v: &mut [f64]) -> f64 {
        self.0.axpy_wide(c, v)
    }
    fn products(self, block: &[Lanes<f64>], out: &mut [f64; WIDTH]) {
        *out = [0.0; WIDTH];
        self.for_each(|j, x| match block.get(j) {
            Some(lanes) => out.iter_mut().zip(&lanes.0).for_each(|(out, z)| *out += x * z),
            None => *out = [f64::NAN; WIDTH],
        });
    }
    fn for_each(self, f: impl FnMut(usize, f64)) {
        self.0.for_each(f);
    }
    fn norm2(self) -> f64 {
        self.0.norm2()
    }
    fn keep(self) -> KeptRow<f64> {
        let widen = |values: Vec<R::Scalar>| values.into_iter().map(Scalar::to_f64).collect();
        match self.0.keep() {
            KeptRow::Dense(values) => KeptRow::Dense(widen(values)),
            KeptRow::Sparse { indices, values } => {
                KeptRow::Sparse { indices, values: widen(values) }
            }
        }
    }
}

/// A row that owns its features: of a gradient that is still in flight when a run ends, whose matrix
/// may be gone when it arrives. `&KeptRow` is a [`Row`] that computes, bit for bit, what the row did
/// that it is a copy of.
#[derive(Clone, Debug, PartialEq)]
pub enum KeptRow<S> {
    /// Every feature.
    Dense(Vec<S>),
    /// The stored features.
    Sparse {
        /// Their columns.
        indices: Vec<usize>,
        /// Their values.
        values: Vec<S>,
    },
}

impl<S> KeptRow<S> {
    /// A row of zeros.
    pub(crate) const EMPTY: Self = KeptRow::Sparse { indices: Vec::new(), values: Vec::new() };
}

/// Calls a method of the row that a [`KeptRow`] is.
macro_rules! of_kept {
    ($kept:expr, $row:ident => $then:expr) => {
        match $kept {
            KeptRow::Dense(values) => {
                let $row = DenseRow(values);
                $then
            }
            KeptRow::Sparse { indices, values } => {
                let $row = CsrRow { indices, values };
                $then
            }
        }
    };
}

impl<S: Scalar> Row for &KeptRow<S> {
    type Scalar = S;
    fn dot(self, v: &[S]) -> f64 {
        of_kept!(self, row => row.dot(v))
    }
    fn axpy(self, c: f64, v: &mut [S]) -> f64 {
        of_kept!(self, row => row.axpy(c, v))
    }
    fn dot_wide(self, v: &[f64]) -> f64 {
        of_kept!(self, row => row.dot_wide(v))
    }
    fn axpy_wide(self, c: f64, v: &mut [f64]) -> f64 {
        of_kept!(self, row => row.axpy_wide(c, v))
    }
    fn products(self, block: &[Lanes<S>], out: &mut [S; WIDTH]) {
        of_kept!(self, row => row.products(block, out))
    }
    fn for_each(self, f: impl FnMut(usize, f64)) {
        of_kept!(self, row => row.for_each(f));
    }
    fn norm2(self) -> f64 {
        of_kept!(self, row => row.norm2())
    }
    fn keep(self) -> KeptRow<S> {
        self.clone()
    }
}

/// A matrix of examples: rows by number.
pub trait Rows: Sync {
    /// What the features are stored in.
    type Scalar: Scalar;
    /// Whether rows store only features that are not 0, in general.
    const SPARSE: bool;
    /// The row type.
    type Row<'a>: Row<Scalar = Self::Scalar>
    where
        Self: 'a;
    /// Number of rows.
    fn n_rows(&self) -> usize;
    /// Number of columns.
    fn n_features(&self) -> usize;
    /// Row `i`.
    ///
    /// # Panics
    /// If `i` is not below [`n_rows`](Rows::n_rows).
    fn row(&self, i: usize) -> Self::Row<'_>;
    /// [`Row::products`] of these rows, those of row `rows[r]` to `out[r * stride..r * stride + WIDTH]`.
    fn products(
        &self,
        rows: &[usize],
        block: &[Lanes<Self::Scalar>],
        out: &mut [Self::Scalar],
        stride: usize,
    ) {
        for (i, out) in rows.iter().zip(out.chunks_mut(stride)) {
            if let Some(out) = out.first_chunk_mut() {
                self.row(*i).products(block, out);
            }
        }
    }
    /// Asks for where row `i` begins and ends, well ahead of [`prefetch`](Rows::prefetch).
    fn prefetch_bounds(&self, _i: usize) {}
    /// Asks for the contents of row `i`, ahead of its use. In random order an epoch takes a third
    /// to a quarter of the time for it.
    fn prefetch(&self, i: usize);
}

/// Rows that are kept one by one, as a matrix of so many features.
#[derive(Clone, Copy)]
pub(crate) struct KeptRows<'a, S>(pub &'a [KeptRow<S>], pub usize);

impl<S: Scalar> Rows for KeptRows<'_, S> {
    type Scalar = S;
    const SPARSE: bool = true;
    type Row<'a>
        = &'a KeptRow<S>
    where
        Self: 'a;
    fn n_rows(&self) -> usize {
        self.0.len()
    }
    fn n_features(&self) -> usize {
        self.1
    }
    fn row(&self, i: usize) -> &KeptRow<S> {
        &self.0[i]
    }
    fn prefetch(&self, _: usize) {}
}

impl<X: Rows> Rows for &X {
    type Scalar = X::Scalar;
    const SPARSE: bool = X::SPARSE;
    type Row<'a>
        = X::Row<'a>
    where
        Self: 'a;
    fn n_rows(&self) -> usize {
        (**self).n_rows()
    }
    fn n_features(&self) -> usize {
        (**self).n_features()
    }
    #[inline(always)]
    fn row(&self, i: usize) -> X::Row<'_> {
        (**self).row(i)
    }
    fn products(
        &self,
        rows: &[usize],
        block: &[Lanes<Self::Scalar>],
        out: &mut [Self::Scalar],
        stride: usize,
    ) {
        (**self).products(rows, block, out, stride);
    }
    #[inline(always)]
    fn prefetch_bounds(&self, i: usize) {
        (**self).prefetch_bounds(i);
    }
    #[inline(always)]
    fn prefetch(&self, i: usize) {
        (**self).prefetch(i);
    }
}

/// A dense matrix in row-major order.
///
/// ```
/// use pegasos::{Dense, Row, Rows};
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
                format_args!("{}", values.len()),
            ));
        }
        Ok(Dense { values, n_rows, n_features })
    }
}

/// A dense row.
#[derive(Clone, Copy, Debug)]
pub struct DenseRow<'a, S>(&'a [S]);

impl<'a, S> DenseRow<'a, S> {
    /// Of these features.
    pub(crate) fn new(features: &'a [S]) -> Self {
        DenseRow(features)
    }
}

impl<S: Scalar> Row for DenseRow<'_, S> {
    type Scalar = S;
    #[inline]
    fn dot(self, v: &[S]) -> f64 {
        S::dot(self.0, v)
    }
    #[inline]
    fn dots(self, w: &[S], n_features: usize, out: &mut [f64]) {
        debug_assert_eq!(n_features, self.0.len());
        S::dots(self.0, w, out);
    }
    #[inline]
    fn dots_wide(self, w: &[f64], n_features: usize, out: &mut [f64]) {
        debug_assert_eq!(n_features, self.0.len());
        S::dots(self.0, w, out);
    }
    #[inline]
    fn axpy(self, c: f64, v: &mut [S]) -> f64 {
        S::axpy(c, self.0, v)
    }
    #[inline]
    fn dot_wide(self, v: &[f64]) -> f64 {
        S::dot(self.0, v)
    }
    #[inline]
    fn axpy_wide(self, c: f64, v: &mut [f64]) -> f64 {
        S::axpy(c, self.0, v)
    }
    #[inline]
    fn products(self, block: &[Lanes<S>], out: &mut [S; WIDTH]) {
        S::products(&[self.0], block, out, WIDTH);
    }
    fn pick(self, columns: &[usize], out: &mut [S]) {
        for (j, out) in columns.iter().zip(out) {
            *out = self.0.get(*j).copied().unwrap_or(S::from_f64(f64::NAN));
        }
    }
    fn for_each(self, mut f: impl FnMut(usize, f64)) {
        for (j, x) in self.0.iter().enumerate() {
            f(j, x.to_f64());
        }
    }
    #[inline]
    fn pack(self, block: &mut [Lanes<S>], lane: usize) {
        for (lanes, x) in block.iter_mut().zip(self.0) {
            lanes.0[lane] = *x;
        }
    }
    #[inline]
    fn norm2(self) -> f64 {
        // Several sums, that need not wait for one another.
        let (chunks, rest) = self.0.as_chunks::<8>();
        let mut sums = [0.0; 8];
        for chunk in chunks {
            for (sum, x) in sums.iter_mut().zip(chunk) {
                *sum += x.to_f64() * x.to_f64();
            }
        }
        let rest: f64 = rest.iter().map(|x| x.to_f64() * x.to_f64()).sum();
        sums.iter().sum::<f64>() + rest
    }
    fn keep(self) -> KeptRow<S> {
        KeptRow::Dense(self.0.to_vec())
    }
}

impl<S: Scalar> Rows for Dense<'_, S> {
    type Scalar = S;
    const SPARSE: bool = false;
    type Row<'a>
        = DenseRow<'a, S>
    where
        Self: 'a;
    fn n_rows(&self) -> usize {
        self.n_rows
    }
    fn n_features(&self) -> usize {
        self.n_features
    }
    #[inline]
    fn row(&self, i: usize) -> DenseRow<'_, S> {
        let d = self.n_features;
        DenseRow(&self.values[i * d..(i + 1) * d])
    }
    fn products(&self, rows: &[usize], block: &[Lanes<S>], out: &mut [S], stride: usize) {
        for (rows, out) in rows.chunks(TILE).zip(out.chunks_mut(TILE * stride)) {
            let slices: [&[S]; TILE] =
                std::array::from_fn(|r| self.row(rows[r.min(rows.len() - 1)]).0);
            S::products(&slices[..rows.len()], block, out, stride);
        }
    }
    #[inline]
    fn prefetch(&self, i: usize) {
        let d = self.n_features;
        simd::prefetch_all(&self.values[i * d..(i + 1) * d]);
    }
}

/// A sparse matrix in compressed-sparse-row form, its indices of any integer type.
///
/// Indices need not be sorted. One that occurs twice in a row stands for the sum of its values.
///
/// ```
/// use pegasos::{Csr, Row, Rows};
///
/// // [[0, 5, 0], [7, 0, 9]]
/// let x = Csr::new(&[0, 1, 3], &[1, 0, 2], &[5.0, 7.0, 9.0], 3)?;
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
                format_args!("{}", indices.len()),
            ));
        }
        let [first, .., last] = indptr else {
            return Err(Error::shape(
                "X.indptr",
                format_args!("n_rows + 1 >= 2 entries"),
                format_args!("{}", indptr.len()),
            ));
        };
        if first.position() != 0 {
            return Err(Error::shape(
                "X.indptr",
                format_args!("a first entry of 0"),
                format_args!("{first}"),
            ));
        }
        if let Some(i) = indptr.windows(2).position(|w| w[0].position() > w[1].position()) {
            return Err(Error::shape(
                "X.indptr",
                format_args!("entries that never decrease"),
                format_args!("{} after {} at row {i}", indptr[i + 1], indptr[i]),
            ));
        }
        if last.position() > values.len() {
            return Err(Error::shape(
                "X.indptr",
                format_args!("a last entry <= the length of X.data, {}", values.len()),
                format_args!("{last}"),
            ));
        }
        Ok(Csr { indptr, indices, values, n_features })
    }
}

/// A sparse row: parallel slices of columns and values.
#[derive(Clone, Copy, Debug)]
pub struct CsrRow<'a, S, I> {
    indices: &'a [I],
    values: &'a [S],
}

impl<S: Scalar, I: Index> Row for CsrRow<'_, S, I> {
    type Scalar = S;
    #[inline]
    fn dot(self, v: &[S]) -> f64 {
        S::gather_dot(self.indices, self.values, v)
    }
    #[inline]
    fn axpy(self, c: f64, v: &mut [S]) -> f64 {
        S::scatter_axpy(c, self.indices, self.values, v)
    }
    #[inline]
    fn dot_wide(self, v: &[f64]) -> f64 {
        S::gather_dot(self.indices, self.values, v)
    }
    #[inline]
    fn axpy_wide(self, c: f64, v: &mut [f64]) -> f64 {
        S::scatter_axpy(c, self.indices, self.values, v)
    }
    #[inline]
    fn products(self, block: &[Lanes<S>], out: &mut [S; WIDTH]) {
        S::sparse_products(self.indices, self.values, block, out);
    }
    fn for_each(self, mut f: impl FnMut(usize, f64)) {
        for (j, x) in self.indices.iter().zip(self.values) {
            f(j.position(), x.to_f64());
        }
    }
    fn norm2(self) -> f64 {
        let square = |x: f64| x * x;
        if self.indices.windows(2).all(|pair| pair[0].position() < pair[1].position()) {
            return self.values.iter().map(|x| square(x.to_f64())).sum();
        }
        // A column that occurs twice counts as the sum.
        let mut entries: Vec<(usize, f64)> = Vec::with_capacity(self.values.len());
        self.for_each(|j, x| entries.push((j, x)));
        entries.sort_by_key(|entry| entry.0);
        // In the scalar, as the sum is stored where it is.
        let add = |sum: f64, entry: &(usize, f64)| S::from_f64(sum + entry.1).to_f64();
        entries.chunk_by(|a, b| a.0 == b.0).map(|same| square(same.iter().fold(0.0, add))).sum()
    }
    fn keep(self) -> KeptRow<S> {
        KeptRow::Sparse {
            indices: self.indices.iter().map(|j| j.position()).collect(),
            values: self.values.to_vec(),
        }
    }
}

impl<S: Scalar, I: Index> Rows for Csr<'_, S, I> {
    type Scalar = S;
    const SPARSE: bool = true;
    type Row<'a>
        = CsrRow<'a, S, I>
    where
        Self: 'a;
    fn n_rows(&self) -> usize {
        self.indptr.len() - 1
    }
    fn n_features(&self) -> usize {
        self.n_features
    }
    #[inline]
    fn row(&self, i: usize) -> CsrRow<'_, S, I> {
        let span = self.indptr[i].position()..self.indptr[i + 1].position();
        match (self.indices.get(span.clone()), self.values.get(span)) {
            (Some(indices), Some(values)) => CsrRow { indices, values },
            // Only where another thread has changed `indptr` since it was checked.
            _ => CsrRow { indices: I::NOWHERE, values: S::ONE },
        }
    }
    #[inline]
    fn prefetch_bounds(&self, i: usize) {
        simd::prefetch(self.indptr, i);
    }
    #[inline]
    fn prefetch(&self, i: usize) {
        let row = self.row(i);
        simd::prefetch_all(row.indices);
        simd::prefetch_all(row.values);
    }
}

fn check_features(n_features: usize) -> Result<(), Error> {
    if n_features == 0 {
        return Err(Error::shape("X", format_args!("at least one feature"), format_args!("0")));
    }
    Ok(())
}

/// Refuses rows of `got` features where `want` are known.
pub(crate) fn same_features(want: usize, got: usize) -> Result<(), Error> {
    if got != want {
        let want = format_args!("{want} features");
        return Err(Error::shape("X", want, format_args!("{got}")));
    }
    Ok(())
}

/// Rows with their class numbers and, if given, their weights.
///
/// ```
/// use pegasos::{Dense, Examples};
///
/// let x = Dense::new(&[0.5, -1.0, 2.0], 3, 1)?;
/// let data = Examples::new(x, &[0, 0, 1], None)?;
/// assert_eq!(data.len(), 3);
/// # Ok::<(), pegasos::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Examples<'a, X> {
    x: X,
    y: &'a [u32],
    weight: Option<&'a [f64]>,
}

impl<'a, X: Rows> Examples<'a, X> {
    /// Joins rows, class numbers (one per row) and weights (one per row, finite, >= 0, one of them
    /// > 0; `None` for ones). An example of weight s counts s times in the mean loss. O(n_rows).
    pub fn new(x: X, y: &'a [u32], weight: Option<&'a [f64]>) -> Result<Self, Error> {
        let n = x.n_rows();
        let lengths = [("y", Some(y.len())), ("sample_weight", weight.map(<[f64]>::len))];
        for (name, len) in lengths {
            if let Some(len) = len.filter(|&len| len != n) {
                return Err(Error::shape(
                    name,
                    format_args!("one entry per row of X, {n}"),
                    format_args!("{len}"),
                ));
            }
        }
        if let Some(weight) = weight {
            let wrong = |w: &&f64| !(**w >= 0.0 && w.is_finite());
            if let Some(w) = weight.iter().find(wrong) {
                return Err(Error::parameter("sample_weight", w, ">= 0 and finite everywhere"));
            }
            if !weight.is_empty() && weight.iter().all(|&w| w == 0.0) {
                return Err(Error::parameter("sample_weight", 0.0, "> 0 somewhere"));
            }
        }
        Ok(Examples { x, y, weight })
    }

    /// The same labels and weights of other rows, as many.
    pub(crate) fn with_rows<'b, Y: Rows>(&'b self, x: &'b Y) -> Examples<'b, &'b Y> {
        debug_assert_eq!(x.n_rows(), self.len());
        Examples { x, y: self.y, weight: self.weight }
    }

    /// The rows.
    pub fn rows(&self) -> &X {
        &self.x
    }

    /// Number of examples.
    pub fn len(&self) -> usize {
        self.y.len()
    }

    /// Whether there is no example.
    pub fn is_empty(&self) -> bool {
        self.y.is_empty()
    }

    /// The mean of the weights; 1 where none are given. O(n_rows).
    pub fn mean_weight(&self) -> f64 {
        self.weight.map_or(1.0, |w| w.iter().sum::<f64>() / w.len().max(1) as f64)
    }

    #[inline]
    pub(crate) fn label(&self, i: usize) -> u32 {
        self.y[i]
    }

    /// Refuses a label that a loss for so many classes does not know.
    #[inline(always)]
    pub(crate) fn check_label(&self, i: usize, classes: u32) -> Result<(), Error> {
        if self.y[i] < classes {
            return Ok(());
        }
        Err(Error::index("y", self.y[i], classes as usize))
    }

    #[inline]
    pub(crate) fn weight(&self, i: usize) -> f64 {
        self.weight.map_or(1.0, |w| w[i])
    }

    #[inline]
    pub(crate) fn prefetch_bounds(&self, i: usize) {
        self.x.prefetch_bounds(i);
        simd::prefetch(self.y, i);
        if let Some(weight) = self.weight {
            simd::prefetch(weight, i);
        }
    }

    /// Why the score of row `i` is not finite.
    pub(crate) fn diagnose(&self, i: usize) -> Error {
        diagnose(&self.x, i)
    }

    /// Checks every value and column index of these rows, and that no row is so large that weights
    /// overflow. O(nnz), at the speed of memory. Training finds bad data by itself, but only when it
    /// comes to it; this finds it before w has moved.
    pub fn check(&self, rows: std::ops::Range<usize>) -> Result<(), Error> {
        self.largest(rows).map(drop)
    }

    /// [`check`](Examples::check); returns a number that no row's `<x, x>` exceeds, nor what columns that occur
    /// several times may make of it on the way.
    pub(crate) fn largest(&self, rows: std::ops::Range<usize>) -> Result<f64, Error> {
        let d = self.x.n_features();
        let mut largest: f64 = 0.0;
        for i in rows {
            let (mut norm2, mut outside, mut stored) = (0.0, false, 0);
            self.x.row(i).for_each(|j, x| {
                outside |= j >= d;
                norm2 += x * x;
                stored += 1;
            });
            // False for NaN too.
            let fits = norm2 <= X::Scalar::LARGEST_NORM2;
            if outside || !fits {
                return Err(self.diagnose(i));
            }
            largest = largest.max(norm2 * f64::from(stored));
        }
        Ok(largest)
    }
}

/// Why the score of a row is not finite.
pub(crate) fn diagnose<X: Rows>(x: &X, i: usize) -> Error {
    let d = x.n_features();
    let mut error = None;
    x.row(i).for_each(|j, x| {
        if error.is_none() && j >= d {
            // Negative indices arrive here as their two's complement.
            error = Some(Error::index("X.indices", j as i64, d));
        } else if error.is_none() && !x.is_finite() {
            error = Some(Error::non_finite("X", format_args!("row {i}, column {j} holds {x}")));
        }
    });
    error.unwrap_or_else(|| {
        Error::non_finite("X", format_args!("row {i} makes scores or weights overflow"))
    })
}

/// `<x, x>` of these rows, once their columns are checked.
#[cfg(feature = "python")]
pub(crate) fn squared_norms<X: Rows>(
    x: &X,
    rows: std::ops::Range<usize>,
) -> Result<Vec<f64>, Error> {
    let d = x.n_features();
    let norm2 = |i: usize| {
        let mut outside = false;
        x.row(i).for_each(|j, _| outside |= j >= d);
        if outside { Err(diagnose(x, i)) } else { Ok(x.row(i).norm2()) }
    };
    rows.map(norm2).collect()
}

/// Refuses the first of these scores, some for each of the rows from `first` on, that is not finite.
#[cfg(feature = "python")]
pub(crate) fn check_scores<X: Rows>(
    x: &X,
    first: usize,
    outputs: usize,
    scores: &[f64],
) -> Result<(), Error> {
    match scores.iter().position(|score| !score.is_finite()) {
        Some(at) => Err(diagnose(x, first + at / outputs)),
        None => Ok(()),
    }
}
