//! The checkpoints of a run as they are listed: which there are, why each is kept, whether each is whole.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use schemas::Sealed as _;
use schemas::ordinal::Step;
use store::Store;

use super::{DAMAGED_FILE, FIGURES_FILE, FOLDER, PINNED_FILE, STATE_FILE, State, Unread, Validated};
use crate::error::Error;

/// Where the checkpoint after that step lies, if there is one.
pub fn within(run: &Store, step: Step) -> Store {
    run.within(FOLDER).within(&folder_name(step))
}

/// Steps of all that lies there as a checkpoint, the newest first.
pub fn steps(run: &Store) -> std::io::Result<Vec<Step>> {
    let found = list(&run.within(FOLDER))?;
    Ok(found.into_iter().filter(|(_, form)| *form == CheckpointForm::Whole).map(|(Reverse(step), _)| step).collect())
}

/// Steps of what was a checkpoint after `step`, or was to be one; but for what was set aside as damaged.
pub(crate) fn beyond(run: &Store, step: Step) -> std::io::Result<Vec<Step>> {
    let found = list(&run.within(FOLDER))?.into_iter().filter(|(_, form)| *form != CheckpointForm::SetAside);
    Ok(found.map(|(Reverse(found), _)| found).filter(|found| *found > step).collect())
}

/// What lies under the name of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointForm {
    /// A checkpoint, or what was one and is damaged.
    Whole,
    /// What was found damaged.
    SetAside,
    /// What a kill left.
    Unfinished,
}

/// What is there, newest first.
pub fn list(checkpoints: &Store) -> std::io::Result<BTreeMap<Reverse<Step>, CheckpointForm>> {
    let mut found = BTreeMap::new();
    for entry in checkpoints.list("")? {
        let Some((folder, file)) = entry.name.split_once('/') else { continue };
        let step = folder.strip_prefix("step-").and_then(|digits| digits.parse().ok()).map(Step);
        // What is called otherwise is not ours.
        let Some(step) = step.filter(|&step| folder_name(step) == folder && file != PINNED_FILE) else { continue };
        let form = found.entry(Reverse(step)).or_insert(CheckpointForm::Unfinished);
        match file {
            STATE_FILE => *form = CheckpointForm::Whole,
            DAMAGED_FILE if *form == CheckpointForm::Unfinished => *form = CheckpointForm::SetAside,
            _ => {}
        }
    }
    for (&Reverse(step), form) in found.iter_mut().filter(|(_, form)| **form != CheckpointForm::Whole) {
        // What is no file is not listed, and is no sign that nothing was finished: asking for it is an error.
        if checkpoints.stat(&format!("{}/{STATE_FILE}", folder_name(step)))?.is_some() {
            *form = CheckpointForm::Whole;
        }
    }
    Ok(found)
}

/// The name of the folder of the checkpoint after that step.
pub fn folder_name(step: Step) -> String {
    format!("step-{:08}", step.0)
}

/// What was found of a checkpoint; nothing where nobody looked, or where that is damaged: it decides over no weight.
pub(super) fn figures(checkpoint: &Store, step: Step) -> std::io::Result<BTreeMap<String, f64>> {
    let Some((bytes, _)) = checkpoint.read_with_stat(FIGURES_FILE)? else { return Ok(BTreeMap::new()) };
    let found = Validated::unseal(&bytes).map_err(|error| error.to_string());
    match found.and_then(|found| if found.step == step { Ok(found) } else { Err(format!("of step {}", found.step)) }) {
        Ok(found) => Ok(found.figures),
        Err(problem) => {
            tracing::warn!(file = %checkpoint.place(FIGURES_FILE), %problem, "not as it was written, skipped");
            Ok(BTreeMap::new())
        }
    }
}

/// Writes the scores of a validation into the checkpoint of its step, if that exists.
pub fn note(run: &Store, validated: &Validated) -> std::io::Result<()> {
    let checkpoint = within(run, validated.step);
    if checkpoint.stat(STATE_FILE)?.is_some() {
        checkpoint.put(FIGURES_FILE, &validated.seal())?;
    }
    Ok(())
}

/// Reads every byte of the checkpoint after `step`. Returns how many.
///
/// # Errors
/// [`Error::Config`] if there is none, [`Error::Checkpoint`] for the first object that is not as it was written.
pub fn verify(run: &Store, step: Step) -> Result<u64, Error> {
    Ok(read_whole(&there(run, step)?, step)?.1)
}

/// Returns the state of the newest checkpoint of which every byte is as it was written. A damaged one is logged and skipped.
///
/// # Errors
/// [`Error::Config`] if the run has not saved, [`Error::Checkpoint`] if no checkpoint is complete.
pub fn newest_complete_state(run: &Store) -> Result<State, Error> {
    let (found, damaged) = newest_complete(run, steps(run)?, read_whole)?;
    found.map(|(state, _)| state).ok_or_else(|| none_whole(run, &damaged))
}

/// Returns what `read` makes of the first complete checkpoint among those after `steps`, and a line about each damaged one
/// before it, which is logged and skipped.
///
/// # Errors
/// [`Error`] of `read`, unless it is damage.
pub fn newest_complete<T>(
    run: &Store,
    steps: impl IntoIterator<Item = Step>,
    read: impl Fn(&Store, Step) -> Result<T, Unread>,
) -> Result<(Option<T>, Vec<String>), Error> {
    let mut damaged = Vec::new();
    for step in steps {
        match read(&within(run, step), step) {
            Ok(found) => return Ok((Some(found), damaged)),
            Err(Unread::Damaged { place, problem }) => {
                tracing::warn!(file = %place, %problem, "damaged checkpoint, looking at an older one");
                damaged.push(format!("{place}: {problem}"));
            }
            Err(Unread::Other(error)) => return Err(error),
        }
    }
    Ok((None, damaged))
}

/// The error of a run without a whole checkpoint; `damaged` are its damaged ones.
#[must_use]
pub fn none_whole(run: &Store, damaged: &[String]) -> Error {
    if damaged.is_empty() {
        return Error::Config(format!("{}: there is no checkpoint here yet; train first", run.place("")));
    }
    let problem = format!("the run has saved, and no checkpoint of it is whole; put one back ({})", damaged.join("; "));
    Error::Checkpoint { path: run.within(FOLDER).place("").into(), problem }
}

/// The state of a checkpoint, and how many bytes it has, all of which are as they were written.
fn read_whole(checkpoint: &Store, step: Step) -> Result<(State, u64), Unread> {
    let state = State::read(checkpoint, step)?;
    let mut read = 0;
    for (name, expected) in &state.files {
        let damaged = |problem: &str| Unread::Damaged { place: checkpoint.place(name), problem: problem.to_owned() };
        let stat = checkpoint.stat(name)?.ok_or_else(|| damaged("it is missing"))?;
        if checkpoint.hash(name, stat.bytes)?.to_hex().as_str() != expected {
            return Err(damaged("its BLAKE3 is not the one in `state.json`"));
        }
        read += stat.bytes;
    }
    Ok((state, read))
}

/// The rows that were consumed at the checkpoint after `step`, every byte of which is as it was written.
///
/// # Errors
/// As [`verify`].
pub fn check(run: &Store, step: Step) -> Result<u64, Error> {
    verify(run, step)?;
    Ok(State::read(&there(run, step)?, step)?.rows_consumed)
}

/// What the checkpoint after `step` says of itself.
///
/// # Errors
/// As [`verify`], of its state alone.
pub fn state_of(run: &Store, step: Step) -> Result<State, Error> {
    Ok(State::read(&there(run, step)?, step)?)
}

/// The state of the newest checkpoint whose state can be read; `None` if there is none.
///
/// # Errors
/// [`Error::Io`].
pub fn newest_state(run: &Store) -> Result<Option<State>, Error> {
    Ok(super::steps(run)?.into_iter().find_map(|step| state_of(run, step).ok()))
}

/// The checkpoint after `step`, if there is one.
pub(super) fn there(run: &Store, step: Step) -> Result<Store, Error> {
    let steps = steps(run)?;
    if steps.contains(&step) {
        return Ok(within(run, step));
    }
    Err(Error::Config(absent(run, step, &steps)))
}

/// That there is no checkpoint after that step, and after which there are.
pub fn absent(run: &Store, wanted: Step, steps: &[Step]) -> String {
    let there: Vec<String> = steps.iter().rev().map(Step::to_string).collect();
    let there =
        if there.is_empty() { "there is none yet".to_owned() } else { format!("there are {}", there.join(", ")) };
    format!("{}: no checkpoint after step {wanted}; {there}", run.place(""))
}
