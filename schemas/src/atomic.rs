//! Small files that are complete or absent, for tests, benchmarks and made-up data. What a run or a preparation keeps
//! goes through a `store::Store`.
//!
//! A file is written under a temporary name beside its destination (`.NAME.tmp`), flushed to disk and renamed. A kill at
//! any instant leaves the old file, the new file, or no file, and at most a temporary one.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// A local folder to write into.
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

    /// Writes the whole file `name`, which may contain folders (`train/part-0.parquet`); they are made.
    pub fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let target = self.0.join(name);
        let file_name = target.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let temporary = target.with_file_name(format!(".{file_name}.tmp"));
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent).map_err(|error| at(parent, &error))?;
        }
        let written = fill(&temporary, bytes).and_then(|()| fs::rename(&temporary, &target));
        written.map_err(|error| {
            // Nothing to report to: the failure that brought us here is on its way up already.
            let _ = fs::remove_file(&temporary);
            at(&target, &error)
        })
    }
}

fn fill(path: &Path, bytes: &[u8]) -> io::Result<()> {
    #[expect(clippy::disallowed_methods, reason = "it is renamed when it is whole")]
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// An I/O error that says where.
fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_complete_or_absent() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let folder = Folder::create(home.path().join("a/b")).expect("made with its parents");
        folder.write("train/x", b"whole").expect("written");
        assert_eq!(fs::read(folder.path().join("train/x")).expect("visible"), b"whole");

        fs::create_dir(folder.path().join("train/y")).expect("made");
        let error = folder.write("train/y", b"in the way of a folder").expect_err("not over a folder");
        assert!(error.to_string().contains("/train/y: "), "{error}");
        assert_eq!(fs::read_dir(folder.path().join("train")).expect("made").count(), 2, "nothing temporary is left");
    }
}
