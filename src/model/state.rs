//! What the text of a model file says, and what its tensors are: the way there and the way back.
//!
//! The object that the text is has the entries of Python's estimator, of which a model needs its labels, its calibration, the
//! steps that come before it, and the trainer. The others are kept as they are for [`content`].

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use super::calibration::Calibration;
use super::file::{Content, FORMAT, Numbers, Tensor, broken};
use super::steps::Step;
use super::text::Hasher;
use super::{Label, Model, Net, Scorer};
use crate::budget::{Budgeted, BudgetedState, Maintenance};
use crate::data::{Csr, Dense, Matrix};
use crate::error::Error;
use crate::examples::Examples;
use crate::expansion::{Expansion, ExpansionState};
use crate::frozen::Frozen;
use crate::hypothesis::Hypothesis;
use crate::kernel::Kernel;
use crate::linear::{Linear, LinearState};
use crate::memory;
use crate::metric::Metric;
use crate::scalar::Scalar;
use crate::scaled::Scaled;

/// The formats of the trainer's parts.
pub(super) const LINEAR: u32 = 2;
/// Before, there were no lists of coefficients.
pub(super) const EXPANSION: u32 = 5;
const FIRST_EXPANSION: u32 = 4;
pub(super) const BUDGETED: u32 = 3;

/// What stays of a file beside what predicts.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) class: String,
    /// All entries but the trainer.
    pub(super) entries: Map<String, Value>,
    /// Their tensors.
    pub(super) tensors: BTreeMap<String, Tensor>,
    pub(super) trainer: Kept,
}

/// What stays of the trainer.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) params: Map<String, Value>,
    pub(super) t: u64,
    /// Of linear models: the constant feature whose weights are the intercepts.
    pub(super) constant: f64,
    pub(super) targets: Value,
    pub(super) classes: usize,
    pub(super) sparse: bool,
    pub(super) budget: bool,
    /// What it tells of itself.
    pub(super) told: Map<String, Value>,
}

/// A float, which JSON may not be able to hold.
#[derive(Clone, Copy, Debug, Default)]
struct Float(f64);

impl<'de> Deserialize<'de> for Float {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Number(f64),
            Tagged { float: String },
        }
        Ok(Float(match Either::deserialize(from)? {
            Either::Number(x) => x,
            Either::Tagged { float } => float.parse().map_err(serde::de::Error::custom)?,
        }))
    }
}

/// The name of a tensor.
#[derive(Clone, Debug, Deserialize)]
struct Name {
    tensor: String,
}

#[derive(Deserialize)]
struct Classes {
    dtype: String,
    values: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(tag = "class")]
enum StoredStep {
    StandardScaler { with_mean: bool, mean: Option<Name>, scale: Option<Name> },
    MaxAbsScaler { scale: Name, clip: bool },
    HashingVectorizer(Hasher),
}

#[derive(Deserialize)]
struct StoredMap {
    method: String,
    parts: Vec<Name>,
}

#[derive(Deserialize)]
struct StoredScale {
    a: Float,
    #[serde(default)]
    norm2: Float,
    sum_a: Float,
    sum_q: Float,
}

impl From<StoredScale> for Scaled {
    fn from(StoredScale { a, norm2, sum_a, sum_q }: StoredScale) -> Self {
        Scaled { a: a.0, norm2: norm2.0, sum_a: sum_a.0, sum_q: sum_q.0 }
    }
}

#[derive(Deserialize)]
struct StoredLinear {
    format: u32,
    targets: Value,
    t: u64,
    problems: Vec<StoredProblem>,
    params: Map<String, Value>,
}

#[derive(Deserialize)]
struct StoredProblem {
    n_features: usize,
    v: Name,
    b: Name,
    u: Name,
    ub: Name,
    constant: f64,
    #[serde(flatten)]
    scale: StoredScale,
}

#[derive(Deserialize)]
struct StoredKernel {
    format: u32,
    n_features: usize,
    sparse: bool,
    classes: usize,
    t: u64,
    rows: Option<Name>,
    born: Option<Name>,
    counts: Option<Name>,
    v: Name,
    u: Name,
    ends: Option<Name>,
    outputs: Option<Name>,
    norms: Name,
    indptr: Option<Name>,
    indices: Option<Name>,
    values: Name,
    #[serde(flatten)]
    scale: StoredScale,
    params: Map<String, Value>,
}

#[derive(Deserialize)]
struct KernelParams {
    kernel: String,
    gamma: f64,
    coef0: f64,
    degree: u32,
    #[serde(default)]
    constant: f64,
}

/// A scalar that tensors hold.
pub(super) trait Stored: Scalar {
    const NAME: &'static str;
    fn net(scorer: Scorer<Self>) -> Net;
    fn take(numbers: Numbers) -> Option<Vec<Self>>;
    fn put(numbers: Vec<Self>) -> Numbers;
}

macro_rules! stored {
    ($($of:ty, $kind:ident, $name:literal);*) => { $(
        impl Stored for $of {
            const NAME: &'static str = $name;
            fn net(scorer: Scorer<Self>) -> Net {
                Net::$kind(scorer)
            }
            fn take(numbers: Numbers) -> Option<Vec<Self>> {
                if let Numbers::$kind(numbers) = numbers { Some(numbers) } else { None }
            }
            fn put(numbers: Vec<Self>) -> Numbers {
                Numbers::$kind(numbers)
            }
        }
    )* };
}
stored!(f32, F32, "float32"; f64, F64, "float64");

/// The tensors of a file.
struct Tensors(BTreeMap<String, Tensor>);

impl Tensors {
    fn take(&mut self, Name { tensor }: &Name) -> Result<Tensor, Error> {
        self.0.remove(tensor).ok_or_else(|| {
            broken(format!("it asks for a tensor {tensor:?} that is not there, or twice"))
        })
    }

    fn numbers<S: Stored>(&mut self, name: &Name) -> Result<Vec<S>, Error> {
        let found = S::take(self.take(name)?.numbers);
        found.ok_or_else(|| {
            broken(format!("the tensor {:?} must be of dtype {}", name.tensor, S::NAME))
        })
    }

    fn indices(&mut self, name: &Name) -> Result<Vec<i64>, Error> {
        match self.take(name)?.numbers {
            Numbers::I64(indices) => Ok(indices),
            _ => Err(broken(format!("the tensor {:?} must be of dtype int64", name.tensor))),
        }
    }

    fn look(&self, Name { tensor }: &Name) -> Result<(Vec<usize>, &[f64]), Error> {
        match self.0.get(tensor) {
            Some(Tensor { shape, numbers: Numbers::F64(numbers) }) => Ok((shape.clone(), numbers)),
            _ => Err(broken(format!("it must have a tensor {tensor:?} of dtype float64"))),
        }
    }
}

/// An entry of the text, by what it is.
fn entry<'a, T: Deserialize<'a>>(entries: &'a Map<String, Value>, name: &str) -> Result<T, Error> {
    T::deserialize(entries.get(name).unwrap_or(&Value::Null))
        .map_err(|error| broken(format!("its entry {name:?} is wrong: {error}")))
}

/// An entry that is an object, if there is one.
fn object<'a>(
    entries: &'a Map<String, Value>,
    name: &str,
) -> Result<Option<&'a Map<String, Value>>, Error> {
    match entries.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(object)) => Ok(Some(object)),
        Some(_) => Err(broken(format!("its entry {name:?} must be an object"))),
    }
}

/// The names of tensors in these values: objects with one entry, `"tensor"`. Refuses those that come twice.
fn names_in<'a>(values: impl Iterator<Item = &'a Value>) -> Result<BTreeSet<&'a str>, Error> {
    let mut names = BTreeSet::new();
    let mut left: Vec<&Value> = values.collect();
    while let Some(value) = left.pop() {
        match value {
            Value::Array(values) => left.extend(values),
            Value::Object(entries) => match (entries.len(), entries.get("tensor")) {
                (1, Some(Value::String(name))) => {
                    if !names.insert(&name[..]) {
                        return Err(broken(format!("it asks for a tensor {name:?} twice")));
                    }
                }
                _ => left.extend(entries.values()),
            },
            _ => {}
        }
    }
    Ok(names)
}

/// How many scores so many classes have.
fn outputs_of(classes: usize, pairs: bool) -> usize {
    match classes {
        0..=2 => 1,
        k if pairs => k * (k - 1) / 2,
        k => k,
    }
}

/// The model that a file holds. Whatever may be wrong is looked at before arrays are copied, as far as that can be.
pub(super) fn restore(Content { text, tensors }: Content) -> Result<Model, Error> {
    let entries = serde_json::from_str(&text);
    drop(text);
    let mut entries: Map<String, Value> =
        entries.map_err(|error| broken(format!("its text is wrong: {error}")))?;
    let mut tensors = Tensors(tensors);
    entries.remove("checksums");
    entries.remove("sha256");
    let names = names_in(entries.values())?;
    if let Some(name) = tensors.0.keys().find(|name| !names.contains(&name[..])) {
        return Err(broken(format!("it has a tensor {name:?} that means nothing")));
    }
    let trainer = entries.remove("trainer").unwrap_or(Value::Null);
    let kept: BTreeSet<String> =
        names_in(entries.values())?.into_iter().map(str::to_owned).collect();

    let class: String = entry(&entries, "class")?;
    let labels = labels_of(entry(&entries, "classes")?)?;
    let n_features: usize = entry(&entries, "n_features")?;
    let names: Option<Vec<&str>> = entry(&entries, "feature_names")?;
    if names.is_some_and(|names| names.len() != n_features) {
        return Err(broken(format!("feature_names must be {n_features} strings")));
    }
    let steps: Option<Vec<StoredStep>> = entry(&entries, "steps")?;
    let mut steps = steps.unwrap_or_default().into_iter().peekable();
    let hasher = match steps.next_if(|step| matches!(step, StoredStep::HashingVectorizer(_))) {
        Some(StoredStep::HashingVectorizer(hasher)) => Some(hasher),
        _ => None,
    };
    if let Some(hasher) = &hasher {
        hasher.check()?;
        if hasher.n_features != n_features {
            return Err(broken(format!(
                "its HashingVectorizer must make {n_features} features, got {}",
                hasher.n_features
            )));
        }
    }
    let steps = steps.map(|step| step_of(step, &tensors));
    let steps = steps.collect::<Result<Vec<_>, _>>()?;
    steps.iter().try_for_each(|step| step.check(n_features))?;
    let extra = object(&entries, "extra")?.ok_or_else(|| broken("it has no entry \"extra\""))?;
    let metric = object(extra, "metric")?;
    let map: Option<Name> = metric.map_or(Ok(None), |metric| entry(metric, "map"))?;
    let map = map.map(|map| tensors.look(&map)).transpose()?;
    let map = map.map(|(shape, numbers)| (shape.len() == 1, numbers.to_vec()));

    let told = ["t", "dtype", "steps", "gradient_error"];
    let told = told.iter().filter_map(|name| Some((name.to_string(), trainer.get(name)?.clone())));
    let told: Map<String, Value> = told.collect();
    let k = labels.len();
    let linear = trainer.get("targets").is_some();
    let way = trainer.get("params").and_then(|params| params.get("multi_class"));
    let pairs = !linear && k > 2 && way.and_then(Value::as_str) == Some("ovo");
    let outputs = outputs_of(k, pairs);
    let params = object(&entries, "params")?;
    let params = params.ok_or_else(|| broken("it has no entry \"params\""))?;
    let made_with = object(&entries, "made_with")?;
    let stored = object(&entries, "calibration")?;
    let stored: Option<StoredMap> = stored.map_or(Ok(None), |stored| entry(stored, "map"))?;
    let calibration = match stored {
        Some(StoredMap { method, parts }) => {
            let parts = parts.iter().map(|part| tensors.look(part));
            Some(Calibration::new(&method, &parts.collect::<Result<Vec<_>, _>>()?, outputs)?)
        }
        None => {
            let calibrated = params.get("calibration").is_some_and(|method| !method.is_null());
            // That of the scores that there are, not one that was set since.
            let loss = made_with.and_then(|made| made.get("loss")).or_else(|| params.get("loss"));
            let log_loss = loss.and_then(Value::as_str) == Some("log_loss");
            (log_loss && !calibrated).then(|| Calibration::of_log_loss(outputs))
        }
    };

    let dtype = trainer.get("dtype").and_then(Value::as_str).unwrap_or_default().to_owned();
    let (net, mut trainer) = match (&dtype[..], linear) {
        ("float32", true) => linear_of::<f32>(trainer, &mut tensors, n_features, outputs),
        ("float64", true) => linear_of::<f64>(trainer, &mut tensors, n_features, outputs),
        ("float32", false) => kernel_of::<f32>(trainer, &mut tensors, map, n_features, k),
        ("float64", false) => kernel_of::<f64>(trainer, &mut tensors, map, n_features, k),
        (other, _) => Err(broken(format!("its trainer is of dtype {other:?}"))),
    }?;
    trainer.told = told;
    tensors.0.retain(|name, _| kept.contains(name));
    entries.insert("format".into(), json!(FORMAT));
    let state = Arc::new(State { class, entries, tensors: tensors.0, trainer });
    Ok(Model { state, labels, n_features, hasher, steps, net, pairs, calibration })
}

fn labels_of(Classes { dtype, values }: Classes) -> Result<Vec<Label>, Error> {
    let label = |value: &Value| match (&dtype[..], value) {
        ("str" | "object", Value::String(text)) => Some(Label::Text(text.clone())),
        ("bool", Value::Bool(label)) => Some(Label::Bool(*label)),
        ("float64" | "float32" | "float16", value) => value.as_f64().map(Label::Float),
        (dtype, value) if dtype.starts_with("int") || dtype.starts_with("uint") => {
            value.as_i64().map(Label::Int)
        }
        _ => None,
    };
    let labels: Option<Vec<Label>> = values.iter().map(label).collect();
    let labels =
        labels.ok_or_else(|| broken(format!("classes of dtype {dtype:?} cannot be {values:?}")))?;
    if labels.is_empty() || labels.windows(2).any(|pair| pair[0] >= pair[1]) {
        return Err(broken("classes must be one or more, in rising order"));
    }
    Ok(labels)
}

fn step_of(step: StoredStep, tensors: &Tensors) -> Result<Step, Error> {
    let numbers = |name: &Name| tensors.look(name).map(|(_, numbers)| numbers.to_vec());
    Ok(match step {
        StoredStep::StandardScaler { with_mean, mean, scale } => Step::Standard {
            mean: mean.as_ref().filter(|_| with_mean).map(numbers).transpose()?,
            scale: scale.as_ref().map(numbers).transpose()?,
        },
        StoredStep::HashingVectorizer(_) => {
            return Err(broken("a HashingVectorizer must be the first step"));
        }
        StoredStep::MaxAbsScaler { scale, clip } => Step::MaxAbs { scale: numbers(&scale)?, clip },
    })
}

fn parsed<T: DeserializeOwned>(trainer: Value) -> Result<T, Error> {
    serde_json::from_value(trainer)
        .map_err(|error| broken(format!("its trainer is wrong: {error}")))
}

fn check_format(found: u32, known: RangeInclusive<u32>) -> Result<(), Error> {
    if !known.contains(&found) {
        let want = known.end();
        return Err(broken(format!("its trainer must have format {want}, got {found}")));
    }
    Ok(())
}

fn linear_of<S: Stored>(
    trainer: Value,
    tensors: &mut Tensors,
    n_features: usize,
    outputs: usize,
) -> Result<(Net, Kept), Error> {
    let StoredLinear { format, targets, t, problems, params } = parsed(trainer)?;
    check_format(format, LINEAR..=LINEAR)?;
    let mut constant = 0.0;
    let results = problems.into_iter().map(|problem| {
        if problem.n_features != n_features {
            return Err(broken(format!(
                "its trainer must be for {n_features} features, got {}",
                problem.n_features
            )));
        }
        constant = problem.constant;
        let state = LinearState::<S> {
            v: tensors.numbers(&problem.v)?,
            b: tensors.numbers(&problem.b)?,
            u: tensors.numbers(&problem.u)?,
            ub: tensors.numbers(&problem.ub)?,
            constant,
            scale: problem.scale.into(),
        };
        let linear = Linear::from_state(n_features, state)?;
        Ok(linear.mean().unwrap_or(linear))
    });
    let results = results.collect::<Result<Vec<_>, Error>>()?;
    let found: usize = results.iter().map(Hypothesis::outputs).sum();
    if found != outputs {
        return Err(broken(format!("its classes must have {outputs} scores, got {found}")));
    }
    let frozen = Frozen::Linear(Arc::new(Linear::of_all(&results)?));
    let kept = Kept {
        params,
        t,
        constant,
        targets,
        classes: 0,
        sparse: false,
        budget: false,
        told: Map::new(),
    };
    Ok((S::net(Scorer { frozen, metric: None }), kept))
}

/// A map of rows: whether it is diagonal, and its numbers.
type Mapping = (bool, Vec<f64>);

fn kernel_of<S: Stored>(
    trainer: Value,
    tensors: &mut Tensors,
    map: Option<Mapping>,
    n_features: usize,
    n_labels: usize,
) -> Result<(Net, Kept), Error> {
    let stored: StoredKernel = parsed(trainer)?;
    let StoredKernel { n_features: d, sparse, classes, t, .. } = stored;
    // One class waits for a second, in a trainer of two.
    if classes != n_labels.max(2) {
        let want = n_labels.max(2);
        return Err(broken(format!("its trainer must be for {want} classes, got {classes}")));
    }
    let metric = map.map(|(diagonal, map)| match diagonal {
        true => Metric::diagonal(&map),
        false => Metric::full(&map, n_features),
    });
    let metric: Option<Metric<S>> = metric.transpose()?;
    let mapped = metric.as_ref().map_or(n_features, Metric::dimension);
    if metric.as_ref().is_some_and(|metric| metric.check_features(n_features).is_err())
        || d != mapped
    {
        return Err(broken(format!("its trainer must be for {mapped} features, got {d}")));
    }
    let params: KernelParams = parsed(Value::Object(stored.params.clone()))?;
    let KernelParams { gamma, coef0, degree, .. } = params;
    let kernel = match &params.kernel[..] {
        "linear" => Kernel::Linear,
        "rbf" => Kernel::Rbf { gamma },
        "poly" => Kernel::Poly { gamma, coef0, degree },
        "sigmoid" => Kernel::Sigmoid { gamma, coef0 },
        "precomputed" => Kernel::Precomputed,
        other => return Err(broken(format!("there is no kernel {other:?}"))),
    };
    let budget = stored.born.is_some();
    let kept = Kept::kernel(stored.params, t, params.constant, classes, sparse, budget);
    let outputs = outputs_of(classes, kept.knows_pairs());

    let indptr = stored.indptr.map(|name| tensors.indices(&name)).transpose()?;
    let indices = stored.indices.map(|name| tensors.indices(&name)).transpose()?;
    let values: Vec<S> = tensors.numbers(&stored.values)?;
    let x: Matrix<'_, S> = match (&indptr, &indices) {
        (None, _) => Dense::new(&values, values.len() / d.max(1), d)?.into(),
        (Some(indptr), Some(indices)) if indptr.len() > 1 => {
            Csr::new(indptr, indices, &values, d)?.into()
        }
        _ => Dense::new(&[], 0, d)?.into(),
    };
    let no_labels = memory::zeros("labels", &[x.n_rows()])?;
    Examples::new(x, &no_labels, None)?.check(0..no_labels.len())?;
    let scale: Scaled = stored.scale.into();
    let frozen = if let Some(born) = &stored.born {
        check_format(stored.format, BUDGETED..=BUDGETED)?;
        let state = BudgetedState {
            v: tensors.numbers(&stored.v)?,
            u: tensors.numbers(&stored.u)?,
            scale,
            born: match tensors.take(born)?.numbers {
                Numbers::U64(born) => born,
                _ => return Err(broken("the tensor of births must be of dtype uint64")),
            },
            norms: tensors.numbers(&stored.norms)?,
            ..BudgetedState::default()
        };
        // Whatever kept the budget: nothing is added any more.
        let mut w = match sparse {
            true => Budgeted::sparse(kernel, outputs, d, None, Maintenance::Remove)?,
            false => Budgeted::new(kernel, outputs, d, None, Maintenance::Remove)?,
        };
        w.restore(&x, &state)?;
        w.model()?
    } else {
        check_format(stored.format, FIRST_EXPANSION..=EXPANSION)?;
        let w = if sparse {
            Expansion::sparse(kernel, outputs, d)?
        } else {
            Expansion::new(kernel, outputs, d)?
        };
        let mut w = w.with_constant(params.constant)?;
        let numbers = stored.rows.map(|name| tensors.indices(&name)).transpose()?;
        let numbers: Option<Vec<usize>> =
            numbers.map(|rows| rows.iter().map(|&i| i as usize).collect());
        if numbers.is_some() {
            w.number_rows(0)?;
        }
        let state = ExpansionState {
            v: tensors.numbers(&stored.v)?,
            u: tensors.numbers(&stored.u)?,
            ends: match stored.ends.map(|name| tensors.take(&name)).transpose()? {
                None => Vec::new(),
                Some(Tensor { numbers: Numbers::U64(ends), .. }) => ends,
                _ => return Err(broken("the tensor of ends must be of dtype uint64")),
            },
            outputs: match stored.outputs.map(|name| tensors.take(&name)).transpose()? {
                None => Vec::new(),
                Some(Tensor { numbers: Numbers::U32(outputs), .. }) => outputs,
                _ => return Err(broken("the tensor of outputs must be of dtype uint32")),
            },
            scale,
            counts: match stored.counts.map(|name| tensors.take(&name)).transpose()? {
                Some(Tensor { numbers: Numbers::U32(counts), .. }) => counts,
                _ => return Err(broken("it must have a tensor of counts, of dtype uint32")),
            },
            norms: tensors.numbers(&stored.norms)?,
        };
        w.restore(&x, numbers.as_deref(), &state)?;
        w.mean().unwrap_or(w)
    };
    Ok((S::net(Scorer { frozen: Frozen::Kernel(Arc::new(frozen)), metric }), kept))
}

impl State {
    pub(super) fn is_bounded(&self) -> bool {
        self.trainer.params.get("budget").is_some_and(|budget| !budget.is_null())
    }

    pub(super) fn text(&self) -> String {
        let mut entries = self.entries.clone();
        entries.insert("trainer".into(), Value::Object(self.trainer.told.clone()));
        Value::Object(entries).to_string()
    }
}

impl Kept {
    pub(super) fn linear(
        params: Map<String, Value>,
        t: u64,
        constant: f64,
        targets: Value,
    ) -> Self {
        let told = Map::new();
        Kept { params, t, constant, targets, classes: 0, sparse: false, budget: false, told }
    }

    pub(super) fn kernel(
        params: Map<String, Value>,
        t: u64,
        constant: f64,
        classes: usize,
        sparse: bool,
        budget: bool,
    ) -> Self {
        let (targets, told) = (Value::Null, Map::new());
        Kept { params, t, constant, targets, classes, sparse, budget, told }
    }

    fn knows_pairs(&self) -> bool {
        let way = self.params.get("multi_class").and_then(Value::as_str);
        self.classes > 2 && way == Some("ovo")
    }
}
