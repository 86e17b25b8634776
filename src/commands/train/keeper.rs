//! The run folder, the signals and those who watch, as the trainer sees them.

use std::sync::Arc;
use std::time::Instant;

use observe::training::CheckpointReport;
use observe::{Event, Observer};
use trainer::ForeignError;
use trainer::training::{Host, Snapshot, State, StopRequest};

use super::phases::Phases;
use crate::control::{Pending, Phase, Signal};
use crate::generations::RunGenerations;
use crate::run_folder::RunFolder;

/// Keeps what a run makes and says.
pub(super) struct Keeper {
    /// None for a run of which nothing is kept.
    pub(super) run: Option<RunFolder>,
    /// Which generations of each folder it reads: written down before any batch is made of them.
    pub(super) generations: Vec<Arc<RunGenerations>>,
    /// What else goes into the folder when the run begins, by name.
    pub(super) papers: Vec<(&'static str, String)>,
    /// Checkpoints that stay.
    pub(super) keep: usize,
    /// Those who watch beside the log.
    pub(super) readers: observe::Many,
    pub(super) phases: Phases,
    pub(super) pending: Option<Pending<Result<CheckpointReport, trainer::Error>>>,
}

impl Keeper {
    /// Keeps the last that was said.
    pub(super) fn close(mut self) -> std::io::Result<()> {
        self.run.as_mut().map_or(Ok(()), RunFolder::flush)
    }
}

impl Observer for Keeper {
    fn observe(&mut self, event: &Event) {
        self.readers.observe(event);
        if let Some(run) = &mut self.run {
            run.observe(event);
        }
    }
}

impl Host for Keeper {
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
        for generations in &self.generations {
            generations.keep_in(run.store().clone())?;
        }
        Ok(run.begin(&self.papers, from)?)
    }

    fn save(&mut self, snapshot: Snapshot) -> Result<(), ForeignError> {
        assert!(self.pending.is_none(), "one checkpoint is written at a time");
        let Some(run) = &mut self.run else { return Ok(()) };
        self.phases.enter(Phase::Checkpoint);
        // Who goes on from it misses no line.
        run.flush()?;
        let (store, keep) = (run.store().clone(), self.keep);
        self.pending = Some(self.phases.control.spawn(move || {
            let begun = Instant::now();
            let place = snapshot.write(&store, keep)?;
            Ok(CheckpointReport { place, seconds: begun.elapsed().as_secs_f64() })
        }));
        self.phases.control.enter(Phase::Step);
        Ok(())
    }

    fn saved(&mut self) -> Result<Option<CheckpointReport>, ForeignError> {
        let Some(pending) = self.pending.take() else { return Ok(None) };
        Ok(Some(self.phases.control.wait(pending)??))
    }

    fn check(&mut self) -> Result<Option<CheckpointReport>, ForeignError> {
        self.run.as_mut().map_or(Ok(()), RunFolder::check)?;
        if self.pending.as_ref().is_some_and(Pending::is_finished) { self.saved() } else { Ok(None) }
    }
}
