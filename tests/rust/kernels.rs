//! Kernel Pegasos and dual ascent with kernels: against the notes' pseudo-code, and against themselves.

use pegasos::{
    Average, Ball, Block, Budgeted, Dense, Error, ErrorKind, Examples, Expansion, Hypothesis,
    Kernel, KernelAscent, Linear, Loss, Maintenance, Matrix, Multiclass, Params, Row, Sampling,
    Scalar, Schedule, Trainer,
};

use crate::generated::{HINGE, Problem, Rule, dot, joint};

const CLASSES: Multiclass = joint(4);

/// More rows than two panels, so that all kinds of chunks and groups occur.
const N: usize = 300;

/// Of every kind, one.
pub fn kernels() -> [Kernel; 5] {
    [
        Kernel::Linear,
        Kernel::Rbf { gamma: 0.3 },
        Kernel::Rbf { gamma: 5.0 },
        Kernel::Poly { gamma: 0.5, coef0: 1.0, degree: 3 },
        Kernel::Sigmoid { gamma: 0.1, coef0: 0.2 },
    ]
}

/// Columns of sparse vectors have numbers of 32 bits: what does not fit is refused, not taken for another.
#[test]
fn columns_beyond_32_bits_are_refused() -> Result<(), Error> {
    let n_features = (1 << 32) + 64;
    let csr = pegasos::Csr::new(&[0_i64, 1, 2], &[(1 << 32) + 5, 5], &[1.0, 1.0], n_features)?;
    let data = Examples::new(csr, &[0, 1], None)?;
    // Or there is no memory for a row of so many.
    let refused = |error: Error| {
        let kind = error.kind();
        assert!(matches!(kind, ErrorKind::Memory { .. } | ErrorKind::Shape { .. }), "{error}");
    };
    refused(KernelAscent::new(Kernel::Linear, HINGE, 0.1, &data, 0).unwrap_err());
    let w = Expansion::sparse(Kernel::Linear, 1, n_features)?;
    refused(Trainer::new(w, HINGE, Params::default())?.run(&data, 0..2).unwrap_err());
    Ok(())
}

/// The formula, in f64.
fn value(kernel: Kernel, x: &[f64], z: &[f64]) -> f64 {
    match kernel {
        Kernel::Linear | Kernel::Precomputed => dot(x, z),
        Kernel::Rbf { gamma } => {
            (-gamma * x.iter().zip(z).map(|(x, z)| (x - z).powi(2)).sum::<f64>()).exp()
        }
        Kernel::Poly { gamma, coef0, degree } => (gamma * dot(x, z) + coef0).powi(degree as i32),
        Kernel::Sigmoid { gamma, coef0 } => (gamma * dot(x, z) + coef0).tanh(),
    }
}

fn gram(kernel: Kernel, problem: &Problem) -> Vec<Vec<f64>> {
    let rows: Vec<Vec<f64>> = (0..problem.y.len()).map(|i| problem.features(i, 0.0)).collect();
    rows.iter().map(|x| rows.iter().map(|z| value(kernel, x, z)).collect()).collect()
}

/// Stratos' notes, section 3, with mini-batches, the projection and averages: a coefficient for every
/// example and output, w never written down. Returns the coefficients and the scores of all examples.
struct Naive<'a> {
    gram: &'a [Vec<f64>],
    problem: &'a Problem,
    rule: Rule,
    params: Params,
}

impl Naive<'_> {
    fn scores(&self, alpha: &[Vec<f64>], i: usize) -> Vec<f64> {
        let of = |o: usize| (0..alpha.len()).map(|j| alpha[j][o] * self.gram[j][i]).sum();
        (0..self.rule.outputs()).map(of).collect()
    }

    fn norm2(&self, alpha: &[Vec<f64>]) -> f64 {
        (0..alpha.len()).map(|i| dot(&alpha[i], &self.scores(alpha, i))).sum()
    }

    fn train(&self, order: &[usize]) -> Vec<Vec<f64>> {
        let Params { lambda, block, set, average, average_from, .. } = self.params;
        let Block::Mean(batch) = block else { panic!("no delays here") };
        let outputs = self.rule.outputs();
        let mut alpha = vec![vec![0.0; outputs]; self.gram.len()];
        let (mut mean, mut total) = (alpha.clone(), 0.0);
        for (t, rows) in (1..).zip(order.chunks(batch)) {
            let eta = 1.0 / (lambda * t as f64);
            let coefs: Vec<(usize, Vec<f64>)> = rows
                .iter()
                .map(|&i| (i, self.rule.coef(&self.scores(&alpha, i), self.problem.y[i])))
                .collect();
            alpha.iter_mut().flatten().for_each(|a| *a *= 1.0 - 1.0 / t as f64);
            for (i, coef) in coefs {
                for (a, c) in alpha[i].iter_mut().zip(coef) {
                    *a += eta * self.problem.weight[i] * c / rows.len() as f64;
                }
            }
            if let Some(Ball { radius }) = set {
                let norm = self.norm2(&alpha).max(0.0).sqrt();
                if norm > radius {
                    alpha.iter_mut().flatten().for_each(|a| *a *= radius / norm);
                }
            }
            if average != Average::None && t as u64 >= average_from {
                let k = (t as u64 - average_from + 1) as f64;
                let q = if average == Average::Uniform { 1.0 } else { k * (k + 1.0) * (k + 2.0) };
                total += q;
                for (m, a) in mean.iter_mut().flatten().zip(alpha.iter().flatten()) {
                    *m += (a - *m) * q / total;
                }
            }
        }
        if total > 0.0 { mean } else { alpha }
    }
}

pub fn expansion<S: Scalar, L: Loss>(
    kernel: Kernel,
    loss: L,
    params: Params,
    data: &Examples<'_, S>,
    numbered: bool,
) -> Trainer<Expansion<S>, L> {
    let outputs = loss.zeros().as_ref().len();
    let d = data.rows().n_features();
    let mut w = match data.rows().is_sparse() {
        true => Expansion::sparse(kernel, outputs, d).unwrap(),
        false => Expansion::new(kernel, outputs, d).unwrap(),
    };
    if numbered {
        w.number_rows(data.len()).unwrap();
    }
    Trainer::new(w, loss, params).unwrap()
}

fn scores_of<S: Scalar>(w: &Expansion<S>, x: &Matrix<'_, S>) -> Vec<f64> {
    let numbers: Vec<usize> = (0..x.n_rows()).collect();
    let mut out = vec![0.0; numbers.len() * w.outputs()];
    w.scores(x, &numbers, &mut out);
    out
}

pub fn compositions() -> Vec<Params> {
    let base = Params { lambda: 0.02, ..Params::default() };
    vec![
        base,
        Params { block: Block::Mean(7), ..base },
        Params { set: Some(Ball { radius: 3.0 }), ..base },
        Params { average: Average::Polynomial, average_from: 20, ..base },
        Params {
            average: Average::Uniform,
            set: Some(Ball { radius: 2.0 }),
            block: Block::Mean(3),
            ..base
        },
    ]
}

fn near(got: &[f64], want: &[f64], tolerance: f64, what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    let size = want.iter().fold(1.0, |most: f64, w| most.max(w.abs()));
    for (k, (got, want)) in got.iter().zip(want).enumerate() {
        assert!((got - want).abs() <= tolerance * size, "{what}: {got}, not {want}, at {k}");
    }
}

pub fn epochs(n: usize, epochs: u64) -> Vec<usize> {
    (0..epochs).flat_map(|epoch| Sampling::Shuffle.epoch(n, 5, epoch).unwrap()).collect()
}

/// What training gives, against the notes' coefficients.
fn agrees<'a, L: Loss + Clone>(
    x: impl Into<Matrix<'a, f64>>,
    loss: L,
    (naive, alpha): (&Naive<'a>, &[Vec<f64>]),
    kernel: Kernel,
    order: &[usize],
) {
    let problem = naive.problem;
    let data = Examples::new(x, &problem.y, Some(&problem.weight)).unwrap();
    let want: Vec<f64> = (0..problem.n).flat_map(|i| naive.scores(alpha, i)).collect();
    for numbered in [true, false] {
        let what = format!("{kernel:?} {:?} numbered: {numbered}", naive.params);
        let mut trainer = expansion(kernel, loss.clone(), naive.params, &data, numbered);
        trainer.run(&data, order.iter().copied()).unwrap();
        let w = trainer.result();
        near(&scores_of(&w, data.rows()), &want, 1e-9, &what);
        let mut one = vec![0.0; w.outputs()];
        w.score(data.rows().row(17), &mut one);
        near(&one, &want[17 * one.len()..18 * one.len()], 1e-9, &what);
        if kernel != Kernel::Precomputed || naive.params.average == Average::None {
            near(&[w.norm2_afresh()], &[naive.norm2(alpha)], 1e-9, &what);
        }
        let Some(rows) = w.rows() else {
            continue;
        };
        let mut seen = vec![vec![0.0; w.outputs()]; alpha.len()];
        for (slot, &row) in rows.iter().enumerate() {
            w.coef(slot, &mut seen[row as usize]);
        }
        near(&seen.concat(), &alpha.concat(), 1e-9, &what);
    }
}

/// The steps of kernel Pegasos are the notes', for every kernel, composition and layout, whether rows have
/// numbers or not.
#[test]
fn training_is_the_notes() {
    fn check<L: Loss + Clone>(rule: Rule, loss: L, problem: &Problem) {
        let order = epochs(N, 2);
        for kernel in kernels() {
            // Indefinite, and then a norm has no meaning.
            let definite = !matches!(kernel, Kernel::Sigmoid { .. });
            let gram = gram(kernel, problem);
            for params in compositions().into_iter().filter(|p| definite || p.set.is_none()) {
                let naive = Naive { gram: &gram, problem, rule, params };
                let alpha = naive.train(&order);
                let told = (&naive, alpha.as_slice());
                agrees(problem.dense(), loss.clone(), told, kernel, &order);
                agrees(problem.csr().view(), loss.clone(), told, kernel, &order);
                let flat = gram.concat();
                let precomputed = Dense::new(&flat, N, N).unwrap();
                agrees(precomputed, loss.clone(), told, Kernel::Precomputed, &order);
            }
        }
    }
    let hinge = Rule::Margin(pegasos::AnyLoss::Hinge);
    check(hinge, HINGE, &Problem::new(N, 5, 3));
    check(Rule::CrammerSinger(4), CLASSES, &Problem::of_classes(N, 5, 4, 3));
}

/// With the linear kernel this is linear Pegasos, step by step, and an intercept is one.
#[test]
fn the_linear_kernel_is_linear() {
    fn check<L: Loss + Clone>(loss: L, problem: &Problem, constant: f64) {
        let data = Examples::new(problem.dense(), &problem.y, Some(&problem.weight)).unwrap();
        let inv = Schedule::InvScaling { eta0: 0.5, power: 0.5 };
        let base = compositions()[0];
        let more = [
            Params { schedule: inv, ..base },
            Params {
                schedule: inv,
                block: Block::Delayed(5),
                set: Some(Ball { radius: 1.0 }),
                ..base
            },
            Params { block: Block::Delayed(200), average: Average::Uniform, ..base },
            Params { t0: 30.0, ..base },
            Params {
                schedule: Schedule::Forgetting { horizon: 40.0 },
                average: Average::Recent { window: 9 },
                ..base
            },
        ];
        for params in compositions().into_iter().chain(more) {
            let outputs = loss.zeros().as_ref().len();
            let linear = Linear::<f64>::new(outputs, problem.d, constant).unwrap();
            let mut linear = Trainer::new(linear, loss.clone(), params).unwrap();
            let mut w = Expansion::new(Kernel::Linear, outputs, problem.d).unwrap();
            w = w.with_constant(constant).unwrap();
            w.number_rows(N).unwrap();
            let mut kernel = Trainer::new(w, loss.clone(), params).unwrap();
            linear.keep_ledger(N);
            kernel.keep_ledger(N);
            for epoch in 0..3 {
                let order: Vec<usize> = Sampling::Shuffle.epoch(N, 1, epoch).unwrap().collect();
                // In pieces, as gradients in flight must outlive a run.
                for piece in order.chunks(130) {
                    let a = linear.run(&data, piece.iter().copied()).unwrap();
                    let b = kernel.run(&data, piece.iter().copied()).unwrap();
                    assert_eq!((a.examples, a.updates), (b.examples, b.updates), "{params:?}");
                    near(&[a.loss], &[b.loss], 1e-9, "loss");
                }
                let what = format!("{params:?}");
                near(&[linear.hypothesis().norm2()], &[kernel.hypothesis().norm2()], 1e-9, &what);
                let (a, b) =
                    (linear.certificate(&data).unwrap(), kernel.certificate(&data).unwrap());
                near(&[b.primal], &[a.primal], 1e-9, &what);
                assert_eq!(a.dual.is_nan(), b.dual.is_nan(), "{what}");
                if !a.dual.is_nan() {
                    near(&[b.dual], &[a.dual], 1e-9, &what);
                }
            }
        }
    }
    for constant in [0.0, 1.5] {
        check(HINGE, &Problem::new(N, 6, 8), constant);
        check(CLASSES, &Problem::of_classes(N, 6, 4, 8), constant);
    }
}

/// The look-ahead is one of scoring, not of learning: a run of one row a time gives the same.
#[test]
fn panels_change_nothing() {
    let problem = Problem::of_classes(N, 5, 4, 2);
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    let kernel = Kernel::Rbf { gamma: 0.7 };
    let order = epochs(N, 2);
    for params in compositions() {
        let mut whole = expansion(kernel, CLASSES, params, &data, true);
        whole.run(&data, order.iter().copied()).unwrap();
        let want = scores_of(&whole.result(), data.rows());
        // Whole batches.
        for size in [21, 84, 105] {
            let mut pieces = expansion(kernel, CLASSES, params, &data, true);
            for piece in order.chunks(size) {
                pieces.run(&data, piece.iter().copied()).unwrap();
            }
            near(&scores_of(&pieces.result(), data.rows()), &want, 1e-11, &format!("{size}"));
            assert_eq!(pieces.result().counts(), whole.result().counts());
        }
    }
}

#[cfg(feature = "rayon")]
fn in_pool<T: Send>(threads: usize, f: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(f)
}

/// Enough rows of enough features that work is really shared.
fn large() -> Problem {
    Problem::of_classes(2000, 40, 4, 6)
}

#[test]
#[cfg(feature = "rayon")]
fn threads_change_no_bit() {
    let problem = large();
    let single = problem.single();
    let x = Dense::new(&single, problem.n, problem.d).unwrap();
    let data = Examples::new(x, &problem.y, None).unwrap();
    let kernel = Kernel::Rbf { gamma: 0.1 };
    let learn = |threads| {
        in_pool(threads, || {
            let params = Params { lambda: 1e-3, ..Params::default() };
            let mut trainer = expansion(kernel, CLASSES, params, &data, true);
            trainer.keep_ledger(problem.n);
            trainer.run(&data, epochs(problem.n, 1)).unwrap();
            let mut ascent = KernelAscent::take_over(&trainer, &data, 1 << 30).unwrap();
            let certificate = ascent.solve(&data, 1e-3, 20).unwrap();
            let w = ascent.result(&data).unwrap();
            let mut scores = vec![0.0; problem.n * 4];
            let numbers: Vec<usize> = (0..problem.n).collect();
            w.scores_side_by_side(data.rows(), &numbers, &mut scores);
            (trainer.hypothesis().state(), certificate, ascent.dual().to_vec(), scores)
        })
    };
    let one = learn(1);
    for threads in [2, 3] {
        let more = learn(threads);
        assert_eq!(one.0, more.0);
        assert_eq!(one.1, more.1);
        assert_eq!(one.2, more.2);
        assert_eq!(one.3, more.3);
    }
}

/// Kernel values that were cached are those that would be computed, whatever there is room for.
#[test]
fn what_is_cached_changes_no_bit() {
    let problem = large();
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    let order = epochs(problem.n, 3);
    let learn = |bytes: Option<usize>| {
        let params = Params { lambda: 1e-3, ..Params::default() };
        let mut w = Expansion::new(Kernel::Rbf { gamma: 0.1 }, 4, problem.d).unwrap();
        w.number_rows(problem.n).unwrap();
        if let Some(bytes) = bytes {
            w.cache_kernel(bytes);
        }
        let mut trainer = Trainer::new(w, CLASSES, params).unwrap();
        trainer.run(&data, order.iter().copied()).unwrap();
        assert!(trainer.hypothesis().n_vectors() > 600, "more than two chunks");
        trainer.hypothesis().state()
    };
    let want = learn(None);
    for bytes in [0, 1 << 20, 1 << 30] {
        assert_eq!(learn(Some(bytes)), want);
    }
}

/// Sparse rows of so many features that they are not packed compute what packed ones do.
#[test]
fn wide_sparse_rows_are_rows() {
    let problem = Problem::of_classes(N, 6, 4, 13);
    let mut wide = problem.csr();
    wide.n_features = 6000;
    wide.indices.iter_mut().for_each(|j| *j *= 1000);
    // A column that occurs twice counts as the sum.
    let (first, last) = (wide.indices[0], wide.values[0]);
    wide.indices.insert(0, first);
    wide.values.insert(0, 0.25 * last);
    wide.values[1] = 0.75 * last;
    wide.indptr[1..].iter_mut().for_each(|end| *end += 1);
    let narrow = Examples::new(problem.dense(), &problem.y, None).unwrap();
    let sparse = Examples::new(wide.view(), &problem.y, None).unwrap();
    for kernel in kernels() {
        let params = Params { lambda: 0.01, average: Average::Uniform, ..Params::default() };
        let mut a = expansion(kernel, CLASSES, params, &narrow, false);
        let mut b = expansion(kernel, CLASSES, params, &sparse, false);
        a.run(&narrow, epochs(N, 2)).unwrap();
        b.run(&sparse, epochs(N, 2)).unwrap();
        let (a, b) = (a.result(), b.result());
        near(&scores_of(&b, sparse.rows()), &scores_of(&a, narrow.rows()), 1e-9, "scores");
        near(&[b.norm2_afresh()], &[a.norm2_afresh()], 1e-9, "norm");
        let mut one = [0.0; 4];
        b.score(sparse.rows().row(3), &mut one);
        near(&one, &scores_of(&a, narrow.rows())[12..16], 1e-9, "one");
        // A row with a column that there is not has no score, packed vectors or not.
        for (w, beyond) in [(&a, [0, 6]), (&b, [0, 6000])] {
            w.score(Row::Sparse32(&beyond, &[1.0; 2]), &mut one);
            assert!(one.iter().all(|score| score.is_nan()), "{kernel:?} {one:?}");
        }
        let mut ascent = KernelAscent::new(kernel, CLASSES, 0.1, &sparse, 0).unwrap();
        let definite = !matches!(kernel, Kernel::Sigmoid { .. });
        let certificate = ascent.solve(&sparse, 1e-4, 1000).unwrap();
        assert!(!definite || certificate.relative_gap() <= 1e-4);
    }
}

/// A row that violates twice raises its own count; one of no known number becomes another vector.
#[test]
fn duplicates_raise_the_count() {
    let problem = Problem::new(40, 3, 1).unweighted();
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    let params = Params { lambda: 1e-3, ..Params::default() };
    let kernel = Kernel::Rbf { gamma: 1.0 };
    let order = epochs(40, 5);
    let mut known = expansion(kernel, HINGE, params, &data, true);
    let mut unknown = expansion(kernel, HINGE, params, &data, false);
    known.keep_ledger(40);
    let updates = known.run(&data, order.iter().copied()).unwrap().updates;
    unknown.run(&data, order.iter().copied()).unwrap();
    let (w, ledger) = (known.hypothesis(), known.ledger().unwrap());
    assert_eq!(w.counts().iter().map(|&c| u64::from(c)).sum::<u64>(), updates);
    assert!(w.n_vectors() <= 40 && w.counts().iter().any(|&c| c > 1));
    for (&row, &count) in w.rows().unwrap().iter().zip(w.counts()) {
        assert_eq!(ledger.sums(row as usize)[0].abs(), count as f32);
    }
    assert_eq!(unknown.hypothesis().n_vectors() as u64, updates);
    assert!(unknown.hypothesis().counts().iter().all(|&c| c == 1));
    near(
        &scores_of(unknown.hypothesis(), data.rows()),
        &scores_of(w, data.rows()),
        1e-10,
        "two slots or one",
    );
}

/// What was stored goes on as what was not.
#[test]
fn a_restored_expansion_goes_on() {
    let problem = Problem::of_classes(N, 5, 4, 9);
    let data = Examples::new(problem.dense(), &problem.y, Some(&problem.weight)).unwrap();
    let kernel = Kernel::Poly { gamma: 0.5, coef0: 1.0, degree: 2 };
    for params in compositions() {
        for numbered in [true, false] {
            let mut first = expansion(kernel, CLASSES, params, &data, numbered);
            first.run(&data, epochs(N, 1)).unwrap();
            let w = first.hypothesis();
            let mut features = vec![0.0; w.n_vectors() * 5];
            for (slot, row) in features.chunks_mut(5).enumerate() {
                w.vector(slot, row);
            }
            let rows = w.rows().map(|r| r.iter().map(|&i| i as usize).collect::<Vec<_>>());
            let mut again = Expansion::new(kernel, 4, 5).unwrap();
            if numbered {
                again.number_rows(N).unwrap();
            }
            let vectors = Dense::new(&features, w.n_vectors(), 5).unwrap();
            again.restore(&vectors.into(), rows.as_deref(), &w.state()).unwrap();
            let mut second = Trainer::resume(again, CLASSES, params, first.t()).unwrap();
            first.run(&data, 0..100).unwrap();
            second.run(&data, 0..100).unwrap();
            assert_eq!(first.hypothesis().state(), second.hypothesis().state(), "{params:?}");
        }
    }
}

/// The gap that is claimed is one of the objective that is claimed, of the model handed out; and it is
/// met from a cold and from a warm start, with little cache and with much.
#[test]
fn dual_ascent_reaches_the_optimum() {
    fn check<L: Loss + Clone>(rule: Rule, loss: L, problem: &Problem) {
        let data = Examples::new(problem.dense(), &problem.y, Some(&problem.weight)).unwrap();
        let n = problem.n as f64;
        for kernel in [Kernel::Linear, Kernel::Rbf { gamma: 0.5 }] {
            for lambda in [1e-1, 1e-3] {
                let gram = gram(kernel, problem);
                let mut trainer = expansion(
                    kernel,
                    loss.clone(),
                    Params { lambda, ..Params::default() },
                    &data,
                    true,
                );
                trainer.keep_ledger(problem.n);
                trainer.run(&data, epochs(problem.n, 1)).unwrap();
                let starts = [
                    KernelAscent::new(kernel, loss.clone(), lambda, &data, 1 << 30).unwrap(),
                    KernelAscent::new(kernel, loss.clone(), lambda, &data, 0).unwrap(),
                    KernelAscent::take_over(&trainer, &data, 1 << 30).unwrap(),
                ];
                let mut last = f64::NEG_INFINITY;
                for (k, mut ascent) in starts.into_iter().enumerate() {
                    let before = ascent.certificate(&data).unwrap();
                    let certificate = ascent.solve(&data, 1e-6, 10_000).unwrap();
                    let what = format!("{kernel:?} {lambda} start {k}");
                    assert!(certificate.relative_gap() <= 1e-6, "{what}: {certificate:?}");
                    assert!(certificate.dual >= before.dual - 1e-12, "{what}");
                    let w = ascent.result(&data).unwrap();
                    let mut alpha = vec![vec![0.0; w.outputs()]; problem.n];
                    for (slot, &row) in w.rows().unwrap().iter().enumerate() {
                        w.coef(slot, &mut alpha[row as usize]);
                    }
                    let naive = Naive { gram: &gram, problem, rule, params: Params::default() };
                    let mut objective = lambda / 2.0 * naive.norm2(&alpha);
                    let mut scratch = vec![0.0; w.outputs()];
                    for i in 0..problem.n {
                        let scores = naive.scores(&alpha, i);
                        let loss = loss.value_and_coef(&scores, problem.y[i], &mut scratch);
                        objective += problem.weight[i] * loss / n;
                    }
                    near(&[certificate.primal], &[objective], 1e-9, &what);
                    near(&[w.norm2()], &[naive.norm2(&alpha)], 1e-9, &what);
                    // Every bound lies below every objective.
                    assert!(last <= objective + 1e-12, "{what}");
                    last = last.max(certificate.dual);
                }
            }
        }
    }
    let hinge = Rule::Margin(pegasos::AnyLoss::Hinge);
    check(hinge, HINGE, &Problem::new(700, 5, 4));
    check(Rule::CrammerSinger(4), CLASSES, &Problem::of_classes(700, 5, 4, 4));
}

/// Two classes at lambda are the hinge at lambda/2, with kernels too.
#[test]
fn two_classes_are_the_hinge_at_half_the_lambda() {
    let problem = Problem::new(N, 5, 12);
    let data = Examples::new(problem.dense(), &problem.y, Some(&problem.weight)).unwrap();
    let kernel = Kernel::Rbf { gamma: 0.4 };
    let two = joint(2);
    let params = |lambda| Params { lambda, ..Params::default() };
    let mut one = expansion(kernel, HINGE, params(0.01), &data, true);
    let mut both = expansion(kernel, two, params(0.02), &data, true);
    one.run(&data, epochs(N, 2)).unwrap();
    both.run(&data, epochs(N, 2)).unwrap();
    let margins = scores_of(one.hypothesis(), data.rows());
    let scores = scores_of(both.hypothesis(), data.rows());
    let differences: Vec<f64> = scores.chunks(2).map(|s| s[1] - s[0]).collect();
    near(&differences, &margins, 1e-10, "differences of scores");
}

/// Bad rows stop training before they are learned, and bad parameters before that.
#[test]
fn doors_refuse_what_does_not_fit() {
    let name = |error: Error| match error.kind() {
        ErrorKind::Parameter { name, .. }
        | ErrorKind::Shape { name, .. }
        | ErrorKind::Index { name, .. }
        | ErrorKind::NonFinite { name, .. } => (*name).to_owned(),
        other => panic!("{other:?}"),
    };
    for kernel in [
        Kernel::Rbf { gamma: 0.0 },
        Kernel::Rbf { gamma: f64::NAN },
        Kernel::Poly { gamma: -1.0, coef0: 0.0, degree: 2 },
    ] {
        assert_eq!(name(Expansion::<f32>::new(kernel, 1, 3).unwrap_err()), "gamma");
    }
    let kernel = Kernel::Sigmoid { gamma: 1.0, coef0: f64::INFINITY };
    assert_eq!(name(Expansion::<f32>::new(kernel, 1, 3).unwrap_err()), "coef0");
    assert_eq!(name(Expansion::<f32>::new(Kernel::Linear, 0, 3).unwrap_err()), "w");

    for bad in [f64::NAN, f64::INFINITY, 1e200] {
        let mut problem = Problem::new(200, 3, 5);
        problem.x[3 * 150 + 1] = bad;
        let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
        for kernel in kernels() {
            let params = Params { lambda: 0.1, ..Params::default() };
            let mut trainer = expansion(kernel, HINGE, params, &data, true);
            let found = trainer.run(&data, 0..200);
            // A number that is only large may be nothing to a kernel that is bounded.
            if !bad.is_finite() || kernel == Kernel::Linear {
                assert_eq!(name(found.unwrap_err()), "X", "{kernel:?} {bad}");
                assert!(trainer.t() <= 151);
            }
            let mut score = [0.0];
            trainer.hypothesis().score(data.rows().row(0), &mut score);
            assert!(score[0].is_finite(), "{kernel:?} {bad}: {score:?}");
            let ascent = KernelAscent::new(kernel, HINGE, 0.1, &data, 0);
            assert_eq!(name(ascent.unwrap_err()), "X", "{kernel:?} {bad}");
        }
    }

    let problem = Problem::new(20, 3, 5);
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    let ascent = KernelAscent::new(Kernel::Precomputed, HINGE, 0.1, &data, 0);
    assert_eq!(name(ascent.unwrap_err()), "X");
    let ascent = KernelAscent::new(Kernel::Linear, HINGE, 0.0, &data, 0);
    assert_eq!(name(ascent.unwrap_err()), "lambda");
    let none = Examples::new(Dense::<f64>::new(&[], 0, 3).unwrap(), &[], None).unwrap();
    let ascent = KernelAscent::new(Kernel::Linear, HINGE, 0.1, &none, 0);
    assert_eq!(name(ascent.unwrap_err()), "X");
    let mut trainer =
        expansion(Kernel::Linear, HINGE, Params { lambda: 0.1, ..Params::default() }, &data, true);
    let wide = [0.0; 8];
    let wide = Examples::new(Dense::new(&wide, 2, 4).unwrap(), &[0, 1], None).unwrap();
    assert_eq!(name(trainer.run(&wide, 0..2).unwrap_err()), "X");
}

/// Pairs of classes have coefficients for few vectors each: then sums run over these alone.
#[test]
fn rare_coefficients_count_as_all_do() -> Result<(), Error> {
    fn of<S: Scalar>(near: f64) -> Result<(), Error> {
        let (n, d, outputs) = (N, 3, 90);
        let x: Vec<S> = (0..n * d).map(|k| S::from_f64((k as f64 * 0.7).sin())).collect();
        let x = Matrix::from(Dense::new(&x, n, d)?);
        let of_vector = |slot: usize, o: usize| -> f64 {
            let own = o % 45 == slot % 45 && o != 7;
            if own { (slot + o) as f64 * 0.01 - 1.0 } else { 0.0 }
        };
        let kernel = Kernel::Rbf { gamma: 0.3 };
        for raise in [0.0, 3.0] {
            let mut w = Expansion::new(kernel, outputs, d)?.with_constant(raise)?;
            let rows: Vec<usize> = (0..n).rev().chain([5, 5]).collect();
            let mut scores = vec![1.0; rows.len() * outputs];
            w.scores(&x, &rows, &mut scores);
            assert!(scores.iter().all(|&score| score == 0.0), "there are no vectors yet");
            for last in [100, 256, 270] {
                for slot in w.n_vectors()..last {
                    let coef: Vec<f64> = (0..outputs).map(|o| of_vector(slot, o)).collect();
                    w.add(slot, x.row(slot), &coef);
                }
                w.scores(&x, &rows, &mut scores);
                for count in [1, 2, 11] {
                    let mut some = vec![1.0; count * outputs];
                    w.scores(&x, &rows[..count], &mut some);
                    assert_eq!(some, scores[..count * outputs]);
                }
                let mut one = vec![0.0; outputs];
                for (&i, scores) in rows.iter().zip(scores.chunks(outputs)) {
                    // All coefficients, whether they are 0 or not.
                    w.score(x.row(i), &mut one);
                    assert!(scores[7] == 0.0 && one[7] == 0.0);
                    for (a, b) in scores.iter().zip(&one) {
                        assert!((a - b).abs() <= near * (1.0 + b.abs()), "{last}: {a} {b}");
                    }
                }
            }
            // No longer rare: nothing may remember what was.
            for slot in 0..40 {
                w.add(slot, x.row(slot), &vec![1.0; outputs]);
            }
            w.scores(&x, &[3], &mut scores[..outputs]);
            let mut one = vec![0.0; outputs];
            w.score(x.row(3), &mut one);
            assert!(scores.iter().zip(&one).all(|(a, b)| (a - b).abs() <= near * (1.0 + b.abs())));
        }
        Ok(())
    }
    of::<f64>(1e-12)?;
    of::<f32>(1e-4)
}

/// A gamma beyond the range of the rows' scalar is a kernel all the same: 1 where rows are equal, else 0.
#[test]
fn kernels_may_be_narrower_than_f32_tells() -> Result<(), Error> {
    for gamma in [1e30, 1e39, 1e300] {
        let kernel = Kernel::Rbf { gamma };
        let mut values = [1.0_f32, 1.0, 4.0];
        kernel.map(&mut values, 1.0, &[1.0, 2.0, 16.0]);
        assert_eq!(values, [1.0, 0.0, 0.0], "{gamma:e}");
        let x = [0.0_f32, 1.0, 2.0, 3.0, 1.0, 2.0];
        let data = Examples::new(Dense::new(&x, 6, 1)?, &[0, 1, 0, 1, 1, 0], None)?;
        let certificate =
            KernelAscent::new(kernel, HINGE, 1e-3, &data, 0)?.solve(&data, 1e-6, 100)?;
        assert!(certificate.relative_gap() <= 1e-6, "{gamma:e}: {certificate:?}");
        let w = Budgeted::new(kernel, 1, 1, Some(2), Maintenance::Merge)?;
        Trainer::new(w, HINGE, Params::default())?.run(&data, (0..6).cycle().take(60))?;
    }
    Ok(())
}
