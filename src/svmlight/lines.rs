//! Whole lines of text to rows: the loop that everything else waits for, and what is wrong with a line.

use super::ROWS;
use super::faults::{index, is_separator, long, too_long, wrong_index};
use super::number::{Decimal, few_digits, short, word};
use crate::error::Error;
use crate::memory;

/// Bytes of a line, with its end, at most.
pub(super) const LONGEST_LINE: usize = 1 << 24;

/// A feature and what divides it from the next have at least so many bytes; a row has half as many.
const FEATURE: usize = 4;

/// What columns are numbered with.
pub(super) trait Column: Copy + Ord {
    /// Less than any column.
    const BEFORE: Self;
    /// The column, unless it, or the number of columns that it asks for, is too large.
    fn of(number: u64, shift: u64) -> Option<Self>;
    fn wide(self) -> i64;
}

macro_rules! column {
    ($t:ty) => {
        impl Column for $t {
            const BEFORE: Self = <$t>::MIN;
            #[inline(always)]
            fn of(number: u64, shift: u64) -> Option<Self> {
                // One more must be possible: for the number of columns, or because they turn out to count from 0.
                let number = <$t>::try_from(number).ok().filter(|number| *number < <$t>::MAX)?;
                Some(number - shift as $t)
            }
            #[inline(always)]
            fn wide(self) -> i64 {
                self.into()
            }
        }
    };
}
column!(i32);
column!(i64);

/// Column numbers, narrow as long as they fit.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Columns {
    Narrow(Vec<i32>),
    Wide(Vec<i64>),
}

impl Columns {
    pub(super) fn len(&self) -> usize {
        match self {
            Columns::Narrow(columns) => columns.len(),
            Columns::Wide(columns) => columns.len(),
        }
    }

    /// Makes room for the widest.
    pub(super) fn widen(&mut self) -> Result<&mut Vec<i64>, Error> {
        if let Columns::Narrow(narrow) = self {
            let mut wide = Vec::new();
            room(&mut wide, narrow.capacity())?;
            wide.extend(narrow.iter().map(|column| i64::from(*column)));
            *self = Columns::Wide(wide);
        }
        match self {
            Columns::Wide(columns) => Ok(columns),
            Columns::Narrow(_) => unreachable!("it was made wide"),
        }
    }
}

/// Makes room for so many more.
pub(super) fn room<T>(vec: &mut Vec<T>, more: usize) -> Result<(), Error> {
    let want = vec.len() + more;
    memory::reserve(ROWS, vec, want)
}

/// How indices are meant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meaning {
    /// What is taken off an index to make a column of it: 0 or 1.
    pub(super) shift: u64,
    /// Whether the index 0 is refused.
    pub(super) refuses_0: bool,
    /// Columns must be less than this.
    pub(super) n_features: i64,
}

/// Rows as they were read.
#[derive(Clone, Debug)]
pub(super) struct Found<S> {
    pub(super) values: Vec<S>,
    /// Indices less the shift, which leaves -1 of an index 0.
    pub(super) columns: Columns,
    /// Stored features of each row.
    pub(super) lengths: Vec<u32>,
    pub(super) labels: Vec<f64>,
    /// Lines, with those that hold no row.
    pub(super) lines: usize,
    /// The least and the largest column, if there is any.
    pub(super) range: Option<(i64, i64)>,
}

/// Why reading stopped before the end.
pub(super) enum Stop {
    /// The text is wrong, in this place.
    Fault { at: usize, what: String },
    /// In the line that begins there, an index needs wide columns.
    Wide(usize),
    /// There is no room for the rows.
    Memory(Error),
}

impl<S: Decimal> Default for Found<S> {
    fn default() -> Self {
        Found {
            values: Vec::new(),
            columns: Columns::Narrow(Vec::new()),
            lengths: Vec::new(),
            labels: Vec::new(),
            lines: 0,
            range: None,
        }
    }
}

impl<S: Decimal> Found<S> {
    pub(super) fn clear(&mut self) {
        self.values.clear();
        match &mut self.columns {
            Columns::Narrow(columns) => columns.clear(),
            Columns::Wide(columns) => columns.clear(),
        }
        self.lengths.clear();
        self.labels.clear();
        (self.lines, self.range) = (0, None);
    }

    /// Forgets the first rows, which have so many features.
    pub(super) fn drop_first(&mut self, rows: usize, features: usize) {
        self.values.drain(..features);
        match &mut self.columns {
            Columns::Narrow(columns) => drop(columns.drain(..features)),
            Columns::Wide(columns) => drop(columns.drain(..features)),
        }
        self.lengths.drain(..rows);
        self.labels.drain(..rows);
    }

    /// Forgets what was read of a row that is not whole.
    pub(super) fn keep_rows(&mut self) {
        let whole = self.lengths.iter().map(|n| *n as usize).sum();
        self.values.truncate(whole);
        match &mut self.columns {
            Columns::Narrow(columns) => columns.truncate(whole),
            Columns::Wide(columns) => columns.truncate(whole),
        }
    }

    /// Makes sure that so many more can be taken in without asking for memory.
    pub(super) fn reserve(&mut self, features: usize, rows: usize) -> Result<(), Error> {
        room(&mut self.values, features)?;
        match &mut self.columns {
            Columns::Narrow(columns) => room(columns, features),
            Columns::Wide(columns) => room(columns, features),
        }?;
        room(&mut self.lengths, rows)?;
        room(&mut self.labels, rows)
    }

    /// Takes over what `other` has found in the lines behind its own.
    pub(super) fn append(&mut self, other: &Self) -> Result<(), Error> {
        self.reserve(other.values.len(), other.labels.len())?;
        self.values.extend_from_slice(&other.values);
        match (&mut self.columns, &other.columns) {
            (Columns::Narrow(columns), Columns::Narrow(more)) => columns.extend_from_slice(more),
            (Columns::Wide(columns), Columns::Wide(more)) => columns.extend_from_slice(more),
            (Columns::Wide(columns), Columns::Narrow(more)) => {
                columns.extend(more.iter().map(|column| i64::from(*column)));
            }
            (columns @ Columns::Narrow(_), Columns::Wide(more)) => {
                let columns = columns.widen()?;
                room(columns, more.len())?;
                columns.extend_from_slice(more);
            }
        }
        self.lengths.extend_from_slice(&other.lengths);
        self.labels.extend_from_slice(&other.labels);
        self.lines += other.lines;
        other.range.into_iter().for_each(|(least, largest)| self.cover(least, largest));
        Ok(())
    }

    pub(super) fn cover(&mut self, least: i64, largest: i64) {
        let (low, high) = self.range.unwrap_or((least, largest));
        self.range = Some((low.min(least), high.max(largest)));
    }

    /// Reads whole lines, each with its end; `text` begins with the first.
    pub(super) fn read(&mut self, text: &[u8], meaning: Meaning) -> Result<(), Stop> {
        let mut from = 0;
        loop {
            let rest = text.len() - from;
            self.reserve(rest / FEATURE + 1, rest / (FEATURE / 2) + 1).map_err(Stop::Memory)?;
            let mut columns = std::mem::replace(&mut self.columns, Columns::Narrow(Vec::new()));
            let read = match &mut columns {
                Columns::Narrow(columns) => self.lines(columns, text, from, meaning),
                Columns::Wide(columns) => self.lines(columns, text, from, meaning),
            };
            self.columns = columns;
            match read {
                Err(Stop::Wide(line)) => {
                    self.columns.widen().map_err(Stop::Memory)?;
                    from = line;
                }
                other => return other,
            }
        }
    }

    fn lines<I: Column>(
        &mut self,
        columns: &mut Vec<I>,
        text: &[u8],
        from: usize,
        meaning: Meaning,
    ) -> Result<(), Stop> {
        let mut at = from;
        while at < text.len() {
            let line = at;
            while is_separator(text[at]) && !matches!(text[at], b'\n' | b'#') {
                at += 1;
            }
            if !matches!(text[at], b'\n' | b'#') {
                at = self.row(columns, text, line, at, meaning)?;
            }
            if text[at] == b'#' {
                at += text[at..].iter().position(|byte| *byte == b'\n').unwrap_or(0);
            }
            at += 1;
            if at - line > LONGEST_LINE {
                return Err(too_long(line));
            }
            self.lines += 1;
        }
        Ok(())
    }

    /// Reads the row whose label is at `at`, and says where it ends: at a comment or the end of the line.
    #[inline(always)]
    fn row<I: Column>(
        &mut self,
        columns: &mut Vec<I>,
        text: &[u8],
        line: usize,
        mut at: usize,
        meaning: Meaning,
    ) -> Result<usize, Stop> {
        let label;
        (label, at) = match short::<f64>(text, at) {
            Some((label, end)) if is_separator(text[end]) => (label, end),
            _ => long(text, at, "label")?,
        };
        let begun = columns.len();
        let (mut last, mut ascends, mut is_first) = (I::BEFORE, true, true);
        loop {
            // Behind a number there is a separator, mostly this one.
            if text[at] == b' ' {
                at += 1;
            } else if matches!(text[at], b'\n' | b'#') {
                break;
            } else {
                at = skip_blank(at);
            }
            let (count, number, mut behind) = few_digits(word(text, at));
            if count == 8 {
                behind = text[at + 8];
            }
            let number = if behind == b':' && count > 0 {
                at += count + 1;
                number
            } else if is_separator(text[at]) {
                continue;
            } else {
                match index(text, at, is_first)? {
                    (Some(number), end) => {
                        at = end;
                        number
                    }
                    (None, end) => {
                        (at, is_first) = (end, false);
                        continue;
                    }
                }
            };
            is_first = false;
            let Some(column) = I::of(number, meaning.shift) else {
                // The widest have room for whatever `index` lets through.
                columns.truncate(begun);
                self.values.truncate(begun);
                return Err(Stop::Wide(line));
            };
            ascends &= column > last;
            last = column;
            let value;
            (value, at) = match short::<S>(text, at) {
                Some((value, end)) if is_separator(text[end]) => (value, end),
                _ => long(text, at, "value")?,
            };
            columns.push(column);
            self.values.push(value);
        }
        let repeats = !ascends && {
            sort(&mut columns[begun..], &mut self.values[begun..]).map_err(Stop::Memory)?;
            columns[begun..].windows(2).any(|pair| pair[0] == pair[1])
        };
        if let (Some(least), Some(largest)) = (columns.get(begun), columns.last()) {
            let (least, largest) = (least.wide(), largest.wide());
            if repeats || (least < 0 && meaning.refuses_0) || largest >= meaning.n_features {
                return Err(wrong_index(text, line, meaning));
            }
            self.cover(least, largest);
        }
        self.labels.push(label);
        // A line of 16 MB has fewer features than 2^32.
        self.lengths.push((columns.len() - begun) as u32);
        Ok(at)
    }
}

/// So that processors guess, and need not wait for the byte to know where they go on.
#[cold]
#[inline(never)]
fn skip_blank(at: usize) -> usize {
    at + 1
}

/// Puts the features of a row in order.
#[cold]
fn sort<S: Decimal, I: Column>(columns: &mut [I], values: &mut [S]) -> Result<(), Error> {
    let mut features = Vec::new();
    room(&mut features, columns.len())?;
    features.extend(columns.iter().copied().zip(values.iter().copied()));
    features.sort_unstable_by_key(|(column, _)| *column);
    for ((column, value), sorted) in columns.iter_mut().zip(values).zip(features) {
        (*column, *value) = sorted;
    }
    Ok(())
}
