//! Vectors, laid out for what matters with kernels: products of many rows with all of them.
//!
//! * Packed: [`WIDTH`] vectors stand side by side, feature by feature, so that a product with a row, or
//!   with [`TILE`](crate::simd::TILE) rows at a time, is a sum of whole registers, whatever the layout
//!   of the rows. O(features) numbers a vector, zeros too.
//! * Sparse: stored features only, for data of so many features that packing would not fit. Of some rows the columns that any
//!   of them stores are packed instead, and a vector looks up which of its own are among these: of text a few. In trials on an
//!   Intel Xeon exact fits of 4,000 and 8,000 rows of 44 of 2^20 columns took 0.16 and 0.12 of the time that they took with
//!   gathers from rows written out. Of 64 rows at a time, not 16, a product of words of programs (43 of 32,943 columns) takes 2.6 ns, not
//!   8.6, on an AMD EPYC with AVX-512.
//! * Columns: with precomputed kernels a vector is the number of a column, and a product an entry.

use std::cell::Cell;
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

/// Sparse rows that are multiplied side by side, and what they may store together: a column takes the room of all of them.
const ABREAST: usize = 4 * WIDTH;
const MOST_STORED: usize = 1 << 14;

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

/// Refuses coefficients that are not finite.
pub(crate) fn check_coefs<S: Scalar>(name: &'static str, coefs: &[S]) -> Result<(), Error> {
    match coefs.iter().find(|coef| !coef.to_f64().is_finite()) {
        Some(coef) => Err(Error::parameter(name, coef, "finite")),
        None => Ok(()),
    }
}

/// Refuses columns whose numbers are too large for those of sparse vectors.
fn check_columns(n_features: usize) -> Result<(), Error> {
    match u32::try_from(n_features.saturating_sub(1)) {
        Ok(_) => Ok(()),
        Err(_) => {
            Err(Error::shape("X", "at most 2^32 features where there are kernels", n_features))
        }
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
            Store::Sparse { .. } => {
                memory::check::<S>("a row of all features", &[2, d])?;
                check_columns(d)
            }
            Store::Columns(_) => Ok(()),
        }
    }

    /// Makes room for so many more vectors. Sparse ones take what they take.
    pub(crate) fn reserve(&mut self, more: usize) -> Result<(), Error> {
        self.check_room(0)?;
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
        let (mut left, mut out) = (rows.iter().map(|&i| x.row(i)).peekable(), out);
        let mut some = Vec::new();
        while left.peek().is_some() {
            some.clear();
            let mut stored = 0;
            while let Some(row) = left.next_if(|row| {
                some.is_empty() || some.len() < ABREAST && stored + row.stored() <= MOST_STORED
            }) {
                stored += row.stored();
                some.push(row);
            }
            self.products_with(&some, slots.clone(), out, stride);
            let done = out.len().min(some.len() * stride);
            out = &mut out[done..];
        }
    }

    /// [`products`](Vectors::products) of [`ABREAST`] rows at most.
    fn products_with(
        &self,
        rows: &[Row<'_, S>],
        slots: Range<usize>,
        out: &mut [S],
        stride: usize,
    ) {
        match &self.store {
            Store::Packed(lanes) => {
                let lanes = &lanes[slots.start / WIDTH * self.n_features..];
                for (row, out) in rows.iter().zip(out.chunks_mut(stride)) {
                    let (blocks, _) = out.as_chunks_mut::<WIDTH>();
                    for (block, out) in lanes.chunks(self.n_features).zip(blocks) {
                        row.products(block, out);
                    }
                }
            }
            Store::Sparse { bounds, indices, values } => {
                let packed = Packed::of(rows, self.n_features);
                let (mut places, mut own) = (Vec::new(), Vec::new());
                let mut products = [S::default(); WIDTH];
                for (k, bounds) in bounds[slots.start..=slots.end].windows(2).enumerate() {
                    let span = bounds[0]..bounds[1];
                    let met = packed.look_up(
                        &indices[span.clone()],
                        &values[span],
                        &mut places,
                        &mut own,
                    );
                    let mut at = k;
                    for (rows, block) in rows.chunks(WIDTH).zip(packed.blocks()) {
                        S::sparse_products(&places[..met], &own[..met], block, &mut products);
                        for product in &products[..rows.len()] {
                            out[at] = *product;
                            at += stride;
                        }
                    }
                }
                for (r, _) in packed.inside.iter().enumerate().filter(|inside| !inside.1) {
                    out[r * stride..][..slots.len()].fill(S::from_f64(f64::NAN));
                }
            }
            Store::Columns(columns) => {
                for (row, out) in rows.iter().zip(out.chunks_mut(stride)) {
                    row.pick(&columns[slots.clone()], out);
                }
            }
        }
    }

    /// `<x, vector k>` for all of them, for a row that may be of no matrix at hand.
    pub(crate) fn products_of(&self, row: Row<'_, S>, out: &mut Vec<S>) {
        out.clear();
        out.resize(self.len.next_multiple_of(WIDTH), S::default());
        let stride = out.len().max(1);
        self.products_with(&[row], 0..self.len, out, stride);
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
        self.products_of(x, out);
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

thread_local! {
    /// Zeros for [`Packed::words`]: to clear so many takes longer than a product.
    static WORDS: Cell<Vec<(u64, u32)>> = const { Cell::new(Vec::new()) };
}

/// No more than these are kept.
const MOST_WORDS: usize = 1 << 20;

/// The columns that some sparse rows store, side by side for all of these rows.
struct Packed<S> {
    /// Of 64 columns each: which of them are stored, and where the first of these stands.
    words: Vec<(u64, u32)>,
    /// Those that are not 0.
    met: Vec<usize>,
    /// Of [`WIDTH`] rows after the other their values in the columns that are stored, which are so many.
    lanes: Vec<Lanes<S>>,
    columns: usize,
    /// Whether all columns of a row are there.
    inside: Vec<bool>,
}

impl<S: Scalar> Packed<S> {
    /// Of [`ABREAST`] rows at most.
    fn of(rows: &[Row<'_, S>], n_features: usize) -> Self {
        let (mut words, mut met) = (WORDS.take(), Vec::new());
        words.resize(words.len().max(n_features.div_ceil(64)), (0, 0));
        let mut inside = vec![true; rows.len()];
        for (row, inside) in rows.iter().zip(&mut inside) {
            row.for_each(|j, x| {
                *inside &= j < n_features;
                if j >= n_features || x == 0.0 {
                    return;
                }
                let word = &mut words[j / 64].0;
                if *word == 0 {
                    met.push(j / 64);
                }
                *word |= 1 << (j % 64);
            });
        }
        let mut count = 0;
        for &k in &met {
            words[k].1 = count;
            count += words[k].0.count_ones();
        }
        let columns = count as usize;
        let lanes = vec![Lanes([S::default(); WIDTH]); columns * rows.len().div_ceil(WIDTH)];
        let mut packed = Packed { words, met, lanes, columns, inside };
        for (k, row) in rows.iter().enumerate() {
            let first = k / WIDTH * columns;
            row.for_each(|j, x| {
                // A column that occurs twice counts as the sum.
                if let Some(lanes) = packed.place(j).and_then(|at| packed.lanes.get_mut(first + at))
                {
                    let value = &mut lanes.0[k % WIDTH];
                    *value = S::from_f64(value.to_f64() + x);
                }
            });
        }
        packed
    }

    /// Where a column stands, if any row stores it.
    #[inline(always)]
    fn place(&self, j: usize) -> Option<usize> {
        let (word, first) = *self.words.get(j / 64)?;
        let bit = 1 << (j % 64);
        let place = first as usize + (word & (bit - 1)).count_ones() as usize;
        (word & bit != 0).then_some(place)
    }

    /// The values of [`WIDTH`] rows after the other, a block by place.
    fn blocks(&self) -> impl Iterator<Item = &[Lanes<S>]> {
        // No column has a block, too.
        (0..self.inside.len().div_ceil(WIDTH))
            .map(|k| &self.lanes[k * self.columns..][..self.columns])
    }

    /// Writes those of these columns that are stored, by place, with their values, before what else stands there; says how many.
    #[inline(always)]
    fn look_up(
        &self,
        columns: &[u32],
        values: &[S],
        places: &mut Vec<u32>,
        own: &mut Vec<S>,
    ) -> usize {
        if places.len() < columns.len() {
            places.resize(columns.len(), 0);
            own.resize(columns.len(), S::default());
        }
        let (places, own, mut met) = (&mut places[..columns.len()], &mut own[..columns.len()], 0);
        // Without a branch: which column is there nobody can guess.
        for (&j, &value) in columns.iter().zip(values) {
            (places[met], own[met]) = (j, value);
            met += (self.words[j as usize / 64].0 >> (j % 64) & 1) as usize;
        }
        for j in &mut places[..met] {
            let (word, first) = self.words[*j as usize / 64];
            *j = first + (word & ((1 << (*j % 64)) - 1)).count_ones();
        }
        met
    }
}

impl<S> Drop for Packed<S> {
    fn drop(&mut self) {
        let mut words = std::mem::take(&mut self.words);
        self.met.iter().for_each(|&k| words[k] = (0, 0));
        if words.len() <= MOST_WORDS {
            WORDS.set(words);
        }
    }
}

#[cfg(test)]
mod tests {
    use rand_pcg::Pcg64;
    use rand_pcg::rand_core::Rng;

    use super::*;
    use crate::data::Csr;

    /// Products of sparse rows, with columns that occur twice and some that are not there, are those of the rows written out;
    /// and the same to the last bit whichever rows stand side by side.
    #[test]
    fn sparse_products_depend_on_no_other_row() -> Result<(), Error> {
        let (n, d) = (2 * WIDTH + 5, 3 * MOST_PACKED);
        let mut numbers = Pcg64::new(7, 0);
        let mut number = |most: usize| (numbers.next_u64() >> 33) as usize % most;
        let (mut indptr, mut indices, mut x) = (vec![0], Vec::new(), Vec::new());
        for i in 0..n {
            // Columns that many have, and such that few have; one row has too many for others beside it, the last none, and one
            // has a column that is not there.
            let stored = match i {
                50 => MOST_STORED + 1,
                _ if i + 1 < n => 5 + number(40),
                _ => 0,
            };
            indices.extend((0..stored).map(|k| number(if k % 2 == 0 { 30 } else { d }) as i32));
            x.extend((0..stored).map(|_| number(17) as f64 / 4.0 - 2.0));
            indptr.push(indices.len() as i32);
        }
        let outside = 40;
        indices[indptr[outside] as usize] = d as i32;
        let x = Matrix::from(Csr::new(&indptr, &indices, &x, d)?);
        let mut vectors = Vectors::new(d, Layout::Sparse);
        assert!(!vectors.are_packed());
        (0..n).for_each(|i| vectors.push(i, x.row(i)));
        let (rows, stride): (Vec<usize>, _) = ((0..n).collect(), n.next_multiple_of(WIDTH));
        let mut all = vec![0.0; n * stride];
        vectors.products(&x, &rows, 0..n, &mut all, stride);
        let (mut alone, mut a, mut b) = (Vec::new(), vec![0.0; d], vec![0.0; d]);
        for i in 0..n {
            let products = &all[i * stride..][..n];
            vectors.products_of(x.row(i), &mut alone);
            assert_eq!(
                products.iter().map(|p| p.to_bits()).collect::<Vec<_>>(),
                alone.iter().map(|p| p.to_bits()).collect::<Vec<_>>()
            );
            if i == outside {
                assert!(products.iter().all(|product| product.is_nan()));
                continue;
            }
            vectors.write(i, &mut a);
            for (j, product) in products.iter().enumerate() {
                vectors.write(j, &mut b);
                let want: f64 = a.iter().zip(&b).map(|(a, b)| a * b).sum();
                // Sixteenths, which add up without a rounding.
                assert_eq!(*product, want, "{i} {j}");
            }
        }
        Ok(())
    }
}
