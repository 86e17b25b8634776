//! Reaction of a run to loss spikes and collapsed detectors.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use schemas::Batch;
use schemas::ordinal::{RowIndex, Step};
use telemetry::EventKind;
use telemetry::training::{LossSpikeReport, SkipReport, SuspectRow};
use trainer_plan::Error;
use trainer_plan::checkpoint;
use trainer_plan::config::SpikeAction;
use trainer_plan::metric_name::MetricName;

use super::Run;
use crate::training::interfaces::{Data, Host};
use crate::training::metric_accumulator::Gain;
use crate::training::spike_guard::{GuardDecision, Observed, Spike};

/// Number of rows that the event of a skipped step names.
const SUSPECTS: usize = 3;

impl Run<'_> {
    /// Checks the steps that were read. The last of them is the step that was done last.
    pub(super) fn check_spikes(
        &mut self,
        observed: &[Observed],
        host: &mut dyn Host,
    ) -> Result<ControlFlow<GuardDecision>, Error> {
        let first = self.trainer.done().0 - observed.len() as u64;
        let spikes = self.trainer.guard.find_spikes(observed);
        let spikes: Vec<_> =
            spikes.into_iter().map(|(at, spike)| self.report_of(Step(first + at as u64), spike)).collect();
        let Some(spike) = spikes.first().copied() else { return Ok(ControlFlow::Continue(())) };
        let action = self.plan().guard.action;
        match action {
            SpikeAction::Skip if self.can_roll_back(spike.spike_step, host)? => {
                self.decide_to_skip(spike)?;
                Ok(ControlFlow::Break(GuardDecision::RollBack))
            }
            _ => {
                for spike in spikes {
                    self.emit(host, EventKind::LossSpike(spike));
                }
                let pauses = action != SpikeAction::Warn;
                Ok(if pauses { ControlFlow::Break(GuardDecision::Pause) } else { ControlFlow::Continue(()) })
            }
        }
    }

    /// Emits the warnings about detectors that have collapsed, by the gains of a report.
    pub(super) fn check_detectors(&mut self, gains: &BTreeMap<MetricName, Gain>, host: &mut dyn Host) {
        let is_warm = self.trainer.done().0 >= self.plan().schedule.warmup_steps.saturating_mul(2);
        for warning in self.trainer.detectors.check(gains, self.tokens_consumed, is_warm) {
            self.emit(host, EventKind::Warning(warning));
        }
    }

    /// Whether a checkpoint before the step exists. Before the first checkpoint was due, the run can start over
    /// instead.
    fn can_roll_back(&mut self, spike_step: Step, host: &mut dyn Host) -> Result<bool, Error> {
        // A checkpoint in flight includes the bad step. It must not appear after the rollback has selected an earlier
        // one.
        self.wait_until_saved(host)?;
        let done = spike_step.0 - 1;
        let every = self.plan().checkpoints.every_steps;
        let exists = || checkpoint::steps(self.store).map(|steps| steps.into_iter().any(|step| step.0 <= done));
        let can = self.trainer.ranks().decide("the checkpoints", || Ok(done < every || exists()?))?;
        if !can {
            tracing::warn!(
                step = spike_step.0,
                "loss spike: no checkpoint before the step, so the run pauses instead of rolling back"
            );
        }
        Ok(can)
    }

    /// Report of a spike in the step after `done` steps.
    fn report_of(&self, done: Step, Spike { figure, value, median, sigmas }: Spike) -> LossSpikeReport {
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

    /// Records that the step is skipped. The record precedes the rollback, so that a kill cannot lose the decision.
    fn decide_to_skip(&mut self, spike: LossSpikeReport) -> Result<(), Error> {
        let skips = self.skips.skips.len();
        let allowed = self.plan().guard.max_skips;
        if skips >= allowed {
            return Err(Error::LossSpikes { step: spike.spike_step, skips });
        }
        self.skips.add(&self.records, spike)?;
        tracing::warn!(step = spike.spike_step.0, sigmas = spike.sigmas, "loss spike: rolling back to skip the step");
        Ok(())
    }

    /// Emits the skipped step with its rows of the highest loss. Does not update weights.
    pub(super) fn emit_skip(
        &mut self,
        spike: LossSpikeReport,
        batches: &[Batch],
        data: &mut dyn Data,
        host: &mut dyn Host,
    ) -> Result<(), Error> {
        let mut suspects = Vec::new();
        for (row, loss) in self.highest_losses(batches)? {
            suspects.push(SuspectRow { row, loss, documents: data.documents(row).map_err(Error::Foreign)? });
        }
        self.emit(host, EventKind::Skip(SkipReport { spike, suspects }));
        Ok(())
    }

    /// Returns the rows of the highest loss on any rank. `batches` are those of this rank.
    fn highest_losses(&self, batches: &[Batch]) -> Result<Vec<(RowIndex, f64)>, Error> {
        let own = self.trainer.row_losses(batches)?;
        let own: Vec<u8> =
            own.iter().flat_map(|(row, loss)| [row.0.to_le_bytes(), loss.to_le_bytes()]).flatten().collect();
        let all = self.trainer.ranks().gather("losses of rows", &own)?;
        let of_bytes = |pair: &[[u8; 8]; 2]| (RowIndex(u64::from_le_bytes(pair[0])), f64::from_le_bytes(pair[1]));
        let mut rows: Vec<(RowIndex, f64)> =
            all.iter().flat_map(|rank| rank.as_chunks::<8>().0.as_chunks::<2>().0.iter().map(of_bytes)).collect();
        rows.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        rows.truncate(SUSPECTS);
        Ok(rows)
    }
}
