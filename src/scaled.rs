//! The algebra of `w = a v`: its scale, its norm, and the lazy average of its iterates.
//!
//! * Shrinking all of w is one multiplication (Pegasos 2011, section 2.4). Where a becomes so small that a division by it
//!   leaves the range of f32, it is folded into v.
//! * Average: with weights q_s of the iterates w_s, `sum_s q_s w_s = A v - u`, where `A = sum_s q_s a_s`; an update `v += c x`
//!   is matched by `u += A c x`, and nothing is paid on other steps. When a is folded into v, `u -= A v` and A = 0: scaling
//!   A instead would do too, for a while; folded again and again, it overflows.
//! * Used by every kind of w; what v and u are is theirs.

use crate::error::Error;
use crate::scalar::Scalar;

/// Below this, `a` is folded into `v`.
const SMALLEST: f64 = 1e-9;

/// The least `a` while averaging: `A v - u` cancels as many digits as `a` has shrunk by.
const SMALLEST_AVERAGING: f64 = 1e-4;

/// The scale of a w, and the sums that are carried with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scaled {
    /// The scale: the weights or coefficients are `a v`.
    pub a: f64,
    /// `||v||^2`, up to rounding; NaN if it is not known.
    pub norm2: f64,
    /// `A`: the sum of the scales of the counted iterates, times their weights.
    pub sum_a: f64,
    /// The sum of the counted iterates' weights.
    pub sum_q: f64,
}

impl Default for Scaled {
    /// Of `w = v = 0`.
    fn default() -> Self {
        Scaled { a: 1.0, norm2: 0.0, sum_a: 0.0, sum_q: 0.0 }
    }
}

impl Scaled {
    /// Refuses numbers that none of these can be.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if !(self.a > 0.0 && self.a.is_finite()) {
            return Err(Error::parameter("a", self.a, "> 0 and finite"));
        }
        for (name, value) in [("sum_a", self.sum_a), ("sum_q", self.sum_q)] {
            if !(value >= 0.0 && value.is_finite()) {
                return Err(Error::parameter(name, value, ">= 0 and finite"));
            }
        }
        Ok(())
    }

    /// Whether any iterate was counted.
    #[inline(always)]
    pub(crate) fn averages(&self) -> bool {
        self.sum_q > 0.0
    }

    /// `w *= c`; says whether a must be folded into v.
    #[inline(always)]
    pub(crate) fn shrink(&mut self, c: f64) -> bool {
        self.a *= c;
        self.a < if self.averages() { SMALLEST_AVERAGING } else { SMALLEST }
    }

    /// Makes the scale `a` where w stays as it is; all of v and u must be folded.
    pub(crate) fn fold(&mut self, a: f64) -> Fold {
        let fold = Fold { sum_a: self.sum_a, c: self.a / a };
        self.sum_a = 0.0;
        self.norm2 *= fold.c * fold.c;
        self.a = a;
        fold
    }

    /// `||w||^2`.
    #[inline(always)]
    pub(crate) fn norm2(&self) -> f64 {
        // A sum of signed changes may end a rounding below 0. Not `max`, which makes 0 of NaN.
        if self.norm2 < 0.0 { 0.0 } else { self.a * self.a * self.norm2 }
    }

    /// Counts the present w, with this weight.
    #[inline(always)]
    pub(crate) fn average(&mut self, weight: f64) {
        self.sum_a += weight * self.a;
        self.sum_q += weight;
    }

    /// Makes the weights of all that was counted sum up to this; what u must be multiplied with.
    pub(crate) fn reweigh(&mut self, sum: f64) -> f64 {
        if !self.averages() {
            return 1.0;
        }
        let c = sum / self.sum_q;
        self.sum_a *= c;
        self.sum_q = sum;
        c
    }

    /// An entry of the mean, given those of v and u.
    #[inline(always)]
    pub(crate) fn mean(&self, v: f64, u: f64) -> f64 {
        (self.sum_a * v - u) / self.sum_q
    }
}

/// What folding does to every entry; see [`Scaled::fold`].
pub(crate) struct Fold {
    sum_a: f64,
    /// What v is multiplied with.
    pub(crate) c: f64,
}

impl Fold {
    /// Folds entries of v, and those of u if there are any.
    pub(crate) fn apply<S: Scalar>(&self, v: &mut [S], u: &mut [f64]) {
        // The average must outlive v.
        for (u, v) in u.iter_mut().zip(&*v) {
            *u -= self.sum_a * v.to_f64();
        }
        for v in v {
            *v = S::from_f64(self.c * v.to_f64());
        }
    }
}
