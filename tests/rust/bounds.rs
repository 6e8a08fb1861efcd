//! Numbers that lie outside of what there is: rows, labels, columns, counts near the end of their range. Each is an error, or
//! is what the docs say; none is a panic, nor memory that nobody has.

use pegasos::{
    Agop, AnyLoss, Average, Binary, Csr, Dense, DualAscent, Error, ErrorKind, Examples, Expansion,
    Fit, Frozen, Hinge, Hypothesis, Kernel, KernelAscent, KernelProblem, Linear, LinearProblems,
    Loss, Matrix, Metric, Multiclass, OneVsOne, Params, Policy, Refit, Row, Sampling, Shapley,
    Solver, Span, Trainer,
};

use crate::generated::{CLASSES, HINGE, joint, trainer};

const KERNEL: Kernel = Kernel::Rbf { gamma: 0.5 };

fn pairs(classes: usize) -> Multiclass {
    Multiclass::OneVsOne(OneVsOne { loss: AnyLoss::Hinge, classes })
}

fn parameters<T>(result: Result<T, Error>, name: &str, value: &str) {
    let error = result.err().expect("an error");
    let text = error.to_string();
    assert!(text.starts_with(&format!("{name} must")) && text.ends_with(value), "{text}");
}

/// That this is an index of rows, of which there are so many, and is told.
fn rows<T>(result: Result<T, Error>, found: &str, count: usize) {
    let error = result.err().expect("an error");
    let want = ErrorKind::Index { name: "rows", value: found.to_owned(), bound: count };
    assert_eq!(*error.kind(), want);
}

fn shape<T>(result: Result<T, Error>, name: &str) {
    let error = result.err().expect("an error");
    assert!(error.to_string().starts_with(&format!("{name} must have ")), "{error}");
    assert!(matches!(error.kind(), ErrorKind::Shape { .. }), "{error}");
}

#[test]
fn rows_that_are_not_there() -> Result<(), Error> {
    let values = [0.0, 1.0, 2.0, -1.0, 0.5, 3.0];
    let x = Matrix::from(Dense::new(&values, 3, 2)?);
    let data = Examples::new(x, &[0, 1, 0], None)?;
    let mut w = Expansion::new(KERNEL, 1, 2)?;
    w.add(0, x.row(0), &[1.0]);
    let metrics = [Metric::<f64>::diagonal(&[1.0, 2.0])?, Metric::full(&[1.0, 2.0], 2)?];
    let linear = Frozen::Linear(std::sync::Arc::new(Linear::<f64>::new(1, 2, 1.0)?));
    let kernel = Frozen::Kernel(std::sync::Arc::new(w.clone()));
    let none = Frozen::Kernel(std::sync::Arc::new(Expansion::new(KERNEL, 1, 2)?));
    let trainer = trainer::<f64, _>(HINGE, 2, Params::default());
    for (wrong, found) in [(2..4, "3"), (0..9, "3"), (7..9, "7"), (0..usize::MAX, "3")] {
        rows(data.check(wrong.clone()), found, 3);
        rows(trainer.evaluation(&data)?.add(&trainer, &data, wrong.clone()), found, 3);
        for metric in &metrics {
            rows(metric.map(&x, wrong.clone(), &mut [0.0; 4]), found, 3);
        }
        rows(Shapley::new(&w, None)?.values(&x, wrong.clone()), found, 3);
        rows(Shapley::new(&w, None)?.add(&x, wrong.clone(), 0..1, &mut [0.0; 4]), found, 3);
        for model in [&linear, &kernel, &none] {
            rows(model.scoring(&x)?.scores(wrong.clone(), &mut [0.0; 2]), found, 3);
        }
    }
    let csr = Csr::new(&[0, 1], &[1], &[2.0], 2)?.into();
    rows(metrics[0].map_stored(&csr, 0..2, &mut [0.0]), "1", 1);
    for wrong in [&[3][..], &[0, 3], &[usize::MAX, 3]] {
        let found = wrong.iter().find(|i| **i > 2).unwrap().to_string();
        rows(Span::new(KERNEL, &x, wrong), &found, 3);
        rows(w.gradients(&x, wrong, &mut [0.0; 4]), &found, 3);
        rows(Agop::new(2, false)?.add(&w, &x, wrong, |_| 1.0), &found, 3);
    }
    // No rows are there, wherever they are not.
    data.check(9..9)?;
    metrics[0].map(&x, 9..9, &mut [])?;
    linear.scoring(&x)?.scores(9..9, &mut [])
}

#[test]
fn room_of_another_size() -> Result<(), Error> {
    let values = [0.0, 1.0, 2.0, -1.0, 0.5, 3.0];
    let x = Matrix::from(Dense::new(&values, 3, 2)?);
    let mut w = Expansion::new(KERNEL, 1, 2)?;
    w.add(0, x.row(0), &[1.0]);
    let model = Frozen::Kernel(std::sync::Arc::new(w.clone()));
    let empty = Expansion::new(KERNEL, 1, 2)?;
    for len in [0, 3, 5, 7, 100] {
        let mut out = vec![0.0; len];
        shape(w.gradients(&x, &[0, 1, 2], &mut out), "out");
        shape(empty.gradients(&x, &[0, 1, 2], &mut out), "out");
        shape(Metric::diagonal(&[1.0, 2.0])?.map(&x, 0..3, &mut out), "out");
        shape(Metric::full(&[1.0, 2.0, 3.0, 4.0], 2)?.map(&x, 0..3, &mut out), "out");
        shape(Shapley::new(&w, None)?.add(&x, 0..3, 0..1, &mut out), "out");
        shape(model.scoring(&x)?.scores(0..2, &mut out), "out");
    }
    let mut out = [0.0; 6];
    w.gradients(&x, &[0, 1, 2], &mut out)?;
    Metric::diagonal(&[1.0, 2.0])?.map(&x, 0..3, &mut out)?;
    assert_eq!(out, [0.0, 2.0, 2.0, -2.0, 0.5, 6.0]);
    Shapley::new(&w, None)?.add(&x, 0..3, 0..1, &mut out)
}

/// Labels that no run has met, as it saw others.
#[test]
fn labels_that_are_no_classes() -> Result<(), Error> {
    fn law(loss: Multiclass) -> Result<(), Error> {
        let values = [1.0, 2.0, 0.5, 1.0, -1.0, 0.5];
        let x = Dense::new(&values, 3, 2)?;
        let data = Examples::new(x, &[0, 1, 2], None)?;
        let wrong = Examples::new(x, &[0, 7, u32::MAX], None)?;
        let label = |error: Error| {
            let y = matches!(error.kind(), ErrorKind::Index { name: "y", .. });
            assert!(y, "{error}");
        };
        for ledger in [false, true] {
            let w = Linear::<f64>::new(loss.outputs(), 2, 1.0)?;
            let mut trainer = Trainer::new(w, loss.clone(), Params::default())?;
            if ledger {
                trainer.keep_ledger(3);
            }
            trainer.run(&data, [0, 1, 2, 0, 1, 2])?;
            label(trainer.certificate(&wrong).unwrap_err());
            assert_eq!(trainer.dual_value(&wrong), None);
            assert_eq!(trainer.dual_value(&data).is_some(), ledger);
            label(DualAscent::take_over(&trainer, &wrong).unwrap_err());
        }
        let mut dual = DualAscent::new(loss.clone(), 0.1, 3, 2, 1.0)?;
        dual.solve(&data, 1e-3, 10, 0)?;
        assert!(dual.dual_value(&wrong).is_nan() && dual.dual_value(&data) > 0.0);
        let short = Examples::new(Dense::new(&values, 2, 3)?, &[0, 1], None)?;
        assert!(dual.dual_value(&short).is_nan());
        label(dual.certificate(&wrong).unwrap_err());
        label(dual.leap(&wrong, 0.1).unwrap_err());
        dual.set_lambda(0.2)?;
        label(dual.solve(&wrong, 1e-3, 10, 0).unwrap_err());
        label(dual.run(&wrong, 0..3).unwrap_err());
        label(KernelAscent::new(KERNEL, loss.clone(), 0.1, &wrong, 1 << 20).err().unwrap());
        let free = DualAscent::with_free_intercept(loss, 0.1, &wrong);
        free.err().map(|_| ()).ok_or_else(|| unreachable!("labels were taken"))
    }
    law(CLASSES)?;
    law(pairs(3))
}

#[test]
fn fits_of_no_rows() -> Result<(), Error> {
    let none = Examples::new(Dense::<f64>::new(&[], 0, 2)?, &[], None)?;
    for solver in [Solver::Pegasos, Solver::Dual, Solver::Auto] {
        let policy = Policy { solver, ..Policy::default() };
        for count in 1..4 {
            let trainers = (0..count).map(|positive| {
                let loss = Binary { positive, ..HINGE };
                Trainer::new(Linear::<f64>::new(1, 2, 1.0)?, loss, Params::default())
            });
            let trainers = trainers.collect::<Result<Vec<_>, _>>()?;
            let ran = Fit::new(LinearProblems::new(trainers), policy).run(&none);
            assert_eq!(ran.unwrap_err().to_string(), "X must have at least one row, got 0");
        }
        let w = Expansion::<f64>::new(KERNEL, 1, 2)?;
        let kernel = KernelProblem::from(Trainer::new(w, HINGE, Params::default())?);
        let ran = Fit::new(kernel, policy).run(&none);
        assert_eq!(ran.unwrap_err().to_string(), "X must have at least one row, got 0");
    }
    let x = Dense::new(&[0.0, 1.0], 1, 2)?.into();
    let mut refit = Refit::new(Span::new(KERNEL, &x, &[0])?, &[HINGE], 0.1, 0, 1 << 20)?;
    assert!(format!("{:?}", refit.clone()).starts_with("Refit"));
    assert!(refit.solve(&none, 0.1, 10, 0).is_err());
    Ok(())
}

#[test]
fn columns_that_no_row_has() -> Result<(), Error> {
    let most = usize::MAX;
    let mut out = [9.0_f64; 4];
    Row::Sparse64(&[5, 1, 5], &[1.0, 2.0, 0.5]).pick(&[most, 5, 0, 1], &mut out);
    assert_eq!(out, [0.0, 1.5, 0.0, 2.0]);
    Row::Sparse32(&[5, 1, 5], &[1.0, 2.0, 0.5]).pick(&[1 << 40, 1, 5, 5], &mut out);
    assert_eq!(out, [0.0, 2.0, 1.5, 1.5]);
    Row::Sparse32(&[5, 1, 5], &[1.0, 2.0, 0.5]).pick(&[7, 1, 5, 5], &mut out);
    assert_eq!(out, [0.0, 2.0, 1.5, 1.5]);
    Row::Dense(&[1.0, 2.0]).pick(&[most, 1, 0, 2], &mut out);
    assert!(out[0].is_nan() && out[1..3] == [2.0, 1.0] && out[3].is_nan());
    Ok(())
}

/// Counts of steps, epochs and vectors near the end of their range.
#[test]
fn counts_without_end() -> Result<(), Error> {
    let values = [-3.0, -1.0, 1.0, 3.0];
    let x = Dense::new(&values, 4, 1)?;
    let y = [0, 0, 1, 1];
    let data = Examples::new(x, &y, None)?;
    let params = Params { average: Average::Recent { window: 8 }, ..Params::default() };
    let w = || Linear::<f64>::new(1, 1, 1.0);
    let far = Trainer::resume(w()?, HINGE, params, (1 << 62) - 1)?;
    parameters(Trainer::average_of(&[(0.2, &far); 5]), "t", "18446744073709551615");
    for average in [Average::Uniform, Average::Polynomial] {
        let params = Params { average, ..params };
        let far = Trainer::resume(w()?, HINGE, params, (1 << 62) - 1)?;
        assert!(Trainer::average_of(&[(0.2, &far); 5]).is_err());
        assert!(far.share(u64::MAX).is_err());
        assert!(far.clone().jump(w()?, u64::MAX).is_err());
    }
    let mut trainer = Trainer::new(w()?, HINGE, params)?;
    trainer.set_updates(u64::MAX);
    assert_eq!(trainer.updates(), 1 << 62);
    trainer.run(&data, [0, 1, 2, 3])?;
    assert!(trainer.updates() > 1 << 62);
    let average = Trainer::average_of(&[(0.2, &trainer); 5])?;
    assert_eq!((average.t(), average.updates()), (20, 1 << 62));
    for first_epoch in [u64::MAX, u64::MAX - 1] {
        let policy = Policy {
            first_epoch,
            solver: Solver::Pegasos,
            tol: None,
            max_epochs: 4,
            ..Policy::default()
        };
        let trainer = Trainer::new(w()?, HINGE, params)?;
        let mut fit = Fit::new(LinearProblems::from(trainer), policy);
        fit.run(&data)?;
        assert_eq!(fit.problem().trainers().next().map(Trainer::t), Some(16));
        assert_eq!(Sampling::Shuffle.epoch(4, 0, first_epoch)?.count(), 4);
    }
    Ok(())
}

#[cfg(feature = "files")]
#[test]
fn a_budget_without_end() -> Result<(), Error> {
    let x = Dense::new(&[-3.0, -1.0, 1.0, 3.0], 4, 1)?;
    for kernel in [KERNEL, Kernel::Poly { gamma: 1.0, coef0: 1.0, degree: 2 }] {
        let classifier = pegasos::Classifier {
            budget: Some(usize::MAX),
            ..pegasos::Classifier::with_kernel(kernel)
        };
        let model = classifier.fit(x, &["no", "no", "yes", "yes"])?;
        assert_eq!(model.accuracy(x, &["no", "no", "yes", "yes"])?, 1.0);
        pegasos::Model::from_bytes(&model.to_bytes()?)?;
    }
    Ok(())
}

/// Losses of fewer classes than two, or more than can be.
#[test]
fn classes_without_end() -> Result<(), Error> {
    fn refused(loss: Multiclass) -> Result<(), Error> {
        let w = Linear::<f64>::new(2, 2, 1.0)?;
        shape(Trainer::new(w, loss.clone(), Params::default()), "w");
        let w = Expansion::<f64>::new(KERNEL, 2, 2)?;
        shape(Trainer::new(w, loss.clone(), Params::default()), "w");
        assert!(DualAscent::new(loss.clone(), 0.1, 3, 2, 1.0).is_err());
        let x = Dense::new(&[0.0, 1.0, 2.0], 3, 1)?;
        let data = Examples::new(x, &[0, 0, 0], None)?;
        assert!(KernelAscent::new(KERNEL, loss.clone(), 0.1, &data, 1 << 20).is_err());
        let span = Span::new(KERNEL, &x.into(), &[0])?;
        assert!(Refit::new(span, std::slice::from_ref(&loss), 0.1, 3, 1 << 20).is_err());
        let _ = (loss.radius2(), loss.steepest(), loss.classes());
        Ok(())
    }
    for classes in [0, 1 << 40, usize::MAX] {
        refused(joint(classes))?;
        refused(pairs(classes))?;
    }
    refused(pairs(1))?;
    OneVsOne { loss: Hinge, classes: 0 }.votes(&[], &mut []);
    Ok(())
}
