//! The cost of a linear step: `cargo bench --bench linear`.
//!
//! Throughput is in stored features, so that dense and sparse rows compare. `PEGASOS_SIMD` set to
//! `baseline` or `avx2` shows what a lower instruction set costs.
//!
//! What an order costs, and an account for a certificate, is what an epoch takes less where the order was drawn before, and
//! where there is no account. Prefetching, counts and checks of finiteness have no switch: in rows that the second cache holds,
//! which need no prefetching, they and all else are what an epoch takes more than the plain loop.
//!
//! "The plain loop" is what the machine can do; see `plain/mod.rs`. `RUSTFLAGS="-C target-cpu=native"` lets it have every
//! instruction of the machine.

#![allow(missing_docs, reason = "criterion_main! writes an undocumented main")]

mod plain;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use pegasos::{
    AnyLoss, Average, BLOCK, Binary, Block, Csr, Dense, Examples, Linear, Matrix, Params, Sampling,
    Scalar, Trainer,
};
use plain::{Plain, PlainDense, PlainRows, PlainSparse, plain_epoch, shuffled};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;

fn uniform(rng: &mut Pcg64) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// The case that keeps no account for a certificate.
const NO_LEDGER: &str = "hinge, shuffle, no ledger";
/// The case whose order was drawn before.
const KNOWN: &str = "hinge, shuffle, drawn before";

/// One epoch over `x`, from nothing; and of the plain loop over the same rows.
fn epochs<'a, S: Scalar + Plain>(
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
        (NO_LEDGER, AnyLoss::Hinge, Sampling::Shuffle, base),
        (KNOWN, AnyLoss::Hinge, Sampling::Shuffle, base),
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
    let known: Vec<usize> = Sampling::Shuffle.epoch(n, 0, 0).expect("an order").collect();
    for (case, loss, sampling, params) in cases {
        group.bench_function(BenchmarkId::from_parameter(case), |b| {
            b.iter(|| {
                let linear = Linear::<S>::new(1, d, 1.0).expect("weights");
                let loss = Binary { loss, positive: 1 };
                let mut trainer = Trainer::new(linear, loss, params).expect("parameters");
                if case != NO_LEDGER {
                    trainer.keep_ledger(n);
                }
                if case == KNOWN {
                    return trainer.run(&data, known.iter().copied()).expect("a run");
                }
                trainer.run(&data, sampling.epoch(n, 0, 0).expect("an order")).expect("a run")
            });
        });
    }
    let signs: Vec<i8> = y.iter().map(|&y| if y == 1 { 1 } else { -1 }).collect();
    for (case, width) in [("shuffle", 1), ("blocks", BLOCK)] {
        group.bench_function(BenchmarkId::from_parameter(format!("the plain loop, {case}")), |b| {
            b.iter(|| {
                let order = shuffled(n, width, &mut 88_172_645_463_325_252);
                plain_epoch(&plain, &signs, &order, &mut vec![S::default(); d], 0.0)
            });
        });
    }
    group.finish();
}

fn dense<S: Scalar + Plain>(c: &mut Criterion, name: &str, n: usize) {
    let d = 54;
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

fn sparse<S: Scalar + Plain>(c: &mut Criterion, name: &str) {
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
    dense::<f32>(c, "dense f32, 54 features", 100_000);
    dense::<f64>(c, "dense f64, 54 features", 100_000);
    // All that a step does beside arithmetic, where it waits for no memory.
    dense::<f32>(c, "dense f32, 54 features, 1500 rows in the second cache", 1_500);
    sparse::<f32>(c, "sparse f32, 43 of 2^20 features");
    sparse::<f64>(c, "sparse f64, 43 of 2^20 features");
}

criterion_group!(benches, all);
criterion_main!(benches);
