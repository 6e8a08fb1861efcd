//! A w of one output, as a loop over rows has it.

use super::Linear;
use crate::data::Row;
use crate::hypothesis::Hypothesis;
use crate::scalar::Scalar;
use crate::simd::Weigh;

/// The weights of a [`Linear`] with one output in the hands of a loop, where what changes is at hand, and goes home at its end.
/// Only this crate's loops can do something with it.
pub struct LinearSingle<'a, S> {
    v: &'a mut [S],
    b: f64,
    norm2: f64,
    constant: f64,
    /// Whether the norm is left to the end of a run.
    left: bool,
    home: (&'a mut f64, &'a mut f64),
}

impl<S: Scalar> LinearSingle<'_, S> {
    /// [`score_row`](Linear::score_row), over the scale.
    #[inline(always)]
    pub(crate) fn score<T: Scalar + Weigh<S>>(&self, x: Row<'_, T>) -> f64 {
        x.dot(self.v) + self.constant * self.b
    }

    /// [`add_row`](Linear::add_row) of `c` times the scale.
    #[inline(always)]
    pub(crate) fn add<T: Scalar + Weigh<S>>(&mut self, x: Row<'_, T>, c: f64) {
        if self.left {
            x.add_times(c, self.v);
        } else {
            self.norm2 += x.axpy(c, self.v);
        }
        if self.constant > 0.0 {
            let old = self.b;
            self.b += c * self.constant;
            self.norm2 += (self.b - old) * (self.b + old);
        }
    }

    /// [`expect_row`](Linear::expect_row).
    #[inline(always)]
    pub(crate) fn expect<T: Scalar>(&self, x: Row<'_, T>) {
        x.prefetch_weights(self.v, 1);
    }

    /// The value of the constant feature.
    #[inline(always)]
    pub(crate) fn constant(&self) -> f64 {
        self.constant
    }

    /// Takes everything home.
    pub(crate) fn end(self) {
        (*self.home.0, *self.home.1) = (self.b, self.norm2);
    }
}

impl<S: Scalar> Linear<S> {
    /// Whether [`single`](Linear::single) has all there is: of one output, no average of it.
    pub(crate) fn is_single(&self) -> bool {
        self.outputs() == 1 && self.u.is_none()
    }

    /// What a loop over rows has of v, where that [is single](Linear::is_single).
    pub(crate) fn single(&mut self) -> LinearSingle<'_, S> {
        let (b, norm2, constant) = (self.b[0], self.scale.norm2, self.constant);
        let home = (&mut self.b[0], &mut self.scale.norm2);
        LinearSingle { v: self.v.all_mut(), b, norm2, constant, left: self.left, home }
    }
}
