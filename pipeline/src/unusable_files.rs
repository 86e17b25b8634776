//! Collection of files that cannot be used, so that one error names all of them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use crate::{Error, Result};

/// Maximum number of files that an error names.
const NAMED: usize = 1000;

/// Line in an unusable file, if known, and the problem.
type Problem = (Option<u64>, String);

/// Files that cannot be used, each once.
#[derive(Debug, Default)]
pub(crate) struct UnusableFiles(BTreeMap<PathBuf, Problem>);

impl UnusableFiles {
    /// Adds the file of an error.
    ///
    /// # Errors
    /// The error itself if it is about something else.
    pub(crate) fn add(&mut self, error: Error) -> Result<()> {
        let Error::UnusableFile { path, line, message } = error else { return Err(error) };
        self.0.entry(path).or_insert((line, message));
        Ok(())
    }

    /// Adds the files of another collection.
    pub(crate) fn append(&mut self, other: Self) {
        for (path, problem) in other.0 {
            self.0.entry(path).or_insert(problem);
        }
    }

    /// Returns an error that names all files, in the order of their paths.
    pub(crate) fn refuse(self) -> Result<()> {
        let count = self.0.len();
        let mut files = self.0.into_iter();
        let Some((path, (line, mut message))) = files.next() else { return Ok(()) };
        for (path, (line, problem)) in files.by_ref().take(NAMED - 1) {
            let _ = write!(message, "\n{}", Error::UnusableFile { path, line, message: problem });
        }
        if files.len() > 0 {
            let _ = write!(message, "\nand {} more", files.len());
        }
        if count > 1 {
            let _ = write!(message, "\n{count} files cannot be used; the parts without them are made and kept");
        }
        Err(Error::UnusableFile { path, line, message })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unusable(path: &str, line: Option<u64>) -> Error {
        Error::UnusableFile { path: path.into(), line, message: "truncated".to_owned() }
    }

    #[test]
    fn one_error_names_each_file_once() {
        let mut files = UnusableFiles::default();
        files.add(unusable("b", Some(3))).expect("of a file");
        let mut others = UnusableFiles::default();
        for path in ["a", "b"] {
            others.add(unusable(path, None)).expect("of a file");
        }
        files.append(others);
        files.add(Error::Stopped).expect_err("of no file");
        let error = files.refuse().expect_err("two files").to_string();
        let expected = "a: truncated\nb:3: truncated\n2 files cannot be used; the parts without them are made and kept";
        assert_eq!(error, expected);
        UnusableFiles::default().refuse().expect("no file");
    }

    #[test]
    fn a_single_file_has_the_error_that_it_had() {
        let mut files = UnusableFiles::default();
        files.add(unusable("a", None)).expect("of a file");
        assert_eq!(files.refuse().expect_err("one").to_string(), unusable("a", None).to_string());
    }

    #[test]
    fn a_thousand_files_are_named() {
        let mut files = UnusableFiles::default();
        for number in 0..1002 {
            files.add(unusable(&format!("{number:04}"), None)).expect("of a file");
        }
        let error = files.refuse().expect_err("many").to_string();
        assert!(error.contains("\n0999: truncated\nand 2 more\n1002 files"), "{error}");
    }
}
