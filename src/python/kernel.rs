//! Kernel problems, on a budget or not: how they are made, from nothing or from parts, and what is told of them.

use std::any::Any;

use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::examples::{Number, View};
use super::parts::{Common, Parts, array, check_format, get, item, maybe_array, scale};
use super::trainer::{Made, Model, Problem};
use super::unknown;
use crate::fit::Course;
use crate::{
    Binary, Budgeted, BudgetedState, CrammerSinger, Csr, Dense, Error, Examples, Expansion,
    ExpansionState, Hinge, Kernel, KernelProblem, Loss, Machine, Maintenance, Matrix, Order,
    Params, Progress, Record, Report, Schedule, Trainer, memory,
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
        Ok(match self.kernel.as_str() {
            "linear" => Kernel::Linear,
            "rbf" => Kernel::Rbf { gamma },
            "poly" => Kernel::Poly { gamma, coef0, degree },
            "sigmoid" => Kernel::Sigmoid { gamma, coef0 },
            "precomputed" => Kernel::Precomputed,
            other => return Err(unknown("kernel", other)),
        })
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

/// What the Python package wants of a w of support vectors.
pub(super) trait Stored: Machine<Scalar: Number> + 'static {
    const KIND: &'static str;
    /// Of its parts; a change of their keys' meaning gets a new number.
    const FORMAT: u32;
    /// One without vectors.
    fn make(
        kernel: Kernel,
        outputs: usize,
        made: &Made,
        params: &Bound<'_, PyDict>,
    ) -> PyResult<Self>;
    /// Gives it, without vectors yet, those among the parts and all else that it held.
    fn take(&mut self, parts: &Bound<'_, PyDict>) -> PyResult<()>;
    /// What it holds beside the vectors.
    fn set(&self, parts: &mut Parts);
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
    fn with_coefs(&self, _coefs: &[f64]) -> Result<Option<Self>, Error> {
        Ok(None)
    }
    /// Whether vectors are columns of a precomputed matrix, which have no features.
    fn are_columns(&self) -> bool {
        false
    }
}

impl<S: Number> Stored for Expansion<S> {
    const KIND: &'static str = "kernel";
    const FORMAT: u32 = 4;

    fn make(kernel: Kernel, outputs: usize, made: &Made, _: &Bound<'_, PyDict>) -> PyResult<Self> {
        Ok(match made.sparse {
            true => Expansion::sparse(kernel, outputs, made.n_features)?,
            false => Expansion::new(kernel, outputs, made.n_features)?,
        })
    }

    fn take(&mut self, parts: &Bound<'_, PyDict>) -> PyResult<()> {
        let state = ExpansionState {
            v: array(parts, "v")?,
            u: array(parts, "u")?,
            scale: scale(parts)?,
            counts: array(parts, "counts")?,
            norms: array(parts, "norms")?,
        };
        let numbers: Option<Vec<usize>> = maybe_array::<i64>(parts, "rows")?
            .map(|rows| rows.into_iter().map(|i| i as usize).collect());
        if numbers.is_some() {
            // Of a matrix that is gone.
            self.number_rows(0)?;
        }
        with_vectors(parts, self.n_features(), |vectors| match vectors {
            Some(vectors) => self.restore(vectors, numbers.as_deref(), &state),
            None => Ok(()),
        })
    }

    fn set(&self, parts: &mut Parts) {
        let state = self.state();
        parts.set_array("v", state.v);
        parts.set_array("u", state.u);
        parts.set_array("counts", state.counts);
        let rows = self.rows().map(|rows| rows.iter().map(|&i| i64::from(i)).collect());
        parts.set_maybe::<i64>("rows", rows);
        parts.set_array("norms", state.norms);
        parts.set_scale(&state.scale);
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
    const KIND: &'static str = "budget";
    const FORMAT: u32 = 3;

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

    fn take(&mut self, parts: &Bound<'_, PyDict>) -> PyResult<()> {
        let state = BudgetedState {
            v: array(parts, "v")?,
            u: array(parts, "u")?,
            scale: scale(parts)?,
            born: array(parts, "born")?,
            added: get(parts, "added")?,
            evicted: get(parts, "evicted")?,
            norms: array(parts, "norms")?,
        };
        let d = self.n_features();
        with_vectors(parts, d, |vectors| match vectors {
            Some(vectors) => self.restore(vectors, &state),
            None => self.restore(&Dense::new(&[], 0, d)?.into(), &state),
        })
    }

    fn set(&self, parts: &mut Parts) {
        let state = self.state();
        parts.set_array("v", state.v);
        parts.set_array("u", state.u);
        parts.set_array("born", state.born);
        parts.set("added", state.added);
        parts.set("evicted", state.evicted);
        parts.set_array("norms", state.norms);
        parts.set_scale(&state.scale);
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

    fn with_coefs(&self, coefs: &[f64]) -> Result<Option<Self>, Error> {
        let mut w = self.clone();
        w.set_coefs(coefs)?;
        Ok(Some(w))
    }
}

/// A problem, from nothing or from parts; on a budget where parts or `bounded` say so.
pub(super) fn make(
    dtype: &str,
    made: &Made,
    params: &Bound<'_, PyDict>,
    bounded: bool,
    parts: Option<&Bound<'_, PyDict>>,
) -> PyResult<Box<dyn Problem>> {
    match (dtype, bounded) {
        ("float32", false) => of_classes::<Expansion<f32>>(made, params, parts),
        ("float64", false) => of_classes::<Expansion<f64>>(made, params, parts),
        ("float32", true) => of_classes::<Budgeted<f32>>(made, params, parts),
        ("float64", true) => of_classes::<Budgeted<f64>>(made, params, parts),
        (other, _) => Err(unknown("dtype", other)),
    }
}

fn of_classes<H: Stored>(
    made: &Made,
    params: &Bound<'_, PyDict>,
    parts: Option<&Bound<'_, PyDict>>,
) -> PyResult<Box<dyn Problem>> {
    match made.classes {
        2 => problem::<H, _>(Binary { loss: Hinge, positive: 1 }, made, params, parts),
        classes => problem::<H, _>(CrammerSinger { classes }, made, params, parts),
    }
}

fn problem<H: Stored, L: Loss + Clone + Send + 'static>(
    loss: L,
    made: &Made,
    params: &Bound<'_, PyDict>,
    parts: Option<&Bound<'_, PyDict>>,
) -> PyResult<Box<dyn Problem>> {
    let (common, parsed): (Common, PyKernel) = (params.extract()?, params.extract()?);
    memory::check::<[f64; 2]>("the scores of an example", &[made.classes])?;
    let mut w = H::make(parsed.kernel()?, loss.zeros().as_ref().len(), made, params)?;
    let (mut t, mut updates, mut total) = (0, 0, Report::default());
    if let Some(parts) = parts {
        check_format(parts, H::FORMAT)?;
        (t, updates) = (get(parts, "t")?, get(parts, "updates")?);
        total = Report {
            steps: get(parts, "steps")?,
            examples: get(parts, "examples")?,
            mistakes: get(parts, "mistakes")?,
            degradation: get(parts, "degradation")?,
            gradient_error: get(parts, "gradient_error")?,
            ..Report::default()
        };
        w.take(parts)?;
    }
    let params = w.adapt(common.params(&loss, parsed.window)?);
    let mut trainer = Trainer::resume(w, loss, params, t)?;
    trainer.set_updates(updates);
    Ok(Box::new(KernelProblem::resume(trainer, total)))
}

/// Calls `f` with the vectors among the parts, once they are checked; with `None` if there are none.
fn with_vectors<S: Number>(
    parts: &Bound<'_, PyDict>,
    n_features: usize,
    f: impl FnOnce(Option<&Matrix<'_, S>>) -> Result<(), Error>,
) -> PyResult<()> {
    let values: Vec<S> = array(parts, "values")?;
    let (indptr, indices);
    let vectors: Matrix<'_, S> = if item(parts, "indptr")?.is_none() {
        if values.is_empty() {
            return Ok(f(None)?);
        }
        Dense::new(&values, values.len() / n_features.max(1), n_features)?.into()
    } else {
        (indptr, indices) = (array::<i64>(parts, "indptr")?, array::<i64>(parts, "indices")?);
        if indptr.len() == 1 {
            return Ok(f(None)?);
        }
        Csr::new(&indptr, &indices, &values, n_features)?.into()
    };
    let labels = memory::zeros("labels", &[vectors.n_rows()])?;
    Examples::new(vectors, &labels, None)?.check(0..vectors.n_rows())?;
    Ok(f(Some(&vectors))?)
}

/// Adds the vectors in compressed-sparse-row form.
fn set_vectors<H: Stored>(w: &H, parts: &mut Parts) {
    let (mut indptr, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
    for k in 0..w.n_vectors() {
        w.for_each(k, &mut |j, x| {
            indices.push(j as i64);
            values.push(x);
        });
        indptr.push(indices.len() as i64);
    }
    parts.set_array::<i64>("indptr", indptr);
    parts.set_array::<i64>("indices", indices);
    parts.set_array("values", values);
}

impl<H: Stored, L: Loss + Clone + Send + 'static> Problem for KernelProblem<H, L> {
    fn kind(&self) -> &'static str {
        H::KIND
    }

    fn dtype(&self) -> &'static str {
        H::Scalar::DTYPE
    }

    fn t(&self) -> u64 {
        self.trainer().t()
    }

    fn copy(&mut self) -> Result<Box<dyn Problem>, Error> {
        Ok(Box::new(KernelProblem::copy(self)?))
    }

    fn size(&self) -> usize {
        0
    }

    fn width(&self) -> usize {
        usize::MAX
    }

    fn cost(&self, n_features: usize) -> usize {
        crate::Problem::cost(self, n_features)
    }

    fn survives(&self, norm2: f64, weight: f64) -> bool {
        self.trainer().survives(norm2, weight)
    }

    fn advance(
        &mut self,
        course: &mut Course,
        data: &View<'_>,
        order: &mut dyn FnMut(u64) -> Result<Box<dyn Order + Send>, Error>,
        size: usize,
    ) -> Result<Progress, Error> {
        course.advance(self, data.of::<H::Scalar>()?, order, size)
    }

    fn end_ascent(&mut self, data: &View<'_>) -> Result<(), Error> {
        crate::Problem::end_ascent(self, data.of::<H::Scalar>()?)
    }

    fn seen(&self) -> Report {
        crate::Problem::seen(self)
    }

    fn model(&mut self) -> Result<Model, Error> {
        Ok(H::Scalar::model(crate::Model::Kernel(KernelProblem::model(self)?)))
    }

    fn parts(&self, made: &Made) -> Result<Parts, Error> {
        let (trainer, w) = (self.trainer(), self.trainer().hypothesis());
        let mut parts = Parts::default();
        parts.set("format", H::FORMAT);
        parts.set("dtype", H::Scalar::DTYPE);
        parts.set("n_features", made.n_features);
        parts.set("sparse", made.sparse);
        parts.set("classes", made.classes);
        let total = KernelProblem::total(self);
        parts.set("steps", total.steps);
        parts.set("examples", total.examples);
        parts.set("mistakes", total.mistakes);
        parts.set("degradation", total.degradation);
        parts.set("gradient_error", total.gradient_error);
        parts.set("updates", trainer.updates());
        parts.set("t", trainer.t());
        w.set(&mut parts);
        // Of dense rows all features, so that their number is that of an array; columns need none.
        if made.sparse || w.are_columns() {
            set_vectors(w, &mut parts);
            return Ok(parts);
        }
        let sizes = [w.n_vectors(), made.n_features];
        let mut all: Vec<H::Scalar> = memory::zeros("the support vectors", &sizes)?;
        for (k, features) in all.chunks_mut(made.n_features).enumerate() {
            w.for_each(k, &mut |j, x| features[j] = x);
        }
        parts.set_maybe::<i64>("indptr", None);
        parts.set_maybe::<i64>("indices", None);
        parts.set_array("values", all);
        Ok(parts)
    }

    fn total(&self) -> Report {
        KernelProblem::total(self)
    }

    fn spans(&self) -> bool {
        self.trainer().hypothesis().spans()
    }

    fn assume_positive(&mut self) {
        self.trainer_mut().hypothesis_mut().assume_positive();
    }

    fn forget_rows(&mut self) {
        KernelProblem::forget_rows(self);
    }

    fn set_coefs(&mut self, coefs: &[f64], steps: u64) -> Result<(), Error> {
        self.trainer().check_copy()?;
        match self.trainer().hypothesis().with_coefs(coefs)? {
            Some(w) => self.trainer_mut().jump(w, steps),
            None => Err(Error::parameter("budget", "None", "a number where coefficients are set")),
        }
    }

    fn record(&mut self, every: Option<u64>) {
        KernelProblem::record(self, every);
    }

    fn records(&self) -> Vec<Record> {
        KernelProblem::records(self).to_vec()
    }

    fn result(&mut self) -> Result<Parts, Error> {
        let w = KernelProblem::model(self)?;
        let mut coefs = vec![0.0; w.n_vectors() * crate::Hypothesis::outputs(&*w)];
        for (slot, coef) in coefs.chunks_mut(crate::Hypothesis::outputs(&*w)).enumerate() {
            w.coef(slot, coef);
        }
        let mut parts = Parts::default();
        parts.set_array("values", coefs);
        if H::EVALUATES {
            parts.set_maybe("rows", w.rows().map(<[u32]>::to_vec));
            parts.set_array("counts", w.counts().to_vec());
        }
        Ok(parts)
    }

    fn vectors(&self) -> Parts {
        let mut parts = Parts::default();
        set_vectors(self.trainer().hypothesis(), &mut parts);
        parts
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
