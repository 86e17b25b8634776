//! Lock of the process that downloads a shard.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use runtime::CancelToken;

/// Interval between two attempts.
const POLL: Duration = Duration::from_millis(20);

/// Maximum time of a wait for another process, which may be suspended.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Lock of a shard, released by the drop or the end of the process.
#[derive(Debug)]
pub(super) struct DownloadLock {
    path: PathBuf,
    _file: File,
}

impl DownloadLock {
    /// Waits until no other process downloads the shard. Returns `None` without a lock: if the folder cannot be written or
    /// locked, after a cancellation or a long wait. Two processes then download the same file, which does no harm.
    #[expect(clippy::disallowed_methods, reason = "a file without content")]
    pub(super) fn acquire(folder: &Path, blake3: &str, stop: Option<&CancelToken>) -> Option<Self> {
        let path = folder.join(format!(".{blake3}.lock"));
        let file = File::create(&path).ok()?;
        let begun = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Some(Self { path, _file: file }),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(_)) => return None,
            }
            if begun.elapsed() > MAX_WAIT || stop.is_some_and(CancelToken::is_cancelled) {
                return None;
            }
            sleep(POLL);
        }
    }
}

impl Drop for DownloadLock {
    fn drop(&mut self) {
        // A process that waits for the removed file, and one that makes a new one, find the shard.
        let _ = fs::remove_file(&self.path);
    }
}
