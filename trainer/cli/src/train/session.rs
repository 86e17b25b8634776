//! Steps of `cloze train`.

use std::path::Path;
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use cloze::cli::ConfigArgs;
use cloze::config::{Config, RunConfig};
use cloze::exit::Usage;
use cloze::plan::{Plan, warnings};
use cloze::run::control::profile_file::{ProfileRequest, RequestedProfile};
use cloze::run::control::{Control, Phase, Timeouts, obeyed};
use cloze::run::data::Purpose;
use cloze::run::fault_injection::{FaultInjector, FaultPlan};
use cloze::run::folder::RunFolder;
use cloze::run::monitoring::TrainingBackend;
use pipeline::load::DataConfig;
use server::ServeConfig;
use store::{FaultConfig, Lock, Store};
use telemetry::alerts::Alerts;
use telemetry::terminal::note;
use trainer::device::ResolveDevice as _;
use trainer::training::{RunOutcome, SingleProcess};
use trainer_plan::launch::Launch;
use trainer_plan::run::{branch, step_budget};

use super::concurrent_prepare::ConcurrentPrepare;
use super::monitoring::Exporters;
use super::options::Options;
use super::outcome;
use super::ranks;
use super::run_phase::{Phases, SlowPhase};
use super::start::{self, ReadyRun};
use super::trainer_thread::{RunContext, train};

/// Session of `cloze train`, from its command line to its outcome.
pub(super) struct TrainSession<'a> {
    args: &'a ConfigArgs,
    options: Options<'a>,
    data: DataConfig,
    run: RunConfig,
    /// Steps to profile.
    profile: Option<ProfileRequest>,
    /// Fault injector.
    faults: Option<Arc<FaultInjector>>,
    phases: Phases,
    /// Place among the ranks. `None` for a single process.
    launch: Option<Launch>,
    /// Server of `[serve]`. `None` if it is off, and for `--replay`.
    server: Option<TrainingBackend>,
    /// Preparation of `--prepare`, after [`Self::wait_for_plan`].
    preparation: Option<ConcurrentPrepare>,
}

impl<'a> TrainSession<'a> {
    /// Parses the options, installs the signal handlers, and starts the server of `[serve]`.
    ///
    /// Signals are handled from here on, also while the run is planned and while it waits for its data.
    pub(super) fn open(args: &'a ConfigArgs, options: Options<'a>, config: Config) -> anyhow::Result<Self> {
        let parse_profile =
            |text: &str| ProfileRequest::from_str(text).map_err(|problem| Usage(format!("--profile {problem}")));
        let profile = options.profile.map(parse_profile).transpose()?;
        let slow = options.slow.map(SlowPhase::parse).transpose()?;
        let faults =
            options.faults.map(FaultPlan::parse).transpose()?.map(|faults| Arc::new(FaultInjector::new(faults)));
        let phases = Phases { control: Arc::new(Control::start()?), slow };
        let launch = ranks::launched()?;
        ranks::check_options(launch.as_ref(), options)?;
        let Config { data, run, serve, .. } = config;
        let is_served = options.replay.is_none() && ranks::is_first(launch.as_ref());
        let serve = if is_served { serve } else { ServeConfig::default() };
        let server = TrainingBackend::open(&serve, &run.folder, &phases.control)?;
        Ok(Self { args, options, data, run, profile, faults, phases, launch, server, preparation: None })
    }

    /// Watches the run folder for requests, if it exists.
    pub(super) fn watch_run_folder(&self) -> anyhow::Result<()> {
        let folder = &self.run.folder;
        self.watch(remote_store::may_exist(folder))
    }

    /// Plans the run as soon as its first data is prepared. Starts the preparation of `--prepare`.
    pub(super) fn wait_for_plan(&mut self) -> anyhow::Result<Plan> {
        let make_plan = || self.make_plan();
        // A wait may take hours, so the folder is created for requests.
        let on_wait = || self.watch(true);
        let ReadyRun { plan, preparation } =
            start::plan_when_ready(self.args, &self.data, &make_plan, self.options.prepare, &on_wait)?;
        self.preparation = preparation;
        Ok(plan)
    }

    /// Warns, once for all ranks, of options without effect, of keys that contradict each other and of a GPU that is
    /// not used.
    pub(super) fn log_warnings(&self, plan: &Plan) {
        if !ranks::is_first(self.launch.as_ref()) {
            return;
        }
        let identity = plan.train().identity.keys();
        for key in self.options.allow_change.iter().filter(|key| !identity.contains_key(*key)) {
            note(format_args!(
                "warning: --allow-change {key}: the run's identity has no such key; the option has no effect"
            ));
        }
        for warning in warnings::collect(plan) {
            note(format_args!("warning: {warning}"));
        }
        if let Some(reason) = plan.train().train.device.left_out() {
            note(format_args!(
                "warning: `train.device = \"auto\"` uses the CPU although this machine has a CUDA driver: {reason}"
            ));
        }
    }

    /// Returns an error if `--profile` names steps that the run does not have.
    pub(super) fn check_profiled_steps(&self, plan: &Plan) -> anyhow::Result<()> {
        if let (Some(ProfileRequest { wanted: RequestedProfile::Steps(steps), .. }), Some(last)) =
            (&self.profile, plan.train().steps_expected())
            && steps.start >= last
        {
            return Err(Usage(format!("--profile {}..{}: the run has {last} steps", steps.start, steps.end)).into());
        }
        Ok(())
    }

    /// Trains in the run folder. For `--replay`, trains on repeated batches without a folder.
    pub(super) fn train(&mut self, plan: Plan, alerts: Option<&Alerts>) -> anyhow::Result<RunOutcome> {
        if self.options.replay.is_some() {
            return self.train_without_folder(&plan);
        }
        if let Some(launch) = self.launch.clone() {
            ranks::check_plan(&launch, &plan)?;
            if launch.rank > 0 {
                return self.train_on_other_rank(plan, &launch);
            }
        }
        self.train_in_folder(plan, alerts).inspect_err(|error| outcome::log_hint(error, self.args))
    }

    /// Tells the service manager that a run has finished.
    pub(super) fn notify_finished(&self, outcome: &anyhow::Result<RunOutcome>) {
        if matches!(outcome, Ok(RunOutcome::Finished(_))) {
            let notify = self.phases.control.notify();
            // systemd counts an end before readiness as a failure, and a run without remaining steps was never ready.
            notify.ready();
            notify.stopping();
        }
    }

    /// Ends the preparation of `--prepare`. If it failed, its error comes first, because it also ended the training.
    pub(super) fn end_preparation(&mut self, outcome: anyhow::Result<RunOutcome>) -> anyhow::Result<RunOutcome> {
        match self.preparation.take() {
            Some(preparation) => preparation.end(outcome),
            None => outcome,
        }
    }

    fn train_without_folder(&self, plan: &Plan) -> anyhow::Result<RunOutcome> {
        let context = RunContext {
            run: None,
            ranks: Arc::new(SingleProcess),
            replay: self.options.replay,
            faults: self.faults.clone(),
            phases: self.phases.clone(),
            profile: None,
            observers: Vec::new(),
        };
        train(plan, &Store::in_memory(FaultConfig::none()), context)
    }

    fn train_in_folder(&mut self, plan: Plan, alerts: Option<&Alerts>) -> anyhow::Result<RunOutcome> {
        // Dropped at the end of the training, not of the session.
        let server = self.server.take();
        let folder = self.with_faults(remote_store::open_path(&plan.config().run.folder)?);
        let run = hold_folder(&folder)?;
        let plan = self.replan_if_changed(plan, run.store())?;
        let store = run.store().clone();
        self.phases.control.watch(timeouts(&plan.config().run, &store))?;
        self.phases.begin(Phase::Start);
        if let Some(server) = &server {
            server.planned(&plan, &store);
        }
        let exporters = Exporters::start(&plan);
        let ranks = match &self.launch {
            Some(launch) => ranks::connect(launch, &plan)?,
            None => Arc::new(SingleProcess),
        };
        let context = RunContext {
            run: Some(run),
            ranks,
            replay: None,
            faults: self.faults.clone(),
            phases: self.phases.clone(),
            profile: self.profile.take(),
            observers: exporters.observers(server.as_ref(), alerts),
        };
        let outcome = train(&plan, &store, context)?;
        if matches!(outcome, RunOutcome::Stopped(..)) {
            obeyed(&folder)?;
        }
        Ok(outcome)
    }

    /// Trains on the share of a rank other than 0. It writes nothing: rank 0 holds the folder when the ranks connect.
    fn train_on_other_rank(&mut self, plan: Plan, launch: &Launch) -> anyhow::Result<RunOutcome> {
        let folder = self.with_faults(remote_store::open_path(&plan.config().run.folder)?);
        // Rank 0 takes the requests of the folder.
        let no_requests = Store::in_memory(FaultConfig::none());
        self.phases.control.watch(timeouts(&plan.config().run, &no_requests))?;
        let group = ranks::connect_group(launch, &plan)?;
        let plan = self.replan_if_changed(plan, &folder)?;
        ranks::check_same_plan(group.as_ref(), &plan)?;
        self.phases.begin(Phase::Start);
        let context = RunContext {
            run: None,
            ranks: group,
            replay: None,
            faults: self.faults.clone(),
            phases: self.phases.clone(),
            profile: None,
            observers: Vec::new(),
        };
        train(&plan, &folder, context)
    }

    /// Plans with the data that is prepared so far.
    fn make_plan(&self) -> anyhow::Result<Plan> {
        let find = |folder: &Path| start::find_data(folder, self.data.order).map(|store| self.with_faults(store));
        Ok(Plan::new(self.args, find, Purpose::Run)?.allowing(self.options.allow_change))
    }

    /// Plans again if the run was extended or rolled back since it was planned.
    fn replan_if_changed(&self, plan: Plan, run: &Store) -> anyhow::Result<Plan> {
        if step_budget::spans(run)? == plan.train().amended.spans {
            return Ok(plan);
        }
        let plan = self.make_plan()?;
        start::fail_with_preparation(&plan, self.preparation.as_ref());
        Ok(plan)
    }

    /// Watches the run folder for requests if `is_wanted`. Creates the folder if it is missing.
    fn watch(&self, is_wanted: bool) -> anyhow::Result<()> {
        let path = &self.run.folder;
        // The plan refuses a location that cannot be written, together with all other mistakes.
        let is_first = ranks::is_first(self.launch.as_ref());
        if !is_first
            || self.options.replay.is_some()
            || path.as_os_str().is_empty()
            || !is_wanted
            || RunFolder::is_read_only(path)
        {
            return Ok(());
        }
        let folder = self.with_faults(remote_store::open_path(path)?);
        // If another process trains in the folder, the requests are for that process.
        if Lock::seen(&folder, store::LOCK)?.is_some() {
            return Ok(());
        }
        self.phases.control.watch(timeouts(&self.run, &folder))
    }

    /// Returns the store with the faults of `--inject-faults`.
    fn with_faults(&self, store: Store) -> Store {
        match &self.faults {
            Some(faults) => faults.wrap(&store),
            None => store,
        }
    }
}

/// Takes the lock of a run folder. Returns an error if the folder has an incomplete branch.
fn hold_folder(folder: &Store) -> anyhow::Result<RunFolder> {
    let run = RunFolder::acquire(folder)?;
    if branch::is_cut_short(run.store())? {
        let message = "the branch in this folder is incomplete; run the same `cloze branch` command again";
        return Err(Usage(format!("{}: {message}", run.store().place(""))).into());
    }
    Ok(run)
}

fn timeouts(run: &RunConfig, folder: &Store) -> Timeouts {
    let seconds = |seconds: u64| (seconds > 0).then(|| Duration::from_secs(seconds));
    Timeouts {
        folder: folder.clone(),
        shutdown_timeout: seconds(run.shutdown_timeout_seconds),
        stall_timeout: seconds(run.stall_timeout_seconds),
    }
}
