//! Stores that can only be read.
//!
//! # Definition
//! The length and the tag of an object are remembered when its metadata are read. A range of an object that has others is
//! refused: the ranges of a reader would be of two contents.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use store::{Created, Entry, Replaced, Stat, StoreBackend, Upload, Version};

/// Facts of an object from its metadata.
#[derive(Clone, Debug)]
pub(crate) struct KnownObject {
    pub(crate) bytes: u64,
    /// Tag of the content, if the server has sent one.
    pub(crate) tag: Option<String>,
}

/// Reading part of a [`StoreBackend`].
pub(crate) trait ReadBackend: Debug + Send + Sync {
    /// Name of the store in errors.
    const NAME: &'static str;

    fn get(&self, name: &str) -> io::Result<Option<(Vec<u8>, Stat)>>;
    /// Reads a range. `known` is of the object, if its metadata were read before.
    fn get_range(&self, name: &str, range: Range<u64>, known: Option<KnownObject>) -> io::Result<Vec<u8>>;
    fn head(&self, name: &str) -> io::Result<Option<Stat>>;
    fn list(&self, folder: &str) -> io::Result<Vec<Entry>>;
    fn display_path(&self, name: &str) -> String;
}

/// Storage backend that refuses changes.
#[derive(Debug)]
pub(crate) struct ReadOnly<T> {
    backend: T,
    /// Objects whose metadata were read.
    known: Mutex<BTreeMap<String, KnownObject>>,
}

impl<B: ReadBackend> ReadOnly<B> {
    pub(crate) fn new(backend: B) -> Self {
        Self { backend, known: Mutex::default() }
    }

    fn remember(&self, name: &str, stat: Option<&Stat>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match stat {
            Some(Stat { bytes, version, .. }) => {
                let tag = Some(version.to_string()).filter(|version| !version.ends_with(" bytes"));
                known.insert(name.to_owned(), KnownObject { bytes: *bytes, tag })
            }
            None => known.remove(name),
        };
    }

    fn known(&self, name: &str) -> Option<KnownObject> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }
}

/// Returns the error of a change.
fn refuse<B: ReadBackend, T>() -> io::Result<T> {
    let message = format!("{} can only be read; write to a folder, s3://, gs:// or az://", B::NAME);
    Err(io::Error::new(ErrorKind::ReadOnlyFilesystem, message))
}

impl<B: ReadBackend> StoreBackend for ReadOnly<B> {
    fn get(&self, name: &str) -> io::Result<Option<(Vec<u8>, Stat)>> {
        let found = self.backend.get(name)?;
        self.remember(name, found.as_ref().map(|(_, stat)| stat));
        Ok(found)
    }

    fn get_range(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>> {
        self.backend.get_range(name, range, self.known(name))
    }

    fn head(&self, name: &str) -> io::Result<Option<Stat>> {
        let found = self.backend.head(name)?;
        self.remember(name, found.as_ref());
        Ok(found)
    }

    fn list(&self, folder: &str) -> io::Result<Vec<Entry>> {
        self.backend.list(folder)
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
        self.backend.display_path(name)
    }

    fn local(&self, _folder: &str) -> Option<PathBuf> {
        None
    }
}
