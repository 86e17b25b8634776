//! Host of the trainer: the run folder, the signals and the observers.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use cloze::finetune::ValidatedTask;
use cloze::run::bad_rows::RunBadRows;
use cloze::run::control::{Pending, Phase, Signal};
use cloze::run::dataset_versions::DatasetVersions;
use cloze::run::fault_injection::FaultInjector;
use cloze::run::folder::RunFolder;
use cloze::run::log_writer::PendingFlush;
use pipeline::exposure::Exposure;
use schemas::RowIndex;
use schemas::ordinal::Step;
use telemetry::quantities::{count, time};
use telemetry::training::CheckpointReport;
use telemetry::{EarlyProgress, Event, EventKind, Observer};
use trainer::training::checkpoint::CheckpointPolicy;
use trainer::training::{Host, Snapshot, ValidationScorer};
use trainer_plan::ForeignError;
use trainer_plan::checkpoint::State;
use trainer_plan::stop_request::StopRequest;

use super::profiler::Profiler;
use super::run_phase::Phases;
use super::task_scorer;

/// Host that writes the results of a run and forwards requests to the trainer.
pub(super) struct RunHost {
    /// Run folder. `None` for a run that saves nothing.
    pub(super) run: Option<RunFolder>,
    /// Dataset versions that the run reads from each folder. They are written before any batch is made.
    pub(super) versions: Vec<Arc<DatasetVersions>>,
    /// Bad rows of the run.
    pub(super) bad_rows: Arc<RunBadRows>,
    pub(super) identity: String,
    /// Number of uses of each document.
    pub(super) exposure: Arc<Mutex<Exposure>>,
    /// Fault injector. It records its kills in the folder.
    pub(super) faults: Option<Arc<FaultInjector>>,
    /// Names and contents of the files to write at the start of the run.
    pub(super) documents: Vec<(String, Vec<u8>)>,
    /// Checkpoint policy.
    pub(super) checkpoint_policy: Arc<CheckpointPolicy>,
    /// Observers in addition to the log.
    pub(super) observers: telemetry::Fanout,
    pub(super) phases: Phases,
    /// Number of steps of the whole run, if known.
    pub(super) steps: Option<u64>,
    pub(super) pending: Option<PendingCheckpoint>,
    pub(super) profiler: Profiler,
    /// Task of a fine-tuning, whose metrics the validations report.
    pub(super) task: Option<ValidatedTask>,
}

/// Checkpoint that is being written.
pub(super) struct PendingCheckpoint {
    step: Step,
    report: Pending<Result<CheckpointReport, trainer_plan::Error>>,
}

impl RunHost {
    /// Writes the last profile and the rest of the log.
    pub(super) fn close(mut self) -> std::io::Result<()> {
        self.profiler.close(&self.phases.control, self.run.as_ref().map(RunFolder::store));
        self.run.as_mut().map_or(Ok(()), RunFolder::flush)
    }
}

/// Returns the progress of a run, if the event has it.
fn progress_text(event: &Event, steps: Option<u64>) -> Option<String> {
    let eta_s = match &event.what {
        EventKind::Report(report) => report.speed.eta_s,
        EventKind::Start(_) | EventKind::Resume(_) => None,
        _ => return None,
    };
    let of = steps.map_or(String::new(), |steps| format!(" of {}", count(steps)));
    let eta = eta_s.map_or(String::new(), |seconds| format!(", ETA {}", time(seconds)));
    Some(format!("step {}{of}{eta}", count(event.at.step?.0)))
}

impl Observer for RunHost {
    fn observe(&mut self, event: &Event) {
        if let Some(text) = progress_text(event, self.steps) {
            self.phases.control.notify().progress(text);
        }
        self.observers.observe(event);
        if let Some(run) = &mut self.run {
            run.observe(event);
        }
    }

    fn progress(&mut self, progress: &EarlyProgress) {
        self.observers.progress(progress);
    }
}

impl Host for RunHost {
    fn stop(&self) -> Option<StopRequest> {
        self.phases.control.signal().map(|signal| match signal {
            Signal::Interrupt => StopRequest::Interrupt,
            Signal::Terminate => StopRequest::Terminate,
            Signal::Hangup => StopRequest::Hangup,
            Signal::Requeue => StopRequest::Requeue,
        })
    }

    fn begin(&mut self, from: Option<&State>) -> Result<(), ForeignError> {
        let Some(run) = &mut self.run else { return Ok(()) };
        for versions in &self.versions {
            versions.record_in(run.store().clone())?;
        }
        self.bad_rows.record_in(run.store().clone(), &self.identity, from.is_none())?;
        let rows = RowIndex(from.map_or(0, |state| state.rows_consumed));
        self.exposure.lock().unwrap_or_else(PoisonError::into_inner).begin(run.store(), rows)?;
        if let Some(faults) = &self.faults {
            faults.record_in(run.store().clone())?;
        }
        run.begin(&self.documents, from)?;
        if let Some(state) = from {
            self.checkpoint_policy.apply(run.store(), state)?;
        }
        Ok(())
    }

    fn has_ended(&mut self, state: &State) -> Result<(), ForeignError> {
        let Some(run) = &mut self.run else { return Ok(()) };
        run.write(&self.documents)?;
        Ok(self.checkpoint_policy.apply(run.store(), state)?)
    }

    fn save(&mut self, snapshot: Snapshot) -> Result<(), ForeignError> {
        assert!(self.pending.is_none(), "one checkpoint is written at a time");
        let Some(run) = &mut self.run else { return Ok(()) };
        self.phases.begin(Phase::Checkpoint);
        let log = run.begin_flush()?;
        let store = run.store().clone();
        let checkpoint_policy = Arc::clone(&self.checkpoint_policy);
        let pages = self.exposure.lock().unwrap_or_else(PoisonError::into_inner).end_page();
        self.phases.control.board().writes();
        let step = snapshot.state.step;
        let report = self.phases.control.spawn(move || {
            let begun = Instant::now();
            // A run that continues from the checkpoint has the complete log.
            log.map_or(Ok(()), PendingFlush::wait)?;
            // Written before the checkpoint, because they record the rows that the checkpoint has consumed.
            if let Some(pages) = pages {
                pages.write().map_err(|error| trainer_plan::Error::Foreign(error.into()))?;
            }
            let place = snapshot.write(&store, &checkpoint_policy)?;
            // The caller that waits for the checkpoint sets the stall.
            Ok(CheckpointReport { place, seconds: begun.elapsed().as_secs_f64(), stall_s: 0.0 })
        });
        self.pending = Some(PendingCheckpoint { step, report });
        self.phases.control.set_phase(Phase::Step);
        Ok(())
    }

    fn is_writing(&self) -> bool {
        self.pending.as_ref().is_some_and(|pending| !pending.report.is_finished())
    }

    fn saved(&mut self) -> Result<Option<CheckpointReport>, ForeignError> {
        let Some(PendingCheckpoint { step, report }) = self.pending.take() else { return Ok(None) };
        let phase = self.phases.control.board().phase();
        let control = &self.phases.control;
        control.set_phase(Phase::Checkpoint);
        let kept = control.wait(report).map_err(ForeignError::from).and_then(|kept| Ok(kept?));
        control.board().wrote(step.0, kept.as_ref().ok().map(|kept| kept.place.clone()));
        control.set_phase(phase);
        Ok(Some(kept?))
    }

    fn wants_checkpoint(&mut self) -> bool {
        self.phases.control.requests().is_save_wanted()
    }

    fn next_step(&mut self, done: Step) {
        if let Some(run) = &self.run {
            self.profiler.next_step(done, &self.phases.control, run.store());
        }
    }

    fn pending_events(&mut self) -> Vec<EventKind> {
        self.phases.control.requests().notes()
    }

    fn validation_scorer(&mut self) -> Option<Box<dyn ValidationScorer>> {
        task_scorer::scorer(self.task.as_ref()?)
    }

    fn check(&mut self) -> Result<Option<CheckpointReport>, ForeignError> {
        self.run.as_ref().map_or(Ok(()), RunFolder::check)?;
        if self.pending.as_ref().is_some_and(|pending| pending.report.is_finished()) { self.saved() } else { Ok(None) }
    }
}
