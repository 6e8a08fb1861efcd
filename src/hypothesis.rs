//! What is trained: an element of a Hilbert space for each output.

use crate::data::Row;
use crate::error::Error;
use crate::scalar::Scalar;

/// One element w of a Hilbert space per output, kept as `w = a v` so that shrinking all of it costs
/// one multiplication. [`Trainer`](crate::Trainer) drives it; a new kind of w implements this.
pub trait Hypothesis: Sync {
    /// What the examples' features are stored in.
    type Scalar: Scalar;
    /// Number of scores per example.
    fn outputs(&self) -> usize;
    /// Refuses examples of another number of features.
    fn check_features(&self, n_features: usize) -> Result<(), Error>;
    /// Writes `<w_o, phi(x)>` to `out[o]` for every output o.
    fn score<R: Row<Scalar = Self::Scalar>>(&self, x: R, out: &mut [f64]);
    /// `w_o += coef[o] phi(x)` for every output o.
    fn add<R: Row<Scalar = Self::Scalar>>(&mut self, x: R, coef: &[f64]);
    /// The norm of what [`add`](Hypothesis::add) would add.
    fn gradient_norm<R: Row<Scalar = Self::Scalar>>(&self, x: R, coef: &[f64]) -> f64;
    /// `w *= c`, for `c >= 0`. O(1), but for rare foldings of a into v.
    fn scale(&mut self, c: f64);
    /// Sets a, leaving v as it is. For a trainer that knows `w = a v` in closed form.
    fn set_scale(&mut self, a: f64);
    /// Sets a, leaving w as it is. O(size of w), unless a is that already.
    fn rebase(&mut self, a: f64);
    /// `||w||^2` over all outputs, carried along. O(1).
    fn norm2(&self) -> f64;
    /// `||w||^2`, computed afresh.
    fn norm2_afresh(&self) -> f64;
    /// Counts the present w, with this weight, in the average. O(1).
    fn average(&mut self, weight: f64);
    /// Scales the weights of all that was counted in the average so that their sum is this. O(size of
    /// w), unless nothing was counted.
    fn set_average_weight(&mut self, sum: f64);
    /// The sum of factors times hypotheses, of their averages too where all have one. Refuses
    /// hypotheses of different shapes, or none.
    fn combine(parts: &[(f64, &Self)]) -> Result<Self, Error>
    where
        Self: Sized;
    /// The weighted mean of the w that were counted, `None` if none was.
    fn mean(&self) -> Option<Self>
    where
        Self: Sized;
}
