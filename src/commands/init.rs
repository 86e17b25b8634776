//! `cloze init`: writes a configuration for a corpus.
//!
//! The result can be prepared, planned and trained without changes. Its values are those of small published recipes, by
//! the size of the corpus. A comment explains each value.

mod page;
mod survey;

use std::path::Path;

use store::Store;
use telemetry::quantities::bytes;
use telemetry::terminal::{line, note};

use self::survey::Survey;
use crate::exit::Usage;

/// Surveys the corpus and writes the file.
pub(crate) fn run(inputs: &[String], out: &Path) -> anyhow::Result<()> {
    let (folder, name) = (out.parent().unwrap_or(Path::new("")), out.file_name().and_then(|name| name.to_str()));
    // The name is written in a comment and in strings of the file.
    let is_plain = |name: &&str| !name.contains(['"', '\\', '\n']);
    let Some(name) = name.filter(is_plain).filter(|_| out.extension().is_some_and(|ending| ending == "toml")) else {
        return Err(Usage(format!(
            "--out {}: expected a `.toml` file without quotes or backslashes in its name",
            out.display()
        ))
        .into());
    };
    let survey = Survey::scan(inputs)?;
    let text = page::page(&survey, name.trim_end_matches(".toml"));
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
    let option = if out == Path::new("run.toml") { String::new() } else { format!(" -c {}", out.display()) };
    for verb in ["tokenizer train", "prepare", "plan", "train"] {
        line(format_args!("  cloze {verb}{option}"));
    }
    Ok(())
}
