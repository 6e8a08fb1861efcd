//! The best model in the span of landmarks: the SVM, solved there by the linear engine.
//!
//! * Problem: `min P(w) = lambda/2 ||w||^2 + 1/n sum_i s_i loss(<w, z(x_i)>; y_i)` over the weights w of the features z
//!   of a [`Span`]. As these are coordinates in an orthonormal basis, `||w||` is the norm in the space of the kernel, and
//!   the certificate is that of the SVM restricted to the span.
//! * Solver: [`DualAscent`], fed with z as a [`Window`]. Another lambda begins at the dual point of the last.
//! * Memory: features of as many examples as are allowed for are computed once and stay; those of the others are
//!   computed when their turn comes, [`WINDOW`] at a time. So memory is bounded, but for 21 bytes an
//!   example and 8 more for every output but the first; what is paid is time.

use crate::data::{Matrix, Window};
use crate::dual::{DualAscent, DualEvaluation, Pass};
use crate::error::Error;
use crate::examples::Examples;
use crate::hypothesis::Hypothesis;
use crate::ledger::Certificate;
use crate::loss::Loss;
use crate::newton::Descent;
use crate::order::Sampling;
use crate::scalar::Scalar;
use crate::span::Span;
use crate::trainer::Report;

/// Examples whose features are computed together, where not all are resident.
const WINDOW: usize = 1024;

/// Solves a problem in a span; or several, one after the other, with the same features: one class against the
/// rest, for each class.
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
pub struct Refit<S, L> {
    span: Span<S>,
    losses: Vec<L>,
    /// One for each loss.
    ascents: Vec<DualAscent<L>>,
    /// Which of them is at work.
    problem: usize,
    features: Window<S>,
    /// Of how many of the resident examples the features are computed.
    computed: usize,
    pass: Option<Pass>,
    /// Visits of the epoch at hand.
    pub(crate) visits: u64,
    /// The evaluation or the leap under way, where there is one; the next row.
    evaluation: Option<(DualEvaluation, usize)>,
    /// Weights that have drifted are being made anew: what was found, and the next row.
    renewed: Option<(Certificate, usize)>,
    pub(crate) leap: Option<Descent>,
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
        if losses.is_empty() {
            return Err(Error::shape("losses", "one at least", "none"));
        }
        let room = bytes / (span.dimension() * size_of::<S>());
        let all = n_examples <= room.max(WINDOW);
        let resident = if all { n_examples } else { room.saturating_sub(WINDOW) };
        let features = Window::new(n_examples, span.dimension(), resident)?;
        let (losses, ascents) = (losses.to_vec(), Vec::new());
        let mut refit = Refit {
            span,
            losses,
            ascents,
            problem: 0,
            features,
            computed: 0,
            pass: None,
            visits: 0,
            evaluation: None,
            renewed: None,
            leap: None,
        };
        refit.restart(lambda)?;
        Ok(refit)
    }

    /// The span.
    pub fn span(&self) -> &Span<S> {
        &self.span
    }

    /// How many problems there are.
    pub fn problems(&self) -> usize {
        self.ascents.len()
    }

    /// Turns to the k-th problem: what follows is about that.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn turn_to(&mut self, k: usize) {
        assert!(k < self.problems(), "problem {k} of {}", self.problems());
        (self.problem, self.pass, self.visits) = (k, None, 0);
        (self.evaluation, self.renewed, self.leap) = (None, None, None);
    }

    /// Dual ascent on the problem at hand.
    pub fn ascent(&self) -> &DualAscent<L> {
        &self.ascents[self.problem]
    }

    /// Dual ascent on the problem at hand, about to change.
    pub(crate) fn ascent_mut(&mut self) -> &mut DualAscent<L> {
        &mut self.ascents[self.problem]
    }

    /// Goes on with another lambda, and maybe other weights of examples that had none, from the same dual
    /// points. O(examples + weights).
    pub fn set_lambda(&mut self, lambda: f64) -> Result<(), Error> {
        self.turn_to(0);
        self.ascents.iter_mut().try_for_each(|ascent| ascent.set_lambda(lambda))
    }

    /// Starts from w = 0 again, with the same features.
    pub fn restart(&mut self, lambda: f64) -> Result<(), Error> {
        let (n, rank) = (self.features.n_rows(), self.span.dimension());
        let fresh = |loss: &L| DualAscent::on(loss.clone(), lambda, n, rank, 0.0, true);
        self.ascents = self.losses.iter().map(fresh).collect::<Result<_, _>>()?;
        self.turn_to(0);
        Ok(())
    }

    /// Computes features of so many more of the resident examples; returns of how many. On the threads of the
    /// current rayon pool.
    pub fn prepare(&mut self, data: &Examples<'_, S>, count: usize) -> Result<usize, Error> {
        self.span.check_features(data.rows().n_features())?;
        data.check_len(self.features.n_rows())?;
        let (computed, rank) = (self.computed, self.span.dimension());
        let end = computed.saturating_add(count).min(self.features.n_resident());
        let rows: Vec<usize> = (computed..end).collect();
        let out = &mut self.features.resident[computed * rank..end * rank];
        self.span.features(data.rows(), &rows, out);
        self.computed = end;
        Ok(rows.len())
    }

    /// Visits so many more examples of the pass at hand, or of a new one; none where a pass is over.
    pub fn advance(
        &mut self,
        data: &Examples<'_, S>,
        count: usize,
        seed: u64,
    ) -> Result<Report, Error> {
        self.prepare(data, usize::MAX)?;
        let count = if self.features.places.is_empty() { count } else { count.min(WINDOW) };
        let order = match &mut self.pass {
            Some(pass) => pass,
            None => {
                let pass = self.ascents[self.problem].pass(Sampling::Shuffle, seed)?;
                self.pass.insert(pass)
            }
        };
        let rows: Vec<usize> = order.take(count).collect();
        self.load(data.rows(), &rows);
        if rows.is_empty() {
            self.pass = None;
        }
        let ascent = &mut self.ascents[self.problem];
        let report =
            ascent.run(&data.with_rows(Matrix::Window(&self.features)), rows.iter().copied());
        report.map_err(|error| reason(data, &rows, error))
    }

    /// [`DualAscent::leap`] by instalments, where the features of all examples are resident; says whether there is more to do.
    pub(crate) fn go_on_leaping(
        &mut self,
        data: &Examples<'_, S>,
        tol: f64,
    ) -> Result<bool, Error> {
        self.prepare(data, usize::MAX)?;
        if !self.features.places.is_empty() {
            return Ok(false);
        }
        let (data, ascent) =
            (data.with_rows(Matrix::Window(&self.features)), &mut self.ascents[self.problem]);
        let leap = match self.leap.take() {
            Some(leap) => Some(leap),
            None => ascent.begin_leap(&data)?,
        };
        let Some(mut leap) = leap else {
            return Ok(false);
        };
        if ascent.leap_on(&data, &mut leap, tol) {
            self.leap = Some(leap);
            return Ok(true);
        }
        ascent.end_leap(&data, leap);
        Ok(false)
    }

    /// Whether an evaluation is under way.
    pub(crate) fn is_evaluating(&self) -> bool {
        self.evaluation.is_some() || self.renewed.is_some()
    }

    /// P at the weights rounded to the scalar, and D, by instalments of about so many rows. Where D is NaN the weights had
    /// drifted, and have been made anew.
    pub(crate) fn certify_on(
        &mut self,
        data: &Examples<'_, S>,
        size: usize,
    ) -> Result<Option<Certificate>, Error> {
        if let Some((certificate, at)) = self.renewed.take() {
            let end = at + self.load_from(data, at, size).len();
            let within = data.with_rows(Matrix::Window(&self.features));
            self.ascents[self.problem].add_image(&within, at..end);
            if end < data.len() {
                self.renewed = Some((certificate, end));
                return Ok(None);
            }
            return Ok(Some(certificate));
        }
        self.prepare(data, usize::MAX)?;
        let fresh = || (self.ascents[self.problem].evaluation::<S>(), 0);
        let (mut evaluation, start) = self.evaluation.take().unwrap_or_else(fresh);
        let rows = self.load_from(data, start, size);
        let end = start + rows.len();
        let ascent = &mut self.ascents[self.problem];
        let within = data.with_rows(Matrix::Window(&self.features));
        evaluation.add(ascent, &within, start..end).map_err(|error| reason(data, &rows, error))?;
        if end < data.len() {
            self.evaluation = Some((evaluation, end));
            return Ok(None);
        }
        let certificate = evaluation.conclude(ascent, &within)?;
        if certificate.dual.is_nan() {
            ascent.clear_image()?;
            self.renewed = Some((certificate, 0));
            return Ok(None);
        }
        Ok(Some(certificate))
    }

    /// Computes the features of those of these rows that are not resident. Those of all that are must be there.
    fn load(&mut self, x: &Matrix<'_, S>, rows: &[usize]) {
        let resident = self.features.n_resident();
        let mut others: Vec<usize> = rows.iter().copied().filter(|&i| i >= resident).collect();
        // An order may name a row twice.
        others.sort_unstable();
        others.dedup();
        for (place, i) in others.iter().enumerate() {
            self.features.places[i - resident] = place as u32;
        }
        self.features.window.resize(others.len() * self.span.dimension(), S::default());
        self.span.features(x, &others, &mut self.features.window);
    }

    /// Makes sure of the features of about so many rows from `start` on; returns which.
    fn load_from(&mut self, data: &Examples<'_, S>, start: usize, count: usize) -> Vec<usize> {
        let resident = self.features.n_resident();
        let (count, limit) =
            if start < resident { (count, resident) } else { (count.min(WINDOW), data.len()) };
        let rows: Vec<usize> = (start..start.saturating_add(count).min(limit)).collect();
        self.load(data.rows(), &rows);
        rows
    }

    /// Scores of these examples by all problems, one after the other: of those whose weight was 0, what validation needs.
    pub fn scores(&mut self, data: &Examples<'_, S>, rows: &[usize]) -> Result<Vec<f64>, Error> {
        self.prepare(data, usize::MAX)?;
        if let Some(i) = rows.iter().find(|&&i| i >= data.len()) {
            return Err(Error::index("rows", i, data.len()));
        }
        let weights: Vec<_> = self.ascents.iter().map(DualAscent::result::<S>).collect();
        let outputs: usize = weights.iter().map(Hypothesis::outputs).sum();
        let mut scores = vec![0.0; rows.len() * outputs];
        for (rows, scores) in rows.chunks(WINDOW).zip(scores.chunks_mut(WINDOW * outputs)) {
            self.load(data.rows(), rows);
            for (i, mut scores) in rows.iter().zip(scores.chunks_mut(outputs)) {
                for w in &weights {
                    let (these, rest) = scores.split_at_mut(w.outputs());
                    w.score(self.features.row(*i), these);
                    scores = rest;
                }
            }
        }
        Ok(scores)
    }

    /// The coefficients of all landmarks, landmarks x outputs of all problems.
    pub fn coefs(&self) -> Vec<f64> {
        self.span.coefs(&self.weights())
    }

    /// The weights of the features, outputs of all problems x dimension.
    pub(crate) fn weights(&self) -> Vec<f64> {
        self.ascents.iter().flat_map(|ascent| ascent.result::<f64>().weights()).collect()
    }
}

/// The error of the data themselves, where there is one, instead of that of their features.
fn reason<S: Scalar>(data: &Examples<'_, S>, rows: &[usize], error: Error) -> Error {
    let own = rows.iter().find_map(|&i| data.check(i..i + 1).err());
    own.unwrap_or(error)
}
