//! Batches to checkpoints: the only crate that links libtorch.
//!
//! In the order in which data meets them: a micro-batch is copied to the device ([`upload`]); each view that an
//! objective reads is encoded once ([`forward`], [`encoder`], [`networks`]); the [`objectives`] make sums of that,
//! [`combine`] one loss, [`step`] gradients, [`optimizer`] and [`schedule`] new weights ([`parameters`]). What
//! happened is added up on the device until a [`report`]; every so often there is a [`validation`] and a
//! [`checkpoint`], from which [`resume`] goes on to the bit. [`actor`] is the loop around all of it, and a
//! [`plan::TrainPlan`] the only thing that starts it.
//!
//! Strangers here: threads, tokenizers, the files of a corpus. Batches come in through [`actor::Data`], results go out
//! through [`actor::Host`].

pub mod actor;
pub mod analysis;
pub mod checkpoint;
pub mod combine;
pub mod cost;
pub mod device;
pub mod encoder;
pub mod error;
pub mod fill;
pub mod forward;
#[cfg(test)]
mod fuzz;
pub mod hf;
pub mod identity;
pub mod metrics;
pub mod native;
pub mod networks;
pub mod objectives;
pub mod optimizer;
pub mod parameters;
pub mod parity;
pub mod plan;
pub mod precision;
pub mod relative_positions;
pub mod report;
pub mod resume;
pub mod schedule;
pub mod start;
pub mod step;
pub mod tensors;
#[cfg(test)]
mod testing;
pub mod upload;
pub mod validation;

pub use error::{Error, ForeignError};
