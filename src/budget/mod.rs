//! Kernel hypotheses of a bounded number of support vectors.
//!
//! * Form: `w_o = a sum_s v_so phi(z_s)` as in [`Expansion`], over at most B vectors: BPegasos^M (Wang, Crammer
//!   and Vucetic 2010, Algorithm 1) where the loop is Pegasos', Projectron (Orabona, Keshet and Caputo
//!   2009) where steps neither shrink nor fade.
//! * Maintenance: a violator that would be one vector too many makes [`Maintenance`] take one out, so that
//!   `||dw||^2`, by which w degrades, is least (their equation 14). An example that is a support vector
//!   already raises its coefficients instead.
//! * Carried: `a`; the lazy average `A v - u`, see [`Scaled`]: what maintenance does to v is linear, so that the same done to u averages over vectors that are no more; `||w||^2` only where a set is projected
//!   on, as it costs kernel values that nothing else needs.
//! * Look-ahead: the kernel values of the next [`WIDTH`] examples with all vectors, vectors x examples, are
//!   one matrix product; as vectors and coefficients change, its rows and the scores still to come are
//!   corrected. The result is that of one example at a time, up to rounding, for every strategy.
//! * Cost: of an example O(B (features + outputs)); of a violator O(B outputs + features) more, for
//!   projections O(B^2). Memory, constant once the budget is full: O(B (features + outputs)), and B^2
//!   numbers for mergers, B^2/2 for projections.
//! * Determinism: every number is computed by one thread, in an order that depends on the data alone.

mod maintenance;
mod merge;
mod panel;
mod project;
mod state;
mod support;
mod union;

use crate::data::{Matrix, Row, same_features};
use crate::error::Error;
use crate::expansion::{Expansion, stays_within};
use crate::hypothesis::{Hypothesis, check_shape};
use crate::kernel::Kernel;
use crate::scalar::Scalar;
use crate::scaled::Scaled;
use crate::simd::WIDTH;
use crate::vectors::{Layout, Vectors};
pub use maintenance::Maintenance;
use maintenance::Seen;
use merge::Distances;
use panel::Panel;
use project::InverseGram;
pub use state::BudgetedState;
use support::{Support, balance};

/// By how much the coefficients of a projection may exceed those of what is projected: what the kernel matrix of
/// vectors that are nearly dependent, as near as they may be, makes of them.
const MOST_SPREAD: f64 = 1e12;

/// Coefficients, for each output, of support vectors that are never more than a budget allows.
///
/// ```
/// use pegasos::{Budgeted, Dense, Hypothesis, Kernel, Maintenance};
///
/// let x = Dense::new(&[0.0, 1.0, 1.1_f64], 3, 1)?;
/// let mut w = Budgeted::new(Kernel::Rbf { gamma: 0.5 }, 1, 1, Some(2), Maintenance::Merge)?;
/// (0..3).for_each(|i| w.add(i, x.row(i), &[2.0 - i as f64 / 2.0]));
/// assert_eq!(w.n_vectors(), 2);
/// // 1.1 has the smallest coefficient and has become one with 1.0.
/// assert!(w.degraded() < 1e-4);
/// # Ok::<(), pegasos::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Budgeted<S> {
    support: Support<S>,
    maintenance: Maintenance,
    budget: Option<usize>,
    scale: Scaled,
    /// Whether `||w||^2` is.
    carries_norm: bool,
    /// By how much the budget has moved w since this was asked for: squared norms, summed.
    degraded: f64,
    /// Additions so far.
    added: u64,
    /// Vectors taken out so far.
    evicted: u64,
    distances: Distances<S>,
    gram: InverseGram,
    panel: Panel<S>,
    scratch: Scratch<S>,
}

/// Room to compute in.
#[derive(Clone, Debug, Default)]
struct Scratch<S> {
    /// Of the example at hand, by slot: kernel values or, for mergers, squared distances.
    column: Vec<S>,
    /// Its scores over a.
    scores: Vec<f64>,
    /// Coefficients over a.
    coef: Vec<f64>,
    crosses: Vec<S>,
    bounds: Vec<S>,
    row: Vec<S>,
    /// Of a merger: the coefficients of the smaller vector that are not 0, the merged ones, those of the average, and the
    /// vector.
    some: Vec<(usize, f64)>,
    merged: Vec<f64>,
    merged_u: Vec<f64>,
    between: Vec<S>,
}

impl<S: Scalar> Budgeted<S> {
    /// None yet, of rows of `n_features` features, and at most `budget` for ever; `None` for no bound.
    pub fn new(
        kernel: Kernel,
        outputs: usize,
        n_features: usize,
        budget: Option<usize>,
        maintenance: Maintenance,
    ) -> Result<Self, Error> {
        kernel.check()?;
        check_shape(outputs, n_features)?;
        if budget == Some(0) {
            return Err(Error::parameter("budget", 0, ">= 1"));
        }
        if kernel == Kernel::Precomputed {
            let want = "one of features, as vectors outlive their matrix";
            return Err(Error::parameter("kernel", "precomputed", want));
        }
        if maintenance == Maintenance::Merge && !matches!(kernel, Kernel::Rbf { .. }) {
            let want = "\"rbf\" where vectors are merged";
            return Err(Error::parameter("kernel", format_args!("{kernel:?}"), want));
        }
        if let Maintenance::Projectron { threshold, .. } = maintenance
            && !(threshold >= 0.0 && threshold.is_finite())
        {
            return Err(Error::parameter("threshold", threshold, ">= 0 and finite"));
        }
        let most = budget.map_or(usize::MAX, |budget| budget.saturating_add(1));
        Ok(Budgeted {
            support: Support::new(kernel, outputs, n_features, most)?,
            maintenance,
            budget,
            scale: Scaled::default(),
            carries_norm: false,
            degraded: 0.0,
            added: 0,
            evicted: 0,
            distances: Distances::default(),
            gram: InverseGram::default(),
            panel: Panel::new(Vectors::new(n_features, Layout::Dense)),
            scratch: Scratch::default(),
        })
    }

    /// None yet, of sparse rows: of many features, only those that are not 0 are stored, unless vectors are
    /// merged.
    pub fn sparse(
        kernel: Kernel,
        outputs: usize,
        n_features: usize,
        budget: Option<usize>,
        maintenance: Maintenance,
    ) -> Result<Self, Error> {
        let mut w = Budgeted::new(kernel, outputs, n_features, budget, maintenance)?;
        if maintenance != Maintenance::Merge {
            w.support.store_sparse();
            w.panel = Panel::new(Vectors::new(n_features, w.support.layout()));
        }
        Ok(w)
    }

    /// How many vectors there are.
    pub fn n_vectors(&self) -> usize {
        self.support.count()
    }

    /// Whether any vector has an image that is not 0: `k(x, x) > 0`.
    pub fn spans(&self) -> bool {
        self.support.occupied().any(|slot| self.support.own[slot] > 0.0)
    }

    /// How many features a row has.
    pub fn n_features(&self) -> usize {
        self.support.n_features
    }

    /// Whether vectors are stored as they come, only those features that are not 0.
    fn is_sparse(&self) -> bool {
        self.support.layout() == Layout::Sparse
    }

    /// What happens to a vector too many.
    pub fn maintenance(&self) -> Maintenance {
        self.maintenance
    }

    /// The kernel.
    pub fn kernel(&self) -> Kernel {
        self.support.kernel
    }

    /// The model for prediction: the average if iterates are averaged, else the last. O(B (features +
    /// outputs)).
    pub fn model(&self) -> Result<Expansion<S>, Error> {
        let Support { kernel, outputs, n_features, .. } = self.support;
        let mut model = Expansion::with(kernel, outputs, n_features, self.support.layout())?;
        let last = || self.support.v.iter().map(|v| self.scale.a * v).collect();
        let coefs = self.averaged().unwrap_or_else(last);
        for slot in self.support.occupied() {
            let coef = &coefs[slot * outputs..(slot + 1) * outputs];
            model.append_vector(self.support.row(slot), coef, self.support.norms[slot]);
        }
        Ok(model)
    }

    /// Calls `f(column, value)` for every feature that is not 0 of the k-th vector.
    pub fn for_each(&self, k: usize, mut f: impl FnMut(usize, S)) {
        if let Some(slot) = self.support.occupied().nth(k) {
            self.support.row(slot).for_each(|j, x| {
                if x != 0.0 {
                    f(j, S::from_f64(x));
                }
            });
        }
    }

    /// Gives the vectors other coefficients, vectors x outputs in the order of [`for_each`](Budgeted::for_each); forgets
    /// the average. O(B outputs), and O(B^2) where the norm is carried.
    pub fn set_coefs(&mut self, coefs: &[f64]) -> Result<(), Error> {
        let outputs = self.support.outputs;
        if coefs.len() != self.n_vectors() * outputs {
            return Err(Error::shape(
                "coefs",
                format_args!("{} x {outputs} entries", self.n_vectors()),
                coefs.len(),
            ));
        }
        if let Some(c) = coefs.iter().find(|c| !c.is_finite()) {
            return Err(Error::parameter("coefs", c, "finite"));
        }
        let slots: Vec<usize> = self.support.occupied().collect();
        for (slot, coef) in slots.into_iter().zip(coefs.chunks(outputs)) {
            self.support.v[slot * outputs..(slot + 1) * outputs].copy_from_slice(coef);
        }
        (self.support.u, self.scale) = (Vec::new(), Scaled::default());
        self.support.settle_all();
        self.carry_norm(self.carries_norm);
        self.panel.clear();
        Ok(())
    }

    /// Puts the kernel values, or for mergers the squared distances, of a vector with all slots into
    /// `scratch.column`.
    fn see_slot(&mut self, slot: usize) {
        let merging = self.maintenance == Maintenance::Merge;
        let alone = self.alone(self.support.row(slot));
        alone.column(merging, 0, &mut self.scratch.column);
    }

    /// Puts the kernel values, or for mergers the squared distances, of an example with all slots into
    /// `scratch.column`, and its scores over a into `scratch.scores`. `lane` is its place in the panel, if it has one.
    fn see(&mut self, lane: Option<usize>, x: Row<'_, S>) {
        let merging = self.maintenance == Maintenance::Merge;
        let alone = if lane.is_none() { Some(self.alone(x)) } else { None };
        let (panel, lane) = (alone.as_ref().unwrap_or(&self.panel), lane.unwrap_or(0));
        panel.column(merging, lane, &mut self.scratch.column);
        self.scratch.scores.clear();
        self.scratch.scores.extend(panel.scores_of(lane));
    }

    /// A vector, or whatever row, in a panel of its own.
    fn alone(&self, x: Row<'_, S>) -> Panel<S> {
        let mut panel = self.panel.empty();
        panel.push(0, x);
        panel.measure(&self.support);
        panel
    }

    /// The scores of an example of a panel.
    #[inline]
    fn write_scores(&self, panel: &Panel<S>, lane: usize, out: &mut [f64]) {
        for (out, score) in out.iter_mut().zip(panel.scores_of(lane)) {
            *out = self.scale.a * score;
        }
    }

    /// `<w, sum_o coef_o phi(x)>` over a.
    fn product(&self, x: Row<'_, S>, coef: &[f64]) -> f64 {
        self.alone(x).scores_of(0).zip(coef).map(|(score, coef)| score * coef).sum()
    }

    /// `<w, sum_o v_o phi(z)>` over a: of w with what a vector has brought to it.
    fn product_with(&self, slot: usize) -> f64 {
        self.product(self.support.row(slot), self.support.coef(slot))
    }

    /// Gives a row a slot, without coefficients.
    fn insert(&mut self, x: Row<'_, S>) -> usize {
        let slot = self.support.insert(x, self.added, self.scale.averages());
        self.panel.insert(&self.support, slot, x, &mut self.scratch.row);
        slot
    }

    /// `v += coef` in a slot, for the example that was last seen, if it must have been.
    fn raise(&mut self, slot: usize, coef: &[f64]) {
        self.lift_norm(coef, self.support.own[slot]);
        let Budgeted { support, panel, .. } = self;
        let at = slot * support.outputs;
        for (v, c) in support.v[at..].iter_mut().zip(coef) {
            *v += c;
        }
        if !support.u.is_empty() {
            for (u, c) in support.u[at..].iter_mut().zip(coef) {
                *u += self.scale.sum_a * c;
            }
        }
        support.settle(slot);
        panel.lift(1.0, slot, coef);
    }

    /// Carries the norm on where these coefficients, of the example that was last seen or of its projection, are added;
    /// its squared norm is `own`.
    fn lift_norm(&mut self, coef: &[f64], own: f64) {
        if self.carries_norm {
            let change = |(c, s): (&f64, &f64)| c * (2.0 * s + c * own);
            self.scale.norm2 += coef.iter().zip(&self.scratch.scores).map(change).sum::<f64>();
        }
    }

    /// Takes a vector out, as it is.
    fn drop_slot(&mut self, slot: usize) {
        self.panel.lift(-1.0, slot, self.support.coef(slot));
        self.support.clear(slot);
        self.evicted += 1;
    }

    /// `||w||^2` over `a^2` from all pairs of vectors.
    fn square(&self) -> f64 {
        let slots: Vec<usize> = self.support.occupied().collect();
        let mut panel = self.panel.empty();
        let mut sum = 0.0;
        for slots in slots.chunks(WIDTH) {
            panel.clear();
            for &slot in slots {
                panel.push(slot, self.support.row(slot));
            }
            panel.measure(&self.support);
            for (lane, &slot) in slots.iter().enumerate() {
                let pairs = self.support.coef(slot).iter().zip(panel.scores_of(lane));
                sum += pairs.map(|(v, s)| v * s).sum::<f64>();
            }
        }
        sum.max(0.0)
    }

    /// The coefficients of the average, slot after slot; `None` if nothing is averaged.
    fn averaged(&self) -> Option<Vec<f64>> {
        if !self.scale.averages() {
            return None;
        }
        let mean = |(v, u): (&f64, &f64)| self.scale.mean(*v, *u);
        let mut means: Vec<f64> = self.support.v.iter().zip(&self.support.u).map(mean).collect();
        means.chunks_mut(self.support.outputs).for_each(balance);
        Some(means)
    }

    /// Refuses so many examples to come where there is no memory for what they may add.
    fn check_growth(&mut self, more: usize) -> Result<(), Error> {
        let width = self.support.reserve(more, self.scale.averages())?;
        self.panel.check_room(width)?;
        match self.maintenance {
            Maintenance::Merge => self.distances.check_room(width),
            Maintenance::Project | Maintenance::Projectron { .. } => self.gram.reserve(width),
            Maintenance::Remove | Maintenance::Random { .. } => Ok(()),
        }
    }

    /// Below this, `a` is folded into `v`: both would leave the range where f32 is at its best.
    const SMALLEST_SCALE: f64 = 1e-4;
}

impl<S: Scalar> Hypothesis for Budgeted<S> {
    const KEEPS_ROWS: bool = true;
    type Scalar = S;

    fn outputs(&self) -> usize {
        self.support.outputs
    }

    fn check_features(&self, n_features: usize) -> Result<(), Error> {
        same_features(self.n_features(), n_features)
    }

    fn score(&self, x: Row<'_, S>, out: &mut [f64]) {
        self.write_scores(&self.alone(x), 0, out);
    }

    fn scores(&self, x: &Matrix<'_, S>, rows: &[usize], out: &mut [f64]) {
        let outputs = self.outputs();
        let mut panel = self.panel.empty();
        for (rows, out) in rows.chunks(WIDTH).zip(out.chunks_mut(WIDTH * outputs)) {
            panel.look_ahead(&self.support, x, rows);
            for (lane, out) in out.chunks_mut(outputs).enumerate() {
                self.write_scores(&panel, lane, out);
            }
        }
    }

    fn panel(&self) -> usize {
        if self.panel.rows.is_over() { WIDTH } else { 0 }
    }

    fn look_ahead(&mut self, x: &Matrix<'_, S>, rows: &[usize]) -> Result<(), Error> {
        if !rows.is_empty() {
            self.check_growth(rows.len())?;
        }
        self.panel.look_ahead(&self.support, x, rows);
        Ok(())
    }

    fn is_positive(&self) -> bool {
        self.support.kernel.is_positive()
    }

    fn check_copy(&self) -> Result<(), Error> {
        self.support.check_copy()?;
        self.distances.check_copy()?;
        self.gram.check_copy()
    }

    fn survives(&self, norm2: f64, total: f64) -> bool {
        let norms = self.support.occupied().map(|slot| self.support.norms[slot].to_f64());
        let norm2 = norms.fold(norm2, f64::max);
        let reach = MOST_SPREAD * (self.support.v.iter().map(|v| v.abs()).sum::<f64>() + total);
        stays_within::<S>(self.support.kernel, norm2, 0.0, reach)
    }

    fn score_next(&mut self, i: usize, x: Row<'_, S>, out: &mut [f64]) {
        let Some(lane) = self.panel.rows.next(i) else {
            return self.score(x, out);
        };
        self.write_scores(&self.panel, lane, out);
    }

    fn add(&mut self, i: usize, x: Row<'_, S>, coef: &[f64]) {
        self.add_row(self.panel.rows.place(i), x, coef);
    }

    fn add_late(&mut self, _: usize, x: Row<'_, S>, coef: &[f64]) {
        // The number may be that of another row by now.
        self.add_row(None, x, coef);
    }

    fn degraded(&mut self) -> f64 {
        std::mem::take(&mut self.degraded)
    }

    fn gradient_norm(&self, _: usize, x: Row<'_, S>, coef: &[f64]) -> f64 {
        let norm2 = x.norm2();
        let own = self.support.kernel.own(norm2);
        (own * coef.iter().map(|c| c * c).sum::<f64>()).sqrt()
    }

    fn scale(&mut self, c: f64) {
        self.scale.shrink(c);
        if self.scale.a < Self::SMALLEST_SCALE {
            self.fold(1.0);
        }
    }

    fn carry_norm(&mut self, wanted: bool) {
        self.carries_norm = wanted;
        if wanted {
            self.scale.norm2 = self.square();
        }
    }

    /// O(1) where it is carried, else O(B^2).
    fn norm2(&self) -> f64 {
        if self.carries_norm { self.scale.norm2() } else { self.norm2_afresh() }
    }

    fn norm2_afresh(&self) -> f64 {
        self.scale.a.powi(2) * self.square()
    }

    fn is_zero(&self) -> bool {
        self.support.v.iter().all(|&v| v == 0.0)
    }

    fn is_finite(&self) -> bool {
        let sum: f64 = self.support.occupied().map(|slot| self.support.size[slot]).sum();
        S::from_f64(self.scale.a * sum.sqrt()).to_f64().is_finite()
    }

    fn scaled(&self) -> &Scaled {
        &self.scale
    }

    fn scaled_mut(&mut self) -> &mut Scaled {
        &mut self.scale
    }

    fn fold(&mut self, a: f64) {
        let fold = self.scale.fold(a);
        fold.apply(&mut self.support.v, &mut self.support.u);
        self.support.settle_all();
        self.panel.scale(fold.c);
    }

    fn average(&mut self, weight: f64) {
        if !self.scale.averages() {
            self.support.u = vec![0.0; self.support.v.len()];
        }
        self.scale.average(weight);
    }

    fn set_average_weight(&mut self, sum: f64) {
        let c = self.scale.reweigh(sum);
        self.support.u.iter_mut().for_each(|u| *u *= c);
        if !self.scale.averages() {
            self.support.u.clear();
        }
    }

    fn mean(&self) -> Option<Self> {
        let v = self.averaged()?;
        let mut mean = self.clone();
        (mean.support.v, mean.support.u, mean.scale) = (v, Vec::new(), Scaled::default());
        mean.support.settle_all();
        mean.carry_norm(self.carries_norm);
        mean.panel = self.panel.empty();
        Some(mean)
    }
}
