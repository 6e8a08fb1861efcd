//! The bodies under x86-64 shells, and the choice between them.

use std::sync::atomic::{AtomicU8, Ordering};

use super::body::{self, Widen};
use super::{Lanes, Simd, Steepest, WIDTH, avx512};
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

/// A body under a shell per level: a function compiled with the level's features.
macro_rules! shells {
    ($name:ident <$($g:ident: $bound:path),*> ($($arg:ident: $ty:ty),*)) => {
        shells!($name <$($g: $bound),*> ($($arg: $ty),*) -> f64);
    };
    ($name:ident <$($g:ident: $bound:path),*> ($($arg:ident: $ty:ty),*) -> $out:ty) => {
        mod $name {
            use super::*;
            #[target_feature(enable = "avx2,fma")]
            fn avx2<$($g: $bound),*>($($arg: $ty),*) -> $out {
                body::$name::<true, $($g),*>($($arg),*)
            }
            #[target_feature(enable = "avx2,fma,avx512f,avx512vl,avx512dq,avx512bw")]
            fn avx512<$($g: $bound),*>($($arg: $ty),*) -> $out {
                body::$name::<true, $($g),*>($($arg),*)
            }
            #[inline(always)]
            pub fn at<$($g: $bound),*>(level: Level, $($arg: $ty),*) -> $out {
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

shells!(dot<S: Widen<V>, V: Number>(x: &[S], v: &[V]));
shells!(dots<S: Widen<V>, V: Number>(x: &[S], w: &[V], out: &mut [f64]) -> ());
shells!(axpy<S: Widen<V>, V: Number>(c: f64, x: &[S], v: &mut [V]));
shells!(gather_dot<S: Widen<V>, V: Number, I: Index>(indices: &[I], values: &[S], v: &[V]));
shells!(scatter_axpy<S: Widen<V>, V: Number, I: Index>(c: f64, indices: &[I], values: &[S], v: &mut [V]));

shells!(sparse_products<S: Number, I: Index>(indices: &[I], values: &[S], block: &[Lanes<S>], out: &mut [S; WIDTH], nan: S) -> ());
shells!(descend<S: Widen<f64>>(c: f64, row: &[S], g: &mut [f64], a: &[f32], inverse: &[f32], weight: &[f32]) -> Steepest);
shells!(exp<S: Number>(x: &mut [S]) -> ());
shells!(rbf<S: Number>(gamma: f64, xz: &mut [S], xx: f64, zz: &[S]) -> ());

shells!(gaussian<S: Number>(gamma: f64, zz: &[S], xx: &[S; WIDTH], block: &mut [Lanes<S>], distances: &mut [Lanes<S>]) -> ());
shells!(lift<S: Number>(c: f64, coef: &[f64], k: &Lanes<S>, scores: &mut [Lanes<S>]) -> ());
shells!(mix<S: Number>(coef: &[(usize, f64)], w: &[S], stride: usize, out: &mut [S]) -> ());
shells!(between<S: Number>(h: f64, to_m: &[S], to_n: &[S], apart: f64, out: &mut [S]) -> ());
shells!(partner<S: Number>(gamma: f64, m: (usize, f64), distances: &[S], b: &[f64], c: &[S], bounds: &mut [S]) -> usize);
shells!(least<S: Number>(values: &[S]) -> usize);
shells!(update_and_multiply<>(q: &mut [f64], plus: &[f64], minus: &[f64], k: &[f64], out: &mut [f64]) -> ());

/// [`Simd::update_and_multiply`].
pub fn update_and_multiply_now(
    q: &mut [f64],
    plus: &[f64],
    minus: &[f64],
    k: &[f64],
    out: &mut [f64],
) {
    update_and_multiply::at(level(), q, plus, minus, k, out);
}

/// [`body::products`] under a shell per level: of as many lanes as two of the level's registers hold.
mod wide {
    use super::*;
    #[target_feature(enable = "avx2,fma")]
    fn products_avx2<const L: usize, S: Number>(
        rows: &[&[S]],
        block: &[Lanes<S>],
        out: &mut [S],
        stride: usize,
    ) {
        body::products::<true, L, S>(rows, block, out, stride);
    }
    #[target_feature(enable = "avx2,fma,avx512f,avx512vl,avx512dq,avx512bw")]
    fn products_avx512<const L: usize, S: Number>(
        rows: &[&[S]],
        block: &[Lanes<S>],
        out: &mut [S],
        stride: usize,
    ) {
        body::products::<true, L, S>(rows, block, out, stride);
    }
    #[inline(always)]
    pub fn products<const L128: usize, const L256: usize, const L512: usize, S: Number>(
        level: Level,
        rows: &[&[S]],
        block: &[Lanes<S>],
        out: &mut [S],
        stride: usize,
    ) {
        match level {
            // SAFETY: no level is above `best()`.
            Level::Avx512 => unsafe { products_avx512::<L512, S>(rows, block, out, stride) },
            // SAFETY: as above.
            Level::Avx2 => unsafe { products_avx2::<L256, S>(rows, block, out, stride) },
            Level::Baseline => body::products::<false, L128, S>(rows, block, out, stride),
        }
    }
}

/// What [`Simd`] does at a given level.
macro_rules! at_level {
    ($t:ident, dots: $dots:ident, $dots_wide:ident, wide: $dot_wide:path, $axpy_wide:path) => {
        impl AtLevel for $t {
            #[inline(always)]
            fn dots_at(level: Level, x: &[Self], w: &[Self], out: &mut [f64]) {
                match level {
                    // SAFETY: no level is above `best()`.
                    Level::Avx512 => unsafe { avx512::$dots(x, w, out) },
                    _ => dots::at(level, x, w, out),
                }
            }
            #[inline(always)]
            fn dots_wide_at(level: Level, x: &[Self], w: &[f64], out: &mut [f64]) {
                match level {
                    // SAFETY: no level is above `best()`.
                    Level::Avx512 => unsafe { avx512::$dots_wide(x, w, out) },
                    _ => dots::at(level, x, w, out),
                }
            }
            #[inline(always)]
            fn dot_at(level: Level, x: &[Self], v: &[Self]) -> f64 {
                match level {
                    // SAFETY: no level is above `best()`.
                    Level::Avx512 => unsafe { avx512::$t::dot(x, v) },
                    _ => dot::at(level, x, v),
                }
            }
            #[inline(always)]
            fn axpy_at(level: Level, c: f64, x: &[Self], v: &mut [Self]) -> f64 {
                match level {
                    // SAFETY: no level is above `best()`.
                    Level::Avx512 => unsafe { avx512::$t::axpy(c, x, v) },
                    _ => axpy::at(level, c, x, v),
                }
            }
            #[inline(always)]
            fn products_at(
                level: Level,
                rows: &[&[Self]],
                block: &[Lanes<Self>],
                out: &mut [Self],
                stride: usize,
            ) {
                const SIZE: usize = size_of::<$t>();
                wide::products::<{ 32 / SIZE }, { 64 / SIZE }, { 128 / SIZE }, Self>(
                    level, rows, block, out, stride,
                );
            }
        }

        impl Simd for $t {
            #[inline(always)]
            fn own_dot(x: &[Self], v: &[Self]) -> f64 {
                Self::dot_at(level(), x, v)
            }
            #[inline(always)]
            fn own_axpy(c: f64, x: &[Self], v: &mut [Self]) -> f64 {
                Self::axpy_at(level(), c, x, v)
            }
            #[inline(always)]
            fn own_gather_dot<I: Index>(indices: &[I], values: &[Self], v: &[Self]) -> f64 {
                gather_dot::at(level(), indices, values, v)
            }
            #[inline(always)]
            fn own_scatter_axpy<I: Index>(
                c: f64,
                indices: &[I],
                values: &[Self],
                v: &mut [Self],
            ) -> f64 {
                scatter_axpy::at(level(), c, indices, values, v)
            }
            #[inline(always)]
            fn own_dots(x: &[Self], w: &[Self], out: &mut [f64]) {
                Self::dots_at(level(), x, w, out);
            }
            #[inline(always)]
            fn dots_wide(x: &[Self], w: &[f64], out: &mut [f64]) {
                Self::dots_wide_at(level(), x, w, out);
            }
            #[inline(always)]
            fn dot_wide(x: &[Self], v: &[f64]) -> f64 {
                $dot_wide(level(), x, v)
            }
            #[inline(always)]
            fn axpy_wide(c: f64, x: &[Self], v: &mut [f64]) -> f64 {
                $axpy_wide(level(), c, x, v)
            }
            #[inline(always)]
            fn gather_dot_wide<I: Index>(indices: &[I], values: &[Self], v: &[f64]) -> f64 {
                gather_dot::at(level(), indices, values, v)
            }
            #[inline(always)]
            fn scatter_axpy_wide<I: Index>(
                c: f64,
                indices: &[I],
                values: &[Self],
                v: &mut [f64],
            ) -> f64 {
                scatter_axpy::at(level(), c, indices, values, v)
            }
            #[inline(always)]
            fn products(rows: &[&[Self]], block: &[Lanes<Self>], out: &mut [Self], stride: usize) {
                Self::products_at(level(), rows, block, out, stride);
            }
            #[inline(always)]
            fn sparse_products<I: Index>(
                indices: &[I],
                values: &[Self],
                block: &[Lanes<Self>],
                out: &mut [Self; WIDTH],
            ) {
                sparse_products::at(level(), indices, values, block, out, <$t>::NAN);
            }
            #[inline(always)]
            fn descend(
                c: f64,
                row: &[Self],
                g: &mut [f64],
                a: &[f32],
                inverse: &[f32],
                weight: &[f32],
            ) -> Steepest {
                descend::at(level(), c, row, g, a, inverse, weight)
            }
            #[inline(always)]
            fn exp(x: &mut [Self]) {
                exp::at(level(), x);
            }
            #[inline(always)]
            fn rbf(gamma: f64, xz: &mut [Self], xx: f64, zz: &[Self]) {
                rbf::at(level(), gamma, xz, xx, zz);
            }
            #[inline(always)]
            fn gaussian(
                gamma: f64,
                zz: &[Self],
                xx: &[Self; WIDTH],
                block: &mut [Lanes<Self>],
                distances: &mut [Lanes<Self>],
            ) {
                gaussian::at(level(), gamma, zz, xx, block, distances);
            }
            #[inline(always)]
            fn lift(c: f64, coef: &[f64], k: &Lanes<Self>, scores: &mut [Lanes<Self>]) {
                lift::at(level(), c, coef, k, scores);
            }
            #[inline(always)]
            fn mix(coef: &[(usize, f64)], w: &[Self], stride: usize, out: &mut [Self]) {
                mix::at(level(), coef, w, stride, out);
            }
            #[inline(always)]
            fn between(h: f64, to_m: &[Self], to_n: &[Self], apart: f64, out: &mut [Self]) {
                between::at(level(), h, to_m, to_n, apart, out);
            }
            #[inline(always)]
            fn partner(
                gamma: f64,
                m: (usize, f64),
                distances: &[Self],
                b: &[f64],
                c: &[Self],
                bounds: &mut [Self],
            ) -> usize {
                partner::at(level(), gamma, m, distances, b, c, bounds)
            }
            #[inline(always)]
            fn least(values: &[Self]) -> usize {
                least::at(level(), values)
            }
        }
    };
}

trait AtLevel: Sized {
    fn dots_at(level: Level, x: &[Self], w: &[Self], out: &mut [f64]);
    fn dots_wide_at(level: Level, x: &[Self], w: &[f64], out: &mut [f64]);
    fn dot_at(level: Level, x: &[Self], v: &[Self]) -> f64;
    fn axpy_at(level: Level, c: f64, x: &[Self], v: &mut [Self]) -> f64;
    fn products_at(
        level: Level,
        rows: &[&[Self]],
        block: &[Lanes<Self>],
        out: &mut [Self],
        stride: usize,
    );
}
at_level!(f32, dots: dots_f32, dots_wide, wide: dot::at, axpy::at);
at_level!(f64, dots: dots_f64, dots_f64, wide: f64::dot_at, f64::axpy_at);

#[cfg(test)]
mod tests {
    use super::super::TILE;
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

                    let w: Vec<S> = (0..7 * len).map(|k| S::from_f64(number(k + 5))).collect();
                    let mut out = [0.0; 7];
                    S::dots_at(level, x, &w, &mut out);
                    let mut wide_out = [0.0; 7];
                    let wide: Vec<f64> = w.iter().map(|w| w.to_f64()).collect();
                    S::dots_wide_at(level, x, &wide, &mut wide_out);
                    for (o, row) in w.chunks(len.max(1)).enumerate() {
                        let pairs = x.iter().zip(row).map(|(x, w)| x.to_f64() * w.to_f64());
                        let want = pairs.sum();
                        near(out[o], want, "dots");
                        near(wide_out[o], want, "dots_wide");
                    }

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

    /// Products with a block at every level, for every number of rows, features and offset, dense and
    /// sparse, against plain sums.
    fn products_agree<S: Number + AtLevel>(tolerance: f64, nan: S) {
        for d in (0..=67).step_by(3) {
            let block: Vec<Lanes<S>> = (0..d)
                .map(|j| Lanes(std::array::from_fn(|k| S::from_f64(number(WIDTH * j + k)))))
                .collect();
            for rows in 1..=TILE + 4 {
                let all: Vec<S> = (0..rows * d + 1).map(|k| S::from_f64(number(k + 9))).collect();
                let slices: Vec<&[S]> = (0..rows).map(|r| &all[1 + r * d..][..d]).collect();
                let indices: Vec<i32> = (0..d as i32).rev().collect();
                for level in levels() {
                    let stride = WIDTH + 3;
                    let mut out = vec![S::from_f64(-7.0); rows * stride];
                    S::products_at(level, &slices, &block, &mut out, stride);
                    for (r, x) in slices.iter().enumerate() {
                        let mut sparse = [S::default(); WIDTH];
                        let values: Vec<S> = x.iter().rev().copied().collect();
                        sparse_products::at(level, &indices, &values, &block, &mut sparse, nan);
                        for k in 0..WIDTH {
                            let want: f64 =
                                (0..d).map(|j| x[j].to_f64() * block[j].0[k].to_f64()).sum();
                            let near = |got: S| {
                                let error = (got.to_f64() - want).abs() / (1.0 + d as f64 * 150.0);
                                assert!(
                                    error < tolerance,
                                    "{level:?} {d} {rows}: {got}, not {want}"
                                );
                            };
                            near(out[r * stride + k]);
                            near(sparse[k]);
                        }
                        let room = &out[r * stride + WIDTH..(r + 1) * stride];
                        assert!(
                            room.iter().all(|&x| x == S::from_f64(-7.0)),
                            "written beyond the block"
                        );
                    }
                    for bad in [d as i32, -1] {
                        let mut out = [S::default(); WIDTH];
                        let value = [S::from_f64(1.0)];
                        sparse_products::at(level, &[bad], &value, &block, &mut out, nan);
                        assert!(out.iter().all(|x| x.to_f64().is_nan()));
                    }
                }
            }
        }
    }

    #[test]
    fn products_agree_with_plain_sums() {
        products_agree::<f32>(1e-6, f32::NAN);
        products_agree::<f64>(1e-15, f64::NAN);
    }

    /// Exponentials over their range, of slices of every length and offset; and beyond it.
    fn exponentials<S: Number>(range: std::ops::Range<f64>, tolerance: f64) {
        let at = |k: usize| range.start + (range.end - range.start) * k as f64 / 200_000.0;
        let all: Vec<S> = (0..200_000).map(|k| S::from_f64(at(k))).collect();
        for level in levels() {
            let mut got = all.clone();
            exp::at(level, &mut got);
            for (x, got) in all.iter().zip(&got) {
                let error = got.to_f64() / x.to_f64().exp() - 1.0;
                assert!(error.abs() <= tolerance, "{level:?} {x}: {error}");
            }
            for len in 0..=67 {
                for offset in 0..4 {
                    let mut part = all[1000..1000 + offset + len].to_vec();
                    exp::at(level, &mut part[offset..]);
                    assert_eq!(part[..offset], all[1000..1000 + offset]);
                    assert_eq!(part[offset..], got[1000 + offset..1000 + offset + len]);
                }
            }
            let mut odd = [f64::NEG_INFINITY, -1e30, f64::NAN, 0.0, -0.0].map(S::from_f64);
            exp::at(level, &mut odd);
            assert_eq!((odd[0].to_f64(), odd[1].to_f64()), (0.0, 0.0));
            assert!(odd[2].to_f64().is_nan());
            assert_eq!((odd[3].to_f64(), odd[4].to_f64()), (1.0, 1.0));
        }
    }

    #[test]
    fn exponentials_are_accurate() {
        exponentials::<f32>(-87.0..88.0, 2e-7);
        exponentials::<f64>(-708.0..709.0, 1e-14);
    }

    /// What maintenance asks of all vectors, at every level, against plain loops.
    fn maintenance_agrees<S: Number>(tolerance: f64) {
        let numbers = |n: usize, from: usize| -> Vec<S> {
            (0..n).map(|k| S::from_f64(number(k + from) / 8.0)).collect()
        };
        let near = |got: S, want: f64, what: &str| {
            let error = (got.to_f64() - want).abs() / (1.0 + want.abs());
            assert!(error < tolerance, "{what}: {got}, not {want}");
        };
        for level in levels() {
            for slots in [0, 1, 5, 37] {
                let lanes = |from: usize| -> Vec<Lanes<S>> {
                    let all = numbers(slots * WIDTH, from);
                    all.as_chunks().0.iter().map(|lanes| Lanes(*lanes)).collect()
                };
                let products = lanes(3);
                let (mut k, mut distances) = (products.clone(), lanes(0));
                let (zz, xx) = (numbers(slots, 40), numbers(WIDTH, 50));
                let xx: [S; WIDTH] = std::array::from_fn(|l| xx[l]);
                gaussian::at(level, 0.3, &zz, &xx, &mut k, &mut distances);
                for s in 0..slots {
                    for (l, xx) in xx.iter().enumerate() {
                        let product = products[s].0[l].to_f64();
                        let want = (xx.to_f64() + zz[s].to_f64() - 2.0 * product).max(0.0);
                        near(distances[s].0[l], want, "distance");
                        near(k[s].0[l], (-0.3 * want).exp(), "kernel value");
                    }
                }
                let Some(first) = k.first() else {
                    continue;
                };
                let coef: Vec<f64> = (0..slots).map(|o| number(o) * f64::from(o % 3 > 0)).collect();
                let mut scores = lanes(7);
                lift::at(level, -0.5, &coef, first, &mut scores);
                for (o, (got, before)) in scores.iter().zip(lanes(7)).enumerate() {
                    for l in 0..WIDTH {
                        let want = before.0[l].to_f64() - 0.5 * coef[o] * first.0[l].to_f64();
                        near(got.0[l], want, "lift");
                    }
                }
            }
            for width in [0, WIDTH, 3 * WIDTH] {
                let stride = width + 5;
                let w = numbers(4 * stride, 11);
                let mut out = numbers(width, 0);
                mix::at(level, &[(0, 0.5), (3, -2.0)], &w, stride, &mut out);
                for (k, got) in out.iter().enumerate() {
                    near(*got, 0.5 * w[k].to_f64() - 2.0 * w[3 * stride + k].to_f64(), "mix");
                }
                let (m, n) = (numbers(width, 21), numbers(width, 31));
                between::at(level, 0.25, &m, &n, 1.5, &mut out);
                for (k, got) in out.iter().enumerate() {
                    let want = 0.25 * m[k].to_f64() + 0.75 * n[k].to_f64() - 0.1875 * 1.5;
                    near(*got, want.max(0.0), "between");
                }
                let mut values = numbers(width, 5);
                if let Some(value) = values.first_mut() {
                    *value = S::from_f64(f64::NAN);
                    let got = least::at(level, &values);
                    let least =
                        values[1..].iter().map(|v| v.to_f64()).fold(f64::INFINITY, f64::min);
                    let first = values.iter().position(|v| v.to_f64() == least);
                    assert_eq!(Some(got), first, "{level:?}");
                }
            }
        }
    }

    #[test]
    fn maintenance_agrees_with_plain_loops() {
        maintenance_agrees::<f32>(2e-6);
        maintenance_agrees::<f64>(1e-14);
    }

    /// The lower half of a symmetric matrix, of every size.
    #[test]
    fn updates_agree_with_plain_loops() {
        for level in levels() {
            for n in 0..=67 {
                let vector =
                    |from: usize| -> Vec<f64> { (0..n).map(|k| number(k + from)).collect() };
                let (plus, minus, k) = (vector(1), vector(9), vector(17));
                let before: Vec<f64> = (0..n * (n + 1) / 2).map(number).collect();
                let (mut q, mut out) = (before.clone(), vec![7.0; n]);
                update_and_multiply::at(level, &mut q, &plus, &minus, &k, &mut out);
                let at = |i: usize, j: usize| {
                    let place = i.max(j) * (i.max(j) + 1) / 2 + i.min(j);
                    let new = before[place] + plus[i] * plus[j] - minus[i] * minus[j];
                    assert!((q[place] - new).abs() < 1e-9, "{level:?} {n}");
                    new
                };
                for (i, got) in out.iter().enumerate() {
                    let want: f64 = (0..n).map(|j| at(i, j) * k[j]).sum();
                    assert!((got - want).abs() < 1e-7, "{level:?} {n}: {got}, not {want}");
                }
            }
        }
    }

    /// The same partner at every level, or one as good: the merger's own tests say what is best.
    #[test]
    fn partners_agree() {
        for round in 0..50 {
            let width = 3 * WIDTH;
            let distances: Vec<f32> = (0..width).map(|k| number(k + round).abs() as f32).collect();
            let b: Vec<f64> = (0..width).map(|k| 1.0 + number(k + 3 * round).abs()).collect();
            let c: Vec<f32> = (0..width).map(|k| number(5 * k + round) as f32 / 20.0).collect();
            let mut bounds = vec![0.0; width];
            let found: Vec<usize> = levels()
                .map(|level| {
                    let m = (round % width, 1.0);
                    partner::at(level, 0.7, m, &distances, &b, &c, &mut bounds)
                })
                .collect();
            assert!(found.iter().all(|n| *n == found[0] && *n != round % width), "{found:?}");
        }
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
