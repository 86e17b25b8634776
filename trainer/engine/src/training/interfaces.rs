//! Interfaces of a run: the source of its batches, and the host that observes events, writes checkpoints and requests
//! stops.

use std::collections::BTreeMap;

use schemas::Batch;
use schemas::ordinal::{RowIndex, Step};
use telemetry::training::CheckpointReport;
use telemetry::{EventKind, Observer};
use trainer_plan::ForeignError;
use trainer_plan::checkpoint::State;
use trainer_plan::stop_request::StopRequest;

use crate::training::checkpoint::Snapshot;
use crate::training::process_group::ProcessGroup;

/// Source of batches.
pub trait Data {
    /// Moves the training stream behind its first `rows` rows.
    fn seek(&mut self, rows: RowIndex) -> Result<(), ForeignError>;

    /// Returns the next micro-batch of this rank in the training stream, which has no end. `None` if a stop or anything
    /// else was requested of the run while waiting: the caller handles it and asks again.
    fn next(&mut self) -> Result<Option<Batch>, ForeignError>;

    /// Returns the batches of the validation split, from the first. In addition to the views of the run they have the
    /// view [`VALID_MLM`](trainer_plan::requirements::VALID_MLM).
    fn validation(&mut self) -> Result<Box<dyn Iterator<Item = Result<Batch, ForeignError>> + '_>, ForeignError>;

    /// Number of passes over the training split in the first `rows` rows of the stream.
    fn epochs(&self, rows: RowIndex) -> Result<f64, ForeignError>;

    /// Number of passes over each source of a mixture in the first `rows` rows of the stream, by name. Empty if there
    /// is one source.
    fn source_epochs(&self, _rows: RowIndex) -> Result<BTreeMap<String, f64>, ForeignError> {
        Ok(BTreeMap::new())
    }

    /// Notes that the rows of the stream up to `end` are consumed by all ranks. `_learned` says whether the step trained on
    /// the new rows or skipped them. Every rank calls it, so that the records of rank 0 can have the rows of the others.
    fn consumed(&mut self, _end: RowIndex, _learned: bool, _ranks: &dyn ProcessGroup) -> Result<(), ForeignError> {
        Ok(())
    }

    /// Returns the ids of the documents in a row of the training stream, for display.
    fn documents(&mut self, _row: RowIndex) -> Result<Vec<String>, ForeignError> {
        Ok(Vec::new())
    }

    /// Returns the events about the batches that were returned since the last call.
    fn remarks(&mut self) -> Vec<EventKind> {
        Vec::new()
    }
}

/// Host of a run: it writes checkpoints, observes events and may stop the run.
///
/// Observing an event cannot fail. [`check`](Self::check) returns the errors that occurred while events were written.
pub trait Host: Observer {
    /// Stop request, if there is one.
    fn stop(&self) -> Option<StopRequest>;

    /// Starts the run from this state, or from the beginning, after all checks passed. No event and no checkpoint
    /// precedes this call, unless the run rolls back. In a rollback, events of later steps belong to the abandoned
    /// steps.
    fn begin(&mut self, from: Option<&State>) -> Result<(), ForeignError>;

    /// Called in place of [`begin`](Self::begin) for a run that has no step left. Keys that change no number, such as
    /// the retention rules, may be others than before.
    fn has_ended(&mut self, _state: &State) -> Result<(), ForeignError> {
        Ok(())
    }

    /// Starts to write a checkpoint ([`Snapshot::write`]) and returns without waiting. The run has waited for the
    /// previous checkpoint with [`saved`](Self::saved).
    fn save(&mut self, snapshot: Snapshot) -> Result<(), ForeignError>;

    /// Whether a checkpoint is being written, so that [`saved`](Self::saved) would wait.
    fn is_writing(&self) -> bool {
        false
    }

    /// Waits until the last checkpoint is written. Returns its report.
    fn saved(&mut self) -> Result<Option<CheckpointReport>, ForeignError>;

    /// Whether a checkpoint of the current state was requested. The call takes the request.
    fn wants_checkpoint(&mut self) -> bool {
        false
    }

    /// Called on the training thread before the step that follows `_done` steps. An implementation may start or stop
    /// the measurement of [`step_timer`](crate::device::step_timer) here.
    fn next_step(&mut self, _done: Step) {}

    /// Returns the events of other components since the last call. The run emits them with its own position.
    fn pending_events(&mut self) -> Vec<EventKind> {
        Vec::new()
    }

    /// Returns the scorer of the next validation, if the host computes metrics of predictions.
    fn validation_scorer(&mut self) -> Option<Box<dyn ValidationScorer>> {
        None
    }

    /// Returns write errors, or the report of the last checkpoint if it is written by now. Does not wait.
    fn check(&mut self) -> Result<Option<CheckpointReport>, ForeignError>;
}

/// Computes metrics from the predictions of one validation. The trainer does not know what they mean.
pub trait ValidationScorer {
    /// Objective whose scores are read.
    fn objective(&self) -> &str;

    /// Adds a batch of the validation, and the scores of each of its rows: one number per output, and per position if
    /// the objective scores positions.
    fn add(&mut self, batch: &Batch, scores: Vec<Vec<f64>>) -> Result<(), ForeignError>;

    /// Returns the metrics by their names within the objective. A metric without a value is NaN.
    fn finish(self: Box<Self>) -> BTreeMap<String, f64>;
}

/// End of a run. Its last checkpoint is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunOutcome {
    /// All steps are done.
    Finished(Step),
    /// Stopped after this many steps. The same command resumes the run.
    Stopped(Step, StopRequest),
}
