//! The arithmetic of the bodies: what both scalars can do, exponentials and logarithms among it.

use core::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

/// What a body may count on: its first argument, of no size, says so.
pub trait Processor: Copy {
    /// Whether a fused multiply-add is one instruction.
    const FMA: bool;
    /// Bytes of a register.
    const REGISTER: usize;
}

/// The arithmetic the bodies need, so that one text serves both scalars.
pub trait Float:
    Copy
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + Widen<f64>
{
    const ZERO: Self;
    const UNIT: Self;
    /// Rounds to the nearest value of the scalar.
    fn from_f64(x: f64) -> Self;
    /// And to a finite one: of a factor that may meet a 0.
    fn finite_from_f64(x: f64) -> Self;
    fn sqrt(self) -> Self;
    /// NaN stays.
    #[inline(always)]
    fn at_least(self, least: Self) -> Self {
        if self < least { least } else { self }
    }
    /// NaN stays.
    #[inline(always)]
    fn at_most(self, most: Self) -> Self {
        if self > most { most } else { self }
    }
    /// `self * b + c`, fused where that is one instruction: without it `mul_add` is a library call.
    fn mul_add_if_fast<P: Processor>(self, b: Self, c: Self) -> Self;
    /// `p` and `f` with `e^self = p (1 + f)`, p a power of 2 and `|f| < 0.42`; right from -87 to 88 and
    /// from -708 to 709, what is beyond counts as the nearest of these.
    fn power_and_fraction<P: Processor>(self) -> (Self, Self);
    /// `e^self`, with a relative error of at most 2e-7 in f32 and 1e-15 in f64 from -87 to 88 and from
    /// -708 to 709; 0 below that, no more above, NaN for NaN.
    fn exp<P: Processor>(self) -> Self;
    /// `ln((1 + s)/(1 - s)) = 2 artanh s`, for `|s| <= 0.172`, by its Taylor series.
    fn ln_of_ratio<P: Processor>(self) -> Self;
    /// `ln self`, for a positive number that is not subnormal; some number for others.
    fn ln<P: Processor>(self) -> Self;
    /// `e^self - 1`, with the same relative error, for `self <= 0`.
    #[inline(always)]
    fn exp_m1<P: Processor>(self) -> Self {
        let (power, fraction) = self.power_and_fraction::<P>();
        power.mul_add_if_fast::<P>(fraction, power - Self::UNIT)
    }
}

/// A stored feature as the weights' scalar `V`, exactly.
pub trait Widen<V>: Copy {
    fn widen(self) -> V;
}

impl<S: Copy> Widen<S> for S {
    #[inline(always)]
    fn widen(self) -> S {
        self
    }
}

impl Widen<f64> for f32 {
    #[inline(always)]
    fn widen(self) -> f64 {
        f64::from(self)
    }
}

macro_rules! float {
    ($t:ident, $bits:ty, least: $least:expr, most: $most:expr, $magic:expr, $mantissa:expr, $bias:expr,
     $ln_2_high:expr, $ln_2_low:expr, [$first:expr $(, $c:expr)*], [$last:expr $(, $odd:expr)*]) => {
        impl Float for $t {
            const ZERO: Self = 0.0;
            const UNIT: Self = 1.0;
            #[inline(always)]
            fn from_f64(x: f64) -> Self {
                x as $t
            }
            #[inline(always)]
            fn finite_from_f64(x: f64) -> Self {
                x.clamp(f64::from($t::MIN), f64::from($t::MAX)) as $t
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                self.sqrt()
            }
            #[inline(always)]
            fn mul_add_if_fast<P: Processor>(self, b: Self, c: Self) -> Self {
                if P::FMA { self.mul_add(b, c) } else { self * b + c }
            }
            /// `2^n e^r` with `|r| <= ln(2)/2`, `(e^r - 1)/r` by its Taylor series. Written so that the compiler
            /// can do many at once: no branch, no call, no cast that saturates.
            #[inline(always)]
            fn power_and_fraction<P: Processor>(self) -> (Self, Self) {
                let x = self.at_least($least).at_most($most);
                // So large a number leaves no room for a fraction: n stands in the last bits.
                let shifted = x.mul_add_if_fast::<P>(core::$t::consts::LOG2_E, $magic);
                let n = shifted - $magic;
                // ln(2) in two parts, the first of so few bits that its product with n is exact.
                let r = n.mul_add_if_fast::<P>(-$ln_2_high, x);
                let r = n.mul_add_if_fast::<P>(-$ln_2_low, r);
                let sum: $t = $first;
                $(let sum = sum.mul_add_if_fast::<P>(r, $c);)*
                let n: $bits = shifted.to_bits().wrapping_sub(<$t>::to_bits($magic));
                (<$t>::from_bits(n.wrapping_add($bias) << $mantissa), sum * r)
            }
            #[inline(always)]
            fn exp<P: Processor>(self) -> Self {
                let (power, fraction) = self.power_and_fraction::<P>();
                let value = fraction.mul_add_if_fast::<P>(power, power);
                if self < $least { 0.0 } else { value }
            }
            #[inline(always)]
            fn ln_of_ratio<P: Processor>(self) -> Self {
                let square = self * self;
                let sum: $t = 1.0 / $last;
                $(let sum = sum.mul_add_if_fast::<P>(square, 1.0 / $odd);)*
                let twice = self + self;
                (twice * square).mul_add_if_fast::<P>(sum, twice)
            }
            /// `2^k m` with `1/sqrt(2) <= m < sqrt(2)`: of the bits, without a branch.
            #[inline(always)]
            fn ln<P: Processor>(self) -> Self {
                const ONE: $bits = <$t>::to_bits(1.0);
                let bits = self.to_bits();
                let root = <$t>::to_bits(core::$t::consts::FRAC_1_SQRT_2);
                let exponent = bits.wrapping_add(ONE - root) >> $mantissa;
                let m = <$t>::from_bits(bits.wrapping_sub(exponent << $mantissa).wrapping_add(ONE));
                // The magic number without its half has room for an integer in its last bits.
                let whole: $t = $magic / 1.5;
                let k = <$t>::from_bits(exponent | whole.to_bits()) - (whole + $bias as $t);
                let rest = ((m - 1.0) / (m + 1.0)).ln_of_ratio::<P>();
                k.mul_add_if_fast::<P>($ln_2_high, k.mul_add_if_fast::<P>($ln_2_low, rest))
            }
        }
    };
}
// 1.5 * 2^23 and 1.5 * 2^52; inverse factorials down to 1/1!; odd numbers.
float!(
    f32, u32, least: -87.0, most: 88.0, 12_582_912.0, 23, 127,
    0.693_359_4, -2.121_944_4e-4,
    [1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0],
    [9.0, 7.0, 5.0, 3.0]
);
float!(
    f64, u64, least: -708.0, most: 709.0, 6_755_399_441_055_744.0, 52, 1023,
    0.693_147_180_369_123_8, 1.908_214_929_270_587_8e-10,
    [
        1.0 / 6_227_020_800.0, 1.0 / 479_001_600.0, 1.0 / 39_916_800.0, 1.0 / 3_628_800.0,
        1.0 / 362_880.0, 1.0 / 40_320.0, 1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0,
        1.0 / 6.0, 0.5, 1.0
    ],
    [19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0]
);
