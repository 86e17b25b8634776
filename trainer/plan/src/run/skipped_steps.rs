//! The steps that a run skips: `skipped_steps.json` of its folder.
//!
//! # What
//! A list of steps whose rows are consumed and teach nothing, with what was wrong with each. Sealed, and written before
//! anything is undone for it.
//!
//! # Why
//! The decision to leave a step out must be the same after a kill, in a resume, in a replay and in a branch of the run. A
//! checkpoint says which of these steps it has skipped ([`State::skips`]); one that has learned from one of them is of a
//! course that was given up, and goes; one that has skipped another is refused, since the list was lost.

use schemas::Sealed;
use schemas::ordinal::Step;
use serde::{Deserialize, Serialize};
use store::Store;
use telemetry::training::LossSpikeReport;

use crate::checkpoint::State;
use crate::error::Error;

/// Its name in the run's folder.
pub const NAME: &str = "skipped_steps.json";

/// The steps that a run skips, in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SkipList {
    /// Each with what was wrong with it.
    pub skips: Vec<LossSpikeReport>,
}

impl Sealed for SkipList {
    const FORMAT: &'static str = "cloze skipped steps";
    const VERSION: u32 = 1;
    const PRETTY: bool = true;
}

impl SkipList {
    /// That of a run; an empty one where nothing was ever skipped.
    ///
    /// # Errors
    /// [`Error::Config`] if it is damaged, [`Error::Io`] if it cannot be read.
    pub fn read(run: &Store) -> Result<Self, Error> {
        let Some((bytes, _)) = run.read_with_stat(NAME)? else { return Ok(Self::default()) };
        Self::unseal(&bytes).map_err(|error| {
            let way_on = "it says which steps the run does not learn from: restore it, or begin a new run (another `run.folder`)";
            Error::Config(format!("{}: {error}; {way_on}", run.place(NAME)))
        })
    }

    /// Adds a step, and writes the list down.
    ///
    /// # Errors
    /// [`Error::Io`]; the list is then as it was.
    pub fn add(&mut self, run: &Store, leap: LossSpikeReport) -> Result<(), Error> {
        let mut longer = self.clone();
        longer.skips.push(leap);
        longer.skips.sort_by_key(|skip| skip.spike_step);
        run.put(NAME, &longer.seal())?;
        *self = longer;
        Ok(())
    }

    /// Why the step after `done` steps is skipped; `None` if it is learned from.
    #[must_use]
    pub fn after(&self, done: Step) -> Option<&LossSpikeReport> {
        self.skips.iter().find(|skip| skip.spike_step == done.next())
    }

    /// Those of the first `done` steps.
    #[must_use]
    pub fn among(&self, done: Step) -> Vec<Step> {
        self.skips.iter().map(|skip| skip.spike_step).filter(|&leapt| leapt <= done).collect()
    }

    /// A step that is to be skipped, and from which a checkpoint has learned.
    #[must_use]
    pub fn learnt_by(&self, state: &State) -> Option<Step> {
        self.among(state.step).into_iter().find(|step| !state.skips.contains(step))
    }

    /// Checks that a checkpoint has skipped what is to be skipped, and nothing else.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] with a step that it has learned from, [`Error::Config`] where the list is lost.
    pub fn check(&self, place: &str, state: &State) -> Result<(), Error> {
        let refuse = |problem| Err(Error::Checkpoint { path: place.into(), problem });
        if let Some(step) = self.learnt_by(state) {
            return refuse(format!(
                "it has learned from step {step}, which `{NAME}` skips; start the run, which goes back"
            ));
        }
        match state.skips.iter().find(|step| !self.among(state.step).contains(step)) {
            Some(step) => Err(Error::Config(format!(
                "{place}: it has skipped step {step}, of which the run's `{NAME}` says nothing: restore that file, or \
                 begin a new run (another `run.folder`)"
            ))),
            None => Ok(()),
        }
    }
}
