//! Scores: sums of coefficients times kernel values, chunk by chunk of the vectors.

use super::{Expansion, PANEL};
use crate::data::Matrix;
use crate::hypothesis::Hypothesis;
use crate::scalar::Scalar;
use crate::threads::side_by_side;
use crate::vectors::{CHUNK, GROUP};

/// Outputs whose coefficients are multiplied with the values of a group of rows at a time: some tens of kilobytes.
const TOGETHER: usize = 32;

/// Products of this many numbers are not worth a second thread.
const SMALL: usize = 1 << 18;

impl<S: Scalar> Expansion<S> {
    /// [`scores`](Hypothesis::scores) of many rows, panel by panel on the threads of the current rayon pool.
    ///
    /// # Panics
    /// If a row is not there.
    pub fn scores_side_by_side(&self, x: &Matrix<'_, S>, rows: &[usize], out: &mut [f64]) {
        let mut panels: Vec<(&[usize], &mut [f64])> =
            rows.chunks(PANEL).zip(out.chunks_mut(PANEL * self.outputs)).collect();
        side_by_side(&mut panels, |_, (rows, out)| self.scores(x, rows, out));
    }

    /// Writes what the constant feature gives to the scores over a, of as many rows as there is room for.
    pub(super) fn begin(&self, out: &mut [f64]) {
        if self.raise == 0.0 {
            out.fill(0.0);
            return;
        }
        let totals = self.totals.get_or_init(|| {
            let mut totals = vec![0.0; self.outputs];
            for chunk in self.v.chunks(CHUNK * self.outputs) {
                for (total, v) in totals.iter_mut().zip(chunk.chunks(CHUNK)) {
                    *total += v.iter().map(|v| v.to_f64()).sum::<f64>();
                }
            }
            totals
        });
        for out in out.chunks_mut(self.outputs) {
            out.iter_mut().zip(totals).for_each(|(out, total)| *out = self.raise * total);
        }
    }

    /// Writes what these kernel values, with the vectors of a chunk, give to the scores over a, from an output on.
    pub(super) fn sum_chunk(&self, chunk: usize, first: usize, values: &[S], out: &mut [f64]) {
        let place = (chunk * self.outputs + first) * CHUNK;
        let v = &self.v[place..place + out.len() * CHUNK];
        if values.len() == CHUNK {
            S::dots(values, v, out);
            return;
        }
        for (v, out) in v.chunks(CHUNK).zip(out) {
            *out = S::dot(values, &v[..values.len()]);
        }
    }

    /// The scores over a of these rows, each summed over chunks in order; and, of rows for which there is
    /// room, the kernel values with full chunks that were not cached before.
    pub(super) fn score_rows(
        &self,
        x: &Matrix<'_, S>,
        rows: &[usize],
        caching: bool,
        out: &mut [f64],
    ) -> Vec<(usize, usize, Vec<S>)> {
        let (n, outputs) = (self.vectors.len(), self.outputs);
        let chunks = n.div_ceil(CHUNK);
        let cached = |i: usize| if caching { self.cache.of(i) } else { &[] };
        let grows = caching && self.cache.has_room();
        let mut tasks: Vec<(usize, &[usize])> = Vec::new();
        for chunk in 0..chunks {
            tasks.extend(rows.chunks(GROUP).map(|group| (chunk, group)));
        }
        let task = |_: usize, (chunk, group): &mut (usize, &[usize])| {
            let slots = *chunk * CHUNK..n.min((*chunk + 1) * CHUNK);
            let len = slots.len();
            let new: Vec<usize> =
                group.iter().copied().filter(|&i| cached(i).len() < slots.end).collect();
            let mut values = vec![S::default(); new.len() * CHUNK];
            self.vectors.kernel_values(self.kernel, x, &new, slots.clone(), &mut values, CHUNK);
            let mut sums = vec![0.0; group.len() * outputs];
            let mut computed = values.chunks(CHUNK);
            let of_rows = group.iter().map(|i| match cached(*i).get(slots.clone()) {
                Some(values) => values,
                // One for each row that is not cached.
                None => computed.next().map_or(&[][..], |values| &values[..len]),
            });
            let of_rows: Vec<&[S]> = of_rows.collect();
            // Of many outputs some at a time, so that their coefficients stay in the cache from row to row.
            for first in (0..outputs).step_by(TOGETHER) {
                let some = first..outputs.min(first + TOGETHER);
                for (values, sums) in of_rows.iter().zip(sums.chunks_mut(outputs)) {
                    self.sum_chunk(*chunk, first, values, &mut sums[some.clone()]);
                }
            }
            let values = if grows && len == CHUNK { values } else { Vec::new() };
            (sums, new, values)
        };
        let small = rows.len() * n * self.n_features().min(64) < SMALL;
        let done: Vec<_> = if small {
            tasks.iter_mut().map(|t| task(0, t)).collect()
        } else {
            side_by_side(&mut tasks, task)
        };
        self.begin(out);
        let groups = rows.chunks(GROUP).len();
        let mut computed = Vec::new();
        for (k, (sums, new, values)) in done.into_iter().enumerate() {
            let at = k % groups * GROUP * outputs;
            for (out, sum) in out[at..].iter_mut().zip(&sums) {
                *out += sum;
            }
            if !values.is_empty() {
                let values = values.chunks(CHUNK).map(<[S]>::to_vec);
                let chunk = k / groups;
                computed.extend(new.into_iter().zip(values).map(|(i, values)| (chunk, i, values)));
            }
        }
        computed
    }
}
