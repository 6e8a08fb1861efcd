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
    f32,
    __m512,
    __mmask16,
    16,
    _mm512_set1_ps,
    _mm512_setzero_ps,
    _mm512_loadu_ps,
    _mm512_maskz_loadu_ps,
    _mm512_maskz_compress_ps,
    _mm512_storeu_ps,
    _mm512_mask_storeu_ps,
    _mm512_fmadd_ps,
    _mm512_add_ps,
    _mm512_mul_ps,
    _mm512_reduce_add_ps
);
avx512!(
    f64,
    __m512d,
    __mmask8,
    8,
    _mm512_set1_pd,
    _mm512_setzero_pd,
    _mm512_loadu_pd,
    _mm512_maskz_loadu_pd,
    _mm512_maskz_compress_pd,
    _mm512_storeu_pd,
    _mm512_mask_storeu_pd,
    _mm512_fmadd_pd,
    _mm512_add_pd,
    _mm512_mul_pd,
    _mm512_reduce_add_pd
);

/// What [`Simd`] does at a given level.
macro_rules! at_level {
    ($t:ident) => {
        impl AtLevel for $t {
            #[inline(always)]
            fn dot_at(level: Level, x: &[Self], v: &[Self]) -> f64 {
                match level {
                    // SAFETY: no level is above `best()`.
                    Level::Avx512 => unsafe { $t::dot(x, v) },
                    _ => dot::at(level, x, v),
                }
            }
            #[inline(always)]
            fn axpy_at(level: Level, c: f64, x: &[Self], v: &mut [Self]) -> f64 {
                match level {
                    // SAFETY: no level is above `best()`.
                    Level::Avx512 => unsafe { $t::axpy(c, x, v) },
                    _ => axpy::at(level, c, x, v),
                }
            }
        }

        impl Simd for $t {
            #[inline(always)]
            fn dot(x: &[Self], v: &[Self]) -> f64 {
                Self::dot_at(level(), x, v)
            }
            #[inline(always)]
            fn axpy(c: f64, x: &[Self], v: &mut [Self]) -> f64 {
                Self::axpy_at(level(), c, x, v)
            }
            #[inline(always)]
            fn gather_dot<I: Index>(indices: &[I], values: &[Self], v: &[Self]) -> f64 {
                gather_dot::at(level(), indices, values, v)
            }
            #[inline(always)]
            fn scatter_axpy<I: Index>(
                c: f64,
                indices: &[I],
                values: &[Self],
                v: &mut [Self],
            ) -> f64 {
                scatter_axpy::at(level(), c, indices, values, v)
            }
        }
    };
}

trait AtLevel: Sized {
    fn dot_at(level: Level, x: &[Self], v: &[Self]) -> f64;
    fn axpy_at(level: Level, c: f64, x: &[Self], v: &mut [Self]) -> f64;
}
at_level!(f32);
at_level!(f64);

#[cfg(test)]
mod tests {
    use super::*;

    /// The levels that this processor has.
    fn levels() -> impl Iterator<Item = Level> {
        [Level::Baseline, Level::Avx2, Level::Avx512].into_iter().filter(|&level| level <= best())
    }

    /// Numbers that are exact in f32, of mixed signs and sizes.
    fn number(k: usize) -> f64 {
        ((k * 7919 + 13) % 201) as f64 / 16.0 - 6.0
    }

    /// Every loop at every level against plain sums, at every length and offset.
    fn agrees<S: Number + AtLevel>(tolerance: f64) {
        for len in 0..=67 {
            for offset in 0..4 {
                let all: Vec<S> = (0..len + offset).map(|k| S::from_f64(number(k))).collect();
                let x = &all[offset..];
                let v: Vec<S> = (0..len).map(|k| S::from_f64(number(3 * k + 1))).collect();
                let wide = 3 * len + 1;
                let indices: Vec<i32> = (0..len).map(|k| ((k * 31 + 5) % wide) as i32).collect();
                let vs: Vec<S> = (0..wide).map(|k| S::from_f64(number(k + 2))).collect();
                let c = -0.375;
                let size: f64 = 1.0 + len as f64 * 150.0;
                for level in levels() {
                    let near = |got: f64, want: f64, what: &str| {
                        let error = (got - want).abs() / size;
                        assert!(error < tolerance, "{what} {level:?}, {len}: {got}, not {want}");
                    };
                    let pairs = x.iter().zip(&v).map(|(x, v)| x.to_f64() * v.to_f64());
                    near(S::dot_at(level, x, &v), pairs.sum(), "dot");

                    let mut new = v.clone();
                    let change = S::axpy_at(level, c, x, &mut new);
                    let mut want = 0.0;
                    for k in 0..len {
                        let sum = v[k].to_f64() + c * x[k].to_f64();
                        near(new[k].to_f64(), sum, "axpy");
                        want += sum * sum - v[k].to_f64() * v[k].to_f64();
                    }
                    near(change, want, "change of axpy");

                    let pairs = x.iter().zip(&indices);
                    let pairs = pairs.map(|(x, &j)| x.to_f64() * vs[j as usize].to_f64());
                    near(gather_dot::at(level, &indices, x, &vs), pairs.sum(), "gather");

                    let mut new = vs.clone();
                    let change = scatter_axpy::at(level, c, &indices, x, &mut new);
                    let mut want: Vec<f64> = vs.iter().map(|v| v.to_f64()).collect();
                    for (x, &j) in x.iter().zip(&indices) {
                        want[j as usize] += c * x.to_f64();
                    }
                    let square = |v: &[f64]| v.iter().map(|v| v * v).sum::<f64>();
                    let old: Vec<f64> = vs.iter().map(|v| v.to_f64()).collect();
                    near(change, square(&want) - square(&old), "change of scatter");
                    for (new, want) in new.iter().zip(&want) {
                        near(new.to_f64(), *want, "scatter");
                    }
                }
            }
        }
    }

    #[test]
    fn levels_agree_with_plain_sums() {
        agrees::<f32>(1e-6);
        agrees::<f64>(1e-15);
    }

    /// Wherever the bad index stands: in a full group or in the remainder.
    #[test]
    fn an_index_outside_is_seen_and_never_followed() {
        for level in levels() {
            for len in 1..=19 {
                for at in 0..len {
                    let mut indices = vec![0_i64; len];
                    let values = vec![1.0_f32; len];
                    for bad in [4, -1, i64::MAX, i64::MIN] {
                        indices[at] = bad;
                        let mut v = [1.0; 4];
                        assert!(gather_dot::at(level, &indices, &values, &v).is_nan());
                        scatter_axpy::at(level, 1.0, &indices, &values, &mut v);
                        assert_eq!(v, [1.0 + (len - 1) as f32, 1.0, 1.0, 1.0]);
                    }
                }
            }
        }
    }

    /// The longer of two slices is cut, and a number that is not finite shows.
    #[test]
    fn odd_slices_are_safe() {
        for level in levels() {
            for len in 0..40 {
                let x = vec![1.0_f64; 40];
                let mut v = vec![2.0; len];
                assert_eq!(f64::dot_at(level, &x, &v), 2.0 * len as f64);
                assert_eq!(f64::dot_at(level, &v, &x), 2.0 * len as f64);
                assert_eq!(f64::axpy_at(level, 1.0, &x, &mut v), 5.0 * len as f64);
                for bad in [f64::NAN, f64::INFINITY] {
                    for at in 0..len {
                        let mut x = x.clone();
                        x[at] = bad;
                        assert!(!f64::dot_at(level, &x, &vec![0.0; len]).is_finite());
                    }
                }
            }
        }
    }
}
