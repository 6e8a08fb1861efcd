//! Certificates of what the loop has reached, by its ledger: they may claim no more than the truth.

use pegasos::{
    AnyLoss, Average, Binary, Block, Certificate, Dense, DualAscent, Error, Examples, Hypothesis,
    Kernel, KernelAscent, Loss, Params, Sampling, Scalar, Shards, Trainer,
};

use crate::dual::{minimum, minimum_of_classes};
use crate::generated::{CLASSES, HINGE, Problem, add, dot, joint, sharded_epochs, sign, trainer};
use crate::kernels::{compositions, epochs, expansion, kernels};

#[test]
fn a_certificate_claims_no_more_than_the_truth() {
    fn law(loss: impl Loss + Clone, problem: &Problem, lambda: f64, best: f64) {
        let x = problem.single();
        let (y, weight) = (&problem.y, Some(&problem.weight[..]));
        let dense = Examples::new(problem.dense(), y, weight).unwrap();
        let float = Examples::new(Dense::new(&x, 60, 5).unwrap(), y, weight).unwrap();
        let base = Params { lambda, ..Params::default() };
        let variants = [
            base,
            Params { block: Block::Mean(7), ..base },
            Params { block: Block::Delayed(5), ..base },
            Params { average: Average::Polynomial, ..base },
            Params { t0: 30.0, ..base },
        ];
        for params in variants {
            for sampling in
                [Sampling::Shuffle, Sampling::Blocks, Sampling::Storage, Sampling::Replacement]
            {
                let last = check(loss.clone(), &dense, params, sampling, best, 1e-10);
                check(loss.clone(), &float, params, sampling, best, 1e-6);
                if sampling == Sampling::Shuffle && params.t0 == 0.0 {
                    assert!(last.relative_gap() < 0.03, "{params:?}: {last:?}");
                }
            }
        }
    }

    fn check<S: Scalar>(
        loss: impl Loss,
        data: &Examples<'_, S>,
        params: Params,
        sampling: Sampling,
        best: f64,
        slack: f64,
    ) -> Certificate {
        let mut trainer = trainer::<S, _>(loss, 5, params);
        trainer.keep_ledger(60);
        let mut certificate = None;
        for epoch in 0..200 {
            trainer.run(data, sampling.epoch(60, 4, epoch).unwrap()).unwrap();
            if epoch.is_power_of_two() || epoch == 199 {
                let now = trainer.certificate(data).unwrap();
                assert!(now.dual <= best + slack, "{params:?} {sampling:?}: {now:?}, {best}");
                assert!(now.primal >= best - slack, "{params:?} {sampling:?}: {now:?}, {best}");
                // To first order in what f32, the ledger's too, has rounded away.
                let value = trainer.dual_value(data).unwrap();
                let near = (value - now.dual).abs() < 1e-5 * (1.0 + now.dual.abs());
                assert!(near, "{params:?} {sampling:?}: {now:?}, {value}");
                certificate = Some(now);
            }
        }
        certificate.unwrap()
    }

    for (weighted, lambda) in [(false, 0.02), (true, 0.2)] {
        let some = |p: Problem| if weighted { p } else { p.unweighted() };
        let problem = some(Problem::new(60, 5, 8));
        law(HINGE, &problem, lambda, minimum(&problem, AnyLoss::Hinge, lambda));
        let problem = some(Problem::of_classes(60, 5, 3, 8));
        law(CLASSES, &problem, lambda, minimum_of_classes(&problem, 3, lambda));
    }
}

/// D of the dual point that a ledger of hinge violations is, every sum written out.
fn dual_of(ledger: &pegasos::Ledger, problem: &Problem, lambda: f64, s: f64) -> f64 {
    let n = problem.n as f64;
    let mut alpha: Vec<f64> =
        (0..problem.n).map(|i| n / s * f64::from(ledger.sums(i)[0]) * sign(problem.y[i])).collect();
    let excess = alpha.iter().zip(&problem.weight).map(|(a, s)| a / s).fold(1.0, f64::max);
    let mut w = vec![0.0; problem.d + 1];
    for (i, alpha) in alpha.iter_mut().enumerate() {
        *alpha /= excess;
        add(&mut w, *alpha * sign(problem.y[i]) / (lambda * n), &problem.features(i, 1.0));
    }
    alpha.iter().sum::<f64>() / n - lambda / 2.0 * dot(&w, &w)
}

/// Whatever the shards' sizes, the same in every epoch or not, and whatever came before them.
#[test]
fn a_certificate_of_shards_claims_no_more_than_its_ledger() {
    let problem = Problem::new(60, 5, 26).unweighted();
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    let best = minimum(&problem, AnyLoss::Hinge, 0.05);
    let base = Params { lambda: 0.05, ..Params::default() };
    let all: [&[&[usize]]; 4] = [
        &[&[30, 30]],
        &[&[11, 20, 29]],
        &[&[11, 20, 29], &[30, 30], &[7, 53], &[1, 59]],
        &[&[60], &[1, 2, 57]],
    ];
    for params in [
        base,
        Params { block: Block::Mean(4), ..base },
        Params { t0: 7.0, ..base },
        Params { average: Average::Uniform, ..base },
    ] {
        for sizes in all {
            for first in [0, 1, 10] {
                let mut trainer = trainer::<f64, _>(HINGE, 5, params);
                trainer.keep_ledger(60);
                trainer.run(&data, 0..first).unwrap();
                let unequal = sizes.iter().any(|sizes| sizes.len() > 1);
                for (epoch, sizes) in (0..12).zip(sizes.iter().cycle()) {
                    sharded_epochs(&mut trainer, &data, sizes, epoch..epoch + 1).unwrap();
                    let now = trainer.certificate(&data).unwrap();
                    let s = params.t0 + trainer.t() as f64;
                    let exact = dual_of(trainer.ledger().unwrap(), &problem, 0.05, s);
                    let what = format!("{params:?} {sizes:?} after {first}, {epoch}");
                    assert!(exact <= best + 1e-10, "{what}");
                    assert!(
                        now.dual.is_nan() || now.dual <= best + 1e-10,
                        "{what}: {now:?}, {best}"
                    );
                    // No certificate is right too.
                    if now.dual.is_nan() {
                        // Once lost, it stays so.
                        assert!(first > 0 || unequal, "{what}");
                    } else {
                        assert!((now.dual - exact).abs() < 1e-9, "{what}: {now:?}, not {exact}");
                    }
                    assert!(now.primal >= best - 1e-10, "{what}");
                }
            }
        }
    }
}

/// Epochs on the same shards keep the closed form, and with it the certificate, whatever the roundings
/// of shares.
#[test]
fn equal_epochs_of_shards_keep_the_certificate() {
    for n in 2..120 {
        let problem = Problem::new(n, 3, n as u64).unweighted();
        let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
        let params = Params { lambda: 0.1, ..Params::default() };
        for sizes in [vec![1; n], vec![1, n - 1], vec![n / 2, n - n / 2]] {
            let mut trainer = trainer::<f64, _>(HINGE, 3, params);
            trainer.keep_ledger(n);
            for epoch in 0..6 {
                sharded_epochs(&mut trainer, &data, &sizes, epoch..epoch + 1).unwrap();
                let now = trainer.certificate(&data).unwrap();
                let exact = dual_of(trainer.ledger().unwrap(), &problem, 0.1, trainer.t() as f64);
                let right = (now.dual - exact).abs() < 1e-9;
                assert!(right, "{n} in {sizes:?}, epoch {epoch}: {now:?}, not {exact}");
            }
        }
    }
}

/// A part may be longer or shorter than was announced.
#[test]
fn a_certificate_of_unannounced_parts_claims_no_more_than_its_ledger() {
    let problem = Problem::new(60, 5, 27).unweighted();
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    let params = Params { lambda: 0.05, ..Params::default() };
    let mut trainer = trainer::<f64, _>(HINGE, 5, params);
    trainer.keep_ledger(60);
    let order: Vec<usize> = (0..60).collect();
    for _ in 0..3 {
        let mut shards = Shards::split(&trainer, &[30, 30]).unwrap();
        let ran = shards.run(&data, &[&order[..50], &order[50..]]);
        if ran.and_then(|_| shards.merge_into(&mut trainer)).is_err() {
            return;
        }
        let now = trainer.certificate(&data).unwrap();
        let exact = dual_of(trainer.ledger().unwrap(), &problem, 0.05, trainer.t() as f64);
        assert!(now.dual.is_nan() || (now.dual - exact).abs() < 1e-9, "{now:?}, not {exact}");
    }
}

/// A number in -1..1 from a seed and a place.
fn noise(seed: u64, i: usize, j: usize) -> f64 {
    let mut h = seed ^ ((i as u64) << 32 | j as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    h = (h ^ (h >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    ((h ^ (h >> 29)) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

/// A certificate never lies: of kernels that need not be positive there is none, unless somebody vouches for what
/// is precomputed; and where there is one, the dual value lies below every objective.
#[test]
fn only_positive_kernels_are_certified() {
    fn check<L: Loss + Clone>(kernel: Kernel, loss: L, data: &Examples<'_, f64>, vouched: bool) {
        for params in compositions() {
            let mut trainer = expansion(kernel, loss.clone(), params, data, true);
            if vouched {
                let mut w = trainer.hypothesis().clone();
                w.assume_positive();
                trainer = Trainer::new(w, loss.clone(), params).unwrap();
            }
            trainer.keep_ledger(data.len());
            trainer.run(data, epochs(data.len(), 2)).unwrap();
            let certificate = trainer.certificate(data).unwrap();
            let positive = kernel.is_positive() || vouched;
            let what = format!("{kernel:?} {params:?} {certificate:?}");
            assert_eq!(certificate.dual.is_nan(), !positive || params.set.is_some(), "{what}");
            let negative = certificate.gap() < -1e-9 * certificate.primal.abs();
            assert!(!negative, "{what}");
            assert_eq!(trainer.dual_value(data).is_some(), !certificate.dual.is_nan(), "{what}");
            let mut ascent = KernelAscent::take_over(&trainer, data, 1 << 20).unwrap();
            let certificate = ascent.solve(data, 1e-3, 20).unwrap();
            assert_eq!(certificate.dual.is_nan(), !positive, "{kernel:?}");
            let negative = certificate.gap() < -1e-9 * certificate.primal.abs();
            assert!(!negative, "{certificate:?}");
            assert!(ascent.result(data).unwrap().is_positive() == positive);
        }
    }
    let n = 60;
    let (two, four) = (Problem::new(n, 5, 3), Problem::of_classes(n, 5, 4, 3));
    let negative = Kernel::Poly { gamma: 0.5, coef0: -1.0, degree: 3 };
    for kernel in kernels().into_iter().chain([negative]) {
        let data = Examples::new(two.dense(), &two.y, Some(&two.weight)).unwrap();
        check(kernel, HINGE, &data, false);
        let data = Examples::new(four.dense(), &four.y, Some(&four.weight)).unwrap();
        check(kernel, joint(4), &data, false);
    }
    for seed in 0..5 {
        // Indefinite, and its square, which is not.
        let symmetric = |i: usize, j: usize| noise(seed, i.min(j), i.max(j));
        let matrix: Vec<f64> = (0..n * n).map(|k| symmetric(k / n, k % n)).collect();
        let row = |i: usize| &matrix[i * n..(i + 1) * n];
        let square: Vec<f64> = (0..n * n).map(|k| dot(row(k / n), row(k % n))).collect();
        for (gram, vouched) in [(&matrix, false), (&square, false), (&square, true)] {
            let rows = Dense::new(gram, n, n).unwrap();
            let data = Examples::new(rows, &two.y, None).unwrap();
            check(Kernel::Precomputed, HINGE, &data, vouched);
            let data = Examples::new(rows, &four.y, None).unwrap();
            check(Kernel::Precomputed, joint(4), &data, vouched);
        }
    }
}

#[test]
fn evaluations_refuse_rows_that_are_not_there() {
    let problem = Problem::new(40, 3, 5);
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    let few = Examples::new(Dense::new(&problem.x[..30], 10, 3).unwrap(), &problem.y[..10], None);
    let none = Examples::new(Dense::new(&[0.0; 0], 0, 3).unwrap(), &[], None).unwrap();
    let mut trained = trainer::<f64, _>(HINGE, 3, Params::default());
    trained.keep_ledger(40);
    trained.run(&data, 0..40).unwrap();
    let mut evaluation = trained.evaluation(&data).unwrap();
    assert!(evaluation.add(&trained, &data, 39..41).is_err());
    let error = evaluation.add(&trained, &few.unwrap(), 0..10).unwrap_err();
    assert_eq!(error.to_string(), "X must have 40 rows, as the ledger has, got 10");
    let ascent = DualAscent::new(HINGE, 0.1, 40, 3, 1.0).unwrap();
    let error = ascent.evaluation::<f64>().add(&ascent, &data, 39..41).unwrap_err();
    assert_eq!(error.to_string(), "rows must lie in 0..40, got 40");
    let want = "X must have at least one row, got 0";
    assert_eq!(trained.certificate(&none).unwrap_err().to_string(), want);
    let mut empty = DualAscent::new(HINGE, 0.1, 0, 3, 1.0).unwrap();
    assert_eq!(empty.certificate(&none).unwrap_err().to_string(), want);
}

/// A row without weight may come twice before either visit is entered.
#[test]
fn rows_without_weight_may_be_visited_twice() -> Result<(), Error> {
    let x = Dense::new(&[0.5, -1.0, 2.0], 3, 1)?;
    let data = Examples::new(x, &[0, 0, 1], Some(&[1.0, 0.0, 1.0]))?;
    for loss in [AnyLoss::Hinge, AnyLoss::SquaredHinge, AnyLoss::Logistic] {
        let mut ascent = DualAscent::new(Binary { loss, positive: 1 }, 0.1, 3, 1, 0.0)?;
        ascent.run(&data, [1, 1, 0, 1, 2, 1, 1])?;
        assert_eq!(ascent.dual()[1], 0.0);
        assert!(ascent.solve(&data, 1e-6, 1000, 1)?.relative_gap() <= 1e-6);
    }
    Ok(())
}
