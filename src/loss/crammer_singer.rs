//! The loss of several classes at once.

use super::Loss;
use crate::scalar::for_each_above;
use crate::simd::Simd;
use crate::simplex;
use crate::table::MANY;

/// The multi-class hinge of Crammer and Singer: `max(0, 1 + f_r - f_y)` with
/// `r = argmax_{i != y} f_i` and one score `f_i` per class.
///
/// Two classes at lambda are the binary hinge at lambda/2. The coefficients of an example sum to 0
/// over the classes, always. A point of the dual is `e_y - p` with `p` in the simplex.
///
/// ```
/// use pegasos::{CrammerSinger, Loss};
///
/// let loss = CrammerSinger { classes: 3 };
/// let mut coef = [0.0; 3];
/// assert_eq!(loss.value_and_coef(&[0.5, 0.25, 0.0], 1, &mut coef), 1.25);
/// assert_eq!(coef, [-1.0, 1.0, 0.0]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CrammerSinger {
    /// Number of classes, at least 2.
    pub classes: usize,
}

impl Loss for CrammerSinger {
    type Scores = Vec<f64>;
    fn steepest(&self) -> f64 {
        2.0
    }
    fn zeros(&self) -> Vec<f64> {
        vec![0.0; self.classes]
    }
    fn outputs(&self) -> usize {
        self.classes
    }
    #[inline(always)]
    fn classes(&self) -> u32 {
        u32::try_from(self.classes).unwrap_or(u32::MAX)
    }
    #[inline]
    fn value_and_coef(&self, scores: &[f64], y: u32, coef: &mut [f64]) -> f64 {
        let y = y as usize;
        let (mut r, mut best) = (y, f64::NEG_INFINITY);
        let (before, after) = (&scores[..y], &scores[y + 1..]);
        if scores.len() > MANY {
            for (first, others) in [(0, before), (y + 1, after)] {
                for_each_above(others, best, |at, score| {
                    (r, best) = (first + at, score);
                    score
                });
            }
        } else {
            for (i, &score) in (0..).zip(before).chain((y + 1..).zip(after)) {
                if score > best {
                    (r, best) = (i, score);
                }
            }
        }
        coef.fill(0.0);
        let value = 1.0 + best - scores[y];
        if value <= 0.0 {
            return 0.0;
        }
        coef[y] = 1.0;
        coef[r] = -1.0;
        value
    }
    fn conjugate(&self, dual: &[f64], y: u32) -> f64 {
        -dual[y as usize]
    }
    fn bend(&self, o: usize, _: f64, y: u32) -> (f64, f64) {
        (if o == y as usize { -1.0 } else { 0.0 }, 0.0)
    }
    fn excess(&self, dual: &[f64], y: u32) -> f64 {
        dual[y as usize]
    }
    fn radius2(&self) -> f64 {
        1.0
    }
    fn ascend(&self, scores: &[f64], y: u32, q: f64, dual: &mut [f64]) {
        // In terms of p = e_y - dual: the point of the simplex nearest to p + (f + 1 - e_y)/q. With
        // s = 1 - p_y, the sum of the other entries, those are max(b - q s, 0)/q for
        // b_r = q (p_r + s_old) + f_r + 1 - f_y: small numbers all of them where s is small.
        let y = y as usize;
        let (s, f) = (dual[y], scores[y]);
        for (dual, score) in dual.iter_mut().zip(scores) {
            *dual = q * (s - *dual) + (score - f + 1.0);
        }
        dual[y] = f64::NEG_INFINITY;
        let whole = simplex::balance(dual);
        if whole <= q && q > 0.0 {
            let c = 1.0 / q;
            dual.iter_mut().for_each(|b| *b = if *b > whole { (*b - whole) * c } else { 0.0 });
        } else {
            // p_y is 0, and the others are a point of the simplex by themselves.
            let largest = dual.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            simplex::project(dual, q);
            let sum: f64 = dual.iter().sum();
            if sum > 0.0 {
                dual.iter_mut().for_each(|p| *p /= sum);
            } else {
                // A row of zeros, or as good as one: a corner.
                let of_row = |r: usize| scores[r] - f + 1.0;
                let best = (0..scores.len()).filter(|&r| r != y);
                let best = best.fold(None, |best, r| match best {
                    Some(best) if of_row(best) >= of_row(r) => Some(best),
                    _ => Some(r),
                });
                dual.fill(0.0);
                if let Some(best) = best.filter(|_| largest > 0.0) {
                    dual[best] = 1.0;
                }
            }
        }
        dual[y] = 0.0;
        let mut sum: f64 = dual.iter().sum();
        if sum > 1.0 {
            // By roundings, but a point of the domain it must be.
            let c = (1.0 - 4.0 * f64::EPSILON) / sum;
            dual.iter_mut().for_each(|p| *p *= c);
            sum = dual.iter().sum();
        }
        dual.iter_mut().for_each(|p| *p = -*p);
        // So that they sum to 0 to the last bit.
        dual[y] = sum;
    }
    fn contenders(
        &self,
        scores: &[f64],
        y: u32,
        q: f64,
        nonzeros: &[(u32, f64)],
        out: &mut Vec<u32>,
    ) -> bool {
        // Classes with b_r, as in `ascend`, above the tau at which the sum of max(b - tau, 0) is tau, or, where that
        // is more than q, q. For any classes sum b/(count + 1) and (sum b - q)/count are no larger than that tau:
        // first for the nonzeros, then with each that is found.
        let of = |r: u32| {
            nonzeros.binary_search_by_key(&r, |entry| entry.0).ok().map(|at| nonzeros[at].1)
        };
        let shift = q * of(y).unwrap_or(0.0) + 1.0 - scores[y as usize];
        let (mut sum, mut count) = (0.0, 0.0);
        let below = |sum: f64, count: f64| f64::max(sum / (count + 1.0), (sum - q) / count);
        for &(r, a) in nonzeros.iter().filter(|entry| entry.0 != y) {
            sum += scores[r as usize] + shift - q * a;
            count += 1.0;
        }
        let mut bound = below(sum, count).max(0.0);
        for_each_above(scores, bound - shift, |r, score| {
            let r = r as u32;
            if r != y && of(r).is_none() {
                out.push(r);
                sum += score + shift;
                count += 1.0;
                bound = bound.max(below(sum, count));
            }
            bound - shift
        });
        // Up to roundings: of classes that are as good as one another all but the first may have been left out.
        let bound = bound * (1.0 - 1e-9);
        out.retain(|&r| scores[r as usize] + shift >= bound);
        out.extend(nonzeros.iter().map(|entry| entry.0).filter(|&r| r != y));
        out.push(y);
        out.sort_unstable();
        true
    }
    fn on_simplex(&self) -> bool {
        true
    }
    fn quadratic(&self) -> Option<f64> {
        Some(0.0)
    }
    fn shares(&self, scores: &[f64], dual: &[f64], stride: usize, labels: &[f64], out: &mut [f64]) {
        f64::shares(scores, dual, stride, labels, out);
    }
    fn make_feasible(&self, dual: &mut [f64], y: u32) {
        let y = y as usize;
        let mut sum = 0.0;
        for (i, dual) in dual.iter_mut().enumerate() {
            *dual = if i == y { 0.0 } else { dual.min(0.0) };
            sum -= *dual;
        }
        if sum > 1.0 {
            dual.iter_mut().for_each(|dual| *dual /= sum);
        }
        dual[y] = sum.min(1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crammer_singer_ascent_is_exact() {
        let loss = CrammerSinger { classes: 4 };
        for (round, scores) in
            [[0.0; 4], [1.0, 2.0, 0.5, -1.0], [3.0, 0.0, 0.1, 0.2], [0.2, 0.3, 0.25, 0.3]]
                .iter()
                .enumerate()
        {
            for q in [0.0, 1e-3, 0.7, 50.0] {
                let y = round as u32 % 4;
                let mut from = [0.0; 4];
                from[y as usize] = 0.4;
                from[(y as usize + 1) % 4] = -0.3;
                from[(y as usize + 2) % 4] = -0.1;
                let value = |a: &[f64]| {
                    let linear: f64 = (0..4).map(|r| (a[r] - from[r]) * scores[r]).sum();
                    let square: f64 = (0..4).map(|r| (a[r] - from[r]).powi(2)).sum();
                    -loss.conjugate(a, y) - linear - q / 2.0 * square
                };
                let mut best = from;
                loss.ascend(scores, y, q, &mut best);
                assert!(best.iter().sum::<f64>().abs() < 1e-15);
                assert!(loss.excess(&best, y) <= 1.0 + 1e-15);
                for k in 0..11 * 11 * 11 {
                    let p = [k % 11, k / 11 % 11, k / 121].map(|p| f64::from(p) / 10.0);
                    let last = 1.0 - p.iter().sum::<f64>();
                    if last < 0.0 {
                        continue;
                    }
                    let mut other = [-p[0], -p[1], -p[2], -last];
                    other[y as usize] += 1.0;
                    assert!(value(&other) <= value(&best) + 1e-12, "{scores:?} {q}: {other:?}");
                }
            }
        }
    }

    /// Steps one after the other, on all classes and on those that contend: the same dual variables.
    #[test]
    fn the_others_do_not_contend() {
        let classes = 300;
        let loss = CrammerSinger { classes };
        let mut state = 1_u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let mut fewest = classes;
        for round in 0..400 {
            let q = [0.0, 1e-6, 0.3, 2.0, 100.0][round % 5];
            let spread = [0.0, 1e-3, 1.0, 1.0, 30.0, 1e6][round % 6];
            let y = round as u32 % classes as u32;
            let mut all = vec![0.0; classes];
            for _ in 0..4 {
                let scores: Vec<f64> = (0..classes).map(|_| spread * (uniform() - 0.5)).collect();
                let nonzeros = (0..).zip(&all).filter(|(_, a)| **a != 0.0).map(|(o, a)| (o, *a));
                let nonzeros: Vec<(u32, f64)> = nonzeros.collect();
                let mut few = Vec::new();
                assert!(loss.contenders(&scores, y, q, &nonzeros, &mut few));
                assert!(few.is_sorted_by(|a, b| a < b));
                fewest = fewest.min(few.len());
                let of = |from: &[f64]| few.iter().map(|&o| from[o as usize]).collect::<Vec<_>>();
                let (of_few, mut dual) = (of(&scores), of(&all));
                let own = few.iter().position(|&o| o == y).unwrap();
                loss.ascend(&of_few, own as u32, q, &mut dual);
                loss.ascend(&scores, y, q, &mut all);
                let apart = dual.iter().zip(of(&all)).map(|(a, b)| (a - b).abs());
                assert!(apart.fold(0.0, f64::max) < 1e-12, "{q} {spread}");
                let left: f64 = all.iter().map(|a| a.abs()).sum();
                let found: f64 = dual.iter().map(|a| a.abs()).sum();
                assert!((left - found).abs() < 1e-9, "{q} {spread}: {left}, {found}");
            }
        }
        assert!(fewest < 6, "{fewest}");
    }
}
