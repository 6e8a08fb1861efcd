//! The best model in a span, against the same problem written out, and against itself with less memory.

use pegasos::{
    AnyLoss, Binary, Csr, Dense, DualAscent, Examples, Expansion, Hypothesis, Kernel, Loss, Matrix,
    Progress, Refit, Scalar, Solving, Span,
};

use crate::generated::joint;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;

const KERNEL: Kernel = Kernel::Rbf { gamma: 0.7 };

fn uniform(random: &mut Pcg64) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Points of a board of 3 x 3 fields.
fn board(seed: u64, n: usize, classes: u32) -> (Vec<f64>, Vec<u32>) {
    let mut random = Pcg64::new(seed.into(), 0);
    let x: Vec<f64> = (0..2 * n).map(|_| 3.0 * uniform(&mut random)).collect();
    let y = x.chunks(2).map(|x| (x[0] as u32 + x[1] as u32) % classes).collect();
    (x, y)
}

/// Every k-th row.
fn landmarks(n: usize, k: usize) -> Vec<usize> {
    (0..n).step_by(k).collect()
}

/// What `Refit` finds, and the optimum of the same problem with its features in one matrix, from nothing.
fn both<L: Loss + Clone + Send>(loss: L, classes: u32, bytes: usize) -> [f64; 2] {
    let (x, y) = board(1, 300, classes);
    let rows = Matrix::from(Dense::new(&x, 300, 2).expect("a matrix"));
    let data = Examples::new(rows, &y, None).expect("a problem");
    let span = Span::new(KERNEL, &rows, &landmarks(300, 10)).expect("a span");
    let all: Vec<usize> = (0..300).collect();
    let mut z = vec![0.0; 300 * span.dimension()];
    span.features(&rows, &all, &mut z);
    let features = Dense::new(&z, 300, span.dimension()).expect("a matrix");
    let plain = Examples::new(features, &y, None).expect("a problem");
    let mut ascent =
        DualAscent::new(loss.clone(), 1e-3, 300, span.dimension(), 0.0).expect("an ascent");
    let want = ascent.solve(&plain, 1e-8, 10_000, 0).expect("a solution");

    let mut refit = Refit::new(span, &[loss], 1e-3, 300, bytes).expect("a refit");
    let got = refit.solve(&data, 1e-8, 10_000, 0).expect("a solution");
    assert!(got.relative_gap() <= 1e-8);

    // As a kernel machine it has the scores and the norm of the weights.
    let coefs = refit.coefs();
    let w = ascent.result::<f64>();
    let outputs = w.outputs();
    let model = |i: usize, out: &mut [f64]| {
        out.fill(0.0);
        for (s, coef) in landmarks(300, 10).into_iter().zip(coefs.chunks(outputs)) {
            let (a, b) = (rows.row(i), &x[2 * s..2 * s + 2]);
            let k = KERNEL.eval(a.dot(b), a.norm2(), rows.row(s).norm2());
            out.iter_mut().zip(coef).for_each(|(out, c)| *out += c * k);
        }
    };
    let (mut scores, mut wanted) = (vec![0.0; outputs], vec![0.0; outputs]);
    for i in 0..300 {
        model(i, &mut scores);
        w.score(features.row(i), &mut wanted);
        for (a, b) in scores.iter().zip(&wanted) {
            assert!((a - b).abs() < 1e-2, "{a} {b}");
        }
    }
    let mut norm2 = 0.0;
    for (s, coef) in landmarks(300, 10).into_iter().zip(coefs.chunks(outputs)) {
        model(s, &mut scores);
        norm2 += coef.iter().zip(&scores).map(|(c, s)| c * s).sum::<f64>();
    }
    assert!((norm2 - w.norm2()).abs() < 1e-3 * norm2, "{norm2} {}", w.norm2());
    [got.primal, want.primal]
}

#[test]
fn the_linear_engine_on_features() {
    // Beyond the 1024 rows of a window memory does not matter; see below.
    let binary = Binary { loss: AnyLoss::Hinge, positive: 1 };
    for [got, want] in [both(binary, 2, usize::MAX), both(joint(3), 3, 0)] {
        assert!((got - want).abs() < 1e-7 * want, "{got} {want}");
    }
}

/// With room for all features, for some, and for none: the same visits, hence the same bits. (Of no more than 512 weights there are
/// leaps, where there is room for all features.)
#[test]
fn less_memory_changes_no_bit() {
    fn solved<S: Scalar>(bytes: usize) -> Vec<f64> {
        let n = 4000;
        let (x, y) = board(2, n, 3);
        let x: Vec<S> = x.into_iter().map(S::from_f64).collect();
        let rows = Matrix::from(Dense::new(&x, n, 2).expect("a matrix"));
        let data = Examples::new(rows, &y, None).expect("a problem");
        let span = Span::new(KERNEL, &rows, &landmarks(n, 100)).expect("a span");
        // Some of no example.
        let (loss, outputs) = (joint(26), 26);
        assert!(outputs * span.dimension() > 512);
        let mut refit = Refit::new(span, &[loss], 1e-4, n, bytes).expect("a refit");
        let certificate = refit.solve(&data, 1e-3, 200, 0).expect("a solution");
        assert!(certificate.relative_gap() <= 1e-3);
        refit.coefs()
    }
    let row = 40 * size_of::<f32>();
    let all = solved::<f32>(usize::MAX);
    assert_eq!(solved::<f32>(2500 * row), all);
    assert_eq!(solved::<f32>(0), all);
    assert_eq!(solved::<f64>(0), solved::<f64>(usize::MAX));
}

/// The same where ascent leaps along the way of its passes, whole or narrow: with whatever memory, and in pieces of any size.
#[test]
fn leaps_along_the_way_change_no_bit() {
    let n = 1200;
    let (x, y) = board(2, n, 4);
    let rows = Matrix::from(Dense::new(&x, n, 2).expect("a matrix"));
    let data = Examples::new(rows, &y, None).expect("a problem");
    let kernel = Kernel::Rbf { gamma: 8.0 };
    let solved = |outputs: usize, bytes: usize, size: usize| {
        let span = Span::new(kernel, &rows, &landmarks(n, 8)).expect("a span");
        assert!(span.dimension() >= 64 && outputs * span.dimension() > 512);
        let mut refit = Refit::new(span, &[joint(outputs)], 1e-6, n, bytes).expect("a refit");
        let mut solving = Solving::new(1e-2, 1000, 0);
        while !matches!(solving.advance(&mut refit, &data, size), Ok(Progress::Over(_))) {}
        let event = solving.event();
        assert!(event.certificate.relative_gap() <= 1e-2);
        (refit.coefs(), event.visits / n as u64)
    };
    // With four outputs it takes 250 epochs without leaps.
    for outputs in [4, 10] {
        let (coefs, epochs) = solved(outputs, usize::MAX, usize::MAX);
        assert!(epochs < 150, "{epochs}");
        assert_eq!(solved(outputs, 0, usize::MAX).0, coefs);
        assert_eq!(solved(outputs, 1 << 18, 300).0, coefs);
    }
}

/// From one lambda to the next, and with examples that come in late, the optimum is that from nothing.
#[test]
fn the_next_lambda_begins_where_the_last_ended() {
    let (x, y) = board(3, 400, 2);
    let rows = Matrix::from(Dense::new(&x, 400, 2).expect("a matrix"));
    let weight: Vec<f64> = (0..400).map(|i| f64::from(u32::from(i % 5 > 0))).collect();
    let most = Examples::new(rows, &y, Some(&weight)).expect("a problem");
    let all = Examples::new(rows, &y, None).expect("a problem");
    let span = Span::new(KERNEL, &rows, &landmarks(400, 12)).expect("a span");
    let loss = Binary { loss: AnyLoss::Hinge, positive: 1 };
    let fresh = |lambda: f64, data: &Examples<'_, f64>| {
        let mut refit =
            Refit::new(span.clone(), &[loss], lambda, 400, usize::MAX).expect("a refit");
        refit.solve(data, 1e-7, 10_000, 0).expect("a solution").primal
    };
    let mut refit = Refit::new(span.clone(), &[loss], 1e-2, 400, usize::MAX).expect("a refit");
    for (lambda, data) in [(1e-2, &most), (1e-3, &most), (1e-4, &most), (1e-3, &all)] {
        refit.set_lambda(lambda).expect("a lambda");
        let certificate = refit.solve(data, 1e-7, 10_000, 0).expect("a solution");
        assert!(certificate.relative_gap() <= 1e-7);
        let want = fresh(lambda, data);
        assert!((certificate.primal - want).abs() < 1e-6 * want);
    }
    // What is refused changes nothing.
    let before = refit.coefs();
    assert!(refit.set_lambda(-1.0).is_err() && refit.restart(f64::NAN).is_err());
    assert_eq!(refit.coefs(), before);
    refit.restart(1e-2).expect("a lambda");
    assert_eq!(refit.solve(&most, 1e-7, 10_000, 0).expect("a solution").primal, fresh(1e-2, &most));
}

/// Several problems on the same features are each what it is alone.
#[test]
fn one_class_against_the_rest() {
    let (x, y) = board(5, 300, 3);
    let rows = Matrix::from(Dense::new(&x, 300, 2).expect("a matrix"));
    let data = Examples::new(rows, &y, None).expect("a problem");
    let span = Span::new(KERNEL, &rows, &landmarks(300, 10)).expect("a span");
    let losses: Vec<_> = (0..3).map(|positive| Binary { loss: AnyLoss::Hinge, positive }).collect();
    let solved = |losses: &[Binary<AnyLoss>]| {
        let mut refit = Refit::new(span.clone(), losses, 1e-3, 300, usize::MAX).expect("a refit");
        let certificate = refit.solve(&data, 1e-6, 10_000, 0).expect("a solution");
        let scores = refit.scores(&data, &[7, 250]).expect("scores");
        (certificate.primal, refit.coefs(), scores)
    };
    let (primal, coefs, scores) = solved(&losses);
    let mut sum = 0.0;
    for (c, loss) in losses.iter().enumerate() {
        let (own_primal, own_coefs, own_scores) = solved(&[*loss]);
        sum += own_primal;
        assert!(coefs.iter().skip(c).step_by(3).eq(&own_coefs));
        assert!(scores.iter().skip(c).step_by(3).eq(&own_scores));
    }
    assert_eq!(primal, sum);
    assert!(Refit::<f64, Binary<AnyLoss>>::new(span.clone(), &[], 1e-3, 300, 0).is_err());
}

/// A path of linear models: each is the optimum of its lambda, dense or sparse, and scores rows whose weight was 0.
#[test]
fn a_path_in_the_rows_own_features() {
    let (x, y) = board(6, 300, 3);
    let dense = Dense::new(&x, 300, 2).expect("a matrix");
    let weight: Vec<f64> = (0..300).map(|i| f64::from(u32::from(i % 4 > 0))).collect();
    let data = Examples::new(dense, &y, Some(&weight)).expect("a problem");
    let (indptr, indices): (Vec<i32>, Vec<i32>) =
        ((0..=300).map(|i| 2 * i).collect(), (0..600).map(|k| k % 2).collect());
    let csr = Csr::new(&indptr, &indices, &x, 2).expect("a matrix");
    let sparse = Examples::new(csr, &y, Some(&weight)).expect("a problem");
    let losses: Vec<_> =
        (0..3).map(|positive| Binary { loss: AnyLoss::Logistic, positive }).collect();
    let path = |sparse| Refit::of_rows(&losses, 1.0, (300, 2), 2.0, sparse).expect("a path");
    let (mut one, mut other) = (path(false), path(true));
    assert!(one.span().is_none() && one.coefs().is_empty());
    for lambda in [1e-1, 1e-2, 1e-3] {
        one.set_lambda(lambda).expect("a lambda");
        other.set_lambda(lambda).expect("a lambda");
        let certificate = one.solve(&data, 1e-9, 10_000, 0).expect("a solution");
        other.solve(&sparse, 1e-9, 10_000, 0).expect("a solution");
        assert!(certificate.relative_gap() <= 1e-9);
        let mut primal = 0.0;
        for (c, loss) in losses.iter().enumerate() {
            let mut ascent = DualAscent::new(*loss, lambda, 300, 2, 2.0).expect("an ascent");
            primal += ascent.solve(&data, 1e-9, 10_000, 0).expect("a solution").primal;
            let w = ascent.result::<f64>();
            let found = [&one.weights()[2 * c..2 * c + 2], &one.intercepts()[c..=c]].concat();
            let want = [w.weights(), w.intercepts()].concat();
            assert!(found.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-3 * (1.0 + b.abs())));
        }
        assert!((certificate.primal - primal).abs() < 1e-7 * primal);
        let near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-3 * (1.0 + b.abs());
        assert!(one.weights().iter().zip(&other.weights()).all(near));
        // Row 4 has had no say.
        let scores = one.scores(&data, &[4]).expect("scores");
        let (w, b) = (one.weights(), one.intercepts());
        for c in 0..3 {
            let want = w[2 * c] * x[8] + w[2 * c + 1] * x[9] + b[c];
            assert!((scores[c] - want).abs() < 1e-12);
        }
    }
    let error = one.solve(
        &Examples::new(Dense::new(&x, 200, 3).expect("a matrix"), &y[..200], None)
            .expect("a problem"),
        0.1,
        1,
        0,
    );
    assert!(error.is_err());
    assert!(Refit::<f64, Binary<AnyLoss>>::of_rows(&[], 1.0, (300, 2), 0.0, false).is_err());
}

/// What is wrong with the data is said of the data, not of their features.
#[test]
fn errors() {
    let (mut x, y) = board(4, 50, 2);
    let rows = Matrix::from(Dense::new(&x, 50, 2).expect("a matrix"));
    let span = Span::new(KERNEL, &rows, &[0, 1, 2]).expect("a span");
    let loss = Binary { loss: AnyLoss::Hinge, positive: 1 };
    let refit = |n| Refit::new(span.clone(), &[loss], 1e-2, n, 0).expect("a refit");
    let data = Examples::new(rows, &y, None).expect("a problem");
    let error = refit(49).solve(&data, 0.1, 1, 0).expect_err("one row too many");
    assert!(error.to_string().contains("49 rows"), "{error}");
    x[20] = f64::INFINITY;
    let data =
        Examples::new(Dense::new(&x, 50, 2).expect("a matrix"), &y, None).expect("a problem");
    let error = refit(50).solve(&data, 0.1, 10, 0).expect_err("an infinite feature");
    assert!(error.to_string().contains("row 10, column 0"), "{error}");
    let precomputed =
        Span::new(Kernel::Precomputed, &rows_of_three(), &[0]).expect_err("no features");
    assert!(precomputed.to_string().contains("kernel"), "{precomputed}");
    // No landmark that a linear kernel can do anything with.
    let zeros = Matrix::from(Dense::new(&[0.0; 4], 2, 2).expect("a matrix"));
    assert!(Span::new(Kernel::Linear, &zeros, &[0, 1]).is_err());
    let none = Expansion::<f64>::new(KERNEL, 1, 2).expect("a model");
    assert!(Span::of(&none).is_err());
}

fn rows_of_three() -> Matrix<'static, f64> {
    Dense::new(&[1.0, 2.0, 3.0], 3, 1).expect("a matrix").into()
}

/// Rows that make no numbers are named, with features that are at hand and without.
#[test]
fn scores_are_numbers() {
    let (mut x, y) = board(3, 40, 2);
    x[2 * 7] = f64::NAN;
    let mut weight = vec![1.0; 40];
    weight[7] = 0.0;
    let data = Examples::new(Dense::new(&x, 40, 2).unwrap(), &y, Some(&weight)).unwrap();
    let loss = || Binary { loss: AnyLoss::Hinge, positive: 1 };
    let span = Span::new(KERNEL, data.rows(), &[0, 1, 2, 3]).unwrap();
    let spanned = Refit::new(span, &[loss()], 1e-2, 40, 1 << 20).unwrap();
    let own = Refit::of_rows(&[loss()], 1e-2, (40, 2), 1.0, false).unwrap();
    for mut refit in [spanned, own] {
        assert_eq!(refit.scores(&data, &[0, 6, 8]).unwrap().len(), 3);
        let refused = refit.scores(&data, &[0, 7]).unwrap_err().to_string();
        assert!(refused.contains("row 7"), "{refused}");
    }
}
