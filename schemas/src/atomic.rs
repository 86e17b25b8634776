//! Files that are complete or absent. The only code of the project that creates files.
//!
//! A file is written under a temporary name beside its destination (`.NAME.tmp`), flushed to disk, renamed, and its
//! folder flushed. A kill at any instant leaves the old file, the new file, or no file, and at most a temporary one,
//! which [`Folder::sweep`] removes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// A destination: today a local folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder(PathBuf);

impl Folder {
    /// The folder at `path`, made with its parents if it is missing.
    pub fn create(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        fs::create_dir_all(&path).map_err(|error| at(&path, &error))?;
        Ok(Self(path))
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Begins the file `name`, which may contain folders (`train/part-0.parquet`); they are made.
    pub fn begin(&self, name: &str) -> io::Result<Pending> {
        let target = self.0.join(name);
        let file_name = target.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let temporary = target.with_file_name(format!(".{file_name}.tmp"));
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent).map_err(|error| at(parent, &error))?;
        }
        #[expect(clippy::disallowed_methods, reason = "this is the place that the ban points to")]
        let file = File::create(&temporary).map_err(|error| at(&temporary, &error))?;
        Ok(Pending { file: BufWriter::with_capacity(1 << 18, file), temporary, target, written: 0, committed: false })
    }

    /// Writes the whole file `name`.
    pub fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut pending = self.begin(name)?;
        pending.write_all(bytes)?;
        pending.commit()?;
        Ok(())
    }

    /// Removes temporary files that a killed process left here or one level below. Returns their names, sorted.
    pub fn sweep(&self) -> io::Result<Vec<String>> {
        let mut removed = Vec::new();
        let mut folders = vec![self.0.clone()];
        for entry in fs::read_dir(&self.0).map_err(|error| at(&self.0, &error))? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            }
        }
        for folder in folders {
            for entry in fs::read_dir(&folder).map_err(|error| at(&folder, &error))? {
                let path = entry?.path();
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                if is_temporary(name) && path.is_file() {
                    fs::remove_file(&path).map_err(|error| at(&path, &error))?;
                    removed.push(name.to_owned());
                }
            }
        }
        removed.sort();
        Ok(removed)
    }
}

/// Whether `name` is one that [`Folder::begin`] writes under.
fn is_temporary(name: &str) -> bool {
    name.starts_with('.') && Path::new(name).extension().is_some_and(|extension| extension == "tmp")
}

/// A file on its way: visible under its name only after [`commit`](Pending::commit).
///
/// Dropped without commit, it leaves nothing.
#[derive(Debug)]
pub struct Pending {
    file: BufWriter<File>,
    temporary: PathBuf,
    target: PathBuf,
    written: u64,
    committed: bool,
}

impl Pending {
    /// Where it will be.
    #[must_use]
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Makes the file durable, then visible. Returns its length in bytes.
    pub fn commit(mut self) -> io::Result<u64> {
        self.file.flush().map_err(|error| at(&self.target, &error))?;
        self.file.get_ref().sync_all().map_err(|error| at(&self.target, &error))?;
        fs::rename(&self.temporary, &self.target).map_err(|error| at(&self.target, &error))?;
        self.committed = true;
        if let Some(parent) = self.target.parent() {
            sync_folder(parent)?;
        }
        Ok(self.written)
    }
}

impl Write for Pending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let bytes = faults::pass(&self.target, bytes).map_err(|error| at(&self.target, &error))?;
        let count = self.file.write(bytes).map_err(|error| at(&self.target, &error))?;
        self.written += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush().map_err(|error| at(&self.target, &error))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.committed {
            // Nothing to report to: the failure that brought us here is on its way up already.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// Publishes a finished folder under its final name: flushes, renames and flushes the parent.
///
/// `from` and `to` must be siblings on one file system.
pub fn rename_folder(from: &Path, to: &Path) -> io::Result<()> {
    sync_folder(from)?;
    fs::rename(from, to).map_err(|error| at(to, &error))?;
    to.parent().map_or(Ok(()), sync_folder)
}

/// Flushes a folder's entries, so that a rename in it survives a power cut.
fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path).and_then(|folder| folder.sync_all()).map_err(|error| at(path, &error))
}

/// Opens `path` for appending, made if missing: logs, whose last line may be cut and whose readers allow for it.
pub fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path).map_err(|error| at(path, &error))
}

/// Opens `path` for a lock, made if missing; its content is advisory.
pub fn lock_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path).map_err(|error| at(path, &error))
}

/// An I/O error that says where, and what to do about a full disk.
fn at(path: &Path, error: &io::Error) -> io::Error {
    let hint = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            "; free some space and run the same command again, what is finished is kept"
        }
        _ => "",
    };
    io::Error::new(error.kind(), format!("{}: {error}{hint}", path.display()))
}

/// Faults that tests inject into the files written below one folder.
pub mod faults {
    use std::io;
    use std::path::{Path, PathBuf};
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};

    static ARMED: AtomicBool = AtomicBool::new(false);
    static FAULTS: Mutex<Vec<(PathBuf, u64)>> = Mutex::new(Vec::new());

    /// Lets `writes` more calls below `folder` pass, each cut to half its bytes (a short write), then fails every one
    /// with EIO. `None` heals. For tests; a run never calls it.
    pub fn fail_after(folder: &Path, writes: Option<u64>) {
        let mut faults = FAULTS.lock().expect("no holder of this lock panics");
        faults.retain(|(known, _)| known != folder);
        faults.extend(writes.map(|writes| (folder.to_owned(), writes)));
        ARMED.store(!faults.is_empty(), Ordering::SeqCst);
    }

    pub(super) fn pass<'a>(target: &Path, bytes: &'a [u8]) -> io::Result<&'a [u8]> {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_complete_or_absent() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let folder = Folder::create(home.path().join("a/b")).expect("made with its parents");
        let mut pending = folder.begin("train/x").expect("begun");
        pending.write_all(b"half").expect("written");
        assert!(!folder.path().join("train/x").exists());
        drop(pending);
        assert_eq!(fs::read_dir(folder.path().join("train")).expect("made").count(), 0);

        folder.write("train/x", b"whole").expect("written");
        assert_eq!(fs::read(folder.path().join("train/x")).expect("visible"), b"whole");
    }

    #[test]
    fn a_sweep_removes_what_a_kill_left() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let folder = Folder::create(home.path()).expect("there");
        std::mem::forget(folder.begin("train/x").expect("begun"));
        std::mem::forget(folder.begin("y").expect("begun"));
        folder.write("keep", b"1").expect("written");
        assert_eq!(folder.sweep().expect("readable"), [".x.tmp", ".y.tmp"]);
        assert!(folder.path().join("keep").exists());
    }

    #[test]
    fn short_writes_are_completed_and_a_failing_disk_leaves_nothing() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let folder = Folder::create(home.path()).expect("there");
        for writes in 0..8 {
            faults::fail_after(home.path(), Some(writes));
            let outcome = folder.write("x", b"0123456789");
            faults::fail_after(home.path(), None);
            match outcome {
                Ok(()) => assert_eq!(fs::read(home.path().join("x")).expect("visible"), b"0123456789"),
                Err(error) => assert!(error.to_string().contains("/x: "), "{error}"),
            }
            assert_eq!(folder.sweep().expect("readable"), Vec::<String>::new());
        }
        assert!(home.path().join("x").exists(), "eight short writes are enough for ten bytes");
    }
}
