//! Several classes, one against the rest: one trainer for all of them, and weights that stand feature after feature.

use pegasos::{
    AnyLoss, Binary, CrammerSinger, Csr, DualAscent, Event, Examples, Fit, Frozen, Hinge,
    Hypothesis, Linear, LinearProblems, Loss, MarginLoss, Matrix, OneVsRest, Params, Policy,
    Progress, Sampling, Scoring, Solver, Trainer,
};

use crate::generated::{Problem, trainer};

const K: usize = 5;

fn each<M: MarginLoss>(loss: M) -> impl Iterator<Item = Binary<M>> {
    (0..K as u32).map(move |positive| Binary { loss, positive })
}

fn together<M: MarginLoss>(loss: M) -> OneVsRest<M> {
    OneVsRest { loss, positives: (0..K as u32).collect() }
}

/// Without a ball, which would be one for all.
fn compositions() -> impl Iterator<Item = Params> {
    crate::laws::compositions().into_iter().filter(|params| params.set.is_none())
}

/// On sparse rows to the last bit; on dense ones, whose products are grouped otherwise, up to roundings.
#[test]
fn one_trainer_for_all_is_a_trainer_for_each() {
    fn law<M: MarginLoss>(loss: M) {
        let problem = Problem::of_classes(80, 9, K, 4);
        let (csr, n) = (problem.csr(), problem.n);
        let sparse = Examples::new(csr.view(), &problem.y, Some(&problem.weight)).unwrap();
        let dense = Examples::new(problem.dense(), &problem.y, Some(&problem.weight)).unwrap();
        for params in compositions() {
            for (data, tolerance) in [(&sparse, 0.0), (&dense, 1e-10)] {
                let mut all = trainer::<f64, _>(together(loss), 9, params);
                all.keep_ledger(n);
                let (mut sum, mut value) = (0.0, 0.0);
                let order = |epoch| Sampling::Shuffle.epoch(n, 1, epoch).unwrap();
                for epoch in 0..3 {
                    sum = all.run(data, order(epoch)).unwrap().loss;
                }
                let (certificate, total) = (all.certificate(data).unwrap(), sum);
                let (weights, intercepts) = (all.result().weights(), all.result().intercepts());
                for (o, loss) in each(loss).enumerate() {
                    let mut one = trainer::<f64, _>(loss, 9, params);
                    one.keep_ledger(n);
                    for epoch in 0..2 {
                        one.run(data, order(epoch)).unwrap();
                    }
                    sum -= one.run(data, order(2)).unwrap().loss;
                    value += one.certificate(data).unwrap().primal;
                    let want = one.result();
                    for (a, b) in weights[o * 9..].iter().zip(want.weights()) {
                        assert!((a - b).abs() <= tolerance * (1.0 + b.abs()), "{params:?}");
                    }
                    let apart = (intercepts[o] - want.intercepts()[0]).abs();
                    assert!(apart <= tolerance * (1.0 + intercepts[o].abs()), "{params:?}");
                }
                assert!(sum.abs() < 1e-10 * total, "{params:?}");
                assert!((value - certificate.primal).abs() < 1e-9 * value, "{params:?}");
                assert!(
                    certificate.gap().is_nan() || certificate.gap() >= 0.0,
                    "{params:?}: {certificate:?}"
                );
            }
        }
    }
    law(Hinge);
    law(AnyLoss::SquaredHinge);
    law(AnyLoss::Logistic);
}

/// Pieces of a run, a state that was stored, rows that are now sparse and now dense: all of it changes nothing.
#[test]
fn how_weights_stand_is_nobodys_business() {
    fn law<L: Loss + Clone>(loss: L) {
        let problem = Problem::of_classes(60, 7, K, 8);
        let csr = problem.csr();
        let sparse = Examples::new(csr.view(), &problem.y, None).unwrap();
        let dense = Examples::new(problem.dense(), &problem.y, None).unwrap();
        for params in compositions() {
            let mut whole = trainer::<f64, _>(loss.clone(), 7, params);
            whole.run(&sparse, 0..60).unwrap();
            let mut parts = trainer::<f64, _>(loss.clone(), 7, params);
            parts.run(&sparse, 0..24).unwrap();
            let linear = Linear::from_state(7, parts.hypothesis().state()).unwrap();
            let mut stored = Trainer::resume(linear, loss.clone(), params, parts.t()).unwrap();
            stored.set_flights(parts.flights().clone());
            stored.run(&sparse, 24..60).unwrap();
            assert_eq!(stored.hypothesis().state(), whole.hypothesis().state(), "{params:?}");
            // Dense rows in between are the same rows, up to the order of sums.
            parts.run(&dense, 24..28).unwrap();
            parts.run(&sparse, 28..52).unwrap();
            parts.run(&dense, 52..60).unwrap();
            let (a, b) = (parts.result(), whole.result());
            for (a, b) in a.weights().iter().zip(b.weights()) {
                assert!((a - b).abs() < 1e-10 * (1.0 + b.abs()), "{params:?}");
            }
            // As they stand they can be scored, too, by rows of either kind.
            let (mut of_sparse, mut of_dense) = ([0.0; K], [0.0; K]);
            for w in [parts.hypothesis(), whole.hypothesis()] {
                w.score(sparse.rows().row(3), &mut of_sparse);
                w.score(dense.rows().row(3), &mut of_dense);
                for (a, b) in of_sparse.iter().zip(of_dense) {
                    assert!((a - b).abs() < 1e-10 * (1.0 + b.abs()), "{params:?}");
                }
            }
        }
    }
    law(CrammerSinger { classes: K });
    law(together(Hinge));
}

#[test]
fn dual_ascent_for_all_is_dual_ascent_for_each() {
    fn law<M: MarginLoss>(loss: M) {
        let problem = Problem::of_classes(80, 9, K, 5);
        let csr = problem.csr();
        let data = Examples::new(csr.view(), &problem.y, Some(&problem.weight)).unwrap();
        let mut all = DualAscent::new(together(loss), 0.02, 80, 9, 1.0).unwrap();
        let certificate = all.solve(&data, 1e-9, 10_000, 0).unwrap();
        assert!(certificate.relative_gap() <= 1e-9, "{certificate:?}");
        let weights = all.result::<f64>().weights();
        let mut value = 0.0;
        for (o, loss) in each(loss).enumerate() {
            let mut one = DualAscent::new(loss, 0.02, 80, 9, 1.0).unwrap();
            value += one.solve(&data, 1e-9, 10_000, 0).unwrap().primal;
            for (a, b) in weights[o * 9..].iter().zip(one.result::<f64>().weights()) {
                assert!((a - b).abs() < 1e-3, "{a} {b}");
            }
        }
        assert!((value - certificate.primal).abs() <= 1e-8 * value);
    }
    law(Hinge);
    law(AnyLoss::SquaredHinge);
    law(AnyLoss::Logistic);
}

/// What a fit tells of several problems does not depend on how many trainers they have.
#[test]
fn a_fit_of_all_is_a_fit_of_each() {
    fn events<L: Loss + Clone + Send>(losses: Vec<L>, shards: usize) -> Vec<Event> {
        let problem = Problem::of_classes(200, 9, K, 6);
        let csr = problem.csr();
        let data = Examples::new(csr.view(), &problem.y, None).unwrap();
        let params = Params { lambda: 0.01, ..Params::default() };
        let trainers = losses.into_iter().map(|loss| trainer::<f64, _>(loss, 9, params));
        let problems = LinearProblems::new(trainers.collect());
        let policy = Policy {
            solver: Solver::Pegasos,
            max_epochs: 4,
            tol: Some(0.0),
            certify: true,
            shards,
            ..Policy::default()
        };
        let (mut fit, mut events) = (Fit::new(problems, policy), Vec::new());
        loop {
            match fit.advance(&data, 64).unwrap() {
                Progress::Epoch(event) => events.push(event),
                Progress::Over(_) => return events,
                Progress::Going { .. } => {}
            }
        }
    }
    for shards in [1, 2] {
        let of_each = events(each(Hinge).collect(), shards);
        let of_all = events(vec![together(Hinge)], shards);
        assert_eq!(of_each.len(), 4);
        for (a, b) in of_each.iter().zip(&of_all) {
            assert_eq!(a.visits, b.visits);
            assert!((a.loss - b.loss).abs() < 1e-12 * (1.0 + b.loss), "{a:?} {b:?}");
            let (a, b) = (a.certificate, b.certificate);
            assert!((a.primal - b.primal).abs() < 1e-10 * b.primal, "{a:?} {b:?}");
            assert!(b.dual <= a.dual + 1e-10 && b.dual > 0.0, "{a:?} {b:?}");
        }
    }
}

/// What some sparse rows need of a model gives them its scores to the last bit: of one trainer for all classes, of one for each,
/// and jointly, after steps of every kind, in either scalar; and nothing else is asked of it.
#[test]
fn rows_need_the_weights_of_their_features_alone() {
    // So many that all weights of 400 features are laid out for them, where there are many outputs.
    const N: usize = 80;
    fn law<L: Loss + Clone + Send>(losses: &[L], d: usize, params: Params) {
        let problem = Problem::of_classes(N, 9, K, 5);
        // Far apart, the last one among them, and one that occurs twice in a row.
        let csr = problem.csr();
        let spread = |j: &i32| (j * 49 + 7) % d as i32;
        let mut indices: Vec<i32> = csr.indices.iter().map(spread).collect();
        indices[1] = indices[0];
        indices[2] = d as i32 - 1;
        let x = Csr::new(&csr.indptr, &indices, &csr.values, d).unwrap();
        let wide = |all: &[i32]| all.iter().map(|&j| i64::from(j)).collect::<Vec<_>>();
        let (wide_indptr, wide_indices) = (wide(&csr.indptr), wide(&indices));
        let single: Vec<f32> = csr.values.iter().map(|&value| value as f32).collect();
        let x64 = Csr::new(&wide_indptr, &wide_indices, &csr.values, d).unwrap();
        let x32 = Csr::new(&csr.indptr, &indices, &single, d).unwrap();
        let data = Examples::new(x, &problem.y, None).unwrap();
        let trainers = losses.iter().map(|loss| {
            let mut trainer = trainer::<f64, _>(loss.clone(), d, params);
            trainer.run(&data, 0..problem.n).unwrap();
            trainer
        });
        let mut problems = LinearProblems::new(trainers.collect());
        let n = problem.n;
        let excerpt = problems.excerpt(&x.into()).unwrap().expect("few features");
        let other = problems.excerpt(&x64.into()).unwrap().expect("few features");
        let narrow = problems.excerpt(&x32.into()).unwrap().expect("few features");
        let all = Frozen::Linear(problems.result().unwrap());
        let scores = |scoring: Scoring<'_, f64>| {
            let mut scores = vec![0.0; n * all.outputs()];
            scoring.scores(0..n, &mut scores).unwrap();
            scores
        };
        let want = scores(all.scoring(&x.into()).unwrap());
        for (excerpt, x) in [(&excerpt, Matrix::from(x)), (&other, x64.into())] {
            assert_eq!(scores(excerpt.scoring(&excerpt.rows(&x)).unwrap()), want, "{params:?}");
        }
        let (x32, rows) = (Matrix::from(x32), narrow.rows(&Matrix::from(x32)));
        assert_eq!(
            (rows.n_rows(), rows.n_features()),
            (n, excerpt.rows(&Matrix::from(x)).n_features())
        );
        for i in 0..n {
            assert_eq!(rows.row(i).norm2(), x32.row(i).norm2());
        }
        // All weights are at hand now.
        assert!(problems.excerpt(&x.into()).unwrap().is_none());
    }
    for params in compositions() {
        law(&[together(Hinge)], 400, params);
        law(&each(Hinge).collect::<Vec<_>>(), 400, params);
        law(&[OneVsRest { loss: Hinge, positives: (0..20).collect() }], 400, params);
        law(&[CrammerSinger { classes: K }], 400, params);
        law(&[Binary { loss: Hinge, positive: 1 }], 4000, params);
    }
}

/// Whoever asks for the features of many rows between two steps is better served by all of them.
#[test]
fn all_weights_are_made_for_who_asks_again_and_again() {
    const D: usize = 40;
    let w = trainer::<f64, _>(Binary { loss: Hinge, positive: 1 }, D, Params::default());
    let mut problems = LinearProblems::from(w);
    let ask = |problems: &mut LinearProblems<f64, _>, indices: &[i32]| {
        let values = vec![1.0; indices.len()];
        let indptr = [0, indices.len() as i32];
        let x = Matrix::from(Csr::new(&indptr, indices, &values, D).unwrap());
        problems.excerpt(&x).unwrap().is_some()
    };
    assert!(!ask(&mut problems, &(0..11).collect::<Vec<_>>()));
    assert!(ask(&mut problems, &(0..6).collect::<Vec<_>>()));
    assert!(!ask(&mut problems, &(0..5).collect::<Vec<_>>()));
    assert!(ask(&mut problems, &(30..34).collect::<Vec<_>>()));
    assert!(!ask(&mut problems, &[3]));
    // After a step others are needed.
    let policy = Policy { solver: Solver::Pegasos, max_epochs: 1, tol: None, ..Policy::default() };
    let x = Csr::new(&[0, 1, 2], &[3, 5], &[1.0, -1.0], D).unwrap();
    let mut fit = Fit::new(problems, policy);
    fit.run(&Examples::new(x, &[1, 0], None).unwrap()).unwrap();
    let mut problems = fit.into_problem();
    assert!(ask(&mut problems, &[3]));
    // Rows of other features are for others to refuse; those without a column need none.
    let other = Csr::new(&[0, 1], &[3], &[1.0], D + 1).unwrap();
    assert!(problems.excerpt(&other.into()).unwrap().is_none());
    assert!(!ask(&mut problems, &[-1]) && !ask(&mut problems, &[D as i32]));
    assert!(ask(&mut problems, &[]));
}
