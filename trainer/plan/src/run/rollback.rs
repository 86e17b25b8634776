//! Back to an older checkpoint, with everything that came after it kept by name.
//!
//! # What
//! The checkpoints and the lines of the log of later steps move to `RUN/undone/NNN/`; then the run continues from there as if
//! they had never been. Nothing is deleted.
//!
//! # Definition
//! First all that will go is copied. Then `rollback.json` is put: from here on the rollback is decided, and whoever takes
//! the run next [completes](finish) it, so that no run ever continues from a half of it. Then what was copied is removed, the
//! log is rewound, `rolled_back/NNN/rolled_back.json` is put, what others keep of the run follows, and `rollback.json` is removed. Each
//! of these can be done twice.

use std::io;

use schemas::Sealed as _;
use schemas::ordinal::Step;
use store::{Log, Store};
use telemetry::jsonl::{LOG, is_said_by};

use crate::checkpoint;
use crate::error::Error;
use crate::run::rollback_archive::RollbackArchive;
use crate::run::skipped_steps::SkipList;
use crate::run::{step_budget, time_budget};

/// A rollback that is decided, and perhaps not complete.
const DECIDED: &str = "rollback.json";

/// Goes back to the checkpoint after `to`, with a reason for whoever asks later; `follow` lets what others keep of the run
/// follow, perhaps more than once. The run must be held.
///
/// # Errors
/// [`Error::Config`] if there is no such checkpoint or nothing after it, [`Error::Checkpoint`] if it is not whole;
/// nothing is changed then.
pub fn back(
    run: &Store,
    to: Step,
    (why, time): (Option<String>, u64),
    follow: impl FnOnce(&RollbackArchive) -> io::Result<()>,
) -> Result<RollbackArchive, Error> {
    let rows_to = checkpoint::check(run, to)?;
    // Else nobody could go on from it.
    let place = run.place("checkpoints");
    SkipList::read(run)?.check(&place, &checkpoint::state_of(run, to)?)?;
    let newest = checkpoint::steps(run)?[0];
    if newest == to {
        let message = format!("{}: the newest checkpoint is of step {to}: there is nothing to undo", run.place(""));
        return Err(Error::Config(message));
    }
    let number = RollbackArchive::all(run)?.last().map_or(Some(0), |last| last.number.checked_add(1));
    let number =
        number.ok_or_else(|| Error::Config(format!("{}: there is no number left", run.place("rolled_back"))))?;
    // As many rows a step from its first to its last.
    let rows_from = (rows_to / to.0.max(1)).saturating_mul(newest.0);
    let undone = RollbackArchive { number, from: newest, to, rows_from, rows_to, time, why };
    let aside = undone.folder(run);
    // What an attempt that was killed has left.
    aside.remove_all("")?;
    for step in checkpoint::steps(run)?.into_iter().filter(|step| *step > to) {
        checkpoint::copy(run, step, &aside, None)?;
    }
    for entry in run.list("")?.into_iter().filter(|entry| is_about_steps(&entry.name)) {
        let content = run.read(&entry.name)?;
        let later: Vec<u8> = if entry.name.starts_with(LOG) {
            let lines = content.split_inclusive(|byte| *byte == b'\n');
            lines.filter(|line| !is_said_by(line.strip_suffix(b"\n").unwrap_or(line), to)).flatten().copied().collect()
        } else {
            content
        };
        if !later.is_empty() {
            aside.put(&entry.name, &later)?;
        }
    }
    run.put(DECIDED, &undone.seal())?;
    finish(run, follow)?;
    Ok(undone)
}

/// Completes a rollback that was decided, if there is one, as [`back`] would have. The run must be held.
///
/// # Errors
/// [`Error::Checkpoint`] if what was decided is not as it was written.
pub fn finish(
    run: &Store,
    follow: impl FnOnce(&RollbackArchive) -> io::Result<()>,
) -> Result<Option<RollbackArchive>, Error> {
    let Some((bytes, _)) = run.read_with_stat(DECIDED)? else { return Ok(None) };
    let undone = RollbackArchive::unseal(&bytes)
        .map_err(|error| Error::Checkpoint { path: run.place(DECIDED).into(), problem: error.to_string() })?;
    // What is half removed is no checkpoint any more, and goes too.
    for step in checkpoint::beyond(run, undone.to)? {
        checkpoint::discard(run, step)?;
    }
    Log::open(run, LOG)?.rewind(|line| is_said_by(line, undone.to))?;
    time_budget::cut(run, run, undone.to)?;
    step_budget::cut(run, run, undone.to)?;
    checkpoint::point(run, &[])?;
    undone.write(run)?;
    follow(&undone)?;
    run.remove(DECIDED)?;
    Ok(Some(undone))
}

/// Objects of a run that say something of each step.
fn is_about_steps(name: &str) -> bool {
    name.strip_prefix(LOG).is_some_and(|rest| rest.starts_with('/'))
        || time_budget::NAME == name
        || step_budget::NAME == name
}

#[cfg(test)]
mod tests;
