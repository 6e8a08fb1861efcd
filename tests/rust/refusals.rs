//! What does not fit is refused, with an error, before anything is learned.

use pegasos::{
    AnyLoss, Average, Ball, Binary, Block, Budgeted, Csr, Dense, DualAscent, ErrorKind, Examples,
    Expansion, Fit, Flight, Hypothesis, Kernel, KernelAscent, KernelProblem, Linear,
    LinearProblems, Loss, Maintenance, OwnedRow, Params, Policy, Refit, Regret, Schedule, Shards,
    Span, Trainer,
};

use crate::generated::{CLASSES, HINGE, Problem, flat, joint, trainer};

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
        Params { schedule: Schedule::Forgetting { horizon: 0.5 }, ..Params::default() }
            .check()
            .err(),
        Params { schedule: Schedule::Forgetting { horizon: f64::NAN }, ..Params::default() }
            .check()
            .err(),
        Params {
            lambda: 0.0,
            schedule: Schedule::Forgetting { horizon: 2.0 },
            ..Params::default()
        }
        .check()
        .err(),
        Params {
            schedule: Schedule::Forgetting { horizon: 2.0 },
            average: Average::Uniform,
            ..Params::default()
        }
        .check()
        .err(),
        Schedule::forgetting(0.0).err(),
        Schedule::forgetting(-1.0).err(),
        Schedule::forgetting(f64::NAN).err(),
        Schedule::forgetting(f64::INFINITY).err(),
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

/// A w that keeps rows: their values are looked at before it does, whatever their scores are.
#[test]
fn bad_rows_stop_a_run_with_a_kernel_before_they_are_kept() {
    fn law<H: Hypothesis<Scalar = f64> + Clone>(new: impl Fn() -> H, dense: bool) {
        let mut problems: Vec<(Vec<i32>, Vec<f64>, bool)> = Vec::new();
        let (columns, values) = ([0, 1, 0, 2, 1, 2, 0, 1, 2, 0], [0.5; 10]);
        for at in [0, 6] {
            for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                let mut values = values.to_vec();
                values[at] = bad;
                problems.push((columns.to_vec(), values, false));
            }
            for bad in [3, 1_000_000_000, -1, i32::MIN] {
                let mut columns = columns.to_vec();
                columns[at] = bad;
                problems.push((columns, values.to_vec(), true));
            }
        }
        let y = [0, 1, 0, 1, 0];
        let blocks = [Block::Mean(1), Block::Mean(2), Block::Delayed(0), Block::Delayed(2)];
        for ((columns, mut values, index), block) in
            problems.iter().cloned().flat_map(|p| blocks.map(|block| (p.clone(), block)))
        {
            // The first two of a row of four are the row of a sparse matrix.
            let csr = Csr::new(&[0, 2, 4, 6, 8, 10], &columns, &values, 3).unwrap();
            let sparse = Examples::new(csr, &y, None).unwrap();
            let data = match dense {
                true if index => continue,
                true => {
                    values.extend([0.5; 5]);
                    Examples::new(Dense::new(&values, 5, 3).unwrap(), &y, None).unwrap()
                }
                false => sparse,
            };
            let bad = (0..5).find(|&i| data.check(i..i + 1).is_err()).unwrap();
            let order: Vec<usize> = (0..5).filter(|&i| i != bad).collect();
            let params = Params { lambda: 0.1, block, ..Params::default() };
            // First of all; as a second step; after two rounds over the others.
            for good in [&[][..], &order[..2], &[&order[..], &order].concat()] {
                let mut want = Trainer::new(new(), HINGE, params).unwrap();
                want.run(&data, good.iter().copied()).unwrap();
                let mut stopped = Trainer::new(new(), HINGE, params).unwrap();
                let after = order.iter().copied();
                let run = good.iter().copied().chain([bad]).chain(after);
                let error = stopped.run(&data, run).unwrap_err();
                let fits = match index {
                    true => matches!(error.kind(), ErrorKind::Index { name: "X.indices", .. }),
                    false => {
                        error.to_string().contains(&format!("row {bad}, "))
                            && matches!(error.kind(), ErrorKind::NonFinite { name: "X", .. })
                    }
                };
                assert!(fits, "{error}: {block:?}, {bad} after {good:?}");
                assert_eq!((stopped.t(), stopped.updates()), (want.t(), want.updates()));
                let scores = |trainer: &Trainer<H, _>| {
                    let mut scores = [0.0; 4];
                    let row = |i: &usize| data.rows().row(*i);
                    for (i, score) in order.iter().zip(scores.chunks_mut(1)) {
                        trainer.hypothesis().score(row(i), score);
                    }
                    (scores, trainer.hypothesis().norm2())
                };
                assert_eq!(scores(&stopped), scores(&want));
                assert_eq!(stopped.flights().len(), want.flights().len());
                // And it can go on.
                stopped.run(&data, order.iter().copied()).unwrap();
                want.run(&data, order.iter().copied()).unwrap();
                assert_eq!(scores(&stopped), scores(&want));
            }
        }
    }
    let kernel = Kernel::Rbf { gamma: 0.1 };
    law(|| Expansion::<f64>::new(kernel, 1, 3).unwrap(), true);
    law(|| Expansion::<f64>::new(kernel, 1, 3).unwrap(), false);
    law(|| Expansion::<f64>::sparse(kernel, 1, 3).unwrap(), false);
    for maintenance in [Maintenance::Merge, Maintenance::Project, Maintenance::Remove] {
        let budget = Some(2);
        law(|| Budgeted::<f64>::new(kernel, 1, 3, budget, maintenance).unwrap(), true);
        law(|| Budgeted::<f64>::sparse(kernel, 1, 3, budget, maintenance).unwrap(), false);
        law(|| Budgeted::<f64>::sparse(kernel, 1, 3, None, maintenance).unwrap(), false);
    }
}

/// Sizes that nobody has memory for.
#[test]
fn sizes_are_refused_before_memory_is_taken() {
    let kernel = Kernel::Rbf { gamma: 1.0 };
    for n_features in [1 << 50, usize::MAX] {
        let csr = Csr::new(&[0_i64, 1, 2], &[0, 1 << 40], &[1.0, 2.0], n_features).unwrap();
        let data = Examples::new(csr, &[0, 1], None).unwrap();
        let error = KernelAscent::new(kernel, HINGE, 0.1, &data, 0).unwrap_err();
        let kind = error.kind();
        assert!(matches!(kind, ErrorKind::Memory { .. } | ErrorKind::Shape { .. }), "{error}");
    }
    let x = pegasos::Matrix::from(Dense::new(&[0.0, 1.0, 2.0], 3, 1).unwrap());
    let mut w = Expansion::<f64>::new(kernel, usize::MAX, 1).unwrap();
    let state = pegasos::ExpansionState { v: vec![1.0; 3], ..Default::default() };
    assert!(w.restore(&x, None, &state).unwrap_err().to_string().starts_with("v must have"));
    let mut w = Expansion::<f64>::new(kernel, 1, 1).unwrap();
    let (v, counts) = (vec![1.0, f64::NAN, 1.0], vec![1; 3]);
    let state = pegasos::ExpansionState { v, counts, ..Default::default() };
    assert_eq!(w.restore(&x, None, &state).unwrap_err().to_string(), "v must be finite, got NaN");
    let error = pegasos::Sampling::Blocks.epoch(1 << 38, 0, 0).unwrap_err().to_string();
    assert_eq!(error, "n_rows must be below 2^37 for this sampling, got 274877906944");
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
    assert!(Trainer::resume(linear(), HINGE, params, 1 << 62).is_err());
    assert!(Trainer::resume(linear(), HINGE, params, (1 << 62) - 1).is_ok());
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

/// No gap is at most one of these, so that what looks for it would not end.
#[test]
fn tolerances_that_nothing_reaches_are_refused() {
    let x = [1.0, 2.0, 0.5, 1.0, 3.0, 0.0];
    let data = Examples::new(Dense::new(&x, 3, 2).unwrap(), &[0, 1, 0], None).unwrap();
    let kernel = Kernel::Rbf { gamma: 1.0 };
    let expansion = || {
        let w = Expansion::<f64>::new(kernel, 1, 2).unwrap();
        Trainer::new(w, HINGE, Params::default()).unwrap()
    };
    let span = || {
        let mut trainer = expansion();
        trainer.run(&data, 0..3).unwrap();
        Span::of(trainer.hypothesis()).unwrap()
    };
    for tol in [f64::NAN, -1e-3, f64::NEG_INFINITY] {
        let text = format!("tol must be >= 0, got {tol:?}");
        let mut dual = DualAscent::new(HINGE, 0.1, 3, 2, 1.0).unwrap();
        assert_eq!(dual.solve(&data, tol, usize::MAX, 0).unwrap_err().to_string(), text);
        assert_eq!(dual.leap(&data, tol).unwrap_err().to_string(), text);
        let mut kernels = KernelAscent::new(kernel, HINGE, 0.1, &data, 1 << 20).unwrap();
        assert_eq!(kernels.solve(&data, tol, usize::MAX).unwrap_err().to_string(), text);
        let mut refit = Refit::new(span(), &[HINGE], 0.1, 3, 1 << 20).unwrap();
        assert_eq!(refit.solve(&data, tol, usize::MAX, 0).unwrap_err().to_string(), text);
        let policy = Policy { tol: Some(tol), max_epochs: usize::MAX, ..Policy::default() };
        let linear = trainer::<f64, _>(HINGE, 2, Params::default());
        let error = Fit::new(LinearProblems::from(linear), policy).run(&data).unwrap_err();
        assert_eq!(error.to_string(), text);
        let error = Fit::new(KernelProblem::from(expansion()), policy).run(&data).unwrap_err();
        assert_eq!(error.to_string(), text);
    }
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
    let row = || OwnedRow::Dense(vec![1.0, 2.0]);
    let mut ledger = trainer::<f64, _>(HINGE, 2, params);
    ledger.keep_ledger(2);
    ledger.set_flights([Flight { example: 7, row: row(), coef: [1.0] }].into());
    assert!(ledger.run(&data, 0..2).is_err());
    let mut classes = trainer::<f64, _>(CLASSES, 2, params);
    classes.set_flights([Flight { example: 0, row: row(), coef: vec![1.0; 5] }].into());
    assert!(classes.run(&data, 0..2).is_err());
    let outside = |j| OwnedRow::Sparse { indices: vec![0, j], values: vec![1.0, 1.0] };
    for row in [OwnedRow::Dense(vec![1.0]), OwnedRow::Dense(vec![1.0; 3]), outside(2), outside(-1)]
    {
        let mut learner = trainer::<f64, _>(HINGE, 2, params);
        learner.set_flights([Flight { example: 0, row, coef: [1.0] }].into());
        let error = learner.run(&data, 0..2).unwrap_err().to_string();
        assert!(error.starts_with("flights must have rows of 2 features"), "{error}");
        assert_eq!(learner.t(), 0);
    }
}

/// What cannot be had is refused before it is asked for.
#[test]
fn what_memory_cannot_hold_is_refused() {
    fn memory<T>(result: Result<T, pegasos::Error>) {
        let error = result.err().expect("an error");
        assert!(matches!(error.kind(), ErrorKind::Memory { .. }), "{error}");
    }
    let d = 1 << 50;
    memory(Linear::<f64>::new(1, d, 0.0));
    memory(Linear::<f32>::new(usize::MAX, usize::MAX, 0.0));
    memory(DualAscent::new(CLASSES, 1.0, 1 << 52, 2, 0.0));
    let columns = [0_i64, d as i64 - 1];
    let csr = Csr::new(&[0, 1, 2], &columns, &[1.0, 2.0], d).unwrap();
    let data = Examples::new(csr, &[0, 1], None).unwrap();
    let kernel = Kernel::Rbf { gamma: 1.0 };
    let w = Expansion::sparse(kernel, 1, d).unwrap();
    let mut trainer = Trainer::new(w, HINGE, Params::default()).unwrap();
    memory(trainer.run(&data, [0, 1]));
    for maintenance in [Maintenance::Merge, Maintenance::Project, Maintenance::Remove] {
        let w = Budgeted::sparse(kernel, 1, d, Some(3), maintenance).unwrap();
        let mut trainer = Trainer::new(w, HINGE, Params::default()).unwrap();
        memory(trainer.run(&data, [0, 1]));
        assert_eq!(trainer.t(), 0);
    }
    // A ledger, when it is first needed.
    let x = [1.0, 2.0];
    let data = Examples::new(Dense::new(&x, 2, 1).unwrap(), &[0, 1], None).unwrap();
    let loss = joint(2);
    let mut trainer = crate::generated::trainer(loss, 1, Params::default());
    trainer.keep_ledger(2);
    assert!(trainer.ledger().is_some_and(|ledger| ledger.len() == 2 && ledger.sums(1).is_empty()));
    trainer.run(&data, [0, 1]).unwrap();
    assert_eq!(trainer.ledger().map(|ledger| ledger.sums(1).len()), Some(2));
}

/// A w that leaves the range of its scalar with the last step is an error, whether the run is one that carries the norm along or
/// one that looks at w when it is over.
#[test]
fn a_last_step_beyond_the_range_is_an_error() {
    let x = Csr::new(&[0, 1, 2, 3, 4], &[0; 4], &[0.0, 0.0, 0.0, 3e38_f32], 1).unwrap();
    let data = Examples::new(x, &[1, 1, 1, 1], None).unwrap();
    let params = Params { lambda: 1e-4, ..Params::default() };
    for order in [&[3][..], &[3, 3], &[0, 1, 2, 0, 1, 2, 3]] {
        let mut trainer = Trainer::new(Linear::new(1, 1, 0.0).unwrap(), HINGE, params).unwrap();
        let ran = trainer.run(&data, order.iter().copied());
        let text = ran.unwrap_err().to_string();
        // The second visit meets scores that are not finite.
        assert!(text.contains("overflow"), "{order:?}: {text}");
        assert!(
            pegasos::Hypothesis::norm2(trainer.hypothesis()) > 1e76
                && !trainer.survives(0.0, 0.0, 0.0)
        );
    }
}

/// What was learned apart counts once, and for the w that it began with: else a ledger is no point of the dual.
#[test]
fn shards_are_merged_once() {
    let problem = Problem::new(40, 3, 5).unweighted();
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    let rows: Vec<usize> = (0..40).collect();
    let mut whole = trainer::<f64, _>(HINGE, 3, Params { lambda: 0.01, ..Params::default() });
    whole.keep_ledger(40);
    whole.run(&data, 0..40).unwrap();
    let mut shards = Shards::split(&whole, &[20, 20]).unwrap();
    for _ in 0..500 {
        shards.run(&data, &[&rows[..20], &rows[20..]]).unwrap();
    }
    let copy = shards.clone();
    shards.merge_into(&mut whole).unwrap();
    let (t, before) = (whole.t(), whole.certificate(&data).unwrap());
    let error = copy.clone().merge_into(&mut whole).unwrap_err();
    assert!(
        error.to_string().ends_with(&format!("have made 40 steps, as when it was split, got {t}"))
    );
    assert_eq!((whole.t(), whole.certificate(&data).unwrap()), (t, before));
    let mut other = trainer::<f64, _>(HINGE, 3, Params { lambda: 0.01, ..Params::default() });
    assert!(copy.merge_into(&mut other).is_err());
}

/// Where a trainer says that no step can overflow, none does, however large the numbers.
#[test]
fn what_is_said_to_survive_does() {
    let (mut survived, mut smooth_survived) = (0, 0);
    for exponent in -30..150 {
        for scale in [1.0, 1e60] {
            let size = 10.0_f64.powi(exponent) * scale;
            let x = [size, -size, 0.5 * size, size / 3.0];
            let weight = [1.0, 1e3, size.min(1e200), 1e-3];
            let rows = Dense::new(&x, 2, 2).unwrap();
            let data = Examples::new(rows, &[0, 1], Some(&weight[1..3])).unwrap();
            let norm2 = 2.5 * size * size;
            for average in [pegasos::Average::None, pegasos::Average::Polynomial] {
                let params = Params { lambda: 1e-3, average, ..Params::default() };
                let mut linear = trainer(HINGE, 2, params);
                let kernel = Kernel::Poly { gamma: 1.0, coef0: 1.0, degree: 2 };
                let w = Expansion::new(kernel, 1, 2).unwrap();
                let mut poly = Trainer::new(w, HINGE, params).unwrap();
                let (heaviest, total) = (weight[1].max(weight[2]), weight[1] + weight[2]);
                // Steps that begin as long as 1 over the curvature.
                let t0 = (2.0 * heaviest * (norm2 + 1.0) / params.lambda).min(1e300);
                let squared = Binary { loss: AnyLoss::SquaredHinge, positive: 1 };
                let mut smooth = trainer(squared, 2, Params { t0, ..params });
                for _ in 0..3 {
                    if linear.survives(norm2, heaviest, 50.0 * total) {
                        survived += 1;
                        linear.run(&data, (0..100).map(|k| k % 2)).unwrap();
                    }
                    if smooth.survives(norm2, heaviest, 50.0 * total) {
                        smooth_survived += 1;
                        smooth.run(&data, (0..100).map(|k| k % 2)).unwrap();
                    }
                    if poly.survives(norm2, heaviest, 50.0 * total) {
                        survived += 1;
                        poly.run(&data, (0..100).map(|k| k % 2)).unwrap();
                    }
                }
            }
        }
    }
    assert!(survived > 500 && smooth_survived > 250, "{survived}, {smooth_survived}");
}

/// Other data, in the middle or at the end: an error, no panic and no answer.
#[test]
fn other_data_are_refused_at_any_time() {
    let x: Vec<f64> = (0..60).map(|i| f64::from(i * i % 11) - 5.0).collect();
    let y: Vec<u32> = (0..20).map(|i| i % 2).collect();
    let data = Examples::new(Dense::new(&x, 20, 3).unwrap(), &y, None).unwrap();
    let narrow = Examples::new(Dense::new(&x[..40], 20, 2).unwrap(), &y, None).unwrap();
    let strange = Examples::new(Dense::new(&x, 20, 3).unwrap(), &[9; 20], None).unwrap();
    let rbf = Kernel::Rbf { gamma: 0.1 };

    let mut ascent = KernelAscent::new(rbf, HINGE, 0.01, &data, 0).unwrap();
    let other = "X must have 3 features, got 2";
    assert_eq!(ascent.solve(&narrow, 1e-3, 10).unwrap_err().to_string(), other);
    ascent.solve(&data, 1e-3, 1000).unwrap();
    assert_eq!(ascent.certificate(&narrow).unwrap_err().to_string(), other);
    assert_eq!(ascent.result(&narrow).unwrap_err().to_string(), other);

    let w = Expansion::new(rbf, 1, 3).unwrap();
    let mut trainer = Trainer::new(w, HINGE, Params::default()).unwrap();
    trainer.run(&data, 0..20).unwrap();
    let mut evaluation = trainer.evaluation(&data).unwrap();
    assert_eq!(evaluation.add(&trainer, &narrow, 0..20).unwrap_err().to_string(), other);

    let label = "y must lie in 0..2, got 9";
    let mut ascent = DualAscent::new(joint(2), 1e-3, 20, 3, 0.0).unwrap();
    assert_eq!(ascent.leap(&strange, 1e-3).unwrap_err().to_string(), label);
    let mut evaluation = ascent.evaluation::<f64>();
    evaluation.add(&ascent, &data, 0..20).unwrap();
    assert_eq!(evaluation.finish(&mut ascent, &strange).unwrap_err().to_string(), label);
}

#[test]
#[should_panic(expected = "X must have 3 features, got 2")]
fn features_of_a_span_are_those_of_its_rows() {
    let x = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0_f64];
    let rows = Dense::new(&x, 2, 3).unwrap().into();
    let span = Span::new(Kernel::Linear, &rows, &[0]).unwrap();
    span.features(&Dense::new(&x, 3, 2).unwrap().into(), &[0], &mut [0.0]);
}

#[test]
fn numbers_that_overflow_are_refused() {
    let x = [0.0, 1.0, 2.0, 3.0_f64];
    let rows = Dense::new(&x, 2, 2).unwrap();
    // A step of 0 has no inverse.
    let mut w = Linear::<f64>::new(1, 2, 0.0).unwrap();
    w.add(0, rows.row(1), &[1.0]);
    let params = Params { lambda: 1e300, t0: 1e300, ..Params::default() };
    let error = Trainer::resume(w, HINGE, params, 7).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Parameter { name: "lambda", .. }), "{error}");

    let new = || Budgeted::new(Kernel::Linear, 1, 2, Some(2), Maintenance::Remove).unwrap();
    let mut w = new();
    w.add(0, rows.row(0), &[1.0]);
    w.add(1, rows.row(1), &[1.0]);
    for (name, added, evicted) in [("added", u64::MAX, 0), ("evicted", 2, u64::MAX)] {
        let state = pegasos::BudgetedState { added, evicted, ..w.state() };
        let error = new().restore(&rows.into(), &state).unwrap_err();
        assert!(error.to_string().starts_with(name), "{error}");
    }

    let mut w = Expansion::new(Kernel::Rbf { gamma: 1.0 }, 1, 2).unwrap();
    w.add(0, rows.row(0), &[1.0]);
    let shapley = pegasos::Shapley::new(&w, None).unwrap();
    let mut out = [0.0; 2];
    shapley.add(&rows.into(), 0..1, usize::MAX - 1..usize::MAX, &mut out).unwrap();
    assert_eq!(out, [0.0; 2]);
}
