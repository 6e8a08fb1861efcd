//! Linear problems: how they are made, from nothing or from parts, and what is told of them.

use std::any::Any;

use numpy::PyArray1;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::examples::{Number, View};
use super::parts::{Common, Dicts, List, Part, Told, check_format, item, parts, told};
use super::single::scores_of;
use super::trainer::{Facts, Frozen, Made, On, Problem, Task};
use super::{choice, unknown};
use crate::data::Needed;
use crate::newton::MOST_WEIGHTS;
use crate::{
    AnyLoss, Ball, Binary, Block, CrammerSinger, Error, Excerpt, Feasible, Flight, Linear,
    LinearProblems, LinearState, Loss, Multiclass, OneVsRest, OwnedRow, Params, Regret, Schedule,
    Trainer, memory,
};

/// Of the parts of linear problems; a change of their keys' meaning gets a new number.
const FORMAT: u32 = 2;

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
    /// Whether intercepts are not regularised; what was stored before there were such has no word of it.
    #[pyo3(default)]
    free: bool,
}

/// The loss of one score.
pub(super) fn margin_loss(name: &str) -> PyResult<AnyLoss> {
    let losses = [
        ("hinge", AnyLoss::Hinge),
        ("squared_hinge", AnyLoss::SquaredHinge),
        ("log_loss", AnyLoss::Logistic),
    ];
    choice("loss", name, &losses)
}

impl PyLinear {
    /// Whether problems of one score each may have a trainer for several of them: where nothing depends on the norm of
    /// each, nor on when its own steps were.
    fn may_share(&self, common: &Common) -> bool {
        let plain = self.radius.is_none() && self.delay == 0 && !self.regret;
        plain && common.may_share()
    }

    /// The parameters, given those of all problems.
    fn adapt(&self, params: Params) -> PyResult<Params> {
        let (eta0, power) = (self.eta0, self.power_t);
        let schedules = [
            ("pegasos", params.schedule),
            ("invscaling", Schedule::InvScaling { eta0, power }),
            ("constant", Schedule::Constant { eta0 }),
        ];
        let schedule = choice("learning_rate", &self.learning_rate, &schedules)?;
        let set = params.set.or(self.radius.map(|radius| Ball { radius }));
        let block = if self.delay > 0 { Block::Delayed(self.delay) } else { params.block };
        Ok(Params { schedule, set, block, t0: self.t0 + params.t0, ..params })
    }
}

/// Which problems are trained over the same rows.
#[derive(Clone, FromPyObject, IntoPyObject)]
pub(super) enum Targets {
    /// By one score each: one class against the others, for each of these.
    OneScore(Vec<u32>),
    /// One problem with a score for each of so many classes.
    CrammerSinger(usize),
}

/// What problems start from.
pub(super) enum Start<'a, 'py> {
    /// Weights of 0.
    Zero { n_features: usize, constant: f64, sparse: bool },
    /// What was stored of them.
    Parts(&'a Bound<'py, PyDict>),
}

/// Problems of one score each that one trainer trains, where rows are sparse: as many weights in f64, which dual ascent
/// has, as a line of the cache holds. 16 took the same time on one thread and a sixth more on two (40 classes of 81,000
/// pieces of source code, AMD EPYC).
const TOGETHER: usize = 8;

impl Start<'_, '_> {
    /// How many of `problems` problems of one score each trainer has, if they may share one.
    fn together(&self, problems: usize, may_share: bool) -> PyResult<Vec<usize>> {
        Ok(match self {
            // With few features dual ascent can leap, a problem at a time.
            Start::Zero { n_features, sparse: true, .. }
                if may_share && problems > 1 && *n_features > MOST_WEIGHTS =>
            {
                let trainers = problems.div_ceil(TOGETHER);
                (0..trainers).map(|k| (problems + k) / trainers).collect()
            }
            Start::Zero { .. } => vec![1; problems],
            Start::Parts(parts) => {
                let stored: Vec<Bound<'_, PyDict>> = item(parts, "problems")?.extract()?;
                let outputs = stored.iter().map(|stored| Ok(Vec::<f64>::take(stored, "b")?.len()));
                let counts: Vec<usize> = outputs.collect::<PyResult<_>>()?;
                if counts.iter().sum::<usize>() != problems || counts.contains(&0) {
                    let text = "parts must have one problem for each target";
                    return Err(PyValueError::new_err(text));
                }
                if may_share { counts } else { vec![1; problems] }
            }
        })
    }
}

/// All that is stored of problems beside what they were made with.
struct Parts<S> {
    format: u32,
    t: u64,
    problems: Dicts<Stored<S>>,
}
parts!([S: Number] Parts<S> { format, t, problems });

/// One of them.
struct Stored<S> {
    n_features: usize,
    linear: LinearState<S>,
    flights: Dicts<StoredFlight<S>>,
    regret: Option<List>,
}
parts!([S: Number] Stored<S> { n_features, linear, flights, regret });

impl<S: Number> Stored<S> {
    /// Parts it into problems, one for each score.
    fn apart(self) -> Result<Vec<Self>, Error> {
        if self.linear.b.len() == 1 {
            return Ok(vec![self]);
        }
        let (n_features, outputs) = (self.n_features, self.linear.b.len());
        let linear = Linear::from_state(n_features, self.linear)?;
        let only = |o| {
            let linear = linear.only(o)?.state();
            Ok(Stored { n_features, linear, flights: Dicts(Vec::new()), regret: None })
        };
        (0..outputs).map(only).collect()
    }
}

/// A gradient in flight, its row dense where there are no indices.
struct StoredFlight<S> {
    example: usize,
    coef: List,
    indices: Option<Vec<i64>>,
    values: Vec<S>,
}
parts!([S: Number] StoredFlight<S> { example, coef, indices, values });

impl<S: Number> StoredFlight<S> {
    fn new<G: AsRef<[f64]>>(Flight { example, row, coef }: &Flight<S, G>) -> Self {
        let (indices, values) = match row.clone() {
            OwnedRow::Dense(values) => (None, values),
            OwnedRow::Sparse { indices, values } => (Some(indices), values),
        };
        StoredFlight { example: *example, coef: List(coef.as_ref().to_vec()), indices, values }
    }

    /// With a coefficient for each of these outputs, once it is checked.
    fn restore<G: AsMut<[f64]>>(self, mut zeros: G, n_features: usize) -> PyResult<Flight<S, G>> {
        let StoredFlight { example, coef: List(coef), indices, values } = self;
        let (d, coefs) = (n_features, zeros.as_mut());
        let finite = values.iter().all(|x| x.to_f64().is_finite());
        let (fits, row) = match indices {
            None => (values.len() == d, OwnedRow::Dense(values)),
            Some(indices) => {
                let inside = indices.iter().all(|&j| (0..d as i64).contains(&j));
                (inside && indices.len() == values.len(), OwnedRow::Sparse { indices, values })
            }
        };
        if !(fits && finite && coef.iter().all(|c| c.is_finite()) && coef.len() == coefs.len()) {
            return Err(PyValueError::new_err(format!(
                "a flight must hold finite numbers, of {d} features at most and {} outputs",
                coefs.len()
            )));
        }
        coefs.copy_from_slice(&coef);
        Ok(Flight { example, row, coef: zeros })
    }
}

/// Problems with these targets.
pub(super) fn make(
    dtype: &str,
    targets: &Targets,
    params: &Bound<'_, PyDict>,
    start: Start<'_, '_>,
) -> PyResult<Box<dyn Problem>> {
    match dtype {
        "float32" => of_targets::<f32>(targets, params, start),
        "float64" => of_targets::<f64>(targets, params, start),
        other => Err(unknown("dtype", other)),
    }
}

fn of_targets<S: Number>(
    targets: &Targets,
    params: &Bound<'_, PyDict>,
    start: Start<'_, '_>,
) -> PyResult<Box<dyn Problem>> {
    let (common, linear): (Common, PyLinear) = (params.extract()?, params.extract()?);
    match targets {
        Targets::OneScore(positives) => {
            let loss = margin_loss(&linear.loss)?;
            let counts = start.together(positives.len(), linear.may_share(&common))?;
            if counts.iter().all(|&count| count == 1) {
                let losses = positives.iter().map(|&positive| Binary { loss, positive });
                return problems::<S, _>(losses.collect(), &common, &linear, start);
            }
            let mut rest = &positives[..];
            let losses = counts.iter().map(|&count| {
                let positives = rest.split_off(..count).unwrap_or_default().to_vec();
                Multiclass::OneVsRest(OneVsRest { loss, positives })
            });
            problems::<S, _>(losses.collect(), &common, &linear, start)
        }
        Targets::CrammerSinger(classes) => {
            let loss = Multiclass::CrammerSinger(CrammerSinger { classes: *classes });
            problems::<S, _>(vec![loss], &common, &linear, start)
        }
    }
}

fn problems<S: Number, L: Loss + Clone + Send + 'static>(
    losses: Vec<L>,
    common: &Common,
    linear_params: &PyLinear,
    start: Start<'_, '_>,
) -> PyResult<Box<dyn Problem>> {
    let params = |loss: &L| linear_params.adapt(common.params(loss, 0)?);
    let mut trainers = Vec::new();
    LinearProblems::<S, L>::check_room(losses.len())?;
    match start {
        Start::Zero { n_features, constant, .. } => {
            // And a copy, as nobody trains weights that he cannot look at. Zeros take no memory until they are touched:
            // what is asked for piece by piece would seem to be there.
            let outputs = losses.iter().map(|loss| loss.outputs());
            memory::check::<S>("w", &[2, outputs.sum(), n_features])?;
            for loss in losses {
                let linear = Linear::<S>::new(loss.outputs(), n_features, constant)?;
                let params = params(&loss)?;
                let mut trainer = Trainer::new(linear, loss, params)?;
                if linear_params.regret {
                    trainer.keep_regret(Regret::default())?;
                }
                trainers.push(trainer);
            }
        }
        Start::Parts(parts) => {
            check_format(parts, &(FORMAT..=FORMAT))?;
            Parts::<S>::look(parts, "")?;
            let Parts { t, problems: Dicts(problems), .. } = Parts::<S>::take(parts, "")?;
            let problems = match losses.len() > problems.len() {
                true => {
                    let apart = problems.into_iter().map(Stored::apart);
                    apart.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect()
                }
                false => problems,
            };
            if problems.len() != losses.len() {
                return Err(PyValueError::new_err("parts must have one problem for each target"));
            }
            for (loss, stored) in losses.into_iter().zip(problems) {
                let linear = Linear::from_state(stored.n_features, stored.linear)?;
                let (params, zeros) = (params(&loss)?, loss.zeros());
                let mut trainer = Trainer::resume(linear, loss, params, t)?;
                let flights = stored.flights.0.into_iter();
                let flights =
                    flights.map(|flight| flight.restore(zeros.clone(), stored.n_features));
                trainer.set_flights(flights.collect::<PyResult<_>>()?);
                // One that has lost count, as by a merge, does not begin anew.
                if let Some(List(numbers)) = stored.regret.filter(|_| linear_params.regret) {
                    trainer.keep_regret(Regret::from_numbers(&numbers)?)?;
                }
                trainers.push(trainer);
            }
        }
    }
    let problems = LinearProblems::new(trainers);
    Ok(Box::new(if linear_params.free { problems.with_free_intercept() } else { problems }))
}

/// Problems of one score each, with a trainer for each; `None` of others.
fn singles<S: Number>(
    problem: &dyn Problem,
) -> Option<Result<LinearProblems<S, Binary<AnyLoss>>, Error>> {
    let problem = problem as &dyn Any;
    if let Some(alone) = problem.downcast_ref::<LinearProblems<S, Binary<AnyLoss>>>() {
        return Some(Ok(alone.clone()));
    }
    let together = problem.downcast_ref::<LinearProblems<S, Multiclass>>()?;
    let of_rest = together.trainers().map(|trainer| {
        let Multiclass::OneVsRest(loss) = trainer.loss() else {
            return None;
        };
        let (w, params) = (trainer.hypothesis().clone(), *trainer.params());
        Some(Trainer::resume(w, loss.clone(), params, trainer.t()).map(|mut rest| {
            rest.set_updates(trainer.updates());
            rest
        }))
    });
    let of_rest = of_rest.collect::<Option<Result<Vec<_>, _>>>()?;
    Some(of_rest.and_then(|trainers| LinearProblems::new(trainers).apart()))
}

/// The average of problems with as many trainers, with factors; `None` where they are not.
fn average<S: Number, L: Loss + Clone + Send + 'static>(
    all: &[&LinearProblems<S, L>],
    factors: &[f64],
) -> Option<Result<Box<dyn Problem>, Error>> {
    let count = all.first()?.trainers().len();
    if all.iter().any(|other| other.trainers().len() != count) {
        return None;
    }
    let average = |k: usize| {
        let parts = all
            .iter()
            .zip(factors)
            .flat_map(|(other, factor)| other.trainers().nth(k).map(|trainer| (*factor, trainer)));
        Trainer::average_of(&parts.collect::<Vec<_>>())
    };
    let trainers = (0..count).map(average).collect::<Result<Vec<_>, _>>();
    Some(trainers.map(|trainers| Box::new(LinearProblems::new(trainers)) as Box<dyn Problem>))
}

impl<S: Number, L: Loss + Clone + Send + 'static> Problem for LinearProblems<S, L> {
    fn copy(&mut self) -> Result<Box<dyn Problem>, Error> {
        self.trainers().try_for_each(|trainer| trainer.check_copy())?;
        Ok(Box::new(self.clone()))
    }

    fn facts(&self) -> Facts {
        let mut regret = (0.0, 0.0);
        for trainer in self.trainers() {
            let diameter = Feasible::<Linear<S>>::diameter(&trainer.params().set);
            let numbers = trainer.regret().map(|r| (r.loss, r.bound(diameter, 0.0)));
            let (loss, bound) = numbers.unwrap_or((f64::NAN, f64::NAN));
            regret = (regret.0 + loss, regret.1 + bound);
        }
        Facts {
            t: self.trainers().next().map_or(0, |trainer| trainer.t()),
            size: self.trainers().map(|trainer| trainer.hypothesis().size()).sum(),
            width: self.trainers().len(),
            steps: 0,
            gradient_error: 0.0,
            spans: false,
            regret,
        }
    }

    fn scores_now(&self, data: &View<'_>) -> Result<Vec<f64>, Error> {
        scores_of(self.trainers().map(|trainer| trainer.hypothesis()), data.of::<S>()?)
    }

    fn survives(&self, norm2: f64, heaviest: f64, weight: f64) -> bool {
        self.trainers().all(|trainer| trainer.survives(norm2, heaviest, weight))
    }

    fn on<'a>(&'a mut self, data: &'a View<'_>) -> Result<Box<dyn Task + 'a>, Error> {
        Ok(Box::new(On(self, data.of::<S>()?)))
    }

    fn model(&mut self) -> Result<Frozen, Error> {
        Ok(S::model(crate::Frozen::Linear(LinearProblems::result(self)?)))
    }

    fn excerpt(&mut self, data: &View<'_>) -> Result<Option<(Frozen, Needed)>, Error> {
        let excerpt = match data {
            View::F32(examples) => LinearProblems::excerpt(self, examples.rows()),
            View::F64(examples) => LinearProblems::excerpt(self, examples.rows()),
        };
        Ok(excerpt?.map(|Excerpt { model, needed, .. }| (S::model(model), needed)))
    }

    fn parts(&self, _: &Made) -> Result<Told, Error> {
        let stored = |trainer: &Trainer<Linear<S>, L>| Stored {
            n_features: trainer.hypothesis().n_features(),
            linear: trainer.hypothesis().state(),
            flights: Dicts(trainer.flights().iter().map(StoredFlight::new).collect()),
            regret: trainer.regret().map(|regret| List(regret.numbers())),
        };
        let (t, problems) = (self.facts().t, Dicts(self.trainers().map(stored).collect()));
        let parts = Parts { format: FORMAT, t, problems };
        Ok(told(move |py| Ok(parts.dict(py)?.into_any())))
    }

    fn result(&mut self) -> Result<Told, Error> {
        let results = self.results()?;
        let sizes = results.iter().map(|model| model.size());
        memory::check::<S>("the weights", &[sizes.sum()])?;
        let weights = results.iter().flat_map(Linear::weights).collect();
        let intercepts = results.iter().flat_map(Linear::intercepts).collect();
        Ok(told(move |py| {
            let arrays = (PyArray1::from_vec(py, weights), PyArray1::from_vec(py, intercepts));
            arrays.into_bound_py_any(py)
        }))
    }

    fn share(&self, t: u64, _: bool) -> Result<Box<dyn Problem>, Error> {
        let shares = self.trainers().map(|trainer| trainer.share(t));
        Ok(Box::new(LinearProblems::new(shares.collect::<Result<_, _>>()?)))
    }

    fn average(
        &self,
        all: &[Box<dyn Problem>],
        factors: &[f64],
    ) -> Option<Result<Box<dyn Problem>, Error>> {
        let of_kind = all.iter().map(|other| (&**other as &dyn Any).downcast_ref::<Self>());
        if let Some(all) = of_kind.collect::<Option<Vec<&Self>>>() {
            return average(&all, factors);
        }
        // Some may have learned from sparse rows, others from dense ones.
        let singles = all.iter().map(|other| singles::<S>(&**other)).collect::<Option<Vec<_>>>()?;
        match singles.into_iter().collect::<Result<Vec<_>, _>>() {
            Ok(singles) => average(&singles.iter().collect::<Vec<_>>(), factors),
            Err(error) => Some(Err(error)),
        }
    }
}
