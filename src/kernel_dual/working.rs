//! Working sets: the kernel values among them, and the search for better dual variables.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::KernelAscent;
use super::blocks::Blocks;
use super::descent::Descent;
use super::values::{Cached, Raised, rows_of, vectors_of};
use crate::data::Matrix;
use crate::error::Error;
use crate::examples::Examples;
use crate::loss::Loss;
use crate::memory;
use crate::scalar::Scalar;
use crate::simd::WIDTH;
use crate::vectors::Vectors;

/// The part of their share in the gap down to which a round brings the working set.
const INNER: f64 = 0.05;

/// A round brings it down to this at least, even if less would do for the tolerance: where the gap is spread over
/// many more examples than the set has, none of its parts may look like much.
const OUTER: f64 = 0.2;

/// Kernel values that a search has for itself for each example, where the others are cached, at a guess.
const NEAR: usize = 256;

const NOWHERE: u32 = u32::MAX;
const CACHED: u32 = u32::MAX - 1;

/// What a coefficient in w has gained.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gain {
    pub place: u32,
    pub output: u32,
    pub change: f64,
}

/// What ascent among a working set has found: new dual variables, by where they stand, and what coefficients gain; or, of a
/// whole problem, the new scores.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub dual: Vec<(usize, f64)>,
    pub gains: Vec<Gain>,
    pub scores: Vec<(usize, f64)>,
}

/// A working set at work.
#[derive(Clone, Debug)]
pub(super) struct Job<S> {
    pub problem: usize,
    /// Whether these are all examples that the problem has.
    pub whole: bool,
    /// The tolerance, and n times the dual value of the problem where the round begins.
    pub tol: f64,
    pub dual: f64,
    pub among: Among<S>,
    search: Search<S>,
}

#[derive(Clone, Debug)]
enum Search<S> {
    New,
    One(Box<Descent<S>>),
    Block(Box<Blocks<S>>),
}

impl<S: Scalar> Job<S> {
    pub fn new(problem: usize, whole: bool, tol: f64, dual: f64, among: Among<S>) -> Self {
        Job { problem, whole, tol, dual, among, search: Search::New }
    }

    /// Down to where the gap of a part, which began at `first`, is to come, n times; the dual value being what it is now.
    pub fn target(&self, gap: f64, first: f64, dual: f64) -> f64 {
        // No better than will do: a fifth of what all examples together may have left.
        (0.4 * self.tol * (dual + gap)).max(INNER * first).min(OUTER * first)
    }
}

/// Kernel values among some examples, row by row as they are needed.
#[derive(Clone, Debug)]
pub(super) struct Among<S> {
    /// Places, in ascending order, and the numbers of the rows that stand there.
    pub set: Vec<u32>,
    numbers: Vec<usize>,
    /// Whether all places are in the set, so that what is cached can be had as it is.
    all: bool,
    /// The rows there, once they are needed.
    vectors: Option<Arc<Vectors<S>>>,
    /// Where the row of each stands.
    slots: Vec<u32>,
    values: Vec<S>,
    pub stride: usize,
}

/// Room for kernel values that others have done with: memory that is new costs as much as the values in it.
#[derive(Debug)]
pub(super) struct Room<S>(Mutex<Vec<Vec<S>>>);

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
    fn rooms(&self) -> MutexGuard<'_, Vec<Vec<S>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn take(&self) -> Vec<S> {
        self.rooms().pop().unwrap_or_default()
    }

    pub fn give(&self, mut room: Vec<S>) {
        room.clear();
        self.rooms().push(room);
    }

    /// Nobody needs any for now.
    pub fn clear(&self) {
        self.rooms().clear();
    }
}

impl<S: Scalar> Among<S> {
    /// The numbers are those of the rows at all places; `all` the rows there as vectors, where it is known what they are.
    pub fn new(set: Vec<u32>, numbers: &[usize], all: Option<Arc<Vectors<S>>>) -> Self {
        let all_places = set.len() == numbers.len();
        let (slots, numbers) =
            (vec![NOWHERE; set.len()], set.iter().map(|&place| numbers[place as usize]).collect());
        let stride = set.len().next_multiple_of(WIDTH);
        let vectors = all.filter(|_| all_places);
        Among { set, numbers, all: all_places, vectors, slots, values: Vec::new(), stride }
    }

    pub fn len(&self) -> usize {
        self.set.len()
    }

    /// Which row of the data the k-th is.
    pub fn number(&self, k: usize) -> usize {
        self.numbers[k]
    }

    /// About how many kernel values there may be, of which nobody else knows.
    pub fn most(&self) -> usize {
        self.stride * if self.all { NEAR.min(self.len()) } else { self.len() }
    }

    pub fn has(&self, k: usize) -> bool {
        self.slots[k] != NOWHERE
    }

    /// The row of the k-th, which must be there; zeros up to a multiple of [`WIDTH`] follow.
    pub fn row<'a>(&'a self, cached: &'a Cached<S>, k: usize) -> &'a [S] {
        match self.slots[k] {
            CACHED => cached.row(self.set[k]).unwrap_or(&[]),
            slot => &self.values[slot as usize * self.stride..][..self.stride],
        }
    }

    /// Makes sure of the rows of some; returns how many were computed.
    pub fn fetch(
        &mut self,
        kernel: Raised,
        x: &Matrix<'_, S>,
        cached: &Cached<S>,
        wanted: impl Iterator<Item = usize>,
    ) -> Result<usize, Error> {
        let mut missing = Vec::new();
        for k in wanted {
            if self.has(k) {
                continue;
            }
            match cached.row(self.set[k]) {
                Some(_) if self.all => self.slots[k] = CACHED,
                Some(row) => {
                    let values = self.set.iter().map(|&place| row[place as usize]);
                    append(&mut self.slots[k], &mut self.values, self.stride, values)?;
                }
                None => missing.push(k),
            }
        }
        if missing.is_empty() {
            return Ok(0);
        }
        let vectors = match &self.vectors {
            Some(vectors) => vectors,
            None => self.vectors.insert(Arc::new(vectors_of(kernel, x, &self.numbers)?)),
        };
        let rows: Vec<usize> = missing.iter().map(|&k| self.numbers[k]).collect();
        let cache = self.all && cached.room(missing.len()) == missing.len();
        let first = self.values.len();
        let len = first + missing.len() * self.stride;
        memory::reserve("kernel values", &mut self.values, len)?;
        self.values.resize(len, S::default());
        rows_of(kernel.kernel, x, vectors, &rows, &mut self.values[first..], self.stride);
        let rows = self.values[first..].chunks(self.stride);
        let cached = rows.zip(&missing).all(|(row, &k)| cache && cached.add(self.set[k], row));
        for (at, &k) in missing.iter().enumerate() {
            self.slots[k] = if cached { CACHED } else { (first / self.stride + at) as u32 };
        }
        if cached {
            self.values.truncate(first);
        }
        Ok(missing.len())
    }
}

/// Puts a row at the end of these, and says where.
fn append<S: Scalar>(
    slot: &mut u32,
    rows: &mut Vec<S>,
    stride: usize,
    row: impl Iterator<Item = S>,
) -> Result<(), Error> {
    let (count, len) = (rows.len() / stride, rows.len() + stride);
    memory::reserve("kernel values", rows, len)?;
    rows.extend(row);
    rows.resize(len, S::default());
    *slot = count as u32;
    Ok(())
}

impl<S: Scalar, L: Loss> KernelAscent<S, L> {
    /// Goes on with a search, for about so many rows' worth of work: what it has found once it is over.
    pub(super) fn search(
        &self,
        data: &Examples<'_, S>,
        job: &mut Job<S>,
        size: usize,
    ) -> Result<Option<Found>, Error> {
        let search = std::mem::replace(&mut job.search, Search::New);
        let apart = self.loss.hinge_sign(job.problem, self.labels[0]).is_some();
        match search {
            Search::New if apart => {
                job.among.values = self.room.take();
                job.search = Search::One(Box::new(self.begin_descent(data, job)));
            }
            Search::New => job.search = Search::Block(Box::new(self.begin_blocks(data, job))),
            Search::One(mut descent) => {
                if self.descend(data, job, &mut descent, size)? {
                    let found = self.after_descent(job, &descent);
                    descent.give_back(&self.room);
                    self.room.give(std::mem::take(&mut job.among.values));
                    return Ok(Some(found));
                }
                job.search = Search::One(descent);
            }
            Search::Block(mut blocks) => {
                if self.ascend(data, job, &mut blocks, size)? {
                    return Ok(Some(self.after_blocks(data, job, &blocks)));
                }
                job.search = Search::Block(blocks);
            }
        }
        Ok(None)
    }

    pub(super) fn weights(&self, data: &Examples<'_, S>, set: &[u32]) -> Vec<f64> {
        set.iter().map(|&place| data.weight(self.numbers[place as usize])).collect()
    }
}
