//! The bodies that dual ascent with kernels needs: what every example of a working set must be asked, or told, at once.
//! As in `body.rs`, written once and compiled for every level.

#![allow(clippy::needless_range_loop, reason = "lanes of several arrays at a time")]

use super::body::{Float, LANES, Processor, WIDTH};

/// What a pass of [`descend`] has found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steepest {
    /// The entry whose step promises most.
    pub at: usize,
    /// How much, up to a factor between 1/2 and 1.
    pub gain: f64,
    /// The sum of all entries' shares in the gap.
    pub gap: f64,
}

#[inline(always)]
pub fn descend<P: Processor, S: Float>(
    _: P,
    c: f64,
    row: &[S],
    g: &mut [f64],
    a: &[f32],
    inverse: &[f32],
    weight: &[f32],
) -> Steepest {
    let mut best = [-1.0_f64; LANES];
    // In which group of lanes; as a float, so that it is chosen by the same comparison.
    let mut group = [0.0_f64; LANES];
    let mut gap = [0.0_f64; LANES];
    let len = g.len();
    let (row, a, inverse, weight) = (&row[..len], &a[..len], &inverse[..len], &weight[..len]);
    let mut number = 0.0;
    for at in (0..len).step_by(LANES) {
        let (row, g) = (&row[at..at + LANES], &mut g[at..at + LANES]);
        let (a, inverse) = (&a[at..at + LANES], &inverse[at..at + LANES]);
        let weight = &weight[at..at + LANES];
        for l in 0..LANES {
            let slope = row[l].widen().mul_add_if_fast::<P>(-c, g[l]);
            g[l] = slope;
            let (a, weight) = (f64::from(a[l]), f64::from(weight[l]));
            let low = if weight < 0.0 { -1.0 } else { 0.0 };
            let weight = weight.abs();
            let to = slope.mul_add_if_fast::<P>(f64::from(inverse[l]), a);
            let to = to.at_least(low).at_most(low + 1.0);
            let gain = weight * (to - a) * slope;
            let wanted = if slope > 0.0 { low + 1.0 } else { low };
            gap[l] = weight.mul_add_if_fast::<P>(slope * (wanted - a), gap[l]);
            let more = gain > best[l];
            best[l] = if more { gain } else { best[l] };
            group[l] = if more { number } else { group[l] };
        }
        number += 1.0;
    }
    let (mut most, mut sum) = (0, 0.0);
    for l in 0..LANES {
        sum += gap[l];
        let first = best[l] == best[most] && group[l] < group[most];
        if best[l] > best[most] || first {
            most = l;
        }
    }
    Steepest { at: group[most] as usize * LANES + most, gain: best[most], gap: sum }
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
