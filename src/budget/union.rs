//! The weighted sum of hypotheses that learned apart: the union of their vectors, and what the budget leaves of it.
//!
//! * Problem: `w = sum_k c_k w_k` has the vectors of all w_k, up to B of each. Vectors with the same features become one, with
//!   the sum of their coefficients; then maintenance takes one after the other out, as after a violator, until B are left.
//!   The smallest of all goes first. In trials with 2 and 4 machines of 50 and 200 vectors that degraded w by half as much as
//!   a stream of the same vectors through a budget that is full did.
//! * Carried: the mean of the iterates, as it is through every step of maintenance. With `A = 0` and weights of sum 1, u is
//!   minus that mean.
//! * Cost: of N vectors together O(N^2 (features + outputs)) time, for projections O(N^3), and memory for N^2 numbers. So that
//!   N stays bounded, w is brought back to the budget before it would have more than [`MOST`] vectors, or twice the budget.

use super::{Budgeted, Maintenance, Seen};
use crate::data::{Matrix, OwnedRow, Row};
use crate::error::Error;
use crate::hypothesis::{Combine, Hypothesis};
use crate::scalar::Scalar;

/// Vectors that are together before the budget is enforced, if twice the budget is not more: 16 MB of distances in f32.
const MOST: usize = 2048;

impl<S: Scalar> Combine for Budgeted<S> {
    /// Of one kernel, budget and maintenance; the result stays within that budget. Not of [`Maintenance::Projectron`], which
    /// decides by the scores of examples that come.
    ///
    /// ```
    /// use pegasos::{Budgeted, Combine, Dense, Hypothesis, Kernel, Maintenance};
    ///
    /// let x = Dense::new(&[0.0, 1.0, 1.1_f64], 3, 1)?;
    /// let one = Budgeted::new(Kernel::Rbf { gamma: 0.5 }, 1, 1, Some(2), Maintenance::Merge)?;
    /// let (mut a, mut b) = (one.clone(), one);
    /// a.add(0, x.row(0), &[2.0]);
    /// b.add(0, x.row(0), &[1.0]);
    /// b.add(1, x.row(1), &[1.0]);
    /// let w = Budgeted::combine(&[(0.5, &a), (0.5, &b)])?;
    /// // Of 0 one vector is enough.
    /// assert_eq!(w.n_vectors(), 2);
    /// let mut score = [0.0];
    /// w.score(x.row(0), &mut score);
    /// assert!((score[0] - (1.5 + 0.5 * (-0.5_f64).exp())).abs() < 1e-12);
    /// # Ok::<(), pegasos::Error>(())
    /// ```
    fn combine(parts: &[(f64, &Self)]) -> Result<Self, Error> {
        let Some((_, first)) = parts.first() else {
            return Err(Error::shape("models", "at least one", "0"));
        };
        if let Maintenance::Projectron { .. } = first.maintenance {
            let want = "one that looks at vectors alone where models are combined";
            return Err(Error::parameter("maintenance", "Projectron", want));
        }
        // Each may draw in its own way.
        let maintenance = |w: &Self| match w.maintenance {
            Maintenance::Random { .. } => Maintenance::Random { seed: 0 },
            other => other,
        };
        let kind = |w: &Self| (w.kernel(), maintenance(w), w.budget, w.outputs(), w.n_features());
        if let Some((_, other)) = parts.iter().find(|(_, w)| kind(w) != kind(first)) {
            return Err(Error::shape(
                "models",
                format_args!(
                    "kernel, maintenance, budget, outputs, features all {:?}",
                    kind(first)
                ),
                format_args!("{:?}", kind(other)),
            ));
        }
        let mut sum = first.without_vectors(None)?;
        sum.budget = first.budget;
        sum.scale.sum_q = f64::from(u8::from(parts.iter().all(|(_, w)| w.scale.averages())));
        sum.added = parts.iter().map(|(_, w)| w.added).sum();
        sum.evicted = parts.iter().map(|(_, w)| w.evicted).sum();
        let most = sum.budget.map_or(usize::MAX, |budget| MOST.max(budget.saturating_mul(2)));
        for (c, part) in parts {
            if sum.n_vectors() + part.n_vectors() > most {
                sum.reduce();
            }
            sum.take_in(*c, part)?;
        }
        sum.reduce();
        // With room for the budget again, and no holes.
        let slots = sum.support.occupied();
        let rows: Vec<OwnedRow<S>> = slots.map(|slot| sum.support.row(slot).to_owned()).collect();
        let mut w = sum.without_vectors(sum.budget)?;
        w.restore(&Matrix::Owned(&rows, sum.n_features()), &sum.state())?;
        Ok(w)
    }
}

impl<S: Scalar> Budgeted<S> {
    /// One of the same kind with this budget, as yet without vectors.
    fn without_vectors(&self, budget: Option<usize>) -> Result<Self, Error> {
        let (kernel, outputs, n_features) = (self.kernel(), self.outputs(), self.n_features());
        let new = if self.is_sparse() { Budgeted::sparse } else { Budgeted::new };
        new(kernel, outputs, n_features, budget, self.maintenance)
    }

    /// Adds c times another, whatever the budget.
    fn take_in(&mut self, c: f64, other: &Self) -> Result<(), Error> {
        self.check_growth(other.n_vectors())?;
        let (outputs, scale) = (self.outputs(), &other.scale);
        let averages = self.scale.averages();
        let (mut v, mut u) = (vec![0.0; outputs], vec![0.0; if averages { outputs } else { 0 }]);
        for slot in other.support.occupied() {
            let of_slot = slot * outputs..(slot + 1) * outputs;
            let coefs = &other.support.v[of_slot.clone()];
            v.iter_mut().zip(coefs).for_each(|(v, coef)| *v = c * scale.a * coef);
            let means = coefs.iter().zip(other.support.u.get(of_slot).unwrap_or(&[]));
            u.iter_mut()
                .zip(means)
                .for_each(|(u, (coef, mean))| *u = -c * scale.mean(*coef, *mean));
            self.take_in_vector(other.support.row(slot), other.support.born[slot], &v, &u);
        }
        Ok(())
    }

    /// Adds a vector with these coefficients, and those of u if there are any.
    fn take_in_vector(&mut self, x: Row<'_, S>, born: u64, v: &[f64], u: &[f64]) {
        self.added += 1;
        let found = self.support.find(x);
        let slot = match (found, self.maintenance) {
            (Some(slot), _) => slot,
            (None, Maintenance::Merge) => {
                self.see(None, x);
                let slot = self.insert(x);
                self.distances.widen(self.support.width());
                self.scratch.column.resize(self.support.slots(), S::default());
                self.distances.set_row(slot, &self.scratch.column);
                self.distances.set_column(slot, self.support.slots());
                slot
            }
            (None, Maintenance::Project) => {
                self.see(None, x);
                let Seen { distance, near, .. } = self.solve(x);
                if near {
                    return self.spread(v, Some(u).filter(|u| !u.is_empty()));
                }
                let slot = self.insert(x);
                self.gram.insert(slot, distance);
                slot
            }
            (None, _) => self.insert(x),
        };
        if found.is_none() {
            self.support.born[slot] = born;
        }
        // A is 0 here: u does not follow v.
        self.raise(slot, v);
        let of_slot = self.support.u.iter_mut().skip(slot * v.len());
        of_slot.zip(u).for_each(|(sum, u)| *sum += u);
    }

    /// Takes vectors out until there are no more than the budget allows.
    fn reduce(&mut self) {
        while self.n_vectors() > self.budget.unwrap_or(usize::MAX) {
            match self.maintenance {
                Maintenance::Merge => self.merge(None),
                Maintenance::Project => {
                    // What waits is entered.
                    self.gram.solve(&vec![0.0; self.gram.d.len()]);
                    self.project(self.support.smallest());
                }
                _ => self.remove(),
            }
        }
    }
}
