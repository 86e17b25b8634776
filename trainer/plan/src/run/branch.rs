//! Branch: a new run that continues from a checkpoint of another run.
//!
//! # What
//! A branch is a copy of a run after one of its steps: the checkpoint, the lines of its log, and the users' decisions.
//! `RUN/branch.json`, [sealed](schemas::sealed), names the original run and the keys of the identity that differ.
//!
//! # Definition
//! The checkpoint's state is written last. A folder with `branch.json` and without a checkpoint is an interrupted
//! branch. It is not a run, and the same command starts the branch again.

use std::collections::BTreeMap;

use schemas::Sealed;
use schemas::ordinal::Step;
use serde::{Deserialize, Serialize};
use store::{Lines, Log, Store};
use telemetry::change::{ChangeReport, How, KeyChange};
use telemetry::{Clock, EventKind, Position, jsonl};

use crate::checkpoint::{self, IdentityChange, MAIN_FILE, OPTIMIZER_FILE};
use crate::error::Error;
use crate::identity::check_branched;
use crate::run::resume_check::misfit;
use crate::run::rollback::is_archived;
use crate::run::skipped_steps::SkipList;
use crate::run::{step_budget, time_budget};
use crate::train_plan::TrainPlan;
use crate::{run_weights, safetensors_header};

/// Name of the file in the run's store.
const NAME: &str = "branch.json";

/// Origin of a branched run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Branch {
    /// Location of the original run.
    pub from: String,
    /// Steps done in the original run.
    pub step: Step,
    /// Hash of the original run's identity.
    pub identity: String,
    /// Keys that differ in this run's identity.
    pub keys: Vec<KeyChange>,
    /// Time of the branch, in milliseconds since the Unix epoch, by the wall clock.
    pub time: u64,
}

impl Sealed for Branch {
    const FORMAT: &'static str = "cloze branch";
    const VERSION: u32 = 1;
    const PRETTY: bool = true;
}

/// Creates a run in `to` from the run in `from` after `step`; it continues with `plan`. The caller must hold the lock
/// of `to`, which must not contain a run. `files` are further files of the new run, by name.
///
/// # Errors
/// [`Error::Config`] if `to` contains a run, or if the plan cannot continue from the checkpoint; [`Error::Checkpoint`]
/// if the checkpoint is damaged.
pub fn make(
    from: &Store,
    step: Step,
    to: &Store,
    plan: &TrainPlan,
    files: &[(String, Vec<u8>)],
    clock: &Clock,
) -> Result<Branch, Error> {
    check_free(to, files)?;
    checkpoint::verify(from, step)?;
    let found = checkpoint::checkpoint_store(from, step);
    let place = found.place("");
    let mut state = checkpoint::state_of(from, step)?;
    let main = safetensors_header::shapes(&found, MAIN_FILE)?;
    SkipList::read(from)?.check(&place, &state)?;
    let keys = plan.identity.differences(&state.identity);
    let changed: Vec<String> = keys.iter().map(|key| key.key.clone()).collect();
    check_branched(&changed).map_err(|problem| Error::Config(format!("{problem}; this also applies to a branch")))?;
    let optimizer = safetensors_header::shapes(&found, OPTIMIZER_FILE)?;
    if let Some(problem) = shape_problem(plan, &main, &optimizer) {
        return Err(misfit(&place, &keys, &problem));
    }
    let changes: Vec<String> = keys.iter().map(ToString::to_string).collect();
    let with = if changes.is_empty() { "the same configuration".to_owned() } else { changes.join(", ") };
    let message = format!("branched from {} after step {step}, with {with}", from.place(""));
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
    for (name, content) in files {
        to.put(name, content)?;
    }
    time_budget::cut(from, to, step)?;
    // A plan without spans has a new number of steps, which replaces the spans of the original run.
    if !plan.amended.spans.is_empty() {
        step_budget::cut(from, to, step)?;
    }
    let mut log = Log::open(to, jsonl::LOG)?;
    for line in Lines::new(from, jsonl::LOG)? {
        let line = line?;
        if let Some(text) = std::str::from_utf8(&line).ok().filter(|_| jsonl::is_at_or_before(&line, step)) {
            log.push(text)?;
        }
    }
    log.push(&jsonl::line(&event))?;
    log.flush()?;
    state.identity = plan.identity.clone();
    state.sidecars.spans = state.sidecars.spans.min(plan.amended.spans.len());
    state.changes.extend(keys.into_iter().map(|key| IdentityChange { step, key }));
    checkpoint::copy(from, step, to, Some(&state))?;
    checkpoint::point(to, &[])?;
    Ok(branch)
}

/// Returns the first weight or moment of the plan that the checkpoint lacks or has in another shape.
fn shape_problem(
    plan: &TrainPlan,
    main: &BTreeMap<String, Vec<i64>>,
    optimizer: &BTreeMap<String, Vec<i64>>,
) -> Option<String> {
    run_weights::of_run(plan).iter().find_map(|(name, spec)| {
        let moment = format!("mean.{name}");
        let needed = [(name, main)].into_iter().chain(spec.trains.then_some((moment.as_str(), optimizer)));
        needed.into_iter().find_map(|(name, shapes)| match shapes.get(name) {
            Some(shape) if *shape == spec.shape => None,
            Some(shape) => Some(format!("`{name}` is {shape:?}, the plan needs {:?}", spec.shape)),
            None => Some(format!("it has no `{name}`")),
        })
    })
}

/// Whether the store contains an interrupted branch, in which no run may start.
///
/// # Errors
/// [`Error::Io`] if the store cannot be read.
pub fn is_cut_short(run: &Store) -> Result<bool, Error> {
    Ok(run.head(NAME)?.is_some() && checkpoint::steps(run)?.is_empty())
}

/// Removes the files of an interrupted branch, which would write `files` too. Returns an error if the store contains other
/// files, and removes nothing then.
fn check_free(to: &Store, files: &[(String, Vec<u8>)]) -> Result<(), Error> {
    let is_interrupted = is_cut_short(to)?;
    let latest = format!("{}/{}", checkpoint::FOLDER, checkpoint::LATEST);
    let is_of_branch =
        |name: &str| name == NAME || name == latest || is_archived(name) || files.iter().any(|(file, _)| file == name);
    let entries: Vec<_> = to.list("")?.into_iter().filter(|entry| entry.name != store::LOCK).collect();
    if let Some(entry) = entries.iter().find(|entry| !is_interrupted || !is_of_branch(&entry.name)) {
        let message = format!("{}: the folder contains `{}`; name an empty folder", to.place(""), entry.name);
        return Err(Error::Config(message));
    }
    // `branch.json` is removed last: it marks the folder as an interrupted branch.
    entries.iter().filter(|entry| entry.name != NAME).try_for_each(|entry| to.delete(&entry.name))?;
    Ok(to.delete(NAME)?)
}

#[cfg(test)]
mod tests {
    use store::FaultConfig;

    use super::*;

    #[test]
    fn an_interrupted_branch_is_made_again_only_if_all_files_are_its_own() {
        let to = Store::in_memory(FaultConfig::none());
        let files = [("config.toml".to_owned(), Vec::new())];
        let own = [NAME, "config.toml", "log/00000000.jsonl", "checkpoints/step-00000008/main.safetensors", "lock"];
        for name in &own {
            to.put(name, b"own").expect("put");
        }
        for foreign in ["notes.md", "checkpoints/mine.bin", "data/part-00000.parquet"] {
            to.put(foreign, b"mine").expect("put");
            let error = check_free(&to, &files).expect_err("a file of the user").to_string();
            assert!(error.contains(foreign) && error.contains("name an empty folder"), "{error}");
            assert_eq!(to.list("").expect("listed").len(), own.len() + 1, "nothing is removed");
            to.delete(foreign).expect("removed");
        }
        check_free(&to, &files).expect("all of it is of the branch");
        let left: Vec<String> = to.list("").expect("listed").into_iter().map(|entry| entry.name).collect();
        assert_eq!(left, ["lock"]);
    }
}
