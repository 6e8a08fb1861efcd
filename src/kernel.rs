//! Kernels: inner products of images, from inner products.

use crate::data::Matrix;
use crate::error::Error;
use crate::scalar::Scalar;

/// `k(x, z)`, the inner product of the images of x and z in the space where w lives. Each is a function
/// of `<x, z>`, `<x, x>` and `<z, z>` alone.
///
/// The names and formulas are scikit-learn's.
///
/// ```
/// let kernel = pegasos::Kernel::Rbf { gamma: 0.5 };
/// // ||x - z||^2 = 1 - 2 * 0 + 1
/// assert_eq!(kernel.eval(0.0, 1.0, 1.0), (-1.0_f64).exp());
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kernel {
    /// `<x, z>`.
    Linear,
    /// `exp(-gamma ||x - z||^2)`.
    Rbf {
        /// The inverse of twice the squared width, > 0.
        gamma: f64,
    },
    /// `(gamma <x, z> + coef0)^degree`.
    Poly {
        /// > 0.
        gamma: f64,
        /// Any number; the kernel is positive definite if it is >= 0.
        coef0: f64,
        /// Any.
        degree: u32,
    },
    /// `tanh(gamma <x, z> + coef0)`. Not positive definite in general: then there is no such space, and no
    /// certificate to trust.
    Sigmoid {
        /// > 0.
        gamma: f64,
        /// Any number.
        coef0: f64,
    },
    /// Rows hold kernel values already: column j of row i is `k(x_i, z_j)`, z_j being row j of the matrix
    /// that was trained on.
    Precomputed,
}

impl Kernel {
    /// A Gaussian kernel as wide as these rows ask for: gamma is one over the number of features and the variance of all their
    /// values (`gamma="scale"` in Python). O(stored features). 1 where that is no number > 0: where all values are the same,
    /// or nearly so, and where some are not finite or so large that no machine trains on them, which says so then.
    ///
    /// ```
    /// use pegasos::{Dense, Kernel};
    ///
    /// let x = Dense::new(&[0.0, 2.0, 2.0, 0.0_f64], 2, 2)?;
    /// assert_eq!(Kernel::rbf_for(&x.into()), Kernel::Rbf { gamma: 0.5 });
    /// # Ok::<(), pegasos::Error>(())
    /// ```
    pub fn rbf_for<S: Scalar>(x: &Matrix<'_, S>) -> Self {
        let size = x.n_rows() as f64 * x.n_features() as f64;
        let mut sum = 0.0;
        let rows = || (0..x.n_rows()).map(|i| x.row(i));
        rows().for_each(|row| row.for_each_sum(|x| sum += x));
        let (mean, mut squares, mut stored) = (sum / size, 0.0, 0.0);
        rows().for_each(|row| {
            row.for_each_sum(|x| {
                squares += (x - mean) * (x - mean);
                stored += 1.0;
            });
        });
        // What is not stored is 0.
        let variance = (squares + (size - stored) * mean * mean) / size;
        let gamma = 1.0 / (x.n_features() as f64 * variance);
        Kernel::Rbf { gamma: if gamma > 0.0 && gamma.is_finite() { gamma } else { 1.0 } }
    }

    /// Refuses parameters outside their range.
    pub fn check(self) -> Result<(), Error> {
        let (gamma, coef0) = match self {
            Kernel::Linear | Kernel::Precomputed => return Ok(()),
            Kernel::Rbf { gamma } => (gamma, 0.0),
            Kernel::Poly { gamma, coef0, .. } | Kernel::Sigmoid { gamma, coef0 } => (gamma, coef0),
        };
        if !(gamma > 0.0 && gamma.is_finite()) {
            return Err(Error::parameter("gamma", gamma, "> 0 and finite"));
        }
        if !coef0.is_finite() {
            return Err(Error::parameter("coef0", coef0, "finite"));
        }
        Ok(())
    }

    /// `k(x, z)`, given `<x, z>`, `<x, x>` and `<z, z>`; the first of them where kernel values are
    /// precomputed.
    pub fn eval(self, xz: f64, xx: f64, zz: f64) -> f64 {
        let mut value = [xz];
        self.map(&mut value, xx, &[zz]);
        value[0]
    }

    /// `k(x, x)`, given `<x, x>`.
    pub(crate) fn own(self, norm2: f64) -> f64 {
        match self {
            // Budgets ask twice a violation: an exponential of 0 each took 20 ns.
            Kernel::Rbf { .. } if (norm2 + norm2).is_finite() => 1.0,
            _ => self.eval(norm2, norm2, norm2),
        }
    }

    /// [`eval`](Kernel::eval) of one x and many z, in place.
    pub fn map<S: Scalar>(self, xz: &mut [S], xx: f64, zz: &[S]) {
        match self {
            Kernel::Linear | Kernel::Precomputed => {}
            Kernel::Rbf { gamma } => S::rbf(gamma, xz, xx, zz),
            Kernel::Poly { gamma, coef0, degree } => {
                for xz in xz {
                    let base = gamma * xz.to_f64() + coef0;
                    *xz = S::from_f64(power(base, degree));
                }
            }
            Kernel::Sigmoid { gamma, coef0 } => {
                // tanh u = 1 - 2/(e^(2u) + 1).
                for xz in xz.iter_mut() {
                    *xz = S::from_f64(2.0 * (gamma * xz.to_f64() + coef0));
                }
                S::exp(xz);
                for xz in xz {
                    *xz = S::from_f64(1.0 - 2.0 / (xz.to_f64() + 1.0));
                }
            }
        }
    }

    /// Whether the kernel is positive semi-definite whatever the rows, so that there is a space where it is an
    /// inner product, and dual values bound the objective. What is precomputed may be anything.
    pub fn is_positive(self) -> bool {
        match self {
            Kernel::Linear | Kernel::Rbf { .. } => true,
            Kernel::Poly { coef0, .. } => coef0 >= 0.0,
            Kernel::Sigmoid { .. } | Kernel::Precomputed => false,
        }
    }

    /// What no kernel value among rows of squared norms up to `norm2` exceeds in magnitude.
    pub(crate) fn most(self, norm2: f64) -> f64 {
        match self {
            Kernel::Linear => norm2,
            Kernel::Rbf { .. } | Kernel::Sigmoid { .. } => 1.0,
            Kernel::Poly { gamma, coef0, degree } => power(gamma * norm2 + coef0.abs(), degree),
            Kernel::Precomputed => f64::INFINITY,
        }
    }
}

fn power(mut base: f64, mut exponent: u32) -> f64 {
    let mut product = 1.0;
    while exponent > 0 {
        if exponent & 1 == 1 {
            product *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Csr, Dense};

    #[test]
    fn every_kernel_is_its_formula() {
        let (xz, xx, zz) = (0.7, 1.3, 2.1);
        let (gamma, coef0) = (0.4, -0.3);
        for (kernel, want) in [
            (Kernel::Linear, xz),
            (Kernel::Precomputed, xz),
            (Kernel::Rbf { gamma }, (-gamma * (xx + zz - 2.0 * xz)).exp()),
            (Kernel::Poly { gamma, coef0, degree: 0 }, 1.0),
            (Kernel::Poly { gamma, coef0, degree: 5 }, (gamma * xz + coef0).powi(5)),
            (Kernel::Sigmoid { gamma, coef0 }, (gamma * xz + coef0).tanh()),
        ] {
            assert!((kernel.eval(xz, xx, zz) - want).abs() < 1e-15, "{kernel:?}");
            let mut many = vec![xz as f32; 67];
            kernel.map(&mut many, xx, &vec![zz as f32; 67]);
            assert!(many.iter().all(|k| (f64::from(*k) - want).abs() < 3e-7), "{kernel:?}");
        }
    }

    #[test]
    fn a_gamma_for_rows_is_that_of_the_equal_dense_ones() {
        let dense = Dense::new(&[2.0, 0.0, 0.0, 2.0], 2, 2).unwrap();
        let sparse = Csr::new(&[0, 2, 3], &[0, 0, 1], &[1.0, 1.0, 2.0], 2).unwrap();
        assert_eq!(Kernel::rbf_for(&dense.into()), Kernel::Rbf { gamma: 0.5 });
        assert_eq!(Kernel::rbf_for(&sparse.into()), Kernel::Rbf { gamma: 0.5 });
        // Unsorted, and sums that are 0.
        let dense = Dense::new(&[0.0, 0.5, 3.0, 1.0_f32, 0.0, 0.0], 2, 3).unwrap();
        let (columns, values) =
            ([2_i64, 1, 2, 1, 1, 0, 1], [1.0_f32, 0.25, 2.0, 0.25, 4.0, 1.0, -4.0]);
        let sparse = Csr::new(&[0, 4, 7], &columns, &values, 3).unwrap();
        assert_eq!(Kernel::rbf_for(&dense.into()), Kernel::rbf_for(&sparse.into()));
    }

    #[test]
    fn a_gamma_for_rows_is_one() {
        for x in [
            [1.0, 1.0, 1.0, 1.0],
            [1e200, -1e200, 0.0, 1.0],
            [f64::MAX, f64::MAX, f64::MAX, 1.0],
            [1e-170, 0.0, 0.0, 1e-170],
            [f64::NAN, 0.0, 1.0, 2.0],
            [f64::INFINITY, 0.0, 1.0, 2.0],
            [f64::INFINITY, f64::NEG_INFINITY, 1.0, 2.0],
        ] {
            let rows = Dense::new(&x, 2, 2).unwrap();
            assert_eq!(Kernel::rbf_for(&rows.into()), Kernel::Rbf { gamma: 1.0 }, "{x:?}");
        }
    }

    #[test]
    fn positive_kernels_are_known() {
        let (gamma, degree) = (1.0, 3);
        for (kernel, positive) in [
            (Kernel::Linear, true),
            (Kernel::Rbf { gamma }, true),
            (Kernel::Poly { gamma, coef0: 0.0, degree }, true),
            (Kernel::Poly { gamma, coef0: -1e-9, degree }, false),
            (Kernel::Sigmoid { gamma, coef0: 1.0 }, false),
            (Kernel::Precomputed, false),
        ] {
            assert_eq!(kernel.is_positive(), positive, "{kernel:?}");
        }
    }

    #[test]
    fn far_apart_is_zero_and_nan_stays() {
        let kernel = Kernel::Rbf { gamma: 1.0 };
        assert_eq!(kernel.eval(0.0, 1e300, 1e300), 0.0);
        assert_eq!(kernel.eval(1.0 + 1e-16, 1.0, 1.0), 1.0);
        assert!(kernel.eval(f64::NAN, 1.0, 1.0).is_nan());
        let kernel = Kernel::Sigmoid { gamma: 1.0, coef0: 0.0 };
        assert_eq!((kernel.eval(1e4, 0.0, 0.0), kernel.eval(-1e4, 0.0, 0.0)), (1.0, -1.0));
        assert!(kernel.eval(f64::NAN, 1.0, 1.0).is_nan());
    }
}
