//! Rows that are computed when they are needed.

use super::Row;
use crate::error::Error;
use crate::memory;
use crate::scalar::Scalar;

/// Rows of which the first ones are always there, and others while they are needed: what somebody computes a part at a
/// time, as the features of a [`Span`](crate::Span).
#[derive(Clone, Debug)]
pub struct Window<S> {
    pub(super) n_rows: usize,
    pub(super) n_features: usize,
    /// The first rows.
    pub(crate) resident: Vec<S>,
    /// Those that are there of the others.
    pub(crate) window: Vec<S>,
    /// Where in the window each other row stands, if it does.
    pub(crate) places: Vec<u32>,
}

impl<S: Scalar> Window<S> {
    /// Of which so many are resident; all zeros.
    pub(crate) fn new(n_rows: usize, n_features: usize, resident: usize) -> Result<Self, Error> {
        let places = memory::zeros("the places of features", &[n_rows - resident])?;
        let resident = memory::zeros("features of examples", &[resident, n_features])?;
        Ok(Window { n_rows, n_features, resident, window: Vec::new(), places })
    }

    /// Makes room for those of these rows that are not resident; returns which, in the order in which they are to be written.
    pub(crate) fn open(&mut self, rows: &[usize]) -> Vec<usize> {
        let resident = self.n_resident();
        let mut others: Vec<usize> = rows.iter().copied().filter(|&i| i >= resident).collect();
        // An order may name a row twice.
        others.sort_unstable();
        others.dedup();
        for (place, i) in others.iter().enumerate() {
            self.places[i - resident] = place as u32;
        }
        self.window.resize(others.len() * self.n_features, S::default());
        others
    }

    /// How many rows there are in all.
    pub(crate) fn n_rows(&self) -> usize {
        self.n_rows
    }

    /// How many of them are always there.
    pub(crate) fn n_resident(&self) -> usize {
        self.n_rows - self.places.len()
    }

    #[inline(always)]
    pub(super) fn is_resident(&self, i: usize) -> bool {
        i < self.n_resident()
    }

    #[inline(always)]
    pub(crate) fn row(&self, i: usize) -> Row<'_, S> {
        let (values, at) = match i.checked_sub(self.n_resident()) {
            None => (&self.resident, i),
            Some(i) => (&self.window, self.places[i] as usize),
        };
        Row::Dense(&values[at * self.n_features..(at + 1) * self.n_features])
    }
}
