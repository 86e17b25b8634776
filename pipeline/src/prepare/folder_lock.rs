//! Lock of a prepared folder: one process at a time changes its lists and its manifest.

use store::{Holder, LeaseConfig, Lock, LockError, Store};

use crate::{Error, Result};

/// Name of the lock object, which identifies the process that works on a folder.
pub const LOCK: &str = "lock";

/// Locks a folder for one process. Returns the store that only the holder changes.
pub(super) fn lock_folder(store: &Store) -> Result<(Store, Lock)> {
    let locked = |error: LockError| match error {
        LockError::Held { place, holder } => Error::Locked { path: place.into(), holder: holder.to_string() },
        LockError::Io(error) => error.into(),
    };
    let lock = Lock::acquire(store, LOCK, Holder::this_process(), LeaseConfig::default()).map_err(locked)?;
    Ok((lock.guard(store), lock))
}
