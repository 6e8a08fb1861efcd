//! What is trained: an element of a Hilbert space for each output.

mod single;

use crate::data::{Matrix, Row};
use crate::error::Error;
use crate::scalar::Scalar;
use crate::scaled::Scaled;
pub use single::LinearSingle;

/// One element w of a Hilbert space per output, kept as `w = a v` so that shrinking all of it costs
/// one multiplication. [`Trainer`](crate::Trainer) drives it; a new kind of w implements this.
///
/// Who calls it by himself sees to sizes: it may panic where a dense row has not as many features as
/// [`check_features`](Hypothesis::check_features) asks for, or scores and coefficients are not one for each output.
pub trait Hypothesis: Sync {
    /// Whether a step is so brief that to ask for the layout of its row is felt: the loop is then compiled for dense and for
    /// sparse rows as well.
    const BRIEF: bool = false;
    /// Whether w keeps the rows that it learns from: their values are then looked at before it does, as a score may not tell
    /// what is wrong with them, and all scores after it would be.
    const KEEPS_ROWS: bool = false;
    /// What the examples' features are stored in.
    type Scalar: Scalar;
    /// Number of scores per example.
    fn outputs(&self) -> usize;
    /// Refuses examples of another number of features.
    fn check_features(&self, n_features: usize) -> Result<(), Error>;
    /// Writes `<w_o, phi(x)>` to `out[o]` for every output o.
    fn score(&self, x: Row<'_, Self::Scalar>, out: &mut [f64]);
    /// [`score`](Hypothesis::score) of many rows of a matrix, one after the other in `out`.
    fn scores(&self, x: &Matrix<'_, Self::Scalar>, rows: &[usize], out: &mut [f64]) {
        for (i, out) in rows.iter().zip(out.chunks_mut(self.outputs())) {
            self.score(x.row(*i), out);
        }
    }
    /// How many of the rows to come [`look_ahead`](Hypothesis::look_ahead) should be shown now; 0 for
    /// none.
    #[inline(always)]
    fn panel(&self) -> usize {
        0
    }
    /// Prepares for these rows, which come next, in this order. Called with none where another matrix may
    /// begin. Refuses them where there is no memory for what they may add.
    fn look_ahead(&mut self, _x: &Matrix<'_, Self::Scalar>, _rows: &[usize]) -> Result<(), Error> {
        Ok(())
    }
    /// Refuses what training needs beside w where there is no memory for it: an average, if it is taken.
    fn check_room(&self, _averaging: bool) -> Result<(), Error> {
        Ok(())
    }
    /// Refuses a copy of w, or a mean, that there is no memory for.
    fn check_copy(&self) -> Result<(), Error> {
        Ok(())
    }
    /// The squared norm of what a row of this squared norm is multiplied by; infinite where that does not tell.
    fn norm2_of_row(&self, _norm2: f64) -> f64 {
        f64::INFINITY
    }
    /// Whether w surely stays within the range of its scalar while rows of these squared norms, at most, are
    /// added to v with coefficients whose magnitudes sum to `total`. False says nothing.
    fn survives(&self, _norm2: f64, _total: f64) -> bool {
        false
    }
    /// Whether w is known to live in a Hilbert space, as certificates need it: false for kernels that need not
    /// be positive semi-definite.
    fn is_positive(&self) -> bool {
        true
    }
    /// Whether to ask memory for the weights of rows to come of this matrix pays: else nobody calls
    /// [`expect`](Hypothesis::expect).
    #[inline(always)]
    fn expects(&self, _x: &Matrix<'_, Self::Scalar>) -> bool {
        false
    }
    /// Asks memory for the weights of a row to come.
    #[inline(always)]
    fn expect(&self, _x: Row<'_, Self::Scalar>) {}
    /// [`score`](Hypothesis::score) of the next row of the matrix at hand, whose number is `i`.
    #[inline(always)]
    fn score_next(&mut self, _i: usize, x: Row<'_, Self::Scalar>, out: &mut [f64]) {
        self.score(x, out);
    }
    /// The one output of a w that is weights of features and nothing else, no average of it, in the hands of a loop.
    /// O(1).
    #[inline(always)]
    fn single_mut(&mut self) -> Option<LinearSingle<'_, Self::Scalar>> {
        None
    }
    /// `w_o += coef[o] phi(x)` for every output o, x being row `i` of the matrix at hand.
    fn add(&mut self, i: usize, x: Row<'_, Self::Scalar>, coef: &[f64]);
    /// [`add`](Hypothesis::add) of what was row `i` when its gradient was taken, in an earlier run.
    fn add_late(&mut self, i: usize, x: Row<'_, Self::Scalar>, coef: &[f64]) {
        self.add(i, x, coef);
    }
    /// `w_o += a coef[o] phi(x)`, a being the scale: of a v that is the plain sum of what was added to it. Else as
    /// [`add`](Hypothesis::add) or, if `late`, as [`add_late`](Hypothesis::add_late); may write to `coef`.
    #[inline(always)]
    fn add_to_sum(&mut self, i: usize, x: Row<'_, Self::Scalar>, coef: &mut [f64], late: bool) {
        let a = self.scaled().a;
        coef.iter_mut().for_each(|c| *c *= a);
        match late {
            true => self.add_late(i, x, coef),
            false => self.add(i, x, coef),
        }
    }
    /// By how much w has degraded, since this was last asked for, to stay within a budget: the sum of
    /// `||dw||^2`. 0 where there is no budget.
    #[inline(always)]
    fn degraded(&mut self) -> f64 {
        0.0
    }
    /// The norm of what [`add`](Hypothesis::add) would add.
    fn gradient_norm(&self, i: usize, x: Row<'_, Self::Scalar>, coef: &[f64]) -> f64;
    /// What row `i` of the one matrix that w was made of has brought to `||w||^2`, given its scores; `None`
    /// where that is not known.
    fn share(&self, _i: usize, _scores: &[f64]) -> Option<f64> {
        None
    }
    /// The scale a, and what is carried with it.
    fn scaled(&self) -> &Scaled;
    /// The scale, about to change while v stays.
    fn scaled_mut(&mut self) -> &mut Scaled;
    /// Moves all of the scale but `a` into v, leaving w as it is. O(size of w).
    fn fold(&mut self, a: f64);
    /// `w *= c`, for `c >= 0`. O(1), but for rare foldings of a into v.
    #[inline(always)]
    fn scale(&mut self, c: f64) {
        if self.scaled_mut().shrink(c) {
            self.fold(1.0);
        }
    }
    /// Sets a, leaving v as it is. For a trainer that knows `w = a v` in closed form.
    #[inline(always)]
    fn set_scale(&mut self, a: f64) {
        self.scaled_mut().a = a;
    }
    /// Sets a, leaving w as it is. O(size of w), unless a is that already.
    fn rebase(&mut self, a: f64) {
        if a != self.scaled().a {
            self.fold(a);
        }
    }
    /// Says whether `||w||^2` will be asked for at every step, where carrying it along costs something.
    fn carry_norm(&mut self, _wanted: bool) {}
    /// A run over about so many rows of this matrix begins: w may leave to [`settle`](Hypothesis::settle) what only its end
    /// asks for, which is whether w is finite and what it knows of its norm.
    fn leave_norm(&mut self, _x: &Matrix<'_, Self::Scalar>, _rows: usize) {}
    /// Whether that is left.
    fn has_left_norm(&self) -> bool {
        false
    }
    /// Such a run is over. O(size of w), where anything was left.
    fn settle(&mut self) {}
    /// `||w||^2` over all outputs. O(1), unless it is not carried along.
    #[inline(always)]
    fn norm2(&self) -> f64 {
        self.scaled().norm2()
    }
    /// Whether w is surely 0.
    fn is_zero(&self) -> bool {
        self.norm2() == 0.0
    }
    /// Whether w is within the range of its scalar. One overflow anywhere is never undone.
    fn is_finite(&self) -> bool {
        Self::Scalar::from_f64(self.norm2().sqrt()).to_f64().is_finite()
    }
    /// `||w||^2`, as well as it can be known. O(size of w), or more.
    fn norm2_afresh(&self) -> f64;
    /// Counts the present w, with this weight, in the average. O(1).
    fn average(&mut self, weight: f64);
    /// The sum of the weights of all that was counted in the average.
    fn average_weight(&self) -> f64 {
        self.scaled().sum_q
    }
    /// Scales the weights of all that was counted in the average so that their sum is this; 0 forgets it.
    /// O(size of w), unless nothing was counted.
    fn set_average_weight(&mut self, sum: f64);
    /// The weighted mean of the w that were counted, `None` if none was.
    fn mean(&self) -> Option<Self>
    where
        Self: Sized;
}

/// Refuses a w without outputs or features.
pub(crate) fn check_shape(outputs: usize, n_features: usize) -> Result<(), Error> {
    if outputs == 0 || n_features == 0 {
        let got = format_args!("{outputs} and {n_features}");
        return Err(Error::shape("w", "at least one output and one feature", got));
    }
    Ok(())
}

/// A [`Hypothesis`] of which sums are taken, and with that averages.
pub trait Combine: Hypothesis {
    /// The sum of factors times hypotheses, of their averages too where all have one; on a budget what that leaves of it.
    /// Refuses hypotheses of different kinds or shapes, or none.
    fn combine(parts: &[(f64, &Self)]) -> Result<Self, Error>
    where
        Self: Sized;
}
