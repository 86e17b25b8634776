//! Execution of the runs of a sweep as child processes.
//!
//! # What
//! Each run is a process `cloze finetune`, which resumes a run that was stopped or killed. A process that works on a sweep
//! holds the lock of the run's folder while its child runs. It takes the first run that is not finished and not locked,
//! so several processes on one folder share the runs.
//!
//! # Why
//! A child has its own memory: a run that fails, or needs more memory than there is, ends alone.
//!
//! # Definition
//! A run is *finished* if it has results. A run that failed is not tried again by processes that worked on the sweep
//! when it failed; a process that starts later tries it again. If a sweep is killed, its children continue: their
//! own locks show that the runs are in progress.
//!
//! Children that run at the same time each see one CUDA device, in turn. A run that sets `train.device` sees all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use store::{Holder, LeaseConfig, Lock, LockError, Store};
use telemetry::Clock;
use telemetry::quantities::time;
use telemetry::terminal::{ItemProgress, line, note};

use super::devices::{self, VisibleDevices};
use super::grid::Setting;
use super::plan::{RunSpec, SweepPlan};
use super::results::{Failure, RunState, SweepResults};
use crate::cli::SweepExecution;
use crate::finetune::few_shot_plan::FewShotPlan;
use crate::run::control::{Control, Phase, Signal};

/// Output of a run, in its folder.
pub(crate) const OUTPUT: &str = "output.log";

/// Interval between two looks at the children.
const POLL: Duration = Duration::from_millis(100);
/// Interval between two looks at runs of other processes.
const POLL_OTHERS: Duration = Duration::from_secs(1);
/// Bytes at the end of an output that are searched for its last error.
const OUTPUT_TAIL: u64 = 4096;

/// Process that works on a sweep.
pub(crate) struct Runner<'a> {
    plan: &'a SweepPlan,
    folder: &'a Path,
    /// Runs that this process may take.
    runs: Vec<RunSpec>,
    execution: SweepExecution,
    program: PathBuf,
    devices: VisibleDevices,
    control: Control,
    progress: ItemProgress,
    /// Failures before this process started, by name: they are tried again.
    old_failures: BTreeMap<String, Failure>,
    /// Runs that need no more work by this process.
    done: BTreeSet<String>,
    failed: usize,
    children: Vec<RunningChild>,
}

/// Child process of one run. Dropping it releases the lock.
struct RunningChild {
    run: RunSpec,
    /// Number of the job, from 0: the smallest one that no other child has.
    job: usize,
    process: Child,
    folder: Store,
    started: Instant,
    _lock: Lock,
}

/// End of the work of this process.
pub(crate) struct RunnerEnd {
    /// Runs that failed.
    pub(crate) failed: usize,
    /// Signal that stopped it.
    pub(crate) signal: Option<Signal>,
}

/// Attempt to take a run.
enum Claim {
    Taken(Lock),
    /// Another process works on it.
    InProgress,
    /// It needs no more work by this process.
    Settled(RunState),
}

impl<'a> Runner<'a> {
    /// Prepares the work on the sweep in `folder`.
    pub(crate) fn new(sweep: &'a SweepResults, folder: &'a Path, execution: SweepExecution) -> anyhow::Result<Self> {
        let (first, step) = execution.index.zip(execution.count).unwrap_or((0, 1));
        let control = Control::start()?;
        // Not `Start`, in which a signal ends the process at once: the children need time to save.
        control.set_phase(Phase::Step);
        let mut runs = Vec::new();
        let mut old_failures = BTreeMap::new();
        for run in sweep.runs.iter().skip(first).step_by(step) {
            runs.push(run.spec.clone());
            if let RunState::Failed(failure) = &run.state {
                old_failures.insert(run.spec.name.clone(), failure.clone());
            }
        }
        let program = std::env::current_exe().context("the path of this program is unknown")?;
        let progress = ItemProgress::new("sweep", runs.len() as u64);
        let done = BTreeSet::new();
        let children = Vec::new();
        Ok(Self {
            plan: &sweep.plan,
            folder,
            runs,
            execution,
            program,
            devices: VisibleDevices::detect(),
            control,
            progress,
            old_failures,
            done,
            failed: 0,
            children,
        })
    }

    /// Runs until every run is finished or has failed, or until a signal.
    pub(crate) fn run(mut self) -> anyhow::Result<RunnerEnd> {
        let stop = self.control.stop();
        let mut is_stopping = false;
        let mut is_waiting = false;
        // The first look is at once.
        let mut next_claim = Instant::now();
        loop {
            self.collect()?;
            if stop.is_cancelled() && !is_stopping {
                is_stopping = true;
                self.terminate();
            }
            if !is_stopping && self.children.len() < self.execution.jobs && Instant::now() >= next_claim {
                let in_progress = self.claim()?;
                if self.children.is_empty() && in_progress > 0 && !is_waiting {
                    is_waiting = true;
                    note(format_args!("waiting for {in_progress} runs of other processes"));
                }
                next_claim = Instant::now() + POLL_OTHERS;
            }
            self.progress.set(self.done.len() as u64, &self.describe());
            if self.children.is_empty() && (is_stopping || self.done.len() == self.runs.len()) {
                break;
            }
            let ended = self.done.len();
            if is_stopping {
                thread::sleep(POLL);
            } else {
                let _ = stop.is_cancelled_within(POLL);
            }
            self.collect()?;
            if self.done.len() > ended {
                next_claim = Instant::now();
            }
        }
        Ok(RunnerEnd { failed: self.failed, signal: self.control.signal() })
    }

    fn describe(&self) -> String {
        let names: Vec<&str> = self.children.iter().map(|child| &*child.run.name).collect();
        names.join(", ")
    }

    /// Takes runs until all jobs are used. Returns the number of runs that other processes work on.
    fn claim(&mut self) -> anyhow::Result<usize> {
        let mut in_progress = 0;
        for run in self.runs.clone() {
            let is_ours = self.children.iter().any(|child| child.run.name == run.name);
            if is_ours || self.done.contains(&run.name) {
                continue;
            }
            if self.children.len() >= self.execution.jobs || self.control.stop().is_cancelled() {
                break;
            }
            let folder = Store::folder(SweepPlan::run_folder(self.folder, &run))?;
            match self.claim_run(&folder, &run)? {
                Claim::Taken(lock) => {
                    Failure::clear(&folder)?;
                    note(format_args!("{} starts; its output is in {}", run.name, folder.place(OUTPUT)));
                    let child = self.start(run, folder, lock)?;
                    self.children.push(child);
                }
                Claim::InProgress => in_progress += 1,
                Claim::Settled(state) => {
                    self.done.insert(run.name.clone());
                    if let RunState::Failed(failure) = state {
                        self.failed += 1;
                        self.report_failure(&run, &failure);
                    }
                }
            }
        }
        Ok(in_progress)
    }

    /// Takes the lock of a run, unless it needs no work or another process works on it.
    fn claim_run(&self, folder: &Store, run: &RunSpec) -> anyhow::Result<Claim> {
        if let Some(state) = self.settled(folder, run)? {
            return Ok(Claim::Settled(state));
        }
        // The child of a sweep that was killed holds only the lock of its run.
        let is_held =
            Lock::seen(folder, store::LOCK)?.is_some() || Lock::seen(&folder.prefixed("run"), store::LOCK)?.is_some();
        if is_held {
            return Ok(Claim::InProgress);
        }
        let lock = match Lock::acquire(folder, store::LOCK, Holder::this_process(), LeaseConfig::default()) {
            Ok(lock) => lock,
            Err(LockError::Held { .. }) => return Ok(Claim::InProgress),
            Err(LockError::Io(error)) => return Err(error.into()),
        };
        // Another process may have ended it in between.
        Ok(self.settled(folder, run)?.map_or(Claim::Taken(lock), Claim::Settled))
    }

    /// Returns the state of a run that needs no work: finished, or failed since this process started.
    fn settled(&self, folder: &Store, run: &RunSpec) -> anyhow::Result<Option<RunState>> {
        let state = RunState::read(folder)?;
        let is_settled = match &state {
            RunState::Finished(_) => true,
            RunState::Failed(failure) => self.old_failures.get(&run.name) != Some(failure),
            RunState::Unfinished => false,
        };
        Ok(is_settled.then_some(state))
    }

    fn start(&self, run: RunSpec, folder: Store, lock: Lock) -> anyhow::Result<RunningChild> {
        let place = SweepPlan::run_folder(self.folder, &run);
        let path = place.join(OUTPUT);
        let output = OpenOptions::new().create(true).append(true).open(&path);
        let output = output.with_context(|| path.display().to_string())?;
        let jobs = self.execution.jobs;
        let is_used = |job: &usize| self.children.iter().any(|child| child.job == *job);
        let job = (0..jobs).find(|job| !is_used(job)).unwrap_or(0);
        let mut command = Command::new(&self.program);
        command.args(arguments(self.plan, &run, &place, jobs)).stdin(Stdio::null());
        if let Some(device) = self.devices.of_job(job, jobs, &run.settings) {
            command.env(devices::VARIABLE, device);
        }
        let process = command.stdout(output.try_clone()?).stderr(output).spawn();
        let process = process.with_context(|| format!("{}: cannot be started", self.program.display()))?;
        Ok(RunningChild { run, job, process, folder, started: Instant::now(), _lock: lock })
    }

    /// Collects children that have ended.
    fn collect(&mut self) -> anyhow::Result<()> {
        let mut at = 0;
        while at < self.children.len() {
            let Some(status) = self.children[at].process.try_wait()? else {
                at += 1;
                continue;
            };
            let child = self.children.remove(at);
            let state = self.end(&child, status)?;
            self.done.insert(child.run.name.clone());
            match state {
                RunState::Finished(result) => {
                    let seconds = time(child.started.elapsed().as_secs_f64());
                    line(format_args!("{}: {} ({seconds})", self.numbered(&child.run), result.text()));
                }
                RunState::Failed(failure) => {
                    self.failed += 1;
                    self.report_failure(&child.run, &failure);
                }
                // A stop was requested: the run continues with the next call.
                RunState::Unfinished => drop(self.done.remove(&child.run.name)),
            }
        }
        Ok(())
    }

    /// Returns the state of a run whose process has ended, and records a failure.
    fn end(&self, child: &RunningChild, status: ExitStatus) -> anyhow::Result<RunState> {
        if status.success() {
            match RunState::read(&child.folder)? {
                RunState::Unfinished => {}
                state => return Ok(state),
            }
        }
        if self.control.stop().is_cancelled() {
            return Ok(RunState::Unfinished);
        }
        let end = match (status.code(), status.signal()) {
            (Some(0), _) => "no results".to_owned(),
            (Some(code), _) => format!("exit code {code}"),
            (None, signal) => format!("signal {}", signal.unwrap_or_default()),
        };
        let error = last_error(&SweepPlan::run_folder(self.folder, &child.run).join(OUTPUT));
        let reporter = Holder::this_process().to_string();
        let failure = Failure { end, error, reporter, time: Clock::system().time() };
        failure.write(&child.folder)?;
        Ok(RunState::Failed(failure))
    }

    fn report_failure(&self, run: &RunSpec, failure: &Failure) {
        let output = SweepPlan::run_folder(self.folder, run).join(OUTPUT);
        let Failure { end, error, .. } = failure;
        note(format_args!("error: {}: failed with {end}: {error}; see {}", self.numbered(run), output.display()));
    }

    /// Returns the name of a run that has ended, after the number of such runs: `[3/6] lr1e-5-seed3`.
    fn numbered(&self, run: &RunSpec) -> String {
        format!("[{}/{}] {}", self.done.len(), self.runs.len(), run.name)
    }

    /// Asks the children to save and to end. A terminal has sent them the signal too, which is then the same request.
    fn terminate(&self) {
        for child in &self.children {
            let pid = rustix::process::Pid::from_child(&child.process);
            // The child may have ended in between.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
    }
}

/// Returns the arguments of the process of a run.
fn arguments(plan: &SweepPlan, run: &RunSpec, place: &Path, jobs: usize) -> Vec<String> {
    let text = |path: &Path| path.display().to_string();
    let mut arguments = vec!["finetune".to_owned(), text(&plan.data)];
    let mut add = |flag: &str, value: String| arguments.extend([flag.to_owned(), value]);
    add("--task", plan.task_argument.clone());
    add("--from", text(&plan.from[run.model]));
    if let Some(step) = plan.from_steps[run.model] {
        add("--from-step", step.to_string());
    }
    add("--out", text(place));
    add("--seed", run.seed.to_string());
    if let Some(preset) = plan.preset {
        add("--preset", preset.name().to_owned());
    }
    if run.fraction < 1.0 {
        add("--train-fraction", run.fraction.to_string());
    }
    arguments.extend(plan.few_shot.map(FewShotPlan::arguments).unwrap_or_default());
    arguments.extend(run.settings.iter().flat_map(Setting::arguments));
    let sets_threads = run.settings.iter().any(|setting| setting.key == "train.threads");
    if jobs > 1 && !sets_threads {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        arguments.extend(["--set".to_owned(), format!("train.threads={}", (cores / jobs).max(1))]);
    }
    arguments
}

/// Returns the last error in the output of a run, else its last line.
fn last_error(output: &Path) -> String {
    let read = || -> std::io::Result<String> {
        let mut file = File::open(output)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(OUTPUT_TAIL)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = read().unwrap_or_default();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let error = text.lines().rev().find_map(|line| line.trim().strip_prefix("error: "));
    error.or_else(|| lines.next_back()).unwrap_or("it printed nothing").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_error_of_an_output_is_found() {
        let home = tempfile::tempdir().expect("a folder");
        let found = |text: &str| {
            let written = Store::folder(home.path()).and_then(|folder| folder.put(OUTPUT, text.as_bytes()));
            written.expect("written");
            last_error(&home.path().join(OUTPUT))
        };
        assert_eq!(found("step 1\nerror: first\nerror: `x` is wrong\n   in: a.toml\n"), "`x` is wrong");
        assert_eq!(found("step 1\nstep 2\n\n"), "step 2");
        assert_eq!(found(""), "it printed nothing");
        assert_eq!(last_error(Path::new("/absent")), "it printed nothing");
    }
}
