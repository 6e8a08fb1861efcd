//! The inverse of the kernel matrix of the support vectors, for projections onto their span.
//!
//! * With `d = K^-1 k`, k the kernel values of x with the support vectors, `sum_j d_j phi(z_j)` is the point of
//!   their span nearest to `phi(x)`, and `delta = k(x, x) - k'd` its squared distance (Wang, Crammer and
//!   Vucetic 2010, equations 15 to 17; Orabona, Keshet and Caputo 2009).
//! * The projection of a vector p onto the others is `-(K^-1)_jp/(K^-1)_pp`, and its squared distance from their
//!   span `1/(K^-1)_pp`. p is the vector with the smallest coefficients, as in the paper; the one whose
//!   projection costs least (equation 17) could be had in O(B) too, but made worse models in trials: what
//!   is cheapest now leaves old vectors standing.
//! * A vector enters and another leaves by updates of rank one, which wait until the next product with the
//!   matrix: one pass over the lower half, O(B^2) a violation. 4 B^2 bytes.
//! * Rounding: a vector enters only if its distance is above [`least_distance`], so the matrix stays far from
//!   singular. Now and then a column is compared with what it should be, and where it has drifted, or where a
//!   distance comes out that there cannot be, the matrix is made anew from the vectors.

use crate::error::Error;
use crate::memory;
use crate::scalar::{Scalar, largest};
use crate::simd::update_and_multiply;

/// Of `k(x, x)`: vectors whose images are that close to the span of others (in squared distance) are
/// projected onto it. Kernel values are right to about 1e-7 in f32, 1e-15 in f64, but coefficients may be as large as 1
/// over the root of the least eigenvalue, and what they multiply cancels. In trials on the checkerboard with a wide
/// kernel, a hundredth of these values let training break down within ten thousand steps.
pub(super) fn least_distance<S: Scalar>() -> f64 {
    if size_of::<S>() == 4 { 1e-3 } else { 1e-5 }
}

/// `K^-1` over slots, rows and columns of a hole being 0.
#[derive(Clone, Debug, Default)]
pub(super) struct InverseGram {
    /// The lower half, row after row, but for what waits.
    q: Vec<f64>,
    /// Waits to be added, times its transpose.
    plus: Vec<f64>,
    /// Waits to be subtracted, times its transpose.
    minus: Vec<f64>,
    /// `K^-1 k` of the last [`solve`](InverseGram::solve).
    pub d: Vec<f64>,
}

impl InverseGram {
    fn len(&self) -> usize {
        self.d.len()
    }

    fn place(i: usize, j: usize) -> usize {
        i.max(j) * (i.max(j) + 1) / 2 + i.min(j)
    }

    /// Sets `d = K^-1 k`. O(B^2).
    pub fn solve(&mut self, k: &[f64]) {
        update_and_multiply(&mut self.q, &self.plus, &self.minus, k, &mut self.d);
        self.plus.fill(0.0);
        self.minus.fill(0.0);
    }

    /// `k'd` for the k that was solved for: the squared norm of the projection.
    pub fn explained(&self, k: &[f64]) -> f64 {
        k.iter().zip(&self.d).map(|(k, d)| k * d).sum()
    }

    /// Whether `d` is what it can be: k'd no more than `k(x, x)`, and no coefficient beyond what vectors that far
    /// from each other's span allow.
    pub fn is_sane(&self, k: &[f64], own: f64, least: f64) -> bool {
        let largest = largest(&self.d);
        // False for NaN too.
        self.explained(k).abs() <= 1.001 * own.abs() && largest * largest * least <= 1.0
    }

    /// Of a vector, 1 over its squared distance from the span of the others.
    pub fn pivot(&self, p: usize) -> f64 {
        self.q[InverseGram::place(p, p)] + self.plus[p] * self.plus[p]
    }

    /// Enters a vector in this slot, which is a hole or the next: that of the last `solve`, at this squared
    /// distance. O(B).
    pub fn insert(&mut self, slot: usize, distance: f64) {
        if slot == self.len() {
            self.make_room();
        }
        self.d[slot] = -1.0;
        let c = 1.0 / distance.sqrt();
        for j in 0..self.len() {
            self.plus[j] = c * self.d[j];
        }
    }

    /// Makes room for so many slots.
    pub fn reserve(&mut self, slots: usize) -> Result<(), Error> {
        let what = "the inverse of the kernel matrix";
        let size = slots.saturating_mul(slots + 1) / 2;
        memory::reserve(what, &mut self.q, size)?;
        for part in [&mut self.plus, &mut self.minus, &mut self.d] {
            memory::reserve(what, part, slots)?;
        }
        Ok(())
    }

    /// Refuses a copy that there is no memory for.
    pub fn check_copy(&self) -> Result<(), Error> {
        memory::check::<f64>("a copy of the inverse of the kernel matrix", &[self.q.len()])
    }

    /// Another slot, a hole as yet.
    pub fn make_room(&mut self) {
        self.q.resize(self.q.len() + self.len() + 1, 0.0);
        for part in [&mut self.plus, &mut self.minus, &mut self.d] {
            part.push(0.0);
        }
    }

    /// Takes a vector out; returns the coefficients of its projection onto the others, and its squared
    /// distance from it. To be called once after `solve` at most. O(B).
    pub fn remove(&mut self, p: usize) -> (Vec<f64>, f64) {
        let at = |j: usize| self.q[InverseGram::place(j, p)] + self.plus[j] * self.plus[p];
        let mut column: Vec<f64> = (0..self.len()).map(at).collect();
        let pivot = column[p];
        let root = pivot.sqrt();
        for (j, c) in column.iter_mut().enumerate() {
            self.minus[j] = *c / root;
            self.q[InverseGram::place(j, p)] = 0.0;
            *c /= -pivot;
        }
        column[p] = 0.0;
        (self.plus[p], self.minus[p]) = (0.0, 0.0);
        (column, 1.0 / pivot)
    }

    /// Forgets all vectors but keeps the slots.
    pub fn clear(&mut self) {
        for part in [&mut self.q, &mut self.plus, &mut self.minus, &mut self.d] {
            part.fill(0.0);
        }
    }
}
