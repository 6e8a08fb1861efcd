//! What linear problems start from, be it nothing or what was stored of them, and what is stored.

use std::sync::Mutex;

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::linear::{OneScore, Problem, Problems, Trainers};
use super::problem::{array, item};
use super::{lock, unknown};
use crate::{
    AnyLoss, Average, Ball, Binary, Block, CrammerSinger, Flight, KeptRow, Linear, LinearState,
    Loss, Params, Regret, Scalar, Schedule, Trainer,
};

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
    /// The radius of a ball to project on.
    radius: Option<f64>,
    batch_size: usize,
    delay: usize,
    /// Whether to count loss and regret.
    regret: bool,
    average: String,
    average_from: u64,
}

impl PyParams {
    /// The losses of one class against the others, for each of these.
    fn one_score(&self, positives: &[u32]) -> PyResult<Vec<OneScore>> {
        let loss = match self.loss.as_str() {
            "hinge" => AnyLoss::Hinge,
            "squared_hinge" => AnyLoss::SquaredHinge,
            "log_loss" => AnyLoss::Logistic,
            other => return Err(unknown("loss", other)),
        };
        Ok(positives.iter().map(|&positive| Binary { loss, positive }).collect())
    }

    fn params(&self, loss: &impl Loss) -> PyResult<Params> {
        let (eta0, power) = (self.eta0, self.power_t);
        let radius = self.projection.map(|weight| loss.radius(self.alpha, weight)).or(self.radius);
        Ok(Params {
            lambda: self.alpha,
            schedule: match self.learning_rate.as_str() {
                "pegasos" => Schedule::Pegasos,
                "invscaling" => Schedule::InvScaling { eta0, power },
                "constant" => Schedule::Constant { eta0 },
                other => return Err(unknown("learning_rate", other)),
            },
            t0: self.t0,
            set: radius.map(|radius| Ball { radius }),
            block: match self.delay {
                0 => Block::Mean(self.batch_size),
                delay => Block::Delayed(delay),
            },
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

/// Which problems are trained over the same rows.
#[derive(Clone, FromPyObject)]
pub(super) enum Targets {
    /// By one score each: one class against the others, for each of these.
    OneScore(Vec<u32>),
    /// One problem with a score for each of so many classes.
    CrammerSinger(usize),
}

/// The trainers of all problems, after `t` steps.
pub(super) fn make(
    dtype: &str,
    targets: &Targets,
    params: &Bound<'_, PyDict>,
    t: u64,
    part: &impl AnyPart,
) -> PyResult<Trainers> {
    let parsed: PyParams = params.extract()?;
    let multi = |&classes: &usize| vec![CrammerSinger { classes }];
    Ok(match (dtype, targets) {
        ("float32", Targets::OneScore(positives)) => {
            Trainers::Binary32(problems(parsed.one_score(positives)?, &parsed, t, part)?)
        }
        ("float64", Targets::OneScore(positives)) => {
            Trainers::Binary64(problems(parsed.one_score(positives)?, &parsed, t, part)?)
        }
        ("float32", Targets::CrammerSinger(classes)) => {
            Trainers::Multi32(problems(multi(classes), &parsed, t, part)?)
        }
        ("float64", Targets::CrammerSinger(classes)) => {
            Trainers::Multi64(problems(multi(classes), &parsed, t, part)?)
        }
        (other, _) => return Err(unknown("dtype", other)),
    })
}

/// What a problem starts from.
pub(super) struct Part<S> {
    linear: Linear<S>,
    flights: Vec<Flight<S, Vec<f64>>>,
    regret: Option<Regret>,
}

/// Gives the parts of problems in whatever scalar.
pub(super) trait AnyPart {
    /// What problem k, with so many outputs, starts from.
    fn part<S: Scalar + numpy::Element>(&self, k: usize, outputs: usize) -> PyResult<Part<S>>;
}

/// Weights of 0.
pub(super) struct Zero {
    pub(super) n_features: usize,
    pub(super) constant: f64,
}

impl AnyPart for Zero {
    fn part<S: Scalar + numpy::Element>(&self, _: usize, outputs: usize) -> PyResult<Part<S>> {
        let linear = Linear::new(outputs, self.n_features, self.constant)?;
        Ok(Part { linear, flights: Vec::new(), regret: Some(Regret::default()) })
    }
}

fn problems<S: Scalar + numpy::Element, L: Loss>(
    losses: Vec<L>,
    parsed: &PyParams,
    t: u64,
    part: &impl AnyPart,
) -> PyResult<Mutex<Problems<S, L>>> {
    let problem = |(k, loss): (usize, L)| {
        let zeros = loss.zeros();
        let Part { linear, flights, regret } = part.part(k, zeros.as_ref().len())?;
        let params = parsed.params(&loss)?;
        let mut trainer = Trainer::resume(linear, loss, params, t)?;
        let flight = |Flight { example, row, coef }: Flight<S, Vec<f64>>| {
            if coef.len() != zeros.as_ref().len() {
                return Err(PyValueError::new_err("parts hold a flight of another loss"));
            }
            let mut scores = zeros.clone();
            scores.as_mut().copy_from_slice(&coef);
            Ok(Flight { example, row, coef: scores })
        };
        trainer.set_flights(flights.into_iter().map(flight).collect::<PyResult<_>>()?);
        // One that has lost count, as by a merge, does not begin anew.
        if let Some(regret) = regret.filter(|_| parsed.regret) {
            trainer.keep_regret(regret)?;
        }
        Ok(Problem::new(trainer))
    };
    Ok(Mutex::new(losses.into_iter().enumerate().map(problem).collect::<PyResult<_>>()?))
}

/// What [`parts`] gave.
impl AnyPart for Vec<Bound<'_, PyDict>> {
    fn part<S: Scalar + numpy::Element>(&self, k: usize, _: usize) -> PyResult<Part<S>> {
        let dict = self.get(k).ok_or_else(|| PyValueError::new_err("parts lack a problem"))?;
        let state = LinearState {
            v: array(dict, "v")?,
            b: array(dict, "b")?,
            u: array(dict, "u")?,
            ub: array(dict, "ub")?,
            constant: item(dict, "constant")?.extract()?,
            a: item(dict, "a")?.extract()?,
            norm2: item(dict, "norm2")?.extract()?,
            sum_a: item(dict, "sum_a")?.extract()?,
            sum_q: item(dict, "sum_q")?.extract()?,
        };
        let linear = Linear::from_state(item(dict, "n_features")?.extract()?, state)?;
        let flights: Vec<Bound<'_, PyDict>> = item(dict, "flights")?.extract()?;
        let flights = flights.iter().map(|flight| {
            let item = |name: &str| {
                let item = flight.get_item(name)?;
                item.ok_or_else(|| PyValueError::new_err(format!("a flight lacks {name:?}")))
            };
            let values = item("values")?;
            let values = values.extract::<PyReadonlyArray1<'_, S>>()?.as_slice()?.to_vec();
            let indices: Option<PyReadonlyArray1<'_, i64>> = item("indices")?.extract()?;
            let row = match indices {
                None => KeptRow::Dense(values),
                Some(indices) => KeptRow::Sparse {
                    indices: indices.as_slice()?.iter().map(|&j| j as usize).collect(),
                    values,
                },
            };
            let (example, coef): (_, Vec<f64>) =
                (item("example")?.extract()?, item("coef")?.extract()?);
            let d = linear.n_features();
            let (fits, values) = match &row {
                KeptRow::Dense(values) => (values.len() == d, values),
                KeptRow::Sparse { indices, values } => {
                    let inside = indices.iter().all(|&j| j < d);
                    (inside && indices.len() == values.len(), values)
                }
            };
            let finite = values.iter().all(|x| x.to_f64().is_finite());
            if !(fits && finite && coef.iter().all(|c| c.is_finite())) {
                return Err(PyValueError::new_err(format!(
                    "a flight must hold finite numbers, of {d} features at most"
                )));
            }
            Ok(Flight { example, row, coef })
        });
        let flights = flights.collect::<PyResult<_>>()?;
        let regret: Option<Vec<f64>> = item(dict, "regret")?.extract()?;
        let regret = regret.map(|numbers| Regret::from_numbers(&numbers)).transpose()?;
        Ok(Part { linear, flights, regret })
    }
}

/// The steps done, and a dictionary for each problem.
pub(super) fn parts<S: Scalar + numpy::Element, L: Loss + Clone + Send>(
    py: Python<'_>,
    problems: &Mutex<Problems<S, L>>,
) -> PyResult<(u64, Vec<Py<PyDict>>)> {
    let (t, trainers) = py.detach(|| {
        let problems = lock(problems);
        let trainers: Vec<_> = problems
            .iter()
            .map(|Problem { trainer, .. }| {
                let flights: Vec<_> = trainer.flights().iter().cloned().collect();
                (trainer.hypothesis().clone(), flights, trainer.regret().cloned())
            })
            .collect();
        (problems.first().map_or(0, |p| p.trainer.t()), trainers)
    });
    let parts = trainers.iter().map(|(linear, flights, regret)| {
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
        let flights = flights.iter().map(|Flight { example, row, coef }| {
            let dict = PyDict::new(py);
            dict.set_item("example", example)?;
            dict.set_item("coef", coef.as_ref().to_vec())?;
            let (indices, values) = match row {
                KeptRow::Dense(values) => (None, values),
                KeptRow::Sparse { indices, values } => {
                    let indices: Vec<i64> = indices.iter().map(|&j| j as i64).collect();
                    (Some(PyArray1::from_vec(py, indices)), values)
                }
            };
            dict.set_item("indices", indices)?;
            dict.set_item("values", PyArray1::from_slice(py, values))?;
            Ok(dict)
        });
        dict.set_item("flights", flights.collect::<PyResult<Vec<_>>>()?)?;
        dict.set_item("regret", regret.as_ref().map(Regret::numbers))?;
        Ok(dict.unbind())
    });
    Ok((t, parts.collect::<PyResult<_>>()?))
}
