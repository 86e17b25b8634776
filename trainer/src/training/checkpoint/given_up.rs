//! Checkpoints of a course that a run has given up.

use std::cmp::Reverse;

use schemas::Sealed;
use schemas::ordinal::Step;
use store::Store;

use super::kept::{FOLDER, Form, LATEST, folder_name, list};
use super::{STATE_FILE, State};
use crate::error::Error;

/// Removes the checkpoints that `is_ours` denies, the newest first. What it cannot read is left for who reads it. Where none
/// is left, the run has not saved: it begins anew.
///
/// # Errors
/// [`Error::Io`]; those that are older than what could not be removed are as they were.
pub fn give_up(run: &Store, is_ours: impl Fn(&State) -> bool) -> Result<(), Error> {
    let checkpoints = run.within(FOLDER);
    let (mut ours, mut gave_up) = (None, false);
    for (Reverse(step), form) in list(&checkpoints)? {
        let checkpoint = checkpoints.within(&folder_name(step));
        let Some((bytes, _)) = checkpoint.read_with_stat(STATE_FILE)?.filter(|_| form == Form::Whole) else { continue };
        if State::unseal(&bytes).is_ok_and(|state| !is_ours(&state)) {
            point_at(&checkpoints, None)?;
            gave_up = true;
            tracing::info!(place = %checkpoint.place(""), "removing a checkpoint of steps that are undone");
            // Its state goes first: without it, there is no checkpoint.
            checkpoint.remove(STATE_FILE)?;
            checkpoint.remove_all("")?;
        } else {
            ours.get_or_insert(step);
        }
    }
    if gave_up && ours.is_some() { point_at(&checkpoints, ours) } else { Ok(()) }
}

/// What `latest` says was finished, must be there: it says nothing while that may go.
fn point_at(checkpoints: &Store, newest: Option<Step>) -> Result<(), Error> {
    match newest {
        Some(step) => checkpoints.put(LATEST, format!("{}\n", folder_name(step)).as_bytes()).map(|_| ())?,
        None => checkpoints.remove(LATEST)?,
    }
    Ok(())
}
