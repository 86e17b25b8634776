//! `cloze train`: the composition of everything.
//!
//! A plan, a held folder, lanes that make batches, and the trainer on a thread of its own. [`Feed`] is what the trainer
//! sees of the pipeline, [`Keeper`] what it sees of the run folder and of the signals.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use pipeline::actor;
use pipeline::audit::Audit;
use pipeline::load::{BatchStream, LoadPlan, StreamOptions};
use pipeline::tally::Count;
use schemas::{Batch, BatchIndex, RowIndex, Share};
use trainer::ForeignError;
use trainer::training::{Data, Host, Outcome, Report, Snapshot, Stop};

use crate::cli::ConfigArgs;
use crate::control::{Control, Pending, Phase, Signal};
use crate::exit::Usage;
use crate::plan::Plan;
use crate::run_folder::RunFolder;
use crate::terminal::{line, note};

/// Plans and runs. The exit code tells a finished run from one that a signal stopped.
pub(crate) fn run(args: &ConfigArgs, replay: Option<u64>, slow: Option<&str>) -> anyhow::Result<ExitCode> {
    let plan = Plan::of(args)?;
    let slow = slow.map(Slow::parse).transpose()?;
    let control = Arc::new(Control::start()?);
    let folder = if replay.is_some() { None } else { Some(hold(&plan)?) };
    let folder = Arc::new(Mutex::new(folder));
    let mut training = plan.train().clone();
    if replay.is_some() {
        // No checkpoint is read or written: this measures, it does not train.
        let aside = training.folder.join("replay");
        training = training.within(aside);
    }
    let mut feed = Feed {
        plan: Arc::clone(plan.load()),
        valid: plan.valid().cloned(),
        micro_batches: training.micro_batches(),
        share: Share::ALONE,
        stream: None,
        watch: Watch::new(plan.load()),
        replay: replay.map(Replay::new),
        control: Arc::clone(&control),
        folder: Arc::clone(&folder),
        slow,
    };
    let mut keeper = Keeper {
        run: training.folder.clone(),
        keep: training.checkpoints.keep,
        writes: replay.is_none(),
        pending: None,
        control: Arc::clone(&control),
        folder,
        slow,
    };
    let thread = actor::spawn("trainer", move || trainer::training::run(&training, &mut feed, &mut keeper))?;
    Ok(match thread.join()?? {
        Outcome::Finished(step) => {
            note(format_args!("done: {step} steps; checkpoints are in {}", plan.train().folder.display()));
            ExitCode::SUCCESS
        }
        Outcome::Stopped(step, stop) => {
            note(format_args!("stopped and saved after step {step}; the same command continues"));
            ExitCode::from(signal_of(stop).exit_code())
        }
    })
}

fn signal_of(stop: Stop) -> Signal {
    match stop {
        Stop::Interrupt => Signal::Interrupt,
        Stop::Terminate => Signal::Terminate,
    }
}

fn hold(plan: &Plan) -> anyhow::Result<RunFolder> {
    let run = RunFolder::hold(&plan.train().folder)?;
    run.folder.write("config.toml", plan.resolved_toml().as_bytes())?;
    run.folder.write("plan.json", plan.to_json().as_bytes())?;
    Ok(run)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while the log is held loses at most a line.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `--slow PHASE=MS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slow {
    phase: Phase,
    pause: Duration,
}

impl Slow {
    fn parse(text: &str) -> anyhow::Result<Self> {
        let parsed = text.split_once('=').and_then(|(phase, ms)| Some((Phase::parse(phase)?, ms.parse::<u64>().ok()?)));
        let (phase, ms) = parsed.with_context(|| {
            Usage(format!(
                "--slow {text}: expected a phase and milliseconds, like `validation=400`; the phases are {}",
                Phase::NAMES.join(", ")
            ))
        })?;
        Ok(Self { phase, pause: Duration::from_millis(ms) })
    }
}

/// Enters `phase`, and stays in it for a while if that was asked for.
fn enter(control: &Control, slow: Option<Slow>, phase: Phase) {
    control.enter(phase);
    if let Some(slow) = slow.filter(|slow| slow.phase == phase) {
        std::thread::sleep(slow.pause);
    }
}

/// The pipeline as the trainer sees it.
struct Feed {
    plan: Arc<LoadPlan>,
    valid: Option<Arc<LoadPlan>>,
    micro_batches: u64,
    share: Share,
    stream: Option<BatchStream>,
    watch: Watch,
    replay: Option<Replay>,
    control: Arc<Control>,
    folder: Arc<Mutex<Option<RunFolder>>>,
    slow: Option<Slow>,
}

impl Data for Feed {
    fn seek(&mut self, batch: BatchIndex) -> Result<(), ForeignError> {
        let step = batch.0 / self.micro_batches;
        if let Some(folder) = locked(&self.folder).as_mut() {
            folder.rewind_log(step)?;
        }
        if step > 0 {
            note(format_args!("continuing after step {step}"));
        }
        let row = RowIndex(batch.0 * self.plan.rows_per_batch());
        let options = StreamOptions { digests: true, ..StreamOptions::default() };
        self.stream = Some(BatchStream::new(&self.plan, row, self.share, options));
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Batch>, ForeignError> {
        enter(&self.control, self.slow, Phase::Data);
        let batch = match &mut self.replay {
            Some(replay) if replay.is_full() => Some(replay.again()),
            _ => self.wait()?,
        };
        enter(&self.control, self.slow, Phase::Step);
        Ok(batch)
    }

    fn validation(&mut self) -> Result<Box<dyn Iterator<Item = Result<Batch, ForeignError>> + '_>, ForeignError> {
        let Some(valid) = &self.valid else { return Ok(Box::new(std::iter::empty())) };
        let batches = valid.stream(RowIndex(0), self.share);
        let (control, slow) = (Arc::clone(&self.control), self.slow);
        Ok(Box::new(batches.map(move |batch| {
            enter(&control, slow, Phase::Validation);
            Ok(batch?)
        })))
    }
}

impl Feed {
    fn wait(&mut self) -> Result<Option<Batch>, ForeignError> {
        let stream = self.stream.as_mut().ok_or("the trainer seeks before it reads")?;
        let batch = match stream.next_or(&self.control.stop()) {
            actor::Next::Item(batch) => batch?,
            actor::Next::Stopped => return Ok(None),
            actor::Next::End => return Err("the endless stream ended".into()),
        };
        self.watch.look(&batch)?;
        if let Some(replay) = &mut self.replay {
            replay.batches.push(batch.clone());
        }
        Ok(Some(batch))
    }
}

/// Counts whether the views do as they promise, on some of the batches.
struct Watch {
    audit: Audit,
    received: u64,
}

impl Watch {
    /// The first batches that a process learns from are all audited: that settles a share of 15 % to a thousandth.
    const FIRST: u64 = 64;

    /// Then one of so many is: what goes wrong later is seen, and nobody waits for it.
    const EVERY: u64 = 100;

    fn new(plan: &LoadPlan) -> Self {
        Self { audit: plan.audit(), received: 0 }
    }

    /// One more batch. The error is that of a view that breaks its promise.
    fn look(&mut self, batch: &Batch) -> pipeline::Result<()> {
        self.received += 1;
        if self.received > Self::FIRST && !self.received.is_multiple_of(Self::EVERY) {
            return Ok(());
        }
        self.audit.add(batch);
        self.audit.check()?;
        if self.received == Self::FIRST {
            for (view, Count { what, law }) in self.audit.counts() {
                // Shares, to a millionth.
                let share = |sum: f64| (1e6 * sum / law.of.max(1.0)).round() / 1e6;
                let [found, promised, error] = [law.found, law.expected, law.variance.sqrt()].map(share);
                tracing::info!(view, what, found, promised, error, of = law.of, "audited");
            }
        }
        Ok(())
    }
}

/// The first few batches, for ever.
struct Replay {
    count: u64,
    batches: Vec<Batch>,
    next: usize,
}

impl Replay {
    fn new(count: u64) -> Self {
        Self { count: count.max(1), batches: Vec::new(), next: 0 }
    }

    fn is_full(&self) -> bool {
        self.batches.len() as u64 >= self.count
    }

    fn again(&mut self) -> Batch {
        let batch = self.batches[self.next].clone();
        self.next = (self.next + 1) % self.batches.len();
        batch
    }
}

/// The run folder and the signals as the trainer sees them.
struct Keeper {
    run: PathBuf,
    keep: usize,
    writes: bool,
    pending: Option<Pending<Result<PathBuf, trainer::Error>>>,
    control: Arc<Control>,
    folder: Arc<Mutex<Option<RunFolder>>>,
    slow: Option<Slow>,
}

impl Host for Keeper {
    fn stop(&self) -> Option<Stop> {
        self.control.signal().map(|signal| match signal {
            Signal::Interrupt => Stop::Interrupt,
            Signal::Terminate => Stop::Terminate,
        })
    }

    fn report(&mut self, report: &Report) -> Result<(), ForeignError> {
        line(report);
        if let Some(folder) = locked(&self.folder).as_mut() {
            folder.log(&serde_json::to_value(report)?)?;
        }
        // A failed write must not wait for the next checkpoint to be heard of.
        if self.pending.as_ref().is_some_and(Pending::is_finished) { self.saved() } else { Ok(()) }
    }

    fn save(&mut self, snapshot: Snapshot) -> Result<(), ForeignError> {
        self.saved()?;
        if !self.writes {
            return Ok(());
        }
        enter(&self.control, self.slow, Phase::Checkpoint);
        let (run, keep) = (self.run.clone(), self.keep);
        self.pending = Some(self.control.spawn(move || snapshot.write(&run, keep)));
        self.control.enter(Phase::Step);
        Ok(())
    }

    fn saved(&mut self) -> Result<(), ForeignError> {
        if let Some(pending) = self.pending.take() {
            let path = self.control.wait(pending)??;
            tracing::info!(path = %path.display(), "saved checkpoint");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use pipeline::load::{DataConfig, LoadRequest, Rows, read_vocab};
    use pipeline::shard::synthetic::Synthetic;
    use pipeline::views::AnyView;
    use schemas::atomic::Folder;
    use schemas::columns::{ATTENTION_MASK, INPUT_IDS, LABELS};

    use super::*;

    /// A plan over a made-up folder whose view `masked` is a mask of this rate.
    fn plan(home: &std::path::Path, rate: f64) -> LoadPlan {
        let manifest = Synthetic::default().write(&Folder::create(home).expect("there")).expect("written");
        let view = toml::from_str::<AnyView>(&format!("kind = \"mask\"\nrate = {rate}")).expect("a view");
        let wanted: BTreeSet<_> =
            [INPUT_IDS.spec(), ATTENTION_MASK.spec(), LABELS.spec()].map(|column| ("masked".to_owned(), column)).into();
        let request = LoadRequest {
            folder: home,
            manifest: &manifest,
            vocab: Arc::new(read_vocab(home, &manifest).expect("as written")),
            rows: Rows::Train,
            data: &DataConfig::default(),
            views: &BTreeMap::from([("masked".to_owned(), view)]),
            wanted: &wanted,
            seed: 7,
            rows_per_batch: 4,
        };
        LoadPlan::new(&request).expect("no problem")
    }

    #[test]
    fn the_first_batches_and_then_some_are_audited() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let plan = plan(home.path(), 0.15);
        let (groups, mut watch) = (plan.groups(), Watch::new(&plan));
        for index in 0..250 {
            watch.look(&plan.batch(&groups, BatchIndex(index)).expect("good")).expect("as promised");
        }
        assert_eq!(watch.audit.batches(), Watch::FIRST + 2, "the 100th and the 200th too");
    }

    #[test]
    fn a_broken_promise_fails_the_run_before_the_batch_is_learnt_from() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let (promised, rendered) = (plan(home.path(), 0.15), plan(home.path(), 0.2));
        let batch = rendered.batch(&rendered.groups(), BatchIndex(0)).expect("good");
        let error = Watch::new(&promised).look(&batch).expect_err("another rate");
        assert!(error.to_string().contains("view `masked` does not do what it promises"), "{error}");
        // As the trainer hands it on.
        let error = anyhow::Error::from(trainer::Error::Foreign(error.into()));
        assert_eq!(format!("{:?}", crate::exit::code(&error)), format!("{:?}", ExitCode::FAILURE));
    }
}
