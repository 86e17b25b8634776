//! Files of a corpus and their names.
//!
//! # Names
//!
//! A file's name is its path relative to the input that found it: relative to the folder, or to the part of a glob that
//! has no wildcard, or its file name alone. So it depends neither on the location of the corpus nor on other inputs. A
//! file that several inputs find has the longest of these names. If two files have the same name, both names are
//! extended by one more parent folder, until all names differ. Files are sorted by name.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use store::Stat;

use super::discover::{DiscoveredFile, DiscoveredFiles, FileFilter, SkippedFiles, unusable, walk};
use super::object::{ObjectReader, StoredObject};
use super::object_inputs::Purpose;
use crate::{Error, Result};

/// Bytes at each end of a file by which copies are compared.
const END_BYTES: u64 = 64 << 10;

/// File of a corpus, on a file system or in an object store.
#[derive(Clone, Debug)]
pub struct InputFile {
    /// Path of the file, or URL of the object.
    pub path: PathBuf,
    /// Name within the corpus, `/` separated.
    pub name: String,
    /// Length on disk.
    pub bytes: u64,
    /// Time of the last write, rename or change of owner, by the clock of its file system.
    pub touched: SystemTime,
    /// Identity, to detect a replaced or modified file.
    pub identity: FileIdentity,
    /// Object that has the bytes; `None` if they are in a file at `path`.
    object: Option<StoredObject>,
}

/// Identity of a file from its metadata, without reading it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileIdentity {
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    inode: (u64, u64),
    /// Version of an object (its `ETag`, for example), which has no other identity than this and its length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<String>,
}

/// Reader of a range of a file.
pub(super) enum FileReader {
    Local(File),
    Object(Box<ObjectReader>),
}

impl Read for FileReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Local(file) => file.read(buffer),
            Self::Object(object) => object.read(buffer),
        }
    }
}

impl FileIdentity {
    /// Whether length, time of the last write and version of an object are equal. Two machines number devices differently.
    pub(crate) fn has_same_content_stamp(&self, other: &Self) -> bool {
        self.bytes == other.bytes && self.modified == other.modified && self.version == other.version
    }

    /// Whether both may be the same file, seen by two machines: the numbers of its device differ.
    pub(crate) fn is_seen_elsewhere(&self, other: &Self) -> bool {
        self.inode.0 != other.inode.0 && self.has_same_content_stamp(other)
    }
}

impl InputFile {
    /// Reads the metadata of the file.
    pub fn new(path: PathBuf, name: String) -> Result<Self> {
        let metadata = fs::metadata(&path).map_err(|error| unusable(&path, error.to_string()))?;
        let since = |seconds: i64, nanoseconds: i64| {
            let whole = u64::try_from(seconds).ok().map(Duration::from_secs);
            whole.map(|whole| whole + Duration::from_nanos(nanoseconds.unsigned_abs()))
        };
        let clocks = [(metadata.mtime(), metadata.mtime_nsec()), (metadata.ctime(), metadata.ctime_nsec())];
        let newest = clocks.into_iter().filter_map(|(seconds, rest)| since(seconds, rest)).max();
        let identity = FileIdentity {
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            inode: (metadata.dev(), metadata.ino()),
            version: None,
        };
        // A time before 1970 counts as 1970.
        let touched = SystemTime::UNIX_EPOCH + newest.unwrap_or_default();
        Ok(Self { path, name, bytes: identity.bytes, touched, identity, object: None })
    }

    /// Creates the file of an object from its metadata. `url` is its location for messages.
    pub(super) fn from_object(url: PathBuf, name: String, object: StoredObject, stat: &Stat) -> Self {
        let identity = FileIdentity::of_object(stat);
        Self { path: url, name, bytes: stat.bytes, touched: stat.modified, identity, object: Some(object) }
    }

    /// Whether the bytes are in an object store.
    pub(crate) fn is_object(&self) -> bool {
        self.object.is_some()
    }

    /// Returns an error for a file that a retry cannot read either.
    pub(super) fn unfit_error(&self, message: String) -> Error {
        Error::UnusableFile { path: self.path.clone(), line: None, message }
    }

    /// Returns the object that has the bytes; `None` for a local file.
    pub(super) fn object(&self) -> Option<&StoredObject> {
        self.object.as_ref()
    }

    /// Returns the same file with its beginning in memory, if it is an object: several short reads take one request.
    pub(super) fn with_head(&self) -> Result<Self> {
        let object = self.object.as_ref().map(|object| object.with_head(self.bytes)).transpose();
        let object = object.map_err(|error| unusable(&self.path, format!("{error}; check `prepare.inputs`")))?;
        Ok(Self { object, ..self.clone() })
    }

    /// Opens the bytes from the beginning of a range on. The reader of a local file does not end with the range.
    pub(super) fn reader(&self, range: Range<u64>) -> io::Result<FileReader> {
        if let Some(object) = &self.object {
            return Ok(FileReader::Object(Box::new(object.reader(range))));
        }
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(range.start))?;
        Ok(FileReader::Local(file))
    }

    /// Returns the BLAKE3 of the first and the last bytes: two copies with another one are of different text.
    pub(crate) fn ends_digest(&self) -> Result<String> {
        let mut hasher = blake3::Hasher::new();
        for start in [0, self.bytes.saturating_sub(END_BYTES)] {
            let read = self.reader(start..self.bytes.min(start + END_BYTES));
            read.and_then(|reader| hasher.update_reader(reader.take(END_BYTES)).map(drop))
                .map_err(|error| unusable(&self.path, format!("{error}; check `prepare.inputs`")))?;
        }
        Ok(hasher.finalize().to_hex().to_string())
    }

    /// Returns the current identity.
    fn identity_now(&self) -> Result<FileIdentity> {
        let gone = || {
            let message = "it was removed after the preparation began; restore it or check `prepare.inputs`, then run the \
                           same command again";
            unusable(&self.path, message)
        };
        let Some(object) = &self.object else {
            return match Self::new(self.path.clone(), self.name.clone()) {
                Err(_) if !self.path.exists() => Err(gone()),
                now => Ok(now?.identity),
            };
        };
        let stat = object.stat().map_err(|error| unusable(&self.path, error.to_string()))?;
        stat.as_ref().map(FileIdentity::of_object).ok_or_else(gone)
    }

    /// Returns an error if the file has changed since discovery.
    pub fn refuse_another(&self) -> Result<()> {
        self.compare(self.identity_now()?)
    }

    /// Returns the cause of an error while an object was read, if the object has changed since discovery: its ranges are
    /// then of two contents.
    pub(super) fn explain(&self, error: Error) -> Error {
        let now = self.object.as_ref().and_then(|_| self.identity_now().ok());
        now.and_then(|now| self.compare(now).err()).unwrap_or(error)
    }

    fn compare(&self, now: FileIdentity) -> Result<()> {
        // A new hard link or another owner changes `changed` only, not the text.
        let now = FileIdentity { changed: self.identity.changed, ..now };
        if now == self.identity {
            return Ok(());
        }
        let message = if now.bytes == self.bytes {
            "it changed after the preparation began".to_owned()
        } else {
            format!("it changed after the preparation began: {} bytes, {} at the beginning", now.bytes, self.bytes)
        };
        let hint = "; run the same command again when the file no longer changes, finished parts are kept";
        Err(unusable(&self.path, message + hint))
    }
}

impl FileIdentity {
    fn of_object(stat: &Stat) -> Self {
        Self { bytes: stat.bytes, version: Some(stat.version.to_string()), ..Self::default() }
    }
}

/// Finds the files that `inputs` name, sorted, each once, and the skipped paths.
pub(super) fn find(inputs: &[String], extensions: &[&str]) -> Result<(Vec<InputFile>, SkippedFiles)> {
    let DiscoveredFiles { paths, passed } = walk(inputs, FileFilter::new(extensions))?;
    Ok((name_all(paths)?, passed))
}

/// Returns the same error as [`find`] for inputs without files, and stops at the first file.
pub(super) fn check(inputs: &[String], extensions: &[&str]) -> Result<()> {
    walk(inputs, FileFilter { most: 1, purpose: Purpose::Check, ..FileFilter::new(extensions) }).map(|_| ())
}

/// Names files by the given number of last path components, and by more where names collide.
fn name_all(mut paths: BTreeMap<PathBuf, DiscoveredFile>) -> Result<Vec<InputFile>> {
    loop {
        let mut takers = BTreeMap::<String, u32>::new();
        for (path, found) in &paths {
            *takers.entry(last_components(path, found.components)?).or_default() += 1;
        }
        let meets = |path: &Path, components| -> Result<bool> {
            Ok(takers[&last_components(path, components)?] > 1 && components < path.components().count())
        };
        let mut grown = false;
        for (path, found) in &mut paths {
            if meets(path, found.components)? {
                found.components += 1;
                grown = true;
            }
        }
        if !grown {
            break;
        }
    }
    let named = |(path, found): (PathBuf, DiscoveredFile)| {
        let name = last_components(&path, found.components)?;
        match found.object {
            None => InputFile::new(path, name),
            Some((object, stat)) => Ok(InputFile::from_object(path, name, object, &stat)),
        }
    };
    let mut files = paths.into_iter().map(named).collect::<Result<Vec<_>>>()?;
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(files)
}

fn last_components(path: &Path, count: usize) -> Result<String> {
    let all: Vec<_> = path.components().collect();
    let last = &all[all.len().saturating_sub(count)..];
    let names: Option<Vec<&str>> = last.iter().map(|part| part.as_os_str().to_str()).collect();
    let refuse = || Error::Config(format!("{}: a name that is not UTF-8; rename it", path.display()));
    let names = names.ok_or_else(refuse)?;
    Ok(names.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::write_all;

    fn names(home: &Path, inputs: &[&str]) -> Vec<String> {
        let inputs: Vec<_> = inputs.iter().map(|input| home.join(input).display().to_string()).collect();
        find(&inputs, &["txt"]).expect("found").0.into_iter().map(|file| file.name).collect()
    }

    #[test]
    fn names_depend_neither_on_the_place_nor_on_other_inputs() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let files =
            [("a/x.txt", "1"), ("a/b/y.txt.gz", "2"), ("a/.hidden.txt", "3"), ("a/z.bin", "4"), ("c/w.txt", "5")];
        write_all(home.path(), &files);
        let names = |inputs: &[&str]| names(home.path(), inputs);
        assert_eq!(names(&["a"]), ["b/y.txt.gz", "x.txt"]);
        assert_eq!(names(&["a", "c"]), ["b/y.txt.gz", "w.txt", "x.txt"], "one more input changes no name");
        assert_eq!(names(&["a/x.txt", "a/b", "a/*.txt"]), ["x.txt", "y.txt.gz"]);
        assert_eq!(names(&["a/b", "a"]), ["b/y.txt.gz", "x.txt"], "the longest, in whatever order");
        assert_eq!(names(&["*/*.txt"]), ["a/x.txt", "c/w.txt"]);
        assert_eq!(names(&["a/z.bin"]), ["z.bin"]);
    }

    #[test]
    fn names_that_meet_take_a_parent_each() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let files = [("p/a/x.txt", "1"), ("p/b/x.txt", "2"), ("p/b/y.txt", "3"), ("q/b/x.txt", "4")];
        write_all(home.path(), &files);
        let expected = ["a/x.txt", "b/x.txt", "y.txt"];
        assert_eq!(names(home.path(), &["p/a", "p/b"]), expected);
        assert_eq!(names(home.path(), &["p/b", "p/a"]), expected, "in whatever order");
        assert_eq!(names(home.path(), &["p/a", "p/b", "q/b"]), ["a/x.txt", "p/b/x.txt", "q/b/x.txt", "y.txt"]);
    }

    #[test]
    fn a_link_into_itself_is_no_second_corpus_and_a_pipe_no_file() {
        let home = tempfile::tempdir().expect("a temporary folder");
        write_all(home.path(), &[("a/x.txt", "1"), ("a/b/y.txt", "2")]);
        std::os::unix::fs::symlink(".", home.path().join("a/loop")).expect("linked");
        std::os::unix::fs::symlink("/dev/null", home.path().join("a/device.txt")).expect("linked");
        assert_eq!(names(home.path(), &["a"]), ["b/y.txt", "x.txt"]);
    }

    #[test]
    fn an_input_without_files_is_named() {
        let home = tempfile::tempdir().expect("a temporary folder");
        write_all(home.path(), &[("a/x.bin", "1")]);
        for (input, expected) in [("b", "no such file or folder"), ("*.txt", "no input"), ("a", "no input")] {
            let error = find(&[home.path().join(input).display().to_string()], &["txt"]).expect_err("nothing there");
            assert!(error.to_string().contains(expected) && error.to_string().contains(input), "{error}");
        }
    }
}
