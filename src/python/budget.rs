//! `BudgetTrainer`: one kernel problem with a bounded number of support vectors.

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::arrays::{Labels, Matrix, Order, examples};
use super::machine::{
    self, Arrays, Machine, Made, Rowwise, Stored, Told, coefs, run, scores, set_totals, to_arrays,
    vectors, with_vectors,
};
use super::problem::{Pickled, any, array, check, item, locked, with};
use super::{lock, unknown};
use crate::simd::WIDTH;
use crate::{
    Budgeted, BudgetedState, Dense, Error, Expansion, Kernel, Loss, Maintenance, Params, Scalar,
    Schedule, Trainer,
};

pub(super) type Problems = machine::Problems<Budgeted<f32>, Budgeted<f64>>;

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
}

impl<S: Scalar + numpy::Element> Machine for Budgeted<S> {
    fn make(
        kernel: Kernel,
        outputs: usize,
        made: &Made,
        params: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let parsed: PyBudget = params.extract()?;
        let (budget, maintenance) = (parsed.budget, parsed.maintenance()?);
        Ok(match made.sparse {
            true => Budgeted::sparse(kernel, outputs, made.n_features, budget, maintenance)?,
            false => Budgeted::new(kernel, outputs, made.n_features, budget, maintenance)?,
        })
    }

    fn take_parts(&mut self, parts: &Bound<'_, PyDict>) -> PyResult<()> {
        let state = BudgetedState {
            v: array(parts, "v")?,
            u: array(parts, "u")?,
            a: item(parts, "a")?.extract()?,
            sum_a: item(parts, "sum_a")?.extract()?,
            sum_q: item(parts, "sum_q")?.extract()?,
            born: array(parts, "born")?,
            added: item(parts, "added")?.extract()?,
            evicted: item(parts, "evicted")?.extract()?,
            norms: array(parts, "norms")?,
        };
        let (d, mut restored) = (self.n_features(), false);
        with_vectors(parts, d, |vectors| {
            restored = true;
            match vectors {
                Rowwise::Dense(vectors) => self.restore(&vectors, &state),
                Rowwise::Sparse(vectors) => self.restore(&vectors, &state),
            }
        })?;
        if !restored {
            self.restore(&Dense::new(&[], 0, d)?, &state)?;
        }
        Ok(())
    }

    /// Projectron is a perceptron: steps of 1 that never fade.
    fn adapt(&self, params: Params) -> Params {
        match self.maintenance() {
            Maintenance::Projectron { .. } => {
                let schedule = Schedule::InvScaling { eta0: 1.0, power: 0.0 };
                Params { lambda: 0.0, schedule, ..params }
            }
            _ => params,
        }
    }

    fn n_vectors(&self) -> usize {
        Budgeted::n_vectors(self)
    }

    fn for_each(&self, k: usize, f: impl FnMut(usize, S)) {
        Budgeted::for_each(self, k, f);
    }

    const PANEL: usize = WIDTH;

    fn copy<L: Loss + Clone>(trainer: &mut Trainer<Self, L>) -> Result<Trainer<Self, L>, Error> {
        trainer.check_copy().map(|()| trainer.clone())
    }

    fn model<L: Loss>(trainer: &mut Trainer<Self, L>) -> Result<Expansion<S>, Error> {
        trainer.hypothesis().model()
    }
}

/// A kernel problem on a budget: of two classes by one score, of more by a score for each.
#[pyclass(module = "pegasos._core", frozen)]
pub(super) struct BudgetTrainer {
    problem: Problems,
    made: Made,
}

impl BudgetTrainer {
    pub(super) fn problem(&self) -> &Problems {
        &self.problem
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
        let made = Made::new(n_features, sparse, classes, &params)?;
        Ok(BudgetTrainer { problem: Problems::make(params.py(), &made, dtype, None)?, made })
    }

    /// One that goes on from the same state.
    fn copy(&self, py: Python<'_>) -> PyResult<Self> {
        Ok(BudgetTrainer { problem: self.problem.copy(py)?, made: self.made.copy(py) })
    }

    #[getter]
    fn t(&self, py: Python<'_>) -> u64 {
        locked!(py, &self.problem, |p| p.trainer.t())
    }

    #[getter]
    fn n_features(&self) -> usize {
        self.made.n_features
    }

    /// Whether it was made for sparse rows.
    #[getter]
    fn sparse(&self) -> bool {
        self.made.sparse
    }

    #[getter]
    fn dtype(&self) -> &'static str {
        self.problem.dtype()
    }

    /// Of all runs: steps, examples, mistakes among them, the sum of `||dw||^2` and that of `||dw||/eta`.
    #[getter]
    fn totals(&self, py: Python<'_>) -> (u64, u64, u64, f64, f64) {
        let total = locked!(py, &self.problem, |p| p.total);
        (total.steps, total.examples, total.mistakes, total.degradation, total.gradient_error)
    }

    /// Whether any support vector has an image that is not 0.
    #[getter]
    fn spans(&self, py: Python<'_>) -> bool {
        locked!(py, &self.problem, |p| p.trainer.hypothesis().spans())
    }

    /// Reads every value and index, and says what is wrong with the first that is; returns whether no step on
    /// these rows can overflow, in whatever order.
    fn check(&self, py: Python<'_>, x: Matrix<'_>, labels: Labels<'_>) -> PyResult<bool> {
        with!(&self.problem, &x, |problem, rows| {
            let (norm2, weight) = check(py, &examples(rows, &labels)?)?;
            Ok(py.detach(|| lock(problem).trainer.survives(norm2, weight)))
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
        with!(&self.problem, &x, |problem, rows| {
            let data = examples(rows, &labels)?;
            run(py, problem, &data, &order, threads, every, progress.as_ref())
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
        with!(&self.problem, &x, |problem, rows| scores(py, problem, &rows, threads))
    }

    /// The coefficients, vectors x outputs, flat.
    fn result<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let coefs = locked!(py, &self.problem, |p| p.frozen().map(|w| coefs(&w)))?;
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
        Ok(locked!(py, &self.problem, |p| {
            p.trainer.check_copy()?;
            let mut w = p.trainer.hypothesis().clone();
            w.set_coefs(coefs)?;
            p.frozen = None;
            p.trainer.jump(w, steps)
        })?)
    }

    /// The vectors in compressed-sparse-row form: indptr, indices, values.
    fn vectors<'py>(&self, py: Python<'py>) -> Arrays<'py> {
        any!(&self.problem, |problem| {
            let vectors = py.detach(|| vectors(lock(problem).trainer.hypothesis()));
            to_arrays(py, vectors)
        })
    }

    /// Everything, as plain numbers and arrays.
    fn parts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let parts = self.made.parts(py, FORMAT, self.problem.dtype())?;
        any!(&self.problem, |problem| {
            let (total, t, updates, state, vectors) = py.detach(|| {
                let problem = lock(problem);
                let (trainer, w) = (&problem.trainer, problem.trainer.hypothesis());
                let vectors = Stored::of(w, self.made.n_features, self.made.sparse)?;
                let (t, updates) = (trainer.t(), trainer.updates());
                Ok::<_, Error>((problem.total, t, updates, w.state(), vectors))
            })?;
            set_totals(&parts, &total)?;
            parts.set_item("t", t)?;
            parts.set_item("updates", updates)?;
            parts.set_item("v", PyArray1::from_vec(py, state.v))?;
            parts.set_item("u", PyArray1::from_vec(py, state.u))?;
            parts.set_item("born", PyArray1::from_vec(py, state.born))?;
            parts.set_item("added", state.added)?;
            parts.set_item("evicted", state.evicted)?;
            parts.set_item("norms", PyArray1::from_vec(py, state.norms))?;
            vectors.set(&parts)?;
            for (name, value) in [("a", state.a), ("sum_a", state.sum_a), ("sum_q", state.sum_q)] {
                parts.set_item(name, value)?;
            }
        });
        Ok(parts)
    }

    /// Restores what `parts` gave.
    #[staticmethod]
    fn from_parts(parts: Bound<'_, PyDict>) -> PyResult<Self> {
        let (made, dtype) = Made::from_parts(&parts, FORMAT)?;
        let problem = Problems::make(parts.py(), &made, &dtype, Some(&parts))?;
        Ok(BudgetTrainer { problem, made })
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Pickled<'py>> {
        let parts = slf.get().parts(slf.py())?;
        Ok((slf.getattr("from_parts")?, (parts,)))
    }
}

/// Of what `parts` gives; a change of its keys' meaning gets a new number.
const FORMAT: u32 = 3;
