//! Progress of a run and its limits: steps, tokens and hours.

use telemetry::EventKind;
use telemetry::change::{ChangeReport, How};
use trainer_plan::Error;
use trainer_plan::run::time_budget::{TimeBudget, TimeReadings, share_spent};

use super::Run;
use crate::training::early_stop::EarlyStop;
use crate::training::interfaces::Host;

impl Run<'_> {
    /// Opens the time budget, if `train.max_hours` limits the run, with the readings that rank 0 finds.
    pub(super) fn open_time_budget(&mut self, trained_s: Option<f64>) -> Result<(), Error> {
        if let Some(hours) = self.plan().train.max_hours {
            let elapsed_s = self.elapsed_s()?;
            let readings = self.trainer.ranks().decide("the time budget", || TimeReadings::read(self.store))?;
            self.hours = Some(TimeBudget::new(readings, hours, trained_s.unwrap_or(0.0), elapsed_s));
        }
        Ok(())
    }

    /// Seconds of rank 0's process. The budget is that of one clock.
    fn elapsed_s(&self) -> Result<f64, Error> {
        self.trainer.ranks().decide("the clock", || Ok(self.clock.elapsed_s()))
    }

    /// Share of the tokens or hours that is spent. `None` if only steps limit the run.
    pub(super) fn share_spent(&self) -> Option<f64> {
        share_spent(&self.plan().train, self.trainer.done(), self.tokens_consumed, self.hours.as_ref())
    }

    /// Completed share of the run, the largest over all budgets. `None` if only steps limit the run.
    pub(super) fn share(&self) -> Option<f64> {
        let of_steps = self.trainer.done().0 as f64 / self.plan().train.steps as f64;
        self.share_spent().map(|share| share.max(of_steps))
    }

    /// Whether any budget is exhausted, or the validations no longer improve.
    pub(super) fn is_over(&self) -> bool {
        self.trainer.done().0 >= self.plan().train.steps
            || self.share().is_some_and(|share| share >= 1.0)
            || self.early_stop.as_ref().is_some_and(EarlyStop::is_over)
    }

    /// Estimated number of remaining steps.
    pub(super) fn steps_left(&self) -> u64 {
        let done = self.trainer.done().0;
        match self.share() {
            None => self.plan().train.steps.saturating_sub(done),
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "an estimate, and not negative"
            )]
            Some(share) if share > 0.0 => (done as f64 * (1.0 - share).max(0.0) / share) as u64,
            Some(_) => 0,
        }
    }

    /// Reads the clock, if `train.max_hours` limits the run. If the run is over, the final validation becomes due.
    pub(super) fn record_clock_reading(&mut self) -> Result<(), Error> {
        if self.hours.is_none() {
            return Ok(());
        }
        let elapsed_s = self.elapsed_s()?;
        let done = self.trainer.done();
        if let Some(hours) = &mut self.hours {
            hours.record(&self.records, done, elapsed_s)?;
            self.validation_pending |= self.is_over() && self.plan().validation.every_steps > 0;
        }
        Ok(())
    }

    /// Emits the identity keys that were changed in the middle of the run.
    pub(super) fn emit_key_changes(&self, changes: Vec<telemetry::change::KeyChange>, host: &mut dyn Host) {
        if changes.is_empty() {
            return;
        }
        let keys: Vec<String> = changes.iter().map(ToString::to_string).collect();
        let message = format!("resumed with a changed configuration, as allowed: {}", keys.join(", "));
        let report = ChangeReport { how: How::Allow, message, keys: changes, from: None };
        self.emit(host, EventKind::Change(report));
    }
}
