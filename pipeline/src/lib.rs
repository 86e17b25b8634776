//! Text to batches.

pub mod corpus;
pub mod error;
pub mod prepare;
#[cfg(test)]
mod testing;

pub use error::{Error, Result};
