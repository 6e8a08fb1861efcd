//! The best model in the span of landmarks, or of the rows' own features, for one lambda after another.
//!
//! * Problem: `min P(w) = lambda/2 ||w||^2 + 1/n sum_i s_i loss(<w, z(x_i)>; y_i)` over the weights w of the features z
//!   of a [`Span`]. As these are coordinates in an orthonormal basis, `||w||` is the norm in the space of the kernel, and
//!   the certificate is that of the SVM restricted to the span. Or over those of the rows' own features: `z(x) = x`, and
//!   what follows is a path of linear models.
//! * Solver: [`DualAscent`], fed with z as a [`Window`]. Another lambda begins near the dual point of the last.
//! * Memory: features of as many examples as are allowed for are computed once and stay; those of the others are
//!   computed when their turn comes, [`WINDOW`] at a time. So memory is bounded, but for 4
//!   bytes an example and what dual ascent keeps of it; what is paid is time.
//! * Several problems, one class against the rest for each or pairs of them: solved side by side where all features are
//!   resident, one after the other where not, to the same bits. Some classes against the rest may be one of them, by
//!   [`OneVsRest`](crate::OneVsRest): a row's features come from memory once for all of these.

use crate::data::{Matrix, Window, same_features};
use crate::dual::{DualAscent, DualEvaluation, Pass};
use crate::error::Error;
use crate::examples::Examples;
use crate::hypothesis::Hypothesis;
use crate::ledger::Certificate;
use crate::loss::Loss;
use crate::memory;
use crate::newton::Search;
use crate::order::Sampling;
use crate::scalar::Scalar;
use crate::span::Span;
use crate::trainer::Report;

/// Examples whose features are computed together, where not all are resident.
const WINDOW: usize = 1024;

/// Solves a problem in a span; or several with the same features: one class against the rest for each class, or
/// pairs of classes.
///
/// ```
/// use pegasos::{Binary, Dense, Examples, Hinge, Kernel, Matrix, Refit, Span};
///
/// let x = Matrix::from(Dense::new(&[0.0, 1.0, 2.0, 3.0_f64], 4, 1)?);
/// let data = Examples::new(x, &[0, 1, 1, 0], None)?;
/// let span = Span::new(Kernel::Rbf { gamma: 1.0 }, &x, &[0, 2])?;
/// let loss = Binary { loss: Hinge, positive: 1 };
/// let mut refit = Refit::new(span, &[loss], 1e-2, data.len(), usize::MAX)?;
/// let certificate = refit.solve(&data, 1e-9, 1000, 0)?;
/// assert!(certificate.relative_gap() <= 1e-9);
/// // The second landmark speaks for the positive class.
/// assert!(refit.coefs()[1] > 0.0);
/// # Ok::<(), pegasos::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Refit<S, L> {
    space: Space<S>,
    losses: Vec<L>,
    /// One for each loss.
    parts: Vec<Part<L>>,
}

/// Where the weights live.
#[derive(Clone, Debug)]
enum Space<S> {
    Span(Box<Features<S>>),
    Rows(Rows),
}

/// The rows' own features.
#[derive(Clone, Debug)]
struct Rows {
    n_examples: usize,
    n_features: usize,
    /// Of the feature whose weight is the intercept.
    constant: f64,
    sparse: bool,
}

/// Features of examples: those that are resident, and a window for the others.
#[derive(Clone, Debug)]
struct Features<S> {
    span: Span<S>,
    window: Window<S>,
    /// Of how many of the resident examples the features are computed.
    computed: usize,
}

/// A problem, and what is under way.
#[derive(Clone, Debug)]
pub(crate) struct Part<L> {
    pub(crate) ascent: DualAscent<L>,
    pass: Option<Pass>,
    /// Visits of the epoch at hand.
    pub(crate) visits: u64,
    /// Epochs since lambda was set.
    pub(crate) epochs: usize,
    /// The evaluation or the leap under way, where there is one; the next row.
    evaluation: Option<(DualEvaluation, usize)>,
    renewal: Renewal,
    pub(crate) leap: Option<Search>,
}

/// Whether weights that have drifted are being made anew, and the next row; or have been, and are to be looked at once more.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Renewal {
    #[default]
    No,
    At(usize),
    Done,
}

impl<L> Part<L> {
    fn new(ascent: DualAscent<L>) -> Self {
        Part {
            ascent,
            pass: None,
            visits: 0,
            epochs: 0,
            evaluation: None,
            renewal: Renewal::No,
            leap: None,
        }
    }
}

impl<S: Scalar, L: Loss + Clone> Refit<S, L> {
    /// Of a problem for each loss, of `n_examples`, whose features may take so many bytes (and a few more).
    pub fn new(
        span: Span<S>,
        losses: &[L],
        lambda: f64,
        n_examples: usize,
        bytes: usize,
    ) -> Result<Self, Error> {
        let room = bytes / (span.dimension() * size_of::<S>());
        let all = n_examples <= room.max(WINDOW);
        let resident = if all { n_examples } else { room.saturating_sub(WINDOW) };
        let window = Window::new(n_examples, span.dimension(), resident)?;
        let features = Features { span, window, computed: 0 };
        Refit::on(Space::Span(Box::new(features)), losses, lambda)
    }

    /// Of a problem for each loss, of so many examples with so many features of their own: linear models. `constant` is the
    /// value of the constant feature whose weight is the intercept, 0 for none.
    ///
    /// ```
    /// use pegasos::{Binary, Dense, Examples, Hinge, Refit};
    ///
    /// let x = Dense::new(&[0.0, 1.0, 2.0, 3.0_f64], 4, 1)?;
    /// let data = Examples::new(x, &[0, 0, 1, 1], None)?;
    /// let loss = Binary { loss: Hinge, positive: 1 };
    /// let mut path = Refit::of_rows(&[loss], 1.0, (4, 1), 1.0, false)?;
    /// for lambda in [1.0, 0.1, 0.01] {
    ///     path.set_lambda(lambda)?;
    ///     assert!(path.solve(&data, 1e-6, 10_000, 0)?.relative_gap() <= 1e-6);
    /// }
    /// assert!(path.weights()[0] > 0.0 && path.intercepts()[0] < 0.0);
    /// # Ok::<(), pegasos::Error>(())
    /// ```
    pub fn of_rows(
        losses: &[L],
        lambda: f64,
        (n_examples, n_features): (usize, usize),
        constant: f64,
        sparse: bool,
    ) -> Result<Self, Error> {
        Refit::on(Space::Rows(Rows { n_examples, n_features, constant, sparse }), losses, lambda)
    }

    fn on(space: Space<S>, losses: &[L], lambda: f64) -> Result<Self, Error> {
        if losses.is_empty() {
            return Err(Error::shape("losses", "one at least", "none"));
        }
        let mut refit = Refit { space, losses: losses.to_vec(), parts: Vec::new() };
        refit.restart(lambda)?;
        Ok(refit)
    }

    /// The span, where there is one.
    pub fn span(&self) -> Option<&Span<S>> {
        match &self.space {
            Space::Span(features) => Some(&features.span),
            Space::Rows(_) => None,
        }
    }

    /// How many problems there are.
    pub fn problems(&self) -> usize {
        self.parts.len()
    }

    /// Goes on with another lambda, and maybe other weights of examples that had none, from the same dual
    /// points. O(examples + weights).
    pub fn set_lambda(&mut self, lambda: f64) -> Result<(), Error> {
        for part in &mut self.parts {
            part.ascent.set_lambda(lambda)?;
            (part.pass, part.visits, part.epochs, part.leap) = (None, 0, 0, None);
            (part.evaluation, part.renewal) = (None, Renewal::No);
        }
        Ok(())
    }

    /// Starts from w = 0 again, with the same features.
    pub fn restart(&mut self, lambda: f64) -> Result<(), Error> {
        let (n, d, constant, dense) = match &self.space {
            Space::Span(features) => {
                (features.window.n_rows(), features.span.dimension(), 0.0, true)
            }
            Space::Rows(rows) => (rows.n_examples, rows.n_features, rows.constant, !rows.sparse),
        };
        // Of all problems at once: what is asked for piece by piece would seem to be there.
        memory::check::<[f64; 2]>("the dual variables", &[self.losses.len(), n])?;
        let fresh = |loss: &L| DualAscent::on(loss.clone(), lambda, n, d, constant, dense);
        let parts = self.losses.iter().map(|loss| fresh(loss).map(Part::new));
        self.parts = parts.collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Computes features of so many more of the resident examples; returns of how many. On the threads of the
    /// current rayon pool.
    pub(crate) fn prepare(&mut self, data: &Examples<'_, S>, count: usize) -> Result<usize, Error> {
        let Features { span, window, computed } = match &mut self.space {
            Space::Span(features) => &mut **features,
            Space::Rows(rows) => {
                same_features(rows.n_features, data.rows().n_features())?;
                data.check_len(rows.n_examples)?;
                return Ok(0);
            }
        };
        span.check_features(data.rows().n_features())?;
        data.check_len(window.n_rows())?;
        let rank = span.dimension();
        let end = computed.saturating_add(count).min(window.n_resident());
        let rows: Vec<usize> = (*computed..end).collect();
        let out = &mut window.resident[*computed * rank..end * rank];
        span.features(data.rows(), &rows, out);
        *computed = end;
        Ok(rows.len())
    }

    /// The problems from the k-th on, to be worked on side by side; where not all features are resident the k-th alone.
    /// Those that are resident must have been computed.
    pub(crate) fn within(&mut self, k: usize) -> Vec<Within<'_, S, L>> {
        let parts = self.parts[k..].iter_mut();
        let features = match &mut self.space {
            Space::Span(features) => features,
            Space::Rows(_) => {
                return parts.map(|part| Within { part, features: Access::Own }).collect();
            }
        };
        if features.window.places.is_empty() {
            let window = &features.window;
            return parts.map(|part| Within { part, features: Access::All(window) }).collect();
        }
        let first = parts.take(1).zip(Some(Access::Window(features)));
        first.map(|(part, features)| Within { part, features }).collect()
    }

    /// Scores of these examples by all problems, one after the other: of those whose weight was 0, what validation needs. The rows
    /// must be those of all other calls, as their features may be at hand. Refuses those that are not finite.
    pub fn scores(&mut self, data: &Examples<'_, S>, rows: &[usize]) -> Result<Vec<f64>, Error> {
        self.prepare(data, usize::MAX)?;
        if let Some(i) = rows.iter().find(|&&i| i >= data.len()) {
            return Err(Error::index("rows", i, data.len()));
        }
        let weights: Vec<_> = self.parts.iter().map(|part| part.ascent.result::<S>()).collect();
        let outputs: usize = weights.iter().map(Hypothesis::outputs).sum();
        let mut scores = vec![0.0; rows.len() * outputs];
        for (rows, scores) in rows.chunks(WINDOW).zip(scores.chunks_mut(WINDOW * outputs)) {
            if let Space::Span(features) = &mut self.space {
                features.load(data.rows(), rows);
            }
            let x = match &self.space {
                Space::Span(features) => Matrix::Window(&features.window),
                Space::Rows(_) => *data.rows(),
            };
            for (i, mut scores) in rows.iter().zip(scores.chunks_mut(outputs)) {
                for w in &weights {
                    let (these, rest) = scores.split_at_mut(w.outputs());
                    w.score(x.row(*i), these);
                    scores = rest;
                }
            }
        }
        match scores.iter().position(|score| !score.is_finite()) {
            Some(at) => Err(data.diagnose(rows[at / outputs])),
            None => Ok(scores),
        }
    }

    /// The coefficients of all landmarks, landmarks x outputs of all problems; none where there are no landmarks.
    pub fn coefs(&self) -> Vec<f64> {
        self.span().map_or_else(Vec::new, |span| span.coefs(&self.weights()))
    }

    /// The weights of the features, outputs of all problems x features.
    pub fn weights(&self) -> Vec<f64> {
        self.parts.iter().flat_map(|part| part.ascent.result::<f64>().weights()).collect()
    }

    /// The intercepts, outputs of all problems; 0 in a span.
    pub fn intercepts(&self) -> Vec<f64> {
        self.parts.iter().flat_map(|part| part.ascent.result::<f64>().intercepts()).collect()
    }
}

impl<S: Scalar> Features<S> {
    /// Computes the features of those of these rows that are not resident. Those of all that are must be there.
    fn load(&mut self, x: &Matrix<'_, S>, rows: &[usize]) {
        let Features { span, window, .. } = self;
        let others = window.open(rows);
        span.features(x, &others, &mut window.window);
    }
}

/// Features, of all examples or of some at a time, or their own.
enum Access<'a, S> {
    All(&'a Window<S>),
    Window(&'a mut Features<S>),
    Own,
}

impl<S: Scalar> Access<'_, S> {
    /// The examples with the features that count.
    fn of<'b>(&'b self, data: &Examples<'b, S>) -> Examples<'b, S> {
        match self {
            Access::All(window) => data.with_rows(Matrix::Window(window)),
            Access::Window(features) => data.with_rows(Matrix::Window(&features.window)),
            Access::Own => *data,
        }
    }

    /// How many of so many rows may be asked for together.
    fn at_once(&self, count: usize) -> usize {
        if let Access::Window(_) = self { count.min(WINDOW) } else { count }
    }

    /// How many rows are always there.
    fn n_resident(&self, n_examples: usize) -> usize {
        if let Access::Window(features) = self { features.window.n_resident() } else { n_examples }
    }

    /// Makes sure of the features of these rows.
    fn load(&mut self, x: &Matrix<'_, S>, rows: &[usize]) {
        if let Access::Window(features) = self {
            features.load(x, rows);
        }
    }
}

/// A problem among the features that it is about.
pub(crate) struct Within<'a, S, L> {
    pub(crate) part: &'a mut Part<L>,
    features: Access<'a, S>,
}

impl<S: Scalar, L: Loss + Clone> Within<'_, S, L> {
    /// Visits so many more examples of the pass at hand, or of a new one; none where a pass is over.
    pub(crate) fn advance(
        &mut self,
        data: &Examples<'_, S>,
        count: usize,
        seed: u64,
    ) -> Result<Report, Error> {
        let Within { part, features } = self;
        let order = match &mut part.pass {
            Some(pass) => pass,
            None => part.pass.insert(part.ascent.pass(Sampling::Shuffle, seed)?),
        };
        let rows: Vec<usize> = order.take(features.at_once(count)).collect();
        features.load(data.rows(), &rows);
        if rows.is_empty() {
            part.pass = None;
        }
        let report = part.ascent.run(&features.of(data), rows.iter().copied());
        report.map_err(|error| reason(data, &rows, error))
    }

    /// [`DualAscent::turn`].
    pub(crate) fn turn(&mut self, data: &Examples<'_, S>) -> Result<(), Error> {
        let there = !matches!(self.features, Access::Window(_));
        self.part.ascent.turn(&self.features.of(data), there)
    }

    /// [`DualAscent::look_back`].
    pub(crate) fn look_back(&mut self, data: &Examples<'_, S>, tol: f64) -> Result<(), Error> {
        let Within { part, features } = self;
        if let Access::Own = features {
            return part.ascent.look_back(data, tol);
        }
        let dimension = features.of(data).rows().n_features();
        part.ascent.look_back_on(data, tol, dimension, &mut |rows, see| {
            for some in rows.chunks(features.at_once(rows.len()).max(1)) {
                features.load(data.rows(), some);
                see(&features.of(data), some);
            }
        })
    }

    /// [`DualAscent::glimpse`], where rows are there at any time and may be so many that a pass more tells.
    pub(crate) fn glimpse(&mut self, data: &Examples<'_, S>, tol: f64) -> Result<(), Error> {
        if let Access::Own = self.features { self.part.ascent.glimpse(data, tol) } else { Ok(()) }
    }

    /// Whether there are leaps: not where features are not all at hand, nor in a span of more vectors than there are factors for.
    /// Ascent narrows down what is left there, and took a third of the time (waveform, 500 vectors, C = 1000).
    fn may_leap(&self) -> bool {
        match self.features {
            Access::Own => true,
            Access::All(_) => !self.part.ascent.has_many_features(),
            Access::Window(_) => false,
        }
    }

    /// [`DualAscent::epochs_of_a_leap`]; infinite where there is none.
    pub(crate) fn epochs_of_a_leap(&self, data: &Examples<'_, S>) -> f64 {
        if !self.may_leap() {
            return f64::INFINITY;
        }
        self.part.ascent.epochs_of_a_leap(&self.features.of(data))
    }

    /// [`DualAscent::leap`] by instalments, where the features of all examples are resident; says whether there is more to do.
    pub(crate) fn go_on_leaping(
        &mut self,
        data: &Examples<'_, S>,
        tol: f64,
    ) -> Result<bool, Error> {
        if !self.may_leap() {
            return Ok(false);
        }
        let Part { ascent, leap, .. } = &mut *self.part;
        let data = self.features.of(data);
        let begun = match leap.take() {
            Some(leap) => Some(leap),
            None => ascent.begin_leap(&data)?,
        };
        let Some(mut begun) = begun else {
            return Ok(false);
        };
        if ascent.leap_on(&data, &mut begun, tol) {
            *leap = Some(begun);
            return Ok(true);
        }
        ascent.end_leap(&data, begun)?;
        Ok(false)
    }

    /// Whether an evaluation is under way.
    pub(crate) fn is_evaluating(&self) -> bool {
        self.part.evaluation.is_some() || self.part.renewal != Renewal::No
    }

    /// P at the weights rounded to the scalar, and D, by instalments of about so many rows. Weights that have drifted are made anew,
    /// and looked at once more.
    pub(crate) fn certify_on(
        &mut self,
        data: &Examples<'_, S>,
        size: usize,
    ) -> Result<Option<Certificate>, Error> {
        if let Renewal::At(at) = self.part.renewal {
            let end = at + self.load_from(data, at, size).len();
            self.part.ascent.add_image(&self.features.of(data), at..end);
            self.part.renewal = if end < data.len() { Renewal::At(end) } else { Renewal::Done };
            return Ok(None);
        }
        let fresh = || (self.part.ascent.evaluation::<S>(), 0);
        let (mut evaluation, start) = self.part.evaluation.take().unwrap_or_else(fresh);
        let rows = self.load_from(data, start, size);
        let end = start + rows.len();
        let ascent = &mut self.part.ascent;
        let within = self.features.of(data);
        evaluation.add(ascent, &within, start..end).map_err(|error| reason(data, &rows, error))?;
        if end < data.len() {
            self.part.evaluation = Some((evaluation, end));
            return Ok(None);
        }
        let certificate = evaluation.conclude(ascent, &within)?;
        let renewed = std::mem::take(&mut self.part.renewal) == Renewal::Done;
        if certificate.dual.is_nan() && !renewed {
            ascent.clear_image()?;
            self.part.renewal = Renewal::At(0);
            return Ok(None);
        }
        Ok(Some(certificate))
    }

    /// Makes sure of the features of about so many rows from `start` on; returns which.
    fn load_from(&mut self, data: &Examples<'_, S>, start: usize, count: usize) -> Vec<usize> {
        let resident = self.features.n_resident(data.len());
        let (count, limit) =
            if start < resident { (count, resident) } else { (count.min(WINDOW), data.len()) };
        let rows: Vec<usize> = (start..start.saturating_add(count).min(limit)).collect();
        self.features.load(data.rows(), &rows);
        rows
    }
}

/// The error of the data themselves, where there is one, instead of that of their features.
fn reason<S: Scalar>(data: &Examples<'_, S>, rows: &[usize], error: Error) -> Error {
    let own = rows.iter().find_map(|&i| data.check(i..i + 1).err());
    own.unwrap_or(error)
}
