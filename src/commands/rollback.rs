//! `cloze rollback`: a run goes back to one of its checkpoints, and keeps what came after it by name.

use std::path::Path;

use schemas::Step;
use serde_json::json;
use telemetry::quantities::count;
use telemetry::terminal::told;
use trainer_plan::run::rollback_archive::RollbackArchive;

use super::checkpoints::existing;
use crate::run::folder::RunFolder;

/// Goes back to the checkpoint after `step`. The run must not be under way.
pub(crate) fn run(run: &Path, step: u64, why: Option<String>, is_json: bool) -> anyhow::Result<()> {
    let mut held = RunFolder::hold(&existing(run)?)?;
    let undone = held.back(Step(step), why)?;
    let RollbackArchive { from, to, rows_from, rows_to, .. } = undone.clone();
    let place = undone.folder(held.store()).place("");
    if is_json {
        told(json!({ "undone": undone, "place": place }));
    } else {
        told(format_args!(
            "went back from step {from} to step {to}: {} rows are to be learned again; what came after is in {place}; the same \
             command as ever continues from here",
            count(rows_from.saturating_sub(rows_to))
        ));
    }
    Ok(())
}
