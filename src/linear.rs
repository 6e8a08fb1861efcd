//! Linear hypotheses: one weight vector per output.
//!
//! * Form: `w = a v` (Pegasos 2011, section 2.4; Johansson's notes, section 4), so a step costs
//!   O(nnz) however many features there are.
//! * Carried: `a`, `||v||^2`, and, when averaging, `A` and `u`: see [`Scaled`].
//! * Memory: `outputs * n_features` scalars, and as many `f64` again for `u` when averaging.
//! * Differs from the papers: the change of `||v||^2` is summed from the weights that changed, in
//!   the pass that changes them. The textbook `2 c <v, x> + c^2 <x, x>` needs a score that is not
//!   stale and a row without repeated columns; this needs neither.

use crate::data::{Matrix, Row, same_features};
use crate::error::{Error, check_lengths};
use crate::hypothesis::{Combine, Hypothesis, check_shape};
use crate::memory;
use crate::scalar::{Scalar, others_than_0};
use crate::scaled::Scaled;
use crate::simd::{Lanes, TILE, WIDTH, Weigh};
use crate::table::MANY;
use crate::threads::side_by_side;

/// Fewer outputs than these are scored one by one.
const FEW: usize = 16;

/// Rows that are multiplied with a panel at a time: several of what is multiplied at once.
const TOGETHER: usize = 4 * TILE;

/// Rows that one task scores.
const TASK: usize = 256;

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
#[derive(Clone, Debug, PartialEq)]
pub struct Linear<S> {
    n_features: usize,
    state: LinearState<S>,
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
    /// The scale, `||v||^2 + ||b||^2`, and the sums of the lazy average.
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
        Linear::from_state(
            n_features,
            LinearState {
                v: memory::zeros("w", &[outputs, n_features])?,
                b: memory::zeros("w", &[outputs])?,
                constant,
                ..LinearState::default()
            },
        )
    }

    /// Restores what [`state`](Linear::state) gave. Refuses parts that do not fit together.
    pub fn from_state(n_features: usize, state: LinearState<S>) -> Result<Self, Error> {
        let outputs = state.b.len();
        let averaging = !state.u.is_empty();
        check_lengths(&[
            ("v", state.v.len(), outputs.saturating_mul(n_features)),
            ("u", state.u.len(), if averaging { state.v.len() } else { 0 }),
            ("ub", state.ub.len(), if averaging { outputs } else { 0 }),
        ])?;
        if !(state.constant >= 0.0 && state.constant.is_finite()) {
            return Err(Error::parameter("intercept_scaling", state.constant, ">= 0 and finite"));
        }
        // Of carried sums that end at 0, the last may be a rounding below.
        if !state.scale.norm2.is_finite() {
            return Err(Error::parameter("norm2", state.scale.norm2, "finite"));
        }
        state.scale.check()?;
        Ok(Linear { n_features, state })
    }

    /// With these weights, whose norm is computed.
    fn measured(n_features: usize, state: LinearState<S>) -> Self {
        let mut linear = Linear { n_features, state };
        linear.state.scale.norm2 = linear.norm2_afresh();
        linear
    }

    /// The state, to be stored and given to [`from_state`](Linear::from_state).
    pub fn state(&self) -> &LinearState<S> {
        &self.state
    }

    /// Number of features, the intercept's constant not counted.
    pub fn n_features(&self) -> usize {
        self.n_features
    }

    /// The weights as a matrix product wants them: to score many rows at once. As much memory again, for a multiple of
    /// 32 outputs; `None` where there are so few that [`score`](Hypothesis::score) is as fast. O(size).
    pub fn panel(&self) -> Result<Option<LinearPanel<'_, S>>, Error> {
        let (d, outputs) = (self.n_features, self.outputs());
        if outputs < FEW {
            return Ok(None);
        }
        let blocks = outputs.div_ceil(WIDTH);
        memory::check::<Lanes<S>>("w as a panel", &[blocks, d])?;
        let mut lanes = vec![Lanes([S::default(); WIDTH]); blocks * d];
        for (o, w) in self.state.v.chunks(d).enumerate() {
            let block = &mut lanes[o / WIDTH * d..(o / WIDTH + 1) * d];
            block.iter_mut().zip(w).for_each(|(lanes, w)| lanes.0[o % WIDTH] = *w);
        }
        Ok(Some(LinearPanel { w: self, lanes }))
    }

    /// [`scores`](Hypothesis::scores) of rows that follow one another from `first` on, as many as `out` has room for,
    /// on the threads of the current rayon pool.
    pub fn scores_side_by_side(&self, x: &Matrix<'_, S>, first: usize, out: &mut [f64]) {
        let outputs = self.outputs();
        let mut tasks: Vec<&mut [f64]> = out.chunks_mut(TASK * outputs).collect();
        side_by_side(&mut tasks, |task, out| {
            for (i, out) in (first + task * TASK..).zip(out.chunks_mut(outputs)) {
                self.score(x.row(i), out);
            }
        });
    }

    /// The weights, outputs x features in row-major order: `coef_` in Python.
    pub fn weights(&self) -> Vec<S> {
        let a = self.state.scale.a;
        self.state.v.iter().map(|v| S::from_f64(a * v.to_f64())).collect()
    }

    /// The intercepts, one per output: `intercept_` in Python.
    pub fn intercepts(&self) -> Vec<f64> {
        let LinearState { scale: Scaled { a, .. }, constant, b, .. } = &self.state;
        b.iter().map(|b| a * b * constant).collect()
    }

    /// These weights rounded to another scalar, without what an average needs. O(size).
    pub fn convert<T: Scalar>(&self) -> Linear<T> {
        let LinearState { scale: Scaled { a, .. }, constant, .. } = self.state;
        // An intercept is handed out in the scalar too.
        let round = |b: &f64| match constant > 0.0 {
            true => T::from_f64(a * b * constant).to_f64() / constant,
            false => 0.0,
        };
        let v = self.state.v.iter().map(|v| T::from_f64(a * v.to_f64())).collect();
        let b = self.state.b.iter().map(round).collect();
        let state = LinearState { v, b, constant, ..LinearState::default() };
        Linear::measured(self.n_features, state)
    }

    /// Lets `f` replace the weights, outputs x features; leaves the intercepts as they are. O(size).
    pub(crate) fn replace(&mut self, f: impl FnOnce(&mut [f64])) {
        // With A = 0 the average is in u alone, which v may then leave behind.
        self.fold(1.0);
        let mut weights: Vec<f64> = self.state.v.iter().map(|v| v.to_f64()).collect();
        f(&mut weights);
        for (v, weight) in self.state.v.iter_mut().zip(weights) {
            *v = S::from_f64(weight);
        }
        self.state.scale.norm2 = self.norm2_afresh();
    }

    /// Sets the weight of the constant feature, of the one output.
    pub(crate) fn set_intercept(&mut self, weight: f64) {
        self.fold(1.0);
        self.state.b.fill(weight);
        self.state.scale.norm2 = self.norm2_afresh();
    }

    /// [`score`](Hypothesis::score) of a row that may be stored in a narrower scalar than the weights; nothing is
    /// copied, all arithmetic is in that of the weights.
    #[inline(always)]
    pub fn score_row<T: Scalar + Weigh<S>>(&self, x: Row<'_, T>, out: &mut [f64]) {
        let (w, d) = (&self.state, self.n_features);
        match &mut *out {
            [only] => *only = x.dot(&w.v),
            all => x.dots(&w.v, d, all),
        }
        for (out, b) in out.iter_mut().zip(&w.b) {
            *out = w.scale.a * (*out + w.constant * b);
        }
    }

    /// [`add`](Hypothesis::add) of such a row.
    #[inline(always)]
    pub fn add_row<T: Scalar + Weigh<S>>(&mut self, x: Row<'_, T>, coef: &[f64]) {
        match coef {
            [only] => self.add_to(0, x, *only),
            few if few.len() <= MANY => {
                few.iter().enumerate().for_each(|(o, coef)| self.add_to(o, x, *coef));
            }
            many => others_than_0(many).for_each(|(o, coef)| self.add_to(o, x, coef)),
        }
    }

    /// The score of one output.
    #[inline]
    pub(crate) fn score_of<T: Scalar + Weigh<S>>(&self, o: usize, x: Row<'_, T>) -> f64 {
        let (w, d) = (&self.state, self.n_features);
        w.scale.a * (x.dot(&w.v[o * d..(o + 1) * d]) + w.constant * w.b[o])
    }

    /// Adds `coef` times an example to the weights of one output.
    #[inline(always)]
    pub(crate) fn add_to<T: Scalar + Weigh<S>>(&mut self, o: usize, x: Row<'_, T>, coef: f64) {
        if coef == 0.0 {
            return;
        }
        let (w, d) = (&mut self.state, self.n_features);
        let c = coef / w.scale.a;
        w.scale.norm2 += x.axpy(c, &mut w.v[o * d..(o + 1) * d]);
        let old = w.b[o];
        w.b[o] += c * w.constant;
        w.scale.norm2 += (w.b[o] - old) * (w.b[o] + old);
        if let Some(u) = w.u.get_mut(o * d..(o + 1) * d) {
            let c = c * w.scale.sum_a;
            x.for_each(|j, x| {
                if let Some(u) = u.get_mut(j) {
                    *u += c * x;
                }
            });
            w.ub[o] += c * w.constant;
        }
    }
}

/// Weights of several outputs, for products of matrices; see [`Linear::panel`].
#[derive(Clone, Debug)]
pub struct LinearPanel<'a, S> {
    w: &'a Linear<S>,
    /// Blocks of outputs, in each of them features.
    lanes: Vec<Lanes<S>>,
}

impl<S: Scalar> LinearPanel<'_, S> {
    /// [`scores`](Hypothesis::scores) of rows that follow one another from `first` on, as many as `out` has room for.
    /// Unlike those of single rows they are summed in the scalar of the data.
    pub fn scores(&self, x: &Matrix<'_, S>, first: usize, out: &mut [f64]) {
        let (LinearState { scale, constant, b, .. }, outputs) = (&self.w.state, self.w.outputs());
        let mut products = [S::default(); TOGETHER * WIDTH];
        for (group, out) in out.chunks_mut(TOGETHER * outputs).enumerate() {
            let first = first + group * TOGETHER;
            let rows: [usize; TOGETHER] = std::array::from_fn(|r| first + r);
            let rows = &rows[..out.len() / outputs];
            for (k, block) in self.lanes.chunks(self.w.n_features).enumerate() {
                x.products(rows, block, &mut products, WIDTH);
                let own = k * WIDTH..outputs.min((k + 1) * WIDTH);
                for (out, products) in out.chunks_mut(outputs).zip(products.chunks(WIDTH)) {
                    let numbers = out[own.clone()].iter_mut().zip(products).zip(&b[own.clone()]);
                    numbers.for_each(|((out, p), b)| *out = scale.a * (p.to_f64() + constant * b));
                }
            }
        }
    }

    /// [`scores`](LinearPanel::scores) on the threads of the current rayon pool.
    pub fn scores_side_by_side(&self, x: &Matrix<'_, S>, first: usize, out: &mut [f64]) {
        let mut tasks: Vec<&mut [f64]> = out.chunks_mut(TASK * self.w.outputs()).collect();
        side_by_side(&mut tasks, |task, out| self.scores(x, first + task * TASK, out));
    }
}

impl<S: Scalar> Hypothesis for Linear<S> {
    type Scalar = S;

    #[inline(always)]
    fn outputs(&self) -> usize {
        self.state.b.len()
    }

    fn check_features(&self, n_features: usize) -> Result<(), Error> {
        same_features(self.n_features, n_features)
    }

    #[inline(always)]
    fn score(&self, x: Row<'_, S>, out: &mut [f64]) {
        self.score_row(x, out);
    }

    #[inline(always)]
    fn expect(&self, x: Row<'_, S>) {
        x.prefetch_weights(&self.state.v);
    }

    #[inline(always)]
    fn add(&mut self, _i: usize, x: Row<'_, S>, coef: &[f64]) {
        self.add_row(x, coef);
    }

    fn check_room(&self, averaging: bool) -> Result<(), Error> {
        let more = if averaging && self.state.u.is_empty() { self.state.v.len() } else { 0 };
        memory::check::<f64>("the average of w", &[more])
    }

    fn check_copy(&self) -> Result<(), Error> {
        memory::check::<S>("a copy of w", &[self.state.v.len()])?;
        memory::check::<f64>("a copy of the average of w", &[self.state.u.len()])
    }

    fn survives(&self, norm2: f64, total: f64) -> bool {
        let x = (norm2 + self.state.constant.powi(2)).sqrt();
        let reach = self.state.scale.norm2.max(0.0).sqrt() + total * x;
        // False for NaN too.
        reach * reach.max(x) <= S::LARGEST
    }

    fn gradient_norm(&self, _i: usize, x: Row<'_, S>, coef: &[f64]) -> f64 {
        let of_row = x.norm2() + self.state.constant * self.state.constant;
        (of_row * coef.iter().map(|c| c * c).sum::<f64>()).sqrt()
    }

    fn norm2_afresh(&self) -> f64 {
        let v = self.state.v.iter().map(|v| v.to_f64() * v.to_f64());
        let b = self.state.b.iter().map(|b| b * b);
        self.state.scale.a.powi(2) * (v.sum::<f64>() + b.sum::<f64>())
    }

    #[inline(always)]
    fn scaled(&self) -> &Scaled {
        &self.state.scale
    }

    #[inline(always)]
    fn scaled_mut(&mut self) -> &mut Scaled {
        &mut self.state.scale
    }

    fn fold(&mut self, a: f64) {
        let w = &mut self.state;
        let fold = w.scale.fold(a);
        fold.apply(&mut w.v, &mut w.u);
        fold.apply(&mut w.b, &mut w.ub);
    }

    #[inline(always)]
    fn average(&mut self, weight: f64) {
        let w = &mut self.state;
        if w.u.is_empty() {
            w.u = vec![0.0; w.v.len()];
            w.ub = vec![0.0; w.b.len()];
        }
        w.scale.average(weight);
    }

    fn set_average_weight(&mut self, sum: f64) {
        let c = self.state.scale.reweigh(sum);
        self.state.u.iter_mut().chain(&mut self.state.ub).for_each(|u| *u *= c);
    }

    fn mean(&self) -> Option<Self> {
        let LinearState { v, b, u, ub, constant, scale } = &self.state;
        if !scale.averages() {
            return None;
        }
        let of = |(v, u): (&S, &f64)| S::from_f64(scale.mean(v.to_f64(), *u));
        let state = LinearState {
            v: v.iter().zip(u).map(of).collect(),
            b: b.iter().zip(ub).map(|(b, u)| scale.mean(*b, *u)).collect(),
            constant: *constant,
            ..LinearState::default()
        };
        Some(Linear::measured(self.n_features, state))
    }
}

impl<S: Scalar> Combine for Linear<S> {
    fn combine(parts: &[(f64, &Self)]) -> Result<Self, Error> {
        let Some((_, first)) = parts.first() else {
            return Err(Error::shape("models", "at least one", "0"));
        };
        let shape = |w: &Self| (w.outputs(), w.n_features, w.state.constant);
        if let Some((_, other)) = parts.iter().find(|(_, w)| shape(w) != shape(first)) {
            return Err(Error::shape(
                "models",
                format_args!("outputs, features, intercept scaling all {:?}", shape(first)),
                format_args!("{:?}", shape(other)),
            ));
        }
        let mut v = vec![0.0; first.state.v.len()];
        let mut b = vec![0.0; first.outputs()];
        let averaging = parts.iter().all(|(_, w)| w.state.scale.averages());
        let (mut u, mut ub) = match averaging {
            true => (v.clone(), b.clone()),
            false => (Vec::new(), Vec::new()),
        };
        for (c, part) in parts {
            let w = &part.state;
            let scale = c * w.scale.a;
            v.iter_mut().zip(&w.v).for_each(|(sum, v)| *sum += scale * v.to_f64());
            b.iter_mut().zip(&w.b).for_each(|(sum, b)| *sum += scale * b);
            // With A = 0 and weights of sum 1, the mean is -u.
            let mean = |v: f64, u: f64| c * w.scale.mean(v, u);
            for (sum, (v, u)) in u.iter_mut().zip(w.v.iter().zip(&w.u)) {
                *sum -= mean(v.to_f64(), *u);
            }
            for (sum, (b, u)) in ub.iter_mut().zip(w.b.iter().zip(&w.ub)) {
                *sum -= mean(*b, *u);
            }
        }
        let state = LinearState {
            v: v.into_iter().map(S::from_f64).collect(),
            b,
            constant: first.state.constant,
            scale: Scaled { sum_q: if averaging { 1.0 } else { 0.0 }, ..Scaled::default() },
            u,
            ub,
        };
        Ok(Linear::measured(first.n_features, state))
    }
}
