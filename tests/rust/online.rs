//! What online learning promises against any opponent: regret, and the bounds on it.

use pegasos::{
    AnyLoss, Ball, Binary, Block, Csr, Dense, Examples, Feasible, Linear, Loss, Matrix, Params,
    Regret, Schedule, Trainer,
};

use crate::generated::{
    HINGE, Problem, Rule, Uniform, add, difference, dot, flat, joint, norm, shrink_into, trainer,
};

const RADIUS: f64 = 1.5;
const BALL: Ball = Ball { radius: RADIUS };

/// Steps that never grow, with the regulariser they suit.
fn schedules() -> [(f64, Schedule); 8] {
    [
        (0.0, Schedule::InvScaling { eta0: 1.0, power: 0.5 }),
        (0.0, Schedule::InvScaling { eta0: 0.3, power: 0.5 }),
        (0.1, Schedule::InvScaling { eta0: 0.7, power: 0.5 }),
        // Strongly convex.
        (0.1, Schedule::InvScaling { eta0: 10.0, power: 1.0 }),
        (0.1, Schedule::Pegasos),
        (0.1, Schedule::Forgetting { horizon: 50.0 }),
        (0.0, Schedule::Constant { eta0: 0.1 }),
        (0.05, Schedule::Constant { eta0: 0.02 }),
    ]
}

fn params(lambda: f64, schedule: Schedule, delay: usize) -> Params<Ball> {
    let block = if delay == 0 { Block::Mean(1) } else { Block::Delayed(delay) };
    Params { lambda, schedule, block, ..Params::default() }.within(BALL)
}

/// A learner's game against an opponent: its rounds, and what came of it.
struct Game {
    /// A row a round.
    rounds: Problem,
    rule: Rule,
    lambda: f64,
    /// The sum of what the learner paid, each round at the w it had.
    paid: f64,
    regret: Regret,
}

/// What the opponent may do: with the round's number, the learner's w and some luck it chooses the
/// features (written), the class and the weight.
type Opponent = fn(usize, &[f64], &mut Uniform, &mut [f64]) -> (u32, f64);

/// Noise, mostly of the class that a hidden w would say.
fn random(_: usize, w: &[f64], luck: &mut Uniform, x: &mut [f64]) -> (u32, f64) {
    x.iter_mut().for_each(|x| *x = luck.signed());
    let class = if luck.draw() < 0.2 { luck.draw() } else { x[0] - 0.5 * x[1] + 0.5 };
    let outputs = w.len() / (x.len() + 1);
    let most = outputs.max(2) as f64;
    ((class.clamp(0.0, 0.999) * most) as u32, 0.5 + luck.draw())
}

/// Whatever the learner would not say of a random row.
fn contrary(t: usize, w: &[f64], luck: &mut Uniform, x: &mut [f64]) -> (u32, f64) {
    random(t, w, luck, x);
    (worst(w, x), 1.0)
}

/// Rows along the weights, so that the learner is as wrong as can be.
fn chasing(t: usize, w: &[f64], luck: &mut Uniform, x: &mut [f64]) -> (u32, f64) {
    let size = norm(&w[..x.len()]);
    if size == 0.0 {
        return contrary(t, w, luck, x);
    }
    x.iter_mut().zip(w).for_each(|(x, w)| *x = 1.3 * w / size);
    (worst(w, x), 1.0)
}

/// One feature at a time, its class turning every 32 rounds.
fn turning(t: usize, w: &[f64], _: &mut Uniform, x: &mut [f64]) -> (u32, f64) {
    x.fill(0.0);
    x[t % x.len()] = 1.0;
    let outputs = (w.len() / (x.len() + 1)).max(2);
    ((t / 32 % outputs) as u32, 1.0)
}

const OPPONENTS: [Opponent; 4] = [random, contrary, chasing, turning];

/// The class of the lowest score.
fn worst(w: &[f64], x: &[f64]) -> u32 {
    let scores: Vec<f64> = w.chunks(x.len() + 1).map(|w| dot(w, x)).collect();
    match scores[..] {
        [score] => u32::from(score <= 0.0),
        _ => (0..scores.len()).min_by(|&a, &b| scores[a].total_cmp(&scores[b])).unwrap() as u32,
    }
}

/// Plays one round at a time, on matrices of a row that are gone in the next.
fn play(rule: Rule, params: Params<Ball>, n: usize, d: usize, opponent: Opponent) -> Game {
    fn game<L: Loss>(
        loss: L,
        rule: Rule,
        params: Params<Ball>,
        n: usize,
        d: usize,
        opponent: Opponent,
    ) -> Game {
        let linear = Linear::<f64>::new(rule.outputs(), d, 1.0).unwrap();
        let mut learner = Trainer::new(linear, loss, params).unwrap();
        learner.keep_regret(Regret::default()).unwrap();
        let mut rounds = Problem { n: 0, d, x: Vec::new(), y: Vec::new(), weight: Vec::new() };
        let mut luck = Uniform::new(n as u64);
        let (mut x, mut paid) = (vec![0.0; d], 0.0);
        for t in 0..n {
            let w = flat(learner.hypothesis());
            let (y, weight) = opponent(t, &w, &mut luck, &mut x);
            rounds.n += 1;
            rounds.x.extend(&x);
            rounds.y.push(y);
            rounds.weight.push(weight);
            paid += rounds.round(t, rule, &w, 1.0, params.lambda);
            let (y, weight) = ([y], [weight]);
            let row = Examples::new(Dense::new(&x, 1, d).unwrap(), &y, Some(&weight)).unwrap();
            learner.run(&row, [0]).unwrap();
        }
        let regret = learner.regret().unwrap().clone();
        Game { rounds, rule, lambda: params.lambda, paid, regret }
    }
    match rule {
        Rule::Margin(loss) => game(Binary { loss, positive: 1 }, rule, params, n, d, opponent),
        Rule::CrammerSinger(classes) => game(joint(classes), rule, params, n, d, opponent),
    }
}

impl Game {
    /// What a sequence of comparators would have paid.
    fn pays<'a>(&self, u: impl IntoIterator<Item = &'a [f64]>) -> f64 {
        let rounds = (0..self.rounds.n).zip(u);
        rounds.map(|(t, u)| self.rounds.round(t, self.rule, u, 1.0, self.lambda)).sum()
    }

    fn fixed_pays(&self, u: &[f64]) -> f64 {
        self.pays(std::iter::repeat_n(u, self.rounds.n))
    }

    /// Nearly the best fixed comparator: projected subgradients of the sum of all rounds, the best
    /// point of the way.
    fn best(&self) -> Vec<f64> {
        let k = self.rule.outputs();
        let mut u = vec![0.0; k * (self.rounds.d + 1)];
        let (mut best, mut least) = (u.clone(), f64::INFINITY);
        for t in 1..=151 {
            let mut gradient: Vec<f64> =
                u.iter().map(|u| self.lambda * u * self.rounds.n as f64).collect();
            let mut pays = self.lambda / 2.0 * dot(&u, &u) * self.rounds.n as f64;
            for i in 0..self.rounds.n {
                let (scores, y) = (self.rounds.scores(i, &u, 1.0), self.rounds.y[i]);
                pays += self.rounds.weight[i] * self.rule.value(&scores, y);
                let x = self.rounds.features(i, 1.0);
                for (gradient, c) in gradient.chunks_mut(x.len()).zip(self.rule.coef(&scores, y)) {
                    add(gradient, -self.rounds.weight[i] * c, &x);
                }
            }
            if pays < least {
                (best, least) = (u.clone(), pays);
            }
            let size = norm(&gradient);
            if size == 0.0 {
                break;
            }
            add(&mut u, -RADIUS / (size * f64::from(t).sqrt()), &gradient);
            shrink_into(&mut u, RADIUS);
        }
        best
    }
}

/// The length of a path.
fn length(path: &[Vec<f64>]) -> f64 {
    path.windows(2).map(|pair| norm(&difference(&pair[1], &pair[0]))).sum()
}

fn rules() -> [Rule; 4] {
    [
        Rule::HINGE,
        Rule::Margin(AnyLoss::SquaredHinge),
        Rule::Margin(AnyLoss::Logistic),
        Rule::CrammerSinger(3),
    ]
}

const DELAYS: [usize; 4] = [0, 1, 5, 20];

#[test]
fn the_cumulative_loss_is_the_sum() {
    for rule in rules() {
        for (lambda, schedule) in schedules() {
            for delay in DELAYS {
                for opponent in OPPONENTS {
                    let params = params(lambda, schedule, delay);
                    let Game { paid, regret, .. } = play(rule, params, 64, 3, opponent);
                    let near = (regret.loss - paid).abs() < 1e-10 * paid;
                    assert!(near, "{rule:?} {params:?}: {} is not {paid}", regret.loss);
                }
            }
        }
    }
}

/// Neither one w for all rounds does, nor one that moves.
#[test]
fn no_comparator_beats_the_bound() {
    // The most of a bound that was used up.
    let mut most: f64 = 0.0;
    for rule in rules() {
        for (lambda, schedule) in schedules() {
            for delay in DELAYS {
                for opponent in OPPONENTS {
                    let params = params(lambda, schedule, delay);
                    let game = play(rule, params, 200, 3, opponent);
                    let best = game.best();
                    let bound = game.regret.bound(2.0 * RADIUS, 0.0);
                    let regret = game.paid - game.fixed_pays(&best);
                    assert!(regret <= bound, "{rule:?} {params:?}: {regret} above {bound}");
                    most = most.max(regret / bound);
                    let mut luck = Uniform::new(9);
                    for _ in 0..50 {
                        let mut u: Vec<f64> = best.iter().map(|_| 2.0 * luck.signed()).collect();
                        shrink_into(&mut u, RADIUS);
                        let regret = game.paid - game.fixed_pays(&u);
                        assert!(regret <= bound, "{rule:?} {params:?}: {regret} above {bound}");
                    }
                    no_drifting_one_does(&game, &best, &params);
                }
            }
        }
    }
    // There are games in which it is not idle.
    assert!(most > 0.3, "{most}");
}

fn no_drifting_one_does(game: &Game, best: &[f64], params: &Params<Ball>) {
    let from = |f: &dyn Fn(usize) -> Vec<f64>| (0..200).map(f).collect::<Vec<_>>();
    let toward = |c: f64| best.iter().map(|u| c * u).collect::<Vec<f64>>();
    // Of every block of rounds its own gradient's direction, from the edge of the ball.
    let greedy = |block: usize| {
        let corner = |first: usize| {
            let mut u = vec![0.0; best.len()];
            for i in first..(first + block).min(200) {
                let x = game.rounds.features(i, 1.0);
                let f = vec![0.0; game.rule.outputs()];
                let coef = game.rule.coef(&f, game.rounds.y[i]);
                for (u, c) in u.chunks_mut(x.len()).zip(coef) {
                    add(u, c, &x);
                }
            }
            let size = norm(&u);
            u.iter_mut().for_each(|u| *u *= RADIUS / size.max(1e-9));
            u
        };
        let corners: Vec<Vec<f64>> = (0..200).step_by(block).map(corner).collect();
        from(&|t| corners[t / block].clone())
    };
    let paths = [
        from(&|_| best.to_vec()),
        from(&|t| toward(if t < 100 { 1.0 } else { -1.0 })),
        from(&|t| toward((t as f64 / 30.0).cos())),
        from(&|t| toward(t as f64 / 200.0)),
        greedy(1),
        greedy(8),
        greedy(32),
        greedy(100),
    ];
    for (k, path) in paths.iter().enumerate() {
        assert!(path.iter().all(|u| norm(u) <= RADIUS + 1e-12));
        let bound = game.regret.bound(2.0 * RADIUS, length(path));
        let regret = game.paid - game.pays(path.iter().map(Vec::as_slice));
        assert!(regret <= bound, "path {k}, {:?} {params:?}: {regret} above {bound}", game.rule);
    }
    // A path costs something.
    let bound = |path| game.regret.bound(2.0 * RADIUS, path);
    assert!(bound(0.0) < bound(1.0) && bound(1.0) < bound(2.0));
}

/// The bound, term by term, from gradients written out: the oracle of what is carried.
#[test]
fn the_bound_is_its_formula() {
    for rule in rules() {
        for (lambda, schedule) in schedules() {
            for delay in [0, 1, 5, 20, 500] {
                let params = params(lambda, schedule, delay);
                let n = 150;
                let game = play(rule, params, n, 3, random);
                let mut w = vec![0.0; rule.outputs() * 4];
                let (mut gradients, mut etas) = (Vec::<Vec<f64>>::new(), Vec::new());
                // The norms of d_t, and what they are at most where only those of its parts are known.
                let (mut exact, mut at_most) = (Vec::new(), Vec::new());
                for t in 0..n {
                    let x = game.rounds.features(t, 1.0);
                    let coef = rule.coef(&game.rounds.scores(t, &w, 1.0), game.rounds.y[t]);
                    let g = coef.iter().flat_map(|c| x.iter().map(move |x| -c * x));
                    gradients.push(g.map(|g| game.rounds.weight[t] * g).collect());
                    let eta = schedule.eta(lambda, (t + 1) as f64);
                    let mut d: Vec<f64> = w.iter().map(|w| lambda * w).collect();
                    let mut parts = norm(&d);
                    if let Some(old) = t.checked_sub(delay) {
                        add(&mut d, 1.0, &gradients[old]);
                        parts += norm(&gradients[old]);
                    }
                    etas.push(eta);
                    exact.push(norm(&d));
                    at_most.push(if delay == 0 { norm(&d) } else { parts });
                    add(&mut w, -eta, &d);
                    shrink_into(&mut w, RADIUS);
                }
                let formula = |d: &[f64], path: f64| {
                    let diameter = 2.0 * RADIUS;
                    let mut bound = diameter * path / etas[n - 1];
                    for t in 0..n {
                        let before = if t == 0 { 0.0 } else { 1.0 / etas[t - 1] };
                        let curvature = (1.0 / etas[t] - before - lambda).max(0.0);
                        bound += diameter * diameter / 2.0 * curvature;
                        bound += 0.5 * etas[t] * d[t] * d[t];
                        if let Some(old) = t.checked_sub(delay) {
                            let moved: f64 = (old..t).map(|s| etas[s] * d[s]).sum();
                            bound += norm(&gradients[old]) * moved;
                        }
                    }
                    let late = n.saturating_sub(delay);
                    bound += diameter * gradients[late..].iter().map(|g| norm(g)).sum::<f64>();
                    let largest = gradients.iter().map(|g| norm(g)).fold(0.0, f64::max);
                    bound + delay.min(n) as f64 * largest * path
                };
                for path in [0.0, 3.7] {
                    let got = game.regret.bound(2.0 * RADIUS, path);
                    let want = formula(&at_most, path);
                    let what = format!("{rule:?} {params:?} {path}: {got}, not {want}");
                    assert!((got - want).abs() < 1e-9 * want, "{what}");
                    assert!(got >= formula(&exact, path) * (1.0 - 1e-9), "{what}");
                    if lambda == 0.0 {
                        assert!((got - formula(&exact, path)).abs() < 1e-9 * want, "{what}");
                    }
                }
            }
        }
    }
}

/// Zinkevich (2003), Theorem 1: `D^2 sqrt(T)/(2 eta0) + G^2 eta0 sqrt(T)`. With steps of 1/(lambda t)
/// `G^2/(2 lambda) (1 + ln T)`. Those are for the largest gradients, ours for those there were.
#[test]
fn the_bound_is_no_more_than_the_textbooks() {
    let (n, diameter) = (300, 2.0 * RADIUS);
    let rounds = n as f64;
    for rule in [Rule::HINGE, Rule::Margin(AnyLoss::Logistic), Rule::CrammerSinger(3)] {
        for opponent in OPPONENTS {
            for eta0 in [0.2, 1.0, 3.0] {
                let params = params(0.0, Schedule::InvScaling { eta0, power: 0.5 }, 0);
                let game = play(rule, params, n, 3, opponent);
                let g2 = largest_row2(&game);
                let textbook =
                    diameter * diameter * rounds.sqrt() / (2.0 * eta0) + g2 * eta0 * rounds.sqrt();
                assert!(game.regret.bound(diameter, 0.0) <= textbook, "{rule:?} {eta0}");
            }
            for schedule in [Schedule::Pegasos, Schedule::InvScaling { eta0: 5.0, power: 1.0 }] {
                let params = params(0.2, schedule, 0);
                let game = play(rule, params, n, 3, opponent);
                let g = largest_row2(&game).sqrt() + 0.2 * RADIUS;
                let textbook = g * g / (2.0 * 0.2) * (1.0 + rounds.ln());
                assert!(game.regret.bound(diameter, 0.0) <= textbook * (1.0 + 1e-9), "{rule:?}");
            }
        }
    }

    /// The largest square of a gradient's norm there can be.
    fn largest_row2(game: &Game) -> f64 {
        let of_coef = if game.rule.outputs() > 1 { 2.0 } else { 1.0 };
        let rows = (0..game.rounds.n).map(|i| {
            let x = game.rounds.features(i, 1.0);
            of_coef * game.rounds.weight[i].powi(2) * dot(&x, &x)
        });
        rows.fold(0.0, f64::max)
    }
}

/// In a game that can be won the bound says so.
#[test]
fn the_bound_is_not_vacuous() {
    let easy: Opponent = |_, _, luck, x| {
        x.iter_mut().for_each(|x| *x = luck.signed());
        let y = u32::from(x[0] > 0.0);
        x[0] += x[0].signum();
        (y, 1.0)
    };
    for (delay, share) in [(0, 0.2), (5, 0.6)] {
        let params = params(0.0, Schedule::InvScaling { eta0: 0.5, power: 0.5 }, delay);
        let game = play(Rule::HINGE, params, 4000, 3, easy);
        let nothing = game.fixed_pays(&[0.0; 4]);
        assert_eq!(nothing, 4000.0);
        let best = game.fixed_pays(&game.best());
        let bound = game.regret.bound(2.0 * RADIUS, 0.0);
        assert!(best + bound < share * nothing, "{delay}: {best} + {bound}");
        assert!(game.paid <= best + bound);
    }
}

/// Nothing need be known of where w may be, if it always goes back at the pace of 1/(lambda t).
#[test]
fn steps_of_one_over_lambda_t_need_no_diameter() {
    for lambda in [0.1, 0.3, 1.0 / 3.0, 1.0, 7.0] {
        let problem = Problem::new(200, 4, 3);
        let data = Examples::new(problem.dense(), &problem.y, Some(&problem.weight)).unwrap();
        let linear = Linear::new(1, 4, 1.0).unwrap();
        let loss = Binary { loss: AnyLoss::Hinge, positive: 1 };
        let mut learner =
            Trainer::new(linear, loss, Params { lambda, ..Params::default() }).unwrap();
        learner.keep_regret(Regret::default()).unwrap();
        for rounds in [1, 2, 197] {
            let t = learner.t() as usize;
            learner.run(&data, t..t + rounds).unwrap();
            let set = &learner.params().set;
            let diameter = Feasible::<Linear<f64>>::diameter(set);
            let bound = learner.regret().unwrap().bound(diameter, 0.0);
            assert!(bound.is_finite(), "{lambda} after {}: {bound}", learner.t());
        }
    }
}

/// What an infinite diameter makes infinite is infinite, and nothing is NaN.
#[test]
fn a_bound_without_a_set_is_infinite() {
    let problem = Problem::new(20, 4, 3);
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    let loss = Binary { loss: AnyLoss::Hinge, positive: 1 };
    for delay in [0, 3] {
        let schedule = Schedule::InvScaling { eta0: 0.5, power: 0.5 };
        let block = Block::Delayed(delay);
        let params = Params { lambda: 0.0, schedule, block, ..Params::default() };
        let mut learner = Trainer::new(Linear::new(1, 4, 1.0).unwrap(), loss, params).unwrap();
        learner.keep_regret(Regret::default()).unwrap();
        assert_eq!(learner.regret().unwrap().bound(f64::INFINITY, 0.0), 0.0);
        assert_eq!(learner.regret().unwrap().bound(f64::INFINITY, 1.0), 0.0);
        learner.run(&data, 0..20).unwrap();
        assert_eq!(learner.regret().unwrap().bound(f64::INFINITY, 0.0), f64::INFINITY);
        assert_eq!(learner.regret().unwrap().bound(f64::INFINITY, 2.0), f64::INFINITY);
        assert!(learner.regret().unwrap().bound(3.0, 2.0).is_finite());
    }
}

#[test]
fn a_game_in_pieces_is_the_game() {
    let problem = Problem::new(90, 5, 4);
    let csr = problem.csr();
    let data = Examples::new(csr.view(), &problem.y, Some(&problem.weight)).unwrap();
    let loss = Binary { loss: AnyLoss::Logistic, positive: 1 };
    for (lambda, schedule) in schedules() {
        for delay in DELAYS {
            let params = params(lambda, schedule, delay);
            let new = || {
                let mut learner =
                    Trainer::new(Linear::<f64>::new(1, 5, 1.0).unwrap(), loss, params).unwrap();
                learner.keep_regret(Regret::default()).unwrap();
                learner
            };
            let mut whole = new();
            let report = whole.run(&data, 0..90).unwrap();
            if lambda == 0.0 {
                assert!((report.loss - whole.regret().unwrap().loss).abs() < 1e-12 * report.loss);
            }
            let mut parts = new();
            for piece in [0..1, 1..4, 4..4, 4..40, 40..41, 41..90] {
                parts.run(&data, piece).unwrap();
                // As one who stores it all and comes back would.
                let numbers = parts.regret().unwrap().numbers();
                let regret = Regret::from_numbers(&numbers).unwrap();
                assert_eq!(&regret, parts.regret().unwrap());
                let linear = Linear::from_state(5, parts.hypothesis().state()).unwrap();
                let mut back = Trainer::resume(linear, loss, params, parts.t()).unwrap();
                back.set_flights(parts.flights().clone());
                back.keep_regret(regret).unwrap();
                parts = back;
            }
            assert_eq!(parts.hypothesis(), whole.hypothesis(), "{params:?}");
            assert_eq!(parts.regret(), whole.regret(), "{params:?}");
        }
    }
}

/// Delays may change while gradients are in flight.
#[test]
fn no_comparator_beats_the_bound_when_delays_change() {
    let problem = Problem::new(200, 3, 6);
    let data = Examples::new(problem.dense(), &problem.y, Some(&problem.weight)).unwrap();
    let loss = Binary { loss: AnyLoss::Hinge, positive: 1 };
    for (lambda, schedule) in schedules() {
        let linear = Linear::<f64>::new(1, 3, 1.0).unwrap();
        let mut learner = Trainer::new(linear, loss, params(lambda, schedule, 12)).unwrap();
        learner.keep_regret(Regret::default()).unwrap();
        let mut paid = 0.0;
        for t in 0..200 {
            let w = flat(learner.hypothesis());
            paid += problem.round(t, Rule::HINGE, &w, 1.0, lambda);
            learner.run(&data, [t]).unwrap();
            if t % 20 == 19 {
                let params = params(lambda, schedule, [3, 0, 20, 1, 7][t / 20 % 5]);
                let linear = Linear::from_state(3, learner.hypothesis().state()).unwrap();
                let mut next = Trainer::resume(linear, loss, params, learner.t()).unwrap();
                next.set_flights(learner.flights().clone());
                next.keep_regret(learner.regret().unwrap().clone()).unwrap();
                learner = next;
            }
        }
        let regret = learner.regret().unwrap().clone();
        assert!((regret.loss - paid).abs() < 1e-10 * paid);
        let bound = regret.bound(2.0 * RADIUS, 0.0);
        let rounds = problem.clone();
        let game = Game { rounds, rule: Rule::HINGE, lambda, paid, regret };
        assert!(paid - game.fixed_pays(&game.best()) <= bound, "{lambda} {schedule:?}");
    }
}

/// A row's columns may come in pieces; its gradient is as long as it is.
#[test]
fn repeated_columns_do_not_shorten_gradients() {
    let problem = Problem::new(100, 3, 5);
    let (mut indptr, mut indices, mut values) = (vec![0_i32], Vec::new(), Vec::new());
    for i in 0..100 {
        for (j, x) in problem.row(i).iter().enumerate() {
            indices.extend([j as i32; 4]);
            values.extend([x / 4.0; 4]);
        }
        indptr.push(values.len() as i32);
    }
    let repeated = Csr::new(&indptr, &indices, &values, 3).unwrap();
    fn bound<'a>(x: impl Into<Matrix<'a, f64>>, problem: &'a Problem, params: Params<Ball>) -> f64 {
        let data = Examples::new(x, &problem.y, Some(&problem.weight)).unwrap();
        let loss = Binary { loss: AnyLoss::Hinge, positive: 1 };
        let mut learner = Trainer::new(Linear::new(1, 3, 0.0).unwrap(), loss, params).unwrap();
        learner.keep_regret(Regret::default()).unwrap();
        learner.run(&data, 0..100).unwrap();
        learner.regret().unwrap().bound(2.0 * RADIUS, 0.0)
    }
    for (lambda, schedule) in schedules() {
        let params = params(lambda, schedule, 0);
        let (once, four) =
            (bound(problem.dense(), &problem, params), bound(repeated, &problem, params));
        assert!((once - four).abs() < 1e-9 * once, "{params:?}: {four}, not {once}");
    }
}

/// Gradients in flight when the account begins arrive all the same, and throw w about.
#[test]
fn a_bound_knows_gradients_from_before_the_account() {
    let params = params(0.0, Schedule::Constant { eta0: 5000.0 }, 20);
    let loss = Binary { loss: AnyLoss::Hinge, positive: 1 };
    let mut learner = Trainer::new(Linear::<f64>::new(1, 1, 0.0).unwrap(), loss, params).unwrap();
    let heavy = Examples::new(Dense::new(&[1000.0], 1, 1).unwrap(), &[0], None).unwrap();
    learner.run(&heavy, [0; 20]).unwrap();
    if learner.keep_regret(Regret::default()).is_err() {
        return;
    }
    // Now the other class, in small steps.
    let light = Examples::new(Dense::new(&[1e-4], 1, 1).unwrap(), &[1], None).unwrap();
    let mut paid = 0.0;
    for _ in 0..20 {
        paid += 1.0 - 1e-4 * learner.hypothesis().weights()[0];
        learner.run(&light, [0]).unwrap();
    }
    let best = 20.0 * (1.0 - 1e-4 * RADIUS);
    let bound = learner.regret().unwrap().bound(2.0 * RADIUS, 0.0);
    assert!(paid - best <= bound, "{} above {bound}", paid - best);
}

/// However many updates somebody says there were, a copy counts on from there.
#[test]
fn shares_of_many_updates_go_on() {
    let problem = Problem::new(10, 3, 5);
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    let mut one = trainer::<f64, _>(HINGE, 3, Params::default());
    one.run(&data, [0]).unwrap();
    one.set_updates(u64::MAX);
    let mut many = one.share(1 << 40).unwrap();
    many.run(&data, 0..10).unwrap();
    assert!(many.updates() >= 1 << 62);
}
