//! The sum of curvatures, and what a step costs.

use super::Descent;
use crate::examples::Examples;
use crate::scalar::Scalar;
use crate::simd::{Lanes, Simd, WIDTH};

/// The curvature is summed over this many examples for each weight, evenly chosen, if more have any. With
/// 20, rare features of a9a got none, and steps along them were hundreds of times too long.
const SAMPLE: usize = 200;

/// No step spends more multiplications than this on curvature, for the same reason.
const MOST_PRODUCTS: usize = 1 << 31;

/// Examples whose curvatures are summed together.
const CHUNK: usize = 256;

/// About how many multiplications of a product of matrices take as long as one of a row with weights; how many of these the sum
/// of a sparse row, times a number, to another takes besides its own; and how many a visit.
const PRODUCTS: f64 = 8.0;
const CALL: f64 = 14.0;
const VISIT: f64 = 30.0;

/// Over how many of so many examples with curvature it is summed, for d weights.
pub(super) fn summed(curved: usize, d: usize) -> usize {
    curved.min(SAMPLE * d).min(MOST_PRODUCTS / (d * d)).max(1)
}

/// About how many epochs of dual ascent take as long as a step.
pub(super) fn epochs_of_a_step<S: Scalar>(data: &Examples<'_, S>, features: usize) -> f64 {
    let (n, d) = (data.len(), features as f64);
    let (stored, of_a_row) = match data.rows().stored_in_a_row() as f64 {
        stored if stored > 0.0 => (stored, stored * (CALL + stored / PRODUCTS)),
        _ => (d, d * d / 2.0 / PRODUCTS),
    };
    // Each row is met four times, in a step and in a visit.
    let rows = 4.0 * stored * n as f64;
    let step = rows + summed(n, features) as f64 * of_a_row + d.powi(3) / 3.0;
    step / (rows + VISIT * n as f64)
}

impl Descent {
    /// Adds `c z z'` for examples and their c to the lower half of a matrix, z being all features that there are weights for.
    pub(super) fn add_sparse<S: Scalar>(
        &self,
        data: &Examples<'_, S>,
        examples: impl Iterator<Item = (usize, f64)>,
        matrix: &mut [f64],
    ) {
        let (d, features, constant) = (self.w.len(), self.shape.n_features(), self.constant);
        for (i, c) in examples {
            let row = data.rows().row(i);
            row.for_each(|j, x| {
                if j >= features {
                    // The arrays are being rewritten; what that has spoilt of w, evaluations tell.
                    return;
                }
                if x != 0.0 {
                    row.axpy(c * x, &mut matrix[j * d..=j * d + j]);
                }
                if d > features {
                    matrix[features * d + j] += c * x * constant;
                }
            });
            if d > features {
                matrix[d * d - 1] += c * constant * constant;
            }
        }
    }

    /// [`add_sparse`](Descent::add_sparse) of rows without zeros, as a product of matrices.
    pub(super) fn add_dense<S: Scalar>(
        &self,
        data: &Examples<'_, S>,
        examples: impl Iterator<Item = (usize, f64)>,
        matrix: &mut [f64],
    ) {
        let (d, features) = (self.w.len(), self.shape.n_features());
        let mut examples = examples.peekable();
        // Of a chunk of examples the features, column by column, and some columns of them side by side.
        let mut columns = vec![0.0; d * CHUNK];
        let mut block = vec![Lanes([0.0; WIDTH]); CHUNK];
        let mut products = vec![0.0; d * WIDTH];
        while examples.peek().is_some() {
            let mut count = 0;
            for (i, c) in examples.by_ref().take(CHUNK) {
                let root = c.sqrt();
                let mut put = |j: usize, x: f64| columns[j * CHUNK + count] = root * x;
                match self.centre() {
                    Some(mean) => data.rows().row(i).for_each(|j, x| put(j, x - mean[j])),
                    None => data.rows().row(i).for_each(&mut put),
                }
                (features..d).for_each(|j| put(j, self.constant));
                count += 1;
            }
            for first in (0..d).step_by(WIDTH) {
                let last = d.min(first + WIDTH);
                for (k, lanes) in block[..count].iter_mut().enumerate() {
                    for (lane, j) in lanes.0.iter_mut().zip(first..last) {
                        *lane = columns[j * CHUNK + k];
                    }
                }
                let rows: Vec<&[f64]> =
                    (first..d).map(|j| &columns[j * CHUNK..][..count]).collect();
                let products = &mut products[..rows.len() * WIDTH];
                f64::products(&rows, &block[..count], products, WIDTH);
                for (j, products) in (first..d).zip(products.chunks(WIDTH)) {
                    let line = &mut matrix[j * d..=j * d + j];
                    line[first..].iter_mut().zip(products).for_each(|(m, p)| *m += p);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand_pcg::Pcg64;
    use rand_pcg::rand_core::Rng;

    use super::*;
    use crate::data::{Csr, Dense};
    use crate::linear::Linear;
    use crate::loss::{Binary, Logistic};

    /// By products of matrices as row by row, with a constant feature and without, whole chunks and not.
    #[test]
    fn dense_sums_are_sparse_sums() {
        let (n, d) = (2 * CHUNK + 7, WIDTH + 3);
        let mut rng = Pcg64::new(1, 2);
        let x: Vec<f64> = (0..n * d).map(|_| rng.next_u32() as f64 / 2e9 - 1.0).collect();
        let y: Vec<u32> = (0..n).map(|i| i as u32 % 2).collect();
        let indptr: Vec<i32> = (0..=n).map(|i| (i * d) as i32).collect();
        let indices: Vec<i32> = (0..n * d).map(|k| (k % d) as i32).collect();
        let loss = Binary { loss: Logistic, positive: 1 };
        let dense = Examples::new(Dense::new(&x, n, d).unwrap(), &y, None).unwrap();
        let sparse = Examples::new(Csr::new(&indptr, &indices, &x, d).unwrap(), &y, None).unwrap();
        for constant in [0.0, 3.0] {
            let w = Linear::new(1, d, constant).unwrap();
            let descent = Descent::new(&loss, &dense, &w, None).unwrap();
            let size = d + usize::from(constant > 0.0);
            for count in [1, CHUNK, n] {
                let examples = || (0..count).map(|i| (i, 0.5 + i as f64 / n as f64));
                let (mut got, mut want) = (vec![0.0; size * size], vec![0.0; size * size]);
                descent.add_dense(&dense, examples(), &mut got);
                descent.add_sparse(&sparse, examples(), &mut want);
                for (k, (got, want)) in got.iter().zip(&want).enumerate() {
                    assert!((got - want).abs() <= 1e-12 * count as f64, "{k}: {got} {want}");
                }
            }
        }
    }
}
