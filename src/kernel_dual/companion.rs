//! Who goes with the best one of greedy ascent, where that is worth far more than its step alone.
//!
//! * Rows that are the same, or nearly, with labels that are not: where C k(x, x) is large, the step of one moves the score of all
//!   of them, that of another moves it back, and dual variables that belong at their ends go there by millionths. Together two
//!   of them get there at once, and move no score.
//! * Found by the curvature that is left to another one while the best one goes as far as it likes, as LIBSVM chooses its second
//!   one (Fan, Chen and Lin 2005). That takes a look at all who take part, so it is asked once a sweep, and again as long as somebody
//!   is found, for a sweep at most.
//! * Trials, 636 rows of 16 features, 177 of them one and the same, one class in eleven against the others, to a gap of 1e-3: a
//!   Gaussian kernel at C = 1e5 takes 0.004 s, without 1.3 to 1.8, a cubic one at C = 44 0.007 s, without 0.4, at C = 1e4 0.006 s,
//!   where no end was seen. Sets without such rows take as long (usps, letter, covtype15k at C from 1 to 100).

use super::KernelAscent;
use super::descent::Descent;
use super::pair::Coordinate;
use super::working::Among;
use crate::error::Error;
use crate::loss::Loss;
use crate::scalar::Scalar;

/// How many times what the best one gains alone somebody beside it must gain.
const FAR_MORE: f64 = 30.0;

/// The part of a curvature of which no less is left: kernel values in f32 are rounded.
const ALL_BUT_FLAT: f64 = 1e-6;

impl<S: Scalar, L: Loss> KernelAscent<S, L> {
    /// Who of those that take part would gain most if it went with the best one, `at`, whose kernel values are there: if that is
    /// far more than the best one gains alone.
    pub(super) fn companion(
        &self,
        among: &Among<S>,
        descent: &mut Descent<S>,
        at: usize,
    ) -> Result<Option<usize>, Error> {
        let (all, k) = (descent.all_take_part(), descent.active[at] as usize);
        if !all {
            let Descent { near, active, .. } = descent;
            near.find(k, || among.row(&self.cached, k), active)?;
        }
        let row = if all { among.row(&self.cached, k) } else { descent.near.row(k) };
        let (one, own) = (descent.coordinate(k, descent.now[at]), row[at].to_f64());
        let mut best = (FAR_MORE * one.best_alone().1, None);
        for (l, &k) in descent.active.iter().enumerate().filter(|&(l, _)| l != at) {
            let (across, other) = (row[l].to_f64(), descent.coordinate(k as usize, descent.now[l]));
            let part = across / own;
            let slope = other.slope - part * one.slope;
            let left = 1.0 - part * across * other.factor / other.curvature;
            let curvature = other.curvature * left.max(ALL_BUT_FLAT);
            let (_, gain) = Coordinate { slope, curvature, ..other }.best_alone();
            if gain > best.0 {
                best = (gain, Some(l));
            }
        }
        Ok(best.1)
    }
}

#[cfg(test)]
mod tests {
    use rand_pcg::Pcg64;
    use rand_pcg::rand_core::Rng;

    use super::super::pair::tests::pieces;
    use crate::{Dense, Examples, Kernel};

    /// A third of the rows the same but for a rounding, or to the last bit, one in ten labels wrong: each example steps a few
    /// times, not thousands of times, however large C is. In pieces of n steps each; without companions there are hundreds.
    #[test]
    fn rows_that_contradict_each_other_are_soon_settled() {
        let (n, d) = (600, 16);
        for spread in [0.0, 1e-7] {
            let mut numbers = Pcg64::new(5, 0);
            let mut uniform = || (numbers.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
            let mut x: Vec<f32> = (0..n * d).map(|_| 4.0 * uniform() as f32 - 2.0).collect();
            let y: Vec<u32> = (0..n).map(|_| u32::from(uniform() < 0.1)).collect();
            for i in (0..n).step_by(3) {
                for j in 0..d {
                    x[i * d + j] = x[j] + (spread * uniform()) as f32;
                }
            }
            let rows = Dense::new(&x, n, d).expect("rows");
            let data = Examples::new(rows, &y, None).expect("examples");
            let cubic = Kernel::Poly { gamma: 1.0, coef0: 1.0, degree: 3 };
            for (kernel, c) in [
                (Kernel::Rbf { gamma: 1.0 }, 1e2),
                (Kernel::Rbf { gamma: 1.0 }, 1e5),
                (cubic, 1e2),
                (cubic, 1e4),
            ] {
                let pieces = pieces(kernel, (c, 0.0), &data, 1e-2, 30);
                assert!(pieces < 30, "{kernel:?}, C = {c}, spread {spread}");
            }
        }
    }

    /// Features near 100, a cubic kernel, labels of noise: values of 1e12 that differ by millionths, so that at most steps somebody
    /// gains far more beside the best one, and after it, again. In pieces of n steps each; without companions there are 36,000,
    /// with them at every step there is no end.
    #[test]
    fn companions_at_every_step_are_not_gone_after() {
        let (n, d) = (12, 2);
        let mut numbers = Pcg64::new(7, 0);
        let mut uniform = || (numbers.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let mut normal = || (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
        let x: Vec<f64> = (0..n * d).map(|_| 100.0 + normal()).collect();
        let y: Vec<u32> = (0..n).map(|_| u32::from(uniform() < 0.5)).collect();
        let data = Examples::new(Dense::new(&x, n, d).expect("rows"), &y, None).expect("examples");
        let cubic = Kernel::Poly { gamma: 1.0, coef0: 1.0, degree: 3 };
        assert!(pieces(cubic, (1.0, 0.0), &data, 1e-2, 10_000) < 10_000);
    }
}
