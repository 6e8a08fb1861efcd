//! The bodies that training on a budget needs: what every support vector, or every example of a panel,
//! must be asked at once. As in `body.rs`, written once and compiled for every level.

#![allow(clippy::needless_range_loop, reason = "lanes of several arrays at a time")]

use super::body::{LANES, Lanes, WIDTH};
use super::float::{Float, Processor};

#[inline(always)]
pub fn gaussian<P: Processor, S: Float>(
    _: P,
    gamma: f64,
    zz: &[S],
    xx: &[S; WIDTH],
    block: &mut [Lanes<S>],
    distances: &mut [Lanes<S>],
) {
    let (minus_gamma, minus_two) = (S::finite_from_f64(-gamma), S::from_f64(-2.0));
    for ((zz, values), distances) in zz.iter().zip(block).zip(distances) {
        for l in 0..WIDTH {
            let distance = minus_two.mul_add_if_fast::<P>(values.0[l], xx[l] + *zz);
            let distance = distance.at_least(S::ZERO);
            distances.0[l] = distance;
            values.0[l] = (minus_gamma * distance).exp::<P>();
        }
    }
}

#[inline(always)]
pub fn lift<P: Processor, S: Float>(
    _: P,
    c: f64,
    coef: &[f64],
    k: &Lanes<S>,
    scores: &mut [Lanes<S>],
) {
    for (coef, scores) in coef.iter().zip(scores) {
        if *coef == 0.0 {
            continue;
        }
        let coef = S::from_f64(c * *coef);
        for l in 0..WIDTH {
            scores.0[l] = coef.mul_add_if_fast::<P>(k.0[l], scores.0[l]);
        }
    }
}

#[inline(always)]
pub fn mix<P: Processor, S: Float>(
    _: P,
    coef: &[(usize, f64)],
    w: &[S],
    stride: usize,
    out: &mut [S],
) {
    for (at, out) in out.chunks_exact_mut(WIDTH).enumerate() {
        let mut sum = [S::ZERO; WIDTH];
        for (o, coef) in coef {
            let coef = S::from_f64(*coef);
            let w = &w[o * stride + at * WIDTH..][..WIDTH];
            for l in 0..WIDTH {
                sum[l] = coef.mul_add_if_fast::<P>(w[l], sum[l]);
            }
        }
        out.copy_from_slice(&sum);
    }
}

#[inline(always)]
pub fn between<P: Processor, S: Float>(
    _: P,
    h: f64,
    to_m: &[S],
    to_n: &[S],
    apart: f64,
    out: &mut [S],
) {
    let (g, less) = (S::from_f64(1.0 - h), S::from_f64(-h * (1.0 - h) * apart));
    let h = S::from_f64(h);
    for ((m, n), out) in to_m.iter().zip(to_n).zip(out) {
        let distance = h.mul_add_if_fast::<P>(*m, g.mul_add_if_fast::<P>(*n, less));
        *out = distance.at_least(S::ZERO);
    }
}

/// Newton's steps towards the best place of a merger: two leave 99% of the degradations within 1e-5 of the
/// least and all within 1%, by trials over the range of all three arguments.
const NEWTON: usize = 2;

/// As good as any larger `-ln kappa`: so far apart that nothing is gained.
const FURTHEST: f64 = 40.0;

/// For vectors n, by how much w degrades if they are merged with a vector m whose coefficients are no larger:
/// `||dw||^2 / A` at the best place between the two, `A = ||a_m||^2`; given `L = -ln k(x_m, x_n)`, `||a_n||^2 / A`
/// and `<a_m, a_n> / A`. See `budget/merge.rs` for the derivation.
#[inline(always)]
fn merge_costs<P: Processor, S: Float>(
    log: &[S; LANES],
    ratio: &[S; LANES],
    cross: &[S; LANES],
) -> [S; LANES] {
    let (one, two, four) = (S::UNIT, S::from_f64(2.0), S::from_f64(4.0));
    let tiny = S::from_f64(1e-6);
    let (steep, half) = (S::from_f64(0.05), S::from_f64(0.5));
    // Stage by stage, so that each is a plain loop that the compiler turns into vectors. Not by `from_fn`: in a crate of several
    // units its closure is a function of its own, of no level, where a fused multiply-add is a library call.
    let mut r = [one; LANES];
    for k in 0..LANES {
        r[k] = (one / ratio[k]).sqrt();
    }
    let mut x = [one; LANES];
    for _ in 0..NEWTON {
        for k in 0..LANES {
            let q = r[k] * (-log[k] * x[k]).exp::<P>();
            let q2 = q * q;
            let sum = one + q2;
            let turn = two * cross[k] * r[k] * q;
            let whole = (sum + turn).at_least(tiny);
            let square = whole * whole;
            let slope = square - log[k] * (four * q2 + turn * sum);
            let slope = slope.at_least(steep * square);
            let next = x[k] - (x[k] * whole - (one - q2)) * whole / slope;
            x[k] = next.at_most(one).at_least(S::ZERO);
        }
    }
    let mut costs = [one; LANES];
    for k in 0..LANES {
        let q = r[k] * (-log[k] * x[k]).exp::<P>();
        let rho = cross[k] * r[k];
        let whole = (one + q * q + two * rho * q).at_least(tiny);
        let h = (q * (q + rho) / whole).at_least(S::ZERO).at_most(half);
        let g = one - h;
        let (of_m, of_n) = (g * g, h * h);
        let twice = -two * log[k];
        let gone_m = (twice * of_m).exp_m1::<P>();
        let gone_n = (twice * of_n).exp_m1::<P>();
        let lost = (twice * h * g).exp_m1::<P>();
        let both = (-log[k] * (of_m + of_n)).exp::<P>();
        costs[k] = two * cross[k] * both * lost - gone_m - gone_n * ratio[k];
    }
    costs
}

/// Of all vectors, what it takes to merge one of them, m, with another.
#[derive(Clone, Copy)]
pub struct Partners<'a, S> {
    pub gamma: f64,
    /// Its coefficients are no larger than any other's.
    pub m: usize,
    /// The squared distances to m.
    pub distances: &'a [S],
    /// The squared norms of the coefficients; infinite where there is no vector.
    pub sizes: &'a [f64],
    /// The products of the coefficients with those of m.
    pub crosses: &'a [S],
}

/// For vectors n, bounds from below for what [`merge_costs`] gives; returns the n with the least.
///
/// Of `a_m = rho r a_n + rest`, with `r = ||a_m|| / ||a_n||`, a merger at h degrades the first part as one of a single
/// output, and the rest by `1 - u^2`. The first costs, of `rho^2`, at least `(1 - (1 + 2 L) kappa^2)/(1 + rho r
/// sqrt(kappa))^2` where rho > 0, right where L is small and where r is, and at worst 0.6 of what it does; else exactly
/// `1 - kappa^2`. The rest costs the less the larger h is, and h is at most what it is for L = 0; of `1 - kappa^t`, with `t
/// = 2 (1 - h)^2`, chords between t = 1/2, 1 and 2 are a bound that takes no exponential. A test has the figures.
#[inline(always)]
pub fn bounds<P: Processor, S: Float>(p: P, of: Partners<'_, S>, bounds: &mut [S]) -> usize {
    let Partners { gamma, m, distances, sizes, crosses } = of;
    let (one, two, half) = (S::UNIT, S::from_f64(2.0), S::from_f64(0.5));
    let (gamma, inverse) = (S::finite_from_f64(gamma), 1.0 / sizes[m]);
    let (small, most, tiny) = (S::from_f64(inverse), S::from_f64(FURTHEST), S::from_f64(1e-6));
    let infinite = S::from_f64(f64::INFINITY);
    let len = bounds.len();
    let (distances, sizes, crosses) = (&distances[..len], &sizes[..len], &crosses[..len]);
    // Apart, as a loop with numbers of two widths takes half as many at a time.
    for k in 0..len {
        bounds[k] = S::from_f64(sizes[k] * inverse);
    }
    for k in 0..len {
        let log = (gamma * distances[k]).at_most(most);
        // sqrt(kappa) - 1, of which all else is made, so that nothing cancels.
        let less = (-half * log).exp_m1::<P>();
        let root = one + less;
        let kappa = root * root;
        let gone_1 = -less * (one + root);
        let gone_2 = gone_1 * (one + kappa);
        let (r2, cross) = (one / bounds[k], crosses[k] * small);
        let along = cross * r2;
        let with = one + along.at_least(S::ZERO) * root;
        // One division for both.
        let (with, whole) = (with * with, (one + r2 + two * along).at_least(tiny));
        let inverse = one / (with * whole);
        let near = (gone_2 - two * log * (kappa * kappa)) * (whole * inverse);
        let alike = if along > S::ZERO { near } else { gone_2 };
        let h = (r2 + along) * (with * inverse);
        let g = one - h.at_least(S::ZERO).at_most(half);
        let beyond = two * g * g - one;
        let (up, down) = (gone_2 - gone_1, two * (gone_1 + less));
        let rest = gone_1 + (beyond * up).at_most(beyond * down);
        let part = (cross * along).at_most(one);
        let bound = part * alike + (one - part) * rest;
        bounds[k] = if r2 > S::ZERO { bound } else { infinite };
    }
    bounds[m] = infinite;
    let n = least(p, bounds);
    if bounds[n] < infinite { n } else { m }
}

/// The vector whose merger with m costs less than this, over `||a_m||^2`, of those whose bounds let hope for it, and
/// least; the n that was given if there is none.
#[inline(always)]
pub fn cheaper<P: Processor, S: Float>(
    _: P,
    of: Partners<'_, S>,
    (n, cost): (usize, f64),
    bounds: &mut [S],
) -> usize {
    let Partners { gamma, m, distances, sizes, crosses } = of;
    let (most, gamma, inverse) = (S::from_f64(FURTHEST), S::finite_from_f64(gamma), 1.0 / sizes[m]);
    let small = S::from_f64(inverse);
    let (mut best, mut cost) = (n, S::from_f64(cost));
    bounds[n] = S::from_f64(f64::INFINITY);
    let (mut which, mut count) = ([0; 2 * LANES], 0);
    let (mut log, mut ratio, mut cross) = ([S::ZERO; LANES], [S::UNIT; LANES], [S::ZERO; LANES]);
    let mut groups = bounds.chunks_exact(LANES).enumerate();
    loop {
        while count < LANES
            && let Some((at, bounds)) = groups.next()
        {
            // Most groups have none.
            if bounds.iter().fold(false, |any, bound| any | (*bound < cost)) {
                for (l, bound) in bounds.iter().enumerate() {
                    if *bound < cost {
                        which[count] = at * LANES + l;
                        count += 1;
                    }
                }
            }
        }
        if count == 0 {
            return best;
        }
        let now = count.min(LANES);
        for (slot, &n) in which[..now].iter().enumerate() {
            log[slot] = (gamma * distances[n]).at_most(most);
            ratio[slot] = S::from_f64(sizes[n] * inverse);
            cross[slot] = crosses[n] * small;
        }
        let costs = merge_costs::<P, S>(&log, &ratio, &cross);
        for (&n, &this) in which[..now].iter().zip(&costs) {
            if this < cost {
                (best, cost) = (n, this);
            }
        }
        which.copy_within(now..count, 0);
        count -= now;
    }
}

/// The first of the least of every [`LANES`]-th value, infinity if all are NaN, and in which group it stands.
#[inline(always)]
fn least_of_lanes<S: Float>(values: &[S]) -> ([S; LANES], [u32; LANES]) {
    let mut least = [S::from_f64(f64::INFINITY); LANES];
    let mut group = [0; LANES];
    for (number, values) in (0..).zip(values.chunks_exact(LANES)) {
        for l in 0..LANES {
            let less = values[l] < least[l];
            least[l] = if less { values[l] } else { least[l] };
            group[l] = if less { number } else { group[l] };
        }
    }
    (least, group)
}

#[inline(always)]
pub fn least<P: Processor, S: Float>(_: P, values: &[S]) -> usize {
    let (best, group) = least_of_lanes(values);
    let mut first = 0;
    for l in 1..LANES {
        let sooner = best[l] == best[first] && group[l] < group[first];
        if best[l] < best[first] || sooner {
            first = l;
        }
    }
    group[first] as usize * LANES + first
}

#[inline(always)]
pub fn update_and_multiply<P: Processor, S: Float>(
    _: P,
    q: &mut [S],
    plus: &[S],
    minus: &[S],
    k: &[S],
    out: &mut [S],
) {
    out.fill(S::ZERO);
    let mut rest = q;
    for i in 0..k.len() {
        let (row, after) = rest.split_at_mut(i + 1);
        rest = after;
        let (p, m, k_i) = (plus[i], -minus[i], k[i]);
        let mut sum = [S::ZERO; LANES];
        let (head, tail) = row.split_at_mut(i / LANES * LANES);
        let start = head.len();
        for (at, row) in head.chunks_exact_mut(LANES).enumerate() {
            let span = at * LANES..(at + 1) * LANES;
            let (plus, minus) = (&plus[span.clone()], &minus[span.clone()]);
            let (k, out) = (&k[span.clone()], &mut out[span]);
            for l in 0..LANES {
                let value = p.mul_add_if_fast::<P>(plus[l], row[l]);
                let value = m.mul_add_if_fast::<P>(minus[l], value);
                row[l] = value;
                sum[l] = value.mul_add_if_fast::<P>(k[l], sum[l]);
                out[l] = value.mul_add_if_fast::<P>(k_i, out[l]);
            }
        }
        let mut total = sum[1..].iter().fold(sum[0], |total, sum| total + *sum);
        for (j, value) in (start..).zip(tail) {
            *value += p * plus[j] + m * minus[j];
            total += *value * k[j];
            if j < i {
                out[j] += *value * k_i;
            }
        }
        out[i] += total;
    }
}
