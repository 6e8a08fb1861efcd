//! What training has reached: the objective, and a lower bound on its minimum.

use crate::error::Error;
use crate::examples::Examples;
use crate::feasible::Feasible;
use crate::hypothesis::Hypothesis;
use crate::ledger::Certificate;
use crate::loss::Loss;
use crate::order::Sampling;
use crate::scalar::all_finite;
use crate::trainer::Trainer;

impl<H: Hypothesis, L: Loss, F: Feasible<H>> Trainer<H, L, F> {
    /// The ledger's lower bound on the minimum of the objective, by the carried norm: without a pass over
    /// the data, and up to rounding of w only. O(examples). `None` where there is no bound, or a label is no class.
    pub fn dual_value(&self, data: &Examples<'_, H::Scalar>) -> Option<f64> {
        let (ledger, factor) = self.dual_point(data.len())?;
        data.check_labels(self.loss().classes()).ok()?;
        let excess = ledger.excess(self.loss(), factor, data);
        let mut dual = self.loss().zeros();
        let mut conjugate = 0.0;
        for i in (0..data.len()).filter(|&i| data.weight(i) > 0.0) {
            let weight = data.weight(i);
            ledger.dual(i, factor / (excess * weight), dual.as_mut());
            conjugate += weight * self.loss().conjugate(dual.as_ref(), data.label(i));
        }
        let image = self.params().lambda / 2.0 * self.hypothesis().norm2() / (excess * excess);
        Some(-conjugate / data.len() as f64 - image)
    }

    /// The objective at the [`result`](Trainer::result), and a lower bound on its minimum. One pass
    /// over the data in storage order, O(nnz).
    pub fn certificate(&self, data: &Examples<'_, H::Scalar>) -> Result<Certificate, Error> {
        let mut evaluation = self.evaluation(data)?;
        evaluation.add(self, data, 0..data.len())?;
        evaluation.finish(self, data)
    }

    /// [`certificate`](Trainer::certificate) by instalments, for callers who must look up now and
    /// then. The trainer must make no step meanwhile.
    pub fn evaluation(&self, data: &Examples<'_, H::Scalar>) -> Result<Evaluation<H>, Error> {
        self.hypothesis().check_features(data.rows().n_features())?;
        data.check_some()?;
        let (ledger, factor) = match self.dual_point(data.len()) {
            Some((ledger, factor)) => {
                data.check_labels(self.loss().classes())?;
                (Some(ledger), factor)
            }
            None => (None, 0.0),
        };
        if self.hypothesis().average_weight() > 0.0 {
            self.hypothesis().check_copy()?;
        }
        Ok(Evaluation {
            mean: self.hypothesis().mean(),
            excess: ledger.map_or(1.0, |ledger| ledger.excess(self.loss(), factor, data)),
            factor: ledger.map(|_| factor),
            square: Some(0.0),
            loss: 0.0,
            conjugate: 0.0,
            cross: 0.0,
        })
    }

    /// About the certificate, by a sample of the rows; the gap is a standard error too large. NaN where there is none.
    pub(crate) fn glimpse(&self, data: &Examples<'_, H::Scalar>) -> Result<Certificate, Error> {
        let mut evaluation = self.evaluation(data)?;
        let mut glimpse = Glimpse::default();
        let mut before = 0.0;
        for i in Glimpse::rows(data.len())? {
            evaluation.add(self, data, i..i + 1)?;
            let images = (1.0 + evaluation.excess.powi(-2)) / 2.0;
            let sum = evaluation.loss + evaluation.conjugate + images * evaluation.cross;
            glimpse.add(sum - before);
            before = sum;
        }
        let half = self.params().lambda / 2.0 * self.hypothesis().norm2();
        let primal = half + evaluation.loss / glimpse.count;
        let gap = if evaluation.factor.is_some() { glimpse.gap() } else { f64::NAN };
        Ok(Certificate { primal, dual: primal - gap })
    }
}

/// A gap as some rows see it, each its share `loss + conjugate + <alpha, scores>`, times its weight. No share is below 0, so
/// that all are small where the gap is, and few rows are enough to tell.
#[derive(Debug, Default)]
pub(crate) struct Glimpse {
    count: f64,
    sum: f64,
    squares: f64,
}

/// How many rows a glimpse takes in at most, and what part of all: so that it costs next to nothing beside an epoch.
const SAMPLE: usize = 4096;
const PART: usize = 32;

impl Glimpse {
    /// How many rows of `n` are looked at.
    pub(crate) fn size(n: usize) -> usize {
        SAMPLE.min(n / PART)
    }

    /// Which; of as many rows always the same.
    pub(crate) fn rows(n: usize) -> Result<impl Iterator<Item = usize>, Error> {
        Ok(Sampling::Replacement.epoch(n, 0, 0)?.take(Glimpse::size(n)))
    }

    pub(crate) fn add(&mut self, share: f64) {
        self.count += 1.0;
        self.sum += share;
        self.squares += share * share;
    }

    /// The mean share and a standard error more; NaN of no rows.
    pub(crate) fn gap(&self) -> f64 {
        let mean = self.sum / self.count;
        mean + ((self.squares / self.count - mean * mean) / self.count).max(0.0).sqrt()
    }
}

/// A [`Certificate`] in the making; see [`Trainer::evaluation`].
///
/// With `alpha` the ledger's dual point, scaled down by `excess` where it is not feasible, and
/// `w(alpha)` its primal image,
///
/// ```text
/// D = -1/n sum_i weight_i loss*(-alpha_i / weight_i) - lambda/2 ||w(alpha)||^2.
/// ```
///
/// In exact arithmetic `w(alpha)` is w. In f32 w drifts from it, and `||w||^2` in its place would
/// put the drift into D to first order. The pass over the data gives
/// `lambda <w, w(alpha)> = 1/n sum_i <alpha_i, scores_i>`, and
/// `||w(alpha)||^2 = 2 <w, w(alpha)> - ||w||^2` is right up to the drift's square.
#[derive(Clone, Debug)]
pub struct Evaluation<H> {
    /// The averaged iterate, where that is the result.
    mean: Option<H>,
    /// What makes the ledger a dual point, where it is one.
    factor: Option<f64>,
    excess: f64,
    /// `||w||^2` of the result, from its rows' shares in it where these are known.
    square: Option<f64>,
    loss: f64,
    conjugate: f64,
    cross: f64,
}

/// Rows that are scored at a time.
const TOGETHER: usize = crate::expansion::PANEL;

impl<H: Hypothesis> Evaluation<H> {
    /// Takes in these rows. Every row must be taken in once.
    pub fn add<L: Loss, F: Feasible<H>>(
        &mut self,
        trainer: &Trainer<H, L, F>,
        data: &Examples<'_, H::Scalar>,
        rows: std::ops::Range<usize>,
    ) -> Result<(), Error> {
        trainer.hypothesis().check_features(data.rows().n_features())?;
        data.rows().check_range(&rows)?;
        let (w, loss) = (trainer.hypothesis(), trainer.loss());
        let point = self.factor.zip(trainer.ledger());
        if let Some((_, ledger)) = point.filter(|(_, ledger)| ledger.len() != data.len()) {
            let want = format_args!("{} rows, as the ledger has", ledger.len());
            return Err(Error::shape("X", want, data.len()));
        }
        let outputs = w.outputs();
        let mut scratch = loss.zeros();
        let scratch = scratch.as_mut();
        let (mut of_result, mut of_last) = (Vec::new(), Vec::new());
        let numbers: Vec<usize> = rows.collect();
        for numbers in numbers.chunks(TOGETHER) {
            of_result.resize(numbers.len() * outputs, 0.0);
            let result = self.mean.as_ref().unwrap_or(w);
            result.scores(data.rows(), numbers, &mut of_result);
            if self.mean.is_some() && point.is_some() {
                of_last.resize(numbers.len() * outputs, 0.0);
                w.scores(data.rows(), numbers, &mut of_last);
            }
            let last = of_last.chunks(outputs).map(Some).chain(std::iter::repeat(None));
            for ((&i, scores), last) in numbers.iter().zip(of_result.chunks(outputs)).zip(last) {
                data.check_label(i, loss.classes())?;
                let (y, weight) = (data.label(i), data.weight(i));
                if !all_finite(scores) {
                    return Err(data.diagnose(i));
                }
                self.square = match (self.square, result.share(i, scores)) {
                    (Some(square), Some(share)) => Some(square + share),
                    _ => None,
                };
                self.loss += weight * loss.value_and_coef(scores, y, scratch);
                let Some((factor, ledger)) = point.filter(|_| weight > 0.0) else {
                    continue;
                };
                let scores = last.unwrap_or(scores);
                self.cross += ledger.cross(i, factor, scores);
                ledger.dual(i, factor / (weight * self.excess), scratch);
                self.conjugate += weight * loss.conjugate(scratch, y);
            }
        }
        Ok(())
    }

    /// The certificate, once every row was taken in.
    pub fn finish<L: Loss, F: Feasible<H>>(
        self,
        trainer: &Trainer<H, L, F>,
        data: &Examples<'_, H::Scalar>,
    ) -> Result<Certificate, Error> {
        let n = data.len() as f64;
        let half_lambda = trainer.params().lambda / 2.0;
        let w = trainer.hypothesis();
        let last = w.norm2_afresh();
        let result = self.mean.as_ref().unwrap_or(w);
        let result = self.square.unwrap_or_else(|| result.norm2_afresh());
        let image = (self.cross / n - half_lambda * last) / (self.excess * self.excess);
        let primal = half_lambda * result + self.loss / n;
        if !primal.is_finite() {
            return Err(Error::non_finite("X", "the objective overflows"));
        }
        let dual = self.factor.map_or(f64::NAN, |_| -self.conjugate / n - image);
        Ok(Certificate { primal, dual }.without_roundings())
    }
}
