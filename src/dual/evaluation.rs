//! The certificate of dual ascent, by instalments.

use std::ops::Range;

use crate::data::{Row, Rows};
use crate::error::Error;
use crate::examples::Examples;
use crate::hypothesis::Hypothesis;
use crate::ledger::Certificate;
use crate::linear::Linear;
use crate::loss::{Loss, TOGETHER};
use crate::order::Ahead;
use crate::scalar::{Scalar, all_finite};

use super::DualAscent;
use super::foresight::{AT_REST, Foresight};
use super::intercept::{Balance, less_mean};
use super::many::Glance;

/// The largest relative difference of `<w, w(a)>` and `<w, w>` that is taken for a rounding of f32.
const FARTHEST: f64 = 1e-4;

/// How many times the gap that some rows suggest the whole one may be for others to be asked.
const BLIND: f64 = 3.0;

/// What part of the objective is nothing, so that the squared norm of w may be.
const NOTHING: f64 = 1e-9;

/// A [`Certificate`] in the making; see [`DualAscent::evaluation`].
#[derive(Clone, Debug)]
pub struct DualEvaluation {
    /// The weights as they will be handed out.
    w: Linear<f64>,
    loss: f64,
    /// `lambda n <w, w(a)>`.
    cross: f64,
    /// Rows that a step would move.
    awake: Vec<u32>,
    /// Where the intercept is free.
    balance: Option<Balance>,
}

impl DualEvaluation {
    pub(super) fn new(w: Linear<f64>, free: bool) -> Self {
        let balance = free.then(Balance::default);
        DualEvaluation { w, loss: 0.0, cross: 0.0, awake: Vec::new(), balance }
    }

    /// Takes in these rows. Every row must be taken in once, or as often as
    /// [`passes_to_evaluate`](DualAscent::passes_to_evaluate) says, one pass after the other, while the ascent makes no step.
    pub fn add<L: Loss, S: Scalar>(
        &mut self,
        ascent: &DualAscent<L>,
        data: &Examples<'_, S>,
        rows: Range<usize>,
    ) -> Result<(), Error> {
        ascent.check(data)?;
        data.rows().check_range(&rows)?;
        if let Some(balance) = &mut self.balance
            && balance.add(&self.w, ascent, data, rows.clone())?
        {
            return Ok(());
        }
        if let (Some(dual), None) = (ascent.dual.only(), &self.balance) {
            return self.add_single(ascent, dual, data, rows);
        }
        let (mut scores, mut scratch) = (ascent.loss.zeros(), ascent.loss.zeros());
        let (mut dual, mut glance) = (ascent.loss.zeros(), Glance::default());
        let (scores, scratch, dual) = (scores.as_mut(), scratch.as_mut(), dual.as_mut());
        let mut rows = rows;
        let mut order = Ahead::new(&mut rows);
        let mut foresight = Foresight::new(&self.w, data.rows(), AT_REST);
        let expects = self.w.expects_rows(data.rows());
        // What scores of rows less the mean lack.
        let (mut room, along) = (Vec::new(), ascent.free.as_ref().and_then(|f| f.along(&self.w)));
        while let Some(i) = order.next(data, |_| ())? {
            if expects && let Some(next) = order.upcoming() {
                self.w.expect_row(data.rows().row(next));
            }
            data.check_label(i, ascent.loss.classes())?;
            let (y, weight) = (data.label(i), data.weight(i));
            if !ascent.loss.concerns(y) || weight == 0.0 && self.balance.is_none() {
                continue;
            }
            if let (Some(along), Some(free)) = (&along, &ascent.free) {
                let row = less_mean(data.rows().row(i), free.mean(), &mut room);
                self.w.score_row(Row::Dense(row), scores);
                scores.iter_mut().zip(along).for_each(|(score, along)| *score += along);
            } else {
                foresight.score(&self.w, data.rows(), i, &mut order, scores);
            }
            if !all_finite(scores) {
                return Err(data.diagnose(i));
            }
            if let Some(balance) = &mut self.balance {
                balance.note(i, scores);
            }
            self.loss += weight * ascent.loss.value_and_coef(scores, y, scratch);
            self.cross += weight * ascent.dual.dot(i, 1.0, scores);
            if weight > 0.0 && ascent.idle[i] > 0 && ascent.dual.is_of_many() {
                ascent.glance(&mut glance, i, y, scores);
                if ascent.would_move(&mut glance, i) {
                    self.awake.push(i as u32);
                }
            } else if weight > 0.0 && ascent.idle[i] > 0 {
                ascent.dual.read(i, 1.0, dual);
                scratch.copy_from_slice(dual);
                ascent.loss.ascend(scores, y, ascent.q[i], scratch);
                if scratch != dual {
                    self.awake.push(i as u32);
                }
            }
        }
        Ok(())
    }

    /// [`add`](DualEvaluation::add) where there is one output, whose dual variables these are: losses of many rows together.
    fn add_single<L: Loss, S: Scalar>(
        &mut self,
        ascent: &DualAscent<L>,
        dual: &[f64],
        data: &Examples<'_, S>,
        mut rows: Range<usize>,
    ) -> Result<(), Error> {
        let (loss, x) = (&ascent.loss, *data.rows());
        let (classes, expects) = (loss.classes(), self.w.expects_rows(&x));
        let (mut some, mut labels) = ([0; TOGETHER], [0; TOGETHER]);
        let (mut scores, mut values) = ([0.0; TOGETHER], [0.0; TOGETHER]);
        let (ahead, end) = (x.ahead(), rows.end);
        loop {
            let mut count = 0;
            for i in rows.by_ref() {
                // Of dense ones memory sees the next ones coming.
                if x.is_sparse() && i + ahead < end {
                    x.prefetch(i + ahead);
                }
                if expects && i + 1 < end {
                    self.w.expect_row(x.row(i + 1));
                }
                let y = data.check_label(i, classes)?;
                if !loss.concerns(y) || data.weight(i) == 0.0 {
                    continue;
                }
                self.w.score_row(x.row(i), &mut scores[count..=count]);
                if !scores[count].is_finite() {
                    return Err(data.diagnose(i));
                }
                (some[count], labels[count]) = (i, y);
                count += 1;
                if count == TOGETHER {
                    break;
                }
            }
            if count == 0 {
                return Ok(());
            }
            let values = &mut values[..count];
            values.copy_from_slice(&scores[..count]);
            loss.values(values, &labels[..count]);
            for k in 0..count {
                let (i, weight) = (some[k], data.weight(some[k]));
                self.loss += weight * values[k];
                self.cross += weight * dual[i] * scores[k];
                if ascent.idle[i] > 0 {
                    let mut a = [dual[i]];
                    if loss.settles() {
                        loss.ascend(&scores[k..=k], labels[k], ascent.q[i], &mut a);
                    }
                    if a[0] != dual[i] || !loss.settles() {
                        self.awake.push(i as u32);
                    }
                }
            }
        }
    }

    /// The certificate, once every row was taken in. Wakes the rows that a step would move. Where w is too far from `w(a)`, it is
    /// made anew, and the certificate is that of the new one: another pass or two.
    pub fn finish<L: Loss, S: Scalar>(
        self,
        ascent: &mut DualAscent<L>,
        data: &Examples<'_, S>,
    ) -> Result<Certificate, Error> {
        let free = self.balance.is_some();
        let certificate = self.conclude(ascent, data)?;
        if certificate.dual.is_nan() && !free {
            ascent.clear_image()?;
            ascent.add_image(data, 0..data.len());
            let mut again = ascent.evaluation::<S>();
            again.add(ascent, data, 0..data.len())?;
            return again.conclude(ascent, data);
        }
        Ok(certificate)
    }

    /// The certificate, once every row was taken in, without another look at the rows. Where w is too far from `w(a)` the dual is NaN, and w must be made afresh.
    pub(crate) fn conclude<L: Loss, S: Scalar>(
        mut self,
        ascent: &mut DualAscent<L>,
        data: &Examples<'_, S>,
    ) -> Result<Certificate, Error> {
        // Others than those of the rows that were taken in, maybe.
        data.check_labels(ascent.loss.classes())?;
        // The norm that w was made with; nothing has moved it since.
        let square = ascent.lambda / 2.0 * self.w.norm2();
        if let Some(balance) = self.balance.take() {
            let square = ascent.lambda / 2.0 * self.w.norm2_of_features();
            let (certificate, found) = balance.finish(ascent, square);
            if let Some(free) = &mut ascent.free {
                free.found = found;
            }
            ascent.conjugates = ascent.sum_conjugates(data);
            return self.learn(ascent, certificate);
        }
        let primal = square + self.loss / data.len() as f64;
        if !primal.is_finite() {
            return Err(Error::non_finite("X", "the objective overflows"));
        }
        // As in the trainer's evaluation: right up to the square of how far w is from w(a).
        let cross = self.cross / data.len() as f64;
        ascent.conjugates = ascent.sum_conjugates(data);
        let mut dual = -ascent.conjugates / data.len() as f64 - (cross - square);
        // A w that is itself a rounding may be as far as it likes.
        if (cross - 2.0 * square).abs() > FARTHEST * square.max(NOTHING * primal) {
            // Too far: a trainer's sums have lost more than roundings.
            dual = f64::NAN;
        }
        self.learn(ascent, Certificate { primal, dual })
    }

    /// What the ascent has of it.
    fn learn<L: Loss>(
        self,
        ascent: &mut DualAscent<L>,
        certificate: Certificate,
    ) -> Result<Certificate, Error> {
        let certificate = certificate.without_roundings();
        if !certificate.primal.is_finite() {
            return Err(Error::non_finite("X", "the objective overflows"));
        }
        for i in self.awake {
            ascent.idle[i as usize] = 0;
        }
        let seen = ascent.estimate();
        if !certificate.dual.is_nan() && seen > 0.0 && seen.is_finite() {
            ascent.left = (certificate.relative_gap() / seen).clamp(0.01, 100.0);
        }
        if certificate.relative_gap() > BLIND * ascent.glimpsed {
            // The gap is in a few rows: some of the rows do not tell.
            ascent.hope = f64::INFINITY;
        }
        Ok(certificate)
    }
}

#[cfg(test)]
mod tests {
    use rand_pcg::Pcg64;
    use rand_pcg::rand_core::Rng;

    use super::*;
    use crate::{AnyLoss, Binary, Dense, Sampling};

    /// A w that has drifted is made anew, and found is what holds for the new one: it is the model.
    #[test]
    fn a_certificate_is_that_of_the_w_that_stays() {
        let (n, d) = (200, 3);
        let mut rng = Pcg64::new(7, 8);
        let mut draw = || rng.next_u32() as f64 / 2e9 - 1.0;
        let x: Vec<f64> = (0..n * d).map(|_| draw()).collect();
        let y: Vec<u32> = x.chunks(d).map(|x| u32::from(x[0] + 0.3 * draw() > 0.0)).collect();
        let data = Examples::new(Dense::new(&x, n, d).unwrap(), &y, None).unwrap();
        for loss in [AnyLoss::Hinge, AnyLoss::SquaredHinge, AnyLoss::Logistic] {
            let loss = Binary { loss, positive: 1 };
            let mut ascent = DualAscent::new(loss, 1e-3, n, d, 1.0).unwrap();
            let order = ascent.pass(Sampling::Shuffle, 0).unwrap();
            ascent.run(&data, order).unwrap();
            let want = ascent.certificate(&data).unwrap();
            ascent.w.scale(3.0);
            let found = ascent.certificate(&data).unwrap();
            assert!(
                (found.primal - want.primal).abs() <= 1e-12 * want.primal,
                "{found:?} {want:?}"
            );
            assert!((found.dual - want.dual).abs() <= 1e-12 * want.primal, "{found:?} {want:?}");
        }
    }
}
