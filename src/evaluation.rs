//! What training has reached: the objective, and a lower bound on its minimum.

use crate::data::{Examples, Rows};
use crate::error::Error;
use crate::feasible::{Ball, Feasible};
use crate::hypothesis::Hypothesis;
use crate::ledger::{Certificate, Ledger};
use crate::loss::Loss;
use crate::scalar::all_finite;
use crate::trainer::Trainer;

impl<H: Hypothesis, L: Loss, F: Feasible<H>> Trainer<H, L, F> {
    /// The ledger's lower bound on the minimum of the objective, by the carried norm: without a pass over
    /// the data, and up to rounding of w only. O(examples). `None` where there is no bound.
    pub fn dual_value<X: Rows>(&self, data: &Examples<'_, X>) -> Option<f64> {
        let (ledger, factor) = self.dual_point(data.len())?;
        let (label, weight) = (|i| data.label(i), |i| data.weight(i));
        let excess = ledger.excess(self.loss(), factor, label, weight);
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
    pub fn certificate<X: Rows<Scalar = H::Scalar>>(
        &self,
        data: &Examples<'_, X>,
    ) -> Result<Certificate, Error> {
        let mut evaluation = self.evaluation(data)?;
        evaluation.add(0..data.len())?;
        evaluation.finish()
    }

    /// [`certificate`](Trainer::certificate) by instalments, for callers who must look up now and
    /// then.
    pub fn evaluation<'a, X: Rows<Scalar = H::Scalar>>(
        &'a self,
        data: &'a Examples<'a, X>,
    ) -> Result<Evaluation<'a, H, L, X, F>, Error> {
        self.hypothesis().check_features(data.rows().n_features())?;
        let (ledger, factor) = match self.dual_point(data.len()) {
            Some((ledger, factor)) => (Some(ledger), factor),
            None => (None, 0.0),
        };
        if self.hypothesis().average_weight() > 0.0 {
            self.hypothesis().check_copy()?;
        }
        let (label, weight) = (|i| data.label(i), |i| data.weight(i));
        Ok(Evaluation {
            mean: self.hypothesis().mean(),
            excess: ledger.map_or(1.0, |l| l.excess(self.loss(), factor, label, weight)),
            trainer: self,
            data,
            ledger,
            factor,
            square: Some(0.0),
            loss: 0.0,
            conjugate: 0.0,
            cross: 0.0,
        })
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
#[derive(Debug)]
pub struct Evaluation<'a, H: Hypothesis, L: Loss, X, F = Option<Ball>> {
    trainer: &'a Trainer<H, L, F>,
    data: &'a Examples<'a, X>,
    /// The averaged iterate, where that is the result.
    mean: Option<H>,
    ledger: Option<&'a Ledger>,
    factor: f64,
    excess: f64,
    /// `||w||^2` of the result, from its rows' shares in it where these are known.
    square: Option<f64>,
    loss: f64,
    conjugate: f64,
    cross: f64,
}

/// Rows that are scored at a time.
const TOGETHER: usize = crate::expansion::PANEL;

impl<H, L, X, F> Evaluation<'_, H, L, X, F>
where
    H: Hypothesis,
    L: Loss,
    X: Rows<Scalar = H::Scalar>,
{
    /// Takes in these rows. Every row must be taken in once.
    pub fn add(&mut self, rows: std::ops::Range<usize>) -> Result<(), Error> {
        let Evaluation { trainer, data, .. } = *self;
        let (w, loss) = (trainer.hypothesis(), trainer.loss());
        let outputs = w.outputs();
        let mut scratch = loss.zeros();
        let scratch = scratch.as_mut();
        let (mut of_result, mut of_last) = (Vec::new(), Vec::new());
        let numbers: Vec<usize> = rows.collect();
        for numbers in numbers.chunks(TOGETHER) {
            of_result.resize(numbers.len() * outputs, 0.0);
            let result = self.mean.as_ref().unwrap_or(w);
            result.scores(data.rows(), numbers, &mut of_result);
            if self.mean.is_some() && self.ledger.is_some() {
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
                let Some(ledger) = self.ledger.filter(|_| weight > 0.0) else {
                    continue;
                };
                let scores = last.unwrap_or(scores);
                self.cross += ledger.cross(i, self.factor, scores);
                ledger.dual(i, self.factor / (weight * self.excess), scratch);
                self.conjugate += weight * loss.conjugate(scratch, y);
            }
        }
        Ok(())
    }

    /// The certificate, once every row was taken in.
    pub fn finish(self) -> Result<Certificate, Error> {
        let n = self.data.len() as f64;
        let half_lambda = self.trainer.params().lambda / 2.0;
        let w = self.trainer.hypothesis();
        let last = w.norm2_afresh();
        let result = self.mean.as_ref().unwrap_or(w);
        let result = self.square.unwrap_or_else(|| result.norm2_afresh());
        let image = (self.cross / n - half_lambda * last) / (self.excess * self.excess);
        let primal = half_lambda * result + self.loss / n;
        if !primal.is_finite() {
            return Err(Error::non_finite("X", format_args!("the objective overflows")));
        }
        let dual = match self.ledger {
            Some(_) => -self.conjugate / n - image,
            None => f64::NAN,
        };
        Ok(Certificate { primal, dual })
    }
}
