//! The bodies under x86-64 shells, and the choice between them.

use std::sync::atomic::{AtomicU8, Ordering};

use super::{Simd, body};
use crate::scalar::Index;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub(super) enum Level {
    Baseline = 1,
    Avx2,
    Avx512,
}

/// The level in force, 0 until first asked for. Never above what the processor has: every `unsafe`
/// call below leans on this.
static LEVEL: AtomicU8 = AtomicU8::new(0);

#[inline(always)]
fn level() -> Level {
    match LEVEL.load(Ordering::Relaxed) {
        1 => Level::Baseline,
        2 => Level::Avx2,
        3 => Level::Avx512,
        _ => choose(),
    }
}

#[cold]
fn choose() -> Level {
    let asked = match std::env::var("PEGASOS_SIMD").as_deref() {
        Ok("baseline") => Level::Baseline,
        Ok("avx2") => Level::Avx2,
        _ => Level::Avx512,
    };
    let level = asked.min(best());
    LEVEL.store(level as u8, Ordering::Relaxed);
    level
}

fn best() -> Level {
    if !(is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")) {
        Level::Baseline
    } else if is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512bw")
    {
        Level::Avx512
    } else {
        Level::Avx2
    }
}

/// A body under a shell per level: a function compiled with the level's features. The AVX-512 shell
/// holds `avx512::$name` where there is one.
macro_rules! shells {
    ($name:ident <$($g:ident: $bound:path),*> ($($arg:ident: $ty:ty),*)) => {
        mod $name {
            use super::*;
            #[target_feature(enable = "avx2,fma")]
            fn avx2<$($g: $bound),*>($($arg: $ty),*) -> f64 {
                body::$name::<true, $($g),*>($($arg),*)
            }
            #[target_feature(enable = "avx2,fma,avx512f,avx512vl,avx512dq,avx512bw")]
            fn avx512<$($g: $bound),*>($($arg: $ty),*) -> f64 {
                body::$name::<true, $($g),*>($($arg),*)
            }
            #[inline(always)]
            pub fn at<$($g: $bound),*>(level: Level, $($arg: $ty),*) -> f64 {
                match level {
                    // SAFETY: no level is above `best()`: `choose` sees to it, and so do tests.
                    Level::Avx512 => unsafe { avx512::<$($g),*>($($arg),*) },
                    // SAFETY: as above.
                    Level::Avx2 => unsafe { avx2::<$($g),*>($($arg),*) },
                    Level::Baseline => body::$name::<false, $($g),*>($($arg),*),
                }
            }
        }
    };
}

trait Number: crate::scalar::Scalar + body::Float {}
impl Number for f32 {}
impl Number for f64 {}

shells!(dot<S: Number>(x: &[S], v: &[S]));
shells!(axpy<S: Number>(c: f64, x: &[S], v: &mut [S]));
shells!(gather_dot<S: Number, I: Index>(indices: &[I], values: &[S], v: &[S]));
shells!(scatter_axpy<S: Number, I: Index>(c: f64, indices: &[I], values: &[S], v: &mut [S]));

/// The dense loops in AVX-512 intrinsics. From the portable body the compiler makes 345 instructions
/// of a dot product, splitting registers to treat the remainder; a masked load needs one.
macro_rules! avx512 {
    ($t:ident, $register:ty, $mask:ty, $lanes:literal, $set1:ident, $zero:ident, $load:ident, $maskz_load:ident,
     $compress:ident, $store:ident, $mask_store:ident, $fma:ident, $add:ident, $mul:ident, $reduce:ident) => {
        mod $t {
            use core::arch::x86_64::*;

            const LANES: usize = $lanes;

            /// The low `len` bits, `len` below [`LANES`].
            #[inline(always)]
            fn mask(len: usize) -> $mask {
                ((1u32 << len) - 1) as $mask
            }

            /// Entries `at..len` of x in the low lanes, zeros above; `len - at < LANES`.
            ///
            /// The load ends at `len`, for the reason given in `dot`, and the lanes are moved down:
            /// a store to a window that reaches back would stall the next load of what it covers.
            ///
            /// # Safety
            /// `len` entries may be read from `x`.
            #[inline]
            #[target_feature(enable = "avx512f")]
            unsafe fn rest(x: *const $t, at: usize, len: usize) -> $register {
                let low = mask(len - at);
                if len < LANES {
                    // SAFETY: by the caller; a masked load touches only the lanes of its mask.
                    unsafe { $maskz_load(low, x.add(at)) }
                } else {
                    let high = low << (LANES - (len - at));
                    // SAFETY: `len - LANES..len` lies within the `len` entries.
                    unsafe { $compress(high, $load(x.add(len - LANES))) }
                }
            }

            #[target_feature(enable = "avx512f")]
            pub fn dot(x: &[$t], v: &[$t]) -> f64 {
                let len = x.len().min(v.len());
                let (x, v) = (x.as_ptr(), v.as_ptr());
                let mut acc = [$zero(); 4];
                let mut at = 0;
                while at + 4 * LANES <= len {
                    for (j, acc) in acc.iter_mut().enumerate() {
                        let at = at + j * LANES;
                        // SAFETY: `at + LANES <= len`, and `len` entries may be read from both.
                        *acc = unsafe { $fma($load(x.add(at)), $load(v.add(at)), *acc) };
                    }
                    at += 4 * LANES;
                }
                while at + LANES <= len {
                    // SAFETY: as above. Rotating the accumulators keeps their chains apart.
                    let sum = unsafe { $fma($load(x.add(at)), $load(v.add(at)), acc[0]) };
                    acc = [acc[1], acc[2], acc[3], sum];
                    at += LANES;
                }
                if at < len && len < LANES {
                    let low = mask(len);
                    // SAFETY: a masked load touches only the lanes of its mask.
                    acc[0] = unsafe { $fma($maskz_load(low, x), $maskz_load(low, v), acc[0]) };
                } else if at < len {
                    // The last full window, of which only the lanes not yet seen count. A masked
                    // load from `at` on would fetch the cache line behind the row, which nothing has
                    // asked for: in random order that doubles an epoch's time on rows of 54 f32.
                    let window = len - LANES;
                    let high = mask(len - at) << (LANES - (len - at));
                    // SAFETY: `window..len` lies within the `len` entries.
                    acc[0] = unsafe {
                        $fma($maskz_load(high, x.add(window)), $load(v.add(window)), acc[0])
                    };
                }
                f64::from($reduce($add($add(acc[0], acc[1]), $add(acc[2], acc[3]))))
            }

            #[target_feature(enable = "avx512f")]
            pub fn axpy(c: f64, x: &[$t], v: &mut [$t]) -> f64 {
                let len = x.len().min(v.len());
                let (x, v) = (x.as_ptr(), v.as_mut_ptr());
                let c = $set1(c as $t);
                let mut change = [$zero(); 2];
                let mut at = 0;
                while at + LANES <= len {
                    // SAFETY: `at + LANES <= len`, and `len` entries may be read from `x`, read from
                    // and written to `v`.
                    let (step, old) = unsafe { ($mul(c, $load(x.add(at))), $load(v.add(at))) };
                    let new = $add(old, step);
                    // SAFETY: as above.
                    unsafe { $store(v.add(at), new) };
                    change = [change[1], $fma(step, $add(old, new), change[0])];
                    at += LANES;
                }
                if at < len {
                    let low = mask(len - at);
                    // SAFETY: `len` entries may be read from both and written to `v`; masked loads
                    // and stores touch only the lanes of their mask.
                    let (step, old) =
                        unsafe { ($mul(c, rest(x, at, len)), $maskz_load(low, v.add(at))) };
                    let new = $add(old, step);
                    // SAFETY: as above.
                    unsafe { $mask_store(v.add(at), low, new) };
                    change[0] = $fma(step, $add(old, new), change[0]);
                }
                f64::from($reduce($add(change[0], change[1])))
            }
        }
    };
}
avx512!(
    f32, __m512, __mmask16, 16, _mm512_set1_ps, _mm512_setzero_ps, _mm512_loadu_ps,
    _mm512_maskz_loadu_ps, _mm512_maskz_compress_ps, _mm512_storeu_ps, _mm512_mask_storeu_ps, _mm512_fmadd_ps,
    _mm512_add_ps, _mm512_mul_ps, _mm512_reduce_add_ps
);
avx512!(
    f64, __m512d, __mmask8, 8, _mm512_set1_pd, _mm512_setzero_pd, _mm512_loadu_pd,
    _mm512_maskz_loadu_pd, _mm512_maskz_compress_pd, _mm512_storeu_pd, _mm512_mask_storeu_pd, _mm512_fmadd_pd,
    _mm512_add_pd, _mm512_mul_pd, _mm512_reduce_add_pd
);

macro_rules! simd {
    ($t:ident) => {
        impl Simd for $t {
            #[inline(always)]
            fn dot(x: &[Self], v: &[Self]) -> f64 {
                match level() {
                    // SAFETY: the level is never above what the processor has.
                    Level::Avx512 => unsafe { $t::dot(x, v) },
                    level => dot::at(level, x, v),
                }
            }
            #[inline(always)]
            fn axpy(c: f64, x: &[Self], v: &mut [Self]) -> f64 {
                match level() {
                    // SAFETY: the level is never above what the processor has.
                    Level::Avx512 => unsafe { $t::axpy(c, x, v) },
                    level => axpy::at(level, c, x, v),
                }
            }
            #[inline(always)]
            fn gather_dot<I: Index>(indices: &[I], values: &[Self], v: &[Self]) -> f64 {
                gather_dot::at(level(), indices, values, v)
            }
            #[inline(always)]
            fn scatter_axpy<I: Index>(c: f64, indices: &[I], values: &[Self], v: &mut [Self]) -> f64 {
                scatter_axpy::at(level(), c, indices, values, v)
            }
        }
    };
}
simd!(f32);
simd!(f64);
