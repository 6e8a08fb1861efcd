//! Compositions that must agree, and quantities that must be what they claim.

use pegasos::{
    AnyLoss, Average, Ball, Binary, Block, Certificate, Csr, Dense, ErrorKind, Examples, Hinge,
    Hypothesis, Linear, Params, Rows, Sampling, Schedule, Trainer, run_all,
};

mod generated;
use generated::Problem;

const HINGE: Binary<Hinge> = Binary { loss: Hinge, positive: 1 };

fn trainer<S: pegasos::Scalar>(d: usize, params: Params) -> Trainer<Linear<S>, Binary<Hinge>> {
    Trainer::new(Linear::new(1, d, 1.0).unwrap(), HINGE, params).unwrap()
}

/// One choice of each part of the loop at a time, and some together.
fn compositions() -> Vec<Params> {
    let base = Params { lambda: 0.05, ..Params::default() };
    let inv = Schedule::InvScaling { eta0: 0.5, power: 0.5 };
    vec![
        base,
        Params { block: Block::Mean(4), ..base },
        Params { set: Some(Ball { radius: 2.0 }), ..base },
        Params { average: Average::Uniform, average_from: 5, ..base },
        Params {
            average: Average::Polynomial,
            set: Some(Ball { radius: 1.0 }),
            block: Block::Mean(4),
            ..base
        },
        Params { schedule: inv, ..base },
        Params { schedule: inv, average: Average::Uniform, ..base },
        Params {
            schedule: Schedule::Constant { eta0: 0.1 },
            set: Some(Ball { radius: 0.5 }),
            ..base
        },
        Params { t0: 20.0, average: Average::Polynomial, ..base },
    ]
}

#[test]
fn a_run_in_pieces_is_the_run() {
    let problem = Problem::new(97, 6, 1);
    let data = Examples::new(problem.dense(), &problem.y, Some(&problem.weight)).unwrap();
    let order: Vec<usize> =
        Sampling::Replacement.epoch(400, 3, 0).unwrap().map(|i| i % 97).collect();
    for params in compositions() {
        let mut whole = trainer(6, params);
        whole.run(&data, order.iter().copied()).unwrap();
        for cut in [0, 4, 200, 396] {
            let mut parts = trainer(6, params);
            parts.run(&data, order[..cut].iter().copied()).unwrap();
            parts.run(&data, order[cut..].iter().copied()).unwrap();
            assert_eq!(parts.hypothesis(), whole.hypothesis(), "{params:?} at {cut}");
        }
    }
}

#[test]
fn a_restored_trainer_goes_on_as_the_first_would() {
    let problem = Problem::new(50, 6, 2);
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    for params in compositions() {
        let mut first = trainer::<f64>(6, params);
        first.run(&data, 0..50).unwrap();
        let linear = Linear::from_state(6, first.hypothesis().state().clone()).unwrap();
        let mut second = Trainer::resume(linear, HINGE, params, first.t()).unwrap();
        first.run(&data, 0..50).unwrap();
        second.run(&data, 0..50).unwrap();
        assert_eq!(first.hypothesis(), second.hypothesis(), "{params:?}");
    }
}

/// Whatever w a trainer is given, and in whatever scale, the next step starts from that w.
#[test]
fn a_trainer_may_start_anywhere() {
    let problem = Problem::new(20, 3, 11);
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    let mut w = Linear::new(1, 3, 1.0).unwrap();
    w.add(problem.dense().row(0), &[0.7]);
    w.add(problem.dense().row(1), &[-0.2]);
    for (t0, t) in [(0.0, 0), (3.0, 0), (0.0, 5), (2.0, 9)] {
        let params = Params { lambda: 0.1, t0, ..Params::default() };
        let mut trainer = Trainer::resume(w.clone(), HINGE, params, t).unwrap();
        trainer.keep_ledger(20);
        assert!(trainer.ledger().is_none() || t0 + t as f64 == 0.0);
        trainer.run(&data, [4]).unwrap();
        let s = t0 + t as f64 + 1.0;
        let mut want = w.clone();
        let mut score = [0.0];
        want.scale(if s == 1.0 { 0.0 } else { 1.0 });
        want.score(problem.dense().row(4), &mut score);
        let y = if problem.y[4] == 1 { 1.0 } else { -1.0 };
        want.scale(1.0 - 1.0 / s);
        if y * score[0] < 1.0 {
            want.add(problem.dense().row(4), &[y / (0.1 * s)]);
        }
        for (a, b) in trainer.result().weights().iter().zip(want.weights()) {
            assert!((a - b).abs() < 1e-12 * (1.0 + b.abs()), "t0 = {t0}, t = {t}");
        }
    }
}

#[test]
fn dense_is_sparse() {
    let problem = Problem::new(80, 11, 3);
    let csr = problem.csr();
    let dense = Examples::new(problem.dense(), &problem.y, None).unwrap();
    let sparse = Examples::new(csr.view(), &problem.y, None).unwrap();
    for params in compositions() {
        let (mut a, mut b) = (trainer::<f64>(11, params), trainer::<f64>(11, params));
        a.keep_ledger(80);
        b.keep_ledger(80);
        for epoch in 0..3 {
            a.run(&dense, Sampling::Shuffle.epoch(80, 1, epoch).unwrap()).unwrap();
            b.run(&sparse, Sampling::Shuffle.epoch(80, 1, epoch).unwrap()).unwrap();
        }
        for (a, b) in a.result().weights().iter().zip(b.result().weights()) {
            assert!((a - b).abs() < 1e-9 * (1.0 + b.abs()), "{params:?}");
        }
        assert_eq!(a.ledger(), b.ledger(), "{params:?}");
    }
}

#[test]
fn the_carried_norm_is_the_norm() {
    let problem = Problem::new(80, 11, 4);
    let csr = problem.csr();
    let sparse = Examples::new(csr.view(), &problem.y, None).unwrap();
    let x: Vec<f32> = problem.x.iter().map(|&x| x as f32).collect();
    let single = Examples::new(Dense::new(&x, 80, 11).unwrap(), &problem.y, None).unwrap();
    for params in compositions() {
        let mut double = trainer::<f64>(11, params);
        let mut float = trainer::<f32>(11, params);
        for epoch in 0..20 {
            double.run(&sparse, Sampling::Shuffle.epoch(80, 1, epoch).unwrap()).unwrap();
            float.run(&single, Sampling::Shuffle.epoch(80, 1, epoch).unwrap()).unwrap();
        }
        let (w, f) = (double.hypothesis(), float.hypothesis());
        assert!((w.norm2() / w.norm2_afresh() - 1.0).abs() < 1e-10, "{params:?}");
        assert!((f.norm2() / f.norm2_afresh() - 1.0).abs() < 1e-4, "{params:?}");
        if let Some(Ball { radius }) = params.set {
            assert!(w.norm2() <= radius * radius * (1.0 + 1e-12), "{params:?}");
        }
    }
}

#[test]
fn a_batch_of_equal_rows_is_one_of_them() {
    let problem = Problem::new(30, 5, 5);
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    for params in compositions() {
        let mut one = trainer::<f64>(5, Params { block: Block::Mean(1), ..params });
        let mut four = trainer::<f64>(5, Params { block: Block::Mean(4), ..params });
        one.run(&data, 0..30).unwrap();
        four.run(&data, (0..30).flat_map(|i| [i; 4])).unwrap();
        assert_eq!(one.t(), four.t());
        for (a, b) in one.result().weights().iter().zip(four.result().weights()) {
            assert!((a - b).abs() < 1e-12 * (1.0 + b.abs()), "{params:?}: {a} {b}");
        }
    }
}

/// Weights of c are a lambda of 1/c times the size.
#[test]
fn weights_scale_lambda() {
    let problem = Problem::new(60, 5, 6);
    let eights = [8.0; 60];
    let heavy = Examples::new(problem.dense(), &problem.y, Some(&eights)).unwrap();
    let light = Examples::new(problem.dense(), &problem.y, None).unwrap();
    let params = Params { lambda: 0.4, ..Params::default() };
    let mut a = trainer::<f64>(5, params);
    let mut b = trainer::<f64>(5, Params { lambda: 0.05, ..params });
    a.keep_ledger(60);
    b.keep_ledger(60);
    a.run(&heavy, 0..60).unwrap();
    b.run(&light, 0..60).unwrap();
    for (a, b) in a.result().weights().iter().zip(b.result().weights()) {
        assert!((a - b).abs() < 1e-12 * (1.0 + b.abs()));
    }
    let (a, b) = (a.certificate(&heavy).unwrap(), b.certificate(&light).unwrap());
    assert!((a.primal - 8.0 * b.primal).abs() < 1e-12);
    assert!((a.dual - 8.0 * b.dual).abs() < 1e-12);
}

#[test]
fn a_repeated_column_is_the_sum() {
    let values = [1.0, 0.5, 2.0, -1.0, 0.25, 3.0];
    let twice = Csr::new(&[0_i32, 3, 6], &[0, 1, 0, 1, 1, 2], &values, 3).unwrap();
    let once = [3.0, 0.5, 0.0, 0.0, -0.75, 3.0];
    let once = Dense::new(&once, 2, 3).unwrap();
    let (mut a, mut b) = (trainer::<f64>(3, Params::default()), trainer(3, Params::default()));
    for _ in 0..5 {
        a.run(&Examples::new(twice, &[0, 1], None).unwrap(), 0..2).unwrap();
        b.run(&Examples::new(once, &[0, 1], None).unwrap(), 0..2).unwrap();
    }
    for (a, b) in a.result().weights().iter().zip(b.result().weights()) {
        assert!((a - b).abs() < 1e-12 * (1.0 + b.abs()));
    }
    let w = a.hypothesis();
    assert!((w.norm2() / w.norm2_afresh() - 1.0).abs() < 1e-12);
}

#[test]
fn threads_change_no_bit() {
    let problem = Problem::new(90, 6, 7);
    let classes: Vec<u32> = (0..90).map(|i| i % 5).collect();
    let data = Examples::new(problem.dense(), &classes, None).unwrap();
    let order: Vec<usize> = Sampling::Shuffle.epoch(90, 0, 0).unwrap().collect();
    let make = |positive| {
        let linear = Linear::<f64>::new(1, 6, 1.0).unwrap();
        Trainer::new(linear, Binary { loss: Hinge, positive }, Params::default()).unwrap()
    };
    let mut together: Vec<_> = (0..5).map(make).collect();
    let report = run_all(&mut together, &data, &order).unwrap();
    let mut examples = 0;
    for (positive, together) in (0..5).zip(&together) {
        let mut alone = make(positive);
        examples += alone.run(&data, order.iter().copied()).unwrap().examples;
        assert_eq!(alone.hypothesis(), together.hypothesis());
    }
    assert_eq!(report.examples, examples);
}

/// The minimum of the hinge objective, by exact dual coordinate ascent until nothing moves.
fn minimum(problem: &Problem, weight: &[f64], lambda: f64) -> f64 {
    let (n, d) = (problem.n, problem.d);
    let row = |i: usize| problem.row(i).iter().copied().chain([1.0]);
    let sign = |i: usize| if problem.y[i] == 1 { 1.0 } else { -1.0 };
    let (mut w, mut alpha) = (vec![0.0; d + 1], vec![0.0; n]);
    for _ in 0..20_000 {
        for i in 0..n {
            let score: f64 = w.iter().zip(row(i)).map(|(w, x)| w * x).sum();
            let norm2: f64 = row(i).map(|x| x * x).sum();
            let step = lambda * n as f64 * (1.0 - sign(i) * score) / norm2;
            let new = f64::clamp(alpha[i] + step, 0.0, weight[i]);
            let c = (new - alpha[i]) * sign(i) / (lambda * n as f64);
            w.iter_mut().zip(row(i)).for_each(|(w, x)| *w += c * x);
            alpha[i] = new;
        }
    }
    let norm2: f64 = w.iter().map(|w| w * w).sum();
    let loss = |i: usize| {
        let score: f64 = w.iter().zip(row(i)).map(|(w, x)| w * x).sum();
        weight[i] * (1.0 - sign(i) * score).max(0.0)
    };
    let primal = lambda / 2.0 * norm2 + (0..n).map(loss).sum::<f64>() / n as f64;
    let dual = alpha.iter().sum::<f64>() / n as f64 - lambda / 2.0 * norm2;
    assert!(primal - dual < 1e-9, "the reference must be exact");
    dual
}

#[test]
fn a_certificate_claims_no_more_than_the_truth() {
    let problem = Problem::new(60, 5, 8);
    let x: Vec<f32> = problem.x.iter().map(|&x| x as f32).collect();
    let ones = vec![1.0; 60];
    for (weight, lambda) in [(&ones, 0.02), (&problem.weight, 0.2)] {
        let best = minimum(&problem, weight, lambda);
        let base = Params { lambda, ..Params::default() };
        let variants = [
            base,
            Params { block: Block::Mean(7), ..base },
            Params { average: Average::Polynomial, ..base },
            Params { t0: 30.0, ..base },
        ];
        for params in variants {
            for sampling in
                [Sampling::Shuffle, Sampling::Blocks, Sampling::Storage, Sampling::Replacement]
            {
                let dense = Examples::new(problem.dense(), &problem.y, Some(weight)).unwrap();
                let last = check(&dense, params, sampling, best, 1e-12);
                let float = Dense::new(&x, 60, 5).unwrap();
                let float = Examples::new(float, &problem.y, Some(weight)).unwrap();
                check(&float, params, sampling, best, 1e-6);
                if sampling == Sampling::Shuffle && params.t0 == 0.0 {
                    assert!(last.relative_gap() < 0.02, "{params:?}: {last:?}");
                }
            }
        }
    }

    fn check<X: Rows>(
        data: &Examples<'_, X>,
        params: Params,
        sampling: Sampling,
        best: f64,
        slack: f64,
    ) -> Certificate {
        let mut trainer = trainer::<X::Scalar>(5, params);
        trainer.keep_ledger(60);
        let mut certificate = None;
        for epoch in 0..200 {
            trainer.run(data, sampling.epoch(60, 4, epoch).unwrap()).unwrap();
            if epoch.is_power_of_two() || epoch == 199 {
                let now = trainer.certificate(data).unwrap();
                assert!(now.dual <= best + slack, "{params:?} {sampling:?}: {now:?}, {best}");
                assert!(now.primal >= best - slack, "{params:?} {sampling:?}: {now:?}, {best}");
                certificate = Some(now);
            }
        }
        certificate.unwrap()
    }
}

#[test]
fn without_the_closed_form_there_is_no_certificate() {
    let problem = Problem::new(20, 3, 9);
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    let base = Params { lambda: 0.1, ..Params::default() };
    for params in [
        Params { set: Some(Ball { radius: 1.0 }), ..base },
        Params { schedule: Schedule::Constant { eta0: 0.1 }, ..base },
    ] {
        let mut trainer = trainer(3, params);
        trainer.keep_ledger(20);
        trainer.run(&data, 0..20).unwrap();
        let certificate = trainer.certificate(&data).unwrap();
        assert!(certificate.dual.is_nan() && certificate.primal.is_finite());
    }
}

#[test]
fn scales_fold_out_of_range_numbers() {
    let problem = Problem::new(50, 4, 10);
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    // (1 - 0.5)^50000 underflows any scale that is not folded.
    let params = Params {
        lambda: 1.0,
        schedule: Schedule::Constant { eta0: 0.5 },
        average: Average::Uniform,
        ..Params::default()
    };
    let mut long = trainer::<f32>(4, params);
    for _ in 0..1000 {
        long.run(&data_f32(&problem, &mut Vec::new()), 0..50).unwrap();
    }
    let w = long.hypothesis();
    assert!(w.norm2() > 1e-3 && (w.norm2() / w.norm2_afresh() - 1.0).abs() < 1e-3);
    assert!(long.result().weights().iter().all(|w| w.is_finite()));
    let mut twice = trainer::<f64>(4, params);
    twice.run(&data, 0..50).unwrap();

    fn data_f32<'a>(problem: &'a Problem, x: &'a mut Vec<f32>) -> Examples<'a, Dense<'a, f32>> {
        x.extend(problem.x.iter().map(|&x| x as f32));
        Examples::new(Dense::new(x, problem.n, problem.d).unwrap(), &problem.y, None).unwrap()
    }
}

#[test]
fn bad_rows_stop_a_run_before_they_are_learned() {
    let x = [1.0, 2.0, f64::NAN, 0.0, 1.0, 1.0];
    let dense = Examples::new(Dense::new(&x, 3, 2).unwrap(), &[0, 1, 0], None).unwrap();
    let mut trainer = trainer(2, Params::default());
    trainer.run(&dense, [0]).unwrap();
    let before = trainer.clone();
    let error = trainer.run(&dense, [1, 0]).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NonFinite { name: "X", .. }));
    assert!(error.to_string().contains("row 1, column 0 holds NaN"), "{error}");
    let error = trainer.run(&dense, [3]).unwrap_err();
    assert_eq!(error.to_string(), "order must lie in 0..3, got 3");
    for (indices, text) in [([0, 7], "got 7"), ([0, -2], "got -2")] {
        let csr = Csr::new(&[0, 1, 2], &indices, &[1.0, 1.0], 2).unwrap();
        let data = Examples::new(csr, &[0, 1], None).unwrap();
        assert!(data.check(0..2).is_err());
        let error = trainer.run(&data, [1]).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Index { name: "X.indices", bound: 2, .. }));
        assert!(error.to_string().ends_with(text), "{error}");
    }
    assert_eq!(trainer.hypothesis(), before.hypothesis());
    assert_eq!(trainer.t(), 1);
}

#[test]
fn doors_refuse_what_does_not_fit() {
    let refused = [
        Dense::new(&[1.0_f32; 5], 2, 3).err(),
        Dense::new(&[1.0_f32; 0], 2, 0).err(),
        Csr::new(&[0, 2, 1], &[0, 0], &[1.0_f32, 1.0], 1).err(),
        Csr::new(&[0, 3], &[0, 0], &[1.0_f32, 1.0], 1).err(),
        Csr::new(&[1, 2], &[0, 0], &[1.0_f32, 1.0], 1).err(),
        Csr::new(&[0, -1], &[0, 0], &[1.0_f32, 1.0], 1).err(),
        Csr::new(&[0], &[], &[] as &[f32], 1).err(),
        Csr::new(&[0, 1], &[0, 0], &[1.0_f32], 1).err(),
        Linear::<f32>::new(1, 0, 0.0).err(),
        Linear::<f32>::new(usize::MAX, 3, 0.0).err(),
        Linear::<f32>::new(1, 3, -1.0).err(),
        Params { lambda: 0.0, ..Params::default() }.check().err(),
        Params { lambda: f64::NAN, ..Params::default() }.check().err(),
        Params { t0: -1.0, ..Params::default() }.check().err(),
        Params { block: Block::Mean(0), ..Params::default() }.check().err(),
        Params { schedule: Schedule::Constant { eta0: 1e9 }, ..Params::default() }.check().err(),
    ];
    for (k, error) in refused.into_iter().enumerate() {
        assert!(error.is_some(), "number {k}");
    }
    let x = Dense::new(&[1.0, 2.0], 2, 1).unwrap();
    for (y, weight) in [
        (&[0][..], None),
        (&[0, 1][..], Some(&[1.0][..])),
        (&[0, 1][..], Some(&[1.0, -1.0][..])),
        (&[0, 1][..], Some(&[1.0, f64::NAN][..])),
        (&[0, 1][..], Some(&[0.0, 0.0][..])),
    ] {
        assert!(Examples::new(x, y, weight).is_err(), "{y:?} {weight:?}");
    }
    let data = Examples::new(x, &[0, 1], None).unwrap();
    assert!(trainer::<f64>(2, Params::default()).run(&data, 0..2).is_err());
    let any = Binary { loss: AnyLoss::Hinge, positive: 1 };
    assert!(Trainer::new(Linear::<f64>::new(2, 1, 0.0).unwrap(), any, Params::default()).is_err());
}
