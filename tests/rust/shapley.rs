//! Shapley values against their definition, against sums over the sizes of coalitions, and against themselves.

use pegasos::{
    Csr, Dense, Error, ErrorKind, Expansion, Hypothesis, Kernel, Matrix, PANEL, Scalar, Shapley,
};

use crate::generated::{CsrArrays, Problem, Uniform, difference, dot};

/// A sum of kernels around the first rows of a problem; the next ones are the background, then come rows to explain.
struct Model {
    problem: Problem,
    outputs: usize,
    gamma: f64,
    /// Vector after vector.
    coefs: Vec<f64>,
    n_background: usize,
}

impl Model {
    fn new(n_vectors: usize, d: usize, outputs: usize, n_background: usize, gamma: f64) -> Self {
        let seed = (n_vectors + 1000 * d) as u64;
        let mut random = Uniform::new(seed);
        let coefs = (0..n_vectors * outputs).map(|_| random.signed()).collect();
        let problem = Problem::new(n_vectors + n_background + 5, d, seed);
        Model { problem, outputs, gamma, coefs, n_background }
    }

    fn n_vectors(&self) -> usize {
        self.coefs.len() / self.outputs
    }

    /// The rows to explain.
    fn rows(&self) -> std::ops::Range<usize> {
        self.problem.n - 5..self.problem.n
    }

    fn expansion<S: Scalar>(&self, x: &Matrix<'_, S>) -> Expansion<S> {
        let new = if x.is_sparse() { Expansion::sparse } else { Expansion::new };
        let kernel = Kernel::Rbf { gamma: self.gamma };
        let mut w = new(kernel, self.outputs, x.n_features()).unwrap();
        for (i, coef) in self.coefs.chunks(self.outputs).enumerate() {
            w.add(i, x.row(i), coef);
        }
        w
    }

    /// Scores of a row.
    fn scores(&self, x: &[f64]) -> Vec<f64> {
        let mut scores = vec![0.0; self.outputs];
        for (s, coefs) in self.coefs.chunks(self.outputs).enumerate() {
            let apart = difference(self.problem.row(s), x);
            let k = (-self.gamma * dot(&apart, &apart)).exp();
            scores.iter_mut().zip(coefs).for_each(|(score, coef)| *score += coef * k);
        }
        scores
    }

    /// The rows that stand for what is not known; none, where factors are left out.
    fn background(&self) -> Vec<&[f64]> {
        let n = self.n_vectors();
        (n..n + self.n_background).map(|i| self.problem.row(i)).collect()
    }

    /// What a vector's factor of a feature is, with the feature known and without.
    fn factors(&self, s: usize, x: &[f64], absent: Option<&[f64]>) -> Vec<(f64, f64)> {
        let z = self.problem.row(s);
        let factor = |x: &[f64], j: usize| (-self.gamma * (x[j] - z[j]).powi(2)).exp();
        let pairs = (0..z.len()).map(|j| (factor(x, j), absent.map_or(1.0, |r| factor(r, j))));
        pairs.collect()
    }

    /// Features x outputs of a row, where `of(factors, i)` is the value of feature i in a game of products.
    fn values(&self, x: &[f64], of: impl Fn(&[(f64, f64)], usize) -> f64) -> Vec<f64> {
        let mut background: Vec<Option<&[f64]>> = self.background().into_iter().map(Some).collect();
        if background.is_empty() {
            background.push(None);
        }
        let mut values = vec![0.0; self.problem.d * self.outputs];
        for (s, coefs) in self.coefs.chunks(self.outputs).enumerate() {
            for absent in &background {
                let factors = self.factors(s, x, *absent);
                for (i, values) in values.chunks_mut(self.outputs).enumerate() {
                    let value = of(&factors, i) / background.len() as f64;
                    values.iter_mut().zip(coefs).for_each(|(v, coef)| *v += coef * value);
                }
            }
        }
        values
    }

    fn all_values(&self, of: impl Fn(&[(f64, f64)], usize) -> f64) -> Vec<f64> {
        self.rows().flat_map(|i| self.values(self.problem.row(i), &of)).collect()
    }

    /// What the crate says.
    fn found<S: Scalar>(&self, x: &Matrix<'_, S>, rows: Option<&Matrix<'_, S>>) -> Vec<f64> {
        let w = self.expansion(x);
        Shapley::new(&w, rows).unwrap().values(x, self.rows()).unwrap()
    }
}

/// The definition: over all coalitions of the others.
fn by_coalitions(factors: &[(f64, f64)], i: usize) -> f64 {
    let d = factors.len();
    let factorial = |n: usize| (1..=n).map(|k| k as f64).product::<f64>();
    let worth = |known: usize| -> f64 {
        let each = factors.iter().enumerate();
        each.map(|(j, (p, q))| if known >> j & 1 == 1 { p } else { q }).product()
    };
    let others = (0..1_usize << d).filter(|known| known >> i & 1 == 0);
    let gains = others.map(|known| {
        let size = known.count_ones() as usize;
        let orders = factorial(size) * factorial(d - 1 - size) / factorial(d);
        orders * (worth(known | 1 << i) - worth(known))
    });
    gains.sum()
}

/// The same by sizes: the sum over coalitions of one size is a coefficient of `prod_l (q_l + p_l y)`.
fn by_sizes(factors: &[(f64, f64)], i: usize) -> f64 {
    let mut sums = vec![1.0];
    for (_, (p, q)) in factors.iter().enumerate().filter(|(l, _)| *l != i) {
        sums.push(0.0);
        for k in (0..sums.len()).rev() {
            sums[k] = q * sums[k] + if k > 0 { p * sums[k - 1] } else { 0.0 };
        }
    }
    // Over their number, a binomial coefficient.
    let (mut mean, mut count) = (0.0, 1.0);
    for (k, sum) in sums.iter().enumerate() {
        mean += sum / count;
        count *= (sums.len() - 1 - k) as f64 / (k + 1) as f64;
    }
    (factors[i].0 - factors[i].1) * mean / sums.len() as f64
}

fn near(got: &[f64], want: &[f64], tolerance: f64, what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (k, (got, want)) in got.iter().zip(want).enumerate() {
        assert!((got - want).abs() <= tolerance, "{what}: {got}, not {want}, at {k}");
    }
}

/// The rows with each feature where `column` says, of so many.
fn scattered<S>(
    rows: &[&[f64]],
    n_features: usize,
    column: impl Fn(usize) -> usize,
    scalar: impl Fn(f64) -> S,
) -> CsrArrays<S> {
    let (indptr, indices, values) = (vec![0], Vec::new(), Vec::new());
    let mut csr = CsrArrays { indptr, indices, values, n_features };
    for row in rows {
        for (j, x) in row.iter().enumerate().rev().filter(|(_, x)| **x != 0.0) {
            csr.indices.push(column(j) as i32);
            csr.values.push(scalar(*x));
        }
        csr.indptr.push(csr.values.len() as i32);
    }
    csr
}

/// Vectors that fill no group, fill one, and more; with a background of several steps, of one row, and without.
fn models() -> Vec<Model> {
    let sizes =
        [(1, 1, 1, 0), (3, 2, 2, 1), (16, 5, 1, 3), (33, 7, 3, 150), (20, 9, 1, 0), (9, 8, 4, 5)];
    let of = |(n, d, outputs, rows)| [0.3, 4.0].map(|gamma| Model::new(n, d, outputs, rows, gamma));
    sizes.into_iter().flat_map(of).collect()
}

#[test]
fn values_are_those_of_the_definition() {
    for model in models() {
        let (d, n) = (model.problem.d, model.problem.n);
        let what = format!("{} vectors, {d} features", model.n_vectors());
        let want = model.all_values(by_coalitions);
        near(&model.all_values(by_sizes), &want, 1e-14, "by sizes");
        let flat: Vec<f64> = model.background().concat();
        let background = model.background();
        let rows = Dense::new(&flat, background.len(), d).ok().map(Matrix::from);
        let rows = rows.filter(|_| !background.is_empty());
        let x = Matrix::from(model.problem.dense());
        near(&model.found(&x, rows.as_ref()), &want, 1e-14, &what);

        let all: Vec<&[f64]> = (0..n).map(|i| model.problem.row(i)).collect();
        // Many features, most of them always 0: values are 0 there.
        for (features, column) in
            [(d, (|j| j) as fn(usize) -> usize), (4099, |j| (17 + 2311 * j) % 4099)]
        {
            let csr = scattered(&all, features, column, |x| x);
            let absent = scattered(&background, features, column, |x| x);
            let absent = (!background.is_empty()).then(|| Matrix::from(absent.view()));
            let got = model.found(&csr.view().into(), absent.as_ref());
            let mut wide = vec![0.0; got.len()];
            let each = wide.chunks_mut(features * model.outputs);
            for (wide, want) in each.zip(want.chunks(d * model.outputs)) {
                for (j, want) in want.chunks(model.outputs).enumerate() {
                    wide[column(j) * model.outputs..][..model.outputs].copy_from_slice(want);
                }
            }
            near(&got, &wide, 1e-14, &format!("{what} of {features}"));
        }
        let single: Vec<f32> = model.problem.x.iter().map(|x| *x as f32).collect();
        let x = Matrix::from(Dense::new(&single, n, d).unwrap());
        let first = model.n_vectors() * d;
        let rows = Dense::new(&single[first..first + flat.len()], background.len(), d).ok();
        let rows = rows.filter(|_| !background.is_empty()).map(Matrix::from);
        near(&model.found(&x, rows.as_ref()), &want, 3e-6, &format!("{what}, single"));
    }
}

/// Of many features, with few nodes and with many.
#[test]
fn values_of_many_features_are_sums_over_sizes() {
    for (d, gamma) in [(40, 0.05), (40, 5.0), (150, 0.02), (150, 3.0), (600, 1e-3), (600, 0.5)] {
        for rows in [0, 2] {
            let mut model = Model::new(9, d, 2, rows, gamma);
            // As float32 has them, too.
            model.problem.x.iter_mut().for_each(|x| *x = f64::from(*x as f32));
            let background = model.background();
            let flat = background.concat();
            let absent = (rows > 0).then(|| Matrix::from(Dense::new(&flat, rows, d).unwrap()));
            let x = Matrix::from(model.problem.dense());
            // Some features: it takes O(d^2) for each.
            let some = |factors: &[(f64, f64)], i: usize| match i * 8 % d {
                0..8 => by_sizes(factors, i),
                _ => f64::NAN,
            };
            let i = model.rows().start;
            let want = model.values(model.problem.row(i), some);
            let found = |got: Vec<f64>| -> Vec<f64> {
                let pairs = got.into_iter().zip(&want);
                pairs.filter(|(_, want)| !want.is_nan()).map(|(got, _)| got).collect()
            };
            let w = model.expansion(&x);
            let got = Shapley::new(&w, absent.as_ref()).unwrap().values(&x, i..i + 1).unwrap();
            let got = found(got);
            let single: Vec<f32> = model.problem.x.iter().map(|x| *x as f32).collect();
            let flat: Vec<f32> = flat.iter().map(|x| *x as f32).collect();
            let absent = (rows > 0).then(|| Matrix::from(Dense::new(&flat, rows, d).unwrap()));
            let x = Matrix::from(Dense::new(&single, model.problem.n, d).unwrap());
            let w = model.expansion(&x);
            let less = Shapley::new(&w, absent.as_ref()).unwrap().values(&x, i..i + 1).unwrap();
            let less = found(less);
            let want: Vec<f64> = want.into_iter().filter(|want| !want.is_nan()).collect();
            let size = want.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
            // Products of so many factors carry as many roundings; values may be small, and are as exact then.
            near(&got, &want, 1e-15 * d as f64 * size, &format!("{d} features, {gamma}, {rows}"));
            let what = format!("{d} features, {gamma}, {rows}, single");
            // Factors below 1e-36 are lost.
            near(&less, &want, 1e-36 + 2e-7 * d as f64 * size, &what);
            assert!(size > 0.0 && want.len() >= 16);
        }
    }
}

#[test]
fn values_add_up_to_the_score() {
    for model in models() {
        let d = model.problem.d;
        let background = model.background();
        let flat = background.concat();
        let rows = (!flat.is_empty())
            .then(|| Matrix::from(Dense::new(&flat, background.len(), d).unwrap()));
        let got = model.found(&Matrix::from(model.problem.dense()), rows.as_ref());
        for o in 0..model.outputs {
            let base = match background.len() {
                0 => model.coefs[o..].iter().step_by(model.outputs).sum(),
                n => background.iter().map(|r| model.scores(r)[o]).sum::<f64>() / n as f64,
            };
            for (i, values) in model.rows().zip(got.chunks(d * model.outputs)) {
                let sum: f64 = values[o..].iter().step_by(model.outputs).sum();
                let score = model.scores(model.problem.row(i))[o];
                assert!((base + sum - score).abs() < 1e-13, "{base} + {sum}, not {score}");
            }
        }
    }
}

/// However rows and steps are divided.
#[test]
fn pieces_change_no_bit() {
    let model = Model::new(20, 6, 2, 150, 1.0);
    let x = Matrix::from(model.problem.dense());
    let flat = model.background().concat();
    let background = Matrix::from(Dense::new(&flat, 150, 6).unwrap());
    let w = model.expansion(&x);
    for rows in [Some(&background), None] {
        let shapley = Shapley::new(&w, rows).unwrap();
        let all = 0..model.problem.n;
        let want = shapley.values(&x, all.clone()).unwrap();
        let steps = shapley.steps();
        assert_eq!(steps, if rows.is_some() { 4 } else { 2 });
        assert!(all.len() > PANEL - 5);
        for (at_a_time, piece) in [(1, 1), (7, 2), (all.len(), 4)] {
            let each = shapley.values_of_a_row();
            let mut got = vec![0.0; want.len()];
            for first in all.clone().step_by(at_a_time) {
                let some = first..all.end.min(first + at_a_time);
                let out = &mut got[some.start * each..some.end * each];
                for step in (0..steps).step_by(piece) {
                    let piece = step..steps.min(step + piece);
                    shapley.add(&x, some.clone(), piece, out).unwrap();
                }
            }
            assert_eq!(got, want, "{at_a_time} rows, {piece} steps");
        }
    }
}

#[test]
#[cfg(feature = "rayon")]
fn threads_change_no_bit() {
    let model = Model::new(20, 6, 2, 150, 1.0);
    let x = Matrix::from(model.problem.dense());
    let w = model.expansion(&x);
    let flat = model.background().concat();
    let background = Matrix::from(Dense::new(&flat, 150, 6).unwrap());
    let work = || Shapley::new(&w, Some(&background)).unwrap().values(&x, 0..90).unwrap();
    let [one, three] = [1, 3].map(|threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(work)
    });
    assert_eq!(one, three);
}

/// Factors that are 0, vectors so far away that they add nothing, rows that are vectors.
#[test]
fn extremes_are_exact() {
    let values = |x: &[f64], z: &[f64], gamma: f64, absent: Option<&[f64]>| -> Vec<f64> {
        let d = x.len();
        let mut w = Expansion::new(Kernel::Rbf { gamma }, 1, d).unwrap();
        w.add(0, Dense::new(z, 1, d).unwrap().row(0), &[2.0]);
        let rows = absent.map(|rows| Matrix::from(Dense::new(rows, 1, d).unwrap()));
        let x = Matrix::from(Dense::new(x, 1, d).unwrap());
        Shapley::new(&w, rows.as_ref()).unwrap().values(&x, 0..1).unwrap()
    };
    // One factor of 0 alone, with others of 1: it is to blame.
    near(&values(&[1e200, 3.0], &[0.0, 3.0], 1.0, None), &[-2.0, 0.0], 1e-15, "a zero");
    near(&values(&[1e200, 1e9], &[0.0, 3.0], 1.0, None), &[-1.0, -1.0], 1e-15, "two zeros");
    assert_eq!(values(&[1.0, 2.0], &[1.0, 2.0], 1.0, None), [0.0, 0.0]);
    assert_eq!(values(&[1.0, 2.0], &[0.0, 2.5], 1.0, Some(&[1.0, 2.0])), [0.0, 0.0]);
    assert_eq!(values(&[1e150, 1e150], &[0.0, 0.0], 1.0, Some(&[-1e160, 1e170])), [0.0, 0.0]);
    let far = values(&[18.0, 10.0], &[0.0, 0.0], 1.0, Some(&[18.0, 10.5]));
    let k = (-324.0_f64).exp();
    let want = 2.0 * k * ((-100.0_f64).exp() - (-110.25_f64).exp());
    assert!(far[0] == 0.0 && (far[1] / want - 1.0).abs() < 1e-12, "{far:?}, {want}");
}

#[test]
fn linear_values_are_shares_of_the_score() {
    let problem = Problem::new(30, 4, 3);
    let x = Matrix::from(problem.dense());
    let weights: Vec<f64> = (0..12).map(|k| f64::from(k) - 5.5).collect();
    let background = Dense::new(&problem.x[40..60], 5, 4).unwrap().into();
    for rows in [None, Some(&background)] {
        let got = Shapley::linear(&weights, 4, rows).unwrap().values(&x, 3..30).unwrap();
        let mean = |j: usize| match rows {
            Some(_) => (0..5).map(|i| problem.x[40 + 4 * i + j]).sum::<f64>() / 5.0,
            None => 0.0,
        };
        let entry = |i: usize, k: usize| weights[k] * (problem.row(i)[k / 3] - mean(k / 3));
        let want: Vec<f64> =
            (3..30).flat_map(|i| (0..12).map(move |k| (i, k))).map(|(i, k)| entry(i, k)).collect();
        near(&got, &want, 1e-14, "linear");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let x = Matrix::from(Dense::new(&[1.0, 2.0, 3.0, f64::NAN], 2, 2).unwrap());
    let narrow = Matrix::from(Dense::new(&[1.0, 2.0], 2, 1).unwrap());
    let empty = Matrix::from(Dense::new(&[], 0, 2).unwrap());
    let bad = Csr::new(&[0, 1], &[2], &[1.0], 2).unwrap().into();
    let mut w = Expansion::new(Kernel::Rbf { gamma: 1.0 }, 1, 2).unwrap();
    // Without vectors rows are looked at, too.
    for round in 0..2 {
        let refused = |background| Shapley::new(&w, Some(background)).err().unwrap().to_string();
        assert!(refused(&x).contains("row 1, column 1 holds NaN"));
        assert_eq!(refused(&narrow), "X must have 2 features, got 1");
        assert_eq!(refused(&empty), "background must have at least one row, got 0");
        assert_eq!(refused(&bad), "X.indices must lie in 0..2, got 2");
        let shapley = Shapley::new(&w, None).unwrap();
        assert!(shapley.values(&x, 0..1).is_ok());
        assert!(matches!(
            shapley.values(&x, 0..2).unwrap_err().kind(),
            ErrorKind::NonFinite { .. }
        ));
        assert!(matches!(shapley.values(&bad, 0..1).unwrap_err().kind(), ErrorKind::Index { .. }));
        assert!(shapley.values(&narrow, 0..1).is_err());
        if round == 0 {
            w.add(0, x.row(0), &[1.0]);
        }
    }
    let poly = Expansion::<f64>::new(Kernel::Linear, 1, 2).unwrap();
    let error = Shapley::new(&poly, None).err().unwrap().to_string();
    assert!(error.starts_with("kernel must be Rbf, or Linear by its weights"), "{error}");
    let linear =
        |weights: &[f64]| -> Error { Shapley::linear(weights, 2, Some(&x)).err().unwrap() };
    assert!(linear(&[1.0]).to_string().contains("a multiple of n_features = 2"));
    assert!(linear(&[1.0, f64::INFINITY]).to_string().contains("finite everywhere"));
    assert!(linear(&[1.0, 2.0]).to_string().contains("row 1, column 1"));
    let large = Matrix::from(Dense::new(&[1e300, 2.0], 1, 2).unwrap());
    let error = Shapley::linear(&[1e10, 1.0], 2, None).unwrap().values(&large, 0..1).unwrap_err();
    assert!(error.to_string().contains("row 0 makes scores"), "{error}");
}
