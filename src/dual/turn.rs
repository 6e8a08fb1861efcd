//! From one lambda to the next: where the ascent begins.
//!
//! * The dual point a of one lambda is one of any other, but its image there is longer or shorter by the ratio of the
//!   two. In the ranges of small lambda, where w hardly changes any more, it is too long by that ratio, and to bring
//!   it down would take about as many passes as to begin from nothing.
//! * Along its ray: `D(c a)` is concave in c; the best c is found by Newton's method on sums over the examples.
//! * Beyond it: where the loss is smooth and has one score, `D(c a + d b)`, b being the point of the lambda before,
//!   has its maximum about where one step of Newton's method from the best of the ray ends: b says in which direction
//!   the points move as lambda does. What leaves the domain is moved back into it, and its image is corrected row by
//!   row.
//! * D never falls: what would be lower is not taken.
//! * Trials, visits of a fold of four fifths of the rows for ten lambdas a factor of `sqrt(10)` apart, to a relative
//!   gap of 1e-3: from the same a, from the best of its ray, from the best with b. Of news20 with the squared hinge
//!   112, 60, 48, with the logistic loss 42, 30, 24; of 80,000 of the generated words 73, 36, 24 and 31, 21, 16; with
//!   the hinge news20 took 373 and 207, and b gained nothing. A third point gained a sixth with the logistic loss,
//!   and lost as much with the squared hinge.
//! * Cost: some passes over the dual variables, O(features), and O(nnz) of the rows that are moved back. Memory: for
//!   a smooth loss 8 bytes an example and a weight.

use crate::error::Error;
use crate::examples::Examples;
use crate::hypothesis::Hypothesis;
use crate::linear::Linear;
use crate::loss::{Loss, TOGETHER};
use crate::memory;
use crate::params::check_lambda;
use crate::scalar::{Scalar, others_than_0};
use crate::table::Table;

use super::glimpse::HOPE;
use super::hindsight::Hindsight;
use super::many::Narrow;
use super::{DualAscent, LEFT, STRANGER, WHAT};

/// How exactly the best c is found, relative to it: D differs by the square of that.
const EXACT: f64 = 0.01;

/// Steps of Newton's method along a ray, at most.
const STEPS: usize = 50;

/// The square of the sine of the angle, as the curvature measures it, below which two points have one ray.
const NARROWEST: f64 = 1e-9;

/// What is carried from one lambda to the next.
#[derive(Clone, Debug, Default)]
pub(super) struct Turn {
    /// Whether lambda has changed, and no better point was looked for since.
    pub(super) due: bool,
    /// Where the lambda before had ended.
    before: Option<Before>,
}

/// A dual point.
#[derive(Clone, Debug)]
struct Before {
    /// Dual variables of one output, times the examples' weights.
    products: Vec<f64>,
    /// Their image for this lambda.
    w: Linear<f64>,
    lambda: f64,
}

/// A point that the ascent may go to.
struct Mixture {
    dual: Vec<f64>,
    w: Linear<f64>,
    conjugates: f64,
}

impl<L: Loss> DualAscent<L> {
    /// Goes on with another lambda from the same dual point, or, once there are data to look at it by, a better one
    /// near it. Weights of examples may be others from here on if their dual variables are 0. O(examples + features).
    pub fn set_lambda(&mut self, lambda: f64) -> Result<(), Error> {
        check_lambda(lambda, false)?;
        self.w.scale(self.lambda / lambda);
        self.w.rebase(1.0);
        if let Some(free) = &mut self.free {
            free.scale(self.lambda / lambda);
        }
        // With a free intercept the square of a row has part in lambda itself.
        let ratio = if self.is_free() { f64::NAN } else { self.lambda / lambda };
        self.q.iter_mut().for_each(|q| *q *= ratio);
        self.lambda = lambda;
        (self.turn.due, self.futile) = (true, false);
        self.wake_all();
        (self.visits, self.due, self.seen, self.left) = (0, 1, f64::INFINITY, LEFT);
        (self.before, self.glimpsed, self.hope) = (f64::NAN, f64::INFINITY, HOPE);
        (self.narrow, self.hindsight) = (Narrow::default(), Hindsight::default());
        Ok(())
    }

    /// After [`set_lambda`](DualAscent::set_lambda), before the first pass: goes to a point of larger D, if there is
    /// one near. No further than along the ray unless all rows are `there`.
    pub(crate) fn turn<S: Scalar>(
        &mut self,
        data: &Examples<'_, S>,
        there: bool,
    ) -> Result<(), Error> {
        if !std::mem::take(&mut self.turn.due) {
            return Ok(());
        }
        self.check(data)?;
        for (i, idle) in self.idle.iter_mut().enumerate() {
            data.check_label(i, self.loss.classes())?;
            // Nothing to learn, and known to be finite.
            let idler = data.weight(i) == 0.0 && self.q[i] == 0.0;
            if idler || !self.loss.concerns(data.label(i)) {
                (*idle, self.strangers) = (STRANGER, true);
            }
        }
        if self.is_free() || self.w.is_zero() {
            return Ok(());
        }
        let before = self.turn.before.take();
        let norm2 = self.w.norm2_afresh();
        let (mut c, curvature) = self.best_multiple(data, norm2);
        let (mut conjugates, here) = (self.conjugates, self.value_of(self.conjugates, norm2));
        let mut value = here;
        // Less of a change is a rounding, and would move what is at an end of its domain away from there.
        if (c - 1.0).abs() > EXACT {
            conjugates = self.conjugates_of_multiple(data, c);
            value = self.value_of(conjugates, c * c * norm2);
            if value.is_nan() || value <= here {
                (c, conjugates, value) = (1.0, self.conjugates, here);
            }
        } else {
            c = 1.0;
        }
        if !(there && self.w.outputs() == 1 && curvature > 0.0) {
            self.go_along(c, conjugates);
            return Ok(());
        }
        let products = self.products(data)?;
        let mixture = match before {
            Some(before) => self.mixture(data, c, &products, before)?,
            None => None,
        };
        let higher = |m: &Mixture| self.value_of(m.conjugates, m.w.norm2_afresh()) > value;
        let old = if let Some(mixture) = mixture.filter(higher) {
            self.dual = Table::column(mixture.dual);
            self.conjugates = mixture.conjugates;
            std::mem::replace(&mut self.w, mixture.w)
        } else {
            self.w.check_copy()?;
            let old = self.w.clone();
            self.go_along(c, conjugates);
            old
        };
        self.turn.before = Some(Before { products, w: old, lambda: self.lambda });
        Ok(())
    }

    /// D where the conjugates' sum and the squared norm of w are these.
    fn value_of(&self, conjugates: f64, norm2: f64) -> f64 {
        -conjugates / self.len() as f64 - self.lambda / 2.0 * norm2
    }

    /// The first two derivatives by c of `sum_i s_i loss*(-c a_i)`.
    fn bend<S: Scalar>(&self, data: &Examples<'_, S>, c: f64) -> (f64, f64) {
        let (mut slope, mut curvature) = (0.0, 0.0);
        if let Some(dual) = self.dual.only() {
            each_of_many(data, dual, |first, dual, labels, weight| {
                let second = &mut [0.0; TOGETHER][..dual.len()];
                first.iter_mut().for_each(|a| *a *= c);
                self.loss.bends(first, second, labels);
                for (l, a) in others_than_0(dual) {
                    slope += weight(l) * a * first[l];
                    curvature += weight(l) * a * a * second[l];
                }
            });
            return (slope, curvature);
        }
        let mut dual = self.loss.zeros();
        for i in 0..self.len() {
            let (y, weight) = (data.label(i), data.weight(i));
            self.dual.read(i, 1.0, dual.as_mut());
            for (o, a) in others_than_0(dual.as_ref()) {
                let (first, second) = self.loss.bend(o, c * a, y);
                slope += weight * a * first;
                curvature += weight * a * a * second;
            }
        }
        (slope, curvature)
    }

    /// About the c for which `D(c a)` is largest, of those that are feasible; 1 where the loss does not tell. And the
    /// curvature of the conjugates' sum near there, 0 where the loss has none.
    fn best_multiple<S: Scalar>(&self, data: &Examples<'_, S>, norm2: f64) -> (f64, f64) {
        let (n, mut dual) = (self.len() as f64, self.loss.zeros());
        let mut excess = 0.0_f64;
        for i in 0..self.len() {
            self.dual.read(i, 1.0, dual.as_mut());
            excess = excess.max(self.loss.excess(dual.as_ref(), data.label(i)));
        }
        let most = (1.0 - f64::EPSILON) / excess;
        let (mut low, mut high, mut c) = (0.0, most, most.min(1.0));
        let mut curvature = 0.0;
        for _ in 0..STEPS {
            let slope;
            (slope, curvature) = self.bend(data, c);
            let rise = -slope / n - self.lambda * norm2 * c;
            let step = rise / (curvature / n + self.lambda * norm2);
            if !step.is_finite() {
                return (1.0, curvature);
            }
            (low, high) = if rise > 0.0 { (c, high) } else { (low, c) };
            let last = c;
            c += step;
            if c >= most {
                c = most;
            } else if c <= low || c >= high {
                c = (low + high) / 2.0;
            }
            if (c - last).abs() <= EXACT * last {
                break;
            }
        }
        (c, curvature)
    }

    /// `sum_i s_i loss*(-c a_i)`.
    pub(super) fn conjugates_of_multiple<S: Scalar>(&self, data: &Examples<'_, S>, c: f64) -> f64 {
        if let Some(dual) = self.dual.only() {
            return self.conjugates_of(data, dual, c);
        }
        let mut dual = self.loss.zeros();
        let conjugate = |i| {
            self.dual.read(i, c, dual.as_mut());
            data.weight(i) * self.loss.conjugate(dual.as_ref(), data.label(i))
        };
        (0..self.len()).map(conjugate).sum()
    }

    /// The same of these dual variables of the one output.
    fn conjugates_of<S: Scalar>(&self, data: &Examples<'_, S>, dual: &[f64], c: f64) -> f64 {
        let mut sum = 0.0;
        each_of_many(data, dual, |a, _, labels, weight| {
            a.iter_mut().for_each(|a| *a *= c);
            self.loss.conjugates(a, labels);
            sum += a.iter().enumerate().map(|(l, conjugate)| weight(l) * conjugate).sum::<f64>();
        });
        sum
    }

    /// Goes to c a, whose conjugates sum to this.
    fn go_along(&mut self, c: f64, conjugates: f64) {
        if c == 1.0 {
            return;
        }
        let mut dual = self.loss.zeros();
        for i in 0..self.len() {
            self.dual.read(i, c, dual.as_mut());
            self.dual.write(i, dual.as_ref());
        }
        self.w.scale(c);
        self.w.rebase(1.0);
        self.conjugates = conjugates;
    }

    /// The dual variables of the one output, times weights.
    fn products<S: Scalar>(&self, data: &Examples<'_, S>) -> Result<Vec<f64>, Error> {
        let mut products = memory::zeros(WHAT, &[self.len()])?;
        for (i, product) in products.iter_mut().enumerate() {
            self.dual.read(i, data.weight(i), std::slice::from_mut(product));
        }
        Ok(products)
    }

    /// What one step of Newton's method from c a towards the point of the lambda before leads to, once it is
    /// feasible.
    fn mixture<S: Scalar>(
        &self,
        data: &Examples<'_, S>,
        c: f64,
        products: &[f64],
        before: Before,
    ) -> Result<Option<Mixture>, Error> {
        let Before { products: mut dual, w: mut mixed, lambda } = before;
        let Some((c, d)) = self.best_mixture(data, c, products, &dual, (&mixed, lambda)) else {
            return Ok(None);
        };
        mixed.mix(d * lambda / self.lambda, c, &self.w);
        let mut a = [0.0];
        for (i, (product, dual)) in products.iter().zip(&mut dual).enumerate() {
            let (y, weight) = (data.label(i), data.weight(i));
            let wanted = c * product + d * *dual;
            // What had a weight, and has none now, counts no more.
            let of_weight = if weight > 0.0 { wanted / weight } else { 0.0 };
            a[0] = of_weight;
            self.loss.make_feasible(&mut a, y);
            if a[0] != of_weight || weight == 0.0 {
                let change = (a[0] * weight - wanted) / (self.lambda * self.len() as f64);
                mixed.add_to(0, data.rows().row(i), change);
            }
            *dual = a[0];
        }
        let conjugates = self.conjugates_of(data, &dual, 1.0);
        Ok(Some(Mixture { dual, w: mixed, conjugates }))
    }

    /// One step of Newton's method from (c, 0) for `D(c a + d b)`, given a and b times weights, and the image of b
    /// for its own lambda; none where they are almost one ray.
    fn best_mixture<S: Scalar>(
        &self,
        data: &Examples<'_, S>,
        c: f64,
        a: &[f64],
        b: &[f64],
        (w, lambda): (&Linear<f64>, f64),
    ) -> Option<(f64, f64)> {
        let (mut slope, mut curvature) = ([0.0; 2], [0.0; 3]);
        let mut at = 0;
        each_of_many(data, a, |first, a, labels, weight| {
            let second = &mut [0.0; TOGETHER][..a.len()];
            // The dual variables at (c, 0).
            first.iter_mut().enumerate().for_each(|(l, a)| *a *= c / weight(l));
            self.loss.bends(first, second, labels);
            for l in (0..a.len()).filter(|&l| weight(l) > 0.0) {
                let (a, b, second) = (a[l], b[at + l], second[l] / weight(l));
                slope[0] += first[l] * a;
                slope[1] += first[l] * b;
                curvature[0] += second * a * a;
                curvature[1] += second * a * b;
                curvature[2] += second * b * b;
            }
            at += a.len();
        });
        let (n, ratio) = (self.len() as f64, lambda / self.lambda);
        let products = [self.w.norm2(), ratio * self.w.product(w), ratio * ratio * w.norm2()];
        let products = products.map(|product| self.lambda * product);
        let rise: [f64; 2] = std::array::from_fn(|k| -slope[k] / n - c * products[k]);
        let [aa, ab, bb]: [f64; 3] = std::array::from_fn(|k| curvature[k] / n + products[k]);
        let area = aa * bb - ab * ab;
        if area.is_nan() || area <= NARROWEST * aa * bb {
            return None;
        }
        let step = [(rise[0] * bb - rise[1] * ab) / area, (rise[1] * aa - rise[0] * ab) / area];
        Some((c + step[0], step[1]))
    }
}

/// Calls `f` with some examples' numbers at a time, [`TOGETHER`] at most: a copy to write over, the numbers, the labels, and
/// what tells the weight of each.
fn each_of_many<S: Scalar>(
    data: &Examples<'_, S>,
    numbers: &[f64],
    mut f: impl FnMut(&mut [f64], &[f64], &[u32], &dyn Fn(usize) -> f64),
) {
    let mut room = [0.0; TOGETHER];
    let chunks = numbers.chunks(TOGETHER).zip(data.labels().chunks(TOGETHER));
    for (k, (numbers, labels)) in chunks.enumerate() {
        let copy = &mut room[..numbers.len()];
        copy.copy_from_slice(numbers);
        f(copy, numbers, labels, &|l| data.weight(k * TOGETHER + l));
    }
}
