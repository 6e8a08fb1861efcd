//! Rows of kernel values, in slabs: more come without a copy of those that are there.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::Error;
use crate::memory::Slab;
use crate::scalar::Scalar;
use crate::vectors::GROUP;

/// Bytes of a slab, unless a few rows are more: a large page, where the system has them.
const SLAB: usize = 1 << 21;

/// Rows of the same length, numbered as they come.
#[derive(Clone, Debug)]
pub(super) struct Rows<S> {
    slabs: Vec<Slab<S>>,
    /// In which slab each row is, and where it begins.
    places: Vec<(u32, usize)>,
    stride: usize,
    /// How many rows a slab takes, and entries that a new one gets.
    deep: usize,
    size: usize,
}

impl<S> Default for Rows<S> {
    fn default() -> Self {
        Rows { slabs: Vec::new(), places: Vec::new(), stride: 0, deep: 0, size: 0 }
    }
}

impl<S: Scalar> Rows<S> {
    /// None again, which will have so many entries, and will be about so many at most.
    pub fn clear(&mut self, stride: usize, most: usize) {
        let full = SLAB / size_of::<S>();
        self.places.clear();
        self.stride = stride;
        self.deep = (full / stride.max(1)).max(GROUP).min(most.max(1));
        let needed = self.deep * stride;
        // What is nearly full serves rows of other lengths, too.
        self.size = if needed > full / 2 { needed.max(full) } else { needed };
        self.slabs.retain(|slab| slab.len() >= needed);
    }

    /// How many entries there is room for.
    pub fn size(&self) -> usize {
        self.slabs.iter().map(|slab| slab.len()).sum()
    }

    /// The row of this number.
    pub fn row(&self, number: u32) -> &[S] {
        let (slab, start) = self.places[number as usize];
        &self.slabs[slab as usize][start..start + self.stride]
    }

    /// Takes in a row that has these entries of another one, and zeros; returns its number.
    pub fn pick(&mut self, row: &[S], entries: &[u32]) -> Result<u32, Error> {
        self.add(1, &mut |_, out| {
            let (out, rest) = out.split_at_mut(entries.len());
            out.iter_mut().zip(entries).for_each(|(out, &j)| *out = row[j as usize]);
            rest.fill(S::default());
        })
    }

    /// Takes in so many rows, which `fill` writes, some at a time: which, and where to. Returns the number of the first.
    pub fn add(
        &mut self,
        count: usize,
        fill: &mut dyn FnMut(Range<usize>, &mut [S]),
    ) -> Result<u32, Error> {
        let first = self.places.len();
        let mut done = 0;
        while done < count {
            let (slab, at) = ((first + done) / self.deep, (first + done) % self.deep);
            if slab == self.slabs.len() {
                self.slabs.push(Slab::new("kernel values", &[self.size])?);
            }
            let some = (count - done).min(self.deep - at);
            let out = &mut self.slabs[slab][at * self.stride..][..some * self.stride];
            fill(done..done + some, out);
            let starts = (at..at + some).map(|row| (slab as u32, row * self.stride));
            self.places.extend(starts);
            done += some;
        }
        Ok(first as u32)
    }
}

/// Slabs that others have done with: memory that is new costs as much as the values in it.
#[derive(Debug)]
pub(super) struct Room<S>(Mutex<Vec<Rows<S>>>);

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
    fn rows(&self) -> MutexGuard<'_, Vec<Rows<S>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn take(&self) -> Rows<S> {
        self.rows().pop().unwrap_or_default()
    }

    pub fn give(&self, rows: Rows<S>) {
        self.rows().push(rows);
    }

    /// Nobody needs any for now.
    pub fn clear(&self) {
        self.rows().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of one length after another, in the slabs of those before.
    #[test]
    fn rows_stay_as_they_are_when_more_come() {
        let mut rows = Rows::<f64>::default();
        for (stride, counts) in [(32, vec![1, 5, 40]), (8192, vec![3, 30, 1, 2]), (64, vec![700])] {
            let most: usize = counts.iter().sum();
            rows.clear(stride, most);
            let mut first = 0;
            for count in counts {
                let mut fill = |some: Range<usize>, out: &mut [f64]| {
                    assert_eq!(out.len(), some.len() * stride);
                    for (k, row) in some.zip(out.chunks_mut(stride)) {
                        row.fill((first + k) as f64);
                    }
                };
                assert_eq!(rows.add(count, &mut fill).expect("room"), first as u32);
                first += count;
            }
            assert_eq!(first, most);
            for k in 0..most {
                let row = rows.row(k as u32);
                assert!(row.len() == stride && row.iter().all(|value| *value == k as f64));
            }
            // What those before have left behind shows in none.
            let picked = rows.pick(&[3.0, 1.0, 4.0], &[2, 0]).expect("room");
            let row = rows.row(picked);
            assert!(row[..2] == [4.0, 3.0] && row[2..].iter().all(|value| *value == 0.0));
        }
    }
}
