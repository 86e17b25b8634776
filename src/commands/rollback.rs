//! `cloze rollback`: returns a run to a checkpoint and archives the later ones.

use std::path::Path;

use schemas::Step;
use serde_json::json;
use telemetry::quantities::count;
use telemetry::terminal::outcome;
use trainer_plan::run::rollback_archive::RollbackArchive;

use super::checkpoints::existing;
use crate::run::folder::RunFolder;

/// Returns to the checkpoint after `step`. The run must not be in progress.
pub(crate) fn run(run: &Path, step: u64, why: Option<String>, is_json: bool) -> anyhow::Result<()> {
    let mut held = RunFolder::acquire(&existing(run)?)?;
    let rolled_back = held.back(Step(step), why)?;
    let RollbackArchive { from, to, rows_from, rows_to, .. } = rolled_back.clone();
    let place = rolled_back.folder(held.store()).place("");
    if is_json {
        outcome(json!({ "rolled_back": rolled_back, "folder": place }));
    } else {
        outcome(format_args!(
            "rolled back from step {from} to step {to}: {} rows will be trained on again; later files are in {place}; the same \
             command continues from here",
            count(rows_from.saturating_sub(rows_to))
        ));
    }
    Ok(())
}
