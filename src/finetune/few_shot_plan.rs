//! Prompts and few examples of a sweep.

use serde::{Deserialize, Serialize};
use tasks::AnyTask;

use super::few_shot::FewShot;
use super::prompt::PromptOptions;
use crate::exit::Usage;

/// Flags of `cloze finetune` that all runs of a sweep have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FewShotPlan {
    pub(crate) prompt: bool,
    pub(crate) shots: Option<u64>,
    pub(crate) demonstrations: u32,
}

impl FewShotPlan {
    /// Returns the flags; `None` without any.
    pub(crate) fn new(prompt: bool, shots: Option<u64>, demonstrations: Option<u32>) -> Option<Self> {
        (prompt || shots.is_some()).then(|| Self { prompt, shots, demonstrations: demonstrations.unwrap_or(0) })
    }

    /// Checks that a task has a prompt and classes, as far as they are needed.
    ///
    /// # Errors
    /// If it has not.
    pub(crate) fn check(self, task: &AnyTask) -> Result<(), Usage> {
        if self.prompt {
            PromptOptions::new(task, self.demonstrations)?;
        }
        if self.shots.is_some() { FewShot::check(&task.output(), task.kind()) } else { Ok(()) }
    }

    /// Returns the number of training examples of a task that has `all`.
    pub(crate) fn size(self, task: &AnyTask, all: u64) -> u64 {
        self.shots.map_or(all, |shots| FewShot { shots, seed: 0 }.size(&task.output()))
    }

    /// Returns the arguments of `cloze finetune`.
    pub(crate) fn arguments(self) -> Vec<String> {
        let mut arguments = Vec::new();
        if self.prompt {
            arguments.push("--prompt".to_owned());
        }
        if let Some(shots) = self.shots {
            arguments.extend(["--shots".to_owned(), shots.to_string()]);
        }
        if self.demonstrations > 0 {
            arguments.extend(["--demonstrations".to_owned(), self.demonstrations.to_string()]);
        }
        arguments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_checked_and_written_as_flags() {
        let task = |kind: &str| AnyTask::of_kind(kind).expect("a task");
        let plan = FewShotPlan::new(true, Some(16), Some(2)).expect("flags");
        assert_eq!(plan.arguments(), ["--prompt", "--shots", "16", "--demonstrations", "2"]);
        assert_eq!((plan.size(&task("mnli"), 9999), FewShotPlan::new(false, None, None)), (48, None));
        assert!(plan.check(&task("mnli")).is_ok() && plan.check(&task("wnli")).is_err());
        let shots = FewShotPlan::new(false, Some(16), None).expect("a flag");
        assert!(shots.check(&task("wnli")).is_ok() && shots.check(&task("stsb")).is_err());
    }
}
