//! A file `stop` in the run's folder: it asks for a stop, and goes when it is obeyed.

use std::io::{self, ErrorKind};

use store::Store;

const STOP: &str = "stop";

/// Whether a file asks for a stop; or what stands in its place and asks for nothing.
pub(super) fn asks(folder: &Store) -> Result<bool, String> {
    match folder.stat(STOP) {
        Ok(Some(_)) => Ok(true),
        Ok(None) if folder.local().is_some_and(|folder| folder.join(STOP).is_dir()) => {
            Err(format!("{}: it is a folder", folder.place(STOP)))
        }
        Err(error) if error.kind() == ErrorKind::InvalidInput => Err(error.to_string()),
        // A store that fails now and then is asked again.
        Ok(None) | Err(_) => Ok(false),
    }
}

/// Whoever asked by a file was obeyed: the next start runs.
pub fn obeyed(folder: &Store) -> io::Result<()> {
    if asks(folder) == Ok(true) { folder.remove(STOP) } else { Ok(()) }
}
