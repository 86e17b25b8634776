//! Check of the files next to a run's checkpoints: without what they say, it would be another run, unnoticed.

use store::Store;

use crate::checkpoint::Beside;
use crate::error::Error;
use crate::run::step_budget;
use crate::run::time_budget::{self, Hours};
use crate::train_plan::TrainPlan;

/// Checks that all files which a run has used are still there; `known` is how much a checkpoint has seen of them.
///
/// # Errors
/// [`Error::Config`] with what is lost.
pub fn check(known: Beside, run: &Store, plan: &TrainPlan, hours: Option<&Hours>) -> Result<(), Error> {
    let lost = |name: &str| {
        let way_on = "restore it, or begin a new run (another `run.folder`)";
        Err(Error::Config(format!("{}: what the run has passed is lost; {way_on}", run.place(name))))
    };
    if hours.is_some_and(|hours| hours.readings() < known.readings) {
        return lost(time_budget::NAME);
    }
    if plan.amended.spans.len() < known.spans { lost(step_budget::NAME) } else { Ok(()) }
}
