//! The keys of a run as they were when one of its steps was done: somebody may have changed them since.

use cloze::exit::Usage;
use cloze::plan::Plan;
use schemas::Step;
use telemetry::change::KeyChange;
use trainer_plan::checkpoint::IdentityChange;
use trainer_plan::checkpoint::State;

/// A step, counted from 1, and the newest that is known of its run: nothing before that has a checkpoint.
pub(crate) struct ConfigAtStep {
    step: u64,
    newest: Option<State>,
}

impl ConfigAtStep {
    pub(crate) fn new(step: u64, newest: Option<State>) -> Self {
        Self { step, newest }
    }

    /// The plan by which the step was done, by who makes one with some keys set.
    pub(crate) fn plan(&self, make: impl FnOnce(Vec<String>) -> anyhow::Result<Plan>) -> anyhow::Result<Plan> {
        let plan =
            make(self.sets()?)?.allowing(&self.changes().map(|change| change.key.key.clone()).collect::<Vec<_>>());
        self.check(&plan)?;
        Ok(plan)
    }

    /// That nothing was changed between the checkpoint that the run continued from and the step: those in between were done with
    /// other keys than the step.
    pub(crate) fn check_between(&self, from: Step) -> anyhow::Result<()> {
        match self.changes().find(|change| change.step > from && change.step < Step(self.step)) {
            None => Ok(()),
            Some(change) => Err(self.refusal(format_args!(
                "`{}` was changed after step {}, and no checkpoint between the two is left to begin with",
                change.key, change.step
            ))),
        }
    }

    fn changes(&self) -> impl Iterator<Item = &IdentityChange> {
        self.newest.iter().flat_map(|state| &state.changes)
    }

    /// The keys that were others, each with its value of then.
    fn undone(&self) -> Vec<&KeyChange> {
        let mut undone: Vec<&KeyChange> = Vec::new();
        // The oldest change since then has the value of then.
        for IdentityChange { key, .. } in self.changes().filter(|change| change.step >= Step(self.step)) {
            if !undone.iter().any(|known| known.key == key.key) {
                undone.push(key);
            }
        }
        undone
    }

    /// `KEY=VALUE` of each, for a configuration that says otherwise.
    fn sets(&self) -> anyhow::Result<Vec<String>> {
        let set = |key: &KeyChange| match &key.then {
            Some(then) => Ok(format!("{}={then}", key.key)),
            None => Err(self.refusal(format_args!("it was done without `{}`, and cannot be done with it", key.key))),
        };
        self.undone().into_iter().map(set).collect()
    }

    /// That a plan is that of the run, but for what was undone: what else it says would come to other numbers.
    fn check(&self, plan: &Plan) -> anyhow::Result<()> {
        let undone = self.undone();
        let is_undone = |key: &&KeyChange| undone.iter().any(|known| known.key == key.key && known.then == key.now);
        let differ = self.newest.iter().flat_map(|state| plan.train().identity.differences(&state.identity));
        let others: Vec<String> = differ.filter(|key| !is_undone(&key)).map(|key| key.to_string()).collect();
        if others.is_empty() {
            return Ok(());
        }
        let others = others.join(", ");
        Err(self
            .refusal(format_args!("it was done with another configuration, and would come to other numbers: {others}")))
    }

    fn refusal(&self, why: std::fmt::Arguments<'_>) -> anyhow::Error {
        Usage(format!("--step {}: {why}", self.step)).into()
    }
}
