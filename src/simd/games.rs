//! The bodies behind Shapley values: games whose worth is a product over the players, [`GAMES`] of them side by side. As in
//! `body.rs`, written once and compiled for every level; `shapley.rs` says what they are for.

#![allow(clippy::needless_range_loop, reason = "lanes of several arrays at a time")]

use super::body::{Float, Processor, exp};

/// Games side by side: one AVX-512 register of f64.
pub const GAMES: usize = 8;

/// Nodes at a time, so that factors are read once for several products. Two took 1.2 times as long, one 1.6, sixteen games
/// side by side no less (AVX2 and AVX-512, 30 players).
pub const NODES: usize = 4;

/// What players multiply the worth of each game by: `value = e^(-power)`.
#[derive(Clone, Copy, Debug)]
pub struct Factors<'a, S> {
    pub power: &'a [[S; GAMES]],
    pub value: &'a [[S; GAMES]],
}

/// A player who is not the same to all games: what the worth is multiplied by without it, and by how much more with it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Player<S> {
    pub without: [S; GAMES],
    pub more: [S; GAMES],
    pub number: usize,
}

/// How far worths change, and how large they are.
#[derive(Clone, Copy, Debug)]
pub struct Contrast<S> {
    /// How many players make a difference.
    pub players: usize,
    /// The product of the factors of all others.
    pub constant: [S; GAMES],
    /// What the sum of `|with - without| / max(with, without)` over the players does not exceed in any game.
    pub change: S,
    /// `-ln` of the largest product, over the games, of the larger factors of all players.
    pub depth: S,
}

/// Points of `[0, 1]`, and their weights.
pub type Nodes = [(f64, f64); NODES];

/// The product of what comes before a player, for each of the nodes.
pub type Before<S> = [[S; GAMES]; NODES];

#[inline(always)]
pub fn factors<P: Processor, S: Float>(
    p: P,
    gamma: f64,
    x: &[f64],
    z: &[[S; GAMES]],
    power: &mut [[S; GAMES]],
    value: &mut [[S; GAMES]],
) {
    let gamma = S::from_f64(gamma);
    for ((x, z), (power, value)) in x.iter().zip(z).zip(power.iter_mut().zip(value.iter_mut())) {
        let x = S::from_f64(*x);
        for l in 0..GAMES {
            let apart = x - z[l];
            power[l] = gamma * apart * apart;
            value[l] = -power[l];
        }
    }
    exp(p, value.as_flattened_mut());
}

#[inline(always)]
pub fn contrast<P: Processor, S: Float>(
    _: P,
    with: Factors<'_, S>,
    without: Factors<'_, S>,
    out: &mut [Player<S>],
) -> Contrast<S> {
    let (mut players, mut constant) = (0, [S::UNIT; GAMES]);
    let (mut change, mut depth) = ([S::ZERO; GAMES], [S::ZERO; GAMES]);
    let powers = with.power.iter().zip(without.power);
    let values = with.value.iter().zip(without.value);
    for (number, ((a, b), (p, q))) in powers.zip(values).enumerate() {
        let mut more = [S::ZERO; GAMES];
        for l in 0..GAMES {
            depth[l] += if a[l] < b[l] { a[l] } else { b[l] };
            // 1 - e^(-u) <= min(u, 1).
            let apart = a[l] - b[l];
            let apart = if apart < S::ZERO { -apart } else { apart };
            change[l] += apart.at_most(S::UNIT);
            more[l] = p[l] - q[l];
        }
        let mut differ = false;
        for l in 0..GAMES {
            differ |= more[l] != S::ZERO;
        }
        if differ {
            let Some(player) = out.get_mut(players) else { break };
            *player = Player { without: *q, more, number };
            players += 1;
        } else {
            for l in 0..GAMES {
                constant[l] = constant[l] * q[l];
            }
        }
    }
    let mut found = Contrast { players, constant, change: change[0], depth: depth[0] };
    for l in 1..GAMES {
        found.change = found.change.at_least(change[l]);
        found.depth = found.depth.at_most(depth[l]);
    }
    found
}

#[inline(always)]
pub fn integrate<P: Processor, S: Float>(
    _: P,
    nodes: &[Nodes],
    constant: &[S; GAMES],
    players: &[Player<S>],
    before: &mut [Before<S>],
    out: &mut [[S; GAMES]],
) {
    let before = &mut before[..players.len()];
    for nodes in nodes {
        let mut at = [S::ZERO; NODES];
        let mut product = [*constant; NODES];
        for n in 0..NODES {
            at[n] = S::from_f64(nodes[n].0);
            let weight = S::from_f64(nodes[n].1);
            for l in 0..GAMES {
                product[n][l] = product[n][l] * weight;
            }
        }
        for (player, before) in players.iter().zip(before.iter_mut()) {
            *before = product;
            for n in 0..NODES {
                for l in 0..GAMES {
                    let factor = player.more[l].mul_add_if_fast::<P>(at[n], player.without[l]);
                    product[n][l] = product[n][l] * factor;
                }
            }
        }
        let mut product = [[S::UNIT; GAMES]; NODES];
        for (player, before) in players.iter().zip(before.iter()).rev() {
            let mut sum = [S::ZERO; GAMES];
            for n in 0..NODES {
                for l in 0..GAMES {
                    sum[l] = before[n][l].mul_add_if_fast::<P>(product[n][l], sum[l]);
                    let factor = player.more[l].mul_add_if_fast::<P>(at[n], player.without[l]);
                    product[n][l] = product[n][l] * factor;
                }
            }
            let out = &mut out[player.number];
            for l in 0..GAMES {
                out[l] = player.more[l].mul_add_if_fast::<P>(sum[l], out[l]);
            }
        }
    }
}
