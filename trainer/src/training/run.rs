//! The training loop on one screen.
//!
//! The trainer is an actor because a thread owns it; as code it is a loop over batches. What is around it comes in
//! through two traits: [`Data`] gives batches, [`Host`] hears what the run has to say, keeps its checkpoints and knows
//! when to stop.

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use observe::training::{CheckpointReport, ResumeReport, Speed, StepReport, StopReport, Warning, Why};
use observe::{At, Clock, What};
use schemas::ordinal::{RowIndex, Step};
use schemas::{Batch, StreamHash};
use store::Store;

use crate::device::choice;
use crate::error::Error;
use crate::plan::train_plan::TrainPlan;
use crate::training::around::{Data, Host, Outcome};
use crate::training::checkpoint::{Snapshot, State};
use crate::training::ranks::{Ranks, StopRequest};
use crate::training::resume::Position;
use crate::training::step::{StepSeen, Trainer};
use crate::training::validation::Validation;
use crate::training::{checkpoint, start};

/// Trains from the newest checkpoint in `store`, or from the beginning, to the plan's last step or the first stop, as one
/// of `ranks`.
///
/// Call it on a thread of its own: libtorch keeps its helpers per thread.
pub fn run(
    plan: &TrainPlan,
    ranks: Box<dyn Ranks>,
    store: &Store,
    clock: &Clock,
    data: &mut dyn Data,
    host: &mut dyn Host,
) -> Result<Outcome, Error> {
    let mut run = Run::start(plan, ranks, store, clock)?;
    let outcome = run.until_it_ends(data, host);
    run.say_how_it_ended(&outcome, host);
    outcome
}

/// Whether something that happens `every` so many steps, and at the end, happens after `done` steps.
fn is_due(done: Step, every: u64, steps: u64) -> bool {
    done.0 > 0 && every > 0 && (done.0.is_multiple_of(every) || done.0 == steps)
}

/// The loop's state.
struct Run<'a> {
    trainer: Trainer,
    store: &'a Store,
    clock: &'a Clock,
    // The position in the stream, over all ranks: what `resume` reads.
    rows_consumed: RowIndex,
    tokens_consumed: u64,
    batch_hash: StreamHash,
    // Passes over the training split.
    epochs: f64,
    validation_pending: bool,
    // What it goes on from, until it has begun.
    resumed: Option<Resumed>,
    // Steps done at the newest checkpoint.
    saved: Option<Step>,
    // Where that stood, while nobody knows yet whether it is kept.
    saving: Option<At>,
    pace: Pace,
    // Tokens per second at the device's peak.
    peak_rate: Option<f64>,
}

/// A checkpoint that was read.
struct Resumed {
    place: String,
    state: State,
    warnings: Vec<Warning>,
}

/// Wall time since the last report.
struct Pace {
    begun: Instant,
    waited: Duration,
    tokens: u64,
}

impl Pace {
    fn start() -> Self {
        Self { begun: Instant::now(), waited: Duration::ZERO, tokens: 0 }
    }
}

impl<'a> Run<'a> {
    fn start(plan: &TrainPlan, ranks: Box<dyn Ranks>, store: &'a Store, clock: &'a Clock) -> Result<Self, Error> {
        let trainer = Trainer::new(plan, ranks)?;
        let peak = choice::name(trainer.device()).and_then(|name| plan.train.precision.peak_flops(&name));
        let mut run = Self {
            store,
            clock,
            rows_consumed: RowIndex(0),
            tokens_consumed: 0,
            batch_hash: StreamHash::new(),
            epochs: 0.0,
            validation_pending: false,
            resumed: None,
            saved: None,
            saving: None,
            pace: Pace::start(),
            peak_rate: peak.map(|peak| peak / plan.flops_per_token()),
            trainer,
        };
        match checkpoint::newest(store)? {
            Some((place, snapshot)) => run.resume(place, snapshot)?,
            None => run.trainer.begin()?,
        }
        Ok(run)
    }

    fn resume(&mut self, place: String, snapshot: Snapshot) -> Result<(), Error> {
        let warnings = self.trainer.restore(&place, &snapshot)?;
        let state = snapshot.state;
        self.saved = Some(state.step);
        self.batch_hash = StreamHash::parse(&state.batch_hash)
            .map_err(|error| Error::Checkpoint { path: (&place).into(), problem: error.to_string() })?;
        self.rows_consumed = RowIndex(state.rows_consumed);
        self.tokens_consumed = state.tokens_consumed;
        self.validation_pending = state.validation_pending;
        self.resumed = Some(Resumed { place, state, warnings });
        Ok(())
    }

    fn until_it_ends(&mut self, data: &mut dyn Data, host: &mut dyn Host) -> Result<Outcome, Error> {
        self.count_epochs(data)?;
        let steps = self.plan().train.steps;
        if self.trainer.done().0 >= steps && !self.validation_pending {
            return Ok(Outcome::Finished(self.trainer.done()));
        }
        self.begin(data, host)?;
        loop {
            if self.validation_pending && !self.validate(data, host)? {
                return self.stopped(host);
            }
            let done = self.trainer.done();
            if self.saved != Some(done) && is_due(done, self.plan().checkpoints.every_steps, steps) {
                self.save(host)?;
            }
            if done.0 >= steps {
                self.wait_until_saved(host)?;
                return Ok(Outcome::Finished(done));
            }
            let Some(batches) = self.gather(data, host)? else { return self.stopped(host) };
            self.step(&batches, data)?;
            self.start_if_first(host)?;
            self.report_if_due(host)?;
        }
    }

    fn begin(&mut self, data: &mut dyn Data, host: &mut dyn Host) -> Result<(), Error> {
        let resumed = self.resumed.take();
        host.begin(resumed.as_ref().map(|resumed| &resumed.state)).map_err(Error::Foreign)?;
        if let Some(Resumed { place, warnings, .. }) = resumed {
            self.say(host, What::Resume(ResumeReport { place }));
            for warning in warnings {
                self.say(host, What::Warning(warning));
            }
        }
        data.seek(self.rows_consumed).map_err(Error::Foreign)
    }

    fn plan(&self) -> &TrainPlan {
        self.trainer.plan()
    }

    fn count_epochs(&mut self, data: &dyn Data) -> Result<(), Error> {
        self.epochs = data.epochs(self.rows_consumed).map_err(Error::Foreign)?;
        Ok(())
    }

    /// Whether anybody asked anywhere.
    fn stop(&self, host: &dyn Host) -> Option<StopRequest> {
        self.trainer.ranks().stop(host.stop())
    }

    fn at(&self) -> At {
        At {
            step: Some(self.trainer.done()),
            epoch: Some(self.epochs),
            rows_seen: Some(self.rows_consumed.0),
            tokens_seen: Some(self.tokens_consumed),
        }
    }

    fn say(&self, host: &mut dyn Host, what: What) {
        host.observe(&self.clock.event(self.at(), what));
    }

    /// The micro-batches of the next step; `None` for a stop. What was gathered before a stop was not consumed.
    fn gather(&mut self, data: &mut dyn Data, host: &mut dyn Host) -> Result<Option<Vec<Batch>>, Error> {
        let mut batches = Vec::new();
        let (share, rows) = (self.trainer.ranks().share(), self.plan().train.rows_per_micro_batch);
        for own in 0..self.trainer.micro_batches() {
            if self.stop(host).is_some() {
                return Ok(None);
            }
            let asked = Instant::now();
            let batch = data.next().map_err(Error::Foreign)?;
            self.pace.waited += asked.elapsed();
            let Some(batch) = batch else { return Ok(None) };
            let (found, due) = (batch.first_row().0, share.rows(self.rows_consumed.0, own, rows));
            assert_eq!(found..found + batch.rows() as u64, due, "batch {} is not the one that is due", batch.index());
            batches.push(batch);
            data.remarks().into_iter().for_each(|remark| self.say(host, remark));
        }
        Ok(Some(batches))
    }

    fn step(&mut self, batches: &[Batch], data: &dyn Data) -> Result<(), Error> {
        let before = self.trainer.done();
        let StepSeen { rows, tokens } = self.trainer.step(batches)?;
        assert_eq!(self.trainer.done(), before.next(), "a step is one step");
        let digests = batches.iter().flat_map(Batch::row_digests).copied().collect();
        self.batch_hash.step(self.trainer.ranks().rows(digests));
        self.rows_consumed.0 += rows;
        self.tokens_consumed += tokens;
        self.pace.tokens += tokens;
        self.count_epochs(data)?;
        let plan = self.plan();
        self.validation_pending = is_due(self.trainer.done(), plan.validation.every_steps, plan.train.steps);
        Ok(())
    }

    /// Says what the first step found. A run resumes behind it, so it is said once.
    fn start_if_first(&mut self, host: &mut dyn Host) -> Result<(), Error> {
        if self.trainer.done() != Step(1) {
            return Ok(());
        }
        let start = self.trainer.start()?;
        let warnings: Vec<Warning> = start.surprises.iter().map(start::warning).collect();
        self.say(host, What::Start(start));
        for warning in warnings {
            self.say(host, What::Warning(warning));
        }
        self.check(host)
    }

    fn report_if_due(&mut self, host: &mut dyn Host) -> Result<(), Error> {
        let plan = self.plan();
        if !is_due(self.trainer.done(), plan.report.every_steps, plan.train.steps) {
            return Ok(());
        }
        let figures = self.trainer.figures()?;
        let seconds = self.pace.begun.elapsed().as_secs_f64();
        let tokens_per_s = self.pace.tokens as f64 / seconds;
        let speed = Speed {
            tokens_per_s,
            mfu: self.peak_rate.map(|peak| tokens_per_s / peak),
            wait: self.pace.waited.as_secs_f64() / seconds,
        };
        self.pace = Pace::start();
        self.say(host, What::Report(StepReport { figures, batch_hash: self.batch_hash.to_hex(), speed }));
        self.check(host)
    }

    /// Validates and reports. False if a stop came first: the validation is then still pending.
    fn validate(&mut self, data: &mut dyn Data, host: &mut dyn Host) -> Result<bool, Error> {
        let begun = Instant::now();
        let mut validation = Validation::new(&self.trainer);
        for batch in data.validation().map_err(Error::Foreign)? {
            if self.stop(host).is_some() {
                return Ok(false);
            }
            validation.add(&self.trainer, &batch.map_err(Error::Foreign)?)?;
        }
        self.say(host, What::Validation(validation.finish(&self.trainer)?));
        self.validation_pending = false;
        // The next report's speed is that of training.
        self.pace.begun += begun.elapsed();
        self.check(host)?;
        Ok(true)
    }

    /// One rank saves for all: weights, optimizer and position are the same everywhere.
    fn save(&mut self, host: &mut dyn Host) -> Result<(), Error> {
        if self.trainer.ranks().share().is_first() {
            let position = Position {
                rows_consumed: self.rows_consumed.0,
                tokens_consumed: self.tokens_consumed,
                validation_pending: self.validation_pending,
                batch_hash: self.batch_hash.to_hex(),
            };
            let before = host.save(self.trainer.snapshot(position)?).map_err(Error::Foreign)?;
            self.confirm(before, host);
            self.saving = Some(self.at());
        }
        self.saved = Some(self.trainer.done());
        Ok(())
    }

    /// A failed write must not wait for the next checkpoint to be heard of.
    fn check(&mut self, host: &mut dyn Host) -> Result<(), Error> {
        let kept = host.check().map_err(Error::Foreign)?;
        self.confirm(kept, host);
        Ok(())
    }

    fn wait_until_saved(&mut self, host: &mut dyn Host) -> Result<(), Error> {
        let kept = host.saved().map_err(Error::Foreign)?;
        self.confirm(kept, host);
        Ok(())
    }

    /// Says that a checkpoint is kept, with where it stood.
    fn confirm(&mut self, kept: Option<CheckpointReport>, host: &mut dyn Host) {
        let Some(kept) = kept else { return };
        if let Some(at) = self.saving.take() {
            host.observe(&self.clock.event(at, What::Checkpoint(kept)));
        }
    }

    fn stopped(&mut self, host: &mut dyn Host) -> Result<Outcome, Error> {
        let stop =
            self.stop(host).ok_or_else(|| Error::Foreign("the stream of batches ended; it has no end".into()))?;
        if self.saved != Some(self.trainer.done()) {
            self.save(host)?;
        }
        self.wait_until_saved(host)?;
        Ok(Outcome::Stopped(self.trainer.done(), stop))
    }

    fn say_how_it_ended(&self, outcome: &Result<Outcome, Error>, host: &mut dyn Host) {
        let why = match outcome {
            Ok(Outcome::Finished(_)) => Why::Finished,
            Ok(Outcome::Stopped(_, StopRequest::Interrupt)) => Why::Interrupt,
            Ok(Outcome::Stopped(_, StopRequest::Terminate)) => Why::Terminate,
            Err(_) => Why::Failed,
        };
        let saved = self.saved == Some(self.trainer.done()) && self.saving.is_none();
        let error = outcome.as_ref().err().map(Error::to_string);
        self.say(host, What::Stop(StopReport { why, saved, place: self.store.place(""), error }));
    }
}
