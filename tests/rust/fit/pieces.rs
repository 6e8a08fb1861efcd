//! Into how many pieces a fit is cut, and how many threads work on it, changes no bit.

use super::*;

/// Runs it in pieces of many sizes: the same events, the same end, and the same in `state`.
fn pieces<S: Scalar, P: pegasos::Problem<S>, T: PartialEq>(
    what: &str,
    make: impl Fn() -> P,
    state: impl Fn(P) -> T,
    data: &Examples<'_, S>,
    policy: Policy,
) -> (Vec<Event>, Outcome) {
    let run = |size| {
        let mut fit = Fit::new(make(), policy);
        let (events, outcome) = course(&mut fit, data, size);
        assert_eq!(fit.advance(data, size).unwrap(), Progress::Over(outcome));
        (events, outcome, state(fit.into_problem()))
    };
    let (events, outcome, end) = run(usize::MAX);
    for size in [0, 1, 7, 1000] {
        let (other_events, other_outcome, other_end) = run(size);
        assert_eq!(bits(&other_events), bits(&events), "{what} {policy:?} in pieces of {size}");
        assert_eq!(other_outcome, outcome, "{what} {policy:?} in pieces of {size}");
        assert!(other_end == end, "{what} {policy:?} in pieces of {size}");
    }
    (events, outcome)
}

#[test]
fn pieces_change_no_bit() {
    fn law<S: Scalar, L: Loss + Clone + Send>(losses: &[L], data: &Examples<'_, S>, d: usize) {
        let auto = Policy { max_epochs: 30, ..Policy::default() };
        let pegasos = Policy { solver: Solver::Pegasos, ..auto };
        let plain = |lambda| Params { lambda, ..Params::default() };
        let cases = [
            // A leap after five epochs, then on.
            (plain(1e-5), Policy { tol: Some(1e-9), ..auto }),
            (plain(0.02), Policy { tol: Some(1e-5), ..auto }),
            (plain(0.02), Policy { solver: Solver::Dual, sampling: Sampling::Blocks, ..auto }),
            (plain(0.02), Policy { tol: Some(1e-2), max_epochs: 13, ..pegasos }),
            (plain(0.02), Policy { tol: None, max_epochs: 3, ..auto }),
            (
                Params { block: Block::Mean(9), average: Average::Uniform, ..plain(0.02) },
                Policy { tol: None, max_epochs: 3, ..pegasos },
            ),
            (
                Params { set: Some(Ball { radius: 1.0 }), ..plain(0.02) },
                Policy { sampling: Sampling::Replacement, ..auto },
            ),
            (
                Params { block: Block::Delayed(5), ..plain(0.02) },
                Policy { max_epochs: 4, ..pegasos },
            ),
            (plain(0.02), Policy { shards: 3, max_epochs: 4, ..pegasos }),
            (
                Params { block: Block::Mean(9), ..plain(0.02) },
                Policy { shards: 4, tol: None, max_epochs: 3, ..auto },
            ),
        ];
        for (params, policy) in cases {
            let make = || at_zero::<S, L>(losses, d, params);
            let what = format!("{} problems {params:?}", losses.len());
            pieces(&what, make, state_of, data, policy);
        }
    }
    let problem = Problem::of_classes(130, 5, 4, 54);
    let single = problem.single();
    let x = Dense::new(&single, 130, 5).unwrap();
    let narrow = Examples::new(x, &problem.y, Some(&problem.weight)).unwrap();
    let csr = problem.csr();
    let sparse = Examples::new(csr.view(), &problem.y, Some(&problem.weight)).unwrap();
    law(&[HINGE], &narrow, 5);
    law(&[FOUR], &narrow, 5);
    law(&rest(), &narrow, 5);
    law(&[HINGE], &sparse, 5);
    law(&[FOUR], &sparse, 5);
    law(&rest(), &sparse, 5);
}

/// A binary problem of many rows at a weak lambda, so that the leap is made and worth it.
#[test]
fn pieces_change_no_bit_of_a_leap() {
    let mut problem = Problem::new(400, 4, 55).unweighted();
    problem.y.iter_mut().step_by(5).for_each(|y| *y = 1 - *y);
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    let params = Params { lambda: 1e-6, ..Params::default() };
    let policy = Policy { tol: Some(1e-3), max_epochs: 50, ..Policy::default() };
    let make = || at_zero::<f64, _>(&[HINGE], 4, params);
    let (events, outcome) = pieces("leap", make, state_of, &data, policy);
    assert_eq!(outcome, Outcome::Reached);
    assert!(events.len() > 5, "{}", events.len());
    // Without it: far from there.
    let dual = Policy { solver: Solver::Dual, ..policy };
    let (events, outcome) = course(&mut Fit::new(make(), dual), &data, usize::MAX);
    assert_eq!((events.len(), outcome), (50, Outcome::Exhausted));
    assert!(events[49].certificate.relative_gap() > 0.1, "{:?}", events[49]);
}

#[test]
#[cfg(feature = "rayon")]
fn threads_change_no_bit_of_a_fit() {
    let problem = Problem::of_classes(130, 5, 4, 56);
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    for (lambda, shards) in [(1e-4, 1), (0.02, 1), (0.02, 3)] {
        let params = Params { lambda, ..Params::default() };
        let policy = Policy { tol: Some(1e-6), max_epochs: 20, shards, ..Policy::default() };
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let mut fit = Fit::new(at_zero::<f64, _>(&rest(), 5, params), policy);
                let (events, outcome) = course(&mut fit, &data, 50);
                (bits(&events), outcome, state_of(fit.into_problem()))
            })
        };
        let one = run(1);
        assert!(one == run(2) && one == run(3), "{params:?} {policy:?}");
    }
}

#[test]
fn pieces_change_no_bit_with_kernels() {
    fn law<S: Scalar, L: Loss + Clone + Send>(loss: L, data: &Examples<'_, S>, d: usize) {
        let auto = Policy { max_epochs: 3, ..Policy::default() };
        let pegasos = Policy { solver: Solver::Pegasos, ..auto };
        let plain = Params { lambda: 0.01, ..Params::default() };
        let recent = Params { average: Average::Recent { window: 40 }, ..plain };
        for (params, policy) in [
            (plain, Policy { tol: Some(1e-6), ..auto }),
            (plain, Policy { tol: Some(1e-3), solver: Solver::Dual, ..auto }),
            (plain, pegasos),
            (plain, Policy { tol: None, ..pegasos }),
            // Batches that panels are whole ones of, that are longer, and that end anywhere in one.
            (Params { block: Block::Mean(12), ..plain }, pegasos),
            (Params { block: Block::Mean(100), ..plain }, pegasos),
            (Params { block: Block::Mean(7), ..plain }, pegasos),
            (Params { block: Block::Delayed(5), ..plain }, pegasos),
            (Params { set: Some(Ball { radius: 2.0 }), ..plain }, auto),
            (recent, Policy { tol: None, ..pegasos }),
        ] {
            let make = || unlimited::<S, L>(loss.clone(), d, params);
            let state = |problem: KernelProblem<Expansion<S>, L>| {
                let trainer = problem.trainer();
                (trainer.hypothesis().state(), trainer.t(), trainer.updates())
            };
            pieces(&format!("kernel {params:?}"), make, state, data, policy);
        }
        for (params, policy) in [
            (recent, auto),
            (plain, Policy { tol: None, ..pegasos }),
            (Params { block: Block::Mean(7), ..recent }, pegasos),
        ] {
            let make = || budgeted::<S, L>(loss.clone(), d, params);
            let state = |problem: KernelProblem<Budgeted<S>, L>| {
                let trainer = problem.trainer();
                (trainer.hypothesis().state(), trainer.t(), trainer.updates())
            };
            pieces(&format!("budget {params:?}"), make, state, data, policy);
        }
    }
    let problem = Problem::of_classes(790, 5, 4, 57);
    let data = Examples::new(problem.dense(), &problem.y, Some(&problem.weight)).unwrap();
    law(HINGE, &data, 5);
    law(FOUR, &data, 5);
    let single = problem.single();
    let x = Dense::new(&single, 790, 5).unwrap();
    let narrow = Examples::new(x, &problem.y, None).unwrap();
    law(HINGE, &narrow, 5);
}

/// Of a refit, with the features of all examples kept, and of few.
#[test]
fn pieces_change_no_bit_of_a_refit() {
    let problem = Problem::new(1500, 3, 58).unweighted();
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    let landmarks: Vec<usize> = (0..1500).step_by(60).collect();
    let span = Span::new(KERNEL, data.rows(), &landmarks).unwrap();
    for bytes in [usize::MAX, 0] {
        for lambda in [1e-2, 1e-5] {
            let second = Binary { positive: 0, ..HINGE };
            let make = || Refit::new(span.clone(), &[HINGE, second], lambda, 1500, bytes).unwrap();
            let mut whole = make();
            let certificate = whole.solve(&data, 1e-4, 100, 0).unwrap();
            for size in [1, 7, 500] {
                let (mut refit, mut solving) = (make(), Solving::new(1e-4, 100, 0));
                let mut visits = 0;
                while let Progress::Going { rows, .. } =
                    solving.advance(&mut refit, &data, size).unwrap()
                {
                    visits += rows;
                }
                let event = solving.event();
                assert_eq!((event.certificate, refit.coefs()), (certificate, whole.coefs()));
                assert!(event.visits as usize <= visits && visits <= 2 * event.visits as usize);
            }
        }
    }
}

/// Whatever a fit is about, other rows are refused, and it goes on with its own.
#[test]
fn a_fit_is_of_the_data_that_it_began_with() {
    fn law<P: pegasos::Problem<f64>>(mut fit: Fit<P>, data: &Examples<'_, f64>) {
        let few = [0.5; 30];
        let few = Examples::new(Dense::new(&few, 10, 3).unwrap(), &[0; 10], None).unwrap();
        let narrow = [0.5; 600];
        let narrow = Examples::new(Dense::new(&narrow, 300, 2).unwrap(), &[0; 300], None).unwrap();
        for _ in 0..30 {
            fit.advance(data, 50).unwrap();
            for (other, got) in [(&few, "10 of 3"), (&narrow, "300 of 2")] {
                let error = fit.advance(other, 50).unwrap_err().to_string();
                let want = "X must have 300 rows of 3 features, as the fit began with, got";
                assert_eq!(error, format!("{want} {got}"));
            }
        }
        fit.run(data).unwrap();
    }
    let problem = Problem::new(300, 3, 5);
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    let params = Params { lambda: 0.1, ..Params::default() };
    for solver in [Solver::Auto, Solver::Pegasos] {
        let policy = Policy { solver, max_epochs: 5, ..Policy::default() };
        law(Fit::new(at_zero::<f64, _>(&[HINGE], 3, params), policy), &data);
        law(Fit::new(unlimited::<f64, _>(HINGE, 3, params), policy), &data);
        law(Fit::new(budgeted::<f64, _>(HINGE, 3, params), policy), &data);
    }
}
