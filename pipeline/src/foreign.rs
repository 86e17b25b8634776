//! Decoders of others, and files that they did not expect.
//!
//! # Why
//! The Parquet reader refuses most damaged files and panics on some: a negative size in a footer, a width of more bits
//! than a number has. A file that somebody gave us is no reason to call our own program broken.

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What `decode` makes of a file; its error or its panic as a message. The decoder must not be used again after either.
pub(crate) fn decoded<T, E: Display>(decode: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(decode)) {
        Ok(outcome) => outcome.map_err(|error| error.to_string()),
        Err(_) => Err("it makes the decoder panic".to_owned()),
    }
}
