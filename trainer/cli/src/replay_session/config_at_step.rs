//! Configuration of a run at the time of one of its steps. Keys may have been changed since.

use cloze::exit::Usage;
use cloze::plan::Plan;
use schemas::Step;
use telemetry::change::KeyChange;
use trainer_plan::checkpoint::IdentityChange;
use trainer_plan::checkpoint::State;

/// Step, counted from 1, and the newest state of its run. Without a state, the run has no checkpoint.
pub(crate) struct ConfigAtStep {
    step: u64,
    newest: Option<State>,
}

impl ConfigAtStep {
    pub(crate) fn new(step: u64, newest: Option<State>) -> Self {
        Self { step, newest }
    }

    /// Returns the plan of the step. `make` plans with the given `KEY=VALUE` settings.
    pub(crate) fn plan(&self, make: impl FnOnce(Vec<String>) -> anyhow::Result<Plan>) -> anyhow::Result<Plan> {
        let plan =
            make(self.sets()?)?.allowing(&self.changes().map(|change| change.key.key.clone()).collect::<Vec<_>>());
        self.check(&plan)?;
        Ok(plan)
    }

    /// Checks that no key was changed between the checkpoint that the replay starts from and the step.
    ///
    /// The steps before such a change were run with other keys, and the replay has one configuration.
    pub(crate) fn check_between(&self, from: Step) -> anyhow::Result<()> {
        match self.changes().find(|change| change.step > from && change.step < Step(self.step)) {
            None => Ok(()),
            Some(change) => Err(self.refusal(format_args!(
                "`{}` was changed after step {}, and no checkpoint between the two exists to start from",
                change.key, change.step
            ))),
        }
    }

    fn changes(&self) -> impl Iterator<Item = &IdentityChange> {
        self.newest.iter().flat_map(|state| &state.changes)
    }

    /// Returns the keys that were changed since, each with its value at the step.
    fn undone(&self) -> Vec<&KeyChange> {
        let mut undone: Vec<&KeyChange> = Vec::new();
        // The oldest change after the step has the value at the step.
        for IdentityChange { key, .. } in self.changes().filter(|change| change.step >= Step(self.step)) {
            if !undone.iter().any(|known| known.key == key.key) {
                undone.push(key);
            }
        }
        undone
    }

    /// Returns `KEY=VALUE` of each changed key.
    fn sets(&self) -> anyhow::Result<Vec<String>> {
        let set =
            |key: &KeyChange| match &key.then {
                Some(then) => Ok(format!("{}={then}", key.key)),
                None => Err(self
                    .refusal(format_args!("the step was run without `{}`, and cannot be repeated with it", key.key))),
            };
        self.undone().into_iter().map(set).collect()
    }

    /// Checks that the plan equals that of the run, except for the changed keys. Other differences change the numbers.
    fn check(&self, plan: &Plan) -> anyhow::Result<()> {
        let undone = self.undone();
        let is_undone = |key: &&KeyChange| undone.iter().any(|known| known.key == key.key && known.then == key.now);
        let differ = self.newest.iter().flat_map(|state| plan.train().identity.differences(&state.identity));
        let others: Vec<String> = differ.filter(|key| !is_undone(&key)).map(|key| key.to_string()).collect();
        if others.is_empty() {
            return Ok(());
        }
        let others = others.join(", ");
        Err(self.refusal(format_args!(
            "the step was run with a different configuration, so its numbers would differ: {others}"
        )))
    }

    fn refusal(&self, why: std::fmt::Arguments<'_>) -> anyhow::Error {
        Usage(format!("--step {}: {why}", self.step)).into()
    }
}
