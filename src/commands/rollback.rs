//! `cloze rollback`: a run goes back to one of its checkpoints, and keeps what came after it by name.

use std::path::Path;

use observe::change::{ChangeReport, How};
use observe::{At, Clock, What};
use pipeline::ledger::{self, Ledger};
use schemas::{RowIndex, Step};
use serde_json::json;
use trainer::training::{Undone, rollback};

use super::checkpoints::existing;
use super::runs::now;
use crate::run_folder::RunFolder;
use crate::terminal::{count, told};

/// Goes back to the checkpoint after `step`. The run must not be under way.
pub(crate) fn run(run: &Path, step: u64, why: Option<String>, is_json: bool) -> anyhow::Result<()> {
    let mut held = RunFolder::hold(&existing(run)?)?;
    let undone = rollback::back(held.store(), Step(step), why, now())?;
    let Undone { from, to, rows_from, rows_to, .. } = undone.clone();
    // What was counted of them comes again too.
    if !ledger::pages(held.store())?.is_empty() {
        Ledger::default().begin(held.store(), RowIndex(rows_to))?;
    }
    let place = undone.folder(held.store()).place("");
    let message = format!("went back from step {from}; what came after is in {place}");
    let at = At { step: Some(to), rows_seen: Some(rows_to), ..At::default() };
    let report = ChangeReport { how: How::Rollback, message, keys: Vec::new(), from: Some(from) };
    held.add(&Clock::system().event(at, What::Change(report)))?;
    if is_json {
        told(json!({ "undone": undone, "place": place }));
    } else {
        told(format_args!(
            "went back from step {from} to step {to}: {} rows are to be learnt again; what came after is in {place}; the same \
             command as ever goes on from here",
            count(rows_from.saturating_sub(rows_to))
        ));
    }
    Ok(())
}
