//! Lock of the process that downloads a shard.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use runtime::{CancelToken, starved};

/// Interval between two attempts.
const POLL: Duration = Duration::from_millis(20);

/// Maximum time without progress of the holder, which may be suspended.
const MAX_SILENCE: Duration = Duration::from_secs(60);

/// Lock of a shard, released by the drop or the end of the process.
#[derive(Debug)]
pub(super) struct DownloadLock {
    path: PathBuf,
    file: File,
}

impl DownloadLock {
    /// Waits until no other process downloads the shard. Returns `None` without a lock: if the folder cannot be written
    /// or locked, after a cancellation, or if the holder makes no progress. Two processes then download the same file,
    /// which does no harm.
    pub(super) fn acquire(folder: &Path, blake3: &str, stop: Option<&CancelToken>) -> Option<Self> {
        let path = folder.join(format!(".{blake3}.lock"));
        // A truncation would look like progress of the holder. The file of another user can be locked, but not written.
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).open(&path).or_else(|_| File::open(&path)).ok()?;
        loop {
            match file.try_lock() {
                Ok(()) => {
                    let held = Self { path, file };
                    held.touch();
                    return Some(held);
                }
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(_)) => return None,
            }
            let progress = file.metadata().and_then(|metadata| metadata.modified()).ok()?;
            let is_silent = progress.elapsed().is_ok_and(|silence| silence > MAX_SILENCE);
            let sleeps = || {
                sleep(POLL);
                false
            };
            let is_cancelled = starved(|| stop.map_or_else(sleeps, |stop| stop.is_cancelled_within(POLL)));
            if is_silent || is_cancelled {
                return None;
            }
        }
    }

    /// Tells the processes that wait that this one makes progress.
    pub(super) fn touch(&self) {
        let _ = self.file.set_modified(SystemTime::now());
    }
}

impl Drop for DownloadLock {
    fn drop(&mut self) {
        // A process that waits for the removed file, and one that makes a new one, find the shard.
        let _ = fs::remove_file(&self.path);
    }
}
