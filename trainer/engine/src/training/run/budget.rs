//! How far a run is, and when it is over.

use telemetry::EventKind;
use telemetry::change::{ChangeReport, How};
use trainer_plan::Error;
use trainer_plan::run::time_budget::{Hours, share_done};

use super::Run;
use crate::training::interfaces::Host;

impl Run<'_> {
    /// Opens what is known of the hours of a run that ends by them.
    pub(super) fn open_hours(&mut self, trained_s: Option<f64>) -> Result<(), Error> {
        if let Some(hours) = self.plan().train.max_hours {
            self.hours = Some(Hours::open(self.store, hours, trained_s.unwrap_or(0.0), self.clock.elapsed_s())?);
        }
        Ok(())
    }

    /// The share of the run that is done, where another budget than steps has a say: the largest of all shares.
    pub(super) fn share(&self) -> Option<f64> {
        share_done(&self.plan().train, self.trainer.done(), self.tokens_consumed, self.hours.as_ref())
    }

    /// Whether a budget is spent.
    pub(super) fn is_over(&self) -> bool {
        self.trainer.done().0 >= self.plan().train.steps || self.share().is_some_and(|share| share >= 1.0)
    }

    /// Steps that are left, as far as anybody knows.
    pub(super) fn steps_left(&self) -> u64 {
        let done = self.trainer.done().0;
        match self.share() {
            None => self.plan().train.steps.saturating_sub(done),
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a guess, and not negative")]
            Some(share) if share > 0.0 => (done as f64 * (1.0 - share).max(0.0) / share) as u64,
            Some(_) => 0,
        }
    }

    /// Looks at the clock, where hours end the run. If they do, what comes at a run's end is due.
    pub(super) fn look_at_hours(&mut self) -> Result<(), Error> {
        let (elapsed_s, done) = (self.clock.elapsed_s(), self.trainer.done());
        if let Some(hours) = &mut self.hours {
            hours.look(self.store, done, elapsed_s)?;
            self.validation_pending |= self.is_over() && self.plan().validation.every_steps > 0;
        }
        Ok(())
    }

    /// Says what somebody changed in the middle of the run.
    pub(super) fn say_changes(&self, changes: Vec<telemetry::change::KeyChange>, host: &mut dyn Host) {
        if changes.is_empty() {
            return;
        }
        let words: Vec<String> = changes.iter().map(ToString::to_string).collect();
        let message = format!("continues with another configuration, as was allowed: {}", words.join(", "));
        let report = ChangeReport { how: How::Allow, message, keys: changes, from: None };
        self.say(host, EventKind::Change(report));
    }
}
