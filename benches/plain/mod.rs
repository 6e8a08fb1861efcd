//! What the machine can do: order, prefetching, dot product and update of the hinge loss, and nothing else. No check of the
//! data, no account of anything, nothing of the crate.
//!
//! `cargo bench --bench linear` shows it beside the crate; `compare.py` compiles it for the machine (`shared.rs`) and has it
//! visit the very arrays that others have learned from: whether their pages are large is half of its time.

use std::array::from_fn;
use std::ops::{AddAssign, Mul};

/// As the other programs of this folder have it.
const LAMBDA: f64 = 1e-4;

/// A number as the plain loop wants it.
pub trait Plain: Copy + Default + Mul<Output = Self> + AddAssign {
    fn of(x: f64) -> Self;
    fn to_f64(self) -> f64;
    /// `self * x + sum`, fused where the program is compiled for a machine that can.
    fn times_plus(self, x: Self, sum: Self) -> Self;
}

macro_rules! plain {
    ($($t:ty),*) => {$(
        impl Plain for $t {
            #[inline(always)]
            fn of(x: f64) -> Self {
                x as $t
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                f64::from(self)
            }
            #[inline(always)]
            fn times_plus(self, x: Self, sum: Self) -> Self {
                if cfg!(target_feature = "fma") { self.mul_add(x, sum) } else { self * x + sum }
            }
        }
    )*};
}
plain!(f32, f64);

/// What the plain loop needs of rows.
pub trait PlainRows<S> {
    fn dot(&self, i: usize, v: &[S]) -> S;
    fn add(&self, i: usize, sign: S, v: &mut [S]);
    /// Asks for where a row begins, and later for what it holds.
    fn prefetch_bounds(&self, _i: usize) {}
    fn prefetch(&self, i: usize);
}

/// Rows of so many features.
pub struct PlainDense<'a, S>(pub &'a [S], pub usize);

impl<S: Plain> PlainRows<S> for PlainDense<'_, S> {
    #[inline(always)]
    fn dot(&self, i: usize, v: &[S]) -> S {
        let &PlainDense(x, d) = self;
        let (x, v) = (&x[i * d..(i + 1) * d], &v[..d]);
        let (x, x_rest) = x.as_chunks::<16>();
        let (v, v_rest) = v.as_chunks::<16>();
        let sums = x
            .iter()
            .zip(v)
            .fold([S::default(); 16], |sums, (x, v)| from_fn(|k| x[k].times_plus(v[k], sums[k])));
        let (x, x_rest) = x_rest.as_chunks::<4>();
        let (v, v_rest) = v_rest.as_chunks::<4>();
        let few = x
            .iter()
            .zip(v)
            .fold([S::default(); 4], |few, (x, v)| from_fn(|k| x[k].times_plus(v[k], few[k])));
        let eight: [S; 8] = from_fn(|k| plus(sums[k], sums[k + 8]));
        let four: [S; 4] = from_fn(|k| plus(eight[k], eight[k + 4]));
        let mut sum = total(from_fn(|k| plus(four[k], few[k])));
        x_rest.iter().zip(v_rest).for_each(|(x, v)| sum = x.times_plus(*v, sum));
        sum
    }

    #[inline(always)]
    fn add(&self, i: usize, sign: S, v: &mut [S]) {
        let &PlainDense(x, d) = self;
        let row = &x[i * d..(i + 1) * d];
        v.iter_mut().zip(row).for_each(|(v, x)| *v = sign.times_plus(*x, *v));
    }

    #[inline(always)]
    fn prefetch(&self, i: usize) {
        let &PlainDense(x, d) = self;
        let line = const { 64 / size_of::<S>() };
        (0..d + line - 1).step_by(line).for_each(|at| prefetch(x, i * d + at));
    }
}

/// Row ends, columns and values.
pub struct PlainSparse<'a, S>(pub &'a [i32], pub &'a [i32], pub &'a [S]);

impl<S: Plain> PlainRows<S> for PlainSparse<'_, S> {
    #[inline(always)]
    fn dot(&self, i: usize, v: &[S]) -> S {
        let &PlainSparse(ends, indices, values) = self;
        let at = ends[i] as usize..ends[i + 1] as usize;
        let (js, j_rest) = indices[at.clone()].as_chunks::<4>();
        let (xs, x_rest) = values[at].as_chunks::<4>();
        let mut sums = [S::default(); 4];
        for (j, x) in js.iter().zip(xs) {
            for k in 0..4 {
                sums[k] = x[k].times_plus(v[j[k] as usize], sums[k]);
            }
        }
        for (j, x) in j_rest.iter().zip(x_rest) {
            sums[0] = x.times_plus(v[*j as usize], sums[0]);
        }
        total(sums)
    }

    #[inline(always)]
    fn add(&self, i: usize, sign: S, v: &mut [S]) {
        let &PlainSparse(ends, indices, values) = self;
        let at = ends[i] as usize..ends[i + 1] as usize;
        for (j, x) in indices[at.clone()].iter().zip(&values[at]) {
            let v = &mut v[*j as usize];
            *v = sign.times_plus(*x, *v);
        }
    }

    #[inline(always)]
    fn prefetch_bounds(&self, i: usize) {
        prefetch(self.0, i);
    }

    #[inline(always)]
    fn prefetch(&self, i: usize) {
        let &PlainSparse(ends, indices, values) = self;
        let line = const { 64 / size_of::<S>() };
        let (first, end) = (ends[i] as usize, ends[i + 1] as usize);
        (first..end + line - 1).step_by(line).for_each(|at| prefetch(values, at));
        (first..end + 15).step_by(16).for_each(|at| prefetch(indices, at));
    }
}

/// Half by half, as registers are folded.
#[inline(always)]
fn total<S: Plain>(x: [S; 4]) -> S {
    plus(plus(x[0], x[2]), plus(x[1], x[3]))
}

#[inline(always)]
fn plus<S: Plain>(mut a: S, b: S) -> S {
    a += b;
    a
}

#[inline(always)]
#[allow(unsafe_code, reason = "the one hint that has no safe form")]
fn prefetch<T>(slice: &[T], at: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing and cannot fault, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(slice.as_ptr().wrapping_add(at).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (slice, at);
}

/// How many rows ahead of its use a row is asked for.
const AHEAD: usize = 12;

/// A shuffle of all rows, so many that follow one another at a time.
pub fn shuffled(n: usize, width: usize, state: &mut u64) -> Vec<u32> {
    let mut blocks: Vec<u32> = (0..n.div_ceil(width) as u32).collect();
    for last in (1..blocks.len()).rev() {
        // Marsaglia's xorshift.
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        blocks.swap(last, ((u128::from(*state) * (last as u128 + 1)) >> 64) as usize);
    }
    if width == 1 {
        return blocks;
    }
    let first = |block| block as usize * width;
    blocks.into_iter().flat_map(|b| first(b) as u32..n.min(first(b) + width) as u32).collect()
}

/// One epoch of Pegasos in this order, after t steps; returns the number of updates.
#[inline(never)]
pub fn plain_epoch<S: Plain>(
    rows: &impl PlainRows<S>,
    signs: &[i8],
    order: &[u32],
    v: &mut [S],
    mut t: f64,
) -> usize {
    let mut updates = 0;
    for (k, &i) in order.iter().enumerate() {
        let (i, later) = (i as usize, |by: usize| order[(k + by).min(order.len() - 1)] as usize);
        rows.prefetch_bounds(later(2 * AHEAD));
        rows.prefetch(later(AHEAD));
        let scale = if t > 0.0 { 1.0 / (LAMBDA * t) } else { 0.0 };
        t += 1.0;
        let sign = f64::from(signs[i]);
        if rows.dot(i, v).to_f64() * sign * scale < 1.0 {
            rows.add(i, S::of(sign), v);
            updates += 1;
        }
    }
    updates
}
