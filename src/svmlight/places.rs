//! Rows to where they stay: arrays of others, which several threads fill side by side.

use super::lines::{Columns, Found, Stop};
use super::{Base, Decimal, Parser, error, pieces, whole_lines};
use crate::error::Error;
use crate::threads;

/// Room in arrays, for rows behind those that they hold.
pub(crate) struct Places<'a, S> {
    pub(crate) values: &'a mut [S],
    pub(crate) columns: Slots<'a>,
    /// The labels, which end where the rows do.
    pub(crate) labels: &'a mut [f64],
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

impl<S: Decimal> Found<S> {
    pub(super) fn size(&self) -> Size {
        let is_wide = matches!(self.columns, Columns::Wide(_));
        Size { features: self.values.len(), rows: self.labels.len(), is_wide }
    }
}

/// Cuts off the first entries.
fn first<'a, T>(slice: &mut &'a mut [T], n: usize) -> &'a mut [T] {
    let (first, behind) = std::mem::take(slice).split_at_mut(n);
    *slice = behind;
    first
}

impl<'a, S: Decimal> Places<'a, S> {
    /// The room for these rows, which is cut off.
    pub(super) fn next(&mut self, Size { features, rows, .. }: Size) -> Places<'a, S> {
        let columns = match &mut self.columns {
            Slots::Narrow { columns, ends } => {
                Slots::Narrow { columns: first(columns, features), ends: first(ends, rows) }
            }
            Slots::Wide { columns, ends } => {
                Slots::Wide { columns: first(columns, features), ends: first(ends, rows) }
            }
        };
        let so_far = self.so_far;
        self.so_far += features;
        let (values, labels) = (first(&mut self.values, features), first(&mut self.labels, rows));
        Places { values, columns, labels, so_far }
    }

    /// Copies rows to room that is as large.
    pub(super) fn fill(&mut self, found: &Found<S>) {
        self.values.copy_from_slice(&found.values);
        self.labels.copy_from_slice(&found.labels);
        let mut end = self.so_far;
        let mut ends = found.lengths.iter().map(|length| {
            end += *length as usize;
            end
        });
        match (&mut self.columns, &found.columns) {
            (Slots::Narrow { columns, ends: to }, Columns::Narrow(more)) => {
                columns.copy_from_slice(more);
                to.iter_mut().zip(ends).for_each(|(to, end)| *to = end as i32);
            }
            (Slots::Wide { columns, ends: to }, more) => {
                match more {
                    Columns::Wide(more) => columns.copy_from_slice(more),
                    Columns::Narrow(more) => {
                        columns.iter_mut().zip(more).for_each(|(to, &column)| *to = column.into());
                    }
                }
                to.iter_mut().zip(&mut ends).for_each(|(to, end)| *to = end as i64);
            }
            (Slots::Narrow { .. }, Columns::Wide(_)) => {
                unreachable!("room is made for what `unplaced` tells")
            }
        }
    }
}

/// What threads do side by side.
enum Task<'a, S> {
    Read(&'a mut Found<S>, &'a [u8]),
    Place(&'a Found<S>, Places<'a, S>),
}

/// For rows that stay outside the parser: of its own methods only these are called.
impl<S: Decimal> Parser<S> {
    /// How much room the rows ask for that were read and have no place yet.
    pub(crate) fn unplaced(&self) -> Size {
        self.ready.iter().map(Found::size).fold(Size::default(), |all, size| Size {
            features: all.features + size.features,
            rows: all.rows + size.rows,
            is_wide: all.is_wide || size.is_wide,
        })
    }

    /// Reads what comes next, as [`push`](Self::push) does, and meanwhile copies the [unplaced](Self::unplaced) rows to their
    /// places. The last line must have its end.
    pub(crate) fn push_placing(
        &mut self,
        mut block: &[u8],
        mut places: Places<'_, S>,
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
            let placed = parser.ready.iter();
            tasks.extend(placed.map(|found| Task::Place(found, places.next(found.size()))));
            let meaning = parser.meaning;
            let read = threads::side_by_side(&mut tasks, |_, task| match task {
                Task::Read(found, text) => found.read(text, meaning),
                Task::Place(found, places) => {
                    places.fill(found);
                    Ok::<(), Stop>(())
                }
            });

            let total = &mut parser.total;
            for found in &parser.ready {
                total.lines += found.lines;
                found.range.into_iter().for_each(|(least, largest)| total.cover(least, largest));
            }
            std::mem::swap(&mut parser.ready, &mut parser.spare);
            let mut lines = parser.total.lines;
            for ((read, text), found) in read.into_iter().zip(texts).zip(&parser.ready) {
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
