//! Scores of rows that are visited next, several at a time.
//!
//! * A row's scores take as long as all weights take to come from where they are. For several rows together they come once;
//!   where a step moves some of them meanwhile, the scores concerned are computed again. No bit depends on it.
//! * Trials on an Intel Xeon (48 KiB of L1, 2 MB of L2): refits of letter (26 classes) with 500 features took 0.8 of the time
//!   (8 and 12 rows between steps were no better), products of usps (10 classes) 0.5 and of covtype (7) 0.9.

use crate::data::Matrix;
use crate::hypothesis::Hypothesis;
use crate::linear::Linear;
use crate::order::Ahead;
use crate::scalar::Scalar;

/// Rows that are scored at a time: where steps may move w meanwhile, and where none does.
pub(super) const BETWEEN_STEPS: usize = 4;
pub(super) const AT_REST: usize = 16;

/// Scores of the next rows.
pub(super) struct Foresight {
    /// How many at a time; 1 where more are no gain.
    together: usize,
    rows: [usize; AT_REST],
    /// `rows[at..end]` are those that were not asked for yet.
    at: usize,
    end: usize,
    /// A row of scores for each.
    scores: Vec<f64>,
    outputs: Vec<usize>,
    /// Outputs that a step has moved, and scores of theirs.
    moved: Vec<usize>,
    again: Vec<f64>,
}

impl Foresight {
    /// So many rows at a time, where that is worth it.
    pub(super) fn new<S: Scalar>(w: &Linear<f64>, x: &Matrix<'_, S>, together: usize) -> Self {
        let worth = w.scores_rows_faster(x);
        let (together, outputs) = if worth { (together, w.outputs()) } else { (1, 0) };
        Foresight {
            together,
            rows: [0; AT_REST],
            at: 0,
            end: 0,
            scores: vec![0.0; together * outputs],
            outputs: (0..outputs).collect(),
            moved: Vec::new(),
            again: Vec::new(),
        }
    }

    /// The scores of row i, which is visited now, after it the next ones of the order.
    #[inline(always)]
    pub(super) fn score<S: Scalar>(
        &mut self,
        w: &Linear<f64>,
        x: &Matrix<'_, S>,
        i: usize,
        order: &mut Ahead<'_>,
        out: &mut [f64],
    ) {
        if self.together == 1 {
            return w.score_row(x.row(i), out);
        }
        // The caller may pass some over.
        let ahead = &self.rows[self.at..self.end];
        self.at += ahead.iter().position(|&row| row == i).unwrap_or(ahead.len());
        if self.at == self.end {
            let next = order.peek(x.n_rows(), self.together - 1);
            self.rows[0] = i;
            self.rows[1..=next.len()].copy_from_slice(next);
            (self.at, self.end) = (0, 1 + next.len());
            let scores = &mut self.scores[..self.end * out.len()];
            w.score_rows(x, &self.rows[..self.end], &self.outputs, scores);
        }
        out.copy_from_slice(&self.scores[self.at * out.len()..][..out.len()]);
        self.at += 1;
    }

    /// A step has moved the weights of these outputs.
    #[inline(always)]
    pub(super) fn moved<S: Scalar>(
        &mut self,
        w: &Linear<f64>,
        x: &Matrix<'_, S>,
        outputs: impl Iterator<Item = usize>,
    ) {
        let rows = &self.rows[self.at..self.end];
        self.moved.clear();
        if !rows.is_empty() {
            self.moved.extend(outputs);
        }
        if self.moved.is_empty() {
            return;
        }
        let (all, few) = (self.outputs.len(), self.moved.len());
        self.again.resize(rows.len() * few, 0.0);
        w.score_rows(x, rows, &self.moved, &mut self.again);
        for (scores, again) in
            self.scores[self.at * all..].chunks_mut(all).zip(self.again.chunks(few))
        {
            self.moved.iter().zip(again).for_each(|(&o, &score)| scores[o] = score);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{AT_REST, BETWEEN_STEPS, Foresight};
    use crate::data::{Dense, Matrix};
    use crate::linear::Linear;
    use crate::order::Ahead;

    /// Whichever rows are passed over or come twice, and whatever moves meanwhile.
    #[test]
    fn scores_are_those_of_one_row_after_the_other() -> Result<(), crate::error::Error> {
        let (n, d, outputs) = (50, 397, 11);
        let number = |k: usize| (k * 7919 + 13) as u32 % 201;
        let x: Vec<f32> = (0..n * d).map(|k| number(k) as f32 / 16.0 - 6.0).collect();
        let x = Matrix::from(Dense::new(&x, n, d)?);
        for together in [BETWEEN_STEPS, AT_REST] {
            let mut w = Linear::<f64>::new(outputs, d, 0.5)?;
            (0..outputs).for_each(|o| w.add_to(o, x.row(o), 0.1 + o as f64));
            assert!(w.scores_rows_faster(&x));
            let mut foresight = Foresight::new(&w, &x, together);
            let mut rows = (0..3 * n).map(|k| number(k) as usize % n);
            let mut order = Ahead::new(&mut rows);
            let (mut scores, mut want) = ([0.0; 11], [0.0; 11]);
            while let Some(i) = order.advance(n, 0)? {
                if number(i) % 7 == 0 {
                    continue;
                }
                foresight.score(&w, &x, i, &mut order, &mut scores);
                w.score_row(x.row(i), &mut want);
                assert_eq!(scores, want);
                let moved = || (0..outputs).filter(|o| number(i + o) % 5 == 0);
                moved().for_each(|o| w.add_to(o, x.row(i), 1e-3 * scores[o]));
                foresight.moved(&w, &x, moved());
            }
        }
        Ok(())
    }
}
