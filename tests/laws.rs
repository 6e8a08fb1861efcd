//! Compositions that must agree, and quantities that must be what they claim.

use pegasos::{
    AnyLoss, Average, Ball, Binary, Block, Certificate, CrammerSinger, Csr, Dense, DualAscent,
    Error, ErrorKind, Examples, Feasible, Flight, Hinge, Hypothesis, KeptRow, Linear, Loss, Params,
    Regret, Row, Rows, Sampling, Scalar, Schedule, Shards, Simplex, Trainer, Wide, run_all,
};

mod generated;
use generated::{Problem, Rule, add, distance, dot, flat, norm, sign};

const HINGE: Binary<Hinge> = Binary { loss: Hinge, positive: 1 };
const CLASSES: CrammerSinger = CrammerSinger { classes: 3 };

fn trainer<S: Scalar, L: Loss>(loss: L, d: usize, params: Params) -> Trainer<Linear<S>, L> {
    let outputs = loss.zeros().as_ref().len();
    Trainer::new(Linear::new(outputs, d, 1.0).unwrap(), loss, params).unwrap()
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
            let linear = Linear::from_state(6, first.hypothesis().state().clone()).unwrap();
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
        assert!(distance(a.dual(), b.dual()) < 1e-12);
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
    assert!((w.norm2() / w.norm2_afresh() - 1.0).abs() < 1e-12);
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
        let make = |positive| trainer::<f64, _>(Binary { loss: Hinge, positive }, 6, params);
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

/// Epochs on shards of these sizes, each part of a shuffled order.
fn sharded_epochs<L: Loss + Clone + Send, X: Rows>(
    trainer: &mut Trainer<Linear<X::Scalar>, L>,
    data: &Examples<'_, X>,
    sizes: &[usize],
    epochs: std::ops::Range<u64>,
) -> Result<(), Error> {
    for epoch in epochs {
        let order: Vec<usize> = Sampling::Shuffle.epoch(data.len(), 4, epoch)?.collect();
        let mut rest = &order[..];
        let parts: Vec<&[usize]> =
            sizes.iter().map(|&size| rest.split_off(..size).unwrap()).collect();
        let mut shards = Shards::split(trainer, sizes)?;
        shards.run(data, &parts)?;
        shards.merge_into(trainer)?;
    }
    Ok(())
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
    assert!(Trainer::average_of(&[] as &[(f64, &Trainer<Linear<f64>, Binary<Hinge>>)]).is_err());
}

/// The minimum of the objective of a loss on margins, intercept and all: coordinate ascent in the dual,
/// each step by halving an interval, until nothing moves.
fn minimum(problem: &Problem, loss: AnyLoss, lambda: f64) -> f64 {
    let (n, c) = (problem.n as f64, 1.0 / (lambda * problem.n as f64));
    let rows: Vec<Vec<f64>> = (0..problem.n).map(|i| problem.features(i, 1.0)).collect();
    // The loss's conjugate at -a, negated, and its derivative.
    let value = |a: f64| match loss {
        AnyLoss::Hinge => a,
        AnyLoss::SquaredHinge => a - a * a / 4.0,
        AnyLoss::Logistic => {
            -[a, 1.0 - a].iter().filter(|&&p| p > 0.0).map(|p| p * p.ln()).sum::<f64>()
        }
    };
    let slope = |a: f64| match loss {
        AnyLoss::Hinge => 1.0,
        AnyLoss::SquaredHinge => 1.0 - a / 2.0,
        AnyLoss::Logistic => ((1.0 - a) / a).ln(),
    };
    let most = if loss == AnyLoss::SquaredHinge { 1e6 } else { 1.0 };
    let (mut w, mut alpha) = (vec![0.0; problem.d + 1], vec![0.0; problem.n]);
    for pass in 0..1_000_000 {
        for (i, x) in rows.iter().enumerate().filter(|(i, _)| problem.weight[*i] > 0.0) {
            let (y, s) = (sign(problem.y[i]), problem.weight[i]);
            let (margin, q) = (y * dot(&w, x), s * c * dot(x, x));
            let (mut low, mut high): (f64, f64) = (0.0, most);
            while high - low > 1e-15 * high {
                let a = low.midpoint(high);
                if slope(a) > margin + q * (a - alpha[i]) {
                    low = a;
                } else {
                    high = a;
                }
                if a == low && a == high {
                    break;
                }
            }
            let new = if high == most { most } else { low };
            add(&mut w, s * c * y * (new - alpha[i]), x);
            alpha[i] = new;
        }
        if pass % 100 == 99 {
            let rule = Rule::Margin(loss);
            let primal = problem.objective(rule, &w, 1.0, lambda);
            let duals: f64 = alpha.iter().zip(&problem.weight).map(|(&a, s)| s * value(a)).sum();
            let dual = duals / n - lambda / 2.0 * dot(&w, &w);
            if primal - dual < 1e-10 * primal {
                return dual;
            }
        }
    }
    panic!("the reference must be exact: {loss:?} at {lambda}");
}

/// The same for Crammer and Singer's loss: mass moved between two classes of one example at a time.
fn minimum_of_classes(problem: &Problem, classes: usize, lambda: f64) -> f64 {
    let (n, c) = (problem.n as f64, 1.0 / (lambda * problem.n as f64));
    let rows: Vec<Vec<f64>> = (0..problem.n).map(|i| problem.features(i, 1.0)).collect();
    let rule = Rule::CrammerSinger(classes);
    let mut w = vec![vec![0.0; problem.d + 1]; classes];
    let mut p: Vec<Vec<f64>> = vec![vec![0.0; classes]; problem.n];
    p.iter_mut().zip(&problem.y).for_each(|(p, &y)| p[y as usize] = 1.0);
    for pass in 0..1_000_000 {
        for (i, x) in rows.iter().enumerate().filter(|(i, _)| problem.weight[*i] > 0.0) {
            let (y, s) = (problem.y[i] as usize, problem.weight[i]);
            let is_y = |r: usize| f64::from(u8::from(r == y));
            let q = s * c * dot(x, x);
            for from in 0..classes {
                for to in 0..from {
                    let gain = is_y(from) - is_y(to) - dot(&w[from], x) + dot(&w[to], x);
                    let step = (gain / (2.0 * q)).clamp(-p[i][to], p[i][from]);
                    p[i][from] -= step;
                    p[i][to] += step;
                    add(&mut w[from], s * c * step, x);
                    add(&mut w[to], -s * c * step, x);
                }
            }
        }
        if pass % 100 == 99 {
            let w = w.concat();
            let primal = problem.objective(rule, &w, 1.0, lambda);
            let duals = p.iter().zip(&problem.y).zip(&problem.weight);
            let duals: f64 = duals.map(|((p, &y), s)| s * (1.0 - p[y as usize])).sum();
            let dual = duals / n - lambda / 2.0 * dot(&w, &w);
            if primal - dual < 1e-10 * primal {
                return dual;
            }
        }
    }
    panic!("the reference must be exact: {classes} classes at {lambda}");
}

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

    fn check<X: Rows>(
        loss: impl Loss,
        data: &Examples<'_, X>,
        params: Params,
        sampling: Sampling,
        best: f64,
        slack: f64,
    ) -> Certificate {
        let mut trainer = trainer::<X::Scalar, _>(loss, 5, params);
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

/// The scores of an example always sum to 0 over its classes.
#[test]
fn the_rows_of_all_classes_sum_to_zero() {
    let problem = Problem::of_classes(80, 7, 4, 28);
    let data = Examples::new(problem.dense(), &problem.y, Some(&problem.weight)).unwrap();
    let loss = CrammerSinger { classes: 4 };
    let check = |w: Vec<f64>| {
        let mut sum = vec![0.0; 8];
        w.chunks(8).for_each(|w| add(&mut sum, 1.0, w));
        let size = w.iter().fold(0.0_f64, |size, w| size.max(w.abs()));
        assert!(size > 0.0 && sum.iter().all(|sum| sum.abs() < 1e-13 * size), "{sum:?}");
    };
    for params in compositions() {
        let mut trainer = trainer::<f64, _>(loss, 7, params);
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
    let two = CrammerSinger { classes: 2 };
    let halves = |w: &[f64]| {
        let (f0, f1) = w.split_at(7);
        generated::difference(f1, f0)
    };
    let order: Vec<usize> =
        (0..4).flat_map(|epoch| Sampling::Shuffle.epoch(80, 7, epoch).unwrap()).collect();
    for params in compositions() {
        let twice = |schedule| match schedule {
            Schedule::Pegasos => Schedule::Pegasos,
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
        let mut a = trainer::<f64, _>(two, 6, params);
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
        let mut a = DualAscent::new(two, lambda, 80, 6, 1.0).unwrap();
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

/// Solves to a relative gap and checks all that a certificate says. Returns P and the weights.
fn solves<X: Rows>(
    loss: impl Loss,
    rule: Rule,
    x: X,
    problem: &Problem,
    lambda: f64,
    tol: f64,
) -> (f64, Vec<f64>) {
    let data = Examples::new(x, &problem.y, Some(&problem.weight)).unwrap();
    let mut dual = DualAscent::new(loss, lambda, problem.n, problem.d, 1.0).unwrap();
    let mut certificate = dual.solve(&data, tol, 1000, 0).unwrap();
    for _ in 0..300 {
        if certificate.relative_gap() > tol {
            // Where a lambda is too weak for coordinates alone.
            dual.leap(&data, tol).unwrap();
            certificate = dual.solve(&data, tol, 1000, 0).unwrap();
        }
    }
    let w = flat(&dual.result::<X::Scalar>());
    let primal = problem.objective(rule, &w, 1.0, lambda);
    let bound = problem.image(rule, dual.dual(), 1.0, lambda).1;
    let what = format!("{rule:?} at {lambda} to {tol}: {certificate:?}, {primal} and {bound}");
    assert!(certificate.relative_gap() <= tol, "{what}");
    assert!((certificate.primal - primal).abs() <= 1e-9 * primal, "{what}");
    assert!((certificate.dual - bound).abs() <= 1e-9 * primal, "{what}");
    // Where that does not take for ever.
    if lambda >= 1e-2 {
        let best = match rule {
            Rule::Margin(loss) => minimum(problem, loss, lambda),
            Rule::CrammerSinger(classes) => minimum_of_classes(problem, classes, lambda),
        };
        assert!(certificate.dual <= best * (1.0 + 2e-10), "{what}, {best}");
        assert!(certificate.primal >= best * (1.0 - 1e-12), "{what}, {best}");
    }
    (primal, w)
}

/// The same in both layouts and scalars, for a rule's loss.
fn solves_all(rule: Rule, problem: &Problem, lambda: f64) {
    fn each(loss: impl Loss + Clone, rule: Rule, problem: &Problem, lambda: f64) {
        solves(loss.clone(), rule, problem.csr().view(), problem, lambda, 1e-6);
        let (best, w) = solves(loss.clone(), rule, problem.dense(), problem, lambda, 1e-6);
        // What rounding the weights to f32 may cost, losses being steep as far as they reach.
        let steep = |i: usize| {
            let f = problem.scores(i, &w, 1.0);
            norm(&rule.coef(&f, problem.y[i])).max(1.0) * problem.weight[i] / problem.n as f64
        };
        let size: f64 =
            (0..problem.n).map(|i| steep(i) * norm(&problem.features(i, 1.0)) * norm(&w)).sum();
        let tol = 1e-6 + f64::from(f32::EPSILON) * (size + lambda * dot(&w, &w)) / best;
        let x = problem.single();
        let dense = Dense::new(&x, problem.n, problem.d).unwrap();
        solves(loss.clone(), rule, dense, problem, lambda, tol);
        solves(loss, rule, problem.csr_of(|x| x as f32).view(), problem, lambda, tol);
    }
    // What f32 holds, so that both scalars have one optimum.
    let problem = problem.clone().rounded();
    match rule {
        Rule::Margin(loss) => each(Binary { loss, positive: 1 }, rule, &problem, lambda),
        Rule::CrammerSinger(classes) => each(CrammerSinger { classes }, rule, &problem, lambda),
    }
}

const LAMBDAS: [f64; 5] = [1e-6, 1e-4, 1e-2, 1.0, 10.0];
const LOSSES: [AnyLoss; 3] = [AnyLoss::Hinge, AnyLoss::SquaredHinge, AnyLoss::Logistic];

#[test]
fn dual_ascent_reaches_the_optimum() {
    for lambda in LAMBDAS {
        let mut problem = Problem::new(40, 4, 31);
        // So that no w has a loss of 0.
        problem.y.iter_mut().step_by(5).for_each(|y| *y = 1 - *y);
        for loss in LOSSES {
            solves_all(Rule::Margin(loss), &problem, lambda);
            if lambda >= 1e-2 {
                solves_all(Rule::Margin(loss), &problem.clone().unweighted(), lambda);
            }
        }
        let mut problem = Problem::of_classes(30, 3, 3, 32);
        problem.y.iter_mut().step_by(5).for_each(|y| *y = (*y + 1) % 3);
        solves_all(Rule::CrammerSinger(3), &problem, lambda);
        if lambda >= 1e-2 {
            solves_all(Rule::CrammerSinger(3), &problem.unweighted(), lambda);
        }
    }
}

/// Rows of zeros, rows twice, a single row, examples that do not count.
#[test]
fn dual_ascent_takes_odd_rows() {
    let odd = |mut problem: Problem| {
        problem.x[..2 * problem.d].fill(0.0);
        (problem.y[0], problem.y[1]) = (0, 1);
        problem.x.extend_from_within(..);
        problem.y.extend_from_within(..);
        problem.weight.extend_from_within(..);
        problem.n *= 2;
        problem
    };
    let single = |k| Problem { n: 1, d: 2, x: vec![0.6, -1.0], y: vec![k], weight: vec![1.0] };
    for lambda in LAMBDAS {
        for loss in LOSSES {
            solves_all(Rule::Margin(loss), &odd(Problem::new(20, 3, 33)), lambda);
            solves_all(Rule::Margin(loss), &single(0), lambda);
        }
        solves_all(Rule::CrammerSinger(3), &odd(Problem::of_classes(20, 3, 3, 33)), lambda);
        solves_all(Rule::CrammerSinger(3), &single(2), lambda);
    }
    // Without an intercept a row of zeros has no margin to move.
    let data = Examples::new(Dense::new(&[0.0, 0.0], 2, 1).unwrap(), &[0, 1], None).unwrap();
    for loss in LOSSES {
        let mut dual = DualAscent::new(Binary { loss, positive: 1 }, 0.1, 2, 1, 0.0).unwrap();
        let certificate = dual.solve(&data, 1e-12, 10, 0).unwrap();
        let value = Rule::Margin(loss).value(&[0.0], 0);
        assert!((certificate.primal - value).abs() < 1e-15, "{loss:?}: {certificate:?}");
        assert!((certificate.dual - value).abs() < 1e-15, "{loss:?}: {certificate:?}");
    }
    let mut dual = DualAscent::new(CLASSES, 0.1, 2, 1, 0.0).unwrap();
    let certificate = dual.solve(&data, 1e-12, 10, 0).unwrap();
    assert_eq!((certificate.primal, certificate.dual), (1.0, 1.0));
}

/// What is divided by and what cancels: `q` is small where lambda is strong, large where it is weak.
#[test]
fn no_lambda_makes_a_bound_exceed_the_objective() {
    fn law(loss: impl Loss, rule: Rule, problem: &Problem, lambda: f64) {
        let data = Examples::new(problem.dense(), &problem.y, Some(&problem.weight)).unwrap();
        let mut dual = DualAscent::new(loss, lambda, problem.n, problem.d, 1.0).unwrap();
        let certificate = dual.solve(&data, 1e-6, 100, 0).unwrap();
        let gap = certificate.relative_gap();
        assert!(gap >= -1e-12, "{rule:?} at {lambda}: {certificate:?}");
        assert!(gap <= 1e-6 || lambda < 1.0, "{rule:?} at {lambda}: {certificate:?}");
        problem.image(rule, dual.dual(), 1.0, lambda);
    }
    let problem = Problem::new(40, 4, 31);
    let classes = Problem::of_classes(30, 3, 3, 32);
    for lambda in [1e-12, 1e-9, 1e2, 1e4, 1e6, 1e8, 1e10, 1e12] {
        for loss in LOSSES {
            law(Binary { loss, positive: 1 }, Rule::Margin(loss), &problem, lambda);
        }
        law(CLASSES, Rule::CrammerSinger(3), &classes, lambda);
    }
}

/// What f32 has rounded away of a trainer's w makes no bound too high.
#[test]
fn dual_ascent_goes_on_from_f32() {
    fn law(loss: impl Loss + Clone, problem: &Problem, best: f64) {
        let x = problem.single();
        let x = Dense::new(&x, problem.n, problem.d).unwrap();
        let data = Examples::new(x, &problem.y, Some(&problem.weight)).unwrap();
        let params = Params { lambda: 0.02, ..Params::default() };
        let mut trainer = trainer::<f32, _>(loss, problem.d, params);
        trainer.keep_ledger(problem.n);
        for epoch in 0..100 {
            trainer.run(&data, Sampling::Shuffle.epoch(problem.n, 1, epoch).unwrap()).unwrap();
            if epoch % 20 == 0 {
                let stood = trainer.certificate(&data).unwrap();
                let mut dual = DualAscent::take_over(&trainer, &data).unwrap();
                let stands = dual.certificate(&data).unwrap();
                // Or from a = 0, where D is 0 for these losses.
                assert!(stands.dual >= stood.dual.min(0.0) - 1e-6 * stood.dual.abs());
                assert!(stands.dual <= best + 1e-10 && stands.primal >= best - 1e-10);
                let end = dual.solve(&data, 1e-6, 10_000, 0).unwrap();
                assert!(end.relative_gap() <= 1e-6, "{end:?}");
                assert!(end.dual <= best * (1.0 + 2e-10), "after {stood:?}: {end:?}, {best}");
            }
        }
    }
    for loss in LOSSES {
        let mut problem = Problem::new(60, 4, 40).rounded();
        problem.y.iter_mut().step_by(5).for_each(|y| *y = 1 - *y);
        let best = minimum(&problem, loss, 0.02);
        law(Binary { loss, positive: 1 }, &problem, best);
    }
    let problem = Problem::of_classes(60, 4, 3, 40).rounded();
    law(CLASSES, &problem, minimum_of_classes(&problem, 3, 0.02));
}

/// A leap ends on a point of the dual that is higher, or where it began.
#[test]
fn a_leap_lands_higher_or_not_at_all() {
    for constant in [0.0, 1.0] {
        for lambda in LAMBDAS {
            for loss in LOSSES {
                for problem in [Problem::new(300, 4, 37), Problem::new(60, 3, 38).unweighted()] {
                    let problem = problem.rounded();
                    let csr = problem.csr_of(|x| x as f32);
                    let (n, rule) = (problem.n, Rule::Margin(loss));
                    let data =
                        Examples::new(csr.view(), &problem.y, Some(&problem.weight)).unwrap();
                    let loss = Binary { loss, positive: 1 };
                    let mut dual = DualAscent::new(loss, lambda, n, problem.d, constant).unwrap();
                    dual.run(&data, 0..n).unwrap();
                    for tol in [1e-3, 1e-6, 1e-6] {
                        let before = (dual.dual_value(&data), dual.dual().to_vec());
                        let leapt = dual.leap(&data, tol).unwrap();
                        let what = format!("{rule:?} at {lambda} to {tol}, {constant}");
                        let now = dual.certificate(&data).unwrap();
                        assert!(!leapt || dual.dual_value(&data) > before.0, "{what}");
                        assert_eq!(leapt, dual.dual() != before.1, "{what}");
                        let (image, bound) = problem.image(rule, dual.dual(), constant, lambda);
                        let w = flat(&dual.result::<f64>());
                        assert!(distance(&w, &image) < 1e-9, "{what}");
                        assert!((now.dual - bound).abs() <= 1e-9 * now.primal, "{what}");
                    }
                    // And coordinate ascent goes on from there.
                    let before = dual.dual_value(&data);
                    dual.run(&data, 0..n).unwrap();
                    assert!(dual.dual_value(&data) >= before - 1e-14 * (1.0 + before));
                }
            }
        }
    }
    let problem = Problem::of_classes(60, 4, 3, 39);
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    let mut dual = DualAscent::new(CLASSES, 0.01, 60, 4, 1.0).unwrap();
    assert!(!dual.leap(&data, 1e-3).unwrap());
    let mut wrong = DualAscent::new(CLASSES, 0.01, 60, 5, 1.0).unwrap();
    assert!(wrong.leap(&data, 1e-3).is_err());
}

/// The k-th column of k pieces.
#[test]
fn dual_ascent_takes_repeated_columns() {
    let problem = Problem::new(30, 3, 34).unweighted();
    for pieces in [2, 3, 8] {
        let (mut indptr, mut indices, mut values) = (vec![0_i32], Vec::new(), Vec::new());
        for i in 0..30 {
            for (j, x) in problem.row(i).iter().enumerate() {
                indices.extend(vec![j as i32; pieces]);
                values.extend(vec![x / pieces as f64; pieces]);
            }
            indptr.push(values.len() as i32);
        }
        let repeated = Csr::new(&indptr, &indices, &values, 3).unwrap();
        let data = Examples::new(repeated, &problem.y, None).unwrap();
        for lambda in [1e-3, 1e-1] {
            let mut dual = DualAscent::new(HINGE, lambda, 30, 3, 1.0).unwrap();
            let mut last = 0.0;
            for i in (0..5).flat_map(|_| 0..30) {
                dual.run(&data, [i]).unwrap();
                let now = dual.dual_value(&data);
                assert!(now >= last - 1e-12, "{pieces} {lambda}: {now} after {last}");
                last = now;
            }
            let best = minimum(&problem, AnyLoss::Hinge, lambda);
            let certificate = dual.solve(&data, 1e-6, 100_000, 0).unwrap();
            assert!(certificate.relative_gap() <= 1e-6, "{pieces} {lambda}: {certificate:?}");
            assert!(certificate.dual <= best * (1.0 + 2e-10));
        }
    }
}

#[test]
fn the_settled_sleep_and_change_nothing() {
    fn law(loss: impl Loss + Clone, problem: &Problem, lambda: f64) {
        let n = problem.n;
        let data = Examples::new(problem.dense(), &problem.y, Some(&problem.weight)).unwrap();
        let mut all = DualAscent::new(loss.clone(), lambda, n, problem.d, 1.0).unwrap();
        let mut due = all.clone();
        let mut visited = vec![0; n];
        let mut visits = 0;
        for pass in 1..=400 {
            all.run(&data, 0..n).unwrap();
            let order: Vec<usize> = due.pass(Sampling::Shuffle, 0).unwrap().collect();
            visits += order.len();
            for &i in &order {
                // Nobody sleeps for ever.
                assert!(pass - visited[i] <= 32, "{i} slept from {} to {pass}", visited[i]);
                visited[i] = pass;
            }
            assert!(pass > 1 || order.len() == n);
            due.run(&data, order).unwrap();
            if pass % 50 == 0 {
                due.certificate(&data).unwrap();
            }
        }
        assert!(visited.iter().all(|&last| 400 - last < 32));
        assert!(visits < 400 * n / 2, "{visits} of {}", 400 * n);
        let (all, due) = (all.certificate(&data).unwrap(), due.certificate(&data).unwrap());
        assert!(due.relative_gap() < 1e-9 && all.relative_gap() < 1e-9, "{due:?} {all:?}");
        assert!((due.dual / all.dual - 1.0).abs() < 1e-9, "{due:?} {all:?}");
    }
    law(HINGE, &Problem::new(200, 4, 35), 0.01);
    law(CLASSES, &Problem::of_classes(200, 4, 3, 35), 0.01);
}

/// Who fell asleep is woken by an evaluation that finds them wrong, not by the next pass alone.
#[test]
fn an_evaluation_wakes_whom_a_step_would_move() {
    fn law(loss: impl Loss + Clone, problem: &Problem) {
        let n = problem.n;
        let data = Examples::new(problem.dense(), &problem.y, Some(&problem.weight)).unwrap();
        let mut dual = DualAscent::new(loss, 1e-3, n, problem.d, 1.0).unwrap();
        let due = |dual: &DualAscent<_>| -> Vec<usize> {
            let mut due: Vec<usize> = dual.clone().pass(Sampling::Storage, 0).unwrap().collect();
            due.sort_unstable();
            due
        };
        let mut woken = 0;
        for _ in 0..60 {
            let order = dual.pass(Sampling::Shuffle, 0).unwrap();
            dual.run(&data, order).unwrap();
            let before = due(&dual);
            dual.certificate(&data).unwrap();
            let after = due(&dual);
            for i in 0..n {
                let moves = dual.clone().run(&data, [i]).unwrap().updates > 0;
                assert!(!moves || after.contains(&i), "{i} sleeps");
                woken += usize::from(moves && !before.contains(&i));
            }
        }
        assert!(woken > 0);
    }
    law(HINGE, &Problem::new(80, 4, 41));
    law(CLASSES, &Problem::of_classes(80, 4, 3, 41));
}

/// Cut short, ascent stands where it stands, and what it says is true.
#[test]
fn a_certificate_of_dual_ascent_claims_no_more_than_the_truth() {
    fn law(loss: impl Loss + Clone, rule: Rule, problem: &Problem, best: f64) {
        let problem = problem.clone().rounded();
        let x = problem.single();
        let x = Dense::new(&x, problem.n, problem.d).unwrap();
        let data = Examples::new(x, &problem.y, Some(&problem.weight)).unwrap();
        let mut dual = DualAscent::new(loss, 0.01, problem.n, problem.d, 1.0).unwrap();
        for epoch in 0..30 {
            let order = Sampling::Replacement.epoch(problem.n, 1, epoch).unwrap();
            dual.run(&data, order.take(7)).unwrap();
            let now = dual.certificate(&data).unwrap();
            assert!(now.dual <= best + 1e-10 && now.primal >= best - 1e-10, "{now:?}, {best}");
            let primal = problem.objective(rule, &flat(&dual.result::<f32>()), 1.0, 0.01);
            assert!((now.primal / primal - 1.0).abs() < 1e-9, "{now:?}, {primal}");
            assert!((dual.dual_value(&data) - now.dual).abs() < 1e-9, "{now:?}");
            assert_eq!(dual.certificate(&data).unwrap(), now);
        }
    }
    for loss in [AnyLoss::Hinge, AnyLoss::SquaredHinge, AnyLoss::Logistic] {
        let problem = Problem::new(40, 4, 36).rounded();
        let best = minimum(&problem, loss, 0.01);
        law(Binary { loss, positive: 1 }, Rule::Margin(loss), &problem, best);
    }
    let problem = Problem::of_classes(40, 4, 3, 36).rounded();
    let best = minimum_of_classes(&problem, 3, 0.01);
    law(CLASSES, Rule::CrammerSinger(3), &problem, best);
}

/// A kept row computes, bit for bit, what the row did that it is a copy of; a wide one what its
/// features would in f64.
#[test]
fn rows_compute_the_same_however_they_are_held() {
    fn kept<R: Row>(row: R, v: &[R::Scalar], wide: &[f64]) {
        let copy = row.keep();
        assert_eq!(row.dot(v).to_bits(), (&copy).dot(v).to_bits());
        assert_eq!(row.dot_wide(wide).to_bits(), (&copy).dot_wide(wide).to_bits());
        assert_eq!(row.norm2().to_bits(), (&copy).norm2().to_bits());
        let (mut a, mut b) = (v.to_vec(), v.to_vec());
        assert_eq!(row.axpy(0.3, &mut a).to_bits(), (&copy).axpy(0.3, &mut b).to_bits());
        assert_eq!(a, b);
        let (mut a, mut b) = (wide.to_vec(), wide.to_vec());
        assert_eq!(row.axpy_wide(0.3, &mut a).to_bits(), (&copy).axpy_wide(0.3, &mut b).to_bits());
        assert_eq!(a, b);
        assert_eq!((&copy).keep(), copy);
        let wide_copy = Wide(row).keep();
        assert_eq!(Wide(row).dot(wide).to_bits(), row.dot_wide(wide).to_bits());
        let near = |a: f64, b: f64| (a - b).abs() < 1e-13 * (1.0 + b.abs());
        assert!(near((&wide_copy).dot(wide), row.dot_wide(wide)));
        let (mut a, mut b) = (wide.to_vec(), wide.to_vec());
        assert!(near(Wide(row).axpy(0.3, &mut a), (&wide_copy).axpy(0.3, &mut b)));
        assert!(distance(&a, &b) < 1e-14);
    }
    for d in [1, 3, 8, 15, 16, 17, 40, 70, 130] {
        let problem = Problem::new(4, d, d as u64);
        let single = problem.single();
        let (csr, csr_f32) = (problem.csr(), problem.csr_of(|x| x as f32));
        for i in 0..3 {
            let v = problem.row(3);
            let v_f32 = &single[3 * d..];
            kept(problem.dense().row(i), v, v);
            kept(csr.view().row(i), v, v);
            kept(Dense::new(&single, 4, d).unwrap().row(i), v_f32, v);
            kept(csr_f32.view().row(i), v_f32, v);
            // Many outputs at once are each of them.
            for outputs in [1, 2, 4, 5, 9] {
                let w: Vec<f64> = (0..outputs).flat_map(|o| problem.row(o % 4).to_vec()).collect();
                let w_f32: Vec<f32> = w.iter().map(|&w| w as f32).collect();
                let (mut out, mut wide, mut sparse) =
                    (vec![0.0; outputs], vec![0.0; outputs], vec![0.0; outputs]);
                problem.dense().row(i).dots(&w, d, &mut out);
                Dense::new(&single, 4, d).unwrap().row(i).dots_wide(&w, d, &mut wide);
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
fn without_the_closed_form_there_is_no_certificate() {
    let problem = Problem::new(20, 3, 9);
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    let base = Params { lambda: 0.1, ..Params::default() };
    for params in [
        Params { set: Some(Ball { radius: 1.0 }), ..base },
        Params { schedule: Schedule::Constant { eta0: 0.1 }, ..base },
    ] {
        let mut trainer = trainer(HINGE, 3, params);
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
    let mut long = trainer::<f32, _>(HINGE, 4, params);
    for _ in 0..1000 {
        long.run(&data_f32(&problem, &mut Vec::new()), 0..50).unwrap();
    }
    let w = long.hypothesis();
    assert!(w.norm2() > 1e-3 && (w.norm2() / w.norm2_afresh() - 1.0).abs() < 1e-3);
    assert!(long.result().weights().iter().all(|w| w.is_finite()));
    let mut twice = trainer::<f64, _>(HINGE, 4, params);
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
    let mut trainer = trainer(HINGE, 2, Params::default());
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
    assert!(trainer::<f64, _>(HINGE, 2, Params::default()).run(&data, 0..2).is_err());
    let any = Binary { loss: AnyLoss::Hinge, positive: 1 };
    assert!(Trainer::new(Linear::<f64>::new(2, 1, 0.0).unwrap(), any, Params::default()).is_err());
}

#[test]
fn bad_rows_stop_a_delayed_run_before_they_are_learned() {
    fn law(loss: impl Loss<Scores: PartialEq> + Clone, classes: u32) {
        let x = [1.0, 2.0, 0.5, 1.0, f64::NAN, 0.0, 1.0, 1.0, f64::INFINITY, 1.0];
        let y: Vec<u32> = (0..5).map(|i| i % classes).collect();
        let dense = Examples::new(Dense::new(&x, 5, 2).unwrap(), &y, None).unwrap();
        let columns = [0, 1, 0, 1, 0, 7, 0, 1, 0, -2];
        let csr = Csr::new(&[0, 2, 4, 6, 8, 10], &columns, &[1.0; 10], 2).unwrap();
        let sparse = Examples::new(csr, &y, None).unwrap();
        for delay in [0, 1, 2, 5] {
            let params = Params { block: Block::Delayed(delay), ..Params::default() };
            let mut good = trainer::<f64, _>(loss.clone(), 2, params);
            good.run(&dense, [0, 1, 3, 0]).unwrap();
            for bad in [2, 4, 5] {
                let mut stopped = trainer::<f64, _>(loss.clone(), 2, params);
                let error = stopped.run(&dense, [0, 1, 3, 0, bad, 1]).unwrap_err();
                let kind = error.kind();
                assert!(matches!(kind, ErrorKind::NonFinite { .. } | ErrorKind::Index { .. }));
                assert_eq!(stopped.hypothesis(), good.hypothesis());
                assert_eq!(stopped.flights(), good.flights());
                assert_eq!(stopped.t(), 4);
                let mut goes_on = good.clone();
                stopped.run(&dense, [1, 0, 3]).unwrap();
                goes_on.run(&dense, [1, 0, 3]).unwrap();
                assert_eq!(stopped.hypothesis(), goes_on.hypothesis());
            }
            for bad in [2, 4] {
                let mut stopped = trainer::<f64, _>(loss.clone(), 2, params);
                let error = stopped.run(&sparse, [0, 1, bad]).unwrap_err();
                assert!(matches!(error.kind(), ErrorKind::Index { name: "X.indices", .. }));
                assert_eq!((stopped.t(), stopped.flights().len()), (2, delay.min(2)));
            }
        }
    }
    law(HINGE, 2);
    law(CLASSES, 3);
}

#[test]
fn bad_rows_stop_dual_ascent_before_they_are_learned() {
    fn law(loss: impl Loss + Clone) {
        let x = [1.0, 2.0, 0.5, 1.0, f64::NAN, 0.0, 1e200, 1.0, f64::INFINITY, 1.0];
        let y = [0, 1, 0, 1, 1];
        let dense = Examples::new(Dense::new(&x, 5, 2).unwrap(), &y, None).unwrap();
        let columns = [0, 1, 0, 1, 0, 7, 0, 1, 0, -2];
        let csr = Csr::new(&[0, 2, 4, 6, 8, 10], &columns, &[1.0; 10], 2).unwrap();
        let sparse = Examples::new(csr, &y, None).unwrap();
        let new = || DualAscent::new(loss.clone(), 0.1, 5, 2, 1.0).unwrap();
        let mut good = new();
        good.run(&dense, [0, 1, 0]).unwrap();
        let good = (good.dual().to_vec(), flat(&good.result::<f64>()));
        for bad in [2, 3, 4, 5] {
            let mut stopped = new();
            let error = stopped.run(&dense, [0, 1, 0, bad, 1]).unwrap_err();
            let kind = error.kind();
            assert!(matches!(kind, ErrorKind::NonFinite { .. } | ErrorKind::Index { .. }));
            assert_eq!((stopped.dual().to_vec(), flat(&stopped.result::<f64>())), good);
        }
        let kind = new().certificate(&dense).unwrap_err();
        assert!(matches!(kind.kind(), ErrorKind::NonFinite { name: "X", .. }));
        for bad in [2, 4] {
            let mut stopped = new();
            let error = stopped.run(&sparse, [0, 1, bad]).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Index { name: "X.indices", .. }));
            assert!(stopped.dual()[2 * stopped.dual().len() / 5..].iter().all(|&a| a == 0.0));
        }
        assert!(new().certificate(&sparse).is_err());
        assert!(new().solve(&sparse, 1e-3, 10, 0).is_err());
    }
    law(HINGE);
    law(CLASSES);
}

#[test]
fn the_other_doors_refuse_what_does_not_fit_too() {
    let new = |lambda, d, constant| DualAscent::new(HINGE, lambda, 3, d, constant).err();
    let linear = || Linear::<f64>::new(1, 2, 0.0).unwrap();
    let params = Params::default();
    let ball = |radius| Trainer::new(linear(), HINGE, params.within(Ball { radius })).err();
    let set = |radius| {
        Trainer::new(linear(), HINGE, Params { set: Some(Ball { radius }), ..params }).err()
    };
    let batch = |block| {
        trainer::<f64, _>(HINGE, 2, Params { block, ..params }).keep_regret(Regret::default()).err()
    };
    let split = |block, rows: &[usize]| {
        Shards::split(&trainer::<f64, _>(HINGE, 2, Params { block, ..params }), rows).err()
    };
    let one = Block::Mean(1);
    let refused = [
        new(0.0, 2, 0.0),
        new(-1.0, 2, 0.0),
        new(f64::NAN, 2, 0.0),
        new(f64::INFINITY, 2, 0.0),
        new(1e-320, 2, 0.0),
        new(0.1, 0, 0.0),
        new(0.1, usize::MAX, 0.0),
        new(0.1, 2, -1.0),
        new(0.1, 2, f64::NAN),
        ball(0.0),
        ball(-1.0),
        ball(f64::NAN),
        ball(f64::INFINITY),
        set(0.0),
        set(f64::NAN),
        batch(Block::Mean(2)),
        batch(Block::Mean(100)),
        split(one, &[]),
        split(one, &[0]),
        split(one, &[3, 0, 2]),
        split(Block::Delayed(0), &[3, 2]),
        split(Block::Delayed(4), &[3, 2]),
        Regret::from_numbers(&[1.0; 6]).err(),
        Regret::from_numbers(&[]).err(),
    ];
    for (k, error) in refused.into_iter().enumerate() {
        assert!(error.is_some(), "number {k}");
    }
    assert!(batch(one).is_none() && batch(Block::Delayed(3)).is_none());
    assert!(ball(1e-9).is_none() && set(1e9).is_none());

    let x = [1.0, 2.0, 0.5, 1.0, 3.0, 0.0];
    let data = Examples::new(Dense::new(&x, 3, 2).unwrap(), &[0, 1, 0], None).unwrap();
    for (n, d) in [(2, 2), (4, 2), (3, 1), (3, 3)] {
        let mut dual = DualAscent::new(HINGE, 0.1, n, d, 1.0).unwrap();
        assert!(dual.run(&data, 0..3).is_err(), "{n} x {d}");
        assert!(dual.certificate(&data).is_err(), "{n} x {d}");
        assert!(dual.solve(&data, 0.1, 1, 0).is_err(), "{n} x {d}");
    }
    // Another length: what a trainer knows of other rows is of no use.
    let mut trainer = trainer::<f64, _>(HINGE, 2, params);
    trainer.keep_ledger(3);
    trainer.run(&data, 0..3).unwrap();
    let short = Examples::new(Dense::new(&x[..4], 2, 2).unwrap(), &[0, 1], None).unwrap();
    assert!(trainer.run(&short, 0..2).is_err());
    let fresh = DualAscent::take_over(&trainer, &short).unwrap();
    assert!(fresh.dual().len() == 2 && fresh.dual().iter().all(|&a| a == 0.0));
    let without = Params { lambda: 0.0, schedule: Schedule::Constant { eta0: 0.1 }, ..params };
    let without = Trainer::new(linear(), HINGE, without).unwrap();
    assert!(DualAscent::take_over(&without, &data).is_err());

    let mut shards = Shards::split(&trainer, &[2, 1]).unwrap();
    assert!(shards.run(&data, &[&[0, 1]]).is_err());
    assert!(shards.run(&data, &[&[0, 1], &[2], &[]]).is_err());
    assert!(shards.run(&data, &[&[0, 1], &[3]]).is_err());
    assert!(shards.run(&short, &[&[0], &[1]]).is_err());
}

#[test]
fn a_label_that_is_no_class_is_refused() {
    let x = [1.0, 2.0, 0.5, 1.0];
    let data = Examples::new(Dense::new(&x, 2, 2).unwrap(), &[0, 3], None).unwrap();
    assert!(trainer::<f64, _>(CLASSES, 2, Params::default()).run(&data, 0..2).is_err());
    let mut dual = DualAscent::new(CLASSES, 0.1, 2, 2, 1.0).unwrap();
    assert!(dual.run(&data, 0..2).is_err());
    assert!(dual.certificate(&data).is_err());
}

#[test]
fn a_delay_of_any_length_is_one() {
    let x = [1.0, 2.0, 0.5, 1.0];
    let data = Examples::new(Dense::new(&x, 2, 2).unwrap(), &[0, 1], None).unwrap();
    let params = Params { block: Block::Delayed(usize::MAX), ..Params::default() };
    let w = Linear::<f64>::new(1, 2, 1.0).unwrap();
    if let Ok(mut trainer) = Trainer::new(w, HINGE, params) {
        trainer.run(&data, 0..2).unwrap();
        assert_eq!((trainer.t(), trainer.flights().len()), (2, 2));
    }
}

#[test]
fn an_average_of_factors_that_are_no_numbers_is_refused() {
    let x = Dense::new(&[1.0, 2.0], 1, 2).unwrap();
    let mut a = trainer::<f64, _>(HINGE, 2, Params::default());
    a.run(&Examples::new(x, &[1], None).unwrap(), [0]).unwrap();
    for factor in [f64::NAN, f64::INFINITY] {
        assert!(Trainer::average_of(&[(factor, &a), (0.5, &a)]).is_err(), "{factor}");
    }
}

#[test]
fn more_examples_than_memory_can_hold_are_refused() {
    assert!(DualAscent::new(HINGE, 0.1, usize::MAX, 2, 0.0).is_err());
    assert!(DualAscent::new(CLASSES, 0.1, usize::MAX / 2, 2, 0.0).is_err());
}

/// A norm without the distance that goes with it.
#[test]
fn half_a_gradient_in_flight_is_refused() {
    assert!(Regret::from_numbers(&[1.0; 7]).is_ok());
    assert!(Regret::from_numbers(&[1.0; 9]).is_ok());
    assert!(Regret::from_numbers(&[1.0; 8]).is_err());
}

#[test]
fn flights_that_do_not_fit_stop_a_run() {
    let x = Dense::new(&[1.0, 2.0, 0.5, 1.0], 2, 2).unwrap();
    let data = Examples::new(x, &[0, 1], None).unwrap();
    let params = Params { block: Block::Delayed(1), ..Params::default() };
    let row = || KeptRow::Dense(vec![1.0, 2.0]);
    let mut ledger = trainer::<f64, _>(HINGE, 2, params);
    ledger.keep_ledger(2);
    ledger.set_flights([Flight { example: 7, row: row(), coef: [1.0] }].into());
    assert!(ledger.run(&data, 0..2).is_err());
    let mut classes = trainer::<f64, _>(CLASSES, 2, params);
    classes.set_flights([Flight { example: 0, row: row(), coef: vec![1.0; 5] }].into());
    assert!(classes.run(&data, 0..2).is_err());
}
