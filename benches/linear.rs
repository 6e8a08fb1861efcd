//! The cost of a linear step: `cargo bench --bench linear`.
//!
//! Throughput is in stored features, so that dense and sparse rows compare. `PEGASOS_SIMD` set to
//! `baseline` or `avx2` shows what a lower instruction set costs.
//!
//! "The plain loop" is what the machine can do: order, prefetching, dot product and update of the hinge loss, and
//! nothing else; no check of the data, no ledger, no account of the norm. `RUSTFLAGS="-C target-cpu=native"` lets it have
//! every instruction of the machine.

#![allow(missing_docs, reason = "criterion_main! writes an undocumented main")]

use std::ops::{AddAssign, Mul};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use pegasos::{
    AnyLoss, Average, Binary, Block, Csr, Dense, Examples, Linear, Matrix, Params, Sampling,
    Scalar, Trainer,
};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;

fn uniform(rng: &mut Pcg64) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// A number as the plain loop wants it.
trait Plain: Scalar + Default + Mul<Output = Self> + AddAssign {}

impl Plain for f32 {}
impl Plain for f64 {}

/// What the plain loop needs of rows.
trait PlainRows<S> {
    fn dot(&self, i: usize, v: &[S]) -> S;
    fn add(&self, i: usize, sign: S, v: &mut [S]);
    fn prefetch(&self, i: usize);
}

/// Rows of so many features.
struct PlainDense<'a, S>(&'a [S], usize);

impl<S: Plain> PlainRows<S> for PlainDense<'_, S> {
    fn dot(&self, i: usize, v: &[S]) -> S {
        let &PlainDense(x, d) = self;
        let mut sums = [S::default(); 16];
        for (x, v) in x[i * d..(i + 1) * d].chunks(16).zip(v.chunks(16)) {
            x.iter().zip(v).zip(&mut sums).for_each(|((x, v), sum)| *sum += *x * *v);
        }
        total(&sums)
    }

    fn add(&self, i: usize, sign: S, v: &mut [S]) {
        let &PlainDense(x, d) = self;
        v.iter_mut().zip(&x[i * d..(i + 1) * d]).for_each(|(v, x)| *v += sign * *x);
    }

    fn prefetch(&self, i: usize) {
        let &PlainDense(x, d) = self;
        (0..=d).step_by(64 / size_of::<S>()).for_each(|at| prefetch(x, i * d + at));
    }
}

/// Row ends, columns and values.
struct PlainSparse<'a, S>(&'a [i32], &'a [i32], &'a [S]);

impl<S: Plain> PlainRows<S> for PlainSparse<'_, S> {
    fn dot(&self, i: usize, v: &[S]) -> S {
        let &PlainSparse(ends, indices, values) = self;
        let at = ends[i] as usize..ends[i + 1] as usize;
        let mut sums = [S::default(); 4];
        for (j, x) in indices[at.clone()].chunks(4).zip(values[at].chunks(4)) {
            j.iter().zip(x).zip(&mut sums).for_each(|((j, x), sum)| *sum += *x * v[*j as usize]);
        }
        total(&sums)
    }

    fn add(&self, i: usize, sign: S, v: &mut [S]) {
        let &PlainSparse(ends, indices, values) = self;
        let at = ends[i] as usize..ends[i + 1] as usize;
        indices[at.clone()].iter().zip(&values[at]).for_each(|(j, x)| v[*j as usize] += sign * *x);
    }

    fn prefetch(&self, i: usize) {
        let &PlainSparse(ends, indices, values) = self;
        for at in (ends[i] as usize..ends[i + 1] as usize + 16).step_by(64 / size_of::<S>()) {
            prefetch(indices, at);
            prefetch(values, at);
        }
    }
}

fn total<S: Plain>(sums: &[S]) -> S {
    let mut total = S::default();
    sums.iter().for_each(|sum| total += *sum);
    total
}

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

/// One epoch of Pegasos, the row eight rows ahead asked for; returns the number of updates.
#[inline(never)]
fn plain_epoch<S: Plain>(
    rows: &impl PlainRows<S>,
    y: &[u32],
    order: impl Iterator<Item = usize>,
    v: &mut [S],
) -> usize {
    let order: Vec<usize> = order.collect();
    let lambda = Params::default().lambda;
    let (mut t, mut updates) = (0.0, 0);
    for (k, &i) in order.iter().enumerate() {
        rows.prefetch(order[(k + 8).min(order.len() - 1)]);
        let scale = if t > 0.0 { 1.0 / (lambda * t) } else { 0.0 };
        t += 1.0;
        let sign = if y[i] == 1 { 1.0 } else { -1.0 };
        if rows.dot(i, v).to_f64() * sign * scale < 1.0 {
            rows.add(i, S::from_f64(sign), v);
            updates += 1;
        }
    }
    updates
}

/// One epoch over `x`, from nothing; and of the plain loop over the same rows.
fn epochs<'a, S: Plain>(
    c: &mut Criterion,
    name: &str,
    x: impl Into<Matrix<'a, S>>,
    plain: impl PlainRows<S>,
    y: &'a [u32],
    stored: usize,
) {
    let x = x.into();
    let (n, d) = (x.n_rows(), x.n_features());
    let data = Examples::new(x, y, None).expect("a well-formed problem");
    let mut group = c.benchmark_group(name);
    group.throughput(Throughput::Elements(stored as u64)).sample_size(20);
    let base = Params::default();
    let cases = [
        ("hinge, shuffle", AnyLoss::Hinge, Sampling::Shuffle, base),
        ("hinge, blocks", AnyLoss::Hinge, Sampling::Blocks, base),
        ("hinge, storage", AnyLoss::Hinge, Sampling::Storage, base),
        ("log loss, blocks", AnyLoss::Logistic, Sampling::Blocks, base),
        (
            "hinge, blocks, batches of 16",
            AnyLoss::Hinge,
            Sampling::Blocks,
            Params { block: Block::Mean(16), ..base },
        ),
        (
            "hinge, blocks, averaged",
            AnyLoss::Hinge,
            Sampling::Blocks,
            Params { average: Average::Polynomial, ..base },
        ),
    ];
    for (case, loss, sampling, params) in cases {
        group.bench_function(BenchmarkId::from_parameter(case), |b| {
            b.iter(|| {
                let linear = Linear::<S>::new(1, d, 1.0).expect("weights");
                let loss = Binary { loss, positive: 1 };
                let mut trainer = Trainer::new(linear, loss, params).expect("parameters");
                trainer.keep_ledger(n);
                trainer.run(&data, sampling.epoch(n, 0, 0).expect("an order")).expect("a run")
            });
        });
    }
    for (case, sampling) in [("shuffle", Sampling::Shuffle), ("blocks", Sampling::Blocks)] {
        group.bench_function(BenchmarkId::from_parameter(format!("the plain loop, {case}")), |b| {
            b.iter(|| {
                let order = sampling.epoch(n, 0, 0).expect("an order");
                plain_epoch(&plain, y, order, &mut vec![S::default(); d])
            });
        });
    }
    group.finish();
}

fn dense<S: Plain>(c: &mut Criterion, name: &str) {
    let (n, d) = (100_000, 54);
    let mut rng = Pcg64::new(1, 0);
    let x: Vec<f64> = (0..n * d).map(|_| 2.0 * uniform(&mut rng) - 1.0).collect();
    let y: Vec<u32> = x
        .chunks(d)
        .map(|row| u32::from(row.iter().sum::<f64>() + 4.0 * uniform(&mut rng) > 2.0))
        .collect();
    let x: Vec<S> = x.into_iter().map(S::from_f64).collect();
    let matrix = Dense::new(&x, n, d).expect("a matrix");
    epochs(c, name, matrix, PlainDense(&x, d), &y, n * d);
}

fn sparse<S: Plain>(c: &mut Criterion, name: &str) {
    let (n, d, stored) = (100_000, 1 << 20, 43);
    let mut rng = Pcg64::new(2, 0);
    let y: Vec<u32> = (0..n).map(|_| u32::from(uniform(&mut rng) < 0.5)).collect();
    // Words by a power law; every fourth from the class's own half of the vocabulary.
    let indices: Vec<i32> = (0..n * stored)
        .map(|k| {
            let rank = (d as f64 * uniform(&mut rng).powi(3)) as usize;
            let rank = if k % 4 == 0 { 2 * rank + y[k / stored] as usize } else { rank };
            ((rank * 0x9e37_79b1) % d) as i32
        })
        .collect();
    let values = vec![S::from_f64(1.0 / (stored as f64).sqrt()); n * stored];
    let indptr: Vec<i32> = (0..=n).map(|i| (i * stored) as i32).collect();
    let matrix = Csr::new(&indptr, &indices, &values, d).expect("a matrix");
    let plain = PlainSparse(&indptr, &indices, &values);
    epochs(c, name, matrix, plain, &y, n * stored);
}

fn all(c: &mut Criterion) {
    dense::<f32>(c, "dense f32, 54 features");
    dense::<f64>(c, "dense f64, 54 features");
    sparse::<f32>(c, "sparse f32, 43 of 2^20 features");
    sparse::<f64>(c, "sparse f64, 43 of 2^20 features");
}

criterion_group!(benches, all);
criterion_main!(benches);
