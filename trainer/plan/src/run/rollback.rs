//! Rollback of a run to an older checkpoint. Later checkpoints and log lines are archived.
//!
//! # What
//! The checkpoints and the log lines of later steps move to `RUN/rolled_back/NNN/`. The run then continues from the
//! older checkpoint as if the later steps had not happened. Nothing is deleted.
//!
//! # Definition
//! A rollback has these stages, each of which can be repeated:
//!
//! 1. The later checkpoints and log lines are copied to the archive.
//! 2. `rollback.json` is written. From here on the rollback is decided: the next process that opens the run
//!    [completes](finish) it, so that no run continues from a partial rollback.
//! 3. The copied originals are removed, and the log is truncated to the older step.
//! 4. `rolled_back/NNN/rolled_back.json` is written.
//! 5. Observers with their own copy of the run (`follow`) are rolled back.
//! 6. `rollback.json` is removed.

use std::io;

use schemas::Sealed as _;
use schemas::ordinal::Step;
use store::{Log, Store};
use telemetry::jsonl::{LOG, is_at_or_before};

use crate::checkpoint;
use crate::error::Error;
use crate::run::rollback_archive::RollbackArchive;
use crate::run::skipped_steps::SkipList;
use crate::run::{step_budget, time_budget};

/// File that marks a decided rollback, which may be incomplete.
const DECIDED: &str = "rollback.json";

/// Rolls the run back to the checkpoint after `to`. The second tuple holds the user's reason and the time. `follow`
/// rolls back copies of the run that other components keep; it may be called more than once. The caller must hold the
/// lock of the run.
///
/// # Errors
/// [`Error::Config`] if the checkpoint does not exist or is the newest one, [`Error::Checkpoint`] if it is damaged.
/// Nothing is changed then.
pub fn back(
    run: &Store,
    to: Step,
    (why, time): (Option<String>, u64),
    follow: impl FnOnce(&RollbackArchive) -> io::Result<()>,
) -> Result<RollbackArchive, Error> {
    let rows_to = checkpoint::check(run, to)?;
    // A checkpoint that contradicts the list of skipped steps cannot be resumed.
    let place = run.place("checkpoints");
    SkipList::read(run)?.check(&place, &checkpoint::state_of(run, to)?)?;
    let newest = checkpoint::steps(run)?[0];
    if newest == to {
        let message = format!("{}: step {to} is the newest checkpoint: nothing to roll back", run.place(""));
        return Err(Error::Config(message));
    }
    let number = RollbackArchive::all(run)?.last().map_or(Some(0), |last| last.number.checked_add(1));
    let number = number.ok_or_else(|| {
        Error::Config(format!("{}: the numbers of rollbacks are exhausted", run.place("rolled_back")))
    })?;
    // The number of rows per step is constant over a run.
    let rows_from = (rows_to / to.0.max(1)).saturating_mul(newest.0);
    let archive = RollbackArchive { number, from: newest, to, rows_from, rows_to, time, why };
    let archive_folder = archive.folder(run);
    // Remains of an attempt that was killed. Files of the user stay.
    for entry in archive_folder.list("")?.into_iter().filter(|entry| is_archived(&entry.name)) {
        archive_folder.delete(&entry.name)?;
    }
    for step in checkpoint::steps(run)?.into_iter().filter(|step| *step > to) {
        checkpoint::copy(run, step, &archive_folder, None)?;
    }
    for entry in run.list("")?.into_iter().filter(|entry| is_about_steps(&entry.name)) {
        let content = run.get(&entry.name)?;
        let later: Vec<u8> = if entry.name.starts_with(LOG) {
            let lines = content.split_inclusive(|byte| *byte == b'\n');
            lines
                .filter(|line| !is_at_or_before(line.strip_suffix(b"\n").unwrap_or(line), to))
                .flatten()
                .copied()
                .collect()
        } else {
            content
        };
        if !later.is_empty() {
            archive_folder.put(&entry.name, &later)?;
        }
    }
    run.put(DECIDED, &archive.seal())?;
    finish(run, follow)?;
    Ok(archive)
}

/// Completes a decided rollback, if one exists. See [`back`]. The caller must hold the lock of the run.
///
/// # Errors
/// [`Error::Checkpoint`] if `rollback.json` is damaged.
pub fn finish(
    run: &Store,
    follow: impl FnOnce(&RollbackArchive) -> io::Result<()>,
) -> Result<Option<RollbackArchive>, Error> {
    let Some((bytes, _)) = run.get_with_stat(DECIDED)? else { return Ok(None) };
    let archive = RollbackArchive::unseal(&bytes)
        .map_err(|error| Error::Checkpoint { path: run.place(DECIDED).into(), problem: error.to_string() })?;
    // `beyond` includes partly removed checkpoints, which have no state.
    for step in checkpoint::beyond(run, archive.to)? {
        checkpoint::discard(run, step)?;
    }
    Log::open(run, LOG)?.rewind(|line| is_at_or_before(line, archive.to))?;
    time_budget::cut(run, run, archive.to)?;
    step_budget::cut(run, run, archive.to)?;
    checkpoint::point(run, &[])?;
    archive.write(run)?;
    follow(&archive)?;
    run.delete(DECIDED)?;
    Ok(Some(archive))
}

/// Whether an object has the name of one in an archive.
pub(super) fn is_archived(name: &str) -> bool {
    let checkpoint = name.strip_prefix(checkpoint::FOLDER).and_then(|rest| rest.strip_prefix('/'));
    let is_of_checkpoint =
        |rest: &str| rest.split_once('/').is_some_and(|(folder, _)| checkpoint::step_of_folder(folder).is_some());
    is_about_steps(name) || checkpoint.is_some_and(is_of_checkpoint)
}

/// Whether an object of a run has an entry per step.
fn is_about_steps(name: &str) -> bool {
    name.strip_prefix(LOG).is_some_and(|rest| rest.starts_with('/'))
        || time_budget::NAME == name
        || step_budget::NAME == name
}

#[cfg(test)]
mod tests;
