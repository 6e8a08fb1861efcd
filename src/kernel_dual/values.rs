//! Kernel values of examples with other examples, and what they add to scores.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use super::Moved;
use super::grid::Grid;
use crate::data::Matrix;
use crate::error::Error;
use crate::examples::Examples;
use crate::kernel::Kernel;
use crate::memory::{self, Slab};
use crate::scalar::Scalar;
use crate::simd::{TALL, WIDTH};
use crate::threads::{self, side_by_side};
use crate::vectors::{CHUNK, GROUP, Layout, Vectors};

/// Vectors whose kernel values with some places are computed at a time.
const TOGETHER: usize = 2 * GROUP;

/// Kernel values of rows of so many features are worth keeping for a later round.
const MANY: usize = 32;

/// Rows are kept only where as many bytes are left for all else: whatever is small is taken unasked.
const BESIDE: usize = 1 << 27;

/// Products of this many numbers, or sums, are not worth a second thread.
const SMALL: usize = 1 << 20;

/// Columns that a thread adds rows to at a time.
const COLUMNS: usize = 2048;

/// Examples that [`Means`] are those of.
const SAMPLE: usize = 64;

/// Kernel values have much in common where that of an example with another is on average more than this part of that with
/// itself. In trials with constants of 0.2 to 1, letter and covtype15k, pairs of steps took 0.8 to 1.3 of the time of single
/// ones where the part is about 0.1, 0.9 to 1.1 at 0.25, 0.7 to 0.95 at 0.5.
pub const ALIKE: f64 = 0.25;

/// Rows of kernel values with all examples that have been computed, as many as there may be. Whoever computes one leaves it
/// for others, who may be at work at the same time: it does not matter whose it is, as all are the same.
#[derive(Debug)]
pub(super) struct Cached<S> {
    /// Of each place the slab that has its row, and where it begins.
    rows: Vec<OnceLock<(Arc<Slab<S>>, usize)>>,
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
        memory::check::<OnceLock<(Arc<Slab<S>>, usize)>>("the places of kernel values", &[places])?;
        let most = bytes / (places * size_of::<S>()).max(1);
        let rows = (0..places).map(|_| OnceLock::new()).collect();
        Ok(Cached { rows, left: AtomicUsize::new(most) })
    }

    /// Entries of a row: as many as there are places, and zeros.
    fn stride(&self) -> usize {
        self.rows.len().next_multiple_of(WIDTH)
    }

    /// The kernel values of this place with all, if they are there.
    pub fn row(&self, place: u32) -> Option<&[S]> {
        self.rows[place as usize].get().map(|(slab, start)| &slab[*start..*start + self.stride()])
    }

    /// How many of so many more rows there may be.
    pub fn room(&self, rows: usize) -> usize {
        let room = rows.min(self.left.load(Ordering::Relaxed));
        let bytes = room.saturating_mul(self.rows.len()).saturating_mul(size_of::<S>());
        let there = memory::check::<u8>("kernel values", &[bytes.saturating_add(BESIDE)]).is_ok();
        if there { room } else { 0 }
    }

    /// Whether there may be so many more, which then are to come.
    pub fn take(&self, rows: usize) -> bool {
        let take = |left: usize| left.checked_sub(rows);
        self.room(rows) == rows
            && self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    /// Takes in the rows of these places, which `fill` writes, given how long each is; unless there may not be so many more.
    pub fn compute(
        &self,
        places: &[u32],
        fill: impl FnOnce(&mut [S], usize),
    ) -> Result<bool, Error> {
        if !self.take(places.len()) {
            return Ok(false);
        }
        let mut slab = Slab::new("kernel values", &[places.len(), self.stride()])?;
        fill(&mut slab, self.stride());
        self.add(places, slab);
        Ok(true)
    }

    /// Takes in the rows of these places, one after the other, that may be there.
    pub fn add(&self, places: &[u32], slab: Slab<S>) {
        let slab = Arc::new(slab);
        for (k, &place) in places.iter().enumerate() {
            if self.rows[place as usize].set((slab.clone(), k * self.stride())).is_err() {
                self.left.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Kernel values of these rows with all of the vectors, and zeros, `stride` for each row.
pub(super) fn rows_of<S: Scalar>(
    kernel: Kernel,
    x: &Matrix<'_, S>,
    vectors: &Vectors<S>,
    rows: &[usize],
    out: &mut [S],
    stride: usize,
) {
    // Few products are not worth a second thread. Of more each has as many: vectors come from far away for every part.
    let few = GROUP * vectors.len() * x.n_features().min(CHUNK) < SMALL;
    let even = rows.len().div_ceil(threads::count()).max(1).next_multiple_of(TALL);
    let part = if few { GROUP } else { even };
    let mut parts: Vec<_> = rows.chunks(part).zip(out.chunks_mut(part * stride)).collect();
    side_by_side(&mut parts, |_, (rows, out)| {
        vectors.kernel_values(kernel, x, rows, 0..vectors.len(), out, stride);
        out.chunks_mut(stride).for_each(|row| row[vectors.len()..].fill(S::default()));
    });
}

/// Adds multiples of rows to what stands in their columns, some columns side by side.
pub(super) fn add_all<S: Scalar>(coefs: &[f64], rows: &[&[S]], out: &mut [f64]) {
    let few = coefs.len() * out.len() < SMALL;
    let part = if few { out.len().max(1) } else { COLUMNS };
    let mut parts: Vec<_> = out.chunks_mut(part).enumerate().collect();
    side_by_side(&mut parts, |_, (k, out)| {
        let columns = *k * part..*k * part + out.len();
        let rows: Vec<&[S]> = rows.iter().map(|row| &row[columns.clone()]).collect();
        S::add_rows(coefs, &rows, out);
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
    /// The numbers of those whose rows are not cached, in their order; where there is one output and their rows are not to be
    /// cached, these as vectors, and what has changed for each.
    missing: Vec<usize>,
    sums: Option<(Vectors<S>, Vec<f64>)>,
    /// The first rows of these, which will be, as far as they are computed: in slabs of [`TOGETHER`].
    slabs: Vec<Slab<S>>,
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
        // Others are computed as fast as they are read.
        let worth = kernel.kernel != Kernel::Precomputed && x.n_features() >= MANY;
        let mut caches = if worth { cached.room(missing.len()) } else { 0 };
        if caches < missing.len() {
            caches -= caches % TOGETHER;
        }
        let slabs = (0..caches).step_by(TOGETHER);
        let slabs = slabs.map(|first| {
            let size = [TOGETHER.min(caches - first), cached.stride()];
            Slab::new("kernel values", &size)
        });
        let slabs: Vec<Slab<S>> = slabs.collect::<Result<_, Error>>()?;
        let mut sums = None;
        if outputs == 1 && caches == 0 {
            let coefs = moved.iter().filter(|moved| !moved.known);
            let coefs = coefs.map(|moved| changes[moved.changes.start].1).collect();
            sums = Some((vectors_of(kernel, x, &missing)?, coefs));
        }
        Ok(Spread { moved, changes, missing, sums, slabs, next: 0 })
    }

    /// Goes on with so many chunks. Says whether there are more. The numbers are those of the rows at all places.
    pub fn advance(
        &mut self,
        (kernel, data, numbers): (Raised, &Examples<'_, S>, &[usize]),
        cached: &Cached<S>,
        scores: &mut Grid,
        chunks: usize,
    ) -> Result<bool, Error> {
        let (x, first, shape) = (data.rows(), self.next, scores.shape.clone());
        let caches: usize = self.slabs.iter().map(|slab| slab.len() / cached.stride()).sum();
        let parts = scores.chunks_mut(first).take(chunks);
        let mut tasks: Vec<_> = parts.map(|(chunk, scores)| (chunk, scores, Vec::new())).collect();
        // Of what is to be cached everybody has a part of every row.
        let mut slabs = std::mem::take(&mut self.slabs);
        for row in slabs.iter_mut().flat_map(|slab| slab.chunks_mut(cached.stride())) {
            let parts = row.chunks_mut(CHUNK).skip(first);
            tasks.iter_mut().zip(parts).for_each(|((.., rows), part)| rows.push(part));
        }
        let done = side_by_side(&mut tasks, |_, (chunk, scores, rows)| {
            let places = *chunk * CHUNK..numbers.len().min((*chunk + 1) * CHUNK);
            let (len, own) = (places.len(), &numbers[places.clone()]);
            // Rows of those that have moved, with those of the chunk as vectors: [`TOGETHER`] at a time, as they are needed.
            let stride = len.next_multiple_of(WIDTH);
            let (mut others, mut values, mut missing) = (None, Vec::new(), 0);
            match &self.sums {
                Some((vectors, coefs)) => add_sums(kernel, x, own, vectors, coefs, scores),
                None if self.missing.is_empty() => {}
                None => others = Some(vectors_of(kernel, x, own)?),
            }
            for moved in &self.moved {
                let row = match (cached.row(moved.place).filter(|_| moved.known), &others) {
                    (Some(row), _) => &row[places.clone()],
                    (None, None) => continue,
                    (None, Some(others)) => {
                        let at = missing % TOGETHER;
                        if at == 0 {
                            let some = missing..self.missing.len().min(missing + TOGETHER);
                            values.resize(TOGETHER * stride, S::default());
                            let numbers = &self.missing[some.clone()];
                            others.kernel_values(
                                kernel.kernel,
                                x,
                                numbers,
                                0..len,
                                &mut values,
                                stride,
                            );
                            // All of these are to be cached, or none.
                            let kept = rows.get_mut(some).unwrap_or_default();
                            for (kept, row) in kept.iter_mut().zip(values.chunks(stride)) {
                                kept[..len].copy_from_slice(&row[..len]);
                            }
                        }
                        missing += 1;
                        &values[at * stride..][..len]
                    }
                };
                for &(o, change) in &self.changes[moved.changes.clone()] {
                    if let Some(column) = shape.column(*chunk, o as usize) {
                        S::axpy(change, row, &mut scores[column * CHUNK..][..len]);
                    }
                }
            }
            match scores.iter().position(|score| !score.is_finite()) {
                Some(at) => Err(data.diagnose(own[at % CHUNK])),
                None => Ok(()),
            }
        });
        self.slabs = slabs;
        self.next += done.len();
        done.into_iter().collect::<Result<(), Error>>()?;
        if self.next * CHUNK < numbers.len() {
            return Ok(true);
        }
        if cached.take(caches) {
            let missing = self.moved.iter().filter(|moved| !moved.known);
            let places: Vec<u32> = missing.map(|moved| moved.place).collect();
            let slabs = std::mem::take(&mut self.slabs);
            places.chunks(TOGETHER).zip(slabs).for_each(|(places, slab)| cached.add(places, slab));
        }
        Ok(false)
    }
}

/// Adds to scores of one output, of these rows, what vectors do: a product for each of them.
fn add_sums<S: Scalar>(
    Raised { kernel, .. }: Raised,
    x: &Matrix<'_, S>,
    numbers: &[usize],
    vectors: &Vectors<S>,
    coefs: &[f64],
    scores: &mut [f64],
) {
    let mut values = vec![S::default(); GROUP * CHUNK];
    for (numbers, scores) in numbers.chunks(GROUP).zip(scores.chunks_mut(GROUP)) {
        for (chunk, coefs) in coefs.chunks(CHUNK).enumerate() {
            let slots = chunk * CHUNK..chunk * CHUNK + coefs.len();
            vectors.kernel_values(kernel, x, numbers, slots, &mut values, CHUNK);
            for (score, values) in scores.iter_mut().zip(values.chunks(CHUNK)) {
                *score += S::dot(&values[..coefs.len()], coefs);
            }
        }
    }
}
