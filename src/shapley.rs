//! Exact Shapley values: what each feature of a row adds to the scores.
//!
//! * Problem: with v(S) the score where only the features in S are known, the Shapley value of feature i is the mean of
//!   `v(S + i) - v(S)` over the orders in which features may become known, S being those before i. Of d features a plain sum
//!   has 2^d terms.
//! * Gaussian kernels are products, `k(x, z) = prod_l p_l` with `p_l = e^(-gamma (x_l - z_l)^2)`, and values of sums are
//!   sums of values. So each support vector z is a game of its own, `v(S) = prod_(l in S) p_l prod_(l not in S) q_l`. Where a
//!   row r of a background stands for what is not known `q_l = e^(-gamma (r_l - z_l)^2)`, and values are means over its rows
//!   (the interventional game of SHAP); without one `q_l = 1`, a factor that is left out.
//! * Formula: the mean over orders is one over the time t at which i arrives where all arrive independently and uniformly
//!   in [0, 1] (Owen 1972, the multilinear extension), so that
//!
//!   ```text
//!   phi_i = (p_i - q_i) integral_0^1 prod_(l != i) (q_l + t (p_l - q_l)) dt
//!   ```
//!
//!   a polynomial of degree d - 1 in t, for which Gauss and Legendre's rule of ceil(d/2) nodes is exact. Products without
//!   the i-th factor are those of the factors before and after it, as a factor to divide by may be 0.
//! * Fours: with `u = 2 t - 1`, in [-1, 1], a factor is `c + u m`, `c = (p + q)/2`, `m = (p - q)/2`, and the product of
//!   four is a polynomial of degree 4, whose values at u and at -u share an even and an odd part. So one product before and
//!   one after serve four features: what is left of the integral is four moments, of the product of all others times
//!   1, u, u^2, u^3, that the three others of the four finish. A node takes 7/4 multiplications a feature, all else 49/4. Of
//!   8 features or fewer the moments are integrals of the other four's polynomial, and no nodes are needed.
//! * Rounding: the coefficients of a four add up to no more, in magnitude, than the product of the larger factors, so that
//!   a value errs by some d roundings of that. It is the unit of the bounds below, too.
//! * Fewer nodes: how far factors change is `G = sum_l g_l`, `g_l = |p_l - q_l|/max(p_l, q_l)`. A rule of n nodes errs by at
//!   most, in units of `prod_(l != i) max(p_l, q_l)`,
//!
//!   ```text
//!   (n!)^4/((2n)!^2 (2n + 1)) binomial(d, 2n) (G/d)^(2n)                 and
//!   32/15 e^(-2 n s)/(1 - e^(-2 s)) e^(G (cosh s - 1)/2)                 for every s > 0
//!   ```
//!
//!   The first is the rule's error formula, with the 2n-th derivative of a product of linear factors, (2n)! times an elementary
//!   symmetric polynomial of the g_l, which Maclaurin's inequality bounds by its value where all are alike. The second is
//!   theorem 19.3 of Trefethen's Approximation Theory (2013): on the ellipse with foci 0 and 1 and the half axis
//!   cosh(s)/2 a factor is at most `max(p_l, q_l) (1 + g_l (cosh s - 1)/2)`. The rule taken is the smallest for which one of
//!   them is 2^-53, 2^-24 for float32, or that is exact. For gamma near 1/(n_features variance) G is about 2.5, and 8 nodes
//!   are enough whatever d, 5 for float32; more than 3 sqrt(d) + 8 or so are never needed.
//! * G is not summed, as it takes divisions. `C = prod_l max(p_l, q_l)/c_l` takes two multiplications a feature, and
//!   `g_l = 2 (1 - c_l/max(p_l, q_l))` is concave in the logarithm of a factor of C, so that `G <= 2 d (1 - C^(-1/d))`: a
//!   rule for G is one for a C.
//! * Cost: O(rows n_vectors background d n) for whatever number of outputs, and O(rows n_vectors d outputs). Memory: the
//!   values, the background in double precision, and about 8 KB a feature and thread.
//! * Precision: that of the model. Of float32 twice as many games are played side by side; factors, products and sums over
//!   some rows of the background are float32, sums over vectors and steps float64. A game's values err by some d + 32
//!   roundings, 2^-24 each, of the product of the larger factors, and by as many as its powers `gamma (x - z)^2` are large.
//! * Determinism: a row's numbers are summed by one thread, in an order that depends on the sizes alone. The last bits depend
//!   on the instructions that the processor has, as everywhere.
//! * Differs from the paper (Mohammadi, Chau, Muandet: PKeX-Shapley, arXiv 2505.16516), whose game is the one without a
//!   background: it sums elementary symmetric polynomials of the factors, by a recursion. The integral is the same sum
//!   without differences of large numbers, and takes factors q other than 1.
//! * Linear scores are sums already: `phi_i = w_i (x_i - r_i)`, r the mean of the background, or 0.

use std::f64::consts::{LN_2, PI};
use std::ops::Range;

use crate::data::{Matrix, Row, same_features};
use crate::error::{Error, check_out};
use crate::examples::diagnose;
use crate::expansion::Expansion;
use crate::hypothesis::Hypothesis;
use crate::kernel::Kernel;
use crate::memory;
use crate::scalar::Scalar;
use crate::simd::{Contrast, Four, GAMES, Games, Round, Rule, Weigh};
use crate::threads::{self, side_by_side};

/// Rows whose games one task plays, so that the factors of the background are computed once for them, and how many
/// features these have: at most.
const TOGETHER: usize = 32;
const FEATURES: usize = 1 << 12;

/// Bytes of factors of rows of the background that many rows play with in turn: half of what the nearest cache holds.
const NEAR: usize = 1 << 14;

/// Rows of a background that are one step, at most, and how many factors these have. Of float32 fewer: within a step sums
/// are of the models' precision.
const CHUNK: usize = 128;
const FACTORS: usize = 1 << 17;

/// Of no more players no rule is needed: two polynomials of degree 4 are multiplied.
const FEW: usize = 8;

/// The Shapley values of a model, ready to be computed, row by row and step by step.
///
/// ```
/// use pegasos::{Dense, Expansion, Hypothesis, Kernel, Matrix, Shapley};
///
/// let x = Matrix::from(Dense::new(&[0.0, 0.0, 1.0, 2.0_f64], 2, 2)?);
/// let mut w = Expansion::new(Kernel::Rbf { gamma: 0.5 }, 1, 2)?;
/// w.add(0, x.row(0), &[1.0]);
/// let values = Shapley::new(&w, None)?.values(&x, 1..2)?;
/// // Of two features: the mean of joining first and second.
/// let (p, q) = ((-0.5_f64).exp(), (-2.0_f64).exp());
/// assert!((values[0] - (p - 1.0) * (1.0 + q) / 2.0).abs() < 1e-15);
/// assert!((values[1] - (q - 1.0) * (1.0 + p) / 2.0).abs() < 1e-15);
/// # Ok::<(), pegasos::Error>(())
/// ```
#[derive(Debug)]
pub struct Shapley<'a, S> {
    n_features: usize,
    outputs: usize,
    game: Game<'a, S>,
}

#[derive(Debug)]
enum Game<'a, S> {
    /// Weights, an entry for each output for each feature; the row for what is not known.
    Sum {
        weights: &'a [f64],
        absent: Vec<f64>,
    },
    Products(Products<'a, S>),
}

#[derive(Debug)]
struct Products<'a, S> {
    w: &'a Expansion<S>,
    gamma: f64,
    /// Rows for what is not known, one after the other, all their features; `None` for factors of 1.
    background: Option<Vec<f64>>,
    /// How many steps a group of vectors takes, and of how many rows of the background each.
    parts: usize,
    chunk: usize,
    /// Each with the bound on `C`, as above, that it is enough for.
    rules: Vec<(f64, Rule)>,
}

/// All that a task needs room for. Factors are halves; a last one is of nobody, who makes up fours of players.
struct Room<S> {
    /// Of the rows to explain, and of some of the background.
    with: Vec<Games<S>>,
    without: Vec<Games<S>>,
    players: Vec<usize>,
    fours: Vec<Four<S>>,
    sums: Vec<Games<S>>,
    vectors: Vec<Games<S>>,
    coefs: Vec<f64>,
    scores: Vec<f64>,
}

impl<'a, S: Scalar> Shapley<'a, S> {
    /// Of scores that are sums of [`Kernel::Rbf`], with the rows of a background for features that are not known, or factors
    /// of 1. Refuses other kernels, and rows that are not finite.
    pub fn new(w: &'a Expansion<S>, background: Option<&Matrix<'_, S>>) -> Result<Self, Error> {
        let Kernel::Rbf { gamma } = w.kernel() else {
            let want = "Rbf, or Linear by its weights: Shapley values of others are not known here";
            return Err(Error::parameter("kernel", format_args!("{:?}", w.kernel()), want));
        };
        let d = w.n_features();
        let mut rows = None;
        if let Some(x) = background {
            same_features(d, x.n_features())?;
            if x.n_rows() == 0 {
                return Err(Error::shape("background", "at least one row", 0));
            }
            let mut wide = memory::zeros("the background", &[x.n_rows(), d])?;
            let mut narrow = memory::zeros("a row of all features", &[d])?;
            for (i, wide) in wide.chunks_mut(d).enumerate() {
                load(x, i, &mut narrow, wide)?;
            }
            rows = Some(wide);
        }
        let count = background.map_or(1, Matrix::n_rows);
        // 24 and 53 binary digits.
        let (bits, most) = if size_of::<S>() == 4 { (24, CHUNK / 4) } else { (53, CHUNK) };
        let chunk = (FACTORS / d).clamp(1, most).min(count);
        let parts = count.div_ceil(chunk);
        let rules = rules_for(d, bits);
        let products = Products { w, gamma, background: rows, parts, chunk, rules };
        Ok(Shapley { n_features: d, outputs: w.outputs(), game: Game::Products(products) })
    }

    /// Of scores that are sums of features by weights, an entry for each output for each feature. The mean of the
    /// background's rows stands for features that are not known, or 0.
    pub fn linear(
        weights: &'a [f64],
        n_features: usize,
        background: Option<&Matrix<'_, S>>,
    ) -> Result<Self, Error> {
        if n_features == 0 || weights.is_empty() || !weights.len().is_multiple_of(n_features) {
            let want = format_args!("a multiple of n_features = {n_features} numbers");
            return Err(Error::shape("weights", want, weights.len()));
        }
        if let Some(wrong) = weights.iter().find(|weight| !weight.is_finite()) {
            return Err(Error::parameter("weights", wrong, "finite everywhere"));
        }
        let mut absent = memory::zeros("the mean of the background", &[n_features])?;
        if let Some(x) = background {
            same_features(n_features, x.n_features())?;
            if x.n_rows() == 0 {
                return Err(Error::shape("background", "at least one row", 0));
            }
            let mut wide = memory::zeros("a row of all features", &[n_features])?;
            let mut narrow = memory::zeros("a row of all features", &[n_features])?;
            for i in 0..x.n_rows() {
                load(x, i, &mut narrow, &mut wide)?;
                let share = 1.0 / x.n_rows() as f64;
                absent.iter_mut().zip(&wide).for_each(|(mean, x)| *mean += share * x);
            }
        }
        let outputs = weights.len() / n_features;
        Ok(Shapley { n_features, outputs, game: Game::Sum { weights, absent } })
    }

    /// How many values a row has: features x outputs.
    pub fn values_of_a_row(&self) -> usize {
        self.n_features * self.outputs
    }

    /// How many steps there are: those of [`add`](Shapley::add).
    pub fn steps(&self) -> usize {
        match &self.game {
            Game::Sum { .. } => 1,
            // One without vectors looks at the rows.
            Game::Products(game) => (game.w.n_vectors().div_ceil(GAMES) * game.parts).max(1),
        }
    }

    /// About how many multiplications a step takes for a row.
    pub fn cost(&self) -> usize {
        let each = match &self.game {
            Game::Sum { .. } => self.outputs,
            // Few rules have more than 16 nodes, and each takes two and a half.
            Game::Products(game) => GAMES * (48 * game.chunk + self.outputs),
        };
        each.saturating_mul(self.n_features)
    }

    /// All values of these rows: rows x features x outputs. On the threads of the current rayon pool.
    pub fn values(&self, x: &Matrix<'_, S>, rows: Range<usize>) -> Result<Vec<f64>, Error> {
        x.check_range(&rows)?;
        let mut found =
            memory::zeros("the Shapley values", &[rows.len(), self.n_features, self.outputs])?;
        self.add(x, rows, 0..self.steps(), &mut found)?;
        Ok(found)
    }

    /// Adds, of the values of these rows, what these steps contribute: all steps, each once and in their order, make up the
    /// values, with the same bits however they and the rows are divided into calls. On the threads of the current rayon
    /// pool. Refuses rows that are not there or not finite, and an `out` that is not of their size.
    pub fn add(
        &self,
        x: &Matrix<'_, S>,
        rows: Range<usize>,
        steps: Range<usize>,
        out: &mut [f64],
    ) -> Result<(), Error> {
        same_features(self.n_features, x.n_features())?;
        x.check_range(&rows)?;
        check_out(&[rows.len(), self.n_features, self.outputs], out.len())?;
        // There are no others.
        let steps = steps.start..steps.end.min(self.steps());
        if steps.is_empty() {
            return Ok(());
        }
        let each = self.values_of_a_row();
        let most = (FEATURES / self.n_features).clamp(1, TOGETHER);
        // Where there is who does them, a task for few rows or even one.
        let tasks = match threads::count() {
            1 => 1,
            several => 4 * several,
        };
        let group = rows.len().div_ceil(tasks).clamp(1, most);
        let mut tasks: Vec<(usize, &mut [f64])> =
            rows.step_by(group).zip(out.chunks_mut(group * each)).collect();
        side_by_side(&mut tasks, |_, (first, out)| self.add_group(x, *first, steps.clone(), out))
            .into_iter()
            .collect()
    }

    fn add_group(
        &self,
        x: &Matrix<'_, S>,
        first: usize,
        steps: Range<usize>,
        out: &mut [f64],
    ) -> Result<(), Error> {
        let (d, each) = (self.n_features, self.values_of_a_row());
        let count = out.len() / each;
        let mut narrow = memory::zeros("a row of all features", &[d])?;
        let mut wide = memory::zeros("a row of all features", &[count, d])?;
        for (i, wide) in (first..).zip(wide.chunks_mut(d)) {
            load(x, i, &mut narrow, wide)?;
        }
        match &self.game {
            Game::Sum { weights, absent } => {
                for ((i, out), features) in (first..).zip(out.chunks_mut(each)).zip(wide.chunks(d))
                {
                    let values = out.chunks_mut(self.outputs).zip(weights.chunks(self.outputs));
                    for ((out, weights), (x, absent)) in values.zip(features.iter().zip(absent)) {
                        for (out, weight) in out.iter_mut().zip(weights) {
                            *out += weight * (x - absent);
                        }
                    }
                    if !out.iter().all(|value| value.is_finite()) {
                        return Err(diagnose(x, i));
                    }
                }
                Ok(())
            }
            Game::Products(game) => {
                let mut room = Room::new(count, d, self.outputs)?;
                for step in steps {
                    game.add_step(step, &wide, &mut room, out);
                }
                Ok(())
            }
        }
    }
}

impl<S: Scalar> Products<'_, S> {
    /// Of one group of vectors and some rows of the background.
    fn add_step(&self, step: usize, x: &[f64], room: &mut Room<S>, out: &mut [f64]) {
        let (d, outputs) = (self.w.n_features(), self.w.outputs());
        let first = step / self.parts * GAMES;
        if first >= self.w.n_vectors() {
            return;
        }
        self.load_vectors(first, room);
        for (x, with) in x.chunks(d).zip(room.with.chunks_mut(d + 1)) {
            S::factors(self.gamma, x, &room.vectors, with);
        }
        room.sums.fill(Games::default());
        match &self.background {
            None => {
                room.without.fill(Games([S::from_f64(0.5); GAMES]));
                self.play(1, room);
            }
            Some(rows) => {
                let of = step % self.parts * self.chunk;
                let rows = &rows[of * d..rows.len().min((of + self.chunk) * d)];
                for rows in rows.chunks(room.without.len() / (d + 1) * d) {
                    for (row, without) in rows.chunks(d).zip(room.without.chunks_mut(d + 1)) {
                        S::factors(self.gamma, row, &room.vectors, without);
                    }
                    self.play(rows.len() / d, room);
                }
            }
        }
        let each = room.sums.chunks(d + 1).flat_map(|sums| &sums[..d]);
        for (sums, out) in each.zip(out.chunks_mut(outputs)) {
            <S as Weigh<f64>>::dots(&sums.0, &room.coefs, &mut room.scores);
            out.iter_mut().zip(&room.scores).for_each(|(out, score)| *out += score);
        }
    }

    /// Of vectors from this one on, side by side, with their coefficients over the rows of the background. Where there are
    /// no more the last one plays again, for nothing.
    fn load_vectors(&self, first: usize, room: &mut Room<S>) {
        let (d, n) = (self.w.n_features(), self.w.n_vectors());
        let rows = self.background.as_ref().map_or(1, |rows| rows.len() / d);
        let mut features = vec![S::default(); d];
        room.coefs.fill(0.0);
        for lane in 0..GAMES {
            let slot = first + lane;
            self.w.vector(slot.min(n - 1), &mut features);
            for (vectors, z) in room.vectors.iter_mut().zip(&features) {
                vectors.0[lane] = *z;
            }
            if slot < n {
                self.w.coef(slot, &mut room.scores);
                for (coefs, coef) in room.coefs.chunks_mut(GAMES).zip(&room.scores) {
                    coefs[lane] = coef / rows as f64;
                }
            }
        }
    }

    /// Adds the values of every row's games with so many rows of the background.
    fn play(&self, rows: usize, room: &mut Room<S>) {
        let d = self.w.n_features();
        let one = Games([S::from_f64(1.0); GAMES]);
        for (with, sums) in room.with.chunks(d + 1).zip(room.sums.chunks_mut(d + 1)) {
            for without in room.without.chunks(d + 1).take(rows) {
                let found;
                // Of few features all play: to look who makes a difference costs as much.
                let (mut players, mut constant, mut rule) = (d, &one, None);
                if d > FEW {
                    found = S::contrast(&with[..d], &without[..d], &mut room.players);
                    // As good as nothing.
                    if found.players == 0 || found.larger.to_f64() < 1.0 / S::LARGEST {
                        continue;
                    }
                    (players, constant, rule) = (found.players, &found.constant, self.rule(&found));
                }
                let fours = players.next_multiple_of(4).max(if rule.is_none() { FEW } else { 0 });
                room.players[players..fours].fill(d);
                let (players, _) = room.players[..fours].as_chunks();
                let round = Round { constant, players, with, without };
                S::integrate(rule, round, &mut room.fours, sums);
            }
        }
    }

    /// The rule that such games need, if any.
    fn rule(&self, found: &Contrast<S>) -> Option<&Rule> {
        if found.players <= FEW {
            return None;
        }
        let enough = |(most, rule): &&(f64, Rule)| {
            found.change.to_f64() < *most || 2 * nodes_of(rule) >= found.players
        };
        // The last one has as many nodes as any game needs.
        self.rules.iter().find(enough).or(self.rules.last()).map(|(_, rule)| rule)
    }
}

impl<S: Scalar> Room<S> {
    fn new(rows: usize, d: usize, outputs: usize) -> Result<Self, Error> {
        let what = "the factors of all features";
        let each = d.saturating_add(1);
        let games = size_of::<Games<S>>();
        let absent = (NEAR / games / each).clamp(1, TOGETHER);
        let (one, all) = ([absent * each], [rows.saturating_mul(each)]);
        let each = (1 + absent) * games + size_of::<usize>() + size_of::<Four<S>>() / 4;
        memory::check::<u8>(
            what,
            &[all[0].saturating_mul(2 * games).saturating_add(d.saturating_mul(each))],
        )?;
        let half = Games([S::from_f64(0.5); GAMES]);
        let (mut with, mut without) = (memory::zeros(what, &all)?, memory::zeros(what, &one)?);
        with.fill(half);
        without.fill(half);
        Ok(Room {
            with,
            without,
            players: (0..d.saturating_add(FEW)).collect(),
            fours: memory::zeros(what, &[d.div_ceil(4) + 1])?,
            sums: memory::zeros(what, &all)?,
            vectors: memory::zeros(what, &[d])?,
            coefs: memory::zeros(what, &[outputs, GAMES])?,
            scores: memory::zeros(what, &[outputs])?,
        })
    }
}

/// All features of a row; an error where one is not finite or lies outside.
fn load<S: Scalar>(
    x: &Matrix<'_, S>,
    i: usize,
    narrow: &mut [S],
    wide: &mut [f64],
) -> Result<(), Error> {
    narrow.fill(S::default());
    let row: Row<'_, S> = x.row(i);
    let inside = row.add_to(narrow);
    wide.iter_mut().zip(&*narrow).for_each(|(wide, x)| *wide = x.to_f64());
    if inside && wide.iter().all(|x| x.is_finite()) { Ok(()) } else { Err(diagnose(x, i)) }
}

/// Rules of ever more nodes, the last of as many as products of so many factors need. Each has at most an eighth more than
/// the one before, or one more.
fn rules_for(d: usize, bits: i32) -> Vec<(f64, Rule)> {
    let (mut rules, mut n) = (Vec::new(), 2);
    loop {
        let most = most_change(n, d, bits);
        rules.push((quotient(most, d), gauss_legendre(n)));
        if most >= d as f64 {
            return rules;
        }
        n += (n / 8).max(1);
    }
}

/// How many nodes a rule has.
fn nodes_of(rule: &Rule) -> usize {
    2 * rule.pairs.len() + usize::from(rule.middle.is_some())
}

/// What the quotient of the products of d larger factors and of the means may be, that G is no larger than so much.
fn quotient(most: f64, d: usize) -> f64 {
    if most >= d as f64 {
        return f64::INFINITY;
    }
    (-(d as f64) * (-most / (2.0 * d as f64)).ln_1p()).exp()
}

/// The largest G for which one of the bounds, of a rule of so many nodes and products of no more than d factors, is 2^-bits
/// of the larger ones' product.
fn most_change(n: usize, d: usize, bits: i32) -> f64 {
    if 2 * n >= d {
        return f64::INFINITY;
    }
    let (size, digits) = (n as f64, f64::from(bits) * LN_2);
    let ellipse = |s: f64| {
        let logarithm = 2.0 * size * s + (-(-2.0 * s).exp()).ln_1p() + (15.0_f64 / 32.0).ln();
        2.0 * (logarithm - digits) / (s.cosh() - 1.0)
    };
    // Every s is right, one of these nearly the best.
    let of_ellipse = (1..=700).map(|k| ellipse(f64::from(k) / 100.0)).fold(0.0, f64::max);
    // (n!)^4/((2 n)!^2 (2 n + 1)), and binomial(d, 2 n)/d^(2 n).
    let central: f64 = (1..=n).map(|k| (k as f64 / (n + k) as f64).ln()).sum();
    let chosen: f64 =
        (0..2 * n).map(|k| (1.0 - k as f64 / d as f64).ln() - (k as f64 + 1.0).ln()).sum();
    let logarithm = 2.0 * central - (2.0 * size + 1.0).ln() + chosen;
    let of_derivative = ((-digits - logarithm) / (2.0 * size)).exp();
    of_ellipse.max(of_derivative)
}

/// Gauss and Legendre's rule, exact for polynomials of degree 2 n - 1: the roots of the Legendre polynomial by Newton's
/// method. n must be 2 at least.
fn gauss_legendre(n: usize) -> Rule {
    let size = n as f64;
    // P_n and its derivative, by the recurrence in three terms.
    let legendre = |x: f64| {
        let (mut before, mut value) = (1.0, x);
        for k in 2..=n {
            let k = k as f64;
            let next = ((2.0 * k - 1.0) * x * value - (k - 1.0) * before) / k;
            (before, value) = (value, next);
        }
        (value, size * (before - x * value) / (1.0 - x * x))
    };
    let weight = |x: f64, slope: f64| 2.0 / ((1.0 - x * x) * slope * slope);
    let pair = |k: usize| {
        let mut x = (PI * (k as f64 + 0.75) / (size + 0.5)).cos();
        // It is right to 1e-4 at the beginning, and every step doubles the digits.
        for _ in 0..6 {
            let (value, slope) = legendre(x);
            x -= value / slope;
        }
        (x, weight(x, legendre(x).1))
    };
    let middle = (n % 2 == 1).then(|| weight(0.0, legendre(0.0).1));
    Rule { pairs: (0..n / 2).map(pair).collect(), middle }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes in [0, 1], in their order, and weights.
    fn points(rule: &Rule) -> Vec<(f64, f64)> {
        let point = |t: f64, w: f64| ((1.0 + t) / 2.0, w / 2.0);
        let mut points: Vec<_> = rule.middle.map(|w| point(0.0, w)).into_iter().collect();
        points.extend(rule.pairs.iter().flat_map(|(t, w)| [point(*t, *w), point(-t, *w)]));
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    }

    #[test]
    fn rules_are_exact_for_powers() {
        for n in [4, 5, 8, 13, 60, 201, 1000, 1001] {
            let rule = points(&gauss_legendre(n));
            assert_eq!(rule.len(), n);
            assert!(rule.windows(2).all(|pair| pair[0].0 < pair[1].0), "{n}");
            for degree in [0, 1, 2, 7, n, 2 * n - 1] {
                let sum: f64 = rule.iter().map(|(t, w)| w * t.powi(degree as i32)).sum();
                let want = 1.0 / (degree + 1) as f64;
                assert!((sum / want - 1.0).abs() < 2e-13, "{n}, {degree}: {sum}, not {want}");
            }
        }
    }

    /// Of products of `1 - c t`, all c alike or as many as possible 1, with the largest sum of them that a rule is for.
    #[test]
    fn fewer_nodes_are_enough() {
        let integral = |rule: &[(f64, f64)], changes: &[(f64, f64)]| -> f64 {
            // Plain products of so many factors are not as exact.
            let logarithm =
                |t: f64| -> f64 { changes.iter().map(|(c, count)| count * (-c * t).ln_1p()).sum() };
            rule.iter().map(|(t, weight)| weight * logarithm(*t).exp()).sum()
        };
        for (d, bits, tolerance) in
            [12, 30, 100, 784, 3000_usize].into_iter().flat_map(|d| [(d, 53, 3e-15), (d, 24, 6e-8)])
        {
            let exact = points(&gauss_legendre(d / 2 + 1));
            let rules = rules_for(d, bits);
            for (quotient, rule) in &rules {
                let nodes = points(rule);
                // One that is exact is so for all factors but one.
                let most = most_change(nodes.len(), d, bits);
                let (most, count) =
                    if most < d as f64 { (most, d) } else { (d as f64 - 1.0, d - 1) };
                let alike = [(most / count as f64, count as f64)];
                let apart = [(1.0, most.floor()), (most.fract(), 1.0)];
                for changes in [&alike[..], &apart] {
                    let error = (integral(&nodes, changes) - integral(&exact, changes)).abs();
                    assert!(error < tolerance, "{d}, {} nodes: {error:e}", nodes.len());
                    // The quotient of such products is what it is found by, and no smaller.
                    let means = changes.iter().map(|(c, count)| -count * (-c / 2.0).ln_1p());
                    let found = means.sum::<f64>().exp();
                    assert!(count < d || found >= quotient * (1.0 - 1e-12), "{d}: {found}");
                }
            }
            let last = rules.last().map_or(0, |(_, rule)| nodes_of(rule));
            let most = 1.25 * (3.0 * (d as f64).sqrt() + 8.0);
            assert!(last <= d.div_ceil(2) + 4 || last as f64 <= most, "{d}: {last}");
            assert!(rules.last().is_some_and(|(most, _)| *most == f64::INFINITY));
        }
        let most = most_change(8, 30, 53);
        assert!((3.6..3.7).contains(&most), "{most}");
    }
}
