//! What happens when a vector is one too many: removal, merging, projection.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;

use super::merge::{Place, partner};
use super::project::least_distance;
use super::{Budgeted, Scratch};
use crate::data::Row;
use crate::kernel::Kernel;
use crate::scalar::Scalar;
use crate::simd::{LANES, Partners};

/// How often the inverse of the kernel matrix is compared with a row of that.
const CHECKED: u64 = 16;

/// What happens to a vector too many.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Maintenance {
    /// The vector with the smallest `||a||^2 k(x, x)` goes, of several the oldest. O(B).
    Remove,
    /// Any vector goes, all being equally likely. O(1).
    Random {
        /// Of the choice.
        seed: u64,
    },
    /// The vector with the smallest `||a||^2 k(x, x)`, of several the oldest, is projected onto the others. O(B^2).
    Project,
    /// The vector with the smallest coefficients is merged with the one that makes least of it. Gaussian
    /// kernels only. O(B outputs + features).
    Merge,
    /// Projectron and Projectron++: a mistake that is near the span of the vectors, or when the budget is full, is
    /// projected onto it and becomes no vector. For losses whose coefficients are -1, 0 or 1, steps
    /// of one size and lambda = 0. O(B^2).
    Projectron {
        /// The squared distance up to which `phi(x)` is near. The paper's eta, which compares with it so in
        /// its authors' code.
        threshold: f64,
        /// Whether examples that are right by a margin below 1 are learned from as well: Projectron++.
        margin: bool,
    },
}

/// How an example lies to the span of the vectors.
pub(super) struct Seen {
    /// `k(x, x)`.
    pub own: f64,
    /// The squared distance of its image from the span.
    pub distance: f64,
    /// Whether it is so near that it must not become a vector.
    pub near: bool,
}

impl<S: Scalar> Budgeted<S> {
    /// `w += coef phi(x)`, and what the budget asks for then. `lane` is the place of x in the panel, if it has one.
    pub(super) fn add_row(&mut self, lane: Option<usize>, x: Row<'_, S>, coef: &[f64]) {
        self.added += 1;
        let mut over_a = std::mem::take(&mut self.scratch.coef);
        over_a.clear();
        over_a.extend(coef.iter().map(|c| c / self.scale.a));
        let coef = &over_a[..];
        let full = self.support.count() >= self.budget.unwrap_or(usize::MAX);
        self.panel.make_room(self.support.slots());
        let found = self.support.find(x);
        match (found, self.maintenance) {
            (None, Maintenance::Merge) => {
                self.see(lane, x);
                let slot = self.insert(x);
                self.distances.widen(self.support.width());
                self.scratch.column.resize(self.support.slots(), S::default());
                self.distances.set_row(slot, &self.scratch.column);
                self.raise(slot, coef);
                if full {
                    self.merge(Some(slot));
                } else {
                    self.distances.set_column(slot, self.support.slots());
                }
            }
            (None, Maintenance::Project) | (_, Maintenance::Projectron { .. }) => {
                self.see(lane, x);
                self.project_or_add(x, coef, full || found.is_some());
            }
            _ => {
                if self.carries_norm {
                    self.see(lane, x);
                }
                let slot = found.unwrap_or_else(|| self.insert(x));
                self.raise(slot, coef);
                if full && found.is_none() {
                    self.remove();
                }
            }
        }
        self.scratch.coef = over_a;
    }

    pub(super) fn remove(&mut self) {
        let p = match self.maintenance {
            Maintenance::Random { seed } => {
                // Of one sequence: first draws of many have a pattern.
                let mut draws = Pcg64::new(u128::from(seed), 0);
                draws.advance(u128::from(self.evicted));
                let k = (u128::from(draws.next_u64()) * self.support.count() as u128) >> 64;
                self.support.by_age(k as usize)
            }
            _ => self.support.smallest(),
        };
        let degraded = self.support.size[p];
        if self.carries_norm {
            self.scale.norm2 += degraded - 2.0 * self.product_with(p);
        }
        self.drop_slot(p);
        self.count_degradation(degraded);
    }

    fn count_degradation(&mut self, over_a: f64) {
        self.degraded += self.scale.a * self.scale.a * over_a.max(0.0);
        // Roundings of what is carried add up.
        if self.carries_norm && self.evicted.is_multiple_of(4096) {
            self.scale.norm2 = self.square();
        }
    }

    /// Merges two vectors; of the distances to one that is `new` those in its row are known, not yet those in its column.
    pub(super) fn merge(&mut self, new: Option<usize>) {
        let Kernel::Rbf { gamma } = self.support.kernel else {
            unreachable!("only Gaussian kernels are merged");
        };
        let m = self.support.smallest();
        let a = self.support.size[m];
        if a == 0.0 {
            self.complete(new);
            return self.drop_slot(m);
        }
        if let Some(new) = new {
            self.distances.mirror(new, m);
        }
        let support = &self.support;
        let Scratch { crosses, bounds, some, .. } = &mut self.scratch;
        let width = support.width();
        let lanes = support.slots().next_multiple_of(LANES);
        crosses.resize(width, S::default());
        bounds.resize(width, S::default());
        let of_m = support.coef(m);
        some.clear();
        some.extend(of_m.iter().copied().enumerate().filter(|(_, c)| *c != 0.0));
        S::mix(some, &support.rounded, support.stride, &mut crosses[..width]);
        let of = Partners {
            gamma,
            m,
            distances: &self.distances.row(m)[..lanes],
            sizes: &support.size[..lanes],
            crosses: &crosses[..lanes],
        };
        let product = |n: usize| of_m.iter().zip(support.coef(n)).map(|(m, n)| m * n).sum();
        let Some((n, place)) = partner(of, &mut bounds[..lanes], product) else {
            // So small that all others are infinitely larger.
            self.complete(new);
            self.drop_slot(m);
            return self.count_degradation(a);
        };
        let apart = of.distances[n].to_f64();
        match new {
            // The row of the one that stays is about to be made anew, of both as they are.
            Some(new) if new == m => self.distances.mirror(new, n),
            Some(new) if new == n => self.distances.mirror(new, m),
            _ => self.complete(new),
        }
        self.merge_at(gamma, (m, n), &place, apart);
        self.count_degradation(place.degradation);
    }

    /// Makes known what is known from one that is new, if there is one.
    fn complete(&mut self, new: Option<usize>) {
        if let Some(new) = new {
            self.distances.set_column(new, self.support.slots());
        }
    }

    /// Merges m into n, and updates all that depends on it.
    fn merge_at(&mut self, gamma: f64, (m, n): (usize, usize), place: &Place, apart: f64) {
        let Place { h, of_m, of_n, degradation } = *place;
        let outputs = self.support.outputs;
        let mix = |all: &[f64], out: &mut Vec<f64>| {
            out.clear();
            if !all.is_empty() {
                let pairs = all[m * outputs..].iter().zip(&all[n * outputs..]);
                out.extend(pairs.take(outputs).map(|(m, n)| of_m * m + of_n * n));
            }
        };
        let Scratch { merged, merged_u, between, .. } = &mut self.scratch;
        mix(&self.support.v, merged);
        mix(&self.support.u, merged_u);
        self.support.between(m, n, h, between);
        if self.carries_norm {
            let gone = self.product_with(m) + self.product_with(n);
            let Scratch { merged, between, .. } = &self.scratch;
            let there = self.product(Row::Dense(between), merged);
            self.scale.norm2 += 2.0 * (there - gone) + degradation;
        }

        let Budgeted { support, panel, scratch, distances, .. } = self;
        let Scratch { merged, merged_u, between, .. } = &*scratch;
        for slot in [m, n] {
            panel.lift(-1.0, slot, support.coef(slot));
        }
        support.put(n, Row::Dense(between), self.added);
        support.v[n * outputs..(n + 1) * outputs].copy_from_slice(merged);
        if let Some(u) = support.u.get_mut(n * outputs..(n + 1) * outputs) {
            u.copy_from_slice(merged_u);
        }
        support.settle(n);
        support.clear(m);
        self.evicted += 1;

        let slots = support.slots();
        scratch.row.resize(slots, S::default());
        let (to_m, to_n) = (&distances.row(m)[..slots], &distances.row(n)[..slots]);
        S::between(h, to_m, to_n, apart, &mut scratch.row);
        distances.set_row(n, &scratch.row);
        distances.set_column(n, slots);

        panel.put_between(gamma, (m, n), h, apart);
        panel.lift(1.0, n, support.coef(n));
    }

    /// For the strategies that know the span: projects an example onto it, or makes it a vector. `full`: there is no
    /// room for another.
    fn project_or_add(&mut self, x: Row<'_, S>, coef: &[f64], full: bool) {
        let Seen { own, distance, near } = self.solve(x);
        let within = own - distance;
        let size: f64 = coef.iter().map(|c| c * c).sum();
        if let Maintenance::Projectron { threshold, margin } = self.maintenance {
            let sign = |c: &f64| if *c == 0.0 { 0.0 } else { c.signum() };
            let scores = &self.scratch.scores;
            let right_by: f64 =
                self.scale.a * coef.iter().zip(scores).map(|(c, s)| sign(c) * s).sum::<f64>();
            if right_by <= 0.0 {
                if full || near || distance <= threshold {
                    self.absorb(coef, within, size * distance);
                } else {
                    self.enlist(x, coef, distance);
                }
            } else if margin {
                let loss = 1.0 - right_by;
                // How far from the span the example is, as the threshold measures it.
                let away = if near { 0.0 } else { distance / threshold };
                if loss > away {
                    let square = coef.iter().filter(|c| **c != 0.0).count() as f64 * within;
                    let tau = (loss / square).min(1.0).min(2.0 * (loss - away) / square);
                    let coef: Vec<f64> = coef.iter().map(|c| tau * c).collect();
                    self.absorb(&coef, within, tau * tau * size * distance);
                }
            }
            return;
        }
        let smallest = full.then(|| self.support.smallest());
        if near || smallest.is_some_and(|p| size * own.abs() < self.support.size[p]) {
            return self.absorb(coef, within, size * distance);
        }
        self.enlist(x, coef, distance);
        if let Some(p) = smallest {
            self.project(p);
        }
    }

    /// Solves for the example that was last seen: how it lies to the span of the vectors.
    pub(super) fn solve(&mut self, x: Row<'_, S>) -> Seen {
        let k = self.kernel_values(self.support.slots());
        self.gram.solve(&k);
        let norm2 = S::from_f64(x.norm2()).to_f64();
        let own = self.support.kernel.own(norm2);
        let sane = self.gram.is_sane(&k, own, least_distance::<S>());
        if !sane || self.added.is_multiple_of(CHECKED) && self.has_drifted(&k) {
            self.remember_pairs();
            self.gram.solve(&k);
        }
        let distance = (own - self.gram.explained(&k)).max(0.0);
        // Of kernels that are not positive, own may be negative; then nothing can be entered.
        Seen { own, distance, near: distance <= least_distance::<S>() * own.abs() }
    }

    /// Projects a vector onto the others, and takes it out. `solve` must have been called since the last one was.
    pub(super) fn project(&mut self, p: usize) {
        // No vector is further from the span of others than from 0.
        if self.gram.pivot(p) * self.support.own[p].abs() < 0.999 {
            self.remember_pairs();
        }
        let (d, distance) = self.gram.remove(p);
        self.gram.d = d;
        let cost = self.support.coef(p).iter().map(|v| v * v).sum::<f64>() * distance;
        let outputs = self.support.outputs;
        let v = self.support.coef(p).to_vec();
        let u = self.support.u.get(p * outputs..(p + 1) * outputs).map(<[f64]>::to_vec);
        self.spread(&v, u.as_deref());
        if self.carries_norm {
            self.scale.norm2 -= cost;
        }
        self.drop_slot(p);
        self.count_degradation(cost);
    }

    /// Makes the example that was last seen and solved for a vector.
    fn enlist(&mut self, x: Row<'_, S>, coef: &[f64], distance: f64) {
        let slot = self.insert(x);
        self.gram.insert(slot, distance);
        self.raise(slot, coef);
    }

    /// Adds the projection of the example that was last seen and solved for, of squared norm `own`, which degrades w.
    fn absorb(&mut self, coef: &[f64], own: f64, degraded: f64) {
        self.lift_norm(coef, own);
        let u: Vec<f64> = coef.iter().map(|c| self.scale.sum_a * c).collect();
        self.spread(coef, Some(&u));
        self.count_degradation(degraded);
    }

    /// The kernel values in `scratch.column`, of slots from `end` on and of holes 0.
    fn kernel_values(&self, end: usize) -> Vec<f64> {
        let value = |j: usize| if j < end { self.scratch.column[j].to_f64() } else { 0.0 };
        let mut values: Vec<f64> = (0..self.gram.d.len()).map(value).collect();
        for &hole in &self.support.holes {
            // Holes beyond the last slot of the matrix have no place in it.
            if let Some(value) = values.get_mut(hole) {
                *value = 0.0;
            }
        }
        values
    }

    /// `v_j += d_j coef` for every slot j, and the same for u, d being what was solved for.
    pub(super) fn spread(&mut self, coef: &[f64], of_u: Option<&[f64]>) {
        let Budgeted { support, panel, gram, .. } = self;
        let outputs = support.outputs;
        for (v, d) in support.v.chunks_mut(outputs).zip(&gram.d) {
            v.iter_mut().zip(coef).for_each(|(v, c)| *v += d * c);
        }
        if let Some(of_u) = of_u {
            for (u, d) in support.u.chunks_mut(outputs).zip(&gram.d) {
                u.iter_mut().zip(of_u).for_each(|(u, c)| *u += d * c);
            }
        }
        support.settle_all();
        panel.spread(&gram.d, coef);
    }

    /// Whether the inverse fails on a column: `K d = k` for one row of K, another each time.
    fn has_drifted(&mut self, k: &[f64]) -> bool {
        let slots = self.support.slots();
        let slot = (self.added / CHECKED) as usize % slots.max(1);
        if slots == 0 || self.support.holes.contains(&slot) {
            return false;
        }
        self.see_slot(slot);
        let row = &self.scratch.column;
        let sum: f64 = row.iter().zip(&self.gram.d).map(|(k, d)| k.to_f64() * d).sum();
        let size: f64 = row.iter().zip(&self.gram.d).map(|(k, d)| (k.to_f64() * d).abs()).sum();
        (sum - k[slot]).abs() > least_distance::<S>() * (1.0 + size)
    }

    /// Computes afresh what is carried along for every pair of vectors.
    pub(super) fn remember_pairs(&mut self) {
        let n = self.support.slots();
        if matches!(self.maintenance, Maintenance::Remove | Maintenance::Random { .. }) {
            return;
        }
        self.gram.clear();
        for slot in 0..n {
            self.see_slot(slot);
            if self.maintenance == Maintenance::Merge {
                self.distances.widen(self.support.width());
                self.distances.set_row(slot, &self.scratch.column);
                self.distances.set_column(slot, n);
            } else if !self.support.holes.contains(&slot) {
                self.enter(slot);
            }
        }
    }

    /// Enters the vector that was last seen among those of lower slots into the inverse of the kernel matrix.
    fn enter(&mut self, slot: usize) {
        let k = self.kernel_values(slot);
        self.gram.solve(&k);
        let own = self.support.own[slot];
        let distance = (own - self.gram.explained(&k)).max(least_distance::<S>() * own.abs());
        while self.gram.d.len() < slot {
            self.gram.make_room();
        }
        self.gram.insert(slot, distance);
    }
}
