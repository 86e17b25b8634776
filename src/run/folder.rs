//! Run folder: its lock, the files that the run was started with, and its log.
//!
//! ```text
//! runs/<name>/
//!   config.toml     the resolved configuration
//!   plan.json       the plan that was printed
//!   dataset_versions.json   dataset versions that the run reads: see `dataset_versions`
//!   dataset_versions/       the same for each source of a mixture
//!   prepared/       manifest, tokenizer and vocabulary of the data: see `data::copy`
//!   bad_rows.json   rows that the run skips: see `bad_rows`
//!   lock            process that trains here, with a heartbeat counter (`store::Lock`)
//!   log/            one JSON object per event, in closed segments (`store::Log`)
//!   checkpoints/    see `trainer_plan::checkpoint`
//!   exposure/       training exposure of each document: `pipeline::exposure`; its `rolled_back/` has pages of
//!                   rows that were read again
//!   skipped_steps.json      skipped steps: `trainer_plan::run::skipped_steps`
//!   rolled_back/            state that rollbacks removed: `trainer_plan::run::rollback_archive`
//!   rollback.json   rollback that was decided and is not complete
//!   step_budget.json        changes of the number of steps, each with its first step
//!   time_budget.json        measurements of the clock, if hours end the run
//!   branch.json     run that this run continues, if it is a branch
//!   fault_injection.json    faults of `--inject-faults` that have occurred
//!   stop            request to stop; removed when the run has stopped
//!   profile         request to measure steps; removed when it is read
//!   profiles/       profiles of such steps: see `control::profile_file`
//!   log-level       log level of stderr, read on SIGHUP
//!   tensorboard/    curves, if `run.tensorboard` is set: see `tensorboard`
//! ```
//!
//! All writes go through the lock. A process that was suspended for too long loses the lock. Its next write then fails,
//! and it writes nothing.

use std::io;
use std::path::Path;

use pipeline::exposure::{self, Exposure};
use schemas::{RowIndex, Step};
use store::{Holder, LeaseConfig, Lock, LockError, Log, Store};
use telemetry::change::{ChangeReport, How};
use telemetry::{Clock, Event, EventKind, Observer, Position, jsonl};
use trainer_plan::checkpoint::State;
use trainer_plan::run::rollback;
use trainer_plan::run::rollback_archive::RollbackArchive;

use crate::config::corpus::output_folder_problem;
use crate::exit::Usage;
use crate::run::log_writer::{LogWriter, PendingFlush};

/// The folder of a run, held by this process.
pub struct RunFolder {
    /// Store that is writable only while this process holds the lock.
    store: Store,
    /// Open once the run has begun. Dropped before the lock, because it may be writing.
    log: Option<LogWriter>,
    // Released on drop. After a kill, the lock is found stale.
    _lock: Lock,
}

impl RunFolder {
    /// Whether a location is a URL that runs cannot be written to.
    pub fn is_read_only(location: &Path) -> bool {
        remote_store::is_url_path(location) && output_folder_problem("run.folder", location).is_some()
    }

    /// Locks a folder, and removes partial files of a killed process.
    pub fn acquire(folder: &Store) -> anyhow::Result<Self> {
        Self::acquire_or(folder, "wait for it, or set another `run.folder`")
    }

    /// Locks the folder of a run that is to be changed and not trained.
    pub(crate) fn acquire_for_change(folder: &Store) -> anyhow::Result<Self> {
        let stop = schemas::shell_quoted(Path::new(&folder.place("stop")));
        let way = format!("stop it with `touch {stop}`, repeat this command when it has saved, and train again");
        Self::acquire_or(folder, &way)
    }

    /// Locks a folder. `way_out` is the hint if another process holds it.
    fn acquire_or(folder: &Store, way_out: &str) -> anyhow::Result<Self> {
        if let Some(problem) = output_folder_problem("run.folder", Path::new(&folder.place(""))) {
            return Err(Usage(problem.to_string()).into());
        }
        let lock = Lock::acquire(folder, store::LOCK, Holder::this_process(), LeaseConfig::default());
        let lock = lock.map_err(|error| match error {
            LockError::Held { place, holder } => {
                anyhow::anyhow!("{place}: another process trains in this folder ({holder}); {way_out}")
            }
            LockError::Io(error) => error.into(),
        })?;
        let store = lock.guard(folder);
        store.sweep()?;
        if let Some(undone) = rollback::finish(&store, |undone| follow(&store, undone))? {
            tracing::info!(from = %undone.from, to = %undone.to, "completed an interrupted rollback");
        }
        Ok(Self { store, log: None, _lock: lock })
    }

    /// Store of the run folder.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Starts or resumes the run: writes the files that it was started with, and removes log lines that it will write
    /// again.
    pub fn begin(&mut self, files: &[(String, Vec<u8>)], from: Option<&State>) -> io::Result<()> {
        self.write(files)?;
        // A rollback begins again. Lines that it keeps may be queued, and a log has one writer.
        self.flush()?;
        drop(self.log.take());
        let mut log = Log::open(&self.store, jsonl::LOG)?;
        log.rewind(|line| from.is_some_and(|state| stays(line, state)))?;
        self.log = Some(LogWriter::start(log)?);
        Ok(())
    }

    /// Writes the files that the run was started with, by name.
    pub fn write(&self, files: &[(String, Vec<u8>)]) -> io::Result<()> {
        files.iter().try_for_each(|(name, bytes)| self.store.put(name, bytes).map(drop))
    }

    /// Rolls back to step `to`. The removed state is archived, and all other files of the run are adjusted.
    pub(crate) fn back(&mut self, to: Step, why: Option<String>) -> Result<RollbackArchive, trainer_plan::Error> {
        rollback::back(&self.store, to, (why, Clock::system().time()), |undone| follow(&self.store, undone))
    }

    /// Logs an event of a run that is not under way.
    pub(crate) fn add(&mut self, event: &Event) -> io::Result<()> {
        add(&self.store, event)
    }

    /// Begins to flush the log: the events so far. `None` if the run has not begun.
    pub fn begin_flush(&mut self) -> io::Result<Option<PendingFlush>> {
        self.log.as_mut().map(LogWriter::begin_flush).transpose()
    }

    /// Flushes the log, and returns the first error of a write to it.
    pub fn flush(&mut self) -> io::Result<()> {
        let flushed = self.begin_flush()?.map_or(Ok(()), PendingFlush::wait);
        self.check().and(flushed)
    }

    /// Returns the first error of a write to the log, if any. Does not wait.
    pub fn check(&self) -> io::Result<()> {
        self.log.as_ref().map_or(Ok(()), LogWriter::check)
    }
}

impl Observer for RunFolder {
    fn observe(&mut self, event: &Event) {
        if let Some(log) = &mut self.log {
            log.push(jsonl::line(event));
        }
    }
}

fn add(store: &Store, event: &Event) -> io::Result<()> {
    let mut log = Log::open(store, jsonl::LOG)?;
    log.push(&jsonl::line(event))?;
    log.flush()
}

/// Adjusts the exposure statistics to a rollback, since its rows are read again, and logs the rollback. If a kill
/// occurs between the two, both are done again.
fn follow(store: &Store, undone: &RollbackArchive) -> io::Result<()> {
    let RollbackArchive { from, to, rows_to, .. } = undone;
    if !exposure::pages(store).map_err(io::Error::other)?.is_empty() {
        Exposure::default().begin(store, RowIndex(*rows_to)).map_err(io::Error::other)?;
    }
    let message = format!("rolled back from step {from}; the removed state is in {}", undone.folder(store).place(""));
    let at = Position { step: Some(*to), rows_seen: Some(*rows_to), ..Position::default() };
    let report = ChangeReport { how: How::Rollback, message, keys: Vec::new(), from: Some(*from) };
    add(store, &Clock::system().event(at, EventKind::Change(report)))
}

/// Whether a line of the log is older than that state. Lines of later steps, of a pending validation and of rows that
/// are read again will be written again. Unreadable lines are removed.
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
    use telemetry::training::{MlmReport, StopReason, StopReport, ValidReport};

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
            detectors: BTreeMap::new(),
            early_stop: None,
            identity: trainer_plan::identity::Identity::new(BTreeMap::new()),
            files: BTreeMap::new(),
            changes: Vec::new(),
            trained_s: None,
            sidecars: trainer_plan::checkpoint::SidecarState::default(),
        }
    }

    fn emit(run: &mut RunFolder, step: u64, what: EventKind) {
        let at = Position { step: Some(Step(step)), ..Position::default() };
        run.observe(&Clock::still().event(at, what));
    }

    fn stop() -> EventKind {
        EventKind::Stop(StopReport {
            why: StopReason::Terminate,
            saved: true,
            kept: None,
            place: String::new(),
            error: None,
            memory: None,
        })
    }

    fn validation() -> EventKind {
        let mlm: Option<MlmReport> = None;
        let terms = BTreeMap::new();
        let metrics = BTreeMap::new();
        EventKind::Validation(ValidReport { rows: 8, loss: 1.0, terms, metrics, mlm, seconds: 0.0 })
    }

    fn logged(store: &Store) -> Vec<(String, u64)> {
        let lines = Lines::new(store, jsonl::LOG).expect("a log").map(|line| line.expect("readable"));
        let events = lines.map(|line| jsonl::parse(&line).expect("an event"));
        events.map(|event| (event.what.kind().to_owned(), event.at.step.expect("a step").0)).collect()
    }

    fn expected(kind: &str, step: u64) -> (String, u64) {
        (kind.to_owned(), step)
    }

    #[test]
    fn a_folder_has_one_holder() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let store = Store::folder(home.path()).expect("made");
        let held = RunFolder::acquire(&store).expect("free");
        let Err(error) = RunFolder::acquire(&store) else { panic!("it is held") };
        let error = error.to_string();
        assert!(error.contains(&format!("pid {}", std::process::id())) && error.contains("`run.folder`"), "{error}");
        drop(held);
        RunFolder::acquire(&store).expect("free again");
    }

    #[test]
    fn a_resumed_run_removes_log_lines_that_it_will_write_again() {
        let store = Store::in_memory(FaultConfig::none());
        let mut run = RunFolder::acquire(&store).expect("free");
        run.begin(&[("config.toml".to_owned(), b"seed = 1".to_vec())], None).expect("begun");
        for step in [10, 20, 30] {
            emit(&mut run, step, validation());
            emit(&mut run, step, stop());
        }
        run.flush().expect("kept");
        let names: Vec<_> = store.list("").expect("listed").into_iter().map(|entry| entry.name).collect();
        assert_eq!(names, ["config.toml", "lock", "log/00000000.jsonl"]);
        // Damage by a disk or another program: invalid UTF-8, half a line, no event.
        let mut log = store.get("log/00000000.jsonl").expect("there");
        log.extend(b"\xff\xfe\n{\"version\":1,\"ti\n[]\n");
        store.put("log/00000000.jsonl", &log).expect("put");
        drop(run);

        let mut run = RunFolder::acquire(&store).expect("free");
        run.begin(&[], Some(&state(20, false))).expect("begun");
        emit(&mut run, 30, validation());
        run.flush().expect("kept");
        let kept = [expected("validation", 10), expected("stop", 10), expected("validation", 20), expected("stop", 20)];
        assert_eq!(logged(&store), [&kept[..], &[expected("validation", 30)]].concat());
        // The validation of step 20 is pending: the process that logged it was killed before it saved that.
        run.begin(&[], Some(&state(20, true))).expect("begun");
        assert_eq!(logged(&store), [expected("validation", 10), expected("stop", 10), expected("stop", 20)]);
        run.begin(&[], None).expect("begun");
        assert_eq!(logged(&store), []);
    }

    #[test]
    fn a_process_without_the_lock_writes_nothing_and_names_the_holder() {
        let store = Store::in_memory(FaultConfig::none());
        let mut run = RunFolder::acquire(&store).expect("free");
        run.begin(&[], None).expect("begun");
        emit(&mut run, 10, stop());
        run.flush().expect("kept");
        let lock = String::from_utf8(store.get("lock").expect("there")).expect("JSON");
        let pid = format!("pid {} on", std::process::id());
        let lock = lock.replace(&pid, "pid 0 on").replace("\"nonce\": \"", "\"nonce\": \"another");
        store.put("lock", lock.as_bytes()).expect("taken over");
        emit(&mut run, 20, stop());
        let error = run.flush().expect_err("it is no longer ours").to_string();
        assert!(error.contains("pid 0 on"), "{error}");
        run.store().put("checkpoints/latest", b"mine").expect_err("it is no longer ours");
        drop(run);
        assert_eq!(logged(&store), [expected("stop", 10)]);
        assert_eq!(store.get("lock").expect("there"), lock.as_bytes(), "the lock of another process is not released");
    }
}
