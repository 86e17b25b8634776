//! Whether the disk has room for what is still to come.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use super::config::Topic;
use super::rate_limiter::RateLimiter;

/// Between two looks. What fills a disk in less is told by the write that fails.
const EVERY: Duration = Duration::from_secs(30);

/// Looks for as long as what it returns is kept. By its own thread: a disk that does not answer holds up no alert.
pub(super) fn look(folder: &Path, free_min: u64, desk: RateLimiter) -> runtime::Result<SyncSender<()>> {
    let folder: PathBuf = folder.to_owned();
    let (keep, ended) = sync_channel(0);
    runtime::spawn("disk-watch", move || {
        loop {
            if let Some(free) = free(&folder).filter(|free| *free < free_min) {
                let text = format!("the disk of {} is nearly full: {free} bytes are free", folder.display());
                desk.tell(Topic::Disk, &text, None);
            }
            if ended.recv_timeout(EVERY) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    })?;
    Ok(keep)
}

/// Bytes that this user may still write there; none where nobody knows, as before there is such a folder.
fn free(folder: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}
