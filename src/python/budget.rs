//! `BudgetTrainer`: one kernel problem with a bounded number of support vectors.

use std::sync::{Arc, Mutex};

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::arrays::{Labels, Matrix, Order, csr, dense, examples};
use super::kernel::{
    Problem, PyParams, Told, Vectors, item, run, scores, set_totals, totals, with_vectors,
};
use super::{lock, silent, unknown, work};
use crate::{
    Binary, Budgeted, BudgetedState, CrammerSinger, Dense, Expansion, Hinge, Loss, Maintenance,
    Params, Report, Scalar, Schedule, Trainer,
};

type Bounded<S, L> = Mutex<Problem<Budgeted<S>, L>>;

enum Problems {
    Binary32(Bounded<f32, Binary<Hinge>>),
    Binary64(Bounded<f64, Binary<Hinge>>),
    Multi32(Bounded<f32, CrammerSinger>),
    Multi64(Bounded<f64, CrammerSinger>),
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

/// What a budget needs to know beside the parameters of every kernel problem.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct PyBudget {
    budget: Option<usize>,
    maintenance: String,
    /// Of random removal.
    seed: u64,
    /// Of Projectron.
    threshold: f64,
    margin: bool,
}

impl PyBudget {
    fn maintenance(&self) -> PyResult<Maintenance> {
        let &PyBudget { seed, threshold, margin, .. } = self;
        Ok(match self.maintenance.as_str() {
            "remove" => Maintenance::Remove,
            "random" => Maintenance::Random { seed },
            "project" => Maintenance::Project,
            "merge" => Maintenance::Merge,
            "projectron" => Maintenance::Projectron { threshold, margin },
            other => return Err(unknown("maintenance", other)),
        })
    }

    /// Projectron is a perceptron: steps of 1 that never fade.
    fn params(&self, params: Params) -> PyResult<Params> {
        Ok(match self.maintenance()? {
            Maintenance::Projectron { .. } => {
                let schedule = Schedule::InvScaling { eta0: 1.0, power: 0.0 };
                Params { lambda: 0.0, schedule, ..params }
            }
            _ => params,
        })
    }
}

/// What a problem starts from.
struct Start<'a, 'py> {
    n_features: usize,
    sparse: bool,
    params: &'a Bound<'py, PyDict>,
    parts: Option<&'a Bound<'py, PyDict>>,
}

fn problem<S: Scalar + numpy::Element, L: Loss>(
    loss: L,
    start: &Start<'_, '_>,
) -> PyResult<Bounded<S, L>> {
    let parsed: PyParams = start.params.extract()?;
    let bound: PyBudget = start.params.extract()?;
    let (kernel, maintenance) = (parsed.kernel()?, bound.maintenance()?);
    let (outputs, d) = (loss.zeros().as_ref().len(), start.n_features);
    let mut w = match start.sparse {
        true => Budgeted::sparse(kernel, outputs, d, bound.budget, maintenance)?,
        false => Budgeted::new(kernel, outputs, d, bound.budget, maintenance)?,
    };
    let (mut t, mut updates, mut total) = (0, 0, Report::default());
    if let Some(parts) = start.parts {
        let item = |name: &str| item(parts, name);
        let number = |name: &str| item(name)?.extract::<f64>();
        let array = |name: &str| {
            let array = item(name)?.extract::<PyReadonlyArray1<'_, f64>>()?;
            PyResult::Ok(array.as_slice()?.to_vec())
        };
        t = item("t")?.extract()?;
        updates = item("updates")?.extract()?;
        total = totals(parts)?;
        let born = item("born")?.extract::<PyReadonlyArray1<'_, u64>>()?;
        let state = BudgetedState {
            v: array("v")?,
            u: array("u")?,
            a: number("a")?,
            sum_a: number("sum_a")?,
            sum_q: number("sum_q")?,
            born: born.as_slice()?.to_vec(),
            added: item("added")?.extract()?,
            evicted: item("evicted")?.extract()?,
        };
        if !with_vectors(parts, d, |vectors| Ok(w.restore(&vectors, &state)?))? {
            w.restore(&Dense::new(&[], 0, d)?, &state)?;
        }
    }
    let params = bound.params(parsed.params(&loss)?)?;
    let mut trainer = Trainer::resume(w, loss, params, t)?;
    trainer.set_updates(updates);
    Ok(Mutex::new(Problem { trainer, dual: None, frozen: None, total }))
}

fn vectors<S: Scalar>(w: &Budgeted<S>) -> Vectors<S> {
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

/// The model, made when first asked for.
fn frozen<S: Scalar, L: Loss>(
    problem: &mut Problem<Budgeted<S>, L>,
) -> Result<Arc<Expansion<S>>, crate::Error> {
    let Problem { trainer, frozen, .. } = problem;
    if frozen.is_none() {
        *frozen = Some(Arc::new(trainer.hypothesis().model()?));
    }
    match frozen {
        Some(model) => Ok(model.clone()),
        None => unreachable!("just made"),
    }
}

/// A kernel problem on a budget: of two classes by one score, of more by a score for each.
#[pyclass(module = "pegasos._core", frozen)]
pub(super) struct BudgetTrainer {
    problem: Problems,
    /// What it was made with; goes into pickles.
    n_features: usize,
    sparse: bool,
    classes: usize,
    params: Py<PyDict>,
}

impl BudgetTrainer {
    fn make(start: Start<'_, '_>, classes: usize, dtype: &str) -> PyResult<Self> {
        let binary = Binary { loss: Hinge, positive: 1 };
        let multi = CrammerSinger { classes };
        let problem = match (dtype, classes) {
            ("float32", 2) => Problems::Binary32(problem(binary, &start)?),
            ("float64", 2) => Problems::Binary64(problem(binary, &start)?),
            ("float32", _) => Problems::Multi32(problem(multi, &start)?),
            ("float64", _) => Problems::Multi64(problem(multi, &start)?),
            (other, _) => return Err(unknown("dtype", other)),
        };
        let Start { n_features, sparse, params, .. } = start;
        let params = params.copy()?.unbind();
        Ok(BudgetTrainer { problem, n_features, sparse, classes, params })
    }
}

#[pymethods]
impl BudgetTrainer {
    #[new]
    fn new(
        n_features: usize,
        sparse: bool,
        classes: usize,
        dtype: &str,
        params: Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let start = Start { n_features, sparse, params: &params, parts: None };
        BudgetTrainer::make(start, classes, dtype)
    }

    #[getter]
    fn t(&self, py: Python<'_>) -> u64 {
        any!(&self.problem, |problem| py.detach(|| lock(problem).trainer.t()))
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

    /// Of all runs: examples, mistakes among them, the sum of `||dw||^2` and that of `||dw||/eta`.
    #[getter]
    fn totals(&self, py: Python<'_>) -> (u64, u64, f64, f64) {
        let total = any!(&self.problem, |problem| py.detach(|| lock(problem).total));
        (total.examples, total.mistakes, total.degradation, total.gradient_error)
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

    /// Scores of rows, one after the other.
    #[pyo3(signature = (x, *, threads = 1))]
    fn scores<'py>(
        &self,
        py: Python<'py>,
        x: Matrix<'_>,
        threads: usize,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        with!(&self.problem, &x, |problem, rows| {
            let w = py.detach(|| frozen(&mut lock(problem)))?;
            scores(py, &w, &rows, threads)
        })
    }

    /// The coefficients, vectors x outputs, flat.
    fn result<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let coefs = any!(&self.problem, |problem| py.detach(|| {
            let w = frozen(&mut lock(problem))?;
            let outputs = crate::Hypothesis::outputs(&*w);
            let mut coefs = vec![0.0; w.n_vectors() * outputs];
            for (slot, coef) in coefs.chunks_mut(outputs).enumerate() {
                w.coef(slot, coef);
            }
            Ok::<_, crate::Error>(coefs)
        }))?;
        Ok(PyArray1::from_vec(py, coefs))
    }

    /// Gives the vectors other coefficients, vectors x outputs, as if `steps` more steps had led to them.
    fn set_coefs(
        &self,
        py: Python<'_>,
        coefs: PyReadonlyArray1<'_, f64>,
        steps: u64,
    ) -> PyResult<()> {
        let coefs = coefs.as_slice()?;
        Ok(any!(&self.problem, |problem| py.detach(|| {
            let problem = &mut *lock(problem);
            let mut w = problem.trainer.hypothesis().clone();
            w.set_coefs(coefs)?;
            problem.frozen = None;
            problem.trainer.jump(w, steps)
        }))?)
    }

    /// The vectors in compressed-sparse-row form: indptr, indices, values.
    fn vectors<'py>(
        &self,
        py: Python<'py>,
    ) -> (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>, Bound<'py, PyAny>) {
        any!(&self.problem, |problem| {
            let (indptr, indices, values) =
                py.detach(|| vectors(lock(problem).trainer.hypothesis()));
            (
                PyArray1::from_vec(py, indptr),
                PyArray1::from_vec(py, indices),
                PyArray1::from_vec(py, values).into_any(),
            )
        })
    }

    /// Everything, as plain numbers and arrays.
    fn parts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("format", FORMAT)?;
        dict.set_item("dtype", self.dtype())?;
        dict.set_item("n_features", self.n_features)?;
        dict.set_item("sparse", self.sparse)?;
        dict.set_item("classes", self.classes)?;
        dict.set_item("params", self.params.bind(py).copy()?)?;
        any!(&self.problem, |problem| {
            let (total, t, updates, state, (indptr, indices, values)) = py.detach(|| {
                let problem = lock(problem);
                let (trainer, w) = (&problem.trainer, problem.trainer.hypothesis());
                (problem.total, trainer.t(), trainer.updates(), w.state(), vectors(w))
            });
            set_totals(&dict, &total)?;
            dict.set_item("t", t)?;
            dict.set_item("updates", updates)?;
            dict.set_item("v", PyArray1::from_vec(py, state.v))?;
            dict.set_item("u", PyArray1::from_vec(py, state.u))?;
            dict.set_item("born", PyArray1::from_vec(py, state.born))?;
            dict.set_item("added", state.added)?;
            dict.set_item("evicted", state.evicted)?;
            dict.set_item("indptr", PyArray1::from_vec(py, indptr))?;
            dict.set_item("indices", PyArray1::from_vec(py, indices))?;
            dict.set_item("values", PyArray1::from_vec(py, values))?;
            for (name, value) in [("a", state.a), ("sum_a", state.sum_a), ("sum_q", state.sum_q)] {
                dict.set_item(name, value)?;
            }
        });
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
        let params = item(&parts, "params")?.cast_into::<PyDict>()?;
        let start = Start {
            n_features: item(&parts, "n_features")?.extract()?,
            sparse: item(&parts, "sparse")?.extract()?,
            params: &params,
            parts: Some(&parts),
        };
        let dtype: String = item(&parts, "dtype")?.extract()?;
        BudgetTrainer::make(start, item(&parts, "classes")?.extract()?, &dtype)
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
