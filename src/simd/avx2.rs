//! The dense products and updates of one vector in AVX2 intrinsics, to the bits of the portable body. From that the compiler
//! makes 300 to 580 instructions of each: it splits registers of a dot product by twos, as its last sums are of two, and
//! stores and loads the changes of an update, of which there are more than registers. A step then waits longer for its score.

use core::arch::x86_64::*;

use super::at::avx2::{Simd, Weigh};
use super::body::LANES;
use super::float::{Float, Widen};

/// Half of the lanes added to the others: eight sums become four.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn fold_f32([eight]: [__m256; 1]) -> __m128 {
    _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight))
}

/// [`fold_f32`] in f64.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn fold_f64([first, second]: [__m256d; 2]) -> __m256d {
    _mm256_add_pd(first, second)
}

/// The sum of four lanes, the third added to the first.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn sum_f32(four: __m128) -> f32 {
    let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
}

/// [`sum_f32`] in f64.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn sum_f64(four: __m256d) -> f64 {
    let two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd::<1>(four));
    _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)))
}

/// [`sweep`](super::body) with steps in registers: each gives a sum, from the entry `at` on, what it has come to.
macro_rules! sweep {
    (
        $len:ident, $at:ident, registers: $registers:literal, zero: $zero:ident, add: $add:ident,
        fold: $fold:ident, sum: $sum:ident, wide: |$w:ident| $wide:expr,
        four: |$f:ident| $four:expr, one: |$o:ident| $one:expr,
    ) => {{
        const REGISTERS: usize = $registers;
        const STEP: usize = LANES / REGISTERS;
        let mut acc = [[$zero(); REGISTERS]; 4];
        let mut $at = 0;
        while $at + 4 * LANES <= $len {
            for $w in acc.as_flattened_mut() {
                *$w = $wide;
                $at += STEP;
            }
        }
        for acc in &mut acc[..3] {
            if $at + LANES <= $len {
                for $w in acc {
                    *$w = $wide;
                    $at += STEP;
                }
            }
        }
        let mut eight = [$zero(); REGISTERS / 2];
        for r in 0..REGISTERS / 2 {
            let other = r + REGISTERS / 2;
            let low = $add($add(acc[0][r], acc[1][r]), $add(acc[2][r], acc[3][r]));
            let [a, b, c, d] = [acc[0][other], acc[1][other], acc[2][other], acc[3][other]];
            eight[r] = $add(low, $add($add(a, b), $add(c, d)));
        }
        if $at + 8 <= $len {
            for $w in &mut eight {
                *$w = $wide;
                $at += STEP;
            }
        }
        let mut four = $fold(eight);
        if $at + 4 <= $len {
            let $f = &mut four;
            *$f = $four;
            $at += 4;
        }
        let mut one = $sum(four);
        while $at < $len {
            let $o = &mut one;
            *$o = $one;
            $at += 1;
        }
        f64::from(one)
    }};
}

/// `dot` and `axpy` for features in one scalar and weights in another.
macro_rules! dense {
    (
        $x:ty, $v:ident, registers: $registers:literal, load_x: |$p:ident| $load_x:expr,
        four_x: |$q:ident| $four_x:expr, set1: $set1:ident, zero: $zero:ident, load: $load:ident,
        store: $store:ident, fma: $fma:ident, add: $add:ident, mul: $mul:ident, fold: $fold:ident,
        four_set1: $four_set1:ident, four_load: $four_load:ident, four_store: $four_store:ident,
        four_fma: $four_fma:ident, four_add: $four_add:ident, four_mul: $four_mul:ident,
        sum: $sum:ident,
    ) => {
        #[target_feature(enable = "avx2,fma")]
        unsafe fn dot(x: &[$x], v: &[$v]) -> f64 {
            let len = x.len().min(v.len());
            let (x, v) = (x.as_ptr(), v.as_ptr());
            sweep!(
                len, at, registers: $registers, zero: $zero, add: $add, fold: $fold, sum: $sum,
                // SAFETY: a register's entries from `at` on are among the first `len`, which may be read from both.
                wide: |acc| unsafe {
                    let $p = x.add(at);
                    $fma($load_x, $load(v.add(at)), *acc)
                },
                // SAFETY: as above, of four entries.
                four: |acc| unsafe {
                    let $q = x.add(at);
                    $four_fma($four_x, $four_load(v.add(at)), *acc)
                },
                // SAFETY: as above, of one entry.
                one: |acc| unsafe {
                    let x: $v = (*x.add(at)).widen();
                    x.mul_add(*v.add(at), *acc)
                },
            )
        }

        #[target_feature(enable = "avx2,fma")]
        unsafe fn axpy(c: f64, x: &[$x], v: &mut [$v]) -> f64 {
            let len = x.len().min(v.len());
            let (x, v) = (x.as_ptr(), v.as_mut_ptr());
            let c = c as $v;
            let (wide_c, four_c) = ($set1(c), $four_set1(c));
            sweep!(
                len, at, registers: $registers, zero: $zero, add: $add, fold: $fold, sum: $sum,
                // SAFETY: a register's entries from `at` on are among the first `len`, which may be read from `x`, read from
                // and written to `v`.
                wide: |acc| unsafe {
                    let $p = x.add(at);
                    let (step, old) = ($mul(wide_c, $load_x), $load(v.add(at)));
                    let new = $add(old, step);
                    $store(v.add(at), new);
                    $fma(step, $add(old, new), *acc)
                },
                // SAFETY: as above, of four entries.
                four: |acc| unsafe {
                    let $q = x.add(at);
                    let (step, old) = ($four_mul(four_c, $four_x), $four_load(v.add(at)));
                    let new = $four_add(old, step);
                    $four_store(v.add(at), new);
                    $four_fma(step, $four_add(old, new), *acc)
                },
                // SAFETY: as above, of one entry.
                one: |acc| unsafe {
                    let x: $v = (*x.add(at)).widen();
                    let (step, old) = (c * x, *v.add(at));
                    let new = old + step;
                    *v.add(at) = new;
                    step.mul_add(old + new, *acc)
                },
            )
        }
    };
}

impl Weigh<f32> for f32 {
    dense!(
        f32, f32, registers: 2, load_x: |p| _mm256_loadu_ps(p), four_x: |q| _mm_loadu_ps(q),
        set1: _mm256_set1_ps, zero: _mm256_setzero_ps, load: _mm256_loadu_ps,
        store: _mm256_storeu_ps, fma: _mm256_fmadd_ps, add: _mm256_add_ps, mul: _mm256_mul_ps,
        fold: fold_f32, four_set1: _mm_set1_ps, four_load: _mm_loadu_ps, four_store: _mm_storeu_ps,
        four_fma: _mm_fmadd_ps, four_add: _mm_add_ps, four_mul: _mm_mul_ps, sum: sum_f32,
    );
}

impl Weigh<f64> for f64 {
    dense!(
        f64, f64, registers: 4, load_x: |p| _mm256_loadu_pd(p), four_x: |q| _mm256_loadu_pd(q),
        set1: _mm256_set1_pd, zero: _mm256_setzero_pd, load: _mm256_loadu_pd,
        store: _mm256_storeu_pd, fma: _mm256_fmadd_pd, add: _mm256_add_pd, mul: _mm256_mul_pd,
        fold: fold_f64, four_set1: _mm256_set1_pd, four_load: _mm256_loadu_pd,
        four_store: _mm256_storeu_pd, four_fma: _mm256_fmadd_pd, four_add: _mm256_add_pd,
        four_mul: _mm256_mul_pd, sum: sum_f64,
    );
}

impl Weigh<f64> for f32 {
    dense!(
        f32, f64, registers: 4, load_x: |p| _mm256_cvtps_pd(_mm_loadu_ps(p)),
        four_x: |q| _mm256_cvtps_pd(_mm_loadu_ps(q)), set1: _mm256_set1_pd,
        zero: _mm256_setzero_pd, load: _mm256_loadu_pd, store: _mm256_storeu_pd,
        fma: _mm256_fmadd_pd, add: _mm256_add_pd, mul: _mm256_mul_pd, fold: fold_f64,
        four_set1: _mm256_set1_pd, four_load: _mm256_loadu_pd, four_store: _mm256_storeu_pd,
        four_fma: _mm256_fmadd_pd, four_add: _mm256_add_pd, four_mul: _mm256_mul_pd, sum: sum_f64,
    );
}

impl<S: Float> Simd for S {}
