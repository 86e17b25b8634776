//! Trait of storage backends, and the types of their answers.

use std::fmt::{self, Debug, Display, Formatter};
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::time::SystemTime;

/// Storage backend below a [`Store`](crate::Store): blocking calls, one attempt each.
///
/// The caller has checked the names: relative, parts between `/`, none of them `..` or empty. Errors are plain: the
/// store adds the location and retries transient errors. Every call can therefore come twice, because an error does not
/// tell whether the call had its effect.
pub trait StoreBackend: Debug + Send + Sync {
    /// Returns the whole object and its [`Stat`] at the time of the read; `None` if the object is absent.
    fn get(&self, name: &str) -> io::Result<Option<(Vec<u8>, Stat)>>;

    /// Returns the bytes of that range, fewer where the object ends; an error of kind `NotFound` if it is absent.
    fn get_range(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>>;

    /// Returns the [`Stat`] of the object; `None` if the object is absent.
    fn head(&self, name: &str) -> io::Result<Option<Stat>>;

    /// Lists every object whose name begins with `FOLDER/`, or every object if `folder` is empty; in any order.
    fn list(&self, folder: &str) -> io::Result<Vec<Entry>>;

    /// Begins an object of any size. The object is visible only after [`Upload::commit`].
    fn begin_upload(&self, name: &str) -> io::Result<Box<dyn Upload>>;

    /// Creates the object unless it exists.
    ///
    /// On a folder: writes and flushes a temporary file, then hard-links it to the name, or renames it if the file
    /// system has no hard links. Both fail if the name exists.
    fn put_if_absent(&self, name: &str, bytes: &[u8]) -> io::Result<Created>;

    /// Replaces the object if it still has that version.
    ///
    /// On a folder, a file lock is not sufficient: machines do not share it, and a process that is stopped while it
    /// holds the lock blocks all others. The new content goes to a separate file in the same folder. A symbolic link to
    /// that file is then created under a name derived from the *version*. The first process to create the link decides
    /// which content follows, and every process that finds the link may publish it. No process waits.
    /// `crates/store/src/folder/replace.rs` has the proof.
    fn put_if_version(&self, name: &str, bytes: &[u8], expected: &Version) -> io::Result<Replaced>;

    /// Removes the object. An absent object is no error.
    fn delete(&self, name: &str) -> io::Result<()>;

    /// Removes temporary files of dead writers below `folder` (empty: everywhere), except below a folder with a
    /// separate lock. Returns the names of the files.
    fn sweep(&self, folder: &str) -> io::Result<Vec<String>>;

    /// Returns a readable location of the object, or of the whole store if the name is empty.
    fn display_path(&self, name: &str) -> String;

    /// Returns the local folder of that name if the backend has one. The folder need not exist.
    fn local(&self, folder: &str) -> Option<PathBuf>;
}

/// Unfinished upload of an object. Dropped before the commit, it leaves nothing.
pub trait Upload: Debug + Send {
    /// Writes all of `bytes` at `offset`. After an error the caller passes the same bytes at the same offset again.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes the object durable, then visible. After an error it may be called again, and continues from the failed
    /// step.
    fn commit(&mut self) -> io::Result<Stat>;
}

/// Metadata of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Length of the object.
    pub bytes: u64,
    /// Version of the content. It changes with every write of other content. A server that derives it from the content
    /// gives equal content an equal version, so an object that is replaced by version must never return to an earlier
    /// content: its bytes contain a counter, or identify their writer.
    pub version: Version,
    /// Time of the write, by the clock of the storage: for display, not for decisions.
    pub modified: SystemTime,
}

/// Opaque version of an object's content. Only equality has a meaning.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(String);

impl Version {
    /// Creates a version from the text by which the backend tells versions apart.
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

/// Entry of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Name relative to the store that was listed.
    pub name: String,
    /// Metadata of the object.
    pub stat: Stat,
}

/// Result of a create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Created {
    /// The call created the object.
    Made(Stat),
    /// The object existed already and is unchanged.
    Exists,
}

/// Result of a replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replaced {
    /// The call replaced the object.
    Made(Stat),
    /// The object no longer has that version, or is absent.
    Changed,
}
