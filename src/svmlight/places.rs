//! Rows to where they stay: arrays of others, which several threads fill side by side.

use super::lines::{Columns, Found};
use super::{Base, Decimal, Parser, error, pieces, whole_lines};
use crate::error::Error;
use crate::threads;

/// Room for rows, as much as they ask for, behind those that arrays hold.
pub(crate) struct Places<'a, S> {
    pub(crate) values: &'a mut [S],
    pub(crate) labels: &'a mut [f64],
    pub(crate) slots: Slots<'a>,
    /// Features of the rows that are there.
    pub(crate) so_far: usize,
}

/// Room for columns, and for the ends of rows in the same type.
pub(crate) enum Slots<'a> {
    Narrow { columns: &'a mut [i32], ends: &'a mut [i32] },
    Wide { columns: &'a mut [i64], ends: &'a mut [i64] },
}

/// How much room rows ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) features: usize,
    pub(crate) rows: usize,
    /// Whether they have a column beyond i32.
    pub(crate) is_wide: bool,
}

/// Copies entries to the first places, which are cut off.
fn place<T, U: Copy>(places: &mut &mut [T], entries: &[U], mut convert: impl FnMut(U) -> T) {
    let (first, behind) = std::mem::take(places).split_at_mut(entries.len());
    first.iter_mut().zip(entries).for_each(|(to, from)| *to = convert(*from));
    *places = behind;
}

impl Slots<'_> {
    fn fill<S: Decimal>(&mut self, ready: &[Found<S>], mut so_far: usize) {
        let mut end = |length: u32| {
            so_far += length as usize;
            so_far
        };
        for found in ready {
            match (&mut *self, &found.columns) {
                (Slots::Narrow { columns, ends }, Columns::Narrow(more)) => {
                    place(columns, more, |column| column);
                    place(ends, &found.lengths, |length| end(length) as i32);
                }
                (Slots::Wide { columns, ends }, more) => {
                    match more {
                        Columns::Narrow(more) => place(columns, more, i64::from),
                        Columns::Wide(more) => place(columns, more, |column| column),
                    }
                    place(ends, &found.lengths, |length| end(length) as i64);
                }
                (Slots::Narrow { .. }, Columns::Wide(_)) => {
                    unreachable!("there is room for what is unplaced")
                }
            }
        }
    }
}

/// What threads do side by side. Two that write to the same page for the first time wait for one another, and a large page
/// takes 0.2 ms to clear: so there is one task for each of the large arrays.
enum Task<'a, S> {
    Values(&'a mut [S], &'a mut [f64]),
    Columns(Slots<'a>),
    Read(&'a mut Found<S>, &'a [u8]),
}

/// For rows that stay outside the parser: of its own methods only these are called.
impl<S: Decimal> Parser<S> {
    /// How much room the rows ask for that were read and have no place yet.
    pub(crate) fn unplaced(&self) -> Size {
        self.ready.iter().fold(Size::default(), |all, found| Size {
            features: all.features + found.values.len(),
            rows: all.rows + found.labels.len(),
            is_wide: all.is_wide || matches!(found.columns, Columns::Wide(_)),
        })
    }

    /// Reads what comes next, as [`push`](Self::push) does, and meanwhile copies the [unplaced](Self::unplaced) rows to their
    /// places. The last line must have its end.
    pub(crate) fn push_placing(
        &mut self,
        mut block: &[u8],
        places: Places<'_, S>,
    ) -> Result<(), Error> {
        self.careful(|parser| {
            // A line from more than one block is a piece by itself.
            let mut kept = Vec::new();
            if !parser.rest.is_empty()
                && let Some(end) = block.iter().position(|byte| *byte == b'\n')
            {
                parser.keep(&block[..=end])?;
                kept = std::mem::take(&mut parser.rest);
                block = &block[end + 1..];
            }
            let (lines, rest) = whole_lines(block);
            let mut texts = pieces(&kept);
            texts.extend(pieces(lines));
            texts.first_mut().into_iter().for_each(|text| parser.begin(text));

            parser.spare.resize_with(texts.len().max(parser.spare.len()), Found::default);
            parser.spare.iter_mut().for_each(Found::clear);
            let reads = parser.spare.iter_mut().zip(&texts);
            let mut tasks: Vec<_> = reads.map(|(found, text)| Task::Read(found, text)).collect();
            // Two threads begin with the first of a half each.
            tasks.insert(tasks.len() / 2, Task::Columns(places.slots));
            tasks.insert(0, Task::Values(places.values, places.labels));
            let (meaning, ready, so_far) = (parser.meaning, &parser.ready, places.so_far);
            let read = threads::side_by_side(&mut tasks, |_, task| match task {
                Task::Values(values, labels) => {
                    for found in ready {
                        place(values, &found.values, |value| value);
                        place(labels, &found.labels, |label| label);
                    }
                    None
                }
                Task::Columns(slots) => {
                    slots.fill(ready, so_far);
                    None
                }
                Task::Read(found, text) => Some(found.read(text, meaning)),
            });

            let total = &mut parser.total;
            for found in &parser.ready {
                total.lines += found.lines;
                found.range.into_iter().for_each(|(least, largest)| total.cover(least, largest));
            }
            std::mem::swap(&mut parser.ready, &mut parser.spare);
            let mut lines = parser.total.lines;
            for ((read, text), found) in read.into_iter().flatten().zip(texts).zip(&parser.ready) {
                lines += found.lines;
                read.map_err(|stop| error(stop, text, lines))?;
            }
            parser.keep(rest)
        })
    }

    /// The number of features, and whether 1 is to be added to all columns, as they count from 0 after all.
    pub(crate) fn placed(&self) -> Result<(usize, bool), Error> {
        Ok((self.n_features()?, self.options.base == Base::Auto && self.seen().1))
    }
}
