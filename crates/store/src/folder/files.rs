//! File system queries of the folder backend.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Once;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use tracing::warn;

use super::faults;
use crate::backend::{Stat, Version};

/// Largest file whose version includes its content: reading it costs no more than opening it.
const HASHED_BYTES_MAX: u64 = 1 << 16;

/// Maximum number of rebuilds of a temporary file, since another process may sweep it or its empty folder.
pub(super) const MAKES_MAX: usize = 16;

/// Error for a temporary file that another process removed.
pub(super) fn swept() -> io::Error {
    io::Error::new(
        ErrorKind::NotFound,
        "a temporary file was removed by another process that uses this folder; stop one of the two processes",
    )
}

/// Returns true if the error means that the file is absent.
pub(super) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Opens the file at `path` for reading; `None` if it is absent. Other types are not opened, since a pipe would block.
/// A dangling link is an error, not an absent file: its target may only be out of reach.
pub(super) fn open(path: &Path) -> io::Result<Option<File>> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => return Err(io::Error::new(ErrorKind::InvalidInput, "it is not a file")),
        Err(error) if is_absent(&error) && fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) => {
            return Err(io::Error::new(ErrorKind::InvalidInput, "it is a broken symbolic link"));
        }
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
            return Err(io::Error::new(ErrorKind::InvalidInput, "it is a symbolic link to itself"));
        }
        Err(error) => return Err(error),
    }
    match File::open(path) {
        Err(error) if is_absent(&error) => Ok(None),
        outcome => outcome.map(Some),
    }
}

/// Returns the metadata of the file at `path`.
pub(super) fn stat_at(path: &Path) -> io::Result<Option<Stat>> {
    open(path)?.map(|file| stat_of(&file)).transpose()
}

/// Returns the metadata of an open file.
pub(super) fn stat_of(file: &File) -> io::Result<Stat> {
    let metadata = file.metadata()?;
    let bytes = metadata.len();
    let inode = metadata.ino();
    let modified_s = metadata.mtime();
    let modified_ns = metadata.mtime_nsec();
    let mut version = format!("{inode:x}-{modified_s:x}.{modified_ns:09}-{bytes:x}");
    if bytes <= HASHED_BYTES_MAX {
        let mut content = vec![0; usize::try_from(bytes).expect("at most 64 KiB")];
        file.read_exact_at(&mut content, 0)?;
        version.push('-');
        version.push_str(&blake3::hash(&content).to_hex()[..32]);
    }
    Ok(Stat { bytes, version: Version::new(version), modified: metadata.modified()? })
}

/// Returns the version of the file at `path`; `None` if it is absent.
pub(super) fn version_at(path: &Path) -> io::Result<Option<Version>> {
    Ok(stat_at(path)?.map(|stat| stat.version))
}

/// Creates a folder with its parents, and flushes each into its parent.
pub(super) fn make_folder(path: &Path) -> io::Result<()> {
    let mut made = make_one(path);
    for _ in 1..MAKES_MAX {
        let (Err(error), Some(parent)) = (&made, path.parent()) else { break };
        // The folder existed, and another process removed it before the check, because it was empty.
        let is_gone = || matches!(fs::symlink_metadata(path), Err(error) if error.kind() == ErrorKind::NotFound);
        match error.kind() {
            ErrorKind::NotFound if !parent.as_os_str().is_empty() => {}
            ErrorKind::AlreadyExists if is_gone() => {}
            _ => break,
        }
        if !parent.as_os_str().is_empty() && !parent.is_dir() {
            make_folder(parent)?;
        }
        // Another process may have created the parent meanwhile; or the parent allows no folders, as `/proc`.
        made = make_one(path);
    }
    made
}

fn make_one(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Ok(()) => sync_parent(path),
        Err(_) if path.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Flushes the parent folder of `path`, so that changes of its entries survive a power cut. Where that is impossible,
/// such as over FUSE or in a folder that this user may not read, a warning says it once.
pub(super) fn sync_parent(path: &Path) -> io::Result<()> {
    static WARNED: Once = Once::new();
    let parent = path.parent().expect("what was written lies in a folder");
    let folder = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let outcome = faults::check("sync folder", folder).and_then(|()| File::open(folder)?.sync_all());
    match outcome {
        Err(error) if is_refused(&error) || error.raw_os_error() == Some(libc::EBADF) => {
            WARNED.call_once(|| {
                let folder = folder.display();
                warn!(%folder, %error, "store: this file system cannot flush folders; a power cut may lose new files");
            });
            Ok(())
        }
        outcome => outcome,
    }
}

/// Returns true if a file system does not have a call, or does not allow it on this file.
fn is_refused(error: &io::Error) -> bool {
    let refused = [libc::EPERM, libc::EACCES, libc::EINVAL, libc::ENOSYS, libc::EOPNOTSUPP];
    error.raw_os_error().is_some_and(|number| refused.contains(&number))
}

/// Returns true if `path` names that open file: a call had its effect although its answer is an error. A network file
/// system repeats a request whose answer was lost, and the repetition fails.
pub(super) fn is_at(path: &Path, file: &File) -> io::Result<bool> {
    let own = file.metadata()?;
    Ok(fs::symlink_metadata(path).is_ok_and(|found| (found.dev(), found.ino()) == (own.dev(), own.ino())))
}

/// Gives a file another name, unless the name exists: by a hard link, or without those by a rename.
pub(super) fn link_new(from: &Path, to: &Path) -> io::Result<()> {
    match faults::check("link", to).and_then(|()| fs::hard_link(from, to)) {
        Err(error) if is_refused(&error) => {
            let renamed = faults::check("rename new", to)
                .and_then(|()| Ok(renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?));
            renamed.map_err(|error| lacking(error, "neither hard links nor renames that keep an existing file"))
        }
        outcome => outcome,
    }
}

/// Creates a symbolic link.
pub(super) fn symlink_new(leads_to: &str, at: &Path) -> io::Result<()> {
    let outcome = faults::check("symlink", at).and_then(|()| std::os::unix::fs::symlink(leads_to, at));
    outcome.map_err(|error| lacking(error, "no symbolic links, which decide between two writers"))
}

/// Renames a file over another one.
pub(super) fn rename_over(from: &Path, to: &Path) -> io::Result<()> {
    let outcome = faults::check("rename", to).and_then(|()| fs::rename(from, to));
    outcome.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists if !to.is_dir() => unsupported(&error, "no renames over an existing file"),
        ErrorKind::PermissionDenied => error,
        _ => lacking(error, "no renames"),
    })
}

/// Returns the error of a file system that does not have a call, and other errors as they are.
fn lacking(error: io::Error, lacks: &str) -> io::Error {
    let is_lacking =
        is_refused(&error) && error.kind() != ErrorKind::PermissionDenied || error.raw_os_error() == Some(libc::EPERM);
    if is_lacking { unsupported(&error, lacks) } else { error }
}

fn unsupported(error: &io::Error, lacks: &str) -> io::Error {
    let message =
        format!("this file system has {lacks} ({error}); choose a folder on a local disk, NFS or an object store");
    io::Error::new(ErrorKind::Unsupported, message)
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    #[test]
    fn folder_is_created_while_others_create_its_parents() {
        let home = tempfile::tempdir().expect("a temporary folder");
        for round in 0..500 {
            let path = home.path().join(format!("{round}/a/b/c/d"));
            let start = Barrier::new(4);
            let make = || {
                start.wait();
                make_folder(&path)
            };
            thread::scope(|scope| {
                for thread in [(); 4].map(|()| scope.spawn(make)) {
                    thread.join().expect("no panic").expect("made");
                }
            });
        }
    }

    #[test]
    fn a_folder_that_others_remove_is_made_all_the_same() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let path = home.path().join("a");
        thread::scope(|scope| {
            let removes = scope.spawn(|| {
                // Removal fails while the folder is absent.
                for _ in 0..20_000 {
                    let _ = fs::remove_dir(&path);
                }
            });
            while !removes.is_finished() {
                make_folder(&path).expect("made");
            }
        });
    }

    #[test]
    fn unwritable_folder_is_an_error() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let below_a_file = make_folder(&file.path().join("a/b")).expect_err("a file holds nothing");
        assert_eq!(below_a_file.kind(), ErrorKind::NotADirectory);
        // The parent exists, but creating a folder in it fails with `NotFound`.
        assert_eq!(make_folder(Path::new("/proc/a/b")).expect_err("no folders there").kind(), ErrorKind::NotFound);
    }
}
