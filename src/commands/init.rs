//! `cloze init`: writes a configuration for a corpus.
//!
//! The result can be prepared, planned and trained without changes. Its values are those of small published recipes, by
//! the size of the corpus. A comment explains each value.

mod mixed_formats;
mod page;
mod recipe;
mod survey;

use std::io::ErrorKind;
use std::path::Path;

use pipeline::tokenize::Tokenizer as _;
use schemas::{manifest, shell_quoted};
use store::Store;
use telemetry::quantities::bytes;
use telemetry::terminal::{line, note};
use trainer_plan::checkpoint;

use self::page::{Choice, SharedData, StartModel};
use self::survey::Survey;
use crate::cli::{DEFAULT_CONFIG, Method, ModelSize};
use crate::exit::Usage;
use crate::hf_model::HfModel;

/// Options of `cloze init`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options<'a> {
    pub(crate) method: Method,
    pub(crate) size: Option<ModelSize>,
    /// Folder of a `transformers` model to continue.
    pub(crate) from: Option<&'a Path>,
    /// Field with the text, if it is named.
    pub(crate) text_field: Option<&'a str>,
    /// Prepared folder to read.
    pub(crate) data: Option<&'a Path>,
    /// File to write.
    pub(crate) out: &'a Path,
}

/// Surveys the corpus and writes the file.
pub(crate) fn run(inputs: &[String], options: Options<'_>) -> anyhow::Result<()> {
    let Options { method, size, from, text_field, data, out } = options;
    let (folder, name) = output_place(out)?;
    if method == Method::Tacl && from.is_none() {
        let message = "--method tacl continues a trained model: name its folder with `--from`";
        return Err(Usage(message.to_owned()).into());
    }
    let model = from.map(start_model).transpose()?;
    let data = data.map(|folder| shared_data(folder, method, model.as_ref())).transpose()?;
    let survey = Survey::scan(inputs, text_field)?;
    let has_data = data.is_some();
    let choice = Choice { method, size, model, data };
    let text = page::page(&survey, name.trim_end_matches(".toml"), &choice);
    let store = Store::folder(folder).map_err(|error| Usage(format!("--out {}: {error}", out.display())))?;
    if let store::Created::Exists = store.put_if_absent(name, text.as_bytes())? {
        return Err(Usage(format!("{}: the file exists; name another with --out", out.display())).into());
    }
    if let Some(passed_over) = &survey.skipped_files {
        note(format_args!("warning: {passed_over}"));
    }
    if let Some(place) = &survey.long_document {
        let limit = survey.max_document_bytes;
        note(format_args!(
            "warning: {place}: a document of more than {limit} bytes; `prepare.max_document_bytes` is set to skip such documents"
        ));
    }
    if let Some(error) = &survey.unreadable {
        note(format_args!("warning: {error}"));
    }
    line(format_args!(
        "{}: for {} of format `{}`, {} on disk, about {} of text",
        out.display(),
        survey.files(),
        survey.format,
        bytes(survey.bytes),
        bytes(survey.text_bytes),
    ));
    for command in next_commands(out, from.is_some(), has_data) {
        line(format_args!("  {command}"));
    }
    Ok(())
}

/// Returns the shell commands that follow. A model brings its tokenizer, and a prepared folder needs no preparation.
fn next_commands(out: &Path, has_model: bool, has_data: bool) -> Vec<String> {
    let option = if out == Path::new(DEFAULT_CONFIG) { String::new() } else { format!(" -c {}", shell_quoted(out)) };
    let verbs = ["tokenizer train", "prepare", "plan", "train"];
    let done = if has_data { 2 } else { usize::from(has_model) };
    verbs.iter().skip(done).map(|verb| format!("cloze {verb}{option}")).collect()
}

/// Returns the folder and the name of the file to write.
fn output_place(out: &Path) -> Result<(&Path, &str), Usage> {
    let refuse = |problem: String| Err(Usage(format!("--out {}: {problem}", out.display())));
    if out.is_dir() || out.as_os_str().to_string_lossy().ends_with('/') {
        return refuse(format!("a folder; name a file in it, such as {}", out.join(DEFAULT_CONFIG).display()));
    }
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if let Some(file) = folder.ancestors().find(|folder| folder.exists()).filter(|folder| !folder.is_dir()) {
        return refuse(format!("{} is a file, not a folder", file.display()));
    }
    // The name is written in a comment and in strings of the file.
    let is_plain = |name: &&str| !name.contains(|letter: char| letter.is_control() || "\"\\".contains(letter));
    let name = out.file_name().and_then(|name| name.to_str()).filter(is_plain);
    match name.filter(|_| out.extension().is_some_and(|ending| ending == "toml")) {
        Some(name) => Ok((folder, name)),
        None => {
            refuse("expected a `.toml` file without quotes, backslashes or control characters in its name".to_owned())
        }
    }
}

/// Returns the problem of a folder that has no model, with the commands that make one.
fn model_folder_problem(folder: &Path) -> Option<String> {
    let path = folder.display().to_string();
    if ["checkpoints", "log"].iter().all(|entry| folder.join(entry).exists()) {
        let model = format!("{}-model", path.trim_end_matches('/'));
        let run = shell_quoted(folder);
        let model = shell_quoted(&model);
        return Some(format!(
            "a run of `cloze`, not a model; export it with `cloze export {run} --out {model}`, then use `--from {model}`"
        ));
    }
    if folder.join(checkpoint::STATE_FILE).is_file() {
        let run = folder.parent().and_then(Path::parent).unwrap_or(folder);
        let export = format!("`cloze export {} --out MODEL`", shell_quoted(run));
        return Some(format!("a checkpoint of a run, not a model; export it with {export}, then use `--from MODEL`"));
    }
    if folder.is_file() {
        return Some("a file; name the folder with `config.json`, the weights and the tokenizer".to_owned());
    }
    if folder.exists() {
        return None;
    }
    let parts: Vec<&str> = path.split('/').collect();
    let is_part = |part: &&str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter))
    };
    // `NAME` or `OWNER/NAME`.
    if parts.len() > 2 || !parts.iter().all(is_part) {
        return Some("no such folder".to_owned());
    }
    let name = parts[parts.len() - 1];
    Some(format!(
        "no such folder, and only local folders are read; for a model of the Hugging Face Hub, run `hf \
         download {path} --local-dir {name}`, then use `--from {name}`"
    ))
}

/// Reads shape and tokenizer of a `transformers` model.
fn start_model(folder: &Path) -> anyhow::Result<StartModel> {
    let refuse = |problem: String| Usage(format!("--from {}: {problem}", folder.display()));
    if let Some(problem) = model_folder_problem(folder) {
        return Err(refuse(problem).into());
    }
    let HfModel { encoder, tokenizer, .. } = HfModel::open(folder).map_err(refuse)?;
    // A `tokenizer.json` determines it.
    let is_open = !folder.join("tokenizer.json").is_file() && folder.join("vocab.txt").is_file();
    let lowercase = is_open.then(|| tokenizer.facts().manifest.lowercase);
    let fingerprint = tokenizer.facts().manifest.fingerprint.clone();
    Ok(StartModel { folder: folder.to_owned(), encoder, lowercase, fingerprint })
}

/// Reads the settings of a prepared folder, and checks that the method and the model can use it.
fn shared_data(folder: &Path, method: Method, model: Option<&StartModel>) -> anyhow::Result<SharedData> {
    let refuse = |problem: &str| Usage(format!("--data {}: {problem}", folder.display()));
    let store = Store::existing(folder).map_err(|error| match error.kind() {
        ErrorKind::NotFound => refuse("no such folder"),
        _ => Usage(format!("--data {error}")),
    })?;
    if store.head(manifest::NAME)?.is_none() {
        return Err(refuse("no prepared corpus is here; name a folder that `cloze prepare` wrote").into());
    }
    let manifest = pipeline::load::open(&store)?;
    let pack = &manifest.pack;
    if method.needs_sentences() && !pack.keeps_sentences {
        let problem = format!("packed as `{}`, and this method needs `sentences`; leave `--data` out", pack.name);
        return Err(refuse(&problem).into());
    }
    if model.is_some_and(|model| model.fingerprint != manifest.tokenizer.fingerprint) {
        return Err(refuse("prepared with another tokenizer than that of the model of `--from`; leave one out").into());
    }
    let max_positions = model.map_or(u32::MAX, |model| model.encoder.max_positions);
    if manifest.max_seq_len > max_positions {
        let problem = format!(
            "rows have up to {} tokens, and the model of `--from` has {max_positions} positions; leave one out",
            manifest.max_seq_len
        );
        return Err(refuse(&problem).into());
    }
    let split = manifest.effective(manifest.newest()).train;
    Ok(SharedData {
        folder: folder.to_owned(),
        max_seq_len: manifest.max_seq_len.into(),
        packing: pack.name.clone(),
        valid_fraction: pipeline::prepare::valid_fraction(&store),
        rows: split.rows(),
        tokens: split.tokens(),
    })
}

#[cfg(test)]
mod tests {
    use pipeline::shard::synthetic::Synthetic;

    use super::*;

    #[test]
    fn prepared_folders_are_shared_if_the_method_can_use_them() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let refused = |folder: &Path, method| shared_data(folder, method, None).err().expect("refused").to_string();
        let absent = refused(&home.path().join("absent"), Method::Mlm);
        assert!(absent.ends_with("absent: no such folder") && absent.starts_with("--data "), "{absent}");
        let empty = refused(home.path(), Method::Mlm);
        assert!(empty.contains("no prepared corpus is here"), "{empty}");
        let store = Store::folder(home.path()).expect("created");
        let written = Synthetic::default().write(&store).expect("written");
        store.put(manifest::NAME, &written.to_json()).expect("written");
        let data = shared_data(home.path(), Method::Mlm, None).expect("a prepared folder");
        assert_eq!(data.max_seq_len, u64::from(written.max_seq_len));
        let split = written.effective(written.newest()).train;
        assert!(split.rows() > 0 && data.rows == split.rows() && data.tokens == split.tokens(), "of the folder");
        assert_eq!((data.packing.as_str(), data.folder.as_path()), ("block", home.path()));
        let electra = refused(home.path(), Method::Electra);
        assert!(electra.contains("packed as `block`, and this method needs `sentences`"), "{electra}");
    }

    #[test]
    fn next_commands_can_be_pasted() {
        assert_eq!(next_commands(Path::new("run.toml"), true, false), ["cloze prepare", "cloze plan", "cloze train"]);
        let quoted = next_commands(Path::new("my $runs/it's.toml"), false, false);
        assert_eq!(next_commands(Path::new("run.toml"), false, true), ["cloze plan", "cloze train"]);
        assert_eq!(quoted[0], "cloze tokenizer train -c 'my $runs/it'\\''s.toml'");
    }

    #[test]
    fn places_that_cannot_be_written_are_refused() {
        let home = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir(home.path().join("here.toml")).expect("created");
        let store = Store::folder(home.path()).expect("there");
        store.put("file", b"").expect("written");
        for (out, words) in [
            ("here.toml", "a folder; name a file in it, such as "),
            ("absent.toml/", "absent.toml/run.toml"),
            ("absent/", "absent/run.toml"),
            ("file/run.toml", "file is a file, not a folder"),
            ("file/more/run.toml", "file is a file, not a folder"),
            ("run.json", "expected a `.toml` file"),
            ("a\"b.toml", "without quotes"),
            ("a\tb.toml", "control characters"),
        ] {
            let problem = output_place(&home.path().join(out)).expect_err(out).to_string();
            assert!(problem.starts_with("--out ") && problem.contains(words), "{problem}");
        }
        assert!(output_place(&home.path().join("new/run.toml")).is_ok(), "the folder is created");
        assert_eq!(output_place(Path::new("a.toml")).expect("a file").0, Path::new("."));
    }

    #[test]
    fn folders_without_a_model_are_refused_with_the_command_that_makes_one() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let run = home.path().join("my run");
        for entry in ["checkpoints", "log"] {
            std::fs::create_dir_all(run.join(entry)).expect("created");
        }
        std::fs::create_dir(home.path().join("empty")).expect("created");
        let problem = |from: &Path| start_model(from).err().expect("no model").to_string();
        let of_run = problem(&run);
        let place = run.display();
        let command = format!("`cloze export '{place}' --out '{place}-model'`, then use `--from '{place}-model'`");
        assert!(of_run.contains(&command), "{of_run}");
        for (name, local) in [("no-bert-here", "no-bert-here"), ("no-owner/bert", "bert")] {
            let of_hub = problem(Path::new(name));
            let command = format!("`hf download {name} --local-dir {local}`");
            assert!(of_hub.contains(&command), "{of_hub}");
        }
        let absent = problem(&home.path().join("absent"));
        assert!(absent.ends_with("no such folder"), "{absent}");
        assert!(problem(&home.path().join("empty")).contains("`config.json`: No such file"));
        let checkpoint = Store::folder(home.path().join("run/checkpoints/step-00000001")).expect("created");
        checkpoint.put("state.json", b"{}").expect("written");
        let of_run = problem(Path::new(&checkpoint.place("")));
        assert!(of_run.contains("a checkpoint of a run") && of_run.contains("run --out MODEL"), "{of_run}");
        // As a pipe, which would wait for a writer.
        std::fs::create_dir(home.path().join("empty/config.json")).expect("created");
        assert!(problem(&home.path().join("empty")).ends_with("`config.json`: it is not a file"));
    }
}
