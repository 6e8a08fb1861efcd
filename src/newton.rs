//! A good point of the dual in a few dozen passes, where features are few.
//!
//! Coordinate ascent crawls where `lambda n` is far below `||x||^2` and thousands of examples compete
//! for a few directions: each moves its own `a_i` a little way at a time. Newton's method sees all of
//! them at once, if the loss has curvature. So the loss is smoothed, `l_mu(m)` being the largest value
//! over a of `-l*(-a) - a m - mu/2 a^2`, and
//!
//! ```text
//! P_mu(w) = lambda/2 ||w||^2 + 1/n sum_i s_i l_mu(y_i <w, x_i>)
//! ```
//!
//! is minimised for a falling mu, each from the last one's w. The maximising `a_i` are a feasible point
//! of the dual, `grad P_mu(w) = lambda (w - w(a))`, and where the gradient is 0 the gap at (w, a) is at
//! most `mu/4` times the share of examples on the ramp for the hinge: so small a mu, so small a gap.
//! Coordinate ascent goes on from a. A loss with curvature of its own, as the logistic one and the squared hinge, is not smoothed:
//! mu is 0, and few steps do.
//!
//! * Step: `w += t p` with `(lambda I + 1/n sum s_i h_i x_i x_i' + damping) p = -grad P_mu`, `h_i` the curvature, t
//!   by a search for the root of the derivative along p, which needs no features: margins move along a
//!   line. The sum runs over some of the examples where more have curvature than the directions need.
//! * Cost: a pass over the data a step, another over the rows whose dual variable has moved, O(d^3) for the factors. Memory:
//!   O(n + d^2).
//! * More features: steps by conjugate gradients, `conjugate.rs`.
//! * Several outputs trained jointly: `joint.rs`.
//! * A free intercept is one more weight without regularisation. Its derivative is 0 where the dual variables sum to 0, as they
//!   must; features of dense rows are measured from their means, or a mean far from 0 would hide all else in the curvature.
//! * Source: semismooth Newton for the smoothed hinge as in Chapelle (2007), with the smoothing that
//!   proximal point methods use, so that the dual point comes free.

mod conjugate;
mod curvature;
mod joint;
mod single;

use crate::examples::Examples;
use crate::linear::Linear;
use crate::loss::Loss;
use crate::scalar::Scalar;
#[cfg(feature = "files")]
pub(crate) use curvature::factorise;
pub(crate) use curvature::solve;
use joint::Joint;
use single::Descent;

/// Above this many weights factors and curvatures cost more than passes save. `conjugate.rs` says where there are steps without them.
pub(crate) const MOST_WEIGHTS: usize = 256;

/// Above this many features in all, stored or not, a step takes longer than a caller may want to wait.
const LARGEST: usize = 1 << 26;

/// Added to every feature's curvature, of what it would be if all examples had the mean one, so that the scales of
/// features do not matter: at most, and at first. A step of about the length that was foreseen makes it
/// [`EASIER`] times as large, a far shorter one [`HARDER`] times. With a constant one of the mean feature, raw tables
/// (features of 1 to 1e4) stayed where they were for ever; without any, a step along a feature that no example on the
/// ramp has is hundreds of times too long.
const DAMPING: f64 = 1e-3;
const LEAST_DAMPING: f64 = 1e-12;
const EASIER: f64 = 0.2;
const HARDER: f64 = 5.0;

/// The first mu; but where the relative gap is below [`NEAR`] times its root, as the gap is about the square of mu. Usps (one
/// class against the rest) at lambda = 1e-3 takes 16 steps from a gap of 0.0016, not 34, the generated table at 1e-4 5 from
/// 0.0035, not 12. From a gap of 0.3 classes of covtype15k never left the mu that they had begun with.
const FIRST_MU: f64 = 0.5;
const NEAR: f64 = 0.1;

/// How many times smaller the next mu is. A steeper fall leaves w far from the next minimiser, with most of the ramp's examples
/// other ones: with 5, a9a at `lambda n = 0.3` took 151 steps to a gap of 1e-3; with 1.7 it takes 28. After [`FEW`] steps, as
/// with losses that are smooth by themselves, the next fall is the square.
const FALL: f64 = 1.7;
const FEW: usize = 2;
const STEEPEST: f64 = 25.0;

/// What the derivative along a step may be at its end, of that at its beginning. With a tenth, searches take longer and
/// steps are no fewer.
const ROUGH: f64 = 0.3;

/// With 60, a class of covtype15k at lambda = 1e-6 did not get there, and ascent took four times as long to.
const MOST_STEPS: usize = 100;

/// Of those without factors 5 to 10 are enough where they are worth while.
const MOST_LONG_STEPS: usize = 20;

/// What part of the tolerance is as good as nothing, and how many steps may begin at such a gap. Where features are large and
/// lambda is small the last bits of the dual variables move their image by more than the tolerance, and whether a step meets it
/// is luck: classes of raw covtype15k at lambda = 1e-8 have all but these bits after 20 steps, and made 80 more.
const EXACT: f64 = 1e-6;
const TRIES: usize = 10;

/// A dual point of every example, and its image.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) dual: Vec<f64>,
    pub(crate) w: Linear<f64>,
    /// Where it is free, for features measured from their mean.
    pub(crate) intercept: f64,
}

/// How mu falls and the damping goes, from step to step.
#[derive(Clone, Copy, Debug)]
struct Pace {
    mu: f64,
    /// What of the gap is due to the gradient, where the last step began, if that was at this mu.
    slack: f64,
    /// How many times larger the last mu was, and steps since.
    fall: f64,
    at_this_mu: usize,
    damping: f64,
    steps: usize,
    /// How many of them have begun where all but the roundings was done.
    exact: usize,
}

impl Pace {
    fn new(mu: f64) -> Self {
        let (slack, fall, damping) = (f64::INFINITY, FALL, DAMPING);
        Pace { mu, slack, fall, at_this_mu: 0, damping, steps: 0, exact: 0 }
    }

    /// Whether there is another step, where there may be so many.
    fn begins(&mut self, most: usize) -> bool {
        self.steps += 1;
        self.steps <= most
    }

    /// Whether only roundings are left of the gap, where `wanted` would do, for too long.
    fn is_exact(&mut self, gap: f64, wanted: f64) -> bool {
        self.exact += usize::from(gap.abs() <= EXACT * wanted);
        self.exact > TRIES
    }

    /// Whether P_mu is at its minimum, for this gap, of which so much is due to the gradient, and the one that would do.
    fn has_minimised(&mut self, gap: f64, slack: f64, wanted: f64) -> bool {
        // Where the gap is small enough as soon as w is its image, a smaller mu would only lead away from that.
        let is_near = gap <= 0.9 * wanted && slack < 0.5 * self.slack;
        self.slack = slack;
        slack <= 0.1 * gap && !is_near
    }

    /// A step has gone so far, in multiples of what was foreseen.
    fn has_gone(&mut self, t: f64) {
        self.at_this_mu += 1;
        let times = if t > 0.5 {
            EASIER
        } else if t < 0.1 {
            HARDER
        } else {
            1.0
        };
        self.damping = (self.damping * times).clamp(LEAST_DAMPING, DAMPING);
    }

    /// A smaller mu, for a gap so many times too large.
    fn let_mu_fall(&mut self, too_large: f64) {
        let fall = if self.at_this_mu <= FEW { self.fall * self.fall } else { FALL };
        // The gap falls about as the square of mu.
        self.fall = fall.min((2.0 * too_large).sqrt()).clamp(FALL, STEEPEST);
        self.mu /= self.fall;
        self.at_this_mu = 0;
        self.slack = f64::INFINITY;
    }
}

/// Where a descent is: w, the scores of all examples, and both where mu fell the last time.
#[derive(Clone, Debug)]
struct Place {
    w: Vec<f64>,
    scores: Vec<f64>,
    milestone: Option<(Vec<f64>, Vec<f64>)>,
}

impl Place {
    fn new(w: Vec<f64>) -> Self {
        Place { w, scores: Vec::new(), milestone: None }
    }

    /// Mu falls here: the way from where it fell before, if it has, in w and in scores. The minimisers lie on a curve, and from
    /// the last two the way goes straight on.
    fn way_between_falls(&mut self) -> Option<(Vec<f64>, Vec<f64>)> {
        let here = (self.w.clone(), self.scores.clone());
        let (mut p, mut along) = self.milestone.replace(here)?;
        p.iter_mut().zip(&self.w).for_each(|(p, w)| *p = w - *p);
        along.iter_mut().zip(&self.scores).for_each(|(a, s)| *a = s - *a);
        Some((p, along))
    }

    /// Goes along `p`, by which scores change by `along`, to about where P_mu is least; not at all where it does not fall.
    /// Returns how far, in multiples of `p`. The first so many weights are regularised; `slope` is the derivative of the smoothed
    /// losses' mean at scores so far along, `first` that of P_mu here, where it is known.
    fn go(
        &mut self,
        (lambda, regular): (f64, usize),
        (p, along): (&[f64], &[f64]),
        first: Option<f64>,
        slope: impl Fn(&[f64], f64) -> f64,
    ) -> f64 {
        let step = &p[..regular];
        let (linear, square) = (inner(&self.w[..regular], step), inner(step, step));
        // d/dt P_mu(w + t p), increasing in t.
        let derivative = |t: f64| lambda * (linear + t * square) + slope(&self.scores, t);
        let first = first.unwrap_or_else(|| derivative(0.0));
        if first >= 0.0 || first.is_nan() {
            return 0.0;
        }
        let t = root(derivative, first);
        self.w.iter_mut().zip(p).for_each(|(w, p)| *w += t * p);
        self.scores.iter_mut().zip(along).for_each(|(s, a)| *s += t * a);
        t
    }
}

/// A search for a better point, of one output or of several.
#[derive(Clone, Debug)]
pub(crate) enum Search {
    Single(Box<Descent>),
    Joint(Box<Joint>),
}

impl Search {
    /// Whether there is one: the loss can be smoothed, and the problem is not too large.
    pub(crate) fn exists<L: Loss, S: Scalar>(
        loss: &L,
        data: &Examples<'_, S>,
        features: usize,
    ) -> bool {
        Descent::exists(loss, data, features) || Joint::exists(loss, data, features)
    }

    /// About how many epochs of dual ascent take as long, where few steps do; infinite elsewhere.
    pub(crate) fn epochs<L: Loss, S: Scalar>(
        loss: &L,
        data: &Examples<'_, S>,
        features: usize,
    ) -> f64 {
        Descent::epochs(loss, data, features)
    }

    /// Begins at `w`, whose relative gap is about so large; `None` where there is [none](Search::exists).
    pub(crate) fn new<L: Loss, S: Scalar>(
        loss: &L,
        data: &Examples<'_, S>,
        w: &Linear<f64>,
        gap: f64,
        free: Option<(&[f64], Linear<f64>)>,
    ) -> Option<Self> {
        if loss.on_simplex() {
            let joint = Joint::new(loss, data, w, gap).filter(|_| free.is_none())?;
            return Some(Search::Joint(Box::new(joint)));
        }
        Descent::new(loss, data, w, gap, free).map(|descent| Search::Single(Box::new(descent)))
    }

    /// Whether another one like it is not to be made where this one finds nothing: it began at w = 0, wherever ascent was, and will
    /// find the same, or takes as long as dozens of epochs.
    pub(crate) fn is_for_once(&self) -> bool {
        match self {
            Search::Joint(joint) => joint.from_nothing,
            Search::Single(descent) => descent.by_products(),
        }
    }

    /// A step; says whether another is worth while: until the gap is at most `tol` of the objective,
    /// steps are spent, or numbers leave their range.
    pub(crate) fn step<L: Loss, S: Scalar>(
        &mut self,
        loss: &L,
        lambda: f64,
        data: &Examples<'_, S>,
        tol: f64,
    ) -> bool {
        match self {
            Search::Single(descent) => descent.step(loss, lambda, data, tol),
            Search::Joint(joint) => joint.step(loss, lambda, data, tol),
        }
    }

    /// The best point found.
    pub(crate) fn finish(self) -> Option<Point> {
        match self {
            Search::Single(descent) => descent.finish(),
            Search::Joint(joint) => joint.finish(),
        }
    }
}

/// The mu to begin with at a relative gap, which may be unknown.
fn first_mu(gap: f64) -> f64 {
    if gap > 0.0 && gap < NEAR { FIRST_MU * gap.sqrt() } else { FIRST_MU }
}

fn inner(u: &[f64], v: &[f64]) -> f64 {
    u.iter().zip(v).map(|(u, v)| u * v).sum()
}

/// Adds a dual variable to the positive ones or to the others, by magnitude.
pub(crate) fn add_to_side(sides: &mut (f64, f64), a: f64) {
    *(if a > 0.0 { &mut sides.0 } else { &mut sides.1 }) += a.abs();
}

/// What the positive and the other dual variables must be multiplied with so that they sum to 0, given these sums.
pub(crate) fn factors((above, below): (f64, f64)) -> (f64, f64) {
    // Where both are 0, it does not matter.
    let smaller = |other: f64, own: f64| if own > other { other / own } else { 1.0 };
    (smaller(below, above), smaller(above, below))
}

/// About where an increasing function is 0, if it is `first < 0` at 0: within three tenths of that, and so near that its
/// integral up to there is not above 0.
fn root(f: impl Fn(f64) -> f64, first: f64) -> f64 {
    let (mut low, mut at_low) = (0.0, first);
    let (mut high, mut at_high) = (1.0, f(1.0));
    while at_high < ROUGH * first && high < 1e6 {
        (low, at_low) = (high, at_high);
        high *= 4.0;
        at_high = f(high);
    }
    let mut t = high;
    let mut value = at_high;
    let mut moved_low = None;
    for _ in 0..40 {
        // Where it is positive, the integral is below this bound. That of so little is let pass.
        let falls = value * t <= 0.01 * first.abs() || at_low * low + value * (t - low) <= 0.0;
        if falls && value.abs() <= ROUGH * first.abs() {
            return t;
        }
        // The secant; an end that stays put loses half of its value each time, or the other one would
        // creep (the Illinois rule).
        t = low + (high - low) * at_low / (at_low - at_high);
        value = f(t);
        if value < 0.0 {
            (low, at_low) = (t, value);
            if moved_low == Some(true) {
                at_high /= 2.0;
            }
        } else {
            (high, at_high) = (t, value);
            if moved_low == Some(false) {
                at_low /= 2.0;
            }
        }
        moved_low = Some(value < 0.0);
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_roots() {
        for (f, want) in [
            (Box::new(|t: f64| t - 0.3) as Box<dyn Fn(f64) -> f64>, 0.3),
            (Box::new(|t: f64| t - 17.0), 17.0),
            (Box::new(|t: f64| if t < 2.0 { -1.0 } else { 1e3 * (t - 2.0) }), 2.0),
        ] {
            let t = root(&f, f(0.0));
            assert!(
                f(t).abs() <= ROUGH * f(0.0).abs() || (t - want).abs() < 1e-6,
                "{t}, not {want}"
            );
        }
    }

    /// Steep for a hundredth of the way and flat from there on, upwards: a value near 0 is not near the root.
    #[test]
    fn integrals_up_to_roots_are_not_positive() {
        for slope in [0.02, 0.1, 0.29] {
            let f = |t: f64| if t < 0.01 { -1.0 } else { slope };
            let t = root(f, f(0.0));
            let integral = if t < 0.01 { -t } else { -0.01 + slope * (t - 0.01) };
            assert!(t > 0.0 && integral <= 0.0, "{t}: {integral}");
        }
    }
}
