//! Scores: sums of coefficients times kernel values, chunk by chunk of the vectors.

use std::ops::Range;

use super::{Expansion, PANEL};
use crate::data::Matrix;
use crate::hypothesis::Hypothesis;
use crate::scalar::Scalar;
use crate::threads::side_by_side;
use crate::vectors::{CHUNK, GROUP};

/// Of more outputs than these, coefficients that differ from 0 are picked out, where they are fewer than one of so many: of pairs
/// of K classes a vector has K - 1 of K (K - 1)/2. What is picked is multiplied with some rows at once, of a row by itself
/// alone; where all stand in a row, 8 to 16 are at once.
const FEW: usize = 32;
const RARE: usize = 8;

/// Rows whose kernel values stand side by side, so that a coefficient that was picked is multiplied with all of them at once: of
/// thousands of vectors some 100 kB, for L2.
const AT_ONCE: usize = 8;

/// The coefficients that are not 0, output after output.
#[derive(Clone, Debug)]
pub(super) struct Rare<S> {
    /// Where those of each output begin, and the end.
    starts: Vec<usize>,
    slots: Vec<u32>,
    v: Vec<S>,
}

impl<S: Scalar> Rare<S> {
    /// None where they are not rare.
    fn of(v: &[S], outputs: usize) -> Option<Self> {
        let zero = S::default();
        let count = v.iter().filter(|v| **v != zero).count();
        if count > v.len() / RARE {
            return None;
        }
        let mut starts = vec![0; outputs + 1];
        let chunks = || v.chunks(CHUNK * outputs);
        let nonzeros = |(o, v): (usize, &[S])| (o, v.iter().filter(|v| **v != zero).count());
        for (o, count) in chunks().flat_map(|v| v.chunks(CHUNK).enumerate().map(nonzeros)) {
            starts[o + 1] += count;
        }
        (0..outputs).for_each(|o| starts[o + 1] += starts[o]);
        let mut next = starts.clone();
        let (mut slots, mut picked) = (vec![0; count], vec![zero; count]);
        for (chunk, v) in chunks().enumerate() {
            for (next, v) in next.iter_mut().zip(v.chunks(CHUNK)) {
                for (k, v) in v.iter().enumerate().filter(|(_, v)| **v != zero) {
                    (slots[*next], picked[*next]) = ((chunk * CHUNK + k) as u32, *v);
                    *next += 1;
                }
            }
        }
        Some(Rare { starts, slots, v: picked })
    }

    /// Adds the products with the kernel values of some rows to their sums: of each chunk of vectors the rows' values with it.
    fn add(&self, chunks: &[Vec<&[S]>], sums: &mut [f64]) {
        let outputs = self.starts.len() - 1;
        let len = chunks.iter().map(|rows| rows[0].len()).sum::<usize>();
        let rows = sums.len() / outputs;
        // A row by itself stays as it is, and its sums are the very same.
        let lanes = if rows > 1 { AT_ONCE } else { 1 };
        let mut values = vec![S::default(); len * lanes];
        for (g, sums) in sums.chunks_mut(AT_ONCE * outputs).enumerate() {
            let count = sums.len() / outputs;
            let mut room = values.chunks_mut(CHUNK * lanes);
            for of_rows in chunks {
                let room = room.next().unwrap_or_default();
                for (k, row) in of_rows[g * AT_ONCE..][..count].iter().enumerate() {
                    let places = room.iter_mut().skip(k).step_by(lanes);
                    places.zip(*row).for_each(|(place, value)| *place = *value);
                }
            }
            for (o, own) in self.starts.windows(2).enumerate().filter(|(_, own)| own[0] < own[1]) {
                let (slots, v) = (&self.slots[own[0]..own[1]], &self.v[own[0]..own[1]]);
                let mut products = [0.0; AT_ONCE];
                if lanes == 1 {
                    products[0] = S::gather_dot(slots, v, &values);
                } else {
                    S::gather_dots(slots, v, &values, lanes, &mut products[..count]);
                }
                for (sums, product) in sums.chunks_mut(outputs).zip(products) {
                    sums[o] += product;
                }
            }
        }
    }
}

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

    /// The coefficients that are not 0, where they are rare; looked for once since they changed. O(vectors x outputs) then.
    fn rare(&self) -> Option<&Rare<S>> {
        if self.outputs <= FEW || self.v.is_empty() {
            return None;
        }
        self.rare.get_or_init(|| Rare::of(&self.v, self.outputs)).as_ref()
    }

    /// How many coefficients a kernel value is multiplied with, over all vectors.
    pub(crate) fn products(&self) -> usize {
        self.rare().map_or(self.n_vectors() * self.outputs, |rare| rare.v.len())
    }

    /// Writes what these kernel values, with the vectors of a chunk, give to the scores over a.
    pub(super) fn sum_chunk(&self, chunk: usize, values: &[S], out: &mut [f64]) {
        let v = &self.v[chunk * self.outputs * CHUNK..][..out.len() * CHUNK];
        if values.len() == CHUNK {
            S::dots(values, v, out);
            return;
        }
        for (v, out) in v.chunks(CHUNK).zip(out) {
            *out = S::dot(values, &v[..values.len()]);
        }
    }

    /// The kernel values of rows with the vectors in these slots: those that are cached, and one after the other, a chunk's room
    /// for each, those that were computed.
    fn values_of<'a>(
        &'a self,
        rows: &[usize],
        slots: Range<usize>,
        caching: bool,
        computed: &'a [S],
    ) -> Vec<&'a [S]> {
        let mut computed = computed.chunks(CHUNK);
        let of_row = |&i: &usize| {
            let cached = if caching { self.cache.of(i) } else { &[] };
            let fresh = || computed.next().map_or(&[][..], |values| &values[..slots.len()]);
            cached.get(slots.clone()).unwrap_or_else(fresh)
        };
        rows.iter().map(of_row).collect()
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
        let rare = self.rare();
        let mut tasks: Vec<(usize, &[usize])> = Vec::new();
        for chunk in 0..chunks {
            tasks.extend(rows.chunks(GROUP).map(|group| (chunk, group)));
        }
        let slots_of = |chunk: usize| chunk * CHUNK..n.min((chunk + 1) * CHUNK);
        let task = |_: usize, (chunk, group): &mut (usize, &[usize])| {
            let slots = slots_of(*chunk);
            let len = slots.len();
            let new: Vec<usize> =
                group.iter().copied().filter(|&i| cached(i).len() < slots.end).collect();
            let mut values = vec![S::default(); new.len() * CHUNK];
            self.vectors.kernel_values(self.kernel, x, &new, slots.clone(), &mut values, CHUNK);
            let mut sums = vec![0.0; if rare.is_some() { 0 } else { group.len() * outputs }];
            let of_rows = self.values_of(group, slots, caching, &values);
            if len == CHUNK && !sums.is_empty() {
                let v = &self.v[*chunk * outputs * CHUNK..][..outputs * CHUNK];
                let v: Vec<&[S]> = v.chunks(CHUNK).collect();
                S::dots_of_rows(&of_rows, &v, &mut sums, outputs);
            } else {
                for (values, sums) in of_rows.iter().zip(sums.chunks_mut(outputs)) {
                    self.sum_chunk(*chunk, values, sums);
                }
            }
            let kept = rare.is_some() || grows && len == CHUNK;
            let values = if kept { values } else { Vec::new() };
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
        if let Some(rare) = rare {
            // All vectors' values with a group of rows, as the coefficients of an output are anywhere among them.
            let of_groups = rows.chunks(GROUP).zip(out.chunks_mut(GROUP * outputs));
            let mut tasks: Vec<_> = of_groups.enumerate().collect();
            side_by_side(&mut tasks, |_, (group, (rows, out))| {
                let of_chunk = |chunk: usize| {
                    let computed = &done[chunk * groups + *group].2;
                    self.values_of(rows, slots_of(chunk), caching, computed)
                };
                rare.add(&(0..chunks).map(of_chunk).collect::<Vec<_>>(), out);
            });
        }
        let mut computed = Vec::new();
        for (k, (sums, new, values)) in done.into_iter().enumerate() {
            let at = k % groups * GROUP * outputs;
            for (out, sum) in out[at..].iter_mut().zip(&sums) {
                *out += sum;
            }
            if grows && values.len() == new.len() * CHUNK && slots_of(k / groups).len() == CHUNK {
                let values = values.chunks(CHUNK).map(<[S]>::to_vec);
                let chunk = k / groups;
                computed.extend(new.into_iter().zip(values).map(|(i, values)| (chunk, i, values)));
            }
        }
        computed
    }
}
