//! Dual ascent with kernels: from where kernel Pegasos is, or from nothing, to any certified gap.
//!
//! * Problem: the dual of `P(w) = lambda/2 ||w||^2 + 1/n sum_i s_i loss(<w, phi(x_i)>; y_i)`, as in
//!   [`DualAscent`](crate::DualAscent), with `w(a) = 1/(lambda n) sum_i s_i a_i phi(x_i)`.
//! * Step: of all examples take some ([`WORKING`] or more), those whose shares of the gap are the largest, and
//!   the kernel values among them; ascend among them until their part of the gap has come down to a twentieth;
//!   then bring the scores of all examples up to date, by one product of matrices. So n enters into products
//!   alone.
//! * Among the working set: for the hinge loss of one score one example at a time, the one whose step promises
//!   most, found by the very pass that makes the step before known to all
//!   ([`descend`](crate::simd::Simd::descend)). For other losses the [`BLOCK`] with the largest shares
//!   at a time, by [`Loss::ascend`] in turn.
//! * Carried: a, and every example's scores at w(a), in f64. The gap is the sum of the examples' shares,
//!   `s_i/n (loss + loss* + <a_i, scores_i>)`, so every step begins with a certificate, at no cost.
//! * Cost: with m examples in the working set, of a step O(n m) kernel values, and O(m) of a step within it.
//!   Memory: 24 bytes an example and output, and m^2 kernel values.
//! * By instalments: kernel values of the set row by row, scores of all examples row by row, so that a caller is
//!   heard in between. What a step has found stands once all scores know of it; until then it can be undone.
//! * Positive kernels only have a dual: of others nothing is certified, D is NaN, and steps go on, as those of other
//!   solvers do, without an end that they could prove.
//! * Source: decomposition as in Joachims (1999); without an intercept there is no constraint that ties
//!   examples together, so the steps are those of coordinate ascent (Hsieh et al. 2008), greedy as in Platt
//!   (1998).

mod working;

use crate::error::Error;
use crate::examples::Examples;
use crate::expansion::Expansion;
use crate::feasible::Feasible;
use crate::hypothesis::Hypothesis;
use crate::kernel::Kernel;
use crate::ledger::Certificate;
use crate::loss::Loss;
use crate::memory;
use crate::params::check_lambda;
use crate::scalar::Scalar;
use crate::simd::{LANES, WIDTH};
use crate::threads::side_by_side;
use crate::trainer::Trainer;
use crate::vectors::{CHUNK, GROUP, Layout, Vectors};

/// Examples that the first step ascends among. In trials on the problems of `benches/kernels.py` the checkerboard
/// took about twice as long with 4,096 as with this many, and with 1,024; the digits hardly longer with either.
const WORKING: usize = 2048;

/// And the last ones at most: more, and a step would take longer than a caller may want to wait.
const MOST: usize = 8192;

/// A step that leaves more than this of the gap is followed by one among twice as many examples. In a trial a9a,
/// sparse, where thousands of support vectors are free, took 27 s with 2,048 throughout, 4.4 s with 4,096.
const SLOW: f64 = 0.5;

/// Examples that are ascended among together, where that is not done one at a time.
const BLOCK: usize = 64;

/// A point of the dual that is worse than 0 is halved this often at most, to find a part that is not.
const HALVINGS: i32 = 20;

/// Maximises the dual of a kernel problem, a working set at a time.
///
/// ```
/// use pegasos::{Binary, Dense, Examples, Hinge, Hypothesis, Kernel, KernelAscent};
///
/// // No line separates these.
/// let x = [0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0_f64];
/// let data = Examples::new(Dense::new(&x, 4, 2)?, &[1, 1, 0, 0], None)?;
/// let loss = Binary { loss: Hinge, positive: 1 };
/// let kernel = Kernel::Rbf { gamma: 2.0 };
/// let mut ascent = KernelAscent::new(kernel, loss, 1e-3, &data, 1 << 30)?;
/// let certificate = ascent.solve(&data, 1e-6, 1000)?;
/// assert!(certificate.relative_gap() <= 1e-6);
/// let mut score = [0.0];
/// ascent.result(&data)?.score(data.rows().row(3), &mut score);
/// assert!(score[0] < -0.9);
/// # Ok::<(), pegasos::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct KernelAscent<S, L> {
    kernel: Kernel,
    loss: L,
    lambda: f64,
    n_features: usize,
    /// `a`, examples x outputs, in the domain of the conjugate.
    dual: Vec<f64>,
    /// Outputs x examples, at w(a).
    scores: Vec<f64>,
    /// How many examples a step ascends among, now and at most.
    working: usize,
    most: usize,
    /// Where the last step began.
    last_gap: f64,
    /// The step at hand, as long as it has moved nothing.
    step: Option<Step<S>>,
    /// What the scores do not know yet.
    pending: Option<Pending<S>>,
    /// Whether dual values bound the objective.
    positive: bool,
    /// As of the last survey.
    mean_loss: f64,
}

/// Shares of the gap, times n, and whose they are.
type Shares = Vec<(f64, u32)>;

/// A working set, and the kernel values among its first rows.
#[derive(Clone, Debug)]
struct Step<S> {
    set: Vec<usize>,
    vectors: Vectors<S>,
    /// Times the signs of both, a row of `stride` each.
    gram: Vec<S>,
    stride: usize,
    /// How many rows.
    computed: usize,
    /// What the gap of the set, times n, need not fall below.
    enough: f64,
}

/// Coefficients in w that have changed, and what that adds to the scores of the first rows.
#[derive(Clone, Debug)]
struct Pending<S> {
    vectors: Vectors<S>,
    /// Chunk after chunk of vectors, within it output after output.
    coefs: Vec<f64>,
    /// Row after row.
    added: Vec<f64>,
    /// Whose dual variables have changed, and what they were before: nothing where they began as they are.
    before: Vec<(usize, Vec<f64>)>,
}

/// What an example of weight 1 has in the gap, times n; its loss; `<a, scores>`.
#[inline(always)]
fn share_of<L: Loss>(
    loss: &L,
    dual: &[f64],
    scores: &[f64],
    y: u32,
    coef: &mut [f64],
) -> (f64, f64, f64) {
    let value = loss.value_and_coef(scores, y, coef);
    let cross: f64 = dual.iter().zip(scores).map(|(a, s)| a * s).sum();
    (value + loss.conjugate(dual, y) + cross, value, cross)
}

impl<S: Scalar, L: Loss> KernelAscent<S, L> {
    /// Starts from a = 0. Checks all rows. With [`Kernel::Precomputed`] column i must belong to row i. `cache`
    /// is how many bytes of kernel values there may be, at least those among 64 examples.
    pub fn new(
        kernel: Kernel,
        loss: L,
        lambda: f64,
        data: &Examples<'_, S>,
        cache: usize,
    ) -> Result<Self, Error> {
        kernel.check()?;
        check_lambda(lambda, false)?;
        let (n, n_features) = (data.len(), data.rows().n_features());
        if kernel == Kernel::Precomputed && n != n_features {
            return Err(Error::shape(
                "X",
                format_args!("a column for each of its {n} rows, being kernel values"),
                n_features,
            ));
        }
        data.check(0..n)?;
        for i in 0..n {
            data.check_label(i, loss.classes())?;
        }
        let most = (cache / size_of::<S>()).isqrt().clamp(BLOCK, MOST);
        let outputs = loss.zeros().as_ref().len();
        let dual = memory::zeros("the dual variables", &[n, outputs])?;
        let scores = memory::zeros("the scores", &[n, outputs])?;
        Ok(KernelAscent {
            kernel,
            loss,
            lambda,
            n_features,
            dual,
            scores,
            working: WORKING.min(most),
            most,
            last_gap: f64::INFINITY,
            step: None,
            pending: None,
            positive: kernel.is_positive(),
            mean_loss: f64::NAN,
        })
    }

    /// Says that kernel values which rows hold already are those of a kernel that is positive semi-definite; see
    /// [`Expansion::assume_positive`].
    pub fn assume_positive(&mut self) {
        self.positive = true;
    }

    /// Starts from where a trainer is: from its w and the dual point of its ledger, scaled down together
    /// where that is not feasible, or worse than nothing; from a = 0 if it keeps no ledger.
    pub fn take_over<F: Feasible<Expansion<S>>>(
        trainer: &Trainer<Expansion<S>, L, F>,
        data: &Examples<'_, S>,
        cache: usize,
    ) -> Result<Self, Error>
    where
        L: Clone,
    {
        let w = trainer.hypothesis();
        let (loss, lambda) = (trainer.loss().clone(), trainer.params().lambda);
        let mut ascent = KernelAscent::new(w.kernel(), loss, lambda, data, cache)?;
        ascent.positive = w.is_positive();
        w.check_features(data.rows().n_features())?;
        let (n, outputs) = (data.len(), w.outputs());
        let Some((ledger, factor)) = trainer.dual_point(n) else {
            return Ok(ascent);
        };
        let excess = ledger.excess(&ascent.loss, factor, data);
        for (i, a) in ascent.dual.chunks_mut(outputs).enumerate() {
            let weight = data.weight(i);
            if weight > 0.0 {
                ledger.dual(i, factor / (excess * weight), a);
                ascent.loss.make_feasible(a, data.label(i));
            }
        }
        // Where lambda n is small, w overshoots: D is below that of a = 0, but not that of some part of it.
        let image = ascent.lambda / 2.0 * w.norm2() / (excess * excess);
        let mut part = vec![0.0; outputs];
        let mut value = |c: f64| {
            let conjugates = ascent.dual.chunks(outputs).enumerate().map(|(i, a)| {
                part.iter_mut().zip(a).for_each(|(part, a)| *part = c * a);
                data.weight(i) * ascent.loss.conjugate(&part, data.label(i))
            });
            -conjugates.sum::<f64>() / n as f64 - c * c * image
        };
        let mut c = 1.0;
        if value(c) <= 0.0 {
            let parts = (1..=HALVINGS).map(|k| 0.5_f64.powi(k)).map(|c| (value(c), c));
            (_, c) = parts.fold((0.0, 0.0), |a, b| if b.0 > a.0 { b } else { a });
        }
        ascent.dual.iter_mut().for_each(|a| *a *= c);
        // Not those of the trainer's w: the ledger's sums are rounded, and scores must be those of w(a).
        let c = 1.0 / (ascent.lambda * n as f64);
        let coefs = ascent.dual.chunks(outputs).enumerate();
        let coefs = coefs.flat_map(|(i, a)| a.iter().map(move |a| c * data.weight(i) * a));
        let (numbers, coefs): (Vec<usize>, Vec<f64>) = ((0..n).collect(), coefs.collect());
        ascent.begin_update(data, &numbers, &coefs, Vec::new())?;
        Ok(ascent)
    }

    fn len(&self) -> usize {
        self.dual.len() / self.outputs()
    }

    /// `a`, examples x outputs.
    pub fn dual(&self) -> &[f64] {
        &self.dual
    }

    /// The mean loss where the last step began; NaN before the first.
    pub fn mean_loss(&self) -> f64 {
        self.mean_loss
    }

    fn outputs(&self) -> usize {
        self.loss.zeros().as_ref().len()
    }

    /// The objective at w(a), and D. O(examples x outputs), after a step as much as that.
    pub fn certificate(&mut self, data: &Examples<'_, S>) -> Result<Certificate, Error> {
        self.finish(data)?;
        Ok(self.proved(self.survey(data)?.0))
    }

    /// Brings the step at hand, if there is one, to its end, so that the scores are those of w(a).
    fn finish(&mut self, data: &Examples<'_, S>) -> Result<(), Error> {
        data.check_len(self.len())?;
        while self.go_on(data, data.len())? {}
        Ok(())
    }

    /// Takes back what not all scores know of: w(a) is what it was before the step at hand. `None` if nothing was
    /// before it: the scores of where it began are not known.
    pub fn settled(mut self) -> Option<Self> {
        self.step = None;
        if let Some(pending) = self.pending.take() {
            let outputs = self.outputs();
            for (i, before) in &pending.before {
                self.dual[i * outputs..(i + 1) * outputs].copy_from_slice(before);
            }
            return (!pending.before.is_empty()).then_some(self);
        }
        Some(self)
    }

    /// Computes so many rows of what the step at hand needs; false where there is none.
    fn go_on(&mut self, data: &Examples<'_, S>, rows: usize) -> Result<bool, Error> {
        if self.update(data, rows)? {
            return Ok(true);
        }
        let Some(mut step) = self.step.take() else {
            return Ok(false);
        };
        if step.computed < step.set.len() {
            self.compute_gram(data, &mut step, rows);
            self.step = Some(step);
            return Ok(true);
        }
        let outputs = self.outputs();
        let of = |dual: &[f64], i: usize| dual[i * outputs..(i + 1) * outputs].to_vec();
        let before: Vec<_> = step.set.iter().map(|&i| (i, of(&self.dual, i))).collect();
        let gained = match self.loss.hinge_sign(0) {
            Some(_) => self.descend(data, &step),
            None => self.ascend(data, &step),
        };
        self.begin_update(data, &step.set, &gained, before)?;
        Ok(true)
    }

    /// The certificate, the examples that have a share in the gap, and the mean loss.
    fn survey(&self, data: &Examples<'_, S>) -> Result<(Certificate, Shares, f64), Error> {
        let (n, outputs) = (self.len(), self.outputs());
        data.check_len(n)?;
        let (mut scores, mut scratch) = (self.loss.zeros(), self.loss.zeros());
        let (scores, scratch) = (scores.as_mut(), scratch.as_mut());
        let mut shares = Vec::new();
        let (mut gap, mut loss, mut cross) = (0.0, 0.0, 0.0);
        for (i, dual) in self.dual.chunks(outputs).enumerate() {
            scores.iter_mut().enumerate().for_each(|(o, score)| *score = self.scores[o * n + i]);
            let (y, weight) = (data.label(i), data.weight(i));
            let (share, value, product) = share_of(&self.loss, dual, scores, y, scratch);
            gap += weight * share;
            loss += weight * value;
            cross += weight * product;
            if weight * share > 0.0 {
                shares.push((weight * share, i as u32));
            }
        }
        let n = n as f64;
        // lambda ||w||^2 is the mean of <a_i, scores_i>.
        let primal = (cross / 2.0 + loss) / n;
        if !primal.is_finite() {
            return Err(Error::non_finite("X", "the objective overflows"));
        }
        Ok((Certificate { primal, dual: primal - gap / n }, shares, loss / n))
    }

    /// The certificate, as far as it proves anything.
    fn proved(&self, certificate: Certificate) -> Certificate {
        let dual = if self.positive { certificate.dual } else { f64::NAN };
        Certificate { dual, ..certificate }
    }

    /// A step, unless the relative gap is at most `tol`, by instalments: `None` where so many rows of the step before were
    /// computed. The certificate comes where a step begins; the calls after that go on with it.
    pub(crate) fn advance(
        &mut self,
        data: &Examples<'_, S>,
        tol: f64,
        rows: usize,
    ) -> Result<Option<Certificate>, Error> {
        data.check_len(self.len())?;
        if self.go_on(data, rows)? { Ok(None) } else { self.begin(data, tol).map(Some) }
    }

    /// Begins a step, when all scores are those of w(a).
    fn begin(&mut self, data: &Examples<'_, S>, tol: f64) -> Result<Certificate, Error> {
        let (certificate, mut shares, mean_loss) = self.survey(data)?;
        self.mean_loss = mean_loss;
        // Steps of a kernel that is not positive go on as long as somebody wants them.
        if self.proved(certificate).relative_gap() <= tol || shares.is_empty() {
            return Ok(self.proved(certificate));
        }
        // Among equals, as all are at the beginning, in no order that data may have.
        let mixed = |i: u32| i.wrapping_mul(0x9E37_79B9);
        if certificate.gap() > SLOW * self.last_gap {
            self.working = (2 * self.working).min(self.most);
        }
        self.last_gap = certificate.gap();
        let working = self.working.min(shares.len());
        if working < shares.len() {
            shares.select_nth_unstable_by(working, |a, b| {
                b.0.total_cmp(&a.0).then(mixed(a.1).cmp(&mixed(b.1)))
            });
        }
        let mut set: Vec<usize> = shares[..working].iter().map(|share| share.1 as usize).collect();
        set.sort_unstable();
        let mut vectors = Vectors::new(self.n_features, Layout::of(self.kernel, data.rows()));
        vectors.reserve(set.len())?;
        set.iter().for_each(|&i| vectors.push(i, data.rows().row(i)));
        let stride = set.len().next_multiple_of(WIDTH.max(LANES));
        let gram = memory::zeros("kernel values of the working set", &[set.len(), stride])?;
        // No better than will do: a fifth of what all examples together may have left.
        let enough = 0.2 * tol * certificate.primal * self.len() as f64;
        self.step = Some(Step { set, vectors, gram, stride, computed: 0, enough });
        Ok(self.proved(certificate))
    }

    /// Steps until the relative gap is at most `tol`, so many times at most.
    pub fn solve(
        &mut self,
        data: &Examples<'_, S>,
        tol: f64,
        most_steps: usize,
    ) -> Result<Certificate, Error> {
        for _ in 0..most_steps {
            self.finish(data)?;
            let certificate = self.begin(data, tol)?;
            if certificate.relative_gap() <= tol {
                return Ok(certificate);
            }
        }
        self.certificate(data)
    }

    /// All scores must learn what coefficients in w have gained, examples x outputs.
    fn begin_update(
        &mut self,
        data: &Examples<'_, S>,
        set: &[usize],
        gained: &[f64],
        before: Vec<(usize, Vec<f64>)>,
    ) -> Result<(), Error> {
        let outputs = self.outputs();
        let mut vectors = Vectors::new(self.n_features, Layout::of(self.kernel, data.rows()));
        let moved = set.iter().zip(gained.chunks(outputs));
        let moved: Vec<_> = moved.filter(|(_, gained)| gained.iter().any(|&c| c != 0.0)).collect();
        vectors.reserve(moved.len())?;
        memory::check::<f64>("changes of the scores", &[self.scores.len()])?;
        let mut coefs = vec![0.0; moved.len().div_ceil(CHUNK) * CHUNK * outputs];
        for (k, (&i, gained)) in moved.into_iter().enumerate() {
            for (o, c) in gained.iter().enumerate() {
                coefs[(k / CHUNK * outputs + o) * CHUNK + k % CHUNK] = *c;
            }
            vectors.push(i, data.rows().row(i));
        }
        let added = Vec::with_capacity(self.scores.len());
        self.pending = Some(Pending { vectors, coefs, added, before });
        Ok(())
    }

    /// Brings the scores of so many rows up to date; says whether any were not. In f64 whatever the scalar:
    /// small differences of large sums are what is left at the end.
    fn update(&mut self, data: &Examples<'_, S>, rows: usize) -> Result<bool, Error> {
        let (n, outputs) = (self.len(), self.outputs());
        let Some(Pending { vectors, coefs, added, .. }) = &mut self.pending else {
            return Ok(false);
        };
        let first = added.len() / outputs;
        let end = n.min(first.saturating_add(rows.max(1)));
        let numbers: Vec<usize> = (first..end).collect();
        let kernel = self.kernel;
        let mut groups: Vec<&[usize]> = numbers.chunks(GROUP).collect();
        let sums = side_by_side(&mut groups, |_, rows| {
            let mut values = vec![S::default(); rows.len() * CHUNK];
            let mut sums = vec![0.0; rows.len() * outputs];
            for (chunk, coefs) in coefs.chunks(CHUNK * outputs).enumerate() {
                let slots = chunk * CHUNK..vectors.len().min((chunk + 1) * CHUNK);
                let len = slots.len();
                vectors.kernel_values(kernel, data.rows(), rows, slots, &mut values, CHUNK);
                for (values, sums) in values.chunks(CHUNK).zip(sums.chunks_mut(outputs)) {
                    for (coefs, sum) in coefs.chunks(CHUNK).zip(sums) {
                        *sum += S::dot(&values[..len], &coefs[..len]);
                    }
                }
            }
            sums
        });
        sums.iter().for_each(|sums| added.extend_from_slice(sums));
        if end == n {
            for (i, added) in added.chunks(outputs).enumerate() {
                if !added.iter().all(|added| added.is_finite()) {
                    return Err(data.diagnose(i));
                }
                for (o, added) in added.iter().enumerate() {
                    self.scores[o * n + i] += added;
                }
            }
            self.pending = None;
        }
        Ok(true)
    }

    /// w(a): its support vectors are the examples with `a_i != 0`, numbered as rows of the data.
    pub fn result(&mut self, data: &Examples<'_, S>) -> Result<Expansion<S>, Error> {
        self.finish(data)?;
        let (n, outputs) = (self.len(), self.outputs());
        let layout = Layout::of(self.kernel, data.rows());
        let mut w = Expansion::with(self.kernel, outputs, self.n_features, layout)?;
        if self.positive {
            w.assume_positive();
        }
        w.number_rows(n)?;
        let c = 1.0 / (self.lambda * n as f64);
        let mut coef = vec![0.0; outputs];
        let mut norm2 = 0.0;
        for i in 0..n {
            let factor = c * data.weight(i);
            for (o, coef) in coef.iter_mut().enumerate() {
                *coef = factor * self.dual[i * outputs + o];
                norm2 += *coef * self.scores[o * n + i];
            }
            if coef.iter().any(|&c| c != 0.0) {
                w.put(i, data.rows().row(i), &coef);
            }
        }
        w.set_norm2(norm2);
        Ok(w)
    }
}
