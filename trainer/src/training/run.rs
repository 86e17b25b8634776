//! The training loop on one screen.
//!
//! The trainer is an actor because a thread owns it; as code it is a loop over batches. What is around it comes in
//! through two traits: [`Data`] gives batches, [`Host`] takes what the run has to say and knows when to stop.

use std::path::Path;
use std::time::{Duration, Instant};

use schemas::ordinal::{BatchIndex, Step};
use schemas::{Batch, StreamHash};

use crate::device::choice;
use crate::error::{Error, ForeignError};
use crate::plan::train_plan::TrainPlan;
use crate::training::checkpoint;
use crate::training::checkpoint::Snapshot;
use crate::training::report::{Report, Speed, StepReport};
use crate::training::resume::Position;
use crate::training::step::Trainer;
use crate::training::validation::Validation;

/// Where batches come from.
pub trait Data {
    /// Makes `batch` the next one of the training stream.
    fn seek(&mut self, batch: BatchIndex) -> Result<(), ForeignError>;

    /// The next micro-batch of the training stream, which has no end; `None` if a stop was asked for while waiting.
    fn next(&mut self) -> Result<Option<Batch>, ForeignError>;

    /// The batches of the valid split, with the view [`VALID_MLM`](crate::training::validation::VALID_MLM) beside the run's own,
    /// from the first.
    fn validation(&mut self) -> Result<Box<dyn Iterator<Item = Result<Batch, ForeignError>> + '_>, ForeignError>;
}

/// Where results go to, and where a stop comes from.
pub trait Host {
    /// Whether somebody asked the run to stop.
    fn stop(&self) -> Option<Stop>;

    /// Shows and logs a report.
    fn report(&mut self, report: &Report) -> Result<(), ForeignError>;

    /// Takes a checkpoint to write ([`Snapshot::write`]); returns once the one before is on disk.
    fn save(&mut self, snapshot: Snapshot) -> Result<(), ForeignError>;

    /// Returns once the last checkpoint is on disk.
    fn saved(&mut self) -> Result<(), ForeignError>;
}

/// Who asked for the stop; decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// SIGINT: 130.
    Interrupt,
    /// SIGTERM: 143.
    Terminate,
}

/// How a run ended, its checkpoint on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All steps are done.
    Finished(Step),
    /// A stop came after this many steps; the same command goes on.
    Stopped(Step, Stop),
}

/// Trains from the newest checkpoint, or from the beginning, to the plan's last step or the first stop.
///
/// Call it on a thread of its own: libtorch keeps its helpers per thread.
pub fn run(plan: &TrainPlan, data: &mut dyn Data, host: &mut dyn Host) -> Result<Outcome, Error> {
    let mut run = Run::start(plan)?;
    data.seek(run.next_batch()).map_err(Error::Foreign)?;
    loop {
        if run.validation_pending && !run.validate(data, host)? {
            return run.stopped(host);
        }
        let done = run.trainer.done();
        if run.saved != Some(done) && is_due(done, plan.checkpoints.every_steps, plan.train.steps) {
            run.save(host)?;
        }
        if done.0 >= plan.train.steps {
            host.saved().map_err(Error::Foreign)?;
            return Ok(Outcome::Finished(done));
        }
        let Some(batches) = run.gather(data, host)? else { return run.stopped(host) };
        run.step(&batches)?;
        run.start_if_first(host)?;
        run.report_if_due(host)?;
    }
}

/// Whether something that happens `every` so many steps, and at the end, happens after `done` steps.
fn is_due(done: Step, every: u64, steps: u64) -> bool {
    done.0 > 0 && every > 0 && (done.0.is_multiple_of(every) || done.0 == steps)
}

/// The loop's state.
struct Run {
    trainer: Trainer,
    batch_hash: StreamHash,
    validation_pending: bool,
    // Steps done at the newest checkpoint.
    saved: Option<Step>,
    clock: Clock,
    // Tokens per second at the device's peak.
    peak_rate: Option<f64>,
}

/// Wall time since the last report.
struct Clock {
    begun: Instant,
    waited: Duration,
    tokens: u64,
}

impl Clock {
    fn start() -> Self {
        Self { begun: Instant::now(), waited: Duration::ZERO, tokens: 0 }
    }
}

impl Run {
    fn start(plan: &TrainPlan) -> Result<Self, Error> {
        let trainer = Trainer::new(plan)?;
        let peak = choice::name(trainer.device()).and_then(|name| plan.train.precision.peak_flops(&name));
        let mut run = Self {
            batch_hash: StreamHash::new(),
            validation_pending: false,
            saved: None,
            clock: Clock::start(),
            peak_rate: peak.map(|peak| peak / plan.flops_per_token()),
            trainer,
        };
        match checkpoint::newest(&plan.folder)? {
            Some((folder, snapshot)) => run.resume(&folder, snapshot)?,
            None => run.trainer.begin()?,
        }
        Ok(run)
    }

    fn resume(&mut self, folder: &Path, snapshot: Snapshot) -> Result<(), Error> {
        self.trainer.restore(folder, &snapshot)?;
        tracing::info!(step = snapshot.state.step.0, folder = %folder.display(), "resuming");
        self.saved = Some(snapshot.state.step);
        self.batch_hash = StreamHash::parse(&snapshot.state.batch_hash)
            .map_err(|error| Error::Checkpoint { path: folder.to_owned(), problem: error.to_string() })?;
        self.validation_pending = snapshot.state.validation_pending;
        Ok(())
    }

    fn plan(&self) -> &TrainPlan {
        self.trainer.plan()
    }

    fn next_batch(&self) -> BatchIndex {
        BatchIndex(self.trainer.done().0 * self.plan().micro_batches())
    }

    /// The micro-batches of the next step; `None` for a stop. What was gathered before a stop was not consumed.
    fn gather(&mut self, data: &mut dyn Data, host: &dyn Host) -> Result<Option<Vec<Batch>>, Error> {
        let mut batches = Vec::new();
        for _ in 0..self.plan().micro_batches() {
            if host.stop().is_some() {
                return Ok(None);
            }
            let asked = Instant::now();
            let batch = data.next().map_err(Error::Foreign)?;
            self.clock.waited += asked.elapsed();
            let Some(batch) = batch else { return Ok(None) };
            batches.push(batch);
        }
        Ok(Some(batches))
    }

    fn step(&mut self, batches: &[Batch]) -> Result<(), Error> {
        self.trainer.step(batches)?;
        self.batch_hash.step(batches.iter().flat_map(Batch::row_digests).copied());
        for batch in batches {
            self.clock.tokens += self.trainer.tokens(batch)?;
        }
        let plan = self.plan();
        self.validation_pending = is_due(self.trainer.done(), plan.validation.every_steps, plan.train.steps);
        Ok(())
    }

    /// Says what the first step found. A run resumes behind it, so it is said once.
    fn start_if_first(&mut self, host: &mut dyn Host) -> Result<(), Error> {
        if self.trainer.done() != Step(1) {
            return Ok(());
        }
        host.report(&Report::Start(self.trainer.start()?)).map_err(Error::Foreign)
    }

    fn report_if_due(&mut self, host: &mut dyn Host) -> Result<(), Error> {
        let plan = self.plan();
        if !is_due(self.trainer.done(), plan.report.every_steps, plan.train.steps) {
            return Ok(());
        }
        let figures = self.trainer.figures()?;
        let seconds = self.clock.begun.elapsed().as_secs_f64();
        let tokens_per_s = self.clock.tokens as f64 / seconds;
        let speed = Speed {
            tokens_per_s,
            mfu: self.peak_rate.map(|peak| tokens_per_s / peak),
            wait: self.clock.waited.as_secs_f64() / seconds,
        };
        self.clock = Clock::start();
        let report = Report::Train(StepReport { figures, batch_hash: self.batch_hash.to_hex(), speed });
        host.report(&report).map_err(Error::Foreign)
    }

    /// Validates and reports. False if a stop came first: the validation is then still pending.
    fn validate(&mut self, data: &mut dyn Data, host: &mut dyn Host) -> Result<bool, Error> {
        let begun = Instant::now();
        let mut validation = Validation::new(&self.trainer);
        for batch in data.validation().map_err(Error::Foreign)? {
            if host.stop().is_some() {
                return Ok(false);
            }
            validation.add(&self.trainer, &batch.map_err(Error::Foreign)?)?;
        }
        let report = Report::Valid(validation.finish(&self.trainer)?);
        host.report(&report).map_err(Error::Foreign)?;
        self.validation_pending = false;
        // The next report's speed is that of training.
        self.clock.begun += begun.elapsed();
        Ok(true)
    }

    fn save(&mut self, host: &mut dyn Host) -> Result<(), Error> {
        let rows_consumed = self.trainer.done().0 * self.plan().train.rows_per_step;
        let position = Position {
            rows_consumed,
            validation_pending: self.validation_pending,
            batch_hash: self.batch_hash.to_hex(),
        };
        host.save(self.trainer.snapshot(position)?).map_err(Error::Foreign)?;
        self.saved = Some(self.trainer.done());
        Ok(())
    }

    fn stopped(mut self, host: &mut dyn Host) -> Result<Outcome, Error> {
        let stop = host.stop().ok_or_else(|| Error::Foreign("the stream of batches ended; it has no end".into()))?;
        if self.saved != Some(self.trainer.done()) {
            self.save(host)?;
        }
        host.saved().map_err(Error::Foreign)?;
        Ok(Outcome::Stopped(self.trainer.done(), stop))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::testing;

    /// The stream of [`testing::batch`], which asks the host to stop at a chosen moment.
    struct Stream<'a> {
        next: u64,
        stop_waiting_for: Option<u64>,
        stop_validating: bool,
        stop: &'a Cell<Option<Stop>>,
    }

    impl Data for Stream<'_> {
        fn seek(&mut self, batch: BatchIndex) -> Result<(), ForeignError> {
            self.next = batch.0;
            Ok(())
        }

        fn next(&mut self) -> Result<Option<Batch>, ForeignError> {
            if self.stop_waiting_for == Some(self.next) {
                self.stop.set(Some(Stop::Terminate));
                return Ok(None);
            }
            self.next += 1;
            Ok(Some(testing::batch(self.next - 1)))
        }

        fn validation(&mut self) -> Result<Box<dyn Iterator<Item = Result<Batch, ForeignError>> + '_>, ForeignError> {
            Ok(Box::new((1000..1002).map(|index| {
                if self.stop_validating && index == 1001 {
                    self.stop.set(Some(Stop::Interrupt));
                }
                Ok(testing::batch(index))
            })))
        }
    }

    struct Memory<'a> {
        folder: std::path::PathBuf,
        stop: &'a Cell<Option<Stop>>,
        reports: Vec<Report>,
        last: Option<Snapshot>,
        // Behaves like a killed process after that many checkpoints.
        dies_after: Option<usize>,
    }

    impl Host for Memory<'_> {
        fn stop(&self) -> Option<Stop> {
            self.stop.get()
        }

        fn report(&mut self, report: &Report) -> Result<(), ForeignError> {
            self.reports.push(report.clone());
            Ok(())
        }

        fn save(&mut self, snapshot: Snapshot) -> Result<(), ForeignError> {
            if self.dies_after == Some(0) {
                return Err("killed".into());
            }
            self.dies_after = self.dies_after.map(|left| left - 1);
            snapshot.write(&self.folder, 2)?;
            self.last = Some(snapshot);
            Ok(())
        }

        fn saved(&mut self) -> Result<(), ForeignError> {
            Ok(())
        }
    }

    #[derive(Clone, Copy, Default)]
    struct Trouble {
        waiting_for: Option<u64>,
        validating: bool,
        dies_after: Option<usize>,
    }

    struct Ran {
        outcome: Result<Outcome, Error>,
        reports: Vec<Report>,
        last: Option<Snapshot>,
    }

    fn train(folder: &Path, trouble: Trouble) -> Ran {
        let stop = Cell::new(None);
        let mut data =
            Stream { next: 0, stop_waiting_for: trouble.waiting_for, stop_validating: trouble.validating, stop: &stop };
        let (folder, dies_after) = (folder.to_owned(), trouble.dies_after);
        let mut host = Memory { folder, stop: &stop, reports: Vec::new(), last: None, dies_after };
        let outcome = run(&testing::plan(&host.folder), &mut data, &mut host);
        Ran { outcome, reports: host.reports, last: host.last }
    }

    /// What two runs of one command must agree on.
    fn figures(reports: &[Report]) -> Vec<String> {
        let figures = |report: &Report| match report {
            Report::Train(report) => format!("{:?} {}", report.figures, report.batch_hash),
            Report::Start(report) => format!("{report:?}"),
            Report::Valid(report) => {
                format!("{:?}", crate::training::report::ValidReport { seconds: 0.0, ..report.clone() })
            }
        };
        reports.iter().map(figures).collect()
    }

    fn whole() -> (Vec<String>, Snapshot) {
        let home = tempfile::tempdir().expect("a temporary folder");
        let ran = train(home.path(), Trouble::default());
        assert!(matches!(ran.outcome, Ok(Outcome::Finished(Step(12)))), "{:?}", ran.outcome);
        (figures(&ran.reports), ran.last.expect("the end makes a checkpoint"))
    }

    fn assert_resumes(trouble: Trouble, expected: &[Outcome]) {
        let (reports, last) = whole();
        let home = tempfile::tempdir().expect("a temporary folder");
        let first = train(home.path(), trouble);
        match first.outcome {
            Ok(outcome) => assert_eq!([outcome], expected),
            Err(error) => assert!(expected.is_empty() && error.to_string() == "killed", "{error}"),
        }
        let kept = newest_step(home.path());
        let second = train(home.path(), Trouble::default());
        assert!(matches!(second.outcome, Ok(Outcome::Finished(Step(12)))), "{:?}", second.outcome);
        let snapshot = second.last.expect("the end makes a checkpoint");
        assert_eq!(snapshot.main, last.main, "weights");
        assert_eq!(snapshot.optimizer, last.optimizer, "optimizer");
        assert_eq!(snapshot.state, last.state, "state");
        // A killed run has reported more than it kept; what lies after the checkpoint is reported again.
        let step = |report: &Report| match report {
            Report::Start(report) => report.step,
            Report::Train(report) => report.figures.step,
            Report::Valid(report) => report.step,
        };
        let stopped = !expected.is_empty();
        let before: Vec<Report> = first.reports.into_iter().filter(|report| stopped || step(report) <= kept).collect();
        assert_eq!(figures(&[before, second.reports].concat()), reports);
    }

    fn newest_step(folder: &Path) -> Step {
        checkpoint::newest(folder).expect("readable").expect("it saved").1.state.step
    }

    #[test]
    fn a_run_stopped_while_it_waits_resumes_to_the_bit() {
        let _alone = testing::generator();
        // In the middle of step 7, of a report's interval and of the way to the next checkpoint.
        let trouble = Trouble { waiting_for: Some(15), ..Trouble::default() };
        assert_resumes(trouble, &[Outcome::Stopped(Step(7), Stop::Terminate)]);
    }

    #[test]
    fn a_run_stopped_while_it_validates_resumes_to_the_bit() {
        let _alone = testing::generator();
        let trouble = Trouble { validating: true, ..Trouble::default() };
        assert_resumes(trouble, &[Outcome::Stopped(Step(5), Stop::Interrupt)]);
    }

    #[test]
    fn a_killed_run_resumes_to_the_bit() {
        let _alone = testing::generator();
        assert_resumes(Trouble { dies_after: Some(1), ..Trouble::default() }, &[]);
    }

    #[test]
    fn a_finished_run_has_nothing_to_do() {
        let _alone = testing::generator();
        let home = tempfile::tempdir().expect("a temporary folder");
        train(home.path(), Trouble::default());
        let again = train(home.path(), Trouble::default());
        assert!(matches!(again.outcome, Ok(Outcome::Finished(Step(12)))));
        assert!(again.reports.is_empty() && again.last.is_none());
    }

    #[test]
    fn another_run_is_refused_with_the_keys_that_differ() {
        let _alone = testing::generator();
        let home = tempfile::tempdir().expect("a temporary folder");
        train(home.path(), Trouble::default());
        let mut plan = testing::request(home.path());
        plan.identity = crate::plan::identity::Identity::new([("seed".to_owned(), "8".to_owned())].into());
        let stop = Cell::new(None);
        let mut data = Stream { next: 0, stop_waiting_for: None, stop_validating: false, stop: &stop };
        let folder = home.path().to_owned();
        let mut host = Memory { folder, stop: &stop, reports: Vec::new(), last: None, dies_after: None };
        let error = run(&testing::checked(plan), &mut data, &mut host).expect_err("another seed is another run");
        assert!(error.is_usage() && error.to_string().contains("`seed`: 7 → 8"), "{error}");
    }

    #[test]
    fn validation_reports_what_needs_no_context() {
        let _alone = testing::generator();
        let home = tempfile::tempdir().expect("a temporary folder");
        let ran = train(home.path(), Trouble::default());
        let valid = ran.reports.iter().find_map(|report| match report {
            Report::Valid(report) => Some(report.clone()),
            Report::Start(_) | Report::Train(_) => None,
        });
        let valid = valid.expect("one after five steps");
        let mlm = valid.mlm.expect("there is a head");
        let uniform = f64::from(testing::WORDS).ln();
        assert_eq!((valid.step, valid.rows), (Step(5), 8));
        assert!((mlm.ln_vocab - uniform).abs() < 1e-12 && (mlm.unigram_cross_entropy - uniform).abs() < 1e-12);
        assert!(mlm.loss > 0.0 && mlm.unigram_entropy > 1.0 && mlm.unigram_entropy < uniform);
    }
}
