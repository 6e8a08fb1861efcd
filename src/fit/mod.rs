//! The fit policy: what to do next, for linear problems, kernel problems and refits alike.
//!
//! A fit is epochs of Pegasos, evaluations, dual ascent, leaps. [`Fit`] does a part of it at a time and tells of every
//! epoch; what it does next depends on [`Policy`] and on what the epochs have shown.
//!
//! ```text
//!   +-------------------- not there yet, or no tolerance --------------------+
//!   v                                                                        |
//! Start --+--> Epoch ----+--> Evaluate --+--> what is known is judged -------+--> Over
//!   ^     |              |               |      |                  |               ^
//!   |     +--> Ascend ---+--- not due ---+      |                  +--> Last ------+
//!   |                                           |
//!   +-------------------- Leap <----------------+
//! ```
//!
//! * From `Start`: `Ascend` once dual ascent has taken over, at the beginning or after an epoch of Pegasos; before that
//!   `Epoch`. Straight to `Over` where no epoch is left.
//! * `Leap`: dual ascent has hardly moved; straight from `Start` where it would take longer. `Last`: it is enough, and what is
//!   not known of the end is evaluated.
//!
//! * `Solver::Auto` for linear problems: a step of Pegasos at `1/(lambda t)` moves w by up to `||x||/(lambda t)`: as
//!   long as `lambda n` is below 1 a whole epoch of them ends far from the optimum. A step of dual ascent is never too
//!   long, but its first epoch has little to hold on to. So: one epoch of Pegasos if `lambda n > 1`, none otherwise, nor
//!   where steps that long would have the squared hinge swing ever wider;
//!   more of it only if its gap, which falls as 1/t, will be at most `tol` after one more; else dual ascent; after
//!   [`LEAP_AFTER`] epochs of that, and after twice as many each time, if the gap is still far from `tol`, and will be for
//!   long at the pace of the last pass, and there are few features, or more rows than features, a leap
//!   ([`DualAscent::leap`](crate::DualAscent::leap)), and on. With squared hinge and logistic loss a leap takes few steps; where
//!   these cost little beside an epoch, it is due after [`SHORT_LEAP_AFTER`], and comes first of all where `lambda n` is so far
//!   below `||x||^2` that epochs would take longer.
//! * With kernels: dual ascent ([`KernelAscent`](crate::KernelAscent)); of several classes jointly, and of losses other than the
//!   hinge with slopes that have a bound, after one epoch of Pegasos.
//! * Where the gap is half the objective or more and ten epochs are left, of twenty and more, these are of averaged Pegasos,
//!   whose w is the model where its objective is lower.
//! * A [`Refit`](crate::Refit) is dual ascent from the beginning, problem after problem; after another lambda from the best
//!   point near the last one.
//! * Evaluations: of a linear problem they cost half an epoch, and come after epochs 1, 2, ..., 10, 12, 14, 16, 19, ...,
//!   with gaps that grow by a fifth, so that no fit runs much longer than it must. In dual ascent they come when what a
//!   pass has seen, or the gap that some thousands of rows have at its end, suggests that they will end it.
//!
//! The figures it rests on are trials on one thread, to a relative gap of 1e-3. The generated words (600,000
//! rows, lambda n = 60) have a gap of 0.2% after one epoch of Pegasos and 0.01% after one more of dual ascent,
//! 0.1% after one more of Pegasos; at lambda n = 6 the two are 5% and 0.06%. From nothing dual ascent took 0.40
//! and 0.51 s there, the rule 0.30 and 0.40. On news20 (lambda n = 0.1) dual ascent takes 21 epochs; Pegasos does
//! not get there. Without the leap a9a at lambda = 1e-6 takes 0.92 s and 544 epochs' worth of visits, with it
//! 0.09 s. `benches/converge.py` has the comparison with other packages.

mod kernel;
mod leaps;
mod linear;
mod policy;
mod problem;
mod refit;
mod rescue;
mod results;

use crate::error::Error;
use crate::examples::Examples;
use crate::ledger::Certificate;
use crate::order::{Order, Sampling};
use crate::scalar::Scalar;
use crate::trainer::Report;

pub use kernel::{KernelProblem, Machine, Record};
pub use linear::LinearProblems;
use policy::Watch;
pub use policy::{Event, Outcome, Policy, Progress, Solver};
pub use problem::{Ascent, Problem};
#[cfg(feature = "python")]
pub(crate) use refit::ROUGHER;
pub use refit::Solving;
#[cfg(feature = "files")]
pub(crate) use refit::{ROUGH, most_epochs, worth};
pub use results::Excerpt;

/// Epochs of dual ascent after which a fit tries to leap; the head of this file says why, `leaps.rs` which problems do.
const LEAP_AFTER: usize = 5;

/// And where it takes few steps.
const SHORT_LEAP_AFTER: usize = 2;

/// How many times the tolerance the gap must be for a leap to be worth its time, or for it to be plain without an
/// evaluation that Pegasos is not there yet; a gap of most of the objective always is.
const FAR: f64 = 10.0;
const MOST: f64 = 0.5;

/// Steps of dual ascent with kernels that may pass without the dual value going up by such a part of the gap, or of itself:
/// where that is no more than a rounding, few will do.
const STALLED: [(usize, f64); 2] = [(100, 1e-3), (10, 1e-9)];

/// A relative gap that consists of roundings: there is nothing left to do.
pub(crate) const ROUNDINGS: f64 = 1e-13;

/// The same of kernel problems, in epsilons of the scalar of the kernel values. Those of few features in f32 have directions of
/// hardly any curvature, of either sign, where there should be none: gains along these, ever smaller, took 37 s of 150 rows of one
/// feature, which take 0.01 s in f64.
const FINEST: f64 = 4.0;

/// A gap of fewer epsilons may be of that kind, too: there the dual value must go up by such a part of it in the fewer of the steps
/// that are looked at.
const DOUBTFUL: f64 = 64.0;
const FASTER: f64 = 0.1;

/// The relative gap at which dual ascent with kernels of such values ends, whatever is asked for.
fn finest<S: Scalar>() -> f64 {
    ROUNDINGS.max(FINEST * S::EPSILON)
}

/// The share of an epoch's gap by which evaluations are put off: every fifth epoch once there were many.
const RARER: usize = 5;

/// Where a fit is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// Before an epoch.
    Start,
    /// In an epoch of Pegasos, or of dual ascent.
    Epoch,
    Ascend,
    /// In the evaluation that belongs to an epoch, or in the one that comes last.
    Evaluate {
        all: bool,
    },
    Last,
    Leap,
    Over(Outcome),
}

/// What a fit remembers beside the problem.
#[derive(Clone, Debug)]
pub(crate) struct Course {
    policy: Policy,
    state: State,
    /// Whether what comes before the first epoch is done.
    begun: bool,
    /// Epochs so far, and those of dual ascent among them.
    epochs: usize,
    climbed: usize,
    /// Whether dual ascent has taken over.
    ascending: bool,
    /// After which epoch the next evaluation comes.
    evaluation: usize,
    event: Event,
    /// The mean loss of every epoch that has ended.
    losses: Vec<f64>,
    /// Whether somebody has said that the epoch at hand is the last.
    stopped: bool,
    /// What dual ascent had come to, where averaged Pegasos is to do better.
    given_up: Option<Certificate>,
    watch: Watch,
    /// The dual value so many steps ago as [`STALLED`] says.
    bounds: [f64; STALLED.len()],
}

const UNKNOWN: Certificate = Certificate { primal: f64::NAN, dual: f64::NAN };

impl Course {
    pub(crate) fn new(policy: Policy) -> Self {
        let watch = Watch {
            tol: policy.tol.unwrap_or(0.0),
            patience: policy.patience,
            best: f64::INFINITY,
            idle: 0,
        };
        Course {
            policy,
            state: State::Start,
            begun: false,
            epochs: 0,
            climbed: 0,
            ascending: false,
            evaluation: 1,
            event: Event { loss: f64::NAN, certificate: UNKNOWN, visits: 0 },
            losses: Vec::new(),
            stopped: false,
            given_up: None,
            watch,
            bounds: [f64::NEG_INFINITY; STALLED.len()],
        }
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The last event.
    pub(crate) fn event(&self) -> Event {
        self.event
    }

    /// That of a copy of the problems, which has nothing of an epoch of Pegasos that is under way: it begins anew.
    fn copy(&self) -> Self {
        let mut copy = self.clone();
        if copy.state == State::Epoch {
            (copy.state, copy.epochs) = (State::Start, copy.epochs - 1);
        }
        copy
    }

    /// It is enough, after the epoch at hand if there is one. What is not known of the end is still evaluated.
    pub(crate) fn stop(&mut self) {
        match self.state {
            State::Start | State::Leap => self.state = self.end(),
            State::Epoch | State::Ascend | State::Evaluate { .. } => self.stopped = true,
            State::Last | State::Over(_) => {}
        }
    }

    /// How a fit that was stopped goes on.
    fn end(&self) -> State {
        let unknown = self.event.certificate.primal.is_nan();
        if unknown { State::Last } else { State::Over(Outcome::Reached) }
    }

    /// Does about so many rows' work; `order` gives that of an epoch of Pegasos.
    pub(crate) fn advance<S: Scalar>(
        &mut self,
        problem: &mut dyn Problem<S>,
        data: &Examples<'_, S>,
        order: &mut dyn FnMut(u64) -> Result<Box<dyn Order + Send>, Error>,
        size: usize,
    ) -> Result<Progress, Error> {
        // None would be the end of an epoch.
        let size = size.max(1);
        let tol = self.policy.tol.unwrap_or(0.0);
        let going = |rows| Progress::Going { rows, anew: false };
        match self.state {
            State::Over(outcome) => Ok(Progress::Over(outcome)),
            State::Start => {
                if !self.begun {
                    self.begin(problem, data)?;
                    self.begun = true;
                    if self.state == State::Leap {
                        return Ok(Progress::Going { rows: 0, anew: true });
                    }
                } else if self.epochs >= self.policy.max_epochs && !self.is_unbounded(problem) {
                    self.state = State::Over(Outcome::Exhausted);
                    return Ok(Progress::Over(Outcome::Exhausted));
                }
                // Any number will do.
                let number = self.policy.first_epoch.wrapping_add(self.epochs as u64);
                self.epochs += 1;
                self.event = Event { loss: f64::NAN, certificate: UNKNOWN, visits: 0 };
                if self.ascending {
                    self.climbed += 1;
                    self.state = State::Ascend;
                } else {
                    problem.begin_epoch(data, order(number)?, self.policy.shards)?;
                    self.state = State::Epoch;
                }
                Ok(going(0))
            }
            State::Epoch => {
                let rows = match problem.visit(data, size) {
                    Err(_) if self.given_up.is_some() => return Ok(self.end_of_rescue()),
                    rows => rows?,
                };
                if rows > 0 {
                    return Ok(going(rows));
                }
                let Report { examples, loss, .. } = problem.seen();
                self.learned(loss / examples as f64, examples);
                self.after_epoch(problem, data)
            }
            State::Ascend => match problem.ascend(data, &self.policy, size)? {
                Ascent::Going { rows, anew } => Ok(Progress::Going { rows, anew }),
                Ascent::Epoch { loss, visits, certificate } => {
                    self.learned(loss, visits);
                    if let Some(certificate) = certificate {
                        self.event.certificate = certificate;
                        return self.judge(problem, data);
                    }
                    if self.policy.tol.is_none() {
                        return Ok(self.end_of_epoch(State::Start));
                    }
                    let all = self.is_last() || self.may_give_up();
                    self.state = State::Evaluate { all };
                    Ok(going(0))
                }
            },
            State::Evaluate { all } => match problem.evaluate(data, tol, all, size) {
                Err(_) if self.given_up.is_some() => Ok(self.end_of_rescue()),
                Err(error) => Err(error),
                Ok(None) => Ok(going(0)),
                Ok(Some(certificate)) => {
                    self.event.certificate = certificate;
                    self.judge(problem, data)
                }
            },
            State::Last => match problem.evaluate(data, tol, true, size)? {
                None => Ok(going(0)),
                Some(certificate) => {
                    self.event.certificate = certificate;
                    self.state = State::Over(Outcome::Reached);
                    Ok(Progress::Over(Outcome::Reached))
                }
            },
            State::Leap => {
                if !problem.leap(data, tol)? {
                    self.state = State::Start;
                }
                Ok(Progress::Going { rows: 0, anew: true })
            }
        }
    }

    /// Before the first epoch.
    fn begin<S: Scalar>(
        &mut self,
        problem: &mut dyn Problem<S>,
        data: &Examples<'_, S>,
    ) -> Result<(), Error> {
        let Policy { sampling, shards, going_on, until_stopped, max_epochs, .. } = self.policy;
        self.policy.check(data.len())?;
        // Not every order meets every row.
        let whole = sampling != Sampling::Replacement && !going_on;
        self.policy.certify &= whole && problem.certifies();
        if !(whole && problem.may_ascend() && shards == 1 && !until_stopped) {
            if self.policy.solver == Solver::Dual {
                let want = "\"pegasos\" or \"auto\" where steps are not plain Pegasos";
                return Err(Error::parameter("solver", "dual", want));
            }
            self.policy.solver = Solver::Pegasos;
        }
        let unbounded = self.is_unbounded(problem);
        let weak = problem.lambda() * data.len() as f64 <= 1.0;
        let auto = self.policy.solver == Solver::Auto;
        let short = weak && !problem.evaluates_always() || problem.only_ascends();
        let short = short || auto && problem.swings(data);
        let time = self.policy.tol.is_some() && max_epochs > SHORT_LEAP_AFTER;
        let leaps = auto && time && problem.leaps_at_once(data);
        let at_once = self.policy.solver == Solver::Dual || auto && short || leaps;
        if leaps {
            self.state = State::Leap;
        }
        if !going_on {
            let asked = self.policy.tol.is_some() || unbounded;
            let ledger = self.policy.certify && asked && !at_once;
            let again = self.policy.max_epochs > 1 && !unbounded;
            problem.prepare(data.len(), ledger, if again { self.policy.cache } else { 0 })?;
        }
        if at_once { self.ascend_from_here(problem, data) } else { Ok(()) }
    }

    fn may_ascend(&self) -> bool {
        self.policy.solver != Solver::Pegasos
    }

    fn is_last(&self) -> bool {
        self.epochs >= self.policy.max_epochs
    }

    /// Steps of dual ascent with kernels end when they lead no further, not after so many.
    fn is_unbounded<S: Scalar>(&self, problem: &dyn Problem<S>) -> bool {
        self.may_ascend() && problem.evaluates_always()
    }

    fn ascend_from_here<S: Scalar>(
        &mut self,
        problem: &mut dyn Problem<S>,
        data: &Examples<'_, S>,
    ) -> Result<(), Error> {
        self.ascending = true;
        problem.begin_ascent(data, self.policy.cache)
    }

    /// The visits of an epoch are over, whatever comes of what is still to be evaluated.
    fn learned(&mut self, loss: f64, visits: u64) {
        (self.event.loss, self.event.visits) = (loss, visits);
        self.losses.push(loss);
    }

    fn end_of_epoch(&mut self, next: State) -> Progress {
        self.state = match next {
            State::Over(_) => next,
            _ if self.stopped => self.end(),
            _ => next,
        };
        Progress::Epoch(self.event)
    }

    /// An epoch of Pegasos is over.
    fn after_epoch<S: Scalar>(
        &mut self,
        problem: &mut dyn Problem<S>,
        data: &Examples<'_, S>,
    ) -> Result<Progress, Error> {
        let last = self.is_last();
        let going = Progress::Going { rows: 0, anew: true };
        if self.is_unbounded(problem) {
            self.ascend_from_here(problem, data)?;
            return Ok(self.end_of_epoch(State::Start));
        }
        let Some(tol) = self.policy.tol else {
            return Ok(self.end_of_epoch(State::Start));
        };
        if self.may_ascend() && !last {
            // The mean loss of the epoch lies above that of the model at its end, so the gap that it suggests is too
            // large: ten times over, or, where the first steps met most of that loss, hundreds of times.
            let far = problem.estimate(data, self.event.loss) > FAR * tol;
            let there = far && problem.glimpse(data)?.relative_gap() <= tol;
            if far && !there {
                self.ascend_from_here(problem, data)?;
                return Ok(self.end_of_epoch(State::Start));
            }
        }
        if problem.evaluates_always() {
            // Costs an epoch: where nothing is certified, the loss must do, and the end is evaluated.
            let over = !self.policy.certify && self.watch.is_over(self.event.loss);
            if !(self.policy.certify || last || over) {
                return Ok(self.end_of_epoch(State::Start));
            }
            self.state = State::Evaluate { all: true };
            return Ok(going);
        }
        if self.epochs == self.evaluation || last {
            if self.epochs == self.evaluation {
                self.evaluation += (self.evaluation / RARER).max(1);
            }
            self.state = State::Evaluate { all: true };
            return Ok(going);
        }
        self.judge(problem, data)
    }

    /// What to do next, with or without a certificate of this epoch.
    fn judge<S: Scalar>(
        &mut self,
        problem: &mut dyn Problem<S>,
        data: &Examples<'_, S>,
    ) -> Result<Progress, Error> {
        let tol = self.policy.tol.unwrap_or(0.0);
        let (last, Certificate { primal, dual }) = (self.is_last(), self.event.certificate);
        let gap = primal - dual;
        if self.ascending && problem.evaluates_always() {
            if gap <= tol.max(finest::<S>()) * primal {
                let short = tol > 0.0 && gap > tol.max(ROUNDINGS) * primal;
                let outcome = if short { Outcome::Stalled } else { Outcome::Reached };
                return Ok(self.end_of_epoch(State::Over(outcome)));
            }
            let mut next = State::Start;
            let [slow, mut quick] = STALLED;
            if gap <= DOUBTFUL * S::EPSILON * primal {
                quick.1 = FASTER;
            }
            for ((steps, least), bound) in [slow, quick].into_iter().zip(&mut self.bounds) {
                if self.epochs.is_multiple_of(steps) {
                    // The objective may go up and down, the dual only up; and where C is large, most of the gap may long be
                    // the objective's.
                    if dual - *bound <= least * gap.min(dual) {
                        next = State::Over(Outcome::Stalled);
                    }
                    *bound = dual;
                }
            }
            return Ok(self.end_of_epoch(next));
        }
        let mut over = false;
        if self.policy.until_stopped {
            // Others judge.
        } else if self.policy.certify {
            let asked = self.policy.tol.map_or(0.0, |tol| tol.max(ROUNDINGS));
            over = gap <= asked * primal;
            let epochs = self.epochs as f64;
            // The gap of Pegasos falls as 1/t: one more epoch of it, or dual ascent.
            let slow = gap * epochs > tol * primal * (epochs + 1.0);
            if self.may_ascend() && !self.ascending && slow && !last {
                self.ascend_from_here(problem, data)?;
            }
        } else if problem.evaluates_always() {
            over = self.watch.idle >= self.watch.patience;
        } else {
            over = self.watch.is_over(self.event.loss);
        }
        if self.may_give_up() && gap > MOST * primal && !self.stopped && problem.begin_rescue()? {
            self.given_up = Some(self.event.certificate);
            (self.ascending, self.policy.solver) = (false, Solver::Pegasos);
            // The end is looked at in any case.
            self.evaluation = usize::MAX;
            return Ok(self.end_of_epoch(State::Start));
        }
        if over && primal.is_nan() {
            self.state = State::Last;
            return Ok(Progress::Epoch(self.event));
        }
        let after = problem.leap_after(data);
        let (times, left) = (self.climbed / after, self.climbed % after);
        let leaps = self.policy.solver == Solver::Auto && left == 0 && times.is_power_of_two();
        let next = match (over, leaps && self.ascending && !last) {
            (true, _) => State::Over(Outcome::Reached),
            (false, true) => State::Leap,
            (false, false) => State::Start,
        };
        Ok(self.end_of_epoch(next))
    }
}

impl Course {
    /// How the fit has ended, if it has.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        if let State::Over(outcome) = self.state { Some(outcome) } else { None }
    }
}

#[cfg(feature = "python")]
impl Course {
    /// Whether dual ascent has taken over.
    pub(crate) fn is_ascending(&self) -> bool {
        self.ascending
    }

    /// The mean loss of every epoch that has ended.
    pub(crate) fn losses(&self) -> &[f64] {
        &self.losses
    }

    /// Epochs begun so far.
    pub(crate) fn epochs(&self) -> usize {
        self.epochs
    }
}

/// A fit under way.
///
/// ```
/// use pegasos::{Binary, Dense, Examples, Fit, Hinge, Linear, LinearProblems, Params, Policy, Trainer};
///
/// let x = [0.0, 1.0, 1.0, 0.0, 0.0, 2.0, 2.0, 0.0_f32];
/// let data = Examples::new(Dense::new(&x, 4, 2)?, &[1, 0, 1, 0], None)?;
/// let loss = Binary { loss: Hinge, positive: 1 };
/// let trainer = Trainer::new(Linear::new(1, 2, 0.0)?, loss, Params::default())?;
///
/// let mut fit = Fit::new(LinearProblems::from(trainer), Policy::default());
/// let event = fit.run(&data)?;
/// assert!(event.certificate.relative_gap() <= 1e-3);
/// let w = fit.into_problem().result()?;
/// assert!(w.weights()[0] < 0.0);
/// # Ok::<(), pegasos::Error>(())
/// ```
#[derive(Debug)]
pub struct Fit<P> {
    problem: P,
    course: Course,
    /// Rows and features of the data that it began with.
    shape: Option<(usize, usize)>,
}

impl<P: Clone> Clone for Fit<P> {
    /// A copy. An epoch of Pegasos that is under way begins anew there, from what the trainers have learned.
    fn clone(&self) -> Self {
        Fit { problem: self.problem.clone(), course: self.course.copy(), shape: self.shape }
    }
}

impl<P> Fit<P> {
    /// Of a problem whose trainers are at their beginning, where a certificate is asked for.
    pub fn new(problem: P, policy: Policy) -> Self {
        Fit { problem, course: Course::new(policy), shape: None }
    }

    /// The problem.
    pub fn problem(&self) -> &P {
        &self.problem
    }

    /// The problem, to go on with or to take the model from.
    pub fn into_problem(self) -> P {
        self.problem
    }

    /// Ends the fit after this epoch, with an evaluation if there was none.
    pub fn stop(&mut self) {
        self.course.stop();
    }

    /// Does about so many rows' work. Refuses data of another shape than those that it began with.
    pub fn advance<S: Scalar>(
        &mut self,
        data: &Examples<'_, S>,
        size: usize,
    ) -> Result<Progress, Error>
    where
        P: Problem<S>,
    {
        let (rows, features) = (data.len(), data.rows().n_features());
        let (n, d) = *self.shape.get_or_insert((rows, features));
        if (n, d) != (rows, features) {
            let want = format_args!("{n} rows of {d} features, as the fit began with");
            return Err(Error::shape("X", want, format_args!("{rows} of {features}")));
        }
        let Policy { sampling, seed, .. } = *self.course.policy();
        let n = data.len();
        let mut order = |epoch| -> Result<Box<dyn Order + Send>, Error> {
            Ok(Box::new(sampling.epoch(n, seed, epoch)?))
        };
        let progress = self.course.advance(&mut self.problem, data, &mut order, size)?;
        if let Progress::Over(_) = progress {
            self.problem.end_ascent(data)?;
        }
        Ok(progress)
    }

    /// All of it; what is known at its end.
    pub fn run<S: Scalar>(&mut self, data: &Examples<'_, S>) -> Result<Event, Error>
    where
        P: Problem<S>,
    {
        while !matches!(self.advance(data, usize::MAX)?, Progress::Over(_)) {}
        Ok(self.course.event())
    }
}
