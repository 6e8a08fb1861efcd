//! How scores change with the features: against plain loops, and against themselves.

use pegasos::{
    Agop, Csr, Dense, Error, ErrorKind, Examples, Expansion, Hypothesis, Kernel, Matrix, Params,
    Row, Sampling, Scalar, Trainer,
};

use crate::generated::{
    CLASSES, Problem, Uniform, csr_of, difference, dot, is_of_other_features, near, unsorted, wide,
};

/// So many features that sparse vectors are not packed.
const MANY: usize = 4099;

/// Which of them a feature is; a prime number of them, so that no two are the same.
fn among_many(j: usize) -> usize {
    (17 + 2311 * j) % MANY
}

/// A sum of kernels around the first rows of a problem.
struct Sum {
    problem: Problem,
    outputs: usize,
    gamma: f64,
    /// Vector after vector.
    coefs: Vec<f64>,
}

impl Sum {
    fn new(n_vectors: usize, d: usize, outputs: usize, n: usize) -> Self {
        let seed = (n_vectors + 1000 * d) as u64;
        let mut random = Uniform::new(seed);
        // Such that no kernel value is near 0.
        let gamma = 1.5 / d as f64;
        let coefs = (0..n_vectors * outputs).map(|_| random.signed()).collect();
        Sum { problem: Problem::new(n, d, seed), outputs, gamma, coefs }
    }

    fn filled<S: Scalar>(&self, mut w: Expansion<S>, x: &Matrix<'_, S>) -> Expansion<S> {
        for (i, coef) in self.coefs.chunks(self.outputs).enumerate() {
            w.add(i, x.row(i), coef);
        }
        w
    }

    fn empty<S: Scalar>(&self, x: &Matrix<'_, S>) -> Expansion<S> {
        let new = if x.is_sparse() { Expansion::sparse } else { Expansion::new };
        new(Kernel::Rbf { gamma: self.gamma }, self.outputs, x.n_features()).unwrap()
    }

    fn expansion<S: Scalar>(&self, x: &Matrix<'_, S>) -> Expansion<S> {
        self.filled(self.empty(x), x)
    }

    /// The gradients at row i, by the formula: outputs x features.
    fn slopes(&self, i: usize) -> Vec<f64> {
        let (d, x) = (self.problem.d, self.problem.row(i));
        let mut slopes = vec![0.0; self.outputs * d];
        for (s, coefs) in self.coefs.chunks(self.outputs).enumerate() {
            let apart = difference(self.problem.row(s), x);
            let k = (-self.gamma * dot(&apart, &apart)).exp();
            for (slopes, coef) in slopes.chunks_mut(d).zip(coefs) {
                for (slope, apart) in slopes.iter_mut().zip(&apart) {
                    *slope += 2.0 * self.gamma * coef * k * apart;
                }
            }
        }
        slopes
    }

    fn slopes_of(&self, rows: &[usize]) -> Vec<f64> {
        rows.iter().flat_map(|i| self.slopes(*i)).collect()
    }
}

fn gradients<S: Scalar>(w: &Expansion<S>, x: &Matrix<'_, S>, rows: &[usize]) -> Vec<f64> {
    // Not zeros, which might be right.
    let mut out = vec![S::from_f64(9.0); rows.len() * w.outputs() * w.n_features()];
    w.gradients(x, rows, &mut out).unwrap();
    wide(&out)
}

/// How the scores of a row change with one feature, by central differences.
fn differences(w: &Expansion<f64>, x: &Matrix<'_, f64>, i: usize, j: usize) -> Vec<f64> {
    const STEP: f64 = 1e-5;
    let mut features = vec![0.0; x.n_features()];
    x.row(i).for_each(|j, x| features[j] += x);
    let at = features[j];
    let mut score = |x: f64| {
        features[j] = x;
        let mut scores = vec![0.0; w.outputs()];
        w.score(Row::Dense(&features), &mut scores);
        scores
    };
    let apart = difference(&score(at + STEP), &score(at - STEP));
    apart.iter().map(|apart| apart / (2.0 * STEP)).collect()
}

const N: usize = 120;

/// More than a task takes, not in order, one of them twice; the first of all is a support vector.
fn some_rows() -> Vec<usize> {
    (0..26).map(|r| 7 * r % N).chain([7]).collect()
}

/// Numbers of vectors around blocks and chunks of them, of features, of outputs.
fn shapes() -> impl Iterator<Item = (usize, usize, usize)> {
    let of = |n| [1, 2, 33].into_iter().map(move |d| (n, d));
    let sizes = [1, 31, 32, 33, 100].into_iter().flat_map(of);
    sizes.flat_map(|(n, d)| [(n, d, 1), (n, d, 4)])
}

#[test]
fn gradients_are_slopes_of_scores() {
    let rows = some_rows();
    for shape @ (n, d, outputs) in shapes() {
        let sum = Sum::new(n, d, outputs, N);
        let want = sum.slopes_of(&rows);
        let csr = unsorted(&sum.problem, |x| x);
        for x in [Matrix::from(sum.problem.dense()), csr.view().into()] {
            let what = format!("{shape:?}, sparse: {}", x.is_sparse());
            let w = sum.expansion(&x);
            let got = gradients(&w, &x, &rows);
            near(&got, &want, 1e-12, &what);
            let mut numeric = vec![0.0; got.len()];
            for (i, slopes) in rows.iter().zip(numeric.chunks_mut(outputs * d)) {
                for j in 0..d {
                    for (o, slope) in differences(&w, &x, *i, j).iter().enumerate() {
                        slopes[o * d + j] = *slope;
                    }
                }
            }
            near(&got, &numeric, 1e-8, &what);
        }
    }
}

#[test]
fn gradients_are_slopes_of_scores_of_many_features() {
    let rows = some_rows();
    for shape @ (_, d, outputs) in shapes() {
        let sum = Sum::new(shape.0, d, outputs, N);
        let csr = csr_of(&sum.problem, MANY, among_many, |x| x);
        let x = Matrix::from(csr.view());
        let w = sum.expansion(&x);
        let got = gradients(&w, &x, &rows);
        let want = sum.slopes_of(&rows);
        let mut wide = vec![0.0; got.len()];
        for (wide, want) in wide.chunks_mut(MANY).zip(want.chunks(d)) {
            want.iter().enumerate().for_each(|(j, want)| wide[among_many(j)] = *want);
        }
        near(&got, &wide, 1e-12, &format!("{shape:?}"));
        // Some, as each score looks at all features.
        let (mut some, mut numeric) = (Vec::new(), Vec::new());
        for (i, slopes) in rows.iter().zip(got.chunks(outputs * MANY)).take(3) {
            for j in [among_many(0), among_many(d - 1), 1] {
                some.extend(slopes.chunks(MANY).map(|slopes| slopes[j]));
                numeric.extend(differences(&w, &x, *i, j));
            }
        }
        near(&some, &numeric, 1e-8, &format!("{shape:?}"));
    }
}

/// More vectors than their coefficients have chunks for, and a scale that is not 1.
#[test]
fn gradients_are_those_of_a_trained_machine() {
    let (n, d) = (500, 6);
    let problem = Problem::of_classes(n, d, 3, 8).unweighted();
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    let w = Expansion::new(Kernel::Rbf { gamma: 4.0 }, 3, d).unwrap();
    let params = Params { lambda: 1e-2, ..Params::default() };
    let mut trainer = Trainer::new(w, CLASSES, params).unwrap();
    trainer.run(&data, Sampling::Shuffle.epoch(n, 1, 0).unwrap()).unwrap();
    let w = trainer.hypothesis();
    assert!(w.n_vectors() > 256, "{}", w.n_vectors());
    for i in [n - 1, 5] {
        let got = gradients(w, data.rows(), &[i]);
        let got: Vec<f64> = (0..d * 3).map(|k| got[k % 3 * d + k / 3]).collect();
        let want: Vec<f64> = (0..d).flat_map(|j| differences(w, data.rows(), i, j)).collect();
        near(&got, &want, 1e-7, "trained");
    }
}

#[test]
fn single_gradients_are_near_double_ones() {
    let rows = some_rows();
    for shape @ (n, d, outputs) in shapes() {
        let sum = Sum::new(n, d, outputs, N);
        let sum = Sum { problem: sum.problem.rounded(), ..sum };
        let single = sum.problem.single();
        let csr = unsorted(&sum.problem, |x| x as f32);
        let dense = Dense::new(&single, N, d).unwrap();
        let want = sum.slopes_of(&rows);
        for x in [Matrix::from(dense), csr.view().into()] {
            let got = gradients(&sum.expansion(&x), &x, &rows);
            near(&got, &want, 3e-6, &format!("{shape:?}, sparse: {}", x.is_sparse()));
        }
        let csr = csr_of(&sum.problem, MANY, among_many, |x| x as f32);
        let x = Matrix::from(csr.view());
        let got = gradients(&sum.expansion(&x), &x, &rows);
        let got: Vec<f64> = got
            .chunks(MANY)
            .flat_map(|slopes| (0..d).map(|j| slopes[among_many(j)]).collect::<Vec<f64>>())
            .collect();
        near(&got, &want, 3e-6, &format!("{shape:?}, not packed"));
    }
}

/// No feature changes the constant one.
#[test]
fn a_constant_feature_has_no_slope() {
    let sum = Sum::new(40, 7, 2, N);
    let scattered = csr_of(&sum.problem, MANY, among_many, |x| x);
    for x in [Matrix::from(sum.problem.dense()), scattered.view().into()] {
        let raised = sum.filled(sum.empty(&x).with_constant(3.0).unwrap(), &x);
        let plain = sum.expansion(&x);
        let rows = some_rows();
        assert_eq!(gradients(&raised, &x, &rows), gradients(&plain, &x, &rows));
        let mean = |w| agop(w, &x, &rows, true, |_| 1.0);
        assert_eq!(mean(&raised), mean(&plain));
    }
}

fn agop<S: Scalar>(
    w: &Expansion<S>,
    x: &Matrix<'_, S>,
    rows: &[usize],
    diagonal: bool,
    weight: impl Fn(usize) -> f64,
) -> Vec<f64> {
    let mut agop = Agop::new(x.n_features(), diagonal).unwrap();
    agop.add(w, x, rows, weight).unwrap();
    agop.mean()
}

/// Enough outputs that a few rows are more than are worked on at a time.
const OUTPUTS: usize = 16;

#[test]
fn agop_is_a_mean_of_outer_products() {
    for d in [1, 31, 33, 70] {
        let sum = Sum::new(10, d, OUTPUTS, 90);
        assert!(Agop::at_a_time(OUTPUTS) < sum.problem.n && sum.problem.weight.contains(&0.0));
        let rows: Vec<usize> = (0..90).rev().collect();
        let weight = |i: usize| sum.problem.weight[i];
        let (mut want, mut total) = (vec![0.0; d * d], 0.0);
        for i in 0..90 {
            total += weight(i);
            for slopes in sum.slopes(i).chunks(d) {
                for (k, want) in want.iter_mut().enumerate() {
                    *want += weight(i) * slopes[k / d] * slopes[k % d];
                }
            }
        }
        want.iter_mut().for_each(|want| *want /= total);
        let on_diagonal = |full: &[f64]| full.iter().step_by(d + 1).copied().collect::<Vec<f64>>();

        let csr = unsorted(&sum.problem, |x| x);
        for x in [Matrix::from(sum.problem.dense()), csr.view().into()] {
            let what = format!("{d} features, sparse: {}", x.is_sparse());
            let w = sum.expansion(&x);
            let full = agop(&w, &x, &rows, false, weight);
            near(&full, &want, 1e-12, &what);
            assert!((0..d * d).all(|k| full[k] == full[k % d * d + k / d]), "{what}");
            let diagonal = agop(&w, &x, &rows, true, weight);
            near(&diagonal, &on_diagonal(&want), 1e-12, &what);
            near(&diagonal, &on_diagonal(&full), 1e-14, &what);
        }

        let single = sum.problem.single();
        let x = Matrix::from(Dense::new(&single, 90, d).unwrap());
        let w = sum.expansion(&x);
        near(&agop(&w, &x, &rows, false, weight), &want, 1e-5, "single");
        near(&agop(&w, &x, &rows, true, weight), &on_diagonal(&want), 1e-5, "single");
    }
}

fn pieces_change_no_bit<S: Scalar>(scalar: impl Fn(f64) -> S) {
    let n = 200;
    let sum = Sum::new(5, 40, OUTPUTS, n);
    let values: Vec<S> = sum.problem.x.iter().map(|x| scalar(*x)).collect();
    let x = Matrix::from(Dense::new(&values, n, 40).unwrap());
    let w = sum.expansion(&x);
    let rows: Vec<usize> = (0..n).map(|r| 37 * r % n).collect();
    let weight = |i: usize| sum.problem.weight[i];
    for diagonal in [false, true] {
        let whole = agop(&w, &x, &rows, diagonal, weight);
        for panels in 1..=3 {
            let mut pieces = Agop::new(40, diagonal).unwrap();
            for rows in rows.chunks(panels * Agop::at_a_time(OUTPUTS)) {
                pieces.add(&w, &x, rows, weight).unwrap();
            }
            assert_eq!(pieces.mean(), whole, "{panels} panels, diagonal: {diagonal}");
        }
    }
}

#[test]
fn calls_of_whole_panels_are_as_good_as_one() {
    pieces_change_no_bit::<f64>(|x| x);
    pieces_change_no_bit::<f32>(|x| x as f32);
    assert_eq!(Agop::at_a_time(100_000), 1);
}

#[test]
#[cfg(feature = "rayon")]
fn threads_change_no_bit() {
    use crate::metric::mapped;
    use pegasos::Metric;

    fn in_pool<T: Send>(threads: usize, f: impl FnOnce() -> T + Send) -> T {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(f)
    }
    let n = 200;
    let sum = Sum::new(50, 70, OUTPUTS, n);
    let single = sum.problem.single();
    let dense = Dense::new(&single, n, 70).unwrap();
    let csr = csr_of(&sum.problem, MANY, among_many, |x| x as f32);
    let rows: Vec<usize> = (0..n).collect();
    for x in [Matrix::from(dense), csr.view().into()] {
        let w = sum.expansion(&x);
        let of = |diagonal| agop(&w, &x, &rows, diagonal, |i| sum.problem.weight[i]);
        // All pairs only of few features.
        let work =
            || (gradients(&w, &x, &rows[..60]), of(true), (!x.is_sparse()).then(|| of(false)));
        assert_eq!(in_pool(1, work), in_pool(3, work));
    }
    let metric = Metric::full(&sum.problem.x, 70).unwrap();
    let x = Matrix::from(dense);
    let map = || mapped(&metric, &x, 0..n);
    assert_eq!(in_pool(1, map), in_pool(3, map));
}

#[test]
fn nothing_has_no_slopes() {
    let sum = Sum::new(4, 3, 2, 50);
    let scattered = csr_of(&sum.problem, MANY, among_many, |x| x);
    for x in [Matrix::from(sum.problem.dense()), scattered.view().into()] {
        let d = x.n_features();
        let (none, w, rows) = (sum.empty(&x), sum.expansion(&x), some_rows());
        let rows: Vec<usize> = rows.into_iter().filter(|i| *i < 50).collect();
        assert_eq!(gradients(&none, &x, &rows), vec![0.0; rows.len() * 2 * d]);
        assert!(gradients(&w, &x, &[]).is_empty());
        assert_eq!(agop(&none, &x, &rows, true, |_| 1.0), vec![0.0; d]);
        assert_eq!(agop(&w, &x, &[], true, |_| 1.0), vec![0.0; d]);
        assert_eq!(agop(&w, &x, &rows, true, |_| 0.0), vec![0.0; d]);
        if d == 3 {
            assert_eq!(agop(&none, &x, &rows, false, |_| 1.0), [0.0; 9]);
            assert_eq!(agop(&w, &x, &[], false, |_| 1.0), [0.0; 9]);
            assert_eq!(agop(&w, &x, &rows, false, |_| 0.0), [0.0; 9]);
            assert_eq!(Agop::new(3, false).unwrap().mean(), [0.0; 9]);
        }
    }
    // Vectors that come later count what came before.
    let x = Matrix::from(sum.problem.dense());
    let (none, w) = (sum.empty(&x), sum.expansion(&x));
    let mut half = Agop::new(3, false).unwrap();
    half.add(&none, &x, &[1, 2], |_| 1.0).unwrap();
    half.add(&w, &x, &[30, 40], |_| 1.0).unwrap();
    let twice: Vec<f64> = half.mean().iter().map(|mean| 2.0 * mean).collect();
    near(&twice, &agop(&w, &x, &[30, 40], false, |_| 1.0), 1e-15, "half");
}

/// What the gradients of these rows, and their mean products, are refused for.
fn refusals_of(w: &Expansion<f64>, x: &Matrix<'_, f64>, rows: &[usize]) -> Vec<Error> {
    let d = w.n_features();
    let mut out = vec![0.0; rows.len() * w.outputs() * d];
    let mut errors = vec![w.gradients(x, rows, &mut out).unwrap_err()];
    // Not all pairs of many features.
    for diagonal in [true, false].into_iter().filter(|diagonal| *diagonal || d < MANY) {
        let mut agop = Agop::new(d, diagonal).unwrap();
        errors.push(agop.add(w, x, rows, |_| 1.0).unwrap_err());
    }
    errors
}

#[test]
fn other_kernels_have_no_gradients_here() {
    let problem = Problem::new(6, 6, 1);
    let x = Matrix::from(problem.dense());
    for kernel in [
        Kernel::Linear,
        Kernel::Poly { gamma: 0.5, coef0: 1.0, degree: 3 },
        Kernel::Sigmoid { gamma: 0.1, coef0: 0.2 },
        Kernel::Precomputed,
    ] {
        let mut w = Expansion::new(kernel, 1, 6).unwrap();
        for n_vectors in 0..2 {
            for error in refusals_of(&w, &x, &[1]) {
                let kind = error.kind();
                assert!(matches!(kind, ErrorKind::Parameter { name: "kernel", .. }), "{kind:?}");
                let text = error.to_string();
                assert!(text.starts_with("kernel must be Rbf") && text.contains("got"), "{text}");
            }
            w.add(n_vectors, x.row(n_vectors), &[1.0]);
        }
    }
}

#[test]
fn bad_rows_have_no_gradients() {
    let n = 30;
    let sum = Sum::new(4, 3, 2, n);
    let rows: Vec<usize> = (0..n).rev().collect();
    for (bad, text) in [
        (f64::NAN, "row 27, column 1 holds NaN"),
        (f64::INFINITY, "row 27, column 1 holds inf"),
        (f64::NEG_INFINITY, "row 27, column 1 holds -inf"),
    ] {
        let mut problem = sum.problem.clone();
        problem.x[27 * 3 + 1] = bad;
        let csr = unsorted(&problem, |x| x);
        let many = csr_of(&problem, MANY, |j| j, |x| x);
        for x in [Matrix::from(problem.dense()), csr.view().into(), many.view().into()] {
            let w = sum.expansion(&x);
            for error in refusals_of(&w, &x, &rows) {
                assert!(matches!(error.kind(), ErrorKind::NonFinite { name: "X", .. }), "{error}");
                assert!(error.to_string().starts_with("X must be finite"), "{error}");
                assert!(error.to_string().ends_with(text), "{error}");
            }
        }
    }
    for d in [3, MANY] {
        let mut csr = csr_of(&sum.problem, d, |j| j, |x| x);
        let w = sum.expansion(&Matrix::from(csr.view()));
        let place = csr.indptr[27] as usize;
        for outside in [d as i32, -1] {
            csr.indices[place] = outside;
            let x = Matrix::from(csr.view());
            let none = sum.empty(&x);
            for error in [refusals_of(&w, &x, &rows), refusals_of(&none, &x, &rows)].concat() {
                let kind = error.kind();
                assert!(matches!(kind, ErrorKind::Index { name: "X.indices", .. }), "{kind:?}");
                let want = format!("X.indices must lie in 0..{d}, got {outside}");
                assert_eq!(error.to_string(), want);
            }
        }
    }
    // Rows that nobody asks for harm nobody.
    let mut problem = sum.problem.clone();
    problem.x[27 * 3 + 1] = f64::NAN;
    let x = Matrix::from(problem.dense());
    near(&gradients(&sum.expansion(&x), &x, &[3, 20]), &sum.slopes_of(&[3, 20]), 1e-12, "others");
}

#[test]
fn agop_refuses_other_features() {
    let sum = Sum::new(4, 3, 2, 10);
    let w = sum.expansion(&Matrix::from(sum.problem.dense()));
    for d in [2, 4] {
        let other = Problem::new(10, d, 1);
        let csr = other.csr();
        for x in [Matrix::from(other.dense()), csr.view().into()] {
            for diagonal in [false, true] {
                let mut agop = Agop::new(3, diagonal).unwrap();
                is_of_other_features(&agop.add(&w, &x, &[1], |_| 1.0).unwrap_err(), 3, d);
                assert!(agop.mean().iter().all(|mean| *mean == 0.0));
                let mut agop = Agop::new(d, diagonal).unwrap();
                let error = agop.add(&w, &x, &[1], |_| 1.0).unwrap_err();
                assert_eq!(error.to_string(), format!("w must have {d} features, got 3"));
            }
        }
    }
}

/// As the matrix has, whatever of them is stored, and whether there are vectors or not.
#[test]
fn gradients_refuse_other_features() {
    let sum = Sum::new(4, 3, 2, 10);
    let own = Matrix::from(sum.problem.dense());
    for w in [sum.expansion(&own), sum.empty(&own)] {
        for d in [2, 4] {
            let other = Problem::new(10, d, 1);
            let (indptr, csr) = ([0; 11], other.csr());
            let zeros = Csr::new(&indptr, &[], &[], d).unwrap();
            for x in [Matrix::from(other.dense()), csr.view().into(), zeros.into()] {
                let error = w.gradients(&x, &[1, 2], &mut [0.0; 12]);
                is_of_other_features(&error.expect_err("a refusal"), 3, d);
            }
        }
    }
}

/// Squares that f32 does not hold are summed all the same.
#[test]
fn products_of_gradients_keep_their_range() {
    let x = [0.0_f32, 0.0, 1.0, 0.5];
    let x = Matrix::from(Dense::new(&x, 2, 2).unwrap());
    for coef in [1e20, 1e-23] {
        let mut w = Expansion::<f32>::new(Kernel::Rbf { gamma: 1.0 }, 1, 2).unwrap();
        w.add(0, x.row(0), &[coef]);
        let slope = -2.0 * coef * (-1.25_f64).exp();
        let want = [1.0, 0.5, 0.5, 0.25].map(|product| slope * slope * product);
        near(&agop(&w, &x, &[1], false, |_| 1.0), &want, 1e-5, "all");
        near(&agop(&w, &x, &[1], true, |_| 1.0), &[want[0], want[3]], 1e-5, "the diagonal");
    }
}

#[test]
fn weights_are_refused() {
    let sum = Sum::new(4, 3, 1, 10);
    let x = Matrix::from(sum.problem.dense());
    let w = sum.expansion(&x);
    for weight in [-1.0, f64::NAN, f64::INFINITY] {
        let error = Agop::new(3, false).unwrap().add(&w, &x, &[1, 2], |_| weight).unwrap_err();
        assert!(error.to_string().starts_with("weight must be >= 0 and finite"), "{error}");
    }
}

/// Rows of a call that was refused have no part in the mean.
#[test]
fn refused_weights_do_not_count() {
    let sum = Sum::new(4, 3, 1, 10);
    let x = Matrix::from(sum.problem.dense());
    let w = sum.expansion(&x);
    let mut all = Agop::new(3, false).unwrap();
    all.add(&w, &x, &[1, 2], |_| 1.0).unwrap();
    let before = all.mean();
    all.add(&w, &x, &[3, 4], |i| if i == 4 { f64::NAN } else { 1.0 }).unwrap_err();
    assert_eq!(all.mean(), before);
}
