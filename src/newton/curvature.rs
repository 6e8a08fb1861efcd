//! The system of a step: the sum of curvatures, its solution, and what a step costs.

use crate::examples::Examples;
use crate::scalar::Scalar;
use crate::simd::{Lanes, Simd, WIDTH, Weigh};
use crate::threads::side_by_side;

/// The curvature is summed over this many examples for each weight, if more have any. With 20, rare features of a9a got none, and
/// steps along them were hundreds of times too long.
const SAMPLE: usize = 200;

/// Evenly chosen are they where no example has more than so many times the mean part in the curvature of its features.
const EVEN: f64 = 20.0;

/// For so few weights over all of them, which takes no longer than to choose some.
const FEW: usize = 32;

/// No step spends more multiplications than this on curvature.
const MOST_PRODUCTS: usize = 1 << 31;

/// Examples whose curvatures are summed together, and how far apart their columns begin: a power of two would put them all in
/// the same places of a cache.
const CHUNK: usize = 256;
const STRIDE: usize = CHUNK + 8;

/// About how many multiplications of a product of matrices take as long as one of a row with weights; as how many of these
/// one takes of a sparse row with itself, whose product goes where its features say; and as how many a visit. An example of
/// 14 of 123 features took 108 ns row by row and 245 as a product of matrices, one of 104 of 256 5,500 and 1,060.
const PRODUCTS: f64 = 8.0;
const SCATTERED: f64 = 2.0;
const VISIT: f64 = 30.0;

/// Over about how many of so many examples with curvature it is summed, for d weights.
pub(super) fn summed(curved: usize, d: usize) -> usize {
    let enough = if d <= FEW { curved } else { SAMPLE * d };
    curved.min(enough).min(MOST_PRODUCTS / (d * d)).max(1)
}

/// Whether curvature is summed as a product of matrices, row by row else: whichever is faster; and what an example costs.
fn of_an_example<S: Scalar>(data: &Examples<'_, S>, features: usize) -> (bool, f64) {
    let (stored, d) = (data.rows().stored_in_a_row() as f64, features as f64);
    let (by_row, together) = (SCATTERED * stored * stored, d * d / 2.0 / PRODUCTS);
    let as_product = !data.rows().is_sparse() || together < by_row;
    (as_product, if as_product { together } else { by_row })
}

/// About how many epochs of dual ascent take as long as a step.
pub(super) fn epochs_of_a_step<S: Scalar>(data: &Examples<'_, S>, features: usize) -> f64 {
    let (n, d) = (data.len(), features as f64);
    let stored = data.rows().stored_in_a_row() as f64;
    // Each row is met four times, in a step and in a visit.
    let rows = 4.0 * n as f64 * if stored > 0.0 { stored } else { d };
    let (_, of_an_example) = of_an_example(data, features);
    let step = rows + summed(n, features) as f64 * of_an_example + d.powi(3) / 3.0;
    step / (rows + VISIT * n as f64)
}

/// The features of examples that there are weights for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Features<'a> {
    /// How many weights, that of the constant feature counted, and how many without it.
    pub weights: usize,
    pub stored: usize,
    pub constant: f64,
    /// What they are measured from, where that is not 0.
    pub mean: Option<&'a [f64]>,
}

impl Features<'_> {
    /// The examples that the curvature is summed over, with what each stands for, given the curvature of all.
    ///
    /// Where these are not all, each is taken with a chance in proportion to its part in the curvature of its features, summed over
    /// them: of a feature that three rows have all three, and of labels that are nearly all the same the few that bend. Evenly
    /// chosen ones missed a feature that five of 50,000 rows have, or counted it 17 times: the logistic loss was at a gap of 0.28
    /// after a hundred steps, where ten do. Drawn as wheels are spun with many equidistant pointers, in the order of the rows.
    /// Where no row has a far larger part than others, of which `largest` is a bound but for the curvature, they are chosen evenly:
    /// to know the parts takes two passes.
    pub(super) fn sample<S: Scalar>(
        &self,
        data: &Examples<'_, S>,
        curvature: &[f64],
        largest: f64,
    ) -> Vec<(usize, f64)> {
        let curved = || curvature.iter().enumerate().filter(|(_, c)| **c > 0.0);
        let all = curved().count();
        let some = summed(all, self.weights);
        let (sum, most) =
            curved().fold((0.0, 0.0_f64), |(sum, most), (_, c)| (sum + c, most.max(*c)));
        if some >= all || largest * most * all as f64 <= EVEN * sum {
            let stride = all.div_ceil(some).max(1);
            return curved().step_by(stride).map(|(i, c)| (i, c * stride as f64)).collect();
        }
        let square = |j: usize, x: f64| (x - self.mean.map_or(0.0, |mean| mean[j])).powi(2);
        let mut of_features = vec![0.0; self.stored];
        for (i, c) in curved() {
            data.rows().row(i).for_each(|j, x| {
                if let Some(sum) = of_features.get_mut(j) {
                    *sum += c * square(j, x);
                }
            });
        }
        let each = some as f64 / self.weights as f64;
        of_features.iter_mut().for_each(|sum| *sum = if *sum > 0.0 { each / *sum } else { 0.0 });
        let constants = (self.weights - self.stored) as f64 * each / sum;
        let (mut found, mut due) = (Vec::with_capacity(some + some / 8), 0.5);
        for (i, &c) in curved() {
            let mut chance = constants;
            data.rows().row(i).for_each(|j, x| {
                chance += of_features.get(j).map_or(0.0, |times| times * square(j, x));
            });
            let chance = (c * chance).min(1.0);
            due += chance;
            if due >= 1.0 {
                due -= 1.0;
                found.push((i, c / chance));
            }
        }
        found
    }

    /// How many times the mean of all a row's part is, at most: the sum of its squares over their means, over their number. 1, at no
    /// cost, where all examples would be summed over.
    pub(super) fn largest_part<S: Scalar>(&self, data: &Examples<'_, S>, squares: &[f64]) -> f64 {
        if summed(data.len(), self.weights) >= data.len() {
            return 1.0;
        }
        let inverse = |square: &f64| if *square > 0.0 { 1.0 / square } else { 0.0 };
        let inverses: Vec<f64> = squares[..self.stored].iter().map(inverse).collect();
        let parts = (0..data.len()).filter(|i| data.weight(*i) > 0.0).map(|i| {
            let mut part = (self.weights - self.stored) as f64;
            data.rows().row(i).for_each(|j, x| {
                let from = self.mean.map_or(0.0, |mean| mean[j]);
                part += inverses.get(j).map_or(0.0, |inverse| inverse * (x - from).powi(2));
            });
            part
        });
        parts.fold(0.0, f64::max) / self.weights as f64
    }

    /// Adds `c z z'` for examples and their c to the lower half of a matrix, z being all of these features.
    pub(super) fn add_curvature<S: Scalar>(
        &self,
        data: &Examples<'_, S>,
        examples: impl Iterator<Item = (usize, f64)>,
        matrix: &mut [f64],
    ) {
        let (as_product, _) = of_an_example(data, self.stored);
        if as_product {
            self.add_as_product(data, examples, matrix);
        } else {
            self.add_by_row(data, examples, matrix);
        }
    }

    /// [`add_curvature`](Features::add_curvature) row by row.
    fn add_by_row<S: Scalar>(
        &self,
        data: &Examples<'_, S>,
        examples: impl Iterator<Item = (usize, f64)>,
        matrix: &mut [f64],
    ) {
        let (d, features, constant) = (self.weights, self.stored, self.constant);
        for (i, c) in examples {
            let row = data.rows().row(i);
            row.for_each(|j, x| {
                if j >= features {
                    // The arrays are being rewritten; what that has spoilt of w, evaluations tell.
                    return;
                }
                if x != 0.0 {
                    row.add_times(c * x, &mut matrix[j * d..=j * d + j]);
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

    /// [`add_curvature`](Features::add_curvature) as a product of matrices.
    fn add_as_product<S: Scalar>(
        &self,
        data: &Examples<'_, S>,
        examples: impl Iterator<Item = (usize, f64)>,
        matrix: &mut [f64],
    ) {
        let (d, features) = (self.weights, self.stored);
        let (mut examples, mean) = (examples.peekable(), self.mean);
        // Of a chunk of examples the features, column by column, and some columns of them side by side.
        let mut columns = vec![0.0; d * STRIDE];
        let mut block = vec![Lanes([0.0; WIDTH]); CHUNK];
        let mut products = vec![0.0; d * WIDTH];
        while examples.peek().is_some() {
            let mut count = 0;
            if data.rows().is_sparse() {
                columns.fill(0.0);
            }
            for (i, c) in examples.by_ref().take(CHUNK) {
                let root = c.sqrt();
                let mut put = |j: usize, x: f64| columns[j * STRIDE + count] = root * x;
                data.rows().row(i).for_each(|j, x| {
                    // As row by row: there may be others.
                    if j < features {
                        put(j, x - mean.map_or(0.0, |mean| mean[j]));
                    }
                });
                (features..d).for_each(|j| put(j, self.constant));
                count += 1;
            }
            for first in (0..d).step_by(WIDTH) {
                let last = d.min(first + WIDTH);
                for (k, lanes) in block[..count].iter_mut().enumerate() {
                    for (lane, j) in lanes.0.iter_mut().zip(first..last) {
                        *lane = columns[j * STRIDE + k];
                    }
                }
                let rows: Vec<&[f64]> =
                    (first..d).map(|j| &columns[j * STRIDE..][..count]).collect();
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

/// Rows of a factor that are found together, and of these so many by a task.
const BLOCK: usize = 64;
const TASK: usize = 16;

/// Makes of the lower half of a symmetric d x d matrix, which alone is looked at, its Cholesky factor, with so much added to the
/// diagonal. `None` if it is not positive definite. d^3/6 multiplications, from the second block of rows on side by side.
pub(crate) fn factorise(matrix: &mut [f64], d: usize, added: f64) -> Option<()> {
    /// The entry of a row at the column of a row before it.
    fn below(row: &mut [f64], before: &[f64], j: usize) {
        row[j] = (row[j] - f64::dot(&before[..j], &row[..j])) / before[j];
    }
    for start in (0..d).step_by(BLOCK) {
        let end = d.min(start + BLOCK);
        let (done, own) = matrix[..end * d].split_at_mut(start * d);
        if start > 0 {
            let mut tasks: Vec<&mut [f64]> = own.chunks_mut(TASK * d).collect();
            side_by_side(&mut tasks, |_, rows| {
                for (j, before) in done.chunks(d).enumerate() {
                    rows.chunks_mut(d).for_each(|row| below(row, before, j));
                }
            });
        }
        for i in start..end {
            let (before, row) = own.split_at_mut((i - start) * d);
            (start..).zip(before.chunks(d)).for_each(|(j, before)| below(row, before, j));
            let pivot = row[i] + added - f64::dot(&row[..i], &row[..i]);
            if !(pivot > 0.0 && pivot.is_finite()) {
                return None;
            }
            row[i] = pivot.sqrt();
        }
    }
    Some(())
}

/// Solves `matrix x = b` for a symmetric positive definite d x d matrix, by its Cholesky factor; looks at
/// its lower half only.
/// `None` if it is not positive definite.
pub(crate) fn solve(matrix: &mut [f64], d: usize, b: &mut [f64]) -> Option<()> {
    factorise(matrix, d, 0.0)?;
    for j in 0..d {
        let sum: f64 = matrix[j * d..j * d + j].iter().zip(&*b).map(|(a, b)| a * b).sum();
        b[j] = (b[j] - sum) / matrix[j * d + j];
    }
    for j in (0..d).rev() {
        b[j] /= matrix[j * d + j];
        let x = b[j];
        for (b, a) in b[..j].iter_mut().zip(&matrix[j * d..j * d + j]) {
            *b -= a * x;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use rand_pcg::Pcg64;
    use rand_pcg::rand_core::Rng;

    use super::*;
    use crate::data::{Csr, Dense};

    #[test]
    fn solves() {
        // Less than a block of rows, and several.
        for (d, most) in [(7, 1e-10), (2 * BLOCK + 5, 1e-8)] {
            // B B' + I for a B of no pattern.
            let b: Vec<f64> = (0..d * d).map(|k| ((k * 37 + 11) % 19) as f64 / 7.0 - 1.0).collect();
            let mut matrix = vec![0.0; d * d];
            for i in 0..d {
                for j in 0..d {
                    let sum: f64 = (0..d).map(|k| b[i * d + k] * b[j * d + k]).sum();
                    matrix[i * d + j] = sum + f64::from(u8::from(i == j));
                }
            }
            let x: Vec<f64> = (0..d).map(|k| k as f64 - 2.5).collect();
            let mut got: Vec<f64> =
                (0..d).map(|i| (0..d).map(|j| matrix[i * d + j] * x[j]).sum()).collect();
            solve(&mut matrix.clone(), d, &mut got).unwrap();
            for (got, x) in got.iter().zip(&x) {
                assert!((got - x).abs() < most);
            }
            for at in [0, d * d - 1] {
                let mut matrix = matrix.clone();
                matrix[at] = -1.0;
                assert!(solve(&mut matrix, d, &mut got).is_none());
            }
        }
    }

    /// By products of matrices as row by row, with a constant feature and without, whole chunks and not, rows with zeros left
    /// out and not.
    #[test]
    fn products_are_sums_row_by_row() {
        let (n, d) = (2 * CHUNK + 7, WIDTH + 3);
        let mut rng = Pcg64::new(1, 2);
        let mut draw = || rng.next_u32() as f64 / 2e9 - 1.0;
        let x: Vec<f64> = (0..n * d).map(|_| draw().max(-0.3) + 0.3).collect();
        let y: Vec<u32> = (0..n).map(|i| i as u32 % 2).collect();
        let (mut indptr, mut indices, mut values) = (vec![0_i32], Vec::new(), Vec::new());
        for row in x.chunks(d) {
            for (j, x) in row.iter().enumerate().filter(|(_, x)| **x != 0.0) {
                indices.push(j as i32);
                values.push(*x);
            }
            indptr.push(indices.len() as i32);
        }
        let dense = Examples::new(Dense::new(&x, n, d).unwrap(), &y, None).unwrap();
        let sparse = Csr::new(&indptr, &indices, &values, d).unwrap();
        let sparse = Examples::new(sparse, &y, None).unwrap();
        for constant in [0.0, 3.0] {
            let size = d + usize::from(constant > 0.0);
            let features = Features { weights: size, stored: d, constant, mean: None };
            for count in [1, CHUNK, n] {
                let examples = || (0..count).map(|i| (i, 0.5 + i as f64 / n as f64));
                let mut want = vec![0.0; size * size];
                features.add_by_row(&sparse, examples(), &mut want);
                for data in [&dense, &sparse] {
                    let mut got = vec![0.0; size * size];
                    features.add_as_product(data, examples(), &mut got);
                    for (k, (got, want)) in got.iter().zip(&want).enumerate() {
                        assert!((got - want).abs() <= 1e-12 * count as f64, "{k}: {got} {want}");
                    }
                }
            }
        }
    }

    /// Of features that few rows have all of these count as themselves, and sums over those chosen are about those over all.
    #[test]
    fn samples_miss_no_feature() {
        let (n, d) = (60_000, FEW + 8);
        let mut random = Pcg64::new(5, 6);
        let mut draw = || f64::from(random.next_u32()) / f64::from(u32::MAX) - 0.5;
        let mut x: Vec<f64> = (0..n * d).map(|_| draw()).collect();
        let rows_with = |j: usize| (0..n).skip(17 * j + 3).step_by(n / (j + 2));
        for j in 0..8 {
            (0..n).for_each(|i| x[i * d + j] = 0.0);
            rows_with(j).for_each(|i| x[i * d + j] = 1.0);
        }
        // One row in a hundred has most of the curvature.
        let curvature: Vec<f64> =
            (0..n).map(|i| if i % 100 == 7 { 1.0 } else { 1e-3 * (0.6 + draw()) }).collect();
        let y = vec![0; n];
        let data = Examples::new(Dense::new(&x, n, d).unwrap(), &y, None).unwrap();
        let features = Features { weights: d + 1, stored: d, constant: 1.0, mean: None };
        let some = features.sample(&data, &curvature, f64::INFINITY);
        let wanted = SAMPLE * (d + 1);
        assert!(some.len() > 600 + d && some.len() <= wanted, "{} {wanted}", some.len());
        assert!(some.is_sorted_by_key(|(i, _)| *i));
        for j in 0..d {
            let sum = |terms: &mut dyn Iterator<Item = (usize, f64)>| -> f64 {
                terms.map(|(i, c)| c * x[i * d + j].powi(2)).sum()
            };
            let got = sum(&mut some.iter().copied());
            let want = sum(&mut curvature.iter().copied().enumerate());
            let apart = if j < 8 { 1e-12 } else { 0.15 };
            assert!((got - want).abs() <= apart * want, "{j}: {got} {want}");
        }
        // Few weights, or few rows: all of them.
        let few = Features { weights: FEW, stored: FEW, constant: 1.0, mean: None };
        assert_eq!(few.sample(&data, &curvature, f64::INFINITY).len(), n);
    }
}
