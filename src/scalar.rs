//! The two kinds of number that data and weights may be stored in.

use std::fmt::{Debug, Display};

use crate::simd::{Simd, Weigh};

/// `f32` or `f64`: what features and weights are stored in. Scores, coefficients, scales and norms
/// are `f64` whatever the scalar. Sealed.
pub trait Scalar:
    Simd
    + Weigh<Self>
    + Weigh<f64>
    + bytemuck::Pod
    + Default
    + PartialEq
    + Debug
    + Display
    + Send
    + Sync
    + 'static
{
    /// Widens to `f64`, exactly.
    fn to_f64(self) -> f64;
    /// Rounds to the nearest value of the scalar.
    fn from_f64(x: f64) -> Self;
    /// The largest `<x, x>` of an example that sums of examples, squared, surely survive.
    const LARGEST_NORM2: f64;
    /// What no sum or product of magnitudes may exceed that must surely be finite.
    const LARGEST: f64;
    /// From 1 to the next larger value.
    const EPSILON: f64;
    /// One 1.
    const ONE: &'static [Self];
}

impl Scalar for f32 {
    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
    #[inline(always)]
    fn from_f64(x: f64) -> Self {
        x as f32
    }
    const LARGEST_NORM2: f64 = 1e24;
    const LARGEST: f64 = 1e36;
    const EPSILON: f64 = f32::EPSILON as f64;
    const ONE: &'static [Self] = &[1.0];
}

impl Scalar for f64 {
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
    #[inline(always)]
    fn from_f64(x: f64) -> Self {
        x
    }
    const LARGEST_NORM2: f64 = 1e280;
    const LARGEST: f64 = 1e290;
    const EPSILON: f64 = f64::EPSILON;
    const ONE: &'static [Self] = &[1.0];
}

/// Numbers that are looked at together, where there may be thousands of which few matter.
const TOGETHER: usize = 16;

/// The largest magnitude.
pub(crate) fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |most, value| most.max(value.abs()))
}

/// Whether all are.
#[inline(always)]
pub(crate) fn all_finite(values: &[f64]) -> bool {
    if values.len() <= TOGETHER {
        return values.iter().all(|x| x.is_finite());
    }
    values.chunks(TOGETHER).all(|some| some.iter().fold(true, |all, x| all & x.is_finite()))
}

/// The numbers that are not 0, and where.
#[inline(always)]
pub(crate) fn others_than_0(values: &[f64]) -> impl Iterator<Item = (usize, f64)> {
    let some = values.chunks(TOGETHER).enumerate();
    let some = some.filter(|(_, some)| some.iter().fold(false, |any, x| any | (*x != 0.0)));
    some.flat_map(|(k, some)| {
        let numbers = (k * TOGETHER..).zip(some.iter().copied());
        numbers.filter(|(_, x)| *x != 0.0)
    })
}

/// Calls `f` with the numbers above a bound, and where they are; what it returns is the bound from there on.
#[inline(always)]
pub(crate) fn for_each_above(values: &[f64], mut bound: f64, mut f: impl FnMut(usize, f64) -> f64) {
    for (k, some) in values.chunks(TOGETHER).enumerate() {
        if some.iter().fold(false, |any, x| any | (*x > bound)) {
            for (at, &x) in (k * TOGETHER..).zip(some) {
                if x > bound {
                    bound = f(at, x);
                }
            }
        }
    }
}

/// The integer types a sparse row may index its columns with. Sealed.
pub trait Index: Copy + Display + Send + Sync + 'static + sealed::Sealed {
    /// The index as a position. A negative index becomes a huge one, which no bound admits.
    fn position(self) -> usize;
    /// A row of one index that no matrix has: what stands for a row that cannot be read.
    const NOWHERE: &'static [Self];
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! index {
    ($($t:ty),*) => {$(
        impl sealed::Sealed for $t {}
        impl Index for $t {
            #[inline(always)]
            fn position(self) -> usize {
                self as usize
            }
            const NOWHERE: &'static [Self] = &[!0];
        }
    )*};
}
index!(i32, i64, u32, u64, usize);
