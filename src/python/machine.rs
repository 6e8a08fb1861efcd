//! What `KernelTrainer` and `BudgetTrainer` share: a problem whose w has support vectors.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::arrays::Order;
use super::problem::{Typed, check_format, item};
use super::{Pace, first_of, in_pieces_from, lock, pool, unknown, work_from};
use crate::{
    Average, Ball, Binary, Block, CrammerSinger, Csr, Dense, Error, Examples, Expansion, Hinge,
    Hypothesis, Kernel, KernelAscent, Loss, Params, Report, Rows, Scalar, Trainer, data, memory,
};

/// A w of support vectors, as either class has it.
pub(super) trait Machine: Hypothesis<Scalar: numpy::Element> + Send + Sized {
    /// One without vectors.
    fn make(
        kernel: Kernel,
        outputs: usize,
        made: &Made,
        params: &Bound<'_, PyDict>,
    ) -> PyResult<Self>;

    /// Gives it, without vectors yet, those among the parts and all else that it held.
    fn take_parts(&mut self, parts: &Bound<'_, PyDict>) -> PyResult<()>;

    /// The parameters of its trainer, given those of kernel problems in general.
    fn adapt(&self, params: Params) -> Params {
        params
    }

    fn n_vectors(&self) -> usize;

    /// Calls `f(column, value)` for every feature that is not 0 of the k-th vector.
    fn for_each(&self, k: usize, f: impl FnMut(usize, Self::Scalar));

    /// How many rows are best visited at a time.
    const PANEL: usize;

    /// A copy of a trainer.
    fn copy<L: Loss + Clone>(trainer: &mut Trainer<Self, L>) -> Result<Trainer<Self, L>, Error>;

    /// What predicts.
    fn model<L: Loss>(trainer: &mut Trainer<Self, L>) -> Result<Expansion<Self::Scalar>, Error>;
}

/// A trainer, and what it has brought about.
pub(super) struct Problem<H: Hypothesis, L: Loss> {
    pub(super) trainer: Trainer<H, L>,
    /// Goes on in its stead, if w is an [`Expansion`].
    pub(super) dual: Option<KernelAscent<H::Scalar, L>>,
    /// What predicts, as long as the trainer has not gone on: a copy, as others may train meanwhile.
    pub(super) frozen: Option<Arc<Expansion<H::Scalar>>>,
    /// Of all runs.
    pub(super) total: Report,
}

/// Of two classes by one score, of more by a score for each.
pub(super) type Problems<H32, H64> = Typed<
    Problem<H32, Binary<Hinge>>,
    Problem<H64, Binary<Hinge>>,
    Problem<H32, CrammerSinger>,
    Problem<H64, CrammerSinger>,
>;

impl<H32: Machine, H64: Machine> Problems<H32, H64> {
    /// One that begins, or goes on from parts.
    pub(super) fn make(
        py: Python<'_>,
        made: &Made,
        dtype: &str,
        parts: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let params = made.params.bind(py);
        let binary = Binary { loss: Hinge, positive: 1 };
        let multi = CrammerSinger { classes: made.classes };
        Ok(match (dtype, made.classes) {
            ("float32", 2) => Typed::Binary32(Problem::make(binary, made, params, parts)?),
            ("float64", 2) => Typed::Binary64(Problem::make(binary, made, params, parts)?),
            ("float32", _) => Typed::Multi32(Problem::make(multi, made, params, parts)?),
            ("float64", _) => Typed::Multi64(Problem::make(multi, made, params, parts)?),
            (other, _) => return Err(unknown("dtype", other)),
        })
    }
}

impl<H32: Machine, H64: Machine> Problems<H32, H64> {
    /// One that goes on from the same state.
    pub(super) fn copy(&self, py: Python<'_>) -> PyResult<Self> {
        fn copy<H: Machine, L: Loss + Clone + Send>(
            py: Python<'_>,
            problem: &Mutex<Problem<H, L>>,
        ) -> PyResult<Mutex<Problem<H, L>>> {
            Ok(py.detach(|| {
                let problem = &mut *lock(problem);
                let trainer = H::copy(&mut problem.trainer)?;
                let (frozen, total) = (problem.frozen.clone(), problem.total);
                Ok::<_, Error>(Mutex::new(Problem { trainer, dual: None, frozen, total }))
            })?)
        }
        Ok(match self {
            Typed::Binary32(p) => Typed::Binary32(copy(py, p)?),
            Typed::Binary64(p) => Typed::Binary64(copy(py, p)?),
            Typed::Multi32(p) => Typed::Multi32(copy(py, p)?),
            Typed::Multi64(p) => Typed::Multi64(copy(py, p)?),
        })
    }
}

impl<H: Machine, L: Loss> Problem<H, L> {
    fn make(
        loss: L,
        made: &Made,
        params: &Bound<'_, PyDict>,
        parts: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Mutex<Self>> {
        let parsed: PyParams = params.extract()?;
        memory::check::<[f64; 2]>("the scores of an example", &[made.classes])?;
        let mut w = H::make(parsed.kernel()?, loss.zeros().as_ref().len(), made, params)?;
        let (mut t, mut updates, mut total) = (0, 0, Report::default());
        if let Some(parts) = parts {
            t = item(parts, "t")?.extract()?;
            updates = item(parts, "updates")?.extract()?;
            total = Report {
                steps: item(parts, "steps")?.extract()?,
                examples: item(parts, "examples")?.extract()?,
                mistakes: item(parts, "mistakes")?.extract()?,
                degradation: item(parts, "degradation")?.extract()?,
                gradient_error: item(parts, "gradient_error")?.extract()?,
                ..Report::default()
            };
            w.take_parts(parts)?;
        }
        let params = w.adapt(parsed.params(&loss)?);
        let mut trainer = Trainer::resume(w, loss, params, t)?;
        trainer.set_updates(updates);
        Ok(Mutex::new(Problem { trainer, dual: None, frozen: None, total }))
    }

    /// What predicts, made when first asked for.
    pub(super) fn frozen(&mut self) -> Result<Arc<Expansion<H::Scalar>>, Error> {
        if let Some(model) = &self.frozen {
            return Ok(model.clone());
        }
        let model = Arc::new(H::model(&mut self.trainer)?);
        self.frozen = Some(model.clone());
        Ok(model)
    }
}

/// The parameters as Python gives them: a dictionary with these keys.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct PyParams {
    kernel: String,
    gamma: f64,
    coef0: f64,
    degree: u32,
    alpha: f64,
    /// The mean weight of the examples, where the ball that the loss gives is projected on.
    projection: Option<f64>,
    batch_size: usize,
    average: String,
    /// How far back an average of recent iterates reaches, in updates.
    window: u64,
    average_from: u64,
}

impl PyParams {
    fn kernel(&self) -> PyResult<Kernel> {
        let &PyParams { gamma, coef0, degree, .. } = self;
        Ok(match self.kernel.as_str() {
            "linear" => Kernel::Linear,
            "rbf" => Kernel::Rbf { gamma },
            "poly" => Kernel::Poly { gamma, coef0, degree },
            "sigmoid" => Kernel::Sigmoid { gamma, coef0 },
            "precomputed" => Kernel::Precomputed,
            other => return Err(unknown("kernel", other)),
        })
    }

    fn params(&self, loss: &impl Loss) -> PyResult<Params> {
        let radius = self.projection.map(|weight| loss.radius(self.alpha, weight));
        Ok(Params {
            lambda: self.alpha,
            set: radius.map(|radius| Ball { radius }),
            block: Block::Mean(self.batch_size),
            average: match self.average.as_str() {
                "none" => Average::None,
                "uniform" => Average::Uniform,
                "polynomial" => Average::Polynomial,
                "recent" => Average::Recent { window: self.window },
                other => return Err(unknown("average", other)),
            },
            average_from: self.average_from,
            ..Params::default()
        })
    }
}

/// What a trainer was made with; goes into pickles.
pub(super) struct Made {
    pub(super) n_features: usize,
    pub(super) sparse: bool,
    pub(super) classes: usize,
    pub(super) params: Py<PyDict>,
}

impl Made {
    pub(super) fn new(
        n_features: usize,
        sparse: bool,
        classes: usize,
        params: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        Ok(Made { n_features, sparse, classes, params: params.copy()?.unbind() })
    }

    /// Another for a copy.
    pub(super) fn copy(&self, py: Python<'_>) -> Self {
        let Made { n_features, sparse, classes, ref params } = *self;
        Made { n_features, sparse, classes, params: params.clone_ref(py) }
    }

    /// Reads it from parts, and the dtype.
    pub(super) fn from_parts(parts: &Bound<'_, PyDict>, format: u32) -> PyResult<(Self, String)> {
        check_format(parts, format)?;
        let made = Made::new(
            item(parts, "n_features")?.extract()?,
            item(parts, "sparse")?.extract()?,
            item(parts, "classes")?.extract()?,
            item(parts, "params")?.cast::<PyDict>()?,
        )?;
        Ok((made, item(parts, "dtype")?.extract()?))
    }

    /// Parts that begin with it.
    pub(super) fn parts<'py>(
        &self,
        py: Python<'py>,
        format: u32,
        dtype: &str,
    ) -> PyResult<Bound<'py, PyDict>> {
        let parts = PyDict::new(py);
        parts.set_item("format", format)?;
        parts.set_item("dtype", dtype)?;
        parts.set_item("n_features", self.n_features)?;
        parts.set_item("sparse", self.sparse)?;
        parts.set_item("classes", self.classes)?;
        parts.set_item("params", self.params.bind(py).copy()?)?;
        Ok(parts)
    }
}

/// What all runs have brought about, into the parts.
pub(super) fn set_totals(parts: &Bound<'_, PyDict>, total: &Report) -> PyResult<()> {
    parts.set_item("steps", total.steps)?;
    parts.set_item("examples", total.examples)?;
    parts.set_item("mistakes", total.mistakes)?;
    parts.set_item("degradation", total.degradation)?;
    parts.set_item("gradient_error", total.gradient_error)
}

/// Calls one of these with the vectors among the parts, once they are checked: all their features, row after row, or
/// those that are not 0. Neither, if there are none.
pub(super) fn with_vectors<S: Scalar + numpy::Element>(
    parts: &Bound<'_, PyDict>,
    n_features: usize,
    f: impl FnOnce(Rowwise<'_, S>) -> Result<(), Error>,
) -> PyResult<()> {
    let values = item(parts, "values")?.extract::<PyReadonlyArray1<'_, S>>()?;
    let values = values.as_slice()?;
    let labels = |n| memory::zeros("labels", &[n]);
    if item(parts, "indptr")?.is_none() {
        if values.is_empty() {
            return Ok(());
        }
        let vectors = Dense::new(values, values.len() / n_features.max(1), n_features)?;
        Examples::new(vectors, &labels(vectors.n_rows())?, None)?.check(0..vectors.n_rows())?;
        return Ok(f(Rowwise::Dense(vectors))?);
    }
    let indices = item(parts, "indices")?.extract::<PyReadonlyArray1<'_, i64>>()?;
    let indptr = item(parts, "indptr")?.extract::<PyReadonlyArray1<'_, i64>>()?;
    let (indptr, indices) = (indptr.as_slice()?, indices.as_slice()?);
    if indptr.len() == 1 {
        return Ok(());
    }
    let vectors = Csr::new(indptr, indices, values, n_features)?;
    Examples::new(vectors, &labels(vectors.n_rows())?, None)?.check(0..vectors.n_rows())?;
    Ok(f(Rowwise::Sparse(vectors))?)
}

/// Vectors as they are stored.
pub(super) enum Rowwise<'a, S> {
    Dense(Dense<'a, S>),
    Sparse(Csr<'a, S, i64>),
}

/// Vectors in compressed-sparse-row form: numbers of entries before each, columns, values.
pub(super) type Vectors<S> = (Vec<i64>, Vec<i64>, Vec<S>);

pub(super) fn vectors<H: Machine>(w: &H) -> Vectors<H::Scalar> {
    let (mut indptr, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
    for k in 0..w.n_vectors() {
        w.for_each(k, |j, x| {
            indices.push(j as i64);
            values.push(x);
        });
        indptr.push(indices.len() as i64);
    }
    (indptr, indices, values)
}

/// What a machine stores of its vectors: all features, so that their number is that of an array, where rows are dense;
/// else those that are not 0.
pub(super) enum Stored<S> {
    Dense(Vec<S>),
    Sparse(Vectors<S>),
}

impl<S: Scalar + numpy::Element> Stored<S> {
    pub(super) fn of<H: Machine<Scalar = S>>(
        w: &H,
        n_features: usize,
        sparse: bool,
    ) -> Result<Self, Error> {
        if sparse {
            return Ok(Stored::Sparse(vectors(w)));
        }
        let mut all = memory::zeros("the support vectors", &[w.n_vectors(), n_features])?;
        for (k, features) in all.chunks_mut(n_features).enumerate() {
            w.for_each(k, |j, x| features[j] = x);
        }
        Ok(Stored::Dense(all))
    }

    /// Into the parts.
    pub(super) fn set(self, parts: &Bound<'_, PyDict>) -> PyResult<()> {
        let py = parts.py();
        let (indptr, indices, values) = match self {
            Stored::Dense(values) => (None, None, PyArray1::from_vec(py, values).into_any()),
            Stored::Sparse(vectors) => {
                let (indptr, indices, values) = to_arrays(py, vectors);
                (Some(indptr), Some(indices), values)
            }
        };
        parts.set_item("indptr", indptr)?;
        parts.set_item("indices", indices)?;
        parts.set_item("values", values)
    }
}

/// The same as Python takes it.
pub(super) type Arrays<'py> =
    (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>, Bound<'py, PyAny>);

pub(super) fn to_arrays<S: Scalar + numpy::Element>(
    py: Python<'_>,
    (indptr, indices, values): Vectors<S>,
) -> Arrays<'_> {
    let (indptr, indices) = (PyArray1::from_vec(py, indptr), PyArray1::from_vec(py, indices));
    (indptr, indices, PyArray1::from_vec(py, values).into_any())
}

/// The coefficients, vectors x outputs.
pub(super) fn coefs<S: Scalar>(w: &Expansion<S>) -> Vec<f64> {
    let mut coefs = vec![0.0; w.n_vectors() * w.outputs()];
    for (slot, coef) in coefs.chunks_mut(w.outputs()).enumerate() {
        w.coef(slot, coef);
    }
    coefs
}

/// What Python is told of a run: examples, updates, the sum of the losses; and, each so many examples, steps
/// and examples, how many of them were mistakes, and the sum of the gradient errors, all counted from the
/// very first.
pub(super) type Told = (u64, u64, f64, Vec<(u64, u64, u64, f64)>);

/// Visits rows, in pieces that end with a batch, a panel, or where a record is due.
pub(super) fn run<X: Rows, H: Machine<Scalar = X::Scalar>, L: Loss + Send>(
    py: Python<'_>,
    problem: &Mutex<Problem<H, L>>,
    data: &Examples<'_, X>,
    order: &Order<'_>,
    threads: usize,
    every: Option<u64>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Told> {
    let (block, vectors) = py.detach(|| {
        let trainer = &lock(problem).trainer;
        (trainer.params().block, trainer.hypothesis().n_vectors())
    });
    let batch = if let Block::Mean(batch) = block { batch } else { 1 };
    // Products with all vectors, and for projections with a matrix of them.
    let first = first_of(vectors * (data.rows().n_features() + vectors));
    let mut order = order.rows(data.len())?;
    let pool = pool(threads)?;
    let (mut sum, mut records) = (Report::default(), Vec::new());
    let before = py.detach(|| lock(problem).total);
    let mistakes = AtomicU64::new(0);
    let progress = |done: usize| match progress {
        Some(progress) => progress.call1((done, mistakes.swap(0, Ordering::Relaxed))).map(drop),
        None => Ok(()),
    };
    work_from(py, &Pace::new(first), progress, |size| {
        let size = size.next_multiple_of(H::PANEL).div_ceil(batch).saturating_mul(batch);
        let mut problem = lock(problem);
        problem.frozen = None;
        let left = every.map(|every| every - problem.total.examples % every);
        let due = left.map(|left| (left as usize).div_ceil(batch).saturating_mul(batch));
        let size = size.min(due.unwrap_or(usize::MAX));
        let (trainer, rows) = (&mut problem.trainer, order.by_ref().take(size));
        let so_far = sum;
        sum = pool.install(|| trainer.go_on(data, rows, so_far))?;
        problem.total = before;
        problem.total += sum;
        mistakes.fetch_add(sum.mistakes - so_far.mistakes, Ordering::Relaxed);
        let visited = (sum.examples - so_far.examples) as usize;
        if visited == size && due == Some(size) {
            let Report { steps, examples, mistakes, gradient_error, .. } = problem.total;
            records.push((steps, examples, mistakes, gradient_error));
        }
        Ok((visited > 0).then_some(visited))
    })?;
    Ok((sum.examples, sum.updates, sum.loss, records))
}

/// Scores of rows, one after the other.
pub(super) fn scores<'py, X: Rows, H: Machine<Scalar = X::Scalar>, L: Loss + Send>(
    py: Python<'py>,
    problem: &Mutex<Problem<H, L>>,
    rows: &X,
    threads: usize,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let w = py.detach(|| lock(problem).frozen())?;
    w.check_features(rows.n_features())?;
    let pool = pool(threads)?;
    let outputs = w.outputs();
    let mut scores = memory::zeros("the scores", &[rows.n_rows(), outputs])?;
    // The room that the products of a row need.
    py.detach(|| w.no_vectors().check_room(crate::PANEL))?;
    let first = first_of(w.n_vectors() * (rows.n_features() + outputs));
    in_pieces_from(py, first, rows.n_rows(), |piece| {
        let first = piece.start;
        let out = &mut scores[first * outputs..piece.end * outputs];
        let numbers: Vec<usize> = piece.collect();
        if w.n_vectors() == 0 {
            // Else no product would meet what they hold.
            return data::squared_norms(rows, first..first + numbers.len()).map(drop);
        }
        pool.install(|| w.scores_side_by_side(rows, &numbers, out));
        data::check_scores(rows, first, outputs, out)
    })?;
    Ok(PyArray1::from_vec(py, scores))
}
