//! A bounded set of support vectors whose features and coefficients change.

use std::ops::Range;

use crate::data::{Dense, Matrix, OwnedRow, Row};
use crate::error::Error;
use crate::kernel::Kernel;
use crate::memory;
use crate::scalar::Scalar;
use crate::simd::{Lanes, Simd, TILE, WIDTH};
use crate::threads::side_by_side;
use crate::vectors::{Layout, MOST_PACKED, Vectors};

/// Products of this many numbers are worth a task of their own.
const TASK: usize = 1 << 20;

/// Support vectors in slots. Some slots may be holes: their coefficients are 0 and their sizes infinite, so that
/// they count for nothing and are never chosen. While training goes on there is one at most.
#[derive(Clone, Debug)]
pub(super) struct Support<S> {
    pub kernel: Kernel,
    pub outputs: usize,
    pub n_features: usize,
    store: Store<S>,
    /// `<z, z>`.
    pub norms: Vec<S>,
    /// Coefficients over a, slot after slot.
    pub v: Vec<f64>,
    /// `u` of the lazy average, as `v`. Empty until the first iterate is counted.
    pub u: Vec<f64>,
    /// The coefficients once more, output after output, rounded: what products run over. Zeros beyond the last slot.
    pub rounded: Vec<S>,
    /// Of each output.
    pub stride: usize,
    /// Slots that there may ever be.
    most: usize,
    /// `||v||^2 |k(z, z)|` of each slot: what removing it would cost. Infinite beyond the last slot.
    pub size: Vec<f64>,
    /// `k(z, z)`.
    pub own: Vec<f64>,
    /// When each was added, for ties.
    pub born: Vec<u64>,
    pub holes: Vec<usize>,
}

#[derive(Clone, Debug)]
enum Store<S> {
    /// Row after row.
    Dense(Vec<S>),
    Sparse(Vec<OwnedRow<S>>),
}

/// Coefficients that sum to 0 over the classes, as those of the Crammer-Singer loss do, must go on to when
/// many roundings add up, and when what is left of large ones that have cancelled is small.
pub(super) fn balance(coef: &mut [f64]) {
    let (mut sum, mut size) = (0.0, 0.0);
    for c in coef.iter() {
        sum += c;
        size += c.abs();
    }
    // Less than a rounding stays, so that doing it twice is doing it once.
    if coef.len() == 1 || sum.abs() <= 1e-15 * size || sum.abs() > 1e-6 * size {
        return;
    }
    if let Some(largest) = coef.iter_mut().max_by(|a, b| a.abs().total_cmp(&b.abs())) {
        *largest -= sum;
    }
}

/// Where `is` holds: a search that looks at many entries at a time, for few.
fn positions<T>(all: &[T], is: impl Fn(&T) -> bool + Copy) -> impl Iterator<Item = usize> {
    const MANY: usize = 32;
    let chunks = all.chunks(MANY).enumerate();
    // Not `any`, which stops to look after every one.
    chunks.filter(move |(_, chunk)| chunk.iter().fold(false, |found, x| found | is(x))).flat_map(
        move |(at, chunk)| {
            let places = (at * MANY..).zip(chunk);
            places.filter(move |(_, x)| is(x)).map(|(place, _)| place)
        },
    )
}

/// Of rows of numbers for so many slots: an odd number of cache lines, so that one slot's entries do not all fall into
/// the same few sets.
pub(super) fn stride_for<S>(width: usize) -> usize {
    width + 64 / size_of::<S>()
}

/// These rows of `from` entries, if there are any, with zeros up to `to` entries and so many rows.
pub(super) fn with_stride<S: Scalar>(old: &[S], from: usize, to: usize, rows: usize) -> Vec<S> {
    let mut new = vec![S::default(); to * rows];
    for (new, old) in new.chunks_mut(to).zip(old.chunks(from.max(1))) {
        new[..from].copy_from_slice(old);
    }
    new
}

/// The squared norms of up to [`WIDTH`] vectors; NaN in place of infinity, else an infinite feature could pass for
/// one that is far away.
pub(super) fn lane_norms<S: Scalar>(vectors: &Vectors<S>) -> [S; WIDTH] {
    let mut xx = [S::default(); WIDTH];
    for (xx, norm2) in xx.iter_mut().zip(vectors.norms(0..vectors.len())) {
        *xx = if norm2.to_f64().is_finite() { *norm2 } else { S::from_f64(f64::NAN) };
    }
    xx
}

impl<S: Scalar> Support<S> {
    /// None yet, and `most` for ever.
    pub fn new(
        kernel: Kernel,
        outputs: usize,
        n_features: usize,
        most: usize,
    ) -> Result<Self, Error> {
        memory::check::<S>("the coefficients", &[4, WIDTH, outputs])?;
        let mut support = Support {
            kernel,
            outputs,
            n_features,
            store: Store::Dense(Vec::new()),
            norms: Vec::new(),
            v: Vec::new(),
            u: Vec::new(),
            rounded: Vec::new(),
            stride: 0,
            most,
            size: Vec::new(),
            own: Vec::new(),
            born: Vec::new(),
            holes: Vec::new(),
        };
        support.widen();
        Ok(support)
    }

    /// Stores vectors to come, the first ones, as they come if they have so many features that it pays.
    pub fn store_sparse(&mut self) {
        if self.n_features > MOST_PACKED {
            self.store = Store::Sparse(Vec::new());
        }
    }

    /// Slots in use, holes among them.
    pub fn slots(&self) -> usize {
        self.norms.len()
    }

    /// Vectors.
    pub fn count(&self) -> usize {
        self.slots() - self.holes.len()
    }

    /// The numbers of the slots that hold a vector.
    pub fn occupied(&self) -> impl Iterator<Item = usize> + Clone {
        (0..self.slots()).filter(|slot| !self.holes.contains(slot))
    }

    /// The slot of the k-th oldest vector, for a draw that knows nothing of slots: these are others once w was stored. There must
    /// be so many. O(slots).
    pub fn by_age(&self, k: usize) -> usize {
        let mut slots: Vec<usize> = self.occupied().collect();
        *slots.select_nth_unstable_by_key(k, |&slot| self.born[slot]).1
    }

    /// Slots up to which arrays are filled up, so that loops over lanes need no remainder.
    pub fn width(&self) -> usize {
        self.size.len()
    }

    /// The coefficients in a slot.
    pub fn coef(&self, slot: usize) -> &[f64] {
        &self.v[slot * self.outputs..(slot + 1) * self.outputs]
    }

    /// The layout of vectors that are compared with these.
    pub fn layout(&self) -> Layout {
        match self.store {
            Store::Dense(_) => Layout::Dense,
            Store::Sparse(_) => Layout::Sparse,
        }
    }

    /// The width after the next widening: twice as many slots, but no more than there may ever be.
    fn wider(&self) -> usize {
        let slots = (2 * self.slots()).min(self.most.max(self.slots() + 1));
        // Even numbers of cache lines, which one more makes odd.
        slots.max(2 * WIDTH).next_multiple_of(2 * WIDTH)
    }

    /// Makes sure that there is memory for so many more vectors; returns the width that they will lead to.
    pub fn reserve(&mut self, more: usize, averaging: bool) -> Result<usize, Error> {
        let slots = self.slots().saturating_add(more).min(self.most);
        let width = if slots > self.width() { self.wider().max(slots) } else { self.width() };
        let what = "the support vectors";
        match &mut self.store {
            Store::Dense(rows) => {
                memory::reserve(what, rows, width.saturating_mul(self.n_features))?;
            }
            Store::Sparse(rows) => {
                memory::reserve(what, rows, width)?;
                memory::check::<S>("a row of all features", &[3, self.n_features])?;
            }
        }
        memory::reserve(what, &mut self.norms, width)?;
        memory::reserve(what, &mut self.own, width)?;
        memory::reserve(what, &mut self.born, width)?;
        let coefs = width.saturating_mul(self.outputs);
        memory::reserve("the coefficients", &mut self.v, coefs)?;
        let averaged = if averaging { coefs } else { 0 };
        memory::reserve("the average of the coefficients", &mut self.u, averaged)?;
        if width > self.width() {
            let stride = stride_for::<S>(width);
            memory::check::<S>("the coefficients", &[stride, self.outputs])?;
        }
        Ok(width)
    }

    /// Refuses a copy that there is no memory for.
    pub fn check_copy(&self) -> Result<(), Error> {
        if let Store::Dense(rows) = &self.store {
            memory::check::<S>("a copy of the support vectors", &[2, rows.len()])?;
        }
        memory::check::<f64>("a copy of the coefficients", &[3, self.v.len()])
    }

    /// Makes room for more slots.
    fn widen(&mut self) {
        let width = self.wider();
        let stride = stride_for::<S>(width);
        self.rounded = with_stride(&self.rounded, self.stride, stride, self.outputs);
        self.stride = stride;
        self.size.resize(width, f64::INFINITY);
    }

    /// Which vector has just these features.
    pub fn find(&self, x: Row<'_, S>) -> Option<usize> {
        let norm2 = S::from_f64(x.norm2());
        let (mut features, mut stored) = (None, None);
        positions(&self.norms, |norm| *norm == norm2).find(|&slot| {
            if self.holes.contains(&slot) {
                return false;
            }
            match self.row(slot) {
                Row::Dense(own) => own == *features.get_or_insert_with(|| self.features_of(x)),
                // Of rows of length 1 every vector has this norm: none is written out for that, feature by feature.
                own => own.stores(stored.get_or_insert_with(|| x.nonzeros())),
            }
        })
    }

    fn features_of(&self, x: Row<'_, S>) -> Vec<S> {
        if let Row::Dense(x) = x {
            return x.to_vec();
        }
        let mut features = vec![S::default(); self.n_features];
        x.add_to(&mut features);
        features
    }

    /// Puts a vector without coefficients into a hole, or into a new slot.
    pub fn insert(&mut self, x: Row<'_, S>, born: u64, averaging: bool) -> usize {
        let slot = self.holes.pop().unwrap_or(self.slots());
        if slot == self.width() {
            self.widen();
        }
        if slot == self.slots() {
            self.norms.push(S::default());
            self.own.push(0.0);
            self.born.push(0);
            self.v.resize((slot + 1) * self.outputs, 0.0);
            if averaging {
                self.u.resize((slot + 1) * self.outputs, 0.0);
            }
            match &mut self.store {
                Store::Dense(rows) => rows.resize((slot + 1) * self.n_features, S::default()),
                Store::Sparse(rows) => rows.push(OwnedRow::EMPTY),
            }
        }
        self.put(slot, x, born);
        self.settle(slot);
        slot
    }

    /// Puts a vector in the place of one.
    pub fn put(&mut self, slot: usize, x: Row<'_, S>, born: u64) {
        match &mut self.store {
            Store::Dense(rows) => {
                let row = &mut rows[slot * self.n_features..(slot + 1) * self.n_features];
                row.fill(S::default());
                x.add_to(row);
            }
            Store::Sparse(rows) => rows[slot] = x.to_owned(),
        }
        self.measure(slot, x.norm2());
        self.born[slot] = born;
    }

    /// Takes in the squared norm of the vector in a slot.
    pub fn measure(&mut self, slot: usize, norm2: f64) {
        self.norms[slot] = S::from_f64(norm2);
        let norm2 = self.norms[slot].to_f64();
        self.own[slot] = self.kernel.own(norm2);
    }

    /// Writes `h x_m + (1 - h) x_n`.
    pub fn between(&self, m: usize, n: usize, h: f64, out: &mut Vec<S>) {
        let mix = |(x, z): (&S, &S)| S::from_f64(h * x.to_f64() + (1.0 - h) * z.to_f64());
        out.clear();
        match (self.row(m), self.row(n)) {
            (Row::Dense(x), Row::Dense(z)) => out.extend(x.iter().zip(z).map(mix)),
            (x, z) => out.extend(self.features_of(x).iter().zip(&self.features_of(z)).map(mix)),
        }
    }

    /// Brings up to date what follows from the coefficients in a slot.
    pub fn settle(&mut self, slot: usize) {
        let coef = &mut self.v[slot * self.outputs..(slot + 1) * self.outputs];
        balance(coef);
        let mut sum = 0.0;
        for (o, coef) in coef.iter().enumerate() {
            self.rounded[o * self.stride + slot] = S::from_f64(*coef);
            sum += *coef * *coef;
        }
        self.size[slot] = sum * self.own[slot].abs();
    }

    /// Brings up to date what follows from all coefficients.
    pub fn settle_all(&mut self) {
        (0..self.slots()).for_each(|slot| self.settle(slot));
        self.holes.iter().for_each(|&hole| self.size[hole] = f64::INFINITY);
    }

    /// Takes a vector out: its slot becomes a hole.
    pub fn clear(&mut self, slot: usize) {
        let span = slot * self.outputs..(slot + 1) * self.outputs;
        self.v[span.clone()].fill(0.0);
        if let Some(u) = self.u.get_mut(span) {
            u.fill(0.0);
        }
        self.settle(slot);
        self.size[slot] = f64::INFINITY;
        self.holes.push(slot);
    }

    /// The vector whose removal costs least, of several the oldest.
    pub fn smallest(&self) -> usize {
        // Coefficients that have faded by the same factors are equal up to their roundings.
        let limit = self.size[f64::least(&self.size)] * (1.0 + 1e-9);
        let slots = positions(&self.size[..self.slots()], |size| *size <= limit);
        slots.min_by_key(|&slot| self.born[slot]).unwrap_or(0)
    }

    /// A vector.
    pub fn row(&self, slot: usize) -> Row<'_, S> {
        let d = self.n_features;
        match &self.store {
            Store::Dense(rows) => Row::Dense(&rows[slot * d..(slot + 1) * d]),
            Store::Sparse(rows) => rows[slot].row(),
        }
    }

    /// All slots' vectors.
    fn matrix(&self) -> Result<Matrix<'_, S>, Error> {
        let (slots, d) = (self.slots(), self.n_features);
        match &self.store {
            Store::Dense(values) => Dense::new(&values[..slots * d], slots, d).map(Matrix::Dense),
            Store::Sparse(rows) => Ok(Matrix::Owned(rows, d)),
        }
    }

    /// Kernel values of all slots, a row of the block for each, with up to [`WIDTH`] vectors; of Gaussian
    /// kernels, squared distances too.
    pub fn kernel_block(
        &self,
        vectors: &Vectors<S>,
        k: &mut Vec<Lanes<S>>,
        distances: &mut Vec<Lanes<S>>,
    ) {
        let empty = Lanes([S::default(); WIDTH]);
        k.resize(self.slots(), empty);
        distances.resize(self.slots(), empty);
        let xx = lane_norms(vectors);
        // Of sparse vectors what they store counts: a product does not look at the other columns.
        let rows = (TASK / WIDTH / vectors.length().max(1)).max(1).next_multiple_of(4 * TILE);
        let mut tasks: Vec<_> = k.chunks_mut(rows).zip(distances.chunks_mut(rows)).collect();
        side_by_side(&mut tasks, |task, (k, distances)| {
            let slots = task * rows..task * rows + k.len();
            let numbers: Vec<usize> = slots.clone().collect();
            let out = Lanes::flatten_mut(k);
            if let Ok(x) = self.matrix() {
                vectors.products(&x, &numbers, 0..vectors.len(), out, WIDTH);
            }
            self.map(slots, &xx, k, distances);
        });
    }

    /// Makes of the products of these slots' vectors with those of squared norms `xx` kernel values; of Gaussian
    /// kernels, squared distances too.
    pub fn map(
        &self,
        slots: Range<usize>,
        xx: &[S; WIDTH],
        k: &mut [Lanes<S>],
        distances: &mut [Lanes<S>],
    ) {
        let norms = &self.norms[slots];
        if let Kernel::Rbf { gamma } = self.kernel {
            return S::gaussian(gamma, norms, xx, k, distances);
        }
        for (k, zz) in k.iter_mut().zip(norms) {
            self.kernel.map(&mut k.0, zz.to_f64(), xx);
        }
    }

    /// Scores over a, a row of the block for each output, by these kernel values.
    pub fn scores(&self, k: &[Lanes<S>], out: &mut Vec<Lanes<S>>) {
        out.clear();
        out.resize(self.outputs, Lanes([S::default(); WIDTH]));
        if k.is_empty() {
            return;
        }
        let rows: Vec<&[S]> = self.rounded.chunks(self.stride).collect();
        S::products(&rows, k, Lanes::flatten_mut(out), WIDTH);
    }
}
