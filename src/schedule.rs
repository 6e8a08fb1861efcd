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
}

impl Schedule {
    /// The step size at `s = t0 + t`.
    #[inline]
    pub fn eta(self, lambda: f64, s: f64) -> f64 {
        match self {
            Schedule::Pegasos => 1.0 / (lambda * s),
            // `powf` costs more than a whole step on a short row.
            Schedule::InvScaling { eta0, power: 0.5 } => eta0 / s.sqrt(),
            Schedule::InvScaling { eta0, power } => eta0 / s.powf(power),
            Schedule::Constant { eta0 } => eta0,
        }
    }

    pub(crate) fn check(self, lambda: f64) -> Result<(), Error> {
        let (eta0, power) = match self {
            Schedule::Pegasos => return Ok(()),
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
