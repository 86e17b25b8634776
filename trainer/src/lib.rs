//! Batches to checkpoints: the only crate that links libtorch.
//!
//! In the order in which data meets them: a batch is copied to the device ([`upload`]), each view that somebody reads
//! is encoded once ([`forward`], [`encoder`]), the [`objectives`] make sums of it.
//!
//! Strangers here: threads, tokenizers, files of the corpus.

pub mod analysis;
pub mod encoder;
pub mod error;
pub mod forward;
pub mod identity;
pub mod native;
pub mod networks;
pub mod objectives;
pub mod optimizer;
pub mod parameters;
pub mod parity;
pub mod plan;
pub mod precision;
pub mod schedule;
pub mod tensors;
pub mod upload;

pub use error::{Error, ForeignError};
