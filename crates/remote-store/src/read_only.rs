//! Error of a change in a store that can only be read.

use std::io::{self, ErrorKind};

/// Returns the error of a change.
pub(crate) fn refuse<T>(scheme: &str) -> io::Result<T> {
    let message = format!("{scheme} can only be read; write to a folder, s3://, gs:// or az://");
    Err(io::Error::new(ErrorKind::ReadOnlyFilesystem, message))
}
