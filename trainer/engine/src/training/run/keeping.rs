//! What a run keeps, when it is certain of it, and what it says at its end.

use std::time::Instant;

use schemas::ordinal::Step;
use telemetry::EventKind;
use telemetry::training::{CheckpointReport, StopReport, ValidReport, Why};
use trainer_plan::Error;
use trainer_plan::checkpoint;
use trainer_plan::checkpoint::Validated;
use trainer_plan::stop_request::StopRequest;

use super::{Run, Saving, is_due};
use crate::training::interfaces::{Host, RunOutcome};
use crate::training::resume::Position;

impl Run<'_> {
    /// One rank saves for all: weights, optimizer and position are the same everywhere.
    pub(super) fn save(&mut self, host: &mut dyn Host) -> Result<(), Error> {
        if self.trainer.ranks().share().is_first() {
            let begun = Instant::now();
            // Of two checkpoints in memory one would be pinned for nothing.
            self.wait_until_saved(host)?;
            let done = self.trainer.done();
            let validated = self.validated.take().filter(|validated| validated.step == done);
            let position = Position {
                rows_consumed: self.rows_consumed.0,
                tokens_consumed: self.tokens_consumed,
                validation_pending: self.validation_pending,
                batch_hash: self.batch_hash.to_hex(),
                skips: self.skips.among(done),
                trained_s: self.hours.as_ref().map(|hours| hours.trained_s(self.clock.elapsed_s())),
                readings: self.hours.as_ref().map_or(0, |hours| hours.readings_until(done)),
                validated,
            };
            host.save(self.trainer.snapshot(position)?).map_err(Error::Foreign)?;
            let stall = begun.elapsed();
            self.pace.stall(stall);
            self.saving = Some(Saving { at: self.at(), stall_s: stall.as_secs_f64() });
        } else {
            self.kept = Some(self.trainer.done());
        }
        self.saved = Some(self.trainer.done());
        Ok(())
    }

    /// A failed write must not wait for the next checkpoint to be heard of.
    pub(super) fn check(&mut self, host: &mut dyn Host) -> Result<(), Error> {
        let kept = host.check().map_err(Error::Foreign)?;
        self.confirm(kept, host);
        Ok(())
    }

    pub(super) fn wait_until_saved(&mut self, host: &mut dyn Host) -> Result<(), Error> {
        let kept = host.saved().map_err(Error::Foreign)?;
        self.confirm(kept, host);
        Ok(())
    }

    /// Says that a checkpoint is kept, with where it stood.
    fn confirm(&mut self, kept: Option<CheckpointReport>, host: &mut dyn Host) {
        let Some(kept) = kept else { return };
        if let Some(Saving { at, stall_s }) = self.saving.take() {
            self.kept = at.step;
            host.observe(&self.clock.event(at, EventKind::Checkpoint(CheckpointReport { stall_s, ..kept })));
        }
    }

    /// Whether the steps done are to be kept before there are more of them.
    pub(super) fn is_save_due(&self) -> bool {
        let (done, rules) = (self.trainer.done(), &self.plan().checkpoints);
        let is_due = |every| is_due(done, every, self.is_over());
        self.saved != Some(done) && (is_due(rules.every_steps) || is_due(rules.keep_every_steps))
    }

    /// Whether somebody wants them to be kept. Before the first step there is nothing to keep, and the wish stays.
    pub(super) fn is_save_wanted(&self, host: &mut dyn Host) -> bool {
        let done = self.trainer.done();
        done > Step(0) && host.wants_checkpoint() && self.saved != Some(done)
    }

    /// Keeps what a validation found for the checkpoint of its step: one that is made next, or one that was made before a stop
    /// came in the middle of the validation.
    pub(super) fn note_figures(&mut self, report: &ValidReport) -> Result<(), Error> {
        let validated = Validated::of(self.trainer.done(), report);
        if self.saved == Some(validated.step) && self.trainer.ranks().share().is_first() {
            checkpoint::note(self.store, &validated)?;
        }
        self.validated = Some(validated);
        Ok(())
    }

    /// An error costs no step that was learned whole, if there is a way to keep it.
    pub(super) fn save_what_is_whole(&mut self, host: &mut dyn Host) {
        let done = self.trainer.done();
        // What is on its way may still be kept; that is good to know.
        if let Err(error) = self.wait_until_saved(host) {
            tracing::warn!(%error, "the newest checkpoint could not be kept");
        }
        if !self.is_whole || done == Step(0) || self.kept == Some(done) {
            return;
        }
        // The error itself is on its way up.
        if let Err(error) = self.save(host).and_then(|()| self.wait_until_saved(host)) {
            tracing::warn!(%error, "nor could the steps since the newest checkpoint be saved");
        }
    }

    pub(super) fn say_how_it_ended(&mut self, outcome: &Result<RunOutcome, Error>, host: &mut dyn Host) {
        let why = match outcome {
            Ok(RunOutcome::Finished(_)) => Why::Finished,
            Ok(RunOutcome::Stopped(_, StopRequest::Interrupt)) => Why::Interrupt,
            Ok(RunOutcome::Stopped(_, StopRequest::Terminate)) => Why::Terminate,
            Ok(RunOutcome::Stopped(_, StopRequest::Hangup)) => Why::Hangup,
            Ok(RunOutcome::Stopped(_, StopRequest::Requeue)) => Why::Requeue,
            Ok(RunOutcome::Stopped(_, StopRequest::Guard)) => Why::Guard,
            Err(_) => Why::Failed,
        };
        let saved = self.kept == Some(self.trainer.done());
        let error = outcome.as_ref().err().map(Error::to_string);
        let place = self.store.place("");
        let memory = self.gauge.peak();
        self.say(host, EventKind::Stop(StopReport { why, saved, kept: self.kept, place, error, memory }));
    }
}
