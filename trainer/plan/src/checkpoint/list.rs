//! Listing and verification of the checkpoints of a run.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use schemas::Sealed as _;
use schemas::ordinal::Step;
use store::Store;

use super::{DAMAGED_FILE, FIGURES_FILE, FOLDER, PINNED_FILE, STATE_FILE, State, UnreadState, Validated, is_own_file};
use crate::error::Error;

/// Returns the folder of the checkpoint after `step`. The folder need not exist.
pub fn checkpoint_store(run: &Store, step: Step) -> Store {
    run.prefixed(FOLDER).prefixed(&folder_name(step))
}

/// Steps of all checkpoints with a `state.json`, newest first.
pub fn steps(run: &Store) -> std::io::Result<Vec<Step>> {
    let found = list(&run.prefixed(FOLDER))?;
    Ok(found.into_iter().filter(|(_, form)| *form == CheckpointForm::Whole).map(|(Reverse(step), _)| step).collect())
}

/// Steps after `step` with a complete or unfinished checkpoint. Checkpoints that were set aside as damaged are left
/// out.
pub(crate) fn beyond(run: &Store, step: Step) -> std::io::Result<Vec<Step>> {
    let found = list(&run.prefixed(FOLDER))?.into_iter().filter(|(_, form)| *form != CheckpointForm::SetAside);
    Ok(found.map(|(Reverse(found), _)| found).filter(|found| *found > step).collect())
}

/// Completeness of a checkpoint folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointForm {
    /// `state.json` exists. The content may still be damaged.
    Whole,
    /// Only `damaged.json` exists: the checkpoint was found damaged.
    SetAside,
    /// No state exists: a kill interrupted the write or the removal.
    Unfinished,
}

/// Lists the checkpoint folders, newest first.
pub fn list(checkpoints: &Store) -> std::io::Result<BTreeMap<Reverse<Step>, CheckpointForm>> {
    let mut found = BTreeMap::new();
    for entry in checkpoints.list("")? {
        let Some((folder, file)) = entry.name.split_once('/') else { continue };
        // A pin, or a file of the user, is no checkpoint.
        let is_counted = file != PINNED_FILE && is_own_file(file);
        let Some(step) = step_of_folder(folder).filter(|_| is_counted) else { continue };
        let form = found.entry(Reverse(step)).or_insert(CheckpointForm::Unfinished);
        match file {
            STATE_FILE => *form = CheckpointForm::Whole,
            DAMAGED_FILE if *form == CheckpointForm::Unfinished => *form = CheckpointForm::SetAside,
            _ => {}
        }
    }
    for (&Reverse(step), form) in found.iter_mut().filter(|(_, form)| **form != CheckpointForm::Whole) {
        // `list` omits a `state.json` that is not a regular file. Such a checkpoint may be complete: `stat` returns an
        // error.
        if checkpoints.head(&format!("{}/{STATE_FILE}", folder_name(step)))?.is_some() {
            *form = CheckpointForm::Whole;
        }
    }
    Ok(found)
}

/// Returns the steps whose checkpoint folder is a symbolic link, which is not followed, oldest first. `newest` is the
/// newest complete checkpoint.
///
/// # Errors
/// If a link is newer than `newest`: the run would continue from an older step.
pub fn refuse_newer_links(checkpoints: &Store, newest: Option<Step>) -> Result<Vec<Step>, Error> {
    let linked = linked_steps(checkpoints)?;
    if let Some(&step) = linked.iter().find(|&&step| newest.is_none_or(|newest| newest < step)) {
        let problem = "it is a symbolic link, which is not followed; put the folder itself in its place";
        let path = checkpoints.place(&folder_name(step)).into();
        return Err(Error::Checkpoint { path, problem: problem.to_owned() });
    }
    Ok(linked)
}

/// Returns the steps whose checkpoint folder is a symbolic link, oldest first. A store does not list what is behind it.
fn linked_steps(checkpoints: &Store) -> std::io::Result<Vec<Step>> {
    let mut linked = Vec::new();
    let Some(folder) = checkpoints.local().filter(|folder| folder.is_dir()) else { return Ok(linked) };
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let step = name.to_str().and_then(step_of_folder);
        if entry.file_type()?.is_symlink() {
            linked.extend(step);
        }
    }
    linked.sort_unstable();
    Ok(linked)
}

/// Name of the folder of the checkpoint after `step`.
pub fn folder_name(step: Step) -> String {
    format!("step-{:08}", step.0)
}

/// Returns the step of the checkpoint in a folder of that name. `None` for names of another form: they do not belong to
/// this program.
#[must_use]
pub fn step_of_folder(name: &str) -> Option<Step> {
    let step = name.strip_prefix("step-")?.parse().ok().map(Step);
    step.filter(|&step| folder_name(step) == name)
}

/// Validation scores of a checkpoint. Empty if its step was not validated, or if the file is damaged: scores do not
/// affect the weights, so that damage is only logged.
pub(super) fn figures(checkpoint: &Store, step: Step) -> std::io::Result<BTreeMap<String, f64>> {
    let Some((bytes, _)) = checkpoint.get_with_stat(FIGURES_FILE)? else { return Ok(BTreeMap::new()) };
    let found = Validated::unseal(&bytes).map_err(|error| error.to_string());
    match found.and_then(|found| {
        if found.step == step { Ok(found) } else { Err(format!("the scores are of step {}", found.step)) }
    }) {
        Ok(found) => Ok(found.figures),
        Err(problem) => {
            let file = checkpoint.place(FIGURES_FILE);
            tracing::warn!(%file, %problem, "checkpoint: damaged validation scores, ignored");
            Ok(BTreeMap::new())
        }
    }
}

/// Writes the scores of a validation into the checkpoint of its step, if that exists.
pub fn note(run: &Store, validated: &Validated) -> std::io::Result<()> {
    let checkpoint = checkpoint_store(run, validated.step);
    if checkpoint.head(STATE_FILE)?.is_some() {
        checkpoint.put(FIGURES_FILE, &validated.seal())?;
    }
    Ok(())
}

/// Verifies every byte of the checkpoint after `step`. Returns the number of bytes.
///
/// # Errors
/// [`Error::Config`] if it does not exist, [`Error::Checkpoint`] for the first damaged object.
pub fn verify(run: &Store, step: Step) -> Result<u64, Error> {
    Ok(read_whole(&there(run, step)?, step)?.1)
}

/// Returns the state of the newest checkpoint without a damaged byte. A damaged checkpoint is logged and skipped.
///
/// # Errors
/// [`Error::Config`] if the run has not saved, [`Error::Checkpoint`] if no checkpoint is complete.
pub fn newest_complete_state(run: &Store) -> Result<State, Error> {
    let (found, damaged) = newest_complete(run, steps(run)?, read_whole)?;
    found.map(|(state, _)| state).ok_or_else(|| none_whole(run, &damaged))
}

/// Returns the result of `read` for the first undamaged checkpoint of `steps`, and a description of each damaged one
/// before it. Damaged checkpoints are logged and skipped.
///
/// # Errors
/// [`Error`] of `read`, unless it reports damage.
pub fn newest_complete<T>(
    run: &Store,
    steps: impl IntoIterator<Item = Step>,
    read: impl Fn(&Store, Step) -> Result<T, UnreadState>,
) -> Result<(Option<T>, Vec<String>), Error> {
    let mut damaged = Vec::new();
    for step in steps {
        match read(&checkpoint_store(run, step), step) {
            Ok(found) => return Ok((Some(found), damaged)),
            Err(UnreadState::Damaged { place, problem }) => {
                tracing::warn!(file = %place, %problem, "checkpoint: damaged, trying an older one");
                damaged.push(format!("{place}: {problem}"));
            }
            Err(UnreadState::Other(error)) => return Err(error),
        }
    }
    Ok((None, damaged))
}

/// Error of a run without a complete checkpoint; `damaged` describes its damaged ones.
#[must_use]
pub fn none_whole(run: &Store, damaged: &[String]) -> Error {
    if damaged.is_empty() {
        return Error::Config(format!("{}: no checkpoint yet; train the run first", run.place("")));
    }
    let problem = format!("all checkpoints of the run are damaged; restore one ({})", damaged.join("; "));
    Error::Checkpoint { path: run.prefixed(FOLDER).place("").into(), problem }
}

/// Returns the state of a checkpoint and its size in bytes after all bytes are verified.
fn read_whole(checkpoint: &Store, step: Step) -> Result<(State, u64), UnreadState> {
    let state = State::read(checkpoint, step)?;
    let mut read = 0;
    for (name, expected) in &state.files {
        let damaged =
            |problem: &str| UnreadState::Damaged { place: checkpoint.place(name), problem: problem.to_owned() };
        let stat = checkpoint.head(name)?.ok_or_else(|| damaged("the file is missing"))?;
        if checkpoint.hash(name, stat.bytes)?.to_hex().as_str() != expected {
            return Err(damaged("the BLAKE3 differs from the one in `state.json`"));
        }
        read += stat.bytes;
    }
    Ok((state, read))
}

/// Verifies the checkpoint after `step`. Returns the number of rows consumed at it.
///
/// # Errors
/// As [`verify`].
pub fn check(run: &Store, step: Step) -> Result<u64, Error> {
    verify(run, step)?;
    Ok(State::read(&there(run, step)?, step)?.rows_consumed)
}

/// Returns the state of the checkpoint after `step`.
///
/// # Errors
/// As [`verify`], but only for its state.
pub fn state_of(run: &Store, step: Step) -> Result<State, Error> {
    Ok(State::read(&there(run, step)?, step)?)
}

/// Returns the state of the newest checkpoint with a readable state; `None` if no such checkpoint exists.
///
/// # Errors
/// [`Error::Io`].
pub fn newest_state(run: &Store) -> Result<Option<State>, Error> {
    Ok(super::steps(run)?.into_iter().find_map(|step| state_of(run, step).ok()))
}

/// Returns the folder of the checkpoint after `step`, which must exist.
pub(super) fn there(run: &Store, step: Step) -> Result<Store, Error> {
    let steps = steps(run)?;
    if steps.contains(&step) {
        return Ok(checkpoint_store(run, step));
    }
    Err(Error::Config(absent(run, step, &steps)))
}

/// Message that no checkpoint exists after step `wanted`, with the existing steps.
pub fn absent(run: &Store, wanted: Step, steps: &[Step]) -> String {
    let existing: Vec<String> = steps.iter().rev().map(Step::to_string).collect();
    let hint = if existing.is_empty() {
        "the run has none yet".to_owned()
    } else {
        format!("the run has those after {}", existing.join(", "))
    };
    format!("{}: no checkpoint after step {wanted}; {hint}", run.place(""))
}
