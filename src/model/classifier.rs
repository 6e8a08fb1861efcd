//! A fit in one call: examples and labels in, a [`Model`] out.
//!
//! What Python's estimators do by their defaults: linear machines with the squared hinge, one class against the rest (those
//! of `LinearSVC`), kernel machines with the hinge and pairs of classes (those of `SVC`), to a certified gap where kernels are
//! positive semi-definite, for which those that are precomputed are looked at; of others `max_epochs` of Pegasos. On a budget
//! one pass of Pegasos, and a refit of the coefficients of its support vectors. Time and memory are those of the
//! [`Fit`], with class numbers and the model beside them.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::positive::is_positive;
use super::state::{Kept, State, Stored};
use super::{Calibration, Label, Model, Rows, Scorer};
use crate::budget::{Budgeted, Maintenance};
use crate::data::Matrix;
use crate::error::{Error, check_lengths};
use crate::examples::Examples;
use crate::expansion::Expansion;
use crate::fit::{Fit, KernelProblem, LinearProblems, Policy, ROUGH, Solver, most_epochs, worth};
use crate::frozen::Frozen;
use crate::kernel::Kernel;
use crate::ledger::Certificate;
use crate::linear::Linear;
use crate::loss::{AnyLoss, Binary, Loss, Multiclass, OneVsOne, Versus};
use crate::memory;
use crate::params::{Average, Params};
use crate::refit::Refit;
use crate::span::Span;
use crate::trainer::Trainer;

/// The constant feature beside the images of a kernel; docs/kernels.md of the Python package says why.
const CONSTANT: f64 = 3.0;

/// Bytes for the features of a refit.
const FEATURES: usize = 1 << 30;

/// What is trained, and how: `PegasosClassifier` and `KernelPegasosClassifier` in Python.
///
/// ```
/// use pegasos::{Classifier, Dense, Kernel};
///
/// // One class inside of the other: a task for a kernel.
/// let points: Vec<f64> = (0..200).flat_map(|i| {
///     let (angle, radius) = (f64::from(i), f64::from(1 + i % 2));
///     [radius * angle.cos(), radius * angle.sin()]
/// }).collect();
/// let labels: Vec<&str> = (0..200).map(|i| ["inside", "outside"][i % 2]).collect();
/// let x = Dense::new(&points, 200, 2)?;
///
/// let model = Classifier::with_kernel(Kernel::Rbf { gamma: 1.0 }).fit(x, &labels)?;
/// assert_eq!(model.accuracy(x, &labels)?, 1.0);
/// // Of at most 20 support vectors, however many the examples.
/// let rbf = Classifier::with_kernel(Kernel::Rbf { gamma: 1.0 });
/// let small = Classifier { budget: Some(20), ..rbf }.fit(x, &labels)?;
/// assert!(small.accuracy(x, &labels)? > 0.9);
/// # Ok::<(), pegasos::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Classifier {
    /// The kernel; `None` for a linear machine.
    pub kernel: Option<Kernel>,
    /// The strength of the regularisation (`alpha` in Python); `None` for one over the number of examples, which is `C = 1`.
    pub lambda: Option<f64>,
    /// What an example costs a linear machine; a kernel machine has the hinge.
    pub loss: AnyLoss,
    /// Whether scores have an intercept, the weight of a constant feature; on a budget there is none.
    pub intercept: bool,
    /// The most support vectors there may be.
    pub budget: Option<usize>,
    /// What the fit does, and when it ends.
    pub policy: Policy,
}

impl Default for Classifier {
    /// A linear machine.
    fn default() -> Self {
        Classifier {
            kernel: None,
            lambda: None,
            loss: AnyLoss::SquaredHinge,
            intercept: true,
            budget: None,
            policy: Policy::default(),
        }
    }
}

impl Classifier {
    /// A machine with this kernel.
    pub fn with_kernel(kernel: Kernel) -> Self {
        let policy = Policy { max_epochs: 1, ..Policy::default() };
        Classifier { kernel: Some(kernel), loss: AnyLoss::Hinge, policy, ..Classifier::default() }
    }

    /// Trains on these examples. Labels are whatever becomes a [`Label`]: numbers, booleans, words.
    ///
    /// To a certified gap where the kernel [is positive](Kernel::is_positive), or is precomputed and found to be: values that are
    /// symmetric and have a Cholesky factor, up to rounding. Of other kernels nothing is certified, and the model is what
    /// [`max_epochs`](Policy::max_epochs) of Pegasos make of it, one by default.
    ///
    /// # Errors
    ///
    /// Rows that are not finite, labels that are not as many as rows, not finite or all the same, parameters out of range.
    pub fn fit<'a, L>(&self, x: impl Into<Rows<'a>>, labels: &[L]) -> Result<Model, Error>
    where
        L: Clone + Into<Label>,
    {
        self.fit_rows(x.into(), labels.iter().cloned().map(Into::into).collect())
    }

    /// Not generic, so that whoever calls [`Classifier::fit`] does not compile the trainers anew.
    fn fit_rows(&self, x: Rows<'_>, labels: Vec<Label>) -> Result<Model, Error> {
        check_lengths(&[("labels", labels.len(), x.n_rows())])?;
        let (labels, codes) = coded(labels)?;
        match x {
            Rows::F32(x) => self.fit_in(x, labels, codes),
            Rows::F64(x) => self.fit_in(x, labels, codes),
            Rows::Texts(_) => Err(Error::parameter("X", "texts", "rows of features")),
        }
    }

    fn fit_in<S: Stored>(
        &self,
        x: Matrix<'_, S>,
        labels: Vec<Label>,
        codes: Vec<u32>,
    ) -> Result<Model, Error> {
        let data = Examples::new(x, &codes, None)?;
        self.policy.check(data.len())?;
        data.check(0..data.len())?;
        let lambda = self.lambda.unwrap_or(1.0 / data.len() as f64);
        let task = Task { classifier: self, data: &data, classes: labels.len(), lambda };
        let (frozen, kept, certificate) = match (self.kernel, self.budget) {
            (None, None) => task.linear()?,
            (Some(kernel), None) => task.exact(kernel)?,
            (Some(kernel), Some(budget)) => task.bounded(kernel, budget)?,
            (None, Some(budget)) => {
                return Err(Error::parameter("budget", budget, "None where there is no kernel"));
            }
        };
        let n_features = x.n_features();
        let pairs = self.kernel.is_some() && labels.len() > 2;
        let state = State::of_fit(
            self.class(),
            &labels,
            n_features,
            self.params(lambda),
            kept,
            certificate,
        );
        let calibration = (self.kernel.is_none() && self.loss == AnyLoss::Logistic)
            .then(|| Calibration::of_log_loss(frozen.outputs()));
        Ok(Model {
            state: Arc::new(state),
            labels,
            n_features,
            hasher: None,
            steps: Vec::new(),
            net: S::net(Scorer { frozen, metric: None }),
            pairs,
            calibration,
        })
    }

    fn class(&self) -> &'static str {
        if self.kernel.is_some() { "KernelPegasosClassifier" } else { "PegasosClassifier" }
    }

    fn loss_name(&self) -> &'static str {
        match self.loss {
            AnyLoss::Hinge => "hinge",
            AnyLoss::SquaredHinge => "squared_hinge",
            AnyLoss::Logistic => "log_loss",
        }
    }

    /// Those of Python's estimator that are not its defaults.
    fn params(&self, lambda: f64) -> Value {
        let mut params =
            json!({ "alpha": lambda, "fit_intercept": self.intercept && self.budget.is_none() });
        let own = match self.kernel {
            None => json!({ "loss": self.loss_name() }),
            Some(kernel) => {
                let (name, gamma, coef0, degree) = parts_of(kernel);
                json!({ "kernel": name, "gamma": gamma, "coef0": coef0, "degree": degree, "budget": self.budget })
            }
        };
        if let (Value::Object(params), Value::Object(own)) = (&mut params, own) {
            params.extend(own);
        }
        params
    }
}

/// How many iterates the average on a budget remembers.
fn window_of(budget: usize) -> u64 {
    (budget as u64).saturating_mul(2).min(1 << 62)
}

/// A kernel by name, with what it may need.
fn parts_of(kernel: Kernel) -> (&'static str, f64, f64, u32) {
    match kernel {
        Kernel::Linear => ("linear", 1.0, 0.0, 3),
        Kernel::Rbf { gamma } => ("rbf", gamma, 0.0, 3),
        Kernel::Poly { gamma, coef0, degree } => ("poly", gamma, coef0, degree),
        Kernel::Sigmoid { gamma, coef0 } => ("sigmoid", gamma, coef0, 3),
        Kernel::Precomputed => ("precomputed", 1.0, 0.0, 3),
    }
}

/// The labels in rising order, and the place of each example's among them.
fn coded(mut given: Vec<Label>) -> Result<(Vec<Label>, Vec<u32>), Error> {
    for label in &mut given {
        if let Label::Float(label) = label {
            if !label.is_finite() {
                return Err(Error::parameter("labels", label, "finite numbers"));
            }
            // -0 is the same class as 0.
            *label += 0.0;
        }
    }
    let mut labels: Vec<&Label> = given.iter().collect();
    labels.sort_by(|a, b| a.total_cmp(b));
    labels.dedup();
    if labels
        .windows(2)
        .any(|pair| std::mem::discriminant(pair[0]) != std::mem::discriminant(pair[1]))
    {
        return Err(Error::shape("labels", "one kind: numbers, words or booleans", "several"));
    }
    if labels.len() < 2 {
        return Err(Error::shape("labels", "two classes or more", labels.len()));
    }
    let code =
        |label: &Label| labels.partition_point(|known| known.total_cmp(label).is_lt()) as u32;
    let codes = given.iter().map(code).collect();
    Ok((labels.into_iter().cloned().collect(), codes))
}

/// A fit of one model.
struct Task<'a, S> {
    classifier: &'a Classifier,
    data: &'a Examples<'a, S>,
    classes: usize,
    lambda: f64,
}

/// What predicts; what Python's trainer has beside it; the certificate.
type Trained<S> = (Frozen<S>, Kept, Certificate);

impl<S: Stored> Task<'_, S> {
    fn linear(&self) -> Result<Trained<S>, Error> {
        let Classifier { loss, intercept, policy, .. } = self.classifier;
        let constant = f64::from(u8::from(*intercept));
        let d = self.data.rows().n_features();
        let positives: Vec<u32> =
            if self.classes == 2 { vec![1] } else { (0..self.classes as u32).collect() };
        memory::check::<S>("w", &[2, positives.len(), d])?;
        let trainers = positives.iter().map(|&positive| {
            let params = Params { lambda: self.lambda, ..Params::default() };
            Trainer::new(
                Linear::<S>::new(1, d, constant)?,
                Binary { loss: *loss, positive },
                params,
            )
        });
        let mut fit = Fit::new(LinearProblems::new(trainers.collect::<Result<_, _>>()?), *policy);
        let certificate = fit.run(self.data)?.certificate;
        let mut problems = fit.into_problem();
        let frozen = Frozen::Linear(problems.result()?);
        let t = problems.trainers().map(|trainer| trainer.t()).max().unwrap_or(0);
        let params = self.params(json!({
            "loss": self.classifier.loss_name(), "learning_rate": "pegasos", "eta0": 1.0, "power_t": 0.5, "t0": 0.0,
            "radius": null, "delay": 0, "regret": false, "free": false, "average": "none",
        }));
        let kept = Kept::linear(params, t, constant, json!(positives));
        Ok((frozen, kept, certificate))
    }

    fn exact(&self, kernel: Kernel) -> Result<Trained<S>, Error> {
        match self.classes {
            2 => self.ascended(kernel, Binary { loss: AnyLoss::Hinge, positive: 1 }),
            _ => self.ascended(kernel, self.pairs()),
        }
    }

    fn pairs(&self) -> Multiclass {
        Multiclass::OneVsOne(OneVsOne { loss: AnyLoss::Hinge, classes: self.classes })
    }

    fn ascended<L: Loss + Clone + Send>(
        &self,
        kernel: Kernel,
        loss: L,
    ) -> Result<Trained<S>, Error> {
        let (x, outputs) = (self.data.rows(), loss.outputs());
        let constant = if self.classifier.intercept { CONSTANT } else { 0.0 };
        let w = match x.is_sparse() {
            true => Expansion::sparse(kernel, outputs, x.n_features())?,
            false => Expansion::new(kernel, outputs, x.n_features())?,
        };
        let params = Params { lambda: self.lambda, ..Params::default() };
        let mut w = w.with_constant(constant)?;
        if kernel == Kernel::Precomputed && is_positive(x)? {
            w.assume_positive();
        }
        let trainer = Trainer::new(w, loss, params)?;
        let mut fit = Fit::new(KernelProblem::from(trainer), self.classifier.policy);
        let certificate = fit.run(self.data)?.certificate;
        let mut problem = fit.into_problem();
        let frozen = Frozen::Kernel(problem.model()?);
        let t = problem.trainer().t();
        let kept = self.kept(kernel, t, constant, None);
        Ok((frozen, kept, certificate))
    }

    fn bounded(&self, kernel: Kernel, budget: usize) -> Result<Trained<S>, Error> {
        match self.classes {
            2 => self.on_a_budget(kernel, budget, Binary { loss: AnyLoss::Hinge, positive: 1 }),
            _ => self.on_a_budget(kernel, budget, self.pairs()),
        }
    }

    fn on_a_budget<L: Loss + Clone + Send>(
        &self,
        kernel: Kernel,
        budget: usize,
        loss: L,
    ) -> Result<Trained<S>, Error> {
        let (x, outputs) = (self.data.rows(), loss.outputs());
        let maintenance = match kernel {
            Kernel::Rbf { .. } => Maintenance::Merge,
            _ => Maintenance::Project,
        };
        let w = match x.is_sparse() {
            true => Budgeted::sparse(kernel, outputs, x.n_features(), Some(budget), maintenance)?,
            false => Budgeted::new(kernel, outputs, x.n_features(), Some(budget), maintenance)?,
        };
        let window = window_of(budget);
        let params = Params {
            lambda: self.lambda,
            average: Average::Recent { window },
            ..Params::default()
        };
        let policy = Policy { solver: Solver::Pegasos, tol: None, ..self.classifier.policy };
        let mut fit = Fit::new(KernelProblem::from(Trainer::new(w, loss, params)?), policy);
        fit.run(self.data)?;
        let mut problem = fit.into_problem();
        let placed = problem.model()?;
        let t = problem.trainer().t();
        if !problem.trainer().hypothesis().spans() {
            // Of kernels with k(x, x) <= 0: no coefficients are better than others.
            let kept = self.kept(kernel, t, 0.0, Some(budget));
            let unknown = Certificate { primal: f64::NAN, dual: f64::NAN };
            return Ok((Frozen::Kernel(placed), kept, unknown));
        }

        let versus = |positive, negative| Versus { loss: AnyLoss::Hinge, positive, negative };
        let k = self.classes as u32;
        let losses: Vec<_> = match k {
            2 => vec![versus(1, None)],
            _ => (0..k).flat_map(|i| (i + 1..k).map(move |j| versus(i, Some(j)))).collect(),
        };
        let Policy { tol, seed, .. } = self.classifier.policy;
        let n = self.data.len();
        let mut refit = Refit::new(Span::of(&placed)?, &losses, self.lambda, n, FEATURES)?;
        let epochs = most_epochs(n);
        let certificate = refit.solve(self.data, tol.unwrap_or(ROUGH), epochs, seed)?;
        let steps = worth(0, n, t);
        let mut w = problem.trainer().hypothesis().clone();
        w.set_coefs(&refit.coefs())?;
        let kept = self.kept(kernel, t + steps, 0.0, Some(budget));
        Ok((Frozen::Kernel(Arc::new(w.model()?)), kept, certificate))
    }

    fn kept(&self, kernel: Kernel, t: u64, constant: f64, budget: Option<usize>) -> Kept {
        let (name, gamma, coef0, degree) = parts_of(kernel);
        let merged = matches!(kernel, Kernel::Rbf { .. });
        let params = self.params(json!({
            "kernel": name, "gamma": gamma, "coef0": coef0, "degree": degree, "constant": constant,
            "average": "recent", "threshold": 0.0, "margin": false, "multi_class": "ovo", "budget": budget,
            "maintenance": if merged { "merge" } else { "project" },
            "window": budget.map_or(1 << 62, window_of), "seed": self.classifier.policy.seed,
        }));
        let sparse = self.data.rows().is_sparse();
        Kept::kernel(params, t, constant, self.classes, sparse, budget.is_some())
    }

    /// The parameters of Python's trainer: these, and those of all.
    fn params(&self, own: Value) -> Map<String, Value> {
        let all = json!({
            "alpha": self.lambda, "projection": null, "batch_size": 1, "average_from": 1, "half_life": null,
        });
        match (all, own) {
            (Value::Object(mut all), Value::Object(own)) => {
                all.extend(own);
                all
            }
            _ => Map::new(),
        }
    }
}
