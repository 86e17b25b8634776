//! Faults that tests inject into the files written below one folder.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

static ARMED: AtomicBool = AtomicBool::new(false);
static FAULTS: Mutex<Vec<Fault>> = Mutex::new(Vec::new());

/// Fault of the files below a folder.
struct Fault {
    folder: PathBuf,
    /// Number of calls that pass before the fault.
    left: u64,
    errno: i32,
}

/// Lets `writes` more calls below `folder` pass, each cut to half its bytes (a short write), then fails every call
/// with EIO. `None` removes the fault. For tests only.
pub fn fail_after(folder: &Path, writes: Option<u64>) {
    set(folder, writes.map(|left| Fault { folder: folder.to_owned(), left, errno: libc::EIO }));
}

/// Fails every call below `folder` with ENOSPC, until `is_full` is false. For tests only.
pub fn fill_disk(folder: &Path, is_full: bool) {
    set(folder, is_full.then(|| Fault { folder: folder.to_owned(), left: 0, errno: libc::ENOSPC }));
}

fn set(folder: &Path, fault: Option<Fault>) {
    let mut faults = FAULTS.lock().expect("no holder of this lock panics");
    faults.retain(|known| known.folder != folder);
    faults.extend(fault);
    ARMED.store(!faults.is_empty(), Ordering::SeqCst);
}

/// Returns the part of `bytes` that one call may write to `target`.
pub(super) fn write_limit<'a>(target: &Path, bytes: &'a [u8]) -> io::Result<&'a [u8]> {
    if !ARMED.load(Ordering::Relaxed) {
        return Ok(bytes);
    }
    let mut faults = FAULTS.lock().expect("no holder of this lock panics");
    match faults.iter_mut().find(|fault| target.starts_with(&fault.folder)) {
        None => Ok(bytes),
        Some(Fault { left: 0, errno, .. }) => Err(io::Error::from_raw_os_error(*errno)),
        Some(fault) => {
            fault.left -= 1;
            Ok(&bytes[..bytes.len().div_ceil(2)])
        }
    }
}

/// Returns an error if a test has refused that call for the files below a folder.
#[cfg(not(test))]
#[expect(clippy::unnecessary_wraps, reason = "an error only in tests")]
pub(super) fn check(_: &str, _: &Path) -> io::Result<()> {
    Ok(())
}

/// Refused calls: folder, call and error.
#[cfg(test)]
static REFUSED: Mutex<Vec<(PathBuf, &'static str, i32)>> = Mutex::new(Vec::new());

/// Lets a call fail for the files below a folder, from now on.
#[cfg(test)]
pub(super) fn refuse(folder: &Path, call: &'static str, errno: i32) {
    REFUSED.lock().expect("no holder of this lock panics").push((folder.to_owned(), call, errno));
}

/// Returns an error if a test has refused that call for the files below a folder.
#[cfg(test)]
pub(super) fn check(call: &str, path: &Path) -> io::Result<()> {
    let refused = REFUSED.lock().expect("no holder of this lock panics");
    let found = refused.iter().find(|(folder, name, _)| *name == call && path.starts_with(folder));
    found.map_or(Ok(()), |(.., errno)| Err(io::Error::from_raw_os_error(*errno)))
}
