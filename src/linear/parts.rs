//! Some of the outputs or features of one [`Linear`]; all outputs of several.

use super::Linear;
use crate::error::Error;
use crate::hypothesis::Hypothesis;
use crate::memory;
use crate::scalar::Scalar;
use crate::weights::Weights;

impl<S: Scalar> Linear<S> {
    /// One of the outputs by itself. O(features).
    ///
    /// # Panics
    /// If there are not so many outputs.
    pub fn only(&self, o: usize) -> Result<Self, Error> {
        let d = self.n_features();
        memory::check::<S>("the weights of one output", &[d])?;
        let v = Weights::new(self.v.of_output(o), 1, d);
        let u = self.u.as_ref().map(|u| Weights::new(u.of_output(o), 1, d));
        let (b, ub) = (vec![self.b[o]], self.ub.get(o).copied().into_iter().collect());
        Ok(self.part(v, b, u, ub))
    }

    /// What it knows of some features alone, in this order. O(outputs x so many).
    ///
    /// # Panics
    /// If there is no such feature.
    pub(crate) fn of_features(&self, features: &[u32]) -> Result<Self, Error> {
        let u = self.u.as_ref().map(|u| u.of_features(features)).transpose()?;
        Ok(self.part(self.v.of_features(features)?, self.b.clone(), u, self.ub.clone()))
    }

    /// One that knows of some of its numbers. O(so many).
    fn part(&self, v: Weights<S>, b: Vec<f64>, u: Option<Weights<f64>>, ub: Vec<f64>) -> Self {
        let Linear { constant, scale, carries_norm, .. } = *self;
        let mut part = Linear { v, b, constant, scale, carries_norm, left: false, u, ub };
        part.scale.norm2 = part.square();
        part
    }

    /// As it is handed out: weights and intercepts in the scalar of the data.
    pub(crate) fn handed_out(mut self) -> Self {
        let a = self.scale.a;
        let b = self.intercepts().into_iter().map(|b| S::from_f64(b).to_f64()).collect();
        self.v.all_mut().iter_mut().for_each(|v| *v = S::from_f64(a * v.to_f64()));
        Linear::measured(self.v, b, 1.0)
    }

    /// One with the outputs of all of these, as it is handed out.
    pub(crate) fn of_all(parts: &[Self]) -> Result<Self, Error> {
        let n_features = parts.first().map_or(0, Linear::n_features);
        let in_scalar = |b: f64| S::from_f64(b).to_f64();
        let outputs: usize = parts.iter().map(Hypothesis::outputs).sum();
        memory::check::<S>("the model", &[outputs, n_features])?;
        let v = parts.iter().flat_map(Linear::weights).collect();
        let b = parts.iter().flat_map(Linear::intercepts).map(in_scalar).collect();
        Ok(Linear::of(v, n_features, b, 1.0))
    }
}
