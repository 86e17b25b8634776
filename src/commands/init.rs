//! `cloze init`: writes a configuration for a corpus.
//!
//! The result can be prepared, planned and trained without changes. Its values are those of small published recipes, by
//! the size of the corpus. A comment explains each value.

mod page;
mod recipe;
mod survey;

use std::path::Path;

use pipeline::tokenize::{self, Tokenizer as _};
use schemas::shell_quoted;
use store::Store;
use telemetry::quantities::bytes;
use telemetry::terminal::{line, note};
use trainer_plan::hf;

use self::page::{Choice, StartModel};
use self::survey::Survey;
use crate::cli::{DEFAULT_CONFIG, Method, ModelSize};
use crate::exit::Usage;

/// Surveys the corpus and writes the file. `from` is the folder of a `transformers` model.
pub(crate) fn run(
    inputs: &[String],
    method: Method,
    size: Option<ModelSize>,
    from: Option<&Path>,
    out: &Path,
) -> anyhow::Result<()> {
    let folder = out.parent().unwrap_or(Path::new(""));
    let name = out.file_name().and_then(|name| name.to_str());
    // The name is written in a comment and in strings of the file.
    let is_plain = |name: &&str| !name.contains(['"', '\\', '\n']);
    let Some(name) = name.filter(is_plain).filter(|_| out.extension().is_some_and(|ending| ending == "toml")) else {
        return Err(Usage(format!(
            "--out {}: expected a `.toml` file without quotes or backslashes in its name",
            out.display()
        ))
        .into());
    };
    if method == Method::Tacl && from.is_none() {
        let message = "--method tacl continues a trained model: name its folder with `--from`";
        return Err(Usage(message.to_owned()).into());
    }
    let model = from.map(start_model).transpose()?;
    let survey = Survey::scan(inputs)?;
    let text = page::page(&survey, name.trim_end_matches(".toml"), &Choice { method, size, model });
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let store = Store::folder(folder)?;
    if let store::Created::Exists = store.put_if_absent(name, text.as_bytes())? {
        return Err(Usage(format!("{}: the file exists; name another with --out", out.display())).into());
    }
    if let Some(passed_over) = &survey.skipped_files {
        note(format_args!("warning: {passed_over}"));
    }
    line(format_args!(
        "{}: for {} of format `{}`, {} on disk, about {} of text",
        out.display(),
        survey.files(),
        survey.format,
        bytes(survey.bytes),
        bytes(survey.text_bytes),
    ));
    for command in next_commands(out, from.is_some()) {
        line(format_args!("  {command}"));
    }
    Ok(())
}

/// Returns the shell commands that follow. A model brings its tokenizer.
fn next_commands(out: &Path, has_model: bool) -> Vec<String> {
    let option = if out == Path::new(DEFAULT_CONFIG) {
        String::new()
    } else {
        format!(" -c {}", shell_quoted(&out.display().to_string()))
    };
    let verbs = ["tokenizer train", "prepare", "plan", "train"];
    verbs.iter().skip(usize::from(has_model)).map(|verb| format!("cloze {verb}{option}")).collect()
}

/// Reads shape and tokenizer of a `transformers` model.
fn start_model(folder: &Path) -> anyhow::Result<StartModel> {
    let refuse = |problem: String| Usage(format!("--from {}: {problem}", folder.display()));
    let config = hf::read_config(folder).map_err(refuse)?;
    if let Some(problem) = hf::weights_problem(folder, &config) {
        return Err(refuse(problem).into());
    }
    let encoder = config.encoder().map_err(refuse)?;
    let tokenizer = tokenize::load_from_model(folder).map_err(|error| refuse(error.to_string()))?;
    // A `tokenizer.json` determines it.
    let is_open = !folder.join("tokenizer.json").is_file() && folder.join("vocab.txt").is_file();
    let lowercase = is_open.then(|| tokenizer.facts().manifest.lowercase);
    Ok(StartModel { folder: folder.to_owned(), encoder, lowercase })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_commands_can_be_pasted() {
        assert_eq!(next_commands(Path::new("run.toml"), true), ["cloze prepare", "cloze plan", "cloze train"]);
        let quoted = next_commands(Path::new("my $runs/it's.toml"), false);
        assert_eq!(quoted[0], "cloze tokenizer train -c 'my $runs/it'\\''s.toml'");
    }
}
