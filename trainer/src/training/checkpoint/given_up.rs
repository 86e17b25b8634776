//! Checkpoints of a course that a run has given up.

use schemas::Sealed;
use store::Store;

use super::kept::{discard, point, steps, within};
use super::{STATE_FILE, State};
use crate::error::Error;

/// Removes the checkpoints that are `given_up`. What it cannot read is left for who reads it. Where none is left, the run
/// has not saved: it begins anew.
///
/// # Errors
/// [`Error::Io`]; what was not removed is as it was.
pub fn give_up(run: &Store, given_up: impl Fn(&State) -> bool) -> Result<(), Error> {
    let mut going = Vec::new();
    for step in steps(run)? {
        let Some((bytes, _)) = within(run, step).read_with_stat(STATE_FILE)? else { continue };
        if State::unseal(&bytes).is_ok_and(|state| given_up(&state)) {
            going.push(step);
        }
    }
    if going.is_empty() {
        return Ok(());
    }
    // What `latest` names has to be there, whatever is killed in between.
    point(run, &going)?;
    for step in going {
        tracing::info!(step = step.0, "removing a checkpoint of steps that are undone");
        discard(run, step)?;
    }
    Ok(())
}
