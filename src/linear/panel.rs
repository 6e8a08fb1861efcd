//! Scores of many rows at once, as products of matrices.

use super::{Linear, TASK};
use crate::data::Matrix;
use crate::error::Error;
use crate::hypothesis::Hypothesis;
use crate::memory;
use crate::scalar::Scalar;
use crate::simd::{Lanes, TILE, WIDTH, Weigh};
use crate::threads::side_by_side;

/// Fewer outputs than these are scored one by one.
const FEW: usize = 16;

/// Bytes of weights that are near the processor, with what else a loop needs.
const FAR: usize = 1 << 14;

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

    /// Whether there is [`score_rows`](Linear::score_rows), and is faster than each row by itself: the weights, which it reads
    /// once for some rows, are more than are near.
    pub(crate) fn scores_rows_faster<T: Scalar>(&self, x: &Matrix<'_, T>) -> bool {
        let there = self.outputs() > 1 && !x.is_sparse() && !self.v.is_by_feature();
        there && size_of_val(self.v.all()) > FAR
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
    pub fn scores_side_by_side(&self, x: &Matrix<'_, S>, first: usize, out: &mut [f64]) {
        let mut tasks: Vec<&mut [f64]> = out.chunks_mut(TASK * self.w.outputs()).collect();
        side_by_side(&mut tasks, |task, out| self.scores(x, first + task * TASK, out));
    }
}
