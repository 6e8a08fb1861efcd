//! Examples: rows, class numbers, weights; and what is wrong with them, if anything is.

use crate::data::Matrix;
use crate::error::Error;
use crate::scalar::Scalar;
use crate::simd;

/// Rows with their class numbers and, if given, their weights.
///
/// ```
/// use pegasos::{Dense, Examples};
///
/// let x = Dense::new(&[0.5, -1.0, 2.0], 3, 1)?;
/// let data = Examples::new(x, &[0, 0, 1], None)?;
/// assert_eq!(data.len(), 3);
/// # Ok::<(), pegasos::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Examples<'a, S> {
    x: Matrix<'a, S>,
    y: &'a [u32],
    weight: Option<&'a [f64]>,
}

impl<'a, S: Scalar> Examples<'a, S> {
    /// Joins rows, class numbers (one per row) and weights (one per row, finite, >= 0, one of them
    /// > 0; `None` for ones). An example of weight s counts s times in the mean loss. O(n_rows).
    pub fn new(
        x: impl Into<Matrix<'a, S>>,
        y: &'a [u32],
        weight: Option<&'a [f64]>,
    ) -> Result<Self, Error> {
        let x = x.into();
        let n = x.n_rows();
        let lengths = [("y", Some(y.len())), ("sample_weight", weight.map(<[f64]>::len))];
        for (name, len) in lengths {
            if let Some(len) = len.filter(|&len| len != n) {
                return Err(Error::shape(name, format_args!("one entry per row of X, {n}"), len));
            }
        }
        if let Some(weight) = weight {
            let wrong = |w: &&f64| !(**w >= 0.0 && w.is_finite());
            if let Some(w) = weight.iter().find(wrong) {
                return Err(Error::parameter("sample_weight", w, ">= 0 and finite everywhere"));
            }
            if !weight.is_empty() && weight.iter().all(|&w| w == 0.0) {
                return Err(Error::parameter("sample_weight", 0.0, "> 0 somewhere"));
            }
        }
        Ok(Examples { x, y, weight })
    }

    /// Joins what was checked by [`new`](Examples::new) when somebody borrowed it.
    #[cfg(feature = "python")]
    pub(crate) fn checked_before(
        x: Matrix<'a, S>,
        y: &'a [u32],
        weight: Option<&'a [f64]>,
    ) -> Self {
        Examples { x, y, weight }
    }

    /// Joins other rows, as many, with these labels and weights.
    pub(crate) fn with_rows<'b>(&self, x: Matrix<'b, S>) -> Examples<'b, S>
    where
        'a: 'b,
    {
        debug_assert_eq!(x.n_rows(), self.len());
        Examples { x, y: self.y, weight: self.weight }
    }

    /// The rows.
    pub fn rows(&self) -> &Matrix<'a, S> {
        &self.x
    }

    /// Number of examples.
    pub fn len(&self) -> usize {
        self.y.len()
    }

    /// Whether there is no example.
    pub fn is_empty(&self) -> bool {
        self.y.is_empty()
    }

    /// The mean of the weights; 1 where none are given. O(n_rows).
    pub fn mean_weight(&self) -> f64 {
        self.weight.map_or(1.0, |w| w.iter().sum::<f64>() / w.len().max(1) as f64)
    }

    /// The largest weight: 1 where none are given.
    pub fn heaviest(&self) -> f64 {
        self.weight.map_or(1.0, |w| w.iter().copied().fold(0.0, f64::max))
    }

    /// Refuses data without examples, of which there is no mean.
    pub(crate) fn check_some(&self) -> Result<(), Error> {
        if self.is_empty() { Err(Error::shape("X", "at least one row", 0)) } else { Ok(()) }
    }

    /// Refuses data of another number of examples than there are dual variables for.
    pub(crate) fn check_len(&self, n_examples: usize) -> Result<(), Error> {
        if self.len() != n_examples {
            let want = format_args!("{n_examples} rows, as there are dual variables");
            return Err(Error::shape("X", want, self.len()));
        }
        Ok(())
    }

    pub(crate) fn labels(&self) -> &'a [u32] {
        self.y
    }

    #[inline]
    pub(crate) fn label(&self, i: usize) -> u32 {
        self.y[i]
    }

    /// The label, if a loss for so many classes knows it.
    #[inline(always)]
    pub(crate) fn check_label(&self, i: usize, classes: u32) -> Result<u32, Error> {
        let y = self.y[i];
        if y < classes { Ok(y) } else { Err(Error::index("y", y, classes as usize)) }
    }

    /// Refuses labels that a loss for so many classes does not know. O(n_rows).
    pub(crate) fn check_labels(&self, classes: u32) -> Result<(), Error> {
        (0..self.len()).try_for_each(|i| self.check_label(i, classes).map(drop))
    }

    #[inline]
    pub(crate) fn weight(&self, i: usize) -> f64 {
        self.weight.map_or(1.0, |w| w[i])
    }

    #[inline(always)]
    pub(crate) fn prefetch_label(&self, i: usize) {
        simd::prefetch(self.y, i);
        if let Some(weight) = self.weight {
            simd::prefetch(weight, i);
        }
    }

    /// Why the score of row `i` is not finite.
    pub(crate) fn diagnose(&self, i: usize) -> Error {
        diagnose(&self.x, i)
    }

    /// [`check`](Examples::check) of one row, for who is about to keep it. O(nnz).
    pub(crate) fn check_row(&self, i: usize) -> Result<(), Error> {
        let row = self.x.row(i);
        // False for NaN too.
        let fits = row.is_within(self.x.n_features()) && row.plain_square() <= S::LARGEST_NORM2;
        if fits { Ok(()) } else { Err(self.diagnose(i)) }
    }

    /// Checks every value and column index of these rows, and that no row is so large that weights
    /// overflow. O(nnz), at the speed of memory. Training finds bad data by itself, but only when it
    /// comes to it; this finds it before w has moved.
    pub fn check(&self, rows: std::ops::Range<usize>) -> Result<(), Error> {
        self.largest(rows).map(drop)
    }

    /// [`check`](Examples::check); returns a number that no row's `<x, x>` exceeds, nor what columns that occur
    /// several times may make of it on the way.
    pub(crate) fn largest(&self, rows: std::ops::Range<usize>) -> Result<f64, Error> {
        self.x.check_range(&rows)?;
        let d = self.x.n_features();
        let mut largest: f64 = 0.0;
        for i in rows {
            let (mut norm2, mut outside, mut stored) = (0.0, false, 0);
            // In ascending order no column occurs twice.
            let (mut ascends, mut next) = (true, 0);
            self.x.row(i).for_each(|j, x| {
                outside |= j >= d;
                norm2 += x * x;
                stored += 1;
                ascends &= j >= next;
                next = j.wrapping_add(1);
            });
            // False for NaN too.
            let fits = norm2 <= S::LARGEST_NORM2;
            if outside || !fits {
                return Err(self.diagnose(i));
            }
            largest = largest.max(if ascends { norm2 } else { norm2 * f64::from(stored) });
        }
        Ok(largest)
    }
}

/// Why the score of a row is not finite.
pub(crate) fn diagnose<S: Scalar>(x: &Matrix<'_, S>, i: usize) -> Error {
    let d = x.n_features();
    let mut error = None;
    x.row(i).for_each(|j, x| {
        if error.is_none() && j >= d {
            // Negative indices arrive here as their two's complement.
            error = Some(Error::index("X.indices", j as i64, d));
        } else if error.is_none() && !x.is_finite() {
            error = Some(Error::non_finite("X", format_args!("row {i}, column {j} holds {x}")));
        }
    });
    error.unwrap_or_else(|| {
        Error::non_finite("X", format_args!("row {i} makes scores or weights overflow"))
    })
}

/// `<x, x>` of these rows, once their columns are checked.
pub(crate) fn squared_norms<S: Scalar>(
    x: &Matrix<'_, S>,
    rows: std::ops::Range<usize>,
) -> Result<Vec<f64>, Error> {
    let d = x.n_features();
    let norm2 = |i: usize| {
        let mut outside = false;
        x.row(i).for_each(|j, _| outside |= j >= d);
        if outside { Err(diagnose(x, i)) } else { Ok(x.row(i).norm2()) }
    };
    rows.map(norm2).collect()
}

/// Refuses the first of these scores, some for each of the rows from `first` on, that is not finite.
pub(crate) fn check_scores<S: Scalar>(
    x: &Matrix<'_, S>,
    first: usize,
    outputs: usize,
    scores: &[f64],
) -> Result<(), Error> {
    match scores.iter().position(|score| !score.is_finite()) {
        Some(at) => Err(diagnose(x, first + at / outputs)),
        None => Ok(()),
    }
}
