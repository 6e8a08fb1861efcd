//! Vectors, laid out for what matters with kernels: products of many rows with all of them.
//!
//! * Packed: [`WIDTH`] vectors stand side by side, feature by feature, so that a product with a row, or
//!   with [`TILE`](crate::simd::TILE) rows at a time, is a sum of whole registers, whatever the layout
//!   of the rows. O(features) numbers a vector, zeros too.
//! * Sparse: stored features only, for data of so many features that packing would not fit. A product
//!   gathers.
//! * Columns: with precomputed kernels a vector is the number of a column, and a product an entry.

use std::ops::Range;

use crate::data::{Matrix, Row};
use crate::error::Error;
use crate::kernel::Kernel;
use crate::memory;
use crate::scalar::Scalar;
use crate::simd::{Lanes, WIDTH};

/// Rows that one task multiplies with vectors: a multiple of [`TALL`](crate::simd::TALL).
pub(crate) const GROUP: usize = 24;

/// Vectors that a task multiplies rows with at a time, so that their kernel values stay in the cache.
pub(crate) const CHUNK: usize = 256;

/// Sparse rows of more features than this are not packed.
pub(crate) const MOST_PACKED: usize = 4096;

/// A growing list of vectors with their squared norms.
#[derive(Clone, Debug)]
pub(crate) struct Vectors<S> {
    n_features: usize,
    layout: Layout,
    /// `<z, z>` of each vector, and zeros up to the end of a block.
    norms: Vec<S>,
    len: usize,
    store: Store<S>,
    /// What is added to all kernel values.
    raise: f64,
}

#[derive(Clone, Debug)]
enum Store<S> {
    /// `n_features` lanes for every block.
    Packed(Vec<Lanes<S>>),
    /// Those of vector k stand at `bounds[k]..bounds[k + 1]`.
    Sparse {
        bounds: Vec<usize>,
        indices: Vec<u32>,
        values: Vec<S>,
    },
    Columns(Vec<usize>),
}

/// Refuses squared norms that are none.
pub(crate) fn check_norms<S: Scalar>(norms: &[S]) -> Result<(), Error> {
    match norms.iter().find(|norm| norm.to_f64().is_nan() || norm.to_f64() < 0.0) {
        Some(norm) => Err(Error::parameter("norms", norm, ">= 0")),
        None => Ok(()),
    }
}

/// How the features of [`Vectors`] are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    Dense,
    /// Features of rows that are mostly zeros.
    Sparse,
    Columns,
}

impl Layout {
    /// Of vectors that are rows of such a matrix.
    pub(crate) fn of<S: Scalar>(kernel: Kernel, x: &Matrix<'_, S>) -> Self {
        match kernel {
            Kernel::Precomputed => Layout::Columns,
            _ if x.is_sparse() => Layout::Sparse,
            _ => Layout::Dense,
        }
    }
}

impl<S: Scalar> Vectors<S> {
    pub(crate) fn new(n_features: usize, layout: Layout) -> Self {
        let store = match layout {
            Layout::Columns => Store::Columns(Vec::new()),
            Layout::Sparse if n_features > MOST_PACKED => {
                Store::Sparse { bounds: vec![0], indices: Vec::new(), values: Vec::new() }
            }
            _ => Store::Packed(Vec::new()),
        };
        Vectors { n_features, layout, norms: Vec::new(), len: 0, store, raise: 0.0 }
    }

    /// Adds this number to all kernel values of the vectors: the square of a constant feature beside their
    /// images, whose weight is an intercept.
    pub(crate) fn raised(self, raise: f64) -> Self {
        Vectors { raise, ..self }
    }

    /// None yet, in the same layout.
    pub(crate) fn empty(&self) -> Self {
        Vectors::new(self.n_features, self.layout).raised(self.raise)
    }

    /// None again; the room stays.
    pub(crate) fn clear(&mut self) {
        self.len = 0;
        self.norms.clear();
        match &mut self.store {
            Store::Packed(lanes) => lanes.clear(),
            Store::Sparse { bounds, indices, values } => {
                bounds.truncate(1);
                indices.clear();
                values.clear();
            }
            Store::Columns(columns) => columns.clear(),
        }
    }

    /// Refuses so many more vectors where there is no memory for them, or for the scratch of a product.
    pub(crate) fn check_room(&self, more: usize) -> Result<(), Error> {
        let d = self.n_features;
        match &self.store {
            Store::Packed(_) => {
                memory::check::<Lanes<S>>("the support vectors", &[more.div_ceil(WIDTH), d])
            }
            Store::Sparse { .. } => memory::check::<S>("a row of all features", &[2, d]),
            Store::Columns(_) => Ok(()),
        }
    }

    /// Makes room for so many more vectors. Sparse ones take what they take.
    pub(crate) fn reserve(&mut self, more: usize) -> Result<(), Error> {
        let want = (self.len + more).next_multiple_of(WIDTH);
        memory::reserve("the norms", &mut self.norms, want)?;
        let (what, d) = ("the support vectors", self.n_features);
        match &mut self.store {
            Store::Packed(lanes) => memory::reserve(what, lanes, (want / WIDTH).saturating_mul(d)),
            Store::Sparse { bounds, indices, values } => {
                memory::reserve(what, bounds, self.len + more + 1)?;
                // As many features as there are on average, and half as many again.
                let features = indices.len() / self.len.max(1) * more * 3 / 2 + indices.len();
                memory::reserve(what, indices, features)?;
                memory::reserve(what, values, features)
            }
            Store::Columns(columns) => memory::reserve(what, columns, self.len + more),
        }
    }

    /// Refuses a copy that there is no memory for.
    pub(crate) fn check_copy(&self) -> Result<(), Error> {
        let what = "a copy of the support vectors";
        match &self.store {
            Store::Packed(lanes) => memory::check::<Lanes<S>>(what, &[lanes.len()]),
            Store::Sparse { indices, .. } => memory::check::<(u32, S)>(what, &[indices.len()]),
            Store::Columns(columns) => memory::check::<usize>(what, &[columns.len()]),
        }
    }

    /// The largest squared norm; 0 without vectors.
    pub(crate) fn largest_norm2(&self) -> f64 {
        self.norms.iter().map(|norm| norm.to_f64()).fold(0.0, f64::max)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn n_features(&self) -> usize {
        self.n_features
    }

    /// About how many multiplications a product with one of them takes.
    pub(crate) fn length(&self) -> usize {
        match &self.store {
            Store::Packed(_) => self.n_features,
            Store::Sparse { indices, .. } => indices.len().div_ceil(self.len.max(1)),
            Store::Columns(_) => 1,
        }
    }

    /// Appends row `i` of a matrix.
    pub(crate) fn push(&mut self, i: usize, row: Row<'_, S>) {
        let slot = self.len;
        self.len += 1;
        self.norms.resize(self.len.next_multiple_of(WIDTH), S::default());
        match &mut self.store {
            Store::Packed(lanes) => {
                let d = self.n_features;
                if slot.is_multiple_of(WIDTH) {
                    lanes.resize(lanes.len() + d, Lanes([S::default(); WIDTH]));
                }
                row.pack(&mut lanes[slot / WIDTH * d..], slot % WIDTH);
            }
            Store::Sparse { bounds, indices, values } => {
                row.for_each(|j, x| {
                    if j < self.n_features {
                        indices.push(j as u32);
                        values.push(S::from_f64(x));
                    }
                });
                bounds.push(indices.len());
            }
            Store::Columns(columns) => {
                columns.push(i);
                return;
            }
        }
        self.norms[slot] = S::from_f64(row.norm2());
    }

    /// Sets the squared norm of a vector, which it may have been rounded to in another way.
    pub(crate) fn set_norm(&mut self, slot: usize, norm: S) {
        self.norms[slot] = norm;
    }

    /// The squared norms of the vectors in these slots.
    pub(crate) fn norms(&self, slots: Range<usize>) -> &[S] {
        &self.norms[slots]
    }

    /// `out[r * stride + k] = <x[rows[r]], vector slots.start + k>`. The slots begin at the beginning of a
    /// block; room up to the end of a block is written as well. NaN for rows with a column index that
    /// is outside.
    pub(crate) fn products(
        &self,
        x: &Matrix<'_, S>,
        rows: &[usize],
        slots: Range<usize>,
        out: &mut [S],
        stride: usize,
    ) {
        debug_assert!(slots.start.is_multiple_of(WIDTH) && slots.end <= self.len);
        if let Store::Packed(lanes) = &self.store {
            let d = self.n_features;
            for block in slots.start / WIDTH..slots.end.div_ceil(WIDTH) {
                let at = block * WIDTH - slots.start;
                x.products(rows, &lanes[block * d..(block + 1) * d], &mut out[at..], stride);
            }
            return;
        }
        let mut zeros = Vec::new();
        for (i, out) in rows.iter().zip(out.chunks_mut(stride)) {
            self.products_with(x.row(*i), slots.clone(), &mut zeros, out);
        }
    }

    /// [`products`](Vectors::products) of one row; `zeros` is room, and zeros, between rows.
    fn products_with(
        &self,
        row: Row<'_, S>,
        slots: Range<usize>,
        zeros: &mut Vec<S>,
        out: &mut [S],
    ) {
        match &self.store {
            Store::Packed(lanes) => {
                let (blocks, _) = out.as_chunks_mut::<WIDTH>();
                let lanes = &lanes[slots.start / WIDTH * self.n_features..];
                for (block, out) in lanes.chunks(self.n_features).zip(blocks) {
                    row.products(block, out);
                }
            }
            Store::Sparse { bounds, indices, values } => {
                zeros.resize(self.n_features, S::default());
                let inside = row.add_to(zeros);
                for (bounds, out) in bounds[slots.start..=slots.end].windows(2).zip(out) {
                    let span = bounds[0]..bounds[1];
                    let product = S::gather_dot(&indices[span.clone()], &values[span], zeros);
                    *out = S::from_f64(if inside { product } else { f64::NAN });
                }
                row.for_each(|j, _| {
                    if let Some(v) = zeros.get_mut(j) {
                        *v = S::default();
                    }
                });
            }
            Store::Columns(columns) => row.pick(&columns[slots], out),
        }
    }

    /// `<x, vector k>` for all of them, for a row that may be of no matrix at hand; `zeros` is room, and zeros, between calls.
    pub(crate) fn products_of(&self, row: Row<'_, S>, zeros: &mut Vec<S>, out: &mut Vec<S>) {
        out.clear();
        out.resize(self.len.next_multiple_of(WIDTH), S::default());
        self.products_with(row, 0..self.len, zeros, out);
        out.truncate(self.len);
    }

    /// Writes kernel values of these rows with the vectors in these slots, a row of `stride` each.
    pub(crate) fn kernel_values(
        &self,
        kernel: Kernel,
        x: &Matrix<'_, S>,
        rows: &[usize],
        slots: Range<usize>,
        out: &mut [S],
        stride: usize,
    ) {
        if rows.is_empty() {
            return;
        }
        self.products(x, rows, slots.clone(), out, stride);
        for (i, out) in rows.iter().zip(out.chunks_mut(stride)) {
            self.map(kernel, x.row(*i), slots.clone(), &mut out[..slots.len()]);
        }
    }

    /// Kernel values of a row with all vectors; it may be of no matrix at hand.
    pub(crate) fn kernel_values_of(&self, kernel: Kernel, x: Row<'_, S>, out: &mut Vec<S>) {
        self.products_of(x, &mut Vec::new(), out);
        self.map(kernel, x, 0..self.len, out);
    }

    /// Makes kernel values of the products of a row with the vectors in these slots.
    fn map(&self, kernel: Kernel, x: Row<'_, S>, slots: Range<usize>, out: &mut [S]) {
        if !self.are_columns() {
            let norm2 = x.norm2();
            // Else an infinite feature could pass for one that is far away.
            if S::from_f64(norm2).to_f64().is_finite() {
                kernel.map(out, norm2, self.norms(slots));
            } else {
                out.fill(S::from_f64(f64::NAN));
            }
        }
        if self.raise != 0.0 {
            out.iter_mut().for_each(|k| *k = S::from_f64(k.to_f64() + self.raise));
        }
    }

    /// The features of a vector, all of them; the number of the column where that is what a vector is.
    pub(crate) fn write(&self, slot: usize, out: &mut [S]) {
        out.fill(S::default());
        self.for_each(slot, |j, x| out[j] = S::from_f64(out[j].to_f64() + x.to_f64()));
    }

    /// Calls `f(column, value)` for the features of a vector that are not 0; `f(column, 1)` where a vector
    /// is the number of a column.
    pub(crate) fn for_each(&self, slot: usize, mut f: impl FnMut(usize, S)) {
        match &self.store {
            Store::Packed(lanes) => {
                let block = &lanes[slot / WIDTH * self.n_features..];
                for (j, lanes) in block[..self.n_features].iter().enumerate() {
                    let x = lanes.0[slot % WIDTH];
                    if x != S::default() {
                        f(j, x);
                    }
                }
            }
            Store::Sparse { bounds, indices, values } => {
                for k in bounds[slot]..bounds[slot + 1] {
                    f(indices[k] as usize, values[k]);
                }
            }
            Store::Columns(columns) => f(columns[slot], S::ONE[0]),
        }
    }

    /// Whether all features of a vector are stored.
    pub(crate) fn are_packed(&self) -> bool {
        matches!(self.store, Store::Packed(_))
    }

    /// Whether a vector is the number of a column.
    pub(crate) fn are_columns(&self) -> bool {
        matches!(self.store, Store::Columns(_))
    }
}
