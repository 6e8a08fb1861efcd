//! Working sets: the kernel values among them, and the search for better dual variables.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::KernelAscent;
use super::blocks::Blocks;
use super::descent::Descent;
use super::held_out::HeldOut;
use super::near::Near;
use super::rows::{Room, Rows};
use super::values::{Cached, Raised, rows_of, vectors_of};
use crate::data::Matrix;
use crate::error::Error;
use crate::examples::Examples;
use crate::loss::Loss;
use crate::scalar::Scalar;
use crate::simd::WIDTH;
use crate::threads::{self, side_by_side};
use crate::vectors::Vectors;

/// The part of their share in the gap down to which a round brings the working set.
const INNER: f64 = 0.05;

/// A round brings it down to this at least, even if less would do for the tolerance: where the gap is spread over
/// many more examples than the set has, none of its parts may look like much.
const OUTER: f64 = 0.2;

/// Kernel values that a search has for itself for each example, where the others are cached, at a guess.
const NEAR: usize = 256;

/// Pieces of what a thread is to do, between which it looks whether another is done; and the least of them, as a piece costs
/// about as much as some steps.
const PIECES: usize = 8;
const FEW: usize = 64;

/// Products of kernel values that whoever wants to stop waits for: a tenth of a second or two.
const MOMENT: usize = 1 << 30;

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
    /// What examples would score if their fold had not taken part.
    pub held_out: Vec<(usize, f64)>,
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
    /// Whether others are at work on the same rows, so that what this one lacks is best computed with what they lack; and whose
    /// rows it waits for.
    pub in_step: bool,
    pub wanted: Vec<usize>,
    /// How much room it has needed for rows of its own, or may need.
    needs: usize,
    /// The fold that takes no part, if one is held out.
    pub without: Option<u32>,
    search: Search<S>,
    /// Once the search is over.
    pub found: Option<Found>,
}

#[derive(Clone, Debug)]
enum Search<S> {
    New,
    One(Box<Descent<S>>),
    HeldOut(Box<HeldOut<S>>),
    Block(Box<Blocks<S>>),
}

impl<S: Scalar> Job<S> {
    pub fn new(problem: usize, whole: bool, tol: f64, dual: f64, among: Among<S>) -> Self {
        let (in_step, wanted, needs, without) = (false, Vec::new(), 0, None);
        let (search, found) = (Search::New, None);
        Job { problem, whole, tol, dual, among, in_step, wanted, needs, without, search, found }
    }

    /// What the search has of others' rows for itself, if it has any.
    fn near(&mut self) -> Option<&mut Near<S>> {
        match &mut self.search {
            Search::One(descent) => Some(&mut descent.near),
            Search::HeldOut(held) => Some(&mut held.descent.near),
            Search::New | Search::Block(_) => None,
        }
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
    rows: Rows<S>,
    pub stride: usize,
}

impl<S: Scalar> Among<S> {
    /// The numbers are those of the rows at all places; `all` the rows there as vectors, where it is known what they are.
    pub fn new(set: Vec<u32>, numbers: &[usize], all: Option<Arc<Vectors<S>>>) -> Self {
        let all_places = set.len() == numbers.len();
        let (slots, numbers) =
            (vec![NOWHERE; set.len()], set.iter().map(|&place| numbers[place as usize]).collect());
        let stride = set.len().next_multiple_of(WIDTH);
        let vectors = all.filter(|_| all_places);
        let mut rows = Rows::default();
        rows.clear(stride, set.len());
        Among { set, numbers, all: all_places, vectors, slots, rows, stride }
    }

    pub fn len(&self) -> usize {
        self.set.len()
    }

    /// Uses what others have done with, before there is any row.
    fn use_room(&mut self, room: &Room<S>) {
        self.rows = room.take();
        self.rows.clear(self.stride, self.set.len());
    }

    /// Leaves its room to others.
    fn give_back(&mut self, room: &Room<S>) {
        room.give(std::mem::take(&mut self.rows));
    }

    /// Whether the set is all places.
    pub fn is_all(&self) -> bool {
        self.all
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
            slot => self.rows.row(slot),
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
                Some(row) => self.slots[k] = self.rows.pick(row, &self.set)?,
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
        let mut compute = |some: Range<usize>, out: &mut [S]| {
            rows_of(kernel.kernel, x, vectors, &rows[some], out, self.stride);
        };
        let places: Vec<u32> = missing.iter().map(|&k| self.set[k]).collect();
        if self.all && cached.compute(&places, |out, _| compute(0..places.len(), out))? {
            missing.iter().for_each(|&k| self.slots[k] = CACHED);
        } else {
            let first = self.rows.add(missing.len(), &mut compute)?;
            (first..).zip(&missing).for_each(|(slot, &k)| self.slots[k] = slot);
        }
        Ok(missing.len())
    }
}

/// Problems that nobody is at work at, in their order; how many kernel values there may be side by side, and of those at
/// work are at most.
struct Waiting<'a, S> {
    jobs: VecDeque<&'a mut Job<S>>,
    room: usize,
    used: usize,
}

impl<'a, S: Scalar> Waiting<'a, S> {
    /// The next one, if there is room for it; one that is larger than that is alone.
    fn take(&mut self) -> Option<&'a mut Job<S>> {
        let size = self.jobs.front()?.among.most();
        if self.used > 0 && size > self.room.saturating_sub(self.used) {
            return None;
        }
        self.used += size;
        self.jobs.pop_front()
    }
}

impl<S: Scalar, L: Loss> KernelAscent<S, L> {
    /// Goes on with searches, for about so many rows' worth of work of one thread. Each thread takes up the next when it is
    /// done with one, whose room is still near then; all stop where the first has done its part.
    pub(super) fn search_side_by_side(
        &self,
        data: &Examples<'_, S>,
        jobs: &mut [Job<S>],
        rows: usize,
    ) -> Result<(), Error> {
        let piece = rows.div_ceil(PIECES).max(rows.min(FEW)).max(1);
        if jobs.iter().all(|job| job.in_step) {
            return self.search_in_step(data, jobs, rows, piece);
        }
        // Nothing else is kept where all problems are whole, and nobody's rows are those of all.
        let alone = jobs.iter().all(|job| job.whole && !job.among.all);
        let room = if alone { 2 * self.together } else { self.together };
        let jobs: VecDeque<_> = jobs.iter_mut().filter(|job| job.found.is_none()).collect();
        let mut threads = vec![(); threads::count().min(jobs.len())];
        let waiting = Mutex::new(Waiting { jobs, room, used: 0 });
        let waiting = || waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let over = AtomicBool::new(false);
        let done = side_by_side(&mut threads, |_, ()| {
            let (mut own, mut done) = (None, 0_usize);
            while !over.load(Ordering::Relaxed) {
                let Some(job) = own.take().or_else(|| waiting().take()) else {
                    break;
                };
                // Else all problems would be looked through for every few small ones.
                let work = piece.min(job.among.len().max(1));
                let result = self.search(data, job, piece);
                done = done.saturating_add(work);
                if done >= rows || result.is_err() {
                    over.store(true, Ordering::Relaxed);
                }
                job.found = result?;
                if job.found.is_none() {
                    own = Some(job);
                } else {
                    waiting().used -= job.among.most();
                    job.among = Among::new(Vec::new(), &[], None);
                }
            }
            Ok(())
        });
        done.into_iter().collect()
    }

    /// Goes on with searches over all examples, for about so many rows' worth of work of one thread: as many as there is room
    /// for go on until each lacks rows, or has done a piece; then what they lack is computed at once. All vectors come from far
    /// away for every call, however few rows it is about. Where the first ones need more room than was thought, the last ones
    /// let go of theirs, and wait.
    fn search_in_step(
        &self,
        data: &Examples<'_, S>,
        jobs: &mut [Job<S>],
        rows: usize,
        piece: usize,
    ) -> Result<(), Error> {
        let mut done = 0_usize;
        while done < rows {
            let (mut room, mut full) = (self.together, false);
            let mut open: Vec<&mut Job<S>> = Vec::new();
            for job in jobs.iter_mut().filter(|job| job.found.is_none()) {
                let near = job.near().map_or(0, |near| near.size());
                // Who has let go will need as much again.
                job.needs = job.needs.max(near).max(job.among.most());
                full |= !open.is_empty() && job.needs > room;
                room = room.saturating_sub(job.needs);
                if !full {
                    open.push(job);
                } else if near > 0 {
                    job.near().into_iter().for_each(Near::let_go);
                }
            }
            if open.is_empty() {
                break;
            }
            let parts = side_by_side(&mut open, |_, job| {
                job.found = self.search(data, job, piece)?;
                if job.found.is_some() {
                    job.among = Among::new(Vec::new(), &[], None);
                }
                Ok(())
            });
            parts.into_iter().collect::<Result<(), Error>>()?;
            let wanted = open.iter().flat_map(|job| job.wanted.iter().map(|&k| job.among.set[k]));
            let mut wanted: Vec<u32> =
                wanted.filter(|&place| self.cached.row(place).is_none()).collect();
            wanted.sort_unstable();
            wanted.dedup();
            let numbers: Vec<usize> =
                wanted.iter().map(|&place| self.numbers[place as usize]).collect();
            // Where there is no room for so many, each computes its own.
            if let Some(vectors) = &self.all {
                self.cached.compute(&wanted, |out, stride| {
                    rows_of(self.kernel.kernel, data.rows(), vectors, &numbers, out, stride);
                })?;
            }
            done = done.saturating_add(piece).saturating_add(wanted.len());
        }
        Ok(())
    }

    /// Goes on with a search, for about so many rows' worth of work: what it has found once it is over.
    pub(super) fn search(
        &self,
        data: &Examples<'_, S>,
        job: &mut Job<S>,
        size: usize,
    ) -> Result<Option<Found>, Error> {
        let search = std::mem::replace(&mut job.search, Search::New);
        match search {
            Search::New if self.is_apart(job.problem) => {
                job.among.use_room(&self.room);
                job.search = Search::One(Box::new(self.begin_descent(data, job)));
            }
            Search::New => job.search = Search::Block(Box::new(self.begin_blocks(data, job))),
            Search::One(mut descent) => {
                if !self.descend(data, job, &mut descent, size)? {
                    job.search = Search::One(descent);
                    return Ok(None);
                }
                let found = self.after_descent(job, &descent);
                if !self.holds_out(job, &descent) {
                    return Ok(Some(self.over(job, *descent, found)));
                }
                job.search = Search::HeldOut(Box::new(HeldOut::new(*descent, found)));
            }
            Search::HeldOut(mut held) => {
                if self.ascend_without(data, job, &mut held, size)? {
                    let HeldOut { descent, found, .. } = *held;
                    return Ok(Some(self.over(job, descent, found)));
                }
                job.search = Search::HeldOut(held);
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

    /// What the search of a whole problem has found, or has come to by now.
    pub(super) fn found_so_far(
        &self,
        data: &Examples<'_, S>,
        job: &mut Job<S>,
    ) -> Result<Option<Found>, Error> {
        if job.found.is_some() {
            return Ok(job.found.take());
        }
        Ok(match std::mem::replace(&mut job.search, Search::New) {
            Search::HeldOut(held) => Some(held.found),
            Search::One(mut descent) => {
                let moved = descent.a.iter().zip(&descent.known).enumerate();
                let moved = moved.filter(|(_, (a, known))| a != known);
                let lacking = moved.filter(|(k, _)| !job.among.has(*k)).count();
                if lacking * job.among.len() * self.n_features.max(WIDTH) > MOMENT {
                    // As it was when all slopes were known: nobody wants to wait for more.
                    let Descent { a, known, .. } = &mut *descent;
                    a.clone_from(known);
                }
                while self.sync(data, &mut job.among, &mut descent, usize::MAX)?.is_none() {}
                Some(self.after_descent(job, &descent))
            }
            Search::New | Search::Block(_) => None,
        })
    }

    /// What a search has found; its room is for others.
    fn over(&self, job: &mut Job<S>, mut descent: Descent<S>, found: Found) -> Found {
        // Of many in step all would keep what few need again.
        if !job.in_step {
            descent.near.give_back(&self.room);
            job.among.give_back(&self.room);
        }
        found
    }

    /// The weights of a set, `without` a fold if that is held out.
    pub(super) fn weights(
        &self,
        data: &Examples<'_, S>,
        set: &[u32],
        without: Option<u32>,
    ) -> Vec<f64> {
        let numbers = set.iter().map(|&place| self.numbers[place as usize]);
        match self.folds.as_ref().zip(without) {
            None => numbers.map(|i| data.weight(i)).collect(),
            Some((folds, fold)) => numbers.map(|i| folds.times(i, fold) * data.weight(i)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use rand_pcg::Pcg64;
    use rand_pcg::rand_core::Rng;

    use super::super::{FAR, Folds, Round};
    use super::*;
    use crate::{AnyLoss, Dense, Kernel, OneVsRest};

    /// Of vectors that come from far away several problems find what each finds by itself, to the last bit: in pieces of any
    /// size, in little room, and where all let go again and again of what they have near.
    #[test]
    fn who_waits_for_others_finds_the_same() {
        const CLASSES: u32 = 4;
        const ROOM: usize = 1 << 30;
        let (n, d) = (600, FAR / 600 / size_of::<f64>() + 1);
        let mut numbers = Pcg64::new(7, 0);
        let mut uniform = || (numbers.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let mut x = vec![0.0; n * d];
        x.chunks_mut(d).for_each(|row| row[..4].fill_with(|| 2.0 * uniform()));
        let corner = |row: &[f64]| u32::from(row[0] > 1.0) + 2 * u32::from(row[1] > 1.0);
        let y: Vec<u32> = x.chunks(d).map(corner).collect();
        let data = Examples::new(Dense::new(&x, n, d).expect("rows"), &y, None).expect("examples");
        // And whether anybody waited, and how often somebody let go.
        let ascend = |positives: Range<u32>, piece: usize, cache: usize, lets_go: bool| {
            let loss = OneVsRest { loss: AnyLoss::Hinge, positives: positives.collect() };
            let (kernel, lambda) = (Kernel::Rbf { gamma: 1.0 }, 1e-4);
            let mut ascent = KernelAscent::new(kernel, loss, lambda, &data, cache).expect("room");
            let folds = Folds::new((0..n as u32).map(|i| i % 2).collect(), vec![1.0; 2]);
            assert!(ascent.hold_out(&data, folds.expect("two folds")).expect("room"));
            let (mut waited, mut times) = (false, 0);
            loop {
                let found = ascent.advance(&data, 1e-6, piece).expect("finite");
                if let Some(Round::Search(jobs)) = &mut ascent.round {
                    waited |= jobs.iter().any(|job| !job.wanted.is_empty());
                    let near = jobs.iter_mut().filter_map(Job::near);
                    for near in near.filter(|near| lets_go && near.size() > 0) {
                        near.let_go();
                        times += 1;
                    }
                }
                if ascent.certificates().all(|c| c.relative_gap() <= 1e-6) && found.is_some() {
                    let found = [Some(ascent.dual()), ascent.held_out_scores()];
                    return (found.map(|of| of.expect("all are solved")), waited, times);
                }
            }
        };
        let (together, waited, _) = ascend(0..CLASSES, 1, ROOM, false);
        assert!(waited && together == ascend(0..CLASSES, n, ROOM, false).0);
        // Two at a time, or one.
        for cache in [6_000_000, 3_000_000] {
            assert!(together == ascend(0..CLASSES, n, cache, false).0, "{cache}");
        }
        let (same, _, times) = ascend(0..CLASSES, 1, ROOM, true);
        assert!(together == same && times > 10, "{times}");
        for class in 0..CLASSES {
            let (alone, waited, _) = ascend(class..class + 1, n, ROOM, false);
            for (together, alone) in together.iter().zip(&alone) {
                let own = together.iter().skip(class as usize).step_by(CLASSES as usize);
                assert!(!waited && own.eq(alone), "{class}");
            }
        }
    }
}
