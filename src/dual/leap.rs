//! Leaps: to a better point by Newton's method, from where ascent goes on.

use super::glimpse::HOPE;
use super::hindsight::Hindsight;
use super::{DualAscent, LEFT, WHAT};
use crate::error::Error;
use crate::examples::Examples;
use crate::ledger::Certificate;
use crate::loss::Loss;
use crate::newton::{MOST_WEIGHTS, Point, Search};
use crate::params::check_tol;
use crate::scalar::Scalar;

impl<L: Loss> DualAscent<L> {
    /// Looks for a better point by Newton's method on a smoothed loss, and goes on from there if it has found one; says whether.
    /// For few weights, 256 of one score, 512 of Crammer and Singer's in all: some dozen passes and factors in O(weights^3). For more
    /// of one score by conjugate gradients, where there are four times as many dense rows, or as many sparse ones: some fifty passes
    /// where rows spread evenly over their directions, up to 300 elsewhere. Else it finds nothing, at once. Worth its time where epoch
    /// after epoch the gap has hardly moved.
    pub fn leap<S: Scalar>(&mut self, data: &Examples<'_, S>, tol: f64) -> Result<bool, Error> {
        check_tol(tol)?;
        let Some(mut leap) = self.begin_leap(data)? else {
            return Ok(false);
        };
        while self.leap_on(data, &mut leap, tol) {}
        Ok(self.end_leap(data, leap)?.is_some())
    }

    /// Whether there is a [`leap`](DualAscent::leap) to make.
    pub(crate) fn may_leap<S: Scalar>(&self, data: &Examples<'_, S>) -> bool {
        Search::exists(&self.loss, data, self.w.n_features())
    }

    /// About how many epochs a [`leap`](DualAscent::leap) takes as long as, where few steps do; infinite elsewhere.
    pub(crate) fn epochs_of_a_leap<S: Scalar>(&self, data: &Examples<'_, S>) -> f64 {
        Search::epochs(&self.loss, data, self.w.n_features())
    }

    /// Whether a [`leap`](DualAscent::leap), if there is one, is made without factors.
    pub(crate) fn has_many_features(&self) -> bool {
        self.w.n_features() > MOST_WEIGHTS
    }

    /// Begins a [`leap`](DualAscent::leap), to be made by instalments; `None` where there is none to make.
    pub(crate) fn begin_leap<S: Scalar>(
        &self,
        data: &Examples<'_, S>,
    ) -> Result<Option<Search>, Error> {
        self.check(data)?;
        data.check_labels(self.loss.classes())?;
        let free = self.free.as_ref().map(|free| (free.mean(), free.model(&self.w)));
        let leap = Search::new(&self.loss, data, &self.w, self.estimate() * self.left, free);
        Ok(leap.filter(|leap| !(self.futile && leap.is_for_once())))
    }

    /// An instalment; says whether there is another.
    pub(crate) fn leap_on<S: Scalar>(
        &self,
        data: &Examples<'_, S>,
        leap: &mut Search,
        tol: f64,
    ) -> bool {
        leap.step(&self.loss, self.lambda, data, tol)
    }

    /// Goes on from where a leap has come to, if D is higher there: the certificate of that point.
    pub(crate) fn end_leap<S: Scalar>(
        &mut self,
        data: &Examples<'_, S>,
        leap: Search,
    ) -> Result<Option<Certificate>, Error> {
        let for_once = leap.is_for_once();
        let landed = self.land(data, leap)?;
        self.futile |= for_once && landed.is_none();
        Ok(landed)
    }

    fn land<S: Scalar>(
        &mut self,
        data: &Examples<'_, S>,
        leap: Search,
    ) -> Result<Option<Certificate>, Error> {
        let before = self.dual_value(data);
        let Some(mut point) = leap.finish() else {
            return Ok(None);
        };
        if point.dual == *self.dual() {
            // Only the roundings of its image would be others.
            return Ok(None);
        }
        let free = self.free.clone();
        if let Some(free) = &mut self.free
            && free.land(self.lambda, data, &mut point).is_err()
        {
            return Ok(None);
        }
        let Point { dual, w, .. } = point;
        self.dual.check_copy(WHAT)?;
        let mut table = self.dual.clone();
        for (i, a) in dual.chunks(table.outputs()).enumerate() {
            table.promise(WHAT, a.iter().filter(|a| **a != 0.0).count())?;
            table.write(i, a);
        }
        let old = (std::mem::replace(&mut self.dual, table), std::mem::replace(&mut self.w, w));
        if self.dual_value(data) > before {
            self.conjugates = self.sum_conjugates(data);
            self.wake_all();
            self.hindsight = Hindsight::default();
            let certificate = self.certificate(data)?;
            if self.seen == f64::INFINITY {
                // No pass has been; it would see this.
                self.seen = self.len() as f64 * (certificate.primal - certificate.dual).max(0.0);
            }
            (self.left, self.hope) = (LEFT, HOPE);
            return Ok(Some(certificate));
        }
        (self.dual, self.w) = old;
        self.free = free;
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Dense;
    use crate::loss::CrammerSinger;

    /// Where a pass has led to a greater loss than that of w = 0 a leap begins there; if one has led nowhere, no other does until
    /// lambda is another one.
    #[test]
    fn what_was_futile_is_not_tried_again() {
        let x: Vec<f64> = (0..60).map(|k| ((k * 37 + 11) % 19) as f64 - 9.0).collect();
        let y: Vec<u32> = (0..20).map(|i| i % 3).collect();
        let data = Examples::new(Dense::new(&x, 20, 3).unwrap(), &y, None).unwrap();
        let mut ascent = DualAscent::new(CrammerSinger { classes: 3 }, 1e-6, 20, 3, 1.0).unwrap();
        let begun = |ascent: &DualAscent<CrammerSinger>| {
            ascent.begin_leap(&data).unwrap().map(|leap| leap.is_for_once())
        };
        assert_eq!(begun(&ascent), Some(false));
        ascent.run(&data, 0..20).unwrap();
        assert_eq!(begun(&ascent), Some(true));
        let mut empty = ascent.begin_leap(&data).unwrap().unwrap();
        assert!(ascent.end_leap(&data, empty.clone()).unwrap().is_none());
        assert_eq!(begun(&ascent), None);
        ascent.set_lambda(2e-6).unwrap();
        assert_eq!(begun(&ascent), Some(true));
        while ascent.leap_on(&data, &mut empty, 1e-3) {}
        assert!(ascent.end_leap(&data, empty).unwrap().is_some());
        assert!(!ascent.futile);
    }
}
