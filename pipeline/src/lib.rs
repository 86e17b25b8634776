//! Text to batches.

pub mod actor;
pub mod corpus;
pub mod error;
pub mod pack;
pub mod prepare;
pub mod shard;
#[cfg(test)]
mod testing;
pub mod tokenize;

pub use error::{Error, Result};
