//! The weighted sum of expansions: the union of their vectors.

use std::collections::HashMap;

use super::{Expansion, state::ExpansionState};
use crate::data::{Matrix, OwnedRow};
use crate::error::Error;
use crate::hypothesis::Combine;
use crate::kernel::Kernel;
use crate::memory;
use crate::scalar::Scalar;
use crate::scaled::Scaled;
use crate::vectors::Layout;

impl<S: Scalar> Combine for Expansion<S> {
    /// Of one kernel and intercept. Vectors with the same features become one, with the sum of their coefficients and counts;
    /// of which matrix they were rows is forgotten. Not of [`Kernel::Precomputed`], whose vectors are columns of a matrix.
    ///
    /// O(N^2 features) for N vectors together, as the norm is not that of any of them.
    fn combine(parts: &[(f64, &Self)]) -> Result<Self, Error> {
        let Some((_, first)) = parts.first() else {
            return Err(Error::shape("models", "at least one", "0"));
        };
        if first.kernel == Kernel::Precomputed {
            let want = "one of features where models are combined";
            return Err(Error::parameter("kernel", "precomputed", want));
        }
        let kind = |w: &Self| (w.kernel, w.outputs, w.n_features(), w.constant());
        if let Some((_, other)) = parts.iter().find(|(_, w)| kind(w) != kind(first)) {
            return Err(Error::shape(
                "models",
                format_args!("kernel, outputs, features, constant all {:?}", kind(first)),
                format_args!("{:?}", kind(other)),
            ));
        }
        let outputs = first.outputs;
        let averaging = parts.iter().all(|(_, w)| w.scale.averages());
        let most: usize = parts.iter().map(|(_, w)| w.n_vectors()).sum();
        memory::check::<[f64; 3]>("the coefficients", &[most, outputs])?;
        let mut places = HashMap::new();
        let (mut rows, mut v, mut u) = (Vec::new(), Vec::new(), Vec::new());
        let mut state = ExpansionState::default();
        for (c, part) in parts {
            part.vectors.check_copy()?;
            for slot in 0..part.n_vectors() {
                let (mut indices, mut values, mut key) = (Vec::new(), Vec::new(), Vec::new());
                part.for_each(slot, |j, x| {
                    indices.push(j as i64);
                    values.push(x);
                    key.push((j, x.to_f64().to_bits()));
                });
                let place = *places.entry(key).or_insert_with(|| {
                    rows.push(OwnedRow::Sparse { indices, values });
                    state.norms.extend_from_slice(part.vectors.norms(slot..slot + 1));
                    state.counts.push(0);
                    v.resize(rows.len() * outputs, 0.0);
                    u.resize(if averaging { rows.len() * outputs } else { 0 }, 0.0);
                    rows.len() - 1
                });
                let count: &mut u32 = &mut state.counts[place];
                *count = count.saturating_add(part.counts[slot]);
                part.coefs.for_each(slot, |o, coef, own| {
                    let coef = coef.to_f64();
                    v[place * outputs + o] += c * part.scale.a * coef;
                    if averaging {
                        // With A = 0 and weights of sum 1, the mean is -u.
                        u[place * outputs + o] -= c * part.scale.mean(coef, own);
                    }
                });
            }
        }
        state.v = v.into_iter().map(S::from_f64).collect();
        state.u = u;
        let sum_q = f64::from(u8::from(averaging));
        state.scale = Scaled { norm2: f64::NAN, sum_q, ..Scaled::default() };
        let layout = if first.vectors.are_packed() { Layout::Dense } else { Layout::Sparse };
        let mut sum = Expansion::with(first.kernel, outputs, first.n_features(), layout)?;
        sum = sum.with_constant(first.constant())?;
        sum.vouched = parts.iter().all(|(_, w)| w.vouched);
        let count = state.v.iter().filter(|v| **v != S::default()).count();
        sum.reserve(rows.len(), count)?;
        sum.restore(&Matrix::Owned(&rows, first.n_features()), None, &state)?;
        sum.measure();
        Ok(sum)
    }
}
