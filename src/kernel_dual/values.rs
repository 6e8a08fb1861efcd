//! Kernel values of examples with other examples, and what they add to scores.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Moved;
use crate::data::Matrix;
use crate::error::Error;
use crate::kernel::Kernel;
use crate::memory;
use crate::scalar::Scalar;
use crate::simd::{TILE, WIDTH};
use crate::threads::side_by_side;
use crate::vectors::{CHUNK, GROUP, Layout, Vectors};

/// Vectors whose kernel values with some places are computed at a time.
const TOGETHER: usize = WIDTH;

/// Kernel values of rows of so many features are worth keeping for a later round.
const MANY: usize = 32;

/// Rows are kept only where as many bytes are left for all else: whatever is small is taken unasked.
const BESIDE: usize = 1 << 27;

/// Products of this many numbers are not worth a second thread.
const SMALL: usize = 1 << 20;

/// Examples that [`Means`] are those of.
const SAMPLE: usize = 64;

/// Kernel values have much in common where that of an example with another is on average more than this part of that with
/// itself. In trials with constants of 0.2 to 1, letter and covtype15k, pairs of steps took 0.8 to 1.3 of the time of single
/// ones where the part is about 0.1, 0.9 to 1.1 at 0.25, 0.7 to 0.95 at 0.5.
pub const ALIKE: f64 = 0.25;

/// A number for every place and output: [`CHUNK`] places of an output stand side by side, then come those of the next
/// output; so all that belongs to some places can be had as one slice.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    pub outputs: usize,
    pub values: Vec<f64>,
}

impl Grid {
    pub fn new(what: &'static str, places: usize, outputs: usize) -> Result<Self, Error> {
        let values = memory::zeros(what, &[places.div_ceil(CHUNK), outputs, CHUNK])?;
        Ok(Grid { outputs, values })
    }

    pub fn at(&self, o: usize, place: usize) -> usize {
        (place / CHUNK * self.outputs + o) * CHUNK + place % CHUNK
    }

    pub fn get(&self, o: usize, place: usize) -> f64 {
        self.values[self.at(o, place)]
    }

    /// Writes what all outputs have at a place.
    pub fn read(&self, place: usize, out: &mut [f64]) {
        out.iter_mut().enumerate().for_each(|(o, out)| *out = self.get(o, place));
    }
}

/// Rows of kernel values with all examples that have been computed, as many as there may be. Whoever computes one leaves it
/// for others, who may be at work at the same time: it does not matter whose it is, as all are the same.
#[derive(Debug)]
pub(super) struct Cached<S> {
    rows: Vec<OnceLock<Box<[S]>>>,
    /// How many more there may be.
    left: AtomicUsize,
}

/// A copy caches none: it would cost as much memory again.
impl<S> Clone for Cached<S> {
    fn clone(&self) -> Self {
        let rows = (0..self.rows.len()).map(|_| OnceLock::new()).collect();
        Cached { rows, left: AtomicUsize::new(0) }
    }
}

impl<S: Scalar> Cached<S> {
    /// Of so many places, in so many bytes at most.
    pub fn new(places: usize, bytes: usize) -> Result<Self, Error> {
        memory::check::<OnceLock<Box<[S]>>>("the places of kernel values", &[places])?;
        let most = bytes / (places * size_of::<S>()).max(1);
        let rows = (0..places).map(|_| OnceLock::new()).collect();
        Ok(Cached { rows, left: AtomicUsize::new(most) })
    }

    /// The kernel values of this place with all, if they are there.
    pub fn row(&self, place: u32) -> Option<&[S]> {
        self.rows[place as usize].get().map(|row| &row[..])
    }

    /// How many of so many more rows there may be.
    pub fn room(&self, rows: usize) -> usize {
        let room = rows.min(self.left.load(Ordering::Relaxed));
        let bytes = room.saturating_mul(self.rows.len()).saturating_mul(size_of::<S>());
        let there = memory::check::<u8>("kernel values", &[bytes.saturating_add(BESIDE)]).is_ok();
        if there { room } else { 0 }
    }

    /// Takes in a row, if there is room; says whether it is there now.
    pub fn add(&self, place: u32, row: &[S]) -> bool {
        let cell = &self.rows[place as usize];
        let take = |left: usize| left.checked_sub(1);
        if cell.get().is_none()
            && self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
            && cell.set(row.into()).is_err()
        {
            self.left.fetch_add(1, Ordering::Relaxed);
        }
        cell.get().is_some()
    }
}

/// Kernel values of vectors with examples, whose rows have these numbers: as many for each vector of these slots as there
/// are examples.
pub(super) fn block<S: Scalar>(
    kernel: Kernel,
    x: &Matrix<'_, S>,
    vectors: &Vectors<S>,
    slots: Range<usize>,
    numbers: &[usize],
) -> Vec<S> {
    let (width, len) = (slots.len(), numbers.len());
    let stride = width.next_multiple_of(WIDTH);
    let mut by_example = vec![S::default(); GROUP * stride];
    let mut values = vec![S::default(); width * len];
    for (group, numbers) in numbers.chunks(GROUP).enumerate() {
        vectors.kernel_values(kernel, x, numbers, slots.clone(), &mut by_example, stride);
        for (k, out) in values.chunks_mut(len).enumerate() {
            let out = &mut out[group * GROUP..][..numbers.len()];
            for (out, by_example) in out.iter_mut().zip(by_example.chunks(stride)) {
                *out = by_example[k];
            }
        }
    }
    values
}

/// Kernel values of these rows with all of the vectors, `stride` for each row.
pub(super) fn rows_of<S: Scalar>(
    kernel: Kernel,
    x: &Matrix<'_, S>,
    vectors: &Vectors<S>,
    rows: &[usize],
    out: &mut [S],
    stride: usize,
) {
    // Few products are not worth a second thread.
    let few = GROUP * vectors.len() * x.n_features().min(CHUNK) < SMALL;
    let part = if few { GROUP } else { TILE };
    let mut parts: Vec<_> = rows.chunks(part).zip(out.chunks_mut(part * stride)).collect();
    side_by_side(&mut parts, |_, (rows, out)| {
        vectors.kernel_values(kernel, x, rows, 0..vectors.len(), out, stride);
    });
}

/// A kernel, and what is added to all its values where there is an intercept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raised {
    pub kernel: Kernel,
    pub by: f64,
}

/// What kernel values of examples with others are on average, and those with themselves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Means {
    others: f64,
    own: f64,
}

impl Means {
    /// By a sample of the examples whose rows have these numbers.
    pub fn of<S: Scalar>(
        kernel: Kernel,
        x: &Matrix<'_, S>,
        numbers: &[usize],
    ) -> Result<Self, Error> {
        let some = numbers.iter().step_by(numbers.len().div_ceil(SAMPLE).max(1));
        let some: Vec<usize> = some.copied().collect();
        let (len, stride) = (some.len(), some.len().next_multiple_of(WIDTH));
        let vectors = vectors_of(Raised { kernel, by: 0.0 }, x, &some)?;
        let mut values = vec![S::default(); len * stride];
        rows_of(kernel, x, &vectors, &some, &mut values, stride);
        let (mut others, mut own) = (0.0, 0.0);
        for (k, row) in values.chunks(stride.max(1)).enumerate() {
            own += row[k].to_f64();
            others += row[..len].iter().map(|value| value.to_f64()).sum::<f64>() - row[k].to_f64();
        }
        let len = len.max(1) as f64;
        Ok(Means { others: others / (len * (len - 1.0).max(1.0)), own: own / len })
    }

    /// Whether kernel values have much in common, raised by so much.
    pub fn alike(self, by: f64) -> bool {
        self.others + by > ALIKE * (self.own + by)
    }
}

/// The rows with these numbers as vectors.
pub(super) fn vectors_of<S: Scalar>(
    Raised { kernel, by }: Raised,
    x: &Matrix<'_, S>,
    numbers: &[usize],
) -> Result<Vectors<S>, Error> {
    let mut vectors = Vectors::new(x.n_features(), Layout::of(kernel, x)).raised(by);
    vectors.reserve(numbers.len())?;
    numbers.iter().for_each(|&i| vectors.push(i, x.row(i)));
    Ok(vectors)
}

/// All scores learn of what has moved, some places at a time.
#[derive(Clone, Debug)]
pub(super) struct Spread<S> {
    moved: Vec<Moved>,
    /// Output and change in w, example after example.
    changes: Vec<(u32, f64)>,
    /// Those whose rows are not cached, in their order; where there is one output and their rows are not to be cached, what
    /// has changed for each.
    vectors: Vectors<S>,
    coefs: Vec<f64>,
    /// The first rows of these, which will be, as far as they are computed.
    rows: Vec<Vec<S>>,
    /// The next chunk of places.
    next: usize,
}

impl<S: Scalar> Spread<S> {
    /// The numbers are those of the rows of x at all places.
    pub fn new(
        (kernel, x, numbers): (Raised, &Matrix<'_, S>, &[usize]),
        cached: &Cached<S>,
        outputs: usize,
        mut moved: Vec<Moved>,
        changes: Vec<(u32, f64)>,
    ) -> Result<Self, Error> {
        memory::check::<(u32, f64)>("changes of the scores", &[changes.len()])?;
        moved.iter_mut().for_each(|moved| moved.known = cached.row(moved.place).is_some());
        let missing = moved.iter().filter(|moved| !moved.known);
        let missing: Vec<usize> = missing.map(|moved| numbers[moved.place as usize]).collect();
        let vectors = vectors_of(kernel, x, &missing)?;
        // Others are computed as fast as they are read.
        let worth = kernel.kernel != Kernel::Precomputed && x.n_features() >= MANY;
        let room = if worth { cached.room(vectors.len()) } else { 0 };
        let rows = (0..room).map(|_| Vec::with_capacity(numbers.len().next_multiple_of(WIDTH)));
        let rows: Vec<Vec<S>> = rows.collect();
        let mut coefs = Vec::new();
        if outputs == 1 && rows.is_empty() {
            let missing = moved.iter().filter(|moved| !moved.known);
            coefs.extend(missing.map(|moved| changes[moved.changes.start].1));
        }
        Ok(Spread { moved, changes, vectors, coefs, rows, next: 0 })
    }

    /// Adds to scores of one output, of these rows, what the vectors do: a product for each, which need not be transposed.
    fn add_sums(&self, kernel: Kernel, x: &Matrix<'_, S>, numbers: &[usize], scores: &mut [f64]) {
        let mut values = vec![S::default(); GROUP * CHUNK];
        for (numbers, scores) in numbers.chunks(GROUP).zip(scores.chunks_mut(GROUP)) {
            for (chunk, coefs) in self.coefs.chunks(CHUNK).enumerate() {
                let slots = chunk * CHUNK..chunk * CHUNK + coefs.len();
                self.vectors.kernel_values(kernel, x, numbers, slots, &mut values, CHUNK);
                for (score, values) in scores.iter_mut().zip(values.chunks(CHUNK)) {
                    *score += S::dot(&values[..coefs.len()], coefs);
                }
            }
        }
    }

    /// Goes on with so many chunks; `concerns(o, chunk)` is whether a chunk has any scores of an output. Says whether there
    /// are more; a place whose scores are not finite, if there is one, is an error.
    pub fn advance(
        &mut self,
        (kernel, x, numbers): (Kernel, &Matrix<'_, S>, &[usize]),
        cached: &Cached<S>,
        scores: &mut Grid,
        chunks: usize,
        concerns: &(dyn Fn(usize, usize) -> bool + Sync),
    ) -> Result<bool, usize> {
        let (outputs, first, caches) = (scores.outputs, self.next, self.rows.len());
        let parts = scores.values.chunks_mut(outputs * CHUNK).enumerate();
        let mut tasks: Vec<_> = parts.skip(first).take(chunks).collect();
        let done = side_by_side(&mut tasks, |_, (chunk, scores)| {
            let places = *chunk * CHUNK..numbers.len().min((*chunk + 1) * CHUNK);
            let len = places.len();
            let concerned: Vec<bool> = (0..outputs).map(|o| concerns(o, *chunk)).collect();
            let (mut computed, mut to_cache) = (Vec::new(), Vec::new());
            let mut missing = 0;
            if !self.coefs.is_empty() {
                self.add_sums(kernel, x, &numbers[places.clone()], scores);
            }
            for moved in &self.moved {
                if !moved.known && !self.coefs.is_empty() {
                    continue;
                }
                let values = match cached.row(moved.place).filter(|_| moved.known) {
                    Some(row) => &row[places.clone()],
                    None => {
                        if missing % TOGETHER == 0 {
                            let slots = missing..self.vectors.len().min(missing + TOGETHER);
                            let own = &numbers[places.clone()];
                            computed = block(kernel, x, &self.vectors, slots, own);
                            let rows = caches.saturating_sub(missing) * len;
                            to_cache.extend_from_slice(&computed[..rows.min(computed.len())]);
                        }
                        missing += 1;
                        &computed[(missing - 1) % TOGETHER * len..][..len]
                    }
                };
                for &(o, change) in &self.changes[moved.changes.clone()] {
                    let o = o as usize;
                    if concerned[o] {
                        S::axpy(change, values, &mut scores[o * CHUNK..][..len]);
                    }
                }
            }
            let bad = scores.iter().position(|score| !score.is_finite());
            (to_cache, len, bad.map(|at| places.start + at % CHUNK))
        });
        self.next += done.len();
        for (to_cache, len, bad) in done {
            if let Some(place) = bad {
                return Err(place);
            }
            for (row, part) in self.rows.iter_mut().zip(to_cache.chunks(len)) {
                row.extend_from_slice(part);
            }
        }
        if self.next * CHUNK < numbers.len() {
            return Ok(true);
        }
        let missing = self.moved.iter().filter(|moved| !moved.known);
        for (moved, mut row) in missing.zip(std::mem::take(&mut self.rows)) {
            row.resize(numbers.len().next_multiple_of(WIDTH), S::default());
            cached.add(moved.place, &row);
        }
        Ok(false)
    }
}
