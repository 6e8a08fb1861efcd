//! Kernel rows beside the machine's limits: what part of the rate of multiplications and additions they
//! reach, what an exponential costs, and what a second thread buys.
//!
//! Prints CSV. The limits are measured in the same run, before each figure.

use std::hint::black_box;
use std::time::Instant;

use pegasos::{Dense, Expansion, Hypothesis, Kernel, Lanes, Matrix, Scalar, WIDTH};

/// The least seconds of a few tries of about 0.2 s each.
fn seconds(mut f: impl FnMut()) -> f64 {
    f();
    let start = Instant::now();
    f();
    let rounds = (0.2 / start.elapsed().as_secs_f64()).ceil().max(1.0) as usize;
    let time = |_| {
        let start = Instant::now();
        (0..rounds).for_each(|_| f());
        start.elapsed().as_secs_f64() / rounds as f64
    };
    (0..5).map(time).fold(f64::INFINITY, f64::min)
}

/// Multiplications and additions a second, of one thread: the loop that products are made of, on operands
/// that stay in the first cache.
fn limit<S: Scalar>() -> f64 {
    const FEATURES: usize = 100;
    let x = numbers::<S>(6 * FEATURES);
    let rows: Vec<&[S]> = x.chunks(FEATURES).collect();
    let block = vec![Lanes([S::from_f64(0.5); WIDTH]); FEATURES];
    let mut out = vec![S::default(); 6 * WIDTH];
    let time = seconds(|| {
        for _ in 0..1000 {
            S::products(black_box(&rows), black_box(&block), black_box(&mut out), WIDTH);
        }
    });
    (2 * 1000 * 6 * FEATURES * WIDTH) as f64 / time
}

fn numbers<S: Scalar>(n: usize) -> Vec<S> {
    let mut state = 1_u64;
    let draw = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        S::from_f64((state >> 40) as f64 / (1 << 24) as f64 - 0.5)
    };
    (0..n).map(draw).collect()
}

fn in_pool<T: Send>(threads: usize, f: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads").install(f)
}

fn rows<S: Scalar>(name: &str) {
    const ROWS: usize = 9600;
    for d in [16, 256, 784] {
        for vectors in [500, 5000] {
            let (x, z) = (numbers::<S>(ROWS * d), numbers::<S>(vectors * d));
            let x = Matrix::from(Dense::new(&x, ROWS, d).expect("a matrix"));
            let z = Dense::new(&z, vectors, d).expect("a matrix");
            let kernel = Kernel::Rbf { gamma: 1.0 / d as f64 };
            let mut w = Expansion::new(kernel, 1, d).expect("an expansion");
            (0..vectors).for_each(|i| w.add(i, z.row(i), &[1.0]));
            let which: Vec<usize> = (0..ROWS).collect();
            let mut out = vec![0.0; ROWS];
            let limit = limit::<S>();
            let mut time = |threads| {
                in_pool(threads, || {
                    seconds(|| w.scores_side_by_side(&x, &which, black_box(&mut out)))
                })
            };
            let (one, two) = (time(1), time(2));
            let rate = 2.0 * (ROWS * vectors * d) as f64 / one;
            println!(
                "rbf rows with {vectors} vectors,{name},{d},{:.4},GFLOP/s,{:.4},{:.3},{:.3}",
                rate / 1e9,
                limit / 1e9,
                rate / limit,
                one / two
            );
        }
    }
}

fn exponentials<S: Scalar>(name: &str) {
    const LEN: usize = 1024;
    let (products, norms) = (numbers::<S>(LEN), vec![S::from_f64(1.0); LEN]);
    let mut x = products.clone();
    let alone = seconds(|| {
        x.copy_from_slice(&products);
        S::exp(black_box(&mut x));
    });
    println!("exp,{name},,{:.4},ns an element,,,", alone / LEN as f64 * 1e9);
    let kernel = Kernel::Rbf { gamma: 0.5 };
    let mapped = seconds(|| {
        x.copy_from_slice(&products);
        kernel.map(black_box(&mut x), 1.0, &norms);
    });
    println!("rbf of products,{name},,{:.4},ns an element,,,", mapped / LEN as f64 * 1e9);
}

fn main() {
    println!("measure,scalar,features,figure,unit,limit,of the limit,two threads over one");
    rows::<f32>("f32");
    rows::<f64>("f64");
    exponentials::<f32>("f32");
    exponentials::<f64>("f64");
}
