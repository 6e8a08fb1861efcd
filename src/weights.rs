//! A number for every output and feature: weights, and what their averages are made of.
//!
//! * Output after output, for dense rows: the products of a row are with vectors in one piece.
//! * Feature after feature, for several outputs and sparse rows: a stored feature is one place in memory, not one for each
//!   output, and the arithmetic is on vectors of outputs. The outputs of a feature are filled up with zeros, to 4 or 8 or a
//!   multiple of 16, so that no feature has more lines of a cache than it must. Of more than 16, up to 8 that are left over
//!   from full lines stand behind all others, feature after feature by themselves: 20 classes in f32 are 80 bytes of a
//!   feature, not 128, and one line of a cache and the fourth part of another, not two. An epoch over rows of 74 of 2^17
//!   features takes 0.88 to 0.92 of the time so on an Intel Xeon (2 MB of L2).
//! * Either way the same numbers come out, to the last bit: each output's sum runs over the features in the same order.

use crate::data::{Matrix, NEAR, Row};
use crate::error::Error;
use crate::memory;
use crate::scalar::Scalar;
use crate::simd::{self, Lanes, WIDTH, Weigh};

/// How many features of a sparse row the next row's should not wait for, where asking for numbers pays at all.
const SEEN: usize = 96;

/// A number for every output and feature.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Weights<S> {
    outputs: usize,
    n_features: usize,
    form: Form<S>,
}

#[derive(Clone, Debug, PartialEq)]
enum Form<S> {
    ByOutput(Vec<S>),
    ByFeature(Features<S>),
}

#[derive(Clone, Debug, PartialEq)]
struct Features<S> {
    /// Those of the first outputs, and from `rest_from` on those of the rest. The last lanes are filled up.
    lanes: Vec<Lanes<S>>,
    strides: Strides,
    rest_from: usize,
    len: usize,
}

impl<S: Scalar> Features<S> {
    /// Zeros.
    fn new(strides: Strides, n_features: usize) -> Result<Self, Error> {
        let rest_from = strides.first.saturating_mul(n_features);
        let len = rest_from.saturating_add(strides.rest.saturating_mul(n_features));
        let lanes = len.div_ceil(WIDTH);
        memory::check::<Lanes<S>>("w, feature after feature", &[lanes])?;
        let lanes = vec![Lanes([S::default(); WIDTH]); lanes];
        Ok(Features { lanes, strides, rest_from, len })
    }

    #[inline(always)]
    fn all(&self) -> &[S] {
        &Lanes::flatten(&self.lanes)[..self.len]
    }

    #[inline(always)]
    fn all_mut(&mut self) -> &mut [S] {
        &mut Lanes::flatten_mut(&mut self.lanes)[..self.len]
    }

    /// The numbers of the first outputs, and of the rest.
    #[inline(always)]
    fn parts(&self) -> (&[S], &[S]) {
        self.all().split_at(self.rest_from)
    }

    #[inline(always)]
    fn parts_mut(&mut self) -> (&mut [S], &mut [S]) {
        let rest_from = self.rest_from;
        self.all_mut().split_at_mut(rest_from)
    }

    /// The numbers among which those of an output are, how many of these a feature has, and which one is the output's.
    fn of(&self, o: usize) -> (&[S], usize, usize) {
        let ((first, rest), strides) = (self.parts(), self.strides);
        match o.checked_sub(strides.first) {
            None => (first, strides.first, o),
            Some(at) => (rest, strides.rest, at),
        }
    }

    /// Where the number of an output and a feature stands; far outside where there is no such feature.
    #[inline(always)]
    fn place(&self, o: usize, j: usize) -> usize {
        let Strides { first, rest } = self.strides;
        if o < first {
            let at = j.saturating_mul(first).saturating_add(o);
            if at < self.rest_from { at } else { usize::MAX }
        } else {
            j.saturating_mul(rest).saturating_add(self.rest_from + (o - first))
        }
    }
}

/// What the numbers of a feature take: those of the first outputs, and those of the rest, 0 where there is none.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Strides {
    first: usize,
    rest: usize,
}

impl Strides {
    fn of(outputs: usize) -> Self {
        match (outputs, outputs % 16) {
            (..=16, _) => Strides { first: outputs.next_power_of_two().max(4), rest: 0 },
            (_, over @ 1..=8) => {
                Strides { first: outputs - over, rest: over.next_power_of_two().max(4) }
            }
            _ => Strides { first: outputs.next_multiple_of(16), rest: 0 },
        }
    }
}

/// Rows, and outputs, that are multiplied at a time.
const AT_A_TIME: usize = 24;

impl<S: Scalar> Weights<S> {
    /// Output after output. There must be as many as that.
    pub(crate) fn new(values: Vec<S>, outputs: usize, n_features: usize) -> Self {
        debug_assert_eq!(values.len(), outputs * n_features);
        Weights { outputs, n_features, form: Form::ByOutput(values) }
    }

    /// Zeros, that stand as the numbers of another.
    pub(crate) fn like<T: Scalar>(other: &Weights<T>) -> Self {
        let form = match &other.form {
            Form::ByOutput(values) => Form::ByOutput(vec![S::default(); values.len()]),
            Form::ByFeature(Features { lanes, strides, rest_from, len }) => {
                Form::ByFeature(Features {
                    lanes: vec![Lanes([S::default(); WIDTH]); lanes.len()],
                    strides: *strides,
                    rest_from: *rest_from,
                    len: *len,
                })
            }
        };
        Weights { outputs: other.outputs, n_features: other.n_features, form }
    }

    pub(crate) fn n_features(&self) -> usize {
        self.n_features
    }

    /// How many numbers there are, those that fill up not counted.
    pub(crate) fn len(&self) -> usize {
        self.outputs * self.n_features
    }

    /// All numbers as they stand, and zeros that fill up.
    #[inline(always)]
    pub(crate) fn all(&self) -> &[S] {
        match &self.form {
            Form::ByOutput(values) => values,
            Form::ByFeature(features) => features.all(),
        }
    }

    /// [`all`](Weights::all), to be changed: zeros that fill up must stay.
    #[inline(always)]
    pub(crate) fn all_mut(&mut self) -> &mut [S] {
        match &mut self.form {
            Form::ByOutput(values) => values,
            Form::ByFeature(features) => features.all_mut(),
        }
    }

    /// Whether two stand in the same way, so that [`all`](Weights::all) of both are of the same outputs and features.
    pub(crate) fn stands_as(&self, other: &Self) -> bool {
        self.is_by_feature() == other.is_by_feature()
    }

    pub(crate) fn is_by_feature(&self) -> bool {
        matches!(self.form, Form::ByFeature(..))
    }

    /// Calls `f(output, feature, number)` for all numbers.
    pub(crate) fn for_each(&self, mut f: impl FnMut(usize, usize, S)) {
        match &self.form {
            Form::ByOutput(values) => {
                for (o, values) in values.chunks(self.n_features).enumerate() {
                    values.iter().enumerate().for_each(|(j, value)| f(o, j, *value));
                }
            }
            Form::ByFeature(features) => {
                let first = self.outputs.min(features.strides.first);
                for outputs in [0..first, first..self.outputs] {
                    if outputs.is_empty() {
                        continue;
                    }
                    let (values, stride, _) = features.of(outputs.start);
                    for (j, values) in values.chunks(stride).enumerate() {
                        outputs.clone().zip(values).for_each(|(o, value)| f(o, j, *value));
                    }
                }
            }
        }
    }

    /// Output after output.
    pub(crate) fn to_vec(&self) -> Vec<S> {
        if let Form::ByOutput(values) = &self.form {
            return values.clone();
        }
        let mut out = vec![S::default(); self.len()];
        self.for_each(|o, j, value| out[o * self.n_features + j] = value);
        out
    }

    /// The numbers of one output.
    pub(crate) fn of_output(&self, o: usize) -> Vec<S> {
        match &self.form {
            Form::ByOutput(values) => {
                values[o * self.n_features..(o + 1) * self.n_features].to_vec()
            }
            Form::ByFeature(features) => {
                let (values, stride, at) = features.of(o);
                values.chunks(stride).map(|values| values[at]).collect()
            }
        }
    }

    /// Those of some features alone, in this order; they stand as here.
    ///
    /// # Panics
    /// If there is no such feature.
    pub(crate) fn of_features(&self, some: &[u32]) -> Result<Self, Error> {
        let len = some.len();
        let form = match &self.form {
            Form::ByOutput(all) => {
                let mut values = memory::zeros("some weights", &[self.outputs, len])?;
                for (all, out) in all.chunks(self.n_features).zip(values.chunks_mut(len)) {
                    out.iter_mut().zip(some).for_each(|(out, &j)| *out = all[j as usize]);
                }
                Form::ByOutput(values)
            }
            Form::ByFeature(all) => {
                let mut features = Features::new(all.strides, len)?;
                let (first, rest) = features.parts_mut();
                let pairs = [
                    (first, all.parts().0, all.strides.first),
                    (rest, all.parts().1, all.strides.rest),
                ];
                for (out, all, stride) in pairs.into_iter().filter(|(.., stride)| *stride > 0) {
                    for (out, &j) in out.chunks_mut(stride).zip(some) {
                        out.copy_from_slice(&all[j as usize * stride..][..stride]);
                    }
                }
                Form::ByFeature(features)
            }
        };
        Ok(Weights { outputs: self.outputs, n_features: len, form })
    }

    /// Makes them stand feature after feature, or output after output; `zero` says that all are 0. O(size), unless they
    /// stand so already.
    pub(crate) fn lay_out(&mut self, by_feature: bool, zero: bool) -> Result<(), Error> {
        if by_feature == self.is_by_feature() {
            return Ok(());
        }
        let form = if by_feature {
            let mut features = Features::new(Strides::of(self.outputs), self.n_features)?;
            if !zero {
                self.for_each(|o, j, value| {
                    let at = features.place(o, j);
                    features.all_mut()[at] = value;
                });
            }
            Form::ByFeature(features)
        } else {
            memory::check::<S>("w, output after output", &[self.len()])?;
            Form::ByOutput(self.to_vec())
        };
        self.form = form;
        Ok(())
    }

    /// Whether to [`expect`](Weights::expect) rows of this matrix.
    ///
    /// Where each feature's number is one line of a cache, out-of-order execution asks for them about as early as we could. On
    /// an AMD EPYC an epoch without asking takes 0.62 to 0.69 of the time on rows of 345 of 385,517 features f32, 0.91 to 0.96
    /// on 44 words of 2^20, 0.97 to 1.03 on random columns. On an Intel Xeon (2 MB of L2) it sees about 100 features ahead: an
    /// epoch that asks takes 1.0 to 1.2 of the time where the numbers are 1.5 MB and less; where they are 4 MB 0.89 to 1.0 on
    /// rows of 43 to 64, 0.98 to 1.04 on 96 and 128, 1.1 and more on 180 and 345; of 16 MB 0.75 to 0.77 on 43, 0.85 to 0.92 on
    /// 96 and 128, 0.97 to 1.2 on 180 and 250.
    ///
    /// The numbers of several outputs are several lines: without asking 1.2 to 1.7 times the time with 20 classes on the EPYC.
    pub(crate) fn expects<T: Scalar>(&self, x: &Matrix<'_, T>) -> bool {
        let far = match (self.outputs, simd::second_cache_of_intel()) {
            (1, Some(near)) if x.stored_in_a_row() <= SEEN => near,
            (1, _) => return false,
            _ => NEAR,
        };
        x.is_sparse() && size_of_val(self.all()) > far
    }

    /// Asks memory for the numbers that a sparse row needs.
    #[inline(always)]
    pub(crate) fn expect<T: Scalar>(&self, x: Row<'_, T>) {
        match &self.form {
            Form::ByOutput(values) => x.prefetch_weights(values, 1),
            Form::ByFeature(features) => {
                let ((first, rest), strides) = (features.parts(), features.strides);
                x.prefetch_weights(first, strides.first);
                if strides.rest > 0 {
                    x.prefetch_weights(rest, strides.rest);
                }
            }
        }
    }

    /// Writes the product of a row with the numbers of each output.
    #[inline(always)]
    pub(crate) fn dots<T: Scalar + Weigh<S>>(&self, x: Row<'_, T>, out: &mut [f64]) {
        match (&self.form, &mut *out) {
            (Form::ByOutput(values), [only]) => *only = x.dot(values),
            (Form::ByOutput(values), all) => x.dots(values, self.n_features, all),
            (Form::ByFeature(features), all) => {
                let ((first, rest), strides) = (features.parts(), features.strides);
                let (of_first, of_rest) = all.split_at_mut(all.len().min(strides.first));
                x.dots_by_feature(first, strides.first, of_first);
                if strides.rest > 0 {
                    x.dots_by_feature(rest, strides.rest, of_rest);
                }
            }
        }
    }

    /// What [`dots`](Weights::dots) writes of several outputs for some of them and some dense rows, to the same bits; row after
    /// row in `out`. The numbers must stand output after output.
    pub(crate) fn dots_of_rows<T: Scalar + Weigh<S>>(
        &self,
        x: &Matrix<'_, T>,
        rows: &[usize],
        outputs: &[usize],
        out: &mut [f64],
    ) {
        let Form::ByOutput(values) = &self.form else {
            unreachable!("weights that sparse rows want");
        };
        let (d, stride) = (self.n_features, outputs.len());
        for (rows, out) in rows.chunks(AT_A_TIME).zip(out.chunks_mut(AT_A_TIME * stride)) {
            let mut features = [&[][..]; AT_A_TIME];
            for (features, &i) in features.iter_mut().zip(rows) {
                let Row::Dense(x) = x.row(i) else {
                    unreachable!("a sparse row");
                };
                *features = x;
            }
            for (k, outputs) in outputs.chunks(AT_A_TIME).enumerate() {
                let mut w = [&[][..]; AT_A_TIME];
                w.iter_mut().zip(outputs).for_each(|(w, &o)| *w = &values[o * d..(o + 1) * d]);
                let out = &mut out[k * AT_A_TIME..];
                T::dots_of_rows(&features[..rows.len()], &w[..outputs.len()], out, stride);
            }
        }
    }

    /// The product of a row with the numbers of one output.
    #[inline]
    pub(crate) fn dot<T: Scalar + Weigh<S>>(&self, o: usize, x: Row<'_, T>) -> f64 {
        let d = self.n_features;
        match &self.form {
            Form::ByOutput(values) => x.dot(&values[o * d..(o + 1) * d]),
            Form::ByFeature(features) => {
                let mut sum = 0.0;
                x.for_each(|j, x| {
                    let v = features.all().get(features.place(o, j));
                    sum += x * v.map_or(f64::NAN, |v| v.to_f64());
                });
                sum
            }
        }
    }

    /// Adds `c` times a row to the numbers of one output; returns the change of the sum of all squares.
    #[inline(always)]
    pub(crate) fn axpy<T: Scalar + Weigh<S>>(&mut self, o: usize, c: f64, x: Row<'_, T>) -> f64 {
        let d = self.n_features;
        match &mut self.form {
            Form::ByOutput(values) => x.axpy(c, &mut values[o * d..(o + 1) * d]),
            Form::ByFeature(features) => {
                let (mut change, c) = (0.0, S::from_f64(c).to_f64());
                x.for_each(|j, x| {
                    let at = features.place(o, j);
                    if let Some(v) = features.all_mut().get_mut(at) {
                        let old = v.to_f64();
                        // In the scalar, as a product and a sum of whole rows are.
                        *v = S::from_f64(old + S::from_f64(c * x).to_f64());
                        let new = v.to_f64();
                        change += (new - old) * (new + old);
                    }
                });
                change
            }
        }
    }

    /// [`axpy`](Weights::axpy) to the same bits, where nobody asks for the change.
    #[inline(always)]
    pub(crate) fn add_times<T: Scalar + Weigh<S>>(&mut self, o: usize, c: f64, x: Row<'_, T>) {
        let d = self.n_features;
        match &mut self.form {
            Form::ByOutput(values) => x.add_times(c, &mut values[o * d..(o + 1) * d]),
            Form::ByFeature(_) => drop(self.axpy(o, c, x)),
        }
    }

    /// [`axpy`](Weights::axpy) with `coef[o] / a` for every output where the numbers stand feature after feature; `None`,
    /// and nothing done, where they do not.
    #[inline(always)]
    pub(crate) fn axpys<T: Scalar + Weigh<S>>(
        &mut self,
        coef: &[f64],
        a: f64,
        x: Row<'_, T>,
    ) -> Option<f64> {
        match &mut self.form {
            Form::ByOutput(_) => None,
            Form::ByFeature(features) => {
                let strides = features.strides;
                let (of_first, of_rest) = coef.split_at(coef.len().min(strides.first));
                let (first, rest) = features.parts_mut();
                let mut change = x.axpys_by_feature(of_first, a, first, strides.first);
                if strides.rest > 0 {
                    change += x.axpys_by_feature(of_rest, a, rest, strides.rest);
                }
                Some(change)
            }
        }
    }
}

impl Weights<f64> {
    /// Adds `c` times a row to the numbers of one output; columns that there are not are passed over.
    #[inline]
    pub(crate) fn add<T: Scalar>(&mut self, o: usize, c: f64, x: Row<'_, T>) {
        let d = self.n_features;
        match &mut self.form {
            Form::ByOutput(values) => x.add_times(c, &mut values[o * d..(o + 1) * d]),
            Form::ByFeature(features) => {
                x.for_each(|j, x| {
                    let at = features.place(o, j);
                    if let Some(v) = features.all_mut().get_mut(at) {
                        *v += c * x;
                    }
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Csr;

    /// However the numbers stand: the same products and the same sums, bit for bit.
    #[test]
    fn forms_agree() {
        let d = 40;
        let mut state = 7_u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 40) as f32 / (1 << 24) as f32 - 0.5
        };
        for outputs in [1, 2, 3, 4, 5, 8, 9, 16, 17, 20, 24, 25, 40] {
            let values: Vec<f32> = (0..outputs * d).map(|_| uniform()).collect();
            let mut plain = Weights::new(values, outputs, d);
            let mut other = plain.clone();
            other.lay_out(true, false).unwrap();
            assert!(other.is_by_feature() && !other.stands_as(&plain));
            for stored in [0, 1, 3, 4, 7, 22] {
                let indices: Vec<i32> = (0..stored).map(|k| k * 7 % d as i32).collect();
                let x: Vec<f32> = indices.iter().map(|_| uniform()).collect();
                let indptr = [0, stored];
                let x = Csr::new(&indptr, &indices, &x, d).unwrap();
                let (mut a, mut b) = (vec![0.0; outputs], vec![0.0; outputs]);
                plain.dots(x.row(0), &mut a);
                other.dots(x.row(0), &mut b);
                assert_eq!(a, b, "{outputs} {stored}");
                let mut coef: Vec<f64> = (0..outputs).map(|_| f64::from(uniform())).collect();
                coef[outputs / 2] = 0.0;
                let mut change = 0.0;
                for (o, c) in coef.iter().enumerate() {
                    let dot = other.dot(o, x.row(0));
                    assert!((dot - a[o]).abs() < 1e-5, "{outputs} {stored}: {dot} {}", a[o]);
                    change += plain.axpy(o, c / 0.3, x.row(0));
                }
                let at_once = other.axpys(&coef, 0.3, x.row(0)).unwrap();
                assert!((change - at_once).abs() < 1e-4, "{change} {at_once}");
                assert_eq!(plain.to_vec(), other.to_vec(), "{outputs} {stored}");
                change = plain.axpy(outputs - 1, 0.25, x.row(0));
                let one = other.axpy(outputs - 1, 0.25, x.row(0));
                assert!((change - one).abs() < 1e-4, "{change} {one}");
                assert_eq!(plain.to_vec(), other.to_vec(), "{outputs} {stored}");
            }
            for o in 0..outputs {
                assert_eq!(plain.of_output(o), other.of_output(o));
            }
            other.lay_out(false, false).unwrap();
            assert_eq!(plain, other);
        }
    }

    /// Rows that are wrong are noticed, or passed over, either way.
    #[test]
    fn columns_outside_are_nowhere() {
        for outputs in [4, 20] {
            let mut w = Weights::new(vec![1.0_f64; 3 * outputs], outputs, 3);
            w.lay_out(true, false).unwrap();
            for j in [3, i64::MAX, -1, i64::MIN] {
                let x = Row::Sparse64(&[0, j][..], &[1.0, 1.0][..]);
                let mut out = vec![0.0; outputs];
                w.dots(x, &mut out);
                assert!(out.iter().all(|s| s.is_nan()) && w.dot(2, x).is_nan());
                let before = w.to_vec();
                w.axpys(&vec![1.0; outputs], 1.0, x);
                w.axpy(1, 1.0, x);
                let sum = w.to_vec().iter().sum::<f64>() - before.iter().sum::<f64>();
                assert_eq!(sum, outputs as f64 + 1.0);
            }
        }
    }
}
