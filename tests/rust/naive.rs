//! The papers' pseudo-code in its plainest form, against the crate, on the same order of examples.

use pegasos::{
    AnyLoss, Average, Ball, Binary, Block, Csr, Dense, DualAscent, Examples, Hypothesis, Linear,
    Loss, Matrix, Params, Sampling, Scalar, Schedule, Shards, Trainer,
};

use crate::generated::{Problem, Rule, add, distance, dot, flat, joint, shrink_into, sign};

/// Algorithm 1 of Shalev-Shwartz et al. (2011) with its options, w written out at every step.
#[derive(Clone, Copy)]
struct Naive<'a> {
    problem: &'a Problem,
    rule: Rule,
    params: Params,
    constant: f64,
}

/// Weights are outputs x (features, then the constant feature).
#[derive(Clone)]
struct Iterate {
    w: Vec<f64>,
    t: u64,
    mean: Vec<f64>,
    /// The sum of the weights of the iterates in the mean.
    total: f64,
    /// The loss's gradient at every step so far.
    gradients: Vec<Vec<f64>>,
}

impl Naive<'_> {
    fn eta(&self, t: f64) -> f64 {
        match self.params.schedule {
            Schedule::Pegasos => 1.0 / (self.params.lambda * t),
            Schedule::InvScaling { eta0, power } => eta0 / t.powf(power),
            Schedule::Constant { eta0 } => eta0,
            Schedule::Forgetting { horizon } => {
                (1.0 / (self.params.lambda * t)).max(1.0 / (self.params.lambda * horizon))
            }
        }
    }

    fn start(&self) -> Iterate {
        let w = vec![0.0; self.rule.outputs() * (self.problem.d + 1)];
        Iterate { mean: w.clone(), w, t: 0, total: 0.0, gradients: Vec::new() }
    }

    /// One step, on a batch.
    fn step(&self, at: &mut Iterate, rows: &[usize]) {
        let Params { lambda, t0, set, block, average, average_from: from, .. } = self.params;
        at.t += 1;
        let eta = self.eta(t0 + at.t as f64);
        let mut gradient = vec![0.0; at.w.len()];
        for &i in rows {
            let x = self.problem.features(i, self.constant);
            let scores = self.problem.scores(i, &at.w, self.constant);
            let coef = self.rule.coef(&scores, self.problem.y[i]);
            for (gradient, c) in gradient.chunks_mut(x.len()).zip(coef) {
                add(gradient, -c * self.problem.weight[i] / rows.len() as f64, &x);
            }
        }
        at.gradients.push(gradient);
        // The regulariser's gradient is that of the present w, the loss's that of some steps ago.
        at.w.iter_mut().for_each(|w| *w *= 1.0 - eta * lambda);
        let delay = if let Block::Delayed(delay) = block { delay } else { 0 };
        if let Some(old) = at.gradients.len().checked_sub(delay + 1) {
            add(&mut at.w, -eta, &at.gradients[old]);
        }
        if let Some(Ball { radius }) = set {
            shrink_into(&mut at.w, radius);
        }
        if average != Average::None && at.t >= from {
            let k = (at.t - from + 1) as f64;
            let q = match average {
                Average::Polynomial => k * (k + 1.0) * (k + 2.0),
                _ => 1.0,
            };
            at.total += q;
            let share = q / at.total;
            at.mean.iter_mut().zip(&at.w).for_each(|(m, w)| *m += (w - *m) * share);
        }
    }

    fn run(&self, at: &mut Iterate, order: &[usize]) {
        let batch = if let Block::Mean(batch) = self.params.block { batch } else { 1 };
        order.chunks(batch).for_each(|rows| self.step(at, rows));
    }

    /// The last iterate, or the mean of the iterates.
    fn train(&self, order: &[usize]) -> Vec<f64> {
        let mut at = self.start();
        self.run(&mut at, order);
        if at.total > 0.0 { at.mean } else { at.w }
    }
}

/// The crate's answer.
fn fast<'a, S: Scalar>(
    x: impl Into<Matrix<'a, S>>,
    naive: &Naive<'a>,
    order: &[usize],
) -> Vec<f64> {
    fn train<'a, S: Scalar>(
        x: Matrix<'a, S>,
        loss: impl Loss,
        naive: &Naive<'a>,
        order: &[usize],
    ) -> Vec<f64> {
        let Naive { problem, rule, params, constant } = *naive;
        let data = Examples::new(x, &problem.y, Some(&problem.weight)).unwrap();
        let linear = Linear::<S>::new(rule.outputs(), problem.d, constant).unwrap();
        let mut trainer = Trainer::new(linear, loss, params).unwrap();
        trainer.run(&data, order.iter().copied()).unwrap();
        flat(&trainer.result())
    }
    let x = x.into();
    match naive.rule {
        Rule::Margin(loss) => train(x, Binary { loss, positive: 1 }, naive, order),
        Rule::CrammerSinger(classes) => train(x, joint(classes), naive, order),
    }
}

fn epochs(n: usize, seed: u64, epochs: u64) -> Vec<usize> {
    (0..epochs).flat_map(|epoch| Sampling::Shuffle.epoch(n, seed, epoch).unwrap()).collect()
}

/// Each loss with a problem for it.
fn problems(n: usize, d: usize, seed: u64) -> Vec<(Rule, Problem)> {
    let margin = [AnyLoss::Hinge, AnyLoss::SquaredHinge, AnyLoss::Logistic];
    let margin = margin.map(|loss| (Rule::Margin(loss), Problem::new(n, d, seed)));
    let classes = [3, 5].map(|k| (Rule::CrammerSinger(k), Problem::of_classes(n, d, k, seed)));
    margin.into_iter().chain(classes).collect()
}

const INV: Schedule = Schedule::InvScaling { eta0: 0.5, power: 0.5 };

#[test]
fn every_composition_agrees_with_the_pseudo_code() {
    let order = epochs(60, 5, 4);
    let schedules = [
        Schedule::Pegasos,
        INV,
        Schedule::InvScaling { eta0: 0.5, power: 1.0 },
        Schedule::Constant { eta0: 0.02 },
        Schedule::forgetting(15.0).unwrap(),
    ];
    let averages = [(Average::None, 1), (Average::Uniform, 1), (Average::Polynomial, 30)];
    let mut tried = 0;
    for (rule, problem) in &problems(60, 7, 1) {
        let csr = problem.csr();
        for schedule in schedules {
            for (average, average_from) in averages {
                if matches!(schedule, Schedule::Forgetting { .. }) && average != Average::None {
                    continue;
                }
                for batch in [1, 7] {
                    for (t0, set) in [(0.0, None), (0.0, Some(Ball { radius: 1.5 })), (40.0, None)]
                    {
                        for constant in [0.0, 1.0] {
                            let params = Params {
                                lambda: 0.3,
                                schedule,
                                t0,
                                set,
                                block: Block::Mean(batch),
                                average,
                                average_from,
                            };
                            let naive = Naive { problem, rule: *rule, params, constant };
                            let want = naive.train(&order);
                            let error = distance(&fast(problem.dense(), &naive, &order), &want);
                            assert!(error < 1e-9, "{rule:?} {params:?} {constant}: {error}");
                            let error = distance(&fast(csr.view(), &naive, &order), &want);
                            assert!(error < 1e-9, "sparse {rule:?} {params:?}: {error}");
                            tried += 1;
                        }
                    }
                }
            }
        }
    }
    assert_eq!(tried, 5 * (4 * 3 + 1) * 2 * 3 * 2);
}

/// The steps and sets that delayed runs are tried with. Some delays are longer than the run.
fn delayed() -> Vec<Params> {
    let mut all = Vec::new();
    for delay in [0, 1, 3, 17, 500] {
        for (lambda, schedule) in [(0.3, Schedule::Pegasos), (0.3, INV), (0.0, INV)] {
            for set in [None, Some(Ball { radius: 1.5 })] {
                for average in [Average::None, Average::Uniform] {
                    let block = Block::Delayed(delay);
                    let base = Params::default();
                    all.push(Params { lambda, schedule, set, block, average, ..base });
                }
            }
        }
    }
    all
}

#[test]
fn delayed_gradients_agree_with_the_pseudo_code() {
    let order = epochs(60, 5, 4);
    for (rule, problem) in &problems(60, 7, 4) {
        let csr = problem.csr();
        for params in delayed() {
            for constant in [0.0, 1.0] {
                let naive = Naive { problem, rule: *rule, params, constant };
                let want = naive.train(&order);
                for got in [fast(problem.dense(), &naive, &order), fast(csr.view(), &naive, &order)]
                {
                    let error = distance(&got, &want);
                    assert!(error < 1e-9, "{rule:?} {params:?} {constant}: {error}");
                }
                let still = Block::Delayed(500) == params.block;
                assert_eq!(still, want.iter().all(|&w| w == 0.0), "{rule:?} {params:?}");
            }
        }
    }
}

#[test]
fn no_gradient_arrives_before_its_time() {
    let problem = Problem::new(30, 4, 6).unweighted();
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    let loss = Binary { loss: AnyLoss::Hinge, positive: 1 };
    let params = Params { lambda: 0.1, block: Block::Delayed(5), ..Params::default() };
    let mut trainer = Trainer::new(Linear::new(1, 4, 0.0).unwrap(), loss, params).unwrap();
    trainer.keep_ledger(30);
    let report = trainer.run(&data, 0..5).unwrap();
    assert_eq!((report.examples, report.updates, report.loss), (5, 5, 5.0));
    assert_eq!((trainer.t(), trainer.flights().len()), (5, 5));
    assert_eq!(trainer.hypothesis().norm2(), 0.0);
    assert!((0..30).all(|i| *trainer.ledger().unwrap().sums(i) == [0.0]));
    trainer.run(&data, [5]).unwrap();
    assert_eq!((trainer.t(), trainer.flights().len()), (6, 5));
    let step = sign(problem.y[0]) / (0.1 * 6.0);
    for (w, x) in trainer.hypothesis().weights().iter().zip(problem.row(0)) {
        assert!((w - step * x).abs() < 1e-15);
    }
    assert!((0..30).all(|i| (*trainer.ledger().unwrap().sums(i) != [0.0]) == (i == 0)));
}

/// Gradients in flight outlive runs, matrices and trainers.
#[test]
fn a_delayed_run_in_pieces_is_the_run() {
    fn law<L: Loss + Clone>(loss: L, problem: &Problem)
    where
        L::Scores: PartialEq,
    {
        let csr = problem.csr();
        let (y, weight) = (&problem.y, Some(&problem.weight[..]));
        let dense = Examples::new(problem.dense(), y, weight).unwrap();
        let sparse = Examples::new(csr.view(), y, weight).unwrap();
        let order = epochs(problem.n, 8, 3);
        let outputs = loss.zeros().as_ref().len();
        for params in delayed() {
            let new = || {
                let linear = Linear::new(outputs, problem.d, 1.0).unwrap();
                Trainer::new(linear, loss.clone(), params).unwrap()
            };
            let (mut whole, mut whole_sparse) = (new(), new());
            whole.run(&dense, order.iter().copied()).unwrap();
            whole_sparse.run(&sparse, order.iter().copied()).unwrap();
            for lengths in [&[1][..], &[2, 0, 5], &[16, 1, 40]] {
                let (mut a, mut b, mut mixed) = (new(), new(), new());
                let mut rest = &order[..];
                for (k, &length) in lengths.iter().cycle().enumerate() {
                    let piece = rest.split_off(..length.min(rest.len())).unwrap();
                    a.run(&dense, piece.iter().copied()).unwrap();
                    b.run(&sparse, piece.iter().copied()).unwrap();
                    if k % 2 == 0 {
                        mixed.run(&dense, piece.iter().copied()).unwrap();
                    } else {
                        mixed.run(&sparse, piece.iter().copied()).unwrap();
                    }
                    if k % 3 == 1 {
                        for trainer in [&mut a, &mut b, &mut mixed] {
                            let state = trainer.hypothesis().state();
                            let linear = Linear::from_state(problem.d, state).unwrap();
                            let t = trainer.t();
                            let mut new = Trainer::resume(linear, loss.clone(), params, t).unwrap();
                            new.set_flights(trainer.flights().clone());
                            *trainer = new;
                        }
                    }
                    if rest.is_empty() {
                        break;
                    }
                }
                for (trainer, whole) in [(&a, &whole), (&b, &whole_sparse)] {
                    assert_eq!(trainer.t(), whole.t());
                    assert_eq!(trainer.hypothesis(), whole.hypothesis(), "{params:?} {lengths:?}");
                    assert_eq!(trainer.flights(), whole.flights(), "{params:?} {lengths:?}");
                }
                let error = distance(&flat(&mixed.result()), &flat(&whole.result()));
                assert!(error < 1e-9, "{params:?} {lengths:?}: {error}");
            }
        }
    }
    law(Binary { loss: AnyLoss::Hinge, positive: 1 }, &Problem::new(40, 6, 7));
    law(joint(3), &Problem::of_classes(40, 6, 3, 7));
}

/// All that is overdue when a delay has become shorter arrives at once.
#[test]
fn a_shorter_delay_leaves_nothing_in_flight_for_longer() {
    let problem = Problem::new(30, 4, 9);
    let data = Examples::new(problem.dense(), &problem.y, Some(&problem.weight)).unwrap();
    let loss = Binary { loss: AnyLoss::Logistic, positive: 1 };
    for (lambda, schedule) in [(0.3, Schedule::Pegasos), (0.0, INV)] {
        for (block, left) in [(Block::Delayed(2), 2), (Block::Delayed(0), 0), (Block::Mean(1), 0)] {
            let params = Params { lambda, schedule, block: Block::Delayed(5), ..Params::default() };
            let mut long = Trainer::new(Linear::new(1, 4, 1.0).unwrap(), loss, params).unwrap();
            long.run(&data, 0..9).unwrap();
            let linear = Linear::from_state(4, long.hypothesis().state()).unwrap();
            let mut short = Trainer::resume(linear, loss, Params { block, ..params }, 9).unwrap();
            short.set_flights(long.flights().clone());

            let mut want = flat(long.hypothesis());
            let taken = |i: usize, w: &[f64]| {
                let scores = problem.scores(i, w, 1.0);
                Rule::Margin(AnyLoss::Logistic).coef(&scores, problem.y[i])[0] * problem.weight[i]
            };
            let mut flights: Vec<(usize, f64)> =
                long.flights().iter().map(|flight| (flight.example, flight.coef[0])).collect();
            for (t, i) in (10..).zip(9..14) {
                flights.push((i, taken(i, &want)));
                let eta = schedule.eta(lambda, f64::from(t));
                want.iter_mut().for_each(|w| *w *= 1.0 - eta * lambda);
                while flights.len() > left {
                    let (i, coef) = flights.remove(0);
                    add(&mut want, eta * coef, &problem.features(i, 1.0));
                }
                short.run(&data, [i]).unwrap();
                assert_eq!(short.flights().len(), left, "{block:?} {t}");
                let error = distance(&flat(short.hypothesis()), &want);
                assert!(error < 1e-13, "{block:?} {t}: {error}");
            }
        }
    }
}

/// Hsieh et al. (2008), Algorithm 1, for examples of weight s: `a` is clipped to [0, 1], and an example
/// counts `s a`.
fn ascend(
    problem: &Problem,
    lambda: f64,
    constant: f64,
    order: &[usize],
    a: &mut [f64],
    w: &mut [f64],
) {
    let lambda_n = lambda * problem.n as f64;
    for &i in order {
        let (x, y, s) = (problem.features(i, constant), sign(problem.y[i]), problem.weight[i]);
        if s == 0.0 {
            continue;
        }
        let violation = 1.0 - y * dot(w, &x);
        let new = (a[i] + lambda_n * violation / (s * dot(&x, &x))).clamp(0.0, 1.0);
        add(w, s * (new - a[i]) * y / lambda_n, &x);
        a[i] = new;
    }
}

#[test]
fn dual_ascent_agrees_with_the_pseudo_code() {
    let loss = Binary { loss: AnyLoss::Hinge, positive: 1 };
    for problem in [Problem::new(60, 7, 11), Problem::new(60, 3, 12).unweighted()] {
        let csr = problem.csr();
        let (y, weight) = (&problem.y, Some(&problem.weight[..]));
        let dense = Examples::new(problem.dense(), y, weight).unwrap();
        let sparse = Examples::new(csr.view(), y, weight).unwrap();
        for lambda in [1e-4, 1e-2, 1.0] {
            for constant in [0.0, 1.0] {
                let new = || DualAscent::new(loss, lambda, 60, problem.d, constant).unwrap();
                let (mut a, mut b) = (new(), new());
                let (mut alpha, mut w) = (vec![0.0; 60], vec![0.0; problem.d + 1]);
                for epoch in 0..5 {
                    let order: Vec<usize> =
                        Sampling::Shuffle.epoch(60, 3, epoch).unwrap().collect();
                    a.run(&dense, order.iter().copied()).unwrap();
                    b.run(&sparse, order.iter().copied()).unwrap();
                    ascend(&problem, lambda, constant, &order, &mut alpha, &mut w);
                    let duals: Vec<f64> =
                        alpha.iter().zip(y).map(|(alpha, &y)| alpha * sign(y)).collect();
                    for fast in [&a, &b] {
                        let error = distance(&flat(&fast.result::<f64>()), &w);
                        assert!(error < 1e-9, "{lambda} {constant} {epoch}: {error}");
                        let error = distance(&fast.dual(), &duals);
                        assert!(error < 1e-9, "{lambda} {constant} {epoch}: {error}");
                    }
                }
            }
        }
    }
}

/// Dual ascent begins at the trainer's dual point, its w at that point's image, and from there D only
/// rises.
#[test]
fn dual_ascent_starts_where_pegasos_stops() {
    fn law<L: Loss + Clone>(
        loss: L,
        rule: Rule,
        problem: &Problem,
        params: Params,
        sampling: Sampling,
    ) {
        let csr = problem.csr();
        let data = Examples::new(csr.view(), &problem.y, Some(&problem.weight)).unwrap();
        let linear = Linear::<f64>::new(rule.outputs(), problem.d, 1.0).unwrap();
        let mut trainer = Trainer::new(linear, loss, params).unwrap();
        trainer.keep_ledger(problem.n);
        for epoch in 0..6 {
            trainer.run(&data, sampling.epoch(problem.n, 4, epoch).unwrap()).unwrap();
        }
        let stood = trainer.certificate(&data).unwrap();
        let mut dual = DualAscent::take_over(&trainer, &data).unwrap();
        let stands = dual.certificate(&data).unwrap();
        let what = format!("{rule:?} {params:?} {sampling:?}: {stands:?} {stood:?}");
        // Permutations without weights count in whole numbers, and never too often. Other ledgers are
        // as exact as f32.
        let whole = problem.weight.iter().all(|&s| s == 1.0)
            && sampling == Sampling::Shuffle
            && matches!(rule, Rule::HINGE | Rule::CrammerSinger(_));
        let tol = if whole { 1e-12 } else { 1e-7 };
        if stood.dual > 0.0 {
            assert!((stands.dual - stood.dual).abs() < tol, "{what}");
        } else {
            // a = 0 is better.
            assert_eq!(stands.dual, 0.0, "{what}");
        }
        let (image, bound) = problem.image(rule, &dual.dual(), 1.0, params.lambda);
        let error = distance(&flat(&dual.result::<f64>()), &image);
        assert!(error < 10.0 * tol, "{what}: {error}");
        assert!((stands.dual - bound).abs() < 1e-12, "{what}: {bound}");
        if stood.dual > 0.0 && whole {
            let error = distance(&flat(&dual.result::<f64>()), &flat(trainer.hypothesis()));
            assert!(error < 1e-13, "{what}: {error}");
        }
        let mut last = dual.dual_value(&data);
        for i in epochs(problem.n, 5, 5) {
            dual.run(&data, [i]).unwrap();
            let now = dual.dual_value(&data);
            assert!(now >= last - 1e-14 * (1.0 + last.abs()), "{params:?}: {now} after {last}");
            last = now;
        }
        assert!(last > stood.dual);
        assert!(last <= dual.certificate(&data).unwrap().primal);
    }
    let base = Params { lambda: 0.05, ..Params::default() };
    for params in [
        base,
        Params { block: Block::Mean(4), ..base },
        Params { block: Block::Delayed(7), ..base },
        Params { average: Average::Uniform, ..base },
        Params { t0: 50.0, ..base },
    ] {
        // Of many classes an example's account is a list.
        let many = (Rule::CrammerSinger(70), Problem::of_classes(60, 6, 70, 14));
        for (rule, problem) in problems(60, 6, 13).into_iter().chain([many]) {
            for problem in [problem.clone(), problem.unweighted()] {
                // Draws with replacement leave the domain: some example's turn comes too often.
                for sampling in [Sampling::Shuffle, Sampling::Replacement] {
                    match rule {
                        Rule::Margin(loss) => {
                            law(Binary { loss, positive: 1 }, rule, &problem, params, sampling);
                        }
                        Rule::CrammerSinger(classes) => {
                            law(joint(classes), rule, &problem, params, sampling);
                        }
                    }
                }
            }
        }
    }
}

/// Zinkevich, Weimer, Smola and Li (2010), Algorithm 3, after every epoch: copies of Algorithm 1, each
/// on its own rows with its own count of steps, averaged in proportion to their steps.
#[test]
fn shards_agree_with_the_pseudo_code() {
    fn law<L: Loss + Clone + Send>(loss: L, rule: Rule, problem: &Problem, params: Params) {
        let data = Examples::new(problem.dense(), &problem.y, Some(&problem.weight)).unwrap();
        let outputs = rule.outputs();
        let linear = Linear::<f64>::new(outputs, problem.d, 1.0).unwrap();
        let mut trainer = Trainer::new(linear, loss, params).unwrap();
        trainer.keep_ledger(problem.n);

        let sizes: [usize; 3] = [24, 9, 17];
        let Block::Mean(batch) = params.block else { unreachable!() };
        let steps = sizes.map(|rows| rows.div_ceil(batch) as f64);
        let all: f64 = steps.iter().sum();
        let shares = steps.map(|steps| steps / all);
        let copies = shares.map(|share| Naive {
            problem,
            rule,
            params: Params {
                t0: params.t0 * share,
                average_from: 1 + ((params.average_from - 1) as f64 * share).round() as u64,
                ..params
            },
            constant: 1.0,
        });
        let mut iterates = copies.map(|naive| naive.start());

        for epoch in 0..3 {
            let order: Vec<usize> = Sampling::Shuffle.epoch(problem.n, 6, epoch).unwrap().collect();
            let (a, rest) = order.split_at(sizes[0]);
            let (b, c) = rest.split_at(sizes[1]);
            let mut shards = Shards::split(&trainer, &sizes).unwrap();
            // In two pieces, the first of whole batches.
            let (heads, tails): (Vec<_>, Vec<_>) =
                [a, b, c].iter().map(|part| part.split_at(8)).unzip();
            shards.run(&data, &heads).unwrap();
            shards.run(&data, &tails).unwrap();
            shards.merge_into(&mut trainer).unwrap();

            let (mut w, mut mean) =
                (vec![0.0; iterates[0].w.len()], vec![0.0; iterates[0].w.len()]);
            for (((naive, at), part), share) in
                copies.iter().zip(&mut iterates).zip([a, b, c]).zip(shares)
            {
                naive.run(at, part);
                add(&mut w, share, &at.w);
                add(&mut mean, share, &at.mean);
            }
            for at in &mut iterates {
                at.w.clone_from(&w);
                at.mean.clone_from(&mean);
            }
            assert_eq!(trainer.t(), iterates.iter().map(|at| at.t).sum::<u64>());
            let error = distance(&flat(trainer.hypothesis()), &w);
            assert!(error < 1e-9, "{rule:?} {params:?} {epoch}: {error}");
            if iterates[0].total > 0.0 {
                let error = distance(&flat(&trainer.result()), &mean);
                assert!(error < 1e-9, "mean {rule:?} {params:?} {epoch}: {error}");
            }
        }
    }
    let base = Params { lambda: 0.3, ..Params::default() };
    let compositions = [
        base,
        Params { block: Block::Mean(4), ..base },
        Params { schedule: INV, set: Some(Ball { radius: 0.5 }), ..base },
        Params { lambda: 0.0, schedule: INV, ..base },
        Params { t0: 20.0, ..base },
        Params { average: Average::Uniform, ..base },
        Params { average: Average::Polynomial, ..base },
        // From the second epoch on.
        Params { average: Average::Uniform, average_from: 51, ..base },
        Params { average: Average::Polynomial, average_from: 51, schedule: INV, ..base },
    ];
    for params in compositions {
        for (rule, problem) in problems(50, 6, 14) {
            match rule {
                Rule::Margin(loss) => law(Binary { loss, positive: 1 }, rule, &problem, params),
                Rule::CrammerSinger(classes) => {
                    law(joint(classes), rule, &problem, params);
                }
            }
        }
    }
}

#[test]
fn f32_stays_near_the_pseudo_code() {
    let order = epochs(200, 9, 1);
    for (rule, problem) in &problems(200, 20, 2) {
        let x = problem.single();
        let params = Params { lambda: 0.1, ..Params::default() };
        let naive = Naive { problem, rule: *rule, params, constant: 1.0 };
        let dense = Dense::new(&x, problem.n, problem.d).unwrap();
        let error = distance(&fast(dense, &naive, &order), &naive.train(&order));
        assert!(error < 1e-4, "{rule:?}: {error}");
    }
}

#[test]
fn indices_of_every_type_agree() {
    let problem = Problem::new(40, 9, 3);
    let csr = problem.csr();
    let order: Vec<usize> = (0..40).collect();
    let params = Params::default();
    let naive = Naive { problem: &problem, rule: Rule::HINGE, params, constant: 0.0 };
    let want = fast(csr.view(), &naive, &order);
    macro_rules! agrees {
        ($($t:ty),*) => {$({
            let indptr: Vec<$t> = csr.indptr.iter().map(|&i| i as $t).collect();
            let indices: Vec<$t> = csr.indices.iter().map(|&i| i as $t).collect();
            let x = Csr::new(&indptr, &indices, &csr.values, problem.d).unwrap();
            assert_eq!(fast(x, &naive, &order), want);
        })*};
    }
    agrees!(i32, i64);
}
