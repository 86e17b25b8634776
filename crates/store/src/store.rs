//! The handle that everybody holds.

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Created, Entry, Replaced, Stat, StoreBackend, Version};
use crate::error::at;
use crate::fault_config::FaultConfig;
use crate::faulty_backend::FaultyBackend;
use crate::folder::Folder;
use crate::memory::MemoryBackend;
use crate::name;
use crate::retry::{After, Retries};
use crate::writer::ObjectWriter;

/// Bytes of a large object that are in memory at once: enough that BLAKE3 hashes many of its own chunks side by side.
const PIECE_BYTES: usize = 1 << 20;

/// Named objects, each whole or absent; see the [crate].
///
/// Cheap to clone. Names are relative, with `/` between their parts. Every error says where; one that passes by itself
/// is met by asking again, a bounded number of times, before anybody hears of it.
#[derive(Clone, Debug)]
pub struct Store {
    kind: Arc<dyn StoreBackend>,
    /// Empty, or ending in `/`.
    prefix: String,
    local: Option<PathBuf>,
    retries: Retries,
}

impl Store {
    /// The folder at `path`, made with its parents if it is missing.
    pub fn folder(path: impl Into<PathBuf>) -> io::Result<Self> {
        Ok(Self::of(Arc::new(Folder::make(path.into())?)))
    }

    /// The folder at `path`, which has to be there.
    pub fn existing(path: impl Into<PathBuf>) -> io::Result<Self> {
        Ok(Self::of(Arc::new(Folder::find(path.into())?)))
    }

    /// A store in this process's memory, with that weather.
    pub fn memory(weather: FaultConfig) -> Self {
        Self::of_memory(&MemoryBackend::new(weather))
    }

    /// The handle of a store in memory that somebody watches. It asks again at once: no pause mends weather.
    pub fn of_memory(memory: &MemoryBackend) -> Self {
        let pause = Duration::ZERO;
        Self::of(Arc::new(memory.clone())).with_retries(Retries { pause, pause_max: pause, ..Retries::default() })
    }

    /// The handle of a store of any kind.
    pub fn of(kind: Arc<dyn StoreBackend>) -> Self {
        let local = kind.local("");
        Self { kind, prefix: String::new(), local, retries: Retries::default() }
    }

    /// The same store, asked that patiently.
    #[must_use]
    pub fn with_retries(mut self, retries: Retries) -> Self {
        self.retries = retries;
        self
    }

    /// The same store, in weather: to see what becomes of a run over a disk that fails. Its lock and its uploads hear of it
    /// as all others do.
    #[must_use]
    pub fn in_weather(&self, weather: FaultConfig) -> Self {
        self.beneath(|kind| Arc::new(FaultyBackend::over(kind, weather)))
    }

    /// The same store, below something that looks at what is asked of it.
    pub(crate) fn beneath(&self, wrap: impl FnOnce(Arc<dyn StoreBackend>) -> Arc<dyn StoreBackend>) -> Self {
        Self { kind: wrap(Arc::clone(&self.kind)), ..self.clone() }
    }

    /// How patiently it is asked.
    pub fn retries(&self) -> Retries {
        self.retries
    }

    /// The store of what lies below `folder`. A name that leads elsewhere is refused when it is used.
    #[must_use]
    pub fn within(&self, folder: &str) -> Self {
        let prefix = format!("{}{folder}/", self.prefix);
        let inside = name::check(&prefix[..prefix.len() - 1]).is_ok();
        let local = inside.then(|| self.kind.local(&prefix[..prefix.len() - 1])).flatten();
        Self { kind: Arc::clone(&self.kind), prefix, local, retries: self.retries }
    }

    /// The whole object.
    pub fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let found = self.read_with_stat(name)?;
        found.map(|(bytes, _)| bytes).ok_or_else(|| at(self.place(name), &ErrorKind::NotFound.into()))
    }

    /// The whole object with what it was when it was read, so that it can be [replaced](Self::replace); `None` if
    /// there is none.
    pub fn read_with_stat(&self, name: &str) -> io::Result<Option<(Vec<u8>, Stat)>> {
        self.ask(name, |name, _| self.kind.read(name))
    }

    /// Exactly the bytes of that range. An object that ends before is an error.
    pub fn read_range(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>> {
        if range.start > range.end {
            let error = io::Error::new(ErrorKind::InvalidInput, format!("bytes {range:?} end before they begin"));
            return Err(at(self.place(name), &error));
        }
        let bytes = self.ask(name, |name, _| self.kind.read_range(name, range.clone()))?;
        if bytes.len() as u64 == range.end - range.start {
            return Ok(bytes);
        }
        let message = format!("bytes {range:?} were asked for, only {} are there; it is cut short", bytes.len());
        Err(at(self.place(name), &io::Error::new(ErrorKind::UnexpectedEof, message)))
    }

    /// The object's first `bytes` bytes, in order, piece by piece: who wants a large object need not hold all of it.
    pub fn pieces(&self, name: &str, bytes: u64) -> impl Iterator<Item = io::Result<Vec<u8>>> {
        let starts = (0..bytes).step_by(PIECE_BYTES);
        starts.map(move |start| self.read_range(name, start..bytes.min(start + PIECE_BYTES as u64)))
    }

    /// BLAKE3 of the object's first `bytes` bytes.
    pub fn hash(&self, name: &str, bytes: u64) -> io::Result<blake3::Hash> {
        let mut hasher = blake3::Hasher::new();
        for piece in self.pieces(name, bytes) {
            hasher.update(&piece?);
        }
        Ok(hasher.finalize())
    }

    /// What the object is; `None` if there is none.
    pub fn stat(&self, name: &str) -> io::Result<Option<Stat>> {
        self.ask(name, |name, _| self.kind.stat(name))
    }

    /// Every object below `folder` (empty: all), sorted by name. Unfinished ones are not objects.
    pub fn list(&self, folder: &str) -> io::Result<Vec<Entry>> {
        let mut entries = self.ask_below(folder, |folder| self.kind.list(folder))?;
        for entry in &mut entries {
            entry.name.drain(..self.prefix.len());
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    /// Writes the whole object, over what was there.
    ///
    /// An object is either put or [replaced](Self::replace), not both: a replacement that was decided before a put may
    /// become visible after it.
    pub fn put(&self, name: &str, bytes: &[u8]) -> io::Result<Stat> {
        // All of it again after the device has failed, from its first byte: what was flushed in vain is not trusted.
        let once = |name: &str| {
            let patiently = After::Passing;
            let mut upload = self.retries.until_answered(patiently, |_| self.kind.begin(name))?;
            self.retries.until_answered(patiently, |_| upload.write_at(0, bytes))?;
            self.retries.until_answered(patiently, |_| upload.commit())
        };
        self.ask_after(After::Device, name, |name, _| once(name))
    }

    /// Begins an object of any size.
    pub fn begin(&self, name: &str) -> io::Result<ObjectWriter> {
        let upload = self.ask(name, |name, _| self.kind.begin(name))?;
        Ok(ObjectWriter::new(upload, self.place(name), self.retries))
    }

    /// Makes the object unless there is one. Of several at once, one succeeds.
    ///
    /// Where an acknowledgement was lost, finding the same bytes means that they are ours: say in them who wrote them.
    pub fn create(&self, name: &str, bytes: &[u8]) -> io::Result<Created> {
        self.ask(name, |name, again| match self.kind.create(name, bytes)? {
            Created::Exists if again => Ok(self.own(name, bytes)?.map_or(Created::Exists, Created::Made)),
            outcome => Ok(outcome),
        })
    }

    /// Replaces the object if it still has that version. Of several at once, one succeeds.
    ///
    /// Where an acknowledgement was lost, finding the same bytes means that they are ours: say in them who wrote them.
    /// `Changed` can then still hide a success that somebody else has replaced since.
    pub fn replace(&self, name: &str, bytes: &[u8], expected: &Version) -> io::Result<Replaced> {
        self.ask(name, |name, again| match self.kind.replace(name, bytes, expected)? {
            Replaced::Changed if again => Ok(self.own(name, bytes)?.map_or(Replaced::Changed, Replaced::Made)),
            outcome => Ok(outcome),
        })
    }

    /// Removes the object; it need not be there.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        self.ask(name, |name, _| self.kind.remove(name))
    }

    /// Removes every object below `folder` (empty: all), in descending order of their names: what a reader looks for
    /// first is written last and should be named to go first.
    pub fn remove_all(&self, folder: &str) -> io::Result<()> {
        self.list(folder)?.iter().rev().try_for_each(|entry| self.remove(&entry.name))
    }

    /// Removes what writers that died left unfinished; returns the names of those files, sorted.
    ///
    /// Only for the holder of the lock, before it writes: the puts of others end with an error. So folders below that have
    /// a [lock](crate::LOCK) of their own are not entered.
    pub fn sweep(&self) -> io::Result<Vec<String>> {
        let mut removed = self.ask_below("", |folder| self.kind.sweep(folder))?;
        for name in &mut removed {
            name.drain(..self.prefix.len());
        }
        removed.sort();
        Ok(removed)
    }

    /// The object, or the whole store if `name` is empty, in words for people.
    pub fn place(&self, name: &str) -> String {
        let full = format!("{}{name}", self.prefix);
        self.kind.place(full.trim_end_matches('/'))
    }

    /// The folder on this machine, where the store is one. It need not exist yet.
    pub fn local(&self) -> Option<&Path> {
        self.local.as_deref()
    }

    /// What the object is, if it holds these bytes.
    fn own(&self, name: &str, bytes: &[u8]) -> io::Result<Option<Stat>> {
        Ok(self.kind.read(name)?.filter(|(found, _)| found == bytes).map(|(_, stat)| stat))
    }

    /// Asks the kind for an object until it answers. The call hears whether it is made again.
    fn ask<T>(&self, name: &str, call: impl Fn(&str, bool) -> io::Result<T>) -> io::Result<T> {
        self.ask_after(After::Any, name, call)
    }

    fn ask_after<T>(&self, after: After, name: &str, call: impl Fn(&str, bool) -> io::Result<T>) -> io::Result<T> {
        let full = format!("{}{name}", self.prefix);
        name::check(&full).map_err(|error| at(self.kind.place(""), &error))?;
        self.retries
            .until_answered(after, |again| call(&full, again))
            .map_err(|error| at(self.kind.place(&full), &error))
    }

    /// Asks the kind for what lies below a folder, until it answers.
    fn ask_below<T>(&self, folder: &str, call: impl Fn(&str) -> io::Result<T>) -> io::Result<T> {
        let full = format!("{}{folder}", self.prefix);
        let full = if folder.is_empty() { full.trim_end_matches('/') } else { &full };
        if !full.is_empty() {
            name::check(full).map_err(|error| at(self.kind.place(""), &error))?;
        }
        self.retries.until_answered(After::Any, |_| call(full)).map_err(|error| at(self.kind.place(full), &error))
    }
}
