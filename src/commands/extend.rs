//! `cloze extend`: changes the number of steps of a run, and records from which step on.

use std::path::Path;

use schemas::Step;
use serde_json::json;
use telemetry::change::{ChangeReport, How, KeyChange};
use telemetry::terminal::outcome;
use telemetry::{Clock, EventKind, Position};
use trainer_plan::checkpoint;
use trainer_plan::config::TrainConfig;
use trainer_plan::run::step_budget;
use trainer_plan::schedule::Span;

use super::checkpoints::existing;
use crate::exit::Usage;
use crate::plan::Plan;
use crate::run::folder::RunFolder;

/// Sets the total steps of the run in `run`, from its newest checkpoint on. The run must not be in progress.
pub(crate) fn run(run: &Path, steps: u64, is_json: bool) -> anyhow::Result<()> {
    let store = existing(run)?;
    let mut held = RunFolder::acquire_for_change(&store)?;
    let plan = Plan::of_run(run)?;
    let train = plan.train();
    let begun_with = plan.config().training.train.steps;
    let state = checkpoint::newest_complete_state(held.store())?;
    let done = state.step;
    let refuse = |problem: String| Usage(format!("{}: {problem}", run.display()));
    if !train.train.ends_by_steps() {
        let message =
            "this run ends by tokens or hours, not by steps; branch from it with another budget (`cloze branch`)";
        return Err(refuse(message.to_owned()).into());
    }
    if steps <= done.0 {
        return Err(refuse(format!("it has done {done} steps already; give it more than {done}")).into());
    }
    if steps >= TrainConfig::STEPS_ENDLESS {
        return Err(refuse(format!("--steps {steps}: no run has that many steps")).into());
    }
    if let Some(problem) = train.train.rows_problem(steps) {
        return Err(refuse(problem).into());
    }
    let before = train.train.steps;
    if steps == before {
        return Err(refuse(format!("it has {before} steps")).into());
    }
    let rule = train.schedule.extended(&train.amended.spans, [before, steps], done).map_err(refuse)?;
    let first = train.amended.spans.first().map_or(begun_with, |first| first.steps);
    step_budget::extend(held.store(), first, Span { from: done, steps })?;
    let key = KeyChange { key: "train.steps".to_owned(), then: Some(before.to_string()), now: Some(steps.to_string()) };
    let message = format!("has {steps} steps instead of {before} from here on; {rule}");
    let at = Position {
        step: Some(done),
        epoch: None,
        rows_seen: Some(state.rows_consumed),
        tokens_seen: Some(state.tokens_consumed),
    };
    let report = ChangeReport { how: How::Extend, message: message.clone(), keys: vec![key], from: None };
    held.add(&Clock::system().event(at, EventKind::Change(report)))?;
    if is_json {
        outcome(json!({ "step": Step(done.0), "before": before, "steps": steps, "rule": rule }));
    } else {
        outcome(format_args!("step {done}  {message}; the same command continues"));
    }
    Ok(())
}
