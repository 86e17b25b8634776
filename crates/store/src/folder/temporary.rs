//! Files that are not yet objects.

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

/// Bytes of a host's name that are kept in the name of a temporary file.
const HOST_BYTES_MAX: usize = 20;

/// An open file under a temporary name, which goes when it is dropped.
#[derive(Debug)]
pub(super) struct Temporary {
    pub(super) file: File,
    pub(super) path: PathBuf,
    /// Left where it is when dropped: somebody may still make use of it.
    pub(super) kept: bool,
}

impl Temporary {
    /// Next to `target`, whose folder is made if it is missing.
    pub(super) fn beside(target: &Path) -> io::Result<Self> {
        Self::named(target, &|writer| format!(".{}.{writer}.{PUTTING}", file_name(target)))
    }

    /// Next to `target`, to follow one version of it.
    pub(super) fn following(target: &Path, version: &Version) -> io::Result<Self> {
        Self::named(target, &|writer| format!("{}{writer}.{REPLACING}", following_prefix(target, version)))
    }

    /// Under a name that no other writer gives: made exclusively, so that no link is followed and no file shared.
    fn named(target: &Path, name: &dyn Fn(&str) -> String) -> io::Result<Self> {
        let folder = target.parent().expect("an object lies in a folder");
        for _ in 0..MAKES_MAX {
            let path = folder.join(name(&writer()));
            match OpenOptions::new().read(true).write(true).create_new(true).open(&path) {
                Ok(file) => return Ok(Self { file, path, kept: false }),
                // The folder is missing, or was empty and somebody removed it now.
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
            let count = match self.file.write_at(faults::pass(&self.path, bytes)?, offset) {
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

    /// Makes the content durable, and its modification time one that no other writing has.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        // Its own time, to the nanosecond: the kernel's moves only every few milliseconds.
        self.file.set_modified(SystemTime::now())?;
        self.file.sync_all()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.kept {
            // Nothing to report to: it is gone already where it was published, and else a failure is on its way up.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The link that says what follows a version of `target`.
pub(super) fn guard_path(target: &Path, version: &Version) -> PathBuf {
    target.with_file_name(format!("{}{GUARD}", following_prefix(target, version)))
}

/// How the names of all that would follow a version of `target` begin.
pub(super) fn following_prefix(target: &Path, version: &Version) -> String {
    format!(".{}.{}.", file_name(target), digest(version))
}

/// What the name of a temporary file says: the object, the digest of the version that it follows, and the ending.
pub(super) fn parse_following(name: &str) -> Option<(&str, &str, &'static str)> {
    let (rest, ending) = name.strip_prefix('.')?.rsplit_once('.')?;
    let (rest, ending) = match ending {
        GUARD => (rest, GUARD),
        REPLACING => (rest.rsplit_once('.')?.0, REPLACING),
        _ => return None,
    };
    let (object, digest) = rest.rsplit_once('.')?;
    Some((object, digest, ending))
}

/// A version as part of a file's name.
pub(super) fn digest(version: &Version) -> String {
    blake3::hash(version.to_string().as_bytes()).to_hex()[..16].to_owned()
}

pub(super) fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).expect("names of objects are text")
}

/// Who writes: host, process and a number that nobody else has. Without a dot.
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
            assert_eq!(parse_following(file_name(&guard)), Some((object, &*digest(&version), GUARD)));
            let next = format!("{}{}.{REPLACING}", following_prefix(&target, &version), writer());
            assert_eq!(parse_following(&next), Some((object, &*digest(&version), REPLACING)));
        }
        for other in ["lock", ".lock.host-1-2.tmp", ".guard", ".a.guard", "a.b.guard"] {
            assert_eq!(parse_following(other), None, "{other}");
        }
    }
}
