//! Shapley values' loops.

use super::*;

/// Games of products at every level, some players of which are the same to all games: against plain loops.
fn games_agree<S: Scalar>(epsilon: f64) {
    let near = |got: S, want: f64, what: &str| {
        let got = got.to_f64();
        assert!((got - want).abs() < epsilon * (1.0 + want.abs()), "{what}: {got}, not {want}");
    };
    at_every_level(|level| {
        for d in [1, 2, 5, 31] {
            let lanes =
                |i| Games(std::array::from_fn(|l| S::from_f64(number(GAMES * i + l) / 8.0)));
            let z: Vec<Games<S>> = (0..d).map(lanes).collect();
            // Every third feature is the same in both rows.
            let row = |at: usize| -> Vec<f64> {
                (0..d).map(|i| number(if i % 3 == 2 { i } else { i + at }) / 8.0).collect()
            };
            let factors = |x: &[f64]| {
                let mut half = vec![Games([S::from_f64(0.5); GAMES]); d + 1];
                S::factors(0.7, x, &z, &mut half);
                half
            };
            let (x, r) = (row(40), row(90));
            let (with, without) = (factors(&x), factors(&r));
            let plain =
                |x: &[f64], i: usize, l: usize| (-0.7 * (x[i] - z[i].0[l].to_f64()).powi(2)).exp();
            for (i, with) in with[..d].iter().enumerate() {
                for l in 0..GAMES {
                    near(with.0[l], plain(&x, i, l) / 2.0, "factor");
                }
            }
            let mut players = vec![d; d + 8];
            let found = S::contrast(&with[..d], &without[..d], &mut players);
            let differ: Vec<usize> = (0..d).filter(|i| i % 3 < 2).collect();
            assert_eq!(players[..found.players], differ, "{level:?}");
            // Who changes nothing makes up fours.
            let (fours, _) = players[..found.players.next_multiple_of(4).max(8)].as_chunks();
            let product = |of: &dyn Fn(usize) -> f64| (0..d).map(of).product::<f64>();
            let (mut larger, mut change) = (0.0_f64, 1.0_f64);
            for l in 0..GAMES {
                let (p, q) = (|i| plain(&x, i, l), |i| plain(&r, i, l));
                let most = product(&|i| p(i).max(q(i)));
                larger = larger.max(most);
                change = change.max(most / product(&|i| (p(i) + q(i)) / 2.0));
            }
            assert!((found.larger.to_f64() / larger - 1.0).abs() < 100.0 * epsilon, "{level:?}");
            assert!((found.change.to_f64() / change - 1.0).abs() < 100.0 * epsilon, "{level:?}");
            // As many pairs of nodes as are treated together, fewer and more; and none, which is exact for few players, as
            // five nodes are.
            for (count, odd) in (0..20)
                .map(|k| (k / 2, k % 2 == 1))
                .filter(|(count, _)| *count > 0 || fours.len() == 2)
            {
                let mut rule = Rule {
                    pairs: (0..count).map(|n| (0.1 * n as f64 + 0.05, 0.125)).collect(),
                    middle: odd.then_some(0.3),
                };
                if count == 0 {
                    let (root, third) = ((10.0_f64 / 7.0).sqrt(), 1.0 / 3.0);
                    let node = |sign: f64| third * (5.0 + sign * 2.0 * root).sqrt();
                    let weight = |sign: f64| (322.0 + sign * 13.0 * 70.0_f64.sqrt()) / 900.0;
                    rule.pairs = vec![(node(-1.0), weight(1.0)), (node(1.0), weight(-1.0))];
                    rule.middle = Some(128.0 / 225.0);
                }
                let middle = rule.middle.map(|weight| (0.0, weight));
                let mut points: Vec<_> = middle.into_iter().collect();
                points.extend(rule.pairs.iter().flat_map(|(t, w)| [(*t, *w), (-t, *w)]));
                let mut room = vec![Four::default(); fours.len()];
                let mut out = vec![Games([S::from_f64(1.0); GAMES]); d + 1];
                let (with, without, constant) = (&with[..], &without[..], &found.constant);
                let round = Round { constant, players: fours, with, without };
                S::integrate((count > 0).then_some(&rule), round, &mut room, &mut out);
                for l in 0..GAMES {
                    let (p, q) = (|i| plain(&x, i, l), |i| plain(&r, i, l));
                    for (i, out) in out[..d].iter().enumerate() {
                        let others = |t: f64| -> f64 {
                            let factor = |k| (p(k) + q(k)) / 2.0 + t * (p(k) - q(k)) / 2.0;
                            (0..d).filter(|k| *k != i).map(factor).product()
                        };
                        let sum: f64 = points.iter().map(|(t, weight)| weight * others(*t)).sum();
                        near(out.0[l], 1.0 + (p(i) - q(i)) / 2.0 * sum, "value");
                    }
                }
            }
        }
    });
}

#[test]
fn games_agree_with_plain_loops() {
    games_agree::<f64>(1e-14);
    games_agree::<f32>(2e-6);
}
