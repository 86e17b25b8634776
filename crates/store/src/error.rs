//! Errors with a location and a hint.

use std::fmt::Display;
use std::io;

/// Returns `error` with its location, and with a hint for common causes.
pub(crate) fn with_place(place: impl Display, error: &io::Error) -> io::Error {
    let hint = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free some space and run the same command again, what is finished is kept"
        }
        // A store over a network names its own way out.
        _ if error.raw_os_error().is_none() => "",
        io::ErrorKind::FileTooLarge => {
            "; raise the limit of file sizes (`ulimit -f`) or free some space, and run the same command again, what is \
             finished is kept"
        }
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            "; choose another folder, or give the user who runs this access to it"
        }
        _ => "",
    };
    io::Error::new(error.kind(), format!("{place}: {error}{hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_fits_the_cause() {
        let text = |error| with_place("x", &error).to_string();
        let of_system = |number| text(io::Error::from_raw_os_error(number));
        assert!(of_system(libc::ENOSPC).contains("free some space") && of_system(libc::EDQUOT).contains("free some"));
        assert!(
            of_system(libc::EFBIG).contains("ulimit -f") && of_system(libc::EFBIG).contains("run the same command")
        );
        assert!(of_system(libc::EACCES).contains("choose another folder"));
        for kind in [io::ErrorKind::PermissionDenied, io::ErrorKind::ReadOnlyFilesystem, io::ErrorKind::FileTooLarge] {
            assert_eq!(text(io::Error::new(kind, "the server says why; and how")), "x: the server says why; and how");
        }
        assert!(text(io::Error::new(io::ErrorKind::StorageFull, "507")).contains("free some space"));
    }
}
