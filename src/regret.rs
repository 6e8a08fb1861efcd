//! Regret: what an online learner lost by not knowing the future, and what the theory says of it.

use std::collections::VecDeque;

use crate::error::Error;

/// The cumulative loss of a run and a bound on its regret, from the steps it has made.
///
/// The learner pays `f_t(w_t) = lambda/2 ||w_t||^2 + weight_t loss(<w_t, x_t>; y_t)` and steps
/// `w <- Proj(w - eta_t d_t)`, with `d_t = lambda w_t + g` and `g` the gradient of the loss at
/// `w_t`, or with a delay tau at `w_{t-tau}`. Against comparators `u_1, u_2, ...` of the feasible
/// set, of diameter D, whose path has the length `L = sum_t ||u_{t+1} - u_t||`, and steps that never
/// grow,
///
/// ```text
/// sum_t f_t(w_t) - f_t(u_t) <=   D^2/2 sum_t max(0, 1/eta_t - 1/eta_{t-1} - lambda)
///                              + 1/2 sum_t eta_t ||d_t||^2  +  D L / eta_T
///                              + sum_t ||g_{t-tau}|| sum_{s=t-tau}^{t-1} eta_s ||d_s||
///                              + D sum of ||g|| over gradients in flight  +  tau max ||g|| L.
/// ```
///
/// * The first line with `eta0/sqrt(t)`, lambda = 0 and a fixed comparator (`1/eta_0` counts as 0) is
///   Zinkevich (2003), Theorem 1, before the gradients are replaced by their largest; with
///   `1/(lambda t)` its first term vanishes and the second is `G^2/(2 lambda) (1 + ln T)`. `D L / eta_T`
///   is what a drifting comparator adds (his Theorem 2).
/// * The other lines are the price of delay (Zinkevich, Langford and Smola 2009): how far w had moved
///   while a gradient was in flight, and those that never arrived.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Regret {
    /// `sum_t f_t(w_t)`.
    pub loss: f64,
    /// `sum_t max(0, 1/eta_t - 1/eta_{t-1} - lambda)`.
    pub(crate) curvature: f64,
    /// `1/2 sum_t eta_t ||d_t||^2` and the drift while gradients were in flight.
    pub(crate) steps: f64,
    /// `1/eta_t` of the last step.
    pub(crate) inverse_eta: f64,
    /// `sum_t eta_t ||d_t||`: no w has moved further since the start.
    pub(crate) moved: f64,
    /// The largest `||g||`.
    pub(crate) largest: f64,
    /// The most gradients in flight after a step.
    pub(crate) delay: usize,
    /// Of each gradient in flight its norm, and `moved` when it was taken.
    pub(crate) flight: VecDeque<(f64, f64)>,
}

impl Regret {
    /// No comparators of a set of this diameter, whose path is no longer than `path` (0 for a fixed
    /// one), have a cumulative loss lower than [`loss`](Regret::loss) by more than this.
    pub fn bound(&self, diameter: f64, path: f64) -> f64 {
        let in_flight: f64 = self.flight.iter().map(|(norm, _)| norm).sum();
        // An infinite diameter would make NaN of factors that are 0.
        let times = |factor: f64, length: f64| if factor == 0.0 { 0.0 } else { factor * length };
        times(self.curvature / 2.0, diameter * diameter)
            + self.steps
            + times(path * self.inverse_eta + in_flight, diameter)
            + times(self.delay as f64 * self.largest, path)
    }

    /// A gradient of the loss was taken, where the learner paid `loss`.
    pub(crate) fn take(&mut self, loss: f64, norm: f64) {
        self.loss += loss;
        self.largest = self.largest.max(norm);
        self.flight.push_back((norm, self.moved));
    }

    /// A bound on the norm of the sum of the next so many gradients to arrive.
    pub(crate) fn arriving(&self, count: usize) -> f64 {
        self.flight.iter().take(count).map(|(norm, _)| norm).sum()
    }

    /// A step of size `eta` along a direction of norm `d`, which applied so many of the oldest gradients
    /// in flight.
    pub(crate) fn step(&mut self, eta: f64, lambda: f64, d: f64, arrived: usize) {
        let rise = 1.0 / eta - self.inverse_eta - lambda;
        // With eta = 1/(lambda t) it is a rounding of 0, which an infinite diameter would multiply.
        if rise > 1e-12 / eta {
            self.curvature += rise;
        }
        self.inverse_eta = 1.0 / eta;
        self.steps += eta * d * d / 2.0;
        for (norm, moved) in self.flight.drain(..arrived.min(self.flight.len())) {
            self.steps += norm * (self.moved - moved);
        }
        self.moved += eta * d;
        self.delay = self.delay.max(self.flight.len());
    }

    /// All of it, in plain numbers, for whoever stores it.
    pub fn numbers(&self) -> Vec<f64> {
        let Regret { loss, curvature, steps, inverse_eta, moved, largest, delay, flight } = self;
        let scalars = [*loss, *curvature, *steps, *inverse_eta, *moved, *largest, *delay as f64];
        scalars.into_iter().chain(flight.iter().flat_map(|(norm, moved)| [*norm, *moved])).collect()
    }

    /// Restores what [`numbers`](Regret::numbers) gave.
    pub fn from_numbers(numbers: &[f64]) -> Result<Self, Error> {
        let [loss, curvature, steps, inverse_eta, moved, largest, delay, flight @ ..] = numbers
        else {
            return Err(Error::shape("regret", "at least 7 numbers", numbers.len()));
        };
        if flight.len() % 2 != 0 {
            return Err(Error::shape(
                "regret",
                "two numbers for each gradient in flight",
                flight.len(),
            ));
        }
        Ok(Regret {
            loss: *loss,
            curvature: *curvature,
            steps: *steps,
            inverse_eta: *inverse_eta,
            moved: *moved,
            largest: *largest,
            delay: *delay as usize,
            flight: flight.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect(),
        })
    }
}
