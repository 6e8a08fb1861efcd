//! Kernel values that later epochs need not compute again.

use crate::memory;
use crate::scalar::Scalar;
use crate::vectors::CHUNK;

/// Bytes that must be left for others.
const SPARE: usize = 1 << 26;

/// Bytes that are asked for at a time: a panel is computed in little more time than it takes to ask.
const GRANT: usize = 1 << 24;

/// Kernel values of rows with the first so many chunks of support vectors, which never change once they are full. A copy
/// holds none and takes none: it would cost as much memory again.
#[derive(Debug, Default)]
pub(super) struct Cache<S> {
    rows: Vec<Vec<S>>,
    /// How many more bytes there may be.
    left: usize,
    /// For how many of them there was room when the system was asked.
    granted: usize,
}

impl<S> Clone for Cache<S> {
    fn clone(&self) -> Self {
        Cache { rows: Vec::new(), left: 0, granted: 0 }
    }
}

impl<S: Scalar> Cache<S> {
    /// Of the rows of a matrix, in so many bytes at most.
    pub fn new(n_rows: usize, bytes: usize) -> Self {
        Cache { rows: vec![Vec::new(); n_rows], left: bytes, granted: 0 }
    }

    /// Whether more may be taken in.
    pub fn has_room(&self) -> bool {
        self.left > 0
    }

    /// What is there of a row.
    pub fn of(&self, i: usize) -> &[S] {
        self.rows.get(i).map_or(&[], |row| &row[..])
    }

    /// Takes in what there is room for of these: a full chunk, a row, their kernel values.
    pub fn extend(&mut self, computed: Vec<(usize, usize, Vec<S>)>) {
        if self.left == 0 {
            return;
        }
        let bytes = computed.iter().map(|(_, _, values)| size_of_val(&values[..])).sum();
        if bytes > self.granted {
            self.granted = GRANT.max(bytes);
            if memory::check::<u8>("kernel values", &[self.granted + SPARE]).is_err() {
                self.left = 0;
            }
        }
        self.granted -= bytes;
        for (chunk, i, values) in computed {
            let bytes = size_of_val(&values[..]);
            // A row may come twice in a panel, and chunks follow one another.
            let row = self.rows.get_mut(i).filter(|row| row.len() == chunk * CHUNK);
            if let Some(row) = row.filter(|_| bytes <= self.left) {
                self.left -= bytes;
                row.extend(values);
            }
        }
    }
}
