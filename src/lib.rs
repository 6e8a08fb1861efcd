//! Support vector machines trained with stochastic sub-gradients: the Pegasos family.
//!
//! Minimises, for n examples with classes y and weights s,
//!
//! ```text
//! P(w) = lambda/2 ||w||^2 + 1/n sum_i s_i loss(<w, x_i>; y_i)
//! ```
//!
//! and says how far from the minimum it is. In scikit-learn's terms `alpha = lambda` and
//! `C = 1/(lambda n)`.
//!
//! # A first model
//!
//! ```
//! # #[cfg(feature = "files")]
//! # {
//! use pegasos::{Classifier, Dense, Kernel, Model};
//!
//! // Four points on a line; those in the middle are of one kind.
//! let x = Dense::new(&[-3.0, -1.0, 1.0, 3.0], 4, 1)?;
//! let labels = ["far", "near", "near", "far"];
//! let machine = Classifier { lambda: Some(1e-3), ..Classifier::with_kernel(Kernel::Rbf { gamma: 0.5 }) };
//! let model: Model = machine.fit(x, &labels)?;
//! assert_eq!(model.accuracy(x, &labels)?, 1.0);
//! # }
//! # Ok::<(), pegasos::Error>(())
//! ```
//!
//! [`Classifier`] is the short way, [`Model`] what predicts and what model files hold. Behind it is a [`Fit`], which knows
//! what to do next; behind that the loop, which can be had alone:
//!
//! ```
//! use pegasos::{Binary, Dense, Examples, Hinge, Hypothesis, Linear, Params, Sampling, Trainer};
//!
//! // Four points on a line; class 1 lies to the right.
//! let x = Dense::new(&[-2.0, -1.0, 1.0, 3.0_f32], 4, 1)?;
//! let data = Examples::new(x, &[0, 0, 1, 1], None)?;
//!
//! // A weight for the feature and, by a constant feature of value 1, an intercept.
//! let w = Linear::new(1, 1, 1.0)?;
//! let loss = Binary { loss: Hinge, positive: 1 };
//! let mut trainer = Trainer::new(w, loss, Params { lambda: 0.1, ..Params::default() })?;
//! trainer.keep_ledger(data.len());
//!
//! for epoch in 0.. {
//!     trainer.run(&data, Sampling::Shuffle.epoch(data.len(), 42, epoch)?)?;
//!     // No solver of any kind can lower the objective by more than this.
//!     if trainer.certificate(&data)?.relative_gap() < 0.02 {
//!         break;
//!     }
//! }
//! let mut score = [0.0];
//! trainer.result().score(data.rows().row(3), &mut score);
//! assert!(score[0] > 0.9);
//! # Ok::<(), pegasos::Error>(())
//! ```
//!
//! # One loop, and its parts
//!
//! Every algorithm here keeps an element w of a Hilbert space (one per output) and repeats: score
//! an example, take the loss's coefficient, step, project, average. The papers differ in the parts
//! they choose:
//!
//! | algorithm | [`Loss`] | [`Schedule`] | [`Params::set`] | [`Params::block`] |
//! |---|---|---|---|---|
//! | Pegasos | [`Binary`] of [`Hinge`] | [`Pegasos`](Schedule::Pegasos) | none, or a [`Ball`] of [`Loss::radius`] | [`Mean`](Block::Mean) |
//! | logistic regression by Pegasos | [`Binary`] of [`Logistic`] | [`Pegasos`](Schedule::Pegasos) | the same | [`Mean`](Block::Mean) |
//! | multi-class Pegasos | [`CrammerSinger`] | [`Pegasos`](Schedule::Pegasos) | the same | [`Mean`](Block::Mean) |
//! | kernel Pegasos | either, w an [`Expansion`] | [`Pegasos`](Schedule::Pegasos) | the same | [`Mean`](Block::Mean) |
//! | BPegasos^M, on a budget | either, w a [`Budgeted`] | [`Pegasos`](Schedule::Pegasos) | the same | [`Mean`](Block::Mean) |
//! | Pegasos for streams that drift | any, with any w | [`Forgetting`](Schedule::Forgetting) | the same | [`Mean`](Block::Mean) |
//! | Projectron, Projectron++ | either, w a [`Budgeted`] | [`InvScaling`](Schedule::InvScaling) of power 0, lambda = 0 | none | `Mean(1)` |
//! | online gradient descent (Zinkevich) | any | [`InvScaling`](Schedule::InvScaling) | a [`Ball`] | `Mean(1)` |
//! | with delayed gradients | any | [`InvScaling`](Schedule::InvScaling) | a [`Ball`] | [`Delayed`](Block::Delayed) |
//! | over experts | [`Cost`] | [`InvScaling`](Schedule::InvScaling) | the [`Simplex`] | `Mean(1)` |
//!
//! w is a [`Linear`] or, with a [`Kernel`], an [`Expansion`] or, of a bounded number of support vectors, a
//! [`Budgeted`]: a [`Hypothesis`]. So there is one training loop, [`Trainer::run`]. What looks like other ways of
//! training is that loop, called otherwise:
//!
//! * epochs with a stopping rule: a run per epoch, reading its [`Report`] or the [`Certificate`]; or a [`Fit`], which
//!   knows when to stop, and when dual ascent is faster (`solver="auto"` in Python);
//! * a stream: a run per batch, `trainer.run(&batch, 0..batch.len())`; step number, scale, average and
//!   gradients in flight go on;
//! * one against the rest: a trainer per class over the same rows, together by [`run_all`]; or, faster where rows are
//!   sparse or there are kernels, one trainer of [`OneVsRest`], and for pairs of classes of [`OneVsOne`];
//! * shards: copies of a trainer, each over its part of an epoch's order, then averaged: [`Shards`];
//!   models that learned elsewhere: [`Trainer::average_of`];
//! * a run taken up again: [`Trainer::resume`] with a [`Linear::from_state`].
//!
//! Beside the loop stand the [`Ledger`], what each example has contributed, which is a point of the dual
//! problem and with that a certificate; [`DualAscent`] and, with kernels, [`KernelAscent`], which pick that
//! point up where Pegasos leaves it and close the gap to any tolerance; [`Refit`], which does so within the [`Span`]
//! of a few vectors; [`Regret`], what online learning promises where nothing is drawn from anything; and [`Metric`], what
//! rows are mapped by, learned from how the scores of a model change with them: its [`Agop`]; and [`Shapley`], what each feature of a
//! row adds to its scores.
//!
//! # Floors
//!
//! A module uses those below it, never one above:
//!
//! ```text
//! python                          the Python package's compiled half (feature "python")
//! model                           what files hold: labels, scores, probabilities; C; a fit in one call (feature "files")
//! fit  frozen                     what to do next: epochs, ascent, leaps; what predicts
//! shards  refit                   trainers side by side, averages; ascent within a span
//! dual  kernel_dual > trail > newton      ascent from where the loop ends, leaps
//! evaluation  shapley             what the loop has reached: certificates; what scores are made of
//! trainer                         the loop
//! budget                          w of a bounded number of support vectors, and what keeps it so
//! span                            coordinates of examples in the span of a few vectors
//! linear  expansion  feasible  params  metric   w = a v, its norm and its average; sets that w must stay in; rows, mapped
//! hypothesis  scaled  weights  vectors  lookahead  svmlight   what is trained, its scale and average; support vectors; rows to come; rows from files
//! ledger  regret                  accounts of what was done
//! loss  simplex  table  kernel  schedule  order  data  examples   scores to coefficients; step sizes; which row next; rows
//! error  memory  scalar  simd  threads    room asked for; the hot loops, the only unsafe code; work side by side
//! ```
//!
//! What is compiled how often: generic over what is touched for every feature, an enum for what is touched once a step, `dyn`
//! for what is called every 50 ms. The scalar, the kind of w and the loss are type parameters, so the Python package has the
//! loop twelve times (two scalars; three kinds of w; two losses, of one score and of several), each in two forms, with a queue
//! of gradients and without, and in a third for one score and nothing else; and dual ascent six times. The layout of a row is
//! a [`Row`], matched once for each operation on it; but a linear step takes 30 ns, and to ask for the layout is a tenth of
//! that: without a queue the loop of a [`Linear`] is there for dense rows and for sparse ones with 32-bit indices as well.
//! Orders, pieces of work and tasks are `dyn`.
//!
//! # Features
//!
//! * `files` (default): [`Model`], [`Classifier`].
//! * `ndarray`: an `ArrayView2` becomes a [`Dense`], without a copy.
//! * `rayon` (default): threads for [`run_all`], [`Shards`], and whatever has kernels.
//! * `python`: the extension module of the Python package, with pyo3 and rust-numpy.
//!
//! # Sources
//!
//! * S. Shalev-Shwartz, Y. Singer, N. Srebro, A. Cotter. Pegasos: primal estimated sub-gradient
//!   solver for SVM. Mathematical Programming 127 (2011).
//! * K. Stratos. Notes on Pegasos. R. Johansson. Clarification of the pseudocode in the Pegasos
//!   paper.
//! * M. Zinkevich. Online convex programming and generalized infinitesimal gradient ascent. ICML
//!   2003.
//! * M. Zinkevich, J. Langford, A. Smola. Slow learners are fast. NIPS 2009.
//! * M. Zinkevich, M. Weimer, A. Smola, L. Li. Parallelized stochastic gradient descent. NIPS 2010.
//! * Z. Wang, K. Crammer, S. Vucetic. Multi-class Pegasos on a budget. ICML 2010.
//! * F. Orabona, J. Keshet, B. Caputo. Bounded kernel-based online learning. JMLR 10 (2009).
//! * K. Crammer, Y. Singer. On the algorithmic implementation of multiclass kernel-based vector
//!   machines. JMLR 2 (2001).
//! * C.-J. Hsieh, K.-W. Chang, C.-J. Lin, S. Keerthi, S. Sundararajan. A dual coordinate descent method
//!   for large-scale linear SVM. ICML 2008.
//! * S. S. Keerthi, S. Sundararajan, K.-W. Chang, C.-J. Hsieh, C.-J. Lin. A sequential dual method for large
//!   scale multi-class linear SVMs. KDD 2008.
//! * O. Chapelle. Training a support vector machine in the primal. Neural Computation 19 (2007).
//! * A. Radhakrishnan, D. Beaglehole, P. Pandit, M. Belkin. Mechanism for feature learning in neural networks and
//!   backpropagation-free machine learning models. Science 383 (2024).
//! * M. Mohammadi, S. L. Chau, K. Muandet. Computing exact Shapley values in polynomial time for product-kernel methods.
//!   arXiv 2505.16516 (2025). G. Owen. Multilinear extensions of games. Management Science 18 (1972).
//! * O. Shamir, T. Zhang. Stochastic gradient descent for non-smooth optimization: convergence
//!   results and optimal averaging schemes. ICML 2013.

mod budget;
mod data;
mod dual;
mod error;
mod evaluation;
mod examples;
mod expansion;
mod feasible;
mod fit;
mod frozen;
mod hypothesis;
mod kernel;
mod kernel_dual;
mod ledger;
mod linear;
mod lookahead;
mod loss;
mod memory;
mod metric;
#[cfg(feature = "files")]
mod model;
mod newton;
mod order;
mod params;
#[cfg(feature = "python")]
mod python;
mod refit;
mod regret;
mod scalar;
mod scaled;
mod schedule;
mod shapley;
mod shards;
mod simd;
mod simplex;
mod span;
pub mod svmlight;
mod table;
mod threads;
mod trail;
mod trainer;
mod vectors;
mod weights;

pub use budget::{Budgeted, BudgetedState, Maintenance};
pub use data::{Csr, Dense, Matrix, OwnedRow, Row, Window};
pub use dual::{DualAscent, DualEvaluation, Pass};
pub use error::{Error, ErrorKind};
pub use evaluation::Evaluation;
pub use examples::Examples;
pub use expansion::{Agop, Expansion, ExpansionState, PANEL};
pub use feasible::{Ball, Feasible, Simplex};
pub use fit::{
    Ascent, Event, Excerpt, Fit, KernelProblem, LinearProblems, Machine, Outcome, Policy, Problem,
    Progress, Record, Solver, Solving,
};
pub use frozen::{Frozen, Scoring};
pub use hypothesis::{Combine, Hypothesis, LinearSingle};
pub use kernel::Kernel;
pub use kernel_dual::{Folds, KernelAscent};
pub use ledger::{Certificate, Ledger};
pub use linear::{Linear, LinearPanel, LinearState};
pub use loss::{
    AnyLoss, Binary, Cost, CrammerSinger, Hinge, Logistic, Loss, MarginLoss, Multiclass, OneVsOne,
    OneVsRest, SquaredHinge, Versus,
};
pub use metric::Metric;
#[cfg(feature = "files")]
pub use model::{Classifier, Label, Model, Rows};
pub use order::{BLOCK, Epoch, Order, Sampling};
pub use params::{Average, Block, Params};
pub use refit::Refit;
pub use regret::Regret;
pub use scalar::{Index, Scalar};
pub use scaled::Scaled;
pub use schedule::Schedule;
pub use shapley::Shapley;
pub use shards::{Shards, run_all};
pub use simd::{Lanes, WIDTH, Weigh};
pub use span::Span;
pub use trainer::{Flight, Report, Trainer};

#[cfg(all(doctest, feature = "files"))]
#[doc = include_str!("../README.md")]
struct Readme;
