//! Sums of hypotheses with support vectors: what they score, what a budget leaves of them, and what does not go together; and
//! trainers that share the steps of one.

use pegasos::{
    AnyLoss, Average, Binary, Budgeted, Combine, Dense, Error, Examples, Expansion, Hypothesis,
    Kernel, Linear, Maintenance, Multiclass, Params, Trainer,
};

use crate::generated::{CLASSES, HINGE, Problem, flat, trainer};

const RBF: Kernel = Kernel::Rbf { gamma: 0.3 };
const STRATEGIES: [Maintenance; 4] = [
    Maintenance::Merge,
    Maintenance::Project,
    Maintenance::Remove,
    Maintenance::Random { seed: 1 },
];

/// What is scored by `2 a - b/2`, or by a sum of that.
fn combined<H: Hypothesis<Scalar = f64>>(x: Dense<'_, f64>, a: &H, b: &H, sum: &H) -> f64 {
    let mut worst = 0.0_f64;
    let outputs = sum.outputs();
    let [mut of_a, mut of_b, mut of_sum] = [(); 3].map(|()| vec![0.0; outputs]);
    for i in 0..60 {
        a.score(x.row(i), &mut of_a);
        b.score(x.row(i), &mut of_b);
        sum.score(x.row(i), &mut of_sum);
        for ((a, b), sum) in of_a.iter().zip(&of_b).zip(&of_sum) {
            worst = worst.max((2.0 * a - 0.5 * b - sum).abs());
        }
    }
    worst
}

fn trained<H: Hypothesis<Scalar = f64> + Clone>(
    problem: &Problem,
    w: H,
    average: Average,
) -> [Trainer<H, Multiclass>; 2] {
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    [(0, 40), (20, 60)].map(|(from, to)| {
        let params = Params { lambda: 0.05, average, ..Params::default() };
        let mut trainer = Trainer::new(w.clone(), CLASSES, params).unwrap();
        trainer.run(&data, from..to).unwrap();
        trainer
    })
}

#[test]
fn a_sum_scores_what_its_parts_score() {
    let problem = Problem::of_classes(60, 6, 3, 31);
    let x = problem.dense();
    for average in [Average::None, Average::Uniform, Average::Recent { window: 20 }] {
        for kernel in [RBF, Kernel::Linear, Kernel::Poly { gamma: 0.2, coef0: 1.0, degree: 2 }] {
            let w = Expansion::new(kernel, 3, 6).unwrap().with_constant(2.0).unwrap();
            let [a, b] = trained(&problem, w, average);
            let (last_a, last_b) = (a.hypothesis(), b.hypothesis());
            let sum = Expansion::combine(&[(2.0, last_a), (-0.5, last_b)]).unwrap();
            assert!(combined(x, last_a, last_b, &sum) < 1e-10, "{kernel:?} {average:?}");
            assert!((sum.norm2() / sum.norm2_afresh() - 1.0).abs() < 1e-10);
            // Rows 20 to 39 may be vectors of both.
            assert!(
                sum.n_vectors() <= 60 && sum.n_vectors() < last_a.n_vectors() + last_b.n_vectors()
            );
            let counts: u32 = sum.counts().iter().sum();
            assert_eq!(counts, last_a.counts().iter().chain(last_b.counts()).sum::<u32>());
            if let (Some(a), Some(b), Some(sum)) = (last_a.mean(), last_b.mean(), sum.mean()) {
                assert!(combined(x, &a, &b, &sum) < 1e-10, "{kernel:?} {average:?}");
            } else {
                assert_eq!(average, Average::None);
            }
        }
    }
}

#[test]
fn a_sum_within_the_budget_loses_nothing() {
    let problem = Problem::of_classes(60, 6, 3, 32);
    let x = problem.dense();
    for maintenance in [
        Maintenance::Merge,
        Maintenance::Project,
        Maintenance::Remove,
        Maintenance::Random { seed: 1 },
    ] {
        for average in [Average::None, Average::Uniform] {
            let w = Budgeted::new(RBF, 3, 6, Some(100), maintenance).unwrap();
            let [a, b] = trained(&problem, w, average);
            let (last_a, last_b) = (a.hypothesis(), b.hypothesis());
            let sum = Budgeted::combine(&[(2.0, last_a), (-0.5, last_b)]).unwrap();
            assert!(combined(x, last_a, last_b, &sum) < 1e-9, "{maintenance:?}");
            assert_eq!(sum.mean().is_some(), average != Average::None);
            if let (Some(a), Some(b), Some(sum)) = (last_a.mean(), last_b.mean(), sum.mean()) {
                assert!(combined(x, &a, &b, &sum) < 1e-9, "{maintenance:?}");
            }
        }
    }
}

#[test]
fn a_sum_beyond_the_budget_is_brought_back_to_it() {
    let problem = Problem::of_classes(60, 6, 3, 33);
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    // By `||w - what is left||^2` of each strategy.
    let mut lost = Vec::new();
    for maintenance in STRATEGIES {
        let w = Budgeted::new(RBF, 3, 6, Some(12), maintenance).unwrap();
        let [a, b] = trained(&problem, w, Average::None);
        let average = Trainer::average_of(&[(0.5, &a), (0.5, &b)]).unwrap();
        assert_eq!(average.hypothesis().n_vectors(), 12, "{maintenance:?}");
        assert_eq!((average.t(), average.updates()), (80, a.updates() + b.updates()));
        let [of_a, of_b, left] = [&a, &b, &average].map(|each| each.hypothesis().model().unwrap());
        let whole = Expansion::combine(&[(0.5, &of_a), (0.5, &of_b)]).unwrap();
        let gone = Expansion::combine(&[(1.0, &whole), (-1.0, &left)]).unwrap();
        lost.push(gone.norm2() / whole.norm2());
        let again = Trainer::average_of(&[(0.5, &a), (0.5, &b)]).unwrap();
        assert_eq!(again.hypothesis().state(), average.hypothesis().state());
        let mut on = average;
        on.run(&data, 0..60).unwrap();
        assert_eq!(on.hypothesis().n_vectors(), 12);
    }
    let [merged, projected, removed, drawn] = lost[..] else { unreachable!() };
    assert!(0.0 < merged && merged < removed, "{lost:?}");
    assert!(0.0 < projected && projected < removed && removed < drawn && drawn < 1.0, "{lost:?}");
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let refused = |result: Result<Budgeted<f64>, Error>, word: &str| {
        let error = result.map(|w| w.n_vectors()).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    };
    let merge = Maintenance::Merge;
    let w = Budgeted::<f64>::new(RBF, 1, 2, Some(5), merge).unwrap();
    refused(Budgeted::combine(&[]), "at least one");
    for other in [
        Budgeted::new(Kernel::Rbf { gamma: 0.4 }, 1, 2, Some(5), merge),
        Budgeted::new(RBF, 2, 2, Some(5), merge),
        Budgeted::new(RBF, 1, 3, Some(5), merge),
        Budgeted::new(RBF, 1, 2, Some(6), merge),
        Budgeted::new(RBF, 1, 2, None, merge),
        Budgeted::new(RBF, 1, 2, Some(5), Maintenance::Remove),
    ] {
        refused(Budgeted::combine(&[(0.5, &w), (0.5, &other.unwrap())]), "budget");
    }
    let projectron = Maintenance::Projectron { threshold: 0.1, margin: true };
    let w = Budgeted::<f64>::new(RBF, 1, 2, Some(5), projectron).unwrap();
    refused(Budgeted::combine(&[(1.0, &w)]), "Projectron");

    let one = Expansion::<f64>::new(RBF, 1, 2).unwrap();
    assert!(Expansion::<f64>::combine(&[]).is_err());
    let raised = one.clone().with_constant(1.0).unwrap();
    assert!(Expansion::combine(&[(0.5, &one), (0.5, &raised)]).is_err());
    let columns = Expansion::<f64>::new(Kernel::Precomputed, 1, 2).unwrap();
    assert!(
        Expansion::combine(&[(1.0, &columns)]).unwrap_err().to_string().contains("precomputed")
    );
}

#[test]
fn shares_of_a_trainer_are_the_trainer() {
    let problem = Problem::new(60, 6, 34);
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    for average in [Average::None, Average::Uniform, Average::Polynomial] {
        let params = Params { lambda: 0.05, average, ..Params::default() };
        let mut whole: Trainer<Linear<f64>, Binary<AnyLoss>> = trainer(HINGE, 6, params);
        whole.run(&data, 0..60).unwrap();
        let shares = [20, 40].map(|t| whole.share(t).unwrap());
        assert_eq!(shares.each_ref().map(Trainer::t), [20, 40]);
        let mean =
            Trainer::average_of(&[(1.0 / 3.0, &shares[0]), (2.0 / 3.0, &shares[1])]).unwrap();
        assert_eq!(mean.t(), 60);
        let close = |a: &Linear<f64>, b: &Linear<f64>| {
            flat(a).iter().zip(flat(b)).all(|(a, b)| (a - b).abs() < 1e-12 * (1.0 + b.abs()))
        };
        assert!(
            close(mean.hypothesis(), whole.hypothesis()) && close(&mean.result(), &whole.result())
        );
        // w stays 1/(lambda t) times the sum of the gradients, whoever has taken them.
        let [mut one, mut other] = shares;
        one.run(&data, 0..20).unwrap();
        other.run(&data, 20..60).unwrap();
        let mean = Trainer::average_of(&[(1.0 / 3.0, &one), (2.0 / 3.0, &other)]).unwrap();
        assert_eq!(mean.t(), 120);
        let sum = |w: &Linear<f64>, t: u64| flat(w).into_iter().map(move |v| v * t as f64);
        let gained = |after: &Trainer<Linear<f64>, Binary<AnyLoss>>, t: u64| -> Vec<f64> {
            sum(after.hypothesis(), after.t())
                .zip(sum(whole.hypothesis(), t))
                .map(|(a, b)| a - b)
                .collect()
        };
        let [by_one, by_other, by_both] = [gained(&one, 20), gained(&other, 40), gained(&mean, 60)];
        for ((one, other), both) in by_one.iter().zip(&by_other).zip(&by_both) {
            assert!((one + other - both).abs() < 1e-9, "{average:?}");
        }
    }
}
