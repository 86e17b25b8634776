//! Stores that can only be read.

use std::fmt::Debug;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::PathBuf;

use store::{Created, Entry, Replaced, Stat, StoreBackend, Upload, Version};

/// Reading part of a [`StoreBackend`].
pub(crate) trait ReadBackend: Debug + Send + Sync {
    /// Name of the store in errors.
    const NAME: &'static str;

    fn get(&self, name: &str) -> io::Result<Option<(Vec<u8>, Stat)>>;
    fn get_range(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>>;
    fn head(&self, name: &str) -> io::Result<Option<Stat>>;
    fn list(&self, folder: &str) -> io::Result<Vec<Entry>>;
    fn display_path(&self, name: &str) -> String;
}

/// Storage backend that refuses changes.
#[derive(Debug)]
pub(crate) struct ReadOnly<T>(pub(crate) T);

/// Returns the error of a change.
fn refuse<B: ReadBackend, T>() -> io::Result<T> {
    let message = format!("{} can only be read; write to a folder, s3://, gs:// or az://", B::NAME);
    Err(io::Error::new(ErrorKind::ReadOnlyFilesystem, message))
}

impl<B: ReadBackend> StoreBackend for ReadOnly<B> {
    fn get(&self, name: &str) -> io::Result<Option<(Vec<u8>, Stat)>> {
        self.0.get(name)
    }

    fn get_range(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>> {
        self.0.get_range(name, range)
    }

    fn head(&self, name: &str) -> io::Result<Option<Stat>> {
        self.0.head(name)
    }

    fn list(&self, folder: &str) -> io::Result<Vec<Entry>> {
        self.0.list(folder)
    }

    fn begin_upload(&self, _name: &str) -> io::Result<Box<dyn Upload>> {
        refuse::<B, _>()
    }

    fn put_if_absent(&self, _name: &str, _bytes: &[u8]) -> io::Result<Created> {
        refuse::<B, _>()
    }

    fn put_if_version(&self, _name: &str, _bytes: &[u8], _expected: &Version) -> io::Result<Replaced> {
        refuse::<B, _>()
    }

    fn delete(&self, _name: &str) -> io::Result<()> {
        refuse::<B, _>()
    }

    fn sweep(&self, _folder: &str) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn display_path(&self, name: &str) -> String {
        self.0.display_path(name)
    }

    fn local(&self, _folder: &str) -> Option<PathBuf> {
        None
    }
}
