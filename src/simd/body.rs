//! The hot loops, written once, in plain Rust. Each is inlined into a shell per instruction set
//! (`x86.rs`), where the compiler turns the fixed-width accumulators into registers.
//!
//! Features and weights may be stored in different scalars. Sums run in the weights' precision over [`LANES`] independent accumulators and are widened
//! at the end, so a row of `d` entries carries a relative error of about `d / LANES` roundings.

use crate::scalar::{Index, Scalar};

/// Independent accumulators of a dense loop: one AVX-512 register of f32, two of f64.
pub const LANES: usize = 16;

/// Independent accumulators of a sparse loop: enough to hide the latency of a fused multiply-add.
const STRANDS: usize = 4;

/// The arithmetic the bodies need, so that one text serves both scalars.
pub trait Float:
    Copy + core::ops::Add<Output = Self> + core::ops::Mul<Output = Self> + core::ops::AddAssign
{
    const ZERO: Self;
    fn mul_add_if_fast<const FMA: bool>(self, b: Self, c: Self) -> Self;
}

/// A stored feature as the weights' scalar `V`, exactly.
pub trait Widen<V>: Copy {
    fn widen(self) -> V;
}

impl<S: Copy> Widen<S> for S {
    #[inline(always)]
    fn widen(self) -> S {
        self
    }
}

impl Widen<f64> for f32 {
    #[inline(always)]
    fn widen(self) -> f64 {
        f64::from(self)
    }
}

macro_rules! float {
    ($t:ty) => {
        impl Float for $t {
            const ZERO: Self = 0.0;
            /// `self * b + c`, fused where the shell has the instruction: without it `mul_add` is a
            /// library call.
            #[inline(always)]
            fn mul_add_if_fast<const FMA: bool>(self, b: Self, c: Self) -> Self {
                if FMA { self.mul_add(b, c) } else { self * b + c }
            }
        }
    };
}
float!(f32);
float!(f64);

/// A loop over two dense slices that adds up something.
trait Sweep<S> {
    /// Treats entries `at..at + N`, adding to `acc` lane by lane.
    fn lanes<const N: usize>(&mut self, at: usize, acc: &mut [S; N]);
}

/// Runs a sweep over `0..len`, four wide accumulators at a time; the remainder narrows step by step,
/// so that no more than three entries go one by one.
#[inline(always)]
fn sweep<S: Float>(len: usize, mut sweep: impl Sweep<S>) -> S {
    let mut acc = [[S::ZERO; LANES]; 4];
    let mut at = 0;
    while at + 4 * LANES <= len {
        for (j, acc) in acc.iter_mut().enumerate() {
            sweep.lanes(at + j * LANES, acc);
        }
        at += 4 * LANES;
    }
    for acc in &mut acc[..3] {
        if at + LANES <= len {
            sweep.lanes(at, acc);
            at += LANES;
        }
    }
    let mut eight = [S::ZERO; 8];
    for k in 0..8 {
        let low = (acc[0][k] + acc[1][k]) + (acc[2][k] + acc[3][k]);
        let k = k + 8;
        eight[k - 8] = low + ((acc[0][k] + acc[1][k]) + (acc[2][k] + acc[3][k]));
    }
    if at + 8 <= len {
        sweep.lanes(at, &mut eight);
        at += 8;
    }
    let mut four = [S::ZERO; 4];
    for k in 0..4 {
        four[k] = eight[k] + eight[k + 4];
    }
    if at + 4 <= len {
        sweep.lanes(at, &mut four);
        at += 4;
    }
    let mut one = [(four[0] + four[2]) + (four[1] + four[3])];
    while at < len {
        sweep.lanes(at, &mut one);
        at += 1;
    }
    one[0]
}

struct Dot<'a, S, V, const FMA: bool> {
    x: &'a [S],
    v: &'a [V],
}

impl<S: Widen<V>, V: Float, const FMA: bool> Sweep<V> for Dot<'_, S, V, FMA> {
    #[inline(always)]
    fn lanes<const N: usize>(&mut self, at: usize, acc: &mut [V; N]) {
        let (x, v) = (&self.x[at..at + N], &self.v[at..at + N]);
        for k in 0..N {
            acc[k] = x[k].widen().mul_add_if_fast::<FMA>(v[k], acc[k]);
        }
    }
}

/// `<x, v>` over the shorter of the two.
#[inline(always)]
pub fn dot<const FMA: bool, S: Widen<V>, V: Scalar + Float>(x: &[S], v: &[V]) -> f64 {
    let len = x.len().min(v.len());
    let (x, v) = (&x[..len], &v[..len]);
    sweep(len, Dot::<S, V, FMA> { x, v }).to_f64()
}

/// Rows of weights that a dense row is multiplied with at a time.
const ROWS: usize = 4;

/// `out[o] = <x, w[o]>` for every row `w[o]` of a matrix of `x.len()` columns: x is loaded, and widened,
/// once for [`ROWS`] of them.
#[inline(always)]
pub fn dots<const FMA: bool, S: Widen<V>, V: Scalar + Float>(x: &[S], w: &[V], out: &mut [f64]) {
    let d = x.len();
    let mut o = 0;
    while o + ROWS <= out.len() {
        // Slices of one length, so that one check of bounds serves all.
        let w = &w[o * d..(o + ROWS) * d];
        let (w0, w1, w2, w3) = (&w[..d], &w[d..2 * d], &w[2 * d..3 * d], &w[3 * d..4 * d]);
        let mut acc = [[V::ZERO; LANES]; ROWS];
        let mut k = 0;
        while k + LANES <= d {
            let x = &x[k..k + LANES];
            let (w0, w1, w2, w3) =
                (&w0[k..k + LANES], &w1[k..k + LANES], &w2[k..k + LANES], &w3[k..k + LANES]);
            for l in 0..LANES {
                let x = x[l].widen();
                acc[0][l] = x.mul_add_if_fast::<FMA>(w0[l], acc[0][l]);
                acc[1][l] = x.mul_add_if_fast::<FMA>(w1[l], acc[1][l]);
                acc[2][l] = x.mul_add_if_fast::<FMA>(w2[l], acc[2][l]);
                acc[3][l] = x.mul_add_if_fast::<FMA>(w3[l], acc[3][l]);
            }
            k += LANES;
        }
        let mut one = [V::ZERO; ROWS];
        while k < d {
            let x = x[k].widen();
            one[0] = x.mul_add_if_fast::<FMA>(w0[k], one[0]);
            one[1] = x.mul_add_if_fast::<FMA>(w1[k], one[1]);
            one[2] = x.mul_add_if_fast::<FMA>(w2[k], one[2]);
            one[3] = x.mul_add_if_fast::<FMA>(w3[k], one[3]);
            k += 1;
        }
        for (j, acc) in acc.iter_mut().enumerate() {
            let mut width = LANES / 2;
            while width > 0 {
                for l in 0..width {
                    acc[l] += acc[l + width];
                }
                width /= 2;
            }
            acc[0] += one[j];
            out[o + j] = acc[0].to_f64();
        }
        o += ROWS;
    }
    while o < out.len() {
        out[o] = dot::<FMA, S, V>(x, &w[o * d..(o + 1) * d]);
        o += 1;
    }
}

struct Axpy<'a, S, V, const FMA: bool> {
    c: V,
    x: &'a [S],
    v: &'a mut [V],
}

impl<S: Widen<V>, V: Float, const FMA: bool> Sweep<V> for Axpy<'_, S, V, FMA> {
    #[inline(always)]
    fn lanes<const N: usize>(&mut self, at: usize, acc: &mut [V; N]) {
        let (x, v) = (&self.x[at..at + N], &mut self.v[at..at + N]);
        for k in 0..N {
            let step = self.c * x[k].widen();
            let old = v[k];
            let new = old + step;
            acc[k] = step.mul_add_if_fast::<FMA>(old + new, acc[k]);
            v[k] = new;
        }
    }
}

/// `v += c x` over the shorter of the two; returns the change of `<v, v>`.
#[inline(always)]
pub fn axpy<const FMA: bool, S: Widen<V>, V: Scalar + Float>(c: f64, x: &[S], v: &mut [V]) -> f64 {
    let len = x.len().min(v.len());
    let (x, v) = (&x[..len], &mut v[..len]);
    let c = V::from_f64(c);
    sweep(len, Axpy::<S, V, FMA> { c, x, v }).to_f64()
}

/// `sum_k values[k] * v[indices[k]]`, or NaN if an index lies outside `v`.
#[inline(always)]
pub fn gather_dot<const FMA: bool, S: Widen<V>, V: Scalar + Float, I: Index>(
    indices: &[I],
    values: &[S],
    v: &[V],
) -> f64 {
    let len = indices.len().min(values.len());
    let (indices, values) = (&indices[..len], &values[..len]);
    let mut acc = [V::ZERO; STRANDS];
    let (mut js, mut xs) = (indices.chunks_exact(STRANDS), values.chunks_exact(STRANDS));
    for (j, x) in (&mut js).zip(&mut xs) {
        for k in 0..STRANDS {
            let Some(v) = v.get(j[k].position()) else {
                return f64::NAN;
            };
            acc[k] = x[k].widen().mul_add_if_fast::<FMA>(*v, acc[k]);
        }
    }
    for (j, x) in js.remainder().iter().zip(xs.remainder()) {
        let Some(v) = v.get(j.position()) else {
            return f64::NAN;
        };
        acc[0] = (*x).widen().mul_add_if_fast::<FMA>(*v, acc[0]);
    }
    ((acc[0] + acc[1]) + (acc[2] + acc[3])).to_f64()
}

/// `v[indices[k]] += c * values[k]` for every k; returns the change of `<v, v>`. An index that
/// occurs twice counts twice; one outside `v` is passed over (the caller's `gather_dot` over the
/// same row has reported it).
#[inline(always)]
pub fn scatter_axpy<const FMA: bool, S: Widen<V>, V: Scalar + Float, I: Index>(
    c: f64,
    indices: &[I],
    values: &[S],
    v: &mut [V],
) -> f64 {
    let c = V::from_f64(c);
    let len = indices.len().min(values.len());
    let (indices, values) = (&indices[..len], &values[..len]);
    let mut change = [V::ZERO; STRANDS];
    let mut add = |j: &I, x: &S, change: &mut V| {
        if let Some(v) = v.get_mut(j.position()) {
            let step = c * (*x).widen();
            let old = *v;
            let new = old + step;
            *v = new;
            *change = step.mul_add_if_fast::<FMA>(old + new, *change);
        }
    };
    let (mut js, mut xs) = (indices.chunks_exact(STRANDS), values.chunks_exact(STRANDS));
    for (j, x) in (&mut js).zip(&mut xs) {
        for k in 0..STRANDS {
            add(&j[k], &x[k], &mut change[k]);
        }
    }
    for (j, x) in js.remainder().iter().zip(xs.remainder()) {
        add(j, x, &mut change[0]);
    }
    ((change[0] + change[1]) + (change[2] + change[3])).to_f64()
}
