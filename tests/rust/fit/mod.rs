//! The fit policy: it reaches what it promises, and it is the parts that it is made of.

mod ends;
mod pieces;

use pegasos::{
    AnyLoss, Average, Ball, Binary, Block, Budgeted, Certificate, Dense, DualAscent, ErrorKind,
    Event, Examples, Expansion, Fit, Hypothesis, Kernel, KernelAscent, KernelProblem, Linear,
    LinearProblems, Loss, Maintenance, Matrix, Multiclass, Outcome, Params, Policy, Progress,
    Refit, Sampling, Scalar, Schedule, Shards, Solver, Solving, Span, Trainer,
};

use crate::generated::{HINGE, Problem, Rule, flat, joint, trainer};

const FOUR: Multiclass = joint(4);

/// Each of four classes against the rest.
fn rest() -> [Binary<AnyLoss>; 4] {
    [0, 1, 2, 3].map(|positive| Binary { loss: AnyLoss::Hinge, positive })
}

/// Problems at w = 0, one for each loss.
fn at_zero<S: Scalar, L: Loss + Clone>(
    losses: &[L],
    d: usize,
    params: Params,
) -> LinearProblems<S, L> {
    LinearProblems::new(losses.iter().map(|loss| trainer(loss.clone(), d, params)).collect())
}

/// All events of what is left of a fit, in pieces of this size, and its end.
fn course<S: Scalar, P: pegasos::Problem<S>>(
    fit: &mut Fit<P>,
    data: &Examples<'_, S>,
    size: usize,
) -> (Vec<Event>, Outcome) {
    let mut events = Vec::new();
    loop {
        match fit.advance(data, size).unwrap() {
            Progress::Going { .. } => {}
            Progress::Epoch(event) => events.push(event),
            Progress::Over(outcome) => return (events, outcome),
        }
    }
}

/// The next event of a fit that is not over.
fn epoch<S: Scalar, P: pegasos::Problem<S>>(fit: &mut Fit<P>, data: &Examples<'_, S>) -> Event {
    loop {
        match fit.advance(data, usize::MAX).unwrap() {
            Progress::Going { .. } => {}
            Progress::Epoch(event) => return event,
            Progress::Over(outcome) => panic!("{outcome:?}"),
        }
    }
}

/// Events as they can be compared, not known or known.
fn bits(events: &[Event]) -> Vec<[u64; 4]> {
    let of = |Event { loss, certificate: Certificate { primal, dual }, visits }: &Event| {
        [loss.to_bits(), primal.to_bits(), dual.to_bits(), *visits]
    };
    events.iter().map(of).collect()
}

/// The weights of all problems.
fn weights<S: Scalar, L: Loss + Clone>(problems: &LinearProblems<S, L>) -> Vec<Vec<f64>> {
    problems.results().unwrap().iter().map(flat).collect()
}

/// The problem's labels as each of four classes against the rest sees them.
fn against(problem: &Problem, class: u32) -> Problem {
    let y = problem.y.iter().map(|&y| u32::from(y == class)).collect();
    Problem { y, ..problem.clone() }
}

/// What is claimed at the end is so: by the objective written out, and by optima that dual ascent finds from nothing.
fn reaches<'a, S: Scalar, L: Loss + Clone + Send>(
    losses: &[L],
    parts: &[(Rule, Problem)],
    x: impl Into<Matrix<'a, S>>,
    problem: &'a Problem,
    lambda: f64,
) {
    let data = Examples::new(x, &problem.y, Some(&problem.weight)).unwrap();
    // Of weights in f32 that a trainer keeps times lambda t.
    let rounding = if size_of::<S>() == 4 { 1e-5 } else { 1e-9 };
    let mut best = Certificate { primal: 0.0, dual: 0.0 };
    for loss in losses {
        let mut ascent = DualAscent::new(loss.clone(), lambda, problem.n, problem.d, 1.0).unwrap();
        ascent.leap(&data, 1e-6).unwrap();
        let found = ascent.solve(&data, 1e-6, 100_000, 7).unwrap();
        best.primal += found.primal;
        best.dual += found.dual;
    }
    for tol in [1e-2, 1e-5] {
        let policy = Policy { tol: Some(tol), max_epochs: 10_000, ..Policy::default() };
        let params = Params { lambda, ..Params::default() };
        let mut fit = Fit::new(at_zero::<S, L>(losses, problem.d, params), policy);
        let (events, outcome) = course(&mut fit, &data, usize::MAX);
        let certificate = events.last().unwrap().certificate;
        let what = format!("{} at {lambda} to {tol}: {certificate:?}", losses.len());
        assert_eq!(outcome, Outcome::Reached, "{what}");
        assert!(certificate.relative_gap() <= tol, "{what}");
        let objective = |(w, (rule, part)): (Vec<f64>, &(Rule, Problem))| {
            part.objective(*rule, &w, 1.0, lambda)
        };
        let primal: f64 = weights(fit.problem()).into_iter().zip(parts).map(objective).sum();
        assert!((certificate.primal / primal - 1.0).abs() < rounding, "{what}, not {primal}");
        assert!(certificate.dual <= best.primal * (1.0 + rounding), "{what}, {best:?}");
        assert!(certificate.primal >= best.dual * (1.0 - rounding), "{what}, {best:?}");
    }
}

#[test]
fn auto_reaches_the_tolerance() {
    let binary = Problem::new(300, 6, 50).rounded();
    let mut classes = Problem::of_classes(300, 6, 4, 51).rounded();
    classes.y.iter_mut().step_by(7).for_each(|y| *y = (*y + 1) % 4);
    let one = [(Rule::HINGE, binary.clone())];
    let all = [(Rule::CrammerSinger(4), classes.clone())];
    let each = [0, 1, 2, 3].map(|class| (Rule::HINGE, against(&classes, class)));
    // Where lambda n is below 1 dual ascent begins at once.
    for lambda in [1e-3, 1e-2, 1.0] {
        fn layouts<L: Loss + Clone + Send>(
            losses: &[L],
            parts: &[(Rule, Problem)],
            problem: &Problem,
            lambda: f64,
        ) {
            let single = problem.single();
            let dense = Dense::new(&single, problem.n, problem.d).unwrap();
            let (csr, csr_f32) = (problem.csr(), problem.csr_of(|x| x as f32));
            reaches::<f32, L>(losses, parts, dense, problem, lambda);
            reaches::<f64, L>(losses, parts, problem.dense(), problem, lambda);
            reaches::<f32, L>(losses, parts, csr_f32.view(), problem, lambda);
            reaches::<f64, L>(losses, parts, csr.view(), problem, lambda);
        }
        layouts(&[HINGE], &one, &binary, lambda);
        layouts(&[FOUR], &all, &classes, lambda);
        layouts(&rest(), &each, &classes, lambda);
    }
}

/// Where nothing but dual ascent is asked for, the fit is it, and so is its certificate.
#[test]
fn the_dual_solver_is_dual_ascent() {
    fn law<S: Scalar, L: Loss + Clone + Send>(loss: L, data: &Examples<'_, S>, d: usize) {
        for (lambda, tol, max_epochs) in [(1e-3, 1e-4, 1000), (1.0, 1e-6, 1000), (1e-5, 0.0, 3)] {
            let policy =
                Policy { solver: Solver::Dual, tol: Some(tol), max_epochs, ..Policy::default() };
            let params = Params { lambda, ..Params::default() };
            let mut fit = Fit::new(at_zero::<S, L>(std::slice::from_ref(&loss), d, params), policy);
            let mut ascent = DualAscent::new(loss.clone(), lambda, data.len(), d, 1.0).unwrap();
            let want = ascent.solve(data, tol, max_epochs, 0).unwrap();
            let mut last = epoch(&mut fit, data);
            while last.certificate != want {
                last = epoch(&mut fit, data);
            }
            assert_eq!(fit.problem().results().unwrap(), [ascent.result::<S>()]);
            let reached = want.relative_gap() <= tol;
            let outcome = if reached { Outcome::Reached } else { Outcome::Exhausted };
            assert_eq!(course(&mut fit, data, usize::MAX), (Vec::new(), outcome));
            // A trainer that goes on from there, as if it had made as many steps.
            let trainer = fit.problem().trainers().next().unwrap();
            assert!(trainer.t() > 0 && trainer.t().is_multiple_of(data.len() as u64));
            let primal = trainer.certificate(data).unwrap().primal;
            let rounding = if size_of::<S>() == 4 { 1e-5 } else { 1e-12 };
            assert!((primal / want.primal - 1.0).abs() < rounding, "{primal}, not {want:?}");
        }
    }
    let problem = Problem::of_classes(200, 6, 4, 52);
    let single = problem.single();
    let x = Dense::new(&single, 200, 6).unwrap();
    let narrow = Examples::new(x, &problem.y, Some(&problem.weight)).unwrap();
    let csr = problem.csr();
    let sparse = Examples::new(csr.view(), &problem.y, None).unwrap();
    law(HINGE, &narrow, 6);
    law(FOUR, &narrow, 6);
    law(HINGE, &sparse, 6);
    law(FOUR, &sparse, 6);
}

/// An epoch of Pegasos, then dual ascent from its very point.
#[test]
fn auto_is_pegasos_and_then_dual_ascent() {
    let problem = Problem::of_classes(200, 130, 4, 53);
    let data = Examples::new(problem.dense(), &problem.y, Some(&problem.weight)).unwrap();
    let (params, tol) = (Params { lambda: 0.02, ..Params::default() }, 1e-6);
    let policy = Policy { tol: Some(tol), seed: 3, max_epochs: 1000, ..Policy::default() };
    let mut fit = Fit::new(at_zero::<f64, _>(&[FOUR], 130, params), policy);
    let mut trainer = trainer::<f64, _>(FOUR, 130, params);
    trainer.keep_ledger(200);
    let report = trainer.run(&data, Sampling::Shuffle.epoch(200, 3, 0).unwrap()).unwrap();
    let first = epoch(&mut fit, &data);
    assert_eq!((first.loss, first.visits), (report.loss / 200.0, 200));
    let mut ascent = DualAscent::take_over(&trainer, &data).unwrap();
    // So many weights that there are no leaps, which would come between.
    let want = ascent.solve(&data, tol, 999, 3).unwrap();
    assert!(want.relative_gap() <= tol);
    let mut last = epoch(&mut fit, &data);
    while last.certificate != want {
        last = epoch(&mut fit, &data);
    }
    assert_eq!(fit.problem().results().unwrap(), [ascent.result::<f64>()]);
    assert_eq!(course(&mut fit, &data, 10), (Vec::new(), Outcome::Reached));
}

/// The hypotheses and steps of linear problems.
fn state_of<S: Scalar, L: Loss>(problems: LinearProblems<S, L>) -> Vec<(Linear<S>, u64, u64)> {
    let of = |t: &Trainer<Linear<S>, L>| (t.hypothesis().clone(), t.t(), t.updates());
    problems.trainers().map(of).collect()
}

const KERNEL: Kernel = Kernel::Rbf { gamma: 0.5 };

fn unlimited<S: Scalar, L: Loss + Clone>(
    loss: L,
    d: usize,
    params: Params,
) -> KernelProblem<Expansion<S>, L> {
    let outputs = loss.zeros().as_ref().len();
    let w = Expansion::new(KERNEL, outputs, d).unwrap();
    KernelProblem::from(Trainer::new(w, loss, params).unwrap())
}

fn budgeted<S: Scalar, L: Loss + Clone>(
    loss: L,
    d: usize,
    params: Params,
) -> KernelProblem<Budgeted<S>, L> {
    let outputs = loss.zeros().as_ref().len();
    let w = Budgeted::new(KERNEL, outputs, d, Some(20), Maintenance::Merge).unwrap();
    KernelProblem::from(Trainer::new(w, loss, params).unwrap())
}

#[test]
fn without_a_tolerance_pegasos_is_plain_runs() {
    fn law<S: Scalar, L: Loss + Clone + Send>(losses: &[L], data: &Examples<'_, S>, d: usize) {
        let n = data.len();
        let base = Params { lambda: 0.02, ..Params::default() };
        let constant = Schedule::Constant { eta0: 0.1 };
        for params in [
            base,
            Params { block: Block::Mean(7), ..base },
            Params { block: Block::Delayed(7), ..base },
            Params { average: Average::Polynomial, average_from: 30, ..base },
            Params { set: Some(Ball { radius: 1.0 }), schedule: constant, ..base },
        ] {
            for sampling in
                [Sampling::Shuffle, Sampling::Blocks, Sampling::Replacement, Sampling::Storage]
            {
                let policy = Policy {
                    solver: Solver::Pegasos,
                    tol: None,
                    max_epochs: 4,
                    sampling,
                    seed: 9,
                    ..Policy::default()
                };
                let mut fit = Fit::new(at_zero::<S, L>(losses, d, params), policy);
                let (events, outcome) = course(&mut fit, data, usize::MAX);
                assert_eq!((events.len(), outcome), (4, Outcome::Exhausted));
                // Half of it, and then the other half.
                let mut half = Fit::new(
                    at_zero::<S, L>(losses, d, params),
                    Policy { max_epochs: 2, ..policy },
                );
                half.run(data).unwrap();
                let rest = Policy { max_epochs: 2, first_epoch: 2, going_on: true, ..policy };
                let mut halves = Fit::new(half.into_problem(), rest);
                halves.run(data).unwrap();

                let mut want: Vec<_> =
                    losses.iter().map(|loss| trainer::<S, _>(loss.clone(), d, params)).collect();
                for (number, event) in (0..4).zip(&events) {
                    let (mut loss, mut visits) = (0.0, 0);
                    for trainer in &mut want {
                        let order = sampling.epoch(n, 9, number).unwrap();
                        let report = trainer.run(data, order).unwrap();
                        loss += report.loss;
                        visits += report.examples;
                    }
                    assert_eq!((event.loss, event.visits), (loss / visits as f64, visits));
                    assert!(event.certificate.primal.is_nan());
                }
                for fit in [&fit, &halves] {
                    for (got, want) in fit.problem().trainers().zip(&want) {
                        assert_eq!(got.hypothesis(), want.hypothesis(), "{params:?} {sampling:?}");
                        assert_eq!(got.t(), want.t());
                    }
                }
            }
        }
    }
    let problem = Problem::of_classes(90, 5, 4, 59);
    let data = Examples::new(problem.dense(), &problem.y, Some(&problem.weight)).unwrap();
    law(&[HINGE], &data, 5);
    law(&[FOUR], &data, 5);
    law(&rest(), &data, 5);
    let csr = problem.csr_of(|x| x as f32);
    let sparse = Examples::new(csr.view(), &problem.y, None).unwrap();
    law(&[HINGE], &sparse, 5);
    law(&[FOUR], &sparse, 5);
    law(&rest(), &sparse, 5);
}

/// As equal parts of an epoch as whole batches make.
fn parts(order: &[usize], shards: usize, batch: usize) -> Vec<&[usize]> {
    let steps = order.len().div_ceil(batch);
    let bound = |k: usize| (k * steps / shards * batch).min(order.len());
    (0..shards).map(|k| &order[bound(k)..bound(k + 1)]).collect()
}

#[test]
fn shards_are_shards() {
    fn law<L: Loss + Clone + Send>(losses: &[L], data: &Examples<'_, f64>, d: usize) {
        let n = data.len();
        let base = Params { lambda: 0.02, ..Params::default() };
        for (params, batch) in [
            (base, 1),
            (Params { block: Block::Mean(4), ..base }, 4),
            (Params { average: Average::Uniform, ..base }, 1),
            (Params { set: Some(Ball { radius: 1.0 }), ..base }, 1),
        ] {
            for shards in [2, 3, 5] {
                let policy = Policy { tol: Some(0.0), max_epochs: 3, shards, ..Policy::default() };
                let mut fit = Fit::new(at_zero::<f64, L>(losses, d, params), policy);
                let (events, outcome) = course(&mut fit, data, usize::MAX);
                assert_eq!(events.len(), 3);
                assert_eq!(outcome, Outcome::Exhausted);
                let mut want: Vec<_> =
                    losses.iter().map(|loss| trainer::<f64, _>(loss.clone(), d, params)).collect();
                want.iter_mut().for_each(|trainer| trainer.keep_ledger(n));
                for (number, event) in (0..3).zip(&events) {
                    let order: Vec<usize> =
                        Sampling::Shuffle.epoch(n, 0, number).unwrap().collect();
                    let parts = parts(&order, shards, batch);
                    let sizes: Vec<usize> = parts.iter().map(|part| part.len()).collect();
                    let (mut loss, mut visits) = (0.0, 0);
                    let mut sum = Certificate { primal: 0.0, dual: 0.0 };
                    for trainer in &mut want {
                        let mut split = Shards::split(trainer, &sizes).unwrap();
                        let report = split.run(data, &parts).unwrap();
                        split.merge_into(trainer).unwrap();
                        loss += report.loss;
                        visits += report.examples;
                        let certificate = trainer.certificate(data).unwrap();
                        sum.primal += certificate.primal;
                        sum.dual += certificate.dual;
                    }
                    let want = Event { loss: loss / visits as f64, certificate: sum, visits };
                    assert_eq!(bits(&[*event]), bits(&[want]), "{params:?} {shards}");
                }
                for (got, want) in fit.problem().trainers().zip(&want) {
                    assert_eq!(got.hypothesis(), want.hypothesis(), "{params:?} {shards}");
                    assert_eq!(got.t(), want.t());
                }
            }
        }
    }
    let problem = Problem::of_classes(77, 5, 4, 60);
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    law(&[HINGE], &data, 5);
    law(&[FOUR], &data, 5);
    law(&rest(), &data, 5);
    for shards in [0, 78] {
        let policy = Policy { shards, ..Policy::default() };
        let mut fit = Fit::new(at_zero::<f64, _>(&[HINGE], 5, Params::default()), policy);
        assert_eq!(refused(fit.advance(&data, 10)), "shards");
    }
    // Nor are there any with kernels.
    let policy = Policy { shards: 2, ..Policy::default() };
    let mut fit = Fit::new(unlimited::<f64, _>(HINGE, 5, Params::default()), policy);
    assert_eq!(refused(fit.run(&data)), "shards");
}

/// The name of the parameter that is refused.
fn refused<T>(result: Result<T, pegasos::Error>) -> String {
    match result.err().expect("an error").kind() {
        ErrorKind::Parameter { name, .. } => (*name).to_owned(),
        other => panic!("{other:?}"),
    }
}

/// Dual ascent goes on from plain Pegasos alone; who does not insist on it gets Pegasos.
#[test]
fn the_dual_solver_wants_plain_pegasos() {
    fn law<S: Scalar, P: pegasos::Problem<S>, T: PartialEq>(
        make: impl Fn() -> P,
        state: impl Fn(P) -> T,
        data: &Examples<'_, S>,
        policy: Policy,
    ) {
        let with = |solver| Fit::new(make(), Policy { solver, max_epochs: 4, ..policy });
        let mut dual = with(Solver::Dual);
        assert_eq!(refused(dual.advance(data, 10)), "solver", "{policy:?}");
        assert_eq!(refused(dual.run(data)), "solver", "{policy:?}");
        let (mut auto, mut pegasos) = (with(Solver::Auto), with(Solver::Pegasos));
        let ((a, ended), (b, also)) =
            (course(&mut auto, data, usize::MAX), course(&mut pegasos, data, usize::MAX));
        assert_eq!(bits(&a), bits(&b), "{policy:?}");
        assert_eq!(ended, also, "{policy:?}");
        assert!(state(auto.into_problem()) == state(pegasos.into_problem()), "{policy:?}");
    }
    let problem = Problem::of_classes(90, 5, 4, 61);
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    let base = Params { lambda: 0.02, ..Params::default() };
    let ball = Some(Ball { radius: 1.0 });
    let policy = Policy::default();
    for params in [
        Params { set: ball, ..base },
        Params { block: Block::Mean(3), ..base },
        Params { block: Block::Delayed(3), ..base },
        Params { average: Average::Uniform, ..base },
        Params { schedule: Schedule::Constant { eta0: 0.1 }, ..base },
    ] {
        law(|| at_zero::<f64, _>(&[HINGE], 5, params), state_of, &data, policy);
        law(|| at_zero::<f64, _>(&rest(), 5, params), state_of, &data, policy);
    }
    for policy in [
        Policy { sampling: Sampling::Replacement, ..policy },
        Policy { shards: 2, ..policy },
        Policy { going_on: true, ..policy },
    ] {
        law(|| at_zero::<f64, _>(&[FOUR], 5, base), state_of, &data, policy);
    }
    let kernel = || unlimited::<f64, _>(HINGE, 5, Params { set: ball, ..base });
    law(kernel, |mut problem| problem.model().unwrap().state(), &data, policy);
    let budget = || budgeted::<f64, _>(HINGE, 5, base);
    law(budget, |problem| problem.trainer().hypothesis().state(), &data, policy);
}

/// The objective of a model with kernels, written out by its scores.
fn objective<L: Loss>(
    loss: &L,
    w: &Expansion<f64>,
    data: &Examples<'_, f64>,
    problem: &Problem,
    lambda: f64,
) -> f64 {
    let (mut scores, mut scratch) = (vec![0.0; w.outputs()], vec![0.0; w.outputs()]);
    let mut sum = 0.0;
    for i in 0..problem.n {
        w.score(data.rows().row(i), &mut scores);
        sum += problem.weight[i] * loss.value_and_coef(&scores, problem.y[i], &mut scratch);
    }
    lambda / 2.0 * w.norm2_afresh() + sum / problem.n as f64
}

#[test]
fn auto_reaches_the_tolerance_with_kernels() {
    fn law<L: Loss + Clone + Send>(loss: L, problem: &Problem) {
        let data = Examples::new(problem.dense(), &problem.y, Some(&problem.weight)).unwrap();
        for lambda in [1e-4, 1e-2] {
            for tol in [1e-2, 1e-4] {
                let policy = Policy { tol: Some(tol), ..Policy::default() };
                let params = Params { lambda, ..Params::default() };
                let mut fit =
                    Fit::new(unlimited::<f64, _>(loss.clone(), problem.d, params), policy);
                let (events, outcome) = course(&mut fit, &data, usize::MAX);
                let certificate = events.last().unwrap().certificate;
                let what = format!("{lambda} {tol} {certificate:?}");
                assert_eq!(outcome, Outcome::Reached, "{what}");
                assert!(certificate.relative_gap() <= tol, "{what}");
                let model = fit.into_problem().model().unwrap();
                let primal = objective(&loss, &model, &data, problem, lambda);
                assert!((certificate.primal / primal - 1.0).abs() < 1e-9, "{what}, not {primal}");

                let mut ascent =
                    KernelAscent::new(KERNEL, loss.clone(), lambda, &data, 1 << 30).unwrap();
                let want = ascent.solve(&data, tol, 10_000).unwrap();
                assert!(want.relative_gap() <= tol);
                let apart = (want.primal - certificate.primal).abs();
                assert!(apart <= tol * want.primal.max(certificate.primal), "{what}, not {want:?}");
                assert!(certificate.dual <= want.primal && want.dual <= certificate.primal);
            }
        }
    }
    law(HINGE, &Problem::new(400, 5, 62));
    law(FOUR, &Problem::of_classes(400, 5, 4, 62));
}

/// Steps of 1/lambda, of slopes without a bound, would end in numbers that there are not.
#[test]
fn auto_makes_no_wild_steps_with_kernels() {
    let problem = Problem::new(40, 3, 65);
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    let loss = Binary { loss: AnyLoss::SquaredHinge, positive: 1 };
    for lambda in [1e-2, 1e-4, 1e-6] {
        let params = Params { lambda, ..Params::default() };
        let w = Expansion::<f64>::new(Kernel::Rbf { gamma: 0.7 }, 1, 3).unwrap();
        let problem = KernelProblem::from(Trainer::new(w, loss, params).unwrap());
        let event = Fit::new(problem, Policy::default()).run(&data).unwrap();
        assert!(event.certificate.relative_gap() <= 1e-3, "{lambda}: {event:?}");
    }
}

/// Where ascent is still far from the tolerance when a leap might come, and soon there all the same, a fit is nothing but
/// ascent.
#[test]
fn no_leap_where_ascent_is_soon_there() {
    let problem = Problem::new(2000, 20, 57).unweighted();
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    let params = Params { lambda: 0.5 / 2000.0, ..Params::default() };
    let run = |solver, max_epochs| {
        let policy = Policy { tol: Some(1e-3), max_epochs, solver, ..Policy::default() };
        course(&mut Fit::new(at_zero::<f64, _>(&[HINGE], 20, params), policy), &data, usize::MAX)
    };
    let (five, _) = run(Solver::Dual, 5);
    assert!(five[4].certificate.relative_gap() > 0.1, "{:?}", five[4]);
    let ((auto, outcome), (dual, _)) = (run(Solver::Auto, 100), run(Solver::Dual, 100));
    assert_eq!(outcome, Outcome::Reached);
    assert_eq!(bits(&auto), bits(&dual));
}

/// Nor where a linear model of long rows would swing ever wider, though `lambda n` is more than 1; steps that are short enough
/// come first all the same.
#[test]
fn auto_makes_no_wild_steps() {
    let mut problem = Problem::new(500, 300, 66).unweighted();
    problem.x.iter_mut().for_each(|x| *x *= 10.0);
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    let loss = Binary { loss: AnyLoss::SquaredHinge, positive: 1 };
    for (lambda, t0, steps) in [(0.01, 0.0, false), (1.0, 0.0, false), (1.0, 1e6, true)] {
        let params = Params { lambda, t0, ..Params::default() };
        let run = |solver| {
            let policy = Policy { solver, max_epochs: 1000, ..Policy::default() };
            course(&mut Fit::new(at_zero::<f64, _>(&[loss], 300, params), policy), &data, 100)
        };
        let ((auto, outcome), (dual, _)) = (run(Solver::Auto), run(Solver::Dual));
        assert_eq!(outcome, Outcome::Reached);
        assert!(auto.last().is_some_and(|event| event.certificate.relative_gap() <= 1e-3));
        assert_eq!(bits(&auto) != bits(&dual), steps, "{lambda} {t0}");
    }
}

/// Of a loss with curvature of its own a leap comes first, in place of all epochs, where steps are too long for one another and a
/// leap costs little; and the fit ends with a certified model. Not otherwise.
#[test]
fn short_leaps_come_first() {
    let law = |loss: AnyLoss, (n, d): (usize, usize), lambda_n: f64, leaps: bool| {
        let mut problem = Problem::new(n, d, 58).unweighted();
        problem.y.iter_mut().step_by(5).for_each(|y| *y = 1 - *y);
        let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
        let loss = Binary { loss, positive: 1 };
        let params =
            Params { lambda: lambda_n / n as f64, t0: 1e3 * n as f64, ..Params::default() };
        let run = |max_epochs, tol| {
            let policy = Policy { tol, max_epochs, ..Policy::default() };
            course(&mut Fit::new(at_zero::<f64, _>(&[loss], d, params), policy), &data, 7)
        };
        let (events, outcome) = run(1000, Some(1e-3));
        let what = format!("{loss:?}, {n} x {d}, lambda n = {lambda_n}: {events:?}");
        assert_eq!(outcome, Outcome::Reached, "{what}");
        let Event { loss: mean, certificate, .. } = *events.last().unwrap();
        assert!(certificate.relative_gap() <= 1e-3 && mean.is_finite(), "{what}");
        assert_eq!(events.iter().all(|event| event.visits == 0), leaps, "{what}");
        let mut dual = DualAscent::new(loss, params.lambda, n, d, 1.0).unwrap();
        let best = dual.solve(&data, 1e-6, 100_000, 0).unwrap();
        let gap = certificate.primal - best.dual;
        assert!(gap >= 0.0 && gap <= 1.01e-3 * certificate.primal, "{gap:e}, {what}");
        // Who asks for two epochs, or for epochs and no tolerance, gets them.
        assert!(run(2, Some(1e-3)).0[0].visits > 0 && run(3, None).0[0].visits > 0, "{what}");
    };
    for loss in [AnyLoss::Logistic, AnyLoss::SquaredHinge] {
        law(loss, (2000, 8), 0.1, true);
        law(loss, (2000, 8), 100.0, false);
        law(loss, (200, 100), 0.1, false);
    }
    law(AnyLoss::Hinge, (2000, 8), 0.1, false);
}
