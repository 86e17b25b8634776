//! Checkpoints of a run: saving, confirmation of writes, and the final event.

use std::time::Instant;

use schemas::ordinal::Step;
use telemetry::EventKind;
use telemetry::training::{CheckpointReport, StopReason, StopReport, ValidReport};
use trainer_plan::Error;
use trainer_plan::checkpoint;
use trainer_plan::checkpoint::Validated;
use trainer_plan::stop_request::StopRequest;

use super::{Run, Saving, is_due};
use crate::training::early_stop::EarlyStop;
use crate::training::interfaces::{Host, RunOutcome};
use crate::training::resume::Position;

impl Run<'_> {
    /// Saves a checkpoint. The first rank saves for all, because weights, optimizer and position are equal on all
    /// ranks; the weights are compared.
    pub(super) fn save(&mut self, host: &mut dyn Host) -> Result<(), Error> {
        self.trainer.move_sums_to_first_rank()?;
        self.check_same_weights()?;
        let moments = self.trainer.gather_moments()?;
        let begun = Instant::now();
        // At most one checkpoint in memory, to limit pinned memory.
        self.wait_until_saved(host)?;
        if self.trainer.ranks().share().is_first() {
            let done = self.trainer.done();
            let validated = self.validated.take().filter(|validated| validated.step == done);
            let position = Position {
                rows_consumed: self.rows_consumed.0,
                tokens_consumed: self.tokens_consumed,
                validation_pending: self.validation_pending,
                batch_hash: self.batch_hash.to_hex(),
                skips: self.skips.skipped_among(done),
                trained_s: self.hours.as_ref().map(|hours| hours.trained_s(self.clock.elapsed_s())),
                readings: self.hours.as_ref().map_or(0, |hours| hours.readings_until(done)),
                early_stop: self.early_stop.as_ref().and_then(EarlyStop::saved),
                validated,
            };
            host.save(self.trainer.snapshot(position, moments)?).map_err(Error::Foreign)?;
            let stall = begun.elapsed();
            self.pace.stall(stall);
            self.saving = Some(Saving { at: self.at(), stall_s: stall.as_secs_f64() });
        } else {
            self.kept = Some(self.trainer.done());
        }
        self.saved = Some(self.trainer.done());
        Ok(())
    }

    /// Checks for failed writes, so that an error surfaces before the next checkpoint.
    pub(super) fn check(&mut self, host: &mut dyn Host) -> Result<(), Error> {
        let kept = host.check().map_err(Error::Foreign)?;
        self.confirm(kept, host);
        Ok(())
    }

    /// Waits until the last checkpoint is written, on all ranks.
    pub(super) fn wait_until_saved(&mut self, host: &mut dyn Host) -> Result<(), Error> {
        self.wait_for_writer(host)?;
        self.confirm_saved(host)
    }

    fn confirm_saved(&mut self, host: &mut dyn Host) -> Result<(), Error> {
        let kept = host.saved().map_err(Error::Foreign)?;
        self.confirm(kept, host);
        Ok(())
    }

    /// Emits the event of a written checkpoint, with the position of its step.
    fn confirm(&mut self, kept: Option<CheckpointReport>, host: &mut dyn Host) {
        let Some(kept) = kept else { return };
        if let Some(Saving { at, stall_s }) = self.saving.take() {
            self.kept = at.step;
            host.observe(&self.clock.event(at, EventKind::Checkpoint(CheckpointReport { stall_s, ..kept })));
        }
    }

    /// Whether a checkpoint is due before the next step.
    pub(super) fn is_save_due(&self) -> bool {
        let done = self.trainer.done();
        let rules = &self.plan().checkpoints;
        let is_due = |every| is_due(done, every, self.is_over());
        // The best checkpoint is kept, so it must be saved when it is the best.
        let is_best = self.early_stop.as_ref().is_some_and(|stop| stop.is_best(done));
        self.saved != Some(done) && (is_due(rules.every_steps) || is_due(rules.keep_every_steps) || is_best)
    }

    /// Whether a checkpoint was requested. Before the first step there is nothing to save, and the request stays
    /// pending.
    pub(super) fn is_save_wanted(&self, host: &mut dyn Host) -> Result<bool, Error> {
        let done = self.trainer.done();
        if done == Step(0) {
            return Ok(false);
        }
        let is_wanted = self.trainer.ranks().decide("requests for a checkpoint", || Ok(host.wants_checkpoint()))?;
        Ok(is_wanted && self.saved != Some(done))
    }

    /// Records the result of a validation for the checkpoint of its step. That checkpoint is either saved next, or was
    /// saved earlier when a stop interrupted the validation.
    pub(super) fn record_scores(&mut self, report: &ValidReport) -> Result<(), Error> {
        let validated = Validated::new(self.trainer.done(), report);
        if self.saved == Some(validated.step) && self.trainer.ranks().share().is_first() {
            checkpoint::note(self.store, &validated)?;
        }
        self.validated = Some(validated);
        Ok(())
    }

    /// Saves a checkpoint after an error, if the last step is complete and not saved yet. Several ranks continue from the
    /// newest checkpoint instead: the others, which have a part of the sums for the report, may not answer.
    pub(super) fn save_emergency_checkpoint(&mut self, host: &mut dyn Host) {
        let done = self.trainer.done();
        // A checkpoint in flight may still be written successfully.
        if let Err(error) = self.confirm_saved(host) {
            tracing::warn!(%error, "newest checkpoint could not be written");
        }
        let is_alone = self.trainer.ranks().share().ranks() == 1;
        if !is_alone || !self.is_whole || done == Step(0) || self.kept == Some(done) {
            return;
        }
        // The caller returns the original error, so this one is only logged.
        if let Err(error) = self.save(host).and_then(|()| self.wait_until_saved(host)) {
            tracing::warn!(%error, "emergency checkpoint failed");
        }
    }

    pub(super) fn emit_stop(&mut self, outcome: &Result<RunOutcome, Error>, host: &mut dyn Host) {
        let why = match outcome {
            Ok(RunOutcome::Finished(_)) => StopReason::Finished,
            Ok(RunOutcome::Stopped(_, StopRequest::Interrupt)) => StopReason::Interrupt,
            Ok(RunOutcome::Stopped(_, StopRequest::Terminate)) => StopReason::Terminate,
            Ok(RunOutcome::Stopped(_, StopRequest::Hangup)) => StopReason::Hangup,
            Ok(RunOutcome::Stopped(_, StopRequest::Requeue)) => StopReason::Requeue,
            Ok(RunOutcome::Stopped(_, StopRequest::Guard)) => StopReason::Guard,
            Err(_) => StopReason::Failed,
        };
        let saved = self.kept == Some(self.trainer.done());
        let error = outcome.as_ref().err().map(Error::to_string);
        let place = self.store.place("");
        let memory = self.gauge.peak();
        self.emit(host, EventKind::Stop(StopReport { why, saved, kept: self.kept, place, error, memory }));
    }
}
