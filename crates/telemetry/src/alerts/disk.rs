//! Check of the free disk space.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use super::config::AlertTopic;
use super::rate_limiter::RateLimiter;

/// Interval of checks. If the disk fills up faster, the failed write raises the alert.
const EVERY: Duration = Duration::from_secs(30);

/// Starts the check, which runs until the returned sender is dropped. It has its own thread, because a disk that does
/// not respond must not delay other alerts.
pub(super) fn spawn(folder: &Path, free_min: u64, limiter: RateLimiter) -> runtime::Result<SyncSender<()>> {
    let folder: PathBuf = folder.to_owned();
    let (keep, ended) = sync_channel(0);
    runtime::spawn("disk-watch", move || {
        loop {
            if let Some(free) = free(&folder).filter(|free| *free < free_min) {
                let text = format!("low disk space in {}: {free} bytes free", folder.display());
                limiter.notify(AlertTopic::Disk, &text, None);
            }
            if ended.recv_timeout(EVERY) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    })?;
    Ok(keep)
}

/// Returns the bytes that this user may still write. `None` if they are unknown, for example before the folder exists.
fn free(folder: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}
