//! The hot loops, written once, in plain Rust. Each is inlined into a function per level, where the compiler turns
//! the fixed-width accumulators into registers. What a loop computes is said at its entry, in `mod.rs`.
//!
//! Sums run in the weights' precision over [`LANES`] independent accumulators and are widened at the end, so a row
//! of `d` entries carries a relative error of about `d / LANES` roundings.

use core::array::from_fn;

use super::float::{Float, Processor, Widen};
use super::prefetch::prefetch_next;
use crate::scalar::Index;

pub use super::ascent::{CANDIDATES, Steepest, add_rows, descend, shares};
pub use super::games::{contrast, factors, integrate};
pub use super::logistic::{entropies, logistic, logistic_slopes, logits};
pub use super::maintenance::{
    Partners, between, bounds, cheaper, gaussian, least, lift, mix, update_and_multiply,
};

/// Independent accumulators of a dense loop: one AVX-512 register of f32, two of f64.
pub const LANES: usize = 16;

/// Independent accumulators of a sparse loop: enough to hide the latency of a fused multiply-add.
const STRANDS: usize = 4;

/// The second half added to the first.
#[inline(always)]
fn fold<S: Float, const N: usize, const HALF: usize>(x: [S; N]) -> [S; HALF] {
    from_fn(|k| x[k] + x[k + HALF])
}

#[inline(always)]
fn sum_of_four<S: Float>(x: [S; 4]) -> S {
    (x[0] + x[2]) + (x[1] + x[3])
}

/// A loop over two dense slices that adds up something.
trait Sweep<S> {
    /// Treats entries `at..at + N`, adding to `acc` lane by lane.
    fn lanes<P: Processor, const N: usize>(&mut self, at: usize, acc: &mut [S; N]);
}

/// Runs a sweep over `0..len`, four wide accumulators at a time; the remainder narrows step by step,
/// so that no more than three entries go one by one.
#[inline(always)]
fn sweep<P: Processor, S: Float>(len: usize, mut sweep: impl Sweep<S>) -> S {
    let mut acc = [[S::ZERO; LANES]; 4];
    let mut at = 0;
    while at + 4 * LANES <= len {
        for (j, acc) in acc.iter_mut().enumerate() {
            sweep.lanes::<P, _>(at + j * LANES, acc);
        }
        at += 4 * LANES;
    }
    for acc in &mut acc[..3] {
        if at + LANES <= len {
            sweep.lanes::<P, _>(at, acc);
            at += LANES;
        }
    }
    let sum = |k: usize| (acc[0][k] + acc[1][k]) + (acc[2][k] + acc[3][k]);
    let mut eight: [S; 8] = from_fn(|k| sum(k) + sum(k + 8));
    if at + 8 <= len {
        sweep.lanes::<P, _>(at, &mut eight);
        at += 8;
    }
    let mut four = fold(eight);
    if at + 4 <= len {
        sweep.lanes::<P, _>(at, &mut four);
        at += 4;
    }
    let mut one = [sum_of_four(four)];
    while at < len {
        sweep.lanes::<P, _>(at, &mut one);
        at += 1;
    }
    one[0]
}

struct Dot<'a, S, V> {
    x: &'a [S],
    v: &'a [V],
}

impl<S: Widen<V>, V: Float> Sweep<V> for Dot<'_, S, V> {
    #[inline(always)]
    fn lanes<P: Processor, const N: usize>(&mut self, at: usize, acc: &mut [V; N]) {
        let (x, v) = (&self.x[at..at + N], &self.v[at..at + N]);
        for k in 0..N {
            acc[k] = x[k].widen().mul_add_if_fast::<P>(v[k], acc[k]);
        }
    }
}

#[inline(always)]
pub fn dot<P: Processor, S: Widen<V>, V: Float>(_: P, x: &[S], v: &[V]) -> f64 {
    let len = x.len().min(v.len());
    let (x, v) = (&x[..len], &v[..len]);
    sweep::<P, V>(len, Dot { x, v }).widen()
}

/// Rows of weights that a dense row is multiplied with at a time.
const ROWS: usize = 4;

/// x is loaded, and widened, once for [`ROWS`] rows of weights.
#[inline(always)]
pub fn dots<P: Processor, S: Widen<V>, V: Float>(p: P, x: &[S], w: &[V], out: &mut [f64]) {
    let d = x.len();
    let (groups, rest) = out.as_chunks_mut::<ROWS>();
    for (o, out) in groups.iter_mut().enumerate() {
        *out = group(p, x, from_fn(|r| &w[(o * ROWS + r) * d..][..d]));
    }
    for (o, out) in (groups.len() * ROWS..).zip(rest) {
        [*out] = group(p, x, [&w[o * d..][..d]]);
    }
}

/// The products with some rows of weights; each is summed in the same order, however many these are.
#[inline(always)]
fn group<P: Processor, S: Widen<V>, V: Float, const N: usize>(
    _: P,
    x: &[S],
    w: [&[V]; N],
) -> [f64; N] {
    let d = x.len();
    let whole = d - d % LANES;
    // Of one length, so that one check of bounds serves all.
    let w = w.map(|w| &w[..d]);
    let mut acc = [[V::ZERO; LANES]; N];
    for k in (0..whole).step_by(LANES) {
        let x = &x[k..k + LANES];
        let w: [&[V]; N] = from_fn(|r| &w[r][k..k + LANES]);
        for l in 0..LANES {
            let x = x[l].widen();
            for r in 0..N {
                acc[r][l] = x.mul_add_if_fast::<P>(w[r][l], acc[r][l]);
            }
        }
    }
    let mut one = [V::ZERO; N];
    for k in whole..d {
        let x = x[k].widen();
        for r in 0..N {
            one[r] = x.mul_add_if_fast::<P>(w[r][k], one[r]);
        }
    }
    from_fn(|r| {
        let eight: [V; 8] = fold(acc[r]);
        (sum_of_four(fold(eight)) + one[r]).widen()
    })
}

/// [`ROWS`] rows of weights stay in the first cache for all rows.
#[inline(always)]
pub fn dots_of_rows<P: Processor, S: Widen<V>, V: Float>(
    p: P,
    rows: &[&[S]],
    w: &[&[V]],
    out: &mut [f64],
    stride: usize,
) {
    for (k, some) in w.chunks(ROWS).enumerate() {
        for (x, out) in rows.iter().zip(out.chunks_mut(stride)) {
            let out = &mut out[k * ROWS..][..some.len()];
            match some {
                &[a, b, c, e] => out.copy_from_slice(&group(p, x, [a, b, c, e])),
                _ => out.iter_mut().zip(some).for_each(|(out, w)| [*out] = group(p, x, [w])),
            }
        }
    }
}

struct Axpy<'a, S, V> {
    c: V,
    x: &'a [S],
    v: &'a mut [V],
}

impl<S: Widen<V>, V: Float> Sweep<V> for Axpy<'_, S, V> {
    #[inline(always)]
    fn lanes<P: Processor, const N: usize>(&mut self, at: usize, acc: &mut [V; N]) {
        let (x, v) = (&self.x[at..at + N], &mut self.v[at..at + N]);
        for k in 0..N {
            let step = self.c * x[k].widen();
            let old = v[k];
            let new = old + step;
            acc[k] = step.mul_add_if_fast::<P>(old + new, acc[k]);
            v[k] = new;
        }
    }
}

#[inline(always)]
pub fn axpy<P: Processor, S: Widen<V>, V: Float>(_: P, c: f64, x: &[S], v: &mut [V]) -> f64 {
    let len = x.len().min(v.len());
    let (x, v) = (&x[..len], &mut v[..len]);
    let c = V::from_f64(c);
    sweep::<P, V>(len, Axpy { c, x, v }).widen()
}

#[inline(always)]
pub fn gather_dot<P: Processor, S: Widen<V>, V: Float, I: Index>(
    _: P,
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
            acc[k] = x[k].widen().mul_add_if_fast::<P>(*v, acc[k]);
        }
    }
    for (j, x) in js.remainder().iter().zip(xs.remainder()) {
        let Some(v) = v.get(j.position()) else {
            return f64::NAN;
        };
        acc[0] = (*x).widen().mul_add_if_fast::<P>(*v, acc[0]);
    }
    ((acc[0] + acc[1]) + (acc[2] + acc[3])).widen()
}

#[inline(always)]
pub fn scatter_axpy<P: Processor, S: Widen<V>, V: Float, I: Index>(
    _: P,
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
            *change = step.mul_add_if_fast::<P>(old + new, *change);
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
    ((change[0] + change[1]) + (change[2] + change[3])).widen()
}

#[inline(always)]
pub fn scatter<P: Processor, S: Widen<V>, V: Float, I: Index>(
    _: P,
    c: f64,
    indices: &[I],
    values: &[S],
    v: &mut [V],
) {
    let c = V::from_f64(c);
    let len = indices.len().min(values.len());
    let (js, j_rest) = indices[..len].as_chunks::<STRANDS>();
    let (xs, x_rest) = values[..len].as_chunks::<STRANDS>();
    let mut add = |j: I, x: S| {
        if let Some(v) = v.get_mut(j.position()) {
            // Not fused: the very sum that `scatter_axpy` makes.
            *v += c * x.widen();
        }
    };
    for (j, x) in js.iter().zip(xs) {
        for k in 0..STRANDS {
            add(j[k], x[k]);
        }
    }
    for (j, x) in j_rest.iter().zip(x_rest) {
        add(*j, *x);
    }
}

/// Where the numbers of feature j stand among chunks of which each feature has `step`, the chunk `at`; far outside where
/// there is no such feature.
#[inline(always)]
fn place<I: Index>(j: I, step: usize, at: usize) -> usize {
    let j = j.position();
    if step == 1 { j } else { j.saturating_mul(step).saturating_add(at) }
}

/// Calls `$many` with as many lanes at a time as two registers hold, [`LANES`] at most, where `stride` is made of
/// so many.
macro_rules! by_lanes {
    ($p:ident, $v:ident, $stride:expr, $n:ident => $then:expr) => {{
        let most = const { 2 * $p::REGISTER / size_of::<$v>() };
        if most >= 16 && $stride.is_multiple_of(16) {
            const $n: usize = 16;
            $then
        } else if most >= 8 && $stride.is_multiple_of(8) {
            const $n: usize = 8;
            $then
        } else {
            const $n: usize = 4;
            $then
        }
    }};
}

/// Each sum runs over the features as in [`gather_dot`], so that it is the very same number.
#[inline(always)]
pub fn gather_dots<P: Processor, S: Widen<V>, V: Float, I: Index>(
    _: P,
    indices: &[I],
    values: &[S],
    w: &[V],
    stride: usize,
    out: &mut [f64],
) {
    by_lanes!(P, V, stride, N => {
        let (w, step) = (w.as_chunks::<N>().0, stride / N);
        for (at, out) in out.chunks_mut(N).enumerate() {
            let sums = lanes_dot::<P, S, V, I, N>(indices, values, w, step, at);
            let sums = sums.unwrap_or([V::from_f64(f64::NAN); N]);
            out.iter_mut().zip(sums).for_each(|(out, sum)| *out = sum.widen());
        }
    })
}

#[inline(always)]
fn lanes_dot<P: Processor, S: Widen<V>, V: Float, I: Index, const N: usize>(
    indices: &[I],
    values: &[S],
    w: &[[V; N]],
    step: usize,
    at: usize,
) -> Option<[V; N]> {
    let len = indices.len().min(values.len());
    let (js, j_rest) = indices[..len].as_chunks::<STRANDS>();
    let (xs, x_rest) = values[..len].as_chunks::<STRANDS>();
    let mut acc = [[V::ZERO; N]; STRANDS];
    for (j, x) in js.iter().zip(xs) {
        for k in 0..STRANDS {
            let (w, x) = (w.get(place(j[k], step, at))?, x[k].widen());
            for l in 0..N {
                acc[k][l] = x.mul_add_if_fast::<P>(w[l], acc[k][l]);
            }
        }
    }
    for (j, x) in j_rest.iter().zip(x_rest) {
        let (w, x) = (w.get(place(*j, step, at))?, (*x).widen());
        for l in 0..N {
            acc[0][l] = x.mul_add_if_fast::<P>(w[l], acc[0][l]);
        }
    }
    Some(from_fn(|l| (acc[0][l] + acc[1][l]) + (acc[2][l] + acc[3][l])))
}

#[inline(always)]
pub fn scatter_axpys<P: Processor, S: Widen<V>, V: Float, I: Index>(
    _: P,
    coef: &[f64],
    a: f64,
    indices: &[I],
    values: &[S],
    w: &mut [V],
    stride: usize,
) -> f64 {
    by_lanes!(P, V, stride, N => {
        let (w, step) = (w.as_chunks_mut::<N>().0, stride / N);
        let mut change = 0.0;
        for (at, coef) in coef.chunks(N).enumerate() {
            if coef.iter().all(|c| *c == 0.0) {
                continue;
            }
            let c = from_fn(|l| V::from_f64(coef.get(l).map_or(0.0, |c| c / a)));
            change += lanes_axpy::<P, S, V, I, N>(&c, indices, values, w, step, at);
        }
        change
    })
}

#[inline(always)]
fn lanes_axpy<P: Processor, S: Widen<V>, V: Float, I: Index, const N: usize>(
    c: &[V; N],
    indices: &[I],
    values: &[S],
    w: &mut [[V; N]],
    step: usize,
    at: usize,
) -> f64 {
    let mut change = [V::ZERO; N];
    for (j, x) in indices.iter().zip(values) {
        if let Some(w) = w.get_mut(place(*j, step, at)) {
            let x = (*x).widen();
            for l in 0..N {
                let step = c[l] * x;
                let new = w[l] + step;
                change[l] = step.mul_add_if_fast::<P>(w[l] + new, change[l]);
                w[l] = new;
            }
        }
    }
    change.into_iter().map(Widen::widen).sum()
}

/// How many vectors stand side by side in a block of a [`Lanes`] matrix.
pub const WIDTH: usize = 32;

/// One feature of [`WIDTH`] vectors. A block of vectors is one of these for every feature.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C, align(64))]
pub struct Lanes<S>(pub [S; WIDTH]);

/// Rows that are multiplied with a block at a time: with two registers of lanes each, 12 sums, which
/// hide the latency of a multiplication and leave room in 16 registers.
pub const TILE: usize = 6;

/// And where there are 32 registers, if rows have at least so many features: lanes are read half as often, and the next block
/// is asked for meanwhile. In trials on an Intel Xeon vectors of 784 features take 0.69 to 0.8 of the time where they come from L3, 0.8
/// from L2; of 256 features 0.8 and 1.0; with fewer features than this it would be 1.0 to 1.2. On a processor that sees by
/// itself what is read in order the hints are for nothing, two beside 24 multiplications.
pub const TALL: usize = 2 * TILE;
const LONG: usize = 64;

#[inline(always)]
pub fn products<P: Processor, S: Float>(
    p: P,
    rows: &[&[S]],
    block: &[Lanes<S>],
    out: &mut [S],
    stride: usize,
) {
    multiply(p, rows, block, out, stride, false);
}

#[inline(always)]
pub fn add_products<P: Processor, S: Float>(
    p: P,
    rows: &[&[S]],
    block: &[Lanes<S>],
    out: &mut [S],
    stride: usize,
) {
    multiply(p, rows, block, out, stride, true);
}

/// Each sum runs over the features in order, whatever the level and however many rows there are; with `more` from what
/// is there on.
#[inline(always)]
fn multiply<P: Processor, S: Float>(
    _: P,
    rows: &[&[S]],
    block: &[Lanes<S>],
    out: &mut [S],
    stride: usize,
    more: bool,
) {
    // As many lanes at a time as two registers hold.
    match const { 2 * P::REGISTER / size_of::<S>() } {
        4 => tiles::<P, 4, S>(rows, block, out, stride, more),
        8 => tiles::<P, 8, S>(rows, block, out, stride, more),
        16 => tiles::<P, 16, S>(rows, block, out, stride, more),
        _ => tiles::<P, WIDTH, S>(rows, block, out, stride, more),
    }
}

#[inline(always)]
fn tiles<P: Processor, const L: usize, S: Float>(
    mut rows: &[&[S]],
    block: &[Lanes<S>],
    mut out: &mut [S],
    stride: usize,
    more: bool,
) {
    let tall = P::REGISTER == 64 && block.len() >= LONG;
    loop {
        let done = match rows.len() {
            0 => return,
            1 => tile::<P, L, 1, S>(rows, block, out, stride, more),
            2 => tile::<P, L, 2, S>(rows, block, out, stride, more),
            3 => tile::<P, L, 3, S>(rows, block, out, stride, more),
            4 => tile::<P, L, 4, S>(rows, block, out, stride, more),
            5 => tile::<P, L, 5, S>(rows, block, out, stride, more),
            TALL.. if tall => tile::<P, L, TALL, S>(rows, block, out, stride, more),
            _ => tile::<P, L, TILE, S>(rows, block, out, stride, more),
        };
        rows = &rows[done..];
        out = out.get_mut(done * stride..).unwrap_or_default();
    }
}

/// The products of the first `R` rows, of which it returns the number.
#[inline(always)]
fn tile<P: Processor, const L: usize, const R: usize, S: Float>(
    x: &[&[S]],
    block: &[Lanes<S>],
    out: &mut [S],
    stride: usize,
    more: bool,
) -> usize {
    // Of one length, so that no index needs a check.
    let x: [&[S]; R] = from_fn(|r| &x[r][..block.len()]);
    for at in (0..WIDTH).step_by(L) {
        let mut acc = [[S::ZERO; L]; R];
        if more {
            for (r, acc) in acc.iter_mut().enumerate() {
                acc.copy_from_slice(&out[r * stride + at..r * stride + at + L]);
            }
        }
        for (j, lanes) in block.iter().enumerate() {
            if R == TALL {
                for line in (at..at + L).step_by(64 / size_of::<S>()) {
                    prefetch_next(block, j, line);
                }
            }
            let lanes = &lanes.0[at..at + L];
            for r in 0..R {
                let x = x[r][j];
                for l in 0..L {
                    acc[r][l] = x.mul_add_if_fast::<P>(lanes[l], acc[r][l]);
                }
            }
        }
        for (r, acc) in acc.iter().enumerate() {
            out[r * stride + at..r * stride + at + L].copy_from_slice(acc);
        }
    }
    R
}

#[inline(always)]
pub fn sparse_products<P: Processor, S: Float, I: Index>(
    _: P,
    indices: &[I],
    values: &[S],
    block: &[Lanes<S>],
    out: &mut [S; WIDTH],
) {
    let mut acc = [S::ZERO; WIDTH];
    for (j, x) in indices.iter().zip(values) {
        let Some(lanes) = block.get(j.position()) else {
            *out = [S::from_f64(f64::NAN); WIDTH];
            return;
        };
        for (acc, z) in acc.iter_mut().zip(&lanes.0) {
            *acc = x.mul_add_if_fast::<P>(*z, *acc);
        }
    }
    *out = acc;
}

#[inline(always)]
pub fn exp<P: Processor, S: Float>(_: P, x: &mut [S]) {
    for x in x {
        *x = x.exp::<P>();
    }
}

#[inline(always)]
pub fn rbf<P: Processor, S: Float>(_: P, gamma: f64, xz: &mut [S], xx: f64, zz: &[S]) {
    let (minus_gamma, minus_two) = (S::finite_from_f64(-gamma), S::from_f64(-2.0));
    let xx = S::from_f64(xx);
    for (xz, zz) in xz.iter_mut().zip(zz) {
        let distance = minus_two.mul_add_if_fast::<P>(*xz, xx + *zz).at_least(S::ZERO);
        *xz = (minus_gamma * distance).exp::<P>();
    }
}
