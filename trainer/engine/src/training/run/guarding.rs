//! What a run does about steps that leap.

use std::ops::ControlFlow;

use schemas::Batch;
use schemas::ordinal::{RowIndex, Step};
use telemetry::EventKind;
use telemetry::training::{LossSpikeReport, SkipReport, Suspect};
use trainer_plan::Error;
use trainer_plan::checkpoint;
use trainer_plan::config::SpikeAction;

use super::Run;
use crate::training::interfaces::{Data, Host};
use crate::training::spike_guard::{GuardDecision, Observed, Spike};

/// Rows that are named when a step is skipped.
const SUSPECTS: usize = 3;

impl Run<'_> {
    /// Looks at the steps that were just read, the last of which is the one that was just done.
    pub(super) fn judge(
        &mut self,
        observed: &[Observed],
        host: &mut dyn Host,
    ) -> Result<ControlFlow<GuardDecision>, Error> {
        let first = self.trainer.done().0 - observed.len() as u64;
        let leaps = self.trainer.guard.judge(observed);
        let leaps: Vec<_> =
            leaps.into_iter().map(|(place, leap)| self.leap(Step(first + place as u64), leap)).collect();
        let Some(leap) = leaps.first().copied() else { return Ok(ControlFlow::Continue(())) };
        let rule = self.plan().guard.action;
        match rule {
            SpikeAction::Skip if self.can_go_back(leap.spike_step, host)? => {
                self.decide_to_skip(leap)?;
                Ok(ControlFlow::Break(GuardDecision::GoBack))
            }
            _ => {
                for leap in leaps {
                    self.say(host, EventKind::LossSpike(leap));
                }
                let pauses = rule != SpikeAction::Warn;
                Ok(if pauses { ControlFlow::Break(GuardDecision::Pause) } else { ControlFlow::Continue(()) })
            }
        }
    }

    /// Whether a checkpoint before that step is kept. A run that has had none to make yet starts over, as after a kill.
    fn can_go_back(&mut self, spike_step: Step, host: &mut dyn Host) -> Result<bool, Error> {
        // A checkpoint of the course that is given up must not be put behind the back of who looks for an earlier one.
        self.wait_until_saved(host)?;
        let (done, every) = (spike_step.0 - 1, self.plan().checkpoints.every_steps);
        let can = done < every || checkpoint::steps(self.store)?.into_iter().any(|step| step.0 <= done);
        if !can {
            tracing::warn!(step = spike_step.0, "no checkpoint before that step is kept to go back to: the run pauses");
        }
        Ok(can)
    }

    /// The step after `done` steps `spike_step`.
    fn leap(&self, done: Step, Spike { figure, value, median, sigmas }: Spike) -> LossSpikeReport {
        let rows = self.plan().train.global_batch_size;
        LossSpikeReport {
            spike_step: done.next(),
            first_row: RowIndex(done.0 * rows),
            rows,
            figure,
            value,
            median,
            sigmas,
        }
    }

    /// Writes down that a step is skipped. What it is undone for is then known, whatever is killed.
    fn decide_to_skip(&mut self, leap: LossSpikeReport) -> Result<(), Error> {
        let (skips, allowed) = (self.skips.skips.len(), self.plan().guard.max_skips);
        if skips >= allowed {
            return Err(Error::Leaps { step: leap.spike_step, skips });
        }
        self.skips.add(self.store, leap)?;
        tracing::warn!(step = leap.spike_step.0, sigmas = leap.sigmas, "loss spike: rolling back to skip the step");
        Ok(())
    }

    /// Says which step is skipped, and what the model finds hardest of it. Nothing is learned.
    pub(super) fn say_what_is_skipped(
        &mut self,
        leap: LossSpikeReport,
        batches: &[Batch],
        data: &mut dyn Data,
        host: &mut dyn Host,
    ) -> Result<(), Error> {
        let mut rows = self.trainer.row_losses(batches)?;
        rows.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        let mut suspects = Vec::new();
        for (row, loss) in rows.into_iter().take(SUSPECTS) {
            suspects.push(Suspect { row, loss, documents: data.documents(row).map_err(Error::Foreign)? });
        }
        self.say(host, EventKind::Skip(SkipReport { leap, suspects }));
        Ok(())
    }
}
