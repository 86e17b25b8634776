//! Batches to checkpoints: the only crate that links libtorch.
//!
//! Its rooms, from the bottom up; none knows those above it. [`device`]: what everything is computed on. [`model`]: a
//! micro-batch is copied to the device and each view that an objective reads is encoded once. [`objectives`] make sums of
//! that. [`optimizer`]: from gradients to new weights. [`plan`]: a run as it is configured; a [`plan::TrainPlan`] is the
//! only thing that starts one. [`hf`]: models of others. [`training`]: the loop around all of it, with its reports,
//! validations and checkpoints, from which it goes on to the bit. [`parity`] stands beside: losses by themselves.
//!
//! Strangers here: threads, tokenizers, the files of a corpus. Batches come in through [`training::Data`], results go out
//! through [`training::Host`].

#![allow(clippy::struct_field_names, reason = "the end of a tensor's name is its axes")]
#![expect(
    private_interfaces,
    reason = "objectives and networks are written here and only asked outside: what they are built from and lent stays in"
)]

pub mod device;
pub mod error;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod golden;
pub mod hf;
pub mod model;
pub mod objectives;
pub mod optimizer;
pub mod parity;
pub mod plan;
#[cfg(test)]
mod testing;
pub mod training;

pub use error::{Error, ForeignError};
