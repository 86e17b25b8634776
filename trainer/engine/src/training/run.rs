//! The training loop on one screen.
//!
//! The trainer is an actor because a thread owns it; as code it is a loop over batches. What is around it comes in
//! through two traits: [`Data`] gives batches, [`Host`] hears what the run has to say, keeps its checkpoints and knows
//! when to stop.

mod budget;
mod guarding;
mod keeping;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::time::Instant;

use schemas::ordinal::{RowIndex, Step};
use schemas::{Batch, StreamHash};
use store::Store;
use telemetry::change::KeyChange;
use telemetry::training::{ResumeReport, StepReport, Warning};
use telemetry::{Clock, EventKind, Position, host_memory};
use trainer_plan::Error;
use trainer_plan::TrainPlan;
use trainer_plan::checkpoint::{State, Validated};
use trainer_plan::run::sidecar_check;
use trainer_plan::run::skipped_steps::SkipList;
use trainer_plan::run::time_budget::Hours;
use trainer_plan::stop_request::StopRequest;

use crate::device::memory_stats::Gauge;
use crate::device::step_timer::{self, CHECKPOINT, REPORT, SYNCHRONIZE, VALIDATION, WAIT, timed};
use crate::device::{choice, native};
use crate::training::checkpoint::Snapshot;
use crate::training::interfaces::{Data, Host, RunOutcome};
use crate::training::process_group::ProcessGroup;
use crate::training::spike_guard::{GuardDecision, Observed};
use crate::training::step::{StepSeen, Trainer};
use crate::training::throughput::Pace;
use crate::training::validation::Validation;
use crate::training::{checkpoint, init_loss_check, oom_error, startup_report};

/// Trains from the newest checkpoint in `store`, or from the beginning, to the plan's last step or the first stop, as one
/// of `ranks`.
///
/// Call it on its own thread: libtorch keeps its helpers per thread.
pub fn run(
    plan: &TrainPlan,
    ranks: Box<dyn ProcessGroup>,
    store: &Store,
    clock: &Clock,
    data: &mut dyn Data,
    host: &mut dyn Host,
) -> Result<RunOutcome, Error> {
    let mut ranks = ranks;
    loop {
        let mut run = oom_error::within(plan, || Run::start(plan, ranks, store, clock))?;
        let outcome = match oom_error::within(plan, || run.until_it_ends(data, host)) {
            Ok(Ending::Over(outcome)) => Ok(outcome),
            // As after a kill: what it goes back to is found where a new process would find it.
            Ok(Ending::GoesBack) => {
                ranks = run.trainer.into_ranks();
                continue;
            }
            Err(error) => Err(error),
        };
        let save = || {
            run.save_what_is_whole(host);
            Ok(())
        };
        // Of steps that leap the run has learned what it must not keep.
        let is_kept = !matches!(outcome, Err(Error::Leaps { .. }));
        if outcome.is_err()
            && is_kept
            && let Err(error) = oom_error::within(plan, save)
        {
            tracing::warn!(%error, "nor could the steps since the newest checkpoint be saved");
        }
        run.say_how_it_ended(&outcome, host);
        return outcome;
    }
}

/// How a part of a run ends.
enum Ending {
    /// The run does, or its process.
    Over(RunOutcome),
    /// The run continues from an earlier checkpoint.
    GoesBack,
}

/// Whether something that happens `every` so many steps, and at the end, happens after `done` steps.
fn is_due(done: Step, every: u64, is_over: bool) -> bool {
    done.0 > 0 && every > 0 && (done.0.is_multiple_of(every) || is_over)
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
    // The steps that teach nothing.
    skips: SkipList,
    // What the newest validation found.
    validated: Option<Validated>,
    // Where hours end it.
    hours: Option<Hours>,
    // What it continues from, until it has begun.
    resumed: Option<Resumed>,
    // Steps done at the newest checkpoint.
    saved: Option<Step>,
    // Where that stood, while nobody knows yet whether it is kept.
    saving: Option<Saving>,
    // Steps done at the newest checkpoint that is kept for sure.
    kept: Option<Step>,
    // Whether weights, optimizer, report and position are all of the same step.
    is_whole: bool,
    pace: Pace,
    gauge: Gauge,
}

/// A checkpoint on its way.
struct Saving {
    at: Position,
    // How long the next step waited for it.
    stall_s: f64,
}

/// A checkpoint that was read.
struct Resumed {
    place: String,
    state: State,
    warnings: Vec<Warning>,
    changes: Vec<KeyChange>,
}

impl<'a> Run<'a> {
    fn start(
        plan: &TrainPlan,
        ranks: Box<dyn ProcessGroup>,
        store: &'a Store,
        clock: &'a Clock,
    ) -> Result<Self, Error> {
        let skips = SkipList::read(store)?;
        // Of a course that learned from what is to be skipped, the run never continues.
        if !skips.skips.is_empty() {
            trainer_plan::checkpoint::invalidate(store, |state| skips.learnt_by(state).is_some())?;
        }
        let trainer = Trainer::new(plan, ranks)?;
        startup_report::say(plan, trainer.device())?;
        let peak =
            choice::name(trainer.device()).and_then(|name| plan.train.precision.peak_flops(plan.train.tf32, &name));
        let mut run = Self {
            store,
            clock,
            rows_consumed: RowIndex(0),
            tokens_consumed: 0,
            batch_hash: StreamHash::new(),
            epochs: 0.0,
            validation_pending: false,
            skips,
            validated: None,
            hours: None,
            resumed: None,
            saved: None,
            saving: None,
            kept: None,
            is_whole: true,
            pace: Pace::start(peak.map(|peak| peak / plan.flops_per_token())),
            gauge: Gauge::start(trainer.device(), plan.memory().total())?,
            trainer,
        };
        match checkpoint::newest(store)? {
            Some((place, snapshot)) => run.resume(place, snapshot)?,
            None => run.trainer.begin()?,
        }
        let trained_s = run.resumed.as_ref().and_then(|resumed| resumed.state.trained_s);
        run.open_hours(trained_s)?;
        if let Some(resumed) = &run.resumed {
            sidecar_check::check(resumed.state.beside, store, plan, run.hours.as_ref())?;
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
        self.resumed = Some(Resumed { place, state, warnings, changes });
        Ok(())
    }

    fn until_it_ends(&mut self, data: &mut dyn Data, host: &mut dyn Host) -> Result<Ending, Error> {
        self.count_epochs(data)?;
        if self.is_over() && !self.validation_pending {
            return Ok(Ending::Over(RunOutcome::Finished(self.trainer.done())));
        }
        self.begin(data, host)?;
        loop {
            if self.validation_pending
                && let ControlFlow::Break(stop) = timed(VALIDATION, || self.validate(data, host))?
            {
                return self.stopped(stop, host);
            }
            let done = self.trainer.done();
            self.say_remarks(host);
            // Asked in any case: one checkpoint is enough for both.
            let is_wanted = self.is_save_wanted(host);
            if self.is_save_due() || is_wanted {
                timed(CHECKPOINT, || self.save(host))?;
            }
            step_timer::step_is_over();
            if self.is_over() {
                self.wait_until_saved(host)?;
                self.say_remarks(host);
                return Ok(Ending::Over(RunOutcome::Finished(done)));
            }
            host.next_step(done);
            self.trainer.know_stopwatch();
            match self.gather(data, host)? {
                ControlFlow::Continue(batches) => self.step(&batches, data, host)?,
                ControlFlow::Break(stop) => return self.stopped(stop, host),
            }
            self.start_if_first(host)?;
            let observed = self.report_if_due(data, host)?;
            match self.judge(&observed, host)? {
                ControlFlow::Continue(()) => {}
                ControlFlow::Break(GuardDecision::GoBack) => return Ok(Ending::GoesBack),
                ControlFlow::Break(GuardDecision::Pause) => return self.stopped(StopRequest::Guard, host),
            }
        }
    }

    fn begin(&mut self, data: &mut dyn Data, host: &mut dyn Host) -> Result<(), Error> {
        let resumed = self.resumed.take();
        host.begin(resumed.as_ref().map(|resumed| &resumed.state)).map_err(Error::Foreign)?;
        if let Some(Resumed { place, warnings, changes, .. }) = resumed {
            self.say(host, EventKind::Resume(ResumeReport { place }));
            self.say_changes(changes, host);
            for warning in warnings {
                self.say(host, EventKind::Warning(warning));
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

    fn at(&self) -> Position {
        Position {
            step: Some(self.trainer.done()),
            epoch: Some(self.epochs),
            rows_seen: Some(self.rows_consumed.0),
            tokens_seen: Some(self.tokens_consumed),
        }
    }

    fn say(&self, host: &mut dyn Host, what: EventKind) {
        host.observe(&self.clock.event(self.at(), what));
    }

    /// What others have to say.
    fn say_remarks(&self, host: &mut dyn Host) {
        for remark in host.remarks() {
            self.say(host, remark);
        }
    }

    /// The micro-batches of the next step, or who asked for a stop. What was gathered before a stop was not consumed.
    fn gather(
        &mut self,
        data: &mut dyn Data,
        host: &mut dyn Host,
    ) -> Result<ControlFlow<StopRequest, Vec<Batch>>, Error> {
        let mut batches = Vec::new();
        let (share, rows) = (self.trainer.ranks().share(), self.plan().train.micro_batch_size);
        let wanted = self.trainer.micro_batches();
        for own in 0..wanted {
            if host.stop().is_some() {
                break;
            }
            let asked = Instant::now();
            let batch = timed(WAIT, || data.next()).map_err(Error::Foreign)?;
            self.pace.wait(asked.elapsed());
            let Some(batch) = batch else { break };
            let (found, due) = (batch.first_row().0, share.rows(self.rows_consumed.0, own, rows));
            assert_eq!(found..found + batch.rows() as u64, due, "batch {} is not the one that is due", batch.index());
            batches.push(batch);
            data.remarks().into_iter().for_each(|remark| self.say(host, remark));
        }
        // Once a step, whatever this rank has gathered: all of them ask equally often.
        match self.stop(host) {
            Some(stop) => Ok(ControlFlow::Break(stop)),
            None if batches.len() as u64 == wanted => Ok(ControlFlow::Continue(batches)),
            None => Err(Error::Foreign("the stream of batches ended; it has no end".into())),
        }
    }

    fn step(&mut self, batches: &[Batch], data: &mut dyn Data, host: &mut dyn Host) -> Result<(), Error> {
        let before = self.trainer.done();
        let skip = self.skips.after(before).copied();
        if let Some(leap) = skip {
            self.say_what_is_skipped(leap, batches, data, host)?;
        }
        self.is_whole = false;
        if let Some(share) = self.share() {
            self.trainer.course.set_share(share);
        }
        let begun = Instant::now();
        let StepSeen { rows, tokens } =
            if skip.is_some() { self.trainer.pass_over(batches)? } else { self.trainer.step(batches)? };
        assert_eq!(self.trainer.done(), before.next(), "a step is one step");
        let digests = batches.iter().flat_map(Batch::row_digests).copied().collect();
        self.batch_hash.step(self.trainer.ranks().rows(digests));
        self.rows_consumed.0 += rows;
        data.consumed(self.rows_consumed, skip.is_none()).map_err(Error::Foreign)?;
        self.tokens_consumed += tokens;
        self.pace.step(tokens, begun.elapsed());
        let every = self.plan().validation.every_steps;
        self.validation_pending = is_due(self.trainer.done(), every, self.is_over());
        self.is_whole = true;
        self.count_epochs(data)
    }

    /// Says what the first step found. A run resumes behind it, so it is said once.
    fn start_if_first(&mut self, host: &mut dyn Host) -> Result<(), Error> {
        if self.trainer.done() != Step(1) {
            return Ok(());
        }
        let start = self.trainer.start()?;
        let warnings: Vec<Warning> = start.unexpected_losses.iter().map(init_loss_check::warning).collect();
        self.say(host, EventKind::Start(start));
        for warning in warnings {
            self.say(host, EventKind::Warning(warning));
        }
        self.check(host)
    }

    /// What was read of each step, if anything was.
    fn report_if_due(&mut self, data: &dyn Data, host: &mut dyn Host) -> Result<Vec<Observed>, Error> {
        if !is_due(self.trainer.done(), self.plan().report.every_steps, self.is_over()) {
            let is_full = self.trainer.guard.ring.is_full();
            return if is_full { timed(SYNCHRONIZE, || self.trainer.observe()) } else { Ok(Vec::new()) };
        }
        self.look_at_hours()?;
        self.is_whole = false;
        let begun = Instant::now();
        let (figures, observed) = timed(SYNCHRONIZE, || self.trainer.figures())?;
        self.pace.read(begun.elapsed());
        self.is_whole = true;
        let ((speed, phases), progress) = (self.pace.report(self.steps_left()), self.share());
        let (batch_hash, memory) = (self.batch_hash.to_hex(), self.gauge.read()?);
        let source_epochs = data.source_epochs(self.rows_consumed).map_err(Error::Foreign)?;
        let (losses, grad_norms) = observed.iter().map(|step| (step.loss, step.norm)).unzip();
        let (phases, host_bytes) = (Some(phases), host_memory::resident_bytes());
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
        };
        timed(REPORT, || {
            self.say(host, EventKind::Report(report));
            self.check(host)
        })?;
        Ok(observed)
    }

    /// Validates and reports. A stop that comes first leaves the validation pending.
    fn validate(&mut self, data: &mut dyn Data, host: &mut dyn Host) -> Result<ControlFlow<StopRequest>, Error> {
        // Steps that the device has still to do are training's time.
        native::synchronize(self.trainer.device())?;
        let begun = Instant::now();
        let mut validation = Validation::new(&self.trainer)?;
        for batch in data.validation().map_err(Error::Foreign)? {
            if host.stop().is_some() {
                break;
            }
            validation.add(&self.trainer, &batch.map_err(Error::Foreign)?)?;
        }
        // Once, however many batches are this rank's.
        if let Some(stop) = self.stop(host) {
            return Ok(ControlFlow::Break(stop));
        }
        let report = validation.finish(&self.trainer)?;
        self.note_figures(&report)?;
        self.say(host, EventKind::Validation(report));
        self.validation_pending = false;
        self.pace.validation(begun.elapsed());
        self.check(host)?;
        Ok(ControlFlow::Continue(()))
    }

    fn stopped(&mut self, stop: StopRequest, host: &mut dyn Host) -> Result<Ending, Error> {
        // Before what is kept of the log is decided: who said it was told that it would be there.
        self.say_remarks(host);
        if self.saved != Some(self.trainer.done()) {
            self.save(host)?;
        }
        self.wait_until_saved(host)?;
        Ok(Ending::Over(RunOutcome::Stopped(self.trainer.done(), stop)))
    }
}
