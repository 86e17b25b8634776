//! Stop requests by a file `stop` in the run folder. The run removes the file when it has handled the request.

use std::io::{self, ErrorKind};

use store::Store;

const STOP: &str = "stop";

/// Whether a file requests a stop. Returns an error if the path is not a file.
pub(super) fn is_requested(folder: &Store) -> Result<bool, String> {
    match folder.head(STOP) {
        Ok(Some(_)) => Ok(true),
        Ok(None) if folder.local().is_some_and(|folder| folder.join(STOP).is_dir()) => {
            Err(format!("{}: it is a folder", folder.place(STOP)))
        }
        Err(error) if error.kind() == ErrorKind::InvalidInput => Err(error.to_string()),
        // A store with transient errors is asked again at the next poll.
        Ok(None) | Err(_) => Ok(false),
    }
}

/// Removes a handled stop request, so that the next start runs.
pub fn obeyed(folder: &Store) -> io::Result<()> {
    if is_requested(folder) == Ok(true) { folder.delete(STOP) } else { Ok(()) }
}
