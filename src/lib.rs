//! Support vector machines trained with stochastic sub-gradients.

mod data;
mod error;
mod hypothesis;
mod ledger;
mod linear;
mod loss;
mod one_vs_rest;
mod order;
#[cfg(feature = "python")]
mod python;
mod scalar;
mod schedule;
mod simd;
mod trainer;

pub use data::{Csr, CsrRow, Dense, DenseRow, Examples, Row, Rows};
pub use error::{Error, ErrorKind};
pub use hypothesis::Hypothesis;
pub use ledger::{Certificate, Ledger};
pub use linear::{Linear, LinearState};
pub use loss::{AnyLoss, Binary, Hinge, Logistic, Loss, MarginLoss, SquaredHinge};
pub use one_vs_rest::run_all;
pub use order::{BLOCK, Epoch, Sampling};
pub use scalar::{Index, Scalar};
pub use schedule::Schedule;
pub use trainer::{Average, Evaluation, Params, Report, Trainer};
