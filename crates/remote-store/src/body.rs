//! Body of an answer.

use std::io::{self, ErrorKind};

/// Largest buffer that is reserved for an answer before its bytes arrive.
const MAX_RESERVE_BYTES: u64 = 64 << 20;

/// Returns an empty buffer for an answer of `bytes` bytes.
pub(crate) fn buffer(bytes: u64) -> Vec<u8> {
    Vec::with_capacity(usize::try_from(bytes.min(MAX_RESERVE_BYTES)).unwrap_or_default())
}

/// Checks that an answer of `expected` bytes is complete.
pub(crate) fn check_complete(received: u64, expected: u64) -> io::Result<()> {
    if received == expected {
        return Ok(());
    }
    let message = format!("the answer ended after {received} of {expected} bytes");
    Err(io::Error::new(ErrorKind::ConnectionReset, message))
}
