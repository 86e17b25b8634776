//! Reading of checkpoints. A checkpoint is returned only if it is complete and verified.

use std::cmp::Reverse;
use std::path::Path;

use schemas::ordinal::Step;
use store::Store;
use trainer_plan::Error;
use trainer_plan::checkpoint::{
    CheckpointForm, DAMAGED_FILE, FOLDER, LATEST, MAIN_FILE, OPTIMIZER_FILE, STATE_FILE, State, UnreadState, absent,
    checkpoint_store, empty, folder_name, list, newest_complete, none_whole, refuse_newer_links, set_aside, steps,
};

use super::Snapshot;
use crate::device::tensors;

/// Returns the newest complete checkpoint of a run and its location; `None` for a run that has never saved.
///
/// Unfinished checkpoints of a killed process are removed, unless none is complete and the run has saved before. A
/// damaged checkpoint is logged, set aside and skipped, if another one is complete.
///
/// # Errors
/// If a checkpoint has another format version, since that is no damage. If the newest one is a symbolic link. If all
/// checkpoints are damaged, since the run must not silently start over. If a checkpoint cannot be read at the moment,
/// since its state is unknown.
pub fn newest(run: &Store) -> Result<Option<(String, Snapshot)>, Error> {
    let checkpoints = run.prefixed(FOLDER);
    let mut damaged = Vec::new();
    let mut aside = false;
    let mut unfinished = Vec::new();
    let found = list(&checkpoints)?;
    let mut whole = None;
    for (&Reverse(step), form) in &found {
        let checkpoint = checkpoints.prefixed(&folder_name(step));
        match form {
            CheckpointForm::Unfinished => unfinished.push(checkpoint),
            CheckpointForm::SetAside => aside = true,
            // Only the newest complete checkpoint is needed.
            CheckpointForm::Whole if whole.is_some() => {}
            CheckpointForm::Whole => match Snapshot::read(&checkpoint, step) {
                Ok(snapshot) => whole = Some((checkpoint.place(""), snapshot)),
                Err(UnreadState::Damaged { place, problem }) => damaged.push((checkpoint, place, problem)),
                Err(UnreadState::Other(error)) => return Err(error),
            },
        }
    }
    let newest = whole.as_ref().map(|(_, snapshot)| snapshot.state.step);
    for step in refuse_newer_links(&checkpoints, newest)? {
        let place = checkpoints.place(&folder_name(step));
        tracing::warn!(%place, "checkpoint: it is a symbolic link and not followed; the retention rules ignore it");
    }
    let finished = if whole.is_none() { latest(&checkpoints)? } else { None };
    let is_named =
        |checkpoint: &Store| finished.as_ref().is_some_and(|name| checkpoint.place("") == checkpoints.place(name));
    for checkpoint in unfinished.iter().filter(|checkpoint| is_named(checkpoint)) {
        damaged.push((checkpoint.clone(), checkpoint.place(STATE_FILE), "it is missing".to_owned()));
    }
    // Before any removal: a run that is refused keeps every file.
    if whole.is_none() {
        let problems: Vec<_> = damaged.iter().map(|(_, place, problem)| format!("{place}: {problem}")).collect();
        let what = match (problems.is_empty(), aside, finished) {
            (false, ..) => Some(problems.join("; ")),
            (true, true, _) => Some(format!("`{DAMAGED_FILE}` is the state of a damaged checkpoint")),
            (true, false, Some(name)) => Some(format!("`{LATEST}` names {name}, which does not exist")),
            (true, false, None) => None,
        };
        if let Some(what) = what {
            let problem = format!(
                "the run has checkpoints, but no checkpoint of it is whole; restore one, or start over in another \
                 `run.folder` ({what})"
            );
            return Err(Error::Checkpoint { path: checkpoints.place("").into(), problem });
        }
    }
    for checkpoint in unfinished {
        tracing::info!(place = %checkpoint.place(""), "removing an unfinished checkpoint");
        empty(&checkpoint)?;
    }
    damaged.iter().try_for_each(|(checkpoint, place, problem)| set_aside(checkpoint, place, problem))?;
    Ok(whole)
}

/// Reads the name of the checkpoint that was saved last.
fn latest(checkpoints: &Store) -> std::io::Result<Option<String>> {
    let found = checkpoints.get_with_stat(LATEST)?;
    Ok(found.map(|(name, _)| String::from_utf8_lossy(&name).trim().to_owned()))
}

/// Location of a checkpoint, and the checkpoint.
type Found = (String, Snapshot);

/// Returns the checkpoint after `step`, or the newest complete one, and its location.
pub fn pick(run: &Store, step: Option<Step>) -> Result<(String, Snapshot), Error> {
    let steps = steps(run)?;
    if let Some(wanted) = step {
        if steps.contains(&wanted) {
            return Ok(read(&checkpoint_store(run, wanted), wanted)?);
        }
        return Err(Error::Config(absent(run, wanted, &steps)));
    }
    let (found, damaged) = newest_complete(run, steps, read)?;
    if let Some(found) = found {
        return Ok(found);
    }
    Err(none_whole(run, &damaged))
}

/// Returns the newest complete checkpoint of at most `done` steps, from which the next step can be replayed, and its
/// location; `None` if there is none.
pub(crate) fn newest_before(run: &Store, done: Step) -> Result<Option<(String, Snapshot)>, Error> {
    Ok(newest_complete(run, steps(run)?.into_iter().filter(|&step| step <= done), read)?.0)
}

fn read(checkpoint: &Store, step: Step) -> Result<Found, UnreadState> {
    Snapshot::read(checkpoint, step).map(|snapshot| (checkpoint.place(""), snapshot))
}

impl Snapshot {
    /// Reads and verifies all files of a checkpoint. Fails if any of them differs from its recorded hash.
    fn read(checkpoint: &Store, step: Step) -> Result<Self, UnreadState> {
        let damaged = |name: &str, problem: String| UnreadState::Damaged { place: checkpoint.place(name), problem };
        let bytes = |name: &str| match checkpoint.get_with_stat(name)? {
            Some((bytes, _)) => Ok(bytes),
            None => Err(damaged(name, "it is missing".to_owned())),
        };
        let state = State::read(checkpoint, step)?;
        let tensors = |name: &str| {
            let bytes = bytes(name)?;
            if state.files.get(name).map(String::as_str) != Some(blake3::hash(&bytes).to_hex().as_str()) {
                return Err(damaged(name, "its BLAKE3 is not the one in `state.json`".to_owned()));
            }
            tensors::parse(Path::new(&checkpoint.place(name)), &bytes).map_err(UnreadState::Other)
        };
        let main = tensors(MAIN_FILE)?;
        let optimizer = tensors(OPTIMIZER_FILE)?;
        Ok(Self { state, main, optimizer, validated: None })
    }
}
