//! What can go wrong, and how it is said.

use std::fmt::{Debug, Display};
use std::path::PathBuf;

/// Everything a caller can get wrong. Its text names the argument, the value it had and what would
/// be right; [`kind`](Error::kind) is for code.
///
/// ```
/// use pegasos::{ErrorKind, Params};
///
/// let error = Params { lambda: -1.0, ..Params::default() }.check().unwrap_err();
/// assert_eq!(error.to_string(), "lambda must be > 0 and finite, got -1.0");
/// assert!(matches!(error.kind(), ErrorKind::Parameter { name: "lambda", .. }));
/// ```
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{kind}")]
pub struct Error {
    kind: ErrorKind,
}

/// The kinds of [`Error`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A parameter lies outside its range.
    #[error("{name} must be {want}, got {value}")]
    Parameter {
        /// The parameter's name.
        name: &'static str,
        /// The value it had.
        value: String,
        /// What would be right.
        want: &'static str,
    },
    /// Two sizes that must agree do not.
    #[error("{name} must have {want}, got {got}")]
    Shape {
        /// The argument.
        name: &'static str,
        /// The size it should have, in words.
        want: String,
        /// The size it has, in words.
        got: String,
    },
    /// A row number or a column index points outside the data.
    #[error("{name} must lie in 0..{bound}, got {value}")]
    Index {
        /// The array that holds the index.
        name: &'static str,
        /// The index found.
        value: String,
        /// One past the largest index allowed.
        bound: usize,
    },
    /// A number is NaN or infinite, or so large that a score overflows.
    #[error("{name} must be finite and of a scale whose products are finite: {found}")]
    NonFinite {
        /// The argument.
        name: &'static str,
        /// Where, and what was found.
        found: String,
    },
    /// A file does not hold a model, or not a whole one.
    #[error("not a model file of pegasos: {what}")]
    File {
        /// What is wrong with it.
        what: String,
    },
    /// Something needs more memory than there is. A `MemoryError` in Python.
    #[error("{name} must fit into memory, got {size}")]
    Memory {
        /// What needs it.
        name: &'static str,
        /// How much, in words.
        size: String,
    },
    /// A text is not in its format.
    #[error("{}line {line}, column {column}: {what}", in_front(path))]
    Text {
        /// The file, if it is known.
        path: Option<PathBuf>,
        /// The line, counted from 1.
        line: usize,
        /// The byte of the line, counted from 1.
        column: usize,
        /// What was found there, and what would be right.
        what: String,
    },
    /// A file cannot be read or written. An `OSError` in Python.
    #[error("{}: {what}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        what: String,
    },
}

fn in_front(path: &Option<PathBuf>) -> String {
    path.as_ref().map(|path| format!("{}: ", path.display())).unwrap_or_default()
}

impl Error {
    /// What went wrong, for code to match on.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    pub(crate) fn parameter(name: &'static str, value: impl Debug, want: &'static str) -> Self {
        // `Display` writes 1e-300 with three hundred zeros.
        let value = format!("{value:?}");
        ErrorKind::Parameter { name, value, want }.into()
    }

    pub(crate) fn shape(name: &'static str, want: impl Display, got: impl Display) -> Self {
        let (want, got) = (want.to_string(), got.to_string());
        ErrorKind::Shape { name, want, got }.into()
    }

    pub(crate) fn index(name: &'static str, value: impl Display, bound: usize) -> Self {
        let value = value.to_string();
        ErrorKind::Index { name, value, bound }.into()
    }

    pub(crate) fn non_finite(name: &'static str, found: impl Display) -> Self {
        let found = found.to_string();
        ErrorKind::NonFinite { name, found }.into()
    }

    pub(crate) fn memory(name: &'static str, bytes: usize, sizes: &[usize]) -> Self {
        let total = sizes.iter().fold(bytes as f64, |product, n| product * *n as f64);
        let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
        let size = format!("{} numbers of {bytes} bytes, {:.1} GB", sizes.join(" x "), total / 1e9);
        ErrorKind::Memory { name, size }.into()
    }
}

/// Refuses parts that do not fit together: the name of each, its length, and what that should be.
pub(crate) fn check_lengths(parts: &[(&'static str, usize, usize)]) -> Result<(), Error> {
    match parts.iter().find(|(_, len, want)| len != want) {
        Some((name, len, want)) => Err(Error::shape(name, format_args!("{want} entries"), len)),
        None => Ok(()),
    }
}

/// Refuses an `out` of another size than the product of these.
pub(crate) fn check_out(sizes: &[usize], got: usize) -> Result<(), Error> {
    let want = sizes.iter().try_fold(1_usize, |product, n| product.checked_mul(*n));
    if want == Some(got) {
        return Ok(());
    }
    let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
    Err(Error::shape("out", format_args!("{} entries", sizes.join(" x ")), got))
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Error { kind }
    }
}
