//! The bodies behind Shapley values: games whose worth is a product over the players, [`GAMES`] of them side by side. As in
//! `body.rs`, written once and compiled for every level; `shapley.rs` says what they are for.

#![allow(clippy::needless_range_loop, reason = "lanes of several arrays at a time")]

use core::array::from_fn;
use core::iter::once;
use core::marker::PhantomData;

use super::body::exp;
use super::float::{Float, Processor};

/// Games side by side: one AVX-512 register of f32, two of f64.
pub const GAMES: usize = 16;

/// Pairs of nodes at a time, at most, so that factors are read once for products that all have a register.
const PAIRS: usize = 4;

/// A number for each game.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Games<S>(pub [S; GAMES]);

/// How far worths change, and how large they are.
#[derive(Clone, Copy, Debug)]
pub struct Contrast<S> {
    /// How many players make a difference.
    pub players: usize,
    /// The product of the factors of all others.
    pub constant: Games<S>,
    /// The largest product, over the games, of the larger of the two factors of every player.
    pub larger: S,
    /// The largest quotient, over the games, of that and of the product of the means of the two.
    pub change: S,
}

/// A rule for integrals over [-1, 1]: nodes that come with both signs, one pair at least, and their weights; and, of an odd
/// number of nodes, the weight of 0.
#[derive(Debug)]
pub struct Rule {
    pub pairs: Vec<(f64, f64)>,
    pub middle: Option<f64>,
}

/// Games with the same players: half of what multiplies the worth with each of them and without, and what does whoever plays.
#[derive(Clone, Copy, Debug)]
pub struct Round<'a, S> {
    pub constant: &'a Games<S>,
    /// Four at a time.
    pub players: &'a [[usize; 4]],
    pub with: &'a [Games<S>],
    pub without: &'a [Games<S>],
}

/// Of four players.
#[derive(Clone, Copy, Debug)]
pub struct Four<S> {
    /// The product of their factors, a polynomial in the node.
    coefs: [Games<S>; 5],
    /// Integrals of the product of all others' factors, times powers of the node.
    moments: [Games<S>; 4],
    /// For nodes of both signs and for 0: the products of the factors before them, and of their own.
    before: [[Games<S>; 2]; PAIRS],
    own: [[Games<S>; 2]; PAIRS],
    middle: Games<S>,
}

impl<S: Copy + Default> Default for Games<S> {
    fn default() -> Self {
        Games([S::default(); GAMES])
    }
}

impl<S: Copy + Default> Default for Four<S> {
    fn default() -> Self {
        let (none, nodes) = (Games::default(), [[Games::default(); 2]; PAIRS]);
        Four { coefs: [none; 5], moments: [none; 4], before: nodes, own: nodes, middle: none }
    }
}

#[inline(always)]
pub fn factors<P: Processor, S: Float>(
    p: P,
    gamma: f64,
    x: &[f64],
    z: &[Games<S>],
    half: &mut [Games<S>],
) {
    let (minus_gamma, a_half) = (S::finite_from_f64(-gamma), S::from_f64(0.5));
    for ((x, z), half) in x.iter().zip(z).zip(half) {
        let x = S::from_f64(*x);
        for l in 0..GAMES {
            let apart = x - z.0[l];
            half.0[l] = minus_gamma * apart * apart;
        }
        exp(p, &mut half.0);
        for l in 0..GAMES {
            half.0[l] = a_half * half.0[l];
        }
    }
}

#[inline(always)]
pub fn contrast<P: Processor, S: Float>(
    _: P,
    with: &[Games<S>],
    without: &[Games<S>],
    out: &mut [usize],
) -> Contrast<S> {
    let (mut players, mut constant) = (0, Games([S::UNIT; GAMES]));
    let (mut larger, mut middle) = ([S::UNIT; GAMES], [S::UNIT; GAMES]);
    for (number, (with, without)) in with.iter().zip(without).enumerate() {
        let mut differ = false;
        for l in 0..GAMES {
            let (p, q) = (with.0[l], without.0[l]);
            let most = if p < q { q } else { p };
            larger[l] = larger[l] * (most + most);
            middle[l] = middle[l] * (p + q);
            differ |= p != q;
        }
        if differ {
            let Some(player) = out.get_mut(players) else { break };
            *player = number;
            players += 1;
        } else {
            for l in 0..GAMES {
                constant.0[l] = constant.0[l] * (without.0[l] + without.0[l]);
            }
        }
    }
    // Where nothing is left of a product its quotient is NaN, and not the largest.
    let mut change: [S; GAMES] = from_fn(|l| (larger[l] / middle[l]).at_least(S::UNIT));
    let mut width = GAMES;
    while width > 1 {
        width /= 2;
        for l in 0..width {
            larger[l] = larger[l].at_least(larger[l + width]);
            let (a, b) = (change[l], change[l + width]);
            change[l] = if a < b { b } else { a };
        }
    }
    Contrast { players, constant, larger: larger[0], change: change[0] }
}

#[inline(always)]
pub fn integrate<P: Processor, S: Float>(
    _: P,
    rule: Option<&Rule>,
    round: Round<'_, S>,
    room: &mut [Four<S>],
    out: &mut [Games<S>],
) {
    // A register of AVX2, or two of the baseline; `avx512.rs` has its own.
    match P::REGISTER / size_of::<S>() {
        8 => by_registers::<S, Array<P, S, 8>>(rule, round, room, out),
        _ => by_registers::<S, Array<P, S, 4>>(rule, round, room, out),
    }
}

/// Some of the games' numbers. What is behind is an array, or a type of the processor where the compiler makes too little
/// of arrays.
pub trait Register<S>: Copy {
    /// How many of these the numbers of all games are.
    const PARTS: usize;
    fn all(x: S) -> Self;
    fn load(games: &Games<S>, part: usize) -> Self;
    fn store(self, games: &mut Games<S>, part: usize);
    fn plus(self, b: Self) -> Self;
    fn minus(self, b: Self) -> Self;
    fn times(self, b: Self) -> Self;
    /// `self * b + c`.
    fn times_plus(self, b: Self, c: Self) -> Self;
}

#[derive(Clone, Copy)]
struct Array<P, S, const N: usize>([S; N], PhantomData<P>);

impl<P: Processor, S: Float, const N: usize> Array<P, S, N> {
    #[inline(always)]
    fn new(numbers: [S; N]) -> Self {
        Array(numbers, PhantomData)
    }
}

impl<P: Processor, S: Float, const N: usize> Register<S> for Array<P, S, N> {
    const PARTS: usize = GAMES / N;
    #[inline(always)]
    fn all(x: S) -> Self {
        Self::new([x; N])
    }
    #[inline(always)]
    fn load(games: &Games<S>, part: usize) -> Self {
        Self::new(games.0.as_chunks().0[part])
    }
    #[inline(always)]
    fn store(self, games: &mut Games<S>, part: usize) {
        games.0.as_chunks_mut().0[part] = self.0;
    }
    #[inline(always)]
    fn plus(mut self, b: Self) -> Self {
        for l in 0..N {
            self.0[l] += b.0[l];
        }
        self
    }
    #[inline(always)]
    fn minus(mut self, b: Self) -> Self {
        for l in 0..N {
            self.0[l] = self.0[l] - b.0[l];
        }
        self
    }
    #[inline(always)]
    fn times(mut self, b: Self) -> Self {
        for l in 0..N {
            self.0[l] = self.0[l] * b.0[l];
        }
        self
    }
    #[inline(always)]
    fn times_plus(mut self, b: Self, c: Self) -> Self {
        for l in 0..N {
            self.0[l] = self.0[l].mul_add_if_fast::<P>(b.0[l], c.0[l]);
        }
        self
    }
}

/// Of a player: the mean of its factors, with it and without, and half their difference. Its factor is a polynomial in the
/// node.
type One<R> = [R; 2];

/// The product of the factors of two players.
type Two<R> = [R; 3];

#[inline(always)]
pub fn by_registers<S: Float, R: Register<S>>(
    rule: Option<&Rule>,
    round: Round<'_, S>,
    room: &mut [Four<S>],
    out: &mut [Games<S>],
) {
    let room = &mut room[..round.players.len()];
    for part in 0..R::PARTS {
        if let Some(Rule { pairs, middle }) = rule {
            let (some, all) = pairs.split_at((pairs.len() - 1) % PAIRS + 1);
            let last = all.len() / PAIRS;
            for (k, nodes) in once(some).chain(all.chunks(PAIRS)).enumerate() {
                // The node in the middle goes with the first ones.
                let middle = if k == 0 { *middle } else { None };
                let turn = Turn { part, middle, first: k == 0, last: k == last };
                match *nodes {
                    [a] => of_nodes::<S, R, 1>(turn, [a], round, room, out),
                    [a, b] => of_nodes::<S, R, 2>(turn, [a, b], round, room, out),
                    [a, b, c] => of_nodes::<S, R, 3>(turn, [a, b, c], round, room, out),
                    [a, b, c, d] => of_nodes::<S, R, PAIRS>(turn, [a, b, c, d], round, room, out),
                    _ => {}
                }
            }
        } else if let [first, second] = *round.players {
            let constant = R::load(round.constant, part);
            let one = polynomial::<S, R>(part, round, first);
            let other = polynomial::<S, R>(part, round, second);
            settle(part, round, first, integrals(constant, other), out);
            settle(part, round, second, integrals(constant, one), out);
        }
    }
}

/// Which numbers of the games, the weight of a node in the middle, and whether these nodes are the first ones and the last ones
/// of the rule. All of it is asked for at run time: a loop for each case took a tenth of the time in which the crate is built.
#[derive(Clone, Copy)]
struct Turn {
    part: usize,
    middle: Option<f64>,
    first: bool,
    last: bool,
}

#[inline(always)]
fn one<S: Float, R: Register<S>>(part: usize, round: Round<'_, S>, player: usize) -> One<R> {
    let p = R::load(&round.with[player], part);
    let q = R::load(&round.without[player], part);
    [p.plus(q), p.minus(q)]
}

#[inline(always)]
fn two<S: Float, R: Register<S>>(a: One<R>, b: One<R>) -> Two<R> {
    [a[0].times(b[0]), a[0].times_plus(b[1], a[1].times(b[0])), a[1].times(b[1])]
}

/// The product of the factors of four players.
#[inline(always)]
fn polynomial<S: Float, R: Register<S>>(
    part: usize,
    round: Round<'_, S>,
    [a, b, c, d]: [usize; 4],
) -> [R; 5] {
    let x: Two<R> = two(one(part, round, a), one(part, round, b));
    let y: Two<R> = two(one(part, round, c), one(part, round, d));
    [
        x[0].times(y[0]),
        x[0].times_plus(y[1], x[1].times(y[0])),
        x[0].times_plus(y[2], x[1].times_plus(y[1], x[2].times(y[0]))),
        x[1].times_plus(y[2], x[2].times(y[1])),
        x[2].times(y[2]),
    ]
}

/// The integrals over [-1, 1] of a polynomial times powers of the node: those of odd powers are 0.
#[inline(always)]
fn integrals<S: Float, R: Register<S>>(constant: R, coefs: [R; 5]) -> [R; 4] {
    let zeroth = constant.times(R::all(S::from_f64(2.0)));
    let second = constant.times(R::all(S::from_f64(2.0 / 3.0)));
    let fourth = constant.times(R::all(S::from_f64(2.0 / 5.0)));
    let sixth = constant.times(R::all(S::from_f64(2.0 / 7.0)));
    [
        coefs[0].times_plus(zeroth, coefs[2].times_plus(second, coefs[4].times(fourth))),
        coefs[1].times_plus(second, coefs[3].times(fourth)),
        coefs[0].times_plus(second, coefs[2].times_plus(fourth, coefs[4].times(sixth))),
        coefs[1].times_plus(fourth, coefs[3].times(sixth)),
    ]
}

/// Adds to the moments, for K pairs of nodes and the one in the middle; and the values, once nodes are the last.
/// What fits between a first and a last time is not stored: it is what bounds the time.
#[inline(always)]
fn of_nodes<S: Float, R: Register<S>, const K: usize>(
    Turn { part, middle, first, last }: Turn,
    nodes: [(f64, f64); K],
    round: Round<'_, S>,
    room: &mut [Four<S>],
    out: &mut [Games<S>],
) {
    let constant = R::load(round.constant, part);
    let zero = R::all(S::ZERO);
    let (mut at, mut minus, mut square, mut cube) = ([zero; K], [zero; K], [zero; K], [zero; K]);
    let mut product = [[zero; 2]; K];
    for k in 0..K {
        let (t, weight) = nodes[k];
        at[k] = R::all(S::from_f64(t));
        minus[k] = R::all(S::from_f64(-t));
        square[k] = R::all(S::from_f64(t * t));
        cube[k] = R::all(S::from_f64(t * t * t));
        product[k] = [constant.times(R::all(S::from_f64(weight))); 2];
    }
    let mut product_0 = zero;
    if let Some(weight) = middle {
        product_0 = constant.times(R::all(S::from_f64(weight)));
    }
    for (four, room) in round.players.iter().zip(room.iter_mut()) {
        let mut coefs = [zero; 5];
        if first {
            coefs = polynomial(part, round, *four);
            // The first one is of use on the way back.
            for k in 0..if last { usize::from(middle.is_some()) } else { 5 } {
                coefs[k].store(&mut room.coefs[k], part);
            }
        } else {
            for k in 0..5 {
                coefs[k] = R::load(&room.coefs[k], part);
            }
        }
        for k in 0..K {
            let even = coefs[4].times_plus(square[k], coefs[2]).times_plus(square[k], coefs[0]);
            let odd = coefs[3].times_plus(square[k], coefs[1]);
            let own = [odd.times_plus(at[k], even), odd.times_plus(minus[k], even)];
            for s in 0..2 {
                product[k][s].store(&mut room.before[k][s], part);
                own[s].store(&mut room.own[k][s], part);
                product[k][s] = product[k][s].times(own[s]);
            }
        }
        if middle.is_some() {
            product_0.store(&mut room.middle, part);
            product_0 = product_0.times(coefs[0]);
        }
    }
    // Of what comes after, from the last ones on.
    let unit = R::all(S::UNIT);
    let (mut product, mut product_0) = ([[unit; 2]; K], unit);
    for (four, room) in round.players.iter().zip(room.iter_mut()).rev() {
        let mut moments = [zero; 4];
        if !first {
            for k in 0..4 {
                moments[k] = R::load(&room.moments[k], part);
            }
        }
        if middle.is_some() {
            moments[0] = R::load(&room.middle, part).times_plus(product_0, moments[0]);
            product_0 = product_0.times(R::load(&room.coefs[0], part));
        }
        for k in 0..K {
            let up = R::load(&room.before[k][0], part).times(product[k][0]);
            let down = R::load(&room.before[k][1], part).times(product[k][1]);
            let (even, odd) = (up.plus(down), up.minus(down));
            moments[0] = moments[0].plus(even);
            moments[1] = odd.times_plus(at[k], moments[1]);
            moments[2] = even.times_plus(square[k], moments[2]);
            moments[3] = odd.times_plus(cube[k], moments[3]);
            for s in 0..2 {
                product[k][s] = product[k][s].times(R::load(&room.own[k][s], part));
            }
        }
        if last {
            settle(part, round, *four, moments, out);
        } else {
            for k in 0..4 {
                moments[k].store(&mut room.moments[k], part);
            }
        }
    }
}

/// Adds the values of four players, given the moments of the product of all others' factors.
#[inline(always)]
fn settle<S: Float, R: Register<S>>(
    part: usize,
    round: Round<'_, S>,
    [a, b, c, d]: [usize; 4],
    moments: [R; 4],
    out: &mut [Games<S>],
) {
    let (of_a, of_b) = (one(part, round, a), one(part, round, b));
    let (of_c, of_d) = (one(part, round, c), one(part, round, d));
    let rest: One<R> = less(moments, two(of_c, of_d));
    share(part, of_a, of_b, rest, &mut out[a]);
    share(part, of_b, of_a, rest, &mut out[b]);
    let rest: One<R> = less(moments, two(of_a, of_b));
    share(part, of_c, of_d, rest, &mut out[c]);
    share(part, of_d, of_c, rest, &mut out[d]);
}

/// The first two moments of the product of what these are of and the factors of two more.
#[inline(always)]
fn less<S: Float, R: Register<S>>(moments: [R; 4], two: Two<R>) -> [R; 2] {
    let even = two[1].times_plus(moments[1], two[0].times(moments[0]));
    let odd = two[1].times_plus(moments[2], two[0].times(moments[1]));
    [two[2].times_plus(moments[2], even), two[2].times_plus(moments[3], odd)]
}

/// Adds the value of a player, given the factor of one more and the moments of all others' product.
#[inline(always)]
fn share<S: Float, R: Register<S>>(
    part: usize,
    own: One<R>,
    more: One<R>,
    rest: [R; 2],
    out: &mut Games<S>,
) {
    let others = more[0].times_plus(rest[0], more[1].times(rest[1]));
    own[1].times_plus(others, R::load(out, part)).store(out, part);
}
