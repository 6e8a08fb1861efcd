//! Leaps of linear problems that dual ascent would be long in solving.

use super::linear::{LinearProblems, Part, Stage};
use super::{FAR, LEAP_AFTER, MOST};
use crate::dual::DualAscent;
use crate::error::Error;
use crate::examples::Examples;
use crate::loss::Loss;
use crate::newton::Descent;
use crate::scalar::Scalar;
use crate::threads::side_by_side;

/// Dual ascent that will be there in so many epochs, at its present pace, is let go on: a leap takes longer. That of a9a, sparse,
/// at lambda = 1e-4 takes as long as 70 of the epochs that are left there.
const SOON: f64 = 20.0;

impl<S: Scalar, L: Loss + Send> LinearProblems<S, L> {
    /// Goes on with the leaps, from their beginning if none is under way; says whether there is more to do.
    pub(super) fn leap_on(&mut self, data: &Examples<'_, S>, tol: f64) -> Result<bool, Error> {
        if !matches!(self.stage, Stage::Leap(_)) {
            self.stage = Stage::Leap(self.begin_leaps(data, tol)?);
        }
        let wanted = tol;
        // D must be higher than where a late leap began, within the tolerance maybe.
        let tol = if self.climbed > LEAP_AFTER as u64 { tol / FAR } else { tol };
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
        let patient = self.climbed <= LEAP_AFTER as u64;
        let far = if patient { (FAR * tol).min(MOST) } else { tol };
        let begin = |part: &mut Part<S, L>| {
            let may_leap = |dual: &&mut DualAscent<L>| part.solved.is_none() && dual.may_leap(data);
            let Some(dual) = part.dual.as_mut().filter(may_leap) else {
                return Ok((None, true));
            };
            // What a pass has seen may be far from the truth where every step undoes others.
            let near = dual.may_be_solved(far) && dual.certificate(data)?.relative_gap() <= far;
            if near || dual.epochs_to(tol) <= SOON {
                return Ok((None, true));
            }
            let leap = dual.begin_leap(data)?;
            let landed = leap.is_none();
            Ok((leap, landed))
        };
        self.parts.iter_mut().map(begin).collect()
    }
}
