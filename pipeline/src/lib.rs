//! Text to batches.

pub mod actor;
pub mod error;

pub use error::{Error, Result};
