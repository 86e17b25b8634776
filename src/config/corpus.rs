//! Checks of `[prepare]` against the files of the corpus, before any of them is read.
//!
//! Omitted keys are derived: the format from the file extensions, the data folder of a run from the prepared folder.
//! Inputs that do not exist are mistakes of the configuration, until a preparation is planned with them.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use pipeline::corpus::{Corpus, CorpusConfig, FileExtensions};
use pipeline::load::DataConfig;
use pipeline::prepare::PrepareConfig;
use pipeline::tokenize;
use schemas::Problem;

use super::source::ConfigSource;
use super::sources::SourceConfig;

/// Derives omitted keys from other keys. Returns whether the format is known: it is written, or an extension tells it.
pub(super) fn follow(prepare: &mut PrepareConfig, data: &mut DataConfig, source: &ConfigSource) -> bool {
    if !source.says("data.folder") && !prepare.folder.as_os_str().is_empty() {
        data.folder.clone_from(&prepare.folder);
    }
    if source.says("prepare.format") {
        return true;
    }
    let Some(format) = FileExtensions::detect(&prepare.inputs).format() else { return false };
    prepare.format = format;
    true
}

/// Derives omitted formats.
pub(super) fn follow_sources(sources: &mut BTreeMap<String, SourceConfig>, source: &ConfigSource) {
    if source.says("prepare.format") {
        return;
    }
    for of_source in sources.values_mut().filter(|of_source| of_source.format.is_none()) {
        of_source.format = FileExtensions::detect(&of_source.inputs).format();
    }
}

/// Returns problems of inputs that do not exist or have no file of the format.
pub(super) fn input_problems(config: &PrepareConfig) -> Vec<Problem> {
    let named = config.inputs.iter().filter(|input| !input.is_empty());
    named.filter_map(|input| problem(input, config)).collect()
}

/// Returns problems of a folder that is a file or that holds an input.
pub(super) fn folder_problems(config: &PrepareConfig) -> Vec<Problem> {
    let taken = output_folder_problem("prepare.folder", &config.folder);
    let is_named = |_: &&String| !config.folder.as_os_str().is_empty();
    let mut inputs = config.inputs.iter().filter(is_named);
    let inside = inputs.find(|input| remote_store::is_within(input, &config.folder)).map(|input| {
        let message = format!(
            "it holds the input {}; inputs are not looked for in a folder that `cloze` wrote",
            remote_store::without_secrets(input)
        );
        Problem::new("prepare.folder", message).hint("name another folder")
    });
    taken.into_iter().chain(inside).collect()
}

/// Returns the problem of a folder that is written: a file is there, or it is a URL of a store that is only read.
pub(crate) fn output_folder_problem(key: &str, folder: &Path) -> Option<Problem> {
    if let Some(url) = folder.to_str().filter(|url| remote_store::is_url(url)) {
        return remote_store::is_read_only(url).then(|| {
            let message = format!("{}: stores of this kind are only read", remote_store::without_secrets(url));
            Problem::new(key, message).hint("name a local folder, or a URL such as `s3://BUCKET/PREFIX`")
        });
    }
    let hint = "name a folder, or an unused path";
    // The path itself, then its parents. The first that exists decides.
    for path in folder.ancestors().filter(|path| !path.as_os_str().is_empty()) {
        let message = match std::fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => return None,
            Ok(_) => format!("{}: a file is here", path.display()),
            Err(error) if error.kind() == ErrorKind::NotFound && path.is_symlink() => {
                format!("{}: a symbolic link to a folder that does not exist", path.display())
            }
            // Below a file, the parent is reported.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => continue,
            Err(error) => format!("{}: {error}", path.display()),
        };
        return Some(Problem::new(key, message).hint(hint));
    }
    None
}

/// Returns the problem of a tokenizer that does not exist, or that does not determine `prepare.lowercase`.
pub(super) fn tokenizer_problem(config: &PrepareConfig) -> Option<Problem> {
    let path = &config.tokenizer;
    if path.as_os_str().is_empty() {
        return None;
    }
    if !path.exists() {
        let message = format!("{}: no such file or folder", path.display());
        return Some(Problem::new("prepare.tokenizer", message).hint("`cloze tokenizer train` writes a `.json` file"));
    }
    (config.lowercase.is_none() && !tokenize::knows_lowercase(path)).then(|| {
        let message = format!("{}: a list of tokens cannot tell whether text is lowercased", path.display());
        Problem::new("prepare.lowercase", message).hint("set `prepare.lowercase` to `true` or `false`")
    })
}

/// Whether all inputs exist.
pub(crate) fn is_there(inputs: &[String]) -> bool {
    inputs.iter().all(|input| is_glob(input) || remote_store::is_url(input) || Path::new(input).exists())
}

/// Checks one input as the corpus reader does. The reader itself would report only the first invalid input.
fn problem(input: &str, config: &PrepareConfig) -> Option<Problem> {
    let inputs = vec![input.to_owned()];
    let look = |format| Corpus::check_inputs(&CorpusConfig { inputs: inputs.clone(), format, ..config.corpus() });
    let error = match look(config.format.clone()) {
        // A failure of the network is none of the configuration. The command that opens the inputs reports it.
        Ok(()) | Err(pipeline::Error::Io(_)) => return None,
        Err(error) => error,
    };
    let problem = Problem::new("prepare.inputs", error.to_string());
    let other = FileExtensions::detect(&inputs).format().filter(|other| look(other.clone()).is_ok());
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
    fn an_unreadable_tokenizer_is_a_mistake_with_a_hint() {
        let home = home(&["vocab.txt", "both/vocab.txt", "both/tokenizer.json"]);
        let problem_of = |name: &str, lowercase: Option<bool>| {
            let config = PrepareConfig { tokenizer: home.path().join(name), lowercase, ..PrepareConfig::default() };
            tokenizer_problem(&config).map(|problem| problem.to_string()).unwrap_or_default()
        };
        assert!(problem_of("absent.json", None).contains("`cloze tokenizer train` writes"));
        for open in ["", "vocab.txt"] {
            assert!(problem_of(open, None).starts_with("`prepare.lowercase`: "), "{}", problem_of(open, None));
            assert_eq!(problem_of(open, Some(true)), "");
        }
        assert_eq!(problem_of("both", None), "");
    }

    #[test]
    fn a_folder_that_holds_an_input_is_refused() {
        let is_refused = |input: &str, folder: &str| {
            let config =
                PrepareConfig { inputs: vec![input.to_owned()], folder: folder.into(), ..PrepareConfig::default() };
            let message = folder_problems(&config).iter().map(ToString::to_string).collect::<String>();
            message.contains("it holds the input")
        };
        for (input, folder) in [
            ("in", "in"),
            ("in/", "in"),
            ("in/a.txt", "in/"),
            ("in/**/*.txt", "in"),
            ("other/../in/a.txt", "./in"),
            ("s3a://bucket/in/a.txt", "s3://bucket/in/"),
            ("file:///in/a.txt", "/in"),
        ] {
            assert!(is_refused(input, folder), "{input} {folder}");
        }
        for (input, folder) in
            [("in", "in/data"), ("in", "input"), ("input/a.txt", "in"), (".", "data"), ("s3://in/a.txt", "s3://in/b")]
        {
            assert!(!is_refused(input, folder), "{input} {folder}");
        }
    }

    #[test]
    fn unreadable_inputs_are_mistakes_with_a_hint() {
        let home = home(&["jsonl/a.jsonl.zst", "jsonl/b.jsonl", "none/a.bin", "text/a.txt", "loud/A.TXT"]);
        let problem_of = |input: &str| {
            let inputs = vec![input.to_owned()];
            let found = input_problems(&PrepareConfig { inputs, ..PrepareConfig::default() });
            found.first().map(ToString::to_string).unwrap_or_default()
        };
        let below = |name: &str| problem_of(&home.path().join(name).display().to_string());
        assert_eq!([below("text"), below("text/a.txt"), below("none/a.bin"), below("*/a.txt")], ["", "", "", ""]);
        assert_eq!(below("loud"), "", "the corpus reader accepts it");
        assert!(below("*.nothing").contains("*.nothing: no input here"), "{}", below("*.nothing"));
        assert!(problem_of("ftp://host/a").contains("is not a supported store"));
        assert!(below("absent").contains("no such file or folder; paths are relative"));
        let hint = below("jsonl");
        assert!(hint.contains("2 `*.jsonl`") && hint.contains("set `prepare.format = \"jsonl\"`"), "{hint}");
        assert!(below("none").contains("1 `*.bin`") && below("none").contains("name them or use a glob"));
    }
}
