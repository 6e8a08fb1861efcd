//! Step sizes.

use crate::error::Error;

/// The step size at step t = 1, 2, ..., with `s = t0 + t`, `t0` being
/// [`Params::t0`](crate::Params::t0).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Schedule {
    /// `1/(lambda s)`: Pegasos, Algorithm 1. `learning_rate="pegasos"` in Python.
    Pegasos,
    /// `eta0 / s^power`: with power 1/2 or 1, Zinkevich's online gradient descent.
    /// `learning_rate="invscaling"` in Python.
    InvScaling {
        /// The first step size.
        eta0: f64,
        /// The exponent; `power_t` in Python.
        power: f64,
    },
    /// `eta0`, always.
    Constant {
        /// The step size.
        eta0: f64,
    },
    /// `1/(lambda min(s, horizon))`: Pegasos that forgets. As long as steps are 1/(lambda s), w is 1/lambda times the mean
    /// of all gradients, each as heavy as any other. From the horizon on a step keeps `1 - 1/horizon` of w, so that the
    /// weight of a gradient halves every h steps where `1 - 1/horizon = 2^(-1/h)`: see
    /// [`forgetting`](Schedule::forgetting). No w of it has a certificate.
    Forgetting {
        /// The largest s, >= 1.
        horizon: f64,
    },
}

impl Schedule {
    /// Steps of Pegasos under which the weight of a gradient halves every so many steps, > 0: the horizon is
    /// `1/(1 - 2^(-1/half_life))`, about `half_life/ln 2`. `half_life` in Python, where it counts examples.
    ///
    /// ```
    /// use pegasos::Schedule;
    ///
    /// let schedule = Schedule::forgetting(1.0)?;
    /// assert_eq!(schedule, Schedule::Forgetting { horizon: 2.0 });
    /// assert_eq!([1.0, 2.0, 100.0].map(|s| schedule.eta(0.5, s)), [2.0, 1.0, 1.0]);
    /// # Ok::<(), pegasos::Error>(())
    /// ```
    pub fn forgetting(half_life: f64) -> Result<Self, Error> {
        let horizon = -1.0 / (-std::f64::consts::LN_2 / half_life).exp_m1();
        if !(half_life > 0.0 && horizon.is_finite()) {
            return Err(Error::parameter("half_life", half_life, "> 0 and finite"));
        }
        Ok(Schedule::Forgetting { horizon })
    }

    /// The step size at `s = t0 + t`.
    #[inline]
    pub fn eta(self, lambda: f64, s: f64) -> f64 {
        match self {
            Schedule::Pegasos => 1.0 / (lambda * s),
            // `powf` costs more than a whole step on a short row.
            Schedule::InvScaling { eta0, power: 0.5 } => eta0 / s.sqrt(),
            Schedule::InvScaling { eta0, power } => eta0 / s.powf(power),
            Schedule::Constant { eta0 } => eta0,
            Schedule::Forgetting { horizon } => 1.0 / (lambda * s.min(horizon)),
        }
    }

    /// What a step of size `eta` leaves of w: `1 - eta lambda`. Where eta lambda = 1/s, as a quotient it is exactly 0 at s = 1.
    #[inline]
    pub(crate) fn keeps(self, lambda: f64, s: f64, eta: f64) -> f64 {
        match self {
            Schedule::Pegasos => (s - 1.0) / s,
            Schedule::Forgetting { horizon } => {
                let s = s.min(horizon);
                (s - 1.0) / s
            }
            _ => 1.0 - eta * lambda,
        }
    }

    /// How many of so many updates in t steps, evenly spread, are not forgotten.
    pub(crate) fn remembered(self, updates: u64, t: u64) -> u64 {
        match self {
            Schedule::Forgetting { horizon } if t as f64 > horizon => {
                (updates as f64 * (horizon / t as f64)) as u64
            }
            _ => updates,
        }
    }

    /// Whether steps are multiples of 1/lambda.
    pub(crate) fn needs_lambda(self) -> bool {
        matches!(self, Schedule::Pegasos | Schedule::Forgetting { .. })
    }

    pub(crate) fn check(self, lambda: f64) -> Result<(), Error> {
        let (eta0, power) = match self {
            Schedule::Pegasos => return Ok(()),
            Schedule::Forgetting { horizon } if horizon >= 1.0 && horizon.is_finite() => {
                return Ok(());
            }
            Schedule::Forgetting { horizon } => {
                return Err(Error::parameter("horizon", horizon, ">= 1 and finite"));
            }
            Schedule::InvScaling { eta0, power } => (eta0, power),
            Schedule::Constant { eta0 } => (eta0, 0.0),
        };
        if !(eta0 > 0.0 && eta0.is_finite()) {
            return Err(Error::parameter("eta0", eta0, "> 0 and finite"));
        }
        // A first step that shrinks w by more than all of it would make it swing ever wider.
        if eta0 * lambda > 1.0 {
            return Err(Error::parameter("eta0", eta0, "<= 1/lambda"));
        }
        if !(power >= 0.0 && power.is_finite()) {
            return Err(Error::parameter("power_t", power, ">= 0 and finite"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_it_is_left() {
        for half_life in [0.01, 0.5, 1.0, 3.7, 100.0, 1e6, 1e12] {
            let schedule = Schedule::forgetting(half_life).unwrap();
            let s = 1e300;
            let kept = schedule.keeps(0.1, s, schedule.eta(0.1, s));
            let left = kept.powf(half_life);
            assert!((left - 0.5).abs() < 1e-3 || half_life < 0.02, "{half_life}: {left}");
            assert_eq!(schedule.keeps(0.1, 1.0, schedule.eta(0.1, 1.0)), 0.0);
            schedule.check(0.1).unwrap();
        }
        // Nothing is left of what was there before.
        assert_eq!(Schedule::forgetting(1e-9).unwrap(), Schedule::Forgetting { horizon: 1.0 });
    }

    #[test]
    fn updates_are_forgotten_with_their_steps() {
        let schedule = Schedule::Forgetting { horizon: 100.0 };
        assert_eq!([10, 100, 200, 1000].map(|t| schedule.remembered(80, t)), [80, 80, 40, 8]);
        assert_eq!(Schedule::Pegasos.remembered(80, 1000), 80);
    }
}
