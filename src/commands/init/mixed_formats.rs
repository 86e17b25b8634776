//! Check that the files of a corpus have one format.

use std::path::{Path, PathBuf};

use pipeline::corpus::{FileExtensions, FilesOfFormat, plain_extension};
use schemas::shell_quoted;
use telemetry::quantities::{bytes, count};

use crate::exit::Usage;

/// Returns the error of inputs with files of several formats, of which only one would be read. `found` are the files of
/// all inputs.
///
/// A format that has less than 1/100 of the bytes of folders is left to the warning about skipped files. A file or a glob
/// that is named is always a part of the corpus.
pub(super) fn problem(inputs: &[String], found: &FileExtensions) -> Option<Usage> {
    let (folders, named): (Vec<String>, Vec<String>) =
        inputs.iter().cloned().partition(|input| Path::new(input).is_dir());
    let named = FileExtensions::detect(&named).by_format();
    let found = found.by_format();
    let all: u64 = found.iter().map(|it| it.bytes).sum();
    let is_part = |it: &FilesOfFormat| 100 * it.bytes >= all || named.iter().any(|other| other.format == it.format);
    let parts: Vec<FilesOfFormat> = found.into_iter().filter(is_part).collect();
    if all == 0 || parts.len() < 2 {
        return None;
    }
    let listed = parts.iter().map(|it| {
        let files = if it.files == 1 { "1 file".to_owned() } else { format!("{} files", count(it.files as u64)) };
        format!("{files} of format `{}` ({}; {})", it.format, bytes(it.bytes), it.example.display())
    });
    let name = parts[0].example.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
    let glob = match folders.first() {
        Some(folder) => Path::new(folder).join("**"),
        None => parts[0].example.parent().map_or_else(PathBuf::new, Path::to_owned),
    };
    let glob = glob.join(format!("*.{}*", plain_extension(&name)));
    Some(Usage(format!(
        "{}: files of {} formats, and a corpus has one: {}; name the files of one format, such as `cloze init {}`; to \
         train on all of them, prepare each with a separate file and mix them (`[sources]`, docs/data.md)",
        inputs.join(", "),
        parts.len(),
        listed.collect::<Vec<_>>().join(", "),
        shell_quoted(&glob),
    )))
}

#[cfg(test)]
mod tests {
    use store::Store;

    use super::*;

    /// Returns the problem of these inputs in a folder with files of these numbers of bytes.
    fn problem_of(inputs: &[&str], files: &[(&str, usize)]) -> Option<String> {
        let home = tempfile::tempdir().expect("a temporary folder");
        let store = Store::folder(home.path()).expect("there");
        for (name, size) in files {
            store.put(name, &vec![b'x'; *size]).expect("written");
        }
        let inputs: Vec<String> = inputs.iter().map(|it| home.path().join(it).display().to_string()).collect();
        problem(&inputs, &FileExtensions::detect(&inputs))
            .map(|problem| problem.to_string().replace(&home.path().display().to_string(), "HOME"))
    }

    #[test]
    fn mixed_formats_are_refused_with_files_of_each_and_the_fix() {
        let files = [("c/a.jsonl.zst", 500), ("c/b.txt", 300), ("c/d/e.parquet", 200), ("c/f.md", 1)];
        let problem = problem_of(&["c"], &files).expect("three formats");
        for words in [
            "HOME/c: files of 3 formats",
            "1 file of format `jsonl` (500 B; HOME/c/a.jsonl.zst)",
            "2 files of format `text` (301 B; ",
            "1 file of format `parquet` (200 B; HOME/c/d/e.parquet)",
            "`cloze init 'HOME/c/**/*.jsonl*'`",
            "[sources]",
        ] {
            assert!(problem.contains(words), "`{words}` is missing in {problem}");
        }
        // The fix finds the files of one format.
        assert_eq!(problem_of(&["c/**/*.jsonl*"], &files), None);
        // Files that are named are read, whatever their size.
        let named = problem_of(&["a.jsonl", "b.txt"], &[("a.jsonl", 1000), ("b.txt", 1)]).expect("two formats");
        assert!(named.contains("`cloze init 'HOME/*.jsonl*'`"), "{named}");
    }

    #[test]
    fn small_files_of_other_formats_and_notes_are_left_to_a_warning() {
        for files in [
            &[("c/a.parquet", 1000), ("c/state.json", 9)][..],
            &[("c/a.parquet", 10), ("c/README.md", 900), ("c/dataset_info.json", 900)],
            &[("c/a.jsonl", 0), ("c/b.txt", 0)],
            &[("c/a.txt", 10), ("c/b.md", 10)],
        ] {
            assert_eq!(problem_of(&["c"], files), None, "{files:?}");
        }
    }
}
