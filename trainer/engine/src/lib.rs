//! Training engine, from batches to checkpoints. This is the only library crate that links libtorch.
//!
//! Modules from the bottom up; a module uses only those listed before it. [`device`]: the device and its number types.
//! [`model`]: copies a micro-batch to the device and encodes each view that an objective reads once. [`objectives`]:
//! compute loss sums from the encoded views. [`optimizer`]: updates weights from gradients. [`hf`]: converts models of
//! other libraries. [`training`]: the loop with its reports, validations and checkpoints. [`parity`]: computes single
//! losses. The crate [`trainer_plan`] holds a run's configuration, its plan and its files without tensors.
//!
//! The crate does not use threads, tokenizers or corpus files. Batches come in through [`training::Data`], results go
//! out through [`training::Host`].

#![allow(clippy::struct_field_names, reason = "the suffix of a tensor's name lists its axes")]
#![expect(
    private_interfaces,
    reason = "objectives and networks are implemented in this crate; their builders and inputs stay private"
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
