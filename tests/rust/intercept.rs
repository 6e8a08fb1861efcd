//! Intercepts. One that is not regularised: the certificate is one, and closes; what has no such thing is refused. One of
//! a kernel machine: it costs scores no digits.

use pegasos::{
    AnyLoss, Binary, Dense, DualAscent, Error, Examples, Expansion, Fit, Hypothesis, Kernel,
    KernelAscent, Linear, LinearProblems, Loss, OneVsRest, Params, Policy, Solver, Trainer,
};

use crate::generated::joint;

const LOSSES: [AnyLoss; 3] = [AnyLoss::Hinge, AnyLoss::SquaredHinge, AnyLoss::Logistic];

/// Rows of d features and classes 0 and 1, the latter for one row in five.
fn rows(n: usize, d: usize, shift: f64) -> (Vec<f64>, Vec<u32>) {
    let mut state = 3_u64;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 11) as f64 / (1_u64 << 53) as f64 - 0.5
    };
    let x: Vec<f64> = (0..n * d).map(|_| uniform() + shift).collect();
    let y = (0..n).map(|i| u32::from(x[i * d] - shift + 0.3 * uniform() > 0.3)).collect();
    (x, y)
}

/// The objective at weights and an intercept that is not in the norm.
fn objective(
    loss: AnyLoss,
    lambda: f64,
    (x, y): (&[f64], &[u32]),
    w: &[f64],
    intercept: f64,
) -> f64 {
    let loss = Binary { loss, positive: 1 };
    let mean = x.chunks(w.len()).zip(y).map(|(x, &y)| {
        let score = x.iter().zip(w).map(|(x, w)| x * w).sum::<f64>() + intercept;
        loss.value_and_coef(&[score], y, &mut [0.0])
    });
    lambda / 2.0 * w.iter().map(|w| w * w).sum::<f64>() + mean.sum::<f64>() / y.len() as f64
}

#[test]
fn the_gap_closes_and_is_a_bound() {
    for (loss, d, shift) in LOSSES.iter().flat_map(|&loss| {
        [(4, 0.0), (4, 3.0), (300, 0.0), (300, 1e7)].map(|(d, shift)| (loss, d, shift))
    }) {
        let (x, y) = rows(120, d, shift);
        let data = Examples::new(Dense::new(&x, 120, d).unwrap(), &y, None).unwrap();
        let lambda = 0.02;
        let of = Binary { loss, positive: 1 };
        let mut dual = DualAscent::with_free_intercept(of, lambda, &data).unwrap();
        let mut bounds = Vec::new();
        for tol in [0.5, 0.1, 1e-2, 1e-5] {
            let certificate = dual.solve(&data, tol, 3000, 0).unwrap();
            assert!(certificate.relative_gap() <= tol, "{loss:?} {d} {shift}: {certificate:?}");
            assert!(certificate.gap() >= -1e-12);
            // About the weights that are handed out.
            let model = dual.result::<f64>();
            let (w, b) = (model.weights(), model.intercepts()[0]);
            let primal = objective(loss, lambda, (&x, &y), &w, b);
            assert!((primal - certificate.primal).abs() <= 1e-7 * primal);
            // No other point is below the bounds.
            bounds.push(certificate.dual);
            assert!(bounds.iter().all(|bound| *bound <= primal * (1.0 + 1e-9)));
            assert!(dual.dual_value(&data) <= primal);
        }
    }
}

#[test]
fn several_scores_are_as_many_problems() {
    let (x, _) = rows(150, 5, 1.0);
    let y: Vec<u32> = (0..150).map(|i| (3.0 * (x[i * 5] - 0.5)).clamp(0.0, 2.0) as u32).collect();
    let data = Examples::new(Dense::new(&x, 150, 5).unwrap(), &y, None).unwrap();
    for loss in LOSSES {
        let all = OneVsRest { loss, positives: vec![0, 1, 2] };
        let mut all = DualAscent::with_free_intercept(all, 0.05, &data).unwrap();
        let together = all.solve(&data, 1e-6, 5000, 0).unwrap();
        let mut apart = 0.0;
        for positive in 0..3 {
            let of = Binary { loss, positive };
            let mut dual = DualAscent::with_free_intercept(of, 0.05, &data).unwrap();
            apart += dual.solve(&data, 1e-6, 5000, 0).unwrap().primal;
        }
        assert!(together.relative_gap() <= 1e-6);
        assert!((together.primal - apart).abs() <= 2e-6 * apart, "{loss:?}");
    }
}

#[test]
fn leaps_come_nearer() {
    // Features of very different scales.
    let (mut x, y) = rows(200, 4, 2.0);
    for row in x.chunks_mut(4) {
        row.iter_mut().zip([1.0, 1e3, 1e-3, 1e5]).for_each(|(x, scale)| *x *= scale);
    }
    let data = Examples::new(Dense::new(&x, 200, 4).unwrap(), &y, None).unwrap();
    for loss in LOSSES {
        let of = Binary { loss, positive: 1 };
        let mut dual = DualAscent::with_free_intercept(of, 1e-3, &data).unwrap();
        dual.solve(&data, 1e-3, 3, 0).unwrap();
        let before = dual.dual_value(&data);
        assert!(dual.leap(&data, 1e-4).unwrap());
        assert!(dual.dual_value(&data) > before);
        let certificate = dual.solve(&data, 1e-2, 100, 0).unwrap();
        assert!(certificate.relative_gap() <= 1e-2, "{loss:?}: {certificate:?}");
    }
}

#[test]
fn a_fit_is_dual_ascent() {
    let (x, y) = rows(400, 6, 5.0);
    let data = Examples::new(Dense::new(&x, 400, 6).unwrap(), &y, None).unwrap();
    let problem = || {
        let loss = Binary { loss: AnyLoss::Hinge, positive: 1 };
        let params = Params { lambda: 0.01, ..Params::default() };
        let trainer = Trainer::new(Linear::new(1, 6, 1.0).unwrap(), loss, params).unwrap();
        LinearProblems::from(trainer).with_free_intercept()
    };
    assert!(problem().has_free_intercept());
    let mut fit = Fit::new(problem(), Policy { tol: Some(1e-4), ..Policy::default() });
    let event = fit.run(&data).unwrap();
    assert!(event.certificate.relative_gap() <= 1e-4);
    let w = fit.into_problem().result().unwrap();
    let mut score = [0.0];
    w.score(data.rows().row(0), &mut score);
    let primal = objective(AnyLoss::Hinge, 0.01, (&x, &y), &w.weights(), w.intercepts()[0]);
    assert!((primal - event.certificate.primal).abs() < 1e-9);

    let policy = Policy { solver: Solver::Pegasos, ..Policy::default() };
    let error = Fit::new(problem(), policy).run(&data).unwrap_err().to_string();
    assert!(error.starts_with("solver must be \"dual\" or \"auto\""), "{error}");
}

/// Without a constant feature there is no intercept to leave free.
#[test]
fn a_fit_without_an_intercept_is_refused() {
    let (x, y) = rows(60, 3, 0.0);
    let data = Examples::new(Dense::new(&x, 60, 3).unwrap(), &y, None).unwrap();
    let new = |constant| {
        let loss = Binary { loss: AnyLoss::Hinge, positive: 1 };
        let w = Linear::<f64>::new(1, 3, constant).unwrap();
        Trainer::new(w, loss, Params { lambda: 0.01, ..Params::default() }).unwrap()
    };
    for trainers in [vec![new(0.0)], vec![new(1.0), new(0.0)]] {
        for solver in [Solver::Dual, Solver::Auto] {
            let problems = LinearProblems::new(trainers.clone()).with_free_intercept();
            assert!(format!("{problems:?}").starts_with("LinearProblems"));
            let error = Fit::new(problems, Policy { solver, ..Policy::default() }).run(&data);
            let error = error.unwrap_err().to_string();
            assert!(error.starts_with("constant must be > 0 where the intercept"), "{error}");
        }
    }
}

#[test]
fn what_has_none_is_refused() {
    let (x, y) = rows(60, 3, 0.0);
    let data = Examples::new(Dense::new(&x, 60, 3).unwrap(), &y, None).unwrap();
    let joint = joint(3);
    let error = DualAscent::with_free_intercept(joint, 0.1, &data).unwrap_err().to_string();
    assert!(error.starts_with("multi_class must be one against the rest"), "{error}");

    let loss = Binary { loss: AnyLoss::Hinge, positive: 1 };
    let weight: Vec<f64> = y.iter().map(|&y| f64::from(1 - y)).collect();
    let of_one = Examples::new(Dense::new(&x, 60, 3).unwrap(), &y, Some(&weight)).unwrap();
    let error = DualAscent::with_free_intercept(loss, 0.1, &of_one).unwrap_err().to_string();
    assert!(error.starts_with("sample_weight must be > 0 for an example of each class"), "{error}");

    let mut bad = x.clone();
    bad[40] = f64::NAN;
    let data = Examples::new(Dense::new(&bad, 60, 3).unwrap(), &y, None).unwrap();
    let error = DualAscent::with_free_intercept(loss, 0.1, &data).unwrap_err().to_string();
    assert!(error.contains("row 13, column 1"), "{error}");
}

/// Coefficients of both signs around rows that are near each other, whose kernel values and intercepts cancel.
#[test]
fn an_intercept_of_kernels_costs_no_digits() {
    let (gamma, constant, n, d) = (0.05, 3.0, 3000, 6);
    let x: Vec<f32> = rows(n, d, 0.0).0.iter().map(|&x| x as f32).collect();
    let y: Vec<u32> = (0..n).map(|i| u32::from(i % 2 == 0)).collect();
    let dense = Dense::new(&x, n, d).unwrap();
    let (data, numbers): (_, Vec<usize>) =
        (Examples::new(dense, &y, None).unwrap(), (0..n).collect());
    let w = Expansion::<f32>::new(Kernel::Rbf { gamma }, 1, d).unwrap();
    let loss = Binary { loss: AnyLoss::Hinge, positive: 1 };
    let params = Params { lambda: 1e-4, ..Params::default() };
    let mut trainer = Trainer::new(w.with_constant(constant).unwrap(), loss, params).unwrap();
    trainer.run(&data, 0..n).unwrap();
    let w = trainer.hypothesis();
    let vectors: Vec<(Vec<f32>, f64)> = (0..w.n_vectors())
        .map(|slot| {
            let (mut z, mut coef) = (vec![0.0; d], [0.0]);
            w.vector(slot, &mut z);
            w.coef(slot, &mut coef);
            (z, coef[0])
        })
        .collect();
    let size: f64 = vectors.iter().map(|(_, coef)| coef.abs()).sum();
    let (mut all, mut one) = (vec![0.0; n], [0.0]);
    w.scores_side_by_side(data.rows(), &numbers, &mut all);
    for i in 0..n {
        let row = &x[i * d..(i + 1) * d];
        let exact: f64 = vectors
            .iter()
            .map(|(z, coef)| {
                let squares = row.iter().zip(z).map(|(x, z)| f64::from(x - z).powi(2));
                coef * ((-gamma * squares.sum::<f64>()).exp() + constant * constant)
            })
            .sum();
        w.score(dense.row(i), &mut one);
        for score in [all[i], one[0]] {
            assert!((score - exact).abs() <= 4e-8 * size, "{score}, not {exact} (of {size})");
        }
    }
}

/// Scores that are there know of no intercept.
#[test]
fn an_ascent_that_has_begun_gets_no_constant() -> Result<(), Error> {
    let x: Vec<f64> = (0..12).map(f64::from).collect();
    let y: Vec<u32> = (0..12).map(|i| i % 2).collect();
    let data = Examples::new(Dense::new(&x, 12, 1)?, &y, None)?;
    let loss = Binary { loss: AnyLoss::Hinge, positive: 1 };
    let mut ascent = KernelAscent::new(Kernel::Rbf { gamma: 1.0 }, loss, 1e-2, &data, 1 << 20)?;
    ascent = ascent.with_constant(2.0)?;
    ascent.solve(&data, 1e-3, 100)?;
    let refused = ascent.with_constant(3.0).unwrap_err().to_string();
    assert!(refused.contains("constant") && refused.contains("before the first step"), "{refused}");
    Ok(())
}
