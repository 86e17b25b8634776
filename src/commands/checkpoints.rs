//! `cloze checkpoints`: lists, verifies, pins and removes the checkpoints of a run.

use std::path::Path;

use anyhow::Context as _;
use schemas::Step;
use serde_json::{Value, json};
use store::Store;
use telemetry::quantities::bytes;
use telemetry::terminal::{json_document, line, outcome};
use trainer_plan::checkpoint::{self, KeepReason, ListedCheckpoint};
use trainer_plan::config::CheckpointConfig;

use crate::cli::CheckpointVerb;
use crate::exit::Usage;
use crate::report::run_summary::age;
use crate::run::folder::RunFolder;

/// Lists the checkpoints of a run, or applies the subcommand to one.
pub(crate) fn run(run: &Path, verb: Option<CheckpointVerb>, is_json: bool) -> anyhow::Result<()> {
    let store = existing(run)?;
    match verb {
        None => list(&store, is_json),
        Some(CheckpointVerb::Verify { step }) => verify(&store, step.map(Step), is_json),
        Some(CheckpointVerb::Pin { step }) => {
            checkpoint::pin(RunFolder::acquire_for_change(&store)?.store(), Step(step))?;
            print_change(is_json, step, "pinned", "it is kept, regardless of `[checkpoints]`");
            Ok(())
        }
        Some(CheckpointVerb::Unpin { step }) => {
            let was_pinned = checkpoint::unpin(RunFolder::acquire_for_change(&store)?.store(), Step(step))?;
            let then = "`[checkpoints]` applies to it when the next one is saved";
            print_change(is_json, step, if was_pinned { "unpinned" } else { "was not pinned" }, then);
            Ok(())
        }
        Some(CheckpointVerb::Remove { step }) => {
            checkpoint::remove(RunFolder::acquire_for_change(&store)?.store(), Step(step))?;
            print_change(is_json, step, "removed", "permanently");
            Ok(())
        }
    }
}

/// Opens the folder of an existing run.
pub fn existing(run: &Path) -> anyhow::Result<Store> {
    let missing = || Usage(format!("{}: no run is here; name the folder of `run.folder`", run.display()));
    let store = remote_store::existing_path(run).with_context(missing)?;
    if store.head("config.toml")?.is_none() {
        return Err(missing().into());
    }
    Ok(store)
}

/// Retention rules of a run, as saved with it.
fn rules(run: &Store) -> anyhow::Result<CheckpointConfig> {
    let text = String::from_utf8_lossy(&run.get("config.toml")?).into_owned();
    let table: toml::Table = text.parse().with_context(|| run.place("config.toml"))?;
    let section = table.get("checkpoints").cloned().map(toml::Value::try_into);
    Ok(section.transpose().with_context(|| run.place("config.toml"))?.unwrap_or_default())
}

fn list(run: &Store, is_json: bool) -> anyhow::Result<()> {
    let rules = rules(run)?;
    let listed = checkpoint::list_with_reasons(run, &rules)?;
    if is_json {
        json_document(&Value::Array(listed.iter().map(as_json).collect()));
        return Ok(());
    }
    if listed.is_empty() {
        line(format_args!("{}: no checkpoint yet", run.place("")));
    }
    for it in &listed {
        let figure = it.figures.get(&rules.best_by).map_or("–".to_owned(), |figure| format!("{figure:.4}"));
        let written = it
            .written
            .and_then(|written| written.elapsed().ok())
            .map_or("–".to_owned(), |since| age(since.as_secs_f64()));
        let why: Vec<&str> = it.why.iter().copied().map(word).collect();
        let why = match (it.is_there, why.is_empty()) {
            (false, _) => "no checkpoint: damaged and set aside, or unfinished".to_owned(),
            (true, true) => "removed when the next one is saved".to_owned(),
            (true, false) => why.join(", "),
        };
        line(format_args!(
            "step {:>9}  {} {figure:>9}  {:>10}  {written:>9}  {why}",
            it.step.to_string(),
            rules.best_by,
            bytes(it.bytes)
        ));
    }
    Ok(())
}

fn word(why: KeepReason) -> &'static str {
    match why {
        KeepReason::Newest => "one of the newest",
        KeepReason::Milestone => "milestone",
        KeepReason::Best => "one of the best",
        KeepReason::Pinned => "pinned",
    }
}

fn as_json(it: &ListedCheckpoint) -> Value {
    json!({ "step": it.step, "place": it.place, "bytes": it.bytes, "figures": it.figures, "why": it.why,
            "whole": it.is_there })
}

/// Reads every byte of one checkpoint, or of all. The first checkpoint whose hash differs is the error.
fn verify(run: &Store, step: Option<Step>, is_json: bool) -> anyhow::Result<()> {
    let there = checkpoint::list_with_reasons(run, &CheckpointConfig::default())?;
    let steps = there.iter().filter(|it| it.is_there).map(|it| it.step);
    let wanted: Vec<Step> = step.map_or_else(|| steps.collect(), |step| vec![step]);
    let mut read = Vec::new();
    for step in wanted {
        let size = checkpoint::verify(run, step)?;
        if !is_json {
            line(format_args!("step {step}: {} verified", bytes(size)));
        }
        read.push(json!({ "step": step, "bytes": size }));
    }
    if is_json {
        json_document(&Value::Array(read));
    }
    Ok(())
}

fn print_change(is_json: bool, step: u64, done: &str, then: &str) {
    if is_json {
        outcome(json!({ "step": step, "done": done }));
    } else {
        outcome(format_args!("step {step}: {done}; {then}"));
    }
}
