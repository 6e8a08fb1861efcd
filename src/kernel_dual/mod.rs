//! Dual ascent with kernels: from where kernel Pegasos is, or from nothing, to any certified gap.
//!
//! * Problem: the dual of `P(w) = lambda/2 ||w||^2 + 1/n sum_i s_i loss(<w, phi(x_i)>; y_i)`, as in
//!   [`DualAscent`](crate::DualAscent), with `w(a) = 1/(lambda n) sum_i s_i a_i phi(x_i)`; or of several such problems of
//!   one score each over the same examples, where the loss is their sum ([`OneVsRest`](crate::OneVsRest),
//!   [`OneVsOne`](crate::OneVsOne)).
//! * Round: of the examples of each problem that is not solved yet take some ([`WORKING`] or more), those whose shares of
//!   the gap are the largest (as many that would raise scores as lower them), and the kernel values among them; ascend among
//!   them until their part of the gap has come down to a twentieth; then bring the scores of all examples up to date, by one
//!   row of kernel values for each example that has moved in any problem. Problems ascend side by side.
//! * Kernel values: rows with all examples stay where there is room, and serve all problems and later rounds. Where vectors fill
//!   more than a cache, those that all problems lack are computed at once, each of them waiting for its own.
//! * Among the working set: for the hinge loss of one score up to four examples at a time, those whose steps promise
//!   most, found by the very pass that makes the steps before known to all
//!   ([`descend`](crate::simd::Simd::descend)). For other losses the [`BLOCK`] with the largest shares
//!   at a time, by [`Loss::ascend`] in turn. After each sweep a leap to the best point that the last ones point to; of one
//!   score, where that pays, conjugate gradients among those that are free (`sweeps.rs`). Of several classes jointly, where few
//!   examples and few of their outputs are not settled, these go on by themselves (`contest.rs`).
//! * Carried: a, and every example's scores at w(a), in f64. The gap is the sum of the examples' shares,
//!   `s_i/n (loss + loss* + <a_i, scores_i>)`, so every round begins with a certificate, at no cost.
//! * Cost: with m examples in the working set O(n m) kernel values a round, and O(m) for a step within it.
//!   Memory: 8 bytes an example and 16 an example and output, m^2 kernel values for each problem at work, of which there are
//!   as many as threads, if that is allowed, and as many more as are allowed.
//! * By instalments: kernel values row by row, problem by problem, scores chunk by chunk, so that a caller is heard in
//!   between. What a round has found stands once all scores know of it; until then it can be undone. A problem that is taken as a
//!   whole knows its scores by itself, and can be left where it is.
//! * Determinism: every kernel value is computed in one way wherever it is needed, and added in the order of the examples;
//!   threads change no bit.
//! * Positive kernels only have a dual: of others nothing is certified, D is NaN, and rounds go on, as those of other
//!   solvers do, without an end that they could prove.
//! * Source: decomposition as in Joachims (1999); without an intercept there is no constraint that ties
//!   examples together, so the steps are those of coordinate ascent (Hsieh et al. 2008), greedy as in Platt
//!   (1998).

mod blocks;
mod cells;
mod companion;
mod contest;
mod descent;
mod face;
mod grid;
mod held_out;
mod near;
mod pair;
mod rows;
mod survey;
mod sweeps;
mod values;
mod working;

use std::ops::Range;
use std::sync::Arc;

use crate::data::{Matrix, same_features};
use crate::error::Error;
use crate::examples::Examples;
use crate::expansion::Expansion;
use crate::expansion::check_constant;
use crate::feasible::Feasible;
use crate::hypothesis::{Hypothesis, check_shape};
use crate::kernel::Kernel;
use crate::ledger::Certificate;
use crate::loss::Loss;
use crate::memory;
use crate::params::{check_lambda, check_tol};
use crate::scalar::Scalar;
use crate::trainer::Trainer;
use crate::vectors::{CHUNK, Layout, Vectors};
use grid::{Grid, Shape};
pub use held_out::Folds;
use near::is_cheap;
use rows::Room;
use survey::{Part, spans_of};
use values::{Cached, Means, Raised, Spread, vectors_of};
use working::{Among, Found, Gain, Job};

/// Examples that the first round ascends among. In trials on the problems of `benches/kernels.py` the checkerboard
/// took about twice as long with 4,096 as with this many, and with 1,024; the digits hardly longer with either.
const WORKING: usize = 2048;

/// And the last ones at most: more, and a round would take longer than a caller may want to wait.
const MOST: usize = 8192;

/// Steps have weights in single precision, which holds no larger ones.
const HEAVIEST: f64 = 1e37;

/// A round that leaves more than this of the gap is followed by one among twice as many examples. In a trial a9a,
/// sparse, where thousands of support vectors are free, took 27 s with 2,048 throughout, 4.4 s with 4,096.
const SLOW: f64 = 0.5;

/// Where there is one problem, it is taken as a whole up to so many examples, if there may be as many kernel values as it has; else
/// up to [`WORKING`]. In trials on an AMD EPYC one class of covtype15k (12,000) took 0.6 to 0.75 of the time of working sets, one of
/// letter (16,000) 0.8 to 1.1, a9a (32,561) 1.1 to 1.6. So is each pair of classes, where all have room; covtype15k in f64, whose
/// largest pair has 10,231, takes 0.9 of the time.
const ALONE: usize = 16_384;

/// Vectors of more bytes come from beyond the processor's second cache, however few rows are multiplied with them: then problems
/// wait for each other's rows. In trials on an Intel Xeon with 2 MB of it usps (7 MB) took 0.63 to 0.92 of the time, its first
/// 2,000 examples (2 MB) 0.96 on one thread and 1.1 on two, the digits (0.5 MB) 1.2: what each problem has near goes when another
/// one has its turn.
const FAR: usize = 1 << 22;

/// Examples that are ascended among together, where that is not done one at a time.
const BLOCK: usize = 64;

/// A point of the dual that is worse than 0 is halved this often at most, to find a part that is not.
const HALVINGS: i32 = 20;

/// Maximises the dual of a kernel problem, or of several, a working set at a time.
///
/// ```
/// use pegasos::{Binary, Dense, Examples, Hinge, Hypothesis, Kernel, KernelAscent};
///
/// // No line separates these.
/// let x = [0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0_f64];
/// let data = Examples::new(Dense::new(&x, 4, 2)?, &[1, 1, 0, 0], None)?;
/// let loss = Binary { loss: Hinge, positive: 1 };
/// let kernel = Kernel::Rbf { gamma: 2.0 };
/// let mut ascent = KernelAscent::new(kernel, loss, 1e-3, &data, 1 << 30)?;
/// let certificate = ascent.solve(&data, 1e-6, 1000)?;
/// assert!(certificate.relative_gap() <= 1e-6);
/// let mut score = [0.0];
/// ascent.result(&data)?.score(data.rows().row(3), &mut score);
/// assert!(score[0] < -0.9);
/// # Ok::<(), pegasos::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct KernelAscent<S, L> {
    kernel: Raised,
    /// Which says whether one score steps in pairs.
    means: Means,
    loss: L,
    lambda: f64,
    n_features: usize,
    /// Which row of the data stands at each place, class after class, and their classes.
    numbers: Vec<usize>,
    labels: Vec<u32>,
    /// `a`, in the domain of the conjugate.
    dual: Grid,
    /// At w(a).
    scores: Grid,
    /// k(x, x) of the example at each place.
    own: Vec<f64>,
    /// One for each score, where the loss is a sum over them; else one.
    problems: Vec<Part>,
    cached: Cached<S>,
    /// All rows as vectors, where several problems need them.
    all: Option<Arc<Vectors<S>>>,
    room: Room<S>,
    /// How many examples of a problem a round ascends among at most, and how many kernel values side by side.
    most: usize,
    together: usize,
    /// The round at hand.
    round: Option<Round<S>>,
    /// Dual variables that have changed in it, and what they were before.
    before: Vec<(usize, f64)>,
    /// Whether scores are those of w(a) but for what the round at hand changes.
    scored: bool,
    /// Whether dual values bound the objective.
    positive: bool,
    /// Parts of the examples that are held out, each once, and what examples score then: of their own problems, NaN as long
    /// as nobody knows.
    folds: Option<Arc<Folds>>,
    held_out: Option<Grid>,
}

/// What is under way.
#[derive(Clone, Debug)]
enum Round<S> {
    /// Problems look for their steps.
    Search(Vec<Job<S>>),
    /// All scores learn of them.
    Spread(Box<Spread<S>>),
}

/// An example whose coefficients in w have changed.
#[derive(Clone, Debug)]
struct Moved {
    place: u32,
    /// Which of the changes are its own.
    changes: Range<usize>,
    /// Whether its kernel values are cached.
    known: bool,
}

impl<S: Scalar, L: Loss> KernelAscent<S, L> {
    /// Starts from a = 0. Checks all rows, and refuses weights beyond 1e37. With [`Kernel::Precomputed`] column i must belong to row
    /// i. `cache` is about how many bytes of kernel values there may be, at least those among 64 examples.
    pub fn new(
        kernel: Kernel,
        loss: L,
        lambda: f64,
        data: &Examples<'_, S>,
        cache: usize,
    ) -> Result<Self, Error> {
        kernel.check()?;
        check_lambda(lambda, false)?;
        let (n, n_features) = (data.len(), data.rows().n_features());
        if kernel == Kernel::Precomputed && n != n_features {
            return Err(Error::shape(
                "X",
                format_args!("a column for each of its {n} rows, being kernel values"),
                n_features,
            ));
        }
        if n == 0 || n >= u32::MAX as usize {
            return Err(Error::shape("X", "at least one row and fewer than 2^32 - 1", n));
        }
        data.check(0..n)?;
        data.check_labels(loss.classes())?;
        if let Some(weight) = (0..n).map(|i| data.weight(i)).find(|weight| *weight > HEAVIEST) {
            return Err(Error::parameter(
                "sample_weight",
                weight,
                "at most 1e37 where there are kernels",
            ));
        }
        let together = cache / 2 / size_of::<S>();
        let most = (cache / 2 / size_of::<S>()).isqrt();
        let most = most.clamp(BLOCK, MOST);
        let has_room = |len: usize| cache / size_of::<S>() / len.max(1) >= len;
        let outputs = loss.outputs();
        check_shape(outputs, n_features)?;
        // Before any loss of so many is asked for anything.
        memory::check::<(Part, [Range<usize>; 2])>("the problems", &[outputs])?;
        Vectors::<S>::new(n_features, Layout::of(kernel, data.rows())).check_room(1)?;
        memory::check::<(usize, u32)>("the order of the examples", &[n])?;
        let mut numbers: Vec<usize> = (0..n).collect();
        numbers.sort_by_key(|&i| data.label(i));
        let labels: Vec<u32> = numbers.iter().map(|&i| data.label(i)).collect();
        let apart = labels.first().is_none_or(|&y| loss.hinge_sign(0, y).is_some());
        let mut start = 0;
        let classes = labels.chunk_by(|a, b| a == b).map(|own| {
            start += own.len();
            (own[0], start - own.len()..start)
        });
        let classes: Vec<(u32, Range<usize>)> = classes.collect();
        let count = if apart { outputs } else { 1 };
        let part = |o| Part::new(spans_of(&loss, o, &classes), WORKING.min(most));
        let mut problems: Vec<Part> = (0..count).map(part).collect();
        let largest = problems.iter().map(Part::len).max().unwrap_or(0);
        // Nothing else takes room where none of them is of all examples, and all are whole.
        let all_whole = largest < n && has_room(largest) && largest <= ALONE;
        for part in &mut problems {
            let len = part.len();
            let alone = len == n && outputs == 1;
            part.whole = apart
                && match alone {
                    true => n <= WORKING || has_room(n) && n <= ALONE,
                    false => has_room(n) || len <= most || all_whole,
                };
        }
        let spans: Vec<&[Range<usize>]> = problems.iter().map(|part| &part.spans[..]).collect();
        let shape = Arc::new(Shape::new(n, outputs, &spans)?);
        let dual = Grid::new("the dual variables", shape.clone())?;
        let scores = Grid::new("the scores", shape)?;
        memory::check::<f64>("kernel values", &[n])?;
        let own = numbers.iter().map(|&i| own_value(kernel, data.rows(), i)).collect();
        Ok(KernelAscent {
            kernel: Raised { kernel, by: 0.0 },
            own,
            means: Means::of(kernel, data.rows(), &numbers)?,
            lambda,
            n_features,
            cached: Cached::new(n, if has_room(n) { cache } else { cache / 2 })?,
            numbers,
            all: None,
            room: Room::default(),
            labels,
            dual,
            scores,
            problems,
            most,
            together,
            round: None,
            before: Vec::new(),
            scored: true,
            positive: kernel.is_positive(),
            folds: None,
            held_out: None,
            loss,
        })
    }

    /// Gives every score an intercept; see [`Expansion::with_constant`]. Refuses constants that are none, and an ascent that has
    /// begun, whose scores know of none.
    pub fn with_constant(mut self, constant: f64) -> Result<Self, Error> {
        let by = check_constant(constant)?;
        if self.round.is_some() || self.dual.values.iter().any(|a| *a != 0.0) {
            return Err(Error::parameter("constant", constant, "set before the first step"));
        }
        self.kernel.by = by;
        Ok(self)
    }

    /// Says that kernel values which rows hold already are those of a kernel that is positive semi-definite; see
    /// [`Expansion::assume_positive`].
    pub fn assume_positive(&mut self) {
        self.positive = true;
    }

    /// Starts from where a trainer is: from its w and the dual point of its ledger, scaled down together
    /// where that is not feasible, or worse than nothing; from a = 0 if it keeps no ledger.
    pub fn take_over<F: Feasible<Expansion<S>>>(
        trainer: &Trainer<Expansion<S>, L, F>,
        data: &Examples<'_, S>,
        cache: usize,
    ) -> Result<Self, Error>
    where
        L: Clone,
    {
        let w = trainer.hypothesis();
        let (loss, lambda) = (trainer.loss().clone(), trainer.params().lambda);
        let ascent = KernelAscent::new(w.kernel(), loss, lambda, data, cache)?;
        let mut ascent = ascent.with_constant(w.constant())?;
        ascent.positive = w.is_positive();
        w.check_features(data.rows().n_features())?;
        let (n, outputs) = (data.len(), w.outputs());
        let Some((ledger, factor)) = trainer.dual_point(n) else {
            return Ok(ascent);
        };
        let excess = ledger.excess(&ascent.loss, factor, data);
        let mut a = vec![0.0; outputs];
        for place in 0..n {
            let i = ascent.numbers[place];
            let weight = data.weight(i);
            if weight > 0.0 {
                ledger.dual(i, factor / (excess * weight), &mut a);
                ascent.loss.make_feasible(&mut a, data.label(i));
                a.iter().enumerate().for_each(|(o, a)| ascent.dual.set(o, place, *a));
            }
        }
        // Where lambda n is small, w overshoots: D is below that of a = 0, but not that of some part of it.
        let image = ascent.lambda / 2.0 * w.norm2() / (excess * excess);
        let mut value = |c: f64| {
            let conjugates = (0..n).map(|place| {
                ascent.dual.read(place, &mut a);
                a.iter_mut().for_each(|a| *a *= c);
                let weight = data.weight(ascent.numbers[place]);
                weight * ascent.loss.conjugate(&a, ascent.labels[place])
            });
            -conjugates.sum::<f64>() / n as f64 - c * c * image
        };
        let mut c = 1.0;
        if value(c) <= 0.0 {
            let parts = (1..=HALVINGS).map(|k| 0.5_f64.powi(k)).map(|c| (value(c), c));
            (_, c) = parts.fold((0.0, 0.0), |a, b| if b.0 > a.0 { b } else { a });
        }
        ascent.dual.values.iter_mut().for_each(|a| *a *= c);
        // Not those of the trainer's w: the ledger's sums are rounded, and scores must be those of w(a).
        let mut gains = Vec::new();
        for place in 0..n {
            let factor = ascent.coef_of_one(data, place);
            ascent.dual.read(place, &mut a);
            for (output, a) in (0..).zip(&a).filter(|(_, a)| factor * **a != 0.0) {
                gains.push(Gain { place: place as u32, output, change: factor * a });
            }
        }
        ascent.scored = gains.is_empty();
        if !gains.is_empty() {
            ascent.begin_spread(data, gains)?;
        }
        Ok(ascent)
    }

    fn len(&self) -> usize {
        self.numbers.len()
    }

    /// `a`, examples x outputs. O(examples x outputs).
    pub fn dual(&self) -> Vec<f64> {
        let outputs = self.outputs();
        let mut dual = vec![0.0; self.len() * outputs];
        for (place, &i) in self.numbers.iter().enumerate() {
            self.dual.read(place, &mut dual[i * outputs..][..outputs]);
        }
        dual
    }

    /// The mean loss where the last round began, summed over the problems; NaN before the first.
    pub fn mean_loss(&self) -> f64 {
        self.problems.iter().map(|part| part.sums.loss).sum::<f64>() / self.len() as f64
    }

    fn outputs(&self) -> usize {
        self.scores.shape.outputs
    }

    /// What a dual variable of 1 is in w.
    fn coef_of_one(&self, data: &Examples<'_, S>, place: usize) -> f64 {
        data.weight(self.numbers[place]) / (self.lambda * self.len() as f64)
    }

    /// The sum over the problems of objectives at w(a), and D. O(examples x outputs), after a round as much as that.
    pub fn certificate(&mut self, data: &Examples<'_, S>) -> Result<Certificate, Error> {
        self.finish(data)?;
        self.survey(data, None)?;
        Ok(self.proved())
    }

    /// The certificate of each problem, as of the last survey: one for each score where the loss is a sum over the scores.
    pub fn certificates(&self) -> impl Iterator<Item = Certificate> {
        let n = self.len() as f64;
        self.problems.iter().map(move |part| self.bounded(part.sums.certificate(n)))
    }

    /// Refuses rows of another number, or of other features.
    fn check(&self, data: &Examples<'_, S>) -> Result<(), Error> {
        data.check_len(self.len())?;
        same_features(self.n_features, data.rows().n_features())
    }

    /// Brings the round at hand, if there is one, to its end, so that the scores are those of w(a).
    fn finish(&mut self, data: &Examples<'_, S>) -> Result<(), Error> {
        self.check(data)?;
        while self.go_on(data, data.len())? {}
        Ok(())
    }

    /// The largest `k(x, x)`.
    pub(crate) fn largest(&self) -> f64 {
        self.own.iter().fold(0.0, |most: f64, own| most.max(*own)) + self.kernel.by
    }

    /// Ends with what is known: of problems that are taken as a whole all that their ascent has come to; of others w(a) is what it was
    /// before the round at hand, as not all scores know of more. `None` if nothing was before it: the scores of where it began
    /// are not known. Fails where there is no memory for the kernel values that are missing, which are few.
    pub fn settled(mut self, data: &Examples<'_, S>) -> Result<Option<Self>, Error> {
        if !self.scored {
            return Ok(None);
        }
        if !self.before.is_empty() {
            self.before.drain(..).for_each(|(at, a)| self.dual.values[at] = a);
            // Of scores that know of something else, none is needed: the sums are those of the survey before.
            self.problems.iter_mut().for_each(|part| part.surveyed = true);
        }
        if let Some(Round::Search(jobs)) = self.round.take() {
            for mut job in jobs.into_iter().filter(|job| job.whole) {
                if let Some(found) = self.found_so_far(data, &mut job)? {
                    self.take(job.problem, found, &mut Vec::new());
                }
            }
            self.before.clear();
        }
        Ok(Some(self))
    }

    /// Goes on with the round at hand, by about so many rows of kernel values; false where there is none.
    fn go_on(&mut self, data: &Examples<'_, S>, rows: usize) -> Result<bool, Error> {
        match self.round.take() {
            None => return Ok(false),
            Some(Round::Search(mut jobs)) => {
                self.search_side_by_side(data, &mut jobs, rows)?;
                if jobs.iter().any(|job| job.found.is_none()) {
                    self.round = Some(Round::Search(jobs));
                    return Ok(true);
                }
                let mut gains = Vec::new();
                for job in jobs {
                    self.take(job.problem, job.found.unwrap_or_default(), &mut gains);
                }
                if gains.is_empty() {
                    self.before.clear();
                } else {
                    self.begin_spread(data, gains)?;
                }
            }
            Some(Round::Spread(mut spread)) => {
                // Two chunks at least, or one thread would have nothing to do.
                if spread.advance(
                    (self.kernel, data, &self.numbers),
                    &self.cached,
                    &mut self.scores,
                    rows.div_ceil(CHUNK).max(2),
                )? {
                    self.round = Some(Round::Spread(spread));
                } else {
                    self.before.clear();
                    self.scored = true;
                }
            }
        }
        Ok(true)
    }

    /// Takes in what a problem has found.
    fn take(&mut self, problem: usize, found: Found, gains: &mut Vec<Gain>) {
        self.problems[problem].surveyed &= found.dual.is_empty();
        for (at, a) in found.dual {
            self.before.push((at, self.dual.values[at]));
            self.dual.values[at] = a;
        }
        for (at, score) in found.scores {
            self.scores.values[at] = score;
        }
        if let Some(held_out) = &mut self.held_out {
            found.held_out.iter().for_each(|&(at, score)| held_out.values[at] = score);
        }
        gains.extend(found.gains);
    }

    /// A round, unless the relative gap is at most `tol`, by instalments: `None` where about so many rows of kernel values
    /// of the round before were computed. The certificate comes where a round begins; the calls after that go on with it.
    pub(crate) fn advance(
        &mut self,
        data: &Examples<'_, S>,
        tol: f64,
        rows: usize,
    ) -> Result<Option<Certificate>, Error> {
        if self.go_on(data, rows)? {
            return Ok(None);
        }
        self.begin(data, tol).map(Some)
    }

    /// Begins a round, unless the relative gap is at most `tol`.
    fn begin(&mut self, data: &Examples<'_, S>, tol: f64) -> Result<Certificate, Error> {
        let sets = self.survey(data, Some(tol))?;
        if self.all.is_none()
            && self.problems.len() > 1
            && sets.iter().any(|(_, set)| set.len() == self.len())
        {
            self.all = Some(Arc::new(vectors_of(self.kernel, data.rows(), &self.numbers)?));
        }
        let certificate = self.proved();
        if certificate.gap() <= tol * certificate.primal {
            self.room.clear();
            return Ok(certificate);
        }
        let n = self.len() as f64;
        let jobs = sets.into_iter().map(|(problem, set)| {
            let Part { whole, sums, .. } = &self.problems[problem];
            let dual = sums.certificate(n).dual * n;
            let among = Among::new(set, &self.numbers, self.all.clone());
            Job::new(problem, *whole, tol, dual, among)
        });
        let mut jobs: Vec<Job<S>> = jobs.collect();
        // Rows that all can use, none of which is computed without the others.
        let bytes = self.len().saturating_mul(self.n_features).saturating_mul(size_of::<S>());
        let share = self.all.as_ref().is_some_and(|all| all.are_packed() && bytes > FAR)
            && jobs.len() > 1
            && !is_cheap(self.kernel, self.n_features, self.len())
            && jobs.iter().all(|job| job.among.is_all());
        jobs.iter_mut().for_each(|job| job.in_step = share);
        if !jobs.is_empty() {
            self.round = Some(Round::Search(jobs));
        }
        Ok(certificate)
    }

    /// Rounds until the relative gap is at most `tol`, >= 0, so many times at most.
    pub fn solve(
        &mut self,
        data: &Examples<'_, S>,
        tol: f64,
        most_rounds: usize,
    ) -> Result<Certificate, Error> {
        check_tol(tol)?;
        for _ in 0..most_rounds {
            self.finish(data)?;
            let certificate = self.begin(data, tol)?;
            if certificate.relative_gap() <= tol {
                return Ok(certificate);
            }
        }
        self.certificate(data)
    }

    /// All scores must learn what coefficients in w have gained.
    fn begin_spread(&mut self, data: &Examples<'_, S>, mut gains: Vec<Gain>) -> Result<(), Error> {
        gains.sort_unstable_by_key(|gain| (gain.place, gain.output));
        let changes: Vec<(u32, f64)> =
            gains.iter().map(|gain| (gain.output, gain.change)).collect();
        let mut moved = Vec::new();
        let mut start = 0;
        for own in gains.chunk_by(|a, b| a.place == b.place) {
            let changes = start..start + own.len();
            start = changes.end;
            moved.push(Moved { place: own[0].place, changes, known: false });
        }
        let about = (self.kernel, data.rows(), &self.numbers[..]);
        let spread = Spread::new(about, &self.cached, self.outputs(), moved, changes)?;
        self.round = Some(Round::Spread(Box::new(spread)));
        Ok(())
    }

    /// `k(x, x)` of the example at a place.
    fn own_value(&self, place: usize) -> f64 {
        self.own[place] + self.kernel.by
    }

    /// w(a), or where it is worse than w = 0 the best multiple of it between 0 and 1 (of each problem for itself), whose objective
    /// the certificate has: its support vectors are the examples with `a_i != 0`, numbered as rows of the data.
    pub fn result(&mut self, data: &Examples<'_, S>) -> Result<Expansion<S>, Error> {
        self.finish(data)?;
        if self.problems.iter().any(|part| !part.surveyed) {
            self.survey(data, None)?;
        }
        let (n, outputs) = (self.len(), self.outputs());
        let kernel = self.kernel.kernel;
        let layout = Layout::of(kernel, data.rows());
        let w = Expansion::with(kernel, outputs, self.n_features, layout)?;
        let mut w = w.with_constant(self.kernel.by.sqrt())?;
        if self.positive {
            w.assume_positive();
        }
        w.number_rows(n)?;
        let mut coefs: Vec<(usize, usize, f64)> = Vec::new();
        for (place, o, a) in self.dual.nonzeros() {
            let times = self.problems.get(o).unwrap_or(&self.problems[0]).times;
            let coef = times * self.coef_of_one(data, place) * a;
            if coef != 0.0 {
                coefs.push((self.numbers[place], o, coef));
            }
        }
        coefs.sort_unstable_by_key(|&(i, o, _)| (i, o));
        let vectors = || coefs.chunk_by(|a, b| a.0 == b.0);
        w.reserve(vectors().count(), coefs.len())?;
        for own in vectors() {
            let i = own[0].0;
            w.put(i, data.rows().row(i), own.iter().map(|&(_, o, coef)| (o, coef)));
        }
        let cross: f64 = self.problems.iter().map(|part| part.sums.cross).sum();
        w.set_norm2(cross / (self.lambda * n as f64));
        Ok(w)
    }
}

/// `k(x, x)` of a row.
fn own_value<S: Scalar>(kernel: Kernel, x: &Matrix<'_, S>, i: usize) -> f64 {
    if kernel != Kernel::Precomputed {
        return kernel.own(x.row(i).norm2());
    }
    let mut own = [S::default()];
    x.row(i).pick(&[i], &mut own);
    own[0].to_f64()
}
