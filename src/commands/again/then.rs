//! The keys of a run as they were when one of its steps was done: somebody may have changed them since.

use observe::change::KeyChange;
use schemas::Step;
use trainer::training::State;

use crate::exit::Usage;
use crate::plan::Plan;

/// The keys that were ever changed.
pub(super) fn changed(state: &State) -> Vec<String> {
    state.changes.iter().map(|change| change.key.key.clone()).collect()
}

/// That nothing was changed between the checkpoint that is gone on from and the step: those in between were done with other
/// keys than the step.
pub(super) fn check_between(state: &State, from: Step, step: u64) -> anyhow::Result<()> {
    match state.changes.iter().find(|change| change.step > from && change.step < Step(step)) {
        None => Ok(()),
        Some(change) => Err(Usage(format!(
            "--step {step}: `{}` was changed after step {}, and no checkpoint between the two is left to begin with",
            change.key, change.step
        ))
        .into()),
    }
}

/// The keys that were others when step `step` was done, counted from 1, each with its value of then.
pub(super) fn undone(state: &State, step: u64) -> Vec<KeyChange> {
    let mut undone: Vec<KeyChange> = Vec::new();
    // The oldest change since then has the value of then.
    for change in state.changes.iter().filter(|change| change.step >= Step(step)) {
        if !undone.iter().any(|known| known.key == change.key.key) {
            undone.push(change.key.clone());
        }
    }
    undone
}

/// `KEY=VALUE` of each, for a configuration that says otherwise.
pub(super) fn sets(undone: &[KeyChange], step: u64) -> anyhow::Result<Vec<String>> {
    let set = |key: &KeyChange| match &key.then {
        Some(then) => Ok(format!("{}={then}", key.key)),
        None => {
            Err(Usage(format!("--step {step}: it was done without `{}`, and cannot be done with it", key.key)).into())
        }
    };
    undone.iter().map(set).collect()
}

/// That a plan is that of the run, but for what was undone: what else it says would come to other numbers.
pub(super) fn check(plan: &Plan, state: &State, undone: &[KeyChange], step: u64) -> anyhow::Result<()> {
    let is_undone = |key: &KeyChange| undone.iter().any(|known| known.key == key.key && known.then == key.now);
    let others: Vec<String> = plan
        .train()
        .identity
        .differences(&state.identity)
        .iter()
        .filter(|key| !is_undone(key))
        .map(ToString::to_string)
        .collect();
    if others.is_empty() {
        return Ok(());
    }
    let others = others.join(", ");
    Err(Usage(format!(
        "--step {step}: it was done with another configuration, and would come to other numbers: {others}"
    ))
    .into())
}
