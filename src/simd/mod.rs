//! The loops that touch every feature: dot products and updates, dense and sparse.
//!
//! The bodies are portable Rust (`body.rs`). On x86-64 they are compiled three times, for the
//! baseline, AVX2 with FMA, and AVX-512 (where `avx512.rs` has intrinsics for the dense ones), and the
//! best that the processor has is chosen once per process (`x86.rs`). `PEGASOS_SIMD=baseline`, `avx2`
//! or `avx512` asks for a lower level, for tests and benches; a level that the processor lacks, or a
//! word that names none, is not obeyed.
//!
//! Different levels group sums differently, so the last bits of a result depend on the level.

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod avx512;
mod body;
mod maintenance;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod x86;

use crate::scalar::Index;

pub use body::{LANES, Lanes, Steepest, TILE, WIDTH};

/// What a scalar can do fast. Implemented for `f32` and `f64`.
pub trait Simd: Sized {
    /// `<x, v>`.
    fn own_dot(x: &[Self], v: &[Self]) -> f64;
    /// `<x, w[o]>` for every row `w[o]`, of `x.len()` entries, of a matrix.
    fn own_dots(x: &[Self], w: &[Self], out: &mut [f64]);
    /// `v += c x`; returns the change of `<v, v>`.
    fn own_axpy(c: f64, x: &[Self], v: &mut [Self]) -> f64;
    /// `sum_k values[k] v[indices[k]]`, or NaN if an index lies outside `v`.
    fn own_gather_dot<I: Index>(indices: &[I], values: &[Self], v: &[Self]) -> f64;
    /// `v[indices[k]] += c values[k]`; returns the change of `<v, v>`.
    fn own_scatter_axpy<I: Index>(c: f64, indices: &[I], values: &[Self], v: &mut [Self]) -> f64;
    /// [`dot`](Simd::dot) with weights in f64, all arithmetic in f64.
    fn dot_wide(x: &[Self], v: &[f64]) -> f64;
    /// [`dots`](Simd::dots) with weights in f64, all arithmetic in f64.
    fn dots_wide(x: &[Self], w: &[f64], out: &mut [f64]);
    /// [`axpy`](Simd::axpy) on weights in f64, all arithmetic in f64.
    fn axpy_wide(c: f64, x: &[Self], v: &mut [f64]) -> f64;
    /// [`gather_dot`](Simd::gather_dot) with weights in f64, all arithmetic in f64.
    fn gather_dot_wide<I: Index>(indices: &[I], values: &[Self], v: &[f64]) -> f64;
    /// [`scatter_axpy`](Simd::scatter_axpy) on weights in f64, all arithmetic in f64.
    fn scatter_axpy_wide<I: Index>(c: f64, indices: &[I], values: &[Self], v: &mut [f64]) -> f64;
    /// `out[r * stride + k] = <rows[r], vector k of the block>` for all [`WIDTH`] vectors of a block. Of each
    /// row as many features are read as the block has.
    fn products(rows: &[&[Self]], block: &[Lanes<Self>], out: &mut [Self], stride: usize);
    /// The same for one sparse row; NaN if an index lies outside the block.
    fn sparse_products<I: Index>(
        indices: &[I],
        values: &[Self],
        block: &[Lanes<Self>],
        out: &mut [Self; WIDTH],
    );
    /// `g -= c row`, and which entry's step of greedy dual ascent is the next; see [`Steepest`]. The length
    /// of `g` must be a multiple of [`LANES`].
    fn descend(
        c: f64,
        row: &[Self],
        g: &mut [f64],
        a: &[f32],
        inverse: &[f32],
        weight: &[f32],
    ) -> Steepest;
    /// Replaces each of `x` by `e^x`.
    fn exp(x: &mut [Self]);
    /// Replaces each `<x, z>` by `e^(-gamma ||x - z||^2)`.
    fn rbf(gamma: f64, xz: &mut [Self], xx: f64, zz: &[Self]);
    /// Replaces the products of [`WIDTH`] examples with vectors, a row of the block for each vector, by
    /// `e^(-gamma ||x - z||^2)`, and writes the squared distances; given `<z, z>` and `<x, x>`.
    fn gaussian(
        gamma: f64,
        zz: &[Self],
        xx: &[Self; WIDTH],
        block: &mut [Lanes<Self>],
        distances: &mut [Lanes<Self>],
    );
    /// `scores[o] += c coef[o] k` for every o.
    fn lift(c: f64, coef: &[f64], k: &Lanes<Self>, scores: &mut [Lanes<Self>]);
    /// `out[k] = sum coef w[o * stride + k]` over pairs of o and coef. The length of `out` must be a multiple
    /// of [`WIDTH`].
    fn mix(coef: &[(usize, f64)], w: &[Self], stride: usize, out: &mut [Self]);
    /// Squared distances to `h x_m + (1 - h) x_n` from those to `x_m` and `x_n`, `apart` from each other.
    fn between(h: f64, to_m: &[Self], to_n: &[Self], apart: f64, out: &mut [Self]);
    /// The vector n whose merger with m costs least; given m and the squared norm of its coefficients, the squared
    /// distances to m, the squared norms `b[n]`, none of which is smaller, and the products `c[n]` of coefficients.
    /// The length of `bounds`, which is room, must be a multiple of [`LANES`]; vectors of infinite norm do not count. m itself if none
    /// does.
    fn partner(
        gamma: f64,
        m: (usize, f64),
        distances: &[Self],
        b: &[f64],
        c: &[Self],
        bounds: &mut [Self],
    ) -> usize;
    /// The first of the least values, NaN not counted. The length must be a multiple of [`LANES`].
    fn least(values: &[Self]) -> usize;
}

/// `q += plus plus' - minus minus'` for a symmetric matrix of which the lower half is stored, row after row;
/// and `out = q k` with what it is then.
pub fn update_and_multiply(q: &mut [f64], plus: &[f64], minus: &[f64], k: &[f64], out: &mut [f64]) {
    #[cfg(target_arch = "x86_64")]
    x86::update_and_multiply_now(q, plus, minus, k, out);
    #[cfg(not(target_arch = "x86_64"))]
    body::update_and_multiply::<false>(q, plus, minus, k, out);
}

#[cfg(not(target_arch = "x86_64"))]
mod portable {
    use super::{Index, Lanes, Simd, Steepest, WIDTH, body};

    macro_rules! simd {
        ($t:ty) => {
            impl Simd for $t {
                fn own_dot(x: &[Self], v: &[Self]) -> f64 {
                    body::dot::<false, _, _>(x, v)
                }
                fn own_dots(x: &[Self], w: &[Self], out: &mut [f64]) {
                    body::dots::<false, _, _>(x, w, out);
                }
                fn dots_wide(x: &[Self], w: &[f64], out: &mut [f64]) {
                    body::dots::<false, _, _>(x, w, out);
                }
                fn own_axpy(c: f64, x: &[Self], v: &mut [Self]) -> f64 {
                    body::axpy::<false, _, _>(c, x, v)
                }
                fn own_gather_dot<I: Index>(indices: &[I], values: &[Self], v: &[Self]) -> f64 {
                    body::gather_dot::<false, _, _, _>(indices, values, v)
                }
                fn own_scatter_axpy<I: Index>(
                    c: f64,
                    indices: &[I],
                    values: &[Self],
                    v: &mut [Self],
                ) -> f64 {
                    body::scatter_axpy::<false, _, _, _>(c, indices, values, v)
                }
                fn dot_wide(x: &[Self], v: &[f64]) -> f64 {
                    body::dot::<false, _, _>(x, v)
                }
                fn axpy_wide(c: f64, x: &[Self], v: &mut [f64]) -> f64 {
                    body::axpy::<false, _, _>(c, x, v)
                }
                fn gather_dot_wide<I: Index>(indices: &[I], values: &[Self], v: &[f64]) -> f64 {
                    body::gather_dot::<false, _, _, _>(indices, values, v)
                }
                fn scatter_axpy_wide<I: Index>(
                    c: f64,
                    indices: &[I],
                    values: &[Self],
                    v: &mut [f64],
                ) -> f64 {
                    body::scatter_axpy::<false, _, _, _>(c, indices, values, v)
                }
                fn products(
                    rows: &[&[Self]],
                    block: &[Lanes<Self>],
                    out: &mut [Self],
                    stride: usize,
                ) {
                    // Two registers of 16 bytes.
                    body::products::<false, { 32 / size_of::<$t>() }, _>(rows, block, out, stride);
                }
                fn sparse_products<I: Index>(
                    indices: &[I],
                    values: &[Self],
                    block: &[Lanes<Self>],
                    out: &mut [Self; WIDTH],
                ) {
                    body::sparse_products::<false, _, _>(indices, values, block, out, <$t>::NAN);
                }
                fn descend(
                    c: f64,
                    row: &[Self],
                    g: &mut [f64],
                    a: &[f32],
                    inverse: &[f32],
                    weight: &[f32],
                ) -> Steepest {
                    body::descend::<false, _>(c, row, g, a, inverse, weight)
                }
                fn exp(x: &mut [Self]) {
                    body::exp::<false, _>(x);
                }
                fn rbf(gamma: f64, xz: &mut [Self], xx: f64, zz: &[Self]) {
                    body::rbf::<false, _>(gamma, xz, xx, zz);
                }
                fn gaussian(
                    gamma: f64,
                    zz: &[Self],
                    xx: &[Self; WIDTH],
                    block: &mut [Lanes<Self>],
                    distances: &mut [Lanes<Self>],
                ) {
                    body::gaussian::<false, _>(gamma, zz, xx, block, distances);
                }
                fn lift(c: f64, coef: &[f64], k: &Lanes<Self>, scores: &mut [Lanes<Self>]) {
                    body::lift::<false, _>(c, coef, k, scores);
                }
                fn mix(coef: &[(usize, f64)], w: &[Self], stride: usize, out: &mut [Self]) {
                    body::mix::<false, _>(coef, w, stride, out);
                }
                fn between(h: f64, to_m: &[Self], to_n: &[Self], apart: f64, out: &mut [Self]) {
                    body::between::<false, _>(h, to_m, to_n, apart, out);
                }
                fn partner(
                    gamma: f64,
                    m: (usize, f64),
                    distances: &[Self],
                    b: &[f64],
                    c: &[Self],
                    bounds: &mut [Self],
                ) -> usize {
                    body::partner::<false, _>(gamma, m, distances, b, c, bounds)
                }
                fn least(values: &[Self]) -> usize {
                    body::least::<false, _>(values)
                }
            }
        };
    }
    simd!(f32);
    simd!(f64);
}

impl<S> Lanes<S> {
    /// The numbers of consecutive lanes as one slice.
    #[inline(always)]
    #[allow(unsafe_code)]
    pub(crate) fn flatten(lanes: &mut [Self]) -> &mut [S] {
        const { assert!(size_of::<Self>() == WIDTH * size_of::<S>()) };
        // SAFETY: `Lanes` is `repr(C)` with one array of WIDTH numbers and, as just asserted, no padding, so
        // that consecutive lanes are consecutive numbers; the lifetime is that of the borrow.
        unsafe { core::slice::from_raw_parts_mut(lanes.as_mut_ptr().cast(), lanes.len() * WIDTH) }
    }
}

/// Asks for the cache line that holds `slice[at]`; a hint, so an `at` outside the slice is harmless.
#[inline(always)]
#[allow(unsafe_code)]
pub fn prefetch<T>(slice: &[T], at: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing and cannot fault, whatever the address; `wrapping_add`
        // makes no claim that the address lies within the slice.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(slice.as_ptr().wrapping_add(at).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (slice, at);
}

/// Asks for every cache line of `slice`, the first [`PREFETCH_LINES`] at most: past that the
/// processor's own prefetcher has seen the pattern.
#[inline(always)]
pub fn prefetch_all<T>(slice: &[T]) {
    let per_line = (64 / size_of::<T>()).max(1);
    for line in slice.chunks(per_line).take(PREFETCH_LINES) {
        prefetch(line, 0);
    }
    // The slice need not begin on a line.
    prefetch(slice, slice.len().saturating_sub(1).min(PREFETCH_LINES * per_line));
}

/// Not tuned.
const PREFETCH_LINES: usize = 8;

/// Products of features with weights in `V`.
pub trait Weigh<V>: Sized {
    /// `<x, v>`.
    fn dot(x: &[Self], v: &[V]) -> f64;
    /// `<x, w[o]>` for every row `w[o]`, of `x.len()` entries, of a matrix.
    fn dots(x: &[Self], w: &[V], out: &mut [f64]);
    /// `v += c x`; returns the change of `<v, v>`.
    fn axpy(c: f64, x: &[Self], v: &mut [V]) -> f64;
    /// `sum_k values[k] v[indices[k]]`, or NaN if an index lies outside `v`.
    fn gather_dot<I: Index>(indices: &[I], values: &[Self], v: &[V]) -> f64;
    /// `v[indices[k]] += c values[k]`; returns the change of `<v, v>`.
    fn scatter_axpy<I: Index>(c: f64, indices: &[I], values: &[Self], v: &mut [V]) -> f64;
}
macro_rules! weigh {
    ($s:ty, $v:ty, $dot:ident $dots:ident $axpy:ident $g:ident $sc:ident) => {
        impl Weigh<$v> for $s {
            #[inline(always)]
            fn dot(x: &[Self], v: &[$v]) -> f64 {
                <$s as Simd>::$dot(x, v)
            }
            #[inline(always)]
            fn dots(x: &[Self], w: &[$v], out: &mut [f64]) {
                <$s as Simd>::$dots(x, w, out)
            }
            #[inline(always)]
            fn axpy(c: f64, x: &[Self], v: &mut [$v]) -> f64 {
                <$s as Simd>::$axpy(c, x, v)
            }
            #[inline(always)]
            fn gather_dot<I: Index>(indices: &[I], values: &[Self], v: &[$v]) -> f64 {
                <$s as Simd>::$g(indices, values, v)
            }
            #[inline(always)]
            fn scatter_axpy<I: Index>(c: f64, indices: &[I], values: &[Self], v: &mut [$v]) -> f64 {
                <$s as Simd>::$sc(c, indices, values, v)
            }
        }
    };
}
weigh!(f32, f32, own_dot own_dots own_axpy own_gather_dot own_scatter_axpy);
weigh!(f64, f64, own_dot own_dots own_axpy own_gather_dot own_scatter_axpy);
weigh!(f32, f64, dot_wide dots_wide axpy_wide gather_dot_wide scatter_axpy_wide);
