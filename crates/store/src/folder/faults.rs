//! Faults that tests inject into the files written below one folder.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

static ARMED: AtomicBool = AtomicBool::new(false);
static FAULTS: Mutex<Vec<(PathBuf, u64)>> = Mutex::new(Vec::new());

/// Lets `writes` more calls below `folder` pass, each cut to half its bytes (a short write), then fails every call
/// with EIO. `None` removes the fault. For tests only.
pub fn fail_after(folder: &Path, writes: Option<u64>) {
    let mut faults = FAULTS.lock().expect("no holder of this lock panics");
    faults.retain(|(known, _)| known != folder);
    faults.extend(writes.map(|writes| (folder.to_owned(), writes)));
    ARMED.store(!faults.is_empty(), Ordering::SeqCst);
}

/// Returns the part of `bytes` that one call may write to `target`.
pub(super) fn write_limit<'a>(target: &Path, bytes: &'a [u8]) -> io::Result<&'a [u8]> {
    if !ARMED.load(Ordering::Relaxed) {
        return Ok(bytes);
    }
    let mut faults = FAULTS.lock().expect("no holder of this lock panics");
    match faults.iter_mut().find(|(folder, _)| target.starts_with(folder)) {
        None => Ok(bytes),
        Some((_, 0)) => Err(io::Error::from_raw_os_error(libc::EIO)),
        Some((_, left)) => {
            *left -= 1;
            Ok(&bytes[..bytes.len().div_ceil(2)])
        }
    }
}
