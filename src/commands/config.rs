//! `cloze config`: lists all configuration keys.

use telemetry::terminal::line;

use crate::config::reference::{page, schema, sections};
use crate::exit::Usage;

/// Prints the keys of the requested sections, or all keys.
pub(crate) fn run(only: &[String]) -> anyhow::Result<()> {
    let sections = sections();
    if let Some(unknown) = only.iter().find(|name| page::lines(&sections, std::slice::from_ref(name)).is_empty()) {
        let message = format!("no section or key is called `{unknown}`; `cloze config` lists all");
        return Err(Usage(message).into());
    }
    page::lines(&sections, only).into_iter().for_each(line);
    Ok(())
}

/// Prints the JSON schema.
pub(crate) fn schema() {
    line(format_args!("{:#}", schema::schema()));
}
