//! The dense products and updates of one vector in AVX2 intrinsics. From the portable body the compiler makes 300
//! instructions and more of each: it splits registers of a dot product by twos, as its last sums are of two, and stores and
//! loads the changes of an update, of which there are more than registers. A step then waits longer for its score.

use core::arch::x86_64::*;

use super::at::avx2::{Simd, Weigh};
use super::float::{Float, Widen};

/// The sum of all lanes, and of half as many; in the same order of lanes as halves are added to halves.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn sum_f32(all: __m256, half: __m128) -> f32 {
    let upper = _mm_add_ps(_mm256_extractf128_ps::<1>(all), half);
    let four = _mm_add_ps(_mm256_castps256_ps128(all), upper);
    let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
}

/// [`sum_f32`] in f64.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn sum_f64(all: __m256d, half: __m128d) -> f64 {
    let upper = _mm_add_pd(_mm256_extractf128_pd::<1>(all), half);
    let two = _mm_add_pd(_mm256_castpd256_pd128(all), upper);
    _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)))
}

/// `dot` and `axpy` for features in one scalar and weights in another. What full registers leave over goes by half a register
/// and then one by one, as `axpy` stores it: a load of what several stores have written waits for all of them. And into sums
/// of its own, which wait for no other.
macro_rules! dense {
    (
        $x:ty, $v:ident, lanes: $lanes:literal, load_x: |$p:ident| $load_x:expr,
        half_x: |$q:ident| $half_x:expr, set1: $set1:ident, zero: $zero:ident, load: $load:ident,
        store: $store:ident, fma: $fma:ident, add: $add:ident, mul: $mul:ident,
        half_zero: $half_zero:ident, half_load: $half_load:ident, half_store: $half_store:ident,
        half_add: $half_add:ident, half_mul: $half_mul:ident, lower: $lower:ident, sum: $sum:ident,
    ) => {
        #[target_feature(enable = "avx2,fma")]
        unsafe fn dot(x: &[$x], v: &[$v]) -> f64 {
            const LANES: usize = $lanes;
            let len = x.len().min(v.len());
            let (x, v) = (x.as_ptr(), v.as_ptr());
            let mut acc = [$zero(); 4];
            let mut at = 0;
            while at + 4 * LANES <= len {
                for (j, acc) in acc.iter_mut().enumerate() {
                    let at = at + j * LANES;
                    // SAFETY: `at + LANES <= len`, and `len` entries may be read from both.
                    *acc = unsafe {
                        let $p = x.add(at);
                        $fma($load_x, $load(v.add(at)), *acc)
                    };
                }
                at += 4 * LANES;
            }
            while at + LANES <= len {
                // SAFETY: as above. Rotating the accumulators keeps their chains apart.
                let sum = unsafe {
                    let $p = x.add(at);
                    $fma($load_x, $load(v.add(at)), acc[0])
                };
                acc = [acc[1], acc[2], acc[3], sum];
                at += LANES;
            }
            let (mut half, mut rest) = ($half_zero(), $v::ZERO);
            if at + LANES / 2 <= len {
                // SAFETY: `at + LANES / 2 <= len`, and `len` entries may be read from both.
                half = unsafe {
                    let $q = x.add(at);
                    $half_mul($half_x, $half_load(v.add(at)))
                };
                at += LANES / 2;
            }
            while at < len {
                // SAFETY: `at < len`, and `len` entries may be read from both.
                let (x, v): ($v, $v) = unsafe { ((*x.add(at)).widen(), *v.add(at)) };
                rest = x.mul_add(v, rest);
                at += 1;
            }
            let all = $add($add(acc[0], acc[1]), $add(acc[2], acc[3]));
            f64::from($sum(all, half) + rest)
        }

        #[target_feature(enable = "avx2,fma")]
        unsafe fn axpy(c: f64, x: &[$x], v: &mut [$v]) -> f64 {
            const LANES: usize = $lanes;
            let len = x.len().min(v.len());
            let (x, v) = (x.as_ptr(), v.as_mut_ptr());
            let one_c = c as $v;
            let c = $set1(one_c);
            let mut change = [$zero(); 2];
            let mut at = 0;
            while at + LANES <= len {
                // SAFETY: `at + LANES <= len`, and `len` entries may be read from `x`, read from and written to `v`.
                let (step, old) = unsafe {
                    let $p = x.add(at);
                    ($mul(c, $load_x), $load(v.add(at)))
                };
                let new = $add(old, step);
                // SAFETY: as above.
                unsafe { $store(v.add(at), new) };
                change = [change[1], $fma(step, $add(old, new), change[0])];
                at += LANES;
            }
            let (mut half, mut rest) = ($half_zero(), $v::ZERO);
            if at + LANES / 2 <= len {
                // SAFETY: `at + LANES / 2 <= len`, otherwise as above.
                let (step, old) = unsafe {
                    let $q = x.add(at);
                    ($half_mul($lower(c), $half_x), $half_load(v.add(at)))
                };
                let new = $half_add(old, step);
                // SAFETY: as above.
                unsafe { $half_store(v.add(at), new) };
                half = $half_mul(step, $half_add(old, new));
                at += LANES / 2;
            }
            while at < len {
                // SAFETY: `at < len`, otherwise as above.
                let (x, v): ($v, &mut $v) = unsafe { ((*x.add(at)).widen(), &mut *v.add(at)) };
                let (step, old) = (one_c * x, *v);
                *v = old + step;
                rest = step.mul_add(old + *v, rest);
                at += 1;
            }
            f64::from($sum($add(change[0], change[1]), half) + rest)
        }
    };
}

impl Weigh<f32> for f32 {
    dense!(
        f32, f32, lanes: 8, load_x: |p| _mm256_loadu_ps(p), half_x: |q| _mm_loadu_ps(q),
        set1: _mm256_set1_ps, zero: _mm256_setzero_ps, load: _mm256_loadu_ps,
        store: _mm256_storeu_ps, fma: _mm256_fmadd_ps, add: _mm256_add_ps, mul: _mm256_mul_ps,
        half_zero: _mm_setzero_ps, half_load: _mm_loadu_ps, half_store: _mm_storeu_ps,
        half_add: _mm_add_ps, half_mul: _mm_mul_ps, lower: _mm256_castps256_ps128, sum: sum_f32,
    );
}

impl Weigh<f64> for f64 {
    dense!(
        f64, f64, lanes: 4, load_x: |p| _mm256_loadu_pd(p), half_x: |q| _mm_loadu_pd(q),
        set1: _mm256_set1_pd, zero: _mm256_setzero_pd, load: _mm256_loadu_pd,
        store: _mm256_storeu_pd, fma: _mm256_fmadd_pd, add: _mm256_add_pd, mul: _mm256_mul_pd,
        half_zero: _mm_setzero_pd, half_load: _mm_loadu_pd, half_store: _mm_storeu_pd,
        half_add: _mm_add_pd, half_mul: _mm_mul_pd, lower: _mm256_castpd256_pd128, sum: sum_f64,
    );
}

impl Weigh<f64> for f32 {
    dense!(
        f32, f64, lanes: 4, load_x: |p| _mm256_cvtps_pd(_mm_loadu_ps(p)),
        half_x: |q| _mm_cvtps_pd(_mm_castsi128_ps(_mm_loadl_epi64(q.cast()))),
        set1: _mm256_set1_pd, zero: _mm256_setzero_pd, load: _mm256_loadu_pd,
        store: _mm256_storeu_pd, fma: _mm256_fmadd_pd, add: _mm256_add_pd, mul: _mm256_mul_pd,
        half_zero: _mm_setzero_pd, half_load: _mm_loadu_pd, half_store: _mm_storeu_pd,
        half_add: _mm_add_pd, half_mul: _mm_mul_pd, lower: _mm256_castpd256_pd128, sum: sum_f64,
    );
}

impl<S: Float> Simd for S {}
