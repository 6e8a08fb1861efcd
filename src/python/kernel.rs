//! Kernel problems, on a budget or not: how they are made, from nothing or from parts, and what is told of them.

use std::any::Any;
use std::ops::RangeInclusive;

use numpy::PyArray1;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::examples::{Number, View};
use super::linear::Start;
use super::metric::Metric;
use super::parts::{Common, Part, Told, check_format, parts, told};
use super::single::scores_of;
use super::trainer::{Facts, Frozen, Made, On, Problem, Task, no_budget};
use super::{choice, unknown};
use crate::{
    AnyLoss, Binary, Budgeted, BudgetedState, Combine, CrammerSinger, Csr, Dense, Error, Examples,
    Expansion, ExpansionState, Folds, Hinge, Kernel, KernelProblem, Loss, Machine, Maintenance,
    Matrix, Multiclass, OneVsOne, OneVsRest, Params, Record, Report, Schedule, Trainer, memory,
};

/// What kernel problems need to know beside the parameters of all: a dictionary with these keys.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct PyKernel {
    kernel: String,
    gamma: f64,
    coef0: f64,
    degree: u32,
    /// How far back an average of recent iterates reaches, in updates.
    window: u64,
}

impl PyKernel {
    fn kernel(&self) -> PyResult<Kernel> {
        let &PyKernel { gamma, coef0, degree, .. } = self;
        let kernels = [
            ("linear", Kernel::Linear),
            ("rbf", Kernel::Rbf { gamma }),
            ("poly", Kernel::Poly { gamma, coef0, degree }),
            ("sigmoid", Kernel::Sigmoid { gamma, coef0 }),
            ("precomputed", Kernel::Precomputed),
        ];
        choice("kernel", &self.kernel, &kernels)
    }
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
        let strategies = [
            ("remove", Maintenance::Remove),
            ("random", Maintenance::Random { seed }),
            ("project", Maintenance::Project),
            ("merge", Maintenance::Merge),
            ("projectron", Maintenance::Projectron { threshold, margin }),
        ];
        choice("maintenance", &self.maintenance, &strategies)
    }
}

/// All that is stored of a problem beside what it was made with.
struct Parts<W, S> {
    format: u32,
    total: Report,
    updates: u64,
    t: u64,
    /// What w holds beside its vectors.
    w: W,
    vectors: Vectors<S>,
}
parts!([W: Part, S: Number] Parts<W, S> { format, total, updates, t, w, vectors });

/// Rows: in compressed-sparse-row form, or all features of each.
struct Vectors<S> {
    indptr: Option<Vec<i64>>,
    indices: Option<Vec<i64>>,
    values: Vec<S>,
}
parts!([S: Number] Vectors<S> { indptr, indices, values });

impl<S: Number> Vectors<S> {
    /// Those of this w in compressed-sparse-row form.
    fn sparse<H: Stored<Scalar = S>>(w: &H) -> Self {
        let (mut indptr, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
        for k in 0..w.n_vectors() {
            w.for_each(k, &mut |j, x| {
                indices.push(j as i64);
                values.push(x);
            });
            indptr.push(indices.len() as i64);
        }
        Vectors { indptr: Some(indptr), indices: Some(indices), values }
    }

    /// The vectors with all features, so that their number is that of an array.
    fn dense<H: Stored<Scalar = S>>(w: &H, n_features: usize) -> Result<Self, Error> {
        let mut values = memory::zeros("the support vectors", &[w.n_vectors(), n_features])?;
        for (k, features) in values.chunks_mut(n_features).enumerate() {
            w.for_each(k, &mut |j, x| features[j] = x);
        }
        Ok(Vectors { indptr: None, indices: None, values })
    }

    /// The rows, once they are checked.
    fn matrix(&self, n_features: usize) -> Result<Matrix<'_, S>, Error> {
        let rows: Matrix<'_, S> = match (&self.indptr, &self.indices) {
            (None, _) => {
                let n_rows = self.values.len() / n_features.max(1);
                Dense::new(&self.values, n_rows, n_features)?.into()
            }
            (Some(indptr), Some(indices)) if indptr.len() > 1 => {
                Csr::new(indptr, indices, &self.values, n_features)?.into()
            }
            _ => Dense::new(&[], 0, n_features)?.into(),
        };
        let labels = memory::zeros("labels", &[rows.n_rows()])?;
        Examples::new(rows, &labels, None)?.check(0..rows.n_rows())?;
        Ok(rows)
    }
}

/// What the Python package wants of a w of support vectors.
pub(super) trait Stored: Machine<Scalar: Number> + Combine + 'static {
    /// Of its parts, those that can be read, the last of which is written; a change of their keys' meaning gets a new number.
    const FORMATS: RangeInclusive<u32>;
    /// What it holds beside the vectors.
    type State: Part + Send + 'static;
    /// One without vectors.
    fn make(
        kernel: Kernel,
        outputs: usize,
        made: &Made,
        params: &Bound<'_, PyDict>,
    ) -> PyResult<Self>;
    fn state(&self) -> Self::State;
    /// Gives it, without vectors yet, these and all else that it held.
    fn take(&mut self, x: &Matrix<'_, Self::Scalar>, state: &Self::State) -> Result<(), Error>;
    /// The parameters of its trainer, given those of kernel problems in general.
    fn adapt(&self, params: Params) -> Params {
        params
    }
    /// Calls `f(column, value)` for every feature that is not 0 of the k-th vector.
    fn for_each(&self, k: usize, f: &mut dyn FnMut(usize, Self::Scalar));
    fn assume_positive(&mut self) {}
    fn spans(&self) -> bool {
        self.n_vectors() > 0
    }
    /// Other coefficients, where they can be had.
    fn with_coefs(&self, _coefs: &[f64]) -> Result<Self, Error> {
        Err(no_budget())
    }
    /// Whether vectors are columns of a precomputed matrix, which have no features.
    fn are_columns(&self) -> bool {
        false
    }
}

/// What an expansion holds beside the vectors; which rows they are, where those have numbers.
pub(super) struct Numbered<S> {
    rows: Option<Vec<i64>>,
    state: ExpansionState<S>,
}
parts!([S: Number] Numbered<S> { rows, state });

impl<S: Number> Stored for Expansion<S> {
    const FORMATS: RangeInclusive<u32> = 4..=5;
    type State = Numbered<S>;

    fn make(
        kernel: Kernel,
        outputs: usize,
        made: &Made,
        params: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let w = match made.sparse {
            true => Expansion::sparse(kernel, outputs, made.n_features)?,
            false => Expansion::new(kernel, outputs, made.n_features)?,
        };
        // Once there was none.
        let constant: Option<f64> =
            params.get_item("constant")?.map(|constant| constant.extract()).transpose()?;
        Ok(w.with_constant(constant.unwrap_or(0.0))?)
    }

    fn state(&self) -> Numbered<S> {
        let rows = self.rows().map(|rows| rows.iter().map(|&i| i64::from(i)).collect());
        Numbered { rows, state: Expansion::state(self) }
    }

    fn take(&mut self, x: &Matrix<'_, S>, state: &Numbered<S>) -> Result<(), Error> {
        let numbers = state.rows.as_ref();
        let numbers: Option<Vec<usize>> =
            numbers.map(|rows| rows.iter().map(|&i| i as usize).collect());
        if numbers.is_some() {
            // Of a matrix that is gone.
            self.number_rows(0)?;
        }
        self.restore(x, numbers.as_deref(), &state.state)?;
        self.measure();
        Ok(())
    }

    fn for_each(&self, k: usize, f: &mut dyn FnMut(usize, S)) {
        Expansion::for_each(self, k, f);
    }

    fn assume_positive(&mut self) {
        Expansion::assume_positive(self);
    }

    fn are_columns(&self) -> bool {
        self.kernel() == Kernel::Precomputed
    }
}

impl<S: Number> Stored for Budgeted<S> {
    const FORMATS: RangeInclusive<u32> = 3..=3;
    type State = BudgetedState;

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

    fn state(&self) -> BudgetedState {
        Budgeted::state(self)
    }

    fn take(&mut self, x: &Matrix<'_, S>, state: &BudgetedState) -> Result<(), Error> {
        self.restore(x, state)
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

    fn for_each(&self, k: usize, f: &mut dyn FnMut(usize, S)) {
        Budgeted::for_each(self, k, f);
    }

    fn spans(&self) -> bool {
        Budgeted::spans(self)
    }

    fn with_coefs(&self, coefs: &[f64]) -> Result<Self, Error> {
        let mut w = self.clone();
        w.set_coefs(coefs)?;
        Ok(w)
    }
}

/// A problem, from nothing or from parts.
pub(super) fn make(
    made: &Made,
    params: &Bound<'_, PyDict>,
    start: Start<'_, '_>,
) -> PyResult<Box<dyn Problem>> {
    match (made.dtype.as_str(), made.kind == "budget") {
        ("float32", false) => of_classes::<Expansion<f32>>(made, params, start),
        ("float64", false) => of_classes::<Expansion<f64>>(made, params, start),
        ("float32", true) => of_classes::<Budgeted<f32>>(made, params, start),
        ("float64", true) => of_classes::<Budgeted<f64>>(made, params, start),
        (other, _) => Err(unknown("dtype", other)),
    }
}

fn of_classes<H: Stored>(
    made: &Made,
    params: &Bound<'_, PyDict>,
    start: Start<'_, '_>,
) -> PyResult<Box<dyn Problem>> {
    match made.classes {
        2 => problem::<H, _>(Binary { loss: Hinge, positive: 1 }, made, params, start),
        classes => problem::<H, _>(of_several(classes, params)?, made, params, start),
    }
}

/// How so many classes are told apart.
fn of_several(classes: usize, params: &Bound<'_, PyDict>) -> PyResult<Multiclass> {
    // Once there was one way only.
    let way: Option<String> =
        params.get_item("multi_class")?.map(|way| way.extract()).transpose()?;
    let (loss, positives) = (AnyLoss::Hinge, (0..classes as u32).collect());
    Ok(match way.as_deref() {
        None | Some("crammer_singer") => Multiclass::CrammerSinger(CrammerSinger { classes }),
        Some("ovr") => Multiclass::OneVsRest(OneVsRest { loss, positives }),
        Some("ovo") => Multiclass::OneVsOne(OneVsOne { loss, classes }),
        Some(other) => return Err(unknown("multi_class", other)),
    })
}

fn problem<H: Stored, L: Loss + Clone + Send + 'static>(
    loss: L,
    made: &Made,
    params: &Bound<'_, PyDict>,
    start: Start<'_, '_>,
) -> PyResult<Box<dyn Problem>> {
    let (common, parsed): (Common, PyKernel) = (params.extract()?, params.extract()?);
    memory::check::<[f64; 2]>("the scores of an example", &[made.classes])?;
    let mut w = H::make(parsed.kernel()?, loss.outputs(), made, params)?;
    let (mut t, mut updates, mut total) = (0, 0, Report::default());
    if let Start::Parts(parts) = start {
        check_format(parts, &H::FORMATS)?;
        // Budgets were stored without it once, and compute it.
        parts.call_method1("setdefault", ("norm2", f64::NAN))?;
        // Once there were all coefficients.
        let none = |name, of| parts.call_method1("setdefault", (name, of));
        none("ends", PyArray1::<u64>::zeros(parts.py(), 0, false).into_any())?;
        none("outputs", PyArray1::<u32>::zeros(parts.py(), 0, false).into_any())?;
        Parts::<H::State, H::Scalar>::look(parts, "")?;
        let parts = Parts::<H::State, H::Scalar>::take(parts, "")?;
        (t, updates, total) = (parts.t, parts.updates, parts.total);
        w.take(&parts.vectors.matrix(made.n_features)?, &parts.w)?;
    }
    let params = w.adapt(common.params(&loss, parsed.window)?);
    let mut trainer = Trainer::resume(w, loss, params, t)?;
    trainer.set_updates(updates);
    Ok(Box::new(KernelProblem::resume(trainer, total)))
}

impl<H: Stored, L: Loss + Clone + Send + 'static> Problem for KernelProblem<H, L> {
    fn copy(&mut self) -> Result<Box<dyn Problem>, Error> {
        Ok(Box::new(KernelProblem::copy(self)?))
    }

    fn average(
        &self,
        all: &[Box<dyn Problem>],
        factors: &[f64],
    ) -> Option<Result<Box<dyn Problem>, Error>> {
        let of_kind = all.iter().map(|other| (&**other as &dyn Any).downcast_ref::<Self>());
        let all = of_kind.collect::<Option<Vec<&Self>>>()?;
        let parts = factors.iter().copied().zip(all.iter().map(|other| other.trainer()));
        let mut total = Report::default();
        all.iter().for_each(|other| total += other.total());
        let average = Trainer::average_of(&parts.collect::<Vec<_>>());
        Some(average.map(|trainer| Box::new(KernelProblem::resume(trainer, total)) as Box<_>))
    }

    fn share(&self, t: u64, account: bool) -> Result<Box<dyn Problem>, Error> {
        let total = if account { self.total() } else { Report::default() };
        Ok(Box::new(KernelProblem::resume(self.trainer().share(t)?, total)))
    }

    fn facts(&self) -> Facts {
        let Report { steps, gradient_error, .. } = self.total();
        Facts {
            t: self.trainer().t(),
            size: 0,
            width: usize::MAX,
            steps,
            gradient_error,
            spans: self.trainer().hypothesis().spans(),
            regret: (f64::NAN, f64::NAN),
        }
    }

    fn map_by(&mut self, metric: Option<&Metric>, n_rows: usize) -> Result<(), Error> {
        let metric = metric.map(|metric| metric.of::<H::Scalar>()).transpose()?;
        KernelProblem::map_by(self, metric, n_rows)
    }

    fn scores_now(&self, data: &View<'_>) -> Result<Vec<f64>, Error> {
        scores_of([self.trainer().hypothesis()], data.of::<H::Scalar>()?)
    }

    fn survives(&self, norm2: f64, heaviest: f64, weight: f64) -> bool {
        self.trainer().survives(norm2, heaviest, weight)
    }

    fn on<'a>(&'a mut self, data: &'a View<'_>) -> Result<Box<dyn Task + 'a>, Error> {
        Ok(Box::new(On(self, data.of::<H::Scalar>()?)))
    }

    fn model(&mut self) -> Result<Frozen, Error> {
        Ok(H::Scalar::model(crate::Frozen::Kernel(KernelProblem::model(self)?)))
    }

    fn parts(&self, made: &Made) -> Result<Told, Error> {
        let (trainer, w) = (self.trainer(), self.trainer().hypothesis());
        let vectors = match made.sparse || w.are_columns() {
            true => Vectors::sparse(w),
            false => Vectors::dense(w, made.n_features)?,
        };
        let (total, updates, t) = (self.total(), trainer.updates(), trainer.t());
        let parts = Parts { format: *H::FORMATS.end(), total, updates, t, w: w.state(), vectors };
        Ok(told(move |py| Ok(parts.dict(py)?.into_any())))
    }

    fn assume_positive(&mut self) {
        self.trainer_mut().hypothesis_mut().assume_positive();
    }

    fn forget_rows(&mut self) {
        KernelProblem::forget_rows(self);
    }

    fn meet_rows_again(&mut self, n_rows: usize) -> Result<(), Error> {
        KernelProblem::meet_rows_again(self, n_rows)
    }

    fn set_coefs(&mut self, coefs: &[f64], steps: u64) -> Result<(), Error> {
        self.trainer().check_copy()?;
        let w = self.trainer().hypothesis().with_coefs(coefs)?;
        self.trainer_mut().jump(w, steps)
    }

    fn hold_out(&mut self, folds: Folds) {
        KernelProblem::hold_out(self, folds);
    }

    fn take_held_out(&mut self) -> Option<Vec<f64>> {
        KernelProblem::take_held_out(self)
    }

    fn record(&mut self, every: Option<u64>) {
        KernelProblem::record(self, every);
    }

    fn records(&self) -> Vec<Record> {
        KernelProblem::records(self).to_vec()
    }

    fn result(&mut self) -> Result<Told, Error> {
        let w = KernelProblem::model(self)?;
        let (mut indptr, mut outputs, mut coefs) = (vec![0_i64], Vec::new(), Vec::new());
        for slot in 0..w.n_vectors() {
            w.for_each_coef(slot, |o, coef| {
                outputs.push(o as i64);
                coefs.push(coef);
            });
            indptr.push(coefs.len() as i64);
        }
        Ok(told(move |py| {
            // On a budget nobody knows.
            let rows = w.rows().filter(|_| H::EVALUATES).map(|rows| PyArray1::from_slice(py, rows));
            let counts = H::EVALUATES.then(|| PyArray1::from_slice(py, w.counts()));
            let (indptr, outputs) =
                (PyArray1::from_vec(py, indptr), PyArray1::from_vec(py, outputs));
            (indptr, outputs, PyArray1::from_vec(py, coefs), rows, counts).into_bound_py_any(py)
        }))
    }

    fn vectors(&self) -> Told {
        let Vectors { indptr, indices, values } = Vectors::sparse(self.trainer().hypothesis());
        told(move |py| {
            let numbers = |of: Option<Vec<i64>>| of.map(|of| PyArray1::from_vec(py, of));
            (numbers(indptr), numbers(indices), PyArray1::from_vec(py, values))
                .into_bound_py_any(py)
        })
    }
}
