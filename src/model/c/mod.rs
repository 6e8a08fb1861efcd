//! Models as C: a header of arrays, and of functions that predict with them, for devices that have nothing else.
//!
//! * Numbers are in the scalar of the model, written so that they come back to the last bit; all arithmetic is in it.
//! * Squared distances are sums of squares of differences, which in single precision keep the digits that
//!   `||x||^2 + ||z||^2 - 2 <x, z>` loses where rows are far from the origin.
//! * The intercept of a kernel machine, a part of every kernel value, is summed up beforehand. A linear kernel becomes
//!   weights. Coefficients that are 0, as most are of pairs of classes, are left out if that takes less room.
//! * Labels, which could be any text, stand in string literals alone, escaped; never in a comment.

mod header;
mod texts;

use super::calibration::{Calibration, Map};
use super::steps::Step;
use super::{Model, Net, Scorer};
use crate::error::Error;
use crate::expansion::Expansion;
use crate::frozen::Frozen;
use crate::hypothesis::Hypothesis;
use crate::kernel::Kernel;
use crate::memory;
use crate::metric::Metric;
use crate::scalar::Scalar;

use header::{Header, MOST_SHORT, SHORT};
use texts::*;

impl Model {
    /// The model as a header for C and C++: arrays, and functions that predict with them and need nothing but
    /// `<math.h>` and `<stddef.h>`. They take rows in the scalar of the model, before any scaling:
    ///
    /// ```c
    /// int NAME_predict(const float *x);                    // the number of the class, which NAME_labels[] names
    /// void NAME_scores(const float *x, float *out);        // NAME_OUTPUTS scores: those of Model::scores
    /// void NAME_probabilities(const float *x, float *out); // NAME_CLASSES of them, where the model has them
    /// ```
    ///
    /// The macros `NAME_FEATURES`, `NAME_CLASSES` and `NAME_OUTPUTS` are in capitals. A comment at the top says how
    /// many bytes and multiplications all takes. Support vectors that were sparse rows become dense; probabilities
    /// that are coupled from those of pairs of classes are left out. Time and memory: those of the text, some 14 bytes
    /// for each number in single precision, 22 in double.
    ///
    /// # Errors
    ///
    /// A name that is none in C: it must be a letter and up to 39 letters, digits and underscores. Kernel values that
    /// are precomputed; arrays of more than 16 MiB; labels with a zero byte or of more than 4095 bytes; numbers of a
    /// scaler or a calibration that the scalar cannot hold.
    ///
    /// # Examples
    ///
    /// ```
    /// use pegasos::{Classifier, Dense};
    ///
    /// let x = Dense::new(&[-2.0_f32, -1.0, 1.0, 3.0], 4, 1)?;
    /// let model = Classifier::default().fit(x, &["left", "left", "right", "right"])?;
    /// let header = model.to_c("side")?;
    /// assert!(header.contains("static inline int side_predict(const float *x)"));
    /// # Ok::<(), pegasos::Error>(())
    /// ```
    pub fn to_c(&self, name: &str) -> Result<String, Error> {
        if self.takes_texts() {
            return Err(Error::parameter(
                "the model",
                "one of texts",
                "one of rows to be a header",
            ));
        }
        match &self.net {
            Net::F32(scorer) => written(self, scorer, Header::new(name, true)?),
            Net::F64(scorer) => written(self, scorer, Header::new(name, false)?),
        }
    }
}

fn written<S: Scalar>(
    model: &Model,
    Scorer { frozen, metric }: &Scorer<S>,
    mut header: Header<'_>,
) -> Result<String, Error> {
    let (classes, outputs) = (model.labels.len(), model.outputs());
    header.define("FEATURES", model.n_features);
    header.define("CLASSES", classes);
    header.define("OUTPUTS", outputs);
    header.labels(&model.labels)?;
    let scores = match frozen {
        Frozen::Linear(w) => {
            memory::check::<f64>("the weights", &[outputs, w.n_features()])?;
            let (row, prepared) = header.prepared(model, None::<&Metric<S>>)?;
            header.linear(w.n_features(), &widened(&w.weights()), &w.intercepts())?;
            [prepared, LINEAR.replace('%', row)].concat()
        }
        Frozen::Kernel(w) => header.kernel(model, metric.as_ref(), w)?,
    };
    header.function("void", "scores(const real *x, real *out)", &scores);
    header.stack += outputs;
    let decided = match (classes, model.pairs) {
        (1, _) => PREDICT_ONE,
        (_, true) => {
            header.stack += 2 * classes;
            header.divisions += classes;
            PREDICT_PAIRS
        }
        (2, _) => PREDICT_TWO,
        _ => PREDICT_EACH,
    };
    header.function("int", "predict(const real *x)", decided);
    let missing = header.probabilities(model)?;
    Ok(header.finish(model, missing))
}

/// A sum in twice the digits.
#[derive(Clone, Copy, Default)]
struct Sum {
    high: f64,
    low: f64,
}

impl Sum {
    fn add(&mut self, x: f64) {
        let high = self.high + x;
        let part = high - self.high;
        self.low += (self.high - (high - part)) + (x - part);
        self.high = high;
    }

    fn value(self) -> f64 {
        self.high + self.low
    }
}

fn widened<S: Scalar>(numbers: &[S]) -> Vec<f64> {
    numbers.iter().map(|x| x.to_f64()).collect()
}

impl Header<'_> {
    /// Takes a row through all steps; and what it is called then.
    fn prepared<S: Scalar>(
        &mut self,
        model: &Model,
        metric: Option<&Metric<S>>,
    ) -> Result<(&'static str, String), Error> {
        let (d, mut changes) = (model.n_features, String::new());
        for (k, step) in model.steps.iter().enumerate() {
            let (mean, scale, clip) = match step {
                Step::Standard { mean, scale } => (mean.as_ref(), scale.as_ref(), false),
                Step::MaxAbs { scale, clip } => (None, Some(scale), *clip),
            };
            if let Some(mean) = mean {
                self.list(&format!("mean_{k}"), "the mean of a scaler", mean.iter().copied())?;
                changes += &format!("\n        value -= @mean_{k}[j];");
            }
            if let Some(scale) = scale {
                let what = "the scale of a scaler";
                let lost = scale.iter().find(|scale| S::from_f64(**scale) == S::default());
                if let Some(scale) = lost {
                    let want = "other than 0 in the model's scalar to be written in C";
                    return Err(Error::parameter(what, scale, want));
                }
                self.list(&format!("scale_{k}"), what, scale.iter().copied())?;
                changes += &format!("\n        value /= @scale_{k}[j];");
                self.divisions += d;
            }
            if clip {
                changes += "\n        value = value < -1 ? -1 : value > 1 ? 1 : value;";
            }
        }
        let (mut row, mut full) = ("x", false);
        if let Some(metric) = metric {
            let numbers = metric.numbers()?;
            full = !metric.is_diagonal();
            self.products += numbers.len();
            if full {
                let rows = |i: usize| widened(&numbers[i * d..(i + 1) * d]);
                self.table("metric", (metric.dimension(), d), rows)?;
            } else {
                self.list("metric", "metric", widened(&numbers).into_iter())?;
                changes += "\n        value *= @metric[j];";
            }
        }
        let mut text = String::new();
        if !changes.is_empty() {
            row = "prepared";
            self.stack += d;
            text += &PREPARED.replace('%', &changes);
        }
        if full {
            text += &MAPPED.replace('%', row);
            row = "mapped";
            self.stack += metric.map_or(0, Metric::dimension);
        }
        Ok((row, text))
    }

    /// Arrays of weights, output after output.
    fn linear(&mut self, d: usize, weights: &[f64], intercepts: &[f64]) -> Result<(), Error> {
        self.products += weights.len();
        let rows = |k: usize| weights[k * d..(k + 1) * d].to_vec();
        self.table("weights", (intercepts.len(), d), rows)?;
        self.list("intercepts", "an intercept", intercepts.iter().copied())
    }

    /// Arrays of support vectors, and what computes their scores.
    fn kernel<S: Scalar>(
        &mut self,
        model: &Model,
        metric: Option<&Metric<S>>,
        w: &Expansion<S>,
    ) -> Result<String, Error> {
        let kernel = w.kernel();
        if kernel == Kernel::Precomputed {
            let want = "\"linear\", \"rbf\", \"poly\" or \"sigmoid\" to be written in C";
            return Err(Error::parameter("kernel", "precomputed", want));
        }
        let (d, outputs) = (w.n_features(), w.outputs());
        let coefs = |slot: usize| {
            let mut coefs = vec![0.0; outputs];
            w.coef(slot, &mut coefs);
            coefs
        };
        let features = |slot: usize| {
            let mut features = vec![S::default(); d];
            w.vector(slot, &mut features);
            widened(&features)
        };
        // Far from all vectors nothing else is left of scores: what cancels must leave 0, not a rounding error.
        let mut sums = vec![Sum::default(); outputs];
        // Those that matter, and for how many scores.
        let (mut slots, mut counts) = (Vec::new(), Vec::new());
        for slot in 0..w.n_vectors() {
            let coefs = coefs(slot);
            sums.iter_mut().zip(&coefs).for_each(|(sum, coef)| sum.add(*coef));
            let count = coefs.iter().filter(|coef| **coef != 0.0).count();
            if count > 0 {
                slots.push(slot);
                counts.push(count);
            }
        }
        let raise = w.constant() * w.constant();
        let intercepts: Vec<f64> = sums.iter().map(|sum| raise * sum.value()).collect();
        if kernel == Kernel::Linear {
            let mut weights = memory::zeros("the weights", &[outputs, d])?;
            for slot in slots {
                let features = features(slot);
                for (weights, coef) in weights.chunks_mut(d).zip(coefs(slot)) {
                    weights.iter_mut().zip(&features).for_each(|(sum, x)| *sum += coef * x);
                }
            }
            let (row, prepared) = self.prepared(model, metric)?;
            self.linear(d, &weights, &intercepts)?;
            return Ok([prepared, LINEAR.replace('%', row)].concat());
        }
        let n = slots.len();
        if n == 0 {
            // C has no arrays of nothing.
            return Ok(["\n    (void)x;", &BEGIN.replace('%', "0")].concat());
        }
        let begin = if raise > 0.0 {
            self.list("intercepts", "an intercept", intercepts.into_iter())?;
            BEGIN.replace('%', "@intercepts[k]")
        } else {
            BEGIN.replace('%', "0")
        };
        let (row, prepared) = self.prepared(model, metric)?;
        self.define("VECTORS", n);
        self.define("MAPPED", d);
        self.table("vectors", (n, d), |i| features(slots[i]))?;
        let stored: usize = counts.iter().sum();
        let sparse = outputs <= MOST_SHORT
            && stored * (self.size() + SHORT) + n * SHORT < n * outputs * self.size();
        let (before, add) = if sparse {
            let (mut places, mut numbers) = (Vec::new(), Vec::new());
            for slot in slots {
                let coefs = coefs(slot).into_iter().enumerate().filter(|(_, coef)| *coef != 0.0);
                coefs.for_each(|(k, coef)| {
                    places.push(k);
                    numbers.push(coef);
                });
            }
            self.shorts("counts", &counts)?;
            self.shorts("places", &places)?;
            self.list("coefs", "a coefficient", numbers.into_iter())?;
            ("\n    size_t at = 0;", ADD_SOME)
        } else {
            self.table("coefs", (n, outputs), |i| coefs(slots[i]))?;
            ("", ADD_ALL)
        };
        self.products += n * (d + 1) + if sparse { stored } else { n * outputs };
        let (product, value) = self.value_of(kernel, n)?;
        let product = product.replace('%', row);
        Ok(format!(
            "{prepared}{begin}{before}\n    for (size_t i = 0; i < $VECTORS; ++i) {{{product}\n        value = \
             {value};{add}\n    }}"
        ))
    }

    /// What a kernel makes a value of, and how; for n vectors.
    fn value_of(
        &mut self,
        kernel: Kernel,
        n: usize,
    ) -> Result<(&'static str, &'static str), Error> {
        match kernel {
            Kernel::Rbf { gamma } => {
                self.calls += n;
                self.constant("gamma", gamma)?;
                Ok((DISTANCE, "exp(-@gamma * value)"))
            }
            Kernel::Sigmoid { gamma, coef0 } => {
                self.calls += n;
                self.constant("gamma", gamma)?;
                self.constant("coef0", coef0)?;
                Ok((PRODUCT, "tanh(@gamma * value + @coef0)"))
            }
            Kernel::Poly { gamma, coef0, degree } => {
                self.products +=
                    n * (degree.checked_ilog2().unwrap_or(0) + degree.count_ones()) as usize;
                self.define("DEGREE", degree as usize);
                self.constant("gamma", gamma)?;
                self.constant("coef0", coef0)?;
                self.function("real", "power(real base, unsigned long exponent)", POWER);
                Ok((PRODUCT, "@power(@gamma * value + @coef0, $DEGREE)"))
            }
            Kernel::Linear | Kernel::Precomputed => Ok((PRODUCT, "value")),
        }
    }

    /// A function for probabilities; or says why there is none.
    fn probabilities(&mut self, model: &Model) -> Result<Option<&'static str>, Error> {
        let Some(calibration) = &model.calibration else {
            return Ok(Some("none, the model was trained without"));
        };
        if model.pairs {
            return Ok(Some("none, as those of pairs of classes are the solution of equations"));
        }
        let classes = model.labels.len();
        let head = "probabilities(const real *x, real *out)";
        if classes == 1 {
            self.function("void", head, "\n    (void)x;\n    out[0] = 1;");
            return Ok(None);
        }
        let mut text = String::from("\n    real scores[$OUTPUTS];\n    @scores(x, scores);");
        match calibration {
            Calibration::Temperature(beta) => {
                self.constant("beta", *beta)?;
                if classes == 2 {
                    self.function("real", "logistic(real x)", LOGISTIC);
                }
                text += if classes == 2 { COOLED } else { SOFTMAX };
            }
            Calibration::Each(maps) => self.maps(maps, &mut text)?,
        }
        text += if classes == 2 { OF_TWO } else { SHARES };
        self.function("void", head, &text);
        Ok(None)
    }

    /// Arrays of the maps of scores, and what makes probabilities of scores.
    fn maps(&mut self, maps: &[Map], text: &mut String) -> Result<(), Error> {
        let mut sigmoids = Vec::new();
        for (k, map) in maps.iter().enumerate() {
            match map {
                Map::Sigmoid { a, b } => sigmoids.push([*a, *b]),
                Map::Isotonic { thresholds, values } => {
                    let what = "a calibration";
                    self.list(&format!("thresholds_{k}"), what, thresholds.iter().copied())?;
                    self.list(&format!("values_{k}"), what, values.iter().copied())?;
                    let n = values.len();
                    let arrays = format!("@thresholds_{k}, @values_{k}, {n}");
                    *text += &format!("\n    scores[{k}] = @rising({arrays}, scores[{k}]);");
                }
            }
        }
        // All are of one kind.
        if sigmoids.is_empty() {
            let head = "rising(const real *thresholds, const real *values, size_t n, real score)";
            self.function("real", head, RISING);
        } else {
            self.table("sigmoids", (sigmoids.len(), 2), |k| sigmoids[k].to_vec())?;
            self.function("real", "logistic(real x)", LOGISTIC);
            text.push_str(SIGMOIDS);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cancels_leaves_nothing() {
        let (mut sum, mut plain) = (Sum::default(), 0.0);
        for x in [[0.1; 500], [-0.1; 500]].concat() {
            sum.add(x);
            plain += x;
        }
        assert_eq!(sum.value(), 0.0);
        assert_ne!(plain, 0.0);
    }
}
