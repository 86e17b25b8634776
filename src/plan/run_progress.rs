//! Progress of an existing run: the step after which it continues, and the speed of its steps.

use std::path::Path;

use trainer_plan::TrainPlan;
use trainer_plan::checkpoint::State;

use crate::report::run_summary::RunSummary;

/// Progress of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RunProgress {
    /// Step of the newest checkpoint.
    pub(super) step: u64,
    /// Seconds of training until then, if hours end the run.
    pub(super) trained_s: f64,
    /// Speed by the newest report of its log.
    pub(super) speed: Option<LoggedSpeed>,
}

/// Speed of the steps of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LoggedSpeed {
    /// Seconds of a step, without validations.
    pub(super) seconds_per_step: f64,
    /// Ranks that shared the steps.
    pub(super) ranks: u32,
}

impl RunProgress {
    /// Returns the progress of the run in a folder that continues from this state.
    pub(super) fn new(folder: &Path, state: &State) -> Self {
        let summary = remote_store::existing_path(folder).ok().and_then(|run| RunSummary::in_short("", &run).ok());
        let speed = summary.and_then(|summary| Some((summary.steps_per_s?, summary.ranks)));
        let speed = speed.filter(|(steps_per_s, _)| *steps_per_s > 0.0);
        let speed = speed.map(|(steps_per_s, ranks)| LoggedSpeed { seconds_per_step: 1.0 / steps_per_s, ranks });
        Self { step: state.step.0, trained_s: state.trained_s.unwrap_or(0.0), speed }
    }

    /// Steps that are left of a plan; `None` if steps do not end the run.
    pub(super) fn steps_left(self, plan: &TrainPlan) -> Option<u64> {
        plan.steps_expected().map(|steps| steps.saturating_sub(self.step))
    }
}

/// Describes what `cloze train` would do in the folder of a plan.
pub(super) fn description(progress: Option<RunProgress>, plan: &TrainPlan) -> String {
    let Some(progress) = progress else {
        let weights = plan.train.init_from.as_ref().map_or_else(
            || "random weights".to_owned(),
            |folder| format!("the weights of {} (`train.init_from`)", folder.display()),
        );
        return format!("starts at step 1 with {weights}");
    };
    match progress.steps_left(plan) {
        Some(0) => format!("finished after step {}; `cloze extend` adds steps", progress.step),
        Some(left) => format!("continues after step {}; {left} steps are left", progress.step),
        None => format!("continues after step {}", progress.step),
    }
}
