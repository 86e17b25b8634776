//! Which files a corpus has, and what they are called.
//!
//! A file's name is its path below the folder that all files have in common, so that it depends neither on where the
//! corpus lies nor on how the inputs were spelled. Files are sorted by name.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// One file of a corpus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its name within the corpus, `/` separated.
    pub name: String,
    /// Its length on disk.
    pub bytes: u64,
}

/// The files that `inputs` name, sorted, each once. In folders only files with one of the `extensions` count, before
/// an optional `.gz` or `.zst`; a file or glob that names one exactly is taken at its word.
pub(super) fn find(inputs: &[String], extensions: &[&str]) -> Result<Vec<InputFile>> {
    let mut paths = BTreeSet::new();
    for input in inputs {
        let found = expand(input, extensions)?;
        if found.is_empty() {
            return Err(unusable(input, format!("no input here; looked for *.{}", extensions.join(", *."))));
        }
        paths.extend(found);
    }
    name_all(paths)
}

fn unusable(path: impl Into<PathBuf>, message: String) -> Error {
    Error::Corpus { path: path.into(), line: None, message }
}

/// The files of one input.
fn expand(input: &str, extensions: &[&str]) -> Result<BTreeSet<PathBuf>> {
    let path = Path::new(input);
    let mut found = BTreeSet::new();
    if path.is_file() {
        found.insert(std::path::absolute(path)?);
    } else if path.is_dir() {
        walk(path, extensions, &mut found)?;
    } else if input.contains(['*', '?', '[']) {
        let options = glob::MatchOptions { require_literal_leading_dot: true, ..Default::default() };
        let matches = glob::glob_with(input, options)
            .map_err(|error| unusable(input, format!("not a glob: {error}; check `prepare.inputs`")))?;
        for path in matches {
            let path = path.map_err(std::io::Error::from)?;
            if path.is_file() {
                found.insert(std::path::absolute(path)?);
            }
        }
    } else {
        return Err(unusable(input, "no such file or folder; check `prepare.inputs`".into()));
    }
    Ok(found)
}

fn walk(folder: &Path, extensions: &[&str], found: &mut BTreeSet<PathBuf>) -> Result<()> {
    let at = |error: std::io::Error| unusable(folder, error.to_string());
    for entry in fs::read_dir(folder).map_err(at)? {
        let path = entry.map_err(at)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with('.') {
            continue;
        }
        if path.is_dir() {
            walk(&path, extensions, found)?;
        } else if extensions.contains(&plain_extension(name)) {
            found.insert(std::path::absolute(&path)?);
        }
    }
    Ok(())
}

/// The extension of a file name without its compression: `jsonl` for `a.jsonl.zst`.
fn plain_extension(name: &str) -> &str {
    let plain = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(name);
    plain.rsplit_once('.').map_or("", |(_, extension)| extension)
}

fn name_all(paths: BTreeSet<PathBuf>) -> Result<Vec<InputFile>> {
    let common = common_folder(&paths);
    let mut sources = Vec::with_capacity(paths.len());
    for path in paths {
        let bytes = fs::metadata(&path).map_err(|error| unusable(&path, error.to_string()))?.len();
        let relative = path.strip_prefix(&common).unwrap_or(&path);
        let parts: Vec<_> = relative.components().map(|part| part.as_os_str().to_string_lossy()).collect();
        sources.push(InputFile { name: parts.join("/"), bytes, path });
    }
    sources.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(sources)
}

/// The deepest folder that holds all files.
fn common_folder(paths: &BTreeSet<PathBuf>) -> PathBuf {
    let mut folders = paths.iter().filter_map(|path| path.parent());
    let mut common = folders.next().map(Path::to_path_buf).unwrap_or_default();
    for folder in folders {
        while !folder.starts_with(&common) && common.pop() {}
    }
    common
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::write_all;

    #[test]
    fn names_depend_neither_on_the_place_nor_on_the_spelling() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let files = [("a/x.txt", "1"), ("a/b/y.txt.gz", "2"), ("a/.hidden.txt", "3"), ("a/z.bin", "4")];
        write_all(home.path(), &files);
        let names = |inputs: &[&str]| {
            let inputs: Vec<_> = inputs.iter().map(|input| home.path().join(input).display().to_string()).collect();
            find(&inputs, &["txt"]).expect("found").into_iter().map(|source| source.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&["a"]), ["b/y.txt.gz", "x.txt"]);
        assert_eq!(names(&["a/x.txt", "a/b", "a/*.txt"]), ["b/y.txt.gz", "x.txt"]);
        assert_eq!(names(&["a/z.bin"]), ["z.bin"]);
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
