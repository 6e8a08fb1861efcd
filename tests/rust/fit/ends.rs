//! When a fit ends, and what it knows then.

use super::*;

/// Where nothing is certified, a fit ends when the loss of an epoch has not come `tol` below the best one before for as
/// many epochs as there is patience.
#[test]
fn a_budget_ends_by_patience() {
    fn law<L: Loss + Clone + Send>(loss: L, data: &Examples<'_, f64>) {
        let params = Params { lambda: 0.01, ..Params::default() };
        for (tol, patience) in [(1e-3, 5), (1e-2, 2), (0.0, 3)] {
            let policy = Policy { tol: Some(tol), patience, max_epochs: 1000, ..Policy::default() };
            let mut fit = Fit::new(budgeted::<f64, _>(loss.clone(), 5, params), policy);
            let (events, outcome) = course(&mut fit, data, usize::MAX);
            assert_eq!(outcome, Outcome::Reached);
            let (mut best, mut idle) = (f64::INFINITY, 0);
            for (k, event) in events.iter().enumerate() {
                assert!(event.certificate.primal.is_nan() && event.certificate.dual.is_nan());
                assert_eq!(event.visits, data.len() as u64);
                idle = if event.loss > best - tol { idle + 1 } else { 0 };
                best = best.min(event.loss);
                assert_eq!(idle >= patience, k + 1 == events.len(), "{k} of {}", events.len());
            }
            assert!(events.len() < 1000);
            assert_eq!(fit.problem().trainer().t(), (events.len() * data.len()) as u64);
        }
    }
    let problem = Problem::of_classes(300, 5, 4, 63);
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    law(HINGE, &data);
    law(FOUR, &data);
}

/// Patience ends linear problems and kernels without a certificate, too; their objective is evaluated at the end.
#[test]
fn what_has_no_certificate_ends_by_patience() {
    fn law<P: pegasos::Problem<f64>>(problem: P, data: &Examples<'_, f64>, policy: Policy) {
        let tol = policy.tol.unwrap();
        let mut fit = Fit::new(problem, policy);
        let (events, outcome) = course(&mut fit, data, usize::MAX);
        assert_eq!(outcome, Outcome::Reached);
        let (mut best, mut idle) = (f64::INFINITY, 0);
        for (k, event) in events.iter().enumerate() {
            assert!(event.certificate.dual.is_nan());
            idle = if event.loss > best - tol { idle + 1 } else { 0 };
            best = best.min(event.loss);
            assert_eq!(idle >= policy.patience, k + 1 == events.len(), "{k} of {}", events.len());
        }
        let last = fit.run(data).unwrap();
        assert!(last.certificate.primal.is_finite() && last.certificate.dual.is_nan(), "{last:?}");
    }
    let problem = Problem::of_classes(200, 5, 4, 64);
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    let set = Some(Ball { radius: 2.0 });
    let params = Params { lambda: 0.01, set, ..Params::default() };
    for (tol, patience) in [(1e-3, 5), (1e-2, 2)] {
        let policy = Policy { tol: Some(tol), patience, max_epochs: 1000, ..Policy::default() };
        law(at_zero::<f64, _>(&[HINGE], 5, params), &data, policy);
        law(at_zero::<f64, _>(&rest(), 5, params), &data, policy);
        law(unlimited::<f64, _>(FOUR, 5, params), &data, policy);
        let plain = Params { set: None, ..params };
        let drawn = Policy { sampling: Sampling::Replacement, ..policy };
        law(at_zero::<f64, _>(&[FOUR], 5, plain), &data, drawn);
    }
}

/// Stopped after an epoch, a fit evaluates what is not known of its end, and no more.
#[test]
fn a_stop_evaluates_what_is_not_known() {
    let problem = Problem::of_classes(150, 5, 4, 65);
    let data = Examples::new(problem.dense(), &problem.y, Some(&problem.weight)).unwrap();
    let params = Params { lambda: 0.02, ..Params::default() };
    // Without a tolerance nothing is evaluated, with one epochs 1 to 10, 12, ...
    for (tol, epochs, known) in [(None, 3, false), (Some(0.0), 3, true), (Some(0.0), 11, false)] {
        let policy = Policy { tol, until_stopped: true, max_epochs: 100, ..Policy::default() };
        let mut fit = Fit::new(at_zero::<f64, _>(&rest(), 5, params), policy);
        let mut last = epoch(&mut fit, &data);
        for _ in 1..epochs {
            last = epoch(&mut fit, &data);
        }
        assert_eq!(last.certificate.primal.is_finite(), known, "{policy:?}");
        let mut want = Certificate { primal: 0.0, dual: 0.0 };
        for trainer in fit.problem().trainers() {
            let certificate = trainer.certificate(&data).unwrap();
            want.primal += certificate.primal;
            want.dual += certificate.dual;
        }
        assert_eq!(want.dual.is_nan(), tol.is_none());
        fit.stop();
        assert_eq!(fit.problem().trainers().next().unwrap().t(), epochs * 150);
        let (events, outcome) = course(&mut fit, &data, 10);
        assert_eq!((events.len(), outcome), (0, Outcome::Reached));
        let end = fit.run(&data).unwrap();
        assert_eq!(bits(&[end]), bits(&[Event { certificate: want, ..last }]), "{policy:?}");
        assert_eq!(fit.problem().trainers().next().unwrap().t(), epochs * 150);
    }
    // In dual ascent: what it has found so far.
    let policy = Policy { solver: Solver::Dual, tol: Some(1e-9), ..Policy::default() };
    let mut fit = Fit::new(at_zero::<f64, _>(&[FOUR], 5, params), policy);
    assert!(epoch(&mut fit, &data).certificate.primal.is_nan());
    let w = flat(&fit.problem().results().unwrap()[0]);
    fit.stop();
    let end = fit.run(&data).unwrap();
    let primal = problem.objective(Rule::CrammerSinger(4), &w, 1.0, 0.02);
    assert!((end.certificate.primal / primal - 1.0).abs() < 1e-9, "{end:?}, not {primal}");
    assert!(end.certificate.dual > 0.0 && end.certificate.relative_gap() > 1e-9, "{end:?}");
    // With kernels.
    let policy = Policy { tol: None, until_stopped: true, ..Policy::default() };
    let mut fit = Fit::new(unlimited::<f64, _>(FOUR, 5, params), policy);
    assert!(epoch(&mut fit, &data).certificate.primal.is_nan());
    fit.stop();
    let end = fit.run(&data).unwrap();
    let model = fit.into_problem().model().unwrap();
    let primal = objective(&FOUR, &model, &data, &problem, 0.02);
    assert!((end.certificate.primal / primal - 1.0).abs() < 1e-9, "{end:?}, not {primal}");
    // Dual ascent of kernels tells at every step where it began, and that is where it then ends.
    let policy = Policy { tol: Some(1e-9), ..Policy::default() };
    let mut fit = Fit::new(unlimited::<f64, _>(FOUR, 5, params), policy);
    let mut last = epoch(&mut fit, &data);
    for _ in 0..3 {
        last = epoch(&mut fit, &data);
    }
    assert!(last.certificate.relative_gap() > 1e-9);
    fit.stop();
    assert_eq!(fit.run(&data).unwrap(), last);
    let model = fit.into_problem().model().unwrap();
    let primal = objective(&FOUR, &model, &data, &problem, 0.02);
    assert!((last.certificate.primal / primal - 1.0).abs() < 1e-9, "{last:?}, not {primal}");
}

/// Stopped in an epoch, a fit goes on to its end and then stops; over, it stays so.
#[test]
fn a_stop_waits_for_the_end_of_an_epoch() {
    fn law<P: pegasos::Problem<f64>>(
        make: impl Fn() -> P,
        data: &Examples<'_, f64>,
        policy: Policy,
    ) {
        let (mut stopped, mut late) = (Fit::new(make(), policy), Fit::new(make(), policy));
        for fit in [&mut stopped, &mut late] {
            epoch(fit, data);
            // Before the next epoch, in the midst of it.
            for _ in 0..3 {
                assert!(matches!(fit.advance(data, 10).unwrap(), Progress::Going { .. }));
            }
        }
        stopped.stop();
        let last = epoch(&mut late, data);
        late.stop();
        let (events, outcome) = course(&mut stopped, data, 10);
        assert_eq!(bits(&events), bits(&[last]), "{policy:?}");
        assert_eq!(outcome, Outcome::Reached, "{policy:?}");
        let (end, want) = (stopped.run(data).unwrap(), late.run(data).unwrap());
        assert_eq!(bits(&[end]), bits(&[want]), "{policy:?}");
        assert!(end.certificate.primal.is_finite(), "{policy:?}");
        // Too late.
        let mut over = Fit::new(make(), Policy { max_epochs: 2, ..policy });
        let (events, outcome) = course(&mut over, data, usize::MAX);
        over.stop();
        assert_eq!(course(&mut over, data, 10), (Vec::new(), outcome), "{policy:?}");
        assert!(events.len() >= 2);
    }
    let problem = Problem::of_classes(700, 5, 4, 67);
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    let params = Params { lambda: 0.02, ..Params::default() };
    for solver in [Solver::Pegasos, Solver::Dual, Solver::Auto] {
        for tol in [None, Some(1e-9)] {
            let policy = Policy { solver, tol, ..Policy::default() };
            law(|| at_zero::<f64, _>(&rest(), 5, params), &data, policy);
            law(|| unlimited::<f64, _>(FOUR, 5, params), &data, policy);
        }
    }
}

/// Nobody knows how long an order is, nor how often it names a row.
#[test]
fn an_order_may_be_longer_than_the_data() {
    use pegasos::Problem as _;
    let problem = Problem::of_classes(50, 5, 4, 68);
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    let order: Vec<usize> = (0..777).map(|k| k * k % 50).collect();
    for block in [Block::Mean(1), Block::Mean(9), Block::Mean(600), Block::Mean(usize::MAX)] {
        let params = Params { lambda: 0.02, block, ..Params::default() };
        for size in [1, 7, 1000, usize::MAX] {
            let mut problems = at_zero::<f64, _>(&rest(), 5, params);
            problems.begin_epoch(&data, Box::new(order.clone().into_iter()), 1).unwrap();
            while problems.visit(&data, size).unwrap() > 0 {}
            assert_eq!(problems.seen().examples, 4 * 777);
            for (got, loss) in problems.trainers().zip(rest()) {
                let mut want = trainer::<f64, _>(loss, 5, params);
                want.run(&data, order.iter().copied()).unwrap();
                assert_eq!(got.hypothesis(), want.hypothesis(), "{block:?} in pieces of {size}");
                assert_eq!(got.t(), want.t());
            }
        }
    }
}

/// All epochs that are allowed, and no more; the last one is evaluated where something was asked for.
#[test]
fn epochs_are_exhausted() {
    let problem = Problem::of_classes(120, 5, 4, 66);
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    let params = Params { lambda: 1e-4, ..Params::default() };
    for solver in [Solver::Pegasos, Solver::Dual, Solver::Auto] {
        for max_epochs in [1, 2, 7] {
            for tol in [None, Some(1e-12)] {
                let policy = Policy { solver, tol, max_epochs, ..Policy::default() };
                let mut fit = Fit::new(at_zero::<f64, _>(&[FOUR], 5, params), policy);
                let (events, outcome) = course(&mut fit, &data, usize::MAX);
                assert_eq!((events.len(), outcome), (max_epochs, Outcome::Exhausted), "{policy:?}");
                let known = events[max_epochs - 1].certificate.primal.is_finite();
                assert_eq!(known, tol.is_some(), "{policy:?}");
                let steps = fit.problem().trainers().next().unwrap().t();
                assert_eq!(steps, 120 * max_epochs as u64, "{policy:?}");
            }
        }
    }
    // Without dual ascent, with kernels too.
    for max_epochs in [1, 3] {
        let policy = Policy { solver: Solver::Pegasos, max_epochs, ..Policy::default() };
        let policy = Policy { tol: Some(1e-12), ..policy };
        let mut fit = Fit::new(unlimited::<f64, _>(FOUR, 5, params), policy);
        let (events, outcome) = course(&mut fit, &data, usize::MAX);
        assert_eq!((events.len(), outcome), (max_epochs, Outcome::Exhausted));
        assert!(events[max_epochs - 1].certificate.gap() > 0.0);
        let mut fit = Fit::new(budgeted::<f64, _>(FOUR, 5, params), policy);
        let (events, outcome) = course(&mut fit, &data, usize::MAX);
        assert_eq!((events.len(), outcome), (max_epochs, Outcome::Exhausted));
    }
}

/// A leap that comes first and is stopped: the model is where it has come to.
#[test]
fn a_stopped_leap_lands() {
    let mut problem = Problem::new(2000, 8, 63).unweighted();
    problem.y.iter_mut().step_by(5).for_each(|y| *y = 1 - *y);
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    let loss = Binary { loss: AnyLoss::Logistic, positive: 1 };
    let params = Params { lambda: 1e-3, ..Params::default() };
    let policy = Policy { tol: Some(0.0), max_epochs: 100, ..Policy::default() };
    let stopped_after = |steps: usize| {
        let mut fit = Fit::new(at_zero::<f64, _>(&[loss], 8, params), policy);
        for _ in 0..steps {
            assert!(matches!(fit.advance(&data, 7).unwrap(), Progress::Going { rows: 0, .. }));
        }
        fit.stop();
        assert_eq!(course(&mut fit, &data, 7).1, Outcome::Reached);
        let trainer = fit.problem().trainers().next().unwrap();
        trainer.certificate(&data).unwrap().primal
    };
    // Before any step, where w is 0; and after some.
    assert!((stopped_after(1) - 2.0_f64.ln()).abs() < 1e-12);
    let mut dual = DualAscent::new(loss, params.lambda, 2000, 8, 1.0).unwrap();
    let least = dual.solve(&data, 1e-9, 100_000, 0).unwrap().primal;
    let found = stopped_after(12);
    assert!((found - least).abs() < 1e-6 * least, "{found} {least}");
}

/// The copy of a fit learns from all rows of the epoch that was under way, too, and loses nothing of what shards learned.
#[test]
fn a_copy_begins_its_epoch_anew() {
    let x: Vec<f64> = (0..60).map(|i| f64::from(i % 7) - 3.0 + f64::from(i % 2)).collect();
    let y: Vec<u32> = x.iter().map(|x| u32::from(*x > 0.0)).collect();
    let data = Examples::new(pegasos::Dense::new(&x, 60, 1).unwrap(), &y, None).unwrap();
    let hinge = pegasos::Binary { loss: pegasos::Hinge, positive: 1 };
    for (shards, tol, max_epochs) in
        [(1, None, 1), (3, None, 1), (1, Some(1e-2), 50), (3, Some(1e-2), 50)]
    {
        let w = pegasos::Linear::<f64>::new(1, 1, 1.0).unwrap();
        let params = Params { lambda: 0.1, ..Params::default() };
        let problem = LinearProblems::from(pegasos::Trainer::new(w, hinge, params).unwrap());
        let solver = Solver::Pegasos;
        let mut fit =
            Fit::new(problem, Policy { solver, shards, tol, max_epochs, ..Policy::default() });
        for _ in 0..3 {
            fit.advance(&data, 10).unwrap();
        }
        let mut copy = fit.clone();
        let first = loop {
            if let Progress::Epoch(event) = copy.advance(&data, 10).unwrap() {
                break event;
            }
        };
        assert!(first.visits == 60 && first.loss.is_finite(), "{shards} {tol:?} {first:?}");
        let (copy, own) = (copy.run(&data).unwrap(), fit.run(&data).unwrap());
        assert_eq!(copy.certificate.dual.is_nan(), own.certificate.dual.is_nan());
        if shards == 3 && tol.is_none() {
            // Nothing was merged yet.
            assert_eq!(copy.loss, own.loss);
        }
    }
}
