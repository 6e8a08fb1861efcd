//! Leaps of linear problems that dual ascent would be long in solving.

use super::linear::{Leap, LinearProblems, Part, Stage};
use super::results::Handed;
use super::{FAR, LEAP_AFTER, MOST, SHORT_LEAP_AFTER};
use crate::dual::DualAscent;
use crate::error::Error;
use crate::examples::Examples;
use crate::hypothesis::Hypothesis;
use crate::linear::Linear;
use crate::loss::Loss;
use crate::newton::Search;
use crate::scalar::Scalar;
use crate::threads::{self, side_by_side};
use crate::trainer::Trainer;

/// Dual ascent that will be there in so many epochs, at its present pace, is let go on: a leap takes longer. With 20 a class of
/// letter took up to twice as long, with 7 some of usps a third longer.
const SOON: f64 = 10.0;

/// And in so many, of many features: there a pass or two promise much that is not kept. Of tables that ascent took 40 to 90 epochs
/// of, the first five promised 4 to 8 more.
const AT_ONCE: f64 = 3.0;

/// A leap that takes as long as so many epochs is cheap. Dearer ones begin better where some epochs have led: of usps, 34 by the
/// count, leaps that came first took 1.2 to 3 times as long in all, of digits, 12, up to 1.3 times.
const CHEAP: f64 = 10.0;

/// One that takes as long as so many is tried late: of standardised digits (784 features) dual ascent is there by then. And one that
/// takes longer still, later.
const DEAR: f64 = 90.0;
const LATE: usize = 20;
const DEARER: f64 = 200.0;
const LATER: usize = 55;

/// How many rows tell how long steps are.
const SAMPLE: usize = 1024;

/// After how many epochs of dual ascent a leap may be due that takes as long as so many.
pub(super) fn leap_after(epochs: f64) -> usize {
    if epochs <= CHEAP {
        SHORT_LEAP_AFTER
    } else if epochs > DEARER && epochs.is_finite() {
        LATER
    } else if epochs > DEAR && epochs.is_finite() {
        LATE
    } else {
        LEAP_AFTER
    }
}

/// Whether dual ascent will be there before a leap is that takes as long as so many epochs.
pub(super) fn is_soon<L: Loss>(ascent: &DualAscent<L>, epochs: f64, tol: f64) -> bool {
    let soon = match epochs {
        epochs if epochs <= CHEAP => epochs,
        _ if ascent.has_many_features() => AT_ONCE,
        _ => SOON,
    };
    ascent.epochs_to(tol) <= soon
}

/// Whether a leap of a trainer's problem comes first of all. Where `||x||^2` is q times `lambda n`, steps of single examples are
/// q times too long for one another, and dual ascent takes some `2 + 2 sqrt(q)` epochs to a gap of 1e-3: with the logistic loss
/// 5, 8, 15 and 33 of 80,000 rows of 54 features where q is 2, 6, 17 and 55; 18 of usps where it is 110.
pub(super) fn leaps_at_once<S: Scalar, L: Loss>(
    trainer: &Trainer<Linear<S>, L>,
    data: &Examples<'_, S>,
) -> bool {
    let w = trainer.hypothesis();
    let epochs = Search::epochs(trainer.loss(), data, w.n_features());
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

    /// Goes on with the leaps, from their beginning if none is under way; says whether there is more to do. As many at a time as
    /// there are threads: each has numbers for all examples.
    pub(super) fn leap_on(&mut self, data: &Examples<'_, S>, wanted: f64) -> Result<bool, Error> {
        self.handed = Handed::default();
        let patient = self.climbed <= self.epochs_to_a_leap(data) as u64;
        // Where dual ascent has not got there by itself, it is time to; and D must be higher than where a late leap began, within
        // the tolerance maybe.
        let (far, tol) =
            if patient { ((FAR * wanted).min(MOST), wanted) } else { (wanted, wanted / FAR) };
        if !matches!(self.stage, Stage::Leap(_)) {
            self.stage = Stage::Leap(self.parts.iter().map(|_| (None, false)).collect());
        }
        let Stage::Leap(leaps) = &mut self.stage else {
            unreachable!("it was just begun");
        };
        let left = self.parts.iter_mut().zip(&mut *leaps).filter(|(_, (_, over))| !over);
        let mut few: Vec<_> = left.take(threads::count()).collect();
        let go_on = |_, (part, (leap, over)): &mut (&mut Part<S, L>, &mut Leap)| {
            match (&mut *leap, &part.dual) {
                (Some(begun), Some(dual)) => {
                    data.check_labels(part.trainer.loss().classes())?;
                    *over = !dual.leap_on(data, begun, tol);
                    if *over {
                        part.land(data, leap.take(), wanted)?;
                    }
                }
                _ => {
                    *leap = part.begin_leap(data, far, wanted)?;
                    *over = leap.is_none();
                }
            }
            Ok::<_, Error>(())
        };
        side_by_side(&mut few, go_on).into_iter().collect::<Result<(), _>>()?;
        let more = leaps.iter().any(|(_, over)| !over);
        if !more {
            self.stage = Stage::None;
        }
        Ok(more)
    }

    /// Goes to where leaps that are under way have come to, each if that is higher.
    pub(super) fn land(&mut self, data: &Examples<'_, S>) -> Result<(), Error> {
        if let Stage::Leap(leaps) = &mut self.stage {
            let mut pairs: Vec<_> = self.parts.iter_mut().zip(std::mem::take(leaps)).collect();
            (self.stage, self.handed) = (Stage::None, Handed::default());
            let land = |_, (part, (leap, _)): &mut (&mut Part<S, L>, Leap)| {
                part.land(data, leap.take(), 0.0)
            };
            side_by_side(&mut pairs, land).into_iter().collect::<Result<(), _>>()?;
        }
        Ok(())
    }
}

impl<S: Scalar, L: Loss> Part<S, L> {
    /// Begins a leap, if the gap is more than `far` and will not soon be what is `wanted`.
    fn begin_leap(
        &mut self,
        data: &Examples<'_, S>,
        far: f64,
        wanted: f64,
    ) -> Result<Option<Search>, Error> {
        let unsolved = self.solved.is_none();
        let Some(dual) = self.dual.as_mut().filter(|dual| unsolved && dual.may_leap(data)) else {
            return Ok(None);
        };
        // What a pass has seen may be far from the truth where every step undoes others.
        let near = dual.may_be_solved(far) && dual.certificate(data)?.relative_gap() <= far;
        if near || is_soon(dual, dual.epochs_of_a_leap(data), wanted) {
            return Ok(None);
        }
        dual.begin_leap(data)
    }

    /// Goes to where a leap has come to, if that is higher.
    fn land(
        &mut self,
        data: &Examples<'_, S>,
        leap: Option<Search>,
        wanted: f64,
    ) -> Result<(), Error> {
        if let (Some(dual), Some(leap)) = (&mut self.dual, leap)
            && let Some(certificate) = dual.end_leap(data, leap)?
        {
            // Steps from here may raise the objective before they lower it.
            self.last = certificate;
            self.solved = (certificate.relative_gap() <= wanted).then_some(certificate);
        }
        Ok(())
    }
}
