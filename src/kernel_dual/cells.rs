//! Scores and dual variables of some examples, of those outputs that contend for each, and the kernel values that matter to them.

use std::ops::Range;

use super::values::Cached;
use super::working::Among;
use crate::scalar::Scalar;
use crate::simd::WIDTH;

const NOWHERE: usize = usize::MAX;

/// A cell is an output of an example. Cells have places: output after output, in each the examples for which it contends, and
/// nothing up to a multiple of [`WIDTH`], whose weights are 0.
#[derive(Clone, Debug)]
pub(super) struct Cells<S> {
    /// Numbers in the working set.
    pub examples: Vec<u32>,
    /// Where the cells of each example begin, in the order of outputs; and which of them is that of its label.
    bounds: Vec<usize>,
    pub own: Vec<u32>,
    /// Where each cell is.
    places: Vec<u32>,
    /// Where each output begins; at each place which output, and whose number.
    pub starts: Vec<usize>,
    outputs: Vec<u32>,
    members: Vec<u32>,
    /// By place, also what a dual variable of 1 is in w.
    pub scores: Vec<f64>,
    pub dual: Vec<f64>,
    pub weights: Vec<f64>,
    pub factor: Vec<f64>,
    /// Kernel values of a place with those of the same output, once they are needed, and where they are.
    rows: Vec<S>,
    slots: Vec<usize>,
}

impl<S: Scalar> Cells<S> {
    /// `contend` adds the outputs that contend for an example to what there is, and says which of them is that of its label.
    pub fn new(
        examples: &[u32],
        n_outputs: usize,
        mut contend: impl FnMut(usize, &mut Vec<u32>) -> u32,
    ) -> Self {
        let (mut all, mut bounds, mut own) = (Vec::new(), vec![0], Vec::new());
        for e in 0..examples.len() {
            own.push(contend(e, &mut all));
            bounds.push(all.len());
        }
        let mut counts = vec![0_usize; n_outputs];
        all.iter().for_each(|&o| counts[o as usize] += 1);
        let mut starts = vec![0];
        for count in counts {
            starts.push(starts[starts.len() - 1] + count.next_multiple_of(WIDTH));
        }
        let (len, mut next) = (starts[n_outputs], starts.clone());
        let (mut outputs, mut members) = (vec![0; len], vec![0; len]);
        let mut places = Vec::with_capacity(all.len());
        for (range, &k) in bounds.windows(2).zip(examples) {
            for &o in &all[range[0]..range[1]] {
                let at = next[o as usize];
                next[o as usize] += 1;
                (outputs[at], members[at]) = (o, k);
                places.push(at as u32);
            }
        }
        let zeros = || vec![0.0; len];
        let (scores, dual, weights, factor) = (zeros(), zeros(), zeros(), zeros());
        let (rows, slots, examples) = (Vec::new(), vec![NOWHERE; len], examples.to_vec());
        Cells {
            examples,
            bounds,
            own,
            places,
            starts,
            outputs,
            members,
            scores,
            dual,
            weights,
            factor,
            rows,
            slots,
        }
    }

    /// How many kernel values there may be.
    pub fn size(&self) -> usize {
        self.starts.windows(2).map(|own| (own[1] - own[0]).pow(2)).sum()
    }

    /// Takes the room of all of them, so that none is asked for later; false where there is none.
    pub fn reserve(&mut self) -> bool {
        self.rows.try_reserve_exact(self.size()).is_ok()
    }

    /// The cells of an example.
    pub fn of(&self, e: usize) -> Range<usize> {
        self.bounds[e]..self.bounds[e + 1]
    }

    /// The place of a cell, and which output it is.
    pub fn at(&self, cell: usize) -> (usize, usize) {
        let at = self.places[cell] as usize;
        (at, self.outputs[at] as usize)
    }

    /// Which output has a place.
    pub fn output(&self, at: usize) -> usize {
        self.outputs[at] as usize
    }

    /// Whose number in the set it is.
    pub fn member(&self, at: usize) -> usize {
        self.members[at] as usize
    }

    /// What is at the places of an example.
    pub fn read_of(&self, e: usize, from: &[f64], out: &mut Vec<f64>) {
        out.clear();
        out.extend(self.places[self.of(e)].iter().map(|&at| from[at as usize]));
    }

    pub fn read(&self, e: usize, scores: &mut Vec<f64>, dual: &mut Vec<f64>) {
        self.read_of(e, &self.scores, scores);
        self.read_of(e, &self.dual, dual);
    }

    /// The places of dual variables that are not 0.
    pub fn nonzeros(&self) -> impl Iterator<Item = usize> + use<'_, S> {
        (0..self.dual.len()).filter(|&at| self.dual[at] != 0.0)
    }

    /// Has the dual variables of an example sum to 0.
    pub fn balance(&mut self, e: usize) {
        let (own, _) = self.at(self.bounds[e] + self.own[e] as usize);
        let places = self.places[self.of(e)].iter().map(|&at| at as usize);
        let others: f64 = places.filter(|&at| at != own).map(|at| self.dual[at]).sum();
        self.dual[own] = (0.0 - others).min(1.0);
    }

    /// Kernel values with those of the same output, if they are there.
    pub fn row(&self, at: usize) -> Option<&[S]> {
        let slot = self.slots[at];
        (slot != NOWHERE).then(|| &self.rows[slot..][..self.range(at).len()])
    }

    /// The places of the same output.
    fn range(&self, at: usize) -> Range<usize> {
        let o = self.outputs[at] as usize;
        self.starts[o]..self.starts[o + 1]
    }

    /// Makes sure of the kernel values of a place; the set must have them.
    pub fn bring(&mut self, at: usize, among: &Among<S>, cached: &Cached<S>) {
        if self.slots[at] == NOWHERE {
            let row = among.row(cached, self.member(at));
            self.slots[at] = self.rows.len();
            self.rows.extend(self.members[self.range(at)].iter().map(|&k| row[k as usize]));
        }
    }

    /// Makes sure of those of dual variables that are not 0.
    pub fn bring_all(&mut self, among: &Among<S>, cached: &Cached<S>) {
        for at in 0..self.dual.len() {
            if self.dual[at] != 0.0 {
                self.bring(at, among, cached);
            }
        }
    }

    /// Adds to scores what they gain where a coefficient in w does.
    pub fn add(
        &mut self,
        at: usize,
        gain: f64,
        among: &Among<S>,
        cached: &Cached<S>,
        scores: &mut [f64],
    ) {
        self.bring(at, among, cached);
        let range = self.range(at);
        S::add_rows(&[gain], &[&self.rows[self.slots[at]..][..range.len()]], &mut scores[range]);
    }

    /// And where several do, at these places.
    pub fn add_all(
        &mut self,
        gains: &[(usize, f64)],
        among: &Among<S>,
        cached: &Cached<S>,
        scores: &mut [f64],
    ) {
        let mut gains = gains.to_vec();
        gains.sort_unstable_by_key(|gain| gain.0);
        gains.iter().for_each(|gain| self.bring(gain.0, among, cached));
        for own in gains.chunk_by(|a, b| self.outputs[a.0] == self.outputs[b.0]) {
            let range = self.range(own[0].0);
            let row = |at: usize| &self.rows[self.slots[at]..][..range.len()];
            let (gains, rows): (Vec<f64>, Vec<&[S]>) =
                own.iter().map(|&(at, gain)| (gain, row(at))).unzip();
            S::add_rows(&gains, &rows, &mut scores[range]);
        }
    }
}
