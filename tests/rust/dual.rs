//! Dual ascent, which must reach the optimum, and may claim no more than the truth on its way.

use pegasos::{
    AnyLoss, Ball, Binary, CrammerSinger, Csr, Dense, DualAscent, Examples, Loss, Matrix, OneVsOne,
    OneVsRest, Params, Sampling, Scalar, Schedule,
};

use crate::generated::{
    CLASSES, HINGE, Problem, Rule, add, distance, dot, flat, joint, norm, sign, trainer,
};

/// The minimum of the objective of a loss on margins, intercept and all: coordinate ascent in the dual,
/// each step by halving an interval, until nothing moves.
pub fn minimum(problem: &Problem, loss: AnyLoss, lambda: f64) -> f64 {
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
pub fn minimum_of_classes(problem: &Problem, classes: usize, lambda: f64) -> f64 {
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

/// Solves to a relative gap and checks all that a certificate says. Returns P and the weights.
fn solves<'a, S: Scalar>(
    loss: impl Loss,
    rule: Rule,
    x: impl Into<Matrix<'a, S>>,
    problem: &'a Problem,
    lambda: f64,
    tol: f64,
    best: Option<f64>,
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
    let w = flat(&dual.result::<S>());
    let primal = problem.objective(rule, &w, 1.0, lambda);
    let bound = problem.image(rule, &dual.dual(), 1.0, lambda).1;
    let what = format!("{rule:?} at {lambda} to {tol}: {certificate:?}, {primal} and {bound}");
    assert!(certificate.relative_gap() <= tol, "{what}");
    assert!((certificate.primal - primal).abs() <= 1e-9 * primal, "{what}");
    assert!((certificate.dual - bound).abs() <= 1e-9 * primal, "{what}");
    if let Some(best) = best {
        assert!(certificate.dual <= best * (1.0 + 2e-10), "{what}, {best}");
        assert!(certificate.primal >= best * (1.0 - 1e-12), "{what}, {best}");
    }
    (primal, w)
}

/// The same in both layouts and scalars, for a rule's loss.
fn solves_all(rule: Rule, problem: &Problem, lambda: f64) {
    fn each(loss: impl Loss + Clone, rule: Rule, problem: &Problem, lambda: f64) {
        // Where that does not take for ever.
        let best = (lambda >= 1e-2 && rule.outputs() < MANY).then(|| match rule {
            Rule::Margin(loss) => minimum(problem, loss, lambda),
            Rule::CrammerSinger(classes) => minimum_of_classes(problem, classes, lambda),
        });
        solves(loss.clone(), rule, problem.csr().view(), problem, lambda, 1e-6, best);
        let (primal, w) = solves(loss.clone(), rule, problem.dense(), problem, lambda, 1e-6, best);
        // What rounding the weights to f32 may cost, losses being steep as far as they reach.
        let steep = |i: usize| {
            let f = problem.scores(i, &w, 1.0);
            norm(&rule.coef(&f, problem.y[i])).max(1.0) * problem.weight[i] / problem.n as f64
        };
        let size: f64 =
            (0..problem.n).map(|i| steep(i) * norm(&problem.features(i, 1.0)) * norm(&w)).sum();
        let tol = 1e-6 + f64::from(f32::EPSILON) * (size + lambda * dot(&w, &w)) / primal;
        let x = problem.single();
        let dense = Dense::new(&x, problem.n, problem.d).unwrap();
        solves(loss.clone(), rule, dense, problem, lambda, tol, best);
        solves(loss, rule, problem.csr_of(|x| x as f32).view(), problem, lambda, tol, best);
    }
    // What f32 holds, so that both scalars have one optimum.
    let problem = problem.clone().rounded();
    match rule {
        Rule::Margin(loss) => each(Binary { loss, positive: 1 }, rule, &problem, lambda),
        Rule::CrammerSinger(classes) => each(joint(classes), rule, &problem, lambda),
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

/// So many that an example's dual variables are a list, and most passes narrow.
const MANY: usize = 70;

#[test]
fn dual_ascent_reaches_the_optimum_of_many_classes() {
    let mut problem = Problem::of_classes(100, 3, MANY, 42);
    problem.y.iter_mut().step_by(5).for_each(|y| *y = (*y + 1) % MANY as u32);
    for lambda in [1e-4, 1e-2, 1.0, 10.0] {
        solves_all(Rule::CrammerSinger(MANY), &problem, lambda);
    }
    // Classes of which no score says more than of others: all of them contend.
    let silent = Problem { x: vec![0.0; 100 * 3], ..problem };
    for lambda in [1e-2, 1.0] {
        solves_all(Rule::CrammerSinger(MANY), &silent, lambda);
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
        problem.image(rule, &dual.dual(), 1.0, lambda);
    }
    let problem = Problem::new(40, 4, 31);
    let classes = Problem::of_classes(30, 3, 3, 32);
    let many = Problem::of_classes(100, 3, MANY, 42);
    for lambda in [1e-12, 1e-9, 1e2, 1e4, 1e6, 1e8, 1e10, 1e12] {
        for loss in LOSSES {
            law(Binary { loss, positive: 1 }, Rule::Margin(loss), &problem, lambda);
        }
        law(CLASSES, Rule::CrammerSinger(3), &classes, lambda);
        law(joint(MANY), Rule::CrammerSinger(MANY), &many, lambda);
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
    fn law<L: Loss + Clone>(loss: &L, rule: Rule, problem: Problem) {
        let problem = problem.rounded();
        let csr = problem.csr_of(|x| x as f32);
        let n = problem.n;
        let data = Examples::new(csr.view(), &problem.y, Some(&problem.weight)).unwrap();
        for (constant, lambda) in [0.0, 1.0].into_iter().flat_map(|c| LAMBDAS.map(|l| (c, l))) {
            let mut dual = DualAscent::new(loss.clone(), lambda, n, problem.d, constant).unwrap();
            dual.run(&data, 0..n).unwrap();
            for tol in [1e-3, 1e-6, 1e-6] {
                let before = (dual.dual_value(&data), dual.dual().to_vec());
                let leapt = dual.leap(&data, tol).unwrap();
                let what = format!("{rule:?} at {lambda} to {tol}, {constant}");
                let now = dual.certificate(&data).unwrap();
                assert!(!leapt || dual.dual_value(&data) > before.0, "{what}");
                assert_eq!(leapt, dual.dual() != before.1, "{what}");
                let (image, bound) = problem.image(rule, &dual.dual(), constant, lambda);
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
    for loss in LOSSES {
        for problem in [Problem::new(300, 4, 37), Problem::new(60, 3, 38).unweighted()] {
            law(&Binary { loss, positive: 1 }, Rule::Margin(loss), problem);
        }
    }
    // Of many classes dual variables are in lists. A step of Newton's method is cubic in classes times features.
    for (classes, d) in [(2, 4), (3, 4), (MANY, 2)] {
        let problem = Problem::of_classes(120, d, classes, 39);
        law(&CrammerSinger { classes }, Rule::CrammerSinger(classes), problem);
    }
    let problem = Problem::of_classes(60, 4, 3, 39);
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    let mut wrong = DualAscent::new(CLASSES, 0.01, 60, 5, 1.0).unwrap();
    assert!(wrong.leap(&data, 1e-3).is_err());
    // Labels that the loss does not know.
    let mut few = DualAscent::new(CrammerSinger { classes: 2 }, 0.01, 60, 4, 1.0).unwrap();
    assert!(few.leap(&data, 1e-3).is_err());
    // More weights than a leap may have.
    let d = 4 * 43;
    let x: Vec<f64> = problem.x.chunks(4).flat_map(|row| row.repeat(43)).collect();
    let data = Examples::new(Dense::new(&x, 60, d).unwrap(), &problem.y, None).unwrap();
    let mut none = DualAscent::new(CLASSES, 0.01, 60, d, 1.0).unwrap();
    assert!(!none.leap(&data, 1e-3).unwrap());
}

/// Where the regularisation is weak, a leap is there in one go.
#[test]
fn leaps_land_within_the_tolerance() {
    fn law<L: Loss>(loss: L, data: &Examples<'_, f64>, weak: f64, what: &str) {
        let (n, d) = (data.len(), data.rows().n_features());
        let mut dual = DualAscent::new(loss, weak / n as f64, n, d, 0.0).unwrap();
        dual.solve(data, 1e-3, 3, 0).unwrap();
        dual.leap(data, 1e-3).unwrap();
        let gap = dual.certificate(data).unwrap().relative_gap();
        assert!(gap <= 1e-3, "{what}, {n} x {d}, lambda n = {weak}: {gap:e}");
    }
    for (n, d, seed) in [(2000, 20, 41), (300, 40, 42), (4000, 5, 43)] {
        let problem = Problem::new(n, d, seed).unweighted();
        let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
        for loss in LOSSES {
            for weak in [0.1, 1e-3] {
                law(Binary { loss, positive: 1 }, &data, weak, &format!("{loss:?}"));
            }
        }
        // Where there are about as many weights as examples it takes some epochs and another leap.
        for classes in [3, 7].into_iter().filter(|classes| 2 * classes * d < n) {
            let mut problem = Problem::of_classes(n, d, classes, seed);
            // Some labels wrong, features of very different sizes.
            problem.y.iter_mut().step_by(10).for_each(|y| *y = (*y + 1) % classes as u32);
            for row in problem.x.chunks_mut(d) {
                row.iter_mut().step_by(3).for_each(|x| *x *= 100.0);
            }
            let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
            for weak in [0.1, 1e-3] {
                law(CrammerSinger { classes }, &data, weak, &format!("{classes} classes"));
            }
        }
    }
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
        let weighty = visited.iter().zip(&problem.weight).filter(|(_, weight)| **weight > 0.0);
        assert!(weighty.map(|(last, _)| *last).all(|last| 400 - last < 32));
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

/// From one lambda to the next D never falls below that of the same dual point, and w stays the image of where it begins.
#[test]
fn a_turn_to_another_lambda_never_lowers_the_dual() {
    /// How often D was higher.
    fn law(loss: impl Loss + Clone, rule: Option<Rule>, problem: &Problem, path: &[f64]) -> usize {
        let data = Examples::new(problem.dense(), &problem.y, Some(&problem.weight)).unwrap();
        let mut dual = DualAscent::new(loss, path[0], problem.n, problem.d, 1.0).unwrap();
        let mut higher = 0;
        for &lambda in path {
            let mut stays = dual.clone();
            stays.set_lambda(lambda).unwrap();
            dual.set_lambda(lambda).unwrap();
            let same = stays.certificate(&data).unwrap();
            let began = dual.solve(&data, 0.0, 0, 0).unwrap();
            let what = format!("{rule:?} at {lambda}: {same:?}, {began:?}");
            assert!(began.dual >= same.dual - 1e-12 * same.primal, "{what}");
            higher += usize::from(began.dual > same.dual + 1e-9 * same.primal);
            if let Some(rule) = rule {
                let bound = problem.image(rule, &dual.dual(), 1.0, lambda).1;
                assert!((began.dual - bound).abs() <= 1e-9 * began.primal, "{what}, {bound}");
            }
            let end = dual.solve(&data, 1e-4, 100_000, 0).unwrap();
            assert!(end.relative_gap() <= 1e-4, "{what}, {end:?}");
        }
        higher
    }
    let down = [1.0, 0.3, 0.1, 0.03, 0.01, 0.003];
    let up = [0.003, 0.01, 0.03, 0.3, 1.0];
    let mut problem = Problem::new(60, 100, 51);
    problem.weight.iter_mut().step_by(7).for_each(|weight| *weight = 0.0);
    let classes = Problem::of_classes(60, 100, 3, 52);
    for path in [&down[..], &up] {
        for loss in LOSSES {
            let rule = Some(Rule::Margin(loss));
            assert!(law(Binary { loss, positive: 1 }, rule, &problem, path) >= 2, "{loss:?}");
            let several = OneVsRest { loss, positives: vec![0, 1, 2] };
            assert!(law(several, None, &classes, path) >= 2, "{loss:?}");
            law(OneVsOne { loss, classes: 3 }, None, &classes, path);
        }
        assert!(law(CLASSES, Some(Rule::CrammerSinger(3)), &classes, path) >= 2);
    }
}

/// Some of many classes against the rest, in any order, are as many problems by themselves.
#[test]
fn some_of_many_classes_are_their_own_problems() {
    let (n, d, lambda) = (150, 4, 0.05);
    let problem = Problem::of_classes(n, d, 90, 55);
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    let positives: Vec<u32> = (10..80).rev().collect();
    for loss in LOSSES {
        let several = OneVsRest { loss, positives: positives.clone() };
        let mut together = DualAscent::new(several, lambda, n, d, 1.0).unwrap();
        assert!(together.solve(&data, 1e-9, 100_000, 0).unwrap().relative_gap() <= 1e-9);
        let all = together.result::<f64>().weights();
        for (o, &positive) in positives.iter().enumerate().step_by(23) {
            let mut alone = DualAscent::new(Binary { loss, positive }, lambda, n, d, 1.0).unwrap();
            alone.solve(&data, 1e-9, 100_000, 0).unwrap();
            let near = |(a, b): (&f64, &f64)| (a - b).abs() < 5e-3;
            let weights = alone.result::<f64>().weights();
            assert!(weights.iter().zip(&all[o * d..]).all(near), "{loss:?} {positive}");
        }
    }
}

/// Weights may be others where dual variables are 0, also of rows that the point before had something of.
#[test]
fn weights_may_change_with_lambda() {
    let problem = Problem::new(60, 100, 53);
    for loss in LOSSES {
        let mut weight = problem.weight.clone();
        weight[..20].fill(0.0);
        let mut dual = DualAscent::new(Binary { loss, positive: 1 }, 1.0, 60, 100, 1.0).unwrap();
        for (round, lambda) in [0.1, 0.03, 0.01, 0.003].into_iter().enumerate() {
            let of = dual.dual().into_owned();
            for (i, weight) in weight.iter_mut().enumerate() {
                if of[i] == 0.0 {
                    *weight = if (i + round) % 3 == 0 { 0.0 } else { problem.weight[i] };
                }
            }
            let now = Problem { weight: weight.clone(), ..problem.clone() };
            let data = Examples::new(now.dense(), &now.y, Some(&now.weight)).unwrap();
            dual.set_lambda(lambda).unwrap();
            let certificate = dual.solve(&data, 1e-6, 100_000, 0).unwrap();
            assert!(certificate.relative_gap() <= 1e-6, "{loss:?} at {lambda}: {certificate:?}");
            let bound = now.image(Rule::Margin(loss), &dual.dual(), 1.0, lambda).1;
            assert!((certificate.dual - bound).abs() <= 1e-9 * bound, "{loss:?} at {lambda}");
        }
    }
}

/// Rows without weight change no bit, whatever stands in them; but numbers they must be.
#[test]
fn what_has_no_weight_changes_nothing_but_must_be_finite() {
    let mut problem = Problem::new(80, 5, 54);
    problem.weight.iter_mut().step_by(3).for_each(|weight| *weight = 0.0);
    let solved = |problem: &Problem| {
        let data = Examples::new(problem.dense(), &problem.y, Some(&problem.weight)).unwrap();
        let mut dual = DualAscent::new(HINGE, 0.1, problem.n, problem.d, 1.0).unwrap();
        for lambda in [0.1, 0.03, 0.01] {
            dual.set_lambda(lambda).unwrap();
            dual.solve(&data, 1e-6, 10_000, 0)?;
        }
        Ok::<_, pegasos::Error>(flat(&dual.result::<f64>()))
    };
    let w = solved(&problem).unwrap();
    let mut other = problem.clone();
    for i in (0..80).step_by(3) {
        other.y[i] = 1 - other.y[i];
        other.x[i * 5..(i + 1) * 5].fill(i as f64);
    }
    assert_eq!(w, solved(&other).unwrap());
    other.x[15] = f64::NAN;
    assert!(solved(&other).is_err());
}
