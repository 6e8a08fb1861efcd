//! The span of kernel functions around landmarks, and an orthonormal basis of it.
//!
//! * Basis: with `K = L L'` the kernel values of the landmarks among themselves, `z(x) = L^-1 k(landmarks, x)` are the
//!   coordinates of `phi(x)`, projected onto the span; `<w, z(x)>` is a kernel machine with coefficients
//!   `L^-T w`, and `||w||` its norm in the space of the kernel. So any linear method, fed with z, trains the
//!   best kernel machine that these landmarks allow (Nystroem features: Williams and Seeger 2001).
//! * Rank: landmarks are taken in order, and one whose squared distance to the span of those before it is
//!   small is not needed: near duplicates, and what a kernel that is not positive definite makes of others.
//! * Factorisation: a panel of [`WIDTH`] landmarks at a time; `L^-1` itself is built, row by row, as it is
//!   what features need. All in f64 whatever the scalar.
//! * Cost: O(m^2 (m + features)) once for m landmarks; features O(m (m + features)) a row, as matrix products
//!   that read only the lower half. Memory: O(m (m + features)).
//! * Determinism: a row's features are computed by one thread, in an order that depends on nothing else.

use std::ops::Range;

use crate::data::{Dense, Matrix, OwnedRow, same_features};
use crate::error::Error;
use crate::expansion::Expansion;
use crate::hypothesis::Hypothesis;
use crate::kernel::Kernel;
use crate::memory;
use crate::metric::Metric;
use crate::scalar::Scalar;
use crate::simd::{Lanes, Simd, TALL, WIDTH};
use crate::threads::{self, side_by_side};
use crate::vectors::{GROUP, Layout, Vectors};

/// Rows of a triangle that one task multiplies: a multiple of [`TALL`].
const ROWS: usize = 3 * TALL;

/// Rows whose features one task computes at most, as `L^-1` comes from far away for each task; and how many of their kernel
/// values are multiplied with all of it at a time, so that the second cache holds them. Trials on an AMD EPYC (Zen 3, 512 KB of
/// L2), 2,000 landmarks: 0.4 to 0.6 of the time that tasks of 24 rows took, in one piece; of 500 landmarks the same.
const MOST: usize = 8 * GROUP;
const SOME: usize = 256;

/// Outputs and columns whose coefficients are summed side by side, in the first cache.
const TOGETHER: usize = 16;
const COLUMNS: usize = 128;

/// The span of kernel functions.
///
/// ```
/// use pegasos::{Dense, Kernel, Matrix, Span};
///
/// let x = Matrix::from(Dense::new(&[0.0, 1.0, 1.0, 3.0_f64], 4, 1)?);
/// let span = Span::new(Kernel::Rbf { gamma: 0.5 }, &x, &[0, 1, 2, 3])?;
/// // The second 1.0 adds nothing to the first.
/// assert_eq!(span.basis(), [0, 1, 3]);
/// let mut z = [0.0; 6];
/// span.features(&x, &[1, 3], &mut z);
/// let product: f64 = z[..3].iter().zip(&z[3..]).map(|(a, b)| a * b).sum();
/// assert!((product - (-0.5 * 4.0_f64).exp()).abs() < 1e-12);
/// # Ok::<(), pegasos::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Span<S> {
    kernel: Kernel,
    /// How many landmarks there were.
    landmarks: usize,
    /// Which of them the basis is made of, in order.
    basis: Vec<usize>,
    vectors: Vectors<S>,
    /// `L^-1`, its rows padded with zeros.
    inverse: Triangle,
    /// `L^-1` in the scalar of the data, [`WIDTH`] rows side by side, up to the last entry that is not 0 in any of them.
    blocks: Vec<Vec<Lanes<S>>>,
    /// What rows are mapped by before, unless they are landmarks.
    metric: Option<Metric<S>>,
}

/// Rows of `stride` entries.
#[derive(Clone, Debug, Default)]
struct Triangle {
    stride: usize,
    values: Vec<f64>,
}

impl Triangle {
    fn row(&self, i: usize) -> &[f64] {
        &self.values[i * self.stride..(i + 1) * self.stride]
    }
}

impl<S: Scalar> Span<S> {
    /// Of these rows. Refuses kernels that are precomputed, as rows know no others, and landmarks of which
    /// none has a positive `k(x, x)` or one is no row.
    pub fn new(kernel: Kernel, x: &Matrix<'_, S>, landmarks: &[usize]) -> Result<Self, Error> {
        x.check_rows(landmarks)?;
        let rows = landmarks.iter().map(|&i| x.row(i).to_owned()).collect();
        let none = Vectors::new(x.n_features(), Layout::of(kernel, x));
        Factor::new(kernel, none, rows)?.span()
    }

    /// Of the vectors of a model.
    pub fn of(model: &Expansion<S>) -> Result<Self, Error> {
        Factor::of(model)?.span()
    }

    /// How many features there are: the number of landmarks in the basis.
    pub fn dimension(&self) -> usize {
        self.basis.len()
    }

    /// Which landmarks the basis is made of, in order.
    pub fn basis(&self) -> &[usize] {
        &self.basis
    }

    /// The features of rows that are mapped first, to as many features as landmarks have.
    pub fn behind(self, metric: Metric<S>) -> Result<Self, Error> {
        same_features(self.vectors.n_features(), metric.dimension())?;
        Ok(Span { metric: Some(metric), ..self })
    }

    /// Refuses rows of another number of features.
    pub fn check_features(&self, n_features: usize) -> Result<(), Error> {
        match &self.metric {
            Some(metric) => metric.check_features(n_features),
            None => same_features(self.vectors.n_features(), n_features),
        }
    }

    /// `z(x)` of these rows, one after the other, on the threads of the current rayon pool. NaN for rows that
    /// are not finite.
    ///
    /// # Panics
    /// If a row is not there or has [other features](Span::check_features), or `out` ends in the midst of the features of one.
    pub fn features(&self, x: &Matrix<'_, S>, rows: &[usize], out: &mut [S]) {
        if let Err(error) = self.check_features(x.n_features()) {
            panic!("{error}");
        }
        let rank = self.dimension();
        let stride = rank.next_multiple_of(WIDTH);
        let task = |_: usize, (rows, out): &mut (&[usize], &mut [S])| {
            let (mut mapped, mut numbers) = (Vec::new(), Vec::new());
            let (x, rows) = match &self.metric {
                Some(metric) => {
                    let d = metric.dimension();
                    mapped.resize(rows.len() * d, S::default());
                    metric.map_group(x, rows, &mut mapped);
                    numbers.extend(0..rows.len());
                    (Dense::new(&mapped, rows.len(), d).map_or(*x, Matrix::from), &numbers[..])
                }
                None => (*x, &**rows),
            };
            let mut z = vec![S::default(); rows.len() * stride];
            let mut k = vec![S::default(); rows.len() * stride.min(SOME)];
            for first in (0..rank).step_by(SOME) {
                let end = rank.min(first + SOME);
                let width = (end - first).next_multiple_of(WIDTH);
                let k = &mut k[..rows.len() * width];
                self.vectors.kernel_values(self.kernel, &x, rows, first..end, k, width);
                let k: Vec<&[S]> = k.chunks(width).collect();
                for (b, block) in self.blocks.iter().enumerate().skip(first / WIDTH) {
                    let block = &block[first..block.len().min(end)];
                    S::add_products(&k, block, &mut z[b * WIDTH..], stride);
                }
            }
            for (out, z) in out.chunks_mut(rank).zip(z.chunks(stride)) {
                out.copy_from_slice(&z[..rank]);
            }
        };
        let even = rows.len().div_ceil(threads::count()).next_multiple_of(GROUP);
        let each = even.clamp(GROUP, MOST);
        let mut tasks: Vec<(&[usize], &mut [S])> =
            rows.chunks(each).zip(out.chunks_mut(each * rank)).collect();
        side_by_side(&mut tasks, task);
    }

    /// The coefficients of all landmarks, landmarks x outputs, that weights of the features, outputs x
    /// dimension, stand for: `L^-T w`; 0 for landmarks that are not in the basis.
    pub fn coefs(&self, weights: &[f64]) -> Vec<f64> {
        let rank = self.dimension();
        let outputs = weights.len() / rank;
        let mut coefs = vec![0.0; self.landmarks * outputs];
        self.add_coefs(weights, 0..outputs, &mut coefs);
        coefs
    }

    /// Writes those of some of the outputs into zeros. O(dimension^2) each; of the matrix, which no cache holds, a piece is
    /// read once for [`TOGETHER`] outputs.
    pub(crate) fn add_coefs(&self, weights: &[f64], some: Range<usize>, out: &mut [f64]) {
        let rank = self.dimension();
        let outputs = weights.len() / rank;
        for first in some.clone().step_by(TOGETHER) {
            let few = first..some.end.min(first + TOGETHER);
            for from in (0..rank).step_by(COLUMNS) {
                let columns = from..rank.min(from + COLUMNS);
                let mut coefs = [[0.0; COLUMNS]; TOGETHER];
                for j in from..rank {
                    let row = &self.inverse.row(j)[from..columns.end.min(j + 1)];
                    for (coefs, o) in coefs.iter_mut().zip(few.clone()) {
                        let w = weights[o * rank + j];
                        coefs.iter_mut().zip(row).for_each(|(coef, value)| *coef += w * value);
                    }
                }
                for (coefs, o) in coefs.iter().zip(few.clone()) {
                    for (i, coef) in self.basis[columns.clone()].iter().zip(coefs) {
                        out[i * outputs + o] = *coef;
                    }
                }
            }
        }
    }
}

/// The squared distance to a span, of `k(x, x)`, from which on a landmark adds something to it. Features of what is
/// nearer would be mostly roundings of kernel values.
fn least_distance<S: Scalar>() -> f64 {
    if size_of::<S>() == size_of::<f32>() { 1e-4 } else { 1e-11 }
}

fn widen<S: Scalar>(row: &OwnedRow<S>) -> OwnedRow<f64> {
    let wide = |values: &[S]| values.iter().map(|x| x.to_f64()).collect();
    match row {
        OwnedRow::Dense(values) => OwnedRow::Dense(wide(values)),
        OwnedRow::Sparse { indices, values } => {
            OwnedRow::Sparse { indices: indices.clone(), values: wide(values) }
        }
    }
}

/// `out[i] = sum_k triangle[i][k] block[k]` for the first `count` rows, on all threads; an upper triangle is read
/// from the diagonal on, a lower one up to it.
fn multiply(triangle: &Triangle, count: usize, upper: bool, block: &[Lanes<f64>]) -> Vec<f64> {
    let mut out = vec![0.0; count * WIDTH];
    let task = |t: usize, out: &mut &mut [f64]| {
        let rows = t * ROWS..count.min((t + 1) * ROWS);
        let columns = if upper { rows.start..block.len() } else { 0..rows.end.min(block.len()) };
        for (k, out) in out.chunks_mut(TALL * WIDTH).enumerate() {
            let first = rows.start + k * TALL;
            let tile: [&[f64]; TALL] = std::array::from_fn(|r| {
                &triangle.row((first + r).min(rows.end - 1))[columns.clone()]
            });
            f64::products(&tile[..out.len() / WIDTH], &block[columns.clone()], out, WIDTH);
        }
    };
    let mut tasks: Vec<&mut [f64]> = out.chunks_mut(ROWS * WIDTH).collect();
    side_by_side(&mut tasks, task);
    out
}

/// A [`Span`] in the making, a panel of landmarks at a time: which of them are not within the span of those before
/// them, and the inverse of the Cholesky factor of their kernel values.
pub(crate) struct Factor<S> {
    kernel: Kernel,
    /// Without vectors, in the layout that those of the span will have.
    none: Vectors<S>,
    rows: Vec<OwnedRow<S>>,
    /// The next landmark.
    at: usize,
    basis: Vec<usize>,
    vectors: Vectors<f64>,
    inverse: Triangle,
    /// The transpose of the inverse, as products want it the other way, too.
    transpose: Triangle,
}

impl<S: Scalar> Factor<S> {
    /// Of the vectors of a model.
    pub(crate) fn of(model: &Expansion<S>) -> Result<Self, Error> {
        let owned = |slot| {
            let (mut indices, mut values) = (Vec::new(), Vec::new());
            model.for_each(slot, |j, x| {
                indices.push(j as i64);
                values.push(x);
            });
            if indices.len() < model.n_features() / 4 {
                return OwnedRow::Sparse { indices, values };
            }
            let mut dense = vec![S::default(); model.n_features()];
            model.vector(slot, &mut dense);
            OwnedRow::Dense(dense)
        };
        model.check_copy()?;
        let rows = (0..model.n_vectors()).map(owned).collect();
        Factor::new(model.kernel(), model.no_vectors(), rows)
    }

    fn new(kernel: Kernel, none: Vectors<S>, rows: Vec<OwnedRow<S>>) -> Result<Self, Error> {
        kernel.check()?;
        if kernel == Kernel::Precomputed {
            let want = "one of features, as landmarks are taken out of their matrix";
            return Err(Error::parameter("kernel", "precomputed", want));
        }
        let (n, n_features) = (rows.len(), none.n_features());
        let stride = n.next_multiple_of(WIDTH);
        // The inverse, its transpose and the blocks of the span; the landmarks, packed, and wide.
        memory::check::<[f64; 3]>("the basis of the span", &[n, stride])?;
        let all = n.saturating_mul(n_features);
        let stored = |row: &OwnedRow<S>| row.row().stored();
        let numbers = if none.are_packed() { all } else { rows.iter().map(stored).sum() };
        memory::check::<[f64; 3]>("the landmarks", &[numbers])?;
        none.check_room(n)?;
        Ok(Factor {
            kernel,
            none,
            rows,
            at: 0,
            basis: Vec::new(),
            vectors: Vectors::new(n_features, Layout::Sparse),
            inverse: Triangle { stride, values: Vec::new() },
            transpose: Triangle { stride, values: Vec::new() },
        })
    }

    /// The span, once all landmarks have been looked at.
    pub(crate) fn span(mut self) -> Result<Span<S>, Error> {
        while self.advance() {}
        let Factor { kernel, none: mut vectors, rows, basis, inverse, .. } = self;
        if basis.is_empty() {
            return Err(Error::shape(
                "landmarks",
                "one at least with k(x, x) > 0",
                format_args!("{} without", rows.len()),
            ));
        }
        for &k in &basis {
            vectors.push(k, rows[k].row());
        }
        let rank = basis.len();
        let block = |b: usize| {
            let rows = b * WIDTH..rank.min((b + 1) * WIDTH);
            let mut lanes = vec![Lanes([S::default(); WIDTH]); rows.end];
            for (k, i) in rows.enumerate() {
                for (lanes, value) in lanes.iter_mut().zip(inverse.row(i)) {
                    lanes.0[k] = S::from_f64(*value);
                }
            }
            lanes
        };
        let blocks = (0..rank.div_ceil(WIDTH)).map(block).collect();
        let landmarks = rows.len();
        Ok(Span { kernel, landmarks, basis, vectors, inverse, blocks, metric: None })
    }

    /// Looks at the next panel of landmarks; false where there is none.
    pub(crate) fn advance(&mut self) -> bool {
        let Factor { kernel, rows, at, basis, vectors, inverse, transpose, .. } = self;
        let (kernel, start) = (*kernel, *at);
        let wide: Vec<_> = rows[start..].iter().take(WIDTH).map(widen).collect();
        if wide.is_empty() {
            return false;
        }
        *at += wide.len();
        let x = Matrix::Owned(&wide, vectors.n_features());
        let (stride, least) = (inverse.stride, least_distance::<S>());
        let panel: Vec<usize> = (0..wide.len()).collect();
        let rank = basis.len();
        // Kernel values with the basis, basis x panel, and among the panel.
        let mut k = vec![0.0; panel.len() * stride];
        vectors.kernel_values(kernel, &x, &panel, 0..rank, &mut k, stride);
        let mut block = vec![Lanes([0.0; WIDTH]); rank];
        for (lane, row) in k.chunks(stride).enumerate() {
            block.iter_mut().zip(row).for_each(|(lanes, k)| lanes.0[lane] = *k);
        }
        let mut own = Vectors::new(x.n_features(), Layout::Sparse);
        panel.iter().for_each(|&i| own.push(i, x.row(i)));
        let mut left = [[0.0; WIDTH]; WIDTH];
        own.kernel_values(kernel, &x, &panel, 0..panel.len(), left.as_flattened_mut(), WIDTH);
        let diagonal: [f64; WIDTH] = std::array::from_fn(|a| left[a][a]);
        // What the span of the basis leaves of them.
        let z = multiply(inverse, rank, false, &block);
        let (z, _) = z.as_chunks::<WIDTH>();
        for z in z {
            for (a, left) in left.iter_mut().enumerate() {
                left.iter_mut().zip(z).for_each(|(left, zb)| *left -= z[a] * zb);
            }
        }
        // Cholesky among them, without those that are spanned.
        let mut taken: Vec<usize> = Vec::new();
        let mut factor = [[0.0; WIDTH]; WIDTH];
        for a in 0..panel.len() {
            // False for NaN too.
            let apart = left[a][a] > least * diagonal[a];
            if !apart {
                continue;
            }
            let pivot = left[a][a].sqrt();
            factor[taken.len()] = left[a].map(|value| value / pivot);
            let row = factor[taken.len()];
            for b in a + 1..panel.len() {
                left[b].iter_mut().zip(&row).for_each(|(left, r)| *left -= row[b] * r);
            }
            taken.push(a);
        }
        let block: Vec<Lanes<f64>> = z.iter().map(|z| Lanes(*z)).collect();
        let back = multiply(transpose, rank, true, &block);
        // New rows (e_p - z' L^-1 - sum_q C_pq row_q) / C_pp, with C the small factor.
        let grown = rank + taken.len();
        inverse.values.resize(grown * stride, 0.0);
        transpose.values.resize(grown * stride, 0.0);
        for (p, &a) in taken.iter().enumerate() {
            let (before, row) = inverse.values.split_at_mut((rank + p) * stride);
            for (value, back) in row.iter_mut().zip(back.chunks(WIDTH)) {
                *value = -back[a];
            }
            row[rank + p] = 1.0;
            for (q, old) in before.chunks(stride).skip(rank).enumerate() {
                let c = factor[q][a];
                row.iter_mut().zip(old).take(rank + p).for_each(|(value, old)| *value -= c * old);
            }
            let pivot = factor[p][a];
            row.iter_mut().take(rank + p + 1).for_each(|value| *value /= pivot);
            for (i, value) in row.iter().take(rank + p + 1).enumerate() {
                transpose.values[i * stride + rank + p] = *value;
            }
            basis.push(start + a);
            vectors.push(start + a, x.row(a));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_pcg::Pcg64;
    use rand_pcg::rand_core::Rng;

    fn uniform(random: &mut Pcg64) -> f64 {
        (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Products of features of landmarks are kernel values, and weights of features are coefficients.
    #[test]
    fn features_are_coordinates() {
        let mut random = Pcg64::new(5, 0);
        for (n, d) in [(1, 3), (31, 2), (32, 4), (33, 3), (100, 5), (257, 6)] {
            let mut x: Vec<f64> = (0..n * d).map(|_| 4.0 * uniform(&mut random)).collect();
            // Some twice.
            for k in (3..n).step_by(7) {
                x.copy_within((k - 3) * d..(k - 2) * d, k * d);
            }
            let rows = Matrix::from(Dense::new(&x, n, d).expect("a matrix"));
            let all: Vec<usize> = (0..n).collect();
            for kernel in
                [Kernel::Rbf { gamma: 1.0 }, Kernel::Poly { gamma: 0.3, coef0: 1.0, degree: 3 }]
            {
                let span = Span::new(kernel, &rows, &all).expect("a span");
                let twice = (3..n).step_by(7).count();
                assert!(span.dimension() <= n - twice);
                let rank = span.dimension();
                let mut z = vec![0.0; n * rank];
                span.features(&rows, &all, &mut z);
                let inner = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
                let value = |i: usize, j: usize| {
                    let (a, b) = (&x[i * d..(i + 1) * d], &x[j * d..(j + 1) * d]);
                    kernel.eval(inner(a, b), inner(a, a), inner(b, b))
                };
                for i in 0..n {
                    for j in 0..=i {
                        let (got, want) =
                            (inner(&z[i * rank..][..rank], &z[j * rank..]), value(i, j));
                        let near = (got - want).abs() < 1e-6 * value(i, i).max(1.0);
                        assert!(near, "{kernel:?} {n} {i} {j} {got} {want}");
                    }
                }
                // Weights of features are coefficients of landmarks.
                let outputs = TOGETHER + 2;
                let w: Vec<f64> = (0..outputs * rank).map(|_| uniform(&mut random) - 0.5).collect();
                let coefs = span.coefs(&w);
                for i in 0..n.min(20) {
                    for o in 0..outputs {
                        let by_features = inner(&w[o * rank..][..rank], &z[i * rank..]);
                        let by_kernel: f64 =
                            (0..n).map(|j| coefs[j * outputs + o] * value(i, j)).sum();
                        assert!((by_features - by_kernel).abs() < 1e-5 * (1.0 + by_features.abs()));
                    }
                }
            }
        }
    }

    /// Of more landmarks than are multiplied at a time, and rows by themselves or many of them: products of features are kernel
    /// values.
    #[test]
    fn many_landmarks_are_the_same_features() -> Result<(), Error> {
        let mut random = Pcg64::new(6, 0);
        let (n, d) = (SOME + 3 * WIDTH + 5, 4);
        let x: Vec<f64> = (0..n * d).map(|_| 4.0 * uniform(&mut random)).collect();
        let rows = Matrix::from(Dense::new(&x, n, d)?);
        let all: Vec<usize> = (0..n).collect();
        let kernel = Kernel::Rbf { gamma: 3.0 };
        let span = Span::new(kernel, &rows, &all[5..])?;
        let rank = span.dimension();
        assert!(rank > SOME + WIDTH);
        let mut z = vec![0.0; n * rank];
        span.features(&rows, &all, &mut z);
        for i in (0..n).step_by(97) {
            let mut alone = vec![0.0; rank];
            span.features(&rows, &[i], &mut alone);
            assert_eq!(alone, z[i * rank..][..rank]);
        }
        let inner = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        for (i, j) in (5..n).step_by(31).flat_map(|i| (5..n).step_by(89).map(move |j| (i, j))) {
            let (a, b) = (&x[i * d..][..d], &x[j * d..][..d]);
            let want = kernel.eval(inner(a, b), inner(a, a), inner(b, b));
            let got = inner(&z[i * rank..][..rank], &z[j * rank..][..rank]);
            assert!((got - want).abs() < 1e-6, "{i} {j} {got} {want}");
        }
        Ok(())
    }
}
