//! A linear w of one output, as a loop over rows has it.

use crate::data::Row;
use crate::scalar::Scalar;
use crate::simd::Weigh;

/// The weights of a linear w with one output in the hands of a loop, where what changes is at hand, and goes home at its end.
/// Only this crate's loops can do something with it.
pub struct LinearSingle<'a, S> {
    pub(crate) v: &'a mut [S],
    /// The weight of the constant feature.
    pub(crate) b: f64,
    /// `||v||^2`, the constant's weight counted.
    pub(crate) norm2: f64,
    /// The value of the constant feature; 0 for no intercept.
    pub(crate) constant: f64,
    /// Whether the norm is left to the end of a run.
    pub(crate) left: bool,
    /// Where `b` and `norm2` belong.
    pub(crate) home: (&'a mut f64, &'a mut f64),
}

impl<S: Scalar> LinearSingle<'_, S> {
    /// `<x, v>`, with the constant: the score over the scale.
    #[inline(always)]
    pub(crate) fn score<T: Scalar + Weigh<S>>(&self, x: Row<'_, T>) -> f64 {
        x.dot(self.v) + self.constant * self.b
    }

    /// `v += c x`, with the constant.
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

    /// Asks memory for the weights of a row to come.
    #[inline(always)]
    pub(crate) fn expect<T: Scalar>(&self, x: Row<'_, T>) {
        x.prefetch_weights(self.v, 1);
    }

    /// Takes everything home.
    pub(crate) fn end(self) {
        (*self.home.0, *self.home.1) = (self.b, self.norm2);
    }
}
