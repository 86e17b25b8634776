//! Sibling runs in the same parent folder, for comparison of their curves on the status page.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use server::{ApiError, Kind};
use store::Store;

use super::about;
use crate::report::run_summary::{RunSummary, is_run};

/// Maximum number of listed runs.
const RUNS_MAX: usize = 100;

/// Returns the other run folders in the parent folder of a run, by name.
fn found(run: &Path) -> Vec<(String, PathBuf)> {
    let Ok(own) = run.canonicalize() else { return Vec::new() };
    let Some(entries) = own.parent().and_then(|above| std::fs::read_dir(above).ok()) else { return Vec::new() };
    let others = entries.flatten().map(|entry| entry.path()).filter(|path| *path != own && is_run(path));
    let named = |path: PathBuf| Some((path.file_name()?.to_str()?.to_owned(), path));
    let mut found: Vec<_> = others.filter_map(named).collect();
    found.sort_unstable();
    found.truncate(RUNS_MAX);
    found
}

/// Returns a short summary of each sibling run as JSON.
pub(super) fn siblings(run: &Path) -> Value {
    let summary = |(name, folder): (String, PathBuf)| {
        let summary = RunSummary::in_short(&name, &Store::existing(folder).ok()?).ok()?;
        Some(json!({ "name": name, "step": summary.step, "state": summary.state }))
    };
    json!({ "runs": found(run).into_iter().filter_map(summary).collect::<Vec<_>>() })
}

/// Returns the history of a sibling run. The name must be in the list, so that a client cannot open arbitrary paths.
pub(super) fn history(run: &Path, name: &str) -> Result<String, ApiError> {
    let unknown = || ApiError::Unknown(format!("no run `{}` is next to this one", schemas::printable(name)));
    let (_, folder) = found(run).into_iter().find(|(known, _)| known == name).ok_or_else(unknown)?;
    let store = Store::existing(&folder).map_err(|error| ApiError::Unable(error.to_string()))?;
    Ok(server::report::history_of(&about(Kind::Train, &run.with_file_name(name)), &store))
}
