//! `cloze rollback`: returns a run to a checkpoint and archives the later ones.

use std::path::Path;

use schemas::{Step, shell_quoted};
use serde_json::json;
use telemetry::quantities::count;
use telemetry::terminal::outcome;
use trainer_plan::run::rollback_archive::RollbackArchive;

use super::checkpoints::existing;
use crate::report::run_summary::steps;
use crate::run::folder::RunFolder;

/// Returns to the checkpoint after `step`. The run must not be in progress.
pub(crate) fn run(run: &Path, step: u64, why: Option<String>, is_json: bool) -> anyhow::Result<()> {
    let mut held = RunFolder::acquire_for_change(&existing(run)?)?;
    let before = steps(held.store())?;
    let rolled_back = held.back(Step(step), why)?;
    let now = steps(held.store())?;
    let RollbackArchive { from, to, rows_from, rows_to, .. } = rolled_back.clone();
    let place = rolled_back.folder(held.store()).place("");
    if is_json {
        outcome(json!({ "rolled_back": rolled_back, "folder": place, "steps_before": before, "steps": now }));
    } else {
        outcome(format_args!(
            "rolled back from step {from} to step {to}: {} rows will be trained on again; later files are in {place}; the same \
             command continues from here",
            count(rows_from.saturating_sub(rows_to))
        ));
        if let Some((before, now)) = before.zip(now).filter(|(before, now)| before != now) {
            outcome(format_args!(
                "the run has {now} steps again, and not {before}: it was extended after step {to}; \
                 `cloze extend {} --steps {before}` extends it from here",
                shell_quoted(run)
            ));
        }
    }
    Ok(())
}
