//! What a kind of store can do, and the words for what it answers.

use std::fmt::{self, Debug, Display, Formatter};
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::time::SystemTime;

/// A kind of store, below its handle: blocking calls, one attempt each.
///
/// Names have been checked: relative, parts between `/`, none of them `..` or empty. Errors are plain; the handle adds
/// the place and asks again where an error passes by itself, so that every call may come twice: after an error, nobody
/// knows whether it had its effect.
pub trait StoreBackend: Debug + Send + Sync {
    /// The whole object, with what it was when it was read; `None` if there is none.
    fn read(&self, name: &str) -> io::Result<Option<(Vec<u8>, Stat)>>;

    /// The bytes of that range, fewer where the object ends; an error of kind `NotFound` if there is none.
    fn read_range(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>>;

    /// What the object is; `None` if there is none.
    fn stat(&self, name: &str) -> io::Result<Option<Stat>>;

    /// Every object whose name begins with `FOLDER/`, or every object if `folder` is empty; in any order.
    fn list(&self, folder: &str) -> io::Result<Vec<Entry>>;

    /// Begins an object of any size; nobody sees it before [`Upload::commit`].
    fn begin(&self, name: &str) -> io::Result<Box<dyn Upload>>;

    /// Makes the object unless there is one.
    ///
    /// On a folder: written to a temporary file and flushed, then linked to its name, which fails where there is one.
    fn create(&self, name: &str, bytes: &[u8]) -> io::Result<Created>;

    /// Replaces the object if it still has that version.
    ///
    /// On a folder, a lock would not do: it is not held between machines, and a process that is stopped in it stops
    /// all. So the new content is written to a file next to it, and a symbolic link to it made whose name is that of the *version*:
    /// the first to make it has decided what follows, and everybody who finds it may publish it. Nothing waits.
    /// `crates/store/src/folder/replace.rs` has the proof.
    fn replace(&self, name: &str, bytes: &[u8], expected: &Version) -> io::Result<Replaced>;

    /// Removes the object; it need not be there.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Removes what writers that died left below `folder` (empty: everywhere), but not below a folder with a lock of its
    /// own. Returns the names of the files.
    fn sweep(&self, folder: &str) -> io::Result<Vec<String>>;

    /// The object, or the whole store if the name is empty, in words for people.
    fn place(&self, name: &str) -> String;

    /// The folder of that name on this machine, where there is such a thing; it need not exist.
    fn local(&self, folder: &str) -> Option<PathBuf>;
}

/// An object on its way. Dropped before it is committed, it leaves nothing.
pub trait Upload: Debug + Send {
    /// Writes all of `bytes` at `offset`. After an error the same bytes come again, at the same place.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes it durable, then visible. After an error it may be called again, and continues where it was.
    fn commit(&mut self) -> io::Result<Stat>;
}

/// What an object is, without its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its length.
    pub bytes: u64,
    /// Changes whenever the object is written, and never comes back.
    pub version: Version,
    /// When it was written, by the clock of whoever keeps it: for people, not for decisions.
    pub modified: SystemTime,
}

/// Tells one writing of an object from every other. Means nothing beyond being equal or not.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(String);

impl Version {
    /// What the kind of store tells versions apart by.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl Display for Version {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Debug for Version {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A line of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Relative to the store that was asked.
    pub name: String,
    /// What it is.
    pub stat: Stat,
}

/// What came of creating an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Created {
    /// It is ours.
    Made(Stat),
    /// There was one already, which is left as it is.
    Exists,
}

/// What came of replacing an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replaced {
    /// It is ours.
    Made(Stat),
    /// It no longer has that version, or is gone.
    Changed,
}
