//! Training loop.
//!
//! One thread owns the trainer and loops over batches. Two traits connect the loop to the program: [`Data`] returns
//! batches; [`Host`] observes events, writes checkpoints and requests stops.

mod among_ranks;
mod budget;
mod guarding;
mod keeping;
mod reporting;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use schemas::ordinal::{RowIndex, Step};
use schemas::{Batch, StreamHash};
use store::{FaultConfig, Store};
use telemetry::change::KeyChange;
use telemetry::training::{EnvironmentReport, ResumeReport, Warning};
use telemetry::{Clock, EventKind, Position};
use trainer_plan::Error;
use trainer_plan::TrainPlan;
use trainer_plan::checkpoint::{State, Validated};
use trainer_plan::run::sidecar_check;
use trainer_plan::run::skipped_steps::SkipList;
use trainer_plan::run::time_budget::TimeBudget;
use trainer_plan::stop_request::StopRequest;

use crate::device::memory_stats::Gauge;
use crate::device::step_timer::{self, CHECKPOINT, VALIDATION, WAIT, timed};
use crate::device::{choice, native};
use crate::training::checkpoint::Snapshot;
use crate::training::early_stop::EarlyStop;
use crate::training::interfaces::{Data, Host, RunOutcome};
use crate::training::process_group::ProcessGroup;
use crate::training::spike_guard::GuardDecision;
use crate::training::step::{StepResult, Trainer};
use crate::training::straggler::StragglerWatch;
use crate::training::throughput::Throughput;
use crate::training::validation::Validation;
use crate::training::{init_loss_check, oom_error, startup_report};

/// Trains from the newest checkpoint in `store`, or from the beginning, to the plan's last step or the first stop, as
/// one of `ranks`.
///
/// Call it on a dedicated thread: libtorch has its helper threads per calling thread.
pub fn run(
    plan: &TrainPlan,
    ranks: Arc<dyn ProcessGroup>,
    store: &Store,
    clock: &Clock,
    data: &mut dyn Data,
    host: &mut dyn Host,
) -> Result<RunOutcome, Error> {
    let mut ranks = ranks;
    loop {
        let group = Arc::clone(&ranks);
        let started = oom_error::wrap(plan, || Run::start(plan, ranks, store, clock));
        let mut run = started.inspect_err(|error| group.abort(&error.to_string()))?;
        drop(group);
        let outcome = match oom_error::wrap(plan, || run.until_it_ends(data, host)) {
            Ok(RunEnding::Over(outcome)) => Ok(outcome),
            // As after a kill: the next iteration finds the checkpoint as a new process would.
            Ok(RunEnding::GoesBack) => {
                ranks = run.trainer.into_ranks();
                continue;
            }
            Err(error) => Err(error),
        };
        let save = || {
            run.save_emergency_checkpoint(host);
            Ok(())
        };
        // Do not save after a loss spike: the weights include the bad update.
        let is_kept = !matches!(outcome, Err(Error::LossSpikes { .. }));
        if outcome.is_err()
            && is_kept
            && let Err(error) = oom_error::wrap(plan, save)
        {
            tracing::warn!(%error, "emergency checkpoint failed");
        }
        let outcome = run.leave_ranks(outcome);
        run.emit_stop(&outcome, host);
        return outcome;
    }
}

/// End of one pass through the training loop.
enum RunEnding {
    /// The run ends, or its process.
    Over(RunOutcome),
    /// The run continues from an earlier checkpoint.
    GoesBack,
}

/// Whether an action that is due every `every` steps, and at the end of the run, is due after `done` steps. `every = 0`
/// disables it.
fn is_due(done: Step, every: u64, is_over: bool) -> bool {
    done.0 > 0 && every > 0 && (done.0.is_multiple_of(every) || is_over)
}

/// State of the training loop.
struct Run<'a> {
    /// Number of early times at which progress was shown; all of them after the first report.
    early_shown: usize,
    trainer: Trainer,
    store: &'a Store,
    // Store of decisions that all ranks make in the same way: on rank 0 that of the run, else one that is discarded.
    records: Store,
    clock: &'a Clock,
    // Position in the stream over all ranks, which `resume` restores.
    rows_consumed: RowIndex,
    tokens_consumed: u64,
    batch_hash: StreamHash,
    // Passes over the training split.
    epochs: f64,
    validation_pending: bool,
    environment: EnvironmentReport,
    // Steps that are skipped without an update.
    skips: SkipList,
    // Result of the newest validation.
    validated: Option<Validated>,
    // If `validation.stop` may end the run.
    early_stop: Option<EarlyStop>,
    // If `train.max_hours` limits the run.
    hours: Option<TimeBudget>,
    // Checkpoint that the run resumes from, until `begin` takes it.
    resumed: Option<ResumedState>,
    // Steps done at the newest checkpoint.
    saved: Option<Step>,
    // Its position, while the write is not confirmed.
    saving: Option<Saving>,
    // Steps done at the newest checkpoint whose write is confirmed.
    kept: Option<Step>,
    // Whether weights, optimizer, report and position belong to the same step.
    is_whole: bool,
    pace: Throughput,
    stragglers: StragglerWatch,
    gauge: Gauge,
}

/// Checkpoint that is being written.
struct Saving {
    at: Position,
    // Seconds that the next step waited for it.
    stall_s: f64,
}

/// Checkpoint that the run resumes from.
struct ResumedState {
    place: String,
    state: State,
    warnings: Vec<Warning>,
    changes: Vec<KeyChange>,
}

impl<'a> Run<'a> {
    fn start(
        plan: &TrainPlan,
        ranks: Arc<dyn ProcessGroup>,
        store: &'a Store,
        clock: &'a Clock,
    ) -> Result<Self, Error> {
        let is_first = ranks.share().is_first();
        let skips = ranks.decide("the skipped steps", || {
            let skips = SkipList::read(store)?;
            // Never resume from a checkpoint that was trained on a skipped step.
            if !skips.skips.is_empty() {
                trainer_plan::checkpoint::invalidate(store, |state| skips.included_in(state).is_some())?;
            }
            Ok(skips)
        })?;
        let trainer = Trainer::new(plan, ranks)?;
        let environment = startup_report::report(plan, trainer.device(), trainer.threads())?;
        let peak =
            choice::name(trainer.device()).and_then(|name| plan.train.precision.peak_flops(plan.train.tf32, &name));
        let devices = f64::from(trainer.ranks().share().ranks());
        let mut run = Self {
            store,
            records: if is_first { store.clone() } else { Store::in_memory(FaultConfig::none()) },
            clock,
            rows_consumed: RowIndex(0),
            tokens_consumed: 0,
            batch_hash: StreamHash::new(),
            epochs: 0.0,
            validation_pending: false,
            environment,
            skips,
            validated: None,
            early_stop: plan.validation.stop.clone().map(|config| EarlyStop::new(config, None)),
            hours: None,
            resumed: None,
            saved: None,
            saving: None,
            kept: None,
            is_whole: true,
            pace: Throughput::start(peak.map(|peak| peak * devices / plan.flops_per_token()), trainer.ranks().waited()),
            stragglers: StragglerWatch::default(),
            early_shown: 0,
            gauge: Gauge::start(trainer.device(), plan.memory().total())?,
            trainer,
        };
        match run.newest_checkpoint()? {
            Some((place, snapshot)) => run.resume(place, snapshot)?,
            None => run.trainer.begin()?,
        }
        run.check_same_start()?;
        // Before the first backward pass, which has the peak of memory.
        run.trainer.ranks().connect_device(run.trainer.device())?;
        let trained_s = run.resumed.as_ref().and_then(|resumed| resumed.state.trained_s);
        run.open_time_budget(trained_s)?;
        if let Some(resumed) = &run.resumed {
            sidecar_check::check(resumed.state.sidecars, store, plan, run.hours.as_ref())?;
        }
        Ok(run)
    }

    fn resume(&mut self, place: String, snapshot: Snapshot) -> Result<(), Error> {
        self.skips.check(&place, &snapshot.state)?;
        let (warnings, changes) = self.trainer.restore(&place, &snapshot)?;
        let state = snapshot.state;
        (self.saved, self.kept) = (Some(state.step), Some(state.step));
        self.batch_hash = StreamHash::parse(&state.batch_hash)
            .map_err(|error| Error::Checkpoint { path: (&place).into(), problem: error.to_string() })?;
        self.rows_consumed = RowIndex(state.rows_consumed);
        self.tokens_consumed = state.tokens_consumed;
        self.validation_pending = state.validation_pending;
        let stop = self.plan().validation.stop.clone();
        self.early_stop = stop.map(|config| EarlyStop::new(config, state.early_stop.clone()));
        self.resumed = Some(ResumedState { place, state, warnings, changes });
        Ok(())
    }

    fn until_it_ends(&mut self, data: &mut dyn Data, host: &mut dyn Host) -> Result<RunEnding, Error> {
        self.count_epochs(data)?;
        if self.is_over() && !self.validation_pending {
            if let Some(resumed) = &self.resumed {
                host.has_ended(&resumed.state).map_err(Error::Foreign)?;
            }
            return Ok(RunEnding::Over(RunOutcome::Finished(self.trainer.done())));
        }
        self.begin(data, host)?;
        loop {
            if self.validation_pending
                && let ControlFlow::Break(stop) = timed(VALIDATION, || self.validate(data, host))?
            {
                return self.stopped(stop, host);
            }
            let done = self.trainer.done();
            self.emit_pending_events(host);
            // Always take the request: one checkpoint serves both purposes.
            let is_wanted = self.is_save_wanted(host)?;
            if self.is_save_due() || is_wanted {
                timed(CHECKPOINT, || self.save(host))?;
            }
            step_timer::step_is_over();
            if self.is_over() {
                self.wait_until_saved(host)?;
                self.emit_pending_events(host);
                return Ok(RunEnding::Over(RunOutcome::Finished(done)));
            }
            host.next_step(done);
            self.trainer.configure_step_timer();
            match self.gather(data, host)? {
                ControlFlow::Continue(batches) => self.step(&batches, data, host)?,
                ControlFlow::Break(stop) => return self.stopped(stop, host),
            }
            self.report_initial_losses(host)?;
            let observed = self.report_if_due(data, host)?;
            self.show_early_progress(&observed, host)?;
            match self.check_spikes(&observed, host)? {
                ControlFlow::Continue(()) => {}
                ControlFlow::Break(GuardDecision::RollBack) => return Ok(RunEnding::GoesBack),
                ControlFlow::Break(GuardDecision::Pause) => return self.stopped(StopRequest::Guard, host),
            }
        }
    }

    fn begin(&mut self, data: &mut dyn Data, host: &mut dyn Host) -> Result<(), Error> {
        let resumed = self.resumed.take();
        host.begin(resumed.as_ref().map(|resumed| &resumed.state)).map_err(Error::Foreign)?;
        if let Some(ResumedState { place, warnings, changes, .. }) = resumed {
            self.emit(host, EventKind::Resume(ResumeReport { place }));
            self.emit_key_changes(changes, host);
            for warning in warnings {
                self.emit(host, EventKind::Warning(warning));
            }
        }
        self.emit(host, EventKind::Environment(self.environment.clone()));
        data.seek(self.rows_consumed).map_err(Error::Foreign)
    }

    fn plan(&self) -> &TrainPlan {
        self.trainer.plan()
    }

    fn count_epochs(&mut self, data: &dyn Data) -> Result<(), Error> {
        self.epochs = data.epochs(self.rows_consumed).map_err(Error::Foreign)?;
        Ok(())
    }

    fn at(&self) -> Position {
        Position {
            step: Some(self.trainer.done()),
            epoch: Some(self.epochs),
            rows_seen: Some(self.rows_consumed.0),
            tokens_seen: Some(self.tokens_consumed),
        }
    }

    fn emit(&self, host: &mut dyn Host, what: EventKind) {
        host.observe(&self.clock.event(self.at(), what));
    }

    /// Emits the events of other components.
    fn emit_pending_events(&self, host: &mut dyn Host) {
        for remark in host.pending_events() {
            self.emit(host, remark);
        }
    }

    /// Collects the micro-batches of the next step, or returns the stop request. Batches that were collected before a
    /// stop are not consumed.
    fn gather(
        &mut self,
        data: &mut dyn Data,
        host: &mut dyn Host,
    ) -> Result<ControlFlow<StopRequest, Vec<Batch>>, Error> {
        let mut batches = Vec::new();
        let share = self.trainer.ranks().share();
        let rows = self.plan().train.micro_batch_size;
        let wanted = self.trainer.micro_batches();
        for own in 0..wanted {
            if host.stop().is_some() {
                break;
            }
            let Some(batch) = self.next_batch(data, host)? else { break };
            let found = batch.first_row().0;
            let due = share.rows(self.rows_consumed.0, own, rows);
            assert_eq!(found..found + batch.rows() as u64, due, "batch {} is not the one that is due", batch.index());
            batches.push(batch);
            data.remarks().into_iter().for_each(|remark| self.emit(host, remark));
        }
        // Once per step on every rank, whatever this rank has collected: all ranks must make the same calls.
        match self.stop(host)? {
            Some(stop) => Ok(ControlFlow::Break(stop)),
            None if batches.len() as u64 == wanted => Ok(ControlFlow::Continue(batches)),
            None => Err(Error::Foreign("the stream of batches ended, but it must be endless".into())),
        }
    }

    /// Waits for the next micro-batch, and handles requests meanwhile. `None` if a stop was requested.
    fn next_batch(&mut self, data: &mut dyn Data, host: &mut dyn Host) -> Result<Option<Batch>, Error> {
        loop {
            let asked = Instant::now();
            let batch = timed(WAIT, || data.next()).map_err(Error::Foreign)?;
            self.pace.wait(asked.elapsed());
            if batch.is_some() || host.stop().is_some() {
                return Ok(batch);
            }
            self.emit_pending_events(host);
            // The other ranks may be in their steps.
            if self.trainer.ranks().share().ranks() == 1 && self.is_save_wanted(host)? {
                timed(CHECKPOINT, || self.save(host))?;
                // The next step, which would confirm it, may be far.
                self.wait_until_saved(host)?;
            }
        }
    }

    fn step(&mut self, batches: &[Batch], data: &mut dyn Data, host: &mut dyn Host) -> Result<(), Error> {
        let before = self.trainer.done();
        let skip = self.skips.spike_after(before).copied();
        if let Some(spike) = skip {
            self.emit_skip(spike, batches, data, host)?;
        }
        self.is_whole = false;
        if let Some(share) = self.share_spent() {
            self.trainer.schedule.set_share(share);
        }
        let begun = Instant::now();
        let StepResult { rows, tokens } =
            if skip.is_some() { self.trainer.skip_step(batches)? } else { self.trainer.step(batches)? };
        assert_eq!(self.trainer.done(), before.next(), "a step advances the trainer by one");
        let digests: Vec<&[blake3::Hash]> = batches.iter().map(Batch::row_digests).collect();
        self.batch_hash.step(self.trainer.ranks().rows(&digests)?);
        self.rows_consumed.0 += rows;
        data.consumed(self.rows_consumed, skip.is_none(), self.trainer.ranks()).map_err(Error::Foreign)?;
        self.tokens_consumed += tokens;
        self.pace.step(tokens, begun.elapsed());
        let every = self.plan().validation.every_steps;
        self.validation_pending = is_due(self.trainer.done(), every, self.is_over());
        self.is_whole = true;
        self.count_epochs(data)
    }

    /// Reports the initial loss check after the first step. A resumed run starts behind it, so it is reported once.
    fn report_initial_losses(&mut self, host: &mut dyn Host) -> Result<(), Error> {
        if self.trainer.done() != Step(1) {
            return Ok(());
        }
        let start = self.trainer.start()?;
        let warnings: Vec<Warning> = start.unexpected_losses.iter().map(init_loss_check::warning).collect();
        self.emit(host, EventKind::Start(start));
        for warning in warnings {
            self.emit(host, EventKind::Warning(warning));
        }
        self.check(host)
    }

    /// Validates and reports. If a stop is requested before the end, the validation stays pending.
    fn validate(&mut self, data: &mut dyn Data, host: &mut dyn Host) -> Result<ControlFlow<StopRequest>, Error> {
        // Queued steps count as training time, not as validation time.
        native::synchronize(self.trainer.device())?;
        let begun = Instant::now();
        let waited = self.trainer.ranks().waited();
        let mut validation = Validation::new(&self.trainer)?;
        let mut scorer = host.validation_scorer();
        for batch in data.validation().map_err(Error::Foreign)? {
            if host.stop().is_some() {
                break;
            }
            let batch = batch.map_err(Error::Foreign)?;
            validation.add(&self.trainer, &batch, scorer.as_deref_mut().map(|scorer| scorer as _))?;
        }
        // Once per validation on every rank, however many batches this rank has.
        if let Some(stop) = self.stop(host)? {
            return Ok(ControlFlow::Break(stop));
        }
        let report = validation.finish(&self.trainer, scorer)?;
        self.record_scores(&report)?;
        let early_stop = self.compare_validation(&report);
        self.emit(host, EventKind::Validation(report));
        if let Some(report) = early_stop? {
            self.emit(host, EventKind::EarlyStop(report));
        }
        self.validation_pending = false;
        let rank_wait = self.trainer.ranks().waited().saturating_sub(waited);
        self.pace.validation(begun.elapsed(), rank_wait);
        self.check(host)?;
        Ok(ControlFlow::Continue(()))
    }

    fn stopped(&mut self, stop: StopRequest, host: &mut dyn Host) -> Result<RunEnding, Error> {
        // Emit pending events before the checkpoint fixes the end of the log, so that they are not lost.
        self.emit_pending_events(host);
        if self.saved != Some(self.trainer.done()) {
            self.save(host)?;
        }
        self.wait_until_saved(host)?;
        Ok(RunEnding::Over(RunOutcome::Stopped(self.trainer.done(), stop)))
    }
}
