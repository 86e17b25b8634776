//! The checkpoint from which a step can be done again.

use std::cmp::Reverse;

use schemas::ordinal::Step;
use store::Store;

use super::kept::{FOLDER, Form, folder_name, list};
use super::{Snapshot, Unread};
use crate::error::Error;

/// The newest whole checkpoint of at most `done` steps, and where it is; `None` if there is none. Changes nothing, since the
/// run may be under way.
pub fn before(run: &Store, done: Step) -> Result<Option<(String, Snapshot)>, Error> {
    let checkpoints = run.within(FOLDER);
    let found = list(&checkpoints)?;
    for (&Reverse(step), _) in found.iter().filter(|(step, form)| step.0 <= done && **form == Form::Whole) {
        let checkpoint = checkpoints.within(&folder_name(step));
        match Snapshot::read(&checkpoint, step) {
            Ok(snapshot) => return Ok(Some((checkpoint.place(""), snapshot))),
            Err(Unread::Damaged { place, problem }) => {
                tracing::warn!(file = %place, %problem, "damaged checkpoint, looking at an older one");
            }
            Err(Unread::Other(error)) => return Err(error),
        }
    }
    Ok(None)
}
