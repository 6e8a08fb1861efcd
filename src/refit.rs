//! The best model in the span of landmarks: the SVM, solved there by the linear engine.
//!
//! * Problem: `min P(w) = lambda/2 ||w||^2 + 1/n sum_i s_i loss(<w, z(x_i)>; y_i)` over the weights w of the features z
//!   of a [`Span`]. As these are coordinates in an orthonormal basis, `||w||` is the norm in the space of the kernel, and
//!   the certificate is that of the SVM restricted to the span.
//! * Solver: [`DualAscent`], fed with z through a [`Rows`] view. Another lambda begins at the dual point of the last.
//! * Memory: features of as many examples as are allowed for are computed once and kept; those of the others are
//!   computed when their turn comes, [`WINDOW`] at a time. So memory is bounded, but for 21 bytes an
//!   example and 8 more for every output but the first; what is paid is time.

use crate::data::{DenseRow, Examples, Rows};
use crate::dual::{DualAscent, DualEvaluation};
use crate::error::Error;
use crate::hypothesis::Hypothesis;
use crate::ledger::Certificate;
use crate::loss::Loss;
use crate::memory;
use crate::newton::Descent;
use crate::order::Sampling;
use crate::scalar::Scalar;
use crate::simd;
use crate::span::Span;
use crate::trainer::Report;

/// Examples whose features are computed together, where not all are kept.
const WINDOW: usize = 1024;

/// Solves a problem in a span; or several, one after the other, with the same features: one class against the
/// rest, for each class.
///
/// ```
/// use pegasos::{Binary, Dense, Examples, Hinge, Kernel, Refit, Span};
///
/// let x = Dense::new(&[0.0, 1.0, 2.0, 3.0_f64], 4, 1)?;
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
    at: usize,
    features: Features<S>,
    pass: Option<Box<dyn Iterator<Item = usize> + Send>>,
}

/// Features of examples: of the first ones always, of others while they are needed.
struct Features<S> {
    n: usize,
    rank: usize,
    kept: Vec<S>,
    /// How many of the kept ones are computed.
    known: usize,
    window: Vec<S>,
    /// Where in the window those of each other example stand, if they do.
    places: Vec<u32>,
}

impl<S: Scalar> Features<S> {
    fn new(n: usize, rank: usize, bytes: usize) -> Result<Self, Error> {
        let room = bytes / (rank * size_of::<S>());
        let kept = if n <= room.max(WINDOW) { n } else { room.saturating_sub(WINDOW) };
        let places = memory::zeros("the places of features", &[n - kept])?;
        let kept = memory::zeros("features of examples", &[kept, rank])?;
        Ok(Features { n, rank, kept, known: 0, window: Vec::new(), places })
    }

    fn kept(&self) -> usize {
        self.n - self.places.len()
    }

    /// Computes those of these rows that are not kept. All that are must be known.
    fn load<X: Rows<Scalar = S>>(&mut self, span: &Span<S>, x: &X, rows: &[usize]) {
        let kept = self.kept();
        let mut others: Vec<usize> = rows.iter().copied().filter(|&i| i >= kept).collect();
        // An order may name a row twice.
        others.sort_unstable();
        others.dedup();
        for (place, i) in others.iter().enumerate() {
            self.places[i - kept] = place as u32;
        }
        self.window.resize(others.len() * self.rank, S::default());
        span.features(x, &others, &mut self.window);
    }
}

impl<S: Scalar> Rows for Features<S> {
    type Scalar = S;
    const SPARSE: bool = false;
    type Row<'a>
        = DenseRow<'a, S>
    where
        S: 'a;
    fn n_rows(&self) -> usize {
        self.n
    }
    fn n_features(&self) -> usize {
        self.rank
    }
    #[inline]
    fn row(&self, i: usize) -> DenseRow<'_, S> {
        let kept = self.kept();
        let (values, at) = match i.checked_sub(kept) {
            None => (&self.kept, i),
            Some(i) => (&self.window, self.places[i] as usize),
        };
        DenseRow::new(&values[at * self.rank..(at + 1) * self.rank])
    }
    #[inline]
    fn prefetch(&self, i: usize) {
        if i < self.kept() {
            simd::prefetch_all(&self.kept[i * self.rank..(i + 1) * self.rank]);
        }
    }
}

impl<S: Scalar, L: Loss + Clone + 'static> Refit<S, L> {
    /// Of a problem for each loss, of `n_examples`, whose features may take so many bytes (and a few more).
    pub fn new(
        span: Span<S>,
        losses: &[L],
        lambda: f64,
        n_examples: usize,
        bytes: usize,
    ) -> Result<Self, Error> {
        if losses.is_empty() {
            return Err(Error::shape("losses", format_args!("one at least"), format_args!("none")));
        }
        let features = Features::new(n_examples, span.dimension(), bytes)?;
        let (losses, ascents) = (losses.to_vec(), Vec::new());
        let mut refit = Refit { span, losses, ascents, at: 0, features, pass: None };
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
        self.at = k;
        self.pass = None;
    }

    fn ascent(&mut self) -> &mut DualAscent<L> {
        &mut self.ascents[self.at]
    }

    /// Goes on with another lambda, and maybe other weights of examples that had none, from the same dual
    /// points. O(examples + weights).
    pub fn set_lambda(&mut self, lambda: f64) -> Result<(), Error> {
        self.turn_to(0);
        self.ascents.iter_mut().try_for_each(|ascent| ascent.set_lambda(lambda))
    }

    /// Starts from w = 0 again, keeping the features.
    pub fn restart(&mut self, lambda: f64) -> Result<(), Error> {
        let (n, rank) = (self.features.n, self.features.rank);
        let fresh = |loss: &L| DualAscent::new(loss.clone(), lambda, n, rank, 0.0);
        self.ascents = self.losses.iter().map(fresh).collect::<Result<_, _>>()?;
        self.turn_to(0);
        Ok(())
    }

    /// Computes features of so many more of the examples that are kept; returns of how many. On the threads of the
    /// current rayon pool.
    pub fn prepare<X: Rows<Scalar = S>>(
        &mut self,
        data: &Examples<'_, X>,
        count: usize,
    ) -> Result<usize, Error> {
        self.check(data)?;
        let Features { known, rank, .. } = self.features;
        let end = known.saturating_add(count).min(self.features.kept());
        let rows: Vec<usize> = (known..end).collect();
        self.span.features(data.rows(), &rows, &mut self.features.kept[known * rank..end * rank]);
        self.features.known = end;
        Ok(rows.len())
    }

    /// Visits so many more examples of the pass at hand, or of a new one; none where a pass is over.
    pub fn advance<X: Rows<Scalar = S>>(
        &mut self,
        data: &Examples<'_, X>,
        count: usize,
        seed: u64,
    ) -> Result<Report, Error> {
        self.prepare(data, usize::MAX)?;
        let count = if self.features.places.is_empty() { count } else { count.min(WINDOW) };
        let order = match &mut self.pass {
            Some(pass) => pass,
            None => {
                let pass = self.ascents[self.at].pass(Sampling::Shuffle, seed)?;
                self.pass.insert(Box::new(pass))
            }
        };
        let rows: Vec<usize> = order.take(count).collect();
        self.features.load(&self.span, data.rows(), &rows);
        if rows.is_empty() {
            self.pass = None;
        }
        let ascent = &mut self.ascents[self.at];
        let report = ascent.run(&data.with_rows(&self.features), rows.iter().copied());
        report.map_err(|error| reason(data, &rows, error))
    }

    /// To be asked when a pass is over: whether it is time for a [`certificate`](Refit::certificate).
    pub fn epoch_is_over(&mut self, tol: f64) -> bool {
        self.ascent().epoch_is_over(tol)
    }

    /// Whether the last pass suggests that the relative gap is at most `tol`.
    pub fn may_be_solved(&self, tol: f64) -> bool {
        self.ascents[self.at].may_be_solved(tol)
    }

    /// [`DualAscent::narrows`].
    pub fn narrows(&self) -> bool {
        self.ascents[self.at].narrows()
    }

    /// [`DualAscent::leap`], where the features of all examples are kept.
    pub fn leap<X: Rows<Scalar = S>>(
        &mut self,
        data: &Examples<'_, X>,
        tol: f64,
    ) -> Result<bool, Error> {
        let Some(mut leap) = self.begin_leap(data)? else {
            return Ok(false);
        };
        while self.leap_on(data, &mut leap, tol) {}
        Ok(self.end_leap(data, leap))
    }

    /// [`leap`](Refit::leap) by instalments.
    pub(crate) fn begin_leap<X: Rows<Scalar = S>>(
        &mut self,
        data: &Examples<'_, X>,
    ) -> Result<Option<Descent>, Error> {
        self.prepare(data, usize::MAX)?;
        if !self.features.places.is_empty() {
            return Ok(None);
        }
        self.ascents[self.at].begin_leap(&data.with_rows(&self.features))
    }

    /// An instalment; says whether there is another.
    pub(crate) fn leap_on<X: Rows<Scalar = S>>(
        &self,
        data: &Examples<'_, X>,
        leap: &mut Descent,
        tol: f64,
    ) -> bool {
        self.ascents[self.at].leap_on(&data.with_rows(&self.features), leap, tol)
    }

    /// Lands where it is higher.
    pub(crate) fn end_leap<X: Rows<Scalar = S>>(
        &mut self,
        data: &Examples<'_, X>,
        leap: Descent,
    ) -> bool {
        self.ascents[self.at].end_leap(&data.with_rows(&self.features), leap)
    }

    /// P at the weights rounded to the scalar, and D. A pass over the examples.
    pub fn certificate<X: Rows<Scalar = S>>(
        &mut self,
        data: &Examples<'_, X>,
    ) -> Result<Certificate, Error> {
        let mut evaluation = self.evaluation();
        let mut start = 0;
        while start < data.len() {
            start = self.evaluate(data, &mut evaluation, start, usize::MAX)?;
        }
        self.finish(data, evaluation)
    }

    /// [`certificate`](Refit::certificate) by instalments.
    pub fn evaluation(&self) -> DualEvaluation {
        self.ascents[self.at].evaluation::<S>()
    }

    /// Takes in about so many rows from `start` on; returns where to go on.
    pub fn evaluate<X: Rows<Scalar = S>>(
        &mut self,
        data: &Examples<'_, X>,
        evaluation: &mut DualEvaluation,
        start: usize,
        count: usize,
    ) -> Result<usize, Error> {
        self.prepare(data, usize::MAX)?;
        let rows = self.load_from(data, start, count);
        let end = start + rows.len();
        let added =
            evaluation.add(&self.ascents[self.at], &data.with_rows(&self.features), start..end);
        added.map_err(|error| reason(data, &rows, error))?;
        Ok(end)
    }

    /// The certificate, once all rows were taken in.
    pub fn finish<X: Rows<Scalar = S>>(
        &mut self,
        data: &Examples<'_, X>,
        evaluation: DualEvaluation,
    ) -> Result<Certificate, Error> {
        let certificate = self.conclude(data, evaluation)?;
        if certificate.dual.is_nan() {
            let mut start = 0;
            while start < data.len() {
                start = self.renew(data, start, usize::MAX);
            }
        }
        Ok(certificate)
    }

    /// [`finish`](Refit::finish), but where D is NaN the weights have drifted and are cleared: they must be renewed.
    pub(crate) fn conclude<X: Rows<Scalar = S>>(
        &mut self,
        data: &Examples<'_, X>,
        evaluation: DualEvaluation,
    ) -> Result<Certificate, Error> {
        let ascent = &mut self.ascents[self.at];
        let certificate = evaluation.conclude(ascent, &data.with_rows(&self.features))?;
        if certificate.dual.is_nan() {
            ascent.clear_image()?;
        }
        Ok(certificate)
    }

    /// Makes the weights anew from the dual variables of about so many rows from `start` on; returns where to go on.
    pub(crate) fn renew<X: Rows<Scalar = S>>(
        &mut self,
        data: &Examples<'_, X>,
        start: usize,
        count: usize,
    ) -> usize {
        let end = start + self.load_from(data, start, count).len();
        self.ascents[self.at].add_image(&data.with_rows(&self.features), start..end);
        end
    }

    /// Makes sure of the features of about so many rows from `start` on; returns which.
    fn load_from<X: Rows<Scalar = S>>(
        &mut self,
        data: &Examples<'_, X>,
        start: usize,
        count: usize,
    ) -> Vec<usize> {
        let kept = self.features.kept();
        let (count, limit) =
            if start < kept { (count, kept) } else { (count.min(WINDOW), data.len()) };
        let rows: Vec<usize> = (start..start.saturating_add(count).min(limit)).collect();
        self.features.load(&self.span, data.rows(), &rows);
        rows
    }

    /// Passes until the certified relative gap of every problem is at most `tol`, or for `max_epochs` times as many visits as
    /// there are examples; the sums of their certificates.
    pub fn solve<X: Rows<Scalar = S>>(
        &mut self,
        data: &Examples<'_, X>,
        tol: f64,
        max_epochs: usize,
        seed: u64,
    ) -> Result<Certificate, Error> {
        let mut sum = Certificate { primal: 0.0, dual: 0.0 };
        for k in 0..self.problems() {
            self.turn_to(k);
            let certificate = self.solve_this(data, tol, max_epochs, seed)?;
            sum.primal += certificate.primal;
            sum.dual += certificate.dual;
        }
        Ok(sum)
    }

    fn solve_this<X: Rows<Scalar = S>>(
        &mut self,
        data: &Examples<'_, X>,
        tol: f64,
        max_epochs: usize,
        seed: u64,
    ) -> Result<Certificate, Error> {
        for _ in 0..max_epochs {
            while self.advance(data, usize::MAX, seed)?.examples > 0 || !self.epoch_is_over(tol) {}
            if self.may_be_solved(tol) {
                let certificate = self.certificate(data)?;
                if certificate.relative_gap() <= tol {
                    return Ok(certificate);
                }
            }
        }
        self.certificate(data)
    }

    /// Scores of these examples by all problems, one after the other: of those whose weight was 0, what validation needs.
    pub fn scores<X: Rows<Scalar = S>>(
        &mut self,
        data: &Examples<'_, X>,
        rows: &[usize],
    ) -> Result<Vec<f64>, Error> {
        self.prepare(data, usize::MAX)?;
        if let Some(i) = rows.iter().find(|&&i| i >= data.len()) {
            return Err(Error::index("rows", i, data.len()));
        }
        let weights: Vec<_> = self.ascents.iter().map(DualAscent::result::<S>).collect();
        let outputs: usize = weights.iter().map(Hypothesis::outputs).sum();
        let mut scores = vec![0.0; rows.len() * outputs];
        for (rows, scores) in rows.chunks(WINDOW).zip(scores.chunks_mut(WINDOW * outputs)) {
            self.features.load(&self.span, data.rows(), rows);
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

    /// The mean loss, as the last pass saw it.
    pub fn mean_loss(&self) -> f64 {
        self.ascents[self.at].mean_loss()
    }

    /// The coefficients of all landmarks, landmarks x outputs of all problems.
    pub fn coefs(&self) -> Vec<f64> {
        self.span.coefs(&self.weights())
    }

    /// The weights of the features, outputs of all problems x dimension.
    pub(crate) fn weights(&self) -> Vec<f64> {
        self.ascents.iter().flat_map(|ascent| ascent.result::<f64>().weights()).collect()
    }

    fn check<X: Rows<Scalar = S>>(&self, data: &Examples<'_, X>) -> Result<(), Error> {
        self.span.check_features(data.rows().n_features())?;
        if data.len() != self.features.n {
            return Err(Error::shape(
                "X",
                format_args!("{} rows, as there are dual variables", self.features.n),
                format_args!("{}", data.len()),
            ));
        }
        Ok(())
    }
}

/// The error of the data themselves, where there is one, instead of that of their features.
fn reason<X: Rows>(data: &Examples<'_, X>, rows: &[usize], error: Error) -> Error {
    let own = rows.iter().find_map(|&i| data.check(i..i + 1).err());
    own.unwrap_or(error)
}
