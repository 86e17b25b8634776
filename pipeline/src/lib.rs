//! Text to batches.

pub mod actor;
pub mod collate;
pub mod error;
pub mod load;
pub mod permutation;
pub mod rng;
pub mod row;
pub mod sampler;
pub mod shard;
pub mod views;

pub use error::{Error, Result};
