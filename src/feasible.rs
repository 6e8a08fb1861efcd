//! Feasible sets: where w must stay.

use crate::error::Error;
use crate::hypothesis::Hypothesis;
use crate::linear::Linear;
use crate::scalar::Scalar;
use crate::simplex;

/// A closed convex set of hypotheses, given by the projection onto it; see
/// [`Params::set`](crate::Params::set).
pub trait Feasible<H>: Copy + Sync {
    /// Refuses a set that is none, or that has no use for such a w.
    fn check(&self, _w: &H) -> Result<(), Error> {
        Ok(())
    }
    /// Whether every w lies in it, so that nothing is ever projected.
    fn is_everything(&self) -> bool {
        false
    }
    /// Replaces w by the nearest point of the set.
    fn project(&self, w: &mut H);
    /// The largest distance between two points of the set; infinite if there is none.
    fn diameter(&self) -> f64;
}

/// `||w|| <= radius`, over all outputs together. Projection costs O(1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ball {
    /// The radius, > 0.
    pub radius: f64,
}

impl<H: Hypothesis> Feasible<H> for Ball {
    fn check(&self, _: &H) -> Result<(), Error> {
        let Ball { radius } = *self;
        if radius > 0.0 && radius.is_finite() {
            return Ok(());
        }
        Err(Error::parameter("radius", radius, "> 0 and finite"))
    }
    #[inline(always)]
    fn project(&self, w: &mut H) {
        let norm2 = w.norm2();
        if norm2 > self.radius * self.radius {
            w.scale(self.radius / norm2.sqrt());
        }
    }
    fn diameter(&self) -> f64 {
        2.0 * self.radius
    }
}

/// A set, or for `None` the whole space.
impl<H, F: Feasible<H>> Feasible<H> for Option<F> {
    fn check(&self, w: &H) -> Result<(), Error> {
        self.as_ref().map_or(Ok(()), |set| set.check(w))
    }
    fn is_everything(&self) -> bool {
        self.as_ref().is_none_or(F::is_everything)
    }
    #[inline(always)]
    fn project(&self, w: &mut H) {
        if let Some(set) = self {
            set.project(w);
        }
    }
    fn diameter(&self) -> f64 {
        self.as_ref().map_or(f64::INFINITY, F::diameter)
    }
}

/// Weights that are probabilities: `w >= 0`, their sum 1. The set of mixtures of experts. Of one output.
///
/// Projection costs time in proportion to the number of weights, at every step. A trainer that
/// starts from w = 0 starts from the nearest point, equal weights.
///
/// Two experts, of which one is right three times out of four, the other every second time. Gradient
/// descent and multiplicative weights both learn whom to follow; `cargo run --example experts` has more.
///
/// ```
/// use pegasos::{Cost, Dense, Examples, Linear, Params, Regret, Schedule, Simplex, Trainer};
///
/// let losses: Vec<f64> = (0..400)
///     .flat_map(|t| [f64::from(u8::from(t % 4 == 0)), f64::from(u8::from(t % 2 == 0))])
///     .collect();
/// let data = Examples::new(Dense::new(&losses, 400, 2)?, &[0; 400], None)?;
///
/// let steps = Schedule::InvScaling { eta0: 1.0, power: 0.5 };
/// let params = Params { lambda: 0.0, schedule: steps, ..Params::default() }.within(Simplex);
/// let mut descent = Trainer::new(Linear::new(1, 2, 0.0)?, Cost, params)?;
/// descent.keep_regret(Regret::default())?;
/// let paid = descent.run(&data, 0..400)?.loss;
/// let bound = descent.regret().unwrap().bound(2.0_f64.sqrt(), 0.0);
///
/// let eta = (8.0 * 2.0_f64.ln() / 400.0).sqrt();
/// let (mut hedged, mut sums) = (0.0, [0.0; 2]);
/// for row in losses.chunks(2) {
///     let weights = sums.map(|sum: f64| (-eta * sum).exp());
///     hedged += (weights[0] * row[0] + weights[1] * row[1]) / (weights[0] + weights[1]);
///     sums = [sums[0] + row[0], sums[1] + row[1]];
/// }
///
/// let best = sums[0];
/// assert_eq!(best, 100.0);
/// assert!(paid - best <= bound);
/// assert!(hedged - best <= (400.0 * 2.0_f64.ln() / 2.0).sqrt());
/// # Ok::<(), pegasos::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Simplex;

impl<S: Scalar> Feasible<Linear<S>> for Simplex {
    fn check(&self, w: &Linear<S>) -> Result<(), Error> {
        match (w.constant(), w.outputs()) {
            (0.0, 1) => Ok(()),
            (0.0, outputs) => Err(Error::shape("w", "one output on the simplex", outputs)),
            (constant, _) => {
                Err(Error::parameter("intercept_scaling", constant, "0 on the simplex"))
            }
        }
    }
    fn project(&self, w: &mut Linear<S>) {
        w.replace(|weights| simplex::project(weights, 1.0));
    }
    fn diameter(&self) -> f64 {
        2.0_f64.sqrt()
    }
}
