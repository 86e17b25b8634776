//! Detection of the format of a corpus from its file extensions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::AnyFormat;
use super::discover::{FileFilter, plain_extension, walk};
use super::object_inputs::{self, Purpose};

/// Maximum number of files per input: enough to detect a format.
const MAX_FILES: usize = 10_000;

/// Number and bytes of the files of each extension, over the first ten thousand files that a reader of any format would
/// find.
#[derive(Clone, Debug, Default)]
pub struct FileExtensions {
    counts: BTreeMap<String, ExtensionCount>,
    failure: Option<String>,
}

/// Files with one extension.
#[derive(Clone, Debug, Default)]
struct ExtensionCount {
    all: FileCount,
    /// Without [notes](is_note).
    texts: FileCount,
    /// First file that is no note, in order of discovery.
    first: Option<PathBuf>,
}

/// Number of files, and their bytes on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct FileCount {
    bytes: u64,
    files: usize,
}

impl FileCount {
    fn add(&mut self, more: Self) {
        (self.bytes, self.files) = (self.bytes + more.bytes, self.files + more.files);
    }
}

/// Beginnings of the names of files about a corpus, in lower case.
const NOTES: [&str; 8] =
    ["readme", "license", "licence", "notice", "changelog", "citation", "dataset_info", "dataset_dict"];

/// Whether a file with this name is about a corpus and not a part of it.
fn is_note(name: &str) -> bool {
    let name = name.to_lowercase();
    NOTES.iter().any(|note| name.starts_with(note))
}

/// Files of the formats that share their extensions, such as the formats of plain text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilesOfFormat {
    /// Name of the first registered of these formats.
    pub format: &'static str,
    /// Number of files.
    pub files: usize,
    /// Bytes of the files on disk.
    pub bytes: u64,
    /// One of the files.
    pub example: PathBuf,
}

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
        let filter = FileFilter { extensions: &extensions, most: MAX_FILES, purpose: Purpose::Check };
        let mut found = Self::default();
        for input in inputs {
            // A listing takes requests, which the extension in the URL makes unnecessary.
            let is_told = remote_store::is_url(input) && extensions.contains(&&*plain_extension(input));
            if !is_told && remote_store::is_url(input) {
                let failure = object_inputs::find(input, Purpose::Check).err().map(|error| error.to_string());
                found.failure = found.failure.or(failure);
            }
            let walked =
                if is_told { None } else { walk(std::slice::from_ref(input), filter).ok() }.unwrap_or_default();
            if walked.paths.is_empty() {
                found.add(Path::new(input), 0);
            }
            for (path, file) in &walked.paths {
                let bytes = match &file.object {
                    Some((_, stat)) => stat.bytes,
                    None => path.metadata().map_or(0, |metadata| metadata.len()),
                };
                found.add(path, bytes);
            }
        }
        found
    }

    /// Returns the error of the first store that could not be listed.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    fn add(&mut self, path: &Path, bytes: u64) {
        let name = path.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
        let count = self.counts.entry(plain_extension(&name)).or_default();
        let file = FileCount { bytes, files: 1 };
        count.all.add(file);
        if !is_note(&name) {
            count.texts.add(file);
            count.first.get_or_insert_with(|| path.to_owned());
        }
    }

    /// Returns the files of each set of extensions that formats share, the one of most bytes first. Files about a corpus,
    /// such as a readme, do not count.
    #[must_use]
    pub fn by_format(&self) -> Vec<FilesOfFormat> {
        let mut found: Vec<FilesOfFormat> = Vec::new();
        let mut seen: Vec<&[&str]> = Vec::new();
        for format in AnyFormat::examples() {
            let extensions = format.extensions();
            if seen.contains(&extensions) {
                continue;
            }
            seen.push(extensions);
            let counts = extensions.iter().filter_map(|ending| self.counts.get(*ending));
            let mut texts = FileCount::default();
            counts.clone().for_each(|count| texts.add(count.texts));
            let FileCount { bytes, files } = texts;
            let example = counts.clone().find_map(|count| count.first.clone());
            found.extend(example.map(|example| FilesOfFormat { format: format.kind(), files, bytes, example }));
        }
        found.sort_by_key(|it| std::cmp::Reverse(it.bytes));
        found
    }

    /// Returns bytes and files of a format.
    fn count(&self, format: &AnyFormat) -> FileCount {
        let mut all = FileCount::default();
        format.extensions().iter().filter_map(|ending| self.counts.get(*ending)).for_each(|count| all.add(count.all));
        all
    }

    /// Returns the format of most bytes, so that a readme next to a corpus does not decide. Of several formats with the
    /// same extensions it returns the first registered.
    #[must_use]
    pub fn format(&self) -> Option<AnyFormat> {
        let known = AnyFormat::examples().into_iter().rev().filter(|format| self.count(format).files > 0);
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
    fn files_are_counted_by_format_without_notes() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let notes = [("README.md", "1234"), ("dataset_info.json", "12")];
        let files = [("a.ndjson", "123"), ("b.json", "12345"), ("c.txt", "12"), ("d/e.parquet", "1")];
        write_all(home.path(), &notes);
        let counted = || {
            let found = FileExtensions::detect(&[home.path().display().to_string()]).by_format();
            found.into_iter().map(|it| (it.format, it.files, it.bytes)).collect::<Vec<_>>()
        };
        assert_eq!(counted(), []);
        write_all(home.path(), &files);
        assert_eq!(counted(), [("jsonl", 2, 8), ("text", 1, 2), ("parquet", 1, 1)]);
        let more = ["f.feather", "g.csv.lz4", "h.warc.wet.xz", "i.xml.bz2", "j.tsv"].map(|name| (name, ""));
        write_all(home.path(), &more);
        let found = counted().into_iter().map(|(format, ..)| format).collect::<std::collections::BTreeSet<_>>();
        let expected = ["arrow", "csv", "jsonl", "parquet", "text", "tsv", "warc", "wikipedia_xml"];
        assert_eq!(found.into_iter().collect::<Vec<_>>(), expected);
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
