//! A run that continues where another stood, as its own run.
//!
//! # What
//! A copy of all that a run is after one of its steps: the checkpoint, the lines of its log, what people decided about it.
//! `RUN/branch.json`, [sealed](schemas::sealed), says of which run, and which keys of its identity are others.
//!
//! # Definition
//! The checkpoint's state comes last. A folder with `branch.json` and no checkpoint is a branch that was cut short: it is
//! no run, and the same command makes it again.

use schemas::Sealed;
use schemas::ordinal::Step;
use serde::{Deserialize, Serialize};
use store::{Lines, Log, Store};
use telemetry::change::{ChangeReport, How, KeyChange};
use telemetry::{Clock, EventKind, Position, jsonl};

use crate::checkpoint::{self, IdentityChange, MAIN_FILE};
use crate::error::Error;
use crate::identity::check_branched;
use crate::run::skipped_steps::SkipList;
use crate::run::{step_budget, time_budget};
use crate::safetensors_header;
use crate::train_plan::TrainPlan;

/// Its name in the run's store.
const NAME: &str = "branch.json";

/// Where a run comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Branch {
    /// The run, by its place.
    pub from: String,
    /// Steps that were done there.
    pub step: Step,
    /// The hash of that run's identity.
    pub identity: String,
    /// What is another in this run's identity.
    pub keys: Vec<KeyChange>,
    /// When, in milliseconds since the epoch of Unix, by the wall clock.
    pub time: u64,
}

impl Sealed for Branch {
    const FORMAT: &'static str = "cloze branch";
    const VERSION: u32 = 1;
    const PRETTY: bool = true;
}

/// Makes a run in `to`, which must be held and hold no run, of what the run in `from` was after `step`, to go on by `plan`.
/// `papers` are what else is kept with it, by name.
///
/// # Errors
/// [`Error::Config`] where a run is already, and where the plan is not one that can go on from there; [`Error::Checkpoint`]
/// if the checkpoint is not whole.
pub fn make(
    from: &Store,
    step: Step,
    to: &Store,
    plan: &TrainPlan,
    papers: &[(String, Vec<u8>)],
    clock: &Clock,
) -> Result<Branch, Error> {
    check_free(to)?;
    checkpoint::verify(from, step)?;
    let found = checkpoint::within(from, step);
    let (place, mut state) = (found.place(""), checkpoint::state_of(from, step)?);
    let main = safetensors_header::shapes(&found, MAIN_FILE)?;
    SkipList::read(from)?.check(&place, &state)?;
    let keys = plan.identity.differences(&state.identity);
    let changed: Vec<String> = keys.iter().map(|key| key.key.clone()).collect();
    check_branched(&changed).map_err(|problem| Error::Config(format!("{problem}, in a branch too")))?;
    for (name, shape) in plan.weight_shapes() {
        let found = main.get(&name);
        if found != Some(&shape) {
            let found = found.map_or("is not there".to_owned(), |found| format!("is {found:?}"));
            return Err(Error::Config(format!(
                "`{name}` would be {shape:?}, and {found} after step {step}: a branch has the same weights; begin a run with \
                 `train.init_from`"
            )));
        }
    }
    let words: Vec<String> = keys.iter().map(ToString::to_string).collect();
    let with = if words.is_empty() { "the same configuration".to_owned() } else { words.join(", ") };
    let message = format!("continues where {} stood after step {step}, with {with}", from.place(""));
    let at = Position {
        step: Some(step),
        epoch: None,
        rows_seen: Some(state.rows_consumed),
        tokens_seen: Some(state.tokens_consumed),
    };
    let event =
        clock.event(at, EventKind::Change(ChangeReport { how: How::Branch, message, keys: keys.clone(), from: None }));
    let identity = state.identity.hash().to_owned();
    let branch = Branch { from: from.place(""), step, identity, keys: keys.clone(), time: event.time };
    to.put(NAME, &branch.seal())?;
    for (name, content) in papers {
        to.put(name, content)?;
    }
    time_budget::cut(from, to, step)?;
    // Whoever sets the steps again has planned them again.
    if !plan.amended.spans.is_empty() {
        step_budget::cut(from, to, step)?;
    }
    let mut log = Log::open(to, jsonl::LOG)?;
    for line in Lines::of(from, jsonl::LOG)? {
        let line = line?;
        if let Some(text) = std::str::from_utf8(&line).ok().filter(|_| jsonl::is_said_by(&line, step)) {
            log.push(text)?;
        }
    }
    log.push(&jsonl::line(&event))?;
    log.flush()?;
    state.identity = plan.identity.clone();
    state.beside.spans = state.beside.spans.min(plan.amended.spans.len());
    state.changes.extend(keys.into_iter().map(|key| IdentityChange { step, key }));
    checkpoint::copy(from, step, to, Some(&state))?;
    checkpoint::point(to, &[])?;
    Ok(branch)
}

/// Whether the run in that store is a branch that was cut short: nothing must begin there.
///
/// # Errors
/// [`Error::Io`] if it cannot be looked at.
pub fn is_cut_short(run: &Store) -> Result<bool, Error> {
    Ok(run.stat(NAME)?.is_some() && checkpoint::steps(run)?.is_empty())
}

/// Makes room in a store that holds nothing, or what a branch that was cut short has left.
fn check_free(to: &Store) -> Result<(), Error> {
    let is_ours = is_cut_short(to)?;
    for entry in to.list("")?.into_iter().filter(|entry| entry.name != store::LOCK) {
        if !is_ours {
            let message = format!("{}: `{}` is here; name a folder that is free", to.place(""), entry.name);
            return Err(Error::Config(message));
        }
        // Last of all what says that it is ours.
        if entry.name != NAME {
            to.remove(&entry.name)?;
        }
    }
    Ok(to.remove(NAME)?)
}
