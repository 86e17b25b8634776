//! Runs beside a run: for a page that lays their curves over one another.

use std::path::Path;

use serde_json::{Value, json};
use serve::{Kind, Trouble};
use store::Store;

use super::about;
use crate::summary::{Summary, is_run};

/// Runs that are listed.
const RUNS_MAX: usize = 100;

/// The folders that hold runs beside that one, without it, by name.
fn names(run: &Path) -> Vec<String> {
    let Some(above) = run.canonicalize().ok().and_then(|run| run.parent().map(Path::to_owned)) else {
        return Vec::new();
    };
    let own = run.canonicalize().ok().and_then(|run| run.file_name().map(|name| name.to_string_lossy().into_owned()));
    let Ok(entries) = std::fs::read_dir(above) else { return Vec::new() };
    let runs = entries.flatten().filter(|entry| is_run(&entry.path()));
    let mut names: Vec<String> = runs.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.retain(|name| Some(name) != own.as_ref());
    names.sort_unstable();
    names.truncate(RUNS_MAX);
    names
}

/// Runs beside that one, at a glance.
pub(super) fn siblings(run: &Path) -> Value {
    let found = names(run).into_iter().filter_map(|name| {
        let store = Store::existing(run.parent()?.join(&name)).ok()?;
        let summary = Summary::of(&name, &store).ok()?;
        Some(json!({ "name": name, "step": summary.step, "state": summary.state }))
    });
    json!({ "runs": found.collect::<Vec<_>>() })
}

/// What another run beside that one has said. Its name is one of a list: no path that somebody made up is opened.
pub(super) fn history(run: &Path, name: &str) -> Result<Value, Trouble> {
    let unknown = || Trouble::Unknown(format!("no run `{}` is beside this one", schemas::printable(name)));
    let known = names(run).into_iter().find(|known| known == name).ok_or_else(unknown)?;
    let folder = run.parent().unwrap_or(Path::new("..")).join(known);
    let store = Store::existing(&folder).map_err(|error| Trouble::Unable(error.to_string()))?;
    let history = serve::report::history_of(&about(Kind::Train, &folder, None), &store);
    serde_json::to_value(history).map_err(|error| Trouble::Unable(error.to_string()))
}
