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
use crate::params::{Average, Block, Params};
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
        let at_once = self.params.block == Block::Mean(1) && self.flights.is_empty();
        let counts_alone = self.params.average == Average::None && self.regret.is_none();
        self.plain && at_once && counts_alone && self.hypothesis.single_mut().is_some()
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
        let Some(mut w) = self.hypothesis.single_mut() else {
            return Ok(());
        };
        let mut coef = loss.zeros();
        let &mut Counts { mut t, mut a, mut report } = counts;
        let ended = 'run: loop {
            let turns = match order.many(n, ahead) {
                Ok(Some(turns)) => turns,
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            };
            for turn in turns {
                let i = turn.row;
                let row = rows.get(i);
                let meanwhile = || {
                    let coming = turn.ask(rows, data);
                    if let Some(places) = places {
                        places.prefetch(coming);
                    }
                };
                if R::FAR_APART {
                    meanwhile();
                }
                if expects {
                    w.expect(rows.get(turn.next));
                }
                let y = match data.check_label(i, classes) {
                    Ok(y) => y,
                    Err(error) => break 'run Err(error),
                };
                let scores = [a * w.score(row)];
                // The score of a dense row is the sooner known for not waiting for this, and whether w moves.
                if !R::FAR_APART {
                    meanwhile();
                }
                if !scores[0].is_finite() {
                    break 'run Err(data.diagnose(i));
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
                if let Some(ledger) = &mut ledger {
                    ledger.record(i, &[coef]);
                }
                w.add(row, coef);
            }
        };
        w.end();
        report.examples += t - counts.t;
        *counts = Counts { t, a, report };
        ended
    }
}
