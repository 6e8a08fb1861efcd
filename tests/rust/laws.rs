//! Compositions that must agree, and quantities that must be what they claim.

use std::fmt::Debug;

use pegasos::{
    AnyLoss, Average, Ball, Binary, Block, Csr, Dense, DualAscent, Examples, Feasible, Hypothesis,
    Linear, Loss, Matrix, OwnedRow, Params, Regret, Row, Sampling, Scalar, Schedule, Simplex,
    Trainer, Weigh, run_all,
};

use crate::generated::{
    CLASSES, HINGE, Problem, Uniform, add, distance, dot, flat, joint, sharded_epochs, trainer,
};

/// One choice of each part of the loop at a time, and some together.
pub fn compositions() -> Vec<Params> {
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
        Params { schedule: Schedule::Forgetting { horizon: 12.5 }, ..base },
        Params { schedule: Schedule::Forgetting { horizon: 40.0 }, block: Block::Mean(4), ..base },
        Params { block: Block::Delayed(7), ..base },
        Params {
            schedule: inv,
            set: Some(Ball { radius: 1.0 }),
            block: Block::Delayed(7),
            average: Average::Uniform,
            ..base
        },
    ]
}

#[test]
fn a_run_in_pieces_is_the_run() {
    fn law(loss: impl Loss + Clone, problem: &Problem) {
        let data = Examples::new(problem.dense(), &problem.y, Some(&problem.weight)).unwrap();
        let order: Vec<usize> =
            Sampling::Replacement.epoch(400, 3, 0).unwrap().map(|i| i % 97).collect();
        for params in compositions() {
            let mut whole = trainer(loss.clone(), 6, params);
            whole.run(&data, order.iter().copied()).unwrap();
            for cut in [0, 4, 200, 396] {
                let mut parts = trainer(loss.clone(), 6, params);
                parts.run(&data, order[..cut].iter().copied()).unwrap();
                parts.run(&data, order[cut..].iter().copied()).unwrap();
                assert_eq!(parts.hypothesis(), whole.hypothesis(), "{params:?} at {cut}");
            }
        }
    }
    law(HINGE, &Problem::new(97, 6, 1));
    law(CLASSES, &Problem::of_classes(97, 6, 3, 1));
}

#[test]
fn a_restored_trainer_goes_on_as_the_first_would() {
    fn law(loss: impl Loss + Clone, problem: &Problem) {
        let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
        for params in compositions() {
            let mut first = trainer::<f64, _>(loss.clone(), 6, params);
            first.run(&data, 0..50).unwrap();
            let linear = Linear::from_state(6, first.hypothesis().state()).unwrap();
            let mut second = Trainer::resume(linear, loss.clone(), params, first.t()).unwrap();
            second.set_flights(first.flights().clone());
            first.run(&data, 0..50).unwrap();
            second.run(&data, 0..50).unwrap();
            assert_eq!(first.hypothesis(), second.hypothesis(), "{params:?}");
        }
    }
    law(HINGE, &Problem::new(50, 6, 2));
    law(CLASSES, &Problem::of_classes(50, 6, 3, 2));
}

/// Whatever w a trainer is given, and in whatever scale, the next step starts from that w.
#[test]
fn a_trainer_may_start_anywhere() {
    let problem = Problem::new(20, 3, 11);
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    let mut w = Linear::new(1, 3, 1.0).unwrap();
    w.add(0, problem.dense().row(0), &[0.7]);
    w.add(1, problem.dense().row(1), &[-0.2]);
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
            want.add(4, problem.dense().row(4), &[y / (0.1 * s)]);
        }
        for (a, b) in trainer.result().weights().iter().zip(want.weights()) {
            assert!((a - b).abs() < 1e-12 * (1.0 + b.abs()), "t0 = {t0}, t = {t}");
        }
    }
}

#[test]
fn dense_is_sparse() {
    fn law(loss: impl Loss + Clone, problem: &Problem) {
        let csr = problem.csr();
        let dense = Examples::new(problem.dense(), &problem.y, None).unwrap();
        let sparse = Examples::new(csr.view(), &problem.y, None).unwrap();
        for params in compositions() {
            let new = || trainer::<f64, _>(loss.clone(), 11, params);
            let (mut a, mut b) = (new(), new());
            a.keep_ledger(80);
            b.keep_ledger(80);
            for epoch in 0..3 {
                a.run(&dense, Sampling::Shuffle.epoch(80, 1, epoch).unwrap()).unwrap();
                b.run(&sparse, Sampling::Shuffle.epoch(80, 1, epoch).unwrap()).unwrap();
            }
            assert!(distance(&flat(&a.result()), &flat(&b.result())) < 1e-9, "{params:?}");
            assert_eq!(a.ledger(), b.ledger(), "{params:?}");
        }
    }
    law(HINGE, &Problem::new(80, 11, 3));
    law(CLASSES, &Problem::of_classes(80, 11, 3, 3));
}

/// `||w||^2` as it is carried along, whoever asks for it.
fn carried<S: Scalar>(w: &Linear<S>) -> f64 {
    let scale = w.scaled();
    scale.a * scale.a * scale.norm2
}

#[test]
fn the_carried_norm_is_the_norm() {
    fn law(loss: impl Loss + Clone, problem: &Problem) {
        let csr = problem.csr();
        let sparse = Examples::new(csr.view(), &problem.y, None).unwrap();
        let x = problem.single();
        let single = Examples::new(Dense::new(&x, 80, 11).unwrap(), &problem.y, None).unwrap();
        for params in compositions() {
            let mut double = trainer::<f64, _>(loss.clone(), 11, params);
            let mut float = trainer::<f32, _>(loss.clone(), 11, params);
            let mut whole = trainer::<f64, _>(loss.clone(), 11, params);
            for epoch in 0..20 {
                let order: Vec<usize> = Sampling::Shuffle.epoch(80, 1, epoch).unwrap().collect();
                // A run of so few rows carries it along, one of all may leave it to its end.
                for few in order.chunks(4) {
                    double.run(&sparse, few.iter().copied()).unwrap();
                }
                whole.run(&sparse, order).unwrap();
                float.run(&single, Sampling::Shuffle.epoch(80, 1, epoch).unwrap()).unwrap();
            }
            let (w, f) = (double.hypothesis(), float.hypothesis());
            assert!((carried(w) / w.norm2_afresh() - 1.0).abs() < 1e-10, "{params:?}");
            assert!((carried(f) / f.norm2_afresh() - 1.0).abs() < 1e-4, "{params:?}");
            assert_eq!(w, whole.hypothesis(), "{params:?}");
            assert_eq!(w.norm2().to_bits(), whole.hypothesis().norm2().to_bits(), "{params:?}");
            assert_eq!(w.state(), whole.hypothesis().state(), "{params:?}");
            let left = carried(whole.hypothesis());
            assert!((left / carried(w) - 1.0).abs() < 1e-10, "{params:?}");
            if let Some(Ball { radius }) = params.set {
                assert!(w.norm2() <= radius * radius * (1.0 + 1e-12), "{params:?}");
            }
        }
    }
    law(HINGE, &Problem::new(80, 11, 4));
    law(CLASSES, &Problem::of_classes(80, 11, 3, 4));
}

#[test]
fn a_batch_of_equal_rows_is_one_of_them() {
    fn law(loss: impl Loss + Clone, problem: &Problem) {
        let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
        for params in compositions() {
            let batch = |batch| Params { block: Block::Mean(batch), ..params };
            let mut one = trainer::<f64, _>(loss.clone(), 5, batch(1));
            let mut four = trainer::<f64, _>(loss.clone(), 5, batch(4));
            one.run(&data, 0..30).unwrap();
            four.run(&data, (0..30).flat_map(|i| [i; 4])).unwrap();
            assert_eq!(one.t(), four.t());
            assert!(distance(&flat(&one.result()), &flat(&four.result())) < 1e-12, "{params:?}");
        }
    }
    law(HINGE, &Problem::new(30, 5, 5));
    law(CLASSES, &Problem::of_classes(30, 5, 3, 5));
}

#[test]
fn no_delay_is_a_batch_of_one() {
    fn law(loss: impl Loss + Clone, problem: &Problem) {
        let csr = problem.csr();
        let data = Examples::new(csr.view(), &problem.y, Some(&problem.weight)).unwrap();
        for params in compositions() {
            let new = |block| trainer::<f64, _>(loss.clone(), 6, Params { block, ..params });
            let (mut a, mut b) = (new(Block::Mean(1)), new(Block::Delayed(0)));
            for trainer in [&mut a, &mut b] {
                trainer.keep_ledger(60);
                trainer.keep_regret(Regret::default()).unwrap();
            }
            for epoch in 0..3 {
                let order = || Sampling::Shuffle.epoch(60, 2, epoch).unwrap();
                assert_eq!(a.run(&data, order()).unwrap(), b.run(&data, order()).unwrap());
            }
            assert_eq!(a.hypothesis(), b.hypothesis(), "{params:?}");
            assert_eq!(a.ledger(), b.ledger(), "{params:?}");
            assert_eq!(a.regret(), b.regret(), "{params:?}");
            assert!(b.flights().is_empty());
        }
    }
    law(HINGE, &Problem::new(60, 6, 21));
    law(CLASSES, &Problem::of_classes(60, 6, 3, 21));
}

#[test]
fn a_ball_is_an_optional_ball() {
    let problem = Problem::new(60, 6, 22);
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    for params in compositions() {
        let ball = Ball { radius: 0.7 };
        let mut a = trainer::<f64, _>(HINGE, 6, Params { set: Some(ball), ..params });
        let w = Linear::new(1, 6, 1.0).unwrap();
        let mut b = Trainer::new(w, HINGE, params.within(ball)).unwrap();
        a.run(&data, 0..60).unwrap();
        b.run(&data, 0..60).unwrap();
        assert_eq!(a.hypothesis(), b.hypothesis(), "{params:?}");
    }
    assert_eq!(Feasible::<Linear<f64>>::diameter(&Ball { radius: 0.7 }), 1.4);
    assert_eq!(Feasible::<Linear<f64>>::diameter(&None::<Ball>), f64::INFINITY);
    assert_eq!(Feasible::<Linear<f64>>::diameter(&Simplex), 2.0_f64.sqrt());
}

/// Weights of c are a lambda of 1/c times the size.
#[test]
fn weights_scale_lambda() {
    fn law(loss: impl Loss + Clone, problem: &Problem) {
        let eights = [8.0; 60];
        let heavy = Examples::new(problem.dense(), &problem.y, Some(&eights)).unwrap();
        let light = Examples::new(problem.dense(), &problem.y, None).unwrap();
        let params = Params { lambda: 0.4, ..Params::default() };
        let mut a = trainer::<f64, _>(loss.clone(), 5, params);
        let mut b = trainer::<f64, _>(loss.clone(), 5, Params { lambda: 0.05, ..params });
        a.keep_ledger(60);
        b.keep_ledger(60);
        a.run(&heavy, 0..60).unwrap();
        b.run(&light, 0..60).unwrap();
        assert!(distance(&flat(&a.result()), &flat(&b.result())) < 1e-12);
        let (a, b) = (a.certificate(&heavy).unwrap(), b.certificate(&light).unwrap());
        assert!((a.primal - 8.0 * b.primal).abs() < 1e-12);
        assert!((a.dual - 8.0 * b.dual).abs() < 1e-12);
        let mut a = DualAscent::new(loss.clone(), 0.4, 60, 5, 1.0).unwrap();
        let mut b = DualAscent::new(loss.clone(), 0.05, 60, 5, 1.0).unwrap();
        a.run(&heavy, 0..60).unwrap();
        b.run(&light, 0..60).unwrap();
        assert!(distance(&flat(&a.result::<f64>()), &flat(&b.result::<f64>())) < 1e-12);
        assert!(distance(&a.dual(), &b.dual()) < 1e-12);
    }
    law(HINGE, &Problem::new(60, 5, 6));
    law(CLASSES, &Problem::of_classes(60, 5, 3, 6));
}

#[test]
fn a_repeated_column_is_the_sum() {
    let values = [1.0, 0.5, 2.0, -1.0, 0.25, 3.0];
    let twice = Csr::new(&[0_i32, 3, 6], &[0, 1, 0, 1, 1, 2], &values, 3).unwrap();
    let once = [3.0, 0.5, 0.0, 0.0, -0.75, 3.0];
    let once = Dense::new(&once, 2, 3).unwrap();
    let new = || trainer::<f64, _>(HINGE, 3, Params::default());
    let (mut a, mut b) = (new(), new());
    for _ in 0..5 {
        a.run(&Examples::new(twice, &[0, 1], None).unwrap(), 0..2).unwrap();
        b.run(&Examples::new(once, &[0, 1], None).unwrap(), 0..2).unwrap();
    }
    for (a, b) in a.result().weights().iter().zip(b.result().weights()) {
        assert!((a - b).abs() < 1e-12 * (1.0 + b.abs()));
    }
    let w = a.hypothesis();
    assert!((carried(w) / w.norm2_afresh() - 1.0).abs() < 1e-12);
}

/// Calls `f` in a pool of so many threads.
fn in_pool<T: Send>(threads: usize, f: impl FnOnce() -> T + Send) -> T {
    #[cfg(feature = "rayon")]
    return rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(f);
    #[cfg(not(feature = "rayon"))]
    {
        let _ = threads;
        f()
    }
}

#[test]
fn threads_change_no_bit() {
    let problem = Problem::new(90, 6, 7);
    let classes: Vec<u32> = (0..90).map(|i| i % 5).collect();
    let data = Examples::new(problem.dense(), &classes, None).unwrap();
    let order: Vec<usize> = Sampling::Shuffle.epoch(90, 0, 0).unwrap().collect();
    for params in compositions() {
        let make =
            |positive| trainer::<f64, _>(Binary { loss: AnyLoss::Hinge, positive }, 6, params);
        for threads in 1..=3 {
            let mut together: Vec<_> = (0..5).map(make).collect();
            let report = in_pool(threads, || run_all(&mut together, &data, &order).unwrap());
            let mut examples = 0;
            for (positive, together) in (0..5).zip(&together) {
                let mut alone = make(positive);
                examples += alone.run(&data, order.iter().copied()).unwrap().examples;
                assert_eq!(alone.hypothesis(), together.hypothesis(), "{params:?}");
            }
            assert_eq!(report.examples, examples);
        }
    }
}

/// The number of shards is a parameter of the result, the number of threads is none.
#[test]
fn threads_change_no_bit_of_shards() {
    fn law(loss: impl Loss + Clone + Send, problem: &Problem) {
        let data = Examples::new(problem.dense(), &problem.y, Some(&problem.weight)).unwrap();
        for params in compositions() {
            if let Block::Delayed(_) = params.block {
                continue;
            }
            let run = |threads, sizes: &[usize]| {
                let mut trainer = trainer::<f64, _>(loss.clone(), 6, params);
                trainer.keep_ledger(90);
                in_pool(threads, || sharded_epochs(&mut trainer, &data, sizes, 0..3).unwrap());
                trainer
            };
            let one = run(1, &[40, 21, 29]);
            for threads in [2, 3] {
                let many = run(threads, &[40, 21, 29]);
                assert_eq!(one.hypothesis(), many.hypothesis(), "{params:?}");
                assert_eq!(one.ledger(), many.ledger(), "{params:?}");
                assert_eq!(one.t(), many.t());
            }
            assert_ne!(one.hypothesis(), run(1, &[40, 50]).hypothesis(), "{params:?}");
        }
    }
    law(HINGE, &Problem::new(90, 6, 23));
    law(CLASSES, &Problem::of_classes(90, 6, 3, 23));
}

#[test]
fn one_shard_is_no_shards() {
    fn law(loss: impl Loss + Clone + Send, problem: &Problem) {
        let data = Examples::new(problem.dense(), &problem.y, Some(&problem.weight)).unwrap();
        for params in compositions() {
            if let Block::Delayed(_) = params.block {
                continue;
            }
            let mut sharded = trainer::<f64, _>(loss.clone(), 6, params);
            let mut plain = trainer::<f64, _>(loss.clone(), 6, params);
            sharded.keep_ledger(60);
            plain.keep_ledger(60);
            sharded_epochs(&mut sharded, &data, &[60], 0..3).unwrap();
            for epoch in 0..3 {
                plain.run(&data, Sampling::Shuffle.epoch(60, 4, epoch).unwrap()).unwrap();
            }
            assert_eq!(sharded.t(), plain.t());
            assert_eq!(sharded.ledger(), plain.ledger(), "{params:?}");
            assert_eq!(flat(sharded.hypothesis()), flat(plain.hypothesis()), "{params:?}");
            assert_eq!(flat(&sharded.result()), flat(&plain.result()), "{params:?}");
        }
    }
    law(HINGE, &Problem::new(60, 6, 24));
    law(CLASSES, &Problem::of_classes(60, 6, 3, 24));
}

/// The mean of trainers is the mean of their weights.
#[test]
fn an_average_of_trainers_is_one_of_weights() {
    let problem = Problem::of_classes(60, 6, 3, 25);
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    for params in compositions() {
        let [mut a, mut b] = [(); 2].map(|()| trainer::<f64, _>(CLASSES, 6, params));
        a.run(&data, 0..20).unwrap();
        b.run(&data, 20..60).unwrap();
        let mean = Trainer::average_of(&[(0.25, &a), (0.75, &b)]).unwrap();
        assert_eq!(mean.t(), a.t() + b.t());
        for (mean, a, b) in [
            (flat(mean.hypothesis()), flat(a.hypothesis()), flat(b.hypothesis())),
            (flat(&mean.result()), flat(&a.result()), flat(&b.result())),
        ] {
            let mut want = vec![0.0; a.len()];
            add(&mut want, 0.25, &a);
            add(&mut want, 0.75, &b);
            assert!(distance(&mean, &want) < 1e-12, "{params:?}");
        }
    }
    let a = trainer::<f64, _>(CLASSES, 6, Params::default());
    let other = trainer::<f64, _>(CLASSES, 5, Params::default());
    assert!(Trainer::average_of(&[(0.5, &a), (0.5, &other)]).is_err());
    assert!(Trainer::average_of(&[] as &[(f64, &Trainer<Linear<f64>, Binary<AnyLoss>>)]).is_err());
}

/// An owned row computes, bit for bit, what the row did that it is a copy of, with weights in its scalar and in f64;
/// with those in f64 what its features would in f64.
#[test]
fn rows_compute_the_same_however_they_are_held() {
    fn same<S: Scalar + Weigh<V>, V: Copy + PartialEq + Debug>(
        row: Row<'_, S>,
        copy: Row<'_, S>,
        v: &[V],
    ) {
        assert_eq!(row.dot(v).to_bits(), copy.dot(v).to_bits());
        let (mut a, mut b) = (v.to_vec(), v.to_vec());
        assert_eq!(row.axpy(0.3, &mut a).to_bits(), copy.axpy(0.3, &mut b).to_bits());
        assert_eq!(a, b);
    }
    fn owned<S: Scalar>(row: Row<'_, S>, v: &[S], wide: &[f64]) {
        let owned = row.to_owned();
        same(row, owned.row(), v);
        same(row, owned.row(), wide);
        assert_eq!(row.norm2().to_bits(), owned.row().norm2().to_bits());
        assert_eq!(owned.row().to_owned(), owned);
        // With weights in f64 a feature is what it would be in f64.
        let widened = match &owned {
            OwnedRow::Dense(x) => OwnedRow::Dense(in_f64(x)),
            OwnedRow::Sparse { indices, values } => {
                OwnedRow::Sparse { indices: indices.clone(), values: in_f64(values) }
            }
        };
        let near = |a: f64, b: f64| (a - b).abs() < 1e-13 * (1.0 + b.abs());
        assert!(near(widened.row().dot(wide), row.dot(wide)));
        let (mut a, mut b) = (wide.to_vec(), wide.to_vec());
        assert!(near(row.axpy(0.3, &mut a), widened.row().axpy(0.3, &mut b)));
        assert!(distance(&a, &b) < 1e-14);
    }
    fn in_f64<S: Scalar>(x: &[S]) -> Vec<f64> {
        x.iter().map(|x| x.to_f64()).collect()
    }
    for d in [1, 3, 8, 15, 16, 17, 40, 70, 130] {
        let problem = Problem::new(4, d, d as u64);
        let single = problem.single();
        let (csr, csr_f32) = (problem.csr(), problem.csr_of(|x| x as f32));
        for i in 0..3 {
            let v = problem.row(3);
            let v_f32 = &single[3 * d..];
            owned(problem.dense().row(i), v, v);
            owned(csr.view().row(i), v, v);
            owned(Dense::new(&single, 4, d).unwrap().row(i), v_f32, v);
            owned(csr_f32.view().row(i), v_f32, v);
            // Many outputs at once are each of them.
            for outputs in [1, 2, 4, 5, 9] {
                let w: Vec<f64> = (0..outputs).flat_map(|o| problem.row(o % 4).to_vec()).collect();
                let w_f32: Vec<f32> = w.iter().map(|&w| w as f32).collect();
                let (mut out, mut wide, mut sparse) =
                    (vec![0.0; outputs], vec![0.0; outputs], vec![0.0; outputs]);
                problem.dense().row(i).dots(&w, d, &mut out);
                Dense::new(&single, 4, d).unwrap().row(i).dots(&w, d, &mut wide);
                csr.view().row(i).dots(&w, d, &mut sparse);
                let mut narrow = vec![0.0; outputs];
                Dense::new(&single, 4, d).unwrap().row(i).dots(&w_f32, d, &mut narrow);
                for o in 0..outputs {
                    let want = dot(problem.row(i), problem.row(o % 4));
                    assert!((out[o] - want).abs() < 1e-13 * d as f64);
                    assert!((sparse[o] - want).abs() < 1e-13 * d as f64);
                    assert!((wide[o] - want).abs() < 1e-6 * d as f64);
                    assert!((narrow[o] - want).abs() < 1e-6 * d as f64);
                }
            }
        }
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
    let mut long = trainer::<f32, _>(HINGE, 4, params);
    for _ in 0..1000 {
        long.run(&data_f32(&problem, &mut Vec::new()), 0..50).unwrap();
    }
    let w = long.hypothesis();
    let norm2 = carried(w);
    assert!(norm2 > 1e-3 && (norm2 / w.norm2_afresh() - 1.0).abs() < 1e-3);
    assert!(long.result().weights().iter().all(|w| w.is_finite()));
    let mut twice = trainer::<f64, _>(HINGE, 4, params);
    twice.run(&data, 0..50).unwrap();

    fn data_f32<'a>(problem: &'a Problem, x: &'a mut Vec<f32>) -> Examples<'a, f32> {
        x.extend(problem.x.iter().map(|&x| x as f32));
        Examples::new(Dense::new(x, problem.n, problem.d).unwrap(), &problem.y, None).unwrap()
    }
}

/// The scores of an example always sum to 0 over its classes.
#[test]
fn the_rows_of_all_classes_sum_to_zero() {
    let problem = Problem::of_classes(80, 7, 4, 28);
    let data = Examples::new(problem.dense(), &problem.y, Some(&problem.weight)).unwrap();
    let loss = joint(4);
    let check = |w: Vec<f64>| {
        let mut sum = vec![0.0; 8];
        w.chunks(8).for_each(|w| add(&mut sum, 1.0, w));
        let size = w.iter().fold(0.0_f64, |size, w| size.max(w.abs()));
        assert!(size > 0.0 && sum.iter().all(|sum| sum.abs() < 1e-13 * size), "{sum:?}");
    };
    for params in compositions() {
        let mut trainer = trainer::<f64, _>(loss.clone(), 7, params);
        trainer.keep_ledger(80);
        trainer.run(&data, (0..3).flat_map(|_| 0..80)).unwrap();
        check(flat(trainer.hypothesis()));
        check(flat(&trainer.result()));
        let ledger = trainer.ledger().unwrap();
        assert!((0..80).all(|i| ledger.sums(i).iter().sum::<f32>().abs() < 1e-5));
    }
    let mut dual = DualAscent::new(loss, 0.01, 80, 7, 1.0).unwrap();
    dual.solve(&data, 1e-6, 100, 0).unwrap();
    check(flat(&dual.result::<f64>()));
    assert!(dual.dual().chunks(4).all(|a| a.iter().sum::<f64>().abs() < 1e-15));
}

/// With two classes `f_1 = -f_0`, so `f_1 - f_0 = <v, x>` for `v = 2 w_1`. Then Crammer and Singer's
/// loss is the hinge of `<v, x>`, and `lambda/2 (||w_0||^2 + ||w_1||^2)` is `(lambda/2)/2 ||v||^2`: P is
/// that of the binary hinge at lambda/2. A step of eta moves v by 2 eta, and lambda/2 times 2 eta shrinks
/// it as much; `||W|| = ||v||/sqrt(2)`.
#[test]
fn two_classes_are_the_hinge_at_half_the_lambda() {
    let problem = Problem::new(80, 6, 29);
    let csr = problem.csr();
    let data = Examples::new(csr.view(), &problem.y, Some(&problem.weight)).unwrap();
    let two = joint(2);
    let halves = |w: &[f64]| {
        let (f0, f1) = w.split_at(7);
        crate::generated::difference(f1, f0)
    };
    let order: Vec<usize> =
        (0..4).flat_map(|epoch| Sampling::Shuffle.epoch(80, 7, epoch).unwrap()).collect();
    for params in compositions() {
        let twice = |schedule| match schedule {
            Schedule::Pegasos | Schedule::Forgetting { .. } => schedule,
            Schedule::InvScaling { eta0, power } => {
                Schedule::InvScaling { eta0: 2.0 * eta0, power }
            }
            Schedule::Constant { eta0 } => Schedule::Constant { eta0: 2.0 * eta0 },
        };
        let binary = Params {
            lambda: params.lambda / 2.0,
            schedule: twice(params.schedule),
            set: params.set.map(|Ball { radius }| Ball { radius: radius * 2.0_f64.sqrt() }),
            ..params
        };
        let mut a = trainer::<f64, _>(two.clone(), 6, params);
        let mut b = trainer::<f64, _>(HINGE, 6, binary);
        a.keep_ledger(80);
        b.keep_ledger(80);
        for i in &order {
            let (a, b) = (a.run(&data, [*i]).unwrap(), b.run(&data, [*i]).unwrap());
            assert_eq!(a.updates, b.updates, "{params:?}");
            assert!((a.loss - b.loss).abs() < 1e-9 * (1.0 + b.loss), "{params:?}");
        }
        let error = distance(&halves(&flat(&a.result())), &flat(&b.result()));
        assert!(error < 1e-11, "{params:?}: {error}");
        let (a, b) = (a.certificate(&data).unwrap(), b.certificate(&data).unwrap());
        assert!((a.primal - b.primal).abs() < 1e-11 * b.primal, "{params:?}");
        assert_eq!(a.dual.is_nan(), b.dual.is_nan());
        assert!(b.dual.is_nan() || (a.dual - b.dual).abs() < 1e-9, "{params:?} {a:?} {b:?}");
    }
    for lambda in [1e-4, 1e-2, 1.0] {
        let mut a = DualAscent::new(two.clone(), lambda, 80, 6, 1.0).unwrap();
        let mut b = DualAscent::new(HINGE, lambda / 2.0, 80, 6, 1.0).unwrap();
        for _ in 0..3 {
            a.run(&data, 0..80).unwrap();
            b.run(&data, 0..80).unwrap();
            let (v, w) = (halves(&flat(&a.result::<f64>())), flat(&b.result::<f64>()));
            assert!(distance(&v, &w) < 1e-9, "{lambda}");
        }
        let of_a = a.solve(&data, 1e-10, 100_000, 0).unwrap();
        let of_b = b.solve(&data, 1e-10, 100_000, 1).unwrap();
        assert!((of_a.dual / of_b.dual - 1.0).abs() < 1e-9, "{lambda}: {of_a:?} {of_b:?}");
        assert!((of_a.primal / of_b.primal - 1.0).abs() < 1e-9, "{lambda}: {of_a:?} {of_b:?}");
        let (v, w) = (halves(&flat(&a.result::<f64>())), flat(&b.result::<f64>()));
        assert!(distance(&v, &w) < 1e-3, "{lambda}");
    }
}

/// Products of matrices and scores row by row are the same numbers, however many outputs and rows, and on however many
/// threads.
#[test]
fn a_panel_scores_as_rows_do() {
    fn law<'a, S: Scalar>(w: &Linear<S>, x: impl Into<Matrix<'a, S>>, tol: f64) {
        let x = &x.into();
        let panel = w.panel().unwrap().expect("enough outputs");
        let k = w.outputs();
        for (first, count) in [(0, 1), (3, 25), (0, 300), (299, 1), (7, 0)] {
            let mut want = vec![0.0; count * k];
            for (i, want) in want.chunks_mut(k).enumerate() {
                w.score(x.row(first + i), want);
            }
            let (mut got, mut side_by_side) = (vec![1.0; count * k], vec![2.0; count * k]);
            panel.scores(x, first, &mut got);
            panel.scores_side_by_side(x, first, &mut side_by_side);
            assert_eq!(got, side_by_side);
            let apart = got.iter().zip(&want).map(|(a, b)| (a - b).abs());
            assert!(apart.fold(0.0, f64::max) < tol, "{k} outputs, {count} rows from {first}");
        }
    }
    for k in [16, 31, 32, 33, 70] {
        let problem = Problem::of_classes(300, 7, k, k as u64).rounded();
        let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
        let params = Params { lambda: 0.1, ..Params::default() };
        let mut trainer = trainer::<f64, _>(joint(k), 7, params);
        trainer.run(&data, 0..300).unwrap();
        let w = trainer.hypothesis();
        let x = problem.single();
        law(w, problem.dense(), 1e-12);
        law(w, problem.csr().view(), 1e-12);
        law(&w.convert::<f32>(), Dense::new(&x, 300, 7).unwrap(), 1e-4);
        law(&w.convert::<f32>(), problem.csr_of(|x| x as f32).view(), 1e-4);
        // A column that there is not is no number.
        let csr = Csr::new(&[0_i32, 1], &[99], &[1.0], 100).unwrap();
        let mut out = vec![0.0; k];
        w.panel().unwrap().expect("enough outputs").scores(&csr.into(), 0, &mut out);
        assert!(out.iter().all(|s| s.is_nan()));
    }
    assert!(Linear::<f32>::new(2, 3, 1.0).unwrap().panel().unwrap().is_none());
}

/// Columns in any order, some of them twice: the square of their sum, found without sorting where none is.
#[test]
fn squares_of_rows_that_are_not_sorted() {
    let mut random = Uniform::new(6);
    for stored in 0..200 {
        let columns = [8_i64, 300, 1 << 40][stored % 3];
        let mut dense = std::collections::BTreeMap::new();
        let (mut indices, mut values) = (Vec::new(), Vec::new());
        for _ in 0..stored {
            let (j, x) = ((random.draw() * columns as f64) as i64, random.signed());
            indices.push(j);
            values.push(x);
            *dense.entry(j).or_insert(0.0) += x;
        }
        let want: f64 = dense.values().map(|x: &f64| x * x).sum();
        let square = Row::Sparse64(&indices, &values).norm2();
        assert!((square - want).abs() <= 1e-12 * (1.0 + want), "{stored}: {square} {want}");
    }
}
