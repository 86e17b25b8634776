//! Files of a corpus and their names.
//!
//! # Names
//!
//! A file's name is its path relative to the input that found it: relative to the folder, or to the part of a glob that
//! has no wildcard, or its file name alone. So it depends neither on the location of the corpus nor on other inputs. A
//! file that several inputs find has the longest of these names. If two files have the same name, both names are
//! extended by one more parent folder, until all names differ. A file whose parts exist already keeps its name, see
//! [`file_names`](super::file_names). Files are sorted by name.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use store::Stat;

use super::discover::{DiscoveredFile, DiscoveredFiles, FileFilter, SkippedFiles, unusable, walk};
use super::file_identity::FileIdentity;
use super::file_names::{FileName, KnownFiles, file_names};
use super::object::{ObjectReader, StoredObject};
use super::object_inputs::Purpose;
use crate::{Error, Result};

/// Seconds since the Unix epoch as the time of a file that may have the name of another known one: later than any list,
/// so that the file is compared with its parts.
const DOUBTFUL_SECONDS: u64 = 1 << 33;

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
        let identity = FileIdentity::of_file(&metadata);
        // A time before 1970 counts as 1970.
        let touched = SystemTime::UNIX_EPOCH + newest.unwrap_or_default();
        Ok(Self { path, name, bytes: identity.bytes(), touched, identity, object: None })
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
    pub(super) fn with_head(&self) -> io::Result<Self> {
        let object = self.object.as_ref().map(|object| object.with_head(self.bytes)).transpose()?;
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
        self.compare(&self.identity_now()?)
    }

    /// Returns the cause of an error while an object was read, if the object has changed since discovery: its ranges are
    /// then of two contents.
    pub(super) fn explain(&self, error: Error) -> Error {
        let now = self.object.as_ref().and_then(|_| self.identity_now().ok());
        now.and_then(|now| self.compare(&now).err()).unwrap_or(error)
    }

    fn compare(&self, now: &FileIdentity) -> Result<()> {
        if self.identity.has_same_text(now) {
            return Ok(());
        }
        let message = if now.bytes() == self.bytes {
            "it changed after the preparation began".to_owned()
        } else {
            format!("it changed after the preparation began: {} bytes, {} at the beginning", now.bytes(), self.bytes)
        };
        let hint = "; run the same command again when the file no longer changes, finished parts are kept";
        Err(unusable(&self.path, message + hint))
    }
}

/// Finds the files that `inputs` name, sorted, each once, and the skipped paths. Files that are `known` keep their names.
pub(super) fn find(
    inputs: &[String],
    extensions: &[&str],
    known: &KnownFiles,
) -> Result<(Vec<InputFile>, SkippedFiles)> {
    let DiscoveredFiles { paths, passed } = walk(inputs, FileFilter::new(extensions))?;
    let names = file_names(&paths, known)?;
    let named = |((path, found), FileName { name, is_doubtful }): ((PathBuf, DiscoveredFile), FileName)| {
        let mut file = match found.object {
            None => InputFile::new(path, name)?,
            Some((object, stat)) => InputFile::from_object(path, name, object, &stat),
        };
        if is_doubtful {
            file.touched = SystemTime::UNIX_EPOCH + Duration::from_secs(DOUBTFUL_SECONDS);
        }
        Ok(file)
    };
    let mut files = paths.into_iter().zip(names).map(named).collect::<Result<Vec<_>>>()?;
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok((files, passed))
}

/// Returns the same error as [`find`] for inputs without files, and stops at the first file.
pub(super) fn check(inputs: &[String], extensions: &[&str]) -> Result<()> {
    walk(inputs, FileFilter { most: 1, purpose: Purpose::Check, ..FileFilter::new(extensions) }).map(|_| ())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::file_names::KnownFile;
    use super::*;
    use crate::testing::write_all;

    fn found(home: &Path, inputs: &[&str], known: &KnownFiles) -> Vec<InputFile> {
        let inputs: Vec<_> = inputs.iter().map(|input| home.join(input).display().to_string()).collect();
        find(&inputs, &["txt"], known).expect("found").0
    }

    fn names(home: &Path, inputs: &[&str]) -> Vec<String> {
        found(home, inputs, &KnownFiles::new()).into_iter().map(|file| file.name).collect()
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
    fn a_known_file_keeps_its_name_and_newcomers_are_extended() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let texts = ["p/a/x.txt", "p/b/x.txt", "p/b/y.txt", "q/b/x.txt"].map(|name| (name, format!("text of {name}")));
        write_all(home.path(), &texts);
        let known = |files: Vec<InputFile>| -> KnownFiles {
            let known = |file: InputFile| (file.name, KnownFile { bytes: file.bytes, identity: Some(file.identity) });
            files.into_iter().map(known).collect()
        };
        let named = |inputs: &[&str], known: &KnownFiles| -> Vec<String> {
            let path = |file: &InputFile| file.path.strip_prefix(home.path()).expect("below").display().to_string();
            let files = found(home.path(), inputs, known);
            let mut named: Vec<String> = files.iter().map(|file| format!("{} {}", path(file), file.name)).collect();
            named.sort_unstable();
            named
        };
        let none = KnownFiles::new();
        let inputs = ["p/a", "p/b", "q/b"];
        // All of one length. In the second case, a longer known name is a better end of the path of `x.txt`.
        for (first, expected) in [
            ("p/a", ["p/a/x.txt x.txt", "p/b/x.txt p/b/x.txt", "p/b/y.txt y.txt", "q/b/x.txt q/b/x.txt"]),
            ("p/b", ["p/a/x.txt a/x.txt", "p/b/x.txt x.txt", "p/b/y.txt y.txt", "q/b/x.txt b/x.txt"]),
        ] {
            let of_one = known(found(home.path(), &[first], &none));
            assert_eq!(named(&inputs, &of_one), expected);
            let of_all = known(found(home.path(), &inputs, &of_one));
            assert_eq!(named(&inputs, &of_all), expected, "once known, the names stay");
            assert_eq!(named(&["p/b", "p/a"], &of_all), expected[..3], "also if a file is removed");
        }
        // The parent of an input is another input: names of newcomers in it are longer.
        let of_one = known(found(home.path(), &["p/a"], &none));
        assert_eq!(named(&["p"], &of_one), ["p/a/x.txt x.txt", "p/b/x.txt b/x.txt", "p/b/y.txt b/y.txt"]);
    }

    #[test]
    fn a_file_that_nothing_tells_from_another_is_compared() {
        let home = tempfile::tempdir().expect("a temporary folder");
        write_all(home.path(), &[("a/x.txt", "1"), ("b/x.txt", "2"), ("c/x.txt", "longer")]);
        let found = |inputs: &[&str], bytes| -> Vec<(String, bool)> {
            let lost = KnownFiles::from([("x.txt".to_owned(), KnownFile { bytes, identity: None })]);
            let files = found(home.path(), inputs, &lost).into_iter();
            let doubtful = SystemTime::UNIX_EPOCH + Duration::from_secs(DOUBTFUL_SECONDS);
            files.map(|file| (file.name, file.touched == doubtful)).collect()
        };
        let expected = |names: [(&str, bool); 2]| names.map(|(name, is_compared)| (name.to_owned(), is_compared));
        assert_eq!(found(&["a", "b"], 1), expected([("b/x.txt", true), ("x.txt", true)]));
        assert_eq!(found(&["a", "c"], 1), expected([("c/x.txt", false), ("x.txt", false)]), "one has the length");
        assert_eq!(found(&["a", "c"], 6), expected([("a/x.txt", false), ("x.txt", false)]), "one has the length");
        assert_eq!(found(&["a"], 9), [("x.txt".to_owned(), false)], "a changed file");
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
            let inputs = [home.path().join(input).display().to_string()];
            let error = find(&inputs, &["txt"], &KnownFiles::new()).expect_err("nothing there");
            assert!(error.to_string().contains(expected) && error.to_string().contains(input), "{error}");
        }
    }
}
