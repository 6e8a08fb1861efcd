//! The bodies behind Shapley values: games whose worth is a product over the players, [`GAMES`] of them side by side. As in
//! `body.rs`, written once and compiled for every level; `shapley.rs` says what they are for.

#![allow(clippy::needless_range_loop, reason = "lanes of several arrays at a time")]

use super::body::{Float, Processor};

/// Games side by side: one AVX-512 register of f64.
pub const GAMES: usize = 8;

/// Nodes at a time, so that factors are read once for several products. Two took 1.2 times as long, one 1.6, sixteen games
/// side by side no less (AVX2 and AVX-512, 30 players).
pub const NODES: usize = 4;

/// What a player multiplies the worth of each game by: `value = e^(-power)`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Factor<S> {
    pub power: [S; GAMES],
    pub value: [S; GAMES],
}

/// A player who is not the same to all games: what the worth is multiplied by without it, and by how much more with it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Player<S> {
    pub number: usize,
    pub without: [S; GAMES],
    pub more: [S; GAMES],
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

/// What comes before a player, for each of the nodes.
pub type Before<S> = [[S; GAMES]; NODES];

#[inline(always)]
pub fn factors<P: Processor, S: Float>(
    _: P,
    gamma: f64,
    x: &[f64],
    z: &[[S; GAMES]],
    out: &mut [Factor<S>],
) {
    let gamma = S::from_f64(gamma);
    for ((x, z), out) in x.iter().zip(z).zip(out) {
        let x = S::from_f64(*x);
        for l in 0..GAMES {
            let apart = x - z[l];
            out.power[l] = gamma * apart * apart;
            out.value[l] = (-out.power[l]).exp::<P>();
        }
    }
}

#[inline(always)]
pub fn contrast<P: Processor, S: Float>(
    _: P,
    with: &[Factor<S>],
    without: &[Factor<S>],
    out: &mut [Player<S>],
) -> Contrast<S> {
    let (mut players, mut constant) = (0, [S::UNIT; GAMES]);
    let (mut change, mut depth) = ([S::ZERO; GAMES], [S::ZERO; GAMES]);
    for (number, (with, without)) in with.iter().zip(without).enumerate() {
        let mut differ = false;
        for l in 0..GAMES {
            differ |= with.value[l] != without.value[l];
        }
        for l in 0..GAMES {
            let (a, b) = (with.power[l], without.power[l]);
            depth[l] += if a < b { a } else { b };
        }
        if !differ {
            for l in 0..GAMES {
                constant[l] = constant[l] * without.value[l];
            }
            continue;
        }
        let Some(player) = out.get_mut(players) else { break };
        players += 1;
        player.number = number;
        for l in 0..GAMES {
            player.without[l] = without.value[l];
            player.more[l] = with.value[l] - without.value[l];
            // 1 - e^(-u) <= min(u, 1).
            let apart = with.power[l] - without.power[l];
            let apart = if apart < S::ZERO { -apart } else { apart };
            change[l] += apart.at_most(S::UNIT);
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
        let at = nodes.map(|(t, _)| S::from_f64(t));
        let mut product = nodes.map(|(_, weight)| constant.map(|c| c * S::from_f64(weight)));
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
