//! What `[prepare]` says of a corpus, held against the files themselves before any is read.
//!
//! What a configuration leaves out follows from what it says: the format from the endings of the files, the data of a run
//! from the folder that is prepared. What it names and is not there is a mistake of the configuration like any other.

use std::collections::BTreeMap;
use std::path::Path;

use pipeline::corpus::{Corpus, CorpusConfig, Endings};
use pipeline::load::DataConfig;
use pipeline::prepare::PrepareConfig;
use schemas::Problem;

use super::source::ConfigSource;
use super::sources::SourceConfig;

/// Fills in what follows from other keys, where it is not written.
pub(super) fn follow(prepare: &mut PrepareConfig, data: &mut DataConfig, source: &ConfigSource) {
    if !source.says("data.folder") && !prepare.folder.as_os_str().is_empty() {
        data.folder.clone_from(&prepare.folder);
    }
    if !source.says("prepare.format")
        && let Some(format) = Endings::of(&prepare.inputs).format()
    {
        prepare.format = format;
    }
}

/// Fills in formats that are not written.
pub(super) fn follow_sources(sources: &mut BTreeMap<String, SourceConfig>, source: &ConfigSource) {
    if source.says("prepare.format") {
        return;
    }
    for of_source in sources.values_mut().filter(|of_source| of_source.format.is_none()) {
        of_source.format = Endings::of(&of_source.inputs).format();
    }
}

/// Inputs that are not there, or have no file of the format; a folder that cannot be one.
pub(super) fn problems(config: &PrepareConfig) -> Vec<Problem> {
    let named = config.inputs.iter().filter(|input| !input.is_empty());
    let taken = config.folder.is_file().then(|| {
        let message = format!("{}: a file is here", config.folder.display());
        Problem::new("prepare.folder", message).hint("name a folder, or a path that is free")
    });
    named.filter_map(|input| problem(input, config)).chain(taken).collect()
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

/// Whoever reads the corpus would say the same, but of one input at a time, and when everything else is right.
fn problem(input: &str, config: &PrepareConfig) -> Option<Problem> {
    let inputs = vec![input.to_owned()];
    let look = |format| Corpus::look(&CorpusConfig { inputs: inputs.clone(), format, ..config.corpus() });
    let problem = Problem::new("prepare.inputs", look(config.format.clone()).err()?.to_string());
    let other = Endings::of(&inputs).format().filter(|other| look(other.clone()).is_ok());
    Some(match other {
        Some(other) => problem.hint(format!("set `prepare.format = \"{}\"`, or leave the key out", other.kind())),
        None => problem,
    })
}

fn is_glob(input: &str) -> bool {
    input.contains(['*', '?', '[']) && !Path::new(input).exists()
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
            ("", "absent.jsonl.gz", "jsonl"),
            ("", "loud", "jsonl"),
            ("", "text", "text"),
            ("", "none", "text"),
            ("", "jsonl/*", "jsonl"),
            ("", "jsonl/*.zst", "jsonl"),
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
        assert!(told.contains("2 `*.jsonl`") && told.contains("set `prepare.format = \"jsonl\"`"), "{told}");
        assert!(below("none").contains("1 `*.bin`") && below("none").contains("taken at their word"));
    }
}
