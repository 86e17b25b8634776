//! `cloze config`: every key there is.

use telemetry::terminal::line;

use crate::config::reference::{page, schema, sections};
use crate::exit::Usage;

/// Prints the keys of the sections that are asked for, or all.
pub(crate) fn run(only: &[String]) -> anyhow::Result<()> {
    let sections = sections();
    if let Some(nobody) = only.iter().find(|name| page::lines(&sections, std::slice::from_ref(name)).is_empty()) {
        let message = format!("no section or key is called `{nobody}`; `cloze config` lists all");
        return Err(Usage(message).into());
    }
    page::lines(&sections, only).into_iter().for_each(line);
    Ok(())
}

/// Prints the JSON schema.
pub(crate) fn schema() {
    line(format_args!("{:#}", schema::schema()));
}
