//! Examples to come, and what is known of them.

use super::support::{Support, lane_norms};
use crate::data::{Matrix, Row, Rows};
use crate::error::Error;
use crate::lookahead::Cursor;
use crate::memory;
use crate::scalar::Scalar;
use crate::simd::{Lanes, WIDTH};
use crate::vectors::Vectors;

/// Up to [`WIDTH`] examples, a lane for each. What it holds of them is corrected as vectors and coefficients
/// change.
#[derive(Clone, Debug)]
pub(super) struct Panel<S> {
    pub rows: Cursor,
    vectors: Vectors<S>,
    /// Kernel values of each slot with them, and squared distances.
    k: Vec<Lanes<S>>,
    distances: Vec<Lanes<S>>,
    /// Of each output, as of now, over a.
    scores: Vec<Lanes<S>>,
}

impl<S: Scalar> Panel<S> {
    pub fn new(vectors: Vectors<S>) -> Self {
        let (k, distances, scores) = (Vec::new(), Vec::new(), Vec::new());
        Panel { rows: Cursor::default(), vectors, k, distances, scores }
    }

    /// Another without examples.
    pub fn empty(&self) -> Self {
        Panel::new(self.vectors.empty())
    }

    /// Forgets the examples.
    pub fn clear(&mut self) {
        self.rows.begin(&[]);
        self.vectors.clear();
    }

    /// Refuses a panel with so many slots where there is no memory for it, and for a few examples' features.
    pub fn check_room(&self, slots: usize) -> Result<(), Error> {
        self.vectors.check_room(2 * WIDTH)?;
        memory::check::<Lanes<S>>("kernel values of examples to come", &[2, slots])
    }

    /// Another example; [`measure`](Panel::measure) must follow.
    pub fn push(&mut self, i: usize, x: Row<'_, S>) {
        self.vectors.push(i, x);
    }

    /// Computes kernel values, distances and scores.
    pub fn measure(&mut self, support: &Support<S>) {
        support.kernel_block(&self.vectors, &mut self.k, &mut self.distances);
        support.scores(&self.k, &mut self.scores);
    }

    /// Takes these rows in place of those there were, none of them handed out.
    pub fn look_ahead(&mut self, support: &Support<S>, x: &Matrix<'_, S>, rows: &[usize]) {
        self.vectors.clear();
        self.rows.begin(rows);
        rows.iter().for_each(|&i| x.prefetch(i));
        for &i in rows {
            self.vectors.push(i, x.row(i));
        }
        if !rows.is_empty() {
            self.measure(support);
        }
    }

    /// Scores of an example, over a.
    #[inline]
    pub fn scores_of(&self, lane: usize) -> impl Iterator<Item = f64> {
        self.scores.iter().map(move |of_output| of_output.0[lane].to_f64())
    }

    /// Kernel values or, if asked for, squared distances of an example with all slots.
    pub fn column(&self, distances: bool, lane: usize, out: &mut Vec<S>) {
        out.clear();
        let lanes = if distances { &self.distances } else { &self.k };
        out.extend(lanes.iter().map(|row| row.0[lane]));
    }

    /// For so many slots.
    pub fn make_room(&mut self, slots: usize) {
        self.k.resize(slots, Lanes([S::default(); WIDTH]));
        self.distances.resize(slots, Lanes([S::default(); WIDTH]));
    }

    /// A vector without coefficients has come into a slot; `products` is room to compute in.
    pub fn insert(
        &mut self,
        support: &Support<S>,
        slot: usize,
        x: Row<'_, S>,
        products: &mut Vec<S>,
    ) {
        self.make_room(support.slots());
        // For examples that were handed out too: those of a batch are added after that.
        self.vectors.products_of(x, products);
        let k = &mut self.k[slot];
        k.0[..products.len()].copy_from_slice(products);
        let (slots, xx) = (slot..slot + 1, lane_norms(&self.vectors));
        support.map(slots.clone(), &xx, &mut self.k[slots.clone()], &mut self.distances[slots]);
    }

    /// The coefficients of a slot have risen by `c` times these.
    #[inline]
    pub fn lift(&mut self, c: f64, slot: usize, coef: &[f64]) {
        S::lift(c, coef, &self.k[slot], &mut self.scores);
    }

    /// The coefficients of every slot j have risen by `d_j` times these.
    pub fn spread(&mut self, d: &[f64], coef: &[f64]) {
        let d: Vec<S> = d.iter().map(|d| S::from_f64(*d)).collect();
        let mut sum = [Lanes([S::default(); WIDTH])];
        S::products(&[&d], &self.k, Lanes::flatten_mut(&mut sum), WIDTH);
        S::lift(1.0, coef, &sum[0], &mut self.scores);
    }

    /// In slot n now stands `h x_m + (1 - h) x_n`, of a Gaussian kernel; `apart` is the squared distance of the two.
    pub fn put_between(&mut self, gamma: f64, (m, n): (usize, usize), h: f64, apart: f64) {
        let (to_m, to_n) = (self.distances[m], self.distances[n]);
        let (of_z, k) = (&mut self.distances[n], &mut self.k[n]);
        S::between(h, &to_m.0, &to_n.0, apart, &mut of_z.0);
        for (k, distance) in k.0.iter_mut().zip(&of_z.0) {
            *k = S::from_f64(-gamma * distance.to_f64());
        }
        S::exp(&mut k.0);
    }

    /// `a` has become `a / c`, and w is as it was.
    pub fn scale(&mut self, c: f64) {
        for scores in &mut self.scores {
            scores.0.iter_mut().for_each(|score| *score = S::from_f64(c * score.to_f64()));
        }
    }
}
