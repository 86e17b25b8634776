//! `cloze init`: a configuration for a corpus that has been looked at.
//!
//! What is written can be prepared, planned and trained as it stands. Its choices are those of small published recipes,
//! by the size of the corpus; each has a comment that says what it is for.

mod page;
mod survey;

use std::path::Path;

use store::Store;

use self::survey::Survey;
use crate::exit::Usage;
use crate::terminal::{bytes, line};

/// Looks at the corpus and writes the file.
pub(crate) fn run(inputs: &[String], out: &Path) -> anyhow::Result<()> {
    let (folder, name) = (out.parent().unwrap_or(Path::new("")), out.file_name().and_then(|name| name.to_str()));
    let Some(name) = name.filter(|_| out.extension().is_some_and(|ending| ending == "toml")) else {
        return Err(Usage(format!("--out {}: a configuration is a `.toml` file", out.display())).into());
    };
    let survey = Survey::of(inputs)?;
    let text = page::page(&survey, name.trim_end_matches(".toml"));
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let store = Store::folder(folder)?;
    if let store::Created::Exists = store.create(name, text.as_bytes())? {
        return Err(Usage(format!("{}: there is a file already; name another with --out", out.display())).into());
    }
    line(format_args!(
        "{}: for {} of format `{}`, {} on disk, about {} of text",
        out.display(),
        survey.files(),
        survey.format,
        bytes(survey.bytes),
        bytes(survey.text_bytes),
    ));
    for verb in ["tokenizer train", "prepare", "plan", "train"] {
        line(format_args!("  cloze {verb} -c {}", out.display()));
    }
    Ok(())
}
