//! Panics as values, for items of workers, retried work and third-party decoders.
//!
//! # Why
//! The Parquet reader returns an error for most damaged files and panics on some: a negative size in a footer, or a
//! bit width larger than that of the type. A damaged input file is not a defect of this program.

use std::any::Any;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{Error, Result};

/// Runs the work of worker `name` on item `index`; a panic becomes an error that names both.
pub(crate) fn guard_item<T, E: From<Error>>(
    name: &str,
    index: u64,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    // After a panic the worker ends, so the captures of `work` are not used again.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panic_error(name, index, panic.as_ref()).into()))
}

/// Runs `work` and turns a panic into its message. After a panic the caller must discard or redo what `work` changed.
pub fn catch_panic<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| message(panic.as_ref()).to_owned())
}

/// Runs `decode` and turns its error or its panic into a message. The decoder must not be used again after either.
pub fn catch_decoder<T, E: Display>(decode: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(decode)) {
        Ok(outcome) => outcome.map_err(|error| error.to_string()),
        Err(_) => Err("panic in the decoder".to_owned()),
    }
}

/// Returns the error of worker `name` for a panic at item `index`.
pub(crate) fn panic_error(name: &str, index: u64, panic: &(dyn Any + Send)) -> Error {
    Error::Panicked { name: name.to_owned(), index, message: message(panic).to_owned() }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("panic without a message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_a_decoder_is_a_message_and_an_error_is_kept() {
        assert_eq!(catch_decoder(|| Ok::<_, String>(3)), Ok(3));
        assert_eq!(catch_decoder(|| Err::<u8, _>("cut short")), Err("cut short".to_owned()));
        let panicked = catch_decoder(|| -> Result<u8, String> { panic!("width 65") });
        assert_eq!(panicked, Err("panic in the decoder".to_owned()));
    }

    #[test]
    fn a_panic_keeps_its_message() {
        assert_eq!(catch_panic(|| 3), Ok(3));
        assert_eq!(catch_panic(|| -> u8 { panic!("item {}", 7) }), Err("item 7".to_owned()));
    }
}
