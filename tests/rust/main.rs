//! The crate from outside, as one binary (but for `tests/memory.rs`): what a file is about stands at its top.
//!
//! `cargo test --test rust dual::` runs the tests of `dual.rs`, `cargo test --test rust dual::name -- --exact` one.

mod bounds;
mod budget;
mod certificates;
mod classes;
mod dual;
mod experts;
#[cfg(feature = "files")]
mod files;
mod fit;
mod generated;
mod gradients;
#[cfg(feature = "files")]
mod header;
mod intercept;
mod kernels;
mod laws;
mod machines;
mod metric;
#[cfg(feature = "files")]
mod model;
mod naive;
mod online;
mod refit;
mod refusals;
mod shapley;
mod states;
mod svmlight;
mod unions;
