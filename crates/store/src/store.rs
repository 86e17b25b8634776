//! Store handle: names, retries and error locations on top of a backend.

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Created, Entry, Replaced, Stat, StoreBackend, Version};
use crate::error::with_place;
use crate::fault_config::FaultConfig;
use crate::faulty_backend::FaultyBackend;
use crate::folder::Folder;
use crate::memory::MemoryBackend;
use crate::name;
use crate::retry::{Retries, RetryOn};
use crate::writer::ObjectWriter;

/// Bytes of a large object that are read at once. Over a network, the transfer then takes longer than the wait for it.
const PIECE_BYTES: usize = 8 << 20;

/// Set of named objects, each whole or absent; see the [crate].
///
/// Cheap to clone. Names are relative, with `/` between their parts. Every error contains its location. A transient
/// error is retried a bounded number of times before it is returned.
#[derive(Clone, Debug)]
pub struct Store {
    kind: Arc<dyn StoreBackend>,
    /// Empty, or ending in `/`.
    prefix: String,
    local: Option<PathBuf>,
    retries: Retries,
}

impl Store {
    /// Opens the folder at `path`. Creates it with its parents if it is missing.
    pub fn folder(path: impl Into<PathBuf>) -> io::Result<Self> {
        Ok(Self::new(Arc::new(Folder::make(path.into())?)))
    }

    /// Opens the folder at `path`, which must exist.
    pub fn existing(path: impl Into<PathBuf>) -> io::Result<Self> {
        Ok(Self::new(Arc::new(Folder::find(path.into())?)))
    }

    /// Creates a store in this process's memory with these faults.
    pub fn in_memory(faults: FaultConfig) -> Self {
        Self::from_memory(&MemoryBackend::new(faults))
    }

    /// Creates the handle of a store in memory that the caller keeps. It retries without pauses: a pause cures no
    /// injected fault.
    pub fn from_memory(memory: &MemoryBackend) -> Self {
        let pause = Duration::ZERO;
        Self::new(Arc::new(memory.clone())).with_retries(Retries { pause, pause_max: pause, ..Retries::default() })
    }

    /// Creates the handle of any backend.
    pub fn new(kind: Arc<dyn StoreBackend>) -> Self {
        let local = kind.local("");
        Self { kind, prefix: String::new(), local, retries: Retries::default() }
    }

    /// Returns the same store with another retry policy.
    #[must_use]
    pub fn with_retries(mut self, retries: Retries) -> Self {
        self.retries = retries;
        self
    }

    /// Returns the same store with injected faults, to test a run over a failing disk. Its lock and its uploads get the
    /// faults too.
    #[must_use]
    pub fn with_faults(&self, faults: FaultConfig) -> Self {
        self.wrap(|kind| Arc::new(FaultyBackend::new(kind, faults)))
    }

    /// Returns the same store with its backend wrapped.
    pub(crate) fn wrap(&self, wrap: impl FnOnce(Arc<dyn StoreBackend>) -> Arc<dyn StoreBackend>) -> Self {
        Self { kind: wrap(Arc::clone(&self.kind)), ..self.clone() }
    }

    /// Returns the retry policy.
    pub fn retries(&self) -> Retries {
        self.retries
    }

    /// Returns the store of the objects below `folder`. An invalid name is refused on its first use.
    #[must_use]
    pub fn prefixed(&self, folder: &str) -> Self {
        let prefix = format!("{}{folder}/", self.prefix);
        let inside = name::check(&prefix[..prefix.len() - 1]).is_ok();
        let local = inside.then(|| self.kind.local(&prefix[..prefix.len() - 1])).flatten();
        Self { kind: Arc::clone(&self.kind), prefix, local, retries: self.retries }
    }

    /// Reads the whole object.
    pub fn get(&self, name: &str) -> io::Result<Vec<u8>> {
        let found = self.get_with_stat(name)?;
        found.map(|(bytes, _)| bytes).ok_or_else(|| with_place(self.place(name), &ErrorKind::NotFound.into()))
    }

    /// Reads the whole object with its metadata, so that it can be [replaced](Self::put_if_version); `None` if it is
    /// absent.
    pub fn get_with_stat(&self, name: &str) -> io::Result<Option<(Vec<u8>, Stat)>> {
        self.retried(name, |name, _| self.kind.get(name))
    }

    /// Reads exactly the bytes of that range. An object that ends before is an error.
    pub fn get_range(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>> {
        if range.start > range.end {
            let error = io::Error::new(ErrorKind::InvalidInput, format!("bytes {range:?} end before they begin"));
            return Err(with_place(self.place(name), &error));
        }
        let bytes = self.retried(name, |name, _| self.kind.get_range(name, range.clone()))?;
        if bytes.len() as u64 == range.end - range.start {
            return Ok(bytes);
        }
        let message = format!("bytes {range:?} were asked for, only {} are there; it is cut short", bytes.len());
        Err(with_place(self.place(name), &io::Error::new(ErrorKind::UnexpectedEof, message)))
    }

    /// Reads the object's first `bytes` bytes in order, one piece at a time, to bound the memory of large objects.
    pub fn pieces(&self, name: &str, bytes: u64) -> impl Iterator<Item = io::Result<Vec<u8>>> {
        let starts = (0..bytes).step_by(PIECE_BYTES);
        starts.map(move |start| self.get_range(name, start..bytes.min(start + PIECE_BYTES as u64)))
    }

    /// Computes the BLAKE3 of the object's first `bytes` bytes.
    pub fn hash(&self, name: &str, bytes: u64) -> io::Result<blake3::Hash> {
        let mut hasher = blake3::Hasher::new();
        for piece in self.pieces(name, bytes) {
            hasher.update(&piece?);
        }
        Ok(hasher.finalize())
    }

    /// Returns the metadata of the object; `None` if it is absent.
    pub fn head(&self, name: &str) -> io::Result<Option<Stat>> {
        self.retried(name, |name, _| self.kind.head(name))
    }

    /// Lists every object below `folder` (empty: all), sorted by name. Unfinished objects are not listed.
    pub fn list(&self, folder: &str) -> io::Result<Vec<Entry>> {
        let mut entries = self.ask_below(folder, |folder| self.kind.list(folder))?;
        for entry in &mut entries {
            entry.name.drain(..self.prefix.len());
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    /// Writes the whole object and overwrites an existing one.
    ///
    /// An object is either put or [replaced](Self::put_if_version), not both: a replacement that was decided before a
    /// put may become visible after it.
    pub fn put(&self, name: &str, bytes: &[u8]) -> io::Result<Stat> {
        // After a device error the write restarts from its first byte: a failed flush is not trusted.
        let once = |name: &str| {
            let patiently = RetryOn::Transient;
            let mut upload = self.retries.retry_request(patiently, |_| self.kind.begin_upload(name))?;
            self.retries.retry_request(patiently, |_| upload.write_at(0, bytes))?;
            self.retries.retry_request(patiently, |_| upload.commit())
        };
        self.ask_after(RetryOn::Device, name, |name, _| once(name))
    }

    /// Writes the whole object, unless it has these bytes already. Returns whether it was written.
    pub fn put_if_changed(&self, name: &str, bytes: &[u8]) -> io::Result<bool> {
        let is_changed = self.get_with_stat(name)?.is_none_or(|(found, _)| found != bytes);
        if is_changed {
            self.put(name, bytes)?;
        }
        Ok(is_changed)
    }

    /// Begins an object of any size.
    pub fn writer(&self, name: &str) -> io::Result<ObjectWriter> {
        let upload = self.retried(name, |name, _| self.kind.begin_upload(name))?;
        Ok(ObjectWriter::new(upload, self.place(name), self.retries))
    }

    /// Creates the object unless it exists. Of several concurrent calls, one succeeds.
    ///
    /// After a lost acknowledgement, equal bytes count as ours. The bytes must therefore identify their writer.
    pub fn put_if_absent(&self, name: &str, bytes: &[u8]) -> io::Result<Created> {
        self.retried(name, |name, again| match self.kind.put_if_absent(name, bytes)? {
            Created::Exists if again => Ok(self.own_write(name, bytes)?.map_or(Created::Exists, Created::Made)),
            outcome => Ok(outcome),
        })
    }

    /// Replaces the object if it still has that version. Of several concurrent calls, one succeeds.
    ///
    /// After a lost acknowledgement, equal bytes count as ours. The bytes must therefore identify their writer.
    /// `Changed` can still hide a success that another writer has replaced since.
    pub fn put_if_version(&self, name: &str, bytes: &[u8], expected: &Version) -> io::Result<Replaced> {
        self.retried(name, |name, again| match self.kind.put_if_version(name, bytes, expected)? {
            Replaced::Changed if again => Ok(self.own_write(name, bytes)?.map_or(Replaced::Changed, Replaced::Made)),
            outcome => Ok(outcome),
        })
    }

    /// Removes the object. An absent object is no error.
    pub fn delete(&self, name: &str) -> io::Result<()> {
        self.retried(name, |name, _| self.kind.delete(name))
    }

    /// Removes every object below `folder` (empty: all), in descending order of their names. An object that readers
    /// look up first is written last, and should have a name that is removed first.
    pub fn delete_all(&self, folder: &str) -> io::Result<()> {
        self.list(folder)?.iter().rev().try_for_each(|entry| self.delete(&entry.name))
    }

    /// Removes unfinished files of dead writers. Returns the names of those files, sorted.
    ///
    /// Only for the holder of the lock, before it writes: concurrent puts of others fail. Folders with a separate
    /// [lock](crate::LOCK) are not entered.
    pub fn sweep(&self) -> io::Result<Vec<String>> {
        let mut removed = self.ask_below("", |folder| self.kind.sweep(folder))?;
        for name in &mut removed {
            name.drain(..self.prefix.len());
        }
        removed.sort();
        Ok(removed)
    }

    /// Returns a readable location of the object, or of the whole store if `name` is empty.
    pub fn place(&self, name: &str) -> String {
        let full = format!("{}{name}", self.prefix);
        self.kind.display_path(full.trim_end_matches('/'))
    }

    /// Returns the local folder, if the store is one. It need not exist yet.
    pub fn local(&self) -> Option<&Path> {
        self.local.as_deref()
    }

    /// Returns the metadata of the object if it contains these bytes.
    fn own_write(&self, name: &str, bytes: &[u8]) -> io::Result<Option<Stat>> {
        Ok(self.kind.get(name)?.filter(|(found, _)| found == bytes).map(|(_, stat)| stat))
    }

    /// Calls the backend for an object, with retries. The argument tells the call whether it is a repetition.
    fn retried<T>(&self, name: &str, call: impl Fn(&str, bool) -> io::Result<T>) -> io::Result<T> {
        self.ask_after(RetryOn::Any, name, call)
    }

    fn ask_after<T>(&self, after: RetryOn, name: &str, call: impl Fn(&str, bool) -> io::Result<T>) -> io::Result<T> {
        let full = format!("{}{name}", self.prefix);
        name::check(&full).map_err(|error| with_place(self.kind.display_path(""), &error))?;
        self.retries
            .retry_request(after, |again| call(&full, again))
            .map_err(|error| with_place(self.kind.display_path(&full), &error))
    }

    /// Calls the backend for the objects below a folder, with retries.
    fn ask_below<T>(&self, folder: &str, call: impl Fn(&str) -> io::Result<T>) -> io::Result<T> {
        let full = format!("{}{folder}", self.prefix);
        let full = if folder.is_empty() { full.trim_end_matches('/') } else { &full };
        if !full.is_empty() {
            name::check(full).map_err(|error| with_place(self.kind.display_path(""), &error))?;
        }
        self.retries
            .retry_request(RetryOn::Any, |_| call(full))
            .map_err(|error| with_place(self.kind.display_path(full), &error))
    }
}
