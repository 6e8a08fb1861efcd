//! Examples from text in svmlight's format, which libsvm has, too: to rows at once, or in batches.
//!
//! ```text
//! line    = blank* [label (blank+ query)? (blank+ index ":" value)* blank*] ["#" anything] "\n"
//! label   = number                        value = number
//! index   = ["+"] digit+                  query = "qid:" anything but blanks, passed over
//! number  = ["+" | "-"] (digit+ ["." digit*] | "." digit+) [("e" | "E") ["+" | "-"] digit+]
//! blank   = space | tab | carriage return | vertical tab | form feed
//! ```
//!
//! The last line may lack its end, the first may begin with a byte-order mark. Indices may be in any order. They count from 0
//! or from 1 ([`Base`]), and are stored as i32 where those reach, as i64 otherwise.
//!
//! **Exact.** A value is the f32 or f64 nearest to the decimal that is written, and a label the nearest f64: for short
//! decimals by one product or quotient of two numbers that are exact, for others by `fast-float2` (numbers of 17 digits:
//! 16 ns each, the standard library 32 ns). An f32 is rounded once: now and then that is another number than the nearest
//! f64, rounded to f32, and the nearer one.
//!
//! **Refused**, with line and column ([`ErrorKind::Text`]): whatever is not of this form; numbers that
//! are NaN, infinite or too large for the type; an index twice in a row, as nobody knows which value is meant; an index
//! 0 where they count from 1, or beyond what `n_features` says; lines of more than 16 MB.
//!
//! **Cost.** O(bytes), and n log n in a row that is not in order. Memory that of the result, and two blocks: rows are read
//! to where they stay. On several threads pieces of a block are read side by side, each to rows of its own, and while the
//! pieces of the next block are read one of the threads puts them behind the others; so no bit depends on the threads. For
//! Python they are put into arrays of NumPy's instead (`places`), by two of the threads.
//! Memory depends on what the text holds and not on what it says: an index of 10^18 takes no more than another.
//!
//! Files are read, not mapped: whoever makes a mapped file shorter kills the process that reads it; packed files and pipes
//! have to be read in blocks anyway; and a block that is read again and again stays in a core's second cache.

mod batches;
mod faults;
mod lines;
mod number;
#[cfg(feature = "python")]
mod places;

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use crate::data::{Csr, Matrix};
use crate::error::{Error, ErrorKind};
use crate::scalar::Scalar;
use crate::{memory, threads};

pub use batches::Batches;
use lines::{Columns, Found, LONGEST_LINE, Meaning, Stop, room};
pub use number::Decimal;
#[cfg(feature = "python")]
pub(crate) use places::{Labels, Placer, Places, Slots};

/// Where indices begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Base {
    /// With 0 if that occurs anywhere, otherwise with 1.
    #[default]
    Auto,
    /// With 0.
    Zero,
    /// With 1, as the format wants it.
    One,
}

/// How a text is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Where indices begin.
    pub base: Base,
    /// The number of features; `None` for as many as the largest index asks for, 1 at least.
    pub n_features: Option<usize>,
}

/// Sparse rows that were read.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows<S> {
    /// The values of all rows, one row after the other.
    pub values: Vec<S>,
    /// The columns of these values, and where rows begin.
    pub indices: Indices,
    /// The labels.
    pub labels: Vec<f64>,
    /// The number of features.
    pub n_features: usize,
}

/// The columns of all values, ascending in each row; row i has those from `indptr[i]` to `indptr[i + 1]`.
#[derive(Clone, Debug, PartialEq)]
pub enum Indices {
    /// Where i32 reach for indices, their number, and the number of features.
    Narrow {
        /// Where rows begin and end, one more than there are rows.
        indptr: Vec<i32>,
        /// The columns.
        columns: Vec<i32>,
    },
    /// Where they do not.
    Wide {
        /// Where rows begin and end, one more than there are rows.
        indptr: Vec<i64>,
        /// The columns.
        columns: Vec<i64>,
    },
}

impl<S: Scalar> Rows<S> {
    /// The rows as a matrix, borrowed. Refused if there are none.
    pub fn matrix(&self) -> Result<Matrix<'_, S>, Error> {
        Ok(match &self.indices {
            Indices::Narrow { indptr, columns } => {
                Csr::new(indptr, columns, &self.values, self.n_features)?.into()
            }
            Indices::Wide { indptr, columns } => {
                Csr::new(indptr, columns, &self.values, self.n_features)?.into()
            }
        })
    }
}

/// Reads a file.
///
/// ```no_run
/// use pegasos::Examples;
/// use pegasos::svmlight::{self, Options};
///
/// let rows = svmlight::read::<f32>("train.svm", Options::default())?;
/// let classes: Vec<u32> = rows.labels.iter().map(|label| u32::from(*label > 0.0)).collect();
/// let data = Examples::new(rows.matrix()?, &classes, None)?;
/// # Ok::<(), pegasos::Error>(())
/// ```
///
/// # Errors
///
/// [`ErrorKind::Io`] if it cannot be read, [`ErrorKind::Text`] if it is not in this format: both name the file.
/// [`ErrorKind::Memory`] if its rows need more than there is.
pub fn read<S: Decimal>(path: impl AsRef<Path>, options: Options) -> Result<Rows<S>, Error> {
    let path = path.as_ref();
    let mut parser = Parser::new(options)?;
    let read = File::open(path).map_err(|error| failed(path, &error)).and_then(|file| {
        let mut file = BufReader::with_capacity(BLOCK, file);
        while fill(&mut parser, &mut file, path)? {}
        parser.finish()
    });
    read.map_err(|error| match error.kind().clone() {
        ErrorKind::Text { path: None, line, column, what } => {
            ErrorKind::Text { path: Some(path.to_owned()), line, column, what }.into()
        }
        _ => error,
    })
}

/// Whose memory it is, for errors.
pub(crate) const ROWS: &str = "the rows of the file";

/// Bytes that are read at a time.
const BLOCK: usize = 1 << 20;

/// Bytes of a piece of a block, about: one that a thread reads by itself.
pub(crate) const PIECE: usize = 1 << 17;

fn failed(path: &Path, error: &io::Error) -> Error {
    ErrorKind::Io { path: path.to_owned(), what: error.to_string() }.into()
}

/// Gives a parser what the source has next, and says whether there was anything.
fn fill<S: Decimal>(
    parser: &mut Parser<S>,
    source: &mut impl BufRead,
    path: &Path,
) -> Result<bool, Error> {
    let read = loop {
        match source.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(path, &error)),
            Ok([]) => return parser.end().map(|()| false),
            Ok(block) => {
                parser.push(block)?;
                break block.len();
            }
        }
    };
    source.consume(read);
    Ok(true)
}

fn check_known(base: Base) -> Result<(), Error> {
    match base {
        Base::Auto => Err(Error::parameter("base", base, "Zero or One for batches")),
        Base::Zero | Base::One => Ok(()),
    }
}

/// Takes text in blocks, cut anywhere, and hands out rows.
///
/// ```
/// use pegasos::svmlight::{Options, Parser};
///
/// let mut parser = Parser::<f32>::new(Options::default())?;
/// parser.push(b"+1 1:0.5 3:2\n-1 2:1")?;
/// parser.push(b"e-3")?;
/// let rows = parser.finish()?;
/// assert_eq!((rows.labels, rows.n_features), (vec![1.0, -1.0], 3));
/// assert_eq!(rows.values, [0.5, 2.0, 0.001]);
/// # Ok::<(), pegasos::Error>(())
/// ```
///
/// # Errors
///
/// Once something was wrong, every call says so again.
#[derive(Debug)]
pub struct Parser<S> {
    options: Options,
    meaning: Meaning,
    /// Rows that have found their place, those that were taken included.
    total: Found<S>,
    /// Rows that come behind them, by piece of the block that was last; and room for the pieces of the next.
    ready: Vec<Found<S>>,
    spare: Vec<Found<S>>,
    /// A line without its end.
    rest: Vec<u8>,
    /// Whether the first line was read.
    begun: bool,
    /// Rows that were taken, and their features.
    taken: (usize, usize),
    /// Columns to which 1 was added, as they count from 0 after all.
    settled: usize,
    wrong: Option<Error>,
}

/// What threads do side by side.
enum Task<'a, S> {
    /// Puts what is ready where it stays, and reads on behind it.
    Join(&'a mut Found<S>, &'a [Found<S>], &'a [u8]),
    /// Reads a piece by itself.
    Read(&'a mut Found<S>, &'a [u8]),
}

impl<S: Decimal> Parser<S> {
    /// For a text that is meant so.
    pub fn new(options: Options) -> Result<Self, Error> {
        const WANT: &str = "at least 1 and less than 2^63";
        let n_features = match options.n_features {
            None => i64::MAX,
            Some(n) => match i64::try_from(n) {
                Ok(n) if n > 0 => n,
                _ => return Err(Error::parameter("n_features", n, WANT)),
            },
        };
        let meaning = Meaning {
            shift: u64::from(options.base != Base::Zero),
            refuses_0: options.base == Base::One,
            n_features,
        };
        Ok(Parser {
            options,
            meaning,
            total: Found::default(),
            ready: Vec::new(),
            spare: Vec::new(),
            rest: Vec::new(),
            begun: false,
            taken: (0, 0),
            settled: 0,
            wrong: None,
        })
    }

    /// Reads what comes next, on the threads of the current rayon pool.
    pub fn push(&mut self, block: &[u8]) -> Result<(), Error> {
        self.careful(|parser| {
            parser.drop_taken();
            let mut block = block;
            if !parser.rest.is_empty() {
                let end = block.iter().position(|byte| *byte == b'\n').map(|end| end + 1);
                let (line, behind) = block.split_at(end.unwrap_or(block.len()));
                parser.keep(line)?;
                if end.is_none() {
                    return Ok(());
                }
                parser.last_line()?;
                block = behind;
            }
            let (lines, line) = whole_lines(block);
            parser.lines(lines)?;
            parser.keep(line)
        })
    }

    /// Says that nothing comes any more: the last line may lack its end.
    pub fn end(&mut self) -> Result<(), Error> {
        self.careful(|parser| {
            if !parser.rest.is_empty() {
                parser.keep(b"\n")?;
                parser.last_line()?;
            }
            parser.join()
        })
    }

    /// The number of rows that were read and not taken.
    pub fn n_rows(&self) -> usize {
        let ready = self.ready.iter().map(|found| found.labels.len());
        self.total.labels.len() + ready.sum::<usize>() - self.taken.0
    }

    /// How many features the indices that were read ask for, and whether they count from 0; 1 and false if there are none.
    pub fn seen(&self) -> (usize, bool) {
        let ready = self.ready.iter().filter_map(|found| found.range);
        let all = ready.chain(self.total.range).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        let (least, largest) = all.unwrap_or((0, 0));
        // An index of 0 was made -1.
        let is_0 = least < 0;
        ((largest + 1) as usize + usize::from(is_0), is_0 || self.options.base == Base::Zero)
    }

    /// The first `n` rows, or all there are, which are forgotten. Not for [`Base::Auto`], which later rows may decide.
    pub fn take(&mut self, n: usize) -> Result<Rows<S>, Error> {
        check_known(self.options.base)?;
        self.careful(|parser| parser.take_rows(n))
    }

    /// [`take`](Self::take), of the rows before what was wrong, too.
    fn take_rows(&mut self, n: usize) -> Result<Rows<S>, Error> {
        self.join()?;
        let (row, from) = self.taken;
        let last = row + n.min(self.n_rows());
        let n_entries = self.total.lengths[row..last].iter().map(|n| *n as usize).sum::<usize>();
        let end = from + n_entries;
        let n_features = self.n_features()?;
        let lengths = &self.total.lengths[row..last];
        let rows = Rows {
            values: copied(&self.total.values[from..end])?,
            indices: match &self.total.columns {
                Columns::Narrow(columns) => {
                    indices(Columns::Narrow(copied(&columns[from..end])?), lengths, n_features)
                }
                Columns::Wide(columns) => {
                    indices(Columns::Wide(copied(&columns[from..end])?), lengths, n_features)
                }
            }?,
            labels: copied(&self.total.labels[row..last])?,
            n_features,
        };
        self.taken = (last, end);
        Ok(rows)
    }

    /// Forgets the rows that were read, but not what [`seen`](Self::seen) says of them.
    pub fn forget(&mut self) -> Result<(), Error> {
        self.careful(|parser| {
            parser.join()?;
            parser.taken = (parser.total.labels.len(), parser.total.values.len());
            parser.drop_taken();
            Ok(())
        })
    }

    /// All rows that are left. What [`end`](Self::end) does is done.
    pub fn finish(mut self) -> Result<Rows<S>, Error> {
        self.end()?;
        self.drop_taken();
        while self.settle(usize::MAX) {}
        let n_features = self.n_features()?;
        let Found { mut values, columns, lengths, mut labels, .. } = self.total;
        values.shrink_to_fit();
        labels.shrink_to_fit();
        let indices = indices(columns, &lengths, n_features)?;
        Ok(Rows { values, indices, labels, n_features })
    }

    /// Adds 1 to so many columns more, if they turn out to count from 0, and says whether any are left. [`finish`](Self::finish)
    /// does it, for those who do not want it piece by piece.
    pub(crate) fn settle(&mut self, n: usize) -> bool {
        if self.options.base != Base::Auto || !self.seen().1 {
            return false;
        }
        let begin = self.settled;
        let end = begin + n.min(self.total.columns.len() - begin);
        match &mut self.total.columns {
            Columns::Narrow(columns) => {
                columns[begin..end].iter_mut().for_each(|column| *column += 1)
            }
            Columns::Wide(columns) => {
                columns[begin..end].iter_mut().for_each(|column| *column += 1)
            }
        }
        self.settled = end;
        end < self.total.columns.len()
    }

    fn n_features(&self) -> Result<usize, Error> {
        let (seen, from_0) = self.seen();
        match self.options.n_features {
            None => Ok(seen),
            Some(n) if n >= seen => Ok(n),
            Some(n) => {
                let largest = seen - usize::from(from_0);
                let want = "larger than all indices, which count from 0 as 0 occurs";
                let got = format_args!("{n} with an index {largest}").to_string();
                Err(ErrorKind::Parameter { name: "n_features", value: got, want }.into())
            }
        }
    }

    /// Does something, unless it went wrong before; and remembers if it does.
    fn careful<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        if let Some(error) = &self.wrong {
            return Err(error.clone());
        }
        let done = f(self);
        self.wrong = done.as_ref().err().cloned();
        done
    }

    fn drop_taken(&mut self) {
        let (rows, features) = std::mem::take(&mut self.taken);
        self.total.drop_first(rows, features);
    }

    /// Keeps the beginning of a line.
    fn keep(&mut self, part: &[u8]) -> Result<(), Error> {
        if self.rest.len() + part.len() > LONGEST_LINE {
            self.join()?;
            return Err(error(faults::too_long(0), &[], self.total.lines));
        }
        room(&mut self.rest, part.len())?;
        self.rest.extend_from_slice(part);
        Ok(())
    }

    /// Reads the line that was kept.
    fn last_line(&mut self) -> Result<(), Error> {
        let mut line = std::mem::take(&mut self.rest);
        let read = self.lines(&line);
        line.clear();
        self.rest = line;
        read
    }

    /// Takes the byte-order mark off the first line.
    fn begin(&mut self, text: &mut &[u8]) {
        if !std::mem::replace(&mut self.begun, true) {
            *text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
        }
    }

    /// Reads whole lines.
    fn lines(&mut self, mut text: &[u8]) -> Result<(), Error> {
        if text.is_empty() {
            return Ok(());
        }
        self.begin(&mut text);
        let threads = threads::count();
        if threads > 1 && text.len() > PIECE {
            return self.lines_side_by_side(text, threads);
        }
        self.join()?;
        let read = self.total.read(text, self.meaning);
        read.map_err(|stop| {
            self.total.keep_rows();
            error(stop, text, self.total.lines)
        })
    }

    fn lines_side_by_side(&mut self, text: &[u8], threads: usize) -> Result<(), Error> {
        // The first share goes where it stays at once. It is less than a thread's part, which has to join as well.
        let (first, behind) = cut(text, 3 * text.len() / (4 * threads));
        let pieces = pieces(behind);
        self.spare.resize_with(pieces.len().max(self.spare.len()), Found::default);
        self.spare.iter_mut().for_each(Found::clear);
        let mut tasks = vec![Task::Join(&mut self.total, &self.ready, first)];
        tasks.extend(
            self.spare.iter_mut().zip(&pieces).map(|(found, text)| Task::Read(found, text)),
        );
        let meaning = self.meaning;
        let read = threads::side_by_side(&mut tasks, |_, task| match task {
            Task::Join(total, ready, first) => {
                ready.iter().try_for_each(|found| total.append(found)).map_err(Stop::Memory)?;
                total.read(first, meaning)
            }
            Task::Read(found, text) => found.read(text, meaning),
        });
        std::mem::swap(&mut self.ready, &mut self.spare);
        let mut lines = 0;
        let texts = std::iter::once(first).chain(pieces);
        let found = std::iter::once(&self.total).chain(&self.ready);
        let mut wrong = None;
        for (k, ((read, text), found)) in read.into_iter().zip(texts).zip(found).enumerate() {
            lines += found.lines;
            if let Err(stop) = read {
                wrong = Some((k, error(stop, text, lines)));
                break;
            }
        }
        let Some((k, error)) = wrong else {
            return Ok(());
        };
        // Rows before it are right.
        self.ready.truncate(k);
        self.ready.last_mut().unwrap_or(&mut self.total).keep_rows();
        Err(error)
    }

    /// Puts the rows of pieces behind the others.
    fn join(&mut self) -> Result<(), Error> {
        for found in &mut self.ready {
            self.total.append(found)?;
            found.clear();
        }
        Ok(())
    }
}

/// The error for what has stopped the reading of `text`, behind so many lines.
fn error(stop: Stop, text: &[u8], lines: usize) -> Error {
    match stop {
        Stop::Memory(error) => error,
        Stop::Fault { at, what } => {
            let before = &text[..at.min(text.len())];
            let begin = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            let column = at - begin + 1;
            ErrorKind::Text { path: None, line: lines + 1, column, what }.into()
        }
        Stop::Wide(_) => unreachable!("columns are made wide where they are read"),
    }
}

/// Whole lines, and the beginning of the one behind them.
fn whole_lines(text: &[u8]) -> (&[u8], &[u8]) {
    text.split_at(text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1))
}

/// Whole lines of about so many bytes, and those behind them.
fn cut(text: &[u8], about: usize) -> (&[u8], &[u8]) {
    let behind = &text[about.min(text.len())..];
    let more = behind.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    text.split_at(text.len() - behind.len() + more)
}

fn pieces(mut text: &[u8]) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    while !text.is_empty() {
        let (piece, behind) = cut(text, PIECE);
        pieces.push(piece);
        text = behind;
    }
    pieces
}

fn copied<T: Clone>(slice: &[T]) -> Result<Vec<T>, Error> {
    let mut copy = Vec::new();
    room(&mut copy, slice.len())?;
    copy.extend_from_slice(slice);
    Ok(copy)
}

/// Columns, with the ends of the rows in the same type.
fn indices(mut columns: Columns, lengths: &[u32], n_features: usize) -> Result<Indices, Error> {
    const NARROW: usize = i32::MAX as usize;
    if columns.len() > NARROW || n_features > NARROW {
        columns.widen()?;
    }
    Ok(match columns {
        Columns::Narrow(mut columns) => {
            columns.shrink_to_fit();
            let mut indptr = memory::zeros(ROWS, &[lengths.len() + 1])?;
            sums(lengths, &mut indptr, |so_far: i32, n| so_far + n as i32);
            Indices::Narrow { indptr, columns }
        }
        Columns::Wide(mut columns) => {
            columns.shrink_to_fit();
            let mut indptr = memory::zeros(ROWS, &[lengths.len() + 1])?;
            sums(lengths, &mut indptr, |so_far: i64, n| so_far + i64::from(n));
            Indices::Wide { indptr, columns }
        }
    })
}

fn sums<I: Copy + Default>(lengths: &[u32], sums: &mut [I], add: impl Fn(I, u32) -> I) {
    let mut so_far = I::default();
    for (sum, length) in sums[1..].iter_mut().zip(lengths) {
        so_far = add(so_far, *length);
        *sum = so_far;
    }
}
