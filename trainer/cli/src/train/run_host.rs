//! The run folder, the signals and the observers, as the trainer sees them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use cloze::run::bad_rows::RunLeftOut;
use cloze::run::control::{Pending, Phase, Signal};
use cloze::run::dataset_versions::DatasetVersions;
use cloze::run::fault_injection::FaultInjector;
use cloze::run::folder::RunFolder;
use pipeline::exposure::Exposure;
use schemas::RowIndex;
use schemas::ordinal::Step;
use telemetry::quantities::{count, time};
use telemetry::training::CheckpointReport;
use telemetry::{Event, EventKind, Observer};
use trainer::training::checkpoint::CheckpointPolicy;
use trainer::training::{Host, Snapshot};
use trainer_plan::ForeignError;
use trainer_plan::checkpoint::State;
use trainer_plan::stop_request::StopRequest;

use super::profiler::Profiler;
use super::run_phase::Phases;

/// Writes what a run produces, and passes requests on to it.
pub(super) struct RunHost {
    /// None for a run of which nothing is kept.
    pub(super) run: Option<RunFolder>,
    /// The dataset versions that it reads of each folder: written before any batch is made of them.
    pub(super) versions: Vec<Arc<DatasetVersions>>,
    /// Which rows it leaves out, and for which run.
    pub(super) left_out: Arc<RunLeftOut>,
    pub(super) identity: String,
    /// How often each document was learned.
    pub(super) ledger: Arc<Mutex<Exposure>>,
    /// Records in the folder the kills that it has done.
    pub(super) faults: Option<Arc<FaultInjector>>,
    /// Files that are written when the run begins, by name.
    pub(super) documents: Vec<(&'static str, String)>,
    /// How checkpoints are written.
    pub(super) keeping: Arc<CheckpointPolicy>,
    /// Observers in addition to the log.
    pub(super) observers: telemetry::Many,
    pub(super) phases: Phases,
    /// Steps of the whole run, where that is known.
    pub(super) steps: Option<u64>,
    pub(super) pending: Option<Pending<Result<CheckpointReport, trainer_plan::Error>>>,
    pub(super) profiler: Profiler,
}

impl RunHost {
    /// Keeps the last that was said.
    pub(super) fn close(mut self) -> std::io::Result<()> {
        self.profiler.close(&self.phases.control, self.run.as_ref().map(RunFolder::store));
        self.run.as_mut().map_or(Ok(()), RunFolder::flush)
    }
}

/// How far a run is, if an event says so.
fn how_far(event: &Event, steps: Option<u64>) -> Option<String> {
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
        if let Some(words) = how_far(event, self.steps) {
            self.phases.control.notify().progress(words);
        }
        self.observers.observe(event);
        if let Some(run) = &mut self.run {
            run.observe(event);
        }
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
            versions.keep_in(run.store().clone())?;
        }
        self.left_out.keep_in(run.store().clone(), &self.identity, from.is_none())?;
        let rows = RowIndex(from.map_or(0, |state| state.rows_consumed));
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner).begin(run.store(), rows)?;
        if let Some(faults) = &self.faults {
            faults.keep_in(run.store().clone())?;
        }
        Ok(run.begin(&self.documents, from)?)
    }

    fn save(&mut self, snapshot: Snapshot) -> Result<(), ForeignError> {
        assert!(self.pending.is_none(), "one checkpoint is written at a time");
        let Some(run) = &mut self.run else { return Ok(()) };
        self.phases.enter(Phase::Checkpoint);
        // Who continues from it misses no line.
        run.flush()?;
        let (store, keeping) = (run.store().clone(), Arc::clone(&self.keeping));
        let pages = self.ledger.lock().unwrap_or_else(PoisonError::into_inner).end_page();
        self.phases.control.board().writes();
        self.pending = Some(self.phases.control.spawn(move || {
            let begun = Instant::now();
            // Before the checkpoint: it says what the checkpoint has consumed.
            if let Some(pages) = pages {
                pages.write().map_err(|error| trainer_plan::Error::Foreign(error.into()))?;
            }
            let place = snapshot.write(&store, &keeping)?;
            // What the next step waited for it is known to whoever waited.
            Ok(CheckpointReport { place, seconds: begun.elapsed().as_secs_f64(), stall_s: 0.0 })
        }));
        self.phases.control.enter(Phase::Step);
        Ok(())
    }

    fn saved(&mut self) -> Result<Option<CheckpointReport>, ForeignError> {
        let Some(pending) = self.pending.take() else { return Ok(None) };
        let (phase, control) = (self.phases.control.board().phase(), &self.phases.control);
        control.enter(Phase::Checkpoint);
        let kept = control.wait(pending).map_err(ForeignError::from).and_then(|kept| Ok(kept?));
        control.board().wrote(kept.as_ref().ok().map(|kept| kept.place.clone()));
        control.enter(phase);
        Ok(Some(kept?))
    }

    fn wants_checkpoint(&mut self) -> bool {
        self.phases.control.wishes().is_save_wanted()
    }

    fn next_step(&mut self, done: Step) {
        if let Some(run) = &self.run {
            self.profiler.next_step(done, &self.phases.control, run.store());
        }
    }

    fn remarks(&mut self) -> Vec<EventKind> {
        self.phases.control.wishes().notes()
    }

    fn check(&mut self) -> Result<Option<CheckpointReport>, ForeignError> {
        self.run.as_mut().map_or(Ok(()), RunFolder::check)?;
        if self.pending.as_ref().is_some_and(Pending::is_finished) { self.saved() } else { Ok(None) }
    }
}
