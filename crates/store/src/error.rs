//! Errors with a location and a hint.

use std::fmt::Display;
use std::io;

/// Returns `error` with its location, and with a hint for common causes.
pub(crate) fn with_place(place: impl Display, error: &io::Error) -> io::Error {
    let hint = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            "; free some space and run the same command again, what is finished is kept"
        }
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            "; choose another folder, or give the user who runs this access to it"
        }
        _ => "",
    };
    io::Error::new(error.kind(), format!("{place}: {error}{hint}"))
}
