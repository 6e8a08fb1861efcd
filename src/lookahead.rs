//! The one cursor of the panels: rows to come, handed out one by one.

/// The numbers of the rows of a panel, in the order in which they come.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cursor {
    rows: Vec<usize>,
    /// How many were handed out.
    at: usize,
}

impl Cursor {
    /// Takes these rows in place of those there were, none of them handed out.
    pub(crate) fn begin(&mut self, rows: &[usize]) {
        self.at = 0;
        self.rows.clear();
        self.rows.extend_from_slice(rows);
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether all were handed out.
    pub(crate) fn is_over(&self) -> bool {
        self.at == self.rows.len()
    }

    /// Hands out the next row, if it is this: its place in the panel.
    #[inline]
    pub(crate) fn next(&mut self, i: usize) -> Option<usize> {
        let at = self.at;
        if self.rows.get(at) != Some(&i) {
            return None;
        }
        self.at += 1;
        Some(at)
    }

    /// The place of a row that was handed out.
    #[inline]
    pub(crate) fn place(&self, i: usize) -> Option<usize> {
        self.rows[..self.at].iter().rposition(|&row| row == i)
    }
}
