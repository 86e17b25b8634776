//! `cloze train`: the composition of everything.
//!
//! A plan, a held folder, lanes that make batches, and the trainer on a thread of its own. [`Feed`] is what
//! the trainer sees of the pipeline, [`Keeper`] what it sees of the run folder, of the signals and of
//! those who watch.

mod beside;
mod feed;
mod keeper;
mod phases;
mod profiler;
mod start;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::process::ExitCode;
use std::str::FromStr as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cloze::chaos::{Chaos, Storm};
use cloze::cli::ConfigArgs;
use cloze::config::{Config, Parsed, RunConfig};
use cloze::control::profile_file::{Wanted, Wish};
use cloze::control::{Control, Patience, Phase, Signal, obeyed};
use cloze::data::Purpose;
use cloze::exit::Usage;
use cloze::left_out::RunLeftOut;
use cloze::plan::{Plan, describe, warnings};
use cloze::run_folder::RunFolder;
use cloze::seen::Sight;
use pipeline::ledger::Ledger;
use pipeline::load::{Contention, Hindrance};
use schemas::Share;
use server::ServeConfig;
use store::{Lock, Store, Weather};
use telemetry::alerts::Alerts;
use telemetry::dispatcher::Dispatcher;
use telemetry::otlp::{Otlp, RunResource};
use telemetry::tensorboard::TensorBoard;
use telemetry::terminal::{Course, Doing, Printer, note};
use telemetry::{Clock, Many, Observer};
use trainer::device::ResolveDevice as _;
use trainer::training::checkpoint::{Export, Keeping};
use trainer::training::{Alone, Data, Outcome};
use trainer_plan::config::{GuardRule, TrainConfig};
use trainer_plan::identity::check_allowed;
use trainer_plan::run::{branch, step_budget};
use trainer_plan::stop_request::StopRequest;

use self::feed::{Feed, Kept};
use self::keeper::Keeper;
use self::phases::{Phases, Slow};
use self::profiler::Profiler;
use self::start::Start;
use crate::export;
use crate::step_profile::Shape;

/// What to do with a plan beside following it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options<'a> {
    /// Micro-batches that are repeated for ever.
    pub(crate) replay: Option<u64>,
    /// The corpus is prepared too.
    pub(crate) prepare: bool,
    /// A phase that is slowed.
    pub(crate) slow: Option<&'a str>,
    /// Faults to live with.
    pub(crate) chaos: Option<&'a str>,
    /// Steps that are measured.
    pub(crate) profile: Option<&'a str>,
    /// Keys that may be others than those of the newest checkpoint.
    pub(crate) allow: &'a [String],
}

/// Plans and runs. The exit code tells a finished run from one that a signal stopped.
pub(crate) fn run(args: &ConfigArgs, options: Options<'_>) -> anyhow::Result<ExitCode> {
    check_allowed(options.allow).map_err(|problem| Usage(format!("--allow: {problem}")))?;
    let config = Parsed::read(&args.config, &args.set)?.config;
    let folder = &config.run.folder;
    // What is measured is told to nobody; and where the section is wrong, the plan says so: a mistake may be a secret.
    let tells = options.replay.is_none() && config.alerts.problems().is_empty();
    let alerts = if tells { Alerts::start(&config.alerts, &folder.display().to_string(), folder)? } else { None };
    let done = carried_out(args, options, config, alerts.as_ref());
    if let (Some(alerts), Err(error)) = (&alerts, &done) {
        alerts.failed(error);
    }
    // The last alerts go out before this process does, now that all is saved.
    drop(alerts);
    done
}

fn carried_out(
    args: &ConfigArgs,
    options: Options<'_>,
    config: Config,
    alerts: Option<&Alerts>,
) -> anyhow::Result<ExitCode> {
    let Options { replay, prepare, slow, chaos, profile, allow } = options;
    let profiled = profile.map(|text| Wish::from_str(text).map_err(|problem| Usage(format!("--profile {problem}"))));
    let profiled = profiled.transpose()?;
    let slow = slow.map(Slow::parse).transpose()?;
    let storm = chaos.map(Chaos::parse).transpose()?.map(|chaos| Arc::new(Storm::of(chaos)));
    // Heard from here on: also while it plans, and while it waits for data.
    let phases = Phases { control: Arc::new(Control::start()?), slow };
    let over = |store: Store| storm.as_ref().map_or_else(|| store.clone(), |storm| storm.over(&store));
    let Config { data, run, serve, .. } = config;
    // Nor is it looked at.
    let served = if replay.is_some() { ServeConfig::default() } else { serve };
    let sight = Sight::open(&served, &run.folder, &phases.control)?;
    let find = |folder: &Path| start::find(folder, data.order).map(over);
    let planned = || Ok(Plan::over(args, find, Purpose::Run)?.allowing(allow));
    let watched = |is_waiting: bool| -> anyhow::Result<()> {
        if replay.is_some() { Ok(()) } else { watch(&run, is_waiting, over, &phases.control) }
    };
    watched(false)?;
    let start = start::start(args, &data, &planned, prepare, &|| watched(true))?;
    for key in allow.iter().filter(|key| !start.plan.train().identity.keys().contains_key(*key)) {
        note(format_args!("warning: --allow {key}: no such key belongs to this run's identity; it says nothing here"));
    }
    for warning in warnings::of(&start.plan) {
        note(format_args!("warning: {warning}"));
    }
    if let Some(why) = start.plan.train().train.device.left_out() {
        note(format_args!(
            "warning: `train.device = \"auto\"` is the CPU, though this machine has a GPU's driver: {why}"
        ));
    }
    if let (Some(Wish { wanted: Wanted::Steps(steps), .. }), Some(last)) =
        (&profiled, start.plan.train().steps_expected())
        && steps.start >= last
    {
        return Err(Usage(format!("--profile {}..{}: the run has {last} steps", steps.start, steps.end)).into());
    }
    let (Start { plan, beside }, control) = (start, Arc::clone(&phases.control));
    let outcome = if replay.is_some() {
        // Nothing is read or kept: this measures, it does not train.
        train(
            &plan,
            &Store::memory(Weather::calm()),
            Around { run: None, replay, storm, phases, profiled: None, readers: Vec::new() },
        )
    } else {
        let again = || planned().inspect(|plan| start::tie(plan, beside.as_ref()));
        let told = alerts.and_then(Alerts::reader);
        kept(plan, again, over, (storm.clone(), phases, profiled), (sight, told)).inspect_err(|error| {
            if let Some(line) = replay_line(error, args) {
                note(format_args!("hint: see what it learnt from with `{line}`"));
            }
        })
    };
    if matches!(outcome, Ok(Outcome::Finished(_))) {
        // One that was done before was ready for all that was left: who manages it takes an end before that for a failure.
        control.notify().ready();
        control.notify().stopping();
    }
    // What ended the preparation has ended the training too.
    let outcome = match beside {
        Some(beside) => beside.end(outcome),
        None => outcome,
    };
    Ok(match outcome? {
        Outcome::Finished(step) => {
            if replay.is_some() {
                note(format_args!("done: {step} steps over the same batches; nothing was kept"));
            }
            ExitCode::SUCCESS
        }
        Outcome::Stopped(_, stop) => ExitCode::from(code(stop)),
    })
}

/// Trains in the folder of the run.
fn kept(
    plan: Plan,
    planned: impl Fn() -> anyhow::Result<Plan>,
    over: impl Fn(Store) -> Store,
    (storm, phases, profiled): (Option<Arc<Storm>>, Phases, Option<Wish>),
    (sight, told): (Option<Sight>, Option<Box<dyn Observer>>),
) -> anyhow::Result<Outcome> {
    let mut plan = plan;
    let folder = over(Store::folder(&plan.config().run.folder)?);
    let run = RunFolder::hold(&folder)?;
    if branch::is_cut_short(run.store())? {
        let message = "a branch was begun here and not completed; give the same `cloze branch` again";
        return Err(Usage(format!("{}: {message}", run.store().place(""))).into());
    }
    if step_budget::spans(run.store())? != plan.train().amended.spans {
        // Somebody has extended the run, or gone back, since it was planned.
        plan = planned()?;
    }
    let store = run.store().clone();
    phases.control.watch(patience(&plan.config().run, &store))?;
    phases.enter(Phase::Start);
    if let Some(sight) = &sight {
        sight.planned(&plan, &store);
    }
    let config = &plan.config().run;
    let name = config.folder.display().to_string();
    let (identity, steps) = (Some(plan.train().identity.hash().to_owned()), plan.train().steps_expected());
    let otlp = Otlp::start(config.otlp, &RunResource { name, identity, steps });
    let sent = otlp.as_ref().map(Otlp::reader);
    // A disk that hangs beneath the last keeps none of the others from hearing.
    let drawn = config.tensorboard.then(|| Box::new(TensorBoard::of(&config.folder)) as _);
    let readers = sight.iter().map(Sight::reader).chain(told).chain(sent).chain(drawn).collect();
    let outcome = train(&plan, &store, Around { run: Some(run), replay: None, storm, phases, profiled, readers })?;
    if matches!(outcome, Outcome::Stopped(..)) {
        obeyed(&folder)?;
    }
    Ok(outcome)
}

/// Listens to the folder of a run before its plan is known: if it is there, or the run waits for its data, which may take
/// hours.
fn watch(run: &RunConfig, is_waiting: bool, over: impl Fn(Store) -> Store, control: &Control) -> anyhow::Result<()> {
    let is_there = run.folder.is_dir();
    if run.folder.as_os_str().is_empty() || !(is_there || is_waiting) {
        return Ok(());
    }
    let folder = over(if is_there { Store::existing(&run.folder)? } else { Store::folder(&run.folder)? });
    // Where another process trains, the file is for that.
    if Lock::seen(&folder, store::LOCK)?.is_some() {
        return Ok(());
    }
    control.watch(patience(run, &folder))
}

fn patience(run: &RunConfig, folder: &Store) -> Patience {
    let seconds = |seconds: u64| (seconds > 0).then(|| Duration::from_secs(seconds));
    Patience { folder: folder.clone(), grace: seconds(run.grace_seconds), hang: seconds(run.hang_seconds) }
}

fn code(stop: StopRequest) -> u8 {
    match stop {
        StopRequest::Interrupt => Signal::Interrupt.exit_code(),
        StopRequest::Terminate => Signal::Terminate.exit_code(),
        StopRequest::Hangup => Signal::Hangup.exit_code(),
        StopRequest::Requeue => Signal::Requeue.exit_code(),
        StopRequest::Guard => cloze::exit::PAUSED,
    }
}

/// The line of shell that shows the batch that a run failed over, configured as the run was.
fn replay_line(error: &anyhow::Error, args: &ConfigArgs) -> Option<String> {
    let trainer_plan::Error::NonFinite { batch, .. } = error.downcast_ref()? else { return None };
    let mut words = vec![format!("cloze inspect batch {batch} --config"), quoted(&args.config.to_string_lossy())];
    words.extend(args.set.iter().flat_map(|set| ["--set".to_owned(), quoted(set)]));
    Some(words.join(" "))
}

/// One word of a shell.
fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./=:,+@%".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// How the checkpoints of a plan are kept.
fn keeping(plan: &Plan) -> anyhow::Result<Keeping> {
    let rules = plan.train().checkpoints.clone();
    let model = rules.export.map(|family| export::Model::of(plan, family)).transpose()?;
    let export =
        model.map(|model| -> Export { Box::new(move |weights, folder| model.put(weights, folder).map(|_| ())) });
    let goes_back = plan.train().guard.rule == GuardRule::Skip;
    Ok(Keeping { rules, export, goes_back })
}

/// What is around a training.
struct Around {
    /// None where nothing is kept.
    run: Option<RunFolder>,
    replay: Option<u64>,
    storm: Option<Arc<Storm>>,
    phases: Phases,
    /// Steps that are measured.
    profiled: Option<Wish>,
    /// Those who watch beside the work.
    readers: Vec<Box<dyn Observer>>,
}

/// How far it is, for people who look at it.
fn course(plan: &Plan, phases: &Phases) -> Course {
    let config = &plan.train().train;
    let (steps, rows_per_step) = (config.steps, config.rows_per_step.max(1));
    let control = Arc::clone(&phases.control);
    let look = move || {
        let (rows, phase) = control.board().course();
        let is_learning = matches!(phase, Phase::Data | Phase::Step);
        Doing { steps: rows / rows_per_step, phase: (!is_learning).then(|| phase.name()) }
    };
    Course { steps: (steps < TrainConfig::STEPS_ENDLESS).then_some(steps), look: Box::new(look) }
}

/// The batches of a training of which nothing is kept; made slowly, if that is asked for.
pub(crate) fn unkept(
    plan: &Plan,
    control: &Arc<Control>,
    slowed: (Option<Hindrance>, Contention),
) -> impl Data + use<> {
    let kept = Kept { left_out: Arc::<RunLeftOut>::default() as _, ledger: Arc::default() };
    let phases = Phases { control: Arc::clone(control), slow: None };
    let mut feed = Feed::new(plan, Share::ALONE, None, kept, None, phases);
    feed.slowed = slowed;
    feed
}

/// Trains on a thread of its own, from what is in the store on.
fn train(plan: &Plan, store: &Store, around: Around) -> anyhow::Result<Outcome> {
    let Around { run, replay, storm, phases, profiled, readers } = around;
    let left_out = Arc::<RunLeftOut>::default();
    let ledger = Arc::<Mutex<Ledger>>::default();
    let kept = Kept { left_out: Arc::clone(&left_out) as _, ledger: Arc::clone(&ledger) };
    let watchers = Dispatcher::start(readers)?;
    let mut feed = Feed::new(plan, Share::ALONE, replay, kept, storm.as_ref(), phases.clone());
    let mut keeper = Keeper {
        readers: Many(vec![Box::new(Printer::start(run.is_some(), course(plan, &phases))?), Box::new(watchers)]),
        run,
        generations: plan.data().generations(),
        left_out,
        ledger,
        identity: plan.train().identity.hash().to_owned(),
        storm,
        papers: vec![("config.toml", plan.resolved_toml()), ("plan.json", describe::json(plan))],
        keeping: Arc::new(keeping(plan)?),
        phases,
        steps: plan.train().steps_expected(),
        pending: None,
        profiler: Profiler::new(Shape::of(plan), profiled),
    };
    let (training, store) = (plan.train().clone(), store.clone());
    let thread = runtime::spawn("trainer", move || {
        let outcome =
            trainer::training::run(&training, Box::new(Alone), &store, &Clock::system(), &mut feed, &mut keeper);
        // What went wrong first is what to say.
        (outcome, keeper.close())
    })?;
    let joined = thread.join();
    let (outcome, closed) = joined.inspect_err(|_| {
        note("the trainer broke off: what was learnt since the newest checkpoint is not saved");
    })?;
    let outcome = outcome?;
    closed?;
    Ok(outcome)
}
