//! Detection of the format of a corpus from its file extensions.

use std::collections::BTreeMap;
use std::path::Path;

use super::AnyFormat;
use super::discover::{FileFilter, plain_extension, walk};

/// Maximum number of files per input: enough to detect a format.
const MAX_FILES: usize = 10_000;

/// Number and bytes of the files of each extension, over the first ten thousand files that a reader of any format would
/// find.
#[derive(Clone, Debug, Default)]
pub struct FileExtensions(BTreeMap<String, (usize, u64)>);

impl FileExtensions {
    /// Counts the files that `inputs` name, with links followed and globs expanded; opens none of them. For an input
    /// without files it uses the extension in the input itself: the corpus may not exist yet.
    ///
    /// Only files with the extension of a format are found, as by the reader of that format. In a cache of the Hugging
    /// Face Hub these are the links: their targets have no extension, and would otherwise be counted in their place.
    #[must_use]
    pub fn detect(inputs: &[String]) -> Self {
        let formats = AnyFormat::examples();
        let extensions: Vec<_> = formats.iter().flat_map(|format| format.extensions()).copied().collect();
        let filter = FileFilter { extensions: &extensions, most: MAX_FILES };
        let mut found = Self::default();
        for input in inputs {
            let walked = walk(std::slice::from_ref(input), filter).unwrap_or_default();
            if walked.paths.is_empty() {
                found.add(Path::new(input), 0);
            }
            for path in walked.paths.keys() {
                found.add(path, path.metadata().map_or(0, |metadata| metadata.len()));
            }
        }
        found
    }

    fn add(&mut self, path: &Path, size: u64) {
        let name = path.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
        let (files, bytes) = self.0.entry(plain_extension(&name)).or_default();
        (*files, *bytes) = (*files + 1, *bytes + size);
    }

    /// Returns bytes and files of a format.
    fn count(&self, format: &AnyFormat) -> (u64, usize) {
        let found = format.extensions().iter().filter_map(|ending| self.0.get(*ending));
        found.fold((0, 0), |(bytes, files), (more, size)| (bytes + size, files + more))
    }

    /// Returns the format of most bytes, so that a readme next to a corpus does not decide. Of several formats with the
    /// same extensions it returns the first registered.
    #[must_use]
    pub fn format(&self) -> Option<AnyFormat> {
        let known = AnyFormat::examples().into_iter().rev().filter(|format| self.count(format).1 > 0);
        known.max_by_key(|format| self.count(format))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::testing::write_all;

    #[test]
    fn links_with_extensions_count_next_to_their_targets_without() {
        let home = tempfile::tempdir().expect("a temporary folder");
        for (kind, name) in [("parquet", "train.parquet"), ("jsonl", "train.jsonl.zst")] {
            let cache = home.path().join(kind);
            let notes = ("snapshots/a/README.txt", "a note".to_owned());
            write_all(&cache, &[("blobs/0f1e", "1".repeat(100)), ("blobs/9a8b", "2".repeat(100)), notes]);
            for (revision, blob) in [("a", "0f1e"), ("b", "0f1e"), ("b", "9a8b")] {
                let folder = cache.join("snapshots").join(revision);
                std::fs::create_dir_all(&folder).expect("created");
                symlink(format!("../../blobs/{blob}"), folder.join(format!("{blob}-{name}"))).expect("linked");
            }
            let found = FileExtensions::detect(&[cache.display().to_string()]);
            assert_eq!(found.format().map(|format| format.kind()), Some(kind));
        }
    }

    #[test]
    fn format_is_detected_by_extension() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let files = [
            ("jsonl/a.jsonl.zst", "1"),
            ("jsonl/b.JSONL.GZ", "22"),
            ("jsonl/README.txt", "3"),
            ("loud/A.PARQUET", "4"),
            ("none/a.bin", "5"),
        ];
        write_all(home.path(), &files);
        symlink(home.path().join("jsonl"), home.path().join("link")).expect("linked");
        symlink(home.path().join("jsonl"), home.path().join("none/jsonl")).expect("linked");
        for (input, expected) in [
            ("jsonl", Some("jsonl")),
            ("jsonl/*", Some("jsonl")),
            ("jsonl/*.zst", Some("jsonl")),
            ("*/*.GZ", Some("jsonl")),
            ("link", Some("jsonl")),
            ("loud", Some("parquet")),
            ("loud/?.PARQUET", Some("parquet")),
            ("none", Some("jsonl")),
            ("none/a.bin", None),
            ("none/*.gz", None),
            ("absent", None),
            ("absent/*.jsonl.zst", Some("jsonl")),
        ] {
            let found = FileExtensions::detect(&[home.path().join(input).display().to_string()]);
            assert_eq!(found.format().map(|format| format.kind()), expected, "{input}");
        }
    }
}
