//! Rows to arrays of somebody else, which two threads fill while others read on.

use super::lines::{Columns, Found};
use super::{Base, Decimal, Options, Parser, error, pieces, whole_lines};
use crate::error::Error;
use crate::threads;

/// Room for rows, as much as they ask for, behind those that arrays hold.
pub(crate) struct Places<'a, S> {
    pub(crate) values: &'a mut [S],
    pub(crate) labels: Labels<'a>,
    pub(crate) slots: Slots<'a>,
    /// Features of the rows that are there.
    pub(crate) so_far: usize,
}

/// Room for labels, whole or any.
pub(crate) enum Labels<'a> {
    Whole(&'a mut [i64]),
    Any(&'a mut [f64]),
}

/// Room for columns, and for the ends of rows in the same type.
pub(crate) enum Slots<'a> {
    Narrow { columns: &'a mut [i32], ends: &'a mut [i32] },
    Wide { columns: &'a mut [i64], ends: &'a mut [i64] },
}

/// How much room rows ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) features: usize,
    pub(crate) rows: usize,
    /// Whether they have a column beyond i32.
    pub(crate) is_wide: bool,
    /// Whether all labels are whole numbers that i64 tell from others, which -0 is not.
    pub(crate) is_whole: bool,
}

impl Size {
    const NONE: Self = Size { features: 0, rows: 0, is_wide: false, is_whole: true };

    fn of<S: Decimal>(found: &Found<S>) -> Self {
        let is_whole = |label: &f64| {
            label.abs() < (1_u64 << 53) as f64
                && (*label as i64 as f64).to_bits() == label.to_bits()
        };
        Size {
            features: found.values.len(),
            rows: found.labels.len(),
            is_wide: matches!(found.columns, Columns::Wide(_)),
            is_whole: found.labels.iter().all(is_whole),
        }
    }

    fn and(self, other: Self) -> Self {
        Size {
            features: self.features + other.features,
            rows: self.rows + other.rows,
            is_wide: self.is_wide || other.is_wide,
            is_whole: self.is_whole && other.is_whole,
        }
    }
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

/// What threads do side by side. Two that write to the same page for the first time wait for one another, and a large
/// page takes 0.2 ms to clear: so there is one task for each of the large arrays.
enum Task<'a, S> {
    Values(&'a mut [S], Labels<'a>),
    Columns(Slots<'a>),
    Read(&'a mut Found<S>, &'a [u8]),
}

/// A parser whose rows stay elsewhere: those of a block find their places while the next is read.
#[derive(Debug)]
pub(crate) struct Placer<S> {
    parser: Parser<S>,
    unplaced: Size,
}

impl<S: Decimal> Placer<S> {
    pub(crate) fn new(options: Options) -> Result<Self, Error> {
        Ok(Placer { parser: Parser::new(options)?, unplaced: Size::NONE })
    }

    /// How much room the rows ask for that were read last and have no place yet.
    pub(crate) fn unplaced(&self) -> Size {
        self.unplaced
    }

    /// The number of features, and whether 1 is to be added to all columns, as they count from 0 after all.
    pub(crate) fn seen(&self) -> Result<(usize, bool), Error> {
        let is_late = self.parser.options.base == Base::Auto && self.parser.seen().1;
        Ok((self.parser.n_features()?, is_late))
    }

    /// Reads what comes next, on the threads of the current rayon pool, and copies the [unplaced](Self::unplaced)
    /// rows to these places. The last line must have its end.
    pub(crate) fn push(&mut self, block: &[u8], places: Places<'_, S>) -> Result<(), Error> {
        let unplaced = &mut self.unplaced;
        self.parser.careful(|parser| {
            *unplaced = push(parser, block, places)?;
            Ok(())
        })
    }
}

fn push<S: Decimal>(
    parser: &mut Parser<S>,
    mut block: &[u8],
    places: Places<'_, S>,
) -> Result<Size, Error> {
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
                match labels {
                    Labels::Whole(labels) => place(labels, &found.labels, |label| label as i64),
                    Labels::Any(labels) => place(labels, &found.labels, |label| label),
                }
            }
            None
        }
        Task::Columns(slots) => {
            slots.fill(ready, so_far);
            None
        }
        Task::Read(found, text) => Some(found.read(text, meaning).map(|()| Size::of(found))),
    });

    for found in &parser.ready {
        parser.total.lines += found.lines;
        let range = found.range.into_iter();
        range.for_each(|(least, largest)| parser.total.cover(least, largest));
    }
    std::mem::swap(&mut parser.ready, &mut parser.spare);
    let (mut lines, mut unplaced) = (parser.total.lines, Size::NONE);
    for ((read, text), found) in read.into_iter().flatten().zip(texts).zip(&parser.ready) {
        lines += found.lines;
        unplaced = unplaced.and(read.map_err(|stop| error(stop, text, lines))?);
    }
    parser.keep(rest)?;
    Ok(unplaced)
}
