//! The loop where there is one output and a step is one example, applied at once: what a run does not change is decided
//! before it, what it does change is in registers.

use super::{Report, Trainer};
use crate::data::Rows;
use crate::error::Error;
use crate::examples::Examples;
use crate::feasible::Feasible;
use crate::hypothesis::Hypothesis;
use crate::ledger::Ledger;
use crate::loss::Loss;
use crate::order::Ahead;
use crate::params::{Average, Params};
use crate::schedule::Schedule;

/// What a run counts.
struct Counts {
    t: u64,
    /// The scale of w.
    a: f64,
    report: Report,
}

impl<H: Hypothesis, L: Loss, F: Feasible<H>> Trainer<H, L, F> {
    /// Whether a step is what [`repeat_single`](Trainer::repeat_single) does, and no more.
    pub(super) fn is_single(&mut self) -> bool {
        let averages = self.params.average != Average::None;
        self.is_plain() && self.plain && !averages && self.hypothesis.single_mut().is_some()
    }

    /// [`repeat`](Trainer::repeat), to the same bits, where a step [is single](Trainer::is_single).
    // Apart, for the reason given there.
    #[inline(never)]
    pub(super) fn repeat_single<'a, R: Rows<'a, H::Scalar>>(
        &mut self,
        rows: R,
        data: &Examples<'a, H::Scalar>,
        order: Ahead<'_>,
        so_far: Report,
    ) -> Result<Report, Error> {
        let mut counts = Counts { t: self.t, a: self.hypothesis.scaled().a, report: so_far };
        let ended = self.visit(rows, data, order, &mut counts);
        // After an error too: the steps before it stand.
        self.hypothesis.set_scale(counts.a);
        self.t = counts.t;
        self.updates += counts.report.updates - so_far.updates;
        ended.map(|()| counts.report)
    }

    #[inline(always)]
    fn visit<'a, R: Rows<'a, H::Scalar>>(
        &mut self,
        rows: R,
        data: &Examples<'a, H::Scalar>,
        mut order: Ahead<'_>,
        counts: &mut Counts,
    ) -> Result<(), Error> {
        let expects = R::FAR_APART && self.hypothesis.expects(data.rows());
        let (n, ahead) = (data.len(), rows.ahead());
        let Params { lambda, t0, .. } = self.params;
        let (loss, at_zero, classes) = (&self.loss, self.at_zero, self.loss.classes());
        let places = self.ledger.as_ref().and_then(Ledger::places);
        let mut ledger = self.ledger.as_mut();
        // There is one: `is_single` has asked.
        let Some(mut w) = self.hypothesis.single_mut() else {
            return Ok(());
        };
        let mut coef = loss.zeros();
        // What is to be recorded of the rows at hand: their places in the ledger come while later rows are visited. With all
        // places asked for before it is known which rows move w, shuffled epochs over 54 dense features took 1.05 times as
        // long on an Intel Xeon, sparse ones as long.
        let mut noted: Vec<(usize, f64)> = Vec::new();
        let &mut Counts { mut t, mut a, mut report } = counts;
        let ended = loop {
            let many = match order.many(n, ahead) {
                Ok(Some(many)) => many,
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            };
            let visited = 'many: {
                for next in many {
                    let i = next.row;
                    let row = rows.get(i);
                    if R::FAR_APART {
                        next.ask(rows, data);
                    }
                    if expects {
                        w.expect(rows.get(next.after));
                    }
                    let y = match data.check_label(i, classes) {
                        Ok(y) => y,
                        Err(error) => break 'many Err(error),
                    };
                    let scores = [a * w.score(row)];
                    // The score of a dense row is the sooner known for not waiting for this, and whether w moves.
                    if !R::FAR_APART {
                        next.ask(rows, data);
                    }
                    if !scores[0].is_finite() {
                        break 'many Err(data.diagnose(i));
                    }
                    t += 1;
                    a = Schedule::Pegasos.eta(lambda, t0 + t as i64 as f64);
                    let Some(value) = loss.unmet(&scores, y, coef.as_mut()) else {
                        continue;
                    };
                    let weight = data.weight(i);
                    report.mistakes += u64::from(loss.errs(&scores, y, value, at_zero));
                    report.loss += weight * value;
                    let coef = weight * coef.as_ref()[0];
                    if coef == 0.0 {
                        continue;
                    }
                    report.updates += 1;
                    if let Some(places) = places {
                        places.prefetch(i);
                        noted.push((i, coef));
                    }
                    w.add(row, coef);
                }
                Ok(())
            };
            if let Some(ledger) = &mut ledger {
                noted.drain(..).for_each(|(i, coef)| ledger.record(i, &[coef]));
            }
            if visited.is_err() {
                break visited;
            }
        };
        w.end();
        report.examples += t - counts.t;
        *counts = Counts { t, a, report };
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Csr, Dense, Matrix};
    use crate::linear::Linear;
    use crate::loss::{AnyLoss, Binary};
    use crate::order::Sampling;
    use crate::regret::Regret;

    /// Rows of which some have no feature that is not 0, with labels that a line does not part.
    fn rows(n: usize, d: usize) -> (Vec<f32>, Vec<u32>, Vec<f64>) {
        let value = |i: usize| ((i * 7919 + 13) % 101) as f32 / 50.0 - 1.0;
        let x = (0..n * d).map(|i| if i / d % 11 == 3 { 0.0 } else { value(i) }).collect();
        let y = (0..n).map(|i| u32::from(value(3 * i) > 0.2)).collect();
        let weight = (0..n).map(|i| (i % 4) as f64 / 2.0).collect();
        (x, y, weight)
    }

    /// An account of the regret makes a run go through the loop for everything; it changes nothing else.
    #[test]
    fn every_bit_is_that_of_the_general_loop() {
        let (n, d) = (300, 21);
        let (x, y, weight) = rows(n, d);
        let indptr: Vec<i64> = (0..=n).map(|i| (i * d) as i64).collect();
        let indices: Vec<i64> = (0..n * d).map(|k| (k % d) as i64).collect();
        let (narrow_ptr, narrow): (Vec<i32>, Vec<i32>) = (
            indptr.iter().map(|p| *p as i32).collect(),
            indices.iter().map(|j| *j as i32).collect(),
        );
        let matrices: [Matrix<'_, f32>; 3] = [
            Dense::new(&x, n, d).unwrap().into(),
            Csr::new(&narrow_ptr, &narrow, &x, d).unwrap().into(),
            Csr::new(&indptr, &indices, &x, d).unwrap().into(),
        ];
        for (x, constant, weight) in matrices
            .into_iter()
            .flat_map(|x| [0.0, 1.0].map(|constant| (x, constant)))
            .flat_map(|(x, constant)| [None, Some(&*weight)].map(|weight| (x, constant, weight)))
        {
            for loss in [AnyLoss::Hinge, AnyLoss::SquaredHinge, AnyLoss::Logistic] {
                let data = Examples::new(x, &y, weight).unwrap();
                let params = Params { lambda: 8.0, ..Params::default() };
                let [fast, general] = [false, true].map(|general| {
                    let w = Linear::<f32>::new(1, d, constant).unwrap();
                    let loss = Binary { loss, positive: 1 };
                    let mut trainer = Trainer::new(w, loss, params).unwrap();
                    trainer.keep_ledger(n);
                    if general {
                        trainer.keep_regret(Regret::default()).unwrap();
                    }
                    assert_eq!(trainer.is_single(), !general);
                    let reports: Vec<Report> = (0..3)
                        .map(|epoch| {
                            let order = Sampling::Shuffle.epoch(n, 5, epoch).unwrap();
                            trainer.run(&data, order).unwrap()
                        })
                        .collect();
                    let sums: Vec<Vec<f32>> =
                        (0..n).map(|i| trainer.ledger().unwrap().sums(i).into_owned()).collect();
                    let w = trainer.hypothesis();
                    let counts = (trainer.t(), trainer.updates(), reports);
                    (w.weights(), w.intercepts(), counts, sums)
                });
                assert_eq!(fast, general, "{loss:?}, {constant}");
            }
        }
    }

    /// Steps before an error stand, with all that is counted of them.
    #[test]
    fn steps_before_an_error_stand() {
        let (mut x, y, _) = rows(100, 4);
        x[4 * 60 + 2] = f32::INFINITY;
        let data = Examples::new(Dense::new(&x, 100, 4).unwrap(), &y, None).unwrap();
        let loss = Binary { loss: AnyLoss::Hinge, positive: 1 };
        let w = Linear::<f32>::new(1, 4, 0.0).unwrap();
        let mut trainer = Trainer::new(w, loss, Params::default()).unwrap();
        trainer.keep_ledger(100);
        let error = trainer.run(&data, 0..100).unwrap_err().to_string();
        assert!(error.contains("row 60, column 2"), "{error}");
        let mut other =
            Trainer::new(Linear::<f32>::new(1, 4, 0.0).unwrap(), loss, Params::default()).unwrap();
        other.keep_ledger(100);
        let report = other.run(&data, 0..60).unwrap();
        assert_eq!((trainer.t(), trainer.updates()), (60, report.updates));
        assert_eq!(trainer.hypothesis(), other.hypothesis());
        assert_eq!(trainer.ledger(), other.ledger());
        let error = trainer.run(&data, [1, 2, 100]).unwrap_err().to_string();
        assert!(error.contains("100"), "{error}");
        assert_eq!(trainer.t(), 62);
    }
}
