//! The dense loops in AVX-512 intrinsics. From the portable body the compiler makes 345 instructions of
//! a dot product, splitting registers to treat the remainder; a masked load needs one. And registers for the loops of
//! Shapley values, of whose arrays it makes scatters and shuffles (f32 took twice as long).
//!
//! Not the sparse loops: in a trial in C, gathers score rows of 44 f32 a third faster than scalar loads, but an epoch
//! with updates takes the same time, and gathers behind a masked load take three times as long.

use core::arch::x86_64::*;
use core::array::from_fn;

use super::at::avx512::{Simd, Weigh};
use super::games::{Four, GAMES, Games, Register, Round, Rule, by_registers};

/// The low `len` bits.
#[inline(always)]
fn mask(len: usize) -> u32 {
    (1 << len) - 1
}

/// The dense loops for features and weights of one scalar.
macro_rules! dense {
    (
        $t:ident, lanes: $lanes:literal, mask: $mask:ty, set1: $set1:ident, zero: $zero:ident,
        load: $load:ident, maskz_load: $maskz_load:ident, maskz_compress: $compress:ident,
        store: $store:ident, mask_store: $mask_store:ident, fma: $fma:ident, add: $add:ident,
        mul: $mul:ident, reduce: $reduce:ident,
    ) => {
        #[target_feature(enable = "avx512f")]
        unsafe fn dot(x: &[$t], v: &[$t]) -> f64 {
            const LANES: usize = $lanes;
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
                let low = mask(len) as $mask;
                // SAFETY: a masked load touches only the lanes of its mask.
                acc[0] = unsafe { $fma($maskz_load(low, x), $maskz_load(low, v), acc[0]) };
            } else if at < len {
                // The last full window, of which only the lanes not yet seen count. A masked
                // load from `at` on would fetch the cache line behind the row, which nothing has
                // asked for: in random order that doubles an epoch's time on rows of 54 f32.
                let window = len - LANES;
                let high = (mask(len - at) as $mask) << (LANES - (len - at));
                // SAFETY: `window..len` lies within the `len` entries.
                acc[0] = unsafe {
                    $fma($maskz_load(high, x.add(window)), $load(v.add(window)), acc[0])
                };
            }
            f64::from($reduce($add($add(acc[0], acc[1]), $add(acc[2], acc[3]))))
        }

        #[target_feature(enable = "avx512f")]
        unsafe fn axpy(c: f64, x: &[$t], v: &mut [$t]) -> f64 {
            const LANES: usize = $lanes;
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
                let low = mask(len - at) as $mask;
                // SAFETY: `len` entries may be read from both and written to `v`; masked loads
                // and stores touch only the lanes of their mask.
                let (step, old) = unsafe {
                    let x = if len < LANES {
                        $maskz_load(low, x)
                    } else {
                        // The load ends at `len`, for the reason given in `dot`, and the lanes are moved
                        // down: a store to a window that reaches back would stall the next load of what
                        // it covers.
                        $compress(low << (LANES - (len - at)), $load(x.add(len - LANES)))
                    };
                    ($mul(c, x), $maskz_load(low, v.add(at)))
                };
                let new = $add(old, step);
                // SAFETY: as above.
                unsafe { $mask_store(v.add(at), low, new) };
                change[0] = $fma(step, $add(old, new), change[0]);
            }
            f64::from($reduce($add(change[0], change[1])))
        }

        dots!(
            $t, $t, lanes: $lanes, mask: $mask, load_x: |p| $load(p),
            maskz_load_x: |m, p| $maskz_load(m, p), zero: $zero, load: $load,
            maskz_load: $maskz_load, fma: $fma, reduce: $reduce,
        );
    };
}

/// `dots`, by four rows of weights at a time, and `dots_of_rows` for features in one scalar and weights in another. From the
/// portable body the compiler makes loops of 256 bits that spill their sums.
macro_rules! dots {
    (
        $x:ty, $v:ty, lanes: $lanes:literal, mask: $mask:ty, load_x: |$p:ident| $load_x:expr,
        maskz_load_x: |$m:ident, $q:ident| $maskz_load_x:expr, zero: $zero:ident, load: $load:ident,
        maskz_load: $maskz_load:ident, fma: $fma:ident, reduce: $reduce:ident,
    ) => {
        #[target_feature(enable = "avx512f,avx512vl")]
        unsafe fn dots(x: &[$x], w: &[$v], out: &mut [f64]) {
            const LANES: usize = $lanes;
            let d = x.len();
            assert!(w.len() >= out.len() * d);
            let low = mask(d % LANES) as $mask;
            for (group, out) in out.chunks_mut(4).enumerate() {
                // A last group of fewer rows repeats one of them.
                let row = |j: usize| w[(4 * group + j.min(out.len() - 1)) * d..].as_ptr();
                let rows = [row(0), row(1), row(2), row(3)];
                let mut acc = [$zero(); 4];
                let mut at = 0;
                while at + LANES <= d {
                    let $p = x[at..].as_ptr();
                    // SAFETY: `at + LANES <= d`, and `d` entries may be read from `x` and from every
                    // row, by the assertion.
                    unsafe {
                        let x = $load_x;
                        for (acc, row) in acc.iter_mut().zip(rows) {
                            *acc = $fma(x, $load(row.add(at)), *acc);
                        }
                    }
                    at += LANES;
                }
                if at < d {
                    let ($m, $q) = (low, x[at..].as_ptr());
                    // SAFETY: as above; masked loads touch only the lanes of their mask.
                    unsafe {
                        let x = $maskz_load_x;
                        for (acc, row) in acc.iter_mut().zip(rows) {
                            *acc = $fma(x, $maskz_load(low, row.add(at)), *acc);
                        }
                    }
                }
                for (out, acc) in out.iter_mut().zip(acc) {
                    *out = f64::from($reduce(acc));
                }
            }
        }

        #[target_feature(enable = "avx512f,avx512vl")]
        unsafe fn dots_of_rows(rows: &[&[$x]], w: &[&[$v]], out: &mut [f64], stride: usize) {
            const LANES: usize = $lanes;
            /// The products of four rows with N rows of weights: `out[r][o]`, each summed as `dots` does.
            ///
            /// # Safety
            /// `d` numbers may be read from every row.
            #[inline]
            #[target_feature(enable = "avx512f,avx512vl")]
            unsafe fn tile<const N: usize>(
                d: usize,
                rows: [*const $x; 4],
                w: [*const $v; N],
            ) -> [[f64; N]; 4] {
                let mut acc = [[$zero(); N]; 4];
                let mut at = 0;
                while at + LANES <= d {
                    // SAFETY: `at + LANES <= d`, and the caller's promise.
                    unsafe {
                        let mut x = [$zero(); 4];
                        for r in 0..4 {
                            let $p = rows[r].add(at);
                            x[r] = $load_x;
                        }
                        for o in 0..N {
                            let w = $load(w[o].add(at));
                            for r in 0..4 {
                                acc[r][o] = $fma(x[r], w, acc[r][o]);
                            }
                        }
                    }
                    at += LANES;
                }
                if at < d {
                    let low = mask(d - at) as $mask;
                    // SAFETY: as above; masked loads touch only the lanes of their mask.
                    unsafe {
                        let mut x = [$zero(); 4];
                        for r in 0..4 {
                            let ($m, $q) = (low, rows[r].add(at));
                            x[r] = $maskz_load_x;
                        }
                        for o in 0..N {
                            let w = $maskz_load(low, w[o].add(at));
                            for r in 0..4 {
                                acc[r][o] = $fma(x[r], w, acc[r][o]);
                            }
                        }
                    }
                }
                // Closures would be compiled for the baseline, and called.
                let mut products = [[0.0; N]; 4];
                for r in 0..4 {
                    for o in 0..N {
                        products[r][o] = f64::from($reduce(acc[r][o]));
                    }
                }
                products
            }
            let d = rows[0].len();
            assert!(rows.iter().all(|row| row.len() == d) && w.iter().all(|row| row.len() == d));
            for (k, w) in w.chunks(6).enumerate() {
                for (rows, out) in rows.chunks(4).zip(out.chunks_mut(4 * stride)) {
                    // What is missing in fours and sixes repeats the last of those that are there.
                    let x: [_; 4] = from_fn(|r| rows[r.min(rows.len() - 1)].as_ptr());
                    let row = |o: usize| w[o.min(w.len() - 1)].as_ptr();
                    let mut write = |products: &[[f64; 6]; 4]| {
                        for (out, products) in out.chunks_mut(stride).zip(products) {
                            out[6 * k..][..w.len()].copy_from_slice(&products[..w.len()]);
                        }
                    };
                    // SAFETY: all rows have `d` numbers, by the assertion.
                    unsafe {
                        match w.len() {
                            1 | 2 => {
                                let few = tile(d, x, [row(0), row(1)]);
                                write(&few.map(|[a, b]| [a, b, 0.0, 0.0, 0.0, 0.0]));
                            }
                            3 | 4 => {
                                let few = tile(d, x, [row(0), row(1), row(2), row(3)]);
                                write(&few.map(|[a, b, c, e]| [a, b, c, e, 0.0, 0.0]));
                            }
                            _ => write(&tile(d, x, from_fn(row))),
                        }
                    }
                }
            }
        }
    };
}

impl Weigh<f32> for f32 {
    dense!(
        f32, lanes: 16, mask: __mmask16, set1: _mm512_set1_ps, zero: _mm512_setzero_ps,
        load: _mm512_loadu_ps, maskz_load: _mm512_maskz_loadu_ps,
        maskz_compress: _mm512_maskz_compress_ps, store: _mm512_storeu_ps,
        mask_store: _mm512_mask_storeu_ps, fma: _mm512_fmadd_ps, add: _mm512_add_ps,
        mul: _mm512_mul_ps, reduce: _mm512_reduce_add_ps,
    );
}

impl Weigh<f64> for f64 {
    dense!(
        f64, lanes: 8, mask: __mmask8, set1: _mm512_set1_pd, zero: _mm512_setzero_pd,
        load: _mm512_loadu_pd, maskz_load: _mm512_maskz_loadu_pd,
        maskz_compress: _mm512_maskz_compress_pd, store: _mm512_storeu_pd,
        mask_store: _mm512_mask_storeu_pd, fma: _mm512_fmadd_pd, add: _mm512_add_pd,
        mul: _mm512_mul_pd, reduce: _mm512_reduce_add_pd,
    );
}

impl Weigh<f64> for f32 {
    dots!(
        f32, f64, lanes: 8, mask: __mmask8, load_x: |p| _mm512_cvtps_pd(_mm256_loadu_ps(p)),
        maskz_load_x: |m, p| _mm512_cvtps_pd(_mm256_maskz_loadu_ps(m, p)),
        zero: _mm512_setzero_pd, load: _mm512_loadu_pd, maskz_load: _mm512_maskz_loadu_pd,
        fma: _mm512_fmadd_pd, reduce: _mm512_reduce_add_pd,
    );
}

/// A register of games, and what has use for it.
macro_rules! games {
    (
        $t:ident, $name:ident, $register:ident, set1: $set1:ident, load: $load:ident, store: $store:ident,
        add: $add:ident, sub: $sub:ident, mul: $mul:ident, fma: $fma:ident,
    ) => {
        /// Nobody can name it but `integrate` below, and who calls that has AVX-512.
        #[derive(Clone, Copy)]
        struct $name($register);

        impl Register<$t> for $name {
            const PARTS: usize = GAMES * size_of::<$t>() / size_of::<$register>();
            #[inline(always)]
            fn all(x: $t) -> Self {
                // SAFETY: there is AVX-512, as said at the type.
                $name(unsafe { $set1(x) })
            }
            #[inline(always)]
            fn load(games: &Games<$t>, part: usize) -> Self {
                let (parts, _) = games.0.as_chunks::<{ GAMES / Self::PARTS }>();
                // SAFETY: as above; a part has as many numbers as are read.
                $name(unsafe { $load(parts[part].as_ptr()) })
            }
            #[inline(always)]
            fn store(self, games: &mut Games<$t>, part: usize) {
                let (parts, _) = games.0.as_chunks_mut::<{ GAMES / Self::PARTS }>();
                // SAFETY: as above; a part has as many numbers as are written.
                unsafe { $store(parts[part].as_mut_ptr(), self.0) }
            }
            #[inline(always)]
            fn plus(self, b: Self) -> Self {
                // SAFETY: as above.
                $name(unsafe { $add(self.0, b.0) })
            }
            #[inline(always)]
            fn minus(self, b: Self) -> Self {
                // SAFETY: as above.
                $name(unsafe { $sub(self.0, b.0) })
            }
            #[inline(always)]
            fn times(self, b: Self) -> Self {
                // SAFETY: as above.
                $name(unsafe { $mul(self.0, b.0) })
            }
            #[inline(always)]
            fn times_plus(self, b: Self, c: Self) -> Self {
                // SAFETY: as above.
                $name(unsafe { $fma(self.0, b.0, c.0) })
            }
        }

        impl Simd for $t {
            #[target_feature(enable = "avx512f")]
            unsafe fn integrate(
                rule: Option<&Rule>,
                round: Round<'_, $t>,
                room: &mut [Four<$t>],
                out: &mut [Games<$t>],
            ) {
                by_registers::<$t, $name>(rule, round, room, out);
            }
        }
    };
}
games!(
    f32, Singles, __m512, set1: _mm512_set1_ps, load: _mm512_loadu_ps, store: _mm512_storeu_ps, add: _mm512_add_ps,
    sub: _mm512_sub_ps, mul: _mm512_mul_ps, fma: _mm512_fmadd_ps,
);
games!(
    f64, Doubles, __m512d, set1: _mm512_set1_pd, load: _mm512_loadu_pd, store: _mm512_storeu_pd, add: _mm512_add_pd,
    sub: _mm512_sub_pd, mul: _mm512_mul_pd, fma: _mm512_fmadd_pd,
);
