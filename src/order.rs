//! Which example comes next.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;

use crate::data::{MOST_AHEAD, Rows};
use crate::error::Error;
use crate::examples::Examples;
use crate::memory;
use crate::scalar::Scalar;

/// How an epoch visits n rows. Any other iterator over row numbers serves [`Trainer::run`] as well.
///
/// A fresh permutation per epoch converges faster than sampling with replacement (Shalev-Shwartz et
/// al. 2011, section 7.5) and keeps the dual certificate.
///
/// [`Trainer::run`]: crate::Trainer::run
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// A fresh permutation of the rows.
    Shuffle,
    /// A fresh permutation of blocks of [`BLOCK`] rows, each in storage order. Up to twice as fast
    /// as [`Shuffle`](Sampling::Shuffle), because memory is read in longer runs. As good where the
    /// rows stand in no particular order; rows sorted by class want one shuffle beforehand.
    Blocks,
    /// Uniform draws, as the papers analyse them.
    Replacement,
    /// Storage order.
    Storage,
}

/// Rows per block of [`Sampling::Blocks`]. Epochs with 16, 32 and 64 took the same time, up to the
/// noise, on rows of 44 sparse and of 54 dense features; the smaller, the more is shuffled.
pub const BLOCK: usize = 32;

/// Units shuffled at a time, some milliseconds' work: more than most orders have. A few at a time, between steps, are one more
/// place far in memory for each of these: an epoch in shuffled rows takes 0.94 to 0.98 of the time so on an Intel Xeon (2 MB of
/// L2; words, random columns, 54 dense features), with 256 and 2048 at a time as long as where each step drew its own.
const AT_A_TIME: usize = 1 << 20;

impl Sampling {
    /// The rows of one epoch over `n` rows: an iterator of `n` row numbers.
    ///
    /// The order depends on `n`, `seed` and `epoch` alone, so a run is taken up again by its epoch
    /// number, with no generator to store. Memory: 4 n bytes for `Shuffle`, n/8 for `Blocks`.
    ///
    /// ```
    /// use pegasos::Sampling;
    ///
    /// let mut order: Vec<usize> = Sampling::Shuffle.epoch(5, 42, 0)?.collect();
    /// order.sort();
    /// assert_eq!(order, [0, 1, 2, 3, 4]);
    /// # Ok::<(), pegasos::Error>(())
    /// ```
    pub fn epoch(self, n: usize, seed: u64, epoch: u64) -> Result<Epoch, Error> {
        let (units, width) = match self {
            Sampling::Shuffle => (n, 1),
            Sampling::Blocks => (n.div_ceil(BLOCK), BLOCK),
            Sampling::Replacement => (0, 1),
            Sampling::Storage => (0, n),
        };
        let Ok(units) = u32::try_from(units) else {
            let want = match self {
                Sampling::Blocks => "below 2^37 for this sampling",
                _ => "below 2^32 for this sampling",
            };
            return Err(Error::parameter("n_rows", n, want));
        };
        memory::check::<u32>("the order of the rows", &[units as usize])?;
        Ok(Epoch {
            sampling: self,
            rng: Pcg64::new(spread(seed), spread(epoch)),
            units: (0..units).collect(),
            width,
            shuffled: 0,
            begun: 0,
            within: 0..0,
            left: n,
            n,
        })
    }
}

/// A uniform number below `bound`, by Lemire's multiplication: our own, because the mapping
/// from seeds to orders must not change with a dependency. Its bias, bound/2^64, is nothing.
#[inline]
fn below(bound: usize, rng: &mut Pcg64) -> usize {
    ((u128::from(rng.next_u64()) * bound as u128) >> 64) as usize
}

/// Small numbers, as seeds and epochs are, over all bits of a generator's state or stream.
fn spread(x: u64) -> u128 {
    // 2^128 over the golden ratio, made odd.
    (u128::from(x) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
}

/// The rows of one epoch; see [`Sampling::epoch`].
#[derive(Clone, Debug)]
pub struct Epoch {
    sampling: Sampling,
    rng: Pcg64,
    /// Rows or blocks; those before `shuffled` stand in the order of the epoch.
    units: Vec<u32>,
    width: usize,
    shuffled: usize,
    /// Blocks before this have been handed out.
    begun: usize,
    /// What is next: rows, or, of [`Sampling::Shuffle`], where they stand among the units.
    within: std::ops::Range<usize>,
    /// How many rows come after these.
    left: usize,
    n: usize,
}

impl Epoch {
    /// Fisher and Yates' shuffle, for the next units.
    fn shuffle_ahead(&mut self) {
        let end = self.units.len().min(self.shuffled + AT_A_TIME);
        for i in self.shuffled..end {
            let j = i + below(self.units.len() - i, &mut self.rng);
            self.units.swap(i, j);
        }
        self.shuffled = end;
    }

    /// What is next, after all that was; false where there is nothing.
    #[inline(never)]
    fn go_on(&mut self) -> bool {
        if self.left == 0 {
            return false;
        }
        let start = match self.sampling {
            Sampling::Shuffle => {
                let first = self.shuffled;
                self.shuffle_ahead();
                self.within = first..self.shuffled;
                self.left -= self.within.len();
                return true;
            }
            Sampling::Storage => 0,
            Sampling::Replacement => below(self.n, &mut self.rng),
            Sampling::Blocks => {
                if self.begun == self.shuffled {
                    self.shuffle_ahead();
                }
                self.begun += 1;
                self.units[self.begun - 1] as usize * self.width
            }
        };
        let rows = self.width.min(self.n - start);
        self.left -= rows;
        self.within = start..start + rows;
        true
    }
}

impl Iterator for Epoch {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        if self.within.is_empty() && !self.go_on() {
            return None;
        }
        let i = self.within.start;
        self.within.start += 1;
        Some(if self.sampling == Sampling::Shuffle { self.units[i] as usize } else { i })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.left + self.within.len();
        (left, Some(left))
    }
}

impl ExactSizeIterator for Epoch {}

/// Row numbers taken from the order at a time.
const WINDOW: usize = 256;

/// Row numbers, many at a time: what any iterator over them is to the loop, which asks for a window of them once in a
/// while and so need not be compiled for each kind of iterator.
pub trait Order {
    /// Writes the next numbers; returns how many, fewer than there is room for only at the end.
    fn fill(&mut self, window: &mut [usize]) -> usize;
}

impl<I: Iterator<Item = usize>> Order for I {
    fn fill(&mut self, window: &mut [usize]) -> usize {
        // Not `zip`, which would take one more number from the order than there is room for.
        for (k, place) in window.iter_mut().enumerate() {
            match self.next() {
                Some(i) => *place = i,
                None => return k,
            }
        }
        window.len()
    }
}

/// Hands out an order, asking memory for the rows to come: first where a row lies and for its label, then, half way to
/// its use, for what it holds.
pub(crate) struct Ahead<'o> {
    order: &'o mut dyn Order,
    /// How many more rows may be taken from the order.
    left: usize,
    /// `window[at..end]` is still to be handed out; what follows `end` repeats the last, to be asked for again.
    window: [usize; WINDOW + 2 * MOST_AHEAD],
    at: usize,
    end: usize,
    /// Set when the order has come to its end, or to a row that there is not.
    over: bool,
    wrong: Option<usize>,
}

impl<'o> Ahead<'o> {
    /// Of all rows.
    pub(crate) fn new(order: &'o mut dyn Order) -> Self {
        Ahead::take(order, usize::MAX)
    }

    /// Of so many rows at most; no more are taken from the order.
    pub(crate) fn take(order: &'o mut dyn Order, most: usize) -> Self {
        Ahead {
            order,
            left: most,
            window: [0; WINDOW + 2 * MOST_AHEAD],
            at: 0,
            end: 0,
            over: false,
            wrong: None,
        }
    }

    #[inline(never)]
    fn refill(&mut self, n_rows: usize) {
        self.window.copy_within(self.at..self.end, 0);
        self.end -= self.at;
        self.at = 0;
        let room = (WINDOW - self.end).min(self.left);
        let new = &mut self.window[self.end..self.end + room];
        // An order of somebody else may say more than there was room for.
        let count = self.order.fill(new).min(room);
        self.left -= count;
        self.over = count < room || self.left == 0;
        match new[..count].iter().position(|&i| i >= n_rows) {
            Some(at) => {
                self.wrong = Some(new[at]);
                self.over = true;
                self.end += at;
            }
            None => self.end += count,
        }
        let last = self.end.checked_sub(1).map_or(0, |last| self.window[last]);
        self.window[self.end..][..2 * MOST_AHEAD].fill(last);
    }

    /// The next rows, `count` of them if there are as many (and no more than [`WINDOW`]).
    pub(crate) fn peek(&mut self, n_rows: usize, count: usize) -> &[usize] {
        if self.at + count > self.end && !self.over {
            self.refill(n_rows);
        }
        &self.window[self.at..self.end.min(self.at + count)]
    }

    /// The row after the one handed out last, if it is known.
    #[inline(always)]
    pub(crate) fn upcoming(&self) -> Option<usize> {
        (self.at < self.end).then(|| self.window[self.at])
    }

    /// The next row. Calls `prefetch` with one that comes later, for what the caller has of it.
    #[inline(always)]
    pub(crate) fn next<S: Scalar>(
        &mut self,
        data: &Examples<'_, S>,
        prefetch: impl FnOnce(usize),
    ) -> Result<Option<usize>, Error> {
        let rows = *data.rows();
        let next = self.advance(data.len(), rows.ahead())?;
        if next.is_some() {
            prefetch(self.ask(rows, data, rows.ahead()));
        }
        Ok(next)
    }

    /// Makes sure that rows so far ahead are known; says whether there is a next one.
    #[inline(always)]
    fn is_ready(&mut self, n_rows: usize, ahead: usize) -> Result<bool, Error> {
        if self.at + 2 * ahead >= self.end && !self.over {
            self.refill(n_rows);
        }
        match self.wrong {
            Some(i) if self.at == self.end => Err(Error::index("order", i, n_rows)),
            _ => Ok(self.at < self.end),
        }
    }

    /// The next row, where rows are asked for so far ahead, by [`ask`](Ahead::ask).
    #[inline(always)]
    pub(crate) fn advance(&mut self, n_rows: usize, ahead: usize) -> Result<Option<usize>, Error> {
        if !self.is_ready(n_rows, ahead)? {
            return Ok(None);
        }
        let i = self.window[self.at];
        self.at += 1;
        Ok(Some(i))
    }

    /// Rows that are next, many at a time: for a loop that does nothing else with an order. `None` where there are no more.
    #[inline(always)]
    pub(crate) fn many(
        &mut self,
        n_rows: usize,
        ahead: usize,
    ) -> Result<Option<impl Iterator<Item = Next> + '_>, Error> {
        let ahead = ahead.min(MOST_AHEAD);
        if !self.is_ready(n_rows, ahead)? {
            return Ok(None);
        }
        let from = self.at;
        self.at = if self.over { self.end } else { self.end - 2 * ahead };
        let window = &self.window[from..self.at + 2 * ahead];
        let to_come = window[ahead..].iter().zip(&window[2 * ahead..]);
        Ok(Some(window.windows(2).zip(to_come).map(|(rows, (&coming, &later))| Next {
            row: rows[0],
            after: rows[1],
            coming,
            later,
        })))
    }

    /// After [`advance`](Ahead::advance), asks memory for rows to come, whose layout may be known; returns one of them, for
    /// what the caller has of it.
    #[inline(always)]
    pub(crate) fn ask<'a, S: Scalar>(
        &self,
        rows: impl Rows<'a, S>,
        data: &Examples<'_, S>,
        ahead: usize,
    ) -> usize {
        let (ahead, at) = (ahead.min(MOST_AHEAD), self.at - 1);
        ask(rows, data, self.window[at + ahead], self.window[at + 2 * ahead])
    }
}

/// A row that is next, and rows to come.
#[derive(Clone, Copy)]
pub(crate) struct Next {
    pub(crate) row: usize,
    /// The one after it; the same again, where there is none.
    pub(crate) after: usize,
    coming: usize,
    later: usize,
}

impl Next {
    /// [`ask`](Ahead::ask).
    #[inline(always)]
    pub(crate) fn ask<'a, S: Scalar>(
        &self,
        rows: impl Rows<'a, S>,
        data: &Examples<'_, S>,
    ) -> usize {
        ask(rows, data, self.coming, self.later)
    }
}

/// Asks memory for what a row to come holds, and returns it; and for where a later one lies, and its label.
#[inline(always)]
fn ask<'a, S: Scalar>(
    rows: impl Rows<'a, S>,
    data: &Examples<'_, S>,
    coming: usize,
    later: usize,
) -> usize {
    rows.prefetch_bounds(later);
    data.prefetch_label(later);
    rows.prefetch(coming);
    coming
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(sampling: Sampling, n: usize, seed: u64, epoch: u64) -> Vec<usize> {
        sampling.epoch(n, seed, epoch).unwrap().collect()
    }

    #[test]
    fn permutations_visit_every_row_once() {
        for sampling in [Sampling::Shuffle, Sampling::Blocks, Sampling::Storage] {
            for n in [0, 1, 2, 31, 32, 33, 64, 1000, AT_A_TIME + 7] {
                let mut order = rows(sampling, n, 3, 1);
                order.sort_unstable();
                assert!(order.into_iter().eq(0..n), "{sampling:?}, n = {n}");
            }
        }
    }

    /// An order that says that it has written more than there was room for.
    struct Boaster;

    impl Order for Boaster {
        fn fill(&mut self, window: &mut [usize]) -> usize {
            window.fill(1);
            usize::MAX
        }
    }

    #[test]
    fn an_order_writes_no_more_than_there_is_room_for() {
        let mut order = Boaster;
        let mut ahead = Ahead::take(&mut order, 2 * WINDOW);
        let mut count = 0;
        while ahead.advance(2, 1).unwrap() == Some(1) {
            count += 1;
        }
        assert_eq!(count, 2 * WINDOW);
    }

    #[test]
    fn seeds_and_epochs_give_other_orders() {
        for sampling in [Sampling::Shuffle, Sampling::Blocks, Sampling::Replacement] {
            let first = rows(sampling, 1000, 0, 0);
            assert_eq!(first, rows(sampling, 1000, 0, 0));
            assert_ne!(first, rows(sampling, 1000, 0, 1));
            assert_ne!(first, rows(sampling, 1000, 1, 0));
        }
    }

    /// Every row comes first about equally often: chi-squared over 10 rows, 10,000 epochs, below
    /// the 99.99th percentile of 9 degrees of freedom.
    #[test]
    fn shuffles_are_uniform() {
        let mut first = [0.0_f64; 10];
        for epoch in 0..10_000 {
            first[rows(Sampling::Shuffle, 10, 7, epoch)[0]] += 1.0;
        }
        let chi2: f64 = first.iter().map(|c| (c - 1000.0).powi(2) / 1000.0).sum();
        assert!(chi2 < 33.7, "{first:?}");
    }

    /// The first rows of successive epochs are independent: 99 degrees of freedom.
    #[test]
    fn epochs_are_independent() {
        let first = |epoch| rows(Sampling::Shuffle, 10, 7, epoch)[0];
        let mut pairs = [0.0_f64; 100];
        for epoch in 0..20_000 {
            pairs[10 * first(epoch) + first(epoch + 1)] += 1.0;
        }
        let chi2: f64 = pairs.iter().map(|c| (c - 200.0).powi(2) / 200.0).sum();
        assert!(chi2 < 161.3, "{chi2}");
    }

    /// The orders of a seed are part of a release: they must not change under a user's feet.
    #[test]
    fn orders_are_stable() {
        assert_eq!(rows(Sampling::Shuffle, 8, 0, 0), [7, 1, 6, 2, 3, 4, 5, 0]);
        assert_eq!(rows(Sampling::Replacement, 8, 0, 0), [7, 0, 6, 5, 4, 4, 3, 3]);
    }
}
