//! Prediction with expert advice: online gradient descent on the simplex beside multiplicative weights.
//!
//! ```console
//! $ cargo run --release --example experts
//! ```
//!
//! Ten forecasters are wrong with different probabilities, and which of them is good changes halfway.
//! Each round both learners mix the forecasters, pay the mixture's expected loss, and learn the losses of
//! all. The best forecaster in hindsight is known only at the end; the theorems say how much more than it
//! a learner can have paid.

use pegasos::{
    Cost, Dense, Error, Examples, Hypothesis, Linear, Params, Schedule, Simplex, Trainer,
};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;

const EXPERTS: usize = 10;
const ROUNDS: usize = 10_000;

fn main() -> Result<(), Error> {
    // Losses in [0, 1], a row a round.
    let mut rng = Pcg64::new(7, 0);
    let mut losses = vec![0.0; ROUNDS * EXPERTS];
    for (k, loss) in losses.iter_mut().enumerate() {
        let (round, expert) = (k / EXPERTS, k % EXPERTS);
        let good = if round < ROUNDS / 2 { 2 } else { 6 };
        let wrong = if expert == good { 0.25 } else { 0.5 };
        *loss = f64::from(u8::from((rng.next_u64() as f64) < wrong * u64::MAX as f64));
    }
    let (n, t) = (EXPERTS as f64, ROUNDS as f64);
    let best = (0..EXPERTS)
        .map(|expert| losses.iter().skip(expert).step_by(EXPERTS).sum::<f64>())
        .fold(f64::INFINITY, f64::min);
    let halves = losses.chunks(ROUNDS / 2 * EXPERTS).zip([2, 6]);
    let of_halves: f64 =
        halves.map(|(half, good)| half.iter().skip(good).step_by(EXPERTS).sum::<f64>()).sum();
    println!(
        "{ROUNDS} rounds, {EXPERTS} experts: the best pays {best}, those of the halves {of_halves}"
    );

    // Gradient descent: steps of eta0/sqrt(t), eta0 = D/G with D the simplex's diameter, G a bound on
    // the length of a row.
    let eta0 = (2.0 / n).sqrt();
    let params = Params {
        lambda: 0.0,
        schedule: Schedule::InvScaling { eta0, power: 0.5 },
        ..Params::default()
    };
    let mut learner = Trainer::new(Linear::new(1, EXPERTS, 0.0)?, Cost, params.within(Simplex))?;
    learner.keep_regret(Default::default())?;
    let nobody = vec![0; ROUNDS];
    let data = Examples::new(Dense::new(&losses, ROUNDS, EXPERTS)?, &nobody, None)?;
    let report = learner.run(&data, 0..ROUNDS)?;
    // A comparator that switches once has a path as long as from one corner to another.
    let diameter = 2.0_f64.sqrt();
    for (who, comparator, path) in [("the best", best, 0.0), ("both halves'", of_halves, diameter)]
    {
        let bound = learner.regret().map_or(f64::NAN, |regret| regret.bound(diameter, path));
        let regret = report.loss - comparator;
        println!(
            "gradient descent pays {:.0}: {regret:.0} over {who}, at most {bound:.0}",
            report.loss
        );
        assert!(regret <= bound);
    }
    assert!((learner.hypothesis().weights().iter().sum::<f64>() - 1.0).abs() < 1e-9);
    assert!(learner.hypothesis().norm2() <= 1.0 + 1e-9);

    // Multiplicative weights: w_i in proportion to exp(-eta * losses so far).
    let eta = (8.0 * n.ln() / t).sqrt();
    let mut so_far = [0.0; EXPERTS];
    let mut paid = 0.0;
    for row in losses.chunks(EXPERTS) {
        let least = so_far.iter().copied().fold(f64::INFINITY, f64::min);
        let weights = so_far.map(|loss: f64| (-eta * (loss - least)).exp());
        let mixed: f64 = weights.iter().zip(row).map(|(w, loss)| w * loss).sum();
        paid += mixed / weights.iter().sum::<f64>();
        so_far.iter_mut().zip(row).for_each(|(sum, loss)| *sum += loss);
    }
    let bound = (t * n.ln() / 2.0).sqrt();
    let regret = paid - best;
    println!("multiplicative weights pay {paid:.0}: {regret:.0} over the best, at most {bound:.0}");
    assert!(regret <= bound);
    Ok(())
}
