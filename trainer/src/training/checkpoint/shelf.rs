//! The checkpoints of a run for people: what is there, why it stays, whether it is whole; pinned and removed by hand.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::SystemTime;

use schemas::Sealed;
use schemas::ordinal::Step;
use serde::{Deserialize, Serialize};
use store::Store;

use super::kept::{self, FOLDER, Form};
use super::looked_at::absent;
use super::rules::{Candidate, Reason, reasons};
use super::{PINNED_FILE, STATE_FILE, State};
use crate::error::Error;
use crate::plan::config::CheckpointConfig;

/// A checkpoint as it lies there.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Steps done.
    pub step: Step,
    /// Where it is.
    pub place: String,
    /// Of all its objects.
    pub bytes: u64,
    /// When it was written, by the clock of whoever keeps it.
    pub written: Option<SystemTime>,
    /// What its validation found; empty where its step was not validated.
    pub figures: BTreeMap<String, f64>,
    /// Why it stays; empty for what was set aside as damaged, or left unfinished.
    pub why: Vec<Reason>,
    /// Whether it is one, as far as can be seen without reading it.
    pub is_there: bool,
}

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

/// Everything that lies among the checkpoints of a run, the oldest first, with why it stays by these rules.
///
/// # Errors
/// [`Error::Io`] if the folder cannot be listed.
pub fn shelf(run: &Store, rules: &CheckpointConfig) -> Result<Vec<Listed>, Error> {
    let checkpoints = run.within(FOLDER);
    let found = kept::list(&checkpoints)?;
    let mut listed: BTreeMap<Step, Listed> = BTreeMap::new();
    for (&Reverse(step), form) in &found {
        let checkpoint = checkpoints.within(&kept::folder_name(step));
        let entries = checkpoint.list("")?;
        let state = entries.iter().find(|entry| entry.name == STATE_FILE);
        let written = state.map(|state| state.stat.modified);
        let (place, bytes) = (checkpoint.place(""), entries.iter().map(|entry| entry.stat.bytes).sum());
        let figures = kept::figures(&checkpoint, step)?;
        let is_there = *form == Form::Whole;
        listed.insert(step, Listed { step, place, bytes, written, figures, why: Vec::new(), is_there });
    }
    let mut candidates = Vec::new();
    for it in listed.values().filter(|it| it.is_there) {
        let pinned = checkpoints.within(&kept::folder_name(it.step)).stat(PINNED_FILE)?.is_some();
        candidates.push(Candidate { step: it.step, figure: it.figures.get(&rules.best_by).copied(), pinned });
    }
    for (step, why) in reasons(rules, &candidates) {
        if let Some(it) = listed.get_mut(&step) {
            it.why = why;
        }
    }
    Ok(listed.into_values().collect())
}

/// Reads every byte of the checkpoint after `step`. Returns how many.
///
/// # Errors
/// [`Error::Config`] if there is none, [`Error::Checkpoint`] for the first object that is not as it was written.
pub fn verify(run: &Store, step: Step) -> Result<u64, Error> {
    let checkpoint = there(run, step)?;
    let state = State::read(&checkpoint, step)?;
    let mut read = 0;
    for (name, expected) in &state.files {
        let refuse =
            |problem: &str| Error::Checkpoint { path: checkpoint.place(name).into(), problem: problem.to_owned() };
        let stat = checkpoint.stat(name)?.ok_or_else(|| refuse("it is missing"))?;
        if checkpoint.hash(name, stat.bytes)?.to_hex().as_str() != expected {
            return Err(refuse("its BLAKE3 is not the one in `state.json`"));
        }
        read += stat.bytes;
    }
    Ok(read)
}

/// The rows that were consumed at the checkpoint after `step`, every byte of which is as it was written.
///
/// # Errors
/// As [`verify`].
pub(crate) fn check(run: &Store, step: Step) -> Result<u64, Error> {
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
    if kept::steps(run)?.first() == Some(&step) {
        return refuse(
            "the run goes on from it; to go back to an older one, use `cloze rollback`, which keeps this one",
        );
    }
    Ok(kept::discard(run, step)?)
}

/// The checkpoint after `step`, if there is one.
fn there(run: &Store, step: Step) -> Result<Store, Error> {
    let steps = kept::steps(run)?;
    if steps.contains(&step) {
        return Ok(kept::within(run, step));
    }
    Err(Error::Config(absent(run, step, &steps)))
}
