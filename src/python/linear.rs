//! Linear problems: how they are made, from nothing or from parts, and what is told of them.

use std::any::Any;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::examples::{Number, View};
use super::parts::{Common, Parts, array, get, item, maybe_array, scale};
use super::trainer::{Made, Model, Problem};
use super::unknown;
use crate::fit::Course;
use crate::{
    AnyLoss, Ball, Binary, Block, CrammerSinger, Error, Feasible, Flight, Linear, LinearProblems,
    LinearState, Loss, Order, OwnedRow, Params, Progress, Regret, Report, Schedule, Trainer,
    memory,
};

/// Of the parts of linear problems; a change of their keys' meaning gets a new number.
pub(super) const FORMAT: u32 = 2;

/// What linear problems need to know beside the parameters of all: a dictionary with these keys.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct PyLinear {
    loss: String,
    learning_rate: String,
    eta0: f64,
    power_t: f64,
    t0: f64,
    /// The radius of a ball to project on.
    radius: Option<f64>,
    delay: usize,
    /// Whether to count loss and regret.
    regret: bool,
}

impl PyLinear {
    /// The losses of one class against the others, for each of these.
    fn one_score(&self, positives: &[u32]) -> PyResult<Vec<Binary<AnyLoss>>> {
        let loss = match self.loss.as_str() {
            "hinge" => AnyLoss::Hinge,
            "squared_hinge" => AnyLoss::SquaredHinge,
            "log_loss" => AnyLoss::Logistic,
            other => return Err(unknown("loss", other)),
        };
        Ok(positives.iter().map(|&positive| Binary { loss, positive }).collect())
    }

    /// The parameters, given those of all problems.
    fn adapt(&self, params: Params) -> PyResult<Params> {
        let (eta0, power) = (self.eta0, self.power_t);
        let schedule = match self.learning_rate.as_str() {
            "pegasos" => Schedule::Pegasos,
            "invscaling" => Schedule::InvScaling { eta0, power },
            "constant" => Schedule::Constant { eta0 },
            other => return Err(unknown("learning_rate", other)),
        };
        let set = params.set.or(self.radius.map(|radius| Ball { radius }));
        let block = if self.delay > 0 { Block::Delayed(self.delay) } else { params.block };
        Ok(Params { schedule, set, block, t0: self.t0, ..params })
    }
}

/// Which problems are trained over the same rows.
#[derive(Clone, FromPyObject)]
pub(super) enum Targets {
    /// By one score each: one class against the others, for each of these.
    OneScore(Vec<u32>),
    /// One problem with a score for each of so many classes.
    CrammerSinger(usize),
}

impl Targets {
    /// How many scores there are.
    pub(super) fn outputs(&self) -> usize {
        match self {
            Targets::OneScore(positives) => positives.len(),
            Targets::CrammerSinger(classes) => *classes,
        }
    }
}

/// What problems start from.
pub(super) enum Start<'py> {
    /// Weights of 0.
    Zero { n_features: usize, constant: f64 },
    /// What was stored of them.
    Parts(Bound<'py, PyDict>),
}

/// Problems with these targets.
pub(super) fn make(
    dtype: &str,
    targets: &Targets,
    params: &Bound<'_, PyDict>,
    start: Start<'_>,
) -> PyResult<Box<dyn Problem>> {
    fn typed<S: Number>(
        targets: &Targets,
        params: &(Common, PyLinear),
        start: &Start<'_>,
    ) -> PyResult<Box<dyn Problem>> {
        match targets {
            Targets::OneScore(positives) => {
                problems::<S, _>(params.1.one_score(positives)?, params, start)
            }
            Targets::CrammerSinger(classes) => {
                problems::<S, _>(vec![CrammerSinger { classes: *classes }], params, start)
            }
        }
    }
    let params = &(params.extract()?, params.extract()?);
    match dtype {
        "float32" => typed::<f32>(targets, params, &start),
        "float64" => typed::<f64>(targets, params, &start),
        other => Err(unknown("dtype", other)),
    }
}

fn problems<S: Number, L: Loss + Clone + Send + 'static>(
    losses: Vec<L>,
    (common, linear_params): &(Common, PyLinear),
    start: &Start<'_>,
) -> PyResult<Box<dyn Problem>> {
    let (mut t, mut stored) = (0, Vec::new());
    if let Start::Parts(parts) = start {
        t = get(parts, "t")?;
        stored = item(parts, "problems")?.extract::<Vec<Bound<'_, PyDict>>>()?;
        if stored.len() != losses.len() {
            return Err(PyValueError::new_err("parts must have one problem for each target"));
        }
    }
    let trainer = |(k, loss): (usize, L)| {
        let zeros = loss.zeros();
        let outputs = zeros.as_ref().len();
        let (linear, flights, regret) = match start {
            Start::Zero { n_features, constant } => {
                let linear = Linear::<S>::new(outputs, *n_features, *constant)?;
                (linear, Vec::new(), Some(Regret::default()))
            }
            Start::Parts(_) => restored(&stored[k])?,
        };
        let params = linear_params.adapt(common.params(&loss, 0)?)?;
        let mut trainer = Trainer::resume(linear, loss, params, t)?;
        let flight = |Flight { example, row, coef }: Flight<S, Vec<f64>>| {
            if coef.len() != outputs {
                return Err(PyValueError::new_err("parts hold a flight of another loss"));
            }
            let mut scores = zeros.clone();
            scores.as_mut().copy_from_slice(&coef);
            Ok(Flight { example, row, coef: scores })
        };
        trainer.set_flights(flights.into_iter().map(flight).collect::<PyResult<_>>()?);
        // One that has lost count, as by a merge, does not begin anew.
        if let Some(regret) = regret.filter(|_| linear_params.regret) {
            trainer.keep_regret(regret)?;
        }
        Ok(trainer)
    };
    let trainers = losses.into_iter().enumerate().map(trainer).collect::<PyResult<_>>()?;
    Ok(Box::new(LinearProblems::new(trainers)))
}

/// The parts of a problem.
type Restored<S> = (Linear<S>, Vec<Flight<S, Vec<f64>>>, Option<Regret>);

fn restored<S: Number>(parts: &Bound<'_, PyDict>) -> PyResult<Restored<S>> {
    let state = LinearState {
        v: array(parts, "v")?,
        b: array(parts, "b")?,
        u: array(parts, "u")?,
        ub: array(parts, "ub")?,
        constant: get(parts, "constant")?,
        scale: scale(parts)?,
    };
    let linear = Linear::from_state(get(parts, "n_features")?, state)?;
    let flights: Vec<Bound<'_, PyDict>> = item(parts, "flights")?.extract()?;
    let d = linear.n_features();
    let flights = flights.iter().map(|flight| {
        let values: Vec<S> = array(flight, "values")?;
        let finite = values.iter().all(|x| x.to_f64().is_finite());
        let (fits, row) = match maybe_array::<i64>(flight, "indices")? {
            None => (values.len() == d, OwnedRow::Dense(values)),
            Some(indices) => {
                let inside = indices.iter().all(|&j| (0..d as i64).contains(&j));
                (inside && indices.len() == values.len(), OwnedRow::Sparse { indices, values })
            }
        };
        let coef: Vec<f64> = get(flight, "coef")?;
        if !(fits && finite && coef.iter().all(|c| c.is_finite())) {
            return Err(PyValueError::new_err(format!(
                "a flight must hold finite numbers, of {d} features at most"
            )));
        }
        Ok(Flight { example: get(flight, "example")?, row, coef })
    });
    let flights = flights.collect::<PyResult<_>>()?;
    let regret: Option<Vec<f64>> = get(parts, "regret")?;
    Ok((linear, flights, regret.map(|numbers| Regret::from_numbers(&numbers)).transpose()?))
}

fn stored<S: Number, L: Loss>(trainer: &Trainer<Linear<S>, L>) -> Parts {
    let (linear, state) = (trainer.hypothesis(), trainer.hypothesis().state());
    let mut parts = Parts::default();
    parts.set("n_features", linear.n_features());
    parts.set_array("v", state.v.clone());
    parts.set_array("b", state.b.clone());
    parts.set_array("u", state.u.clone());
    parts.set_array("ub", state.ub.clone());
    parts.set("constant", state.constant);
    parts.set_scale(&state.scale);
    let flights = trainer.flights().iter().map(|Flight { example, row, coef }| {
        let mut parts = Parts::default();
        parts.set("example", *example);
        parts.set("coef", coef.as_ref().to_vec());
        let (indices, values) = match row.clone() {
            OwnedRow::Dense(values) => (None, values),
            OwnedRow::Sparse { indices, values } => (Some(indices), values),
        };
        parts.set_maybe("indices", indices);
        parts.set_array("values", values);
        parts
    });
    parts.set_list("flights", flights.collect());
    parts.set("regret", trainer.regret().map(Regret::numbers));
    parts
}

impl<S: Number, L: Loss + Clone + Send + 'static> Problem for LinearProblems<S, L> {
    fn kind(&self) -> &'static str {
        "linear"
    }

    fn dtype(&self) -> &'static str {
        S::DTYPE
    }

    fn t(&self) -> u64 {
        self.trainers().next().map_or(0, |trainer| trainer.t())
    }

    fn copy(&mut self) -> Result<Box<dyn Problem>, Error> {
        self.trainers().try_for_each(|trainer| trainer.check_copy())?;
        Ok(Box::new(self.clone()))
    }

    fn size(&self) -> usize {
        self.trainers().map(|trainer| trainer.hypothesis().state().v.len()).sum()
    }

    fn width(&self) -> usize {
        self.trainers().len()
    }

    fn cost(&self, n_features: usize) -> usize {
        crate::Problem::cost(self, n_features)
    }

    fn survives(&self, norm2: f64, weight: f64) -> bool {
        self.trainers().all(|trainer| trainer.survives(norm2, weight))
    }

    fn advance(
        &mut self,
        course: &mut Course,
        data: &View<'_>,
        order: &mut dyn FnMut(u64) -> Result<Box<dyn Order + Send>, Error>,
        size: usize,
    ) -> Result<Progress, Error> {
        course.advance(self, data.of::<S>()?, order, size)
    }

    fn end_ascent(&mut self, data: &View<'_>) -> Result<(), Error> {
        crate::Problem::end_ascent(self, data.of::<S>()?)
    }

    fn seen(&self) -> Report {
        crate::Problem::seen(self)
    }

    fn model(&mut self) -> Result<Model, Error> {
        Ok(S::model(crate::Model::Linear(LinearProblems::result(self)?)))
    }

    fn parts(&self, made: &Made) -> Result<Parts, Error> {
        let mut parts = Parts::default();
        parts.set("format", FORMAT);
        parts.set("dtype", S::DTYPE);
        match made.targets.clone() {
            Some(Targets::OneScore(positives)) => parts.set("targets", positives),
            Some(Targets::CrammerSinger(classes)) => parts.set("targets", classes),
            None => {}
        }
        parts.set("t", Problem::t(self));
        parts.set_list("problems", self.trainers().map(stored).collect());
        Ok(parts)
    }

    fn regret(&self) -> (f64, f64) {
        let numbers = |trainer: &Trainer<Linear<S>, L>| {
            let Some(regret) = trainer.regret() else {
                return (f64::NAN, f64::NAN);
            };
            let diameter = Feasible::<Linear<S>>::diameter(&trainer.params().set);
            (regret.loss, regret.bound(diameter, 0.0))
        };
        let all = self.trainers().map(numbers);
        all.fold((0.0, 0.0), |sum, (loss, bound)| (sum.0 + loss, sum.1 + bound))
    }

    fn result(&mut self) -> Result<Parts, Error> {
        let results = self.results()?;
        let sizes = results.iter().map(|model| model.state().v.len());
        memory::check::<S>("the weights", &[sizes.sum()])?;
        let mut parts = Parts::default();
        parts.set_array("values", results.iter().flat_map(Linear::weights).collect());
        parts.set_array("rows", results.iter().flat_map(Linear::intercepts).collect());
        Ok(parts)
    }

    fn average(
        &self,
        all: &[&dyn Problem],
        factors: &[f64],
    ) -> Option<Result<Box<dyn Problem>, Error>> {
        let of_kind = all.iter().map(|other| other.as_any().downcast_ref::<Self>());
        let all: Vec<&Self> = of_kind.collect::<Option<_>>()?;
        let count = self.trainers().len();
        if all.iter().any(|other| other.trainers().len() != count) {
            return None;
        }
        let average = |k: usize| {
            let parts = all.iter().zip(factors).flat_map(|(other, factor)| {
                other.trainers().nth(k).map(|trainer| (*factor, trainer))
            });
            Trainer::average_of(&parts.collect::<Vec<_>>())
        };
        let trainers = (0..count).map(average).collect::<Result<Vec<_>, _>>();
        Some(trainers.map(|trainers| Box::new(LinearProblems::new(trainers)) as Box<dyn Problem>))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
