//! What a run keeps beside its checkpoints and has gone by: without it, it would be another run, and nobody would see it.

use serde::{Deserialize, Serialize};
use store::Store;

use crate::error::Error;
use crate::plan::TrainPlan;
use crate::training::extended;
use crate::training::hours::{self, Hours};

/// How much of it there was at a checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Beside {
    /// Readings of the clock, where hours end the run.
    pub readings: usize,
    /// Spans of steps, where somebody has extended it.
    pub spans: usize,
}

impl Beside {
    /// Whether there was nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// That all of it is still there.
    ///
    /// # Errors
    /// [`Error::Config`] with what is lost.
    pub(crate) fn check(self, run: &Store, plan: &TrainPlan, hours: Option<&Hours>) -> Result<(), Error> {
        let lost = |name: &str| {
            let way_on = "restore it, or begin a new run (another `run.folder`)";
            Err(Error::Config(format!("{}: what the run has gone by is lost; {way_on}", run.place(name))))
        };
        if hours.is_some_and(|hours| hours.readings() < self.readings) {
            return lost(hours::NAME);
        }
        if plan.amended.spans.len() < self.spans { lost(extended::NAME) } else { Ok(()) }
    }
}
