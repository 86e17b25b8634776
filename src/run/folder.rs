//! A run's folder: who holds it, what it was started with, and its log.
//!
//! ```text
//! runs/<name>/
//!   config.toml     the resolved configuration
//!   plan.json       the plan that was printed
//!   dataset_versions.json which dataset versions of the data it reads: see `dataset_versions`
//!   dataset_versions/  the same of each source of a mixture
//!   bad_rows.json   which rows it leaves out: see `left_out`
//!   lock            who trains here, with a counter that beats (`store::Lock`)
//!   log/            one JSON object per event, in closed segments (`store::Log`)
//!   checkpoints/    see `trainer_plan::checkpoint`
//!   ledger/         what was learned of which document: `pipeline::exposure`; `ledger/undone/` has pages of rows that came again
//!   skipped_steps.json      which steps it skips: `trainer_plan::run::skipped_steps`
//!   rolled_back/         what rollbacks took back: `trainer_plan::run::rollback_archive`
//!   rollback.json   a rollback that is decided and not complete
//!   step_budget.json   from which step on it had how many steps, where that was changed
//!   time_budget.json      when it looked at the clock, where hours end it
//!   branch.json     which run it continues from, where that is another
//!   fault_injection.json      which faults of `--inject-faults` have struck
//!   stop            somebody asks it to stop; gone when that is done
//!   profile         somebody asks for steps to be measured; gone when that is heard
//!   profiles/       where the time of such steps went: see `control::profile_file`
//!   log-level       how much it says on stderr, read at SIGHUP
//!   tensorboard/    curves, where `run.tensorboard` asks for them: see `tensorboard`
//! ```
//!
//! Everything is written through the lock: a process that has lost it, because it was stopped for longer than others
//! wait, learns so from the next thing that it tries to write, and writes nothing.

use std::io;

use pipeline::exposure::{self, Exposure};
use schemas::{RowIndex, Step};
use store::{Holder, LeaseConfig, Lock, LockError, Log, Store};
use telemetry::change::{ChangeReport, How};
use telemetry::{Clock, Event, EventKind, Observer, Position, jsonl};
use trainer_plan::checkpoint::State;
use trainer_plan::run::rollback;
use trainer_plan::run::rollback_archive::RollbackArchive;

/// The folder of a run, held by this process.
pub struct RunFolder {
    /// Changed only as long as the lock is ours.
    store: Store,
    /// Open once the run has begun.
    log: Option<Log>,
    /// Why an event was not logged.
    failure: Option<io::Error>,
    // Released when this is dropped, or found without a process when there was no time for that.
    _lock: Lock,
}

impl RunFolder {
    /// Takes a folder, and removes what a killed process left half written.
    pub fn hold(folder: &Store) -> anyhow::Result<Self> {
        let lock = Lock::take(folder, store::LOCK, Holder::this_process(), LeaseConfig::default());
        let lock = lock.map_err(|error| match error {
            LockError::Held { place, holder } => anyhow::anyhow!(
                "{place}: another process trains in this folder ({holder}); wait for it, or set another `run.folder`"
            ),
            LockError::Io(error) => error.into(),
        })?;
        let store = lock.guard(folder);
        store.sweep()?;
        if let Some(undone) = rollback::finish(&store, |undone| follow(&store, undone))? {
            tracing::info!(from = %undone.from, to = %undone.to, "completed a rollback that was cut short");
        }
        Ok(Self { store, log: None, failure: None, _lock: lock })
    }

    /// What the run keeps goes in here.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The run is good, and continues from this state, or begins: keeps what it was started with, and forgets the lines of
    /// the log that it will write again.
    pub fn begin(&mut self, papers: &[(&str, String)], from: Option<&State>) -> io::Result<()> {
        for (name, text) in papers {
            self.store.put(name, text.as_bytes())?;
        }
        let mut log = Log::open(&self.store, jsonl::LOG)?;
        log.rewind(|line| from.is_some_and(|state| stays(line, state)))?;
        self.log = Some(log);
        Ok(())
    }

    /// Goes back to the checkpoint after `to`; what came after it is kept by name, and everything else of the run follows.
    pub(crate) fn back(&mut self, to: Step, why: Option<String>) -> Result<RollbackArchive, trainer_plan::Error> {
        rollback::back(&self.store, to, (why, Clock::system().time()), |undone| follow(&self.store, undone))
    }

    /// Says something of a run that is not under way.
    pub(crate) fn add(&mut self, event: &Event) -> io::Result<()> {
        add(&self.store, event)
    }

    /// Keeps every line that was said.
    pub fn flush(&mut self) -> io::Result<()> {
        self.check()?;
        self.log.as_mut().map_or(Ok(()), Log::flush)
    }

    /// Whether all events were logged so far.
    pub fn check(&mut self) -> io::Result<()> {
        self.failure.take().map_or(Ok(()), Err)
    }
}

impl Observer for RunFolder {
    fn observe(&mut self, event: &Event) {
        let Some(log) = &mut self.log else { return };
        if let Err(error) = log.push(&jsonl::line(event)) {
            // The first is the cause of the others.
            self.failure.get_or_insert(error);
        }
    }
}

fn add(store: &Store, event: &Event) -> io::Result<()> {
    let mut log = Log::open(store, jsonl::LOG)?;
    log.push(&jsonl::line(event))?;
    log.flush()
}

/// Lets the ledger follow a rollback, since what was counted of its rows comes again too, and the log say so. Told twice
/// where a kill came between the two.
fn follow(store: &Store, undone: &RollbackArchive) -> io::Result<()> {
    let RollbackArchive { from, to, rows_to, .. } = undone;
    if !exposure::pages(store).map_err(io::Error::other)?.is_empty() {
        Exposure::default().begin(store, RowIndex(*rows_to)).map_err(io::Error::other)?;
    }
    let message = format!("went back from step {from}; what came after is in {}", undone.folder(store).place(""));
    let at = Position { step: Some(*to), rows_seen: Some(*rows_to), ..Position::default() };
    let report = ChangeReport { how: How::Rollback, message, keys: Vec::new(), from: Some(*from) };
    add(store, &Clock::system().event(at, EventKind::Change(report)))
}

/// Whether a line of the log was said before that state was. Later steps are done again, and so is a validation that was
/// still to be done, and what was said of rows that come again. What nobody can read is forgotten.
fn stays(line: &[u8], state: &State) -> bool {
    let Ok(event) = jsonl::parse(line) else { return false };
    let again = match &event.what {
        EventKind::Validation(_) => state.validation_pending && event.at.step == Some(state.step),
        EventKind::BadRow(report) => report.row.0 >= state.rows_consumed,
        _ => false,
    };
    event.at.step.is_none_or(|step| step <= state.step) && !again
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use store::{FaultConfig, Lines};
    use telemetry::training::{MlmReport, StopReport, ValidReport, Why};

    use super::*;

    fn state(step: u64, validation_pending: bool) -> State {
        State {
            step: Step(step),
            rows_consumed: 8 * step,
            tokens_consumed: 90 * step,
            validation_pending,
            batch_hash: "ab".to_owned(),
            data_content: "cd".to_owned(),
            program: "cloze 1".to_owned(),
            libtorch: "2".to_owned(),
            threads: 1,
            device: "Cpu".to_owned(),
            report: Vec::new(),
            skips: Vec::new(),
            guard: trainer_plan::checkpoint::SavedGuard::default(),
            identity: trainer_plan::identity::Identity::new(BTreeMap::new()),
            files: BTreeMap::new(),
            changes: Vec::new(),
            trained_s: None,
            beside: trainer_plan::checkpoint::Beside::default(),
        }
    }

    fn say(run: &mut RunFolder, step: u64, what: EventKind) {
        let at = Position { step: Some(Step(step)), ..Position::default() };
        run.observe(&Clock::still().event(at, what));
    }

    fn stop() -> EventKind {
        EventKind::Stop(StopReport {
            why: Why::Terminate,
            saved: true,
            kept: None,
            place: String::new(),
            error: None,
            memory: None,
        })
    }

    fn validation() -> EventKind {
        let mlm: Option<MlmReport> = None;
        let (terms, metrics) = (BTreeMap::new(), BTreeMap::new());
        EventKind::Validation(ValidReport { rows: 8, loss: 1.0, terms, metrics, mlm, seconds: 0.0 })
    }

    fn logged(store: &Store) -> Vec<(String, u64)> {
        let lines = Lines::of(store, jsonl::LOG).expect("a log").map(|line| line.expect("readable"));
        let events = lines.map(|line| jsonl::parse(&line).expect("an event"));
        events.map(|event| (event.what.kind().to_owned(), event.at.step.expect("a step").0)).collect()
    }

    fn holds(kind: &str, step: u64) -> (String, u64) {
        (kind.to_owned(), step)
    }

    #[test]
    fn a_folder_has_one_holder() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let store = Store::folder(home.path()).expect("made");
        let held = RunFolder::hold(&store).expect("free");
        let Err(error) = RunFolder::hold(&store) else { panic!("it is held") };
        let error = error.to_string();
        assert!(error.contains(&format!("pid {}", std::process::id())) && error.contains("`run.folder`"), "{error}");
        drop(held);
        RunFolder::hold(&store).expect("free again");
    }

    #[test]
    fn a_run_that_goes_on_forgets_what_it_will_say_again() {
        let store = Store::memory(FaultConfig::calm());
        let mut run = RunFolder::hold(&store).expect("free");
        run.begin(&[("config.toml", "seed = 1".to_owned())], None).expect("begun");
        for step in [10, 20, 30] {
            say(&mut run, step, validation());
            say(&mut run, step, stop());
        }
        run.flush().expect("kept");
        let names: Vec<_> = store.list("").expect("listed").into_iter().map(|entry| entry.name).collect();
        assert_eq!(names, ["config.toml", "lock", "log/00000000.jsonl"]);
        // What a disk or another program leaves: not UTF-8, half a line, no event.
        let mut log = store.read("log/00000000.jsonl").expect("there");
        log.extend(b"\xff\xfe\n{\"version\":1,\"ti\n[]\n");
        store.put("log/00000000.jsonl", &log).expect("put");
        drop(run);

        let mut run = RunFolder::hold(&store).expect("free");
        run.begin(&[], Some(&state(20, false))).expect("begun");
        say(&mut run, 30, validation());
        run.flush().expect("kept");
        let kept = [holds("validation", 10), holds("stop", 10), holds("validation", 20), holds("stop", 20)];
        assert_eq!(logged(&store), [&kept[..], &[holds("validation", 30)]].concat());
        // The validation of step 20 is still to be done, and was said by a process that did not live to save it.
        run.begin(&[], Some(&state(20, true))).expect("begun");
        assert_eq!(logged(&store), [holds("validation", 10), holds("stop", 10), holds("stop", 20)]);
        run.begin(&[], None).expect("begun");
        assert_eq!(logged(&store), []);
    }

    #[test]
    fn who_lost_the_lock_writes_nothing_and_says_who_has_it() {
        let store = Store::memory(FaultConfig::calm());
        let mut run = RunFolder::hold(&store).expect("free");
        run.begin(&[], None).expect("begun");
        say(&mut run, 10, stop());
        run.flush().expect("kept");
        let lock = String::from_utf8(store.read("lock").expect("there")).expect("JSON");
        let pid = format!("pid {} on", std::process::id());
        let lock = lock.replace(&pid, "pid 0 on").replace("\"nonce\": \"", "\"nonce\": \"another");
        store.put("lock", lock.as_bytes()).expect("taken over");
        say(&mut run, 20, stop());
        let error = run.flush().expect_err("it is no longer ours").to_string();
        assert!(error.contains("pid 0 on"), "{error}");
        run.store().put("checkpoints/latest", b"mine").expect_err("it is no longer ours");
        drop(run);
        assert_eq!(logged(&store), [holds("stop", 10)]);
        assert_eq!(store.read("lock").expect("there"), lock.as_bytes(), "nobody releases the lock of another");
    }
}
