//! The compiled half of the Python package: one private class, and no algorithm.
//!
//! Arrays are borrowed, never copied; the Python side has made them contiguous. The interpreter is
//! released while training, in pieces of about 50 ms, and Ctrl-C is looked for in between.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use numpy::{
    PyArray1, PyArrayDescrMethods, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArray,
    PyUntypedArrayMethods,
};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::{
    AnyLoss, Average, Binary, Csr, Dense, Error, ErrorKind, Evaluation, Examples, Linear,
    LinearState, Loss, Params, Report, Rows, Sampling, Scalar, Schedule, Trainer, run_all,
};

pyo3::create_exception!(
    pegasos,
    InternalError,
    PyRuntimeError,
    "A defect of pegasos itself, not of its input. Please report it."
);
pyo3::create_exception!(
    pegasos._core,
    NonFiniteError,
    PyValueError,
    "The data hold NaN or infinity, or numbers so large that a score overflows."
);

impl From<Error> for PyErr {
    fn from(error: Error) -> Self {
        // The one parameter whose name in Python is another.
        let text = error.to_string().replace("lambda", "alpha");
        match error.kind() {
            ErrorKind::NonFinite { .. } => NonFiniteError::new_err(text),
            _ => PyValueError::new_err(text),
        }
    }
}

/// How long the interpreter is left alone at a time.
const PIECE: Duration = Duration::from_millis(50);

/// Calls `piece(size)` with the interpreter released until it returns `None`, with a size that makes
/// a call take about [`PIECE`]; in between attends to signals and tells `progress` what `piece`
/// returned. A panic becomes an `InternalError`.
fn work(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    mut piece: impl FnMut(usize) -> Result<Option<usize>, Error> + Send,
) -> PyResult<()> {
    let mut size = 1024;
    loop {
        let (done, took) = py.detach(|| {
            let start = Instant::now();
            (catch_unwind(AssertUnwindSafe(|| piece(size))), start.elapsed())
        });
        let done = done.map_err(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            InternalError::new_err(text.unwrap_or("a panic without a message").to_owned())
        })??;
        py.check_signals()?;
        let Some(done) = done else {
            return Ok(());
        };
        if let Some(progress) = progress {
            progress.call1((done,))?;
        }
        // Without the time that the interpreter was waited for, which no smaller piece would shorten.
        if took < PIECE / 2 {
            size *= 2;
        } else if took > PIECE {
            size = (size / 2).max(1);
        }
    }
}

/// The pool of `threads` threads of this process. A forked child inherits a pool without its
/// threads, so the pool is kept with the number of the process that made it.
fn pool(threads: usize) -> PyResult<Arc<rayon::ThreadPool>> {
    type Made = (u32, usize, Arc<rayon::ThreadPool>);
    static POOL: Mutex<Option<Made>> = Mutex::new(None);
    let key = (std::process::id(), threads);
    let mut made = POOL.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some((pid, threads, pool)) = &*made
        && (*pid, *threads) == key
    {
        return Ok(pool.clone());
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = Arc::new(pool.map_err(|e| PyRuntimeError::new_err(e.to_string()))?);
    // Dropping a pool inherited through a fork would wait for threads that are not there.
    if let Some((pid, _, old)) = made.replace((key.0, key.1, pool.clone()))
        && pid != key.0
    {
        std::mem::forget(old);
    }
    Ok(pool)
}

/// A matrix as Python hands it over: a C-contiguous 2-D array, or `(indptr, indices, data,
/// n_features)` of a CSR matrix.
enum Matrix<'py> {
    Dense32(PyReadonlyArray2<'py, f32>),
    Dense64(PyReadonlyArray2<'py, f64>),
    Csr32I32(CsrParts<'py, f32, i32>),
    Csr32I64(CsrParts<'py, f32, i64>),
    Csr64I32(CsrParts<'py, f64, i32>),
    Csr64I64(CsrParts<'py, f64, i64>),
}

impl<'py> FromPyObject<'_, 'py> for Matrix<'py> {
    type Error = PyErr;

    /// Looks at dtypes first: an attempt that fails makes NumPy's Python code word an error, slowly,
    /// and a Ctrl-C that arrives meanwhile is lost in it.
    fn extract(x: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let is_f32 = |array: &Bound<'py, PyAny>| {
            let array = array.cast::<PyUntypedArray>()?;
            PyResult::Ok(array.dtype().is_equiv_to(&numpy::dtype::<f32>(x.py())))
        };
        let Ok(parts) = x.cast::<PyTuple>() else {
            return Ok(match is_f32(&x.to_owned())? {
                true => Matrix::Dense32(x.extract()?),
                false => Matrix::Dense64(x.extract()?),
            });
        };
        let indices = parts.get_item(1)?;
        let indices = indices.cast::<PyUntypedArray>()?;
        let is_i32 = indices.dtype().is_equiv_to(&numpy::dtype::<i32>(x.py()));
        Ok(match (is_f32(&parts.get_item(2)?)?, is_i32) {
            (true, true) => Matrix::Csr32I32(x.extract()?),
            (true, false) => Matrix::Csr32I64(x.extract()?),
            (false, true) => Matrix::Csr64I32(x.extract()?),
            (false, false) => Matrix::Csr64I64(x.extract()?),
        })
    }
}

type CsrParts<'py, S, I> =
    (PyReadonlyArray1<'py, I>, PyReadonlyArray1<'py, I>, PyReadonlyArray1<'py, S>, usize);

type Problems<S> = Vec<Trainer<Linear<S>, Binary<AnyLoss>>>;

/// Locked for a piece of work at a time, and waited for with the interpreter released: one thread may
/// ask for the weights while another trains.
enum Trainers {
    F32(Mutex<Problems<f32>>),
    F64(Mutex<Problems<f64>>),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic was reported when it happened; between two steps the state is sound.
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Runs `$then` with the locked problems, whatever their scalar, and with the interpreter released.
macro_rules! locked {
    ($py:expr, $trainers:expr, |$problems:ident| $then:expr) => {
        match &$trainers {
            Trainers::F32(problems) => $py.detach(|| {
                let mut $problems = lock(problems);
                $then
            }),
            Trainers::F64(problems) => $py.detach(|| {
                let mut $problems = lock(problems);
                $then
            }),
        }
    };
}

/// Runs `$then` with the problems and the rows, whatever their types; they must agree in the scalar.
macro_rules! with {
    ($trainers:expr, $x:expr, |$problems:ident, $rows:ident| $then:expr) => {
        match ($trainers, $x) {
            (Trainers::F32($problems), Matrix::Dense32(x)) => {
                let $rows = dense(x)?;
                $then
            }
            (Trainers::F64($problems), Matrix::Dense64(x)) => {
                let $rows = dense(x)?;
                $then
            }
            (Trainers::F32($problems), Matrix::Csr32I32(x)) => {
                let $rows = csr(x)?;
                $then
            }
            (Trainers::F32($problems), Matrix::Csr32I64(x)) => {
                let $rows = csr(x)?;
                $then
            }
            (Trainers::F64($problems), Matrix::Csr64I32(x)) => {
                let $rows = csr(x)?;
                $then
            }
            (Trainers::F64($problems), Matrix::Csr64I64(x)) => {
                let $rows = csr(x)?;
                $then
            }
            _ => Err(PyTypeError::new_err("X must have the dtype of the trainer")),
        }
    };
}

fn dense<'a, S: Scalar + numpy::Element>(x: &'a PyReadonlyArray2<'_, S>) -> PyResult<Dense<'a, S>> {
    let [n_rows, n_features] = [x.shape()[0], x.shape()[1]];
    Ok(Dense::new(x.as_slice()?, n_rows, n_features)?)
}

fn csr<'a, S: Scalar + numpy::Element, I: crate::Index + numpy::Element>(
    (indptr, indices, data, n_features): &'a CsrParts<'_, S, I>,
) -> PyResult<Csr<'a, S, I>> {
    Ok(Csr::new(indptr.as_slice()?, indices.as_slice()?, data.as_slice()?, *n_features)?)
}

/// Class numbers and, if given, weights.
type Labels<'py> = (PyReadonlyArray1<'py, u32>, Option<PyReadonlyArray1<'py, f64>>);

fn examples<'a, X: Rows>(x: X, (y, weight): &'a Labels<'_>) -> PyResult<Examples<'a, X>> {
    let weight = weight.as_ref().map(|w| w.as_slice()).transpose()?;
    Ok(Examples::new(x, y.as_slice()?, weight)?)
}

/// An order as Python asks for it: rows by number, or a way of sampling with its seed and epoch.
enum Order<'py> {
    Sampled(String, u64, u64),
    Given(PyReadonlyArray1<'py, i64>),
}

impl<'py> FromPyObject<'_, 'py> for Order<'py> {
    type Error = PyErr;

    fn extract(order: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if order.cast::<PyTuple>().is_err() {
            return Ok(Order::Given(order.extract()?));
        }
        let (name, seed, epoch) = order.extract()?;
        Ok(Order::Sampled(name, seed, epoch))
    }
}

impl Order<'_> {
    fn rows(&self, n: usize) -> PyResult<Box<dyn Iterator<Item = usize> + Send + '_>> {
        match self {
            Order::Sampled(name, seed, epoch) => {
                let sampling = match name.as_str() {
                    "shuffle" => Sampling::Shuffle,
                    "blocks" => Sampling::Blocks,
                    "replacement" => Sampling::Replacement,
                    "storage" => Sampling::Storage,
                    _ => return Err(unknown("sampling", name)),
                };
                Ok(Box::new(sampling.epoch(n, *seed, *epoch)?))
            }
            // A negative number becomes one that no row has.
            Order::Given(rows) => Ok(Box::new(rows.as_slice()?.iter().map(|&i| i as usize))),
        }
    }
}

fn unknown(name: &str, value: &str) -> PyErr {
    PyValueError::new_err(format!("{name} has no choice {value:?}"))
}

/// The parameters as Python gives them: a dictionary with these keys.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct PyParams {
    loss: String,
    alpha: f64,
    learning_rate: String,
    eta0: f64,
    power_t: f64,
    t0: f64,
    /// The mean weight of the examples, where the ball that the loss gives is projected on.
    projection: Option<f64>,
    batch_size: usize,
    average: String,
    average_from: u64,
}

impl PyParams {
    fn loss(&self) -> PyResult<AnyLoss> {
        Ok(match self.loss.as_str() {
            "hinge" => AnyLoss::Hinge,
            "squared_hinge" => AnyLoss::SquaredHinge,
            "log_loss" => AnyLoss::Logistic,
            other => return Err(unknown("loss", other)),
        })
    }

    fn params(&self) -> PyResult<Params> {
        let loss = Binary { loss: self.loss()?, positive: 1 };
        let (eta0, power) = (self.eta0, self.power_t);
        Ok(Params {
            lambda: self.alpha,
            schedule: match self.learning_rate.as_str() {
                "pegasos" => Schedule::Pegasos,
                "invscaling" => Schedule::InvScaling { eta0, power },
                "constant" => Schedule::Constant { eta0 },
                other => return Err(unknown("learning_rate", other)),
            },
            t0: self.t0,
            radius: self.projection.map(|weight| loss.radius(self.alpha, weight)),
            batch: self.batch_size,
            average: match self.average.as_str() {
                "none" => Average::None,
                "uniform" => Average::Uniform,
                "polynomial" => Average::Polynomial,
                other => return Err(unknown("average", other)),
            },
            average_from: self.average_from,
        })
    }
}

/// Binary problems over the same rows, one for each class in `positives`.
#[pyclass(module = "pegasos._core", frozen)]
struct LinearTrainer {
    trainers: Trainers,
    /// What it was made with; goes into pickles.
    positives: Vec<u32>,
    params: Py<PyDict>,
}

fn make<S: Scalar>(
    positives: &[u32],
    params: &Bound<'_, PyDict>,
    t: u64,
    linear: impl Fn(usize) -> PyResult<Linear<S>>,
) -> PyResult<Mutex<Problems<S>>> {
    let parsed: PyParams = params.extract()?;
    let (loss, params) = (parsed.loss()?, parsed.params()?);
    let problem =
        |(k, &positive)| Ok(Trainer::resume(linear(k)?, Binary { loss, positive }, params, t)?);
    Ok(Mutex::new(positives.iter().enumerate().map(problem).collect::<PyResult<_>>()?))
}

/// The steps done, and a dictionary for each problem.
fn parts<S: Scalar + numpy::Element>(
    py: Python<'_>,
    problems: &Mutex<Problems<S>>,
) -> PyResult<(u64, Vec<Py<PyDict>>)> {
    let (t, linears) = py.detach(|| {
        let problems = lock(problems);
        let linears: Vec<_> = problems.iter().map(|p| p.hypothesis().clone()).collect();
        (problems.first().map_or(0, Trainer::t), linears)
    });
    let parts = linears.iter().map(|linear| {
        let state = linear.state();
        let dict = PyDict::new(py);
        dict.set_item("n_features", linear.n_features())?;
        dict.set_item("v", PyArray1::from_slice(py, &state.v))?;
        dict.set_item("b", PyArray1::from_slice(py, &state.b))?;
        dict.set_item("u", PyArray1::from_slice(py, &state.u))?;
        dict.set_item("ub", PyArray1::from_slice(py, &state.ub))?;
        for (name, value) in [
            ("constant", state.constant),
            ("a", state.a),
            ("norm2", state.norm2),
            ("sum_a", state.sum_a),
            ("sum_q", state.sum_q),
        ] {
            dict.set_item(name, value)?;
        }
        Ok(dict.unbind())
    });
    Ok((t, parts.collect::<PyResult<_>>()?))
}

fn from_parts<S: Scalar + numpy::Element>(dict: &Bound<'_, PyDict>) -> PyResult<Linear<S>> {
    let item = |name: &str| {
        dict.get_item(name)?.ok_or_else(|| PyValueError::new_err(format!("parts lack {name:?}")))
    };
    let number = |name: &str| item(name)?.extract::<f64>();
    let vector = |name: &str| {
        let item = item(name)?;
        item.extract::<PyReadonlyArray1<'_, f64>>()
    };
    let state = LinearState {
        v: item("v")?.extract::<PyReadonlyArray1<'_, S>>()?.as_slice()?.to_vec(),
        b: vector("b")?.as_slice()?.to_vec(),
        u: vector("u")?.as_slice()?.to_vec(),
        ub: vector("ub")?.as_slice()?.to_vec(),
        constant: number("constant")?,
        a: number("a")?,
        norm2: number("norm2")?,
        sum_a: number("sum_a")?,
        sum_q: number("sum_q")?,
    };
    Ok(Linear::from_state(item("n_features")?.extract()?, state)?)
}

fn run<X: Rows>(
    py: Python<'_>,
    problems: &Mutex<Problems<X::Scalar>>,
    data: &Examples<'_, X>,
    order: &Order<'_>,
    threads: usize,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Report> {
    let (count, batch) = py.detach(|| {
        let problems = lock(problems);
        (problems.len(), problems.first().map_or(1, |problem| problem.params().batch))
    });
    let mut order = order.rows(data.len())?;
    // A thread more than there are problems would never have work.
    let threads = threads.min(count);
    let pool = (threads > 1).then(|| pool(threads)).transpose()?;
    let mut total = Report::default();
    let mut taken = Vec::new();
    work(py, progress, |size| {
        // Whole batches, or a piece would end with a smaller one.
        let size = size.div_ceil(batch).saturating_mul(batch);
        let problems = &mut lock(problems)[..];
        if let [problem] = problems {
            let report = problem.run(data, order.by_ref().take(size))?;
            total += report;
            return Ok((report.examples > 0).then_some(report.examples as usize));
        }
        // Between interruptions every problem sees the same few rows, which stay in the cache.
        taken.clear();
        taken.extend(order.by_ref().take(size));
        let report = match &pool {
            Some(pool) => pool.install(|| run_all(problems, data, &taken))?,
            None => {
                let mut sum = Report::default();
                for problem in problems.iter_mut() {
                    sum += problem.run(data, taken.iter().copied())?;
                }
                sum
            }
        };
        total += report;
        Ok((!taken.is_empty()).then_some(taken.len()))
    })?;
    Ok(total)
}

fn evaluate<X: Rows>(
    py: Python<'_>,
    problems: &Mutex<Problems<X::Scalar>>,
    data: &Examples<'_, X>,
) -> PyResult<Vec<(f64, f64)>> {
    // A copy, as other threads must not wait for a whole evaluation.
    let problems = py.detach(|| lock(problems).clone());
    let mut certificates = Vec::new();
    for problem in &problems {
        let mut evaluation: Evaluation<'_, _, _, X> = problem.evaluation(data)?;
        let mut at = 0;
        work(py, None, |size| {
            let end = at + size.min(data.len() - at);
            evaluation.add(at..end)?;
            at = end;
            Ok((at < data.len()).then_some(size))
        })?;
        let certificate = evaluation.finish()?;
        certificates.push((certificate.primal, certificate.dual));
    }
    Ok(certificates)
}

#[pymethods]
impl LinearTrainer {
    #[new]
    fn new(
        n_features: usize,
        positives: Vec<u32>,
        dtype: &str,
        constant: f64,
        params: Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let trainers = match dtype {
            "float32" => Trainers::F32(make(&positives, &params, 0, |_| {
                Ok(Linear::new(1, n_features, constant)?)
            })?),
            "float64" => Trainers::F64(make(&positives, &params, 0, |_| {
                Ok(Linear::new(1, n_features, constant)?)
            })?),
            other => return Err(unknown("dtype", other)),
        };
        let params = params.copy()?.unbind();
        Ok(LinearTrainer { trainers, positives, params })
    }

    #[getter]
    fn t(&self, py: Python<'_>) -> u64 {
        locked!(py, self.trainers, |problems| problems.iter_mut().next().map_or(0, |p| p.t()))
    }

    #[getter]
    fn dtype(&self) -> &'static str {
        match &self.trainers {
            Trainers::F32(_) => "float32",
            Trainers::F64(_) => "float64",
        }
    }

    fn keep_ledger(&self, py: Python<'_>, n_examples: usize) {
        locked!(py, self.trainers, |problems| {
            problems.iter_mut().for_each(|p| p.keep_ledger(n_examples));
        });
    }

    fn forget_ledger(&self, py: Python<'_>) {
        locked!(py, self.trainers, |problems| problems.iter_mut().for_each(Trainer::forget_ledger));
    }

    /// Reads every value and index, and says what is wrong with the first that is.
    fn check(&self, py: Python<'_>, x: Matrix<'_>, labels: Labels<'_>) -> PyResult<()> {
        with!(&self.trainers, &x, |_problems, rows| {
            let data = examples(rows, &labels)?;
            let mut at = 0;
            work(py, None, |size| {
                let end = at + size.min(data.len() - at);
                data.check(at..end)?;
                at = end;
                Ok((at < data.len()).then_some(size))
            })
        })
    }

    /// Visits rows; returns their number, the number of updates, and the sum of the losses.
    #[pyo3(signature = (x, labels, order, *, threads = 1, progress = None))]
    fn run(
        &self,
        py: Python<'_>,
        x: Matrix<'_>,
        labels: Labels<'_>,
        order: Order<'_>,
        threads: usize,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<(u64, u64, f64)> {
        let report = with!(&self.trainers, &x, |problems, rows| {
            run(py, problems, &examples(rows, &labels)?, &order, threads, progress.as_ref())
        })?;
        Ok((report.examples, report.updates, report.loss))
    }

    /// The objective and its dual bound, for every problem.
    fn evaluate(
        &self,
        py: Python<'_>,
        x: Matrix<'_>,
        labels: Labels<'_>,
    ) -> PyResult<Vec<(f64, f64)>> {
        with!(&self.trainers, &x, |problems, rows| evaluate(
            py,
            problems,
            &examples(rows, &labels)?
        ))
    }

    /// The weights, problems x features, flat, in the data's dtype; and the intercepts.
    fn result<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyArray1<f64>>)> {
        fn all<'py, S: Scalar + numpy::Element>(
            py: Python<'py>,
            problems: &Mutex<Problems<S>>,
        ) -> (Bound<'py, PyAny>, Bound<'py, PyArray1<f64>>) {
            let (weights, intercepts) = py.detach(|| {
                let results: Vec<_> = lock(problems).iter().map(Trainer::result).collect();
                let weights = results.iter().flat_map(Linear::weights).collect();
                (weights, results.iter().flat_map(Linear::intercepts).collect())
            });
            (PyArray1::from_vec(py, weights).into_any(), PyArray1::from_vec(py, intercepts))
        }
        Ok(match &self.trainers {
            Trainers::F32(problems) => all(py, problems),
            Trainers::F64(problems) => all(py, problems),
        })
    }

    /// Everything but the ledger, as plain numbers and arrays.
    fn parts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("format", FORMAT)?;
        dict.set_item("dtype", self.dtype())?;
        dict.set_item("positives", self.positives.clone())?;
        dict.set_item("params", self.params.bind(py).copy()?)?;
        let (t, problems) = match &self.trainers {
            Trainers::F32(problems) => parts(py, problems)?,
            Trainers::F64(problems) => parts(py, problems)?,
        };
        dict.set_item("t", t)?;
        dict.set_item("problems", problems)?;
        Ok(dict)
    }

    /// Restores what `parts` gave.
    #[staticmethod]
    fn from_parts(parts: Bound<'_, PyDict>) -> PyResult<Self> {
        let item = |name: &str| {
            let item = parts.get_item(name)?;
            item.ok_or_else(|| PyValueError::new_err(format!("parts lack {name:?}")))
        };
        let format: u32 = item("format")?.extract()?;
        if format != FORMAT {
            return Err(PyValueError::new_err(format!(
                "parts must have format {FORMAT}, got {format}: another version of pegasos wrote them"
            )));
        }
        let positives: Vec<u32> = item("positives")?.extract()?;
        let params = item("params")?.cast_into::<PyDict>()?;
        let problems: Vec<Bound<'_, PyDict>> = item("problems")?.extract()?;
        if problems.len() != positives.len() {
            return Err(PyValueError::new_err("parts must have one problem per positive class"));
        }
        let t = item("t")?.extract()?;
        let trainers = match item("dtype")?.extract::<String>()?.as_str() {
            "float32" => Trainers::F32(make(&positives, &params, t, |k| from_parts(&problems[k]))?),
            "float64" => Trainers::F64(make(&positives, &params, t, |k| from_parts(&problems[k]))?),
            other => return Err(unknown("dtype", other)),
        };
        let params = params.copy()?.unbind();
        Ok(LinearTrainer { trainers, positives, params })
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyDict>,))> {
        let parts = slf.get().parts(slf.py())?;
        Ok((slf.getattr("from_parts")?, (parts,)))
    }
}

/// Of what `parts` gives; a change of its keys' meaning gets a new number.
const FORMAT: u32 = 1;

/// Refuses a matrix whose shape or row bounds are not sound, before anyone else walks it.
#[pyfunction]
fn check_shape(x: Matrix<'_>) -> PyResult<()> {
    match &x {
        Matrix::Dense32(x) => dense(x).map(drop),
        Matrix::Dense64(x) => dense(x).map(drop),
        Matrix::Csr32I32(x) => csr(x).map(drop),
        Matrix::Csr32I64(x) => csr(x).map(drop),
        Matrix::Csr64I32(x) => csr(x).map(drop),
        Matrix::Csr64I64(x) => csr(x).map(drop),
    }
}

#[pymodule]
fn _core(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add("InternalError", m.py().get_type::<InternalError>())?;
    m.add("NonFiniteError", m.py().get_type::<NonFiniteError>())?;
    m.add_function(wrap_pyfunction!(check_shape, m)?)?;
    m.add_class::<LinearTrainer>()
}
