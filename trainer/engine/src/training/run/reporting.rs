//! Reports of a run, and its early progress.

use std::time::{Duration, Instant};

use telemetry::EventKind;
use telemetry::host::resident_bytes;
use telemetry::training::StepReport;
use trainer_plan::Error;

use super::{Run, is_due};
use crate::device::step_timer::{REPORT, SYNCHRONIZE, timed};
use crate::training::interfaces::{Data, Host};
use crate::training::spike_guard::Observed;
use crate::training::step::ReportFigures;
use crate::training::straggler::gather_reports;

/// Times of a process at which loss and speed are shown if it has made no report yet: reports may be minutes apart.
const EARLY: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(30)];

impl Run<'_> {
    /// Shows loss and speed at the [`EARLY`] times of the process, if no report was made until then.
    pub(super) fn show_early_progress(&mut self, observed: &[Observed], host: &mut dyn Host) -> Result<(), Error> {
        if !observed.is_empty() {
            self.early_shown = EARLY.len();
        }
        // A rank knows its part of the loss.
        let is_alone = self.trainer.ranks().share().ranks() == 1;
        let is_due = is_alone && EARLY.get(self.early_shown).is_some_and(|time| self.pace.trained() >= *time);
        let loss = if is_due { self.trainer.last_loss()? } else { None };
        let Some(loss) = loss else { return Ok(()) };
        self.early_shown += 1;
        host.progress(&self.pace.early_progress(self.trainer.done().0, loss, self.steps_left()));
        Ok(())
    }

    /// Emits a report if one is due, or if the ring of losses is full: a report has every loss since the one before.
    /// Returns loss and norm of the steps that were read, if any.
    pub(super) fn report_if_due(&mut self, data: &dyn Data, host: &mut dyn Host) -> Result<Vec<Observed>, Error> {
        let is_due = is_due(self.trainer.done(), self.plan().report.every_steps, self.is_over());
        if !is_due && !self.trainer.guard.ring.is_full() {
            return Ok(Vec::new());
        }
        self.record_clock_reading()?;
        self.is_whole = false;
        let begun = Instant::now();
        let ReportFigures { figures, gains, observed } = timed(SYNCHRONIZE, || self.trainer.figures())?;
        self.pace.read(begun.elapsed());
        self.is_whole = true;
        let ranks = gather_reports(&self.pace, self.trainer.ranks())?;
        let (speed, phases) = self.pace.report(self.steps_left(), self.trainer.ranks().waited());
        let progress = self.share();
        let batch_hash = self.batch_hash.to_hex();
        let memory = self.gauge.read()?;
        let source_epochs = data.source_epochs(self.rows_consumed).map_err(Error::Foreign)?;
        let (losses, grad_norms) = observed.iter().map(|step| (step.loss, step.norm)).unzip();
        let phases = Some(phases);
        let host_bytes = resident_bytes();
        let report = StepReport {
            figures,
            losses,
            grad_norms,
            batch_hash,
            progress,
            speed,
            source_epochs,
            phases,
            memory,
            host_bytes,
            ranks,
        };
        let straggler = self.stragglers.check(&report.ranks);
        timed(REPORT, || {
            self.emit(host, EventKind::Report(report));
            if let Some(warning) = straggler {
                self.emit(host, EventKind::Warning(warning));
            }
            self.check_detectors(&gains, host);
            self.check(host)
        })?;
        Ok(observed)
    }
}
