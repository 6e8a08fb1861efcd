//! `KernelTrainer`: one kernel problem.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::arrays::{Labels, Matrix, Order, csr, dense, examples};
use super::{lock, pool, silent, unknown, work};
use crate::{
    Average, Ball, Binary, Block, CrammerSinger, Error, Examples, Expansion, ExpansionState, Hinge,
    Hypothesis, Kernel, KernelAscent, Loss, Params, Report, Rows, Scalar, Trainer,
};

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

type Unbounded<S, L> = Mutex<Problem<Expansion<S>, L>>;

/// Locked for a piece of work at a time, and waited for with the interpreter released.
enum Problems {
    Binary32(Unbounded<f32, Binary<Hinge>>),
    Binary64(Unbounded<f64, Binary<Hinge>>),
    Multi32(Unbounded<f32, CrammerSinger>),
    Multi64(Unbounded<f64, CrammerSinger>),
}

/// Runs `$then` with the mutex of the problem, whatever its types.
macro_rules! any {
    ($problem:expr, |$p:ident| $then:expr) => {
        match $problem {
            Problems::Binary32($p) => $then,
            Problems::Binary64($p) => $then,
            Problems::Multi32($p) => $then,
            Problems::Multi64($p) => $then,
        }
    };
}

/// Runs `$then` with the locked problem, whatever its types, and with the interpreter released.
macro_rules! locked {
    ($py:expr, $problem:expr, |$p:ident| $then:expr) => {
        any!(&$problem, |problem| $py.detach(|| {
            #[allow(unused_mut)]
            let mut $p = lock(problem);
            $then
        }))
    };
}

/// Runs `$then` with the problem and the rows, whatever their types; they must agree in the scalar.
macro_rules! with {
    ($problem:expr, $x:expr, |$p:ident, $rows:ident| $then:expr) => {
        match $x {
            Matrix::Dense32(x) => with!($problem, dense(x)?, Binary32, Multi32, $p, $rows, $then),
            Matrix::Csr32I32(x) => with!($problem, csr(x)?, Binary32, Multi32, $p, $rows, $then),
            Matrix::Csr32I64(x) => with!($problem, csr(x)?, Binary32, Multi32, $p, $rows, $then),
            Matrix::Dense64(x) => with!($problem, dense(x)?, Binary64, Multi64, $p, $rows, $then),
            Matrix::Csr64I32(x) => with!($problem, csr(x)?, Binary64, Multi64, $p, $rows, $then),
            Matrix::Csr64I64(x) => with!($problem, csr(x)?, Binary64, Multi64, $p, $rows, $then),
        }
    };
    ($problem:expr, $x:expr, $one:ident, $multi:ident, $p:ident, $rows:ident, $then:expr) => {{
        let $rows = $x;
        match $problem {
            Problems::$one($p) => $then,
            Problems::$multi($p) => $then,
            _ => Err(PyTypeError::new_err("X must have the dtype of the trainer")),
        }
    }};
}

/// The parameters as Python gives them: a dictionary with these keys.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(super) struct PyParams {
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
    pub(super) fn kernel(&self) -> PyResult<Kernel> {
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

    pub(super) fn params(&self, loss: &impl Loss) -> PyResult<Params> {
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

/// What a problem starts from.
struct Start<'a, 'py> {
    n_features: usize,
    sparse: bool,
    parts: Option<&'a Bound<'py, PyDict>>,
}

fn problem<S: Scalar + numpy::Element, L: Loss>(
    loss: L,
    parsed: &PyParams,
    start: &Start<'_, '_>,
) -> PyResult<Unbounded<S, L>> {
    let (kernel, outputs) = (parsed.kernel()?, loss.zeros().as_ref().len());
    let mut w = match start.sparse {
        true => Expansion::sparse(kernel, outputs, start.n_features)?,
        false => Expansion::new(kernel, outputs, start.n_features)?,
    };
    let (mut t, mut updates, mut total) = (0, 0, Report::default());
    if let Some(parts) = start.parts {
        let item = |name: &str| item(parts, name);
        let vector = |name: &str| item(name)?.extract::<PyReadonlyArray1<'_, f64>>();
        let number = |name: &str| item(name)?.extract::<f64>();
        t = item("t")?.extract()?;
        updates = item("updates")?.extract()?;
        total = totals(parts)?;
        let state = ExpansionState {
            v: item("v")?.extract::<PyReadonlyArray1<'_, S>>()?.as_slice()?.to_vec(),
            u: vector("u")?.as_slice()?.to_vec(),
            a: number("a")?,
            norm2: number("norm2")?,
            sum_a: number("sum_a")?,
            sum_q: number("sum_q")?,
            counts: item("counts")?.extract::<PyReadonlyArray1<'_, u32>>()?.as_slice()?.to_vec(),
        };
        let rows: Option<PyReadonlyArray1<'_, i64>> = item("rows")?.extract()?;
        let n_rows: Option<usize> = item("n_rows")?.extract()?;
        if let Some(n_rows) = n_rows {
            w.number_rows(n_rows)?;
        }
        let numbers: Option<Vec<usize>> = match &rows {
            Some(rows) => Some(rows.as_slice()?.iter().map(|&i| i as usize).collect()),
            None => None,
        };
        with_vectors(parts, start.n_features, |vectors| {
            Ok(w.restore(&vectors, numbers.as_deref(), &state)?)
        })?;
    }
    let params = parsed.params(&loss)?;
    let mut trainer = Trainer::resume(w, loss, params, t)?;
    trainer.set_updates(updates);
    Ok(Mutex::new(Problem { trainer, dual: None, frozen: None, total }))
}

/// Calls `f` with the vectors among the parts, once they are checked; false if there are none.
pub(super) fn with_vectors<S: Scalar + numpy::Element>(
    parts: &Bound<'_, PyDict>,
    n_features: usize,
    f: impl FnOnce(crate::Csr<'_, S, i64>) -> PyResult<()>,
) -> PyResult<bool> {
    let indices = item(parts, "indices")?.extract::<PyReadonlyArray1<'_, i64>>()?;
    let indptr = item(parts, "indptr")?.extract::<PyReadonlyArray1<'_, i64>>()?;
    let values = item(parts, "values")?.extract::<PyReadonlyArray1<'_, S>>()?;
    let (indptr, indices) = (indptr.as_slice()?, indices.as_slice()?);
    if indptr.len() == 1 {
        return Ok(false);
    }
    let vectors = crate::Csr::new(indptr, indices, values.as_slice()?, n_features)?;
    let labels = vec![0; vectors.n_rows()];
    Examples::new(vectors, &labels, None)?.check(0..vectors.n_rows())?;
    f(vectors)?;
    Ok(true)
}

/// What all runs have brought about, among the parts.
pub(super) fn totals(parts: &Bound<'_, PyDict>) -> PyResult<Report> {
    let count = |name: &str| item(parts, name)?.extract::<u64>();
    let number = |name: &str| item(parts, name)?.extract::<f64>();
    Ok(Report {
        examples: count("examples")?,
        mistakes: count("mistakes")?,
        degradation: number("degradation")?,
        gradient_error: number("gradient_error")?,
        ..Report::default()
    })
}

/// The same into the parts.
pub(super) fn set_totals(parts: &Bound<'_, PyDict>, total: &Report) -> PyResult<()> {
    parts.set_item("examples", total.examples)?;
    parts.set_item("mistakes", total.mistakes)?;
    parts.set_item("degradation", total.degradation)?;
    parts.set_item("gradient_error", total.gradient_error)
}

pub(super) fn item<'py>(parts: &Bound<'py, PyDict>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let item = parts.get_item(name)?;
    item.ok_or_else(|| PyValueError::new_err(format!("parts lack {name:?}")))
}

/// Vectors in compressed-sparse-row form: numbers of entries before each, columns, values.
pub(super) type Vectors<S> = (Vec<i64>, Vec<i64>, Vec<S>);

fn vectors<S: Scalar>(w: &Expansion<S>) -> Vectors<S> {
    let (mut indptr, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
    for slot in 0..w.n_vectors() {
        w.for_each(slot, |j, x| {
            indices.push(j as i64);
            values.push(x);
        });
        indptr.push(indices.len() as i64);
    }
    (indptr, indices, values)
}

/// A kernel problem: of two classes by one score, of more by a score for each.
#[pyclass(module = "pegasos._core", frozen)]
pub(super) struct KernelTrainer {
    problem: Problems,
    /// What it was made with; goes into pickles.
    n_features: usize,
    sparse: bool,
    classes: usize,
    params: Py<PyDict>,
}

impl KernelTrainer {
    fn make(
        start: Start<'_, '_>,
        classes: usize,
        dtype: &str,
        params: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let parsed: PyParams = params.extract()?;
        let binary = Binary { loss: Hinge, positive: 1 };
        let multi = CrammerSinger { classes };
        let problem = match (dtype, classes) {
            ("float32", 2) => Problems::Binary32(problem(binary, &parsed, &start)?),
            ("float64", 2) => Problems::Binary64(problem(binary, &parsed, &start)?),
            ("float32", _) => Problems::Multi32(problem(multi, &parsed, &start)?),
            ("float64", _) => Problems::Multi64(problem(multi, &parsed, &start)?),
            (other, _) => return Err(unknown("dtype", other)),
        };
        let Start { n_features, sparse, .. } = start;
        let params = params.copy()?.unbind();
        Ok(KernelTrainer { problem, n_features, sparse, classes, params })
    }
}

/// What a run has brought about; and, each so many examples, steps and examples, how many of them were
/// mistakes, and the sum of the gradient errors, all counted from the very first.
pub(super) type Ran = (Report, Vec<(u64, u64, u64, f64)>);

/// The same as Python is told: examples, updates, the sum of the losses, and records.
pub(super) type Told = (u64, u64, f64, Vec<(u64, u64, u64, f64)>);

/// Visits rows, in pieces that end with a batch, a panel, or where a record is due.
pub(super) fn run<X: Rows, H: Hypothesis<Scalar = X::Scalar> + Send, L: Loss + Send>(
    py: Python<'_>,
    problem: &Mutex<Problem<H, L>>,
    data: &Examples<'_, X>,
    order: &Order<'_>,
    threads: usize,
    every: Option<u64>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Ran> {
    let batch = match py.detach(|| lock(problem).trainer.params().block) {
        Block::Mean(batch) => batch,
        Block::Delayed(_) => 1,
    };
    let mut order = order.rows(data.len())?;
    let pool = pool(threads)?;
    let (mut sum, mut records) = (Report::default(), Vec::new());
    let mistakes = AtomicU64::new(0);
    let progress = |done: usize| match progress {
        Some(progress) => progress.call1((done, mistakes.swap(0, Ordering::Relaxed))).map(drop),
        None => Ok(()),
    };
    work(py, progress, |size| {
        let size = size.next_multiple_of(crate::PANEL).div_ceil(batch).saturating_mul(batch);
        let mut problem = lock(problem);
        problem.frozen = None;
        let left = every.map(|every| every - problem.total.examples % every);
        let due = left.map(|left| (left as usize).div_ceil(batch).saturating_mul(batch));
        let size = size.min(due.unwrap_or(usize::MAX));
        let (trainer, rows) = (&mut problem.trainer, order.by_ref().take(size));
        let report = pool.install(|| trainer.run(data, rows))?;
        sum += report;
        problem.total += report;
        mistakes.fetch_add(report.mistakes, Ordering::Relaxed);
        if report.examples as usize == size && due == Some(size) {
            let Report { examples, mistakes, gradient_error, .. } = problem.total;
            records.push((problem.trainer.t(), examples, mistakes, gradient_error));
        }
        Ok((report.examples > 0).then_some(report.examples as usize))
    })?;
    Ok((sum, records))
}

fn evaluate<X: Rows, L: Loss + Clone + Send>(
    py: Python<'_>,
    problem: &Unbounded<X::Scalar, L>,
    data: &Examples<'_, X>,
    threads: usize,
) -> PyResult<(f64, f64)> {
    // A copy, as other threads must not wait for a whole evaluation.
    let (trainer, dual) = py.detach(|| {
        let mut problem = lock(problem);
        let certificate = problem.dual.as_mut().map(|dual| dual.certificate(data));
        // But not of what is kept for later epochs.
        let kept = problem.trainer.hypothesis_mut().take_kept();
        let trainer = problem.trainer.clone();
        problem.trainer.hypothesis_mut().give_kept(kept);
        (trainer, certificate)
    });
    if let Some(certificate) = dual {
        let certificate = certificate?;
        return Ok((certificate.primal, certificate.dual));
    }
    let mut evaluation = trainer.evaluation(data)?;
    let pool = pool(threads)?;
    let mut at = 0;
    work(py, silent, |size| {
        let end = at + size.min(data.len() - at);
        pool.install(|| evaluation.add(at..end))?;
        at = end;
        Ok((at < data.len()).then_some(size))
    })?;
    let certificate = evaluation.finish()?;
    Ok((certificate.primal, certificate.dual))
}

/// The model, copied when first asked for.
fn frozen<S: Scalar, L: Loss + Clone>(problem: &mut Problem<Expansion<S>, L>) -> Arc<Expansion<S>> {
    let Problem { trainer, frozen, .. } = problem;
    let model = || {
        let kept = trainer.hypothesis_mut().take_kept();
        let model = trainer.result();
        trainer.hypothesis_mut().give_kept(kept);
        Arc::new(model)
    };
    frozen.get_or_insert_with(model).clone()
}

/// Scores of rows, one after the other.
pub(super) fn scores<'py, X: Rows>(
    py: Python<'py>,
    w: &Expansion<X::Scalar>,
    rows: &X,
    threads: usize,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    w.check_features(rows.n_features())?;
    let pool = pool(threads)?;
    let (n, outputs) = (rows.n_rows(), w.outputs());
    let mut scores = vec![0.0; n * outputs];
    let mut at = 0;
    work(py, silent, |size| {
        let end = at + size.min(n - at);
        let numbers: Vec<usize> = (at..end).collect();
        let out = &mut scores[at * outputs..end * outputs];
        pool.install(|| w.scores_side_by_side(rows, &numbers, out));
        at = end;
        Ok((at < n).then_some(size))
    })?;
    Ok(PyArray1::from_vec(py, scores))
}

/// Gives the trainer what dual ascent has found, as if it had made it.
fn end_dual<X: Rows, L: Loss + Clone + Send>(
    py: Python<'_>,
    problem: &Unbounded<X::Scalar, L>,
    data: &Examples<'_, X>,
) -> PyResult<()> {
    Ok(py.detach(|| {
        let mut problem = lock(problem);
        if let Some(mut dual) = problem.dual.take() {
            let w = dual.result(data)?;
            let trainer = &problem.trainer;
            let (loss, params) = (trainer.loss().clone(), *trainer.params());
            let (t, updates) = (trainer.t() + data.len() as u64, trainer.updates());
            problem.trainer = Trainer::resume(w, loss, params, t)?;
            problem.trainer.set_updates(updates);
            problem.frozen = None;
        }
        Ok::<_, Error>(())
    })?)
}

/// Coefficients, vectors x outputs; row numbers; counts.
type Found<'py> =
    (Bound<'py, PyArray1<f64>>, Option<Bound<'py, PyArray1<u32>>>, Bound<'py, PyArray1<u32>>);

#[pymethods]
impl KernelTrainer {
    #[new]
    fn new(
        n_features: usize,
        sparse: bool,
        classes: usize,
        dtype: &str,
        params: Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        KernelTrainer::make(Start { n_features, sparse, parts: None }, classes, dtype, &params)
    }

    #[getter]
    fn t(&self, py: Python<'_>) -> u64 {
        locked!(py, self.problem, |p| p.trainer.t())
    }

    #[getter]
    fn n_features(&self) -> usize {
        self.n_features
    }

    /// Whether it was made for sparse rows.
    #[getter]
    fn sparse(&self) -> bool {
        self.sparse
    }

    #[getter]
    fn dtype(&self) -> &'static str {
        match &self.problem {
            Problems::Binary32(_) | Problems::Multi32(_) => "float32",
            Problems::Binary64(_) | Problems::Multi64(_) => "float64",
        }
    }

    /// From here on rows are those of one matrix of so many, and their coefficients are recorded.
    /// `keep` is how many bytes of kernel values may be kept for later epochs.
    fn number_rows(
        &self,
        py: Python<'_>,
        n_rows: usize,
        ledger: bool,
        keep: usize,
    ) -> PyResult<()> {
        Ok(locked!(py, self.problem, |p| {
            let w = p.trainer.hypothesis_mut();
            w.number_rows(n_rows)?;
            if keep > 0 {
                w.keep_kernel(keep);
            }
            if ledger {
                p.trainer.keep_ledger(n_rows);
            }
            Ok::<_, Error>(())
        })?)
    }

    /// Training on these rows is over: forgets what was recorded and kept for it.
    fn forget_ledger(&self, py: Python<'_>) {
        locked!(py, self.problem, |p| {
            p.trainer.forget_ledger();
            p.trainer.hypothesis_mut().keep_kernel(0);
        });
    }

    /// The matrix is no longer the same.
    fn forget_rows(&self, py: Python<'_>) {
        locked!(py, self.problem, |p| {
            p.trainer.forget_ledger();
            p.trainer.hypothesis_mut().forget_rows();
        });
    }

    /// Reads every value and index, and says what is wrong with the first that is.
    fn check(&self, py: Python<'_>, x: Matrix<'_>, labels: Labels<'_>) -> PyResult<()> {
        with!(&self.problem, &x, |_p, rows| {
            let data = examples(rows, &labels)?;
            let mut at = 0;
            work(py, silent, |size| {
                let end = at + size.min(data.len() - at);
                data.check(at..end)?;
                at = end;
                Ok((at < data.len()).then_some(size))
            })
        })
    }

    /// Visits rows; returns their number, the number of updates, the sum of the losses, and records.
    #[pyo3(signature = (x, labels, order, *, threads = 1, every = None, progress = None))]
    #[allow(clippy::too_many_arguments, reason = "keywords in Python")]
    fn run(
        &self,
        py: Python<'_>,
        x: Matrix<'_>,
        labels: Labels<'_>,
        order: Order<'_>,
        threads: usize,
        every: Option<u64>,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Told> {
        let (report, records) = with!(&self.problem, &x, |problem, rows| {
            let data = examples(rows, &labels)?;
            run(py, problem, &data, &order, threads, every, progress.as_ref())
        })?;
        Ok((report.examples, report.updates, report.loss, records))
    }

    /// The objective and its dual bound.
    #[pyo3(signature = (x, labels, *, threads = 1))]
    fn evaluate(
        &self,
        py: Python<'_>,
        x: Matrix<'_>,
        labels: Labels<'_>,
        threads: usize,
    ) -> PyResult<(f64, f64)> {
        with!(&self.problem, &x, |problem, rows| {
            evaluate(py, problem, &examples(rows, &labels)?, threads)
        })
    }

    /// From here on `ascend` goes on, until `end_dual`, with kernel values of so many bytes in memory.
    #[pyo3(signature = (x, labels, cache, *, threads = 1))]
    fn begin_dual(
        &self,
        py: Python<'_>,
        x: Matrix<'_>,
        labels: Labels<'_>,
        cache: usize,
        threads: usize,
    ) -> PyResult<()> {
        with!(&self.problem, &x, |problem, rows| {
            let data = examples(rows, &labels)?;
            let pool = pool(threads)?;
            work(py, silent, |_| {
                let mut problem = lock(problem);
                let dual =
                    pool.install(|| KernelAscent::take_over(&problem.trainer, &data, cache))?;
                problem.dual = Some(dual);
                Ok(None)
            })
        })
    }

    /// A step of dual ascent, if the relative gap is not at most `tol`; the objective, its bound and the
    /// mean loss before it.
    #[pyo3(signature = (x, labels, tol, *, threads = 1))]
    fn ascend(
        &self,
        py: Python<'_>,
        x: Matrix<'_>,
        labels: Labels<'_>,
        tol: f64,
        threads: usize,
    ) -> PyResult<(f64, f64, f64)> {
        with!(&self.problem, &x, |problem, rows| {
            let data = examples(rows, &labels)?;
            let pool = pool(threads)?;
            let mut last = (f64::NAN, f64::NAN, f64::NAN);
            work(py, silent, |size| {
                let mut problem = lock(problem);
                let Some(dual) = &mut problem.dual else {
                    return Ok(None);
                };
                let found = pool.install(|| dual.advance(&data, tol, size))?;
                if let Some(certificate) = found {
                    last = (certificate.primal, certificate.dual, dual.mean_loss());
                }
                Ok(found.is_none().then_some(size))
            })?;
            Ok(last)
        })
    }

    /// Gives the trainer what dual ascent has found.
    fn end_dual(&self, py: Python<'_>, x: Matrix<'_>, labels: Labels<'_>) -> PyResult<()> {
        with!(&self.problem, &x, |problem, rows| {
            end_dual(py, problem, &examples(rows, &labels)?)
        })
    }

    /// Scores of rows, one after the other.
    #[pyo3(signature = (x, *, threads = 1))]
    fn scores<'py>(
        &self,
        py: Python<'py>,
        x: Matrix<'_>,
        threads: usize,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        with!(&self.problem, &x, |problem, rows| {
            let w = py.detach(|| frozen(&mut lock(problem)));
            scores(py, &w, &rows, threads)
        })
    }

    /// The coefficients, vectors x outputs, flat; which row each vector is, where it is known; how often
    /// each was added.
    fn result<'py>(&self, py: Python<'py>) -> Found<'py> {
        let (coefs, rows, counts) = locked!(py, self.problem, |p| {
            let w = frozen(&mut p);
            let mut coefs = vec![0.0; w.n_vectors() * w.outputs()];
            for (slot, coef) in coefs.chunks_mut(w.outputs()).enumerate() {
                w.coef(slot, coef);
            }
            (coefs, w.rows().map(<[u32]>::to_vec), w.counts().to_vec())
        });
        let rows = rows.map(|rows| PyArray1::from_vec(py, rows));
        (PyArray1::from_vec(py, coefs), rows, PyArray1::from_vec(py, counts))
    }

    /// The vectors in compressed-sparse-row form: indptr, indices, values.
    fn vectors<'py>(
        &self,
        py: Python<'py>,
    ) -> (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>, Bound<'py, PyAny>) {
        fn all<'py, S: Scalar + numpy::Element, L: Loss + Send>(
            py: Python<'py>,
            problem: &Unbounded<S, L>,
        ) -> (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>, Bound<'py, PyAny>) {
            let (indptr, indices, values) =
                py.detach(|| vectors(lock(problem).trainer.hypothesis()));
            (
                PyArray1::from_vec(py, indptr),
                PyArray1::from_vec(py, indices),
                PyArray1::from_vec(py, values).into_any(),
            )
        }
        any!(&self.problem, |problem| all(py, problem))
    }

    /// Everything but ledgers and dual variables, as plain numbers and arrays.
    fn parts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        fn all<S: Scalar + numpy::Element, L: Loss + Send>(
            py: Python<'_>,
            problem: &Unbounded<S, L>,
            dict: &Bound<'_, PyDict>,
        ) -> PyResult<()> {
            let (total, updates, t, state, rows, n_rows, (indptr, indices, values)) =
                py.detach(|| {
                    let problem = lock(problem);
                    let updates = problem.trainer.updates();
                    let w = problem.trainer.hypothesis();
                    let rows = w.rows().map(|rows| rows.iter().map(|&i| i64::from(i)).collect());
                    let t = problem.trainer.t();
                    (problem.total, updates, t, w.state(), rows, w.n_rows(), vectors(w))
                });
            let rows: Option<Vec<i64>> = rows;
            set_totals(dict, &total)?;
            dict.set_item("updates", updates)?;
            dict.set_item("t", t)?;
            dict.set_item("v", PyArray1::from_vec(py, state.v))?;
            dict.set_item("u", PyArray1::from_vec(py, state.u))?;
            dict.set_item("counts", PyArray1::from_vec(py, state.counts))?;
            dict.set_item("rows", rows.map(|rows| PyArray1::from_vec(py, rows)))?;
            dict.set_item("n_rows", n_rows)?;
            dict.set_item("indptr", PyArray1::from_vec(py, indptr))?;
            dict.set_item("indices", PyArray1::from_vec(py, indices))?;
            dict.set_item("values", PyArray1::from_vec(py, values))?;
            for (name, value) in [
                ("a", state.a),
                ("norm2", state.norm2),
                ("sum_a", state.sum_a),
                ("sum_q", state.sum_q),
            ] {
                dict.set_item(name, value)?;
            }
            Ok(())
        }
        let dict = PyDict::new(py);
        dict.set_item("format", FORMAT)?;
        dict.set_item("dtype", self.dtype())?;
        dict.set_item("n_features", self.n_features)?;
        dict.set_item("sparse", self.sparse)?;
        dict.set_item("classes", self.classes)?;
        dict.set_item("params", self.params.bind(py).copy()?)?;
        any!(&self.problem, |problem| all(py, problem, &dict))?;
        Ok(dict)
    }

    /// Restores what `parts` gave.
    #[staticmethod]
    fn from_parts(parts: Bound<'_, PyDict>) -> PyResult<Self> {
        let format: u32 = item(&parts, "format")?.extract()?;
        if format != FORMAT {
            return Err(PyValueError::new_err(format!(
                "parts must have format {FORMAT}, got {format}: another version of pegasos wrote them"
            )));
        }
        let start = Start {
            n_features: item(&parts, "n_features")?.extract()?,
            sparse: item(&parts, "sparse")?.extract()?,
            parts: Some(&parts),
        };
        let params = item(&parts, "params")?.cast_into::<PyDict>()?;
        let dtype: String = item(&parts, "dtype")?.extract()?;
        KernelTrainer::make(start, item(&parts, "classes")?.extract()?, &dtype, &params)
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyDict>,))> {
        let parts = slf.get().parts(slf.py())?;
        Ok((slf.getattr("from_parts")?, (parts,)))
    }
}

/// Of what `parts` gives; a change of its keys' meaning gets a new number.
const FORMAT: u32 = 2;
