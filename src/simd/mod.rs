//! The loops that touch every feature: dot products and updates, dense and sparse.
//!
//! An operation is stated twice: in the table below, with what it computes, takes and returns; and as a body of
//! the same name, in plain Rust, in `body.rs`, or `maintenance.rs` for what budgets need, `ascent.rs` for dual ascent,
//! `games.rs` for Shapley values, `logistic.rs` for the logistic loss; their arithmetic is in `float.rs`. `operations!`
//! (`levels.rs`) compiles every body for every level of instructions and lets callers have the highest that the
//! processor has. To add an operation, write its body, which takes a `Processor` and then the arguments, and its line in
//! the table; a test in `tests.rs` holds it to plain loops at every level.
//!
//! On x86-64 the levels are the baseline, AVX2 with FMA, where `avx2.rs` has intrinsics for the dense loops of [`Weigh`],
//! and AVX-512, where `avx512.rs` has them for these and for [`Simd::integrate`]; elsewhere there is the baseline alone. The level is chosen once per process. `PEGASOS_SIMD=baseline`, `avx2` or `avx512` asks for a
//! lower level, for tests and benches; a level that the processor lacks, or a word that names none, is not obeyed.
//!
//! Different levels group sums differently, so the last bits of a result depend on the level.

#![allow(unsafe_code)]

mod ascent;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod body;
mod float;
mod games;
#[macro_use]
mod levels;
mod logistic;
mod maintenance;
mod prefetch;
#[cfg(test)]
mod tests;

use crate::scalar::Index;
use float::{Float, Widen};
use levels::{Level, level};

pub use body::{CANDIDATES, LANES, Lanes, Partners, Steepest, TALL, TILE, WIDTH};
pub use games::{Contrast, Four, GAMES, Games, Round, Rule};
pub use prefetch::{
    PREFETCH_LINES, Places, prefetch, prefetch_all, prefetch_once, second_cache_of_intel,
};

operations! {
    /// Products of features with weights in `V`, all arithmetic in `V`. Implemented for `(f32, f32)`,
    /// `(f32, f64)` and `(f64, f64)`.
    pub trait Weigh<V>: Sized where Self: Widen<V> {
        /// `<x, v>` over the shorter of the two.
        fn dot(x: &[Self], v: &[V]) -> f64;
        /// `out[o] = <x, w[o]>` for every row `w[o]`, of `x.len()` entries, of a matrix.
        fn dots(x: &[Self], w: &[V], out: &mut [f64]);
        /// `out[r * stride + o] = <rows[r], w[o]>`, all of one length, to the same bits as [`dots`](Weigh::dots). Weights are
        /// loaded once for some rows.
        fn dots_of_rows(rows: &[&[Self]], w: &[&[V]], out: &mut [f64], stride: usize);
        /// `v += c x` over the shorter of the two; returns the change of `<v, v>`.
        fn axpy(c: f64, x: &[Self], v: &mut [V]) -> f64;
        /// `sum_k values[k] v[indices[k]]`, or NaN if an index lies outside `v`.
        fn gather_dot<I: Index>(indices: &[I], values: &[Self], v: &[V]) -> f64;
        /// `v[indices[k]] += c values[k]` for every k; returns the change of `<v, v>`. An index that occurs twice
        /// counts twice; one outside `v` is passed over (the caller's `gather_dot` over the same row has
        /// reported it).
        fn scatter_axpy<I: Index>(c: f64, indices: &[I], values: &[Self], v: &mut [V]) -> f64;
        /// [`scatter_axpy`](Weigh::scatter_axpy) without the change, in five sixths of its time.
        fn scatter<I: Index>(c: f64, indices: &[I], values: &[Self], v: &mut [V]);
        /// [`gather_dot`](Weigh::gather_dot) with several vectors that stand side by side, entry k of vector o at
        /// `w[k * stride + o]`; as many as `out` has room for. The stride must be 4, 8, or a multiple of 16 no
        /// smaller than their number.
        fn gather_dots<I: Index>(
            indices: &[I], values: &[Self], w: &[V], stride: usize, out: &mut [f64],
        );
        /// [`scatter_axpy`](Weigh::scatter_axpy) of `coef[o] / a` for each of these.
        fn scatter_axpys<I: Index>(
            coef: &[f64], a: f64, indices: &[I], values: &[Self], w: &mut [V], stride: usize,
        ) -> f64;
    }

    /// What else a scalar can do fast. Implemented for `f32` and `f64`.
    pub trait Simd: Sized + Weigh<Self> + Weigh<f64> where Self: Float {
        /// `out[r * stride + k] = <rows[r], vector k of the block>` for all [`WIDTH`] vectors of a block. Of each
        /// row as many features are read as the block has.
        fn products(rows: &[&[Self]], block: &[Lanes<Self>], out: &mut [Self], stride: usize);
        /// [`products`](Simd::products) added to what is there: those of the features before, to the very sums over all.
        fn add_products(rows: &[&[Self]], block: &[Lanes<Self>], out: &mut [Self], stride: usize);
        /// The products of one sparse row with the vectors of a block; NaN if an index lies outside the block.
        fn sparse_products<I: Index>(
            indices: &[I], values: &[Self], block: &[Lanes<Self>], out: &mut [Self; WIDTH],
        );
        /// Steps of greedy dual ascent for the hinge loss, [`CANDIDATES`] at most, seen by all entries, each with slope g
        /// and, in this order, dual variable a in [0, 1], or in [-1, 0] where the weight is negative, inverse curvature and
        /// weight: `g -= sum of c[i] rows[i]`, and then who is next; `both` says that half of these are to be of those whose
        /// a would rise, and half of the others. The length of `g` must be a multiple of [`LANES`].
        fn descend(
            c: &[f64], rows: &[&[Self]], g: &mut [f64], entries: [&[f32]; 3], both: bool,
        ) -> Steepest;
        /// `out += sum of coef[b] rows[b]`, all arithmetic in f64. The length of `out` must be a multiple of [`WIDTH`], and
        /// no row shorter.
        fn add_rows(coef: &[f64], rows: &[&[Self]], out: &mut [f64]);
        /// Shares in the gap of Crammer and Singer's loss, as of [`Loss::shares`](crate::Loss::shares); labels as numbers,
        /// a multiple of [`LANES`] of them and of shares.
        fn shares(
            scores: &[Self], dual: &[Self], stride: usize, labels: &[Self], out: &mut [Self],
        );
        /// Replaces each of `x` by `e^x`.
        fn exp(x: &mut [Self]);
        /// Replaces each margin m by `ln(1 + e^-m)`.
        fn logistic(m: &mut [Self]);
        /// Replaces each margin m by `1/(1 + e^m)`.
        fn logistic_slopes(m: &mut [Self]);
        /// Replaces each a in [0, 1] by `a ln a + (1 - a) ln(1 - a)`.
        fn entropies(a: &mut [Self]);
        /// Replaces each a in (0, 1) by `ln(a/(1 - a))`.
        fn logits(a: &mut [Self]);
        /// Replaces each product `<x, z>` by `e^(-gamma ||x - z||^2)`, given `<x, x>` and the `<z, z>`.
        fn rbf(gamma: f64, xz: &mut [Self], xx: f64, zz: &[Self]);
        /// Replaces the products of [`WIDTH`] examples with vectors, a row of the block for each vector, by
        /// `e^(-gamma ||x - z||^2)`, and writes the squared distances; given the `<z, z>` and the `<x, x>`.
        fn gaussian(
            gamma: f64, zz: &[Self], xx: &[Self; WIDTH], block: &mut [Lanes<Self>],
            distances: &mut [Lanes<Self>],
        );
        /// `scores[o] += c coef[o] k` for every o: what the scores of a panel gain when a vector's coefficients do.
        fn lift(c: f64, coef: &[f64], k: &Lanes<Self>, scores: &mut [Lanes<Self>]);
        /// `out[k] = sum coef w[o * stride + k]` over pairs of o and coef. The length of `out` must be a multiple
        /// of [`WIDTH`].
        fn mix(coef: &[(usize, f64)], w: &[Self], stride: usize, out: &mut [Self]);
        /// The squared distances of others to `h x_m + (1 - h) x_n`, given theirs to `x_m` and to `x_n` and that
        /// between the two.
        fn between(h: f64, to_m: &[Self], to_n: &[Self], apart: f64, out: &mut [Self]);
        /// Bounds from below for what mergers of m with other vectors cost, over the squared norm of its coefficients; returns
        /// the other with the least. The length of `bounds` must be a multiple of [`LANES`]; vectors of infinite norm do not
        /// count. m itself if none does.
        fn bounds(of: Partners<'_, Self>, bounds: &mut [Self]) -> usize;
        /// The vector whose merger with m costs least, by these bounds, if that is less than what it costs with `other.0`, which
        /// is `other.1`; else `other.0`, whose bound becomes infinite.
        fn cheaper(of: Partners<'_, Self>, other: (usize, f64), bounds: &mut [Self]) -> usize;
        /// The first of the least values, NaN not counted; 0 if all are NaN or infinite. The length must be a
        /// multiple of [`LANES`].
        fn least(values: &[Self]) -> usize;
        /// `q += plus plus' - minus minus'` for a symmetric matrix of which the lower half is stored, row after
        /// row; and `out = q k` with what it is then.
        fn update_and_multiply(
            q: &mut [Self], plus: &[Self], minus: &[Self], k: &[Self], out: &mut [Self],
        );
        /// Half of a row's factors in the kernel values with [`GAMES`] vectors, `e^(-gamma (x - z)^2)` for each feature.
        fn factors(gamma: f64, x: &[f64], z: &[Games<Self>], half: &mut [Games<Self>]);
        /// The players whose factors are not the same with and without them, in their order; as many as `out` has room for.
        /// Given half of the factors.
        fn contrast(
            with: &[Games<Self>], without: &[Games<Self>], out: &mut [usize],
        ) -> Contrast<Self>;
        /// Adds to `out[i]`, for every player i, half of `with_i - without_i` times the sum over nodes t and weights w of
        /// `w constant product of (with_l + without_l)/2 + t (with_l - without_l)/2` over the other players l, given half
        /// of the factors; without a rule the integral over [-1, 1], of 8 players. `room` is for as many fours of players.
        fn integrate(
            rule: Option<&Rule>, round: Round<'_, Self>, room: &mut [Four<Self>],
            out: &mut [Games<Self>],
        );
    }
}

// The baseline has no way of its own with anything; `avx2.rs` and `avx512.rs` have.
impl<S: Widen<V>, V: Float> at::baseline::Weigh<V> for S {}
impl<S: Float> at::baseline::Simd for S {}

/// [`Simd::update_and_multiply`] in f64, whatever the scalar.
pub fn update_and_multiply(q: &mut [f64], plus: &[f64], minus: &[f64], k: &[f64], out: &mut [f64]) {
    f64::update_and_multiply(q, plus, minus, k, out);
}

impl<S> Lanes<S> {
    /// [`flatten_mut`](Lanes::flatten_mut) of lanes that are only read.
    #[inline(always)]
    pub(crate) fn flatten(lanes: &[Self]) -> &[S] {
        const { assert!(size_of::<Self>() == WIDTH * size_of::<S>()) };
        // SAFETY: as in `flatten_mut`.
        unsafe { core::slice::from_raw_parts(lanes.as_ptr().cast(), lanes.len() * WIDTH) }
    }

    /// The numbers of consecutive lanes as one slice.
    #[inline(always)]
    pub(crate) fn flatten_mut(lanes: &mut [Self]) -> &mut [S] {
        const { assert!(size_of::<Self>() == WIDTH * size_of::<S>()) };
        // SAFETY: `Lanes` is `repr(C)` with one array of WIDTH numbers and, as just asserted, no padding, so
        // that consecutive lanes are consecutive numbers; the lifetime is that of the borrow.
        unsafe { core::slice::from_raw_parts_mut(lanes.as_mut_ptr().cast(), lanes.len() * WIDTH) }
    }
}
