//! Models as C: a header of arrays, and of functions that predict with them, for devices that have nothing else.
//!
//! * Numbers are in the scalar of the model, written so that they come back to the last bit; all arithmetic is in it.
//! * Squared distances are sums of squares of differences, which in single precision keep the digits that
//!   `||x||^2 + ||z||^2 - 2 <x, z>` loses where rows are far from the origin.
//! * An intercept of a kernel machine, `constant^2` in every kernel value, is summed up beforehand; a linear kernel is
//!   its weights; coefficients of support vectors that are 0, as most are where there are pairs of classes, are left out if
//!   that takes less room.
//! * What comes from a file and could be any text, labels, stands in string literals alone, escaped; never in a comment.

use super::calibration::{Calibration, Map};
use super::state::Stored;
use super::steps::Step;
use super::{Label, Model, Net, Scorer};
use crate::error::Error;
use crate::expansion::Expansion;
use crate::frozen::Frozen;
use crate::hypothesis::Hypothesis;
use crate::kernel::Kernel;
use crate::memory;
use crate::metric::Metric;
use crate::scalar::Scalar;

/// Bytes of arrays. So many take a compiler a minute and a gigabyte.
const MOST_BYTES: usize = 1 << 24;

/// What C calls things by differs within 63 characters, of which the longest ending takes 15.
const LONGEST_NAME: usize = 48;

/// Characters that a string literal of C may have.
const LONGEST_LABEL: usize = 4095;

/// Characters of a number in an array, at most.
const LONGEST_NUMBER: usize = 32;

/// Columns of a line of numbers.
const COLUMNS: usize = 120;

/// Bytes of an `unsigned short`, and what it surely holds.
const SHORT: usize = 2;
const MOST_SHORT: usize = 65_535;

// In the texts below `@` is the name and an underscore, `$` the same in capitals, `real` the scalar, `%` what is filled in:
// the row after all steps, mostly; functions of <math.h> are called as those of double precision.

const POWER: &str = "
    real product = 1;
    while (exponent > 0) {
        if (exponent & 1) {
            product *= base;
        }
        exponent >>= 1;
        if (exponent > 0) {
            base *= base;
        }
    }
    return product;";

const PREPARED: &str = "
    real prepared[$FEATURES];
    for (size_t j = 0; j < $FEATURES; ++j) {
        real value = x[j];%
        prepared[j] = value;
    }";

const MAPPED: &str = "
    real mapped[$MAPPED];
    for (size_t i = 0; i < $MAPPED; ++i) {
        real sum = 0;
        for (size_t j = 0; j < $FEATURES; ++j) {
            sum += @metric[i][j] * %[j];
        }
        mapped[i] = sum;
    }";

const LINEAR: &str = "
    for (size_t k = 0; k < $OUTPUTS; ++k) {
        real sum = 0;
        for (size_t j = 0; j < $FEATURES; ++j) {
            sum += @weights[k][j] * %[j];
        }
        out[k] = sum + @intercepts[k];
    }";

const INTERCEPTS: &str = "
    for (size_t k = 0; k < $OUTPUTS; ++k) {
        out[k] = @intercepts[k];
    }";

const PRODUCT: &str = "
        real value = 0;
        for (size_t j = 0; j < $MAPPED; ++j) {
            value += %[j] * @vectors[i][j];
        }";

const DISTANCE: &str = "
        real value = 0;
        for (size_t j = 0; j < $MAPPED; ++j) {
            const real apart = %[j] - @vectors[i][j];
            value += apart * apart;
        }";

const ADD_ALL: &str = "
        for (size_t k = 0; k < $OUTPUTS; ++k) {
            out[k] += @coefs[i][k] * value;
        }";

const ADD_SOME: &str = "
        for (size_t end = at + @counts[i]; at < end; ++at) {
            out[@places[at]] += @coefs[at] * value;
        }";

const PREDICT_ONE: &str = "
    (void)x;
    return 0;";

const PREDICT_TWO: &str = "
    real score[1];
    @scores(x, score);
    return score[0] > 0;";

const PREDICT_PAIRS: &str = "
    real scores[$OUTPUTS];
    real sums[$CLASSES] = {0};
    real votes[$CLASSES] = {0};
    size_t pair = 0;
    int best = 0;
    @scores(x, scores);
    for (int i = 0; i < $CLASSES; ++i) {
        for (int j = i + 1; j < $CLASSES; ++j) {
            votes[scores[pair] < 0 ? j : i] += 1;
            sums[i] += scores[pair];
            sums[j] -= scores[pair];
            ++pair;
        }
    }
    for (int i = 0; i < $CLASSES; ++i) {
        /* Less than half a vote: it breaks ties. */
        votes[i] += sums[i] / (3 * ((sums[i] < 0 ? -sums[i] : sums[i]) + 1));
        best = votes[i] > votes[best] ? i : best;
    }
    return best;";

const PREDICT_EACH: &str = "
    real scores[$OUTPUTS];
    int best = 0;
    @scores(x, scores);
    for (int i = 1; i < $CLASSES; ++i) {
        best = scores[i] > scores[best] ? i : best;
    }
    return best;";

const LOGISTIC: &str = "
    return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));";

const RISING: &str = "
    size_t after = 0;
    while (after < n && thresholds[after] <= score) {
        ++after;
    }
    if (after == 0) {
        return values[0];
    }
    if (after == n) {
        return values[n - 1];
    }
    return values[after - 1] + (score - thresholds[after - 1]) / (thresholds[after] - thresholds[after - 1])
        * (values[after] - values[after - 1]);";

const SOFTMAX: &str = "
    real largest = @beta * scores[0];
    for (size_t k = 1; k < $OUTPUTS; ++k) {
        largest = @beta * scores[k] > largest ? @beta * scores[k] : largest;
    }
    for (size_t k = 0; k < $OUTPUTS; ++k) {
        scores[k] = exp(@beta * scores[k] - largest);
    }";

const COOLED: &str = "
    for (size_t k = 0; k < $OUTPUTS; ++k) {
        scores[k] = @logistic(@beta * scores[k]);
    }";

const SIGMOIDS: &str = "
    for (size_t k = 0; k < $OUTPUTS; ++k) {
        scores[k] = @logistic(-(@sigmoids[k][0] * scores[k] + @sigmoids[k][1]));
    }";

const OF_TWO: &str = "
    out[0] = 1 - scores[0];
    out[1] = scores[0];";

const SHARES: &str = "
    real total = 0;
    real even = 1;
    even /= $CLASSES;
    for (size_t k = 0; k < $OUTPUTS; ++k) {
        total += scores[k];
    }
    for (size_t k = 0; k < $OUTPUTS; ++k) {
        out[k] = total > 0 ? scores[k] / total : even;
    }";

impl Model {
    /// The model as a header for C and C++: arrays, and functions that predict with them and need nothing but `<math.h>` and
    /// `<stddef.h>`. They take rows in the scalar of the model, as they are before any scaling:
    ///
    /// ```c
    /// int NAME_predict(const float *x);                    // the number of the class, which NAME_labels[] names
    /// void NAME_scores(const float *x, float *out);        // NAME_OUTPUTS scores: those of Model::scores
    /// void NAME_probabilities(const float *x, float *out); // NAME_CLASSES of them, where the model has them
    /// ```
    ///
    /// The macros `NAME_FEATURES`, `NAME_CLASSES` and `NAME_OUTPUTS` are in capitals. A comment at the top says how much memory
    /// and how many multiplications all takes. Support vectors that were sparse rows become dense. Probabilities that are
    /// coupled from those of pairs of classes are left out. Time and memory: those of the text, some 12 bytes for each number
    /// in single precision, 22 in double.
    ///
    /// # Errors
    ///
    /// A name that is none in C: a letter, and up to 47 letters, digits and underscores. Kernel values that are precomputed;
    /// arrays of more than 16 MiB; labels with a zero byte, or of more than 4095 bytes; numbers of a scaler or a calibration that the
    /// scalar cannot hold.
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
        let letter = |c: char| c.is_ascii_alphabetic();
        let sound = name.starts_with(letter)
            && name.len() <= LONGEST_NAME
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !sound {
            let want = "a letter and up to 47 letters, digits and underscores, to be a name in C";
            return Err(Error::parameter("name", name, want));
        }
        match &self.net {
            Net::F32(scorer) => header(self, scorer, name),
            Net::F64(scorer) => header(self, scorer, name),
        }
    }
}

/// A header that is being written.
struct Header<'a> {
    name: &'a str,
    single: bool,
    macros: Vec<(&'static str, usize)>,
    arrays: String,
    functions: String,
    /// Bytes of all arrays.
    bytes: usize,
    /// Numbers on the stack.
    stack: usize,
    /// What a row takes.
    work: Work,
}

#[derive(Default)]
struct Work {
    products: usize,
    divisions: usize,
    /// Of functions of <math.h>.
    calls: usize,
}

fn header<S: Stored>(
    model: &Model,
    Scorer { frozen, metric }: &Scorer<S>,
    name: &str,
) -> Result<String, Error> {
    let (classes, outputs) = (model.labels.len(), model.outputs());
    let mut header = Header {
        name,
        single: S::NAME == "float32",
        macros: vec![("FEATURES", model.n_features), ("CLASSES", classes), ("OUTPUTS", outputs)],
        arrays: String::new(),
        functions: String::new(),
        bytes: 0,
        stack: 0,
        work: Work::default(),
    };
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
            header.work.divisions += classes;
            PREDICT_PAIRS
        }
        (2, _) => PREDICT_TWO,
        _ => PREDICT_EACH,
    };
    header.function("int", "predict(const real *x)", decided);
    let missing = header.probabilities(model)?;
    Ok(header.finish(model, missing))
}

/// A number in the scalar of the model.
fn literal(what: &'static str, x: f64, single: bool) -> Result<String, Error> {
    // The fewest digits that come back to the same bits.
    let (text, finite) = match single {
        true => (format!("{:?}f", x as f32), (x as f32).is_finite()),
        false => (format!("{x:?}"), x.is_finite()),
    };
    if !finite {
        let want = "within the range of the model's scalar to be written in C";
        return Err(Error::parameter(what, x, want));
    }
    Ok(text)
}

/// A string literal, of printable ASCII alone.
fn string(label: &str) -> Result<String, Error> {
    if label.contains('\0') {
        return Err(Error::parameter("a label", label, "free of zero bytes to be a string in C"));
    }
    if label.len() > LONGEST_LABEL {
        let want = "at most 4095 bytes to be a string in C";
        return Err(Error::shape("a label", want, label.len()));
    }
    let mut literal = String::from("\"");
    for byte in label.bytes() {
        match byte {
            // Two question marks may begin a trigraph.
            b'"' | b'\\' | b'?' => literal.extend(['\\', char::from(byte)]),
            b' '..=b'~' => literal.push(char::from(byte)),
            _ => literal.push_str(&format!("\\{byte:03o}")),
        }
    }
    literal.push('"');
    Ok(literal)
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
    /// A text of this file in the names and the scalar of the model.
    fn filled(&self, text: &str) -> String {
        let (scalar, exp, tanh) = match self.single {
            true => ("float", "expf(", "tanhf("),
            false => ("double", "exp(", "tanh("),
        };
        // The name comes last: it could be any.
        text.replace("exp(", exp)
            .replace("tanh(", tanh)
            .replace("real", scalar)
            .replace('$', &format!("{}_", self.name.to_ascii_uppercase()))
            .replace('@', &format!("{}_", self.name))
    }

    fn function(&mut self, of: &str, head: &str, body: &str) {
        let text = self.filled(&format!("\nstatic inline {of} @{head}\n{{{body}\n}}\n"));
        self.functions.push_str(&text);
    }

    /// Takes bytes for so many numbers of an array.
    fn take(&mut self, numbers: usize, bytes: usize) -> Result<(), Error> {
        let total = numbers.checked_mul(bytes).and_then(|more| self.bytes.checked_add(more));
        if let Some(total) = total.filter(|total| *total <= MOST_BYTES) {
            self.bytes = total;
            return memory::check::<u8>("a header", &[numbers, LONGEST_NUMBER]);
        }
        let mib = (self.bytes as f64 + numbers as f64 * bytes as f64) / f64::from(1 << 20);
        let want = "arrays of at most 16 MiB to be written in C";
        Err(Error::shape("the model", want, format_args!("{mib:.1} MiB")))
    }

    fn size(&self) -> usize {
        if self.single { size_of::<f32>() } else { size_of::<f64>() }
    }

    /// An array of rows, each of so many numbers of the scalar.
    fn table(
        &mut self,
        name: &'static str,
        (n, d): (usize, usize),
        mut row: impl FnMut(usize) -> Vec<f64>,
    ) -> Result<(), Error> {
        self.take(n.saturating_mul(d), self.size())?;
        self.open("real", name, &[n, d]);
        for i in 0..n {
            self.arrays.push_str("    {\n");
            self.numbers("        ", name, row(i))?;
            self.arrays.push_str("    },\n");
        }
        self.arrays.push_str("};\n");
        Ok(())
    }

    /// A list of numbers of the scalar; `what` says of what.
    fn list(
        &mut self,
        name: &str,
        what: &'static str,
        numbers: impl ExactSizeIterator<Item = f64>,
    ) -> Result<(), Error> {
        self.take(numbers.len(), self.size())?;
        self.open("real", name, &[numbers.len()]);
        self.numbers("    ", what, numbers)?;
        self.arrays.push_str("};\n");
        Ok(())
    }

    fn numbers(
        &mut self,
        indent: &str,
        what: &'static str,
        numbers: impl IntoIterator<Item = f64>,
    ) -> Result<(), Error> {
        let single = self.single;
        self.lines(indent, numbers.into_iter().map(|x| literal(what, x, single)))
    }

    /// A list of small whole numbers.
    fn shorts(&mut self, name: &str, numbers: &[usize]) -> Result<(), Error> {
        self.take(numbers.len(), SHORT)?;
        self.open("unsigned short", name, &[numbers.len()]);
        self.lines("    ", numbers.iter().map(|x| Ok(x.to_string())))?;
        self.arrays.push_str("};\n");
        Ok(())
    }

    fn constant(&mut self, name: &'static str, x: f64) -> Result<(), Error> {
        self.take(1, self.size())?;
        let text = format!("static const real @{name} = {};\n", literal(name, x, self.single)?);
        self.arrays.push_str(&self.filled(&text));
        Ok(())
    }

    fn open(&mut self, of: &str, name: &str, sizes: &[usize]) {
        let sizes: String = sizes.iter().map(|size| format!("[{size}]")).collect();
        let text = format!("static const {of} @{name}{sizes} = {{\n");
        self.arrays.push_str(&self.filled(&text));
    }

    /// What stands in an array, in lines.
    fn lines(
        &mut self,
        indent: &str,
        literals: impl Iterator<Item = Result<String, Error>>,
    ) -> Result<(), Error> {
        let mut column = 0;
        for literal in literals {
            let literal = literal?;
            if column == 0 || column + literal.len() + 2 > COLUMNS {
                self.arrays.push_str(if column == 0 { "" } else { "\n" });
                self.arrays.push_str(indent);
                column = indent.len();
            } else {
                self.arrays.push(' ');
                column += 1;
            }
            self.arrays.push_str(&literal);
            self.arrays.push(',');
            column += literal.len() + 1;
        }
        self.arrays.push('\n');
        Ok(())
    }

    /// What classes are called.
    fn labels(&mut self, labels: &[Label]) -> Result<(), Error> {
        let (mut of, mut bytes) = ("long long", 0);
        let literals = labels.iter().map(|label| {
            bytes += size_of::<f64>();
            match label {
                Label::Bool(label) => Ok(u8::from(*label).to_string()),
                // A literal has no sign.
                Label::Int(i64::MIN) => Ok("-9223372036854775807 - 1".to_owned()),
                Label::Int(label) => Ok(label.to_string()),
                Label::Float(label) => {
                    of = "double";
                    Ok(format!("{label:?}"))
                }
                Label::Text(label) => {
                    of = "char *const";
                    bytes += label.len() + 1;
                    string(label)
                }
            }
        });
        let literals = literals.collect::<Result<Vec<_>, _>>()?;
        self.take(1, bytes)?;
        self.open(of, "labels", &[labels.len()]);
        self.lines("    ", literals.into_iter().map(Ok))?;
        self.arrays.push_str("};\n");
        Ok(())
    }

    /// Takes a row through all steps; and what it is called then.
    fn prepared<S: Stored>(
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
                if scale.iter().any(|scale| self.single && *scale as f32 == 0.0) {
                    return Err(Error::parameter(what, 0.0, "other than 0 in the model's scalar"));
                }
                self.list(&format!("scale_{k}"), what, scale.iter().copied())?;
                changes += &format!("\n        value /= @scale_{k}[j];");
                self.work.divisions += d;
            }
            if clip {
                changes += "\n        value = value < -1 ? -1 : value > 1 ? 1 : value;";
            }
        }
        let (mut row, mut full) = ("x", false);
        if let Some(metric) = metric {
            let numbers = metric.numbers()?;
            full = !metric.is_diagonal();
            self.work.products += numbers.len();
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
        self.work.products += weights.len();
        let rows = |k: usize| weights[k * d..(k + 1) * d].to_vec();
        self.table("weights", (intercepts.len(), d), rows)?;
        self.list("intercepts", "an intercept", intercepts.iter().copied())
    }

    /// Arrays of support vectors, and what computes their scores.
    fn kernel<S: Stored>(
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
        self.list("intercepts", "an intercept", intercepts.into_iter())?;
        let n = slots.len();
        if n == 0 {
            // C has no arrays of nothing.
            return Ok(format!("\n    (void)x;{INTERCEPTS}"));
        }
        let (row, prepared) = self.prepared(model, metric)?;
        self.macros.extend([("VECTORS", n), ("MAPPED", d)]);
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
        self.work.products += n * (d + 1) + if sparse { stored } else { n * outputs };
        let (product, value) = self.value_of(kernel)?;
        let product = product.replace('%', row);
        Ok(format!(
            "{prepared}{INTERCEPTS}{before}\n    for (size_t i = 0; i < $VECTORS; ++i) {{{product}\n        value = \
             {value};{add}\n    }}"
        ))
    }

    /// What a kernel makes a value of, and how.
    fn value_of(&mut self, kernel: Kernel) -> Result<(&'static str, &'static str), Error> {
        let n = self.macros.iter().find(|(name, _)| *name == "VECTORS").map_or(0, |(_, n)| *n);
        match kernel {
            Kernel::Rbf { gamma } => {
                self.work.calls += n;
                self.constant("gamma", gamma)?;
                Ok((DISTANCE, "exp(-@gamma * value)"))
            }
            Kernel::Sigmoid { gamma, coef0 } => {
                self.work.calls += n;
                self.constant("gamma", gamma)?;
                self.constant("coef0", coef0)?;
                Ok((PRODUCT, "tanh(@gamma * value + @coef0)"))
            }
            Kernel::Poly { gamma, coef0, degree } => {
                self.work.products +=
                    n * (degree.checked_ilog2().unwrap_or(0) + degree.count_ones()) as usize;
                self.macros.push(("DEGREE", degree as usize));
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
            return Ok(Some("none: the model was trained without"));
        };
        if model.pairs {
            return Ok(Some("none: those of pairs of classes are the solution of equations"));
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

    /// The whole text; `missing` says why there are no probabilities.
    fn finish(self, model: &Model, missing: Option<&str>) -> String {
        let Header { name, arrays, functions, bytes, work, .. } = &self;
        let stack = self.stack * self.size();
        let scores = match (model.outputs(), model.pairs) {
            (_, true) => {
                "A score for each pair of classes, (0, 1), (0, 2), ...: < 0 for the second."
            }
            (1, _) => "One score, > 0 for class 1.",
            _ => "A score for each class. The largest decides.",
        };
        let probabilities = match missing {
            Some(missing) => format!(" * Probabilities: {missing}."),
            None => [
                " * void @probabilities(const real *x, real *out)",
                " *     The probability of each class.",
            ]
            .join("\n"),
        };
        let called =
            ["exp(", "expf(", "tanh(", "tanhf("].iter().any(|call| functions.contains(call));
        let math = if called { "#include <math.h>\n" } else { "" };
        let needs = if called { "<math.h> and <stddef.h>" } else { "<stddef.h>" };
        let macros: String =
            self.macros.iter().map(|(name, value)| format!("#define ${name} {value}\n")).collect();
        let Work { products, divisions, calls } = work;
        let calls = if *calls > 0 { format!(", {calls} calls of <math.h>") } else { String::new() };
        let divisions =
            if *divisions > 0 { format!(", {divisions} divisions") } else { String::new() };
        let version = env!("CARGO_PKG_VERSION");
        let top = format!(
            "/* A model in C99 and C++, written by pegasos {version}. It allocates nothing, and needs {needs} alone.
 *
 * int @predict(const real *x)
 *     The number of the class of a row, from 0 on; @labels[] says what classes are called.
 * void @scores(const real *x, real *out)
 *     {scores}
{probabilities}
 *
 * A row is $FEATURES finite numbers, as they are before any scaling. `out` has room for all scores or probabilities, and
 * does not overlap with it.
 *
 * Arrays: {bytes} bytes. Stack: {stack} bytes, and what compilers add. A row: {products} multiplications{divisions}{calls}.
 */
#ifndef PEGASOS_@H
#define PEGASOS_@H

{math}#include <stddef.h>

{macros}
"
        );
        let top = self.filled(&top);
        format!("{top}{arrays}{functions}\n#endif /* PEGASOS_{name}_H */\n")
    }
}
