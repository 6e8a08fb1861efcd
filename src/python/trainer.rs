//! `Trainer` and `Fit`: a problem of whatever kind, and the policy that trains it.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::examples::{Examples, Number, View};
use super::hasher::Hasher;
use super::linear::{Start, Targets};
use super::metric::Metric;
use super::parts::{Part, Told, item, told};
use super::{FIRST, Pool, choice, first_of, go_on, lock, numbers, work};
use super::{kernel, linear, scores, single};
use crate::data::Needed;
use crate::fit::Course;
use crate::{Error, Folds, Order, Outcome, Policy, Progress, Record, Sampling, Solver};

/// How long a thread sleeps that waits for another to end its epoch.
const WAIT: Duration = Duration::from_millis(1);

/// A problem of whatever kind of w, scalar and loss, as the Python package sees it.
pub(super) trait Problem: Any + Send {
    /// One that goes on from the same state.
    fn copy(&mut self) -> Result<Box<dyn Problem>, Error>;
    /// Itself at work on these examples.
    fn on<'a>(&'a mut self, data: &'a View<'_>) -> Result<Box<dyn Task + 'a>, Error>;
    /// What is known without work.
    fn facts(&self) -> Facts;
    /// The scores of the first of these rows, by the last iterates: nothing is copied.
    fn scores_now(&self, data: &View<'_>) -> Result<Vec<f64>, Error>;
    /// See [`crate::Trainer::survives`].
    fn survives(&self, norm2: f64, heaviest: f64, weight: f64) -> bool;
    /// What predicts.
    fn model(&mut self) -> Result<Frozen, Error>;
    /// What sparse rows need of it, where that is much less, and which features that are.
    fn excerpt(&mut self, _: &View<'_>) -> Result<Option<(Frozen, Needed)>, Error> {
        Ok(None)
    }
    /// All that it holds, but for ledgers and dual variables.
    fn parts(&self, made: &Made) -> Result<Told, Error>;
    /// The model, as [`Trainer::result`] tells of it.
    fn result(&mut self) -> Result<Told, Error>;
    /// The average of problems, with factors; `None` where they are not of one kind.
    fn average(
        &self,
        all: &[Box<dyn Problem>],
        factors: &[f64],
    ) -> Option<Result<Box<dyn Problem>, Error>>;
    /// See [`crate::Trainer::share`]; of what runs have seen all, or nothing.
    fn share(&self, t: u64, account: bool) -> Result<Box<dyn Problem>, Error>;
    /// The support vectors.
    fn vectors(&self) -> Told {
        told(|py| Ok(py.None().into_bound(py)))
    }
    fn assume_positive(&mut self) {}
    fn forget_rows(&mut self) {}
    fn meet_rows_again(&mut self, _: usize) -> Result<(), Error> {
        Ok(())
    }
    /// Gives the vectors of a budget other coefficients, as if so many more steps had led to them.
    fn set_coefs(&mut self, _: &[f64], _: u64) -> Result<(), Error> {
        Err(no_budget())
    }
    /// From here on records every so many examples what was so.
    fn record(&mut self, _: Option<u64>) {}
    fn records(&self) -> Vec<Record> {
        Vec::new()
    }
    /// See [`crate::KernelProblem::hold_out`].
    fn hold_out(&mut self, _: Folds) {}
    fn take_held_out(&mut self) -> Option<Vec<f64>> {
        None
    }
    /// From here on so many rows are mapped before anybody sees them; or no more.
    fn map_by(&mut self, metric: Option<&Metric>, _n_rows: usize) -> Result<(), Error> {
        metric.map_or(Ok(()), |_| Err(no_budget()))
    }
}

pub(super) fn no_budget() -> Error {
    Error::parameter("budget", "None", "a number where coefficients are set")
}

/// What is known of a problem without work.
#[pyclass(module = "pegasos._core", frozen, get_all)]
pub(super) struct Facts {
    pub(super) t: u64,
    /// How many weights a copy has to copy; 0 where it is always worth it.
    pub(super) size: usize,
    /// How many tasks there are side by side.
    pub(super) width: usize,
    /// Of problems with kernels: the steps of all runs, and the sum of their `||dw||/eta`.
    pub(super) steps: u64,
    pub(super) gradient_error: f64,
    /// Whether any support vector has an image that is not 0.
    pub(super) spans: bool,
    /// What each row of a linear problem has cost and the bound on the regret, summed; nan where they are not counted.
    pub(super) regret: (f64, f64),
}

/// A problem, and examples of its scalar.
pub(super) struct On<'a, S>(
    pub(super) &'a mut dyn crate::Problem<S>,
    pub(super) &'a crate::Examples<'a, S>,
);

/// A problem and examples of its scalar, whatever that is.
pub(super) trait Task {
    /// See [`crate::Problem::cost`].
    fn cost(&self) -> usize;
    /// See [`Course::advance`]; how many mistakes the epoch at hand has seen by then.
    fn advance(
        &mut self,
        course: &mut Course,
        order: &mut dyn FnMut(u64) -> Result<Box<dyn Order + Send>, Error>,
        size: usize,
    ) -> Result<(Progress, u64), Error>;
    /// Visits the examples once, as they are stored.
    fn visit(&mut self) -> Result<(), Error>;
    /// See [`crate::Problem::end_ascent`].
    fn end_ascent(&mut self) -> Result<(), Error>;
}

impl<S: Number> Task for On<'_, S> {
    fn cost(&self) -> usize {
        self.0.cost(self.1.rows().n_features())
    }

    fn advance(
        &mut self,
        course: &mut Course,
        order: &mut dyn FnMut(u64) -> Result<Box<dyn Order + Send>, Error>,
        size: usize,
    ) -> Result<(Progress, u64), Error> {
        let progress = course.advance(self.0, self.1, order, size)?;
        Ok((progress, self.0.seen().mistakes))
    }

    fn visit(&mut self) -> Result<(), Error> {
        self.0.begin_epoch(self.1, Box::new(0..self.1.len()), 1)?;
        while self.0.visit(self.1, usize::MAX)? > 0 {}
        Ok(())
    }

    fn end_ascent(&mut self) -> Result<(), Error> {
        self.0.end_ascent(self.1)
    }
}

/// What predicts, in its scalar.
#[derive(Clone)]
pub(super) enum Frozen {
    F32(crate::Frozen<f32>),
    F64(crate::Frozen<f64>),
}

/// What a trainer was made with; goes into pickles.
#[pyclass(module = "pegasos._core", frozen, get_all)]
pub(super) struct Made {
    /// "linear", "kernel" or "budget".
    pub(super) kind: &'static str,
    pub(super) dtype: String,
    pub(super) params: Py<PyDict>,
    /// Of linear problems.
    pub(super) targets: Option<Targets>,
    /// The rows and classes, of others.
    pub(super) n_features: usize,
    pub(super) sparse: bool,
    pub(super) classes: usize,
}

/// A problem in training.
#[pyclass(module = "pegasos._core", frozen)]
pub(super) struct Trainer {
    pub(super) problem: Mutex<Box<dyn Problem>>,
    /// Locked for an epoch, whose order and counts are the problem's: two threads that train it take turns.
    turn: Mutex<()>,
    #[pyo3(get)]
    made: Py<Made>,
}

impl Trainer {
    /// From what was stored or from zeros.
    fn make(py: Python<'_>, made: Made, start: Start<'_, '_>) -> PyResult<Self> {
        let problem = match &made.targets {
            Some(targets) => linear::make(&made.dtype, targets, made.params.bind(py), start),
            None => kernel::make(&made, made.params.bind(py), start),
        }?;
        Ok(Trainer { problem: Mutex::new(problem), turn: Mutex::new(()), made: Py::new(py, made)? })
    }

    /// One with another problem.
    fn with_problem(&self, py: Python<'_>, problem: Box<dyn Problem>) -> Self {
        let (problem, turn) = (Mutex::new(problem), Mutex::new(()));
        Trainer { problem, turn, made: self.made.clone_ref(py) }
    }

    /// Calls `f` with the locked problem and the interpreter released: others may hold the lock for a piece of work.
    pub(super) fn with<R: Send>(
        &self,
        py: Python<'_>,
        f: impl FnOnce(&mut dyn Problem) -> R + Send,
    ) -> R {
        py.detach(|| f(&mut **lock(&self.problem)))
    }

    /// The right to train it, once nobody else does. Ctrl-C ends the wait.
    pub(super) fn turn(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, ()>> {
        loop {
            match self.turn.try_lock() {
                Ok(turn) => return Ok(turn),
                Err(TryLockError::Poisoned(turn)) => return Ok(turn.into_inner()),
                Err(TryLockError::WouldBlock) => py.detach(|| std::thread::sleep(WAIT)),
            }
            py.check_signals()?;
        }
    }

    /// What predicts.
    pub(super) fn model(&self, py: Python<'_>) -> PyResult<Frozen> {
        Ok(self.with(py, |problem| problem.model())?)
    }

    /// What it was made with.
    pub(super) fn made(&self) -> &Made {
        self.made.get()
    }
}

#[pymethods]
impl Trainer {
    /// Linear problems over the same rows: by one score each for the classes in a list, or one with a score for each of so
    /// many classes.
    #[staticmethod]
    fn linear(
        n_features: usize,
        sparse: bool,
        targets: Targets,
        dtype: String,
        constant: f64,
        params: Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let (py, params, targets) = (params.py(), params.copy()?.unbind(), Some(targets));
        let (kind, classes) = ("linear", 0);
        let made = Made { kind, dtype, params, targets, n_features, sparse, classes };
        Trainer::make(py, made, Start::Zero { n_features, constant, sparse })
    }

    /// A kernel problem, on a budget or not: of two classes by one score, of more by a score for each.
    #[staticmethod]
    fn kernel(
        bounded: bool,
        n_features: usize,
        sparse: bool,
        classes: usize,
        dtype: String,
        params: Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let kind = if bounded { "budget" } else { "kernel" };
        let (py, params, targets) = (params.py(), params.copy()?.unbind(), None);
        let made = Made { kind, dtype, params, targets, n_features, sparse, classes };
        Trainer::make(py, made, Start::Zero { n_features, constant: 0.0, sparse })
    }

    /// The average of trainers, with these factors; it goes on as the first would.
    #[staticmethod]
    #[pyo3(signature = (trainers, factors, *, threads = 1))]
    fn average(
        py: Python<'_>,
        trainers: Vec<PyRef<'_, Self>>,
        factors: Vec<f64>,
        threads: usize,
    ) -> PyResult<Self> {
        let Some(first) = trainers.first().filter(|_| trainers.len() == factors.len()) else {
            return Err(PyValueError::new_err("one factor for each of at least one trainer"));
        };
        // Copies, so that no two are locked at a time.
        let copies = trainers.iter().map(|trainer| trainer.with(py, |problem| problem.copy()));
        let copies: Vec<Box<dyn Problem>> = copies.collect::<Result<_, _>>()?;
        let pool = Pool::new(threads, usize::MAX)?;
        let average = py.detach(|| pool.run(move || copies[0].average(&copies, &factors)));
        let average = average.ok_or_else(|| {
            PyValueError::new_err("estimators must be of one kind, dtype and number of classes")
        })??;
        Ok(first.with_problem(py, average))
    }

    /// One that goes on from the same state.
    fn copy(&self, py: Python<'_>) -> PyResult<Self> {
        Ok(self.with_problem(py, self.with(py, |problem| problem.copy())?))
    }

    /// One of several that go on from here apart, and count so many of its steps; one of them with the `account` of all runs.
    fn share(&self, py: Python<'_>, t: u64, account: bool) -> PyResult<Self> {
        Ok(self.with_problem(py, self.with(py, |problem| problem.share(t, account))?))
    }

    #[getter]
    fn facts(&self, py: Python<'_>) -> Facts {
        self.with(py, |problem| problem.facts())
    }

    /// Says that precomputed kernel values are those of a positive semi-definite kernel.
    fn assume_positive(&self, py: Python<'_>) {
        self.with(py, |problem| problem.assume_positive());
    }

    /// The matrix is no longer the same.
    fn forget_rows(&self, py: Python<'_>) {
        self.with(py, |problem| problem.forget_rows());
    }

    /// The matrix of so many rows is that of the first fit.
    fn meet_rows_again(&self, py: Python<'_>, n_rows: usize) -> PyResult<()> {
        Ok(self.with(py, |problem| problem.meet_rows_again(n_rows))?)
    }

    /// Gives the vectors of a budget other coefficients, vectors x outputs, as if `steps` more steps had led to them.
    fn set_coefs(
        &self,
        py: Python<'_>,
        coefs: PyReadonlyArray1<'_, f64>,
        steps: u64,
    ) -> PyResult<()> {
        let coefs = coefs.as_slice()?;
        Ok(self.with(py, |problem| problem.set_coefs(coefs, steps))?)
    }

    /// The next dual ascent finds out, too, what rows score where their fold is held out, if it can.
    fn hold_out(
        &self,
        py: Python<'_>,
        folds: PyReadonlyArray1<'_, u32>,
        times: Vec<f64>,
    ) -> PyResult<()> {
        let folds = Folds::new(folds.as_slice()?.to_vec(), times)?;
        self.with(py, |problem| problem.hold_out(folds));
        Ok(())
    }

    /// What it has found, rows x scores, if anything; to be had once.
    fn take_held_out<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<f64>>> {
        let scores = self.with(py, |problem| problem.take_held_out())?;
        Some(PyArray1::from_vec(py, scores))
    }

    /// Reads every value and index, and says what is wrong with the first that is; returns whether no step on
    /// these rows can overflow, in whatever order.
    fn survives(&self, py: Python<'_>, examples: PyRef<'_, Examples>) -> PyResult<bool> {
        let (norm2, heaviest, weight) = examples.sizes(py)?;
        Ok(self.with(py, |problem| problem.survives(norm2, heaviest, weight)))
    }

    /// Scores of rows, one after the other.
    #[pyo3(signature = (examples, *, threads = 1))]
    fn scores<'py>(
        &self,
        py: Python<'py>,
        examples: PyRef<'_, Examples>,
        threads: usize,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let borrowed = examples.borrow(py)?;
        let scores = scores::of(py, self, &borrowed.view(true)?, threads)?;
        Ok(PyArray1::from_vec(py, scores))
    }

    /// A step on the row of a dictionary, an example of this class and weight. Returns the scores that it had before, if they
    /// are wanted; `None` where nothing was learned, as a step might overflow: then it is for a copy to try.
    fn learn_one(
        &self,
        hasher: &Bound<'_, Hasher>,
        x: &Bound<'_, PyAny>,
        y: u32,
        weight: f64,
        scored: bool,
    ) -> PyResult<Option<Vec<f64>>> {
        single::learn(self, hasher.get(), x, (y, weight), scored)
    }

    /// The scores of the row of a dictionary, by the last iterate.
    fn scores_one(&self, hasher: &Bound<'_, Hasher>, x: &Bound<'_, PyAny>) -> PyResult<Vec<f64>> {
        single::scores(self, hasher.get(), x)
    }

    /// The number of the class with the highest of these scores; of one score, 1 where that is > 0.
    fn code_one(&self, hasher: &Bound<'_, Hasher>, x: &Bound<'_, PyAny>) -> PyResult<usize> {
        single::code(self, hasher.get(), x)
    }

    /// The model. Linear: weights, outputs x features, flat, in the data's dtype; intercepts; `None`. With kernels:
    /// coefficients, vectors x outputs, flat; which row each vector is and how often it was added, where that is known.
    fn result<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.with(py, |problem| problem.result())?(py)
    }

    /// The vectors in compressed-sparse-row form: indptr, indices, values.
    fn vectors<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.with(py, |problem| problem.vectors())(py)
    }

    /// Everything but ledgers and dual variables, as plain numbers and arrays.
    fn parts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let made = self.made();
        let told = self.with(py, |problem| problem.parts(made))?;
        let parts = PyDict::new(py);
        parts.set_item("dtype", &made.dtype)?;
        match &made.targets {
            Some(targets) => parts.set_item("targets", targets.clone())?,
            None => {
                parts.set_item("n_features", made.n_features)?;
                parts.set_item("sparse", made.sparse)?;
                parts.set_item("classes", made.classes)?;
            }
        }
        parts.update(told(py)?.cast()?)?;
        parts.set_item("params", made.params.bind(py).copy()?)?;
        Ok(parts)
    }

    /// Restores what `parts` gave.
    #[staticmethod]
    fn from_parts(parts: Bound<'_, PyDict>) -> PyResult<Self> {
        let params = item(&parts, "params")?.cast_into::<PyDict>()?.copy()?.unbind();
        let dtype = Part::take(&parts, "dtype")?;
        let made = if parts.contains("targets")? {
            let (kind, targets) = ("linear", Some(Part::take(&parts, "targets")?));
            Made { kind, dtype, params, targets, n_features: 0, sparse: false, classes: 0 }
        } else {
            Made {
                kind: if parts.contains("born")? { "budget" } else { "kernel" },
                dtype,
                params,
                targets: None,
                n_features: Part::take(&parts, "n_features")?,
                sparse: Part::take(&parts, "sparse")?,
                classes: Part::take(&parts, "classes")?,
            }
        };
        Trainer::make(parts.py(), made, Start::Parts(&parts))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Pickled<'py>> {
        Ok((slf.getattr("from_parts")?, (slf.get().parts(slf.py())?,)))
    }
}

/// What pickles hold: how to restore, and from what parts.
type Pickled<'py> = (Bound<'py, PyAny>, (Bound<'py, PyDict>,));

/// A fit under way: the policy at work on a trainer.
#[pyclass(module = "pegasos._core", frozen)]
pub(super) struct Fit {
    trainer: Py<Trainer>,
    examples: Py<Examples>,
    course: Mutex<Course>,
    /// The rows by number, where they are not drawn.
    rows: Option<Vec<usize>>,
    threads: usize,
}

/// The order of rows: a way of sampling, or their numbers.
#[derive(FromPyObject)]
enum Rows<'py> {
    Sampled(String),
    Given(PyReadonlyArray1<'py, i64>),
}

#[pymethods]
impl Fit {
    /// `every` is how many examples lie between two records of trainers with kernels; `metric` what rows are mapped by, of
    /// trainers on a budget.
    #[new]
    #[pyo3(signature = (
        trainer, examples, rows, *, solver = "pegasos", tol = None, max_epochs = 1, patience = 5, seed = 0,
        first_epoch = 0, shards = 1, cache = 0, certify = false, going_on = true, until_stopped = false,
        every = None, metric = None, threads = 1
    ))]
    #[allow(clippy::too_many_arguments, reason = "keywords in Python")]
    fn new(
        py: Python<'_>,
        trainer: Py<Trainer>,
        examples: Py<Examples>,
        rows: Rows<'_>,
        solver: &str,
        tol: Option<f64>,
        max_epochs: usize,
        patience: usize,
        seed: u64,
        first_epoch: u64,
        shards: usize,
        cache: usize,
        certify: bool,
        going_on: bool,
        until_stopped: bool,
        every: Option<u64>,
        metric: Option<PyRef<'_, Metric>>,
        threads: usize,
    ) -> PyResult<Self> {
        let solvers =
            [("pegasos", Solver::Pegasos), ("dual", Solver::Dual), ("auto", Solver::Auto)];
        let solver = choice("solver", solver, &solvers)?;
        let samplings = [
            ("shuffle", Sampling::Shuffle),
            ("blocks", Sampling::Blocks),
            ("replacement", Sampling::Replacement),
            ("storage", Sampling::Storage),
        ];
        let (sampling, rows) = match rows {
            Rows::Sampled(name) => (choice("sampling", &name, &samplings)?, None),
            // Whatever they are, they are not drawn anew.
            Rows::Given(rows) => (Sampling::Storage, Some(numbers(&rows)?)),
        };
        let (metric, n_rows) = (metric.as_deref(), examples.get().n_rows());
        trainer.get().with(py, |problem| {
            problem.record(every);
            problem.map_by(metric, n_rows)
        })?;
        let policy = Policy {
            solver,
            tol,
            max_epochs,
            patience,
            sampling,
            seed,
            first_epoch,
            shards,
            cache,
            certify,
            going_on,
            until_stopped,
        };
        Ok(Fit { trainer, examples, course: Mutex::new(Course::new(policy)), rows, threads })
    }

    /// Goes on to the end of an epoch; false at the end of the fit. `progress` is told how many rows were visited, and how
    /// many were mistaken.
    #[pyo3(signature = (progress = None))]
    fn epoch(&self, py: Python<'_>, progress: Option<Bound<'_, PyAny>>) -> PyResult<bool> {
        let (trainer, examples) = (self.trainer.get(), self.examples.get());
        let _turn = trainer.turn(py)?;
        let borrowed = examples.borrow(py)?;
        let (view, n) = (&borrowed.view(true)?, examples.n_rows());
        let (cost, width) = trainer.with(py, |problem| {
            let width = problem.facts().width;
            problem.on(view).map(|task| (task.cost(), width))
        })?;
        let shards = lock(&self.course).policy().shards;
        let pool = Pool::new(self.threads, width.saturating_mul(shards))?;
        let (mistakes, mut seen, mut over) = (AtomicU64::new(0), 0, false);
        let mut tell = |done: usize| match &progress {
            Some(progress) => progress.call1((done, mistakes.swap(0, Ordering::Relaxed))).map(drop),
            None => Ok(()),
        };
        let first = if cost > 0 { first_of(cost) } else { FIRST };
        work(py, first, &mut tell, &mut |size| {
            let course = &mut *lock(&self.course);
            let Policy { sampling, seed, .. } = *course.policy();
            let mut order = |epoch| -> Result<Box<dyn Order + Send>, Error> {
                Ok(match &self.rows {
                    None => Box::new(sampling.epoch(n, seed, epoch)?),
                    Some(rows) => Box::new(rows.clone().into_iter()),
                })
            };
            let problem = &mut **lock(&trainer.problem);
            let mut now = seen;
            let part = |size| {
                let (progress, all) = problem.on(view)?.advance(course, &mut order, size)?;
                now = all;
                Ok(progress)
            };
            let (left, last) = pool.run(|| go_on(size, part))?;
            mistakes.fetch_add(now.saturating_sub(seen), Ordering::Relaxed);
            seen = now;
            over = matches!(last, Progress::Over(_));
            Ok(left)
        })?;
        Ok(!over)
    }

    /// How the fit has ended: "reached", "exhausted" or "stalled"; `None` as long as it goes on.
    #[getter]
    fn outcome(&self, py: Python<'_>) -> Option<&'static str> {
        Some(match py.detach(|| lock(&self.course).outcome())? {
            Outcome::Reached => "reached",
            Outcome::Exhausted => "exhausted",
            Outcome::Stalled => "stalled",
        })
    }

    /// The mean loss of every epoch that has ended. Of one that was interrupted at its very end too: whoever notes them when
    /// he is told would miss that.
    #[getter]
    fn losses(&self, py: Python<'_>) -> Vec<f64> {
        py.detach(|| lock(&self.course).losses().to_vec())
    }

    /// The objective and its bound after the last epoch, nan where they were not evaluated.
    #[getter]
    fn certificate(&self, py: Python<'_>) -> (f64, f64) {
        let certificate = py.detach(|| lock(&self.course).event().certificate);
        (certificate.primal, certificate.dual)
    }

    /// How many epochs were begun.
    #[getter]
    fn epochs(&self, py: Python<'_>) -> usize {
        py.detach(|| lock(&self.course).epochs())
    }

    /// Whether dual ascent has taken over.
    #[getter]
    fn ascends(&self, py: Python<'_>) -> bool {
        py.detach(|| lock(&self.course).is_ascending())
    }

    /// What was recorded in the last epoch: each so many examples, steps, examples, mistakes, and the sum of the gradient
    /// errors, all counted from the very first.
    #[getter]
    fn records(&self, py: Python<'_>) -> Vec<Record> {
        self.trainer.get().with(py, |problem| problem.records())
    }

    /// It is enough: what is left is to evaluate what is not known.
    fn stop(&self, py: Python<'_>) {
        py.detach(|| lock(&self.course).stop());
    }

    /// Gives the trainer what dual ascent has found, and forgets what was recorded for this fit. To be called at its end,
    /// however that came.
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        let borrowed = self.examples.get().borrow(py)?;
        let view = &borrowed.view(true)?;
        Ok(self.trainer.get().with(py, |problem| {
            problem.map_by(None, 0)?;
            problem.on(view)?.end_ascent()
        })?)
    }
}
