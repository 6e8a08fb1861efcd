//! The two kinds of number that data and weights may be stored in.

use std::fmt::{Debug, Display};

use crate::simd::Simd;

/// `f32` or `f64`: what features and weights are stored in. Scores, coefficients, scales and norms
/// are `f64` whatever the scalar. Sealed.
pub trait Scalar:
    Simd + Copy + Default + PartialEq + Debug + Display + Send + Sync + 'static
{
    /// Widens to `f64`, exactly.
    fn to_f64(self) -> f64;
    /// Rounds to the nearest value of the scalar.
    fn from_f64(x: f64) -> Self;
    /// The largest `<x, x>` of an example that sums of examples, squared, surely survive.
    const LARGEST_NORM2: f64;
    /// What no sum or product of magnitudes may exceed that must surely be finite.
    const LARGEST: f64;
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
    const ONE: &'static [Self] = &[1.0];
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
