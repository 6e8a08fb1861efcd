//! A metric: the linear map that rows go through before a kernel looks at them.
//!
//! With `z = A x` the kernel `exp(-gamma ||z - z'||^2)` is `exp(-gamma (x - x')' M (x - x'))`, `M = A'A`. So a machine with
//! another metric is a machine on other rows: whatever holds for these, certificates too, holds for it. A row costs
//! O(dimension n_features), or O(stored features) where A is diagonal, once.
//!
//! Where M comes from: with G the [`Agop`](crate::Agop) of a model on rows z, that in the features x is `A' G A`, and the
//! next A a power of it. That is the recursive feature machine of A. Radhakrishnan, D. Beaglehole, P. Pandit, M. Belkin
//! (Science 383, 2024); here each of its rounds is a machine on a budget, not a system of as many equations as examples.

use std::ops::Range;

use crate::data::{Dense, Matrix, Row, Window, same_features};
use crate::error::{Error, check_out};
use crate::examples::diagnose;
use crate::memory;
use crate::scalar::Scalar;
use crate::simd::WIDTH;
use crate::threads::side_by_side;
use crate::vectors::{GROUP, Layout, Vectors};

/// A linear map of rows.
///
/// ```
/// use pegasos::{Dense, Matrix, Metric};
///
/// let x = Matrix::from(Dense::new(&[1.0, 2.0, 3.0, 4.0_f64], 2, 2)?);
/// let metric = Metric::full(&[1.0, 1.0, 0.0, 2.0], 2)?;
/// let mut z = [0.0; 4];
/// metric.map(&x, 0..2, &mut z)?;
/// assert_eq!(z, [3.0, 4.0, 7.0, 8.0]);
/// # Ok::<(), pegasos::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Metric<S> {
    n_features: usize,
    map: Map<S>,
}

#[derive(Clone, Debug)]
enum Map<S> {
    Diagonal(Vec<S>),
    /// The rows of A.
    Full(Vectors<S>),
}

impl<S: Scalar> Metric<S> {
    /// Multiplies each feature by a number of its own.
    pub fn diagonal(factors: &[f64]) -> Result<Self, Error> {
        let factors = narrow(factors, factors.len())?;
        Ok(Metric { n_features: factors.len(), map: Map::Diagonal(factors) })
    }

    /// The map of a matrix A, dimension x `n_features`, row after row.
    pub fn full(a: &[f64], n_features: usize) -> Result<Self, Error> {
        let values = narrow(a, n_features)?;
        let rows = Dense::new(&values, values.len() / n_features, n_features)?;
        let dimension = a.len() / n_features;
        let mut vectors = Vectors::new(n_features, Layout::Dense);
        vectors.reserve(dimension)?;
        (0..dimension).for_each(|i| vectors.push(i, rows.row(i)));
        Ok(Metric { n_features, map: Map::Full(vectors) })
    }

    /// Whether each feature is multiplied by a number of its own.
    pub fn is_diagonal(&self) -> bool {
        matches!(self.map, Map::Diagonal(_))
    }

    /// How many features mapped rows have.
    pub fn dimension(&self) -> usize {
        match &self.map {
            Map::Diagonal(factors) => factors.len(),
            Map::Full(vectors) => vectors.len(),
        }
    }

    /// The factors, or the rows of A one after the other.
    #[cfg(feature = "files")]
    pub(crate) fn numbers(&self) -> Result<Vec<S>, Error> {
        match &self.map {
            Map::Diagonal(factors) => Ok(factors.clone()),
            Map::Full(vectors) => {
                let mut rows = memory::zeros("the metric", &[vectors.len(), self.n_features])?;
                for (i, row) in rows.chunks_mut(self.n_features).enumerate() {
                    vectors.write(i, row);
                }
                Ok(rows)
            }
        }
    }

    /// Writes `A x` of these rows, one after the other, on the threads of the current rayon pool. Refuses rows that are not
    /// there or not finite, and an `out` that is not of their size.
    pub fn map(&self, x: &Matrix<'_, S>, rows: Range<usize>, out: &mut [S]) -> Result<(), Error> {
        x.check_range(&rows)?;
        check_out(&[rows.len(), self.dimension()], out.len())?;
        self.map_these(x, &rows.collect::<Vec<_>>(), out)
    }

    /// [`map`](Metric::map) of rows by number.
    fn map_these(&self, x: &Matrix<'_, S>, rows: &[usize], out: &mut [S]) -> Result<(), Error> {
        self.check_features(x.n_features())?;
        let each = self.dimension();
        let mut tasks: Vec<(&[usize], &mut [S])> =
            rows.chunks(GROUP).zip(out.chunks_mut(GROUP * each)).collect();
        side_by_side(&mut tasks, |_, (rows, out)| self.map_group(x, rows, out));
        match out.iter().position(|value| !value.to_f64().is_finite()) {
            Some(at) => Err(diagnose(x, rows[at / each])),
            None => Ok(()),
        }
    }

    /// Refuses rows of another number of features.
    pub(crate) fn check_features(&self, n_features: usize) -> Result<(), Error> {
        same_features(self.n_features, n_features)
    }

    /// Of rows that one task takes; not finite where they are not.
    pub(crate) fn map_group(&self, x: &Matrix<'_, S>, rows: &[usize], out: &mut [S]) {
        let each = self.dimension();
        match &self.map {
            Map::Diagonal(factors) => {
                for (i, out) in rows.iter().zip(out.chunks_mut(each)) {
                    out.fill(S::default());
                    let inside = x.row(*i).add_to(out);
                    for (value, factor) in out.iter_mut().zip(factors) {
                        *value = S::from_f64(value.to_f64() * factor.to_f64());
                    }
                    if !inside {
                        out.fill(S::from_f64(f64::NAN));
                    }
                }
            }
            Map::Full(vectors) => {
                // Products fill whole blocks.
                let stride = each.next_multiple_of(WIDTH);
                let mut wide = vec![S::default(); rows.len() * stride];
                vectors.products(x, rows, 0..each, &mut wide, stride);
                for (wide, out) in wide.chunks(stride).zip(out.chunks_mut(each)) {
                    out.copy_from_slice(&wide[..each]);
                }
            }
        }
    }

    /// Writes what the stored features of these sparse rows are mapped to, in the order in which they are stored; of more than
    /// `out` has room for, the first. Refuses metrics that are not diagonal, and rows that are dense, not there or not finite.
    pub fn map_stored(
        &self,
        x: &Matrix<'_, S>,
        rows: Range<usize>,
        out: &mut [S],
    ) -> Result<(), Error> {
        self.check_features(x.n_features())?;
        x.check_range(&rows)?;
        let Map::Diagonal(factors) = &self.map else {
            return Err(Error::parameter("metric", "full", "diagonal for sparse rows"));
        };
        let mut out = out.iter_mut();
        for i in rows {
            let mut sound = true;
            let row = x.row(i);
            if let Row::Dense(_) = row {
                return Err(Error::parameter(
                    "X",
                    "dense",
                    "sparse where stored features are mapped",
                ));
            }
            row.for_each(|j, x| {
                let value = factors.get(j).map_or(f64::NAN, |factor| x * factor.to_f64());
                let value = S::from_f64(value);
                sound &= value.to_f64().is_finite();
                if let Some(out) = out.next() {
                    *out = value;
                }
            });
            if !sound {
                return Err(diagnose(x, i));
            }
        }
        Ok(())
    }
}

/// Rows that are mapped when they are needed, a window of them at a time.
#[derive(Debug)]
pub(crate) struct Mapped<S> {
    metric: Metric<S>,
    window: Window<S>,
}

impl<S: Scalar> Mapped<S> {
    /// Of so many rows.
    pub(crate) fn new(metric: Metric<S>, n_rows: usize) -> Result<Self, Error> {
        let window = Window::new(n_rows, metric.dimension(), 0)?;
        Ok(Mapped { metric, window })
    }

    /// A matrix that has these rows, mapped, under their numbers.
    pub(crate) fn load(
        &mut self,
        x: &Matrix<'_, S>,
        rows: &[usize],
    ) -> Result<Matrix<'_, S>, Error> {
        if x.n_rows() != self.window.n_rows() {
            let want = format_args!("{} rows, as there are to be mapped", self.window.n_rows());
            return Err(Error::shape("X", want, x.n_rows()));
        }
        let rows = self.window.open(rows);
        self.metric.map_these(x, &rows, &mut self.window.window)?;
        Ok(Matrix::Window(&self.window))
    }
}

/// Finite numbers, as many as a multiple of `n_features`, in the scalar.
fn narrow<S: Scalar>(values: &[f64], n_features: usize) -> Result<Vec<S>, Error> {
    if n_features == 0 || values.is_empty() || !values.len().is_multiple_of(n_features) {
        let want =
            format_args!("a multiple of n_features = {n_features} numbers, and one at least");
        return Err(Error::shape("metric", want, values.len()));
    }
    memory::check::<S>("the metric", &[values.len()])?;
    let narrow: Vec<S> = values.iter().map(|value| S::from_f64(*value)).collect();
    match narrow.iter().position(|value| !value.to_f64().is_finite()) {
        Some(at) => Err(Error::parameter("metric", values[at], "finite everywhere")),
        None => Ok(narrow),
    }
}
