//! Numbers in text: eight digits at a time, and floats to the last bit.

use super::faults::is_separator;
use crate::scalar::Scalar;

/// What values are read to: `f32` or `f64`, each the number nearest to what is written. Sealed.
pub trait Decimal: Scalar {
    /// Whatever number the text begins with, and how many bytes it has.
    #[doc(hidden)]
    fn parse(text: &[u8]) -> Option<(Self, usize)>;
    /// The nearest number to a decimal whose nearest f64 is `nearest`, where that tells.
    #[doc(hidden)]
    fn told_by(nearest: f64) -> Option<Self>;
    /// A number of one digit.
    #[doc(hidden)]
    fn digit(digit: u8) -> Self;
    /// Whether it is neither NaN nor infinite.
    #[doc(hidden)]
    fn is_finite(self) -> bool;
}

impl Decimal for f64 {
    fn parse(text: &[u8]) -> Option<(Self, usize)> {
        fast_float2::parse_partial(text).ok()
    }
    #[inline(always)]
    fn told_by(nearest: f64) -> Option<Self> {
        Some(nearest)
    }
    #[inline(always)]
    fn digit(digit: u8) -> Self {
        digit.into()
    }
    fn is_finite(self) -> bool {
        self.is_finite()
    }
}

impl Decimal for f32 {
    fn parse(text: &[u8]) -> Option<(Self, usize)> {
        fast_float2::parse_partial(text).ok()
    }
    /// Rounding twice is rounding once, unless the first has led to the middle between two of these (or, where they lie less
    /// dense, maybe has).
    #[inline(always)]
    fn told_by(nearest: f64) -> Option<Self> {
        const BELOW: u64 = (1 << 29) - 1;
        let is_middle = nearest.to_bits() & BELOW == 1 << 28;
        let is_normal = nearest == 0.0
            || (f64::from(f32::MIN_POSITIVE)..=f64::from(f32::MAX)).contains(&nearest.abs());
        (is_normal && !is_middle).then_some(nearest as f32)
    }
    #[inline(always)]
    fn digit(digit: u8) -> Self {
        digit.into()
    }
    fn is_finite(self) -> bool {
        self.is_finite()
    }
}

/// The eight bytes from `at`; behind the end of the text there are zeros.
#[inline(always)]
pub(super) fn word(text: &[u8], at: usize) -> u64 {
    match text.get(at..).and_then(<[u8]>::first_chunk) {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => last_word(text, at),
    }
}

#[cold]
fn last_word(text: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    for (to, from) in bytes.iter_mut().zip(text.get(at..).unwrap_or_default()) {
        *to = *from;
    }
    u64::from_le_bytes(bytes)
}

/// How many digits a word begins with, and the number that they make.
#[inline(always)]
pub(super) fn digits(word: u64) -> (u32, u64) {
    const EACH: u64 = 0x0101_0101_0101_0101;
    // Digits become 0 to 9, other bytes more. What a sum carries over shows only behind a byte that is no digit.
    let values = word ^ (EACH * 0x30);
    let others = (values.wrapping_add(EACH * 0x76) | values) & (EACH * 0x80);
    let count = others.trailing_zeros() / 8;
    // The first digit is in the lowest byte; so many zeros in front of it that there are eight.
    let mut x = values.unbounded_shl(64 - 8 * count);
    // Pairs, fours, all eight.
    x = x.wrapping_mul(10).wrapping_add(x >> 8);
    let high = (x & 0x0000_00FF_0000_00FF).wrapping_mul(100 + (1_000_000 << 32));
    let low = ((x >> 16) & 0x0000_00FF_0000_00FF).wrapping_mul(1 + (10_000 << 32));
    (count, high.wrapping_add(low) >> 32)
}

const WHOLE: [u64; 9] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

/// All digits from `at`, behind a number: where they end, and the number that all make, if that is below 2^64.
#[inline(always)]
fn all_digits(text: &[u8], mut at: usize, before: u64) -> (usize, u64) {
    let mut number = before;
    loop {
        let (count, some) = digits(word(text, at));
        number = number.wrapping_mul(WHOLE[count as usize]).wrapping_add(some);
        at += count as usize;
        if count < 8 {
            return (at, number);
        }
    }
}

/// The powers of ten that an f64 holds exactly.
const TENS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// The digits that a word begins with, one by one, at most eight: how many, the number that they make, and the byte behind
/// them, which is 0 where there are eight. Processors guess how many there are, and go on before they know.
#[inline(always)]
pub(super) fn few_digits(mut word: u64) -> (usize, u64, u8) {
    let (mut count, mut number) = (0, 0);
    loop {
        let digit = (word as u8).wrapping_sub(b'0');
        if digit > 9 {
            return (count, number, word as u8);
        }
        number = 10 * number + u64::from(digit);
        word >>= 8;
        count += 1;
    }
}

/// The decimal that the text has from `start`, and where it ends, if it is a short one: a whole number below 2^53 times or
/// over a power of ten that is exact as well, so that there is one rounding (W. D. Clinger, How to read floating point
/// numbers accurately, PLDI 1990). Who asks must see whether more of it follows.
#[inline(always)]
pub(super) fn short<S: Decimal>(text: &[u8], start: usize) -> Option<(S, usize)> {
    let begin = word(text, start);
    let (sign, behind) = (begin as u8, (begin >> 8) as u8);
    let digit = sign.wrapping_sub(b'0');
    if digit > 9 {
        let first = start + usize::from(sign == b'-' || sign == b'+');
        let (nearest, end) = unsigned(text, first, few_digits(word(text, first)))?;
        return Some((S::told_by(if sign == b'-' { -nearest } else { nearest })?, end));
    }
    // One digit, before a separator or a point, is what most values begin with: a fifth of the time of texts that have
    // only ones, a thirtieth of others'.
    if is_separator(behind) {
        return Some((S::digit(digit), start + 1));
    }
    let few = if behind == b'.' { (1, digit.into(), behind) } else { few_digits(begin) };
    let (nearest, end) = unsigned(text, start, few)?;
    Some((S::told_by(nearest)?, end))
}

/// Goes on behind the few digits that there are at `first`.
#[inline(always)]
fn unsigned(
    text: &[u8],
    first: usize,
    (mut count, mut mantissa, mut byte): (usize, u64, u8),
) -> Option<(f64, usize)> {
    let mut at = first + count;
    let mut exponent = 0;
    if byte == b'.' {
        let point = at;
        (at, mantissa) = all_digits(text, point + 1, mantissa);
        count = at - first - 1;
        exponent = -((at - point - 1) as isize);
        byte = *text.get(at)?;
    }
    if byte | 0x20 == b'e' {
        let sign = *text.get(at + 1)?;
        let from = at + 1 + usize::from(sign == b'-' || sign == b'+');
        let (digits, power) = digits(word(text, from));
        if digits == 0 || digits > 4 {
            return None;
        }
        at = from + digits as usize;
        exponent += if sign == b'-' { -(power as isize) } else { power as isize };
    }
    let ten = *TENS.get(exponent.unsigned_abs())?;
    // Nineteen digits make no number of 2^64.
    if count.wrapping_sub(1) > 18 || mantissa > 1 << 53 {
        return None;
    }
    let whole = mantissa as f64;
    Some((if exponent < 0 { whole / ten } else { whole * ten }, at))
}
