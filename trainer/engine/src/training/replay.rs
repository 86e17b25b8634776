//! Replay of steps of a run, to examine one of them.
//!
//! # What
//! A trainer starts from a checkpoint of the run, or from its beginning, and repeats the steps that follow. The replay
//! saves nothing.
//!
//! # Why
//! A step is a function of the weights before it, its rows and its number. A replay therefore reproduces the loss of
//! any step, and can compare it with other rows. The result is bit-identical if the run is reproducible: with
//! `train.deterministic` on a GPU, with the same number of threads on a CPU. A run of several ranks is repeated within
//! rounding, because a replay is a single process.

use std::sync::Arc;

use schemas::ordinal::{RowIndex, Step};
use schemas::{Batch, StreamHash};
use store::Store;
use telemetry::training::LossSpikeReport;
use trainer_plan::Error;
use trainer_plan::TrainPlan;
use trainer_plan::run::sidecar_check;
use trainer_plan::run::skipped_steps::SkipList;
use trainer_plan::run::time_budget::{TimeBudget, share_spent};

use crate::training::checkpoint;
use crate::training::oom_error;
use crate::training::process_group::SingleProcess;
use crate::training::resume::Position;
use crate::training::spike_guard::Observed;
use crate::training::step::Trainer;

/// Replay of a run.
#[derive(Debug)]
pub struct Replay {
    trainer: Trainer,
    skips: SkipList,
    rows_consumed: RowIndex,
    tokens_consumed: u64,
    batch_hash: StreamHash,
    // If `train.max_hours` limits the run.
    hours: Option<TimeBudget>,
    from: Option<String>,
}

impl Replay {
    /// Starts from the newest checkpoint of at most `done` steps, or from the beginning.
    ///
    /// # Errors
    /// The errors of a resumed run.
    pub fn start(plan: &TrainPlan, run: &Store, done: Step) -> Result<Self, Error> {
        let skips = SkipList::read(run)?;
        let found = checkpoint::newest_before(run, done)?;
        // The same number of threads gives bit-identical results.
        let plan =
            found.as_ref().map_or_else(|| plan.clone(), |(_, snapshot)| plan.with_threads(snapshot.state.threads));
        oom_error::wrap_read_only(&plan, || {
            let mut trainer = Trainer::new(&plan, Arc::new(SingleProcess))?;
            let mut rows = RowIndex(0);
            let mut tokens = 0;
            let mut batch_hash = StreamHash::new();
            let mut from = None;
            let hours = plan.train.max_hours.map(|hours| TimeBudget::open(run, hours, 0.0, 0.0)).transpose()?;
            if let Some((place, snapshot)) = found {
                skips.check(&place, &snapshot.state)?;
                sidecar_check::check(snapshot.state.sidecars, run, &plan, hours.as_ref())?;
                for warning in trainer.restore(&place, &snapshot)?.0 {
                    tracing::warn!("{}", warning.message);
                }
                (rows, tokens) = (RowIndex(snapshot.state.rows_consumed), snapshot.state.tokens_consumed);
                batch_hash = StreamHash::parse(&snapshot.state.batch_hash)
                    .map_err(|error| Error::Checkpoint { path: (&place).into(), problem: error.to_string() })?;
                from = Some(place);
            } else {
                trainer.begin()?;
            }
            let mut replay =
                Self { trainer, skips, rows_consumed: rows, tokens_consumed: tokens, batch_hash, hours, from };
            replay.update_progress();
            Ok(replay)
        })
    }

    /// Checkpoint that the replay started from; `None` if it started from the beginning.
    #[must_use]
    pub fn from(&self) -> Option<&str> {
        self.from.as_deref()
    }

    /// Number of steps done.
    #[must_use]
    pub fn done(&self) -> Step {
        self.trainer.done()
    }

    /// Number of rows consumed, which is the first row of the next step.
    #[must_use]
    pub fn rows_consumed(&self) -> RowIndex {
        self.rows_consumed
    }

    /// Running hash of the consumed rows, as in reports.
    #[must_use]
    pub fn batch_hash(&self) -> &StreamHash {
        &self.batch_hash
    }

    /// Loss spike for which the next step is skipped; `None` if it is not skipped.
    #[must_use]
    pub fn skipped(&self) -> Option<&LossSpikeReport> {
        self.skips.spike_after(self.trainer.done())
    }

    /// Learning rate of the next step.
    #[must_use]
    pub fn lr(&self) -> f64 {
        self.trainer.lr(self.trainer.done())
    }

    /// Computes the loss of each row alone with the current weights: see [`Trainer::row_losses`].
    ///
    /// # Errors
    /// If libtorch fails.
    pub fn row_losses(&self, batches: &[Batch]) -> Result<Vec<(RowIndex, f64)>, Error> {
        oom_error::wrap_read_only(self.trainer.plan(), || self.trainer.row_losses(batches))
    }

    /// Does the next step with these micro-batches. If the run skipped the step, the replay skips it too.
    ///
    /// # Errors
    /// If libtorch fails.
    pub fn step(&mut self, batches: &[Batch]) -> Result<(), Error> {
        let plan = self.trainer.plan().clone();
        oom_error::wrap_read_only(&plan, || {
            if self.trainer.guard.ring.is_full() {
                self.trainer.observe()?;
            }
            let skipped = self.skipped().is_some();
            let seen = if skipped { self.trainer.skip_step(batches)? } else { self.trainer.step(batches)? };
            self.batch_hash.step(batches.iter().flat_map(Batch::row_digests).copied());
            self.rows_consumed.0 += seen.rows;
            self.tokens_consumed += seen.tokens;
            self.update_progress();
            Ok(())
        })
    }

    /// Returns loss and gradient norm of the next step with these micro-batches, and undoes the step.
    ///
    /// # Errors
    /// If libtorch fails.
    pub fn attempt(&mut self, batches: &[Batch]) -> Result<Observed, Error> {
        let plan = self.trainer.plan().clone();
        let rows_consumed = self.rows_consumed;
        let tokens_consumed = self.tokens_consumed;
        let batch_hash = self.batch_hash;
        let before = oom_error::wrap_read_only(&plan, || {
            let position = Position {
                rows_consumed: rows_consumed.0,
                tokens_consumed,
                validation_pending: false,
                batch_hash: batch_hash.to_hex(),
                skips: self.skips.skipped_among(self.trainer.done()),
                trained_s: None,
                readings: 0,
                early_stop: None,
                validated: None,
            };
            self.trainer.snapshot(position, self.trainer.gather_moments()?)
        })?;
        self.step(batches)?;
        let seen = self.observed()?;
        oom_error::wrap_read_only(&plan, || self.trainer.load("the step before", &before))?;
        (self.rows_consumed, self.tokens_consumed, self.batch_hash) = (rows_consumed, tokens_consumed, batch_hash);
        self.update_progress();
        Ok(seen)
    }

    /// Sets the progress that the learning rate of the next step depends on, if tokens or hours limit the run.
    fn update_progress(&mut self) {
        let train = &self.trainer.plan().train;
        if let Some(share) = share_spent(train, self.trainer.done(), self.tokens_consumed, self.hours.as_ref()) {
            self.trainer.schedule.set_share(share);
        }
    }

    /// Returns loss and gradient norm of the last step, NaN if the step was skipped. Waits for the device.
    ///
    /// # Errors
    /// If libtorch fails.
    ///
    /// # Panics
    /// If no step was done.
    pub fn observed(&mut self) -> Result<Observed, Error> {
        let steps = self.trainer.observe()?;
        Ok(*steps.last().expect("a step was done"))
    }
}
