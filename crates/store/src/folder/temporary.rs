//! Temporary files of unfinished objects.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::LazyLock;
use std::time::SystemTime;

use super::faults;
use super::files::{MAKES_MAX, make_folder, swept};
use crate::backend::Version;
use crate::name::{GUARD, PUTTING, REPLACING};

/// Maximum bytes of the host name in the name of a temporary file.
const HOST_BYTES_MAX: usize = 20;

/// Open file under a temporary name. Dropping it removes the file.
#[derive(Debug)]
pub(super) struct Temporary {
    pub(super) file: File,
    pub(super) path: PathBuf,
    /// Keeps the file on drop, because another process may still publish it.
    pub(super) kept: bool,
}

impl Temporary {
    /// Creates a file next to `target`. Creates the folder if it is missing.
    pub(super) fn create_for(target: &Path) -> io::Result<Self> {
        Self::named(target, &|writer| format!(".{}.{writer}.{PUTTING}", file_name(target)))
    }

    /// Creates a file next to `target` for the successor of one version.
    pub(super) fn following(target: &Path, version: &Version) -> io::Result<Self> {
        Self::named(target, &|writer| format!("{}{writer}.{REPLACING}", following_prefix(target, version)))
    }

    /// Creates the file exclusively under a unique name, so that no link is followed and no file shared.
    fn named(target: &Path, name: &dyn Fn(&str) -> String) -> io::Result<Self> {
        let folder = target.parent().expect("an object lies in a folder");
        for _ in 0..MAKES_MAX {
            let path = folder.join(name(&writer()));
            match OpenOptions::new().read(true).write(true).create_new(true).open(&path) {
                Ok(file) => return Ok(Self { file, path, kept: false }),
                // The folder is missing, or another process removed it because it was empty.
                Err(error) if error.kind() == ErrorKind::NotFound => make_folder(folder)?,
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(swept())
    }

    /// Writes all of `bytes` at `offset`.
    pub(super) fn write_at(&mut self, mut offset: u64, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let count = match self.file.write_at(faults::write_limit(&self.path, bytes)?, offset) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            bytes = &bytes[count..];
            offset += count as u64;
        }
        Ok(())
    }

    /// Makes the content durable, with a unique modification time.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        // Set explicitly, to the nanosecond: the kernel's clock advances only every few milliseconds.
        self.file.set_modified(SystemTime::now())?;
        self.file.sync_all()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.kept {
            // No error to report: a published file is gone already, and otherwise the caller returns an earlier error.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Returns the path of the link that decides the successor of a version of `target`.
pub(super) fn guard_path(target: &Path, version: &Version) -> PathBuf {
    target.with_file_name(format!("{}{GUARD}", following_prefix(target, version)))
}

/// Returns the common prefix of the names of all possible successors of a version of `target`.
pub(super) fn following_prefix(target: &Path, version: &Version) -> String {
    format!(".{}.{}.", file_name(target), digest(version))
}

/// Parsed name of a temporary file that follows a version of an object.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FollowingName<'a> {
    pub(super) object: &'a str,
    /// Digest of the version that the file follows.
    pub(super) follows: &'a str,
    /// [`GUARD`] or [`REPLACING`].
    pub(super) ending: &'static str,
}

/// Parses the name of a temporary file. Returns `None` for other names.
pub(super) fn parse_following(name: &str) -> Option<FollowingName<'_>> {
    let (rest, ending) = name.strip_prefix('.')?.rsplit_once('.')?;
    let (rest, ending) = match ending {
        GUARD => (rest, GUARD),
        REPLACING => (rest.rsplit_once('.')?.0, REPLACING),
        _ => return None,
    };
    let (object, follows) = rest.rsplit_once('.')?;
    Some(FollowingName { object, follows, ending })
}

/// Whether a file has a name that only this module gives. Temporary files of other programs have other names, such as
/// `.state.tmp`.
pub(super) fn is_ours(name: &str) -> bool {
    let of_put = || {
        let rest = name.strip_prefix('.')?.strip_suffix(PUTTING)?.strip_suffix('.')?;
        rest.rsplit_once('.').filter(|(object, writer)| !object.is_empty() && is_writer(writer))
    };
    let of_replace = || {
        let found = parse_following(name)?;
        let writer = name.rsplit('.').nth(1)?;
        let is_complete = found.ending == GUARD || is_writer(writer);
        (is_complete && is_hash(found.follows)).then_some(())
    };
    of_put().is_some() || of_replace().is_some()
}

/// Whether a part of a file name is that of a [`writer`].
fn is_writer(text: &str) -> bool {
    let mut parts = text.rsplitn(3, '-');
    let (Some(nonce), Some(process), Some(_)) = (parts.next(), parts.next(), parts.next()) else { return false };
    is_hash(nonce) && !process.is_empty() && process.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_hash(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns a version as part of a file name.
pub(super) fn digest(version: &Version) -> String {
    blake3::hash(version.to_string().as_bytes()).to_hex()[..16].to_owned()
}

pub(super) fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).expect("names of objects are text")
}

/// Returns a unique writer id: host, process and a random number. It contains no dot.
fn writer() -> String {
    static HOST: LazyLock<String> = LazyLock::new(|| {
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let plain = host.trim().chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' });
        plain.take(HOST_BYTES_MAX).collect()
    });
    // Each `RandomState` has its own key, drawn from the operating system's randomness.
    let nonce = RandomState::new().build_hasher().finish();
    format!("{}-{}-{nonce:016x}", *HOST, process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_what_follows_say_what_they_follow() {
        let version = Version::new("1.2-3");
        for object in ["lock", "a.b.json", ".hidden", "x.0123456789abcdef"] {
            let target = Path::new("folder").join(object);
            let guard = guard_path(&target, &version);
            let follows = &*digest(&version);
            let expected = |ending| Some(FollowingName { object, follows, ending });
            assert_eq!(parse_following(file_name(&guard)), expected(GUARD));
            let next = format!("{}{}.{REPLACING}", following_prefix(&target, &version), writer());
            assert_eq!(parse_following(&next), expected(REPLACING));
            assert!(is_ours(file_name(&guard)) && is_ours(&next));
            assert!(is_ours(&format!(".{object}.{}.{PUTTING}", writer())));
        }
        for other in ["lock", ".lock.host-1-2.tmp", ".guard", ".a.guard", "a.b.guard"] {
            assert_eq!(parse_following(other), None, "{other}");
        }
    }

    #[test]
    fn temporary_files_of_other_programs_are_not_ours() {
        for other in [
            ".state.tmp",
            ".a.b.tmp",
            ".a.host-1-2.tmp",
            ".a.host-1-0123456789abcdeg.tmp",
            ".a.0123456789abcdef.tmp",
            ".a.b.guard",
            ".a.b.host-1-0123456789abcdef.next",
            ".a.0123456789abcdef.page.next",
            "a.host-1-0123456789abcdef.tmp",
        ] {
            assert!(!is_ours(other), "{other}");
        }
    }
}
