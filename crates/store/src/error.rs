//! Errors that say where, and what to do about it.

use std::fmt::Display;
use std::io;

/// `error`, with the place that it happened at and the way out where there is a common one.
pub(crate) fn at(place: impl Display, error: &io::Error) -> io::Error {
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
