//! Steps of a run again: for who asks what happened in one of them.
//!
//! # What
//! A trainer that stands where a checkpoint of the run does, or at its beginning, and does the steps that follow once more.
//! Nothing of it is kept.
//!
//! # Why
//! A step is a function of the weights before it, its rows and its number. So the loss of any step can be had again, with the
//! same bits where the run's are (`train.deterministic` on a GPU, equal threads on a CPU), and with other rows to compare.

use schemas::ordinal::{RowIndex, Step};
use schemas::{Batch, StreamHash};
use store::Store;
use telemetry::training::LossSpikeReport;
use trainer_plan::Error;
use trainer_plan::TrainPlan;
use trainer_plan::run::sidecar_check;
use trainer_plan::run::skipped_steps::SkipList;
use trainer_plan::run::time_budget::{Hours, share_done};

use crate::training::checkpoint;
use crate::training::oom_error;
use crate::training::process_group::SingleProcess;
use crate::training::resume::Position;
use crate::training::spike_guard::Observed;
use crate::training::step::Trainer;

/// A run on its way once more.
#[derive(Debug)]
pub struct Replay {
    trainer: Trainer,
    skips: SkipList,
    rows_consumed: RowIndex,
    tokens_consumed: u64,
    batch_hash: StreamHash,
    // Where hours end the run.
    hours: Option<Hours>,
    from: Option<String>,
}

impl Replay {
    /// Stands at the newest checkpoint of at most `done` steps, or at the beginning.
    ///
    /// # Errors
    /// As a run that continues.
    pub fn start(plan: &TrainPlan, run: &Store, done: Step) -> Result<Self, Error> {
        let (skips, found) = (SkipList::read(run)?, checkpoint::before(run, done)?);
        // Equal numbers give equal bits.
        let plan =
            found.as_ref().map_or_else(|| plan.clone(), |(_, snapshot)| plan.with_threads(snapshot.state.threads));
        oom_error::beside(&plan, || {
            let mut trainer = Trainer::new(&plan, Box::new(SingleProcess))?;
            let (mut rows, mut tokens, mut batch_hash, mut from) = (RowIndex(0), 0, StreamHash::new(), None);
            let hours = plan.train.max_hours.map(|hours| Hours::open(run, hours, 0.0, 0.0)).transpose()?;
            if let Some((place, snapshot)) = found {
                skips.check(&place, &snapshot.state)?;
                sidecar_check::check(snapshot.state.beside, run, &plan, hours.as_ref())?;
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
            replay.look_how_far_it_is();
            Ok(replay)
        })
    }

    /// The checkpoint that it began with; none where that was the beginning.
    #[must_use]
    pub fn from(&self) -> Option<&str> {
        self.from.as_deref()
    }

    /// Steps done.
    #[must_use]
    pub fn done(&self) -> Step {
        self.trainer.done()
    }

    /// Rows that they took: where the next step begins.
    #[must_use]
    pub fn rows_consumed(&self) -> RowIndex {
        self.rows_consumed
    }

    /// The running hash of these rows, as reports have it.
    #[must_use]
    pub fn batch_hash(&self) -> &StreamHash {
        &self.batch_hash
    }

    /// Why the next step is skipped, if it is.
    #[must_use]
    pub fn skipped(&self) -> Option<&LossSpikeReport> {
        self.skips.after(self.trainer.done())
    }

    /// The learning rate of the next step.
    #[must_use]
    pub fn lr(&self) -> f64 {
        self.trainer.lr(self.trainer.done())
    }

    /// Each row's own loss by the weights as they are: see [`Trainer::row_losses`].
    ///
    /// # Errors
    /// If libtorch fails.
    pub fn row_losses(&self, batches: &[Batch]) -> Result<Vec<(RowIndex, f64)>, Error> {
        oom_error::beside(self.trainer.plan(), || self.trainer.row_losses(batches))
    }

    /// Does the next step with these micro-batches, as the run does it: it may be one that is skipped.
    ///
    /// # Errors
    /// If libtorch fails.
    pub fn step(&mut self, batches: &[Batch]) -> Result<(), Error> {
        let plan = self.trainer.plan().clone();
        oom_error::beside(&plan, || {
            if self.trainer.guard.ring.is_full() {
                self.trainer.observe()?;
            }
            let skipped = self.skipped().is_some();
            let seen = if skipped { self.trainer.pass_over(batches)? } else { self.trainer.step(batches)? };
            self.batch_hash.step(batches.iter().flat_map(Batch::row_digests).copied());
            self.rows_consumed.0 += seen.rows;
            self.tokens_consumed += seen.tokens;
            self.look_how_far_it_is();
            Ok(())
        })
    }

    /// Loss and norm of the next step with these micro-batches. It is taken back: the step is still to be done.
    ///
    /// # Errors
    /// If libtorch fails.
    pub fn attempt(&mut self, batches: &[Batch]) -> Result<Observed, Error> {
        let plan = self.trainer.plan().clone();
        let (rows_consumed, tokens_consumed, batch_hash) = (self.rows_consumed, self.tokens_consumed, self.batch_hash);
        let before = oom_error::beside(&plan, || {
            self.trainer.snapshot(Position {
                rows_consumed: rows_consumed.0,
                tokens_consumed,
                validation_pending: false,
                batch_hash: batch_hash.to_hex(),
                skips: self.skips.among(self.trainer.done()),
                trained_s: None,
                readings: 0,
                validated: None,
            })
        })?;
        self.step(batches)?;
        let seen = self.observed()?;
        oom_error::beside(&plan, || self.trainer.load("the step before", &before))?;
        (self.rows_consumed, self.tokens_consumed, self.batch_hash) = (rows_consumed, tokens_consumed, batch_hash);
        self.look_how_far_it_is();
        Ok(seen)
    }

    /// Where tokens or hours end the run, the learning rate of the next step goes by how far it is.
    fn look_how_far_it_is(&mut self) {
        let train = &self.trainer.plan().train;
        if let Some(share) = share_done(train, self.trainer.done(), self.tokens_consumed, self.hours.as_ref()) {
            self.trainer.course.set_share(share);
        }
    }

    /// Loss and norm of the last step; not numbers where it was skipped. Waits for the device.
    ///
    /// # Errors
    /// If libtorch fails.
    ///
    /// # Panics
    /// If there was no step.
    pub fn observed(&mut self) -> Result<Observed, Error> {
        let steps = self.trainer.observe()?;
        Ok(*steps.last().expect("a step was done"))
    }
}
