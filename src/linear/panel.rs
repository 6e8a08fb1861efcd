//! Scores of many rows at once, as products of matrices.

use super::Linear;
use crate::data::Matrix;
use crate::error::Error;
use crate::hypothesis::Hypothesis;
use crate::memory;
use crate::scalar::Scalar;
use crate::simd::{Lanes, TILE, WIDTH, Weigh};
use crate::threads::side_by_side;

/// Rows that one task scores.
const TASK: usize = 256;

/// Fewer outputs than these are scored one by one.
const FEW: usize = 16;

/// Bytes of weights that are near the processor, with what else a loop needs.
const FAR: usize = 1 << 15;

/// Features of a row that is multiplied with others.
const LONG: usize = 64;

/// Rows that are multiplied with a panel at a time: several of what is multiplied at once.
const TOGETHER: usize = 4 * TILE;

impl<S: Scalar> Linear<S> {
    /// The weights as a matrix product wants them: to score many rows at once. As much memory again, for a multiple of
    /// 32 outputs; `None` where there are so few that [`score`](Hypothesis::score) is as fast. O(size).
    pub fn panel(&self) -> Result<Option<LinearPanel<'_, S>>, Error> {
        let (d, outputs) = (self.n_features(), self.outputs());
        if outputs < FEW {
            return Ok(None);
        }
        let blocks = outputs.div_ceil(WIDTH);
        memory::check::<Lanes<S>>("w as a panel", &[blocks, d])?;
        let mut lanes = vec![Lanes([S::default(); WIDTH]); blocks * d];
        self.v.for_each(|o, j, v| lanes[o / WIDTH * d + j].0[o % WIDTH] = v);
        Ok(Some(LinearPanel { w: self, lanes }))
    }

    /// [`scores`](Hypothesis::scores) of rows that follow one another from `first` on, as many as `out` has room for,
    /// on the threads of the current rayon pool.
    ///
    /// # Panics
    /// If a row is not there, or `out` ends in the midst of the scores of one.
    pub fn scores_side_by_side(&self, x: &Matrix<'_, S>, first: usize, out: &mut [f64]) {
        let outputs = self.outputs();
        let all: Option<Vec<usize>> = self.scores_rows_faster(x).then(|| (0..outputs).collect());
        let mut tasks: Vec<&mut [f64]> = out.chunks_mut(TASK * outputs).collect();
        side_by_side(&mut tasks, |task, out| {
            let rows = (first + task * TASK..).take(out.len() / outputs);
            match &all {
                Some(all) => self.score_rows(x, &rows.collect::<Vec<_>>(), all, out),
                None => {
                    rows.zip(out.chunks_mut(outputs)).for_each(|(i, out)| self.score(x.row(i), out))
                }
            }
        });
    }

    /// Whether there is [`score_rows`](Linear::score_rows), and is faster than each row by itself: the weights, which it reads
    /// once for some rows, are more than are near, and so many of each output that a few rows' scores are little beside them.
    pub(crate) fn scores_rows_faster<T: Scalar>(&self, x: &Matrix<'_, T>) -> bool {
        let there = self.outputs() > 1 && !x.is_sparse() && !self.v.is_by_feature();
        there && self.n_features() >= LONG && size_of_val(self.v.all()) > FAR
    }

    /// What [`score_row`](Linear::score_row) writes for these outputs and rows, to the same bits; row after row in `out`.
    pub(crate) fn score_rows<T: Scalar + Weigh<S>>(
        &self,
        x: &Matrix<'_, T>,
        rows: &[usize],
        outputs: &[usize],
        out: &mut [f64],
    ) {
        self.v.dots_of_rows(x, rows, outputs, out);
        for out in out.chunks_mut(outputs.len()) {
            for (out, &o) in out.iter_mut().zip(outputs) {
                *out = self.scale.a * (*out + self.constant * self.b[o]);
            }
        }
    }
}

/// Weights of several outputs, for products of matrices; see [`Linear::panel`].
#[derive(Clone, Debug)]
pub struct LinearPanel<'a, S> {
    w: &'a Linear<S>,
    /// Blocks of outputs, in each of them features.
    lanes: Vec<Lanes<S>>,
}

impl<S: Scalar> LinearPanel<'_, S> {
    /// [`scores`](Hypothesis::scores) of rows that follow one another from `first` on, as many as `out` has room for.
    /// Unlike those of single rows they are summed in the scalar of the data.
    ///
    /// # Panics
    /// If a row is not there, or `out` ends in the midst of the scores of one.
    pub fn scores(&self, x: &Matrix<'_, S>, first: usize, out: &mut [f64]) {
        let (Linear { scale, constant, b, .. }, outputs) = (self.w, self.w.outputs());
        let mut products = [S::default(); TOGETHER * WIDTH];
        for (group, out) in out.chunks_mut(TOGETHER * outputs).enumerate() {
            let first = first + group * TOGETHER;
            let rows: [usize; TOGETHER] = std::array::from_fn(|r| first + r);
            let rows = &rows[..out.len() / outputs];
            for (k, block) in self.lanes.chunks(self.w.n_features()).enumerate() {
                x.products(rows, block, &mut products, WIDTH);
                let own = k * WIDTH..outputs.min((k + 1) * WIDTH);
                for (out, products) in out.chunks_mut(outputs).zip(products.chunks(WIDTH)) {
                    let numbers = out[own.clone()].iter_mut().zip(products).zip(&b[own.clone()]);
                    numbers.for_each(|((out, p), b)| *out = scale.a * (p.to_f64() + constant * b));
                }
            }
        }
    }

    /// [`scores`](LinearPanel::scores) on the threads of the current rayon pool.
    ///
    /// # Panics
    /// As they do.
    pub fn scores_side_by_side(&self, x: &Matrix<'_, S>, first: usize, out: &mut [f64]) {
        let mut tasks: Vec<&mut [f64]> = out.chunks_mut(TASK * self.w.outputs()).collect();
        side_by_side(&mut tasks, |task, out| self.scores(x, first + task * TASK, out));
    }
}

#[cfg(test)]
mod tests {
    use crate::data::{Dense, Matrix};
    use crate::hypothesis::Hypothesis;
    use crate::linear::Linear;

    #[test]
    fn rows_side_by_side_have_the_scores_of_each() -> Result<(), crate::error::Error> {
        let (n, d, outputs) = (300, 397, 11);
        let x: Vec<f64> = (0..n * d).map(|k| (k * 7919 % 201) as f64 / 16.0 - 6.0).collect();
        let x = Matrix::from(Dense::new(&x, n, d)?);
        let mut w = Linear::<f64>::new(outputs, d, 0.5)?;
        (0..outputs).for_each(|o| w.add_to(o, x.row(o), 0.1 + o as f64));
        assert!(w.scores_rows_faster(&x) && !w.only(0)?.scores_rows_faster(&x));
        for (first, count) in [(7, 293), (0, 1)] {
            let mut scores = vec![0.0; count * outputs];
            w.scores_side_by_side(&x, first, &mut scores);
            for (i, scores) in (first..).zip(scores.chunks(outputs)) {
                let mut want = [0.0; 11];
                w.score(x.row(i), &mut want);
                assert_eq!(scores, want);
            }
        }
        Ok(())
    }
}
