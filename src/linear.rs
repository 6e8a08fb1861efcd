//! Linear hypotheses: one weight vector per output.
//!
//! * Form: `w = a v` (Pegasos 2011, section 2.4; Johansson's notes, section 4), so a step costs
//!   O(nnz) however many features there are.
//! * Carried: `a`, `||v||^2`, and, when averaging, `A` and `u`: see [`Scaled`].
//! * Memory: `outputs * n_features` scalars, and as many `f64` again for `u` when averaging. Of several outputs, from the
//!   first sparse row on, filled up to whole vectors: [`Weights`] says how, and why.
//! * Differs from the papers: the change of `||v||^2` is summed from the weights that changed, in
//!   the pass that changes them. The textbook `2 c <v, x> + c^2 <x, x>` needs a score that is not
//!   stale and a row without repeated columns; this needs neither. Where no step asks for the norm, runs over many sparse rows
//!   leave it to their end: an epoch takes 0.80 to 0.89 of the time on rows of 43 and 44 of 2^20 features f32 (AMD EPYC),
//!   0.98 to 1.01 on rows of 345 that are met but for a few.

mod panel;
mod parts;
mod single;

use std::borrow::Cow;

use crate::data::{Matrix, Row, same_features, square_of};
use crate::error::{Error, check_lengths};
use crate::hypothesis::{Combine, Hypothesis, LinearSingle, check_shape};
use crate::memory;
use crate::scalar::{Scalar, others_than_0};
use crate::scaled::Scaled;
use crate::simd::Weigh;
use crate::table::MANY;
use crate::threads::side_by_side;
use crate::weights::Weights;
pub use panel::LinearPanel;

/// Runs that update this many times as many weights as there are, where every row has a step, leave the norm to their end,
/// which costs a pass over w.
const FAR_MORE: usize = 4;

/// Weights that one task adds up, in f64 on its stack.
const PIECE: usize = 4096;

/// A weight vector per output, with an optional intercept.
///
/// The intercept is the weight of a constant last feature, regularised like the others.
///
/// ```
/// use pegasos::{Hypothesis, Linear};
///
/// let mut w = Linear::<f32>::new(1, 3, 0.0)?;
/// let x = pegasos::Dense::new(&[1.0, 0.0, 2.0], 1, 3)?;
/// w.add(0, x.row(0), &[0.5]);
/// assert_eq!(w.weights(), [0.5, 0.0, 1.0]);
/// assert_eq!(w.norm2(), 1.25);
/// # Ok::<(), pegasos::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Linear<S> {
    v: Weights<S>,
    b: Vec<f64>,
    constant: f64,
    /// With `||v||^2` as it is carried along.
    scale: Scaled,
    /// Whether that is what others are told: it depends, in its last digits, on where one run ended and the next began.
    carries_norm: bool,
    /// Whether a run has left it to its end.
    left: bool,
    /// Of the average; absent until the first iterate is counted.
    u: Option<Weights<f64>>,
    ub: Vec<f64>,
}

/// All that a [`Linear`] holds, in plain parts, for whoever stores or restores one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinearState<S> {
    /// Outputs x features, row-major: the weights are `a v`.
    pub v: Vec<S>,
    /// One per output: the intercepts are `a b constant`.
    pub b: Vec<f64>,
    /// The value of the constant feature; 0 for no intercept. `intercept_scaling` in Python.
    pub constant: f64,
    /// The scale, `||v||^2 + ||b||^2` (0 if it is not known), and the sums of the lazy average.
    pub scale: Scaled,
    /// `u` of the lazy average, the shape of `v` (empty until the first iterate is counted).
    pub u: Vec<f64>,
    /// `u` for the intercepts, the shape of `b`.
    pub ub: Vec<f64>,
}

impl<S: Scalar> Linear<S> {
    /// Zero weights for `outputs` scores of `n_features` features. `constant` is the value of the
    /// constant feature whose weight is the intercept, 0 for no intercept.
    pub fn new(outputs: usize, n_features: usize, constant: f64) -> Result<Self, Error> {
        check_shape(outputs, n_features)?;
        check_constant(constant)?;
        // Nobody looks at these zeros, whose pages need not be there yet.
        let v = Weights::new(memory::zeros("w", &[outputs, n_features])?, outputs, n_features);
        let (b, scale) = (memory::zeros("w", &[outputs])?, Scaled::default());
        let (u, ub) = (None, Vec::new());
        Ok(Linear { v, b, constant, scale, carries_norm: true, left: false, u, ub })
    }

    /// Restores what [`state`](Linear::state) gave. Refuses parts that do not fit together.
    pub fn from_state(n_features: usize, state: LinearState<S>) -> Result<Self, Error> {
        let LinearState { v, b, constant, scale, u, ub } = state;
        let outputs = b.len();
        check_shape(outputs, n_features)?;
        let averaging = !u.is_empty();
        check_lengths(&[
            ("v", v.len(), outputs.saturating_mul(n_features)),
            ("u", u.len(), if averaging { v.len() } else { 0 }),
            ("ub", ub.len(), if averaging { outputs } else { 0 }),
        ])?;
        check_constant(constant)?;
        // Of carried sums that end at 0, the last may be a rounding below.
        if !scale.norm2.is_finite() {
            return Err(Error::parameter("norm2", scale.norm2, "finite"));
        }
        scale.check()?;
        let u = averaging.then(|| Weights::new(u, outputs, n_features));
        let v = Weights::new(v, outputs, n_features);
        let mut w = Linear { v, b, constant, scale, carries_norm: true, left: false, u, ub };
        if scale.norm2 <= 0.0 {
            // Left out, or roundings: weights that are not 0 must not be taken for it.
            w.measure();
        }
        Ok(w)
    }

    /// With such weights, outputs x features in row-major order, and these of the constant feature.
    pub(crate) fn of(weights: Vec<S>, n_features: usize, b: Vec<f64>, constant: f64) -> Self {
        Linear::measured(Weights::new(weights, b.len(), n_features), b, constant)
    }

    /// With these weights, and nothing else, whose norm is computed.
    fn measured(v: Weights<S>, b: Vec<f64>, constant: f64) -> Self {
        let (scale, u, ub) = (Scaled::default(), None, Vec::new());
        let mut linear = Linear { v, b, constant, scale, carries_norm: true, left: false, u, ub };
        linear.scale.norm2 = linear.square();
        linear
    }

    /// `||v||^2 + ||b||^2`, afresh. O(size).
    fn square(&self) -> f64 {
        square_of(self.v.all()) + square_of(&self.b)
    }

    /// The state, to be stored and given to [`from_state`](Linear::from_state). O(size).
    pub fn state(&self) -> LinearState<S> {
        let Linear { v, b, constant, scale, carries_norm, left: _, u, ub } = self;
        let norm2 = if *carries_norm { scale.norm2 } else { self.square() };
        let (constant, scale) = (*constant, Scaled { norm2, ..*scale });
        let u = u.as_ref().map_or_else(Vec::new, Weights::to_vec);
        LinearState { v: v.to_vec(), b: b.clone(), constant, scale, u, ub: ub.clone() }
    }

    /// The value of the constant feature; 0 for no intercept.
    pub fn constant(&self) -> f64 {
        self.constant
    }

    /// The weights of the constant feature, over the scale.
    pub(crate) fn constant_weights(&self) -> &[f64] {
        &self.b
    }

    /// How many weights there are, those of the constant not counted.
    pub(crate) fn size(&self) -> usize {
        self.v.len()
    }

    /// Makes the weights of several outputs stand as the coming rows want them; see [`Weights`]. O(size), if they stood
    /// otherwise.
    pub(crate) fn suit(&mut self, sparse: bool) -> Result<(), Error> {
        let (by_feature, zero) = (sparse && self.outputs() > 1, self.is_zero());
        if let Some(u) = &mut self.u {
            u.lay_out(by_feature, false)?;
        }
        self.v.lay_out(by_feature, zero)
    }

    /// Number of features, the intercept's constant not counted.
    pub fn n_features(&self) -> usize {
        self.v.n_features()
    }

    /// The weights, outputs x features in row-major order: `coef_` in Python.
    pub fn weights(&self) -> Vec<S> {
        let a = self.scale.a;
        let mut weights = self.v.to_vec();
        weights.iter_mut().for_each(|v| *v = S::from_f64(a * v.to_f64()));
        weights
    }

    /// The intercepts, one per output: `intercept_` in Python.
    pub fn intercepts(&self) -> Vec<f64> {
        self.b.iter().map(|b| self.scale.a * b * self.constant).collect()
    }

    /// These weights rounded to another scalar, without what an average needs. O(size).
    pub fn convert<T: Scalar>(&self) -> Linear<T> {
        let (a, constant) = (self.scale.a, self.constant);
        // An intercept is handed out in the scalar too.
        let round = |b: &f64| match constant > 0.0 {
            true => T::from_f64(a * b * constant).to_f64() / constant,
            false => 0.0,
        };
        let mut v = Weights::like(&self.v);
        for (to, from) in v.all_mut().iter_mut().zip(self.v.all()) {
            *to = T::from_f64(a * from.to_f64());
        }
        Linear::measured(v, self.b.iter().map(round).collect(), constant)
    }

    /// These weights as they are in another scalar: [`convert`](Linear::convert) there and back. O(size).
    pub(crate) fn rounded<T: Scalar>(&self) -> Self {
        let (a, constant) = (self.scale.a, self.constant);
        let round = |b: &f64| match constant > 0.0 {
            true => T::from_f64(a * b * constant).to_f64() / constant * constant / constant,
            false => 0.0,
        };
        let mut v = Weights::like(&self.v);
        for (to, from) in v.all_mut().iter_mut().zip(self.v.all()) {
            *to = S::from_f64(T::from_f64(a * from.to_f64()).to_f64());
        }
        Linear::measured(v, self.b.iter().map(round).collect(), constant)
    }

    /// Lets `f` replace the weights of the one output; leaves the intercept as it is. O(size).
    pub(crate) fn replace(&mut self, f: impl FnOnce(&mut [f64])) {
        // With A = 0 the average is in u alone, which v may then leave behind.
        self.fold(1.0);
        let mut weights: Vec<f64> = self.v.all().iter().map(|v| v.to_f64()).collect();
        f(&mut weights);
        for (v, weight) in self.v.all_mut().iter_mut().zip(weights) {
            *v = S::from_f64(weight);
        }
        self.scale.norm2 = self.norm2_afresh();
    }

    /// Sets the weight of the constant feature, of the one output.
    pub(crate) fn set_intercept(&mut self, weight: f64) {
        self.fold(1.0);
        self.b.fill(weight);
        self.scale.norm2 = self.norm2_afresh();
    }

    /// Sets the intercepts, which become weights of a constant feature of 1.
    pub(crate) fn set_intercepts(&mut self, intercepts: Vec<f64>) {
        self.fold(1.0);
        (self.b, self.constant) = (intercepts, 1.0);
        self.scale.norm2 = self.norm2_afresh();
    }

    /// `||w||^2` without the constant feature. O(size).
    pub(crate) fn norm2_of_features(&self) -> f64 {
        self.scale.a.powi(2) * square_of(self.v.all())
    }

    /// The product with another of as many outputs and features, whose weights stand in the same way. O(size).
    pub(crate) fn product(&self, other: &Self) -> f64 {
        let v = self.v.all().iter().zip(other.v.all()).map(|(v, o)| v.to_f64() * o.to_f64());
        let b = self.b.iter().zip(&other.b).map(|(b, o)| b * o);
        self.scale.a * other.scale.a * (v.sum::<f64>() + b.sum::<f64>())
    }

    /// Becomes `c` times itself and `d` times such another. No average must be under way. O(size).
    pub(crate) fn mix(&mut self, c: f64, d: f64, other: &Self) {
        self.mix_roughly(c, d, other);
        self.measure();
    }

    /// [`mix`](Linear::mix), but for the norm, which [`measure`](Linear::measure) computes.
    pub(crate) fn mix_roughly(&mut self, c: f64, d: f64, other: &Self) {
        let (c, d) = (c * self.scale.a, d * other.scale.a);
        for (v, o) in self.v.all_mut().iter_mut().zip(other.v.all()) {
            *v = S::from_f64(c * v.to_f64() + d * o.to_f64());
        }
        self.b.iter_mut().zip(&other.b).for_each(|(b, o)| *b = c * *b + d * o);
        self.scale = Scaled::default();
    }

    /// Computes the norm afresh. O(size).
    pub(crate) fn measure(&mut self) {
        self.scale.norm2 = self.square();
    }

    /// [`score`](Hypothesis::score) of a row that may be stored in a narrower scalar than the weights; nothing is
    /// copied, all arithmetic is in that of the weights.
    #[inline(always)]
    pub fn score_row<T: Scalar + Weigh<S>>(&self, x: Row<'_, T>, out: &mut [f64]) {
        self.v.dots(x, out);
        if let ([only], [b]) = (&mut *out, &*self.b) {
            // Without the loop, which a step on few features feels.
            *only = self.scale.a * (*only + self.constant * b);
            return;
        }
        for (out, b) in out.iter_mut().zip(&self.b) {
            *out = self.scale.a * (*out + self.constant * b);
        }
    }

    /// [`expects`](Hypothesis::expects) of such rows.
    pub(crate) fn expects_rows<T: Scalar>(&self, x: &Matrix<'_, T>) -> bool {
        self.v.expects(x)
    }

    /// [`expect`](Hypothesis::expect) of such a row.
    #[inline(always)]
    pub(crate) fn expect_row<T: Scalar>(&self, x: Row<'_, T>) {
        self.v.expect(x);
    }

    /// [`add`](Hypothesis::add) of such a row.
    #[inline(always)]
    pub fn add_row<T: Scalar + Weigh<S>>(&mut self, x: Row<'_, T>, coef: &[f64]) {
        self.add_over(x, coef, self.scale.a);
    }

    /// Adds the coefficients, over `a`, times a row to v.
    #[inline(always)]
    fn add_over<T: Scalar + Weigh<S>>(&mut self, x: Row<'_, T>, coef: &[f64], a: f64) {
        if let [only] = coef {
            return self.sum_to(0, x, *only / a);
        }
        if let Some(change) = self.v.axpys(coef, a, x) {
            self.scale.norm2 += change;
            return others_than_0(coef).for_each(|(o, c)| self.add_rest(o, x, c / a));
        }
        match coef {
            few if few.len() <= MANY => {
                few.iter().enumerate().for_each(|(o, coef)| self.sum_to(o, x, *coef / a));
            }
            many => others_than_0(many).for_each(|(o, coef)| self.sum_to(o, x, coef / a)),
        }
    }

    /// The score of one output.
    #[inline]
    pub(crate) fn score_of<T: Scalar + Weigh<S>>(&self, o: usize, x: Row<'_, T>) -> f64 {
        self.scale.a * (self.v.dot(o, x) + self.constant * self.b[o])
    }

    /// Adds `coef` times an example to the weights of one output.
    #[inline(always)]
    pub(crate) fn add_to<T: Scalar + Weigh<S>>(&mut self, o: usize, x: Row<'_, T>, coef: f64) {
        self.sum_to(o, x, coef / self.scale.a);
    }

    /// Adds `c` times an example to v, for one output.
    #[inline(always)]
    fn sum_to<T: Scalar + Weigh<S>>(&mut self, o: usize, x: Row<'_, T>, c: f64) {
        if c == 0.0 {
            return;
        }
        if self.left {
            self.v.add_times(o, c, x);
        } else {
            self.scale.norm2 += self.v.axpy(o, c, x);
        }
        self.add_rest(o, x, c);
    }

    /// What belongs to that beside the weights of the features.
    #[inline(always)]
    fn add_rest<T: Scalar>(&mut self, o: usize, x: Row<'_, T>, c: f64) {
        if self.constant > 0.0 {
            let old = self.b[o];
            self.b[o] += c * self.constant;
            self.scale.norm2 += (self.b[o] - old) * (self.b[o] + old);
        }
        if let Some(u) = &mut self.u {
            let c = c * self.scale.sum_a;
            u.add(o, c, x);
            self.ub[o] += c * self.constant;
        }
    }
}

fn check_constant(constant: f64) -> Result<(), Error> {
    if constant >= 0.0 && constant.is_finite() {
        return Ok(());
    }
    Err(Error::parameter("intercept_scaling", constant, ">= 0 and finite"))
}

/// What is told of the norm follows from the rest.
impl<S: PartialEq> PartialEq for Linear<S> {
    fn eq(&self, other: &Self) -> bool {
        let rest = |w: &Self| (w.constant, Scaled { norm2: 0.0, ..w.scale });
        (&self.v, &self.b, &self.u, &self.ub) == (&other.v, &other.b, &other.u, &other.ub)
            && rest(self) == rest(other)
    }
}

impl<S: Scalar> Hypothesis for Linear<S> {
    const BRIEF: bool = true;
    type Scalar = S;

    #[inline(always)]
    fn outputs(&self) -> usize {
        self.b.len()
    }

    fn check_features(&self, n_features: usize) -> Result<(), Error> {
        same_features(self.n_features(), n_features)
    }

    fn look_ahead(&mut self, x: &Matrix<'_, S>, _rows: &[usize]) -> Result<(), Error> {
        self.suit(x.is_sparse())
    }

    #[inline(always)]
    fn score(&self, x: Row<'_, S>, out: &mut [f64]) {
        self.score_row(x, out);
    }

    #[inline(always)]
    fn expects(&self, x: &Matrix<'_, S>) -> bool {
        self.expects_rows(x)
    }

    #[inline(always)]
    fn expect(&self, x: Row<'_, S>) {
        self.expect_row(x);
    }

    #[inline(always)]
    fn single_mut(&mut self) -> Option<LinearSingle<'_, S>> {
        self.is_single().then(|| self.single())
    }

    #[inline(always)]
    fn add(&mut self, _i: usize, x: Row<'_, S>, coef: &[f64]) {
        self.add_row(x, coef);
    }

    #[inline(always)]
    fn add_to_sum(&mut self, _i: usize, x: Row<'_, S>, coef: &mut [f64], _late: bool) {
        self.add_over(x, coef, 1.0);
    }

    fn check_room(&self, averaging: bool) -> Result<(), Error> {
        let more = if averaging && self.u.is_none() { self.v.all().len() } else { 0 };
        memory::check::<f64>("the average of w", &[more])
    }

    fn check_copy(&self) -> Result<(), Error> {
        memory::check::<S>("a copy of w", &[self.v.all().len()])?;
        let averages = self.u.as_ref().map_or(0, |u| u.all().len());
        memory::check::<f64>("a copy of the average of w", &[averages])
    }

    fn norm2_of_row(&self, norm2: f64) -> f64 {
        norm2 + self.constant.powi(2)
    }

    fn survives(&self, norm2: f64, total: f64) -> bool {
        let x = self.norm2_of_row(norm2).sqrt();
        if self.left {
            return false;
        }
        let reach = self.scale.norm2.max(0.0).sqrt() + total * x;
        // False for NaN too.
        reach * reach.max(x) <= S::LARGEST
    }

    fn gradient_norm(&self, _i: usize, x: Row<'_, S>, coef: &[f64]) -> f64 {
        let of_row = x.norm2() + self.constant * self.constant;
        (of_row * coef.iter().map(|c| c * c).sum::<f64>()).sqrt()
    }

    fn carry_norm(&mut self, wanted: bool) {
        self.carries_norm = wanted;
        self.settle();
    }

    fn leave_norm(&mut self, x: &Matrix<'_, S>, rows: usize) {
        let stored = rows.saturating_mul(x.stored_in_a_row());
        let long = self.outputs() == 1 && stored / FAR_MORE >= self.n_features();
        self.left |= long && !self.carries_norm;
    }

    fn has_left_norm(&self) -> bool {
        self.left
    }

    fn settle(&mut self) {
        if std::mem::take(&mut self.left) {
            self.scale.norm2 = self.square();
        }
    }

    /// O(1) where it is carried, else O(size).
    fn norm2(&self) -> f64 {
        if self.carries_norm { self.scale.norm2() } else { self.norm2_afresh() }
    }

    fn is_zero(&self) -> bool {
        !self.left && self.scale.norm2() == 0.0
    }

    fn is_finite(&self) -> bool {
        let norm2 = if self.left { self.norm2_afresh() } else { self.scale.norm2() };
        S::from_f64(norm2.sqrt()).to_f64().is_finite()
    }

    fn norm2_afresh(&self) -> f64 {
        self.scale.a.powi(2) * self.square()
    }

    #[inline(always)]
    fn scaled(&self) -> &Scaled {
        &self.scale
    }

    #[inline(always)]
    fn scaled_mut(&mut self) -> &mut Scaled {
        &mut self.scale
    }

    fn fold(&mut self, a: f64) {
        let fold = self.scale.fold(a);
        fold.apply(self.v.all_mut(), self.u.as_mut().map_or(&mut [], Weights::all_mut));
        fold.apply(&mut self.b, &mut self.ub);
    }

    #[inline(always)]
    fn average(&mut self, weight: f64) {
        if self.u.is_none() {
            self.u = Some(Weights::like(&self.v));
            self.ub = vec![0.0; self.b.len()];
        }
        self.scale.average(weight);
    }

    fn set_average_weight(&mut self, sum: f64) {
        let c = self.scale.reweigh(sum);
        let u = self.u.as_mut().map_or(&mut [][..], Weights::all_mut);
        u.iter_mut().chain(&mut self.ub).for_each(|u| *u *= c);
    }

    fn mean(&self) -> Option<Self> {
        let Linear { v, b, constant, scale, u: Some(u), ub, .. } = self else {
            return None;
        };
        if !scale.averages() {
            return None;
        }
        let mut mean = Weights::like(v);
        for (mean, (v, u)) in mean.all_mut().iter_mut().zip(v.all().iter().zip(u.all())) {
            *mean = S::from_f64(scale.mean(v.to_f64(), *u));
        }
        let b = b.iter().zip(ub).map(|(b, u)| scale.mean(*b, *u)).collect();
        Some(Linear::measured(mean, b, *constant))
    }
}

impl<S: Scalar> Combine for Linear<S> {
    fn combine(parts: &[(f64, &Self)]) -> Result<Self, Error> {
        let Some((_, first)) = parts.first() else {
            return Err(Error::shape("models", "at least one", "0"));
        };
        let shape = |w: &Self| (w.outputs(), w.n_features(), w.constant);
        if let Some((_, other)) = parts.iter().find(|(_, w)| shape(w) != shape(first)) {
            return Err(Error::shape(
                "models",
                format_args!("outputs, features, intercept scaling all {:?}", shape(first)),
                format_args!("{:?}", shape(other)),
            ));
        }
        let mut b = vec![0.0; first.outputs()];
        let averaging = parts.iter().all(|(_, w)| w.u.is_some() && w.scale.averages());
        let mut u = averaging.then(|| Weights::<f64>::like(&first.v));
        let mut ub = if averaging { b.clone() } else { Vec::new() };
        let mut alike = Vec::with_capacity(parts.len());
        for (c, part) in parts {
            let mut w = Cow::Borrowed(*part);
            if !w.v.stands_as(&first.v) {
                w.to_mut().suit(first.v.is_by_feature())?;
            }
            let scale = c * w.scale.a;
            b.iter_mut().zip(&w.b).for_each(|(sum, b)| *sum += scale * b);
            // With A = 0 and weights of sum 1, the mean is -u.
            let mean = |v: f64, u: f64| c * w.scale.mean(v, u);
            if let (Some(u), Some(of_part)) = (&mut u, &w.u) {
                for (sum, (v, u)) in u.all_mut().iter_mut().zip(w.v.all().iter().zip(of_part.all()))
                {
                    *sum -= mean(v.to_f64(), *u);
                }
            }
            for (sum, (b, u)) in ub.iter_mut().zip(w.b.iter().zip(&w.ub)) {
                *sum -= mean(*b, *u);
            }
            alike.push((scale, w));
        }
        let mut v = Weights::like(&first.v);
        let mut pieces: Vec<&mut [S]> = v.all_mut().chunks_mut(PIECE).collect();
        side_by_side(&mut pieces, |k, piece| {
            let mut sums = [0.0; PIECE];
            for (scale, w) in &alike {
                let of_part = &w.v.all()[k * PIECE..][..piece.len()];
                sums.iter_mut().zip(of_part).for_each(|(sum, v)| *sum += scale * v.to_f64());
            }
            piece.iter_mut().zip(sums).for_each(|(v, sum)| *v = S::from_f64(sum));
        });
        let scale = Scaled { sum_q: if averaging { 1.0 } else { 0.0 }, ..Scaled::default() };
        let constant = first.constant;
        let mut linear = Linear { v, b, constant, scale, carries_norm: true, left: false, u, ub };
        linear.scale.norm2 = linear.square();
        Ok(linear)
    }
}
