//! Rows of a source, some at a time.

use std::io::BufRead;
use std::path::Path;

use super::number::Decimal;
use super::{Options, Parser, Rows, check_known, fill};
use crate::error::Error;

/// Batches of rows from any source, in constant memory; an iterator. An error comes last, after the rows before it.
///
/// ```
/// use pegasos::svmlight::{Base, Batches, Options};
///
/// let text = "+1 1:0.5 3:2 # a remark\n\n-1 2:1e-3\n+1 1:7\n";
/// let options = Options { base: Base::One, n_features: Some(3) };
/// let mut batches = Batches::<_, f64>::new(text.as_bytes(), 2, options)?;
/// let first = batches.next().expect("a batch")?;
/// assert_eq!((first.labels, first.values), (vec![1.0, -1.0], vec![0.5, 2.0, 0.001]));
/// assert_eq!(batches.next().expect("a batch")?.values, [7.0]);
/// assert!(batches.next().is_none());
/// # Ok::<(), pegasos::Error>(())
/// ```
#[derive(Debug)]
pub struct Batches<R, S> {
    source: R,
    size: usize,
    /// None once an error was told.
    parser: Option<Parser<S>>,
    /// What is to be told after the rows that are there.
    error: Option<Error>,
}

impl<R: BufRead, S: Decimal> Batches<R, S> {
    /// Of `size` rows each; the last may have fewer. Base and number of features must be known: batches must agree on them.
    pub fn new(source: R, size: usize, options: Options) -> Result<Self, Error> {
        if size == 0 {
            return Err(Error::parameter("size", size, "1 or more"));
        }
        if options.n_features.is_none() {
            return Err(Error::parameter("n_features", options.n_features, "given for batches"));
        }
        check_known(options.base)?;
        Ok(Batches { source, size, parser: Some(Parser::new(options)?), error: None })
    }

    fn batch(&mut self, parser: &mut Parser<S>) -> Result<Rows<S>, Error> {
        while self.error.is_none() && parser.n_rows() < self.size {
            match fill(parser, &mut self.source, Path::new("the source")) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) if parser.n_rows() == 0 => return Err(error),
                Err(error) => self.error = Some(error),
            }
        }
        parser.take_rows(self.size)
    }
}

impl<R: BufRead, S: Decimal> Iterator for Batches<R, S> {
    type Item = Result<Rows<S>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut parser = self.parser.take()?;
        if let Some(error) = self.error.take_if(|_| parser.n_rows() == 0) {
            return Some(Err(error));
        }
        let batch = self.batch(&mut parser);
        if batch.is_ok() {
            self.parser = Some(parser);
        }
        match batch {
            Ok(rows) if rows.labels.is_empty() => None,
            batch => Some(batch),
        }
    }
}
