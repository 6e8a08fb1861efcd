//! Leaps of linear problems that dual ascent would be long in solving.

use super::linear::{LinearProblems, Part, Stage};
use super::{FAR, LEAP_AFTER, MOST, SHORT_LEAP_AFTER};
use crate::dual::DualAscent;
use crate::error::Error;
use crate::examples::Examples;
use crate::hypothesis::Hypothesis;
use crate::linear::Linear;
use crate::loss::Loss;
use crate::newton::Descent;
use crate::scalar::Scalar;
use crate::threads::side_by_side;
use crate::trainer::Trainer;

/// Dual ascent that will be there in so many epochs, at its present pace, is let go on: a leap takes longer. That of a9a, sparse,
/// at lambda = 1e-4 takes as long as 70 of the epochs that are left there.
const SOON: f64 = 20.0;

/// A leap that takes as long as so many epochs is cheap.
const CHEAP: f64 = 10.0;

/// How many rows tell how long steps are.
const SAMPLE: usize = 1024;

/// After how many epochs of dual ascent a leap may be due that takes as long as so many.
pub(super) fn leap_after(epochs: f64) -> usize {
    if epochs <= CHEAP { SHORT_LEAP_AFTER } else { LEAP_AFTER }
}

/// Whether dual ascent will be there before a leap is that takes as long as so many epochs.
pub(super) fn is_soon<L: Loss>(ascent: &DualAscent<L>, epochs: f64, tol: f64) -> bool {
    ascent.epochs_to(tol) <= if epochs <= CHEAP { epochs } else { SOON }
}

/// Whether a leap of a trainer's problem comes first of all. Where `||x||^2` is q times `lambda n`, steps of single examples are
/// q times too long for one another, and dual ascent takes about `2 + 2 sqrt(q)` epochs to a gap of 1e-3: 5, 7, 10 and 17 of
/// 80,000 rows of 54 features where q is 2, 6, 17 and 55, with the logistic loss.
pub(super) fn leaps_at_once<S: Scalar, L: Loss>(
    trainer: &Trainer<Linear<S>, L>,
    data: &Examples<'_, S>,
) -> bool {
    let w = trainer.hypothesis();
    let epochs = Descent::epochs(trainer.loss(), data, w.n_features());
    if epochs > CHEAP || !w.is_zero() {
        return false;
    }
    let some = (0..data.len()).step_by(data.len().div_ceil(SAMPLE));
    let (count, sum) = some.fold((0.0, 0.0), |(count, sum), i| {
        (count + 1.0, sum + data.weight(i) * w.norm2_of_row(data.rows().row(i).norm2()))
    });
    let q = sum / count / (trainer.params().lambda * data.len() as f64);
    2.0 + 2.0 * q.sqrt() > epochs
}

impl<S: Scalar, L: Loss + Send> LinearProblems<S, L> {
    /// After how many epochs of dual ascent a leap may be due.
    pub(super) fn epochs_to_a_leap(&self, data: &Examples<'_, S>) -> usize {
        let first = self.parts.first().and_then(|part| part.dual.as_ref());
        leap_after(first.map_or(f64::INFINITY, |dual| dual.epochs_of_a_leap(data)))
    }

    /// Goes on with the leaps, from their beginning if none is under way; says whether there is more to do.
    pub(super) fn leap_on(&mut self, data: &Examples<'_, S>, tol: f64) -> Result<bool, Error> {
        if !matches!(self.stage, Stage::Leap(_)) {
            self.stage = Stage::Leap(self.begin_leaps(data, tol)?);
        }
        let wanted = tol;
        // D must be higher than where a late leap began, within the tolerance maybe.
        let tol = if self.climbed > self.epochs_to_a_leap(data) as u64 { tol / FAR } else { tol };
        let parts = &self.parts;
        let Stage::Leap(leaps) = &mut self.stage else {
            unreachable!("it was just begun");
        };
        side_by_side(leaps, |k, (leap, landed)| {
            if let (Some(leap), Some(dual), false) = (leap, &parts[k].dual, *landed) {
                *landed = !dual.leap_on(data, leap, tol);
            }
        });
        if leaps.iter().any(|(_, landed)| !landed) {
            return Ok(true);
        }
        self.frozen = None;
        let Stage::Leap(leaps) = std::mem::take(&mut self.stage) else {
            return Ok(false);
        };
        let mut landings: Vec<_> = self.parts.iter_mut().zip(leaps).collect();
        let land = |_, (part, (leap, _)): &mut (&mut Part<S, L>, (Option<Descent>, bool))| {
            if let (Some(dual), Some(leap)) = (&mut part.dual, leap.take())
                && let Some(certificate) = dual.end_leap(data, leap)?
            {
                // Steps from here may raise the objective before they lower it.
                part.last = certificate;
                part.solved = (certificate.relative_gap() <= wanted).then_some(certificate);
            }
            Ok::<_, Error>(())
        };
        side_by_side(&mut landings, land).into_iter().collect::<Result<(), _>>()?;
        Ok(false)
    }

    /// Begins the leaps of problems that are far from solved.
    fn begin_leaps(
        &mut self,
        data: &Examples<'_, S>,
        tol: f64,
    ) -> Result<Vec<(Option<Descent>, bool)>, Error> {
        // Where dual ascent has not got there by itself, it is time to.
        let patient = self.climbed <= self.epochs_to_a_leap(data) as u64;
        let far = if patient { (FAR * tol).min(MOST) } else { tol };
        let begin = |part: &mut Part<S, L>| {
            let may_leap = |dual: &&mut DualAscent<L>| part.solved.is_none() && dual.may_leap(data);
            let Some(dual) = part.dual.as_mut().filter(may_leap) else {
                return Ok((None, true));
            };
            // What a pass has seen may be far from the truth where every step undoes others.
            let near = dual.may_be_solved(far) && dual.certificate(data)?.relative_gap() <= far;
            if near || is_soon(dual, dual.epochs_of_a_leap(data), tol) {
                return Ok((None, true));
            }
            let leap = dual.begin_leap(data)?;
            let landed = leap.is_none();
            Ok((leap, landed))
        };
        self.parts.iter_mut().map(begin).collect()
    }
}
