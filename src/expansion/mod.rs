//! Kernel hypotheses: each output a sum of kernel functions around support vectors.
//!
//! * Form: `w_o = a sum_s v_so phi(z_s)`. With plain Pegasos `a = 1/(lambda t)` and, for the hinge loss
//!   without weights, `v_so` is y times the number of times that `z_s` has violated the margin: the
//!   violation counts of kernel Pegasos (Shalev-Shwartz et al. 2011, section 4; Stratos' notes, section 3).
//! * Carried: `a`, `||sum v phi||^2`, and, when averaging, `A` and `u`: see [`Scaled`].
//! * Look-ahead: the kernel values of the next [`PANEL`] rows with all support vectors are one matrix
//!   product, in parallel; they and the kernel values among the rows of the panel are all that the next
//!   [`PANEL`] steps need. As steps change coefficients, the scores of the panel are corrected. The
//!   result is that of scoring one row at a time, up to rounding.
//! * Cost: of a row O(n_sv (features + outputs)), less where few coefficients differ from 0, as with pairs of many classes: then
//!   of these, picked out, and O(n_sv features). Of a step with a coefficient O(PANEL outputs) more. Memory: O(features +
//!   outputs) a support vector, of more than 32 outputs O(features + coefficients that there are), [`PANEL`]^2 kernel values,
//!   and as many as [`cache_kernel`](Expansion::cache_kernel) allows.
//! * Determinism: every number is computed by one thread, and summed in an order that depends on the data
//!   alone; threads change no bit.
//! * Differs from the papers: none in the step. The margin is tested with w_t, as in the linear case; the
//!   notes' kernel version tests with `1/(lambda t)` in place of `1/(lambda (t - 1))`.

mod cache;
mod coefs;
mod gradient;
mod panel;
mod scoring;
mod state;
mod union;

use std::sync::OnceLock;

use crate::data::{Dense, Matrix, Row, same_features};
use crate::error::Error;
use crate::hypothesis::{Hypothesis, check_shape};
use crate::kernel::Kernel;
use crate::memory;
use crate::scalar::Scalar;
use crate::scaled::Scaled;
use crate::vectors::{CHUNK, Layout, Vectors};
use cache::Cache;
use coefs::Coefs;
pub use gradient::Agop;
use panel::Panel;
use scoring::{Laid, sum_chunk};
pub use state::ExpansionState;

/// Rows scored together. The larger, the fewer passes over the support vectors; the smaller, the fewer
/// kernel values among the rows themselves.
pub const PANEL: usize = 96;

/// Whether scores and norms stay within the range of the scalar where the magnitudes of coefficients sum to `reach`
/// and the squared norms of rows do not exceed `norm2`.
pub(crate) fn stays_within<S: Scalar>(kernel: Kernel, norm2: f64, raise: f64, reach: f64) -> bool {
    let (most, rows_fit) = (kernel.most(norm2) + raise, 4.0 * norm2 <= S::LARGEST);
    let norm2 = reach * reach * most;
    // False for NaN too.
    let scores_fit = reach * most.max(1.0) <= S::LARGEST;
    rows_fit && scores_fit && norm2 <= f64::LARGEST && norm2.sqrt() <= S::LARGEST
}

/// The square of a constant feature, where that is one.
pub(crate) fn check_constant(constant: f64) -> Result<f64, Error> {
    let square = constant * constant;
    if !(constant >= 0.0 && square.is_finite()) {
        return Err(Error::parameter("constant", constant, ">= 0 and finite"));
    }
    Ok(square)
}

const NOWHERE: u32 = u32::MAX;

/// Coefficients of support vectors for each output.
///
/// ```
/// use pegasos::{Dense, Expansion, Hypothesis, Kernel};
///
/// let x = Dense::new(&[0.0, 0.0, 1.0, 1.0_f64], 2, 2)?;
/// let mut w = Expansion::new(Kernel::Rbf { gamma: 0.5 }, 1, 2)?;
/// w.add(0, x.row(0), &[3.0]);
/// let mut score = [0.0];
/// w.score(x.row(1), &mut score);
/// assert!((score[0] - 3.0 * (-1.0_f64).exp()).abs() < 1e-15);
/// assert_eq!(w.norm2(), 9.0);
/// # Ok::<(), pegasos::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Expansion<S> {
    kernel: Kernel,
    outputs: usize,
    vectors: Vectors<S>,
    /// The square of the constant feature, which all kernel values are larger by. It is added to sums of them, not to each:
    /// in f32 a kernel value near 1 would lose digits to it, and coefficients that pull both ways would multiply the loss.
    raise: f64,
    /// `v`, and `u` of the lazy average once an iterate was counted.
    coefs: Coefs<S>,
    /// The sum of v of each output, where it has been asked for since v changed.
    totals: OnceLock<Vec<f64>>,
    /// The coefficients as products with kernel values want them, where they stand otherwise and have been asked for since v
    /// changed.
    laid: OnceLock<Laid<S>>,
    scale: Scaled,
    /// How often each vector was added.
    counts: Vec<u32>,
    /// Of the rows of the one matrix that all vectors are rows of: in which slot each stands.
    slots: Option<Vec<u32>>,
    /// Which row of that matrix each vector is.
    rows: Vec<u32>,
    panel: Panel<S>,
    cache: Cache<S>,
    /// Whether somebody has vouched for the kernel.
    vouched: bool,
}

impl<S: Scalar> Expansion<S> {
    /// None yet, of rows of `n_features` features; with [`Kernel::Precomputed`] these are kernel values.
    pub fn new(kernel: Kernel, outputs: usize, n_features: usize) -> Result<Self, Error> {
        Expansion::with(kernel, outputs, n_features, Layout::Dense)
    }

    /// None yet, of sparse rows: of many features, only those that are not 0 are stored.
    pub fn sparse(kernel: Kernel, outputs: usize, n_features: usize) -> Result<Self, Error> {
        Expansion::with(kernel, outputs, n_features, Layout::Sparse)
    }

    /// None yet, in this layout.
    pub(crate) fn with(
        kernel: Kernel,
        outputs: usize,
        n_features: usize,
        layout: Layout,
    ) -> Result<Self, Error> {
        kernel.check()?;
        check_shape(outputs, n_features)?;
        let layout = if kernel == Kernel::Precomputed { Layout::Columns } else { layout };
        let vectors = Vectors::new(n_features, layout);
        let panel = Panel::new(&vectors, outputs);
        Ok(Expansion {
            kernel,
            outputs,
            vectors,
            raise: 0.0,
            coefs: Coefs::new(outputs),
            totals: OnceLock::new(),
            laid: OnceLock::new(),
            scale: Scaled::default(),
            counts: Vec::new(),
            slots: None,
            rows: Vec::new(),
            panel,
            cache: Cache::default(),
            vouched: false,
        })
    }

    /// Gives every output an intercept, where there are no vectors yet: the weight of a feature of this value
    /// that all images have (`intercept_scaling` in Python; 0 for none), which is part of w and regularised as the rest of
    /// it. So all kernel values are larger by the square of the constant.
    ///
    /// ```
    /// use pegasos::{Dense, Expansion, Hypothesis, Kernel};
    ///
    /// let x = Dense::new(&[0.0, 1e3_f64], 2, 1)?;
    /// let mut w = Expansion::new(Kernel::Rbf { gamma: 1.0 }, 1, 1)?.with_constant(2.0)?;
    /// w.add(0, x.row(0), &[0.5]);
    /// let mut score = [0.0];
    /// w.score(x.row(1), &mut score);
    /// // The kernel's own value is 0 so far away.
    /// assert_eq!((score, w.norm2()), ([2.0], 1.25));
    /// # Ok::<(), pegasos::Error>(())
    /// ```
    pub fn with_constant(mut self, constant: f64) -> Result<Self, Error> {
        let raise = check_constant(constant)?;
        if self.n_vectors() > 0 {
            return Err(Error::shape("w", "no support vectors yet", self.n_vectors()));
        }
        self.raise = raise;
        Ok(self)
    }

    /// The value of the constant feature, 0 where there is no intercept.
    pub fn constant(&self) -> f64 {
        self.raise.sqrt()
    }

    /// Says that kernel values which rows hold already are those of a kernel that is positive semi-definite, so
    /// that certificates are to be had. Nothing checks it: who is wrong gets certificates that are.
    pub fn assume_positive(&mut self) {
        self.vouched = true;
    }

    /// From here on all rows are those of one matrix of `n_rows` rows: one that is added again raises its
    /// coefficients instead of becoming another vector. Refuses hypotheses that have vectors already.
    pub fn number_rows(&mut self, n_rows: usize) -> Result<(), Error> {
        if self.n_vectors() > 0 || n_rows >= NOWHERE as usize {
            return Err(Error::shape(
                "w",
                "no support vectors yet, and fewer than 2^32 rows to come",
                format_args!("{} and {n_rows}", self.n_vectors()),
            ));
        }
        memory::check::<u32>("the numbers of rows", &[n_rows])?;
        self.slots = Some(vec![NOWHERE; n_rows]);
        Ok(())
    }

    /// The matrix is no longer the same: what is added from here on are other rows.
    pub fn forget_rows(&mut self) {
        self.slots = None;
        self.rows.clear();
        self.cache = Cache::default();
    }

    /// The matrix that all vectors are rows of, as [`number_rows`](Expansion::number_rows) has them, is here again, after it may
    /// have been gone. Refuses one that is shorter, and a w that knows no numbers of its vectors. O(n_rows).
    pub fn meet_rows_again(&mut self, n_rows: usize) -> Result<(), Error> {
        if self.rows.len() != self.n_vectors() {
            return Err(Error::shape("w", "numbers of the rows that it is made of", "none"));
        }
        if let Some(&row) = self.rows.iter().find(|&&row| row as usize >= n_rows) {
            return Err(Error::index("support", row, n_rows));
        }
        memory::check::<u32>("the numbers of rows", &[n_rows])?;
        let mut slots = vec![NOWHERE; n_rows];
        (0..).zip(&self.rows).for_each(|(slot, &row)| slots[row as usize] = slot);
        self.slots = Some(slots);
        Ok(())
    }

    /// Caches kernel values for later epochs, in so many bytes at most; none, and forgets those that there
    /// are, for 0. Needs [`number_rows`](Expansion::number_rows). A copy starts without.
    pub fn cache_kernel(&mut self, bytes: usize) {
        let rows = self.slots.as_ref().filter(|_| bytes > 0);
        self.cache = rows.map_or_else(Cache::default, |slots| Cache::new(slots.len(), bytes));
    }

    /// How many vectors there are.
    pub fn n_vectors(&self) -> usize {
        self.vectors.len()
    }

    /// How many features a row has.
    pub fn n_features(&self) -> usize {
        self.vectors.n_features()
    }

    /// The kernel.
    pub fn kernel(&self) -> Kernel {
        self.kernel
    }

    /// How often each vector was added: the violation counts.
    pub fn counts(&self) -> &[u32] {
        &self.counts
    }

    /// Which row of the one matrix each vector is, if there is one.
    pub fn rows(&self) -> Option<&[u32]> {
        self.slots.as_ref().map(|_| &self.rows[..])
    }

    /// None yet, in the same layout.
    pub(crate) fn no_vectors(&self) -> Vectors<S> {
        self.vectors.empty()
    }

    /// The coefficients of a vector, the scale folded in: a column of `dual_coef_` in Python.
    ///
    /// # Panics
    /// May panic where there are not so many vectors, or more numbers in `out` than outputs; so may all that looks at a vector.
    pub fn coef(&self, slot: usize, out: &mut [f64]) {
        out.fill(0.0);
        self.coefs.for_each(slot, |o, v, _| {
            if let Some(out) = out.get_mut(o) {
                *out = self.scale.a * v.to_f64();
            }
        });
    }

    /// Calls `f(output, coefficient)` for every coefficient of a vector that is not 0, in the order of the outputs.
    ///
    /// # Panics
    /// As [`coef`](Expansion::coef).
    pub fn for_each_coef(&self, slot: usize, mut f: impl FnMut(usize, f64)) {
        self.coefs.for_each(slot, |o, v, _| {
            if v != S::default() {
                f(o, self.scale.a * v.to_f64());
            }
        });
    }

    /// Writes the features of a vector. With [`Kernel::Precomputed`] a 1 at the column that it is.
    ///
    /// # Panics
    /// As [`coef`](Expansion::coef), and where `out` has fewer numbers than features.
    pub fn vector(&self, slot: usize, out: &mut [S]) {
        self.vectors.write(slot, out);
    }

    /// Calls `f(column, value)` for every feature of a vector that is not 0, in ascending order if the
    /// row's was.
    ///
    /// # Panics
    /// As [`coef`](Expansion::coef).
    pub fn for_each(&self, slot: usize, f: impl FnMut(usize, S)) {
        self.vectors.for_each(slot, f);
    }

    /// Appends a row with its coefficients, those that are not 0 with their outputs; returns its slot. `set_norm2` must follow.
    pub(crate) fn put(
        &mut self,
        i: usize,
        x: Row<'_, S>,
        coef: impl IntoIterator<Item = (usize, f64)>,
    ) -> usize {
        // What was made of v is gone with this.
        let slot = self.append(i, x);
        let coef = coef.into_iter();
        self.coefs.reserve_of(slot, coef.size_hint().0);
        for (o, coef) in coef {
            self.coefs.set(slot, o, S::from_f64(coef / self.scale.a), 0.0);
        }
        slot
    }

    /// Says what `||w||^2` is.
    pub(crate) fn set_norm2(&mut self, norm2: f64) {
        self.scale.norm2 = norm2 / (self.scale.a * self.scale.a);
    }

    fn coefs_mut(&mut self) -> &mut Coefs<S> {
        self.totals.take();
        self.laid.take();
        &mut self.coefs
    }

    /// `k(x, x)`.
    fn self_kernel(&self, i: usize, x: Row<'_, S>) -> f64 {
        if self.vectors.are_columns() {
            let mut own = [S::default()];
            x.pick(&[i], &mut own);
            return own[0].to_f64() + self.raise;
        }
        let norm2 = x.norm2();
        self.kernel.own(norm2) + self.raise
    }

    /// Adds to the coefficients of a row, which stands at `place` in the panel if it does.
    fn add_row(&mut self, place: Option<usize>, i: usize, x: Row<'_, S>, coef: &[f64]) {
        if coef.iter().all(|&c| c == 0.0) {
            return;
        }
        let panel = &self.panel;
        // Its scores, over a, and its kernel values with the rows of the panel and with itself.
        let mut beside = Vec::new();
        let (scores, kxx) = match place {
            Some(p) => {
                beside.extend_from_slice(panel.beside(p));
                (panel.scores_of(p).to_vec(), beside[p].to_f64() + self.raise)
            }
            None => {
                panel.beside_other(self.kernel, x, &mut beside);
                let mut scores = vec![0.0; self.outputs];
                self.score(x, &mut scores);
                scores.iter_mut().for_each(|score| *score /= self.scale.a);
                (scores, self.self_kernel(i, x))
            }
        };
        let slot = match self.slots.as_ref().and_then(|slots| slots.get(i).copied()) {
            Some(slot) if slot != NOWHERE => slot as usize,
            _ => self.append(i, x),
        };
        self.counts[slot] = self.counts[slot].saturating_add(1);
        for (o, coef) in coef.iter().enumerate().filter(|(_, c)| **c != 0.0) {
            let change = self.increase(slot, o, coef / self.scale.a, scores[o], kxx);
            self.panel.lift(o, change, &beside, self.raise);
        }
    }

    /// Another vector with these coefficients and this squared norm; what is carried of the norm of w is lost.
    pub(crate) fn append_vector(&mut self, x: Row<'_, S>, coef: &[f64], norm: S) {
        let coef = coef.iter().copied().enumerate().filter(|(_, c)| *c != 0.0);
        let slot = self.put(self.n_vectors(), x, coef);
        self.vectors.set_norm(slot, norm);
        self.scale.norm2 = f64::NAN;
    }

    /// A new slot for this row.
    fn append(&mut self, i: usize, x: Row<'_, S>) -> usize {
        let slot = self.vectors.len();
        self.vectors.push(i, x);
        self.counts.push(0);
        if let Some(slots) = &mut self.slots {
            if let Some(place) = slots.get_mut(i) {
                *place = slot as u32;
            }
            self.rows.push(i as u32);
        }
        self.coefs_mut().push();
        slot
    }

    /// Makes room for so many more vectors, with so many coefficients other than 0 together at most.
    pub(crate) fn reserve(&mut self, more: usize, coefs: usize) -> Result<(), Error> {
        self.vectors.reserve(more)?;
        self.panel.check_room(more)?;
        self.coefs.reserve(more, coefs)?;
        let vectors = self.vectors.len() + more;
        memory::reserve("the counts", &mut self.counts, vectors)?;
        memory::reserve("the numbers of rows", &mut self.rows, vectors)
    }

    /// `v += c`; returns by how much it really rose. `score` is that of the row before, over a.
    fn increase(&mut self, slot: usize, output: usize, c: f64, score: f64, kxx: f64) -> f64 {
        let sum_a = self.scale.sum_a;
        let change = self.coefs_mut().raise(slot, output, c, sum_a);
        self.scale.norm2 += change * (2.0 * score + change * kxx);
        change
    }

    /// Computes the norm of what nothing was carried of, as of a mean, so that it can learn on: O(n_sv^2).
    pub(crate) fn measure(&mut self) {
        if self.scale.norm2.is_nan() {
            self.scale.norm2 = self.square() / (self.scale.a * self.scale.a);
        }
    }

    /// `||w||^2` from all pairs of vectors; NaN where they are columns, which know no kernel values.
    fn square(&self) -> f64 {
        let (n, d) = (self.n_vectors(), self.n_features());
        if self.vectors.are_columns() {
            return f64::NAN;
        }
        let mut sum = 0.0;
        let mut coef = vec![0.0; self.outputs];
        for start in (0..n).step_by(PANEL) {
            let numbers: Vec<usize> = (0..PANEL.min(n - start)).collect();
            let mut features = vec![S::default(); numbers.len() * d];
            for (k, row) in features.chunks_mut(d).enumerate() {
                self.vectors.write(start + k, row);
            }
            let Ok(rows) = Dense::new(&features, numbers.len(), d) else {
                return f64::NAN;
            };
            let mut scores = vec![0.0; numbers.len() * self.outputs];
            self.scores(&rows.into(), &numbers, &mut scores);
            for (k, scores) in scores.chunks(self.outputs).enumerate() {
                self.coef(start + k, &mut coef);
                sum += coef.iter().zip(scores).map(|(c, s)| c * s).sum::<f64>();
            }
        }
        sum
    }
}

impl<S: Scalar> Hypothesis for Expansion<S> {
    const KEEPS_ROWS: bool = true;
    type Scalar = S;

    fn outputs(&self) -> usize {
        self.outputs
    }

    fn check_features(&self, n_features: usize) -> Result<(), Error> {
        same_features(self.n_features(), n_features)
    }

    fn score(&self, x: Row<'_, S>, out: &mut [f64]) {
        let mut values = Vec::new();
        self.vectors.kernel_values_of(self.kernel, x, &mut values);
        self.begin(out);
        match self.laid() {
            Ok(v) => {
                let mut sums = vec![0.0; self.outputs];
                for (chunk, values) in values.chunks(CHUNK).enumerate() {
                    sum_chunk(v, chunk, values, &mut sums);
                    out.iter_mut().zip(&sums).for_each(|(out, sum)| *out += sum);
                }
            }
            Err(rare) => {
                let chunks: Vec<Vec<&[S]>> = values.chunks(CHUNK).map(|own| vec![own]).collect();
                rare.add(&chunks, out);
            }
        }
        out.iter_mut().for_each(|score| *score *= self.scale.a);
    }

    fn scores(&self, x: &Matrix<'_, S>, rows: &[usize], out: &mut [f64]) {
        for (rows, out) in rows.chunks(PANEL).zip(out.chunks_mut(PANEL * self.outputs)) {
            self.score_rows(x, rows, false, out);
            out.iter_mut().for_each(|score| *score *= self.scale.a);
        }
    }

    fn panel(&self) -> usize {
        if self.panel.rows.is_over() { PANEL } else { 0 }
    }

    fn is_positive(&self) -> bool {
        self.kernel.is_positive() || self.vouched
    }

    fn check_copy(&self) -> Result<(), Error> {
        self.vectors.check_copy()?;
        self.coefs.check_copy()
    }

    fn survives(&self, norm2: f64, total: f64) -> bool {
        let norm2 = self.vectors.largest_norm2().max(norm2);
        let mut reach = 0.0;
        self.coefs.for_all(|v| reach += v.to_f64().abs());
        let reach = reach + total;
        stays_within::<S>(self.kernel, norm2, self.raise, reach)
    }

    fn look_ahead(&mut self, x: &Matrix<'_, S>, rows: &[usize]) -> Result<(), Error> {
        self.reserve(rows.len(), rows.len().saturating_mul(self.outputs))?;
        let mut scores = self.panel.take_scores(rows.len());
        let computed = self.score_rows(x, rows, true, &mut scores);
        self.cache.extend(computed);
        self.panel.look_ahead(self.kernel, x, rows, scores);
        Ok(())
    }

    fn score_next(&mut self, i: usize, x: Row<'_, S>, out: &mut [f64]) {
        let Some(place) = self.panel.rows.next(i) else {
            return self.score(x, out);
        };
        out.iter_mut()
            .zip(self.panel.scores_of(place))
            .for_each(|(out, score)| *out = self.scale.a * score);
    }

    fn add(&mut self, i: usize, x: Row<'_, S>, coef: &[f64]) {
        let place = self.panel.rows.place(i);
        self.add_row(place, i, x, coef);
    }

    fn add_late(&mut self, i: usize, x: Row<'_, S>, coef: &[f64]) {
        match self.slots {
            Some(_) => self.add(i, x, coef),
            // The number may be that of another row by now.
            None => self.add_row(None, i, x, coef),
        }
    }

    fn gradient_norm(&self, i: usize, x: Row<'_, S>, coef: &[f64]) -> f64 {
        (self.self_kernel(i, x) * coef.iter().map(|c| c * c).sum::<f64>()).sqrt()
    }

    /// Who learns on carries it along, so it must be known.
    fn carry_norm(&mut self, _wanted: bool) {
        self.measure();
    }

    /// Of kernels that are not positive a norm may be 0, or less, where w is not.
    fn is_zero(&self) -> bool {
        let mut zero = true;
        self.coefs.for_all(|v| zero &= v == S::default());
        zero
    }

    /// Carried, like [`norm2`](Hypothesis::norm2), but of a mean, of which nothing was carried: O(n_sv^2).
    fn norm2_afresh(&self) -> f64 {
        if self.scale.norm2.is_nan() { self.square() } else { self.norm2() }
    }

    fn share(&self, i: usize, scores: &[f64]) -> Option<f64> {
        let slot = *self.slots.as_ref()?.get(i)?;
        if slot == NOWHERE {
            return Some(0.0);
        }
        let mut share = 0.0;
        self.coefs
            .for_each(slot as usize, |o, v, _| share += self.scale.a * v.to_f64() * scores[o]);
        Some(share)
    }

    fn scaled(&self) -> &Scaled {
        &self.scale
    }

    fn scaled_mut(&mut self) -> &mut Scaled {
        &mut self.scale
    }

    fn fold(&mut self, a: f64) {
        let fold = self.scale.fold(a);
        self.coefs_mut().fold(&fold);
        self.panel.scale(fold.c);
    }

    fn average(&mut self, weight: f64) {
        self.coefs.average(true);
        self.scale.average(weight);
    }

    fn set_average_weight(&mut self, sum: f64) {
        let c = self.scale.reweigh(sum);
        self.coefs.scale_averages(c);
        if !self.scale.averages() {
            self.coefs.average(false);
        }
    }

    fn mean(&self) -> Option<Self> {
        if !self.scale.averages() {
            return None;
        }
        let mut mean = self.clone();
        mean.panel = Panel::new(&self.vectors, self.outputs);
        let coefs = std::mem::replace(mean.coefs_mut(), Coefs::new(self.outputs));
        mean.coefs = coefs.into_means(&self.scale);
        mean.scale = Scaled { norm2: f64::NAN, ..Scaled::default() };
        Some(mean)
    }
}
