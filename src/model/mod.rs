//! Models that travel: what predicts, with its labels, its probabilities and what rows go through first.
//!
//! A [`Model`] is what a file holds, whoever wrote it: the Python package (`pegasos.save`), its command line, or
//! [`Model::save`]. It predicts, and no more: what goes on training is a [`Trainer`](crate::Trainer), or Python's estimators.
//!
//! * Rows are copied, 1024 at a time: scaled, in the scalar of the model, mapped by its metric. Then a [`Frozen`] model scores
//!   them.
//! * Scores are those of problems: one for two classes, > 0 for the second; one for each class; or one for each pair of
//!   classes, > 0 for the first, where votes and the sums of their scores decide, as in LIBSVM.

mod c;
mod calibration;
mod classifier;
mod file;
mod label;
mod positive;
mod state;
mod steps;
mod text;
mod written;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::data::{Csr, Dense, Matrix, same_features};
use crate::error::{Error, ErrorKind, check_lengths};
use crate::examples::diagnose;
use crate::frozen::Frozen;
use crate::memory;
use crate::metric::Metric;
use crate::scalar::Scalar;

pub(crate) use calibration::Calibration;
pub use classifier::Classifier;
pub(crate) use file::Content;
#[cfg(feature = "python")]
pub(crate) use file::{FORMAT, Numbers, Tensor};
pub use label::Label;
use state::State;
use steps::Step;
use text::Hasher;
#[cfg(feature = "python")]
pub(crate) use text::column_and_sign;

/// Rows that are changed at a time.
const WINDOW: usize = 1024;

/// Rows in either scalar; or texts, for models that make rows of them.
#[derive(Debug)]
pub enum Rows<'a> {
    /// In single precision.
    F32(Matrix<'a, f32>),
    /// In double precision.
    F64(Matrix<'a, f64>),
    /// For models behind a `HashingVectorizer`.
    Texts(Vec<&'a str>),
}

impl<'a, T: AsRef<str>> From<&'a [T]> for Rows<'a> {
    fn from(texts: &'a [T]) -> Self {
        Rows::Texts(texts.iter().map(AsRef::as_ref).collect())
    }
}

/// Whatever is a matrix of a scalar is rows.
macro_rules! rows {
    ($($of:ty => $kind:ident),*) => { $(
        impl<'a> From<$of> for Rows<'a> {
            fn from(x: $of) -> Self {
                Rows::$kind(x.into())
            }
        }
    )* };
}
rows!(
    Matrix<'a, f32> => F32, Dense<'a, f32> => F32, Csr<'a, f32, i32> => F32, Csr<'a, f32, i64> => F32,
    Matrix<'a, f64> => F64, Dense<'a, f64> => F64, Csr<'a, f64, i32> => F64, Csr<'a, f64, i64> => F64
);

impl Rows<'_> {
    /// Number of rows.
    pub fn n_rows(&self) -> usize {
        match self {
            Rows::F32(x) => x.n_rows(),
            Rows::F64(x) => x.n_rows(),
            Rows::Texts(texts) => texts.len(),
        }
    }
}

/// What scores rows, in its scalar.
#[derive(Clone, Debug)]
enum Net {
    F32(Scorer<f32>),
    F64(Scorer<f64>),
}

/// A model behind a metric, if it has learned one.
#[derive(Clone, Debug)]
struct Scorer<S> {
    frozen: Frozen<S>,
    metric: Option<Metric<S>>,
}

/// A model that predicts: what a model file holds.
///
/// ```
/// use pegasos::{Classifier, Dense, Model};
///
/// let x = Dense::new(&[-2.0, -1.0, 1.0, 3.0], 4, 1)?;
/// let model = Classifier::default().fit(x, &["left", "left", "right", "right"])?;
///
/// let path = std::env::temp_dir().join(format!("pegasos-{}.safetensors", std::process::id()));
/// model.save(&path)?;
/// let again = Model::load(&path)?;
/// assert_eq!(again.predict(x)?, model.predict(x)?);
/// # std::fs::remove_file(&path).unwrap();
/// # Ok::<(), pegasos::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Model {
    state: Arc<State>,
    labels: Vec<Label>,
    n_features: usize,
    /// What makes rows of texts, if that is what it takes.
    hasher: Option<Hasher>,
    steps: Vec<Step>,
    net: Net,
    /// Whether scores are those of pairs of classes.
    pairs: bool,
    calibration: Option<Calibration>,
}

impl Model {
    /// Reads a model file, whoever wrote it. Time and memory are those of three copies of the file at most.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) where the file cannot be read, [`ErrorKind::File`](crate::ErrorKind::File)
    /// where it is damaged, of a later version, or holds anything else.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, Error> {
        Model::of(Content::read(path.as_ref())?)
    }

    /// The model in the bytes of a file.
    ///
    /// # Errors
    ///
    /// Those of [`load`](Model::load), but for the system's.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        Model::of(Content::from_bytes(bytes)?)
    }

    fn of(content: Content) -> Result<Self, Error> {
        state::restore(content).map_err(|error| match error.kind() {
            ErrorKind::File { .. } => error,
            // What does not fit together is the file's fault, and what asks for more than there is.
            _ => file::broken(error.to_string()),
        })
    }

    /// Writes the model to a file that [`load`](Model::load), and in Python `pegasos.load`, read: at once or not at all.
    /// Python's estimator predicts the same and learns on from there, without averages of earlier steps.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) where the file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        file::replace(path, &self.to_bytes()?).map_err(|error| {
            ErrorKind::Io { path: path.to_owned(), what: error.to_string() }.into()
        })
    }

    /// The bytes of a file with this model.
    ///
    /// # Errors
    ///
    /// What does not fit into a file.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        written::content(self)
    }

    /// The labels of the classes, in the order of the scores.
    pub fn labels(&self) -> &[Label] {
        &self.labels
    }

    /// Whether it takes texts, of which it makes rows.
    pub fn takes_texts(&self) -> bool {
        self.hasher.is_some()
    }

    /// Number of features that rows have.
    pub fn n_features(&self) -> usize {
        self.n_features
    }

    /// Number of scores of a row: one for two classes, one for each class, or one for each pair of classes.
    pub fn outputs(&self) -> usize {
        match &self.net {
            Net::F32(scorer) => scorer.frozen.outputs(),
            Net::F64(scorer) => scorer.frozen.outputs(),
        }
    }

    /// The name of the class of Python's estimator: `PegasosClassifier`, `KernelPegasosClassifier`, ...
    pub fn class(&self) -> &str {
        &self.state.class
    }

    /// Number of support vectors; `None` of linear models.
    pub fn n_vectors(&self) -> Option<usize> {
        fn vectors<S: Scalar>(frozen: &Frozen<S>) -> Option<usize> {
            if let Frozen::Kernel(w) = frozen { Some(w.n_vectors()) } else { None }
        }
        match &self.net {
            Net::F32(scorer) => vectors(&scorer.frozen),
            Net::F64(scorer) => vectors(&scorer.frozen),
        }
    }

    /// How many weights of a linear model are not 0.
    pub fn n_nonzero(&self) -> Option<usize> {
        fn nonzero<S: Scalar>(frozen: &Frozen<S>) -> Option<usize> {
            let Frozen::Linear(w) = frozen else { return None };
            Some(w.weights().into_iter().filter(|x| *x != S::default()).count())
        }
        match &self.net {
            Net::F32(scorer) => nonzero(&scorer.frozen),
            Net::F64(scorer) => nonzero(&scorer.frozen),
        }
    }

    /// Whether there was a budget of support vectors.
    pub fn is_bounded(&self) -> bool {
        self.state.is_bounded()
    }

    /// What the file says of it beside what predicts: a JSON object, with the parameters of Python's estimator, and
    /// what its trainer tells of itself.
    pub fn text(&self) -> String {
        self.state.text()
    }

    /// The scores of the problems for each row, [`outputs`](Model::outputs) of them, row after row. On the threads of the
    /// current rayon pool.
    ///
    /// # Errors
    ///
    /// Rows of another number of features, or that are not finite.
    pub fn scores<'a>(&self, x: impl Into<Rows<'a>>) -> Result<Vec<f64>, Error> {
        let x = x.into();
        let mut scores = memory::zeros("the scores", &[x.n_rows(), self.outputs()])?;
        self.write_scores(&x, 0..x.n_rows(), &mut scores)?;
        Ok(scores)
    }

    /// About how many multiplications a row takes.
    #[cfg(feature = "python")]
    pub(crate) fn cost(&self) -> usize {
        fn cost<S: Scalar>(Scorer { frozen, metric }: &Scorer<S>, n_features: usize) -> usize {
            let d = metric.as_ref().map_or(n_features, Metric::dimension);
            frozen.cost(d) + if metric.is_some() { n_features * d } else { 0 }
        }
        match &self.net {
            Net::F32(scorer) => cost(scorer, self.n_features),
            Net::F64(scorer) => cost(scorer, self.n_features),
        }
    }

    /// Writes the [`scores`](Model::scores) of these rows.
    pub(crate) fn write_scores(
        &self,
        x: &Rows<'_>,
        rows: Range<usize>,
        out: &mut [f64],
    ) -> Result<(), Error> {
        match (x, &self.hasher) {
            (Rows::F32(x), None) => self.write_rows(x, rows, out),
            (Rows::F64(x), None) => self.write_rows(x, rows, out),
            (Rows::Texts(texts), Some(hasher)) => self.write_texts(hasher, &texts[rows], out),
            (Rows::Texts(_), None) => Err(Error::parameter("X", "texts", "rows of features")),
            _ => Err(Error::parameter(
                "X",
                "rows of features",
                "texts, as the model begins with a HashingVectorizer",
            )),
        }
    }

    fn write_texts(&self, hasher: &Hasher, texts: &[&str], out: &mut [f64]) -> Result<(), Error> {
        let outputs = self.outputs();
        for (texts, out) in texts.chunks(WINDOW).zip(out.chunks_mut(WINDOW * outputs)) {
            let (mut indptr, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
            for text in texts {
                hasher.hash(text, &mut indices, &mut values);
                indptr.push(indices.len() as i64);
            }
            let (d, n) = (hasher.n_features, texts.len());
            if hasher.is_single() {
                let values: Vec<f32> = values.iter().map(|x| *x as f32).collect();
                let x = Csr::new(&indptr, &indices, &values, d)?.into();
                self.write_rows::<f32>(&x, 0..n, out)?;
            } else {
                let x = Csr::new(&indptr, &indices, &values, d)?.into();
                self.write_rows::<f64>(&x, 0..n, out)?;
            }
        }
        Ok(())
    }

    fn write_rows<T: Scalar>(
        &self,
        x: &Matrix<'_, T>,
        rows: Range<usize>,
        out: &mut [f64],
    ) -> Result<(), Error> {
        same_features(self.n_features, x.n_features())?;
        match &self.net {
            // Linear models take rows as they are.
            Net::F32(Scorer { frozen: frozen @ Frozen::Linear(_), .. })
                if size_of::<T>() == size_of::<f64>() =>
            {
                let wide = Scorer { frozen: frozen.convert::<f64>()?, metric: None };
                self.write(&wide, x, rows, out)
            }
            Net::F32(scorer) => self.write(scorer, x, rows, out),
            Net::F64(scorer) => self.write(scorer, x, rows, out),
        }
    }

    fn write<T: Scalar, S: Scalar>(
        &self,
        scorer: &Scorer<S>,
        x: &Matrix<'_, T>,
        rows: Range<usize>,
        out: &mut [f64],
    ) -> Result<(), Error> {
        let outputs = scorer.frozen.outputs();
        if x.is_sparse() {
            self.steps.iter().try_for_each(Step::check_sparse)?;
        }
        for (k, out) in out.chunks_mut(WINDOW * outputs).enumerate() {
            let first = rows.start + k * WINDOW;
            let window = Prepared::<S>::new(&self.steps, x, first..first + out.len() / outputs)?;
            let scored = match &scorer.metric {
                Some(metric) => {
                    window.mapped(metric).and_then(|mapped| mapped.score(&scorer.frozen, out))
                }
                None => window.score(&scorer.frozen, out),
            };
            // Rows are known by their own number.
            scored.map_err(|error| {
                if let ErrorKind::NonFinite { .. } = error.kind() {
                    Error::non_finite(
                        "X",
                        format_args!(
                            "a row of {first}..{} makes scores overflow",
                            first + out.len() / outputs
                        ),
                    )
                } else {
                    error
                }
            })?;
        }
        Ok(())
    }

    /// The label of each row.
    ///
    /// # Errors
    ///
    /// Those of [`scores`](Model::scores).
    pub fn predict<'a>(&self, x: impl Into<Rows<'a>>) -> Result<Vec<&Label>, Error> {
        let scores = self.scores(x)?;
        Ok(self.codes(&scores).into_iter().map(|code| &self.labels[code]).collect())
    }

    /// The number of the label of each row, given its scores.
    pub(crate) fn codes(&self, scores: &[f64]) -> Vec<usize> {
        let k = self.labels.len();
        let mut votes = vec![0.0; k];
        let code = |scores: &[f64]| match scores {
            [score] => usize::from(*score > 0.0).min(k - 1),
            scores if self.pairs => {
                self.vote(scores, &mut votes);
                largest(&votes)
            }
            scores => largest(scores),
        };
        scores.chunks(self.outputs()).map(code).collect()
    }

    /// Writes for each class how many pairs speak for it, and a fraction by their scores that breaks ties.
    fn vote(&self, scores: &[f64], votes: &mut [f64]) {
        let k = votes.len();
        let mut sums = vec![0.0; k];
        votes.fill(0.0);
        let mut scores = scores.iter();
        for i in 0..k {
            for j in i + 1..k {
                let score = scores.next().copied().unwrap_or(0.0);
                votes[if score < 0.0 { j } else { i }] += 1.0;
                sums[i] += score;
                sums[j] -= score;
            }
        }
        for (vote, sum) in votes.iter_mut().zip(sums) {
            *vote += sum / (3.0 * (sum.abs() + 1.0));
        }
    }

    /// The scores of the classes, those of pairs turned to votes: what Python's `decision_function` returns.
    #[cfg(feature = "python")]
    pub(crate) fn of_classes(&self, scores: Vec<f64>) -> Vec<f64> {
        if !self.pairs {
            return scores;
        }
        let k = self.labels.len();
        let mut votes = vec![0.0; scores.len() / self.outputs() * k];
        for (scores, votes) in scores.chunks(self.outputs()).zip(votes.chunks_mut(k)) {
            self.vote(scores, votes);
        }
        votes
    }

    /// Whether there are probabilities: of models with a calibration, or trained by log loss.
    pub fn has_probabilities(&self) -> bool {
        self.calibration.is_some()
    }

    /// The probability of each class for each row, row after row.
    ///
    /// # Errors
    ///
    /// Those of [`scores`](Model::scores), and where there are no [probabilities](Model::has_probabilities).
    pub fn probabilities<'a>(&self, x: impl Into<Rows<'a>>) -> Result<Vec<f64>, Error> {
        if !self.has_probabilities() {
            return Err(self.no_probabilities());
        }
        self.probabilities_of(&self.scores(x)?)
    }

    fn no_probabilities(&self) -> Error {
        Error::parameter(
            "the model",
            &self.state.class,
            "calibrated, or trained by log loss, to have probabilities",
        )
    }

    /// The probabilities of all classes, given the scores.
    pub(crate) fn probabilities_of(&self, scores: &[f64]) -> Result<Vec<f64>, Error> {
        let calibration = self.calibration.as_ref().ok_or_else(|| self.no_probabilities())?;
        let (k, outputs) = (self.labels.len(), self.outputs());
        let mut probabilities = memory::zeros("the probabilities", &[scores.len() / outputs, k])?;
        for (scores, out) in scores.chunks(outputs).zip(probabilities.chunks_mut(k)) {
            match out {
                // A stream that has met one class.
                [certain] => *certain = 1.0,
                out => calibration.probabilities(scores, self.pairs, out),
            }
        }
        Ok(probabilities)
    }

    /// The share of rows whose label is right.
    ///
    /// # Errors
    ///
    /// Those of [`scores`](Model::scores), and where there are not as many labels as rows, or they are of another kind than
    /// the model's: 1 is not 1.0.
    pub fn accuracy<'a, L>(&self, x: impl Into<Rows<'a>>, labels: &[L]) -> Result<f64, Error>
    where
        L: Clone + Into<Label>,
    {
        let guess = self.predict(x)?;
        check_lengths(&[("labels", labels.len(), guess.len())])?;
        let labels: Vec<Label> = labels.iter().cloned().map(Into::into).collect();
        let kind = std::mem::discriminant::<Label>;
        if let Some(label) = labels.iter().find(|label| kind(label) != kind(&self.labels[0])) {
            let want = format_args!("the kind of the model's, as {:?}", self.labels[0]);
            return Err(Error::shape("labels", want, format_args!("{label:?}")));
        }
        let right = guess.iter().zip(&labels).filter(|(guess, label)| **guess == *label);
        Ok(right.count() as f64 / guess.len().max(1) as f64)
    }
}

fn largest(scores: &[f64]) -> usize {
    // The first of several.
    (1..scores.len()).fold(0, |best, k| if scores[k] > scores[best] { k } else { best })
}

/// Rows as a model sees them.
enum Prepared<S> {
    Dense { values: Vec<S>, n_features: usize },
    Sparse { indptr: Vec<i64>, indices: Vec<i64>, values: Vec<S>, n_features: usize },
}

impl<S: Scalar> Prepared<S> {
    /// These rows, once they have gone through all steps.
    fn new<T: Scalar>(
        steps: &[Step],
        x: &Matrix<'_, T>,
        rows: Range<usize>,
    ) -> Result<Self, Error> {
        let (sparse, d) = (x.is_sparse(), x.n_features());
        let (mut indptr, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
        memory::reserve(
            "a window of rows",
            &mut values,
            if sparse { 0 } else { rows.len().saturating_mul(d) },
        )?;
        for i in rows {
            let mut sound = true;
            x.row(i).for_each(|j, value| {
                sound &= j < d && value.is_finite();
                if sound {
                    let value = steps.iter().fold(value, |x, step| step.apply::<T>(j, x, sparse));
                    let value = S::from_f64(value);
                    sound = value.to_f64().is_finite();
                    values.push(value);
                    if sparse {
                        indices.push(j as i64);
                    }
                }
            });
            if !sound {
                return Err(diagnose(x, i));
            }
            indptr.push(indices.len() as i64);
        }
        Ok(match sparse {
            true => Prepared::Sparse { indptr, indices, values, n_features: d },
            false => Prepared::Dense { values, n_features: d },
        })
    }

    fn matrix(&self) -> Result<Matrix<'_, S>, Error> {
        Ok(match self {
            Prepared::Dense { values, n_features } => {
                Dense::new(values, values.len() / n_features, *n_features)?.into()
            }
            Prepared::Sparse { indptr, indices, values, n_features } => {
                Csr::new(indptr, indices, values, *n_features)?.into()
            }
        })
    }

    fn n_rows(&self) -> usize {
        match self {
            Prepared::Dense { values, n_features } => values.len() / n_features,
            Prepared::Sparse { indptr, .. } => indptr.len() - 1,
        }
    }

    /// These rows, mapped by a metric.
    fn mapped(self, metric: &Metric<S>) -> Result<Self, Error> {
        let n_features = metric.dimension();
        let x = self.matrix()?;
        if metric.is_diagonal() && x.is_sparse() {
            let mut mapped = Vec::new();
            if let Prepared::Sparse { values, .. } = &self {
                mapped = vec![S::default(); values.len()];
            }
            metric.map_stored(&x, 0..self.n_rows(), &mut mapped)?;
            return Ok(match self {
                Prepared::Sparse { indptr, indices, .. } => {
                    Prepared::Sparse { indptr, indices, values: mapped, n_features }
                }
                dense => dense,
            });
        }
        let mut values = memory::zeros("mapped rows", &[self.n_rows(), n_features])?;
        metric.map(&x, 0..self.n_rows(), &mut values)?;
        Ok(Prepared::Dense { values, n_features })
    }

    fn score(&self, frozen: &Frozen<S>, out: &mut [f64]) -> Result<(), Error> {
        let x = self.matrix()?;
        frozen.scoring(&x)?.scores(0..self.n_rows(), out)
    }
}
