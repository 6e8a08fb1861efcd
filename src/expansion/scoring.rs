//! Scores: sums of coefficients times kernel values, chunk by chunk of the vectors.

use std::ops::Range;

use super::coefs::Coefs;
use super::{Expansion, PANEL};
use crate::data::Matrix;
use crate::hypothesis::Hypothesis;
use crate::scalar::Scalar;
use crate::threads::side_by_side;
use crate::vectors::{CHUNK, GROUP};

/// Where a vector has coefficients for some outputs alone, and they are fewer than one of so many, they stay picked out: of pairs
/// of K classes a vector has K - 1 of K (K - 1)/2. What is picked is multiplied with some rows at once, of a row by itself
/// alone; where all stand in a row, 8 to 16 are at once.
const RARE: usize = 8;

/// Rows whose kernel values stand side by side, so that a coefficient that was picked is multiplied with all of them at once: of
/// thousands of vectors some 100 kB, for L2.
const AT_ONCE: usize = 8;

/// Coefficients as products want them, which stand as lists.
#[derive(Clone, Debug)]
pub(super) enum Laid<S> {
    Rare(Rare<S>),
    /// All of them, chunk after chunk.
    Chunks(Vec<S>),
}

/// The coefficients that are not 0, output after output.
#[derive(Clone, Debug)]
pub(super) struct Rare<S> {
    /// Where those of each output begin, and the end.
    starts: Vec<usize>,
    slots: Vec<u32>,
    v: Vec<S>,
}

impl<S: Scalar> Laid<S> {
    fn of(coefs: &Coefs<S>, vectors: usize, outputs: usize) -> Self {
        let zero = S::default();
        let nonzeros = |slot: usize, f: &mut dyn FnMut(usize, S)| {
            coefs.for_each(slot, |o, v, _| {
                if v != zero {
                    f(o, v);
                }
            });
        };
        let mut starts = vec![0; outputs + 1];
        (0..vectors).for_each(|slot| nonzeros(slot, &mut |o, _| starts[o + 1] += 1));
        (0..outputs).for_each(|o| starts[o + 1] += starts[o]);
        let count = starts[outputs];
        if count > vectors * outputs / RARE {
            let mut chunks = vec![zero; vectors.div_ceil(CHUNK) * CHUNK * outputs];
            for slot in 0..vectors {
                let first = slot / CHUNK * outputs * CHUNK + slot % CHUNK;
                nonzeros(slot, &mut |o, v| chunks[first + o * CHUNK] = v);
            }
            return Laid::Chunks(chunks);
        }
        let mut next = starts.clone();
        let (mut slots, mut picked) = (vec![0; count], vec![zero; count]);
        for slot in 0..vectors {
            nonzeros(slot, &mut |o, v| {
                (slots[next[o]], picked[next[o]]) = (slot as u32, v);
                next[o] += 1;
            });
        }
        Laid::Rare(Rare { starts, slots, v: picked })
    }
}

impl<S: Scalar> Rare<S> {
    /// Adds the products with the kernel values of some rows to their sums: of each chunk of vectors the rows' values with it.
    pub(super) fn add(&self, chunks: &[Vec<&[S]>], sums: &mut [f64]) {
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
            match self.coefs.chunks() {
                Some(v) => {
                    for chunk in v.chunks(CHUNK * self.outputs) {
                        for (total, v) in totals.iter_mut().zip(chunk.chunks(CHUNK)) {
                            *total += v.iter().map(|v| v.to_f64()).sum::<f64>();
                        }
                    }
                }
                None => (0..self.n_vectors()).for_each(|slot| {
                    self.coefs.for_each(slot, |o, v, _| totals[o] += v.to_f64());
                }),
            }
            totals
        });
        for out in out.chunks_mut(self.outputs) {
            out.iter_mut().zip(totals).for_each(|(out, total)| *out = self.raise * total);
        }
    }

    /// All coefficients, chunk after chunk; or those that are not 0, where they are rare. Looked for once since they changed:
    /// O(vectors + coefficients that are not 0) then.
    pub(super) fn laid(&self) -> Result<&[S], &Rare<S>> {
        if let Some(v) = self.coefs.chunks() {
            return Ok(v);
        }
        match self.laid.get_or_init(|| Laid::of(&self.coefs, self.n_vectors(), self.outputs)) {
            Laid::Chunks(v) => Ok(v),
            Laid::Rare(rare) => Err(rare),
        }
    }

    /// How many coefficients a kernel value is multiplied with, over all vectors.
    pub(crate) fn products(&self) -> usize {
        match self.laid() {
            Ok(_) => self.n_vectors() * self.outputs,
            Err(rare) => rare.v.len(),
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
        let laid = self.laid();
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
            let of_rows = self.values_of(group, slots, caching, &values);
            let mut sums = Vec::new();
            if let Ok(v) = laid {
                sums.resize(group.len() * outputs, 0.0);
                if len == CHUNK {
                    let v = &v[*chunk * outputs * CHUNK..][..outputs * CHUNK];
                    let v: Vec<&[S]> = v.chunks(CHUNK).collect();
                    S::dots_of_rows(&of_rows, &v, &mut sums, outputs);
                } else {
                    for (values, sums) in of_rows.iter().zip(sums.chunks_mut(outputs)) {
                        sum_chunk(v, *chunk, values, sums);
                    }
                }
            }
            let kept = laid.is_err() || grows && len == CHUNK;
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
        if let Err(rare) = laid {
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

/// Writes what these kernel values, with the vectors of a chunk, give to the scores over a, v being all coefficients.
pub(super) fn sum_chunk<S: Scalar>(v: &[S], chunk: usize, values: &[S], out: &mut [f64]) {
    let v = &v[chunk * out.len() * CHUNK..][..out.len() * CHUNK];
    if values.len() == CHUNK {
        S::dots(values, v, out);
        return;
    }
    for (v, out) in v.chunks(CHUNK).zip(out) {
        *out = S::dot(values, &v[..values.len()]);
    }
}
