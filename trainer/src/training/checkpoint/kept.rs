//! The checkpoints of a run: the newest are kept, the newest whole one is gone on from.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::Write as _;

use schemas::Sealed as _;
use schemas::ordinal::Step;
use store::Store;

use super::rules::{Candidate, Reason, reasons};
use super::{CONFIG_FILE, FIGURES_FILE, Keeping, PINNED_FILE, STATE_FILE, Snapshot, State, Unread, Validated};
use crate::error::Error;
use crate::plan::config::CheckpointConfig;

/// Where a run keeps its checkpoints.
pub(super) const FOLDER: &str = "checkpoints";
/// The name of the newest one, for people and scripts.
pub(super) const LATEST: &str = "latest";
/// The state of a checkpoint that was found damaged. It is none any more.
pub(super) const DAMAGED_FILE: &str = "damaged.json";

impl Snapshot {
    /// Puts the checkpoint into the store of a run, points `latest` at it, and removes those that the rules let go. Returns
    /// where it is.
    ///
    /// # Errors
    /// [`Error::Io`], or that of the export; the checkpoint is then absent, or whole where only `latest` or a removal failed,
    /// and the older ones are as they were.
    pub fn write(&self, run: &Store, keeping: &Keeping) -> Result<String, Error> {
        let checkpoints = run.within(FOLDER);
        let checkpoint = checkpoints.within(&folder_name(self.state.step));
        // A damaged one of that name.
        empty(&checkpoint)?;
        if let Err(error) = self.put(&checkpoint, keeping.export.as_ref()) {
            // Room for the next attempt; the failure itself is on its way up.
            let _ = empty(&checkpoint);
            return Err(error);
        }
        point_at(&checkpoints, Some(self.state.step))?;
        let judged = Step(self.state.step.0.saturating_sub(self.state.guard.unread as u64));
        retain(&checkpoints, &keeping.rules, keeping.goes_back.then_some(judged))?;
        Ok(checkpoint.place(""))
    }
}

/// Where the checkpoint after that step lies, if there is one.
pub(crate) fn within(run: &Store, step: Step) -> Store {
    run.within(FOLDER).within(&folder_name(step))
}

/// Steps of all that lies there as a checkpoint, the newest first.
pub(crate) fn steps(run: &Store) -> std::io::Result<Vec<Step>> {
    let found = list(&run.within(FOLDER))?;
    Ok(found.into_iter().filter(|(_, form)| *form == Form::Whole).map(|(Reverse(step), _)| step).collect())
}

/// Steps of what was a checkpoint after `step`, or was to be one; but for what was set aside as damaged.
pub(crate) fn beyond(run: &Store, step: Step) -> std::io::Result<Vec<Step>> {
    let found = list(&run.within(FOLDER))?.into_iter().filter(|(_, form)| *form != Form::SetAside);
    Ok(found.map(|(Reverse(found), _)| found).filter(|found| *found > step).collect())
}

/// Puts what a validation found beside the checkpoint of its step, if that is there.
pub(crate) fn note(run: &Store, validated: &Validated) -> std::io::Result<()> {
    let checkpoint = within(run, validated.step);
    if checkpoint.stat(STATE_FILE)?.is_some() {
        checkpoint.put(FIGURES_FILE, &validated.seal())?;
    }
    Ok(())
}

/// Copies the checkpoint after `step` to another run, or to what is undone. Its state comes last, since with it there is a
/// checkpoint: that state, or as it is.
pub(crate) fn copy(from: &Store, step: Step, to: &Store, state: Option<&State>) -> std::io::Result<()> {
    let (source, target) = (within(from, step), within(to, step));
    let mut entries = source.list("")?;
    entries.sort_by_key(|entry| entry.name == STATE_FILE);
    for entry in entries {
        if let Some(state) = state.filter(|_| entry.name == STATE_FILE) {
            target.put(STATE_FILE, &state.seal())?;
            continue;
        }
        let mut put = target.begin(&entry.name)?;
        for piece in source.pieces(&entry.name, entry.stat.bytes) {
            put.write_all(&piece?)?;
        }
        put.commit()?;
    }
    Ok(())
}

/// Removes the checkpoint after `step`, and a pin of it.
pub(crate) fn discard(run: &Store, step: Step) -> std::io::Result<()> {
    clear(&within(run, step))
}

/// Points `latest` at the newest that is there and does not go.
pub(crate) fn point(run: &Store, going: &[Step]) -> std::io::Result<()> {
    let newest = steps(run)?.into_iter().find(|step| !going.contains(step));
    point_at(&run.within(FOLDER), newest)
}

fn point_at(checkpoints: &Store, newest: Option<Step>) -> std::io::Result<()> {
    match newest {
        Some(step) => checkpoints.put(LATEST, format!("{}\n", folder_name(step)).as_bytes()).map(|_| ()),
        None => checkpoints.remove(LATEST),
    }
}

/// Removes all of a checkpoint: its state first, so that it is none any more.
fn clear(checkpoint: &Store) -> std::io::Result<()> {
    empty(checkpoint)?;
    checkpoint.remove_all("")
}

/// Removes all of a checkpoint but a pin, which is somebody's wish about whatever is made there. Its state goes first, and
/// then what `transformers` sees a model by.
fn empty(checkpoint: &Store) -> std::io::Result<()> {
    checkpoint.remove(STATE_FILE)?;
    checkpoint.remove(CONFIG_FILE)?;
    let others = checkpoint.list("")?.into_iter().filter(|entry| entry.name != PINNED_FILE);
    others.rev().try_for_each(|entry| checkpoint.remove(&entry.name))
}

/// The newest checkpoint of a run that is whole, and where it is; `None` for a run that has never saved.
///
/// What a kill left unfinished is removed, but not what `latest` says was finished, unless another is whole. A damaged checkpoint is named aloud, set aside and passed over. One of another
/// version is no damage, and refused; so is a run whose checkpoints are all damaged, since it did not begin just now.
/// What cannot be read at the moment is an error: nobody knows what it is.
pub fn newest(run: &Store) -> Result<Option<(String, Snapshot)>, Error> {
    let checkpoints = run.within(FOLDER);
    let (mut damaged, mut aside, mut unfinished) = (Vec::new(), false, Vec::new());
    let found = list(&checkpoints)?;
    let mut whole = None;
    for (&Reverse(step), form) in &found {
        let checkpoint = checkpoints.within(&folder_name(step));
        match form {
            Form::Unfinished => unfinished.push(checkpoint),
            Form::SetAside => aside = true,
            // The newest is enough.
            Form::Whole if whole.is_some() => {}
            Form::Whole => match Snapshot::read(&checkpoint, step) {
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
        damaged.iter().try_for_each(set_aside)?;
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
        "the run has saved, and no checkpoint of it is whole; put one back, or begin anew in another `run.folder` ({what})"
    );
    Err(Error::Checkpoint { path: checkpoints.place("").into(), problem })
}

/// The checkpoint that was the newest when one was saved last.
fn latest(checkpoints: &Store) -> std::io::Result<Option<String>> {
    let found = checkpoints.read_with_stat(LATEST)?;
    Ok(found.map(|(name, _)| String::from_utf8_lossy(&name).trim().to_owned()))
}

/// What lies under the name of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A checkpoint, or what was one and is damaged.
    Whole,
    /// What was found damaged.
    SetAside,
    /// What a kill left.
    Unfinished,
}

/// What is there, newest first.
pub(super) fn list(checkpoints: &Store) -> std::io::Result<BTreeMap<Reverse<Step>, Form>> {
    let mut found = BTreeMap::new();
    for entry in checkpoints.list("")? {
        let Some((folder, file)) = entry.name.split_once('/') else { continue };
        let step = folder.strip_prefix("step-").and_then(|digits| digits.parse().ok()).map(Step);
        // What is called otherwise is not ours.
        let Some(step) = step.filter(|&step| folder_name(step) == folder && file != PINNED_FILE) else { continue };
        let form = found.entry(Reverse(step)).or_insert(Form::Unfinished);
        match file {
            STATE_FILE => *form = Form::Whole,
            DAMAGED_FILE if *form == Form::Unfinished => *form = Form::SetAside,
            _ => {}
        }
    }
    for (&Reverse(step), form) in found.iter_mut().filter(|(_, form)| **form != Form::Whole) {
        // What is no file is not listed, and is no sign that nothing was finished: asking for it is an error.
        if checkpoints.stat(&format!("{}/{STATE_FILE}", folder_name(step)))?.is_some() {
            *form = Form::Whole;
        }
    }
    Ok(found)
}

pub(super) fn folder_name(step: Step) -> String {
    format!("step-{:08}", step.0)
}

/// Keeps the state of a damaged checkpoint under a name by which it is none.
fn set_aside((checkpoint, place, problem): &(Store, String, String)) -> Result<(), Error> {
    let kept = checkpoint.place(DAMAGED_FILE);
    tracing::error!(file = %place, %problem, %kept, "damaged checkpoint, taking an older one");
    if let Some((state, _)) = checkpoint.read_with_stat(STATE_FILE)? {
        checkpoint.put(DAMAGED_FILE, &state)?;
    }
    Ok(checkpoint.remove(STATE_FILE)?)
}

/// Every checkpoint that is there, as far as the rules look at it.
pub(super) fn candidates(checkpoints: &Store, rules: &CheckpointConfig) -> std::io::Result<Vec<Candidate>> {
    let whole = list(checkpoints)?.into_iter().filter(|(_, form)| *form == Form::Whole);
    whole
        .map(|(Reverse(step), _)| {
            let checkpoint = checkpoints.within(&folder_name(step));
            // Read only where something depends on them.
            let figures = if rules.keep_best > 0 { figures(&checkpoint, step)? } else { BTreeMap::new() };
            let pinned = checkpoint.stat(PINNED_FILE)?.is_some();
            Ok(Candidate { step, figure: figures.get(&rules.best_by).copied(), pinned })
        })
        .collect()
}

/// What was found of a checkpoint; nothing where nobody looked, or where that is damaged: it decides over no weight.
pub(super) fn figures(checkpoint: &Store, step: Step) -> std::io::Result<BTreeMap<String, f64>> {
    let Some((bytes, _)) = checkpoint.read_with_stat(FIGURES_FILE)? else { return Ok(BTreeMap::new()) };
    let found = Validated::unseal(&bytes).map_err(|error| error.to_string());
    match found.and_then(|found| if found.step == step { Ok(found) } else { Err(format!("of step {}", found.step)) }) {
        Ok(found) => Ok(found.figures),
        Err(problem) => {
            tracing::warn!(file = %checkpoint.place(FIGURES_FILE), %problem, "not as it was written, passed over");
            Ok(BTreeMap::new())
        }
    }
}

/// Removes what the rules let go, but for the newest checkpoint of at most `judged` steps: a step that nobody has judged yet
/// may have to be undone, however many checkpoints were made since. What was set aside and is newer than the oldest of the newest stays until the run comes
/// to its step.
fn retain(checkpoints: &Store, rules: &CheckpointConfig, judged: Option<Step>) -> std::io::Result<()> {
    let candidates = candidates(checkpoints, rules)?;
    let way_back =
        candidates.iter().map(|it| it.step).filter(|step| judged.is_some_and(|judged| *step <= judged)).max();
    let reasons = reasons(rules, &candidates);
    let newest = reasons.iter().find(|(_, why)| why.contains(&Reason::Newest)).map(|(&step, _)| step);
    for (Reverse(step), form) in list(checkpoints)?.into_iter().rev() {
        let goes = match form {
            Form::Whole => reasons.get(&step).is_some_and(Vec::is_empty) && way_back != Some(step),
            Form::SetAside | Form::Unfinished => newest.is_some_and(|oldest| step < oldest),
        };
        if goes {
            clear(&checkpoints.within(&folder_name(step)))?;
        }
    }
    Ok(())
}
