//! The offline half.
mod config;
pub use config::{Format, PrepareConfig};
