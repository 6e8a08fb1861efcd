//! The dense products and updates in AVX2 intrinsics, to the bits of the portable body. From that the compiler makes 300 to 580
//! instructions of those of one vector: it splits registers of a dot product by twos, as its last sums are of two, and
//! stores and loads the changes of an update, of which there are more than registers. A step then waits longer for its score.
//! Of the products with several vectors it stores and loads every sum.

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

/// Features that some rows are multiplied by before the next ones, so that they stay in the first cache while registers of their
/// sums take turns.
const PIECE: usize = 32 * LANES;

/// Rows of weights, and rows, that are multiplied with each other at a time: with two registers each, 12 sums, which hide the
/// latency of a multiplication and leave room in 16 registers. In trials on an AMD EPYC (Zen 3) products of 500 f32 with 26
/// vectors of f64 took 0.35 to 0.48 of the portable body's time, of one row alone 0.62.
const WEIGHTS: usize = 3;
const PAIR: usize = 2;

fn write<const R: usize, const O: usize>(products: [[f64; O]; R], out: &mut [f64], stride: usize) {
    for (r, products) in products.iter().enumerate() {
        out[r * stride..r * stride + O].copy_from_slice(products);
    }
}

/// The loops for features in one scalar and weights in another.
macro_rules! dense {
    (
        $x:ty, $v:ident, registers: $registers:literal of $register:ty, load_x: |$p:ident| $load_x:expr,
        four_x: |$q:ident| $four_x:expr, set1: $set1:ident, zero: $zero:ident, load: $load:ident,
        store: $store:ident, fma: $fma:ident, add: $add:ident, mul: $mul:ident, fold: $fold:ident,
        four_set1: $four_set1:ident, four_load: $four_load:ident, four_store: $four_store:ident,
        four_fma: $four_fma:ident, four_add: $four_add:ident, four_mul: $four_mul:ident,
        sum: $sum:ident,
    ) => {
        const _: () = {
            type Register = $register;
            const REGISTERS: usize = $registers;
            const STEP: usize = LANES / REGISTERS;

            /// Goes on with G registers of each sum, the first of them at entry `at`, up to `end`.
            #[target_feature(enable = "avx2,fma")]
            #[inline]
            fn lanes<const G: usize, const R: usize, const O: usize>(
                x: [&[$x]; R],
                w: [&[$v]; O],
                mut at: usize,
                end: usize,
                mut acc: [[[Register; G]; O]; R],
            ) -> [[[Register; G]; O]; R] {
                assert!(x.iter().all(|x| x.len() >= end) && w.iter().all(|w| w.len() >= end));
                while at + G * STEP <= end {
                    for g in 0..G {
                        let at = at + g * STEP;
                        let mut ws = [$zero(); O];
                        for o in 0..O {
                            // SAFETY: `at + STEP <= end`, and so many entries may be read, by the assertion.
                            ws[o] = unsafe { $load(w[o].as_ptr().add(at)) };
                        }
                        for r in 0..R {
                            // SAFETY: as above.
                            let x = unsafe {
                                let $p = x[r].as_ptr().add(at);
                                $load_x
                            };
                            for o in 0..O {
                                acc[r][o][g] = $fma(x, ws[o], acc[r][o][g]);
                            }
                        }
                    }
                    at += LANES;
                }
                acc
            }

            /// The products of R rows with O rows of weights, each summed as in the portable body: of its [`LANES`] sums G
            /// registers at a time. All must be of one length.
            #[target_feature(enable = "avx2,fma")]
            #[inline]
            fn tile<const G: usize, const R: usize, const O: usize>(
                x: [&[$x]; R],
                w: [&[$v]; O],
            ) -> [[f64; O]; R] {
                let d = x[0].len();
                let whole = d - d % LANES;
                let mut sums = [[[$zero(); REGISTERS]; O]; R];
                for first in (0..whole).step_by(PIECE) {
                    let end = whole.min(first + PIECE);
                    for g in (0..REGISTERS).step_by(G) {
                        let mut acc = [[[$zero(); G]; O]; R];
                        for r in 0..R {
                            for o in 0..O {
                                acc[r][o].copy_from_slice(&sums[r][o][g..g + G]);
                            }
                        }
                        acc = lanes(x, w, first + g * STEP, end, acc);
                        for r in 0..R {
                            for o in 0..O {
                                sums[r][o][g..g + G].copy_from_slice(&acc[r][o]);
                            }
                        }
                    }
                }
                let mut products = [[0.0; O]; R];
                for r in 0..R {
                    for o in 0..O {
                        let mut eight = [$zero(); REGISTERS / 2];
                        for h in 0..REGISTERS / 2 {
                            eight[h] = $add(sums[r][o][h], sums[r][o][h + REGISTERS / 2]);
                        }
                        let mut one: $v = 0.0;
                        for at in whole..d {
                            let x: $v = x[r][at].widen();
                            one = x.mul_add(w[o][at], one);
                        }
                        products[r][o] = f64::from($sum($fold(eight)) + one);
                    }
                }
                products
            }

            /// The products of [`PAIR`] rows at most with [`WEIGHTS`] rows of weights at most.
            #[target_feature(enable = "avx2,fma")]
            #[inline]
            fn few(rows: &[&[$x]], w: &[&[$v]], out: &mut [f64], stride: usize) {
                match (rows, w) {
                    (&[x, y], &[a, b, c]) => write(tile::<2, 2, 3>([x, y], [a, b, c]), out, stride),
                    (&[x, y], &[a, b]) => write(tile::<2, 2, 2>([x, y], [a, b]), out, stride),
                    (&[x, y], &[a]) => write(tile::<REGISTERS, 2, 1>([x, y], [a]), out, stride),
                    (&[x], &[a, b, c]) => write(tile::<REGISTERS, 1, 3>([x], [a, b, c]), out, stride),
                    (&[x], &[a, b]) => write(tile::<REGISTERS, 1, 2>([x], [a, b]), out, stride),
                    (&[x], &[a]) => write(tile::<REGISTERS, 1, 1>([x], [a]), out, stride),
                    _ => {}
                }
            }

            impl Weigh<$v> for $x {
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

                #[target_feature(enable = "avx2,fma")]
                unsafe fn dots(x: &[$x], w: &[$v], out: &mut [f64]) {
                    let d = x.len();
                    for (k, out) in out.chunks_mut(WEIGHTS).enumerate() {
                        let (count, w) = (out.len(), &w[k * WEIGHTS * d..]);
                        match count {
                            1 => few(&[x], &[&w[..d]], out, count),
                            2 => few(&[x], &[&w[..d], &w[d..2 * d]], out, count),
                            _ => few(&[x], &[&w[..d], &w[d..2 * d], &w[2 * d..3 * d]], out, count),
                        }
                    }
                }

                #[target_feature(enable = "avx2,fma")]
                unsafe fn dots_of_rows(
                    rows: &[&[$x]],
                    w: &[&[$v]],
                    out: &mut [f64],
                    stride: usize,
                ) {
                    for (k, w) in w.chunks(WEIGHTS).enumerate() {
                        for (rows, out) in rows.chunks(PAIR).zip(out.chunks_mut(PAIR * stride)) {
                            few(rows, w, &mut out[k * WEIGHTS..], stride);
                        }
                    }
                }
            }
        };
    };
}

dense!(
    f32, f32, registers: 2 of __m256, load_x: |p| _mm256_loadu_ps(p), four_x: |q| _mm_loadu_ps(q),
    set1: _mm256_set1_ps, zero: _mm256_setzero_ps, load: _mm256_loadu_ps,
    store: _mm256_storeu_ps, fma: _mm256_fmadd_ps, add: _mm256_add_ps, mul: _mm256_mul_ps,
    fold: fold_f32, four_set1: _mm_set1_ps, four_load: _mm_loadu_ps, four_store: _mm_storeu_ps,
    four_fma: _mm_fmadd_ps, four_add: _mm_add_ps, four_mul: _mm_mul_ps, sum: sum_f32,
);

dense!(
    f64, f64, registers: 4 of __m256d, load_x: |p| _mm256_loadu_pd(p), four_x: |q| _mm256_loadu_pd(q),
    set1: _mm256_set1_pd, zero: _mm256_setzero_pd, load: _mm256_loadu_pd,
    store: _mm256_storeu_pd, fma: _mm256_fmadd_pd, add: _mm256_add_pd, mul: _mm256_mul_pd,
    fold: fold_f64, four_set1: _mm256_set1_pd, four_load: _mm256_loadu_pd,
    four_store: _mm256_storeu_pd, four_fma: _mm256_fmadd_pd, four_add: _mm256_add_pd,
    four_mul: _mm256_mul_pd, sum: sum_f64,
);

dense!(
    f32, f64, registers: 4 of __m256d, load_x: |p| _mm256_cvtps_pd(_mm_loadu_ps(p)),
    four_x: |q| _mm256_cvtps_pd(_mm_loadu_ps(q)), set1: _mm256_set1_pd,
    zero: _mm256_setzero_pd, load: _mm256_loadu_pd, store: _mm256_storeu_pd,
    fma: _mm256_fmadd_pd, add: _mm256_add_pd, mul: _mm256_mul_pd, fold: fold_f64,
    four_set1: _mm256_set1_pd, four_load: _mm256_loadu_pd, four_store: _mm256_storeu_pd,
    four_fma: _mm256_fmadd_pd, four_add: _mm256_add_pd, four_mul: _mm256_mul_pd, sum: sum_f64,
);

impl<S: Float> Simd for S {}
