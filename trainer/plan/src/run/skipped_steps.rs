//! Skipped steps of a run: `skipped_steps.json` of its folder.
//!
//! # What
//! A list of steps whose rows are consumed without an update of the weights, with the spike of each. The list is
//! sealed. It is written before the rollback that it causes.
//!
//! # Why
//! The decision to skip a step must be the same after a kill, in a resume, in a replay and in a branch of the run. A
//! checkpoint records which of these steps it has skipped ([`State::skips`]). A checkpoint that has trained on one of
//! them is invalid and is removed. A checkpoint that has skipped a step outside the list is refused, because the list
//! was lost.

use schemas::Sealed;
use schemas::ordinal::Step;
use serde::{Deserialize, Serialize};
use store::Store;
use telemetry::training::LossSpikeReport;

use crate::checkpoint::State;
use crate::error::Error;

/// Name of the file in the run's folder.
pub const NAME: &str = "skipped_steps.json";

/// Skipped steps of a run, in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SkipList {
    /// Spike of each skipped step.
    pub skips: Vec<LossSpikeReport>,
}

impl Sealed for SkipList {
    const FORMAT: &'static str = "cloze skipped steps";
    const VERSION: u32 = 1;
    const PRETTY: bool = true;
}

impl SkipList {
    /// Reads the list of a run. A run without skipped steps has an empty list.
    ///
    /// # Errors
    /// [`Error::Config`] if the file is damaged, [`Error::Io`] if it cannot be read.
    pub fn read(run: &Store) -> Result<Self, Error> {
        let Some((bytes, _)) = run.get_with_stat(NAME)? else { return Ok(Self::default()) };
        Self::unseal(&bytes).map_err(|error| {
            let hint = "the file lists the skipped steps: restore it, or start a new run (another `run.folder`)";
            Error::Config(format!("{}: {error}; {hint}", run.place(NAME)))
        })
    }

    /// Adds a step and writes the list.
    ///
    /// # Errors
    /// [`Error::Io`]. The list is then unchanged.
    pub fn add(&mut self, run: &Store, spike: LossSpikeReport) -> Result<(), Error> {
        let mut longer = self.clone();
        longer.skips.push(spike);
        longer.skips.sort_by_key(|skip| skip.spike_step);
        run.put(NAME, &longer.seal())?;
        *self = longer;
        Ok(())
    }

    /// Returns the spike for which the step after `done` steps is skipped; `None` if the step is not skipped.
    #[must_use]
    pub fn spike_after(&self, done: Step) -> Option<&LossSpikeReport> {
        self.skips.iter().find(|skip| skip.spike_step == done.next())
    }

    /// Skipped steps among the first `done` steps.
    #[must_use]
    pub fn skipped_among(&self, done: Step) -> Vec<Step> {
        self.skips.iter().map(|skip| skip.spike_step).filter(|&step| step <= done).collect()
    }

    /// Returns a step of the list that a checkpoint has trained on.
    #[must_use]
    pub fn included_in(&self, state: &State) -> Option<Step> {
        self.skipped_among(state.step).into_iter().find(|step| !state.skips.contains(step))
    }

    /// Checks that a checkpoint has skipped exactly the steps of the list.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] with a step of the list that it has trained on, [`Error::Config`] if the list is lost.
    pub fn check(&self, place: &str, state: &State) -> Result<(), Error> {
        let refuse = |problem| Err(Error::Checkpoint { path: place.into(), problem });
        if let Some(step) = self.included_in(state) {
            return refuse(format!(
                "the checkpoint was trained on step {step}, which `{NAME}` skips; start the run, which rolls it back"
            ));
        }
        match state.skips.iter().find(|step| !self.skipped_among(state.step).contains(step)) {
            Some(step) => Err(Error::Config(format!(
                "{place}: the checkpoint has skipped step {step}, which is not in the run's `{NAME}`: restore that \
                 file, or start a new run (another `run.folder`)"
            ))),
            None => Ok(()),
        }
    }
}
