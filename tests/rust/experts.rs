//! Online learning over a mixture of experts, whose weights stay on the simplex.

use pegasos::{
    Block, Cost, Dense, Examples, Feasible, Linear, Loss, Params, Regret, Schedule, Simplex,
    Trainer,
};

use crate::generated::{Uniform, add, distance, dot, flat, joint};

/// The score itself, as a caller of the crate would define it.
#[derive(Clone, Copy, Debug)]
struct Price;

impl Loss for Price {
    type Scores = [f64; 1];
    fn zeros(&self) -> [f64; 1] {
        [0.0]
    }
    fn value_and_coef(&self, scores: &[f64], _: u32, coef: &mut [f64]) -> f64 {
        coef[0] = -1.0;
        scores[0]
    }
    fn conjugate(&self, _: &[f64], _: u32) -> f64 {
        0.0
    }
    fn excess(&self, _: &[f64], _: u32) -> f64 {
        1.0
    }
    fn ascend(&self, _: &[f64], _: u32, _: f64, dual: &mut [f64]) {
        dual[0] = -1.0;
    }
    fn make_feasible(&self, dual: &mut [f64], _: u32) {
        dual[0] = -1.0;
    }
    fn radius2(&self) -> f64 {
        f64::INFINITY
    }
}

/// Losses of experts in [0, 1], a row a round.
fn experts(n: usize, rounds: usize, kind: usize) -> Vec<f64> {
    let mut luck = Uniform::new((n * rounds + kind) as u64);
    let mut losses = Vec::new();
    for t in 0..rounds {
        for k in 0..n {
            let luck = luck.draw();
            losses.push(match kind {
                // One is better.
                0 => f64::from(u8::from(luck < if k == 1 { 0.35 } else { 0.5 })),
                // All alike.
                1 => luck,
                // Another is better after half of the time.
                2 => luck * if k == t * 2 / rounds { 0.5 } else { 1.0 },
                // They take turns, which hurts whoever follows the leader.
                _ => f64::from(u8::from((t + k) % 2 == 0)),
            });
        }
    }
    losses
}

fn game_of_experts(n: usize, eta0: f64, delay: usize) -> Trainer<Linear<f64>, Price, Simplex> {
    let schedule = Schedule::InvScaling { eta0, power: 0.5 };
    let block = if delay == 0 { Block::Mean(1) } else { Block::Delayed(delay) };
    let params = Params { lambda: 0.0, schedule, block, ..Params::default() }.within(Simplex);
    let mut learner = Trainer::new(Linear::new(1, n, 0.0).unwrap(), Price, params).unwrap();
    learner.keep_regret(Regret::default()).unwrap();
    learner
}

#[test]
fn a_mixture_of_experts_stays_one_and_keeps_the_bound() {
    let rounds = 600;
    let nobody = vec![0; rounds];
    for n in [1, 2, 5, 10] {
        for kind in 0..4 {
            for (eta0, delay) in [(0.05, 0), (0.4, 0), (3.0, 0), (0.4, 1), (0.4, 7), (0.4, 50)] {
                let losses = experts(n, rounds, kind);
                let data =
                    Examples::new(Dense::new(&losses, rounds, n).unwrap(), &nobody, None).unwrap();
                let mut learner = game_of_experts(n, eta0, delay);
                // Textbook: w, the gradients so far.
                let mut w = vec![1.0 / n as f64; n];
                assert!(distance(&learner.hypothesis().weights(), &w) < 1e-15);
                let mut paid = 0.0;
                for (t, row) in losses.chunks(n).enumerate() {
                    paid += dot(&w, row);
                    learner.run(&data, [t]).unwrap();
                    if let Some(old) = t.checked_sub(delay) {
                        let eta = eta0 / ((t + 1) as f64).sqrt();
                        add(&mut w, -eta, &losses[old * n..(old + 1) * n]);
                        onto_simplex(&mut w);
                    }
                    let got = learner.hypothesis().weights();
                    assert!(got.iter().all(|&w| w >= 0.0), "{n} {kind} at {t}");
                    assert!((got.iter().sum::<f64>() - 1.0).abs() < 1e-14, "{n} {kind} at {t}");
                    assert!(distance(&got, &w) < 1e-11, "{n} {kind} {eta0} {delay} at {t}");
                }
                let regret = learner.regret().unwrap();
                assert!((regret.loss - paid).abs() < 1e-9 * paid);
                let diameter = Feasible::<Linear<f64>>::diameter(&Simplex);
                let bound = regret.bound(diameter, 0.0);
                let pays = |k: usize| losses.iter().skip(k).step_by(n).sum::<f64>();
                let best = (0..n).map(pays).fold(f64::INFINITY, f64::min);
                assert!(paid - best <= bound, "{n} {kind} {eta0} {delay}: {} {bound}", paid - best);
                // Those of both halves: one switch, from corner to corner.
                let half = losses.len() / 2;
                let of_half = |losses: &[f64]| {
                    let pays = |k: usize| losses.iter().skip(k).step_by(n).sum::<f64>();
                    (0..n).map(pays).fold(f64::INFINITY, f64::min)
                };
                let best = of_half(&losses[..half]) + of_half(&losses[half..]);
                let bound = regret.bound(diameter, 2.0_f64.sqrt());
                assert!(paid - best <= bound, "{n} {kind} {eta0} {delay}: {} {bound}", paid - best);
            }
        }
    }

    /// By bisection of what is taken off.
    fn onto_simplex(p: &mut [f64]) {
        let largest = p.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (mut low, mut high) = (largest - 1.0, largest);
        for _ in 0..100 {
            let tau = low.midpoint(high);
            if p.iter().map(|p| (p - tau).max(0.0)).sum::<f64>() > 1.0 {
                low = tau;
            } else {
                high = tau;
            }
        }
        p.iter_mut().for_each(|p| *p = (*p - low).max(0.0));
    }
}

#[test]
fn the_bound_over_experts_is_not_vacuous() {
    let (n, rounds) = (10, 10_000);
    let losses = experts(n, rounds, 0);
    let nobody = vec![0; rounds];
    let data = Examples::new(Dense::new(&losses, rounds, n).unwrap(), &nobody, None).unwrap();
    let mut learner = game_of_experts(n, (2.0 / n as f64).sqrt(), 0);
    learner.run(&data, 0..rounds).unwrap();
    let bound = learner.regret().unwrap().bound(2.0_f64.sqrt(), 0.0);
    let even = losses.iter().sum::<f64>() / n as f64;
    let best: f64 = losses.iter().skip(1).step_by(n).sum();
    assert!(best + bound < even, "{best} + {bound}, {even}");
    let last = learner.hypothesis().weights()[1];
    assert!(last > 0.8, "{last}");
}

/// The crate's loss for experts is the one above; in f32 the mixture stays one too; a set with delay
/// goes through the same door.
#[test]
fn the_price_of_a_mixture_is_its_cost() {
    let losses = experts(6, 400, 2);
    let single: Vec<f32> = losses.iter().map(|&x| x as f32).collect();
    let nobody = vec![0; 400];
    let data = Examples::new(Dense::new(&losses, 400, 6).unwrap(), &nobody, None).unwrap();
    let float = Examples::new(Dense::new(&single, 400, 6).unwrap(), &nobody, None).unwrap();
    let mut ours = game_of_experts(6, 0.4, 0);
    let params = *ours.params();
    let mut theirs = Trainer::new(Linear::new(1, 6, 0.0).unwrap(), Cost, params).unwrap();
    theirs.keep_regret(Regret::default()).unwrap();
    assert_eq!(ours.run(&data, 0..400).unwrap(), theirs.run(&data, 0..400).unwrap());
    assert_eq!(ours.hypothesis(), theirs.hypothesis());
    assert_eq!(ours.regret(), theirs.regret());
    let mut rough = Trainer::new(Linear::<f32>::new(1, 6, 0.0).unwrap(), Cost, params).unwrap();
    for t in 0..400 {
        rough.run(&float, [t]).unwrap();
        let w = rough.hypothesis().weights();
        assert!(w.iter().all(|&w| w >= 0.0));
        assert!((w.iter().sum::<f32>() - 1.0).abs() < 1e-6);
    }
    assert!(distance(&flat(rough.hypothesis()), &flat(theirs.hypothesis())) < 1e-4);
}

/// The rival, whose theorem is the sharper one in the number of experts: `sqrt(T ln N / 2)`.
#[test]
fn multiplicative_weights_keep_their_own_bound() {
    for n in [2, 5, 10, 50] {
        for kind in 0..4 {
            let (rounds, losses) = (1000.0_f64, experts(n, 1000, kind));
            let eta = (8.0 * (n as f64).ln() / rounds).sqrt();
            let (mut weights, mut paid) = (vec![1.0; n], 0.0);
            for row in losses.chunks(n) {
                paid += dot(&weights, row) / weights.iter().sum::<f64>();
                weights.iter_mut().zip(row).for_each(|(w, loss)| *w *= (-eta * loss).exp());
            }
            let pays = |k: usize| losses.iter().skip(k).step_by(n).sum::<f64>();
            let best = (0..n).map(pays).fold(f64::INFINITY, f64::min);
            let bound = (rounds * (n as f64).ln() / 2.0).sqrt();
            assert!(paid - best <= bound, "{n} {kind}: {} above {bound}", paid - best);
        }
    }
}

#[test]
fn one_mixture_at_a_time() {
    let schedule = Schedule::InvScaling { eta0: 0.5, power: 0.5 };
    let params = Params { lambda: 0.5, schedule, ..Params::default() }.within(Simplex);
    let w = Linear::<f64>::new(3, 2, 0.0).unwrap();
    let error = Trainer::new(w, joint(3), params).unwrap_err();
    assert_eq!(error.to_string(), "w must have one output on the simplex, got 3");
}

/// However long a step is, what it leads to are probabilities.
#[test]
fn weights_after_huge_steps_are_probabilities() {
    let x = [0.5, 0.25, 0.125, -1.0, 1.0, 0.0_f64];
    let data =
        pegasos::Examples::new(pegasos::Dense::new(&x, 2, 3).unwrap(), &[0; 2], None).unwrap();
    for eta0 in [1.0, 1e6, 1e17, 1e300] {
        let schedule = pegasos::Schedule::Constant { eta0 };
        let params = pegasos::Params { lambda: 0.0, schedule, ..pegasos::Params::default() };
        let w = pegasos::Linear::<f64>::new(1, 3, 0.0).unwrap();
        let mut trainer =
            pegasos::Trainer::new(w, pegasos::Cost, params.within(pegasos::Simplex)).unwrap();
        for i in [0, 1] {
            trainer.run(&data, [i]).unwrap();
            let sum: f64 = trainer.hypothesis().weights().iter().sum();
            assert!((sum - 1.0).abs() < 1e-9, "{eta0:e}: {sum}");
        }
    }
}
