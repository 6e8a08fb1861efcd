//! The ways to tell several classes apart, for callers who choose at run time.

use super::{AnyLoss, CrammerSinger, Loss, OneVsOne, OneVsRest};

/// Any of the losses of several classes: chosen once a step, so that the loop is compiled once for all of them.
#[derive(Clone, Debug, PartialEq)]
pub enum Multiclass {
    /// All classes in one problem.
    CrammerSinger(CrammerSinger),
    /// A problem for each of some classes.
    OneVsRest(OneVsRest<AnyLoss>),
    /// A problem for each pair of classes.
    OneVsOne(OneVsOne<AnyLoss>),
}

/// `match`es the loss to its struct.
macro_rules! any {
    ($loss:expr, $l:ident => $then:expr) => {
        match $loss {
            Multiclass::CrammerSinger($l) => $then,
            Multiclass::OneVsRest($l) => $then,
            Multiclass::OneVsOne($l) => $then,
        }
    };
}

impl Loss for Multiclass {
    type Scores = Vec<f64>;
    fn zeros(&self) -> Vec<f64> {
        any!(self, loss => loss.zeros())
    }
    fn outputs(&self) -> usize {
        any!(self, loss => loss.outputs())
    }
    fn classes(&self) -> u32 {
        any!(self, loss => loss.classes())
    }
    #[inline]
    fn value_and_coef(&self, scores: &[f64], y: u32, coef: &mut [f64]) -> f64 {
        any!(self, loss => loss.value_and_coef(scores, y, coef))
    }
    fn problems(&self) -> usize {
        any!(self, loss => loss.problems())
    }
    fn errs(&self, scores: &[f64], y: u32, loss: f64, at_zero: f64) -> bool {
        any!(self, of => of.errs(scores, y, loss, at_zero))
    }
    fn conjugate(&self, dual: &[f64], y: u32) -> f64 {
        any!(self, loss => loss.conjugate(dual, y))
    }
    fn bend(&self, o: usize, a: f64, y: u32) -> (f64, f64) {
        any!(self, loss => loss.bend(o, a, y))
    }
    fn excess(&self, dual: &[f64], y: u32) -> f64 {
        any!(self, loss => loss.excess(dual, y))
    }
    fn ascend(&self, scores: &[f64], y: u32, q: f64, dual: &mut [f64]) {
        any!(self, loss => loss.ascend(scores, y, q, dual));
    }
    fn contenders(
        &self,
        scores: &[f64],
        y: u32,
        q: f64,
        nonzeros: &[(u32, f64)],
        out: &mut Vec<u32>,
    ) -> bool {
        any!(self, loss => loss.contenders(scores, y, q, nonzeros, out))
    }
    fn on_simplex(&self) -> bool {
        any!(self, loss => loss.on_simplex())
    }
    fn quadratic(&self) -> Option<f64> {
        any!(self, loss => loss.quadratic())
    }
    fn make_feasible(&self, dual: &mut [f64], y: u32) {
        any!(self, loss => loss.make_feasible(dual, y));
    }
    fn hinge_sign(&self, o: usize, y: u32) -> Option<f64> {
        any!(self, loss => loss.hinge_sign(o, y))
    }
    fn shares(&self, scores: &[f64], dual: &[f64], stride: usize, labels: &[f64], out: &mut [f64]) {
        any!(self, loss => loss.shares(scores, dual, stride, labels, out));
    }
    fn radius2(&self) -> f64 {
        any!(self, loss => loss.radius2())
    }
    fn steepest(&self) -> f64 {
        any!(self, loss => loss.steepest())
    }
    fn smooth(&self) -> Option<(f64, f64)> {
        any!(self, loss => loss.smooth())
    }
}
