//! Rows that are mapped: against plain loops, and against rows mapped before.

use pegasos::{
    Block, Budgeted, BudgetedState, Csr, Dense, Error, ErrorKind, Examples, Expansion, Fit,
    Hypothesis, Kernel, KernelProblem, Maintenance, Matrix, Metric, Params, Policy, Progress,
    Sampling, Scalar, Span, Trainer,
};

use crate::generated::{
    HINGE, Problem, Uniform, difference, dot, is_of_other_features, near, unsorted, wide,
};

pub fn mapped<S: Scalar>(
    metric: &Metric<S>,
    x: &Matrix<'_, S>,
    rows: std::ops::Range<usize>,
) -> Vec<f64> {
    let mut out = vec![S::from_f64(9.0); rows.len() * metric.dimension()];
    metric.map(x, rows, &mut out).unwrap();
    wide(&out)
}

/// A x of these rows, in plain loops.
fn product(a: &[f64], problem: &Problem, rows: std::ops::Range<usize>) -> Vec<f64> {
    let of = |i: usize| a.chunks(problem.d).map(move |a| dot(a, problem.row(i)));
    rows.flat_map(of).collect()
}

/// The matrix with these on its diagonal.
fn square_of(factors: &[f64]) -> Vec<f64> {
    let d = factors.len();
    (0..d * d).map(|k| if k / d == k % d { factors[k / d] } else { 0.0 }).collect()
}

/// Between -1 and 1, as f32 holds them.
fn random(n: usize, seed: u64) -> Vec<f64> {
    let mut random = Uniform::new(seed);
    (0..n).map(|_| f64::from(random.signed() as f32)).collect()
}

/// Rows of all layouts, mapped, against plain loops in f64.
fn maps(a: &[f64], diagonal: bool, problem: &Problem, what: &str) {
    let (n, d) = (problem.n, problem.d);
    let all = if diagonal { square_of(a) } else { a.to_vec() };
    let dimension = all.len() / d;
    let csr = unsorted(problem, |x| x);
    let long = |values: &[i32]| values.iter().map(|j| i64::from(*j)).collect::<Vec<i64>>();
    let (indptr, indices) = (long(&csr.indptr), long(&csr.indices));
    let long = Csr::new(&indptr, &indices, &csr.values, d).unwrap();
    let metric = if diagonal { Metric::diagonal(a).unwrap() } else { Metric::full(a, d).unwrap() };
    assert_eq!(metric.dimension(), dimension, "{what}");
    for x in [Matrix::from(problem.dense()), csr.view().into(), long.into()] {
        for rows in [0..n, 3..n - 1, 5..6, 5..5] {
            let want = product(&all, problem, rows.clone());
            near(&mapped(&metric, &x, rows), &want, 1e-14, what);
        }
    }

    let single = problem.single();
    let csr = unsorted(problem, |x| x as f32);
    let metric = if diagonal { Metric::diagonal(a).unwrap() } else { Metric::full(a, d).unwrap() };
    let dense = Dense::new(&single, n, d).unwrap();
    for x in [Matrix::from(dense), csr.view().into()] {
        let want = product(&all, problem, 3..n);
        near(&mapped(&metric, &x, 3..n), &want, 1e-6, what);
    }
}

#[test]
fn full_metrics_are_matrix_products() {
    for d in [1, 5, 32, 33] {
        let problem = Problem::new(60, d, d as u64).rounded();
        for dimension in [1, 2, 31, 32, 33, 70] {
            let a = random(dimension * d, dimension as u64);
            maps(&a, false, &problem, &format!("{dimension} x {d}"));
        }
    }
}

#[test]
fn diagonal_metrics_are_factors() {
    for d in [1, 5, 32, 33] {
        let problem = Problem::new(60, d, d as u64).rounded();
        let mut factors = random(d, 7);
        maps(&factors, true, &problem, &format!("{d} factors"));
        factors[d / 2] = 0.0;
        maps(&factors, true, &problem, &format!("{d} factors, one of them 0"));
    }
}

fn stored_are_those_of_rows<S: Scalar>(scalar: impl Fn(f64) -> S) {
    let (n, d) = (40, 9);
    let problem = Problem::new(n, d, 2);
    let metric = Metric::<S>::diagonal(&random(d, 3)).unwrap();
    let csr = unsorted(&problem, scalar);
    let x = Matrix::from(csr.view());
    let whole = mapped(&metric, &x, 0..n);
    for rows in [0..n, 7..30, 4..4] {
        let span = csr.indptr[rows.start] as usize..csr.indptr[rows.end] as usize;
        let mut stored = vec![S::from_f64(9.0); span.len()];
        metric.map_stored(&x, rows.clone(), &mut stored).unwrap();
        let mut values = csr.values.clone();
        values[span].copy_from_slice(&stored);
        let after = Csr::new(&csr.indptr, &csr.indices, &values, d).unwrap();
        let mut sums = vec![0.0; rows.len() * d];
        for (i, sums) in rows.clone().zip(sums.chunks_mut(d)) {
            after.row(i).for_each(|j, z| sums[j] += z);
        }
        // To the last bit, as halves of numbers are.
        assert_eq!(sums, &whole[rows.start * d..rows.end * d]);
    }
}

#[test]
fn stored_features_are_mapped_where_they_stand() {
    stored_are_those_of_rows::<f64>(|x| x);
    stored_are_those_of_rows::<f32>(|x| x as f32);
}

#[test]
fn bad_metrics_are_refused() {
    fn refused<S: Scalar>(metric: Result<Metric<S>, Error>) -> Error {
        metric.expect_err("a refusal")
    }
    for error in [
        refused::<f64>(Metric::full(&[], 2)),
        refused::<f64>(Metric::full(&[], 0)),
        refused::<f64>(Metric::full(&[1.0], 0)),
        refused::<f64>(Metric::full(&[1.0; 3], 2)),
        refused::<f64>(Metric::full(&[1.0], 2)),
        refused::<f64>(Metric::diagonal(&[])),
        refused::<f32>(Metric::diagonal(&[])),
    ] {
        assert!(matches!(error.kind(), ErrorKind::Shape { name: "metric", .. }), "{error}");
        assert!(error.to_string().starts_with("metric must have a multiple"), "{error}");
    }
    for (bad, text) in [(f64::NAN, "NaN"), (f64::INFINITY, "inf"), (f64::NEG_INFINITY, "-inf")] {
        let values = [1.0, 2.0, bad, 4.0];
        for error in [
            refused::<f64>(Metric::full(&values, 2)),
            refused::<f64>(Metric::diagonal(&values)),
            refused::<f32>(Metric::full(&values, 2)),
            refused::<f32>(Metric::diagonal(&values)),
        ] {
            let kind = error.kind();
            assert!(matches!(kind, ErrorKind::Parameter { name: "metric", .. }), "{kind:?}");
            let want = format!("metric must be finite everywhere, got {text}");
            assert_eq!(error.to_string(), want);
        }
    }
    // Finite only where there is room for it.
    let large = [1.0, -1e300];
    for error in [refused::<f32>(Metric::full(&large, 1)), refused::<f32>(Metric::diagonal(&large))]
    {
        assert!(matches!(error.kind(), ErrorKind::Parameter { name: "metric", .. }), "{error}");
        assert!(error.to_string().ends_with("got -1e300"), "{error}");
    }
    assert!(Metric::<f64>::full(&large, 1).is_ok() && Metric::<f64>::diagonal(&large).is_ok());
}

/// What mapping these rows is refused for, by a full metric and by a diagonal one; and their stored features.
fn refusals_to_map<S: Scalar>(
    values: &[f64],
    x: &Matrix<'_, S>,
    rows: std::ops::Range<usize>,
) -> Vec<Error> {
    let diagonal = Metric::diagonal(values).unwrap();
    let mut metrics = vec![diagonal.clone()];
    metrics.push(Metric::full(&square_of(values), values.len()).unwrap());
    let mut out = vec![S::default(); 1000];
    let length = rows.len() * values.len();
    let map = |metric: &Metric<S>| metric.map(x, rows.clone(), &mut out[..length]).unwrap_err();
    let mut errors: Vec<Error> = metrics.iter().map(map).collect();
    if x.is_sparse() {
        errors.push(diagonal.map_stored(x, rows, &mut out).unwrap_err());
    }
    errors
}

#[test]
fn bad_rows_are_not_mapped() {
    let n = 40;
    let problem = Problem::new(n, 3, 4);
    for d in [2, 4] {
        let csr = problem.csr();
        for x in [Matrix::from(problem.dense()), csr.view().into()] {
            for error in refusals_to_map(&vec![0.5; d], &x, 3..5) {
                is_of_other_features(&error, d, 3);
            }
        }
    }
    for (bad, text) in [
        (f64::NAN, "row 35, column 1 holds NaN"),
        (f64::INFINITY, "row 35, column 1 holds inf"),
        (f64::NEG_INFINITY, "row 35, column 1 holds -inf"),
    ] {
        let mut problem = problem.clone();
        problem.x[35 * 3 + 1] = bad;
        let csr = unsorted(&problem, |x| x);
        for x in [Matrix::from(problem.dense()), csr.view().into()] {
            // Factors of 0 hide nothing.
            for factors in [[0.5, 0.5, 0.5], [0.0; 3]] {
                for error in refusals_to_map(&factors, &x, 2..n) {
                    let kind = error.kind();
                    assert!(matches!(kind, ErrorKind::NonFinite { name: "X", .. }), "{kind:?}");
                    assert!(error.to_string().starts_with("X must be finite"), "{error}");
                    assert!(error.to_string().ends_with(text), "{error}");
                }
            }
        }
    }
    for (outside, text) in [(3, "got 3"), (-2, "got -2")] {
        let mut csr = unsorted(&problem, |x| x);
        csr.indices[csr.indptr[35] as usize] = outside;
        let errors = refusals_to_map(&[0.5; 3], &csr.view().into(), 2..n);
        assert_eq!(errors.len(), 3);
        for error in errors {
            let kind = error.kind();
            assert!(
                matches!(kind, ErrorKind::Index { name: "X.indices", bound: 3, .. }),
                "{kind:?}"
            );
            assert!(error.to_string().starts_with("X.indices must"), "{error}");
            assert!(error.to_string().ends_with(text), "{error}");
        }
    }
    let (one, large) = ([0, 1, 2], [1.0_f32, 1e30]);
    let csr = Csr::new(&one, &[0, 0], &large, 1).unwrap();
    for x in [Matrix::from(Dense::new(&large, 2, 1).unwrap()), csr.into()] {
        for error in refusals_to_map(&[1e30], &x, 0..2) {
            assert!(matches!(error.kind(), ErrorKind::NonFinite { name: "X", .. }), "{error}");
            assert!(error.to_string().contains("row 1 makes"), "{error}");
        }
    }
}

/// Batches of any size, records of any distance, and rows that are not as many as was said.
#[test]
fn epochs_of_mapped_rows_are_as_long_as_they_are() {
    let problem = Problem::new(40, 3, 5);
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    let epoch = |batch: usize, every: u64, n_rows: usize| {
        let kernel = Kernel::Rbf { gamma: 1.0 };
        let w = Budgeted::<f64>::new(kernel, 1, 3, Some(5), Maintenance::Merge).unwrap();
        let params = Params { block: Block::Mean(batch), lambda: 0.1, ..Params::default() };
        let mut problem = KernelProblem::from(Trainer::new(w, HINGE, params).unwrap());
        problem.record(Some(every));
        let metric = Metric::diagonal(&[1.0, 2.0, 3.0]).unwrap();
        problem.map_by(Some(metric), n_rows).unwrap();
        let mut fit = Fit::new(problem, Policy { max_epochs: 1, tol: None, ..Policy::default() });
        fit.run(&data).map(|event| (event.loss, fit.problem().records().len()))
    };
    let whole = epoch(40, 40, 40).unwrap();
    assert_eq!(whole.1, 1);
    for batch in [41, 1 << 40, usize::MAX] {
        assert_eq!(epoch(batch, 0, 40).unwrap(), (whole.0, 0));
    }
    for n_rows in [0, 39, 41] {
        let error = epoch(1, 1, n_rows).unwrap_err().to_string();
        let want = format!("X must have {n_rows} rows, as there are to be mapped, got 40");
        assert_eq!(error, want);
    }
}

#[test]
fn only_diagonal_metrics_map_what_is_stored() {
    let problem = Problem::new(5, 3, 4);
    let csr = problem.csr();
    let metric = Metric::full(&square_of(&[1.0; 3]), 3).unwrap();
    let mut out = vec![9.0; csr.values.len()];
    let error = metric.map_stored(&csr.view().into(), 0..5, &mut out).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Parameter { name: "metric", .. }), "{error}");
    assert!(error.to_string().starts_with("metric must be diagonal"), "{error}");
    assert!(out.iter().all(|out| *out == 9.0));
}

#[test]
fn dense_rows_have_no_stored_features() {
    let x = Matrix::from(Dense::new(&[1.0, 2.0], 1, 2).unwrap());
    let error = Metric::diagonal(&[1.0, 2.0]).unwrap().map_stored(&x, 0..1, &mut [0.0; 2]);
    let error = error.unwrap_err();
    assert!(error.to_string().starts_with("X must be sparse"), "{error}");
}

/// Rows that are mapped when they are needed are those that were mapped before: of every machine on a budget, whatever
/// pieces its epochs come in.
#[test]
fn windows_change_no_bit() {
    let (n, d) = (2500, 5);
    let problem = Problem::new(n, d, 8);
    let csr = problem.csr();
    for (dimension, x) in [(3, Matrix::from(problem.dense())), (8, csr.view().into())] {
        let metric = Metric::full(&random(dimension * d, 4), d).unwrap();
        let z = mapped(&metric, &x, 0..n);
        let z = Dense::new(&z, n, dimension).unwrap();
        let plain = Examples::new(x, &problem.y, Some(&problem.weight)).unwrap();
        let before = Examples::new(z, &problem.y, Some(&problem.weight)).unwrap();
        for batch in [1, 7] {
            let make = || {
                let kernel = Kernel::Rbf { gamma: 0.7 };
                let w = Budgeted::new(kernel, 1, dimension, Some(20), Maintenance::Merge).unwrap();
                let params =
                    Params { lambda: 0.01, block: Block::Mean(batch), ..Params::default() };
                KernelProblem::from(Trainer::new(w, HINGE, params).unwrap())
            };
            let policy = Policy { max_epochs: 2, ..Policy::default() };
            let (mut want, mut late) = (Fit::new(make(), policy), make());
            late.map_by(Some(metric.clone()), n).unwrap();
            let mut got = Fit::new(late, policy);
            let pieces = [usize::MAX, 33, 100_000];
            for (fit, data) in [(&mut want, &before), (&mut got, &plain)] {
                for size in pieces.iter().cycle() {
                    if let Progress::Over(_) = fit.advance(data, *size).unwrap() {
                        break;
                    }
                }
            }
            let state = |fit: &Fit<_>| -> BudgetedState {
                let problem: &KernelProblem<Budgeted<f64>, _> = fit.problem();
                problem.trainer().hypothesis().state()
            };
            assert_eq!(state(&got), state(&want), "dimension {dimension}, batches of {batch}");
        }
    }
    let w = Expansion::<f64>::new(Kernel::Rbf { gamma: 0.7 }, 1, 3).unwrap();
    let mut exact = KernelProblem::from(Trainer::new(w, HINGE, Params::default()).unwrap());
    let metric = Metric::full(&random(3 * d, 4), d).unwrap();
    let error = exact.map_by(Some(metric), n).unwrap_err();
    assert!(error.to_string().starts_with("metric must be none without a budget"), "{error}");
}

/// And so are the features of a span.
#[test]
fn a_span_behind_a_metric() {
    let (n, d) = (60, 5);
    let problem = Problem::new(n, d, 8);
    let (kernel, all) = (Kernel::Rbf { gamma: 0.7 }, (0..n).collect::<Vec<usize>>());
    let x = Matrix::from(problem.dense());
    for dimension in [3, 40] {
        let metric = Metric::full(&random(dimension * d, 4), d).unwrap();
        let z = mapped(&metric, &x, 0..n);
        let z = Matrix::from(Dense::new(&z, n, dimension).unwrap());
        let span = Span::new(kernel, &z, &[1, 5, 9, 33]).unwrap();
        let mut want = vec![0.0; n * span.dimension()];
        span.features(&z, &all, &mut want);
        assert!(span.check_features(dimension).is_ok());
        let behind = span.clone().behind(metric).unwrap();
        let mut got = vec![0.0; want.len()];
        behind.features(&x, &all, &mut got);
        assert_eq!(got, want);
        assert!(behind.check_features(d).is_ok() && behind.check_features(dimension).is_err());
        let error = span.behind(Metric::full(&random(7 * d, 4), d).unwrap()).unwrap_err();
        assert!(error.to_string().contains(&format!("must have {dimension} features")), "{error}");
    }
}

/// `sum_s coef_s exp(-gamma (x - z_s)' A'A (x - z_s))` of the plain rows, of what was trained on the mapped ones.
fn scores_are_of_the_metric(a: &[f64], problem: &Problem, x: &Matrix<'_, f64>) {
    let (n, d, gamma) = (problem.n, problem.d, 0.7);
    let data = Examples::new(*x, &problem.y, None).unwrap();
    let new = if x.is_sparse() { Expansion::sparse } else { Expansion::new };
    let mut w = new(Kernel::Rbf { gamma }, 1, x.n_features()).unwrap();
    w.number_rows(n).unwrap();
    let params = Params { lambda: 0.01, ..Params::default() };
    let mut trainer = Trainer::new(w, HINGE, params).unwrap();
    trainer.run(&data, Sampling::Shuffle.epoch(n, 1, 0).unwrap()).unwrap();
    let w = trainer.hypothesis();
    assert!(w.n_vectors() > 10);

    let m: Vec<f64> = (0..d * d).map(|k| a.chunks(d).map(|a| a[k / d] * a[k % d]).sum()).collect();
    let (mut got, mut want) = (Vec::new(), Vec::new());
    for i in 0..n {
        let mut sum = 0.0;
        for (slot, s) in w.rows().unwrap().iter().enumerate() {
            let apart = difference(problem.row(i), problem.row(*s as usize));
            let turned: Vec<f64> = m.chunks(d).map(|m| dot(m, &apart)).collect();
            let mut coef = [0.0];
            w.coef(slot, &mut coef);
            sum += coef[0] * (-gamma * dot(&apart, &turned)).exp();
        }
        want.push(sum);
        let mut score = [0.0];
        w.score(x.row(i), &mut score);
        got.push(score[0]);
    }
    near(&got, &want, 1e-12, &format!("sparse: {}", x.is_sparse()));
}

#[test]
fn a_machine_on_mapped_rows_has_the_metric_in_its_kernel() {
    let (n, d) = (80, 6);
    let problem = Problem::new(n, d, 5);
    let dense = Matrix::from(problem.dense());
    for dimension in [3, d, 40] {
        let a = random(dimension * d, 9);
        let z = mapped(&Metric::full(&a, d).unwrap(), &dense, 0..n);
        scores_are_of_the_metric(&a, &problem, &Dense::new(&z, n, dimension).unwrap().into());
    }
    let factors = random(d, 10);
    let metric = Metric::diagonal(&factors).unwrap();
    let z = mapped(&metric, &dense, 0..n);
    let z = Dense::new(&z, n, d).unwrap();
    scores_are_of_the_metric(&square_of(&factors), &problem, &z.into());
    let csr = unsorted(&problem, |x| x);
    let mut stored = vec![0.0; csr.values.len()];
    metric.map_stored(&csr.view().into(), 0..n, &mut stored).unwrap();
    let z = Csr::new(&csr.indptr, &csr.indices, &stored, d).unwrap();
    scores_are_of_the_metric(&square_of(&factors), &problem, &z.into());
}
