//! Several classes with kernels: what many problems over the same rows are, against each of them by itself.

use pegasos::{
    AnyLoss, Average, Binary, Dense, DualAscent, Error, Examples, Expansion, ExpansionState, Folds,
    Hypothesis, Kernel, KernelAscent, Loss, Multiclass, OneVsOne, OneVsRest, Params, Refit, Span,
    Trainer, Versus,
};

use crate::generated::{Problem, Uniform, joint};

const K: usize = 4;
const LOSS: AnyLoss = AnyLoss::Hinge;
const KERNEL: Kernel = Kernel::Rbf { gamma: 0.5 };

fn rest() -> Multiclass {
    Multiclass::OneVsRest(OneVsRest { loss: LOSS, positives: (0..K as u32).collect() })
}

fn pairs() -> Multiclass {
    Multiclass::OneVsOne(OneVsOne { loss: LOSS, classes: K })
}

/// The problems that the scores of a loss are those of.
fn parts(loss: &Multiclass) -> Vec<Versus<AnyLoss>> {
    let of = |positive, negative| Versus { loss: LOSS, positive, negative };
    let classes = 0..K as u32;
    match loss {
        Multiclass::OneVsRest(_) => classes.map(|class| of(class, None)).collect(),
        _ => classes
            .flat_map(|first| (first + 1..K as u32).map(move |second| of(first, Some(second))))
            .collect(),
    }
}

fn near(got: f64, want: f64, tol: f64, what: &str) {
    assert!((got - want).abs() <= tol * (1.0 + want.abs()), "{what}: {got}, not {want}");
}

fn scores(w: &Expansion<f64>, data: &Examples<'_, f64>) -> Vec<f64> {
    let mut scores = vec![0.0; data.len() * w.outputs()];
    let rows: Vec<usize> = (0..data.len()).collect();
    w.scores_side_by_side(data.rows(), &rows, &mut scores);
    scores
}

/// Whatever is asked of a loss of several problems is the sum, or the list, of what each of them answers.
#[test]
fn losses_are_sums() {
    for loss in [rest(), pairs()] {
        let parts = parts(&loss);
        assert_eq!((loss.problems(), loss.zeros().len()), (parts.len(), parts.len()));
        for y in 0..K as u32 {
            let scores: Vec<f64> =
                (0..parts.len()).map(|o| ((7 * o + 3) % 11) as f64 / 4.0 - 1.25).collect();
            let mut coef = vec![9.0; parts.len()];
            let value = loss.value_and_coef(&scores, y, &mut coef);
            let mut dual: Vec<f64> = coef.iter().map(|c| 0.5 * c).collect();
            let (mut sum, mut conjugates, mut excess) = (0.0, 0.0, 0.0_f64);
            let mut ascended = dual.clone();
            loss.ascend(&scores, y, 0.7, &mut ascended);
            for (o, part) in parts.iter().enumerate() {
                let (mut own, mut a) = ([9.0], [dual[o]]);
                sum += part.value_and_coef(&scores[o..=o], y, &mut own);
                assert_eq!(coef[o], own[0], "{part:?} {y}");
                conjugates += part.conjugate(&a, y);
                excess = excess.max(part.excess(&a, y));
                assert_eq!(loss.hinge_sign(o, y), part.hinge_sign(0, y), "{part:?} {y}");
                assert_eq!(part.concerns(y), part.hinge_sign(0, y) != Some(0.0));
                part.ascend(&scores[o..=o], y, 0.7, &mut a);
                assert_eq!(ascended[o], a[0], "{part:?} {y}");
                // A point that is outside, in every problem.
                let mut outside = [4.0];
                part.make_feasible(&mut outside, y);
                assert!(part.excess(&outside, y) <= 1.0);
            }
            near(value, sum, 1e-15, "loss");
            near(loss.conjugate(&dual, y), conjugates, 1e-15, "conjugate");
            near(loss.excess(&dual, y), excess, 1e-15, "excess");
            dual.iter_mut().for_each(|a| *a += 3.0);
            loss.make_feasible(&mut dual, y);
            assert!(loss.excess(&dual, y) <= 1.0);
        }
    }
}

/// Votes are counted as scikit-learn counts them; what is classified right is no mistake.
#[test]
fn votes_and_mistakes() {
    let loss = OneVsOne { loss: AnyLoss::Hinge, classes: 3 };
    let mut votes = [0.0; 3];
    // One vote each: the sums of the scores decide.
    loss.votes(&[1.0, -3.0, 0.5], &mut votes);
    near(votes[0], 1.0 - 2.0 / 9.0, 1e-15, "votes");
    near(votes[1], 1.0 - 0.5 / 4.5, 1e-15, "votes");
    near(votes[2], 1.0 + 2.5 / 10.5, 1e-15, "votes");
    for (y, wrong) in [(0, true), (1, true), (2, false)] {
        assert_eq!(loss.errs(&[1.0, -3.0, 0.5], y, 0.0, 0.0), wrong);
    }
    let loss = OneVsRest { loss: AnyLoss::Hinge, positives: vec![0, 1, 2] };
    for (y, wrong) in [(0, true), (1, false), (2, true)] {
        assert_eq!(loss.errs(&[-3.0, -0.5, -0.5], y, 0.0, 0.0), wrong);
    }
}

/// Steps of kernel Pegasos: each score is that of its own problem, trained alone.
#[test]
fn steps_are_those_of_each_problem() {
    let problem = Problem::of_classes(260, 4, K, 5);
    let data = Examples::new(problem.dense(), &problem.y, Some(&problem.weight)).unwrap();
    let params = Params { lambda: 0.01, ..Params::default() };
    for loss in [rest(), pairs()] {
        let w = |outputs| Expansion::new(KERNEL, outputs, problem.d).unwrap();
        let mut all = Trainer::new(w(loss.problems()), loss.clone(), params).unwrap();
        all.keep_ledger(data.len());
        all.run(&data, (0..data.len()).chain(0..data.len())).unwrap();
        let together = scores(all.hypothesis(), &data);
        let mut sum = pegasos::Certificate { primal: 0.0, dual: 0.0 };
        for (o, part) in parts(&loss).into_iter().enumerate() {
            let mut alone = Trainer::new(w(1), part, params).unwrap();
            alone.keep_ledger(data.len());
            alone.run(&data, (0..data.len()).chain(0..data.len())).unwrap();
            let alone_scores = scores(alone.hypothesis(), &data);
            for (i, want) in alone_scores.iter().enumerate() {
                near(together[i * loss.problems() + o], *want, 1e-10, "score");
            }
            sum += alone.certificate(&data).unwrap();
        }
        let certificate = all.certificate(&data).unwrap();
        near(certificate.primal, sum.primal, 1e-10, "objective");
        assert!(certificate.dual <= sum.primal && certificate.dual.is_finite());
    }
}

/// Dual ascent: so is every certificate, whatever may be cached and wherever it starts.
#[test]
fn ascents_are_those_of_each_problem() -> Result<(), Error> {
    let problem = Problem::of_classes(700, 4, K, 8);
    let data = Examples::new(problem.dense(), &problem.y, Some(&problem.weight))?;
    for loss in [rest(), pairs()] {
        for lambda in [1e-2, 1e-5] {
            let alone: Vec<_> = parts(&loss)
                .into_iter()
                .map(|part| {
                    let mut ascent = KernelAscent::new(KERNEL, part, lambda, &data, 1 << 30)?;
                    let certificate = ascent.solve(&data, 1e-8, 1000)?;
                    Ok((certificate, scores(&ascent.result(&data)?, &data)))
                })
                .collect::<Result<_, Error>>()?;
            for cache in [0, 1 << 18, 1 << 30] {
                let mut ascent = KernelAscent::new(KERNEL, loss.clone(), lambda, &data, cache)?;
                let certificate = ascent.solve(&data, 1e-8, 10_000)?;
                let what = format!("{loss:?} {lambda} {cache}");
                assert!(certificate.relative_gap() <= 1e-8, "{what}: {certificate:?}");
                let w = ascent.result(&data)?;
                let together = scores(&w, &data);
                let mut sum = 0.0;
                let each: Vec<_> = ascent.certificates().collect();
                assert_eq!(each.len(), alone.len());
                for (o, (own, (want, alone_scores))) in each.iter().zip(&alone).enumerate() {
                    sum += own.primal;
                    // Both bounds lie below both objectives; up to roundings of sums, as some end with a gap of 0.
                    let below = |dual: f64, primal: f64| dual <= primal * (1.0 + 1e-14);
                    let meet = below(own.dual, want.primal) && below(want.dual, own.primal);
                    assert!(meet, "{what} {o}: {own:?}, {want:?}");
                    for (i, want) in alone_scores.iter().enumerate() {
                        near(together[i * alone.len() + o], *want, 2e-2, &what);
                    }
                }
                near(certificate.primal, sum, 1e-12, &what);
                let norm2 = w.norm2_afresh();
                near(w.norm2(), norm2, 1e-6, "norm");
            }
        }
    }
    Ok(())
}

/// What examples score where their fold is held out is what they score by ascent on the others alone, at the same C or at the
/// same lambda; and w is what it is without that.
#[test]
fn held_out_scores_are_those_of_others() -> Result<(), Error> {
    const N: usize = 300;
    let problem = Problem::of_classes(N, 4, K, 18);
    let data = Examples::new(problem.dense(), &problem.y, Some(&problem.weight))?;
    let of: Vec<u32> = (0..N as u32).map(|i| i * 7 % 3).collect();
    let (lambda, tol) = (1e-3, 1e-9);
    for (loss, constant) in [(rest(), 0.0), (pairs(), 0.0), (pairs(), 3.0)] {
        let begin = || KernelAscent::new(KERNEL, loss.clone(), lambda, &data, 1 << 30);
        let mut plain = begin()?.with_constant(constant)?;
        plain.solve(&data, tol, 1000)?;
        for keeps_lambda in [false, true] {
            let parts = (0..3).map(|k| (0..N).filter(|&i| of[i] != k).collect());
            let others: Vec<Vec<usize>> = parts.collect();
            let part = |k: usize| N as f64 / others[k].len() as f64;
            let times = (0..3).map(|k| if keeps_lambda { part(k) } else { 1.0 }).collect();
            let mut ascent = begin()?.with_constant(constant)?;
            assert!(ascent.hold_out(&data, Folds::new(of.clone(), times)?)?);
            assert_eq!(ascent.held_out_scores(), None);
            ascent.solve(&data, tol, 1000)?;
            assert_eq!(ascent.dual(), plain.dual());
            let found = ascent.held_out_scores().expect("all problems are solved");
            for (k, others) in others.iter().enumerate() {
                let x: Vec<f64> = others.iter().flat_map(|&i| problem.row(i).to_vec()).collect();
                let y: Vec<u32> = others.iter().map(|&i| problem.y[i]).collect();
                let weight: Vec<f64> = others.iter().map(|&i| problem.weight[i]).collect();
                let rows = Dense::new(&x, y.len(), problem.d)?;
                let rest = Examples::new(rows, &y, Some(&weight))?;
                let own = if keeps_lambda { lambda } else { lambda * part(k) };
                let alone = KernelAscent::new(KERNEL, loss.clone(), own, &rest, 1 << 30)?;
                let mut alone = alone.with_constant(constant)?;
                alone.solve(&rest, tol, 1000)?;
                let want = scores(&alone.result(&rest)?, &data);
                for (at, (found, want)) in found.iter().zip(want).enumerate() {
                    let (i, o) = (at / loss.problems(), at % loss.problems());
                    if loss.hinge_sign(o, problem.y[i]) == Some(0.0) {
                        assert_eq!(*found, 0.0);
                    } else if of[i] as usize == k {
                        near(*found, want, 1e-3, &format!("{loss:?} {constant} {at}"));
                    }
                }
            }
        }
    }
    Ok(())
}

/// Pairs of so many classes that coefficients stand as lists: scores are those of all coefficients, and what is stored comes back
/// to the last bit, as lists and as all of them.
#[test]
fn coefficients_of_many_pairs() -> Result<(), Error> {
    const CLASSES: usize = 9;
    let problem = Problem::of_classes(400, 4, CLASSES, 77);
    let data = Examples::new(problem.dense(), &problem.y, Some(&problem.weight))?;
    let loss = OneVsOne { loss: LOSS, classes: CLASSES };
    let pairs = loss.outputs();
    let mut ascent = KernelAscent::new(KERNEL, loss, 1e-3, &data, 1 << 30)?;
    ascent.solve(&data, 1e-3, 1000)?;
    let exact = ascent.result(&data)?;
    let params = Params { lambda: 1e-2, average: Average::Polynomial, ..Params::default() };
    let mut trainer = Trainer::new(Expansion::new(KERNEL, pairs, problem.d)?, loss, params)?;
    trainer.run(&data, 0..data.len())?;
    let steps = trainer.hypothesis().clone();
    for w in [exact, steps.mean().expect("an average"), steps] {
        let want = scores(&w, &data);
        let (n, d) = (w.n_vectors(), problem.d);
        let mut x = vec![0.0; n * d];
        let mut all = vec![0.0; n * pairs];
        for slot in 0..n {
            w.vector(slot, &mut x[slot * d..][..d]);
            w.coef(slot, &mut all[slot * pairs..][..pairs]);
            let mut own = vec![0.0; pairs];
            w.for_each_coef(slot, |o, coef| own[o] = coef);
            assert_eq!(own, all[slot * pairs..][..pairs]);
        }
        let vectors = Dense::new(&x, n, d)?;
        for (i, want) in want.chunks(pairs).enumerate() {
            let mut one = vec![0.0; pairs];
            w.score(data.rows().row(i), &mut one);
            for (o, (want, one)) in want.iter().zip(one).enumerate() {
                let row = problem.row(i);
                let mut sum = 0.0;
                for (k, z) in x.chunks(d).enumerate() {
                    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum();
                    let value = KERNEL.eval(dot(row, z), dot(row, row), dot(z, z));
                    sum += all[k * pairs + o] * value;
                }
                near(*want, sum, 1e-10, "score");
                assert_eq!(*want, one);
            }
        }
        let state = w.state();
        assert!(state.v.len() < n * pairs / 2 && state.ends.len() == n);
        let mut dense = state.clone();
        (dense.ends, dense.outputs) = (Vec::new(), Vec::new());
        (dense.v, dense.u) = (vec![0.0; n * pairs], vec![0.0; state.u.len().min(1) * n * pairs]);
        let starts = [0].into_iter().chain(state.ends.iter().map(|&end| end as usize));
        for (slot, (start, &end)) in starts.zip(&state.ends).enumerate() {
            for at in start..end as usize {
                let place = slot * pairs + state.outputs[at] as usize;
                dense.v[place] = state.v[at];
                if let Some(u) = state.u.get(at) {
                    dense.u[place] = *u;
                }
            }
        }
        for stored in [&state, &dense] {
            let mut again = Expansion::new(KERNEL, pairs, d)?;
            again.restore(&vectors.into(), None, stored)?;
            assert_eq!(scores(&again, &data), want);
            let (found, kept) =
                (again.state(), |of: &[f64]| of.iter().filter(|v| **v != 0.0).count());
            assert_eq!(kept(&found.v), kept(&state.v));
            assert_eq!(
                again.mean().map(|w| scores(&w, &data)),
                w.mean().map(|w| scores(&w, &data))
            );
        }
    }
    Ok(())
}

/// Lists of coefficients that do not fit the vectors, or the outputs.
#[test]
fn lists_that_fit_nothing_are_refused() -> Result<(), Error> {
    let x = Dense::new(&[0.0, 1.0, 2.0], 3, 1)?.into();
    for (ends, outputs, what) in [
        (vec![2, 1, 3], vec![0, 1, 0], "ends must have in ascending order"),
        (vec![1, 2, 4], vec![0, 0, 0], "ends must have in ascending order"),
        (vec![1, 2, 2], vec![0, 0, 0], "ends must have 3 at last"),
        (vec![1, 3], vec![0, 0, 0], "ends must have 3 entries"),
        (vec![1, 2, 3], vec![0, 40, 0], "outputs"),
        (vec![1, 2, 3], vec![0, 0], "v must have 2"),
        (vec![2, 2, 3], vec![5, 5, 0], "outputs must have in ascending order"),
        (vec![2, 2, 3], vec![6, 5, 0], "outputs must have in ascending order"),
        (vec![1, 2, u64::MAX], vec![0, 0, 0], "ends must have in ascending order"),
    ] {
        let mut w = Expansion::<f64>::new(KERNEL, 40, 1)?;
        let (v, counts) = (vec![1.0; 3], vec![1; 3]);
        let state = ExpansionState { v, counts, ends, outputs, ..Default::default() };
        let error = w.restore(&x, None, &state).unwrap_err().to_string();
        assert!(error.starts_with(what), "{what}: {error}");
    }
    Ok(())
}

/// Nothing is held out of what does not know how; and no number that no fold can have is taken.
#[test]
fn who_cannot_hold_out_says_so() -> Result<(), Error> {
    let problem = Problem::of_classes(400, 3, K, 2);
    let data = Examples::new(problem.dense(), &problem.y, None)?;
    let folds = |n: usize| Folds::new((0..n as u32).map(|i| i % 2).collect(), vec![1.0; 2]);
    let mut ascent = KernelAscent::new(KERNEL, joint(K), 1e-2, &data, 1 << 30)?;
    assert!(!ascent.hold_out(&data, folds(400)?)?);
    ascent.solve(&data, 1e-2, 100)?;
    assert_eq!(ascent.held_out_scores(), None);
    // No room for a problem as a whole; a kernel that may not be positive.
    assert!(!KernelAscent::new(KERNEL, pairs(), 1e-2, &data, 0)?.hold_out(&data, folds(400)?)?);
    let kernel = Kernel::Sigmoid { gamma: 1.0, coef0: 0.0 };
    assert!(
        !KernelAscent::new(kernel, pairs(), 1e-2, &data, 1 << 30)?.hold_out(&data, folds(400)?)?
    );
    let mut ascent = KernelAscent::new(KERNEL, pairs(), 1e-2, &data, 1 << 30)?;
    assert!(ascent.hold_out(&data, folds(399)?).is_err());
    assert!(Folds::new(vec![0, 2, 1], vec![1.0; 2]).is_err());
    for times in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(Folds::new(vec![0, 1], vec![1.0, times]).is_err(), "{times}");
    }
    assert!(Folds::new(Vec::new(), Vec::new())?.is_empty());
    Ok(())
}

/// Where the regularisation is so weak that ascent leaps: the solution is that of the linear engine, and a point of the
/// dual.
#[test]
fn weak_regularisation() -> Result<(), Error> {
    let problem = Problem::of_classes(300, 6, K, 91);
    let data = Examples::new(problem.dense(), &problem.y, Some(&problem.weight))?;
    let joint = joint(K);
    let (lambda, tol) = (1e-5, 1e-5);
    for (loss, constant) in [(joint, 0.0), (rest(), 0.0), (pairs(), 0.0), (rest(), 0.7)] {
        let ascent = KernelAscent::new(Kernel::Linear, loss.clone(), lambda, &data, 1 << 28)?;
        let mut ascent = ascent.with_constant(constant)?;
        let got = ascent.solve(&data, tol, 1000)?;
        let mut linear = DualAscent::new(loss.clone(), lambda, data.len(), 6, constant)?;
        let want = linear.solve(&data, tol, 100_000, 0)?;
        assert!(got.relative_gap() <= tol && want.relative_gap() <= tol, "{got:?}, {want:?}");
        near(got.primal, want.primal, 2.0 * tol, "the objective");
        assert_eq!(ascent.result(&data)?.constant(), constant);
        let dual = ascent.dual();
        for (i, a) in dual.chunks(loss.zeros().len()).enumerate() {
            assert!(loss.excess(a, problem.y[i]) <= 1.0 + 1e-12, "{a:?}");
            assert!(loss.conjugate(a, problem.y[i]).is_finite(), "{a:?}");
        }
    }
    Ok(())
}

/// Rows that are all alike, in several classes: nothing is better than w = 0, and ways lead nowhere.
#[test]
fn rows_that_are_alike() -> Result<(), Error> {
    let mut random = Uniform::new(5);
    let y: Vec<u32> = (0..150).map(|_| (6.0 * random.draw()) as u32).collect();
    let x = vec![1.0; 300];
    let data = Examples::new(Dense::new(&x, 150, 2)?, &y, None)?;
    let joint = joint(6);
    let mut ascent = KernelAscent::new(KERNEL, joint, 1e-7, &data, 1 << 28)?;
    let certificate = ascent.solve(&data, 1e-2, 100)?;
    assert!(certificate.relative_gap() <= 1e-2, "{certificate:?}");
    near(certificate.primal, 1.0, 1e-2, "the objective");
    Ok(())
}

/// No number of threads changes a bit, of problems side by side and of all classes in one.
#[cfg(feature = "rayon")]
#[test]
fn threads_change_no_bit() {
    let problem = Problem::of_classes(1500, 5, K, 9);
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    let joint = joint(K);
    for loss in [rest(), pairs(), joint] {
        for cache in [1 << 16, 1 << 30] {
            let learn = |threads| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| {
                    let ascent = KernelAscent::new(KERNEL, loss.clone(), 1e-4, &data, cache);
                    let mut ascent = ascent.unwrap();
                    let of = (0..data.len() as u32).map(|i| i % 4).collect();
                    ascent.hold_out(&data, Folds::new(of, vec![1.0; 4]).unwrap()).unwrap();
                    let certificate = ascent.solve(&data, 1e-2, 200).unwrap();
                    let scores = scores(&ascent.result(&data).unwrap(), &data);
                    (certificate, ascent.dual(), scores, ascent.held_out_scores())
                })
            };
            assert_eq!(learn(1), learn(3), "{loss:?} {cache}");
        }
    }
}

/// A refit of a pair does not see examples of other classes: it is that of the pair, weighted.
#[test]
fn pairs_are_refitted_alone() -> Result<(), Error> {
    let problem = Problem::of_classes(400, 4, K, 3);
    let data = Examples::new(problem.dense(), &problem.y, None)?;
    let rows = problem.dense().into();
    let span = Span::new(KERNEL, &rows, &(0..40).collect::<Vec<_>>())?;
    let versus = Versus { loss: LOSS, positive: 1, negative: Some(3) };
    let mut refit = Refit::new(span.clone(), &[versus], 1e-3, data.len(), usize::MAX)?;
    let got = refit.solve(&data, 1e-9, 1000, 0)?;
    let weight: Vec<f64> =
        problem.y.iter().map(|y| f64::from(u8::from([1, 3].contains(y)))).collect();
    let weighted = Examples::new(problem.dense(), &problem.y, Some(&weight))?;
    let binary = Binary { loss: LOSS, positive: 1 };
    let mut alone = Refit::new(span, &[binary], 1e-3, data.len(), usize::MAX)?;
    let want = alone.solve(&weighted, 1e-9, 1000, 0)?;
    assert!(got.relative_gap() <= 1e-9 && want.relative_gap() <= 1e-9);
    near(got.primal, want.primal, 1e-8, "objective");
    for (got, want) in refit.coefs().iter().zip(alone.coefs()) {
        near(*got, want, 1e-2, "coefficient");
    }
    Ok(())
}

/// What predicts learns on as what it is: a w that is not 0 has a norm, wherever it comes from.
#[test]
fn what_is_handed_out_learns_on() {
    use pegasos::{
        Average, Expansion, ExpansionState, Fit, LinearProblems, LinearState, Matrix, Policy,
    };
    let x = [1.0, 0.5, -1.0, 0.25, 0.5, -2.0, -0.5, 1.0_f64];
    let rows = pegasos::Dense::new(&x, 4, 2).unwrap();
    let data = pegasos::Examples::new(rows, &[1, 0, 1, 0], None).unwrap();
    let params = pegasos::Params { lambda: 0.1, ..pegasos::Params::default() };
    let hinge = pegasos::Binary { loss: pegasos::Hinge, positive: 1 };
    let near = |a: f64, b: f64| assert!((a - b).abs() <= 1e-12 * b.abs(), "{a} {b}");

    let w = pegasos::Linear::<f64>::new(1, 2, 1.0).unwrap();
    let trainer = pegasos::Trainer::new(w, hinge, params).unwrap();
    let mut fit = Fit::new(LinearProblems::from(trainer), Policy::default());
    fit.run(&data).unwrap();
    let mut problems = fit.into_problem();
    let (all, own) = (problems.result().unwrap(), problems.results().unwrap().remove(0));
    let state = LinearState {
        v: own.weights(),
        b: own.intercepts(),
        constant: 1.0,
        ..LinearState::default()
    };
    let restored = pegasos::Linear::from_state(2, state).unwrap();
    for w in [&*all, &restored] {
        near(w.norm2(), own.norm2());
        let mut trainer = pegasos::Trainer::resume(w.clone(), hinge, params, 1000).unwrap();
        trainer.keep_ledger(4);
        assert!(trainer.ledger().is_none());
        trainer.run(&data, [0]).unwrap();
        // A thousandth of it is gone, and no more than one step came.
        assert!((trainer.hypothesis().weights()[0] - own.weights()[0]).abs() < 0.05);
    }

    let rbf = pegasos::Kernel::Rbf { gamma: 1.0 };
    let w = Expansion::<f64>::new(rbf, 1, 2).unwrap();
    let averaged = pegasos::Params { average: Average::Uniform, ..params };
    let mut trainer = pegasos::Trainer::new(w, hinge, averaged).unwrap();
    trainer.run(&data, 0..4).unwrap();
    let mean = trainer.result();
    trainer.jump(mean.clone(), 5).unwrap();
    trainer.run(&data, 0..4).unwrap();
    pegasos::Trainer::resume(mean, hinge, params, 4).unwrap().run(&data, 0..4).unwrap();

    let state = ExpansionState { v: vec![5.0; 4], counts: vec![1; 4], ..ExpansionState::default() };
    let mut w = Expansion::<f64>::new(rbf, 1, 2).unwrap();
    w.restore(&Matrix::from(rows), None, &state).unwrap();
    let mut trainer = pegasos::Trainer::resume(w, hinge, params, 1000).unwrap();
    trainer.keep_ledger(4);
    assert!(trainer.ledger().is_none() && trainer.hypothesis().norm2() > 1.0);
    trainer.run(&data, [0]).unwrap();
    let mut coef = [0.0];
    trainer.hypothesis().coef(3, &mut coef);
    assert!((coef[0] - 5.0).abs() < 0.05, "{coef:?}");
}

/// A class that has no output is one of the others, whatever its number: with labels that go beyond the outputs the solution is that of
/// labels 0 and 1.
#[test]
fn classes_without_an_output_are_the_others() -> Result<(), Error> {
    let problem = Problem::of_classes(40, 3, K, 11);
    let data = Examples::new(problem.dense(), &problem.y, None)?;
    for loss in [AnyLoss::SquaredHinge, AnyLoss::Logistic, AnyLoss::Hinge] {
        for positive in 0..K as u32 {
            let recoded: Vec<u32> = problem.y.iter().map(|y| u32::from(*y == positive)).collect();
            let two = Examples::new(problem.dense(), &recoded, None)?;
            let solve = |data: &Examples<'_, f64>, positive: u32| {
                let loss = Binary { loss, positive };
                let mut ascent = KernelAscent::new(KERNEL, loss, 1e-3, data, 1 << 20)?;
                ascent.solve(data, 1e-6, 1000)
            };
            let (got, want) = (solve(&data, positive)?, solve(&two, 1)?);
            assert!(got.relative_gap() <= 1e-6, "{loss:?} {positive}: {got:?}");
            near(got.primal, want.primal, 2e-6, "primal");
        }
    }
    Ok(())
}

/// Of what single precision cannot hold nothing would be learned.
#[test]
fn weights_have_a_bound() {
    let problem = Problem::of_classes(20, 2, 2, 3);
    let ascent = |weight: f64| {
        let weights = [&[weight][..], &[1.0; 19]].concat();
        let data = Examples::new(problem.dense(), &problem.y, Some(&weights)).unwrap();
        let loss = Binary { loss: LOSS, positive: 1 };
        KernelAscent::new(KERNEL, loss, 1.0, &data, 1 << 20).map(|_| ()).map_err(|e| e.to_string())
    };
    assert_eq!(ascent(1e37), Ok(()));
    assert!(ascent(2e37).unwrap_err().starts_with("sample_weight must be at most 1e37"));
}
