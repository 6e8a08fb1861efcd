//! The simplex `{p : p >= 0, sum p = size}`: probabilities, where the size is 1.

/// Entries that are so many times the size are brought near 0 first.
const LARGE: f64 = 1e6;

/// Replaces `p` by the nearest point of the simplex, in the Euclidean norm; `size >= 0`.
///
/// The nearest point is `max(p - tau, 0)` for the one tau that makes the sum right. It is at least
/// `max p - size`, so entries below that are put aside at once. Then, of those left, again and again
/// those that cannot be positive, and tau is computed from the others, until nothing changes
/// (Michelot 1986): at most `p.len()` times; in practice a few.
pub(crate) fn project(p: &mut [f64], size: f64) {
    let mut largest = p.iter().fold(f64::NEG_INFINITY, |most, &p| if p > most { p } else { most });
    if largest.abs() > LARGE * size {
        // All entries less the same have the same nearest point, and the size would be a rounding of these.
        p.iter_mut().for_each(|p| *p -= largest);
        largest = 0.0;
    }
    let tau = level(p, largest - size, -size, 0);
    for p in p {
        let above = *p - tau;
        *p = if above > 0.0 { above } else { 0.0 };
    }
}

/// The s for which `sum_r max(b_r - s, 0) = s`; 0 if no entry is positive. It is at least half of the
/// largest entry, and found as tau is above.
pub(crate) fn balance(b: &[f64]) -> f64 {
    let largest = b.iter().fold(0.0, |most: f64, &b| if b > most { b } else { most });
    level(b, largest / 2.0, 0.0, 1)
}

/// The tau for which `sum_r max(p_r - tau, 0) + extra = more tau`; the one given is no larger.
fn level(p: &[f64], mut tau: f64, extra: f64, more: u32) -> f64 {
    // Most often few are above, of however many, which then need not be looked for again.
    let mut few = [0.0; 32];
    let mut count = 0;
    for &p in p {
        if p > tau {
            few[count % 32] = p;
            count += 1;
        }
    }
    let p = few.get(..count).unwrap_or(p);
    let mut left = usize::MAX;
    loop {
        let (mut sum, mut count) = (extra, 0);
        for &p in p {
            if p > tau {
                sum += p;
                count += 1;
            }
        }
        // Not `==`: where entries lie a rounding from tau they may leave and come back for ever. None
        // at all: the size is 0, or nothing beside the entries.
        if count >= left || count == 0 {
            return tau;
        }
        tau = sum / f64::from(count as u32 + more);
        left = count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By sorting, as in Duchi et al. (2008), figure 1.
    fn by_sorting(p: &[f64], size: f64) -> Vec<f64> {
        let mut sorted = p.to_vec();
        sorted.sort_by(|a, b| b.total_cmp(a));
        let (mut sum, mut tau) = (-size, 0.0);
        for (k, &x) in sorted.iter().enumerate() {
            sum += x;
            if x > sum / (k + 1) as f64 {
                tau = sum / (k + 1) as f64;
            }
        }
        p.iter().map(|&x| (x - tau).max(0.0)).collect()
    }

    #[test]
    fn agrees_with_sorting() {
        let mut state = 1u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        for round in 0..2000 {
            let spread = [0.0, 0.1, 1.0, 100.0, 1e8][round % 5];
            let size = [1.0, 0.3, 7.0][round % 3];
            let p: Vec<f64> = (0..=round % 13)
                .map(|_| (spread * (uniform() - 0.5) * 8.0).round() / 8.0)
                .collect();
            let mut got = p.clone();
            project(&mut got, size);
            let want = by_sorting(&p, size);
            for (got, want) in got.iter().zip(&want) {
                assert!((got - want).abs() < 1e-12 * (1.0 + spread), "{p:?}: {got}, not {want}");
            }
        }
    }

    #[test]
    fn balances() {
        for b in [
            vec![],
            vec![-1.0, 0.0],
            vec![3.0],
            vec![1e-9, -4.0, 2e-9],
            vec![1.0; 7],
            vec![5.0, 2.0],
        ] {
            let s = balance(&b);
            let sum: f64 = b.iter().map(|b| (b - s).max(0.0)).sum();
            assert!((sum - s).abs() <= 1e-15 * (1.0 + s), "{b:?}: {s}");
        }
    }

    #[test]
    fn points_of_the_simplex_stay() {
        for p in [vec![1.0], vec![0.25, 0.75, 0.0], vec![0.0, 1.0]] {
            let mut q = p.clone();
            project(&mut q, 1.0);
            assert_eq!(p, q);
        }
    }
}
