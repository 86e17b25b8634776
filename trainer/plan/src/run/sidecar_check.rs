//! Check of the sidecar files next to a run's checkpoints. Without their entries the run would silently be another run.

use store::Store;

use crate::checkpoint::SidecarState;
use crate::error::Error;
use crate::run::step_budget;
use crate::run::time_budget::{self, TimeBudget};
use crate::train_plan::TrainPlan;

/// Checks that the sidecar files still contain all entries that the run has used. `known` has their numbers at a
/// checkpoint.
///
/// # Errors
/// [`Error::Config`] with the file that lost entries.
pub fn check(known: SidecarState, run: &Store, plan: &TrainPlan, hours: Option<&TimeBudget>) -> Result<(), Error> {
    let lost = |name: &str| {
        let hint = "restore the file, or start a new run (another `run.folder`)";
        Err(Error::Config(format!("{}: entries that the run has used are lost; {hint}", run.place(name))))
    };
    if hours.is_some_and(|hours| hours.readings() < known.readings) {
        return lost(time_budget::NAME);
    }
    if plan.amended.spans.len() < known.spans { lost(step_budget::NAME) } else { Ok(()) }
}
