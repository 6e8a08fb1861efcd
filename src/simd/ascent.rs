//! The bodies that dual ascent with kernels needs: what every example of a working set must be asked, or told, at once.
//! As in `body.rs`, written once and compiled for every level.

#![allow(clippy::needless_range_loop, reason = "lanes of several arrays at a time")]

use std::array::from_fn;

use super::body::{LANES, WIDTH};
use super::float::{Float, Processor};

/// Parts of the entries, lane by lane, of each of which [`descend`] finds the best; and the most rows that it takes. Where
/// it looks both ways, there are half as many parts, and of each it finds the best to rise and the best to fall: where none
/// gains by going that way, the one with the smallest slope against it, of those whose bounds let them.
pub const CANDIDATES: usize = 4;

/// What a pass of [`descend`] has found.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Steepest {
    /// Of each part the entry whose step promises most.
    pub at: [usize; CANDIDATES],
    /// How much, up to a factor between 1/2 and 1; of one that goes against its slope that slope, negated, and minus infinity
    /// where there is none.
    pub gain: [f64; CANDIDATES],
    /// The sum of all entries' shares in the gap.
    pub gap: f64,
}

#[inline(always)]
pub fn descend<P: Processor, S: Float>(
    p: P,
    c: &[f64],
    rows: &[&[S]],
    g: &mut [f64],
    entries: [&[f32]; 3],
    both: bool,
) -> Steepest {
    debug_assert!(rows.len() <= CANDIDATES, "{} rows", rows.len());
    match (rows.len(), both) {
        (0, false) => descend_by::<P, S, 0, 1>(p, c, rows, g, entries),
        (1, false) => descend_by::<P, S, 1, 1>(p, c, rows, g, entries),
        (2, false) => descend_by::<P, S, 2, 1>(p, c, rows, g, entries),
        (3, false) => descend_by::<P, S, 3, 1>(p, c, rows, g, entries),
        (_, false) => descend_by::<P, S, CANDIDATES, 1>(p, c, rows, g, entries),
        (0, true) => descend_by::<P, S, 0, 2>(p, c, rows, g, entries),
        (1, true) => descend_by::<P, S, 1, 2>(p, c, rows, g, entries),
        (2, true) => descend_by::<P, S, 2, 2>(p, c, rows, g, entries),
        (3, true) => descend_by::<P, S, 3, 2>(p, c, rows, g, entries),
        (_, true) => descend_by::<P, S, CANDIDATES, 2>(p, c, rows, g, entries),
    }
}

/// `N` rows, in one pass, with an eye on `W` ways to step.
#[inline(always)]
fn descend_by<P: Processor, S: Float, const N: usize, const W: usize>(
    _: P,
    c: &[f64],
    rows: &[&[S]],
    g: &mut [f64],
    [a, inverse, weight]: [&[f32]; 3],
) -> Steepest {
    let mut best = [[f64::NEG_INFINITY; LANES]; W];
    // In which group of lanes; as a float, so that it is chosen by the same comparison.
    let mut group = [[0.0_f64; LANES]; W];
    let mut gap = [0.0_f64; LANES];
    let len = g.len();
    let c: [f64; N] = from_fn(|i| c[i]);
    let rows: [&[S]; N] = from_fn(|i| &rows[i][..len]);
    let (a, inverse, weight) = (&a[..len], &inverse[..len], &weight[..len]);
    let mut number = 0.0;
    for at in (0..len).step_by(LANES) {
        let g = &mut g[at..at + LANES];
        let rows = rows.map(|row| &row[at..at + LANES]);
        let (a, inverse) = (&a[at..at + LANES], &inverse[at..at + LANES]);
        let weight = &weight[at..at + LANES];
        for l in 0..LANES {
            let mut slope = g[l];
            for i in 0..N {
                slope = rows[i][l].widen().mul_add_if_fast::<P>(-c[i], slope);
            }
            g[l] = slope;
            let (a, weight) = (f64::from(a[l]), f64::from(weight[l]));
            let low = if weight < 0.0 { -1.0 } else { 0.0 };
            let weight = weight.abs();
            let to = slope.mul_add_if_fast::<P>(f64::from(inverse[l]), a);
            let to = to.at_least(low).at_most(low + 1.0);
            let gain = weight * (to - a) * slope;
            let wanted = if slope > 0.0 { low + 1.0 } else { low };
            gap[l] = weight.mul_add_if_fast::<P>(slope * (wanted - a), gap[l]);
            for way in 0..W {
                // Against its slope it loses about as much as that is.
                let along = if way == 0 { slope } else { -slope };
                let room = if way == 0 { low + 1.0 - a } else { a - low };
                let value = if W == 1 || along > 0.0 { gain } else { along };
                let can = W == 1 || weight * room > 0.0;
                let value = if can { value } else { f64::NEG_INFINITY };
                let more = value > best[way][l];
                best[way][l] = if more { value } else { best[way][l] };
                group[way][l] = if more { number } else { group[way][l] };
            }
        }
        number += 1.0;
    }
    let mut found = Steepest { gap: gap.iter().sum(), ..Steepest::default() };
    let parts = CANDIDATES / W;
    for part in 0..CANDIDATES {
        let (best, group) = (&best[part / parts], &group[part / parts]);
        let mut most = part % parts;
        for l in (part % parts..LANES).step_by(parts) {
            let first = best[l] == best[most] && group[l] < group[most];
            if best[l] > best[most] || first {
                most = l;
            }
        }
        found.at[part] = group[most] as usize * LANES + most;
        found.gain[part] = best[most];
    }
    found
}

/// Rows that are gone through side by side: so many that columns are read and written seldom, and so few that the
/// processor sees each of them coming.
const AT_ONCE: usize = 16;

#[inline(always)]
pub fn add_rows<P: Processor, S: Float>(_: P, coef: &[f64], rows: &[&[S]], out: &mut [f64]) {
    const TOGETHER: usize = 2 * WIDTH;
    for (coef, rows) in coef.chunks(AT_ONCE).zip(rows.chunks(AT_ONCE)) {
        let mut at = 0;
        while at + TOGETHER <= out.len() {
            add_columns::<P, S, TOGETHER>(coef, rows, at, out);
            at += TOGETHER;
        }
        while at < out.len() {
            add_columns::<P, S, WIDTH>(coef, rows, at, out);
            at += WIDTH;
        }
    }
}

/// `N` columns, whose sums stay in registers.
#[inline(always)]
fn add_columns<P: Processor, S: Float, const N: usize>(
    coef: &[f64],
    rows: &[&[S]],
    at: usize,
    out: &mut [f64],
) {
    let out = &mut out[at..at + N];
    let mut sum = [0.0; N];
    sum.copy_from_slice(out);
    for (coef, row) in coef.iter().zip(rows) {
        let row = &row[at..at + N];
        for l in 0..N {
            sum[l] = row[l].widen().mul_add_if_fast::<P>(*coef, sum[l]);
        }
    }
    out.copy_from_slice(&sum);
}

#[inline(always)]
pub fn shares<P: Processor, S: Float>(
    _: P,
    scores: &[S],
    dual: &[S],
    stride: usize,
    labels: &[S],
    out: &mut [S],
) {
    let outputs = scores.len() / stride;
    let (labels, _) = labels.as_chunks::<LANES>();
    let (out, _) = out.as_chunks_mut::<LANES>();
    for (block, (labels, out)) in labels.iter().zip(out).enumerate() {
        let (mut own, mut cross) = ([S::ZERO; LANES], [S::ZERO; LANES]);
        let least = S::from_f64(f64::NEG_INFINITY);
        let mut most = [least; LANES];
        let mut number = S::ZERO;
        for o in 0..outputs {
            let place = o * stride + block * LANES;
            let (scores, dual) = (&scores[place..place + LANES], &dual[place..place + LANES]);
            for l in 0..LANES {
                let mine = labels[l] == number;
                let (score, a) = (scores[l], dual[l]);
                most[l] = most[l].at_least(if mine { least } else { score });
                own[l] = if mine { score } else { own[l] };
                cross[l] = a.mul_add_if_fast::<P>(score, cross[l]) - if mine { a } else { S::ZERO };
            }
            number += S::UNIT;
        }
        for l in 0..LANES {
            out[l] = (S::UNIT + most[l] - own[l]).at_least(S::ZERO) + cross[l];
        }
    }
}
