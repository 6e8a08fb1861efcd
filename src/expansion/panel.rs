//! Rows to come, and what is known of them.

use crate::data::{Matrix, Row};
use crate::error::Error;
use crate::kernel::Kernel;
use crate::lookahead::Cursor;
use crate::memory;
use crate::scalar::Scalar;
use crate::simd::WIDTH;
use crate::vectors::Vectors;

/// Rows of the matrix at hand. What it holds of them is corrected as coefficients change.
#[derive(Clone, Debug)]
pub(super) struct Panel<S> {
    outputs: usize,
    pub rows: Cursor,
    /// Of each by each output, as of now, over a.
    scores: Vec<f64>,
    /// The rows themselves, for one that is added after it has left the panel.
    vectors: Vectors<S>,
    /// Kernel values among them, a row of `stride` each.
    gram: Vec<S>,
    stride: usize,
}

impl<S: Scalar> Panel<S> {
    /// Without rows, in the layout of these vectors.
    pub fn new(vectors: &Vectors<S>, outputs: usize) -> Self {
        let (rows, scores, gram) = (Cursor::default(), Vec::new(), Vec::new());
        Panel { outputs, rows, scores, vectors: vectors.empty(), gram, stride: 0 }
    }

    /// Refuses so many rows where there is no memory for them.
    pub fn check_room(&self, rows: usize) -> Result<(), Error> {
        self.vectors.check_room(rows)?;
        memory::check::<f64>("the scores of rows to come", &[rows, self.outputs])
    }

    /// Zeros for the scores of so many rows, in the room that those of the last had.
    pub fn take_scores(&mut self, rows: usize) -> Vec<f64> {
        let mut scores = std::mem::take(&mut self.scores);
        scores.clear();
        scores.resize(rows * self.outputs, 0.0);
        scores
    }

    /// Takes these rows, with their scores, in place of those there were, none of them handed out.
    pub fn look_ahead(
        &mut self,
        kernel: Kernel,
        x: &Matrix<'_, S>,
        rows: &[usize],
        scores: Vec<f64>,
    ) {
        self.scores = scores;
        self.rows.begin(rows);
        self.vectors = self.vectors.empty();
        for &i in rows {
            self.vectors.push(i, x.row(i));
        }
        self.stride = rows.len().next_multiple_of(WIDTH);
        self.gram.clear();
        self.gram.resize(rows.len() * self.stride, S::default());
        let all = 0..rows.len();
        self.vectors.kernel_values(kernel, x, rows, all, &mut self.gram, self.stride);
    }

    /// Scores of a row, over a.
    #[inline]
    pub fn scores_of(&self, place: usize) -> &[f64] {
        &self.scores[place * self.outputs..(place + 1) * self.outputs]
    }

    /// Its kernel values with all rows.
    #[inline]
    pub fn beside(&self, place: usize) -> &[S] {
        &self.gram[place * self.stride..][..self.rows.len()]
    }

    /// Kernel values with all rows of one that is none of them.
    pub fn beside_other(&self, kernel: Kernel, x: Row<'_, S>, out: &mut Vec<S>) {
        self.vectors.kernel_values_of(kernel, x, out);
    }

    /// An output's coefficient of a row with these kernel values, larger by `raise`, has risen by `c`.
    #[inline]
    pub fn lift(&mut self, output: usize, c: f64, beside: &[S], raise: f64) {
        let scores = self.scores.iter_mut().skip(output).step_by(self.outputs);
        for (score, k) in scores.zip(beside) {
            *score += c * (k.to_f64() + raise);
        }
    }

    /// `a` has become `a / c`, and w is as it was.
    pub fn scale(&mut self, c: f64) {
        self.scores.iter_mut().for_each(|score| *score *= c);
    }
}
