//! A checkpoint read: all of it as it was written, or not at all.

use std::cmp::Reverse;
use std::path::Path;

use schemas::ordinal::Step;
use store::Store;
use trainer_plan::Error;
use trainer_plan::checkpoint::{
    CheckpointForm, DAMAGED_FILE, FOLDER, LATEST, MAIN_FILE, OPTIMIZER_FILE, STATE_FILE, State, Unread, absent, empty,
    folder_name, list, newest_complete, none_whole, set_aside, steps, within,
};

use super::Snapshot;
use crate::device::tensors;

/// The newest checkpoint of a run that is whole, and where it is; `None` for a run that has never saved.
///
/// What a kill left unfinished is removed, but not what `latest` says was finished, unless another is whole. A damaged checkpoint is named aloud, set aside and skipped. One of another
/// version is no damage, and refused; so is a run whose checkpoints are all damaged, since it did not begin now.
/// What cannot be read at the moment is an error: nobody knows what it is.
pub fn newest(run: &Store) -> Result<Option<(String, Snapshot)>, Error> {
    let checkpoints = run.within(FOLDER);
    let (mut damaged, mut aside, mut unfinished) = (Vec::new(), false, Vec::new());
    let found = list(&checkpoints)?;
    let mut whole = None;
    for (&Reverse(step), form) in &found {
        let checkpoint = checkpoints.within(&folder_name(step));
        match form {
            CheckpointForm::Unfinished => unfinished.push(checkpoint),
            CheckpointForm::SetAside => aside = true,
            // The newest is enough.
            CheckpointForm::Whole if whole.is_some() => {}
            CheckpointForm::Whole => match Snapshot::read(&checkpoint, step) {
                Ok(snapshot) => whole = Some((checkpoint.place(""), snapshot)),
                Err(Unread::Damaged { place, problem }) => damaged.push((checkpoint, place, problem)),
                Err(Unread::Other(error)) => return Err(error),
            },
        }
    }
    let finished = if whole.is_none() { latest(&checkpoints)? } else { None };
    for checkpoint in unfinished {
        if finished.as_ref().is_some_and(|name| checkpoint.place("") == checkpoints.place(name)) {
            damaged.push((checkpoint.clone(), checkpoint.place(STATE_FILE), "it is missing".to_owned()));
        } else {
            tracing::info!(place = %checkpoint.place(""), "removing an unfinished checkpoint");
            empty(&checkpoint)?;
        }
    }
    if whole.is_some() {
        damaged.iter().try_for_each(|(checkpoint, place, problem)| set_aside(checkpoint, place, problem))?;
        return Ok(whole);
    }
    let problems: Vec<_> = damaged.iter().map(|(_, place, problem)| format!("{place}: {problem}")).collect();
    let what = match (problems.is_empty(), aside, finished) {
        (false, ..) => problems.join("; "),
        (true, true, _) => format!("`{DAMAGED_FILE}` is what was found damaged"),
        (true, false, Some(name)) => format!("`{LATEST}` names {name}, which is not there"),
        (true, false, None) => return Ok(None),
    };
    let problem = format!(
        "the run has saved, and no checkpoint of it is whole; put one back, or start over in another `run.folder` ({what})"
    );
    Err(Error::Checkpoint { path: checkpoints.place("").into(), problem })
}

/// The checkpoint that was the newest when one was saved last.
fn latest(checkpoints: &Store) -> std::io::Result<Option<String>> {
    let found = checkpoints.read_with_stat(LATEST)?;
    Ok(found.map(|(name, _)| String::from_utf8_lossy(&name).trim().to_owned()))
}

/// Where a checkpoint is, and all of it.
type Found = (String, Snapshot);

/// The checkpoint after `step`, or the newest that is whole, and where it is.
pub fn pick(run: &Store, step: Option<Step>) -> Result<(String, Snapshot), Error> {
    let steps = steps(run)?;
    if let Some(wanted) = step {
        if steps.contains(&wanted) {
            return Ok(read(&within(run, wanted), wanted)?);
        }
        return Err(Error::Config(absent(run, wanted, &steps)));
    }
    let (found, damaged) = newest_complete(run, steps, read)?;
    if let Some(found) = found {
        return Ok(found);
    }
    Err(none_whole(run, &damaged))
}

/// The newest whole checkpoint of at most `done` steps, from which the next step can be done again, and where it is;
/// `None` if there is none.
pub fn before(run: &Store, done: Step) -> Result<Option<(String, Snapshot)>, Error> {
    Ok(newest_complete(run, steps(run)?.into_iter().filter(|&step| step <= done), read)?.0)
}

fn read(checkpoint: &Store, step: Step) -> Result<Found, Unread> {
    Snapshot::read(checkpoint, step).map(|snapshot| (checkpoint.place(""), snapshot))
}

impl Snapshot {
    /// Reads and verifies all of them. Nothing of it is believed unless all of it is as it was written.
    fn read(checkpoint: &Store, step: Step) -> Result<Self, Unread> {
        let damaged = |name: &str, problem: String| Unread::Damaged { place: checkpoint.place(name), problem };
        let bytes = |name: &str| match checkpoint.read_with_stat(name)? {
            Some((bytes, _)) => Ok(bytes),
            None => Err(damaged(name, "it is missing".to_owned())),
        };
        let state = State::read(checkpoint, step)?;
        let tensors = |name: &str| {
            let bytes = bytes(name)?;
            if state.files.get(name).map(String::as_str) != Some(blake3::hash(&bytes).to_hex().as_str()) {
                return Err(damaged(name, "its BLAKE3 is not the one in `state.json`".to_owned()));
            }
            tensors::parse(Path::new(&checkpoint.place(name)), &bytes).map_err(Unread::Other)
        };
        let (main, optimizer) = (tensors(MAIN_FILE)?, tensors(OPTIMIZER_FILE)?);
        Ok(Self { state, main, optimizer, validated: None })
    }
}
