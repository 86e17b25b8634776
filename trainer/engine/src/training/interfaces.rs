//! What is around a run: where its batches come from, and who hears it, keeps what it makes and may stop it.

use std::collections::BTreeMap;

use schemas::Batch;
use schemas::ordinal::{RowIndex, Step};
use telemetry::training::CheckpointReport;
use telemetry::{EventKind, Observer};
use trainer_plan::ForeignError;
use trainer_plan::checkpoint::State;
use trainer_plan::stop_request::StopRequest;

use crate::training::checkpoint::Snapshot;

/// Where batches come from.
pub trait Data {
    /// Makes the micro-batches that follow the first `rows` of the training stream the next ones.
    fn seek(&mut self, rows: RowIndex) -> Result<(), ForeignError>;

    /// The next micro-batch of the share of this rank in the training stream, which has no end; `None` if a stop was
    /// asked for while waiting.
    fn next(&mut self) -> Result<Option<Batch>, ForeignError>;

    /// The batches of the valid split, with the view [`VALID_MLM`](trainer_plan::requirements::VALID_MLM) next to the run's own, from the first.
    fn validation(&mut self) -> Result<Box<dyn Iterator<Item = Result<Batch, ForeignError>> + '_>, ForeignError>;

    /// Number of passes over the training split in the first `rows` rows of the stream.
    fn epochs(&self, rows: RowIndex) -> Result<f64, ForeignError>;

    /// Number of passes over each source of a mixture in the first `rows` rows of the stream, by its name; nothing where
    /// there is one source.
    fn source_epochs(&self, _rows: RowIndex) -> Result<BTreeMap<String, f64>, ForeignError> {
        Ok(BTreeMap::new())
    }

    /// The rows of the stream up to `end` are consumed: a step has learned from those that were not before, or skipped them.
    fn consumed(&mut self, _end: RowIndex, _learnt: bool) -> Result<(), ForeignError> {
        Ok(())
    }

    /// The ids of the documents that a row of the training stream is made of, for people.
    fn documents(&mut self, _row: RowIndex) -> Result<Vec<String>, ForeignError> {
        Ok(Vec::new())
    }

    /// What is to be said of the batches that were given since this was last asked.
    fn remarks(&mut self) -> Vec<EventKind> {
        Vec::new()
    }
}

/// Who keeps what a run makes, hears what it says, and may stop it.
///
/// Events are heard, and nobody fails over one; what went wrong while they were kept is said by [`check`](Self::check).
pub trait Host: Observer {
    /// Whether somebody asked the run to stop.
    fn stop(&self) -> Option<StopRequest>;

    /// The run is good, and continues from this state, or begins. Nothing was said or saved before, unless the run goes back:
    /// then what was said of later steps was said of a course that is given up.
    fn begin(&mut self, from: Option<&State>) -> Result<(), ForeignError>;

    /// Takes a checkpoint to write ([`Snapshot::write`]), and does not wait for it. The one before was asked for by
    /// [`saved`](Self::saved).
    fn save(&mut self, snapshot: Snapshot) -> Result<(), ForeignError>;

    /// Returns once the last checkpoint is kept, with where it is.
    fn saved(&mut self) -> Result<Option<CheckpointReport>, ForeignError>;

    /// Whether somebody wants a checkpoint of what is learned by now; asked once for each wish.
    fn wants_checkpoint(&mut self) -> bool {
        false
    }

    /// A step begins behind so many. Who wants to know where its time goes begins to measure it now, or ends: on this thread,
    /// by [`step_timer`](crate::device::step_timer).
    fn next_step(&mut self, _done: Step) {}

    /// What somebody wants to be said in the run's name since this was last asked.
    fn remarks(&mut self) -> Vec<EventKind> {
        Vec::new()
    }

    /// Says without waiting whether something could not be kept, or whether the last checkpoint is by now.
    fn check(&mut self) -> Result<Option<CheckpointReport>, ForeignError>;
}

/// How a run ended, its checkpoint kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunOutcome {
    /// All steps are done.
    Finished(Step),
    /// A stop came after this many steps; the same command continues.
    Stopped(Step, StopRequest),
}
