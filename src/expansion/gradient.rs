//! How the scores change with the features.

use super::Expansion;
use crate::data::{Dense, Matrix, same_features};
use crate::error::{Error, check_out};
use crate::examples::diagnose;
use crate::kernel::Kernel;
use crate::memory;
use crate::scalar::Scalar;
use crate::simd::{Lanes, WIDTH};
use crate::threads::side_by_side;
use crate::vectors::{GROUP, Layout, Vectors};

/// What gradients are computed from: of `f_o(x) = sum_s v_so exp(-gamma ||x - z_s||^2)` that at x is
/// `sum_s 2 gamma v_so k(x, z_s) (z_s - x)`, two products of matrices.
struct Slopes<'a, S> {
    w: &'a Expansion<S>,
    gamma: f64,
    /// `2 gamma v_so`, output after output.
    coefs: Vec<S>,
    /// The vectors feature by feature, each feature a vector with an entry for each of them, where they are packed.
    features: Option<Vectors<S>>,
}

impl<S: Scalar> Expansion<S> {
    /// Writes the gradients of the scores of these rows in the features: rows x outputs x features. On the threads of the
    /// current rayon pool; O(rows outputs n_vectors features). Refuses other kernels than [`Kernel::Rbf`], rows that are not
    /// there or not finite, and an `out` that is not of their size.
    ///
    /// ```
    /// use pegasos::{Dense, Expansion, Hypothesis, Kernel, Matrix};
    ///
    /// let x = Matrix::from(Dense::new(&[0.0, 0.0, 1.0, 2.0_f64], 2, 2)?);
    /// let mut w = Expansion::new(Kernel::Rbf { gamma: 0.5 }, 1, 2)?;
    /// w.add(0, x.row(0), &[1.0]);
    /// let mut gradient = [0.0; 2];
    /// w.gradients(&x, &[1], &mut gradient)?;
    /// let k = (-2.5_f64).exp();
    /// assert!((gradient[0] + k).abs() < 1e-15 && (gradient[1] + 2.0 * k).abs() < 1e-15);
    /// # Ok::<(), pegasos::Error>(())
    /// ```
    pub fn gradients(&self, x: &Matrix<'_, S>, rows: &[usize], out: &mut [S]) -> Result<(), Error> {
        same_features(self.n_features(), x.n_features())?;
        x.check_rows(rows)?;
        check_out(&[rows.len(), self.outputs, self.n_features()], out.len())?;
        Slopes::new(self)?.write(x, rows, out)
    }
}

impl<'a, S: Scalar> Slopes<'a, S> {
    fn new(w: &'a Expansion<S>) -> Result<Self, Error> {
        let Kernel::Rbf { gamma } = w.kernel else {
            let want = "Rbf, as gradients of others are not known here";
            return Err(Error::parameter("kernel", format_args!("{:?}", w.kernel), want));
        };
        let (n, d) = (w.n_vectors(), w.n_features());
        let mut coefs = memory::zeros("the coefficients", &[w.outputs, n])?;
        let mut own = vec![0.0; w.outputs];
        for s in 0..n {
            w.coef(s, &mut own);
            for (o, coef) in own.iter().enumerate() {
                coefs[o * n + s] = S::from_f64(2.0 * gamma * coef);
            }
        }
        let mut features = None;
        if n > 0 && w.vectors.are_packed() {
            memory::check::<[S; 2]>("the support vectors, feature by feature", &[n, d])?;
            let mut by_vector: Vec<S> = memory::zeros("the support vectors", &[n, d])?;
            for (s, features) in by_vector.chunks_mut(d).enumerate() {
                w.vectors.write(s, features);
            }
            let by_feature: Vec<S> =
                (0..d).flat_map(|j| by_vector[j..].iter().step_by(d).copied()).collect();
            let rows = Dense::new(&by_feature, d, n)?;
            let mut packed = Vectors::new(n, Layout::Dense);
            packed.reserve(d)?;
            (0..d).for_each(|j| packed.push(j, rows.row(j)));
            features = Some(packed);
        }
        Ok(Slopes { w, gamma, coefs, features })
    }

    /// See [`Expansion::gradients`].
    fn write(&self, x: &Matrix<'_, S>, rows: &[usize], out: &mut [S]) -> Result<(), Error> {
        let each = self.w.outputs * self.w.n_features();
        if self.w.n_vectors() == 0 {
            out.fill(S::default());
            // Else no product would meet what they hold.
            let d = self.w.n_features();
            let fits = |&i: &usize| x.row(i).is_within(d) && x.row(i).norm2().is_finite();
            let wrong = rows.iter().find(|i| !fits(i));
            return wrong.map_or(Ok(()), |&i| Err(diagnose(x, i)));
        }
        let mut tasks: Vec<(&[usize], &mut [S])> =
            rows.chunks(GROUP).zip(out.chunks_mut(GROUP * each)).collect();
        side_by_side(&mut tasks, |_, (rows, out)| self.of_group(x, rows, out));
        match out.iter().position(|slope| !slope.to_f64().is_finite()) {
            Some(at) => Err(diagnose(x, rows[at / each])),
            None => Ok(()),
        }
    }

    fn of_group(&self, x: &Matrix<'_, S>, rows: &[usize], out: &mut [S]) {
        let (n, d, outputs) = (self.w.n_vectors(), self.w.n_features(), self.w.outputs);
        let vectors = &self.w.vectors;
        let stride = n.next_multiple_of(WIDTH);
        // Not the constant feature's part, which no feature changes.
        let mut k = vec![S::default(); rows.len() * stride];
        vectors.products(x, rows, 0..n, &mut k, stride);
        for (i, k) in rows.iter().zip(k.chunks_mut(stride)) {
            let kernel = Kernel::Rbf { gamma: self.gamma };
            kernel.map(&mut k[..n], x.row(*i).norm2(), vectors.norms(0..n));
        }
        let mut pulls = vec![S::default(); rows.len() * n];
        let wide = d.next_multiple_of(WIDTH);
        let mut ends = vec![S::default(); rows.len() * wide];
        let mut features = vec![S::default(); d];
        let numbers: Vec<usize> = (0..rows.len()).collect();
        for (o, coefs) in self.coefs.chunks(n).enumerate() {
            // How hard each vector pulls, and where to, all together.
            for (pulls, k) in pulls.chunks_mut(n).zip(k.chunks(stride)) {
                for ((pull, k), coef) in pulls.iter_mut().zip(k).zip(coefs) {
                    *pull = S::from_f64(k.to_f64() * coef.to_f64());
                }
            }
            match (&self.features, Dense::new(&pulls, rows.len(), n)) {
                (Some(features), Ok(pulls)) => {
                    features.products(&pulls.into(), &numbers, 0..d, &mut ends, wide);
                }
                _ => self.add_stored(&pulls, &mut ends, wide),
            }
            for (r, i) in rows.iter().enumerate() {
                let pull: f64 = pulls[r * n..(r + 1) * n].iter().map(|pull| pull.to_f64()).sum();
                features.fill(S::default());
                let inside = x.row(*i).add_to(&mut features);
                let pull = if inside { pull } else { f64::NAN };
                let slopes = &mut out[(r * outputs + o) * d..][..d];
                for ((slope, end), x) in slopes.iter_mut().zip(&ends[r * wide..]).zip(&features) {
                    *slope = S::from_f64(end.to_f64() - pull * x.to_f64());
                }
            }
        }
    }

    /// `ends[r] = sum_s pulls[r][s] z_s`, of vectors that store few of their features.
    fn add_stored(&self, pulls: &[S], ends: &mut [S], wide: usize) {
        let n = self.w.n_vectors();
        ends.fill(S::default());
        for (pulls, ends) in pulls.chunks(n).zip(ends.chunks_mut(wide)) {
            for (s, pull) in pulls.iter().enumerate() {
                self.w.vectors.for_each(s, |j, z| {
                    ends[j] = S::from_f64(ends[j].to_f64() + pull.to_f64() * z.to_f64());
                });
            }
        }
    }
}

/// The mean, over examples, of the outer products of gradients with themselves, summed over the outputs: how the scores of a
/// model change with the features, by pairs of directions (the average gradient outer product of recursive feature machines).
/// Or its diagonal alone.
///
/// Memory: features^2 numbers, or as many as there are features, and [`at_a_time`](Agop::at_a_time) rows' gradients.
///
/// ```
/// use pegasos::{Agop, Dense, Expansion, Hypothesis, Kernel, Matrix};
///
/// let x = Matrix::from(Dense::new(&[0.0, 0.0, 1.0, 2.0_f64], 2, 2)?);
/// let mut w = Expansion::new(Kernel::Rbf { gamma: 0.5 }, 1, 2)?;
/// w.add(0, x.row(0), &[1.0]);
/// let mut agop = Agop::new(2, false)?;
/// agop.add(&w, &x, &[1], |_| 1.0)?;
/// let k = (-2.5_f64).exp();
/// let want = [1.0, 2.0, 2.0, 4.0].map(|value| value * k * k);
/// assert!(agop.mean().iter().zip(want).all(|(got, want)| (got - want).abs() < 1e-15));
/// # Ok::<(), pegasos::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Agop {
    n_features: usize,
    /// Block after block of [`WIDTH`] columns: of its rows from the first of these on, a line each. Or the diagonal.
    sums: Vec<Vec<f64>>,
    diagonal: bool,
    weight: f64,
}

/// How many gradients are kept at a time.
const KEPT: usize = 1024;

impl Agop {
    /// None yet, of so many features; of the `diagonal` alone, or all.
    pub fn new(n_features: usize, diagonal: bool) -> Result<Self, Error> {
        let what = "products of gradients";
        let mut sums = Vec::new();
        if diagonal {
            sums.push(memory::zeros(what, &[n_features])?);
        } else {
            memory::check::<f64>(what, &[n_features, n_features])?;
            for first in (0..n_features).step_by(WIDTH) {
                sums.push(memory::zeros(what, &[n_features - first, WIDTH])?);
            }
        }
        Ok(Agop { n_features, sums, diagonal, weight: 0.0 })
    }

    /// How many rows are worked on at a time: calls of multiples of these are as good as one, to the last bit.
    pub fn at_a_time(outputs: usize) -> usize {
        (KEPT / outputs.max(1)).max(1)
    }

    /// Adds those of a model's scores of these rows, each with its weight, >= 0 and finite. Refuses rows that are not there,
    /// before anything else; after another error those of whole [`at_a_time`](Agop::at_a_time) rows before are still there.
    pub fn add<S: Scalar>(
        &mut self,
        w: &Expansion<S>,
        x: &Matrix<'_, S>,
        rows: &[usize],
        weight: impl Fn(usize) -> f64,
    ) -> Result<(), Error> {
        let d = self.n_features;
        if d != w.n_features() {
            return Err(Error::shape("w", format_args!("{d} features"), w.n_features()));
        }
        same_features(d, x.n_features())?;
        x.check_rows(rows)?;
        let slopes = Slopes::new(w)?;
        let at_a_time = Agop::at_a_time(w.outputs);
        let mut kept = memory::zeros("gradients", &[at_a_time.min(rows.len()), w.outputs, d])?;
        for rows in rows.chunks(at_a_time) {
            let kept = &mut kept[..rows.len() * w.outputs * d];
            slopes.write(x, rows, kept)?;
            // Products of numbers of one size neither overflow nor vanish in f32.
            let size = kept.iter().map(|slope| slope.to_f64().abs()).fold(0.0, f64::max);
            let unit = if size > 0.0 { 1.0 / size } else { 1.0 };
            let weights: Vec<f64> = rows.iter().map(|i| weight(*i)).collect();
            // Before any of them counts: those of rows whose products are not added must not.
            if let Some(wrong) = weights.iter().find(|w| !(**w >= 0.0 && w.is_finite())) {
                return Err(Error::parameter("weight", wrong, ">= 0 and finite"));
            }
            for (weight, slopes) in weights.into_iter().zip(kept.chunks_mut(w.outputs * d)) {
                self.weight += weight;
                let factor = weight.sqrt() * unit;
                slopes.iter_mut().for_each(|slope| *slope = S::from_f64(slope.to_f64() * factor));
            }
            let square = size * size;
            if self.diagonal {
                self.add_squares(kept, square);
            } else {
                self.add_products(kept, square);
            }
        }
        Ok(())
    }

    fn add_squares<S: Scalar>(&mut self, slopes: &[S], unit: f64) {
        for slopes in slopes.chunks(self.n_features) {
            for (sum, slope) in self.sums[0].iter_mut().zip(slopes) {
                *sum += unit * slope.to_f64() * slope.to_f64();
            }
        }
    }

    fn add_products<S: Scalar>(&mut self, slopes: &[S], unit: f64) {
        let (d, n) = (self.n_features, slopes.len() / self.n_features);
        let columns: Vec<S> = (0..d).flat_map(|j| slopes[j..].iter().step_by(d).copied()).collect();
        let Ok(columns) = Dense::new(&columns, d, n) else { return };
        let columns = Matrix::from(columns);
        side_by_side(&mut self.sums, |block, sums| {
            let first = block * WIDTH;
            let mut lanes = vec![Lanes([S::default(); WIDTH]); n];
            for (lanes, slopes) in lanes.iter_mut().zip(slopes.chunks(d)) {
                lanes.0.iter_mut().zip(&slopes[first..]).for_each(|(lane, slope)| *lane = *slope);
            }
            let rows: Vec<usize> = (first..d).collect();
            let mut products = vec![S::default(); rows.len() * WIDTH];
            columns.products(&rows, &lanes, &mut products, WIDTH);
            for (sum, product) in sums.iter_mut().zip(&products) {
                *sum += unit * product.to_f64();
            }
        });
    }

    /// Features x features, row after row; or the diagonal. Zeros where all weights are.
    pub fn mean(&self) -> Vec<f64> {
        let d = self.n_features;
        let over = if self.weight > 0.0 { 1.0 / self.weight } else { 0.0 };
        if self.diagonal {
            return self.sums[0].iter().map(|sum| sum * over).collect();
        }
        let mut mean = vec![0.0; d * d];
        for (block, sums) in self.sums.iter().enumerate() {
            let first = block * WIDTH;
            for (i, line) in (first..d).zip(sums.chunks(WIDTH)) {
                for (j, sum) in (first..d.min(first + WIDTH)).zip(line) {
                    if j <= i {
                        mean[i * d + j] = sum * over;
                        mean[j * d + i] = sum * over;
                    }
                }
            }
        }
        mean
    }
}
