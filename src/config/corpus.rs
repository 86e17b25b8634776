//! What `[prepare]` says of a corpus, held against the files themselves before any is read.
//!
//! What a configuration leaves out follows from what it says: the format from the endings of the files, the data of a run
//! from the folder that is prepared. What it names and is not there is a mistake of the configuration like any other.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use pipeline::corpus::{AnyFormat, Corpus, CorpusConfig, plain_extension};
use pipeline::load::DataConfig;
use pipeline::prepare::PrepareConfig;
use schemas::Problem;

use super::source::Source;

/// Files that are looked at to know which endings there are. Ten thousand of one kind are a kind.
const FILES_MAX: usize = 10_000;

/// Fills in what follows from other keys, where it is not written.
pub(super) fn follow(prepare: &mut PrepareConfig, data: &mut DataConfig, source: &Source) {
    if !source.says("data.folder") && !prepare.folder.as_os_str().is_empty() {
        data.folder.clone_from(&prepare.folder);
    }
    if !source.says("prepare.format")
        && let Some(format) = Endings::of(&prepare.inputs).format()
    {
        prepare.format = format;
    }
}

/// Inputs that are not there, or have no file of the format.
pub(super) fn problems(config: &PrepareConfig) -> Vec<Problem> {
    let named = config.inputs.iter().filter(|input| !input.is_empty());
    named.filter_map(|input| problem(input, config)).collect()
}

/// A tokenizer that is not there, or that leaves open what the configuration has to say.
pub(super) fn tokenizer_problem(config: &PrepareConfig) -> Option<Problem> {
    let path = &config.tokenizer;
    if path.as_os_str().is_empty() {
        return None;
    }
    if !path.exists() {
        let message = format!("{}: no such file or folder", path.display());
        return Some(Problem::new("prepare.tokenizer", message).hint("`cloze tokenizer train` makes a `.json` file"));
    }
    let is_list = |path: &Path| path.extension().is_some_and(|ending| ending == "txt");
    let others = ["tokenizer.json", "vocab.json"].map(|name| path.join(name));
    let is_open = is_list(path) || (path.join("vocab.txt").exists() && !others.iter().any(|other| other.exists()));
    (is_open && config.lowercase.is_none()).then(|| {
        let message = format!("{}: a list of tokens cannot tell whether text is lowercased", path.display());
        Problem::new("prepare.lowercase", message).hint("set `prepare.lowercase` to `true` or `false`")
    })
}

/// Whether everything that `inputs` name is there.
pub(crate) fn is_there(inputs: &[String]) -> bool {
    inputs.iter().all(|input| is_glob(input) || Path::new(input).exists())
}

fn problem(input: &str, config: &PrepareConfig) -> Option<Problem> {
    let format = &config.format;
    let wrong = |message: String| Problem::new("prepare.inputs", format!("{input}: {message}"));
    if input.contains("://") {
        let hint = "copy the files to a disk, or mount the store, and name the folder";
        return Some(wrong("a store of that kind cannot be read".to_owned()).hint(hint));
    }
    let path = Path::new(input);
    if path.is_file() {
        return None;
    }
    let is_something_else = !path.is_dir() && path.symlink_metadata().is_ok();
    if is_glob(input) || is_something_else {
        // Who reads the corpus finds its files, and says what is none; nothing is opened.
        let found = Corpus::open(&CorpusConfig { inputs: vec![input.to_owned()], ..config.corpus() });
        return found.err().map(|error| Problem::new("prepare.inputs", error.to_string()));
    }
    if !path.is_dir() {
        let hint = "paths are relative to the folder that `cloze` is started in";
        return Some(wrong("no such file or folder".to_owned()).hint(hint));
    }
    let endings = Endings::of(std::slice::from_ref(&input.to_owned()));
    if endings.have(format) {
        return None;
    }
    let message = format!(
        "no file of format `{}` (*.{}) is in this folder; {}",
        format.kind(),
        format.extensions().join(", *."),
        endings.in_words()
    );
    let hint = match endings.format() {
        Some(other) => format!("set `prepare.format = \"{}\"`, or leave the key out", other.kind()),
        None => "name files or a glob to have them read whatever their endings are".to_owned(),
    };
    Some(wrong(message).hint(hint))
}

fn is_glob(input: &str) -> bool {
    input.contains(['*', '?', '[']) && !Path::new(input).exists()
}

/// How many files of a corpus have which ending, and their bytes, as far as was looked.
#[derive(Debug, Default)]
pub(crate) struct Endings {
    files: BTreeMap<String, (usize, u64)>,
    looked_at: usize,
}

impl Endings {
    /// Of files, of what lies in folders, and of globs as they are written.
    pub(crate) fn of(inputs: &[String]) -> Self {
        let mut endings = Self::default();
        for input in inputs.iter().filter(|input| !input.is_empty()) {
            let path = Path::new(input);
            if path.is_dir() { endings.walk(path.to_owned()) } else { endings.add(input, path) }
        }
        endings
    }

    fn add(&mut self, name: &str, path: &Path) {
        self.looked_at += 1;
        let (files, bytes) = self.files.entry(plain_extension(name)).or_default();
        *files += 1;
        *bytes += path.metadata().map_or(0, |metadata| metadata.len());
    }

    /// Folder by folder; links to folders are left to who reads them, so that this ends.
    fn walk(&mut self, folder: PathBuf) {
        let mut open = vec![folder];
        while let Some(entries) = open.pop().map(fs::read_dir) {
            // What cannot be read is told by who has to.
            for entry in entries.into_iter().flatten().flatten() {
                if self.looked_at >= FILES_MAX {
                    return;
                }
                let name = entry.file_name().to_string_lossy().into_owned();
                match entry.file_type() {
                    _ if name.starts_with('.') => {}
                    Ok(kind) if kind.is_dir() => open.push(entry.path()),
                    _ if entry.path().is_file() => self.add(&name, &entry.path()),
                    _ => {}
                }
            }
        }
    }

    /// Bytes and files of a format.
    fn count(&self, format: &AnyFormat) -> (u64, usize) {
        let found = format.extensions().iter().filter_map(|ending| self.files.get(*ending));
        found.fold((0, 0), |(bytes, files), (more, size)| (bytes + size, files + more))
    }

    fn have(&self, format: &AnyFormat) -> bool {
        self.count(format).1 > 0
    }

    /// The format that most bytes are of: a page that explains a corpus is not the corpus. Of several with the same
    /// endings the first that is registered.
    pub(crate) fn format(&self) -> Option<AnyFormat> {
        let known = AnyFormat::examples().into_iter().rev().filter(|format| self.have(format));
        known.max_by_key(|format| self.count(format))
    }

    /// `there are 12 *.jsonl and 1 *.md`
    fn in_words(&self) -> String {
        if self.files.is_empty() {
            return "it is empty".to_owned();
        }
        let mut kinds: Vec<(&String, usize)> = self.files.iter().map(|(ending, (files, _))| (ending, *files)).collect();
        kinds.sort_by_key(|(ending, files)| (std::cmp::Reverse(*files), *ending));
        let words = kinds.iter().take(4).map(|(ending, count)| match ending.as_str() {
            "" => format!("{count} without an ending"),
            ending => format!("{count} *.{ending}"),
        });
        let more = if self.looked_at >= FILES_MAX { ", and more was not looked at" } else { "" };
        format!("there are {}{more}", words.collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use store::Store;

    use super::*;
    use crate::config::Parsed;

    fn home(files: &[&str]) -> tempfile::TempDir {
        let home = tempfile::tempdir().expect("a temporary folder");
        let store = Store::folder(home.path()).expect("there");
        for file in files {
            store.put(file, b"a text\n").expect("written");
        }
        home
    }

    #[test]
    fn the_format_follows_the_endings_and_the_data_the_folder_that_is_prepared() {
        let files =
            ["jsonl/a.jsonl.zst", "jsonl/b.jsonl", "jsonl/README.txt", "loud/A.JSONL.GZ", "text/a.txt", "none/a.bin"];
        let home = home(&files);
        let read = |format: &str, input: &str| {
            let text =
                format!("[prepare]\n{format}\ninputs = [\"{}\"]\nfolder = \"here\"", home.path().join(input).display());
            Store::folder(home.path()).expect("there").put("run.toml", text.as_bytes()).expect("written");
            Parsed::read(&home.path().join("run.toml"), &[]).expect("TOML").into_config().expect("no mistake")
        };
        for (format, input, expected) in [
            ("", "jsonl", "jsonl"),
            ("", "jsonl/*.parquet", "parquet"),
            ("", "loud", "jsonl"),
            ("", "text", "text"),
            ("", "none", "text"),
            ("", "absent.jsonl.gz", "jsonl"),
            ("format = \"text_lines\"", "jsonl", "text_lines"),
        ] {
            let config = read(format, input);
            assert_eq!(config.prepare.format.kind(), expected, "{format} {input}");
            assert_eq!(config.data.folder, Path::new("here"));
        }
    }

    #[test]
    fn a_tokenizer_that_cannot_be_read_is_a_mistake_with_a_way_out() {
        let home = home(&["vocab.txt", "both/vocab.txt", "both/tokenizer.json"]);
        let said = |name: &str, lowercase: Option<bool>| {
            let config = PrepareConfig { tokenizer: home.path().join(name), lowercase, ..PrepareConfig::default() };
            tokenizer_problem(&config).map(|problem| problem.to_string()).unwrap_or_default()
        };
        assert!(said("absent.json", None).contains("`cloze tokenizer train` makes"));
        for open in ["", "vocab.txt"] {
            assert!(said(open, None).starts_with("`prepare.lowercase`: "), "{}", said(open, None));
            assert_eq!(said(open, Some(true)), "");
        }
        assert_eq!(said("both", None), "");
    }

    #[test]
    fn inputs_that_cannot_be_read_are_mistakes_with_a_way_out() {
        let home = home(&["jsonl/a.jsonl.zst", "jsonl/b.jsonl", "none/a.bin", "text/a.txt", "loud/A.TXT"]);
        let said = |input: &str| {
            let inputs = vec![input.to_owned()];
            let found = problems(&PrepareConfig { inputs, ..PrepareConfig::default() });
            found.first().map(ToString::to_string).unwrap_or_default()
        };
        let below = |name: &str| said(&home.path().join(name).display().to_string());
        assert_eq!([below("text"), below("text/a.txt"), below("none/a.bin"), below("*/a.txt")], ["", "", "", ""]);
        assert_eq!(below("loud"), "", "as whoever reads the corpus finds it");
        assert!(below("*.nothing").contains("*.nothing: no input here"), "{}", below("*.nothing"));
        assert!(said("s3://bucket/a").contains("cannot be read; copy the files"));
        assert!(below("absent").contains("no such file or folder; paths are relative"));
        let told = below("jsonl");
        assert!(told.contains("there are 2 *.jsonl; set `prepare.format = \"jsonl\"`"), "{told}");
        assert!(below("none").contains("there are 1 *.bin; name files"));
    }
}
