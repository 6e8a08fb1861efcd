//! Whether kernel values that somebody has computed are those of a kernel that is positive semi-definite.
//!
//! As in Python: the matrix is symmetric up to rounding, and a Cholesky factorisation in double precision succeeds with
//! `max(4 sqrt(n) eps, 8 n 2^-52) max|K|` added to the diagonal, eps being that of the scalar. n^3/6 multiplications, side by
//! side, and n^2 numbers in double precision.

use crate::data::Matrix;
use crate::error::Error;
use crate::memory;
use crate::newton::factorise;
use crate::scalar::Scalar;

/// Whether the rows of this matrix, which must be finite, are such values. An error where there is no room to look.
pub(super) fn is_positive<S: Scalar>(x: &Matrix<'_, S>) -> Result<bool, Error> {
    let n = x.n_rows();
    if x.n_features() != n {
        return Ok(false);
    }
    let mut factor = memory::zeros::<f64>("kernel values", &[n, n])?;
    let (mut size, mut inside): (f64, bool) = (0.0, true);
    for (i, row) in factor.chunks_mut(n).enumerate() {
        x.row(i).for_each(|j, value| match row.get_mut(j) {
            Some(sum) => *sum += value,
            None => inside = false,
        });
        size = row.iter().fold(size, |most, value| most.max(value.abs()));
    }
    let rounding = (4.0 * (n as f64).sqrt() * S::EPSILON).max(8.0 * n as f64 * f64::EPSILON) * size;
    let alike = |i: usize, j: usize| (factor[i * n + j] - factor[j * n + i]).abs() <= rounding;
    let sound = |i: usize| factor[i * n + i] >= 0.0 && (0..i).all(|j| alike(i, j));
    let sound = inside && rounding.is_finite() && (0..n).all(sound);
    Ok(sound && (size == 0.0 || factorise(&mut factor, n, rounding).is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Dense;

    #[test]
    fn matrices_are_told_apart() {
        let n = 150;
        let points: Vec<f64> = (0..n).map(|i| (i * 7919 % 331) as f64 / 60.0).collect();
        let gram = |k: &dyn Fn(f64, f64) -> f64| -> Vec<f64> {
            (0..n * n).map(|at| k(points[at / n], points[at % n])).collect()
        };
        let rbf = |x: f64, z: f64| (-(x - z) * (x - z)).exp();
        let cases: [(Vec<f64>, bool); 6] = [
            (gram(&rbf), true),
            // Of rank 1, and of rank 0.
            (gram(&|x, z| x * z), true),
            (gram(&|_, _| 0.0), true),
            (gram(&|x, z| (x - z).abs()), false),
            (gram(&|x, z| rbf(x, z) - 0.5), false),
            (gram(&|x, z| if x < z { 0.0 } else { rbf(x, z) }), false),
        ];
        for (k, (matrix, want)) in cases.iter().enumerate() {
            let rows = Matrix::from(Dense::new(matrix, n, n).expect("rows"));
            assert_eq!(is_positive(&rows).expect("room"), *want, "{k}");
            let narrow: Vec<f32> = matrix.iter().map(|value| *value as f32).collect();
            let rows = Matrix::from(Dense::new(&narrow, n, n).expect("rows"));
            assert_eq!(is_positive(&rows).expect("room"), *want, "{k} in f32");
        }
    }
}
