//! Batches to checkpoints: the only library crate that links libtorch.
//!
//! Modules from the bottom up; none uses those above it. [`device`]: the device and its number types. [`model`]: a
//! micro-batch is copied to the device and each view that an objective reads is encoded once. [`objectives`] compute sums
//! from that. [`optimizer`]: from gradients to new weights. [`hf`]: models of other libraries. [`training`]: the loop with
//! its reports, validations and checkpoints. [`parity`]: losses by themselves. A run's configuration, plan and files
//! without tensors are [`trainer_plan`].
//!
//! The crate knows no threads, tokenizers or corpus files. Batches come in through [`training::Data`], results go out
//! through [`training::Host`].

#![allow(clippy::struct_field_names, reason = "the end of a tensor's name is its axes")]
#![expect(
    private_interfaces,
    reason = "objectives and networks are written here and only asked outside: what they are built from and use stays in"
)]

#[macro_use]
mod registry;

pub mod device;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod golden;
pub mod hf;
pub mod model;
mod objective_instances;
pub mod objectives;
pub mod optimizer;
pub mod parity;
#[cfg(test)]
mod testing;
pub mod training;
