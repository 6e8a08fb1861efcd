//! Merging: two support vectors become one between them. Gaussian kernels only.
//!
//! * Problem: replace `a_m phi(x_m) + a_n phi(x_n)` by `a_z phi(z)` with `z = h x_m + (1 - h) x_n` so that w
//!   degrades least (Wang, Crammer and Vucetic 2010, section 4.3). With `kappa = k(x_m, x_n) = e^-L`,
//!   `u = kappa^((1-h)^2)`, `v = kappa^(h^2)`, the best coefficients are `a_z = a_m u + a_n v` (their
//!   equation 22), and with `A = ||a_m||^2 <= B = ||a_n||^2`, `C = <a_m, a_n>` over the classes
//!
//!   ```text
//!   ||dw||^2 = A (1 - u^2) + B (1 - v^2) + 2 C (kappa - u v),
//!   ```
//!
//!   a sum without cancellation where each difference is an `expm1`.
//! * The best h: where the derivative vanishes, with `q = r e^(-L x)`, `r = sqrt(A/B)`, `rho = C/sqrt(AB)`
//!   and `x = 1 - 2h`,
//!
//!   ```text
//!   x = (1 - q^2)/(1 + q^2 + 2 rho q).
//!   ```
//!
//!   The best place lies on the heavier vector's side, x in [0, 1]. Of several solutions there the largest is the
//!   best, and Newton's method from x = 1 falls upon it; if `rho <= -q` at x = 1, that itself is best:
//!   m is projected onto n.
//! * The best partner: a bound from below of one exponential, for all at once (`simd::bounds`), is nearly what a merger
//!   costs where that is little. The place is found for the partner whose bound is least, and seldom for another.
//! * m is the vector with the smallest `||a||^2`, as in the paper; n the one that makes the least of it.
//! * Carried: all squared distances, as `||z - x||^2 = h ||x_m - x||^2 + (1-h) ||x_n - x||^2 - h (1-h)
//!   ||x_m - x_n||^2`. Features are touched once a merger, to make z. O(B outputs + features) a merger.
//! * Differs from the paper: its equation 21 weighs classes by `1/(a_m + a_n)`, which for more than two
//!   classes is another problem (and 0/0 where both are 0). For two it is this one, and tests use it there.

use super::support::{stride_for, with_stride};
use crate::error::Error;
use crate::memory;
use crate::scalar::Scalar;
use crate::simd::{LANES, Partners, WIDTH};

/// The best place to merge two vectors at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Place {
    /// The part of the lighter vector in z.
    pub h: f64,
    /// `k(x_m, z)`: what the lighter vector's coefficients count for.
    pub of_m: f64,
    /// `k(x_n, z)`.
    pub of_n: f64,
    /// `||dw||^2`.
    pub degradation: f64,
}

impl Place {
    /// For `L = -ln k(x_m, x_n)` and `0 < a <= b`.
    pub fn best(log: f64, a: f64, b: f64, c: f64) -> Place {
        let r = (a / b).sqrt();
        // Not over the root of a product, which may overflow.
        let rho = (c / a * r).clamp(-1.0, 1.0);
        // e^-700 is as good as 0.
        let log = log.min(700.0);
        let mut x: f64 = 1.0;
        // Where two solutions fall together steps only halve, but then the degradation hardly depends on x.
        for _ in 0..60 {
            let q = r * (-log * x).exp();
            // 0 where two cancel; its square must not be.
            let whole = (1.0 + q * q + 2.0 * rho * q).max(1e-100);
            let square = whole * whole;
            let turn = 2.0 * rho * q;
            let slope = square - log * (4.0 * q * q + turn * (1.0 + q * q));
            let step = (x * whole - (1.0 - q * q)) * whole / slope.max(1e-3 * square);
            let next = (x - step).clamp(0.0, 1.0);
            // The next would be 1e-12, or as said; and the degradation depends on its square.
            let still = (next - x).abs() <= 1e-6;
            x = next;
            if still {
                break;
            }
        }
        let q = r * (-log * x).exp();
        let whole = (1.0 + q * q + 2.0 * rho * q).max(1e-100);
        // As 1 - 2h = x, but right to the last digits where h is small.
        Place::at((q * (q + rho) / whole).clamp(0.0, 0.5), log, a, b, c)
    }

    fn at(h: f64, log: f64, a: f64, b: f64, c: f64) -> Place {
        let g = 1.0 - h;
        // What is missing from 1, of which the squares lack twice that, less its square.
        let (less_m, less_n) = ((-log * g * g).exp_m1(), (-log * h * h).exp_m1());
        let (of_m, of_n) = (1.0 + less_m, 1.0 + less_n);
        let apart = a * less_m * (1.0 + of_m) + b * less_n * (1.0 + of_n);
        let degradation = 2.0 * c * of_m * of_n * (-2.0 * log * h * g).exp_m1() - apart;
        Place { h, of_m, of_n, degradation: degradation.max(0.0) }
    }
}

/// The vector that m is merged with at the least cost, and where; `None` if all others are infinitely larger. `exact` gives
/// products of coefficients without roundings; `bounds` is room.
///
/// The one whose bound is least is it in 99 of 100 mergers on the checkerboard, and nobody else's bound is below what it
/// costs; with 500 vectors that is so in a third of those on letter and usps, and others are looked at 16 at a time, twice on
/// letter and four times on usps. So its place, which is needed anyway, is found first.
pub(super) fn partner<S: Scalar>(
    of: Partners<'_, S>,
    bounds: &mut [S],
    exact: impl Fn(usize) -> f64,
) -> Option<(usize, Place)> {
    let a = of.sizes[of.m];
    let place =
        |n: usize| Place::best(of.gamma * of.distances[n].to_f64(), a, of.sizes[n], exact(n));
    let first = S::bounds(of, bounds);
    if first == of.m {
        return None;
    }
    let found = place(first);
    let n = S::cheaper(of, (first, found.degradation / a), bounds);
    Some((n, if n == first { found } else { place(n) }))
}

/// Squared distances between all pairs of slots.
#[derive(Clone, Debug, Default)]
pub(super) struct Distances<S> {
    values: Vec<S>,
    stride: usize,
}

impl<S: Scalar> Distances<S> {
    /// Refuses slots up to `width` where there is no memory for them.
    pub fn check_room(&self, width: usize) -> Result<(), Error> {
        let more = if width > self.stride { width + 2 * WIDTH } else { 0 };
        memory::check::<S>("distances of support vectors", &[more, width])
    }

    /// Refuses a copy that there is no memory for.
    pub fn check_copy(&self) -> Result<(), Error> {
        memory::check::<S>("a copy of distances", &[self.values.len()])
    }

    /// Makes room for slots up to `width`.
    pub fn widen(&mut self, width: usize) {
        if width <= self.stride {
            return;
        }
        let stride = stride_for::<S>(width);
        self.values = with_stride(&self.values, self.stride, stride, width);
        self.stride = stride;
    }

    /// Those to a slot.
    pub fn row(&self, slot: usize) -> &[S] {
        &self.values[slot * self.stride..(slot + 1) * self.stride]
    }

    /// Sets those from a slot to the slots from 0 on, but not yet those to it.
    pub fn set_row(&mut self, slot: usize, distances: &[S]) {
        self.values[slot * self.stride..][..distances.len()].copy_from_slice(distances);
        self.values[slot * self.stride + slot] = S::default();
    }

    /// Sets one of those to a slot to what it is from there.
    pub fn mirror(&mut self, slot: usize, other: usize) {
        self.values[other * self.stride + slot] = self.values[slot * self.stride + other];
    }

    /// Sets those of so many slots to a slot to what they are from there.
    pub fn set_column(&mut self, slot: usize, slots: usize) {
        for other in 0..slots {
            self.mirror(slot, other);
        }
    }
}

// Rows are handed to loops over lanes.
const _: () = assert!(WIDTH.is_multiple_of(LANES));

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Simd;
    use rand_pcg::Pcg64;
    use rand_pcg::rand_core::Rng;

    /// Against a fine grid, over the range of all arguments.
    #[test]
    fn the_place_is_the_best_one() {
        for log in [0.0, 1e-12, 1e-3, 0.1, 0.5, 1.0, 1.7, 2.0, 2.5, 5.0, 20.0, 300.0] {
            for r in [1e-4, 0.1, 0.5, 0.9, 1.0] {
                for rho in [-1.0, -0.7, -0.2, -1e-3, 0.0, 0.3, 0.8, 1.0] {
                    let (a, b) = (r * r * 3.0, 3.0);
                    let c = rho * r * 3.0;
                    let place = Place::best(log, a, b, c);
                    for k in 0..=1000 {
                        let other = Place::at(f64::from(k) / 1000.0, log, a, b, c);
                        assert!(
                            place.degradation <= other.degradation * (1.0 + 1e-9) + 1e-15,
                            "{log} {r} {rho}: {place:?}, {other:?}"
                        );
                    }
                }
            }
        }
    }

    /// The paper's equation 21, which for two classes is the same problem: `max_h m kappa^((1-h)^2) + (1 - m)
    /// kappa^(h^2)` with `m = a_m/(a_m + a_n)`.
    #[test]
    fn for_two_classes_it_is_the_papers() {
        for log in [0.01, 0.3, 1.0, 1.9, 4.0] {
            for a_m in [0.01_f64, 0.4, 0.99] {
                let weight = a_m / (a_m + 1.0);
                let value = |h: f64| {
                    let (u, v) = ((-log * (1.0 - h) * (1.0 - h)).exp(), (-log * h * h).exp());
                    weight * u + (1.0 - weight) * v
                };
                let place = Place::best(log, a_m * a_m, 1.0, a_m);
                let best = (0..=10_000).map(|k| value(f64::from(k) / 1e4)).fold(0.0, f64::max);
                assert!(value(place.h) >= best - 1e-12, "{log} {a_m}: {place:?}");
                // What is lost is what the one coefficient (a_m + a_n) times that value does not keep.
                let (kappa, kept) = ((-log).exp(), (a_m + 1.0) * value(place.h));
                let whole = a_m * a_m + 1.0 + 2.0 * a_m * kappa;
                assert!((place.degradation - (whole - kept * kept)).abs() < 1e-12);
            }
        }
    }

    /// What leaves partners out lies below what they cost; of one output never below 0.6 of it, and near it for vectors that
    /// are near, or of very different sizes.
    #[test]
    fn bounds_are_below_what_mergers_cost() {
        for log in [1e-4, 1e-2, 0.1, 0.3, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0, 9.0, 20.0, 39.0] {
            for r in [1e-3, 0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99, 1.0] {
                let b = 1.0 / (r * r);
                let rhos: Vec<f64> = (0..80).map(|k| f64::from(k).mul_add(0.025, -1.0)).collect();
                let rhos = [rhos, [-1.0, -0.99999, -0.999, 0.999, 0.99999, 1.0].repeat(3)].concat();
                let (sizes, logs) = (vec![b; rhos.len()], vec![log; rhos.len()]);
                // The last is m.
                let (m, padding) = (rhos.len(), rhos.len() + 1..112);
                let sizes = [sizes, vec![1.0], vec![f64::INFINITY; padding.len()]].concat();
                let rest = vec![0.0; padding.len() + 1];
                let products = rhos.iter().map(|rho| rho / r).collect();
                let (crosses, logs) = ([products, rest.clone()].concat(), [logs, rest].concat());
                let mut bounds = vec![0.0; 112];
                let of =
                    Partners { gamma: 1.0, m, distances: &logs, sizes: &sizes, crosses: &crosses };
                let n = f64::bounds(of, &mut bounds);
                assert!(n < m && bounds[n] == bounds.iter().copied().fold(f64::INFINITY, f64::min));
                for (k, rho) in rhos.iter().enumerate() {
                    let cost = Place::best(log, 1.0, b, rho / r).degradation;
                    let of_cost = bounds[k] / cost;
                    assert!(of_cost <= 1.0 + 1e-9, "{log} {r} {rho}: {of_cost}");
                    let least = match rho.abs() {
                        1.0 if *rho < 0.0 => 1.0 - 1e-9,
                        1.0 if log <= 0.01 || r <= 0.01 => 0.99,
                        1.0 => 0.6,
                        _ => 0.0,
                    };
                    assert!(of_cost >= least, "{log} {r} {rho}: {of_cost}");
                }
                assert!(bounds[m..].iter().all(|bound| *bound == f64::INFINITY));
            }
        }
    }

    /// The partner is the one whose merger costs least, or one within a percent of it, in both precisions.
    fn partner_agrees<S: Scalar>() {
        let mut random = Pcg64::new(3, 0);
        let mut draw = || (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        for round in 0..400 {
            let gamma = 10.0_f64.powf(6.0 * draw() - 3.0);
            let a = 10.0_f64.powf(4.0 * draw() - 2.0);
            let (slots, width) = (2 + round % 90, 96);
            let m = round % slots;
            let mut b = vec![f64::INFINITY; width];
            let (mut c, mut distances) = (vec![S::default(); width], vec![S::default(); width]);
            for n in 0..slots {
                // Some exactly as large, some collinear, some in the same place.
                b[n] = if draw() < 0.2 { a } else { a * (1.0 + 20.0 * draw() * draw()) };
                let rho =
                    if draw() < 0.3 { (3.0 * draw()).floor() - 1.0 } else { 2.0 * draw() - 1.0 };
                c[n] = S::from_f64(rho * (a * b[n]).sqrt());
                distances[n] = S::from_f64(if draw() < 0.05 { 0.0 } else { draw() * 4.0 / gamma });
            }
            let mut bounds = vec![S::default(); width];
            b[m] = a;
            let of = Partners { gamma, m, distances: &distances, sizes: &b, crosses: &c };
            let (got, place) = partner(of, &mut bounds, |n| c[n].to_f64()).unwrap();
            let cost = |n: usize| {
                let log = gamma * distances[n].to_f64();
                Place::best(log, a, b[n], c[n].to_f64()).degradation / a
            };
            let least = (0..slots).filter(|&n| n != m).map(cost).fold(f64::INFINITY, f64::min);
            assert!(got != m && got < slots, "{round}: {got}");
            assert_eq!(cost(got), place.degradation / a);
            S::bounds(of, &mut bounds);
            for n in (0..slots).filter(|&n| n != m) {
                let bound = bounds[n].to_f64();
                assert!(bound <= cost(n) * (1.0 + 1e-3) + 2e-6, "{round}: {bound}, {}", cost(n));
            }
            assert!(cost(got) <= 1.01 * least + 1e-5, "{round}: {}, not {least}", cost(got));
        }
    }

    #[test]
    fn the_partner_is_the_best_one() {
        partner_agrees::<f32>();
        partner_agrees::<f64>();
    }
}
