//! Changes to the checkpoints of a run that need no tensors: pin, remove, copy, invalidate.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::Write as _;

use schemas::Sealed;
use schemas::ordinal::Step;
use serde::{Deserialize, Serialize};
use store::Store;

use super::list::{Form, figures, folder_name, list, steps, there, within};
use super::retention::{Candidate, Reason, reasons};
use super::{CONFIG_FILE, DAMAGED_FILE, FIGURES_FILE, FOLDER, LATEST, PINNED_FILE, STATE_FILE, State, Validated};
use crate::config::CheckpointConfig;
use crate::error::Error;

/// Somebody's wish that a checkpoint stays: `pinned.json` in its folder. That it is there is what counts.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pin {
    step: Step,
}

impl Sealed for Pin {
    const FORMAT: &'static str = "cloze pin";
    const VERSION: u32 = 1;
    const PRETTY: bool = true;
}

/// Makes the checkpoint after `step` stay, whatever the rules say.
///
/// # Errors
/// [`Error::Config`] if there is none.
pub fn pin(run: &Store, step: Step) -> Result<(), Error> {
    there(run, step)?.put(PINNED_FILE, &Pin { step }.seal())?;
    Ok(())
}

/// Lets the rules decide about it again, at the next checkpoint that is written. Returns whether it was pinned.
///
/// # Errors
/// [`Error::Config`] if there is none.
pub fn unpin(run: &Store, step: Step) -> Result<bool, Error> {
    let checkpoint = there(run, step)?;
    let was_pinned = checkpoint.stat(PINNED_FILE)?.is_some();
    checkpoint.remove(PINNED_FILE)?;
    Ok(was_pinned)
}

/// Removes the checkpoint after `step` for good.
///
/// # Errors
/// [`Error::Config`] if there is none, if it is pinned, or if the run would go on from it.
pub fn remove(run: &Store, step: Step) -> Result<(), Error> {
    let checkpoint = there(run, step)?;
    let refuse = |problem: &str| Err(Error::Config(format!("{}: {problem}", checkpoint.place(""))));
    if checkpoint.stat(PINNED_FILE)?.is_some() {
        return refuse("it is pinned; unpin it first");
    }
    if steps(run)?.first() == Some(&step) {
        return refuse(
            "the run goes on from it; to go back to an older one, use `cloze rollback`, which keeps this one",
        );
    }
    Ok(discard(run, step)?)
}

/// Puts what a validation found beside the checkpoint of its step, if that is there.
pub fn note(run: &Store, validated: &Validated) -> std::io::Result<()> {
    let checkpoint = within(run, validated.step);
    if checkpoint.stat(STATE_FILE)?.is_some() {
        checkpoint.put(FIGURES_FILE, &validated.seal())?;
    }
    Ok(())
}

/// Copies the checkpoint after `step` to another run, or to what is undone. Its state comes last, since with it there is a
/// checkpoint: that state, or as it is.
pub fn copy(from: &Store, step: Step, to: &Store, state: Option<&State>) -> std::io::Result<()> {
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
pub fn discard(run: &Store, step: Step) -> std::io::Result<()> {
    clear(&within(run, step))
}

/// Points `latest` at the newest that is there and does not go.
pub(crate) fn point(run: &Store, going: &[Step]) -> std::io::Result<()> {
    let newest = steps(run)?.into_iter().find(|step| !going.contains(step));
    point_at(&run.within(FOLDER), newest)
}

/// Points `latest` at the checkpoint after that step; removes it for `None`.
pub fn point_at(checkpoints: &Store, newest: Option<Step>) -> std::io::Result<()> {
    match newest {
        Some(step) => checkpoints.put(LATEST, format!("{}\n", folder_name(step)).as_bytes()).map(|_| ()),
        None => checkpoints.remove(LATEST),
    }
}

/// Removes all of a checkpoint: its state first, so that it is none any more.
pub(super) fn clear(checkpoint: &Store) -> std::io::Result<()> {
    empty(checkpoint)?;
    checkpoint.remove_all("")
}

/// Removes all of a checkpoint but a pin, which is somebody's wish about whatever is made there. Its state goes first, and
/// then what `transformers` sees a model by.
pub fn empty(checkpoint: &Store) -> std::io::Result<()> {
    checkpoint.remove(STATE_FILE)?;
    checkpoint.remove(CONFIG_FILE)?;
    let others = checkpoint.list("")?.into_iter().filter(|entry| entry.name != PINNED_FILE);
    others.rev().try_for_each(|entry| checkpoint.remove(&entry.name))
}

/// Keeps the state of a damaged checkpoint under a name by which it is none.
pub fn set_aside(checkpoint: &Store, place: &str, problem: &str) -> Result<(), Error> {
    let kept = checkpoint.place(DAMAGED_FILE);
    tracing::error!(file = %place, %problem, %kept, "damaged checkpoint, taking an older one");
    if let Some((state, _)) = checkpoint.read_with_stat(STATE_FILE)? {
        checkpoint.put(DAMAGED_FILE, &state)?;
    }
    Ok(checkpoint.remove(STATE_FILE)?)
}

/// Removes the checkpoints that are `given_up`. What it cannot read is left for who reads it. Where none is left, the run
/// has not saved: it begins anew.
///
/// # Errors
/// [`Error::Io`]; what was not removed is as it was.
pub fn invalidate(run: &Store, given_up: impl Fn(&State) -> bool) -> Result<(), Error> {
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

/// Removes what the rules let go, but for the newest checkpoint of at most `judged` steps: a step that nobody has judged yet
/// may have to be undone, however many checkpoints were made since. What was set aside and is newer than the oldest of the newest stays until the run comes
/// to its step.
pub fn retain(checkpoints: &Store, rules: &CheckpointConfig, judged: Option<Step>) -> std::io::Result<()> {
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
